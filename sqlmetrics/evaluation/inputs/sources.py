"""Files, frames and tables -> relations that DuckDB can read in a FROM clause."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from sqlmetrics.engines import file_kinds
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.database_file import HOW_TO_OPEN
from sqlmetrics.engines.file_kinds import kind_of, start_of
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.inputs.formats import FORMATS, QRELS, RUN, TREC, format_of
from sqlmetrics.evaluation.inputs.lake_table import is_lake_table, lake_kind, lake_table
from sqlmetrics.evaluation.inputs.lists import listed
from sqlmetrics.evaluation.inputs.names import NAMES, plain
from sqlmetrics.evaluation.inputs.paths import existing, files, first_file
from sqlmetrics.evaluation.inputs.pipes import is_packed, is_pipe
from sqlmetrics.evaluation.inputs.run_names import expanded, first_rows, have_blanks, have_tabs
from sqlmetrics.plan.plan import Plan, with_fused
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.source import (
    DatedSource,
    Items,
    Labels,
    RankedLists,
    RankingColumns,
    Source,
    is_query,
)
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.translation import Translation
from sqlmetrics.sql.user_sql import names_in, query

if TYPE_CHECKING:
    from sqlmetrics.spec.spec import Spec

# Files that are no text with rows in it: databases, spreadsheets, other tools' formats.

_SAVE = "save it as Parquet or CSV"
_OPEN = "read it with {how}, and give one of its tables"
_DECOMPRESS = "give each file by its name, which ends in {ending}"

REMEDIES = {
    file_kinds.PARQUET: "rename it to end in .parquet",
    **dict.fromkeys(
        (
            file_kinds.ARROW,
            file_kinds.ZIP,
            file_kinds.EXCEL,
            file_kinds.ORC,
            file_kinds.AVRO,
        ),
        _SAVE,
    ),
    file_kinds.ZSTD: _DECOMPRESS.format(ending=".zst"),
    file_kinds.BZIP2: _DECOMPRESS.format(ending=".bz2"),
    file_kinds.XZ: _DECOMPRESS.format(ending=".xz"),
    file_kinds.UTF_16: "save it as 'CSV UTF-8'",
    **{kind: _OPEN.format(how=instruction) for kind, instruction in HOW_TO_OPEN.items()},
}
"""What a file is that is no text -> what to do."""


def refuse_foreign(file: str, role: str) -> None:
    """See that a file that is there is text.

    Raises:
        InputError: If it is not, with what to do.
    """
    try:
        kind = kind_of(start_of(file))
    except OSError:  # DuckDB will tell
        return
    if kind in REMEDIES:
        raise InputError(f"{role}: {file!r} is {kind}: {REMEDIES[kind].format(path=file)}")
    if kind == file_kinds.GZIP and not file.casefold().endswith(".gz"):
        raise InputError(f"{role}: {file!r} is {kind}; rename it to end in .gz")
    if not kind and not file.casefold().endswith(".gz"):
        raise InputError(f"{role}: {file!r} is not a text file: {_SAVE}")


# A file of JSON that is one object, query -> item -> number, as ranx and others save runs.

SUFFIXES = (".json", ".json.gz")
"""Endings of the files that may be one."""

_START = re.compile(
    r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*'
    r'("(?:[^"\\]|\\.)*"\s*:\s*(-?[\d.]|-?Infinity|NaN|null)|\})'
)
_LOOK = 4096
"""So many characters are looked at before a file is read whole."""


def dict_in(file: str) -> dict[str, dict[str, float]] | None:
    """The object in a file, None if it is anything else.

    Args:
        file: A path that is there, or a pattern.
    """
    if not file.casefold().endswith(SUFFIXES):
        return None
    open_file = gzip.open if file.casefold().endswith(".gz") else open
    try:
        with open_file(Path(file), "rt", encoding="utf-8-sig") as text:
            start = text.read(_LOOK)
            if not _START.match(start):
                return None
            held = json.loads(start + text.read())
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return None  # lines of JSON, or what DuckDB will tell
    return held if _is_run(held) else None


def _is_run(held: Any) -> bool:
    """Whether it is query -> item -> number; what is missing is told by the checks of the input."""
    return isinstance(held, dict) and all(
        isinstance(items, dict)
        and all(
            isinstance(value, int | float | None) and not isinstance(value, bool)
            for value in items.values()
        )
        for items in held.values()
    )


# The header line of a file of separated values: what stands between them, and their names.

SEPARATORS = (",", ";", "\t", "|")
"""What people, spreadsheets and tools put between values, the commonest first."""

LONGEST = 2**16
"""A header line is looked for in as many bytes of a file."""


@dataclass(frozen=True)
class Header:
    """The first line of a file, split.

    Attributes:
        separator: What is between the values.
        names: The names, with the blanks around them.
        commas: The columns whose first values are numbers with a decimal comma.
    """

    separator: str
    names: tuple[str, ...] = ()
    commas: tuple[str, ...] = ()

    @property
    def is_padded(self) -> bool:
        """Whether the file has blanks before or behind each separator, as people type it."""
        before = [name.startswith(" ") for name in self.names[1:]]
        behind = [name.endswith(" ") for name in self.names[:-1]]
        return len(self.names) > 1 and (all(before) or all(behind))

    def has(self, column: str) -> bool:
        """Whether there is a column, or the names are not known."""
        folded = column.casefold()
        return not self.names or any(name.strip().casefold() == folded for name in self.names)


def header_of(
    path: str, usual: str, expected_names: Iterable[str], separator: str | None
) -> Header:
    """The header line of a file.

    It is split where that gives the most of the wanted names; where several ways do, at the
    usual separator, else at the commonest. A file that is elsewhere, or not there yet, is
    taken to have the usual one.

    Args:
        path: The file, empty if there is none.
        usual: What its format is split at.
        expected_names: Names of columns that it should have.
        separator: What to split at, if that is known.
    """
    line, *other_lines = _first_lines(path) or [""]
    folded = {name.casefold() for name in expected_names}
    ways = [Header(mark, _split(line, mark)) for mark in _tried(usual, separator)]

    def fits(way: Header) -> int:
        return len(folded & {name.strip().casefold() for name in way.names})

    best = max(ways, key=fits) if any(map(fits, ways)) else _by_looks(ways)
    return replace(best, commas=tuple(_with_commas(best, other_lines)))


def _with_commas(header: Header, lines: Iterable[str]) -> Iterator[str]:
    """The columns of whose values some have a decimal comma, and all are such numbers."""
    if header.separator == ",":
        return
    rows = [_split(line, header.separator) for line in lines if line.strip()]
    for position, name in enumerate(header.names):
        values = [
            row[position].strip() for row in rows if len(row) > position and row[position].strip()
        ]
        if all(map(_COMMA.fullmatch, values)) and any(map(_NO_THOUSAND.search, values)):
            yield name.strip()


_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_NO_THOUSAND = re.compile(r",(\d{1,2}|\d{4,})$")


def _tried(usual: str, separator: str | None) -> list[str]:
    if separator is not None:
        return [separator]
    return [usual, *(mark for mark in SEPARATORS if mark != usual)]


def _by_looks(ways: list[Header]) -> Header:
    """The first that splits the line at all, for the message about its names."""
    return next((way for way in ways if len(way.names) > 1), ways[0])


def _split(line: str, separator: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader(io.StringIO(line), delimiter=separator), ()))
    except csv.Error:
        return ()


def _first_lines(path: str) -> list[str]:
    """A file's first lines; none if nothing can be read."""
    try:
        start = _start(path)
    except (OSError, EOFError, zlib.error):  # it is not there or cut, or DuckDB will tell
        return []
    lines = start.decode("utf-8-sig", errors="replace").splitlines()
    return lines[:-1] if len(start) == LONGEST and len(lines) > 1 else lines  # the last may be cut


