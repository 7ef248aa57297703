"""`fuse`: each method beside plain Python, ranx, and what search engines document."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
import yaml
from command import sqlmetrics
from conftest import peer
from engines.starting import Servers
from marked import by_turns, engines
from mixed import Run, fused

import sqlmetrics as sm
from sqlmetrics.engines.database import Database
from sqlmetrics.fusion.fuse import Question
from sqlmetrics.plan.fusion import FusionStages
from sqlmetrics.spec.mixture import METHODS, NORMS, OF_RANKS, RANK, Mixture
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.stage import with_stages

IDS = ("a", "B", "it's", "ü", "10", "9", "", "-x", "a b", "Ω")


def world(chance: random.Random, n_runs: int, n_queries: int = 6) -> dict[str, dict[str, Run]]:
    """Run -> query -> item -> score: ties, gaps, runs without a query, equal scores, odd ids."""
    return {
        f"run {number}'s": {
            f"q{query}": {
                item: chance.choice([-1.5, 0.0, 0.25, 1.0, 1.0, 7.5, chance.random()])
                for item in chance.sample(IDS, chance.randint(1, len(IDS)))
            }
            for query in range(n_queries)
            if number == 1 or chance.random() < 0.8
        }
        for number in range(1, n_runs + 1)
    }


def table(queries: Mapping[str, Run]) -> pa.Table:
    rows = [(query, item, score) for query, run in queries.items() for item, score in run.items()]
    names = ("query_id", "item_id", "score")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def check(result: sm.Fusion, runs: Mapping[str, Mapping[str, Run]], **settings: Any) -> int:
    """Compare each score and place with plain Python; how many were compared."""
    rows = result.to_dicts()
    queries = {query for run in runs.values() for query in run}
    assert {row["query_id"] for row in rows} == queries
    for query in queries:
        expected = fused([run.get(query, {}) for run in runs.values()], **settings)
        listed = [row for row in rows if row["query_id"] == query]
        assert {row["item_id"] for row in listed} == expected.keys()
        assert [row["rank"] for row in listed] == [*range(1, len(listed) + 1)]
        for row in listed:
            assert row["score"] == pytest.approx(expected[row["item_id"]], rel=1e-12, abs=1e-12)
        order = [(-row["score"], row["item_id"].encode()) for row in listed]
        assert order == sorted(order)
    return len(rows)


def settings_of(chance: random.Random, method: str, n_runs: int) -> dict[str, Any]:
    settings: dict[str, Any] = {"method": method}
    if method not in OF_RANKS:
        settings["norm"] = chance.choice([*NORMS])
    if method == "rrf":
        settings["k"] = chance.choice([0, 1, 60])
    if method != "turns" and chance.random() < 0.5:
        settings["weights"] = [chance.choice([0.0, 0.3, 1.0, 2.0]) + 0.1 for _ in range(n_runs)]
    if method not in ("med", "borda", "turns") and chance.random() < 0.3:
        settings["floor"] = chance.choice([0.5, 100.0])
    return settings


@by_turns(2)
def test_random_worlds_as_plain_python() -> None:
    chance, compared = random.Random(43), 0
    for method in METHODS:
        for n_runs in (2, chance.choice([3, 10])):
            runs, settings = world(chance, n_runs), settings_of(chance, method, n_runs)
            result = sm.fuse({name: table(run) for name, run in runs.items()}, **settings)
            compared += check(result, runs, **settings)
    assert compared > 800


@by_turns(1.5)
@pytest.mark.parametrize(
    "name",
    engines(["duckdb", "sqlite", "postgres", "chdb", "datafusion", "spark", "mariadb"],
            now=["sqlite"]),
)  # fmt: skip
def test_each_method_and_norm_on_each_engine(name: str, servers: Servers) -> None:
    """All of them, those of one norm in a query, and medians in another."""
    chance, weights, largest, compared = random.Random(7), (0.2, 1.0, 2.5), 0.0, 0
    runs = world(chance, 3, 4)
    names = (*runs,)
    tables = {run: table(queries) for run, queries in runs.items()}
    with (
        Database(servers.open(name)) as database,
        Question(tables, None, (None, None), {}).planned(database, check=False) as (plan, _),
    ):
        stages = FusionStages(plan, names)
        for norm in NORMS if name != "spark" else ("min_max", "z_score", "opensearch"):
            mixtures = [Mixture(method, norm, weights=weights) for method in METHODS
                        if method not in OF_RANKS]  # fmt: skip
            scored = [mixture for mixture in mixtures if mixture.method != "med"]
            columns = [f"{stages.scored(mixture)[2]} as s_{mixture.method}" for mixture in scored]
            joined = [*stages.joined([norm])]
            queries = [(scored, joined, columns, "joined_items")]
            medians = [mixture for mixture in mixtures if mixture.method == "med"]
            queries.append((medians, stages.fused(medians[0]), ["score as s_med"],
                            "fused_items"))  # fmt: skip
            if norm == "min_max":  # and those of ranks, once
                plain = [Mixture(m, weights=() if m == "turns" else weights) for m in OF_RANKS]
                points, source, _ = stages.scored(Mixture("borda"))
                columns = [f"{stages.scored(m)[2]} as s_{m.method}" for m in plain]
                queries.append((plain, [*stages.joined([RANK]), *points], columns, source))
            for batch, before, columns, source in queries:
                select = f"select query_id, item_id, {', '.join(columns)}\nfrom {source}"
                rows = database.records(with_stages(before, select))
                of_query = {row["query_id"]: [r for r in rows if r["query_id"] == row[
                    "query_id"]] for row in rows}  # fmt: skip
                for query, mixture in product(of_query, batch):
                    expected = fused([run.get(query, {}) for run in runs.values()],
                                     mixture.method, norm=norm, k=60,
                                     weights=mixture.weights)  # fmt: skip
                    scores = {r["item_id"]: r[f"s_{mixture.method}"] for r in of_query[query]}
                    assert scores.keys() == expected.keys()
                    for item, score in scores.items():
                        scale = max(1, abs(expected[item]))
                        largest = max(largest, abs(score - expected[item]) / scale)
                        compared += 1
    assert largest <= 1e-12
    assert compared > (2_000 if name != "spark" else 800)
    print(f"{name}: {compared:,} values, largest difference {largest:.1g}")


@by_turns(1)
@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres", "mariadb", "chdb", "spark"], now=["duckdb"])
)
def test_a_table_of_the_database(name: str, servers: Servers) -> None:
    """It is made, replaced whole, read again; and nothing else is lost."""
    chance = random.Random(3)
    runs = {name: table(run) for name, run in world(chance, 2).items()}
    with Database(servers.open(name)) as database:
        into = database.free_name("fused_runs")
        expected = sm.fuse(runs, connection=database)
        planned = sm.fuse(runs, into=into, dry_run=True, connection=database)
        assert database.find(into) is None
        assert planned.sql.startswith("create table")
        try:
            result = sm.fuse(runs, into=into, connection=database)
            assert len(result) == len(expected)
            assert result.table.num_rows == 0
            with pytest.raises(sm.SpecError, match="this table exists; replace its rows"):
                sm.fuse(runs, into=into, connection=database)
            stored = sorted(database.records(f"select * from {into}"), key=str)
            assert stored == sorted(expected.to_dicts(), key=str)
            once_more = {"into": into, "overwrite": True, "limit": 1, "connection": database}
            planned = sm.fuse(runs, **once_more, dry_run=True)
            assert "delete" in planned.sql or "replace" in planned.sql or "overw" in planned.sql
            assert database.count(into) == len(expected)
            n_queries = len({row["query_id"] for row in expected.to_dicts()})
            assert len(sm.fuse(runs, **once_more)) == n_queries == database.count(into)
            with pytest.raises(sm.SpecError, match="one of the inputs"):
                sm.fuse({"a": into, "b": runs["run 1's"]}, **once_more)
        finally:
            database.execute(f"drop table if exists {into}")
        check_days(database, into)
        database.execute(f"create view {into} as select 1 as query_id")
        try:
            with pytest.raises(sm.SpecError, match=f"into {into}: a (view|table) .*not replaced"):
                sm.fuse(runs, **once_more)
            if database.name == "DuckDB":
                with pytest.raises(sm.SpecError, match=r"a (view|table) .*not replaced"):
                    sm.fuse(runs, **{**once_more, "into": f"memory.{into}"})
            with pytest.raises(sm.SpecError, match="into must be the name of a table, given 3"):
                sm.fuse(runs, **{**once_more, "into": 3})
        finally:
            database.execute(f"drop view {into}")
        if name in ("duckdb", "postgres"):
            check_schemas(database)


def check_schemas(database: Database) -> None:
    """A table of the same name in another schema is no input that is written over."""
    rows = "select '{run}' as system, 1 as query_id, 'x' as item_id, 1e0 as score"
    runs = " union all ".join(rows.format(run=run) for run in ("bm25", "dense"))
    home = "main" if database.name == "DuckDB" else "public"
    statements = (
        "create schema mart",
        f"create table mart.mixed as {runs}",
        "create table mixed as select 1 as query_id",
    )
    for statement in statements:
        database.execute(statement)
    try:
        for path, refused in (
            (home, "a table of other columns"),
            ("mart", "one of the inputs"),
            (f"mart,{home}", "one of the inputs"),
        ):
            text = f"'{path}'" if home == "main" else path
            database.execute(f"set search_path = {text}")
            with pytest.raises(sm.SpecError, match=refused):
                sm.fuse("mart.mixed", into="mixed", connection=database, dry_run=True)
    finally:
        database.execute(f"drop schema mart cascade; drop table {home}.mixed")


def check_days(database: Database, into: str) -> None:
    """With a first and a last day, other days of the table stay."""
    rows = [{"query_id": "q", "item_id": item, "score": 1.0, "s": system, "ds": f"2026-01-0{day}"}
            for item in "ab" for system in "xy" for day in (1, 2, 3)]  # fmt: skip
    options = {"rankings": pa.Table.from_pylist(rows), "system": "s", "date": "ds", "into": into,
               "overwrite": True, "connection": database}  # fmt: skip
    sm.fuse(**options)
    texts = pa.Table.from_pylist([{**row, "ds": row["ds"].replace("03", "x3")} for row in rows])
    with pytest.raises(sm.InputError, match=r"ds is not a date in (4 rows|1 text)"):
        sm.fuse(**{**options, "rankings": texts, "start": "2026-01-02"})
    try:
        some = {**options, "start": "2026-01-02", "end": "2026-01-03", "limit": 1}
        if database.translation.dialect.writing.replace != "transaction":
            with pytest.raises(sm.SpecError, match="replaces all days of a table at once"):
                sm.fuse(**some)
            return
        assert len(sm.fuse(**some)) == 1
        counts = database.rows(
            f"select metric_date, count(*) as n\nfrom {into}\ngroup by metric_date\n"
            "order by metric_date asc"
        )
        assert [(str(day)[:10], int(n)) for day, n in counts] == [
            ("2026-01-01", 2), ("2026-01-02", 1), ("2026-01-03", 2)]  # fmt: skip
        columns = ", ".join(
            f"cast({name} as integer) as score" if name == "score" else name
            for name in database.columns(into)
        )
        database.execute(f"create table {into}_whole as select {columns} from {into}")
        with pytest.raises(sm.SpecError, match=r"its column score is .*make it DOUBLE"):
            sm.fuse(**{**options, "into": f"{into}_whole"})
        database.execute(f"drop table {into}_whole")
    finally:
        database.execute(f"drop table {into}")


@by_turns(1.5)
def test_each_dialect_reads_its_sql() -> None:
    """Of engines that are not at hand the text alone."""
    import sqlglot

    spec = sm.Spec(
        metrics="mrr",
        labels={"relation": "labels"},
        rankings={
            "relation": "rankings",
            "columns": {"system": "ranker", "date": "ds"},
            "fuse": [
                {"name": "a", "runs": ["x", "y"], "method": "borda"},
                {"name": "b", "runs": ["x", "y"], "norm": "z_score", "method": "med"},
                {"name": "c", "weights": {"x": 1, "y": 2}, "like": "opensearch", "window": 9},
            ],
        },
    )
    for dialect in ("trino", "bigquery", "snowflake", "redshift", "mysql"):
        text = sm.compile(spec, dialect=dialect)
        [tree] = sqlglot.parse(text, read=DIALECTS[dialect].grammar)
        names = {cte.alias.casefold() for cte in tree.find_all(sqlglot.exp.CTE)}
        assert {"joined_items", "joined_items_3", "median_items_2", "fused_rankings"} <= names


RANX = {
    "sum": "sum", "mnz": "mnz", "anz": "anz", "med": "med", "max": "max", "min": "min",
}  # fmt: skip
NORM_OF_RANX = {"min_max": "min-max", "max": "max", "sum": "sum", "z_score": "zmuv", "rank": "rank",
                "none": None}  # fmt: skip


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_ranx_live() -> None:
    """Each method and norm of ranx, on runs that have all queries, and no equal scores."""
    ranx, chance, compared, largest = peer("ranx"), random.Random(5), 0, 0.0
    runs = {
        name: {
            f"q{query}": {f"i{item}": chance.gauss(0, 3) for item in chance.sample(range(60), 40)}
            for query in range(30)
        }
        for name in ("bm25", "dense", "splade")
    }
    theirs = [ranx.Run(run, name=name) for name, run in runs.items()]
    ours = {name: table(run) for name, run in runs.items()}
    cells: list[tuple[dict[str, Any], str, str | None, dict[str, Any]]] = [
        ({"method": method, "norm": norm}, method, NORM_OF_RANX[norm], {})
        for method in RANX for norm in NORM_OF_RANX
    ]  # fmt: skip
    weights = [0.2, 0.5, 0.3]
    cells += [
        ({"method": "sum", "norm": norm, "weights": weights}, "wsum", NORM_OF_RANX[norm],
         {"weights": weights})
        for norm in NORM_OF_RANX
    ]  # fmt: skip
    cells += [({"method": "rrf", "k": k}, "rrf", None, {"k": k}) for k in (0, 1, 60)]
    cells += [
        ({"method": "borda"}, "bordafuse", None, {}),
        ({"method": "borda", "weights": weights}, "w_bordafuse", None, {"weights": weights}),
        ({"method": "isr"}, "isr", None, {}),
        ({"method": "log_isr"}, "log_isr", None, {}),
    ]
    for settings, method, norm, params in cells:
        their = ranx.fuse(theirs, norm=norm, method=method, params=params).to_dict()
        for row in sm.fuse(ours, **settings).to_dicts():
            difference = abs(row["score"] - their[row["query_id"]][row["item_id"]])
            largest, compared = max(largest, difference), compared + 1
    assert largest <= 1e-12
    assert compared > 60_000
    print(f"{len(cells)} methods, {compared:,} values, largest difference {largest:.1g}")


BM25 = {"q": {"d1": 8.0, "d2": 4.0, "d3": 0.0}}
KNN = {"q": {"d3": 0.9, "d1": 0.6, "d4": 0.5}}


@pytest.mark.parametrize(
    ("like", "weights", "expected"),
    [
        # OpenSearch: min-max of each clause, 0.001 for its lowest; weighted mean, absent counts 0
        ("opensearch", (0.3, 0.7), {"d3": 0.3 * 0.001 + 0.7, "d1": 0.3 + 0.7 * 0.25,
                                    "d2": 0.3 * 0.5, "d4": 0.7 * 0.001}),
        ("opensearch", (1, 1), {"d1": 1.25 / 2, "d3": 1.001 / 2, "d2": 0.25, "d4": 0.0005}),
        # Elasticsearch: linear retriever with minmax, a weighted sum
        ("elasticsearch", (2, 1.5), {"d1": 2 + 1.5 * 0.25, "d3": 1.5, "d2": 1.0, "d4": 0.0}),
        # rrf of both: 1 / (rank_constant + rank), absent counts nothing
        ("elasticsearch_rrf", None, {"d1": 1 / 61 + 1 / 62, "d3": 1 / 63 + 1 / 61, "d2": 1 / 62,
                                     "d4": 1 / 63}),
        ("opensearch_rrf", (0.7, 0.3), {"d1": 0.7 / 61 + 0.3 / 62, "d3": 0.7 / 63 + 0.3 / 61,
                                        "d2": 0.7 / 62, "d4": 0.3 / 63}),
        # Qdrant counts ranks from 0, with k = 2
        ("qdrant", None, {"d1": 1 / 2 + 1 / 3, "d3": 1 / 4 + 1 / 2, "d2": 1 / 3, "d4": 1 / 4}),
    ],
)  # fmt: skip
def test_formulas_of_search_engines(
    like: str, weights: tuple[float, ...] | None, expected: dict[str, float]
) -> None:
    result = sm.fuse({"bm25": table(BM25), "knn": table(KNN)}, like=like, weights=weights)
    scores = {row["item_id"]: row["score"] for row in result.to_dicts()}
    assert scores == pytest.approx(expected, rel=1e-14)


def ranked(*items: int) -> dict[str, Run]:
    return {"q": {str(item): -float(position) for position, item in enumerate(items)}}


@by_turns(1.2)
def test_worked_examples_of_qdrant_weaviate_and_elasticsearch() -> None:
    """Numbers that their sources and pages have, and the arithmetic behind them."""

    def scores(runs: list[dict[str, Run]], **settings: Any) -> dict[str, float]:
        named = {f"run{number}": table(run) for number, run in enumerate(runs)}
        return {row["item_id"]: row["score"] for row in sm.fuse(named, **settings).to_dicts()}

    three = [ranked(2, 1), ranked(1, 2, 3), ranked(5, 3, 1)]
    expected = {"1": 1.0833334, "2": 0.8333334, "3": 0.5833334, "5": 0.5}
    assert scores(three, like="qdrant") == pytest.approx(expected, abs=1e-7)
    # a weight divides the rank: 1 / (1 / 3 + 1) + 1 / (2 + 1), and 1 / (2 / 3 + 1) + 1 / (1 + 1)
    pair, weighted = [ranked(1, 2), ranked(2, 1)], {"like": "qdrant", "weights": [3, 1]}
    assert scores(pair, **weighted) == pytest.approx({"1": 3 / 4 + 1 / 3, "2": 3 / 5 + 1 / 2})
    alone = scores([ranked(1), ranked(2)], like="qdrant", weights=[1, 0])
    assert alone == {"1": 0.5, "2": 0.0}
    # [1, 8, 6, 11] is [0, 0.7, 0.5, 1]; of a list whose scores are equal each has the weight
    keyword = {"q": {"a": 1.0, "b": 8.0, "c": 6.0, "d": 11.0}}
    vector = {"q": {"a": 0.5, "e": 0.5}}
    expected = {"a": 0.7, "b": 0.3 * 0.7, "c": 0.3 * 0.5, "d": 0.3, "e": 0.7}
    relative = scores([keyword, vector], like="weaviate", weights=[0.3, 0.7])
    assert relative == pytest.approx(expected, rel=1e-14)
    # ranks from 0 below 60
    expected = {"1": 0.25 / 60 + 0.75 / 61, "2": 0.25 / 61 + 0.75 / 60}
    by_rank = scores(pair, like="weaviate_ranked", weights=[0.25, 0.75])
    assert by_rank == pytest.approx(expected, rel=1e-14)
    # rank_constant 1 and a window of 2; a list of equal scores keeps them with minmax
    expected = {"1": 1 / 2 + 1 / 3, "2": 1 / 3 + 1 / 2}
    rrf = scores([ranked(1, 2, 3), ranked(2, 1)], like="elasticsearch_rrf", k=1, window=2)
    assert rrf == pytest.approx(expected, rel=1e-14)
    linear = scores([keyword, vector], like="elasticsearch", weights=[2, 1])
    assert linear == pytest.approx({"a": 0.5, "b": 1.4, "c": 1.0, "d": 2.0, "e": 0.5})


@by_turns(3.1)
def test_sources_days_windows_and_what_is_refused(tmp_path: Path) -> None:
    rankings = pl.DataFrame(
        {
            "query_id": ["q"] * 6,
            "item_id": ["a", "b", "b", "c", "a", "c"],
            "score": [2.0, 1.0, 3.0, 1.0, 1.0, 2.0],
            "ranker": ["x", "x", "y", "y", "x", "y"],
            "ds": ["2026-01-01"] * 4 + ["2026-01-02"] * 2,
        }
    )
    result = sm.fuse(rankings, system="ranker", date="ds", limit=1)
    rows = [(str(row["metric_date"]), row["item_id"]) for row in result.to_dicts()]
    assert rows == [("2026-01-01", "b"), ("2026-01-02", "a")]
    assert len(sm.fuse(rankings, system="ranker", date="ds", start="2026-01-02")) == 2
    narrow = sm.fuse(rankings, system="ranker", date="ds", window=1, end="2026-01-02")
    assert [row["item_id"] for row in narrow.to_dicts()] == ["a", "b"]
    endless = rankings.with_columns(score=pl.col("score").replace(2.0, float("inf")))
    assert len(sm.fuse(endless, system="ranker", date="ds")) == len(
        sm.fuse(endless, system="ranker", date="ds", method="sum", norm="rank")
    )
    empty = rankings.filter(pl.col("ranker") == "x")
    for problem, arguments in {
        "two to ten runs": {"rankings": empty},
        "unknown run 'z'": {"runs": ["x", "z"]},
        "unknown method 'rff'; did you mean 'rrf'": {"method": "rff"},
        "did you mean 'min_max'": {"norm": "minmax"},
        "did you mean 'rrf'": {"method": ["rrf"]},
        "unknown run '3'": {"runs": 3},
        "3 weights for 2 runs": {"weights": [1, 2, 3]},
        "'y' has none": {"weights": {"x": 1}},
        "0 or more": {"weights": [1, -1]},
        "above 0": {"weights": [0, 0]},
        "turns has no weights": {"method": "turns", "weights": [1, 2]},
        "med has no floor": {"method": "med", "floor": 0},
        "window must be 1 or more, a whole number, given 0": {"window": 0},
        "window must be 1 or more, a whole number, given '3'": {"window": "3"},
        "window must be 1 or more, a whole number, given 2.5": {"window": 2.5},
        "limit must be 1 or more, a whole number, given true": {"limit": True},
        "k of rrf must be 0 or more, given '60'": {"k": "60"},
        "floor must be a finite number, given 'x'": {"floor": "x"},
        "finite numbers, 0 or more, given none": {"weights": [None, 1]},
        "finite numbers, 0 or more, given '1'": {"weights": {"x": 2, "y": "1"}},
        "in the order of the runs, given 'xy'": {"weights": "xy"},
        "in the order of the runs, given 0.5": {"weights": 0.5},
        "needs scores": {"method": "sum", "rank": "score", "check": False},
        "NaN": {"rankings": rankings.with_columns(score=float("nan"))},
        r"score is infinite in 6 rows, and cannot be fused\n.*-> .*fuse by ranks": {
            "rankings": rankings.with_columns(score=-float("inf")),
            "method": "sum",
        },
        "duplicate": {"rankings": pl.concat([rankings, rankings])},
        "NULL": {"rankings": rankings.with_columns(score=pl.lit(None, pl.Float64))},
    }.items():
        options = {"rankings": rankings, "system": "ranker", "date": "ds", **arguments}
        with pytest.raises((sm.SpecError, sm.InputError), match=f"(?is){problem}"):
            sm.fuse(**options)


@by_turns(1.1)
def test_the_command_line_writes_rankings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str, expect: int = 0) -> Any:
        return sqlmetrics(*words, folder=tmp_path, expect=expect)

    monkeypatch.chdir(tmp_path)
    for name, queries in (("bm25", BM25), ("knn", KNN)):
        pl.from_arrow(table(queries)).write_csv(f"{name}.csv")  # type: ignore[union-attr]
    pl.DataFrame({"query_id": ["q"], "item_id": ["d3"], "grade": [1]}).write_csv("labels.csv")
    run("fuse", "bm25.csv", "knn.csv", "--method", "sum", "--weights",
                      "bm25=.3,knn=.7", "--out", "fused.csv")  # fmt: skip
    assert sm.evaluate("fused.csv", "labels.csv", "mrr")["mrr"] == 1
    refused = run("fuse", "bm25.csv", "knn.csv", "--out", "knn.csv", expect=2)
    assert "this command reads it" in refused.stderr
    for _ in range(2):  # the same bytes may be written again
        run("fuse", "bm25.csv", "knn.csv", "--out", "fused.run")
    lines = (tmp_path / "fused.run").read_text()
    assert re.match(r"q Q0 \S+ 1 0\.\d{16,} rrf_k=60\n", lines)
    assert run("fuse", "bm25.csv", "knn.csv", "-o", "run", "--out", "-").stdout == lines
    by_run = sm.evaluate("fused.run", "labels.csv", "mrr, num_ret").to_dict()
    assert (
        by_run == sm.evaluate(sm.fuse(["bm25.csv", "knn.csv"]), "labels.csv", [*by_run]).to_dict()
    )
    (tmp_path / "mine.run").write_text(lines.replace("rrf_k=60", "mine"))
    refused = run("fuse", "bm25.csv", "knn.csv", "--out", "mine.run", expect=2)
    assert "not written by this command" in refused.stderr
    sweep = ("labels.csv", "--sweep", "-m", "mrr", "-o", "run")
    assert "a sweep is no ranking" in run("fuse", "bm25.csv", "knn.csv", *sweep, expect=2).stderr
    spaced = pl.read_csv("bm25.csv").with_columns(item_id=pl.lit("a b"), score=1.0).unique()
    spaced.write_csv("spaced.csv")
    refused = run("fuse", "spaced.csv", "knn.csv", "--out", "x.run", expect=2)
    assert "an id in a run cannot contain blanks, like 'a b'" in refused.stderr
    query = run("fuse", "bm25.csv", "knn.csv", "--sql").stdout
    assert sm.evaluate(query, "labels.csv", "mrr")["mrr"] == 0.5
    nightly = {
        "name": "fused",
        "rankings": {"sql": query},
        "labels": {"file": "labels.csv"},
        "metrics": ["mrr"],
        "output": {"relation": "facts"},
    }
    (tmp_path / "fused.yml").write_text(yaml.safe_dump(nightly))
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as database:
        database.execute("create table events as select 1")
    run("run", "fused.yml", "--db", "shop.duckdb")
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as database:
        assert database.execute("select system, value from facts").fetchall() == [("fused", 0.5)]
