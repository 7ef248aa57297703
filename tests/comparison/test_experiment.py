"""`clicks experiment`: the sample ratio first, then a verdict with its reason."""

from __future__ import annotations

import random
from collections import defaultdict
from math import ceil
from typing import Any

import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.comparison.online.verdict import Experiment
from sqlmetrics.engines.database import Database

COLUMNS = {
    "request": "request_id",
    "item": "item_id",
    "position": "position",
    "system": "variant",
    "user": "user_id",
    "time": "shown_at",
    "segments": ["differs"],
    "actions": {"click": "clicked", "purchase": "bought"},
}
BASE_EXPERIMENT = {"variants": ["A", "B"], "control": "A", "primary": "ctr"}


def log_of(
    n_users: int,
    rates: dict[str, tuple[float, float]],
    *,
    days: int = 10,
    crossed: int = 0,
    of_variant: Any = lambda user: "AB"[user % 2],
) -> list[dict[str, Any]]:
    """Requests of two items; variant -> the share that is clicked, and of these bought."""
    chance = random.Random(n_users)
    rows = []
    for user in range(n_users):
        for request in range(3):
            variant = of_variant(user)
            if user < crossed:
                variant = "AB"[request % 2]
            click, buy = rates[variant]
            for position in (1, 2):
                clicked = int(chance.random() < click)
                rows.append(
                    {
                        "request_id": f"r{user}_{request}",
                        "item_id": f"i{position}",
                        "position": position,
                        "variant": variant,
                        "user_id": f"u{user}",
                        "differs": (user // 2 + request) % 4 == 0,
                        "shown_at": f"2026-01-{1 + (user + request) % days:02} 10:00:00",
                        "clicked": clicked,
                        "bought": int(clicked and chance.random() < buy),
                    }
                )
    return rows


def verdict(rows: list[dict[str, Any]], connection: Any = None, **options: Any) -> Experiment:
    """The verdict on the experiment of a log."""
    columns = COLUMNS | ({"amount": options.pop("amount")} if "amount" in options else {})
    log = {"data": pa.Table.from_pylist(rows), "columns": columns}
    clicks = {"log": log, "experiment": BASE_EXPERIMENT | options}
    return sm.experiment(sm.Spec(clicks=clicks, metrics=["ctr"]), connection)


RAIL = [{"metric": "purchases", "max_drop_pct": 20}]
SAME = {"A": (0.3, 0.5), "B": (0.3, 0.5)}
GAIN = {"A": (0.3, 0.5), "B": (0.4, 0.5)}
TRADE = {"A": (0.3, 0.5), "B": (0.4, 0.1)}
LOSS = {"A": (0.4, 0.5), "B": (0.3, 0.5)}


@pytest.mark.parametrize(
    ("rates", "n_users", "asked", "wanted", "reason"),
    [
        (GAIN, 1200, {"guardrails": RAIL}, "ship", "ctr got better, +"),
        (LOSS, 1200, {}, "do not ship", "ctr got worse, -"),
        (TRADE, 1200, {"guardrails": RAIL}, "do not ship", "the guardrail purchases got worse by"),
        (GAIN, 100, {}, "not yet", "ctr has no clear gain so far"),
        (GAIN, 100, {"wanted_pct": 10}, "not yet", "more days would show the wanted gain"),
        (GAIN, 100, {"end": "2026-01-11"}, "do not ship", "ctr has no clear gain by the end"),
        (GAIN, 1200, {"looks": "end", "end": "2026-01-20"}, "not yet", "ends on 2026-01-20"),
        (GAIN, 1200, {"looks": "end", "end": "2026-01-11"}, "ship", "ctr got better"),
        (
            GAIN,
            500,
            {"guardrails": [{"metric": "purchases", "max_drop_pct": 0}], "level": 0.8},
            "ship",
            "all guardrails hold",
        ),
    ],
)
def test_a_verdict_has_its_reason(
    rates: Any, n_users: int, asked: dict[str, Any], wanted: str, reason: str
) -> None:
    experiment = verdict(log_of(n_users, rates), **asked)
    assert (experiment.verdict, reason in experiment.reason) == (wanted, True)
    assert max(map(len, repr(experiment).splitlines())) <= 90


def test_a_sample_ratio_that_fails_leaves_no_verdict() -> None:
    uneven = log_of(600, GAIN, of_variant=lambda user: "AB"[user % 5 > 1])
    experiment = verdict(uneven)
    assert (experiment.verdict, experiment.metrics) == ("no verdict", ())
    assert "A has 240 users where 300 were planned and B has 360" in experiment.reason
    planned = verdict(uneven, shares={"A": 2, "B": 3})
    assert planned.verdict != "no verdict"


def test_users_in_two_variants_are_left_out_and_counted() -> None:
    experiment = verdict(log_of(400, SAME, crossed=30))
    assert experiment.n_mixed == 30
    assert experiment.mismatch.counts == {"A": 185, "B": 185}
    assert "left out: 30 users in several variants" in repr(experiment)
    rows = [row for row in log_of(400, SAME, crossed=30) if int(row["user_id"][1:]) >= 30]
    assert verdict(rows).metrics == experiment.metrics


def lists_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What both variants have for each request, by score: B swaps two items where they differ."""
    columns = {"query": "request", "item": "item", "system": "variant", "score": "score"}
    lists = [
        {
            "request": row["request_id"],
            "item": row["item_id"],
            "variant": variant,
            "score": row["position"] * (1 if variant == "B" and row["differs"] else -1),
        }
        for row in rows
        for variant in "AB"
    ]
    return {"data": pa.Table.from_pylist(lists), "columns": columns}


@by_turns(1.3)
def test_requests_in_which_the_variants_differ_count_alone() -> None:
    rows = log_of(600, GAIN, crossed=9)
    by_column = verdict(rows, triggered="differs", guardrails=RAIL)
    users = {f"u{user}" for user in range(9)}
    counted = [row for row in rows if row["differs"] and row["user_id"] not in users]
    assert by_column.metrics == verdict(counted, guardrails=RAIL).metrics
    assert by_column.n_mixed == 9
    of_all = [row for row in rows if row["user_id"] not in users]
    share = len(counted) / len(of_all)
    assert by_column.share_triggered == pytest.approx(share)
    every = verdict(of_all, guardrails=RAIL).metrics[0]
    ratio = share * by_column.metrics[0].half_width / every.half_width
    assert f"over all requests, ctr of B is {every.change}; counting" in by_column.notes[-1]
    assert f"the interval of this effect is {ratio:.2f} times as wide" in by_column.notes[-1]
    by_lists = verdict(rows, triggered="lists_differ", lists=lists_of(rows), guardrails=RAIL)
    assert by_lists.metrics == by_column.metrics


@by_turns(0.7)
def test_requests_of_which_it_is_not_known_do_not_count() -> None:
    rows = log_of(300, GAIN)
    unknown = [row for row in rows if row["user_id"] == "u4"]
    lists = lists_of([row for row in rows if row not in unknown])
    experiment = verdict(rows, triggered="lists_differ", lists=lists)
    n = sum(row["differs"] for row in rows if row not in unknown) // 2
    of_lists = f"holds for {n} of 900 requests ({n / 900:.1%}), which count; of 3 others"
    assert of_lists in " ".join(experiment.notes)
    some = [row | {"differs": None if row in unknown else row["differs"]} for row in rows]
    assert verdict(some, triggered="differs").metrics == experiment.metrics


@by_turns(0.7)
def test_a_log_that_begins_before_the_experiment_is_named() -> None:
    rows = log_of(200, SAME)
    early = [
        row | {"request_id": f"e{row['request_id']}", "variant": "A", "shown_at": "2025-12-20"}
        for row in rows
    ]
    experiment = verdict([*early, *rows])
    assert "give start: 2026-01-01" in " ".join(experiment.notes)
    assert verdict([*early, *rows], start="2026-01-01").metrics == verdict(rows).metrics


@by_turns(1.1)
def test_the_effect_is_told_by_days_since_a_users_first_request() -> None:
    rows = sorted(log_of(100, GAIN), key=lambda row: row["shown_at"])
    experiment = verdict(rows)
    first: dict[str, str] = {}
    spans: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        start = first.setdefault(row["user_id"], row["shown_at"])
        since = int(row["shown_at"][8:10]) - int(start[8:10])
        name = next(
            name for name, end in (("0", 1), ("1", 2), ("2-3", 4), ("8-15", 16)) if since < end
        )
        spans.setdefault(name, []).append(row)
    assert [row.since_first for row in experiment.exposures] == sorted(
        spans, key=lambda n: int(n[0])
    )
    for row in experiment.exposures:
        (wanted,) = verdict(spans[row.since_first or ""]).metrics
        assert (row.value, row.half_width) == pytest.approx((wanted.value, wanted.half_width))
        assert row.relative_low == pytest.approx(wanted.relative_low, rel=1e-9)
    assert "days since first" in repr(experiment)


@by_turns(2)
def test_days_before_it_narrow_its_intervals() -> None:
    rows = [
        row | ({"shown_at": "2025-12-30", "variant": "A"} if row["request_id"][-1] == "0" else {})
        for row in log_of(400, GAIN)
    ]
    options = {"start": "2026-01-01", "looks": "end", "end": "2026-01-11"}
    experiment = verdict(rows, cuped_days=7, **options)
    (row,) = experiment.metrics
    log = {"data": pa.Table.from_pylist(rows), "columns": COLUMNS}
    spec = sm.Spec(clicks={"log": log}, metrics=["ctr"])
    of_days = {"start": "2026-01-01", "end": "2026-01-11", "covariate": "2025-12-25..2025-12-31"}
    same = sm.compare(spec, baseline="A", **of_days)["ctr"]
    for column in ("value", "control_value", "relative_low", "variance_reduction"):
        other = same[column.replace("control_", "baseline_")]
        assert getattr(row, column) == pytest.approx(other, rel=1e-9)
    assert "covariate 2025-12-25..2025-12-31: 400 of 400 users have one" in repr(experiment)
    assert (
        f"variance of the difference by {-100 * row.variance_reduction:+.1f} %"
        in experiment.notes[-1]
    )
    plain = verdict(rows, **options).metrics[0]
    assert row.half_width**2 / plain.half_width**2 == pytest.approx(
        1 - row.variance_reduction, rel=1e-3
    )
    late = verdict(rows, cuped_days=2, start="2026-01-03").notes
    n = len(
        {
            row["request_id"]
            for row in rows
            if row["variant"] == "B" and row["shown_at"] < "2026-01-03"
        }
    )
    assert f"{n} requests of 2026-01-01..2026-01-02 had a variant already" in " ".join(late)
    assert "had a variant already" not in repr(experiment)
    triggered = verdict(rows, cuped_days=7, triggered="differs", **options)
    assert triggered.metrics[0].variance_reduction is not None


@by_turns(1)
@pytest.mark.parametrize("name", engines(["duckdb", "sqlite", "postgres"], now=["sqlite"]))
def test_amounts_of_a_user_are_cut_at_a_quantile(name: str, servers: Servers) -> None:
    chance = random.Random(1)
    rows = [
        row | {"paid": round(chance.paretovariate(1), 2) if row["bought"] else None}
        for row in log_of(100, GAIN)
    ]
    totals: dict[str, float] = defaultdict(float)
    for row in rows:
        totals[row["user_id"]] += row["paid"] or 0
    paid = sorted(total for total in totals.values() if total)
    cap = paid[ceil(0.9 * len(paid)) - 1]
    cut = [
        row | {"paid": row["paid"] and row["paid"] * min(1, cap / totals[row["user_id"]])}
        for row in rows
    ]
    options = {"primary": "revenue_per_request"}
    options["guardrails"] = [{"metric": "average_order_value", "max_drop_pct": 5}]
    with servers.open(name) as engine:
        experiment = verdict(rows, Database(engine), amount="paid", winsorise=0.9, **options)
    for row, wanted in zip(
        experiment.metrics, verdict(cut, amount="paid", **options).metrics, strict=True
    ):
        numbers = (row.value, row.relative_high, row.half_width)
        expected = (wanted.value, wanted.relative_high, wanted.half_width)
        assert numbers == pytest.approx(expected, rel=1e-9)
    n_cut = sum(total > cap for total in paid)
    assert f"revenue_per_request of {n_cut} of {len(paid)} users with an" in " ".join(
        experiment.notes
    )
    with pytest.raises(sm.SpecError, match="winsorise cuts amounts of a click log, and no"):
        verdict(rows, winsorise=0.9)


@by_turns(3.1)
@pytest.mark.parametrize("name", engines(["sqlite", "postgres"], now=["sqlite"]))
def test_databases_come_to_the_same_verdict(name: str, servers: Servers) -> None:
    rows = log_of(300, GAIN, crossed=5)
    options = {"guardrails": RAIL, "triggered": "lists_differ", "lists": lists_of(rows)}
    wanted = verdict(rows, **options)
    with servers.open(name) as engine:
        engine_experiment = verdict(rows, Database(engine), **options)
        flagged = verdict(rows, Database(engine), guardrails=RAIL, triggered="differs")
        assert flagged.metrics == engine_experiment.metrics
        spans = [(row.since_first, row.value) for row in wanted.exposures]
        assert [row.since_first for row in engine_experiment.exposures] == [
            name for name, _ in spans
        ]
        assert [row.value for row in engine_experiment.exposures] == pytest.approx(
            [x for _, x in spans]
        )
    assert (engine_experiment.verdict, engine_experiment.n_mixed, engine_experiment.days) == (
        wanted.verdict,
        5,
        10,
    )
    for row, other in zip(wanted.metrics, engine_experiment.metrics, strict=True):
        assert other.relative_low == pytest.approx(row.relative_low, rel=1e-9)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"control": "C"}, "variants must be different and include control"),
        ({"primary": "ndcg@10"}, "unknown online metric 'ndcg@10'"),
        ({"primary": "min_rr"}, "neither more nor less of min_rr is better"),
        ({"guardrails": [{"metric": "CTR", "max_drop_pct": 1}]}, "name each metric once"),
        ({"looks": "end"}, "looks: end needs end"),
        ({"cuped_days": 7}, "cuped_days are days before start; give start"),
        ({"triggered": "lists_differ"}, "lists_differ and lists need each other"),
        ({"triggered": "difers"}, "unknown segment of the log 'difers'; did you mean 'differs'"),
        ({"shares": {"A": 1}}, "shares must name each variant"),
    ],
)
def test_an_experiment_that_cannot_be(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.SpecError, match=message):
        verdict(log_of(10, SAME), **asked)


def test_a_variant_that_is_nowhere_is_named() -> None:
    rows = log_of(10, SAME)
    with pytest.raises(sm.InputError, match="no request of new; unknown system 'new'"):
        verdict(rows, variants=["A", "new"])
    log = {"data": pa.Table.from_pylist(rows), "columns": COLUMNS}
    near = {"variants": ["A", "b"], "control": "b", "primary": "ctr"}
    spec = sm.Spec(clicks={"log": log, "experiment": near}, metrics=["ctr"])
    message = "clicks.experiment.variants names the system 'b', which no row has; did you mean 'B'?"
    assert message in sm.validate(spec)[0]
    with pytest.raises(sm.InputError, match="no request of b; unknown system 'b'; did you mean 'B"):
        sm.experiment(spec)
    odd = [row | {"differs": "maybe"} for row in rows]
    with pytest.raises(sm.InputError, match="differs has the value 'maybe', which is neither"):
        verdict(odd, triggered="differs")
    never = [row | {"differs": False} for row in rows]
    with pytest.raises(sm.InputError, match="triggered: differs holds for none of 30 requests"):
        verdict(never, triggered="differs")
    lists = lists_of(rows) | {"columns": {"query": "reqest", "item": "item", "system": "variant"}}
    with pytest.raises(sm.InputError, match="lists: unknown column 'reqest'; did you mean 'req"):
        verdict(rows, triggered="lists_differ", lists=lists)
    with pytest.raises(sm.InputError, match="all 10 users are in several variants; if the log"):
        verdict(log_of(10, SAME, crossed=10))
    log = {"data": pa.Table.from_pylist(rows), "columns": COLUMNS}
    spec = sm.Spec(clicks={"log": log}, metrics=["ctr"])
    with pytest.raises(sm.SpecError, match="the spec has no experiment; add clicks"):
        sm.experiment(spec)
