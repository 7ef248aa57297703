"""`check`: thresholds on the numbers of a fact table, told as a table, JUnit XML and for GitHub."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from statistics import stdev
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from click.testing import CliRunner
from job_days import DUCKDB_USUALLY, FIRST, days, engine, job, log, numbers_of
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.cli.build import tell
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.checks.verdict import Verdict, verdicts
from sqlmetrics.jobs.run import write
from sqlmetrics.stats import estimate
from sqlmetrics.stats.student import critical, tail

pytestmark = by_turns(0.45)

__all__ = ["engine"]  # the fixture
LAST = FIRST + timedelta(5)


@pytest.fixture(scope="module")
def shop() -> Iterator[Any]:
    """A database with all days; tests look at it, and change nothing that stays."""
    with connect() as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
        write(job(), opened)
        yield opened


def looked(opened: Any, *checks: dict[str, Any], **options: Any) -> list[Verdict]:
    return verdicts(job(checks=checks), opened, **options)


def value(metric: str, system: str = "new", day: int = 5, segment: str = "all") -> float:
    """A number as an evaluation of that day has it."""
    k = 3 if metric == "ndcg" else 0
    rows = [
        row["value"]
        for row in numbers_of(1)[0][str(FIRST + timedelta(day))]
        if (row["metric"], row["k"]) == (metric, k)
        and (row["system"], row["segment_value"]) == (system, segment)
    ]
    return float(rows[0])


def test_the_least_and_the_greatest(shop: Any) -> None:
    new, old = value("ndcg"), value("ndcg", "old's")
    low, high = sorted((new, old))
    middle = (low + high) / 2
    assert low < high
    results = looked(shop, {"metric": "ndcg@3", "min": middle})
    assert {result.system: result.holds for result in results} == {
        "new": new == high,
        "old's": old == high,
    }
    assert {result.system: result.value for result in results} == pytest.approx(
        {"new": new, "old's": old}
    )
    results = looked(shop, {"metric": "ndcg@3", "max": middle, "system": "new"})
    assert [result.holds for result in results] == [new == low]
    stored = results[0].value  # as the table has it: another sum may differ in the last digit
    exact = looked(shop, {"metric": "ndcg@3", "min": stored, "max": stored, "system": "new"})
    assert all(result.holds for result in exact), "a limit may be met exactly"


@by_turns(1.1)
def test_drops_against_the_day_before(shop: Any) -> None:
    for day in range(1, 6):
        drop = value("mrr", day=day - 1) - value("mrr", day=day)
        before = value("mrr", day=day - 1)
        if drop <= 0:
            checks = [{"max_drop": 0.0}, {"max_drop_pct": 0.0}]
            wanted = [True, True]
        else:
            checks = [{"max_drop": drop * 0.99}, {"max_drop": drop * 1.01}]
            checks += [{"max_drop_pct": 99 * drop / before}, {"max_drop_pct": 101 * drop / before}]
            wanted = [False, True, False, True]
        complete = [{"metric": "mrr", "system": "new", **limits} for limits in checks]
        results = looked(shop, *complete, days=[days(day, day + 1)])
        assert [result.holds for result in results] == wanted
        assert [result.compared for result in results] == [pytest.approx(before)] * len(results)
    (first,) = looked(shop, {"metric": "mrr", "max_drop": 0, "system": "new"}, days=[days(0, 1)])
    assert (first.holds, first.note) == (True, "the first day has no day before it")


def test_against_a_baseline(shop: Any) -> None:
    gap = value("mrr", "old's") - value("mrr", "new")
    limits = {"max_drop": abs(gap) / 2} if gap > 0 else {"max_rise": abs(gap) / 2}
    (result,) = looked(shop, {"metric": "mrr", "against": "old's", **limits})
    assert (result.system, result.holds) == ("new", False)
    assert result.compared == pytest.approx(value("mrr", "old's"))
    (absent,) = looked(shop, {"metric": "mrr", "against": "olds", "system": "new", "max_drop": 1})
    assert (absent.holds, absent.note) == (
        False,
        'olds has no row on this day; did you mean "old\'s"?',
    )


def test_a_confidence_interval_must_say_so_too(shop: Any) -> None:
    """The interval by hand: the mean, and Student's t times its standard error."""
    rows = numbers_of(1)[1][str(FIRST + timedelta(4))]
    scores = [row["mrr"] for row in rows if row["system"] == "new" and row["mrr"] is not None]
    half = critical(0.95, len(scores) - 1) * stdev(scores) / math.sqrt(len(scores))
    mean = sum(scores) / len(scores)
    assert half > 0
    rule = {"metric": "mrr", "system": "new", "confidence": 0.95}
    near, far = ({**rule, "min": mean + half * share} for share in (0.99, 1.01))
    inside, outside = looked(shop, near, far, days=[days(4, 5)])
    assert (inside.holds, outside.holds) == (True, False)
    assert outside.note == f"± {half:.4f}"


