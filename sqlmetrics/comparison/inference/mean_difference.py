"""The difference of two means, by whichever sums it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sqlmetrics.stats.estimate import Estimate


class MeanDifference(ABC):
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
    def estimate(self) -> Estimate:
        """The difference with its error."""
        error = self.standard_error
        return Estimate(self.difference, error, self.df if error else 0.0)
