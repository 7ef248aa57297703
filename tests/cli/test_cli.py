"""The command line as people call it: a process, its streams and its exit code."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from command import sqlmetrics
from documentation import ROOT
from marked import by_turns

from sqlmetrics.cli import cli

pytestmark = by_turns(0.15)

RUN = "q1 Q0 a 1 3.0 tag\nq1 Q0 b 2 2.0 tag\nq2 Q0 c 1 1.0 tag\n"
PICTURES = ROOT / "docs" / "pictures"
QRELS = "q1 0 b 1\nq2 0 c 2\nq3 0 d 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a TREC run and its judgments."""
    (tmp_path / "run.txt").write_text(RUN)
    (tmp_path / "qrels.txt").write_text(QRELS)
    return tmp_path


@by_turns(1.5)
def test_the_command_itself(folder: Path) -> None:
    for arguments, code, message in (
        (["evaluate", "run.txt", "qrels.txt", "-m", "mrr"], 0, ""),
        (["evaluate", "run.txt", "qrels.txt", "-m", "ndgc@10"], 2, "did you mean 'ndcg'?"),
    ):
        completed = subprocess.run(
            [sys.executable, "-m", "sqlmetrics", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == code, completed.stderr
        assert message in completed.stderr
        assert "Traceback" not in completed.stderr


def test_a_table_by_default(folder: Path) -> None:
    out = sqlmetrics("evaluate", "run.txt", "qrels.txt", "-m", "mrr", folder=folder).stdout
    assert out.splitlines()[:2] == [
        "system     mrr  queries  missing",
        "tag     0.5000        3        1",
    ]


def test_json_has_the_rows_of_the_summary(folder: Path) -> None:
    out = sqlmetrics(
        "evaluate", "run.txt", "qrels.txt", "-m", "mrr", "-m", "P_1", "-o", "json", folder=folder
    )
    rows = json.loads(out.stdout)
    assert [(row["metric"], row["k"], row["value"]) for row in rows] == [
        ("mrr", 0, 0.5),
        ("precision", 1, pytest.approx(1 / 3, rel=1e-15)),
    ]


def test_csv_and_per_query(folder: Path) -> None:
    out = sqlmetrics(
        "evaluate", "run.txt", "qrels.txt", "-m", "mrr", "--per-query", "-o", "csv", folder=folder
    )
    assert list(csv.DictReader(io.StringIO(out.stdout))) == [
        {"system": "tag", "query_id": "q1", "mrr": "0.5"},
        {"system": "tag", "query_id": "q2", "mrr": "1.0"},
        {"system": "tag", "query_id": "q3", "mrr": "0.0"},
    ]


def test_parquet_needs_a_file(folder: Path) -> None:
    line = ["evaluate", "run.txt", "qrels.txt", "-m", "mrr", "-o", "parquet"]
    message = sqlmetrics(*line, folder=folder, expect=2).stderr
    assert message == "error: parquet is written to a file: name it with --out FILE\n"
    sqlmetrics(*line, "--out", "m.parquet", folder=folder)
    assert pq.read_table(folder / "m.parquet")["value"].to_pylist() == [0.5]


def test_several_means_side_by_side(folder: Path) -> None:
    line = ["-m", "mrr", "-c", "average_over=labels,hits", "-o", "json"]
    out = sqlmetrics("evaluate", "run.txt", "qrels.txt", *line, folder=folder).stdout
    assert {row["metric"]: (row["value"], row["n_queries"]) for row in json.loads(out)} == {
        "mrr": (0.5, 3),
        "mrr(average_over=hits)": (0.75, 2),
    }


def test_a_gain_table(folder: Path) -> None:
    line = ["-m", "dcg@1", "-c", "gain={1: 10, 2: 5}", "--per-query", "-o", "json"]
    out = sqlmetrics("evaluate", "run.txt", "qrels.txt", *line, folder=folder).stdout
    assert [row["dcg_at_1"] for row in json.loads(out)] == [0.0, 5.0, 0.0]


def test_tables_of_a_database(folder: Path) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("create table runs as select 'q' as q, 'a' as item_id, 1 as score")
        connection.execute("create table truth as select 'q' as qid, 'a' as item_id, 1 as grade")
    line = ["runs", "truth", "--db", "shop.duckdb", "--query", "q", "--label-column", "query=qid"]
    out = sqlmetrics("evaluate", *line, "-m", "mrr", folder=folder).stdout
    assert out.splitlines()[1].split() == ["runs", "1.0000", "1"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["evaluate", "run.txt", "qrels.txt", "-m", "ndgc@10"], 2, "did you mean 'ndcg'?"),
        (["evaluate", "no.txt", "qrels.txt", "-m", "mrr"], 2, "no file or table 'no.txt'"),
        (["evaluate", "run.txt", "qrels.txt", "-m", "mrr", "-c", "ties"], 2, "NAME=VALUE"),
        (["evaluate", "run.txt", "qrels.txt", "-m", "mrr", "-c", "tie=x"], 2, "mean 'ties'?"),
        (["evaluate", "run.txt", "qrels.txt", "-m", "mrr", "--preset", "trec"], 2, "'trec_eval'?"),
        (
            ["evaluate", "run.txt", "qrels.txt"],
            2,
            "no metric to compute; name some, like -m ndcg@10",
        ),
        (["evaluate", "run.txt", "-m", "mrr"], 2, "no labels are given, and the columns query_id"),
        (["evaluate", "runs", "truth", "--db", "no.duckdb", "-m", "mrr"], 2, "no database file"),
        (["evaluate", "run.txt", "qrels.txt", "-m", "mrr", "--out", "no/x"], 3, "cannot write"),
        (["compile", "no.yml"], 2, "cannot read the spec"),
        (["evalute"], 2, "No such command"),
        (["build", "s.yml", "--dry-run"], 2, "sqlmetrics run SPEC --dry-run"),
    ],
)
def test_errors_are_one_message_and_a_code(
    folder: Path, arguments: list[str], code: int, message: str
) -> None:
    completed = sqlmetrics(*arguments, folder=folder, expect=code)
    assert message in completed.stderr
    assert completed.stdout == ""


