"""What a report tells, in numbers: aggregates alone, whatever they were read from."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, runtime_checkable

from sqlmetrics.catalog.dimension import row_of
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.template import templates_folder
from sqlmetrics.stats import CONFIDENCE, student
from sqlmetrics.stats.estimate import INTERVAL, Estimate
from sqlmetrics.tables.table import printable
from sqlmetrics.tables.tabular import Row

Rows = Sequence[Row]

ALL = "all"


class Addition(Protocol):
    """What has pictures for a report beside its numbers: a sweep, judges, an experiment."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""

    def pictures(self, words: Any) -> Iterable[Any]:
        """What a report shows of it, in the language of the words."""


@runtime_checkable
class Verdict(Addition, Protocol):
    """An addition that decides something, which stands below the headline."""

    def sentences(self, words: Any) -> Iterable[str]:
        """What it decides, in the language of the words."""


@dataclass(frozen=True)
class Log:
    """What a click log says beside its metrics.

    Attributes:
        steps: The cleaning: what, why, rows_in, rows_out.
        rows: `impressions` or an action -> how many were logged, and how many are left.
        positions: System, position, how many were shown and clicked there.
        cutoffs: The share of requests with a click that a cutoff covers.
        days: Offline beside online metrics, one row a day and system.
        online: The rows of online metrics, as in the fact table.
        propensities: As `PropensityEstimate.to_dicts` has them, where labels are corrected by them.
    """

    steps: Rows = ()
    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    positions: Rows = ()
    cutoffs: Rows = ()
    days: Rows = ()
    online: Rows = ()
    propensities: Rows = ()


@dataclass(frozen=True)
class Profile:
    """What lists look like, over all queries or a sample of them.

    Attributes:
        n_queries: Of how many queries it is; 0 where nothing was looked at.
        is_sample: Whether there are more.
        curves: System, family of the metric, k, value.
        relevant: System, rank as a text, how many relevant items stand there a query.
        first: Queries by where the first relevant item stands for the baseline, and for the system.
        bounds: System, family of a metric, k, and its value if all unjudged items were bad and
            if they were good: worst, best.
        ties: A row a metric and system: worst, average, best, value.
        tied: The share of rows that share their score with another one, by system.
        tools: What other tools print: preset, system, value, n_queries.
    """

    n_queries: int = 0
    is_sample: bool = False
    curves: Rows = ()
    relevant: Rows = ()
    first: Rows = ()
    bounds: Rows = ()
    ties: Rows = ()
    tied: Mapping[str, float] = field(default_factory=dict)
    tools: Rows = ()


