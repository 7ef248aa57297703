"""Days, systems and a segment on Spark, beside the query by hand: CPU seconds by ratios.

    python -m benchmarks.spark_days --rows 2_000_000 --runs 3

Rankings of ten days and two systems are made by Spark itself, as Parquet files. Each way runs some
times in one session, in turns; the first round, in which Java compiles, is not counted. By hand one
statement with `grouping sets` gives the means of three metrics; its values are those of sqlmetrics.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import sqlmetrics as sm
from benchmarks.process_tree import spending

METRICS = ("ndcg@10", "recall@100", "mrr")

RANKINGS = """
select
    cast(id % {queries} as string) as query_id,
    cast(cast(id / {queries} as bigint) % 100 as string) as item_id,
    (hash(id) % 1000003) / 1e6 as score,
    element_at(array('new', 'old'), cast(cast(id / ({queries} * 100) as bigint) % 2 as int) + 1)
        as system,
    date_add(date '2026-01-01', cast(id / ({queries} * 200) as int)) as ds,
    element_at(array('DE', 'US', 'FR'), cast((id % {queries}) % 3 as int) + 1) as country
from range({rows})
"""

LABELS = """
select
    cast(id % {queries} as string) as query_id,
    cast(cast(id / {queries} as bigint) * 5 as string) as item_id,
    cast(id % 4 as int) as grade
from range({queries} * 20)
"""

BY_HAND = """
with ranked as (
    select *, row_number() over (
        partition by ds, system, query_id order by score desc, item_id
    ) as rnk
    from runs
),
judged as (
    select ranked.*, coalesce(truth.grade, 0) as grade
    from ranked left join truth
        on truth.query_id = ranked.query_id and truth.item_id = ranked.item_id
),
lists as (
    select ds, system, query_id, min(country) as country,
        sum(case when rnk <= 10 then (power(2, grade) - 1) * ln(2) / ln(rnk + 1) else 0 end) as dcg,
        sum(case when rnk <= 100 and grade >= 1 then 1 else 0 end) as hits,
        max(case when grade >= 1 then 1e0 / rnk end) as rr
    from judged group by ds, system, query_id
),
ordered as (
    select *, row_number() over (partition by query_id order by grade desc) as rnk from truth
),
wanted as (
    select query_id,
        sum(
            case when rnk <= 10 then (power(2, grade) - 1) * ln(2) / ln(rnk + 1) else 0 end
        ) as best,
        sum(case when grade >= 1 then 1 else 0 end) as relevant
    from ordered group by query_id
)
select ds, system, country, avg(dcg / nullif(best, 0)) as ndcg,
    avg(hits / nullif(relevant, 0)) as recall, avg(coalesce(rr, 0)) as mrr
from wanted join lists on lists.query_id = wanted.query_id
group by grouping sets ((ds, system), (ds, system, country))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a row a way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_days", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        session = _session(Path(folder), options.rows)
        try:
            ways = _ways(session)
            _check_equal(ways["by hand"](), ways["sqlmetrics"]())
            spent: dict[str, list[float]] = {name: [] for name in ways}
            for number in range(options.runs + 1):
                for name, way in ways.items():
                    with spending() as cost:
                        way()
                    spent[name] += [cost.cpu] if number else []
        finally:
            session.stop()
    base = median(spent["by hand"])
    print("| way | CPU s | / by hand |", "|---|---:|---:|", sep="\n")
    for name, seconds in spent.items():
        print(f"| {name} | {median(seconds):.1f} | {median(seconds) / base:.2f} |")


def _session(folder: Path, rows: int) -> Any:
    """A Spark with the two tables as views of Parquet files."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    sizes = {"rows": rows, "queries": max(1, rows // 2_000)}
    for name, text in (("runs", RANKINGS), ("truth", LABELS)):
        session.sql(text.format(**sizes)).write.parquet(str(folder / name))
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    return session


def _ways(session: Any) -> dict[str, Callable[[], Any]]:
    def evaluated(*, check: bool) -> Any:
        return sm.evaluate(
            "runs",
            "truth",
            METRICS,
            by="country",
            system="system",
            date="ds",
            connection=session,
            check=check,
            per_query=False,
        )

    return {
        "by hand": lambda: session.sql(BY_HAND).collect(),
        "sqlmetrics": lambda: evaluated(check=False),
        "sqlmetrics, checked": lambda: evaluated(check=True),
    }


def _check_equal(rows: Sequence[Any], result: sm.Result) -> None:
    """Raise ValueError unless both have the same means."""
    wanted = {
        (row.ds, row.system, row.country or "all", name): row[name]
        for row in rows
        for name in ("ndcg", "recall", "mrr")
    }
    ours = {
        (row["metric_date"], row["system"], row["segment_value"], row["metric"]): row["value"]
        for row in result.to_dicts()
    }
    if wanted.keys() != ours.keys():
        raise ValueError("the query by hand has other rows than sqlmetrics")
    for key, value in wanted.items():
        if not math.isclose(value, ours[key], abs_tol=1e-9):
            raise ValueError(f"{key}: by hand {value}, sqlmetrics {ours[key]}")


if __name__ == "__main__":
    main()
