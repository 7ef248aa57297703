"""What stands behind FROM."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import ClassVar

from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import free_name
from sqlmetrics.sql.translation import Translation

ENDINGS = r"(\.(parquet|pq|csv|tsv|jsonl?|ndjson|txt|trec|run|res|dat|qrels))?(\.gz)?$"
"""What the name of a file ends in by its format, as Python and DuckDB match it."""

PACKED = r"(?<=.)\.(xz|bz2|zst|zip)$"
"""What it ends in where it is packed as DuckDB does not read it."""


def file_title(file: str) -> str:
    """The name of a file, without the ending of its format.

    >>> file_title("runs/k1=0.9.txt.gz"), file_title("dense.v2.trec.xz"), file_title("input.bm25")
    ('k1=0.9', 'dense.v2', 'input.bm25')
    """
    name = re.sub(PACKED, "", PurePath(file).name, flags=re.IGNORECASE)
    return re.sub(ENDINGS, "", name, flags=re.IGNORECASE) or name


@dataclass(frozen=True)
class Relation:
    """What stands behind FROM.

    Attributes:
        template: The file under `templates/inputs` that prints it.
        location: Where its rows are: the path, the table's name or the query.
        ordered: Whether its rows have an order of their own.
        columns: The names its columns have, where the format itself fixes them.
        details: What else can be asked of it; see `Format`.
        texts: Whether all its values are texts, a list as JSON writes it.
        lists: Columns that hold lists, as SQL and their names; it has one row per item.
        added: What it has beside its columns then, likewise.
        separator: What is between the values of a line, as SQL's text has it.
        trimmed: Whether the blanks around values are left out.
        decimals: Its columns of numbers with a decimal comma.
        whole_numbers: Its columns of floating-point numbers that are read as whole ones.
        files: Those alone that are read, where the path names more; empty for all.
        folder: Where the names of its files begin, if it has a column `file` with these names.
        has_blanks: Whether the names of its runs of TREC may have blanks.
        note: As what it was read, where that is to be told.
    """

    template: str
    location: str
    ordered: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    details: tuple[str, ...] = ()
    texts: bool = False
    lists: tuple[tuple[str, str], ...] = ()
    added: tuple[tuple[str, str], ...] = ()
    separator: str = ""
    trimmed: bool = False
    decimals: tuple[str, ...] = ()
    whole_numbers: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folder: str | None = None
    has_blanks: bool = False
    note: str = ""

    endings: ClassVar[str] = ENDINGS

    @property
    def named(self) -> bool:
        """Whether the names as the file has them can be asked for."""
        return "names" in self.details

    @property
    def loses_types(self) -> bool:
        """Whether it has texts of values whose types can be asked for, as JSON has them."""
        return "types" in self.details

    @property
    def of_all_files(self) -> Relation:
        """The same with every file that the path names."""
        return replace(self, files=())

    @property
    def is_sql(self) -> bool:
        """Whether its text can name other tables."""
        return self.template in ("table", "query", "runs")


def unmentioned(name: str, relations: Iterable[Relation], *, instead: str = "") -> str:
    """A name for a stage that no relation mentions, so that it hides no table.

    Args:
        name: The name.
        relations: What stands behind FROM elsewhere.
        instead: What to call it where one of them mentions the name; default: the name with a
            number.
    """
    locations = " ".join(relation.location for relation in relations if relation.is_sql)
    used_words = {*re.findall(r"\w+", locations.casefold())}
    return name if name not in used_words else free_name(instead or name, used_words.__contains__)


def protect_query(relation: Relation, translation: Translation) -> Relation:
    """A relation as a translation takes it: a query of the user's stays as it is."""
    if relation.template != "query":
        return relation
    return replace(relation, location=translation.query(relation.location))


def typed(relation: Relation) -> Relation:
    """The relation whose types are those of the values, not of the texts read from them."""
    if relation.loses_types:
        return Relation(f"{relation.template}_types", relation.location, files=relation.files)
    return relation


def source_text(relation: Relation, where: str = "") -> str:
    """What stands behind FROM, with the rows that meet a condition."""
    text = print_template("inputs/relation", {"relation": relation})
    return f"(select * from {text} where {where}) as chosen" if where else text
