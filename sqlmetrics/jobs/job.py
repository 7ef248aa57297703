"""A job as text: the statements of a run, one after the other, for whoever executes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.clicks.compile import header, log_tables
from sqlmetrics.clicks.counterfactual.daily import estimates_step
from sqlmetrics.clicks.steps import steps
from sqlmetrics.engines.temporary import Step
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.jobs.changes import added, create, key
from sqlmetrics.jobs.days import Question, on_days
from sqlmetrics.jobs.log_metrics import NEW_ONLINE
from sqlmetrics.jobs.meanings import comments, meanings
from sqlmetrics.jobs.new_rows import NEW_FACTS, NewRows
from sqlmetrics.jobs.tables import COUNTED, FIRST, columns, targets
from sqlmetrics.plan import script as sql
from sqlmetrics.plan.plan import Plan, plan
from sqlmetrics.spec.days import Days, Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.translation import Translation


@dataclass(frozen=True)
class JobText:
    """The parts of a job; each is a list of statements in the dialect.

    Attributes:
        tables: Makes the tables that stay.
        evaluation: Computes what is new, and keeps it for as long as the connection lasts.
        replacement: Puts it in the place of the old rows, all in one transaction.
        about: Comment lines that say what is computed, where no statement says it.
    """

    tables: Sequence[str]
    evaluation: Sequence[str]
    replacement: Sequence[str]
    about: str = ""

    def __str__(self) -> str:
        first, *others = (*self.evaluation, *self.replacement)
        return text((*self.tables, self.about + first, *others))


def text(statements: Sequence[str]) -> str:
    """Statements as one text; comments on one table stand together."""
    told, last = "", ""
    for one in statements:
        is_next = one.startswith("comment on column") and last.startswith("comment on")
        told += ("\n" if is_next else "\n\n" if last else "") + f"{one.rstrip()};"
        last = one
    return f"{told}\n"


def job_text(spec: Spec, at: Translation, days: Days | None, run_id: str, now: str) -> JobText:
    """The statements of a run.

    Args:
        spec: What is asked, with its `output`.
        at: The dialect.
        days: The days that are replaced; None for those that are computed.
        run_id: An SQL text that names the run.
        now: An SQL time: when it is.

    Raises:
        SpecError: If the spec cannot be compiled, or the dialect has no tables for a while.
    """
    asked = on_days(spec, days)
    ends = days.ends if days else computed_ends(asked.spec)
    new = NewRows(spec, at, run_id, now, asked.day)
    if at.dialect.keep or spec.clicks:
        kept = list(kept_steps(asked, at))
        rows = sql.script([plan_of(asked, at)]).per_query if spec.metrics else ""
    else:
        kept, new = [], replace(new, plan=plan_of(asked, at))
        rows = sql.per_query_text(plan_of(asked, at))
    exchange = new.exchange(rows, ends)
    counts = {table: exchange.count(table) for table in exchange.rows if table in COUNTED}
    return JobText(
        list(_tables(spec, at)),
        [step.create(at) for step in kept],
        [*exchange.printed(new.log(ends, **counts)), *(one.drop(at) for one in reversed(kept))],
        header(asked.spec, unshown=True) if spec.clicks else "",
    )


def _tables(spec: Spec, at: Translation) -> Iterator[str]:
    """The tables, unless they are there, what they may lack, their keys and comments."""
    kinds = columns(spec)
    for table, name in targets(spec).items():
        told = meanings(spec, table)
        yield create(at, table, name, kinds[table], told)
        first = len(FIRST.get(table, kinds[table]))
        if at.dialect.adds_columns:
            for column in list(kinds[table])[first:]:
                one, meaning = (column, kinds[table][column]), told.get(column, "")
                yield added(at, name, one, meaning, unless="if not exists ")
        if at.dialect.key.statement:
            yield key(at, table, name)
        yield from comments(at, table, name, {one: told.get(one, "") for one in kinds[table]})


def computed_ends(spec: Spec) -> Ends:
    """From the first to the last day of what is new."""
    new = NEW_FACTS if spec.metrics else NEW_ONLINE
    first, last = (f"(select {end}(metric_date) from {new})" for end in ("min", "max"))
    return Ends(first, None, last)


def kept_steps(asked: Question, at: Translation) -> Iterator[Step]:
    """What is computed before the old rows are touched."""
    spec = asked.spec
    if spec.clicks is not None:
        tables = log_tables(spec, at, only_days=True)
        yield from steps(spec, tables, NEW_ONLINE)
        yield from estimates_step(tables, spec, at)
    if spec.metrics:
        script = sql.script([plan_of(asked, at)])
        yield from (Step(script.table, script.kept), Step(NEW_FACTS, script.summary))


def plan_of(asked: Question, at: Translation) -> Plan:
    """The evaluation of lists."""
    return plan(asked.spec, tables_of(asked.spec, at).on(asked.ends), moments=True)
