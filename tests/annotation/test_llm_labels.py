"""Labels by a model and a few by people: right whatever the model is, and shorter if it is good."""

from __future__ import annotations

import csv
import io
import math
import random
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import covariance, fmean, stdev
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from documentation import ROOT
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.annotation import estimate, estimator, prediction_powered
from sqlmetrics.annotation.estimator import Stratum
from sqlmetrics.annotation.pair_frames import LlmLabels
from sqlmetrics.annotation.prediction_powered import PairedStratum
from sqlmetrics.annotation.sample import draw
from sqlmetrics.engines.database import connect
from sqlmetrics.stats import student

JUDGES: dict[str, Callable[[random.Random, int], int]] = {
    "good": lambda chance, grade: grade if chance.random() < 0.8 else chance.randrange(4),
    "biased": lambda chance, grade: min(3, grade + 1 + (chance.random() < 0.4)),
    "useless": lambda chance, grade: chance.randrange(4),
}
"""How a model grades what a person graded so."""


def worlds(judge: str, queries: int, systems: int, seed: int = 1) -> tuple[sm.Spec, sm.Spec]:
    """The evaluation by people's labels and by a model's; every system is a world of its own."""
    chance = random.Random(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("query_id", "system", "item_id", "score")}
    people, model, countries = [], [], {}
    for q, s in product(range(queries), range(systems)):
        level = chance.choice((0, 0, 1, 2, 3))
        countries[f"q{q}"] = ("de", "fr", "fr")[q % 3]
        for i in range(3):
            for name, value in zip(rows, (f"q{q}", f"s{s:04}", f"{s}-{i}", 3.0 - i), strict=True):
                rows[name].append(value)
            people.append(level if chance.random() < 0.5 else chance.randrange(4))
            model.append(JUDGES[judge](chance, people[-1]))
    table = pa.table(rows)
    query_table = pa.table({"query_id": list(countries), "country": list(countries.values())})
    specs = [
        sm.Spec(
            rankings={"data": table, "columns": {"score": "score", "system": "system"}},
            labels={"data": pa.table(keys(rows) | {"grade": grades})},
            queries={"data": query_table, "columns": {"segments": ["country"]}},
            metrics=["dcg@3"],
        )
        for grades in (people, model)
    ]
    return specs[0], specs[1]


def keys(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: rows[name] for name in ("query_id", "item_id")}


# -- one stratum, three sources --------------------------------------------------------------


def test_the_mean_is_that_of_ppi_py() -> None:
    """Of ppi-python 0.2.3, where the model's queries are the others alone.

    `ppi_mean_pointestimate(Y, F[:6], F[6:], lam=lam)` with lam = (20 - 6) / 20 of ours, since
    our mean by the model holds the six queries of people too.
    """
    model = [((7 * i) % 20) / 20 for i in range(20)]
    people = [0.1, 0.5, 0.6, 0.0, 0.7, 0.9]
    for weight, expected in PPI_PY.items():
        estimated_mean = prediction_powered.mean(
            [PairedStratum(Stratum(10**6, people), model[:6], 20, sum(model), 20.0)],
            llm_weight=weight,
        )
        assert estimated_mean.estimate.value == pytest.approx(expected, abs=1e-12)


PPI_PY = {1.0: 0.5666666666666667, 0.5: 0.5166666666666666}


def test_the_variance_by_hand() -> None:
    # N = 8, m = 4, n = 2; people 1 and 0, the model 0.5 and 0.25 of them and 0.5 of all four
    # value = 0.5 + 1 (0.5 - 0.375) = 0.625; s^2(u) = 0.5, u - v = 0.375 and -0.375: 0.03125 x 9
    # variance = (1/2 - 1/4) 0.28125 ... of the differences 0.5 and -0.25: s^2 = 0.28125
    # + (1/4 - 1/8) 0.5
    estimated_mean = prediction_powered.mean(
        [PairedStratum(Stratum(8, [1.0, 0.0]), [0.5, 0.25], 4, 2.0, 4.0)], llm_weight=1
    )
    assert estimated_mean.estimate.value == pytest.approx(0.625, rel=1e-15)
    assert estimated_mean.estimate.standard_error**2 == pytest.approx(0.25 * 0.28125 + 0.125 * 0.5)
    assert estimated_mean.gain == pytest.approx(
        (1 / 2 - 1 / 8) * 0.5 / (0.25 * 0.28125 + 0.125 * 0.5)
    )
    assert (estimated_mean.llm_value, estimated_mean.llm_weight, estimated_mean.n_llm) == (
        0.5,
        1,
        4,
    )
    # two queries leave no freedom for a weight of their own: the model's labels are left out
    alone = prediction_powered.mean(
        [PairedStratum(Stratum(8, [1.0, 0.0]), [0.5, 0.25], 8, 4.0, 8.0)]
    )
    assert (alone.llm_weight, alone.gain) == (0, 1)
    assert alone.estimate == estimator.mean([Stratum(8, [1.0, 0.0])])


