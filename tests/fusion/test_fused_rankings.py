"""`rankings: {fuse: ...}` of a spec: fused systems beside what they are made of, or alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, engines
from mixed import fused

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened

DAYS = ("2026-01-01", "2026-01-02")
RUNS = ("bm25", "dense", "it's")
ITEMS = [f"i{number}" for number in range(12)]
FUSE: list[dict[str, Any]] = [
    {"name": "hybrid", "like": "opensearch", "weights": {"bm25": 0.3, "dense": 0.7}},
    {"name": "it's all", "runs": [*RUNS], "k": 10, "window": 4, "limit": 5},
]
COLUMNS = {"query": "q", "item": "doc", "score": "s", "system": "ranker", "date": "ds"}


def rows_of(chance: random.Random) -> list[dict[str, Any]]:
    """Runs of two days; one lacks a day, and each some queries."""
    return [
        {"ds": day, "ranker": run, "q": f"q{query}", "doc": item, "s": chance.random(),
         "country": "de" if query % 2 else "fr", "age": query}
        for day in DAYS for run in RUNS if (day, run) != (DAYS[1], "it's")
        for query in range(6) if chance.random() < 0.9
        for item in chance.sample(ITEMS, 6)
    ]  # fmt: skip


def with_fused(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with those of what they are fused to, by plain Python."""
    result = [*rows]
    for day, query in {(row["ds"], row["q"]): 0 for row in rows}:
        lists: dict[str, dict[str, float]] = {run: {} for run in RUNS}
        for row in rows:
            if (row["ds"], row["q"]) == (day, query):
                lists[row["ranker"]][row["doc"]] = row["s"]
                facts = {"country": row["country"], "age": row["age"]}
        top = [dict(sorted(run.items(), key=lambda pair: -pair[1])[:4]) for run in lists.values()]
        pair = [lists["bm25"], lists["dense"]]
        scores = {
            "hybrid": fused(pair, "mean", norm="opensearch", weights=[0.3, 0.7]),
            "it's all": fused(top, "rrf", k=10),
        }
        for name, items in scores.items():
            best = sorted(items.items(), key=lambda pair: (-pair[1], pair[0]))
            for item, score in best[: 5 if name != "hybrid" else None]:
                result.append(
                    {"ds": day, "ranker": name, "q": query, "doc": item, "s": score, **facts}
                )
    return result


def labels_of(chance: random.Random) -> pa.Table:
    grades = [
        {"query_id": f"q{query}", "item_id": item, "grade": chance.choice([0, 0, 1, 2])}
        for query in range(6)
        for item in ITEMS
    ]
    return pa.Table.from_pylist(grades)


def spec_of(runs: Any, labels: Any, **changed: Any) -> sm.Spec:
    source = {"data": runs} if isinstance(runs, pa.Table) else {"relation": runs}
    graded = {"data": labels} if isinstance(labels, pa.Table) else {"relation": labels}
    values: dict[str, Any] = {
        "name": "search",
        "rankings": {**source, "columns": COLUMNS, **changed.pop("rankings", {})},
        "labels": graded,
        "metrics": ["ndcg@10", "recall@3", "num_ret"],
        "by": ["country", "new"],
        "segments": {"new": "age < 3"},
        **changed,
    }
    return sm.Spec(**values)


def evaluated(spec: sm.Spec, database: Database | None = None) -> sm.Result:
    with database or connect() as engine:
        return run(spec, opened(spec, engine), engine)


def values_of(result: sm.Result) -> dict[tuple[Any, ...], float]:
    return {
        tuple(str(row[name]) for name in
              ("metric_date", "system", "segment_name", "segment_value", "metric")): row["value"]
        for row in result.to_dicts()
    }  # fmt: skip


