"""`compare` of online metrics: ratios over users, beside the formulas in Python and a peer."""

from __future__ import annotations

import random
from collections import defaultdict
from math import exp, fsum, log, sqrt
from typing import Any

import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.engines.database import Database
from sqlmetrics.stats import student

COLUMNS = {
    "request": "request_id",
    "item": "item_id",
    "position": "position",
    "system": "variant",
    "user": "user_id",
    "session": "session_id",
    "segments": ["country"],
    "actions": {"click": "clicked", "purchase": "bought"},
}
METRICS = ("ctr@2", "abandonment", "max_rr", "p_skip", "purchases", "session_success")

Row = dict[str, Any]


def log_of(seed: int, n_users: int = 40, *, crossed: bool = False) -> list[Row]:
    """The shown items of users who differ in what they click and in how often they come."""
    chance = random.Random(seed)
    rows = []
    for user in range(n_users):
        variant = ("A", "B")[user % 2]
        rate = chance.betavariate(2, 4) + 0.05 * (variant == "B")
        for request in range(1 + int(chance.expovariate(0.5))):
            served = chance.choice("AB") if crossed and user % 7 == 0 else variant
            for position in range(1, 4):
                clicked = int(chance.random() < rate)
                rows.append(
                    {
                        "request_id": f"r{user}_{request}",
                        "item_id": f"i{position}",
                        "position": position,
                        "variant": served,
                        "user_id": f"u{user}",
                        "session_id": f"s{user}_{request // 2}",
                        "country": ("DE", "FR")[user % 4 // 2],
                        "clicked": clicked,
                        "bought": int(clicked and chance.random() < 0.3),
                    }
                )
    return rows


def spec_of(rows: list[Row], **keys: Any) -> sm.Spec:
    """A spec of such a log."""
    columns = {**COLUMNS, **keys.pop("columns", {})}
    clicks = {"log": {"data": pa.Table.from_pylist(rows), "columns": columns}}
    return sm.Spec(clicks=clicks, **{"metrics": list(METRICS), "baseline": "A"} | keys)


def parts(rows: list[Row], unit: str = "user_id") -> dict[str, dict[str, dict[str, list[float]]]]:
    """Metric -> system -> unit -> its sums above and below the line."""
    by_request = defaultdict(list)
    for row in rows:
        by_request[row["request_id"]].append(row)
    sums: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: [0.0, 0.0])))
    sessions: Any = defaultdict(bool)
    for items in by_request.values():
        row = items[0]
        clicks = [item["position"] for item in items if item["clicked"]]
        top = (min(clicks), max(clicks)) if clicks else (0, 0)
        sessions[row["variant"], row[unit], row["session_id"]] |= bool(clicks)
        for metric, part in {
            "ctr@2": (sum(p <= 2 for p in clicks), 2),
            "abandonment": (not clicks, 1),
            "max_rr": (1 / top[0] if clicks else 0, bool(clicks)),
            "p_skip": (top[1] - len(clicks), top[1]),
            "purchases": (sum(item["bought"] for item in items), 1),
        }.items():
            for at, number in enumerate(part):
                sums[metric][row["variant"]][row[unit]][at] += number
    for (variant, name, _), success in sessions.items():
        sums["session_success"][variant][name][0] += success
        sums["session_success"][variant][name][1] += 1
    return sums


