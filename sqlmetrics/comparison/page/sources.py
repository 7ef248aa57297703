"""What a report may be made of, and what it is made of then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.clicks.wide_log import GRADES, USUAL, wide_log
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.click_log import logged, of_click_result
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.evaluation import evaluated, leading, of_result
from sqlmetrics.comparison.page.fact_table import is_there, stored
from sqlmetrics.comparison.page.report import Report
from sqlmetrics.comparison.report.comparison import Comparison, check_level
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.evaluation.question import segmented
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.jobs.days import days_between
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text

METRICS = ("ndcg@10", "recall@100", "mrr", "precision@10")
"""Of two tables, if none is named."""

LINES = (".ndjson", ".jsonl", ".json")
UBI = ("action_name",)
"""Columns that tell events of User Behavior Insights."""


def report(
    what: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    systems: Sequence[str] = (),
    baseline: str | None = None,
    level: float = 0.95,
    margin: float = 0.0,
    by: str | Sequence[str] = (),
    start: str | date | None = None,
    end: str | date | None = None,
    language: str = "en",
    fresh: bool = False,
    connection: Any = None,
    check: bool = True,
    **asked: Any,
) -> Report:
    """A report with a verdict and pictures: what moved, where, since when, and how sure that is.

    Only sums, counts in bins and a few lists leave the database.

    Args:
        what: A `Spec`; rankings as `compare` takes them, beside `labels`; the two files of a User
            Behavior Insights log, or a wide click log by itself; or a `Result`, `Comparison` or
            `ClickResult`, of which there are the pictures that their numbers allow.
        labels: As `evaluate` takes them; None with what says it all.
        metrics: As `evaluate` takes them; default: the spec's own, or of two tables
            ndcg@10, recall@100, mrr, precision@10. The first one is that of most pictures.
        systems: Those that are compared; default: all.
        baseline: What they are compared with; default: that of the spec, else the first by name.
        level: The coverage of the intervals, above 0 and below 1.
        margin: The largest difference that does not matter, in the unit of the metrics.
        by: Segments; of a spec by default its own.
        start: The first day.
        end: The day after the last one.
        language: `en` or `zh`.
        fresh: Whether a spec is evaluated again, although its fact table has rows of it.
        connection: Where the tables are; see `evaluate`.
        check: Whether to look for bad input first.
        **asked: The other arguments of `evaluate`, of rankings and labels.

    Returns:
        The report: `html`, `markdown`, `latex`, `text`, `save(path)`, `plot(name)`.

    Raises:
        SpecError: If it is nothing that a report is made of, or an argument is wrong.
        InputError: If the data would give wrong numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> lists = pa.table({"query_id": [1, 1, 2], "item_id": [*"aba"], "score": [2.0, 1.0, 1.0]})
    >>> truth = pa.table({"query_id": [1, 2], "item_id": ["b", "a"], "grade": [1, 1]})
    >>> report(lists, truth, "mrr").headline
    'mrr of rankings is 0.7500 (95 % interval -2.4266 to 3.9266; 2 queries).'
    """
    check_level(level, margin)
    if isinstance(what, Result | Comparison | ClickResult):
        return Report(of_numbers(what, level), language)
    asks = Options(
        metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
        days=days_between(start, end),
        systems=tuple(systems),
        baseline=baseline,
        level=level,
        margin=margin,
        by=segmented(by, asked.get("segments", ())),
    )
    with connect(connection) as engine:
        content = _content(what, labels, asks, asked, engine, fresh=fresh, check=check)
    return Report(content, language)


def _content(
    what: Any,
    labels: Any,
    asks: Options,
    asked: Mapping[str, Any],
    engine: Database,
    *,
    fresh: bool,
    check: bool,
) -> Content:
    log = None if isinstance(what, Spec) else _log(what, labels, asks, asked, engine)
    if log is not None:
        spec, note = log
        content = logged(spec, asks, engine, check=check)
        return replace(content, notes=(*((note,) if note else ()), *content.notes))
    if not isinstance(what, Spec):
        asks = asks if asks.metrics else replace(asks, metrics=METRICS)
        return evaluated(what, labels, asks, asked, engine, check=check)
    if what.clicks is not None:
        changed = {"metrics": asks.metrics, "online": ()} if asks.metrics else {}
        return logged(what.having(**changed), asks, engine, check=check)
    if not (fresh or asks.metrics or asks.by) and is_there(what, engine):
        return stored(what, asks, engine)
    asks = asks if asks.by else replace(asks, by=what.by)
    return evaluated(what, labels, asks, asked, engine, check=check)


def _log(
    what: Any, labels: Any, asks: Options, asked: Mapping[str, Any], engine: Database
) -> tuple[Spec, str] | None:
    """The spec of a click log without one, and what was taken for what; None if it is none."""
    metrics = {"metrics": asks.metrics} if asks.metrics else {}
    if _is_ubi(what, labels, engine):
        log = {
            "format": "ubi",
            "requests": source_of(what, "requests", engine.find),
            "events": source_of(labels, "events", engine.find),
            "labels": {"grades": GRADES},
        }
        own = {"name": Path(str(labels)).stem, "clicks": log, "metrics": USUAL, "by": asks.by}
        return Spec(**{**own, **metrics}), ""
    if labels is not None or asked.get("grade"):
        return None
    if "grade" in _columns(what, "rankings", engine):
        return None
    return wide_log(what, engine, asks.metrics, asks.by)


def _is_ubi(what: Any, labels: Any, engine: Database) -> bool:
    """Whether two files are queries and events of User Behavior Insights."""
    if not all(isinstance(one, str | Path) and Path(one).suffix in LINES for one in (what, labels)):
        return False
    return bool({*UBI} & _columns(labels, "events", engine))


def _columns(given: Any, name: str, engine: Database) -> set[str]:
    try:
        place = source_of(given, name, engine.find)
    except SpecError:
        return set()
    relation = source_relation(Source(**place), name, engine)
    return {one.casefold() for one in engine.columns(source_text(relation))}


def of_numbers(what: Result | Comparison | ClickResult, level: float = 0.95) -> Content:
    """The content of numbers that are there already.

    Args:
        what: A result.
        level: The coverage of its intervals.
    """
    if isinstance(what, Result):
        return of_result(what, level)
    if isinstance(what, ClickResult):
        return of_click_result(what, level)
    systems = tuple(dict.fromkeys(row["system"] for row in what.rows))
    metrics = tuple(dict.fromkeys(row["metric"] for row in what.rows))
    return Content(
        title=f"{', '.join(systems)} / {what.baseline}",
        metrics=metrics,
        level=what.level,
        margin=what.margin,
        systems=(what.baseline, *systems),
        baseline=what.baseline,
        main=leading(what.rows, metrics[0]),
        rows=what.rows,
        contributions=what.contributions,
        movers=what.movers,
        sql=what.sql,
        notes=what.notes,
        directions={row["metric"]: row["direction"] for row in what.rows},
    )
