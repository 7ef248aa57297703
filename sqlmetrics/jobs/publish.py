"""The tables of a job, put where a dashboard reads them: a file that is replaced whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.duckdb_file import ENDINGS, check_version, is_database, new_file, tables
from sqlmetrics.engines.failure import first_line
from sqlmetrics.engines.output_files import replaced, writing, writing_to
from sqlmetrics.engines.registry import place_of
from sqlmetrics.errors import EngineError, SpecError, unknown
from sqlmetrics.jobs.changes import changes, comments, create
from sqlmetrics.jobs.definitions import check_definitions, these
from sqlmetrics.jobs.dictionary import lacking
from sqlmetrics.jobs.exchange import ALL_DAYS, Exchange, TableRows
from sqlmetrics.jobs.macros import install
from sqlmetrics.jobs.schema import (
    COUNTED,
    PER_QUERY,
    TABLES,
    Columns,
    TableColumn,
    check_own,
    columns,
    columns_of,
    held_targets,
    targets,
)
from sqlmetrics.jobs.sources import check_same_spec
from sqlmetrics.jobs.views import make_views, view_statements, wide
from sqlmetrics.spec.days import Days, Ends
from sqlmetrics.spec.source import Output
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import identifier, lines, literal, parts, relation

# Where `--publish` puts the tables; looked at before a run computes anything.

KINDS = (
    "FILE.duckdb, a folder for Parquet files, delta:FOLDER for tables of Delta, or the URL of a "
    "database"
)

DELTA, ICEBERG = "delta:", "iceberg:"

NO_REFRESH = (
    "--full-refresh cannot be published to tables of Delta, which would lose days; name the days, "
    "or publish to another place"
)


@dataclass(frozen=True)
class Destination:
    """A place.

    Attributes:
        kind: `file`, `folder`, `delta` or `database`.
        place: Its path, or its URL.
        version: The oldest DuckDB that shall read the file; empty if any will do.
    """

    kind: str
    place: str
    version: str = ""

    @property
    def path(self) -> Path:
        """Of a file or a folder."""
        return Path(self.place)


def destination(location: str, version: str | None = None) -> Destination:
    """The place that a text names; nothing is opened.

    >>> destination("bi/metrics.duckdb").kind, destination("bi/").kind
    ('file', 'folder')

    Raises:
        SpecError: If it names none, or a version that the place has not.
    """
    if location.startswith(ICEBERG):
        raise SpecError(
            f"--publish {location}: Iceberg's tables are written by Trino: give its URL, "
            "trino://user@host/catalog/schema"
        )
    if location.startswith(DELTA):
        kind = "delta"
    else:
        kind = "database" if "://" in location else _kind(location)
    if kind == "database" and place_of(location).in_memory:
        raise SpecError(f"--publish {location} is a database in memory, so nobody could read it")
    if version is not None and kind != "file":
        raise SpecError("a storage version only applies to DuckDB files; use --publish FILE.duckdb")
    return Destination(kind, location, version or "")


def _kind(location: str) -> str:
    suffix = Path(location).suffix
    if suffix.casefold() in ENDINGS:
        return "file"
    if suffix and not location.endswith(("/", os.sep)) and not Path(location).is_dir():
        raise SpecError(
            f"--publish {location}: {unknown('kind of file', suffix, ENDINGS)}; "
            f"give {KINDS} (the name of a folder may end in /)"
        )
    return "folder"


def check_destination(
    spec: Spec,
    engine: Database,
    to: Destination,
    days: Days | None = None,
    *,
    adopt: bool = False,
) -> None:
    """Look whether the tables can be put there, without a change to what is there.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are.
        to: The place.
        days: The days that will be replaced, if both ends are known.
        adopt: Whether rows of the spec's name are its own, whatever wrote them.

    Raises:
        SpecError: If the place is of another kind, or holds what would be lost.
        EngineError: If it cannot be written or opened.
    """
    if to.kind == "database":
        _check_database(spec, to, days, adopt=adopt)
        return
    if to.kind == "delta":
        check_delta(spec, to, days, adopt=adopt)
        return
    _check_writable(to)
    if to.kind == "file":
        check_version(to.version)
        _check_source(engine, to.path)
        tables_in_file(spec, engine, to.path)


def check_writer(target: Database, facts: str) -> None:
    """Whether rows can be published to a database.

    Args:
        target: The database.
        facts: The name of the fact table there.

    Raises:
        SpecError: If not.
    """
    if not target.translation.dialect.writing.publishes:
        raise SpecError(f"--publish cannot write to {target.name}; give {KINDS}")
    target.driver.check_replaces(facts)


def _check_database(spec: Spec, to: Destination, days: Days | None, *, adopt: bool) -> None:
    url = place_of(to.place)
    if url.is_missing:  # it will be made
        _check_writable(Destination("file", url.path))
        table_names = targets(spec).values()
        dotted = [name for name in table_names if parts(name)[:-1] not in ([], ["main"])]
        if dotted:
            raise SpecError(
                f"--publish {to.place}: a new database has no schema for {dotted[0]!r}; create it "
                "first, or publish FILE.duckdb without a URL, which leaves schemas out"
            )
        return
    with connect(to.place) as target:
        check_writer(target, targets(spec)["facts"])
        check_own(spec, target)
        if not adopt:
            check_same_spec(spec, target)
        is_known = days is not None and days.start is not None and days.end is not None
        if is_known and days is not None and target.find(targets(spec)["facts"]):
            check_definitions(spec, days.ends, target)


def _check_writable(to: Destination) -> None:
    path = to.path
    if path.exists() and path.is_dir() != (to.kind == "folder"):
        existing_kind = "folder" if path.is_dir() else "file"
        raise SpecError(f"--publish {to.place}: a {existing_kind} has this name; give {KINDS}")
    folder = path if to.kind == "folder" else path.absolute().parent
    existing_folder = next(
        candidate
        for candidate in (folder.absolute(), *folder.absolute().parents)
        if candidate.exists()
    )
    if not existing_folder.is_dir() or not os.access(existing_folder, os.W_OK | os.X_OK):
        reason = (
            "permission denied"
            if existing_folder.is_dir()
            else f"{str(existing_folder)!r} is no folder"
        )
        raise EngineError(f"cannot write {to.place!r}: {reason}")


def _check_source(engine: Database, file: Path) -> None:
    """A file that takes the place of the database itself would take its data along."""
    if any(
        file.exists() and Path(source_file).exists() and file.samefile(source_file)
        for source_file in engine.files
    ):
        raise SpecError(
            f"--publish {file}: this is the database itself, which would be replaced; give "
            "another file"
        )


def tables_in_file(spec: Spec, engine: Database, file: Path) -> dict[str, str]:
    """Per-query tables of other specs that a file has, which is replaced whole: name -> source.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are, and those of the other specs.
        file: The file; it may hold no more than what was published before.

    Raises:
        SpecError: If it is no database, or holds what would be lost.
    """
    if not file.exists() or not file.stat().st_size:
        return {}
    if not is_database(file):
        raise SpecError(
            f"--publish {file}: the file is not a DuckDB database, and would be replaced; give "
            "another name"
        )
    *schema, _ = parts(targets(spec)["facts"])
    own_names = {parts(name)[-1].casefold() for name in held_targets(spec, engine).values()}
    sources = {
        name: ".".join(f'"{part}"' for part in (*schema, name))
        for name in sorted(tables(file))
        if name.casefold() not in own_names
    }
    lost_tables = [name for name, source in sources.items() if not _is_of_queries(source, engine)]
    if lost_tables:
        raise SpecError(
            f"--publish {file}: the file holds other tables, which would be replaced: "
            f"{', '.join(lost_tables)}; give each output its own file, or delete this one"
        )
    return sources


def _is_of_queries(name: str, engine: Database) -> bool:
    """Whether a table is there, and one of queries that a run made."""
    return {*PER_QUERY} <= {column.casefold() for column in columns_of(name, engine)}


def alone_name(name: str) -> str:
    """A table's own name, quoted where it must be; a file has no other schema."""
    table_name = parts(name)[-1]
    return table_name if table_name.isidentifier() else '"' + table_name.replace('"', '""') + '"'


