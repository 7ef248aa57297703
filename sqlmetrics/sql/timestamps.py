"""Texts as times: how each dialect reads them, NULL where they are none.

A text is ISO 8601 with or without an offset, in UTC without one, or a number since 1970. What
follows is given texts in capitals and without blanks around them. It never fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_DATE = "[12][0-9][0-9][0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
_ZONE = " ?(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)"
ISO = f"^{_DATE}([T ]{_CLOCK}({_ZONE})?)?$"
"""A date, and perhaps a time of the day, and perhaps an offset."""

ZONED = ":.*[Z+-]"
"""One of these that has an offset."""

NUMBER = "^[0-9]+([.][0-9]*)?$"


@dataclass(frozen=True)
class Reader:
    """How a dialect reads texts as times; each is SQL over {column}.

    Attributes:
        text: A value as the text that the others take.
        is_number: Whether such a text is a number.
        micros: Microseconds since 1970 of such a text in ISO 8601; NULL for all else.
        moment: Microseconds since 1970 as a time in UTC, without a zone.
        local: Microseconds since 1970 as what clocks in {zone} show then, likewise in
            microseconds; empty where that is not told.
        local_day: Microseconds since 1970 as the day that it is then in {zone}; likewise.
    """

    text: str
    is_number: str
    micros: str
    moment: str
    local: str = ""
    local_day: str = ""


def _text(kind: str) -> str:
    """Capitals, Z for UTC, and a point before fractions of a second; NULL for an empty text."""
    trimmed = f"upper(trim(cast({{column}} as {kind})))"
    return f"nullif(replace(replace({trimmed}, ' UTC', 'Z'), ',', '.'), '')"


_SHORT = (
    r"^\d\d\d\d-\d\d-\d\d([T ]([01]\d|2[0-3]):\d\d(:\d\d([.]\d+)?)?( ?(Z|[+-]\d\d(:?\d\d)?))?)?$"
)
"""The same where a cast says whether there is such a day and time."""

_DUCKDB = Reader(
    _text("varchar"),
    f"regexp_matches({{column}}, '{NUMBER}')",
    f"case\n    when not regexp_matches(\n        {{column}},\n        '{_SHORT}'\n    )\n"
    "        then null\n"
    f"    when regexp_matches({{column}}, '{ZONED}')\n"
    "        then epoch_us(\n            "
    "try_cast(regexp_replace({column}, ' ([Z+-])', '\\1') as timestamptz)\n        )\n"
    "    else epoch_us(try_cast({column} as timestamp))\nend",
    "make_timestamp({column})",
    "epoch_us(\n    timezone(\n        '{zone}',\n        make_timestamptz({column})\n    )\n)",
    "cast(timezone('{zone}', make_timestamptz({column})) as date)",
)

_POSTGRES_CLOCK = (
    "timezone(\n    '{zone}',\n    timestamptz 'epoch' + {column}\n"
    "        * interval '1 microsecond'\n)"
)
_POSTGRES = Reader(
    _text("text"),
    f"{{column}} ~ '{NUMBER}'",
    f"case\nwhen {{column}} is null or {{column}} !~ '{ISO}' then null\n"
    "when cast(substr({column}, 9, 2) as integer) > extract(day from "
    "cast(concat(substr({column}, 1, 7), '-01') as date) + interval '1 month' - interval '1 day')\n"
    "then null\n"
    f"when {{column}} ~ '{ZONED}'\n"
    "then cast(extract(epoch from cast({column} as timestamptz)) * 1000000 as bigint)\n"
    "else cast(extract(epoch from cast({column} as timestamp)) * 1000000 as bigint)\nend",
    "(timestamp '1970-01-01' + {column} * interval '1 microsecond')",
    f"cast(extract(epoch from {_POSTGRES_CLOCK}) * 1000000 as bigint)",
    f"cast({_POSTGRES_CLOCK} as date)",
)

_SQLITE_COLON = (
    "case when {column} glob '*:*[+-][0-9][0-9]' then {column} || ':00' "
    "when {column} glob '*:*[+-][0-9][0-9][0-9][0-9]' "
    "then substr({column}, 1, length({column}) - 2) || ':' || substr({column}, -2) "
    "else {column} end"
)
_SQLITE = Reader(
    _text("text"),
    "{column} not glob '*[^0-9.]*'",
    "case when {column} glob '[12][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]*' "
    "and date(substr({column}, 1, 10), '+0 days') = substr({column}, 1, 10)\n"
    "and (length({column}) = 10 or {column} glob '??????????[T ][0-2][0-9]:[0-5][0-9]*' "
    "and substr({column}, 12, 2) < '24')\n"
    f"then cast(round((julianday({_SQLITE_COLON}) - 2440587.5) * 86400000) as integer) * 1000 end",
    "datetime({column} / 1000000, 'unixepoch')",
    "sqlmetrics_local_time({column}, '{zone}')",
    "date(sqlmetrics_local_time({column}, '{zone}') / 1000000, 'unixepoch')",
)

_MYSQL_OFFSET = "regexp_substr(substr({column}, 12), '[+-].*$')"
_MYSQL = Reader(
    _text("char"),
    f"{{column}} regexp '{NUMBER}'",
    f"case\nwhen {{column}} is null or not {{column}} regexp '{ISO}' then null\n"
    "when cast(substr({column}, 9, 2) as unsigned) "
    "> day(last_day(cast(concat(substr({column}, 1, 8), '01') as date))) then null\n"
    "else timestampdiff(microsecond, '1970-01-01', cast(concat(substr({column}, 1, 10), ' ', "
    "case when length({column}) = 10 then '00:00' "
    "else regexp_replace(substr({column}, 12), ' ?[Z+-].*$', '') end) as datetime(6)))\n"
    f"- case when {{column}} regexp ':.*[+-]' then case left({_MYSQL_OFFSET}, 1) "
    "when '-' then -1000000 else 1000000 end\n"
    f"* (cast(substr({_MYSQL_OFFSET}, 2, 2) as signed) * 3600 + case "
    f"when length({_MYSQL_OFFSET}) > 3 then cast(right({_MYSQL_OFFSET}, 2) as signed) * 60 "
    "else 0 end) else 0 end\nend",
    "timestampadd(microsecond, {column}, cast('1970-01-01' as datetime(6)))",
)

_CLICKHOUSE = Reader(
    _text("Nullable(String)"),
    f"match({{column}}, '{NUMBER}')",
    f"case\nwhen not match({{column}}, '{ISO}') then null\n"
    "when toUInt8OrNull(substring({column}, 9, 2)) > toDayOfMonth(toLastDayOfMonth("
    "toDateOrNull(concat(substring({column}, 1, 8), '01')))) then null\n"
    "else toUnixTimestamp64Micro(parseDateTime64BestEffortOrNull({column}, 6, 'UTC'))\nend",
    "fromUnixTimestamp64Micro({column}, 'UTC')",
)

_SPARK = Reader(
    _text("string"),
    f"{{column}} rlike '{NUMBER}'",
    f"case\nwhen not {{column}} rlike '{ISO}' then null\n"
    "else unix_micros(try_cast(regexp_replace(regexp_replace(regexp_replace({column}, "
    "' ([Z+-])', '$1'), '([T ][0-9][0-9]:[0-9][0-9])([Z+-]|$)', '$1:00$2'), "
    "'(:.*[+-][0-9][0-9])([0-9][0-9])$', '$1:$2') as timestamp))\nend",
    "timestamp_micros({column})",
)

_TRINO_ZONED = (
    "regexp_replace(regexp_replace(replace(replace({column}, 'T', ' '), 'Z', '+00:00'), "
    "'(:.*?) ?([+-][0-9][0-9]):?([0-9][0-9])?$', '$1 $2:$3'), ':$', ':00')"
)
_TRINO_MOMENT = "from_unixtime_nanos({column} * 1000)"
_TRINO = Reader(
    _text("varchar"),
    f"regexp_like({{column}}, '{NUMBER}')",
    f"case\nwhen {{column}} is null or not regexp_like({{column}}, '{ISO}') then null\n"
    f"when regexp_like({{column}}, '{ZONED}')\n"
    f"then cast(round(to_unixtime(try_cast({_TRINO_ZONED} as timestamp(6) with time zone))"
    " * 1000000) as bigint)\n"
    "else cast(round(to_unixtime(try_cast(replace({column}, 'T', ' ') as timestamp(6)))"
    " * 1000000) as bigint)\nend",
    f"cast({_TRINO_MOMENT} as timestamp(6))",
    f"cast(round(to_unixtime(cast({_TRINO_MOMENT} at time zone '{{zone}}' as timestamp(6)))"
    " * 1000000) as bigint)",
    f"cast({_TRINO_MOMENT} at time zone '{{zone}}' as date)",
)

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        "duckdb": _DUCKDB,
        "postgres": _POSTGRES,
        "sqlite": _SQLITE,
        "mariadb": _MYSQL,
        "mysql": _MYSQL,
        "clickhouse": _CLICKHOUSE,
        "spark": _SPARK,
        "sail": _SPARK,
        "databricks": _SPARK,
        "trino": _TRINO,
    }
)
"""Dialect -> how it reads texts; the others have times in columns of times alone."""
