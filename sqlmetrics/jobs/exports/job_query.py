"""The rows that a run would write, as a query for a tool that writes them itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from textwrap import indent

from sqlmetrics.clicks.steps import header
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.sources import relation_of
from sqlmetrics.jobs.days import ClientDays, Question, client_days, on_days
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.job import kept_steps, plan_of
from sqlmetrics.jobs.new_rows import NewRows
from sqlmetrics.jobs.schema import COMPILED, TableColumn, columns_for, targets
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import about, make_script, per_query_text
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import commented
from sqlmetrics.sql.template import finished, literal, parts
from sqlmetrics.sql.translation import Translation

# The tables that a spec reads, under marks: another tool has names of its own for them.

MARK = "sqlmetrics_table_"
"""The name of a table in the text begins so until the tool's own stands there."""

COUNTERFACTUAL = "counterfactual"
"""The role of lists that were not shown, or of a policy."""


@dataclass(frozen=True)
class Input:
    """A table that a spec reads.

    Attributes:
        role: What it is to the spec: `rankings`, `labels`, `impressions`.
        source: Where it is, as the spec says it.
    """

    role: str
    source: Source

    @property
    def mark(self) -> str:
        """What stands for it in the text."""
        return f"{MARK}{self.role}"

    @property
    def name(self) -> tuple[str, ...]:
        """The parts of its name, its schema first; empty for a query or a file."""
        return tuple(parts(self.source.relation)) if self.source.relation else ()

    def select(self, target: Target) -> str:
        """The query of a table that is none in the database: the user's own, or of a file.

        The path of a file starts from where the other tool runs.

        Raises:
            SpecError: If a database would have to read a file.
        """
        if self.source.sql is not None:
            return self.source.sql.strip().rstrip(";").rstrip()
        if target.dialect.name != "duckdb":
            raise SpecError(
                f"{self.role}: DuckDB alone reads files; load {self.source.file!r} into a table, "
                f"and give it as {self.role}: {{relation: ...}}"
            )
        relation = relation_of(self.source, self.role)
        relation = replace(relation, location=target.path_of(relation.location))
        return finished(f"select *\nfrom {source_text(relation)}")


def renamed(
    spec: Spec, name: Callable[[Input], str] = attrgetter("mark")
) -> tuple[Spec, list[Input]]:
    """The spec over tables of other names, by default over marks; and the tables it reads.

    Raises:
        SpecError: If a table is data in memory.
    """
    inputs = list(_inputs(spec))
    for job_input in inputs:
        if job_input.source.data is not None:
            raise SpecError(f"{job_input.role}: data in memory cannot be exported; give a relation")
    moved = {job_input.role: _moved(job_input, name(job_input)) for job_input in inputs}
    if spec.clicks is None:
        return spec.having(name=spec.title, **moved), inputs
    settings = {name: getattr(spec.clicks, name) for name in Clicks.model_fields}
    of_log = {role: moved.pop(role) for role in spec.clicks.sources}
    if COUNTERFACTUAL in moved and spec.clicks.counterfactual is not None:
        settings[COUNTERFACTUAL] = spec.clicks.counterfactual.read_from(moved.pop(COUNTERFACTUAL))
    clicks = Clicks(**settings | of_log)
    return spec.having(name=spec.title, clicks=clicks, rankings=None, labels=None, **moved), inputs


def _inputs(spec: Spec) -> Iterator[Input]:
    roles = ("rankings", "labels") if spec.clicks is None else ()
    for role in roles:
        if (source := getattr(spec, role)) is not None:
            yield Input(role, source)
    for role, source in (spec.clicks.sources if spec.clicks else {}).items():
        yield Input(role, source)
    if (
        counterfactual := spec.clicks and spec.clicks.counterfactual
    ) and counterfactual.source is not None:
        yield Input(COUNTERFACTUAL, counterfactual.source)
    if spec.queries is not None:
        yield Input("queries", spec.queries)
    if spec.items is not None and spec.needs_items:
        yield Input("items", spec.items)


def _moved(job_input: Input, name: str) -> Source:
    relation_fields = {
        "relation": name,
        "sql": None,
        "file": None,
        "separator": None,
        "decimal": None,
    }
    source_fields = {
        name: getattr(job_input.source, name) for name in type(job_input.source).model_fields
    }
    return type(job_input.source)(**source_fields | relation_fields)


def put(text: str, pieces: Mapping[str, str], escaped: Callable[[str], str]) -> str:
    """The text with pieces of another language in the place of marks, all else escaped.

    Args:
        text: SQL with marks; a mark may stand in quotes, which go with it.
        pieces: Mark -> what stands there.
        escaped: How other text is written that the language would take for its own.
    """
    marks = "|".join(sorted(map(re.escape, pieces), key=len, reverse=True))
    fragments = re.split(rf"""(["'`]?\b(?:{marks})\b["'`]?)""", text, flags=re.IGNORECASE)
    return "".join(
        pieces[fragment.strip("\"'`").casefold()] if number % 2 else escaped(fragment)
        for number, fragment in enumerate(fragments)
    )


START, END = "sqlmetrics_day_start", "sqlmetrics_day_end"
"""What stands for the first day, and the day after the last one, in SQL texts."""

RUN_ID, NOW = "sqlmetrics_run_id", "sqlmetrics_now"
"""What stands for the name of the run and for its time, likewise."""

