"""The metrics of `examples/metrics`, on every engine: their examples, and plain Python beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from documentation import ROOT
from marked import by_turns

from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.engines.database import Database
from sqlmetrics.proof.metric_examples import Outcome, examples_of, outcomes
from sqlmetrics.proof.metric_proof import function_of, prove, worlds
from sqlmetrics.sql.dialects import DIALECTS

EXAMPLES = ROOT / "examples" / "metrics"
FILES = MetricFiles.read(EXAMPLES)

BY_DAY = """{#
formula = "grades, double from 2026-01-03 on, and ten more on the first of January in Germany"
over = "OVER"
functions = {lower = DIALECTS}
PARTS
[queries]
metric_date = "KIND"
market = "text"
priority = "flag"
[[examples]]
list = ["a", "b"]
labels = {a = 3, b = 1}
query = {metric_date = "2026-01-03", market = "de", priority = true}
k = 2
value = LATE
[[examples]]
list = ["a", "b"]
labels = {a = 3, b = 1}
query = {metric_date = "2026-01-01", market = "De"}
k = 2
value = EARLY
#}
"""


def written_by_day(folder: Path) -> None:
    """Metrics that read the day of a query, as a number and a text, over rows of each kind."""
    days = "case when metric_date >= 20456 and priority = 1e0 then 2e0 else 1e0 end"
    market = "case when metric_date = '2026-01-01' and lower(market) = 'de' then 10e0 else 0e0 end"
    templates = {
        "day_ranked": ("ranked", "number", f"sum({{{{ m.in_top('grade') }}}} * {days})", 8, 4),
        "day_labels": ("labels", "text", f"sum(grade + {market})", 4, 24),
        "day_ideal": ("ideal", "text", f"sum(grade / rnk + {market})", 3.5, 23.5),
        "day_shown": ("ideal_shown", "number", f"sum(grade / rnk * {days})", 7, 3.5),
        "day_query": ("query", "text", f"{{{{ m.hits }}}} + {market}", 2, 12),
    }
    for name, (over, kind, sql, late, early) in templates.items():
        text = BY_DAY.replace("OVER", over).replace("KIND", kind)
        text = text.replace("PARTS", '[parts]\nhits = "num_rel_ret"' if over == "query" else "")
        text = text.replace("DIALECTS", str([*DIALECTS]))
        text = text.replace("LATE", f"{late}").replace("EARLY", f"{early}")
        (folder / f"{name}.sql.jinja").write_text(f"{text}{sql}\n")


SLOW = ("spark", "trino")
"""Engines that take seconds for an evaluation: they have one for each metric, and no edges."""


def outcomes_of(files: MetricFiles, database: Database, *, python: bool) -> list[Outcome]:
    """What an engine gives for the examples, at the edges of input, and in random worlds."""
    if database.translation.dialect.name not in SLOW:
        return prove(files, files.metrics, database, python=python)
    results = []
    for metric in files.metrics.values():
        examples = examples_of(metric, files)
        function = function_of(metric) if python else None
        random_worlds = worlds(metric, function, examples) if function else ()
        results += outcomes([*examples, *random_worlds], files, database)
    return results


@by_turns(4)
def test_metrics_of_the_day_and_the_query_are_the_same_everywhere(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLMETRICS_TRUSTED", str(tmp_path))
    written_by_day(tmp_path)
    results = outcomes_of(MetricFiles.read(tmp_path), Database(engine), python=False)
    assert [outcome for outcome in results if outcome.fails] == []


@by_turns(10)
def test_example_metrics_are_the_same_everywhere(engine: Any) -> None:
    database = Database(engine)
    results = outcomes_of(FILES, database, python=True)
    assert [outcome for outcome in results if outcome.fails] == []
    refused = {outcome.example.name for outcome in results if outcome.refusal}
    edges = {"an item twice", "a grade that is NULL"}
    assert refused == (set() if database.translation.dialect.name in SLOW else edges)
    random_worlds = [outcome for outcome in results if outcome.example.is_random]
    assert {outcome.example.measure.metric.name for outcome in random_worlds} == {*FILES.metrics}
