"""The pictures of a report in their order; one that has nothing to say is not there."""

from __future__ import annotations

from collections.abc import Callable

from sqlmetrics.comparison.page.averages import means, segments, trend
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.differences import contributions, verdicts
from sqlmetrics.comparison.page.lists import (
    bounds,
    curves,
    judged,
    precision_recall,
    relevant,
    ties,
    tools,
)
from sqlmetrics.comparison.page.log_pictures import (
    cleaning,
    examination,
    offline_online,
    positions,
    rates,
)
from sqlmetrics.comparison.page.moves import movers
from sqlmetrics.comparison.page.picture import Picture
from sqlmetrics.comparison.page.queries import days, deltas, scatter
from sqlmetrics.comparison.page.shifts import first
from sqlmetrics.comparison.page.slices import slices
from sqlmetrics.comparison.page.stages import funnel
from sqlmetrics.comparison.page.words import Words

MAKERS: tuple[Callable[[Content, Words], Picture | None], ...] = (
    verdicts,
    means,
    rates,
    deltas,
    movers,
    days,
    trend,
    curves,
    slices,
    segments,
)
"""Before the waterfalls of segments."""

LATER: tuple[Callable[[Content, Words], Picture | None], ...] = (
    scatter,
    relevant,
    first,
    precision_recall,
    judged,
    bounds,
    ties,
    cleaning,
    positions,
    examination,
    offline_online,
    tools,
)


def pictures(content: Content, words: Words) -> list[Picture]:
    """All of them.

    Args:
        content: The numbers.
        words: The language.
    """
    before = (make(content, words) for make in MAKERS)
    after = (make(content, words) for make in LATER)
    return [
        *(picture for picture in before if picture is not None),
        *contributions(content, words),
        *funnel(content, words),
        *(picture for picture in after if picture is not None),
    ]
