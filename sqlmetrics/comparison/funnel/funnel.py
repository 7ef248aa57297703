"""`funnel`: at which stage of a ranking the relevant items are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from sqlmetrics.catalog.measure import Measure, metric_texts
from sqlmetrics.comparison.compare import compared_plan
from sqlmetrics.comparison.findings import comparable
from sqlmetrics.comparison.funnel.losses import (
    Losses,
    SourceSums,
    check_order,
    in_stages,
    of_sources,
)
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.report import Rows, block, of_segment
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.execution import USUALLY, executing
from sqlmetrics.evaluation.inputs.runs import STAGE, StageRuns, runs_in
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.table import Table, folded, line_width, many, metric_value, printable
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    import pyarrow as pa


# The result of a funnel: its rows, and how people read them.

KINDS = {
    **dict.fromkeys(("system", "segment_name", "segment_value", "stage"), "string"),
    **dict.fromkeys(("stage_number", "n_queries", "n_missing"), "int64"),
    "list_size": "double",
    **dict.fromkeys(("n_relevant", "n_found", "n_kept", "n_lost"), "int64"),
    **dict.fromkeys(("recall", "retention", "lost_share"), "double"),
}
"""Column -> its type; behind them stand those of the metrics."""


Cell = Callable[[Row], str]

SIZES: Mapping[str, Cell] = {
    "items": lambda row: _size(row["list_size"]),
    "missing": lambda row: f"{row['n_missing']:,}",
}
"""Heading -> its cell: how long lists are, and how many are not there."""


@dataclass(frozen=True, repr=False)
class Funnel(Rows):
    """The stages at which relevant items are lost; it prints as tables and sentences.

    Attributes:
        rows: One row per system, segment and stage, in this order; see `to_arrow` for their keys.
        measures: The metrics; each is a key of the rows, such as `ndcg_at_10`.
        notes: Sentences that a reader should know.
        executed_sql: The statements that ran.
    """

    rows: tuple[Row, ...]
    measures: tuple[Measure, ...]
    notes: tuple[str, ...]
    executed_sql: str

    kinds: ClassVar[Mapping[str, str]] = KINDS
    """Column -> its type, without the metrics."""

    def _kinds(self) -> dict[str, str]:
        return {**self.kinds} | {measure.column: "double" for measure in self.measures}

    @property
    def sentences(self) -> tuple[str, ...]:
        """Where most items are lost: one sentence per system and segment."""
        return tuple(self._sentence(rows) for _, rows in self._stages_by_heading())

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """The rows as an Arrow table.

        `list_size` is the mean number of items in a list, `n_missing` the number of queries without
        a list. Of the `n_relevant` relevant items of all queries, `n_found` are in the lists of the
        stage, `n_kept` in these and in those of the stage before, and `n_lost` were in the stage
        before but in no later one; at the first stage, in no stage. `n_lost` of all stages and
        `n_found` of the last one add up to `n_relevant`. `lost_share` is `n_lost` / `n_relevant`.

        `recall`, `retention` (found items over those found by the stage before) and the metrics are
        means over queries, the first two from 0 to 1; NULL if no query has a value, as for the
        retention of the first stage.
        """
        return super().to_arrow(table)

    def _stages_by_heading(self) -> Iterator[tuple[str, list[Row]]]:
        """A heading, and the stages of a system and segment."""
        for (system, name, value), rows in groupby(self.rows, block):
            yield f"{printable(system)}{of_segment(name, value)}", list(rows)

    def text(self) -> str:
        """Tables that fit 80 columns, and where most items are lost."""
        blocks = []
        for title, rows in self._stages_by_heading():
            tables = [part.text() for part in self._stage_table(rows).split(line_width())]
            blocks.append("\n\n".join([title, *tables, folded(self._sentence(rows))]))
        below = "\n".join(folded(f"note: {note}") for note in self.notes)
        return "\n\n".join(filter(None, [*blocks, below]))

    def _cells(self) -> dict[str, Cell]:
        """Heading -> its cell, before the metrics."""
        return {
            "stage": lambda row: printable(row["stage"]),
            **SIZES,
            "recall": lambda row: metric_value(row["recall"]),
            "retention": lambda row: metric_value(row["retention"]),
            "lost": lambda row: f"{row['n_lost']:,}",
            "of all": lambda row: percent(row["lost_share"]),
        }

    def _stage_table(self, rows: Sequence[Row]) -> Table:
        """Some stages; missing queries only where there are some."""
        cell_by_heading = self._cells()
        if not any(row["n_missing"] for row in rows):
            del cell_by_heading["missing"]
        names = [*cell_by_heading, *map(str, self.measures)]
        cells = [
            [
                *(cell(row) for cell in cell_by_heading.values()),
                *(metric_value(row[measure.column]) for measure in self.measures),
            ]
            for row in rows
        ]
        return Table(names, cells, 1)

    def _sentence(self, rows: Sequence[Row]) -> str:
        """Where most of the relevant are lost, of the stages of one system and segment."""
        last, n_relevant = rows[-1], rows[-1]["n_relevant"]
        if not n_relevant:
            return "there is no relevant item"
        last_count = (
            f"{printable(last['stage'])} has {last['n_found']:,} of {n_relevant:,} relevant items"
        )
        last_share = f"{last_count} ({percent(last['n_found'] / n_relevant)})"
        worst = max(rows, key=lambda row: row["n_lost"])  # of equal ones the first
        if not worst["n_lost"]:
            return f"nothing is lost: {last_share}"
        where = printable(worst["stage"])
        loss_phrase = "not found by" if worst["stage_number"] == 1 else "lost at"
        share = percent(worst["lost_share"])
        return (
            f"most are {loss_phrase} {where}: {many(worst['n_lost'], 'item')} "
            f"({share}); {last_share}"
        )

    def table(self) -> Table:
        """All rows as one table, with the notes below it."""
        table, blocks = self._stage_table(self.rows), list(self._stages_by_heading())
        if len(blocks) > 1:
            titles = [title for title, rows in blocks for _ in rows]
            rows = [[title, *row] for title, row in zip(titles, table.rows, strict=True)]
            table = Table(["system", *table.columns], rows, 2)
        return replace(table, notes=self.below())

    def below(self) -> list[str]:
        """The lines below a table: where most items are lost, and notes."""
        blocks = list(self._stages_by_heading())
        sentences = [
            f"{title}: {self._sentence(rows)}" if len(blocks) > 1 else self._sentence(rows)
            for title, rows in blocks
        ]
        return [*sentences, *(f"note: {note}" for note in self.notes)]

    def markdown(self) -> str:
        """A GitHub table."""
        return self.table().markdown()

    def latex(self) -> str:
        """A `tabular` for a paper, by booktabs."""
        return self.table().latex()

    def html(self) -> str:
        """A table for a page."""
        return self.table().html()


def _size(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def percent(value: float | None) -> str:
    """A share for a cell."""
    return "-" if value is None else f"{100 * value:.1f} %"


# What each source of candidates finds: its rows, and how people read them.

_LOST = ("stage", "stage_number", "n_kept", "n_lost", "retention", "lost_share")


@dataclass(frozen=True, repr=False)
class SourceFunnel(Funnel):
    """What each source of candidates finds, and what would be missed without it.

    Attributes:
        rows: One a system, segment and source, and one of all sources together, the last.
        measures: The metrics, each of which is a key of the rows like `ndcg_at_10`.
        notes: What a reader should know.
        sql: The statements that ran.
    """

    kinds: ClassVar[Mapping[str, str]] = {
        **{name: kind for name, kind in KINDS.items() if name not in _LOST},
        "source": "string",
        "n_unique": "int64",
        "unique_recall": "double",
    }

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """The rows as an Arrow table.

        `list_size` is the mean number of items of a source's lists, `n_missing` the queries to
        which it adds nothing. Of the `n_relevant` relevant items of all queries a source has
        `n_found`, of which no other one has `n_unique`; in the row of all sources together
        `n_unique` have one source alone. `recall` and `unique_recall` are the means over queries of
        these over the query's relevant items, from 0 to 1: how much is found, and how much would
        be missed without the source.
        """
        return super().to_arrow(table)

    def _cells(self) -> dict[str, Cell]:
        return {
            "source": lambda row: printable(row["source"]),
            **SIZES,
            "recall": lambda row: metric_value(row["recall"]),
            "unique recall": lambda row: metric_value(row["unique_recall"]),
            "found": lambda row: f"{row['n_found']:,}",
            "here alone": lambda row: f"{row['n_unique']:,}",
        }

    def _sentence(self, rows: Sequence[Row]) -> str:
        """What is found, and which sources add most and least to it."""
        *sources, every = rows
        n_relevant = every["n_relevant"]
        if not n_relevant:
            return "there is no relevant item"
        share = percent(every["n_found"] / n_relevant)
        summary = (
            f"together they find {every['n_found']:,} of {n_relevant:,} relevant items ({share})"
        )
        if len(sources) < 2:
            return summary
        least, *_, most = sorted(sources, key=lambda row: row["n_unique"])
        missed, little = most["n_unique"], least["n_unique"]
        if not missed:
            return f"{summary}; no source alone has any of them"
        return (
            f"{summary}; without {printable(most['source'])} {missed:,} of these are missed "
            f"({percent(missed / n_relevant)} of all), without {printable(least['source'])} "
            f"{little:,} ({percent(little / n_relevant)})"
        )


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
    rankings = read_if_spec(rankings)
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
        plan, _ = stack.enter_context(compared_plan(inputs, options, engine))
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
    rows = sorted((row for row in stage_rows if row["n_queries"]), key=_sort_key)
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


def _sort_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    segment = (row["segment_name"] != ALL, row["segment_name"], row["segment_value"])
    return (*segment, row["system"], row["stage_number"])


def _entered(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Stages with relevant items that the stage before has not."""
    for row in rows:
        new = row["n_found"] - (row["n_kept"] or 0)
        if row["segment_name"] == ALL and row["stage_number"] > 1 and new:
            yield (
                f"{printable(row['system'])}: {many(new, 'relevant item')} of "
                f"{printable(row['stage'])} were not in the "
                "stage before it; recall counts them, retention does not"
            )
