"""Whether a log has the columns that are wanted of it, and these the values; else it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.clicks.assembly import is_unclear
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import INTEGERS, LOGGED, MICROS, RANGES, TEXT_TYPES, TIMES
from sqlmetrics.clicks.ubi import COLUMNS, POSITION, Kinds
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.checks.rules import RowCheck
from sqlmetrics.evaluation.inputs.paths import absent, unreadable
from sqlmetrics.evaluation.inputs.sources import wrong_condition
from sqlmetrics.spec.click_columns import Log, Requests
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import is_day
from sqlmetrics.spec.source import Source, is_separated
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import print_template, with_stages
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many

EXAMPLES = 3
DAY = 86_400_000_000
"""Microseconds of a day."""
FIRST = 1_000
"""As many times are looked at for their unit."""
NO_NUMBER = "make it a number, or leave it NULL"
_NOT_WHOLE = "not ({number} between -9e15 and 9e15 and {number} = floor({number}))"
_NOT_NULL = "{number} is not null\n    and "


def check_columns(
    clicks: Clicks, relations: Mapping[str, Relation], engine: Database
) -> dict[str, dict[str, str]]:
    """The types of the columns of each table, by their names in small letters.

    Args:
        clicks: What was said of the log.
        relations: Where each of its sources is.
        engine: Their database.

    Raises:
        InputError: If a table cannot be read, or lacks a column.
    """
    kinds: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for table, source in clicks.sources.items():
        kind_by_column = _column_types(table, source, relations[table], engine)
        kinds[table] = folded = {name.casefold(): kind for name, kind in kind_by_column.items()}
        for role, name in _wanted(clicks, table, source):
            if name.casefold() not in folded:
                message = f"{unknown('column', name, kind_by_column)} (used as {role})"
                problems.append(Problem(table, message, 1))
            elif role == "day" and not folded[name.casefold()].startswith((*TIMES, *TEXT_TYPES)):
                message = f"{name} is used as day but has the type {folded[name.casefold()]}"
                remedy = "convert it to a date, or a text like 2026-01-31, in the sql of the source"
                problems.append(Problem(table, message, 1, remedy=remedy))
    problems += _condition_problems(clicks, relations, engine)
    if problems:
        raise InputError(problems)
    return kinds


def _condition_problems(
    clicks: Clicks, relations: Mapping[str, Relation], engine: Database
) -> Iterator[Problem]:
    """The conditions that cannot be read."""
    conditions = [(table, "where", source.where) for table, source in clicks.sources.items()]
    first_source = next(name for name in ("log", "impressions", "events") if name in relations)
    for table, key, text in (*conditions, (first_source, "cleaning.test", clicks.cleaning.test)):
        if wrong := wrong_condition(text, relations[table], engine):
            yield Problem(table, f"{key} {text!r}: {wrong}", 1)


def _column_types(
    table: str, source: Source, relation: Relation, engine: Database
) -> Mapping[str, str]:
    try:
        return engine.columns(source_text(relation))
    except InputError as error:
        message = absent(source, engine) or unreadable(source, relation, error, engine)
        raise InputError(f"{table}: {message}") from None


def _wanted(clicks: Clicks, table: str, source: Source) -> Iterator[tuple[str, str]]:
    """Roles and the columns that have them."""
    if clicks.format == "ubi":
        yield from ((name, name) for name in COLUMNS[table])
        return
    columns = source.columns.model_dump(exclude={"clicked", "actions"})
    segments = columns.pop("segments", ())
    yield from ((role, name) for role, name in columns.items() if name is not None)
    yield from ((f"segment {name}", name) for name in segments)
    if isinstance(source, Requests):
        yield from _shared_segments(clicks, source, segments)
    if isinstance(source, Log):
        yield from source.columns.column_by_action.items()


def _shared_segments(
    clicks: Clicks, requests: Requests, named_segments: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The segments of the impressions, which searches without a result have too."""
    if clicks.columns is None:
        return
    roles = clicks.columns.model_dump(exclude={"segments"})
    requests_roles = requests.columns.model_dump(exclude={"segments"})
    for name in clicks.columns.segments:
        has_role = any(requests_roles.get(role) for role, column in roles.items() if column == name)
        if name not in named_segments and not has_role:
            yield f"segment {name} of the impressions", name


@dataclass(frozen=True)
class _Rule:
    """A rule on the rows of a table, and the column as SQL and by name."""

    check: RowCheck
    column: str
    name: str

    @property
    def condition(self) -> str:
        number = f"try_cast({self.column} as double)"
        text = f"cast({self.column} as varchar)"
        return self.check.condition.format(column=self.column, number=number, text=text)


