"""The gallery: each picture of a report from data with a planted regression, made anew.

`UPDATE_GOLDEN=1 pytest -m "long or not long"` with this file writes the page, and its pictures
where the extra `report` is installed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparison.report_world import month

import sqlmetrics as sm
from sqlmetrics.comparison.page.charts import standing
from sqlmetrics.comparison.page.picture import Mover
from sqlmetrics.comparison.page.pictures import LATER, MAKERS
from sqlmetrics.comparison.page.words import Words

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "pictures" / "report"
NAMES = [*(one.__name__ for one in MAKERS + LATER), "contributions", "funnel"]

HEAD = """\
# The pictures of a report

<!-- tests/comparison/test_report_gallery.py writes this page anew -->
Each picture that [report](report.md) draws, with what to look for. The data are simulated: a month
of two systems of which the new one got worse for one country on the ninth day, and a week of a
click log. A picture that has nothing to say is left out of a report; `sqlmetrics plot NAME` draws
one by itself.

The report of the month begins so:

> {headline}
"""


def test_each_picture_is_in_the_gallery() -> None:
    text = PAGE.read_text(encoding="utf-8")
    there = re.findall(r"^`sqlmetrics plot ([\w-]+)`", text, re.MULTILINE)
    assert {one.partition("-")[0] for one in there} == {*NAMES}
    for name in NAMES:
        assert f"## {Words()(f'{name}.title')}" in text
        assert Words()(f"{name}.look") in text
    for drawn in re.findall(r"\(pictures/report/(\S+)\)", text):
        assert (PICTURES / drawn).is_file()
    assert {file.name for file in PICTURES.iterdir()} == set(re.findall(r"[\w-]+\.svg", text))


@pytest.mark.long
def test_the_gallery_is_current(tmp_path: Path) -> None:
    reports = _reports(tmp_path)
    fresh = "\n".join(_page(reports)).rstrip() + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(fresh, encoding="utf-8")
        if find_spec("vl_convert"):
            _draw(reports)
    assert PAGE.read_text(encoding="utf-8") == fresh


def _reports(folder: Path) -> list[sm.Report]:
    """Of the month, of one system alone, and of a click log."""
    rankings, labels = month(planted=True, a_day=60)
    asked = {"date": "ds", "by": "country"}
    metrics = ["ndcg@5", "recall@3", "mrr", "hit@1"]
    deploys = pa.table({"day": ["2026-11-09", "2026-11-20"], "name": ["ranker 2", "new index"]})
    both = sm.report(
        rankings, labels, metrics, baseline="old", margin=0.01, deploys=deploys, **asked
    )
    few = labels.filter(pc.match_substring_regex(labels["item_id"], "i[0-8]"))
    alone = rankings.filter(pc.equal(rankings["system"], "new"))
    rounded = pc.round(alone["score"], 0)
    alone = alone.set_column(alone.column_names.index("score"), "score", rounded)
    single = sm.report(alone, few, metrics, **asked)
    funnel = sm.report(sm.funnel(_stages(alone), labels, date="ds"))
    sm.simulate(folder / "log", requests=6_000, queries=60, users=2_000, seed=3)
    columns = {"request": "request_id", "item": "item_id", "time": "shown_at", "user": "user_id"}
    impressions = {
        "file": str(folder / "log" / "impressions.parquet"),
        "columns": columns | {"query": "query", "position": "position", "system": "system"},
    }
    events = {
        "file": str(folder / "log" / "events.parquet"),
        "columns": {"request": "request_id", "item": "item_id", "action": "action"}
        | {"dwell": "dwell", "time": "happened_at"},
    }
    labelled = {"grades": {"click": 1, "purchase": 3}}
    clicks = {"impressions": impressions, "events": events, "labels": labelled}
    asked_of_log = ["ndcg@10", "mrr", "ctr@5", "abandonment"]
    log = sm.report(sm.Spec(name="log", clicks=clicks, metrics=asked_of_log, baseline="old"))
    pooled = {"pool": "query_item", "rate": "coee"}
    clicks |= {"labels": pooled, "propensity": {"method": "em"}}
    corrected = sm.report(sm.Spec(name="corrected", clicks=clicks, metrics=["ndcg@10"]))
    return [both, single, funnel, log, corrected]


def _stages(rankings: pa.Table) -> pa.Table:
    """Recall that finds eight of ten items, a ranker that keeps six, and a page of three."""
    rows = rankings.sort_by([("query_id", "ascending"), ("score", "descending")]).to_pylist()
    found: dict[tuple[str, str], int] = {}
    staged = []
    for row in rows:
        is_found = (int(row["query_id"][1:]) + int(row["item_id"][1:])) % 5
        for stage, size in (("recall", 10), ("rank", 6), ("page", 3)):
            place = found.get((row["query_id"], stage), 0)
            if is_found and place < size:
                found[row["query_id"], stage] = place + 1
                staged.append({**row, "stage": stage})
    return pa.Table.from_pylist(staged)


def _shown(reports: list[sm.Report]) -> Iterator[tuple[sm.Report, str]]:
    """Each picture once, with the report that it is taken from."""
    seen = set()
    for report in reports:
        for picture in report.pictures:
            if picture.name not in seen:
                seen.add(picture.name)
                yield report, picture.key


def _page(reports: list[sm.Report]) -> Iterator[str]:
    yield HEAD.format(headline=reports[0].headline)
    for report, key in _shown(reports):
        picture = report.plot(key)
        yield f"## {picture.title(report.words)}\n"
        yield f"{picture.sentence(report.words)}\n"
        title = picture.title(report.words)
        yield f"![{title}: {key}](pictures/report/{key}.svg)\n"
        if picture.movers:
            yield f"The first of them, {picture.movers[0].title}:\n"
            yield "\n".join(_lists(picture.movers[0], picture.columns)) + "\n"
        yield f"**What to look for:** {picture.look(report.words)}\n"
        yield f"`sqlmetrics plot {key}`\n"


def _lists(mover: Mover, columns: Sequence[str]) -> Iterator[str]:
    """Both lists of a query as a table of Markdown; on a page lines join their items."""
    yield f"| rank | {columns[1]} | grade | {columns[2]} | grade | moved |"
    yield "|---:|---|---:|---|---:|---|"
    for old, new in zip(*mover.lists, strict=True):
        cells = [new.rank, old.name, f"{old.grade:g}", new.name, f"{new.grade:g}", new.mark]
        yield f"| {' | '.join(map(str, cells))} |"


def _draw(reports: list[sm.Report]) -> None:
    """Write each picture, light or dark as the page is."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for report, key in _shown(reports):
        text = standing(report.plot(key).chart.svg(report.words), key)
        (PICTURES / f"{key}.svg").write_text(text + "\n", encoding="utf-8")
