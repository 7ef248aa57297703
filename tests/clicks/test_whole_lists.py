"""Metrics that hang on the first click, by the logged probabilities of whole lists."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from clicks.counterfactual_reference import (
    ExpectedEstimate,
    Options,
    Unit,
    difference,
    estimate_of,
    whole_lists_of,
)
from job_days import LATER
from marked import by_night, by_turns

import sqlmetrics as sm
from sqlmetrics.clicks.counterfactual.terms import CounterfactualResult
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.stats.student import critical

Row = dict[str, Any]
COLUMNS = {name: name for name in ("request", "query", "item", "position", "clicked", "user")}
COLUMNS |= {"list_propensity_score": "list_score"}
LISTS = {"query": "list", "item": "item", "rank": "rank", "system": "system"}
METRICS = ("mrr", "mrr@2", "hit@1", "hit@3")
ESTIMATORS = ("ips", "clipped_ips", "snips")


def chances(query: int) -> dict[tuple[str, ...], float]:
    """How likely each list of three items is to be shown."""
    chance = random.Random(query)
    weights = {order: chance.random() + 0.05 for order in itertools.permutations("abc")}
    return {order: weight / sum(weights.values()) for order, weight in weights.items()}


def small_log(seed: int, requests: int = 120) -> list[Row]:
    """Requests of three queries; a fourth item stands below those whose chance is known."""
    chance = random.Random(seed)
    rows = []
    for number in range(requests):
        query = chance.randrange(3)
        orders = chances(query)
        (order,) = chance.choices([*orders], [*orders.values()])
        user = f"u{chance.randrange(20)}" if chance.random() < 0.8 else None
        rows += [
            {"request": f"r{number}", "query": f"q{query}", "item": item, "position": position}
            | {"clicked": int(chance.random() < 0.4), "user": user, "list_score": orders[order]}
            | {"device": "phone" if number % 3 else "web"}
            for position, item in enumerate((*order, chance.choice("de")), 1)
        ]
    return rows


def new_lists() -> list[Row]:
    """Of two systems: one for each query, the other not, and one that is never shown."""
    lists = {("one", "q0"): "abcd", ("one", "q1"): "cab", ("one", "q2"): "bcaed"}
    lists |= {("two", "q0"): "cba", ("two", "q1"): "zab"}
    return [
        {"list": query, "item": item, "rank": float(rank), "system": system}
        for (system, query), items in lists.items()
        for rank, item in enumerate(items, 1)
    ]


def by_list(system: str) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for row in new_lists():
        if row["system"] == system:
            lists.setdefault(row["list"], []).append(row["item"])
    return lists


def clicks_of(rows: Sequence[Row], **changes: Any) -> sm.clicks.Clicks:
    lists = {"data": pa.Table.from_pylist(new_lists()), "columns": LISTS}
    counterfactual = {"rankings": lists, "match": "query", "metrics": METRICS[1:], "list_depth": 3}
    log = {"data": pa.Table.from_pylist([*rows]), "columns": COLUMNS | {"segments": ["device"]}}
    return sm.clicks.Clicks(log=log, counterfactual=counterfactual | {"clip": 4} | changes)


def estimates_of(rows: Sequence[Row], engine: Any = None, **changes: Any) -> CounterfactualResult:
    with sm.clicks.clean(clicks_of(rows, **changes), engine) as log:
        return sm.clicks.counterfactual_metrics(log, by=["device"])


def check(rows: Sequence[Row], result: CounterfactualResult, depth: int | None) -> None:
    """The estimates of all metrics, systems and segments are the reference's."""
    assert {estimate.estimator for estimate in result.estimates} == {*ESTIMATORS}
    assert len(result.estimates) == 2 * 3 * 3 * len(
        {estimate.segment_value for estimate in result.estimates}
    )
    device = {row["request"]: row["device"] for row in rows}
    for estimate in result.estimates:
        options = Options(estimate.estimator, 4, 0, estimate.metric, estimate.k)
        every = whole_lists_of(rows, by_list(estimate.system), "query", options, depth)
        units = [
            unit for name, unit in every.items() if estimate.segment_value in ("all", device[name])
        ]
        actual = tuple(getattr(estimate, name) for name in ExpectedEstimate._fields)
        assert actual == pytest.approx(tuple(estimate_of(units, options)), rel=1e-9, abs=1e-12)
        assert estimate.sample == sum(unit.parts[0].weight > 0 for unit in units)
        assert estimate.n == len(units)


