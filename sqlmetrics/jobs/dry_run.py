"""What a run would send to a database: its tables are looked at, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.evaluation.checks import prescan
from sqlmetrics.evaluation.checks.checks import check_columns
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.statistics import statistics_of
from sqlmetrics.jobs.archive import Archive
from sqlmetrics.jobs.changes import changes
from sqlmetrics.jobs.days import Question, on_days
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.exchange import ALL_DAYS, Exchange, together
from sqlmetrics.jobs.files import BY_RUN_ALONE
from sqlmetrics.jobs.job import computed_ends, kept_steps, plan_of, text
from sqlmetrics.jobs.missing_days import Part, data_days
from sqlmetrics.jobs.new_rows import NEW_FACTS, NewRows
from sqlmetrics.jobs.schema import COUNTED, targets
from sqlmetrics.jobs.views import compiled_views, view_statements
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import make_script
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import KEPT
from sqlmetrics.sql.relation import source_text


def dry_run(spec: Spec, engine: Database, part: Part) -> str:
    """The statements of a run of some days, after comments on what they would read.

    Checks of the input are left out; so is what a run asks the database on the way.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are.
        part: The days, and the metrics of them.

    Raises:
        SpecError: If the spec cannot be run.
        InputError: If a table cannot be read.
    """
    with engine.keeping_rows():
        return _printed(spec, engine, part)


def _printed(spec: Spec, engine: Database, part: Part) -> str:
    translation, question = engine.translation, on_days(spec, part.days)
    metrics = part.metrics or {(metric, k) for metric, k, _ in hashes(spec)}
    now = translation.expression(translation.dialect.times.now, "0")
    new = NewRows(spec, translation, "'dry run'", now, question.day, folder=Path(), metrics=metrics)
    if spec.clicks is None:
        plan_of(question, translation)  # files that are loaded first are no SQL, which it says
        plan = _planned(question, engine)
        notes = [*_estimates(plan, engine)]
        script = make_script([plan], engine.free_name(KEPT))
        facts_step = Step(NEW_FACTS, script.summary)
        steps, drops = (
            [script.keep, facts_step.statement(translation)],
            [facts_step.drop(translation), script.drop],
        )
        per_query = script.per_query
    else:
        notes, log_steps = [], list(kept_steps(question, translation))
        steps = [step.statement(translation) for step in log_steps]
        drops = [step.drop(translation) for step in reversed(log_steps)]
        per_query = make_script([plan_of(question, translation)]).per_query if spec.metrics else ""
    ends = part.days.ends if part.days else computed_ends(question.spec)
    exchange = new.exchange(per_query, ends)
    counts = {table: exchange.count(table) for table in exchange.rows if table in COUNTED}
    lacking = changes(spec, engine)
    archive, of_archive = Archive.looked_at(spec, engine, new.run_id, new.now)
    if archived := archive.counted():
        counts["archived"] = archived
    tables = [*lacking.needed, *lacking.keys, *lacking.comments, *of_archive]
    adds = bool(archive.columns) and _has_old_rows(spec, engine, exchange, part.days)
    rows = [
        *exchange.keeping(archive),
        *exchange.preview(engine),
        *archive.forgetting(adds=adds),
        new.log(ends, **counts),
    ]
    views = list(_views(spec, engine))
    views_inside = views if translation.dialect.undoes_views else []
    replaced = together(spec, translation, [*map(translation.text, rows), *views_inside])
    statements = [*tables, *map(translation.text, filter(None, steps)), *replaced]
    statements += [*([] if views_inside else views), *filter(None, drops)]
    if experiment := targets(spec).get("experiment"):
        notes.append(f"{experiment} {BY_RUN_ALONE}; its statements are not below")
    days = f" {part.days}" if part.days else ": all that the data has"
    head = [f"{translation.dialect.title}: a run of {spec.title}{days}", *notes]
    return "".join(f"-- {line}\n" for line in head) + "\n" + text(statements)


def _has_old_rows(spec: Spec, engine: Database, exchange: Exchange, days: Days | None) -> bool:
    """Whether the fact table has rows of the days of a run: of none, those that the data has."""
    if days is None:  # the exchange takes them from the run's own rows, which are not there
        exchange = replace(exchange, ends=ALL_DAYS)
        is_dated = spec.clicks is not None or spec.rankings.columns.date is not None
        if is_dated and exchange.has_old_rows(engine) and (existing := data_days(spec, engine)):
            of_data = Days(start=min(existing), end=max(existing) + timedelta(1))
            exchange = replace(exchange, ends=of_data.ends)
    return exchange.has_old_rows(engine)


def _planned(question: Question, engine: Database) -> Plan:
    """The plan that a run would take, of tables that are looked at."""
    with engine.reading():
        plan = make_plan(question.spec, opened(question.spec, engine, question.ends), moments=True)
        check_columns(plan, engine)
        suspects = prescan.suspects(plan, engine)
        return plan.by(plan.choose(statistics_of(plan, engine), None, suspects))


def _views(spec: Spec, engine: Database) -> list[str]:
    """Those of the table as it is; of one that is not there, those of a spec alone."""
    if engine.find(targets(spec)["facts"]) is None:
        return compiled_views(spec, engine.translation)
    return view_statements(spec, engine)


def _estimates(plan: Plan, engine: Database) -> Iterator[str]:
    """What the database expects to read of each table, a sentence each."""
    shape = plan.unfused.shape
    for table, relation in shape.tables.items():
        select = f"select * from {source_text(relation, shape.where[table])}"
        try:
            if estimate := engine.driver.estimate(engine.translation.text(select)):
                yield f"{table}: {estimate}"
        except SqlmetricsError:  # what cannot be explained is run all the same
            continue
