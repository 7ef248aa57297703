"""A gate: what fails exits with 1, and says why, by the same text in each place."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm

TRUTH = ("a", "b")


def world(folder: Path, n: int = 60) -> None:
    """TREC runs: base knows everything, cand loses some, same is base again; texts of queries."""
    chance = random.Random(4)
    for name, lost in (("base", 0.0), ("cand", 0.4), ("same", 0.0), ("good", -1.0)):
        lines = []
        for query in range(n):
            items = ["a", "b", "c", "d"] if lost < 0 else ["a", "c", "b", "d"]
            if chance.random() < lost:
                items.reverse()
            lines += [
                f"q{query:02} Q0 {item} {rank} {9 - rank} {name}\n"
                for rank, item in enumerate(items, 1)
            ]
        (folder / f"{name}.run").write_text("".join(lines))
    labels = [f"q{query:02} 0 {item} 1\n" for query in range(n) for item in TRUTH]
    (folder / "qrels.txt").write_text("".join(labels))
    texts = [f"q{query:02},shoe {query}\n" for query in range(n)]
    (folder / "queries.csv").write_text("query_id,text\n" + "".join(texts))


@pytest.mark.parametrize(
    ("systems", "fail_on", "code"),
    [
        ("base cand", "worse", 1),
        ("base cand", "unclear", 1),
        ("cand base", "worse", 0),
        ("cand base", "not-better", 0),
        ("base same", "worse", 0),
        ("base same", "unclear", 0),
        ("base same", "not-better", 1),
        ("base good cand", "worse", 1),
    ],
)
def test_the_exit_code(tmp_path: Path, systems: str, fail_on: str, code: int) -> None:
    world(tmp_path)
    files = [f"{name}.run" for name in systems.split()]
    line = ["compare", *files, "qrels.txt", "-m", "mrr", "--fail-on", fail_on]
    completed = sqlmetrics(*line, "-q", folder=tmp_path, expect=code)
    assert completed.stdout, "the tables are printed in any case"
    failed = [row for row in completed.stderr.splitlines() if row.startswith("failed: ")]
    assert len(failed) == code


@by_turns(1.1)
def test_the_text_of_a_gate(tmp_path: Path) -> None:
    """The numbers of the row, and the queries that lost most by their texts; `-q` keeps them."""
    world(tmp_path)
    line = ["compare", "base.run", "cand.run", "qrels.txt", "-m", "mrr,recall@2", "-q"]
    line += ["--queries", "queries.csv", "--fail-on", "worse"]
    completed = sqlmetrics(*line, "-o", "json", folder=tmp_path, expect=1)
    row = next(row for row in json.loads(completed.stdout) if row["metric"] == "mrr")
    scale = 100 / row["baseline_value"]
    lost = sm.evaluate(tmp_path / "cand.run", tmp_path / "qrels.txt", ["mrr"]).per_query()
    worst = sorted(zip(lost["mrr"].to_pylist(), lost["query_id"].to_pylist(), strict=True))[:3]
    moves = ", ".join(f"'shoe {int(name[1:])}' 1.0000 to {mrr:.4f}" for mrr, name in worst)
    assert completed.stderr.splitlines()[:2] == [
        f"failed: mrr of cand is {row['value']:.4f}, compared with 1.0000 of base, "
        f"{row['difference'] * scale:+.1f} % ({100 * row['ci_level']:.4g} % interval "
        f"{row['ci_low'] * scale:+.1f} to {row['ci_high'] * scale:+.1f} %), p < 0.001, "
        "60 queries: worse",
        f"  lost most: {moves}",
    ]
    as_json = sqlmetrics(*line, "--errors", "json", folder=tmp_path, expect=1)
    document = json.loads(as_json.stderr)
    assert (document["error"], document["exit_code"]) == ("CheckError", 1)
    assert f"failed: {document['problems'][0]['problem']}" == "\n".join(
        completed.stderr.splitlines()[:2]
    )
    unpaired = [*line[:6], "--unpaired", "--fail-on", "worse"]
    assert "lost most" not in sqlmetrics(*unpaired, folder=tmp_path, expect=1).stderr


def test_one_call_that_raises(tmp_path: Path) -> None:
    world(tmp_path)
    runs = {name: tmp_path / f"{name}.run" for name in ("base", "cand")}
    with pytest.raises(sm.CheckError, match="lost most: 'q") as raised:
        sm.compare(runs, tmp_path / "qrels.txt", "mrr", fail_on="worse")
    assert raised.value.exit_code == 1
    assert raised.value.result["mrr"]["verdict"] == "worse"
    (failure,) = raised.value.failures
    assert (failure.metric, failure.system, failure.rule) == ("mrr", "cand", "worse")
    assert len(failure.lost) == 3
    comparison = sm.compare(runs, tmp_path / "qrels.txt", "mrr")
    with pytest.raises(sm.CheckError, match="mrr of cand is 0"):
        comparison.raise_if("worse")
    sm.compare(runs, tmp_path / "qrels.txt", "mrr", baseline="cand").raise_if("not-better")
    for call in (comparison.raise_if, lambda f: sm.compare(runs, None, "mrr", fail_on=f)):
        with pytest.raises(sm.SpecError, match="unknown verdict to fail on 'worst'; did you mean"):
            call("worst")


def test_the_row_of_a_metric_and_system(tmp_path: Path) -> None:
    world(tmp_path)
    runs = {name: tmp_path / f"{name}.run" for name in ("base", "cand", "good")}
    comparison = sm.compare(runs, tmp_path / "qrels.txt", ["map@5", "mrr"])
    assert comparison["MAP@5", "good"] == comparison["ap@5", "good"]
    assert comparison["mrr", "cand"]["system"] == "cand"
    with pytest.raises(KeyError, match=r"comparison\['mrr', 'cand'\]; known: 'cand'; 'good'"):
        comparison["mrr"]
    for wrong in ("ndcg@10", "nonsense"):
        with pytest.raises(KeyError, match=f"unknown metric '{wrong}'"):
            comparison[wrong]
    result = sm.evaluate(runs["cand"], tmp_path / "qrels.txt", ["map@5"])
    assert "MAP@5" in result
    assert [name in result for name in ("map@6", "nonsense")] == [False, False]
    assert result["MAP@5"] == pytest.approx(comparison["ap@5", "cand"]["value"])
    two = {name: runs[name] for name in ("base", "cand")}
    unpaired = sm.compare(two, tmp_path / "qrels.txt", "mrr", unpaired=True)
    assert unpaired["mrr"]["test"] == "Welch t"
    with pytest.raises(sm.SpecError, match="paired=True and unpaired=True contradict"):
        sm.compare(two, tmp_path / "qrels.txt", "mrr", paired=True, unpaired=True)


@by_turns(1.2)
def test_a_gate_of_a_spec_names_it(tmp_path: Path) -> None:
    world(tmp_path)
    (tmp_path / "search.yml").write_text(
        "version: 1\nname: search\nmetrics: [mrr]\n"
        "rankings: {file: '*.run', columns: {system: system}}\nlabels: {file: qrels.txt}\n"
        "queries: {file: queries.csv, columns: {query: query_id, text: text}}\n"
    )
    line = ["compare", "search.yml", "--systems", "base,cand", "--fail-on", "worse"]
    completed = sqlmetrics(*line, folder=tmp_path, expect=1)
    assert "failed: search: mrr of cand is 0." in completed.stderr
    assert "lost most: 'shoe " in completed.stderr
    assert "1970" not in completed.stdout + completed.stderr
