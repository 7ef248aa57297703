"""The gallery: each picture of a report from data with a planted regression, made anew.

`UPDATE_GOLDEN=1 pytest -m "long or not long"` with this file writes the page, and its pictures
where the extra `report` is installed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparison.report_world import month

import sqlmetrics as sm
from sqlmetrics.comparison.page.content import Words, number, percent, signed
from sqlmetrics.comparison.page.picture import NARROW, WIDE, Mover, Picture, standing
from sqlmetrics.comparison.page.report import LATER, MAKERS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "pictures" / "report"
NAMES = [*(maker.__name__ for maker in MAKERS + LATER), "contributions", "funnel"]

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
    keys = re.findall(r"^`sqlmetrics plot ([\w-]+)`", text, re.MULTILINE)
    assert {key.partition("-")[0] for key in keys} == {*NAMES}
    for name in NAMES:
        assert f"## {Words()(f'{name}.title')}" in text
        assert Words()(f"{name}.look") in text
    for file_name in re.findall(r"\(pictures/report/(\S+)\)", text):
        assert (PICTURES / file_name).is_file()
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
    options = {"date": "ds", "by": "country"}
    metrics = ["ndcg@5", "recall@3", "mrr", "hit@1"]
    deploys = pa.table({"day": ["2026-11-09", "2026-11-20"], "name": ["ranker 2", "new index"]})
    compared = sm.report(
        rankings, labels, metrics, baseline="old", margin=0.01, deploys=deploys, **options
    )
    few = labels.filter(pc.match_substring_regex(labels["item_id"], "i[0-8]"))
    alone = rankings.filter(pc.equal(rankings["system"], "new"))
    rounded = pc.round(alone["score"], 0)
    alone = alone.set_column(alone.column_names.index("score"), "score", rounded)
    single = sm.report(alone, few, metrics, **options)
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
    log_metrics = ["ndcg@10", "mrr", "ctr@5", "abandonment"]
    log = sm.report(sm.Spec(name="log", clicks=clicks, metrics=log_metrics, baseline="old"))
    pooled = {"pool": "query_item", "rate": "coee"}
    clicks |= {"labels": pooled, "propensity": {"method": "em"}}
    corrected = sm.report(sm.Spec(name="corrected", clicks=clicks, metrics=["ndcg@10"]))
    return [compared, single, funnel, log, corrected]


def _stages(rankings: pa.Table) -> pa.Table:
    """Recall that finds eight of ten items, a ranker that keeps six, and a page of three."""
    rows = rankings.sort_by([("query_id", "ascending"), ("score", "descending")]).to_pylist()
    counts: dict[tuple[str, str], int] = {}
    staged = []
    for row in rows:
        is_found = (int(row["query_id"][1:]) + int(row["item_id"][1:])) % 5
        for stage, size in (("recall", 10), ("rank", 6), ("page", 3)):
            rank = counts.get((row["query_id"], stage), 0)
            if is_found and rank < size:
                counts[row["query_id"], stage] = rank + 1
                staged.append({**row, "stage": stage})
    return pa.Table.from_pylist(staged)


def _each_picture(reports: list[sm.Report]) -> Iterator[tuple[sm.Report, str]]:
    """Each picture once, with the report that it is taken from."""
    names = set()
    for report in reports:
        for picture in report.pictures:
            if picture.name not in names:
                names.add(picture.name)
                yield report, picture.key


def _page(reports: list[sm.Report]) -> Iterator[str]:
    yield HEAD.format(headline=reports[0].headline)
    for report, key in _each_picture(reports):
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
    for report, key in _each_picture(reports):
        text = standing(report.plot(key).chart.svg(report.words), key)
        (PICTURES / f"{key}.svg").write_text(text + "\n", encoding="utf-8")


# -- what is drawn, beside what the tables say ----------------------------------------------


@pytest.mark.long
def test_each_chart_draws_what_its_table_says(tmp_path: Path) -> None:
    """Marks are inside the axes, intervals within the range, days in order, rows drawn or told."""
    pytest.importorskip("vl_convert")
    names = set()
    for report in [*_reports(tmp_path), *_crowded()]:
        for picture in report.pictures:
            names.add(picture.name)
            for size in (WIDE, NARROW):
                assert [*_outside(picture.chart.spec(report.words, size))] == [], picture.key
            sentence = picture.sentence(report.words)
            chart_rows, table_rows = _drawn_rows(picture), _table_rows(picture)
            assert chart_rows, picture.key
            assert chart_rows <= table_rows or picture.name == "scatter", picture.key
            if picture.name == "contributions":
                _check_sum(report, picture, len(table_rows - chart_rows))
                continue
            count_note = f"The chart shows {len(chart_rows)} of {len(table_rows)} rows"
            missing = table_rows - chart_rows
            assert all(count_note in sentence or f" {row[0]}" in sentence for row in missing), (
                picture.key
            )
            _check_order(report, picture)
            hidden = _hidden_systems(report, picture)
            assert all(re.search(rf"Not drawn: .*\b{name}\b", sentence) for name in hidden)
            _check_values(picture)
    assert names == {*NAMES}


def _check_order(report: sm.Report, picture: Picture) -> None:
    """A system has one colour on a page: the baseline comes first, wherever it is drawn."""
    systems = picture.chart.systems
    assert report.content.baseline not in systems[1:], picture.name


def _hidden_systems(report: sm.Report, picture: Picture) -> set[str]:
    """Those that have no mark in a picture of systems; two are moved, and groups are none."""
    if not picture.chart.systems or picture.name in ("movers", "examination"):
        return set()
    charted = {row.get("system", row.get("label")) for row in picture.chart.rows}
    return {*report.content.systems} - charted


def _check_sum(report: sm.Report, picture: Picture, n_others: int) -> None:
    """The bars of all slices come to the difference; those past the largest are one bar."""
    *_, last, total = picture.chart.parameters["sums"]
    assert not n_others or last["label"].startswith(f"{n_others} others (")
    row = report.content.row(report.content.main, report.content.first)
    assert row
    assert total["text"] == signed(row["difference"])


def _check_values(picture: Picture) -> None:
    rows = picture.chart.rows
    if picture.name in ("means", "segments", "rates", "trend"):
        for row in rows:
            low, high = RANGES.get(row.get("label", ""), (0, 1))
            assert low <= row["ci_low"] <= row["value"] <= row["ci_high"] <= high
    if picture.name in ("means", "verdicts"):
        of_panels = [{row["panel"] for row in rows if name in row["label"]} for name in RANGES]
        assert all(len(panel) < 2 and "" not in panel for panel in of_panels), "a scale of its own"
        charted = {row["label"].rpartition(" · ")[2] for row in rows}
        named = {row[picture.columns.index("metric")] for row in picture.cells}
        assert charted == named or picture.left_out.startswith(" The chart shows")
    if picture.name in ("days", "trend"):
        days = [row["day"] for row in rows]
        assert days == sorted(days)


RANGES = {"first_rank": (1, float("inf")), "num_ret": (0, float("inf"))}
"""Those that are no shares."""


def _crowded() -> list[sm.Report]:
    """Ten systems and metrics of other ranges, of few queries: by themselves and compared."""
    rankings, labels = month(planted=False, days=3, a_day=11)
    alone = rankings.filter(pc.equal(rankings["system"], "new"))
    crowd = [
        {
            **row,
            "system": f"s{number}",
            "score": row["score"] + (position * number) % 7,
            "shop": int(row["query_id"][1:]) % 30,
        }
        for number in range(10)
        for position, row in enumerate(alone.to_pylist())
    ]
    options: dict[str, Any] = {"date": "ds", "by": "country", "confidence": 0.95}
    few = ["mrr", "first_rank", "ndcg@5", "hit@1", "num_ret", "recall@3", "precision@3"]
    result = sm.evaluate(pa.Table.from_pylist(crowd), labels, few, system="system", **options)
    compared = sm.report(
        pa.Table.from_pylist(crowd), labels, few, baseline="s0", date="ds", by=["country", "shop"]
    )
    return [sm.report(result), compared, sm.report(sm.evaluate(alone, labels, few, **options))]


def _outside(spec: dict[str, Any]) -> Iterator[tuple[str, float, float, float, float]]:
    """The marks that reach over the axes, which the drawing itself tells; a cut band does not."""
    import vl_convert

    drawing = vl_convert.vegalite_to_scenegraph(json.dumps(spec))
    yield from _marks_outside(drawing["scenegraph"], (drawing["width"], drawing["height"]))


BESIDE_AXES = ("axis", "legend", "title", "row-", "column-")
"""The roles of what a drawing has besides its marks."""


def _marks_outside(
    mark: dict[str, Any], room: tuple[float, float]
) -> Iterator[tuple[str, float, float, float, float]]:
    kind = mark["marktype"]
    if mark.get("role", "").startswith(BESIDE_AXES) or kind == "text":
        return
    for item in mark["items"]:
        if kind == "group":
            size = (item["width"], item["height"]) if "width" in item else room
            for child in item["items"]:
                yield from _marks_outside(child, size)
            continue
        x, y = item.get("x", 0), item.get("y", 0)
        x2 = item.get("x2", x + item.get("width", 0))
        y2 = item.get("y2", y + item.get("height", 0))
        if kind in ("line", "area", "symbol"):
            x2 = x
        is_inside = all(-1 <= end <= room[0] + 1 for end in (x, x2))
        if not mark.get("clip"):
            is_inside &= all(-1 <= end <= room[1] + 1 for end in (y, y2))
        if not is_inside:
            yield kind, x, y, x2, y2


def _drawn_rows(picture: Picture) -> set[tuple[str, ...]]:
    """The rows of a chart, as its table writes them."""
    name, chart = picture.name, picture.chart
    if name == "contributions":  # before the sum of the others and the total
        bars = [bar for bar in chart.parameters["sums"][:-1] if " others (" not in bar["label"]]
        return {(bar["label"].rpartition(" (")[0], bar["text"]) for bar in bars}
    if name == "funnel":  # between all and what is left
        return {(bar["label"],) for bar in chart.rows[1:-1]}
    return {ROW_CELLS[name](row) for row in chart.rows}


ROW_CELLS: dict[str, Callable[[Mapping[str, Any]], tuple[str, ...]]] = {
    "means": lambda row: (row["label"], row["system"], number(row["value"])),
    "segments": lambda row: (row["label"], row["system"], number(row["value"])),
    "rates": lambda row: (row["label"], row["system"], number(row["value"])),
    "verdicts": lambda row: (*row["label"].split(" · "), signed(row["difference"])),
    "trend": lambda row: (row["system"], row["day"], number(row["value"])),
    "days": lambda row: (row["day"], signed(row["difference"]), signed(row["running"])),
    "slices": lambda row: (row["label"].rpartition(" (")[0], row["metric"], row["text"]),
    "positions": lambda row: (row["system"], str(row["position"]), percent(row["share"])),
    "examination": lambda row: (row["system"], str(row["position"]), number(row["share"])),
    "offline_online": lambda row: (
        row["system"], row["day"], number(row["offline"]), number(row["online"]),
    ),
    "precision_recall": lambda row: (
        row["system"], str(row["k"]), number(row["recall"]), number(row["precision"]),
    ),
    "bounds": lambda row: (
        row["system"], str(row["k"]), number(row["worst"]), number(row["best"]),
    ),
    "ties": lambda row: (
        row["label"], number(row["worst"]), number(row["value"]), number(row["best"]),
    ),
    "curves": lambda row: (row["system"], row["family"], f"@{row['k']}", number(row["value"])),
    "judged": lambda row: (row["system"], f"@{row['k']}", number(row["value"])),
    "relevant": lambda row: (row["system"], row["rank"], number(row["items"])),
    "tools": lambda row: (row["system"], row["label"], number(row["value"])),
    "scatter": lambda row: (number(row["x"]), number(row["y"])),
    "cleaning": lambda row: tuple(row["label"].split(": ")),
    "movers": lambda row: (row["label"], number(row["before"]), number(row["after"])),
    "deltas": lambda row: (str(row["sign"]),),
    "first": lambda row: tuple(row["ribbon"].split("-")),
}  # fmt: skip
"""How a chart's row stands in its table; the first column is what a sentence leaves out."""


