"""`evaluate`: what its arguments ask, and where the tables are; then the line itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, Unpack

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.keywords import Conventions
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.evaluation.execution import Execution, Progress
from sqlmetrics.evaluation.inputs.guess import guess, guess_files
from sqlmetrics.evaluation.inputs.open import opened, zones_of
from sqlmetrics.evaluation.inputs.runs import (
    STAGE,
    SYSTEM,
    StageRuns,
    Together,
    runs_in,
    together,
)
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.evaluation.inputs.swap import are_swapped, in_order
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.evaluation.run import run
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.segments import QUERY_LENGTH
from sqlmetrics.spec.source import Rankings, is_separated
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.zones import Zones
from sqlmetrics.sql.relation import Relation, shown, source_text

TEXTS = ("text", "query_text", "query")
"""What the column of the texts is called in a table of queries."""


class Asked(Conventions, total=False):
    """What `question` takes by name: columns and tables, as `evaluate` does, and options."""

    preset: str | None
    by: str | Sequence[str]
    segments: str | Sequence[str] | Mapping[str, str]
    query: str
    item: str
    score: str
    rank: str | None
    grade: str
    system: str | None
    date: str | None
    time_zone: str | None
    weight: str | None
    queries: Any
    items: Any
    baseline: str | None
    where: str | None
    grades: Mapping[str, float] | None
    label_columns: Mapping[str, str] | None
    separator: str | None
    decimal: str | None


def evaluate(
    rankings: Any,
    labels: Any,
    metrics: str | Sequence[str],
    *,
    preset: str | None = None,
    by: str | Sequence[str] = (),
    segments: str | Sequence[str] | Mapping[str, str] = (),
    connection: Any = None,
    query: str = "query_id",
    item: str = "item_id",
    score: str = "score",
    rank: str | None = None,
    grade: str = "grade",
    system: str | None = None,
    date: str | None = None,
    time_zone: str | None = None,
    weight: str | None = None,
    baseline: str | None = None,
    queries: Any = None,
    items: Any = None,
    where: str | None = None,
    grades: Mapping[str, float] | None = None,
    label_columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    check: bool = True,
    per_query: bool = True,
    confidence: float | None = None,
    plan: str | None = None,
    memory: str | None = None,
    checkpoint: str | Path | None = None,
    profile: str | Path | None = None,
    progress: Progress | None = None,
    **conventions: Unpack[Conventions],
) -> Result:
    """Evaluate rankings against labels, inside DuckDB or the database that has them.

    Args:
        rankings: Rows (query, item, score or rank [, system, date, weight, segments]): a
            path (Parquet, CSV, TREC run, .gz, globs), a table's name or a `select` text
            (with `connection`), a pandas or polars DataFrame, anything Arrow, dicts, rows, or
            arrays of NumPy. A dict of
            these, or a list of paths, is several runs: each is a system, called by its key or
            its file, unless `system` names a column.
        labels: Rows (query, item, grade [, date]), given likewise (TREC qrels too). None if
            the rankings have the column `grade` themselves, NULL where there is no label.
        metrics: Texts like `ndcg@10`, `recall(rel=2)@50`, `mrr`; see `list metrics`.
        preset: A named set of conventions; default `house`.
        by: Columns of the rankings, or of `queries`, to segment by; each is also rolled up
            to `all`.
        segments: More of them that are no column, by their names: a condition on the columns of
            `queries`, or without them of the rankings, like `{"new_users": "signup_days <= 7"}`,
            whose values are true and false; `traffic` (head, torso and tail: thirds of the sum of
            the weights, heaviest queries first), `relevant_labels` (0, 1, 2-5, 6+) or
            `query_length` (words of the column `text` of `queries`: 1, 2, 3-4, 5+).
        connection: The database that holds the tables: a URL such as
            `postgresql://ann@host/sales`, an output of `profiles.yml`, an engine of SQLAlchemy,
            or a connection of it or of the Python driver, which is left open; default: a new
            DuckDB in memory. A file must be there. SELECT rights are enough. Files and data in
            memory become temporary tables of it.
        query: The query's column, in both tables unless `label_columns` says otherwise. Where
            `query_id` is not there, and one column has another usual name (`qid`, `user_id`),
            that is taken, and a note says so; likewise `doc_id` or `sku` as the item,
            `position` as the rank, `relevance` as the grade.
        item: The item's column, likewise.
        score: The column of scores, highest first.
        rank: A column of ranks 1..n to use instead of scores.
        grade: The labels' column of grades, 0 or more.
        system: The column of the ranker, model or run.
        date: The column of the day. The day is then a part of a query's identity; if the
            labels have the column too, they hold for that day, else for every day.
        time_zone: Whose days a column `date` of times with a zone has, like `Europe/Berlin`;
            default: UTC.
        weight: A column of query weights, of the rankings or of `queries`; means are
            weighted by them.
        baseline: The system that the others are compared with: `overlap`, `rbo`.
        queries: Rows (query [, date, weight, segments]), one a query, given likewise. With
            dates, a query that it lists for a day is missing where a system has it not.
        items: Rows (item [, category, popularity, vector]), one an item of the catalogue,
            given likewise; the last three by these names.
        where: A condition; only the rows of the rankings that meet it are there.
        grades: The numbers of grades that are texts, like {"high": 3, "none": 0}.
        label_columns: Names that the labels have for `query`, `item`, `grade`, `date`.
        separator: What is between the values of CSV files, like `;`; by default each file's
            header line shows it.
        decimal: The decimal mark of the numbers in CSV files, `.` or `,`.
        check: Whether to look for bad input first: duplicates, NULL, NaN and the like.
        per_query: Whether to fetch the per-query table too. Without it nothing leaves the
            database but the summary.
        confidence: The coverage of `ci_low` and `ci_high`, which the summary has then: Student's
            interval of each mean or ratio over queries, like 0.95. NULL for what is neither.
        plan: The physical plan: `window`, or on DuckDB `lists`, `counts` or `ranks`; the
            fastest if none is named. The numbers are the same.
        memory: How much memory DuckDB may take, like `4GB`. What does not fit is done in
            buckets of queries.
        checkpoint: A folder where buckets are kept that are done, so that a run that was
            stopped goes on; its files go when the run ends. The tables must be files.
        profile: A file for DuckDB's own profile of the statement that does the work, in JSON.
        progress: Is told after each bucket how many of how many are done, and about how
            many rows.
        **conventions: Options that override the preset's, like `gain="linear"`. A list
            of values of a metric's option gives every metric once for each value.

    Returns:
        The result; it prints as a table.

    Raises:
        SpecError: If a metric, option or column name is wrong.
        InputError: If the data would give wrong numbers; counts and examples are told.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> run = pa.table({"query_id": ["q", "q"], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    >>> truth = pa.table({"query_id": ["q"], "item_id": ["b"], "grade": [1]})
    >>> evaluate(run, truth, ["mrr"])["mrr"]
    0.5
    """
    with connect(connection) as engine, engine.reading():
        spec, tables = question(
            engine,
            rankings,
            labels,
            metrics,
            preset=preset,
            by=by,
            segments=segments,
            query=query,
            item=item,
            score=score,
            rank=rank,
            grade=grade,
            system=system,
            date=date,
            time_zone=time_zone,
            weight=weight,
            queries=queries,
            items=items,
            baseline=baseline,
            where=where,
            grades=grades,
            label_columns=label_columns,
            separator=separator,
            decimal=decimal,
            **conventions,
        )
        how = Execution(plan, memory, checkpoint, profile, progress)
        return run(
            spec,
            tables,
            engine,
            check=check,
            per_query=per_query,
            how=how,
            confidence=confidence,
        )


def question(
    engine: Database,
    rankings: Any,
    labels: Any,
    metrics: str | Sequence[str],
    *,
    preset: str | None = None,
    by: str | Sequence[str] = (),
    segments: str | Sequence[str] | Mapping[str, str] = (),
    query: str = "query_id",
    item: str = "item_id",
    score: str = "score",
    rank: str | None = None,
    grade: str = "grade",
    system: str | None = None,
    date: str | None = None,
    time_zone: str | None = None,
    weight: str | None = None,
    queries: Any = None,
    items: Any = None,
    baseline: str | None = None,
    where: str | None = None,
    grades: Mapping[str, float] | None = None,
    label_columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    **conventions: Unpack[Conventions],
) -> tuple[Spec, Tables]:
    """What the arguments of `evaluate` ask for, and where its tables are."""
    _check_names(conventions)
    written = {"separator": separator, "decimal": decimal}

    def placed(given: Any, table: str) -> dict[str, object]:
        """Where a table is, and how its lines are written if it is a file that has them."""
        place = source_of(given, table, engine.find)
        return place | (written if is_separated(place.get("file")) else {})

    columns = {
        "query": query,
        "item": item,
        "rank" if rank else "score": rank or score,
        "system": system,
        "date": date,
        "weight": weight if queries is None else None,
        "grade": grade if labels is None else None,
    }
    own = {
        "where": where,
        "grades": (grades or {}) if labels is None else {},
        "time_zone": time_zone,
    }

    def asked(ranked: Any, truth: Any) -> tuple[Spec, Tables]:
        place, runs = _one_table(ranked, columns, placed, engine, conventions)
        spec = Spec(
            rankings=place | own,
            labels=None
            if truth is None
            else placed(truth, "labels")
            | {
                "grades": grades or {},
                "columns": {"query": query, "item": item, "grade": grade}
                | dict(label_columns or {}),
            },
            queries=None
            if queries is None
            else placed(queries, "queries") | {"columns": {"query": query}},
            items=None if items is None else placed(items, "items") | {"columns": {"item": item}},
            metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
            preset=preset or "house",
            by=segmented(by, segments),
            segments=segments,
            conventions=conventions,
            baseline=baseline,
        )
        spec, notes = guess_files(spec, engine)
        tables = replace(opened(spec, engine), notes=notes)
        if runs:
            relation = runs.read(tables.rankings, engine)
            tables = replace(tables, rankings=relation, notes=(*runs.notes, *notes))
        return spec, tables

    rankings, labels, note = in_order(rankings, labels)
    spec, tables = asked(rankings, labels)
    if are_swapped(spec, tables, engine):
        spec, tables = asked(labels, rankings)
        note = "the first table has grades and the second one scores: they are taken as that"
    tables = replace(tables, notes=(*filter(None, [note]), *tables.notes))
    spec, tables = guess(spec, tables, engine)
    spec = _described(_dated(spec, tables, engine), tables, engine)
    spec = _known(spec, tables, weight, engine)
    zones = zones_of(spec, tables, engine)
    spec = _zoned(spec, zones, time_zone)
    return spec, replace(tables, zones=zones_of(spec, tables, engine))


def _one_table(
    rankings: Any,
    columns: Mapping[str, str | None],
    placed: Callable[[Any, str], dict[str, object]],
    engine: Database,
    conventions: Mapping[str, Any],
) -> tuple[dict[str, Any], Together | None]:
    """Where the rankings are, and their columns; several runs are put together."""
    runs = runs_in(rankings, {str(columns["query"]), str(columns["item"])})
    if not runs:
        return placed(rankings, "rankings") | {"columns": columns}, None
    sources = {
        name: Rankings.model_validate(placed(one, "rankings") | {"columns": columns})
        for name, one in runs.items()
    }
    exact = conventions.get("score_precision", "double") != "double"
    called = STAGE if isinstance(rankings, StageRuns) else SYSTEM
    one = together(sources, engine, exact=exact, called=called)
    return {"sql": one.sql, "columns": dict(one.columns)}, one


def _check_names(conventions: Mapping[str, Any]) -> None:
    """Raise SpecError for what is no option, and looks like an argument."""
    if isinstance(conventions.get("conventions"), Mapping):
        own = ", ".join(f"{name}={value!r}" for name, value in conventions["conventions"].items())
        raise SpecError(f"conventions are arguments of their own: give {own}")
    arguments = [name for name in signature(evaluate).parameters if name != "conventions"]
    for name in conventions.keys() - OPTIONS.keys():
        sentence = unknown("argument or option", name, [*arguments, *OPTIONS])
        near = re.search(r"did you mean '(\w+)'", sentence)
        if near is None or near[1] in arguments:
            raise SpecError(sentence)


def _dated(spec: Spec, tables: Tables, engine: Database) -> Spec:
    """With a date for the rankings, the labels' own date column if they have one."""
    date = spec.rankings.columns.date
    if date is None or spec.labels is None or spec.labels.columns.date is not None:
        return spec
    if not _has(tables.labels, date, engine):
        return spec
    return _with(spec, "labels", date=date)


def _zoned(spec: Spec, zones: Zones, zone: str | None) -> Spec:
    """With a zone for the other tables whose days are of times with one."""
    others = [table for table in ("labels", "queries") if zone and table in zones]
    changed = {table: getattr(spec, table) for table in others if getattr(spec, table)}
    return spec.having(
        **{table: one.model_copy(update={"time_zone": zone}) for table, one in changed.items()}
    )


def segmented(
    by: str | Sequence[str], segments: str | Sequence[str] | Mapping[str, str]
) -> tuple[str, ...]:
    """All that is segmented by: columns, then those that are declared beside them."""
    columns = (by,) if isinstance(by, str) else tuple(by or ())
    declared = (segments,) if isinstance(segments, str) else tuple(segments or ())
    return (*columns, *(name for name in declared if name not in columns))


def _known(spec: Spec, tables: Tables, weight: str | None, engine: Database) -> Spec:
    """With a queries table, the columns that it has and the rankings have not."""
    if spec.queries is None or tables.queries is None:
        return spec
    columns = [name for name in spec.query_columns if name not in spec.segments]
    segments = [name for name in columns if not _has(tables.rankings, name, engine)]
    own: dict[str, object] = {
        "segments": tuple(name for name in segments if _has(tables.queries, name, engine))
    }
    if QUERY_LENGTH in spec.segments.values():
        texts = (name for name in TEXTS if _has(tables.queries, name, engine))
        own["text"] = next(texts, None)
    date = spec.rankings.columns.date
    if date is not None and _has(tables.queries, date, engine):
        own["date"] = date
    if weight is not None and _has(tables.rankings, weight, engine):
        spec = _with(spec, "rankings", weight=weight)
    elif weight is not None:
        own["weight"] = weight
    return _with(spec, "queries", **own)


def _described(spec: Spec, tables: Tables, engine: Database) -> Spec:
    """With the columns of the items table that metrics need, by the names of their roles."""
    if tables.items is None:
        return spec
    roles = [need.partition(".")[2] for need in spec.needed if need.startswith("items.")]
    return _with(spec, "items", **{r: r for r in roles if _has(tables.items, r, engine)})


def _has(relation: Relation, column: str, engine: Database) -> bool:
    there = engine.columns(source_text(shown(relation, engine.translation)))
    return column.casefold() in map(str.casefold, there)


def _with(spec: Spec, table: str, **columns: object) -> Spec:
    """The spec with other columns for one of its tables."""
    source = getattr(spec, table)
    changed = source.columns.model_copy(update=columns)
    return spec.having(**{table: source.model_copy(update={"columns": changed})})
