"""Pictures of a click log: what the cleaning left out, clicks by position, offline and online."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.clicks.cleaning_report import UNUSED
from sqlmetrics.comparison.page.content import (
    ALL,
    Content,
    Log,
    Words,
    drawn_ends,
    number,
    panels,
    percent,
    pooled,
    signed,
)
from sqlmetrics.comparison.page.differences import SHOWN_ROWS
from sqlmetrics.comparison.page.lists import about_lists
from sqlmetrics.comparison.page.picture import (
    Chart,
    Mover,
    Picture,
    ShownItem,
    Sized,
    rows_left_out,
    sign,
    systems_left_out,
)
from sqlmetrics.stats.estimate import INTERVAL, wilson_interval
from sqlmetrics.stats.nonparametric import spearman
from sqlmetrics.tables.tabular import Row

SHOWN_POSITIONS = 30
LEAST_DAYS = 5
"""Of fewer points no correlation is told."""


def cleaning(content: Content, words: Words) -> Picture | None:
    """What each step took away from the log, as a waterfall."""
    log = content.log
    if log is None or not log.rows or not any(s["removed"] for s in log.steps):
        return None
    bars, cells = [], []
    unused = {step["what"] for step in log.steps if step["why"] == UNUSED}
    for row_kind, (logged, remaining) in log.rows.items():
        if row_kind in unused:
            cells.append([row_kind, words("reason.not_used"), words.n(logged), "0"])
            continue
        bars.append(
            _bar(f"{row_kind}: {words('column.logged')}", (0, logged), words, is_loss=False)
        )
        cells.append([row_kind, words("column.logged"), "", words.n(logged)])
        for step in (step for step in log.steps if step["what"] == row_kind):
            reason = words(f"reason.{step['why'].replace(' ', '_')}")
            label = f"{row_kind}: {reason}"
            ends = step["rows_out"], step["rows_in"]
            if step["removed"]:
                bars.append(_bar(label, ends, words, is_loss=True))
            cells.append([row_kind, reason, words.n(step["removed"]), words.n(step["rows_out"])])
        if logged != remaining:
            bars.append(
                _bar(f"{row_kind}: {words('column.left')}", (0, remaining), words, is_loss=False)
            )
        cells.append([row_kind, words("column.left"), "", words.n(remaining)])
    columns = [words(f"column.{column}") for column in ("rows", "step", "removed", "left")]
    most = max(logged for row_kind, (logged, _) in log.rows.items() if row_kind not in unused)
    domain = Sized(([0, 1.45 * most], [0, 1.14 * most]))
    parameters = {"domain": domain, "x_title": words("column.rows"), "format": "~s", "values": None}
    about = {"n": words.n(sum(logged for logged, _ in log.rows.values()))}
    return Picture("cleaning", Chart("waterfall", bars, parameters), columns, cells, 2, about)


def _bar(
    label: str, ends: tuple[float, float], words: Words, *, is_loss: bool
) -> dict[str, object]:
    start, end = ends
    text = f"−{words.n(end - start)}" if is_loss else words.n(end)
    kind = "worse" if is_loss else "total"
    return {"label": label, "start": start, "end": end, "far": end, "kind": kind, "text": text}


def positions(content: Content, words: Words) -> Picture | None:
    """The share of impressions at each position that were clicked."""
    log = content.log or Log()
    rows = [row for row in log.positions if row["position"] <= SHOWN_POSITIONS and row["n_shown"]]
    if len({row["position"] for row in rows}) < 2 or not any(row["n_clicked"] for row in rows):
        return None
    systems = content.in_order(row["system"] for row in rows)[:8]
    points = [
        {
            "system": row["system"],
            "position": row["position"],
            "share": row["n_clicked"] / row["n_shown"],
            **dict(
                zip(
                    INTERVAL,
                    wilson_interval(row["n_clicked"], row["n_shown"], content.level),
                    strict=True,
                )
            ),
        }
        for row in rows
        if row["system"] in systems
    ]
    names = ("system", "position", "shown", "clicked", "ctr", "interval")
    cells = []
    for row in rows:
        low, high = wilson_interval(row["n_clicked"], row["n_shown"], content.level)
        ctr = row["n_clicked"] / row["n_shown"]
        ends = words("page.to", low=percent(low), high=percent(high))
        counts = [words.n(row["n_shown"]), words.n(row["n_clicked"])]
        cells.append([row["system"], str(row["position"]), *counts, percent(ctr), ends])
    about = {
        "level": f"{100 * content.level:g}",
        "n": words.n(sum(row["n_shown"] for row in rows)),
    }
    columns = [words(f"column.{column}") for column in names]
    parameters = {"y_title": words("column.ctr")}
    hidden = systems_left_out((row["system"] for row in rows), systems, words)
    chart = Chart("positions", points, parameters, systems)
    return Picture("positions", chart, columns, cells, 1, about, left_out=hidden)


def examination(content: Content, words: Words) -> Picture | None:
    """How often positions are looked at, where labels are corrected by that."""
    rows = (content.log or Log()).propensities
    rows = [row for row in rows if row["position"] <= SHOWN_POSITIONS]
    if len({row["position"] for row in rows}) < 2:
        return None
    points = [
        {
            "system": str(row.get("group") or row["method"]),
            "position": row["position"],
            "share": row["propensity"],
            **{
                bound: row["propensity"] if row[bound] is None else row[bound] for bound in INTERVAL
            },
        }
        for row in rows
    ]
    groups = tuple(dict.fromkeys(row["system"] for row in points))[:8]
    hidden = systems_left_out((row["system"] for row in points), groups, words)
    points = [row for row in points if row["system"] in groups]
    names = ("segment", "position", "propensity", "interval")
    cells = [
        [row["system"], str(row["position"]), number(row["share"]), _text(row, words)]
        for row in points
    ]
    about = {
        "method": rows[0]["method"],
        "level": f"{100 * content.level:g}",
        "n": words.n(len({row["position"] for row in rows})),
    }
    chart = Chart("positions", points, {"y_title": words("column.propensity")}, groups)
    columns = [words(f"column.{column}") for column in names]
    return Picture("examination", chart, columns, cells, 1, about, left_out=hidden)


def offline_online(content: Content, words: Words) -> Picture | None:
    """A metric of lists beside one of what people did, a point a day and system."""
    log = content.log or Log()
    metric_pair = _pair(content, log)
    if metric_pair is None:
        return None
    offline, online = metric_pair
    points = [
        {
            "day": str(row["day"])[:10],
            "system": row["system"],
            "offline": row["offline"][offline],
            "online": row["online"][online],
        }
        for row in log.days
        if offline in row["offline"] and online in row["online"]
    ]
    if len(points) < 3:
        return None
    systems = content.in_order(row["system"] for row in points)
    columns = [words("column.day"), words("column.system"), offline, online]
    cells = [
        [row["day"], row["system"], number(row["offline"]), number(row["online"])] for row in points
    ]
    correlation = None
    if len(points) >= LEAST_DAYS:
        correlation = spearman(
            [row["offline"] for row in points], [row["online"] for row in points]
        )
    correlation_text = words("offline_online.too_few")
    if correlation is not None:
        correlation_text = words(
            "offline_online.spearman", value=f"{correlation:+.2f}".replace("-", "−")
        )
    rows = [r for r in log.online if _is_all(r) and at_cutoff(r["metric"], r["k"]) == online]
    n = words.n(sum(row["n_queries"] for row in rows))
    about = {"offline": offline, "online": online, "n": n, "correlation": correlation_text}
    chart = Chart("offline_online", points, {"x_title": offline, "y_title": online}, systems)
    return Picture("offline_online", chart, columns, cells, 2, about)


def _pair(content: Content, log: Log) -> tuple[str, str] | None:
    """The first metric of lists, and an online one: CTR if there is one."""
    online = list(dict.fromkeys(name for row in log.days for name in row["online"]))
    offline = list(dict.fromkeys(name for row in log.days for name in row["offline"]))
    if not (online and offline):
        return None
    liked = [metric for metric in online if metric.startswith("ctr")]
    first = content.first if content.first in offline else offline[0]
    return first, (liked or online)[0]


def _is_all(row: Row) -> bool:
    return bool(row["segment_name"] == ALL)


def rates(content: Content, words: Words) -> Picture | None:
    """The online metrics that are shares, with their intervals."""
    log = content.log or Log()
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in log.online:
        if _is_all(row):
            key = at_cutoff(row["metric"], row["k"]), str(row["system"])
            groups.setdefault(key, []).append(row)
    rows = []
    for (label, system), group in groups.items():
        total = pooled(group, content.level)
        if total is not None:
            rows.append({"label": label, "system": system, **total})
    if not rows:
        return None
    shown_rows = rows[:SHOWN_ROWS]
    scales = panels((row["label"], row["value"]) for row in shown_rows)
    points = [
        {
            **{column: row[column] for column in ("label", "system", "value")},
            **drawn_ends(row, row["label"]),
            "panel": scales[row["label"]],
        }
        for row in shown_rows
    ]
    systems = content.in_order(row["system"] for row in rows)
    columns = [words(f"column.{column}") for column in ("metric", "system", "after", "interval")]
    cells = [
        [row["label"], row["system"], number(row["value"]), _text(row, words), words.n(row["n"])]
        for row in rows
    ]
    about = {
        "level": f"{100 * content.level:g}",
        "n": words.n(max(row["n"] for row in rows)),
    }
    chart = Chart("means", points, {}, systems)
    names = [*columns, words("column.requests")]
    is_abandoned = any(row["label"] == "abandonment" for row in points)
    look_for = "" if is_abandoned else "rates.look_clicks"
    hidden = rows_left_out(len(points), len(rows), words)
    return Picture("rates", chart, names, cells, 2, about, look_for=look_for, left_out=hidden)


def _text(row: Row, words: Words) -> str:
    if row["ci_low"] is None:
        return "–"
    return words("page.to", low=number(row["ci_low"]), high=number(row["ci_high"]))


# The picture of where the first relevant item of a query went: ribbons from ranks to ranks.

RANKS = ("1", "2-3", "4-10", "11+", "none")
"""The ranks that are counted apart, the best first."""

BEYOND = ("11+", "none")
"""Those that are drawn as one."""

GAP = 0.04
"""The space between two bars, as a part of all queries."""

BAR, STEPS = 0.03, 16
"""How wide a bar is, where ribbons run from 0 to 1; and of how many pieces a ribbon is."""

NEAREST = 0.14
"""So far apart stand texts of two lines, as a part of the height."""

Counts = Mapping[tuple[str, str], int]


def first(content: Content, words: Words) -> Picture | None:
    """Where the first relevant item was, and where it is."""
    counts = {(row["before"], row["after"]): int(row["n"]) for row in content.profile.first}
    if sum(n for (before, after), n in counts.items() if before != after) == 0:
        return None
    bar_counts = _few(counts)
    bars = {is_new: _bars(bar_counts, is_new=is_new) for is_new in (False, True)}
    height = max(end for side_bars in bars.values() for _, end in side_bars.values())
    parameters = {
        "bars": [*_drawn_bars(bars)],
        "texts": [*_texts(bars, sum(bar_counts.values()), height, words)],
        "systems_above": [
            {"x": 0, "y": -0.06 * height, "align": "right", "text": content.baseline},
            {"x": 1, "y": -0.06 * height, "align": "left", "text": content.main},
        ],
        "x_domain": Sized(([-0.75, 1.75], [-0.3, 1.3])),
        "y_domain": [-0.09 * height, height],
        "text_limit": Sized((100, 160)),
    }
    label_by_rank = {rank: rank.replace("-", "–") for rank in RANKS} | {"none": words("axis.none")}
    columns = [f"{content.baseline} ↓ {content.main} →", *label_by_rank.values()]
    cells = [
        [label_by_rank[before], *(words.n(counts.get((before, after), 0)) for after in RANKS)]
        for before in RANKS
    ]
    moved = {way: sum(n for pair, n in counts.items() if _way(pair) == way) for way in (1, -1)}
    about = about_lists(content, words) | {
        "system": content.main,
        "baseline": content.baseline,
        "up": words.n(moved[1]),
        "down": words.n(moved[-1]),
    }
    ribbons = [point for pair in sorted(bar_counts) for point in _ribbon(pair, bar_counts, bars)]
    return Picture("first", Chart("first", ribbons, parameters), columns, cells, 1, about)


def _way(pair: tuple[str, str]) -> int:
    """1 if the item rose, -1 if it fell.

    >>> _way(("4-10", "1")), _way(("1", "none")), _way(("2-3", "2-3"))
    (1, -1, 0)
    """
    return sign(RANKS.index(pair[0]) - RANKS.index(pair[1]))


def _bar_of(rank: str) -> int:
    """The bar of a rank, from above."""
    return min(RANKS.index(rank), RANKS.index(BEYOND[0]))


def _few(counts: Counts) -> dict[tuple[int, int], int]:
    """Queries by the bars that they are in, before and after."""
    bar_counts: dict[tuple[int, int], int] = {}
    for (before, after), n in counts.items():
        key = _bar_of(before), _bar_of(after)
        bar_counts[key] = bar_counts.get(key, 0) + n
    return bar_counts


Bars = Mapping[int, tuple[float, float]]
"""Bar -> where it begins and ends; bars without a query are left out."""


def _bars(counts: Mapping[tuple[int, int], int], *, is_new: bool) -> Bars:
    gap, reached, ends_by_bar = GAP * sum(counts.values()), 0.0, {}
    for bar in sorted({pair[is_new] for pair in counts}):
        n = sum(n for pair, n in counts.items() if pair[is_new] == bar)
        ends_by_bar[bar] = reached, reached + n
        reached += n + gap
    return ends_by_bar


def _drawn_bars(bars: Mapping[bool, Bars]) -> Iterator[Row]:
    for is_new, side_bars in bars.items():
        for begin, end in side_bars.values():
            x = 1 - BAR if is_new else 0
            yield {"x": x, "x2": x + BAR, "y": begin, "y2": end}


def _texts(
    bars: Mapping[bool, Bars], total: int, height: float, words: Words
) -> Iterator[dict[str, object]]:
    """Beside each bar its ranks and its queries, no two nearer than they can be read."""
    for is_new, side_bars in bars.items():
        places = _apart([(begin + end) / 2 for begin, end in side_bars.values()], height)
        for (bar, (begin, end)), position in zip(side_bars.items(), places, strict=True):
            name = RANKS[bar].replace("-", "–")
            name = words("first.beyond") if RANKS[bar] in BEYOND else words("first.rank", rank=name)
            n = end - begin
            yield {
                "x": 1 if is_new else 0,
                "y": position,
                "align": "left" if is_new else "right",
                "text": [name, f"{words.n(n)} ({percent(n / total)})"],
            }


def _apart(places: Sequence[float], height: float) -> list[float]:
    """Places from above, moved so that none is too near to the next.

    >>> [round(one, 3) for one in _apart([0.5, 0.51, 0.99], 1.0)]
    [0.5, 0.64, 0.93]
    """
    least, positions = NEAREST * height, list[float]()
    for position in places:
        positions.append(
            max(position, positions[-1] + least) if positions else max(position, least / 2)
        )
    below = height - least / 2
    for index in range(len(positions) - 1, -1, -1):
        positions[index] = min(positions[index], below)
        below = positions[index] - least
    return positions


def _ribbon(
    pair: tuple[int, int],
    counts: Mapping[tuple[int, int], int],
    bars: Mapping[bool, Bars],
) -> Iterator[Row]:
    """A band from a bar to a bar, as wide as it has queries."""
    n, (before, after) = counts[pair], pair
    ends = []
    for is_new in (False, True):
        counts_before = (
            m
            for other_pair, m in counts.items()
            if other_pair[is_new] == pair[is_new] and other_pair < pair
        )
        ends.append(bars[is_new][pair[is_new]][0] + sum(counts_before))
    for step in range(STEPS + 1):
        part = step / STEPS
        smooth = part * part * (3 - 2 * part)
        y = ends[0] + (ends[1] - ends[0]) * smooth
        yield {
            "ribbon": f"{before}-{after}",
            "x": BAR + (1 - 2 * BAR) * part,
            "y": y,
            "y2": y + n,
            "sign": sign(before - after),
        }


# The queries that moved most, with both lists side by side.

SHOWN_QUERIES, LOST = 8, 5
"""As many queries are shown; so many of them are losses, if there are."""

TOP, BELOW = 10, 5
"""So much of a list is shown, and as many relevant items below."""


def movers(content: Content, words: Words) -> Picture | None:
    """What each had and has, and both lists, items marked as new, gone or moved; losses first."""
    rows = [
        row
        for row in content.movers
        if row["metric"] == content.first and row["system"] == content.main
    ]
    if not rows:
        return None
    way = content.directions.get(content.first, 1) or 1
    losses = [row for row in rows if row["difference"] * way < 0]
    won = [row for row in rows if row["difference"] * way > 0]
    rows = [
        *losses[: max(LOST, SHOWN_QUERIES - len(won))],
        *won[: max(SHOWN_QUERIES - LOST, SHOWN_QUERIES - len(losses))],
    ]
    overall = content.row(content.main, content.first)
    columns = [words("column.query"), content.baseline, content.main]
    columns += [
        words(f"column.{column}") for column in ("difference", "shrunk", "traffic", "noise")
    ]
    parameters = {"metric": content.first, "baseline": content.baseline, "system": content.main}
    systems = (content.baseline, content.main)
    return Picture(
        "movers",
        Chart("movers", [_line(row, way) for row in rows], parameters, systems),
        columns,
        [_cells(row, words) for row in rows],
        1,
        {
            "metric": content.first,
            "shown": len(rows),
            "n": words.n(overall["n"] if overall else 0),
            "level": f"{100 * content.level:g}",
        },
        movers=[_mover(row, words) for row in rows],
    )


def _line(row: Row, way: int) -> Row:
    """From the baseline's value to the system's."""
    return {
        "label": _query_title(row),
        "before": row["baseline_value"],
        "after": row["value"],
        "sign": sign(row["difference"] * way),
        "noise": bool(row["could_be_noise"]),
    }


def _cells(row: Row, words: Words) -> list[str]:
    return [
        _query_title(row),
        number(row["baseline_value"]),
        number(row["value"]),
        signed(row["difference"]),
        signed(row["shrunk_difference"]),
        f"{row['traffic']:,.10g}",
        words("column.could_be") if row["could_be_noise"] else "",
    ]


def _query_title(row: Row) -> str:
    """The query's text, with its id if that is another one."""
    query_id, text = str(row["query_id"]), row["query_text"]
    return query_id if text in (None, "", row["query_id"]) else f"{text} ({query_id})"


