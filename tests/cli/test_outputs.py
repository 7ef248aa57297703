"""No output takes the place of what it did not write, and a failure leaves the old one whole."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from command import sqlmetrics
from marked import by_turns

pytestmark = by_turns(6)

RUNS = "system,query_id,item_id,score\nold,q1,a,1\nold,q1,b,2\nnew,q1,a,2\nnew,q1,b,1\n"
LABELS = "query_id,item_id,grade\nq1,a,1\n"
SPEC = """name: shop
rankings: {file: runs.csv, columns: {score: score, system: system}}
labels: {file: labels.csv}
metrics: [mrr]
output: {relation: metrics}
checks: [{metric: mrr, min: 0}]
"""
EVALUATE = "evaluate runs.csv labels.csv -m mrr --system system --out"
SHOW = "show spec.yml -o csv --out"
WRITERS = {
    EVALUATE: "json csv md txt parquet html",
    "compare runs.csv labels.csv -m mrr --out": "json csv md",
    "diagnose runs.csv labels.csv --out": "json txt",
    SHOW: "csv",
    "clicks log.csv --out": "json csv",
    "sheet spec.yml --out": "csv",
    "sample spec.yml --size 1 --out": "csv",
    "check spec.yml --db m.duckdb --junit": "xml",
    "run spec.yml --db m.duckdb --out": "json",
    "report spec.yml --out": "md txt",
}
"""A command that writes a file -> the endings that it is tried with."""
FOLDERS = {
    "compile spec.yml --job job": "03_replacement.sql",
    "export malloy spec.yml --out models": "*.malloy",
    "simulate log --requests 20 --users 5 --queries 3 --days 1": "events.parquet",
    "demo --out demo": "rankings.parquet",
}
"""A command that writes a folder -> one of its files."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"runs.csv": RUNS, "labels.csv": LABELS, "spec.yml": SPEC}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "log.csv").write_text(
        "request_id,query,item_id,position,clicked\nr1,shoes,a,1,1\nr1,shoes,b,2,0\n"
    )
    duckdb.connect(str(tmp_path / "m.duckdb")).close()
    sqlmetrics("run", "spec.yml", "--db", "m.duckdb", folder=tmp_path)
    return tmp_path


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_replaces_what_is_read_or_stored(folder: Path) -> None:
    """Whoever insists: inputs, databases, specs and profiles stay."""
    for line in WRITERS:
        for target in ("labels.csv", "m.duckdb", "spec.yml"):
            if (target, "clicks" in line) == ("labels.csv", True):
                continue  # not read by it
            before = contents(folder)
            words = [*line.split(), target, "--overwrite"]
            *_, error = sqlmetrics(*words, folder=folder, expect=2).stderr.splitlines()
            assert target in error, words
            assert re.search("not written over|not written here|is written as", error), words
            assert (folder / target).read_bytes() == before[str(folder / target)]


def test_files_of_others_ask_for_overwrite_and_ours_are_replaced(folder: Path) -> None:
    for line, endings in WRITERS.items():
        for ending in endings.split():
            file = folder / f"theirs.{ending}"
            file.write_text(
                "<letter>" if ending in ("xml", "html") else "Dear reader, this is mine.\n"
            )
            mine = file.read_bytes()
            words = [*line.split(), file.name]
            told = sqlmetrics(*words, folder=folder, expect=2).stderr
            assert "--overwrite" in told, words
            assert file.read_bytes() == mine
            sqlmetrics(*words, "--overwrite", folder=folder)
            assert file.read_bytes() != mine
            sqlmetrics(*words, folder=folder)  # ours by now
            assert not [*folder.glob(f".theirs*.{ending}")]


def test_a_graded_sheet_stays(folder: Path) -> None:
    sheet = folder / "sheet.csv"
    sqlmetrics("sheet", "spec.yml", "--out", "sheet.csv", folder=folder)
    sqlmetrics("sheet", "spec.yml", "--out", "sheet.csv", folder=folder)  # nobody has graded
    head, *rows = sheet.read_text().splitlines()
    cells = dict(zip(head.split(","), rows[0].split(","), strict=True)) | {'"grade"': '"1"'}
    graded = "\n".join([head, ",".join(cells.values()), *rows[1:]]) + "\n"
    sheet.write_text(graded)
    for more in ((), ("--overwrite",)):
        line = ("sheet", "spec.yml", "--out", "sheet.csv", *more)
        told = sqlmetrics(*line, folder=folder, expect=2).stderr
        assert "has 1 grade" in told
        assert "--out sheet-2.csv" in told
    assert sheet.read_text() == graded


def test_folders_keep_what_others_put_there(folder: Path) -> None:
    for line, name in FOLDERS.items():
        sqlmetrics(*line.split(), folder=folder)
        written = {file for file in contents(folder) if Path(file).match(name)}
        assert written, line
        sqlmetrics(*line.split(), folder=folder)  # over its own
        place = Path(min(written))
        note = place.with_name("note.txt")
        note.write_text("mine")
        if "simulate" not in line and "demo" not in line:
            place.write_text("mine, too")
            told = sqlmetrics(*line.split(), folder=folder, expect=2).stderr
            assert "--overwrite" in told, line
            assert place.read_text() == "mine, too"
            sqlmetrics(*line.split(), "--overwrite", folder=folder)
        assert place.read_bytes() != b"mine, too"
        assert note.read_text() == "mine"
        assert not [path for path in place.parent.iterdir() if path.name.startswith(".")]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may become larger than so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_old_file(folder: Path) -> None:
    """One exit code for a disk that is full or may not be written to, whichever command it is."""
    line = [*EVALUATE.split(), "o.json"]
    sqlmetrics(*line, folder=folder)
    before = contents(folder)
    with full_disk(64):
        told = sqlmetrics(*line, folder=folder, expect=3).stderr
    assert told == "error: cannot write 'o.json': File too large\n"
    assert contents(folder) == before
    for words in WRITERS:
        ending = WRITERS[words].split()[0]
        line = [*words.split(), f"runs.csv/{ending}.{ending}"]  # below what is no folder
        told = sqlmetrics(*line, folder=folder, expect=3).stderr
        assert "error: cannot write" in told, line
    for words in FOLDERS:
        *first, place = words.split() if "simulate" not in words else ["simulate", "log"]
        told = sqlmetrics(*first, f"runs.csv/{place}", folder=folder, expect=3).stderr
        assert "error: cannot write" in told, words
