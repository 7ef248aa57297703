"""What an estimate is made of: two sums over requests, and columns that say how far to trust it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.counterfactual import CounterfactualMeasure, EstimatedMetric
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL, NO_DATE
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import LINE, case, double, identifier, literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums
from sqlmetrics.tables.table import Table, many, metric_value, segment_cell, wrapped
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular, arrow_table, kinds_of

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_SYSTEM = "shown"
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


# What is estimated of a ranking that was not shown, and how far it can be believed.

FEWEST = 100
"""Fewer clicks, or an effective sample of fewer, are too few for an interval to hold."""
UNEVEN = 0.1
"""Below this share of its sample an effective one hangs on a few large weights."""
CLIPPED = 0.1
"""Above this share of the weight, clipping changes what is estimated."""
MOST_UNKNOWN = 0.05
"""Above this share of a new list, what the log does not tell of changes what is estimated."""
FAR = 4.0
"""The mean of a policy's weights is 1; so many standard errors off, something is wrong."""


@dataclass(frozen=True)
class CounterfactualEstimate:
    """An estimate of a metric of a ranking, or a policy, that was not shown.

    Attributes:
        system: Whose ranking it is; the policy.
        metric: Its name, without the cutoff.
        k: Its cutoff, 0 if it has none.
        estimator: `ips`, `clipped_ips`, `snips` or `dr`.
        value: The estimate; None if there is no click to divide by.
        standard_error: By the delta method, of users (requests without one) as independent
            draws; the propensities and the reward model are taken as known.
        ci_low: The lower end of the interval, by Student's t. None with less than two users.
        ci_high: The upper end.
        naive: The same without weights: what the clicks say if nobody corrects them.
        n: Requests that have a new list; of a policy impressions.
        n_clusters: Users, and requests without one.
        n_clicks: Clicks on what the new list counts; of a policy all.
        ess: The effective sample size of the weights (Kish): of the clicks of a new list, of
            the impressions of a policy, of the requests whose list is the new one.
        sample: Of how many.
        clipped_share: The share of the weight above `clip`, 0 to 1.
        unknown_share: The share of what the new list counts (of the policy's probability) that
            the log does not tell of: items that the request did not show; for dr, that no
            request of the query did.
        warnings: Why not to believe it; empty if nothing speaks against it.
        segment_name: Whose requests, or impressions, it is of: `all`, or a segment.
        segment_value: `all`, or the segment's value.
    """

    system: str
    metric: str
    k: int
    estimator: str
    value: float | None
    standard_error: float | None
    ci_low: float | None
    ci_high: float | None
    naive: float | None
    n: int
    n_clusters: int
    n_clicks: int
    ess: float
    sample: int
    clipped_share: float
    unknown_share: float
    warnings: tuple[str, ...] = ()
    segment_name: str = ALL
    segment_value: str = ALL

    @property
    def segment(self) -> str:
        """Its segment for people; `all` if it has none."""
        return segment_cell(self.segment_name, self.segment_value)


_KINDS = kinds_of(CounterfactualEstimate)
_SEGMENT = {name: _KINDS.pop(name) for name in ("segment_name", "segment_value")}
KINDS = {
    **_KINDS,
    "warnings": "string",
    "method": "string",
    "clip": "double",
    "confidence": "double",
    **_SEGMENT,
}
"""Column -> its type."""


