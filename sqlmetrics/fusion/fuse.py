"""`fuse`: several rankings become one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Unpack

from sqlmetrics.comparison.compare import compared_plan
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.written_table import WrittenTable
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, shortened, unknown
from sqlmetrics.evaluation.arguments import check_count, listed
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.checks.absence import infinite_scores
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.plan.fusion import FusionStages
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.mixture import METHODS, RUNS, Mixture, mixture_of, weights_of
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.table import Table, many, printable
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular

if TYPE_CHECKING:
    import pyarrow as pa

USUAL = ("ndcg@10",)
_OF_LABELS = ("label_columns", "grade", "grades", "group")
PRINTED_ROWS = 20
"""As many rows does the text of a ranking show."""


@dataclass(frozen=True, repr=False)
class Fusion(Tabular):
    """One ranking made of several; it prints as a table.

    Attributes:
        table: Rows (query_id, item_id, score, rank), with metric_date where there are days; none of
            a ranking that was written to a table.
        mixture: How the runs became one, as text.
        runs: The runs in their order.
        notes: What a reader should know.
        sql: The query that made it, in the words of the database; or the statements that write it.
        into: The table that it was written to; empty if `table` has the rows.
        n_rows: How many rows were written.
    """

    table: pa.Table
    mixture: str
    runs: tuple[str, ...]
    notes: tuple[str, ...]
    sql: str
    into: str = ""
    n_rows: int = 0

    def __len__(self) -> int:
        return self.n_rows or int(self.table.num_rows)

    def _arrow_tables(self) -> ArrowTables:
        return {"rankings": lambda: self.table}

    def _blocks(self) -> Iterator[Block]:
        runs = ", ".join(map(printable, self.runs))
        below = [f"{self.mixture}: {runs}", *(f"note: {note}" for note in self.notes)]
        if self.into:
            yield "\n".join([f"{printable(self.into)}: {many(len(self), 'row')}", *below])
            return
        rows = self.table.slice(0, PRINTED_ROWS).to_pylist()
        names = self.table.column_names
        cells = [
            [f"{row[name]:.6g}" if name == "score" else printable(str(row[name])) for name in names]
            for row in rows
        ]
        yield Table(names, cells, len(names) - 2)
        n_more = len(self) - len(rows)
        yield "\n".join([*([f"and {many(n_more, 'more row')}"] if n_more > 0 else []), *below])


def fuse(
    rankings: Any,
    labels: Any = None,
    *,
    like: str | None = None,
    method: str | None = None,
    norm: str | None = None,
    k: float | None = None,
    weights: Mapping[str, float] | Sequence[float] | None = None,
    floor: float | None = None,
    runs: Sequence[str] = (),
    window: int | None = None,
    limit: int | None = None,
    start: str | date | None = None,
    end: str | date | None = None,
    into: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Fusion:
    """Make one ranking of several: reciprocal ranks, weighted sums and others, in the database.

    The runs are the systems of the rankings. Items with equal scores stand in the order of their
    ids, in a run as in what becomes of them. A query that no run has is not there.

    Args:
        rankings: Two to ten runs, as `evaluate` takes them: name -> table, a list of files, or one
            table with a column of systems; traces; or a `Spec`.
        labels: The labels, where rankings are not to be told from traces with references; they are
            not looked at.
        like: A search engine whose formula it is: opensearch, opensearch_rrf, elasticsearch,
            elasticsearch_rrf, qdrant, weaviate, weaviate_ranked. What else is given overrides it.
        method: rrf, weighted_ranks, sum, mean, mnz, anz, med, max, min, borda, isr, log_isr or
            turns. Default: rrf.
        norm: What becomes of the scores of a list before it: min_max (default), max, sum, z_score,
            rank, none, opensearch, elasticsearch, weaviate. Not looked at by methods of ranks.
        k: The constant of rrf and weighted_ranks, 0 or more. Default: 60.
        weights: Run -> its weight, or weights in the order of the runs; default: 1 each.
        floor: What an item counts in a run that lacks it, before the weight. By default such a run
            counts nothing.
        runs: The runs in their order, where not all are wanted. Default: as given, of one
            table by name.
        window: As many items of each run are looked at; default: all.
        limit: As many items of each query are kept; default: all.
        start: The first day.
        end: The day after the last one.
        into: A table of the database that the ranking is written to, and stays in.
        overwrite: Whether the rows of `into` are replaced if it has the columns of a ranking, of
            the days from `start` to `end` alone where these are given; by default it must not be
            there.
        dry_run: Whether `into` is left alone: `sql` is what would be executed.
        connection: Where the tables are; see `evaluate`.
        check: Whether to look for bad input first.
        **arguments: The other arguments of `evaluate`.

    Returns:
        The ranking: rows (query_id, item_id, score, rank), with metric_date where there are days,
        ordered by these. `evaluate` takes it as it is; with `into` it takes the table's name.

    Raises:
        SpecError: If there are not two to ten runs, or an argument is wrong.
        InputError: If the data would give wrong numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> def run(*items):
    ...     numbers = [*range(1, len(items) + 1)]
    ...     return pa.table({"query_id": [1] * len(items), "item_id": items, "rank": numbers})
    >>> fused = fuse({"bm25": run("a", "b", "c"), "dense": run("b", "d")}, rank="rank")
    >>> [(row["item_id"], round(row["score"], 4)) for row in fused.to_dicts()]
    [('b', 0.0325), ('a', 0.0164), ('d', 0.0161), ('c', 0.0159)]
    """
    rankings = read_if_spec(rankings)
    check_arguments(fuse, arguments)
    for name, value in (("window", window), ("limit", limit)):
        if value is not None:
            check_count(name, value)
    settings = {"method": method, "norm": norm, "k": k, "floor": floor}
    mixture_of(like, settings)
    question = Question(rankings, labels, (start, end), arguments)
    if into is not None and connection is None:
        raise SpecError("into needs the database of the table; give it (connection, --db)")
    with question.planned(connection, check=check) as (plan, engine):
        names = run_names(plan, engine, runs)
        mixture = mixture_of(like, {**settings, "weights": weights_of(weights, names)})
        check_scores(plan, mixture)
        if check:
            check_finite(plan, engine, [(mixture, names)])
        stages = FusionStages(plan, names, window)
        columns = (*stages.query_keys, "item_id", "score", "rank")
        text = _query(stages, mixture, limit)
        facts: dict[str, Any] = {"mixture": str(mixture), "runs": names}
        facts["notes"] = plan.shape.at.notes
        if into is None:
            return Fusion(engine.table(text), sql=engine.translation.text(text) + "\n", **facts)
        days = question.chosen_days
        output = WrittenTable(engine, into, columns, text, overwrite, "score", days)
        output.check()
        sql = output.text()
        n_rows = 0 if dry_run else output.write()
        return Fusion(_no_rows(columns), sql=sql, into=into, n_rows=n_rows, **facts)


def _no_rows(columns: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: pa.array([], pa.null()) for name in columns})


@dataclass(frozen=True)
class Question:
    """What is fused, as `fuse` is given it.

    Attributes:
        rankings: The runs.
        labels: The labels; None where they are not looked at.
        days: The first day, and the day after the last one.
        arguments: The other arguments of `evaluate`.
        metrics: The metrics; of a spec its own unless some are given.
        by: The segments; of a spec its own.
    """

    rankings: Any
    labels: Any
    days: tuple[str | date | None, str | date | None]
    arguments: Mapping[str, Any]
    metrics: tuple[str, ...] = ()
    by: tuple[str, ...] = ()

    @property
    def chosen_days(self) -> Days | None:
        """The days that are fused; None for all."""
        zone = zone_of_days(self.rankings, self.arguments.get("time_zone"))
        return days_between(*self.days, zone)

    @contextmanager
    def planned(self, connection: Any, *, check: bool | float) -> Iterator[tuple[Plan, Database]]:
        """The plan of an evaluation of the runs, whose tables were checked, and the database."""
        spec = self.rankings if isinstance(self.rankings, Spec) else None
        if spec and spec.clicks is not None:
            raise SpecError(
                "a click log has the lists that were shown, and no runs behind them; give the "
                "rankings of the runs"
            )
        labels, arguments = self.labels, self.arguments
        has_labels = labels is not None or spec is not None
        if not has_labels:
            if needless := [name for name in _OF_LABELS if arguments.get(name)]:
                raise SpecError(f"fuse reads no labels; leave out {', '.join(needless)}")
            label_columns = {name: name + "_id" for name in ("query", "item")}
            labels, arguments = _no_labels(), {**arguments, "label_columns": label_columns}
        options = Options(
            metrics=self.metrics or (() if spec and spec.metrics else USUAL),
            days=self.chosen_days,
            by=self.by or (tuple(spec.by) if spec else ()),
        )
        inputs = Inputs(self.rankings, labels, arguments)
        with ExitStack() as stack:
            engine = stack.enter_context(inputs.opened(connection))
            inputs = inputs.resolved(engine)
            plan, _ = stack.enter_context(compared_plan(inputs, options, engine))
            if check:
                ignored = () if has_labels else ("labels", "both tables")
                checks.check_inputs(plan, engine, ignored_tables=ignored)
            yield plan.unfused, engine


def _no_labels() -> pa.Table:
    import pyarrow as pa

    kinds = {"query_id": pa.string(), "item_id": pa.string(), "grade": pa.float64()}
    return pa.table({name: pa.array([], kind) for name, kind in kinds.items()})


def run_names(plan: Plan, engine: Database, wanted: Sequence[str]) -> tuple[str, ...]:
    """The runs in their order.

    Raises:
        SpecError: If there are not as many as become one, or one is not there.
    """
    if "system" not in plan.shape.keys:
        raise SpecError(
            "fuse needs two to ten runs, given one: give a table for each, or name the column of "
            "systems (system, --system)"
        )
    rankings = plan.tables[0]
    select = f"select distinct system\nfrom {rankings}\norder by system asc"
    existing = [str(row[0]) for row in engine.rows(with_stages(plan.lists, select))]
    first = [name for name in plan.shape.at.systems if name in existing]
    ordered = (*first, *(name for name in existing if name not in first))
    names = tuple(map(str, listed(wanted))) or ordered
    for name in names:
        if name not in existing:
            raise InputError(unknown("run", shortened(name), map(shortened, existing)))
    if len({*names}) < len(names):
        raise SpecError(f"runs must name each run once, given {shortened(', '.join(names))}")
    least, most = RUNS
    if not least <= len(names) <= most:
        listed_names = shortened(", ".join(names))
        raise SpecError(
            f"fuse needs two to ten runs, given {len(names)}: {listed_names}; choose some "
            "(runs, --runs)"
        )
    return names


def check_finite(
    plan: Plan, engine: Database, runs_by_mixture: Sequence[tuple[Mixture, Sequence[str]]]
) -> None:
    """Raise InputError if scores that are fused are infinite."""
    if problems := [*infinite_scores(plan, engine, runs_by_mixture)]:
        raise InputError(problems)


def check_scores(plan: Plan, mixture: Mixture) -> None:
    """Raise SpecError if a method wants scores, and the runs have ranks."""
    if "rank" in plan.shape.columns["rankings"] and not mixture.reads_ranks:
        raise SpecError(f"{mixture.needs_scores}; methods: {', '.join(sorted(METHODS))}")


def _query(stages: FusionStages, mixture: Mixture, limit: int | None) -> str:
    """The rows of the ranking."""
    columns = ",\n    ".join([*stages.query_keys, "item_id", "score", "rnk as rank"])
    order = ", ".join(f"{key} asc" for key in (*stages.query_keys, "rnk"))
    where = f"where rnk <= {limit}\n" if limit else ""
    last = f"select\n    {columns}\nfrom fused_ranks\n{where}order by {order}"
    return with_stages([*stages.fused(mixture), stages.ranked()], last)
