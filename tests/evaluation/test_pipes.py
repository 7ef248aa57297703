"""Pipes are read once, by every command that reads files, and nothing waits for ever."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.evaluation.inputs import pipes

ROWS = [("q", "a", 2.5, 1), ("q", "b", 1.5, 0), ("r", "c", 10, 0), ("r", "d", 9.75, 2)]
CSV = "query_id,item_id,score\n" + "".join(f"{q},{i},{s}\n" for q, i, s, _ in ROWS)
LABELS = "query_id,item_id,grade\n" + "".join(f"{q},{i},{g}\n" for q, i, _, g in ROWS)
RUN = "".join(f"{q} Q0 {i} 1 {s} bm25\n" for q, i, s, _ in ROWS)
QRELS = "".join(f"{q} 0 {i} {g}\n" for q, i, _, g in ROWS)
SPEC = """\
rankings: {file: pipe}
labels: {file: labels.csv}
metrics: [mrr]
output: {relation: m}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs.csv").write_text(CSV)
    (tmp_path / "labels.csv").write_text(LABELS)
    (tmp_path / "s.yml").write_text(SPEC)
    return tmp_path


@contextmanager
def piped(content: bytes, *, named: Path | None = None) -> Iterator[str]:
    """The path of a pipe to which another thread writes."""
    if named is not None:
        os.mkfifo(named)
        writer = threading.Thread(target=lambda: named.write_bytes(content))
        writer.start()
        yield str(named)
    else:
        reading, writing = os.pipe()

        def write() -> None:
            with open(writing, "wb") as pipe:
                pipe.write(content)

        writer = threading.Thread(target=write)
        writer.start()
        yield f"/dev/fd/{reading}"
        os.close(reading)
    writer.join()


@by_turns(3)
def test_pipes_of_every_format_are_files(folder: Path) -> None:
    for runs, labels in (
        (CSV, LABELS),
        (RUN, LABELS),
        (RUN, QRELS),
        (QRELS, RUN),  # in the order of trec_eval
        (CSV.replace(",", "\t"), LABELS.replace(",", ";")),
        (
            "\n".join(f'{{"query_id":"{q}","item_id":"{i}","score":{s}}}' for q, i, s, _ in ROWS),
            LABELS,
        ),
        ('{"q": {"a": 2.5, "b": 1.5}, "r": {"c": 10, "d": 9.75}}', LABELS),
    ):
        packed = gzip.compress(runs.encode())
        with piped(packed) as first, piped(labels.encode()) as second:
            line = ["evaluate", first, second, "-m", "mrr", "-o", "csv"]
            output = sqlmetrics(*line, folder=folder).stdout
        assert ",mrr," in output, runs
        assert ",0.75," in output, runs
    with piped(CSV.encode()) as first, piped(RUN.encode()) as second:
        line = ["compare", first, second, "labels.csv", "-m", "mrr", "-o", "csv"]
        assert "mrr,run_2,run_1," in sqlmetrics(*line, folder=folder).stdout


@pytest.mark.long
def test_a_named_pipe_works_with_every_command_and_is_removed(folder: Path) -> None:
    for number, line in enumerate(
        (
            ["evaluate", "pipe", "labels.csv", "-m", "mrr"],
            ["diagnose", "pipe", "labels.csv"],
            ["reconcile", "pipe", "labels.csv", "-m", "mrr", "--value", "0.75"],
            ["show", "s.yml"],
            ["validate", "s.yml"],
            ["verify", "s.yml"],
            ["sheet", "s.yml"],
            ["run", "s.yml", "--db", "m.duckdb"],
            ["run", "s.yml", "--connection", "sqlite:///m.db"],
        )
    ):
        content = CSV if number % 2 else gzip.compress(CSV.encode()).decode("latin-1")
        pipe = folder / "pipe"
        with piped(content.encode("latin-1"), named=pipe):
            sqlmetrics(*line, folder=folder)
        pipe.unlink()
    os.mkfifo(folder / "pipe")
    for line in (["compile", "s.yml"], ["export", "dbt", "s.yml", "--out", "p"]):
        assert "'pipe' is a pipe" in sqlmetrics(*line, folder=folder, expect=2).stderr


def test_a_pipe_is_read_anew_when_somebody_writes_anew(folder: Path) -> None:
    pipe = folder / "pipe"
    labels = str(folder / "labels.csv")
    os.mkfifo(pipe)
    for content, value in ((CSV, 0.75), (CSV.replace("q,a,2.5", "q,a,0.5"), 0.5)):
        writer = threading.Thread(target=pipe.write_text, args=(content,))
        writer.start()
        assert sm.evaluate(str(pipe), labels, ["mrr"])["mrr"] == value
        writer.join()


def test_a_pipe_without_rows_or_a_writer_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "PATIENCE", 0.1)
    os.mkfifo(folder / "pipe")
    for line in (["evaluate", "pipe", "labels.csv", "-m", "mrr"], ["show", "s.yml"]):
        message = sqlmetrics(*line, folder=folder, expect=2).stderr
        assert "no process writes to the pipe" in message
    with piped(b"") as path, chdir(folder), pytest.raises(sm.InputError, match="is emp"):
        sm.evaluate(path, "labels.csv", ["mrr"])


@pytest.mark.long
def test_stdin_is_a_file_a_pipe_or_closed(folder: Path) -> None:
    line = f"{sys.executable} -m sqlmetrics evaluate - labels.csv -m mrr -o csv"
    temporary = folder / "temporary"
    temporary.mkdir()
    variables = {**os.environ, "TMPDIR": str(temporary)}
    for shell, code, message in (
        (f"cat runs.csv | {line}", 0, ",0.75,"),
        (f"gzip -c runs.csv | {line.replace(' - ', ' /dev/stdin ')}", 0, ",0.75,"),
        (f"{line} < runs.csv", 0, ",0.75,"),
        (f"{line} <&-", 2, "the pipe '-' is empty"),
        (f"{line} < /dev/null", 2, "the pipe '-' is empty"),
    ):
        completed = subprocess.run(
            shell,
            shell=True,
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == code, completed.stderr
        assert message in completed.stdout + completed.stderr, shell
        assert "Traceback" not in completed.stderr
    assert not [*temporary.glob("sqlmetrics_pipes_*")]
