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
    with connect(engine) as database:
        if engine:
            database.load("shown", log)
        try:
            with cleaned_log(clicks, database) as cleaned:
                yield cleaned
        finally:
            if engine:
                database.execute("drop table shown")


def estimated(propensity: dict[str, Any], **options: Any) -> PropensityEstimate:
    with opened(propensity, **options) as cleaned:
        return cleaned.estimate_propensities()


def curve(estimate: PropensityEstimate, group: str | None = None) -> dict[int, float]:
    return {row.position: row.propensity for row in estimate.curve.rows if row.group == group}


def near(wanted: Any) -> Any:
    return pytest.approx(wanted, rel=1e-9)


RANDOM = {"method": "randomised", "randomised": "shuffled = 1"}
METHODS: dict[str, dict[str, Any]] = {
    "all pairs": {"method": "harvest"},
    "adjacent pairs": {"method": "harvest", "pairs": "adjacent"},
    "em": {"method": "em", "tolerance": 1e-11},
    "randomised": RANDOM,
}


def wanted(name: str, impressions: list[reference.Row]) -> dict[int, float]:
    pairs = reference.cells(impressions, 4)
    if name == "em":
        return reference.relative(reference.em(pairs, reference.harvest(pairs))[0])
    if name == "randomised":
        return reference.click_rates(impressions, 4)
    return reference.harvest(pairs, adjacent=name == "adjacent pairs")


@by_turns(1.5)
@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_what_its_formula_says(name: str) -> None:
    only = {"shuffled": 1} if name == "randomised" else {}
    estimate = estimated(METHODS[name])
    assert curve(estimate) == near(wanted(name, rows(**only)))
    assert [row.position for row in estimate.curve.rows] == [1, 2, 3, 4]
    by_device = estimated({**METHODS[name], "by": "device"})
    if name == "em":
        groups = [em_round.group for em_round in by_device.rounds]
        assert groups == sorted(groups, key=str)
        assert {*groups} == {"desktop", "phone"}
    for device in ("desktop", "phone"):
        assert curve(by_device, device) == near(wanted(name, rows(device=device, **only)))
    assert by_device.below == pytest.approx(0.2)


@by_turns(0.7)
def test_rounds_of_em_are_told_and_rise(caplog: pytest.LogCaptureFixture) -> None:
    pairs = reference.cells(rows(), 4)
    caplog.set_level(logging.INFO, "sqlmetrics")
    reported_rounds: list[Round] = []
    with opened({"method": "em", "max_rounds": 3, "tolerance": 1e-12}) as cleaned:
        estimate = cleaned.estimate_propensities(reported_rounds.append)
    assert tuple(reported_rounds) == estimate.rounds
    assert [record.message for record in caplog.records] == [
        f"em {em_round}" for em_round in estimate.rounds
    ]
    doubts = " ".join(estimate.warnings())
    moved = reference.moved(pairs)
    mean_impressions = sum(n for at in moved.values() for n, _ in at.values()) / len(moved)
    assert (
        f"em learns {len(moved)} attractions from {mean_impressions:.1f} impressions each" in doubts
    )
    assert "em did not converge in 3 rounds" in doubts
    assert "em" not in " ".join(estimated({"method": "harvest"}).warnings()).split()
    early = estimated({"method": "em", "tolerance": 0.5})
    assert len(early.rounds) == 1, "the first round changes less than a half"


@by_turns(1)
def test_em_comes_to_rest_where_plain_em_does_but_sooner() -> None:
    log = small_log(4, 1000)
    pairs = reference.cells(rows(log), 4)
    state = reference.em(pairs, reference.harvest(pairs))
    estimate = estimated({**METHODS["em"], "replicates": 0}, log=log)
    likelihoods = [em_round.log_likelihood for em_round in estimate.rounds]
    assert likelihoods == sorted(likelihoods)
    assert likelihoods[-1] == near(reference.log_likelihood(pairs, state))
    gamma = reference.likeliest(pairs, state[0])
    assert state[1] == pytest.approx(gamma, rel=1e-6), "plain EM has come to rest"
    plain, rounds = reference.start(pairs, reference.harvest(pairs)), 0
    while reference.relative(plain[0])[4] != pytest.approx(curve(estimate)[4], rel=1e-4):
        plain, rounds = reference.em_round(pairs, plain), rounds + 1
    soon = estimated({"method": "em", "replicates": 0}, log=log)
    assert len(soon.rounds) < rounds


