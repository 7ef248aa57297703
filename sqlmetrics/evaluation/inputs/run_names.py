"""What systems are called: by their files, or as NAME=FILE says."""

from __future__ import annotations

import glob
import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import isfinite
from pathlib import Path, PurePath

from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.formats import FORMATS, RUN, fields_of, holds_row
from sqlmetrics.evaluation.inputs.pipes import is_packed, is_pipe, unpack
from sqlmetrics.spec.source import REMOTE, is_query
from sqlmetrics.sql.relation import ENDINGS, Relation, file_title


def named_file(text: str) -> tuple[str, str]:
    """The name and the table of NAME=TABLE; the name is empty where there is none.

    A file that is there keeps its = signs; else the name ends at the first = behind which stands a
    file that is there, and at the first of all if there is none, as of tables of a database.

    >>> named_file("k1=runs_v2"), named_file("runs/day=1/x.parquet"), named_file("runs_v2")
    (('k1', 'runs_v2'), ('', 'runs/day=1/x.parquet'), ('', 'runs_v2'))
    """
    if "=" not in text or is_query(text) or text.startswith(REMOTE) or _is_file(text):
        return "", text
    signs = [position for position, letter in enumerate(text) if letter == "=" and position]
    splits = [(text[:position].strip(), text[position + 1 :].strip()) for position in signs]
    splits = [(name, table) for name, table in splits if name and table]
    files = [split for split in splits if _is_file(split[1]) or split[1].startswith(REMOTE)]
    plain = [split for split in splits if "/" not in split[0]]
    return next(iter([*files, *plain]), ("", text))


def _is_file(text: str) -> bool:
    return is_pipe(text) or os.path.exists(text) or (glob.has_magic(text) and bool(glob.glob(text)))


def file_names(files: Sequence[str], role: str = "rankings") -> list[str]:
    """What several files, or tables, are called; a name is that of its file, whatever others are.

    Files of one name in several folders have these before it; what is no file has its number.

    Raises:
        InputError: If a file is given twice.

    >>> file_names(["runs/bm25+rm3.txt", "k1=0.9.txt.gz", "a/run1.txt", "b/run1.txt"])
    ['bm25+rm3', 'k1=0.9', 'a/run1', 'b/run1']
    """
    titles = [
        f"run_{number}" if is_pipe(text) or is_query(text) else file_title(text)
        for number, text in enumerate(files, 1)
    ]
    for shared in [title for title, count in Counter(titles).items() if count > 1]:
        places = [position for position, title in enumerate(titles) if title == shared]
        longer = _longer_names([files[position] for position in places])
        for position, name in zip(places, longer, strict=True):
            titles[position] = name
    check_distinct(titles, files, role)
    return titles


def _longer_names(files: Sequence[str]) -> list[str]:
    """Names of files that are called alike: with their endings, or their folders."""
    base_names = [Path(file).name for file in files]
    if len({*base_names}) == len(base_names):
        return base_names
    paths = [os.path.abspath(file) for file in files]
    parent = os.path.commonpath([os.path.dirname(path) for path in paths])
    relative_paths = [Path(os.path.relpath(path, parent)) for path in paths]
    short = [(path.parent / file_title(path.name)).as_posix() for path in relative_paths]
    return short if len({*short}) == len(short) else [path.as_posix() for path in relative_paths]


def check_distinct(names: Sequence[str], files: Sequence[object], role: str = "rankings") -> None:
    """Raise InputError for two files of one name, or one that is given twice."""
    name = next((name for name, count in Counter(names).items() if count > 1), None)
    if name is None:
        return
    first, second = [file for title, file in zip(names, files, strict=True) if title == name][:2]
    if first == second:
        raise InputError(f"{role}: {first!r} is given twice")
    raise InputError(
        f"{role}: {str(first)!r} and {str(second)!r} are both called {name!r}; name them, like "
        f"a={first} b={second}, or {{name: file}} in Python"
    )


def named_runs(tables: Iterable[str]) -> dict[str, str] | list[str]:
    """Name -> table where one of them has a name, else the tables.

    Raises:
        InputError: If two have the same name.
    """
    pairs = [named_file(text) for text in tables]
    if not any(name for name, _ in pairs):
        return [table for _, table in pairs]
    pairs = [
        (name, file) for name, table in pairs for file in ([table] if name else expanded(table))
    ]
    unnamed = iter(file_names([table for name, table in pairs if not name]))
    names = [name or next(unnamed) for name, _ in pairs]
    check_distinct(names, [table for _, table in pairs])
    return dict(zip(names, (table for _, table in pairs), strict=True))


