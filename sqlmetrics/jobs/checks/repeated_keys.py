"""Rows of a job's tables that stand there twice: not every database keeps a key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.checks.calendar import Calendar
from sqlmetrics.jobs.schema import COUNTED, TABLES
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.spec.days import Ends, as_sql, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation


def repeated_keys(
    spec: Spec, engine: Database, calendar: Calendar
) -> Iterator[tuple[str, date, int]]:
    """Table, day and number of keys that have more than one row, where there are any.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.
        calendar: The days that are looked at.
    """
    if not calendar.days:
        return
    ends = Ends(as_sql(calendar.days[0]), None, as_sql(calendar.days[-1]))
    conditions = [f"spec = {literal(spec.title)}", *ends.of("metric_date")]
    for table, name in targets(spec).items():
        if table not in COUNTED or not columns_of(name, engine):
            continue
        rows = engine.rows(
            "select metric_date, count(*) as n_keys\nfrom (\n    select metric_date\n"
            f"    from {relation(name)}\n    where {' and '.join(conditions)}\n"
            f"    group by {', '.join(TABLES[table].key)}\n    having count(*) > 1\n) as repeated\n"
            "group by metric_date\norder by metric_date"
        )
        for day, n_keys in rows:
            yield name, day_of(day), int(n_keys)
