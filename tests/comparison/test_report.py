"""The report: its numbers, words, pictures and page; browsers look at it in test_report_page."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from datetime import date
from hashlib import md5
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from compared_tables import near
from comparison.report_world import PLANTED, month
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.comparison.page import picture, profile
from sqlmetrics.comparison.page.averages import deploys_of
from sqlmetrics.comparison.page.content import LANGUAGES, Words, catalogue, signed
from sqlmetrics.comparison.page.evaluation import with_running
from sqlmetrics.comparison.page.notebook import MIME, pictures_of
from sqlmetrics.comparison.page.picture import NARROW, POINTS, WIDE, Chart
from sqlmetrics.comparison.page.report import LATER, MAKERS
from sqlmetrics.sql.template import templates_folder
from sqlmetrics.stats import student

pytestmark = by_turns(0.3)

ROOM = Path(picture.__file__).parent
OPTIONS: dict[str, Any] = {"date": "ds", "by": "country", "baseline": "old"}
METRICS = ["ndcg@5", "mrr"]


@pytest.fixture(scope="module")
def planted() -> tuple[pa.Table, pa.Table]:
    return month(planted=True)


@pytest.fixture(scope="module")
def month_report(planted: tuple[pa.Table, pa.Table]) -> sm.Report:
    return sm.report(*planted, METRICS, **OPTIONS)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages with frames in place of drawings: to draw needs the extra, and takes long."""
    frame = '<svg width="1" height="1"><path id="a" fill="#1a7f37"/></svg>'
    monkeypatch.setattr(Chart, "svg", lambda *_: frame)
    monkeypatch.setattr("sqlmetrics.comparison.page.report.import_drawing", lambda: None)


# -- the numbers ----------------------------------------------------------------------


@by_turns(0.9)
def test_a_planted_regression_is_named_with_slice_size_and_certainty(
    month_report: sm.Report,
) -> None:
    """The numbers of the sentence are made again from the values of queries in plain Python."""
    pairs = _pairs(month_report)
    differences = [new - old for (query, new, old) in pairs if int(query[1:]) % 4 == 2]
    n = len(differences)
    mean = sum(differences) / n
    error = (sum((difference - mean) ** 2 for difference in differences) / (n - 1) / n) ** 0.5
    coverage = 1 - 0.05 / 4  # one slice of four moved: the interval is adjusted as p is
    reach = student.critical(coverage, n - 1) * error
    assert mean < -0.1, "the regression is there to be found"
    for part in (
        f"country = {PLANTED}",
        f"({signed(mean)};",
        f"98.75 % interval {signed(mean - reach)} to {signed(mean + reach)}",
        "p < 0.001",
        f"{n} queries",
    ):
        assert part in month_report.headline


def _pairs(report: sm.Report) -> list[tuple[str, float, float]]:
    """Query, the new system's value and the old one's, from an evaluation by itself."""
    rankings, labels = month(planted=True)
    result = sm.evaluate(rankings, labels, METRICS, system="system", date="ds")
    values: dict[str, dict[str, float]] = {}
    for row in result.per_query().to_pylist():
        values.setdefault(row["query_id"], {})[row["system"]] = row["ndcg_at_5"]
    return [(query, by_system["new"], by_system["old"]) for query, by_system in values.items()]


@by_turns(2)
def test_a_month_without_a_change_says_that_nothing_moved() -> None:
    report = sm.report(*month(planted=False), METRICS, **OPTIONS)
    assert report.headline.startswith("Nothing moved: none of the 10 differences between new")
    assert "would have been detected" in report.headline
    assert in_chinese(report).startswith("没有变化")


def in_chinese(report: sm.Report) -> str:
    return sm.Report(report.content, "zh").headline


@by_turns(0.8)
def test_bins_and_days_hold_each_query_once(month_report: sm.Report) -> None:
    content, pairs = month_report.content, _pairs(month_report)
    assert sum(row["n"] for row in content.deltas) == len(pairs)
    assert sum(row["n"] for row in content.cells) == len(pairs)
    assert sum(row["n"] for row in content.days) == len(pairs)
    width = content.bin_width
    expected = Counter(
        (min(19, int(old / width + 1e-9)), min(19, int(new / width + 1e-9)))
        for _, new, old in pairs
    )
    cells = {
        (round(row["baseline_value"] / width), round(row["value"] / width)): row["n"]
        for row in content.cells
    }
    assert cells == expected
    assert content.days[-1]["running"] == near(
        sum((new - old for _, new, old in pairs)) / len(pairs)
    )
    first = [new - old for query, new, old in pairs if int(query[1:]) < 24]
    assert content.days[0]["difference"] == near(sum(first) / len(first))


