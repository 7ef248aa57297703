"""A sample of pairs: what each item adds to a metric, corrected by a model pair by pair."""

from __future__ import annotations

import hashlib
import math
import random
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.annotation import estimator, prediction_powered
from sqlmetrics.annotation.estimate import estimate
from sqlmetrics.annotation.estimator import Stratum
from sqlmetrics.annotation.pair_frames import LlmLabels
from sqlmetrics.annotation.prediction_powered import PairedStratum
from sqlmetrics.annotation.sample import Sample, draw
from sqlmetrics.annotation.sheet import sheet_of_sample
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.stats import student

METRICS = ["dcg@3", "cg@2", "precision(rel=2)@3", "rbp(p=0.5)@3", "dcg(gain=linear)@1"]


def world(queries: int = 40) -> dict[str, list[dict[str, Any]]]:
    """Two systems, one of which does not answer each query; grades of people and of a model."""
    chance = random.Random(3)
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("rankings", "labels", "llm", "queries")
    }
    for q in range(queries):
        query = {"query_id": f"it's {q}"}
        facts = {"country": chance.choice(["de", "fr"]), "traffic": float(chance.randrange(1, 9))}
        tables["queries"].append(query | facts)
        for i in range(8):
            pair = query | {"item_id": f"ü{i}"}
            grade = chance.randrange(4)
            tables["labels"].append(pair | {"grade": grade})
            if chance.random() < 0.9:
                guess = grade if chance.random() < 0.7 else 3
                tables["llm"].append(pair | {"grade": guess})
            for system in ("new", "old"):
                if system == "new" or q % 5:
                    score = {"score": chance.random(), "system": system}
                    tables["rankings"].append(pair | score)
    return tables


def specs(**options: Any) -> tuple[sm.Spec, sm.Spec]:
    """The evaluation by the labels of people and by those of the model."""
    data = {name: pa.Table.from_pylist(rows) for name, rows in world().items()}
    people, model = (
        sm.Spec(
            rankings={"data": data["rankings"], "columns": {"score": "score", "system": "system"}},
            labels={"data": data[name]},
            queries={"data": data["queries"], "columns": QUERY_COLUMNS},
            metrics=METRICS,
            **options,
        )
        for name in ("labels", "llm")
    )
    return people, model


KEYS, DESIGN = ("query_id", "item_id"), ("by_country", "stratum_size", "k")
QUERY_COLUMNS = {"weight": "traffic", "segments": ["country"]}


def ranks_of_pairs(k: int) -> dict[tuple[str, str], dict[str, int]]:
    """Pair -> the systems that show it in their top k, with the rank."""
    lists: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for row in world()["rankings"]:
        of_list = lists.setdefault((row["system"], row["query_id"]), [])
        of_list.append((-row["score"], row["item_id"]))
    ranks: dict[tuple[str, str], dict[str, int]] = {}
    for (system, query), items in lists.items():
        for rank, (_, item) in enumerate(sorted(items)[:k], start=1):
            ranks.setdefault((query, item), {})[system] = rank
    return ranks


@by_turns(1)
def test_pairs_are_drawn_by_lot_from_what_systems_show() -> None:
    """The lot is a hash of seed, query and item, so that SQLite draws the same."""
    people, _ = specs()
    with connect() as engine:
        sample = draw(people, engine, 30, by=["country"], seed=5, k=3)
        sheet = sheet_of_sample(people, engine, 10, sample)
    existing = ranks_of_pairs(3)
    country_of = {row["query_id"]: row["country"] for row in world()["queries"]}
    for country in ("de", "fr"):
        pairs = [pair for pair in existing if country_of[pair[0]] == country]
        lots = sorted(
            (hashlib.md5(f"5|{query}|{item}".encode()).hexdigest(), query, item)
            for query, item in pairs
        )
        sampled_rows = [
            row for row in sample.of(("query_id", "item_id", "by_country")) if row[2] == country
        ]
        assert sorted(row[:2] for row in sampled_rows) == sorted(
            lot[1:] for lot in lots[: len(sampled_rows)]
        )
        sizes = {
            row[1:] for row in sample.of(("by_country", "stratum_size", "k")) if row[0] == country
        }
        assert sizes == {(len(pairs), 3)}
    assert sorted(row[:2] for row in sheet.rows) == sorted(sample.of(sample.unit_keys))
    assert (sample.units, len(sample.rows)) == ("pairs", 30)
    with connect(sqlite3.connect(":memory:")) as engine:
        again = draw(people, engine, 30, by=["country"], seed=5, k=3)
    assert str(again) == str(sample)


