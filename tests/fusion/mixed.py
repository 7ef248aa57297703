"""Fusion in plain Python, from the formulas, one query at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import fsum, log
from statistics import fmean, median, pstdev

Run = Mapping[str, float]


def listed(run: Run) -> list[str]:
    """The items, best first; equal scores by the bytes of the ids."""
    return sorted(run, key=lambda item: (-run[item], item.encode()))


def normalised(run: Run, norm: str) -> dict[str, float]:
    if not run:
        return {}
    low, high, n = min(run.values()), max(run.values()), len(run)
    mean, total = fmean(run.values()), fsum(run.values())
    ranks = {item: rank for rank, item in enumerate(listed(run))}
    formulas: dict[str, Callable[[float], float]] = {
        "none": lambda score: score,
        "max": lambda score: score / max(high, 1e-9),
        "min_max": lambda score: (score - low) / max(high - low, 1e-9),
        "sum": lambda score: (score - low) / max(total - low * n, 1e-9),
        "z_score": lambda score: (score - mean) / max(pstdev(run.values()), 1e-9),
        "opensearch": lambda score: 0.001 if score == low else (score - low) / (high - low),
        "elasticsearch": lambda score: (score - low) / (high - low),
        "weaviate": lambda score: (score - low) / (high - low),
    }
    if norm == "rank":
        return {item: 1 - ranks[item] / n for item in run}
    if norm in ("opensearch", "elasticsearch", "weaviate") and high == low:
        return dict.fromkeys(run, low if norm == "elasticsearch" else 1.0)
    return {item: formulas[norm](score) for item, score in run.items()}


def turn(item: str, run_ranks: Sequence[Mapping[str, int]]) -> float:
    """When an item comes up first, with a minus."""
    return -min(
        len(run_ranks) * (ranks[item] - 1) + number
        for number, ranks in enumerate(run_ranks, 1)
        if item in ranks
    )


def weighted_ranks(
    item: str,
    run_ranks: Sequence[Mapping[str, int]],
    k: float,
    weights: Sequence[float],
    floor: float | None,
) -> Iterator[float]:
    """What each run gives an item, whose rank is divided by the run's weight."""
    for ranks, weight in zip(run_ranks, weights, strict=True):
        rank = ranks.get(item, floor)
        if rank is not None and weight:
            yield 1 / (k + rank / weight)


def fused(
    runs: Sequence[Run],
    method: str,
    *,
    norm: str = "min_max",
    k: float = 60,
    weights: Sequence[float] = (),
    floor: float | None = None,
) -> dict[str, float]:
    """Item -> its score."""
    weights = weights or [1.0] * len(runs)
    items = {item for run in runs for item in run}
    run_ranks = [{item: rank for rank, item in enumerate(listed(run), 1)} for run in runs]
    if method == "weighted_ranks":
        return {item: fsum(weighted_ranks(item, run_ranks, k, weights, floor)) for item in items}
    if method == "turns":
        return {item: turn(item, run_ranks) for item in items}
    if method == "borda":
        c = len(items)
        values = [
            {item: c - ranks[item] + 1.0 if item in ranks else (c - len(ranks) + 1) / 2
             for item in items}
            for ranks in run_ranks
        ]  # fmt: skip
    elif method == "rrf":
        values = [{item: 1 / (k + rank) for item, rank in ranks.items()} for ranks in run_ranks]
    elif method in ("isr", "log_isr"):
        values = [{item: 1 / rank**2 for item, rank in ranks.items()} for ranks in run_ranks]
    else:
        values = [normalised(run, norm) for run in runs]
    if floor is not None:
        lowest = {"rrf": 1 / (k + floor), "isr": 1 / floor**2, "log_isr": 1 / floor**2}
        values = [{i: value.get(i, lowest.get(method, floor)) for i in items} for value in values]
    scores = {}
    for item in items:
        pairs = zip(weights, values, strict=True)
        parts = [weight * value[item] for weight, value in pairs if item in value]
        total, n = fsum(parts), len(parts)
        scores[item] = {
            "mnz": total * n,
            "isr": total * n,
            "anz": total / n,
            "log_isr": total * log(n),
            "mean": total / fsum(weights),
            "med": median(parts),
            "max": max(parts),
            "min": min(parts),
        }.get(method, total)
    return scores
