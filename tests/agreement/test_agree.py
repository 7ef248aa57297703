"""`agree`: coefficients beside plain Python and four peers, on each engine, and what is refused."""

from __future__ import annotations

import math
import random
import re
import sqlite3
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import plain
import plain_labels
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from conftest import peer
from engines.starting import Servers
from judged import SCALES, Pairs, partial_runs, rows_of, table, tops, world
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.agreement import counts
from sqlmetrics.agreement.question import rank_biased_overlap
from sqlmetrics.comparison.page.content import Words, number, signed
from sqlmetrics.engines.database import Database
from sqlmetrics.proof.reference_groups import rbo_extrapolated
from sqlmetrics.stats.bootstrap import bootstrap_interval, resampled_counts


def values(result: sm.Agreement, judge: str, other: str) -> dict[str, float]:
    """Coefficient -> its value, NaN where it has none."""
    rows = (r for r in result.coefficients if (r["judge"], r["other_judge"]) == (judge, other))
    return {r["coefficient"]: math.nan if r["value"] is None else r["value"] for r in rows}


def close(expected: Mapping[str, float]) -> Any:
    return pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


@by_turns(3)
def test_coefficients_are_those_of_the_formulas() -> None:
    chance = random.Random(1)
    for n_judges, scale in ((2, SCALES[0]), (2, SCALES[2]), (3, SCALES[0]), (4, SCALES[1])):
        pairs = world(chance, n_judges, scale, 12)
        names = [f"judge {number}" for number in range(n_judges)]
        result = sm.agree(table(pairs, names), names, replicates=100)
        assert result.grades == scale
        for first, second in combinations(range(n_judges), 2):
            chosen = [(g[first], g[second]) for g in pairs.values()]
            chosen = [p for p in chosen if p != (None, None)]
            complete = [p for p in chosen if None not in p]
            assert values(result, names[first], names[second]) == close(
                plain.coefficients(chosen, scale)
            )
            cells = {
                (r["grade"], r["other_grade"]): r["n_pairs"]
                for r in result.confusion
                if (r["judge"], r["other_judge"]) == (names[first], names[second])
            }
            assert sum(cells.values()) == len(complete)
            assert all(complete.count(cell) == n for cell, n in cells.items())
        if n_judges > 2:
            assert values(result, "all", "all") == close(
                plain.coefficients([*pairs.values()], scale)
            )
        by_rows = sm.agree(rows_of(table(pairs, names), names), replicates=100)
        assert by_rows.coefficients == result.coefficients
        assert by_rows.notes[0].startswith("labels: using rater as the judge")


@by_turns(3)
def test_coefficients_are_those_of_peers() -> None:
    """Krippendorff's own package, scikit-learn, statsmodels and irrCAC."""
    chance = random.Random(2)
    scale = SCALES[0]
    pairs = world(chance, 3, scale, 15)
    names = ["a", "b", "c"]
    result = sm.agree(table(pairs, names), names, replicates=100)
    of_all, of_two = values(result, "all", "all"), values(result, "a", "b")
    complete_pairs = [(p[0], p[1]) for p in pairs.values() if p[0] is not None and p[1] is not None]
    kappa = peer("sklearn.metrics").cohen_kappa_score
    for weights in (None, "linear", "quadratic"):
        name = f"cohen_kappa_{weights}" if weights else "cohen_kappa"
        expected = kappa(*zip(*complete_pairs, strict=True), labels=scale, weights=weights)
        assert of_two[name] == pytest.approx(expected, rel=1e-12)
    full = {pair: grades for pair, grades in pairs.items() if None not in grades}
    complete = values(sm.agree(table(full, names), names, replicates=100), "all", "all")
    inter_rater = peer("statsmodels.stats.inter_rater")
    counted = [[grades.count(grade) for grade in scale] for grades in full.values()]
    expected = inter_rater.fleiss_kappa(np.array(counted))
    assert complete["fleiss_kappa"] == pytest.approx(expected, rel=1e-12)
    krippendorff = peer("krippendorff")
    data = np.array([[np.nan if g is None else g for g in p] for p in pairs.values()]).T
    for level in ("nominal", "ordinal", "interval"):
        expected = krippendorff.alpha(data, level_of_measurement=level)
        assert of_all[f"alpha_{level}"] == pytest.approx(expected, rel=1e-12)