def reference(by_system: dict[str, dict[str, list[float]]], level: float = 0.95) -> Row:
    """The difference of two ratios: delta method, Welch's degrees of freedom, logs for percents."""
    values, linear = [], []
    for system in ("B", "A"):
        units = {unit: part for unit, part in by_system[system].items() if part[1]}
        n, below = len(units), fsum(part[1] for part in units.values())
        ratio = fsum(part[0] for part in units.values()) / below
        values.append(ratio)
        factor = sqrt(n / (n - 1)) / below
        linear.append({unit: (x - ratio * w) * factor for unit, (x, w) in units.items()})
    names = linear[0].keys() | linear[1].keys()

    def error(scales: tuple[float, float]) -> tuple[float, float]:
        groups: Any = defaultdict(list)
        for name in names:
            sides = tuple(name in side for side in linear)
            new, old = (side.get(name, 0) / c for side, c in zip(linear, scales, strict=True))
            groups[sides].append((new - old) ** 2)
        sums = [(fsum(group), len(group)) for group in groups.values()]
        total = fsum(part for part, _ in sums)
        return sqrt(total), max(1.0, total**2 / fsum(v**2 / max(1, n - 1) for v, n in sums))

    difference = values[0] - values[1]
    plain, df = error((1, 1))
    reach = student.critical(level, df) * plain
    row = {
        "value": values[0],
        "baseline_value": values[1],
        "difference": difference,
        "ci_low": difference - reach,
        "ci_high": difference + reach,
        "p_value": student.tail(abs(difference) / plain, df),
    }
    if min(values) > 0:
        relative, df = error((values[0], values[1]))
        reach = student.critical(level, df) * relative
        middle = log(values[0] / values[1])
        row |= {"relative_low": exp(middle - reach) - 1, "relative_high": exp(middle + reach) - 1}
    return row


@by_turns(0.3)
@pytest.mark.parametrize("seed", range(10))
def test_differences_are_those_of_the_formulas(seed: int) -> None:
    rows = log_of(seed, crossed=seed % 2 == 1)
    for row in sm.compare(spec_of(rows)):
        wanted = reference(parts(rows)[row["metric"]], row["ci_level"])
        assert {name: row[name] for name in wanted} == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", engines(["duckdb", "sqlite", "postgres"], now=["sqlite"]))
def test_databases_have_the_same_numbers(name: str, servers: Servers) -> None:
    rows = log_of(11)
    wanted = sm.compare(spec_of(rows), by=["country"])
    with servers.open(name) as engine:
        actual = sm.compare(spec_of(rows), by=["country"], connection=Database(engine))
    assert len(wanted) == 3 * len(METRICS)
    for row, other in zip(wanted, actual, strict=True):
        assert row["metric"] == other["metric"]
        for column in ("difference", "ci_low", "p_adjusted", "relative_high"):
            assert other[column] == pytest.approx(row[column], rel=1e-9, abs=1e-12)
    half = [row for row in rows if row["country"] == "FR"]
    for row in wanted:
        if row["segment_value"] == "FR":
            formula = reference(parts(half)[row["metric"]], row["ci_level"])
            assert row["ci_high"] == pytest.approx(formula["ci_high"], rel=1e-9, abs=1e-12)


BEFORE, AFTER = "2026-01-05", "2026-01-12"


def of_two_days(rows: list[Row]) -> list[Row]:
    """The same log: of three requests of a user two are of before, served by another system."""
    later = [int(row["request_id"].split("_")[1]) % 3 == 0 for row in rows]
    return [
        row | ({"shown_at": AFTER} if is_later else {"shown_at": BEFORE, "variant": "C"})
        for row, is_later in zip(rows, later, strict=True)
    ]


def with_history(rows: list[Row], metric: str) -> dict[str, list[Any]]:
    """A row per user of A and B: the sums of both days; 0 of the day before for who is new."""
    day, before = (parts([row for row in rows if row["shown_at"] == at]) for at in (AFTER, BEFORE))
    table: dict[str, list[Any]] = {"variant": [], "x": [], "w": [], "x0": [], "w0": []}
    for system in "AB":
        for user, part in day[metric][system].items():
            numbers = [int(system == "B"), *part, *before[metric]["C"].get(user, (0, 0))]
            if part[1]:
                for column, number in zip(table.values(), numbers, strict=True):
                    column.append(number)
    return table


