"""Several runs in one call are systems; qrels given first; rankings as search APIs log them."""

from __future__ import annotations

import json
import re
import sqlite3
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
    triples = [(q, i, s) for q, items in RUNS[name].items() for i, s in items.items()]
    return [dict(zip(names.values(), row, strict=True)) for row in triples]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs and qrels of TREC; all runs have the same name within."""
    for name in RUNS:
        lines = [f"{r['query_id']} Q0 {r['item_id']} 1 {r['score']} tag\n" for r in rows(name)]
        (tmp_path / f"{name}.v2.trec").write_text("".join(lines))
    labels = [f"{q} 0 {i} {grade}\n" for q, grades in QRELS.items() for i, grade in grades.items()]
    (tmp_path / "qrels.txt").write_text("".join(labels))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def values(result: Any) -> dict[tuple[str, str], float]:
    """System and metric -> value."""
    records = result if isinstance(result, list) else result.to_dicts()
    return {(row["system"], row["metric"]): pytest.approx(row["value"]) for row in records}


def wanted() -> dict[tuple[str, str], float]:
    """The numbers of one table with a column of systems."""
    records = [row | {"system": name} for name in RUNS for row in rows(name)]
    return values(sm.evaluate(records, QRELS, METRICS, system="system", baseline="bm25"))


@by_turns(0.9)
def test_files_are_systems_by_their_names(folder: Path) -> None:
    line = ["-m", ",".join(METRICS), "--baseline", "bm25.v2", "-o", "json"]
    runs = ["bm25.v2.trec", "dense.v2.trec"]
    for files in (
        [*runs, "--labels", "qrels.txt"],
        ["qrels.txt", *runs],
        ["bm*.trec", "[!b]*.trec", "qrels.txt"],
    ):
        completed = sqlmetrics("evaluate", *files, *line, folder=folder)
        numbers = {
            (s.removesuffix(".v2"), m): n
            for (s, m), n in values(json.loads(completed.stdout)).items()
        }
        assert numbers == wanted()
        assert ("it is used as the labels" in completed.stderr) == (files[0] == "qrels.txt")
    refused = sqlmetrics(
        "evaluate", *runs[:1] * 2, "qrels.txt", "-m", "mrr", folder=folder, expect=2
    )
    assert "'bm25.v2.trec' is given twice" in refused.stderr
    nobody = ["qrels.txt", "-m", "mrr", "--baseline", "zzz"]
    refused = sqlmetrics("evaluate", *runs, *nobody, folder=folder, expect=2)
    assert (
        "no row has the baseline: unknown system 'zzz'; known: bm25.v2, dense.v2" in refused.stderr
    )
    tagged = ["--system", "system", "-m", "mrr"]
    refused = sqlmetrics("evaluate", *runs, "qrels.txt", *tagged, folder=folder, expect=2)
    assert (
        "2 files, like 'bm25.v2.trec' and 'dense.v2.trec', have runs called 'tag'" in refused.stderr
    )


ODD = ("bm25+rm3", "k1=0.9", "a & b", "100%", "a#1", "f(x),g", "it's", "ü", "a*b", "v2.1")


@by_turns(3.0)
def test_odd_names_are_the_same_in_every_command(folder: Path) -> None:
    """Names of files, and names before =, beside a file whose own name has one."""
    run = (folder / "bm25.v2.trec").read_text()
    for name in ODD:
        (folder / f"{name}.txt").write_text(run)
    files = [f"{name}.txt" for name in ODD]
    named = [f"{name}=bm25.v2.trec" for name in ODD]
    for arguments in (files, named, [*files[:5], *named[5:]]):
        completed = sqlmetrics(
            "evaluate", *arguments, "qrels.txt", "-m", "mrr", "-o", "json", folder=folder
        )
        assert [row["system"] for row in json.loads(completed.stdout)] == sorted(ODD)
        line = (*arguments, "qrels.txt", "-m", "mrr", "--baseline", "k1=0.9", "-o", "json")
        rows = json.loads(sqlmetrics("compare", *line, folder=folder).stdout)
        assert {row["system"] for row in rows} == {*ODD} - {"k1=0.9"}
    chosen = ("--systems", '"f(x),g",k1=0.9', "-o", "json")
    completed = sqlmetrics("compare", *files, "qrels.txt", "-m", "mrr", *chosen, folder=folder)
    assert [row["system"] for row in json.loads(completed.stdout)] == ["k1=0.9"]
    completed = sqlmetrics("funnel", *named[:2], "qrels.txt", "-o", "json", folder=folder)
    assert {row["stage"] for row in json.loads(completed.stdout)} == {*ODD[:2]}
    completed = sqlmetrics("diagnose", *files[:3], "qrels.txt", folder=folder)
    assert all(name in completed.stdout for name in ODD[:3])
    completed = sqlmetrics("sheet", *named, "qrels.txt", folder=folder)
    assert "1 rows to grade" in completed.stderr or "rows to grade" in completed.stderr
    completed = sqlmetrics(
        "report", *named[:3], "qrels.txt", "-m", "mrr", "--out", "-", folder=folder
    )
    assert "bm25+rm3" in completed.stdout
    line = ("k1=0.9=bm25.v2.trec", "qrels.txt", "-m", "mrr", "--value", ".5")
    assert "mrr = .5" in sqlmetrics("reconcile", *line, folder=folder).stdout
    line = ("a=bm25.v2.trec", "a=dense.v2.trec", "qrels.txt", "-m", "mrr")
    refused = sqlmetrics("evaluate", *line, folder=folder, expect=2)
    assert "'bm25.v2.trec' and 'dense.v2.trec' are both called 'a'" in refused.stderr
    refused = sqlmetrics("evaluate", *files[:2], "-m", "mrr", folder=folder, expect=2)
    assert "'k1=0.9.txt' is a run" in refused.stderr


@by_turns(2.0)
def test_two_teams_with_one_tag_are_never_one_system(folder: Path) -> None:
    """Over other topics or the same ones, in a glob of a spec, on any database, and as files."""
    for team, name in (("a", "bm25"), ("b", "dense")):
        (folder / team).mkdir()
        (folder / team / "run1.txt").write_text((folder / f"{name}.v2.trec").read_text())
    (folder / "b" / "run1.txt").write_text("q3 Q0 d 1 2.5 tag\n")  # the topics of the other team
    spec: dict[str, Any] = {
        "rankings": {"file": "?/*.txt"},
        "labels": {"file": "qrels.txt"},
        "metrics": ["mrr"],
    }
    clash = "2 files, like 'a/run1.txt' and 'b/run1.txt', have runs called 'tag'"
    expected = {("a/run1", "mrr"): pytest.approx(0.5), ("b/run1", "mrr"): pytest.approx(1 / 3)}
    named = {"rankings": {"file": "?/*.txt", "columns": {"system": "file"}}}
    for connection in (duckdb.connect(), sqlite3.connect("m.sqlite")):
        job = {**spec, "name": "s", "output": {"relation": "m"}}
        with pytest.raises(sm.InputError, match=re.escape(clash)):
            sm.run(sm.Spec(**job), connection)
        sm.run(sm.Spec(**{**job, **named}), connection)
        rows = connection.execute("select system, metric, value from m").fetchall()
        assert {(system, metric): value for system, metric, value in rows} == expected
    assert values(sm.evaluate(["a/run1.txt", "b/run1.txt"], "qrels.txt", "mrr")) == expected
    assert values(sm.evaluate("?/*.txt", "qrels.txt", "mrr")) == expected
    with pytest.raises(sm.InputError, match=re.escape(clash)):
        sm.evaluate("?/*.txt", "qrels.txt", "mrr", system="system")
    (folder / "a" / "blanks.txt").write_text("q1 Q0 b 1 2.5 my run v 2\n")
    blanks = sm.evaluate("a/blanks.txt", "qrels.txt", "mrr", system="system")
    assert values(blanks) == {("my run v 2", "mrr"): pytest.approx(1 / 3)}


BAD = {
    "bytes.txt": (b"\x00\x01\xff" * 900, "is not a text file"),
    "cut.txt": (b"q1 Q0 a 1 2.0 cut\nq1 Q0 d3\n", "has 1 row with less than six fields"),
    "latin.txt": (b"q1 Q0 caf\xe9 1 2.0 latin\n", "is not UTF-8"),
    "text.txt": (b"q1 Q0 a 1 high text\n", "has 1 row without a number as the score"),
    "empty.txt": (b"", "is empty"),
}


@by_turns(3.0)
def test_a_bad_upload_is_named_and_can_be_left_out(folder: Path) -> None:
    """Alone beside good runs, and all together, of files, of a glob in a spec, and in a job."""
    (folder / "runs").mkdir()
    for name in RUNS:
        text = (folder / f"{name}.v2.trec").read_text().replace(" tag", f" {name}")
        (folder / "runs" / f"{name}.txt").write_text(text)
    good = values(sm.evaluate("runs/*.txt", "qrels.txt", METRICS[0]))
    source = {"file": "runs/*.txt", "columns": {"system": "system"}}
    fields = {"labels": {"file": "qrels.txt"}, "metrics": ["mrr"], "output": {"relation": "m"}}
    spec = sm.Spec(rankings=source, **fields)
    for name, (content, problem) in BAD.items():
        (folder / "runs" / name).write_bytes(content)
        for connection in (None, duckdb.connect()):
            call = sm.evaluate if connection is None else sm.run
            arguments = (
                ("runs/*.txt", "qrels.txt", "mrr") if connection is None else (spec, connection)
            )
            if name == "empty.txt" and connection is not None:
                continue  # a glob has no row of it, and nothing is wrong
            with pytest.raises(sm.InputError) as caught:
                call(*arguments)
            assert name.partition(".")[0] in str(caught.value)
        result = sm.evaluate("runs/*.txt", "qrels.txt", "mrr", skip_bad=True)
        assert values(result) == good
        assert f"'runs/{name}' {problem}" in " ".join(result.notes).replace(
            "cannot be read: it ", ""
        )
        (folder / "runs" / name).unlink()
    for name, (content, _) in BAD.items():
        (folder / "runs" / name).write_bytes(content)
    skipping = sm.Spec(rankings={**source, "skip_bad": True}, **fields)
    reports = sm.run(skipping, duckdb.connect())
    assert "5 of 7 files are left out" in str([report.notes for report in reports])
    line = ("runs/*.txt", "qrels.txt", "-m", "mrr", "--skip-bad", "-o", "json")
    completed = sqlmetrics("evaluate", *line, folder=folder)
    assert values(json.loads(completed.stdout)) == good
    assert "5 of 7 files are left out" in completed.stderr
    completed = sqlmetrics("compare", *line[:-2], folder=folder)
    assert "5 of 7 files are left out" in " ".join(completed.stdout.split())
    for name in RUNS:
        (folder / "runs" / f"{name}.txt").unlink()
    with pytest.raises(sm.InputError, match="no file can be used"):
        sm.evaluate("runs/*.txt", "qrels.txt", "mrr", skip_bad=True)


@by_turns(0.3)
def test_repeated_rows_of_several_files_say_how_systems_are_named(folder: Path) -> None:
    """Also where a file is left out, which is told beside the hint."""
    for name, score in {"a": 1, "b": 2, "bad": "x"}.items():
        lines = ["query_id,item_id,score,model", f"q1,d1,{score},x", f"q1,d1,{score},x"]
        (folder / f"{name}.csv").write_text("\n".join(lines[: 2 if name == "b" else 3]) + "\n")
    told_by_place: dict[Any, str] = {
        ("a.csv", "bad.csv"): "several systems each, named in model, use --system model",
        "[ab]*.csv": "'[ab]*.csv' is 3 files, read as one system",
    }
    for rankings, hint in told_by_place.items():
        tables = rankings if isinstance(rankings, str) else list(rankings)
        with pytest.raises(sm.InputError) as caught:
            sm.evaluate(tables, "qrels.txt", "mrr", skip_bad=True)
        assert hint in str(caught.value)
        assert "files are left out: 'bad.csv' cannot be read" in str(caught.value)


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
        result = sm.evaluate(["bm25.csv", "dense.v2.trec"], QRELS, ["mrr"], connection="sqlite://")
        named = {(s.removesuffix(".v2"), m): n for (s, m), n in values(result).items()}
        assert named.items() <= wanted().items()
    if form in ("trec", "arrow"):
        runs = {name: FORMS[form](name) for name in RUNS}
        result = sm.evaluate(runs, QRELS, METRICS, baseline="bm25", connection="sqlite://")
        assert values(result) == wanted()


@by_turns(3.3)
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
    ("wrong", "message"),
    [
        ({"score": None}, "rankings: dense: unknown column 'score'"),
        ({"item_id": 1.5}, "rankings: dense: item_id has the type DOUBLE"),
        ({"score": None, "rank": 1}, "dense is ordered by a rank, but bm25 by a score"),
    ],
)
def test_a_run_unlike_the_others_is_named(wrong: dict[str, Any], message: str) -> None:
    unlike = [{k: v for k, v in (row | wrong).items() if v is not None} for row in rows("dense")]
    runs = {"bm25": pd.DataFrame(rows("bm25")), "dense": pd.DataFrame(unlike)}
    with pytest.raises(sm.InputError, match=message):
        sm.evaluate(runs, QRELS, ["mrr"])


def test_a_run_without_a_row_is_named() -> None:
    run = pd.DataFrame(rows("bm25"))
    runs = {"bm25": run, "dense": run.iloc[:0]}
    with pytest.raises(sm.InputError, match="rankings: dense: the table has no rows"):
        sm.evaluate(runs, QRELS, ["mrr"])


@by_turns(1.6)
def test_ids_that_pandas_made_floats_are_whole_in_each_run() -> None:
    ids = [{"query_id": "q", "item_id": 12.0, "score": 2}, {"query_id": "q", "item_id": 13.0}]
    run = pd.DataFrame([ids[0], {**ids[1], "score": 1}])
    result = sm.evaluate({"floats": run, "texts": {"q": {"13": 1.0}}}, {"q": {"13": 1}}, ["mrr"])
    assert values(result) == {("floats", "mrr"): 0.5, ("texts", "mrr"): 1.0}
    assert "is read as whole numbers" in result.notes[0]


@by_turns(1.7)
def test_rankings_and_labels_in_the_other_order(folder: Path) -> None:
    run = [row | {"system": "bm25"} for row in rows("bm25")]
    labels = [
        {"query_id": q, "item_id": i, "rel": n} for q, o in QRELS.items() for i, n in o.items()
    ]
    result = sm.evaluate(pd.DataFrame(labels), pd.DataFrame(run), ["mrr"], system="system")
    assert result["mrr"] == pytest.approx(0.5)
    assert "the first table has grades and the second has scores" in result.notes[0]
    assert sm.evaluate("qrels.txt", "bm25.v2.trec", ["mrr"])["mrr"] == pytest.approx(0.5)


@by_turns(4.5)
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
    assert "hits as the item" in by_score.notes[0]
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
