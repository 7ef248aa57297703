"""A baseline that an earlier run has kept: the same numbers as beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from compared_tables import NEW, OLD, OTHER_ENGINES, N, near, tables
from engines.starting import Servers
from marked import by_turns, engines
from sampled_days import of_days

import sqlmetrics as sm
from sqlmetrics.engines.database import Database

SAME = ("value", "baseline_value", "difference", "ci_low", "p_value", "n", "wins", "losses")


def of_one(table: pa.Table, system: str) -> pa.Table:
    return table.filter(pc.equal(table["system"], system))


@by_turns(0.7)
def test_a_stored_baseline_gives_the_numbers_of_both_runs_together(tmp_path: Path) -> None:
    country = ["DE" if i % 3 else "FR" for i in range(N)]
    rankings, labels = tables({"new": NEW, "old": OLD}, country=country)
    wanted = sm.compare(rankings, labels, "cg@1", baseline="old", by="country")
    kept = sm.evaluate(of_one(rankings, "old"), labels, "cg@1", system="system").per_query()
    pq.write_table(kept, tmp_path / "kept.parquet")
    new = of_one(rankings, "new")
    comparison = sm.compare(new, labels, "cg@1", baseline_values=kept, by="country")
    assert comparison.baseline == "stored old"
    for row, other in zip(comparison, wanted, strict=True):
        assert [row[name] for name in SAME] == [near(other[name]) for name in SAME]
    pq.write_table(new.drop_columns("system"), tmp_path / "new.parquet")
    pq.write_table(labels, tmp_path / "labels.parquet")
    words = ["compare", "new.parquet", "labels.parquet", "-m", "cg@1", "-o", "json"]
    completed = sqlmetrics(*words, "--baseline-values", "kept.parquet", folder=tmp_path)
    (row,) = json.loads(completed.stdout)
    assert [row[name] for name in SAME] == [near(wanted.rows[0][name]) for name in SAME]
    assert row["system"] == "new"


@by_turns(0.5)
def test_runs_of_other_days_are_matched_by_query_and_of_the_same_days_by_both() -> None:
    before = {"2026-01-01": {i: OLD[i] for i in range(30)}, "2026-01-02": {3: 0.9, 4: 0.8}}
    before["2026-01-03"] = {3: 0.9}
    after = {"2026-01-08": {i: NEW[i] for i in range(10)}, "2026-01-09": {2: 0.3, 4: 0.4}}
    options: dict[str, Any] = {"date": "ds"}
    kept = sm.evaluate(*of_days(before), "cg@1", **options).per_query()
    rankings, labels = of_days(after)
    row = sm.compare(rankings, labels, "cg@1", baseline_values=kept, **options)["cg@1"]
    x = np.array(
        [np.mean([values[i] for values in after.values() if i in values]) for i in range(10)]
    )
    y = np.array(
        [np.mean([values[i] for values in before.values() if i in values]) for i in range(10)]
    )
    assert (row["n"], row["difference"]) == (10, near((x - y).mean()))
    assert row["effect_size"] == near((x - y).mean() / (x - y).std(ddof=1))
    again = {day: {i: 1 - value for i, value in values.items()} for day, values in before.items()}
    row = sm.compare(*of_days(again), "cg@1", baseline_values=kept, **options)["cg@1"]
    assert row["n"] == 33
    row = sm.compare(rankings, labels, "cg@1", baseline_values=kept, paired=False, **options)[
        "cg@1"
    ]
    assert (row["n"], row["n_baseline"], row["test"]) == (12, 33, "Welch t")


@pytest.mark.long
def test_a_job_s_table_is_a_baseline(tmp_path: Path) -> None:
    rankings, labels = tables({"new": NEW, "old": OLD})
    wanted = sm.compare(rankings, labels, "cg@1", baseline="old").rows[0]
    for name, table in (("rankings", of_one(rankings, "old")), ("labels", labels)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    spec = (
        "name: search\n"
        "rankings: {file: rankings.parquet, columns: {score: score, system: system}}\n"
        "labels: {file: labels.parquet}\nmetrics: [cg@1]\n"
        "output: {relation: facts, per_query: kept}\n"
    )
    (tmp_path / "search.yml").write_text(spec)
    sqlmetrics("run", "search.yml", "--db", "shop.duckdb", folder=tmp_path)
    pq.write_table(of_one(rankings, "new"), tmp_path / "rankings.parquet")
    words = ["compare", "search.yml", "--db", "shop.duckdb", "--baseline-values", "kept"]
    (row,) = json.loads(sqlmetrics(*words, "-o", "json", folder=tmp_path).stdout)
    assert [row[name] for name in SAME] == [near(wanted[name]) for name in SAME]


@pytest.mark.long
def test_a_table_that_is_no_baseline_is_refused_with_what_to_give() -> None:
    rankings, labels = tables({"new": NEW, "old": OLD})
    kept = sm.evaluate(rankings, labels, "cg@1", system="system").per_query()
    new = of_one(rankings, "new")

    def refused(
        match: str, baseline_values: Any, error: type[Exception] = sm.SpecError, **options: Any
    ) -> None:
        with pytest.raises(error, match=match):
            sm.compare(new, labels, "cg@1", baseline_values=baseline_values, **options)

    refused("have several values of system: new, old; name one of them", kept)
    refused("unknown system 'odl'; did you mean 'old'", kept, sm.InputError, baseline="odl")
    refused("unknown column 'cg_at_1'", of_one(kept, "old").drop_columns("cg_at_1"), sm.InputError)
    refused("unknown column 'query_id'", kept.select(["cg_at_1"]), sm.InputError)
    refused("there is no file or table", "kept.parquet", sm.InputError)
    old_values = of_one(kept, "old")
    refused(
        "cannot be compared unpaired with segments, weights", old_values, paired=False, by="score"
    )
    refused("give only one", old_values, dates="2026-01-01,2026-01-02")
    refused("unknown system 'nw'", old_values, sm.InputError, systems=["nw"])


@pytest.mark.parametrize("name", engines(OTHER_ENGINES, now=[]))
def test_engines_read_a_stored_baseline(name: str, servers: Servers) -> None:
    rankings, labels = tables({"new": NEW, "old": OLD})
    wanted = sm.compare(rankings, labels, "cg@1", baseline="old").rows[0]
    kept = sm.evaluate(of_one(rankings, "old"), labels, "cg@1", system="system").per_query()
    with servers.open(name) as engine:
        database = Database(engine)
        new_rankings = of_one(rankings, "new")
        row = sm.compare(
            new_rankings, labels, "cg@1", baseline_values=kept, connection=database
        ).rows[0]
    assert [row[column] for column in SAME] == [near(wanted[column]) for column in SAME]
