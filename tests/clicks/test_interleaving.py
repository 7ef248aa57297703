"""Interleaving: credits against plain Python and by hand, and unbiased over many experiments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import exp, lgamma, pi, sqrt
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest
from clicks.interleaved import (
    BASELINE,
    SYSTEM,
    Experiment,
    balanced_merge,
    experiment,
    whole_down_to,
)
from job_days import LATER
from marked import by_turns
from pydantic import ValidationError

from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.interleaving import interleaving_outcome
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.stats.nonparametric import sign_test

THETA = (1.0, 0.6, 0.4, 0.3, 0.25, 0.2)
CURVE = PropensityCurve.given(dict(enumerate(THETA, 1)))
METHODS = ("team_draft", "balanced", "debiased_balanced")


def clicks_of(log: pa.Table, rankings: pa.Table | None, method: str, **options: Any) -> Clicks:
    columns = {"clicked": "clicked", "user": "user_id", "team": "team"}
    lists = {"data": rankings, "columns": {"rank": "rank"}}
    source = {} if method == "team_draft" else {"rankings": lists}
    baseline = {"baseline": BASELINE} if rankings is not None else {}
    return Clicks(
        log={"data": log, "columns": columns},
        interleaving={"method": method, **source, **baseline, **options},
    )


def outcome_of(clicks: Clicks, engine: Any = None, **options: Any) -> Any:
    debiased = clicks.interleaving is not None and clicks.interleaving.method == METHODS[2]
    curve = {"curve": CURVE} if debiased else {}
    with connect(engine) as opened, cleaned_log(clicks, opened) as log:
        return interleaving_outcome(log, **(curve | options))


def lists_of(table: pa.Table, order: str, *keys: str) -> dict[Any, list[dict[str, Any]]]:
    """The rows by some columns, in order."""
    by: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(table.to_pylist(), key=lambda row: row[order]):
        by[tuple(row[key] for key in keys)].append(row)
    return by


def reference(planted: Experiment, method: str) -> Iterator[tuple[int, float, float]]:
    """The user of each request, and the credits of the new and the old system."""
    ranked = lists_of(planted.rankings, "rank", "request_id", "system")
    for (request,), rows in lists_of(planted.log, "position", "request_id").items():
        user = rows[0]["user_id"]
        clicked = [row["item_id"] for row in rows if row["clicked"]]
        if method == "team_draft":
            teams = [row["team"] for row in rows if row["clicked"]]
            yield user, teams.count(SYSTEM), teams.count(BASELINE)
            continue
        new, old = (
            [row["item_id"] for row in ranked[request, system]] for system in (SYSTEM, BASELINE)
        )
        credit = balanced_credit if method == "balanced" else debiased_credit
        yield user, *credit(new, old, clicked, len(rows))


def balanced_credit(new: list, old: list, clicked: list, _: int) -> tuple[float, float]:
    if not clicked:
        return 0, 0
    k = 1 + min(items.index(clicked[-1]) for items in (new, old) if clicked[-1] in items)
    return sum(item in new[:k] for item in clicked), sum(item in old[:k] for item in clicked)


def debiased_credit(new: list, old: list, clicked: list, page: int) -> tuple[float, float]:
    theta = [*THETA, *[THETA[-1]] * len(old)]
    merges = [balanced_merge(*pair, 2 * len(old)) for pair in ((new, old), (old, new))]
    k = whole_down_to(new, old, page)
    credits = [0.0, 0.0]
    for item in clicked:
        looked_at = fmean(theta[merge.index(item)] for merge in merges)
        for number, items in enumerate((new, old)):
            if item in items[:k]:
                credits[number] += theta[items.index(item)] / looked_at
    return credits[0], credits[1]


def numbers(rows: list[tuple[int, float, float]]) -> dict[str, float]:
    """What the outcome says, by the formula of a ratio over users."""
    by_user: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    wins = losses = 0
    for user, new, old in rows:
        lead = 0 if abs(new - old) < 1e-9 else 1 if new > old else -1
        wins, losses = wins + (lead > 0), losses + (lead < 0)
        for index, value in enumerate((1, new - old, lead)):
            by_user[user][index] += value
    n, users = len(rows), len(by_user)
    summary: dict[str, float] = {"wins": wins, "losses": losses}
    for name, index in (("difference", 1), ("lead", 2)):
        mean = sum(sums[index] for sums in by_user.values()) / n
        squares = sum((sums[index] - mean * sums[0]) ** 2 for sums in by_user.values())
        error = sqrt(squares * users / (users - 1)) / n
        summary |= {name: mean, f"{name}_error": error}
    return summary


def central(t: float, df: int) -> float:
    """How probable Student's t is to lie between -t and t: its density, by Simpson's rule."""
    scale = exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(df * pi)
    n = 2000
    densities = [scale * (1 + (t * i / n) ** 2 / df) ** (-(df + 1) / 2) for i in range(n + 1)]
    ends = densities[0] + densities[-1]
    inner = 4 * sum(densities[1:-1:2]) + 2 * sum(densities[2:-1:2])
    return 2 * t / n / 3 * (ends + inner)


def critical(confidence: float, df: int) -> float:
    """The t between whose two signs so much of the distribution lies, by bisection."""
    low, high = 0.0, 20.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, df) < confidence else (low, middle)
    return middle


@pytest.mark.parametrize("method", METHODS)
def test_plain_python_says_the_same(method: str) -> None:
    kind = "team_draft" if method == "team_draft" else "balanced"
    planted = experiment(3, 300, THETA, method=kind)
    outcome = outcome_of(clicks_of(planted.log, planted.rankings, method))
    rows = list(reference(planted, method))
    wanted = numbers(rows)
    n_users = len({user for user, _, _ in rows})
    reach = critical(0.95, n_users - 1)
    t = abs(wanted["difference"] / wanted["difference_error"])
    assert (outcome.system, outcome.n_requests, outcome.n_left_out) == (SYSTEM, 300, 0)
    assert outcome.n_clusters == n_users
    assert (outcome.wins, outcome.losses) == (wanted["wins"], wanted["losses"])
    assert outcome.ties == 300 - outcome.wins - outcome.losses
    near = {
        outcome.difference.value: wanted["difference"],
        outcome.difference.ci_high: wanted["difference"] + reach * wanted["difference_error"],
        outcome.win_share.value: (1 + wanted["lead"]) / 2,
        outcome.win_share.ci_low: (1 + wanted["lead"] - reach * wanted["lead_error"]) / 2,
        outcome.difference.p_value: 1 - central(t, n_users - 1),
    }
    for value, right in near.items():
        assert value == pytest.approx(right, rel=1e-9)
    assert outcome.sign_test == sign_test(outcome.wins, outcome.losses)


@by_turns(2)
@pytest.mark.parametrize("method", METHODS)
def test_a_device_is_what_its_rows_alone_say(method: str) -> None:
    kind = "team_draft" if method == "team_draft" else "balanced"
    planted = experiment(5, 240, THETA, method=kind)
    log = planted.log.append_column(
        "device",
        pa.array(
            ["phone" if request % 3 else "tv" for request in planted.log["request_id"].to_pylist()]
        ),
    )
    propensities = {device: {1: 1, 2: p} for device, p in (("phone", 0.5), ("tv", 0.9))}

    def device_clicks(rows: pa.Table, **propensity: Any) -> Clicks:
        plain = clicks_of(rows, planted.rankings, method)
        assert plain.log is not None
        columns = plain.log.columns.model_copy(update={"segments": ("device",)})
        source = plain.log.model_copy(update={"columns": columns})
        propensity_options = {"method": "given", **propensity} if method == METHODS[2] else {}
        return Clicks(log=source, interleaving=plain.interleaving, propensity=propensity_options)

    outcomes = outcome_of(
        device_clicks(log, given=propensities, by="device"), curve=None, by="device"
    )
    assert [*outcomes.groups] == ["phone", "tv"]
    for device, outcome in outcomes.groups.items():
        rows = log.filter(pa.compute.equal(log["device"], device))
        alone = outcome_of(device_clicks(rows, given=propensities[device]), curve=None)
        assert outcome.to_dicts() == [near(row) for row in alone.to_dicts()]
        assert outcome.n_requests < 240
    assert [row["group"] for row in outcomes.to_dicts()] == ["phone", "tv"]
    assert repr(outcomes).startswith(f"device: phone\n\n{method}: new against old")
    if method == METHODS[2]:
        with pytest.raises(SpecError, match=r"set by=device .* to compute each value by itself"):
            outcome_of(device_clicks(log, given=propensities, by="device"), curve=None)


def near(row: dict[str, Any]) -> dict[str, Any]:
    """The same, but for the last digits."""
    return {
        name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        for name, value in row.items()
    }


def small(clicked: Mapping[str, str], pages: Mapping[str, str]) -> tuple[pa.Table, pa.Table]:
    """Requests whose old list is abcd and whose new one is bcad; what was shown and clicked."""
    log = [
        {
            "request_id": request,
            "item_id": item,
            "position": position,
            "clicked": item in clicked[request],
        }
        for request, items in pages.items()
        for position, item in enumerate(items, 1)
    ]
    log = [
        row | {"user_id": row["request_id"], "team": "", "clicked": +row["clicked"]} for row in log
    ]
    rankings = [
        {"request_id": request, "system": system, "item_id": item, "rank": rank}
        for request in pages
        for system, items in ((BASELINE, "abcd"), (SYSTEM, "bcad"))
        for rank, item in enumerate(items, 1)
    ]
    return pa.Table.from_pylist(log), pa.Table.from_pylist(rankings)


def test_credits_by_hand() -> None:
    """The old list is abcd, the new one bcad; merged they are abcd or bacd, whole down to rank 4.

    Balanced, as mpkato's interleaving (which is not on PyPI) counts: a click on b, whose better
    rank is 1, is the new one's; one on c, 2 by the new one and 3 by the old one, too; clicks on b
    and c count 2 (bc) to 1 (ab).
    Debiased: a stands at 1 or 2 of a merge, 0.8; it is at 1 of the old list and at 3 of the new:
    1 / 0.8 and 0.4 / 0.8. b: 0.6 / 0.8 and 1 / 0.8. c is at 3 of both merges: 0.4 / 0.4 and
    0.6 / 0.4. The third list is no merge.
    """
    pages = {"r1": "abcd", "r2": "bacd", "r3": "cabd", "r4": "abcd"}
    clicked = {"r1": "bc", "r2": "a", "r3": "c", "r4": ""}
    log, rankings = small(clicked, pages)
    outcome = outcome_of(clicks_of(log, rankings, "balanced"))
    assert (outcome.wins, outcome.losses, outcome.ties) == (1, 1, 1)
    assert outcome.n_left_out == 1
    assert outcome.difference.value == pytest.approx((1 - 1) / 3)
    assert (outcome.n_told, outcome.n_began) == (3, 1)
    debiased = outcome_of(clicks_of(log, rankings, "debiased_balanced"))
    gained = 1 / 0.8 - 0.6 / 0.8 + 0.6 / 0.4 - 0.4 / 0.4, 0.4 / 0.8 - 1 / 0.8
    assert debiased.difference.value == pytest.approx(sum(gained) / 3, rel=1e-12)
    assert (debiased.wins, debiased.losses) == (1, 1)
    assert "1 requests are left out, since their lists are not a merge of these two" in repr(
        debiased
    )


def test_propensities_of_the_spec_are_taken() -> None:
    log, rankings = small({"r1": "b", "r2": "a"}, {"r1": "abcd", "r2": "bacd"})
    clicks = clicks_of(log, rankings, "debiased_balanced")
    propensity = {"method": "given", "given": dict(enumerate(THETA, 1))}
    spec_clicks = Clicks(**{**dict(clicks), "propensity": propensity})
    assert outcome_of(spec_clicks, curve=None).to_dicts() == outcome_of(clicks).to_dicts()


@by_turns(0.3)
def test_a_page_that_shows_half_of_both_lists_counts_what_it_shows_whole() -> None:
    """Of abcd and bcad a page of 2 shows ab: the first rank of both, whoever begins."""
    log, rankings = small({"r1": "a", "r2": "ba"}, {"r1": "ab", "r2": "ba"})
    outcome = outcome_of(clicks_of(log, rankings, "debiased_balanced"))
    assert outcome.difference.value == pytest.approx((-1 / 0.8 + 0) / 2, rel=1e-12)


@by_turns(0.3)
def test_an_unfair_coin_is_told() -> None:
    pages = {f"r{number}": "abcd" for number in range(20)}
    log, rankings = small(dict.fromkeys(pages, "b"), pages)
    outcome = outcome_of(clicks_of(log, rankings, "balanced"))
    assert "new began in 0 of 20 requests that say who began: the coin is not fair" in repr(outcome)


@pytest.mark.parametrize(
    ("method", "options", "error"),
    [
        ("team_draft", {"baseline": "odl"}, r"unknown baseline 'odl'; did you mean 'old'\?"),
        ("balanced", {"baseline": "nwe"}, r"did you mean 'new'\?"),
    ],
)
def test_a_wrong_baseline_is_told(method: str, options: dict[str, str], error: str) -> None:
    planted = experiment(
        1, 10, THETA, method="team_draft" if method == "team_draft" else "balanced"
    )
    with pytest.raises(SpecError, match=error):
        outcome_of(clicks_of(planted.log, planted.rankings, method, **options))


def test_what_is_no_pair_or_no_merge_is_told() -> None:
    log, rankings = small({"r1": ""}, {"r1": "dcba"})
    with pytest.raises(
        InputError, match="in none of 1 requests is the shown list a balanced merge of new and old"
    ):
        outcome_of(clicks_of(log, rankings, "balanced"))
    three = pa.concat_tables(
        [rankings, pa.Table.from_pylist([rankings.to_pylist()[0] | {"system": "third"}])]
    )
    with pytest.raises(InputError, match=r"compares two systems, but .* has 3: new, old, third"):
        outcome_of(clicks_of(log, three, "balanced"))
    with pytest.raises(ValidationError, match="balanced needs rankings"):
        Clicks(log={"data": log}, interleaving={"method": "balanced"})
    with pytest.raises(ValidationError, match=r"needs log\.columns\.team"):
        Clicks(log={"data": log}, interleaving={})


@pytest.mark.parametrize("writer", LATER)
def test_every_database_says_the_same(writer: str, servers: Any) -> None:
    with servers.open(writer) as engine:
        for method in METHODS:
            kind = "team_draft" if method == "team_draft" else "balanced"
            planted = experiment(4, 200, THETA, method=kind)
            tables = {"interleaved_log": planted.log, "source_lists": planted.rankings}
            for name, rows in tables.items():
                engine.load(name, rows)
            clicks = clicks_of(planted.log, planted.rankings, method)
            assert clicks.log is not None
            log_source = {"relation": "interleaved_log", "columns": clicks.log.columns.model_dump()}
            lists_source = {"rankings": {"relation": "source_lists", "columns": {"rank": "rank"}}}
            source = {} if method == "team_draft" else lists_source
            options = {"method": method, "baseline": BASELINE, **source}
            try:
                outcome = outcome_of(Clicks(log=log_source, interleaving=options), engine)
            finally:
                for name in tables:
                    engine.execute(f"drop table {name}")
            wanted = outcome_of(clicks).to_dicts()[0]
            assert outcome.to_dicts()[0] == near(wanted)


@pytest.mark.long
@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_debiased_balanced_interleaving_is_unbiased(gap: float) -> None:
    """Over 200 experiments errors are as large as their standard errors, and none to one side."""
    z, covered = [], 0
    for seed in range(200):
        planted = experiment(seed, 1_000, THETA, gap=gap)
        difference = outcome_of(
            clicks_of(planted.log, planted.rankings, "debiased_balanced")
        ).difference
        assert difference.ci_low is not None
        assert difference.ci_high is not None
        reach = difference.ci_high - difference.value
        z.append((difference.value - planted.truth) / reach)
        covered += difference.ci_low <= planted.truth <= difference.ci_high
    assert abs(fmean(z)) < 3 * 0.51 / sqrt(200)
    assert 0.91 <= covered / 200 <= 0.985
