"""A job as text: the statements of a run, one after the other, for whoever executes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import sqlmetrics
from sqlmetrics.catalog.online import online
from sqlmetrics.clicks import compile as log
from sqlmetrics.clicks.online_sums import sums
from sqlmetrics.engines.temporary import dropped, made
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.jobs.days import on_days
from sqlmetrics.jobs.replacement import NEW_FACTS, NEW_ONLINE, Replacement
from sqlmetrics.jobs.tables import PER_QUERY, added, columns, create, targets
from sqlmetrics.plan import script as sql
from sqlmetrics.plan.plan import Plan, plan
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.days import Days, Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import EXCHANGE, OVERWRITE
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.sql.translation import Translation

NO_DAY = Ends(f"cast('{NO_DATE}' as date)", None)
"""Where rows stand that have no day."""


@dataclass(frozen=True)
class JobText:
    """The parts of a job; each is a list of statements in the dialect.

    Attributes:
        tables: Makes the tables that stay.
        evaluation: Computes what is new, and keeps it for as long as the connection lasts.
        replacement: Puts it in the place of the old rows, all in one transaction.
    """

    tables: Sequence[str]
    evaluation: Sequence[str]
    replacement: Sequence[str]

    def __str__(self) -> str:
        return text((*self.tables, *self.evaluation, *self.replacement))


def text(statements: Sequence[str]) -> str:
    """Statements as one text."""
    return "\n\n".join(f"{one.rstrip()};" for one in statements) + "\n"


def job_text(
    spec: Spec, at: Translation, days: Days | None, run_id: str, now: str, *, check: bool = True
) -> JobText:
    """The statements of a run.

    Args:
        spec: What is asked, with its `output`.
        at: The dialect.
        days: The days that are replaced; None for those that are computed.
        run_id: An SQL text that names the run.
        now: An SQL time: when it is.
        check: Whether the days may not be those from which labels are learned.

    Raises:
        SpecError: If the spec cannot be compiled, or the dialect has no tables for a while.
    """
    asked = on_days(spec, days, check=check)
    ends = days.ends if days else _computed(asked)
    undated = asked.rankings.columns.date is None
    first = (days.ends if days else NO_DAY).start
    day = (first or "") if undated else ""
    job = Replacement(spec, at, run_id, now, ends, day)
    if at.dialect.keep or spec.clicks:
        kept = list(_kept(asked, at, days))
        rows = sql.script([_plan(asked, at, days)]).per_query if spec.metrics else ""
    else:
        kept, job = [], replace(job, plan=_plan(asked, at, days))
        rows = sql.per_query_text(_plan(asked, at, days))
    return JobText(
        list(_tables(spec, at)),
        [create for create, _ in kept],
        [*_transaction(job, rows), *(drop for _, drop in reversed(kept))],
    )


def _tables(spec: Spec, at: Translation) -> Iterator[str]:
    """The tables, unless they are there; and what the per-query table may lack."""
    kinds = columns(spec)
    for table, name in targets(spec).items():
        yield create(at, name, kinds[table])
        if table == "per_query" and at.dialect.adds_columns:
            for column in list(kinds[table])[len(PER_QUERY) :]:
                yield added(at, name, column, kinds[table][column], unless="if not exists ")


def _computed(spec: Spec) -> Ends:
    """From the first to the last day of what is new."""
    new = NEW_FACTS if spec.metrics else NEW_ONLINE
    first, last = (f"(select {end}(metric_date) from {new})" for end in ("min", "max"))
    return Ends(first, None, last)


def together(spec: Spec, at: Translation, statements: Sequence[str]) -> list[str]:
    """Statements as one transaction, apart from others that write the same tables."""
    writing = at.dialect.writing
    return [writing.begin, *_locked(spec, at), *statements, writing.commit]


def _transaction(job: Replacement, per_query: str) -> Iterator[str]:
    """Old rows out, new rows in, and a row into the run log: together, where that can be."""
    at, writing = job.at, job.at.dialect.writing
    logged = job.logged(_logged(job, at, per_query))
    if writing.replace == OVERWRITE:
        yield "set spark.sql.sources.partitionOverwriteMode = dynamic"
        yield from (*job.overwritten(per_query), logged)
    elif writing.replace == EXCHANGE or not writing.begin:
        yield from (*job.statements(per_query), logged)
    else:
        yield from together(job.spec, at, [*job.statements(per_query), logged])


def _locked(spec: Spec, at: Translation) -> Iterator[str]:
    if lock := at.dialect.writing.lock:
        yield lock.format(name=at.value(literal(targets(spec)["facts"])))


def _kept(spec: Spec, at: Translation, days: Days | None) -> Iterator[tuple[str, str]]:
    """What is computed before the old rows are touched: how it is made, and dropped."""
    if spec.clicks is not None:
        tables = log.log_tables(spec, at, only_days=True)
        asked = [online(text) for text in spec.online]
        tables.check(asked)
        yield from _translated(log.kept(tables, at), at)
        if asked:
            yield from _translated([_new(NEW_ONLINE, sums(tables, asked, spec), at)], at)
        if spec.metrics:
            yield from _translated(log.lists(tables, at), at)
    if spec.metrics:
        script = sql.script([_plan(spec, at, days)])
        per_query = (script.keep, script.drop)
        yield from _translated([per_query, _new(NEW_FACTS, script.summary, at)], at)


def _new(name: str, select: str, at: Translation) -> tuple[str, str]:
    return made(at, name, select), dropped(at, name)


def _translated(pairs: Iterable[tuple[str, str]], at: Translation) -> Iterator[tuple[str, str]]:
    for made_by, drop in pairs:
        yield at.text(made_by), drop


def _plan(spec: Spec, at: Translation, days: Days | None) -> Plan:
    """The evaluation of lists."""
    tables = tables_of(spec, at)
    if days and spec.clicks is None and spec.rankings.columns.date:
        tables = replace(tables, ends=days.ends)
    return plan(spec, tables)


def _logged(job: Replacement, at: Translation, per_query: str) -> dict[str, str]:
    """What the run log says; how long it took only the client knows."""
    where = "        where\n            " + "\n            and ".join(job.of("metric_date"))
    names = targets(job.spec)
    has_rows = bool(per_query) and "per_query" in names

    def count(table: str) -> str:
        return f"(\n        select count(*)\n        from {relation(names[table])}\n{where}\n    )"

    return {
        "seconds": "cast(null as double)",
        "range_start": job.ends.start or "cast(null as date)",
        "range_end": job.ends.end or job.ends.last or "cast(null as date)",
        "facts": count("facts"),
        "per_query": count("per_query") if has_rows else "cast(null as bigint)",
        "engine": literal(at.dialect.title),
        "version": literal(sqlmetrics.__version__),
        "outcome": "'replaced'",
        "message": "cast(null as varchar)",
    }
