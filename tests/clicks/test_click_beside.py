"""Offline and online metrics side by side: rank correlation, lags, opposite directions."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sqlmetrics as sm
from sqlmetrics.clicks.analysis.offline_online import PRINTED_CHANGES, OfflineOnline, offline_online
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.errors import SpecError
from sqlmetrics.stats.nonparametric import spearman

START = date(2026, 1, 1)


def rows(
    metric: str, values: list[float | None], k: int = 0, **columns: Any
) -> list[dict[str, Any]]:
    """Rows of the fact table, one a day from START."""
    of = {"spec": "x", "system": "s", "segment_name": "all", "segment_value": "all"} | columns
    return [
        of
        | {
            "metric_date": START + timedelta(days=i),
            "metric": metric,
            "k": k,
            "value": value,
            "numerator": value,
            "denominator": 1.0,
        }
        for i, value in enumerate(values)
    ]


def pair(offline: list[float | None], online: list[float | None], **options: int) -> Any:
    (result,) = offline_online(rows("ndcg", offline, 10), rows("ctr", online), **options).pairs
    return result


# the table


def test_both_families_stand_on_one_line() -> None:
    result = offline_online(
        rows("ndcg", [0.5, 0.6], 10) + rows("mrr", [0.1, None]),
        rows("ctr", [0.2, 0.3], 5) + rows("abandonment", [0.4]),
    )
    first, second = result.lines
    assert (first.metric_date, first.system, first.segment_name) == (START, "s", "all")
    assert (first.offline, first.online) == (
        {"ndcg@10": 0.5, "mrr": 0.1},
        {"ctr@5": 0.2, "abandonment": 0.4},
    )
    assert (second.offline, second.online) == ({"ndcg@10": 0.6}, {"ctr@5": 0.3})
    assert [(p.offline, p.online, p.n_days) for p in result.pairs] == [
        ("ndcg@10", "ctr@5", 2),
        ("ndcg@10", "abandonment", 1),
        ("mrr", "ctr@5", 1),
        ("mrr", "abandonment", 1),
    ]


def test_systems_and_segments_are_kept_apart() -> None:
    of_us = {"segment_name": "country", "segment_value": "us"}
    offline = rows("ndcg", [1, 2, 3]) + rows("ndcg", [3, 2, 1], **of_us)
    online = rows("ctr", [1, 2, 3]) + rows("ctr", [1, 2, 3], **of_us)
    other = rows("ctr", [1, 2, 3], system="t")
    result = offline_online(offline, online + other, least_days=3)
    assert [(p.system, p.segment_value, p.correlation) for p in result.pairs] == [
        ("s", "all", 1.0),
        ("s", "us", -1.0),
    ]
    assert [line.cell for line in result.lines[::3]] == [
        ("s", "all", "all"),
        ("t", "all", "all"),
        ("s", "country", "us"),
    ]
    assert result.lines[3].offline == {}


def test_days_may_be_texts_and_times() -> None:
    offline = [row | {"metric_date": "2026-01-01"} for row in rows("ndcg", [1])]
    online = [row | {"metric_date": datetime(2026, 1, 1, 12)} for row in rows("ctr", [1])]
    (line,) = offline_online(offline, online).lines
    assert (line.metric_date, line.offline, line.online) == (START, {"ndcg": 1.0}, {"ctr": 1.0})


def test_what_is_refused() -> None:
    with pytest.raises(SpecError, match="online: ctr has two values for 2026-01-01, system 's'"):
        offline_online(rows("ndcg", [1]), rows("ctr", [1]) + rows("ctr", [2]))
    with pytest.raises(SpecError, match=r"no day.*offline has 2026-01-01, system 's'.*'t'"):
        offline_online(rows("ndcg", [1]), rows("ctr", [1], system="t"))
    with pytest.raises(SpecError, match="offline has nothing"):
        offline_online([], rows("ctr", [1]))
    with pytest.raises(SpecError, match="given 7 and 2"):
        offline_online(rows("ndcg", [1]), rows("ctr", [1]), least_days=2)


# lags

WAVE = [1.0, 5.0, 2.0, 8.0, 3.0, 9.0, 4.0, 7.0, 0.0, 6.0]


@pytest.mark.parametrize("lag", [-3, -1, 0, 2])
def test_the_lag_of_a_copy_is_found(lag: int) -> None:
    """The online metric on a day is what the offline one was `lag` days before."""
    after = {day + lag: value for day, value in enumerate(WAVE)}
    result = pair([*WAVE, *[None] * 3], [after.get(day) for day in range(13)])
    assert (result.lag, result.lagged) == (lag, 1.0)
    assert result.lagged_days == len(WAVE) + min(lag, 0)
    assert (result.correlation == 1.0) == (lag == 0)


def test_lags_are_days_also_where_days_are_missing() -> None:
    offline = [None if day == 4 else value for day, value in enumerate(WAVE)]
    result = pair(offline, [None, None, *WAVE])
    assert (result.lag, result.lagged, result.lagged_days) == (2, 1.0, 9)


def test_of_equal_correlations_the_smallest_lag_counts() -> None:
    rising = [float(day) for day in range(12)]
    assert (pair(rising, rising).lag, pair(rising, rising).lagged) == (0, 1.0)


def test_few_days_are_no_correlation() -> None:
    few = pair([1, 2, 3, 4], [1, 2, 3, 4])
    assert (few.n_days, few.correlation, few.lag, few.lagged, few.lagged_days) == (
        *(4, None, None),
        *(None, 0),
    )
    assert pair([1, 2, 3, 4], [1, 2, 3, 4], least_days=3).correlation == 1.0
    assert pair([1, 2, 3, 4, 5], [1] * 5).correlation is None


def test_lags_can_be_fewer() -> None:
    assert pair([*WAVE, None], [None, *WAVE], lags=0).lag == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=6, max_size=14))
def test_the_best_lag_is_the_best(values: list[tuple[int, int]]) -> None:
    offline, online = (list(map(float, side)) for side in zip(*values, strict=True))
    by_lag = {}
    for lag in range(-7, 8):
        pairs = [
            (offline[d], online[d + lag]) for d in range(len(offline)) if 0 <= d + lag < len(online)
        ]
        rho = spearman(*zip(*pairs, strict=True)) if len(pairs) >= 5 else None
        by_lag |= {} if rho is None else {lag: rho}
    result = pair(offline, online)
    assert result.correlation == by_lag.get(0)
    assert result.lagged == (pytest.approx(max(by_lag.values())) if by_lag else None)
    if by_lag:
        assert by_lag[result.lag] == pytest.approx(max(by_lag.values()))


# opposite directions


def test_days_on_which_one_rises_and_the_other_does_not() -> None:
    result = offline_online(rows("ndcg", [1, 2, 3, 2, 2]), rows("ctr", [1, 2, 1, 1, 1]))
    assert [(o.until.day, o.offline_change, o.online_change) for o in result.by_day] == [
        (3, 1.0, -1.0),
        (4, -1.0, 0.0),
    ]
    assert result.by_day[0].since == START + timedelta(days=1)


def test_days_that_are_missing_are_stepped_over() -> None:
    (disagreement,) = offline_online(rows("ndcg", [1, None, 3]), rows("ctr", [3, 2, 1])).by_day
    assert (disagreement.since.day, disagreement.until.day, disagreement.online_change) == (
        1,
        3,
        -2.0,
    )


def test_halves() -> None:
    # 1.5 -> 4.5, the 9 in the middle is in neither; 5 -> 2
    (disagreement,) = offline_online(
        rows("ndcg", [1, 2, 9, 4, 5]), rows("ctr", [6, 4, 0, 3, 1])
    ).by_half
    assert (disagreement.offline_change, disagreement.online_change) == (3.0, -3.0)
    assert (disagreement.since, disagreement.until) == (START, START + timedelta(days=4))
    assert offline_online(rows("ndcg", [1, 2]), rows("ctr", [1, 2])).by_half == ()
    assert offline_online(rows("ndcg", [1]), rows("ctr", [2])).by_half == ()


def test_what_is_left_of_rounding_is_no_change() -> None:
    assert offline_online(rows("ndcg", [0.3, 0.1 + 0.2]), rows("ctr", [1, 1])).by_day == ()


# what is printed


def test_it_prints() -> None:
    result = offline_online(rows("ndcg", [1, 2, 3, 4, 5], 10), rows("ctr", [1, 2, 3, 5, 4]))
    text = repr(result)
    assert text.splitlines()[:2] == [
        "day         system  segment  ndcg@10     ctr",
        "2026-01-01  s       all       1.0000  1.0000",
    ]
    assert "s       all      ndcg@10  ctr        5   +0.9000         0   +0.9000      5" in text, (
        text
    )
    assert "offline and online disagree, day to day  system  segment  offline" in text
    assert (
        "2026-01-04 to 2026-01-05                 s       all      ndcg@10 +1.0000  ctr -1.0000"
        in text
    )
    assert "first half" not in text


def test_a_long_list_is_cut() -> None:
    zigzag = [float(day % 2) for day in range(30)]
    result = offline_online(rows("ndcg", zigzag), rows("ctr", [1 - value for value in zigzag]))
    assert len(result.by_day) == 29
    assert f"... {29 - PRINTED_CHANGES} more" in repr(result)


def test_to_dicts() -> None:
    output = offline_online(rows("ndcg", [1, 2]), rows("ctr", [2, 1])).to_dicts()
    assert list(output) == ["lines", "pairs", "by_day", "by_half"]
    assert output["lines"][0]["offline"] == {"ndcg": 1.0}
    assert output["by_day"][0]["online_change"] == -1.0


# from a log


def test_of_a_log() -> None:
    """A request a day; on the last its only click is at 6."""
    log = [
        {
            "request_id": f"r{day}",
            "item_id": f"i{position}",
            "position": position,
            "time": datetime(2026, 1, day, 10),
            "clicked": int(position == day or position < 7 - day),
        }
        for day in range(1, 7)
        for position in range(1, 7)
    ]
    spec = sm.Spec(
        clicks={
            "log": {
                "data": pa.Table.from_pylist(log),
                "columns": {"time": "time", "clicked": "clicked"},
            },
            "daily": True,
        },
        metrics=["rr", "ctr"],
        name="shop",
    )
    result = evaluate_clicks(spec)
    comparison: OfflineOnline = offline_online(
        result.offline.to_dicts(), result.online().to_pylist()
    )
    assert [line.metric_date.day for line in comparison.lines] == [1, 2, 3, 4, 5, 6]
    (metric_pair,) = comparison.pairs
    offline = [line.offline[metric_pair.offline] for line in comparison.lines]
    online = [line.online["ctr"] for line in comparison.lines]
    assert online == [5 / 6, 4 / 6, 3 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert offline == [1, 1, 1, 1, 1, 1 / 6]
    assert metric_pair.correlation == spearman(offline, online)