def values_of_days() -> dict[str, list[list[float]]]:
    """System -> values of 20 queries on 6 days; the new one is better, and bad on the last day."""
    chance = random.Random(2)
    old = [[chance.random() for _ in range(20)] for _ in range(6)]
    new = [[value + 9.5 + 0.1 * chance.random() for value in day] for day in old]
    new[5] = [1.4 + value for value in new[5]]
    return {"new": new, "old": old}


@pytest.fixture(scope="module")
def beside() -> Iterator[Any]:
    """A database with them, each as the grade of the only item, and with sums of pairs."""
    rows = [
        {"ds": FIRST + timedelta(day), "system": name, "query_id": f"q{q}", "item_id": name}
        | {"score": 1.0, "grade": value}
        for name, of_days in values_of_days().items()
        for day, values in enumerate(of_days)
        for q, value in enumerate(values)
    ]
    with connect() as opened:
        opened.load("runs", pa.Table.from_pylist(rows))
        write(graded(), opened)
        yield opened


def graded(*checks: dict[str, Any]) -> sm.Spec:
    columns = {"score": "score", "system": "system", "date": "ds", "grade": "grade"}
    rankings = {"relation": "runs", "columns": columns}
    same = {"metrics": ["cg@1"], "by": [], "baseline": "old", "checks": checks, "labels": None}
    return job(rankings=rankings, **same)


def ends(values: list[float], multiple: float) -> tuple[float, float]:
    """The mean, and how far the interval goes."""
    return sum(values) / len(values), multiple * stdev(values) / math.sqrt(len(values))


def always(n: int) -> float:
    """The multiple of the standard error, in the form in which the paper has it."""
    rate = (-2 * math.log(0.05) + math.log(1 - 2 * math.log(0.05))) / 5000
    width = 2 * (n * rate + 1) / (n * n * rate) * math.log(math.sqrt(n * rate + 1) / 0.05)
    return math.sqrt(width) * math.sqrt(n)


def so_far_of(values: list[float], days: int) -> tuple[float, float]:
    """The mean of days together, whose queries may be the same, and how far it may be off."""
    mean, n = sum(values) / len(values), len(values) // days
    squares = sum((value - mean) ** 2 for value in values)
    error = math.sqrt(squares * n / (n - 1)) / len(values) * math.sqrt(days)
    return mean, always(n) * error


