"""Results that are rows with a contract of columns, in the forms that programs take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlmetrics.tables.cells import printable
from sqlmetrics.tables.records import json_lines

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


class Rows(ABC):
    """Rows; a subclass says what its columns mean, and how people read them.

    Attributes:
        rows: The rows, which may have more keys than columns.
    """

    rows: tuple[Row, ...]

    @abstractmethod
    def _kinds(self) -> Mapping[str, str]:
        """Column -> its type, as Arrow spells it."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[Row]:
        """The rows as a list of dicts."""
        return [{name: row[name] for name in self._kinds()} for row in self.rows]

    def to_json(self) -> str:
        """The rows as JSON: a list of objects, null for what is not known."""
        return json_lines(self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        kinds = self._kinds().items()
        schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in kinds])
        return pa.Table.from_pylist(self.to_dicts(), schema)

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars DataFrame."""
        import polars as pl

        return pl.from_arrow(self.to_arrow())


def block(row: Row) -> tuple[str, str, str]:
    """What rows have in common that stand below one heading."""
    return row["system"], row["segment_name"], row["segment_value"]


def segment_text(row: Row) -> str:
    """The segment of a row, like `country=DE`; empty for all queries."""
    if row["segment_name"] == "all":
        return ""
    return f"{row['segment_name']}={row['segment_value']}"


def of_segment(name: str, value: str) -> str:
    """The end of a heading: the segment; empty for all queries."""
    return "" if name == "all" else f", {printable(name)}={printable(value)}"