def _table_rows(picture: Picture) -> set[tuple[str, ...]]:
    """The rows of a table with what is drawn of them, a wide one long."""
    if picture.name in TABLES:
        return {*TABLES[picture.name](picture)}
    return {tuple(row[index] for index in DRAWN_COLUMNS[picture.name]) for row in picture.cells}


Rows = Iterator[tuple[str, ...]]


def _by_system(picture: Picture) -> Rows:
    for system, *values in picture.cells:
        yield from ((system, *cell) for cell in zip(picture.columns[1:], values, strict=True))


def _curves(picture: Picture) -> Rows:
    for family, system, *values in picture.cells:
        for cell in zip(picture.columns[2:], values, strict=True):
            yield (system, family, *cell)


def _tools(picture: Picture) -> Rows:
    for tool, *values, _ in picture.cells:
        cells = zip(picture.columns[1:-1], values, strict=True)
        yield from ((system, tool, value) for system, value in cells)


def _slices(picture: Picture) -> Rows:
    """Of one segment its values stand alone."""
    is_one = len({row[0].partition(" = ")[0] for row in picture.cells}) == 1
    for name, metric, _, _, difference, *_ in picture.cells:
        yield name.partition(" = ")[2] if is_one else name, metric, difference


def _verdicts(picture: Picture) -> Rows:
    difference = picture.first_number + 2
    return ((*row[: picture.first_number], row[difference]) for row in picture.cells)