@dataclass(frozen=True, repr=False)
class CounterfactualResult(Tabular):
    """Estimates of what was not shown; it prints as a table with the warnings below.

    Attributes:
        per: What `n` counts: `request` or `impression`.
        method: How the propensities are known: `given`, `harvest` ...; `logged` of a policy.
        clip: The largest weight of clipped_ips and dr; None if none are clipped.
        confidence: The coverage of the intervals.
        n_left_out: Requests of the log that have no new list; 0 of a policy.
        notes: What a reader must know of the log.
        estimates: By system, metric and estimator.
    """

    per: str
    method: str
    clip: float | None
    confidence: float
    n_left_out: int = 0
    notes: tuple[str, ...] = ()
    estimates: tuple[CounterfactualEstimate, ...] = ()

    def __getitem__(self, name: str) -> float | None:
        """The value of `metric estimator`, like `dcg@10 snips`, where there is one system.

        Segments are left out.

        Raises:
            KeyError: If there is none, or one for each of several systems.
        """
        values = [
            estimate.value
            for estimate in self.estimates
            if f"{at_cutoff(estimate.metric, estimate.k)} {estimate.estimator}" == name
            and estimate.segment_name == ALL
        ]
        if len(values) != 1:
            raise KeyError(name)
        return values[0]

    def table(self) -> pa.Table:
        """One row per estimate: all of `CounterfactualEstimate`, and method, clip and confidence.

        Several warnings are one text; NULL without any.
        """
        rows = [row | {"warnings": "; ".join(row["warnings"]) or None} for row in self.to_dicts()]
        return arrow_table(rows, KINDS)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The same as plain values, for JSON."""
        settings = {"method": self.method, "clip": self.clip, "confidence": self.confidence}
        return [
            vars(estimate) | settings | {"warnings": [*estimate.warnings]}
            for estimate in self.estimates
        ]

    def _arrow_tables(self) -> ArrowTables:
        return {"estimates": self.table}

    def _blocks(self) -> Iterator[Block]:
        names, first_number = [*_NAMES], 3
        cells = [_cells(estimate) for estimate in self.estimates]
        if any(estimate.segment_name != ALL for estimate in self.estimates):
            names, first_number = ["segment", *names], 4
            cells = [
                [estimate.segment, *row]
                for estimate, row in zip(self.estimates, cells, strict=True)
            ]
        warning_texts = (f"warning: {warning}" for warning in self.warnings())
        yield from (self._head(), Table(names, cells, first_number))
        yield wrapped([*self.notes, *warning_texts])

    def _head(self) -> str:
        n, clusters = (
            max((getattr(estimate, name) for estimate in self.estimates), default=0)
            for name in ("n", "n_clusters")
        )
        of_users = f" of {many(clusters, 'user')}" if clusters < n else ""
        left_out = f", {self.n_left_out:,} more without a new list" if self.n_left_out else ""
        basis = f"propensities: {self.method}; ± {100 * self.confidence:g} %"
        return f"{many(n, self.per)}{of_users}{left_out}; {basis}"

    def warnings(self) -> Iterator[str]:
        """Each warning of `estimates` once, with those that it is of; of segments how many."""
        metrics_by_warning: dict[str, dict[str, list[str]]] = {}
        for estimate in (estimate for estimate in self.estimates if estimate.segment_name == ALL):
            metric = f"{estimate.system} {at_cutoff(estimate.metric, estimate.k)}"
            for warning in estimate.warnings:
                metrics_by_warning.setdefault(warning, {}).setdefault(metric, []).append(
                    estimate.estimator
                )
        for warning, estimators_by_metric in metrics_by_warning.items():
            names = [
                f"{metric} {', '.join(estimators)}"
                for metric, estimators in estimators_by_metric.items()
            ]
            remainder = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"{'; '.join(names[:3])}{remainder}: {warning}"
        slices = [estimate for estimate in self.estimates if estimate.segment_name != ALL]
        if n := sum(bool(estimate.warnings) for estimate in slices):
            yield f"{n:,} of {many(len(slices), 'estimate')} of segments have warnings: see -o json"


_NAMES = ("system", "metric", "estimator", "value", "±", "naive", "ess", "clipped", "unknown")


def _cells(estimate: CounterfactualEstimate) -> list[str]:
    half_width = (
        None
        if estimate.value is None or estimate.ci_high is None
        else estimate.ci_high - estimate.value
    )
    return [
        estimate.system,
        at_cutoff(estimate.metric, estimate.k),
        estimate.estimator,
        *map(metric_value, (estimate.value, half_width, estimate.naive)),
        f"{estimate.ess:,.0f}",
        *(f"{share:.1%}" for share in (estimate.clipped_share, estimate.unknown_share)),
    ]


def estimates(
    rows: Iterable[Mapping[str, Any]], terms: Iterable[Term], clip: float | None, confidence: float
) -> Iterator[CounterfactualEstimate]:
    """The estimates, of the sums of each system."""
    terms = list(terms)
    for row in rows:
        yield from (_estimate(row, term, clip, confidence) for term in terms)


def _estimate(
    row: Mapping[str, Any], term: Term, clip: float | None, confidence: float
) -> CounterfactualEstimate:
    def total(name: str) -> float:
        return float(row[f"sum_{name}"] or 0)

    n = int(total(term.counted))
    n_clusters, n_clicks = int(row["n_clusters"]), int(total(f"{term.measure.column}_n_clicks"))
    ratio = term.estimate(row)
    ci_low, ci_high = ratio.interval(confidence)
    weight, squares = map(total, term.weights)
    all_weight, kept_weight = map(total, term.clipping)
    naive_x, naive_w = map(total, term.naive)
    missing, whole_weight = map(total, term.missing)
    estimate = CounterfactualEstimate(
        system=row["system"],
        metric=term.measure.metric.name,
        k=term.measure.k or 0,
        estimator=term.estimator,
        value=ratio.value if total(term.w) else None,
        standard_error=ratio.standard_error,
        ci_low=ci_low,
        ci_high=ci_high,
        naive=naive_x / naive_w if naive_w else None,
        n=n,
        n_clusters=n_clusters,
        n_clicks=n_clicks,
        ess=weight * weight / squares if squares else 0.0,
        sample=int(total(term.sample)),
        clipped_share=max(1 - kept_weight / all_weight, 0.0) if all_weight else 0.0,
        unknown_share=missing / whole_weight if whole_weight else 0.0,
        segment_name=row["segment_name"],
        segment_value=row["segment_value"],
    )
    warnings = [*_warned(estimate, clip)]
    if term.logged:
        warnings += _off(row, n)
    return CounterfactualEstimate(**vars(estimate) | {"warnings": tuple(warnings)})


def _warned(estimate: CounterfactualEstimate, clip: float | None) -> Iterator[str]:
    """Why not to believe an estimate."""
    if estimate.n_clicks < FEWEST:
        yield f"the estimate rests on {many(estimate.n_clicks, 'click')} only"
    if estimate.sample and estimate.ess < FEWEST <= estimate.n_clicks:
        yield f"the weights leave an effective sample of only {estimate.ess:,.0f}"
    elif estimate.sample and estimate.ess < UNEVEN * estimate.sample:
        share = f"{estimate.ess:,.0f} of {estimate.sample:,}"
        yield f"a few large weights decide the estimate: the effective sample is {share}"
    if (
        estimate.estimator == "clipped_ips"
        and clip is not None
        and estimate.clipped_share > CLIPPED
    ):
        share = f"{estimate.clipped_share:.0%} of the weight is above the clip of {clip:g}"
        yield f"{share}: the value is too low by about as much"
    if estimate.unknown_share > MOST_UNKNOWN:
        yield f"the log did not show {estimate.unknown_share:.0%} of the items that count"


def _off(row: Mapping[str, Any], n: int) -> Iterator[str]:
    """Whether logged weights cannot be right: their mean is 1 if they are."""
    weight, squares = float(row["sum_weight"]), float(row["sum_squares"])
    mean = weight / n
    error = max(squares / n - mean * mean, 0.0) ** 0.5 / n**0.5
    if abs(mean - 1) > FAR * error and abs(mean - 1) > 1e-6:
        yield (
            f"the mean weight is {mean:.3f}; it is 1 if the logged probabilities are right and "
            "cover the new lists"
        )
