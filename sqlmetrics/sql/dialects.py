"""The rows: what is known of each dialect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.dialect import (
    EXCHANGE,
    MERGE,
    OVERWRITE,
    Catalogue,
    Client,
    Comments,
    Dialect,
    Key,
    Times,
    Writing,
)
from sqlmetrics.sql.template import identifier

# The catalogues of databases: queries that list what they hold.

DUCKDB_CATALOGUE = Catalogue(
    relations="select schema_name, view_name, 'view' from duckdb_views() union all "
    "select schema_name, table_name, 'table' from duckdb_tables()",
    views="select schema_name, view_name, sql from duckdb_views() where not internal",
    schema="select current_schema()",
    path="select unnest(list_append(current_schemas(false), current_schema()))",
    function="select 1 from duckdb_functions() where not internal and function_name = {name}",
    drop_function="drop macro table if exists {name}",
    macros="select distinct function_name, cast(parameters as varchar) from duckdb_functions() "
    "where not internal and list_contains(parameters, {parameter})",
    drop_macro="drop macro table if exists {name}",
)

SQLITE_CATALOGUE = Catalogue(
    relations="select '', name, type from sqlite_master where type in ('table', 'view')",
    views="select '', name, sql from sqlite_master where type = 'view'",
)

POSTGRES_CATALOGUE = Catalogue(
    relations="select n.nspname, c.relname, case c.relkind when 'v' then 'view' else 'table' end "
    "from pg_class as c join pg_namespace as n on n.oid = c.relnamespace "
    "where c.relkind in ('r', 'p', 'v')",
    views="select schemaname, viewname, definition from pg_views "
    "where schemaname not in ('pg_catalog', 'information_schema') "
    "union all select schemaname, matviewname, definition from pg_matviews",
    schema="select current_schema()",
    path="select unnest(current_schemas(false))",
    function="select 1 from pg_proc where proname = {name}",
    drop_function="drop function if exists {name}(date, date)",
)

MYSQL_CATALOGUE = Catalogue(
    relations="select table_schema, table_name, lower(replace(table_type, 'BASE ', '')) "
    "from information_schema.tables",
    views="select table_schema, table_name, view_definition from information_schema.views",
    schema="select database()",
)

TRINO_CATALOGUE = Catalogue(
    relations="select table_schema, table_name, lower(replace(table_type, 'BASE ', '')) "
    "from information_schema.tables",
    views="select table_schema, table_name, view_definition from information_schema.views",
    schema="select current_schema",
)


KEPT = "sqlmetrics_per_query"
"""The temporary table that keeps the values of the queries, where the name is free."""

_NULLS = (
    "settings\n    join_use_nulls = 1,\n    aggregate_functions_null_for_empty = 1,\n"
    "    prefer_column_name_to_alias = 1"
)
"""ClickHouse: what a join does not find is NULL, and so is the largest of no rows, where a window
begins; a name is a column's before an alias'."""

_MYSQL_LOCK: Mapping[str, Any] = {
    "lock": "select get_lock({key}, 3600)",
    "key": "left(sha2({name}, 256), 48)",  # names of locks are short
    "schema": "lower(database())",
}

_POSTGRES_LOCK: Mapping[str, Any] = {
    "lock": "select pg_advisory_xact_lock({key})",
    "key": "hashtextextended({name}, 0)",
    "schema": """lower(coalesce(
    (
        select nspname
        from pg_class
            join pg_namespace on pg_namespace.oid = relnamespace
        where pg_class.oid = to_regclass({table})
    ),
    current_schema()
))""",
}

_CLIENTS: Mapping[str, Client] = {
    "duckdb": Client(
        "the duckdb command",
        "getvariable('{name}')",
        "cat {files} | duckdb -bail -cmd \"set variable start = '2026-01-01'\" "
        '-cmd "set variable \\"end\\" = \'2026-01-02\'" FILE.duckdb',
    ),
    "postgres": Client(
        "psql",
        ":'{name}'",
        "psql -v ON_ERROR_STOP=1 -v start=2026-01-01 -v end=2026-01-02 {options}",
    ),
    "redshift": Client(
        "psql",
        ":'{name}'",
        "psql -v ON_ERROR_STOP=1 -v start=2026-01-01 -v end=2026-01-02 {options}",
    ),
    "sqlite": Client(
        "sqlite3",
        ":{name}",
        'cat {files} | sqlite3 -bail -cmd ".parameter set :start \\"\'2026-01-01\'\\"" '
        '-cmd ".parameter set :end \\"\'2026-01-02\'\\"" FILE.db',
    ),
    "mariadb": Client(
        "mariadb",
        "@{name}",
        "cat {files} | mariadb --init-command=\"set @start = '2026-01-01', @end = '2026-01-02'\"",
    ),
    "mysql": Client(
        "mysql",
        "@{name}",
        "cat {files} | mysql --init-command=\"set @start = '2026-01-01', @end = '2026-01-02'\"",
    ),
    "snowflake": Client(
        "snowsql",
        "'&{name}'",
        "snowsql -o variable_substitution=true -o exit_on_error=true "
        "-D start=2026-01-01 -D end=2026-01-02 {options}",
    ),
    "clickhouse": Client(
        "clickhouse client",
        "{{{name}:Date}}",
        "cat {files} | clickhouse client --multiquery "
        "--param_start=2026-01-01 --param_end=2026-01-02",
    ),
    "spark": Client(
        "spark-sql",
        "'${{{name}}}'",
        "cat {files} > job.sql && spark-sql -d start=2026-01-01 -d end=2026-01-02 -f job.sql",
    ),
    "databricks": Client(
        "a Databricks job with one SQL task per file",
        ":{name}",
        "tasks with the parameters start and end, in this order: {files}",
    ),
    "trino": Client(
        "trino, its files through envsubst",
        "'${{{name}}}'",
        "for file in {files}; do start=2026-01-01 end=2026-01-02 envsubst '$start $end' < $file | "
        'trino --execute "$(cat)"; done',
    ),
    "bigquery": Client(
        "bq",
        "@{name}",
        "cat {files} | bq query --use_legacy_sql=false "
        "--parameter=start:DATE:2026-01-01 --parameter=end:DATE:2026-01-02",
        keep="create temporary table",
    ),
}
"""Dialect -> the program that executes a compiled job of it."""

_INDEX = "create unique index if not exists {index}\non {table} ({columns})"

_COMMENT_ON = Comments(
    "comment on {kind} {name} is {text}", "comment on column {name}.{column} is {text}"
)

_COMMENT = Comments(inline=" comment {text}", behind="comment {text}")

_MYSQL_COMMENT = Comments(inline=" comment {text}", behind="comment = {text}")

_MYSQL_KEY = Key(inline="key ({columns})", text="{column}(48)", long="{column}(48)")
"""A key of InnoDB holds 3,072 bytes, fewer than its texts may have: it finds rows by their
beginnings, and cannot be unique."""

_MYSQL_RUN = "cast(uuid() as char)"

_DATEADD = "dateadd(day, {days}, {day})"

_MYSQL_IS_LISTED = "concat(', ', {names}, ', ') like concat('%, ', {name}, ', %')"  # || is or
_MYSQL_TIMES = Times(
    day_in_zone="",
    compares_days=True,
    micros="timestampdiff(microsecond, '1970-01-01', {column})",
    moment="cast({column} as datetime(6))",
    now="utc_timestamp(6)",
    later="date_add({day}, interval {days} day)",
    age="datediff(utc_date(), {column})",
)

_SPARK_TIMES = Times(
    day_in_zone="cast(convert_timezone(current_timezone(), '{zone}', "
    "cast({column} as timestamp_ntz)) as date)",
    micros="unix_micros(cast({column} as timestamp))",
    moment="cast({column} as timestamp_ntz)",
    now="cast(current_timestamp() as timestamp_ntz)",
    later="date_add({day}, cast({days} as int))",
    age="cast(datediff(current_date(), {column}) as bigint)",
)

_TRINO_TIMES = Times(
    compares_texts=False,
    day="cast(from_unixtime(to_unixtime({column}), 'UTC') as date)",
    micros="cast(round(to_unixtime({column}) * 1000000) as bigint)",
    later="date_add('day', {days}, {day})",
)

_TRINO_HASH = "lower(to_hex(md5(to_utf8({column}))))"

_CLICKHOUSE_TYPES = {
    "varchar": "Nullable(String)",
    "date": "Nullable(Date)",
    "integer": "Nullable(Int32)",
    "bigint": "Nullable(Int64)",
    "timestamp": "Nullable(DateTime64(6, 'UTC'))",
    "text": "Nullable(String)",
    "double": "Nullable(Float64)",
    "varchar not null": "String",
    "date not null": "Date",
    "integer not null": "Int32",
    "bigint not null": "Int64",
    "timestamp not null": "DateTime64(6, 'UTC')",
    "text not null": "String",
}

_MYSQL_TEXT = "varchar(512) character set utf8mb4 collate "

_MYSQL_SESSION = (
    "set session time_zone = '+00:00'",
    "set session sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO'",
    "set session optimizer_switch = 'derived_merge=off'",
)

_SQLITE_MICROS = (
    "(strftime('%s', {column}) * 1000000 + "
    "cast(round((strftime('%f', {column}) - strftime('%S', {column})) * 1000) as integer) * 1000)"
)

_EXACT_SUM = """\
-- adds floats as whole numbers, of 2^-20 and 2^-82: the same bits in any order of the rows
create or replace temp macro {name}(x) as case
    when max(abs(x)) < 4e12
        then cast(sum(try_cast(trunc(x * 1048576e0) as bigint)) as double) / 1048576e0
            + cast(
                sum(try_cast(
                    (x * 1048576e0 - trunc(x * 1048576e0)) * 4611686018427387904e0 as bigint
                )) as double
            ) / (1048576e0 * 4611686018427387904e0)
    else sum(x)
