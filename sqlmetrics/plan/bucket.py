"""A part of the queries, whose evaluation needs no other part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bucket:
    """Some of the queries, with all their rankings and labels.

    Attributes:
        conditions: Table -> what its rows in this bucket meet, over the source's columns.
        systems: The systems of each day that is looked at, also those without a list in this
            bucket: day and system, as far as there are such columns, each as values in SQL.
        rows: About how many rows of the rankings are in it.
        number: Its number.
    """

    conditions: Mapping[str, str] = field(default_factory=dict)
    systems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: int = 0
    number: int = 0

    def of(self, table: str, condition: str) -> str:
        """A condition of a table's rows together with that of the bucket."""
        conditions = [part for part in (condition, self.conditions.get(table, "")) if part]
        return conditions[0] if len(conditions) == 1 else " and ".join(f"({c})" for c in conditions)


WHOLE = Bucket()