def test_the_band_of_days_is_that_of_the_views() -> None:
    """By hand: four differences, two of them 1 and two 0, then the same again."""
    sums = {"n": 4, "sum_d": 2.0, "sum_w": 4.0, "sum_d2": 2.0, "sum_dw": 2.0, "sum_w2": 4.0}
    first, second = with_running([{"metric_date": d, **sums} for d in ("1", "2")], 0.95)
    assert first["ci_high"] - 0.5 == near(student.critical(0.95, 3) * (1 / 3 / 4) ** 0.5)
    assert second["running"] == near(0.5)
    assert second["running_high"] < first["running_high"]


def test_profiles_agree_with_the_metrics(month_report: sm.Report) -> None:
    """One number, one source: the curve at 5 is the metric at 5, other tools begin with it."""
    content = month_report.content
    at_5 = {
        row["system"]: row["value"]
        for row in content.profile.curves
        if (row["family"], row["k"]) == ("ndcg", 5)
    }
    row = content.row("new", "ndcg@5")
    assert row is not None
    assert at_5["new"] == near(row["value"])
    house_values = {
        tool["system"]: tool["value"] for tool in content.profile.tools if not tool["preset"]
    }
    assert house_values["old"] == near(row["baseline_value"])
    presets = {tool["preset"] for tool in content.profile.tools}
    assert len(presets) == 6, "five other tools"
    for system in ("old", "new"):
        items = [r["items"] for r in content.profile.relevant if r["system"] == system]
        assert sum(items) == near(_relevant_a_query())
    assert sum(int(r["n"]) for r in content.profile.first) == len(_pairs(month_report))


@by_turns(1)
def test_a_sample_is_of_the_first_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two systems' lists so many that the limit holds, whatever their order."""
    monkeypatch.setattr(profile, "LISTS", 120)
    rankings, labels = month(planted=False, days=4)
    sample = sm.report(rankings, labels, "ndcg@5", date="ds").content.profile
    queries = set(rankings["query_id"].to_pylist())
    sampled_queries = sorted(queries, key=lambda query: md5(query.encode()).hexdigest())[:60]
    assert (sample.n_queries, sample.is_sample) == (60, True)
    part, part_labels = (
        table.filter(pc.is_in(table["query_id"], pa.array(sampled_queries)))
        for table in (rankings, labels)
    )
    result = sm.evaluate(part, part_labels, "ndcg@5", where="system = 'new'", check=False)
    at_5 = [row["value"] for row in sample.curves if _line(row) == ("new", "ndcg", 5)]
    assert at_5 == [near(result["ndcg@5"])]


