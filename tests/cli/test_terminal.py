"""What a terminal shows: no table is wider than it, and colours are for people alone.

The world is the largest that is promised: ten metrics, three systems, four segments, thirty days.
"""

from __future__ import annotations

import io
import random
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from command import sqlmetrics
from marked import by_turns, sliced
from rich.cells import cell_len

import sqlmetrics as sm
from sqlmetrics.catalog.online import online
from sqlmetrics.cli import cli, main
from sqlmetrics.cli.demo import CLICK_SPEC
from sqlmetrics.cli.options import COMMON, options_by_heading
from sqlmetrics.cli.output import emit_clicks, emit_result
from sqlmetrics.clicks.result import ClickResult, long

MOST_COMMON = 8
"""As many options stand first in the help of a command, without a heading of their own."""

OF_LISTS = ["ndcg@10", "recall@20", "precision@5", "hit@1", "mrr", "ap", "dcg@10"]
METRICS = [*OF_LISTS, "first_rank", "rbp", "num_ret"]
SYSTEMS = ("baseline", "candidate", "a third system with a name")
FIRST = date(2026, 1, 1)
SPEC = {
    "version": 1,
    "name": "a_spec_with_a_longer_name",
    "rankings": {
        "file": "runs.parquet",
        "columns": {"score": "score", "system": "system", "date": "ds"},
    },
    "labels": {"file": "labels.parquet"},
    "metrics": METRICS,
    "by": ["country"],
    "output": {"relation": "ranking_metrics"},
    "checks": [
        {"metric": "ndcg@10", "min": 0.99, "min_queries": 5},
        {"metric": "ap", "max_drop_pct": 10, "segment": {"country": "*"}, "confidence": 0.9},
        {"metric": "ap", "max_drop": 0.01, "against": "baseline", "severity": "warn"},
        {"max_age": 100000, "min_rows": 10},
    ],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables, the specs and a database."""
    folder = tmp_path_factory.mktemp("world")
    chance = random.Random(1)
    labels = [
        {"query_id": f"q{q}", "item_id": f"i{i}", "grade": chance.randrange(4)}
        for q in range(4)
        for i in range(5)
    ]
    rows = [
        {
            "ds": FIRST + timedelta(day),
            "system": system,
            "country": ("DE", "JP", "US", "FR")[q],
            "query_id": f"q{q}",
            "item_id": f"i{i}",
            "score": chance.random(),
        }
        for day in range(30)
        for system in SYSTEMS
        for q in range(4)
        for i in chance.sample(range(5), 3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "runs.parquet")
    pq.write_table(pa.Table.from_pylist(labels), folder / "labels.parquet")
    (folder / "spec.yml").write_text(yaml.safe_dump(SPEC))
    (folder / "clicks.yml").write_text(CLICK_SPEC)
    (folder / "unshown.yml").write_text(CLICK_SPEC.replace("  labels:", f"{UNSHOWN}  labels:"))
    duckdb.connect(str(folder / "shop.duckdb")).close()
    (folder / "experiments.csv").write_text(
        "experiment,metric,difference,standard_error\n"
        + "".join(
            f"e{i},{metric},{(i * 7 % 11 - 5) * (i + position) / 50},0.2\n"
            for i in range(30)
            for position, metric in enumerate(("ctr@5", *METRICS))
        )
    )
    (folder / "uploads" / "a long name of a team").mkdir(parents=True)
    (folder / "uploads" / "a long name of a team" / "run-of-may.txt").write_text("q0 Q0 i1 1\n")
    (folder / "uploads.yml").write_text("track: t\nlabels: labels.parquet\nmetrics: mrr\n")
    sqlmetrics("simulate", "log", "--requests", "200", "--days", "3", folder=folder)
    sqlmetrics("run", "spec.yml", "--db", "shop.duckdb", folder=folder)
    sqlmetrics("sample", "spec.yml", "--size", "2", "--out", "sample.csv", folder=folder)
    return folder


UNSHOWN = """\
  propensity: {method: given, given: {1: 1, 2: 0.5, 3: 0.3}}
  counterfactual:
    rankings: {file: log/impressions.parquet, columns: {item: item_id, rank: position}}
    metrics: [sum_reciprocal_rank@10, clicks@3]
"""
TABLES = "runs.parquet labels.parquet"
OF_A_DAY = f"{TABLES} --where 'ds = 2026-01-01' --system system --date ds"
VERBS: dict[str, int] = {
    "show spec.yml": 0,
    "show spec.yml --per-query --end 2026-01-03": 0,
    "evaluate {day} -m {metrics} --by country": 0,
    "evaluate {day} -m {metrics} --by country -c gain=exp,linear": 0,
    "evaluate {day} -m ndcg@10,mrr --by country --tie-audit": 0,
    "evaluate {day} -m ndcg@10,mrr --by country --abstention": 0,
    "run spec.yml --db shop.duckdb --start 2026-01-30": 0,
    "check spec.yml --db shop.duckdb": 1,
    "build spec.yml --db shop.duckdb --start 2026-01-30": 1,
    "compare spec.yml --by country": 0,
    "diagnose spec.yml": 0,
    "fuse spec.yml --limit 3": 0,
    "fuse spec.yml --sweep": 0,
    "funnel spec.yml --stage-column country --order DE,US,JP": 0,
    "report spec.yml --out - --fresh": 0,
    "debug --db shop.duckdb": 0,
    "runs spec.yml --db shop.duckdb": 0,
    "retire spec.yml --db shop.duckdb": 2,
    "uninstall spec.yml --db shop.duckdb": 2,
    "validate spec.yml": 0,
    "verify spec.yml": 0,
    "reconcile {tables} -m mrr --value .75 --where {one}": 0,
    "estimate spec.yml sample.csv --complete-labels -m {means}": 0,
    "agree a=labels.parquet b=labels.parquet --rankings runs.parquet --system system --date ds": 0,
    "combine a=labels.parquet b=labels.parquet --method dawid_skene": 0,
    "explain ndcg@10": 0,
    "explain ties": 0,
    "leaderboard {day} -m {metrics}": 0,
    "leaderboard {day} -m {metrics} --table pairs": 0,
    "leaderboard {day} -m {metrics} --table topics": 0,
    "leaderboard {day} -m {metrics} --table metrics": 0,
    "leaderboard {day} -m {metrics} --table discrimination": 0,
    "leaderboard {day} -m {metrics} --pool-depth 3 --table contributions": 0,
    "leaderboard {day} -m {metrics} --methods": 0,
    "track uploads.yml": 0,
    "foretell experiments.csv --online ctr@5": 0,
    "clicks clicks.yml": 0,
    "clicks clicks.yml --per-query": 0,
    "clicks depth clicks.yml": 0,
    "clicks days clicks.yml": 0,
    "clicks soundness clicks.yml": 0,
    "clicks models clicks.yml": 0,
    "clicks propensities clicks.yml": 2,
    "clicks counterfactual unshown.yml": 0,
    "simulate another --requests 20": 0,
    "init new.yml": 0,
}
"""Call -> its exit code."""


def called(line: str, folder: Path, expect: int) -> str:
    """What a call prints on stdout; the placeholders stand for words with blanks."""
    day = [*TABLES.split(), "--where", "ds = date '2026-01-01'", "--system", "system", "--date"]
    named = {
        "{day}": [*day, "ds"],
        "{tables}": TABLES.split(),
        "{metrics}": [",".join(METRICS)],
        "{means}": [",".join(METRICS[:-1])],
        "{one}": ["system = 'baseline' and ds = date '2026-01-01'"],
    }
    words = [word for part in line.split() for word in named.get(part, [part])]
    return sqlmetrics(*words, folder=folder, expect=expect).stdout


def widths(text: str) -> int:
    return max((cell_len(line) for line in text.splitlines()), default=0)


@by_turns(5)
@pytest.mark.parametrize("line", sliced("terminal", 0.5, VERBS))
def test_no_table_is_wider_than_the_terminal(
    line: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = called(line, world, VERBS[line])
    assert widths(output) <= 80, output


def test_every_verb_that_prints_is_looked_at() -> None:
    """`list` and the demo are in test_cli; the others write files, SQL, messages or nothing."""
    tested = {line.split()[0] for line in VERBS}
    exempt = {
        "list",
        "demo",
        "compile",
        "export",
        "plot",
        "install",
        "mcp",
        "metric",
        "doctor",
        "gate",
        "grants",
        "restore",
        "sample",
        "sheet",
        "sheet-import",
    }
    assert tested | exempt == set(cli.commands)
    for name, command in cli.commands.items():
        context = cli.make_context("sqlmetrics", [name, "-h"], resilient_parsing=True)
        context.terminal_width = 80
        assert widths(command.get_help(context)) <= 80, name
        groups = options_by_heading(command, context)
        assert len(groups.get(COMMON, ())) <= MOST_COMMON, f"{name}: give options a heading"
        options = [option for group in groups.values() for option in group]
        assert [option.opts for option in options if not option.help] == [], name


def result(days: int = 1, **arguments: Any) -> Any:
    """An evaluation of a few rows; `new` is better, and has a day more than `old`."""
    grades = {"old": ["a", "b"], "new": ["b", "a"]}
    rows = [
        {
            "q": "q",
            "item_id": item,
            "score": -position,
            "system": system,
            "ds": FIRST + timedelta(day),
        }
        for system, items in grades.items()
        for day in range(days if system == "new" else max(days - 1, 1))
        for position, item in enumerate(items)
    ]
    table = pa.Table.from_pylist(rows)
    labels = pa.table({"q": ["q"], "item_id": ["b"], "grade": [1]})
    evaluate_arguments = {
        "query": "q",
        "system": "system",
        "metrics": ["mrr", "first_rank", "num_ret"],
    } | arguments
    return sm.evaluate(table, labels, **evaluate_arguments)


class Terminal(io.StringIO):
    """A text that says it is a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def on_terminal(result: Any, out: str | None = None) -> str:
    """What a result looks like on a terminal."""
    with redirect_stdout(Terminal()) as terminal:
        emit_result(result, False, "table", out)
    return terminal.getvalue()


BOLD = re.compile(r"\x1b\[1m([^\x1b]*)\x1b\[0m")


def test_the_best_is_bold_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By each metric's direction; a count is neither good nor bad."""
    for name, value in (("COLUMNS", "80"), ("TERM", "xterm"), ("NO_COLOR", "")):
        monkeypatch.setenv(name, value)
    evaluation = result()
    output = on_terminal(evaluation)
    assert [cell.strip() for cell in BOLD.findall(output)] == ["1.0000", "1.0000"]
    assert [line for line in output.splitlines() if "\x1b" in line] == output.splitlines()[1:2]
    on_terminal(evaluation, str(tmp_path / "out.txt"))
    assert "\x1b" not in (tmp_path / "out.txt").read_text()
    assert "\x1b" not in repr(evaluation)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in on_terminal(evaluation)


@by_turns(0.9)
def test_what_fails_is_red_and_what_warns_yellow(world: Path) -> None:
    spec = sm.Spec.read(world / "spec.yml")
    from sqlmetrics.jobs.checks.report import table

    verdicts = sm.check(spec, duckdb.connect(str(world / "shop.duckdb")))
    output = table(verdicts, styled=True)
    assert "\x1b[1;31mFAILED\x1b[0m" in output
    assert "\x1b[33mwarn" in output
    assert "\x1b" not in table(verdicts)


def test_a_row_over_all_days_and_nothing_that_goes_without_saying() -> None:
    """Sums over sums; a count is a total; a system with fewer days is told."""
    days = str(result(3, date="ds", metrics=["mrr", "num_ret"])).splitlines()
    assert days[0].split() == ["date", "system", "mrr", "num_ret", "queries"]
    assert [line.split() for line in days[6:8]] == [
        ["all", "days", "new", "1.0000", "6", "3"],
        ["all", "days", "old", "0.5000", "4", "2"],
    ]
    assert days[9:] == [
        "the means over all days use different days for each system: new of 3, old of 2"
    ]
    assert str(result()).count("\n") == 2, "nothing skipped, nothing missing, the house"
    assert "conventions: house, rr_of=all" in str(result(rr_of="all", metrics=["mrr"]))


def test_tables_of_clicks_look_like_those_of_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over sums of all days, the best in bold by its direction, a page for notebooks."""
    for name, value in (("COLUMNS", "80"), ("TERM", "xterm"), ("NO_COLOR", "")):
        monkeypatch.setenv(name, value)
    log = {
        "log": {"relation": "log", "columns": {"time": "at"}},
        "daily": True,
        "labels": {"grades": {"click": 1}},
    }
    spec = sm.Spec(clicks=log, metrics=["ctr", "abandonment"])
    sums = {"old": (3.0, 1.0), "<new>": (4.0, 2.0)}
    rows = [
        {
            "metric_date": FIRST + timedelta(day),
            "system": system,
            "segment_name": "all",
            "segment_value": "all",
            "n_requests": 8,
            "ctr_numerator": clicked * (day + 1),
            "ctr_denominator": 10.0 * (day + 1),
            "abandonment_numerator": none,
            "abandonment_denominator": 8.0,
        }
        for day in range(2)
        for system, (clicked, none) in sums.items()
    ]
    long_rows = tuple(long(rows, [online(metric) for metric in spec.online], spec))
    clicks_result = ClickResult(spec, (), {"impressions": (60, 60)}, {"odd": 1}, None, long_rows)
    assert [line.split() for line in str(clicks_result).splitlines()[-7:]] == [
        ["date", "system", "ctr", "abandonment", "requests"],
        *(
            [f"2026-01-0{day}", *line]
            for day in (1, 2)
            for line in (["old", "0.3000", "0.1250", "8"], ["<new>", "0.4000", "0.2500", "8"])
        ),
        ["all", "days", "old", "0.3000", "0.1250", "16"],
        ["all", "days", "<new>", "0.4000", "0.2500", "16"],
    ]
    assert [cell.strip() for cell in BOLD.findall(clicks_result.text(styled=True))] == [
        "0.1250",
        "0.4000",
    ] * 3
    page = clicks_result.html()
    assert clicks_result._repr_html_().endswith(
        page
    )  # behind its picture, where pictures are drawn
    assert "<b>0.4000</b>" in page
    assert "&lt;new&gt;" in page
    assert "odd: 1" in page
    with redirect_stdout(io.StringIO()) as out:
        emit_clicks(clicks_result, "html", None)
    assert out.getvalue() == page + "\n"


@by_turns(1)
def test_the_layout_of_the_fewest_lines_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few metrics stand side by side, many below one another; both where nothing else fits."""
    many = [f"ndcg@{k}" for k in range(1, 12)]
    monkeypatch.setenv("COLUMNS", "80")
    assert str(result()).splitlines()[0].split()[:2] == ["system", "mrr"]
    assert str(result(metrics=many)).splitlines()[0].split() == ["metric", "new", "old", "queries"]
    monkeypatch.setenv("COLUMNS", "200")
    assert str(result(metrics=many)).splitlines()[0].split()[:2] == ["system", "ndcg@1"]
    runs = {f"system {n:02}": {"q": {"a": 1.0, "b": n}} for n in range(30)}
    monkeypatch.setenv("COLUMNS", "60")
    output = str(sm.evaluate(runs, {"q": {"b": 1}}, many))
    assert widths(output) <= 60
    assert output.count("system 07") == 2, "two tables below one another"


@by_turns(1.2)
def test_what_takes_long_has_a_bar_on_a_terminal_alone(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands on stderr and is wiped away; --quiet has none, and stdout is the same."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sqlmetrics.cli.common.WAIT", 0.0)

    def streams(*flags: str) -> tuple[str, str]:
        line = ["sqlmetrics", "estimate", "spec.yml", "sample.csv", "-m", "dcg@10", *flags]
        out, err = io.StringIO(), Terminal()
        with patch.object(sys, "argv", line), redirect_stdout(out), redirect_stderr(err):
            main()
        return out.getvalue(), err.getvalue()

    monkeypatch.chdir(world)
    plain = sqlmetrics("estimate", "spec.yml", "sample.csv", "-m", "dcg@10", folder=world)
    assert "estimating" not in plain.stderr
    output, bar = streams()
    assert output == plain.stdout
    assert "estimating" in bar
    assert streams("--quiet") == (plain.stdout, "")


@by_turns(1.1)
def test_a_narrow_terminal_breaks_texts_and_no_numbers(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = called("check spec.yml --db shop.duckdb", world, 1)
    rules = [line for line in output.splitlines() if line.startswith("ap: ")]
    with_interval = "ap: max_drop_pct 10 against previous, confidence 0.9"
    assert rules == [with_interval, "ap: max_drop 0.01 against baseline"]
    assert "a third system with a name  country=DE" in output
    monkeypatch.setenv("COLUMNS", "50")
    output = called("check spec.yml --db shop.duckdb", world, 1)
    assert widths(output) <= 50
    output = called("compare spec.yml --by country", world, 0)
    assert widths(output) <= 50
    assert "\n%" not in output.replace(" ", "")
    # a metric whose name is long stands above its numbers, as long as these fit
    monkeypatch.setenv("COLUMNS", "70")
    line = "compare spec.yml -m a_long_name_of_a_metric=ndcg@10"
    output = called(line, world, 0)
    assert widths(output) <= 70
    assert "\na_long_name_of_a_metric\n    " in output
    monkeypatch.setenv("COLUMNS", "50")
    assert widths(called(line, world, 0)) <= 50
    # a file is the same whatever the terminal, and whole
    lines = [
        f"{line} -o table",
        f"{line} -o markdown",
        "diagnose spec.yml",
        "clicks depth clicks.yml",
    ]
    for line in lines:
        file_texts = []
        for width in ("50", "200"):
            monkeypatch.setenv("COLUMNS", width)
            called(f"{line} --out written.txt --overwrite", world, 0)
            file_texts.append((world / "written.txt").read_text())
        assert file_texts[0] == file_texts[1]
