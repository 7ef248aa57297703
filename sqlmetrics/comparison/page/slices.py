"""The picture of slices: each metric of each slice, and what a click opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlmetrics.comparison.page.charts import Chart, Sized
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.differences import (
    DIFFERENCE,
    SHOWN_SLICES,
    difference_cells,
    verdict_cells,
    verdict_columns,
)
from sqlmetrics.comparison.page.picture import Part, Picture, pair, rows_left_out, sign
from sqlmetrics.comparison.page.words import Words, number, percent, signed
from sqlmetrics.comparison.report.numbers import coverage
from sqlmetrics.comparison.report.worst_slice import segment_of
from sqlmetrics.tables.tabular import Row

SHOWN_METRICS = 6
SHOWN_NARROW = 2

FLAT = 12
"""Longer names of metrics are turned on a phone."""

SMALLEST = 0.05
"""A square is not smaller than so much of the largest one, so that its colour is seen."""


def slices(content: Content, words: Words) -> Picture | None:
    """Slices and metrics: where differences are, and how sure."""
    rows = [row for row in content.slices(content.main) if row["ci_low"] is not None]
    if not rows:
        return None
    shown_metrics = [
        metric for metric in content.metrics if any(row["metric"] == metric for row in rows)
    ]
    shown_metrics = shown_metrics[:SHOWN_METRICS]
    names = sorted([*dict.fromkeys(segment_of(row) for row in _largest(rows))][:SHOWN_SLICES])
    shares = _shares(content, rows, shown_metrics[0])
    is_one = len({row["segment_name"] for row in rows}) == 1
    most = max(shares.values(), default=0.0) or 1.0
    points = [
        {
            "label": _label(row, shares, is_one=is_one),
            "metric": row["metric"],
            "column": shown_metrics.index(row["metric"]),
            "sign": sign(row["difference"] * (row["direction"] or 0)),
            "sure": _is_sure(row, content),
            "size": max(SMALLEST, shares.get(name, 0.0) / most),
            "text": signed(row["difference"]),
            "link": f"#{_key(position)}",
        }
        for position, name in enumerate(names)
        for row in rows
        if segment_of(row) == name and row["metric"] in shown_metrics
    ]
    columns = ["segment", *DIFFERENCE, content.counted]
    longest = max(map(len, shown_metrics))
    parameters = {
        "metrics": shown_metrics,
        "labels": list(dict.fromkeys(row["label"] for row in points)),
        "angle": Sized((-40 if longest > FLAT else 0, -50 if len(shown_metrics) > 5 else 0)),
    }
    return Picture(
        "slices",
        Chart("slices", points, {**parameters, "shown": _columns()}),
        [words(f"column.{column}") for column in columns],
        [_cells(content, row, words) for row in rows],
        2,
        pair(content, words)
        | {
            "alpha": f"{1 - content.level:g}",
            "level": coverage(rows, content.level),
            "n": words.counted(content.counted, _n(content)),
        },
        parts=[
            _part(content, words, _key(position), [row for row in rows if segment_of(row) == name])
            for position, name in enumerate(names)
        ],
        left_out=rows_left_out(len(points), len(rows), words),
    )


def _n(content: Content) -> int:
    """How many queries, or what is counted, there are in all."""
    row = content.row(content.main, content.first)
    return int(row["n"]) if row else 0


def _is_sure(row: Row, content: Content) -> bool:
    return row["p_adjusted"] is not None and row["p_adjusted"] < 1 - content.level


def _key(position: int) -> str:
    """The name of a slice on the page: names of the data may have any letters."""
    return f"slice-{position + 1}"


def _shares(content: Content, rows: Sequence[Row], metric: str) -> dict[str, float]:
    """Slice -> its share of the queries."""
    overall = content.row(content.main, metric)
    total = overall["n"] if overall else 0
    return {segment_of(r): r["n"] / total for r in rows if r["metric"] == metric and total}


def _label(row: Row, shares: Mapping[str, float], *, is_one: bool) -> str:
    name = segment_of(row)
    label = str(row["segment_value"]) if is_one else name
    return f"{label} ({percent(shares[name])})" if name in shares else label


def _columns() -> Sized:
    """Which metrics fit beside each other."""
    return Sized(f"datum.column < {most}" for most in (SHOWN_NARROW, SHOWN_METRICS))


def _largest(rows: Sequence[Row]) -> list[Row]:
    """Slices with the most queries first."""
    return sorted(rows, key=lambda row: -row["n"])


def _cells(content: Content, row: Row, words: Words) -> list[str]:
    return [segment_of(row), *difference_cells(content, row, words), words.n(row["n"])]


def _part(content: Content, words: Words, key: str, rows: Sequence[Row]) -> Part:
    """All metrics of a slice, and what it adds to the first one."""
    slice_row, order = (
        rows[0],
        {metric: position for position, metric in enumerate(content.metrics)},
    )
    rows = sorted(rows, key=lambda row: order[row["metric"]])
    first = rows[0]
    values = f"{number(first['baseline_value'])} → {number(first['value'])}"
    moved = f"{first['metric']} {values} ({signed(first['difference'])})"
    verdict = words(f"verdict.{first['verdict']}")
    title = f"{segment_of(slice_row)}: {moved}, {verdict}"
    return Part(
        key,
        title,
        _added(content, words, slice_row),
        [words(f"column.{column}") for column in verdict_columns(content)],
        [verdict_cells(content, row, words) for row in rows],
    )


def _added(content: Content, words: Words, slice_row: Row) -> str:
    """What a slice adds to what all of its segment come to; empty if it is not known."""
    rows = [
        row
        for row in content.contributions
        if (row["system"], row["metric"]) == (content.main, content.first)
        and row["segment_name"] == slice_row["segment_name"]
    ]
    for row in rows:
        if row["segment_value"] == slice_row["segment_value"]:
            values = {"share": percent(row["share"]), "contribution": signed(row["contribution"])}
            total = signed(sum(contribution["contribution"] for contribution in rows))
            values["counted"] = words(f"unit.{content.counted}")
            return words("slices.added", metric=content.first, difference=total, **values)
    return ""
