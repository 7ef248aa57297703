"""The line itself: spec -> plan -> SQL -> engine -> result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sqlmetrics import checks, inputs, sql
from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan import plan
from sqlmetrics.result import Result, in_order
from sqlmetrics.spec import Spec

DIALECTS = {"duckdb": "executed: DuckDB, the engine of sqlmetrics itself"}


def evaluate(
    rankings: Any,
    labels: Any,
    metrics: str | Sequence[str],
    *,
    preset: str | None = None,
    by: str | Sequence[str] = (),
    connection: Any = None,
    query: str = "query_id",
    item: str = "item_id",
    score: str = "score",
    rank: str | None = None,
    grade: str = "grade",
    system: str | None = None,
    date: str | None = None,
    weight: str | None = None,
    label_columns: Mapping[str, str] | None = None,
    check: bool = True,
    **conventions: Any,
) -> Result:
    """Evaluate rankings against labels, inside DuckDB.

    Args:
        rankings: Rows (query, item, score or rank [, system, date, weight, segments]): a
            path (Parquet, CSV, TREC run, .gz, globs), a table's name or a `select` text
            (with `connection`), a pandas or polars DataFrame, or anything Arrow.
        labels: Rows (query, item, grade [, date]), given likewise (TREC qrels too).
        metrics: Texts like `ndcg@10`, `recall(rel=2)@50`, `mrr`; see `list metrics`.
        preset: A named set of conventions; default `house`.
        by: Columns of the rankings to segment by; each is also rolled up to `all`.
        connection: A DuckDB connection that holds tables; default: a new one in memory.
            SELECT rights are enough.
        query: The query's column, in both tables unless `label_columns` says otherwise.
        item: The item's column, likewise.
        score: The column of scores, highest first.
        rank: A column of ranks 1..n to use instead of scores.
        grade: The labels' column of grades, 0 or more.
        system: The column of the ranker, model or run.
        date: The column of the day. The day is then a part of a query's identity; if the
            labels have the column too, they hold for that day, else for every day.
        weight: A column of query weights; means are weighted by them.
        label_columns: Names that the labels have for `query`, `item`, `grade`, `date`.
        check: Whether to look for bad input first: duplicates, NULL, NaN and the like.
        **conventions: Options that override the preset's, like `gain="linear"`. A list
            of values of a metric's option gives every metric once for each value.

    Returns:
        The result; it prints as a table.

    Raises:
        SpecError: If a metric, option or column name is wrong.
        InputError: If the data would give wrong numbers; counts and examples are told.
        EngineError: If DuckDB fails.

    >>> import pyarrow as pa
    >>> run = pa.table({"query_id": ["q", "q"], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    >>> truth = pa.table({"query_id": ["q"], "item_id": ["b"], "grade": [1]})
    >>> evaluate(run, truth, ["mrr"])["mrr"]
    0.5
    """
    columns = {"query": query, "item": item}
    with DuckDB(connection) as engine:
        spec = Spec(
            rankings=inputs.source_of(rankings, "rankings", engine.find)
            | {
                "columns": columns
                | {"rank" if rank else "score": rank or score}
                | {"system": system, "date": date, "weight": weight}
            },
            labels=inputs.source_of(labels, "labels", engine.find)
            | {"columns": columns | {"grade": grade} | dict(label_columns or {})},
            metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
            preset=preset or "house",
            by=(by,) if isinstance(by, str) else tuple(by or ()),
            conventions=conventions,
        )
        tables = opened(spec, engine)
        return run(_dated(spec, tables, engine), tables, engine, check=check)


def compile(spec: Spec, dialect: str = "duckdb", *, per_query: bool = False) -> str:
    """The SQL of a spec as text; nothing is opened.

    Args:
        spec: What is asked. Its sources must be relations, queries or files.
        dialect: `duckdb`.
        per_query: Whether to give the per-query table instead of the summary.

    Raises:
        SpecError: If the dialect is unknown or the spec cannot be compiled.
    """
    if dialect not in DIALECTS:
        raise SpecError(unknown("dialect", dialect, DIALECTS))
    return sql.query(plan(spec), per_query=per_query)


def opened(spec: Spec, engine: DuckDB) -> inputs.Tables:
    """The two tables of a spec, readable by the engine."""
    return inputs.Tables(
        _relation(spec.rankings, "rankings", engine), _relation(spec.labels, "labels", engine)
    )


def run(spec: Spec, tables: inputs.Tables, engine: DuckDB, *, check: bool = True) -> Result:
    """Evaluate a spec on an engine: plan it, check the input, run the script."""
    the_plan = plan(spec, tables)
    if check:
        checks.check(the_plan, engine)
    kept = engine.free_name(sql.KEPT)
    script = sql.script(the_plan, kept)
    with engine.made(script.keep, script.drop):
        checks.check_kept(the_plan, kept, engine)
        summary, per_query = engine.table(script.summary), engine.table(script.per_query)
        notes = checks.notes(kept, engine)
    hashes = {(m.name, m.k or 0): spec.definition_hash(m) for m in the_plan.measures}
    return Result(
        spec=spec,
        measures=the_plan.measures,
        sql=str(script),
        notes=tuple(notes),
        keys=the_plan.shape.keys,
        _summary=in_order(_with_hashes(summary, hashes), the_plan.measures),
        _per_query=per_query,
    )


def _dated(spec: Spec, tables: inputs.Tables, engine: DuckDB) -> Spec:
    """With a date for the rankings, the labels' own date column if they have one."""
    date = spec.rankings.columns.date
    if date is None or spec.labels.columns.date is not None:
        return spec
    there = engine.columns(sql.source_text(tables.labels))
    if date.casefold() not in map(str.casefold, there):
        return spec
    columns = spec.labels.columns.model_copy(update={"date": date})
    labels = spec.labels.model_copy(update={"columns": columns})
    return spec.model_copy(update={"labels": labels})


def _relation(source: Any, role: str, engine: DuckDB) -> inputs.Relation:
    if source.data is not None:
        name = engine.register(f"sqlmetrics_{role}", source.data)
        return inputs.Relation("table", name, ordered=True)
    return inputs.relation_of(source, role)


def _with_hashes(summary: pa.Table, hashes: Mapping[tuple[str, int], str]) -> pa.Table:
    pairs = zip(summary["metric"].to_pylist(), summary["k"].to_pylist(), strict=True)
    return summary.append_column(
        "definition_hash", pa.array([hashes[pair] for pair in pairs], pa.string())
    )
