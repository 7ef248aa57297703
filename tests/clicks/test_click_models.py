"""Click models: what they learn and how they predict, against plain Python and other tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from math import exp, log, log2
from typing import Any

import pyarrow as pa
import pytest
from clicks.position_bias import simulated_log
from marked import by_turns

from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.models import ModelFits, Prior, click_models, held_out
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.spec.click_log import Clicks

Session = tuple[str, str, list[tuple[str, bool]]]
"""The query, `learned` or `held`, and the items in order, with whether they were clicked."""

LEARNED = (
    *("q1 abcde 1.1..", "q1 abcde .....", "q1 bacde .1...", "q1 abced 11..1"),
    *("q2 abcde ..1..", "q2 cbade 1....", "q2 cbade 1..1.", "q2 cbaed ....."),
)
HELD = (
    *("q1 abcde 1....", "q1 cabde .1.1.", "q2 cbade .....", "q2 cfade 11...", "q3 abcde ..1.."),
)
HALF = Prior(2, 0.5)
"""That of PyClick and of clickmodels: a click and a skip."""


def sessions() -> list[Session]:
    """The small log: a query, items and clicks."""
    return [
        (query, part, [(item, click == "1") for item, click in zip(items, clicks, strict=True)])
        for part, lines in (("learned", LEARNED), ("held", HELD))
        for query, items, clicks in map(str.split, lines)
    ]


def clicks_of(log_sessions: Sequence[Session]) -> Clicks:
    """The same as a wide log; what is held out was shown on the second day."""
    rows = [
        {
            "request_id": f"r{number}",
            "query": query,
            "item_id": item,
            "position": position,
            "clicked": int(clicked),
            "time": datetime(2026, 1, 1) + timedelta(part == "held"),
        }
        for number, (query, part, items) in enumerate(log_sessions)
        for position, (item, clicked) in enumerate(items, 1)
    ]
    columns = {"clicked": "clicked", "query": "query", "time": "time"}
    return Clicks(log={"data": pa.Table.from_pylist(rows), "columns": columns})


def fits_of(clicks: Clicks, **options: Any) -> Any:
    with connect() as engine, cleaned_log(clicks, engine) as cleaned:
        return click_models(cleaned, **options)


class Reference:
    """The models in plain Python: chances by walking down a list, click by click."""

    def __init__(
        self, log_sessions: Sequence[Session], curve: PropensityCurve, prior: Prior
    ) -> None:
        self.curve, self.prior = curve, prior
        self.counts: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for query, part, items in log_sessions:
            if part == "learned":
                self._learn(query, items)

    def _learn(self, query: str, items: Sequence[tuple[str, bool]]) -> None:
        where = [position for position, (_, clicked) in enumerate(items, 1) if clicked]
        first, last = (where[0], where[-1]) if where else (len(items), len(items))
        for position, (item, clicked) in enumerate(items, 1):
            self._count("position_ctr", position, clicked, 1)
            self._count("ctr", (query, item), clicked, 1)
            self._count("pbm", (query, item), clicked, self.theta(position))
            if position <= last:
                self._count("attractive", (query, item), clicked, 1)
            if position <= first:
                self._count("cascade", (query, item), clicked, 1)
            if clicked:
                self._count("satisfied", (query, item), position == last, 1)

    def _count(self, name: str, of: Any, successes: float, trials: float) -> None:
        for key in ((name, of), name):
            self.counts[key][0] += successes
            self.counts[key][1] += trials

    def theta(self, position: int) -> float:
        """How often a position is looked at; below the last one as there."""
        return self.curve.at(position) or self.curve.rows[-1].propensity

    def rate(self, name: str, of: Any) -> float:
        """What was learned of an item (or a position), with its prior; no chance is above 1."""
        successes, trials = self.counts[name]
        mean = (successes + 0.5) / (trials + 1) if self.prior.mean is None else self.prior.mean
        successes, trials = self.counts.get((name, of), (0, 0))
        return min((successes + self.prior.weight * mean) / (trials + self.prior.weight), 1 - 1e-6)

    def chances(self, model: str, query: str, items: Any) -> Iterator[tuple[float, float]]:
        """Of a click at each position: whatever was clicked above, and after that."""
        reach = after = 1.0
        for position, (item, clicked) in enumerate(items, 1):
            of = (query, item)
            if model == "position_based":
                chance = self.rate("pbm", of) * self.theta(position)
                yield chance, chance
            elif model in ("ctr", "position_ctr"):
                chance = self.rate(model, position if model == "position_ctr" else of)
                yield chance, chance
            else:
                is_sdbn = model == "sdbn"
                a = self.rate("attractive" if is_sdbn else "cascade", of)
                s = self.rate("satisfied", of) if is_sdbn else 1.0
                yield a * reach, a * after
                reach *= 1 - a * s
                after = 1 - s if clicked else after * (1 - a) / (1 - a * after)

    def fit(self, model: str, log_sessions: Sequence[Session]) -> tuple[float, list[float]]:
        """Log-likelihood, and perplexity by position."""
        likelihood, bits = [], defaultdict(list)
        for query, part, items in log_sessions:
            if part != "held":
                continue
            chances = self.chances(model, query, items)
            for position, (chance, after) in enumerate(chances, 1):
                clicked = items[position - 1][1]
                happened = [max(p if clicked else 1 - p, 1e-6) for p in (chance, after)]
                bits[position].append(-log2(happened[0]))
                likelihood.append(log(happened[1]))
        perplexity = [2 ** (sum(bits[k]) / len(bits[k])) for k in sorted(bits)]
        return sum(likelihood) / len(likelihood), perplexity


CURVE = PropensityCurve.given({1: 1.0, 2: 0.6, 3: 0.45, 4: 0.3})


@pytest.mark.parametrize("prior", [HALF, Prior()])
def test_plain_python_says_the_same(prior: Prior) -> None:
    fits = fits_of(clicks_of(sessions()), curve=CURVE, prior=prior)
    check(fits, sessions(), CURVE, prior)


def check(
    fits: ModelFits, log_sessions: list[Session], curve: PropensityCurve, prior: Prior
) -> None:
    reference = Reference(log_sessions, curve, prior)
    assert {fit.model for fit in fits.fits} == {
        *("position_based", "sdbn", "cascade", "ctr", "position_ctr")
    }
    for fit in fits.fits:
        likelihood, perplexity = reference.fit(fit.model, log_sessions)
        assert fit.log_likelihood == pytest.approx(likelihood, rel=1e-9), fit.model
        assert [k.perplexity for k in fit.by_position] == pytest.approx(perplexity, rel=1e-9)
        assert fit.perplexity == pytest.approx(sum(perplexity) / len(perplexity), rel=1e-9)
    assert list(fits.fits) == sorted(fits.fits, key=lambda fit: fit.perplexity)


@by_turns(3)
@pytest.mark.parametrize("cascade", [0.0, 0.5])
def test_plain_python_says_the_same_of_a_larger_log(cascade: float) -> None:
    theta = [1 / position for position in range(1, 11)]
    simulated = simulated_log(5, 20_000, theta, cascade=cascade)
    roles = ("request", "query", "item", "position", "clicked", "time")
    clicks = Clicks(log={"data": simulated.log, "columns": {role: role for role in roles}})
    lists: dict[int, Session] = {}
    for row in simulated.log.to_pylist():
        part = "held" if row["time"] >= datetime(2026, 1, 13) else "learned"
        of = lists.setdefault(row["request"], (row["query"], part, []))
        of[2].append((row["item"], row["clicked"] == 1))
    curve = PropensityCurve.given(simulated.propensities)
    check(fits_of(clicks, curve=curve), list(lists.values()), curve, Prior())


def test_clickmodels_says_the_same_of_sdbn() -> None:
    """What its SimplifiedDbnModel of release 1.0.2 gave for this log, by Python 2.7.18.

    Its perplexity is that after the clicks above.
    """
    sdbn = fits_of(clicks_of(sessions()), prior=HALF)["sdbn"]
    assert sdbn.log_likelihood == pytest.approx(-0.4558469316484682, rel=1e-9)
    assert [exp(-position.log_likelihood) for position in sdbn.by_position] == pytest.approx(
        [
            *(1.8639596365956757, 1.8792400393825315, 1.341230759999709),
            *(1.759826951910886, 1.1815899941931536),
        ],
        rel=1e-9,
    )


def test_a_list_by_hand() -> None:
    """PyClick's formulas and prior: (clicks + 1) / (impressions + 2), which is not on PyPI.

    Learned from `ab 1.` and `ab 11`, held against `ab .1`:
    SDBN a: 3/4, satisfied 2/4; b: 2/3 (one of one down to the last click), satisfied 2/3.
    A click at 1: 3/4. At 2: 2/3 x (1 - 3/4 x 1/2) = 5/12; after none at 1, 2/3.
    Cascade a: 3/4; b was never looked at, 1/2: 1/4 x 1/2 = 1/8; after none at 1, 1/2.
    """
    log_sessions = [
        ("q", "learned", [("a", True), ("b", False)]),
        ("q", "learned", [("a", True), ("b", True)]),
        ("q", "held", [("a", False), ("b", True)]),
    ]
    fits = fits_of(clicks_of(log_sessions), prior=HALF)
    sdbn, cascade = fits["sdbn"], fits["cascade"]
    assert [position.perplexity for position in sdbn.by_position] == pytest.approx(
        [4, 12 / 5], rel=1e-9
    )
    assert sdbn.log_likelihood == pytest.approx((log(1 / 4) + log(2 / 3)) / 2, rel=1e-9)
    assert [position.perplexity for position in cascade.by_position] == pytest.approx(
        [4, 8], rel=1e-9
    )
    assert cascade.log_likelihood == pytest.approx((log(1 / 4) + log(1 / 2)) / 2, rel=1e-9)
    assert [position.perplexity for position in fits["position_ctr"].by_position] == [4, 2]
    assert "position_based is not among them" in repr(fits)


@by_turns(1)
@pytest.mark.parametrize(("cascade", "best"), [(0.0, "position_based"), (1.0, "sdbn")])
def test_the_model_that_made_the_log_fits_best(cascade: float, best: str) -> None:
    theta = [1 / position for position in range(1, 9)]
    simulated = simulated_log(2, 40_000, theta, cascade=cascade, queries=50)
    roles = ("request", "query", "item", "position", "clicked", "time")
    clicks = Clicks(log={"data": simulated.log, "columns": {role: role for role in roles}})
    fits = fits_of(clicks, curve=PropensityCurve.given(simulated.propensities))
    assert fits.best.model == best
    assert f"best: {best}: " in repr(fits)


def test_propensities_of_the_spec_are_taken() -> None:
    clicks = clicks_of(sessions())
    spec_clicks = Clicks(
        **{
            **dict(clicks),
            "propensity": {"method": "given", "given": {1: 1, 2: 0.6, 3: 0.45, 4: 0.3}},
        }
    )
    for fit, expected in zip(
        fits_of(spec_clicks).fits, fits_of(clicks, curve=CURVE).fits, strict=True
    ):
        assert fit.model == expected.model
        assert fit.perplexity == pytest.approx(expected.perplexity, rel=1e-12)
    assert "cannot" in fits_of(clicks).notes[0]


def on_devices(rows: pa.Table) -> pa.Table:
    """The same, each request with a device, and some without one."""
    devices = ("phone", "desktop", None)
    requests = rows["request"].to_pylist()
    return rows.append_column("device", pa.array([devices[request % 3] for request in requests]))


@by_turns(2)
@pytest.mark.parametrize("method", ["none", "harvest", "em", "given"])
def test_a_device_is_what_its_rows_alone_say(method: str) -> None:
    theta = [1, 0.5, 0.3]
    log = on_devices(simulated_log(6, 9_000, theta, queries=4, swaps=3).log)
    curve_options = {"given": {1: 1, 2: 0.4, 3: 0.3}} if method == "given" else {}
    roles = ("request", "query", "item", "position", "clicked", "time")
    columns = {**{role: role for role in roles}, "segments": ["device"]}

    def device_clicks(rows: pa.Table, **options: Any) -> Clicks:
        propensity = {"method": method, "positions": 3, "min_clicks": 1, **curve_options, **options}
        return Clicks(log={"data": rows, "columns": columns}, propensity=propensity)

    fits = fits_of(device_clicks(log), by="device")
    assert [*fits.groups] == ["", "desktop", "phone"]
    for device, group in fits.groups.items():
        mask = pa.compute.equal(pa.compute.fill_null(log["device"], ""), device)
        alone = fits_of(device_clicks(log.filter(mask)))
        assert [fit["model"] for fit in alone.to_dicts()] == [fit.model for fit in group.fits]
        for fit, other in zip(group.fits, alone.fits, strict=True):
            assert fit.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-9)
            assert fit.perplexity == pytest.approx(other.perplexity, rel=1e-9)
    assert fits["phone"].fits[0].by_position
    assert {row["group"] for row in fits.to_dicts()} == {"", "desktop", "phone"}
    assert "device: (none)" in repr(fits)
    if method == "harvest":
        by_device = device_clicks(log, by="device")
        again = fits_of(by_device, by="device")
        assert again["phone"].best.perplexity == pytest.approx(
            fits["phone"].best.perplexity, rel=1e-9
        )
        assert "ask for each value by itself: by device" in fits_of(by_device).notes[0]


def test_a_device_that_cannot_be_judged_is_a_note() -> None:
    rows = [
        {"request": n, "item": item, "position": k, "clicked": int(n < 60), "device": device}
        for n, device in enumerate(["phone"] * 60 + ["tv"] * 20)
        for k, item in enumerate("ab", 1)
    ]
    columns = {"request": "request", "item": "item", "clicked": "clicked", "segments": ["device"]}
    clicks = Clicks(log={"data": pa.Table.from_pylist(rows), "columns": columns})
    fits = fits_of(clicks, by="device")
    assert [*fits.groups] == ["phone"]
    assert "tv: no click is left to learn from" in fits.notes[0]
    assert "tv: no click" in repr(fits)
    with pytest.raises(SpecError, match=r"unknown segment 'devise'; did you mean 'device'\?"):
        fits_of(clicks, by="devise")


def test_evaluation_says_what_is_held_out() -> None:
    clicks = clicks_of(sessions())
    days = {"evaluation": {"start": "2026-01-02"}}
    rows = fits_of(Clicks(**{**dict(clicks), **days})).to_dicts()
    assert rows == [pytest.approx(row, rel=1e-12) for row in fits_of(clicks).to_dicts()]


def test_long_lists_have_chances_too() -> None:
    """After 200 items that everybody clicks a chance is tiny, and no engine's exp gives up."""
    items = [(f"i{number}", True) for number in range(200)]
    log_sessions = [("q", part, items) for part in ("learned", "held")]
    cascade = fits_of(clicks_of(log_sessions), prior=Prior(1e-9))["cascade"]
    assert cascade.by_position[-1].perplexity == pytest.approx(1e6, rel=1e-9)


def test_requests_are_held_out_by_day_by_the_spec_or_by_their_ids() -> None:
    def of(clicks: Clicks) -> str:
        with connect() as engine, cleaned_log(clicks, engine) as cleaned:
            return held_out(cleaned).words

    log_of_days = clicks_of(sessions())
    assert of(log_of_days) == "requests from 2026-01-02, 1 of 2 days"
    days = {
        "labels": {"pool": "query_item", "window": {"end": "2026-01-02"}},
        "evaluation": {"start": "2026-01-02", "end": "2026-01-03"},
    }
    assert log_of_days.log is not None
    source = log_of_days.log.model_copy()
    assert of(Clicks(log=source, **days)) == "requests from 2026-01-02 and before 2026-01-03"
    untimed = source.columns.model_copy(update={"time": None})
    by_id = Clicks(log=source.model_copy(update={"columns": untimed}))
    assert of(by_id) == "3 in 16 requests, by their ids"


def test_a_log_that_cannot_tell_says_why() -> None:
    unclicked = [
        (query, part, [(item, False) for item, _ in clicks]) for query, part, clicks in sessions()
    ]
    with pytest.raises(InputError, match="no click is left to learn from"):
        fits_of(clicks_of(unclicked))
