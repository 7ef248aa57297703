"""How many units people have to grade for an interval of a wanted width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from sqlmetrics.stats import student
from sqlmetrics.stats.estimate import effective_df


@dataclass(frozen=True)
class Spread:
    """A stratum's part of the variance of a mean, as a function of how many units are graded.

    Attributes:
        n: Units that people graded.
        most: Units that they could grade and the variance would still fall: all of the stratum, or
            those that the model labelled.
        size: Units of the stratum (N).
        variance: What the units differ by, in units of the mean times N.
        fixed: What is left of the variance of the mean if they graded `most`.
    """

    n: int
    most: int
    size: int
    variance: float
    fixed: float = 0.0

    def graded(self, times: float) -> int:
        """The units if there are so many times more of them; never more than could be."""
        return min(self.most, ceil(self.n * times - 0.01))

    def of_mean(self, times: float = 1.0) -> float:
        """The stratum's part of the variance of the mean then."""
        rest = 1 / min(float(self.most), self.n * times) - 1 / self.most
        return self.size**2 * rest * self.variance + self.fixed


@dataclass(frozen=True)
class Precision:
    """How wide an interval is, and would be with more units.

    Attributes:
        spreads: The strata.
        level: The coverage of the interval.
        inflated: What the degrees of freedom are divided by, for a weight of the model's labels
            that was learned from the same units.
    """

    spreads: Sequence[Spread]
    level: float
    inflated: float = 1.0

    @property
    def n(self) -> int:
        """Units that people graded."""
        return sum(spread.n for spread in self.spreads)

    def width(self, times: float = 1.0) -> float:
        """From the lower to the upper end, with so many times the units of each stratum."""
        parts = [
            (spread.of_mean(times), max(times * spread.n - 1, 1e-9)) for spread in self.spreads
        ]
        variance = sum(part for part, _ in parts)
        if not variance:
            return 0.0
        df = effective_df(parts) / self.inflated
        return 2 * student.critical(self.level, df) * sqrt(variance)

    def needed(self, width: float) -> int | None:
        """How many units make the interval so narrow, shared out among the strata as they are.

        None if none do: then the model has to label more.
        """
        most = max((spread.most / spread.n for spread in self.spreads), default=1.0)
        least = max((2 / spread.n for spread in self.spreads), default=1.0)
        if self.width(most) > width:
            return None
        low, high = min(least, most), most
        if self.width(low) <= width:
            high = low
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.width(middle) <= width else (middle, high)
        return sum(spread.graded(high) for spread in self.spreads)
