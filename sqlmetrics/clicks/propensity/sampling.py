"""Samples of groups of queries, drawn with replacement, for intervals.

A group stands in a sample as often as a Poisson draw with mean 1 says. Groups are formed in the
database by the MD5 of a query's text, and drawn here by a generator with a fixed seed: the same
log has the same intervals on every database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import exp
from random import Random

from sqlmetrics.stats.estimate import Interval, percentile_interval

SEED = 2026
FEWEST = 20
"""Of fewer samples that have an answer there is no interval."""


def samples(groups: Iterable[float], count: int) -> Iterator[dict[float, int]]:
    """So many samples: group -> how often it stands there, of those that do.

    Args:
        groups: Their numbers.
        count: How many samples.
    """
    chance = Random(SEED)  # noqa: S311 (nothing is hidden by it)
    ordered = sorted(groups)
    for _ in range(count):
        draws = ((group, _poisson(chance.random())) for group in ordered)
        yield {group: times for group, times in draws if times}


def interval(values: Iterable[float | None], confidence: float) -> Interval:
    """The percentiles of what samples say; None twice if too few say something.

    Args:
        values: Of each sample; None where it says nothing.
        confidence: The coverage, above 0 and below 1.
    """
    known_values = [value for value in values if value is not None]
    if len(known_values) < FEWEST:
        return None, None
    return percentile_interval(known_values, confidence)


def _poisson(share: float) -> int:
    """The number whose cumulated chance a share lies below, of a Poisson law with mean 1."""
    times, chance = 0, exp(-1)
    reached = chance
    while share >= reached and times < 12:
        times += 1
        chance /= times
        reached += chance
    return times
