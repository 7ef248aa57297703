"""Several runs in one call are systems; qrels given first; rankings as search APIs log them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from marked import by_turns, sliced

import sqlmetrics as sm

RUNS: dict[str, dict[str, dict[str, float]]] = {
    "bm25": {"q1": {"a": 3.0, "b": 2.0}, "q2": {"c": 1.5}},
    "dense": {"q1": {"b": 3.0, "a": 2.0}, "q2": {"x": 2.0, "c": 1.0}},
}
QRELS = {"q1": {"b": 1}, "q2": {"c": 2}, "q3": {"d": 1}}
METRICS = ["mrr", "overlap@2"]


def rows(name: str, **renamed: str) -> list[dict[str, Any]]:
    """A run as rows."""
    names = {"query_id": "query_id", "item_id": "item_id", "score": "score"} | renamed
    found = [(q, i, s) for q, items in RUNS[name].items() for i, s in items.items()]
    return [dict(zip(names.values(), row, strict=True)) for row in found]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and qrels of TREC; all runs have the same name within."""
    for name in RUNS:
        lines = [f"{r['query_id']} Q0 {r['item_id']} 1 {r['score']} tag\n" for r in rows(name)]
        (tmp_path / f"{name}.v2.trec").write_text("".join(lines))
    labels = [f"{q} 0 {i} {grade}\n" for q, one in QRELS.items() for i, grade in one.items()]
    (tmp_path / "qrels.txt").write_text("".join(labels))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def values(result: Any) -> dict[tuple[str, str], float]:
    """System and metric -> value."""
    found = result if isinstance(result, list) else result.to_dicts()
    return {(row["system"], row["metric"]): pytest.approx(row["value"]) for row in found}


def wanted() -> dict[tuple[str, str], float]:
    """The numbers of one table with a column of systems."""
    both = [row | {"system": name} for name in RUNS for row in rows(name)]
    return values(sm.evaluate(both, QRELS, METRICS, system="system", baseline="bm25"))


@by_turns(0.9)
def test_files_are_systems_by_their_names(folder: Path) -> None:
    line = ["-m", ",".join(METRICS), "--baseline", "bm25", "-o", "json"]
    runs = ["bm25.v2.trec", "dense.v2.trec"]
    for given in (
        [*runs, "--labels", "qrels.txt"],
        ["qrels.txt", *runs],
        ["bm*.trec", "[!b]*.trec", "qrels.txt"],
    ):
        done = sqlmetrics("evaluate", *given, *line, folder=folder)
        assert values(json.loads(done.stdout)) == wanted()
        assert ("taken as the labels" in done.stderr) == (given[0] == "qrels.txt")
    told = sqlmetrics("evaluate", *runs[:1] * 2, "qrels.txt", "-m", "mrr", folder=folder, expect=2)
    assert "'bm25.v2.trec' is given twice" in told.stderr
    nobody = ["qrels.txt", "-m", "mrr", "--baseline", "zzz"]
    told = sqlmetrics("evaluate", *runs, *nobody, folder=folder, expect=2)
    assert "no row has the baseline: unknown system 'zzz'; known: bm25, dense" in told.stderr
    tagged = ["--system", "system", "-m", "mrr"]
    told = sqlmetrics("evaluate", *runs, "qrels.txt", *tagged, folder=folder, expect=2)
    assert "items that stand more than once" in told.stderr  # the name in all files is tag


FORMS: dict[str, Any] = {
    "pandas": lambda name: pd.DataFrame(rows(name)),
    "polars": lambda name: pl.DataFrame(rows(name)).lazy(),
    "arrow": lambda name: pa.Table.from_pylist(rows(name)),
    "dicts": RUNS.get,
    "trec": lambda name: f"{name}.v2.trec",
    "other names": lambda name: pd.DataFrame(rows(name, query_id="qid", score="similarity")),
    "hits": lambda name: pa.Table.from_pylist(
        [
            {"query": q, "hits": [{"_id": i, "_score": s} for i, s in items.items()]}
            for q, items in RUNS[name].items()
        ]
    ),
}


@by_turns(1.5)
@pytest.mark.parametrize("form", sliced("form of a run", 0.6, FORMS))
def test_a_dict_of_tables_is_systems(form: str, folder: Path) -> None:
    """Each form beside one of TREC, on DuckDB, and alone where files are copied elsewhere."""
    mixed = {"bm25": FORMS[form]("bm25"), "dense": "dense.v2.trec"}
    assert values(sm.evaluate(mixed, QRELS, METRICS, baseline="bm25")) == wanted()
    if form == "other names":  # seen before a file is copied into another database
        FORMS[form]("bm25").to_csv("bm25.csv", index=False)
        found = sm.evaluate(["bm25.csv", "dense.v2.trec"], QRELS, ["mrr"], connection="sqlite://")
        assert values(found).items() <= wanted().items()
    if form in ("trec", "arrow"):
        own = {name: FORMS[form](name) for name in RUNS}
        found = sm.evaluate(own, QRELS, METRICS, baseline="bm25", connection="sqlite://")
        assert values(found) == wanted()


