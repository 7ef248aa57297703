"""Estimate the metrics of what was not shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlmetrics.catalog.counterfactual import EstimatedMetric, counterfactual_metric
from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual import lists, policy, whole_lists
from sqlmetrics.clicks.counterfactual.terms import (
    CounterfactualResult,
    Question,
    Term,
    day_of,
    estimates,
)
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.clicks.propensity.moves import not_in_text
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.inputs.sources import relation_of
from sqlmetrics.evaluation.intervals import check_confidence
from sqlmetrics.evaluation.report.result import dated
from sqlmetrics.spec.click_columns import ClickRankings
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.counterfactual import UNIFORM, Counterfactual, Policy
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, protect_query
from sqlmetrics.sql.stage import Column, Stage, with_stages
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.table import many

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
    checked = _settings(log, counterfactual)
    question, about = estimate_question(log, checked, confidence, curve=curve, by=by)
    rows = log.engine.records(question.select)
    estimated = estimates(rows, question.terms, checked.clip, confidence)
    return replace(about, estimates=tuple(estimated))


def estimate_question(
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
        policy.logged_lists(log.tables, log.engine)
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


def _settings(
    log: CleanLog, counterfactual: Counterfactual | Mapping[str, Any] | None
) -> Counterfactual:
    """The question, with what it needs of the log."""
    clicks = log.tables.clicks
    policy.check_cleaning(clicks)
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
    notes = policy.positions(log.tables, curve, log.engine, last)
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
    policy.columns(source, relation, policy.LISTS, engine)
    items = lists.new_items(source, relation, counterfactual.title)
    policy.lists(items, engine, has_shown=has_shown)
    return items, policy.matched(log.tables, counterfactual, items, engine, required=required)


def _policy(
    log: CleanLog, counterfactual: Counterfactual, source: Policy | str
) -> tuple[Stage | None, int]:
    """The rows of a policy, and how many items the log has; of the uniform one, it chooses from."""
    engine, tables = log.engine, log.tables
    n_items = policy.logged(tables, engine)
    if not isinstance(source, Policy):
        return None, policy.uniform(counterfactual.actions, n_items)
    relation = source_relation(source, "clicks_policy", engine)
    policy.columns(source, relation, policy.POLICY, engine)
    rows = policy.policy_rows(source, relation)
    policy.policy(source, rows, tables, engine)
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


# What was not shown, day by day, as a job and `show` read it: sums that are kept, and rows.

NEW_ESTIMATES = "sqlmetrics_new_estimates"
"""The table that keeps the sums by day and system."""


def check(clicks: Clicks) -> None:
    """Whether a day's estimates depend on nothing but that day and what is said in the spec.

    Raises:
        SpecError: If they would be other numbers in another run.
    """
    counterfactual = clicks.counterfactual
    if counterfactual is None:
        return
    policy.check_cleaning(clicks)
    if counterfactual.policy == UNIFORM and counterfactual.actions is None:
        raise SpecError(
            "clicks.counterfactual: in a job the uniform policy needs actions, the number of items "
            "that it chooses from: the log has other items on other days"
        )
    if not counterfactual.weighs_positions:
        return
    if not clicks.propensity.is_known:
        raise SpecError(
            "rankings that were not shown need the propensities of positions: add to the spec "
            "clicks: {propensity: {method: harvest}}, another method, or given: {1: 1, 2: 0.6}"
        )
    if clicks.propensity.is_estimated and clicks.labels.window is None:
        raise SpecError(
            f"clicks.counterfactual: in a job propensities by {clicks.propensity.method} need the "
            "days that they are learned from, so that a day has the same numbers in each run: "
            "clicks: {labels: {pool: query_item, window: {start: 2026-01-01, end: 2026-02-01}}}; "
            "or give what `sqlmetrics clicks propensities SPEC` prints: "
            "propensity: {method: given, given: {1: 1, 2: ...}}"
        )


@contextmanager
def kept_estimates(
    log: CleanLog, spec: Spec, confidence: float | None = None, *, required: bool = True
) -> Iterator[tuple[str, ...]]:
    """With the sums of a log's estimates by day, system and segment in `NEW_ESTIMATES`.

    A log that has no list of these days has no row there.

    Args:
        log: The log, cleaned, of a spec that may ask for estimates.
        spec: What is asked of it.
        confidence: The coverage of the intervals; default: that of the spec.
        required: Whether it is an error if no request of the log has a new list.

    Yields:
        What a reader of the numbers must know; nothing if no estimate is asked for.

    Raises:
        SpecError: As `counterfactual_metrics` does, and if a day's numbers would depend on which
            days are asked for.
        InputError: As `counterfactual_metrics` does.
    """
    counterfactual, engine = log.tables.clicks.counterfactual, log.engine
    if counterfactual is None:
        yield ()
        return
    check(log.tables.clicks)
    of_nothing = _without_lists(log, counterfactual, spec.by)
    level, day = confidence or spec.confidence, day_of(log.tables)
    question, about = of_nothing or estimate_question(
        log, counterfactual, level, day=day, required=required, by=spec.by
    )
    with keeping(engine, [Step(NEW_ESTIMATES, question.select)]):
        yield tuple(_notes(log, counterfactual, question, about)) if about else ()


def estimate_rows(
    log: CleanLog, spec: Spec, confidence: float | None, *, required: bool = True
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The estimates by day as rows of the fact table, with intervals if a level is given.

    Returns:
        The rows, and what a reader must know.

    Raises:
        SpecError: As `kept_estimates` does.
        InputError: Likewise.
    """
    counterfactual = log.tables.clicks.counterfactual
    if counterfactual is None:
        return [], ()
    with kept_estimates(log, spec, confidence, required=required) as notes:
        order = "metric_date, system, segment_name, segment_value"
        select = f"select * from {NEW_ESTIMATES} order by {order}"
        daily_sums = [*map(dated, log.engine.records(select))]
    rows = [
        _row(sums, term, spec, confidence) for sums in daily_sums for term in terms(counterfactual)
    ]
    return rows, notes


