"""Where the two tables of a spec are, and which columns they have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from sqlmetrics.catalog.metric import is_column_role
from sqlmetrics.errors import shortened
from sqlmetrics.spec.schema import Placeholder
from sqlmetrics.spec.zones import checked_zone
from sqlmetrics.sql.relation import file_title
from sqlmetrics.sql.template import identifier
from sqlmetrics.sql.user_sql import condition

if TYPE_CHECKING:
    from sqlmetrics.spec.mixture import FusedSystem
else:

    class FusedSystem(Placeholder):
        """The model of a system that is made of others, which few specs have."""

        home, name = "sqlmetrics.spec.mixture", "FusedSystem"


REMOTE = ("s3://", "http://", "https://", "gs://", "gcs://", "r2://", "hf://")


def resolve_file(spec: str | Path, file: str) -> str:
    """A file that a spec names, as seen from where we are: paths start beside the spec."""
    if file.startswith(REMOTE):
        return file
    folder = "/" if file.endswith("/") else ""  # which a Path would lose
    return f"{Path(spec).parent / file}{folder}"


Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A number that can be a grade."""


class Model(BaseModel):
    """Frozen, with unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True
    )


class NamedColumns(Model):
    """Columns of which metrics may name others too."""

    def named(self, role: str) -> str | None:
        """The column of a role, None where there is none.

        >>> ItemColumns(popularity="clicks").named("popularity"), ItemColumns().named("users")
        ('clicks', None)
        >>> ItemColumns().named("number_price")
        'price'
        """
        if not is_column_role(role):
            return getattr(self, role)  # type: ignore[no-any-return]
        name = role.partition("_")[2]
        column = getattr(self, name) if name in type(self).model_fields else None
        return column if isinstance(column, str) else name


class RankingColumns(Model):
    """The columns of the rankings: exactly one of score and rank orders a list."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": ["score", "rank"]}})

    query: str = "query_id"
    """The column of the query's id."""
    item: str = "item_id"
    """The column of the item's id."""
    score: str | None = None
    """The column of scores, highest first; or give rank."""
    rank: str | None = None
    """The column of ranks, 1 being the best; or give score."""
    system: str | None = None
    """The column of the ranker, model or run."""
    date: str | None = None
    """The column of the day; it is then a part of a query's identity."""
    weight: str | None = None
    """The column of query weights; means are weighted by them."""
    grade: str | None = None
    """The labels' grade, if the rankings are joined with their labels already."""

    @model_validator(mode="after")
    def _one_order(self) -> RankingColumns:
        if self.score and self.rank:
            raise ValueError("give score or rank, not both")
        return self

    @property
    def order(self) -> str:
        """The column that orders a list."""
        return self.rank or self.score or "score"


class LabelColumns(NamedColumns):
    """The columns of the labels; without a date they hold for every day."""

    query: str = "query_id"
    """The column of the query's id."""
    item: str = "item_id"
    """The column of the item's id."""
    grade: str = "grade"
    """The column of grades, 0 being bad."""
    group: str | None = None
    """The column of the group (subtopic, nugget, intent, evidence set) that the item is graded
    for; an item may have a row for each of several groups."""
    date: str | None = None
    """The column of the day; it is then a part of a query's identity."""


class QueryColumns(NamedColumns):
    """The columns of the queries table; its segments can be named in `by`."""

    query: str = "query_id"
    """The column of the query's id."""
    text: str | None = None
    """The column of the query's text."""
    weight: str | None = None
    """The column of query weights; means are weighted by them."""
    date: str | None = None
    """The column of the day; it is then a part of a query's identity."""
    segments: tuple[str, ...] = ()
    """Columns that `by` can name."""


class ItemColumns(NamedColumns):
    """The columns of the items table."""

    item: str = "item_id"
    """The column of the item's id."""
    title: str | None = None
    """The column of the item's title."""
    category: str | None = None
    """The column of the item's category."""
    popularity: str | None = None
    """The column of the item's popularity: a count, such as its clicks."""
    users: str | None = None
    """The column of how many users there are in all, where popularity counts users; the same for
    each item."""
    vector: str | None = None
    """The column of the item's vector: a list of numbers, equally long for all."""