def _cleaning(picture: Picture) -> Rows:
    """A step without a loss has no bar, nor has a sum after none, nor what was not used."""
    logged = {row[0]: row[3] for row in picture.cells if row[1] == "logged"}
    for relation, step, removed, remaining in picture.cells:
        is_same = step == "kept" and remaining == logged[relation]
        if removed != "0" and remaining != "0" and not is_same:
            yield relation, step


def _deltas(picture: Picture) -> Rows:
    bins = (float(row[0].replace("\N{MINUS SIGN}", "-")) for row in picture.cells)
    return ((str((bin_ > 0) - (bin_ < 0)),) for bin_ in bins)


def _first(picture: Picture) -> Rows:
    """The last two ranks are one bar."""
    for before, row in enumerate(picture.cells):
        for after, n in enumerate(row[1:]):
            if n != "0":
                yield str(min(before, 3)), str(min(after, 3))


TABLES: dict[str, Callable[[Picture], Rows]] = {
    "judged": _by_system,
    "relevant": _by_system,
    "curves": _curves,
    "tools": _tools,
    "slices": _slices,
    "verdicts": _verdicts,
    "cleaning": _cleaning,
    "deltas": _deltas,
    "first": _first,
}
"""Tables of another shape than their chart's rows."""

DRAWN_COLUMNS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("means", "segments", "rates", "examination"), (0, 1, 2)),
    "trend": (1, 0, 2),
    "days": (0, 2, 4),
    "positions": (0, 1, 4),
    "offline_online": (1, 0, 2, 3),
    **dict.fromkeys(("precision_recall", "bounds", "ties"), (0, 1, 2, 3)),
    "scatter": (0, 1),
    "contributions": (0, 7),
    "movers": (0, 1, 2),
    "funnel": (0,),
}
"""Which columns of a table are drawn."""
