"""Text for people: aligned columns, as wide as a terminal shows them (emoji and CJK too); cells."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence


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
