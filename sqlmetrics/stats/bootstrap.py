"""Resampling units with replacement: how often each is drawn, and the intervals of it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sqlmetrics.errors import SpecError
from sqlmetrics.stats import student
from sqlmetrics.stats.estimate import Interval, percentile_interval

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

DEFINED = 0.95
"""The share of replicates that must have a value, or there is no interval."""


def check_numpy(feature: str) -> None:
    """Raise SpecError where there is no NumPy.

    Args:
        feature: What needs it, as the subject of a sentence.
    """
    try:
        import numpy  # noqa: F401, ICN001
    except ImportError:  # pragma: no cover (who has pandas has it)
        raise SpecError(f"{feature} needs NumPy; run pip install numpy") from None


def resampled_counts(n_units: int, replicates: int, seed: int) -> Array:
    """How often each unit (column) is drawn in each replicate (row), n_units draws a replicate."""
    import numpy as np

    chance = np.random.default_rng(seed)
    counts = np.empty((replicates, n_units))
    for row in counts:
        row[:] = np.bincount(chance.integers(0, n_units, n_units), minlength=n_units)
    return counts


def bootstrap_interval(values: Array, confidence: float, n_units: int) -> Interval:
    """The percentiles of what replicates say; none where too many of them say nothing (NaN).

    Args:
        values: A number for each replicate.
        confidence: The coverage, above 0 and below 1.
        n_units: How many units were resampled.
    """
    import numpy as np

    defined = values[~np.isnan(values)]
    if n_units < 2 or len(defined) < max(2, DEFINED * len(values)):
        return None, None
    return percentile_interval(map(float, defined), expanded_level(confidence, n_units))


def expanded_level(confidence: float, n_units: int) -> float:
    """The coverage whose percentiles lie as far out as Student's t is wider than the normal.

    A bootstrap of few units is too narrow: Hesterberg, What teachers should know about the
    bootstrap, American Statistician 69 (2015).

    Args:
        confidence: The coverage, above 0 and below 1.
        n_units: How many units are resampled, 2 or more.
    """
    reach = student.critical(confidence, n_units - 1) * math.sqrt(n_units / (n_units - 1))
    return 2 * NormalDist().cdf(reach) - 1
