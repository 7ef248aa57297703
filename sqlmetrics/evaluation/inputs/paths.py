"""Paths as DuckDB globs them, once they are seen to lead somewhere."""

from __future__ import annotations

import glob
import gzip
import os
import re
import zlib
from contextlib import suppress
from pathlib import Path

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.engines.url import nearest_file
from sqlmetrics.errors import InputError, SqlmetricsError, did_you_mean
from sqlmetrics.evaluation.inputs.formats import FORMATS
from sqlmetrics.evaluation.inputs.lake_table import DUCKLAKE, is_lake_table, lake_kind_below
from sqlmetrics.evaluation.inputs.pipes import is_packed, is_pipe, save_pipe, unpack
from sqlmetrics.spec.source import REMOTE, Source
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.template import parts

_TEXTS = tuple(s for form in FORMATS.values() if form.texts for s in form.suffixes)
_LOOK = 1 << 16
"""So many characters are the start of a file."""

_HIDDEN = re.compile(r"[._]")


def existing(path: str, role: str) -> str:
    """A path as DuckDB globs it, once it is seen to lead to a file with something in it.

    That of a folder with a table of Delta or Iceberg is left as it is.
    """
    if path.startswith(REMOTE) or is_lake_table(path):
        return path
    if is_pipe(path):
        return glob.escape(save_pipe(path, role))
    if is_packed(path):
        return glob.escape(unpack(path, role))
    note_read(path)
    file = Path(path)
    if file.is_file():
        if not file.stat().st_size:
            raise InputError(f"{role}: the file {path!r} is empty")
        return glob.escape(path)
    matches = [path] if file.is_dir() else glob.glob(path, recursive=True)
    if not matches:
        raise InputError(f"{role}: there is no file or table {path!r}{nearest_file(path)}")
    if not all(map(os.path.isdir, matches)):
        _without_backslash(matches, role)
        return path
    suffix = _suffix_in(matches, path, role)
    return below_folder(glob.escape(path) if file.is_dir() else path, suffix)


def files(path: str, role: str) -> str:
    """A path of a spec as DuckDB globs it: of a folder, or folders, the Parquet files below.

    Nothing need be there yet; a path that ends in `/` is of a folder in any case.

    Raises:
        InputError: If what is in a folder is not the rows of one table.
    """
    if path.startswith(REMOTE):
        return below_folder(path, ".parquet") if path.endswith("/") else path
    if is_pipe(path) or is_packed(path) or is_lake_table(path):
        return existing(path, role)
    note_read(path)
    if Path(path).is_dir() or _is_of_folders(path):
        return existing(path, role)
    return below_folder(path, ".parquet") if path.endswith("/") else path


def _is_of_folders(path: str) -> bool:
    """Whether a glob leads to folders alone; one file is enough to say that it does not."""
    matches = glob.iglob(path, recursive=True) if glob.has_magic(path) else iter(())
    return all(map(os.path.isdir, matches)) and bool(glob.glob(path, recursive=True))


def start_of(path: str) -> str | None:
    """The first characters of a text file, or of the first one of a glob; None if it is no such.

    >>> start_of("there is no such file.csv") is None
    True
    """
    if not path.casefold().endswith(_TEXTS):
        return None
    file = first_file(path)
    if not file or is_pipe(file) or not Path(file).is_file():
        return None
    reader = gzip.open if file.casefold().endswith(".gz") else open
    try:
        with reader(file, "rt", encoding="utf-8", errors="replace") as text:
            return str(text.read(_LOOK))
    except (OSError, EOFError, zlib.error):  # which reading it tells
        return None


def first_file(path: str) -> str:
    """The file of a path, the first one of a glob; empty if there is none here."""
    if path.startswith(REMOTE):
        return ""
    return path if Path(path).is_file() else min(glob.iglob(path, recursive=True), default="")


