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
        with _output(folder, is_demo_folder=True) as staging:  # which it is by now
            pq.write_table(result.summary(), staging / paths["summary"].name)
            pq.write_table(result.per_query(), staging / paths["per_query"].name)
            (staging / paths["sql"].name).write_text(result.sql, encoding="utf-8")
        answer_text = answer(
            engine, paths["summary"], [str(measure) for measure in result.measures]
        )
    say(_about(paths) + answer_text)
    worst = max(agreement.largest for agreement in agreements)
    compared = sum(agreement.compared for agreement in agreements)
    say(
        f"Checked: {compared:,} numbers computed again in plain Python from the formulas;\n"
        f"the largest difference is {worst:.1e}.\n"
    )
    say(clicks.simulate_and_report(folder, overwrite=overwrite) + "\n")
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
    is_demo_folder = paths["spec"].is_file() and paths["spec"].read_bytes() == SPEC.encode()
    if not (is_demo_folder or overwrite):
        refuse_existing([*paths.values(), folder / clicks.FILE])
    rankings, labels = make_log()
    with _output(folder, is_demo_folder=is_demo_folder, overwrite=overwrite) as staging:
        (staging / paths["spec"].name).write_text(SPEC, encoding="utf-8")
        (staging / paths["profiles"].name).write_text(PROFILES, encoding="utf-8")
        (staging / clicks.FILE).write_text(clicks.SPEC, encoding="utf-8")
        pq.write_table(rankings, staging / paths["rankings"].name)
        pq.write_table(labels, staging / paths["labels"].name)
    return paths


def _output(
    folder: Path, *, is_demo_folder: bool, overwrite: bool = False
) -> AbstractContextManager[Path]:
    """Where to write files of the demo; what people changed in its specs is theirs."""

    def is_ours(file: Path, new: Path) -> bool:
        return is_demo_folder and (file.suffix != ".yml" or file.read_bytes() == new.read_bytes())

    return output_folder(folder, overwrite=overwrite, is_ours=is_ours)


def _about(paths: dict[str, Path]) -> str:
    rankings = pq.read_metadata(paths["rankings"]).num_rows
    labels = pq.read_metadata(paths["labels"]).num_rows
    return (
        f"Made {paths['spec'].parent}/: {DAYS} days, {len(COUNTRIES)} countries, "
        f"{rankings:,} results, {labels:,} labels.\n"
        "Two rankers of a shop search: is candidate better than baseline?\n"
    )


def _next(paths: dict[str, Path]) -> str:
    folder = paths["spec"].parent
    return f"""\
{folder}/ has a spec, a profiles.yml and checks.
Try next:
  cd {folder}
  sqlmetrics show spec.yml                 # the numbers by day and country
  sqlmetrics compare spec.yml --margin .01 # is the difference real?
  sqlmetrics build spec.yml                # write them into metrics.duckdb, and
                                           # check: fails for the country above
  sqlmetrics run spec.yml --publish bi/    # a copy for a dashboard
  sqlmetrics compile spec.yml --per-query  # the SQL
  sqlmetrics clicks soundness clicks.yml   # can the click log be trusted?
  sqlmetrics evaluate rankings.parquet labels.parquet \\
      --system system --date ds -m "ndcg(gain=linear)@10, recall(rel=2)@20, ap"
"""
