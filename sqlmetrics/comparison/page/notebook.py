"""Results that draw themselves in a notebook, where the extra `report` is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.comparison.page.content import Words
from sqlmetrics.comparison.page.picture import SCHEMA, can_draw
from sqlmetrics.evaluation.report.result import Result

if TYPE_CHECKING:
    from sqlmetrics.comparison.page.picture import Picture
    from sqlmetrics.tables.tabular import Tabular

MIME = "application/vnd.vegalite.v5+json"
"""What JupyterLab and VS Code draw by themselves."""

PICTURES = ("verdicts", "days", "slices", "contributions", "funnel")
"""What stands above the tables of a comparison, a diagnosis or a funnel."""

HINT = "charts need the extra report: pip install 'sqlmetrics[report]'"

FEWEST_MEANS, MOST_MEANS = 3, 600
"""Fewer means are read faster than they are looked at; of 200 metrics Vega cannot draw so many."""

OF_RESULTS = ("means", "trend", "segments")
OF_LOGS = ("rates", "trend", "cleaning", "offline_online")


def pictures_of(result: Tabular) -> Sequence[Picture]:
    """What is drawn of a result; nothing where it has no more than a number or two.

    Args:
        result: The result.
    """
    from sqlmetrics.comparison.page.sources import report

    compared = getattr(result, "comparison", result)  # a diagnosis may have one
    if compared is None or not getattr(compared, "rows", True):
        return []
    if getattr(compared, "all_pairs", False):  # pictures are of one baseline
        return []
    names: Sequence[str] = PICTURES
    if isinstance(compared, Result | ClickResult):
        names = OF_RESULTS if isinstance(compared, Result) else OF_LOGS
    pictures = [picture for picture in report(compared).pictures if picture.name in names]
    return [
        picture
        for picture in pictures
        if picture.name != "means" or FEWEST_MEANS <= len(picture.cells) <= MOST_MEANS
    ]


PRINTED_ONCE: set[str] = set()
"""What a notebook was told, for which once is enough."""


def hint() -> str:
    """How to get charts, as HTML: the first time only."""
    if HINT in PRINTED_ONCE:
        return ""
    PRINTED_ONCE.add(HINT)
    return f"<p><small>{HINT}</small></p>"


def bundle(result: Tabular) -> dict[str, Any]:
    """A result in each form that notebooks know, of which they take the one that they like best.

    Args:
        result: The result.
    """
    content_by_mime: dict[str, Any] = {"text/plain": repr(result)}
    pictures = pictures_of(result) if can_draw() else ()
    charts = "".join(picture.html() for picture in pictures) if can_draw() else hint()
    content_by_mime["text/html"] = charts + result.html()
    if pictures:
        content_by_mime[MIME] = chart(pictures)
    return content_by_mime


def chart(pictures: Sequence[Picture]) -> dict[str, Any]:
    """Pictures one below the other as one Vega-Lite specification.

    Args:
        pictures: One at least.
    """
    words = Words()
    specs = [
        {
            "title": {"text": picture.title(words), "subtitle": picture.sentence(words)},
            **picture.chart.spec(words),
        }
        for picture in pictures
    ]
    config = specs[0]["config"] | {"background": "#ffffff"}
    parts = [{k: v for k, v in spec.items() if k not in ("$schema", "config")} for spec in specs]
    return {
        "$schema": SCHEMA,
        "config": config,
        "vconcat": parts,
        "resolve": {"scale": dict.fromkeys(("color", "x", "y"), "independent")},
    }