@by_turns(2)
def test_gwets_coefficients_are_those_of_his_package() -> None:
    raw = peer("irrCAC.raw")
    import pandas as pd

    names = ["a", "b", "c"]
    pairs = world(random.Random(3), 3, SCALES[0], 15)
    coefficients = values(sm.agree(table(pairs, names), names, replicates=100), "all", "all")
    data = pd.DataFrame([*pairs.values()], columns=names, dtype=float)
    of_package = {
        weights: raw.CAC(data, weights=weights, categories=[*SCALES[0]], digits=15)
        for weights in ("identity", "linear", "quadratic")
    }
    for name, weights in (("ac1", "identity"), ("ac2_linear", "linear")):
        expected = of_package[weights].gwet()["est"]["coefficient_value"]
        assert coefficients[name] == pytest.approx(expected, abs=1e-12)
    expected = of_package["quadratic"].gwet()["est"]["coefficient_value"]
    assert coefficients["ac2_quadratic"] == pytest.approx(expected, abs=1e-12)
    expected = of_package["identity"].fleiss()["est"]["coefficient_value"]
    assert coefficients["fleiss_kappa"] == pytest.approx(expected, abs=1e-12)


RUNS = {"system": "system", "k": 3}


def runs_of(pairs: Pairs, chance: random.Random) -> pa.Table:
    """Two systems that rank the pairs by lot."""
    rows = [
        {"query_id": q, "item_id": i, "score": chance.random(), "system": system}
        for system in ("new", "old")
        for q, i in pairs
    ]
    return pa.Table.from_pylist(rows)


OTHER_ENGINES = ["sqlite", "postgres", "chdb", "datafusion"]


@by_turns(2)
@pytest.mark.parametrize("name", engines(OTHER_ENGINES, now=["sqlite"]))
def test_every_engine_gives_the_same_numbers(name: str, servers: Servers) -> None:
    chance = random.Random(4)
    pairs = world(chance, 3, SCALES[2], 6)
    names = ["human", "gpt", "it's"]
    labels = rows_of(table(pairs, names), names)
    labels = pa.concat_tables([labels, labels.slice(0, 7), _other_grades(labels.slice(7, 5))])
    labels = labels.append_column("kind", pa.array(["x", "y'", None] * 99)[: len(labels)])
    arguments: dict[str, Any] = {"judge": "rater", "by": "kind", "metrics": "ndcg@3", **RUNS}
    runs = runs_of(pairs, chance)
    expected = sm.agree(labels, names, rankings=runs, **arguments)
    with Database(servers.open(name)) as database:
        result = sm.agree(labels, names, rankings=runs, connection=database, **arguments)
    for kind, rows in expected.to_dicts().items():
        for row, other in zip(rows, result.to_dicts()[kind], strict=True):
            assert other == pytest.approx(row, rel=1e-12, abs=1e-12), kind
    assert result.notes[-1] == expected.notes[-1]


def _other_grades(labels: pa.Table) -> pa.Table:
    """The same pairs with another grade."""
    grades = [3.0 if grade != 3.0 else 0.0 for grade in labels["grade"].to_pylist()]
    return labels.set_column(3, "grade", [grades])


