"""The demo: a seeded search log, which of two rankers is better on it, and what to try next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow.parquet as pq

from sqlmetrics.cli.demo import clicks
from sqlmetrics.cli.demo.answer import answer
from sqlmetrics.cli.demo.search import COUNTRIES, DAYS, make_log
from sqlmetrics.engines.database import connect
from sqlmetrics.engines.output_files import output_folder, refuse_existing
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
output: {relation: ranking_metrics, per_query: ranking_metrics_per_query}
checks:
  - {metric: ndcg@10, min: 0.5, min_queries: 500}
  - {metric: mrr, max_drop_pct: 10}
  # No country may lose more than this by the new ranker.
  - {metric: ndcg@10, max_drop: 0.02, against: baseline, system: candidate, segment: {country: "*"}}
"""
PROFILES = """\
target: demo
outputs:
  demo: {type: duckdb, path: metrics.duckdb}
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
    with connect() as engine:
        result, agreements = verify(spec, engine)
        with _output(folder, own=True) as beside:  # which it is by now
            pq.write_table(result.summary(), beside / paths["summary"].name)
            pq.write_table(result.per_query(), beside / paths["per_query"].name)
            (beside / paths["sql"].name).write_text(result.sql, encoding="utf-8")
        found = answer(engine, paths["summary"], [str(one) for one in result.measures])
    say(_about(paths) + found)
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
        "profiles": "profiles.yml",
        "sql": "evaluate.sql",
        "summary": "metrics.parquet",
        "per_query": "per_query.parquet",
    }
    paths = {key: folder / name for key, name in names.items()}
    own = paths["spec"].is_file() and paths["spec"].read_bytes() == SPEC.encode()
    if not (own or overwrite):
        refuse_existing([*paths.values(), folder / clicks.FILE])
    rankings, labels = make_log()
    with _output(folder, own=own, overwrite=overwrite) as beside:
        (beside / paths["spec"].name).write_text(SPEC, encoding="utf-8")
        (beside / paths["profiles"].name).write_text(PROFILES, encoding="utf-8")
        (beside / clicks.FILE).write_text(clicks.SPEC, encoding="utf-8")
        pq.write_table(rankings, beside / paths["rankings"].name)
        pq.write_table(labels, beside / paths["labels"].name)
    return paths


def _output(folder: Path, *, own: bool, overwrite: bool = False) -> AbstractContextManager[Path]:
    """Where to write files of the demo; what people changed in its specs is theirs."""

    def is_ours(file: Path, new: Path) -> bool:
        return own and (file.suffix != ".yml" or file.read_bytes() == new.read_bytes())

    return output_folder(folder, overwrite=overwrite, is_ours=is_ours)


def _about(paths: dict[str, Path]) -> str:
    rankings = pq.read_metadata(paths["rankings"]).num_rows
    labels = pq.read_metadata(paths["labels"]).num_rows
    return (
        f"Made {paths['spec'].parent}/: {DAYS} days, {len(COUNTRIES)} countries, "
        f"{rankings:,} results, {labels:,} labels.\n"
        "Two rankers of a shop's search: is candidate better than baseline?\n"
    )


def _next(paths: dict[str, Path]) -> str:
    folder = paths["spec"].parent
    return f"""\
{folder}/ has a spec, a profiles.yml and checks.
Go on there:
  cd {folder}
  sqlmetrics show spec.yml                 # the numbers by day and country
  sqlmetrics compare spec.yml --margin .01 # is the difference real?
  sqlmetrics build spec.yml                # write them into metrics.duckdb, and
                                           # check: fails, for the country above
  sqlmetrics run spec.yml --publish bi/    # a copy for a dashboard
  sqlmetrics compile spec.yml --per-query  # the SQL
  sqlmetrics clicks clicks.yml --show soundness
  sqlmetrics evaluate rankings.parquet labels.parquet \\
      --system system --date ds -m "ndcg(gain=linear)@10, recall(rel=2)@20, ap"
"""
