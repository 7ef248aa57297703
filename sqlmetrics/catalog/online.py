"""Metrics of a click log itself: what users did, whatever is relevant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from sqlmetrics.catalog.column_functions import BETTERS
from sqlmetrics.catalog.metric import at_cutoff, column_at_cutoff
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.stage import Column
from sqlmetrics.tables.table import many


@dataclass(frozen=True)
class OnlineMetric:
    """A metric of requests: a sum over a sum.

    Attributes:
        name: What it is called.
        title: What it says.
        numerator: What is summed over requests, with {at} for the cutoff and {of} for the setting.
        denominator: Likewise; the mean is taken over requests where it is 1.
        better: `higher` or `lower` values are; `none` if that cannot be said.
        unit: Of its values.
        cut: Whether it has a cutoff.
        needs: What the log must have, a name of `NEEDS`, or empty.
        setting: What stands between parentheses, `action` or `minutes`; empty for nothing.
        spreads: Whether requests have values of it that quantiles can be taken of.
    """

    name: str
    title: str
    numerator: str
    denominator: str
    better: str
    unit: str
    cut: bool = False
    needs: str = ""
    setting: str = ""
    spreads: bool = False
    count = False

    @property
    def example(self) -> str:
        """Its text with a setting."""
        return f"{self.name}(purchase)" if self.setting == "action" else self.name

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

MINUTES = 5
"""Within so many minutes another query is a reformulation, unless another number is said."""

NEEDS: Mapping[str, str] = {
    "requests": "the requests, also those without a result",
    "time": "times",
    "session": "a column of sessions (columns.session)",
    "dwell": "a column of stays (columns.dwell)",
    "amount": "a column of amounts (columns.amount)",
    "visit": "times, queries and a column of sessions or users (in requests too, if there are)",
    "timed session": "times and a column of sessions (in requests too, if there are)",
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
            spreads=True,
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
            spreads=True,
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
        OnlineMetric(
            "time_to_success",
            "seconds from the impression to the first action of success_actions (a click, unless "
            "said), over requests with one",
            "coalesce(seconds_to_success, 0e0)",
            "case when seconds_to_success is not null then 1e0 else 0e0 end",
            "lower",
            "seconds",
            needs="time",
            spreads=True,
        ),
        OnlineMetric(
            "reformulation_rate",
            f"requests whose visit asks something else within {MINUTES} minutes, without a success "
            "before, over requests of visits",
            "reformulated_{of}",
            "is_search",
            "lower",
            "share",
            needs="visit",
            setting="minutes",
        ),
        OnlineMetric(
            "search_exit_rate",
            "sessions without a success since their last search began, over sessions",
            "is_exit",
            "is_last_search",
            "lower",
            "share",
            needs="timed session",
        ),
        OnlineMetric(
            "action_rate",
            "requests with an action over requests",
            "did_{of}",
            "1e0",
            "none",
            "share",
            setting="action",
        ),
        OnlineMetric(
            "mean_amount",
            "the amounts of an action over requests with it",
            "coalesce(amount_{of}, 0e0)",
            "did_{of}",
            "none",
            "amount",
            needs="amount",
            setting="action",
            spreads=True,
        ),
    )
}
"""The online metrics by name."""

LONGEST_GAP = 24 * 60
"""So many minutes at most may another query be later."""

LONGEST_ACTION = 128
"""So many letters the action of a metric may have: its text is a part of a key."""

_LONGEST_WORD = 30
"""So many letters of it stand in the names of columns."""

_TEXT = re.compile(
    r"""\s*(?P<name>\w+)\s*(?:\((?P<settings>[^()]*)\))?\s*(?:@\s*(?P<k>\d{1,9}))?\s*"""
)
_SETTING = re.compile(
    r"""\s*(?:(?P<key>[A-Za-z_]+)\s*=\s*)?(?:(['"])(?P<quoted>.*?)\2|(?P<plain>[^,'"=]*?))\s*(?:,|$)"""
)


@dataclass(frozen=True)
class Online:
    """An online metric as asked for.

    Attributes:
        metric: Which.
        k: Its cutoff, None for all positions.
        action: The action that it is of; empty if it takes none.
        minutes: Within how many minutes; None if it takes none.
        quantile: Which quantile of requests it is, between 0 and 1; None for the mean.
    """

    metric: OnlineMetric
    k: int | None = None
    action: str = ""
    minutes: int | None = None
    quantile: float | None = None

    def __str__(self) -> str:
        return at_cutoff(self.name, self.k)

    @property
    def name(self) -> str:
        """Its text without the cutoff."""
        is_plain = re.fullmatch(r"[\w.:-]+( [\w.:-]+)*", self.action)
        turned = self.action and self.metric.better != ONLINE[self.metric.name].better
        settings = [
            *([self.action if is_plain else f"'{self.action}'"] if self.action else []),
            *([f"minutes={self._own_minutes}"] if self._own_minutes else []),
            *([f"quantile={self.quantile:g}"] if self.quantile is not None else []),
            *([f"better={self.metric.better}"] if turned else []),
        ]
        return f"{self.metric.name}({', '.join(settings)})" if settings else self.metric.name

    @property
    def _own_minutes(self) -> str:
        """Its minutes, where they are not the usual ones; else empty."""
        return "" if self.minutes in (None, MINUTES) else str(self.minutes)

    @property
    def of_visits(self) -> bool:
        """Whether it says what a visit does from search to search."""
        return self.metric.needs in ("visit", "timed session")

    @property
    def of_success(self) -> bool:
        """Whether it says what succeeded."""
        read = self.metric.numerator + self.metric.denominator
        return "success" in read or self.of_visits

    @property
    def of_clicks(self) -> bool:
        """Whether it says what was clicked."""
        return "click" in self.metric.numerator + self.metric.denominator

    @property
    def of_purchases(self) -> bool:
        """Whether it says what was bought."""
        read = self.metric.numerator + self.metric.denominator
        return "purchase" in read or "revenue" in read

    @property
    def column(self) -> str:
        """The name of its columns."""
        words = [self.metric.name, *([self.word] if self.action or self._own_minutes else [])]
        if self.quantile is not None:
            words.append(f"quantile_{self.quantile:g}".replace(".", "p"))
        return column_at_cutoff("_".join(words), self.k)

    @property
    def word(self) -> str:
        """Its setting as a part of a name; what a name cannot tell is told by a hash.

        >>> online("action_rate(Add to cart)").word, online("action_rate(购买)").word
        ('add_to_cart', 'cc6f86bd')
        """
        if self.minutes is not None:
            return f"minutes{self.minutes}"
        word = re.sub(r"[^a-z0-9]+", "_", self.action.casefold()).strip("_")
        if self.action.isascii() and len(word) <= _LONGEST_WORD:
            return word
        digest = sha256(self.action.encode()).hexdigest()[:8]
        return f"{word[: _LONGEST_WORD - 9]}_{digest}".lstrip("_")

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
        numerator, denominator = self.metric.numerator, self.metric.denominator
        words = {"at": suffix, "of": self.word}
        return numerator.format(**words), denominator.format(**words)


def _sum(*factors: str) -> str:
    """A sum over requests as a DOUBLE, 0 if there is none; a factor a line where it is long."""
    line = f"coalesce(1e0 * sum({' '.join(factors)}), 0e0)"
    if len(line) <= 80:
        return line
    return "\n    ".join(["coalesce(1e0 * sum(", *factors]) + "\n), 0e0)"


def is_online(text: str) -> bool:
    """Whether a metric's text names one of these."""
    match = re.match(r"\s*(\w+)\s*(?:[(@]|$)", text) if isinstance(text, str) else None
    return match is not None and match[1].casefold() in ONLINE


def online(text: str) -> Online:
    """An online metric of its text, like `ctr@5` or `action_rate(add_to_cart)`.

    Raises:
        SpecError: If there is none of that name, or it takes no such cutoff or setting.
    """
    match = _TEXT.fullmatch(text)
    name = match["name"].casefold() if match else ""
    if match is None or name not in ONLINE:
        raise SpecError(unknown("online metric", text, ONLINE))
    metric, k = ONLINE[name], int(match["k"]) if match["k"] else None
    if k is not None and (not metric.cut or not k):
        raise SpecError(f"online metric {text!r}: {metric.name} does not take this cutoff")
    if match["settings"] is None and not metric.setting:
        return Online(metric, k)
    return _with_settings(metric, _settings(metric, match["settings"] or "", text), text)


def _settings(metric: OnlineMetric, text: str, whole: str) -> dict[str, str]:
    """Setting -> what is written for it; the first needs no name.

    Raises:
        SpecError: If the metric has no such setting, or one is given twice.
    """
    known = [
        *([metric.setting] if metric.setting else []),
        *(["better"] if metric.setting == "action" else []),
        *(["quantile"] if metric.spreads else []),
    ]
    if not known:
        raise SpecError(f"online metric {whole!r}: {metric.name} takes no settings")
    place, value_by_key = 0, dict[str, str]()
    while place < len(text):
        part = _SETTING.match(text, place)
        key = (part["key"] or known[0]).casefold() if part else ""
        if part is None or key in value_by_key:
            forms = {"action": f"{metric.example}, or {metric.name}('add to cart', better=higher)"}
            form = forms.get(known[0], f"{metric.name}({known[0]}=...)")
            raise SpecError(f"online metric {whole!r}: write {form}")
        if key not in known:
            raise SpecError(f"online metric {whole!r}: {unknown('setting', key, known)}")
        quoted = part["quoted"]
        value_by_key[key] = (part["plain"] if quoted is None else quoted).strip()
        place = part.end()
    return value_by_key


def _with_settings(metric: OnlineMetric, value_by_key: Mapping[str, str], text: str) -> Online:
    """A metric with its settings.

    Raises:
        SpecError: If a value is wrong, or an action is missing.
    """
    values = {"better": metric.better, **value_by_key}
    if metric.setting == "minutes":
        values.setdefault("minutes", str(MINUTES))
    if problem := _setting_problem(metric, values):
        raise SpecError(f"online metric {text!r}: {problem}")
    action, better = values.get("action", ""), values["better"].casefold()
    title = metric.title.replace("an action", f"the action {action}")
    minutes, quantile = None, None
    if "minutes" in values:
        minutes = int(values["minutes"])
        title = title.replace(f"{MINUTES} minutes", many(minutes, "minute"))
    if "quantile" in values:
        quantile = float(values["quantile"])
        title = f"the quantile {quantile:g} over requests, not the mean: {title}"
    return Online(replace(metric, better=better, title=title), None, action, minutes, quantile)


def _setting_problem(metric: OnlineMetric, values: Mapping[str, str]) -> str:
    """What is wrong with the settings of a metric; empty if nothing."""
    action, minutes = values.get("action", ""), values.get("minutes", "1")
    if metric.setting == "action" and not action:
        return f"name an action of the log, like {metric.name}(add_to_cart)"
    if len(action) > LONGEST_ACTION:
        return f"an action has at most {LONGEST_ACTION} letters, given {len(action)}"
    if values["better"].casefold() not in BETTERS:
        return unknown("value of better", values["better"], BETTERS)
    if not (re.fullmatch(r"[0-9]{1,4}", minutes) and 0 < int(minutes) <= LONGEST_GAP):
        return (
            f"minutes must be a whole number from 1 to {LONGEST_GAP}, like "
            f"{metric.name}(minutes=10)"
        )
    quantile = values.get("quantile", ".5")
    if not (re.fullmatch(r"0?\.[0-9]{1,6}", quantile) and float(quantile) > 0):
        return f"a quantile is above 0 and below 1, like {metric.name}(quantile=0.9)"
    return ""


def cutoffs(metrics: Sequence[Online]) -> list[int]:
    """The cutoffs, each once."""
    return sorted({metric.k for metric in metrics if metric.k})
