"""Pictures of means by themselves: every metric, slices and days of a system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison.page.content import (
    ALL,
    Content,
    Words,
    drawn_ends,
    number,
    panels,
    percent,
    pooled,
    signed,
)
from sqlmetrics.comparison.page.differences import SHOWN_ROWS
from sqlmetrics.comparison.page.picture import (
    NAMED,
    Chart,
    Picture,
    ends,
    pair,
    rows_left_out,
    sign,
    systems_left_out,
)
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.spec.source import Source
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import identifier
from sqlmetrics.stats import NOISE
from sqlmetrics.tables.table import value_text
from sqlmetrics.tables.tabular import Row

# The days of deploys, from a table, for marks on the pictures of days.

DAYS = ("day", "date", "ds", "metric_date", "deployed_at", "released_at", "time", "timestamp")
NAMES = ("name", "title", "version", "release", "deploy", "model", "description")
"""The usual names of columns, the first that is there is taken."""

SHOWN_MARKS = 12
"""As many marks are drawn, the last ones."""


def deploys_of(deploys: Any, engine: Database) -> list[Row]:
    """Day and name of each deploy, in order.

    Args:
        deploys: A file, a table's name, a query or a DataFrame, with a column of days or times, and
            maybe one of names.
        engine: Where the tables are.

    Raises:
        SpecError: If it is no table, or no column is called like a day.
    """
    location = source_of(deploys, "deploys", engine.find)
    text = source_text(source_relation(Source(**location), "deploys", engine))
    column_by_name = {name.casefold(): name for name in engine.columns(text)}
    day, name = (
        next(
            (column_by_name[candidate] for candidate in names if candidate in column_by_name), None
        )
        for names in _ROLES
    )
    if day is None:
        raise SpecError(
            f"deploys: no column of days; the columns are {', '.join(column_by_name.values())}; "
            f"name it one of {', '.join(DAYS)}"
        )
    name_expression = f"cast({identifier(name)} as varchar)" if name else "cast(null as varchar)"
    select = (
        f"select cast({identifier(day)} as date) as deploy_day, {name_expression} as deploy_name\n"
        f"from {text}\nwhere {identifier(day)} is not null"
    )
    rows = [{"day": str(d)[:10], "name": n or ""} for d, n in engine.rows(select)]
    return sorted(rows, key=lambda row: (row["day"], row["name"]))


_ROLES = (DAYS, NAMES)


def marks(content: Content, days: Sequence[str]) -> list[Row]:
    """The deploys from the first day of a picture to its last one, each with its number.

    Args:
        content: The numbers.
        days: The days of the picture.
    """
    visible_deploys = [
        deploy for deploy in content.deploys if min(days) <= deploy["day"] <= max(days)
    ]
    return [
        {**deploy, "mark": str(number)}
        for number, deploy in enumerate(visible_deploys[-SHOWN_MARKS:], 1)
    ]


def describe_markers(content: Content, days: Sequence[str], words: Words, *, changed: bool) -> str:
    """What the lines across a picture of days are; empty where there is none.

    Args:
        content: The numbers.
        days: The days of the picture.
        words: The language.
        changed: Whether the definition of its metric changed on a day.
    """
    rows = marks(content, days)
    names = [f"({deploy['mark']}) {deploy['day']} {deploy['name']}".rstrip() for deploy in rows]
    deploys = words("days.deploys", names=", ".join(names)) if names else ""
    return (words("days.changed") if changed else "") + deploys


# Pictures of queries side by side: wins and losses, both values, and days.

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
        | {name: row[name] for name in (*_DIFFERENCE, *_RUNNING)}
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


_DIFFERENCE = ("difference", "ci_low", "ci_high")
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
        slice_ = f"{row['segment_name']} = {value_text(row['segment_value'])}"
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
    missing = _gaps(points, systems)
    points = sorted([*points, *missing], key=lambda row: row["day"])
    chart = Chart("trend", points, parameters, systems)
    hidden = systems_left_out(content.systems, systems, words) + _lacks(missing, words)
    return Picture("trend", chart, columns, cells, 2, about, left_out=hidden)


def _gaps(points: Sequence[Row], systems: Sequence[str]) -> list[Row]:
    """A point without a value for each day of another system, so that no line leads across it."""
    shown = {(row["system"], row["day"]) for row in points}
    empty = dict.fromkeys(points[0])
    return [
        empty | {"system": system, "day": day}
        for system in systems
        for day in dict.fromkeys(row["day"] for row in points)
        if (system, day) not in shown
    ]


def _lacks(missing: Sequence[Row], words: Words) -> str:
    """A sentence of each system that lacks days; empty where none does."""
    days_by_system: dict[str, list[str]] = {}
    for row in missing:
        days_by_system.setdefault(row["system"], []).append(row["day"])
    return "".join(
        words("trend.lacks", system=system, days=", ".join(days[:NAMED]))
        if len(days) <= NAMED
        else words("trend.lacks_many", system=system, n=words.n(len(days)))
        for system, days in days_by_system.items()
    )
