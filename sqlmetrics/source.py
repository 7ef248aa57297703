"""Where the two tables of a spec are, and which columns they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

REMOTE = ("s3://", "http://", "https://", "gs://", "gcs://", "r2://", "hf://")


def beside(spec: str | Path, file: str) -> str:
    """A file that a spec names, as seen from where we are: paths start beside the spec."""
    return file if file.startswith(REMOTE) else str(Path(spec).parent / file)


class Model(BaseModel):
    """Frozen, with unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class RankingColumns(Model):
    """The columns of the rankings: exactly one of score and rank orders a list."""

    query: str = "query_id"
    item: str = "item_id"
    score: str | None = None
    rank: str | None = None
    system: str | None = None
    date: str | None = None
    weight: str | None = None

    @model_validator(mode="after")
    def _one_order(self) -> RankingColumns:
        if self.score and self.rank:
            raise ValueError("give score or rank, not both")
        return self

    @property
    def order(self) -> str:
        """The column that orders a list."""
        return self.rank or self.score or "score"


class LabelColumns(Model):
    """The columns of the labels; without a date they hold for every day."""

    query: str = "query_id"
    item: str = "item_id"
    grade: str = "grade"
    date: str | None = None


class Source(Model):
    """Where a table is: a relation of the database, a query, a file, or data in memory.

    Attributes:
        relation: The name of a table or view, with its schema where it has one.
        sql: A `select` statement.
        file: A path of Parquet, CSV or TREC text; .gz and globs are understood.
        data: A pandas or polars DataFrame, or anything that speaks Arrow.
    """

    relation: str | None = None
    sql: str | None = None
    file: str | None = None
    data: Any = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        places = (self.relation, self.sql, self.file, self.data)
        if sum(place is not None for place in places) != 1:
            raise ValueError("give exactly one of relation, sql and file")
        return self

    @property
    def name(self) -> str:
        """A short name for it: the file's or the relation's own, else `rankings`."""
        if self.file:
            return Path(self.file).name.split(".")[0] or "rankings"
        return (self.relation or "rankings").strip('"').replace('""', '"')


class Rankings(Source):
    """Rows (query, item, score or rank [, system, date, weight, segments])."""

    columns: RankingColumns = RankingColumns()


class Labels(Source):
    """Rows (query, item, grade [, date])."""

    columns: LabelColumns = LabelColumns()
