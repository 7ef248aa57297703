"""Propensities are what plain Python says of the rows, on each database; and what was planted."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any

import propensity_reference as reference
import pyarrow as pa
import pytest
from job_days import LATER
from marked import by_night, by_turns
from position_bias import simulated_log

from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.clicks.propensity.em import Round
from sqlmetrics.clicks.propensity.estimate import PropensityEstimate
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError
from sqlmetrics.spec.click_log import Clicks

COLUMNS = {
    "request": "request",
    "query": "query",
    "item": "item",
    "position": "position",
    "clicked": "clicked",
}


FEW = ("tv", "TV", "té", "tv ", "pc", None)


def small_log(seed: int = 1, requests: int = 400, queries: Sequence[str | None] = FEW) -> pa.Table:
    """Requests of queries on two devices, some without a text, with items that move."""
    chance = random.Random(seed)
    looks = {"phone": (0.9, 0.5, 0.3, 0.2, 0.1), "desktop": (0.9, 0.8, 0.6, 0.5, 0.4)}
    rows = []
    for request in range(requests):
        device = chance.choice(["phone", "desktop"])
        query = chance.choice(queries)
        is_random = chance.random() < 0.4
        items = chance.sample("abcdefg", 5)
        for position, item in enumerate(items, start=1):
            attracts = (ord(item) - ord("a") + 2) / 9
            clicked = chance.random() < attracts * looks[device][position - 1]
            rows.append(
                {
                    "request": request,
                    "query": query,
                    "item": item,
                    "position": position,
                    "clicked": int(clicked),
                    "device": device,
                    "shuffled": int(is_random),
                }
            )
    return pa.Table.from_pylist(rows)


LOG = small_log()
MANY = [f"query {number}" for number in range(230)]
"""More than groups of queries, of which most show an item at one position alone."""


def rows(log: pa.Table = LOG, **where: Any) -> list[reference.Row]:
    return [
        (row["query"], row["item"], row["position"], row["clicked"])
        for row in log.to_pylist()
        if all(row[name] == value for name, value in where.items())
    ]


@contextmanager
def opened(
    propensity: dict[str, Any], engine: Any = None, log: pa.Table = LOG, **labels: Any
) -> Iterator[CleanLog]:
    source = {"relation": "shown"} if engine else {"data": log}
    segments = [name for name in ("device", "shuffled") if name in log.column_names]
    clicks = Clicks(
        log={**source, "columns": {**COLUMNS, "segments": segments}},
        propensity={"min_clicks": 1, "positions": 4, **propensity},
        **({"labels": {"pool": "query_item", **labels}} if labels else {}),
    )
    with connect(engine) as own:
        if engine:
            own.load("shown", log)
        try:
            with cleaned_log(clicks, own) as done:
                yield done
        finally:
            if engine:
                own.execute("drop table shown")


def estimated(propensity: dict[str, Any], **more: Any) -> PropensityEstimate:
    with opened(propensity, **more) as done:
        return done.estimate_propensities()


def curve(found: PropensityEstimate, group: str | None = None) -> dict[int, float]:
    return {one.position: one.propensity for one in found.curve.rows if one.group == group}


def near(wanted: Any) -> Any:
    return pytest.approx(wanted, rel=1e-9)


RANDOM = {"method": "randomised", "randomised": "shuffled = 1"}
METHODS: dict[str, dict[str, Any]] = {
    "all pairs": {"method": "harvest"},
    "adjacent pairs": {"method": "harvest", "pairs": "adjacent"},
    "em": {"method": "em", "tolerance": 1e-11},
    "randomised": RANDOM,
}


def wanted(name: str, own: list[reference.Row]) -> dict[int, float]:
    pairs = reference.cells(own, 4)
    if name == "em":
        return reference.relative(reference.em(pairs, reference.harvest(pairs))[0])
    if name == "randomised":
        return reference.click_rates(own, 4)
    return reference.harvest(pairs, adjacent=name == "adjacent pairs")


@by_turns(1.5)
@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_what_its_formula_says(name: str) -> None:
    only = {"shuffled": 1} if name == "randomised" else {}
    found = estimated(METHODS[name])
    assert curve(found) == near(wanted(name, rows(**only)))
    assert [one.position for one in found.curve.rows] == [1, 2, 3, 4]
    by_device = estimated({**METHODS[name], "by": "device"})
    if name == "em":
        groups = [one.group for one in by_device.rounds]
        assert groups == sorted(groups, key=str)
        assert {*groups} == {"desktop", "phone"}
    for device in ("desktop", "phone"):
        assert curve(by_device, device) == near(wanted(name, rows(device=device, **only)))
    assert by_device.below == pytest.approx(0.2)


@by_turns(0.7)
def test_rounds_of_em_are_told_and_rise(caplog: pytest.LogCaptureFixture) -> None:
    pairs = reference.cells(rows(), 4)
    caplog.set_level(logging.INFO, "sqlmetrics")
    told_rounds: list[Round] = []
    with opened({"method": "em", "max_rounds": 3, "tolerance": 1e-12}) as done:
        found = done.estimate_propensities(told_rounds.append)
    assert tuple(told_rounds) == found.rounds
    assert [one.message for one in caplog.records] == [f"em {one}" for one in found.rounds]
    doubts = " ".join(found.warnings())
    told = reference.moved(pairs)
    each = sum(n for at in told.values() for n, _ in at.values()) / len(told)
    assert f"em learns {len(told)} attractions from {each:.1f} impressions each" in doubts
    assert "em did not converge in 3 rounds" in doubts
    assert "em" not in " ".join(estimated({"method": "harvest"}).warnings()).split()
    early = estimated({"method": "em", "tolerance": 0.5})
    assert len(early.rounds) == 1, "the first round changes less than a half"


@by_turns(1)
def test_em_comes_to_rest_where_plain_em_does_but_sooner() -> None:
    log = small_log(4, 1000)
    pairs = reference.cells(rows(log), 4)
    state = reference.em(pairs, reference.harvest(pairs))
    found = estimated({**METHODS["em"], "replicates": 0}, log=log)
    likelihoods = [one.log_likelihood for one in found.rounds]
    assert likelihoods == sorted(likelihoods)
    assert likelihoods[-1] == near(reference.log_likelihood(pairs, state))
    gamma = reference.likeliest(pairs, state[0])
    assert state[1] == pytest.approx(gamma, rel=1e-6), "plain EM has come to rest"
    plain, rounds = reference.start(pairs, reference.harvest(pairs)), 0
    while reference.relative(plain[0])[4] != pytest.approx(curve(found)[4], rel=1e-4):
        plain, rounds = reference.em_round(pairs, plain), rounds + 1
    soon = estimated({"method": "em", "replicates": 0}, log=log)
    assert len(soon.rounds) < rounds


@by_turns(0.3)
def test_a_round_of_em_takes_the_step_of_plain_em() -> None:
    pairs = reference.cells(rows(), 4)
    theta, after, gamma = reference.first_round(pairs, reference.harvest(pairs))
    found = estimated({"method": "em", "max_rounds": 1})
    assert found.rounds[0].log_likelihood == near(reference.log_likelihood(pairs, (theta, gamma)))
    assert curve(found) == near(reference.relative(after))


@by_turns(1)
@pytest.mark.parametrize("method", ["harvest", "em"])
@pytest.mark.parametrize("queries", [FEW, MANY], ids=["few queries", "many queries"])
def test_intervals_are_the_percentiles_of_samples_of_queries(
    method: str, queries: Sequence[str | None]
) -> None:
    log = LOG if queries is FEW else small_log(2, 700, queries)
    pairs = reference.cells(rows(log), 4)
    asked = {"method": method, "replicates": 60, "confidence": 0.9}
    # few impressions a pair: all the way, em would find all positions looked at alike
    more = METHODS["em"] if queries is FEW else {"max_rounds": 1}
    found = estimated({**asked, **(more if method == "em" else {})}, log=log)
    assert found.moves is not None
    told = reference.moved(pairs)
    assert found.moves.n_pairs == len(told)
    assert found.moves.n_impressions == sum(n for at in told.values() for n, _ in at.values())
    drawn = []
    curve_there = reference.harvest(pairs)
    theta, gamma = (
        reference.em(pairs, curve_there)
        if queries is FEW
        else reference.first_round(pairs, curve_there)[1:]
    )
    own = [query for query, _ in reference.moved(pairs)]
    for one in reference.samples([row[0] for row in rows(log) if row[0] is not None], own, 60):
        if method == "em":
            drawn.append(reference.em_sample(pairs, theta, gamma, one))
            continue
        sums = reference.ratios(reference.moved(pairs), one)
        if all(over > 0 and under > 0 for over, under, _ in sums.values()):
            drawn.append(reference.harvest(pairs, times=one))
    for one in found.curve.rows[1:]:
        ends = reference.percentiles([sample[one.position] for sample in drawn], 0.9)
        assert (one.ci_low, one.ci_high) == near(ends)
    first = found.curve.rows[0]
    assert (first.propensity, first.ci_low, first.ci_high) == (1.0, None, None)
    none = estimated({"method": method, "replicates": 0})
    assert {one.ci_low for one in none.curve.rows} == {None}


@pytest.mark.parametrize("rate", ["ips", "coee"])
def test_corrected_rates_are_what_their_formula_says(rate: str) -> None:
    given = {1: 0.8, 2: 0.4, 4: 0.02}
    curve = {1: 1.0, 2: 0.5, 4: 0.025}
    own = {"method": "given", "given": given, "max_weight": 10}
    for prior in (0, 3):
        with opened(own, rate=rate, prior=prior) as done:
            found = {
                (row["query_text"], row["item_id"]): row["rate"]
                for row in done.judgments().to_pylist()
            }
        assert found == near(reference.corrected(rows(), curve, rate, 10, prior))


@pytest.mark.parametrize("writer", LATER)
def test_every_database_tells_the_same(writer: str, servers: Any) -> None:
    for name, asked in METHODS.items():
        with opened({**asked, "replicates": 40}, servers.open(writer), rate="ips") as done:
            found, here = done.propensities, done.judgments().to_pylist()
        with opened({**asked, "replicates": 40}, rate="ips") as done:
            own, there = done.propensities, done.judgments().to_pylist()
        assert found is not None
        assert own is not None
        for one, other in zip(found.curve.rows, own.curve.rows, strict=True):
            assert vars(one) == pytest.approx(vars(other), rel=1e-9), name
        assert vars(found.correction) == near(vars(own.correction))
        assert [one["rate"] for one in here] == near([one["rate"] for one in there])


PLANTED = (1, 0.7, 0.5, 0.4, 0.33, 0.28, 0.24, 0.2, 0.18, 0.16)


def errors(seed: int, method: str, impressions: int = 300_000) -> list[float]:
    """By what share the propensities of positions 2 to 10 are off."""
    log = simulated_log(seed, impressions, PLANTED).log
    asked = {"method": method, "positions": 10, "min_clicks": 50, "replicates": 0}
    found = curve(estimated(asked, log=log))
    return [abs(found[k] / p - 1) for k, p in enumerate(PLANTED, start=1) if k > 1]


@by_turns(0.4)
def test_what_was_planted_is_found() -> None:
    assert fmean(errors(1, "harvest", 100_000)) < 0.05


@by_night
@pytest.mark.parametrize("method", ["harvest", "em"])
def test_the_first_ten_propensities_are_found_within_5_percent(method: str) -> None:
    found = [fmean(errors(seed, method)) for seed in range(20)]
    assert fmean(found) < 0.05
    assert max(found) < 0.1


@by_night
@pytest.mark.parametrize("method", ["harvest", "em", "randomised"])
def test_intervals_hold_the_truth_as_often_as_they_say(method: str) -> None:
    held = []
    for seed in range(20):
        log = simulated_log(seed, 100_000, PLANTED, randomised=0.3).log
        log = log.rename_columns(["shuffled" if n == "randomised" else n for n in log.column_names])
        asked = {"method": method, "positions": 10, **(RANDOM if method == "randomised" else {})}
        for one in estimated(asked, log=log).curve.rows[1:]:
            assert one.ci_low is not None
            assert one.ci_high is not None
            held.append(one.ci_low <= PLANTED[one.position - 1] <= one.ci_high)
    assert 0.88 <= fmean(held) <= 0.99  # 180 intervals, which are not independent


@by_turns(1)
def test_correction_tells_what_it_brings_and_costs() -> None:
    log = simulated_log(3, 30_000, PLANTED, swaps=1).log
    found = estimated({"method": "harvest", "positions": 10, "min_clicks": 5}, log=log)
    assert found.correction is not None
    assert not found.correction.helps
    assert "adds more noise" in found.correction.warning()
    assert any("adds more noise" in note for note in found.notes())


@pytest.mark.parametrize("rate", ["ips", "coee"])
def test_bias_and_noise_are_what_their_formulas_say(rate: str) -> None:
    curve = {1: 1.0, 2: 0.5, 3: 0.3, 4: 0.0625}
    known = {"method": "given", "given": curve, "max_weight": 4}
    with opened(known, rate=rate) as done:
        told = done.estimate_propensities().correction
    assert told is not None
    assert vars(told) == near(reference.cost(rows(), curve, rate, 4))


def test_what_stands_at_a_position_is_told() -> None:
    can = estimated({"method": "harvest"}).identifiability[None]
    for one in can.positions:
        own = [row for row in rows() if row[2] == one.position]
        counted = (one.n_impressions, one.n_clicks)
        assert counted == (len(own), sum(row[3] for row in own))
    pairs = reference.moved(reference.cells(rows(), 4)).values()
    both = [(at[1][1], at[2][1]) for at in pairs if {1, 2} <= {*at}]
    (link,) = (one for one in can.links if (one.above, one.below) == (1, 2))
    assert (link.n_pairs, link.above_clicks, link.below_clicks) == (
        *(len(both), sum(above for above, _ in both)),
        sum(below for _, below in both),
    )


REFUSED = [
    (
        {"items": ("ab", "ba", "ab"), "clicked": "ab"},
        {"positions": 2, "min_clicks": 50},
        "harvest cannot tell .*positions depend on too few clicks \\(min_clicks: 50\\): 2 on 3",
    ),
    (
        {"items": ("abcd", "bacd", "abdc"), "clicked": "abcd"},
        {"positions": 4, "min_clicks": 1},
        r"positions 1-2 \| 3-4 are not connected.*; use propensity.positions: 2, more days",
    ),
    ({"items": ("ab", "ba"), "clicked": ""}, {}, "none of 4 impressions at positions 1 to 4"),
]


@pytest.mark.parametrize(("log", "asked", "why"), REFUSED)
def test_a_log_that_cannot_tell_is_refused_with_its_numbers(
    log: dict[str, Any], asked: dict[str, Any], why: str
) -> None:
    shown = pa.Table.from_pylist(
        [
            {
                "request": n,
                "query": "tv",
                "item": item,
                "position": place,
                "clicked": int(item in log["clicked"]),
            }
            for n, items in enumerate(log["items"])
            for place, item in enumerate(items, start=1)
        ]
    )
    with pytest.raises(InputError, match=why):
        estimated({"method": "harvest", **asked}, log=shown)
    with pytest.raises(InputError, match=why.replace("harvest", "em")):
        estimated({"method": "em", **asked}, log=shown)
