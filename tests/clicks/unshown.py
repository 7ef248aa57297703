"""Many simulated logs at once with a ranker that none of them shows, and its planted truth.

One log holds all seeds: their requests, queries and users have names of their own, and the new
lists of a seed are a system. So one query estimates them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from clicks.position_bias import simulated_log

import sqlmetrics as sm

THETA = [1 / position for position in range(1, 11)]
QUERIES = 50
COLUMNS = {"request": "request", "query": "query", "item": "item", "position": "position"}
COLUMNS |= {"clicked": "clicked", "user": "user"}
LISTS = {"query": "query", "item": "item", "rank": "rank", "system": "seed"}


class Worlds(NamedTuple):
    """Logs of some seeds.

    Attributes:
        log: All of them.
        lists: What the new ranker gives: query, item, rank, seed.
        truth: Seed -> the mean over requests of the sum of attractiveness x 1 / log2(rank + 1).
        per_click: Seed -> the same over the sum of attractiveness.
    """

    log: pa.Table
    lists: pa.Table
    truth: dict[str, float]
    per_click: dict[str, float]


def worlds(seeds: Sequence[int], impressions: int, noise: float = 0.1, **broken: float) -> Worlds:
    """Logs of so many impressions each.

    The items of a query do not change, and a third of the lists is in random order. The new ranker
    orders what was shown by a guess of what attracts, which is good where there is little noise.
    """
    logs, lists, truth, per_click = [], [], {}, {}
    for seed in seeds:
        simulated = simulated_log(
            seed, impressions, THETA, swaps=0.0, randomised=0.3, queries=QUERIES, **broken
        )
        name = f"s{seed}"
        log = simulated.log.select(["item", "position", "clicked"])
        for column in ("request", "query", "user"):
            log = log.append_column(column, _of_seed(name, simulated.log[column]))
        logs.append(log)
        new, truth[name], per_click[name] = _ranked(seed, simulated.log, simulated.truth, noise)
        lists.append(new)
    return Worlds(pa.concat_tables(logs), pa.concat_tables(lists), truth, per_click)


def _of_seed(seed: str, names: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(seed, names.cast(pa.string()), "-")


def _ranked(
    seed: int, log: pa.Table, truth: pa.Table, noise: float
) -> tuple[pa.Table, float, float]:
    """The new lists, and what they are worth."""
    pairs = log.group_by(["query", "item"]).aggregate([])
    rows = pairs.join(truth, ["query", "item"]).sort_by(
        [("query", "ascending"), ("item", "ascending")]
    )
    attracts = rows["attractiveness"].to_numpy().reshape(-1, len(THETA))
    off = np.random.default_rng(seed + 10_000).normal(0, noise, attracts.shape)
    rank = np.argsort(np.argsort(-attracts - off, axis=1), axis=1) + 1
    number = pc.cast(pc.utf8_slice_codeunits(rows["query"], 1), pa.int64()).to_numpy()
    popularity = 1 / (number.reshape(attracts.shape)[:, 0] + 5.0)
    share = popularity / popularity.sum()
    value = float((share[:, None] * attracts / np.log2(rank + 1)).sum())
    lists = pa.table(
        {
            "query": _of_seed(f"s{seed}", rows["query"]),
            "item": rows["item"],
            "rank": rank.ravel(),
            "seed": pa.array([f"s{seed}"] * rows.num_rows),
        }
    )
    return lists, value, value / float((share[:, None] * attracts).sum())


class Coverage(NamedTuple):
    """How often the interval holds the truth, and how far off the estimates are on average."""

    share: float
    off: float


def covered(logs: Worlds, engine: Any = None) -> dict[str, Coverage]:
    """Estimator -> how often its 95 % interval covers what is planted.

    `naive ips` and `naive snips` are those of clicks as they are: each position is looked at.
    """
    clicks = sm.clicks.Clicks(log={"data": logs.log, "columns": COLUMNS})
    options = {"rankings": {"data": logs.lists, "columns": LISTS}, "match": "query"}
    of_all = dict.fromkeys(range(1, len(THETA) + 1), 1.0)
    outcomes: dict[str, list[tuple[bool, float]]] = {}
    with sm.clicks.clean(clicks, engine) as log:
        for prefix, curve in (("", dict(enumerate(THETA, 1))), ("naive ", of_all)):
            estimators = ["ips", "snips"] if prefix else ["ips", "snips", "dr"]
            estimator_option = {"estimators": estimators}
            for estimate in sm.clicks.counterfactual_metrics(
                log, options | estimator_option, curve=curve
            ).estimates:
                truth = (logs.per_click if estimate.estimator == "snips" else logs.truth)[
                    estimate.system
                ]
                low, value, high = (
                    getattr(estimate, name) for name in ("ci_low", "value", "ci_high")
                )
                outcome = low <= truth <= high, value / truth - 1
                outcomes.setdefault(f"{prefix}{estimate.estimator}", []).append(outcome)
    return _shares(outcomes)


def covered_differences(seeds: Sequence[int], impressions: int) -> dict[str, Coverage]:
    """Estimator -> how often the interval of a difference covers what is planted.

    Two rankers are compared that nobody was shown, a good and a bad one; a seed is a segment.
    """
    outcomes: dict[str, list[tuple[bool, float]]] = {}
    for first in range(0, len(seeds), 10):  # all at once would take much memory
        for name, outcome in _difference_outcomes(seeds[first : first + 10], impressions):
            outcomes.setdefault(name, []).append(outcome)
    return _shares(outcomes)


def _difference_outcomes(
    seeds: Sequence[int], impressions: int
) -> Iterator[tuple[str, tuple[bool, float]]]:
    """Estimator, whether it covers the difference of a seed, and how far off it is."""
    good, bad = (worlds(seeds, impressions, noise) for noise in (0.1, 0.5))
    seed = pc.list_element(pc.split_pattern(good.log["request"], "-", max_splits=1), 0)
    lists = [
        logs.lists.append_column("system", pa.array([name] * logs.lists.num_rows))
        for name, logs in (("good", good), ("bad", bad))
    ]
    counterfactual = {
        "rankings": {"data": pa.concat_tables(lists), "columns": LISTS | {"system": "system"}},
        "match": "query",
    }
    clicks = {
        "log": {
            "data": good.log.append_column("seed", seed),
            "columns": COLUMNS | {"segments": ["seed"]},
        },
        "propensity": {"method": "given", "given": dict(enumerate(THETA, 1))},
        "counterfactual": counterfactual,
    }
    spec = sm.Spec(name="log", clicks=clicks, metrics=["ctr"])
    metrics = [f"dcg(estimator={name})@10" for name in ("ips", "snips", "dr")]
    for row in sm.compare(spec, metrics=metrics, baseline="bad", by="seed"):
        if row["segment_name"] == "all":
            continue
        name = row["metric"].partition("=")[2].partition(")")[0]
        truth = [
            (logs.per_click if name == "snips" else logs.truth)[row["segment_value"]]
            for logs in (good, bad)
        ]
        apart = truth[0] - truth[1]
        covers = row["ci_low"] <= apart <= row["ci_high"]
        yield name, (covers, row["difference"] / apart - 1)


def _shares(outcomes: Mapping[str, Sequence[tuple[bool, float]]]) -> dict[str, Coverage]:
    return {
        name: Coverage(*(float(np.mean(column)) for column in zip(*values, strict=True)))
        for name, values in outcomes.items()
    }
