"""The file formats: which names have them, and the templates that read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.template import literal


@dataclass(frozen=True)
class Format:
    """A file format: which names have it, and the template that reads it.

    Attributes:
        suffixes: Endings of file names; empty for what no other format claims.
        template: The file under `templates/inputs`.
        details: What else can be asked of the file, each by `<template>_<what>`: its `names`,
            before DuckDB renames what differs in case alone; the `types` of its values,
            where the template makes all of them text; the `gaps`, columns that some of
            several files have not.
        texts: Whether all its values are read as texts, a list as JSON writes it.
        columns: The names its columns have, where the format itself fixes them.
        separator: What is usually between the values of a line; empty if lines have no values.
    """

    suffixes: tuple[str, ...]
    template: str
    details: tuple[str, ...] = ()
    texts: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    separator: str = ""


FORMATS = {
    "parquet": Format((".parquet", ".pq"), "parquet", details=("names",)),
    "csv": Format((".csv", ".csv.gz"), "csv", details=("names",), texts=True, separator=","),
    "tsv": Format((".tsv", ".tsv.gz"), "csv", details=("names",), texts=True, separator="\t"),
    "json": Format(
        tuple(f".{kind}{end}" for kind in ("json", "jsonl", "ndjson") for end in ("", ".gz")),
        "json",
        details=("names", "types"),
        texts=True,
    ),
}
PARQUETS = Format(FORMATS["parquet"].suffixes, "parquets", details=("names", "gaps"))
"""Several Parquet files, or one whose folders hold columns."""

LINE_LENGTH = "n_fields"
"""The column of TREC files that says how many fields a line has; no file has it by that name."""

TREC = {
    "rankings": Format(
        (),
        "trec_rankings",
        columns=(
            ("query", "query_id"),
            ("item", "item_id"),
            ("score", "score"),
            ("system", "system"),
            ("run line", LINE_LENGTH),
        ),
    ),
    "labels": Format(
        (),
        "trec_labels",
        columns=(
            ("query", "query_id"),
            ("item", "item_id"),
            ("grade", "grade"),
            ("group", "iteration"),
            ("qrels line", LINE_LENGTH),
        ),
    ),
}


RUN, QRELS = 6, 4
"""How many fields a line of TREC has; a run has more where its name has blanks."""

SPECS = (".yml", ".yaml")
"""Endings of the files of specs: no tables, though those of TREC have any ending."""


def holds_row(line: str) -> bool:
    """Whether a line of TREC is neither empty nor a comment."""
    return line.strip()[:1] not in ("", "#")


def fields_of(line: str) -> list[str]:
    r"""The fields of a line of TREC: between blanks, or between tabs where these suffice.

    >>> fields_of("q 0 d 1"), fields_of("q\t0\tred shoe\t1")
    (['q', '0', 'd', '1'], ['q', '0', 'red shoe', '1'])
    """
    fields = [field.strip() for field in line.strip().split("\t")]
    return fields if len(fields) in (RUN, QRELS) else line.split()


def format_of(path: str, role: str) -> Format:
    """The format of a path, by its end; what no other claims is TREC.

    Raises:
        SpecError: If it is a spec, or no format that this role can have.
    """
    if path.endswith("/"):
        return PARQUETS
    name = path.casefold()
    for form in FORMATS.values():
        if name.endswith(form.suffixes):
            several = form is FORMATS["parquet"] and re.search(r"[*?\[=]", path)
            return PARQUETS if several else form
    if name.endswith(SPECS):
        raise SpecError(f"{role}: {path!r} is YAML, not a table; give a spec alone")
    if role not in TREC:
        suffixes = ", ".join(suffix for form in FORMATS.values() for suffix in form.suffixes)
        raise SpecError(f"{role}: {path!r} is not a file of {suffixes}")
    return TREC[role]


# Of tables in hive folders of days, the files of those days that are read.
#
# A database prunes the others as well, but opens each of them for every statement to learn its
# columns; so the files are named.

DAY = "day_of_file"
"""The column that has the day of a file's folder."""


def read_on_days(tables: Tables, spec: Spec, engine: Database) -> Tables:
    """The tables of an evaluation, with the files alone that may have rows of its days."""
    source_by_table = {"rankings": spec.rankings, "labels": spec.truth, "queries": spec.queries}
    relation_by_table: dict[str, Any] = {}
    for name, source in source_by_table.items():
        relation: Relation | None = getattr(tables, name)
        column = getattr(source.columns, "date", None) if source else None
        if relation and column and tables.ends:
            days = tables.ends.of(f"try_cast({DAY} as date)")
            relation_by_table[name] = near(relation, column, " and ".join(days), engine)
    return replace(tables, **relation_by_table)


def near(relation: Relation, column: str, days: str, engine: Database) -> Relation:
    """A table with the files alone whose folder has a day that meets a condition.

    It is left as it is where all do, or they have not the columns, of the same types, that all
    files have together. Where none does, it has one file, for its columns.

    Args:
        relation: Where it is.
        column: The column of days.
        days: What `DAY` meets.
        engine: The database.
    """
    if relation.template != PARQUETS.template or engine.translation.changes:
        return relation
    narrowed = replace(relation, files=_files(relation.location, column, days, engine))
    is_same = narrowed == relation or _types(narrowed, engine) == _types(relation, engine)
    return narrowed if is_same else relation


def _types(relation: Relation, engine: Database) -> Mapping[str, str]:
    return {name.casefold(): kind for name, kind in engine.columns(source_text(relation)).items()}


def _files(path: str, column: str, days: str, engine: Database) -> tuple[str, ...]:
    """The files of the folders whose day meets a condition, or is no day; none for all."""
    folder = rf"[/\\]{re.escape(column)}=([^/\\]*)[/\\]"
    rows = engine.rows(
        f"select\n    file,\n    coalesce({DAY} = '' or "
        f"{days}, true) as is_near\nfrom (\n    select\n        file,\n"
        f"        regexp_extract(file, {literal(folder)}, 1) as {DAY}\n"
        f"    from glob({literal(path)})\n) as files\norder by file"
    )
    near = [file for file, is_near in rows if is_near] or [file for file, _ in rows[:1]]
    return tuple(near) if len(near) < len(rows) else ()
