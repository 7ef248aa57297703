"""The queries that moved most, with both lists side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlmetrics.comparison.page.charts import Chart
from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.picture import Mover, Picture, Shown, sign
from sqlmetrics.comparison.page.words import Words, number, signed
from sqlmetrics.tables.tabular import Row

SHOWN, LOST = 8, 5
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
    rows = [*losses[: max(LOST, SHOWN - len(won))], *won[: max(SHOWN - LOST, SHOWN - len(losses))]]
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
        "label": _asked(row),
        "before": row["baseline_value"],
        "after": row["value"],
        "sign": sign(row["difference"] * way),
        "noise": bool(row["could_be_noise"]),
    }


def _cells(row: Row, words: Words) -> list[str]:
    return [
        _asked(row),
        number(row["baseline_value"]),
        number(row["value"]),
        signed(row["difference"]),
        signed(row["shrunk_difference"]),
        f"{row['traffic']:,.10g}",
        words("column.could_be") if row["could_be_noise"] else "",
    ]


def _asked(row: Row) -> str:
    """The query's text, with its id if that is another one."""
    query_id, text = str(row["query_id"]), row["query_text"]
    return query_id if text in (None, "", row["query_id"]) else f"{text} ({query_id})"


def _mover(row: Row, words: Words) -> Mover:
    before, after = row["baseline_list"], row["list"]
    ranks = [{item["item_id"]: item["rank"] for item in items} for items in (before, after)]
    day = f", {str(row['metric_date'])[:10]}" if row["metric_date"] else ""
    title = (
        f"{_asked(row)}: {number(row['baseline_value'])} → {number(row['value'])} "
        f"({signed(row['difference'])}){day}"
    )
    old, new = _shown(before), _shown(after)
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


def _shown(items: Sequence[Row]) -> list[Row]:
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
) -> Shown:
    mark = _mark(item, other_ranks, words, is_new=is_new)
    return Shown(item["rank"], _name(item), item["grade"], mark, pairs.get(item["item_id"]))


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
