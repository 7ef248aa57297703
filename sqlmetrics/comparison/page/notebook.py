"""Results that draw themselves in a notebook, where the extra `report` is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlmetrics.comparison.page.charts import can_draw

if TYPE_CHECKING:
    from sqlmetrics.comparison.report.comparison import Comparison

DRAWN = ("verdicts", "slices", "contributions")
"""What stands above the tables of a comparison."""


def drawings(comparison: Comparison | None) -> str:
    """The pictures of a comparison as HTML; empty without one, or without the extra.

    Args:
        comparison: The differences.
    """
    if comparison is None or not comparison.rows or not can_draw():
        return ""
    from sqlmetrics.comparison.page.sources import report

    pictures = report(comparison).pictures
    return "".join(one._repr_html_() for one in pictures if one.name in DRAWN)