def check_both(seed: int, engine: Any = None) -> None:
    """Lists whose first three items were drawn, and whole ones."""
    rows = small_log(seed)
    check(rows, estimates_of(rows, engine), 3)
    full_lists = [row for row in rows if row["position"] < 4]
    changes = {"metrics": ("mrr", "mrr@2", "hit@3"), "list_depth": None}
    check(full_lists, estimates_of(full_lists, engine, **changes), None)


@by_turns(0.8)
def test_they_are_as_the_formulas_say() -> None:
    check_both(1)


@pytest.mark.parametrize("writer", LATER)
def test_every_database_tells_the_same(writer: str, servers: Any) -> None:
    with servers.open(writer) as engine:
        check_both(2, engine)
        compare_shown(engine)


def test_by_hand() -> None:
    """a, b is shown with chance 0.8, and b, a with 0.2, the new list, which is shown twice."""
    requests = {"r1": ("ab", 0.8, "b"), "r2": ("ba", 0.2, "a")}
    requests |= {"r3": ("ba", 0.2, ""), "r4": ("ab", 0.8, "a")}
    rows = [
        {"request": name, "query": "q0", "item": item, "position": position, "user": None}
        | {"clicked": int(item == clicked), "list_score": score, "device": "web"}
        for name, (order, score, clicked) in requests.items()
        for position, item in enumerate(order, 1)
    ]
    new = pa.table({"list": ["q0"] * 2, "item": ["b", "a"], "rank": [1.0, 2.0]})
    lists = {"data": new, "columns": LISTS | {"system": None}}
    changes = {"rankings": lists, "metrics": ["mrr", "hit@2"], "list_depth": None}
    result = estimates_of(rows, **changes)
    # r2 and r3 count for five each: reciprocal ranks of 1/2 and 0
    assert result["mrr ips"] == 5 * 0.5 / 4
    assert result["mrr clipped_ips"] == 4 * 0.5 / 4
    assert result["mrr snips"] == 5 * 0.5 / 10
    assert result["hit@2 ips"] == 5 / 4
    first = result.estimates[0]
    assert (first.naive, first.ess, first.sample, first.n, first.n_clicks) == (0.5, 2.0, 2, 4, 1)
    assert "the estimate rests on 1 click only" in first.warnings
    assert result.method == "logged"


@by_turns(0.8)
def test_they_are_compared_with_what_was_shown() -> None:
    compare_shown()


def compare_shown(engine: Any = None) -> None:
    rows = small_log(3)
    spec = sm.Spec(name="log", clicks=clicks_of(rows), metrics=["ctr"])
    compared = sm.compare(spec, systems=["shown", "one"], connection=engine)
    assert len(compared) == 3 * 3
    for row in compared:
        metric, _, parameters = row["metric"].partition("(estimator=")
        name, _, k = parameters.partition(")@")
        options = Options(name, 4, 0, metric, int(k))
        units = whole_lists_of(rows, by_list("one"), "query", options, 3)
        baseline = [Unit(unit.cluster, unit.parts[0].naive, 1.0, []) for unit in units.values()]
        wanted = difference(units.values(), baseline)
        near = [wanted.value, wanted.baseline]
        assert [row["value"], row["baseline_value"]] == pytest.approx(near, rel=1e-9)
        reach = (row["ci_high"] - row["ci_low"]) / 2
        of_error = critical(row["ci_level"], len({unit.cluster for unit in units.values()}) - 1)
        assert reach == pytest.approx(of_error * wanted.standard_error, rel=1e-6)


