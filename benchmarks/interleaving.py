"""How many requests interleaving needs beside an A/B test: `python -m benchmarks.interleaving`.

Two rankers of known worth; people look at the places of a page by chance and click what attracts.
An A/B test shows half of the requests either list, interleaving all of them both. What each
needs to find the difference in 4 of 5 experiments at 5 % follows from its mean effect over its mean
standard error.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import fmean

import numpy as np

from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.interleaving import interleaving_outcome
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.database import connect
from sqlmetrics.spec.click_log import Clicks
from tests.clicks.interleaved import BASELINE, Experiment, experiment

THETA = tuple(1 / position for position in range(1, 11))
SHARED = 0.95
"""How much of their errors the two rankers share: one is a change to the other."""

POWER = 1.959964 + 0.841621
"""Standard errors that an effect has to be away from 0, for 4 of 5 experiments at 5 %."""


def experiment_of(seed: int, requests: int, gap: float, method: str) -> Experiment:
    """An experiment with a ranker and a change to it."""
    return experiment(seed, requests, THETA, gap=gap, shared=SHARED, method=method)


def outcome(interleaved: Experiment, method: str) -> tuple[float, float]:
    """The difference a request by interleaving, and its standard error over requests."""
    source = {"data": interleaved.rankings, "columns": {"rank": "rank"}}
    lists = {} if method == "team_draft" else {"rankings": source}
    clicks = Clicks(
        log={"data": interleaved.log, "columns": {"clicked": "clicked", "team": "team"}},
        interleaving={"method": method, "baseline": BASELINE, **lists},
    )
    curve = PropensityCurve.given(dict(enumerate(THETA, 1)))
    with connect() as engine, cleaned_log(clicks, engine) as log:
        result = interleaving_outcome(log, curve=curve if method == "debiased_balanced" else None)
    low, high = result.difference.ci_low, result.difference.ci_high
    return result.difference.value, (high - low) / 2 / 1.96


def ab_error(seed: int, requests: int, gap: float) -> float:
    """The standard error of the difference in clicks a request, between two halves."""
    variances = []
    for arm in range(2):
        half = experiment(
            seed, requests // 2, THETA, gap=gap, shared=SHARED, method=("a", "b")[arm]
        )
        clicked = half.log.group_by("request_id").aggregate([("clicked", "sum")])
        variances.append(np.var(clicked.column("clicked_sum").to_numpy(), ddof=1))
    return float(np.sqrt(sum(variances) / (requests / 2)))


def rows(requests: int, seeds: int, gap: float) -> Iterator[tuple[str, float, float]]:
    """Method, mean effect and mean standard error."""
    experiments = {
        kind: [experiment_of(seed, requests, gap, kind) for seed in range(seeds)]
        for kind in ("balanced", "team_draft")
    }
    error = fmean(ab_error(seed, requests, gap) for seed in range(seeds))
    yield "A/B test", fmean(interleaved.worth for interleaved in experiments["balanced"]), error
    for method in ("team_draft", "balanced", "debiased_balanced"):
        kind = "team_draft" if method == "team_draft" else "balanced"
        outcomes = [outcome(interleaved, method) for interleaved in experiments[kind]]
        yield method, fmean(d for d, _ in outcomes), fmean(e for _, e in outcomes)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--gaps", type=float, nargs="+", default=[0.05, 0.1, 0.3])
    options = parser.parse_args()
    print("| worth, clicks a request | method | effect | error | requests needed | A/B needs |")
    print("|---:|---|---:|---:|---:|---:|")
    for gap in options.gaps:
        outcomes = list(rows(options.requests, options.seeds, gap))
        needed = [options.requests * (POWER * e / d) ** 2 for _, d, e in outcomes]
        for (method, effect, error), n in zip(outcomes, needed, strict=True):
            print(
                f"| {outcomes[0][1]:.4f} | {method} | {effect:.4f} | {error:.4f} | {n:,.0f} "
                f"| {needed[0] / n:.1f} times |"
            )


if __name__ == "__main__":
    main()