def _mover(row: Row, words: Words) -> Mover:
    before, after = row["baseline_list"], row["list"]
    ranks = [{item["item_id"]: item["rank"] for item in items} for items in (before, after)]
    day = f", {str(row['metric_date'])[:10]}" if row["metric_date"] else ""
    title = (
        f"{_query_title(row)}: {number(row['baseline_value'])} → {number(row['value'])} "
        f"({signed(row['difference'])}){day}"
    )
    old, new = _top_and_relevant(before), _top_and_relevant(after)
    common = {item["item_id"] for item in old} & {item["item_id"] for item in new}
    pairs = {item: number for number, item in enumerate(sorted(common, key=str))}
    return Mover(
        title,
        bool(row["could_be_noise"]),
        (
            [_item(item, ranks[1], pairs, words, is_new=False) for item in old],
            [_item(item, ranks[0], pairs, words, is_new=True) for item in new],
        ),
    )


def _top_and_relevant(items: Sequence[Row]) -> list[Row]:
    """The top of a list, and some relevant items below it."""
    top = [item for item in items if item["rank"] <= TOP]
    return top + [item for item in items if item["rank"] > TOP][:BELOW]


def _item(
    item: Row,
    other_ranks: Mapping[Any, int],
    pairs: Mapping[Any, int],
    words: Words,
    *,
    is_new: bool,
) -> ShownItem:
    mark = _mark(item, other_ranks, words, is_new=is_new)
    return ShownItem(item["rank"], _name(item), item["grade"], mark, pairs.get(item["item_id"]))


def _name(item: Row) -> str:
    return f"{item['title']} ({item['item_id']})" if item["title"] else str(item["item_id"])


def _mark(item: Row, other_ranks: Mapping[Any, int], words: Words, *, is_new: bool) -> str:
    """What became of an item, from the baseline's list to the system's."""
    other_rank = other_ranks.get(item["item_id"])
    if other_rank is None:
        return words("movers.new" if is_new else "movers.gone")
    if not is_new:
        moved = other_rank - item["rank"]
        return words("movers.below", rank=other_rank) if moved else ""
    moved = other_rank - item["rank"]
    if not moved:
        return words("movers.same")
    return words("movers.up" if moved > 0 else "movers.down", n=abs(moved))
