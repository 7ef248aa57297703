"""Snowflake's names and syntax, read by fakesnow: an emulator, not Snowflake.

In an environment of its own: fakesnow keeps Snowflake's driver and sqlglot back.

    pip install -e . pytest fakesnow 'snowflake-connector-python[pandas]<5'
    pytest -o addopts= tests/snowflake
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from sqlmetrics.doctor.doctor import examine, executed
from sqlmetrics.engines.translated import Translated
from sqlmetrics.trust import keep

fakesnow = pytest.importorskip("fakesnow", reason="pip install fakesnow, in its own environment")


@pytest.fixture
def connection() -> Iterator[Any]:
    import snowflake.connector

    with warnings.catch_warnings(), fakesnow.patch():
        warnings.simplefilter("ignore")
        yield snowflake.connector.connect(database="DB", schema="PUBLIC")


def test_every_number(connection: Any) -> None:
    from sqlmetrics.engines.dbapi import DbApi
    from sqlmetrics.engines.snowflake import Snowflake

    class Emulated(Snowflake):
        """It knows neither COLLATE '' nor how the driver loads a DataFrame."""

        name = "fakesnow"
        version = fakesnow.__version__ if hasattr(fakesnow, "__version__") else "0.12"
        TYPES: ClassVar = {**Snowflake.TYPES, "VARCHAR": "varchar"}
        _fill = DbApi._fill

    with Translated(Emulated(connection)) as engine:
        report = examine(engine)
    assert report.failures == []
    assert len(report.findings) >= 90
    assert report.compared > 130_000
    if os.environ.get("UPDATE_GOLDEN"):
        keep("fakesnow", executed(report))
