"""The file formats: which names have them, and the templates that read them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlmetrics.errors import SpecError


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
        separator: What is usually between the values of a line; empty if lines have no values.
    """

    suffixes: tuple[str, ...]
    template: str
    asks: tuple[str, ...] = ()
    texts: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    separator: str = ""


FORMATS = {
    "parquet": Format((".parquet", ".pq"), "parquet", asks=("names",)),
    "csv": Format((".csv", ".csv.gz"), "csv", asks=("names",), texts=True, separator=","),
    "tsv": Format((".tsv", ".tsv.gz"), "csv", asks=("names",), texts=True, separator="\t"),
    "json": Format(
        tuple(f".{kind}{end}" for kind in ("json", "jsonl", "ndjson") for end in ("", ".gz")),
        "json",
        asks=("names", "types"),
        texts=True,
    ),
}
PARQUETS = Format(FORMATS["parquet"].suffixes, "parquets", asks=("names", "gaps"))
"""Several Parquet files, or one whose folders hold columns."""

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
            ("group", "iteration"),
            ("qrels line", "n_fields"),
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
