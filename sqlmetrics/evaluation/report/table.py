"""Text for people: aligned columns, as wide as a terminal shows them (emoji and CJK too); cells."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from textwrap import wrap


def aligned(
    names: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int | None = None
) -> str:
    """A table with a header and no lines; columns from `numbers_from` on align right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for i, name in enumerate(names):
        is_number = numbers_from is not None and i >= numbers_from
        table.add_column(Text(name), justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    buffer = io.StringIO()
    Console(file=buffer, width=100_000, color_system=None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def terminal_width() -> int | None:
    """How wide a table may be: as the terminal, or as COLUMNS says; None into a file or pipe."""
    if "COLUMNS" not in os.environ and not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def fitted(names: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """A table of words that is no wider than asked for.

    Where its columns do not fit side by side, the first one stays and the others become one
    text behind it, each cell with its heading.

    Args:
        names: The headings.
        rows: The cells.
        width: How wide it may be; None for as wide as it is.
    """
    whole = aligned(names, rows)
    if width is None or max(map(len, whole.splitlines())) <= width:
        return whole
    first = min(max(len(row[0]) for row in rows), width // 3)
    lines = []
    for name, title, *cells in rows:
        told = [f"{head}: {cell}" for head, cell in zip(names[2:], cells, strict=True) if cell]
        about = wrap("; ".join([title, *told]), max(20, width - first - 2)) or [""]
        alone = [name] if len(name) > first else []
        lines += alone
        left = chain([""] if alone else [name], repeat(""))
        lines += [
            f"{cell:{first}}  {line}".rstrip() for cell, line in zip(left, about, strict=False)
        ]
    return "\n".join(lines)


def metric_value(value: float | None) -> str:
    """A metric's value for a cell.

    >>> metric_value(0.5), metric_value(None)
    ('0.5000', '-')
    """
    return "-" if value is None else f"{value:.4f}"


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