@by_turns(1)
def test_a_judge_that_favours_a_system_is_seen() -> None:
    """A world in which a judge gives .5 more to what only one system shows."""
    chance = random.Random(5)
    labels, runs = [], []
    for query in range(120):
        for item in range(6):
            system = ("new", "old")[item % 2]
            truth = chance.choice([0, 1, 2])
            extra = chance.random() < (0.6 if system == "new" else 0.1)
            pair = {"query_id": query, "item_id": item}
            labels.append({**pair, "human": truth, "gpt": truth + extra})
            runs.append({**pair, "rank": item // 2 + 1, "system": system})
    tables = [pa.Table.from_pylist(rows) for rows in (labels, runs)]
    arguments: dict[str, Any] = {"rank": "rank", "system": "system"}
    result = sm.agree(tables[0], ["human", "gpt"], rankings=tables[1], **arguments)
    bias = {r["segment_value"]: r for r in result.segments if r["segment_name"] == "system"}
    expected = {
        system: np.mean([r["gpt"] - r["human"] for r in labels if r["item_id"] % 2 == odd])
        for odd, system in enumerate(("new", "old"))
    }
    for system, value in expected.items():
        assert bias[system]["bias"] == pytest.approx(value, rel=1e-12)
        assert bias[system]["bias_low"] < value < bias[system]["bias_high"]
    by_query = [
        np.mean([r["gpt"] - r["human"] for r in labels[6 * q + 1 : 6 * q + 6 : 2]])
        - np.mean([r["gpt"] - r["human"] for r in labels[6 * q : 6 * q + 6 : 2]])
        for q in range(120)
    ]
    change = bias["old"]
    half_width = peer("scipy.stats").t.ppf(0.975, 119) * np.std(by_query, ddof=1) / 120**0.5
    assert change["bias_change"] == pytest.approx(np.mean(by_query), rel=1e-12)
    assert change["change_high"] == pytest.approx(np.mean(by_query) + half_width, rel=1e-9)
    assert change["change_high"] < -0.3
    assert bias["new"]["bias_change"] is None
    assert {"bias low", "change low"} <= {*re.split(" {2,}|\n", result.text())}


@by_turns(2)
def test_a_report_shows_judges() -> None:
    """Three pictures in two languages, whose sentences and tables have the numbers of `agree`."""
    chance = random.Random(8)
    pairs = world(chance, 2, SCALES[0], 25)
    labels, runs = table(pairs, ["human", "gpt"]), runs_of(pairs, chance)
    result = sm.agree(labels, ["human", "gpt"], rankings=runs, metrics="ndcg@3,mrr")
    graded = [row for row in labels.to_pylist() if row["human"] is not None]
    qrels = pa.Table.from_pylist(graded)
    report = sm.report(runs, qrels, "ndcg@3", grade="human", agreement=result)
    assert {"judges", "judge_bias", "judge_systems"} <= {picture.key for picture in report.pictures}
    changes = [row["bias_change"] for row in result.segments if row["bias_change"] is not None]
    for words in map(Words, ("en", "zh")):
        judges, bias, systems = result.pictures(words)
        assert number(result["alpha_ordinal"]) in judges.sentence(words)
        assert signed(max(changes, key=abs)) in bias.sentence(words)
        assert signed(result.orders[0]["kendall_tau"]) in systems.sentence(words)
        assert [len(p.cells) for p in (judges, bias, systems)] == [11, 2, 2]


@by_turns(2)
def test_grades_are_worth_what_people_give_beside_them() -> None:
    """Shares and the curve by plain Python, intervals by peers."""
    chance = random.Random(2)
    names, scale = ["human", "gpt", "b"], SCALES[2]
    pairs = {pair: labels[:3] for pair, labels in world(chance, 3, scale, 14).items()}
    runs = partial_runs(pairs, ["new", "old"], chance)
    arguments: dict[str, Any] = {"system": "system", "k": 3, "replicates": 100}
    result = sm.agree(table(pairs, names), names, rankings=runs, **arguments)
    shown_by = tops(runs, 3)
    segments = {("all", "all"): [*pairs.values()]}
    for system in ("new", "old"):
        of_system = [labels for pair, labels in pairs.items() if system in shown_by.get(pair, [])]
        segments["system", system] = of_system
    assert {r["other_judge"] for r in result.probabilities} == {"gpt", "b"}
    for key, labels in segments.items():
        complete = [(g[0], g[1]) for g in labels if None not in g[:2]]
        rows = [r for r in result.probabilities if _segment(r) == (*key, "gpt")]
        for row in rows:
            beside = [first for first, other in complete if other == row["other_grade"]]
            assert row["n_pairs"] == beside.count(row["grade"])
            assert row["probability"] == pytest.approx(row["n_pairs"] / len(beside))
            assert row["ci_low"] is None or row["ci_low"] <= row["probability"] <= row["ci_high"]
        assert len(rows) == 3 * len({other for _, other in complete})
        expected = plain_labels.curve(labels, 1)
        for row in (r for r in result.calibration if _segment(r) == (*key, "gpt")):
            assert row["calibrated"] == pytest.approx(expected[row["other_grade"]], rel=1e-12)
            means = [
                np.mean([f for f, o in ((g[0], g[1]) for g in of) if f is not None and o == grade])
                for grade in [row["other_grade"]]
                for of in (labels, segments["all", "all"])
            ]
            assert row["mean_grade"] == pytest.approx(means[0], rel=1e-12)
            if key != ("all", "all"):
                assert row["change"] == pytest.approx(means[0] - means[1], abs=1e-12)
    assert "what the grades of gpt are worth, by those of human" in result.text()
    # one pair a query: pairs are as uncertain as they are many, but for Student's t
    alone = [(chance.choice(scale), chance.choice(scale)) for _ in range(200)]
    single = table({(f"{n:03}", "a"): pair for n, pair in enumerate(alone)}, names[:2])
    result = sm.agree(single, names[:2], replicates=100)
    confint = peer("statsmodels.stats.proportion").proportion_confint
    for row in result.probabilities:
        n = sum(other == row["other_grade"] for _, other in alone)
        tail = 2 * peer("scipy.stats").norm.sf(peer("scipy.stats").t.ppf(0.975, n - 1))
        n_alike = min(n, n - 1)  # s^2 has n - 1 below it
        ends = confint(row["probability"] * n_alike, n_alike, alpha=tail, method="wilson")
        assert [row["ci_low"], row["ci_high"]] == pytest.approx(ends, rel=1e-9)
    people, judge = zip(*alone, strict=True)
    model = peer("sklearn.isotonic").IsotonicRegression().fit(judge, people)
    levels = model.predict([row["other_grade"] for row in result.calibration])
    assert [row["calibrated"] for row in result.calibration] == pytest.approx(levels, rel=1e-12)
    draws = resampled_counts(200, 100, 1)
    replicates = [
        [model.fit(judge, people, sample_weight=weights).predict([grade]) for weights in draws]
        for grade in scale
    ]
    for row, values in zip(result.calibration, replicates, strict=True):
        n_units = judge.count(row["other_grade"])
        ends = bootstrap_interval(np.ravel(values), 0.95, n_units)
        assert [row["ci_low"], row["ci_high"]] == pytest.approx(ends, rel=1e-9)


def _segment(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["segment_name"], row["segment_value"], row["other_judge"]


@by_turns(2)
def test_the_order_of_systems_by_each_judge_is_that_of_compare() -> None:
    """Values, verdicts and differences are those of evaluations of the pairs that both graded."""
    chance = random.Random(8)
    pairs = world(chance, 2, SCALES[0], 25)
    labels, runs = table(pairs, ["human", "gpt"]), runs_of(pairs, chance)
    third = runs.slice(0, len(pairs)).set_column(3, "system", [["third"] * len(pairs)])
    third = third.set_column(2, "score", [[-float(p[0] or 0) for p in pairs.values()]])
    runs = pa.concat_tables([runs, third])
    result = sm.agree(labels, ["human", "gpt"], rankings=runs, metrics="ndcg@3,mrr,NDCG@3")
    graded = [row for row in labels.to_pylist() if None not in row.values()]
    verdicts: dict[str, dict[tuple[str, str], str]] = {}
    values: dict[str, list[dict[str, Any]]] = {}
    for judge in ("human", "gpt"):
        grades = [{**row, "grade": row[judge]} for row in graded]
        qrels = pa.Table.from_pylist(grades).select(["query_id", "item_id", "grade"])
        compared = sm.compare(runs, qrels, ["ndcg@3", "mrr"]).to_dicts()
        verdicts[judge] = {(r["metric"], r["system"]): r["verdict"] for r in compared}
        evaluated: Any = sm.evaluate(runs, qrels, ["ndcg@3", "mrr"], system="system")
        values[judge] = evaluated.per_query().to_pylist()
    stats = peer("scipy.stats")
    for row in result.systems:
        column = {"ndcg@3": "ndcg_at_3", "mrr": "mrr"}[row["metric"]]
        key = row["metric"], row["system"]
        assert row["verdict"] == verdicts["human"].get(key)
        assert row["other_verdict"] == verdicts["gpt"].get(key)
        human, gpt = (
            {r["query_id"]: r[column] for r in rows if r["system"] == row["system"]}
            for rows in values.values()
        )
        shared = [q for q in human if q in gpt and None not in (human[q], gpt[q])]
        means = [np.mean([side[q] for q in shared]) for side in (human, gpt)]
        assert (row["value"], row["other_value"]) == pytest.approx(means, rel=1e-12)
        assert row["difference"] == pytest.approx(means[1] - means[0], abs=1e-12)
        changes = [gpt[q] - human[q] for q in shared]
        assert row["difference"] == pytest.approx(np.mean(changes), rel=1e-12, abs=1e-12)
        assert row["n_queries"] == len(shared)
        error = np.std(changes, ddof=1) / len(shared) ** 0.5
        half_width = stats.t.ppf(0.975, len(shared) - 1) * error
        assert row["ci_high"] - row["difference"] == pytest.approx(half_width, rel=1e-9)
    for order in result.orders:
        rows = [row for row in result.systems if row["metric"] == order["metric"]]
        columns = [[row[name] for row in rows] for name in ("value", "other_value")]
        expected = stats.kendalltau(*columns).statistic
        assert order["kendall_tau"] == pytest.approx(expected, rel=1e-12)
        orders = [sorted(range(len(rows)), key=lambda i, c=c: -c[i]) for c in columns]
        overlap = peer("rbo").RankingSimilarity(*orders).rbo_ext(p=0.9)
        assert order["rbo"] == pytest.approx(overlap, rel=1e-12)
        turned = [row for row in rows if row["verdict"] != row["other_verdict"]]
        assert (order["n_turned"], order["n_verdicts"]) == (len(turned), 2)
    assert "verdicts turned" in result.text()
    keys = [(row["metric"], row["system"]) for row in result.systems]
    assert len(keys) == len({*keys}) == 6
    one_system = runs.slice(0, len(pairs)).drop(["system"])
    with pytest.raises(sm.SpecError, match="metrics order systems, given one"):
        sm.agree(labels, ["human", "gpt"], rankings=one_system, metrics="mrr")
    with pytest.raises(sm.SpecError, match="metrics: only with a table of rankings"):
        sm.agree(labels, ["human", "gpt"], metrics="mrr")


def test_overlap_of_orders_with_ties_is_that_of_the_formula() -> None:
    chance = random.Random(7)
    for _ in range(200):
        n = chance.randint(2, 8)
        sides = [[chance.choice([0.1, 0.2, 0.3, 0.4]) for _ in range(n)] for _ in range(2)]
        tied = [
            [[str(i) for i in range(n) if side[i] == value] for value in sorted({*side})[::-1]]
            for side in sides
        ]
        expected = rbo_extrapolated(*tied, p=0.9, rbo_ties="w")
        assert rank_biased_overlap(*sides) == pytest.approx(expected, rel=1e-12)
    assert rank_biased_overlap([1.0], [1.0]) is None


@by_turns(1)
def test_intervals_are_those_of_resampled_queries() -> None:
    """Fewer queries are less certain, copies of a pair within a query are not more certain."""
    pairs = world(random.Random(6), 2, SCALES[0], 30)
    labels = table(pairs, ["a", "b"])
    once = sm.agree(labels, ["a", "b"]).coefficients[0]
    copies = [{**r, "item_id": r["item_id"] + "!"} for r in labels.to_pylist()]
    twice = sm.agree(pa.concat_tables([labels, pa.Table.from_pylist(copies)]), ["a", "b"])
    row = twice.coefficients[0]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((once["ci_low"], once["ci_high"]))
    again = sm.agree(labels, ["a", "b"], seed=2).coefficients[0]
    assert again["value"] == once["value"]
    assert again["ci_low"] != once["ci_low"]
    wide = sm.agree(labels, ["a", "b"], level=0.5).coefficients[0]
    assert once["ci_low"] < wide["ci_low"] < once["value"] < wide["ci_high"] < once["ci_high"]


@by_turns(1)
def test_very_many_queries_are_resampled_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = world(random.Random(7), 2, SCALES[0], 40)
    labels = table(pairs, ["a", "b"])
    ungrouped = sm.agree(labels, ["a", "b"])
    monkeypatch.setattr(counts, "MOST_QUERIES", 10)
    monkeypatch.setattr(counts, "DIGITS", 1)
    grouped = sm.agree(labels, ["a", "b"])
    assert values(grouped, "a", "b") == close(values(ungrouped, "a", "b"))
    assert "substring(md5(query_id), 1, 1) as unit" in grouped.executed_sql
    width = {r.level: r.coefficients[0]["ci_high"] - r.coefficients[0]["value"] for r in [grouped]}
    assert width[0.95] > 0


@by_turns(1.3)
def test_one_grade_alone_has_no_kappa() -> None:
    labels = pa.table({"query_id": [1, 1, 2], "item_id": [1, 2, 3], "a": [1, 1, 1], "b": [1, 1, 1]})
    result = sm.agree(labels, ["a", "b"])
    by_coefficient = {row["coefficient"]: row for row in result.coefficients}
    assert (by_coefficient["agreement"]["value"], by_coefficient["agreement"]["reason"]) == (
        1,
        None,
    )
    for name in ("cohen_kappa", "fleiss_kappa", "alpha_ordinal", "ac1", "ac2_quadratic"):
        assert (by_coefficient[name]["value"], by_coefficient[name]["ci_low"]) == (None, None)
        assert by_coefficient[name]["reason"].startswith("every label is the same grade")
    assert "every label is the same grade" in result.text()
    scaled = sm.agree(labels, ["a", "b"], scale=[0, 1, 2])
    assert (scaled["ac1"], scaled["cohen_kappa"]) == (1, None)
    one_query = sm.agree(labels.slice(0, 2), ["a", "b"])
    assert one_query.coefficients[0]["ci_low"] is None


def test_several_labels_of_one_judge_are_told() -> None:
    labels = pa.table(
        {
            "query_id": [1, 1, 1, 1, 1, 2, 2],
            "item_id": ["a", "a", "a", "b", "b", "a", "a"],
            "judge": ["gpt", "gpt", "gpt", "gpt", "human", "gpt", "human"],
            "grade": [2, 2, 1, 1, 1, 0, 1],
        }
    )
    result = sm.agree(labels, ["human", "gpt"])
    gpt = result.judges[1]
    assert (gpt["n_pairs"], gpt["n_labels"], gpt["n_repeated"]) == (3, 5, 1)
    assert gpt["self_agreement"] == pytest.approx(2 / 6)
    assert result["agreement"] == 0.5
    assert "gpt has several labels of 1 pair" in result.notes[-1]
    assert "33.3%" in result.notes[-1]


@by_turns(1)
def test_days_are_a_part_of_a_pair() -> None:
    days = pa.array([20_000, 20_001], pa.date32())
    labels = {"query_id": [1, 1], "item_id": ["a", "a"], "ds": days, "a": [1, 0], "b": [1, 1]}
    result = sm.agree(pa.table(labels), ["a", "b"], date="ds", by="ds")
    assert (result.coefficients[0]["n_pairs"], result.judges[0]["n_repeated"]) == (2, 0)
    days_shown = {r["segment_value"]: r["agreement"] for r in result.segments if "ds" in r.values()}
    assert days_shown == {"2024-10-04": 1.0, "2024-10-05": 0.0}
    assert sm.agree(pa.table(labels), ["a", "b"]).judges[0]["n_repeated"] == 1


LABELS = """query_id,item_id,human,gpt
1,a,high,high
1,b,low,low
1,c,low,high
2,a,high,
2,b,none,low
"""
GRADES = ["--grades", "high=2", "--grades", "low=1", "--grades", "none=0"]


@by_turns(2)
def test_every_source_has_the_same_labels(tmp_path: Path) -> None:
    """A CSV with texts as grades, two qrels, a Parquet file, a table of a database, a spec."""
    (tmp_path / "labels.csv").write_text(LABELS)
    line = ("agree", "labels.csv", "--judges", "human,gpt", "-o", "csv")
    expected = sqlmetrics(*line, *GRADES, folder=tmp_path).stdout
    assert "human,gpt,agreement,0.5," in expected
    numbers = {"high": "2", "low": "1", "none": "0", "": ""}
    rows = [row.split(",") for row in LABELS.split()[1:]]
    for name, column in (("human", 2), ("gpt", 3)):
        lines = [f"{r[0]} 0 {r[1]} {numbers[r[column]]}\n" for r in rows if r[column]]
        (tmp_path / f"{name}.qrels").write_text("".join(lines))
    assert sqlmetrics("agree", "human.qrels", "gpt.qrels", *line[4:], folder=tmp_path).stdout == (
        expected
    )
    with sqlite3.connect(tmp_path / "labels.db") as database:
        database.execute("create table judge_labels (qid, doc, who, grade)")
        for row in rows:
            for who, text in (("human", row[2]), ("gpt", row[3])):
                grade = float(numbers[text]) if text else None
                database.execute(
                    "insert into judge_labels values (?, ?, ?, ?)", (*row[:2], who, grade)
                )
    url = ("--connection", "sqlite:///labels.db", "--query", "qid", "--item", "doc")
    completed = sqlmetrics(
        *("agree", "judge_labels", "--judge", "who", "--judges", "human,gpt", *url, *line[4:]),
        folder=tmp_path,
    )
    assert completed.stdout == expected
    spec = "version: 1\nrankings: {file: labels.csv, columns: {score: x}}\nmetrics: [mrr]\n"
    spec += "labels: {file: labels.csv, grades: {high: 2, low: 1, none: 0}}\n"
    (tmp_path / "search.yml").write_text(spec)
    completed = sqlmetrics("agree", "search.yml", *line[2:], folder=tmp_path)
    assert completed.stdout == expected, completed.stderr
    pq.write_table(pa.table({"query_id": [1], "item_id": ["a"], "grade": [2]}), tmp_path / "a.pq")
    sql = sqlmetrics("agree", "human.qrels", "a.pq", "--sql", folder=tmp_path).stdout
    assert sql.startswith("with\n\n-- the labels of 'human'")
    assert "pair_grades" in sql


def refused(folder: Path, *line: str) -> str:
    stderr = sqlmetrics("agree", *line, folder=folder, expect=2).stderr
    assert stderr.count("rror:") == 1
    return stderr


@by_turns(4)
def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(LABELS)
    (tmp_path / "x.csv").write_text("query_id,item_id,grade\nz,z,1\n")
    (tmp_path / "y.csv").write_text("query_id,item_id,grade\ny,y,1\n")
    (tmp_path / "r.csv").write_text("query_id,item_id,judge,grade\n1,a,gpt,1\n2,b,,1\n")
    assert "given 'human' alone" in refused(tmp_path, "l.csv", "--judges", "human")
    assert "no column says who judged" in refused(tmp_path, "l.csv")
    assert "unknown column 'gtp'; did you mean 'gpt'" in refused(
        tmp_path, "l.csv", "--judges", "human,gtp", *GRADES
    )
    assert "no pair of query and item has labels of two judges; pairs of each: x 1, y 1" in refused(
        tmp_path, "x.csv", "y.csv"
    )
    assert "unknown judge 'gtp'; did you mean 'gpt'" in refused(
        tmp_path, "r.csv", "--judges", "gtp,human"
    )
    assert "given 'gpt' alone" in refused(tmp_path, "r.csv")
    assert "name each judge once" in refused(tmp_path, "l.csv", "--judges", "gpt,gpt")
    assert "human is not a number in 5 rows" in refused(tmp_path, "l.csv", "--judges", "human,gpt")
    assert "unknown column 'land'" in refused(
        tmp_path, "l.csv", "--judges", "human,gpt", *GRADES, "--by", "land"
    )
    for name in ("all", "Grade", "system", "rank"):
        with pytest.raises(sm.SpecError, match=f"by: '{name}' is a segment .*--by label_{name}"):
            sm.agree(str(tmp_path / "l.csv"), ["human", "gpt"], by=["country", name])
    for name in ("--weight", "--group", "--metrics-from"):
        assert "No such option" in refused(tmp_path, "x.csv", "y.csv", name, "x")
    assert "system: only with rankings" in refused(tmp_path, "x.csv", "y.csv", "--system", "s")
    assert "--scale takes numbers" in refused(tmp_path, "x.csv", "y.csv", "--scale", "a,b")
    assert "replicates must be 100 or more" in refused(
        tmp_path, "x.csv", "y.csv", "--replicates", "9"
    )
    assert "k must be 1 or more" in refused(tmp_path, "x.csv", "y.csv", "-k", "0")
    assert "seed must be 0 or more" in refused(tmp_path, "x.csv", "y.csv", "--seed", "-1")


WRONG: tuple[dict[str, Any], ...] = (
    *({"k": 2.5}, {"k": "x"}, {"replicates": None}, {"scale": ["x"]}, {"scale": "ab"}),
    *({"seed": "x"}, {"level": "x"}, {"by": [3]}, {"judge": 3}, {"judges": [1, 2]}),
    *({"judges": None}, {"judges": ["a", "A"]}, {"date": "nope"}),
)


@by_turns(1)
def test_wrong_arguments_are_one_error() -> None:
    ids = [1, 2, 3]
    labels = pa.table({"query_id": ids, "item_id": ids, "a": ids, "b": ids, "none": [None] * 3})
    for wrong in WRONG:
        (name,) = wrong
        with pytest.raises(sm.SpecError if name != "date" else sm.InputError) as error:
            sm.agree(labels, **{"judges": ["a", "b"], **wrong})
        assert {"judges": "judge", "date": "unknown column 'nope'"}.get(name, name) in str(
            error.value
        )
    with pytest.raises(sm.InputError, match="judge 'none' has no grade; leave it out"):
        sm.agree(labels, ["a", "none"])
    days: dict[str, Any] = {"label_columns": {"date": "nope"}}
    with pytest.raises(sm.InputError, match="unknown column 'nope'"):
        sm.agree(labels, ["a", "b"], **days)
    dated = labels.append_column("nope", pa.array(["2026-01-01"] * 3))
    assert sm.agree(dated, ["a", "b"], **days)["agreement"] == 1
    rows = pa.table({"query_id": ids, "item_id": ids, "judge": ["a", "a", "b"]})
    rows = rows.append_column("grade", pa.array([1, 2, None], "double"))
    with pytest.raises(sm.InputError, match="judge 'b' has no grade"):
        sm.agree(rows)


@by_turns(1)
def test_a_spec_says_which_labels(tmp_path: Path) -> None:
    """Its condition counts, beside that of a judge; what it says itself is not said twice."""
    labels = pa.table(
        {
            "query_id": [1, 1, 2, 2],
            "item_id": ["a", "b", "a", "b"],
            "land": ["x", "y", "x", "x"],
            "a": [-1.0, 0.0, 1234567.0, 0.0],
            "b": [-1.0, 1.0, 1234567.0, 1.0],
        }
    )
    assert sm.agree(labels, ["a", "b"]).grades == (-1, 0, 1, 1234567)
    raters = [f"{name}" for name in "ab" for _ in range(4)]
    rows = pa.concat_tables([labels.select(["query_id", "item_id", "land"])] * 2)
    rows = rows.append_column("rater", pa.array(raters))
    grades = [*labels["a"].to_pylist(), *labels["b"].to_pylist()]
    pq.write_table(labels, tmp_path / "columns.parquet")
    pq.write_table(rows.append_column("grade", pa.array(grades)), tmp_path / "rows.parquet")
    for name in ("columns", "rows"):
        source = {"file": str(tmp_path / f"{name}.parquet"), "where": "land = 'x' or 1 = 0"}
        spec = sm.Spec(rankings=source, labels=source, metrics=["mrr"])
        result = sm.agree(spec, ["a", "b"])
        assert result["agreement"] == pytest.approx(2 / 3)
        assert result.coefficients[0]["n_pairs"] == 3
        with pytest.raises(sm.SpecError, match="a spec says all of this itself; write query"):
            sm.agree(spec, ["a", "b"], query="query_id")


def test_a_judge_named_all_and_close_grades_keep_their_rows() -> None:
    """The judge `all` is no total; grades that differ in their last digit are two segments."""
    ids = [1, 2, 3, 4]
    grades = {"human": [1.0000001, 1.0000002, 1.0000001, 1.0000002], "all": [1.0000001] * 4}
    labels = pa.table({"query_id": ids, "item_id": ids, **grades})
    result = sm.agree(labels, ["human", "all"], by=["human", "human"], replicates=100)
    segments = {(r["segment_name"], r["segment_value"]): r["n_pairs"] for r in result.segments}
    of_grades = {(name, g): 2 for name in ("grade", "human") for g in ("1.0000001", "1.0000002")}
    assert segments == {("all", "all"): 4, **of_grades}
    assert "pairs by the grade of human (rows) and all (columns)" in result.text()
    three = labels.append_column("third", [[1.0000002] * 4])
    result = sm.agree(three, ["third", "all", "human"], replicates=100)
    assert result["agreement"] == pytest.approx(1 / 3)  # of each three labels two are equal
    lines = result.text().splitlines()
    assert {"third, all", "all"} <= {line.split("  ")[0] for line in lines}


@by_turns(1)
def test_grades_that_are_no_grades_are_refused() -> None:
    ids = [*range(40)]
    labels = {"query_id": ids, "item_id": ids, "a": [i / 7 for i in ids], "b": [1.0] * 40}
    with pytest.raises(sm.InputError, match=r"40 different grades, from 0 to 5\.57"):
        sm.agree(pa.table(labels), ["a", "b"])
    with pytest.raises(sm.InputError, match="a is NaN"):
        sm.agree(pa.table({**labels, "a": [math.nan] + [1.0] * 39}), ["a", "b"])
    with pytest.raises(sm.InputError, match="query_id is NULL"):
        sm.agree(pa.table({**labels, "query_id": [None, *ids[1:]], "a": [1.0] * 40}), ["a", "b"])
    with pytest.raises(sm.SpecError, match="20 judges at most, given 21"):
        sm.agree(pa.table(labels), [str(number) for number in range(21)])