def _start(file: str) -> bytes:
    if file.casefold().endswith(".gz"):
        with gzip.open(file) as opened:
            return opened.read(LONGEST)
    with Path(file).open("rb") as plain:
        return plain.read(LONGEST)


_SUFFIXES = tuple(suffix for form in FORMATS.values() for suffix in form.suffixes)
NUMBERS = ("score", "rank", "weight", "grade", "popularity", "users", "dwell")
"""Roles of columns that hold numbers."""

_NUMBERS = {
    plain(name) for role in ("score", "rank", "grade") for name in (role, *NAMES[role].split())
}
"""Names of columns that hold numbers, in words of their own."""


def relation_of(source: Source, role: str) -> Relation:
    """The relation of a source that a text of SQL can name; nothing is opened.

    Args:
        source: A relation, a query or a file.
        role: `rankings` or `labels`; it decides how a TREC file is read.

    Raises:
        SpecError: If the source is data in memory or a table of a lakehouse, which no text can
            name.
    """
    if source.file is not None and is_lake_table(source.file):
        raise SpecError(
            f"{role}: {source.file!r} is {lake_kind(source.file)}, which can be evaluated, but not "
            "compiled to text; name the table in the database that has it"
        )
    if source.file is not None:
        relation = _file(source, source.file, role)
    elif source.relation is not None:
        relation = Relation("table", source.relation)
    elif source.sql is not None:
        relation = Relation("query", query(source.sql))
    else:
        raise SpecError(
            f"{role}: data in memory can be evaluated, but not compiled to text; give a file "
            "or a table"
        )
    if isinstance(source, RankedLists | Labels) and source.lists:
        return listed(relation, source.columns)
    return relation