@by_turns(2)
def test_all_pairs_are_the_evaluation_itself() -> None:
    """Of queries and of traffic, in all and by segment, whatever the model's labels weigh."""
    people, model = specs()
    with connect() as engine:
        everything = draw(people, engine, 10**6, by=["country"], k=3)
        checkups = [
            estimate(people, engine, everything, by=["country"], llm=llm)
            for llm in (None, LlmLabels(model), LlmLabels(model, weight=0.7))
        ]
        result = sm.evaluate(
            *(people.rankings.data, people.truth.data, METRICS),
            connection=engine,
            score="score",
            system="system",
        )
    weights = {row["query_id"]: row for row in world()["queries"]}
    assert isinstance(result, sm.Result)
    values = result.per_query().to_pylist()
    for checkup in checkups:
        rows = checkup.table.to_pylist()
        assert len(rows) == 2 * len(METRICS) * 3 * 2
        for row in rows:
            column = sm.parse(row["metric"]).column
            of = [
                (
                    weights[v["query_id"]]["traffic"] if row["mean_over"] == "traffic" else 1,
                    v[column],
                )
                for v in values
                if v["system"] == row["system"]
                if row["segment_value"] in ("all", weights[v["query_id"]]["country"])
            ]
            expected = sum(w * v for w, v in of) / sum(w for w, _ in of)
            assert row["value"] == pytest.approx(expected, rel=1e-12, abs=1e-12)
            assert row["standard_error"] == pytest.approx(0, abs=1e-12)
            assert row["n_graded"] == row["n_population"]


@by_turns(1)
def test_each_pair_stands_for_those_that_were_not_drawn() -> None:
    """DCG by plain Python: N / n of each addend, corrected by what the model says of all pairs."""
    people, model = specs()
    with connect() as engine:
        sample = draw(people, engine, 50, k=4)
        checkup = estimate(people, engine, sample, llm=LlmLabels(model, weight=0.8), width=1.5)
    grades, guesses = (
        {(row["query_id"], row["item_id"]): row["grade"] for row in world()[name]}
        for name in ("labels", "llm")
    )
    existing, sampled_pairs = ranks_of_pairs(4), sample.of(sample.unit_keys)
    scale = len(existing) / 40

    def addend(pair: Any, system: str, labels: Any) -> float:
        rank = existing[pair].get(system, 99)
        return (2 ** labels.get(pair, 0) - 1) / math.log2(rank + 1) * (rank <= 3)

    for row in checkup.table.to_pylist():
        if row["metric"] != "dcg@3" or row["mean_over"] != "queries":
            continue
        system = row["system"]
        u, v = ([scale * addend(p, system, by) for p in sampled_pairs] for by in (grades, guesses))
        of_all = scale * sum(addend(p, system, guesses) for p in existing)
        stratum = PairedStratum(Stratum(len(existing), u), v, len(existing), of_all, len(existing))
        expected = prediction_powered.mean([stratum], llm_weight=0.8)
        assert row["value"] == pytest.approx(expected.estimate.value, rel=1e-12)
        assert row["standard_error"] == pytest.approx(expected.estimate.standard_error, rel=1e-12)
        rest = sum(x - 0.8 * y for x, y in zip(u, v, strict=True)) / 50
        assert row["value"] == pytest.approx(rest + 0.8 * of_all / len(existing), rel=1e-12)
        assert row["n_saved"] == expected.saved
        assert row["n_more"] <= row["n_more_alone"]
    assert "pairs" in checkup.text()
    assert "saved" in checkup.text()


