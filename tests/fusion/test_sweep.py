"""`fuse_sweep`: each variant beside `fuse` and `evaluate`, and what is said of the winner."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.comparison.page.content import Words
from sqlmetrics.engines.database import Database
from sqlmetrics.fusion.grid import Grid, Variant, find_winner
from sqlmetrics.spec.mixture import Mixture

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
            for run, run_rows in rows.items():
                if query == 3 and run == "dense":
                    continue
                run_rows += [
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
    return {
        run: pa.Table.from_pylist(run_rows) for run, run_rows in rows.items()
    }, pa.Table.from_pylist(labels)


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
        variant_rows = {
            (row["metric"], row["segment_name"], row["segment_value"], row["metric_date"]): row
            for row in rows
            if row["variant"] == variant["variant"]
        }
        for row in summary:
            name = row["metric"] + (f"@{row['k']}" if row["k"] else "")
            day = row["metric_date"] if days else None
            ours = variant_rows[name, row["segment_name"], row["segment_value"], day]
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
    metrics = ["mrr", "ap"]
    sweep = sm.fuse_sweep(
        runs, labels, metrics, method="sum", floor=0.1, draws=9, date="ds", seed=3
    )
    assert check_variants(sweep, runs, labels, metrics, 4, date="ds", floor=0.1) == 4 * 2 * 2
    again = sm.fuse_sweep(
        runs, labels, metrics, method="sum", floor=0.1, draws=9, date="ds", seed=3
    )
    check_same(again, sweep)
    page = sweep.html()
    assert page.index("<svg") < page.index("<table"), "the curve stands above the numbers"
    assert "mrr by the weight of dense, from it&#x27;s alone at 0 to dense alone at 1" in page
    of_day = "values of 2026-01-02, the last of 2 days; the winner is chosen over all days"
    assert sweep.text().count(of_day) == 1
    assert page.count(of_day) == 2, "below the curve and below the table"
    one_day, _ = frames(2)
    assert "the last of" not in sm.fuse_sweep(one_day, labels, "mrr", k=60, date="ds").text()
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


@by_turns(2.2)
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
        "must divide 1, given 0.3; the nearest are 0.25 and 0.3333": {"step": 0.3},
        "did you mean 'min_max'": {"method": "rrf", "norm": ["rank", "minmax"]},
        "k of rrf must be 0 or more, given -5": {"method": "sum", "k": -5},
        "k of rrf must be 0 or more, given '60'": {"k": "60"},
        "draws must be": {"draws": 0},
        "folds must be 2 or more, a whole number, given 1": {"folds": 1},
        "window must be 1 or more, a whole number, given '3'": {"window": "3"},
        "has no med": {"method": ["sum", "med"]},
        "did you mean 'rrf'": {"method": "rff"},
        "use a larger step": {"step": 0.01, "method": ["rrf"], "k": [*range(12)]},
        "needs scores": {"method": "sum", "rank": "score", "check": False},
        "confidence level must be above 0 and below 1, like 0.95, given 'a'": {"level": "a"},
        "by.0 must be a text, given 3": {"by": 3},
        "start is a date like 2026-01-31, .*, given 3": {"start": 3},
        "unknown preset of fusion": {"like": ["qdrant"]},
    }.items():
        with pytest.raises(sm.SpecError, match=problem):
            sm.fuse_sweep(**{"rankings": runs, "labels": labels, **arguments})
    thirds = [sm.fuse_sweep(runs, labels, "mrr", k=1, step=step) for step in (0.33, 0.333, 1 / 3)]
    assert thirds[0].to_dicts() == thirds[1].to_dicts() == thirds[2].to_dicts()
    names = {row["variant"] for row in thirds[0].to_dicts()["variants"]}
    assert "rrf k=1 weights=0.333:0.667" in names
    three = sm.fuse_sweep({**runs, "third": bm25}, labels, "mrr", k=1, method="rrf", step=0.5)
    assert "rrf k=1 weights=1:1:1" in {row["variant"] for row in three.to_dicts()["variants"]}
    bm25.write_csv(tmp_path / "bm25.csv")
    dense.write_csv(tmp_path / "dense.csv")
    labels.write_csv(tmp_path / "labels.csv")
    files = ("bm25.csv", "dense.csv", "labels.csv")
    output = sqlmetrics("fuse", *files, "--sweep", "-m", "mrr", folder=tmp_path).stdout
    assert "mrr: dense alone is the best of 38 variants" in output
    for line, problem in {
        ("--sweep", "--limit", "3"): "leave --limit out",
        ("--step", ".2"): "--step needs --sweep",
        ("--method", "rrf", "--method", "sum"): "give --sweep to try several",
    }.items():
        assert problem in sqlmetrics("fuse", *files, *line, folder=tmp_path, expect=2).stderr


@by_turns(2)
def test_the_pictures_of_a_report() -> None:
    """The triangles of three runs: corners, the best one and those as good; the words of both."""
    rows = [(f"q{q}", item, score) for q in range(8) for item, score in (("a", 2.0), ("b", 1.0))]
    worse = pl.DataFrame(rows, schema=["query_id", "item_id", "score"], orient="row")
    runs = {"x": worse, "y": worse, "dense": worse.with_columns(score=-pl.col("score"))}
    labels = worse.filter(pl.col("item_id") == "b").select("query_id", "item_id", grade=1)
    sweep = sm.fuse_sweep(runs, labels, "mrr", method=["sum", "rrf"], norm="min_max", step=0.25)
    report = sm.report(runs, labels, "mrr", sweep=sweep)
    assert {"variants", "surface"} <= {picture.key for picture in report.pictures}
    for words in map(Words, ("en", "zh")):
        variants, surface = sweep.pictures(words)
        assert "dense alone" in variants.sentence(words)
        assert "1.0000" in variants.sentence(words)
        assert "x, y" in surface.sentence(words) or "x、y" in surface.sentence(words)
    points = surface.chart.rows
    corners = {row["corner"]: (row["x"], round(row["y"], 3)) for row in points if row["corner"]}
    assert corners == {"x": (0, 0), "y": (1, 0), "dense": (0.5, 0.866)}
    families = sweep.to_dicts()["variants"]
    good = {row["variant"] for row in families if row["as_good"] and row["metric"] == "mrr"}
    listed = {row[0] for row in surface.cells if row[-1] == "1.0000"}
    assert good == listed
    assert {row["x"] for row in points if row["is_best"] and row["corner"]} == {0.5}
    assert all(row["as_good"] for row in points if row["is_best"])
    four = sm.fuse_sweep({**runs, "z": worse}, labels, "mrr", method="rrf", k=60, step=0.5)
    assert [picture.key for picture in four.pictures(words)] == ["variants"]


@by_turns(2.3)
def test_a_lead_that_hangs_on_items_without_a_label() -> None:
    """Dense shows what nobody has graded: bm25 is better only if that is bad."""
    lists = {"bm25": ("a", "b"), "dense": ("x", "y")}
    runs: dict[str, Any] = {
        run: pa.table(
            {
                "query_id": [f"q{n}" for n in range(9) for _ in items],
                "item_id": [*items] * 9,
                "rank": [1, 2] * 9,
            }
        )
        for run, items in lists.items()
    }
    labels = pa.table(
        {"query_id": [f"q{n}" for n in range(9)], "item_id": ["a"] * 9, "grade": [1] * 9}
    )
    sweep = sm.fuse_sweep(runs, labels, "precision@2", rank="rank", k=60, step=0.5)
    (note,) = sweep.notes
    assert "lead over rrf k=60 weights=0.5:0.5 depends on items without a label" in note
    assert "precision@2 would be 1.0000, not 0.5000" in note
    assert "sqlmetrics sheet BEST OTHER LABELS -k 2" in note
    graded = [*labels.to_pylist()]
    graded += [
        {"query_id": f"q{n}", "item_id": item, "grade": 0} for n in range(9) for item in "bxy"
    ]
    judged = pa.Table.from_pylist(graded)
    assert sm.fuse_sweep(runs, judged, "precision@2", rank="rank", k=60, step=0.5).notes == ()


GRID = Grid((Mixture(),), step=0.05).variants(["words", "vectors"])


@by_turns(2)
def test_bounds_are_what_evaluate_gives_with_other_labels() -> None:
    """Without unjudged items, and with all of them as bad and as good, of runs and mixtures."""
    runs, labels = frames(5)
    names = [*runs]
    sweep = sm.fuse_sweep(runs, labels, "ndcg@3", method="rrf", k=60, step=0.5, bounds=True)
    rows = {row["variant"]: row for row in sweep.to_dicts()["variants"]
            if row["metric"] == "ndcg@3" and row["segment_name"] == "all"}  # fmt: skip
    assert {row["bound_metric"] for row in rows.values()} == {"precision@3"}
    graded = labels.to_pylist()
    judged, best = {(row["query_id"], row["item_id"]) for row in graded}, max(
        row["grade"] for row in graded)  # fmt: skip
    queries = {row["query_id"] for row in graded}
    retrieved = {
        (row["query_id"], row["item_id"]) for run in runs.values() for row in run.to_pylist()
    }
    good_labels = [{"query_id": query, "item_id": item, "grade": best}
                   for query, item in retrieved - judged if query in queries]  # fmt: skip
    good = pa.Table.from_pylist(
        [{name: row[name] for name in ("query_id", "item_id", "grade")} for row in graded]
        + good_labels
    )
    weights = ":".join([f"{1 / len(names):g}"] * len(names))
    lists = {f"rrf k=60 weights={weights}": sm.fuse(runs), f"{names[0]} alone": runs[names[0]]}
    for variant, ranking in lists.items():
        row = rows[variant]
        values = [
            sm.evaluate(ranking, labels, "ndcg@3", unjudged="condensed")["ndcg@3"],
            sm.evaluate(ranking, labels, "precision@3")["precision@3"],
            sm.evaluate(ranking, good, "precision@3")["precision@3"],
        ]
        actual = [row["condensed"], row["bound_low"], row["bound_high"]]
        assert actual == pytest.approx(values, abs=1e-12), variant
        assert row["bound_low"] < row["bound_high"]
    assert "of judged items alone; low and high: precision@3" in str(sweep)


@by_turns(2)
def test_bounds_are_of_the_day_that_they_stand_beside() -> None:
    """Where all is judged, a variant without its unjudged items is worth the same on each day."""
    days = {name: [f"2026-01-0{day}" for day in (1, 2) for _ in range(6)] for name in ("a", "b")}
    runs = {name: pa.table({"ds": dates, "query_id": ["q", "q", "q", "r", "r", "r"] * 2,
                            "item_id": ["x", "y", "z"] * 4,
                            "score": [float((7 * n + 3 * ord(name)) % 11) for n in range(12)]})
            for name, dates in days.items()}  # fmt: skip
    labels = pa.table({"ds": days["a"], "query_id": ["q", "q", "q", "r", "r", "r"] * 2,
                       "item_id": ["x", "y", "z"] * 4,
                       "grade": [0, 1, 2, 2, 0, 1, 3, 0, 0, 0, 2, 0]})  # fmt: skip
    sweep = sm.fuse_sweep(runs, labels, "ndcg@2", date="ds", bounds=True, step=0.5, folds=2)
    rows = [row for row in sweep.to_dicts()["variants"] if row["metric"] == "ndcg@2"]
    assert len({row["value"] for row in rows}) > 2
    for row in rows:
        assert row["condensed"] == pytest.approx(row["value"], abs=1e-12)
        assert row["bound_high"] is None
    assert "high is unknown" in sweep.text()


def world(kind: str, n_queries: int, chance: np.random.Generator) -> tuple[Any, Any]:
    """The true mean of each variant, and its values of queries, which have much in common."""
    weights = np.array([variant.weights[1] for variant in GRID])
    size = (n_queries, len(GRID))
    base = chance.normal(0, 0.25, (n_queries, 1))
    if kind == "curve":
        means = 0.5 - chance.uniform(0.02, 0.2) * (weights - chance.uniform(0.1, 0.9)) ** 2
        slopes = chance.normal(0, 0.15, (n_queries, 1)) * (weights - 0.5)
        return means, means + base + slopes + chance.normal(0, 0.05, size)
    if kind == "flat":
        return np.full(len(GRID), 0.5), 0.5 + base + chance.normal(0, 0.1, size)
    means = 0.5 + chance.normal(0, 0.01, len(GRID))
    return means, means + chance.normal(0, 0.3, size)


def coverage(kind: str, n_queries: int, n_worlds: int) -> dict[str, float]:
    """In which share of simulated worlds the told is true, and by how much it is off."""
    chance, rows = np.random.default_rng(43), []
    equal = next(number for number, variant in enumerate(GRID) if variant.is_equal)
    for _ in range(n_worlds):
        means, values = world(kind, n_queries, chance)
        winner = find_winner(values, np.ones_like(values), GRID, sign=1, folds=5, level=0.95)
        assert winner
        best, mean = means[winner.best], winner.mean
        lead = best - means[equal]
        rows.append(
            (
                mean.ci_low <= best <= mean.ci_high,
                winner.over_equal.ci_low - 1e-12 <= lead <= winner.over_equal.ci_high + 1e-12,
                max(means[number] for number in winner.as_good) >= means.max() - 1e-12,
                mean.naive - best,
                mean.value - best,
            )
        )
    names = ("mean", "over_equal", "as_good", "naive_bias", "bias")
    return dict(zip(names, np.mean(np.array(rows, float), axis=0), strict=True))


@by_turns(1.5)
def test_the_winner_in_simulated_worlds() -> None:
    """The chance that a right interval fails so is below 1 in 1,000."""
    summary = coverage("independent", 100, 300)
    assert 0.9 < summary["mean"] < 0.99
    assert summary["over_equal"] > 0.9
    assert summary["as_good"] > 0.9
    assert summary["naive_bias"] > 0.03
    assert abs(summary["bias"]) < 0.01


@pytest.mark.long
def test_the_winner_in_many_simulated_worlds() -> None:
    for kind in ("curve", "flat", "independent"):
        for n_queries in (50, 200, 1000):
            summary = coverage(kind, n_queries, 1000)
            print(kind, n_queries, summary)
            assert 0.93 < summary["mean"] < 0.97, (kind, n_queries, summary)
            assert 0.93 < summary["over_equal"] < 0.98, (kind, n_queries, summary)
            assert summary["as_good"] > 0.93
            assert summary["bias"] < summary["naive_bias"]


def test_the_best_of_few_and_of_equal_ones() -> None:
    """Two units, equal columns, lower being better, units without a value."""
    values = np.array([[1.0, 1.0, 0.0, 1.0]] * 3)
    variants = [Variant(None, (1, 0), "a"), Variant(None, (0, 1), "b"), *GRID[2:4]]
    assert (
        find_winner(values[:1], values[:1] * 0 + 1, variants, sign=1, folds=5, level=0.95) is None
    )
    masses = np.ones_like(values)
    masses[2] = 0
    winner = find_winner(values * masses, masses, variants, sign=1, folds=5, level=0.95)
    assert winner
    assert (winner.best, winner.n_units, winner.as_good) == (0, 2, {0, 1, 3})
    lower = find_winner(values, masses * 0 + 1, variants, sign=-1, folds=5, level=0.95)
    assert lower
    assert (lower.best, lower.as_good, lower.mean.value, lower.loss) == (2, {2}, 0, 0)
