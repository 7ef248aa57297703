"""The input checks: never a wrong number in silence.

The rules on single rows share one scan of each table; a rule that needs groups is one
query of its own. All problems are told at once, with counts and example rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import is_column_role
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks import ids
from sqlmetrics.evaluation.checks.absence import why_absent, wrong_runs, wrong_scores
from sqlmetrics.evaluation.checks.ids import odd_days
from sqlmetrics.evaluation.checks.named_values import unknown_values
from sqlmetrics.evaluation.checks.prescan import CLEAR, Prescan, is_possible, screen
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem, refusal, remedy_for
from sqlmetrics.evaluation.checks.rules import (
    OWN_ROLES,
    UNMAPPED,
    UNREADABLE_DAY,
    GroupCheck,
    RowCheck,
    group_checks,
    row_checks,
)
from sqlmetrics.evaluation.checks.scores import problems_of_scores, text_scores
from sqlmetrics.evaluation.inputs.guess import group_columns
from sqlmetrics.evaluation.inputs.names import NAMES, plain
from sqlmetrics.evaluation.inputs.paths import absent, unreadable
from sqlmetrics.evaluation.inputs.run_names import expanded
from sqlmetrics.evaluation.inputs.sources import wrong_condition, wrong_segments
from sqlmetrics.evaluation.statistics import hashed
from sqlmetrics.plan.per_query import BUCKET, SCREENED, SUSPECTS
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script, query_text
from sqlmetrics.spec.days import day_of
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import print_template, with_stages
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many, printable

NUMBERS = {"score", "rank", "weight", "grade", "popularity", "users"}
NO_NUMBERS = ("DATE", "TIME", "BLOB", "STRUCT", "MAP", "UUID", "INTERVAL")
_SECOND = re.compile(r"(.+)_\d+")
"""What DuckDB calls a second column of a name; a column may be called so itself."""
_OF_NAMES = ("VARCHAR", "INTEGER", "BIGINT")
"""Types of columns that may name judges."""
MOST_LOOKED_AT, MOST_JUDGES = 8, 50
"""As many columns are asked whether they name judges, and as many judges there may be."""


def check_inputs(
    plan: Plan,
    engine: Database,
    *,
    presumed: Sequence[str] = (),
    ignored_tables: Sequence[str] = (),
) -> None:
    """Raise InputError if the input would give a wrong number.

    Args:
        plan: The plan of the evaluation.
        engine: Where the tables are.
        presumed: Tables whose rows and lists are looked at later, by `confirm`.
        ignored_tables: Tables whose problems do not matter, by the names that messages give them.

    Raises:
        NoDataError: If all that is wrong is that tables have no row yet, or none of the days.
        InputError: With every problem found: first missing columns, then bad rows, then
            bad groups of rows, since each kind can only be looked for without the former.
    """
    look = _look(plan, engine, dict.fromkeys(presumed, CLEAR))
    kinds: tuple[Callable[[], Iterator[Problem]], ...] = (
        look.missing_columns,
        look.odd_chosen_days,
        partial(wrong_segments, plan.unfused, engine),
        look.broken_ids,
        look.texts,
        look.merged_ids,
        look.bad_or_repeated_rows,
        look.rounded_scores,
        look.empty_lists,
        look.unknown_baseline,
        partial(wrong_runs, plan, engine),
        partial(wrong_scores, plan, engine),
        look.bad_groups,
    )
    problem_lists = (
        [problem for problem in kind() if problem.table not in ignored_tables] for kind in kinds
    )
    problems: list[Problem] = next(filter(None, problem_lists), [])
    if problems and presumed:
        check_inputs(
            plan, engine, ignored_tables=ignored_tables
        )  # together with what is wrong in those tables
    if problems:
        raise refusal(_with_left_out(problems, plan))


def check_sample(plan: Plan, sample: Plan, engine: Database) -> None:
    """Raise InputError if the input would give a wrong number, as far as some queries show it.

    What is wrong with columns, a table without rows and an unknown baseline are told of all.

    Args:
        plan: The plan of the evaluation.
        sample: That of some of its queries.
        engine: Where the tables are.
    """
    full_look, sample_look = _look(plan, engine), _look(sample, engine)
    for kind in (
        full_look.missing_columns,
        full_look.odd_chosen_days,
        full_look.broken_ids,
        full_look.texts,
        full_look.empty_tables,
    ):
        if problems := list(kind()):
            raise refusal(_with_left_out(problems, plan))
    for kind in (
        sample_look.bad_or_repeated_rows,
        full_look.unknown_baseline,
        partial(wrong_runs, plan, engine),
        partial(wrong_scores, sample, engine),
        sample_look.bad_groups,
    ):
        if problems := [problem for problem in kind() if problem.count]:
            raise refusal(_with_left_out(problems, plan))


def check_columns(plan: Plan, engine: Database, *, ignored_tables: Sequence[str] = ()) -> None:
    """Raise InputError unless the tables can be read, and have the columns that are asked for.

    Args:
        plan: The plan of the evaluation.
        engine: Where the tables are.
        ignored_tables: Tables that are not looked at.

    Raises:
        InputError: With every column that is missing, or a condition that cannot be read.
    """
    look = _look(plan, engine)
    sources = {name: source for name, source in look.sources.items() if name not in ignored_tables}
    problems = list(replace(look, sources=sources).missing_columns())
    if problems:
        raise InputError(problems)


def confirm(plan: Plan, buckets: int, script: Script, engine: Database) -> None:
    """Raise InputError if an evaluation came upon what was presumed to be right, and is not.

    Args:
        plan: The plan of the evaluation.
        buckets: In how many it was carried out; one without a row in `per_query` tells nothing.
        script: How that is read.
        engine: Where it is.

    Raises:
        InputError: As `check`.
    """
    select = f"select distinct {BUCKET}, {SCREENED}, {SUSPECTS} from per_query"
    bucket_rows = engine.rows(script.over(select))
    is_whole = len(bucket_rows) == buckets
    if buckets > 1:
        source = source_text(plan.shape.at.rankings, plan.shape.where["rankings"])
        n_rows = engine.rows(f"select count(*) from {source}")[0][0]
        is_whole = sum(rows for _, rows, _ in bucket_rows) == n_rows
    if not is_whole or any(suspects for *_, suspects in bucket_rows):
        check_inputs(plan, engine)


def validate(plan: Plan, engine: Database) -> tuple[str, ...]:
    """Raise InputError unless the plan fits its tables: relations, columns, types, named values.

    No metric is computed; the database plans the query, and counts the values of columns of
    which the spec names one, and the grades that have no number.

    Returns:
        Notes of values that it names and no row has, and no number rests on.

    Raises:
        InputError: With every column that is missing, or what the database says of types.
    """
    look = _look(plan, engine)
    problems = [*look.missing_columns()]
    try:
        problems += [*look.broken_ids(), *look.wrong_types()]
    except InputError:  # of a table whose condition cannot be read, which is told already
        if not problems:
            raise
    if problems:
        raise InputError(problems)
    engine.try_out(query_text(plan))
    if unmapped := [*look.bad_rows(UNMAPPED.problem), *wrong_runs(plan, engine)]:
        raise InputError(unmapped)
    return unknown_values(plan, engine)


def _look(plan: Plan, engine: Database, screens: dict[str, Prescan] | None = None) -> _Look:
    """A look at the tables, of rankings that are fused at what they are fused from."""
    plan = plan.unfused
    shape = plan.shape
    sources = {
        table: source_text(relation, shape.where[table]) for table, relation in shape.tables.items()
    }
    return _Look(plan, sources, engine, screens or {})


@dataclass(frozen=True)
class _Look:
    """One look at the input; each method gives the problems of one kind."""

    plan: Plan
    sources: Mapping[str, str]
    engine: Database
    screens: dict[str, Prescan]

    def missing_columns(self) -> Iterator[Problem]:
        for table, source in self.sources.items():
            try:
                with self._reading(table):
                    columns = self.engine.columns(source)
                    renamed = self._renamed(table, columns)
                    gaps = self._gaps(table)
            except InputError as error:
                columns, renamed, gaps = dict(self._without_condition(table)), set(), {}
                yield from self._unread(table, columns, error)
            folded = {name.casefold() for name in columns}
            segments = self.plan.shape.made_of.columns(table, self.engine.translation.dialect)
            column_by_role = self.plan.shape.columns[table] | segments
            for role, name in column_by_role.items():
                if name.casefold() not in folded:
                    use = "read by a metric" if is_column_role(role) else f"used as {role}"
                    names = columns.keys() - self._own_columns(table).values()
                    message = f"{unknown('column', name, names)} ({use})"
                    yield Problem(table, message, 1)
                elif name.casefold() in gaps:
                    message = (
                        f"{gaps[name.casefold()]!r} lacks the column {name!r}, which other files "
                        "have"
                    )
                    yield Problem(table, message, 1)
                elif name.casefold() in renamed:
                    message = f"two columns are called {name!r}, or differ only in case; rename one"
                    yield Problem(table, message, 1)

    def _own_columns(self, table: str) -> dict[str, str]:
        """Role -> column, of those that are in no table but made when it is read."""
        columns = self.plan.shape.columns[table]
        return {role: name for role, name in columns.items() if role in OWN_ROLES}

    def _unread(self, table: str, columns: Iterable[str], error: InputError) -> Iterator[Problem]:
        """What cannot be read, unless the column of days is not there, which is told by itself.

        Raises:
            InputError: If the table has no column.
        """
        if not columns:
            raise error
        day = self.plan.shape.columns[table].get("date", "").casefold()
        if not day or day in map(str.casefold, columns):
            yield Problem(table, str(error).removeprefix(f"{table}: "), 1)

    def odd_chosen_days(self) -> Iterator[Problem]:
        """Texts that are no days where rows are chosen by day, which such a text fails."""
        shape = self.plan.shape
        of_all_days = {
            table: source_text(shape.tables[table], shape.source_condition(table))
            for table in self.sources
            if shape.days_of(table)
        }
        if self.plan.translation.changes:
            yield from odd_days(self.plan, of_all_days, self.engine)
            return
        texts = {
            table: source
            for table, source in of_all_days.items()
            if self._kind(source, shape.columns[table]["date"]) == "VARCHAR"
        }
        yield from replace(self, sources=texts).bad_rows(UNREADABLE_DAY.problem)

    def _kind(self, source: str, name: str) -> str:
        """The type of a column; empty if that cannot be told."""
        kinds = self.engine.columns(source).items()
        return {column.casefold(): kind for column, kind in kinds}.get(name.casefold(), "")

    def broken_ids(self) -> Iterator[Problem]:
        """Ids that are numbers with fractions."""
        yield from ids.broken(self.plan, self.engine, self.sources)

    def wrong_types(self) -> Iterator[Problem]:
        """Columns of a type that can never be what they should be."""
        yield from self._of_kinds(NO_NUMBERS, "")
        yield from self._text_scores()

    def texts(self) -> Iterator[Problem]:
        """Texts that other databases than DuckDB would take for 0, or guess a day from."""
        if self.plan.translation.changes:
            yield from self._of_kinds(
                ("VARCHAR",), "convert it to a number in the sql of the source"
            )
            yield from odd_days(self.plan, self.sources, self.engine)

    def _text_scores(self) -> Iterator[Problem]:
        """Scores that are compared as they are, and are texts."""
        name = self.plan.shape.columns["rankings"].get("score")
        if name and self.plan.spec.options["score_precision"] == "exact":
            yield from text_scores(name, self._kind(self.sources["rankings"], name))

    def _of_kinds(self, kinds: tuple[str, ...], remedy: str) -> Iterator[Problem]:
        """Columns of some types that are wanted as numbers."""
        for table, source in self.sources.items():
            kind_by_column = {
                name.casefold(): kind for name, kind in self.engine.columns(source).items()
            }
            mapped = table == "labels" and self.plan.spec.truth.grades
            for role, name in self.plan.shape.columns[table].items():
                kind = kind_by_column.get(name.casefold(), "")
                is_number = role in NUMBERS or role.startswith("number_")
                is_number = is_number and not (mapped and role == "grade")
                if is_number and kind.startswith(kinds):
                    use = "read by a metric as" if is_column_role(role) else f"used as {role},"
                    message = f"{name} is {use} a number, but has the type {kind}"
                    yield Problem(table, message, 1, remedy=remedy)

    def _gaps(self, table: str) -> dict[str, str]:
        """The columns that one of several files has not, with that file."""
        relation = self.plan.shape.tables[table]
        if "gaps" not in relation.details:
            return {}
        view = {"location": relation.location, "relation": relation}
        return dict(self.engine.rows(print_template(f"inputs/{relation.template}_gaps", view)))

    def _renamed(self, table: str, columns: Iterable[str]) -> set[str]:
        """The names for which DuckDB had to rename a second column to `<name>_1`."""
        relation = self.plan.shape.tables[table]
        second = {name: match[1] for name in columns if (match := _SECOND.fullmatch(name))}
        if not (second and relation.named):
            return set()
        view = {"location": relation.location, "relation": relation}
        rows = self.engine.rows(print_template(f"inputs/{relation.template}_names", view))
        header_names = {str(cell).strip() for row in rows for cell in row}
        return {first.casefold() for name, first in second.items() if name not in header_names}

    @contextmanager
    def _reading(self, table: str) -> Iterator[None]:
        """Say which table cannot be read."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{table}: {self._blamed(table, error)}") from None

    def _without_condition(self, table: str) -> Mapping[str, str]:
        """The columns of a table whose condition cannot be read; none if it is not to blame."""
        if not self.plan.shape.where[table]:
            return {}
        try:
            return self.engine.columns(source_text(self.plan.shape.tables[table]))
        except InputError:
            return {}

    def _blamed(self, table: str, error: InputError) -> str:
        """What cannot be read: the condition, if the table can without it."""
        spec, relation = self.plan.spec, self.plan.shape.tables[table]
        source = getattr(spec, table) or spec.truth
        if missing := absent(source, self.engine):
            explanation = (
                "this table is made from the click log; use show, run, compare or evaluate_clicks"
            )
            return explanation if spec.clicks else missing
        condition = source.where
        wrong = wrong_condition(condition, relation, self.engine)
        if wrong:
            return f"where {condition!r}: {wrong}"
        return unreadable(source, relation, error, self.engine)

    def merged_ids(self) -> Iterator[Problem]:
        """Columns whose collation takes different ids for equal."""
        yield from ids.merged(self.plan, self.engine, self.sources)

    def bad_or_repeated_rows(self) -> Iterator[Problem]:
        """Bad rows, and beside them those that are there twice, which need no good values."""
        problems = list(self.bad_rows())
        yield from problems
        if problems and not any(problem.stops or problem.may_come for problem in problems):
            rules = [rule for rule in group_checks(self.plan) if rule.template == "repeated"]
            yield from self.bad_groups([_with_ids(rule) for rule in rules])

    def bad_rows(self, only: str = "") -> Iterator[Problem]:
        """Rows that break a rule: any, or only those with that problem."""
        for table, source in self.sources.items():
            rules = [r for r in row_checks(self.plan, table) if only in ("", r.problem)]
            screened = None if only else self._screen(table)
            if (only and not rules) or (screened and screened.rows and not screened.bad):
                continue
            columns = self.plan.shape.columns[table]
            conditions = [rule.text(columns[rule.role]) for rule in rules]
            counted = [f"sum(case when {condition} then 1 else 0 end)" for condition in conditions]
            select = f"select {', '.join(['count(*)', *counted])} from {source}"
            with self._reading(table):
                total, *counts = self.engine.rows(select)[0]
            if not total:
                yield from [] if only else [self._no_row(table)]
                continue
            for rule, count in zip(rules, counts, strict=True):
                if count:
                    yield self._bad_row(table, rule, count)

    def empty_tables(self) -> Iterator[Problem]:
        for table, source in self.sources.items():
            if not self.engine.rows(f"select 1 as row_exists from {source} limit 1"):
                yield self._no_row(table)

    def _no_row(self, table: str) -> Problem:
        """That no row is there: of these days, or that meets the condition."""
        shape = self.plan.shape
        relation, days = shape.tables[table], " and ".join(shape.days_of(table))
        message, n_left_out = "the table has no rows", 0
        if condition := shape.written_condition(table):
            ((n_left_out,),) = self.engine.rows(
                f"select count(*) from {source_text(relation, days)}"
            )
            if n_left_out:
                rows = many(int(n_left_out), "row")
                message = f"none of {rows} meets the condition {printable(condition)}"
        message += self._range(table)
        return Problem(table, message, 0, may_come=not n_left_out)

    def _range(self, table: str) -> str:
        """The days of which alone rows are looked at, and the last one that there is."""
        shape = self.plan.shape
        if not (shape.at.ends and "date" in shape.columns[table]):
            return ""
        source = source_text(shape.tables[table].of_all_files, shape.source_condition(table))
        select = f"select max({shape.day(table)}) as day, count(*) as n from {source}"
        ((last, n),) = self.engine.rows(select)
        last_day = f"; the last day is {day_of(last)}" if n and last else ""
        return f" {shape.at.ends.words}{last_day}"

    def empty_lists(self) -> Iterator[Problem]:
        """Lists without an item, where it matters that they leave no row behind."""
        condition = self._lost_lists()
        relation = self.plan.shape.at.rankings
        for text, _ in relation.lists[:1] if condition else ():  # the items are the first
            source = source_text(replace(relation, lists=(), added=()))
            select = f"select count(*) from {source} where len({text}) = 0 and {condition}"
            count = self.engine.rows(with_stages(self.plan.inputs, select))[0][0]
            if count:
                message = (
                    f"lists without an item, which cannot be told from missing lists: {count:,}"
                )
                remedy = "give one row per item, or evaluate without dates and with missing=zero"
                yield Problem("rankings", message, count, remedy=remedy)

    def _lost_lists(self) -> str:
        """The condition of an empty list that would count; empty where none does."""
        shape, options = self.plan.shape, self.plan.spec.options
        over = {self.plan.spec.settings(measure)["average_over"] for measure in self.plan.measures}
        flags = [OPTIONS["average_over"].choice(value).only for value in over]
        needs_list = any("is_ranked" in only for only in flags)
        if needs_list or options["missing"] != "zero" or "metric_date" in shape.keys:
            return "true"
        if () not in flags:
            return ""
        query = identifier(shape.columns["rankings"]["query"])
        labelled = f"select query_id from {shape.names['labels']}"
        return f"cast({query} as varchar) not in ({labelled})"

    def rounded_scores(self) -> Iterator[Problem]:
        """Scores that differ, and tie as DOUBLEs."""
        if self.plan.spec.options["score_precision"] != "double":
            return
        if self.plan.shape.at.shown_lists:  # its positions are small
            return
        screened = self._screen("rankings")
        if screened in (None, CLEAR) or screened.far or not screened.rows:
            shape, columns = self.plan.shape, self.plan.shape.columns["rankings"]
            day = shape.day("rankings") if "date" in columns else ""
            yield from problems_of_scores(columns, self.engine, self.sources["rankings"], day)

    def unknown_baseline(self) -> Iterator[Problem]:
        """A baseline that is no system of the rankings."""
        baseline, shape = self.plan.spec.baseline, self.plan.shape
        if baseline is None or "system" not in shape.keys:
            return
        select = f"select distinct system from {shape.names['rankings']} order by system"
        rows = self.engine.rows(with_stages(self.plan.inputs, select))
        systems = [system for (system,) in rows]
        if baseline in systems:
            return
        reason = why_absent(baseline, systems, self.plan, self.engine)
        if reason and "baseline" not in self.plan.spec.needed:
            return  # it pauses on these days, and rows without it have no difference
        reason = reason or unknown("system", baseline, systems)
        yield Problem("rankings", f"no row has the baseline: {reason}", 1)

    def _screen(self, table: str) -> Prescan | None:
        """What one quick pass says of a table; None where there is no such pass."""
        if not is_possible(self.plan, table):
            return None
        if table not in self.screens:
            with self._reading(table):
                self.screens[table] = screen(self.plan, self.engine, table)
        return self.screens[table]

    @cached_property
    def _parts(self) -> list[Plan]:
        """The plan for each bucket of queries, where ClickHouse looks at them one by one."""
        if not self.plan.translation.dialect.quick_hash:
            return [self.plan]
        return [
            self.plan.by(self.plan.strategy, bucket) for bucket in hashed(self.plan, self.engine)
        ]

    def _is_innocent(self, rule: GroupCheck, plan: Plan) -> bool:
        """Whether it is known without the rule's own query that it finds nothing."""
        dialect = plan.translation.dialect
        if plan.translation.changes and not (dialect.quick_hash or dialect.row_hash):
            return False
        screened = self._screen(rule.table) if rule.clue else None
        if screened:
            return not getattr(screened, rule.clue)
        if not rule.innocent:
            return False
        select = print_template(f"checks/{rule.innocent}", rule.view)
        return bool(self.engine.rows(with_stages(plan.inputs, select)))

    def _guilty(self, rule: GroupCheck, plan: Plan) -> list[tuple[Any, ...]]:
        """What a rule finds among some queries: the first rows, each behind the count of all."""
        if self._is_innocent(rule, plan):
            return []
        screened = self._screen(rule.table) if rule.clue == "alike" else None
        view = {**rule.view, "among": screened.among if screened else []}
        select = print_template(f"checks/{rule.template}", view)
        stages = plan.inputs + (plan.per_query if rule.ranked else ())
        return self.engine.rows(with_stages(stages, select))

    def bad_groups(self, rules: Sequence[GroupCheck] | None = None) -> Iterator[Problem]:
        """What rules find that look at several rows; all of them, unless some are given."""
        for rule in group_checks(self.plan) if rules is None else rules:
            parts = self._parts if rule.is_of_queries else [self.plan]
            row_groups = list(filter(None, (self._guilty(rule, part) for part in parts)))
            if row_groups:
                count = sum(rows[0][0] for rows in row_groups)
                examples = [row[1:] for rows in row_groups for row in rows]
                if len(row_groups) > 1:  # no two buckets share a query
                    keys = rule.names.index("query_id") + 1
                    examples = sorted(examples, key=lambda row: row[:keys])[:EXAMPLES]
                message = f"{rule.problem}: {count:,}"
                remedy = (
                    self._system_remedy(rule)
                    + (self._judge_remedy() if rule.is_of_labels else "")
                    + rule.remedy
                    + (self._of_groups() if rule.is_of_labels else "")
                )
                yield Problem(rule.table, message, count, rule.names, examples, remedy)

    def _of_groups(self) -> str:
        """What else may be done with repeated labels: graded subtopics have a row for each."""
        labels, shape = self.plan.spec.labels, self.plan.shape
        if labels is None or shape.has_groups:
            return ""
        fits = group_columns(labels, shape.at.labels, self.engine)
        return "".join(
            f"; for graded subtopics use group={column} (--group {column})" for column in fits
        )

    def _judge_remedy(self) -> str:
        """The column that may name the judge of a repeated label, if one distinguishes them."""
        source, columns = self.sources["labels"], self.plan.shape.columns["labels"]
        keys = ", ".join(identifier(name) for role, name in columns.items() if role != "grade")
        kind_by_column = self.engine.columns(source)
        free = [
            name
            for name, kind in kind_by_column.items()
            if name not in columns.values() and kind.startswith(_OF_NAMES)
        ]
        for column in free[:MOST_LOOKED_AT]:
            name = identifier(column)
            ((n_values, first, last),) = self.engine.rows(
                f"select count(distinct {name}) as n_values, min({name}) as first_value,\n"
                f"    max({name}) as last_value\nfrom {source}"
            )
            repeated = (
                f"select 1 as n from {source} group by {keys}, {name} having count(*) > 1 limit 1"
            )
            if 1 < n_values <= MOST_JUDGES and not self.engine.rows(repeated):
                return (
                    f"{column} distinguishes them ({printable(first)}, {printable(last)}): if it "
                    "names the judge, make one label of several with sqlmetrics combine --judge "
                    f"{column}; else "
                )
        return ""

    def _system_remedy(self, rule: GroupCheck) -> str:
        """The column or files by which repeated rankings are of several systems, if there are."""
        shape = self.plan.shape
        if rule.table != "rankings" or rule.clue != "alike":
            return ""
        if column := shape.at.system_column:
            return (
                f"if the files have several systems each, named in {column}, use --system "
                f"{column} (system=); else "
            )
        if "system" in shape.keys:
            return ""
        source, columns = self.sources["rankings"], shape.columns["rankings"]
        keys = [columns[role] for role in ("query", "item", "date") if role in columns]
        column_by_name = {
            plain(name): name for name in self.engine.columns(source) if name not in keys
        }
        for column in filter(None, map(column_by_name.get, NAMES["system"].split())):
            grouped = ", ".join(map(identifier, [*keys, column]))
            repeated = f"select 1 as n from {source} group by {grouped} having count(*) > 1 limit 1"
            if not self.engine.rows(repeated):
                return f"{column} distinguishes them, so use --system {column} (system=); else "
        path = self.plan.spec.rankings.file
        if path and len(expanded(path)) > 1:
            return (
                f"{path!r} is {len(expanded(path)):,} files, read as one system; if each is a "
                "system, give each by itself, like a=FILE b=FILE; else "
            )
        return ""

    def _bad_row(self, table: str, rule: RowCheck, count: int) -> Problem:
        # as text first: DuckDB drops NaN rows of Parquet files from a plain numeric filter
        reads_files = not self.plan.translation.changes
        read = "cast({column} as varchar)" if reads_files else "{column}"
        columns = self.plan.shape.columns[table]
        condition = rule.text(columns[rule.role], read)
        own_roles = self._own_columns(table).keys() - {rule.role}
        columns = {role: name for role, name in columns.items() if role not in own_roles}
        column_list = ", ".join(identifier(name) for name in columns.values())
        select = (
            f"select {column_list} from {self.sources[table]} where {condition} limit {EXAMPLES}"
        )
        message = f"{columns[rule.role]} {rule.problem} in {many(count, 'row')}"
        rows = self.engine.rows(select)
        position = list(columns).index(rule.role)
        texts = [row[position] for row in rows]
        of_file = bool(self.plan.shape.tables[table].separator)
        remedy = remedy_for(rule.wanted, texts, of_file=of_file) if rule.wanted else rule.remedy
        names = tuple(columns.values())
        return Problem(table, message, count, names, rows, remedy, stops=bool(rule.wanted))


def _with_left_out(problems: Sequence[Problem], plan: Plan) -> list[Problem]:
    """Problems, the last one of the rankings with the files that are left out already."""
    positions = [i for i, problem in enumerate(problems) if problem.table == "rankings"]
    if not (plan.shape.at.left_out and positions):
        return list(problems)
    last = problems[positions[-1]]
    remedy = "\n  note: ".join(filter(None, [last.remedy, plan.shape.at.left_out]))
    return [
        *problems[: positions[-1]],
        replace(last, remedy=remedy),
        *problems[positions[-1] + 1 :],
    ]


def _with_ids(rule: GroupCheck) -> GroupCheck:
    """The rule of repeated rows for those alone that have ids: others are told already."""
    keys = [key for key in ("query_id", "item_id") if key in rule.view["keys"]]
    return replace(rule, view={**rule.view, "with_ids": [f"{key} is not null" for key in keys]})
