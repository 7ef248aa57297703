"""Text for people: aligned columns, as wide as a terminal shows them (emoji and CJK too); cells."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from textwrap import wrap

from sqlmetrics.catalog.option import DECIMALS

NARROW = 12
"""No column of texts becomes narrower than this for the sake of others."""

GAP = 2

Styles = Mapping[tuple[int, int], str]
"""Row and column of a cell -> how it looks on a terminal, like `bold` or `red`."""


def aligned(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers_from: int | None = None,
    styles: Styles | None = None,
    full_width: bool = False,
) -> str:
    """A table with a header and no lines, no wider than the terminal.

    Where it is too wide, texts go on in the next line; where that is not enough, the numbers
    stand in several tables below one another, each with the texts.

    Args:
        names: The headings.
        rows: The cells.
        numbers_from: Columns from this one on align right and are never broken.
        styles: How some cells look, where the text goes to a terminal that has colours.
        full_width: Whether it may be as wide as it is, for a file.
    """
    width = None if full_width else terminal_width()
    first = len(names) if numbers_from is None else numbers_from
    grid = _Grid(names, [list(row) for row in rows], first, styles or {})
    if width is None:
        return grid.printed(range(len(names)))
    tables = parts(names, grid.rows, first, width)
    return "\n\n".join(grid.printed([*range(first), *part], width) for part in tables)


def fits(names: Iterable[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the columns stand side by side without a text being broken."""
    widths = [max(map(_width, column)) for column in zip(names, *rows, strict=True)]
    return sum(widths) + GAP * (len(widths) - 1) <= width


def parts(
    names: Sequence[str], rows: Sequence[Sequence[str]], first: int, width: int
) -> list[list[int]]:
    """The columns of numbers that stand side by side: one list for each table that is needed."""
    widths = [max(map(_width, column)) + GAP for column in zip(names, *rows, strict=True)]
    texts = sum(widths[:first])
    if texts + sum(widths[first:]) > width + GAP:
        texts = sum(min(column_width, NARROW + GAP) for column_width in widths[:first])
    tables: list[list[int]] = [[]]
    used = texts
    for column in range(first, len(names)):
        if tables[-1] and used + widths[column] > width + GAP:
            tables.append([])
            used = texts
        tables[-1].append(column)
        used += widths[column]
    return tables


@dataclass(frozen=True)
class _Grid:
    """The cells of a table; columns from `first` on hold numbers."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    first: int
    styles: Styles

    def printed(self, columns: Sequence[int], width: int | None = None) -> str:
        """Some columns as one table."""
        cells = [[row[i] for i in columns] for row in (self.names, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        fits = width is None or sum(widths) + GAP * (len(widths) - 1) <= width
        if fits and not self.styles and all(map(_is_plain, chain.from_iterable(cells))):
            return "\n".join(map(self._line, cells, repeat(columns), repeat(widths)))
        return self._by_rich(columns, width)

    def _line(self, cells: Sequence[str], columns: Sequence[int], widths: Sequence[int]) -> str:
        """A line of plain cells: importing rich for them takes longer than most evaluations."""
        aligned = (
            cell.rjust(width) if i >= self.first else cell.ljust(width)
            for cell, i, width in zip(cells, columns, widths, strict=True)
        )
        return (" " * GAP).join(aligned).rstrip()

    def _by_rich(self, columns: Sequence[int], width: int | None) -> str:
        """The same with cells of any width, broken and styled."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="")
        widths = self._widths(columns, width) if width else {}
        for i in columns:
            table.add_column(
                Text(self.names[i]),
                justify="right" if i >= self.first else "left",
                no_wrap=width is None or i >= self.first,
                overflow="fold",
                width=widths.get(i),
            )
        for number, row in enumerate(self.rows):
            table.add_row(*(Text(row[i], self.styles.get((number, i), "")) for i in columns))
        buffer = io.StringIO()
        Console(
            file=buffer,
            width=width or 100_000,
            color_system="standard" if self.styles else None,
            force_terminal=bool(self.styles),
            no_color=False,
            legacy_windows=False,
            force_jupyter=False,  # else a notebook shows it at once, and the text is empty
        ).print(table)
        return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())

    def _widths(self, columns: Sequence[int], width: int) -> dict[int, int]:
        """How wide each column is: the widest texts are broken first, words last."""
        cells = {i: [self.names[i], *(row[i] for row in self.rows)] for i in columns}
        widths = {i: max(map(_width, texts)) for i, texts in cells.items()}
        texts = [i for i in columns if i < self.first]
        words = {i: max(map(_width, " ".join(cells[i]).split()), default=1) for i in texts}
        for least in (words, dict.fromkeys(texts, NARROW), dict.fromkeys(texts, 1)):
            while sum(widths.values()) + GAP * (len(widths) - 1) > width:
                widest = max(texts, key=lambda i: widths[i] - least[i], default=None)
                if widest is None or widths[widest] <= least[widest]:
                    break
                widths[widest] -= 1
        return widths


def _is_plain(text: str) -> bool:
    """Whether each character of a text takes one place."""
    return text.isascii() and text.isprintable()


def _width(text: str) -> int:
    """How many places a text takes."""
    if _is_plain(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def terminal_width() -> int | None:
    """How wide a table may be: as the terminal, or as COLUMNS says; None into a file or pipe."""
    if "COLUMNS" not in os.environ and not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def has_colors() -> bool:
    """Whether stdout is a terminal that shows bold and red, and nobody said NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def fitted(names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """A table of words that is no wider than asked for.

    Where its columns do not fit side by side, the first one stays and the others become one
    text behind it, each cell with its heading.

    Args:
        names: The headings.
        rows: The cells.
        width: How wide it may be; None for as wide as it is.
    """
    table = aligned(names, rows, full_width=True)
    if width is None or max(map(len, table.splitlines())) <= width:
        return table
    first = min(max(len(row[0]) for row in rows), width // 3)
    lines = []
    for name, title, *cells in rows:
        details = [f"{head}: {cell}" for head, cell in zip(names[2:], cells, strict=True) if cell]
        told_in = max(20, width - first - 2)
        about = wrap("; ".join([title, *details]), told_in, break_on_hyphens=False) or [""]
        alone = [name] if len(name) > first else []
        lines += alone
        first_cells = chain([""] if alone else [name], repeat(""))
        lines += [
            f"{cell:{first}}  {line}".rstrip()
            for cell, line in zip(first_cells, about, strict=False)
        ]
    return "\n".join(lines)


def metric_value(value: float | None, decimals: int = DECIMALS) -> str:
    """A metric's value for a cell.

    >>> metric_value(0.5), metric_value(None), metric_value(0.5, 2)
    ('0.5000', '-', '0.50')
    """
    return "-" if value is None else f"{value:.{decimals}f}"


def many(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun.

    >>> many(1, "row"), many(1200, "row"), many(2, "stratum", "strata")
    ('1 row', '1,200 rows', '2 strata')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def printable(value: object, width: int | None = None) -> str:
    """A value for a cell: control characters and outer spaces shown, long texts cut."""
    text = "NULL" if value is None else str(value)
    if not text.isprintable() or text != text.strip():
        text = repr(text)
    return text if width is None or len(text) <= width else text[: width - 1] + "…"
