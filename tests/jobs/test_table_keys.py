"""What keeps tables from misuse: keys, comments, what stands beside them, and what was granted."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest
from job_days import FIRST, METRICS, TABLES, check, clear, days, job, log
from marked import by_night, by_turns, first

import sqlmetrics as sm
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.changes import changes
from sqlmetrics.jobs.checks.verdict import verdicts
from sqlmetrics.jobs.files import compile_job
from sqlmetrics.jobs.publish import publish
from sqlmetrics.jobs.run import write
from sqlmetrics.jobs.schema import ROLL_UP, columns_for
from sqlmetrics.jobs.schema import TABLES as SCHEMA
from sqlmetrics.jobs.spec_views import SpecView, bounded
from sqlmetrics.jobs.views import make_views, view_statements
from sqlmetrics.sql.dialects import DIALECTS


@pytest.fixture
def postgres(servers: Any) -> Iterator[Any]:
    with connect(servers.open("postgres")) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        try:
            yield engine
        finally:
            clear(engine)


def query_rows(engine: Any, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query in the database's own words."""
    rows: list[tuple[Any, ...]] = getattr(engine, "driver", engine).rows(query)
    return rows


def test_each_column_says_what_it_holds() -> None:
    for name, table in SCHEMA.items():
        required = {column.name for column in table.columns.values() if column.is_required}
        assert {*table.key} <= required
        columns = [*columns_for(job(baseline="new"))[name].values(), *table.archived.values()]
        assert [column.name for column in columns if not column.meaning] == []
    assert "never by avg(value)" in ROLL_UP
    assert ROLL_UP in SCHEMA["facts"].meaning
    assert ROLL_UP in SCHEMA["facts"].columns["value"].meaning


def test_texts_fit_where_columns_are_short() -> None:
    """MariaDB's texts have 512 letters, its comments 1,024."""
    assert max(len(metric.formula) for metric in catalog().values()) <= 512
    assert max(len(metric.title) for metric in ONLINE.values()) <= 512
    every = [
        *columns_for(job(baseline="new")).values(),
        *(table.archived for table in SCHEMA.values()),
    ]
    assert max(len(column.meaning) for table in every for column in table.values()) <= 1024


@by_turns(1)
@pytest.mark.parametrize("name", first(1, ["mysql", "bigquery", "snowflake", "redshift", "spark"]))
def test_what_is_said_in_dialects_that_are_not_here(name: str) -> None:
    """As their manuals have it."""
    text = re.sub(r"\(\n +", "(", compile_job(job(), name)["01_tables.sql"])
    text = re.sub(r",\n +", ", ", text)
    keys = {
        "mysql": "key (`spec`(48), `metric_date`",
        "bigquery": "primary key (`spec`, `metric_date`",
        "snowflake": "primary key (spec, metric_date",
        "redshift": 'primary key ("spec", "metric_date"',
    }
    assert text.count(keys.get(name, "create table if not exists")) >= 2
    rule = "Roll up by sum(numerator) / sum(denominator) within one segment_name"
    assert text.count(rule) == 2
    mark = {"bigquery": "options (description = '", "redshift": "comment on column "}
    assert text.count(mark.get(name, "comment '")) > 40
    assert DIALECTS[name].title in text


@by_turns(1.0)
def test_duckdb_says_it_in_the_file_that_is_published_too(tmp_path: Path) -> None:
    query = (
        "select comment from duckdb_tables() where table_name = 'metrics' union all "
        "select comment from duckdb_columns() where (table_name, column_name) in "
        "(('metrics', 'value'), ('metrics_of_queries', 'ndcg_at_3')) union all "
        "select comment from duckdb_views() where view_name in ('metrics_wide', 'metrics_shop_all')"
    )
    with connect(f"duckdb:///{tmp_path}/shop.duckdb", create=True) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        assert write(job(), engine, days(0, 2)).notes == ()
        comments = query_rows(engine, query)
        write(job("other", metrics=["mrr"], by=[]), engine, days(0, 1))
        publish(job(), engine, str(tmp_path / "bi.duckdb"))
    with connect(f"duckdb:///{tmp_path}/bi.duckdb?read_only=1") as reader:
        published = query_rows(reader, query)
        for view in ("shop_all", "shop_by_country", "other_all", "days", "status"):
            assert reader.rows(f"select count(*) from metrics_{view}")[0][0] > 0
        ((n,),) = query_rows(
            reader, "select count(*) from metrics_between('2026-01-01', '2026-01-02')"
        )
        assert n == 30 + 2
    texts = [text for (text,) in comments]
    assert len(texts) == 5
    assert all("sum(" in text for text in (texts[0], texts[3], texts[4]))
    assert "ndcg@3: DCG@k / IDCG@k" in texts
    assert {*published} >= {*comments}


