"""A difference and its standard error: the t-test, the interval, what could have been shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from sqlmetrics.evaluation.distributions import student

POWER = 0.8
"""How likely the smallest difference is shown that the data could show."""

NOISE = 1e-12
"""A standard deviation below it is none: it comes of the last digits of what was summed."""


@dataclass(frozen=True)
class TStatistic:
    """What Student's t makes of a difference of means.

    Attributes:
        difference: The system's mean less the baseline's.
        standard_error: Of the difference; 0 where nothing varies, None with too few clusters.
        df: Degrees of freedom; of no meaning without a standard error.
    """

    difference: float
    standard_error: float | None
    df: float

    def p_value(self) -> float | None:
        """The two-sided p-value; None without a variance."""
        error = self.standard_error
        return student.tail(abs(self.difference) / error, self.df) if error else None

    def interval(self, level: float) -> tuple[float, float] | None:
        """Student's interval of the difference; None with too few clusters.

        Args:
            level: Its coverage, above 0 and below 1.
        """
        error = self.standard_error
        if error is None:
            return None
        reach = student.critical(level, self.df) * error if error else 0.0
        return self.difference - reach, self.difference + reach

    def smallest_detectable(self, level: float) -> float | None:
        """The difference that such data show with probability 0.8; None without a variance."""
        error = self.standard_error
        if not error:
            return None
        power = student.critical(2 * POWER - 1, self.df)
        return (student.critical(level, self.df) + power) * error


class Estimate(ABC):
    """The difference of two means, by sums that were made in the warehouse."""

    n: int
    """Queries behind the system's mean."""
    n_clusters: int
    """What is independent of each other: as many as queries, or fewer."""

    @property
    def n_drawn(self) -> int:
        """Clusters of either side."""
        return self.n_clusters

    @property
    @abstractmethod
    def n_baseline(self) -> int:
        """Queries behind the baseline's mean."""

    @property
    @abstractmethod
    def value(self) -> float:
        """The system's mean."""

    @property
    @abstractmethod
    def baseline_value(self) -> float:
        """The baseline's."""

    @property
    @abstractmethod
    def difference(self) -> float:
        """The first less the second; 0 if they differ by no more than their last digits."""

    @property
    @abstractmethod
    def standard_error(self) -> float | None:
        """Of the difference; 0 where nothing varies, None where there are too few clusters."""

    @property
    @abstractmethod
    def df(self) -> float:
        """Degrees of freedom."""

    @property
    @abstractmethod
    def effect_size(self) -> float | None:
        """The difference in standard deviations; None without a variance."""

    @abstractmethod
    def exact(self) -> tuple[float, str] | None:
        """The p-value where nothing varies, and the name of that test; None if there is none."""

    @property
    def t_statistic(self) -> TStatistic:
        """What Student's t makes of it."""
        error = self.standard_error
        return TStatistic(self.difference, error, self.df if error else 0.0)
