"""Every pair of systems: against scipy, statsmodels, and each pair compared by itself."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import sqlmetrics
from marked import by_turns
from pyarrow.csv import write_csv

import sqlmetrics as sm
from sqlmetrics.comparison.all_pairs import group_letters, leaderboards

METRICS = ["ndcg@5", "mrr", "first_rank"]
SYSTEMS = 7


def world(n_systems: int = SYSTEMS, n_queries: int = 60) -> tuple[pa.Table, pa.Table]:
    """Rankings of systems that get better, and one that is there twice; and their labels."""
    chance = random.Random(11)
    labels = {(q, i): chance.choice((0, 0, 1, 2)) for q in range(n_queries) for i in range(8)}
    rows = []
    for number in range(n_systems):
        noise = 0.5 + 0.7 * (n_systems - max(number, 1))
        for (query, item), grade in labels.items():
            seed = f"{max(number, 1)} {query} {item}"
            score = grade + random.Random(seed).gauss(0, noise)
            rows.append(
                {"system": f"s{number}", "query_id": query, "item_id": item} | {"score": score}
            )
    graded = [{"query_id": q, "item_id": i, "grade": g} for (q, i), g in labels.items()]
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(graded)


def is_of_system(row: dict[str, Any]) -> bool:
    """Whether a query is one that the row's system was asked."""
    return " " not in row["query_id"] or row["query_id"].startswith(f"{row['system']} ")


def with_separate_queries(rankings: pa.Table, labels: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The same with queries of each system's own, as in an A/B test."""
    rows = [
        row | {"query_id": f"{row['system']} {row['query_id']}"} for row in rankings.to_pylist()
    ]
    graded = [
        row | {"query_id": f"s{number} {row['query_id']}"}
        for number in range(SYSTEMS)
        for row in labels.to_pylist()
    ]
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(graded)


def p_value(new: dict[Any, float], old: dict[Any, float], paired: bool) -> float:
    """That of scipy, of the values of queries."""
    stats = pytest.importorskip("scipy.stats")
    if not paired:
        return float(stats.ttest_ind([*new.values()], [*old.values()], equal_var=False).pvalue)
    shared = sorted(new.keys() & old.keys())
    return float(stats.ttest_rel([new[q] for q in shared], [old[q] for q in shared]).pvalue)


@by_turns(3.0)
@pytest.mark.parametrize("paired", [True, False])
def test_each_pair_is_that_of_peers_and_that_compared_alone(paired: bool) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rankings, labels = world() if paired else with_separate_queries(*world())
    comparison = sm.compare(rankings, labels, METRICS, all_pairs=True, paired=paired)
    names = [f"s{number}" for number in range(SYSTEMS)]
    assert {(row["baseline"], row["system"]) for row in comparison} == {*combinations(names, 2)}
    assert len(comparison) == len(METRICS) * SYSTEMS * (SYSTEMS - 1) // 2
    per_query = sm.evaluate(rankings, labels, METRICS, system="system").per_query().to_pylist()
    values = {
        (system, metric): {
            row["query_id"]: row[column]
            for row in per_query
            if row["system"] == system and row[column] is not None and is_of_system(row)
        }
        for system in names
        for metric, column in zip(METRICS, ("ndcg_at_5", "mrr", "first_rank"), strict=True)
    }
    for row in comparison:
        if paired and {row["system"], row["baseline"]} == {"s0", "s1"}:
            assert (row["difference"], row["verdict"]) == (0, "equivalent")
            continue
        new, old = (values[row[side], row["metric"]] for side in ("system", "baseline"))
        assert row["p_value"] == pytest.approx(p_value(new, old, paired), rel=1e-8)
    tested = [row for row in comparison if row["p_value"] is not None]
    _, adjusted, *_ = multitest.multipletests([row["p_value"] for row in tested], method="holm")
    assert [row["p_adjusted"] for row in tested] == pytest.approx(list(adjusted), rel=1e-12)
    pair = ("s1", "s6")
    alone = sm.compare(rankings, labels, METRICS, systems=pair, baseline="s1", paired=paired)
    for row in alone:
        same = comparison[row["metric"], "s6", "s1"]
        for name in (
            "value",
            "baseline_value",
            "difference",
            "p_value",
            "effect_size",
            "wins",
            "n",
        ):
            assert same[name] == pytest.approx(row[name], rel=1e-9), name


def test_letters_are_shared_where_systems_do_not_differ() -> None:
    """Of 200 random sets of pairs that differ, transitive or not."""
    chance = random.Random(4)
    for _ in range(200):
        names = [f"s{number}" for number in range(chance.randrange(2, 9))]
        pairs = list(combinations(names, 2))
        different = {frozenset(pair) for pair in pairs if chance.random() < 0.5}
        letters = group_letters(names, different)
        for first, second in pairs:
            shares = bool({*letters[first]} & {*letters[second]})
            assert shares == (frozenset((first, second)) not in different)


@by_turns(3.0)
def test_a_leaderboard_says_what_the_pairs_say(tmp_path: Path) -> None:
    """In all outputs; metrics of which less is better have the least first."""
    rankings, labels = world()
    comparison = sm.compare(rankings, labels, METRICS, all_pairs=True)
    for row, standings in leaderboards(comparison.rows):
        order = [standing.value for standing in standings]
        assert order == sorted(order, reverse=row["metric"] != "first_rank")
        verdicts: dict[frozenset[str], Any] = {
            frozenset((pair["system"], pair["baseline"])): pair["verdict"]
            for pair in comparison
            if pair["metric"] == row["metric"]
        }
        for higher, lower in combinations(standings, 2):
            differs = verdicts[frozenset((higher.system, lower.system))] in ("better", "worse")
            assert differs != bool({*higher.group} & {*lower.group})
    for operation in (comparison.raise_if, lambda: sm.report(comparison)):
        with pytest.raises(sm.SpecError, match="needs a baseline, but all_pairs"):
            operation()
    assert "<svg" not in comparison._repr_html_()
    with pytest.raises(KeyError, match=r"no row of 's0', 's1'.*known: 's1', 's0'"):
        comparison["mrr", "s0", "s1"]
    write_csv(rankings, tmp_path / "runs.csv")
    write_csv(labels, tmp_path / "labels.csv")
    line = ("compare", "runs.csv", "labels.csv", "-m", ",".join(METRICS), "--all-pairs")
    completed = sqlmetrics(*line, folder=tmp_path)
    assert completed.stdout.startswith("ndcg@5: 7 systems, best first\n")
    assert "by Holm over metrics and 21 pairs" in completed.stdout
    rows = json.loads(sqlmetrics(*line, "-o", "json", folder=tmp_path).stdout)
    assert len(rows) == 63
    for form in ("markdown", "html", "latex", "csv"):
        text = sqlmetrics(*line, "-o", form, folder=tmp_path).stdout
        assert all(name in text for name in ("s0", "s6", "mrr"))
    with pytest.raises(sm.SpecError, match="a name in ranx; write randomization"):
        sm.compare(rankings, labels, METRICS, test="fisher")  # type: ignore[arg-type]
    refusal = sqlmetrics(*line, "--baseline", "s0", folder=tmp_path, expect=2)
    assert "leave out baseline" in refusal.stderr
