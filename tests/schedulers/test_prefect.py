"""The flow of the examples, in Prefect itself.

In an environment of its own; why FastAPI is kept back says `.ci/run`:

    pip install -e . pytest prefect 'fastapi<0.153'
    pytest -o addopts= -o filterwarnings= --noconftest tests/schedulers/test_prefect.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from night_shop import EXAMPLES, days, environment, make, rows_by_day

prefect = pytest.importorskip("prefect", reason="pip install prefect, in its own environment")


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture
def example(tmp_path: Path, server: None) -> Iterator[dict[str, Any]]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with environment(SEARCH_FOLDER=str(tmp_path), PATH=path):
        yield run_path(str(EXAMPLES / "prefect_flow.py"))


def test_a_flow_fills_exactly_its_days(example: dict[str, Any], tmp_path: Path) -> None:
    make(tmp_path)
    example["ranking_metrics"]("2026-01-02", "2026-01-05")
    assert rows_by_day(tmp_path) == days(1, 4)


def test_by_itself_it_takes_yesterday(example: dict[str, Any], tmp_path: Path) -> None:
    now: date = datetime.now(UTC).date()
    make(tmp_path, now - timedelta(3), 4)
    example["ranking_metrics"]()
    assert rows_by_day(tmp_path) == {now - timedelta(1): 4}