def test_intervals_of_pairs_and_of_days_so_far_by_hand(beside: Any) -> None:
    new, old = values_of_days().values()
    flat, flat_old, late = ([*chain(*days)] for days in (new, old, new[3:]))
    today = [a - b for a, b in zip(new[5], old[5], strict=True)]
    so_far = [a - b for a, b in zip(flat, flat_old, strict=True)]
    t = critical(0.95, 19)
    spent = critical(1 - 0.05 * 6 / (36 * math.pi**2), 19)
    change = ends(new[5], spent)[0] - ends(new[4], spent)[0]
    apart = math.hypot(ends(new[5], spent)[1], ends(new[4], spent)[1])
    of_old = {"against": "old", "confidence": "always"}
    since = f", 6 days since {FIRST}"
    for comparison, (mean, width), note in (
        ({"against": "old", "confidence": 0.95}, ends(today, t), ""),
        (of_old, so_far_of(so_far, 6), since),
        ({"confidence": "always"}, (change, apart), ", look 6"),
    ):
        rule = {"metric": "cg@1", "system": "new"} | comparison
        assert mean > width
        limits = [rule | {"max_rise": mean - width + hair} for hair in (-1e-7, 1e-7)]
        failed, passed = verdicts(graded(*limits), beside)
        assert (failed.holds, passed.holds) == (False, True), rule
        assert passed.note == f"± {width:.4f}{note}"
    for first, values, n_days in ((None, flat, 6), (str(FIRST + timedelta(3)), late, 3)):
        mean, width = so_far_of(values, n_days)
        rule = {"metric": "cg@1", "system": "new", "confidence": "always", "since": first}
        limits = [rule | {"min": mean + width + hair} for hair in (-1e-7, 1e-7)]
        passed, failed = verdicts(graded(*limits), beside)
        assert (passed.holds, failed.holds, passed.value) == (True, False, pytest.approx(mean))


def test_days_of_an_older_version_or_of_another_baseline_are_left_out(beside: Any) -> None:
    """Their sums would stand beside others: the interval is of the days that have them."""
    new, old = values_of_days().values()
    changed = f"update metrics set {{}} where metric_date < '{FIRST + timedelta(2)}'"
    late = [a - b for a, b in zip(chain(*new[2:]), chain(*old[2:]), strict=True)]
    mean, width = so_far_of(late, 4)
    rule = {"metric": "cg@1", "system": "new", "against": "old", "confidence": "always"}
    limits = [rule | {"max_rise": mean - width + hair} for hair in (-1e-7, 1e-7)]
    plain = rule | {"against": "previous", "min": 0.0}
    for assignment in ("baseline = 'other'", "sum_x2 = null, sum_d2 = null, sum_d = null"):
        with beside.transaction():
            beside.execute(changed.format(assignment))
        if assignment.startswith("baseline"):
            failed, passed = verdicts(graded(*limits), beside)
            assert (failed.holds, passed.holds) == (False, True)
        else:
            (value,) = verdicts(graded(plain), beside)
            assert value.value == pytest.approx(ends([*chain(*new[2:])], 1)[0])
            ((low,),) = beside.rows("select max(ci_low) as low from metrics_rollup")
            assert low is None
    write(graded(), beside, full_refresh=True)


def test_a_look_every_day_is_safe() -> None:
    """2,000 years of 500 queries a day on which nothing differs: at most 5 % see something."""
    chance, years, days_, n = np.random.default_rng(1), 2000, 365, 500
    counts = chance.multinomial(n, [0.2, 0.6, 0.2], size=(years, days_))  # worse, the same, better
    sums, squares = counts[..., 2] - counts[..., 0], counts[..., 2] + counts[..., 0]
    total, total2, by_now = sums.cumsum(1), squares.cumsum(1), n * np.arange(1, days_ + 1)
    error = np.sqrt((total2 - total**2 / by_now) / (by_now - 1) / by_now)
    wide = np.array([estimate.always_valid_multiple(0.95, int(n_values)) for n_values in by_now])
    alarms = (np.abs(total / by_now) > wide * error).any(1).mean()
    assert 0.005 < alarms <= 0.05
    daily = np.sqrt((squares - sums**2 / n) / (n - 1) / n)
    change, change_error = np.diff(sums / n, axis=1), np.hypot(daily[:, 1:], daily[:, :-1])
    levels = [estimate.alpha_spent(0.95, look) for look in range(2, days_ + 1)]
    limits = np.array([critical(level, n - 1) for level in levels])
    assert (np.abs(change) > limits * change_error).any(1).mean() <= 0.05
    same = chance.normal(size=(years, 1, 100))  # topics that come again, with some noise a night
    nights = same + 0.3 * chance.normal(size=(years, 20, 100))
    by_night, looks = nights.sum(2).cumsum(1), np.arange(1, 21)
    off = (nights**2).sum(2).cumsum(1) - by_night**2 / (100 * looks)
    error = np.sqrt(off * 100 / 99) / (100 * looks) * np.sqrt(looks)
    is_alarm = np.abs(by_night / (100 * looks)) > estimate.always_valid_multiple(0.95, 100) * error
    assert is_alarm.any(1).mean() <= 0.05
    fixed = (sums / n < -critical(0.95, n - 1) * daily).sum(1).mean()
    assert 8 < fixed < 10.5, "as the page says of a fixed interval"