def test_what_is_one_table_stays_one(folder: Path) -> None:
    assert sm.evaluate(RUNS["bm25"], QRELS, ["mrr"])["mrr"] == pytest.approx(0.5)
    columns = pd.DataFrame(rows("bm25"))
    assert sm.evaluate({**columns}, QRELS, ["mrr"])["mrr"] == pytest.approx(0.5)
    days = {f"run {n}": pd.DataFrame(rows("bm25")).assign(ds=f"2026-01-0{n}") for n in (1, 2)}
    result = sm.evaluate(days, QRELS, ["mrr"], date="ds", by="ds", where="score > 0")
    assert {(str(row["metric_date"]), row["system"]) for row in result.to_dicts()} == {
        ("2026-01-01", "run 1"),
        ("2026-01-02", "run 2"),
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"score": None}, "rankings: dense: unknown column 'score'"),
        ({"item_id": 1.5}, "rankings: dense: item_id has the type DOUBLE"),
        ({"score": None, "rank": 1}, "dense is ordered by a rank, bm25 by a score"),
    ],
)
def test_a_run_unlike_the_others_is_named(wrong: dict[str, Any], said: str) -> None:
    one = [{k: v for k, v in (row | wrong).items() if v is not None} for row in rows("dense")]
    runs = {"bm25": pd.DataFrame(rows("bm25")), "dense": pd.DataFrame(one)}
    with pytest.raises(sm.InputError, match=said):
        sm.evaluate(runs, QRELS, ["mrr"])


def test_a_run_without_a_row_is_named() -> None:
    run = pd.DataFrame(rows("bm25"))
    runs = {"bm25": run, "dense": run.iloc[:0]}
    with pytest.raises(sm.InputError, match="rankings: dense: there is no row in it"):
        sm.evaluate(runs, QRELS, ["mrr"])


def test_ids_that_pandas_made_floats_are_whole_in_each_run() -> None:
    ids = [{"query_id": "q", "item_id": 12.0, "score": 2}, {"query_id": "q", "item_id": 13.0}]
    run = pd.DataFrame([ids[0], {**ids[1], "score": 1}])
    result = sm.evaluate({"floats": run, "texts": {"q": {"13": 1.0}}}, {"q": {"13": 1}}, ["mrr"])
    assert values(result) == {("floats", "mrr"): 0.5, ("texts", "mrr"): 1.0}
    assert "is read as whole numbers" in result.notes[0]


def test_rankings_and_labels_in_the_other_order(folder: Path) -> None:
    run = [row | {"system": "bm25"} for row in rows("bm25")]
    labels = [
        {"query_id": q, "item_id": i, "rel": n} for q, o in QRELS.items() for i, n in o.items()
    ]
    result = sm.evaluate(pd.DataFrame(labels), pd.DataFrame(run), ["mrr"], system="system")
    assert result["mrr"] == pytest.approx(0.5)
    assert "the first table has grades and the second one scores" in result.notes[0]
    assert sm.evaluate("qrels.txt", "bm25.v2.trec", ["mrr"])["mrr"] == pytest.approx(0.5)


def test_rankings_as_search_apis_log_them(folder: Path) -> None:
    """In JSON lines and Parquet, by scores or by their order, in a spec too."""
    scored = [
        {"query": q, "took": 3, "hits": [{"id": i, "score": 9 - s} for i, s in items.items()]}
        for q, items in RUNS["bm25"].items()
    ]
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, scored)))
    plain = [{**row, "hits": [{"id": hit["id"]} for hit in row["hits"]]} for row in scored]
    pq.write_table(pa.Table.from_pylist(plain), "log.parquet")
    by_score = sm.evaluate("log.jsonl", QRELS, ["mrr"])
    assert by_score["mrr"] == pytest.approx(2 / 3)  # b has the higher one now
    assert "hits is taken as the item" in by_score.notes[0]
    assert sm.evaluate("log.parquet", QRELS, ["mrr"])["mrr"] == pytest.approx(0.5)
    spec = sm.Spec(
        rankings={"file": "log.jsonl", "columns": {"query": "query", "item": "hits"}},
        labels={"file": "qrels.txt"},
        metrics=["mrr"],
    )
    sm.validate(spec, duckdb.connect())
    (folder / "empty.jsonl").write_text('{"query": "q1", "ds": "2026-01-01", "hits": []}\n' * 2)
    with pytest.raises(sm.InputError):
        sm.evaluate("empty.jsonl", QRELS, ["mrr"], date="ds")