@by_turns(0.6)
def test_the_sql_of_a_page_gives_the_estimate() -> None:
    """From the values of the queries, by DuckDB's own regression and by plain Python."""
    people, model = worlds("good", 60, 2)
    with connect() as engine:
        sample = draw(people, engine, 30)
        estimates = estimate.estimate(people, engine, sample, llm=LlmLabels(model)).table
    ours, theirs = (values(spec) for spec in (people, model))
    sampled = pa.table({"query_id": sample.column("query_id")})
    page = (ROOT / "docs" / "labelling.md").read_text(encoding="utf-8")
    query = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[-1]
    for row in estimates.to_pylist():
        by_people, by_model = (
            {q: v for s, q, v in rows_of(table) if s == row["system"]} for table in (ours, theirs)
        )
        sampled = {q: by_people[q] for q in sample.column("query_id")}
        with duckdb.connect() as connection:
            for name, of in (("people", sampled), ("llm", by_model)):
                table = pa.table({"query_id": list(of), "value": list(of.values())})
                connection.register(name, table)
            value, error = connection.sql(query).fetchall()[0]
        assert row["value"] == pytest.approx(value, abs=1e-12)
        assert row["standard_error"] == pytest.approx(error, abs=1e-12)
        assert row["df"] == pytest.approx(28)
        reach = student.critical(0.95, 28) * error
        assert row["ci_low"] == pytest.approx(value - reach, abs=1e-9)
        assert row["llm_value"] == pytest.approx(fmean(by_model.values()), abs=1e-12)
        x, y = ([of[q] for q in sampled] for of in (by_model, by_people))
        slope = covariance(x, y) / covariance(x, x)
        assert row["llm_weight"] == pytest.approx(slope, abs=1e-12)
        shift = fmean(by_model.values()) - fmean(x)
        assert value == pytest.approx(fmean(y) + slope * shift, abs=1e-12)


def values(spec: sm.Spec) -> pa.Table:
    """The values of all queries."""
    columns = {"score": "score", "system": "system"}
    return sm.evaluate(spec.rankings.data, spec.labels.data, "dcg@3", **columns).per_query()


def rows_of(table: pa.Table) -> list[tuple[str, str, float]]:
    """(System, query, value)."""
    columns = ("system", "query_id", table.column_names[-1])
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


# -- what holds for every model --------------------------------------------------------------


def random_strata(chance: random.Random) -> list[tuple[PairedStratum, list[Any], list[Any]]]:
    """Strata with traffic and queries without a value, and all of their values."""
    strata = []
    for name in ("de", "fr"):
        size, m, n = 40, 25, chance.randrange(3, 20)
        mine = [None if chance.random() < 0.1 else chance.random() for _ in range(size)]
        model = [None if value is None else value**2 + chance.random() / 9 for value in mine]
        weights = [float(chance.randrange(1, 5)) for _ in range(size)]
        counted = [(w * v, w) for w, v in zip(weights[:m], model[:m], strict=True) if v is not None]
        people = Stratum(size, mine[:n], weights[:n], name)
        sums = [sum(pair[i] for pair in counted) for i in (0, 1)]
        strata.append((PairedStratum(people, model[:n], m, *sums), mine, weights))
    return strata


