"""The asset of the examples, in Dagster itself: its run and its backfill fill exactly their days.

In an environment of its own:

    pip install -e . pytest dagster
    pytest -o addopts= -o filterwarnings= --noconftest tests/schedulers/test_dagster.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from night_shop import EXAMPLES, FIRST, days, environment, make, rows_by_day, runs

dg = pytest.importorskip("dagster", reason="pip install dagster, in its own environment")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with environment(SEARCH_FOLDER=str(tmp_path), PATH=path):
        yield make(tmp_path)


@pytest.fixture
def example(shop: Path) -> dict[str, Any]:
    return run_path(str(EXAMPLES / "dagster_assets.py"))


def test_a_partition_fills_its_day_and_is_checked(example: dict[str, Any], shop: Path) -> None:
    for _ in range(2):  # a retry changes nothing
        result = dg.materialize([example["ranking_metrics"]], partition_key="2026-01-03")
        assert result.success
        assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
        assert rows_by_day(shop) == days(2, 3)
    (event,) = result.asset_materializations_for_node("ranking_metrics")
    assert event.metadata["outcome"].value == "replaced"
    assert event.metadata["rows"].value == {"ranking_metrics": 4}


def test_a_backfill_is_one_run_of_exactly_its_days(example: dict[str, Any], shop: Path) -> None:
    tags = {
        "dagster/asset_partition_range_start": "2026-01-02",
        "dagster/asset_partition_range_end": "2026-01-05",
    }
    assert dg.materialize([example["ranking_metrics"]], tags=tags).success
    assert rows_by_day(shop) == days(1, 5)
    assert runs(shop) == [(FIRST + timedelta(1), FIRST + timedelta(5))]


def test_the_schedule_is_of_the_day_before(example: dict[str, Any], shop: Path) -> None:
    due = datetime(2026, 1, 4, 2, 0, tzinfo=UTC)
    nightly = example["defs"].resolve_schedule_def("ranking_metrics_nightly_schedule")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_schedule_context(instance=instance, scheduled_execution_time=due)
        tick = nightly.evaluate_tick(context)
    assert [request.partition_key for request in tick.run_requests] == ["2026-01-03"]


def test_a_check_that_fails_is_told(example: dict[str, Any], shop: Path) -> None:
    spec = shop / "search.yml"
    spec.write_text(spec.read_text().replace("min: 0.4", "min: 0.9"))
    result = dg.materialize([example["ranking_metrics"]], partition_key="2026-01-03")
    assert result.success
    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert [row["system"] for row in evaluation.metadata["broken"].value] == ["old"]


def test_a_day_without_data_is_tried_again(example: dict[str, Any], shop: Path) -> None:
    with pytest.raises(dg.RetryRequested):
        example["ranking_metrics"](dg.build_asset_context(partition_key="2026-03-01"))
    assert rows_by_day(shop) == {}
