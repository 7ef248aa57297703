"""The tables of a job, put where a dashboard reads them: a file that is replaced whole."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.duckdb_file import new_file
from sqlmetrics.engines.output_files import replaced, writing, writing_to
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.changes import changes, comments, create
from sqlmetrics.jobs.definitions import these
from sqlmetrics.jobs.destination import (
    NO_REFRESH,
    Destination,
    alone_name,
    alone_spec,
    check_delta,
    check_destination,
    check_writer,
    delta_failing,
    delta_table,
    destination,
    tables_in_file,
)
from sqlmetrics.jobs.dictionary import lacking
from sqlmetrics.jobs.exchange import ALL_DAYS, Exchange, TableRows
from sqlmetrics.jobs.macros import install
from sqlmetrics.jobs.schema import (
    COUNTED,
    TABLES,
    Columns,
    TableColumn,
    check_own,
    columns_for,
    held_targets,
    targets,
)
from sqlmetrics.jobs.views import make_views, view_statements, wide
from sqlmetrics.spec.days import Days, Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import identifier, lines, literal, parts, relation

ARROW = {
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
"""A column's type in our tables -> Arrow's."""


def publish(
    spec: Spec,
    engine: Database,
    location: str,
    *,
    storage_version: str | None = None,
    full_refresh: bool = False,
    allow_loss: int = 0,
) -> list[str]:
    """Copy the tables of a spec's output to where they are read.

    A reader sees the old file or the new one: it is written beside it and takes its place when
    it is complete. Who has the old one open goes on reading that.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are.
        location: A file that ends in `.duckdb`, with the views and macros in it; a folder for one
            Parquet file a table; `delta:FOLDER` for tables of Delta, or the URL of a database,
            whose rows of the spec are replaced, in one commit a table or in one transaction, from
            the first to the last day that there is here.
        storage_version: The oldest DuckDB that shall read the file, like `v1.5.0`.
        full_refresh: Whether the other database loses days of the spec that are not here.
        allow_loss: Of so many days at most.

    Returns:
        What was written.

    Raises:
        SpecError: If the place is none of these, holds what would be lost, or holds other days
            by another definition of a metric.
        EngineError: If it cannot be written.
    """
    to = destination(location, storage_version)
    with engine:
        if to.kind == "database":
            allowed = allow_loss if full_refresh else None
            return _to_database(spec, engine, location, allowed)
        if to.kind == "delta" and full_refresh:
            raise SpecError(NO_REFRESH)
        if to.kind == "delta":
            return list(_to_delta(spec, engine, to))
        check_destination(spec, engine, to)
        if to.kind == "file":
            return list(_to_file(spec, engine, to.path, to.version))
        return list(_to_parquet(spec, engine, to.path))


@dataclass(frozen=True)
class _Published:
    """A table with its rows.

    Attributes:
        key: Which one it is, like `facts`.
        name: What it is called.
        rows: Its rows, as they came.
        columns: Its columns, in the order of the table.
    """

    key: str
    name: str
    rows: pa.Table
    columns: Columns

    @cached_property
    def typed(self) -> pa.Table:
        """The rows in the types of the contract, and without NULL where it has none."""
        fields = [self._field(column) for column in self.columns.values()]
        return self.rows.select(list(self.columns)).cast(pa.schema(fields))

    def _field(self, column: TableColumn) -> pa.Field:
        arrow_type = ARROW.get(column.type, self.rows.schema.field(column.name).type)
        return pa.field(column.name, arrow_type, nullable=not column.is_required)

    def filled(self, known_columns: Columns) -> _Published:
        """The same without columns of which no row has anything, but those that are known."""
        filled_columns = {
            name: column
            for name, column in self.columns.items()
            if name in known_columns or self.rows[name].null_count < self.rows.num_rows
        }
        return replace(self, columns=filled_columns)


def _tables(
    spec: Spec, engine: Database, only: str = "", other_tables: Iterable[str] = ()
) -> Iterator[_Published]:
    """Each table of the output with its rows; or with those of one spec and its metrics.

    Args:
        spec: What is asked.
        engine: Where its tables are.
        only: The spec's name, where other specs' rows are left out.
        other_tables: Per-query tables of other specs.
    """
    columns_by_table = columns_for(spec)
    name_by_table = targets(spec) if only else held_targets(spec, engine)
    for key, name in (*name_by_table.items(), *(("per_query", name) for name in other_tables)):
        if engine.find(name) is None:  # that the spec asks for since its last run
            continue
        where = f" where spec = {literal(only)}" if only and "spec" in columns_by_table[key] else ""
        kinds, spec_columns = engine.columns(relation(name)), columns_by_table[key]
        # by its key, so that two copies of the same rows are the same file
        order = [column for column in (*TABLES[key].key, "run_id") if column in kinds]
        rows = engine.table(
            f"select * from {relation(name)}{where} order by {', '.join(map(identifier, order))}"
        )
        table_columns = {}
        for column_name in rows.column_names:
            column = spec_columns.get(column_name) or TABLES[key].column(
                column_name, kinds[column_name].lower()
            )
            if rows[column_name].null_count:  # whatever the contract says
                column = replace(column, kind=column.type)
            table_columns[column_name] = column
        yield _Published(key, name, rows, table_columns)


def _to_parquet(spec: Spec, engine: Database, folder: Path) -> Iterator[str]:
    with writing_to(folder):
        for table in _tables(spec, engine):
            file = folder / f"{parts(table.name)[-1]}.parquet"
            with replaced(file) as staging_file:
                pq.write_table(table.typed, staging_file)
            yield str(file)


def _to_file(spec: Spec, engine: Database, file: Path, version: str) -> Iterator[str]:
    """A new DuckDB file, in the old one's place."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        other_tables = tables_in_file(spec, engine, file).values()
        with replaced(file) as staging_file, new_file(staging_file, version) as target:
            names = []
            for table in _tables(spec, engine, other_tables=other_tables):
                _load(target, table)
                names.append(table.name)
            alone = alone_spec(spec)
            changes(alone, target).carry_out(target)  # what it asks for since its last run
            make_views(
                alone, target, view_statements(alone, target, wide(spec, engine), every=True)
            )
            target.execute_all(_in_schemas(names, targets(spec)["facts"], target))
            install(target)
    yield str(file)