def alone_spec(spec: Spec) -> Spec:
    """The spec, its output without schemas."""
    names = {key: alone_name(name) for key, name in targets(spec).items()}
    relations = {"relation": names["facts"], "per_query": names.get("per_query")}
    output = Output(**relations, runs=names["runs"], views=not spec.output or spec.output.views)
    return spec.model_copy(update={"output": output})


def delta_table(to: Destination, name: str) -> str:
    """Where a table of Delta is: a folder, or the URL of one."""
    return f"{to.place.removeprefix(DELTA).rstrip('/')}/{parts(name)[-1]}"


@contextmanager
def delta_failing(to: Destination, place: str) -> Iterator[None]:
    """Tell what the library of Delta says as our errors."""
    try:
        from deltalake.exceptions import CommitFailedError, DeltaError
    except ModuleNotFoundError:
        raise SpecError(
            f"--publish {to.place} needs deltalake: pip install 'sqlmetrics[lakehouse]'"
        ) from None
    try:
        yield
    except CommitFailedError as error:
        raise EngineError(
            f"{place}: another writer was quicker, and the table is as it left it; publish again "
            f"({first_line(error)})"
        ) from None
    except (DeltaError, OSError) as error:
        raise EngineError(f"{place}: {first_line(error)}") from None


def check_delta(
    spec: Spec, to: Destination, days: Days | None = None, *, adopt: bool = False
) -> None:
    """Look whether tables of Delta are of runs, and of this spec where they have its name.

    Args:
        spec: What is asked, with its `output`.
        to: Where they are.
        days: The days that will be replaced, if both ends are known.
        adopt: Whether rows of the spec's name are its own, whatever wrote them.

    Raises:
        SpecError: If not, or if other days have another definition of a metric.
        EngineError: If one cannot be read.
    """
    alone = alone_spec(spec)
    with connect() as lake, delta_failing(to, to.place):
        from deltalake import DeltaTable

        for name in targets(alone).values():
            place = delta_table(to, name)
            if DeltaTable.is_deltatable(place):
                rows = DeltaTable(place).to_pyarrow_dataset()
                held = lake.register("sqlmetrics_held", rows)
                lake.execute(f"create view {name} as select * from {held}")
        check_own(alone, lake)
        if not adopt:
            check_same_spec(alone, lake)
        is_known = days is not None and days.start is not None and days.end is not None
        if is_known and days is not None and lake.find(targets(alone)["facts"]):
            check_definitions(alone, days.ends, lake)


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
    columns_by_table = columns(spec)
    own = targets(spec) if only else held_targets(spec, engine)
    for key, name in (*own.items(), *(("per_query", name) for name in other_tables)):
        if engine.find(name) is None:  # that the spec asks for since its last run
            continue
        where = f" where spec = {literal(only)}" if only and "spec" in columns_by_table[key] else ""
        rows = engine.table(f"select * from {relation(name)}{where}")
        kinds, spec_columns = engine.columns(relation(name)), columns_by_table[key]
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
            for table in _tables(spec, engine, other_tables=other_tables):
                _load(target, table)
            alone = alone_spec(spec)
            changes(alone, target).carry_out(target)  # what it asks for since its last run
            make_views(
                alone, target, view_statements(alone, target, wide(spec, engine), every=True)
            )
            install(target)
    yield str(file)


