"""Results that are rows with a contract of columns, in the forms that programs take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from sqlmetrics.tables.table import segment_cell
from sqlmetrics.tables.tabular import ArrowTables, Kinds, Row, Tabular, arrow_tables


class Rows(Tabular, ABC):
    """Rows; a subclass says what its columns mean, and how people read them.

    Attributes:
        rows: The rows, which may have more keys than columns.
    """

    rows: tuple[Row, ...]
    _is_drawn: ClassVar[bool] = True

    @abstractmethod
    def _kinds(self) -> Kinds:
        """Column -> its type, as Arrow spells it."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[Row]:
        """The rows as a list of dicts."""
        return [{name: row[name] for name in self._kinds()} for row in self.rows]

    def _arrow_tables(self) -> ArrowTables:
        return arrow_tables([self.rows], {"rows": self._kinds()})


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
    return "" if name == "all" else f", {segment_cell(name, value)}"
