"""A small warehouse of odd data, the specs over it, and what `run` says of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any

import duckdb
import pytest
from engines.server import REQUIRED, MissingError
from engines.starting import postgres
from walked import FENCE

import sqlmetrics as sm

QUOTED = """it's "odd" {{ name }} {% x %} {# y #}"""
"""A system's name in which templates would find something."""

RANKINGS = f"""
select
    cast(date '2026-01-01' + cast(d as integer) as date) as ds,
    s as system,
    'q' || q as query_id,
    'i' || i as item_id,
    cast((q * 31 + i * 17 + length(s) * d) % 5 as double precision) as score,
    case when q % 2 = 0 then 'DE' when q % 3 > 0 then 'FR' end as country,
    case when q % 2 = 0 then 2.5 else 1.0 end as weight,
    cast(q % 4 as integer) as person
from generate_series(0, 4) as days(d)
cross join (values ('production'), ('candidate'), ('{QUOTED.replace("'", "''")}')) as systems(s)
cross join generate_series(1, 12) as queries(q)
cross join generate_series(1, 6) as items(i)
where (s <> 'candidate' or d >= 2) and (q + d) % 7 > 0
"""
"""Ties, queries that a day has not, a segment without a name, a system that starts on day 3."""

LABELS = """
select 'q' || q as query_id, 'i' || i as item_id, cast((q * 3 + i) % 4 as integer) as grade
from generate_series(1, 14) as queries(q)
cross join generate_series(1, 5) as items(i)
where q <> 5
"""

TIMES = """
select
    cast(concat('2026-01-0', 1 + (q + i) % 4, ' 23:30:00+00') as timestamp with time zone)
        as at_time,
    'q' || q as query_id,
    'i' || i as item_id,
    i as place
from generate_series(1, 8) as queries(q)
cross join generate_series(1, 4) as items(i)
"""
"""Half an hour before midnight in UTC, which is the next day in Berlin."""

IMPRESSIONS = """
select
    concat('r', d, '-', r) as request_id,
    concat('text ', r % 9) as query,
    concat('i', (r * 7 + p) % 30) as item_id,
    cast(p as integer) as "position",
    case when r % 2 = 0 then 'new' else 'old' end as system,
    concat('u', r % 23) as user_id,
    cast(concat('2026-01-0', 1 + d, ' 12:00:00') as timestamp)
        + r * 11 * interval '1 minute' as shown_at,
    case when r % 3 = 0 then 'DE' else 'FR' end as country
from generate_series(0, 4) as days(d)
cross join generate_series(1, 70) as requests(r)
cross join generate_series(1, 8) as positions(p)
"""
"""Requests until after midnight."""

EVENTS = """
select
    request_id,
    item_id,
    case
        when cast(substr(item_id, 2) as integer) % 5 = 0 then 'purchase'
        else 'click'
    end as action,
    cast(20 as double precision) as dwell,
    user_id,
    shown_at + interval '3 minute' as happened_at
from impressions
where (cast(substr(item_id, 2) as integer) + "position") % 4 = 0
"""

NEW_LISTS = """
select
    concat('text ', q) as query,
    concat('i', (q * 7 + p * 5) % 30) as item_id,
    cast(p as integer) as place
from generate_series(0, 6) as queries(q)
cross join generate_series(1, 6) as places(p)
"""
"""What another ranker gives for most queries of the log."""

TABLES = {
    "rankings": RANKINGS,
    "labels": LABELS,
    "times": TIMES,
    "impressions": IMPRESSIONS,
    "events": EVENTS,
    "new_lists": NEW_LISTS,
}
"""Table -> the query that makes it, in words of DuckDB and PostgreSQL."""