def _load(target: Database, table: _Published) -> None:
    """A table as it was: its types, what is never NULL, the order of its columns, and comments."""
    table_name = alone_name(table.name)
    held = target.register("sqlmetrics_published", table.rows)
    target.execute(create(target.translation, table.key, table_name, table.columns.values()))
    target.execute(f"insert into {relation(table_name)} by name select * from {held}")
    target.execute_all(comments(target.translation, table.key, table_name, table.columns.values()))


def _own_tables(spec: Spec, engine: Database) -> dict[str, _Published]:
    """Each table with the rows of one spec and its metrics."""
    columns_by_table = columns(spec)
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
        place = delta_table(to, tables[key].name)
        with delta_failing(to, place):
            _commit(spec, tables[key], place)
        yield place


def _commit(spec: Spec, table: _Published, place: str) -> None:
    from deltalake import DeltaTable, write_deltalake

    rows = _zoned(table.typed)
    if not DeltaTable.is_deltatable(place):
        write_deltalake(place, rows, description=TABLES[table.key].meaning)
        return
    if table.key in COUNTED:
        days = _days(table).days
        conditions = days.around("metric_date", 0, 0, lambda day, _: day) if days else []
        predicate = " and ".join([f"spec = {literal(spec.title)}", *conditions])
        write_deltalake(place, rows, mode="overwrite", predicate=predicate, schema_mode="merge")
        return
    keys = ["run_id"] if table.key == "runs" else TABLES[table.key].key
    matches = " and ".join(f"held.{key} = fresh.{key}" for key in keys)
    merger = DeltaTable(place).merge(rows, matches, source_alias="fresh", target_alias="held")
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
