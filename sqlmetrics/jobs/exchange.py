"""New rows in the place of old ones: the same steps, carried out or printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.jobs.archive import Archive
from sqlmetrics.jobs.changes import changes
from sqlmetrics.jobs.definitions import check_daily, check_definitions
from sqlmetrics.jobs.losses import check_losses, note_of_removed
from sqlmetrics.jobs.partitions import replace_by_day, replaced_where, will_commit
from sqlmetrics.jobs.schema import (
    COUNTED,
    PER_QUERY,
    TABLES,
    Columns,
    archives,
    columns_of,
    targets,
)
from sqlmetrics.jobs.views import Wide, make_views, view_names, view_statements
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import EXCHANGE, MERGE, OVERWRITE, TRANSACTION
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import finished, identifier, lines, literal, relation
from sqlmetrics.sql.translation import Translation

# What stays of the days that a run replaces: rows and columns of metrics that it does not compute.
#
# A metric that a spec asks for no more keeps its history, and one that is new brings only its own.

KEPT = "sqlmetrics_kept_"
"""What the tables are called that hold such rows while a run replaces the others."""


@contextmanager
def with_kept(job: Exchange, engine: Database) -> Iterator[Mapping[str, TableRows]]:
    """The new rows of a job together with what stays beside them of the same days.

    Args:
        job: What is replaced.
        engine: Where its tables are.

    Yields:
        Table -> its new rows, while the tables are there that hold what stays.
    """
    rows, steps = dict(job.rows), list[Step]()
    for table, new in job.rows.items():
        if not new.replaces:
            continue
        if table == "per_query":
            rows[table] = replace(new, replaces="")
            kept_columns = _kept_columns(job, new, engine)
            replacement = _beside(job, new, kept_columns) if kept_columns else None
        else:
            of_table = replace(job, ends=new.ends or job.ends)
            replacement = _among(of_table, table, new, engine) if job.at.dialect.by_day else None
        if replacement is not None:
            step, rows[table] = replacement
            steps.append(step)
    with keeping(engine, steps):
        yield rows


def _kept_columns(job: Exchange, new: TableRows, engine: Database) -> list[str]:
    """The columns of the per-query table that hold something and are not computed."""
    name = targets(job.spec)["per_query"]
    computed = {column.casefold() for column in new.columns}
    other_columns = [
        column for column in columns_of(name, engine) if column.casefold() not in computed
    ]
    if not other_columns:
        return []
    counts = lines(
        f"count({identifier(column)}) as n_{n}" for n, column in enumerate(other_columns)
    )
    where = " and ".join(job.of("metric_date"))
    (row,) = engine.rows(f"select\n    {counts}\nfrom {relation(name)}\nwhere {where}")
    return [column for column, n in zip(other_columns, row, strict=True) if n]


def _beside(job: Exchange, new: TableRows, kept_columns: Sequence[str]) -> tuple[Step, TableRows]:
    """New rows of the per-query table with columns that the old ones have."""
    name, columns = f"{KEPT}per_query", (*new.columns, *kept_columns)
    view = {
        "kept": name,
        "rows": new.select,
        "keys": [f"kept.{key} = fresh.{key}" for key in PER_QUERY],
        "new_columns": [
            f"{'kept' if column in kept_columns else 'fresh'}.{identifier(column)}"
            for column in columns
        ],
        "old_columns": [
            f"kept.{identifier(column)}"
            if column in kept_columns or column in PER_QUERY
            else Column("cast(null as double)", identifier(column))
            for column in columns
        ],
    }
    select = print_template("jobs/kept_columns", view)
    old = _old(job, "per_query", (*PER_QUERY, *kept_columns), [])
    return Step(name, old), replace(new, columns=columns, select=select, replaces="")


def _among(
    job: Exchange, table: str, new: TableRows, engine: Database
) -> tuple[Step, TableRows] | None:
    """New rows with old ones of other metrics, where whole days are replaced; None without such."""
    kinds = engine.columns(relation(targets(job.spec)[table]))
    columns = (*new.columns, *(column for column in kinds if column not in new.columns))
    kept_conditions = [f"not ({new.replaces})"]
    old = _old(job, table, columns, kept_conditions)
    if not engine.rows(f"select count(*) as n from (\n{old}\n) as kept")[0][0]:
        return None
    name = f"{KEPT}{table}"
    view = {
        "kept": name,
        "rows": new.select,
        "new_columns": [
            f"fresh.{identifier(column)}"
            if column in new.columns
            else Column(f"cast(null as {kinds[column]})", identifier(column))
            for column in columns
        ],
        "old_columns": [f"kept.{identifier(column)}" for column in columns],
    }
    select = print_template("jobs/kept_rows", view)
    return Step(name, old), replace(new, columns=columns, select=select, replaces="")


def _old(job: Exchange, table: str, columns: Sequence[str], extra_conditions: Sequence[str]) -> str:
    """The query of the rows of the days that are there."""
    where = "\n    and ".join([*job.of("metric_date"), *extra_conditions])
    source = relation(targets(job.spec)[table])
    return f"select\n    {lines(map(identifier, columns))}\nfrom {source}\nwhere\n    {where}"


ALL_DAYS = Ends(None, None)


@dataclass(frozen=True)
class TableRows:
    """New rows of a table.

    Attributes:
        columns: The table's columns, in the query's order.
        select: The query, in DuckDB's words.
        are_added: Whether no old row of the days goes.
        instead_of: What old rows meet that go in any case, where the dialect deletes rows.
        replaces: What those rows of the days meet that go; empty for all of them.
        ends: Of the days whose rows go; None for those of the exchange.
    """

    columns: Sequence[str]
    select: str
    are_added: bool = False
    instead_of: str = ""
    replaces: str = ""
    ends: Ends | None = None


@dataclass(frozen=True)
class Exchanged:
    """What an exchange did.

    Attributes:
        rows: Table -> the rows that now stand for these days.
        notes: What should be known of the tables.
        lost_days: So many days of those that were looked at lost numbers for good.
    """

    rows: dict[str, int]
    notes: list[str]
    lost_days: int = 0


@dataclass(frozen=True)
class Exchange:
    """Rows of a spec's tables and some days, replaced.

    Attributes:
        spec: What was asked.
        at: The dialect.
        rows: Table -> its new rows.
        ends: Of the days; none for all that the spec has.
        key: Part of the name of what is made on the way.
        columns: Table -> columns that it shall have beside those of the spec.
        views: What the wide view gets beside what it has.
        allowed_loss: Of so many days numbers may go that nothing replaces; None if days are
            named, and nobody looks.
        option: What was asked for where somebody looks.
        run: The run as two SQL texts, its id and when it began; None if no run keeps what is
            replaced.
        forgets: Whether rows go that the archives have kept for long enough.
    """

    spec: Spec
    at: Translation
    rows: Mapping[str, TableRows]
    ends: Ends = ALL_DAYS
    key: str = "new"
    columns: Mapping[str, Columns] = field(default_factory=dict)
    views: Wide | None = None
    allowed_loss: int | None = None
    option: str = "--full-refresh"
    run: tuple[str, str] | None = None
    forgets: bool = False

    def carry_out(
        self,
        engine: Database,
        log: Callable[[Mapping[str, int], Sequence[str]], str] | None = None,
        check: Callable[[], None] | None = None,
        end: Sequence[str] | None = None,
    ) -> Exchanged:
        """Replace the rows, all in one transaction where there are any, as the only writer.

        Args:
            engine: Where the tables are; they are made if they are not there.
            log: The statement that adds to the run log, of what this returns and the rows that
                the archives got.
            check: What is looked at first, as the only writer; by default definitions and losses.
            end: What is done in the end, as statements; by default the spec's views are made.

        Raises:
            SpecError: If the table holds other days by another definition of a metric, or would
                lose more than is allowed.
            EngineError: If a table or a view cannot be written.
        """
        is_undone = self.at.dialect.undoes_views
        is_by_day = bool(self.at.dialect.by_day)
        by_day = {table for table, rows in self.rows.items() if is_by_day and not rows.are_added}
        with (
            engine.keeping_rows(),
            alone(self.spec, engine) as killed,
            engine.reading(anew=True),
        ):
            name_by_table = (targets(self.spec), archives(self.spec) if self.run else {})
            engine.look_up(
                [
                    *(name for names in name_by_table for name in names.values()),
                    *view_names(self.spec),
                ]
            )
            notes = killed + changes(self.spec, engine, self.columns).carry_out(engine)
            archive = self.run and Archive.opened(self.spec, engine, *self.run)
            views = [] if end is not None else self._views(engine)
            with with_kept(self, engine) as rows, engine.transaction():
                job, lost_days = replace(self, rows=rows), 0
                if check:
                    check()
                else:
                    of_losses, lost_days = self._checked(engine)
                    notes = [*notes, *of_losses]
                for statement in job.keeping(archive) if archive else ():
                    engine.execute(statement)
                if archive and self.allowed_loss is None and not check:
                    notes += filter(None, [note_of_removed(self, archive, engine)])
                # the fact table last: days of a run that fails before it are still open
                for table in sorted(by_day, key=lambda table: (table == "facts", table)):
                    of_table = replace(job, ends=job.rows[table].ends or job.ends)
                    replace_by_day(of_table, table, engine)
                for statement in job.statements(set(self.rows) - by_day):
                    engine.driver.check_alone()
                    engine.execute(statement)
                counts = self._counts(engine)
                self._forget(archive)
                if log:
                    n_archived = archive.count() if archive else None
                    engine.execute(
                        log(
                            counts | ({} if n_archived is None else {"archived": n_archived}), notes
                        )
                    )
                make_views(self.spec, engine, views if is_undone else ())
                for statement in end or ():
                    engine.execute(statement)
            make_views(self.spec, engine, () if is_undone else views)
        return Exchanged(counts, notes, lost_days)

    def _checked(self, engine: Database) -> tuple[list[str], int]:
        """Look at definitions and losses; what should be known of them, and the days that lose."""
        check_definitions(self.spec, self.ends, engine)
        check_daily(self.spec, self.ends, engine)
        if self.allowed_loss is None:
            return [], 0
        note, lost_days = check_losses(self, engine, self.allowed_loss, self.option)
        return [note] if note else [], lost_days

    def _views(self, engine: Database) -> list[str]:
        """The statements that make the views, where the catalog has any."""
        statements = view_statements(self.spec, engine, self.views)
        if statements:
            engine.driver.check_views(targets(self.spec)["facts"])
        return statements

    def _forget(self, archive: Archive | None) -> None:
        if archive and self.forgets:
            archive.forget()

    def keeping(self, archive: Archive) -> Iterator[str]:
        """The statements that put the rows of the days into the archives, also those that stay.

        So the days can be put back whole, whichever of them and of their rows were replaced. Of a
        table with days of its own only rows that go are kept, since others may change those that
        stay.
        """
        for table in archive.columns:
            if table in self.rows:
                rows = self.rows[table]
                replaced_conditions = [*self.ends.of("metric_date"), *filter(None, [rows.replaces])]
                archived_condition = (
                    self._replaced(rows) if rows.ends else self._conditions_of_all_days
                )
                archived_rows = archive.rows(
                    table, archived_condition, replaced_conditions, rows.select
                )
                yield insert(self.at, archive.names[table], TableRows(*archived_rows))

    def has_old_rows(self, engine: Database) -> bool:
        """Whether the fact table has rows of the days, which a run would keep."""
        name = targets(self.spec)["facts"]
        if not columns_of(name, engine):
            return False
        return int(engine.rows(f"select {self.count('facts')} as n")[0][0]) > 0

    @property
    def _conditions_of_all_days(self) -> list[str]:
        """What rows of the days meet, also of those in between that stay."""
        return replace(self, ends=replace(self.ends, only=())).of("metric_date")

    def printed(self, log: str) -> Iterator[str]:
        """The statements that do the same for whoever executes them, with that of the run log."""
        if self.at.dialect.writing.replace == OVERWRITE:
            yield self.at.dialect.writing.begin
            for table, rows in self.rows.items():
                if rows.are_added:
                    yield insert(self.at, targets(self.spec)[table], rows)
                    continue
                yield self._overwritten(table, rows)
            yield log
            return
        yield from together(self.spec, self.at, [*self.statements(set(self.rows)), log])

    def _overwritten(self, table: str, rows: TableRows) -> str:
        into = f"insert overwrite table {self._name(table)} by name"
        return f"{into}\n{self.at.text(finished(rows.select)).rstrip()}"

    def preview(self, engine: Database) -> Iterator[str]:
        """The statements as a run would send them, or of what it asks on the way the sense."""
        if self.at.dialect.writing.replace != OVERWRITE:
            yield from self.statements(set(self.rows))
            return
        name_by_table = targets(self.spec)
        for table, rows in self.rows.items():
            if rows.are_added:
                yield insert(self.at, name_by_table[table], rows)
            elif will_commit(name_by_table[table], engine):
                yield replaced_where(self, name_by_table[table], rows, engine)
            else:
                yield self._overwritten(table, rows)

    def statements(self, tables: Set[str]) -> Iterator[str]:
        """Delete and insert, one after the other of these tables; or both at once.

        Where each table changes by itself the fact table is the last one: days of a run that
        failed before it are still open.
        """
        writing = self.at.dialect.writing
        in_order = sorted(
            self.rows, key=lambda table: writing.replace == MERGE and table == "facts"
        )
        for table in in_order:
            rows = self.rows[table]
            if table in tables:
                conditions = [] if rows.are_added else self._replaced(rows)
                if conditions and writing.replace == MERGE:
                    yield self._merged(table, rows, conditions)
                    continue
                if rows.instead_of and writing.replace in (TRANSACTION, MERGE):
                    conditions = [rows.instead_of]
                if conditions:
                    where = self._where(conditions)
                    yield finished(f"delete from {self._name(table)}\nwhere\n    {where}")
                yield insert(self.at, targets(self.spec)[table], rows)

    def _replaced(self, rows: TableRows) -> list[str]:
        """What old rows of a table meet that go."""
        days = replace(self, ends=rows.ends or self.ends).of("metric_date")
        return [*days, *filter(None, [rows.replaces])]

    def _where(self, conditions: Sequence[str]) -> str:
        """Conditions in the dialect, to stand at an indent of 4."""
        return "\n    and ".join(map(self.at.value, conditions))

    def _merged(self, table: str, rows: TableRows, conditions: Sequence[str]) -> str:
        """The statement that takes the rows that meet conditions away, and adds the new ones.

        Rows that go are its source as well, by their keys, since what is matched alone can go.
        """
        keys, column = TABLES[table].key, self.at.column
        names = [column(name) for name in rows.columns]
        going = [column(name) if name in keys else "null" for name in rows.columns]
        view = {
            "table": self._name(table),
            "columns": names,
            "values": [f"changes.{name}" for name in names],
            "matches": [
                "changes.goes = 1",
                *(f"stored.{column(key)} = changes.{column(key)}" for key in keys),
            ],
            "going": going,
            "where": self._where(conditions),
            "select": self.at.text(finished(rows.select)).rstrip(),
        }
        return print_template("jobs/merged", view)

    def of(self, day: str) -> list[str]:
        """What rows meet that are replaced."""
        return [f"spec = {literal(self.spec.title)}", *self.ends.of(day)]

    def count(self, table: str) -> str:
        """How many rows of a table stand for these days, as SQL between parentheses."""
        where = "\n            and ".join(self._conditions_of_all_days)
        source = relation(targets(self.spec)[table])
        return (
            f"(\n        select count(*)\n        from {source}\n"
            f"        where\n            {where}\n    )"
        )

    def _counts(self, engine: Database) -> dict[str, int]:
        tables = [table for table in COUNTED if table in self.rows]
        counts = ",\n    ".join(f"{self.count(table)} as n_{table}" for table in tables)
        rows = engine.rows(f"select\n    {counts}") if tables else [()]
        return {table: int(count) for table, count in zip(tables, rows[0], strict=True)}

    def _name(self, table: str) -> str:
        return self.at.name(targets(self.spec)[table])


@contextmanager
def alone(spec: Spec, engine: Database) -> Iterator[list[str]]:
    """As the only one that writes a spec's tables, with what is to be said of one that died.

    Two runs that add to one table of files lose each other's on Spark, so a run log that other
    tables share has a lock of its own there.
    """
    name_by_table = targets(spec)
    names = [name_by_table["facts"]]
    if engine.translation.dialect.writing.replace == OVERWRITE:
        names.append(name_by_table["runs"])
    with ExitStack() as locks:
        deaths = [locks.enter_context(engine.alone(name)) for name in names]
        engine.driver.refresh(name_by_table.values())
        yield list(filter(None, deaths))


@contextmanager
def adding(spec: Spec, engine: Database) -> Iterator[None]:
    """While a row is added to the run log: alone, where two that add lose each other's files."""
    with ExitStack() as locks:
        if engine.translation.dialect.writing.replace == OVERWRITE:
            locks.enter_context(engine.alone(targets(spec)["runs"]))
        engine.driver.refresh([targets(spec)["runs"]])
        yield


def insert(translation: Translation, table: str, rows: TableRows) -> str:
    """The statement that adds rows to a table."""
    names = ",\n    ".join(map(translation.column, rows.columns))
    head = f"insert into {translation.name(table)} (\n    {names}\n)\n"
    return head + translation.text(finished(rows.select)).rstrip()


def together(spec: Spec, translation: Translation, statements: Sequence[str]) -> list[str]:
    """Statements as one transaction, where there are any, and as the only writer."""
    writing = translation.dialect.writing
    if writing.replace == EXCHANGE or not writing.begin:
        return list(statements)
    facts = targets(spec)["facts"]
    key = writing.lock_key(
        facts, translation.name(facts), lambda text: translation.value(literal(text))
    )
    lock = [writing.lock.format(key=key)] if writing.lock else []
    return [writing.begin, *lock, *statements, writing.commit]
