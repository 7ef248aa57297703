"""Intervention harvesting: items that stood at several positions tell how these are looked at.

After Agarwal et al., Estimating Position Bias without Intrusive Interventions (WSDM 2019). What
stood at two positions is as attractive at both, so its clicks differ by how often these are
looked at. Each two positions give one ratio, over all pairs of a query and an item: that of
Mantel and Haenszel, which needs no pair to have many clicks. Least squares of its logarithm,
weighted by the inverse of its variance, put at most k (k - 1) / 2 ratios of k positions together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log

from sqlmetrics.clicks.propensity.em import samples
from sqlmetrics.clicks.propensity.moves import Ends, Link, Links, Sums
from sqlmetrics.clicks.propensity.solvers import LeastSquares


def harvested(positions: Sequence[int], strong: Sequence[Link]) -> dict[int, float]:
    """Position -> propensity, against the first position.

    Args:
        positions: The positions of a group; the first is the reference.
        strong: The links that are used; they join all positions.
    """
    fit = _fit(positions, strong)
    logarithms = fit.solved({(link.above, link.below): log(link.ratio) for link in strong})
    return {position: exp(value) for position, value in logarithms.items()}


def resampled(
    links: Links, positions: Sequence[int], strong: Sequence[Link], count: int
) -> list[dict[int, float]]:
    """The same of so many samples of the queries; those in which a link has no click are left out.

    The weights stay those of the whole log.
    """
    fit, curves = _fit(positions, strong), []
    for sample in samples(links.sums, count):
        sums = _added(links.sums, sample, fit.weights)
        if all(above > 0 and below > 0 for above, below in sums.values()):
            logs = {ends: log(below / above) for ends, (above, below) in sums.items()}
            solved = fit.solved(logs)
            curves.append({position: exp(value) for position, value in solved.items()})
    return curves


def _fit(positions: Sequence[int], strong: Sequence[Link]) -> LeastSquares:
    return LeastSquares(positions, {(link.above, link.below): link.precision for link in strong})


def _added(
    sums: Mapping[float, Mapping[Ends, Sums]],
    sample: Mapping[float, int],
    used: Mapping[Ends, float],
) -> dict[Ends, tuple[float, float]]:
    added = dict.fromkeys(used, (0.0, 0.0))
    for group, times in sample.items():
        for ends, (above, below) in sums[group].items():
            if ends in added:
                so_far = added[ends]
                added[ends] = so_far[0] + times * above, so_far[1] + times * below
    return added
