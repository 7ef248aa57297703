"""Orders of systems beside scipy, and beside all ways to break their ties."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations, product
from statistics import fmean

import pytest
from conftest import peer
from marked import by_turns

from sqlmetrics.stats.nonparametric import kendall, order_correlations


def correlations(values: Sequence[Sequence[float]]) -> tuple[list[list[float]], list[list[float]]]:
    """Both coefficients of each pair of orders."""
    numpy = pytest.importorskip("numpy")
    taus, taus_ap = order_correlations(numpy.array(values, dtype=float)[:, None, :])
    return taus[..., 0].tolist(), taus_ap[..., 0].tolist()


def tau_ap(truth: Sequence[int], order: Sequence[int]) -> float:
    """Of systems without ties: below the best, the share of those above that belong there."""
    best_first = sorted(range(len(order)), key=lambda i: -order[i])
    shares = [
        fmean(truth[above] > truth[system] for above in best_first[:position])
        for position, system in enumerate(best_first)
        if position
    ]
    return 2 * fmean(shares) - 1


def broken(values: Sequence[int]) -> list[tuple[int, ...]]:
    """All orders without ties that do not contradict one with ties."""
    return [
        order
        for order in permutations(range(len(values)))
        if all(
            (order[i] > order[j]) >= (values[i] > values[j])
            for i, j in permutations(range(len(values)), 2)
        )
    ]


def test_tau_ap_is_the_mean_over_all_ways_to_break_ties() -> None:
    chance = random.Random(3)
    assert correlations([[4, 3, 2, 1], [3, 4, 2, 1]])[1][0][1] == pytest.approx(1 / 3)
    assert correlations([[4, 3, 2, 1], [4, 3, 1, 2]])[1][0][1] == pytest.approx(7 / 9)
    for n_grades in (2, 3, 99):
        values = [[chance.randrange(n_grades) for _ in range(4)] for _ in range(2)]
        expected = fmean(tau_ap(*orders) for orders in product(*map(broken, values)))
        assert correlations(values)[1][0][1] == pytest.approx(expected, abs=1e-12)


@by_turns(4)
def test_kendall_is_scipy_s() -> None:
    stats = peer("scipy.stats")
    chance = random.Random(4)
    values = [[chance.randrange(9) / 7 for _ in range(12)] for _ in range(4)]
    taus, _ = correlations(values)
    for i, j in product(range(4), repeat=2):
        expected = stats.kendalltau(values[i], values[j]).statistic
        assert taus[i][j] == pytest.approx(expected, abs=1e-12)
        assert kendall(values[i], values[j]) == pytest.approx(expected, abs=1e-12)


def test_without_an_order_there_is_no_correlation() -> None:
    nan = float("nan")
    taus, taus_ap = correlations([[1, 2, 3], [1, 1, 1 + 1e-12], [1, 2, nan]])
    for values in (taus, taus_ap):
        assert values[0][0] == pytest.approx(1)
        assert [values[i][j] != values[i][j] for i, j in ((0, 1), (1, 0), (0, 2), (2, 2))] == [
            True
        ] * 4
    assert correlations([[1], [2]])[0][0][1] != correlations([[1], [2]])[0][0][1]
    assert kendall([1, 1], [1, 2]) is None
