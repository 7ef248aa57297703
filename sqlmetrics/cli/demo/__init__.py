"""The demo: a seeded search log, two rankers evaluated on it, and what to try next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.cli.demo import clicks
from sqlmetrics.cli.demo.search import COUNTRIES, DAYS, RANKERS, make_log
from sqlmetrics.clicks.simulation.simulate import refuse_existing
from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.engines.files import writing_to
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.evaluation.report.table import aligned, metric_value
from sqlmetrics.proof.verify import verify
from sqlmetrics.spec.spec import Spec

SPEC = """\
version: 1
name: demo
rankings:
  file: rankings.parquet
  columns: {score: score, system: system, date: ds}
labels:
  file: labels.parquet
metrics: [ndcg@10, recall@20, precision@5, hit@1, mrr]
by: [country]
output: {relation: ranking_metrics}
checks:
  - {metric: ndcg@10, min: 0.5, min_queries: 500}
  - {metric: mrr, max_drop_pct: 10}
"""
ROLL_UP = """\
select
    segment_value as country,
    system,
    sum(numerator) / sum(denominator) as ndcg_at_10,
    cast(sum(n_queries) as bigint) as queries
from '{summary}'
where segment_name = 'country' and metric = 'ndcg' and k = 10
group by all
order by all
"""


def show(folder: Path, say: Callable[[str], object], *, overwrite: bool = False) -> None:
    """Make the log in a folder, evaluate it, and tell what came out and what to try.

    Args:
        folder: Where the files go; it is made if it is not there.
        say: Takes one text at a time, like `print`.
        overwrite: Whether to write over files of these names that no demo made.

    Raises:
        SpecError: If such a file is there.
        EngineError: If the folder cannot be written to.
    """
    paths = _write_log(folder, overwrite=overwrite)
    spec = Spec.read(paths["spec"])
    with DuckDB() as engine:
        result, agreements = verify(spec, engine)
        pq.write_table(result.summary(), paths["summary"])
        pq.write_table(result.per_query(), paths["per_query"])
        paths["sql"].write_text(result.sql, encoding="utf-8")
        roll_up = engine.table(ROLL_UP.format(summary=paths["summary"].as_posix()))
    say(_about(paths))
    say(repr(_overall(result)) + "\n")
    say(_by_country(roll_up, paths))
    worst = max(one.largest for one in agreements)
    compared = sum(one.compared for one in agreements)
    say(
        f"Checked: {compared:,} numbers computed again in plain Python from the formulas;\n"
        f"the largest difference is {worst:.1e}.\n"
    )
    say(clicks.told(folder, overwrite=overwrite) + "\n")
    say(_next(paths))


def _write_log(folder: Path, *, overwrite: bool) -> dict[str, Path]:
    names = {
        "rankings": "rankings.parquet",
        "labels": "labels.parquet",
        "spec": "spec.yml",
        "sql": "evaluate.sql",
        "summary": "metrics.parquet",
        "per_query": "per_query.parquet",
    }
    paths = {key: folder / name for key, name in names.items()}
    own = paths["spec"].is_file() and paths["spec"].read_bytes() == SPEC.encode()
    if not (own or overwrite):
        refuse_existing([*paths.values(), folder / "clicks.yml"])
    rankings, labels = make_log()
    with writing_to(folder):
        paths["spec"].write_text(SPEC, encoding="utf-8")
        pq.write_table(rankings, paths["rankings"])
        pq.write_table(labels, paths["labels"])
    return paths


def _about(paths: dict[str, Path]) -> str:
    rankings = pq.read_metadata(paths["rankings"]).num_rows
    labels = pq.read_metadata(paths["labels"]).num_rows
    return (
        f"Made a search log in {paths['spec'].parent}/: {DAYS} days, {len(COUNTRIES)} countries, "
        f"{len(RANKERS)} rankers,\n{rankings:,} ranked items, {labels:,} labels.\n"
    )


def _overall(result: Result) -> Result:
    """The result without its segments."""
    everything = tuple(row for row in result.to_dicts() if row["segment_name"] == "all")
    return replace(result, spec=result.spec.having(by=()), _rows=everything)


def _by_country(roll_up: pa.Table, paths: dict[str, Path]) -> str:
    rows = [
        [row["country"], row["system"], metric_value(row["ndcg_at_10"]), f"{row['queries']:,}"]
        for row in roll_up.to_pylist()
    ]
    table = aligned(["country", "system", "ndcg@10", "queries"], rows, numbers_from=2)
    return (
        f"The same by country, over all days, as a BI tool computes it from\n"
        f"{paths['summary']}: sum(numerator) / sum(denominator)\n\n{table}\n"
    )


def _next(paths: dict[str, Path]) -> str:
    return f"""\
The SQL that ran: {paths["sql"]}
Try next:
  sqlmetrics show {paths["spec"]}
  sqlmetrics build {paths["spec"]} --db demo.duckdb
  sqlmetrics compile {paths["spec"]}
  sqlmetrics evaluate {paths["rankings"]} \\
      {paths["labels"]} \\
      --system system --date ds -m "ndcg(gain=linear)@10, recall(rel=2)@20, ap"
  sqlmetrics clicks {paths["spec"].with_name("clicks.yml")} --show days
  sqlmetrics list metrics"""