@dataclass(frozen=True)
class Content:
    """All that a report is made of.

    Attributes:
        title: What is evaluated.
        metrics: The metrics, the one that the pictures are of first.
        level: The coverage of intervals.
        margin: The largest difference that does not matter.
        systems: All of them, the baseline first.
        baseline: What the others are compared with; empty for a single system.
        main: The system that the pictures are of.
        rows: The differences, as `Comparison.rows` has them.
        values: The means of systems, as the fact table has them, with intervals.
        days: The differences of the first metric by day, with those of all days so far.
        deltas: Differences of queries in bins: difference, n.
        cells: Queries in bins of both values: baseline_value, value, n.
        bin_width: How wide a bin of values is.
        contributions: As `Comparison.contributions` has them.
        movers: As `Comparison.movers` has them.
        profile: What the lists look like.
        funnel: As `Funnel.rows` has them.
        deploys: Day and name of each.
        log: What a click log says; None for rankings.
        additions: What draws more pictures: a sweep of mixtures, the agreement of judges.
        executed_sql: The statements that ran.
        notes: What a reader should know.
        hashes: Metric -> the hash of its definition.
        conventions: Option -> the value that was used.
        preset: The preset.
        sources: What was read, in words.
        counted: What `n` of a difference counts: `queries`, or of a click log `users` or
            `requests`.
        directions: Metric -> 1 if higher is better, -1 if lower is, 0 if neither.
    """

    title: str
    metrics: tuple[str, ...]
    level: float = CONFIDENCE
    margin: float = 0.0
    systems: tuple[str, ...] = ()
    baseline: str = ""
    main: str = ""
    rows: Rows = ()
    values: Rows = ()
    days: Rows = ()
    deltas: Rows = ()
    cells: Rows = ()
    bin_width: float = 0.0
    contributions: Rows = ()
    movers: Rows = ()
    profile: Profile = Profile()
    funnel: Rows = ()
    deploys: Rows = ()
    log: Log | None = None
    additions: tuple[Addition, ...] = ()
    executed_sql: str = ""
    notes: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    conventions: Mapping[str, object] = field(default_factory=dict)
    preset: str = ""
    sources: tuple[str, ...] = ()
    directions: Mapping[str, int] = field(default_factory=dict)
    counted: str = "queries"

    def adding(self, *results: Addition | None) -> Content:
        """The same with the pictures and notes of other results."""
        additions = tuple(result for result in results if result is not None)
        notes = (note for addition in additions for note in addition.notes)
        return replace(self, additions=(*self.additions, *additions), notes=(*self.notes, *notes))

    @property
    def averaged(self) -> str:
        """What a mean is taken over: `queries`, or `requests` of a click log."""
        return "requests" if self.log else "queries"

    @property
    def first(self) -> str:
        """The metric that the pictures are of."""
        return self.metrics[0] if self.metrics else ""

    def in_order(self, systems: Iterable[str]) -> tuple[str, ...]:
        """Systems in the order of their colours: the baseline, the leading one, then the others."""
        present = dict.fromkeys(systems)
        first = dict.fromkeys([self.baseline, self.main, *self.systems, *present])
        return tuple(system for system in first if system in present)

    @property
    def compared_systems(self) -> tuple[str, ...]:
        """The systems that are compared with the baseline."""
        return tuple(system for system in self.systems if system != self.baseline)

    def overall(self, system: str | None = None) -> list[Row]:
        """The differences over all queries, of one system or of all."""
        return [
            row
            for row in self.rows
            if row["segment_name"] == ALL and system in (None, row["system"])
        ]

    def slices(self, system: str) -> list[Row]:
        """The differences of a system in the values of segments."""
        return [row for row in self.rows if row["segment_name"] != ALL and row["system"] == system]

    def row(self, system: str, metric: str) -> Row | None:
        """The difference of a system over all queries."""
        return next((row for row in self.overall(system) if row["metric"] == metric), None)

    def dates(self) -> list[Any]:
        """The days that there are, in order."""
        return sorted({row["metric_date"] for row in self.values})

    def means(self, metric: str, *, segment: str = ALL) -> list[Row]:
        """The rows of a metric's means, by day and system."""
        return [
            row
            for row in self.values
            if row["segment_name"] == segment and at_cutoff(row["metric"], row["k"]) == metric
        ]


# The words of a report in one language, from one catalogue of all of them.

LANGUAGES = ("en", "zh")

ROOM = "comparison/page"
"""The folder below `templates/`."""

SINGULARS = {
    f"1 {several}": f"1 {alone}"
    for several, alone in (
        *(("queries", "query"), ("days", "day"), ("lists", "list")),
        *(("requests", "request"), ("users", "user")),
    )
}
"""What a count of one makes of words for many."""

_SINGULAR = re.compile(rf"(?<![\d.,])(?:{'|'.join(SINGULARS)})\b")


_NAMES = ("system", "baseline", "control", "judge", "other_judge", "run", "stage")
"""Where names of the data are filled in."""


@dataclass(frozen=True)
class Words:
    """The words of one language.

    Attributes:
        language: One of LANGUAGES.
    """

    language: str = "en"

    def __post_init__(self) -> None:
        """Refuse a language that the catalogue has not."""
        if self.language not in LANGUAGES:
            raise SpecError(unknown("language", self.language, LANGUAGES))

    def __call__(self, key: str, **values: object) -> str:
        """The words of a key like `headline.better`, with what is filled in.

        >>> Words()("page.all_queries", n=1)
        '1 query'
        """
        seen = {
            name: printable(value) if name in _NAMES else value for name, value in values.items()
        }
        return _SINGULAR.sub(lambda match: SINGULARS[match[0]], self._text(key).format(**seen))

    def has(self, key: str) -> bool:
        """Whether there are words of this key."""
        section, _, name = key.partition(".")
        return name in catalogue().get(section, {})

    def _text(self, key: str) -> str:
        section, _, name = key.partition(".")
        text: str = catalogue()[section][name][self.language]
        return text

    def counted(self, unit: str, count: float) -> str:
        """A count of `queries`, `users` or `requests`.

        >>> Words().counted("users", 1), Words().counted("requests", 1200)
        ('1 user', '1,200 requests')
        """
        return self(f"counted.{unit}", n=self.n(count))

    def n(self, count: float) -> str:
        """A count, with marks between thousands."""
        return f"{count:,.0f}"


@cache
def catalogue() -> Mapping[str, Row]:
    """Section -> name -> language -> words."""
    return tomllib.loads((templates_folder() / ROOM / "strings.toml").read_text(encoding="utf-8"))


