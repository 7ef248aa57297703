"""The tables of a job, put where a dashboard reads them: a file that is replaced whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.engines.opening import place_of
from sqlmetrics.engines.translated import Database, database
from sqlmetrics.errors import EngineError, InputError, SpecError
from sqlmetrics.jobs import views
from sqlmetrics.jobs.tables import prepared, targets
from sqlmetrics.macros import install
from sqlmetrics.source import Output
from sqlmetrics.spec import Spec
from sqlmetrics.template import literal, parts, relation


def publish(
    spec: Spec, engine: Database, destination: str, *, storage_version: str | None = None
) -> list[str]:
    """Copy the tables of a spec's output to where they are read.

    A reader sees the old file or the new one: it is written beside it and takes its place when
    it is complete. Who has the old one open goes on reading that.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are.
        destination: A file that ends in `.duckdb`, with the views and macros in it; a folder
            for one Parquet file a table; or the URL of a database, whose rows of the spec are
            replaced in one transaction.
        storage_version: The oldest DuckDB that shall read the file, like `v1.5.0`.

    Returns:
        What was written.

    Raises:
        SpecError: If the destination is none of these.
        EngineError: If it cannot be written.
    """
    with engine:
        if "://" in destination:
            return list(_to_database(spec, engine, destination))
        if destination.endswith((".duckdb", ".ddb", ".db")):
            return list(_to_file(spec, engine, Path(destination), storage_version))
        if storage_version is not None:
            raise SpecError("a storage version is one of DuckDB's files: --publish FILE.duckdb")
        return list(_to_parquet(spec, engine, Path(destination)))


def _tables(spec: Spec, engine: Database) -> Iterator[tuple[str, pa.Table]]:
    """Each table of the output with its rows."""
    for name in targets(spec).values():
        yield name, engine.table(f"select * from {relation(name)}")


def _to_parquet(spec: Spec, engine: Database, folder: Path) -> Iterator[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in _tables(spec, engine):
            file = folder / f"{parts(name)[-1]}.parquet"
            pq.write_table(rows, f"{file}.part")
            os.replace(f"{file}.part", file)
            yield str(file)
    except OSError as error:
        raise EngineError(f"cannot write to {str(folder)!r}: {error.strerror}") from None


def _to_file(spec: Spec, engine: Database, file: Path, version: str | None) -> Iterator[str]:
    """A new DuckDB file, in the old one's place."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.part")
    option = f" (storage_version {literal(version)})" if version else ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with DuckDB() as made:
            try:
                made.execute(f"attach {literal(str(beside))} as published{option}")
            except InputError as error:  # it names the versions that there are
                raise SpecError(f"the storage version is none: {error}") from None
            made.execute("use published")
            for name, rows in _tables(spec, engine):
                made.load(_alone(name), rows)
            views.make_views(_alone_spec(spec), made)
            install(made)
            made.execute("use memory")
            made.execute("detach published")
        os.replace(beside, file)
    except OSError as error:
        raise EngineError(f"cannot write {str(file)!r}: {error.strerror}") from None
    finally:
        for leftover in (beside, beside.with_name(f"{beside.name}.wal")):
            with suppress(OSError):
                leftover.unlink()
    yield str(file)


def _alone(name: str) -> str:
    """A table's own name, quoted where it must be; a file has no other schema."""
    own = parts(name)[-1]
    return own if own.isidentifier() else '"' + own.replace('"', '""') + '"'


def _alone_spec(spec: Spec) -> Spec:
    """The spec, its output without schemas."""
    names = {key: _alone(name) for key, name in targets(spec).items()}
    relations = {"relation": names["facts"], "per_query": names.get("per_query")}
    output = Output(**relations, runs=names["runs"], views=not spec.output or spec.output.views)
    return spec.model_copy(update={"output": output})


def _to_database(spec: Spec, engine: Database, url: str) -> Iterator[str]:
    """The spec's rows in another database, in the place of its old ones."""
    if place_of(url).in_memory:
        raise SpecError(f"--publish {url} is a database in memory, which nobody can read")
    where = f"where spec = {literal(spec.title)}"
    named = targets(spec)
    with database(url, create=True) as other:
        at = other.translation
        own = f"where spec = {at.value(literal(spec.title))}"
        held = {
            name: other.register(
                f"sqlmetrics_published_{key}",
                engine.table(f"select * from {relation(name)} {where}"),
            )
            for key, name in named.items()
        }
        with other.alone(named["facts"]):
            for statement in prepared(spec, other):
                other.execute(statement)
            with other.transaction():
                for name, rows in held.items():
                    columns = ", ".join(map(at.column, other.columns(rows)))
                    other.execute(f"delete from {at.name(name)} {own}")
                    other.execute(
                        f"insert into {at.name(name)} ({columns}) select {columns} from {rows}"
                    )
                    yield name
            views.make_views(spec, other)
