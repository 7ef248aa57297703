"""The picture of a sweep of two runs: a metric over the weight of the second one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmetrics.comparison.page.charts import Chart
from sqlmetrics.comparison.page.picture import Picture
from sqlmetrics.stats.estimate import INTERVAL
from sqlmetrics.tables.tabular import Row


def weight_curve(
    rows: Sequence[Row], runs: Sequence[str], metric: str, level: float
) -> Picture | None:
    """A line of each family from the first run alone to the second; None of more runs.

    Args:
        rows: The variants' rows of the metric, over all queries of a day.
        runs: The runs in their order.
        metric: Its text.
        level: The coverage of the band.
    """
    if len(runs) != 2:
        return None
    points: dict[str, list[dict[str, Any]]] = {}
    ends = [_point(row) for row in rows if row["method"] == "alone" and row["value"] is not None]
    for row in rows:
        if row["method"] != "alone" and row["value"] is not None:
            points.setdefault(row["family"], list(ends)).append(_point(row))
    drawn = [
        {**point, "system": family}
        for family, family_points in points.items()
        for point in sorted(family_points, key=lambda point: float(point["weight"]))
    ]
    chart = Chart("weights", drawn, {"weight_of": runs[1], "metric": metric}, [*points])
    cells = [
        [str(point["system"]), f"{point['weight']:g}", *(f"{point[name]:.4f}" for name in _NUMBERS)]
        for point in drawn
    ]
    about = {"metric": metric, "level": f"{100 * level:g}", "run": runs[1], "other": runs[0]}
    return Picture("weights", chart, ["variant", "weight", *_HEADS], cells, 1, about)


_NUMBERS = ("value", *INTERVAL)
_HEADS = ("value", "low", "high")


def _point(row: Row) -> dict[str, Any]:
    """A row with the weight of the second run; where it has no interval it ends at its value."""
    numbers = {name: row["value"] if row[name] is None else row[name] for name in _NUMBERS}
    return {"weight": row["shares"][1], "as_good": row["as_good"], **numbers}
