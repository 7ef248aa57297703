"""When something was logged: columns of times, and texts and numbers that are read as times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent

from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.spec.click_columns import TimeUnit
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier
from sqlmetrics.sql.timestamps import READERS, Reader
from sqlmetrics.sql.translation import Translation

MICROS, LOGGED = "sqlmetrics_micros", "sqlmetrics_time"
"""The columns that a table gains: its times, and the texts from which they are read."""

FACTORS: Mapping[str, str] = {"s": "1e6", "ms": "1e3", "us": "1e0", "ns": "1e-3"}
"""Unit -> how many microseconds it has."""

RANGES: Mapping[str, tuple[str, str]] = {
    "s": ("6e8", "1e10"),
    "ms": ("6e11", "1e13"),
    "us": ("6e14", "1e16"),
    "ns": ("6e17", "1e19"),
}
"""Unit -> numbers that are of it, if it is not said: the years 1989 to 2286. A day like 20260101
is none of them."""

TIMES = ("TIMESTAMP", "DATE")
TEXTS = ("VARCHAR", "JSON", "ENUM")
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBERS = (*WHOLE, *(f"U{type_name}" for type_name in WHOLE), "DOUBLE", "FLOAT", "DECIMAL")
"""How the types of columns begin, in DuckDB's words."""


@dataclass(frozen=True)
class Reading:
    """How a column becomes times.

    Attributes:
        column: Its name.
        unit: Of what numbers are, or `auto`.
        is_number: Whether all its values are numbers.
    """

    column: str
    unit: TimeUnit
    is_number: bool = False

    def of(self, relation: Relation, translation: Translation) -> Relation:
        """A table with its times beside its own columns.

        Raises:
            SpecError: If the database's texts cannot be read as times here.
        """
        reader = _reader(translation, self.column)
        column = identifier(self.column)
        number = f"cast({column if self.is_number else LOGGED} as double)"
        factor = indent(_factor(number, self.unit), "    ").lstrip()
        micros = f"cast(floor({number} * {factor} + 0.5e0) as bigint)"
        view = {
            "text": translation.expression(reader.text, column),
            "is_number": "" if self.is_number else translation.expression(reader.is_number, LOGGED),
            "of_number": micros,
            "of_text": ""
            if self.is_number
            else f"else {translation.expression(reader.micros, LOGGED)}",
            "logged": LOGGED,
            "micros": MICROS,
            "relation": relation,
        }
        return Relation("made", print_template("clicks/timed", view))


def reading(
    column: str | None, kind: str | None, unit: TimeUnit | None, translation: Translation
) -> Reading | None:
    """How a column is read; None if it has times already, or there is none.

    Args:
        column: Its name.
        kind: Its type in DuckDB's words; None if it is not known.
        unit: What was said of its numbers.
        translation: The dialect: SQLite's types say nothing of the values.

    Raises:
        InputError: If it can have no times.
    """
    if column is None or (kind is None and unit is None):
        return None
    type_name = (kind or "").upper()
    if translation.dialect.casts_texts or not type_name or type_name.startswith(TEXTS):
        return Reading(column, unit or "auto")
    if type_name.startswith(TIMES):
        return None
    if type_name.startswith(NUMBERS):
        return Reading(column, unit or "auto", is_number=True)
    raise InputError(
        f"{column} is used as time but has the type {kind}; give timestamps, texts like "
        "2026-01-31T08:00:00+08:00, or numbers since 1970"
    )


def day(translation: Translation, micros: str, template: str) -> str:
    """The day of a time in microseconds."""
    return translation.expression(template.format(column=_reader(translation, "").moment), micros)


def local(translation: Translation, micros: str, zone: str) -> str:
    """What clocks in a zone show at a time, both in microseconds, as SQL.

    Raises:
        SpecError: If the database cannot tell.
    """
    return translation.expression(_in_zone(translation, zone).local.replace("{zone}", zone), micros)


def local_day(translation: Translation, micros: str, zone: str) -> str:
    """The day that it is in a zone at a time in microseconds, as SQL.

    Raises:
        SpecError: If the database cannot tell.
    """
    return translation.expression(
        _in_zone(translation, zone).local_day.replace("{zone}", zone), micros
    )


def _in_zone(translation: Translation, zone: str) -> Reader:
    reader = READERS.get(translation.dialect.name)
    if reader is not None and reader.local:
        return reader
    raise SpecError(
        f"clicks.time_zone: {translation.dialect.title} cannot tell the days of {zone} "
        "here; leave it out, "
        "and give times as clocks there show them, without a zone, by sql: select ..., or by a view"
    )


def _factor(number: str, unit: TimeUnit) -> str:
    """What a number is multiplied by; NULL if it is of no unit."""
    if unit != "auto":
        return FACTORS[unit]
    whens = [
        f"    when {number} >= {first} and {number} < {end} then {FACTORS[name]}"
        for name, (first, end) in RANGES.items()
    ]
    return "\n".join(["case", *whens, "end"])


def _reader(translation: Translation, column: str) -> Reader:
    if translation.dialect.name in READERS:
        return READERS[translation.dialect.name]
    raise SpecError(
        f"{translation.dialect.title}: texts and numbers are not read as times here; "
        f"give {column or 'time'}"
        " as a timestamp, by sql: select ..., or by a view"
    )
