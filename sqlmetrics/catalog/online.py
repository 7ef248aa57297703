"""Metrics of a click log itself: what users did, whatever is relevant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import (
    AGE,
    DISCOUNTED,
    OF,
    Metric,
    at_cutoff,
    catalog,
    column_at_cutoff,
    metric_of,
)
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.stage import Column
from sqlmetrics.tables.table import many

# Functions of a column of the items or the labels: `mean(price)@10`, `recall(revenue)@10`.

FUNCTION = re.compile(
    r"\s*(?P<name>[a-z_]+?)(?:_of)?\s*\(\s*(?P<age>age\s*\(\s*)?(?P<column>[a-z_][a-z0-9_]{0,62})"
    r"(?(age)\s*\))\s*(?=[,)])",
    re.IGNORECASE | re.ASCII,
)
"""How a function of a column begins: `mean(price`."""
_NAME = re.compile(r"\s*(?:\(\s*\))?\s*(?:@|$)")
"""What stands behind a name without settings."""
FUNCTIONS = tuple(name.removesuffix(OF) for name in catalog() if name.endswith(OF))
"""The functions of a column."""
DISCOUNTABLE = ("mean_of", "sum_of", "share_of")
"""Functions of which each value can weigh the discount of its rank."""
BETTERS = ("higher", "lower", "none")
"""Which values of a function of a column are better, if one says so."""


def is_function(text: str) -> bool:
    """Whether a text is of a function of a column, like `mean(price)`."""
    match = FUNCTION.match(text)
    return match is not None and _full_name(match["name"].casefold()) in catalog()


def _full_name(function: str) -> str:
    """What the catalogue calls a function; a part of one has a name that is no other metric's."""
    is_part = function in catalog() and bool(catalog()[function].operand)
    return function if is_part else f"{function}{OF}"


def function_named(text: str, files: Mapping[str, Metric]) -> str:
    """A function of a column in the words of other metrics.

    >>> function_named("Mean(price, better=lower)@10", {}), function_named("ndcg(rel=2)@10", {})
    ("mean_of(column='price', better=lower)@10", 'ndcg(rel=2)@10')
    """
    match = FUNCTION.match(text)
    function = match["name"].casefold() if match else _NAME.split(text)[0].strip().casefold()
    name = _full_name(function)
    if match is None:
        metric = catalog().get(name)
        if metric and not metric_of(function, files):
            raise SpecError(_lacks_column(metric, text))
        return text
    if name not in catalog() or match["column"] in _values_of(function):
        if not metric_of(function, files):
            raise SpecError(f"metric {text!r}: {unknown('function', function, FUNCTIONS)}")
        return text
    settings, words = _spelled_out(text[match.end() :], name)
    if re.match(r"[^)]*,\s*\w*\s*[,)]", settings):
        raise SpecError(
            f"metric {text!r}: after the column write {', '.join(words[:-1])} or {words[-1]}"
        )
    return f"{name}(column={_operand(match, catalog()[name], text)!r}{settings}"


def _lacks_column(metric: Metric, text: str) -> str:
    """That a function needs a column, with the nearest text that names one."""
    cutoff = "".join(text.partition("@")[1:])
    likely_form = f"{metric.example.partition('@')[0]}{cutoff}"
    return f"metric {text!r}: name a column of the {metric.operand_table}, like {likely_form}"


def _spelled_out(settings: str, name: str) -> tuple[str, list[str]]:
    """What follows the column, its words as settings; and what may stand there, for messages."""
    parameters = catalog()[name].parameters
    settings_by_word = {
        DISCOUNTED: f"{DISCOUNTED}=1" if name in DISCOUNTABLE else "",
        "equal": "equal=1" if "equal" in parameters else "",
        "relevant": "min_grade=1" if "min_grade" in parameters else "",
    }
    for word, setting in settings_by_word.items():
        if setting:
            settings = re.sub(rf",\s*{word}\s*(?=[,)])", f", {setting}", settings, flags=re.I)
    words = [word for word, setting in settings_by_word.items() if setting]
    if words:
        return settings, [
            *words,
            "min_grade=2",
            *["better=lower"] * (catalog()[name].better == "none"),
        ]
    return settings, [f"{key}=..." for key in catalog()[name].settings]


def _operand(match: re.Match[str], metric: Metric, text: str) -> str:
    """What stands first between the parentheses: a column, or the age of one."""
    if not match["age"]:
        return match["column"]
    if metric.operand_table != "items" or not metric.operand.startswith("number_"):
        raise SpecError(f"metric {text!r}: an age has only a mean, median, sum, min and max")
    return f"{AGE}({match['column']})"


def _values_of(name: str) -> set[str]:
    """The values of options that a metric has beside the function of its name: ndcg(linear)."""
    options = catalog()[name].options if name in catalog() else ()
    return {choice.name for option in options for choice in OPTIONS[option].choices}


def of_column(metric: Metric, settings: dict[str, Any], text: str) -> Metric:
    """The metric of the column that its text names, if it is a function of one.

    Args:
        metric: As the catalogue has it.
        settings: What stands between the parentheses; the column, `better` and `discounted` are
            taken out.
        text: The whole text, for messages.

    Raises:
        SpecError: If no column is named, or `better` is none of its values.
    """
    if not metric.operand:
        return metric
    if "column" not in settings:
        raise SpecError(_lacks_column(metric, text))
    column, better = settings.pop("column"), metric.better
    if better == "none":
        better = settings.pop("better", better)
    if better not in BETTERS:
        raise SpecError(f"metric {text!r}: {unknown('value of better', str(better), BETTERS)}")
    weighs = bool(settings.pop(DISCOUNTED, "discount" in settings)) and metric.name in DISCOUNTABLE
    return metric.of_column(str(column), str(better), discounted=weighs)


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


def _settings(metric: OnlineMetric, text: str, metric_text: str) -> dict[str, str]:
    """Setting -> what is written for it; the first needs no name.

    Raises:
        SpecError: If the metric has no such setting, or one is given twice.
    """
    setting_names = [
        *([metric.setting] if metric.setting else []),
        *(["better"] if metric.setting == "action" else []),
        *(["quantile"] if metric.spreads else []),
    ]
    if not setting_names:
        raise SpecError(f"online metric {metric_text!r}: {metric.name} takes no settings")
    position, value_by_key = 0, dict[str, str]()
    while position < len(text):
        part = _SETTING.match(text, position)
        key = (part["key"] or setting_names[0]).casefold() if part else ""
        if part is None or key in value_by_key:
            forms = {"action": f"{metric.example}, or {metric.name}('add to cart', better=higher)"}
            form = forms.get(setting_names[0], f"{metric.name}({setting_names[0]}=...)")
            raise SpecError(f"online metric {metric_text!r}: write {form}")
        if key not in setting_names:
            raise SpecError(
                f"online metric {metric_text!r}: {unknown('setting', key, setting_names)}"
            )
        quoted = part["quoted"]
        value_by_key[key] = (part["plain"] if quoted is None else quoted).strip()
        position = part.end()
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