def estimates_step(tables: ClickTables, spec: Spec, translation: Translation) -> Iterator[Step]:
    """The same sums as a step of a job's text; none if the spec asks for no estimate.

    Args:
        tables: The stages of the log.
        spec: What is asked of it.
        translation: The database.

    Raises:
        SpecError: If the propensities are estimated while the log is read: SQL alone cannot have
            them; or the database cannot read the lists.
    """
    clicks = tables.clicks
    counterfactual = clicks.counterfactual
    if counterfactual is None:
        return
    check(clicks)
    curve = PropensityCurve.of(clicks.propensity)
    if counterfactual.weighs_positions and curve is None:
        raise not_in_text(clicks.propensity.method)
    source = counterfactual.source
    relation = (
        protect_query(relation_of(source, "clicks_counterfactual"), translation) if source else None
    )
    if relation is not None and translation.changes and not relation.is_sql:
        raise SpecError(
            f"clicks.counterfactual: {translation.dialect.title} cannot read files; load the file "
            "into a table and name it as the relation"
        )
    yield Step(NEW_ESTIMATES, _question(tables, counterfactual, relation, curve, spec.by).select)


def terms(counterfactual: Counterfactual) -> list[Term]:
    """The estimates that are asked for, in their order."""
    of_rankings = whole_lists if counterfactual.weighs_lists else lists
    term = of_rankings.term if counterfactual.rankings else policy.term
    return [term(metric) for metric in counterfactual.estimated]


def _question(
    tables: ClickTables,
    counterfactual: Counterfactual,
    relation: Relation | None,
    curve: PropensityCurve | None,
    by: Sequence[str],
) -> Question:
    """What is summed by day, of a log that nobody looked at."""
    day = day_of(tables)
    if counterfactual.weighs_lists and counterfactual.rankings is not None and relation is not None:
        items = lists.new_items(counterfactual.rankings, relation, counterfactual.title)
        return whole_lists.question(tables, counterfactual, items, day, by=by)
    if counterfactual.rankings is not None and relation is not None and curve is not None:
        items = lists.new_items(counterfactual.rankings, relation, counterfactual.title)
        return lists.question(tables, counterfactual, items, curve, day, by=by)
    rows = None
    if isinstance(counterfactual.policy, Policy) and relation is not None:
        rows = policy.policy_rows(counterfactual.policy, relation)
    return policy.question(tables, counterfactual, rows, counterfactual.actions or 1, day, by=by)


def _without_lists(
    log: CleanLog, counterfactual: Counterfactual, by: Sequence[str]
) -> tuple[Question, None] | None:
    """What is summed if the log has no list of these days; None if it has one."""
    tables = log.tables
    select = f"select 1 as row_exists from {tables.of[tables.evaluates]} limit 1"
    if log.engine.rows(with_stages(tables.stages(tables.evaluates), select)):
        return None
    source = counterfactual.source
    relation = source_relation(source, "clicks_counterfactual", log.engine) if source else None
    flat = PropensityCurve.flat(tables.clicks.propensity)
    return _question(tables, counterfactual, relation, flat, by), None


def _notes(
    log: CleanLog, counterfactual: Counterfactual, question: Question, about: CounterfactualResult
) -> Iterator[str]:
    """What holds for all days together."""
    if about.n_left_out:
        yield f"{many(about.n_left_out, 'request')} without a new list are left out"
    yield from about.notes
    sums = ", ".join(f"sum({name}) as {name}" for name in question.sums)
    rows = log.engine.records(
        f"select system, segment_name, segment_value, {sums} from {NEW_ESTIMATES} "
        "where segment_name = 'all' group by system, segment_name, segment_value order by system"
    )
    overall = estimates(rows, question.terms, counterfactual.clip, about.confidence)
    yield from replace(about, estimates=tuple(overall)).warnings()


def _row(
    sums: Mapping[str, Any], term: Term, spec: Spec, confidence: float | None
) -> dict[str, Any]:
    """An estimate of a day as the fact table has it."""
    metric = EstimatedMetric(term.measure, term.estimator)
    numerator, denominator = (float(sums[f"sum_{name}"] or 0) for name in (term.x, term.w))
    value = numerator / denominator if denominator else None
    return {
        "spec": spec.title,
        "metric_date": sums["metric_date"],
        "system": sums["system"],
        "segment_name": sums["segment_name"],
        "segment_value": sums["segment_value"],
        "metric": metric.name,
        "k": metric.k or 0,
        "value": value,
        "numerator": numerator,
        "denominator": denominator,
        "n_queries": int(sums[f"sum_{term.counted}"]),
        "n_skipped": 0,
        "n_missing": 0,
        "sum_sq": None,
        "definition_hash": spec.definition_hash(metric, sums["segment_name"]),
        **({} if confidence is None else term.estimate(sums).ends(confidence)),
    }
