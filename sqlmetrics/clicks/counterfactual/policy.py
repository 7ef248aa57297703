"""A policy that did not choose, weighed by the logged probabilities of the one that did.

Over the n impressions, each an action a at a position p with its click c, w = pi_e(a | p) / pi_0,
where pi_0 is the logged `propensity_score`:

- ips = 1/n sum w c. Horvitz and Thompson 1952; Strehl et al. 2010.
- clipped_ips: min(w, clip) in place of w. Swaminathan and Joachims 2015a.
- snips = sum w c / sum w. Swaminathan and Joachims 2015b.
- dr = 1/n sum (sum_a pi_e(a | p) q(a, p) + min(w, clip) (c - q(a, p))), with the reward model
  q = (clicks + prior mean) / (impressions + prior) of the item at the position; what was never
  logged there has the mean. Dudik, Langford and Li 2011; Saito, Aihara, Matsutani and Narita 2021.
- naive = 1/n sum c, what the logging policy got.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual.terms import (
    SHOWN,
    Question,
    Term,
    clipped,
    of_logged,
    segment_value,
    segments_of,
)
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.counterfactual import Counterfactual, Policy
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import double, identifier, literal, verbatim

POLICY_ROWS = "policy_rows"
"""The stage of a policy that is a table; the table itself may be called `policy`."""


def actions(tables: ClickTables, day: Column | None = None, by: Sequence[str] = ()) -> list[Stage]:
    """The stages to one row per impression."""
    stage_name = tables.evaluates
    values = [
        Column(segment_value(f"{stage_name}.{column}"), segment(name))
        for name, column in segments_of(tables, by).items()
    ]
    log = {"of": tables.of, "shown": stage_name, "day": day, "segments": values}
    return [*tables.stages(stage_name, "answers"), _stage("actions", **log)]


def policy_rows(source: Policy, relation: Relation) -> Stage:
    """The rows of a policy, under the names of the stages."""
    columns = source.columns
    position = f"cast({identifier(columns.position)} as bigint)" if columns.position else ""
    view = {
        "about": "one row per item and position: the probability that the policy chooses it",
        "columns": [
            Column(f"cast({identifier(columns.item)} as varchar)", "item_id"),
            *([Column(position, "position")] if position else []),
            Column(f"cast({identifier(columns.probability)} as double)", "probability"),
        ],
        "relation": relation,
        "conditions": [verbatim(source.where)] if source.where else [],
    }
    return Stage(POLICY_ROWS, "clicks/table", view)


def question(
    tables: ClickTables,
    counterfactual: Counterfactual,
    rows: Stage | None,
    n_items: int,
    day: Column | None = None,
    *,
    by: Sequence[str] = (),
    has_shown: bool = False,
) -> Question:
    """The sums of the estimates of a policy.

    Args:
        tables: The stages of the log.
        counterfactual: What is asked, of `policy`.
        rows: The stage of the policy's rows; None for the uniform one.
        n_items: How many items the uniform one chooses from.
        day: The day of a row of the log, if each is estimated by itself.
        by: The segments of the log that are estimated too.
        has_shown: Whether the policy that chose stands beside it, as a system `SHOWN`: its weights
            are 1.
    """
    source = counterfactual.policy
    is_table = isinstance(source, Policy)
    by_position = isinstance(source, Policy) and source.columns.position is not None
    view = {
        "policy": is_table,
        "by_position": by_position,
        "n_items": double(n_items),
        "prior": double(counterfactual.prior),
        "probability": "coalesce(policy.probability, 0e0)" if is_table else _share(n_items),
        "clipped": [clipped("weight", counterfactual.clip)],
        "system": literal(counterfactual.title),
        "columns": list(_added()),
        "day": day,
        "sum": tables.names.at.sum,
        "by": [segment(name) for name in segments_of(tables, by)],
        "shown": {"system": literal(SHOWN), "columns": list(_of_shown())} if has_shown else None,
    }
    names = ("action_mean", "action_rates", "expected_rates", "weighed_actions")
    stages = [
        *([rows] if rows else []),
        *actions(tables, day, by),
        *(_stage(name, **view) for name in (*names, "clipped_actions", "action_sums")),
    ]
    counts = ("n_impressions", "ctr_n_clicks")
    estimated = [term(metric) for metric in counterfactual.estimated]
    segments = [*segments_of(tables, by)]
    return Question(stages, estimated, counts, day, segments, tables.names.at)


def term(estimated_metric: EstimatedMetric) -> Term:
    """What an estimate of a policy is made of."""
    return of_logged(estimated_metric, "n_impressions", sample="n_impressions")


def _share(n_items: int) -> str:
    return f"(1e0 / {n_items})"


def _added() -> Iterator[Column]:
    """What an impression adds."""
    stage = "clipped_actions"
    yield Column(f"{stage}.is_clicked", "ctr_naive")
    yield Column(f"{stage}.is_clicked", "ctr_n_clicks")
    yield Column(f"{stage}.is_clicked * {stage}.weight", "ctr_ips")
    yield Column(f"{stage}.is_clicked * {stage}.clipped_weight", "ctr_clipped_ips")
    change = f"{stage}.clipped_weight\n    * ({stage}.is_clicked - action_rates.rate)"
    yield Column(f"expected_rates.expected_rate + {change}", "ctr_dr")
    for name, weight in (
        ("squares", f"{stage}.weight"),
        ("clipped_squares", f"{stage}.clipped_weight"),
    ):
        yield Column(f"{weight} * {weight}", name)
    yield Column(f"{stage}.weight", "weight")
    yield Column(f"{stage}.clipped_weight", "clipped_weight")
    yield Column("expected_rates.unknown", "unknown")


def _of_shown() -> Iterator[Column]:
    """What an impression adds to what the policy got that chose it."""
    clicked = "clipped_actions.is_clicked"
    counts = {"ctr_naive": clicked, "ctr_n_clicks": clicked, "unknown": "0e0"}
    for name in (column.name for column in _added()):
        estimate = f"1e0 * {clicked}" if name.startswith("ctr") else "1e0"
        yield Column(counts.get(name, estimate), name)


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/counterfactual/{name}", view)
