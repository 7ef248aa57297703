"""The demo's second part: no judgments, but a click log of two rankers, with dirt in it."""

from __future__ import annotations

from pathlib import Path

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.clicks.simulation import simulate
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.table import Table, metric_value

REQUESTS, DAYS = 2_000, 3
FILE = "clicks.yml"
SPEC = """\
version: 1
name: clicks
clicks:
  impressions:
    file: log/impressions.parquet
    columns: {request: request_id, query: query, item: item_id, position: position,
              system: system, user: user_id, time: shown_at, segments: [country]}
    first_position: 1
  events:
    file: log/events.parquet
    columns: {request: request_id, item: item_id, action: action, dwell: dwell,
              user: user_id, time: happened_at}
  cleaning:
    test: is_test = 1
    max_events_per_user_hour: 200
    attribution_window: 30m
    min_dwell: 5s
    deduplicate: true
  labels:
    grades: {click: 1, add_to_cart: 2, purchase: 3}
metrics: [ndcg@10, mrr, ctr@5, abandonment]
"""


def simulate_and_report(folder: Path, *, overwrite: bool = False) -> str:
    """Simulate a log in a folder with the spec, clean and evaluate it, and say what came out."""
    log = simulate(folder / "log", requests=REQUESTS, days=DAYS, overwrite=overwrite)
    spec = folder / FILE
    result = evaluate_clicks(Spec.read(spec))
    return (
        f"A click log without judgments is in {folder / 'log'}/:\n"
        f"{log.rows['impressions']:,} impressions, {log.rows['events']:,} events.\n"
        f"Cleaned as {spec} says, with clicks as labels:\n\n{_left_out(result)}\n\n"
        f"{_by_system(result)}"
    )


def _left_out(result: ClickResult) -> str:
    """What the cleaning took, most of it first."""
    cleaning_steps = sorted(
        (step for step in result.steps if step.removed), key=lambda step: -step.removed
    )
    rows = [[step.what, step.why, f"{step.removed:,}"] for step in cleaning_steps]
    return Table(["rows", "step", "left out"], rows, 2).text()


def _by_system(result: ClickResult) -> str:
    """Each metric over all days, by system."""
    rows = [row for row in result.facts().to_pylist() if row["segment_name"] == "all"]
    systems = sorted({row["system"] for row in rows})
    names = list(dict.fromkeys((row["metric"], row["k"]) for row in rows))
    values = [
        [system, *(_mean([row for row in rows if _is(row, system, name)]) for name in names)]
        for system in systems
    ]
    titles = [at_cutoff(metric, k) for metric, k in names]
    return Table(["system", *titles], values, 1).text()


def _is(row: dict[str, object], system: str, name: tuple[str, int]) -> bool:
    return row["system"] == system and (row["metric"], row["k"]) == name


def _mean(rows: list[dict[str, float]]) -> str:
    return metric_value(
        sum(row["numerator"] for row in rows) / sum(row["denominator"] for row in rows)
    )
