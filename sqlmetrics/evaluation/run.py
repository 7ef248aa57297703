"""The line itself: spec -> plan -> SQL -> engine -> result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.buckets import buckets
from sqlmetrics.evaluation.checks import checks, prescan
from sqlmetrics.evaluation.checks.fused_runs import check_fused_runs
from sqlmetrics.evaluation.checks.kept import check_kept
from sqlmetrics.evaluation.checks.sample import sampled, share_of
from sqlmetrics.evaluation.execution import USUALLY, Execution
from sqlmetrics.evaluation.intervals import check_confidence, note, with_intervals
from sqlmetrics.evaluation.report.notes import caveats, low_grades, notes
from sqlmetrics.evaluation.report.result import Result, summary_rows, with_dates
from sqlmetrics.evaluation.statistics import statistics_of
from sqlmetrics.plan import script as sql
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.strategy import SHOWN, TableStatistics
from sqlmetrics.plan.summary import ALL
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.tabular import Row


def run(
    spec: Spec,
    tables: Tables,
    engine: Database,
    *,
    check: bool | float = True,
    per_query: bool = True,
    execution: Execution = USUALLY,
    confidence: float | None = None,
) -> Result:
    """Evaluate a spec on an engine: plan it, check the input, run the script."""
    check_confidence(confidence)
    the_plan = planned(spec, tables, moments=confidence is not None)
    with (
        execution.limited(engine),
        engine.reading(),
        executing(
            the_plan, engine, check=check, per_query=per_query, execution=execution
        ) as script,
    ):
        return result_of(
            the_plan, script, engine, check=check, per_query=per_query, confidence=confidence
        )


def result_of(
    plan: Plan,
    script: sql.Script,
    engine: Database,
    *,
    check: bool | float,
    per_query: bool = False,
    confidence: float | None = None,
) -> Result:
    """The result of a script, while what it keeps is there."""
    records = engine.records(script.summary)
    rows = engine.table(script.per_query) if per_query else None
    numbers = [
        (row["system"], row["metric"], row["k"], row["value"])
        for row in records
        if row["segment_name"] == ALL
    ]
    result_notes = [*plan.shape.at.notes, *notes(plan, script, engine, numbers, check=check)]
    result_notes += caveats(plan.spec, plan.measures, records)
    result_notes += _low_grades(plan, engine, records)
    summary = summary_rows(records, plan.measures, plan.spec.definition_hash)
    if confidence is not None:
        summary = with_intervals(summary, confidence)
        result_notes.append(note(plan, confidence))
    return Result(
        spec=plan.spec,
        measures=plan.measures,
        executed_sql=engine.translation.self_contained(script.text(engine.translation.text)),
        notes=tuple(result_notes),
        list_keys=plan.shape.keys,
        _rows=summary,
        _per_query=None if rows is None else with_dates(rows),
        _plan=plan,
        _lazy=_lazy_frames(plan, engine),
    )


def _lazy_frames(plan: Plan, engine: Database) -> dict[bool, Callable[[], Any]]:
    """Whether of queries -> what makes a DataFrame of the numbers, where Spark computes them."""

    def text(*, per_query: bool) -> str:
        return engine.translation.text(sql.query(plan, per_query=per_query))

    frames = {
        per_query: engine.driver.lazy(partial(text, per_query=per_query))
        for per_query in (False, True)
    }
    return {per_query: frame for per_query, frame in frames.items() if frame}


def _low_grades(plan: Plan, engine: Database, rows: Sequence[Row]) -> Iterator[str]:
    """That no label is relevant to some metrics; looked for where these found nothing at all."""
    values = {(row["metric"], int(row["k"] or 0)): row["value"] for row in rows if row["value"]}
    blind = [
        component
        for measure in plan.measures
        # of a formula nobody knows which of its metrics found something
        if measure.metric.arithmetic or (measure.name, measure.k or 0) not in values
        for component in measure.components
    ]
    if any("rel" in measure.metric.parameters for measure in blind):
        labels = plan.shape.names["labels"]
        select = f"select max(grade) from {labels}"
        highest = engine.rows(with_stages(plan.inputs, select))[0][0]
        yield from low_grades(blind, plan.spec, float(highest or 0))


@contextmanager
def executing(
    plan: Plan, engine: Database, *, check: bool | float, per_query: bool, execution: Execution
) -> Iterator[sql.Script]:
    """The script of an evaluation while what it keeps is there; its input is checked."""
    share = share_of(check)
    if 0 < share < 1:
        checks.check_sample(plan, sampled(plan, share), engine)
        check = False
    elif not check:
        check_fused_runs(plan, engine)
    suspects = prescan.suspects(plan, engine) if check else ""
    presumed = plan.choose(TableStatistics(), execution.plan, suspects)
    is_told = presumed.name == SHOWN  # the log was cleaned of what is looked for
    looks = check and not presumed.suspects
    if check:
        presumed_tables = ("rankings", "labels") if is_told else () if looks else ("rankings",)
        checks.check(plan, engine, presumed=presumed_tables)
    measured = TableStatistics() if is_told else statistics_of(plan, engine)
    whole_plan = plan.by(plan.choose(measured, execution.plan, suspects))
    parts = [
        plan.by(whole_plan.strategy, bucket) for bucket in buckets(whole_plan, engine, measured)
    ]
    on_the_way = bool(whole_plan.strategy.suspects)
    if check and not (looks or on_the_way):
        checks.check(plan, engine, presumed=("labels",))  # which were looked at already
    with execution.carried_out(parts, engine, per_query=per_query) as script:
        if on_the_way:
            checks.confirm(plan, len(parts), script, engine)
        check_kept(plan, script, engine)
        yield script
