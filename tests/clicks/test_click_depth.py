"""How deep people look: positions, where requests end, and the cutoffs that follow."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import by_turns

from sqlmetrics.clicks.analysis.depth import LONGEST, Depth, depth
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.translation import Translation

pytestmark = by_turns(0.18)

Row = dict[str, Any]


def depth_of(clicks: Clicks, **options: Any) -> Depth:
    with connect() as engine, cleaned_log(clicks, engine) as log:
        return depth(log, **options)


def wide(rows: list[Row], **options: Any) -> Clicks:
    columns = {"clicked": "clicked", "system": "system", "actions": {"purchase": "bought"}}
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return Clicks(log={"data": table, "columns": columns | options.pop("columns", {})}, **options)


SCHEMA = pa.schema(
    [
        ("request_id", pa.string()),
        ("item_id", pa.string()),
        ("position", pa.int64()),
        ("system", pa.string()),
        ("clicked", pa.int64()),
        ("bought", pa.int64()),
    ]
)


def log_of(text: str) -> list[Row]:
    """One request a word, one letter an item: `new:.c.b` has a click at 2, a purchase at 4."""
    rows = []
    for i, word in enumerate(text.split()):
        system, _, items = word.partition(":")
        rows += [
            {
                "request_id": f"r{i}",
                "item_id": f"i{position}",
                "position": position,
                "system": system,
                "clicked": int(letter == "c"),
                "bought": int(letter == "b"),
            }
            for position, letter in enumerate(items, start=1)
        ]
    return rows


SMALL = "new:c... new:.c.b new:.... old:cc.. old:...c old:.c"


def test_positions() -> None:
    result = depth_of(wide(log_of(SMALL)))
    of = {(p.system, p.position): (p.n_shown, p.n_clicked) for p in result.positions}
    assert of["new", 1] == (3, 1)
    assert of["new", 2] == (3, 1)
    assert of["old", 2] == (3, 2)
    assert of["old", 4] == (2, 1)
    assert of[None, 1] == (6, 2)
    assert of[None, 4] == (5, 1)
    assert [p.ctr for p in result.positions if (p.system, p.position) == ("old", 2)] == [2 / 3]


def test_requests_end_with_a_click_or_with_any_answer() -> None:
    ends = {
        (e.system, e.answer, e.position): (e.n_requests, e.share) for e in depth_of(SMALL_LOG).ends
    }
    assert ends == {
        (None, "click", 1): (1, 1 / 5),
        (None, "click", 2): (3, 4 / 5),
        (None, "click", 4): (1, 1.0),
        (None, "any", 1): (1, 1 / 5),
        (None, "any", 2): (2, 3 / 5),
        (None, "any", 4): (2, 1.0),
        ("new", "click", 1): (1, 1 / 2),
        ("new", "click", 2): (1, 1.0),
        ("new", "any", 1): (1, 1 / 2),
        ("new", "any", 4): (1, 1.0),
        ("old", "click", 2): (2, 2 / 3),
        ("old", "click", 4): (1, 1.0),
        ("old", "any", 2): (2, 2 / 3),
        ("old", "any", 4): (1, 1.0),
    }


SMALL_LOG = wide(log_of(SMALL))


def test_a_request_of_two_systems_ends_in_the_first() -> None:
    rows = log_of("old:cc")
    rows[0]["system"] = "new"
    assert {end.system for end in depth_of(wide(rows)).ends} == {None, "new"}


def test_a_cutoff_covers_exactly_its_share() -> None:
    of = {(c.system, c.share): (c.k, c.covered) for c in depth_of(SMALL_LOG).cutoffs}
    assert of[None, 0.8] == (2, 4 / 5)
    assert of[None, 0.95] == (4, 1.0)
    assert of["old", 0.8] == (4, 1.0)
    (cutoff,) = depth_of(wide(log_of("a:.c")), shares=[0.5]).cutoffs
    assert (cutoff.system, cutoff.k) == ("a", 2)


def test_one_system_has_no_row_of_all() -> None:
    assert depth_of(wide(log_of("a:.c a:c"))).systems == ("a",)
    nameless = wide(log_of("a:.c"), columns={"system": None})
    assert depth_of(nameless, title="shop").systems == ("shop",)


def test_without_a_click_there_is_no_cutoff() -> None:
    result = depth_of(wide(log_of("a:...")))
    assert (result.ends, result.cutoffs) == ((), ())
    assert "requests with a click: 0" in repr(result)
    assert repr(depth_of(wide([]))) == "no list was shown"


@pytest.mark.parametrize("share", [0.0, 1.5, -0.1])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(SpecError, match="above 0 and at most 1"):
        depth_of(SMALL_LOG, shares=[share])


def test_it_prints() -> None:
    assert repr(depth_of(wide(log_of("a:c.. a:.c.")))).splitlines() == [
        "position  shown  clicked     ctr  last click  cumulative  last answer  cumulative",
        "       1      2        1  0.5000           1       50.0%            1       50.0%",
        "       2      2        1  0.5000           1      100.0%            1      100.0%",
        "       3      2        0  0.0000           0      100.0%            0      100.0%",
        "",
        "requests with a click: 2",
        "k = 2 covers 80%: 100.0% of these requests end at this position or above",
        "k = 2 covers 95%: 100.0% of these requests end at this position or above",
    ]
    deep = repr(depth_of(wide(log_of("a:c" + "." * 99))))
    assert f"... {100 - LONGEST} more, down to position 100" in deep


def test_to_dicts() -> None:
    output = depth_of(wide(log_of("a:c a:."))).to_dicts()
    assert output["positions"] == [
        {"system": "a", "position": 1, "n_shown": 2, "n_clicked": 1, "ctr": 0.5}
    ]
    assert output["ends"][0] == {
        "system": "a",
        "answer": "click",
        "position": 1,
        "n_requests": 1,
        "share": 1.0,
    }
    assert output["cutoffs"][0] == {"system": "a", "share": 0.8, "k": 1, "covered": 1.0}


WORDS = st.lists(st.text("..cb", min_size=1, max_size=6), min_size=1, max_size=12)


@settings(max_examples=6, deadline=None)
@given(WORDS, WORDS)
def test_it_is_what_plain_python_counts(new: list[str], old: list[str]) -> None:
    words = [f"new:{word}" for word in new] + [f"old:{word}" for word in old]
    rows = log_of(" ".join(words))
    result = depth_of(wide(rows))
    impressions = Counter((row["system"], row["position"]) for row in rows)
    clicked = Counter((row["system"], row["position"]) for row in rows if row["clicked"])
    actual = {(p.system, p.position): (p.n_shown, p.n_clicked) for p in result.positions}
    assert {of: n for of, n in actual.items() if of[0]} == {
        of: (n, clicked[of]) for of, n in impressions.items()
    }
    last = sorted(word.rindex("c") + 1 for word in [*new, *old] if "c" in word)
    assert {c.share: c.k for c in result.cutoffs if c.system is None} == (
        {share: smallest(last, share) for share in (0.8, 0.95)} if last else {}
    )
    deepest = Counter(max(map(word.rfind, "cb")) + 1 for word in [*new, *old])
    del deepest[0]
    ends = {e.position: e.n_requests for e in result.ends if (e.system, e.answer) == (None, "any")}
    assert ends == deepest


def smallest(last: list[int], share: float) -> int:
    """The smallest k at or above which so many of the last clicks stand."""
    return min(k for k in last if sum(position <= k for position in last) / len(last) >= share)


@pytest.fixture(scope="module")
def bandit(shared: Path) -> dict[str, list[Row]]:
    """Policy -> its rows as they are in the file."""
    policies = {}
    for policy in ("random", "bts"):
        with (shared / "clicks" / f"open_bandit_{policy}.csv").open(encoding="utf-8") as file:
            policies[policy] = list(csv.DictReader(file))
    return policies


def union(shared: Path) -> str:
    """A query of both policies' files."""
    return " union all ".join(
        f"select *, '{policy}' as policy from "
        f"read_csv('{shared / 'clicks' / f'open_bandit_{policy}.csv'}')"
        for policy in ("random", "bts")
    )