def test_without_weight_it_is_the_estimate_by_people() -> None:
    for seed in range(20):
        strata = [stratum for stratum, _, _ in random_strata(random.Random(seed))]
        alone = estimator.mean([stratum.people for stratum in strata])
        estimated_mean = prediction_powered.mean(strata, llm_weight=0)
        assert estimated_mean.gain == pytest.approx(1)
        for name in ("value", "standard_error", "low", "high"):
            expected = getattr(alone, name)
            assert getattr(estimated_mean.estimate, name) == pytest.approx(expected, abs=1e-12)
        best = prediction_powered.mean(strata)
        near = [best.llm_weight + step for step in (-0.2, 0.2)]
        errors = [prediction_powered.mean(strata, llm_weight=w) for w in (best.llm_weight, *near)]
        least, *larger_errors = (candidate.estimate.standard_error for candidate in errors)
        assert least < min(larger_errors)


def test_a_model_that_errs_by_a_factor_knows_the_mean_of_all() -> None:
    """And a shift of all its values changes nothing."""
    chance = random.Random(4)
    mine = [chance.random() for _ in range(50)]
    for factor, shift in ((1.0, 0.0), (0.5, 0.3), (-2.0, 1.0)):
        model = [factor * value + shift for value in mine]
        stratum = PairedStratum(Stratum(50, mine[:9]), model[:9], 50, sum(model), 50.0)
        estimated_mean = prediction_powered.mean([stratum])
        assert estimated_mean.llm_weight == pytest.approx(1 / factor)
        assert estimated_mean.estimate.value == pytest.approx(fmean(mine), abs=1e-12)
        assert estimated_mean.estimate.standard_error == pytest.approx(0, abs=1e-7)


def test_a_model_without_an_opinion_is_left_out() -> None:
    alone = estimator.mean([Stratum(9, [1.0, 0.0, 0.5])])
    for model, sums in (([1.0, 1.0, 1.0], (9.0, 9.0)), ([None, None, None], (0.0, 0.0))):
        for weight in (None, 1.0):
            stratum = PairedStratum(Stratum(9, [1.0, 0.0, 0.5]), model, 9, *sums)
            estimated_mean = prediction_powered.mean([stratum], llm_weight=weight)
            assert estimated_mean.gain == pytest.approx(1)
            assert estimated_mean.estimate.value == alone.value
            assert estimated_mean.estimate.standard_error == pytest.approx(alone.standard_error)
    nothing = PairedStratum(Stratum(9, [None, None]), [1.0, 0.0], 9, 4.0, 9.0)
    assert prediction_powered.mean([nothing]).estimate.value is None
    with pytest.raises(sm.InputError, match="2 queries labelled by people are missing among the 1"):
        prediction_powered.mean([PairedStratum(Stratum(9, [1.0, 0.0]), [1.0, 0.0], 1, 1.0, 1.0)])


# -- 1,000 worlds ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("judge", "of_model"), list(product(JUDGES, (250, None))))
def test_intervals_cover_93_to_97_percent(judge: str, of_model: int | None) -> None:
    """Whatever the model is: people labelled 100 of 400 queries, the model 250 or all."""
    people, model = worlds(judge, 400, 1000)
    with connect() as engine:
        sample = draw(people, engine, 100, by=["country"])
        theirs = draw(people, engine, of_model, by=["country"]) if of_model else None
        checkup = estimate.estimate(people, engine, sample, llm=LlmLabels(model, theirs))
    sums: dict[str, float] = {}
    for system, _, value in rows_of(checkup.result.per_query()):
        sums[system] = sums.get(system, 0.0) + value
    rows = checkup.table.to_pylist()
    assert [row["system"] for row in rows] == sorted(sums)
    hits = sum(row["ci_low"] <= sums[row["system"]] / 400 <= row["ci_high"] for row in rows)
    errors = [row["value"] - sums[row["system"]] / 400 for row in rows]
    reported = math.sqrt(fmean(row["standard_error"] ** 2 for row in rows))
    gain, weight = (fmean(row[name] for row in rows) for name in ("gain", "llm_weight"))
    print(
        f"{judge}, {of_model or 'all'}: coverage {hits / 1000:.1%}, bias {fmean(errors):.1e}, "
        f"spread {stdev(errors):.1e}, told {reported:.1e}, lambda {weight:.2f}, gain {gain:.2f}"
    )
    assert 0.93 <= hits / 1000 <= 0.97
    assert abs(fmean(errors)) <= 3 * stdev(errors) / 1000**0.5
    assert reported == pytest.approx(stdev(errors), rel=0.05)
    assert (gain > 1.3) == (judge != "useless")


