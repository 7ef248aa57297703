"""One quick pass over a table, by itself or along with an evaluation, before any look closely.

It says if there is anything to look for: a row that breaks a rule, an item that may be twice in
its list, ranks that may have gaps. Only DuckDB has what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks.rules import RowCheck, row_checks
from sqlmetrics.evaluation.checks.scores import rounded
from sqlmetrics.evaluation.statistics import parts
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.ranking import clues, hash_parts, hashed
from sqlmetrics.plan.tables import Bucket
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import identifier, literal

BYTES = 24
"""What a row takes while its list is looked through."""

INTEGERS = ("BIGINT", "INTEGER")
"""Types of whole numbers."""

TYPES = dict.fromkeys(("DOUBLE", "FLOAT", "BIGINT", "INTEGER"), "number") | {"DATE": "date"}
"""Types of columns -> what their values are."""

MANY = 1000
"""With more lists than this, an exact look takes all."""


@dataclass(frozen=True)
class Prescan:
    """What one quick pass over a table says.

    Attributes:
        rows: How many rows there are.
        bad: How many meet a condition that no row may meet.
        gaps: How many lists may not be ranked 1, 2, ... n: all that are not, and those of
            more than `clues.LONGEST` items.
        far: How many have a score that a DOUBLE may have rounded.
        alike: The lists in which two items have the same 32 bits of hash: all that have an
            item twice, and one in four billion pairs that are not equal.
    """

    rows: int = 0
    bad: int = 0
    gaps: int = 0
    far: int = 0
    alike: tuple[tuple[str, ...], ...] = ()

    def __add__(self, other: Prescan) -> Prescan:
        return Prescan(
            self.rows + other.rows,
            self.bad + other.bad,
            self.gaps + other.gaps,
            self.far + other.far,
            self.alike + other.alike,
        )

    @property
    def among(self) -> list[str]:
        """The lists to look at for an item that is there twice; none if all have to be."""
        lists = [keys for keys in self.alike if None not in keys]  # others have no query
        chosen = lists if len(lists) <= MANY else []
        return [f"[{', '.join(map(literal, keys))}]" for keys in chosen]


CLEAR = Prescan(rows=1)


def is_possible(plan: Plan, table: str) -> bool:
    """Whether a table can be looked through in one pass: where duplicates are refused."""
    refuses = plan.spec.options.get(f"duplicate_{table}") == "error"
    at = plan.shape.at
    return refuses and not at.translation.changes and at.unfused is None


def suspects(plan: Plan, engine: Database) -> str:
    """What rows of the rankings meet that break a rule, where a plan may come upon them.

    Empty where it may not: its statement would fail, and with it a transaction of the user,
    where a column is not there or a value has to be read as another type.
    """
    kind_by_role: dict[str, str] = {}
    with suppress(InputError):  # that they cannot be read the checks will tell
        kind_by_role = _types(plan, engine, "rankings")
    columns = plan.shape.columns["rankings"]
    if not is_possible(plan, "rankings") or not kind_by_role.keys() >= columns.keys():
        return ""
    rules = row_checks(plan, "rankings")
    casts = any(rule.wanted and not _is_kept(rule, kind_by_role) for rule in rules)
    narrows = "score" in kind_by_role and plan.spec.options["score_precision"] != "double"
    if casts or narrows or kind_by_role.get("rank", INTEGERS[0]) not in INTEGERS:
        return ""
    return _bad(plan, "rankings", kind_by_role)


def _types(plan: Plan, engine: Database, table: str) -> dict[str, str]:
    """Role -> the type of its column, for those that are there."""
    shape = plan.shape
    columns = engine.columns(source_text(shape.tables[table], shape.where[table]))
    kind_by_column = {name.casefold(): kind for name, kind in columns.items()}
    column_by_role = {role: name.casefold() for role, name in shape.columns[table].items()}
    return {
        role: kind_by_column[name]
        for role, name in column_by_role.items()
        if name in kind_by_column
    }


def _is_kept(rule: RowCheck, kind_by_role: Mapping[str, str]) -> bool:
    """Whether the type of a column keeps a rule by itself."""
    return rule.wanted != "" and rule.wanted == TYPES.get(kind_by_role[rule.role])


def _bad(plan: Plan, table: str, kind_by_role: Mapping[str, str]) -> str:
    """What rows of a table meet that break a rule which the type of a column does not keep."""
    columns = plan.shape.columns[table]
    rules = (rule for rule in row_checks(plan, table) if not _is_kept(rule, kind_by_role))
    return "\nor ".join(rule.text(columns[rule.role]) for rule in rules)


def screen(plan: Plan, engine: Database, table: str) -> Prescan:
    """Look through a table, in as many parts as fit into memory."""
    table_parts = parts(plan, engine, BYTES, table)
    types = _types(plan, engine, table)
    bad, far = _bad(plan, table, types), _far(plan, table, types)
    totals = (engine.rows(_text(plan, table, bad, far, part))[0] for part in table_parts)
    screens = (
        Prescan(rows, n_bad, n_gaps, n_far, tuple(map(tuple, alike or ())))
        for rows, n_bad, n_gaps, n_far, alike in totals
    )
    return sum(screens, Prescan())


def _far(plan: Plan, table: str, types: Mapping[str, str]) -> str:
    """The condition of a score that a DOUBLE may have rounded, empty if there is none."""
    name = plan.shape.columns[table].get("score")
    rounding = rounded(name, types.get("score", "")) if name else None
    return rounding.beyond if rounding else ""


def _text(plan: Plan, table: str, bad: str, far: str, bucket: Bucket) -> str:
    shape = plan.shape
    beyond = [Column(f"count(*) filter (where {far})", "n_far")] if far else []
    zoned = table in shape.at.zones
    view = {
        "keys": list(_keys(shape.columns[table], shape.day(table) if zoned else "")),
        "columns": [*_clues(shape.columns[table], bad, once=shape.holds_once), *beyond],
        "once": shape.holds_once,
        "hash_parts": hash_parts(),
        "far": bool(far),
        "source": source_text(shape.tables[table], bucket.of(table, shape.where[table])),
        "lists": "lists",
        "keyed": True,
        "ranked": "rank" in shape.columns[table],
    }
    return print_template("checks/screen", view)


def _day(column: str) -> str:
    return f"try_cast({identifier(column)} as date)"


def _keys(columns: dict[str, str], day: str) -> Iterator[str]:
    """What tells lists apart, as texts; the day of a time with a zone is given."""
    if "date" in columns:
        yield f"cast({day or _day(columns['date'])} as varchar)"
    for role in ("system", "query"):
        if role in columns:
            yield f"cast({identifier(columns[role])} as varchar)"


def _clues(columns: dict[str, str], bad: str, *, once: bool) -> Iterator[Column]:
    rank = f"try_cast({identifier(columns['rank'])} as bigint)" if "rank" in columns else ""
    return clues("" if once else hashed(identifier(columns["item"])), bad, rank)
