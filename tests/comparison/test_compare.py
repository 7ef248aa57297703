"""Comparisons: sums in the warehouse, tests, intervals and verdicts, beside numpy and scipy."""

from __future__ import annotations

import json
import re
from hashlib import md5
from math import sin
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from compared_tables import NEW, OLD, OTHER_ENGINES, N, compared, near, tables
from conftest import peer
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.comparison.options import verdict
from sqlmetrics.comparison.sums import lots
from sqlmetrics.comparison.sums.moments import moments_query
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.comparison.sums.ranks import ranks_query
from sqlmetrics.comparison.sums.resampling import Resampling
from sqlmetrics.comparison.sums.samples import Covariate, Samples, samples_query
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.sql.dialects import DIALECTS, dialect_named
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats.nonparametric import benjamini_hochberg, holm, signed_rank_test
from sqlmetrics.stats.student import critical

pytestmark = by_turns(0.2)


# -- the tests, beside scipy ------------------------------------------------------------


def test_the_paired_t_test_is_scipy_s() -> None:
    row = compared({"new": NEW, "old": OLD})["cg@1"]
    assert row["p_value"] == near(0.0003183490370627056)
    assert (row["ci_low"], row["ci_high"]) == (
        near(0.029558439997968294),
        near(0.09161556000203168),
    )
    assert row["effect_size"] == near(0.6244783075946352)
    assert row["difference"] == near(sum(NEW) / N - sum(OLD) / N)
    assert row["relative"] == near(sum(NEW) / sum(OLD) - 1)
    assert (row["n"], row["wins"], row["ties"], row["losses"]) == (
        N,
        sum(a > b for a, b in zip(NEW, OLD, strict=True)),
        0,
        sum(a < b for a, b in zip(NEW, OLD, strict=True)),
    )
    narrow = compared({"new": NEW, "old": OLD}, level=0.9)["cg@1"]
    assert (narrow["ci_low"], narrow["ci_high"]) == (
        near(0.03474061472577476),
        near(0.0864333852742252),
    )


def test_wilcoxon_is_scipy_s_exact_and_with_ties() -> None:
    exact = compared({"new": NEW, "old": OLD}, test="wilcoxon")["cg@1"]
    assert exact["p_value"] == near(0.0004266080886736745)
    assert signed_rank_test(60, 1200.0) == near(0.03590012321587814)
    rounded = {"new": [round(x, 1) for x in NEW], "old": [round(y, 1) for y in OLD]}
    tied = compared(rounded, test="wilcoxon")["cg@1"]
    assert tied["p_value"] == near(0.0013268642950357197)
    assert (tied["wins"], tied["ties"], tied["losses"]) == (21, 15, 4)


def test_the_tests_agree_with_scipy_and_statsmodels_on_random_values() -> None:
    stats, multiple = peer("scipy.stats"), peer("statsmodels.stats.multitest")
    chance = np.random.default_rng(7)
    for n in (3, 30, 200):
        new, old = chance.gamma(1, size=(2, n))
        systems = {"new": list(new), "old": list(old)}
        assert compared(systems)["cg@1"]["p_value"] == near(stats.ttest_rel(new, old).pvalue)
        p_value = compared(systems, test="wilcoxon")["cg@1"]["p_value"]
        method = "exact" if n <= 50 else "asymptotic"
        assert p_value == near(stats.wilcoxon(new, old, method=method).pvalue)
    p_values = list(chance.random(40) ** 3)
    for adjust, name in ((holm, "holm"), (benjamini_hochberg, "fdr_bh")):
        theirs = multiple.multipletests(p_values, method=name)[1]
        assert adjust(p_values, 0.95).p_values == [near(p) for p in theirs]


def test_p_values_are_adjusted_over_metrics_and_systems_and_over_slices() -> None:
    systems = {"new": NEW, "old": OLD, "third": [x + 0.02 * sin(5 * i) for i, x in enumerate(OLD)]}
    slices = ["DE" if i % 4 else "FR" for i in range(N)]
    comparison = compared(
        systems,
        metrics=["cg@1", "dcg@1"],
        by="country",
        facts={"country": slices},
    )
    overall = [row for row in comparison if row["segment_name"] == "all"]
    parts = [row for row in comparison if row["segment_name"] == "country"]
    assert (len(overall), len(parts)) == (4, 8)
    for rows, adjust in ((overall, holm), (parts, benjamini_hochberg)):
        adjustment = adjust([row["p_value"] for row in rows], 0.95)
        assert [row["p_adjusted"] for row in rows] == adjustment.p_values
        assert {row["ci_level"] for row in rows} == {adjustment.coverage}
    # Holm keeps those of the third system: each interval is the one at 1 - .05 / 2
    row = overall[0]
    apart = np.array(NEW) - np.array(OLD)
    error = apart.std(ddof=1) / np.sqrt(N)
    assert [row["p_adjusted"] < 0.05 for row in overall] == [True, True, False, False]
    assert row["ci_level"] == near(1 - 0.05 / 2)
    assert row["ci_low"] == near(apart.mean() - critical(row["ci_level"], N - 1) * error)