def number(value: float | None) -> str:
    """A value as it is read: four digits of it, a dash where there is none.

    >>> number(0.61234), number(12.3456), number(12345.678), number(None)
    ('0.6123', '12.35', '12,346', '–')
    """
    if value is None:
        return "–"
    size = abs(value)
    return f"{value:.4f}" if size < 10 else f"{value:.2f}" if size < 1000 else f"{value:,.0f}"


def signed(value: float | None) -> str:
    """A difference with its sign, and a minus that is one.

    >>> signed(0.0612), signed(-0.5), signed(None)
    ('+0.0612', '−0.5000', '–')
    """
    if value is None:
        return "–"
    text = number(abs(value))
    return f"{'−' if value < 0 else '+'}{text}"


def percent(share: float) -> str:
    """A share, rounded; never 0 % of something.

    >>> percent(0.314), percent(0.0004)
    ('31 %', '0.04 %')
    """
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.0095 else f"{100 * share:.2g} %"


# The mean of several days, from the sums that each day has.


def pooled(rows: Sequence[Row], confidence: float) -> dict[str, Any] | None:
    """The mean of several days, with an interval made of theirs; None without a number.

    Args:
        rows: Of one metric, system and segment, with intervals of this confidence.
        confidence: The coverage.
    """
    rows = [row for row in rows if row["value"] is not None]
    if not rows:
        return None
    n = sum(row["n_queries"] for row in rows)
    if len(rows) == 1:
        only = rows[0]
        return {**{name: only.get(name) for name in ("value", *INTERVAL)}, "n": n}
    estimate = _mean(rows, n, confidence)
    return {"value": estimate.value, **estimate.ends(confidence), "n": n}


def _mean(rows: Sequence[Row], n: int, confidence: float) -> Estimate:
    """The mean of several days: over all queries where they count alike, else by the intervals."""
    if all(
        row.get("sum_sq") is not None and row["denominator"] == row["n_queries"] for row in rows
    ):
        value = sum(row["numerator"] for row in rows) / n
        if n < 2:
            return Estimate(value, None, 0)
        squares = max(0.0, sum(row["sum_sq"] for row in rows) - n * value * value)
        return Estimate(value, math.sqrt(squares / (n - 1) / n), n - 1)
    weights = [row["denominator"] or 0.0 for row in rows]
    if not all(weights):
        return Estimate(rows[-1]["value"], None, 0)
    total = sum(weights)
    value = sum(row["numerator"] for row in rows) / total
    errors = [_error(row, confidence) for row in rows]
    known_errors = [
        error * weight for error, weight in zip(errors, weights, strict=True) if error is not None
    ]
    if len(known_errors) < len(rows):
        return Estimate(value, None, 0)
    return Estimate(value, math.hypot(*known_errors) / total, n - len(rows))


def _error(row: Row, confidence: float) -> float | None:
    """The standard error behind an interval of Student's t."""
    if row.get("ci_low") is None or row["n_queries"] < 2:
        return None
    half_width = (row["ci_high"] - row["ci_low"]) / 2
    return float(half_width / student.critical(confidence, row["n_queries"] - 1))


HIGHEST = 1 + 1e-9
"""What is higher, such as a count or a rank, does not stand on an axis with shares."""


def panels(values: Iterable[tuple[str, float]]) -> dict[str, str]:
    """Metric -> the panel that it is drawn in: empty with shares, else one of its own.

    Args:
        values: Metrics, each as often as it has a value, and values.

    >>> panels([("mrr", 0.5), ("first_rank", 1.0), ("first_rank", 7.0)])
    {'mrr': '', 'first_rank': 'first_rank'}
    """
    highest: dict[str, float] = {}
    for metric, value in values:
        highest[metric] = max(abs(value), highest.get(metric, 0.0))
    return {metric: metric if value > HIGHEST else "" for metric, value in highest.items()}


def drawn_ends(row: Row, metric: str) -> dict[str, float]:
    """The ends of an interval as they are drawn: within the metric's range, at its value without.

    Args:
        row: With `value`, `ci_low` and `ci_high`; the table beside has these as they are.
        metric: Its text.
    """
    low, high = _limits(metric)
    ends = {name: row["value"] if row[name] is None else row[name] for name in INTERVAL}
    if low is not None:
        ends = {name: max(end, low) for name, end in ends.items()}
    return ends if high is None else {name: min(end, high) for name, end in ends.items()}


def _limits(metric: str) -> tuple[float | None, float | None]:
    """The least and the largest value; None where there is none, or this version knows none."""
    try:
        row = row_of(metric, 0)
    except SpecError:
        return None, None
    return row.low, row.high
