"""What was not shown against what was, or one against another, as plain Python and a hand say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from clicks.counterfactual_logs import (
    COLUMNS,
    ESTIMATE_METRICS,
    NO_REQUEST,
    SCORED,
    THETA,
    bandit_log,
    new_lists,
    ordered,
    small_log,
)
from clicks.counterfactual_reference import (
    Difference,
    Options,
    Unit,
    difference,
    impressions_of,
    requests_of,
)
from clicks.unshown import covered_differences
from command import sqlmetrics
from job_days import LATER
from marked import by_night, by_turns

import sqlmetrics as sm
from sqlmetrics.catalog.counterfactual import ESTIMATORS, METRICS
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.stats import student

Row = dict[str, Any]


def log(seed: int) -> list[Row]:
    """A log of four days with a device."""
    return [
        row
        | {
            "at": datetime(2026, 1, 1 + number % 4, 12, tzinfo=UTC).replace(tzinfo=None),
            "device": "phone" if number % 3 else None,
        }
        for row in small_log(seed)
        for number in [int(row["request"][1:])]
    ]


def spec(seed: int, match: str = "query", **overrides: Any) -> sm.Spec:
    rows = log(seed)
    names = sorted({row[match] for row in rows})
    lists = pa.Table.from_pylist(new_lists(seed, names))
    counterfactual = {
        "rankings": {"data": lists, "columns": SCORED | {"system": "system"}},
        "match": match,
        "metrics": ESTIMATE_METRICS,
        "clip": 4,
        "prior": 2.5,
    }
    columns = COLUMNS | {"time": "at", "segments": ["device"]}
    clicks = {
        "log": {"data": pa.Table.from_pylist(rows), "columns": columns},
        "propensity": {"method": "given", "given": THETA},
        "counterfactual": counterfactual | overrides,
    }
    return sm.Spec(name="log", clicks=clicks, metrics=["ctr", "mrr"])


def units(
    seed: int, match: str, system: str, options: Options, rows: Sequence[Row]
) -> dict[str, Unit]:
    """What each request of some rows adds to an estimate of a system, or of what was shown."""
    if system == "shown":
        shown_lists: dict[str, list[str]] = {}
        for row in sorted(rows, key=lambda row: row["position"]):
            shown_lists.setdefault(row["request"], []).append(row["item"])
        return requests_of(rows, shown_lists, "request", THETA, options)
    names = sorted({row[match] for row in log(seed)})
    return requests_of(rows, ordered(new_lists(seed, names), system), match, THETA, options)


EVERY = [
    (text, Options(estimator, 4, 2.5, name, int(k or 0)))
    for text in ESTIMATE_METRICS
    for name, _, k in [text.partition("@")]
    for estimator in METRICS[name].estimators
]


def name_of(options: Options) -> str:
    return f"{options.metric}(estimator={options.estimator})" + (
        f"@{options.k}" if options.k else ""
    )


def check(row: Mapping[str, Any], wanted: Difference) -> None:
    """A row has the reference's numbers."""
    apart = wanted.value - wanted.baseline
    reach = student.critical(row["ci_level"], wanted.df) * wanted.standard_error
    actual = [row[name] for name in ("value", "baseline_value", "difference", "ci_low", "ci_high")]
    expected = [wanted.value, wanted.baseline, apart, apart - reach, apart + reach]
    assert actual == pytest.approx(expected, rel=1e-9, abs=1e-12), row["metric"]
    p = student.tail(abs(apart) / wanted.standard_error, wanted.df)
    assert row["p_value"] == pytest.approx(p, rel=1e-7)


def shared_units(
    system_units: Mapping[str, Unit], baseline_units: Mapping[str, Unit]
) -> tuple[list[Unit], list[Unit]]:
    """The requests that both have."""
    shared = system_units.keys() & baseline_units.keys()
    return [system_units[name] for name in shared], [baseline_units[name] for name in shared]


def compare_all(seed: int, match: str, engine: Any = None) -> None:
    """Paired against what was shown, and one against another, paired or not."""
    for baseline, systems, paired in (
        (None, ("one", "two"), None),
        ("two", ("one",), True),
        ("two", ("one",), False),
    ):
        comparison = sm.compare(
            spec(seed, match), baseline=baseline, paired=paired, connection=engine
        )
        assert [row["system"] for row in comparison] == [
            system for system in systems for _ in EVERY
        ]
        rows = {(row["system"], row["metric"]): row for row in comparison}
        for system in systems:
            for _, options in EVERY:
                sides = [
                    units(seed, match, at, options, log(seed))
                    for at in (system, comparison.baseline)
                ]
                compared_units = (
                    shared_units(*sides) if paired is not False else tuple(map(dict.values, sides))
                )
                row = rows[system, name_of(options)]
                check(row, difference(*compared_units))
                assert (row["n"], row["n_baseline"]) == tuple(map(len, compared_units))
                if paired is not False:
                    n_unshared = [len(side) - len(compared_units[0]) for side in sides]
                    assert [row["n_system_only"], row["n_baseline_only"]] == n_unshared


