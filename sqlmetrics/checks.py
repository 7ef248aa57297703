"""The input checks: never a wrong number in silence.

The rules on single rows share one scan of each table; a rule that needs groups is one
query of its own. All problems are told at once, with counts and example rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol

from sqlmetrics.errors import InputError, unknown
from sqlmetrics.grid import aligned, printable
from sqlmetrics.plan import Plan
from sqlmetrics.rules import RowCheck, group_checks, row_checks
from sqlmetrics.sql import print_template, source_text, with_stages
from sqlmetrics.template import identifier

EXAMPLES = 3


class Engine(Protocol):
    """What the checks need of an engine."""

    def columns(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""


def check(plan: Plan, engine: Engine) -> None:
    """Raise InputError if the input would give a wrong number.

    Args:
        plan: The plan of the evaluation.
        engine: Where they are.

    Raises:
        InputError: With every problem found: first missing columns, then bad rows, then
            bad groups of rows, since each kind can only be looked for without the former.
    """
    sources = {table: source_text(relation) for table, relation in plan.shape.tables.items()}
    look = _Look(plan, sources, engine)
    for kind in (look.missing_columns, look.merged_ids, look.bad_rows, look.bad_groups):
        problems = list(kind())
        if problems:
            raise InputError(problems)


@dataclass(frozen=True)
class _Look:
    """One look at the input; each method gives the problems of one kind."""

    plan: Plan
    sources: Mapping[str, str]
    engine: Engine

    def missing_columns(self) -> Iterator[str]:
        for table, source in self.sources.items():
            with self._reading(table):
                there = self.engine.columns(source)
                renamed = self._renamed(table, there)
            folded = {name.casefold() for name in there}
            wanted = dict(self.plan.shape.columns[table])
            if table == "rankings":
                wanted |= {f"by {name}": name for name in self.plan.spec.by}
            for role, name in wanted.items():
                if name.casefold() not in folded:
                    yield f"{table}: {unknown('column', name, there)} (wanted as {role})"
                elif name.casefold() in renamed:
                    yield f"{table}: there are two columns {name!r}, or they differ in case alone"

    def _renamed(self, table: str, there: Iterable[str]) -> set[str]:
        """The names for which DuckDB had to rename a second column to `<name>_1`."""
        relation = self.plan.shape.tables[table]
        if not relation.named:
            return set()
        view = {"place": relation.place}
        rows = self.engine.rows(print_template(f"inputs/{relation.template}_names", view))
        own = {cell for row in rows for cell in row}
        made = (re.fullmatch(r"(.+)_\d+", name) for name in there if name not in own)
        return {match[1].casefold() for match in made if match}

    @contextmanager
    def _reading(self, table: str) -> Iterator[None]:
        """Say which table cannot be read."""
        try:
            yield
        except InputError as error:
            place = self.plan.shape.tables[table].place
            raise InputError(f"{table}: {place!r} {error}") from None

    def merged_ids(self) -> Iterator[str]:
        """Columns whose collation takes different ids for equal."""
        for table, relation in self.plan.shape.tables.items():
            for role in ("query", "item") if relation.is_sql else ():
                column = self.plan.shape.columns[table][role]
                view = {"column": column, "source": self.sources[table]}
                rows = self.engine.rows(print_template("checks/collation", view))
                if rows:
                    title = f"{table}: the collation of {column} takes different ids for equal"
                    remedy = f'select {column} collate "binary" as {column} instead'
                    yield told(title, ("id", "equals"), rows, remedy)

    def bad_rows(self) -> Iterator[str]:
        for table, source in self.sources.items():
            rules = row_checks(self.plan, table)
            conditions = [self._condition(table, rule) for rule in rules]
            counted = [f"sum(case when {one} then 1 else 0 end)" for one in conditions]
            select = f"select {', '.join(['count(*)', *counted])} from {source}"
            with self._reading(table):
                total, *counts = self.engine.rows(select)[0]
            if not total:
                yield f"{table}: there is no row in it"
                continue
            for rule, condition, count in zip(rules, conditions, counts, strict=True):
                if count:
                    yield self._bad_row(table, rule, condition, count)

    def bad_groups(self) -> Iterator[str]:
        for rule in group_checks(self.plan):
            select = print_template(f"checks/{rule.template}", rule.view)
            rows = self.engine.rows(with_stages(self.plan.inputs, select))
            if rows:
                title = f"{rule.table}: {rule.problem}: {rows[0][0]:,}"
                yield told(title, rule.names, [row[1:] for row in rows], rule.remedy)

    def _condition(self, table: str, rule: RowCheck) -> str:
        column = identifier(self.plan.shape.columns[table][rule.role])
        return rule.condition.format(
            column=column,
            number=f"try_cast({column} as double)",
            date=f"try_cast({column} as date)",
        )

    def _bad_row(self, table: str, rule: RowCheck, condition: str, count: int) -> str:
        columns = self.plan.shape.columns[table]
        shown = ", ".join(identifier(name) for name in columns.values())
        select = f"select {shown} from {self.sources[table]} where {condition} limit {EXAMPLES}"
        title = f"{table}: {columns[rule.role]} {rule.problem} in {_many(count, 'row')}"
        return told(title, tuple(columns.values()), self.engine.rows(select), rule.remedy)


def told(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]], remedy: str) -> str:
    """A problem as people read it: what, some rows, what to do."""
    table = aligned(names, [[printable(value, 24) for value in row] for row in rows])
    return "\n".join([title, indent(table, "  "), f"  -> {remedy}"])


def check_kept(plan: Plan, kept: str, engine: Engine) -> None:
    """Raise InputError for what only shows once queries and labels are put together.

    Args:
        plan: The plan of the evaluation.
        kept: The table that holds `per_query`.
        engine: Where it is.

    Raises:
        InputError: If a query is missing though missing=error, or has no weight.
    """
    unranked = f"from {kept} where is_ranked = 0"
    if plan.spec.options["missing"] == "error":
        _refuse(plan, engine, unranked, "without a ranking", "choose missing=zero or missing=drop")
    if "weight" in plan.shape.columns["rankings"]:
        nowhere = f"{unranked} and weight is null"
        remedy = "its weight is unknown: choose missing=drop, or rank it in some system"
        if plan.spec.options["missing"] != "drop":
            _refuse(plan, engine, nowhere, "in no ranking", remedy)


def _refuse(plan: Plan, engine: Engine, rows: str, problem: str, remedy: str) -> None:
    keys = ", ".join(plan.shape.keys)
    count = engine.rows(f"select count(*) {rows}")[0][0]
    if count:
        examples = engine.rows(f"select {keys} {rows} order by {keys} limit {EXAMPLES}")
        title = f"labels: labelled queries {problem}: {count:,}"
        raise InputError(told(title, plan.shape.keys, examples, remedy))


def notes(kept: str, engine: Engine) -> list[str]:
    """Sentences about the input that are no errors, but that a reader should know."""
    unranked, total = engine.rows(f"select coalesce(sum(1 - is_ranked), 0), count(*) from {kept}")[
        0
    ]
    if unranked * 2 > total:
        return [f"{unranked:,} of {total:,} labelled queries have no ranking"]
    return []


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
