"""Lines of an explanation, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from sqlmetrics.proof.reference import Value
from sqlmetrics.stats import NOISE

WIDTH = 80


def hung(label: str, text: str, indent: int = 12) -> str:
    """A label, and beside it a text that is wrapped under itself."""
    lines = wrap(text, WIDTH - indent, break_long_words=False, break_on_hyphens=False) or [""]
    head = label.ljust(indent - 1) + " "
    return "\n".join([head + lines[0], *(" " * indent + line for line in lines[1:])])


def paragraph(head: str, words: Sequence[str], tail: str = "") -> str:
    """Words behind commas, wrapped."""
    text = head + ", ".join(words) + tail
    return "\n".join(wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))


def compared(value: Value, sql_value: Value, difference: float) -> str:
    """The two values, and whether they are the same."""
    verdict = (
        f"the same to {NOISE:g}" if difference <= NOISE else f"NOT the same: {difference:g} apart"
    )
    reference_line = f"reference         {_exact(value)}"
    return f"{reference_line}\nSQL on DuckDB     {_exact(sql_value)}, {verdict}"


def _exact(value: Value) -> str:
    return "left out of the mean" if value is None else f"{value:.12g}"
