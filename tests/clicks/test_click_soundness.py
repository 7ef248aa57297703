"""Whether an online comparison is sound: shares, users in several systems, what was shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import by_turns

from sqlmetrics.clicks.analysis import experiment
from sqlmetrics.clicks.analysis.experiment import (
    EXAMPLES,
    REASONS,
    ListComparison,
    Soundness,
    mismatch,
    shown_vs_ranked,
    soundness,
)
from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.proof import reference
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.translation import Translation

pytestmark = by_turns(0.17)

PAGE = (Path(__file__).parents[2] / "docs" / "online.md").read_text(encoding="utf-8")

Lists = Mapping[str, Sequence[str]]
"""Request -> its items, in order."""


def on(clicks: Clicks, do: Callable[[CleanLog], Any]) -> Any:
    with connect() as engine, cleaned_log(clicks, engine) as log:
        return do(log)


# sample ratio mismatch


def test_equal_shares() -> None:
    # (60 - 50)^2 / 50 + (40 - 50)^2 / 50 = 4
    result = mismatch({"a": 60, "b": 40})
    assert (result.chi_square, result.df) == (4.0, 1)
    assert result.p_value == pytest.approx(0.0455002639)
    assert not result.is_mismatch
    assert mismatch({"a": 60, "b": 40}, threshold=0.05).is_mismatch
    assert mismatch({"a": 600, "b": 400}).is_mismatch


def test_given_shares_are_weights() -> None:
    # expected 90, 10: 25 / 90 + 25 / 10
    result = mismatch({"a": 95, "b": 5}, {"a": 9, "b": 1})
    assert result.chi_square == pytest.approx(25 / 90 + 25 / 10)
    assert result.expected == {"a": 90.0, "b": 10.0}


def test_a_system_without_anybody_is_a_mismatch() -> None:
    result = mismatch({"a": 100}, {"a": 0.5, "b": 0.5})
    assert (result.counts, result.chi_square) == ({"a": 100, "b": 0}, 100.0)
    assert result.is_mismatch


def test_what_is_refused() -> None:
    with pytest.raises(SpecError, match="unknown system in the log 'c'; known: a, b"):
        mismatch({"a": 1, "c": 1}, {"a": 1, "b": 1})
    with pytest.raises(SpecError, match="shares must be above 0"):
        mismatch({"a": 1, "b": 1}, {"a": 1, "b": 0})
    with pytest.raises(SpecError, match="the test needs two systems with users"):
        mismatch({"a": 1})
    with pytest.raises(SpecError, match="two systems"):
        mismatch({}, {"a": 1, "b": 1})


def test_a_mismatch_prints() -> None:
    assert repr(mismatch({"a": 600, "b": 400})).splitlines() == [
        "system  users   share  expected   share",
        "a         600  60.00%     500.0  50.00%",
        "b         400  40.00%     500.0  50.00%",
        "chi-square 40, df 1, p = 2.54e-10",
        "sample ratio mismatch: p is below 0.001; do not compare these systems",
    ]
    assert "no sample ratio mismatch: p is not below 0.001" in repr(mismatch({"a": 1, "b": 1}))


# users of a log


def traffic(rows: list[tuple[str, str, str | None, str | None]], **options: Any) -> Clicks:
    """A log of rows (request, item, user, system)."""
    names = ["request_id", "item_id", "user_id", "system"]
    schema = pa.schema([(name, pa.string()) for name in names])
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)
    table = table.append_column("position", pa.array([1] * len(rows), pa.int64()))
    table = table.append_column("clicked", pa.array([0] * len(rows), pa.int64()))
    columns = {"clicked": "clicked", "user": "user_id", "system": "system"}
    return Clicks(log={"data": table, "columns": columns | options.pop("columns", {})}, **options)


def assignment(of: Mapping[str, Sequence[str]]) -> Clicks:
    """User -> the systems of its requests."""
    return traffic(
        [
            (f"{user}-{i}", "a", user, system)
            for user, systems in of.items()
            for i, system in enumerate(systems)
        ]
    )


CROSSING = assignment({"u1": "aab", "u2": "a", "u3": "b", "u4": "bca", "u5": "c"})


def test_users_are_counted_once_a_system() -> None:
    result: Soundness = on(CROSSING, soundness)
    assert result.mismatch is not None
    assert (result.mismatch.unit, result.mismatch.counts) == ("users", {"a": 3, "b": 3, "c": 2})
    by_request = on(CROSSING, lambda log: soundness(log, unit="requests"))
    assert by_request.mismatch.counts == {"a": 4, "b": 3, "c": 2}
    shared = traffic([("r", "x", "u1", "a"), ("r", "y", "u2", "a"), ("s", "x", "u1", "b")])
    by_request = on(shared, lambda log: soundness(log, unit="requests"))
    assert by_request.mismatch.counts == {"a": 1, "b": 1}


def test_users_in_several_systems() -> None:
    crossed = on(CROSSING, soundness).crossed
    assert (crossed.n_users, crossed.n_crossed, crossed.share) == (5, 2, 2 / 5)
    assert crossed.examples == {"u1": ("a", "b"), "u4": ("a", "b", "c")}
    assert repr(crossed).splitlines() == [
        "users in several systems: 2 of 5 (40.00%)",
        "    u1: a, b",
        "    u4: a, b, c",
    ]


def test_examples_are_few() -> None:
    crossed = on(assignment({f"u{i:02}": "ab" for i in range(20)}), soundness).crossed
    assert (crossed.n_crossed, len(crossed.examples)) == (20, EXAMPLES)


def test_requests_count_where_there_are_no_users() -> None:
    rows = [("r1", "a", None, "x"), ("r1", "b", None, "x"), ("r2", "a", None, "y")]
    log = traffic(rows, columns={"user": None})
    result = on(log, soundness)
    assert (result.mismatch.unit, result.mismatch.counts) == ("requests", {"x": 1, "y": 1})
    assert result.crossed is None
    with pytest.raises(SpecError, match="no column of users"):
        on(log, lambda log: soundness(log, unit="users"))


def test_requests_without_a_result_count_too() -> None:
    impressions = {
        "data": pa.table({"request_id": ["r1"], "item_id": ["a"], "position": [1]} | WHO)
    }
    who = {"user": "user_id", "system": "system"}
    clicks = Clicks(
        impressions=impressions | {"columns": who},
        events={"data": NO_EVENTS},
        requests={
            "data": pa.table(
                {"request_id": ["r1", "r2"], "user_id": ["u", "v"], "system": ["x", "y"]}
            ),
            "columns": who,
        },
    )
    assert on(clicks, soundness).mismatch.counts == {"x": 1, "y": 1}


WHO = {"user_id": ["u"], "system": ["x"]}
NO_EVENTS = pa.schema([(name, pa.string()) for name in ("request_id", "item_id", "action")])
NO_EVENTS = NO_EVENTS.empty_table()


def test_bots_do_not_count() -> None:
    log = [("r1", "a", "u", "x"), ("r2", "a", "test", "x"), ("r3", "a", "v", "y")]
    result = on(traffic(log, cleaning={"test": "user_id = 'test'"}), soundness)
    assert result.mismatch.counts == {"x": 1, "y": 1}


def test_one_system_is_nothing_to_compare() -> None:
    result = on(assignment({"u": "a"}), soundness)
    assert (result.mismatch, result.crossed, result.shown_vs_ranked) == (None, None, None)
    assert "no experiment to check" in repr(result)
    shares = {"a": 1, "b": 1}
    assert on(assignment({"u": "a"}), lambda log: soundness(log, shares=shares)).mismatch


@settings(max_examples=4, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=2, max_size=12))
def test_users_are_those_of_plain_python(systems: list[str]) -> None:
    of = {f"u{i}": text for i, text in enumerate([*systems, "a", "b"])}
    result = on(assignment(of), soundness)
    assert result.mismatch.counts == {
        system: sum(system in text for text in of.values())
        for system in sorted(set("".join(of.values())))
    }
    assert result.crossed.n_crossed == sum(len(set(text)) > 1 for text in of.values())


# what was shown beside what was ranked


def shown_log(lists: Lists) -> Clicks:
    rows = [
        {"request_id": request, "item_id": item, "position": i, "clicked": 0}
        for request, items in lists.items()
        for i, item in enumerate(items, start=1)
    ]
    return Clicks(
        log={"data": pa.Table.from_pylist(rows), "columns": {"clicked": "clicked"}},
    )


def ranked(lists: Lists, order: str = "rank") -> dict[str, Any]:
    rows = [
        {"request_id": request, "item_id": item, order: float(i if order == "rank" else -i)}
        for request, items in lists.items()
        for i, item in enumerate(items, start=1)
    ]
    return {"data": pa.Table.from_pylist(rows), "columns": {order: order}}


def compared(ranking: Lists, showing: Lists, k: int = 10, order: str = "rank") -> ListComparison:
    return on(shown_log(showing), lambda log: shown_vs_ranked(log, ranked(ranking, order), k=k))


@pytest.mark.parametrize(
    ("k", "cases"),
    [
        (
            4,
            {
                ("abcd", "abcd"): {},
                ("abcdefgh", "abcd"): {},
                ("abcdef", "acde"): {"skipped": 1},
                ("abcd", "acd"): {"skipped": 1},
                ("abcd", "abxcd"): {"injected": 1},
                ("abcd", "bacd"): {"turned": 2},
                ("abcd", "bcda"): {"turned": 4},
                ("abcd", "ab"): {"cut": 2},
                ("abcdef", "xbad"): {"skipped": 1, "injected": 1, "turned": 2},
            },
        ),
        (3, {("abcdef", "abfc"): {"skipped": 0, "turned": 2}, ("abc", "a"): {"cut": 2}}),
        (2, {("abcd", "abdc"): {}}),
    ],
)
def test_reasons(k: int, cases: dict[tuple[str, str], dict[str, int]]) -> None:
    comparison = compared(
        {"".join(lists): lists[0] for lists in cases},
        {"".join(lists): lists[1] for lists in cases},
        k,
    )
    for reason in comparison.reasons:
        counts = [expected.get(reason.name, 0) for expected in cases.values()]
        assert (reason.n_items, reason.n_requests) == (sum(counts), sum(n > 0 for n in counts))
    assert comparison.n_differ == sum(
        bool(expected.keys() - {"cut"}) for expected in cases.values()
    )


ITEMS = st.permutations("abcdefgh").flatmap(
    lambda items: st.integers(1, 8).map(lambda n: "".join(items[:n]))
)


@by_turns(1)
@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(ITEMS, ITEMS), min_size=1, max_size=8), st.integers(1, 9))
def test_it_is_what_plain_python_says(lists: list[tuple[str, str]], k: int) -> None:
    ranking = {f"r{i}": ranked_items for i, (ranked_items, _) in enumerate(lists)}
    showing = {f"r{i}": shown_items for i, (_, shown_items) in enumerate(lists)}
    comparison = compared(ranking, showing, k)
    assert comparison.n_requests == len(lists)
    overlaps = {r: reference.overlap([*showing[r]], [*ranking[r]], k=k) for r in ranking}
    rbos = {r: reference.rbo([*showing[r]], [*ranking[r]], k=None, p=0.9) for r in ranking}
    assert comparison.overlap == pytest.approx(fmean(overlaps.values()))
    assert comparison.rbo == pytest.approx(fmean(rbos.values()))
    assert comparison.requests is not None
    for row in comparison.requests.to_pylist():
        assert row[f"overlap_at_{k}"] == pytest.approx(overlaps[row["request_id"]])
        assert row["rbo"] == pytest.approx(rbos[row["request_id"]])
    assert comparison.n_differ == sum(
        shown_items[: min(k, len(shown_items))] != ranked_items[: min(k, len(shown_items))]
        for ranked_items, shown_items in lists
    )
    counts = [reasons(ranked_items, shown_items, k) for ranked_items, shown_items in lists]
    assert {r.name: (r.n_items, r.n_requests) for r in comparison.reasons} == {
        name: (sum(count[name] for count in counts), sum(count[name] > 0 for count in counts))
        for name in REASONS
    }


def reasons(ranked_items: str, shown_items: str, k: int) -> dict[str, int]:
    """How many items of a ranked and a shown list differ, by reason."""
    depth = min(k, len(shown_items))
    near = {*ranked_items[:depth], *shown_items[:depth]} & {*ranked_items} & {*shown_items}
    ordered = [sorted(near, key=items.index) for items in (ranked_items, shown_items)]
    return {
        "skipped": len({*ranked_items[:depth]} - {*shown_items}),
        "cut": len({*ranked_items[depth:k]} - {*shown_items}),
        "injected": len({*shown_items[:depth]} - {*ranked_items}),
        "turned": sum(x != y for x, y in zip(*ordered, strict=True)),
    }


def test_requests_with_one_list_are_told() -> None:
    comparison = compared({"r1": "ab", "r2": "a", "r3": "b"}, {"r1": "ab", "r4": "a"})
    assert (comparison.n_requests, comparison.n_only_ranked, comparison.n_only_shown) == (1, 2, 1)
    assert (comparison.overlap, comparison.rbo, comparison.n_differ) == (1.0, 1.0, 0)
    with pytest.raises(SpecError, match="no request has both lists: of 2, 1 have only a ranked"):
        compared({"r1": "ab"}, {"r4": "a"})


def test_scores_order_too_and_equal_ones_go_by_item() -> None:
    assert compared({"r": "ba"}, {"r": "ba"}, order="score").n_differ == 0
    rows = pa.table({"request_id": ["r", "r"], "item_id": ["b", "a"], "score": [1.0, 1.0]})
    comparison = on(shown_log({"r": "ab"}), lambda log: shown_vs_ranked(log, {"data": rows}))
    assert comparison.n_differ == 0


def test_rankings_may_be_named_otherwise_and_filtered() -> None:
    rows = pa.table({"q": [7, 7, 7], "i": ["a", "b", "c"], "r": [1, 2, 1], "v": ["x", "x", "y"]})
    source = {"data": rows, "columns": {"query": "q", "item": "i", "rank": "r"}, "where": "v = 'x'"}
    comparison = on(
        shown_log({"7": "ab"}), lambda log: shown_vs_ranked(log, source, per_request=False)
    )
    assert (comparison.overlap, comparison.n_differ, comparison.requests) == (1.0, 0, None)


def test_bad_lists_are_refused() -> None:
    with pytest.raises(SpecError, match="k must be 1 or more, given 0"):
        compared({"r": "a"}, {"r": "a"}, k=0)
    with pytest.raises(InputError):
        compared({"r": "aa"}, {"r": "a"})
    rows = pa.table({"request_id": ["r", "r"], "item_id": ["a", "b"], "score": [1.0, None]})
    with pytest.raises(InputError):
        on(shown_log({"r": "a"}), lambda log: shown_vs_ranked(log, {"data": rows}))


def test_likeness_prints() -> None:
    comparison = compared({"r1": "abcd", "r2": "abcd"}, {"r1": "acxd", "r2": "abcd"}, 4)
    assert repr(comparison).splitlines() == [
        "shown and ranked lists: 2 requests have both",
        f"overlap@4 0.8750, rbo {comparison.rbo:.4f}; requests that differ: 1 (50.0%)",
        "",
        "reason    items  requests",
        "skipped   1      1         "
        "ranked but not shown, although the list goes on: filters, stock",
        "cut       0      0         "
        "ranked in the first k, but below the end of the shown list: page size, filters",
        "injected  1      1         shown but not in the ranked list",
        "turned    0      0         in both lists, but in a different order",
    ]


def test_all_together() -> None:
    lists = {"r": "ab"}
    result = on(shown_log(lists), lambda log: soundness(log, ranked=ranked({"r": "ba"}), k=2))
    assert result.mismatch is None
    output = result.to_dicts()
    assert output["likeness"]["n_differ"] == 1
    assert output["likeness"]["reasons"][3] == {"name": "turned", "n_items": 2, "n_requests": 1}
    output = on(CROSSING, soundness).to_dicts()
    assert output["mismatch"]["is_mismatch"] is False
    assert (output["crossed"]["share"], output["likeness"]) == (0.4, None)


def test_its_sql_leaves_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def unheard(*args: Any, **kwargs: Any) -> Any:
        """An evaluation has a text of its own, tested elsewhere."""
        n = len(texts)
        result = run(*args, **kwargs)
        del texts[n:]
        return result

    run = experiment.run
    monkeypatch.setattr(experiment, "run", unheard)
    with connect() as engine, cleaned_log(CROSSING, engine) as log:
        rows, temporary, chained = engine.rows, engine.temporary, engine.chained
        monkeypatch.setattr(engine, "rows", lambda sql: texts.append(sql) or rows(sql))
        monkeypatch.setattr(
            engine,
            "temporary",
            lambda create, drop: texts.append(create) or temporary(create, drop),
        )
        monkeypatch.setattr(
            engine, "chained", lambda create, drop: texts.append(create) or chained(create, drop)
        )
        soundness(log, ranked=ranked({"u1-0": "ba"}))
    ours = [text for text in texts if "duckdb_tables()" not in text]
    assert len(ours) == 7
    for name in ("clickhouse", "postgres", "spark"):
        assert all(Translation(dialect_named(name)).text(text) for text in ours)


def test_the_page_says_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, Any] = {}
    for code, _, printed in re.findall(
        r"^```python\n(.*?)^```\n(\n```text\n(.*?)```)?", PAGE, re.DOTALL | re.MULTILINE
    ):
        exec(code, scope)
        assert capsys.readouterr().out == printed
