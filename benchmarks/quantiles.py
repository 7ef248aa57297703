"""How often intervals of differences of quantiles hold the truth: `python -m benchmarks.quantiles`.

Two systems have so many users each, who search once to eight times; their times to success are
lognormal about a level of the user. The estimate is that of the plain reference, which the tests
hold to what `compare` says at 1e-9.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from fractions import Fraction

from sqlmetrics.proof.reference_online import quantile_of_users
from sqlmetrics.stats import student

QUANTILES = (Fraction(1, 2), Fraction(9, 10))
WORLDS = ((50, 0.0, 0), (200, 0.0, 0), (200, 0.2, 0), (1000, 0.0, 0), (200, 0.0, 1), (200, 0.0, 5))
"""Users of each system, by how much the logarithm of times is longer in one, and to which seconds
times are rounded; 0 for not at all."""

MANY = 200_000
"""Users of the world that is taken for the truth."""


def times(chance: random.Random, users: int, moved: float, grid: float) -> Iterator[list[float]]:
    """The times of each user's searches."""
    for _ in range(users):
        level = chance.gauss(2 + moved, 0.8)
        n_searches = chance.choice((1, 1, 2, 3, 8))
        searches = [chance.lognormvariate(level, 0.6) for _ in range(n_searches)]
        yield [grid * math.ceil(time / grid) if grid else time for time in searches]


def truth(p: Fraction, moved: float, grid: float) -> float:
    """The quantile of all."""
    users = times(random.Random(0), MANY, moved, grid)
    values = sorted(time for searches in users for time in searches)
    return values[math.ceil(p * len(values)) - 1]


def coverage(p: Fraction, world: tuple[int, float, float], logs: int) -> float:
    """The share of 95 % intervals that hold the true difference."""
    users, moved, grid = world
    difference = truth(p, moved, grid) - truth(p, 0.0, grid)
    chance, n_covered = random.Random(1), 0
    for _ in range(logs):
        sides = [
            quantile_of_users(list(times(chance, users, shift, grid)), p) for shift in (0.0, moved)
        ]
        (old, of_old), (new, of_new) = sides
        reach = student.critical(0.95, 2 * (users - 1)) * math.sqrt(of_old + of_new)
        n_covered += abs(new - old - difference) <= reach
    return n_covered / logs


def main() -> None:
    """Print a table of coverages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=2000)
    logs = parser.parse_args().logs
    print("users  slower  rounded to  " + "  ".join(f"p{100 * float(p):g}" for p in QUANTILES))
    for world in WORLDS:
        print(*world, *(f"{coverage(p, world, logs):.1%}" for p in QUANTILES), sep="  ", flush=True)


if __name__ == "__main__":
    main()
