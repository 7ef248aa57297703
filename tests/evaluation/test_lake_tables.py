"""Tables of Delta and Iceberg: their current rows give the numbers of the same rows in memory."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import peer
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.history.restore import restore
from sqlmetrics.jobs.run import write
from sqlmetrics.spec.days import Days

pytestmark = by_turns(1)

DAYS = [date(2026, 3, day) for day in (1, 2, 3)]
QUERIES = ["q 1", "ä", "Ä", "it's"]
RANKINGS = pa.table(
    {
        "query_id": [query for _ in DAYS for query in QUERIES for _ in "abc"],
        "item_id": [item for _ in DAYS for _ in QUERIES for item in "abc"],
        "score": [float((7 * number) % 5) for number in range(36)],
        "ds": [day for day in DAYS for _ in QUERIES for _ in "abc"],
    }
)
LABELS = pa.table(
    {"query_id": [*QUERIES, "q 1"], "item_id": [*"abca", "b"], "grade": [1, 3, 2, 1, 2]}
)
METRICS = ["ndcg@2", "mrr", "num_ret"]


def delta(folder: Path) -> tuple[str, str]:
    """Rankings in folders of days, of which one was written wrongly before; labels less a row."""
    deltalake = peer("deltalake")
    rankings, labels = str(folder / "rankings"), str(folder / "labels")
    deltalake.write_deltalake(rankings, RANKINGS, partition_by=["ds"])
    wrong = RANKINGS.slice(12, 12).set_column(2, "score", pa.array([0.0] * 12))
    for rows in (wrong, RANKINGS.slice(12, 12)):
        deltalake.write_deltalake(rankings, rows, mode="overwrite", predicate="ds = '2026-03-02'")
    extended = pa.concat_tables(
        [LABELS, pa.table({**LABELS.slice(0, 1).to_pydict(), "item_id": ["c"]})]
    )
    deltalake.write_deltalake(labels, extended)
    deltalake.DeltaTable(labels).delete("query_id = 'q 1' and item_id = 'c'")
    return rankings, labels


def iceberg(folder: Path) -> tuple[str, str]:
    """Rankings that came by days; labels of which a column was renamed and a row deleted."""
    peer("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("test", uri="sqlite:///:memory:", warehouse=f"file://{folder}")
    catalog.create_namespace("lake")
    rankings = catalog.create_table("lake.rankings", schema=RANKINGS.schema)
    for start in (0, 12, 24):
        rankings.append(RANKINGS.slice(start, 12))
    old = LABELS.rename_columns(["query_id", "item_id", "stars"])
    labels = catalog.create_table("lake.labels", schema=old.schema)
    labels.append(old)
    labels.append(pa.table({**old.slice(0, 1).to_pydict(), "item_id": ["c"]}))
    labels.delete("query_id == 'q 1' and item_id == 'c'")
    with labels.update_schema() as update:
        update.rename_column("stars", "grade")
    return str(folder / "lake" / "rankings"), str(folder / "lake" / "labels")


KINDS = {"Delta": delta, "Iceberg": iceberg}


def rows(result: Any) -> list[Mapping[str, Any]]:
    """All values, in an order of their own."""
    return sorted(result.per_query().to_pylist(), key=lambda row: [str(v) for v in row.values()])


def job(rankings: str, labels: str) -> sm.Spec:
    return sm.Spec(
        name="lake",
        metrics=METRICS,
        rankings={"file": rankings, "columns": {"date": "ds"}},
        labels={"file": labels},
        output={"relation": "ranking_metrics"},
    )


@pytest.mark.parametrize("kind", KINDS)
def test_current_rows_are_read_by_every_command(kind: str, tmp_path: Path) -> None:
    rankings, labels = KINDS[kind](tmp_path)
    arguments: dict[str, Any] = {"metrics": METRICS, "date": "ds"}
    expected = rows(sm.evaluate(RANKINGS, LABELS, **arguments))
    assert rows(sm.evaluate(rankings, labels, **arguments)) == expected
    assert rows(sm.evaluate(Path(rankings), LABELS, **arguments)) == expected
    database = sqlite3.connect(":memory:")
    other = rows(sm.evaluate(rankings, labels, connection=database, **arguments))
    assert [row["mrr"] for row in other] == [row["mrr"] for row in expected]
    same = sm.compare({"a": rankings, "b": RANKINGS}, labels, ["mrr"], date="ds")
    assert {row["difference"] for row in same.to_dicts()} == {0}
    spec = job(rankings, labels)
    with pytest.raises(sm.SpecError, match=rf"is an? {kind} table, .* not compiled to text"):
        sm.compile(spec)
    with duckdb.connect() as jobs:
        sm.run(spec, start=DAYS[0], end=DAYS[-1] + timedelta(1), connection=jobs)
        stored = jobs.sql(
            "select value from ranking_metrics where metric = 'mrr' order by metric_date"
        ).fetchall()
    by_day = {day: [row["mrr"] for row in expected if row["metric_date"] == day] for day in DAYS}
    assert [value for (value,) in stored] == pytest.approx([sum(v) / 4 for v in by_day.values()])


def test_a_run_of_a_day_reads_its_files_alone(tmp_path: Path) -> None:
    rankings, labels = delta(tmp_path)
    shutil.rmtree(tmp_path / "rankings" / "ds=2026-03-01")
    with duckdb.connect() as jobs:
        sm.run(job(rankings, labels), start=DAYS[1], end=DAYS[2], connection=jobs)
        with pytest.raises(sm.InputError, match="ds=2026-03-01"):
            sm.run(job(rankings, labels), start=DAYS[0], end=DAYS[1], connection=jobs)


def test_what_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rankings, labels = iceberg(tmp_path)
    with pytest.raises(sm.InputError, match="holds an Iceberg table, whose files may hold deleted"):
        sm.evaluate(tmp_path / "lake", LABELS, ["mrr"])
    metadata = sorted(Path(labels, "metadata").glob("*.metadata.json"))
    shutil.copy(metadata[-1], metadata[-1].with_name(f"{metadata[-1].name[:5]}-z.metadata.json"))
    with pytest.raises(sm.InputError, match=r"are both its newest metadata; ask its catalog"):
        sm.evaluate(RANKINGS, labels, ["mrr"], date="ds")
    Path(labels, "metadata", "version-hint.text").write_text("1\n")
    shutil.copy(metadata[-1], metadata[-1].with_name("v1.metadata.json"))
    assert len(rows(sm.evaluate(RANKINGS, labels, ["mrr"], date="ds"))) == 12
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(sm.InputError, match=r"needs pyiceberg.*: pip install 'sqlmetrics\[lake"):
        sm.evaluate(rankings, LABELS, ["mrr"])


def test_a_lake_of_ducklake_is_read_by_its_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files hold rows that were deleted, so they are refused; its extension may be a wheel."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/rankings").mkdir(parents=True)
    pq.write_table(RANKINGS, tmp_path / "data/rankings/ducklake-0a1b.parquet")
    message = (
        "a table of DuckLake, whose files may hold deleted rows; attach its catalog in profiles"
    )
    for folder in ("data/rankings", "data"):
        with pytest.raises(sm.InputError, match=message):
            sm.evaluate(folder, LABELS, METRICS)
    lake = {"path": "ducklake:meta.ducklake", "alias": "lake", "data_path": "data"}
    output = {"type": "duckdb", "path": ":memory:", "extensions": ["ducklake"], "attach": [lake]}
    Path("profiles.yml").write_text(json.dumps({"target": "dev", "outputs": {"dev": output}}))
    if find_spec("duckdb_extension_ducklake") is None:
        with pytest.raises(sm.EngineError, match=r"pip install duckdb-extension-ducklake"):
            sm.evaluate("rankings", "labels", METRICS, connection="duckdb:///ducklake:x.ducklake")
        return
    with connect("dev") as engine:
        engine.load("lake.rankings", RANKINGS)
        engine.load("lake.labels", LABELS)
        engine.execute("insert into lake.rankings select * from lake.rankings where score = 1")
        engine.execute("delete from lake.rankings where score = 1")
    kept = RANKINGS.filter(pc.field("score") != 1)
    options = {"date": "ds"}
    result = sm.evaluate("lake.rankings", "lake.labels", METRICS, connection="dev", **options)
    wanted = sm.evaluate(kept, LABELS, METRICS, **options)
    assert [row["value"] for row in result.to_dicts()] == [
        row["value"] for row in wanted.to_dicts()
    ]
    columns = {"score": "score", "date": "ds"}
    job = sm.Spec(
        name="shop",
        rankings={"relation": "lake.rankings", "columns": columns},
        labels={"relation": "lake.labels"},
        metrics=METRICS,
        output={"relation": "lake.metrics"},
    )
    with connect("dev") as engine:
        runs = [write(job, engine, Days(start=DAYS[0], end=day)) for day in (DAYS[2], DAYS[1])]
        values = engine.rows("select value from lake.metrics where metric_date < '2026-03-03'")
        assert len(values) == 2 * len(METRICS)
        assert {value for (value,) in values} <= {row["value"] for row in wanted.to_dicts()}
        assert restore(job, engine, "last").run.run_id == runs[1].run_id
