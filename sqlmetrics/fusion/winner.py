"""Which variant is best, what it is worth on other queries, and which are as good.

The best of many looks better on the queries that it was chosen on than it is. Its value is
therefore cross-fitted: each fold of the queries is measured by the variant that is best on all
others. Its interval is that of a mean that was chosen for being the largest: Andrews, Kitagawa and
McCloskey, Inference on winners, Quarterly Journal of Economics 139 (2024), the hybrid of sections
3 and 4; the interval of Student's t around a cross-fitted mean holds in 80 to 90 % of cases alone.
A variant is as good as the best unless another one is better by more than the largest of all
differences reaches by chance (Hsu's multiple comparisons with the best).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sqlmetrics.fusion.grid import Variant
from sqlmetrics.stats import TIED, student

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

DRAWS = 2000
"""So many times are means drawn that differ by chance alone."""

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Gain:
    """A number of the best variant: its mean, or its advantage over another one.

    Attributes:
        naive: On the queries that it was chosen on.
        value: On queries that it was not chosen on, by folds.
        ci_low: The lower end of its interval.
        ci_high: The upper end.
    """

    naive: float
    value: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True)
class Winner:
    """The best of several variants.

    Attributes:
        best: Its number, from 0.
        equal: The number of the variant with equal weights by the same method.
        run: The number of the best single run.
        fold_winners: The best variant of all queries but those of a fold, of each fold.
        mean: Its mean.
        loss: By how much it looks better, on the queries that it was chosen on, than it is.
        over_equal: Its advantage over equal weights by the same method; more is better.
        over_run: Likewise over the best single run.
        as_good: The numbers of the variants that no other one is better than, beyond chance.
        n_units: How many queries, or clusters of them, there are.
    """

    best: int
    equal: int
    run: int
    fold_winners: tuple[int, ...]
    mean: Gain
    loss: float
    over_equal: Gain
    over_run: Gain
    as_good: frozenset[int]
    n_units: int


def find_winner(
    sums: Array, weights: Array, variants: Sequence[Variant], *, sign: int, folds: int, level: float
) -> Winner | None:
    """The best variant, and what it is worth; None if fewer than two units have a value.

    Args:
        sums: The sum of weighted values of each unit (rows, in the order of a hash) and variant.
        weights: The sum of the weights behind each.
        variants: What was tried: the runs alone, then families with equal weights among others.
        sign: 1 where a higher value is better, -1 where a lower one is.
        folds: How many, 2 or more; as many as units if these are fewer.
        level: The coverage of the intervals, and of the set of those that are as good.
    """
    import numpy as np

    used = weights.min(axis=1) > 0
    sums, weights = sign * sums[used], weights[used]
    n_units = len(sums)
    if n_units < 2:
        return None
    picks = _Picks(variants)
    best, equal, run = picks(sums.sum(axis=0) / weights.sum(axis=0))
    measured = np.zeros((2, 3))
    fold_winners = []
    for fold in range(min(folds, n_units)):
        inside = np.arange(n_units) % min(folds, n_units) == fold
        numbers = [*picks(sums[~inside].sum(axis=0) / weights[~inside].sum(axis=0))]
        fold_winners.append(numbers[0])
        measured += [sums[inside][:, numbers].sum(axis=0), weights[inside][:, numbers].sum(axis=0)]
    values = measured[0] / measured[1]
    chosen = Chosen.of(sums, weights, level)
    rivals = [(best, number) for number in range(len(variants))]
    run_rivals = [(run, number) for number in picks.singles]
    over_all = [(number, None) for number in range(len(variants))]
    over_equal = [(number, picks.equal_of(number)) for number, _ in over_all]
    over_runs = [(number, single) for number, _ in over_all for single in picks.singles]
    mean = chosen.gain((best, None), rivals, over_all, values[0])
    return Winner(
        best=best,
        equal=equal,
        run=run,
        fold_winners=tuple(fold_winners),
        mean=mean if sign > 0 else Gain(-mean.naive, -mean.value, -mean.ci_high, -mean.ci_low),
        loss=mean.naive - mean.value,
        over_equal=chosen.gain((best, equal), rivals, over_equal, values[0] - values[1]),
        over_run=chosen.gain((best, run), rivals + run_rivals, over_runs, values[0] - values[2]),
        as_good=chosen.as_good(),
        n_units=n_units,
    )


class _Picks:
    """The best variant of some means, that with equal weights beside it, and the best run."""

    def __init__(self, variants: Sequence[Variant]) -> None:
        self.singles = [n for n, variant in enumerate(variants) if variant.family is None]
        self._families = [variant.family for variant in variants]
        self._equals = {v.family: n for n, v in enumerate(variants) if v.is_equal}

    def equal_of(self, number: int) -> int:
        """The variant with equal weights of the same family; beside a run alone the first one."""
        return self._equals.get(self._families[number], next(iter(self._equals.values())))

    def __call__(self, means: Array) -> tuple[int, int, int]:
        best, run = (_first_best(means, numbers) for numbers in (range(len(means)), self.singles))
        return best, self.equal_of(best), run


def _first_best(means: Array, numbers: Sequence[int]) -> int:
    """The first of those that are highest, but for the last digits of sums."""
    highest = max(means[number] for number in numbers)
    return next(number for number in numbers if means[number] >= highest - TIED)


Contrast = tuple[int, int | None]
"""The mean of a variant, or by how much it is above that of another."""


@dataclass(frozen=True)
class Chosen:
    """Means of variants, of which one is chosen because it is the largest.

    Attributes:
        means: Of each variant.
        covariances: Of these.
        draws: Means that differ by chance alone, a row each.
        df: Degrees of freedom.
        level: The coverage of intervals.
    """

    means: Array
    covariances: Array
    draws: Array
    df: int
    level: float

    @classmethod
    def of(cls, sums: Array, weights: Array, level: float) -> Chosen:
        """Of the sums of values and weights of units, as `find_winner` takes them."""
        import numpy as np

        n_units, masses = len(sums), weights.sum(axis=0)
        means = sums.sum(axis=0) / masses
        influences = (sums - means * weights) / masses
        covariances = influences.T @ influences * n_units / (n_units - 1)
        chance = np.random.default_rng(1)
        variances, vectors = np.linalg.eigh(covariances)
        roots = vectors * np.sqrt(np.clip(variances, 0, None))
        draws = chance.standard_normal((DRAWS, len(means))) @ roots.T
        draws /= np.sqrt(chance.chisquare(n_units - 1, (DRAWS, 1)) / (n_units - 1))
        return cls(means, covariances, draws, n_units - 1, level)

    def gain(
        self, of: Contrast, selected: Sequence[Contrast], choices: Sequence[Contrast], value: float
    ) -> Gain:
        """A number of what was chosen, with the interval that holds although it was chosen.

        Args:
            of: What is asked for.
            selected: What is 0 or more because of the choice.
            choices: What might have been asked for, had another one been chosen.
            value: It, cross-fitted; kept within the interval.
        """
        import numpy as np

        naive, error = self._value(of), math.sqrt(max(0.0, self._covariance(of, of)))
        if error <= 1e-12 * max(1.0, abs(naive)):
            return Gain(naive, naive, naive, naive)
        slopes = [self._covariance(contrast, of) / error**2 for contrast in selected]
        ends = [
            (slope, naive - self._value(contrast) / slope)
            for contrast, slope in zip(selected, slopes, strict=True)
            if abs(slope) > 1e-9
        ]
        low = max((end for slope, end in ends if slope > 0), default=-math.inf)
        high = min((end for slope, end in ends if slope < 0), default=math.inf)
        miss = 1 - self.level
        widest = self._largest(choices, miss / 10)
        rest = miss * 0.9 / (1 - miss / 10) / 2
        # Student's t instead of the normal, for which the distribution of a part is known
        error *= student.critical(self.level, self.df) / _NORMAL.inv_cdf(1 - miss / 2)
        window = _Window(naive, error, low, high, widest)
        ci_low, ci_high = window.solve(1 - rest), window.solve(rest)
        return Gain(naive, float(np.clip(value, ci_low, ci_high)), ci_low, ci_high)

    def _value(self, contrast: Contrast) -> float:
        plus, minus = contrast
        return float(self.means[plus] - (0 if minus is None else self.means[minus]))

    def _covariance(self, contrast: Contrast, other: Contrast) -> float:
        total = 0.0
        for number, sign in zip(contrast, (1, -1), strict=True):
            for second, second_sign in zip(other, (1, -1), strict=True):
                if number is not None and second is not None:
                    total += sign * second_sign * float(self.covariances[number, second])
        return total

    def _largest(self, contrasts: Sequence[Contrast], miss: float) -> float:
        """How many errors the largest of several numbers is off, but for a share of cases."""
        import numpy as np

        largest = np.zeros(len(self.draws))
        for plus, minus in contrasts:
            error = math.sqrt(max(0.0, self._covariance((plus, minus), (plus, minus))))
            if error > 1e-12:
                off = self.draws[:, plus] - (0 if minus is None else self.draws[:, minus])
                np.maximum(largest, np.abs(off) / error, out=largest)
        return max(float(np.quantile(largest, 1 - miss)), student.critical(1 - miss, self.df))

    def as_good(self) -> frozenset[int]:
        """The variants that no other one is better than, beyond chance."""
        import numpy as np

        variances, good = np.diag(self.covariances), []
        least = student.critical(2 * self.level - 1, self.df)
        most = student.critical(1 - 2 * (1 - self.level) / max(2, len(self.means)), self.df)
        for number, mean in enumerate(self.means):
            squares = variances + variances[number] - 2 * self.covariances[number]
            differs = squares > 1e-12 * (variances + variances[number])
            leads, errors = self.means - mean, np.sqrt(squares[differs])
            same = not (leads[~differs] > 1e-9 * max(1.0, abs(mean))).any()
            lead = (leads[differs] / errors).max(initial=-math.inf)
            if same and least < lead < most:
                off = (self.draws[:, differs] - self.draws[:, [number]]) / errors
                same = lead <= np.quantile(off.max(axis=1), self.level)
            if same and lead < most:
                good.append(number)
        return frozenset(good)


@dataclass(frozen=True)
class _Window:
    """A normal number that is known to lie in a window, and not far from its mean.

    Attributes:
        value: The number.
        error: Its standard error.
        low: The window's lower end.
        high: The upper one.
        widest: So many errors is the number from its mean at most.
    """

    value: float
    error: float
    low: float
    high: float
    widest: float

    def solve(self, share: float) -> float:
        """The mean by which the number has a share of the distribution below it."""
        ends = [self.value - self.widest * self.error, self.value + self.widest * self.error]
        for _ in range(60):
            middle = sum(ends) / 2
            ends[self._below(middle) <= share] = middle
        return sum(ends) / 2

    def _below(self, mean: float) -> float:
        far = self.widest * self.error
        ends = (max(self.low, mean - far), min(self.high, mean + far), self.value)
        low, high, value = (_NORMAL.cdf((end - mean) / self.error) for end in ends)
        return (value - low) / (high - low) if high > low else float(mean < self.value)
