"""The variants of a sweep: families of methods, each with many weights, and the runs alone."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.spec.mixture import OF_K, OF_RANKS, PRESETS, Mixture, is_finite, mixture_of

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
        pairs += self._drawn(n_runs) if self.draws else self._grid(n_runs)
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

    def _drawn(self, n_runs: int) -> Iterator[tuple[Mixture, tuple[float, ...]]]:
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
        for others in _parts(count - first, n_runs - 1):
            yield (first, *others)


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