def width_of(mean: estimator.SampleMean) -> float:
    assert mean.low is not None
    assert mean.high is not None
    return mean.high - mean.low


def test_how_many_more_is_when_the_interval_is_so_narrow() -> None:
    """By hand for one stratum, and between what is there and all of it for several."""
    chance = random.Random(1)
    values = [chance.random() for _ in range(40)]
    mean = estimator.mean([Stratum(1000, values)])
    assert mean.precision is not None
    centre = sum(values) / 40
    spread = sum((value - centre) ** 2 for value in values) / 39

    def width(n: int) -> float:
        return 2 * student.critical(0.95, n - 1) * (spread * (1 / n - 1 / 1000)) ** 0.5

    for wanted in (0.3, 0.15, 0.05, 0.01):
        needed = mean.precision.needed(wanted)
        assert needed is not None
        assert width(needed) <= wanted * (1 + 1e-4)
        assert width(needed - 1) > wanted
    model = [value / 2 + chance.random() / 9 for value in values]
    sums = (sum(model) * 10, 400.0)
    paired = PairedStratum(Stratum(1000, values), model, 400, *sums)
    powered = prediction_powered.mean([paired])
    estimate_of, alone = powered.estimate, powered.alone
    assert estimate_of.precision is not None
    assert alone is not None
    assert estimate_of.precision.width() == pytest.approx(width_of(estimate_of))
    assert alone.width() == pytest.approx(width_of(mean))
    assert powered.saved == (alone.needed(width_of(estimate_of)) or 0) - 40
    # the model labelled 400 of 1,000: which ones is what no label by people tells
    least = 2 * student.critical(0.95, 398) * (spread * (1 / 400 - 1 / 1000)) ** 0.5
    assert estimate_of.precision.needed(least * 0.98) is None
    assert estimate_of.precision.needed(least * 1.1) is not None
    strata = [Stratum(900, values[:30]), Stratum(2, values[30:32]), Stratum(50, values[32:])]
    several = estimator.mean(strata).precision
    assert several is not None
    assert several.needed(several.width()) == 40
    assert several.needed(1e-9) == 952
    useless = PairedStratum(Stratum(9, [1.0, 0.0, 0.5]), [1.0, 1.0, 1.0], 9, 9.0, 9.0)
    assert prediction_powered.mean([useless]).saved == 0


@by_turns(2)
def test_what_pairs_do_not_tell_is_refused(tmp_path: Path) -> None:
    people, model = specs()
    with connect() as engine:
        sample = draw(people, engine, 12, k=3)
        changes: tuple[tuple[dict[str, Any], str], ...] = (
            ({"metrics": ["ndcg@3", "hit@3"]}, "ndcg@3, hit@3: no sum over the items of a list"),
            ({"metrics": ["dcg@4"]}, "dcg@4: looks at ranks below 3"),
            ({"metrics": ["dcg"]}, "dcg: looks at ranks below 3"),
            ({"conventions": {"unjudged": "condensed"}}, "with unjudged=condensed it is no sum"),
            ({"conventions": {"missing": "drop"}}, "with missing=drop it is no sum"),
            ({"metrics": ["precision(precision_denominator=returned)@3"]}, "=returned it is no"),
        )
        for changed, message in changes:
            spec = people.having(**changed)
            with pytest.raises(sm.SpecError, match=message.replace("(", r"\(")):
                estimate(spec, engine, sample, complete=True)
        with pytest.raises(sm.SpecError, match="leave its sample out"):
            estimate(people, engine, sample, llm=LlmLabels(model, sample))
        for wrong in (0, -1.0, float("nan"), float("inf")):
            with pytest.raises(sm.SpecError, match="width must be a number above 0"):
                estimate(people, engine, sample, width=wrong)
        fewer = people.rankings.data.slice(0, 100)
        other = people.having(rankings=people.rankings.model_copy(update={"data": fewer}))
        with pytest.raises(sm.InputError, match="pairs when the sample was drawn"):
            estimate(other, engine, sample, ungraded="drop")
        few = people.truth.model_copy(update={"data": people.truth.data.slice(0, 100)})
        unlabelled = people.having(labels=few)
        with pytest.raises(sm.InputError, match="of 12 sampled pairs have no label"):
            estimate(unlabelled, engine, sample)
    text = str(sample)
    for content, message in (
        (text.replace('"k"', '"kk"'), "unknown column 'kk'"),
        (text.replace(",3,", ",4,", 1), "the rows differ in k"),
        ("\n".join([*text.splitlines(), text.splitlines()[1]]), "the pair"),
    ):
        file = tmp_path / "wrong.csv"
        file.write_text(content, encoding="utf-8")
        with pytest.raises(sm.InputError, match=message):
            Sample.read(file)


