"""Pictures of queries side by side: wins and losses, both values, and days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from sqlmetrics.comparison.page.charts import Chart
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.deploys import describe_markers, marks
from sqlmetrics.comparison.page.picture import Picture, ends, pair, sign
from sqlmetrics.comparison.page.words import Words, number, percent, signed
from sqlmetrics.stats import NOISE
from sqlmetrics.tables.tabular import Row

SHOWN_CELLS = 40
"""As many squares stand in the table, the fullest first."""


def deltas(content: Content, words: Words) -> Picture | None:
    """Queries by their difference, the largest win first, as areas."""
    total = sum(row["n"] for row in content.deltas)
    if not total or all(row["difference"] == 0 for row in content.deltas):
        return None
    way = content.directions.get(content.first, 1) or 1
    rows = sorted(content.deltas, key=lambda row: -row["difference"] * way)
    reached = list(accumulate(row["n"] for row in rows))
    steps = [
        {
            "start": (end - row["n"]) / total,
            "end": end / total,
            "difference": row["difference"],
            "sign": sign(row["difference"] * way),
        }
        for row, end in zip(rows, reached, strict=True)
    ]
    shares = _shares(content, rows, way)
    height = max(abs(row["difference"]) for row in rows) * way
    areas = [
        {"at": position, "y": y, "label": percent(shares[side])}
        for side, position, y in ((1, 0.12, height * 0.12), (-1, 0.9, -height * 0.12))
        if shares[side] > 0
    ]
    names = ["difference", "queries", "share"]
    cells = [
        [signed(row["difference"]), words.n(row["n"]), percent(row["n"] / total)]
        for row in _coarser(rows)
    ]
    return Picture(
        "deltas",
        Chart("deltas", steps, {"areas": areas}),
        [words(f"column.{column}") for column in names],
        cells,
        0,
        pair(content, words),
    )


def _shares(content: Content, rows: Sequence[Row], way: int) -> dict[int, float]:
    """Of queries that are won, tied and lost: the comparison's own counts, where it has them."""
    total = sum(row["n"] for row in rows)
    overall = content.row(content.main, content.first)
    if overall and overall["wins"] is not None and overall["n"]:
        names = {1: "wins", 0: "ties", -1: "losses"}
        return {side: overall[name] / overall["n"] for side, name in names.items()}
    return {
        side: sum(row["n"] for row in rows if sign(row["difference"] * way) == side) / total
        for side in (1, 0, -1)
    }


def _coarser(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Bins ten times as wide, for a table."""
    wide = [row for row in rows if row["difference"]]
    width = min((abs(row["difference"]) for row in wide), default=1.0) * 10
    sums: dict[float, int] = {}
    for row in rows:
        bin_number = round(row["difference"] / width)
        sums[bin_number] = sums.get(bin_number, 0) + row["n"]
    for bin_number, n in sums.items():
        yield {"difference": bin_number * width, "n": n}


def days(content: Content, words: Words) -> Picture | None:
    """The difference of each day, and of all so far."""
    rows = [row for row in content.days if row["ci_low"] is not None]
    if len(rows) < 2:
        return None
    way = content.directions.get(content.first, 1) or 1
    points = [
        {"day": str(row["metric_date"])[:10], "verdict": _verdict_of(row, way)}
        | {name: row[name] for name in (*_OWN, *_RUNNING)}
        for row in rows
    ]
    names = ["day", "queries", "difference", "interval", "so_far", "always"]
    cells = [
        [
            str(row["metric_date"])[:10],
            words.n(row["n"]),
            signed(row["difference"]),
            ends(words, row["ci_low"], row["ci_high"]),
            signed(row["running"]),
            ends(words, row["running_low"], row["running_high"]),
        ]
        for row in rows
    ]
    shown_days = [row["day"] for row in points]
    changed = changes(content)
    parameters: dict[str, Any] = {
        "changes": changed,
        "deploys": marks(content, shown_days),
        "domain": day_domain(points),
        "words": {"baseline": content.baseline},
    }
    return Picture(
        "days",
        Chart("days", points, parameters),
        [words(f"column.{column}") for column in names],
        cells,
        1,
        pair(content, words)
        | {"lines": describe_markers(content, shown_days, words, changed=bool(changed))},
        left_out=words("days.cut") if is_cut(points, parameters["domain"]) else "",
    )


_OWN = ("difference", "ci_low", "ci_high")
_RUNNING = ("running", "running_low", "running_high")


def day_domain(points: Sequence[Row]) -> list[float]:
    """From the lowest end of a day's interval to the highest one: the band begins far wider."""
    low, high = min(0.0, *(r["ci_low"] for r in points)), max(0.0, *(r["ci_high"] for r in points))
    room = 0.08 * (high - low) or 0.01
    return [low - room, high + room]


def is_cut(points: Sequence[Row], domain: Sequence[float]) -> bool:
    """Whether the band of a day ends outside the axis."""
    low, high = domain
    return any(row["running_low"] < low or row["running_high"] > high for row in points)


def _verdict_of(row: Row, way: int) -> str:
    """What a day by itself says."""
    if row["ci_low"] <= 0 <= row["ci_high"]:
        return "unclear"
    return "better" if row["difference"] * way > 0 else "worse"


def changes(content: Content) -> list[dict[str, str]]:
    """The days on which the definition of the first metric is another one than before."""
    changed_days, last = [], None
    for row in sorted(content.means(content.first), key=lambda row: str(row["metric_date"])):
        now = row["definition_hash"]
        if last not in (None, now):
            changed_days.append({"day": str(row["metric_date"])[:10]})
        last = now
    return changed_days


def scatter(content: Content, words: Words) -> Picture | None:
    """Queries by both values: squares, darker where there are more."""
    cells = [row for row in content.cells if row["n"]]
    width = content.bin_width
    if len(cells) < 2 or not width:
        return None
    most = max(row["n"] for row in cells)
    squares = [
        {
            "x": row["baseline_value"],
            "x2": row["baseline_value"] + width,
            "y": row["value"],
            "y2": row["value"] + width,
            "size": (row["n"] / most) ** 0.5,
        }
        for row in cells
    ]
    low = min(min(row["x"], row["y"]) for row in squares)
    high = max(max(row["x2"], row["y2"]) for row in squares)
    above, below = (
        sum(row["n"] for row in cells if direction * (row["value"] - row["baseline_value"]) > NOISE)
        for direction in (1, -1)
    )
    parameters = {
        "domain": [low, high],
        "diagonal": [{"at": low}, {"at": high}],
        "x_title": f"{content.baseline} · {content.first}",
        "y_title": f"{content.main} · {content.first}",
    }
    largest = sorted(cells, key=lambda row: -row["n"])[:SHOWN_CELLS]
    names = [content.baseline, content.main, words("column.queries")]
    table = [
        [number(row["baseline_value"]), number(row["value"]), words.n(row["n"])] for row in largest
    ]
    about = pair(content, words) | {"width": f"{width:g}"}
    about |= {"above": words.n(above), "below": words.n(below)}
    return Picture("scatter", Chart("scatter", squares, parameters), names, table, 0, about)
