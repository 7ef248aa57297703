"""The SQL that is printed reads well: short lines, no gaps, names that cannot be mistaken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import listed
from sqlmetrics.jobs.files import compile_job
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.translation import Translation

WIDTH = 88


ITEMS = {name: name for name in ("popularity", "users", "category")}
SEARCH = {
    "rankings": {"relation": "rankings", "columns": {"system": "system"}, "where": "a or b"},
    "labels": {"relation": "labels"},
    "items": {"relation": "items", "columns": ITEMS},
    "baseline": "live",
}
IMPRESSION_COLUMNS = {"time": "at", "query": "query", "user": "user_id", "segments": ["country"]}
EVENT_COLUMNS = {"time": "at", "user": "user_id", "dwell": "dwell"}
CLICKS = {
    "impressions": {
        "relation": "impressions",
        "columns": IMPRESSION_COLUMNS,
        "first_position": "each",
    },
    "events": {"relation": "events", "columns": EVENT_COLUMNS},
    "requests": {"relation": "requests", "columns": {"time": "at", "user": "user_id"}},
    "cleaning": {"max_events_per_user_hour": 100, "test": "is_test", "unseen": 3, "min_dwell": 5},
}
USUAL = (
    *("ndcg@10", "dcg@10", "err@10", "ap@10", "ap", "mrr", "recall@10", "precision@10"),
    *("rbp", "pnr", "gauc", "iprec(recall=0.3)"),
)
GROUPED = {"relation": "labels", "columns": {"group": "subtopic"}}
THIRDS = {1: 1, 2: 2 / 3, 3: 1 / 3}
POOLED = {"pool": "query_item", "prior": 10, "quantiles": [0.5, 0.8]}


def specs() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every metric, and click logs."""
    for metric in listed():
        at = "" if metric.cutoff == "none" else "@10"
        grouped = {"labels": GROUPED} if "labels.group" in metric.needs else {}
        for name, ties in (("", "id_asc"), (" ties", "average")):
            fields = {"metrics": [f"{metric.name}{at}"], "conventions": {"ties": ties}}
            yield metric.name + name, {**SEARCH, **grouped, **fields}
    yield "clicks", {"clicks": CLICKS, "metrics": ["ndcg@10", "ctr@5"]}
    visits = {"impressions": {"relation": "impressions", "columns": {"session": "visit"}}}
    metrics = ["session_success", "ctr@5"]
    yield "visits", {"clicks": {**CLICKS, **visits, "cleaning": {}}, "metrics": metrics}
    yield "pooled clicks", {"clicks": {**CLICKS, "labels": POOLED}, "metrics": ["ndcg@10"]}


def texts(dialect: str) -> Iterator[tuple[str, str]]:
    """The texts of those specs that a dialect has."""
    for name, fields in specs():
        try:
            yield name, sm.compile(sm.Spec(**fields), dialect)
        except sm.SpecError:
            assert name.endswith(" ties") or dialect != "duckdb", name


def test_no_line_is_long_and_no_select_has_a_gap() -> None:
    for name, text in texts("duckdb"):
        assert [line for line in text.splitlines() if len(line) > WIDTH] == [], name
        assert not re.search(r"\n\n +\S| \n", text), name
        assert "over (\n        partition" not in text, name


def test_a_comment_says_what_a_row_is_without_the_stage_before() -> None:
    """It is read where the stage is mended, not from the top."""
    folder = Path(__file__).parents[2] / "templates"
    texts = {
        template.name: template.read_text(encoding="utf-8") for template in folder.rglob("*.jinja")
    }
    assert [name for name, text in texts.items() if text.startswith("-- the same")] == []


@by_turns(2.7)
@pytest.mark.parametrize("option", OPTIONS)
def test_no_line_is_long_whatever_holds(option: str) -> None:
    """By every choice, of the metrics that it fits."""
    values: dict[str, Any] = {"table": {1: 1, 2: 2, 3: 5, 4: 9}, "number": 2}
    for choice in OPTIONS[option].choices:
        fields = {**SEARCH, "conventions": {option: values.get(choice.name, choice.name)}}
        metrics = [text for text in USUAL if _fits(fields, text)]
        assert metrics, choice.name
        if choice.name != "input_order":  # a table has no order
            text = sm.compile(sm.Spec(**fields, metrics=metrics))
            assert [line for line in text.splitlines() if len(line) > WIDTH] == [], choice.name


