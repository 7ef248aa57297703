"""What an online metric is, as text: its definition, its SQL, and an example."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import yaml

from sqlmetrics.catalog.conventions import resolve
from sqlmetrics.catalog.online import NEEDS, Online, online
from sqlmetrics.errors import SpecError
from sqlmetrics.proof.explain.example import compared, hung, paragraph
from sqlmetrics.proof.explain.worked_example import number
from sqlmetrics.proof.reference_online import Click, Part, Request, online_parts
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.table import Table

# An online metric worked out on a small click log, also under other settings of the log.

HOUR = 3600

LOG = (
    Request(
        *("r1", "s1", ("a", "b", "c", "d"), (Click("d", 3, 40), Click("b", 8, 2)), ("d",), (19,)),
        *("lamp", 3 * 60),
    ),
    Request("r2", "s1", query="lmap"),
    Request("r3", "s2", ("a", "b", "c"), query="desk", at=2 * HOUR),
    Request("r4", "s3", ("a", "e"), (Click("a", 5, 30),), query="sofa", at=3 * HOUR),
    Request("r5", "s3", ("b", "c", "a"), (Click("c", 2400, 12),), query="bed", at=4 * HOUR),
)
"""Requests of three visits: one has no result, and three minutes later its query is corrected; one
has no click, one a click after 40 minutes."""

START = datetime(2026, 1, 1, 8)

SETTINGS = (
    "cleaning: {min_dwell: 5s}",
    "cleaning: {attribution_window: 30m}",
    "cleaning: {unseen: 0}",
    "success_actions: [purchase]",
)
"""Keys of `clicks` that make other numbers of the log."""

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "impressions": {"query": "query_text", "session": "session_id", "time": "shown_at"},
    "events": {"time": "happened_at", "dwell": "dwell_seconds", "amount": "amount"},
    "requests": {"query": "query_text", "session": "session_id", "time": "asked_at"},
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


def worked_online(measure: Online, evaluated: Evaluated) -> OnlineExample:
    """Work an online metric out on the log.

    Args:
        measure: The metric.
        evaluated: What evaluates the online metrics of a spec's log.
    """
    parts = tuple(
        online_parts(measure.metric.name, LOG, measure.k, measure.action, measure.minutes)
    )
    cuts = [Online(measure.metric, k) for k in (1, 2, None)] if measure.metric.cut else []
    (first_measure, *other_measures) = dict.fromkeys([measure, *cuts])
    rows = list(_rows(first_measure, *other_measures, by=evaluated))
    for text in SETTINGS:
        rows += _rows(measure, by=evaluated, text=text)
    if measure.metric.needs != "requests":
        rows += _rows(measure, by=evaluated, text="requests: none")
    (first, *other_rows) = rows
    return OnlineExample(
        parts=parts,
        value=math.fsum(x for x, _ in parts) / math.fsum(w for _, w in parts),
        sql_value=first[1]["value"],
        rows=tuple(_metric_cells(text, row) for text, row in (("as it is", first[1]), *other_rows)),
    )


def _rows(
    *measures: Online, by: Evaluated, text: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What is asked, or a setting of the log -> its row."""
    rows = by(online_spec(*measures, tables=log_tables(), text=text))
    for measure, row in zip(measures, rows, strict=True):
        yield text or str(measure), row