def below_folder(folder: str, suffix: str) -> str:
    """The files of a folder, of the folders in it and so on."""
    return f"{folder.rstrip('/')}/**/*{suffix}"


def _suffix_in(folders: list[str], path: str, role: str) -> str:
    """How the files below folders end, if all of them are rows of one table."""
    below = [(file, file.relative_to(folder)) for folder in folders for file in _tables(folder)]
    hidden = [file for file, relative_path in below if any(map(_HIDDEN.match, relative_path.parts))]
    lakes = [*filter(None, map(lake_kind_below, folders))]
    suffixes = {file.name[-len(_table_suffix(file)) :] for file, _ in below}
    _without_backslash([str(relative_path) for _, relative_path in below], role)
    problem = ""
    if not suffixes:
        problem = "is a folder without Parquet, CSV or JSON files"
    elif lakes:
        problem = f"is or holds {lakes[0]}, whose files may hold deleted rows"
        problem += "; attach its catalog in profiles.yml" if lakes[0] == DUCKLAKE else ""
    elif hidden:
        problem = f"is a folder with hidden or unfinished files, like {hidden[0]}"
    elif len(suffixes) > 1:
        problem = f"is a folder with files {' and '.join(sorted(suffixes))}"
    if problem:
        example = f"{path.rstrip('/')}/*{min(suffixes, default='.parquet')}"
        raise InputError(f"{role}: {path!r} {problem}; name the files, like {example}")
    return suffixes.pop()


def _without_backslash(files: list[str], role: str) -> None:
    """Raise InputError for a file that DuckDB would leave out of a glob, without a word."""
    odd = [file for file in files if "\\" in file and os.sep != "\\"]
    if odd:
        raise InputError(f"{role}: the name of a file has a backslash, like {odd[0]}; rename it")


def _tables(folder: str) -> list[Path]:
    """The files below a folder that are tables: those of Parquet, or without one CSV and JSON."""
    files = [file for file in sorted(Path(folder).rglob("*")) if _table_suffix(file)]
    parquet = [file for file in files if _table_suffix(file) in FORMATS["parquet"].suffixes]
    return parquet or files


def _table_suffix(file: Path) -> str:
    """The ending of a file that is a table, like .csv.gz; empty of another one."""
    suffixes = (suffix for form in FORMATS.values() for suffix in form.suffixes)
    return max(filter(file.name.casefold().endswith, suffixes), key=len, default="")


# Files and tables that are not there, and those of the nearest names.

NAMES = "select table_name, table_schema from information_schema.tables"


def unreadable(source: Source, relation: Relation, error: Exception, engine: Database) -> str:
    """Say of a source that cannot be read what it is, and where a query of the user's runs."""
    if source.sql:
        where = f", which runs in {engine.name}," if engine.translation.changes else ""
        return f"{source.sql!r}{where} {error}"
    return f"{relation.location!r} {error}"


def absent(source: Source, engine: Database) -> str:
    """Say of a source that cannot be read that it is not there; empty if that is not known.

    Args:
        source: A file, a relation, or something else.
        engine: Where it was to be read.
    """
    if source.file is not None:
        if source.file.startswith(REMOTE) or first_file(source.file):
            return ""
        return f"there is no file {source.file!r}{nearest_file(source.file)}"
    with suppress(SqlmetricsError):
        if source.relation is not None and engine.find(source.relation) is None:
            return f"there is no table {source.relation!r}{_nearest(source.relation, engine)}"
    return ""


def _nearest(name: str, engine: Database) -> str:
    """The question whether a table of a near name is meant, where the database lists them."""
    with suppress(SqlmetricsError):
        schemas = {str(table): str(schema) for table, schema in engine.rows(NAMES)}
        table_name = parts(name)[-1]
        if table_name in schemas:  # where the connection does not look
            return f"; did you mean {f'{schemas[table_name]}.{table_name}'!r}?"
        return did_you_mean(table_name, schemas)
    return ""
