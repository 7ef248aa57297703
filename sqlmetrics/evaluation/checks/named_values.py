"""Whether the values that a spec names are in its data; what is not there is told by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, did_you_mean, nearest
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.named_values import SYSTEM, NamedValue, named_in
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import printable

NAMED_VALUES = 8
"""As many values are told."""

FEW = 1_000
"""In fewer rows a value may be missing by chance, unless it is spelled almost as another one."""

Counts = Mapping[str, Mapping[str, int]]
"""Role -> value -> how many rows have it, the most first."""


@dataclass
class Absent:
    """What no row has.

    Attributes:
        problems: Values without which a number would silently be another one.
        notes: Sentences about the others.
    """

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def counted(columns: Mapping[str, str], source: str, engine: Database) -> Counts:
    """The values of some columns with few of them, in one pass over a table.

    Args:
        columns: Role -> the column, as SQL.
        source: The table, as it stands behind FROM.
        engine: Where it is.
    """
    values = [
        f"cast({column} as varchar) as value_{n}" for n, column in enumerate(columns.values())
    ]
    keys = [f"value_{n}" for n in range(len(values))]
    rows = engine.rows(
        f"select {', '.join(keys)}, count(*) as n_rows\n"
        f"from (select {', '.join(values)} from {source}) as named\n"
        f"group by {', '.join(keys)}"
    )
    counts: dict[str, dict[str, int]] = {}
    for position, role in enumerate(columns):
        totals: dict[str, int] = {}
        for row in rows:
            if row[position] is not None:
                totals[str(row[position])] = totals.get(str(row[position]), 0) + int(row[-1])
        most_first = sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))
        counts[role] = dict(most_first)
    return counts


def absent(table: str, names: Iterable[NamedValue], counts: Counts) -> Absent:
    """What is named and no row has; nothing where there is no value at all yet.

    Args:
        table: The table, for the messages.
        names: What is named.
        counts: What is there, by role.
    """
    absences = Absent()
    for name in dict.fromkeys(names):
        values = counts.get(name.role, {})
        if not values or name.value in values:
            continue
        total = sum(values.values())
        message = (
            f"{name.spec_key} names the {name.role} {name.value!r}, which no row "
            f"has{did_you_mean(name.value, values) or ';'} {describe_counts(values)}"
        )
        if name.decides and (total >= FEW or nearest(name.value, values) is not None):
            remedy = "write it as in the data, or leave it out of the spec"
            absences.problems.append(Problem(table, message, total, remedy=remedy))
        else:
            absences.notes.append(f"{table}: {message}")
    return absences


def unknown_values(plan: Plan, engine: Database, *, only_notes: bool = False) -> tuple[str, ...]:
    """Notes of the values that a spec names and the rankings and queries lack on all days.

    Of a click log they were looked for in the log itself.

    Args:
        plan: The plan of the evaluation.
        engine: Where the tables are.
        only_notes: Whether values that decide a number are not looked for, since `check` has.

    Raises:
        InputError: If a value that decides a number is nowhere.
    """
    spec, shape = plan.spec, plan.unfused.shape
    fused = {system.name for system in spec.rankings.fuse}
    names = [
        name
        for name in named_in(spec)
        if not (only_notes and name.decides) and not (name.role == SYSTEM and name.value in fused)
    ]
    absences = Absent()
    for table in ("rankings", "queries") if spec.clicks is None else ():
        sql_by_role = {
            name: shape.made_of.value(name, engine.translation)
            for name in shape.segments.get(table, ())
        }
        if table == "rankings" and "system" in shape.columns[table]:
            sql_by_role[SYSTEM] = identifier(shape.columns[table]["system"])
        columns = {
            role: sql_by_role[role]
            for role in sql_by_role
            if any(name.role == role for name in names)
        }
        if not columns:
            continue
        of_days = source_text(shape.tables[table], shape.where[table])
        named_values = [name for name in names if name.role in columns]
        counts = counted(columns, of_days, engine)
        if any(name.value not in counts[name.role] for name in named_values):
            of_all_days = source_text(
                shape.tables[table].of_all_files, shape.source_condition(table)
            )
            counts = counted(columns, of_all_days, engine)
        lacks = absent(table, named_values, counts)
        absences.problems += lacks.problems
        absences.notes += lacks.notes
    if absences.problems:
        raise InputError(absences.problems)
    return tuple(absences.notes)


def describe_counts(counts: Mapping[str, int]) -> str:
    """Values with how many rows have them, as a sentence."""
    examples = [f"{printable(value)} ({n:,})" for value, n in list(counts.items())[:NAMED_VALUES]]
    n_hidden = len(counts) - NAMED_VALUES
    return f"there are {', '.join(examples)}" + (f" and {n_hidden:,} more" if n_hidden > 0 else "")