@by_turns(1)
@pytest.mark.parametrize(("seed", "match"), [(1, "query"), (2, "request")])
def test_differences_are_as_the_formulas_say(seed: int, match: str) -> None:
    compare_all(seed, match)


@pytest.mark.parametrize("writer", LATER)
def test_every_database_tells_the_same(writer: str, servers: Any) -> None:
    with servers.open(writer) as engine:
        compare_all(3, "query", engine)
        compare_policy(engine)


@by_turns(0.7)
def test_segments_and_days_are_compared() -> None:
    """What dr knows of items, it knows of all segments; days are estimated each by itself."""
    metrics = ("dcg(estimator=dr)@3", "recall(estimator=ips)@2")
    all_options = [options for _, options in EVERY if name_of(options) in metrics]
    comparison = sm.compare(spec(1), metrics=metrics, systems=["shown", "one"], by="device")
    device = {row["request"]: row["device"] or "(unknown)" for row in log(1)}
    for row in comparison:
        (options,) = (candidate for candidate in all_options if name_of(candidate) == row["metric"])
        sides = []
        for system in ("one", "shown"):
            system_units = units(1, "query", system, options, log(1))
            of = row["segment_value"]
            sides.append({r: u for r, u in system_units.items() if of in ("all", device[r])})
        check(row, difference(*shared_units(*sides)))
    assert {row["segment_value"] for row in comparison} == {"all", "(unknown)", "phone"}
    comparison = sm.compare(
        spec(1), metrics=metrics, systems=["one"], dates="2026-01-01..2026-01-02,2026-01-04"
    )
    assert (comparison.test, comparison.counted) == ("Welch t of ratios", ("request", "requests"))
    for row in comparison:
        (options,) = (candidate for candidate in all_options if name_of(candidate) == row["metric"])
        check(row, difference(*(list(_of_days(options, *days)) for days in ((4,), (1, 2)))))


def _of_days(options: Options, *days: int) -> Iterable[Unit]:
    for day in days:
        rows = [row for row in log(1) if row["at"].day == day]
        yield from units(1, "query", "one", options, rows).values()


@by_turns(0.7)
def test_a_policy_stands_beside_the_one_that_chose() -> None:
    compare_policy()


def compare_policy(engine: Any = None) -> None:
    rows = bandit_log(1)
    clicks = {
        "log": {"data": pa.Table.from_pylist(rows), "columns": COLUMNS | NO_REQUEST},
        "counterfactual": {"policy": "uniform", "clip": 2, "prior": 3},
    }
    comparison = sm.compare(sm.Spec(name="log", clicks=clicks, metrics=["ctr"]), connection=engine)
    assert comparison.counted == ("impression", "impressions")
    for row, name in zip(comparison, ESTIMATORS, strict=True):
        options = Options(name, 2, 3)
        policy_units = impressions_of(rows, lambda item, position: 1 / 6, "abcdef", options)
        logged_units = [
            Unit(unit.cluster, row["clicked"], 1.0, [])
            for unit, row in zip(policy_units, rows, strict=True)
        ]
        check(row, difference(policy_units, logged_units))
        assert row["n"] == row["n_baseline"] == len(rows)


def two_requests() -> sm.Spec:
    """A is clicked where it stands at 2, looked at half as often; the new list has it first."""
    rows = [
        {"request": r, "query": "q", "item": item, "position": position, "clicked": c, "user": None}
        for r, c_of_a in (("r1", 1), ("r2", 0))
        for position, (item, c) in enumerate((("b", 0), ("a", c_of_a)), 1)
    ]
    new = pa.table({"list": ["q", "q"], "item": ["a", "b"], "score": [2.0, 1.0]})
    counterfactual = {"rankings": {"data": new, "columns": SCORED}, "match": "query"}
    counterfactual |= {"metrics": ["sum_reciprocal_rank"], "estimators": ["ips", "snips"]}
    clicks = {
        "log": {"data": pa.Table.from_pylist(rows), "columns": COLUMNS},
        "propensity": {"method": "given", "given": {1: 1, 2: 0.5}},
        "counterfactual": counterfactual,
    }
    return sm.Spec(name="log", clicks=clicks, metrics=["ctr"])


