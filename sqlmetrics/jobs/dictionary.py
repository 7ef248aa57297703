"""What stands beside the fact table: what each metric is, and what its definition_hash means."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sqlmetrics.catalog.dimension import MetricRow
from sqlmetrics.jobs.definitions import conditional, described, list_metrics, these
from sqlmetrics.jobs.exchange import TableRows
from sqlmetrics.jobs.schema import DEFINITIONS, METRICS, TABLES, targets
from sqlmetrics.spec.definition import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import double, identifier, literal


def dictionary(spec: Spec, now: str) -> dict[str, TableRows]:
    """The rows of both tables: of metrics always as this version knows them, of definitions once.

    A metric that a spec has no more keeps its rows, as the fact table may.

    Args:
        spec: What is asked, with its `output`.
        now: An SQL time: when it is.
    """
    rows, name_by_table = described(spec), targets(spec)
    rows_by_table = {
        "metrics": ([*METRICS], [list(_metric(row)) for row in rows]),
        "definitions": ([*DEFINITIONS], list(_definitions(spec, now))),
    }
    missing_rows = {
        table: lacking(
            table,
            name_by_table[table],
            names,
            "new_rows",
            [Stage("new_rows", "jobs/new_rows", {"rows": new_rows})],
        )
        for table, (names, new_rows) in rows_by_table.items()
    }
    own_metrics = these((row.metric, row.k) for row in rows)
    return missing_rows | {"metrics": replace(missing_rows["metrics"], instead_of=own_metrics)}


def lacking(
    table: str, name: str, columns: Sequence[str], source: str, stages: Iterable[Stage] = ()
) -> TableRows:
    """Those rows of a source that a table does not hold yet.

    Args:
        table: Which table.
        name: What it is called.
        columns: Its columns.
        source: Where the rows are: a table, or the last of the stages.
        stages: What makes them.
    """
    keys = ["run_id"] if table == "runs" else [*TABLES[table].key]
    view = {
        "columns": [f"new_rows.{identifier(column)}" for column in columns],
        "from": source,
        "table": name,
        "keys": [f"stored_rows.{key} = new_rows.{key}" for key in keys],
        "first": keys[0],
    }
    select = with_stages(stages, print_template("jobs/lacking", view))
    return TableRows(columns, select, are_added=True)


def _metric(row: MetricRow) -> Iterator[Column]:
    values = {
        **{name: getattr(row, name) for name in ("metric", "k", "name", "label", "meaning")},
        "column_name": row.column,
        "range_low": row.low,
        "range_high": row.high,
        "direction": row.direction,
        "additive": int(row.additive),
        "roll_up": row.roll_up,
        "unit": row.unit or None,
    }
    for name, column in METRICS.items():
        yield Column(_sql(values[name], column.type), name)


def _sql(value: str | float | None, kind: str) -> str:
    if value is None or kind == "double":
        return f"cast({'null' if value is None else double(float(value))} as {kind})"
    return literal(value) if isinstance(value, str) else str(value)


def _definitions(spec: Spec, now: str) -> Iterator[list[Column]]:
    """One row a metric; and one more for each segment that is defined by a condition."""
    for segment in (ALL, *conditional(spec)):
        for metric in list_metrics(spec):
            conventions = spec.definition(metric, segment)
            yield [
                Column(literal(spec.definition_hash(metric, segment)), "definition_hash"),
                Column(literal(metric.name), "metric"),
                Column(str(metric.k or 0), "k"),
                Column(
                    literal(json.dumps(conventions, ensure_ascii=False, default=str)),
                    "conventions",
                ),
                Column(now, "first_seen"),
            ]