@by_turns(0.8)
def test_debug_shows_the_traceback(folder: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "sqlmetrics", "compile", "no.yml", "--debug"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    assert "Traceback" in completed.stderr


def test_compile_prints_sql_that_runs(folder: Path) -> None:
    spec = "rankings: {file: run.txt}\nlabels: {file: qrels.txt}\nmetrics: [mrr, ndcg@3]\n"
    (folder / "search.yml").write_text(spec)
    printed = sqlmetrics("compile", "search.yml", folder=folder).stdout
    with duckdb.connect() as connection:
        text = printed.replace("'run.txt'", f"'{folder}/run.txt'")
        text = text.replace("'qrels.txt'", f"'{folder}/qrels.txt'")
        rows = connection.execute(text).fetchall()
        names = [column[0] for column in connection.description or ()]
    mine = {row[names.index("metric")]: row[names.index("value")] for row in rows}
    assert mine["mrr"] == 0.5
    assert {row[0] for row in rows} == {"search"}


@pytest.mark.parametrize("kind", ["metrics", "presets", "options", "dialects"])
def test_list(folder: Path, kind: str) -> None:
    from sqlmetrics.cli import learn

    out = sqlmetrics("list", kind, folder=folder).stdout
    rows = learn.table(kind).rows
    assert len(out.splitlines()) == len(rows) + 1
    assert all(row[1] in out for row in rows)


PLANTED_CLICKS = {
    "bot": "bot",
    "early": "before the impression",
    "hurried": "short stay",
    "late": "after the window",
    "orphan": "no impression",
}


def demo(folder: Path) -> str:
    """What the demo says, after a look at all that it makes."""
    out = sqlmetrics("demo", folder=folder).stdout
    demo_folder = folder / "sqlmetrics_demo"
    assert {path.name for path in demo_folder.iterdir()} == {
        "clicks.yml",
        "evaluate.sql",
        "labels.parquet",
        "log",
        "metrics.parquet",
        "per_query.parquet",
        "profiles.yml",
        "rankings.parquet",
        "spec.yml",
    }
    assert re.search(
        r"\nYes: ndcg@10 \+\d+% over all queries. It is the other way round in JP: -\d+%.\n", out
    )
    assert "the largest difference is " in out
    worst = float(out.split("the largest difference is ")[1].split(".\n")[0])
    assert worst < 1e-12
    cleaned = out.split("left out\n")[1].split("system")[0]
    planted = sqlmetrics("simulate", "log", "--requests", "2000", "--days", "3", folder=folder)
    for reason, why in PLANTED_CLICKS.items():  # others are of several actions
        events = re.search(rf"^{reason} +([\d,]+)$", planted.stdout, re.MULTILINE)
        assert events
        assert re.search(rf"click +{why} +{events[1]}\n", cleaned)
    following = re.sub(r"\\\n\s+", "", out.split("Try next:\n")[1]).splitlines()
    assert following[0] == "  cd sqlmetrics_demo"
    for line in following[1:]:
        words = shlex.split(line, comments=True)
        fails = words[1:2] == ["build"]  # its check of countries finds the one that loses
        if words:
            output = sqlmetrics(*words[1:], folder=demo_folder, expect=int(fails)).stdout
            assert "country=JP" in output or not fails
    assert (demo_folder / "bi" / "ranking_metrics.parquet").exists()
    return out


@by_turns(4)
def test_demo_makes_what_it_says(folder: Path) -> None:
    """With fewer queries a day; the plain Python that checks them takes long."""
    terminal = patch.dict("os.environ", {"COLUMNS": "80"})
    with patch("sqlmetrics.cli.demo.A_DAY", 60), terminal:
        output = demo(folder)
    assert "5 days" in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.long
def test_demo_says_what_the_pictures_show(folder: Path) -> None:
    out = demo(folder)
    terminal = runpy.run_path(str(PICTURES / "terminal.py"))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        terminal["write"](out)
    for name in ("light", "dark"):
        picture = (PICTURES / f"demo-{name}.svg").read_text(encoding="utf-8")
        lines: dict[str, str] = {}
        for line, text in re.findall(r"#terminal-line-(\d+)\)\">(.*?)</text>", picture):
            lines[line] = lines.get(line, "") + html.unescape(text)
        picture_lines = [*filter(None, ("".join(line.split()) for line in lines.values()))]
        output_lines = [*filter(None, ("".join(line.split()) for line in terminal["shown"](out)))]
        # the last line has the largest difference, which the order of a parallel sum decides
        assert picture_lines[:-1] == output_lines[:-1]
        assert all(
            line[-1].startswith("thelargestdifferenceis") for line in (picture_lines, output_lines)
        )


HEAVY = {"numpy", "pandas", "pyarrow", "rich", "sqlglot", "yaml"}
"""What takes long to import, and small files do without."""

ENGINE = {"duckdb", "jinja2", "pydantic"}
"""What every evaluation needs."""

OF_LOGS = {"sqlmetrics.spec.click_log", "sqlmetrics.clicks"}
OF_FEW = {
    *("sqlmetrics.cli.spec", "sqlmetrics.evaluation.inputs.traces"),
    *("sqlmetrics.clicks.counterfactual", "sqlmetrics.clicks.propensity.estimate"),
}
"""What few evaluations ask for."""

OF_SPECS = {*HEAVY, *OF_LOGS, *OF_FEW} - {"sqlmetrics.cli.spec", "yaml"}
"""What a spec without a click log does without."""

COMMAND = "import sqlmetrics.cli; sqlmetrics.cli.main()"
CLICKS = """
log = {
    "impressions": {"file": "shown.csv"},
    "events": {"file": "events.csv"},
    "cleaning": {"test": "is_test = 1"},
}
spec = sm.Spec(clicks=log, metrics=["ndcg@10", "ctr@1"])
print(sm.evaluate_clicks(spec, per_query=False))
"""
JOB = """
rankings: {file: runs.csv}
labels: {file: labels.csv}
metrics: [ndcg@10]
output: {relation: metrics, per_query: query_metrics}
checks: [{metric: ndcg@10, min: 0.1}]
"""


@by_turns(1.5)
@pytest.mark.parametrize(
    ("line", "code", "none_of"),
    [
        ("", "", {*ENGINE, *HEAVY}),
        ("--help", COMMAND, {"sqlmetrics.cli.evaluate", *ENGINE, *HEAVY}),
        (
            "evaluate runs.csv labels.csv -m ndcg@10,auc --by system --where system<>'y'",
            COMMAND,
            HEAVY | OF_LOGS | OF_FEW,
        ),
        ("", CLICKS, HEAVY | OF_FEW),
        ("compile spec.yml", COMMAND, OF_SPECS),
        ("build spec.yml --db metrics.duckdb", COMMAND, OF_SPECS),
    ],
    ids=["import", "help", "evaluate", "click log", "compile", "build"],
)
def test_a_cold_start_imports_what_it_needs(
    line: str, code: str, none_of: set[str], folder: Path
) -> None:
    (folder / "runs.csv").write_text("query_id,item_id,score,system\nq,a,2,x\nq,b,1,x\n")
    (folder / "labels.csv").write_text("query_id,item_id,grade\nq,b,1\n")
    (folder / "shown.csv").write_text("request_id,item_id,position,is_test\nr,a,1,0\nr,b,2,0\n")
    (folder / "events.csv").write_text("request_id,item_id,action\nr,b,click\n")
    (folder / "spec.yml").write_text(JOB)
    code = (
        "import atexit, sys, sqlmetrics as sm\n"
        f"sys.argv = ['sqlmetrics', *{line.split()}]\n"
        f"late = lambda: print('too many:', {none_of} & set(sys.modules), file=sys.stderr)\n"
        f"atexit.register(late)\n{code}\n"
    )
    run = [sys.executable, "-c", code]
    completed = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr.splitlines()[-1] == "too many: set()"


@pytest.mark.parametrize(("main", "code"), [("None", 0), ("sys.exit(4)", 4)])
def test_the_process_ends_at_once_but_for_what_others_still_do(main: str, code: int) -> None:
    """A success is not taken apart object by object; a failure ends as Python has it."""
    text = (
        "import atexit, sys, sqlmetrics.__main__ as process\n"
        "class Imported:\n"
        "    def __del__(self): print('taken apart')\n"
        "kept = Imported()\n"
        "def main():\n"
        "    atexit.register(print, 'others first')\n"
        f"    print('numbers', end=' '); {main}\n"
        "process.main = main\n"
        "process.process()\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False
    )
    assert completed.returncode == code, completed.stderr
    assert completed.stdout == "numbers others first\n" + ("taken apart\n" if code else "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
@pytest.mark.parametrize(("out", "code"), [("> /dev/full", 3), ("| true", 0)])
def test_an_output_that_cannot_be_written_is_told_in_one_line(out: str, code: int) -> None:
    """None is told where the reader has gone."""
    command = f"set -o pipefail; '{sys.executable}' -m sqlmetrics explain ndcg@10 {out}"
    run = ["bash", "-c", command]
    completed = subprocess.run(run, capture_output=True, text=True, check=False)
    message = "error: cannot write the output: No space left on device\n"
    assert (completed.returncode, completed.stderr) == (code, message if code else "")


def test_queries_conditions_and_grades_that_are_texts(folder: Path) -> None:
    (folder / "runs.csv").write_text(
        "query_id,item_id,score,bot\nq1,a,2,0\nq1,b,1,0\nq2,c,1,0\nq3,d,1,1\n"
    )
    (folder / "truth.csv").write_text("query_id,item_id,grade\nq1,b,high\nq2,c,none\nq3,d,high\n")
    (folder / "queries.csv").write_text("query_id,tier,w\nq1,head,3\nq2,tail,1\nq3,tail,1\n")
    line = ["runs.csv", "truth.csv", "-m", "mrr", "--queries", "queries.csv", "--by", "tier"]
    line += ["--weight", "w", "--where", "bot = '0'", "--grades", "high=3", "--grades", "none=0"]
    out = sqlmetrics("evaluate", *line, "-o", "json", folder=folder).stdout
    values = {row["segment_value"]: row["value"] for row in json.loads(out)}
    assert values == {"all": 3 * 0.5 / 5, "head": 0.5, "tail": 0.0}
    refused = sqlmetrics("evaluate", *line, "--grades", "mid=x", folder=folder, expect=2)
    assert "--grades takes TEXT=NUMBER" in refused.stderr


SPEC = """
rankings: {file: runs.csv, columns: {score: score, system: model, date: day}}
labels: {file: truth.csv}
metrics: [ndcg@10, mrr]
output: {relation: metrics}
checks: [{metric: mrr, min: 0.6, confidence: 0.9}, {metric: mrr, max: 1}]
"""
RUNS = "day,model,query_id,item_id,score\n2026-01-01,a,q,x,2\n2026-01-01,a,q,y,1\n"


@by_turns(0.8)
def test_a_spec_is_shown_run_and_checked(tmp_path: Path) -> None:
    (tmp_path / "spec.yml").write_text(SPEC)
    (tmp_path / "runs.csv").write_text(RUNS + RUNS.partition("\n")[2].replace("a,q", "b,q"))
    (tmp_path / "truth.csv").write_text("query_id,item_id,grade\nq,y,1\n")
    output = sqlmetrics("show", "spec.yml", "-o", "csv", folder=tmp_path).stdout
    assert output == sqlmetrics("evaluate", "spec.yml", "-o", "csv", folder=tmp_path).stdout
    assert output.count(",mrr,") == 2
    refused = sqlmetrics("evaluate", "spec.yml", "-m", "mrr", "-q", folder=tmp_path, expect=2)
    assert "--metric: a spec says this itself; write it in the spec" in refused.stderr
    assert not [*tmp_path.glob("*.duckdb")]
    database_options = ("--db", str(tmp_path / "new.duckdb"))
    completed = sqlmetrics("build", "spec.yml", *database_options, folder=tmp_path, expect=1)
    assert re.search(
        r"ndcg@10 on 2026-01-01: 0\.6309 a, 0\.6309 b; \d+\.\d s$", completed.stderr, re.M
    )
    assert completed.stdout.count("FAILED  ") == completed.stdout.count("FAILED: ") == 2  # and why
    assert completed.stdout.count("no interval") == 4  # of one query
    assert "2 of 4 checks hold" in completed.stderr
    quiet = sqlmetrics("-q", "build", "spec.yml", *database_options, folder=tmp_path, expect=1)
    assert (quiet.stdout.splitlines()[:3], quiet.stderr) == (completed.stdout.splitlines()[:3], "")
    assert quiet.stdout.count("FAILED: ") == 2
    versions = sqlmetrics("debug", *database_options, folder=tmp_path).stdout
    assert re.search(r"DuckDB +\d|database +DuckDB \d", versions)


def test_the_help_has_every_command_once_and_whole() -> None:
    help_text = CliRunner().invoke(cli, ["-h"]).stdout
    lines = re.findall(r"^  ([a-z-]+)  +(\S.*)$", help_text.partition("Look at numbers")[2], re.M)
    assert sorted(name for name, _ in lines) == sorted(cli.commands)
    assert [line for _, line in lines if line[-1] != "." or len(line) > 64] == []
    assert CliRunner().invoke(cli, ["-V"]).stdout.startswith("sqlmetrics, version")


@pytest.mark.parametrize("kind", ["metrics", "online", "presets", "options", "dialects"])
def test_a_list_fits_the_terminal(kind: str) -> None:
    """Where its columns do not fit, the rest of a row stands behind the first one."""
    narrow = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["list", kind]).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    wide = CliRunner(env={"COLUMNS": "1000"}).invoke(cli, ["list", kind]).stdout
    words = {word.strip(";,") for word in wide.split("\n", 1)[1].split()}
    assert words <= {word.strip(";,") for word in narrow.split()}