def adjusted(table: dict[str, list[Any]], level: float) -> Row:
    """Two ratios with a ratio as covariate, from the formulas (CUPED, delta method)."""
    users = list(zip(*table.values(), strict=True))

    def linear(group: list[Any], at: int) -> list[float]:
        over, under = (fsum(user[i] for user in group) for i in (at, at + 1))
        mean = under / len(group)
        return [(user[at] - over / under * user[at + 1]) / mean for user in group]

    def ratio(group: list[Any], at: int) -> float:
        return fsum(user[at] for user in group) / fsum(user[at + 1] for user in group)

    y, c = linear(users, 1), linear(users, 3)
    theta = fsum(a * b for a, b in zip(y, c, strict=True)) / fsum(b * b for b in c)
    values, errors = [], []
    for variant in (1, 0):
        group = [user for user in users if user[0] == variant]
        n = len(group)
        values.append(ratio(group, 1) - theta * (ratio(group, 3) - ratio(users, 3)))
        errors.append(
            fsum(
                (a - theta * b) ** 2 / (n - 1) / n
                for a, b in zip(linear(group, 1), linear(group, 3), strict=True)
            )
        )
    sizes = [len([user for user in users if user[0] == variant]) for variant in (1, 0)]
    squares = fsum(part**2 / (n - 1) for part, n in zip(errors, sizes, strict=True))
    reach = student.critical(level, sum(errors) ** 2 / squares) * sqrt(sum(errors))
    difference = values[0] - values[1]
    return {
        "value": values[0],
        "baseline_value": values[1],
        "ci_low": difference - reach,
        "ci_high": difference + reach,
    }


def compared_after(rows: list[Row], connection: Any = None, **keys: Any) -> sm.Comparison:
    """The comparison of the later day, adjusted for the day before."""
    spec = spec_of(rows, columns={"time": "shown_at"}, **keys)
    return sm.compare(spec, systems=["A", "B"], covariate=BEFORE, connection=connection)


@pytest.mark.parametrize("name", engines(["duckdb", "sqlite", "postgres"], now=["duckdb"]))
def test_what_users_did_before_narrows_the_interval(name: str, servers: Servers) -> None:
    rows = of_two_days(log_of(1, n_users=150))
    metrics = [metric for metric in METRICS if metric != "session_success"]
    with servers.open(name) as engine:
        comparison = compared_after(rows, Database(engine), metrics=metrics)
    for row in comparison:
        wanted = adjusted(with_history(rows, row["metric"]), row["ci_level"])
        assert {key: row[key] for key in wanted} == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert comparison["ctr@2"]["variance_reduction"] > 0.03
    tables = [with_history(rows, metric)["w0"] for metric in metrics]
    covered, n = min(((sum(map(bool, w)), len(w)) for w in tables), key=lambda at: at[0] / at[1])
    assert 0 < covered < n
    assert f"covariate {BEFORE}: {covered} of {n} users have one" in " ".join(comparison.notes)


def test_users_without_a_day_before_are_compared_as_they_are() -> None:
    rows = [row for row in of_two_days(log_of(2)) if row["shown_at"] == AFTER]
    plain = sm.compare(spec_of(rows, metrics=["ctr@2"]))["ctr@2"]
    row = compared_after(rows, metrics=["ctr@2"])["ctr@2"]
    assert row["ci_low"] == pytest.approx(plain["ci_low"], rel=1e-9)
    with pytest.raises(sm.SpecError, match="the log has no column of times, so there are no days"):
        sm.compare(spec_of(rows, metrics=["ctr@2"]), covariate=BEFORE)
    spec = spec_of(rows, metrics=["ctr@2"], columns={"time": "shown_at", "user": None})
    with pytest.raises(sm.SpecError, match="a session is not there before; name the column of"):
        sm.compare(spec, covariate=BEFORE)


@pytest.mark.parametrize("has_covariate", [False, True])
def test_a_peer_has_the_same_numbers(has_covariate: bool) -> None:
    tea = pytest.importorskip("tea_tasting")
    rows = of_two_days(log_of(3, n_users=200))
    metrics = ["ctr@2", "purchases"]
    later = [row for row in rows if row["shown_at"] == AFTER]
    for row in (
        compared_after(rows, metrics=metrics)
        if has_covariate
        else sm.compare(spec_of(later, metrics=metrics))
    ):
        table = with_history(rows, row["metric"])
        covariate = ("x0", "w0") if has_covariate else ()
        mean = tea.RatioOfMeans("x", "w", *covariate, confidence_level=row["ci_level"])
        theirs = tea.Experiment(m=mean).analyze(pa.table(table))["m"]
        numbers = {
            "value": theirs.treatment,
            "difference": theirs.effect_size,
            "ci_low": theirs.effect_size_ci_lower,
            "ci_high": theirs.effect_size_ci_upper,
            "relative": theirs.rel_effect_size,
            "relative_low": theirs.rel_effect_size_ci_lower,
            "relative_high": theirs.rel_effect_size_ci_upper,
            "p_value": theirs.pvalue,
        }
        assert {name: row[name] for name in numbers} == pytest.approx(numbers, abs=1e-9)


