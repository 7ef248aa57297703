"""A job as text: the statements of a run, one after the other, for whoever executes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.clicks.counterfactual.evaluate import estimates_step
from sqlmetrics.clicks.steps import header, log_tables, steps
from sqlmetrics.engines.temporary import Step
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.jobs.changes import added, comments, create, key
from sqlmetrics.jobs.days import Question, on_days
from sqlmetrics.jobs.log_metrics import NEW_ONLINE
from sqlmetrics.jobs.new_rows import NEW_FACTS, NewRows
from sqlmetrics.jobs.schema import COMPILED, COUNTED, TABLES, columns_for, targets
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import make_script, per_query_text
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
        first, *remaining = (*self.evaluation, *self.replacement)
        return text((*self.tables, self.about + first, *remaining))


def text(statements: Sequence[str]) -> str:
    """Statements as one text; comments on one table stand together."""
    script, last = "", ""
    for statement in statements:
        is_next = statement.startswith("comment on column") and last.startswith("comment on")
        script += ("\n" if is_next else "\n\n" if last else "") + f"{statement.rstrip()};"
        last = statement
    return f"{script}\n"


def job_text(
    spec: Spec, translation: Translation, days: Days | None, run_id: str, now: str
) -> JobText:
    """The statements of a run.

    Args:
        spec: What is asked, with its `output`.
        translation: The dialect.
        days: The days that are replaced; None for those that are computed.
        run_id: An SQL text that names the run.
        now: An SQL time: when it is.

    Raises:
        SpecError: If the spec cannot be compiled, or the dialect has no tables for a while.
    """
    question = on_days(spec, days)
    ends = days.ends if days else computed_ends(question.spec)
    new = NewRows(spec, translation, run_id, now, question.day)
    if translation.dialect.keep or spec.clicks:
        log_steps = list(kept_steps(question, translation))
        rows = make_script([plan_of(question, translation)]).per_query if spec.metrics else ""
    else:
        log_steps, new = [], replace(new, plan=plan_of(question, translation))
        rows = per_query_text(plan_of(question, translation))
    exchange = new.exchange(rows, ends)
    counts = {table: exchange.count(table) for table in exchange.rows if table in COUNTED}
    return JobText(
        list(_tables(spec, translation)),
        [step.create(translation) for step in log_steps],
        [
            *exchange.printed(new.log(ends, **counts)),
            *(step.drop(translation) for step in reversed(log_steps)),
        ],
        header(question.spec, unshown=True) if spec.clicks else "",
    )


def _tables(spec: Spec, translation: Translation) -> Iterator[str]:
    """The tables, unless they are there, what specs add to them, their keys and comments."""
    columns_by_table = columns_for(spec)
    for table, name in targets(spec).items():
        if table in COUNTED and table not in COMPILED:
            continue
        table_columns = [*columns_by_table[table].values()]
        yield create(translation, table, name, table_columns)
        if translation.dialect.adds_columns:
            for column in table_columns[len(TABLES[table].columns) :]:
                yield added(translation, name, column, unless="if not exists ")
        if translation.dialect.key.statement:
            yield key(translation, table, name)
        yield from comments(translation, table, name, table_columns)


def computed_ends(spec: Spec) -> Ends:
    """From the first to the last day of what is new."""
    new = NEW_FACTS if spec.metrics else NEW_ONLINE
    first, last = (f"(select {end}(metric_date) from {new})" for end in ("min", "max"))
    return Ends(first, None, last)


def kept_steps(question: Question, translation: Translation) -> Iterator[Step]:
    """What is computed before the old rows are touched."""
    spec = question.spec
    if spec.clicks is not None:
        tables = log_tables(spec, translation, only_days=True)
        yield from steps(spec, tables, NEW_ONLINE)
        yield from estimates_step(tables, spec, translation)
    if spec.metrics:
        script = make_script([plan_of(question, translation)])
        yield from (Step(script.table, script.kept), Step(NEW_FACTS, script.summary))


def plan_of(question: Question, translation: Translation) -> Plan:
    """The evaluation of lists."""
    return make_plan(
        question.spec, tables_of(question.spec, translation).on(question.ends), moments=True
    )