def _in_schemas(names: Iterable[str], facts: str, target: Database) -> Iterator[str]:
    """Views by which queries of the database, such as those of exports, are the file's as well.

    Args:
        names: The tables, as they are called in the database.
        facts: The fact table, in whose schema the views stand.
        target: The file, where all of them stand in no schema of their own.
    """
    views = target.rows("select view_name from duckdb_views() where not internal order by 1")
    place_by_name = {view: parts(facts)[:-1] for (view,) in views}
    place_by_name |= {parts(name)[-1]: parts(name)[:-1] for name in names}
    for name, place in place_by_name.items():
        if place and place[-1].casefold() != "main":
            schema, own_name = identifier(place[-1]), identifier(name)
            yield f"create schema if not exists {schema}"
            yield f"create view {schema}.{own_name} as select * from main.{own_name}"


def _load(target: Database, table: _Published) -> None:
    """A table as it was: its types, what is never NULL, the order of its columns, and comments."""
    table_name = alone_name(table.name)
    held = target.register("sqlmetrics_published", table.rows)
    target.execute(create(target.translation, table.key, table_name, table.columns.values()))
    target.execute(f"insert into {relation(table_name)} by name select * from {held}")
    target.execute_all(comments(target.translation, table.key, table_name, table.columns.values()))


def _own_tables(spec: Spec, engine: Database) -> dict[str, _Published]:
    """Each table with the rows of one spec and its metrics."""
    columns_by_table = columns_for(spec)
    return {
        table.key: table.filled(columns_by_table[table.key])
        for table in _tables(spec, engine, spec.title)
    }


def _to_delta(spec: Spec, engine: Database, to: Destination) -> Iterator[str]:
    """The spec's rows in tables of Delta, in the place of those of the same days.

    Each table changes by one commit, the fact table last: a reader sees a table old or new.
    """
    tables = _own_tables(spec, engine)
    check_delta(spec, to, _days(tables["facts"]).days)
    for key in sorted(tables, key=lambda key: key == "facts"):
        path = delta_table(to, tables[key].name)
        with delta_failing(to, path):
            _commit(spec, tables[key], path)
        yield path


def _commit(spec: Spec, table: _Published, path: str) -> None:
    from deltalake import DeltaTable, write_deltalake

    rows = _zoned(table.typed)
    if not DeltaTable.is_deltatable(path):
        write_deltalake(path, rows, description=TABLES[table.key].meaning)
        return
    if table.key in COUNTED:
        days = _days(table).days
        conditions = days.around("metric_date", 0, 0, lambda day, _: day) if days else []
        predicate = " and ".join([f"spec = {literal(spec.title)}", *conditions])
        write_deltalake(path, rows, mode="overwrite", predicate=predicate, schema_mode="merge")
        return
    keys = ["run_id"] if table.key == "runs" else TABLES[table.key].key
    matches = " and ".join(f"held.{key} = fresh.{key}" for key in keys)
    merger = DeltaTable(path).merge(rows, matches, source_alias="fresh", target_alias="held")
    if table.key == "metrics":  # always as this version knows them
        merger = merger.when_matched_update_all()
    merger.when_not_matched_insert_all().execute()


def _zoned(rows: pa.Table) -> pa.Table:
    """The rows with times in UTC, which every reader of Delta has a type for."""
    zoned = pa.timestamp("us", "UTC")
    fields = [
        field.with_type(zoned) if pa.types.is_timestamp(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _to_database(spec: Spec, engine: Database, url: str, allowed_loss: int | None) -> list[str]:
    """The spec's rows in another database, in the place of those of the same days."""
    tables = _own_tables(spec, engine)
    source = wide(spec, engine)
    with connect(url, create=True) as target:
        check_writer(target, targets(spec)["facts"])
        check_own(spec, target)
        translation = target.translation
        rows = {}
        for key, table in tables.items():
            held = target.register(f"sqlmetrics_published_{key}", table.typed)
            rows[key] = _put(table, held)
        ends = _days(tables["facts"]) if allowed_loss is None else ALL_DAYS
        extra = {key: table.columns for key, table in tables.items()}
        key = secrets.token_hex(4)
        Exchange(spec, translation, rows, ends, key, extra, source, allowed_loss).carry_out(target)
    return [table.name for table in tables.values()]


def _put(table: _Published, held: str) -> TableRows:
    """The rows of a table, as those of a spec and its days, or as those that are not there yet."""
    names = tuple(table.columns)
    if table.key in COUNTED:
        return TableRows(names, f"select\n    {lines(map(identifier, names))}\nfrom {held}")
    rows = lacking(table.key, table.name, names, held)
    if table.key != "metrics":
        return rows
    published_metrics = table.rows.select(["metric", "k"]).to_pylist()
    return replace(rows, instead_of=these((row["metric"], row["k"]) for row in published_metrics))


def _days(table: _Published) -> Ends:
    """From the first to the last day of the rows."""
    if not table.rows.num_rows:
        return Days(start=date.max - timedelta(1), end=date.max).ends
    ends = pc.min_max(table.typed["metric_date"]).as_py()
    return Days(start=ends["min"], end=ends["max"] + timedelta(1)).ends
