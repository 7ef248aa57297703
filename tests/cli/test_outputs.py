"""No output takes the place of what it did not write, and a failure leaves the old one whole."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest
from command import sqlmetrics
from marked import by_turns

from sqlmetrics.cli import cli
from sqlmetrics.cli.options import Input
from sqlmetrics.comparison.diagnosis.diagnosis import Diagnosis

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
GRADED = '"query_id","item_id","grade","row_key"\n"q1","b",2,"k"\n"q1","c","","k"\n'
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
    "plot deltas spec.yml --out": "json",
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
    (tmp_path / "sheet.csv").write_text(GRADED)
    duckdb.connect(str(tmp_path / "m.duckdb")).close()
    sqlmetrics("run", "spec.yml", "--db", "m.duckdb", folder=tmp_path)
    return tmp_path


def contents(folder: Path) -> Mapping[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_replaces_what_is_read_or_stored(folder: Path) -> None:
    """Whoever insists: inputs, databases, specs, profiles and graded sheets stay."""
    for line in WRITERS:
        for target in ("labels.csv", "runs.csv", "m.duckdb", "spec.yml", "sheet.csv"):
            if "clicks" in line and target in ("labels.csv", "runs.csv"):
                continue  # not read by it
            before = contents(folder)
            words = [*line.split(), target, "--overwrite"]
            *_, error = sqlmetrics(*words, folder=folder, expect=2).stderr.splitlines()
            assert target in error, words
            refusal = "cannot be overwritten|not written here|needs a name that ends in"
            assert re.search(refusal, error), words
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
            message = sqlmetrics(*words, folder=folder, expect=2).stderr
            assert "--overwrite" in message, words
            assert file.read_bytes() == mine
            sqlmetrics(*words, "--overwrite", folder=folder)
            assert file.read_bytes() != mine
            sqlmetrics(*words, folder=folder)  # ours by now
            assert not [*folder.glob(f".theirs*.{ending}")]


def test_files_of_others_are_refused_before_anything_is_read(folder: Path) -> None:
    """The tables are not there, which is told where the file might be ours."""
    (folder / "spec.yml").write_text(SPEC.replace("labels.csv", "nowhere.csv"))
    people, letter = "id,name,email\n1,ann,a@b\n", "Dear reader, this is mine.\n"
    theirs = [
        (line, f"theirs.{ending}", people if ending == "csv" else letter)
        for line, endings in WRITERS.items()
        for ending in set(endings.split()) - {"txt", "md", "csv" if "clicks" in line else ""}
        if line.split()[0] not in ("run", "check", "plot")
    ]
    theirs += [
        (EVALUATE, "theirs.json", '[{"name": "ann"}]'),
        (EVALUATE, "theirs.parquet", people),
        (EVALUATE, "theirs.txt", "PK\x03\x04 a spreadsheet"),
        (f"{EVALUATE} o.csv --per-query --profile", "theirs.json", letter),
        ("build spec.yml --db m.duckdb --junit", "theirs.xml", "<letter/>"),
    ]
    for line, name, text in theirs:
        (folder / name).write_text(text)
        words = [*line.replace("labels.csv", "nowhere.csv").split(), name]
        message = sqlmetrics(*words, folder=folder, expect=2).stderr
        assert ("--overwrite" in message) == ("--profile" not in line), words
        assert (folder / name).read_text() == text
    profile = [*EVALUATE.split(), "o.csv", "--profile", "theirs.json"]
    assert "--overwrite" in sqlmetrics(*profile, folder=folder, expect=2).stderr
    assert not (folder / "o.csv").exists()
    for _ in range(2):
        sqlmetrics(*profile, "--overwrite", folder=folder)
        profile = [word for word in profile if word != "--overwrite"]
    assert "operator" in (folder / "theirs.json").read_text()


def test_what_is_read_says_so_and_nothing_else_is_taken_for_it(folder: Path) -> None:
    files = re.compile(r"TABLE|FILE|SPEC|LOG|RANKINGS|SHEET|SAMPLE|EVENTS|EXPERIMENTS|YML")
    outputs = {"out", "junit", "profile", "openlineage", "into"}
    opened = {("db", "all"), ("file", "init"), ("file", "install"), ("values", "reconcile")}
    for name in cli.commands:
        command = cli.commands[name]
        for parameter in command.params:
            kinds = getattr(parameter.type, "types", [parameter.type])
            is_read = all(isinstance(kind, Input) for kind in kinds)
            metavar = parameter.make_metavar(click.Context(command))
            if parameter.name in outputs or opened & {(parameter.name, n) for n in (name, "all")}:
                assert not is_read, (name, parameter.name)
            elif isinstance(parameter.type, click.types.StringParamType | Input | click.Tuple):
                assert is_read == bool(files.search(metavar)), (name, parameter.name, metavar)
    for _ in range(2):
        sqlmetrics(*EVALUATE.split(), "mrr", folder=folder)  # the name of a metric, too


def test_no_finding_is_no_file_of_others(folder: Path) -> None:
    line = ["diagnose", "runs.csv", "labels.csv", "--out", "o.json"]
    ours = '[\n  {"system": "r", "baseline": "", "finding": "x"}\n]\n'
    for before, after in (("[]\n", ours), (ours, "[]\n")):
        (folder / "o.json").write_text(before)
        with pytest.MonkeyPatch.context() as patch:
            rows = json.loads(after)
            patch.setattr(Diagnosis, "to_dicts", lambda _, rows=rows: rows)
            sqlmetrics(*line, folder=folder)
        assert json.loads((folder / "o.json").read_text()) == rows


def test_a_graded_sheet_stays(folder: Path) -> None:
    sheet = folder / "sheet.csv"
    sheet.unlink()
    sqlmetrics("sheet", "spec.yml", "--out", "sheet.csv", folder=folder)
    sqlmetrics("sheet", "spec.yml", "--out", "sheet.csv", folder=folder)  # nobody has graded
    head, *rows = sheet.read_text().splitlines()
    cells = dict(zip(head.split(","), rows[0].split(","), strict=True)) | {'"grade"': '"1"'}
    graded = "\n".join([head, ",".join(cells.values()), *rows[1:]]) + "\n"
    sheet.write_text(graded)
    for flags in ((), ("--overwrite",)):
        line = ("sheet", "spec.yml", "--out", "sheet.csv", *flags)
        message = sqlmetrics(*line, folder=folder, expect=2).stderr
        assert "it is a sheet with 1 grade;" in message
        assert "sheet-2.csv" in message
    assert sheet.read_text() == graded


def test_folders_keep_what_others_put_there(folder: Path) -> None:
    for line, name in FOLDERS.items():
        sqlmetrics(*line.split(), folder=folder)
        files = {file for file in contents(folder) if Path(file).match(name)}
        assert files, line
        sqlmetrics(*line.split(), folder=folder)  # over its own
        first_file = Path(min(files))
        note = first_file.with_name("note.txt")
        note.write_text("mine")
        if "simulate" not in line and "demo" not in line:
            first_file.write_text("mine, too")
            message = sqlmetrics(*line.split(), folder=folder, expect=2).stderr
            assert "--overwrite" in message, line
            assert first_file.read_text() == "mine, too"
            sqlmetrics(*line.split(), "--overwrite", folder=folder)
        assert first_file.read_bytes() != b"mine, too"
        assert note.read_text() == "mine"
        assert not [path for path in first_file.parent.iterdir() if path.name.startswith(".")]


def test_what_is_read_by_a_glob_a_folder_or_a_link_stays(folder: Path) -> None:
    (folder / "parts").mkdir()
    part = folder / "parts" / "1.csv"
    part.write_text(RUNS)
    (folder / "link.csv").symlink_to(folder / "labels.csv")
    excel = folder / "excel.csv"
    excel.write_text("\ufeff" + GRADED.replace(",", ";"), encoding="utf-8")
    for rankings, target in (
        ("parts/*.csv", "parts/1.csv"),
        ("parts", "parts/1.csv"),
        ("runs.csv", "link.csv"),
        ("runs.csv", str(folder / "runs.csv")),
        ("runs.csv", "excel.csv"),
        ("old=parts/1.csv new=runs.csv", "parts/1.csv"),
    ):
        before = contents(folder)
        line = f"evaluate {rankings} labels.csv -m mrr --out {target} --overwrite"
        message = sqlmetrics(*line.split(), folder=folder, expect=2).stderr
        assert "cannot be overwritten" in message, line
        assert contents(folder) == before
    (folder / "to.csv").symlink_to(folder / "new.csv")
    (folder / "new.csv").touch(0o640)
    for target in ("to.csv", os.devnull):
        sqlmetrics(*SHOW.split(), target, folder=folder)
    assert (folder / "to.csv").is_symlink()
    assert (folder / "new.csv").read_text().startswith("spec,")
    assert (folder / "new.csv").stat().st_mode & 0o777 == 0o640
    assert Path(os.devnull).is_char_device()
    profile = f"{EVALUATE} o.csv --profile labels.json"
    (folder / "labels.json").symlink_to(folder / "labels.csv")
    assert "cannot be overwritten" in sqlmetrics(*profile.split(), folder=folder, expect=2).stderr


def test_tables_that_only_look_alike_are_theirs(folder: Path) -> None:
    pandas = '<table border="1"><thead><tr><th>mine</th></tr></thead></table>'
    latex = "\\begin{tabular}{lrrrrrrr}\n\\toprule\nmine & a & b \\\\\n"
    for line, name, text in (
        (EVALUATE, "o.html", pandas),
        ("compare runs.csv labels.csv -m mrr --out", "o.tex", latex),
        ("plot deltas spec.yml --out", "o.json", '{"$schema": "vega-lite", "config": {}}'),
    ):
        (folder / name).write_text(text)
        message = sqlmetrics(*line.split(), name, folder=folder, expect=2).stderr
        assert "--overwrite" in message, line
        assert (folder / name).read_text() == text
    # qrels of a person begin like those that are made of them, and have no words of ours
    (folder / "two.csv").write_text("query_id,item_id,ann,bob\nq,a,1,1\nq,b,1,0\n")
    line = ["combine", "two.csv", "--judges", "ann,bob", "--out", "one.qrels"]
    for _ in range(2):  # the same bytes may be written again
        sqlmetrics(*line, folder=folder)
    (folder / "one.qrels").write_text("q 0 a 1\nq 0 b 2\n")
    assert "not written by this command" in sqlmetrics(*line, folder=folder, expect=2).stderr
    assert (folder / "one.qrels").read_text() == "q 0 a 1\nq 0 b 2\n"
    sqlmetrics(*line, "--overwrite", folder=folder)
    (folder / "one.csv").write_text("query_id,item_id,grade,n_judges,share\nq,a,1,9,1\n")
    message = sqlmetrics(*line[:-1], "one.csv", folder=folder, expect=2).stderr
    assert "not written by this command" in message
    # - is stdout, and no file
    printed = sqlmetrics(*EVALUATE.split(), "-", folder=folder).stdout
    assert "mrr" in printed
    assert not (folder / "-").exists()


def test_names_of_the_data_are_no_markup_in_markdown(folder: Path) -> None:
    names = ("<script>alert(1)</script>", "[x](javascript:alert(1))", "a`b", "c|d", "e\\")
    names += ("\\<script>", "[y]\\(javascript:alert(2))", "\\|f", "\\`g")
    rows = [f'"{name}",q1,{item},{score}' for name in names for item, score in ("a1", "b2")]
    (folder / "odd.csv").write_text("system,query_id,item_id,score\n" + "\n".join(rows) + "\n")
    (folder / "odd.yml").write_text(SPEC.replace("runs.csv", "odd.csv"))
    texts = [
        sqlmetrics(*line.split(), folder=folder).stdout
        for line in (
            "evaluate odd.csv labels.csv -m mrr --system system -o markdown",
            "evaluate odd.csv labels.csv -m mrr --system system --per-query -o markdown",
            "compare odd.csv labels.csv -m mrr --system system -o markdown",
            "evaluate odd.csv labels.csv -m mrr --system system --tie-audit -o markdown",
        )
    ]
    sqlmetrics("report", "odd.yml", "--out", "odd.md", folder=folder)
    report = (folder / "odd.md").read_text(encoding="utf-8")
    for text in [*texts, report.removeprefix("<!-- sqlmetrics report -->")]:
        unescaped = re.sub(r"\\.", "_", text)  # what a backslash makes a plain character
        assert not re.search(r"<[A-Za-z/!?]|\]\(", unescaped), text
        for table in re.findall(r"(?:^\|.*\n?)+", unescaped, re.M):
            assert len({line.count("|") for line in table.splitlines()}) == 1, table
    assert "\\<script>alert(1)" in texts[0]


def test_an_export_reads_files_from_the_project(folder: Path) -> None:
    """Its paths start from the folder where dbt runs, wherever the export was called."""
    dated = RUNS.replace("score", "score,day").replace("\n", ",2026-01-01\n")
    dated = dated.replace("day,2026-01-01", "day", 1)
    (folder / "data").mkdir()
    (folder / "data" / "dated.csv").write_text(dated)
    text = SPEC.replace("runs.csv", "data/dated.csv").replace("system}", "system, date: day}")
    (folder / "dated.yml").write_text(text)
    for tool, project in (("dbt", "warehouse/shop"), ("sqlmesh", "mesh")):
        message = sqlmetrics("export", tool, "dated.yml", "--out", project, folder=folder).stderr
        assert ("warehouse/shop has no dbt_project.yml" in message) == (tool == "dbt")
        models = "\n".join(path.read_text() for path in (folder / project).rglob("*.sql"))
        paths = {*re.findall(r"'(\S+\.csv)'", models)}
        assert {(folder / project / path).resolve() for path in paths} == {
            folder / "data" / "dated.csv",
            folder / "labels.csv",
        }
    (folder / "warehouse" / "shop" / "dbt_project.yml").write_text("name: shop\n")
    completed = sqlmetrics("export", "dbt", "dated.yml", "--out", "warehouse/shop", folder=folder)
    assert "has no dbt_project.yml" not in completed.stderr


def test_lists_fit_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlmetrics.tables.table.terminal_width", lambda: 80)
    for kind in ("metrics", "online", "presets", "options", "dialects", "exports"):
        lines = sqlmetrics("list", kind, folder=folder).stdout.splitlines()
        assert max(map(len, lines)) <= 80, kind


def test_a_folder_of_which_a_part_cannot_be_moved_is_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails at each of the moves, over an older folder and where there was none."""
    real = os.replace
    for line in (command_line for command_line in FOLDERS if "demo" not in command_line):
        target = folder / {"compile": "job", "export": "models", "simulate": "log"}[line.split()[0]]
        for was_there in (True, False):
            if was_there:
                sqlmetrics(*line.split(), folder=folder)
            before = contents(folder)
            for last in range(1, 2 if "export" in line else 5):
                moves = iter(range(1, 100))

                def failing(old: Path, new: Path, last: int = last, moves: Any = moves) -> None:
                    if next(moves) == last:
                        raise OSError(errno.ENOSPC, "No space left on device")
                    real(old, new)

                with monkeypatch.context() as patch:
                    patch.setattr(os, "replace", failing)
                    message = sqlmetrics(*line.split(), folder=folder, expect=3).stderr
                assert "No space left on device" in message
                assert contents(folder) == before
            if was_there:
                assert [path for path in target.iterdir() if path.name.startswith(".")] == []
                shutil.rmtree(target)
            assert not target.exists()


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
        message = sqlmetrics(*line, folder=folder, expect=3).stderr
    assert message == "error: cannot write 'o.json': File too large\n"
    assert contents(folder) == before
    for words in WRITERS:
        ending = WRITERS[words].split()[0]
        line = [*words.split(), f"runs.csv/{ending}.{ending}"]  # below what is no folder
        message = sqlmetrics(*line, folder=folder, expect=3).stderr
        assert "error: cannot write" in message, line
    for words in FOLDERS:
        *first, target = words.split() if "simulate" not in words else ["simulate", "log"]
        message = sqlmetrics(*first, f"runs.csv/{target}", folder=folder, expect=3).stderr
        assert "error: cannot write" in message, words
