"""Metrics of a click log itself: what users did, whatever is relevant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.metric import at_cutoff, column_at_cutoff
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.stage import Column


@dataclass(frozen=True)
class OnlineMetric:
    """A metric of requests: a sum over a sum.

    Attributes:
        name: What it is called.
        title: What it says.
        numerator: What is summed over requests, with {k} for the cutoff.
        denominator: Likewise; the mean is taken over requests where it is 1.
        better: `higher` or `lower` values are; `none` if that cannot be said.
        unit: Of its values.
        cut: Whether it has a cutoff.
        needs: What the log must have, a name of `NEEDS`, or empty.
    """

    name: str
    title: str
    numerator: str
    denominator: str
    better: str
    unit: str
    cut: bool = False
    needs: str = ""
    count = False

    @property
    def label(self) -> str:
        """Its title for people, in a few words."""
        return _LABELS.get(self.name) or self.name.replace("_", " ").capitalize()

    @property
    def range(self) -> str:
        """Where its values lie."""
        return "0 to 1" if self.unit == "share" else "0 or more"


LONG_CLICK = 30
"""Seconds of a stay from which a click is a long one, a sign of content.

Source: Fox, Karnawat, Mydland, Dumais and White, Evaluating implicit measures to improve web
search, ACM Transactions on Information Systems 23 (2005).
"""

NEEDS: Mapping[str, str] = {
    "requests": "the requests, also those without a result",
    "time": "times",
    "session": "a column of sessions (columns.session)",
    "dwell": "a column of stays (columns.dwell)",
    "amount": "a column of amounts (columns.amount)",
}
"""What a log must have for some metrics, in words."""

_LABELS = {"ctr": "Click-through rate"}

ONLINE: Mapping[str, OnlineMetric] = {
    metric.name: metric
    for metric in (
        OnlineMetric(
            "ctr",
            "clicked impressions over impressions, in the first k positions",
            "n_clicked{at}",
            "n_shown{at}",
            "higher",
            "share",
            cut=True,
        ),
        OnlineMetric(
            "abandonment",
            "requests with results and without a click, over requests with results",
            "case when n_shown > 0 and n_clicked = 0 then 1e0 else 0e0 end",
            "case when n_shown > 0 then 1e0 else 0e0 end",
            "lower",
            "share",
        ),
        OnlineMetric(
            "zero_result_rate",
            "requests without a result over requests",
            "case when n_shown = 0 then 1e0 else 0e0 end",
            "1e0",
            "lower",
            "share",
            needs="requests",
        ),
        OnlineMetric(
            "first_click_rank",
            "the topmost clicked position, whichever click came first, over requests with a click",
            "coalesce(first_click, 0)",
            "case when n_clicked > 0 then 1e0 else 0e0 end",
            "lower",
            "rank",
        ),
        OnlineMetric(
            "last_click_rank",
            "the lowest clicked position on the page, whichever click came last, "
            "over requests with a click",
            "coalesce(last_click, 0)",
            "case when n_clicked > 0 then 1e0 else 0e0 end",
            "none",
            "rank",
        ),
        OnlineMetric(
            "max_rr",
            "1 / the topmost clicked position, over requests with a click: the largest reciprocal "
            "rank of a click",
            "case when n_clicked > 0 then 1e0 / first_click else 0e0 end",
            "case when n_clicked > 0 then 1e0 else 0e0 end",
            "higher",
            "share",
        ),
        OnlineMetric(
            "min_rr",
            "1 / the lowest clicked position, over requests with a click: the smallest reciprocal "
            "rank of a click",
            "case when n_clicked > 0 then 1e0 / last_click else 0e0 end",
            "case when n_clicked > 0 then 1e0 else 0e0 end",
            "none",
            "share",
        ),
        OnlineMetric(
            "p_skip",
            "positions without a click above the lowest clicked one, over all positions down to it",
            "case when n_clicked > 0 then last_click - n_clicked else 0 end",
            "coalesce(last_click, 0)",
            "lower",
            "share",
        ),
        OnlineMetric(
            "time_to_first_click",
            "seconds from the impression to the click that came first, wherever it was, "
            "over requests with a click",
            "coalesce(seconds_to_click, 0e0)",
            "case when seconds_to_click is not null then 1e0 else 0e0 end",
            "lower",
            "seconds",
            needs="time",
        ),
        OnlineMetric(
            "long_click_rate",
            f"clicked items with a stay of {LONG_CLICK} seconds or more, over clicked items",
            "n_long_clicks",
            "n_clicked",
            "higher",
            "share",
            needs="dwell",
        ),
        OnlineMetric(
            "purchases",
            "purchases over requests",
            "coalesce(n_purchases, 0)",
            "1e0",
            "higher",
            "count",
        ),
        OnlineMetric(
            "conversion_rate",
            "requests with a purchase over requests",
            "case when n_purchases > 0 then 1e0 else 0e0 end",
            "1e0",
            "higher",
            "share",
        ),
        OnlineMetric(
            "first_purchase_rank",
            "the topmost position that was bought, over requests with a purchase",
            "coalesce(first_purchase, 0)",
            "case when n_purchases > 0 then 1e0 else 0e0 end",
            "lower",
            "rank",
        ),
        OnlineMetric(
            "revenue_per_request",
            "the amounts of purchases over requests",
            "coalesce(revenue, 0e0)",
            "1e0",
            "higher",
            "amount",
            needs="amount",
        ),
        OnlineMetric(
            "average_order_value",
            "the amounts of purchases over requests with a purchase",
            "coalesce(revenue, 0e0)",
            "case when n_purchases > 0 then 1e0 else 0e0 end",
            "higher",
            "amount",
            needs="amount",
        ),
        OnlineMetric(
            "searches_per_session",
            "requests of sessions over sessions",
            "case when session_id is not null then 1e0 else 0e0 end",
            "case when is_session = 1 then 1e0 else 0e0 end",
            "none",
            "count",
            needs="session",
        ),
        OnlineMetric(
            "session_success",
            "sessions with an action of success_actions (a click, unless said) in any request, "
            "over sessions",
            "case when is_session = 1 and session_success = 1 then 1e0 else 0e0 end",
            "case when is_session = 1 then 1e0 else 0e0 end",
            "higher",
            "share",
            needs="session",
        ),
    )
}
"""The online metrics by name."""


@dataclass(frozen=True)
class Online:
    """An online metric as asked for.

    Attributes:
        metric: Which.
        k: Its cutoff, None for all positions.
    """

    metric: OnlineMetric
    k: int | None = None

    def __str__(self) -> str:
        return at_cutoff(self.name, self.k)

    @property
    def name(self) -> str:
        """Its text without the cutoff."""
        return self.metric.name

    @property
    def of_clicks(self) -> bool:
        """Whether it says what was clicked."""
        return "click" in self.metric.numerator + self.metric.denominator

    @property
    def column(self) -> str:
        """The name of its columns."""
        return column_at_cutoff(self.metric.name, self.k)

    def columns(self) -> Iterator[Column]:
        """Its sums over requests, as numbers that are divided without being cut off."""
        for name, value in zip(("numerator", "denominator"), self.added, strict=True):
            yield Column(_sum(value), f"{self.column}_{name}")

    def moments(self) -> Iterator[Column]:
        """What its interval is made of: how many requests count, squares and products."""
        x, w = (f"({value})" for value in self.added)
        yield Column(f"sum(case when {w} > 0 then 1 else 0 end)", f"{self.column}_n_clusters")
        for name, (a, b) in {"x2": (x, x), "w2": (w, w), "xw": (x, w)}.items():
            yield Column(_sum(a, f"* {b}"), f"{self.column}_sum_{name}")

    @property
    def added(self) -> tuple[str, str]:
        """What a request adds to the sum above the line, and to that below it, as SQL."""
        suffix = f"_at_{self.k}" if self.k else ""
        return self.metric.numerator.format(at=suffix), self.metric.denominator.format(at=suffix)


def _sum(*factors: str) -> str:
    """A sum over requests as a DOUBLE, 0 if there is none; a factor a line where it is long."""
    line = f"coalesce(1e0 * sum({' '.join(factors)}), 0e0)"
    if len(line) <= 80:
        return line
    return "\n    ".join(["coalesce(1e0 * sum(", *factors]) + "\n), 0e0)"


def is_online(text: str) -> bool:
    """Whether a metric's text names one of these."""
    return isinstance(text, str) and text.partition("@")[0].strip().casefold() in ONLINE


def online(text: str) -> Online:
    """An online metric of its text, like `ctr@5`.

    Raises:
        SpecError: If there is none of that name, or it takes no such cutoff.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:@\s*(\d{1,9}))?\s*", text.casefold())
    if match is None or match[1] not in ONLINE:
        raise SpecError(unknown("online metric", text, ONLINE))
    metric, k = ONLINE[match[1]], int(match[2]) if match[2] else None
    if k is not None and (not metric.cut or not k):
        raise SpecError(f"online metric {text!r}: {metric.name} does not take this cutoff")
    return Online(metric, k)


def cutoffs(metrics: Sequence[Online]) -> list[int]:
    """The cutoffs, each once."""
    return sorted({metric.k for metric in metrics if metric.k})
