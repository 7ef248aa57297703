"""An online metric worked out on a small click log, also under other settings of the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import yaml

from sqlmetrics.catalog.online import Online
from sqlmetrics.proof.explain.arithmetic import number
from sqlmetrics.proof.reference_online import Click, Part, Request, online_parts
from sqlmetrics.spec.spec import Spec

LOG = (
    Request("r1", "s1", ("a", "b", "c", "d"), (Click("d", 3, 40), Click("b", 8, 2)), ("d",)),
    Request("r2", "s1"),
    Request("r3", "s2", ("a", "b", "c")),
    Request("r4", "s3", ("a", "e"), (Click("a", 5, 30),)),
    Request("r5", "s3", ("b", "c", "a"), (Click("c", 2400, 12),)),
)
"""Requests of three visits: one has no result, one no click, one a click after 40 minutes."""

START = datetime(2026, 1, 1, 8)

SETTINGS = (
    "cleaning: {min_dwell: 5s}",
    "cleaning: {attribution_window: 30m}",
    "cleaning: {unseen: 0}",
    "success_actions: [purchase]",
)
"""Keys of `clicks` that make other numbers of the log."""

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "impressions": {"session": "session_id", "time": "shown_at"},
    "events": {"time": "happened_at", "dwell": "dwell_seconds"},
    "requests": {"session": "session_id", "time": "asked_at"},
}
"""The tables of the log, and their columns with names of their own."""

Evaluated = Callable[[Spec], Sequence[Mapping[str, Any]]]
"""The rows of a spec's online metrics, by the SQL."""


@dataclass(frozen=True)
class OnlineExample:
    """An online metric worked out on the log.

    Attributes:
        parts: What each request adds to the numerator and to the denominator, by the reference.
        value: Its value by the reference.
        sql_value: Its value by the SQL.
        rows: Rows (asked, numerator, denominator, value) by the SQL: the metric at other
            cutoffs, and under other settings of the log.
    """

    parts: tuple[Part, ...]
    value: float
    sql_value: float | None
    rows: tuple[tuple[str, str, str, str], ...]

    @property
    def difference(self) -> float:
        """How far the two values are apart, infinite if the SQL has none."""
        return math.inf if self.sql_value is None else abs(self.value - self.sql_value)


def worked_online(asked: Online, evaluated: Evaluated) -> OnlineExample:
    """Work an online metric out on the log.

    Args:
        asked: The metric.
        evaluated: What evaluates the online metrics of a spec's log.
    """
    parts = tuple(online_parts(asked.name, LOG, asked.k))
    cuts = [Online(asked.metric, k) for k in (1, 2, None)] if asked.metric.cut else []
    (own, *others) = dict.fromkeys([asked, *cuts])
    rows = list(_rows(own, *others, by=evaluated))
    for text in SETTINGS:
        rows += _rows(asked, by=evaluated, text=text)
    if asked.metric.needs != "requests":
        rows += _rows(asked, by=evaluated, text="requests: none")
    (first, *more) = rows
    return OnlineExample(
        parts=parts,
        value=math.fsum(x for x, _ in parts) / math.fsum(w for _, w in parts),
        sql_value=first[1]["value"],
        rows=tuple(_told(text, row) for text, row in (("as it is", first[1]), *more)),
    )


def _rows(*asked: Online, by: Evaluated, text: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What is asked, or a setting of the log -> its row."""
    rows = by(online_spec(*asked, tables=log_tables(), text=text))
    for one, row in zip(asked, rows, strict=True):
        yield text or str(one), row


def _told(text: str, row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    value = "-" if row["value"] is None else f"{row['value']:.4f}"
    return text, number(row["numerator"]), number(row["denominator"]), value


def online_spec(*asked: Online, tables: Mapping[str, Mapping[str, Any]], text: str = "") -> Spec:
    """The spec of online metrics of the log.

    Args:
        asked: The metrics.
        tables: Table of the log -> its source.
        text: A setting of the log; `requests: none` leaves the searches without a result out.
    """
    more = yaml.safe_load(text) or {}
    log = {name: {**source, "columns": COLUMNS[name]} for name, source in tables.items()}
    if more.get("requests") == "none":
        del log["requests"], more["requests"]
    return Spec(name="shop", clicks=log | more, metrics=[str(one) for one in asked])


def log_tables() -> dict[str, dict[str, Any]]:
    """The log as tables."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
    for hour, one in enumerate(LOG):
        at = START + timedelta(hours=hour)
        key = {"request_id": one.name, "session_id": one.session}
        rows["requests"].append({**key, "asked_at": at})
        for position, item in enumerate(one.shown, start=1):
            shown = {**key, "item_id": item, "position": position, "shown_at": at}
            rows["impressions"].append(shown)
        acts = [(click.item, "click", click.after, click.stay) for click in one.clicks]
        for item, action, after, stay in [*acts, *((i, "purchase", 60, 0) for i in one.bought)]:
            happened = at + timedelta(seconds=after)
            rows["events"].append(
                {
                    "request_id": one.name,
                    "item_id": item,
                    "action": action,
                    "happened_at": happened,
                    "dwell_seconds": float(stay),
                }
            )
    return {name: {"data": pa.Table.from_pylist(own)} for name, own in rows.items()}
