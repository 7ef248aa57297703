"""Systems with queries of their own, days beside days, and covariates: beside numpy and scipy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from compared_tables import NEW, OLD, OTHER_ENGINES, N, compared, near
from conftest import peer
from engines.starting import Servers
from marked import by_turns, engines
from sampled_days import of_days

import sqlmetrics as sm
from sqlmetrics.engines.database import Database
from sqlmetrics.stats import student

SPLIT = {"new": [*NEW[:25], *[None] * 15], "old": [*[None] * 25, *OLD[25:]]}
"""An A/B test: 25 queries of one, 15 of the other."""


def linearised(sides: list[tuple[Any, Any, Any]]) -> tuple[float, float, float]:
    """The difference of two weighted means, its error by the delta method, degrees of freedom.

    Args:
        sides: Of the system and the baseline: values, weights, and clusters by number.
    """
    clusters = max(max(cluster) for _, _, cluster in sides) + 1
    moved, means = np.zeros(clusters), []
    for sign, (value, weight, cluster) in zip((1, -1), sides, strict=True):
        mean = np.average(value, weights=weight)
        influence = np.bincount(cluster, (value - mean) * weight, clusters) / weight.sum()
        n = len(np.unique(cluster))
        moved += sign * influence * np.sqrt(n / (n - 1))
        means.append(mean)
    in_system, in_baseline = (np.isin(np.arange(clusters), cluster) for _, _, cluster in sides)
    parts = [
        members
        for members in (in_system & in_baseline, in_system & ~in_baseline, in_baseline & ~in_system)
        if members.any()
    ]
    squares = [(moved[members] ** 2).sum() for members in parts]
    free = [q**2 / (members.sum() - 1) for q, members in zip(squares, parts, strict=True)]
    df = float(sum(squares) ** 2 / sum(free))
    return float(means[0] - means[1]), float(np.sqrt(sum(squares))), df


def p_of(mean: float, error: float, df: float) -> Any:
    return near(student.tail(abs(mean) / error, df))


# -- Welch ------------------------------------------------------------------------------


@by_turns(2.5)
def test_queries_of_their_own_give_scipy_s_welch_test() -> None:
    row = compared(SPLIT, paired=False)["cg@1"]
    assert (row["test"], row["n"], row["n_baseline"], row["wins"]) == ("Welch t", 25, 15, None)
    assert (row["value"], row["baseline_value"]) == (
        near(np.mean(NEW[:25])),
        near(np.mean(OLD[25:])),
    )
    assert row["p_value"] == near(0.4249521508003102)
    assert (row["ci_low"], row["ci_high"]) == (near(-0.11686997435987106), near(0.270198134359871))
    half = {name: [v and round(v) / 2 for v in values] for name, values in SPLIT.items()}
    clustered: dict[str, Any] = {
        "facts": {"user_id": [i % 4 for i in range(N)]},
        "cluster": "user_id",
    }
    for options in ({}, clustered):
        rows = compared(half, paired=False, metrics=["cg@1", "hit(rel=0.5)@1"], **options)
        assert [(row["n"], row["n_baseline"]) for row in rows] == [(25, 15)] * 2
    assert rows["cg@1"]["value"] == near(np.mean([v for v in half["new"] if v is not None]))
    with pytest.raises(sm.InputError, match=r"or an A/B test, compare them unpaired"):
        compared(SPLIT, missing="drop")


@pytest.mark.long
def test_queries_of_both_sides_give_the_paired_test() -> None:
    systems = {"new": NEW, "old": OLD}
    unpaired, paired = (compared(systems, paired=is_paired)["cg@1"] for is_paired in (False, True))
    for name in ("difference", "ci_low", "ci_high", "p_value", "smallest_detectable"):
        assert unpaired[name] == near(paired[name])


@by_turns(0.5)
def test_users_on_both_sides_and_weights_are_the_delta_method_s() -> None:
    users = [i % 13 for i in range(N)]
    weights = [1.0 + i % 5 for i in range(N)]
    facts = {"user_id": users, "traffic": weights}
    comparison = compared(SPLIT, paired=False, facts=facts, cluster="user_id", weight="traffic")
    u, w, x, y = map(np.array, (users, weights, NEW, OLD))
    sides = [(x[:25], w[:25], u[:25]), (y[25:], w[25:], u[25:])]
    mean, error, df = linearised(sides)
    row = comparison["cg@1"]
    assert df == near(12)  # 13 users, all of them on both sides
    assert (row["difference"], row["p_value"]) == (near(mean), p_of(mean, error, df))


@pytest.mark.long
def test_a_bootstrap_of_two_samples_is_numpy_s_within_its_error() -> None:
    row = compared(SPLIT, paired=False, test="bootstrap", replicates=4000)["cg@1"]
    chance = np.random.default_rng(3)
    x, y = np.array(NEW[:25]), np.array(OLD[25:])
    means = [
        values[chance.integers(0, len(values), (20_000, len(values)))].mean(1) for values in (x, y)
    ]
    limits = np.quantile(means[0] - means[1], [0.025, 0.975])
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(list(limits), abs=0.02)


@by_turns(0.5)
def test_sides_without_variance_and_of_one_query() -> None:
    constant = {"new": [0.5] * 4 + [None] * 4, "old": [None] * 4 + [0.4] * 4}
    row = compared(constant, paired=False)["cg@1"]
    assert (row["p_value"], row["test"]) == (2 / 70, "exact permutation")
    single = {"new": [0.5, None, None], "old": [None, 0.4, 0.3]}
    row = compared(single, paired=False)["cg@1"]
    assert (row["p_value"], row["ci_low"], row["verdict"]) == (None, None, "unclear")


# -- a covariate ------------------------------------------------------------------------


@by_turns(0.5)
def test_a_covariate_gives_the_slope_of_least_squares() -> None:
    """The adjusted difference is the coefficient of the side beside the covariate."""
    before = [round(0.5 * x + 0.1 * sin_of(i), 6) for i, x in enumerate(NEW)]
    comparison = compared(SPLIT, facts={"before": before}, covariate="before")
    row, plain = comparison["cg@1"], compared(SPLIT, paired=False)["cg@1"]
    y, c = np.array([*NEW[:25], *OLD[25:]]), np.array(before)
    side = np.repeat([1.0, 0.0], [25, 15])
    (_, effect, slope), *_ = np.linalg.lstsq(np.column_stack([np.ones(N), side, c]), y, rcond=None)
    assert row["difference"] == near(effect)
    assert row["value"] - row["baseline_value"] == near(effect)
    residuals = y - slope * c
    parts = [
        np.var(residuals[side == indicator], ddof=1) / (side == indicator).sum()
        for indicator in (1, 0)
    ]
    error = np.sqrt(sum(parts) * 38 / 37)
    plain_variance = sum(
        np.var(y[side == indicator], ddof=1) / (side == indicator).sum() for indicator in (1, 0)
    )
    assert row["variance_reduction"] == near(1 - error**2 / plain_variance)
    df = sum(parts) ** 2 / (parts[0] ** 2 / 24 + parts[1] ** 2 / 14) - 1
    assert row["p_value"] == p_of(effect, error, df)
    assert (row["test"], plain["variance_reduction"]) == ("Welch t, covariate", None)
    assert "covariate before: 40 of 40 queries have one" in " ".join(str(comparison).split())


def sin_of(i: int) -> float:
    return float(np.sin(i * 3.1))


@by_turns(0.5)
def test_days_before_are_a_covariate_of_each_metric() -> None:
    """As if the column had these values; a query that is new counts as their mean."""
    old, split = range(36), {"new": range(20), "old": range(20, N)}
    rows = [("2026-01-01", "prod", i, OLD[i]) for i in old]
    rows += [("2026-01-05", name, i, NEW[i]) for name, queries in split.items() for i in queries]
    rankings = pa.Table.from_pylist(
        [
            {"ds": day, "system": system, "query_id": i, "item_id": f"{day}{i}", "score": 1.0}
            | {"known": OLD[i] if i in old else None}
            for day, system, i, _ in rows
        ]
    )
    labels = pa.Table.from_pylist(
        [{"query_id": i, "item_id": f"{day}{i}", "grade": value} for day, _, i, value in rows]
    )
    options: dict[str, Any] = {"date": "ds", "baseline": "old"}
    metrics = ["cg@1", "dcg(gain=linear)@1"]
    by_days = sm.compare(rankings, labels, metrics, covariate="2026-01-01..2026-01-03", **options)
    late = rankings.filter(pa.compute.equal(rankings["ds"], "2026-01-05"))
    by_column = sm.compare(late, labels, metrics, covariate="known", **options)
    for row, other in zip(by_days, by_column, strict=True):
        for name in ("difference", "p_value", "variance_reduction"):
            assert row[name] == near(other[name])
    assert by_days["cg@1"]["variance_reduction"] > 0.3
    assert "36 of 40 queries have one" in " ".join(str(by_days).split())


@pytest.mark.long
def test_what_needs_pairs_is_refused_with_what_to_do() -> None:
    facts = {"before": OLD}
    for test in ("wilcoxon", "randomization"):
        with pytest.raises(sm.SpecError, match=f"{test} needs each query on both sides"):
            compared(SPLIT, paired=False, test=test)
    with pytest.raises(sm.SpecError, match="only the test t adjusts for a covariate"):
        compared(SPLIT, facts=facts, covariate="before", test="bootstrap")
    with pytest.raises(sm.SpecError, match="the rankings have no column of dates"):
        compared(SPLIT, covariate="2026-01-01")
    with pytest.raises(sm.SpecError, match="these days are compared too"):
        compared(SPLIT, covariate="2026-01-01..2026-01-05", start="2026-01-05", date="ds")
    with pytest.raises(sm.SpecError, match="paired queries already are their own covariate"):
        compared(SPLIT, facts=facts, covariate="before", paired=True)


# -- days beside days -------------------------------------------------------------------

WEEK = {
    "2026-01-01": {i: OLD[i] for i in range(30)},
    "2026-01-02": {i: OLD[i] / 2 + 0.2 for i in range(5, 25)},
    "2026-01-08": {i: NEW[i] for i in range(10, 40)},
}


@by_turns(0.5)
def test_a_day_beside_a_day_holds_all_queries_and_knows_those_that_come_again() -> None:
    rankings, labels = of_days(WEEK)
    comparison = sm.compare(rankings, labels, "cg@1", date="ds", dates="2026-01-01,2026-01-08")
    row = comparison["cg@1"]
    sides = [
        (np.array([*WEEK[day].values()]), np.ones(30), np.array([*WEEK[day]]))
        for day in ("2026-01-08", "2026-01-01")
    ]
    mean, error, df = linearised(sides)
    assert (row["system"], row["baseline"]) == ("2026-01-08", "2026-01-01")
    assert (row["n"], row["n_baseline"], row["difference"]) == (30, 30, near(mean))
    assert row["p_value"] == p_of(mean, error, df)
    dates = {"date": "ds", "dates": "2026-01-02,2026-01-08"}
    adjusted = sm.compare(rankings, labels, "cg@1", covariate="2026-01-01", **dates)
    assert "40 of 50 queries have one" in " ".join(str(adjusted).split())
    paired = sm.compare(
        rankings, labels, "cg@1", date="ds", dates="2026-01-01,2026-01-08", paired=True
    )["cg@1"]
    d = np.array(NEW[10:30]) - np.array(OLD[10:30])
    assert (paired["n"], paired["difference"]) == (20, near(d.mean()))
    assert paired["effect_size"] == near(d.mean() / d.std(ddof=1))
    assert (paired["n_system_only"], paired["n_baseline_only"]) == (10, 10)


@pytest.mark.long
def test_periods_count_each_day_and_paired_the_mean_of_a_query_s_days() -> None:
    rankings, labels = of_days(WEEK)
    options: dict[str, Any] = {"date": "ds", "dates": ["2026-01-01..2026-01-07", "2026-01-08"]}
    row = sm.compare(rankings, labels, "cg@1", **options)["cg@1"]
    first = [*WEEK["2026-01-01"].values(), *WEEK["2026-01-02"].values()]
    query = [*WEEK["2026-01-01"], *WEEK["2026-01-02"]]
    sides = [
        (np.array([*WEEK["2026-01-08"].values()]), np.ones(30), np.array([*WEEK["2026-01-08"]])),
        (np.array(first), np.ones(50), np.array(query)),
    ]
    mean, error, df = linearised(sides)
    assert (row["n_baseline"], row["baseline_value"]) == (50, near(np.mean(first)))
    assert (row["difference"], row["p_value"]) == (near(mean), p_of(mean, error, df))
    row = sm.compare(rankings, labels, "cg@1", paired=True, **options)["cg@1"]
    means = [np.mean([WEEK[d][i] for d in (*WEEK,)[:2] if i in WEEK[d]]) for i in range(10, 30)]
    assert row["n"] == 20
    assert row["baseline_value"] == near(np.mean(means))


@by_turns(1)
def test_dates_of_a_spec_by_the_command_line(tmp_path: Path) -> None:
    rankings, labels = of_days(WEEK)
    wanted = sm.compare(rankings, labels, "cg@1", date="ds", dates="2026-01-01,2026-01-08")
    two_systems = pa.concat_tables(
        [
            rankings.append_column("system", pa.array([name] * rankings.num_rows))
            for name in ("prod", "other")
        ]
    )
    pq.write_table(two_systems, tmp_path / "rankings.parquet")
    pq.write_table(labels, tmp_path / "labels.parquet")
    (tmp_path / "search.yml").write_text(
        "rankings:\n  file: rankings.parquet\n"
        "  columns: {score: score, system: system, date: ds}\n"
        "labels: {file: labels.parquet}\nmetrics: [cg@1]\n"
    )
    words = ["compare", "search.yml", "--dates", "2026-01-01,2026-01-08", "-o", "json"]
    completed = sqlmetrics(*words, "--systems", "prod", folder=tmp_path)
    (row,), (same,) = json.loads(completed.stdout), wanted.to_dicts()
    assert {name: pytest.approx(value, rel=1e-12) for name, value in same.items()} == row
    completed = sqlmetrics(*words, folder=tmp_path, expect=2)
    assert "dates compare one system with itself, but there are other, prod" in completed.stderr


@pytest.mark.long
def test_days_that_cannot_be_compared_are_refused_with_what_to_do() -> None:
    rankings, labels = of_days(WEEK)

    def refused(
        match: str, dates: Any, error: type[Exception] = sm.SpecError, **options: Any
    ) -> None:
        with pytest.raises(error, match=match):
            sm.compare(rankings, labels, "cg@1", dates=dates, **{"date": "ds"} | options)

    refused("needs two or more", "2026-01-01")
    refused("'next' is not a day like", "2026-01-01,next")
    refused("'2026-01-08..2026-01-01' is not a day like", ["2026-01-08..2026-01-01"])
    refused("share a day", "2026-01-01..2026-01-03,2026-01-02")
    refused("no query on 2026-01-05", "2026-01-01,2026-01-05", sm.InputError)
    refused("unknown baseline '2026-01-02'", "2026-01-01,2026-01-08", baseline="2026-01-02")
    refused("leave out start and end", "2026-01-01,2026-01-08", start="2026-01-01")
    refused("the rankings have no column of dates", "2026-01-01,2026-01-08", date=None)


# -- engines and peers ------------------------------------------------------------------


@pytest.mark.parametrize("name", engines(OTHER_ENGINES, now=[]))
def test_engines_give_duckdb_s_samples(name: str, servers: Servers) -> None:
    facts = {"user_id": [f"ü{i % 13}" for i in range(N)], "before": OLD}
    country = {"country": ["DE" if i % 3 else "FR" for i in range(N)]}
    cases = (
        {"covariate": "before", "cluster": "user_id", "by": "country"},
        {"paired": False, "test": "bootstrap", "cluster": "user_id"},
    )
    for case in cases[:1] if name == "spark" else cases:
        options: dict[str, Any] = {"facts": facts | country, **case}
        with servers.open(name) as engine:
            database = Database(engine)
            engine_comparison = compared(SPLIT, connection=database, **options)
        for row, duckdb_row in zip(
            engine_comparison.rows, compared(SPLIT, **options).rows, strict=True
        ):
            assert {k: pytest.approx(v, rel=1e-9, abs=1e-9) for k, v in duckdb_row.items()} == row


@pytest.mark.long
def test_samples_agree_with_scipy_and_statsmodels_on_random_values() -> None:
    stats, models = peer("scipy.stats"), peer("statsmodels.api")
    chance = np.random.default_rng(7)
    for n in (6, 30, 200):
        x, y, c = chance.gamma(1, size=n), chance.gamma(2, size=2 * n), chance.gamma(1, size=3 * n)
        systems = {"new": [*x, *[None] * 2 * n], "old": [*[None] * n, *y]}
        unpaired = compared(systems, paired=False)["cg@1"]
        assert unpaired["p_value"] == near(stats.ttest_ind(x, y, equal_var=False).pvalue)
        y = y + c[n:]
        systems = {"new": [*(x + c[:n]), *[None] * 2 * n], "old": [*[None] * n, *y]}
        row = compared(systems, facts={"before": list(c)}, covariate="before")["cg@1"]
        side = np.repeat([1.0, 0.0], [n, 2 * n])
        values = np.concatenate([x + c[:n], y])
        fit = models.OLS(values, np.column_stack([np.ones(3 * n), side, c])).fit()
        assert row["difference"] == near(fit.params[1])
