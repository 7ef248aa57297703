"""What `agree` and `combine` are asked: whose labels, and which lists they matter for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import fsum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlmetrics.agreement.judges import Panel, open_panel
from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.measure import metric_texts, parse
from sqlmetrics.comparison.compare import compare, compared_plan
from sqlmetrics.comparison.options import Options
from sqlmetrics.engines.database import Database, connect, session_of
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.evaluation.arguments import listed
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.evaluate import evaluate
from sqlmetrics.evaluation.question import Inputs
from sqlmetrics.jobs.days import days_between
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums
from sqlmetrics.stats.nonparametric import kendall, sign, spearman
from sqlmetrics.tables.tabular import Row

# Does it matter? The systems by the labels of one judge and by those of another.

_P = 0.9
"""How likely a reader of the order of systems goes on to the next one."""


def rank_biased_overlap(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """How alike two orders of the same systems are, the best ones counting most (p = .9).

    Systems whose values are tied share the first rank of the tie (variant w of Corsi and Urbano
    2024), and beyond the last one the orders agree, since both have all systems.

    Args:
        xs: One value per system, higher is better.
        ys: The others, in the same order of systems.

    Returns:
        From 0 to 1, which is the same order; None if there are fewer than 2 systems.

    Source: W. Webber, A. Moffat and J. Zobel: A similarity measure for indefinite rankings. ACM
    Transactions on Information Systems 28(4), 2010.

    >>> round(rank_biased_overlap([3, 2, 1], [3, 1, 2]), 4)
    0.955
    """
    n = len(xs)
    if n < 2:
        return None
    ranks, other_ranks = ([sum(sign(y, x) > 0 for y in side) for x in side] for side in (xs, ys))
    agreements = []
    for depth in range(1, n + 1):
        pairs = [(a < depth, b < depth) for a, b in zip(ranks, other_ranks, strict=True)]
        agreements.append(2 * sum(a and b for a, b in pairs) / sum(a + b for a, b in pairs))
    weighted = fsum(agreement * _P**d for d, agreement in enumerate(agreements))
    return (1 - _P) * weighted + agreements[-1] * _P**n


@dataclass(frozen=True)
class SystemOrders:
    """Evaluations of the same rankings by the labels of two judges at a time.

    Attributes:
        labels: One row per pair: query_id, item_id and the grade of each judge, grade_1 and on.
        judges: Their names.
        rankings: The rankings, as they were given.
        metrics: What is evaluated.
        arguments: The other arguments of `compare` that are of the rankings.
        system: The column of systems; None where each has a table.
        engine: Where the tables are.
        level: The coverage of the intervals.
    """

    labels: pa.Table
    judges: tuple[str, ...]
    rankings: Any
    metrics: tuple[str, ...]
    arguments: Mapping[str, Any]
    system: str | None
    engine: Database
    level: float

    def rows(self) -> tuple[list[Row], list[Row]]:
        """One row per metric and system, and one per metric, of the first judge beside another."""
        systems: list[Row] = []
        orders: list[Row] = []
        for number in range(2, len(self.judges) + 1):
            shared = pc.and_(*(pc.is_valid(self.labels[f"grade_{n}"]) for n in (1, number)))
            pairs = self.labels.filter(shared)
            if not pairs.num_rows:
                continue
            judged = [_Judged(self, pairs, n) for n in (1, number)]
            judges = {"judge": self.judges[0], "other_judge": self.judges[number - 1]}
            for metric in self.metrics:
                rows = [*_system_rows(metric, judged[0], judged[1], self.level)]
                systems += [judges | row for row in rows]
                orders.append(judges | _order_row(metric, rows))
        return systems, orders


class _Judged:
    """The rankings evaluated by the labels of one judge, of the pairs that both graded."""

    def __init__(self, orders: SystemOrders, pairs: pa.Table, number: int) -> None:
        keys = [name for name in pairs.column_names if not name.startswith("grade_")]
        labels = pairs.select([*keys, f"grade_{number}"]).rename_columns([*keys, "grade"])
        columns = {"query": "query_id", "item": "item_id"}
        if "metric_date" in keys:
            columns["date"] = "metric_date"
        arguments: dict[str, Any] = {**orders.arguments, "label_columns": columns}
        arguments["connection"] = orders.engine
        if orders.system:
            arguments["system"] = orders.system
        question = (orders.rankings, labels, orders.metrics)
        comparison = compare(*question, level=orders.level, **arguments)
        self.systems: set[tuple[str, str]] = set()
        self.verdicts: dict[tuple[str, str], str] = {}
        for row in comparison.to_dicts():
            self.systems |= {(row["metric"], row[name]) for name in ("system", "baseline")}
            self.verdicts[row["metric"], row["system"]] = row["verdict"]
        result = evaluate(*question, per_query=True, **arguments)
        self.per_query = result.per_query().to_pylist()

    def by_query(self, metric: str, system: str) -> dict[tuple[Any, str], float]:
        """Day and query -> the value of the metric, where it has one."""
        column = parse(metric).column
        return {
            (row.get("metric_date"), row["query_id"]): row[column]
            for row in self.per_query
            if row["system"] == system and row[column] is not None
        }


def _system_rows(metric: str, first: _Judged, second: _Judged, level: float) -> Iterator[Row]:
    """One row per system: values and difference over shared queries, and the verdicts."""
    systems = sorted(system for name, system in first.systems if name == metric)
    for system in systems:
        values, other_values = (judged.by_query(metric, system) for judged in (first, second))
        shared = sorted(values.keys() & other_values.keys(), key=str)
        mean, other_mean = (
            _mean([by_query[query] for query in shared]) for by_query in (values, other_values)
        )
        difference = _mean([other_values[query] - values[query] for query in shared])
        low, high = difference.interval(level)
        verdicts = [judged.verdicts.get((metric, system)) for judged in (first, second)]
        yield {
            "metric": metric,
            "system": system,
            "value": mean.value,
            "other_value": other_mean.value,
            "difference": difference.value,
            "ci_low": low,
            "ci_high": high,
            "n_queries": len(shared),
            "verdict": verdicts[0],
            "other_verdict": verdicts[1],
        }


def _mean(values: Sequence[float]) -> Estimate:
    """The mean of one value per query."""
    n, total = len(values), fsum(values)
    squares = fsum(value * value for value in values)
    return ratio_of_sums(total / n if n else None, n, w=n, x2=squares, xw=total, w2=n)


def _order_row(metric: str, rows: Sequence[Row]) -> Row:
    """How alike the systems are ordered, and how many verdicts differ."""
    pairs = [
        (row["value"], row["other_value"])
        for row in rows
        if row["value"] is not None and row["other_value"] is not None
    ]
    firsts, seconds = [x for x, _ in pairs], [y for _, y in pairs]
    way = SIGNS[parse(metric).metric.better] or 1
    return {
        "metric": metric,
        "n_systems": len(pairs),
        "kendall_tau": kendall(firsts, seconds),
        "spearman": spearman(firsts, seconds),
        "rbo": rank_biased_overlap(*([way * x for x in side] for side in (firsts, seconds))),
        "n_verdicts": sum(row["verdict"] is not None for row in rows),
        "n_turned": sum(row["verdict"] != row["other_verdict"] for row in rows),
    }


def check_metrics(metrics: str | Sequence[str], rankings: Any, is_spec: bool) -> tuple[str, ...]:
    """The metrics by which systems are ordered.

    Raises:
        SpecError: If there are metrics, but no table of rankings to evaluate.
    """
    texts = tuple(dict.fromkeys(str(parse(text)) for text in metric_texts(metrics)))
    if texts and (rankings is None or is_spec):
        raise SpecError("metrics: only with a table of rankings (rankings, --rankings)")
    return texts


_OF_RANKINGS = ("score", "rank", "system", "where", "skip_bad")
_OF_LABELS = ("grade", "grades", "label_columns")
OF_METRICS = ("preset", "metrics_from")
NO_USE = (
    *("group", "items", "mask", "queries", "segments", "weight"),
    "duplicate_labels",
)
"""Arguments of `evaluate` that say nothing about judges."""


@dataclass(frozen=True)
class Question:
    """Labels of several judges, and rankings that they are of.

    Attributes:
        asker: The function that asks, as messages name it.
        labels: The labels, as the function is given them.
        judges: The judges in their order.
        judge: The column that names the judge of a row.
        rankings: The rankings; None where they are not looked at.
        metrics: The metrics of their systems.
        arguments: The other arguments of `evaluate`.
    """

    asker: str
    labels: Any
    judges: Any
    judge: Any
    rankings: Any
    metrics: str | Sequence[str]
    arguments: Mapping[str, Any]

    @contextmanager
    def opened(
        self, connection: Any, *, check: bool | float
    ) -> Iterator[tuple[Panel, Plan | None, Database]]:
        """The judges, the plan of the lists, and the database.

        Raises:
            SpecError: If an argument is wrong, or it is not clear who judged.
            InputError: If the data would give wrong numbers.
        """
        names_given = names("judges", self.judges)
        names("judge", self.judge)
        rankings, arguments = self.rankings, self.arguments
        no_use = NO_USE if self.metrics else (*NO_USE, *OF_METRICS)
        if unused := [name for name in no_use if arguments.get(name)]:
            raise SpecError(f"{self.asker} has no use for {', '.join(unused)}; leave it out")
        if rankings is None and (needless := [n for n in _OF_RANKINGS if arguments.get(n)]):
            raise SpecError(f"{', '.join(needless)}: only with rankings, which are not given")
        check_metrics(self.metrics, rankings, isinstance(rankings, Spec))
        self._check_spec()
        with ExitStack() as stack:
            engine = stack.enter_context(connect(session_of(connection, self.labels, rankings)))
            stack.enter_context(engine.reading())
            panel = open_panel(self.labels, names_given, self.judge, arguments, engine, check=check)
            plan = None
            if rankings is None:
                self._check_day(panel)
            else:
                plan = stack.enter_context(self._rank_plan(engine, check=check))
            yield panel, plan, engine

    def _check_spec(self) -> None:
        """Raise SpecError for what the spec of the labels says itself."""
        if isinstance(self.labels, Spec):
            has_table = not (self.rankings is None or isinstance(self.rankings, Spec))
            extras = {
                name: value
                for name, value in self.arguments.items()
                if value is not None and (not has_table or name in (*_OF_LABELS, "negative_grades"))
            }
            Inputs(self.labels, None, extras).check_spec_alone()

    def _check_day(self, panel: Panel) -> None:
        """Raise InputError if no table of labels has the column of days."""
        columns = self.arguments.get("label_columns") or {}
        if day := columns.get("date") or self.arguments.get("date"):
            panel.check_column(day)

    @property
    def _of_rankings(self) -> dict[str, Any]:
        """The arguments that say something of rankings."""
        return {name: value for name, value in self.arguments.items() if name not in _OF_LABELS}

    @contextmanager
    def _rank_plan(self, engine: Database, *, check: bool | float) -> Iterator[Plan]:
        """The plan of an evaluation of the rankings, for the ranks of their items alone."""
        labels, ranking_options = None, {}
        if not isinstance(self.rankings, Spec):
            import pyarrow as pa

            kinds = {"query_id": pa.string(), "item_id": pa.string(), "grade": pa.float64()}
            labels = pa.schema([*kinds.items()]).empty_table()
            ranking_options = self._of_rankings
            ranking_options["label_columns"] = {"query": "query_id", "item": "item_id"}
        inputs = Inputs(self.rankings, labels, ranking_options)
        options = Options(metrics=("ndcg@10",), days=days_between(None, None, None))
        with compared_plan(inputs.resolved(engine), options, engine) as (plan, _):
            if check:
                checks.check_inputs(plan, engine, ignored_tables=("labels", "both tables"))
            yield plan.unfused

    def ordered_systems(
        self, labels: Any, judges: Sequence[str], plan: Plan | None, engine: Database, level: float
    ) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """The systems and their orders by the labels of judges; nothing without metrics.

        Args:
            labels: Makes one row per pair: its keys, and the grade of each judge, grade_1 and on.
            judges: Their names; the first is the one that others are held against.
            plan: The plan of the lists.
            engine: The database.
            level: The coverage of the intervals.
        """
        texts = check_metrics(self.metrics, self.rankings, isinstance(self.rankings, Spec))
        if not texts or plan is None:
            return (), ()
        if "system" not in plan.shape.keys:
            raise SpecError(
                "metrics order systems, given one: give a table for each, or name the column of "
                "systems (system, --system)"
            )
        has_tables = isinstance(self.rankings, Mapping | list | tuple)
        systems, orders = SystemOrders(
            labels=labels(),
            judges=tuple(judges),
            rankings=self.rankings,
            metrics=texts,
            arguments=self._of_rankings,
            system=None if has_tables else plan.spec.rankings.columns.system,
            engine=engine,
            level=level,
        ).rows()
        return tuple(systems), tuple(orders)


def names(argument: str, value: Any) -> tuple[str, ...]:
    """The names that an argument gives; SpecError if one is no text."""
    given_names = listed(value)
    if not all(isinstance(name, str) for name in given_names):
        raise SpecError(f"{argument} takes names, which are texts, given {shortened(repr(value))}")
    return given_names
