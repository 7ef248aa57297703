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

from sqlmetrics.clicks.analysis import experiment as module
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
    found = mismatch({"a": 60, "b": 40})
    assert (found.chi_square, found.df) == (4.0, 1)
    assert found.p_value == pytest.approx(0.0455002639)
    assert not found.is_mismatch
    assert mismatch({"a": 60, "b": 40}, threshold=0.05).is_mismatch
    assert mismatch({"a": 600, "b": 400}).is_mismatch


def test_given_shares_are_weights() -> None:
    # expected 90, 10: 25 / 90 + 25 / 10
    found = mismatch({"a": 95, "b": 5}, {"a": 9, "b": 1})
    assert found.chi_square == pytest.approx(25 / 90 + 25 / 10)
    assert found.expected == {"a": 90.0, "b": 10.0}


def test_a_system_without_anybody_is_a_mismatch() -> None:
    found = mismatch({"a": 100}, {"a": 0.5, "b": 0.5})
    assert (found.counts, found.chi_square) == ({"a": 100, "b": 0}, 100.0)
    assert found.is_mismatch


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


def traffic(rows: list[tuple[str, str, str | None, str | None]], **more: Any) -> Clicks:
    """A log of rows (request, item, user, system)."""
    names = ["request_id", "item_id", "user_id", "system"]
    schema = pa.schema([(name, pa.string()) for name in names])
    table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)
    table = table.append_column("position", pa.array([1] * len(rows), pa.int64()))
    table = table.append_column("clicked", pa.array([0] * len(rows), pa.int64()))
    columns = {"clicked": "clicked", "user": "user_id", "system": "system"}
    return Clicks(log={"data": table, "columns": columns | more.pop("columns", {})}, **more)


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
    found: Soundness = on(CROSSING, soundness)
    assert found.mismatch is not None
    assert (found.mismatch.unit, found.mismatch.counts) == ("users", {"a": 3, "b": 3, "c": 2})
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
    found = on(log, soundness)
    assert (found.mismatch.unit, found.mismatch.counts) == ("requests", {"x": 1, "y": 1})
    assert found.crossed is None
    with pytest.raises(SpecError, match="no column of users"):
        on(log, lambda log: soundness(log, unit="users"))


def test_requests_without_a_result_count_too() -> None:
    given = {"data": pa.table({"request_id": ["r1"], "item_id": ["a"], "position": [1]} | WHO)}
    who = {"user": "user_id", "system": "system"}
    clicks = Clicks(
        impressions=given | {"columns": who},
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
    found = on(traffic(log, cleaning={"test": "user_id = 'test'"}), soundness)
    assert found.mismatch.counts == {"x": 1, "y": 1}


def test_one_system_is_nothing_to_compare() -> None:
    found = on(assignment({"u": "a"}), soundness)
    assert (found.mismatch, found.crossed, found.shown_vs_ranked) == (None, None, None)
    assert "no experiment to check" in repr(found)
    shares = {"a": 1, "b": 1}
    assert on(assignment({"u": "a"}), lambda log: soundness(log, shares=shares)).mismatch


@settings(max_examples=4, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=2, max_size=12))
def test_users_are_those_of_plain_python(systems: list[str]) -> None:
    of = {f"u{i}": text for i, text in enumerate([*systems, "a", "b"])}
    found = on(assignment(of), soundness)
    assert found.mismatch.counts == {
        system: sum(system in text for text in of.values())
        for system in sorted(set("".join(of.values())))
    }
    assert found.crossed.n_crossed == sum(len(set(text)) > 1 for text in of.values())


# what was shown beside what was ranked


def shown(lists: Lists) -> Clicks:
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
    return on(shown(showing), lambda log: shown_vs_ranked(log, ranked(ranking, order), k=k))


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
    found = compared(
        {"".join(lists): lists[0] for lists in cases},
        {"".join(lists): lists[1] for lists in cases},
        k,
    )
    for reason in found.reasons:
        told = [expected.get(reason.name, 0) for expected in cases.values()]
        assert (reason.n_items, reason.n_requests) == (sum(told), sum(n > 0 for n in told))
    assert found.n_differ == sum(bool(told.keys() - {"cut"}) for told in cases.values())


ITEMS = st.permutations("abcdefgh").flatmap(
    lambda items: st.integers(1, 8).map(lambda n: "".join(items[:n]))
)


