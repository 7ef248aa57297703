"""Snowflake's names and syntax, read by fakesnow: an emulator, not Snowflake.

In an environment of its own: fakesnow keeps Snowflake's driver and sqlglot back.

    pip install -e . pytest fakesnow 'snowflake-connector-python[pandas]<5'
    pytest -o addopts= -o pythonpath="tests tests/jobs" --noconftest tests/snowflake
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from job_days import FIRST, check, check_clicks, click_job, click_log, facts, job, log
from slices import commit, is_all
from slices import keep as is_drawn

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.files import compile_job
from sqlmetrics.proof.doctor import examine, executed
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.conformance import keep

fakesnow = pytest.importorskip("fakesnow", reason="pip install fakesnow, in its own environment")


@pytest.fixture
def connection() -> Iterator[Any]:
    import snowflake.connector

    with warnings.catch_warnings(), fakesnow.patch():
        warnings.simplefilter("ignore")
        yield snowflake.connector.connect(database="DB", schema="PUBLIC")


@pytest.fixture
def emulated(connection: Any) -> Iterator[Any]:
    from sqlmetrics.engines.dbapi import DbApi
    from sqlmetrics.engines.snowflake import Snowflake

    class Emulated(Snowflake):
        """It knows neither COLLATE '' nor how the driver loads a DataFrame."""

        name = "fakesnow"
        version = fakesnow.__version__ if hasattr(fakesnow, "__version__") else "0.12"
        TYPES: ClassVar = {**Snowflake.TYPES, "VARCHAR": "varchar"}
        _fill = DbApi._fill

    with Database(Emulated(connection)) as engine:
        yield engine


def test_every_number(emulated: Any) -> None:
    """A fifth of the cases, and all by night: the emulator reads each statement by Python."""
    report = examine(emulated, only=lambda name: is_drawn(f"fakesnow {name}", 0.2))
    assert report.failures == []
    assert len(report.findings) >= (90 if is_all() else 10)
    assert report.compared > (130_000 if is_all() else 5_000)
    if os.environ.get("UPDATE_GOLDEN"):
        keep("fakesnow", executed(report), commit())


def carried_out(connection: Any, spec: Spec, ranges: Iterable[tuple[int, int]]) -> None:
    """A compiled job, with the days in the place of snowsql's variables."""
    files = compile_job(spec, "snowflake")
    text = "\n".join(content for name, content in files.items() if name.endswith(".sql"))
    text = text.replace("alter session set timezone = 'UTC';", "")  # the emulator has no zones
    for start, end in ranges:
        dated = text.replace("&start", str(FIRST + timedelta(start)))
        dated = dated.replace("&end", str(FIRST + timedelta(end)))
        for statement in filter(str.strip, re.split(r";\n(?:\n|$)", dated)):
            connection.cursor().execute(statement)


def test_a_compiled_job(connection: Any, emulated: Any) -> None:
    for name, rows in zip(("runs", "truth"), log(), strict=True):
        emulated.load(name, rows)
    carried_out(connection, job(), ((0, 3), (2, 6), (4, 5)))
    check(emulated, [*range(6)])


def test_a_compiled_job_of_a_click_log(connection: Any, emulated: Any) -> None:
    tables = click_log(1)
    for name, table in tables.items():
        emulated.load(name, table)
    carried_out(connection, click_job(), ((2, 5), (0, 3)))
    check_clicks(facts(emulated, "log"), tables)
