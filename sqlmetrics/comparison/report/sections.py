"""What stands below the rows of a comparison where it is asked for: tables with titles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlmetrics.comparison.report.numbers import number, signed
from sqlmetrics.stats import NOISE
from sqlmetrics.tables.cells import printable
from sqlmetrics.tables.table import Table

if TYPE_CHECKING:
    from sqlmetrics.comparison.report.comparison import Comparison

SUMMED = ("rate", "mix", "contribution")

CONTRIBUTION = "contribution: the slice's part of the difference; those of a segment add up to it"
SHRUNK = (
    "shrunk: the difference, pulled towards that of all, or of a query towards 0, by as much as it "
    "may be noise"
)
MIX = (
    "rate: by changed values; mix: by changed shares of the queries, which are not the same for "
    "both systems"
)

MOVERS = (
    "moved most: by the shrunk difference times the traffic; could be noise: chance alone moves a "
    "query as far, as the interval's probability says it"
)

Row = dict[str, Any]


def sections(comparison: Comparison) -> list[Table]:
    """All of them, in their order."""
    return [*_contributions(comparison.contributions), *_movers(comparison.movers)]


def _contributions(rows: Sequence[Row]) -> Iterator[Table]:
    """A table a segment and system."""
    for (name, system, baseline), group in groupby(
        rows, lambda row: (row["segment_name"], row["system"], row["baseline"])
    ):
        segment, *systems = map(printable, (name, system, baseline))
        group_rows, mix = list(group), _is_mixed(rows)
        names = ["metric", segment, "queries", "share", "difference", "shrunk"]
        names += [*(["rate", "mix"] if mix else []), "contribution"]
        title = f"what the slices of {segment} add: {' against '.join(systems)}"
        cells = []
        for metric, parts in groupby(group_rows, lambda row: str(row["metric"])):
            slices = list(parts)
            cells += [_contribution(row, mix=mix) for row in slices]
            sums = [signed(sum(row[column] for row in slices)) for column in SUMMED]
            cells.append([printable(metric), "all", *[""] * 4, *(sums if mix else sums[2:])])
        yield Table(names, cells, 2, title)


def _movers(rows: Sequence[Row]) -> Iterator[Table]:
    """A table of a metric's and system's queries, then both lists of each."""
    for (metric, system, baseline), group in groupby(
        rows, lambda row: (row["metric"], row["system"], row["baseline"])
    ):
        after, before = printable(system), printable(baseline)
        group_rows = list(group)
        names = ["", "", "query", "noise", before, after, "difference", "shrunk", "traffic"]
        cells = [_mover(rank, row) for rank, row in enumerate(group_rows, 1)]
        title = f"the queries that moved {printable(metric)} most: {after} against {before}"
        yield Table(names, cells, 4, title)
        for rank, row in enumerate(group_rows, 1):
            day = f", on {row['metric_date']}" if row["metric_date"] else ""
            title = f"{rank}. {_asked(row)}: {printable(metric)} {signed(row['difference'])}{day}"
            names = ["rank", before, "grade", after, "grade"]
            yield Table(names, _side_by_side(row), title=title)


def _mover(rank: int, row: Row) -> list[str]:
    return [
        str(rank),
        row["moved"],
        _asked(row),
        "could be" if row["could_be_noise"] else "",
        number(row["baseline_value"]),
        number(row["value"]),
        signed(row["difference"]),
        signed(row["shrunk_difference"]),
        f"{row['traffic']:,.10g}",
    ]


def _asked(row: Row) -> str:
    """The query's text, with its id if that is another one."""
    query_id, text = printable(row["query_id"]), row["query_text"]
    return query_id if text in (None, "", row["query_id"]) else f"{printable(text)} ({query_id})"


def _side_by_side(row: Row) -> list[list[str]]:
    lists = [{item["rank"]: item for item in row[name]} for name in ("baseline_list", "list")]
    ranks = sorted({rank for item_by_rank in lists for rank in item_by_rank})
    return [
        [str(rank), *(cell for item_by_rank in lists for cell in _item(item_by_rank.get(rank)))]
        for rank in ranks
    ]


def _item(item: Row | None) -> list[str]:
    if item is None:
        return ["", ""]
    name = printable(item["item_id"])
    name = f"{printable(item['title'])} ({name})" if item["title"] else name
    return [name, "-" if item["grade"] is None else f"{item['grade']:g}"]


def _is_mixed(rows: Sequence[Row]) -> bool:
    """Whether the shares of slices differ between the systems."""
    return any(abs(row["mix"]) > NOISE for row in rows)


def _contribution(row: Row, *, mix: bool) -> list[str]:
    n, share = f"{row['n']:,}", f"{100 * row['share']:.0f} %"
    if mix:
        n, share = f"{row['n_baseline']:,}, {n}", f"{100 * row['baseline_share']:.0f} %, {share}"
    return [
        printable(row["metric"]),
        printable(row["segment_value"]),
        n,
        share,
        *(signed(row[name]) for name in ("difference", "shrunk_difference")),
        *(signed(row[name]) for name in ("rate", "mix") if mix),
        signed(row["contribution"]),
    ]


def notes(comparison: Comparison) -> list[str]:
    """What their columns mean."""
    parts = comparison.contributions
    return [
        *([CONTRIBUTION] if parts else []),
        *([MIX] if _is_mixed(parts) else []),
        *([SHRUNK] if parts or comparison.movers else []),
        *([MOVERS] if comparison.movers else []),
    ]


def json_object(comparison: Comparison) -> str:
    """All that there is as one JSON object, where there is more than rows."""
    fields: dict[str, Any] = {"rows": comparison.to_dicts()}
    fields["contributions"] = list(comparison.contributions)
    fields["movers"] = list(comparison.movers)
    return json.dumps(fields, ensure_ascii=False, indent=2, default=str)