# -- the command line ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a small world, a sample of it, and both labels in one file."""
    path = tmp_path_factory.mktemp("llm")
    people, model = worlds("good", 40, 2)
    both_labels = people.labels.data.append_column("llm", model.labels.data["grade"])
    tables = {"runs": people.rankings.data, "labels": people.labels.data, "both": both_labels}
    tables |= {"llm": model.labels.data, "queries": people.queries.data}
    for name, table in tables.items():
        pq.write_table(table, path / f"{name}.parquet")
    (path / "s.yml").write_text(
        "version: 1\nrankings: {file: runs.parquet, columns: {score: score, system: system}}\n"
        "labels: {file: labels.parquet}\nmetrics: [dcg@3]\n"
        "queries: {file: queries.parquet, columns: {segments: [country]}}\n"
    )
    for size in (12, 24):
        line = f"sample s.yml --size {size} --by country --out {size}.csv"
        sqlmetrics(*line.split(), folder=path)
    return path


def estimated(folder: Path, line: str, expect: int = 0) -> str:
    """What `estimate` prints."""
    completed = sqlmetrics("estimate", *line.split(), folder=folder, expect=expect)
    return completed.stderr if expect else completed.stdout


@by_turns(0.9)
def test_labels_of_a_model_stand_in_a_table_or_a_column(folder: Path) -> None:
    table = estimated(folder, "s.yml 12.csv --llm-labels llm.parquet --by country -o csv")
    column = "s.yml 12.csv --labels both.parquet --llm-grade llm --by country -o csv"
    assert estimated(folder, column) == table
    rows = list(csv.DictReader(io.StringIO(table)))
    assert list(rows[0])[-5:] == ["llm_value", "llm_weight", "gain", "n_llm", "n_saved"]
    assert [row["segment_value"] for row in rows] == ["all", "de", "fr"] * 2
    assert [row["n_llm"] for row in rows] == ["40", "14", "26"] * 2
    printed = estimated(folder, "s.yml 12.csv --llm-labels llm.parquet")
    assert printed.splitlines()[0].split()[-4:] == ["llm", "lambda", "gain", "saved"]
    plain = "s.yml 12.csv --llm-labels llm.parquet --llm-sample 24.csv --llm-weight 0 -o csv"
    alone = list(csv.DictReader(io.StringIO(estimated(folder, "s.yml 12.csv -o csv"))))
    for mine, row in zip(csv.DictReader(io.StringIO(estimated(folder, plain))), alone, strict=True):
        assert (mine["n_llm"], mine["llm_weight"]) == ("24", "0.0")
        assert float(mine["ci_low"]) == pytest.approx(float(row["ci_low"]), abs=1e-12)


@by_turns(0.6)
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("s.yml 24.csv --llm-labels llm.parquet --llm-sample 12.csv", "12 of 24 sampled queries"),
        ("s.yml 12.csv --llm-sample 24.csv", "--llm-labels FILE, or --llm-grade COLUMN"),
        (
            "s.yml 12.csv --llm-labels llm.parquet -m recall@3",
            "computed from all labels of a query",
        ),
        ("s.yml 12.csv --llm-labels few.parquet", "the model's labels: 39 of 40 sampled queries"),
        ("more.yml 12.csv --llm-labels llm.parquet", "14 queries when the sample was drawn"),
        (
            "s.yml 12.csv --llm-labels llm.parquet --llm-sample all.csv",
            "the model's sample by query_id;",
        ),
    ],
)
def test_what_a_model_s_labels_cannot_say_is_refused(folder: Path, line: str, message: str) -> None:
    pq.write_table(pq.read_table(folder / "llm.parquet").slice(0, 3), folder / "few.parquet")
    fewer = "columns: {score: score, system: system}, where: query_id = 'q0'}"
    spec = (folder / "s.yml").read_text()
    (folder / "more.yml").write_text(
        spec.replace("columns: {score: score, system: system}}", fewer)
    )
    (folder / "all.csv").write_text("query_id,stratum_size,sample_size\nq0,1,1\n")
    assert message in estimated(folder, line, expect=2)


@by_turns(0.3)
def test_people_s_grades_in_the_model_s_labels_are_told(folder: Path) -> None:
    line = ["estimate", "s.yml", "12.csv", "--llm-labels", "labels.parquet"]
    assert "the intervals are too short" in sqlmetrics(*line, folder=folder).stderr