def test_no_sentence_contradicts_its_numbers() -> None:
    """Worlds of 2 to 100 systems, some of them copies of one another, by each test."""
    chance, verdicts = np.random.default_rng(5), set()
    designs: list[dict[str, Any]] = [
        {"test": "t"},
        {"test": "t", "paired": False},
        {"test": "t", "margin": 0.02},
        {"test": "wilcoxon"},
        {"test": "randomization"},
    ]
    for n_systems, n_queries, design in zip(
        (2, 3, 100, 12, 8, 30), (2, 5, 30, 60, 20, 15), [*designs, designs[0]], strict=True
    ):
        hard = chance.random(n_queries)
        systems = {
            f"s{i}": list(hard + (i % 5 > 0) * np.abs(chance.normal(i % 7 / 20, 0.1, n_queries)))
            for i in range(n_systems)
        }
        for row in compared(systems, baseline="s0", **design):
            low, high, p = row["ci_low"], row["ci_high"], row["p_adjusted"]
            words, verdict_ = row["sentence"], row["verdict"]
            leaves_out_zero = not low <= 0 <= high
            verdicts.add(verdict_)
            if int(row["system"][1:]) % 5 == 0:
                assert (row["difference"], verdict_, p) == (0.0, "equivalent", 1.0)
            if verdict_ in ("better", "worse"):
                assert p < 0.05
                assert (row["difference"] > 0) == (verdict_ == "better")
            if verdict_ == "equivalent":
                assert -design.get("margin", 0) <= low <= high <= design.get("margin", 0)
            if "would detect" in words:
                assert abs(row["difference"]) < row["smallest_detectable"]
            assert ("not enough data" in words) <= (p >= 0.05 and not leaves_out_zero)
            assert ("leaves out 0" in words) <= (p >= 0.05 and leaves_out_zero)
            if design["test"] == "t" and row["test"] != "exact sign flip":
                assert leaves_out_zero == (p < 0.05)
    assert verdicts == {"better", "worse", "equivalent", "unclear"} or len(verdicts) == 3


def test_copies_of_a_run_are_equivalent_though_sums_end_in_other_digits() -> None:
    """Values that differ by what adding in another order leaves."""
    copy = [x * (1 + 1e-15) for x in NEW]
    for design in ({}, {"paired": False}):
        row = compared({"old": NEW, "new": copy}, **design)["cg@1"]
        assert (row["difference"], row["p_adjusted"], row["verdict"]) == (0.0, 1.0, "equivalent")


# -- clusters and weights ---------------------------------------------------------------


def by_hand(d: Any, cluster: Any, weight: Any = None) -> tuple[float, float, int]:
    """The mean, its standard error by the delta method, and the number of clusters."""
    weight = np.ones(len(d)) if weight is None else weight
    names = np.unique(cluster)
    top = np.array([(d * weight)[cluster == name].sum() for name in names])
    bottom = np.array([weight[cluster == name].sum() for name in names])
    mean = top.sum() / bottom.sum()
    n = len(names)
    squares = ((top - mean * bottom) ** 2).sum() * n / (n - 1)
    return float(mean), float(np.sqrt(squares) / bottom.sum()), n