STEP = "sqlmetrics_"
"""The name of what a click log is cleaned in begins so."""


@dataclass(frozen=True)
class JobQuery:
    """The queries of a job, over marks.

    Attributes:
        target: What is exported.
        name: What a table that is read is called in the text; by default by its mark.
    """

    target: Target
    name: Callable[[Input], str] = attrgetter("mark")

    def __post_init__(self) -> None:
        if not self.spec.clicks and self.spec.rankings.columns.date is None:
            raise SpecError(
                "the rankings have no column of dates, and the tables of a warehouse are replaced "
                "day by day; name the column as rankings.columns.date"
            )

    @property
    def spec(self) -> Spec:
        """The spec as it was given."""
        return self.target.spec

    @cached_property
    def inputs(self) -> list[Input]:
        """The tables that are read."""
        return self._renamed[1]

    @cached_property
    def tables(self) -> Mapping[str, str]:
        """`facts`, and `per_query` if it is asked for -> where they are."""
        return {name: relation for name, relation in targets(self.spec).items() if name in COMPILED}

    def columns(self, table: str) -> list[TableColumn]:
        """The columns of a table, with their types in the dialect."""
        return [
            replace(column, kind=self.at.type(column.kind))
            for column in columns_for(self.spec)[table].values()
        ]

    @cached_property
    def about(self) -> str:
        """Comment lines: for which database, what is computed, by which conventions."""
        dialect = self.target.dialect
        lines = f"-- {self.spec.title}, for {dialect.title}: {trust(dialect)}\n"
        of_lists = about(self.plan) if self.spec.metrics else ""
        if not self.spec.clicks:
            return lines + of_lists
        # the log's own lines name the metrics of lists as well
        conventions = of_lists[of_lists.find("-- conventions") :] if of_lists else ""
        return lines + header(self._question.spec) + conventions

    @cached_property
    def plan(self) -> Plan:
        """The evaluation of lists."""
        return plan_of(self._question, self.at)

    @property
    def steps(self) -> list[Step]:
        """What a click log goes through, each over those before; none without one."""
        return list(kept_steps(self._question, self.at)) if self.spec.clicks else []

    def query(self, table: str) -> str:
        """The new rows of a table; a click log's read the tables of its `steps`."""
        per_query = ""
        if table == "per_query" and self.spec.clicks:
            per_query = make_script([self.plan]).per_query
        elif table == "per_query":
            per_query = per_query_text(self.plan)
        rows = self._new.exchange(per_query, self._question.ends or self._days.ends).rows[table]
        return self.at.text(finished(rows.select)).rstrip()

    def nested(self, table: str) -> str:
        """The same as one query, in which the steps are CTEs."""
        return self.nest(self.query(table))

    def nest(self, query: str) -> str:
        """A query over steps as one of its own: with the steps that it needs as CTEs."""
        steps = self.steps
        while steps and steps[-1].name not in query:
            steps.pop()
        if not steps:
            return query
        comment, select = commented(query)
        ctes = ",\n\n".join(self._cte(step) for step in steps)
        body = select.removeprefix("with\n").lstrip("\n")
        return f"{comment}with\n\n{ctes}{',' if body != select else ''}\n\n{body}"

    def typed(self, table: str, query: str) -> str:
        """A query of these rows whose columns have the types of the table."""
        select_start = query.rfind("\nselect\n") + 1
        before, select = query[:select_start].rstrip(), query[select_start:]
        before = f"{before},\n\n" if before else "with\n\n"
        types = {self.at.column(column.name): column.type for column in self.columns(table)}
        casts = ",\n".join(f"    cast({name} as {kind}) as {name}" for name, kind in types.items())
        about = "-- one row per row of the table, before its types"
        cte = f"{about}\nuntyped as (\n{indent(select, '    ')}\n)"
        return f"{before}{cte}\n\nselect\n{casts}\nfrom untyped"

    def step_text(self, step: Step) -> str:
        """The query of a step, below its comment."""
        comment, select = commented(step.select)
        return comment + self.at.text(select).rstrip()

    def _cte(self, step: Step) -> str:
        comment, select = commented(self.step_text(step))
        return f"{comment}{self.at.column(step.name)} as (\n{indent(select, '    ')}\n)"

    @cached_property
    def at(self) -> Translation:
        """The dialect; one without tables for a while nests what a log needs."""
        dialect = self.target.dialect
        keep = dialect.keep or (DIALECTS["duckdb"].keep if self.spec.clicks else "")
        return Translation(replace(dialect, keep=keep) if keep != dialect.keep else dialect)

    @cached_property
    def _renamed(self) -> tuple[Spec, list[Input]]:
        return renamed(self.spec, self.name)

    @cached_property
    def _days(self) -> ClientDays:
        return client_days(self.at, "'sqlmetrics_day_{name}'")

    @cached_property
    def _question(self) -> Question:
        return on_days(self._renamed[0], self._days)

    @cached_property
    def _new(self) -> NewRows:
        moment = self.at.dialect.times.moment.format(column=literal(NOW))
        new = NewRows(
            self.spec, self.at, self.at.user_text(literal(RUN_ID)), self.at.user_text(moment)
        )
        return new if self.spec.clicks else replace(new, plan=self.plan)
