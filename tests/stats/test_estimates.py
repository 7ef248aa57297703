"""Estimates, and the tests of counts and ranks, beside scipy, tables and hand arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb
from statistics import correlation, fmean

import pytest
from conftest import peer
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlmetrics.stats import student
from sqlmetrics.stats.estimate import Estimate, mean_of_repeats, ratio_of_sums, wilson_interval
from sqlmetrics.stats.nonparametric import (
    chi_square_test,
    ranks,
    sign_test,
    spearman,
)

XS, YS = [0.1, 0.4, 0.35, 0.8], [0.3, 0.9, 0.7, 0.75, 0.5]


def mean_of(values: list[float]) -> Estimate:
    """The mean of values that count alike, by its sums."""
    n = len(values)
    squares = math.fsum(value * value for value in values)
    return ratio_of_sums(fmean(values), n, w=n, x2=squares, xw=math.fsum(values), w2=n)


def test_an_estimate_is_scipy_s_t_test() -> None:
    scipy_stats = peer("scipy.stats")
    for estimate, test in (
        (mean_of(XS), scipy_stats.ttest_1samp(XS, 0)),
        (mean_of(XS).minus(mean_of(YS)), scipy_stats.ttest_ind(XS, YS, equal_var=False)),
    ):
        assert estimate.df == pytest.approx(test.df)
        assert estimate.p_value() == pytest.approx(test.pvalue, rel=1e-9)
        expected = test.confidence_interval(0.9)
        assert estimate.interval(0.9) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_an_estimate_without_an_error_has_no_interval_and_without_variance_a_narrow_one() -> None:
    for unknown in (
        mean_of([0.5]),
        mean_of(XS).minus(mean_of([0.5])),
        ratio_of_sums(None, 9, w=0, x2=0, xw=0, w2=0),
    ):
        assert (unknown.interval(0.95), unknown.p_value()) == ((None, None), None)
        assert unknown.smallest_detectable(0.95) is None
    same = mean_of([0.25] * 3)
    for estimate in (same, same.minus(same)):
        assert estimate.interval(0.95) == (estimate.value, estimate.value)
        assert (estimate.p_value(), estimate.half_width(0.95, always=True)) == (None, 0.0)


def test_sums_that_overflow_and_weights_of_zero_have_no_error() -> None:
    overflown = ratio_of_sums(1e200, 9, w=9, x2=math.inf, xw=9e200, w2=9)
    weightless = ratio_of_sums(0.5, 3, w=0, x2=1, xw=0.2, w2=3)
    for estimate in (overflown, weightless, overflown.minus(weightless)):
        assert (estimate.standard_error, estimate.df) == (None, 0)
        assert estimate.interval(0.95) == (None, None)
        assert estimate.p_value() is None


def test_nights_of_the_same_queries_are_one_night() -> None:
    night = mean_of(XS)
    assert mean_of_repeats(night.value, [(night, 4.0)] * 20) == Estimate(
        night.value, pytest.approx(night.standard_error), night.df
    )
    assert mean_of_repeats(0.5, [(night, 4.0), (mean_of([0.5]), 1.0)]).standard_error is None


def test_wilson_is_scipy_s() -> None:
    binomtest = peer("scipy.stats").binomtest
    for hits, n in ((0, 10), (3, 7), (10, 10)):
        expected = binomtest(hits, n).proportion_ci(0.95, method="wilson")
        assert wilson_interval(hits, n, 0.95) == pytest.approx((expected.low, expected.high))


def test_quantiles_of_t_are_scipy_s() -> None:
    scipy_stats = peer("scipy.stats")
    for level in (0.5, 0.9, 0.95, 0.99, 0.9999):
        for df in (1, 1.7, 2, 3.25, 7, 30.5, 299, 12_345.6, 1e8):
            expected = scipy_stats.t.ppf((1 + level) / 2, df)
            assert student.critical(level, df) == pytest.approx(expected, rel=1e-9)
    for level, df in ((0, 1), (1, 1), (0.5, 0)):
        with pytest.raises(ValueError, match="confidence is in"):
            student.critical(level, df)


def test_quantiles_of_t_from_the_tables() -> None:
    # Abramowitz and Stegun, table 26.10
    for df, expected in ((1, 12.706), (2, 4.303), (10, 2.228), (120, 1.980)):
        assert student.critical(0.95, df) == pytest.approx(expected, abs=5e-4)
    assert student.critical(0.95, math.inf) == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize(
    ("x", "df", "p"),
    [  # Abramowitz and Stegun, table 26.8
        (3.84146, 1, 0.05),
        (10.8276, 1, 0.001),
        (5.99147, 2, 0.05),
        (7.81473, 3, 0.05),
        (16.2662, 3, 0.001),
        (18.3070, 10, 0.05),
        (24.9958, 15, 0.05),
        (59.7031, 30, 0.001),
        (0.0, 1, 1.0),
        (0.0, 4, 1.0),
    ],
)
def test_the_table_of_chi_square(x: float, df: int, p: float) -> None:
    assert chi_square_test(x, df) == pytest.approx(p, rel=2e-5)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 2000), st.integers(1, 60))
def test_chi_square_is_scipy_s(x: float, df: int) -> None:
    expected = float(peer("scipy.special").chdtrc(df, x))
    assert chi_square_test(x, df) == pytest.approx(expected, rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(("x", "df"), [(-1.0, 1), (1.0, 0), (math.nan, 1)])
def test_chi_square_has_a_range(x: float, df: int) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        chi_square_test(x, df)


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(9, 1, 22 / 1024), (1, 9, 22 / 1024), (4, 5, 1), (2, 2, 1)]
)
def test_the_sign_test(wins: int, losses: int, p: float) -> None:
    assert sign_test(wins, losses) == pytest.approx(p, rel=1e-12)


def test_the_sign_test_of_many_is_that_of_whole_numbers() -> None:
    for wins, losses in ((530, 470), (531, 470), (620, 480)):
        n = wins + losses
        expected = Fraction(2 * sum(comb(n, k) for k in range(wins, n + 1)), 2**n)
        assert sign_test(wins, losses) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize(
    ("xs", "ys", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], 1.0),
        ([1, 2, 3], [9, 4, 1], -1.0),
        # squares of the differences of ranks 0 1 1: 1 - 6 x 2 / (3 x 8)
        ([1, 2, 3], [1, 3, 2], 0.5),
        # 1 - 6 x (1 + 1 + 1 + 1) / (4 x 15)
        ([1, 2, 3, 4], [2, 1, 4, 3], 0.6),
        # ranks 1.5 1.5 3 and 1 2 3: 1.5 / sqrt(1.5 x 2)
        ([5, 5, 7], [1, 2, 3], 0.75**0.5),
        ([1, 1, 1], [1, 2, 3], None),
        ([1], [2], None),
        ([], [], None),
    ],
)
def test_spearman(xs: list[float], ys: list[float], expected: float | None) -> None:
    assert spearman(xs, ys) == (expected if expected is None else pytest.approx(expected))


def test_ranks_share_ties() -> None:
    assert ranks([3, 1, 3, 3, 2]) == [4, 1, 4, 4, 2]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_spearman_is_pearson_s_of_ranks(values: list[tuple[int, int]]) -> None:
    xs, ys = map(list, zip(*values, strict=True))
    if len(set(xs)) < 2 or len(set(ys)) < 2:
        assert spearman(xs, ys) is None
        return
    assert spearman(xs, ys) == pytest.approx(
        correlation(mean_positions(xs), mean_positions(ys)), abs=1e-12
    )


def mean_positions(values: list[int]) -> list[float]:
    """The mean of the positions that a value has in the sorted list."""
    return [fmean(i for i, x in enumerate(sorted(values)) if x == value) for value in values]
