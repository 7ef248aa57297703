"""The line itself: spec -> plan -> SQL -> engine -> result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.buckets import buckets
from sqlmetrics.evaluation.checks import checks, prescan
from sqlmetrics.evaluation.execution import USUALLY, Execution
from sqlmetrics.evaluation.intervals import check_confidence, note, with_intervals
from sqlmetrics.evaluation.report.notes import notes
from sqlmetrics.evaluation.report.result import Result, summary_rows, with_dates
from sqlmetrics.evaluation.report.warnings import caveats
from sqlmetrics.evaluation.statistics import statistics_of
from sqlmetrics.plan import script as sql
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.strategy import TableStatistics
from sqlmetrics.plan.summary import ALL
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec


def run(
    spec: Spec,
    tables: Tables,
    engine: Database,
    *,
    check: bool = True,
    per_query: bool = True,
    how: Execution = USUALLY,
    confidence: float | None = None,
) -> Result:
    """Evaluate a spec on an engine: plan it, check the input, run the script."""
    check_confidence(confidence)
    the_plan = planned(spec, tables)
    with how.limited(engine), engine.reading():
        return _evaluated(
            the_plan, engine, check=check, per_query=per_query, how=how, confidence=confidence
        )


def _evaluated(
    the_plan: Plan,
    engine: Database,
    *,
    check: bool,
    per_query: bool,
    how: Execution,
    confidence: float | None,
) -> Result:
    spec, tables = the_plan.spec, the_plan.shape.at
    with executing(the_plan, engine, check=check, per_query=per_query, how=how) as script:
        found = engine.records(script.summary)
        rows = engine.table(script.per_query) if per_query else None
        numbers = [
            (row["system"], row["metric"], row["k"], row["value"])
            for row in found
            if row["segment_name"] == ALL
        ]
        told = [*tables.notes, *notes(the_plan, script, engine, numbers, check=check)]
    told += caveats(spec, the_plan.measures, found)
    hashes = {(m.name, m.k or 0): spec.definition_hash(m) for m in the_plan.measures}
    summary = summary_rows(found, the_plan.measures, hashes)
    if confidence is not None:
        summary = with_intervals(summary, the_plan, confidence)
        told.append(note(the_plan, confidence))
    return Result(
        spec=spec,
        measures=the_plan.measures,
        sql=script.text(engine.translation.text),
        notes=tuple(told),
        list_keys=the_plan.shape.keys,
        _rows=summary,
        _per_query=None if rows is None else with_dates(rows),
    )


@contextmanager
def executing(
    plan: Plan, engine: Database, *, check: bool, per_query: bool, how: Execution
) -> Iterator[sql.Script]:
    """The script of an evaluation while what it keeps is there; its input is checked."""
    suspects = prescan.suspects(plan, engine) if check else ""
    looks = check and not plan.choose(TableStatistics(), how.plan, suspects).suspects
    if check:
        checks.check(plan, engine, presumed=() if looks else ("rankings",))
    measured = statistics_of(plan, engine)
    whole = plan.by(plan.choose(measured, how.plan, suspects))
    parts = [plan.by(whole.strategy, one) for one in buckets(whole, engine, measured)]
    on_the_way = bool(whole.strategy.suspects)
    if check and not (looks or on_the_way):
        checks.check(plan, engine, presumed=("labels",))  # which were looked at already
    with how.carried_out(parts, engine, per_query=per_query) as script:
        if on_the_way:
            checks.confirm(plan, len(parts), script, engine)
        checks.check_kept(plan, script, engine)
        yield script
