"""Where `--publish` puts the tables; looked at before a run computes anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.duckdb_file import ENDINGS, check_version, is_database, tables
from sqlmetrics.engines.failure import first_line
from sqlmetrics.engines.registry import place_of
from sqlmetrics.errors import EngineError, SpecError, unknown
from sqlmetrics.jobs.definitions import check_definitions
from sqlmetrics.jobs.schema import PER_QUERY, check_own, columns_of, held_targets, targets
from sqlmetrics.jobs.sources import check_same_spec
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.source import Output
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts

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
        location: Its path, or its URL.
        version: The oldest DuckDB that shall read the file; empty if any will do.
    """

    kind: str
    location: str
    version: str = ""

    @property
    def path(self) -> Path:
        """Of a file or a folder."""
        return Path(self.location)


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
    url = place_of(to.location)
    if url.is_missing:  # it will be made
        _check_writable(Destination("file", url.path))
        table_names = targets(spec).values()
        dotted = [name for name in table_names if parts(name)[:-1] not in ([], ["main"])]
        if dotted:
            raise SpecError(
                f"--publish {to.location}: a new database has no schema for {dotted[0]!r}; create "
                "it first, or publish FILE.duckdb without a URL, which makes its own"
            )
        return
    with connect(to.location) as target:
        check_writer(target, targets(spec)["facts"])
        try:
            check_own(spec, target)
        except SpecError as error:
            raise SpecError(f"--publish: in {target.driver.url or target.name}, {error}") from None
        _check_rows(spec, target, days, adopt)


def _check_rows(spec: Spec, target: Database, days: Days | None, adopt: bool) -> None:
    """See that rows there are the spec's own, and of its definitions where days are replaced."""
    if not adopt:
        check_same_spec(spec, target)
    is_range = days is not None and days.start is not None and days.end is not None
    if is_range and days is not None and target.find(targets(spec)["facts"]):
        check_definitions(spec, days.ends, target)


def _check_writable(to: Destination) -> None:
    path = to.path
    if path.exists() and path.is_dir() != (to.kind == "folder"):
        existing_kind = "folder" if path.is_dir() else "file"
        raise SpecError(f"--publish {to.location}: a {existing_kind} has this name; give {KINDS}")
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
        raise EngineError(f"cannot write {to.location!r}: {reason}")


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
    return f"{to.location.removeprefix(DELTA).rstrip('/')}/{parts(name)[-1]}"


@contextmanager
def delta_failing(to: Destination, path: str) -> Iterator[None]:
    """Tell what the library of Delta says as our errors."""
    try:
        from deltalake.exceptions import CommitFailedError, DeltaError
    except ModuleNotFoundError:
        raise SpecError(
            f"--publish {to.location} needs deltalake: pip install 'sqlmetrics[lakehouse]'"
        ) from None
    try:
        yield
    except CommitFailedError as error:
        raise EngineError(
            f"{path}: another writer was quicker, and the table is as it left it; publish again "
            f"({first_line(error)})"
        ) from None
    except (DeltaError, OSError) as error:
        raise EngineError(f"{path}: {first_line(error)}") from None


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
    with connect() as lake, delta_failing(to, to.location):
        from deltalake import DeltaTable

        for name in targets(alone).values():
            path = delta_table(to, name)
            if DeltaTable.is_deltatable(path):
                rows = DeltaTable(path).to_pyarrow_dataset()
                held = lake.register("sqlmetrics_held", rows)
                lake.execute(f"create view {name} as select * from {held}")
        _check_rows(alone, lake, days, adopt)
