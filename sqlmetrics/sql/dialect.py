"""The SQL dialects: what each needs beside its grammar to mean what the text means on DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlmetrics.errors import SpecError, unknown


@dataclass(frozen=True)
class Times:
    """How times are read and told, in UTC where a time has a zone.

    Attributes:
        day: The day of a time.
        day_in_zone: The day of a time with a zone, in {zone}; empty where there is no such type.
        zones: Whether any zone has a name there that all know; else UTC alone.
        micros: A time as microseconds since 1970, which a DOUBLE holds exactly.
        moment: A time, of a text of it.
        now: The time at which a job runs, by its text.
    """

    day: str = "cast({column} as date)"
    day_in_zone: str = "cast({column} at time zone '{zone}' as date)"
    zones: bool = True
    micros: str = "extract(epoch from cast({column} as timestamp)) * 1000000"
    moment: str = "cast({column} as timestamp)"
    now: str = "cast(current_timestamp as timestamp)"

    def in_zone(self, zone: str) -> str:
        """The day of a time in a zone, of a {column}."""
        return self.day_in_zone.replace("{zone}", zone)

    def knows(self, zone: str) -> bool:
        """Whether days of a zone can be told."""
        return bool(self.day_in_zone) and (self.zones or zone == "UTC")


@dataclass(frozen=True)
class Dialect:
    """A dialect. Its grammar is sqlglot's; here stands what a grammar does not know.

    Attributes:
        name: What users write.
        title: Its own name.
        grammar: The dialect's name in sqlglot.
        relative: The dialect of an engine that was executed and takes nearly the same text.
        text: The type of a text of any length.
        collation: The collation by which texts are compared as bytes; empty where they
            are unless a column says otherwise.
        has_nan: Whether a DOUBLE can be NaN.
        has_float32: Whether a cast to a 32-bit number gives one.
        fails_at_underflow: Whether it has no 0 for what is too small for 32 bits, but an error.
        folds: What it takes an unquoted name for: `upper` or `lower`; or `exact` where all
            names can be quoted.
        signed_zero: Whether -0.0 and 0.0 are two values to it, at least in some places.
        partitions_floats: Whether a window can be partitioned by a number that is no whole one.
        names_columns: Whether a column of a join keeps its own name only if that is said.
        distributes: Whether rows are brought together by query once, for the join with the
            labels and for the window; else each of the two would move all rows.
        casts_texts: Whether any text can be cast to a number, and columns need no type.
        settings: What stands behind a query so that it means the same.
        keep: How a statement that keeps a query's rows for a while begins; empty where
            there is none, and the query runs again for each table.
        drop: What they are dropped with.
        hides_kept: Whether a query that has CTEs does not find what was kept, but computes it
            again; subqueries do find it.
        types: DuckDB's word for a type -> that of a column in a table that stays, where it is
            not what the grammar says.
        storage: What stands behind the columns of a table that stays.
        by_day: The same for one that is replaced day by day: how it is cut into parts. Without
            it all days are replaced in one transaction.
        adds_columns: Whether a column can be added unless it is there.
        view: The statements that make a view, or make it anew so that what was granted on it
            stays, of its {name} and its {select}.
        undoes_views: Whether a transaction that fails takes its views back too.
        session: What a session is told before a script, so that it means the same.
        run_id: A text that names a run of a job, by its text.
        hashed: The MD5 of a text, in lower case.
        times: How times are read and told.
    """

    name: str
    title: str
    grammar: str
    relative: str = ""
    text: str = "VARCHAR"
    collation: str = ""
    has_nan: bool = True
    has_float32: bool = True
    fails_at_underflow: bool = False
    folds: str = "exact"
    signed_zero: bool = False
    partitions_floats: bool = True
    names_columns: bool = False
    distributes: bool = False
    casts_texts: bool = False
    settings: str = ""
    keep: str = "create temporary table"
    drop: str = "drop table"
    hides_kept: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    storage: str = ""
    by_day: str = ""
    adds_columns: bool = True
    view: tuple[str, ...] = ("create or replace view {name} as\n{select}",)
    undoes_views: bool = False
    session: tuple[str, ...] = ()
    run_id: str = "cast(current_timestamp as varchar)"
    hashed: str = "md5({column})"
    times: Times = Times()


KEPT = "sqlmetrics_per_query"
"""The temporary table that keeps the values of the queries, where the name is free."""

_NULLS = "settings join_use_nulls = 1, prefer_column_name_to_alias = 1"
"""ClickHouse: what a join does not find is NULL; a name is a column's before an alias'."""

_MYSQL_RUN = "cast(uuid() as char)"

_MYSQL_TIMES = Times(
    day_in_zone="",
    micros="timestampdiff(microsecond, '1970-01-01', {column})",
    moment="cast({column} as datetime(6))",
    now="utc_timestamp(6)",
)

_SPARK_TIMES = Times(
    day_in_zone="cast(convert_timezone(current_timezone(), '{zone}', "
    "cast({column} as timestamp_ntz)) as date)",
    micros="unix_micros(cast({column} as timestamp))",
    moment="cast({column} as timestamp_ntz)",
    now="cast(current_timestamp() as timestamp_ntz)",
)

_TRINO_TIMES = Times(
    day="cast(from_unixtime(to_unixtime({column}), 'UTC') as date)",
    micros="cast(round(to_unixtime({column}) * 1000000) as bigint)",
)

_TRINO_HASH = "lower(to_hex(md5(to_utf8({column}))))"

_CLICKHOUSE_TYPES = {
    "varchar": "Nullable(String)",
    "date": "Nullable(Date)",
    "bigint": "Nullable(Int64)",
    "double": "Nullable(Float64)",
    "varchar not null": "String",
    "date not null": "Date",
    "integer not null": "Int32",
    "bigint not null": "Int64",
    "timestamp not null": "DateTime64(6, 'UTC')",
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

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        one.name: one
        for one in (
            Dialect(
                "duckdb",
                "DuckDB",
                "duckdb",
                undoes_views=True,
                session=("set TimeZone = 'UTC'",),
                run_id="cast(current_timestamp as varchar)",
                times=Times(
                    day="cast(make_timestamp(epoch_us({column})) as date)",
                    day_in_zone="cast(timezone('{zone}', {column}) as date)",
                    micros="epoch_us({column})",
                    now="cast(current_timestamp at time zone 'UTC' as timestamp)",
                ),
            ),
            Dialect(
                "athena", "Amazon Athena", "athena", keep="", hashed=_TRINO_HASH, times=_TRINO_TIMES
            ),
            Dialect(
                "bigquery",
                "BigQuery",
                "bigquery",
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
                ),
            ),
            Dialect(
                "clickhouse",
                "ClickHouse",
                "clickhouse",
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
                times=Times(
                    day="toDate(toDateTime64({column}, 6, 'UTC'))",
                    day_in_zone="toDate(toTimeZone({column}, '{zone}'))",
                    micros="toUnixTimestamp64Micro(toDateTime64({column}, 6, 'UTC'))",
                    moment="toDateTime64({column}, 6, 'UTC')",
                    now="now64(6, 'UTC')",
                ),
            ),
            Dialect(
                "databricks",
                "Databricks",
                "databricks",
                adds_columns=False,
                relative="spark",
                text="STRING",
                keep="",
                view=(
                    "create view if not exists {name} as\n{select}",
                    "alter view {name} as\n{select}",  # to replace it would take its GRANTs away
                ),
                run_id="uuid()",
                times=_SPARK_TIMES,
            ),
            Dialect(
                "datafusion",
                "Apache DataFusion",
                "postgres",
                text="TEXT",
                signed_zero=True,
                keep="",
            ),
            Dialect(
                "mariadb",
                "MariaDB",
                "mysql",
                text="CHAR",
                collation="utf8mb4_nopad_bin",
                has_nan=False,
                types={"varchar": f"{_MYSQL_TEXT}utf8mb4_nopad_bin", "timestamp": "datetime(6)"},
                session=(
                    "set names utf8mb4 collate utf8mb4_nopad_bin",
                    *_MYSQL_SESSION,
                    "set session join_cache_level = 4",
                ),
                run_id=_MYSQL_RUN,
                times=_MYSQL_TIMES,
            ),
            Dialect(
                "materialize",
                "Materialize",
                "materialize",
                text="TEXT",
                fails_at_underflow=True,
                keep="",
            ),
            Dialect(
                "mysql",
                "MySQL",
                "mysql",
                adds_columns=False,
                relative="mariadb",
                text="CHAR",
                collation="utf8mb4_0900_bin",
                has_nan=False,
                types={"varchar": f"{_MYSQL_TEXT}utf8mb4_0900_bin", "timestamp": "datetime(6)"},
                session=("set names utf8mb4 collate utf8mb4_0900_bin", *_MYSQL_SESSION),
                keep="create table",  # a temporary one cannot be read twice in one query
                run_id=_MYSQL_RUN,
                times=_MYSQL_TIMES,
            ),
            Dialect(
                "postgres",
                "PostgreSQL",
                "postgres",
                text="TEXT",
                collation='"C"',
                undoes_views=True,
                session=("set timezone = 'UTC'",),
                run_id="cast(current_timestamp as text)",
                fails_at_underflow=True,
                times=Times(
                    day="cast(to_timestamp(extract(epoch from {column})) "
                    "at time zone 'UTC' as date)",
                    micros="cast(extract(epoch from {column}) * 1000000 as bigint)",
                    now="(current_timestamp at time zone 'utc')",
                ),
            ),
            Dialect(
                "presto",
                "Presto",
                "presto",
                keep="",
                hashed=_TRINO_HASH,
                times=_TRINO_TIMES,
            ),
            Dialect(
                "redshift",
                "Amazon Redshift",
                "redshift",
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
                ),
            ),
            Dialect("risingwave", "RisingWave", "risingwave", keep=""),
            Dialect(
                "snowflake",
                "Snowflake",
                "snowflake",
                relative="fakesnow",
                has_float32=False,
                folds="upper",
                view=("create or replace view {name} copy grants as\n{select}",),
                session=("alter session set timezone = 'UTC'",),
                run_id="uuid_string()",
                times=Times(
                    day="cast(to_timestamp_ntz(date_part(epoch_microsecond, {column}), 6) as date)",
                    day_in_zone="cast(convert_timezone('{zone}', {column}) as date)",
                    micros="date_part(epoch_microsecond, {column})",
                    now="sysdate()",
                ),
            ),
            Dialect(
                "spark",
                "Apache Spark",
                "spark",
                adds_columns=False,
                text="STRING",
                distributes=True,
                keep="cache table",
                drop="drop view",
                hides_kept=True,
                storage="using parquet",
                by_day="using parquet partitioned by (spec, metric_date)",
                session=(
                    "set spark.sql.ansi.enabled = true",
                    "set spark.sql.session.timeZone = UTC",
                    "set spark.sql.requireAllClusterKeysForCoPartition = false",
                ),
                run_id="uuid()",
                times=_SPARK_TIMES,
            ),
            Dialect(
                "sqlite",
                "SQLite",
                "sqlite",
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
                ),
            ),
            Dialect(
                "tsql",
                "SQL Server",
                "tsql",
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
                ),
            ),
            Dialect(
                "trino",
                "Trino",
                "trino",
                keep="",
                hashed=_TRINO_HASH,
                times=_TRINO_TIMES,
            ),
        )
    }
)
"""Name -> dialect."""

DUCKDB = DIALECTS["duckdb"]
"""The dialect of the text that all others are made from."""


def dialect(name: str) -> Dialect:
    """The dialect of a name.

    Raises:
        SpecError: If there is none; the nearest name is told.
    """
    if name not in DIALECTS:
        raise SpecError(unknown("dialect", name, DIALECTS))
    return DIALECTS[name]