@by_turns(1)
@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(ITEMS, ITEMS), min_size=1, max_size=8), st.integers(1, 9))
def test_it_is_what_plain_python_says(lists: list[tuple[str, str]], k: int) -> None:
    ranking = {f"r{i}": one for i, (one, _) in enumerate(lists)}
    showing = {f"r{i}": two for i, (_, two) in enumerate(lists)}
    found = compared(ranking, showing, k)
    assert found.n_requests == len(lists)
    overlaps = {r: reference.overlap([*showing[r]], [*ranking[r]], k=k) for r in ranking}
    rbos = {r: reference.rbo([*showing[r]], [*ranking[r]], k=None, p=0.9) for r in ranking}
    assert found.overlap == pytest.approx(fmean(overlaps.values()))
    assert found.rbo == pytest.approx(fmean(rbos.values()))
    assert found.requests is not None
    for row in found.requests.to_pylist():
        assert row[f"overlap_at_{k}"] == pytest.approx(overlaps[row["request_id"]])
        assert row["rbo"] == pytest.approx(rbos[row["request_id"]])
    assert found.n_differ == sum(
        two[: min(k, len(two))] != one[: min(k, len(two))] for one, two in lists
    )
    told = [reasons(one, two, k) for one, two in lists]
    assert {r.name: (r.n_items, r.n_requests) for r in found.reasons} == {
        name: (sum(one[name] for one in told), sum(one[name] > 0 for one in told))
        for name in REASONS
    }


def reasons(one: str, two: str, k: int) -> dict[str, int]:
    """How many items of a ranked and a shown list differ, by reason."""
    depth = min(k, len(two))
    near = {*one[:depth], *two[:depth]} & {*one} & {*two}
    ordered = [sorted(near, key=items.index) for items in (one, two)]
    return {
        "skipped": len({*one[:depth]} - {*two}),
        "cut": len({*one[depth:k]} - {*two}),
        "injected": len({*two[:depth]} - {*one}),
        "turned": sum(x != y for x, y in zip(*ordered, strict=True)),
    }


def test_requests_with_one_list_are_told() -> None:
    found = compared({"r1": "ab", "r2": "a", "r3": "b"}, {"r1": "ab", "r4": "a"})
    assert (found.n_requests, found.n_only_ranked, found.n_only_shown) == (1, 2, 1)
    assert (found.overlap, found.rbo, found.n_differ) == (1.0, 1.0, 0)
    with pytest.raises(SpecError, match="no request has both lists: of 2, 1 have only a ranked"):
        compared({"r1": "ab"}, {"r4": "a"})


def test_scores_order_too_and_equal_ones_go_by_item() -> None:
    assert compared({"r": "ba"}, {"r": "ba"}, order="score").n_differ == 0
    rows = pa.table({"request_id": ["r", "r"], "item_id": ["b", "a"], "score": [1.0, 1.0]})
    found = on(shown({"r": "ab"}), lambda log: shown_vs_ranked(log, {"data": rows}))
    assert found.n_differ == 0


def test_rankings_may_be_named_otherwise_and_filtered() -> None:
    rows = pa.table({"q": [7, 7, 7], "i": ["a", "b", "c"], "r": [1, 2, 1], "v": ["x", "x", "y"]})
    source = {"data": rows, "columns": {"query": "q", "item": "i", "rank": "r"}, "where": "v = 'x'"}
    found = on(shown({"7": "ab"}), lambda log: shown_vs_ranked(log, source, per_request=False))
    assert (found.overlap, found.n_differ, found.requests) == (1.0, 0, None)


def test_bad_lists_are_refused() -> None:
    with pytest.raises(SpecError, match="k must be 1 or more, given 0"):
        compared({"r": "a"}, {"r": "a"}, k=0)
    with pytest.raises(InputError):
        compared({"r": "aa"}, {"r": "a"})
    rows = pa.table({"request_id": ["r", "r"], "item_id": ["a", "b"], "score": [1.0, None]})
    with pytest.raises(InputError):
        on(shown({"r": "a"}), lambda log: shown_vs_ranked(log, {"data": rows}))


def test_likeness_prints() -> None:
    found = compared({"r1": "abcd", "r2": "abcd"}, {"r1": "acxd", "r2": "abcd"}, 4)
    assert repr(found).splitlines() == [
        "shown and ranked lists: 2 requests have both",
        f"overlap@4 0.8750, rbo {found.rbo:.4f}; requests that differ: 1 (50.0%)",
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
    found = on(shown(lists), lambda log: soundness(log, ranked=ranked({"r": "ba"}), k=2))
    assert found.mismatch is None
    told = found.to_dicts()
    assert told["likeness"]["n_differ"] == 1
    assert told["likeness"]["reasons"][3] == {"name": "turned", "n_items": 2, "n_requests": 1}
    told = on(CROSSING, soundness).to_dicts()
    assert told["mismatch"]["is_mismatch"] is False
    assert (told["crossed"]["share"], told["likeness"]) == (0.4, None)


def test_its_sql_leaves_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def unheard(*given: Any, **more: Any) -> Any:
        """An evaluation has a text of its own, tested elsewhere."""
        n = len(texts)
        result = run(*given, **more)
        del texts[n:]
        return result

    run = module.run
    monkeypatch.setattr(module, "run", unheard)
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
    for code, _, said in re.findall(
        r"^```python\n(.*?)^```\n(\n```text\n(.*?)```)?", PAGE, re.DOTALL | re.MULTILINE
    ):
        exec(code, scope)
        assert capsys.readouterr().out == said