def test_segments(shop: Any) -> None:
    results = looked(
        shop, {"metric": "mrr", "min": 0, "segment": {"country": "*"}, "system": "new"}
    )
    assert [result.segment for result in results] == ["country=DE", "country=US"]
    (result,) = looked(
        shop, {"metric": "mrr", "min": 2, "segment": {"country": "DE"}, "system": "new"}
    )
    assert result.value == pytest.approx(value("mrr", segment="DE"))
    (gone,) = looked(shop, {"metric": "mrr", "min": 0, "segment": {"country": "FR"}})
    lacks = "unknown country 'FR'; known: DE, US"
    assert (gone.holds, gone.note) == (False, lacks)


def test_keys_that_stand_twice_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """As where no index keeps them: sums count these rows twice, and no threshold shows it."""
    check = {"metric": "ndcg@3", "min": 0}
    with connect() as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        write(job(), engine)
        assert all(verdict.holds for verdict in looked(engine, check))
        for table in ("metrics", "metrics_of_queries"):
            last = f"select * from {table} where metric_date = date '{LAST}' and system = 'new'"
            engine.execute(f"insert into {table} {last}")
        broken = [verdict for verdict in looked(engine, check) if not verdict.holds]
        assert [verdict.what for verdict in broken] == [
            "repeated keys of metrics",
            "repeated keys of metrics_of_queries",
        ]
        assert (broken[1].day, broken[1].value) == (LAST, 4)
        engine.execute("delete from metrics_runs")
        ((n_unlogged,),) = engine.rows("select n_unlogged_rows from metrics_status")
        assert n_unlogged == engine.rows("select count(*) as n from metrics")[0][0]
        engine.execute(f"delete from metrics where metric_date = date '{LAST}' and system = 'new'")
        for change in ({"system": "new"}, {"against": "old's", "max_drop": 0.1}):
            pause = looked(engine, {"metric": "ndcg@3", "min": 0} | change)[-1]
            assert (pause.holds, pause.system) == (False, "new"), "a system that pauses is named"
            assert pause.note.startswith(f"its last rows are of {LAST - timedelta(1)}; run this")
            assert f"ndcg@3 of new on {LAST} has no row: its last" in str(pause.failure)
        *_, pause, of_old = looked(engine, check)
        assert (pause.status, pause.system, of_old.system) == ("warn", "new", "old's")
        assert pause.is_pause
        assert f" new on {LAST} has no row: its last rows are of {LAST - timedelta(1)}; run" in (
            str(pause.failure)
        )
        tell([pause, of_old], job())
        assert f"1 of 1 checks hold on {LAST}; 1 warning" in capsys.readouterr().err
        of_one_system = looked(engine, check | {"system": "old's"})
        assert "new" not in [verdict.system for verdict in of_one_system]


