"""The variants of a sweep: families of methods, each with many weights, and the runs alone."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.spec.mixture import OF_K, OF_RANKS, PRESETS, Mixture, is_finite, mixture_of
from sqlmetrics.stats import TIED, student

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

STEP_TOLERANCE = 0.015
"""By so large a share may a step be off, so that .33 is a third."""

MOST_VARIANTS = 1000
"""As many variants has a sweep at most."""

UNWEIGHTED = ("turns",)


@dataclass(frozen=True)
class Variant:
    """One way to make a ranking of the runs.

    Attributes:
        family: The mixture without weights; None of a run alone.
        weights: A weight of each run; of a run alone 1 for it, and 0 for the others.
        name: What people call it.
    """

    family: Mixture | None
    weights: tuple[float, ...]
    name: str

    @property
    def is_equal(self) -> bool:
        """Whether all runs weigh the same."""
        return self.family is not None and len({*self.weights}) == 1


@dataclass(frozen=True)
class Grid:
    """What is tried.

    Attributes:
        families: The mixtures, without weights.
        step: The step from one weight to the next; the weights of a variant sum to 1.
        draws: As many variants are drawn instead of a grid; None for the grid.
        seed: Another one draws others.
    """

    families: tuple[Mixture, ...]
    step: float = 0.1
    draws: int | None = None
    seed: int = 1

    def variants(self, runs: Sequence[str]) -> list[Variant]:
        """The runs alone, each family with equal weights, then all other weights.

        Raises:
            SpecError: If they are too many, or the step is none.
        """
        n_runs = len(runs)
        equal = (round(1 / n_runs, 6),) * n_runs
        variants = [
            Variant(None, tuple(float(other == run) for other in runs), f"{run} alone")
            for run in runs
        ]
        pairs = [(family, equal) for family in self.families]
        pairs += self._random_mixtures(n_runs) if self.draws else self._grid(n_runs)
        variants += [
            Variant(
                family,
                weights,
                str(family if unweighted else replace(family, weights=_in_short(weights))),
            )
            for family, weights in dict.fromkeys(pairs)
            for unweighted in [family.method in UNWEIGHTED]
            if not unweighted or weights == equal
        ]
        if len(variants) > MOST_VARIANTS:
            raise SpecError(
                f"{len(variants):,} variants are more than {MOST_VARIANTS:,}; use a larger step "
                "(--step), or try some at random (draws=200, --draws 200)"
            )
        return variants

    def _grid(self, n_runs: int) -> Iterator[tuple[Mixture, tuple[float, ...]]]:
        count = round(1 / self.step)
        for family, parts in product(self.families, _parts(count, n_runs)):
            if sum(part > 0 for part in parts) > 1:
                yield family, tuple(round(part / count, 6) for part in parts)

    def _random_mixtures(self, n_runs: int) -> Iterator[tuple[Mixture, tuple[float, ...]]]:
        chance = random.Random(self.seed)  # noqa: S311 (no secret)
        for _ in range(self.draws or 0):
            family = chance.choice(self.families)
            sizes = [chance.expovariate(1) for _ in range(n_runs)]
            yield family, tuple(round(size / sum(sizes), 3) for size in sizes)


def _parts(count: int, n_runs: int) -> Iterator[tuple[int, ...]]:
    """All ways to give a number of equal parts to runs."""
    if n_runs == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in _parts(count - first, n_runs - 1):
            yield (first, *rest)


def _in_short(weights: tuple[float, ...]) -> tuple[float, ...]:
    """Weights as people write them: thirds that are equal as 1:1:1, others with three digits."""
    short = tuple(round(weight, 3) for weight in weights)
    is_cut = len({*short}) == 1 and short[0] * len(short) != 1
    return (1.0,) * len(short) if is_cut else short


def _check_step(step: float) -> None:
    if not (is_finite(step) and 0.01 <= step <= 0.5):
        raise SpecError(f"step must be from 0.01 to 0.5, given {shortened(repr(step))}")
    if abs(step * round(1 / step) - 1) > STEP_TOLERANCE:
        smaller, larger = 1 / math.ceil(1 / step), 1 / math.floor(1 / step)
        raise SpecError(
            f"step must divide 1, given {step:g}; the nearest are {smaller:.4g} and {larger:.4g}"
        )


def grid_of(
    like: str | None,
    methods: Sequence[str],
    norms: Sequence[str],
    constants: Sequence[float],
    *,
    floor: float | None,
    step: float,
    draws: int | None,
    seed: int,
) -> Grid:
    """A grid by what was said of it.

    Raises:
        SpecError: If a name is not known, or a number cannot be.
    """
    _check_step(step)
    check_count("seed", seed, least=0)
    if draws is not None:
        check_count("draws", draws, most=MOST_VARIANTS)
    for named_norm in norms:  # also those that no method reads
        mixture_of(like, {"norm": named_norm})
    for named_constant in constants:
        mixture_of(like, {"k": named_constant})
    families: list[Mixture] = []
    preset: dict[str, Any] = dict(PRESETS.get(str(like), {}))
    for method in methods or (None,):
        name = method or preset.get("method")
        is_of_scores = name not in OF_RANKS and not (name is None and like is None)
        for norm in (norms or (None,)) if is_of_scores else (None,):
            for constant in (constants or (None,)) if name in OF_K else (None,):
                settings = {"method": method, "norm": norm, "k": constant, "floor": floor}
                families.append(mixture_of(like, settings))
    if any(family.method == "med" for family in families):
        raise SpecError("a sweep has no med, whose weights are no factors of a sum; leave it out")
    return Grid(tuple(dict.fromkeys(families)), step, draws, seed)


# Which variant is best, what it is worth on other queries, and which are as good.
#
# The best of many looks better on the queries that it was chosen on than it is. Its value is
# therefore cross-fitted: each fold of the queries is measured by the variant that is best on all
# others. Its interval is that of a mean that was chosen for being the largest: Andrews, Kitagawa
# and
# McCloskey, Inference on winners, Quarterly Journal of Economics 139 (2024), the hybrid of sections
# 3 and 4; the interval of Student's t around a cross-fitted mean holds in 80 to 90 % of cases
# alone.
# A variant is as good as the best unless another one is better by more than the largest of all
# differences reaches by chance (Hsu's multiple comparisons with the best).

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