def relation_in(source: Source, role: str, engine: Database, name: str = "") -> Relation:
    """The relation of a source; what no text can name is registered in a DuckDB.

    Args:
        source: A relation, a query, a file, a table of a lakehouse, or data in memory.
        role: `rankings`, `labels` ...; of a click log, `clicks_events` ...
        engine: The DuckDB that reads it.
        name: What it is registered as; default: its role.

    Raises:
        InputError: If it cannot be read.
    """
    if source.data is not None:
        from sqlmetrics.evaluation.inputs.arrow import arrow_of

        data = arrow_of(source.data, role, source.columns)
        return Relation("table", engine.register(f"sqlmetrics_{name or role}", data), ordered=True)
    if source.file is not None and is_lake_table(source.file):
        data = lake_table(source.file, role.removeprefix("clicks_"))
        return Relation("table", engine.register(f"sqlmetrics_{name or role}", data))
    return relation_of(source, role)


def tables_read(spec: Spec) -> Iterator[str]:
    """The sources of a spec that are tables of a database: they can be read only there."""
    for name, source in _sources(spec):
        if source.relation or _names_tables(source.sql):
            yield name


def refuse_pipes(spec: Spec) -> None:
    """See that a text which is run later finds its files then.

    Raises:
        SpecError: If one of them is a pipe, or packed.
    """
    for name, source in _sources(spec):
        if source.file and is_pipe(source.file):
            raise SpecError(
                f"{name}: {source.file!r} is a pipe, which can only be read once; give a file, or "
                "use run or show"
            )
        if source.file and is_packed(source.file):
            raise SpecError(
                f"{name}: {source.file!r} is unpacked into a file that is gone afterwards; "
                "decompress it, compress it with gzip, or use run or show"
            )


def _sources(spec: Spec) -> Iterator[tuple[str, Source]]:
    """The tables of a spec by their names."""
    if spec.clicks is None:
        names = ("rankings", "labels", "queries", "items")
        sources = {name: getattr(spec, name) for name in names}
    else:
        sources = {**spec.clicks.sources, "ranked": spec.clicks.ranked}
        sources |= {"queries": spec.queries, "items": spec.items}
    yield from ((name, source) for name, source in sources.items() if source is not None)


def _names_tables(text: str | None) -> bool:
    """Whether a query reads anything but files."""
    if text is None:
        return False
    names = names_in(text)
    return names is None or not all(map(is_file_name, names))


def is_file_name(name: str) -> bool:
    """Whether a name in a query is that of a file."""
    plain_name = name.strip('"').casefold()
    return "/" in plain_name or plain_name.endswith(_SUFFIXES)


def _file(source: Source, path: str, role: str) -> Relation:
    location = files(path, role)
    form = format_of(location, role)
    if not form.template.startswith("parquet") and (first := first_file(location)):
        refuse_foreign(first, role)
    relation = Relation(form.template, location, True, form.columns, form.details, form.texts)
    if form in TREC.values():
        is_run = form is TREC["rankings"]
        rows = first_rows(expanded(relation.location))
        has_tabs = have_tabs(rows, RUN if is_run else QRELS)
        relation = replace(relation, separator="\t" if has_tabs else "")
        if is_run:
            relation = replace(_with_file(source, relation), has_blanks=have_blanks(rows))
    return _separated(source, relation, form.separator) if form.separator else relation


FILE = "file"
"""The column of TREC runs that has the name of their file."""


def _with_file(source: Source, relation: Relation) -> Relation:
    """Runs of TREC with the name of the file, where several are read or it is the system."""
    is_system = getattr(source.columns, "system", None) == FILE
    path = Path(relation.location)
    if not is_system and (path.exists() or not glob.has_magic(relation.location)):
        return relation
    fixed = takewhile(lambda part: not glob.has_magic(part), path.parent.parts)
    folder = str(Path(*fixed))
    columns = dict(relation.columns) | {"run file": FILE} | ({"system": FILE} if is_system else {})
    folder = "" if folder == "." else f"{folder.rstrip('/')}/"
    return replace(relation, columns=tuple(columns.items()), folder=folder)


def _separated(source: Source, relation: Relation, usual: str) -> Relation:
    """A file of separated values, as its header line shows it."""
    column_by_role = dict(source.columns)
    expected_names = [name for name in column_by_role.values() if isinstance(name, str)]
    header = header_of(first_file(relation.location), usual, expected_names, source.separator)
    return replace(
        relation,
        separator="\\t" if header.separator == "\t" else header.separator,
        trimmed=header.is_padded,
        decimals=_decimals(source, header),
    )


