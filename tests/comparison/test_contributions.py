"""Contributions of slices: they add up, mix stands apart from rate, small slices are shrunk."""

from __future__ import annotations

import json
from math import isclose
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from compared_tables import compared, near, tables
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.stats.true_effects import estimated


def random_world(seed: int, *, paired: bool) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Values of two systems, and a country, a small slice among them, and a weight a query."""
    chance = np.random.default_rng(seed)
    n = int(chance.integers(30, 90))
    country = [str(name) for name in chance.choice(["DE", "FR", "AT"], n, p=[0.6, 0.35, 0.05])]
    lift = {"DE": 0.2, "FR": -0.1, "AT": 0.5}
    old = 2 + chance.random(n)
    new = old + chance.normal(0, 0.2, n) + [lift[name] for name in country]
    systems = {"new": [*map(float, new)], "old": [*map(float, old)]}
    if not paired:
        for values in systems.values():
            for i in np.flatnonzero(chance.random(n) < 0.3):
                values[i] = None  # type: ignore[call-overload]
    return systems, {"country": country, "traffic": [float(1 + i % 7) for i in range(n)]}


def by_hand(systems: Any, facts: Any) -> dict[str, tuple[float, float]]:
    """Slice -> its rate and its mix."""
    parts, means = {}, {}
    weight, country = facts["traffic"], facts["country"]
    for system, values in systems.items():
        present = [i for i, value in enumerate(values) if value is not None]
        total = sum(weight[i] for i in present)
        means[system] = sum(weight[i] * values[i] for i in present) / total
        for name in set(country):
            members = [i for i in present if country[i] == name]
            heavy = sum(weight[i] for i in members)
            mean = sum(weight[i] * values[i] for i in members) / heavy if members else None
            parts[name, system] = (heavy / total, mean)
    contributions = {}
    for name in set(country):
        (p, m), (q, b) = parts[name, "new"], parts[name, "old"]
        m, b = (b if m is None else m), (m if b is None else b)
        if m is not None:
            centre = (means["new"] + means["old"]) / 2
            contributions[name] = ((p + q) / 2 * (m - b), (p - q) * ((m + b) / 2 - centre))
    return contributions


@pytest.mark.long
@pytest.mark.parametrize("paired", [True, False])
def test_contributions_add_up_and_are_those_of_the_formula(paired: bool) -> None:
    for seed in range(3):
        systems, facts = random_world(seed, paired=paired)
        missing = "zero" if paired else "drop"
        comparison = compared(
            systems,
            facts=facts,
            by="country",
            weight="traffic",
            missing=missing,
            contributions=True,
        )
        rows = {row["segment_value"]: row for row in comparison.contributions}
        expected = by_hand(systems, facts)
        assert rows.keys() == expected.keys()
        for name, (rate, mix) in expected.items():
            assert (rows[name]["rate"], rows[name]["mix"]) == (near(rate), near(mix))
            assert rows[name]["contribution"] == rows[name]["rate"] + rows[name]["mix"]
            assert not paired or rows[name]["mix"] == 0
        total = sum(row["contribution"] for row in rows.values())
        if paired:
            assert isclose(total, comparison.rows[0]["difference"], abs_tol=1e-12)
        else:
            averages = [
                np.average(
                    [v for v in values if v is not None],
                    weights=[
                        w for v, w in zip(values, facts["traffic"], strict=True) if v is not None
                    ],
                )
                for values in systems.values()
            ]
            assert isclose(total, averages[0] - averages[1], abs_tol=1e-12)


def test_simpson_s_paradox_is_said() -> None:
    """Kidney stones: 81 of 87 and 192 of 263 against 234 of 270 and 55 of 80."""
    small = {"new": (81, 87), "old": (234, 270)}
    large = {"new": (192, 263), "old": (55, 80)}
    systems: dict[str, list[float | None]] = {"new": [], "old": []}
    size: list[str] = []
    for name, counts in (("small", small), ("large", large)):
        for system, (good, n) in counts.items():
            values = [1.0] * good + [0.0] * (n - good)
            systems[system] += values
            systems["old" if system == "new" else "new"] += [None] * n
            size += [name] * n
    for i, value in ((0, 1.0), (len(size) - 1, 0.0)):  # a query that both have
        systems["old"][i], systems["new"][i] = value, value
    comparison = compared(
        systems, facts={"size": size}, by="size", missing="drop", contributions=True
    )
    notes = [note for note in comparison.notes if "Simpson" in note]
    rate, total = 0.0, 273 / 351 - 290 / 351
    rates = {
        name: ((m / n), (b / k))
        for name, (m, n, b, k) in {"small": (81, 87, 235, 271), "large": (192, 264, 55, 80)}.items()
    }
    for name, n, k in (("small", 87, 271), ("large", 264, 80)):
        rate += (n + k) / 2 / 351 * (rates[name][0] - rates[name][1])
    assert notes == [
        "cg@1 of new is better in every slice of size but worse in total (Simpson's paradox): "
        f"{total - rate:+.4f} of {total:+.4f} come from which queries there were, not from their "
        "values"
    ]


@pytest.mark.parametrize("weight", [None, "traffic"])
def test_small_slices_are_shrunk_as_plain_python_does_it(weight: str | None) -> None:
    systems, facts = random_world(11, paired=True)
    comparison = compared(systems, facts=facts, by="country", weight=weight, contributions=True)
    d = np.array(systems["new"]) - np.array(systems["old"])
    w = np.array(facts["traffic"]) if weight else np.ones(len(d))
    country = np.array(facts["country"])
    groups = {name: (d[country == name], w[country == name]) for name in ("DE", "FR", "AT")}
    mean = {name: np.average(x, weights=v) for name, (x, v) in groups.items()}
    squares = sum((v**2 * (x - mean[name]) ** 2).sum() for name, (x, v) in groups.items())
    noise = squares / sum((v**2).sum() * (1 - 1 / len(v)) for _, v in groups.values())
    noises = {name: noise * (v**2).sum() / v.sum() ** 2 for name, (_, v) in groups.items()}
    precise = {name: 1 / variance for name, variance in noises.items()}
    total = sum(precise.values())
    centre = sum(precise[name] * mean[name] for name in groups) / total
    spread = sum(precise[name] * (mean[name] - centre) ** 2 for name in groups)
    between = (spread - 2) / (total - sum(precision**2 for precision in precise.values()) / total)
    assert between > 0
    overall = np.average(d, weights=w)
    for row in comparison.contributions:
        name = row["segment_value"]
        kept = between / (between + noises[name])
        assert row["shrunk_difference"] == near(overall + kept * (mean[name] - overall))


def test_a_single_slice_or_query_is_not_shrunk() -> None:
    assert estimated(0.1, [1.0], [0.5]).shrunk(1.0, 0.5) == 0.1
    alone = compared({"new": [1.0], "old": [0.5]}, by="c", facts={"c": ["x"]}, contributions=True)
    assert alone.contributions[0]["contribution"] == 0.5
    assert alone.contributions[0]["shrunk_difference"] is None


@by_turns(0.5)
def test_the_command_line_prints_them(tmp_path: Any) -> None:
    systems, facts = random_world(5, paired=True)
    rankings, labels = tables(systems, **facts)
    for name, table in (("r", rankings), ("l", labels)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    command = ("compare", "r.parquet", "l.parquet", "-m", "cg@1", "--baseline", "old")
    options = ("--by", "country", "--contributions")
    output = sqlmetrics(*command, *options, folder=tmp_path).stdout
    assert "contributions of country: new against old" in output
    document = json.loads(sqlmetrics(*command, *options, "-o", "json", folder=tmp_path).stdout)
    assert [row["segment_value"] for row in document["rows"]] == ["all", "AT", "DE", "FR"]
    assert {row["segment_value"] for row in document["contributions"]} == {"AT", "DE", "FR"}
    markdown = sqlmetrics(*command, *options, "-o", "markdown", folder=tmp_path).stdout
    assert "| metric | country | queries | share |" in markdown
    with pytest.raises(sm.SpecError, match="contributions need segments"):
        compared(systems, contributions=True)
