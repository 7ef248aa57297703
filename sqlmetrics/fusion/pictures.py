"""The pictures of a sweep: a metric over the weights of runs, and the best variants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from sqlmetrics.comparison.page.charts import Chart, Sized
from sqlmetrics.comparison.page.picture import Picture
from sqlmetrics.comparison.page.words import Words, signed
from sqlmetrics.stats.estimate import INTERVAL
from sqlmetrics.tables.tabular import Row

PANELS = 6
"""So many families have a triangle, those with the best variants."""

BEST = 12
"""So many variants have an interval."""

CENTRE = math.sqrt(3) / 6
"""How high the middle of a triangle is, whose side is 1."""

_NUMBERS = ("value", *INTERVAL)
_HEADS = ("value", "low", "high")


def weights_picture(
    rows: Sequence[Row], runs: Sequence[str], metric: str, level: float, sign: int = 1
) -> Picture | None:
    """The curve of two runs, or the triangles of three; None of more.

    Args:
        rows: The variants' rows of the metric, over all queries of a day.
        runs: The runs in their order.
        metric: Its text.
        level: The coverage of the band of a curve.
        sign: 1 where more of the metric is better, -1 where less is.
    """
    ends, points = list[Row](), dict[str, list[Row]]()
    for row in rows:
        if row["value"] is not None:
            family = ends if row["method"] == "alone" else points.setdefault(row["family"], [])
            family.append(row)
    if not points:
        return None
    families = sorted(
        points, key=lambda name: max(sign * row["value"] for row in points[name]), reverse=True
    )
    if len(runs) == 2:
        return _curve({name: [*ends, *points[name]] for name in points}, runs, metric, level)
    if len(runs) == 3:
        points_by_family = {name: [*ends, *points[name]] for name in families[:PANELS]}
        return _triangles(points_by_family, runs, metric, sign)
    return None


def _curve(
    points: Mapping[str, Sequence[Row]], runs: Sequence[str], metric: str, level: float
) -> Picture:
    """A line of each family from the first run alone to the second."""
    marks = [
        {**_ends(row), "weight": row["shares"][1], "as_good": row["as_good"], "system": family}
        for family, family_rows in points.items()
        for row in sorted(family_rows, key=lambda row: float(row["shares"][1]))
    ]
    chart = Chart("weights", marks, {"weight_of": runs[1], "metric": metric}, [*points])
    cells = [
        [str(point["system"]), f"{point['weight']:g}", *(f"{point[name]:.4f}" for name in _NUMBERS)]
        for point in marks
    ]
    about = {"metric": metric, "level": f"{100 * level:g}", "run": runs[1], "other": runs[0]}
    return Picture("weights", chart, ["variant", "weight", *_HEADS], cells, 1, about)


def _triangles(
    points: Mapping[str, Sequence[Row]], runs: Sequence[str], metric: str, sign: int
) -> Picture:
    """A triangle of each family: each run alone at a corner, the mixtures between them."""
    best = max(sign * row["value"] for rows in points.values() for row in rows)
    marks = [
        {
            "system": family,
            "x": row["shares"][1] + row["shares"][2] / 2,
            "y": row["shares"][2] * math.sqrt(3) / 2,
            "value": row["value"],
            "as_good": row["as_good"],
            "is_best": abs(sign * row["value"] - best) < 1e-12,
            "corner": runs[row["shares"].index(1.0)] if row["method"] == "alone" else "",
        }
        for family, rows in points.items()
        for row in rows
    ]
    least = min(
        share for rows in points.values() for row in rows for share in row["shares"] if share
    )
    centre = [point for point in marks if abs(point["x"] - 0.5) + abs(point["y"] - CENTRE) < 1e-4]
    if len(marks) > 4 * len(points) and (1 / 3 / least) % 1 > 0.01:  # equal weights on no grid
        marks = [point for point in marks if point["is_best"] or point not in centre]
    sizes = (max(12.0, 0.6 * (side * least) ** 2) for side in (240, 200))
    chart = Chart("surface", marks, {"metric": metric, "mark_size": Sized(sizes)}, [*points])
    cells = [
        [str(row["variant"]), *(f"{share:.3g}" for share in row["shares"]), f"{row['value']:.4f}"]
        for row in {row["variant"]: row for rows in points.values() for row in rows}.values()
    ]
    about = {"metric": metric, "run": runs[0], "second": runs[1], "third": runs[2]}
    return Picture("surface", chart, ["variant", *runs, "value"], cells, 1, about)


def variants_picture(
    rows: Sequence[Row], winner: Row, level: float, words: Words, note: str = ""
) -> Picture:
    """The best variants with their intervals, and what is known of the winner.

    Args:
        rows: The variants' rows of the winner's metric, over all queries of a day, best first.
        winner: What is known of it.
        level: The coverage of intervals.
        words: The language.
        note: What else is to be known.
    """
    good, others = words("variants.good"), words("variants.others")
    marks = [
        {
            **_ends(row),
            "panel": row["metric"],
            "label": row["variant"],
            "system": good if row["as_good"] else others,
        }
        for row in rows[:BEST]
        if row["value"] is not None
    ]
    cells = [
        [str(row["label"]), str(row["system"]), *(f"{row[name]:.4f}" for name in _NUMBERS)]
        for row in marks
    ]
    about = {
        "metric": winner["metric"],
        "best": winner["variant"],
        "variants": words.n(winner["n_variants"]),
        "queries": words.counted("queries", winner["n_units"]),
        "level": f"{100 * level:g}",
        **{name: f"{winner[name]:.4f}" for name in (*_NUMBERS, "loss")},
        "run": winner["best_run"],
        "good": words.n(winner["n_as_good"]),
        **dict(_advantages(winner)),
    }
    chart = Chart("means", marks, {}, [good, others])
    return Picture(
        "variants", chart, ["variant", "as good", *_HEADS], cells, 2, about, left_out=note
    )


def _advantages(winner: Row) -> Iterator[tuple[str, str]]:
    for name in ("over_equal", "over_run"):
        yield name, signed(winner[name])
        for end in ("low", "high"):
            yield f"{name}_{end}", signed(winner[f"{name}_{end}"])


def _ends(row: Row) -> Row:
    """The numbers of a row; where it has no interval it ends at its value."""
    return {name: row["value"] if row[name] is None else row[name] for name in _NUMBERS}