SEPARATED = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""Endings of files whose lines are values with something between them."""


def is_separated(file: object) -> bool:
    """Whether a path is of a file whose lines are values with something between them."""
    return isinstance(file, str) and file.casefold().endswith(SEPARATED)


_QUERY = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:select|with|from|values)\b(?!\.)", re.IGNORECASE | re.DOTALL
)


def is_query(text: str) -> bool:
    """Whether a text that a person gave for a table is a query.

    >>> is_query("select * from runs"), is_query("runs.v2")
    (True, False)
    """
    return _QUERY.match(text) is not None


def separator(text: str) -> str:
    r"""One character to split lines at; a tab may be written as a word.

    Raises:
        ValueError: If it is none.

    >>> separator(";"), separator("tab")
    (';', '\t')
    """
    text = "\t" if text in ("tab", r"\t") else text
    if len(text) != 1 or text in '"\r\n\0':
        raise ValueError("must be one character, like ; or | or tab")
    return text


def table_name(name: str) -> str:
    """A dotted name whose parts are all there.

    Raises:
        ValueError: If one is empty, or a quote is left open.

    >>> table_name('shop."my.runs"')
    'shop."my.runs"'
    """
    if not _TABLE_NAME.fullmatch(name):
        raise ValueError(
            f'must be the name of a table, like runs, shop.runs or shop."my runs", given {name!r}'
        )
    return name


_PART = r'(?:"(?:[^"\0]|"")+"|[^."\s\0](?:[^."\0]*[^."\s\0])?)'
_TABLE_NAME = re.compile(rf"\s*{_PART}(?:\.{_PART})*\s*")


class Source(Model):
    """Where a table is: a relation of the database, a query, a file, or data in memory."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [key]} for key in ("relation", "sql", "file")]}
    )

    relation: str | None = None
    """The name of a table or view, with its schema where it has one."""
    sql: str | None = None
    """A `select` statement."""
    file: str | None = None
    """A path of Parquet, CSV, JSON or TREC text, or a folder of Parquet; .gz and globs are
    understood."""
    data: SkipJsonSchema[Any] = Field(default=None, exclude=True, repr=False)
    """A pandas or polars DataFrame, or anything that speaks Arrow."""
    separator: str | None = None
    """What is between the values of a CSV file; without it, what its header line shows: a comma,
    semicolon, tab or bar."""
    decimal: Literal[".", ","] | None = None
    """The decimal mark of its numbers, `.` or `,`."""
    where: str | None = None
    """A condition; only the rows that meet it are there."""
    columns: Model = Field(default_factory=Model)
    """The names of its columns, by their roles."""

    @field_validator("relation")
    @classmethod
    def _table_name(cls, name: str | None) -> str | None:
        return name if name is None else table_name(name)

    @field_validator("where")
    @classmethod
    def _condition(cls, text: str | None) -> str | None:
        return text if text is None else condition(text)

    @field_validator("separator")
    @classmethod
    def _separator(cls, text: str | None) -> str | None:
        return text if text is None else separator(text)

    @model_validator(mode="after")
    def _separated(self) -> Source:
        given_options = [
            name for name in ("separator", "decimal") if getattr(self, name) is not None
        ]
        if given_options and not is_separated(self.file):
            raise ValueError(
                f"{' and '.join(given_options)}: only for files {', '.join(SEPARATED)}"
            )
        return self

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        places = (self.relation, self.sql, self.file, self.data)
        if sum(origin is not None for origin in places) != 1:
            raise ValueError("give exactly one of relation, sql and file")
        return self

    @property
    def name(self) -> str:
        """A short name for it: the file's or the relation's own, else `rankings`."""
        if self.file:
            path = Path(self.file)
            while path.stem in ("*", "**"):  # the files below a folder
                path = path.parent
            return file_title(re.sub(r"\[([*?[])\]", r"\1", path.name)) or "rankings"
        return (self.relation or "rankings").strip('"').replace('""', '"')


class DatedSource(Source):
    """A table that may have days."""

    time_zone: str | None = None
    """Whose days the column `date` has, where it is a time with a zone: a name like Europe/Berlin.
    Default: UTC."""

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, name: str | None) -> str | None:
        return name if name is None else checked_zone(name)


class RankedLists(DatedSource):
    """Rows (query, item, score or rank [, system, date, weight, segments])."""

    columns: RankingColumns = Field(default_factory=RankingColumns)
    grades: Mapping[str, Finite] = {}
    """The numbers of grades that are texts, where the labels stand in the rankings."""
    skip_bad: bool = False
    """Whether files of a glob that cannot be read, or have broken lines, are left out, with a
    note."""
    lists: bool = False
    """Whether a row holds a list of items, for SQL that is made without a look at the table;
    `evaluate` sees it by the type of the item column."""


