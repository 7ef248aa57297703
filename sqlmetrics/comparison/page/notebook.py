"""Results that draw themselves in a notebook, where the extra `report` is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.comparison.page.charts import SCHEMA, can_draw
from sqlmetrics.comparison.page.words import Words
from sqlmetrics.evaluation.report.result import Result

if TYPE_CHECKING:
    from sqlmetrics.comparison.page.picture import Picture
    from sqlmetrics.evaluation.report.display import Display

MIME = "application/vnd.vegalite.v5+json"
"""What JupyterLab and VS Code draw by themselves."""

DRAWN = ("verdicts", "days", "slices", "contributions", "funnel")
"""What stands above the tables of a comparison, a diagnosis or a funnel."""

HINT = "charts need the extra report: pip install 'sqlmetrics[report]'"

OF_RESULTS = ("means", "trend", "segments")
OF_LOGS = ("rates", "trend", "cleaning", "offline_online")


def pictures_of(what: Display) -> Sequence[Picture]:
    """What is drawn of a result; nothing where it has no more than a number or two.

    Args:
        what: The result.
    """
    from sqlmetrics.comparison.page.sources import report

    compared = getattr(what, "comparison", what)  # a diagnosis may have one
    if compared is None or not getattr(compared, "rows", True):
        return []
    if getattr(compared, "all_pairs", False):  # pictures are of one baseline
        return []
    names: Sequence[str] = DRAWN
    if isinstance(compared, Result | ClickResult):
        names = OF_RESULTS if isinstance(compared, Result) else OF_LOGS
    found = [one for one in report(compared).pictures if one.name in names]
    return [one for one in found if one.name != "means" or len(one.cells) > 2]


def drawings(what: Display) -> str:
    """The pictures of a result as HTML; empty without one, or without the extra.

    Args:
        what: The result.
    """
    return "".join(one.html() for one in pictures_of(what)) if can_draw() else hint()


TOLD: set[str] = set()
"""What a notebook was told, for which once is enough."""


def hint() -> str:
    """How to get charts, as HTML: the first time only."""
    if HINT in TOLD:
        return ""
    TOLD.add(HINT)
    return f"<p><small>{HINT}</small></p>"


def bundle(what: Display) -> dict[str, Any]:
    """A result in each form that notebooks know, of which they take the one that they like best.

    Args:
        what: The result.
    """
    shown: dict[str, Any] = {"text/plain": repr(what)}
    pictures = pictures_of(what) if can_draw() else ()
    charts = "".join(one.html() for one in pictures) if can_draw() else hint()
    shown["text/html"] = charts + what.tables()
    if pictures:
        shown[MIME] = chart(pictures)
    return shown


def chart(pictures: Sequence[Picture]) -> dict[str, Any]:
    """Pictures one below the other as one Vega-Lite specification.

    Args:
        pictures: One at least.
    """
    words = Words()
    specs = [
        {
            "title": {"text": one.title(words), "subtitle": one.sentence(words)},
            **one.chart.spec(words),
        }
        for one in pictures
    ]
    config = specs[0]["config"] | {"background": "#ffffff"}
    parts = [{k: v for k, v in one.items() if k not in ("$schema", "config")} for one in specs]
    return {
        "$schema": SCHEMA,
        "config": config,
        "vconcat": parts,
        "resolve": {"scale": dict.fromkeys(("color", "x", "y"), "independent")},
    }
