"""Propensities from impressions in random order: click rates by position, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.em import samples
from sqlmetrics.clicks.propensity.moves import buckets, stage, view
from sqlmetrics.engines.database import Database
from sqlmetrics.sql.stage import with_stages

Counts = Mapping[int, tuple[float, float]]
"""Position -> impressions and clicks."""


def counts(tables: ClickTables, engine: Database) -> dict[str | None, dict[float, Counts]]:
    """Group -> group of queries -> impressions and clicks by position, of what was shuffled.

    Where the log has no queries, groups of items take their place.
    """
    has_query = "query" in tables.names.impressions
    column, unit = ("query_text", "query") if has_query else ("item_id", "item")
    shared = view(tables) | {"column": column, "unit": unit}
    stages = [buckets(tables, column, unit)] if shared["buckets"] else []
    stages.append(stage("random_buckets", shared))
    counts_by_group: dict[str | None, dict[float, dict[int, tuple[float, float]]]] = {}
    for bucket, layout, position, n, c in engine.rows(
        with_stages(stages, "select *\nfrom random_buckets")
    ):
        group = None if tables.clicks.propensity.by is None else str(layout)
        bucket_counts = counts_by_group.setdefault(group, {}).setdefault(
            -1.0 if bucket is None else float(bucket), {}
        )
        bucket_counts[int(position)] = float(n), float(c)
    return {group: dict(counts_by_bucket) for group, counts_by_bucket in counts_by_group.items()}


def added(groups: Iterable[tuple[Counts, int]]) -> dict[int, tuple[float, float]]:
    """Position -> impressions and clicks, of groups that each stand there so many times."""
    sums: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for counts, times in groups:
        for position, (n, c) in counts.items():
            sums[position] = sums[position][0] + times * n, sums[position][1] + times * c
    return dict(sorted(sums.items()))


def relative(sums: Counts, positions: Sequence[int]) -> dict[int, float]:
    """Position -> its click rate over that of the first one."""
    rates = {position: sums[position][1] / sums[position][0] for position in positions}
    return {position: rate / rates[positions[0]] for position, rate in rates.items()}


def resampled(
    groups: Mapping[float, Counts], positions: Sequence[int], count: int
) -> list[dict[int, float]]:
    """The same of so many samples; those in which a position has no click are left out."""
    curves = []
    for sample in samples(groups, count):
        sums = added((groups[group], times) for group, times in sample.items())
        if all(sums.get(position, (0.0, 0.0))[1] > 0 for position in positions):
            curves.append(relative(sums, positions))
    return curves