def table_or_runs(tables: Sequence[str]) -> str | dict[str, str] | list[str]:
    """The same, but a table that stands alone and has no name is that table.

    Raises:
        InputError: If two have the same name.
    """
    runs = named_runs(tables)
    return runs[0] if isinstance(runs, list) and len(runs) == 1 else runs


def expanded(path: str) -> Sequence[str]:
    """The files of a glob that no shell has made into files; else the path."""
    files = sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.exists(path) else []
    return files if files and all(map(os.path.isfile, files)) else [path]


LINES = 100
"""So many lines of a file of TREC tell what is between its fields, and whether runs have blanks."""


def first_rows(files: Sequence[str]) -> dict[str, list[str]]:
    """The first lines of each file of TREC, but comments; none of what cannot be read."""
    return {file: _first_rows(file) for file in files}


def have_blanks(rows_by_file: Mapping[str, Sequence[str]]) -> bool:
    """Whether runs of TREC have names with blanks: each line of a file has the same.

    What differs from line to line is no part of a name, as to trec_eval.

    Args:
        rows_by_file: File -> its first lines.

    Raises:
        InputError: If a line has a blank in an id.
    """
    names = []
    for file, lines in rows_by_file.items():
        rows = [fields_of(row) for row in lines]
        if row := next((row for row in rows if len(row) > RUN and not _is_number(row[3])), None):
            raise InputError(
                f"rankings: {file!r} has {len(row)} fields in the line {' '.join(row)!r}, and the "
                "fourth, the rank, is not a number; if ids have blanks, put tabs between the fields"
            )
        names.append({tuple(" ".join(row[5:]).split()) for row in rows})
    return all(len(file_names) <= 1 for file_names in names) and any(
        len(name) > 1 for file_names in names for name in file_names
    )


def have_tabs(rows_by_file: Mapping[str, Sequence[str]], n_fields: int) -> bool:
    """Whether tabs alone separate the fields in files of TREC, so that ids may have blanks.

    Args:
        rows_by_file: File -> its first lines; all must be of the same kind.
        n_fields: How many fields a line has.
    """
    rows = [row for lines in rows_by_file.values() for row in lines]
    return bool(rows) and all(row.count("\t") == n_fields - 1 for row in rows)


def _first_rows(file: str) -> list[str]:
    path = re.sub(r"\[([*?[])\]", r"\1", file)
    if is_pipe(path) or not os.path.isfile(path):
        return []
    path = unpack(path, "rankings") if is_packed(path) else path
    reader = gzip.open if path.casefold().endswith(".gz") else open
    with suppress(OSError, EOFError, zlib.error, ValueError), reader(path, "rt") as lines:
        return [str(line).strip() for line in islice(lines, LINES) if holds_row(str(line))]
    return []


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return isfinite(float(text))
    return False


def is_run_glob(path: str) -> bool:
    """Whether a path is a glob of several runs of TREC, each of which is a system."""
    if not glob.has_magic(path) or is_query(path) or path.casefold().endswith(_TABLES):
        return False
    return len(expanded(path)) > 1


_TABLES = tuple(suffix for form in FORMATS.values() for suffix in form.suffixes)


def files_by_title(relation: Relation) -> dict[str, list[str]]:
    """The files of a glob by what the column `file` calls them: below its folder, without endings.

    Args:
        relation: Runs of TREC with this column.
    """
    files: dict[str, list[str]] = {}
    for file in expanded(relation.location):
        relative_path = str(PurePath(file))[len(relation.folder or "") :]
        title = re.sub(ENDINGS, "", relative_path, flags=re.IGNORECASE)
        files.setdefault(title, []).append(file)
    return files


def check_tags(files_of_tag: Mapping[str, Sequence[str]]) -> None:
    """See that no two files of runs have one name, which would make them one system.

    Args:
        files_of_tag: The name -> the files that have it.

    Raises:
        InputError: If two have.
    """
    for tag, files in files_of_tag.items():
        if len(files) > 1:
            raise InputError(
                f"rankings: {len(files)} files, like {files[0]!r} and {files[1]!r}, have runs "
                f"called {tag!r}; name systems by their files (columns: {{system: file}}, "
                "--system file), or join the parts of one run into one file"
            )
