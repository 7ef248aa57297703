"""Differences of small groups, pulled towards that of all: empirical Bayes, normal and normal.

A group's difference is the true one plus noise: d = t + e, t ~ N(D, between), e ~ N(0, noise),
where D is the difference of all. Its best guess is D + between / (between + noise) (d - D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shrinkage:
    """What is known of the true differences of groups.

    Attributes:
        centre: The difference of all, D.
        between: The variance of the true differences around it, 0 or more.
    """

    centre: float
    between: float

    def keeps(self, noise: float) -> float:
        """The share of a group's distance from the centre that is believed, from 0 to 1.

        Args:
            noise: The square of the standard error of its difference.
        """
        if noise <= 0:
            return 1.0
        return self.between / (self.between + noise)

    def shrunk(self, difference: float, noise: float) -> float:
        """The best guess of a group's true difference."""
        return self.centre + self.keeps(noise) * (difference - self.centre)


def estimated(centre: float, differences: Sequence[float], noises: Sequence[float]) -> Shrinkage:
    """The variance between groups by the moments of DerSimonian and Laird (1986).

    Args:
        centre: The difference of all.
        differences: Of each group.
        noises: The squares of their standard errors; groups of 0 are left out.

    >>> estimated(0.0, [1.0, -1.0], [0.5, 0.5])
    Shrinkage(centre=0.0, between=1.5)
    >>> estimated(0.0, [0.1, -0.1], [0.5, 0.5]).between
    0.0
    """
    weighted_differences = [
        (d, 1 / noise) for d, noise in zip(differences, noises, strict=True) if noise > 0
    ]
    if len(weighted_differences) < 2:
        return Shrinkage(centre, 0.0)
    total = sum(weight for _, weight in weighted_differences)
    squares = sum(weight * weight for _, weight in weighted_differences)
    mean = sum(d * weight for d, weight in weighted_differences) / total
    spread = sum(weight * (d - mean) ** 2 for d, weight in weighted_differences)
    return Shrinkage(
        centre, max(0.0, (spread - (len(weighted_differences) - 1)) / (total - squares / total))
    )