def test_freshness_and_counts(shop: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = shop.rows(f"select count(*) from metrics where metric_date = date '{LAST}'")[0][0]
    checks = ({"max_age": 2, "min_rows": rows}, {"max_age": 1, "min_rows": rows + 1})
    results = looked(shop, *checks, today=LAST + timedelta(2))
    assert [(result.what, result.holds) for result in results] == [
        ("age in days", True),
        ("rows", True),
        ("age in days", False),
        ("rows", False),
    ]
    before = LAST - timedelta(1)
    tell([results[0], *(replace(verdict, day=before) for verdict in results[1:2])], job())
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split()[:2] == ["ok", str(LAST)], "as of one day alone"
    assert captured.err == f"2 of 2 checks hold on {before}\n"
    (n,) = {
        row["n_queries"]
        for row in numbers_of(1)[0][str(LAST)]
        if row["metric"] == "mrr" and row["segment_name"] == "all"
    }
    few = looked(shop, {"metric": "mrr", "min_queries": n}, {"metric": "mrr", "min_queries": n + 1})
    assert [result.holds for result in few] == [True, True, False, False]


def test_another_definition_is_no_drop(shop: Any) -> None:
    shop.execute("begin")
    shop.execute(f"update metrics set definition_hash = 'x' where metric_date < date '{LAST}'")
    (result,) = looked(shop, {"metric": "mrr", "max_drop": 1, "system": "new"})
    shop.execute("rollback")
    assert (result.holds, result.note) == (
        False,
        "the other row has another definition of the metric, so the two cannot be compared",
    )


@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_on_every_database(engine: Any) -> None:
    write(job(), engine, days(3, 6))
    spec = job(checks=[{"metric": "mrr", "min": 0, "max_drop": 0}, {"max_age": 1, "min_rows": 1}])
    with connect() as reference:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            reference.load(name, rows)
        write(job(), reference, days(3, 6))
        wanted = verdicts(spec, reference, today=LAST)
    results = verdicts(spec, engine, today=LAST)
    assert [(result.name, result.day, result.holds) for result in results] == [
        (result.name, result.day, result.holds) for result in wanted
    ]
    assert len(results) == 6
    by_day = verdicts(spec, engine, [days(2, 6)], today=LAST)
    assert [(result.day, result.is_of_gap) for result in by_day][:2] == [
        (FIRST + timedelta(2), True),
        (FIRST + timedelta(3), False),
    ]
    assert by_day[-6:] == results
    with pytest.raises(sm.NoDataError, match="has no rows of other"):
        verdicts(job("other", checks=[{"min_rows": 1}]), engine)


def test_what_is_wrong_is_told(shop: Any) -> None:
    with pytest.raises(sm.SpecError, match="unknown metric of the spec 'ndcg@4'; did you mean"):
        looked(shop, {"metric": "ndcg@4", "min": 0})
    with pytest.raises(sm.SpecError, match="the spec has no checks"):
        verdicts(job(), shop)
    with pytest.raises(sm.SpecError, match="mrr has no limit; give one of"):
        job(checks=[{"metric": "mrr"}])
    always = {"metric": "mrr", "max_drop": 0, "confidence": "always"}
    with pytest.raises(sm.SpecError, match="add to the spec: baseline: old's"):
        looked(shop, always | {"against": "old's"})
    with pytest.raises(sm.SpecError, match="since is the first day of confidence: always"):
        job(checks=[always | {"confidence": 0.9, "since": "2026-01-01"}])
    with pytest.raises(sm.SpecError, match="max_drop: name the metric of this limit"):
        job(checks=[{"max_drop": 0.1}])
    with pytest.raises(sm.SpecError, match="unknown key 'max_drops'"):
        job(checks=[{"metric": "mrr", "max_drops": 0.1}])
    with pytest.raises(sm.NoDataError, match="has no rows of other"):
        verdicts(job("other", checks=[{"max_age": 1}]), shop)
    with pytest.raises(sm.NoDataError, match="there is no table nowhere"):
        verdicts(job(output={"relation": "nowhere"}, checks=[{"max_age": 1}]), shop)


def values_of(system: str, day: int) -> dict[str, float]:
    rows = numbers_of(1)[1][str(FIRST + timedelta(day))]
    return {row["query_id"]: row["mrr"] for row in rows if row["system"] == system}


def lines_of(drops: dict[str, float], after: dict[str, float], before: dict[str, float]) -> str:
    worst = sorted((name for name in drops if drops[name] < 0), key=lambda n: (drops[n], n))[:3]
    moves = (f"'shoe {name}' {before[name]:.4f} to {after[name]:.4f}" for name in worst)
    return f"  lost most: {', '.join(moves)}"


def percent(number: float, base: float) -> str:
    return f"{100 * number / base:+.1f}"


def test_what_fails_is_told_with_the_numbers_behind(shop: Any) -> None:
    """Change, interval, p and the queries that lost most by hand: paired, and of two days."""
    texts = [{"query_id": f"q{i}", "q": f"shoe q{i}"} for i in range(5)]
    shop.load("asked_queries", pa.Table.from_pylist(texts))
    queries = {"relation": "asked_queries", "columns": {"query": "query_id", "text": "q"}}
    name = {"name": "pairs", "baseline": "new", "queries": queries}
    name["output"] = {"relation": "pair_metrics", "per_query": "pair_queries"}
    paired = job(**name, checks=[{"metric": "mrr", "max_drop": 0, "against": "new"}])
    write(paired, shop)
    looks = []
    for day in range(6):
        (verdict,) = verdicts(paired, shop, [days(day, day + 1)])
        after, before = values_of("old's", day), values_of("new", day)
        drops = {query: after[query] - before[query] for query in after}
        n, mean = len(drops), sum(drops.values()) / len(drops)
        error = stdev(drops.values()) / math.sqrt(n)
        assert verdict.holds == (mean >= -1e-12)
        if verdict.holds or not error:
            continue
        looks.append(day)
        base = sum(before.values()) / n
        reach = critical(0.95, n - 1) * error
        p = tail(abs(mean) / error, n - 1)
        assert str(verdict.failure).splitlines() == [
            f"pairs: mrr of old's on {FIRST + timedelta(day)} is {base + mean:.4f}, compared with "
            f"{base:.4f} of new, {percent(mean, base)} % (95 % interval "
            f"{percent(mean - reach, base)} to {percent(mean + reach, base)} %), p = {p:.3f}, "
            f"{n} queries: max_drop 0 against new",
            lines_of(drops, after, before),
        ]
    assert looks, "a day has to fail"
    (days_apart,) = looked(shop, {"metric": "mrr", "min": 1.01, "system": "old's"})
    sides = [values_of("old's", day) for day in (5, 4)]
    after, before = sides
    n = len(after)
    means = [sum(side.values()) / n for side in sides]
    squares = [stdev(side.values()) ** 2 / n for side in sides]
    error, df = math.sqrt(sum(squares)), sum(squares) ** 2 / sum(s * s / (n - 1) for s in squares)
    reach = critical(0.95, df) * error
    change = means[0] - means[1]
    failure = days_apart.to_dict()["failure"]
    assert [failure[name] for name in ("ci_low", "ci_high", "p_value", "relative")] == [
        pytest.approx(number)
        for number in (
            change - reach,
            change + reach,
            tail(abs(change) / error, df),
            change / means[1],
        )
    ]
    assert (failure["against"], failure["n"]) == (str(FIRST + timedelta(4)), n)
    drops = {query: after[query] - before[query] for query in after}
    lost = sorted((move for move in drops if drops[move] < 0), key=lambda q: (drops[q], q))
    assert [query["query"] for query in failure["lost"]] == lost[:3]


def test_a_day_that_the_data_have_not_is_told_nowhere(tmp_path: Path) -> None:
    rankings, labels = log()
    file = str(tmp_path / "undated.duckdb")
    one_day = rankings.filter(pc.field("ds") == FIRST).drop_columns(["ds"])
    columns = {"score": "score", "system": "system"}
    checks = [{"metric": "mrr", "min": 0.999}, {"metric": "mrr", "max": 1}, {"min_rows": 10_000}]
    spec = job(rankings={"relation": "runs", "columns": columns}, checks=checks)
    with connect(f"duckdb:///{file}", create=True) as opened:
        opened.load("runs", one_day)
        opened.load("truth", labels)
        write(spec, opened)
    results = sm.check(spec, f"duckdb:///{file}")
    with pytest.raises(sm.CheckError, match="shop: mrr of new is 0") as raised:
        results.raise_if()
    assert raised.value.result is results
    assert len(raised.value.failures) == sum(not result.holds for result in results) == 3
    with pytest.raises(sm.SpecError, match="unknown status to fail on 'fail'; did you mean"):
        results.raise_if("fail")
    warnings = spec.having(checks=[{**check, "severity": "warn"} for check in checks])
    warned = sm.check(warnings, f"duckdb:///{file}")
    warned.raise_if()
    with pytest.raises(sm.CheckError):
        warned.raise_if("warn")
    (tmp_path / "shop.yml").write_text(yaml.safe_dump(json.loads(spec.model_dump_json())))
    line = ["check", str(tmp_path / "shop.yml"), "--db", file, "--github", "--junit"]
    printed = CliRunner().invoke(cli, [*line, str(tmp_path / "j.xml")])
    as_json = CliRunner().invoke(cli, [*line[:4], "-o", "json"])
    xml = (tmp_path / "j.xml").read_text()
    assert all(
        "1970" not in text for text in (printed.output, xml, as_json.output, str(raised.value))
    )


@by_turns(1)
def test_the_command(tmp_path: Path) -> None:
    file = str(tmp_path / "shop.duckdb")
    with connect(f"duckdb:///{file}", create=True) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
        write(job(), opened)
    spec = job(checks=[{"metric": "mrr", "min": 0.999, "system": "old's"}, {"min_rows": 1}])
    fields = json.loads(spec.model_dump_json(exclude_none=True))
    (tmp_path / "shop.yml").write_text(yaml.safe_dump(fields))
    line = ["check", str(tmp_path / "shop.yml"), "--db", file]
    xml = tmp_path / "checks.xml"
    result = CliRunner().invoke(cli, [*line, "--junit", str(xml), "--github"])
    assert result.exit_code == 1
    failed, ok = result.stdout.splitlines()[1:3]
    assert failed.split()[:4] == ["FAILED", "mrr", "min", "0.999"]
    assert ok.split()[:2] == ["ok", "rows"]
    assert "1 of 2 checks hold" in result.stderr
    text = "\n".join(result.stdout.splitlines()[4:6])
    assert "\n  lost most: 'q" in text
    annotation = result.stdout.splitlines()[6]
    assert annotation.startswith("::error file=")
    assert "title=mrr min 0.999 old's::shop: mrr of old's on 2026-01-06 is 0." in annotation
    escaped = text.removeprefix("FAILED: ").replace("%", "%25").replace("\n", "%0A")
    assert escaped == annotation.split("::")[2]
    suite = ET.parse(xml).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [len(case) for case in suite] == [1, 0]
    assert f"FAILED: {suite[0][0].get('message')}" == text
    quiet = CliRunner().invoke(cli, [*line, "-q"])
    assert quiet.stdout.endswith(f"\n{text}\n")
    fields["checks"][0]["severity"] = "warn"
    (tmp_path / "shop.yml").write_text(yaml.safe_dump(fields))
    warned = CliRunner().invoke(cli, [*line, "--junit", str(xml), "--github"])
    assert warned.exit_code == 0
    assert warned.stdout.splitlines()[1].split()[:2] == ["warn", "mrr"]
    assert warned.stdout.splitlines()[4].startswith("warn: shop: mrr of old's")
    assert warned.stdout.splitlines()[6].startswith("::warning file=")
    assert "1 of 2 checks hold on 2026-01-06; 1 warning" in warned.stderr
    suite = ET.parse(xml).getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")
    assert str(suite[0].findtext("system-out")).startswith("warning: shop: mrr of old's")
    fine = CliRunner().invoke(cli, [*line, "--date", "2026-01-01", "-o", "json"])
    assert {row["day"] for row in json.loads(fine.stdout)} == {"2026-01-01"}
    wrong = CliRunner().invoke(cli, [*line, "--date", "soon"])
    assert "--date is a date like 2026-01-31" in str(wrong.exception)