@dataclass(frozen=True)
class Unread:
    """Times that cannot be read.

    Attributes:
        table: Of which table.
        count: How many.
        example: One of them.
    """

    table: str
    count: int
    example: str


def check_values(tables: ClickTables, kinds: Kinds, engine: Database) -> tuple[Unread, ...]:
    """The times of a log that cannot be read.

    Args:
        tables: The stages of the log, of which those that choose its requests are there.
        kinds: The types of the columns of its sources.
        engine: Their database.

    Raises:
        InputError: If positions, flags, or numbers cannot be what they are said to be, or no
            time of a table can be read.
    """
    problems: list[Problem] = []
    for table, source in tables.sources().items():
        rules = list(_rules(tables.clicks, table, kinds))
        spec_name = _spec_key(tables.clicks, table)
        is_csv = is_separated(tables.clicks.sources[spec_name].file)
        problems += _broken(spec_name, source, rules, engine, is_csv=is_csv)
    problems += _stored_problems(tables, engine)
    problems += _mixed_currencies(tables, engine)
    if problems:
        raise InputError(problems)
    return tuple(_unread(tables, engine))


def check_segments(tables: ClickTables, by: Sequence[str], engine: Database) -> None:
    """Raise InputError for a segment of which the rows of a request have several values.

    Args:
        tables: The stages of the log, whose tables are there.
        by: The segments that are asked for; of the log itself alone.
        engine: Its database.
    """
    names = [name for name in by if identifier(name) in tables.names.segments]
    if not names or (tables.rows.is_hashed and not _has_divided(tables, engine)):
        return
    spec_name = _spec_key(tables.clicks, "impressions")
    stages = tables.stages(tables.evaluates)
    problems = []
    for name in names:
        view = {
            "keys": ["request_id"],
            "column": identifier(name),
            "rankings": tables.of[tables.evaluates],
        }
        rows = engine.rows(with_stages(stages, print_template("checks/varying", view)))
        if rows:
            n_requests = int(rows[0][0])
            message = f"requests whose rows differ in {name}: {n_requests:,}"
            remedy = (
                "a request must have one value: fix these rows, or leave some out "
                f"(clicks.{spec_name}.where: {name} is not null, if some rows lack it)"
            )
            columns = ("request_id", "one value", "another")
            examples = [row[1:] for row in rows]
            problems.append(Problem(spec_name, message, n_requests, columns, examples, remedy))
    if problems:
        raise InputError(problems)


def _has_divided(tables: ClickTables, engine: Database) -> bool:
    """Whether hashes tell of a request whose rows differ in a text."""
    requests = tables.of["logged_requests"]
    return bool(engine.rows(f"select 1 as is_divided from {requests} where is_divided = 1 limit 1"))


def check_units(tables: ClickTables, engine: Database) -> None:
    """Raise InputError for a `time_unit` that the first times do not have, and another one does.

    Args:
        tables: The stages of the log, of which none needs to be there.
        engine: Its database.
    """
    problems = []
    for table in ("impressions", "events", "requests"):
        relation = tables.unnumbered if tables.unnumbered else tables.relation(table, all_days=True)
        spec_name = _spec_key(tables.clicks, table)
        source = tables.clicks.sources.get(spec_name)
        unit = source.time_unit if source and tables.reads(table) else None
        if relation is None or unit is None or unit not in RANGES:
            continue
        time = tables.names.time(table)
        rows = f"select try_cast({time} as double) as number from {source_text(relation)}"
        ((least, most),) = engine.rows(
            f"select min(number), max(number) from ({rows} limit {FIRST}) as first_times"
        )
        if least is None or _fits(unit, least, most):
            continue
        fitting = [unit for unit in RANGES if _fits(unit, least, most)]
        if fitting:
            message = f"times like {least:.0f} are not in {unit}, but in {fitting[0]}"
            remedy = f"give clicks.{spec_name}.time_unit: {fitting[0]}"
            problems.append(Problem(spec_name, message, FIRST, remedy=remedy))
    if problems:
        raise InputError(list(dict.fromkeys(problems)))


def _fits(unit: str, least: float, most: float) -> bool:
    """Whether numbers are times of the years 1989 to 2286 in a unit."""
    first, end = map(float, RANGES[unit])
    return first <= least and most < end


def _spec_key(clicks: Clicks, table: str) -> str:
    """The name of a table in the spec."""
    if clicks.log is not None:
        return "log"
    is_ubi = clicks.format == "ubi" and table == "impressions"
    return ("requests" if clicks.lists_from == "hit_ids" else "events") if is_ubi else table


