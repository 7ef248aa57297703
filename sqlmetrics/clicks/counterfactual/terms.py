"""What an estimate is made of: two sums over requests, and columns that say how far to trust it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

from sqlmetrics.catalog.counterfactual import CounterfactualMeasure, EstimatedMetric
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL, NO_DATE
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import LINE, case, double, identifier, literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums

SHOWN = "shown"
"""The system of what the log showed, where it stands beside what it did not show."""


@dataclass(frozen=True)
class Term:
    """An estimate: the sum of one column over that of another.

    Attributes:
        measure: The metric.
        estimator: How it is estimated.
        x: The column of the numerator.
        w: That of the denominator.
        naive: Both without weights.
        weights: The columns of the sum of weights and of that of their squares.
        clipping: The columns of the sum of weights as they are, and clipped.
        missing: The columns of what the estimator knows nothing of, and of the whole.
        sample: That of how many the weights are of: clicks, impressions or lists.
        logged: Whether the weights are those of a policy that logged its probabilities: their
            mean is 1 if these are right, and it could choose all that is weighed.
    """

    measure: CounterfactualMeasure
    estimator: str
    x: str
    w: str
    naive: tuple[str, str]
    weights: tuple[str, str]
    clipping: tuple[str, str]
    missing: tuple[str, str]
    sample: str
    logged: bool = False

    @property
    def column(self) -> str:
        """What its own columns begin with; a metric by snips has the numerator of ips."""
        return f"{self.measure.column}_{self.estimator}"

    @property
    def key(self) -> tuple[str, int]:
        """The name and the cutoff of what is estimated; 0 if it has none."""
        metric = EstimatedMetric(self.measure, self.estimator)
        return metric.name, metric.k or 0

    @property
    def products(self) -> tuple[tuple[str, str], ...]:
        """The columns whose products, summed over clusters, its interval is made of."""
        return (self.x, self.x), (self.x, self.w), (self.w, self.w)

    @property
    def counted(self) -> str:
        """The column of requests; of a policy of impressions."""
        return "n_impressions" if self.measure.metric.of == "policy" else "n_requests"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        trust_columns = (*self.naive, *self.weights, *self.clipping, *self.missing, self.sample)
        return (self.x, self.w, *trust_columns, *(_WEIGHT if self.logged else ()))

    def estimate(self, sums: Mapping[str, Any]) -> Estimate:
        """The one sum over the other, with its error over clusters.

        Args:
            sums: A row of `Question.select`.
        """
        x, w = (float(sums[f"sum_{name}"] or 0) for name in (self.x, self.w))
        x2, xw, w2 = (float(sums[product(*pair)] or 0) for pair in self.products)
        value, n = x / w if w else None, int(sums["n_clusters"])
        return ratio_of_sums(value, n, w=w, x2=x2, xw=xw, w2=w2)


_WEIGHT = ("weight", "squares")
"""The columns of logged weights, and of their squares."""


def of_logged(estimated_metric: EstimatedMetric, counted: str, *, sample: str) -> Term:
    """An estimate by weights that are those of a policy that logged its probabilities.

    Args:
        estimated_metric: What is estimated.
        counted: The column of what a mean is taken over.
        sample: That of how many the weights are of.
    """
    column, name = estimated_metric.measure.column, estimated_metric.estimator
    is_clipped = name in ("clipped_ips", "dr")
    return Term(
        estimated_metric.measure,
        name,
        x=f"{column}_{'ips' if name == 'snips' else name}",
        w="weight" if name == "snips" else counted,
        naive=(f"{column}_naive", counted),
        weights=("clipped_weight", "clipped_squares") if is_clipped else _WEIGHT,
        clipping=("weight", "clipped_weight"),
        missing=("unknown", counted),
        sample=sample,
        logged=name != "dr",
    )


@dataclass(frozen=True)
class Question:
    """The stages to one row per request or impression, and what is summed of it.

    Attributes:
        stages: Up to the last one.
        terms: The estimates.
        counts: Columns that are summed besides.
        day: The day of a row of the log, where each day is estimated by itself; else None.
        by: The segments that are estimated too, each by its column of the last stage.
        translation: Where it is asked, which decides how floats are added.
    """

    stages: Sequence[Stage]
    terms: Sequence[Term]
    counts: Sequence[str] = field(default=())
    day: Column | None = None
    by: Sequence[str] = ()
    translation: Translation = field(default_factory=Translation)

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns of `select` behind its keys: all can be added up."""
        plain = [*dict.fromkeys([*self.counts, *_columns(self.terms)])]
        return ("n_clusters", *(f"sum_{name}" for name in plain), *self._products)

    @property
    def _products(self) -> dict[str, tuple[str, str]]:
        pairs = dict.fromkeys(pair for term in self.terms for pair in term.products)
        return {product(*pair): pair for pair in pairs}

    @property
    def select(self) -> str:
        """One row per system, segment, and day if there is one: sums, and those of intervals."""
        plain = [*dict.fromkeys([*self.counts, *_columns(self.terms)])]
        of_cluster = [Column(self._total(name), name) for name in plain]
        segments = [(ALL, literal(ALL), ""), *((name, *[segment(name)] * 2) for name in self.by)]
        units = self.stages[-1].name
        view = {"units": units, "columns": of_cluster, "day": self.day, "segments": segments}
        clusters = Stage("cluster_sums", "clicks/counterfactual/cluster_sums", view)
        sums = [Column(self._total(name), f"sum_{name}") for name in plain]
        products = [
            Column(self.translation.exact(_product(a, b)), name)
            for name, (a, b) in self._products.items()
        ]
        view = {"columns": [*sums, *products], "day": self.day}
        return with_stages(
            [*self.stages, clusters], print_template("clicks/counterfactual/sums", view)
        )

    def _total(self, name: str) -> str:
        is_count = name in self.counts or name.startswith("n_")
        return f"sum({name})" if is_count else self.translation.total(name)


def day_of(tables: ClickTables) -> Column:
    """The day of a row of the log, as each stage has it that a job reads."""
    day = f"{tables.evaluates}.metric_date" if tables.clicks.daily else f"cast('{NO_DATE}' as date)"
    return Column(day, "metric_date")


def segments_of(tables: ClickTables, by: Iterable[str]) -> dict[str, str]:
    """The segments that the log has -> their columns there; others are of lists alone."""
    return {name: identifier(name) for name in by if identifier(name) in tables.names.segments}


def segment_value(column: str) -> str:
    """The value of a segment, also of what has none."""
    return f"coalesce({column}, {literal(UNKNOWN)})"


def product(a: str, b: str) -> str:
    """The name of the sum over clusters of the product of two columns."""
    return f"{a}_squared" if a == b else f"{a}_times_{b}"


def _columns(terms: Iterable[Term]) -> Iterator[str]:
    for term in terms:
        yield from term.columns


def clipped(weight: str, clip: float | None) -> Column:
    """A weight, at most `clip`, as the column `clipped_weight`."""
    most = double(clip) if clip is not None else ""
    sql = case_column(f"{weight} > {most}", most, weight) if most else weight
    return Column(sql, "clipped_weight")


def case_column(condition: str, then: str, otherwise: str = "0e0") -> str:
    """A `case` that is a column by itself: of a long one the lines stand below each other."""
    return dedent(case(condition, then, otherwise)).strip("\n")


def _product(first: str, second: str) -> str:
    """The sum of products, on a line of its own if it is long."""
    line = f"sum(1e0 * {first} * {second})"
    return line if len(line) <= LINE - 4 else f"sum(\n    1e0 * {first}\n        * {second}\n)"
