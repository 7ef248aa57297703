"""Lists that were not shown, weighed by the propensities of positions.

A click c on an item d that stood at position p of request x is c = o r: it was looked at (o, with
the propensity theta_p) and attracts (r). Over the N requests that have a new list, with lambda_k(d)
for what the rank of d in the new list counts in a metric:

- ips = 1/N sum_x sum_d lambda(d) c / theta_p. Unbiased if clicks follow the position-based model
  and each request showed all items that the new list counts. Joachims, Swaminathan and Schnabel
  2017; for sums over items as of dcg and precision Agarwal, Takatsu, Zaitsev and Joachims 2019.
- clipped_ips: min(1 / theta_p, clip) in place of 1 / theta_p; lower, and less scattered. Joachims
  et al. 2017; Swaminathan and Joachims 2015a.
- snips = sum lambda(d) c / theta_p over sum c / theta_p of all clicks: what a click counts, a mean
  per click and not per request. That 1 / theta is normalised by its own sum is Swaminathan and
  Joachims 2015b; over clicks Wang, Bendersky, Metzler and Najork 2016, who weigh MRR so. Two new
  lists of the same requests have the same ratio as by ips.
- dr = 1/N sum_x sum_d lambda(d) (q + min(1 / theta_p, clip) (c - theta_p q)), where an item that
  the request did not show has q alone. q is the reward model, (clicks + prior mean) /
  (sum theta + prior) over all impressions of the query and item; mean = clicks / sum theta of the
  log. Dudik, Langford and Li 2011; for position bias Oosterhuis 2023. Without clipping, it is ips
  plus q of what was not shown.
- recall@k is a ratio of two ips sums: lambda = 1 down to k, over all clicks.
- naive: theta = 1, of shown and new places alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sqlmetrics.catalog.counterfactual import (
    CounterfactualMeasure,
    EstimatedMetric,
    counterfactual_metric,
)
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual.terms import (
    SHOWN_SYSTEM,
    Question,
    Term,
    case_column,
    clipped,
    segment_value,
    segments_of,
)
from sqlmetrics.clicks.propensity.curve import PropensityCurve, propensities
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.click_columns import ClickRankings
from sqlmetrics.spec.counterfactual import Counterfactual
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import double, identifier, literal, verbatim

KEYS = {"request": "request_id", "query": "query_text"}
"""What lists are matched by -> its column."""


def new_items(source: ClickRankings, relation: Relation, title: str) -> Stage:
    """The rows of the new lists, under the names of the stages.

    Args:
        source: What they are.
        relation: Where they are.
        title: Their system, where no column says it.
    """
    columns = source.columns
    system = f"cast({identifier(columns.system)} as varchar)" if columns.system else ""
    view = {
        "about": "one row per item of a list that was not shown",
        "columns": [
            Column(system or literal(title), "system"),
            Column(f"cast({identifier(columns.query)} as varchar)", "list_id"),
            Column(f"cast({identifier(columns.item)} as varchar)", "item_id"),
            Column(f"cast({identifier(columns.order)} as double)", "ordered_by"),
        ],
        "relation": relation,
        "conditions": [verbatim(source.where)] if source.where else [],
    }
    return Stage("new_list_items", "clicks/table", view)


def question(
    tables: ClickTables,
    counterfactual: Counterfactual,
    items: Stage,
    curve: PropensityCurve,
    day: Column | None = None,
    *,
    by: Sequence[str] = (),
    has_shown: bool = False,
) -> Question:
    """The sums of the estimates of new lists.

    Args:
        tables: The stages of the log.
        counterfactual: What is asked, of `rankings`.
        items: The stage of the lists.
        curve: The propensities of all positions of the log.
        day: The day of a row of the log, if each is estimated by itself.
        by: The segments of the log that are estimated too.
        has_shown: Whether the lists that were shown are estimated too, as the
            system `SHOWN_SYSTEM`: each item has the rank of its position.
    """
    measures = [counterfactual_metric(name) for name in counterfactual.measured]
    rates, layout = "dr" in counterfactual.estimators, layout_of(tables, curve)
    segments = segments_of(tables, by)
    segment_columns = [segment(name) for name in segments]
    estimated = [term(metric) for metric in counterfactual.estimated]
    counts = ["n_requests", *(f"{measure.column}_n_clicks" for measure in measures)]
    read = {*counts, *(name for term in estimated for name in term.columns)}
    stages = [
        *matching(tables, counterfactual, items, layout, day, segments=segments),
        propensities(curve),
        *_model(tables, counterfactual, layout, rates=rates, day=day),
        _list_places(
            tables, counterfactual, measures, layout, segment_columns, day=day, has_shown=has_shown
        ),
        *_sums(tables, measures, layout, read, segment_columns, rates=rates, day=day),
    ]
    return Question(stages, estimated, counts, day, [*segments], tables.names.at)


def layout_of(tables: ClickTables, curve: PropensityCurve) -> str:
    """The column of the device or layout that propensities differ by; empty if they do not."""
    by = tables.clicks.propensity.by
    return identifier(by) if by is not None and curve.groups != (None,) else ""


def matching(
    tables: ClickTables,
    counterfactual: Counterfactual,
    items: Stage,
    layout: str = "",
    day: Column | None = None,
    *,
    segments: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Stage]:
    """The stages to the requests that have a new list."""
    yield items
    by_rank = (
        counterfactual.rankings is not None and counterfactual.rankings.columns.rank is not None
    )
    yield _stage("new_lists", direction="asc" if by_rank else "desc")
    yield from tables.stages(tables.evaluates, "answers")
    log = {"of": tables.of, "impressions": tables.evaluates, "day": day}
    values = [
        Column(segment_value(f"min({column})"), segment(name)) for name, column in segments.items()
    ]
    yield _stage("asked_requests", layout=layout, segments=values, **log)
    yield _stage("matched_requests", key=KEYS[counterfactual.match])


def _model(
    tables: ClickTables,
    counterfactual: Counterfactual,
    layout: str,
    *,
    rates: bool,
    day: Column | None,
) -> Iterator[Stage]:
    """What each shown item weighs, and the reward model."""
    log = {"of": tables.of, "impressions": tables.evaluates, "layout": layout, "day": day}
    weights = [
        Column("1e0 / propensity", "weight"),
        clipped("1e0 / propensity", counterfactual.clip),
    ]
    yield _stage("position_weights", weights=weights, layout=layout)
    yield _stage("weighed_items", **log)
    if rates:
        total = tables.names.at.sum
        yield _stage("item_mean", day=day, sum=total)
        yield _stage("pair_rates", prior=double(counterfactual.prior), day=day, sum=total)


def _list_places(
    tables: ClickTables,
    counterfactual: Counterfactual,
    measures: Sequence[CounterfactualMeasure],
    layout: str,
    by: Sequence[str],
    *,
    day: Column | None,
    has_shown: bool,
) -> Stage:
    """One row per request and item of its list."""
    cutoffs = [measure.k for measure in measures]
    key_columns = [*(["metric_date"] if day else []), "request_id", "query_text"]
    return _stage(
        "list_places",
        key=KEYS[counterfactual.match],
        key_columns=[*key_columns, *(["layout"] if layout else []), *by, "user_id"],
        deepest=0 if None in cutoffs else max(k for k in cutoffs if k),
        system=literal(SHOWN_SYSTEM) if has_shown else "",
        of=tables.of,
        impressions=tables.evaluates,
    )


def _sums(
    tables: ClickTables,
    measures: Sequence[CounterfactualMeasure],
    layout: str,
    read: Collection[str],
    by: Sequence[str],
    *,
    rates: bool,
    day: Column | None,
) -> Iterator[Stage]:
    """One row per request, with what it adds to each sum that is read."""
    yield _stage(
        "places",
        new_propensities=any(measure.metric.name == "clicks" for measure in measures),
        layout=layout,
        rates=rates,
        day=day,
        by=by,
    )
    gains = [
        Column("coalesce(is_clicked * weight, 0e0)", "ips"),
        Column("coalesce(is_clicked * clipped_weight, 0e0)", "clipped_ips"),
    ]
    if rates:
        change = "coalesce(clipped_weight * (is_clicked - propensity * rate), 0e0)"
        gains.append(Column(f"rate + {change}", "dr"))
    discounts = list(map(_discount, measures))
    yield _stage("gains", gains=gains, discounts=discounts, rates=rates, day=day, by=by)
    exact = tables.names.at.exact
    every = [
        replace(click_column, sql=exact(click_column.sql))
        for click_column in _list_clicks()
        if click_column.name in read
    ]
    if every:
        yield _stage("list_clicks", columns=every)
    clicks = [
        Column(f"coalesce(min(list_clicks.{click_column.name}), 0)", click_column.name)
        for click_column in every
    ]
    added = [
        replace(column, sql=exact(column.sql))
        for measure in measures
        for column in _added(measure)
        if column.name in read
    ]
    yield _stage("list_sums", columns=[*clicks, *added], clicks=bool(every), day=day, by=by)


def _list_clicks() -> Iterator[Column]:
    """What all clicks of a request count."""
    yield Column("sum(is_clicked)", "all_naive")
    yield Column("sum(is_clicked * weight)", "all_ips")
    yield Column("sum(is_clicked * clipped_weight)", "all_clipped_ips")


def _discount(measure: CounterfactualMeasure) -> Column:
    """What the rank of an item counts, 0 below the cutoff."""
    discount = measure.metric.discount.format(k=measure.k)
    if measure.k:
        discount = case_column(f"rnk <= {measure.k}", discount)
    return Column(discount, measure.column)


def _added(measure: CounterfactualMeasure) -> Iterator[Column]:
    """What a request can add."""
    column = measure.column
    yield Column(f"sum({column} * naive)", f"{column}_naive")
    for gain in ("ips", "clipped_ips", "dr"):
        yield Column(f"sum({column} * {gain})", f"{column}_{gain}")
    for gain in ("ips", "clipped_ips"):
        square = f"sum(\n    {column} * {gain}\n        * {column} * {gain}\n)"
        yield Column(square, f"{column}_{gain}_squares")
    yield Column(f"sum({column})", f"{column}_whole")
    yield Column(f"sum({column} * is_unshown)", f"{column}_unshown")
    yield Column(f"sum({column} * is_unknown)", f"{column}_unknown")
    yield Column(f"sum(case when {column} > 0 then naive else 0 end)", f"{column}_n_clicks")


def term(estimated_metric: EstimatedMetric) -> Term:
    """What an estimate of new lists is made of."""
    column, name = estimated_metric.measure.column, estimated_metric.estimator
    of_click = estimated_metric.metric.per == "click" or name == "snips"
    gain = "ips" if name == "snips" else name
    weighting = "ips" if gain == "ips" else "clipped_ips"
    return Term(
        estimated_metric.measure,
        name,
        x=f"{column}_{gain}",
        w=f"all_{gain}" if of_click else "n_requests",
        naive=(_naive(estimated_metric.measure), "all_naive" if of_click else "n_requests"),
        weights=(f"{column}_{weighting}", f"{column}_{weighting}_squares"),
        clipping=(f"{column}_ips", f"{column}_clipped_ips"),
        missing=(f"{column}_unknown" if name == "dr" else f"{column}_unshown", f"{column}_whole"),
        sample=f"{column}_n_clicks",
    )


def _naive(measure: CounterfactualMeasure) -> str:
    """The column of the value without weights: `clicks` are then just counted."""
    return f"{measure.column}_{'n_clicks' if measure.metric.name == 'clicks' else 'naive'}"


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/counterfactual/{name}", view)
