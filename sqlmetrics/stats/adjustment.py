"""Several tests at once: Holm's and Bonferroni's for a family, Benjamini and Hochberg's beside.

All give adjusted p-values and the coverage at which a row's interval says the same: it leaves
out 0 exactly where the adjusted p-value is below the error that is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Adjustment:
    """What testing several hypotheses together does to each.

    Attributes:
        p_values: The adjusted p-values, in the order of the tests.
        coverage: Of the interval of each, above 0 and below 1; that of a single test for one.
    """

    p_values: Sequence[float]
    coverage: float


def holm(p_values: Sequence[float], confidence: float) -> Adjustment:
    """P-values that hold for all together: the chance of any false finding stays below them.

    Every hypothesis that Holm keeps was held against the error of the first one kept, and every
    one that he rejects passes it too: so that one coverage serves all intervals.

    Args:
        p_values: Of each test.
        confidence: The coverage of a single interval, like 0.95.

    Source: Holm 1979.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03], 0.95).p_values]
    [0.03, 0.06, 0.06]
    >>> round(holm([0.01, 0.04, 0.03], 0.95).coverage, 4)  # two are kept: 1 - .05 / 2
    0.975
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, p_values[i] * (len(p_values) - rank)))
        adjusted[i] = least
    n_kept = sum(p >= 1 - confidence for p in adjusted)
    return Adjustment(adjusted, 1 - (1 - confidence) / max(1, n_kept))


def bonferroni(p_values: Sequence[float], confidence: float) -> Adjustment:
    """P-values times their number: the chance of any false finding stays below them.

    Args:
        p_values: Of each test.
        confidence: The coverage of a single interval, like 0.95.

    >>> [round(p, 3) for p in bonferroni([0.01, 0.04, 0.5], 0.95).p_values]
    [0.03, 0.12, 1.0]
    """
    n_tests = max(1, len(p_values))
    return Adjustment([min(1.0, p * n_tests) for p in p_values], 1 - (1 - confidence) / n_tests)


def benjamini_hochberg(p_values: Sequence[float], confidence: float) -> Adjustment:
    """P-values of a search: of the findings below one, at most that share is false on average.

    The coverage is that of intervals whose false coverage rate is bounded: 1 - R q / m for R
    findings of m (Benjamini and Yekutieli 2005).

    Args:
        p_values: Of each test.
        confidence: The coverage of a single interval, like 0.95.

    Source: Benjamini and Hochberg 1995.

    >>> [round(p, 3) for p in benjamini_hochberg([0.01, 0.04, 0.03], 0.95).p_values]
    [0.03, 0.04, 0.04]
    >>> round(benjamini_hochberg([0.01, 0.9, 0.8], 0.95).coverage, 4)  # one finding: 1 - .05 / 3
    0.9833
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, most = [0.0] * len(p_values), 1.0
    for rank in reversed(range(len(order))):
        i = order[rank]
        most = min(most, p_values[i] * len(p_values) / (rank + 1))
        adjusted[i] = most
    n_found = sum(p < 1 - confidence for p in adjusted)
    return Adjustment(adjusted, 1 - (1 - confidence) * max(1, n_found) / max(1, len(p_values)))