class Rankings(RankedLists):
    """Rows (query, item, score or rank [, system, date, weight, segments])."""

    fuse: tuple[FusedSystem, ...] = ()
    """Systems that are made of others of these: what hybrid search makes of its retrievers, beside
    them."""
    fused_only: bool = False
    """Whether the others are left out, once they are fused."""

    @model_validator(mode="before")
    @classmethod
    def _fields(cls, value: object) -> object:
        return dict(value) if isinstance(value, RankedLists) else value

    @model_validator(mode="after")
    def _systems_to_fuse(self) -> Rankings:
        names = [system.name for system in self.fuse]
        if self.fused_only and not names:
            raise ValueError("fused_only needs fuse, the systems that are made of others")
        if names and self.columns.system is None:
            raise ValueError("fuse needs the column of systems; name it as columns.system")
        if len({*names}) < len(names):
            raise ValueError(f"fuse has a name twice, given {shortened(', '.join(names))}")
        for system in self.fuse:
            if {*system.run_names} & {*names}:
                raise ValueError("fuse: a run of one cannot be another; name the systems of both")
            if self.columns.rank and not system.mixture.reads_ranks:
                raise ValueError(f"fuse: {system.mixture.needs_scores}")
        return self

    @property
    def unfused(self) -> Rankings:
        """The same without the systems that are made of others."""
        return self.model_copy(update={"fuse": (), "fused_only": False})


class Labels(DatedSource):
    """Rows (query, item, grade [, date])."""

    columns: LabelColumns = Field(default_factory=LabelColumns)
    grades: Mapping[str, Finite] = {}
    """The numbers of grades that are texts, like {high: 3, none: 0}."""
    lists: bool = False
    """Whether a row holds a list of items, as of `rankings`."""


def no_labels(columns: Any = None) -> dict[str, Any]:
    """The labels of a spec that has none yet: a query without a row.

    Args:
        columns: What their columns are called.
    """
    column_by_role = {role: (columns or LabelColumns()).model_dump()[role] for role in _OF_LABELS}
    values = {"query": "''", "item": "''", "grade": "0"}
    read = ", ".join(
        f"{value} as {identifier(column_by_role[role])}" for role, value in values.items()
    )
    return {
        "sql": f"select {read} from (select 1 as n) as no_rows where n = 0",
        "columns": column_by_role,
    }


_OF_LABELS = ("query", "item", "grade")


class Queries(DatedSource):
    """Rows (query [, text, weight, date, segments]), one a query (and day)."""

    columns: QueryColumns = Field(default_factory=QueryColumns)


class Output(Model):
    """Where `run` writes."""

    relation: str
    """The fact table."""
    per_query: str | None = None
    """The table of one row per query; none if it is not given."""
    runs: str | None = None
    """The table of one row per run; by default the fact table's name with `_runs`."""

    @field_validator("relation", "per_query", "runs")
    @classmethod
    def _table_name(cls, name: str | None) -> str | None:
        return name if name is None else table_name(name)

    views: bool = True
    """Whether there are views beside the fact table: wide, latest, daily change, all days
    together, all days so far, and beside a baseline."""
    keep: int | str | None = None
    """How long rows that a run replaces or removes are kept, for `restore`: a number of runs, or
    days like `30 days`; `none` keeps none. By default those of the last 10 runs that replaced
    any, where the database has transactions."""

    @field_validator("keep")
    @classmethod
    def _duration(cls, keep: int | str | None) -> int | str | None:
        if keep is None:
            return None
        text = str(keep).strip().casefold()
        match = re.fullmatch(r"(\d{1,6})(?: (runs?|days?))?", text)
        if text == "none" or (match and not int(match[1])):
            return "none"
        if match is None or isinstance(keep, bool):
            raise ValueError(
                f"keep must be a number of runs, days like 30 days, or none; given {keep}"
            )
        return f"{int(match[1])} days" if (match[2] or "").startswith("day") else int(match[1])

    def named(self, suffix: str) -> str:
        """The name of something that stands beside the fact table.

        >>> Output(relation='bi."Ranking metrics"').named("runs")
        'bi."Ranking metrics_runs"'
        """
        return beside_table(self.relation, suffix)


def beside_table(name: str, suffix: str) -> str:
    """The name of a table or view that stands beside another one.

    >>> beside_table("bi.per_query", "archive")
    'bi.per_query_archive'
    """
    return f'{name[:-1]}_{suffix}"' if name.endswith('"') else f"{name}_{suffix}"


class Items(Source):
    """Rows (item [, title, category, popularity, users, vector]), one an item of the catalogue."""

    columns: ItemColumns = Field(default_factory=ItemColumns)