def _fits(fields: Mapping[str, Any], metric: str) -> bool:
    try:
        sm.Spec(**fields, metrics=[metric])
    except sm.SpecError:
        return False
    return True


def test_a_long_expression_is_broken_at_spaces_alone() -> None:
    """Where it binds least; what stands in quotes stays."""
    long = "case when a = 1 or b <> 'x  (y, ' then (c + d * 2) / nullif(e, 0) else f(g, h) end"
    for room in range(10, 100):
        assert re.sub(r"\s", "", folded(long, room)) == re.sub(r"\s", "", long)
        assert "'x  (y, '" in folded(long, room)
    assert folded(long, 40).splitlines() == [
        "case when a = 1 or b <> 'x  (y, '",
        "    then (c + d * 2) / nullif(e, 0)",
        "    else f(g, h)",
        "end",
    ]
    window = "row_number() over (partition by day, system order by score desc, id asc) - 1 as rnk"
    assert folded(window, 40).splitlines() == [
        "row_number() over (",
        "    partition by day, system",
        "    order by score desc, id asc",
        ")",
        "    - 1",
        "    as rnk",
    ]
    assert folded(window.replace(" - 1", ""), 28).splitlines() == [
        "row_number() over (",
        "    partition by day, system",
        "    order by",
        "        score desc,",
        "        id asc",
        ") as rnk",
    ]


@by_turns(1.4)
@pytest.mark.parametrize("dialect", ["mysql", "postgres", "spark"])
def test_the_text_of_other_dialects_is_laid_out_likewise(dialect: str) -> None:
    metrics = ["ndcg@10", "err@10", "ap", "mrr", "rprec", "rbp", "bpref", "pnr"]
    rankings = {"relation": "rankings", "columns": {"system": "variant", "date": "day"}}
    lists = {**SEARCH, "rankings": rankings, "metrics": metrics, "items": None}
    clicks = {"clicks": {**CLICKS, "labels": POOLED}, "metrics": ["ndcg@10"]}
    for fields in (lists, clicks):
        text = sm.compile(sm.Spec(**fields), dialect)
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []
        assert not re.search(r"\n\n +\S", text)
        assert not re.search(r"\(\n(?! +select)[^\n]{1,40}\n *\)", text)
        assert not re.search(r"select\n +\*\n", text)
        assert not re.search(r"case when (?:(?! then )[^\n])*\n +[<>=]", text), "in one piece"


JOB_DIALECTS = ["duckdb", "mysql", "postgres", "spark"]


@by_turns(3)
@pytest.mark.parametrize("dialect", JOB_DIALECTS)
def test_no_line_of_a_job_is_long_but_for_texts(dialect: str) -> None:
    window = {**POOLED, "window": {"end": "2026-01-04"}}
    check_job({**CLICKS, "labels": window, "evaluation": {"start": "2026-01-04"}}, dialect)


@by_turns(2)
@pytest.mark.parametrize("dialect", JOB_DIALECTS)
def test_no_line_of_a_job_with_estimates_is_long(dialect: str) -> None:
    metrics = ["clicks@3", "recall@10", "sum_reciprocal_rank@10", "dcg@10"]
    log = {
        **CLICKS,
        "propensity": {"method": "given", "by": "country", "given": {"JP": THIRDS, "DE": THIRDS}},
        "labels": {**POOLED, "rate": "ips", "window": {"end": "2026-01-04"}},
        "counterfactual": {
            "rankings": {"relation": "new_lists"},
            "metrics": metrics,
            "estimators": ["ips", "clipped_ips", "snips", "dr"],
        },
        "evaluation": {"start": "2026-01-04"},
        "cleaning": {**CLICKS["cleaning"], "unseen": None},
    }
    check_job(log, dialect)


def check_job(log: Mapping[str, Any], dialect: str) -> None:
    """What a comment of a table says, and the conventions as JSON, cannot be broken."""
    spec = {"clicks": log, "metrics": ["ndcg@10", "ctr@5", "abandonment"], "by": ["country"]}
    job = compile_job(sm.Spec(**spec, name="x", output={"relation": "metrics"}), dialect)
    lines = [
        line for name, text in job.items() if name != "manifest.json" for line in text.split("\n")
    ]
    code = [re.sub(r"'(?:[^']|'')*'", "''", line) for line in lines if not line.startswith("--")]
    code = [re.sub(r"(?:'', )+''", "''", line) for line in code]
    comments = [line for line in lines if line.startswith("--")]
    assert [line for line in comments if len(line) > WIDTH] == []
    kept = ("comment ''", "current_timestamp")  # a column with its meaning; what is stored in views
    code = [line for line in code if not any(word in line for word in kept)]
    assert [line for line in code if len(line) > WIDTH] == []


