"""`--into`: the table that a ranking or labels are written to, whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.jobs.history.removal import is_view, may_be_same
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.dialect import OVERWRITE, TRANSACTION
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.template import parts, relation
from sqlmetrics.sql.user_sql import names_in


@dataclass(frozen=True)
class WrittenTable:
    """A table of a database that the rows of a query are written to.

    Attributes:
        engine: The database.
        name: The table's dotted name.
        columns: The columns of the rows.
        select: The query, in DuckDB's words.
        overwrite: Whether rows of a table that is there are replaced.
        number: The column that has decimals.
        days: The days whose rows these are; None for all.
    """

    engine: Database
    name: str
    columns: Sequence[str]
    select: str
    overwrite: bool
    number: str
    days: Days | None = None

    def check(self) -> None:
        """Raise SpecError if it may not be written: it loses nothing of another kind."""
        if not isinstance(self.name, str) or not parts(self.name):
            given_name = shortened(repr(self.name))
            raise SpecError(f"into must be the name of a table, given {given_name}")
        engine, name = self.engine, shortened(self.name)
        if not engine.translation.dialect.writing.by_run:
            writers = [dialect.title for dialect in DIALECTS.values() if dialect.writing.by_run]
            raise SpecError(
                f"into {name}: {engine.name} is not written to; a table is made on "
                f"{', '.join(writers)}; or run the query yourself (--sql)"
            )
        if engine.find(self.name) is None:
            return
        read_names = names_in(engine.translation.text(self.select)) or []
        if any(may_be_same(engine, self.name, read_name) for read_name in read_names):
            raise SpecError(f"into {name}: this table is one of the inputs; give another name")
        self._check_columns()
        if not self.overwrite:
            raise SpecError(
                f"into {name}: this table exists; replace its rows (overwrite=True, --overwrite), "
                "or give another name"
            )
        if self._condition and engine.translation.dialect.writing.replace != TRANSACTION:
            raise SpecError(
                f"into {name}: {engine.name} replaces all days of a table at once; leave out the "
                "first and the last day, or give another name"
            )

    def _check_columns(self) -> None:
        """Raise SpecError if what is there is no table that can hold the rows."""
        engine, name = self.engine, shortened(self.name)
        kinds = {
            column.casefold(): kind for column, kind in engine.columns(relation(self.name)).items()
        }
        if is_view(engine, self.name) or kinds.keys() != {*self.columns}:
            kind = "a view" if is_view(engine, self.name) else "a table of other columns"
            raise SpecError(
                f"into {name}: {kind} has this name already, and is not replaced; give another name"
            )
        # SQLite says nothing of a column of a query, and cuts none
        kind = kinds[self.number]
        if kind and not re.search("DOUBLE|FLOAT|REAL", kind.upper()):
            raise SpecError(
                f"into {name}: its column {self.number} is {kind}, and {self.number}s have "
                "decimals; make it DOUBLE, or give another name"
            )

    @property
    def _condition(self) -> str:
        """What rows meet that are replaced, in the dialect; empty for all of them."""
        if self.days is None or "metric_date" not in self.columns:
            return ""
        conditions = self.days.ends.of("metric_date")
        return "\n    and ".join(map(self.engine.translation.value, conditions))

    def write(self) -> int:
        """Write the table; how many rows were written.

        Raises:
            EngineError: If it cannot be written; it is then as it was.
        """
        make, *change = self._statements()
        if change:
            kept = self._kept
            with kept.created_in(self.engine):
                n_rows = self.engine.count(kept.name)
                self.engine.execute_together(change)
            return n_rows
        self.engine.execute(make)
        return self.engine.count(relation(self.name))

    def text(self) -> str:
        """The statements that write it, in the words of the database."""
        make, *change = self._statements()
        writing, translation = self.engine.translation.dialect.writing, self.engine.translation
        ends = (
            [writing.begin, *change, writing.commit, self._kept.drop(translation)] if change else []
        )
        return "\n\n".join(f"{text.rstrip()};" for text in (make, *ends)) + "\n"

    @property
    def _kept(self) -> Step:
        """The rows, which are computed before those of the table go: it may be read by a view."""
        return Step(self.engine.free_name("sqlmetrics_rows"), self.select)

    def _statements(self) -> Iterator[str]:
        """The one that makes the table; or that keeps the rows, and those that replace the old."""
        translation = self.engine.translation
        name, dialect = translation.name(self.name), translation.dialect
        replace, query = dialect.writing.replace, translation.text(self.select)
        is_there = self.engine.find(self.name) is not None
        if is_there and replace == OVERWRITE:
            yield f"insert overwrite table {name} by name\n{query}"
        elif is_there and replace == TRANSACTION:
            columns = ", ".join(map(translation.column, self.columns))
            yield self._kept.create(translation)
            where = f"\nwhere\n    {self._condition}" if self._condition else ""
            yield f"delete from {name}{where}"
            yield (f"insert into {name} ({columns})\nselect {columns}\nfrom {self._kept.name}")
        else:
            create = "create or replace table" if is_there else "create table"
            storage = self.engine.driver.stored(dialect.storage)
            clause = f"{storage}\n" if storage else ""
            yield f"{create} {name}\n{clause}as\n{query}"
