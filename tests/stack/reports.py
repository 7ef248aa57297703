"""A fact table that tools read, and what they have to say of it by a hand calculation."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pytest

import sqlmetrics as sm

SPEC = {
    "name": "Shop's search",
    "rankings": {"relation": "rankings", "columns": {"system": "model", "date": "ds"}},
    "labels": {"relation": "labels"},
    "metrics": ["ndcg@10", "recall@3", "auc", "num_q"],
    "by": ["country"],
    "baseline": "old",
    "output": {"relation": "ranking_metrics"},
}
"""A ratio, another one, what cannot be added up, and a total; its name has a quote."""

DAYS, QUERIES = 5, 12
TABLES = f"""
create table rankings as
select
    date '2026-01-01' + cast(d as integer) as ds, model, 'q' || q as query_id,
    'sku-' || i as item_id, if(q % 3 = 0, 'JP', 'DE') as country,
    (q * 31 + i * 17 + d * 7) % 11 + if(model = 'new', if(q % 3 = 0, -9, 9), 0) / i as score
from range({DAYS}) as days(d), (values ('old'), ('new')) as models(model),
    range(1, {QUERIES + 1}) as queries(q), range(1, 11) as items(i)
where (q + d) % 4 > 0 and q <= 4 + 2 * d;  -- days of different sizes
create table labels as
select 'q' || q as query_id, 'sku-' || i as item_id, greatest(0, 4 - i) as grade
from range(1, {QUERIES + 1}) as queries(q), range(1, 11) as items(i);
"""


def spec() -> sm.Spec:
    """What the exports are of."""
    return sm.Spec(**SPEC)


def make_facts(file: Path) -> Path:
    """A DuckDB file with the fact table, and rows of another spec that nobody may count."""
    with duckdb.connect(str(file)) as shop:
        shop.execute(TABLES)
    with sm.connect(str(file)) as engine:
        sm.run(spec(), engine)
    with duckdb.connect(str(file)) as shop:
        for table in ("ranking_metrics", "ranking_metrics_runs"):
            shop.execute(f"insert into {table} select * replace ('other' as spec) from {table}")
    return file


def copy_for_older_duckdb(shop: duckdb.DuckDBPyConnection, to: Path) -> Path:
    """A copy of the facts that an older DuckDB can open."""
    facts = to.with_suffix(".parquet")
    shop.execute(f"copy ranking_metrics to '{facts}'")
    with duckdb.connect() as writer:
        writer.execute(f"attach '{to}' as old (storage_version 'v1.4.0')")
        writer.execute(f"create table old.ranking_metrics as from '{facts}'")
    return to


Key = tuple[str, ...]


def by_hand(
    shop: duckdb.DuckDBPyConnection, metric: str, k: int, keys: Sequence[str], segment: str = "all"
) -> Mapping[Key, float | None]:
    """Key -> sums over sums of the rows, a total, or the value of a single row, in plain Python."""
    rows = shop.execute(
        f"select {', '.join(keys)}, value, numerator, denominator from ranking_metrics "
        "where spec = ? and metric = ? and k = ? and segment_name = ?",
        [SPEC["name"], metric, k, segment],
    ).fetchall()
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(map(str, row[: len(keys)]))].append(row[len(keys) :])
    return {key: _together(metric, values) for key, values in groups.items()}


def _together(
    metric: str, rows: Sequence[tuple[float, float | None, float | None]]
) -> float | None:
    if metric == "auc":
        return rows[0][0] if len(rows) == 1 else None
    if metric == "num_q":
        return sum(row[0] for row in rows)
    return sum(row[1] or 0 for row in rows) / sum(row[2] or 0 for row in rows)


def same(got: Mapping[Key, float | None], expected: Mapping[Key, float | None]) -> None:
    """Compare at 1e-9; nothing and None are one."""
    assert expected
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        assert got[key] == (value if value is None else pytest.approx(value, rel=1e-9)), key


def tool(name: str) -> str:
    """Where a tool is, by a variable; without it the test is skipped."""
    if name not in os.environ:
        pytest.skip(f"{name} is not set: the module says what goes there")
    return os.environ[name]


def output_of(*command: str, folder: Path, **env: str) -> str:
    """What a command says, which must not fail."""
    ran = subprocess.run(
        command, cwd=folder, env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-3000:]
    return ran.stdout
