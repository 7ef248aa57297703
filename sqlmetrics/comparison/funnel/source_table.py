"""What each source of candidates finds: its rows, and how people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sqlmetrics.comparison.funnel.funnel_table import KINDS, SIZES, Cell, Funnel, percent
from sqlmetrics.tables.table import metric_value, printable
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    import pyarrow as pa

_LOST = ("stage", "stage_number", "n_kept", "n_lost", "retention", "lost_share")


@dataclass(frozen=True, repr=False)
class SourceFunnel(Funnel):
    """What each source of candidates finds, and what would be missed without it.

    Attributes:
        rows: One a system, segment and source, and one of all sources together, the last.
        measures: The metrics, each of which is a key of the rows like `ndcg_at_10`.
        notes: What a reader should know.
        sql: The statements that ran.
    """

    kinds: ClassVar[Mapping[str, str]] = {
        **{name: kind for name, kind in KINDS.items() if name not in _LOST},
        "source": "string",
        "n_unique": "int64",
        "unique_recall": "double",
    }

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """The rows as an Arrow table.

        `list_size` is the mean number of items of a source's lists, `n_missing` the queries to
        which it adds nothing. Of the `n_relevant` relevant items of all queries a source has
        `n_found`, of which no other one has `n_unique`; in the row of all sources together
        `n_unique` have one source alone. `recall` and `unique_recall` are the means over queries of
        these over the query's relevant items, from 0 to 1: how much is found, and how much would
        be missed without the source.
        """
        return super().to_arrow(table)

    def _shown(self) -> dict[str, Cell]:
        return {
            "source": lambda row: printable(row["source"]),
            **SIZES,
            "recall": lambda row: metric_value(row["recall"]),
            "unique recall": lambda row: metric_value(row["unique_recall"]),
            "found": lambda row: f"{row['n_found']:,}",
            "here alone": lambda row: f"{row['n_unique']:,}",
        }

    def _sentence(self, rows: Sequence[Row]) -> str:
        """What is found, and which sources add most and least to it."""
        *sources, every = rows
        n_relevant = every["n_relevant"]
        if not n_relevant:
            return "there is no relevant item"
        share = percent(every["n_found"] / n_relevant)
        summary = (
            f"together they find {every['n_found']:,} of {n_relevant:,} relevant items ({share})"
        )
        if len(sources) < 2:
            return summary
        least, *_, most = sorted(sources, key=lambda row: row["n_unique"])
        missed, little = most["n_unique"], least["n_unique"]
        if not missed:
            return f"{summary}; no source alone has any of them"
        return (
            f"{summary}; without {printable(most['source'])} {missed:,} of these are missed "
            f"({percent(missed / n_relevant)} of all), without {printable(least['source'])} "
            f"{little:,} ({percent(little / n_relevant)})"
        )