@by_turns(1)
@pytest.mark.parametrize("limit", [1000, 3])
def test_several_runs_whose_ties_come_in_order(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Their order holds in every part of the page; a sample has none, and is left out."""
    monkeypatch.setattr(profile, "LISTS", limit)
    monkeypatch.setattr(profile, "LEAST", 1)
    lists = {"old": ["b", "a", "c"], "new": ["c", "b", "a"]}
    runs = {
        system: {query: dict.fromkeys(items, 1.0) for query in ("q1", "q2", "q3")}
        for system, items in lists.items()
    }
    labels = {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"c": 1}}
    page = sm.report(runs, labels, "mrr", preset="ranx", baseline="old")
    values = sm.evaluate(runs, labels, "mrr", preset="ranx").to_dict()
    part = page.content.profile
    assert (page.content.baseline, bool(part.curves)) == ("old", limit == 1000)
    tool_values = {f"{row['system']}/mrr": row["value"] for row in part.tools if not row["preset"]}
    tied = {f"{row['system']}/mrr": row["value"] for row in part.ties}
    assert (tool_values, tied) == ((near(values), near(values)) if limit == 1000 else ({}, {}))


def _line(row: Any) -> tuple[str, str, int]:
    return row["system"], row["family"], row["k"]


def _relevant_a_query() -> float:
    labels = month(planted=True)[1]
    grades = labels["grade"].to_pylist()
    return sum(grade >= 1 for grade in grades) / len(set(labels["query_id"].to_pylist()))


# -- the words ------------------------------------------------------------------------


def test_each_word_is_there_in_each_language_and_takes_the_same() -> None:
    lacks, differ = [], []
    for section, names in catalogue().items():
        for name, texts in names.items():
            if {*texts} != {*LANGUAGES} or not all(texts.values()):
                lacks.append(f"{section}.{name}")
            fields = [sorted(set(re.findall(r"{(\w+)}", text))) for text in texts.values()]
            if len({*map(tuple, fields)}) > 1:
                differ.append(f"{section}.{name}")
    assert (lacks, differ) == ([], [])


def test_each_word_is_used_and_each_that_is_used_is_there() -> None:
    files = [*ROOM.glob("*.py"), *(templates_folder() / "comparison" / "page").rglob("*.j*")]
    for room in ("agreement", "fusion"):  # which have pictures of their own
        files += (ROOM.parents[1] / room).glob("*.py")
    texts = "\n".join(file.read_text(encoding="utf-8") for file in files)
    keys = {f"{s}.{name}" for s, names in catalogue().items() for name in names}
    used = set(re.findall(r"words\(\s*f?\"(\w+\.\w+)\"", texts)) | set(
        re.findall(r'"@(\w+\.\w+)"', texts)
    )
    used |= {key for key in keys if re.search(rf'"{key}"', texts)}
    assert used - keys == set()
    dynamic_sections = {
        "column",
        "reason",
        "verdict",
        "headline",
        "funnel",
        "unit",
        "counted",
        "experiment_verdict",
        "experiment_state",
    }  # of names in lists
    by_parts = {f"{maker.__name__}.{part}" for maker in MAKERS + LATER for part in _PARTS}
    sections = ("contributions", "funnel", "weights", "surface", "variants")
    sections += ("judges", "judge_bias", "judge_systems", "experiment", "experiment_days")
    by_parts |= {f"{section}.{part}" for section in sections for part in _PARTS}
    idle = {key for key in keys - used - by_parts if key.partition(".")[0] not in dynamic_sections}
    assert idle == set()
    words = {key.partition(".")[2] for key in keys - used if key.startswith("column.")}
    assert {word for word in words if f'"{word}"' not in texts} == set()


_PARTS = ("title", "about", "look")


def test_each_picture_says_of_how_many_it_is_and_with_which_interval() -> None:
    names = [*(maker.__name__ for maker in MAKERS + LATER), "contributions", "funnel"]
    for name in names:
        text = catalogue()[name]["about"]["en"]
        assert "{n}" in text, name
        assert re.search("interval|correlation|exact", text), name


# -- the pictures ---------------------------------------------------------------------


def test_pictures_are_of_aggregates_and_few_points(month_report: sm.Report) -> None:
    names = [plot.key for plot in month_report.pictures]
    assert names[:3] == ["verdicts", "deltas", "movers"]
    assert {"days", "curves", "slices", "contributions-country", "scatter", "first"} <= {*names}
    values = {query: new_and_old for query, *new_and_old in _pairs(month_report)}
    for plot in month_report.pictures:
        spec = plot.chart.spec(month_report.words)
        points = list(_points(spec))
        assert 0 < len(points) <= POINTS, plot.key
        named = values.keys() & {str(value) for row in points for value in row.values()}
        assert len(named) == (len(plot.movers) if plot.key == "movers" else 0), plot.key
        assert plot.cells, f"{plot.key} has its numbers as a table"
        assert all(len(row) == len(plot.columns) for row in plot.cells)
    moved = month_report.plot("movers").chart.rows
    for row in moved:
        assert [row["after"], row["before"]] == pytest.approx(values[row["label"]], abs=1e-12)
    signs = [row["after"] - row["before"] > 0 for row in moved]
    assert signs == [row["sign"] > 0 for row in moved] == sorted(signs), "losses first"


def _points(part: Any) -> Any:
    if isinstance(part, dict):
        if isinstance(part.get("values"), list) and part["values"]:
            yield from (row for row in part["values"] if isinstance(row, dict))
        for value in part.values():
            yield from _points(value)
    elif isinstance(part, list):
        for value in part:
            yield from _points(value)


def test_ribbons_are_as_wide_as_what_they_carry(month_report: sm.Report) -> None:
    chart = month_report.plot("first").chart
    ends = {row["ribbon"]: row for row in chart.rows if row["x"] > 0.5}
    widths = sum(row["y2"] - row["y"] for row in ends.values())
    assert widths == len(_pairs(month_report))
    worse = sum(row["y2"] - row["y"] for row in ends.values() if row["sign"] < 0)
    moved = {(r["before"], r["after"]): r["n"] for r in month_report.content.profile.first}
    assert worse == sum(n for (old, new), n in moved.items() if old < new), "1 < 2-3 < 4-10"
    bars = chart.parameters["bars"]
    assert sum(bar["y2"] - bar["y"] for bar in bars) == 2 * len(_pairs(month_report))


@by_turns(2)
def test_a_system_that_starts_later_and_a_single_query_are_told(
    planted: tuple[pa.Table, pa.Table],
) -> None:
    """Slices of all queries come to something else than the difference of common ones."""
    rankings, labels = planted
    late = pc.or_(
        pc.equal(rankings["system"], "old"), pc.greater(rankings["ds"], date(2026, 11, 2))
    )
    report = sm.report(rankings.filter(late), labels, "ndcg@5", **OPTIONS)
    overall, part = report.content.row("new", "ndcg@5"), report.plot("contributions-country")
    assert overall is not None
    assert "over the queries of both systems it is" in part.sentence(report.words)
    total = sum(row["contribution"] for row in report.content.contributions)
    assert abs(total - overall["difference"]) > 1e-4
    added = f"the sum of all slices, {signed(total)} in"
    assert added in report.plot("slices").parts[0].sentence
    run = rankings.filter(pc.equal(rankings["query_id"], "q1"))
    truth = labels.filter(pc.equal(labels["query_id"], "q1"))
    assert sm.report(run, truth, "ndcg@5", baseline="old").headline.startswith(
        "There are too few queries"
    )


def test_slices_lead_to_their_numbers_and_lines_join_items(month_report: sm.Report) -> None:
    slices, movers = month_report.plot("slices"), month_report.plot("movers")
    links = {row["link"] for row in slices.chart.rows}
    assert links == {f"#{part.key}" for part in slices.parts}
    sizes = {row["label"]: row["size"] for row in slices.chart.rows}
    assert set(sizes.values()) == {1.0}, "countries have the same traffic"
    planted_slice = next(part for part in slices.parts if f"= {PLANTED}" in part.title)
    assert "worse" in planted_slice.title
    assert "With 25 % of the queries, it adds " in planted_slice.sentence
    assert len(planted_slice.cells) == len(METRICS)
    for mover in movers.movers:
        old, new = ({item.pair for item in items} - {None} for items in mover.lists)
        assert old == new, "all ten items are in both lists"
        assert len(old) == 10


def test_nothing_of_a_chart_is_left_open(month_report: sm.Report) -> None:
    for size in (WIDE, NARROW):
        for plot in month_report.pictures:
            text = json.dumps(plot.chart.spec(month_report.words, size), ensure_ascii=False)
            assert not re.search(r'"[$@](?!schema)\w', text), plot.key


@by_turns(1)
def test_what_has_nothing_to_say_is_not_drawn() -> None:
    """One system, one query of a day: no comparison, no days, no slices, no ties."""
    run = pa.table({"query_id": [1, 1], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    truth = pa.table({"query_id": [1], "item_id": ["b"], "grade": [1]})
    report = sm.report(run, truth, "mrr")
    assert report.headline == "mrr of rankings is 0.5000 (1 query)."
    assert [
        picture.key for picture in report.pictures if picture.key in {"days", "trend", "ties"}
    ] == []


STAGED = {
    "query_id": [1, 1, 1, 1, 1, 1],
    "item_id": [*"abcd", *"ab"],
    "score": [4.0, 3.0, 2.0, 1.0, 2.0, 1.0],
    "stage": ["recall"] * 4 + ["page"] * 2,
}


@by_turns(1)
def test_stages_are_a_funnel_and_the_report_is_of_the_last_one() -> None:
    """By hand: of four relevant items recall finds three, and the page shows one."""
    truth = pa.table({"query_id": [1] * 4, "item_id": [*"acdx"], "grade": [1] * 4})
    report = sm.report(pa.table(STAGED), truth, ["precision@2", "num_ret"])
    chart = report.plot("funnel").chart
    bars = [(row["label"], row["start"], row["end"]) for row in chart.rows]
    assert bars == [
        ("relevant items", 0, 1),
        ("recall", 0.75, 1),
        ("page", 0.25, 0.75),
        ("left at page", 0, 0.25),
    ]
    sentence = "Most relevant items are lost at page (50 %). page has 1 of 4 relevant items."
    assert report.headline.endswith(sentence)
    assert [row["value"] for row in report.content.values] == [0.5, 2.0], "of the page"
    assert "stage page" in report.content.notes[0]
    assert sm.report(sm.funnel(pa.table(STAGED), truth)).headline == sentence


@by_turns(1)
def test_bounds_are_those_of_all_bad_and_all_good() -> None:
    """By hand: a is relevant, b is not, and of c and d nobody said it."""
    lists = {
        "query_id": [1, 1, 1, 2, 2, 2],
        "item_id": [*"cab", *"bda"],
        "score": [3.0, 2.0, 1.0] * 2,
    }
    pairs = {"query_id": [1, 1, 2, 2], "item_id": [*"abab"], "grade": [2, 0, 1, 0]}
    report = sm.report(pa.table(lists), pa.table(pairs), "precision@3")
    rows = {row["k"]: (row["worst"], row["best"]) for row in report.content.profile.bounds}
    assert rows[1] == near((0, 0.5))
    assert rows[2] == near((0.25, 0.75))
    assert rows[3] == near((1 / 3, 2 / 3))
    assert report.plot("bounds").cells[0][2:] == ["0.0000", "0.5000"]
    all_judged = {**pairs, "query_id": [1, 1, 1, 2, 2, 2], "item_id": [*"abcabd"], "grade": [1] * 6}
    judged = sm.report(pa.table(lists), pa.table(all_judged), "precision@3")
    assert not {"bounds", "judged"} & {picture.name for picture in judged.pictures}


def test_deploys_are_marked_on_the_days_and_told(month_report: sm.Report) -> None:
    table = {"Deployed_At": ["2026-11-09 10:00", "2027-01-01 00:00"], "version": ["2.1", "2.2"]}
    with sm.connect() as engine:
        deploys = deploys_of(pa.table(table), engine)
        with pytest.raises(
            sm.SpecError, match="no column of days; the columns are when; name it one of"
        ):
            deploys_of(pa.table({"when": ["2026-11-09"]}), engine)
    assert deploys == [
        {"day": "2026-11-09", "name": "2.1"},
        {"day": "2027-01-01", "name": "2.2"},
    ]
    days = sm.Report(replace(month_report.content, deploys=deploys)).plot("days")
    assert [row["mark"] for row in days.chart.parameters["deploys"]] == ["1"], "within the days"
    assert " Deploys: (1) 2026-11-09 2.1." in days.sentence(month_report.words)


# -- the page -------------------------------------------------------------------------


class _Tags(HTMLParser):
    """The tags that are open, and what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.counts: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.counts[tag] += 1
        attributes = dict(attrs)
        self.loads += [attributes[k] for k in ("src", "href", "srcset") if attributes.get(k)]
        if tag not in ("meta", "link", "br", "img", "input") and not tag.startswith("path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.counts[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_is_whole_and_loads_nothing(month_report: sm.Report, language: str) -> None:
    page = sm.Report(month_report.content, language).html
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert {link[0] for link in tags.loads} == {"#"}, "links within the page alone"
    assert not re.search(r"@import|url\((?!#)|<link|<iframe|<img", page)
    pictures = sm.Report(month_report.content, language).pictures
    assert tags.counts["h2"] == len(pictures) + 1
    movers = sum(len(picture.movers) for picture in pictures)
    assert tags.counts["svg"] == 2 * len(pictures) + movers, (
        "wide and narrow, and lines between lists"
    )
    assert page.count('role="img" aria-label="') == 2 * len(pictures)
    assert page.count('<table class="sortable">') == len(pictures) + 2
    assert "var(--better)" in page
    assert "prefers-color-scheme: dark" in page
    assert len(page) < 400_000
    assert f'lang="{"zh-Hans" if language == "zh" else "en"}"' in page


@by_turns(1)
@pytest.mark.usefixtures("undrawn")
def test_what_comes_from_data_is_no_markup() -> None:
    bad = "<script>alert('x')</script>"
    run = pa.table(
        {
            "query_id": [bad] * 4,
            "item_id": [f"{bad}1", "b"] * 2,
            "score": [2.0, 1.0, 1.0, 2.0],
            "system": [bad, bad, "B", "B"],
        }
    )
    truth = pa.table({"query_id": [bad], "item_id": ["b"], "grade": [1]})
    report = sm.report(run, truth, "mrr")
    assert bad not in report.html
    assert "&lt;script&gt;" in report.html


def test_without_the_extra_a_page_says_how_to_get_it(
    month_report: sm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "find_spec", lambda _: None)
    with pytest.raises(sm.SpecError, match=r"pip install 'sqlmetrics\[report\]'"):
        _ = month_report.html
    assert month_report.markdown.startswith("# ")
    assert month_report.latex.startswith(r"\begin{tabular}{lrrrrrrrrrr}")


def test_notebooks_have_drawings_where_the_extra_is(
    month_report: sm.Report, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = {
        name: pa.table({"query_id": [1, 2], "item_id": [name] * 2, "score": [1.0] * 2})
        for name in "ab"
    }
    truth = pa.table({"query_id": [1, 2], "item_id": ["a", "b"], "grade": [1, 1]})
    comparison = sm.compare(lists, truth, "mrr")
    evaluated = sm.evaluate(lists, truth, ["mrr", "hit@1"])
    for able, n_drawings in ((False, 0), (True, 1)):
        monkeypatch.setattr(picture, "find_spec", lambda _, able=able: able or None)
        assert comparison._repr_html_().count("<svg") == n_drawings
        assert comparison._repr_html_().count("<table>") == 1
        assert month_report.plot("days")._repr_html_().count("<svg") == n_drawings
        assert month_report._repr_html_().startswith("<iframe" if able else "<pre>")
        for result, heading in (
            (comparison, "How far every metric moved"),
            (evaluated, "Every metric"),
        ):
            bundle = result._repr_mimebundle_()
            assert bundle["text/plain"] == repr(result)
            assert bundle["text/html"].endswith(result.html())
            assert bundle["text/html"].count("<svg") == n_drawings
            assert (MIME in bundle) == able
            if able:
                (chart,) = bundle[MIME]["vconcat"]
                assert chart["title"]["text"] == heading
                assert _points(chart), "the rows are in it"
    assert MIME not in sm.evaluate(lists["a"], truth, "mrr")._repr_mimebundle_(), "one number"
    many = [f"ndcg@{k}" for k in range(1, 602)]
    assert MIME not in sm.evaluate(lists["a"], truth, many)._repr_mimebundle_(), "too many to draw"


def test_a_file_of_somebody_else_is_left_alone(month_report: sm.Report, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("mine")
    with pytest.raises(sm.SpecError, match="was not written by sqlmetrics"):
        month_report.save(file)
    month_report.save(file, overwrite=True)
    month_report.save(file)  # its own
    assert "country = JP" in file.read_text(encoding="utf-8")
    with pytest.raises(sm.SpecError, match=r"a report needs a name that ends in one of \.html"):
        month_report.save(tmp_path / "page.doc")


# -- other sources --------------------------------------------------------------------

SPEC = """\
name: search
rankings: {file: runs.parquet, columns: {system: system, date: ds}}
labels: {file: labels.parquet}
metrics: [ndcg@5, mrr]
by: [country]
baseline: old
output: {relation: facts, per_query: queries}
"""


@by_turns(3)
def test_a_fact_table_gives_the_numbers_of_the_comparison(
    planted: tuple[pa.Table, pa.Table], tmp_path: Path
) -> None:
    """Each query has one day here, so that days are independent and the two must agree."""
    for name, table in zip(("runs", "labels"), planted, strict=True):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (tmp_path / "s.yml").write_text(SPEC)
    sqlmetrics("run", "s.yml", "--db", "x.duckdb", folder=tmp_path)
    sqlmetrics("report", "s.yml", "--db", "x.duckdb", "--out", "s.md", folder=tmp_path)
    text = (tmp_path / "s.md").read_text(encoding="utf-8")
    assert "nothing was recomputed" in text
    report = sm.report(*planted, METRICS, **OPTIONS)
    stored = text.split("\n\n")[2:4]
    assert " ".join(stored).replace("**", "") in report.headline or report.headline in text.replace(
        "**", ""
    ).replace("\n\n", " ")


@by_turns(0.6)
def test_a_p_value_too_small_for_a_number_is_one_all_the_same() -> None:
    """Beyond 1e-308 it is 0, which once was taken for none: the clearest winner was unclear."""
    with duckdb.connect() as connection:
        queries = "from range(6000) as numbers(i)"
        of_old = f"select i as query_id, 'old' as system, unnest(['b', 'a']) as item_id {queries}"
        of_new = f"select i, 'new', case when i < 3 then 'b' else 'a' end {queries}"
        scored = "select *, case item_id when 'b' then 2 else 1 end as score"
        connection.execute(f"create table runs as {scored} from ({of_old} union all {of_new})")
        graded = "select i as query_id, 'a' as item_id, 1 as grade"
        connection.execute(f"create table labels as {graded} {queries}")
        spec = sm.Spec(
            name="clear",
            rankings={"relation": "runs", "columns": {"system": "system"}},
            labels={"relation": "labels"},
            metrics=["mrr"],
            baseline="old",
            output={"relation": "facts"},
        )
        sm.run(spec, connection=connection)
        (row,) = sm.report(spec, connection=connection).content.rows
    assert (row["p_value"], row["p_adjusted"], row["verdict"]) == (0, 0, "better")


def test_a_run_that_is_stored_every_night_is_no_new_evidence(tmp_path: Path) -> None:
    """The fact table of twenty nights of the same runs says what one night says."""
    chance = random.Random(3)
    runs, labels = [], []
    for number in range(40):
        query = f"q{number}"
        labels.append({"query_id": query, "item_id": "a", "grade": 1})
        for system in ("old", "new"):
            items = chance.sample("abcd", 4)
            runs += [(query, system, item, -position) for position, item in enumerate(items)]
    names = ("query_id", "system", "item_id", "score")
    night = [dict(zip(names, row, strict=True)) for row in runs]
    nights = [{"ds": date(2026, 11, day), **row} for day in range(1, 21) for row in night]
    pq.write_table(pa.Table.from_pylist(labels), tmp_path / "labels.parquet")
    pq.write_table(pa.Table.from_pylist(nights), tmp_path / "runs.parquet")
    once, same = sm.compare(
        pa.Table.from_pylist(night),
        pa.Table.from_pylist(labels),
        ["mrr", "recall@4"],
        baseline="old",
    ).to_dicts()
    assert (same["p_value"], same["verdict"]) == (1, "equivalent")
    spec = """
name: {name}
rankings: {{file: runs.parquet, columns: {{system: system, date: ds}}}}
labels: {{file: labels.parquet}}
metrics: [mrr, recall@4{retired}]
output: {{relation: facts{more}}}
{baseline}
"""
    for name, per_query, baseline in (
        ("paired", ", per_query: queries", "baseline: old"),
        ("unknown", "", "baseline: old"),
        ("unpaired", "", ""),
    ):
        texts = [
            spec.format(name=name, more=per_query, baseline=baseline, retired=retired)
            for retired in (", ap", "")
        ]
        (tmp_path / "s.yml").write_text(texts[0])
        sqlmetrics("run", "s.yml", "--db", "x.duckdb", folder=tmp_path)
        (tmp_path / "s.yml").write_text(texts[1])
        stored_spec = sm.Spec.read(tmp_path / "s.yml")
        page = sm.report(stored_spec, baseline="old", connection=tmp_path / "x.duckdb")
        row, same_row = page.content.rows
        assert same_row["p_value"] == 1, "it counts among those whose p is adjusted"
        assert row["p_adjusted"] == min(1, 2 * row["p_value"]), "and a retired metric does not"
        assert same_row["verdict"] == same["verdict"]
        assert row["difference"] == pytest.approx(once["difference"], abs=1e-12)
        assert row["n"] == 40
        assert page.content.days[-1]["n"] == 40 if page.content.days else name == "unpaired"
        text = page.markdown
        if name == "unpaired":
            assert row["p_value"] > 0.9 * once["p_value"]
            continue
        assert row["p_value"] == pytest.approx(once["p_value"], rel=1e-9)
        assert ("queries appear again on other days, which" in text) == (name == "paired")
        assert ("does not say whether queries appear again" in text) == (name == "unknown")
        last = page.content.days[-1]
        first = page.content.days[0]
        assert last["running_low"] == pytest.approx(first["running_low"], abs=1e-12)


@by_turns(2)
def test_a_log_needs_no_spec(tmp_path: Path) -> None:
    query = {"query_id": "r1", "client_id": "c", "user_query": "tea"}
    query |= {"timestamp": "2026-01-01T00:00:00Z"}
    (tmp_path / "q.ndjson").write_text(json.dumps(query) + "\n")
    events = [
        query
        | {"action_name": name, "timestamp": f"2026-01-01T00:00:0{at}Z"}
        | {"event_attributes": {"object": {"object_id": item}, "position": {"ordinal": ordinal}}}
        for at, (name, item, ordinal) in enumerate(
            [("impression", "a", 1), ("impression", "b", 2), ("click", "b", 2)]
        )
    ]
    (tmp_path / "e.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    completed = sqlmetrics("report", "q.ndjson", "e.ndjson", "--out", "-", folder=tmp_path)
    assert "are not corrected" in completed.stdout
    assert "mrr" in completed.stdout


def test_ranks_have_their_own_scale_and_days_are_in_order() -> None:
    """A rank does not stand on an axis with shares; nights of the same values are a flat line."""
    rows = [
        {"ds": day, "query_id": query, "item_id": item, "score": -i}
        for day in ("2026-11-03", "2026-11-01", "2026-11-02")
        for query in ("q1", "q2", "q3")
        for i, item in enumerate("abc")
    ]
    labels = [
        {"query_id": query, "item_id": item, "grade": 1}
        for query, item in (("q1", "b"), ("q2", "c"), ("q3", "c"))
    ]
    result = sm.evaluate(
        pa.Table.from_pylist(rows),
        pa.Table.from_pylist(labels),
        ["mrr", "first_rank"],
        date="ds",
        confidence=0.95,
    )
    page = sm.report(result)
    means = next(picture for picture in page.pictures if picture.name == "means")
    scales = {row["label"]: row["panel"] for row in means.chart.rows}
    assert scales == {"mrr": "", "first_rank": "first_rank"}, "each on its own"
    assert [cells[0] for cells in means.cells] == ["mrr", "first_rank"]
    assert means.left_out == ""
    trend = next(picture for picture in page.pictures if picture.name == "trend")
    assert [row["day"][-2:] for row in trend.chart.rows] == ["01", "02", "03"]
    assert "▁▁▁" in str(page)
    ends = [(row["ci_low"], row["ci_high"]) for row in trend.chart.rows]
    assert all(0 <= low <= high <= 1 for low, high in ends), "three queries: the interval is wider"
    # no line leads across a day on which a system has no value
    of_two = [
        row | {"system": name}
        for row in rows
        for name in ("alt ", "neu")
        if (name, row["ds"]) != ("alt ", "2026-11-02")
    ]
    page = sm.report(
        sm.evaluate(
            pa.Table.from_pylist(of_two),
            pa.Table.from_pylist(labels),
            "mrr",
            system="system",
            date="ds",
            confidence=0.95,
        )
    )
    trend = next(picture for picture in page.pictures if picture.name == "trend")
    empty = [(row["system"], row["day"]) for row in trend.chart.rows if row["value"] is None]
    assert empty == [("alt ", "2026-11-02")]
    assert len(trend.cells) == 5
    assert trend.sentence(Words()).endswith(" 'alt ' has no value on 2026-11-02.")
    assert "▁ ▁" in str(page)


def test_the_slices_of_a_result_have_every_system_and_their_metric() -> None:
    rows = [
        {"system": name, "query_id": query, "land": land, "item_id": item, "score": -i}
        for name in ("one", "two")
        for query, land in (("q1", "a"), ("q2", "a"), ("q3", "b"), ("q4", "b"))
        for i, item in enumerate("abc")
    ]
    labels = [{"query_id": f"q{n}", "item_id": "cabb"[n - 1], "grade": 1} for n in range(1, 5)]
    result = sm.evaluate(
        *(pa.Table.from_pylist(table) for table in (rows, labels)),
        ["mrr"],
        by=["land"],
        system="system",
        confidence=0.95,
    )
    (slices,) = (picture for picture in pictures_of(result) if picture.name == "segments")
    assert {(row["label"], row["system"]) for row in slices.chart.rows} == {
        (f"land = {land}", name) for land in "ab" for name in ("one", "two")
    }
    assert len(slices.chart.rows) == len(slices.cells) == 4
    assert all(0 <= row["ci_low"] <= row["ci_high"] <= 1 for row in slices.chart.rows)
    assert any("-" in cells[3] for cells in slices.cells), "the table has the interval as it is"
    assert slices.sentence(Words()).startswith("mrr of one, two by segment")


@by_turns(3)
def test_medians_of_days_are_not_added_up() -> None:
    """What other tools print is of means of several days, or of anything on one day."""
    pytest.importorskip("vl_convert")
    days = ["2026-01-01", "2026-01-02"]
    rows = [
        (f"q{i}", f"d{j}", float((i * j) % 3), day) for day in days for i in (0, 1) for j in (0, 1)
    ]
    names = ("query_id", "item_id", "score", "ds")
    rankings = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    labels = pa.table({"query_id": ["q0", "q1"], "item_id": ["d1", "d0"], "grade": [1, 1]})
    tools_by_average = {}
    for average, end in (("macro", None), ("median", None), ("median", days[1])):
        page = sm.report(rankings, labels, "mrr", date="ds", average=average, end=end)
        tools_by_average[average, end] = {"tools"} & {picture.key for picture in page.pictures}
    assert tools_by_average == {
        ("macro", None): {"tools"},
        ("median", None): set(),
        ("median", days[1]): {"tools"},
    }