BANDIT = {
    "request": None,
    "item": "item_id",
    "position": "position",
    "time": "timestamp",
    "clicked": "click",
    "system": "policy",
}


def test_open_bandit_is_counted_as_in_its_files(bandit: Any, shared: Path) -> None:
    result = depth_of(Clicks(log={"sql": union(shared), "columns": BANDIT}))
    for policy, rows in bandit.items():
        actual = {p.position: p for p in result.positions if p.system == policy}
        for position in (1, 2, 3):
            clicks = [int(row["click"]) for row in rows if row["position"] == str(position)]
            assert (actual[position].n_shown, actual[position].n_clicked) == (
                len(clicks),
                sum(clicks),
            )
            assert actual[position].ctr == sum(clicks) / len(clicks)
    assert sum(p.n_clicked for p in result.positions if p.system is None) == 80


def test_a_row_without_a_request_is_one_by_itself() -> None:
    """Also where the rows are filtered, repeated and clicked in several ways."""
    rows = [
        {"item_id": "a", "position": 2, "system": "s", "clicked": int(i % 3 == 0), "bought": i % 2}
        for i in range(60)
    ]
    log = wide(rows, columns={"request": None})
    with connect() as engine, cleaned_log(log, engine) as cleaned:
        counts = cleaned.counts()
        result = depth(cleaned)
    assert counts == {("impressions", None): 60, ("click", None): 20, ("purchase", None): 30}
    (position,) = result.positions
    assert (position.position, position.n_shown, position.n_clicked) == (2, 60, 20)
    assert {e.answer: e.n_requests for e in result.ends} == {"click": 20, "any": 40}


def test_only_a_wide_log_can_be_without_requests() -> None:
    tables = {"impressions": {"relation": "i", "columns": {"request": None}}}
    with pytest.raises(ValueError, match=r"impressions\.columns\.request"):
        Clicks(**tables, events={"relation": "e"})
    log = {"relation": "l", "columns": {"request": None}}
    with pytest.raises(ValueError, match="cannot be joined to them"):
        Clicks(log=log, requests={"relation": "r"})
    with pytest.raises(ValueError, match=r"needs log\.columns\.request"):
        Clicks(log=log | {"first_position": "each"})


def test_its_sql_leaves_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    with connect() as engine, cleaned_log(SMALL_LOG, engine) as log:
        rows = engine.rows
        monkeypatch.setattr(engine, "rows", lambda sql: texts.append(sql) or rows(sql))
        depth(log)
    assert len(texts) == 2
    for name in ("clickhouse", "postgres", "spark"):
        assert all(Translation(dialect_named(name)).text(text) for text in texts)