def _metric_cells(text: str, row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    value = "-" if row["value"] is None else f"{row['value']:.4f}"
    return text, number(row["numerator"]), number(row["denominator"]), value


def online_spec(*measures: Online, tables: Mapping[str, Mapping[str, Any]], text: str = "") -> Spec:
    """The spec of online metrics of the log.

    Args:
        measures: The metrics.
        tables: Table of the log -> its source.
        text: A setting of the log; `requests: none` leaves the searches without a result out.
    """
    settings = yaml.safe_load(text) or {}
    log = {name: {**source, "columns": COLUMNS[name]} for name, source in tables.items()}
    if settings.get("requests") == "none":
        del log["requests"], settings["requests"]
    return Spec(name="shop", clicks=log | settings, metrics=[str(measure) for measure in measures])


def log_tables() -> dict[str, dict[str, Any]]:
    """The log as tables."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
    for request in LOG:
        timestamp = START + timedelta(seconds=request.at)
        key = {
            "request_id": request.name,
            "session_id": request.session,
            "query_text": request.query,
        }
        rows["requests"].append({**key, "asked_at": timestamp})
        for position, item in enumerate(request.shown, start=1):
            impression = {**key, "item_id": item, "position": position, "shown_at": timestamp}
            rows["impressions"].append(impression)
        acts: list[tuple[str, str, float, float, float | None]] = [
            (click.item, "click", click.after, click.stay, None) for click in request.clicks
        ]
        for item, paid in zip(request.bought, request.paid, strict=True):
            acts.append((item, "purchase", request.bought_after, 0, float(paid)))
        for item, action, after, stay, amount in acts:
            happened = timestamp + timedelta(seconds=after)
            rows["events"].append(
                {
                    "request_id": request.name,
                    "item_id": item,
                    "action": action,
                    "happened_at": happened,
                    "dwell_seconds": float(stay),
                    "amount": amount,
                }
            )
    return {name: {"data": pa.Table.from_pylist(table_rows)} for name, table_rows in rows.items()}


Compiled = Callable[[Spec], str]
"""The statements of a spec's log."""


def explain_online(name: str, preset: str | None, compiled: Compiled, evaluated: Evaluated) -> str:
    """All about a metric of click logs, to read at 80 columns.

    Args:
        name: Its text, like `ctr@5`.
        preset: A preset; it changes nothing, which is said.
        compiled: What gives the SQL of a spec's log.
        evaluated: What evaluates the online metrics of a spec's log.

    Raises:
        SpecError: If there is no such metric, it takes no such cutoff, or the preset is unknown.
    """
    resolve(preset or "house", {})
    measure = online(name)
    if measure.action not in ("", CLICK, PURCHASE):
        raise SpecError(
            f"{measure}: the example log has the actions {CLICK} and {PURCHASE} alone; explain "
            f"{measure.metric.example}"
        )
    facts = "\n".join(hung(*fact) for fact in _facts(measure, preset or "a preset"))
    sections = [
        f"{measure}: {measure.metric.label}, of a click log",
        facts,
        *_sql(measure, compiled),
    ]
    return "\n\n".join([*sections, *_worked(measure, worked_online(measure, evaluated))])


def _facts(measure: Online, preset: str) -> Iterator[tuple[str, str]]:
    metric = measure.metric
    yield "what", metric.title
    yield "range", metric.range
    yield "better", metric.better
    yield "unit", metric.unit
    yield "empty", "undefined (NULL) if the denominator is 0"
    yield "cutoff", "optional" if metric.cut else "has none"
    yield "needs", NEEDS.get(metric.needs, "a click log")
    yield "sums", "over requests, value = numerator / denominator"
    numerator, denominator = measure.added
    yield "numerator", numerator
    yield "denominator", denominator
    yield (
        "presets",
        f"{preset} changes nothing here: conventions are about lists and labels; in a click log "
        "the keys under clicks decide what counts",
    )


def _sql(measure: Online, compiled: Compiled) -> Iterator[str]:
    """The last statement; those before it clean the log, whatever the metric is."""
    spec = online_spec(measure, tables={name: {"relation": f"my_{name}"} for name in COLUMNS})
    yield "SQL, one row per system (sqlmetrics compile also prints the cleaning)"
    yield compiled(spec).rpartition(";\n\n")[2].rstrip("\n;")


def _worked(measure: Online, example: OnlineExample) -> Iterator[str]:
    yield "Example: a small click log, one row per request"
    names = ["request", "session", "shown", "clicked", "bought", "numerator", "denominator"]
    if measure.of_visits:
        names[2:3] = ["asked", "at"]
    rows = [
        (*_request_cells(request, of_visits=measure.of_visits), *map(number, part))
        for request, part in zip(LOG, example.parts, strict=True)
    ]
    yield Table(names, rows, len(names) - 2).text()
    if measure.of_visits:
        yield "asked desk, at 120: the query desk, after 120 minutes"
    yield (
        "clicked d:3s/40s: a click on item d after 3 seconds, and a stay of 40 seconds\n"
        "bought d:19: item d, for an amount of 19"
    )
    sums = [number(sum(column)) for column in zip(*example.parts, strict=True)]
    steps = zip(names[-2:], zip(*example.parts, strict=True), sums, strict=True)
    lines = [
        hung(name, f"{' + '.join(map(number, terms))} = {total}", 18)
        for name, terms, total in steps
    ]
    lines.append(hung(str(measure), f"{' / '.join(sums)} = {number(example.value)}", 18))
    yield "\n".join(lines)
    yield compared(example.value, example.sql_value, example.difference)
    yield "The SQL's result with other keys under clicks in the spec"
    (_, *first_values), *other_rows = example.rows
    different = [row for row in other_rows if [*row[1:]] != first_values]
    same = [row[0] for row in other_rows if row not in different]
    names = ["clicks", "numerator", "denominator", "value"]
    yield Table(names, [("as above", *first_values), *different], 1).text()
    if same:
        yield paragraph("Same result with ", same)


def _request_cells(request: Request, *, of_visits: bool) -> tuple[str, ...]:
    clicks = " ".join(f"{c.item}:{c.after:g}s/{c.stay:g}s" for c in request.clicks)
    bought = (f"{i}:{paid:g}" for i, paid in zip(request.bought, request.paid, strict=True))
    lists = [request.query, f"{request.at / 60:g}"] if of_visits else [" ".join(request.shown)]
    return request.name, request.session, *lists, clicks, " ".join(bought)