def _decimals(source: Source, header: Header) -> tuple[str, ...]:
    """The columns of numbers with a decimal comma, as it is said, or known by the first rows."""
    if source.decimal == "." or getattr(source, "lists", False):
        return ()
    column_by_role = dict(source.columns)
    columns = dict.fromkeys(filter(None, map(column_by_role.get, NUMBERS)))
    if isinstance(source.columns, RankingColumns):
        columns |= {source.columns.order: None}
    if isinstance(source, Items | Labels):  # of which a metric may read any column as a number
        texts = [name for role, name in column_by_role.items() if role not in NUMBERS]
        columns |= dict.fromkeys(name for name in header.commas if name not in texts)
    if source.decimal is None:
        comma_columns = [
            name for name in header.commas if name in columns or plain(name) in _NUMBERS
        ]
        columns = dict.fromkeys(comma_columns)
    if getattr(source, "grades", {}):
        columns.pop(column_by_role["grade"], None)
    return tuple(filter(header.has, columns))


def source_of(
    input_table: object, role: str, find: Callable[[str], str | None]
) -> dict[str, object]:
    """What a person gave for a table, as the keys of a `Source`.

    Args:
        input_table: A path, a table's name, a `select` text, or data in memory.
        role: `rankings` or `labels`, for messages.
        find: Tells the table or view that a text names, if it names one.

    Raises:
        InputError: If a text is neither a table nor a file, or the file cannot be read.
    """
    if input_table is None or (isinstance(input_table, str) and not input_table):
        raise InputError(f"{role}: no table is given")
    if not isinstance(input_table, str | PurePath):
        return {"data": input_table}
    text = str(input_table)
    relation = find(text) if isinstance(input_table, str) else None
    if relation is not None:
        return {"relation": relation}
    if isinstance(input_table, str) and is_query(text):
        return {"sql": text}
    file = existing(text, role)
    held = dict_in(file)
    return {"file": file} if held is None else {"data": held}


def tables_of(spec: Spec, translation: Translation | None = None) -> Tables:
    """Where the tables are, as far as a spec says it.

    Args:
        spec: What is asked.
        translation: The dialect of the database; DuckDB's if none.
    """
    rankings = relation_of(spec.rankings, "rankings")
    labels = relation_of(spec.labels, "labels") if spec.labels else rankings
    tables = Tables(
        rankings,
        labels,
        relation_of(spec.queries, "queries") if spec.queries else None,
        relation_of(spec.items, "items") if spec.items and spec.needs_items else None,
        translation or Translation(),
        zones={
            table: source.time_zone
            for table, source in _dated_sources(spec).items()
            if source and source.time_zone and getattr(source.columns, "date", None)
        },
    )
    return with_fused(spec, tables)


def _dated_sources(spec: Spec) -> dict[str, DatedSource | None]:
    return {"rankings": spec.rankings, "labels": spec.truth, "queries": spec.queries}


# A user's condition on a table: whether the database can read it.

OF_TEXTS = "every column of a CSV file is text: write cast(age as integer) > 17"


def wrong_condition(text: str | None, relation: Relation, engine: Database) -> str:
    """What is wrong with a condition; empty if nothing is, or the table cannot be read without.

    Args:
        text: The condition.
        relation: The table, as the engine's translation takes it.
        engine: Where it is.
    """
    if not text:
        return ""
    try:
        columns = engine.columns(source_text(relation))
    except InputError:
        return ""
    try:
        engine.columns(source_text(relation, engine.translation.condition(text)))
    except InputError as error:
        from sqlmetrics.sql.transpile import columns_named

        existing = {name.casefold() for name in columns}
        used_columns = columns_named(text, engine.translation.dialect)
        gaps = [name for name in used_columns if name.casefold() not in existing]
        return unknown("column", gaps[0], columns) if gaps else str(error).partition(": ")[2]
    return ""


def wrong_segments(plan: Plan, engine: Database) -> Iterator[Problem]:
    """Segments whose conditions the database cannot read, though their columns are there."""
    segments, shape = plan.spec.segments, plan.shape
    for table, relation in shape.tables.items():
        for name in shape.made_of.of(table):
            if name not in segments or shape.made_of.kind(name):
                continue
            if wrong := wrong_condition(segments[name], relation, engine):
                message = f"segment {name} {segments[name]!r}: {wrong}"
                yield Problem(table, message, 1, remedy=OF_TEXTS * bool(relation.separator))