SEARCH: Mapping[str, Any] = {
    "name": "search",
    "rankings": {
        "relation": "rankings",
        "columns": {"system": "system", "date": "ds", "score": "score"},
    },
    "labels": {"relation": "labels"},
    "by": ["country"],
    "metrics": ["ndcg@3", "mrr", "recall@2", "auc", "num_rel_ret"],
    "baseline": "production",
    "checks": [
        {"metric": "ndcg@3", "min": 0.0, "min_queries": 1},
        {"metric": "mrr", "max_drop_pct": 100, "segment": {"country": "*"}},
        {"metric": "mrr", "max_drop": 1, "against": "production"},
        {"metric": "recall@2", "max_rise": 1, "severity": "warn"},
        {"metric": "mrr", "min": 0.1, "confidence": 0.9},
        {"min_rows": 5, "max_age": 40000},
    ],
    "output": {"relation": "rm_search"},
}
ODD: Mapping[str, Any] = {
    "name": "it's {{ odd }} {% raw %}",
    "rankings": {
        "sql": "select *, '{{ x }}' as mark from rankings where system <> '{% if %}'",
        "columns": {"system": "system", "date": "ds", "score": "score", "weight": "weight"},
    },
    "labels": {"relation": "labels"},
    "by": ["french"],
    "segments": {"french": "country = 'FR'"},
    "cluster": "person",
    "metrics": ["ndcg@2", "precision@3", "ap"],
    "conventions": {"missing": "drop"},
    "output": {"relation": "rm_odd", "per_query": "rm_odd_per_query"},
}
ZONED: Mapping[str, Any] = {
    "name": "zoned",
    "rankings": {
        "relation": "times",
        "time_zone": "Europe/Berlin",
        "columns": {"date": "at_time", "rank": "place"},
        "where": "place < 4 or query_id = 'q1'",
    },
    "labels": {"relation": "labels"},
    "conventions": {"duplicate_rankings": "best_score"},
    "metrics": ["ndcg@3", "rr"],
    "output": {"relation": "rm_zoned"},
}
CLICKS: Mapping[str, Any] = {
    "name": "search_clicks",
    "clicks": {
        "impressions": {
            "relation": "impressions",
            "columns": {
                "request": "request_id",
                "query": "query",
                "item": "item_id",
                "position": "position",
                "system": "system",
                "user": "user_id",
                "time": "shown_at",
                "segments": ["country"],
            },
        },
        "events": {
            "relation": "events",
            "columns": {
                "request": "request_id",
                "item": "item_id",
                "action": "action",
                "dwell": "dwell",
                "user": "user_id",
                "time": "happened_at",
            },
        },
        "cleaning": {"min_dwell": "5s", "attribution_window": "30m"},
        "labels": {"grades": {"click": 1, "purchase": 3}},
        "propensity": {
            "method": "given",
            "given": {1: 1, 2: 0.7, 3: 0.5, 4: 0.4, 5: 0.3, 6: 0.3, 7: 0.2, 8: 0.2},
        },
        "counterfactual": {
            "rankings": {"relation": "new_lists", "columns": {"query": "query", "rank": "place"}},
            "match": "query",
            "metrics": ["dcg@3", "recall@2"],
        },
    },
    "metrics": ["ndcg@5", "mrr", "ctr@3", "abandonment"],
    "by": ["country"],
    "output": {"relation": "rm_clicks"},
}
SPECS = (SEARCH, ODD, ZONED, CLICKS)

APART = {"run_id", "computed_at"}
"""Columns that tell a run, and are none of the numbers."""


@contextmanager
def server() -> Iterator[str]:
    """PostgreSQL, as it can be had here."""
    try:
        with postgres() as url:
            yield url
    except (ImportError, MissingError) as missing:
        (pytest.fail if REQUIRED else pytest.skip)(f"PostgreSQL is not here: {missing}")


class Warehouse:
    """A database with the tables, and what is asked of it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_duckdb = not address.startswith("postgresql")

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements; the rows of the last one."""
        if self.is_duckdb:
            with duckdb.connect(self.address) as connection:
                for statement in statements:
                    result = connection.execute(statement)
                return result.fetchall()
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def fill(self) -> None:
        """Make the tables."""
        self.execute(*(f"create table {name} as {query}" for name, query in TABLES.items()))

    def run_beside(self, keys: Mapping[str, Any], *days: str) -> None:
        """What a run writes for a spec, into tables beside those of the tool."""
        spec = sm.Spec(**(keys | {"output": run_tables(keys)}))
        # without days the requests of a log are of one day, unless it says daily
        start, end = days or (("2026-01-01", "2026-02-01") if "clicks" in keys else (None, None))
        sm.run(spec, connection=self.url, start=start, end=end)

    @property
    def url(self) -> str:
        """The database as `run` takes it."""
        return f"duckdb:///{self.address}" if self.is_duckdb else self.address

    def rows(self, table: str, schema: str = "") -> dict[tuple[Any, ...], dict[str, Any]]:
        """A table's rows by their keys."""
        names = [
            name
            for (name,) in self.execute(
                "select column_name from information_schema.columns "
                f"where table_name = '{table}' order by ordinal_position"
            )
        ]
        names = list(dict.fromkeys(names))
        per_query = "query_id" in names
        keys = ("spec", "metric_date", "system")
        keys += ("query_id",) if per_query else ("segment_name", "segment_value", "metric", "k")
        rows_by_key = {}
        for values in self.execute(f"select {', '.join(names)} from {schema}{table}"):
            row = dict(zip(names, values, strict=True))
            key = tuple(row[name] for name in keys)
            assert key not in rows_by_key, f"{key} stands twice"
            rows_by_key[key] = {name: value for name, value in row.items() if name not in APART}
        return rows_by_key


def bash(page: str) -> list[str]:
    """The commands that a page shows and the walk through the docs does not run."""
    blocks = [body for language, body in FENCE.findall(page) if language == "bash"]
    return [line for body in blocks for line in body.splitlines() if not line.startswith("pip ")]


def run_tables(keys: Mapping[str, Any]) -> dict[str, str]:
    """The tables of our own run."""
    return {key: f"own_{name}" for key, name in keys["output"].items()}


def same(theirs: Mapping[Any, Mapping[str, Any]], ours: Mapping[Any, Mapping[str, Any]]) -> None:
    """Whether two tables hold the same numbers."""
    assert theirs, "there is no row"
    assert theirs.keys() == ours.keys()
    for key, row in ours.items():
        assert theirs[key].keys() == row.keys()
        for name, value in row.items():
            other = theirs[key][name]
            if isinstance(value, float) and isinstance(other, float):
                assert math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9), (key, name)
            else:
                assert other == value, (key, name, other, value)


def days_of(rows: Mapping[Any, Mapping[str, Any]]) -> set[date]:
    """The days that rows are of."""
    return {row["metric_date"] for row in rows.values()}