@by_turns(0.6)
@pytest.mark.xdist_group("postgres")
def test_postgres_keeps_one_row_per_key(postgres: Any) -> None:
    assert write(job(), postgres, days(0, 2)).notes == ()
    for table in TABLES:
        with pytest.raises(sm.SqlmetricsError, match="duplicate key"):
            postgres.execute(f"insert into {table} select * from {table}")
    comment = "select obj_description('metrics'::regclass), col_description('metrics'::regclass, 8)"
    assert all(ROLL_UP in text for text in query_rows(postgres, comment)[0])
    view_comment = "select obj_description('metrics_shop_all'::regclass) as told"
    assert "sum(x_numerator)" in query_rows(postgres, view_comment)[0][0]
    write(job(), postgres, days(1, 4))  # rows of one key go and come in one transaction
    check(postgres, [0, 1, 2, 3])


@by_turns(1.2)
@pytest.mark.xdist_group("postgres")
def test_tables_that_are_there_gain_the_key_or_a_note(postgres: Any) -> None:
    """Rows that stand twice are told, and not lost."""
    write(job(), postgres, days(0, 2))
    for table in TABLES:
        postgres.execute(f"drop index {table}_key")
    indexes = "select count(*) from pg_indexes where indexname like 'metrics%_key'"
    assert write(job(), postgres, days(2, 3)).notes == ()
    assert query_rows(postgres, indexes) == [(len(TABLES),)]
    postgres.execute("drop index metrics_key")
    first = f"metric_date = '{FIRST}'"
    postgres.execute(f"insert into metrics select * from metrics where {first}")
    count = f"select count(*) as n from metrics where {first}"
    before = query_rows(postgres, count)
    (note,) = write(job(), postgres, days(3, 4)).notes
    assert note.startswith("the tables are without the key, because `create unique index")
    assert query_rows(postgres, count) == before
    query = "select message from metrics_runs order by started_at desc limit 1"
    assert "without the key" in query_rows(postgres, query)[0][0]
    assert write(job(), postgres, days(0, 1)).notes  # the copies are gone after it
    assert write(job(), postgres, days(0, 1)).notes == ()