@by_turns(1.5)
@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres", "chdb", "spark", "mariadb", "datafusion"],
                    now=["duckdb"])
)  # fmt: skip
def test_the_numbers_are_those_of_rows_that_were_fused_before(name: str, servers: Servers) -> None:
    chance = random.Random(11)
    rows, labels = rows_of(chance), labels_of(chance)
    expected = values_of(evaluated(spec_of(pa.Table.from_pylist(with_fused(rows)), labels)))
    with Database(servers.open(name)) as database:
        spec = spec_of(pa.Table.from_pylist(rows), labels, rankings={"fuse": FUSE})
        result = evaluated(spec, database)
        assert values_of(result) == pytest.approx(expected, abs=1e-12)
        alone = spec.having(
            rankings=spec.rankings.model_copy(update={"fused_only": True}), by=(), baseline="hybrid"
        )
        systems = {row["system"] for row in evaluated(alone, database).to_dicts()}
        assert systems == {"hybrid", "it's all"}
    gaps = [note for note in result.notes if "lacks rows" in note]
    assert gaps == ["rankings: 2026-01-02 lacks rows of it's, so it's all is fused from the others"]


@by_turns(6)
def test_every_command_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*words: str, expect: int = 0) -> Any:
        return sqlmetrics(*words, "--db", "shop.duckdb", folder=tmp_path, expect=expect)

    monkeypatch.chdir(tmp_path)
    chance = random.Random(3)
    rows = pa.Table.from_pylist(rows_of(chance))  # noqa: F841
    labels = labels_of(chance)  # noqa: F841
    with duckdb.connect("shop.duckdb") as database:
        database.execute("create table rankings as select * replace (ds::date as ds) from rows")
        database.execute("create table labels as select * from labels")
    spec: dict[str, Any] = {
        "rankings": {"relation": "rankings", "columns": COLUMNS, "fuse": FUSE,
                     "where": "age >= 1"},
        "labels": {"relation": "labels"},
        "metrics": ["ndcg@5"],
        "by": ["new"],
        "segments": {"new": "age < 3"},
        "baseline": "hybrid",
        "output": {"relation": "facts", "per_query": "queries"},
        "checks": [{"metric": "ndcg@5", "system": "hybrid", "min": 0.1}],
    }  # fmt: skip
    Path("search.yml").write_text(yaml.safe_dump(spec))
    dry = command("run", "search.yml", "--dry-run").stdout
    assert "fused_rankings as" in dry
    command("build", "search.yml", "--start", DAYS[0], "--end", DAYS[1])
    command("build", "search.yml", "--backfill")
    result = evaluated(sm.Spec.read("search.yml"), connect("shop.duckdb"))
    with duckdb.connect("shop.duckdb") as database:
        facts = database.execute(
            "select metric_date::varchar, system, segment_name, segment_value, metric, value "
            "from facts where segment_name = 'all' or segment_name = 'new'"
        ).fetchall()
        before = database.execute("select distinct definition_hash from facts").fetchall()
    numbers = {tuple(row[:-1]): row[-1] for row in facts}
    assert numbers == pytest.approx(values_of(result), abs=1e-12)
    assert {key[1] for key in numbers} == {*RUNS, "hybrid", "it's all"}
    assert "no number differs" in command("verify", "search.yml").stdout + command(
        "verify", "search.yml").stderr  # fmt: skip
    assert "bm25 against hybrid" in command("compare", "search.yml").stdout
    command("diagnose", "search.yml")
    command("report", "search.yml", "--sweep", "--out", "page.md")
    page = Path("page.md").read_text()
    assert "it's all" in page
    assert "is the best of" in page
    command("run", "search.yml", "--publish", "bi.duckdb")
    with duckdb.connect("bi.duckdb") as database:
        (published,) = database.execute("select count(distinct system) from facts").fetchone() or ()
    assert published == len(RUNS) + 2
    command("sheet", "search.yml", "-k", "3")
    command("sample", "search.yml", "--size", "4", "--out", "sample.csv")
    stages = command("funnel", "search.yml", expect=2).stderr
    assert "leave fuse out of the spec of a funnel" in stages
    sqlmetrics("export", "dbt", "search.yml", "--out", "dbt", folder=tmp_path)
    assert "joined_items_2 as" in Path("dbt/models/facts/facts.sql").read_text()
    assert "fused_rankings as" in sqlmetrics("compile", "search.yml", folder=tmp_path).stdout
    spec["rankings"]["fuse"][0]["weights"]["dense"] = 0.8
    Path("search.yml").write_text(yaml.safe_dump(spec))
    assert "full-refresh" in command("run", "search.yml", "--start", DAYS[1], expect=2).stderr
    command("run", "search.yml", "--full-refresh")
    with duckdb.connect("shop.duckdb") as database:
        after = database.execute("select distinct definition_hash from facts").fetchall()
    assert before != after


