"""What a sweep of 70 variants takes beside one fusion with its evaluation, and beside 70 of them.

    python -m benchmarks.fusion --rows 1e6 [--evaluations 70]

Each is a process of its own, and 70 take 70 times the mean of those that are measured. The numbers
of the sweep are those of the evaluations, or there is no table.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

import sqlmetrics as sm
from benchmarks.process import Usage, used

ITEMS = 100
"""So many items has a list of each of two runs, which have a third of them in common."""

SETTINGS: dict[str, Any] = {"method": ["rrf", "sum"], "norm": ["min_max", "max"], "k": [20, 60]}
METRICS = ["ndcg@10", "recall@10"]


def main() -> None:
    """Make the data, run all, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=200_000, help="rows of both runs together")
    parser.add_argument("--evaluations", type=int, default=3, help="so many mixtures by themselves")
    parser.add_argument("--part", help="what a process of its own does")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.part:
        _part(arguments.part, arguments.folder)
        return
    with TemporaryDirectory() as folder:
        _make(Path(folder), int(arguments.rows))
        parts = ["sweep", *map(str, range(arguments.evaluations))]
        usages = {part: _process(part, folder) for part in parts}
        numbers = {part: json.loads((Path(folder) / f"{part}.json").read_text()) for part in parts}
        for part, values in numbers.items():
            for variant, value in values.items():
                if abs(numbers["sweep"][variant] - value) > 1e-9:
                    raise SystemExit(f"{variant}: {numbers['sweep'][variant]} and {value} ({part})")
    sweep, *singles = usages.values()
    n_variants, evaluation = len(numbers["sweep"]), _mean(singles)
    print(
        f"{arguments.rows:,.0f} rows; {n_variants} variants; {len(singles)} evaluations measured\n"
    )
    print("| | CPU s | MB | CPU, of one evaluation |\n|---|---|---|---|")
    for name, usage, times in (("one evaluation", evaluation, 1), ("sweep", sweep, 1),
                               (f"{n_variants} evaluations", evaluation, n_variants)):  # fmt: skip
        cpu = usage.cpu * times
        print(f"| {name} | {cpu:.1f} | {usage.peak / 1e6:,.0f} | {cpu / evaluation.cpu:.1f} |")


def _mean(usages: list[Usage]) -> Usage:
    n = len(usages)
    cpu, wall = sum(usage.cpu for usage in usages) / n, sum(usage.wall for usage in usages) / n
    return Usage(cpu, wall, max(usage.peak for usage in usages))


def _process(part: str, folder: str) -> Usage:
    line = [sys.executable, "-m", "benchmarks.fusion", "--part", part, "--folder", folder]
    return used(line)


def _make(folder: Path, rows: int) -> None:
    """Two runs whose scores know something of the grades, and eight labels a query."""
    n_queries = max(1, rows // (2 * ITEMS))
    with duckdb.connect() as database:
        for number, (run, first) in enumerate({"bm25": 0, "dense": 2 * ITEMS // 3}.items(), 1):
            last = first + ITEMS
            database.execute(
                f"copy (select 'query ' || q as query_id, 'item ' || ((i + q) % 10000) as item_id, "
                f"(i < 5)::int * 0.{number + 5} + hash(q * 1000 + i + {number}) % 1000000 / 5e5 "
                "as score "
                f"from range({n_queries}) as queries(q), range({first}, {last}) as items(n), "
                f"lateral (select case when n < {first + 5} then n - {first} else n end as i) "
                f"order by q) to '{folder}/{run}.parquet'"
            )
        database.execute(
            "copy (select 'query ' || q as query_id, 'item ' || ((i + q) % 10000) as item_id, "
            f"greatest(0, 3 - i) as grade from range({n_queries}) as queries(q), "
            f"range(8) as items(i) order by q) to '{folder}/labels.parquet'"
        )


def _part(part: str, folder: Path) -> None:
    """Evaluate all mixtures in one pass, or that of a number by itself."""
    runs = {name: folder / f"{name}.parquet" for name in ("bm25", "dense")}
    labels, grid = folder / "labels.parquet", {**SETTINGS, "step": 1 / 17}
    if part == "sweep":
        rows = sm.fuse_sweep(runs, labels, METRICS, **grid).to_dicts()["variants"]
        (folder / "variants.json").write_text(json.dumps(rows, default=str))
        values = {row["variant"]: row["value"] for row in rows if row["metric"] == METRICS[0]}
    else:
        rows = json.loads((folder / "variants.json").read_text())
        mixtures = [row for row in rows if row["metric"] == METRICS[0] and row["method"] != "alone"]
        row = mixtures[int(part) * 7 % len(mixtures)]
        weights = [float(text.rpartition("=")[2]) for text in row["weights"].split(",")]
        settings = {name: row[name] for name in ("method", "norm", "k")}
        fused = sm.fuse(runs, **settings, weights=weights)
        values = {row["variant"]: sm.evaluate(fused, labels, METRICS, rank="rank")[METRICS[0]]}
    (folder / f"{part}.json").write_text(json.dumps(values))


if __name__ == "__main__":
    main()
