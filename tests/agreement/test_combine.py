"""`combine`: one label of several judges', beside plain Python and crowd-kit, on each engine."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from sqlmetrics.agreement import METHODS, calibration
from sqlmetrics.engines.database import Database


def worlds() -> list[tuple[list[str], Pairs]]:
    """Good judges and useless ones, ties, gaps; and a judge with a single label."""
    chance = random.Random(3)
    judged = []
    for n_judges, scale, n_queries in ((3, SCALES[0], 12), (2, SCALES[1], 5), (6, SCALES[2], 9)):
        pairs = world(chance, n_judges, scale, n_queries)
        once = next(labels for labels in pairs.values() if None not in labels[:2])
        if n_judges > 2:
            pairs = {
                pair: labels if labels is once else (labels[0], None, *labels[2:])
                for pair, labels in pairs.items()
                if labels is once or any(g is not None for g in (labels[0], *labels[2:]))
            }
        judged.append(([f"judge {number}" for number in range(n_judges)], pairs))
    return judged


def check_labels(rows: Sequence[dict[str, Any]], pairs: Pairs, method: str, n_rounds: int) -> int:
    """Compare each label with plain Python; how many grades were as likely as another."""
    assert [(row["query_id"], row["item_id"]) for row in rows] == sorted(pairs)
    beliefs = dict(zip(pairs, plain_labels.posteriors([*pairs.values()], n_rounds), strict=True))
    expected = dict(zip(pairs, plain_labels.calibrated([*pairs.values()]), strict=True))
    n_ties = 0
    for row in rows:
        labels = pairs[row["query_id"], row["item_id"]]
        graded = plain_labels.graded(labels)
        assert row["n_judges"] == len(graded)
        if method == "dawid_skene":
            belief = beliefs[row["query_id"], row["item_id"]]
            best = max(belief.values())
            likeliest = [g for g, chance in belief.items() if chance >= best * (1 - 1e-9)]
            n_ties += len(likeliest) > 1
            assert row["grade"] == min(likeliest)
            assert row["probability"] == pytest.approx(best, rel=1e-9)
        elif method == "calibrated":
            grade = expected[row["query_id"], row["item_id"]]
            assert row["grade"] == pytest.approx(grade, rel=1e-12)
        else:
            grade = plain_labels.SIMPLE[method](labels)
            assert row["grade"] == pytest.approx(grade, rel=1e-12)
        if method == "majority":
            assert row["share"] == pytest.approx(graded.count(grade) / len(graded))
    return n_ties


@by_turns(4)
def test_labels_are_those_of_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """So are the counts of what changes, and those of rows are those of columns."""
    monkeypatch.setattr(calibration, "SETTLED", -1)
    for names, pairs in worlds():
        for method in METHODS:
            result = sm.combine(table(pairs, names), names, method=method, max_rounds=7)
            rows = result.to_arrow().to_pylist()
            check_labels(rows, pairs, method, 8)
            grades = {(row["query_id"], row["item_id"]): row["grade"] for row in rows}
            for number, change in enumerate(result.changes):
                labels = {pair: g[number] for pair, g in pairs.items() if g[number] is not None}
                changed = [pair for pair, grade in labels.items() if grade != grades[pair]]
                assert (change["n_labels"], change["n_changed"]) == (len(labels), len(changed))
                assert change["n_added"] == len(pairs) - len(labels)
                means = [
                    sum(values) / len(labels)
                    for values in (
                        labels.values(),
                        [grades[pair] for pair in labels],
                    )
                ]
                assert [change["mean_grade"], change["combined_mean"]] == pytest.approx(means)
    by_rows = sm.combine(rows_of(table(pairs, names), names), method=METHODS, max_rounds=7)
    result = sm.combine(table(pairs, names), names, method="dawid_skene", max_rounds=7)
    rows = result.to_arrow().to_pylist()
    alone = by_rows.to_arrow().filter(pa.compute.field("method") == "dawid_skene").to_pylist()
    for row, row_alone in zip(rows, alone, strict=True):  # floats are added in another order
        assert row_alone.pop("probability") == pytest.approx(row.pop("probability"), rel=1e-12)
        assert row_alone == {"method": "dawid_skene", **row, "share": None}


@by_turns(2)
def test_grades_are_worth_what_they_are_where_the_same_systems_show_the_pair() -> None:
    """A group without a pair of people takes the curve of all."""
    names, pairs = worlds()[0]
    runs = partial_runs(pairs, ["it's", "old"], random.Random(8))
    shown_by = {pair: ", ".join(systems) for pair, systems in tops(runs, 3).items()}
    groups = [shown_by.get(pair, "(none)") for pair in pairs]
    assert len({*groups}) == 4
    pairs = {  # people graded nothing of what only one system shows
        pair: (None, *labels[1:]) if group == "old" else labels
        for (pair, labels), group in zip(pairs.items(), groups, strict=True)
    }
    pairs = {pair: labels for pair, labels in pairs.items() if labels != (None, None, None)}
    groups = [shown_by.get(pair, "(none)") for pair in pairs]
    arguments: dict[str, Any] = {"method": "calibrated", "rankings": runs, "system": "system"}
    result = sm.combine(table(pairs, names), names, per="system", k=3, **arguments)
    expected = plain_labels.calibrated_apart([*pairs.values()], groups)
    rows = {(r["query_id"], r["item_id"]): r["grade"] for r in result.to_arrow().to_pylist()}
    for pair, grade in zip(pairs, expected, strict=True):
        assert rows[pair] == pytest.approx(grade, rel=1e-12), pair
    assert {row["systems"] for row in result.calibration} == {*groups}
    assert "1 group of systems without a pair that people graded" in result.notes[-1]
    assert "shown by" in result.text()
    everything: dict[str, Any] = {**arguments, "per": "system"}
    for wrong, message in (
        ({"rankings": None, "system": None}, "looks at the lists of systems; give them"),
        ({"method": "mean"}, "is of the method calibrated, given mean"),
        ({"per": "query"}, "unknown per 'query'"),
        (
            {"system": None, "rankings": runs.drop(["system"]).slice(0, 2)},
            "needs the systems of the rankings",
        ),
        ({"per": None}, "or per='system'"),
        ({"per": None, "k": 3}, "k is the depth that per='system' looks at"),
        ({"system": "systm"}, "did you mean 'system'"),
        ({"k": 0}, "k must be 1 or more"),
    ):
        with pytest.raises((sm.SpecError, sm.InputError), match=re.escape(message)):
            sm.combine(table(pairs, names), names, **{**everything, **wrong})
    apart = runs.set_column(1, "item_id", [[f"{item} " for item in runs["item_id"].to_pylist()]])
    with pytest.raises(sm.InputError, match="no list has an item in its top 10 that a judge"):
        sm.combine(table(pairs, names), names, **{**everything, "rankings": apart})


@by_turns(3)
def test_dawid_and_skenes_labels_are_those_of_crowd_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its posterior after as many rounds; so are the grades of most judges, where one is."""
    crowdkit = peer("crowdkit.aggregation")
    import pandas as pd

    monkeypatch.setattr(calibration, "SETTLED", -1)
    for names, pairs in worlds():
        labels = rows_of(table(pairs, names), names).to_pylist()
        rows = [((r["query_id"], r["item_id"]), r["rater"], r["grade"]) for r in labels]
        data = pd.DataFrame(
            [(repr(task), *rest) for task, *rest in rows], columns=["task", "worker", "label"]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what pandas will no longer have
            model = crowdkit.DawidSkene(n_iter=8, tol=-float("inf")).fit(data)
            votes = crowdkit.MajorityVote().fit(data)
        arguments: dict[str, Any] = {"max_rounds": 7}
        skene_labels, majority_labels = (
            sm.combine(table(pairs, names), names, method=method, **arguments).to_arrow()
            for method in ("dawid_skene", "majority")
        )
        for row, vote in zip(skene_labels.to_pylist(), majority_labels.to_pylist(), strict=True):
            task = repr((row["query_id"], row["item_id"]))
            chances = model.probas_.loc[task]
            assert row["probability"] == pytest.approx(chances.max(), abs=1e-9)
            assert chances[row["grade"]] == pytest.approx(chances.max(), rel=1e-9)
            shares = votes.probas_.loc[task]
            assert vote["share"] == pytest.approx(shares.max())
            if sum(shares == shares.max()) == 1:
                assert vote["grade"] == votes.labels_[task]


OTHER_ENGINES = ["sqlite", "postgres", "chdb", "datafusion"]


@by_turns(3)
@pytest.mark.parametrize("name", engines(OTHER_ENGINES, now=["sqlite"]))
def test_every_engine_makes_the_same_labels(name: str, servers: Servers) -> None:
    """In a table of it too, where it is written to."""
    names, pairs = worlds()[0]
    labels = rows_of(table(pairs, names), names)
    with Database(servers.open(name)) as database:
        for method in METHODS:
            arguments: dict[str, Any] = {"method": method, "max_rounds": 20}
            expected = sm.combine(labels, **arguments)
            result = sm.combine(labels, connection=database, **arguments)
            for row, other in zip(
                expected.to_arrow().to_pylist(), result.to_arrow().to_pylist(), strict=True
            ):
                assert other == pytest.approx(row, rel=1e-9), method
        per: dict[str, Any] = {"method": "calibrated", "per": "system", "system": "system"}
        per["rankings"] = partial_runs(pairs, ["it's", "old"], random.Random(8))
        by_systems = [
            sm.combine(labels, connection=connection, **per) for connection in (None, database)
        ]
        for row, other in zip(
            *(combined.to_arrow().to_pylist() for combined in by_systems), strict=True
        ):
            assert other == pytest.approx(row, rel=1e-9)
        if not database.translation.dialect.writing.by_run:
            with pytest.raises(sm.SpecError, match="is not written to"):
                sm.combine(labels, into="one_label", connection=database)
            return
        into = database.free_name("one_label")
        arguments = {"method": "dawid_skene", "max_rounds": 20}
        try:
            stored = sm.combine(labels, into=into, connection=database, **arguments)
            assert len(stored) == len(pairs) == database.count(into)
            with pytest.raises(sm.SpecError, match="this table exists; replace its rows"):
                sm.combine(labels, into=into, connection=database, **arguments)
            again = {**arguments, "into": into, "overwrite": True, "connection": database}
            assert len(sm.combine(labels, ["judge 0", "judge 2"], **again)) <= len(pairs)
            with pytest.raises(sm.SpecError, match=f"into {into}: a table of other columns"):
                sm.combine(labels, **{**again, "method": "mean"})
            with pytest.raises(sm.SpecError, match="one of the inputs"):
                sm.combine({"a": into, "b": labels.slice(0, 5)}, **again)
        finally:
            database.execute(f"drop table if exists {into}")


@by_turns(2)
def test_what_it_changes_for_systems_is_told() -> None:
    """Values by the first judge and by the one label are those of evaluations."""
    names, pairs = worlds()[0]
    chance = random.Random(4)
    runs = pa.Table.from_pylist(
        [
            {"query_id": q, "item_id": i, "score": chance.random(), "system": system}
            for system in ("new", "old")
            for q, i in pairs
        ]
    )
    arguments: dict[str, Any] = {"method": ["mean", "majority"], "system": "system"}
    result = sm.combine(table(pairs, names), names, rankings=runs, metrics="ndcg@3", **arguments)
    for row in result.systems:
        label_of = plain_labels.SIMPLE[row["other_judge"]]
        values = []
        for grade_of in (lambda labels: labels[0], label_of):
            labels = [
                {"query_id": q, "item_id": i, "grade": grade_of(grades)}
                for (q, i), grades in pairs.items()
                if grades[0] is not None
            ]
            evaluated: Any = sm.evaluate(
                runs, pa.Table.from_pylist(labels), ["ndcg@3"], system="system"
            )
            per_query = evaluated.per_query().to_pylist()
            values.append(
                {
                    r["query_id"]: r["ndcg_at_3"]
                    for r in per_query
                    if r["system"] == row["system"] and r["ndcg_at_3"] is not None
                }
            )
        shared = values[0].keys() & values[1].keys()
        means = [sum(of_judge[q] for q in shared) / len(shared) for of_judge in values]
        assert [row["value"], row["other_value"]] == pytest.approx(means, rel=1e-12)
    assert len(result.systems) == 4
    assert {row["n_turned"] for row in result.orders} <= {0, 1}
    assert "systems by the labels of judge 0, majority" in result.text()


@by_turns(3)
def test_it_is_asked_in_a_terminal(tmp_path: Path) -> None:
    names, pairs = worlds()[0]
    pq.write_table(rows_of(table(pairs, names), names), tmp_path / "labels.parquet")
    line = ("combine", "labels.parquet", "--judge", "rater", "--judges", ",".join(names))
    skene = ("--method", "dawid_skene", "--max-rounds", "20")
    sqlmetrics(*line, *skene, "--out", "one.parquet", folder=tmp_path)
    expected = sm.combine(table(pairs, names), names, method="dawid_skene", max_rounds=20)
    rows = pq.read_table(tmp_path / "one.parquet").to_pylist()
    for row, other in zip(rows, expected.to_arrow().to_pylist(), strict=True):
        assert row == pytest.approx(other, rel=1e-9)
    text = sqlmetrics(*line, *skene, folder=tmp_path).stdout
    assert [name in text for name in names] == [True] * 3
    assert "accuracy" in text
    sql = sqlmetrics(*line, *skene, "--sql", folder=tmp_path).stdout
    assert sql.startswith("with\n\n-- the labels of 'judge 0'")
    into = ("--into", "one_label", "--db", "labels.duckdb")
    text = sqlmetrics(*line, *into, folder=tmp_path).stdout
    assert f"one_label: {len(pairs)} labels" in text
    planned = sqlmetrics(*line, *into, "--overwrite", "--dry-run", folder=tmp_path).stdout
    assert "delete from one_label" in planned
    for wrong, message in (
        (("--judges", "a"), "unknown judge 'a'"),
        (("--max-rounds", "0"), "max_rounds must be 1 or more"),
        (("--dry-run",), "--dry-run says what --into does"),
        ((*into, "--sql"), "leave --sql out"),
        ((*into, "--method", "mean", "--method", "first"), "labels of one method"),
        (("--weight", "x"), "No such option"),
        (("--rankings", "labels.parquet"), "give metrics (-m) or per="),
        (("-m", "mrr"), "metrics: only with a table of rankings"),
    ):
        words = line[:2] if "--judges" in wrong else line
        assert message in sqlmetrics(*words, *wrong, folder=tmp_path, expect=2).stderr


@by_turns(1)
def test_what_does_not_settle_is_told() -> None:
    names, pairs = worlds()[0]
    labels = table(pairs, names)
    short = sm.combine(labels, names, method="dawid_skene", max_rounds=1)
    assert "did not settle in 1 round" in short.notes[-1]
    two = sm.combine(labels, names[:2], method="dawid_skene")
    assert "which of two judges is right" in two.notes[0]
    assert all(0 < row["chance"] <= 1 for row in two.chances)
    for row in two.changes:
        assert 0 <= row["accuracy"] <= 1
    apart = table({("q", "a"): (1.0, None), ("q", "b"): (None, 1.0)}, ["a", "b"])
    with pytest.raises(sm.InputError, match="judge 'b' graded no pair that 'a' graded"):
        sm.combine(apart, ["a", "b"], method="calibrated")
    ids = [*range(40)]
    many = pa.table({"query_id": ids, "item_id": ids, "a": [i / 7 for i in ids], "b": ids})
    with pytest.raises(sm.InputError, match="different grades; dawid_skene takes 30 at most"):
        sm.combine(many, ["a", "b"], method="dawid_skene")
    for wrong in ({"method": "most"}, {"method": ()}, {"method": 3}, {"into": "x"}, {"level": 2}):
        with pytest.raises(sm.SpecError):
            sm.combine(labels, names, **wrong)