@by_turns(0.3)
def test_a_round_of_em_takes_the_step_of_plain_em() -> None:
    pairs = reference.cells(rows(), 4)
    theta, after, gamma = reference.first_round(pairs, reference.harvest(pairs))
    estimate = estimated({"method": "em", "max_rounds": 1})
    assert estimate.rounds[0].log_likelihood == near(
        reference.log_likelihood(pairs, (theta, gamma))
    )
    assert curve(estimate) == near(reference.relative(after))


@by_turns(1)
@pytest.mark.parametrize("method", ["harvest", "em"])
@pytest.mark.parametrize("queries", [FEW, MANY], ids=["few queries", "many queries"])
def test_intervals_are_the_percentiles_of_samples_of_queries(
    method: str, queries: Sequence[str | None]
) -> None:
    log = LOG if queries is FEW else small_log(2, 700, queries)
    pairs = reference.cells(rows(log), 4)
    options = {"method": method, "replicates": 60, "confidence": 0.9}
    # few impressions a pair: all the way, em would find all positions looked at alike
    em_options = METHODS["em"] if queries is FEW else {"max_rounds": 1}
    estimate = estimated({**options, **(em_options if method == "em" else {})}, log=log)
    assert estimate.moves is not None
    moved = reference.moved(pairs)
    assert estimate.moves.n_pairs == len(moved)
    assert estimate.moves.n_impressions == sum(n for at in moved.values() for n, _ in at.values())
    replicates = []
    harvested = reference.harvest(pairs)
    theta, gamma = (
        reference.em(pairs, harvested)
        if queries is FEW
        else reference.first_round(pairs, harvested)[1:]
    )
    moved_queries = [query for query, _ in reference.moved(pairs)]
    for times in reference.samples(
        [row[0] for row in rows(log) if row[0] is not None], moved_queries, 60
    ):
        if method == "em":
            replicates.append(reference.em_sample(pairs, theta, gamma, times))
            continue
        sums = reference.ratios(reference.moved(pairs), times)
        if all(over > 0 and under > 0 for over, under, _ in sums.values()):
            replicates.append(reference.harvest(pairs, times=times))
    for row in estimate.curve.rows[1:]:
        ends = reference.percentiles([sample[row.position] for sample in replicates], 0.9)
        assert (row.ci_low, row.ci_high) == near(ends)
    first = estimate.curve.rows[0]
    assert (first.propensity, first.ci_low, first.ci_high) == (1.0, None, None)
    none = estimated({"method": method, "replicates": 0})
    assert {row.ci_low for row in none.curve.rows} == {None}


@pytest.mark.parametrize("rate", ["ips", "coee"])
def test_corrected_rates_are_what_their_formula_says(rate: str) -> None:
    propensities = {1: 0.8, 2: 0.4, 4: 0.02}
    curve = {1: 1.0, 2: 0.5, 4: 0.025}
    propensity = {"method": "given", "given": propensities, "max_weight": 10}
    for prior in (0, 3):
        with opened(propensity, rate=rate, prior=prior) as cleaned:
            rates = {
                (row["query_text"], row["item_id"]): row["rate"]
                for row in cleaned.judgments().to_pylist()
            }
        assert rates == near(reference.corrected(rows(), curve, rate, 10, prior))


@pytest.mark.parametrize("writer", LATER)
def test_every_database_tells_the_same(writer: str, servers: Any) -> None:
    for name, options in METHODS.items():
        with opened({**options, "replicates": 40}, servers.open(writer), rate="ips") as cleaned:
            estimate, judgments = cleaned.propensities, cleaned.judgments().to_pylist()
        with opened({**options, "replicates": 40}, rate="ips") as cleaned:
            expected, expected_judgments = cleaned.propensities, cleaned.judgments().to_pylist()
        assert estimate is not None
        assert expected is not None
        for row, expected_row in zip(estimate.curve.rows, expected.curve.rows, strict=True):
            assert vars(row) == pytest.approx(vars(expected_row), rel=1e-9), name
        assert vars(estimate.correction) == near(vars(expected.correction))
        assert [row["rate"] for row in judgments] == near(
            [row["rate"] for row in expected_judgments]
        )


