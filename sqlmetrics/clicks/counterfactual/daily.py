"""What was not shown, day by day, as a job and `show` read it: sums that are kept, and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual import checks, lists, policy, whole_lists
from sqlmetrics.clicks.counterfactual.estimates import CounterfactualResult, estimates
from sqlmetrics.clicks.counterfactual.evaluate import asked_of
from sqlmetrics.clicks.counterfactual.terms import Question, Term, day_of
from sqlmetrics.clicks.propensity.correction import not_in_text
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.inputs.sources import relation_of
from sqlmetrics.evaluation.report.result import dated
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.counterfactual import UNIFORM, Counterfactual, Policy
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, protect_query
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.translation import Translation
from sqlmetrics.tables.table import many

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
    checks.check_cleaning(clicks)
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
    question, about = of_nothing or asked_of(
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
    select = f"select 1 as is_there from {tables.of[tables.evaluates]} limit 1"
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
