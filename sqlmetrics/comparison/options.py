"""What is asked of a comparison, beside what is asked of its evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sqlmetrics.comparison.earlier_run import Stored
from sqlmetrics.comparison.periods import Period, days_of_all, ends_of_all
from sqlmetrics.comparison.verdict import Verdict
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.spec.days import Days, Ends
from sqlmetrics.stats import CONFIDENCE

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
        cluster = self.cluster if self.cluster not in (None, "query_id") else None
        columns = [column for column in (cluster, self.covariate) if column]
        return tuple(dict.fromkeys([*self.by, *columns]))
