"""Files, frames and tables -> relations that DuckDB can read in a FROM clause."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path, PurePath

from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.source import (
    REMOTE,
    LabelColumns,
    Labels,
    Model,
    RankingColumns,
    Rankings,
    Source,
)
from sqlmetrics.template import identifier

_QUERY = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:select|with|from|values)\b(?!\.)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Format:
    """A file format: which names have it, and the template that reads it.

    Attributes:
        suffixes: Endings of file names; empty for what no other format claims.
        template: The file under `templates/inputs`.
        asks: What else can be asked of the file, each by `<template>_<what>`: its `names`,
            before DuckDB renames what differs in case alone; the `types` of its values,
            where the template makes all of them text; the `gaps`, columns that some of
            several files have not.
        texts: Whether all its values are read as texts, a list as JSON writes it.
        columns: The names its columns have, where the format itself fixes them.
    """

    suffixes: tuple[str, ...]
    template: str
    asks: tuple[str, ...] = ()
    texts: bool = False
    columns: tuple[tuple[str, str], ...] = ()


FORMATS = {
    "parquet": Format((".parquet", ".pq"), "parquet", asks=("names",)),
    "csv": Format((".csv", ".csv.gz"), "csv", asks=("names",), texts=True),
    "tsv": Format((".tsv", ".tsv.gz"), "tsv", asks=("names",), texts=True),
    "json": Format(
        tuple(f".{kind}{end}" for kind in ("json", "jsonl", "ndjson") for end in ("", ".gz")),
        "json",
        asks=("names", "types"),
        texts=True,
    ),
}
PARQUETS = Format(FORMATS["parquet"].suffixes, "parquets", asks=("names", "gaps"))
"""Several Parquet files, or one whose folders hold columns."""

LAKES = (
    ("_delta_log", "a Delta table"),
    (".hoodie", "a Hudi table"),
    ("metadata/*.metadata.json", "an Iceberg table"),
)
"""What stands beside Parquet files of which some may hold rows that were deleted."""

_HIDDEN = re.compile(r"[._]")
TREC = {
    "rankings": Format(
        (),
        "trec_rankings",
        columns=(
            ("query", "query_id"),
            ("item", "item_id"),
            ("score", "score"),
            ("system", "system"),
            ("run line", "n_fields"),
        ),
    ),
    "labels": Format(
        (),
        "trec_labels",
        columns=(
            ("query", "query_id"),
            ("item", "item_id"),
            ("grade", "grade"),
            ("qrels line", "n_fields"),
        ),
    ),
}


@dataclass(frozen=True)
class Relation:
    """What stands behind FROM.

    Attributes:
        template: The file under `templates/inputs` that prints it.
        place: The path, the table's name or the query.
        ordered: Whether its rows have an order of their own.
        columns: The names its columns have, where the format itself fixes them.
        asks: What else can be asked of it; see `Format`.
        texts: Whether all its values are texts, a list as JSON writes it.
        lists: Columns that hold lists, as SQL and their names; it has one row an item.
        added: What it has beside its columns then, likewise.
    """

    template: str
    place: str
    ordered: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    asks: tuple[str, ...] = ()
    texts: bool = False
    lists: tuple[tuple[str, str], ...] = ()
    added: tuple[tuple[str, str], ...] = ()

    @property
    def named(self) -> bool:
        """Whether the names as the file has them can be asked for."""
        return "names" in self.asks

    @property
    def is_sql(self) -> bool:
        """Whether its text can name other tables."""
        return self.template in ("table", "query")


@dataclass(frozen=True)
class Tables:
    """The tables of an evaluation; that of the queries need not be there."""

    rankings: Relation
    labels: Relation
    queries: Relation | None = None


def relation_of(source: Source, role: str) -> Relation:
    """The relation of a source that is not in memory; nothing is opened.

    Args:
        source: A relation, a query or a file.
        role: `rankings` or `labels`; it decides how a TREC file is read.

    Raises:
        SpecError: If the source is data in memory, which no text can name.
    """
    if source.file is not None:
        relation = _file(source.file, role)
    elif source.relation is not None:
        relation = Relation("table", source.relation)
    elif source.sql is not None:
        relation = Relation("query", one_select(source.sql))
    else:
        raise SpecError(f"{role}: data in memory can be evaluated, not compiled to text")
    if isinstance(source, Rankings | Labels) and source.lists:
        return listed(relation, source.columns)
    return relation


def _file(path: str, role: str) -> Relation:
    form = _format_of(path, role)
    place = _below(path, ".parquet") if path.endswith("/") else path
    return Relation(form.template, place, True, form.columns, form.asks, form.texts)


def source_of(given: object, role: str, find: Callable[[str], str | None]) -> dict[str, object]:
    """What a person gave for a table, as the keys of a `Source`.

    Args:
        given: A path, a table's name, a `select` text, or data in memory.
        role: `rankings` or `labels`, for messages.
        find: Tells the table or view that a text names, if it names one.

    Raises:
        InputError: If a text is neither a table nor a file, or the file cannot be read.
    """
    if given is None or (isinstance(given, str) and not given):
        raise InputError(f"{role}: nothing is given")
    if not isinstance(given, str | PurePath):
        return {"data": given}
    text = str(given)
    relation = find(text) if isinstance(given, str) else None
    if relation is not None:
        return {"relation": relation}
    if isinstance(given, str) and _QUERY.match(text):
        return {"sql": text}
    return {"file": _existing(text, role)}


def one_select(text: str) -> str:
    """A user's text, if it is one query and nothing else.

    Raises:
        SpecError: If it is not.
    """
    import duckdb

    try:
        kinds = [statement.type for statement in duckdb.extract_statements(text)]
    except duckdb.Error as error:
        raise SpecError(f"a source's sql cannot be read: {str(error).strip()}") from None
    if kinds != [duckdb.StatementType.SELECT]:
        raise SpecError("a source's sql must be one select statement, and nothing else")
    return text.strip().rstrip(";")


def typed(relation: Relation) -> Relation:
    """The relation whose types are those of the values, not of the texts read from them."""
    if "types" in relation.asks:
        return Relation(f"{relation.template}_types", relation.place)
    return relation


def listed(relation: Relation, columns: Model, types: Mapping[str, str] | None = None) -> Relation:
    """The relation with one row an item, if its rows hold lists of items.

    The order of a list is the rank, unless its scores or ranks are a list too. Labels
    without grades have grade 1.

    Args:
        relation: A table whose item column may hold lists.
        columns: The columns of the rankings or the labels.
        types: The types of its columns by name; None if a spec says that they are lists.

    Raises:
        InputError: If the lists hold no ids, or other columns do not go with them.
    """
    if not isinstance(columns, RankingColumns | LabelColumns) or relation.columns:
        return relation
    return _Lists(relation, columns, types).unfolded()


@dataclass(frozen=True)
class _Lists:
    """A table whose rows may hold lists."""

    table: Relation
    columns: RankingColumns | LabelColumns
    types: Mapping[str, str] | None

    def unfolded(self) -> Relation:
        """One row an item."""
        if not self._is_list(self.columns.item):
            return self.table
        problems = list(self._problems())
        if problems:
            raise InputError(problems)
        names = [self.columns.item, *filter(self._is_list, self._values().values())]
        added = self._added(*map(identifier, names))
        return replace(
            self.table,
            columns=tuple((role, name) for role, (_, name) in added.items()),
            lists=tuple((self._sql(name), identifier(name)) for name in names),
            added=tuple((sql, identifier(name)) for sql, name in added.values()),
        )

    def _values(self) -> dict[str, str]:
        """Role -> the column of what the items have: a score or rank, a grade."""
        columns = self.columns
        values = {"grade": columns.grade} if columns.grade else {}
        if isinstance(columns, RankingColumns):
            values |= {"rank" if columns.rank else "score": columns.order}
        return {role: name for role, name in values.items() if not self._is_left_out(role, name)}

    def _is_left_out(self, role: str, name: str) -> bool:
        """Whether nobody asks for a column, so that it need not be there."""
        if isinstance(self.columns, RankingColumns) and role != "score":
            return False
        if self.types is None:
            return getattr(self.columns, role) is None or role not in self.columns.model_fields_set
        return name == role and self._type(name) is None

    def _added(self, items: str, *values: str) -> dict[str, tuple[str, str]]:
        """Role -> what lists say beside their values, as SQL, and the name it gets."""
        has, added = self._values(), {}
        if isinstance(self.columns, LabelColumns):
            if "grade" not in has:
                added["grade"] = ("1", self._free("list_grade"))
        elif not {"rank", "score"} & has.keys():
            added["rank"] = (f"generate_subscripts({items}, 1)", self._free("list_rank"))
        if values:
            lengths = ", ".join(f"len({one})" for one in (items, *values))
            unequal = f"greatest({lengths}) - least({lengths})"
            added["lists"] = (unequal, self._free("missing_values"))
        return added

    def _problems(self) -> Iterator[str]:
        """What the types of the columns say against it."""
        columns = self.columns
        table = "rankings" if isinstance(columns, RankingColumns) else "labels"
        held = re.sub(r"\[\d*\]$", "", self._type(columns.item) or "")
        if re.match(r"STRUCT|MAP|UNION|DOUBLE|FLOAT|.*\]$", held):
            yield f"{table}: {columns.item} holds lists of {held}, not of texts or whole numbers"
        if self.types is not None and self._is_list(columns.query):
            yield f"{table}: {columns.query} holds lists, not one query a row"
        order = {role: name for role, name in self._values().items() if role != "grade"}
        for name in order.values():
            if self._type(name) is not None and not self._is_list(name):
                yield (
                    f"{table}: {columns.item} holds lists, {name} one value a row: make it a "
                    "list too, or leave the column out if the order of a list is its rank"
                )

    def _is_list(self, name: str) -> bool:
        return self.types is None or re.search(r"\[\d*\]$", self._type(name) or "") is not None

    def _type(self, name: str) -> str | None:
        types = {column.casefold(): kind for column, kind in (self.types or {}).items()}
        return types.get(name.casefold())

    def _sql(self, name: str) -> str:
        """A list; in place of a missing list of items one NULL, which the checks tell."""
        sql = identifier(name)
        if self.table.texts:
            sql = f"cast(cast({sql} as json) as varchar[])"
        return f"coalesce({sql}, [null])" if name == self.columns.item else sql

    def _free(self, name: str) -> str:
        """The name, or one with a number behind it that no column has."""
        numbered = (f"{name}_{number}" for number in count(2))
        return next(free for free in chain([name], numbered) if self._type(free) is None)


def _existing(path: str, role: str) -> str:
    """A path as DuckDB globs it, once it is seen to lead to a file with something in it."""
    if path.startswith(REMOTE):
        return path
    file = Path(path)
    if file.is_file():
        if not file.stat().st_size:
            raise InputError(f"{role}: the file {path!r} is empty")
        return glob.escape(path)
    found = [path] if file.is_dir() else glob.glob(path, recursive=True)
    if not found:
        raise InputError(f"{role}: there is no file and no table {path!r}")
    if not all(map(os.path.isdir, found)):
        _without_backslash(found, role)
        return path
    suffix = _suffix_in(found, path, role)
    return _below(glob.escape(path) if file.is_dir() else path, suffix)


def _below(folder: str, suffix: str) -> str:
    """The files of a folder, of the folders in it and so on."""
    return f"{folder.rstrip('/')}/**/*{suffix}"


def _suffix_in(folders: list[str], path: str, role: str) -> str:
    """How the Parquet files below folders end, if all of them are rows of one table."""
    below = [(file, file.relative_to(folder)) for folder in folders for file in _parquet(folder)]
    hidden = [file for file, inside in below if any(map(_HIDDEN.match, inside.parts))]
    lakes = [kind for folder in folders for mark, kind in LAKES if any(Path(folder).glob(mark))]
    suffixes = {file.suffix for file, _ in below}
    _without_backslash([str(inside) for _, inside in below], role)
    problem = ""
    if not suffixes:
        problem = "is a folder"
    elif lakes:
        problem = f"is {lakes[0]}, whose files may hold rows that were deleted"
    elif hidden:
        problem = f"is a folder with files that are hidden or not finished, like {hidden[0]}"
    elif len(suffixes) > 1:
        problem = f"is a folder with files {' and '.join(sorted(suffixes))}"
    if problem:
        raise InputError(f"{role}: {path!r} {problem}; name its files, like {path}/*.parquet")
    return suffixes.pop()


def _without_backslash(files: list[str], role: str) -> None:
    """Raise InputError for a file that DuckDB would leave out of a glob, without a word."""
    odd = [file for file in files if "\\" in file and os.sep != "\\"]
    if odd:
        raise InputError(f"{role}: a file has a backslash in its name, like {odd[0]}; rename it")


def _parquet(folder: str) -> list[Path]:
    suffixes = FORMATS["parquet"].suffixes
    return [file for file in sorted(Path(folder).rglob("*")) if file.suffix.lower() in suffixes]


def _format_of(path: str, role: str) -> Format:
    if path.endswith("/"):
        return PARQUETS
    name = path.casefold()
    for form in FORMATS.values():
        if name.endswith(form.suffixes):
            several = form is FORMATS["parquet"] and re.search(r"[*?\[=]", path)
            return PARQUETS if several else form
    if role not in TREC:
        known = ", ".join(suffix for form in FORMATS.values() for suffix in form.suffixes)
        raise SpecError(f"{role}: {path!r} is no file of {known}")
    return TREC[role]