@by_turns(0.4)
@pytest.mark.xdist_group("postgres")
def test_queries_of_any_length_have_a_key(postgres: Any) -> None:
    """PostgreSQL's index holds 2,704 bytes, a question to a model more."""
    long = "".join(chr(33 + (7 * n * n + n // 90) % 90) for n in range(9000))
    row = {"query_id": long, "item_id": "i", "ds": FIRST, "system": "new", "country": "DE"}
    postgres.execute("drop table runs")
    postgres.execute("drop table truth")
    postgres.load("runs", pa.Table.from_pylist([row | {"score": 1.0}]))
    postgres.load("truth", pa.table({"query_id": [long], "item_id": ["i"], "grade": [1]}))
    write(job(), postgres)
    assert write(job(), postgres).notes == ()
    assert query_rows(postgres, "select query_id from metrics_of_queries") == [(long,)]


GRANTED = ("metrics", "metrics_metrics", "metrics_wide", "metrics_latest", "metrics_shop_all")
GRANTED += ("metrics_shop_by_country", "metrics_daily_change", "metrics_status", "metrics_days")


@by_turns(0.8)
@pytest.mark.xdist_group("postgres")
def test_what_was_granted_survives_every_change(postgres: Any, tmp_path: Path) -> None:
    """Metrics added and taken out, a full refresh, a compiled job, another spec."""
    write(job(), postgres, days(0, 2))
    query = (
        "select distinct table_name from information_schema.role_table_grants "
        "where grantee = 'analyst_of_tests'"
    )
    postgres.execute("create role analyst_of_tests")
    try:
        for name in GRANTED:
            postgres.execute(f"grant select on {name} to analyst_of_tests")
        write(job(metrics=["hit@1", "mrr"]), postgres, full_refresh=True, allow_loss=2)
        write(job("other", metrics=["ap"], by=[]), postgres, days(0, 1))
        make_views_of_a_compiled_job(postgres)
        assert {name for (name,) in query_rows(postgres, query)} == {*GRANTED}
        names = list(postgres.columns("metrics_shop_all"))
        assert names[2] == "ndcg_at_3"
        assert "hit_at_1_n_queries" in names
        names = list(postgres.columns("metrics_other_all"))
        assert names[:3] == ["metric_date", "system", "ap"]
        assert len(names) == 2 + 6
        rows = query_rows(postgres, "select mrr, ndcg_at_3 from metrics_shop_all")
        assert all(mrr is not None and ndcg is None for mrr, ndcg in rows)
    finally:
        postgres.execute("drop owned by analyst_of_tests")
        postgres.execute("drop role analyst_of_tests")


def make_views_of_a_compiled_job(engine: Any) -> None:
    """As psql would."""
    text = compile_job(job(metrics=["rprec", "mrr"]), "postgres")["04_views.sql"]
    server: Any = engine.driver
    with server._connection.transaction():
        body = text.partition("begin;")[2].rpartition("commit;")[0]
        server._connection.execute(body)


@by_turns(0.7)
def test_metrics_and_definitions_of_several_runs(tmp_path: Path) -> None:
    with connect("duckdb://") as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        write(job(), engine, days(0, 2))
        first = engine.table("select * from metrics_definitions").to_pylist()
        engine.execute("update metrics_metrics set label = 'old'")
        linear = job(metrics=["ndcg@3", "hit@1"], conventions={"gain": "linear"})
        write(linear, engine, full_refresh=True, allow_loss=2)
        write(job("other", metrics=["mrr"]), engine, days(0, 1))
        metrics = engine.table("select * from metrics_metrics order by name").to_pylist()
        definitions = engine.table("select * from metrics_definitions").to_pylist()
    labels = {row["name"]: row["label"] for row in metrics}
    assert len(labels) == len(METRICS) + 1
    assert labels["ndcg@3"] == "Normalized discounted cumulative gain at 3"
    assert labels["auc"] == "old"  # nobody asks for it any more
    assert [row for row in definitions if row in first] == first
    gains = [
        json.loads(row["conventions"]).get("gain") for row in definitions if row["metric"] == "ndcg"
    ]
    assert gains == ["exp", "linear"]
    assert len(definitions) == len(first) + 2
    assert len({row["definition_hash"] for row in definitions}) == len(definitions)


@by_turns(0.6)
def test_a_change_is_significant_where_check_finds_a_drop() -> None:
    """One rule: a drop beyond the interval of the change fails, and is significant in the view."""
    with connect("duckdb://") as engine:
        for name, rows in zip(("runs", "truth"), log(days=9, seed=3), strict=True):
            engine.load(name, rows)
        limits = {"max_drop": 0, "confidence": 0.95, "segment": {"country": "*"}}
        checked = job(checks=[{"metric": "mrr", **limits}, {"metric": "ndcg@3", **limits}])
        write(checked, engine)
        engine.execute("update metrics set ci_low = value, ci_high = value where n_queries = 1")
        engine.execute(f"delete from metrics where metric_date = '{FIRST + timedelta(4)}'")
        n_compared = 0
        for number in (1, 2, 3, 5, 6, 7, 8):
            day = FIRST + timedelta(number)
            by_key = {
                (verdict.what, verdict.system, verdict.segment): verdict
                for verdict in verdicts(checked, engine, [days(number, number + 1)])
                if verdict.rule.startswith("max_drop")
            }
            rows = engine.table(
                "select *, case when k > 0 then metric || '@' || k else metric end as name "
                f"from metrics_daily_change where metric_date = '{day}' "
                "and segment_name = 'country' and metric in ('mrr', 'ndcg')"
            ).to_pylist()
            for row in rows:
                verdict = by_key[row["name"], row["system"], f"country={row['segment_value']}"]
                if row["change"] is None or "no interval" in verdict.note:
                    continue
                n_compared += 1
                drops = row["is_significant"] == 1 and row["change"] < 0
                assert drops == (not verdict.holds), (row, verdict)
    assert n_compared > 20


def test_names_of_views_are_never_cut_off() -> None:
    names = [bounded(f'bi."{"x" * 60}_{end}"') for end in ("search_all", "search_by_country")]
    assert len({*names}) == 2
    assert all(len(name) <= len('"bi".""') + 63 for name in names)
    assert bounded("bi.metrics_search_all") == "bi.metrics_search_all"
    by_metric = SpecView("shop", "mrr", [])
    assert (by_metric.suffix, by_metric.column) == ("shop_by_mrr", "mrr_segment")
    assert SpecView("shop", "System", []).column == "System_segment"


@by_night
@pytest.mark.xdist_group("postgres")
def test_a_year_of_facts_is_read_by_its_key(postgres: Any) -> None:
    """1.4 M rows: 365 days, 4 systems, 24 segments, 40 metrics; with the key, and without."""
    spec = job(metrics=[f"ndcg@{k}" for k in range(1, 41)])
    table_changes = changes(spec, postgres)
    for statement in table_changes.needed:
        postgres.execute(statement)
    server = getattr(postgres, "driver", postgres)
    server.execute(
        "insert into metrics (spec, metric_date, system, segment_name, segment_value, metric, k, "
        "value, numerator, denominator, n_queries, n_skipped, n_missing, ci_low, ci_high, "
        "definition_hash, run_id, computed_at, n_clusters, sum_x, sum_x2, sum_w2, sum_xw)\n"
        "select 'shop', date '2025-01-01' + d, 'system ' || s, "
        "case when g = 0 then 'all' else 'country' end, case when g = 0 then 'all' "
        "else 'c' || g end, 'ndcg', m, .5, 50, 100, 100, 0, 0, .4, .6, '0123456789abcdef', "
        "'11111111-1111-1111-1111-111111111111', now(), 100, 50, 30, 100, 50\n"
        "from generate_series(0, 364) d, generate_series(1, 4) s, generate_series(0, 23) g, "
        "generate_series(1, 40) m"
    )
    make_views(spec, postgres, view_statements(spec, postgres))
    chosen = "spec = 'shop' and segment_name = 'all' and metric = 'ndcg' and k = 10"
    queries = {
        "by day": f"select * from metrics where {chosen} and metric_date >= '2025-12-01'",
        "latest": f"select * from metrics_latest where {chosen}",
        "change": f"select * from metrics_daily_change where {chosen} "
        "and metric_date >= '2025-12-25'",
    }
    server.execute("analyze metrics")
    without = {name: seconds(server, query, 1) for name, query in queries.items()}
    for statement in table_changes.keys:
        server.execute(statement)
    server.execute("vacuum analyze metrics")
    quick = {name: seconds(server, query, 9) for name, query in queries.items()}
    print({name: f"{1000 * without[name]:.0f} -> {1000 * quick[name]:.1f} ms" for name in queries})
    for name, wanted in {"by day": 5, "latest": 50, "change": 50}.items():
        assert without[name] > wanted * quick[name], (name, without[name], quick[name])


def seconds(server: Any, query: str, times: int) -> float:
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        assert server.rows(query)
        taken.append(time.perf_counter() - begun)
    return median(taken)
