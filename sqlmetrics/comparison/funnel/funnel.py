"""`funnel`: at which stage of a ranking the relevant items are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from typing import Any, Unpack

from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.comparison.compare import asked_plan
from sqlmetrics.comparison.findings import comparable
from sqlmetrics.comparison.funnel.funnel_table import Funnel
from sqlmetrics.comparison.funnel.losses import Losses
from sqlmetrics.comparison.funnel.source_table import SourceFunnel
from sqlmetrics.comparison.funnel.sources import SourceSums, of_sources
from sqlmetrics.comparison.funnel.stage_order import check_order, in_stages
from sqlmetrics.comparison.options import Options
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.execution import USUALLY
from sqlmetrics.evaluation.inputs.runs import STAGE, StageRuns, runs_in
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments
from sqlmetrics.evaluation.run import executing
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.table import many

USUAL = ("ndcg@10",)
"""The metrics after each stage, where nobody says others."""


def funnel(
    rankings: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    stage: str = STAGE,
    order: Sequence[str] = (),
    sources: str | None = None,
    rel: float = 1,
    by: str | Sequence[str] = (),
    start: str | date | None = None,
    end: str | date | None = None,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Funnel:
    """Find the stage at which a ranking pipeline loses relevant items: recall, rank, page.

    A relevant item is lost after the last stage that has it; an item that no stage has is lost at
    the first. So the lost items of all stages and the items of the last stage add up to all
    relevant items. A query without a list at a stage loses all of its items there.

    Args:
        rankings: A dict, stage -> its table, in order; or one table with a column of stages, as
            `evaluate` takes it; or a `Spec` of such a table.
        labels: The labels, as `evaluate` takes them; None with a spec.
        metrics: The metrics of each stage, as `evaluate` takes them. Default: those of the spec,
            else `ndcg@10`.
        stage: The column that names the stage of a row, if there is one table.
        order: The stages from first to last; other stages are left out. Default: the given order,
            or, for one table, by the size of the lists, the largest first.
        sources: A column with the list of sources of an item, such as `["bm25", "popular"]`, of one
            table in DuckDB or PostgreSQL; the funnel then shows what each source finds instead of
            stages.
        rel: The lowest grade of a relevant item.
        by: Segments to show as well, value by value; for days name the column of dates.
        start: The first day. Default: the first day of the data.
        end: The day after the last one. Default: all days of the data.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to check the input before the evaluation.
        **arguments: The other arguments of `evaluate`. `system` is `"system"` by default.

    Returns:
        The funnel, with a row per system, segment and stage; it prints as tables. With `sources` a
        `SourceFunnel`, with a row per source.

    Raises:
        SpecError: If there are fewer than two stages, or an argument is wrong.
        InputError: If a stage has no rows, or the data would give wrong numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> lists = {"recall": ["a", "b", "c"], "page": ["c"]}
    >>> tables = {
    ...     name: pa.table({"query_id": [1] * len(items), "item_id": items, "rank": [*range(1,
    ...         len(items) + 1)]})
    ...     for name, items in lists.items()
    ... }
    >>> truth = pa.table({"query_id": [1, 1], "item_id": ["b", "c"], "grade": [1, 1]})
    >>> [(row["stage"], row["recall"], row["n_lost"]) for row in funnel(tables, truth, rank="rank")]
    [('recall', 1.0, 0), ('page', 0.5, 1)]
    """
    check_arguments(funnel, arguments)
    if not 0 < rel < float("inf"):
        raise SpecError(f"rel must be above 0, the lowest grade of a relevant item; given {rel:g}")
    segments = by
    if isinstance(rankings, Spec):
        segments = segments or rankings.by
        _check_stages(rankings)
    zone = zone_of_days(rankings, arguments.get("time_zone"))
    options = Options(
        metrics=metric_texts(metrics),
        days=days_between(start, end, zone),
        by=(segments,) if isinstance(segments, str) else tuple(segments),
    )
    if not options.metrics and not (isinstance(rankings, Spec) and rankings.metrics):
        options = replace(options, metrics=USUAL)
    with ExitStack() as stack:
        inputs = Inputs(rankings, labels, arguments)
        engine = stack.enter_context(inputs.opened(connection))
        inputs = inputs.resolved(engine)
        runs = _stage_tables(inputs)
        names = tuple(order) or tuple(runs)
        check_order(names, runs)
        if sources is not None and (names or stage != STAGE):
            message = "sources belong to the items of one table; leave the stages out"
            raise SpecError(message)
        inputs = replace(inputs, rankings=StageRuns(runs)) if runs else inputs
        plan, _ = stack.enter_context(asked_plan(inputs, options, engine))
        if "baseline" in plan.spec.needed:
            raise SpecError(f"{plan.spec.needed['baseline']} compares systems, not stages")
        notes: list[str] = []
        if sources is not None:
            funnel_plan: Plan = of_sources(plan, sources, engine)
        else:
            funnel_plan, notes = in_stages(plan, STAGE if runs else stage, names, engine)
        with executing(
            funnel_plan, engine, check=check, per_query=False, execution=USUALLY
        ) as script:
            kind, result = (SourceSums, SourceFunnel) if sources is not None else (Losses, Funnel)
            return _funnel(
                kind(funnel_plan, tuple(comparable(funnel_plan)[0]), rel),
                result,
                script,
                engine,
                notes,
            )


def _check_stages(spec: Spec) -> None:
    """Raise SpecError if the lists of a spec are of no stage."""
    if spec.clicks is not None:
        raise SpecError(
            "a click log only has the lists that were shown, not the stages before them"
        )
    if spec.rankings.fuse:
        raise SpecError(
            "the rows of a fused system have no stage and no sources; leave fuse out of the "
            "spec of a funnel"
        )


def _stage_tables(inputs: Inputs) -> dict[str, Any]:
    """Stage -> its table, where each has one; empty of one table, and of a spec."""
    ids = {str(inputs.arguments.get(role, f"{role}_id")) for role in ("query", "item")}
    return {} if isinstance(inputs.rankings, Spec) else runs_in(inputs.rankings, ids)


def _funnel(
    losses: Losses, kind: type[Funnel], script: Script, engine: Database, plan_notes: Sequence[str]
) -> Funnel:
    plan = losses.plan
    stages, last = losses.query()
    text = with_stages({stage.name: stage for stage in [*script.stages, *stages]}.values(), last)
    stage_rows = [_row(row, losses, kind) for row in engine.records(text)]
    rows = sorted((row for row in stage_rows if row["n_queries"]), key=_place)
    if not rows:
        raise InputError(
            "no labelled query has a list; check that the ids of queries are written alike"
        )
    statements = replace(script, summary="", per_query="", drop="").statements
    translate = engine.translation.text
    sql = (
        "\n\n".join(
            f"{translate(statement).rstrip()};"
            for statement in (*statements, text, script.drop)
            if statement
        )
        + "\n"
    )
    _, notes = comparable(plan)
    metric_notes = [note.replace("is not compared", "is left out") for note in notes]
    entered = _entered(rows) if kind is Funnel else ()
    noted = (*plan.shape.at.notes, *plan_notes, *metric_notes, *entered)
    return kind(tuple(rows), losses.measures, noted, sql)


def _row(row: Mapping[str, Any], losses: Losses, kind: type[Funnel]) -> dict[str, Any]:
    """A row of the query, in the types of the result."""
    kinds = {**kind.kinds} | {measure.column: "double" for measure in losses.measures}
    value_by_column = {"system": losses.plan.spec.title, "source": row["stage"], **row}
    read: Mapping[str, Callable[[Any], Any]] = {"int64": int, "double": float, "string": str}
    typed_row: dict[str, Any] = {
        name: None if value_by_column[name] is None else read[data_type](value_by_column[name])
        for name, data_type in kinds.items()
    }
    typed_row["stage_number"] = int(row["stage_number"])
    return typed_row | (
        {"n_kept": None} if typed_row["stage_number"] == 1 and "n_kept" in typed_row else {}
    )


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    segment = (row["segment_name"] != ALL, row["segment_name"], row["segment_value"])
    return (*segment, row["system"], row["stage_number"])


def _entered(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Stages with relevant items that the stage before has not."""
    for row in rows:
        new = row["n_found"] - (row["n_kept"] or 0)
        if row["segment_name"] == ALL and row["stage_number"] > 1 and new:
            yield (
                f"{row['system']}: {many(new, 'relevant item')} of {row['stage']} were not in the "
                "stage before it; recall counts them, retention does not"
            )
