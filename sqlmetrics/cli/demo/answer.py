"""The demo's answer: which ranker is better, by how much, and where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.tables.table import Table, metric_value

COMPARED = """\
with daily as (
    select
        metric, k, segment_name, segment_value, metric_date,
        sum(numerator) filter (system = 'baseline') as base_sum,
        sum(denominator) filter (system = 'baseline') as base_count,
        sum(numerator) filter (system = 'candidate') as new_sum,
        sum(denominator) filter (system = 'candidate') as new_count
    from '{summary}'
    group by all
)

select
    metric, k, segment_name, segment_value,
    sum(base_sum) / sum(base_count) as baseline,
    sum(new_sum) / sum(new_count) as candidate,
    candidate - baseline as difference,
    cast(sum(new_count) as bigint) as queries,
    count(*) as days,
    count(*) filter (new_sum / new_count > base_sum / base_count) as better
from daily
group by all
order by segment_name, segment_value, metric, k
"""
"""Sums over sums, as a BI tool would: days with many queries weigh more."""


def answer(engine: Database, summary: Path, metrics: Sequence[str]) -> str:
    """The answer, and two tables beneath it: all queries and each country, in 80 columns.

    Args:
        engine: Where the summary is read.
        summary: The demo's fact table, a Parquet file.
        metrics: In which order they stand; the first one is that of the answer.
    """
    rows = engine.table(COMPARED.format(summary=summary.as_posix())).to_pylist()
    for row in rows:
        row["name"] = at_cutoff(row["metric"], row["k"])
    everywhere = [row for row in rows if row["segment_name"] == "all"]
    everywhere.sort(key=lambda row: metrics.index(row["name"]))
    main = everywhere[0]
    countries = [
        row for row in rows if row["segment_name"] == "country" and row["name"] == main["name"]
    ]
    countries.sort(key=lambda row: -row["difference"])
    overall = [
        [row["name"], *_numbers(row), f"{row['better']} of {row['days']}"] for row in everywhere
    ]
    by_country = [
        [row["segment_value"], *_numbers(row), f"{row['queries']:,}"] for row in countries
    ]
    head = ["baseline", "candidate", "difference"]
    return (
        f"{_sentence(main, countries)}\n\n"
        f"{Table(['metric', *head, 'higher on days'], overall, 1).text()}\n\n"
        f"{Table([main['name'], *head, 'queries'], by_country, 1).text()}\n"
    )


def _numbers(row: dict[str, Any]) -> list[str]:
    pair = [metric_value(row[system]) for system in ("baseline", "candidate")]
    return [*pair, f"{row['difference']:+.4f}"]


def _sentence(main: dict[str, Any], countries: list[dict[str, Any]]) -> str:
    """What a person would say after a look at the tables."""
    verdict = "Yes" if main["difference"] > 0 else "No"
    opposite_countries = [
        row for row in countries if (row["difference"] > 0) != (main["difference"] > 0)
    ]
    where = ", ".join(f"{row['segment_value']}: {_share(row)}" for row in opposite_countries)
    sentence = f"{verdict}: {main['name']} {_share(main)} over all queries."
    return sentence + (f" It is the other way round in {where}." if where else "")


def _share(row: dict[str, Any]) -> str:
    return f"{row['difference'] / row['baseline']:+.0%}"
