"""Pictures of means by themselves: every metric, slices and days of a system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison.page.charts import Chart
from sqlmetrics.comparison.page.content import ALL, Content
from sqlmetrics.comparison.page.deploys import describe_markers, marks
from sqlmetrics.comparison.page.differences import SHOWN_ROWS
from sqlmetrics.comparison.page.means import drawn_ends, panels, pooled
from sqlmetrics.comparison.page.picture import Picture, rows_left_out, systems_left_out
from sqlmetrics.comparison.page.queries import changes
from sqlmetrics.comparison.page.words import Words, number
from sqlmetrics.tables.tabular import Row

Means = list[dict[str, Any]]


def means(content: Content, words: Words) -> Picture | None:
    """Every metric of systems that are compared with nothing, all days together."""
    rows = _pooled(content, [row for row in content.values if row["segment_name"] == ALL])
    online = (
        {at_cutoff(row["metric"], row["k"]) for row in content.log.online} if content.log else {}
    )
    rows = [row for row in rows if row["label"] not in online and row["value"] is not None]
    if content.rows or not rows:
        return None
    about = {
        "level": f"{100 * content.level:g}",
        "n": words.counted(content.averaged, max(row["n"] for row in rows)),
    }
    return _intervals("means", words, rows, about, averaged=content.averaged)


def segments(content: Content, words: Words) -> Picture | None:
    """The first metric by slice, a bar a system, where nothing is compared."""
    slice_rows = [
        row
        for row in content.values
        if row["segment_name"] != ALL and at_cutoff(row["metric"], row["k"]) == content.first
    ]
    rows = _pooled(content, slice_rows, by_slice=True)
    systems = tuple(dict.fromkeys(row["system"] for row in rows))
    if content.rows or len(rows) < 2:
        return None
    about = {
        "metric": content.first,
        "system": ", ".join(systems),
        "level": f"{100 * content.level:g}",
        "n": words.counted(
            content.averaged, sum(row["n"] for row in rows if row["name"] == rows[0]["name"])
        ),
    }
    return _intervals("segments", words, rows, about, averaged=content.averaged)


def _pooled(content: Content, rows: list[Row], *, by_slice: bool = False) -> Means:
    """Metrics or slices of each system, all days together."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        slice_ = f"{row['segment_name']} = {row['segment_value']}"
        label = slice_ if by_slice else at_cutoff(row["metric"], row["k"])
        name = str(row["segment_name"])
        groups.setdefault((label, name, str(row["system"])), []).append(row)
    means = []
    for (label, name, system), group in groups.items():
        total = pooled(group, content.level)
        if total is not None:
            means.append({"label": label, "name": name, "system": system, **total})
    return means


def _intervals(
    name: str,
    words: Words,
    rows: Means,
    about: Mapping[str, object],
    *,
    averaged: str,
) -> Picture:
    systems = tuple(dict.fromkeys(row["system"] for row in rows))
    shown_rows = rows[:SHOWN_ROWS]
    scales = panels((row["label"], row["value"]) for row in shown_rows if name == "means")
    bars = [
        {
            **{column: row[column] for column in ("label", "system", "value")},
            **drawn_ends(row, str(about.get("metric", row["label"]))),
            "panel": scales.get(row["label"], ""),
        }
        for row in shown_rows
    ]
    columns = [words(f"column.{'segment' if name == 'segments' else 'metric'}")]
    columns += [words(f"column.{name}") for name in ("system", "after", "interval", averaged)]
    cells = [
        [row["label"], row["system"], number(row["value"]), _ends(row, words), words.n(row["n"])]
        for row in rows
    ]
    hidden = rows_left_out(len(bars), len(rows), words)
    chart = Chart("means", bars, {}, systems)
    return Picture(name, chart, columns, cells, 2, about, left_out=hidden)


def _ends(row: Row, words: Words) -> str:
    if row["ci_low"] is None:
        return "–"
    return words("page.to", low=number(row["ci_low"]), high=number(row["ci_high"]))


def trend(content: Content, words: Words) -> Picture | None:
    """The first metric by day, a line a system."""
    rows = [
        row
        for row in content.means(content.first)
        if row["value"] is not None and row.get("ci_low") is not None
    ]
    if len({row["metric_date"] for row in rows}) < 2 or content.days:
        return None
    systems = content.in_order(row["system"] for row in rows)[:8]
    rows = [row for row in rows if row["system"] in systems]
    rows.sort(key=lambda row: str(row["metric_date"]))
    points = [
        {"day": str(row["metric_date"])[:10]}
        | {name: row[name] for name in ("system", "value")}
        | drawn_ends(row, content.first)
        for row in rows
    ]
    names = ("day", "system", "after", "interval", content.averaged)
    columns = [words(f"column.{name}") for name in names]
    cells = [
        [
            str(row["metric_date"])[:10],
            row["system"],
            number(row["value"]),
            _ends(row, words),
            words.n(row["n_queries"]),
        ]
        for row in rows
    ]
    about = {
        "metric": content.first,
        "level": f"{100 * content.level:g}",
        "n": words.counted(content.averaged, sum(row["n_queries"] for row in rows)),
    }
    shown_days = [row["day"] for row in points]
    changed = changes(content)
    about["lines"] = describe_markers(content, shown_days, words, changed=bool(changed))
    parameters = {"changes": changed, "deploys": marks(content, shown_days)}
    chart = Chart("trend", points, parameters, systems)
    hidden = systems_left_out(content.systems, systems, words)
    return Picture("trend", chart, columns, cells, 2, about, left_out=hidden)
