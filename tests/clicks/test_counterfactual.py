"""Metrics of rankings and policies that were not shown: plain Python, numpy, planted truth."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from clicks.counterfactual_logs import (
    COLUMNS,
    ESTIMATE_METRICS,
    NO_REQUEST,
    SCORED,
    THETA,
    Row,
    bandit_log,
    new_lists,
    ordered,
    small_log,
)
from clicks.counterfactual_reference import (
    ExpectedEstimate,
    Options,
    estimate_of,
    of_lists,
    of_policy,
    requests_of,
)
from clicks.unshown import covered, worlds
from job_days import LATER
from marked import by_night, by_turns

import sqlmetrics as sm
from sqlmetrics.catalog.counterfactual import ESTIMATORS, METRICS
from sqlmetrics.clicks.counterfactual.terms import CounterfactualResult
from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve
from sqlmetrics.errors import InputError, SpecError

SHARED = duckdb.connect()
"""One database for many: to open one takes longer than most logs here."""


@contextmanager
def cleaned(rows: Sequence[Row] | pa.Table, engine: Any = None, **columns: str) -> Iterator[Any]:
    """A log, cleaned."""
    data = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows))
    log = {"data": data, "columns": COLUMNS | columns}
    with sm.clicks.clean(sm.clicks.Clicks(log=log), engine) as log:
        yield log


def estimates_of(result: CounterfactualResult) -> dict[tuple[str, str, int, str], ExpectedEstimate]:
    """(system, metric, k, estimator) -> what the reference tells of it."""
    return {
        (estimate.system, estimate.metric, estimate.k, estimate.estimator): ExpectedEstimate(
            *(getattr(estimate, name) for name in ExpectedEstimate._fields)
        )
        for estimate in result.estimates
    }


def near(value: ExpectedEstimate) -> Any:
    return pytest.approx(tuple(value), rel=1e-9, abs=1e-12, nan_ok=False)


def lists_of(seed: int, match: str, engine: Any = None) -> tuple[CounterfactualResult, list[Row]]:
    """What the product says of a small log, and its new lists."""
    log = small_log(seed)
    rows = new_lists(seed, sorted({row[match] for row in log} | {"nowhere"}))
    options = {
        "rankings": {"data": pa.Table.from_pylist(rows), "columns": SCORED | {"system": "system"}},
        "match": match,
        "metrics": ESTIMATE_METRICS,
        "clip": 4,
        "prior": 2.5,
    }
    with cleaned(log, engine) as clean_log:
        result = sm.clicks.counterfactual_metrics(clean_log, options, curve=THETA)
    return result, rows


def reference(seed: int, match: str, rows: Sequence[Row]) -> dict[Any, ExpectedEstimate]:
    """The same in plain Python."""
    log = small_log(seed)
    return {
        (system, metric, int(k or 0), estimator): of_lists(
            log,
            ordered(rows, system),
            match,
            THETA,
            Options(estimator, 4, 2.5, metric, int(k or 0)),
        )
        for system in ("one", "two")
        for metric, _, k in (text.partition("@") for text in ESTIMATE_METRICS)
        for estimator in METRICS[metric].estimators
    }


@by_turns(1.1)
@pytest.mark.parametrize(("seed", "match"), [(1, "query"), (2, "request")])
def test_lists_are_as_the_formulas_say(seed: int, match: str) -> None:
    result, rows = lists_of(seed, match)
    wanted = reference(seed, match, rows)
    estimates = estimates_of(result)
    assert estimates.keys() == wanted.keys()
    for key, value in wanted.items():
        assert tuple(estimates[key]) == near(value), key
    with_list = {row["list"] for row in rows}
    unmatched = {row["request"] for row in small_log(seed) if row[match] not in with_list}
    assert result.n_left_out == len(unmatched)
    assert "position 5" in result.notes[0]


POLICY = {("a", 1): 0.7, ("b", 1): 0.3, ("c", 2): 1.0, ("a", 3): 0.25, ("f", 3): 0.75}


def policies_of(seed: int, engine: Any = None) -> dict[str, CounterfactualResult]:
    """What the product says of the uniform policy, and of one by a table."""
    rows = [{"item": item, "position": position, "p": p} for (item, position), p in POLICY.items()]
    columns = {"item": "item", "position": "position", "probability": "p"}
    table = {"data": pa.Table.from_pylist(rows), "columns": columns}
    with cleaned(bandit_log(seed), engine, **NO_REQUEST) as log:
        return {
            name: sm.clicks.counterfactual_metrics(log, {"clip": 2, "prior": 3, **options})
            for name, options in {
                "uniform": {"policy": "uniform"},
                "eight": {"policy": "uniform", "actions": 8},
                "table": {"policy": table},
            }.items()
        }


def policies_reference(seed: int) -> dict[tuple[str, str], ExpectedEstimate]:
    chances = {
        "uniform": (lambda item, position: 1 / 6, "abcdef"),
        "eight": (lambda item, position: 1 / 8, "abcdefgh"),
        "table": (lambda item, position: POLICY.get((item, position), 0.0), "abcdef"),
    }
    return {
        (name, estimator): of_policy(bandit_log(seed), chance, choices, Options(estimator, 2, 3))  # type: ignore[arg-type]
        for name, (chance, choices) in chances.items()
        for estimator in ESTIMATORS
    }


def test_policies_are_as_the_formulas_say() -> None:
    estimates = {
        (name, estimate.estimator): ExpectedEstimate(
            *(getattr(estimate, field) for field in ExpectedEstimate._fields)
        )
        for name, result in policies_of(1).items()
        for estimate in result.estimates
    }
    wanted = policies_reference(1)
    assert estimates.keys() == wanted.keys()
    for key, value in wanted.items():
        assert tuple(estimates[key]) == near(value), key


@by_turns(0.8)
def test_each_layout_has_propensities_of_its_own() -> None:
    """As if each were a log with its own curve; without a column of layouts they are refused."""
    curves = {"phone": {1: 1.0, 2: 0.3, 3: 0.2}, "web": {1: 1.0, 2: 0.8, 3: 0.7}}
    rows = [row | {"device": "web" if row["request"] < "r2" else "phone"} for row in small_log(5)]
    rows = [row for row in rows if row["position"] < 4]
    log = {"data": pa.Table.from_pylist(rows), "columns": COLUMNS | {"segments": ["device"]}}
    propensity = {"method": "given", "given": curves, "by": "device"}
    lists = new_lists(5, sorted({row["query"] for row in rows}))
    options = {
        "rankings": {"data": pa.Table.from_pylist(lists), "columns": SCORED | {"system": "system"}},
        "match": "query",
        "metrics": ["dcg@3", "clicks@3"],
        "estimators": ["ips", "clipped_ips"],
    }
    with sm.clicks.clean(sm.clicks.Clicks(log=log, propensity=propensity), SHARED) as clean_log:
        result = sm.clicks.counterfactual_metrics(clean_log, options)
    sums: dict[Any, list[float]] = {}
    for device, curve in curves.items():
        device_rows = [row for row in rows if row["device"] == device]
        with cleaned(device_rows, SHARED) as clean_log:
            part = sm.clicks.counterfactual_metrics(clean_log, options, curve=curve)
        for estimate in part.estimates:
            key = estimate.system, estimate.metric, estimate.estimator
            assert estimate.value is not None
            sums.setdefault(key, []).extend([estimate.value * estimate.n, estimate.n])
    for estimate in result.estimates:
        x, n, *web_sums = sums[estimate.system, estimate.metric, estimate.estimator]
        assert estimate.value == pytest.approx((x + web_sums[0]) / (n + web_sums[1]), rel=1e-9)
    layouts = tuple(Propensity(1, 1.0, group=name) for name in ("app", "web"))
    with (
        cleaned(rows, SHARED) as clean_log,
        pytest.raises(SpecError, match="differ by layout \\(app"),
    ):
        sm.clicks.counterfactual_metrics(
            clean_log, options, curve=PropensityCurve("given", layouts)
        )


def test_propensities_are_those_of_the_spec() -> None:
    rows = [row for row in small_log(1) if row["position"] < 5]
    log = {"data": pa.Table.from_pylist(rows), "columns": COLUMNS}
    propensity = {"method": "given", "given": THETA}
    clicks = sm.clicks.Clicks(log=log, propensity=propensity, counterfactual=BY_QUERY)
    with sm.clicks.clean(clicks, SHARED) as clean_log:
        by_spec = sm.clicks.counterfactual_metrics(clean_log)
        by_curve = sm.clicks.counterfactual_metrics(clean_log, curve=THETA)
    assert by_spec == by_curve


BANDIT = {"request": None, "query": None, "user": None, "item": "item_id", "clicked": "click"}
BANDIT |= {"propensity_score": "propensity_score"}


def test_the_uniform_policy_of_open_bandit_is_numpy_s(shared: Path) -> None:
    """Its value by the log of another policy, whose few clicks and large weights are told."""
    file = shared / "clicks" / "open_bandit_bts.csv"
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    clicked = np.array([int(row["click"]) for row in rows])
    weight = 1 / 80 / np.array([float(row["propensity_score"]) for row in rows])
    log = {"file": str(file), "columns": COLUMNS | BANDIT}
    with sm.clicks.clean(sm.clicks.Clicks(log=log, counterfactual={"policy": "uniform"})) as log:
        result = sm.clicks.counterfactual_metrics(log)
    ips = next(estimate for estimate in result.estimates if estimate.estimator == "ips")
    assert ips.value == pytest.approx((weight * clicked).mean(), rel=1e-9)
    assert ips.standard_error == pytest.approx((weight * clicked).std(ddof=1) / 100, rel=1e-9)
    assert ips.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum(), rel=1e-9)
    assert result["ctr snips"] == pytest.approx((weight * clicked).sum() / weight.sum(), rel=1e-9)
    assert result["ctr clipped_ips"] == pytest.approx(
        (weight.clip(max=10) * clicked).mean(), rel=1e-9
    )
    assert ips.naive == clicked.mean()
    assert ips.warnings == (
        "the estimate rests on 42 clicks only",
        "a few large weights decide the estimate: the effective sample is 340 of 10,000",
    )


def test_the_reverse_is_refused_with_the_reason(shared: Path) -> None:
    """The probabilities of the other policy change over time: it has no value to estimate."""
    columns = {"item": "item_id", "position": "position", "probability": "propensity_score"}
    policy = {"file": str(shared / "clicks" / "open_bandit_bts.csv"), "columns": columns}
    log = {"file": str(shared / "clicks" / "open_bandit_random.csv"), "columns": COLUMNS | BANDIT}
    clicks = sm.clicks.Clicks(log=log, counterfactual={"policy": policy})
    with sm.clicks.clean(clicks) as log, pytest.raises(InputError, match="appears more than"):
        sm.clicks.counterfactual_metrics(log)


LISTS = {"data": pa.table({"list": ["q0"], "item": ["a"], "score": [1.0]}), "columns": SCORED}
TWICE = pa.table({"list": ["q0", "q0"], "item": ["a", "a"], "score": [1.0, 2.0]})
EMPTY = pa.table({"list": ["q0"], "item": ["a"], "score": pa.array([None], pa.float64())})
BY_QUERY = {"rankings": LISTS, "match": "query"}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "give either rankings .* or policy"),
    "both": ({"rankings": LISTS, "policy": "uniform"}, "give either rankings"),
    "mrr": (BY_QUERY | {"metrics": ["mrr"]}, "depends on which clicked item stands first"),
    "hit": (BY_QUERY | {"metrics": ["hit@5"]}, "propensities of positions do not tell it"),
    "ndcg": (BY_QUERY | {"metrics": ["ndcg@10"]}, "divides by the best list"),
    "unknown": (BY_QUERY | {"metrics": ["dgc@5"]}, "did you mean 'dcg'"),
    "no cutoff": (BY_QUERY | {"metrics": ["precision"]}, "needs a cutoff, like precision@10"),
    "estimator": (BY_QUERY | {"estimators": ["dm"]}, "unknown estimator 'dm'"),
    "of a policy": (BY_QUERY | {"metrics": ["ctr"]}, "ctr cannot be estimated for rankings"),
    "actions": (BY_QUERY | {"actions": 5}, "actions only applies to policy: uniform"),
    "no scores": ({"policy": "uniform"}, "needs log.columns.propensity_score"),
    "twice": (BY_QUERY | {"rankings": LISTS | {"data": TWICE}}, "more than once"),
    "empty": (BY_QUERY | {"rankings": LISTS | {"data": EMPTY}}, "1 row without a query, an item"),
    "column": (
        BY_QUERY | {"rankings": LISTS | {"columns": SCORED | {"score": "scores"}}},
        "unknown column 'scores'; did you mean 'score'",
    ),
    "condition": (
        BY_QUERY | {"rankings": LISTS | {"where": "scored > 1"}},
        r"where 'scored > 1': .*scored",
    ),
    "file": (BY_QUERY | {"rankings": {"file": "nowhere.csv"}}, "there is no file 'nowhere.csv'"),
    "no request": ({"rankings": LISTS}, "no list matches a request .* match: query"),
    "place": (BY_QUERY | {"metrics": ["clicks@9"]}, "it is unknown for positions 5 to 9"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_estimated_is_refused(name: str) -> None:
    options, message = REFUSED[name]
    with (
        cleaned(small_log(1), SHARED) as log,
        pytest.raises((SpecError, InputError, ValueError), match=message),
    ):
        sm.clicks.counterfactual_metrics(log, options, curve=THETA)


def test_propensities_are_needed_and_of_some_position() -> None:
    with cleaned(small_log(1), SHARED) as log:
        with pytest.raises(SpecError, match="need the propensities of positions"):
            sm.clicks.counterfactual_metrics(log, BY_QUERY)
        with pytest.raises(SpecError, match="no rankings that were not shown"):
            sm.clicks.counterfactual_metrics(log, curve=THETA)
    first = [row for row in small_log(1) if row["position"] > 1]
    with (
        cleaned(first, SHARED) as log,
        pytest.raises(SpecError, match="the log has no other positions"),
    ):
        sm.clicks.counterfactual_metrics(log, BY_QUERY, curve={1: 1.0})


WRONG_POLICIES = {
    "sum": ({"a": 0.5, "b": 0.4}, "add up to 1, and here they add up to 0.9"),
    "range": ({"a": 1.5, "b": -0.5}, "2 rows without an item and a probability"),
}


@pytest.mark.parametrize("name", WRONG_POLICIES)
def test_what_is_no_policy_is_refused(name: str) -> None:
    chances, message = WRONG_POLICIES[name]
    data = pa.table({"item": [*chances], "probability": [*chances.values()]})
    policy = {"data": data, "columns": {"item": "item"}}
    with (
        cleaned(bandit_log(1), SHARED, **NO_REQUEST) as log,
        pytest.raises(InputError, match=message),
    ):
        sm.clicks.counterfactual_metrics(log, {"policy": policy})


def test_a_policy_says_something_of_each_position_and_may_be_called_policy() -> None:
    rows = bandit_log(1)
    SHARED.execute("create or replace table policy as select 'a' as item, 1 as position, 1.0 as p")
    columns = {"item": "item", "position": "position", "probability": "p"}
    options = {"policy": {"relation": "policy", "columns": columns}}
    first = [row for row in rows if row["position"] == 1]
    with cleaned(first, SHARED, **NO_REQUEST) as log:
        result = sm.clicks.counterfactual_metrics(log, options)
    assert result.estimates[0].system == "policy"
    with (
        cleaned(rows, SHARED, **NO_REQUEST) as log,
        pytest.raises(InputError, match="the policy has no probabilities for positions 2, 3"),
    ):
        sm.clicks.counterfactual_metrics(log, options)


@by_turns(1.5)
def test_whole_lists_are_needed_and_a_log_without_a_click_has_numbers() -> None:
    clicks = {"log": {"data": pa.Table.from_pylist(small_log(1)), "columns": COLUMNS}}
    cut = sm.clicks.Clicks(**clicks, cleaning={"unseen": 1})
    with sm.clicks.clean(cut, SHARED) as log, pytest.raises(SpecError, match="leave out cleaning"):
        sm.clicks.counterfactual_metrics(log, BY_QUERY, curve=THETA)
    nothing = [row | {"clicked": 0} for row in small_log(1)]
    with cleaned(nothing, SHARED) as log:
        result = sm.clicks.counterfactual_metrics(log, BY_QUERY, curve=THETA)
    assert [estimate.value for estimate in result.estimates] == [0.0, 0.0, None, 0.0]
    assert "the estimate rests on 0 clicks only" in repr(result)


def test_fewer_actions_and_wrong_scores_are_refused_and_wrong_weights_told() -> None:
    rows = bandit_log(1)
    with cleaned(rows, SHARED, **NO_REQUEST) as log, pytest.raises(SpecError, match="has 6 items"):
        sm.clicks.counterfactual_metrics(log, {"policy": "uniform", "actions": 5})
    wrong = [row | {"score": 0.0} for row in rows[:3]]
    with (
        cleaned([*rows, *wrong], SHARED, **NO_REQUEST) as log,
        pytest.raises(InputError, match="not a probability in 3 impressions"),
    ):
        sm.clicks.counterfactual_metrics(log, {"policy": "uniform"})
    halved = [row | {"score": row["score"] / 2} for row in rows]
    with cleaned(halved, SHARED, **NO_REQUEST) as log:
        result = sm.clicks.counterfactual_metrics(log, {"policy": "uniform"})
    assert any("the mean weight is" in warning for warning in result.estimates[0].warnings)


def test_by_hand() -> None:
    """Two requests: a is clicked at 2 (looked at half as often) and is first in the new list."""
    rows = [
        {"request": r, "query": "q", "item": item, "position": position, "clicked": c, "user": None}
        for r, c_of_a in (("r1", 1), ("r2", 0))
        for position, (item, c) in enumerate((("b", 0), ("a", c_of_a)), 1)
    ]
    new = pa.table({"list": ["q", "q", "q"], "item": ["a", "z", "b"], "score": [3.0, 2.0, 1.0]})
    options = {"rankings": {"data": new, "columns": SCORED}, "match": "query", "prior": 1}
    options |= {"metrics": ["sum_reciprocal_rank@2"], "clip": 1.5}
    with cleaned(rows, SHARED) as log:
        result = sm.clicks.counterfactual_metrics(log, options, curve={1: 1, 2: 0.5})
    name = "sum_reciprocal_rank@2"
    assert result[f"{name} ips"] == (1 / 0.5) / 2
    assert result[f"{name} clipped_ips"] == 1.5 / 2
    assert result[f"{name} snips"] == 1.0  # all clicks are on a, which is first
    # mean 1 / 3; a: (1 + 1/3) / (1 + 1) = 2/3; z was never shown and has the mean
    a, z = 2 / 3, 1 / 3
    first, second = a + 1.5 * (1 - 0.5 * a), a + 1.5 * (0 - 0.5 * a)
    assert result[f"{name} dr"] == pytest.approx((first + second) / 2 + z / 2, rel=1e-12)
    (estimate, *_) = result.estimates
    assert (estimate.naive, estimate.ess, estimate.n_clicks, estimate.n_clusters) == (
        0.5,
        1.0,
        1,
        2,
    )
    assert estimate.unknown_share == pytest.approx(0.5 / 1.5)
    assert "the log did not show 33% of the items that count" in estimate.warnings
    assert result.table().column("method").to_pylist() == ["given"] * 4
    assert result.to_dicts()[0]["warnings"] == [*estimate.warnings]
    with pytest.raises(KeyError):
        result["dcg ips"]


@by_turns(3)
def test_intervals_cover_the_planted_truth_of_some_seeds() -> None:
    coverage = covered(worlds(range(1, 31), 6_000))
    for name in ("ips", "snips", "dr"):
        assert coverage[name].share >= 0.85, name
        assert abs(coverage[name].off) < 0.02, name
    assert coverage["naive ips"].share == 0.0


@by_night
def test_intervals_cover_the_planted_truth_of_200_seeds() -> None:
    """Of clicks by the position-based model; where people trust or stop, they do not."""
    coverage = covered(worlds(range(1, 201), 30_000))
    for name in ("ips", "dr"):
        assert 0.93 <= coverage[name].share <= 0.97, name
    assert coverage["snips"].share >= 0.92
    assert coverage["naive ips"].share == coverage["naive snips"].share == 0.0
    for broken in ({"trust": 0.5}, {"cascade": 0.5}):
        assert covered(worlds(range(1, 21), 30_000, **broken))["ips"].share < 0.5


@pytest.mark.parametrize("writer", LATER)
def test_every_database_tells_the_same(writer: str, servers: Any) -> None:
    with servers.open(writer) as engine:
        for match in ("query", "request"):
            result, rows = lists_of(3, match, engine)
            for key, value in reference(3, match, rows).items():
                assert tuple(estimates_of(result)[key]) == near(value), key
        for name, result in policies_of(2, engine).items():
            for estimate in result.estimates:
                wanted = policies_reference(2)[name, estimate.estimator]
                assert tuple(
                    getattr(estimate, field) for field in ExpectedEstimate._fields
                ) == near(wanted)


@by_turns(0.5)
def test_segments_are_parts_of_the_requests_and_the_model_is_of_all() -> None:
    rows = [row | {"device": "web" if row["request"] < "r2" else None} for row in small_log(4)]
    lists = new_lists(4, sorted({row["query"] for row in rows}))
    counterfactual = {
        "rankings": {"data": pa.Table.from_pylist(lists), "columns": SCORED | {"system": "system"}},
        "match": "query",
        "metrics": ["dcg@3", "recall@2", "clicks@4"],
        "clip": 4,
        "prior": 2.5,
    }
    with cleaned(rows, SHARED, segments=["device"]) as log:  # type: ignore[arg-type]
        result = sm.clicks.counterfactual_metrics(
            log, counterfactual, curve=THETA, by=["device", "other"]
        )
    values = {"all", "web", "(unknown)"}
    assert {estimate.segment_value for estimate in result.estimates} == values
    of = {row["request"]: row["device"] or "(unknown)" for row in rows}
    for estimate in result.estimates:
        options = Options(estimate.estimator, 4, 2.5, estimate.metric, estimate.k)
        every = requests_of(rows, ordered(lists, estimate.system), "query", THETA, options)
        units = [
            unit for name, unit in every.items() if estimate.segment_value in ("all", of[name])
        ]
        wanted = estimate_of(units, options)
        assert tuple(getattr(estimate, name) for name in ExpectedEstimate._fields) == near(wanted)
    assert result.table().column("segment_name").to_pylist().count("device") == 2 * len(
        [estimate for estimate in result.estimates if estimate.segment_name == "all"]
    )
    assert "device=web" in repr(result)
    assert "estimates of segments have warnings" in repr(result)
    with cleaned(bandit_log(1), SHARED, **NO_REQUEST | {"segments": ["user"]}) as log:
        result = sm.clicks.counterfactual_metrics(log, {"policy": "uniform"}, by=["user"])
    for estimate in result.estimates:
        if estimate.segment_name == "user" and estimate.segment_value != "(unknown)":
            assert estimate.n_clusters == 1
