"""False alarms of groups and the coverage of rank intervals: `python -m benchmarks.leaderboards`.

Tracks with topics of different difficulty, and systems whose true means are `gap` apart: with a gap
of 0 all are equal, each found difference is a false alarm, and the middle rank is as true as any.
"""

from __future__ import annotations

import argparse

import numpy as np

import sqlmetrics as sm
from sqlmetrics.comparison.leaderboard.orders import Test, pair_tests
from sqlmetrics.comparison.leaderboard.scores import Scores, rank_intervals, ranks
from sqlmetrics.stats.bootstrap import bootstrap_interval, resampled_counts
from sqlmetrics.stats.nonparametric import order_correlations

TESTS = (("tukey", "none"), ("t", "holm"), ("t", "none"))
LEVEL, REPLICATES = 0.95, 500


def track(seed: int, n_systems: int, n_topics: int, gap: float) -> Scores:
    """Values of systems, the first of which is the best."""
    chance = np.random.default_rng(seed)
    topics = 0.3 + 0.2 * chance.standard_normal(n_topics)
    noise = 0.12 * chance.standard_normal((n_systems, n_topics))
    values = np.clip(topics + noise - gap * np.arange(n_systems)[:, None], 0, 1)
    names = tuple(f"s{number}" for number in range(n_systems))
    return Scores(sm.parse("ap"), names, tuple(map(str, range(n_topics))), values)


def measured(n_tracks: int, n_systems: int, n_topics: int, gap: float) -> list[float]:
    """The shares of tracks in which a test finds a difference, and of covered true ranks."""
    true_ranks = np.arange(1, n_systems + 1) if gap else np.full(n_systems, (n_systems + 1) / 2)
    alarms, covered = [0] * len(TESTS), 0.0
    for seed in range(n_tracks):
        scores = track(seed, n_systems, n_topics, gap)
        for number, (name, correction) in enumerate(TESTS):
            pairs = pair_tests(scores, Test(name, correction, LEVEL, REPLICATES, seed))
            alarms[number] += bool((pairs.adjusted < 1 - LEVEL).any())
        counts = resampled_counts(n_topics, REPLICATES, seed)
        ends = rank_intervals(*ranks(scores.replicates(counts), 1), LEVEL)
        low, high = (np.array(ends[name]) for name in ("rank_low", "rank_high"))
        covered += float(((low <= true_ranks) & (true_ranks <= high)).mean())
    return [*(alarm / n_tracks for alarm in alarms), covered / n_tracks]


def measured_orders(n_tracks: int, n_systems: int, n_topics: int, gap: float) -> list[float]:
    """The shares of intervals of tau and tau_ap that have their mean over tracks, and the truth.

    The systems of a second metric have true means of their own, and topics in common.
    """
    moved = np.random.default_rng(7).normal(0, 2, n_systems)
    true_means = -gap * np.stack([np.arange(n_systems), np.arange(n_systems) + moved])
    intervals: list[list[tuple[float, float, float]]] = [[], []]
    for seed in range(n_tracks):
        chance = np.random.default_rng(seed)
        shared = 0.2 * chance.standard_normal(n_topics)
        noise = 0.12 * chance.standard_normal((n_systems, n_topics))
        apart = 0.08 * chance.standard_normal((n_systems, n_topics))
        counts = resampled_counts(n_topics, REPLICATES, seed)
        names, topics = tuple(map(str, range(n_systems))), tuple(map(str, range(n_topics)))
        orders = []
        for means, values in zip(true_means, (noise, 0.7 * noise + apart), strict=True):
            scores = Scores(sm.parse("ap"), names, topics, means[:, None] + shared + values)
            orders.append(np.vstack([scores.means, scores.replicates(counts)]))
        for number, values in enumerate(order_correlations(np.stack(orders))):
            value, *replicates = values[0, 1]
            low, high = bootstrap_interval(np.array(replicates), LEVEL, n_topics)
            intervals[number].append((value, low or 0, high or 0))
    truth = [float(values[0, 1, 0]) for values in order_correlations(true_means[:, None, :])]
    shares = []
    for rows, true_value in zip(intervals, truth, strict=True):
        values, low, high = np.array(rows).T
        for target in (values.mean(), true_value):
            shares.append(float(((low <= target) & (target <= high)).mean()))
    return shares


def main() -> None:
    """Print a row per kind of track."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tracks", type=int, default=1_000)
    parser.add_argument("--orders", action="store_true")
    arguments = parser.parse_args()
    n_tracks = arguments.tracks
    if arguments.orders:
        print("| systems | topics | gap | tau: mean | tau: true | tau_ap: mean | tau_ap: true |")
        print("|---|---|---|---|---|---|---|")
        for shape in ((10, 50, 0.01), (10, 50, 0.03), (30, 50, 0.01), (10, 200, 0.01)):
            _print_row(shape, measured_orders(n_tracks, *shape))
        return
    print("| systems | topics | gap | tukey | t, holm | t, none | rank covered |")
    print("|---|---|---|---|---|---|---|")
    for shape in ((10, 50, 0.0), (10, 200, 0.0), (10, 50, 0.01), (10, 50, 0.03)):
        _print_row(shape, measured(n_tracks, *shape))


def _print_row(shape: tuple[int, int, float], shares: list[float]) -> None:
    cells = [*map(str, shape), *(f"{100 * share:.1f} %" for share in shares)]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