def test_by_hand() -> None:
    """The new list gets 2 and 0 of the requests, what was shown 1 and 0: differences 1 and 0."""
    comparison = sm.compare(two_requests(), margin=0.7)
    ips, snips = comparison
    assert (ips["value"], ips["baseline_value"], ips["difference"]) == (1.0, 0.5, 0.5)
    # sd of 1 and 0 is sqrt(1/2), over sqrt(2) requests; Student's t of one degree of freedom
    assert ips["ci_high"] - ips["difference"] == pytest.approx(0.5 * 12.7062047, rel=1e-8)
    assert ips["p_value"] == pytest.approx(0.5)
    assert ips["sentence"].endswith("not enough data; 2 requests would detect 7")
    # all weight is on a: 2 of 2 by the new list, 1 of 2 by what was shown, in every request
    assert (snips["value"], snips["baseline_value"]) == (1.0, 0.5)
    assert (snips["ci_low"], snips["ci_high"], snips["verdict"]) == (0.5, 0.5, "unclear")
    text = repr(comparison)
    for phrase in (
        "2            2",
        "requests  of baseline",
        "the baseline is shown, what the log showed",
        "p: the p-value of paired t of ratios, adjusted by Holm",
        "the estimate rests on 1 click only",
    ):
        assert phrase in text, phrase
    assert "create temp table sqlmetrics_estimated_requests" in comparison.executed_sql.replace(
        "orary", ""
    )
    assert [row["wins"] for row in comparison] == [None, None]


@by_turns(1.5)
def test_the_command_has_its_formats(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("list,item,score\nq,a,2\nq,b,1\n")
    lines = ["r1,q,b,1,0", "r1,q,a,2,1", "r2,q,b,1,0", "r2,q,a,2,0"]
    head = "request,query,item,position,clicked"
    (tmp_path / "log.csv").write_text("\n".join([head, *lines]))
    clicks = {
        "log": {"file": "log.csv", "columns": {name: name for name in head.split(",")}},
        "propensity": {"method": "given", "given": {1: 1, 2: 0.5}},
        "counterfactual": {"rankings": {"file": "new.csv", "columns": SCORED}, "match": "query"},
    }
    (tmp_path / "old.yml").write_text(json.dumps({"clicks": clicks, "metrics": ["ctr"]}))
    metric = "sum_reciprocal_rank(estimator=ips)"
    for form in ("table", "json", "csv", "markdown", "html", "latex", "parquet"):
        sqlmetrics(
            *("compare", "old.yml", "-m", metric, "-o", form, "--out", f"out.{form}"),
            folder=tmp_path,
        )
        output = (tmp_path / f"out.{form}").read_bytes()
        assert metric.replace("_", r"\_" if form == "latex" else "_").encode() in output
        assert b"shown" in output
    completed = sqlmetrics("compare", "old.yml", "--sql", folder=tmp_path)
    assert "sqlmetrics_estimated_requests" in completed.stdout


@by_turns(1)
def test_what_does_not_go_together_is_refused() -> None:
    counterfactual_spec = spec(1)
    metric = "dcg(estimator=ips)@3"
    for options, message in {
        (("test", "bootstrap"),): "so only the test t compares them; leave out test bootstrap",
        (("cluster", "user"),): "leave out a cluster",
        (("baseline_values", "x.csv"),): "leave out baseline_values",
        (("dates", "2026-01-01,2026-01-02"), ("paired", True)): "a request belongs to one day",
        (("dates", "2026-01-01,2026-01-02"),): "dates compare one system with itself",
        (("metrics", (metric, "mrr")),): "mrr needs lists that were shown",
        (("metrics", ("ctr(estimator=ips)",)),): "cannot be estimated for rankings",
        (("metrics", ("dcg(estimator=dm)@3",)),): "unknown estimator 'dm'",
        (("systems", ("shown",)),): "there is only one system, shown, and compare needs two",
        (("by", "locale"),): "unknown segment 'locale'; known: device",
    }.items():
        with pytest.raises(SpecError, match=message):
            sm.compare(counterfactual_spec, **dict(options))
    with pytest.raises(InputError, match="this system has no list: unknown system 'three'"):
        sm.compare(counterfactual_spec, baseline="three")
    with pytest.raises(SpecError, match="give a spec with clicks"):
        sm.compare({"a": "a.csv", "b": "b.csv"}, "labels.csv", metric)
    with pytest.raises(SpecError, match="write preset in the spec, or leave it out here"):
        sm.compare(counterfactual_spec, preset="house")
    names = new_lists(1, sorted({row["query"] for row in log(1)}))
    taken = pa.Table.from_pylist([row | {"system": "shown"} for row in names])
    rankings = {"data": taken, "columns": SCORED | {"system": "system"}}
    with pytest.raises(InputError, match="a system is called shown"):
        sm.compare(spec(1, rankings=rankings))


@by_turns(2)
def test_intervals_cover_the_planted_difference_of_some_seeds() -> None:
    for name, coverage in covered_differences(range(1, 31), 6_000).items():
        assert coverage.share >= 0.85, name
        assert abs(coverage.off) < 0.2, name


@by_night
def test_intervals_cover_the_planted_difference_of_200_seeds() -> None:
    for name, coverage in covered_differences(range(1, 201), 30_000).items():
        assert 0.93 <= coverage.share <= 0.97, name
        assert abs(coverage.off) < 0.02, name