def test_the_unit_is_the_user_else_the_session_else_the_request() -> None:
    rows = log_of(5)
    for columns, unit, plural in (
        ({}, "user_id", "users"),
        ({"user": None}, "session_id", "sessions"),
        ({"user": None, "session": None}, "request_id", ""),
    ):
        comparison = sm.compare(spec_of(rows, metrics=["ctr@2"], columns=columns))
        row = comparison["ctr@2"]
        assert row["ci_low"] == pytest.approx(reference(parts(rows, unit)["ctr@2"])["ci_low"])
        assert row["sentence"].endswith(f" {plural or 'requests'})")
        assert f"over {plural or 'requests'}" in " ".join(comparison.notes)
    of_country = sm.compare(spec_of(rows), cluster="country", metrics="ctr@2")["ctr@2"]
    assert "over 2 values of country" in of_country["sentence"]
    with pytest.raises(sm.SpecError, match="unknown segment 'usr'; did you mean 'user_id'"):
        sm.compare(spec_of(rows), cluster="usr", metrics="ctr@2")


def test_metrics_of_lists_and_of_the_log_are_one_family() -> None:
    spec = spec_of(log_of(6), metrics=["mrr", "ctr@2"])
    comparison = sm.compare(spec)
    assert [row["metric"] for row in comparison] == ["mrr", "ctr@2"]
    alone = [sm.compare(spec, metrics=name, paired=False)[name] for name in ("mrr", "ctr@2")]
    p_values = [row["p_value"] for row in alone]
    assert [row["p_value"] for row in comparison] == pytest.approx(p_values)
    least = min(p_values)
    adjusted = [row["p_adjusted"] for row in comparison]
    assert min(adjusted) == pytest.approx(min(1.0, 2 * least))
    assert "sqlmetrics_online_units" in comparison.executed_sql


def test_what_online_metrics_are_not_compared_by() -> None:
    spec = spec_of(log_of(7), metrics=["mrr", "ctr@2"])
    with pytest.raises(sm.SpecError, match="leave out the test bootstrap and all_pairs"):
        sm.compare(spec, metrics="ctr@2", test="bootstrap", all_pairs=True)
    lists = sm.compare(spec, test="bootstrap", paired=False, replicates=1000)
    assert [row["metric"] for row in lists] == ["mrr"]
    assert "use sqlmetrics compare SPEC -m" in " ".join(lists.notes)
    with pytest.raises(sm.SpecError, match="unknown segment of the log 'query_text'"):
        sm.compare(spec, metrics="ctr@2", by="query_text")
    with pytest.raises(sm.InputError, match="unknown system 'C'"):
        sm.compare(spec, metrics="ctr@2", systems=["A", "C"])


def test_two_periods_of_a_system_are_compared_over_its_users() -> None:
    rows = [
        row | {"shown_at": f"2026-01-{1 + int(row['request_id'].split('_')[1]) % 2:02} 10:00:00"}
        for row in log_of(8)
        if row["variant"] == "A"
    ]
    spec = spec_of(rows, metrics=["ctr@2"], columns={"time": "shown_at"}, baseline=None)
    row = sm.compare(spec, dates=["2026-01-01", "2026-01-02"], cluster="user_id")["ctr@2"]
    of_day = [row | {"variant": "AB"[row["shown_at"] > "2026-01-02"]} for row in rows]
    wanted = reference(parts(of_day)["ctr@2"])
    assert {name: row[name] for name in wanted} == pytest.approx(wanted, rel=1e-9)
