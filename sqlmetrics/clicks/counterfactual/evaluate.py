"""Estimate the metrics of what was not shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlmetrics.catalog.counterfactual import counterfactual_metric
from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.counterfactual import checks, lists, policy, whole_lists
from sqlmetrics.clicks.counterfactual.estimates import CounterfactualResult, estimates
from sqlmetrics.clicks.counterfactual.terms import Question
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.intervals import check_confidence
from sqlmetrics.spec.click_columns import ClickRankings
from sqlmetrics.spec.counterfactual import UNIFORM, Counterfactual, Policy
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.stats import CONFIDENCE

LOGGED = "logged"
"""The method where the log has the probabilities of its own policy."""


def counterfactual_metrics(
    log: CleanLog,
    counterfactual: Counterfactual | Mapping[str, Any] | None = None,
    *,
    curve: PropensityCurve | Mapping[int, float] | None = None,
    confidence: float = CONFIDENCE,
    by: Sequence[str] = (),
) -> CounterfactualResult:
    """Estimate the metrics of a ranking, or a policy, that was not shown, from a click log.

    The formulas are in `clicks.counterfactual.lists` and `.policy`. Items with equal scores are
    ordered by id. Requests without a new list are left out, and a note counts them.

    Args:
        log: The cleaned log.
        counterfactual: The keys of `clicks.counterfactual`. Default: those of the spec.
        curve: For lists: the propensity of each position. Default: those of the spec, by its
            `propensity`, estimated now.
        confidence: The level of the intervals, above 0 and below 1.
        by: Segments of the log to estimate as well, value by value. The model of `dr` is learned on
            all requests.

    Raises:
        SpecError: If a key is wrong, there are no propensities, or the cleaning leaves out items
            below the last click.
        InputError: If the lists or the policy cannot be read or are invalid, no request of the log
            has a new list, or a logged probability is invalid.
    """
    check_confidence(confidence)
    checked = _asked(log, counterfactual)
    question, about = asked_of(log, checked, confidence, curve=curve, by=by)
    rows = log.engine.records(question.select)
    estimated = estimates(rows, question.terms, checked.clip, confidence)
    return replace(about, estimates=tuple(estimated))


def asked_of(
    log: CleanLog,
    counterfactual: Counterfactual,
    confidence: float,
    *,
    curve: PropensityCurve | Mapping[int, float] | None = None,
    day: Column | None = None,
    required: bool = True,
    by: Sequence[str] = (),
    has_shown: bool = False,
) -> tuple[Question, CounterfactualResult]:
    """What is summed, and what is known before that: a result without estimates.

    Args:
        log: The log, cleaned.
        counterfactual: The question.
        confidence: The coverage of the intervals.
        curve: For lists: the propensities; default: those of the log's spec.
        day: The day of a row of the log, if each is estimated by itself.
        required: Whether it is an error if no request has a new list.
        by: The segments of the log that are estimated too; others are left out.
        has_shown: Whether what the log showed is estimated beside it, as a system `terms.SHOWN`.

    Raises:
        SpecError: As `counterfactual_metrics` does.
        InputError: Likewise.
    """
    if counterfactual.rankings is not None and counterfactual.weighs_lists:
        items, n_left_out = _items(
            log, counterfactual, counterfactual.rankings, required=required, has_shown=has_shown
        )
        checks.logged_lists(log.tables, log.engine)
        question = whole_lists.question(
            log.tables, counterfactual, items, day, by=by, has_shown=has_shown
        )
        return question, CounterfactualResult(
            "request", LOGGED, counterfactual.clip, confidence, n_left_out
        )
    if counterfactual.rankings is not None:
        propensity_curve = _curve(log, curve)
        items, n_left_out, notes = _lists(
            log,
            counterfactual,
            counterfactual.rankings,
            propensity_curve,
            required=required,
            has_shown=has_shown,
        )
        question = lists.question(
            log.tables, counterfactual, items, propensity_curve, day, by=by, has_shown=has_shown
        )
        return question, CounterfactualResult(
            "request", propensity_curve.method, counterfactual.clip, confidence, n_left_out, notes
        )
    rows, n_items = _policy(log, counterfactual, counterfactual.policy or UNIFORM)
    question = policy.question(
        log.tables, counterfactual, rows, n_items, day, by=by, has_shown=has_shown
    )
    return question, CounterfactualResult("impression", LOGGED, counterfactual.clip, confidence)


def _asked(
    log: CleanLog, counterfactual: Counterfactual | Mapping[str, Any] | None
) -> Counterfactual:
    """The question, with what it needs of the log."""
    clicks = log.tables.clicks
    checks.check_cleaning(clicks)
    if counterfactual is None:
        if clicks.counterfactual is None:
            raise SpecError(
                "the spec has no rankings that were not shown; add to it: clicks: "
                "{counterfactual: {rankings: {file: new.parquet}}}"
            )
        return clicks.counterfactual
    checked = (
        counterfactual
        if isinstance(counterfactual, Counterfactual)
        else Counterfactual(**counterfactual)
    )
    if lacks := clicks.lacks(checked):
        raise SpecError(lacks)
    return checked


def _lists(
    log: CleanLog,
    counterfactual: Counterfactual,
    source: ClickRankings,
    curve: PropensityCurve,
    *,
    required: bool,
    has_shown: bool,
) -> tuple[Stage, int, tuple[str, ...]]:
    """The rows of new lists, how many requests have none, and what must be said of the log."""
    items, n_left_out = _items(log, counterfactual, source, required=required, has_shown=has_shown)
    measures = map(counterfactual_metric, counterfactual.measured)
    last = max(
        (measure.k or 0 for measure in measures if measure.metric.name == "clicks"), default=0
    )
    notes = checks.positions(log.tables, curve, log.engine, last)
    if curve.method != "given":
        notes = (f"the propensities are estimated ({curve.method}); ± treats them as known", *notes)
    return items, n_left_out, notes


def _items(
    log: CleanLog,
    counterfactual: Counterfactual,
    source: ClickRankings,
    *,
    required: bool,
    has_shown: bool,
) -> tuple[Stage, int]:
    """The rows of new lists, and how many requests have none."""
    engine = log.engine
    relation = source_relation(source, "clicks_counterfactual", engine)
    checks.columns(source, relation, checks.LISTS, engine)
    items = lists.new_items(source, relation, counterfactual.title)
    checks.lists(items, engine, has_shown=has_shown)
    return items, checks.matched(log.tables, counterfactual, items, engine, required=required)


def _policy(
    log: CleanLog, counterfactual: Counterfactual, source: Policy | str
) -> tuple[Stage | None, int]:
    """The rows of a policy, and how many items the log has; of the uniform one, it chooses from."""
    engine, tables = log.engine, log.tables
    n_items = checks.logged(tables, engine)
    if not isinstance(source, Policy):
        return None, checks.uniform(counterfactual.actions, n_items)
    relation = source_relation(source, "clicks_policy", engine)
    checks.columns(source, relation, checks.POLICY, engine)
    rows = policy.policy_rows(source, relation)
    checks.policy(source, rows, tables, engine)
    return rows, n_items


def _curve(log: CleanLog, curve: PropensityCurve | Mapping[int, float] | None) -> PropensityCurve:
    """The propensities: those given, else those that the log's spec says how to learn."""
    if isinstance(curve, PropensityCurve):
        return curve
    if curve is not None:
        return PropensityCurve.given(curve)
    if not log.tables.clicks.propensity.is_known:
        raise SpecError(
            "rankings that were not shown need the propensities of positions: add to the spec "
            "clicks: {propensity: {method: harvest}}, another method, or given: {1: 1, 2: 0.6}"
        )
    return log.estimate_propensities().curve
