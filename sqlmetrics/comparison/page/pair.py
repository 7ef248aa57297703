"""What the sentences below pictures say of a system and its baseline."""

from __future__ import annotations

from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.picture import ends
from sqlmetrics.comparison.page.words import Words, signed
from sqlmetrics.comparison.report.numbers import coverage


def pair(content: Content, words: Words) -> dict[str, object]:
    """What sentences say of the system, its baseline and their difference."""
    row = content.row(content.main, content.first)
    values: dict[str, object] = {
        "metric": content.first,
        "system": content.main,
        "baseline": content.baseline,
        "level": coverage([row] if row else [], content.level),
        "n": words.n(row["n"] if row else 0),
        "difference": signed(row["difference"] if row else None),
        "interval": ends(words, row["ci_low"], row["ci_high"]) if row else "–",
    }
    return values | {
        name: words.n(row[name]) if row and row[name] is not None else "–"
        for name in ("wins", "ties", "losses")
    }


def sign(value: float) -> int:
    """1, 0 or -1."""
    return (value > 0) - (value < 0)
