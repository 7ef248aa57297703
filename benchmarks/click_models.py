"""Which model fits and which labels rank best, by how many people read as a cascade.

`python -m benchmarks.click_models` makes logs of known truth, and prints by the share of cascades
the perplexity of each model, and Spearman's correlation of each rate of labels with the planted
relevance: attractiveness times satisfaction. Labels have a prior of 10 and 50 impressions at least.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.clicks.models import click_models
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.database import connect
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.stats.nonparametric import spearman
from tests.clicks.position_bias import SimulatedLog, simulated_log

THETA = tuple(1 / position for position in range(1, 11))
RATES = ("ctr", "coec", "ips", "sdbn")
LABELS = {"prior": 10.0, "min_impressions": 50}
MODELS = ("position_based", "sdbn", "cascade", "ctr", "position_ctr")
ROLES = ("request", "query", "item", "position", "clicked", "time")


def clicks_of(log: SimulatedLog) -> Clicks:
    """The log, with the true propensities."""
    return Clicks(
        log={"data": log.log, "columns": {role: role for role in ROLES}},
        labels={"pool": "query_item"},
        propensity={"method": "given", "given": log.propensities},
    )


def correlation(log: CleanLog, simulated: SimulatedLog, rate: str) -> float:
    """How well a rate ranks the planted relevance."""
    labels = log.tables.clicks.labels.model_copy(update=LABELS | {"rate": rate})
    clicks = log.tables.clicks.model_copy(update={"labels": labels})
    curve = PropensityCurve.given(simulated.propensities)
    tables = replace(log.tables, clicks=clicks, propensities=curve)
    truth = {
        (row["query"], row["item"]): row["attractiveness"] * row["satisfaction"]
        for row in simulated.truth.to_pylist()
    }
    rows = replace(log, tables=tables).judgments().to_pylist()
    pairs = [(row["rate"], truth[row["query_text"], row["item_id"]]) for row in rows]
    return spearman([rate for rate, _ in pairs], [true for _, true in pairs]) or 0.0


def numbers(seed: int, impressions: int, cascade: float) -> Iterator[float]:
    """Perplexities, then correlations."""
    simulated = simulated_log(seed, impressions, THETA, cascade=cascade)
    with connect() as engine, cleaned_log(clicks_of(simulated), engine) as log:
        fits = click_models(log)
        yield from (fits[name].perplexity for name in MODELS)
        yield from (correlation(log, simulated, rate) for rate in RATES)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--impressions", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--shares", type=float, nargs="+", default=[0, 0.1, 0.25, 0.5, 1])
    options = parser.parse_args()
    print(
        "| cascades |",
        " | ".join(MODELS),
        "|",
        " | ".join(f"label `{rate}`" for rate in RATES),
        "|",
    )
    print("|---:" * (1 + len(MODELS) + len(RATES)) + "|")
    for share in options.shares:
        runs = [list(numbers(seed, options.impressions, share)) for seed in range(options.seeds)]
        means = [fmean(column) for column in zip(*runs, strict=True)]
        print(f"| {share:.0%} |", " | ".join(f"{rate:.4f}"[:6] for rate in means), "|")


if __name__ == "__main__":
    main()