def learning_statements(name: str) -> Iterator[str]:
    """The texts by which propensities are learned, models compared, or interleaved lists judged."""
    impressions = [
        {"request": n, "item": item, "position": k, "clicked": int(n % k == 0), "device": "tv"}
        | {"query": f"q{n % 2}", "team": "ab"[k % 2]}
        for n in range(40)
        for k, item in enumerate(("abc", "bac", "cab")[n % 3], 1)
    ]
    roles = ("request", "query", "item", "clicked", "team")
    columns = {**{role: role for role in roles}, "segments": ["device"]}
    lists = [
        {"request_id": n, "system": system, "item_id": item, "rank": rank}
        for n in range(40)
        for system, items in (("x", ("abc", "bac", "cab")[n % 3]), ("y", "abc"))
        for rank, item in enumerate(items, 1)
    ]
    rankings = {"data": pa.Table.from_pylist(lists), "columns": {"rank": "rank"}}
    method, _, merge = name.partition(" ")
    options = {"given": {"tv": THIRDS}} if method == "given" else {}
    options |= {"randomised": "position > 0"} if method == "randomised" else {}
    clicks = sm.clicks.Clicks(
        log={"data": pa.Table.from_pylist(impressions), "columns": columns},
        propensity={"method": method, "by": "device", "min_clicks": 1, "positions": 3, **options},
        labels={"pool": "query_item", "rate": merge if merge in ("ips", "coee") else "ctr"},
        interleaving={"method": merge, **({} if merge == "team_draft" else {"rankings": rankings})}
        if "_draft" in merge or "balanced" in merge
        else None,
    )
    with sm.clicks.clean(clicks) as log:
        text, statements = Translation.text, list[str]()

        def kept(at: Translation, sql: str) -> str:
            statements.append(text(at, sql))
            return statements[-1]

        with patch.object(Translation, "text", kept):
            if clicks.interleaving:
                sm.clicks.interleaving_outcome(log, by="device")
            elif merge == "models":
                sm.clicks.click_models(log, by="device")
            else:
                log.judgments()
                log.estimate_propensities()
    yield from statements


LEARNED = (
    *("harvest ips", "em coee", "randomised ips", "given models"),
    *("given team_draft", "given balanced", "given debiased_balanced"),
)


@by_turns(3)
@pytest.mark.parametrize("name", LEARNED)
def test_what_is_learned_of_a_log_is_laid_out_likewise(name: str) -> None:
    """These texts no command prints; who reads a database's own log sees them."""
    statements = [
        text for text in learning_statements(name) if not text.startswith(("drop ", "describe "))
    ]
    assert len(statements) > 1
    for text in statements:
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []
        assert not re.search(r"\n\n +\S", text)
        assert not re.search(r"\(\n(?! +select)[^\n]{1,40}\n *\)", text)
        assert not re.search(r"select\n +\*\n", text)
    read = "\n".join(statements)
    computed = {name for text in statements for name in columns_of_stages(text)}
    assert {
        column for column in computed if not re.search(rf"(?<!\bas )\b{column}\b", read)
    } == set()


def columns_of_stages(text: str) -> set[str]:
    """The columns that the stages of a text compute, but for one that is read whole."""
    stages, _, last = text.rpartition("\n)\n\nselect")
    star = re.search(r"^ \*\nfrom (\w+)|(\w+)\.\*", last)
    stages = stages.partition(f"\n{star[1] or star[2]} as (")[0] if star else stages
    tables = set(re.findall(r"^ *\) as (\w+)$|^ *(?:from|\w+ join) \S+ as (\w+)$", stages, re.M))
    named = re.findall(r" as (\w+),?$", stages, re.M)
    return set(named) - {name for aliases in tables for name in aliases}