def test_days_of_a_query_are_one_cluster() -> None:
    queries = [f"q{i // 4}" for i in range(N)]
    days = [f"2026-01-0{i % 4 + 1}" for i in range(N)]
    rankings, labels = tables({"new": NEW, "old": OLD}, query_id=queries, ds=days)
    labels = labels.append_column("ds", pa.array([*days, *days]))
    comparison = sm.compare(rankings, labels, "cg@1", date="ds", baseline="old")
    d = np.array(NEW) - np.array(OLD)
    mean, error, n = by_hand(d, np.arange(N) // 4)
    row = comparison["cg@1"]
    assert (comparison.cluster, row["n"], n) == ("query_id", N, 10)
    assert row["difference"] == near(mean)
    assert (row["ci_high"] - row["ci_low"]) / 2 == near(error * 2.2621571627409915)
    assert "appears on several days is one cluster" in str(comparison)
    part = sm.compare(rankings, labels, "cg@1", date="ds", baseline="old", start="2026-01-02")
    assert part["cg@1"]["n"] == 30


@by_turns(0.8)
def test_slices_have_the_clusters_that_are_in_them() -> None:
    """A country of the queries is one of each cluster; one of the rankings may change by day."""
    queries, days = [f"q{i // 4}" for i in range(N)], [f"2026-01-0{i % 4 + 1}" for i in range(N)]
    d = np.array(NEW) - np.array(OLD)
    for name in ("queries", "rankings"):
        countries = [("DE", "FR")[(i // 4 if name == "queries" else i) % 2] for i in range(N)]
        facts = {"country": countries} if name == "rankings" else {}
        values = {"new": NEW, "old": OLD}
        rankings, labels = tables(values, query_id=queries, ds=days, **facts)
        labels = labels.append_column("ds", pa.array([*days, *days]))
        query_rows = [
            {"query_id": q, "country": c}
            for q, c in dict(zip(queries, countries, strict=True)).items()
        ]
        options = {"queries": pa.Table.from_pylist(query_rows)} if name == "queries" else {}
        comparison = sm.compare(
            rankings, labels, "cg@1", date="ds", baseline="old", by="country", **options
        )
        looks = comparison.executed_sql.count("group by system, cluster")
        assert looks == (1 if name == "queries" else 2), "one for both slices is enough, or is not"
        for country in ("DE", "FR"):
            in_country = np.array(countries) == country
            mean, error, n = by_hand(d[in_country], np.arange(N)[in_country] // 4)
            row = next(row for row in comparison.rows if row["segment_value"] == country)
            assert (row["difference"], row["n"]) == (near(mean), int(in_country.sum()))
            assert row["effect_size"] == near(mean / error / np.sqrt(n))


def test_any_column_makes_clusters_and_weights_count() -> None:
    users = [f"u{i // 3}" for i in range(N)]
    weights = [float(1 + i % 5) for i in range(N)]
    row = compared(
        {"new": NEW, "old": OLD},
        facts={"user_id": users, "traffic": weights},
        cluster="user_id",
        weight="traffic",
    )["cg@1"]
    d = np.array(NEW) - np.array(OLD)
    mean, error, n = by_hand(d, np.array(users), np.array(weights))
    assert row["difference"] == near(mean)
    assert row["effect_size"] == near(mean / error / np.sqrt(n))


# -- resampling -------------------------------------------------------------------------


POISSON = np.cumsum([np.exp(-1) / f for f in (1, 1, 2, 6, 24, 120, 720, 5040, 40320)]) * lots.PRIME
"""Below which lots a cluster stands 0, 1, 2 ... times in a replicate."""


def weights(n: int, count: int, seed: int) -> Any:
    """Poisson weights and signs of clusters in replicates, by the same arithmetic in numpy."""

    def cubes(numbers: Any, name: str) -> Any:
        roots = numbers + lots.key(seed, name)
        return roots * roots % lots.PRIME * roots % lots.PRIME

    number = np.arange(count, dtype=np.int64)
    cluster_lots = cubes(np.arange(1, n + 1, dtype=np.int64), "lot")
    replicate_lots = (
        np.outer(cubes(number, "factor"), cluster_lots) + cubes(number, "shift")[:, None]
    )
    return replicate_lots % lots.PRIME


def test_lots_are_as_good_as_numpy_s() -> None:
    """Means and quantiles of the bootstrap, and pairs of clusters, over many seeds."""
    chance = np.random.default_rng(1)
    d = chance.gamma(1, size=100) - 0.9
    summaries, numpy_summaries = [], []
    for seed in range(30):
        times = np.searchsorted(POISSON, weights(100, 1000, seed), side="right")
        for counts, into in ((times, summaries), (chance.poisson(1, (1000, 100)), numpy_summaries)):
            means = counts @ d / counts.sum(1)
            into.append([means.std(), *np.quantile(means, [0.025, 0.25, 0.75, 0.975])])
    error = np.std(numpy_summaries, 0) / np.sqrt(30)
    assert np.all(np.abs(np.mean(summaries, 0) - np.mean(numpy_summaries, 0)) < 5 * error)
    correlated = np.corrcoef(weights(60, 2000, 1).T) - np.eye(60)
    assert np.abs(correlated).max() < 5 / np.sqrt(2000)


@by_turns(1)
@pytest.mark.parametrize("test", ["randomization", "bootstrap"])
def test_resampling_is_numpy_s_within_its_error(test: str) -> None:
    new = [value - 0.035 for value in NEW]
    row = compared({"new": new, "old": OLD}, test=test, replicates=4000)["cg@1"]
    again = compared({"new": new, "old": OLD}, test=test, replicates=4000)["cg@1"]
    other = compared({"new": new, "old": OLD}, test=test, replicates=4000, seed=2)["cg@1"]
    # threads add in another order: the last digit may differ
    assert {name: pytest.approx(value, rel=1e-12) for name, value in again.items()} == row
    assert row["p_value"] != other["p_value"]
    d = np.array(new) - np.array(OLD)
    chance = np.random.default_rng(3)
    if test == "randomization":
        sums = (chance.choice([-1, 1], (20_000, N)) * d).sum(1)
        p = (np.abs(sums) >= abs(d.sum())).mean()
    else:
        order = sorted(range(N), key=lambda i: md5(f"1|q{i}".encode()).hexdigest())
        times = np.searchsorted(POISSON, weights(N, 4000, 1), side="right")
        exact = times @ d[order] / times.sum(1)
        assert row["ci_low"] == near(np.quantile(exact, 0.025))
        assert row["ci_high"] == near(np.quantile(exact, 0.975))
        means = d[chance.integers(0, N, (20_000, N))].mean(1)
        p = (np.abs(means - d.mean()) >= abs(d.mean())).mean()
        assert row["ci_low"] == pytest.approx(np.quantile(means, 0.025), abs=0.003)
        assert row["ci_high"] == pytest.approx(np.quantile(means, 0.975), abs=0.003)
    assert 0.02 < p < 0.2
    assert abs(row["p_value"] - p) < 4 * np.sqrt(p * (1 - p) / 4000)


def test_metrics_that_some_queries_have_no_value_of_are_drawn_with_their_own_weights() -> None:
    systems, undefined = {"new": NEW, "old": OLD}, "recall(rel=0.6)@1"
    alone = compared(systems, test="bootstrap")
    with_undefined = compared(systems, test="bootstrap", metrics=["cg@1", undefined])
    assert "all_weight" in alone.executed_sql
    assert "all_weight" not in with_undefined.executed_sql
    alone_row, joint_row = alone["cg@1"], with_undefined["cg@1"]
    assert [joint_row[name] for name in ("ci_low", "ci_high")] == [
        near(alone_row[name]) for name in ("ci_low", "ci_high")
    ]
    values = [[float(x >= 0.6), float(y >= 0.6)] for x, y in zip(NEW, OLD, strict=True)]
    d = np.array([(x - y) / (x + y) for x, y in values if x + y])
    row = with_undefined[undefined]
    assert (row["n"], row["difference"]) == (len(d), near(d.mean()))
    counts = np.random.default_rng(1).poisson(1, (20_000, len(d)))
    limits = np.quantile(counts @ d / counts.sum(1).clip(1), [0.025, 0.975])
    assert [row["ci_low"], row["ci_high"]] == pytest.approx(list(limits), abs=0.03)


def test_many_clusters_are_drawn_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = compared({"new": NEW, "old": OLD}, test="bootstrap")
    monkeypatch.setattr(lots, "EXACT", 10)
    monkeypatch.setattr(lots, "BUCKETS", 20)
    grouped = compared({"new": NEW, "old": OLD}, test="bootstrap")
    assert "20e0 * floor(number / 20e0)" in grouped.executed_sql
    exact_row, grouped_row = exact["cg@1"], grouped["cg@1"]
    assert exact_row["ci_low"] != grouped_row["ci_low"]
    assert grouped_row["ci_low"] == pytest.approx(exact_row["ci_low"], abs=0.015)


# -- engines ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", engines(OTHER_ENGINES, now=["sqlite", "postgres"]))
def test_engines_give_duckdb_s_sums_and_replicates(name: str, servers: Servers) -> None:
    country = ["DE" if i % 3 else "FR" for i in range(N)]
    user = [f"ü{i // 2}" for i in range(N)]
    systems = {"new": NEW, "old": OLD, "it's": [*OLD[:-3], None, 0.5, 0.5]}
    cases = (
        {"test": "t"},
        {"test": "wilcoxon"},
        {"test": "bootstrap", "by": "country", "cluster": "user_id", "contributions": True},
        {"test": "randomization", "cluster": "user_id"},
    )
    for case in cases:
        options: dict[str, Any] = {"facts": {"country": country, "user_id": user}, **case}
        with servers.open(name) as engine:
            database = Database(engine)
            engine_comparison = compared(systems, connection=database, **options)
        duckdb_comparison = compared(systems, **options)
        for row, duckdb_row in zip(
            (*engine_comparison.rows, *engine_comparison.contributions),
            (*duckdb_comparison.rows, *duckdb_comparison.contributions),
            strict=True,
        ):
            assert {k: pytest.approx(v, rel=1e-9, abs=1e-9) for k, v in duckdb_row.items()} == row


# -- hard cases -------------------------------------------------------------------------


def test_one_query_is_not_enough() -> None:
    row = compared({"new": [0.7], "old": [0.5]})["cg@1"]
    assert (row["n"], row["p_value"], row["ci_low"], row["verdict"]) == (1, None, None, "unclear")
    assert row["sentence"] == "cg@1 from 0.5 to 0.7: not enough data (1 query)"


@pytest.mark.parametrize("test", ["t", "wilcoxon", "bootstrap", "randomization"])
def test_all_ties_are_equivalent(test: str) -> None:
    comparison = compared({"new": OLD, "old": OLD}, test=test)
    row = comparison["cg@1"]
    assert (row["p_value"], row["difference"], row["ties"]) == (1.0, 0.0, N)
    assert (row["verdict"], row["smallest_detectable"]) == ("equivalent", None)
    assert "no query differs" in str(comparison)


@pytest.mark.parametrize("test", ["t", "bootstrap"])
def test_a_constant_difference_has_no_variance(test: str) -> None:
    """0.3 - 0.2 is not 0.2 - 0.1 to a computer; the p-value is that of changing places."""
    comparison = compared({"new": [0.2, 0.3, 0.4, 0.5], "old": [0.1, 0.2, 0.3, 0.4]}, test=test)
    row = comparison["cg@1"]
    assert (row["p_value"], row["test"]) == (0.125, "exact sign flip")
    assert row["ci_low"] == near(0.1)
    assert row["ci_high"] == near(0.1)
    assert (row["effect_size"], row["verdict"]) == (None, "unclear")
    many = compared({"new": [0.5] * 9, "old": [0.4] * 9})["cg@1"]
    assert (many["p_value"], many["verdict"]) == (2.0**-8, "better")


def test_small_differences_of_large_values_lose_no_digit() -> None:
    """Sums of squares would cancel: the values have 1e6 times the size of the differences."""
    old = [1000 + (i * 7 % 11) for i in range(N)]
    d = [1e-4 * (1 + sin(i)) for i in range(N)]
    row = compared({"new": [a + b for a, b in zip(old, d, strict=True)], "old": old})["cg@1"]
    assert row["effect_size"] == pytest.approx(np.mean(d) / np.std(d, ddof=1), rel=1e-7)


def test_queries_are_matched_by_their_ids_and_others_are_told() -> None:
    rankings, labels = tables({"new": NEW, "old": OLD})
    mixed = rankings.take(np.random.default_rng(1).permutation(rankings.num_rows))
    shuffled = sm.compare(mixed, labels, "cg@1", baseline="old")
    assert shuffled["cg@1"]["p_value"] == near(0.0003183490370627056)
    parts = {"new": [*NEW[:-2], None, None], "old": [None, *OLD[1:]]}
    comparison = compared(parts, missing="drop")
    row = comparison["cg@1"]
    assert (row["n"], row["n_system_only"], row["n_baseline_only"]) == (N - 3, 1, 2)
    assert row["value"] == near(np.mean(NEW[1:-2]))
    assert "2 queries of old are left out, since new has no value for them" in " ".join(
        str(comparison).split()
    )


def test_no_common_query_is_an_error() -> None:
    parts = {"new": [0.1, 0.2, None], "old": [None, None, 0.3]}
    with pytest.raises(sm.InputError, match=r"no query has a value of both old and another system"):
        compared(parts, missing="drop")


@by_turns(1)
def test_what_cannot_be_compared_is_refused_with_what_to_do() -> None:
    rankings, labels = tables({"new": NEW, "old": OLD})
    new_rankings = rankings.filter(pa.compute.equal(rankings["system"], "new"))

    def refused(
        match: str, *inputs: Any, error: type[Exception] = sm.SpecError, **options: Any
    ) -> None:
        with pytest.raises(error, match=match):
            sm.compare(*inputs, **options)

    refused("one system, new, and compare needs two", new_rankings, labels, "cg@1")
    refused("name the column of systems", new_rankings.drop_columns("system"), labels, "cg@1")
    refused("one system, a, and compare needs two", {"a": new_rankings}, labels, "cg@1")
    refused("unknown metric 'ndgc'; did you mean 'ndcg'", rankings, labels, "ndgc@3")
    nw = {"baseline": "nw", "error": sm.InputError}
    refused("unknown system 'nw'; did you mean 'new'", rankings, labels, "cg@1", **nw)
    refused("unknown test 'tt'", rankings, labels, "cg@1", test="tt")
    refused("level must be above 0 and below 1", rankings, labels, "cg@1", level=95)
    refused("margin must be 0 or more", rankings, labels, "cg@1", margin=-1)
    many = {f"s{i}": [1.0, 0.0] for i in range(8)}
    with pytest.raises(
        sm.SpecError, match="100 replicates are too few to show a difference: with 7"
    ):
        compared(many, baseline="s0", test="bootstrap", replicates=100)
    refused("replicates must be from 100", rankings, labels, "cg@1", test="bootstrap", replicates=5)
    refused("a number for all lists together", rankings, labels, "auc")
    refused("no column of dates", rankings, labels, "cg@1", start="2026-01-01")
    clusters = {"test": "wilcoxon", "cluster": "score"}
    refused("wilcoxon treats every query as independent", rankings, labels, "cg@1", **clusters)
    bad = labels.set_column(2, "grade", pa.array([None, *labels["grade"].to_pylist()[1:]]))
    refused("grade", rankings, bad, "cg@1", error=sm.InputError)


def test_lower_may_be_better_and_some_metrics_have_no_direction() -> None:
    rows = [("old", 1, 2), ("new", 2, 1)]
    rankings = pa.Table.from_pylist(
        [
            {"system": system, "query_id": q, "item_id": item, "score": float(score)}
            for q in range(30)
            for system, a, b in rows
            for item, score in (("hit", a + q % 2), ("miss", b), ("other", q % 3))
        ]
    )
    labels = pa.Table.from_pylist(
        [{"query_id": q, "item_id": "hit", "grade": 1} for q in range(30)]
    )
    comparison = sm.compare(rankings, labels, ["first_rank", "mrr"], baseline="old")
    assert comparison["first_rank"]["difference"] < 0 < comparison["mrr"]["difference"]
    assert {row["verdict"] for row in comparison} == {"better"}
    assert comparison["first_rank"]["wins"] == comparison["mrr"]["wins"] > 0
    assert "the first relevant item comes earlier" in comparison["first_rank"]["sentence"]


def test_verdicts() -> None:
    def verdict_of(
        interval: tuple[float, float], p: float, margin: float = 0, direction: int = 1
    ) -> str:
        mean = sum(interval) / 2
        return verdict(mean, interval, p, level=0.95, margin=margin, direction=direction)

    assert verdict_of((0.01, 0.03), 0.001) == "better"
    assert verdict_of((0.01, 0.03), 0.001, direction=-1) == "worse"
    assert verdict_of((0.01, 0.03), 0.001, direction=0) == "unclear"
    assert verdict_of((0.01, 0.03), 0.051) == "unclear"  # adjusted for many
    assert verdict_of((-0.01, 0.03), 0.2) == "unclear"
    assert verdict_of((-0.01, 0.03), 0.2, margin=0.03) == "equivalent"
    assert verdict_of((0.01, 0.03), 0.001, margin=0.03) == "equivalent"
    assert verdict_of((0.01, 0.03), 0.001, margin=0.02) == "better"
    assert verdict(None, None, None, level=0.95, margin=1, direction=1) == "unclear"


# -- what is shown, and where from ------------------------------------------------------


def test_it_prints_within_80_columns_and_as_rows() -> None:
    long = {"a system with a rather long name": NEW, "old": OLD, "<b>": OLD}
    comparison = compared(long, metrics=["cg@1", "ndcg(gain=linear)@10"], margin=0.2)
    text = str(comparison)
    assert max(map(len, text.splitlines())) <= 80
    assert "cg@1 from 0.4" in text
    assert comparison._repr_html_().count("<table>") == 1
    assert "&lt;b&gt;" in comparison._repr_html_()
    table = comparison.to_arrow()
    assert table.num_rows == len(comparison) == 4
    contract = (
        "metric, system, baseline, value, baseline_value, difference, relative, ci_low, ci_high, "
        "p_value, test, n, wins, ties, losses, smallest_detectable, verdict"
    )
    assert {*contract.split(", ")} <= {*table.column_names}
    assert comparison.to_pandas()["verdict"].tolist() == comparison.to_polars()["verdict"].to_list()
    with pytest.raises(KeyError, match="name one of its 2"):
        comparison["cg@1"]
    comparison_sql = comparison.executed_sql[
        comparison.executed_sql.index("-- one row per query and system: its values") :
    ]
    assert max(map(len, comparison_sql.splitlines())) <= 88


@by_turns(1)
def test_tables_side_by_side_and_a_spec_give_the_same(tmp_path: Path) -> None:
    rankings, labels = tables({"new": NEW, "old": OLD})
    wanted = sm.compare(rankings, labels, "cg@1", baseline="old").to_dicts()
    files: dict[str, Any] = {}
    for name in ("old", "new"):
        mine = rankings.filter(pa.compute.equal(rankings["system"], name)).drop_columns("system")
        if name == "new":  # by another name that is usual
            mine = mine.rename_columns({"query_id": "qid", "item_id": "item_id", "score": "score"})
        pq.write_table(mine, tmp_path / f"{name}.parquet")
        files[name] = mine
    pq.write_table(rankings, tmp_path / "all.parquet")
    pq.write_table(labels, tmp_path / "labels.parquet")
    assert sm.compare(files, labels, "cg@1").to_dicts() == wanted
    for words in (
        "all.parquet labels.parquet -m cg@1 --baseline old",
        "old.parquet new.parquet labels.parquet -m cg@1",
        "new=new.parquet old=old.parquet --labels labels.parquet -m cg@1 --baseline old",
    ):
        completed = sqlmetrics("compare", *words.split(), "-o", "json", folder=tmp_path)
        assert json.loads(completed.stdout) == wanted
    (tmp_path / "spec.yml").write_text(
        "rankings: {file: all.parquet, columns: {score: score, system: system}}\n"
        "labels: {file: labels.parquet}\nmetrics: [cg@1, num_q]\nbaseline: old\n"
    )
    completed = sqlmetrics("compare", "spec.yml", "-o", "json", folder=tmp_path)
    assert json.loads(completed.stdout) == wanted
    assert completed.stderr.startswith("note: num_q is not compared")
    counts = words.replace("cg@1", "num_q").split()
    completed = sqlmetrics("compare", *counts, folder=tmp_path, expect=2)
    assert completed.stderr.startswith("error: num_q is not compared: it is a count")
    for form, start in (
        ("latex", r"\begin{tabular}"),
        ("html", "<table>"),
        ("markdown", "| metric"),
    ):
        completed = sqlmetrics("compare", "spec.yml", "-o", form, folder=tmp_path)
        assert completed.stdout.startswith(start)
    sql = sqlmetrics("compare", "spec.yml", "--sql", folder=tmp_path).stdout
    assert re.search(r"^moments as \(", sql, re.MULTILINE)
    twice = ["old.parquet", "old.parquet", "labels.parquet", "-m", "cg@1"]
    completed = sqlmetrics("compare", *twice, folder=tmp_path, expect=2)
    assert "given twice" in completed.stderr


# -- intervals of a single mean ---------------------------------------------------------


def test_evaluate_gives_student_s_interval_of_a_mean_where_there_is_one() -> None:
    rankings, labels = tables({"new": NEW, "one": [0.5]})
    options: dict[str, Any] = {"system": "system", "missing": "drop"}
    metrics = ["cg@1", "num_ret", "recall(average=micro)@1"]
    result = sm.evaluate(rankings, labels, metrics, confidence=0.9, **options)
    rows = {(row["system"], row["metric"]): row for row in result.to_dicts()}
    row = rows["new", "cg"]
    reach = 1.6848751217112248 * np.std(NEW, ddof=1) / np.sqrt(N)
    assert row["ci_low"] == near(np.mean(NEW) - reach)
    assert row["ci_high"] == near(np.mean(NEW) + reach)
    other_lows = [row["ci_low"] for key, row in rows.items() if key != ("new", "cg")]
    assert other_lows == [None] * 5
    assert f"{row['value']:.4f} ±{reach:.4f}" in str(result)
    assert "± (ci_low to ci_high): the 90 % interval" in str(result)
    wide = result.to_pandas(wide=True).set_index("system")
    ends = [f"cg@1{end}" for end in ("", "_ci_low", "_ci_high")]
    assert list(wide.columns[:4]) == [*ends, "num_ret"]
    assert list(wide.loc["new", ends]) == [row[column] for column in ("value", "ci_low", "ci_high")]
    plain = sm.evaluate(rankings, labels, metrics, **options)
    assert list(plain.wide().column_names) == ["system", *metrics]
    assert "ci_low" not in plain.summary().column_names
    with pytest.raises(sm.SpecError, match="confidence must be above 0 and below 1"):
        sm.evaluate(rankings, labels, metrics, confidence=95)


@by_turns(2.3)
def test_its_sql_has_a_text_in_every_dialect(caplog: pytest.LogCaptureFixture) -> None:
    spec = sm.Spec(
        rankings={"relation": "a.r", "columns": {"score": "score", "system": "system"}},
        labels={"relation": "a.l"},
        metrics=["mrr"],
    )
    for name in DIALECTS:
        at = Translation(dialect_named(name))
        plan = make_plan(spec, tables_of(spec, at))
        pairing = Pairing(plan, plan.measures, ("b",), "a")
        resampling = Resampling(pairing, "bootstrap", seed=1, count=1000, n_clusters=200_000)
        covariate = Covariate("known", column="by_known")
        sampled = samples_query(Samples(plan, plan.measures, ("b",), "a", covariate=covariate))
        queries = (moments_query(pairing), ranks_query(pairing), resampling.query(), sampled)
        for stages, last in queries:
            text = at.text(with_stages([*plan.inputs, *plan.per_query, *stages], last))
            assert max(map(len, text.splitlines())) <= 100, name
    assert caplog.text == ""


def test_a_system_that_is_not_there_on_the_chosen_days_is_told_from_an_unknown_one() -> None:
    days = ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-05"]
    rows = [
        {"ds": day, "system": system, "query_id": query, "item_id": "i", "score": 1.0}
        for day in days
        for system in ("a", "old", "new")
        for query in ("q", "unlabelled")
        if (system != "old" or day < "2026-01-05") and (system != "new" or query == "unlabelled")
    ]
    rankings = pa.Table.from_pylist(rows)
    truth = pa.table({"query_id": ["q"], "item_id": ["i"], "grade": [1]})

    def refusal(name: str) -> str:
        with pytest.raises(sm.InputError) as failure:
            sm.compare(rankings, truth, "mrr", date="ds", start="2026-01-05", baseline=name)
        return str(failure.value)

    assert refusal("old") == (
        "this system has no list: old has no list on the chosen days; it has lists "
        "on 3 other days: 2026-01-01 to 2026-01-03; the chosen days have a, new"
    )
    assert "unknown system 'odl'" in refusal("odl")
    spec = sm.Spec(
        rankings={"data": rankings, "columns": {"system": "system", "date": "ds"}},
        labels={"data": truth},
        metrics=["mrr"],
        baseline="old",
    )
    with pytest.raises(sm.InputError, match="this system has no list: old has"):
        sm.compare(spec, start="2026-01-05")


@by_turns(2.0)
def test_requests_of_users_who_come_again_are_told(tmp_path: Path, monkeypatch: Any) -> None:
    """Until they are clustered by the user, which makes the interval wider here."""
    monkeypatch.chdir(tmp_path)
    sm.simulate("log", requests=300, users=30, queries=20, days=2)
    columns = {"request": "request_id", "item": "item_id", "user": "user_id"}
    impression_columns = {
        "query": "query",
        "position": "position",
        "system": "system",
        "time": "shown_at",
    }
    event_columns = {"action": "action", "time": "happened_at"}
    clicks = {
        "daily": True,
        "impressions": {
            "file": "log/impressions.parquet",
            "columns": {**columns, **impression_columns},
        },
        "events": {"file": "log/events.parquet", "columns": {**columns, **event_columns}},
        "labels": {"grades": {"click": 1, "add_to_cart": 2, "purchase": 3}},
    }
    spec = sm.Spec(name="ev", clicks=clicks, metrics=["ndcg@10"])
    apart = sm.compare(spec, unpaired=True)
    assert "use --cluster user_id to cluster by user" in " ".join(apart.notes)
    assert "appears on several days is one cluster" not in " ".join(apart.notes), (
        "a request belongs to one day"
    )
    together = sm.compare(spec, unpaired=True, cluster="user_id")
    assert "--cluster user_id" not in " ".join(together.notes)
    assert together["ndcg@10"]["difference"] == near(apart["ndcg@10"]["difference"])
