"""Experiments in which nothing differs: how often a CTR is said to differ, by method.

Users differ in how much they click, and much more in how often they come. Each experiment is
looked at once, at its end, and on every day.

    python -m benchmarks.experiments
    python -m benchmarks.experiments --experiments 20 --users 200
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

from sqlmetrics.stats.estimate import Estimate, ratio_of_sums

LEVEL = 0.95
METHODS = ("requests, t", "users, t", "users, always valid")


def user_days(
    chance: np.random.Generator, n_users: int, n_days: int
) -> tuple[np.ndarray, np.ndarray]:
    """Clicks and requests of each user up to each day, two arrays of users by days.

    Visits a day are lognormal over users (sigma 1.5), so that a tenth of them has more than
    half of the requests; the chance of a click is a beta of mean 0.3.
    """
    visits = chance.lognormal(-1.5, 1.5, n_users)
    rates = chance.beta(1.5, 3.5, n_users)
    requests = chance.poisson(visits[:, None], (n_users, n_days))
    clicks = chance.binomial(requests, rates[:, None])
    return clicks.cumsum(axis=1), requests.cumsum(axis=1)


def by_users(clicks: np.ndarray, requests: np.ndarray) -> Estimate:
    """The CTR with its error over users (delta method), as `compare` has it."""
    x, w = clicks.astype(float), requests.astype(float)
    n, below = int((w > 0).sum()), float(w.sum())
    value = float(x.sum()) / below if below else None
    products = {"x2": float(x @ x), "xw": float(x @ w), "w2": float(w @ w)}
    return ratio_of_sums(value, n, w=below, **products)


def by_requests(clicks: np.ndarray, requests: np.ndarray) -> Estimate:
    """The CTR with its error over requests, each of which has a click or none."""
    x, n = float(clicks.sum()), float(requests.sum())
    return ratio_of_sums(x / n if n else None, int(n), w=n, x2=x, xw=x, w2=n)


def rejects(estimates: Sequence[Estimate], *, always: bool) -> bool:
    """Whether the interval of the difference of both sides excludes 0."""
    new, old = estimates
    low, high = new.minus(old).interval(LEVEL, always=always)
    return low is not None and high is not None and not low <= 0 <= high


def looks(seed: int, n_users: int, n_days: int) -> Iterator[list[bool]]:
    """Of each day of one experiment, whether each of METHODS says that there is a difference."""
    chance = np.random.default_rng(seed)
    clicks, requests = user_days(chance, n_users, n_days)
    sides = chance.permutation(n_users) < n_users // 2
    for day in range(n_days):
        pairs = [(clicks[side, day], requests[side, day]) for side in (sides, ~sides)]
        of_users = [by_users(*pair) for pair in pairs]
        of_requests = [by_requests(*pair) for pair in pairs]
        yield [
            rejects(of_requests, always=False),
            rejects(of_users, always=False),
            rejects(of_users, always=True),
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of false alarms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--days", type=int, default=30)
    options = parser.parse_args(arguments)
    last, ever = np.zeros(len(METHODS)), np.zeros(len(METHODS))
    for seed in range(options.experiments):
        by_day = np.array(list(looks(seed, options.users, options.days)))
        last += by_day[-1]
        ever += by_day.any(axis=0)
    print("| independent, interval | p < .05 at the end | coverage | false alarm on any day |")
    print("|---|---|---|---|")
    for name, n_last, n_ever in zip(METHODS, last, ever, strict=True):
        at_end, on_any = n_last / options.experiments, n_ever / options.experiments
        print(f"| {name} | {at_end:.1%} | {1 - at_end:.1%} | {on_any:.1%} |")


if __name__ == "__main__":
    main()
