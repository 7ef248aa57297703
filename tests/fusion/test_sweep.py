"""`fuse_sweep`: each variant beside `fuse` and `evaluate`, and what is said of the winner."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.engines.database import Database

METRICS = ["ndcg@3", "recall@2", "first_rank@5"]


def frames(seed: int, n_queries: int = 12, days: int = 1) -> tuple[dict[str, pa.Table], pa.Table]:
    """Two runs with ties and gaps, a query that one of them lacks, and labels of some items."""
    chance = random.Random(seed)
    rows: dict[str, list[dict[str, Any]]] = {"it's": [], "dense": []}
    labels = []
    for query in range(n_queries):
        labels += [
            {"query_id": f"q{query}", "item_id": f"i{item}", "grade": chance.choice([0, 1, 3])}
            for item in chance.sample(range(14), 5)
        ]
        for day in range(days):
            for run, found in rows.items():
                if query == 3 and run == "dense":
                    continue
                found += [
                    {
                        "query_id": f"q{query}",
                        "item_id": f"i{item}",
                        "score": chance.choice([0.0, -1.0, 2.5, chance.random()]),
                        "land": ["fr", "it"][query % 2],
                        "weight": 1.0 + query % 3,
                        "ds": f"2026-01-0{day + 1}",
                    }
                    for item in chance.sample(range(14), chance.randint(1, 9))
                ]
    return {run: pa.Table.from_pylist(found) for run, found in rows.items()}, pa.Table.from_pylist(
        labels
    )


def check_variants(
    sweep: sm.Sweep, runs: Any, labels: Any, metrics: list[str], n_checked: int, **arguments: Any
) -> int:
    """Compare rows of some variants with `fuse` and `evaluate`; how many were compared."""
    rows = sweep.to_dicts()["variants"]
    variants = [*{row["variant"]: row for row in rows if row["method"] != "alone"}.values()]
    connection = arguments.get("connection")
    of_runs = {name: arguments[name] for name in ("date", "weight") if name in arguments}
    compared = 0
    for variant in random.Random(4).sample(variants, n_checked):
        weights = [float(text.rpartition("=")[2]) for text in variant["weights"].split(",")]
        fused = sm.fuse(
            runs,
            method=variant["method"],
            norm=variant["norm"],
            k=variant["k"],
            weights=None if variant["method"] == "turns" else weights,
            floor=arguments.get("floor"),
            connection=connection,
            **of_runs,
        )
        ranked = pl.DataFrame(fused.to_arrow())
        facts = pl.concat([pl.DataFrame(run) for run in runs.values()])
        facts = facts.group_by("query_id").agg(pl.col("land", "weight").first())
        days = {"date": "metric_date"} if "date" in arguments else {}
        extra = {name: arguments[name] for name in ("by", "weight") if name in arguments}
        summary = sm.evaluate(
            ranked.join(facts, on="query_id"), labels, metrics, rank="rank", **days, **extra
        ).to_dicts()
        found = {
            (row["metric"], row["segment_name"], row["segment_value"], row["metric_date"]): row
            for row in rows
            if row["variant"] == variant["variant"]
        }
        for row in summary:
            name = row["metric"] + (f"@{row['k']}" if row["k"] else "")
            day = row["metric_date"] if days else None
            ours = found[name, row["segment_name"], row["segment_value"], day]
            assert ours["value"] == pytest.approx(row["value"], rel=1e-12, nan_ok=True)
            assert ours["n_queries"] == row["n_queries"]
            compared += 1
    return compared


def check_same(sweep: sm.Sweep, other: sm.Sweep) -> None:
    """Compare all numbers, but for their last digits."""
    for rows, other_rows in zip(sweep.to_dicts().values(), other.to_dicts().values(), strict=True):
        for row, other_row in zip(rows, other_rows, strict=True):
            for key, value in row.items():
                expected = pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
                assert other_row[key] == expected, (key, row)


FAMILIES = {
    "method": ["rrf", "sum", "mnz", "borda", "turns", "max", "isr"],
    "norm": ["min_max", "rank"],
    "k": [1, 60],
}


@by_turns(3)
def test_each_variant_is_what_fuse_and_evaluate_give() -> None:
    runs, labels = frames(1)
    sweep = sm.fuse_sweep(
        runs, labels, METRICS, **FAMILIES, step=0.2, by="land", weight="weight", check=False
    )
    compared = check_variants(sweep, runs, labels, METRICS, 8, by="land", weight="weight")
    assert compared == 8 * 3 * 3
    for run, queries in runs.items():
        alone = sm.evaluate(queries, labels, METRICS)
        plain = sm.fuse_sweep(runs, labels, METRICS).to_dicts()["variants"]
        values = {row["metric"]: row["value"] for row in plain if row["variant"] == f"{run} alone"}
        assert {name: values[name] for name in METRICS} == pytest.approx(dict(alone), rel=1e-12)


@by_turns(2)
def test_days_whole_lists_and_random_variants() -> None:
    runs, labels = frames(2, days=2)
    whole = ["mrr", "ap"]
    sweep = sm.fuse_sweep(runs, labels, whole, method="sum", floor=0.1, draws=9, date="ds", seed=3)
    assert check_variants(sweep, runs, labels, whole, 4, date="ds", floor=0.1) == 4 * 2 * 2
    again = sm.fuse_sweep(runs, labels, whole, method="sum", floor=0.1, draws=9, date="ds", seed=3)
    check_same(again, sweep)
    winner, _ = sweep.to_dicts()["winners"]
    assert winner["n_units"] == 12, "a query of two days is one"
    assert winner["n_variants"] == 2 + 2 + 9


@by_turns(1.5)
@pytest.mark.parametrize(
    "name", engines(["sqlite", "postgres", "chdb", "spark", "mariadb"], now=["sqlite"])
)
def test_databases(name: str, servers: Servers) -> None:
    runs, labels = frames(5, 6)
    settings: dict[str, Any] = {"method": ["rrf", "sum"], "k": 60, "step": 0.25}
    ours = sm.fuse_sweep(runs, labels, METRICS, **settings)
    with Database(servers.open(name)) as database:
        check_same(sm.fuse_sweep(runs, labels, METRICS, **settings, connection=database), ours)


def test_a_winner_by_hand_and_what_is_refused(tmp_path: Path) -> None:
    """Dense has the relevant item first, bm25 second: with more than half of dense it comes up."""
    rows = [(f"q{q}", item, score) for q in range(8) for item, score in (("a", 2.0), ("b", 1.0))]
    bm25 = pl.DataFrame(rows, schema=["query_id", "item_id", "score"], orient="row")
    dense = bm25.with_columns(score=-pl.col("score"))
    labels = bm25.filter(pl.col("item_id") == "b").select("query_id", "item_id", grade=1)
    runs: dict[str, Any] = {"bm25": bm25, "dense": dense}
    sweep = sm.fuse_sweep(runs, labels, "mrr", method="sum", norm="min_max", step=0.25)
    variants = [row for row in sweep.to_dicts()["variants"] if row["metric"] == "mrr"]
    values = {row["weights"]: row["value"] for row in variants}
    assert values == {
        "bm25=1,dense=0": 0.5,
        "bm25=0,dense=1": 1.0,
        "bm25=0.5,dense=0.5": 0.5,
        "bm25=0.25,dense=0.75": 1.0,
        "bm25=0.75,dense=0.25": 0.5,
    }
    (winner,) = sweep.to_dicts()["winners"]
    assert (winner["variant"], winner["n_as_good"], winner["n_folds_won"]) == ("dense alone", 2, 5)
    assert (winner["value"], winner["loss"], winner["over_run"]) == (1.0, 0.0, 0.0)
    good = {row["variant"] for row in variants if row["as_good"]}
    assert good == {"dense alone", "sum norm=min_max weights=0.25:0.75"}
    for problem, arguments in {
        "needs labels": {"labels": None},
        "step must be": {"step": 0},
        "draws must be": {"draws": 0},
        "folds must be": {"folds": 1},
        "window must be": {"window": 0},
        "has no med": {"method": ["sum", "med"]},
        "did you mean 'rrf'": {"method": "rff"},
        "use a larger step": {"step": 0.01, "method": ["rrf"], "k": [*range(12)]},
        "needs scores": {"method": "sum", "rank": "score", "check": False},
    }.items():
        with pytest.raises(sm.SpecError, match=problem):
            sm.fuse_sweep(**{"rankings": runs, "labels": labels, **arguments})
    bm25.write_csv(tmp_path / "bm25.csv")
    dense.write_csv(tmp_path / "dense.csv")
    labels.write_csv(tmp_path / "labels.csv")
    files = ("bm25.csv", "dense.csv", "labels.csv")
    shown = sqlmetrics("fuse", *files, "--sweep", "-m", "mrr", folder=tmp_path).stdout
    assert "mrr: dense alone is the best of 38 variants" in shown
    for line, problem in {
        ("--sweep", "--limit", "3"): "leave --limit out",
        ("--step", ".2"): "--step needs --sweep",
        ("--method", "rrf", "--method", "sum"): "give --sweep to try several",
    }.items():
        assert problem in sqlmetrics("fuse", *files, *line, folder=tmp_path, expect=2).stderr
