"""What a run replaces is kept beside its tables, so that it can be restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.jobs.changes import added, comments, create
from sqlmetrics.jobs.schema import TABLES, archives, columns_for, columns_of, targets
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import TRANSACTION
from sqlmetrics.sql.stage import equal, print_template
from sqlmetrics.sql.template import finished, literal, relation, variant
from sqlmetrics.sql.translation import Translation

# Rows that a run replaces or removes, kept beside its tables until they are too old.

RUNS = 10
"""Of so many runs the rows are kept if a spec does not say how long."""


def keeps(spec: Spec, translation: Translation) -> bool:
    """Whether a run keeps the rows that it replaces.

    Raises:
        SpecError: If the spec says how long, and the database cannot.
    """
    retention = spec.output.keep if spec.output else None
    if translation.dialect.writing.replace == TRANSACTION:
        return retention != "none"
    if retention not in (None, "none"):
        raise SpecError(
            f"output.keep: {retention}: {translation.dialect.title} has no transaction over "
            "several tables, so a run cannot keep the rows that it replaces; leave keep out, or "
            "set keep: none"
        )
    return False


@dataclass(frozen=True)
class Archive:
    """The archives of a spec's tables, as one run uses them.

    Attributes:
        spec: What is asked, with its `output`.
        engine: Where the tables are.
        run_id: An SQL text that names the run.
        now: An SQL time: when it began.
        columns: Table -> its columns, of the tables whose rows are kept.
        names: Table -> its archive, of the archives that are there.
    """

    spec: Spec
    engine: Database
    run_id: str
    now: str
    columns: Mapping[str, Sequence[str]]
    names: Mapping[str, str]

    @classmethod
    def opened(cls, spec: Spec, engine: Database, run_id: str, now: str) -> Archive:
        """The archives, which are made if they are not there; outside of a transaction.

        Raises:
            EngineError: If one cannot be made.
        """
        archive, lacking = cls.looked_at(spec, engine, run_id, now)
        engine.execute_all(lacking)
        return archive

    @classmethod
    def looked_at(
        cls, spec: Spec, engine: Database, run_id: str, now: str
    ) -> tuple[Archive, list[str]]:
        """The archives as a run has them, and the statements that make what they lack."""
        held, lacking, names = dict[str, list[str]](), list[str](), archives(spec)
        if keeps(spec, engine.translation):
            for table in names:
                held[table], statements = _lacking(spec, engine, table)
                lacking += statements
        else:
            names = {table: name for table, name in names.items() if columns_of(name, engine)}
        return cls(spec, engine, run_id, now, held, names), lacking

    def rows(
        self, table: str, where: Sequence[str], replaced_conditions: Sequence[str], new_rows: str
    ) -> tuple[Sequence[str], str]:
        """The columns, and the query in DuckDB's words, of what the archive of a table gains.

        Args:
            table: Which table.
            where: What its rows of the days meet, as SQL.
            replaced_conditions: What those of them meet that are replaced or removed.
            new_rows: The query of the rows that take their place.
        """
        names, is_facts = self.columns[table], table == "facts"
        view = {
            "columns": names,
            "run_id": self.run_id,
            "now": self.now,
            "table": targets(self.spec)[table],
            "where": where,
            "gone": [f"({condition})" for condition in replaced_conditions] or ["1 = 1"],
            "new_rows": finished(new_rows).rstrip() if is_facts else "",
            "on": equal("new_rows", "old_rows", tuple(TABLES["facts"].key)),
            "key": TABLES["facts"].key,
        }
        dialect = self.engine.translation.dialect
        template = variant("jobs/archived", dialect.name) if is_facts else "jobs/archived"
        return [*names, *TABLES[table].archived], print_template(template, view)

    def count(self) -> int | None:
        """How many rows the archives have of the run; None if they keep none."""
        counted = self.counted()
        return int(self.engine.rows(f"select {counted} as n")[0][0]) if counted else None

    def counted(self) -> str:
        """The same number as SQL; empty if they keep none."""
        where = f"spec = {literal(self.spec.title)} and replaced_by = {self.run_id}"
        counts = [
            f"(select count(*) from {relation(self.names[table])} where {where})"
            for table in self.columns
        ]
        return f"({' + '.join(counts)})" if counts else ""

    def forget(self) -> None:
        """Remove the rows that have been kept for as long as the spec says."""
        if "facts" in self.names:
            for statement in self._forgetting(adds=False):
                self.engine.execute(statement)

    def forgetting(self, *, adds: bool = False) -> Iterator[str]:
        """The statements that do so, of the rows as they are.

        Args:
            adds: Whether the run has yet to add rows of its own.
        """
        if "facts" in self.names and columns_of(self.names["facts"], self.engine):
            yield from self._forgetting(adds=adds)

    def _forgetting(self, *, adds: bool) -> Iterator[str]:
        own_spec = f"spec = {literal(self.spec.title)}"
        runs = self.engine.rows(
            f"select replaced_by, max(replaced_at) from {relation(self.names['facts'])}\n"
            f"where {own_spec}\ngroup by replaced_by"
        )
        times = {str(run): _moment(time) for run, time in runs}
        if adds:
            times[self.run_id.strip("'")] = datetime.now(UTC).replace(tzinfo=None)
        kept_runs = self._kept(times)
        if len(kept_runs) == len(times):
            return
        unless_kept = (
            f"\n    and replaced_by not in ({', '.join(map(literal, kept_runs))})"
            if kept_runs
            else ""
        )
        for name in self.names.values():
            yield f"delete from {self._name(name)}\nwhere\n    {own_spec}{unless_kept}"

    def _kept(self, runs: Mapping[str, datetime]) -> list[str]:
        """Those whose rows stay, of all that have any, with the time at which each began.

        Runs that took others back do not count, so that one can go back as far as was promised.
        """
        retention = self.spec.output.keep if self.spec.output else None
        if not self.columns:
            return []
        if isinstance(retention, str):
            oldest = datetime.now(UTC).replace(tzinfo=None) - timedelta(int(retention.split()[0]))
            return sorted(run for run, time in runs.items() if time >= oldest)
        in_order = sorted(runs, key=lambda run: (literal(run) == self.run_id, runs[run], run))
        log = targets(self.spec)["runs"]
        restoring = {
            run
            for (run,) in self.engine.rows(
                f"select run_id from {relation(log)}\nwhere spec = {literal(self.spec.title)} "
                "and restores is not null"
            )
        }
        counted = [run for run in in_order if run not in restoring][-(retention or RUNS) :]
        return sorted(in_order[in_order.index(counted[0]) :] if counted else in_order)

    def _name(self, name: str) -> str:
        return self.engine.translation.name(name)


def archived(spec: Spec, engine: Database, run_id: str) -> dict[str, int]:
    """Table -> the rows of it that the archives have of a run.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the archives are.
        run_id: An SQL text that names the run.
    """
    where = f"spec = {literal(spec.title)} and replaced_by = {run_id}"
    return {
        table: int(engine.rows(f"select count(*) from {relation(name)}\nwhere {where}")[0][0])
        for table, name in archives(spec).items()
    }


def _lacking(spec: Spec, engine: Database, table: str) -> tuple[list[str], list[str]]:
    """The columns that a run's table has, and the statements that give its archive each of them."""
    translation, name, schema = engine.translation, archives(spec)[table], TABLES[table]
    kinds = _columns(targets(spec)[table], engine)
    spec_columns = columns_for(spec)[table]
    table_columns = {
        column: spec_columns.get(column) or schema.column(column, kind.lower())
        for column, kind in kinds.items()
    }
    existing = {column.casefold() for column in kinds}
    table_columns |= {
        name: column for name, column in spec_columns.items() if name.casefold() not in existing
    }
    has = {column.casefold() for column in columns_of(name, engine)}
    archive_columns = {**table_columns, **schema.archived}
    lacks = [column for column in archive_columns.values() if column.name.casefold() not in has]
    if not has:
        statements = [create(translation, table, name, lacks, schema.archive)]
    else:
        statements = [added(translation, name, column) for column in lacks]
    if lacks:
        statements += comments(translation, table, name, lacks, schema.archive)
    return [*table_columns], statements


def _columns(name: str, engine: Database) -> dict[str, str]:
    try:
        return dict(engine.columns(relation(name)))
    except InputError:
        return {}


def _moment(time: object) -> datetime:
    """A time with its fraction: of two runs of one second the later is kept for longer."""
    return datetime.fromisoformat(str(time)).replace(tzinfo=None)
