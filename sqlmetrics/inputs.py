"""Files, frames and tables -> relations that DuckDB can read in a FROM clause."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath

from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.source import REMOTE, Source

_QUERY = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:select|with|from|values)\b(?!\.)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class Format:
    """A file format: which names have it, and the template that reads it.

    Attributes:
        suffixes: Endings of file names; empty for what no other format claims.
        template: The file under `templates/inputs`.
        named: Whether `<template>_names` prints a query for the names as the file has
            them, before DuckDB renames what differs in case alone.
        columns: The names its columns have, where the format itself fixes them.
    """

    suffixes: tuple[str, ...]
    template: str
    named: bool = False
    columns: tuple[tuple[str, str], ...] = ()


FORMATS = {
    "parquet": Format((".parquet", ".pq"), "parquet", named=True),
    "csv": Format((".csv", ".csv.gz"), "csv", named=True),
    "tsv": Format((".tsv", ".tsv.gz"), "tsv", named=True),
}
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
        named: Whether the names as the file has them can be asked for.
    """

    template: str
    place: str
    ordered: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    named: bool = False

    @property
    def is_sql(self) -> bool:
        """Whether its text can name other tables."""
        return self.template in ("table", "query")


@dataclass(frozen=True)
class Tables:
    """The two tables of an evaluation."""

    rankings: Relation
    labels: Relation


def relation_of(source: Source, role: str) -> Relation:
    """The relation of a source that is not in memory; nothing is opened.

    Args:
        source: A relation, a query or a file.
        role: `rankings` or `labels`; it decides how a TREC file is read.

    Raises:
        SpecError: If the source is data in memory, which no text can name.
    """
    if source.relation is not None:
        return Relation("table", source.relation)
    if source.sql is not None:
        return Relation("query", one_select(source.sql))
    if source.file is None:
        raise SpecError(f"{role}: data in memory can be evaluated, not compiled to text")
    form = _format_of(source.file, role)
    return Relation(form.template, source.file, True, form.columns, form.named)


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


def _existing(path: str, role: str) -> str:
    """A path as DuckDB globs it, once it is seen to lead to a file with something in it."""
    if path.startswith(REMOTE):
        return path
    file = Path(path)
    if file.is_dir():
        raise InputError(f"{role}: {path!r} is a folder; name its files, like {path}/*.parquet")
    if file.is_file():
        if not file.stat().st_size:
            raise InputError(f"{role}: the file {path!r} is empty")
        return glob.escape(path)
    if glob.glob(path):
        return path
    raise InputError(f"{role}: there is no file and no table {path!r}")


def _format_of(path: str, role: str) -> Format:
    name = path.casefold()
    for form in FORMATS.values():
        if name.endswith(form.suffixes):
            return form
    return TREC[role]
