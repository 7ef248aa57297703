"""Whether the values of a log can be what they are said to be; what can not is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlmetrics.clicks import stored_days
from sqlmetrics.clicks.assembly import is_unclear
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.times import LOGGED, MICROS, RANGES, TEXTS, WHOLE
from sqlmetrics.clicks.ubi import POSITION, Kinds
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.checks.rules import RowCheck
from sqlmetrics.evaluation.report.table import many
from sqlmetrics.spec.click_columns import Log
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.source import is_separated
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import identifier

EXAMPLES = 3
FIRST = 1_000
"""As many times are looked at for their unit."""
NO_NUMBER = "make it a number, or leave it NULL"
_NOT_WHOLE = "not ({number} between -9e15 and 9e15 and {number} = floor({number}))"
_THERE = "{number} is not null\n    and "


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


def check(tables: ClickTables, kinds: Kinds, engine: Database) -> tuple[Unread, ...]:
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
        spec_name = _shown(tables.clicks, table)
        is_csv = is_separated(tables.clicks.sources[spec_name].file)
        problems += _broken(spec_name, source, rules, engine, is_csv=is_csv)
    problems += stored_days.problems(tables, engine)
    if problems:
        raise InputError(problems)
    return tuple(_unread(tables, engine))


def check_units(tables: ClickTables, engine: Database) -> None:
    """Raise InputError for a `time_unit` that the first times do not have, and another one does.

    Args:
        tables: The stages of the log, of which none needs to be there.
        engine: Its database.
    """
    problems = []
    for table in ("impressions", "events", "requests"):
        relation = tables.unnumbered if tables.unnumbered else tables.relation(table, all_days=True)
        spec_name = _shown(tables.clicks, table)
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


def _shown(clicks: Clicks, table: str) -> str:
    """The name of a table in the spec."""
    if clicks.log is not None:
        return "log"
    is_ubi = clicks.format == "ubi" and table == "impressions"
    return ("requests" if clicks.lists_from == "hit_ids" else "events") if is_ubi else table


def _rules(clicks: Clicks, table: str, kinds: Kinds) -> Iterator[_Rule]:
    """What must hold of the rows of a table."""
    table_kinds = kinds.get(_shown(clicks, table), {})
    if table == "impressions":
        yield from _of_positions(clicks, table_kinds)
    if clicks.format == "ubi":
        return
    source = clicks.sources[_shown(clicks, table)]
    for role in ("dwell", "results"):
        name = getattr(source.columns, role, None)
        if name and table_kinds.get(name.casefold(), "").startswith(TEXTS):
            yield _Rule(_no_number(role), identifier(name), name)
    if isinstance(source, Log):
        yield from _of_flags(source, table_kinds)


def _of_flags(log: Log, kinds: Mapping[str, str]) -> Iterator[_Rule]:
    for action, name in log.columns.done.items():
        condition = is_unclear(kinds.get(name.casefold(), ""))
        if condition:
            problem = "is neither 1 nor 0"
            remedy = f"{name} says whether there was a {action}: make it 1 or 0, true or false"
            yield _Rule(RowCheck(action, condition, problem, remedy), identifier(name), name)


def _no_number(role: str) -> RowCheck:
    condition = "{column} is not null and {number} is null"
    return RowCheck(role, condition, "is no number", NO_NUMBER)


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
    yield from _of_position(identifier(name), name, source.first_position, kind)


def _of_position(column: str, name: str, first: object, kind: str) -> Iterator[_Rule]:
    leave_out = "leave these rows out with where, or mend them"
    if kind.startswith(TEXTS):
        yield _Rule(_no_number("position"), column, name)
    if not kind.startswith(WHOLE):
        whole_check = RowCheck("position", _THERE + _NOT_WHOLE, "is no whole number", leave_out)
        yield _Rule(whole_check, column, name)
    below = RowCheck("position", _THERE + "{number} < 0", "is negative", leave_out)
    yield _Rule(below, column, name)
    if first == 1:
        remedy = "give first_position: 0, or each where some lists start at 0 and some at 1"
        zero = RowCheck("position", _THERE + "{number} = 0", "is 0, and lists start at 1", remedy)
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
                remedy += f'; for decimal commas give clicks.{table}.decimal: ","'
            yield Problem(table, message, int(count), (rule.name,), rows, remedy)


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
            message = f"no time of {count:,} can be read, like {example!r}"
            remedy = (
                "times are timestamps, texts like 2026-01-31T08:00:00+08:00, or numbers since "
                "1970; of numbers say the time_unit: s, ms, us or ns"
            )
            raise InputError(
                Problem(_shown(tables.clicks, table), message, int(count), remedy=remedy)
            )
        if count:
            yield Unread(_shown(tables.clicks, table), int(count), str(example))
