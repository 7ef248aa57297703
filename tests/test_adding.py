"""What CONTRIBUTING says of adding things: so many places make each work, and nothing else.

Each addition is made in a copy of the package, and all are used by one process that knows of
nothing but the command line and the public names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from marked import by_turns

ROOT = Path(__file__).resolve().parent.parent

METRIC = """{#
title = "Attention"
formula = "sum of 1 / rank over the top k"
range = "0 or more"
better = "none"
cutoff = "optional"
over = "ranked"
every_item = true
empty = "an empty list gives 0"
source = "made up"
#}
sum({{ m.in_top("1e0 / rnk") }})
"""
REFERENCE = '''

def attention(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Sum of 1 / rank in the top k."""
    return math.fsum(1 / rank for rank in range(1, len(grades[:k]) + 1))
'''
CHOICE = """Choice("square", "1 / rank^2", "1e0 / ({rank} * {rank})",
    weight=lambda rank: 1 / rank**2),
"""
ROW = 'Dialect("cockroach", "CockroachDB", "postgres"),'
ENGINE = '''"""Quack: DuckDB by another name."""
from sqlmetrics.engines.duckdb import DuckDB


class Quack(DuckDB):
    """A connection of Quack."""

    dialect = "quack"
    name = "Quack"
'''
ENGINE_ROW = """EngineInfo(
    module="quack",
    engine="Quack",
    schemes=("quack",),
    extra="",
    objects=("quack",),
    sample="quack://",
),
"""
ONLINE = """OnlineMetric(
    "first_missed",
    "requests whose first item was not clicked, over requests with results",
    "case when n_shown > 0 and coalesce(first_click, 0) <> 1 then 1e0 else 0e0 end",
    "case when n_shown > 0 then 1e0 else 0e0 end",
    "lower",
    "share",
),
"""
EXPORT = '''"""A page of a wiki."""
from sqlmetrics.jobs.exports.target import Target


def files(target: Target) -> dict[str, str]:
    """The page."""
    return {"metrics.md": f"# {target.spec.title}"}
'''
VERB = '''"""`sqlmetrics hello`."""
import click


@click.command()
def hello_command() -> None:
    """Say hello."""
    click.echo("hello, search")
'''

PLACES = {
    "metric": {
        "templates/metrics/attention.sql.jinja": ("", METRIC),
        "sqlmetrics/proof/reference.py": (r"\n\ndef cg\(", REFERENCE),
    },
    "option": {
        "sqlmetrics/catalog/conventions.py": (r'Choice\(\s*"log2_max2"', CHOICE),
        "sqlmetrics/proof/reference_columns.py": (
            r'    if rule == "log2_max2":',
            '    if rule == "square":\n        return 1.0 / rank**2\n',
        ),
    },
    "preset": {
        "sqlmetrics/catalog/presets.py": (
            r'"house": Preset\(',
            '"shop": Preset("our shop", {"gain": "linear", "ties": "best"}),\n',
        ),
    },
    "dialect": {"sqlmetrics/sql/dialects.py": (r'Dialect\(\s*"athena"', ROW)},
    "engine": {
        "sqlmetrics/sql/dialects.py": (
            r'Dialect\(\s*"athena"',
            'Dialect("quack", "Quack", "duckdb"),\n',
        ),
        "sqlmetrics/engines/quack.py": ("", ENGINE),
        "sqlmetrics/engines/registry.py": (
            r'EngineInfo\(\s*module="sqlite"',
            ENGINE_ROW,
        ),
    },
    "export": {
        "sqlmetrics/jobs/exports/wiki.py": ("", EXPORT),
        "sqlmetrics/jobs/exports/formats.py": (
            r'Format\(\s*name="sqlmesh"',
            'Format(name="wiki", title="the wiki", about="A page.", module="wiki"),\n',
        ),
    },
    "online metric": {
        "sqlmetrics/catalog/online.py": (r'OnlineMetric\(\s*"abandonment"', ONLINE),
    },
    "click label": {
        "sqlmetrics/clicks/labels.py": (
            '"coec": Over',
            '"unclicked": Over("(n_impressions - n_clicks)", "n_impressions"),\n',
        ),
        "sqlmetrics/spec/click_log.py": (r'"coec", "purchase_rate", "ips"', '"unclicked", '),
    },
    "command": {
        "sqlmetrics/cli/hello.py": ("", VERB),
        "sqlmetrics/cli/__init__.py": (r'"debug": \(', '"hello": ("hello", "Say hello."),\n'),
    },
}
"""What is added -> each file -> before what, and what; a new file stands before nothing."""

USE = """
import duckdb
import sqlmetrics as sm

scores = {"a": 3, "b": 2, "c": 1}
order = [{"query_id": "q", "item_id": item, "score": score} for item, score in scores.items()]
labels = [{"query_id": "q", "item_id": "b", "grade": 3}]
found = sm.evaluate(order, labels, ["attention@2", "dcg(discount=square)@3"], preset="shop")
print(*(round(value, 4) for value in (found["attention@2"], found["dcg(discount=square)@3"])))

tables = {"rankings": {"relation": "ranked_items"}, "labels": {"relation": "judgments"}}
spec = sm.Spec(metrics=["attention@2", "dcg(discount=square)@3"], **tables)
print("CockroachDB" in sm.compile(spec, "cockroach"))

shop = duckdb.connect()
shop.execute("create table ranked_items as select 'q' query_id, 'b' item_id, 1.0 score")
shop.execute("create table judgments as select 'q' query_id, 'b' item_id, 3 grade")
print(*(one.largest for one in sm.verify(spec, shop)))

shop.execute("create table shown as select * from (values (1, 'x', 'a', 1, false), "
    "(2, 'x', 'a', 1, true)) log(request_id, query, item_id, position, clicked)")
columns = {"request": "request_id", "query": "query", "item": "item_id", "position": "position"}
clicks = {
    "log": {"relation": "shown", "columns": {**columns, "actions": {"click": "clicked"}}},
    "labels": {"pool": "query_item", "rate": "unclicked"},
}
print(sm.evaluate_clicks(sm.Spec(metrics=["dcg(gain=linear)@1"], clicks=clicks), shop))
print(sm.evaluate_clicks(sm.Spec(metrics=["first_missed"], clicks=clicks), shop).to_dicts())
print(sm.evaluate(order, labels, "mrr", connection="quack://")["mrr"])
"""
SPEC = """
name: shop
rankings: {relation: ranked_items}
labels: {relation: judgments}
metrics: mrr
output: {relation: metrics}
"""


def add(folder: Path, file: str, before: str, text: str) -> None:
    """Put a text into a file, before the first place that a pattern finds; at its end: ''."""
    path = folder / file
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        return
    match = re.search(before, path.read_text(encoding="utf-8"))
    assert match, f"{file} has no {before}"
    content = match.string
    path.write_text(content[: match.start()] + text + content[match.start() :], encoding="utf-8")


@by_turns(4)
def test_the_places_that_contributing_names_are_all_there_are(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| an? ([\w ]+?) \| (\d+) \|", page, re.M))
    assert {name: str(len(places)) for name, places in PLACES.items()} == documented
    for folder in ("sqlmetrics", "templates"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for places in PLACES.values():
        for file, (before, text) in places.items():
            add(tmp_path, file, before, text)
    numbers, dialect, differences, *clicks, online, engine = run(tmp_path, "-c", USE).splitlines()
    assert numbers == "1.5 0.75"  # 1 + 1/2; gain 3 at rank 2, which is worth 1/4
    assert dialect == "True"
    assert differences == "0.0 0.0"
    assert "shown               0.5000        2" in clicks  # shown twice, clicked once
    assert "'value': 0.5" in online  # of two requests one has a click, on its first item
    assert engine == "0.5"
    (tmp_path / "shop.yml").write_text(SPEC, encoding="utf-8")
    run(tmp_path, "-m", "sqlmetrics", "export", "wiki", "shop.yml")
    assert (tmp_path / "wiki" / "metrics.md").read_text(encoding="utf-8") == "# shop"
    assert run(tmp_path, "-m", "sqlmetrics", "hello") == "hello, search\n"
    assert "our shop" in run(tmp_path, "-m", "sqlmetrics", "list", "presets")


def run(folder: Path, *arguments: str) -> str:
    """What Python prints where the copy is the package."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    line = [sys.executable, *arguments]
    completed = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout
