"""Labels of a click log, of a request and of all requests of a query, against plain Python."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.clicks.analysis.label_comparison import AS_SAID, HELD_OUT, compare_labels
from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.labels import POOLED, can_leave_own_out, pooled
from sqlmetrics.clicks.labels import labels as labels_of
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError
from sqlmetrics.spec.click_log import ClickLabels, Clicks
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.transpile import translated

pytestmark = by_turns(0.3)

MIDNIGHT = datetime(2026, 1, 1)
"""When the logs of this file begin."""

IMPRESSION_SCHEMA = pa.schema(
    [
        ("request", pa.string()),
        ("query", pa.string()),
        ("item", pa.string()),
        ("position", pa.int64()),
        ("at", pa.timestamp("us")),
    ]
)
EVENT_SCHEMA = pa.schema(
    [
        ("request", pa.string()),
        ("item", pa.string()),
        ("action", pa.string()),
        ("at", pa.timestamp("us")),
    ]
)


@dataclass(frozen=True)
class Request:
    """A search: its day, its text, what was shown from position 1 on, and what was done.

    Attributes:
        query: Its text.
        items: The items; one may stand there twice.
        clicked: Those that were clicked.
        bought: Those that were bought.
        hour: When, in hours since `MIDNIGHT`.
    """

    query: str | None
    items: str
    clicked: str = ""
    bought: str = ""
    hour: float = 0.0

    @property
    def at(self) -> datetime:
        """When."""
        return MIDNIGHT + timedelta(hours=self.hour)


def clicks_of(log: Sequence[Request], **options: Any) -> dict[str, Any]:
    """The `clicks` of a spec: two tables."""
    impression_rows = [
        {
            "request": f"r{n}",
            "query": request.query,
            "item": item,
            "position": position,
            "at": request.at,
        }
        for n, request in enumerate(log)
        for position, item in enumerate(request.items, start=1)
    ]
    event_rows = [
        {"request": f"r{n}", "item": item, "action": action, "at": request.at}
        for n, request in enumerate(log)
        for action, items in (("click", request.clicked), ("purchase", request.bought))
        for item in items
    ]
    columns = {"request": "request", "item": "item", "time": "at"}
    first = {**columns, "query": "query", "position": "position"}
    return {
        "impressions": {
            "data": pa.Table.from_pylist(impression_rows, IMPRESSION_SCHEMA),
            "columns": first,
        },
        "events": {
            "data": pa.Table.from_pylist(event_rows, EVENT_SCHEMA),
            "columns": {**columns, "action": "action"},
        },
        **options,
    }


ENGINE = duckdb.connect()
"""One database for all: to open one takes longer than most logs here."""


@contextmanager
def opened(log: Sequence[Request], **options: Any) -> Iterator[CleanLog]:
    """A log, cleaned."""
    with (
        connect(ENGINE) as engine,
        cleaned_log(Clicks(**clicks_of(log, **options)), engine) as cleaned,
    ):
        yield cleaned


COLUMNS = [
    "query_text",
    "item_id",
    "n_impressions",
    "n_clicks",
    "n_purchases",
    "expected_clicks",
    "rate",
    "grade",
]
Judged = dict[tuple[str, str], tuple[float, ...]]
"""(query, item) -> the columns behind them."""

POOL = {"pool": "query_item"}
Judgment = tuple[int, int, int, Fraction, Fraction, Fraction]
"""Impressions, clicks, purchases, expected clicks, rate, grade."""


def impressions(
    log: Sequence[Request],
) -> Iterator[tuple[str | None, str, int, bool, bool]]:
    """Query, item, position, whether clicked, whether bought: each item of a request once."""
    for request in log:
        for position, item in enumerate(request.items, start=1):
            if request.items.index(item) == position - 1:
                yield request.query, item, position, item in request.clicked, item in request.bought


def examined(log: Sequence[Request]) -> Iterator[tuple[str | None, str, bool]]:
    """Query, item, whether it is the last click: what stands down to that, all without one."""
    for request in log:
        indexes = {item: request.items.index(item) for item in request.items}
        last = max((indexes[item] for item in request.clicked), default=len(request.items))
        for item, index in indexes.items():
            if index <= last:
                yield request.query, item, index == last


def share(flags: Sequence[bool]) -> Fraction:
    return Fraction(sum(flags), len(flags))


def reference(
    log: Sequence[Request],
    *,
    rate: str = "ctr",
    prior: float = 0,
    min_impressions: int = 1,
    cuts: Sequence[float] = (),
    quantiles: Sequence[float] = (),
    without: int | None = None,
) -> dict[tuple[str, str], Judgment]:
    """(query, item) -> its judgment, from the formulas, in fractions; one request left out."""
    rows = list(impressions(log))
    by_position, by_pair = defaultdict(list), defaultdict(list)
    for *_, position, clicked, _ in rows:
        by_position[position].append(clicked)
    remaining = [request for number, request in enumerate(log) if number != without]
    for query, item, position, clicked, bought in impressions(remaining):
        by_pair[query, item].append((position, clicked, bought))
    ctr = {position: share(flags) for position, flags in by_position.items()}
    prior_weight, rates = Fraction(str(prior)), {}
    looks = list(examined(log))
    overall = share([last for *_, last in looks]) if looks else Fraction()
    for pair, outcomes in by_pair.items():
        clicks, purchases = (
            sum(outcome[1] for outcome in outcomes),
            sum(outcome[2] for outcome in outcomes),
        )
        expected = sum((ctr[position] for position, *_ in outcomes), Fraction())
        over, under = {
            "ctr": (
                clicks + prior_weight * share([row[3] for row in rows]),
                len(outcomes) + prior_weight,
            ),
            "coec": (clicks + prior_weight, expected + prior_weight),
            "sdbn": (
                sum(last for *of, last in looks if tuple(of) == pair) + prior_weight * overall,
                sum(tuple(of) == pair for *of, _ in looks) + prior_weight,
            ),
            "purchase_rate": (
                purchases + prior_weight * share([row[4] for row in rows]),
                len(outcomes) + prior_weight,
            ),
        }[rate]
        if pair[0] is not None and len(outcomes) >= min_impressions and under:
            rates[pair] = (len(outcomes), clicks, purchases, expected, over / under)
    values = sorted(judged[-1] for judged in rates.values())
    return {
        pair: (*judged, grade(judged[-1], values, cuts, quantiles))
        for pair, judged in rates.items()
    }


def grade(
    rate: Fraction, rates: Sequence[Fraction], cuts: Sequence[float], quantiles: Sequence[float]
) -> Fraction:
    """How many cuts a rate reaches, or how many quantiles it is above; else the rate."""
    if cuts:
        return Fraction(sum(rate >= Fraction(str(cut)) for cut in cuts))
    if quantiles:
        return Fraction(sum(rate > quantile(rates, Fraction(str(q))) for q in quantiles))
    return rate


def quantile(rates: Sequence[Fraction], q: Fraction) -> Fraction:
    """The smallest rate for which at least a share of q of all rates is not above it."""
    return next(r for r in rates if Fraction(sum(rate <= r for rate in rates), len(rates)) >= q)


def judgments(log: Sequence[Request], **options: Any) -> Judged:
    """What the SQL says, in the order of its columns."""
    cleaning = options.pop("cleaning", {})
    with opened(log, labels={"pool": "query_item", **options}, cleaning=cleaning) as cleaned:
        return judgments_of(cleaned.judgments())


def relabelled(cleaned: CleanLog, **options: Any) -> CleanLog:
    """The same clean log with other labels."""
    labels = ClickLabels(**{"pool": "query_item", **options})
    clicks = cleaned.tables.clicks.model_copy(update={"labels": labels})
    return replace(cleaned, tables=replace(cleaned.tables, clicks=clicks))


EXAMINED = ["n_examined", "n_last_clicks"]
"""What judgments by `sdbn` have besides."""


def judgments_of(table: pa.Table) -> Judged:
    """(query, item) -> the numbers of a table of judgments."""
    if "n_examined" in table.column_names:
        table = table.drop_columns(EXAMINED)
    assert table.column_names == COLUMNS
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert len({row[:2] for row in rows}) == len(rows)
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    return {row[:2]: row[2:] for row in rows}


def same(actual: Mapping[Any, Any], wanted: Mapping[Any, Any]) -> None:
    assert actual.keys() == wanted.keys()
    for key, numbers in wanted.items():
        assert actual[key] == pytest.approx(
            [float(number) for number in numbers], rel=1e-12, abs=1e-12
        )


LOG = [
    Request("shoes", "abc", clicked="a", bought="a"),
    Request("shoes", "bac", clicked="b"),
    Request("shoes", "cba", clicked="ca", bought="a"),
    Request("Shoes", "ab", clicked="b", bought="b"),
    Request("shoes ", "ab"),
    Request("shoés", "aba", clicked="a"),
    Request(None, "abc", clicked="c"),
    Request("", "dA", clicked="A"),
]
"""Texts that differ in case, space and accent; none and an empty one; an item shown twice."""


def test_the_clicks_are_counted_by_hand() -> None:
    judged = judgments(LOG)
    # 19 impressions without the second a of "shoés", 8 clicks: at position 1: 4 of 8
    # (r0 r1 r2 r5), at 2: 2 of 8 (r3 r7), at 3: 2 of 4 (r2 r6).
    assert judged["shoes", "a"] == (3, 2, 2, 1 / 2 + 2 / 8 + 2 / 4, 0.666666666667, 0.666666666667)
    assert judged["shoes", "c"] == (3, 1, 0, 2 / 4 + 2 / 4 + 1 / 2, 0.333333333333, 0.333333333333)
    assert judged["Shoes", "b"] == (1, 1, 1, 1 / 4, 1, 1)
    assert judged["shoes ", "a"] == (1, 0, 0, 1 / 2, 0, 0)
    assert judged["shoés", "a"] == (1, 1, 0, 1 / 2, 1, 1)
    assert judged["", "A"] == (1, 1, 0, 1 / 4, 1, 1)
    assert len(judged) == 3 + 2 + 2 + 2 + 2


CASES: list[dict[str, Any]] = [
    {"rate": rate, "prior": prior, **cut}
    for rate in ("ctr", "coec", "purchase_rate", "sdbn")
    for prior in (0, 0.5, 3)
    for cut in ({}, {"cuts": (0.1, 0.5)}, {"quantiles": (0.5, 0.8, 0.95)}, {"min_impressions": 2})
]


@pytest.fixture(scope="module")
def clean() -> Iterator[CleanLog]:
    with connect() as engine, cleaned_log(Clicks(**clicks_of(LOG)), engine) as cleaned:
        yield cleaned


@pytest.mark.parametrize("options", CASES, ids=str)
def test_every_option_is_what_its_formula_says(clean: CleanLog, options: dict[str, Any]) -> None:
    same(judgments_of(relabelled(clean, **options).judgments()), reference(LOG, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"rate": "coec"},
        {"rate": "purchase_rate"},
        {"rate": "sdbn"},
        {"cuts": [0.6]},
        {"quantiles": [0.9]},
        {"min_impressions": 2},
        {"prior": 1},
    ],
    ids=str,
)
def test_every_option_changes_a_row_and_keeps_one(options: dict[str, Any]) -> None:
    log = [
        Request("tv", "ab", clicked="a", bought="a"),
        Request("tv", "c", clicked="c"),
        Request("tv", "c"),
        Request("pc", "ad", clicked="d"),
    ]
    plain, changed = judgments(log), judgments(log, **options)
    assert any(changed.get(pair) == judgment for pair, judgment in plain.items())
    assert any(changed.get(pair) != judgment for pair, judgment in plain.items())


def test_what_nobody_looked_at_is_no_impression() -> None:
    log = [Request("tv", "abc", clicked="a"), Request("tv", "cab", clicked="b")]
    examined_log = [Request("tv", "a", clicked="a"), Request("tv", "cab", clicked="b")]
    for rate in ("ctr", "coec"):
        same(judgments(log, rate=rate, cleaning={"unseen": 0}), reference(examined_log, rate=rate))
        same(judgments(log, rate=rate), reference(log, rate=rate))


def test_an_item_that_is_shown_twice_in_a_request_counts_once() -> None:
    for deduplicate in (True, False):
        judged = judgments(LOG, rate="coec", cleaning={"deduplicate": deduplicate})
        same(judged, reference(LOG, rate="coec"))
        assert judged["shoés", "a"][0] == 1


TEXTS = st.sampled_from(["tv", "TV", "tv ", " tv", "té", "te", "", None])
ITEMS = "aAbá "


@st.composite
def requests(draw: st.DrawFn) -> Request:
    items = draw(st.text(ITEMS, min_size=1, max_size=4))
    answered = st.text(sorted(set(items)), max_size=2)
    return Request(draw(TEXTS), items, draw(answered), draw(answered))


OPTIONS = st.fixed_dictionaries(
    {
        "rate": st.sampled_from(["ctr", "coec", "purchase_rate", "sdbn"]),
        "prior": st.sampled_from([0, 0.1, 1, 10]),
        "min_impressions": st.integers(1, 3),
    }
)
STEPS = st.sampled_from(
    [
        {},
        {"cuts": (0.1, 0.25, 1)},
        {"cuts": (0.5,)},
        {"quantiles": (0.5,)},
        {"quantiles": (0.1, 0.2, 0.75)},
    ]
)


@by_turns(1.6)
@settings(max_examples=30, deadline=None)
@given(log=st.lists(requests(), max_size=8), options=OPTIONS, steps=STEPS)
def test_any_log_is_what_the_formulas_say(
    log: list[Request], options: dict[str, Any], steps: dict[str, Any]
) -> None:
    """And a request that is judged by the others alone has the grades that they give."""
    with opened(log, labels={**POOL, **options, **steps}) as cleaned:
        same(judgments_of(cleaned.judgments()), reference(log, **options, **steps))
        if not can_leave_own_out(cleaned.tables.clicks.labels):
            return
        rows = cleaned.engine.rows(labels_of(replace(cleaned.tables, leaves_own_out=True)))
    assert len({row[:2] for row in rows}) == len(rows)
    wanted = {
        (f"r{number}", item): judgment[-1:]
        for number, request in enumerate(log)
        for (query, item), judgment in reference(log, **options, **steps, without=number).items()
        if query == request.query and request.items
    }
    same({row[:2]: row[2:] for row in rows}, wanted)


def test_a_log_without_a_click_has_rates_of_0_and_none_over_expected_clicks() -> None:
    log = [Request("tv", "ab"), Request("tv", "ba")]
    assert {judgment[-1] for judgment in judgments(log).values()} == {0}
    assert {judgment[-1] for judgment in judgments(log, prior=2).values()} == {0}
    assert judgments(log, rate="coec") == {}
    assert {judgment[-2:] for judgment in judgments(log, rate="coec", prior=2).values()} == {(1, 1)}


def test_equal_rates_have_one_grade_and_nothing_is_above_the_highest() -> None:
    log = [Request("tv", "abcd", clicked="ab"), Request("tv", "dcba", clicked="a")]
    # c and d: 0, b: 1/2, a: 1. Half of the pairs are not above 0, three quarters not above 1/2.
    judged = judgments(log, quantiles=[0.5, 0.75])
    assert {item: judgment[-1] for (_, item), judgment in judged.items()} == {
        "a": 2,
        "b": 1,
        "c": 0,
        "d": 0,
    }
    judged = judgments(log, quantiles=[0.76])
    assert {item: judgment[-1] for (_, item), judgment in judged.items()} == dict.fromkeys(
        "abcd", 0
    )


def test_a_tenth_is_a_tenth() -> None:
    items = "abcdefghij"
    log = [Request("tv", items, clicked=items[n:]) for n in range(10)]
    judged = judgments(log, quantiles=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    grades = {item: judgment[-1] for (_, item), judgment in judged.items()}
    assert grades == {item: n for n, item in enumerate(items)}


def test_what_is_shown_too_seldom_has_no_label_but_counts_in_the_means() -> None:
    log = [Request("tv", "a"), Request("tv", "a", clicked="a"), Request("pc", "a", clicked="a")]
    judged = judgments(log, prior=1, min_impressions=2)
    same(judged, {("tv", "a"): (2, 1, 0, 4 / 3, (1 + 2 / 3) / 3, (1 + 2 / 3) / 3)})


def labels(log: Sequence[Request], **options: Any) -> set[tuple[str, str, float]]:
    with opened(log, **options) as cleaned:
        rows = cleaned.engine.rows(cleaned.labels())
    assert len(set(rows)) == len(rows)
    return set(rows)


def test_the_labels_of_a_request_are_its_own() -> None:
    log = [Request("tv", "ab", clicked="a", bought="a"), Request("tv", "ab", clicked="b")]
    assert labels(log) == {("r0", "a", 1), ("r1", "b", 1)}
    grades = {"click": 1, "purchase": 3}
    assert labels(log, labels={"grades": grades}) == {("r0", "a", 3), ("r1", "b", 1)}


def test_pooled_labels_are_those_of_every_request_with_the_text() -> None:
    log = [
        Request("tv", "ab", clicked="a"),
        Request("tv", "c"),
        Request("TV", "c"),
        Request(None, "a"),
    ]
    wanted = {
        (f"r{n}", item, label) for n in (0, 1) for item, label in (("a", 1), ("b", 0), ("c", 0))
    }
    rows = labels(log, labels={"pool": "query_item", "cuts": [0.5]})
    assert rows == wanted | {("r2", "c", 0)}


DAYS: dict[str, Any] = {
    "labels": {"pool": "query_item", "window": {"start": "2026-01-02", "end": "2026-01-04"}},
    "evaluation": {"start": date(2026, 1, 4), "end": date(2026, 1, 5)},
}
WEEK = [
    Request("tv", "a", clicked="a", hour=23.99),  # the day before
    Request("tv", "ab", clicked="b", hour=24),  # the first moment of the window
    Request("tv", "ab", hour=71.99),  # its last
    Request("tv", "bc", clicked="c", hour=72),  # the first moment of the evaluation
    Request("pc", "b", hour=95.99),
    Request("tv", "ac", clicked="a", hour=96),  # the day after
]


def test_labels_are_learned_in_one_window_and_requests_evaluated_in_another() -> None:
    with opened(WEEK, **DAYS) as cleaned:
        assert [tuple(row.values()) for row in cleaned.judgments().to_pylist()] == [
            ("tv", "a", 2, 0, 0, 0, 0, 0),
            ("tv", "b", 2, 1, 0, 1, 0.5, 0.5),
        ]
        assert set(cleaned.engine.rows(cleaned.labels())) == {("r3", "a", 0), ("r3", "b", 0.5)}
        pairs = {row[:2] for row in cleaned.engine.rows(cleaned.rankings())}
        assert pairs == {("r3", "b"), ("r3", "c"), ("r4", "b")}


def test_judgments_of_too_few_impressions_say_how_many_there_are() -> None:
    log = [Request("tv", "ab"), Request("tv", "ab"), Request(None, "abc")]
    few = {"pool": "query_item", "min_impressions": 9}
    with opened(log, labels=few) as cleaned, pytest.raises(InputError, match="are 4 impressions"):
        cleaned.judgments(some=True)
    none = {"pool": "query_item", "rate": "coec"}
    with opened(log, labels=none) as cleaned, pytest.raises(InputError, match="0 of 4 impressions"):
        cleaned.judgments(some=True)


def test_a_request_is_of_the_day_on_which_it_began() -> None:
    late = clicks_of([Request("tv", "ab", clicked="b", hour=47.9)], daily=False)
    first = late["impressions"]["data"].to_pylist()
    first[1]["at"] = MIDNIGHT + timedelta(hours=48.1)
    late["impressions"]["data"] = pa.Table.from_pylist(first, IMPRESSION_SCHEMA)
    late["events"]["data"] = late["events"]["data"].drop_columns("at")
    late["events"]["columns"].pop("time")
    for start, rows in (("2026-01-02", 2), ("2026-01-03", 0)):
        by_evaluation = Clicks(**late, evaluation={"start": start, "end": "2026-01-04"})
        pool = {"pool": "query_item", "window": {"end": start}}
        apart = Clicks(**late, labels=pool, evaluation={"start": start})
        for clicks in (by_evaluation, apart):
            with connect(ENGINE) as engine, cleaned_log(clicks, engine) as cleaned:
                assert len(engine.rows(cleaned.rankings())) == rows
                assert cleaned.tables.clicks.labels.pools is False or (
                    cleaned.judgments().num_rows == 2 - rows
                )


def test_an_evaluation_sees_its_days_alone_also_online_and_without_results() -> None:
    request_columns = {"request": [f"r{n}" for n in range(6)] + ["x3", "x4"], "query": ["tv"] * 8}
    hours = [request.hour for request in WEEK] + [71.0, 73.0]
    at = [MIDNIGHT + timedelta(hours=hour) for hour in hours]
    table = pa.table({**request_columns, "at": pa.array(at, pa.timestamp("us"))})
    columns = {"request": "request", "query": "query", "time": "at"}
    clicks = clicks_of(WEEK, **DAYS, requests={"data": table, "columns": columns})
    metrics = ["recall(rel=0.1)@1", "ndcg(gain=linear)@2", "ctr", "zero_result_rate"]
    result = evaluate_clicks(sm.Spec(clicks=clicks, metrics=metrics), ENGINE)
    assert result.offline["recall(rel=0.1)@1"] == 1
    assert result.offline["ndcg(gain=linear)@2"] == 1
    online = {
        row["metric"]: (row["numerator"], row["denominator"]) for row in result.online().to_pylist()
    }
    assert online == {"ctr": (1, 3), "zero_result_rate": (1, 3)}
    assert result.rows["impressions"] == (10, 10)


def test_labels_of_requests_that_are_not_evaluated_are_not_missing() -> None:
    days = {"start": "2026-01-02", "end": "2026-01-04"}
    assert labels(WEEK, evaluation=days) == {("r1", "b", 1)}
    for pool in ({}, {"labels": POOL | {"window": {"end": "2026-01-02"}}}):
        clicks = clicks_of(WEEK, evaluation=days, **pool)
        result = evaluate_clicks(sm.Spec(clicks=clicks, metrics=["recall@5"]), ENGINE)
        (row,) = result.offline.to_dicts()
        assert row["n_missing"] == 0


def test_the_evaluation_of_pooled_labels_is_that_of_the_labels_by_themselves() -> None:
    options = {
        "labels": {"pool": "query_item", "rate": "coec", "prior": 1, "quantiles": [0.5, 0.9]}
    }
    result = evaluate_clicks(sm.Spec(clicks=clicks_of(LOG, **options), metrics=["ndcg@2", "mrr"]))
    with opened(LOG, **options) as cleaned:
        rankings, truth = (
            cleaned.engine.table(cleaned.rankings()),
            cleaned.engine.table(cleaned.labels()),
        )
    apart = sm.evaluate(rankings.drop_columns(["system", "metric_date"]), truth, ["ndcg@2", "mrr"])
    assert result.offline["ndcg@2"] == pytest.approx(apart["ndcg@2"], abs=1e-12)
    assert result.offline["mrr"] == pytest.approx(apart["mrr"], abs=1e-12)


def test_a_window_may_be_open_at_one_end() -> None:
    days = {"labels": {"pool": "query_item", "window": {"end": "2026-01-02"}}}
    with opened(WEEK, **days, evaluation={"start": "2026-01-02"}) as cleaned:
        assert [row["item_id"] for row in cleaned.judgments().to_pylist()] == ["a"]
        assert {row[0] for row in cleaned.engine.rows(cleaned.labels())} == {"r1", "r2", "r3", "r5"}


JANUARY, LATE = {"start": "2026-01-01", "end": "2026-01-15"}, {"start": "2026-01-14"}
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"labels": POOL | {"window": JANUARY}, "evaluation": LATE},
        r"labels.window \(from 2026-01-01 and before 2026-01-15\) and evaluation "
        r"\(from 2026-01-14\) overlap",
    ),
    ({"labels": POOL | {"window": JANUARY}}, "belong together.*; given only labels.window"),
    ({"labels": POOL, "evaluation": LATE}, "belong together.*; given only evaluation"),
    (
        {"labels": {"window": JANUARY}},
        "window: only for pool query_item, and the pool is impression",
    ),
    ({"labels": {"cuts": [0.1], "prior": 2}}, "prior, cuts: only for pool query_item"),
    (
        {"labels": POOL | {"grades": {"click": 2}}},
        "grades: only for pool impression, and the pool is query_i",
    ),
    ({"evaluation": {}}, "give start, end or both"),
    ({"evaluation": {"start": "2026-01-02", "end": "2026-01-02"}}, "must come after the start"),
    ({"evaluation": {"start": "soon"}}, "must be a day"),
    ({"labels": POOL | {"cuts": [0.5, 0.1]}}, "must rise"),
    ({"labels": POOL | {"cuts": [0.1], "quantiles": [0.5]}}, "cuts or quantiles, not both"),
    ({"labels": POOL | {"cuts": [0.1, 1.5]}}, "cuts of ctr are above 0 and at most 1"),
    ({"labels": POOL | {"cuts": [0.0]}}, "cuts of ctr are above 0"),
    ({"labels": POOL | {"rate": "coec", "cuts": [float("inf")]}}, "cuts of coec are above 0"),
    ({"labels": POOL | {"quantiles": [1.0]}}, "quantiles must be between 0 and 1"),
    ({"labels": POOL | {"prior": float("inf")}}, "prior"),
    ({"labels": POOL | {"prior": -1}}, "prior"),
    ({"labels": POOL | {"min_impressions": 0}}, "min_impressions"),
    (
        {"labels": POOL | {"rate": "cvr"}},
        r"^clicks\.labels\.rate must be 'ctr', 'coec', .*'sdbn' or 'opensearch_coec', given 'cvr'$",
    ),
    (
        {"labels": POOL | {"cut": [0.1]}},
        r"unknown key 'cut'; did you mean 'cuts'\?.*clicks\.labels",
    ),
    (
        {"cleaning": {"bots": 5}},
        r"unknown key 'bots'.* known: attribution.*\(in clicks\.cleaning\)",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=str)
def test_what_is_wrong_is_told(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.SpecError, match=message):
        sm.Spec(clicks=clicks_of(LOG, **wrong), metrics=["mrr"])


WIDE = pa.table({"request_id": ["r"], "item_id": ["a"], "position": [1], "clicked": [1]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": POOL}, r"pool query_item need log\.columns\.query"),
        ({"evaluation": LATE}, r"need log\.columns\.time"),
        (
            {"labels": POOL | {"rate": "purchase_rate"}, "log": {"query": "item_id"}},
            r"purchase_rate needs log\.columns\.actions\.purchase",
        ),
        (
            {
                "evaluation": LATE,
                "log": {"time": "request_id"},
                "requests": {"data": WIDE, "columns": {}},
            },
            r"need requests\.columns\.time",
        ),
    ],
)
def test_a_column_that_is_needed_is_named(options: dict[str, Any], message: str) -> None:
    log = {"data": WIDE, "columns": options.pop("log", {})}
    with pytest.raises(sm.SpecError, match=message):
        sm.Spec(clicks={"log": log, **options}, metrics=["mrr"])


def test_clicks_stand_in_place_of_labels() -> None:
    with pytest.raises(sm.SpecError, match="clicks replace rankings and labels; leave out labels"):
        sm.Spec(clicks=clicks_of(LOG), labels={"relation": "truth"}, metrics=["mrr"])


def test_judgments_are_of_pooled_labels() -> None:
    with (
        opened(LOG) as cleaned,
        pytest.raises(sm.SpecError, match="pool: query_item}}, given pool impr"),
    ):
        cleaned.judgments()


def test_a_wide_table_pools_too() -> None:
    columns = {"query": "query_id", "clicked": "clicked", "actions": {"purchase": "bought"}}
    table = pa.table(
        {
            "request_id": ["r", "r", "s"],
            "query_id": ["tv", "tv", "tv"],
            "item_id": ["a", "b", "a"],
            "position": [1, 2, 1],
            "clicked": [1, 0, 0],
            "bought": [1, 0, 0],
        }
    )
    labels = POOL | {"rate": "purchase_rate"}
    clicks = Clicks(log={"data": table, "columns": columns}, labels=labels)
    with connect(ENGINE) as engine, cleaned_log(clicks, engine) as cleaned:
        assert [tuple(row.values()) for row in cleaned.judgments().to_pylist()] == [
            ("tv", "a", 2, 1, 1, 1, 0.5, 0.5),
            ("tv", "b", 1, 0, 0, 0, 0, 0),
        ]


@pytest.mark.parametrize("options", [{}, {"rate": "coec", "prior": 1, "quantiles": [0.5]}], ids=str)
def test_the_text_is_portable(options: dict[str, Any]) -> None:
    role = {"request": "r", "item": "i"}
    clicks = Clicks(
        impressions={"relation": "shown", "columns": role | {"query": "q", "position": "p"}},
        events={"relation": "done", "columns": role | {"action": "a"}},
        labels=POOL | options,
    )
    with duckdb.connect() as connection, connect(connection) as engine:
        connection.execute("create table shown (r text, i text, q text, p bigint)")
        connection.execute("create table done (r text, i text, a text)")
        with cleaned_log(clicks, engine) as cleaned:
            tables = cleaned.tables
    for name in ("postgres", "clickhouse", "spark", "sqlite"):
        for text in (pooled(tables), labels_of(tables, POOLED)):
            assert translated(text, dialect_named(name), {})


PAGE = Path(__file__).resolve().parents[2] / "docs" / "click-labels.md"


def blocks(language: str) -> list[str]:
    """The blocks of the page about labels."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_spec_of_the_page_is_one(tmp_path: Path) -> None:
    path = tmp_path / "search.yml"
    path.write_text(blocks("yaml")[0], encoding="utf-8")
    clicks = sm.Spec.read(path).clicks
    assert clicks is not None
    assert str(clicks.labels.window) == "from 2026-01-01 and before 2026-01-15"


def test_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks("python")
    exec(compile(block, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == blocks("text")[0]


def test_the_page_has_every_option() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in (*ClickLabels.model_fields, "evaluation", *COLUMNS):
        assert f"`{name}" in page


# -- labels side by side ------------------------------------------------------------------


def lists_of(days: int) -> list[Request]:
    """Some requests a day, of few texts, whose first items are clicked more often."""
    chance = random.Random(3)
    log = []
    for day in range(days):
        for number in range(12):
            items = "".join(chance.sample("abcd", 3))
            clicked = "".join(
                item
                for item, odds in zip(items, (0.7, 0.4, 0.2), strict=True)
                if chance.random() < odds
            )
            log.append(Request(f"q{number % 3}", items, clicked, hour=24 * day + number))
    return log


@by_turns(1.5)
def test_labels_side_by_side() -> None:
    """Each line is what a spec with these labels says; what judges itself is told everywhere."""
    propensity = {"method": "given", "given": {1: 1, 2: 0.5, 3: 0.25}}
    click_options = clicks_of(lists_of(4), propensity=propensity, daily=True)
    first, second = {"end": "2026-01-03"}, {"start": "2026-01-03"}
    spec = sm.Spec(clicks={**click_options, "labels": POOL}, metrics=["ndcg@3", "mrr"])
    with connect() as engine:
        comparison = compare_labels(spec, engine)
    value = {
        (row["labels"], row["first_day"], row["metric"]): row["value"] for row in comparison.rows
    }

    def means(**changed: Any) -> dict[str, float]:
        clicks = {**click_options, "daily": False, "labels": POOL, **changed}
        result = evaluate_clicks(sm.Spec(clicks=clicks, metrics=["ndcg@3", "mrr"])).offline
        assert result is not None
        return {name: result[name] for name in ("ndcg@3", "mrr")}

    for (labels, day), wanted in {
        ("as the spec says", None): means(),
        ("corrected for positions (ips)", None): means(labels={**POOL, "rate": "ips"}),
        ("learned from 2026-01-01 to 2026-01-02", "2026-01-03"): means(
            labels={**POOL, "window": first}, evaluation=second
        ),
    }.items():
        assert {name: value[labels, day, name] for name in wanted} == pytest.approx(wanted)
    as_said, by_others = (value[variant, None, "ndcg@3"] for variant in (AS_SAID, HELD_OUT))
    assert as_said > by_others
    assert f"ndcg@3 of clicks is {as_said:.4f}, but {by_others:.4f} where each" in " ".join(
        comparison.notes
    )
    assert f"{as_said - by_others:+.4f} " in " ".join(comparison.notes)
    assert comparison.moved
    assert all(row["rank"] != row["corrected_rank"] for row in comparison.moved)
    apart = {
        **click_options,
        "labels": {**POOL, "rate": "ips", "window": first},
        "evaluation": second,
    }
    with connect() as engine:
        windowed = compare_labels(sm.Spec(clicks=apart, metrics=["mrr"]), engine)
    names = ["as the spec says", "not corrected for positions (ctr)", "learned from all requests"]
    assert list(dict.fromkeys(row["labels"] for row in windowed.rows)) == names
    with (
        connect() as engine,
        pytest.raises(sm.SpecError, match=r"labels: \{pool: query_item, rate"),
    ):
        compare_labels(sm.Spec(clicks=click_options, metrics=["mrr"]), engine)


@by_turns(2.8)
def test_the_command_compares_labels(tmp_path: Path) -> None:
    clicks = clicks_of(lists_of(2))
    for name in ("impressions", "events"):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(clicks[name].pop("data"), file)
        clicks[name]["file"] = str(file)
    (tmp_path / "s.yml").write_text(
        json.dumps(
            {"version": 1, "name": "s ", "clicks": {**clicks, "labels": POOL}, "metrics": ["mrr"]}
        )
    )
    run = CliRunner()
    compared = run.invoke(cli, ["clicks", "compare-labels", str(tmp_path / "s.yml")])
    assert compared.exit_code == 0, compared.output
    assert "learned from the other requests" in compared.output
    assert " 's '    0." in compared.output
    rows = json.loads(
        run.invoke(cli, ["clicks", "compare-labels", str(tmp_path / "s.yml"), "-o", "json"]).output
    )
    assert {row["system"] for row in rows["labels"]} == {"s "}
    plain = run.invoke(cli, ["clicks", str(tmp_path / "s.yml")])
    assert "learned from the requests that they judge" in plain.output
    old = run.invoke(cli, ["clicks", str(tmp_path / "s.yml"), "--compare-labels"])
    assert "--compare-labels is now a page: sqlmetrics clicks compare-labels LOG" in old.stderr
    assert old.stdout == compared.stdout
