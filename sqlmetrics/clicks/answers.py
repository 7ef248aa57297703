"""What an impression's answers are: all that follows from how often each action was done on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import case, number


def answered(clicks: Clicks, counts: Mapping[str, str], *, sessions: bool) -> Iterator[Column]:
    """The columns of the stage `answers` beside where the item stood and when it was clicked.

    Args:
        clicks: What was said of the log.
        counts: Action -> the column that counts its events.
        sessions: Whether it is asked if an action makes the session a success.
    """
    if not clicks.labels.pools:
        yield Column(_grade(clicks.labels.grades, counts), "grade")
    yield Column(_is_any([CLICK], counts), "is_clicked")
    yield from (Column(name, name) for name in counts.values())
    once = clicks.cleaning.deduplicate
    bought = _is_any([PURCHASE], counts) if once else counts.get(PURCHASE, "0")
    yield Column(bought, "n_purchases")
    if sessions:
        yield Column(_is_any(clicks.success_actions, counts), "is_success")


def _grade(grades: Mapping[str, float], counts: Mapping[str, str]) -> str:
    """The highest grade of what was done; 0 for what has none."""
    best_first = sorted(counts, key=lambda action: -grades.get(action, 0))
    whens = (
        f"when {counts[action]} > 0 then {number(grades.get(action, 0))}" for action in best_first
    )
    return "\n    ".join(["case", *whens, "else 0"]) + "\nend"


def _is_any(actions: Iterable[str], counts: Mapping[str, str]) -> str:
    """1 where one of some actions was done."""
    conditions = [f"{counts[action]} > 0" for action in actions if action in counts]
    return case(" or ".join(conditions), "1", "0") if conditions else "0"
