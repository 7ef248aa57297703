"""The result of a funnel: its rows, and how people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.report.rows import Rows, block, of_segment
from sqlmetrics.tables.table import Table, many, metric_value, printable
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    import pyarrow as pa

WIDTH = 80

KINDS = {
    **dict.fromkeys(("system", "segment_name", "segment_value", "stage"), "string"),
    **dict.fromkeys(("stage_number", "n_queries", "n_missing"), "int64"),
    "list_size": "double",
    **dict.fromkeys(("n_relevant", "n_found", "n_kept", "n_lost"), "int64"),
    **dict.fromkeys(("recall", "retention", "lost_share"), "double"),
}
"""Column -> its type; behind them stand those of the metrics."""


Cell = Callable[[Row], str]

SIZES: Mapping[str, Cell] = {
    "items": lambda row: _size(row["list_size"]),
    "missing": lambda row: f"{row['n_missing']:,}",
}
"""Heading -> its cell: how long lists are, and how many are not there."""


@dataclass(frozen=True, repr=False)
class Funnel(Rows):
    """The stages at which relevant items are lost; it prints as tables and sentences.

    Attributes:
        rows: One row per system, segment and stage, in this order; see `to_arrow` for their keys.
        measures: The metrics; each is a key of the rows, such as `ndcg_at_10`.
        notes: Sentences that a reader should know.
        executed_sql: The statements that ran.
    """

    rows: tuple[Row, ...]
    measures: tuple[Measure, ...]
    notes: tuple[str, ...]
    executed_sql: str

    kinds: ClassVar[Mapping[str, str]] = KINDS
    """Column -> its type, without the metrics."""

    def _kinds(self) -> dict[str, str]:
        return {**self.kinds} | {measure.column: "double" for measure in self.measures}

    @property
    def sentences(self) -> tuple[str, ...]:
        """Where most items are lost: one sentence per system and segment."""
        return tuple(self._sentence(rows) for _, rows in self._stages_by_heading())

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """The rows as an Arrow table.

        `list_size` is the mean number of items in a list, `n_missing` the number of queries without
        a list. Of the `n_relevant` relevant items of all queries, `n_found` are in the lists of the
        stage, `n_kept` in these and in those of the stage before, and `n_lost` were in the stage
        before but in no later one; at the first stage, in no stage. `n_lost` of all stages and
        `n_found` of the last one add up to `n_relevant`. `lost_share` is `n_lost` / `n_relevant`.

        `recall`, `retention` (found items over those found by the stage before) and the metrics are
        means over queries, the first two from 0 to 1; NULL if no query has a value, as for the
        retention of the first stage.
        """
        return super().to_arrow(table)

    def _stages_by_heading(self) -> Iterator[tuple[str, list[Row]]]:
        """A heading, and the stages of a system and segment."""
        for (system, name, value), rows in groupby(self.rows, block):
            yield f"{printable(system)}{of_segment(name, value)}", list(rows)

    def text(self) -> str:
        """Tables that fit 80 columns, and where most items are lost."""
        blocks = []
        for title, rows in self._stages_by_heading():
            tables = [part.text() for part in self._stage_table(rows).split(WIDTH)]
            blocks.append("\n\n".join([title, *tables, _folded(self._sentence(rows), "    ")]))
        below = "\n".join(_folded(f"note: {note}", "    ") for note in self.notes)
        return "\n\n".join(filter(None, [*blocks, below]))

    def _shown(self) -> dict[str, Cell]:
        """Heading -> its cell, before the metrics."""
        return {
            "stage": lambda row: printable(row["stage"]),
            **SIZES,
            "recall": lambda row: metric_value(row["recall"]),
            "retention": lambda row: metric_value(row["retention"]),
            "lost": lambda row: f"{row['n_lost']:,}",
            "of all": lambda row: percent(row["lost_share"]),
        }

    def _stage_table(self, rows: Sequence[Row]) -> Table:
        """Some stages; missing queries only where there are some."""
        cell_by_heading = self._shown()
        if not any(row["n_missing"] for row in rows):
            del cell_by_heading["missing"]
        names = [*cell_by_heading, *map(str, self.measures)]
        cells = [
            [
                *(cell(row) for cell in cell_by_heading.values()),
                *(metric_value(row[measure.column]) for measure in self.measures),
            ]
            for row in rows
        ]
        return Table(names, cells, 1)

    def _sentence(self, rows: Sequence[Row]) -> str:
        """Where most of the relevant are lost, of the stages of one system and segment."""
        last, n_relevant = rows[-1], rows[-1]["n_relevant"]
        if not n_relevant:
            return "there is no relevant item"
        last_count = (
            f"{printable(last['stage'])} has {last['n_found']:,} of {n_relevant:,} relevant items"
        )
        last_share = f"{last_count} ({percent(last['n_found'] / n_relevant)})"
        worst = max(rows, key=lambda row: row["n_lost"])  # of equal ones the first
        if not worst["n_lost"]:
            return f"nothing is lost: {last_share}"
        where = printable(worst["stage"])
        loss_phrase = "not found by" if worst["stage_number"] == 1 else "lost at"
        share = percent(worst["lost_share"])
        return (
            f"most are {loss_phrase} {where}: {many(worst['n_lost'], 'item')} "
            f"({share}); {last_share}"
        )

    def table(self) -> Table:
        """All rows as one table, with the notes below it."""
        table, blocks = self._stage_table(self.rows), list(self._stages_by_heading())
        if len(blocks) > 1:
            titles = [title for title, rows in blocks for _ in rows]
            rows = [[title, *row] for title, row in zip(titles, table.rows, strict=True)]
            table = Table(["system", *table.columns], rows, 2)
        return replace(table, notes=self.below())

    def below(self) -> list[str]:
        """The lines below a table: where most items are lost, and notes."""
        blocks = list(self._stages_by_heading())
        sentences = [
            f"{title}: {self._sentence(rows)}" if len(blocks) > 1 else self._sentence(rows)
            for title, rows in blocks
        ]
        return [*sentences, *(f"note: {note}" for note in self.notes)]

    def markdown(self) -> str:
        """A GitHub table."""
        return self.table().markdown()

    def latex(self) -> str:
        """A `tabular` for a paper, by booktabs."""
        return self.table().latex()

    def html(self) -> str:
        """A table for a page."""
        return self.table().html()


def _folded(text: str, indent: str) -> str:
    """A text on lines of at most 80 columns, where a number stays with its unit."""
    together = text.replace(" %", "\0%")
    return "\n".join(wrap(together, WIDTH, subsequent_indent=indent)).replace("\0", " ")


def _size(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def percent(value: float | None) -> str:
    """A share for a cell."""
    return "-" if value is None else f"{100 * value:.1f} %"
