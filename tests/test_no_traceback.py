"""Odd files, specs, options and environments: one message and an exit code, never a traceback."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.url import parse_url

RUNS = "query_id,item_id,score,date\nq,a,2,2026-01-01\nq,b,1,2026-01-01\n"
LABELS = "query_id,item_id,grade\nq,a,1\n"
SPEC = """\
rankings: {file: runs.csv, columns: {date: date}}
labels: {file: labels.csv}
metrics: [mrr]
output: {relation: m}
"""
FLOW = '"rankings": {"file": "runs.csv"}, "labels": {"file": "labels.csv"}, "metrics": ["mrr"]}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs.csv").write_text(RUNS)
    (tmp_path / "labels.csv").write_text(LABELS)
    (tmp_path / "s.yml").write_text(SPEC)
    return tmp_path


def refused(folder: Path, *line: str, code: int = 2, **files: str) -> str:
    """What a command says on stderr that is refused, once some files are written."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return sqlmetrics(*line, folder=folder, expect=code).stderr


def test_files_that_are_cut_are_told(folder: Path) -> None:
    long = RUNS + "".join(f"q,item {n * 7919 % 100003},{n / 7}\n" for n in range(900))
    for name, text in (
        ("cut.csv.gz", long),
        ("cut.json.gz", '{"q": {"a": 1.5, "b": 2.5}}'),
        ("cut.run.gz", long.replace(",", " ")),
        ("cut.jsonl.gz", '{"query_id": "q"}'),
    ):
        packed = gzip.compress(text.encode())
        (folder / name).write_bytes(packed[: len(packed) // 2])
        for line in ([name, "labels.csv"], ["runs.csv", name]):
            message = refused(folder, "evaluate", *line, "-m", "mrr")
            assert "GZIP stream" in message or "unknown column" in message, name


@by_turns(1.1)
def test_days_that_python_has_not_are_refused(folder: Path) -> None:
    for day in ("10000-01-01", "-0044-03-15", "infinity", "-infinity"):
        (folder / "runs.csv").write_text(RUNS.replace("2026-01-01", day, 1))
        for line in (["show", "s.yml"], ["run", "s.yml", "--db", "m.duckdb"]):
            assert "is not a day from 0001-01-01 to 9999-12-30 in 1 row" in refused(folder, *line)
    (folder / "runs.csv").write_text(RUNS)
    message = refused(folder, "run", "s.yml", "--db", "m.duckdb", "--lookback", "99999999")
    assert "lookback must be at most" in message
    log = """\
clicks:
  daily: true
  log:
    sql: "select 'r' as request_id, 'q' as query, 'a' as item_id, 1 as position, true as clicked,
      1767225600000 as time"
    time_unit: s
    columns: {time: time, clicked: clicked, query: query}
  labels: {grades: {click: 1}}
metrics: [mrr]
"""
    assert "are not in s, but in ms" in refused(folder, "clicks", "log.yml", log_yml=log)


def test_texts_of_scores_that_differ_beyond_a_double_do_not_tie(folder: Path) -> None:
    for higher, lower in (
        ("0.12345678901234567891", "0.12345678901234567890"),
        ("123456.12345678901234567891", "123456.12345678901234567890"),
        ("9007199254740993", "9007199254740992"),
    ):
        scores = f"query_id,item_id,score\nq,a,{higher}\nq,b,{lower}\n"
        message = refused(
            folder, "evaluate", "runs.csv", "labels.csv", "-m", "mrr", runs_csv=scores
        )
        assert "scores that differ but are the same number as a DOUBLE: 1" in message
    scores = "query_id,item_id,score\nq,a,0.30000000000000004\nq,b,0.3000000000000000400000\n"
    (folder / "runs.csv").write_text(scores)
    sqlmetrics("evaluate", "runs.csv", "labels.csv", "-m", "mrr", folder=folder)


def test_names_and_brackets_that_are_none_are_refused(folder: Path) -> None:
    for name in ("", ".", "a.", ".a", "a..b", '"', '""', 'a."b'):
        output = SPEC.replace("relation: m", f"relation: '{name}'")
        source = SPEC.replace("file: runs.csv", f"relation: '{name}'")
        for spec in (output, source):
            message = refused(folder, "compile", "odd.yml", odd_yml=spec)
            assert "must be the name of a table, like runs" in message, name
    for name in ("m", "shop.m", '"my m"', 'a."b.c".d', "Ranking metrics", "größe"):
        (folder / "odd.yml").write_text(SPEC.replace("relation: m", f"relation: '{name}'"))
        sqlmetrics("compile", "odd.yml", folder=folder)
    deep = "(" * 5000 + "1 = 1" + ")" * 5000
    line = ["evaluate", "runs.csv", "labels.csv", "-m", "mrr", "--where", deep]
    assert "is nested too deeply" in refused(folder, *line)


def test_what_a_person_reads_has_no_inner_names(folder: Path) -> None:
    traces = '{"qid":"q1","contexts":[{"chunk_id":"a#1"}],"truth":["a"]}\n'
    line = ["evaluate", "t.jsonl", "-m", "recall@5", "--query", "qid", "--item", "context"]
    message = refused(folder, *line, "--label-column", "item=truth", t_jsonl=traces)
    assert "unknown column 'context'; did you mean 'contexts'?" in message
    spec = 'rankings: {file: runs.csv}\nlabels: {sql: "select * from nope"}\nmetrics: [mrr]\n'
    (folder / "x.db").touch()
    message = refused(folder, "validate", "o.yml", "--connection", "sqlite:///x.db", o_yml=spec)
    assert "labels: 'select * from nope', which runs in SQLite, cannot be read" in message
    nulls = "query_id,item_id,score,system\nq,a,2,\nq,b,1,old\n"
    (folder / "nulls.csv").write_text(nulls)
    message = refused(
        folder,
        "compare",
        "n.yml",
        n_yml=(
            "rankings: {file: nulls.csv, columns: {system: system}}\n"
            "labels: {file: labels.csv}\nmetrics: [mrr]\nbaseline: nope\n"
        ),
    )
    assert "system is NULL in 1 row" in message
    message = refused(
        folder, "validate", "e.yml", e_yml=spec.replace("select *", "explain select *")
    )
    assert "unsupported syntax" not in message


@pytest.mark.parametrize("port", ["abc", "99999999", "0", "٣"])
def test_a_port_is_a_number(folder: Path, port: str) -> None:
    (folder / "profiles.yml").write_text(
        f"outputs: {{dev: {{type: postgres, host: h, port: '{port}'}}}}"
    )
    assert "a number from 1 to 65535" in refused(folder, "debug", "--target", "dev")
    with pytest.raises(sm.SpecError, match="a number from 1 to 65535"):
        parse_url(f"postgresql://h:{port}/d")


def test_threads_take_turns_on_one_connection() -> None:
    values: list[Any] = []
    with duckdb.connect() as connection:
        connection.execute("create table r as select 'q' query_id, 'a' item_id, 1 score")
        connection.execute("create table l as select 'q' query_id, 'a' item_id, 1 grade")

        def evaluate() -> None:
            values.append(sm.evaluate("r", "l", ["mrr"], connection=connection)["mrr"])

        threads = [threading.Thread(target=evaluate) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert values == [1.0] * 4


@by_turns(6)
def test_streams_that_are_closed_or_narrow(folder: Path) -> None:
    odd = "query_id,item_id,score,system\nq,a,2,中文\n"
    (folder / "odd.csv").write_text(odd, encoding="utf-8")
    program = f"{sys.executable} -m sqlmetrics"
    evaluate = f"{program} evaluate runs.csv labels.csv -m mrr"
    narrow = {"PYTHONIOENCODING": "cp1252"}
    cases: tuple[tuple[str, Mapping[str, str], int, str], ...] = (
        (f"{evaluate} >&-", {}, 0, ""),
        (f"{program} list metrics >&-", {}, 0, ""),
        (f"{evaluate} 2>&- >&- <&-", {}, 0, ""),
        (f"{program} evaluate runs.csv labels.csv -m nope 2>&-", {}, 2, ""),
        (f"{evaluate.replace('runs', 'odd')} --system system", narrow, 2, "which cp1252 cannot"),
        (f"{program} evaluate 中.csv labels.csv -m mrr", narrow, 2, "no file or table"),
    )
    for shell, environment, code, message in cases:
        completed = subprocess.run(
            shell,
            shell=True,
            cwd=folder,
            capture_output=True,
            check=False,
            env={**os.environ, **environment},
        )
        stderr = completed.stderr.decode(errors="replace")
        assert completed.returncode == code, (shell, stderr)
        assert message in stderr
        assert "Traceback" not in stderr


def test_what_random_input_found_is_told(folder: Path) -> None:
    evaluate = ["evaluate", "runs.csv", "other.csv", "labels.csv", "-m", "mrr"]
    (folder / "other.csv").write_text(RUNS)
    for line, message in (
        ([*evaluate, "--decimal", "x"], "rankings.decimal must be '.' or ',', given 'x'"),
        ([*evaluate, "--separator", "ab"], "rankings.separator must be one character"),
        (
            ["compare", *evaluate[1:], "--start", "today", "--time-zone", "Nowhere"],
            "unknown time zone",
        ),
        (["show", "c.yml"], "metrics must be a list, given 3"),
        (["show", "e.yml"], "which is not a character"),
    ):
        (folder / "c.yml").write_text(
            "clicks: {log: {file: x.csv}, labels: {grades: {click: 1}}}\nmetrics: 3\n"
        )
        (folder / "e.yml").write_text('{"name": "\\ud83d", ' + FLOW)
        assert message in refused(folder, *line), line
    (folder / "e.yml").write_text('{"name": "\\ud83d\\udca9", ' + FLOW)
    assert "💩" in sqlmetrics("show", "e.yml", folder=folder).stdout
    (folder / "null.csv").write_text("query_id,item_id,score,system\nq,a,1,\nq,a,1,b\n")
    line = ["compare", "null.csv", "labels.csv", "-m", "mrr", "--system", "system"]
    assert "system is NULL in some rows" in refused(folder, *line, "--skip-input-checks")
    packed = bytearray(gzip.compress(RUNS.encode() * 50))
    packed[40:60] = b"\xff" * 20
    (folder / "odd.gz").write_bytes(packed)
    refused(folder, "evaluate", "runs.csv", "odd.gz", "-m", "mrr")