def _rules(clicks: Clicks, table: str, kinds: Kinds) -> Iterator[_Rule]:
    """What must hold of the rows of a table."""
    table_kinds = kinds.get(_spec_key(clicks, table), {})
    if table == "impressions":
        yield from _of_positions(clicks, table_kinds)
    if clicks.format == "ubi":
        return
    source = clicks.sources[_spec_key(clicks, table)]
    for role in ("dwell", "results", "amount"):
        name = getattr(source.columns, role, None)
        if name and table_kinds.get(name.casefold(), "").startswith(TEXT_TYPES):
            yield _Rule(_no_number(role), identifier(name), name)
    if isinstance(source, Log):
        yield from _of_flags(source, table_kinds)


def _of_flags(log: Log, kinds: Mapping[str, str]) -> Iterator[_Rule]:
    for action, name in log.columns.column_by_action.items():
        condition = is_unclear(kinds.get(name.casefold(), ""))
        if condition:
            problem = "is neither 1 nor 0"
            remedy = f"{name} says whether there was a {action}; make it 1 or 0, true or false"
            yield _Rule(RowCheck(action, condition, problem, remedy), identifier(name), name)


def _no_number(role: str) -> RowCheck:
    condition = "{column} is not null and {number} is null"
    return RowCheck(role, condition, "is not a number", NO_NUMBER)


def _of_positions(clicks: Clicks, kinds: Mapping[str, str]) -> Iterator[_Rule]:
    source = clicks.log or clicks.impressions
    if source is None:
        if clicks.lists_from != "hit_ids":
            yield from _of_position(
                POSITION, "event_attributes.position.ordinal", "each", "VARCHAR"
            )
        return
    name = source.columns.position
    kind = kinds.get(name.casefold(), "")
    table = "log" if clicks.log else "impressions"
    yield from _of_position(identifier(name), name, source.first_position, kind, table)


def _of_position(
    column: str, name: str, first: object, kind: str, table: str = ""
) -> Iterator[_Rule]:
    leave_out = "fix these rows, or leave them out with where"
    if kind.startswith(TEXT_TYPES):
        yield _Rule(_no_number("position"), column, name)
    if not kind.startswith(INTEGERS):
        whole_check = RowCheck(
            "position", _NOT_NULL + _NOT_WHOLE, "is not a whole number", leave_out
        )
        yield _Rule(whole_check, column, name)
    below = RowCheck("position", _NOT_NULL + "{number} < 0", "is negative", leave_out)
    yield _Rule(below, column, name)
    if first == 1:
        key = f"clicks.{table}.first_position"
        remedy = f"set {key}: 0, or {key}: each if some lists start at 0 and some at 1"
        zero = RowCheck(
            "position", _NOT_NULL + "{number} = 0", "is 0, but lists start at 1", remedy
        )
        yield _Rule(zero, column, name)


def _broken(
    table: str, source: str, rules: list[_Rule], engine: Database, *, is_csv: bool
) -> Iterator[Problem]:
    """The rules that some rows break, found in one pass."""
    if not rules:
        return
    counted = [f"sum(case when {rule.condition} then 1 else 0 end)" for rule in rules]
    counts = engine.rows(f"select {', '.join(counted)} from {source}")[0]
    for rule, count in zip(rules, counts, strict=True):
        if count:
            select = f"select distinct cast({rule.column} as varchar) as example from {source}"
            rows = engine.rows(f"{select} where {rule.condition} order by example limit {EXAMPLES}")
            message = f"{rule.name} {rule.check.problem} in {many(count, 'row')}"
            remedy = rule.check.remedy
            if is_csv and remedy == NO_NUMBER and any("," in str(text) for (text,) in rows):
                remedy += f'; for decimal commas set clicks.{table}.decimal: ","'
            yield Problem(table, message, int(count), (rule.name,), rows, remedy)


def _mixed_currencies(tables: ClickTables, engine: Database) -> Iterator[Problem]:
    """Amounts in several currencies, with how many there are of each."""
    columns = tables.names.events
    if not {"amount", "currency"} <= columns.keys():
        return
    sources = tables.sources()
    table = "impressions" if tables.clicks.log else "events"
    currency = f"cast({columns['currency']} as varchar)"
    counts = engine.rows(
        f"select {currency} as currency, count(*) as n from {sources[table]} "
        f"where {columns['amount']} is not null group by {currency} order by n desc, currency"
    )
    if len(counts) > 1:
        listed = ", ".join(f"{name or 'NULL'} {int(n):,}" for name, n in counts[:EXAMPLES])
        rest = f", and {len(counts) - EXAMPLES} more" if len(counts) > EXAMPLES else ""
        source_name = _spec_key(tables.clicks, table)
        yield Problem(
            source_name,
            f"amounts are in {len(counts)} currencies, which do not add up: {listed}{rest}",
            sum(int(n) for _, n in counts),
            remedy=f"keep one by clicks.{source_name}.where, or convert them in sql",
        )


