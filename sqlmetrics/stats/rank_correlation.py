"""How alike two orders of the same systems are: Kendall's tau, and tau_ap of the top."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sqlmetrics.stats import TIED

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

_LARGEST_CHUNK = 300_000
"""As many differences are looked at in one step."""


def kendall(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Kendall's tau-b: pairs in the same order less those in the other, corrected for ties.

    Returns:
        From -1 to 1; None if there are fewer than 2 values, or one side has all the same.

    >>> kendall([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    signs = [
        (sign(a, b), sign(c, d)) for (a, c), (b, d) in combinations(zip(xs, ys, strict=True), 2)
    ]
    n_first, n_second = (sum(pair[side] != 0 for pair in signs) for side in (0, 1))
    if not n_first or not n_second:
        return None
    return float(sum(x * y for x, y in signs) / (n_first * n_second) ** 0.5)


def sign(value: float, other: float) -> int:
    """1 if the value is higher, -1 if it is lower, 0 if both are tied."""
    return 0 if abs(value - other) <= TIED else 1 if value > other else -1


def order_correlations(values: Array) -> tuple[Array, Array]:
    """Kendall's tau-b and tau_ap of each order with each other one, once per replicate.

    tau_ap is the mean over systems but the best one of how many of those above it belong there, on
    a scale from -1 to 1. It is the mean over all orders that break the ties, so that ties on either
    side make it smaller, also of an order with itself.

    Args:
        values: By order, replicate and system, higher is better; NaN where a system has none.

    Returns:
        Both by the order that is the reference, the order that is judged by it, and replicate; NaN
        where a system has no value, where there is one system, or where all are tied.

    Source: E. Yilmaz, J. A. Aslam and S. Robertson: A new rank correlation coefficient for
    information retrieval. SIGIR 2008. J. Urbano and M. Marrero: The treatment of ties in AP
    correlation. ICTIR 2017.
    """
    import numpy as np

    n_orders, n_replicates, n_systems = values.shape
    taus = np.empty((n_replicates, n_orders, n_orders))
    taus_ap = taus.copy()
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n_systems + 1))])
    size = max(1, _LARGEST_CHUNK // (n_orders * max(1, n_systems**2)))
    for start in range(0, n_replicates, size):
        part = values[:, start : start + size].transpose(1, 0, 2)
        is_above = part[..., None, :] - part[..., :, None] > TIED
        n_above, n_below = is_above.sum(axis=-1), is_above.sum(axis=-2)
        n_tied = n_systems - n_above - n_below
        weights = (harmonic[n_above + n_tied - 1] - harmonic[(n_above - 1).clip(0)]) / n_tied
        above = is_above.astype(np.float64)
        signs = (above - above.swapaxes(-1, -2)).reshape(*part.shape[:2], -1)
        weighted = (above * weights[..., None].astype(np.float64)).reshape(signs.shape)
        n_ordered = (n_above + n_below).sum(axis=-1).astype(float)
        n_ordered[np.isnan(part).any(axis=-1)] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(n_ordered[:, :, None] * n_ordered[:, None, :])
            tau = signs @ signs.swapaxes(-1, -2) / root
            tau_ap = signs @ weighted.swapaxes(-1, -2) / (n_systems - 1)
        taus[start : start + size] = tau
        taus_ap[start : start + size] = np.where(np.isnan(tau), np.nan, tau_ap)
    return taus.transpose(1, 2, 0), taus_ap.transpose(1, 2, 0)