def test_what_cannot_be_weighed_is_refused() -> None:
    rows = small_log(1)
    for changes, message in {
        (("metrics", ("mrr@3", "dcg@3")),): "mrr@3 weighs whole lists but dcg@3 weighs items",
        (("metrics", ("mrr",)),): "mrr needs more than the first 3 items of a list",
        (("metrics", ("dcg@3",)),): "list_depth only applies to mrr and hit; leave it out",
        (("estimators", ("dr",)),): "mrr@2 has ips, clipped_ips, snips",
    }.items():
        with pytest.raises(ValueError, match=message):
            clicks_of(rows, **dict(changes))
    with pytest.raises(InputError, match="is not a probability in 1 request:"):
        estimates_of([*rows[4:], *({**row, "list_score": 0.0} for row in rows[:4])])
    with pytest.raises(InputError, match="differs within 1 request:"):
        estimates_of([{**rows[0], "list_score": 0.5}, *rows[1:]])
    spec = sm.Spec(name="log", clicks=clicks_of(rows), metrics=["ctr"])
    with pytest.raises(SpecError, match="weighs whole lists but dcg@3"):
        sm.compare(spec, metrics=["mrr(estimator=ips)@3", "dcg(estimator=ips)@3"])


def coverage(seeds: range, requests: int) -> dict[str, float]:
    """Estimator -> how often its interval holds the planted MRR; people stop at a click.

    No propensity of a position could tell it: who found what they looked for looks no further.
    A seed is a segment.
    """
    orders = [*itertools.permutations("abc")]
    logs, truth = [], {}
    for seed in seeds:
        chance = np.random.default_rng(seed)
        p = chance.dirichlet(np.full(6, 3.0))
        attracts = dict(zip("abc", chance.uniform(0.1, 0.6, 3), strict=True))
        choices = chance.choice(6, requests, p=p)
        items = np.array(orders)[choices]
        wants = chance.random((requests, 3)) < np.vectorize(attracts.get)(items)
        clicked = wants & (np.cumsum(wants, axis=1) == 1)
        logs.append(
            pa.table(
                {
                    "request": np.repeat([f"s{seed}-{n}" for n in range(requests)], 3),
                    "item": items.ravel(),
                    "position": np.tile([1, 2, 3], requests),
                    "clicked": clicked.ravel().astype(int),
                    "list_score": np.repeat(p[choices], 3),
                    "seed": [f"s{seed}"] * (3 * requests),
                    "query": ["q"] * (3 * requests),
                }
            )
        )
        a, b, c = (attracts[item] for item in "cba")
        truth[f"s{seed}"] = a + (1 - a) * b / 2 + (1 - a) * (1 - b) * c / 3
    lists = pa.table({"list": ["q"] * 3, "item": [*"cba"], "rank": [1.0, 2.0, 3.0]})
    columns = {name: value for name, value in COLUMNS.items() if name != "user"}
    clicks = sm.clicks.Clicks(
        log={"data": pa.concat_tables(logs), "columns": columns | {"segments": ["seed"]}},
        counterfactual={
            "rankings": {"data": lists, "columns": LISTS | {"system": None}},
            "match": "query",
            "metrics": ["mrr"],
        },
    )
    outcomes: dict[str, list[bool]] = {}
    with sm.clicks.clean(clicks) as log:
        for estimate in sm.clicks.counterfactual_metrics(log, by=["seed"]).estimates:
            if estimate.segment_name == "seed":
                covers = estimate.ci_low <= truth[estimate.segment_value] <= estimate.ci_high
                outcomes.setdefault(estimate.estimator, []).append(covers)
    return {name: math.fsum(held) / len(held) for name, held in outcomes.items()}


@by_turns(1)
def test_intervals_cover_the_planted_value_of_some_seeds() -> None:
    shares = coverage(range(1, 31), 1_000)
    assert shares["ips"] >= 0.85
    assert shares["snips"] >= 0.85


@by_night
def test_intervals_cover_the_planted_value_of_200_seeds() -> None:
    shares = coverage(range(1, 201), 3_000)
    assert 0.93 <= shares["ips"] <= 0.97
    assert 0.93 <= shares["snips"] <= 0.97
