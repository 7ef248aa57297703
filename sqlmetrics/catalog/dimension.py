"""What a dashboard, a semantic layer or an analyst has to know of a metric, as one row each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sqlmetrics.catalog.counterfactual import EstimatedMetric, estimated_metric, is_estimated
from sqlmetrics.catalog.measure import Measure, parse, plain_text, word
from sqlmetrics.catalog.metric import OF, at_cutoff, column_at_cutoff, limits, metric_of
from sqlmetrics.catalog.online import ONLINE, Online, is_function, is_online, online

RATIO, TOTAL, NEVER = "ratio", "total", "none"
"""How days are put together: sum(numerator) / sum(denominator), sum(value), or not at all."""


@dataclass(frozen=True)
class MetricRow:
    """A metric as a spec asks for it, in the words of the fact table and in those of people.

    Attributes:
        metric: Its text without the cutoff, as in the fact table: `ndcg`, `recall(rel=2)`.
        k: The cutoff; 0 for none.
        name: Its canonical text: `ndcg@10`.
        column: The name of its column in wide tables and views: `ndcg_at_10`.
        label: Its title for people: `Normalized discounted cumulative gain at 10`.
        meaning: Its formula in one line, where k is the cutoff and R the query's number of
            relevant labels.
        low: The least value it can have; None if there is none.
        high: The largest one; None if there is none, or it depends on the query.
        direction: `higher` or `lower` values are better; `none` if it says nothing of quality
            by itself.
        additive: Whether days, or values of a segment, can be put together by sums.
        unit: `share`, `rank`, `count`, `bits`, `seconds`; empty for what has none.
        roll_up: How they are: `ratio` (sum of numerators / sum of denominators), `total` (sum of
            values), or `none` for what is to be computed anew, whose numerator is NULL.
    """

    metric: str
    k: int
    name: str
    column: str
    label: str
    meaning: str
    low: float | None
    high: float | None
    direction: str
    additive: bool
    unit: str
    roll_up: str


def metric_row(measure: Measure | Online | EstimatedMetric) -> MetricRow:
    """The row of a metric.

    >>> row = metric_row(parse("ndcg(gain=linear)@10"))
    >>> row.name, row.column, row.low, row.high, row.direction, row.roll_up
    ('ndcg(gain=linear)@10', 'ndcg_gain_linear_at_10', 0.0, 1.0, 'higher', 'ratio')
    >>> row.label
    'Normalized discounted cumulative gain (gain=linear) at 10'
    """
    low, high = (
        measure.limits if isinstance(measure, EstimatedMetric) else limits(measure.metric.range)
    )
    roll_up = _roll_up(measure)
    return MetricRow(
        metric=measure.name,
        k=measure.k or 0,
        name=str(measure),
        column=measure.column,
        label=_label(measure),
        meaning=_meaning(measure),
        low=low,
        high=high,
        direction=measure.metric.better,
        additive=roll_up != NEVER,
        unit=measure.metric.unit,
        roll_up=roll_up,
    )


def metric_rows(measures: Iterable[Measure], of_log: Iterable[str] = ()) -> list[MetricRow]:
    """The rows of all that a spec asks for, in its order.

    Args:
        measures: Its metrics of lists: `Spec.measures`.
        of_log: The texts of its online metrics: `Spec.online`.

    Raises:
        SpecError: If there is no online metric of a text.
    """
    return [*map(metric_row, measures), *(metric_row(online(text)) for text in of_log)]


def row_of(metric: str, k: int) -> MetricRow:
    """The row of a metric that a fact table holds.

    Args:
        metric: Its text without the cutoff.
        k: The cutoff, 0 for none.

    Raises:
        SpecError: If this version knows no such metric.
    """
    text = at_cutoff(metric, k)
    if is_estimated(text):
        return metric_row(estimated_metric(text))
    return metric_row(online(text) if is_online(text) else parse(text))


def column_of(metric: str, k: int) -> str:
    """The column of a metric that a fact table holds, be it a formula or a file of others.

    >>> column_of("recall(rel=2)", 10), column_of("north_star", 0), column_of("revenue(t=2)", 10)
    ('recall_rel2_at_10', 'north_star', 'revenue_t2_at_10')
    >>> column_of("mean(price, better=lower)", 10)
    'mean_price_at_10'
    """
    name, *settings = re.split(r"[(=, )]+", metric.strip(")"))
    if not name.isidentifier() or metric_of(name) or is_online(name) or is_function(metric):
        return row_of(metric, k).column
    pairs = zip(settings[::2], settings[1::2], strict=False)
    words = [f"{key}{'' if value[:1].isdigit() else '_'}{word(value)}" for key, value in pairs]
    return column_at_cutoff("_".join([name, *words]), k)


def _meaning(measure: Measure | Online | EstimatedMetric) -> str:
    if isinstance(measure, EstimatedMetric):
        return measure.meaning
    return measure.metric.title if isinstance(measure, Online) else measure.metric.formula


def _roll_up(measure: Measure | Online | EstimatedMetric) -> str:
    if not isinstance(measure, Measure):
        return RATIO
    if not measure.adds_up:
        return NEVER
    return TOTAL if measure.metric.count else RATIO


def _label(measure: Measure | Online | EstimatedMetric) -> str:
    settings = measure.name.removeprefix(measure.metric.name)
    if isinstance(measure, Measure) and measure.metric.operands:
        texts = [f"{key}={plain_text(value)}" for key, value in measure.settings]
        settings = f"({', '.join(texts)})" if texts else ""
    title = measure.metric.title if isinstance(measure, Measure) else measure.metric.label
    return f"{title}{settings and f' {settings}'}{f' at {measure.k}' if measure.k else ''}"


# Whether more of a metric is better.

SIGNS = {"higher": 1, "lower": -1, "none": 0}


def direction(metric: str, measures: Iterable[Measure] = ()) -> int:
    """1 where higher is better, -1 where lower is, 0 where neither; 1 for names of others.

    Args:
        metric: Its text.
        measures: The metrics of the spec, of which some are formulas with names of their own.

    >>> direction("ndcg@10"), direction("abandonment"), direction("num_ret"), direction("sales")
    (1, -1, 0, 1)
    """
    name = re.split(r"[(@]", metric)[0].strip().casefold()
    if name in ONLINE:
        return SIGNS[online(metric).metric.better if "(" in metric else ONLINE[name].better]
    betters = {measure.name: measure.metric.better for measure in measures}
    if name in betters:
        return SIGNS[betters[name]]
    if better := re.search(r"\bbetter=(\w+)", metric):  # of a function of a column
        return SIGNS[better[1]]
    match = metric_of(name) or metric_of(f"{name}{OF}")
    return SIGNS[match[0].better] if match else 1
