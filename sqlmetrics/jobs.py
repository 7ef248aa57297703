"""A spec's metrics as tables: the fact table and the per-query table, replaced in one go."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pyarrow as pa

from sqlmetrics.api import run
from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.errors import SpecError
from sqlmetrics.inputs.opened import opened
from sqlmetrics.result import Result
from sqlmetrics.rollup import NO_DATE
from sqlmetrics.spec import Spec
from sqlmetrics.sql import print_template
from sqlmetrics.template import identifier, literal, relation

NEW = {"facts": "sqlmetrics_new_facts", "per_query": "sqlmetrics_new_per_query"}


@dataclass(frozen=True)
class Written:
    """What a run wrote.

    Attributes:
        result: The numbers; None if all of them are online metrics.
        rows: Table -> rows that now stand for the spec.
    """

    result: Result | None
    rows: dict[str, int]


def write(spec: Spec, engine: DuckDB, *, check: bool = True) -> Written:
    """Evaluate a spec and put its numbers in place of the ones that its tables hold.

    All tables change in one transaction: a run that fails leaves them as they were. Rows
    of other specs are not touched. The per-query table gains columns for new metrics.

    Args:
        spec: What is asked, with its `output`.
        engine: A connection that may write.
        check: Whether to look for bad input first.

    Raises:
        SpecError: If the spec has no output.
        SqlmetricsError: As `evaluate` does, and if a table cannot be written.
    """
    tables = targets(spec)
    result, facts = _evaluated(spec, engine, check=check)
    rows = {"facts": _facts(facts)} | ({"per_query": _per_query(result)} if result else {})
    tables = {table: name for table, name in tables.items() if table in rows}
    for table in tables:
        engine.register(NEW[table], rows[table])
    with engine.transaction():
        for statement in statements(spec, tables):
            engine.execute(statement)
    return Written(result, {name: rows[table].num_rows for table, name in tables.items()})


def _evaluated(spec: Spec, engine: DuckDB, *, check: bool) -> tuple[Result | None, pa.Table]:
    """The result of lists, and all rows of the fact table."""
    if spec.clicks is None:
        result = run(spec, opened(spec, engine), engine, check=check)
        return result, result.summary()
    from sqlmetrics.clicks.run import evaluate_clicks

    clicks = evaluate_clicks(spec, engine, check=check)
    return clicks.offline, clicks.facts()


def targets(spec: Spec) -> dict[str, str]:
    """The tables that a spec writes to: `facts`, and `per_query` if it is asked for.

    Raises:
        SpecError: If the spec has no output.
    """
    if spec.output is None:
        raise SpecError("the spec has no output; add: output: {relation: ranking_metrics}")
    per_query = {"per_query": spec.output.per_query} if spec.output.per_query else {}
    return {"facts": spec.output.relation} | per_query


def statements(spec: Spec, tables: Mapping[str, str] | None = None) -> Iterator[str]:
    """The statements that replace a spec's rows, inside one transaction.

    Args:
        spec: What is asked.
        tables: What is written, of its `targets`; all of them if not given.
    """
    for table, name in (tables or targets(spec)).items():
        yield print_template(f"jobs/{table}", {"table": name})
        if table == "per_query":
            for measure in (one for one in spec.measures if not one.metric.pooled):
                column = identifier(measure.column)
                yield f"alter table {relation(name)} add column if not exists {column} double"
        yield f"delete from {relation(name)} where spec = {literal(spec.title)}"
        yield f"insert into {relation(name)} by name select * from {NEW[table]}"


def _facts(summary: pa.Table) -> pa.Table:
    """The summary, with what a job adds: no interval yet, the run, and when."""
    rows = summary.num_rows
    now = datetime.now(UTC).replace(tzinfo=None)
    added = {
        "ci_low": pa.nulls(rows, pa.float64()),
        "ci_high": pa.nulls(rows, pa.float64()),
        "run_id": pa.array([str(uuid.uuid4())] * rows, pa.string()),
        "computed_at": pa.array([now] * rows, pa.timestamp("us")),
    }
    for name, column in added.items():
        summary = summary.append_column(name, column)
    return summary


def _per_query(result: Result) -> pa.Table:
    """The per-query table, with the spec and the day that its key has."""
    table = result.per_query()
    rows = table.num_rows
    table = table.append_column("spec", pa.array([result.spec.title] * rows, pa.string()))
    if "metric_date" in table.column_names:
        return table
    day = pa.array([date.fromisoformat(NO_DATE)] * rows, pa.date32())
    return table.append_column("metric_date", day)
