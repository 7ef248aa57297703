"""Pictures of a leaderboard: ranks with their intervals, topics, and who contributed what."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from sqlmetrics.comparison.page.picture import Chart
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.tables.table import many, metric_value, printable
from sqlmetrics.tables.tabular import Row

DRAWN_TABLES = ("rows", "topics", "contributions")
"""The tables that have a picture."""

LINES = 60
"""So many systems or topics stand in a picture."""


def check_table(table: str) -> None:
    """Raise SpecError for a table without a picture."""
    if table not in DRAWN_TABLES:
        raise SpecError(
            f"a picture of a leaderboard: {unknown('table', table, DRAWN_TABLES)} (--table)"
        )


def picture(table: str, rows: Sequence[Row], heading: str, interval: str) -> Chart:
    """The picture of one table, of the metric that orders the leaderboard.

    Systems are the best, and topics those that divide the systems most, where there are more than
    LINES of them.

    Args:
        table: One of DRAWN.
        rows: The rows of the table, of this metric.
        heading: What the metric is called.
        interval: What the rank interval is called, such as `95 %`.

    Raises:
        SpecError: If the table has no picture, or no row.
    """
    check_table(table)
    if table == "topics":
        return _topics(rows, heading)
    rows = [row for row in rows if row["rank"] is not None]
    part = _part(rows, "of {n} systems that are best")
    if table == "contributions":
        return _contributions(rows[:LINES], f"{heading}{part}")
    return _ranks(rows[:LINES], heading, f"rank with its {interval} interval{part}")


def _part(rows: Sequence[Row], words: str) -> str:
    """What is drawn, if that is not all."""
    return f"; the {LINES} {words.format(n=f'{len(rows):,}')}" if len(rows) > LINES else ""


def _chart(rows: Sequence[Row], points: Sequence[Row], title: str, least_step: float) -> Chart:
    """Lines from `low` to `high` with points on them, and a text beside each.

    Raises:
        SpecError: If there is no line.
    """
    if not rows:
        raise SpecError(f"nothing to draw of {title}: no row has a value")
    parameters = {"points": [*points], "x_title": title, "least_step": least_step}
    return Chart("ranges", rows, parameters, [*dict.fromkeys(point["kind"] for point in points)])


def _ranks(rows: Sequence[Row], heading: str, title: str) -> Chart:
    lines = [
        {
            "label": printable(row["system"]),
            "low": row["rank"] if row["rank_low"] is None else row["rank_low"],
            "high": row["rank"] if row["rank_high"] is None else row["rank_high"],
            "text": f"{metric_value(row['value'])} {row['group'] or ''}".strip(),
        }
        for row in rows
    ]
    points = [
        {"label": line["label"], "value": row["rank"], "kind": f"rank by {heading}"}
        for line, row in zip(lines, rows, strict=True)
    ]
    return _chart(lines, points, title, 1)


def _topics(rows: Sequence[Row], heading: str) -> Chart:
    part = _part(rows, "of {n} that divide the systems most")
    dividing = sorted(rows, key=lambda row: -(row["sd"] or 0))[:LINES]
    rows = [row for row in rows if row in dividing]
    lines = [
        {
            "label": printable(row["topic"]),
            "low": row["lowest"],
            "high": row["highest"],
            "text": f"{printable(row['lowest_system'])} to {printable(row['highest_system'])}",
        }
        for row in rows
    ]
    points = [
        {"label": printable(row["topic"]), "value": row["mean"], "kind": "mean over systems"}
        for row in rows
    ]
    title = f"{heading} of each topic, from the lowest system to the highest{part}"
    return _chart(lines, points, title, 0)


def _contributions(rows: Sequence[Row], title: str) -> Chart:
    rows = [row for row in rows if row["value_without"] is not None]
    lines, points = [], []
    for row in rows:
        label, ends = printable(row["system"]), itemgetter("value", "value_without")(row)
        moved = f"rank {row['rank']}"
        if row["rank_without"] != row["rank"]:
            moved += f" to {row['rank_without']}"
        text = f"{moved}, {many(row['n_relevant'], 'relevant item')} alone"
        lines.append({"label": label, "low": min(ends), "high": max(ends), "text": text})
        for kind, value in zip(("as it is", "without its team's items"), ends, strict=True):
            points.append({"label": label, "value": value, "kind": kind})
    return _chart(lines, points, title, 0)
