"""Which offline metric to trust: by hand, beside numpy, and where there is little to go by."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm

TRUE_R = {"ndcg@10": 0.9, "mrr": 0.5, "abandonment": -0.6}


def row(experiment: object, metric: str, difference: float | None, error: float | None) -> Any:
    names = {"experiment": str(experiment), "metric": metric}
    return names | {"difference": difference, "standard_error": error}


def moved(metric: str, differences: Sequence[float], error: float) -> list[Any]:
    return [row(f"e{i}", metric, x, error) for i, x in enumerate(differences)]


def programme(n: int, seed: int = 3) -> list[Any]:
    """Experiments whose truth is known; errors and covariances of each kind."""
    chance, rows = random.Random(seed), []
    for i in range(n):
        effect = chance.gauss(0, 1)
        noise = chance.gauss(0, 0.5)
        rows.append(row(i, "ctr@5", effect + noise, 0.5) | {"covariance": None})
        for metric, r in TRUE_R.items():
            residual = math.sqrt(1 - r * r) * chance.gauss(0, 1)
            error = 0.3 + 0.1 * (i % 3)
            difference = (
                r * effect + residual + error * (0.6 * noise / 0.5 + 0.8 * chance.gauss(0, 1))
            )
            rows.append(row(i, metric, difference, error) | {"covariance": 0.6 * error * 0.5})
    return rows


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with sm.connect() as opened:
        yield opened


def foretold(rows: list[Any], connection: Any, online: str = "ctr@5", **options: Any) -> Any:
    options = {"replicates": 100, "connection": connection} | options
    return sm.foretell(pa.Table.from_pylist(rows), online, **options)


def test_numbers_are_those_of_a_calculation_by_hand(connection: Any) -> None:
    """Offline the error is 1/2, online it is 1."""
    rows = moved("mrr", [1, -1, 2, -2, 0], 0.5) + moved("ctr@5", [2, -1, 3, -4, 0], 1)
    result = foretold(rows, connection)
    (mrr,) = result
    assert mrr["correlation"] == pytest.approx(4.25 / math.sqrt(2.5 * 7.5))  # 17/4, 10/4, 30/4
    assert mrr["true_correlation"] == 1  # 4.25 / sqrt(2.25 * 6.5) = 1.11
    assert mrr["quality"] == 1
    assert mrr["sensitivity"] == 0.8  # 1 / 0.5 = 2 > 1.96
    assert (mrr["n_both_called"], mrr["n_agreeing"]) == (3, 3)  # 2, 3 and 4 are called online
    assert result.n_online_called == 3
    assert (result.verdict, mrr["verdict"]) == ("too few", "too few")
    assert result.reason.startswith("Too few experiments to say: 5, and it takes 20")
    rows = moved("mrr", [1, -1, 2, -2, 0], 0.5) + moved("ctr@5", [2, 1, 3, -4, -2], 1)
    (mrr,) = foretold(rows, connection)
    assert mrr["quality"] == pytest.approx(3.75 / math.sqrt(2.5 * 7.5))  # 15/4; 34/4 - 1
    assert mrr["true_correlation"] == pytest.approx(3.75 / math.sqrt(2.25 * 7.5))
    assert mrr["expected_agreement"] == pytest.approx(0.5 + math.asin(mrr["quality"]) / math.pi)


def test_numbers_are_those_of_numpy(connection: Any) -> None:
    np = pytest.importorskip("numpy")
    rows = programme(40)
    result = foretold(rows, connection, lower_is_better="abandonment")
    columns = {
        (name, key): np.array([effect[key] or 0 for effect in rows if effect["metric"] == name])
        for name in (*TRUE_R, "ctr@5")
        for key in ("difference", "standard_error", "covariance")
    }
    y, target_noise = columns["ctr@5", "difference"], 0.25
    covariances = {}
    for name in TRUE_R:
        sign = -1 if name == "abandonment" else 1
        x, error = columns[name, "difference"], columns[name, "standard_error"]
        (x_variance, xy), (_, y_variance) = np.cov(x, y)
        covariances[name] = xy - columns[name, "covariance"].mean()
        true_target = y_variance - target_noise
        estimates = result[name]
        true_variance = x_variance - (error**2).mean()
        for key, variance in (("quality", x_variance), ("true_correlation", true_variance)):
            expected = sign * covariances[name] / np.sqrt(variance * true_target)
            assert estimates[key] == pytest.approx(expected, rel=1e-12)
            assert estimates[f"{key}_low"] < estimates[key] < estimates[f"{key}_high"] <= 1
        assert estimates["correlation"] == pytest.approx(sign * np.corrcoef(x, y)[0, 1], rel=1e-12)
        called = abs(x / error) > statistics.NormalDist().inv_cdf(0.975)
        assert estimates["sensitivity"] == called.mean()
    observed = np.cov([columns[name, "difference"] for name in TRUE_R])
    weights = np.linalg.solve(observed, [*covariances.values()])
    weight_by_metric = {
        term["metric"]: term["weight"] for term in result.to_arrow("mixture").to_pylist()
    }
    assert [weight_by_metric[name] for name in TRUE_R] == pytest.approx([*weights], rel=1e-11)
    held_out = []
    stacked = np.array([columns[name, "difference"] for name in TRUE_R])
    shared = np.array([columns[name, "covariance"] for name in TRUE_R])
    for left_out in range(40):
        kept = np.arange(40) != left_out
        c = [
            np.cov(x, y[kept])[0, 1] - noise.mean()
            for x, noise in zip(stacked[:, kept], shared[:, kept], strict=True)
        ]
        w = np.linalg.solve(np.cov(stacked[:, kept]), c)
        held_out.append(
            (w @ (stacked[:, left_out] - stacked.mean(axis=1)), w @ shared[:, left_out])
        )
    values, noises = np.array(held_out).T
    expected = (np.cov(values, y)[0, 1] - noises.mean()) / np.sqrt(values.var(ddof=1) * true_target)
    assert result["(mixture)"]["quality"] == pytest.approx(expected, rel=1e-10)


def test_it_trusts_what_foretells(connection: Any) -> None:
    rows = programme(40)
    result = foretold(rows, connection)
    assert result.best["metric"] == "ndcg@10"
    assert result["mrr"]["verdict"] in ("close", "behind")
    assert result["abandonment"]["quality"] > 0, "less is better of it"
    assert sum(estimate["first_share"] for estimate in result.to_dicts()[:-1]) == pytest.approx(1)
    assert result["ndcg@10"]["is_pareto"]
    assert "less is better of abandonment" in str(result)
    assert result.reason.startswith("Trust ndcg@10 for ctr@5: quality 0.8")
    chance = random.Random(1)
    chance.shuffle(rows)
    assert foretold(rows, connection).to_dicts() == result.to_dicts(), "in any order of rows"
    again = foretold(programme(40), connection)
    assert again.to_dicts() == result.to_dicts()
    assert foretold(programme(40), connection, seed=2).to_dicts() != result.to_dicts()
    upper = foretold(programme(40), connection, "CTR@5", metrics="NDCG@10,mrr")
    assert [estimate["metric"] for estimate in upper] == ["ndcg@10", "mrr", "(mixture)"]
    flipped = foretold(programme(40), connection, lower_is_better=["ndcg@10"])
    assert flipped["ndcg@10"]["verdict"] == "opposed"


def test_what_says_nothing_has_no_number(connection: Any) -> None:
    """Equal everywhere, no more than noise, a copy of another one, and NULLs."""
    good = programme(24)
    copies = [
        effect
        | {"metric": "copy", "covariance": 10 * effect["covariance"]}
        | {name: 10 * effect[name] for name in ("difference", "standard_error")}
        for effect in good
        if effect["metric"] == "ndcg@10"
    ]
    noisy = [row(i, "noisy", 0.01 * (-1) ** i, 1.0) for i in range(24)]
    flat = [row(i, "flat", 0.25, 0.0) for i in range(24)]
    few = [row(i, "few", float(i), 0.1) for i in range(5)]
    nulls = [row(24, "mrr", None, 0.1), row(25, "mrr", 0.5, None)]
    result = foretold([*good, *copies, *noisy, *flat, *few, *nulls], connection)
    assert (result["flat"]["verdict"], result["flat"]["quality"]) == ("no effect", None)
    assert (result["flat"]["sensitivity"], result["flat"]["correlation"]) == (1, None)
    assert (result["noisy"]["verdict"], result["noisy"]["true_correlation"]) == ("no effect", None)
    assert (result["few"]["verdict"], result["few"]["n_experiments"]) == ("too few", 5)
    assert (result.verdict, result["few"]["first_share"]) == ("trust", None)
    text = str(result)
    assert "2 rows without a difference or a standard error left out: 24 mrr (None" in text
    assert "missing in some experiments: few" in text
    assert "not in the mixture, since others say the same: copy" in text
    assert [term["metric"] for term in result.to_arrow("mixture").to_pylist()] == [
        *("ndcg@10", "copy", "abandonment", "mrr")
    ]
    quiet = [
        effect | {"standard_error": 9.0} if effect["metric"] == "ctr@5" else effect
        for effect in good
    ]
    result = foretold(quiet, connection)
    assert result.verdict == "no effect"
    assert result.reason.startswith("Nothing to say: over 24 experiments")
    useless = [row(i, "useless", (-1.0) ** i, 0.1) for i in range(24)]
    online = [effect for effect in good if effect["metric"] == "ctr@5"]
    assert foretold([*online, *useless], connection).verdict == "none"


MESSAGES = {
    "duplicate": (
        [row(1, "mrr", 0.5, 0.1), row(1, "mrr", 0.25, 0.1)],
        "2 rows are of a metric that its experiment has several times: 1 mrr",
    ),
    "nan": ([row(1, "mrr", math.nan, 0.1)], "not finite, or a standard error below 0: 1 mrr (nan"),
    "infinite": ([row(1, "mrr", 0.5, math.inf)], "1 mrr (0.5, error inf); correct them"),
    "negative": ([row(1, "mrr", 0.5, -0.1)], "1 mrr (0.5, error -0.1)"),
    "unnamed": ([row(1, "mrr", 0.5, 0.1) | {"experiment": None}], "with NULL as the experiment"),
    "column": (
        [{"experiment": "e", "metric": "mrr", "difference": 1.0, "se": 0.1}],
        "unknown column 'standard_error'; known: difference, experiment, metric, se",
    ),
    "alone": (
        [{"metric": "mrr", "difference": 1.0, "standard_error": 0.1}],
        "unknown column 'experiment'; known: difference, metric, standard_error; or give one file",
    ),
    "online": ([row(1, "ctr@10", 0.5, 0.1)], "unknown metric 'ctr@5'; did you mean 'ctr@10'?"),
    "offline": ([row(1, "ctr@5", 0.5, 0.1)], "there is no offline metric beside 'ctr@5'"),
    "apart": (
        [row(1, "ctr@5", 0.5, 0.1), row(2, "mrr", 0.5, 0.1)],
        "no experiment has 'ctr@5' and an offline metric",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_is_wrong_is_said_with_an_example(name: str, connection: Any) -> None:
    rows, message = MESSAGES[name]
    with pytest.raises(sm.SqlmetricsError) as error:
        foretold(rows, connection)
    assert message in str(error.value)


def test_no_row_is_no_data(connection: Any) -> None:
    table = pa.Table.from_pylist([row(1, "mrr", 0.5, 0.1)]).slice(1)
    with pytest.raises(sm.NoDataError, match="no row of a difference"):
        sm.foretell(table, "ctr@5", connection=connection)


@by_turns(3)
def test_files_of_compare_are_experiments(tmp_path: Path) -> None:
    """Named after their files; several systems are several experiments, segments count once."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    labels = pa.table({"query_id": [*range(40)], "item_id": ["a"] * 40, "grade": [1] * 40})
    for number in range(3):
        chance = random.Random(number)
        lists = [
            {"system": system, "query_id": q, "item_id": item, "score": chance.random()}
            | {"country": "DE" if q % 2 else "FR"}
            for system in ("old", "new", "newer")[: 2 + (number == 2)]
            for q in range(40)
            for item in "abc"
        ]
        comparison = sm.compare(
            pa.Table.from_pylist(lists), labels, "mrr,hit@1", baseline="old", by="country"
        )
        table = comparison.to_arrow()
        assert table["standard_error"][0].as_py() > 0
        pyarrow.parquet.write_table(table, folder / f"{number}.parquet")
    command = ("foretell", f"{folder}/*.parquet", "--online", "mrr", "--replicates", "100")
    text = sqlmetrics(*command, folder=tmp_path).stdout
    assert "Too few experiments to say: 4, and it takes 20" in " ".join(text.split())
    files = sorted(map(str, folder.iterdir()))
    result = sm.foretell(dict(zip("abc", files, strict=True)), "mrr", replicates=100)
    assert result.n_experiments == 4
    assert "where segment_name = 'all'" in result.executed_sql
    assert result["hit@1"]["n_experiments"] == 4
    twice = sqlmetrics(*command[:2], *command[1:], folder=tmp_path, expect=2).stderr
    assert "is given twice" in twice


def test_tables_and_queries_are_read_where_they_are(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as shop:
        rows = pa.Table.from_pylist(programme(24))
        shop.execute("create table experiments as from rows")
    options = ("--online", "ctr@5", "--db", "shop.duckdb", "--replicates", "100")
    stored = sqlmetrics("foretell", "experiments", *options, "-o", "json", folder=tmp_path).stdout
    query = "select * from experiments where metric <> 'mrr'"
    chosen = sqlmetrics("foretell", query, *options, "-o", "csv", folder=tmp_path).stdout
    assert rows.num_rows
    assert '"metric": "ndcg@10", "verdict": "best"' in stored
    assert "ndcg@10,best" in chosen
    assert "mrr" not in chosen