@by_turns(0.6)
def test_what_is_refused() -> None:
    chance = random.Random(5)
    rows, labels = pa.Table.from_pylist(rows_of(chance)), labels_of(chance)
    for problem, fuse in {
        "fuse of h: unknown system 'dens'; did you mean 'dense'": [
            {"name": "h", "runs": ["bm25", "dens"]}
        ],
        "fuse of it's: a system in the rows already has this name": [
            {"name": "it's", "runs": ["bm25", "dense"]}
        ],
        "unknown run 'y'": [{"name": "h", "runs": ["bm25", "dense"], "weights": {"y": 1}}],
        "two to ten systems": [{"name": "h", "runs": ["bm25"]}],
        "a name twice": [{"name": "h", "runs": ["bm25", "dense"]}] * 2,
        "must not be that of a run": [{"name": "bm25", "runs": ["bm25", "dense"]}],
        "name must not be empty, given ' '": [{"name": " ", "runs": ["bm25", "dense"]}],
        "unknown method 'rff'": [{"name": "h", "runs": ["bm25", "dense"], "method": "rff"}],
        "unknown key 'wait'": [{"name": "h", "runs": ["bm25", "dense"], "wait": 1}],
    }.items():
        with pytest.raises((sm.SpecError, sm.InputError), match=f"(?s){problem}"):
            evaluated(spec_of(rows, labels, rankings={"fuse": fuse}))
    typo = spec_of(rows, labels, rankings={"fuse": [{"name": "h", "runs": ["bm25", "dens"]}]})
    unknown = pytest.raises(sm.InputError, match="fuse of h: unknown system 'dens'")
    with connect() as engine, unknown:
        run(typo, opened(typo, engine), engine, check=False)
    column = rows.column_names.index("s")
    endless = rows.set_column(column, "s", pa.array([float("inf"), *rows["s"].to_pylist()[1:]]))
    by_scores = {"name": "h", "runs": ["bm25", "dense"], "method": "sum"}
    with pytest.raises(sm.InputError, match="score is infinite in 1 row, and cannot be fused"):
        evaluated(spec_of(endless, labels, rankings={"fuse": [by_scores]}))
    empty = spec_of(
        rows.slice(0, 0), labels, rankings={"fuse": [{"name": "h", "runs": ["a", "b"]}]}
    )
    with connect() as engine:
        assert not run(empty, opened(empty, engine), engine, check=False).to_dicts()
    ranked = {key: name for key, name in COLUMNS.items() if key != "score"} | {"rank": "s"}
    pair = {"name": "h", "runs": ["bm25", "dense"]}
    for problem, rankings in {
        "needs the column of systems": {"fuse": [pair], "columns": {"item": "doc"}},
        "fused_only needs fuse": {"fused_only": True},
        "needs scores": {"fuse": [{**pair, "method": "sum"}], "columns": ranked},
    }.items():
        with pytest.raises(sm.SpecError, match=problem):
            spec_of(rows, labels, rankings=rankings)
    repeats = {"conventions": {"duplicate_rankings": "first"}, "metrics": ["ndcg@5"]}
    spec = spec_of(rows, labels, rankings={"fuse": [pair]}, **repeats)
    with pytest.raises(sm.SpecError, match="duplicate_rankings=best_score"):
        evaluated(spec)
    border = {"conventions": {"min_score": 0.5}, "metrics": ["ndcg@5"]}
    with pytest.raises(sm.SpecError, match="min_score is compared with the scores of all systems"):
        evaluated(spec_of(rows, labels, rankings={"fuse": [pair]}, **border))
    with pytest.raises(sm.SpecError, match="fused_only leaves h, given 'bm25'"):
        spec_of(rows, labels, rankings={"fuse": [pair], "fused_only": True}, baseline="bm25")