end"""

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            Dialect(
                "duckdb",
                "DuckDB",
                "duckdb",
                catalogue=DUCKDB_CATALOGUE,
                temporary_view=True,
                unfolded="unnest(list_append({column}, {element}))",
                undoes_views=True,
                session=("set TimeZone = 'UTC'",),
                exact_sum=_EXACT_SUM,
                run_id="cast(current_timestamp as varchar)",
                times=Times(
                    day="cast(make_timestamp(epoch_us({column})) as date)",
                    day_in_zone="cast(timezone('{zone}', {column}) as date)",
                    instant="cast({column} || '+00' as timestamptz)",
                    compares_days=True,
                    micros="epoch_us({column})",
                    now="cast(current_timestamp at time zone 'UTC' as timestamp)",
                    age="date_diff('day', {column}, "
                    "cast(current_timestamp at time zone 'UTC' as date))",
                ),
                comments=_COMMENT_ON,  # and no index: see ADR 20
                function="create or replace macro {name}(start_date, end_date) as table\n{select}",
                writing=Writing(
                    by_run=True,
                    publishes=True,
                    client=_CLIENTS["duckdb"],
                ),
            ),
            Dialect(
                "athena",
                "Amazon Athena",
                "athena",
                inlines_stages=True,
                keep="",
                hashed=_TRINO_HASH,
                times=_TRINO_TIMES,
            ),
            Dialect(
                "bigquery",
                "BigQuery",
                "bigquery",
                inlines_stages=True,
                relative="googlesql",
                text="STRING",
                has_float32=False,
                signed_zero=True,
                partitions_floats=False,
                keep="",
                run_id="generate_uuid()",
                hashed="to_hex(md5({column}))",
                times=Times(
                    day_in_zone="date({column}, '{zone}')",
                    micros="unix_micros(cast({column} as timestamp))",
                    moment="cast({column} as datetime)",
                    now="current_datetime()",
                    later="date_add({day}, interval {days} day)",
                    age="date_diff(current_date(), {column}, day)",
                ),
                view=(
                    "create or replace view {name}\noptions (description = {text})\nas\n{select}",
                ),
                key=Key(inline="primary key ({columns}) not enforced"),
                comments=Comments(
                    inline=" options (description = {text})",
                    behind="options (description = {text})",
                ),
                writing=Writing(
                    begin="begin transaction",
                    commit="commit transaction",
                    client=_CLIENTS["bigquery"],
                ),
            ),
            Dialect(
                "clickhouse",
                "ClickHouse",
                "clickhouse",
                inlines_stages=True,
                text="Nullable(String)",
                signed_zero=True,
                names_columns=True,
                settings=_NULLS,
                session=("set session_timezone = 'UTC'",),
                types=_CLICKHOUSE_TYPES,
                storage="engine = MergeTree order by tuple()",
                by_day="engine = MergeTree partition by (spec, metric_date) order by tuple()",
                run_id="toString(generateUUIDv4())",
                hashed="lower(hex(MD5({column})))",
                quick_hash="cityHash64(coalesce({column}, ''))",
                adds_in_parts=True,
                times=Times(
                    day="toDate(toDateTime64({column}, 6, 'UTC'))",
                    day_in_zone="toDate(toTimeZone({column}, '{zone}'))",
                    micros="toUnixTimestamp64Micro(toDateTime64({column}, 6, 'UTC'))",
                    moment="toDateTime64({column}, 6, 'UTC')",
                    now="now64(6, 'UTC')",
                    later="addDays({day}, {days})",
                    age="toInt64(dateDiff('day', {column}, toDate(now('UTC'))))",
                ),
                comments=_COMMENT,
                function="create or replace view {name} as\n{select}",
                argument="{{{name}:Date}}",
                writing=Writing(
                    by_run=True,
                    publishes=True,
                    replace=EXCHANGE,
                    client=_CLIENTS["clickhouse"],
                    promise="no transactions: between delete and insert readers find the days "
                    "empty; sqlmetrics run exchanges whole parts instead",
                ),
            ),
            Dialect(
                "databricks",
                "Databricks",
                "databricks",
                explodes=True,
                inlines_stages=True,
                places=12,
                adds_columns=False,
                relative="spark",
                text="STRING",
                keep="",
                view=(
                    "create view if not exists {name}\ncomment {text}\nas\n{select}",
                    "alter view {name} as\n{select}",  # to replace it would take its GRANTs away
                ),
                run_id="uuid()",
                times=_SPARK_TIMES,
                comments=_COMMENT,
                writing=Writing(
                    begin="",
                    client=_CLIENTS["databricks"],
                    promise="each statement commits by itself: between delete and insert readers "
                    "find the days empty",
                ),
            ),
            Dialect(
                "datafusion",
                "Apache DataFusion",
                "postgres",
                adds_in_parts=True,
                inlines_stages=True,
                text="TEXT",
                signed_zero=True,
                keep="",
            ),
            Dialect(
                "mariadb",
                "MariaDB",
                "mysql",
                adds_in_parts=True,
                catalogue=MYSQL_CATALOGUE,
                text="CHAR",
                collation="utf8mb4_nopad_bin",
                has_nan=False,
                few_stages=True,
                types={"varchar": f"{_MYSQL_TEXT}utf8mb4_nopad_bin", "timestamp": "datetime(6)"},
                session=(
                    "set names utf8mb4 collate utf8mb4_nopad_bin",
                    *_MYSQL_SESSION,
                    "set session join_cache_level = 4",
                ),
                run_id=_MYSQL_RUN,
                is_listed=_MYSQL_IS_LISTED,
                times=_MYSQL_TIMES,
                key=_MYSQL_KEY,
                comments=_MYSQL_COMMENT,
                writing=Writing(
                    by_run=True,
                    publishes=True,
                    begin="start transaction",
                    **_MYSQL_LOCK,
                    client=_CLIENTS["mariadb"],
                ),
            ),
            Dialect(
                "materialize",
                "Materialize",
                "materialize",
                exact_literals=True,
                text="TEXT",
                fails_at_underflow=True,
                keep="",
            ),
            Dialect(
                "mysql",
                "MySQL",
                "mysql",
                catalogue=MYSQL_CATALOGUE,
                adds_columns=False,
                relative="mariadb",
                text="CHAR",
                collation="utf8mb4_0900_bin",
                has_nan=False,
                types={"varchar": f"{_MYSQL_TEXT}utf8mb4_0900_bin", "timestamp": "datetime(6)"},
                session=("set names utf8mb4 collate utf8mb4_0900_bin", *_MYSQL_SESSION),
                keep="create table",  # a temporary one cannot be read twice in one query
                run_id=_MYSQL_RUN,
                is_listed=_MYSQL_IS_LISTED,
                times=_MYSQL_TIMES,
                key=_MYSQL_KEY,
                comments=_MYSQL_COMMENT,
                writing=Writing(
                    by_run=True,
                    publishes=True,
                    begin="start transaction",
                    **_MYSQL_LOCK,
                    client=_CLIENTS["mysql"],
                ),
            ),
            Dialect(
                "postgres",
                "PostgreSQL",
                "postgres",
                adds_in_parts=True,
                catalogue=POSTGRES_CATALOGUE,
                exact_literals=True,
                copies_stages=True,
                row_hash="hash_record_extended(row({columns}), 0)",
                temporary_view=True,
                unfolded="unnest(array_append({column}, {element}))",
                text="TEXT",
                collation='"C"',
                undoes_views=True,
                session=("set timezone = 'UTC'",),
                scans=("set enable_nestloop = off",),
                run_id="cast(current_timestamp as text)",
                fails_at_underflow=True,
                times=Times(
                    day="cast(to_timestamp(extract(epoch from {column})) "
                    "at time zone 'UTC' as date)",
                    instant="(timestamp {column} at time zone 'UTC')",
                    compares_days=True,
                    micros="cast(extract(epoch from {column}) * 1000000 as bigint)",
                    now="(current_timestamp at time zone 'utc')",
                    age="cast(cast(current_timestamp at time zone 'utc' as date) - {column} "
                    "as bigint)",
                ),
                key=Key(_INDEX, long="md5({column})"),  # a row of an index holds 2,704 bytes
                function="create or replace function {name}(start_date date, end_date date)\n"
                "returns table (\n{columns}\n)\nlanguage sql\nstable\n"
                "as $between$\n{select}\n$between$",
                comments=_COMMENT_ON,
                writing=Writing(
                    by_run=True,
                    publishes=True,
                    **_POSTGRES_LOCK,
                    grows_views=True,
                    client=_CLIENTS["postgres"],
                ),
            ),
            Dialect(
                "presto",
                "Presto",
                "presto",
                inlines_stages=True,
                keep="",
                hashed=_TRINO_HASH,
                times=_TRINO_TIMES,
            ),
            Dialect(
                "redshift",
                "Amazon Redshift",
                "redshift",
                exact_literals=True,
                adds_columns=False,
                relative="postgres",
                text="VARCHAR(65535)",
                fails_at_underflow=True,
                undoes_views=True,
                session=("set timezone to 'UTC'",),
                run_id="cast(getdate() as varchar)",
                times=Times(
                    micros="datediff(microsecond, cast('1970-01-01' as timestamp), {column})",
                    now="getdate()",  # the usual word is known to the leader node alone
                    later=_DATEADD,
                    age="datediff(day, {column}, trunc(getdate()))",
                ),
                key=Key(inline="primary key ({columns})"),
                comments=_COMMENT_ON,
                writing=Writing(
                    client=_CLIENTS["redshift"],
                ),
            ),
            Dialect("risingwave", "RisingWave", "risingwave", exact_literals=True, keep=""),
            Dialect(
                "sail",
                "Sail",
                "spark",
                explodes=True,
                inlines_stages=True,
                places=12,
                adds_columns=False,
                text="STRING",
                keep="cache table",
                signed_zero=True,
                temporary_view=True,
                drop="drop view",
                hides_kept=True,
                run_id="uuid()",
                times=_SPARK_TIMES,
                comments=_COMMENT,
            ),
            Dialect(
                "snowflake",
                "Snowflake",
                "snowflake",
                relative="fakesnow",
                has_float32=False,
                folds="upper",
                view=("create or replace view {name} copy grants\ncomment = {text}\nas\n{select}",),
                session=("alter session set timezone = 'UTC'",),
                run_id="uuid_string()",
                times=Times(
                    day="cast(to_timestamp_ntz(date_part(epoch_microsecond, {column}), 6) as date)",
                    day_in_zone="cast(convert_timezone('{zone}', {column}) as date)",
                    micros="date_part(epoch_microsecond, {column})",
                    now="sysdate()",
                    later=_DATEADD,
                    age="datediff(day, {column}, cast(sysdate() as date))",
                ),
                key=Key(inline="primary key ({columns})"),
                comments=_MYSQL_COMMENT,
                writing=Writing(
                    client=_CLIENTS["snowflake"],
                ),
            ),
            Dialect(
                "spark",
                "Apache Spark",
                "spark",
                explodes=True,
                inlines_stages=True,
                places=12,  # of 20 its analyzer's stack overflows, of 15 it did not
                adds_columns=False,
                text="STRING",
                distributes=True,
                keep="cache table",
                temporary_view=True,
                drop="drop view",
                hides_kept=True,
                storage="using parquet",
                by_day="using parquet partitioned by (spec, metric_date)",
                session=(
                    "set spark.sql.ansi.enabled = true",
                    "set spark.sql.session.timeZone = UTC",
                    "set spark.sql.requireAllClusterKeysForCoPartition = false",
                ),
                view=("create or replace view {name}\ncomment {text}\nas\n{select}",),
                run_id="uuid()",
                times=_SPARK_TIMES,
                comments=_COMMENT,
                writing=Writing(
                    by_run=True,
                    replace=OVERWRITE,
                    begin="set spark.sql.sources.partitionOverwriteMode = dynamic",
                    add_column="alter table {table} add columns ({column})",
                    client=_CLIENTS["spark"],
                    promise="each day of a table is written whole: metrics that the spec no longer "
                    "names are lost, and a day without new rows keeps its old ones; sqlmetrics "
                    "run keeps the metrics and drops the old rows",
                ),
            ),
            Dialect(
                "sqlite",
                "SQLite",
                "sqlite",
                inlines_joined=True,
                adds_in_parts=True,
                catalogue=SQLITE_CATALOGUE,
                temporary_view=True,
                parameters_in_views=False,
                adds_columns=False,
                text="TEXT",
                collation="binary",
                has_nan=False,
                types={"timestamp": "timestamp"},
                view=("drop view if exists {name}", "create view {name} as\n{select}"),
                undoes_views=True,
                run_id="strftime('%Y-%m-%d %H:%M:%f', 'now')",
                has_float32=False,
                casts_texts=True,
                times=Times(
                    day="date({column})",
                    day_in_zone="",
                    micros=_SQLITE_MICROS,
                    moment="{column}",
                    now="strftime('%Y-%m-%d %H:%M:%f', 'now')",
                    later="date({day}, {days} || ' days')",
                    age="cast(julianday(date('now')) - julianday({column}) as integer)",
                ),
                key=Key(_INDEX),
                writing=Writing(
                    by_run=True,
                    publishes=True,
                    begin="begin immediate",
                    client=_CLIENTS["sqlite"],
                ),
            ),
            Dialect(
                "tsql",
                "SQL Server",
                "tsql",
                inlines_stages=True,
                adds_columns=False,
                text="NVARCHAR(4000)",
                collation="Latin1_General_100_BIN2",
                has_nan=False,
                has_float32=False,
                keep="",
                hashed="lower(convert(varchar(32), hashbytes('MD5', {column}), 2))",
                view=("create or alter view {name} as\n{select}",),
                times=Times(
                    zones=False,  # they have names of Windows
                    micros="datediff_big(microsecond, '1970-01-01', {column})",
                    later=_DATEADD,
                ),
            ),
            Dialect(
                "trino",
                "Trino",
                "trino",
                inlines_stages=True,
                keep="",
                view=("create or replace view {name}\ncomment {text}\nas\n{select}",),
                hashed=_TRINO_HASH,
                times=_TRINO_TIMES,
                comments=_COMMENT,
                catalogue=TRINO_CATALOGUE,
                writing=Writing(
                    by_run=True,
                    publishes=True,
                    replace=MERGE,
                    begin="",
                    client=_CLIENTS["trino"],
                    promise="each table changes by one statement, and is old or new to readers; "
                    "the connector must know MERGE, as those of Iceberg and Delta Lake do",
                ),
            ),
        )
    }
)
"""Name -> dialect."""

DEFAULT = "duckdb"
"""The dialect that is taken if none is given."""

DUCKDB = DIALECTS[DEFAULT]
"""The dialect of the text that all others are made from."""


def dialect_named(name: str) -> Dialect:
    """The dialect of a name.

    Raises:
        SpecError: If there is none; the nearest name is told.
    """
    if name not in DIALECTS:
        raise SpecError(unknown("dialect", name, DIALECTS))
    return DIALECTS[name]


@cache
def is_reserved(word: str) -> bool:
    """Whether a word cannot stand for a column on some database.

    >>> is_reserved("select"), is_reserved("rank"), is_reserved("north_star")
    (True, True, False)
    """
    from sqlglot import Dialect

    grammars = {dialect.grammar for dialect in DIALECTS.values()}
    reserved = (Dialect.get_or_raise(name).generator_class.RESERVED_KEYWORDS for name in grammars)
    return identifier(word) != word or any(word in words for words in reserved)
