"""A wide click log as people have it, in one command and without a spec."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm

LOG = """search_id,Search Term,SKU,Rank,clicked,bought,variant,ts
1,shoe,a,1,0,0,A,2026-01-01 10:00:00
1,shoe,b,2,1,1,A,2026-01-01 10:00:00
2,shoe,b,1,1,0,B,2026-01-01 11:00:00
2,shoe,a,2,0,0,B,2026-01-01 11:00:00
3,lamp,x,1,0,0,A,2026-01-02 11:00:00
"""
COLUMNS = {
    "request": "search_id",
    "query": "Search Term",
    "item": "SKU",
    "position": "Rank",
    "clicked": "clicked",
    "actions": {"purchase": "bought"},
    "system": "variant",
    "time": "ts",
}
METRICS = ["ndcg@10", "ctr@5", "purchases"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path


@pytest.fixture(params=["file", "frame", "duckdb", "sqlite"])
def place(request: pytest.FixtureRequest, folder: Path) -> tuple[Any, Any]:
    """The log, and the connection where it is."""
    file = str(folder / "log.csv")
    table = duckdb.sql(f"from read_csv('{file}')")
    if request.param == "frame":
        return table.to_arrow_table(), None
    if request.param == "duckdb":
        connection = duckdb.connect()
        connection.execute(f"create table shop_log as from read_csv('{file}')")
        return "shop_log", connection
    if request.param == "sqlite":
        with sqlite3.connect(folder / "shop.db") as opened:
            names = ", ".join(f'"{name}"' for name in table.columns)
            opened.execute(f"create table shop_log ({names})")
            marks = ", ".join("?" * len(table.columns))
            rows = [(*row[:-1], str(row[-1])) for row in table.fetchall()]
            opened.executemany(f"insert into shop_log values ({marks})", rows)
        return "shop_log", f"sqlite:///{folder / 'shop.db'}"
    return file, None


@by_turns(1.7)
def test_its_columns_are_known_by_their_names(place: tuple[Any, Any], folder: Path) -> None:
    log, connection = place
    options = {"metrics": METRICS, "by": ["query_text"], "confidence": 0.95}
    result = sm.evaluate_clicks(log, connection, **options)
    clicks = {
        "log": {"file": str(folder / "log.csv"), "columns": COLUMNS},
        "labels": {"grades": {"click": 1, "purchase": 3}},
    }
    spec = sm.Spec(clicks=clicks, metrics=METRICS, by=["query_text"])
    wanted = sm.evaluate_clicks(spec, confidence=0.95)
    values = [row | {"spec": ""} for row in result.facts().to_pylist()]
    assert values == [row | {"spec": ""} for row in wanted.facts().to_pylist()]
    rows = {(row["system"], row["metric"]): row for row in values if row["segment_name"] == "all"}
    # A clicks 1 of 2 and 0 of 1: 1/3, residuals 1/3 and -1/3, error sqrt(2/9 x 2 / 1) / 3 = 2/9
    # and buys once in 2 requests: 1/2, error 1/2; Student's t of 1 is 12.706; B has one request
    for metric, mean, error in (("ctr", 1 / 3, 2 / 9), ("purchases", 1 / 2, 1 / 2)):
        row, reach = rows["A", metric], 12.706204736432095 * error
        assert row["value"] == pytest.approx(mean, abs=1e-12)
        assert (row["ci_low"], row["ci_high"]) == (
            pytest.approx(mean - reach, abs=1e-9),
            pytest.approx(mean + reach, abs=1e-9),
        )
        assert rows["B", metric]["ci_low"] is None
    note, of_intervals = result.notes
    assert "0.3333 ±2.8236" in repr(result)
    assert "ratio over requests (delta method)" in of_intervals
    assert note.startswith("log: using search_id as request")
    assert "bought as purchase" in note
    assert note in repr(result)
    with pytest.raises(sm.SpecError, match="leave out metrics"):
        sm.evaluate_clicks(spec, metrics="mrr")


@by_turns(1)
def test_on_the_command_line(folder: Path) -> None:
    out = sqlmetrics("clicks", "log.csv", folder=folder)
    assert "using search_id as request" in out.stderr
    head = next(line for line in out.stdout.splitlines() if line.startswith("system"))
    assert head.split()[1:6] == ["ctr@5", "ctr", "abandonment", "first_click_rank", "purchases"]
    rows = sqlmetrics("clicks", "log.csv", "-o", "csv", folder=folder).stdout
    assert rows.startswith("spec,metric_date,system,")
    shares = sqlmetrics("clicks", "soundness", "log.csv", folder=folder).stdout
    assert "no sample ratio mismatch" in shares
    (folder / "other.csv").write_text("search_id,item,seen\n1,a,1\n")
    error = sqlmetrics("clicks", "other.csv", folder=folder, expect=2).stderr
    assert "as position or clicked; the columns are search_id, item, seen" in error
    missing = sqlmetrics("clicks", "lgo.csv", folder=folder, expect=2).stderr
    assert "did you mean 'log.csv'" in missing
