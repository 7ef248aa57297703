"""Pictures of a system beside a baseline: every metric, and what slices add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlmetrics.comparison.page.content import Content, Words, number, panels, percent, signed
from sqlmetrics.comparison.page.picture import (
    Chart,
    Part,
    Picture,
    Sized,
    ends,
    pair,
    rows_left_out,
    sign,
)
from sqlmetrics.comparison.report import coverage, p_value, segment_of
from sqlmetrics.stats import NOISE, TIED
from sqlmetrics.tables.table import value_text
from sqlmetrics.tables.tabular import Row

SHOWN_ROWS = 40
"""As many differences or slices are drawn; the tables have all."""

SHOWN_SLICES = 24

DIFFERENCE = ("metric", "before", "after", "difference", "interval", "p")


def verdict_columns(content: Content) -> tuple[str, ...]:
    """The columns of `verdict_cells`."""
    return (*DIFFERENCE, content.counted, "wins", "ties", "losses", "verdict")


def verdicts(content: Content, words: Words) -> Picture | None:
    """Every metric's difference with its interval, against the margin; the table has all."""
    table_rows = content.overall()
    rows = [row for row in table_rows if row["ci_low"] is not None]
    if not rows:
        return None
    several = len(content.compared_systems) > 1
    by_metric = sorted(rows, key=lambda row: content.metrics.index(row["metric"]))
    label = "{system} · {metric}" if several else "{metric}"
    shown_rows = by_metric[:SHOWN_ROWS]
    values = ("value", "baseline_value", "difference")
    scales = panels((row["metric"], row[name] or 0.0) for row in shown_rows for name in values)
    bars = [
        {
            "label": label.format(**row),
            **{name: row[name] for name in ("difference", "ci_low", "ci_high", "verdict")},
            "panel": scales[row["metric"]],
        }
        for row in shown_rows
    ]
    margin = {"low": -content.margin, "high": content.margin}
    parameters = {"margin": margin, "format": "+.2~g", "words": {"baseline": content.baseline}}
    columns = [*(["system"] if several else []), *verdict_columns(content)]
    return Picture(
        "verdicts",
        Chart("verdicts", bars, parameters),
        [words(f"column.{column}") for column in columns],
        [
            [*([str(row["system"])] if several else []), *verdict_cells(content, row, words)]
            for row in sorted(table_rows, key=lambda row: content.metrics.index(row["metric"]))
        ],
        2 if several else 1,
        {
            "baseline": content.baseline,
            "level": coverage(rows, content.level),
            "test": rows[0]["test"],
            "n": words.counted(content.counted, max(row["n"] for row in rows)),
            "band": words("verdicts.band", margin=f"{content.margin:g}") if content.margin else "",
        },
        left_out=rows_left_out(len(bars), len(by_metric), words),
    )


def verdict_cells(content: Content, row: Row, words: Words) -> list[str]:
    """A difference as a row of a table: those of `verdict_columns`."""
    counts = [row["n"], *(row[name] for name in ("wins", "ties", "losses"))]
    return [
        *difference_cells(content, row, words),
        *("–" if count is None else words.n(count) for count in counts),
        words(f"verdict.{row['verdict']}"),
    ]


def difference_cells(content: Content, row: Row, words: Words) -> list[str]:
    """The metric, both values, their difference, its interval, and p."""
    return [
        row["metric"],
        number(row["baseline_value"]),
        number(row["value"]),
        signed(row["difference"]),
        ends(words, row["ci_low"], row["ci_high"]),
        "–" if row["p_adjusted"] is None else p_value(row["p_adjusted"], content.level),
    ]


def contributions(content: Content, words: Words) -> Iterator[Picture]:
    """What slices add to the total, a picture a segment."""
    slice_rows = [
        row
        for row in content.contributions
        if row["metric"] == content.first and row["system"] == content.main
    ]
    for name in dict.fromkeys(row["segment_name"] for row in slice_rows):
        rows = [row for row in slice_rows if row["segment_name"] == name]
        if len(rows) > 1:
            yield _contribution(content, words, name, rows)


def _contribution(content: Content, words: Words, name: str, rows: Sequence[Row]) -> Picture:
    way = content.directions.get(content.first, 1) or 1
    bars, sums, reached = [], [], 0.0
    for row in _with_others(rows, words):
        label = f"{value_text(row['segment_value'])} ({percent(row['share'])})"
        begun = reached
        for part in ("rate", "mix"):
            kind = "better" if row[part] * way >= 0 else "worse"
            end = reached + row[part]
            if abs(row[part]) > NOISE:
                bars.append(
                    {"label": label, "start": reached, "end": end, "kind": kind, "part": part}
                )
            reached = end
        text = signed(row["contribution"])
        sums.append({"label": label, "at": max(begun, reached), "text": text})
    total = words("axis.total")
    bars.append({"label": total, "start": 0, "end": reached, "kind": "total", "part": "total"})
    sums.append({"label": total, "at": max(0.0, reached), "text": signed(reached)})
    names = ["segment", "queries", "share", "before", "after", "rate", "mix", "contribution"]
    cells = [
        [
            value_text(row["segment_value"]),
            words.n(row["n"]),
            percent(row["share"]),
            number(row["baseline_value"]),
            number(row["value"]),
            *(signed(row[column]) for column in ("rate", "mix", "contribution")),
        ]
        for row in rows
    ]
    about = pair(content, words) | {"segment": name, "total": signed(reached)}
    overall = content.row(content.main, content.first)
    if overall and abs(reached - overall["difference"]) > TIED:  # each system with its own queries
        about["interval"] = words("contributions.apart", **about)
    chart = Chart("contributions", bars, {"sums": sums, "domain": _domain(bars)})
    headings = [words(f"column.{column}") for column in names]
    return Picture("contributions", chart, headings, cells, 1, about, suffix=name)


def _with_others(rows: Sequence[Row], words: Words) -> list[Row]:
    """The largest contributions, and one bar of all that are left, so that the total is theirs."""
    largest, remaining = rows[:SHOWN_SLICES], rows[SHOWN_SLICES:]
    if not remaining:
        return [*largest]
    sums = {
        column: sum(row[column] for row in remaining)
        for column in ("share", "rate", "mix", "contribution")
    }
    return [*largest, {"segment_value": words("axis.others", n=words.n(len(remaining))), **sums}]


def _domain(bars: Sequence[Row]) -> Sized:
    """From the least to the most of bars, with space for a number behind them."""
    ends = [bar[edge] for bar in bars for edge in ("start", "end")]
    low, high = min(0.0, *ends), max(0.0, *ends)
    span = high - low
    begin = low - 0.02 * span if low < 0 else 0.0
    return Sized([begin, high + share * span] for share in (0.45, 0.14))


# The picture of slices: each metric of each slice, and what a click opens.

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
    label = value_text(row["segment_value"]) if is_one else name
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
