"""The stratified sample: drawn the same everywhere, unbiased, with intervals that cover."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from statistics import fmean, stdev

import duckdb
import pyarrow as pa
import pytest
from marked import by_turns, first

import sqlmetrics as sm
from sqlmetrics.annotation import estimate, estimator
from sqlmetrics.annotation.estimator import SampleMean, Stratum
from sqlmetrics.annotation.sample import Sample, allocate, draw
from sqlmetrics.engines.database import connect
from sqlmetrics.stats import student

pytestmark = by_turns(0.25)

COUNTRIES = {"de": 0.5, "fr": 0.3, "us": 0.2}


def population(n: int = 600, seed: int = 7) -> pa.Table:
    """Queries with a country, a heavy-tailed weight and a skewed value in [0, 1]."""
    chance = random.Random(seed)
    rows = []
    for i in range(n):
        country = chance.choices(list(COUNTRIES), list(COUNTRIES.values()))[0]
        value = chance.betavariate(4, 2) if country != "us" else chance.betavariate(1, 3)
        value = 0.0 if chance.random() < 0.05 else value
        weight = float(1000 // (i + 1) + 1)
        row = {"query_id": f"q{i}", "country": country, "weight": weight, "value": value}
        rows.append(row)
    return pa.Table.from_pylist(rows)


def spec_of(queries: pa.Table, **overrides: object) -> sm.Spec:
    """A spec of one ranked item a query."""
    items = pa.array(["a"] * queries.num_rows)
    scores = pa.array([1.0] * queries.num_rows)
    rankings = queries.append_column("item_id", items).append_column("score", scores)
    labels = pa.table({"query_id": queries["query_id"], "item_id": items, "grade": scores})
    columns = {"score": "score"} | (
        {"weight": "weight"} if "weight" in queries.schema.names else {}
    )
    options = {
        "rankings": {"data": rankings, "columns": columns},
        "labels": {"data": labels},
        "metrics": ["dcg@1"],
    }
    return sm.Spec(**options | overrides)


def drawn_in_python(
    queries: Sequence[dict[str, object]],
    strata: Sequence[object],
    sizes: dict[object, int],
    seed: int,
) -> list[int]:
    """What the SQL draws, in plain Python: the lowest md5(seed|query id) of each stratum."""
    by_stratum: dict[object, list[tuple[str, int]]] = {}
    for i, (row, stratum) in enumerate(zip(queries, strata, strict=True)):
        lot = hashlib.md5(f"{seed}|{row['query_id']}".encode()).hexdigest()
        by_stratum.setdefault(stratum, []).append((lot, i))
    return [i for s, lots in by_stratum.items() for _, i in sorted(lots)[: sizes[s]]]


def traffic_classes(rows: Sequence[dict[str, object]]) -> list[str]:
    """Head, torso and tail in plain Python."""
    total = sum(row["weight"] for row in rows)
    classes, above = {}, 0.0
    for row in sorted(rows, key=lambda row: (-row["weight"], row["query_id"])):
        third = min(int(3 * above / total), 2)
        classes[row["query_id"]] = ("head", "torso", "tail")[third]
        above += row["weight"]
    return [classes[row["query_id"]] for row in rows]


# drawing


def test_allocation_adds_up_and_gives_two_to_each() -> None:
    assert allocate([600, 300, 100, 1], 20, [600, 300, 100, 1]) == [11, 6, 2, 1]
    assert allocate([2, 2, 96], 10, [2, 2, 96]) == [2, 2, 6]
    assert allocate([3, 3], 100, [3, 3]) == [3, 3]  # all there are
    assert allocate([5, 5, 90], 12, [1, 1, 1]) == [4, 4, 4]
    assert allocate([2, 50], 40, [1.0, 0.0]) == [2, 38]  # no traffic left: the rest all the same
    with pytest.raises(
        sm.SpecError, match="needs 6 queries or more, two from each of the 3 strata"
    ):
        allocate([10, 10, 10], 5, [1, 1, 1])


def test_the_sample_is_the_one_that_plain_python_draws() -> None:
    queries = population()
    rows = queries.to_pylist()
    classes = traffic_classes(rows)
    strata = [(row["country"], c) for row, c in zip(rows, classes, strict=True)]
    sizes = Counter(strata)
    with connect() as engine:
        for seed in (1, 2, -3):
            sample = draw(spec_of(queries), engine, 60, by=["country"], traffic=True, seed=seed)
            counts = {row[0]: row[2] for row in _designs(sample)}
            mine = drawn_in_python(rows, strata, counts, seed)
            assert {rows[i]["query_id"] for i in mine} == set(sample.column("query_id"))
            assert {row[0]: row[1] for row in _designs(sample)} == sizes
            assert sum(counts.values()) == len(sample.rows) == 60
    for row in sample.of(("stratum_size", "sample_size", "probability", "sampling_weight")):
        assert row[2:] == (row[1] / row[0], row[0] / row[1])
    # the weights of the sample stand for all queries
    assert sum(sample.column("sampling_weight")) == pytest.approx(600, rel=1e-12)


def test_sqlite_draws_the_same_by_the_same_text() -> None:
    rows = [(*row.values(), "a", 1.0) for row in population(300).to_pylist()]
    names = ("query_id", "country", "weight", "value", "item_id", "score")
    make = "create table runs (query_id text, country text, weight real, value real, "
    make += "item_id text, score real)"
    spec = sm.Spec(
        rankings={"relation": "runs", "columns": {"score": "score", "weight": "weight"}},
        labels={"sql": "select 'q' as query_id, 'a' as item_id, 1 as grade"},
        metrics=["mrr"],
    )
    with duckdb.connect() as connection, connect(connection) as engine:
        columns = zip(names, zip(*rows, strict=True), strict=True)
        connection.register("runs", pa.table({name: list(column) for name, column in columns}))
        sample = draw(spec, engine, 40, by=["country"], traffic=True)
    other = sqlite3.connect(":memory:")
    other.create_function("md5", 1, lambda text: hashlib.md5(text.encode()).hexdigest())
    other.execute(make)
    other.executemany("insert into runs values (?, ?, ?, ?, ?, ?)", rows)
    _, select = sample.executed_sql.rstrip(";\n").split(";\n\n")
    assert tuple(other.execute(select).fetchall()) == sample.rows
    other.close()


def _designs(sample: Sample) -> set[tuple[object, int, int]]:
    rows = sample.of((*sample.strata_names, "stratum_size", "sample_size"))
    return {(row[:-2], *row[-2:]) for row in rows}


def test_the_same_seed_draws_the_same_and_another_another() -> None:
    queries = population(100)
    shuffled = queries.take(random.Random(1).sample(range(100), 100))
    with connect() as engine:
        first = draw(spec_of(queries), engine, 10)
        assert draw(spec_of(shuffled), engine, 10).rows == first.rows
        assert draw(spec_of(queries), engine, 10, seed=2).rows != first.rows


def test_a_larger_sample_holds_the_smaller() -> None:
    queries = population(100)
    with connect() as engine:
        few, many = (draw(spec_of(queries), engine, size) for size in (10, 20))
    assert set(few.column("query_id")) < set(many.column("query_id"))


def test_head_torso_and_tail() -> None:
    # traffic 6 3 1 1 1 = 12: the first third is below 4, the second below 8
    queries = pa.table({"query_id": list("abcde"), "weight": [6.0, 3.0, 1.0, 1.0, 1.0]})
    with connect() as engine:
        sample = draw(spec_of(queries), engine, 5, traffic=True)
    classes = dict(zip(sample.column("query_id"), sample.column("traffic"), strict=True))
    assert classes == {"a": "head", "b": "torso", "c": "tail", "d": "tail", "e": "tail"}
    assert set(sample.column("probability")) == {1.0}


def test_the_share_of_traffic() -> None:
    with connect() as engine:
        spec = spec_of(population())
        by_queries = draw(spec, engine, 60, traffic=True)
        by_traffic = draw(spec, engine, 60, traffic=True, share="traffic")
    head = [Counter(s.column("traffic"))["head"] for s in (by_queries, by_traffic)]
    assert head[0] == 2
    assert head[1] > head[0]


def test_days_are_a_part_of_the_query() -> None:
    rankings = pa.table(
        {
            "query_id": ["q", "q", "r"],
            "item_id": ["a", "a", "a"],
            "score": [1.0, 1.0, 1.0],
            "ds": [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 1)],
        }
    )
    labels = pa.table({"query_id": ["q", "r"], "item_id": ["a", "a"], "grade": [1, 2]})
    spec = sm.Spec(
        rankings={"data": rankings, "columns": {"score": "score", "date": "ds"}},
        labels={"data": labels},
        metrics=["cg@1"],
    )
    with connect() as engine:
        sample = draw(spec, engine, 3)
        checkup = estimate.estimate(spec, engine, Sample.read(_file(sample)))
    assert sample.of(("metric_date", "query_id")) == [
        (date(2026, 1, 1), "q"),
        (date(2026, 1, 1), "r"),
        (date(2026, 1, 2), "q"),
    ]
    assert checkup.table["value"].to_pylist() == [pytest.approx(4 / 3)]
    assert checkup.table["standard_error"].to_pylist() == [0.0]  # all were drawn


def _file(sample: Sample) -> Path:
    import tempfile

    path = Path(tempfile.mkdtemp()) / "sample.csv"
    path.write_text(str(sample), encoding="utf-8", newline="")
    return path


def test_a_sample_of_hostile_ids_reads_back(tmp_path: Path) -> None:
    ids = ['a,"b"', "=1+1", "007", "two\nlines", "cr\rcr", " spaces ", "ü€", "'x"]
    queries = pa.table({"query_id": ids, "country": ["=x", "y,z", *[None] * 6]})
    with connect() as engine:
        sample = draw(spec_of(queries), engine, 8, by=["country"])
        back = Sample.read(_file(sample))
        assert (back.names, back.rows) == (sample.names, sample.rows)
        checkup = estimate.estimate(spec_of(queries), engine, back, by=["country"])
    assert set(back.column("query_id")) == set(ids)
    values = dict(
        zip(*(checkup.table[n].to_pylist() for n in ("segment_value", "n_graded")), strict=True)
    )
    assert values == {"all": 8, "=x": 1, "y,z": 1, "(unknown)": 6}


def test_a_query_that_the_queries_table_lacks_is_drawn_too() -> None:
    query_table = pa.table({"query_id": ["a", "b"], "country": ["x", "x"]})
    queries = {"data": query_table, "columns": {"segments": ["country"]}}
    spec = spec_of(pa.table({"query_id": list("abc")})).having(queries=queries)
    with connect() as engine:
        sample = draw(spec, engine, 3, by=["country"])
    rows = list(sample.of(("query_id", "by_country")))
    assert rows == [("c", "(unknown)"), ("a", "x"), ("b", "x")]


def test_items_without_a_label_are_counted_in_the_sampled_lists_alone() -> None:
    ids = list("abcde")
    spec = spec_of(pa.table({"query_id": ids}))
    with connect() as engine:
        sample = draw(spec, engine, 3)
        sampled_query = sample.column("query_id")[0]
        item_ids = ["a" if query == sampled_query else "another" for query in ids]
        graded = pa.table({"query_id": [*ids, "f"], "item_id": [*item_ids, "a"], "grade": [1] * 6})
        labels = {"data": graded}
        checkup = estimate.estimate(spec.having(labels=labels), engine, sample)
        assert checkup.notes == ("2 of 3 items in the top 1 of the sampled lists have no label",)
        other_spec = spec_of(pa.table({"query_id": ["f"]}), labels=labels)
        assert estimate.estimate(other_spec, engine, sample).notes == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: rows[:-1],
            "2 queries were drawn, but the sample has 1 row; give all of them",
        ),
        (lambda rows: [*rows, rows[-1]], "the query d appears twice"),
        (lambda rows: [rows[0] | {"stratum_size": "x"}], "stratum_size is not a number: 'x'"),
        (
            lambda rows: [row | {"by_country": "z"} for row in rows[:1]] + rows[1:],
            "z: 2 queries were drawn, but",
        ),
        (lambda rows: [row | {"size": 1} for row in rows], "unknown column 'size'"),
        (
            lambda rows: [{k: v for k, v in row.items() if k != "stratum_size"} for row in rows],
            "the column stratum_size is missing",
        ),
    ],
)
def test_a_spoilt_sample_is_refused(tmp_path: Path, change: object, message: str) -> None:
    queries = pa.table({"query_id": list("abcd"), "country": ["x", "x", "y", "y"]})
    with connect() as engine:
        text = str(draw(spec_of(queries), engine, 4, by=["country"]))
    rows = change(list(csv.DictReader(io.StringIO(text))))
    path = tmp_path / "sample.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(sm.InputError, match=message):
        Sample.read(path)


def test_what_cannot_be_drawn() -> None:
    plain = pa.table({"query_id": ["a"]})
    odd = pa.table({"query_id": ["a", "b"], "weight": [1.0, None]})
    with connect() as engine:
        with pytest.raises(sm.SpecError, match="name its column as weight"):
            draw(spec_of(plain), engine, 1, traffic=True)
        with pytest.raises(sm.InputError, match="a missing or negative weight: 1"):
            draw(spec_of(odd), engine, 2)
        with pytest.raises(sm.InputError, match="no query to sample"):
            draw(spec_of(plain.slice(1)), engine, 1)


# estimating


def test_the_stratified_mean_by_hand() -> None:
    # Two strata of N = 6 and 4 with n = 3 and 2.
    # means 2 and 5, s^2 = 1 and 2: mean = (6 * 2 + 4 * 5) / 10 = 3.2
    # variance = (6 * 3 / 3 * 1 + 4 * 2 / 2 * 2) / 100 = (6 + 8) / 100 = 0.14
    # df = 14^2 / (6^2 / 2 + 8^2 / 1) = 196 / 82
    strata = [Stratum(6, [1.0, 2.0, 3.0]), Stratum(4, [4.0, 6.0])]
    mean = estimator.mean(strata)
    assert mean.value == pytest.approx(3.2, rel=1e-15)
    assert mean.standard_error == pytest.approx(math.sqrt(0.14), rel=1e-15)
    assert mean.df == pytest.approx(196 / 82, rel=1e-15)
    reach = student.critical(0.95, 196 / 82) * math.sqrt(0.14)
    assert (mean.low, mean.high) == (
        pytest.approx(3.2 - reach),
        pytest.approx(3.2 + reach),
    )
    assert (mean.counted, mean.n_drawn, mean.population) == (5, 5, 10)


def test_the_ratio_by_hand() -> None:
    # One stratum of N = 4, n = 2, (value, weight) = (1, 3), (0, 1): R = 3 / 4
    # residuals 3 (1 - R) = 0.75 and 1 (0 - R) = -0.75, s^2 = 1.125
    # variance = 4 * 2 / 2 * 1.125 / (2 * 4)^2 = 4.5 / 64
    mean = estimator.mean([Stratum(4, [1.0, 0.0], [3.0, 1.0])])
    assert mean.value == pytest.approx(0.75, rel=1e-15)
    assert mean.standard_error == pytest.approx(math.sqrt(4.5 / 64), rel=1e-15)


def test_queries_without_a_value_are_no_zeros() -> None:
    mean = estimator.mean([Stratum(3, [1.0, None, 0.5])])
    assert mean.value == pytest.approx(0.75, rel=1e-15)
    assert (mean.counted, mean.n_drawn) == (2, 3)
    nothing = estimator.mean([Stratum(3, [None, None])])
    assert nothing.value is None
    assert nothing.low is None


def test_equal_values_and_whole_strata_have_no_error() -> None:
    assert estimator.mean([Stratum(9, [1.0, 1.0])]).standard_error == 0
    complete = estimator.mean([Stratum(1, [0.25]), Stratum(3, [0.0, 0.5, 1.0])])
    assert (complete.value, complete.low, complete.high) == (0.4375, 0.4375, 0.4375)


def test_a_lonely_query_is_refused() -> None:
    with pytest.raises(sm.InputError, match="de, head: only 1 of 40 queries are graded"):
        estimator.mean([Stratum(40, [1.0], None, "de, head")])


# the promises: unbiased, and covering


def _strata(
    rows: Sequence[dict[str, float]],
    strata: Sequence[object],
    picked: Sequence[int],
    *,
    weighted: bool,
) -> list[Stratum]:
    sizes = Counter(strata)
    mine: dict[object, list[int]] = {}
    for i in picked:
        mine.setdefault(strata[i], []).append(i)
    return [
        Stratum(
            sizes[stratum],
            [rows[i]["value"] for i in members],
            [rows[i]["weight"] for i in members] if weighted else None,
        )
        for stratum, members in mine.items()
    ]


def _truth(rows: Sequence[dict[str, float]], *, weighted: bool) -> float:
    if not weighted:
        return fmean(row["value"] for row in rows)
    return fmean((row["value"] for row in rows), weights=[row["weight"] for row in rows])


def _seeded(seeds: int) -> Iterator[tuple[int, list[Stratum], float]]:
    """The strata that plain Python draws for each seed, and the truth."""
    rows = population().to_pylist()
    strata = [(r["country"], c) for r, c in zip(rows, traffic_classes(rows), strict=True)]
    counts = Counter(strata)
    names = sorted(counts)
    sample_sizes = allocate([counts[s] for s in names], 60, [counts[s] for s in names])
    sizes = dict(zip(names, sample_sizes, strict=True))
    for seed in range(seeds):
        picked = drawn_in_python(rows, strata, sizes, seed)
        yield seed, _strata(rows, strata, picked, weighted=False), _truth(rows, weighted=False)


def _unbiased(estimates: Sequence[SampleMean], truth: float) -> None:
    values = [mean.value for mean in estimates]
    bias, error = fmean(values) - truth, stdev(values) / len(values) ** 0.5
    print(f"bias {bias:.2e}, its standard error {error:.2e}, ratio {bias / error:.2f}")
    assert abs(bias) <= 2 * error
    # and the standard errors that it tells are those that it has
    reported = math.sqrt(fmean(mean.standard_error**2 for mean in estimates))
    assert reported == pytest.approx(stdev(values), rel=0.1)


@by_turns(0.7)
def test_unbiased_over_500_seeds() -> None:
    """The mean of 500 estimates is the truth, within two of its standard errors."""
    seeded = list(_seeded(500))
    _unbiased([estimator.mean(strata) for _, strata, _ in seeded], seeded[0][2])


@pytest.mark.long
def test_unbiased_over_500_seeds_drawn_by_the_sql() -> None:
    """The same with every sample drawn by DuckDB, and equal to that of plain Python."""
    queries = population()
    value = {row["query_id"]: row["value"] for row in queries.to_pylist()}
    spec, estimates = spec_of(queries), []
    with connect() as engine:
        for seed, expected, mean in _seeded(500):
            sample = draw(spec, engine, 60, by=["country"], traffic=True, seed=seed)
            grouped: dict[object, list[str]] = {}
            for *stratum, query in sample.of((*sample.strata_names, "stratum_size", "query_id")):
                grouped.setdefault(tuple(stratum), []).append(query)
            strata = [Stratum(s[-1], [value[q] for q in ids]) for s, ids in grouped.items()]
            estimates.append(estimator.mean(strata))
            assert estimates[-1].value == pytest.approx(estimator.mean(expected).value, rel=1e-12)
            truth = mean
    _unbiased(estimates, truth)


@by_turns(4)
@pytest.mark.parametrize("drawn", first(1, [(200, 0), (200, 1), (300, 0), (300, 1)]))
def test_intervals_cover_93_to_97_percent(drawn: tuple[int, int]) -> None:
    """2,000 samples of 200 and more of 2,000 queries, drawn as the SQL draws."""
    size, weighted = drawn[0], bool(drawn[1])
    rows = population(2000).to_pylist()
    if weighted:  # a tail that is not all one query: else every head is drawn whole
        rows = [row | {"weight": 1 + math.log(row["weight"])} for row in rows]
    strata = [(r["country"], c) for r, c in zip(rows, traffic_classes(rows), strict=True)]
    counts = Counter(strata)
    names = sorted(counts)
    sizes = dict(
        zip(
            names,
            allocate([counts[s] for s in names], size, [counts[s] for s in names]),
            strict=True,
        )
    )
    truth, hits, estimates = _truth(rows, weighted=weighted), 0, []
    chance = random.Random(1)
    members = {s: [i for i, stratum in enumerate(strata) if stratum == s] for s in names}
    for _ in range(2000):
        picked = [i for s in names for i in chance.sample(members[s], sizes[s])]
        mean = estimator.mean(_strata(rows, strata, picked, weighted=weighted))
        hits += mean.low <= truth <= mean.high
        estimates.append(mean.value)
    bias, error = fmean(estimates) - truth, stdev(estimates) / 2000**0.5
    print(f"coverage {hits / 20:.2f} %, bias {bias:.2e}, its standard error {error:.2e}")
    assert 0.93 <= hits / 2000 <= 0.97
    assert abs(bias) <= 3 * error
