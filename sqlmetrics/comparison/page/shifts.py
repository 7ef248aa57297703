"""The picture of where the first relevant item of a query went: ribbons from ranks to ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlmetrics.comparison.page.charts import Chart, Sized
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.lists import about_lists
from sqlmetrics.comparison.page.picture import Picture, sign
from sqlmetrics.comparison.page.words import Words, percent
from sqlmetrics.tables.tabular import Row

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


def _drawn(rank: str) -> int:
    """The bar of a rank, from above."""
    return min(RANKS.index(rank), RANKS.index(BEYOND[0]))


def _few(counts: Counts) -> dict[tuple[int, int], int]:
    """Queries by the bars that they are in, before and after."""
    bar_counts: dict[tuple[int, int], int] = {}
    for (before, after), n in counts.items():
        key = _drawn(before), _drawn(after)
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