@by_turns(1)
def test_a_sample_of_pairs_is_asked_for_in_a_terminal(tmp_path: Path) -> None:
    for name, rows in world().items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    (tmp_path / "s.yml").write_text(
        "version: 1\nrankings: {file: rankings.parquet, columns: {score: score, system: system}}\n"
        "labels: {file: labels.parquet}\nmetrics: [dcg@3]\n"
    )
    completed = sqlmetrics(
        *("sample", "s.yml", "--unit", "pair", "-k", "3", "--size", "20", "--out", "p.csv"),
        folder=tmp_path,
    )
    assert "20 of" in completed.stderr
    assert "pairs, 1 stratum, seed 1" in completed.stderr
    line = "estimate s.yml p.csv --llm-labels llm.parquet --width 1 -o csv"
    head = sqlmetrics(*line.split(), folder=tmp_path).stdout.splitlines()[0]
    assert head.endswith("n_llm,n_saved,n_more,n_more_alone")
    for wrong, message in (
        ("sample s.yml -k 3 --size 20", "-k is of pairs; add --unit pair"),
        ("sample s.yml --unit pair -k 0 --size 20", "k must be 1 or more"),
        ("sample s.yml --unit item --size 20", "'item' is not one of 'query', 'pair'"),
        ("estimate s.yml p.csv --width 0", "width must be a number above 0"),
        ("estimate s.yml p.csv -m mrr", "mrr: no sum over the items of a list"),
    ):
        assert message in sqlmetrics(*wrong.split(), folder=tmp_path, expect=2).stderr


@by_turns(1)
def test_metrics_of_pairs_are_sums_of_items() -> None:
    """The value of a list is that of its items, each labelled alone."""
    rows = [{"query_id": "q", "item_id": f"{i}", "score": 9.0 - i} for i in range(6)]
    grades = [2, 0, 3, 1, 0, 2]
    labels = [
        {"query_id": "q", "item_id": f"{i}", "grade": grade} for i, grade in enumerate(grades)
    ]
    result = sm.evaluate(rows, labels, METRICS)
    parts = [sm.evaluate(rows, [label], METRICS) for label in labels if label["grade"]]
    for metric in METRICS:
        assert result[metric] == pytest.approx(sum(part[metric] for part in parts), rel=1e-12)


# -- by depth ---------------------------------------------------------------------------

RATES = {2: 1.0, 3: 0.5, 6: 0.25}


def banded(country: str | None = None) -> dict[str, list[tuple[str, str]]]:
    """Range of ranks -> the pairs whose best rank is in it, by lot."""
    country_of = {row["query_id"]: row["country"] for row in world()["queries"]}
    pairs: dict[str, list[tuple[str, str]]] = {"1-2": [], "3-3": [], "4-6": []}
    for pair, ranks in ranks_of_pairs(6).items():
        if country in (None, country_of[pair[0]]):
            best = min(ranks.values())
            pairs["1-2" if best < 3 else "3-3" if best == 3 else "4-6"].append(pair)
    return {name: sorted(among, key=lot_of) for name, among in pairs.items()}


