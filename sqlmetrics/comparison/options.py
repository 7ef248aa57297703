"""What is asked of a comparison, beside what is asked of its evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlmetrics.comparison.periods import Period, Stored, days_of_all, ends_of_all
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.report.failure import QUERIES
from sqlmetrics.spec.days import Days, Ends
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.table import probability

# What a difference comes to: a verdict against a margin, and a sentence in words.

Verdict = Literal["better", "worse", "equivalent", "unclear"]

_MEANS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("ndcg", "dcg", "cg", "rbp", "err", "ap", "bpref", "rprec"),
        ("relevant items rank higher", "relevant items rank lower"),
    ),
    **dict.fromkeys(
        ("recall",), ("more relevant items are found", "fewer relevant items are found")
    ),
    **dict.fromkeys(
        ("precision",),
        ("more of the shown items are relevant", "fewer of the shown items are relevant"),
    ),
    **dict.fromkeys(
        ("hit",), ("more queries get a relevant item", "fewer queries get a relevant item")
    ),
    **dict.fromkeys(
        ("mrr", "first_rank"),
        ("the first relevant item comes earlier", "the first relevant item comes later"),
    ),
    "mean_rank": (
        "the relevant items that are found rank higher",
        "the relevant items that are found rank lower",
    ),
    "pnr": ("more pairs are in the right order", "fewer pairs are in the right order"),
}
"""Metric -> what it means where it is better, and where it is worse."""


def verdict(
    difference: float | None,
    interval: tuple[float, float] | None,
    p_value: float | None,
    *,
    level: float,
    margin: float,
    direction: int,
) -> Verdict:
    """What a difference comes to.

    * `equivalent`: the whole interval lies within the margin, whatever the p-value says: the
      difference is too small to matter. Without a margin: no query differs.
    * `better`, `worse`: the p-value, adjusted, is below 1 - level, and the difference has that
      sign by the direction of the metric.
    * `unclear`: anything else. The data are too few for either, or the metric has no direction.

    Args:
        difference: System less baseline; None if there is none.
        interval: Of the difference; None if there is none.
        p_value: Adjusted for all that is compared; None if there is none.
        level: The interval's coverage, like 0.95.
        margin: The largest difference that does not matter, 0 or more.
        direction: 1 if higher is better, -1 if lower is, 0 if neither.
    """
    if difference is None or interval is None or p_value is None:
        return "unclear"
    if -margin <= interval[0] and interval[1] <= margin:
        return "equivalent"
    gain = difference * direction
    if p_value >= 1 - level or gain == 0:
        return "unclear"
    return "better" if gain > 0 else "worse"


def sentence(
    row: Mapping[str, object],
    name: str,
    *,
    margin: float,
    level: float,
    counted: tuple[str, str] = QUERIES,
) -> str:
    """A row of a comparison in words, none of which its numbers contradict.

    Args:
        row: The row.
        name: The metric's own name, like `ndcg`.
        margin: The largest difference that does not matter.
        level: The coverage of a single interval, like 0.95.
        counted: What `n` counts, one and several.
    """
    metric, before, after = row["metric"], row["baseline_value"], row["value"]
    if before is None or after is None:
        return f"{metric}: no {counted[0]} has a value in both systems"
    moved = f"{metric} from {before:.4g} to {after:.4g}"
    outcome = row["verdict"]
    if outcome == "equivalent":
        reason = f"the interval lies within {margin:g}" if margin else f"no {counted[0]} differs"
        return f"{moved}: equivalent, {reason}"
    if outcome == "unclear":
        return f"{moved}: {_why_unclear(row, level, counted)}"
    better, worse = _MEANS.get(name, ("", ""))
    means = better if outcome == "better" else worse
    return f"{moved}: {outcome}" + (f", {means}" if means else "")


def _why_unclear(row: Mapping[str, Any], level: float, counted: tuple[str, str]) -> str:
    queries = f"{row['n']:,} {counted[row['n'] != 1]}"
    p, smallest = row["p_adjusted"], row["smallest_detectable"]
    if p is None:
        return f"not enough data ({queries})"
    if row["direction"] == 0:
        return "for this metric neither more nor less is better"
    if p < 1 - level:
        return f"the {row['test']} test finds a difference, but the means do not differ"
    if row["ci_low"] <= 0 <= row["ci_high"]:
        could = f"; {queries} would detect {smallest:.2g}" if smallest else f" ({queries})"
        return f"not enough data{could}"
    p_value = probability(p, level)
    if smallest is None:
        return f"all {queries} differ by this much, and so would chance: p {p_value}"
    return f"the interval excludes 0, but the {row['test']} test does not reject: p {p_value}"


FailOn = Literal["worse", "unclear", "not-better"]
"""What a gate may fail on."""

FAIL_ON: Mapping[FailOn, tuple[Verdict, ...]] = {
    "worse": ("worse",),
    "unclear": ("worse", "unclear"),
    "not-better": ("worse", "unclear", "equivalent"),
}
"""That -> the verdicts that it does not let through."""

SIDES = LOST, GAINED = "lost", "gained"
"""What a query did that moved: it became worse, or better."""

NO_LISTS = (
    "no system has one; if each file is a system, a condition (where) on a column of systems "
    "leaves no rows"
)

USUAL_COUNT = 10
"""As many queries are shown of a side that is named without a number."""


@dataclass(frozen=True)
class Movers:
    """Which of the queries that moved are wanted.

    Attributes:
        count: How many of each metric and system, 0 or more.
        side: `lost` or `gained`; empty for both.
    """

    count: int = 0
    side: str = ""

    @classmethod
    def parse(cls, movers: int | str) -> Movers:
        """What `movers` says: a number, a side, or both, like `lost:20`.

        Raises:
            SpecError: If it says something else.

        >>> Movers.parse(8), Movers.parse("lost:20")
        (Movers(count=8, side=''), Movers(count=20, side='lost'))
        >>> Movers.parse("gained").count
        10
        """
        side, _, number = str(movers).strip().rpartition(":")
        if number in SIDES and not side:
            return cls(USUAL_COUNT, number)
        if not number.isdecimal() or side not in ("", *SIDES):
            raise SpecError(
                "movers must be the number of queries to show, 0 or more, or lost, gained, or "
                f"both like lost:20; given {movers}"
            )
        return cls(int(number), side)


def check_fail_on(fail_on: FailOn) -> None:
    """Raise SpecError for what no gate fails on."""
    if fail_on not in FAIL_ON:
        raise SpecError(unknown("verdict to fail on", fail_on, FAIL_ON))


@dataclass(frozen=True)
class Options:
    """What is asked of a comparison; see `compare`."""

    metrics: tuple[str, ...]
    days: Days | None
    systems: tuple[str, ...] = ()
    baseline: str | None = None
    test: str = "t"
    level: float = CONFIDENCE
    margin: float = 0.0
    by: tuple[str, ...] = ()
    lists_slices: bool = True
    cluster: str | None = None
    replicates: int | None = None
    seed: int = 1
    contributions: bool = False
    movers: Movers = Movers()
    fail_on: FailOn | None = None
    paired: bool | None = None
    dates: tuple[Period, ...] = ()
    covariate: str | None = None
    before: Period | None = None
    stored: Stored | None = None
    all_pairs: bool = False
    winsorise: float | None = None

    def named_systems(self, baseline: str | None) -> tuple[str, ...]:
        """The systems that are named, and their baseline; none if all are compared.

        Args:
            baseline: That of the spec.
        """
        named = self.baseline or baseline
        return (*self.systems, *([named] if named else [])) if self.systems else ()

    def check_systems(self, systems: Iterable[str]) -> None:
        """Raise InputError for a system or a baseline that is named, and is none of these."""
        existing = sorted(systems)
        for name in (*self.systems, *([self.baseline] if self.baseline else [])):
            if name not in existing:
                reason = unknown("system", name, existing) if existing else NO_LISTS
                raise InputError(f"this system has no list: {reason}")

    @property
    def shows_queries(self) -> bool:
        """Whether some queries are shown, by their texts."""
        return bool(self.movers.count or self.fail_on)

    @property
    def has_covariate(self) -> bool:
        """Whether values are adjusted for what was there before."""
        return bool(self.covariate or self.before)

    @property
    def is_paired(self) -> bool:
        """Whether a query stands beside itself."""
        return not (self.dates or self.has_covariate) if self.paired is None else self.paired

    @property
    def _several_days(self) -> tuple[Days, ...]:
        compared = tuple(period.days for period in self.dates) or (
            (self.days,) if self.days else ()
        )
        return (*compared, self.before.days) if compared and self.before else compared

    def check_design(self, *, stored: bool) -> None:
        """Raise SpecError for what does not go together.

        Args:
            stored: Whether the baseline is an earlier run.
        """
        if self.paired and self.has_covariate:
            raise SpecError(
                "paired queries already are their own covariate; leave out paired or the covariate"
            )
        if self.dates and stored:
            raise SpecError(
                "baseline_values are the baseline, and so is the first of dates; give only one"
            )
        if (self.movers.count or self.contributions) and (
            self.dates or stored or not self.is_paired
        ):
            raise SpecError(
                "movers and contributions need systems that have the same queries; leave out "
                "dates, a covariate, baseline_values or paired=False (--unpaired)"
            )
        self._check_covariate()

    def _check_covariate(self) -> None:
        before = self.before
        if before and any(before.days.overlaps(days) for days in self._several_days[:-1]):
            raise SpecError(
                f"covariate {before.name}: these days are compared too, so the covariate would "
                "hide the effect; name days before them"
            )

    @property
    def all_days(self) -> Days | None:
        """From the first day that is looked at to the last one; None for all."""
        several = self._several_days
        return days_of_all(several) if several else self.days

    def ends(self, ends: Ends | None) -> Ends | None:
        """The days that are looked at as SQL, without those between.

        Args:
            ends: From the first to the last one; None if tables have no days, or all count.
        """
        several = self._several_days
        return ends_of_all(several) if ends and len(several) > 1 else ends

    def of_runs(self, names: tuple[str, ...]) -> Options:
        """The same of tables side by side, whose first one is the baseline."""
        systems = self.systems or names
        baseline = None if self.all_pairs else self.baseline or systems[0]
        return replace(self, systems=systems, baseline=baseline)

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns that queries must have."""
        columns = [column for column in (self.cluster_column, self.covariate) if column]
        return tuple(dict.fromkeys([*self.by, *columns]))

    @property
    def cluster_column(self) -> str | None:
        """The column of clusters; None if each is a query, which all rows have."""
        return None if self.cluster == "query_id" else self.cluster