def test_what_a_user_wrote_keeps_its_parentheses_on_lines_of_their_own() -> None:
    """A comment in it would hide what follows on its line."""
    columns = {"score": "score", "grade": "grade"}
    rankings = {"sql": "select * from r -- only", "where": "a = 1", "columns": columns}
    text = sm.compile(sm.Spec(rankings=rankings, metrics=["ndcg@10"]), "postgres")
    assert re.search(r"\(\n +select \* from r -- only\n +\)", text)
    assert re.search(r"\(\n +a = 1\n +\)\s+and ", text)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_the_text_of_a_click_log_begins_with_its_conventions(dialect: str) -> None:
    cleaning = {"test": "note = 'a\nb'", "unseen": 3}
    log = {**CLICKS, "cleaning": cleaning, "labels": POOLED}
    text = sm.compile(sm.Spec(clicks=log, metrics=["ndcg@10", "ctr@5"]), dialect)
    head, _ = text.split("\n\n", 1)
    comments = head.splitlines()[1:] if dialect == "postgres" else head.splitlines()
    assert comments == [
        "-- metrics: ctr@5, ndcg@10",
        "-- labels: pool=query_item, rate=ctr, prior=10, min_impressions=1, cuts=none,",
        "--     quantiles=0.5 0.8, max_rank=none, window=none",
        "-- cleaning: test=note = 'a b', max_events_per_user_hour=none, bots_of=log,",
        "--     min_dwell=none, attribution_window=none, deduplicate=yes, same_position=keep,",
        "--     unseen=3",
    ]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_no_stage_of_a_click_log_is_printed_twice(dialect: str) -> None:
    labels = {**POOLED, "window": {"end": "2026-01-04"}}
    log = {**CLICKS, "labels": labels, "evaluation": {"start": "2026-01-04"}}
    text = sm.compile(sm.Spec(clicks=log, metrics=["ndcg@10", "ctr@5"]), dialect)
    views = re.findall(r"^create temporary view sqlmetrics_(?!click_)(\w+) as$", text, re.M)
    stages = [*views, *re.findall(r"^(\w+) as \($", text, re.M)]
    assert sorted(set(stages)) == sorted(stages)
    assert {"impressions_read", "clean_impressions", "seen_impressions"} <= {*views}
    assert "answers" in stages  # a table: printed once, and read by several
    for view in views:  # and each is read by more than one statement
        assert len(re.findall(rf"(?:from|join) [`\"]?sqlmetrics_{view}\b", text)) > 1, view


def test_the_days_of_a_job_are_conditions_of_their_own() -> None:
    rankings = {**SEARCH["rankings"], "columns": {"date": "day"}}
    fields = {"name": "search", "rankings": rankings, "labels": {"relation": "labels"}}
    spec = sm.Spec(**fields, metrics=["ndcg@10"], output={"relation": "metrics"})
    text = compile_job(spec)["02_evaluation.sql"]
    where = re.search(r"\n    where (.*)\n        and (.*)\n        and (.*)\n\)", text)
    assert where is not None
    assert where[1] == "(a or b)"
    assert [where[2][:22], where[3][:21]] == ["cast(day as date) >= c", "cast(day as date) < c"]


@pytest.mark.parametrize(
    ("mentioned", "stage"),
    [
        ("results", "rankings"),
        ("rankings", "ranking_rows"),
        ("Ranking_Rows", "rankings"),
        ("select * from rankings natural join ranking_rows", "ranking_rows_2"),
    ],
)
def test_a_stage_has_a_name_that_no_table_has(mentioned: str, stage: str) -> None:
    key = "sql" if "select" in mentioned else "relation"
    source = {key: mentioned}
    spec = sm.Spec(rankings=source, labels={"relation": "graded"}, metrics=["ndcg@10"])
    assert f"\n{stage} as (\n" in sm.compile(spec)


def test_floats_are_added_in_two_parts_where_the_text_runs() -> None:
    """What is printed is read, and adds by `sum`; a count needs no other."""
    translation = Translation(dialect_named("clickhouse"), executes=True)
    sums = f"select {translation.total('x * y')} / z as a, {translation.exact('sum(1e0)')} as b"
    text = " ".join(translation.text(f"{sums} from t").split())
    rounded = '("x" * "y") + 402653184e0 - 402653184e0'
    parts = f'( sum({rounded}) + sum(("x" * "y") - ({rounded})) ) / "z"'
    assert text.startswith(f'select {parts} as a, sum(1e0) as b from "t"'), text
    assert translation.printed.total("x") == "sum(x)"