def lot_of(pair: tuple[str, str]) -> tuple[str, ...]:
    return hashlib.md5("|".join(("5", *pair)).encode()).hexdigest(), *pair


@by_turns(1)
@pytest.mark.parametrize("name", engines(["sqlite", "postgres"], now=["sqlite"]))
def test_the_top_is_drawn_whole_and_a_share_of_the_rest(name: str, servers: Servers) -> None:
    people, _ = specs()
    with connect() as engine:
        sample = draw(people, engine, None, by=["country"], seed=5, rates=RATES)
    rows = sample.of((*KEYS, "by_country", "ranks", "stratum_size", "probability"))
    for country in ("de", "fr"):
        for (ranks, pairs), rate in zip(banded(country).items(), RATES.values(), strict=True):
            sampled_rows = [row for row in rows if row[2:4] == (country, ranks)]
            n = math.floor(rate * len(pairs) + 0.5)
            assert sorted(row[:2] for row in sampled_rows) == sorted(pairs[:n])
            assert {row[4:] for row in sampled_rows} == {(len(pairs), n / len(pairs))}
    assert {*sample.column("k")} == {6}
    with servers.open(name) as engine:
        again = draw(people, Database(engine), None, by=["country"], seed=5, rates=RATES)
    assert str(again) == str(sample)


@by_turns(2)
def test_each_pair_counts_by_the_inverse_of_its_probability() -> None:
    """Precision and DCG by plain Python; of pairs that are all drawn it is the evaluation."""
    people, model = specs()
    deep = people.having(metrics=["precision@6", "dcg@4"])
    with connect() as engine:
        sample = draw(people, engine, None, seed=5, rates=RATES)
        rows = estimate(deep, engine, sample).table.to_pylist()
        all_pairs = draw(people, engine, None, by=["country"], rates=dict.fromkeys(RATES, 1.0))
        exact = estimate(deep, engine, all_pairs, by=["country"]).table.to_pylist()
        with pytest.raises(sm.SpecError, match="drawn alike; draw them without --rate"):
            estimate(deep, engine, sample, llm=LlmLabels(model))
        with pytest.raises(sm.SpecError, match="unknown stratum column 'ranks'"):
            estimate(deep, engine, sample, by=["ranks"])
        result = sm.evaluate(
            people.rankings.data, people.truth.data, ["precision@6", "dcg@4"], system="system"
        )
    grades = {(row["query_id"], row["item_id"]): row["grade"] for row in world()["labels"]}
    existing, bands = ranks_of_pairs(6), banded()

    def addend(metric: str, system: str, pair: Any) -> float:
        rank = existing[pair].get(system, 99)
        if metric == "precision@6":
            return (grades[pair] >= 1) * (rank <= 6) / 6
        return (2 ** grades[pair] - 1) / math.log2(rank + 1) * (rank <= 4)

    for row in rows:
        total, variance = 0.0, 0.0
        for pairs, rate in zip(bands.values(), RATES.values(), strict=True):
            n, size = math.floor(rate * len(pairs) + 0.5), len(pairs)
            values = [addend(row["metric"], row["system"], pair) for pair in pairs[:n]]
            centre = sum(values) / n
            total += size * centre / 40
            spread = sum((value - centre) ** 2 for value in values) / (n - 1)
            variance += (size / 40) ** 2 * (1 - n / size) * spread / n
        if row["mean_over"] == "queries":
            assert row["value"] == pytest.approx(total, rel=1e-12)
            assert row["standard_error"] == pytest.approx(math.sqrt(variance), rel=1e-9)
    means = {(row["system"], f"{row['metric']}@{row['k']}"): row for row in result.to_dicts()}
    for row in exact:
        if (row["mean_over"], row["segment_value"]) == ("queries", "all"):
            wanted = means[row["system"], row["metric"]]["value"]
            assert row["value"] == pytest.approx(wanted, rel=1e-12)
            assert row["standard_error"] == pytest.approx(0, abs=1e-12)


