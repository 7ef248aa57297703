"""Experiments in which nothing differs: how often a CTR is said to differ, by method.

Users differ in how much they click, and much more in how often they come. Each experiment is
looked at once, at its end, and on every day. With CUPED, the days before it are a covariate.

    python -m benchmarks.experiments
    python -m benchmarks.experiments --experiments 20 --users 200
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np

from sqlmetrics.comparison.sums.moments import SIDES, Group, SampleMoments
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums

LEVEL = 0.95
METHODS = (
    "requests, t",
    "users, t",
    "users, CUPED, t",
    "users, always valid",
    "users, CUPED, always valid",
)


def user_days(
    chance: np.random.Generator, n_users: int, n_before: int, n_days: int
) -> tuple[np.ndarray, np.ndarray]:
    """Clicks and requests of each user up to each day, two arrays of users by days.

    Visits a day are lognormal over users (sigma 1.5), so that a tenth of them has more than
    half of the requests; the chance of a click is a beta of mean 0.3, which half of the users draw
    anew when the experiment begins.
    """
    visits = chance.lognormal(-1.5, 1.5, n_users)
    rates = chance.beta(1.5, 3.5, n_users)
    rates_before = np.where(chance.random(n_users) < 0.5, rates, chance.beta(1.5, 3.5, n_users))
    requests = chance.poisson(visits[:, None], (n_users, n_before + n_days))
    by_day = np.repeat([rates_before, rates], (n_before, n_days), axis=0).T
    clicks = chance.binomial(requests, by_day)
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


def with_covariate(sides: Sequence[Sequence[np.ndarray]]) -> SampleMoments:
    """The difference of both sides, as `compare` has it with days before as a covariate.

    Args:
        sides: Of each side, the clicks and requests of its users, and those of before.
    """
    groups, centres = {}, {}
    for name, (clicks, requests, earlier_clicks, earlier_requests) in zip(
        SIDES, sides, strict=True
    ):
        x, w, c, v = (
            part[requests > 0].astype(float)
            for part in (clicks, requests, earlier_clicks, earlier_requests)
        )
        centres[name] = float(x.sum() / w.sum())
        users = {"weight": w, "y": x - centres[name] * w, "c": c, "c_weight": v}
        products = combinations_with_replacement(users, 2)
        nothing = {f"{side}_{key}": 0.0 for side in SIDES for key in users}
        groups[name] = Group(
            len(w),
            nothing | {f"{name}_{key}": float(values.sum()) for key, values in users.items()},
            {(f"{name}_{a}", f"{name}_{b}"): float(users[a] @ users[b]) for a, b in products},
        )
    return SampleMoments(0, 0, 0, centres, groups, is_adjusted=True, is_ratio=True)


def rejects(difference: Estimate, *, always: bool) -> bool:
    """Whether the interval of the difference of both sides excludes 0."""
    low, high = difference.interval(LEVEL, always=always)
    return low is not None and high is not None and not low <= 0 <= high


def looks(seed: int, n_users: int, n_days: int, n_before: int) -> Iterator[list[float]]:
    """Of each day of one experiment, whether each of METHODS says that there is a difference.

    The last number is the share of the variance that the days before took away.
    """
    chance = np.random.default_rng(seed)
    clicks, requests = user_days(chance, n_users, n_before, n_days)
    sides = chance.permutation(n_users) < n_users // 2
    first = n_before - 1
    for day in range(n_before, n_before + n_days):
        parts = [
            (
                clicks[side, day] - clicks[side, first],
                requests[side, day] - requests[side, first],
                clicks[side, first],
                requests[side, first],
            )
            for side in (sides, ~sides)
        ]
        of_requests, of_users = (
            estimate(*parts[0][:2]).minus(estimate(*parts[1][:2]))
            for estimate in (by_requests, by_users)
        )
        moments = with_covariate(parts)
        adjusted = Estimate(moments.difference, moments.standard_error, moments.df)
        yield [
            rejects(of_requests, always=False),
            rejects(of_users, always=False),
            rejects(adjusted, always=False),
            rejects(of_users, always=True),
            rejects(adjusted, always=True),
            moments.variance_reduction or 0.0,
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of false alarms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--before", type=int, default=14)
    options = parser.parse_args(arguments)
    last, ever, gains = np.zeros(len(METHODS)), np.zeros(len(METHODS)), []
    for seed in range(options.experiments):
        by_day = np.array(list(looks(seed, options.users, options.days, options.before)))
        gains.append(by_day[-1, -1])
        last += by_day[-1, :-1]
        ever += by_day[:, :-1].any(axis=0)
    print("| independent, interval | p < .05 at the end | coverage | false alarm on any day |")
    print("|---|---|---|---|")
    for name, n_last, n_ever in zip(METHODS, last, ever, strict=True):
        at_end, on_any = n_last / options.experiments, n_ever / options.experiments
        print(f"| {name} | {at_end:.1%} | {1 - at_end:.1%} | {on_any:.1%} |")
    low, high = np.percentile(gains, (5, 95))
    print(f"\n{options.before} days before take {np.mean(gains):.1%} off the variance at the end")
    print(f"(90 % of the experiments: {low:.1%} to {high:.1%})")


if __name__ == "__main__":
    main()