PLANTED = (1, 0.7, 0.5, 0.4, 0.33, 0.28, 0.24, 0.2, 0.18, 0.16)


def errors(seed: int, method: str, impressions: int = 300_000) -> list[float]:
    """By what share the propensities of positions 2 to 10 are off."""
    log = simulated_log(seed, impressions, PLANTED).log
    options = {"method": method, "positions": 10, "min_clicks": 50, "replicates": 0}
    propensities = curve(estimated(options, log=log))
    return [abs(propensities[k] / p - 1) for k, p in enumerate(PLANTED, start=1) if k > 1]


@by_turns(0.4)
def test_what_was_planted_is_found() -> None:
    assert fmean(errors(1, "harvest", 100_000)) < 0.05


@by_night
@pytest.mark.parametrize("method", ["harvest", "em"])
def test_the_first_ten_propensities_are_found_within_5_percent(method: str) -> None:
    mean_errors = [fmean(errors(seed, method)) for seed in range(20)]
    assert fmean(mean_errors) < 0.05
    assert max(mean_errors) < 0.1


@by_night
@pytest.mark.parametrize("method", ["harvest", "em", "randomised"])
def test_intervals_hold_the_truth_as_often_as_they_say(method: str) -> None:
    held = []
    for seed in range(20):
        log = simulated_log(seed, 100_000, PLANTED, randomised=0.3).log
        log = log.rename_columns(["shuffled" if n == "randomised" else n for n in log.column_names])
        options = {"method": method, "positions": 10, **(RANDOM if method == "randomised" else {})}
        for row in estimated(options, log=log).curve.rows[1:]:
            assert row.ci_low is not None
            assert row.ci_high is not None
            held.append(row.ci_low <= PLANTED[row.position - 1] <= row.ci_high)
    assert 0.88 <= fmean(held) <= 0.99  # 180 intervals, which are not independent


@by_turns(1)
def test_correction_tells_what_it_brings_and_costs() -> None:
    log = simulated_log(3, 30_000, PLANTED, swaps=1).log
    estimate = estimated({"method": "harvest", "positions": 10, "min_clicks": 5}, log=log)
    assert estimate.correction is not None
    assert not estimate.correction.helps
    assert "adds more noise" in estimate.correction.warning()
    assert any("adds more noise" in note for note in estimate.notes())


@pytest.mark.parametrize("rate", ["ips", "coee"])
def test_bias_and_noise_are_what_their_formulas_say(rate: str) -> None:
    curve = {1: 1.0, 2: 0.5, 3: 0.3, 4: 0.0625}
    propensity = {"method": "given", "given": curve, "max_weight": 4}
    with opened(propensity, rate=rate) as cleaned:
        correction = cleaned.estimate_propensities().correction
    assert correction is not None
    assert vars(correction) == near(reference.cost(rows(), curve, rate, 4))


def test_what_stands_at_a_position_is_told() -> None:
    can = estimated({"method": "harvest"}).identifiability[None]
    for position in can.positions:
        position_rows = [row for row in rows() if row[2] == position.position]
        counted = (position.n_impressions, position.n_clicks)
        assert counted == (len(position_rows), sum(row[3] for row in position_rows))
    pairs = reference.moved(reference.cells(rows(), 4)).values()
    clicks = [(at[1][1], at[2][1]) for at in pairs if {1, 2} <= {*at}]
    (link,) = (pair_link for pair_link in can.links if (pair_link.above, pair_link.below) == (1, 2))
    assert (link.n_pairs, link.above_clicks, link.below_clicks) == (
        *(len(clicks), sum(above for above, _ in clicks)),
        sum(below for _, below in clicks),
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


@pytest.mark.parametrize(("log", "options", "why"), REFUSED)
def test_a_log_that_cannot_tell_is_refused_with_its_numbers(
    log: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    table = pa.Table.from_pylist(
        [
            {
                "request": n,
                "query": "tv",
                "item": item,
                "position": position,
                "clicked": int(item in log["clicked"]),
            }
            for n, items in enumerate(log["items"])
            for position, item in enumerate(items, start=1)
        ]
    )
    with pytest.raises(InputError, match=why):
        estimated({"method": "harvest", **options}, log=table)
    with pytest.raises(InputError, match=why.replace("harvest", "em")):
        estimated({"method": "em", **options}, log=table)