@by_turns(2)
def test_infap_of_a_sample_of_the_pool(tmp_path: Path) -> None:
    """Rows of the pool without a grade are -1, which infap reads; by hand."""
    run = [f"q Q0 {item} 1 {9 - n} run\n" for n, item in enumerate("abcdef")]
    (tmp_path / "a.run").write_text("".join(run))
    line = ("sample", "a.run", "--unit", "pair", "--rate", "6=0.5", "--out", "pairs.csv")
    sqlmetrics(*line, folder=tmp_path)
    (tmp_path / "graded.csv").write_text("query_id,item_id,grade\nq,b,1\nq,c,0\nq,e,1\n")
    sqlmetrics("sheet-import", "graded.csv", "--labels", "t.qrels", "--new", folder=tmp_path)
    line = ("sheet", "a.run", "--labels", "t.qrels", "-k", "5", "--out", "pool.csv")
    sqlmetrics(*line, folder=tmp_path)
    line = ("sheet-import", "pool.csv", "--labels", "t.qrels", "--pooled")
    assert "0 added, 0 known already, 2 pooled without a grade, 0 not graded yet; 5 labels now" in (
        sqlmetrics(*line, folder=tmp_path).stdout
    )
    assert (tmp_path / "t.qrels").read_text().splitlines()[-1] == "q 0 d -1"
    # what is in the pool is not asked again: only f, which is deeper
    line = ("sheet", "a.run", "--labels", "t.qrels", "--order", "move-to-front")
    lines = sqlmetrics(*line, folder=tmp_path).stdout.splitlines()
    assert [row.split(",")[1] for row in lines[1:]] == ['"f"']
    assert lines[1].split(",")[7] == "4"  # a, c, d and f are not known to be relevant
    result = sm.evaluate(
        str(tmp_path / "a.run"), str(tmp_path / "t.qrels"), "infap", negative_grades="unjudged"
    )
    # b: one pooled above, none judged; e: four pooled above, of two judged one is relevant
    few = 0.00001
    at_b = (1 + 1 * few / (2 * few)) / 2
    at_e = (1 + 4 * (1 + few) / (2 + 2 * few)) / 5
    assert result["infap"] == pytest.approx((at_b + at_e) / 2, rel=1e-12)
    (tmp_path / "judged.csv").write_text("query_id,item_id,assessor,grade\nq,b,ann,1\n")
    (tmp_path / "ann.csv").write_text("assessor,query_id,item_id,grade\nann,q,c,\n")
    line = ("sheet-import", "ann.csv", "--labels", "judged.csv", "--pooled")
    assert "combine the grades first" in sqlmetrics(*line, folder=tmp_path, expect=2).stderr
    wrong = {
        "--rate 6=0.5 --size 3": "--size: --rate says how much is drawn",
        "--rate 6=0": "the rate down to rank 6 must be a share above 0",
        "--rate 6": "--rate takes RANK=SHARE like 100=0.2, given '6'",
        "--rate 0=1": "the rank of a rate must be 1 or more",
        "": "how many? give --size N",
    }
    for words, message in wrong.items():
        line = ("sample", "a.run", "--unit", "pair", *words.split())
        assert message in sqlmetrics(*line, folder=tmp_path, expect=2).stderr
    line = ("sample", "a.run", "--rate", "6=0.5")
    assert "--rate is of pairs; add" in sqlmetrics(*line, folder=tmp_path, expect=2).stderr
    odd = (tmp_path / "pairs.csv").read_text().replace('"1-6"', '"7"')
    (tmp_path / "odd.csv").write_text(odd)
    line = ("sheet", "a.run", "--sample", "odd.csv")
    assert "ranks is not a range of ranks like 11-100: '7'" in (
        sqlmetrics(*line, folder=tmp_path, expect=2).stderr
    )