def _unread(tables: ClickTables, engine: Database) -> Iterator[Unread]:
    for table, source in tables.sources().items():
        if not tables.reads(table):
            continue
        time_column = tables.names.time(table)
        is_bad = f"{LOGGED} is not null and {MICROS} is null"
        total, count, example = engine.rows(
            f"select count({LOGGED}), sum(case when {is_bad} then 1 else 0 end), "
            f"min(case when {is_bad} then cast({time_column} as varchar) end) from {source}"
        )[0]
        if count and count == total:
            message = f"none of {count:,} times can be read, like {example!r}"
            remedy = (
                "give timestamps, texts like 2026-01-31T08:00:00+08:00, or numbers since 1970 "
                "with their time_unit: s, ms, us or ns"
            )
            raise InputError(
                Problem(_spec_key(tables.clicks, table), message, int(count), remedy=remedy)
            )
        if count:
            yield Unread(_spec_key(tables.clicks, table), int(count), str(example))


def _stored_problems(tables: ClickTables, engine: Database) -> Iterator[Problem]:
    """Columns of days that are none, and rows whose time lies further from them than was said.

    Args:
        tables: The stages of the log; nothing is looked at unless they are of some days alone.
        engine: Their database.
    """
    if not tables.read.days:
        return
    for table in ("impressions", "events", "requests"):
        relation = tables.relation(table)
        if table == "events" and tables.clicks.log is not None:
            continue  # the same rows
        if relation is not None and tables.read.stored(table):
            source = "log" if tables.clicks.log is not None else table
            stored = _StoredDays(tables, table, source, relation, engine)
            no_day = stored.no_day()
            yield from [no_day] if no_day else stored.far()


@dataclass(frozen=True)
class _StoredDays:
    """A table that is stored by day.

    Attributes:
        tables: The stages of the log.
        table: Its name there.
        source: And in the spec.
        relation: Where it is.
        engine: Its database.
    """

    tables: ClickTables
    table: str
    source: str
    relation: Relation
    engine: Database

    @property
    def _column(self) -> str:
        return self.tables.read.stored(self.table)

    def no_day(self) -> Problem | None:
        """What is wrong with the column itself, by its first value."""
        select = f"select cast({self._column} as varchar) from {source_text(self.relation)}"
        rows = self.engine.rows(f"{select} where {self._column} is not null limit 1")
        if not rows or is_day(rows[0][0]):
            return None
        name = self.tables.clicks.day_column(self.source)
        message = (
            f"{name} is used as day but has {rows[0][0]!r}; give a date, or a text like 2026-01-31"
        )
        return Problem(
            self.source, message, 1, remedy=f"convert {name} to a date in the sql of the source"
        )

    def far(self) -> Iterator[Problem]:
        """Rows that are stored beyond the margin: others, which are not read, may be so too."""
        names, (before, after) = self.tables.names, self.tables.read.margins(self.table)
        # DuckDB alone tells the microseconds of no text
        day = self._column if names.at.changes else f"cast({self._column} as date)"
        stored = names.at.expression(names.at.dialect.times.micros, day)
        time = names.local_moment(self.table)
        far = f"{time} < {stored} - {before * DAY}"
        if after is not None:
            far += f" or {time} >= {stored} + {(after + 1) * DAY}"
        examples = ", ".join(
            f"min(case when {far} then cast({column} as varchar) end) as {name}"
            for name, column in (("its_day", self._column), ("its_time", names.time(self.table)))
        )
        read = " and ".join(self.tables.read.where(self.table, all_requests=True))
        ((count, its_day, its_time),) = self.engine.rows(
            f"select sum(case when {far} then 1 else 0 end) as n, {examples} "
            f"from {source_text(self.relation, read)}"
        )
        if count:
            message = (
                f"{many(int(count), 'row')} stored more than {many(before, 'day')} from their "
                f"time, like {its_day} for {its_time}, so rows may be missed"
            )
            remedy = f"set clicks.day_margin: {before + 1} or more, or leave out columns.day"
            yield Problem(self.source, message, int(count), remedy=remedy)
