"""What a comparison says: its rows, its text, its page."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.option import is_number
from sqlmetrics.catalog.tool_names import in_our_words
from sqlmetrics.comparison.all_pairs import leaderboards
from sqlmetrics.comparison.options import FAIL_ON, LOST, FailOn, check_fail_on
from sqlmetrics.errors import CheckError, SpecError, unknown
from sqlmetrics.evaluation.arguments import check_level
from sqlmetrics.evaluation.report.failure import QUERIES, Change, Failure, Lost
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.days import day_of
from sqlmetrics.stats import NOISE
from sqlmetrics.tables.table import (
    Table,
    folded,
    for_file,
    html_notes,
    line_width,
    many,
    markdown_notes,
    printable,
    probability,
    segment_cell,
    value_text,
)
from sqlmetrics.tables.tabular import ArrowTables, Kinds, Row, Tabular, arrow_tables

if TYPE_CHECKING:
    import pyarrow as pa


# A comparison as people read it: text, markdown, HTML, LaTeX.

# Numbers of a comparison as texts for cells.


def number(value: float | None) -> str:
    """A value; a dash where there is none.

    >>> number(0.25), number(12345.678), number(None)
    ('0.2500', '12,345.7', '-')
    """
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"


def signed(value: float | None) -> str:
    """A difference, with its sign.

    >>> signed(0.25), signed(-12345.678), signed(None)
    ('+0.2500', '-12,345.7', '-')
    """
    if value is None:
        return "-"
    return f"{value:+.4f}" if abs(value) < 1000 else f"{value:+,.1f}"


def coverage(rows: Sequence[Row], level: float) -> str:
    """In percent, what the intervals of a table or picture cover, adjusted as p is.

    Args:
        rows: Of one family of tests, which share their coverage.
        level: Of an interval that is looked at by itself.

    >>> coverage([{"ci_level": 0.98333333}], 0.95), coverage([{"ci_level": None}], 0.95)
    ('98.33', '95')
    """
    adjusted = (row["ci_level"] for row in rows if row.get("ci_level"))
    return f"{100 * next(adjusted, level):.4g}"


def p_value(p: float, level: float) -> str:
    """A p-value, on its side of 1 - level.

    >>> p_value(0.0000001, 0.95), p_value(0.0321, 0.95), p_value(0.04998, 0.95)
    ('p < 0.001', 'p = 0.032', 'p = 0.04998')
    """
    text = probability(p, level, decimals=3)
    return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"


# Results that are rows with a contract of columns, in the forms that programs take.


class Rows(Tabular, ABC):
    """Rows; a subclass says what its columns mean, and how people read them.

    Attributes:
        rows: The rows, which may have more keys than columns.
    """

    rows: tuple[Row, ...]
    _is_drawn: ClassVar[bool] = True

    @abstractmethod
    def _kinds(self) -> Kinds:
        """Column -> its type, as Arrow spells it."""

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[Row]:
        """The rows as a list of dicts."""
        return [{name: row[name] for name in self._kinds()} for row in self.rows]

    def _arrow_tables(self) -> ArrowTables:
        return arrow_tables([self.rows], {"rows": self._kinds()})


def block(row: Row) -> tuple[str, str, str]:
    """What rows have in common that stand below one heading."""
    return row["system"], row["segment_name"], row["segment_value"]


def segment_text(row: Row) -> str:
    """The segment of a row, like `country=DE`; empty for all queries."""
    if row["segment_name"] == "all":
        return ""
    return f"{row['segment_name']}={value_text(row['segment_value'])}"


def of_segment(name: str, value: str) -> str:
    """The end of a heading: the segment; empty for all queries."""
    return "" if name == "all" else f", {segment_cell(name, value)}"


# What the means over all queries hide: the segment that is worse, and moves most queries farthest.
#
# `report`, `compare` of a spec and `diagnose` tell it by the same choice.

MOVED = ("better", "worse")
"""Verdicts of what moved."""


def leading_row(overall: Sequence[Row]) -> Row | None:
    """The first metric of a system that moved; else the first one."""
    moved = (row for row in overall if row["verdict"] in MOVED)
    return next(moved, overall[0] if overall else None)


def worst_slice(slices: Sequence[Row], metric: str) -> Row | None:
    """The slice of a system that is worse, and moves most queries farthest; None if none is."""
    worse = [row for row in slices if row["metric"] == metric and row["verdict"] == "worse"]
    return farthest(worse)


def farthest(rows: Sequence[Row]) -> Row | None:
    """The row that moves most queries farthest."""
    return max(rows, key=lambda row: abs(row["difference"]) * row["n"], default=None)


def segment_of(row: Row) -> str:
    """A slice as people read it."""
    return f"{row['segment_name']} = {value_text(row['segment_value'])}"


def worst_slices(rows: Sequence[Row]) -> Iterator[Row]:
    """For each system that is worse in a slice, the row of it.

    Args:
        rows: All rows of a comparison, those over all queries first, with verdicts.
    """
    for system in dict.fromkeys(row["system"] for row in rows):
        system_rows = [row for row in rows if row["system"] == system]
        leading = leading_row([row for row in system_rows if row["segment_name"] == ALL])
        slices = [row for row in system_rows if row["segment_name"] != ALL]
        worst = worst_slice(slices, leading["metric"]) if leading else None
        if worst is not None:
            yield worst


def describe_slice(row: Row, level: float, counted: str) -> str:
    """A slice that is worse, in words.

    Args:
        row: Its row.
        level: The coverage of a single interval.
        counted: What `n` counts, several.
    """
    covered = coverage([row], level)
    ends = f"{covered} % interval {signed(row['ci_low'])} to {signed(row['ci_high'])}"
    return (
        f"{printable(row['system'])} is worse than {printable(row['baseline'])} for "
        f"{segment_of(row)}: {row['metric']} "
        f"{number(row['baseline_value'])} → {number(row['value'])} ({signed(row['difference'])}; "
        f"{ends}, {p_value(row['p_adjusted'], level)}, {row['n']:,} {counted})"
    )


SUMMED = ("rate", "mix", "contribution")

CONTRIBUTION = (
    "contribution: the part of the difference that comes from the slice; those of a segment "
    "add up to the whole"
)
DETECTABLE = "detectable: the smallest difference that this much data would detect with 80 % power"
SHRUNK = (
    "shrunk: the difference, pulled towards that of all queries (of a query, towards 0) by as "
    "much as it may be noise"
)
MIX = (
    "rate: the part from changed values. mix: the part from changed shares of the queries, which "
    "differ between the systems"
)

MOVERS = (
    "moved most: ranked by the shrunk difference times the traffic. could be noise: chance alone "
    "moves a query as far, with the probability of the interval"
)


def text(comparison: Comparison) -> str:
    """Tables that fit 80 columns, a block a system and segment; then what they mean."""
    if comparison.all_pairs:
        boards = [board.text() for board in _boards(comparison)]
        return "\n\n".join([*boards, "\n".join(footer(comparison))])
    blocks = []
    for (system, name, value), rows in groupby(comparison.rows, block):
        against = f"{printable(system)} against {printable(comparison.baseline)}"
        title = f"{against}{of_segment(name, value)}"
        blocks.append("\n".join([folded(title), "", *_tables(comparison, list(rows))]))
    return "\n\n".join(
        [
            *blocks,
            *(table.text() for table in sections(comparison)),
            "\n".join(footer(comparison, shows_detectable=True)),
        ]
    )


def _boards(comparison: Comparison) -> Iterator[Table]:
    """Each leaderboard of all pairs."""
    for row, standings in leaderboards(comparison.rows):
        segment = of_segment(row["segment_name"], row["segment_value"])
        title = f"{printable(row['metric'])}{segment}: {len(standings)} systems, best first"
        cells = [
            [
                printable(standing.system),
                standing.group,
                number(standing.value),
                str(standing.n_better),
            ]
            for standing in standings
        ]
        yield Table(["system", "group", "mean", "better than"], cells, 2, title)


def _tables(comparison: Comparison, rows: list[Row]) -> Iterator[str]:
    interval = f"{coverage(rows, comparison.level)} % interval"
    names = ["metric", "baseline", "value", "difference", interval, "p", "verdict"]
    cells = [
        [
            printable(row["metric"]),
            number(row["baseline_value"]),
            number(row["value"]),
            signed(row["difference"]),
            _interval(row),
            p_text(row["p_adjusted"], comparison.level),
            row["verdict"],
        ]
        for row in rows
    ]
    yield from _fitted(names, cells)
    yield ""
    counts = _counts(rows, comparison.counted[1])
    names = ["metric", "relative", *counts, "effect", "detectable", *_adjusted(rows)]
    cells = [
        [
            printable(row["metric"]),
            _percent(row["relative"]),
            *(_count(row[name]) for name in counts.values()),
            "-" if row["effect_size"] is None else f"{row['effect_size']:+.2f}",
            number(row["smallest_detectable"]),
            *(_percent(-row[name] if row[name] else None) for name in _adjusted(rows).values()),
        ]
        for row in rows
    ]
    yield from _fitted(names, cells)
    yield ""
    for row in rows:
        yield folded(row["sentence"])


def _counts(rows: Sequence[Row], counted: str) -> dict[str, str]:
    """Heading -> column, of what is counted: of pairs, who wins."""
    if any(row["wins"] is not None for row in rows):
        return {counted: "n"} | {name: name for name in ("wins", "ties", "losses")}
    return {counted: "n", "of baseline": "n_baseline"}


def _adjusted(rows: Sequence[Row]) -> dict[str, str]:
    """Heading -> column of what a covariate gained, where there is one."""
    is_there = any(row["variance_reduction"] is not None for row in rows)
    return {"variance": "variance_reduction"} if is_there else {}


def _fitted(names: list[str], cells: list[list[str]]) -> Iterator[str]:
    """The lines of a table; where they would be too long, a metric stands above its numbers."""
    table = Table(names, cells, 1)
    lines = table.text(full_width=True).splitlines()
    bare = Table(["", *names[1:]], [["", *numbers] for _, *numbers in cells], 1)
    head, *rows = bare.text(full_width=True).splitlines()
    if max(map(len, lines)) <= line_width():
        yield from lines
    elif len(head) <= line_width():
        yield head
        for (metric, *_), row in zip(cells, rows, strict=True):
            yield from (metric, row)
    else:
        yield table.text()


def footer(comparison: Comparison, *, shows_detectable: bool = False) -> list[str]:
    """What a reader must know to trust the numbers, in lines of texts."""
    footnotes = notes(comparison, shows_detectable=shows_detectable)
    return list(map(folded, footnotes))


def notes(comparison: Comparison, *, shows_detectable: bool = False) -> list[str]:
    """What a reader must know to trust the numbers.

    Args:
        comparison: The comparison.
        shows_detectable: Whether the tables have the column `detectable`.
    """
    by_segment = any(row["segment_name"] != "all" for row in comparison.rows)
    p = f"p: the p-value of {comparison.test}, adjusted by Holm over metrics and systems"
    if comparison.all_pairs:
        n_pairs = len({(row["system"], row["baseline"]) for row in comparison.rows})
        p = (
            f"p: the p-value of {comparison.test}, adjusted by Holm over metrics and "
            f"{many(n_pairs, 'pair')}"
        )
    p += ", by Benjamini and Hochberg over segments" if by_segment else ""
    adjusted = "variance: how much the covariate changed the variance of the difference"
    worse = (
        describe_slice(row, comparison.level, comparison.counted[1])
        for row in comparison.worse_slices
    )
    if comparison.all_pairs:
        level = f"{1 - comparison.level:g}"
        groups = (
            f"group: systems that share a letter do not differ (adjusted p is not below {level})"
        )
        pairs = "each pair and its interval: -o csv, -o json, to_pandas()"
        noted = (f"note: {note}" for note in comparison.notes)
        return [
            groups,
            p + (", by Benjamini and Hochberg over segments" * by_segment),
            pairs,
            *noted,
        ]
    return [
        *(f"in a segment: {sentence}" for sentence in worse),
        p,
        f"interval: by {comparison.interval}, for the difference of the means"
        + _coverages(comparison),
        *([DETECTABLE] if shows_detectable else []),
        *([adjusted] if _adjusted(comparison.rows) else []),
        *section_notes(comparison),
        *(f"note: {note}" for note in comparison.notes),
    ]


def _coverages(comparison: Comparison) -> str:
    """What intervals cover where that is more than was asked, since several are tested."""
    rows = [row for row in comparison.rows if row["ci_level"]]
    if all(row["ci_level"] == comparison.level for row in rows):
        return ""
    overall = [row for row in rows if row["segment_name"] == "all"]
    slices = [row for row in rows if row["segment_name"] != "all"]
    coverages = [
        f"{coverage(family, comparison.level)} %" for family in (overall, slices) if family
    ]
    return f", at {', of segments '.join(coverages)} each, adjusted like p"


def comparison_table(comparison: Comparison) -> Table:
    """All rows as one table."""
    if comparison.all_pairs:
        boards = [*_boards(comparison)]
        standings = [[b.title.partition(":")[0], *row] for b in boards for row in b.rows]
        return Table(["metric", *boards[0].columns], standings, 3)
    rows = comparison.rows
    keys: dict[str, Callable[[Row], str]] = {"metric": lambda row: printable(row["metric"])}
    if len({row["system"] for row in rows}) > 1:
        keys["system"] = lambda row: printable(row["system"])
    if any(row["segment_name"] != "all" for row in rows):
        keys["segment"] = lambda row: segment_cell(row["segment_name"], row["segment_value"])
    counts, adjusted = _counts(rows, comparison.counted[1]), _adjusted(rows)
    numbers: dict[str, Callable[[Row], str]] = {
        printable(comparison.baseline): lambda row: number(row["baseline_value"]),
        _title(comparison): lambda row: number(row["value"]),
        "difference": lambda row: signed(row["difference"]),
        _interval_title(comparison): _interval,
        f"p ({comparison.test})": lambda row: p_text(row["p_adjusted"], comparison.level),
        " / ".join(counts): lambda row: " / ".join(_count(row[name]) for name in counts.values()),
        **{title: lambda row: _percent(-(row["variance_reduction"] or 0)) for title in adjusted},
        "verdict": lambda row: str(row["verdict"]),
    }
    formatters = [*keys.values(), *numbers.values()]
    cells = [[formatter(row) for formatter in formatters] for row in rows]
    return Table([*keys, *numbers], cells, len(keys))


def _interval_title(comparison: Comparison) -> str:
    """With the coverage, if that of all queries is that of segments too."""
    coverages = {row["ci_level"] for row in comparison.rows if row["ci_level"]}
    if len(coverages) > 1:
        return "interval"
    return f"{coverage(comparison.rows, comparison.level)} % interval"


def _title(comparison: Comparison) -> str:
    systems = {row["system"] for row in comparison.rows}
    return printable(systems.pop()) if len(systems) == 1 else "value"


def markdown(comparison: Comparison) -> str:
    """GitHub tables."""
    tables = [comparison_table(comparison), *sections(comparison)]
    below = markdown_notes(notes(comparison))
    return "\n\n".join([*(table.markdown() for table in tables), below])


def html(comparison: Comparison) -> str:
    """Tables for a notebook."""
    tables = [comparison_table(comparison), *sections(comparison)]
    return "".join(table.html() for table in tables) + html_notes(notes(comparison))


def latex(comparison: Comparison) -> str:
    """A `tabular` for a paper, by booktabs."""
    with for_file():
        return replace(comparison_table(comparison), notes=footer(comparison)).latex()


def p_text(p_value: float | None, level: float) -> str:
    """A p-value for a cell, on its side of 1 - level."""
    return "-" if p_value is None else probability(p_value, level)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %"


def _interval(row: Row) -> str:
    if row["ci_low"] is None:
        return "-"
    return f"{signed(row['ci_low'])} to {signed(row['ci_high'])}"


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
        title = f"contributions of {segment}: {' against '.join(systems)}"
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
        names = ["", "moved", "query", "noise", before, after, "difference", "shrunk", "traffic"]
        cells = [_mover(rank, row) for rank, row in enumerate(group_rows, 1)]
        title = f"the queries that moved {printable(metric)} most: {after} against {before}"
        yield Table(names, cells, 4, title)
        for rank, row in enumerate(group_rows, 1):
            day = f", on {row['metric_date']}" if row["metric_date"] else ""
            title = (
                f"{rank}. {_query_title(row)}: {printable(metric)} {signed(row['difference'])}{day}"
            )
            names = ["rank", before, "grade", after, "grade"]
            yield Table(names, _side_by_side(row), title=title)


def _mover(rank: int, row: Row) -> list[str]:
    return [
        str(rank),
        row["moved"],
        _query_title(row),
        "could be" if row["could_be_noise"] else "",
        number(row["baseline_value"]),
        number(row["value"]),
        signed(row["difference"]),
        signed(row["shrunk_difference"]),
        f"{row['traffic']:,.10g}",
    ]


def _query_title(row: Row) -> str:
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
        value_text(row["segment_value"]),
        n,
        share,
        *(signed(row[name]) for name in ("difference", "shrunk_difference")),
        *(signed(row[name]) for name in ("rate", "mix") if mix),
        signed(row["contribution"]),
    ]


def section_notes(comparison: Comparison) -> list[str]:
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


# The result of a comparison: its rows, and how they are read.

SIDES = ("system", "baseline")
"""The columns of what is compared with what."""

KINDS = {
    **dict.fromkeys(("metric", "system", "baseline", "segment_name", "segment_value"), "string"),
    **dict.fromkeys(
        ("value", "baseline_value", "difference", "relative", "relative_low", "relative_high"),
        "double",
    ),
    **dict.fromkeys(("standard_error", "ci_low", "ci_high"), "double"),
    **dict.fromkeys(("ci_level", "p_value", "p_adjusted"), "double"),
    "test": "string",
    **dict.fromkeys(("n", "n_baseline", "wins", "ties", "losses"), "int64"),
    **dict.fromkeys(("effect_size", "smallest_detectable", "variance_reduction"), "double"),
    **dict.fromkeys(("n_system_only", "n_baseline_only"), "int64"),
    "verdict": "string",
    "sentence": "string",
}
"""Column -> its type."""

CONTRIBUTION_KINDS = {
    **dict.fromkeys(("metric", "system", "baseline", "segment_name", "segment_value"), "string"),
    **dict.fromkeys(("n", "n_baseline"), "int64"),
    **dict.fromkeys(("share", "baseline_share", "value", "baseline_value"), "double"),
    **dict.fromkeys(("difference", "shrunk_difference"), "double"),
    **dict.fromkeys(("contribution", "rate", "mix"), "double"),
}

MOVER_KINDS = {
    **dict.fromkeys(("metric", "system", "baseline", "moved", "query_id", "query_text"), "string"),
    "metric_date": "date32",
    "n": "int64",
    **dict.fromkeys(("traffic", "value", "baseline_value"), "double"),
    **dict.fromkeys(("difference", "shrunk_difference"), "double"),
    "could_be_noise": "bool",
}


@dataclass(frozen=True, repr=False)
class Comparison(Rows):
    """Systems against a baseline; it prints as tables and sentences, also in a notebook.

    Iterate over it for its rows. `comparison["ndcg@10"]` is the row of a metric if one system was
    compared, `comparison["ndcg@10", "cand"]` that of one of several systems.

    Attributes:
        rows: One row per system, segment and metric, in this order; see `to_arrow` for their keys.
        baseline: The system that the others are compared with.
        level: The confidence level of a single interval; adjusted p-values are compared with 1 -
            level.
        margin: The largest difference that does not matter.
        test: The name of the test.
        interval: The method of the intervals.
        cluster: The column whose values are drawn together; None if each row is a query.
        notes: Sentences that a reader should know.
        executed_sql: The statements that ran.
        contributions: One row per metric, system, segment and slice: how much the slice adds to the
            difference; empty unless asked for.
        movers: The queries that moved most, one row per metric, system and query, with both lists;
            empty unless asked for.
        worse_slices: For each system that is worse in a segment, the row of the slice with the
            largest loss (difference times queries) in the first metric that moved.
        counted: What `n` counts, in the singular and the plural.
        lost: The queries that lost most, one row per metric, system and query, if the comparison is
            a gate.
        spec: The name of the compared spec; empty if there is none.
        days: The chosen days, such as `from 2026-01-01`; empty for all days.
        all_pairs: Whether every pair of systems is compared, instead of each with a baseline.
        preset: The preset of the metrics; `comparison[...]` also takes its tool's names.
    """

    rows: tuple[Row, ...]
    baseline: str
    level: float
    margin: float
    test: str
    interval: str
    cluster: str | None
    notes: tuple[str, ...]
    executed_sql: str
    contributions: tuple[Row, ...] = ()
    movers: tuple[Row, ...] = ()
    worse_slices: tuple[Row, ...] = ()
    counted: tuple[str, str] = QUERIES
    lost: tuple[Row, ...] = ()
    spec: str = ""
    days: str = ""
    preset: str = "house"
    all_pairs: bool = False

    def _kinds(self) -> dict[str, str]:
        return KINDS

    def __getitem__(self, key: str | tuple[str, ...]) -> Row:
        """The row of a metric over all queries.

        Args:
            key: The metric, in any spelling; of several systems with one, like
                `comparison["ndcg@10", "cand"]`; of all pairs with both.

        Raises:
            KeyError: If there is none, or more than one: the message says which.
        """
        text, *sides = (key,) if isinstance(key, str) else key
        metric = self._metric(text)
        overall = [row for row in self.rows if row["segment_name"] == "all"]
        metric_rows = [row for row in overall if row["metric"] == metric]
        rows = [
            row
            for row in metric_rows
            if all(name == row[side] for side, name in zip(SIDES, sides, strict=False))
        ]
        if len(rows) == 1:
            return rows[0]
        several = len({row["baseline"] for row in metric_rows}) > 1
        columns = SIDES if several else SIDES[:1]
        known_keys = list(
            dict.fromkeys(", ".join(repr(row[c]) for c in columns) for row in metric_rows)
        )
        pair = ", ".join(map(repr, sides))
        problem = "several rows" if rows else f"no row of {pair}"
        raise KeyError(
            f"{metric} has {problem}: name one of its {len(known_keys)}, like "
            f"comparison[{metric!r}, {known_keys[0]}]; known: {'; '.join(known_keys)}"
        )

    def _metric(self, text: str) -> str:
        """A metric as the rows have it.

        Raises:
            KeyError: If no row is of it.
        """
        metrics = {row["metric"] for row in self.rows}
        for name in (text, text.casefold()):
            if name in metrics:
                return name
        with suppress(SpecError):
            for spelling in in_our_words(text, self.preset):
                if (canonical := str(parse(spelling))) in metrics:
                    return canonical
        raise KeyError(unknown("metric", text, metrics))

    def raise_if(self, fail_on: FailOn = "worse") -> None:
        """Raise an error if any row, of any system and segment, has an unwanted verdict.

        Args:
            fail_on: `worse`; `unclear`, which means worse or unclear; or `not-better`.

        Raises:
            CheckError: If there is such a row. The text has the numbers of each, and the queries
                that lost most if `compare` was given `fail_on` or `movers`.
            SpecError: If `fail_on` is another word, or every pair was compared: a gate needs a
                baseline.
        """
        check_fail_on(fail_on)
        check_has_baseline(self, "a gate")
        if failures := [self._failure(row) for row in self.rows if fails(row, fail_on)]:
            raise CheckError(failures, self)

    def _failure(self, row: Row) -> Failure:
        lost_queries = (
            mover
            for mover in self.lost or (m for m in self.movers if m["moved"] == LOST)
            if (mover["metric"], mover["system"], mover["baseline"])
            == (row["metric"], row["system"], row["baseline"])
        )
        is_of_all = row["segment_name"] == "all"
        return Failure(
            rule=row["verdict"],
            metric=row["metric"],
            spec=self.spec,
            when=self.days,
            system=row["system"],
            segment=segment_text(row),
            value=row["value"],
            against=row["baseline"],
            compared=row["baseline_value"],
            change=None if row["difference"] is None else self._change(row),
            n=row["n"],
            counted=self.counted,
            lost=[Lost.of(mover) for mover in lost_queries] if is_of_all else (),
        )

    def _change(self, row: Row) -> Change:
        return Change(
            row["difference"],
            row["ci_low"],
            row["ci_high"],
            row["ci_level"] or self.level,
            row["p_adjusted"],
            self.level,
        )

    def _arrow_tables(self) -> ArrowTables:
        movers = (
            row | {"metric_date": row["metric_date"] and day_of(row["metric_date"])}
            for row in self.movers
        )
        schemas = {"rows": KINDS, "contributions": CONTRIBUTION_KINDS, "movers": MOVER_KINDS}
        return arrow_tables([self.rows, self.contributions, movers], schemas)

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """The rows as an Arrow table; others are `contributions` and, without lists, `movers`.

        `difference` is `value` minus `baseline_value`: means over the `n` queries of both systems,
        or, unpaired, over the `n` and `n_baseline` queries of each; wins, ties and losses are NULL
        then. `relative` is the difference divided by the baseline's value, NULL if that is 0;
        `relative_low` and `relative_high` bound it where each side has its own queries, by the
        delta method on the logarithm of the ratio of both means, and are NULL where one is not
        above 0.
        `p_value` is that of the test; `p_adjusted` is adjusted by Holm over metrics and systems, or
        by Benjamini and Hochberg over segments; both are NULL with fewer than two queries. `ci_low`
        and `ci_high` bound the difference at the level `ci_level`, which is adjusted in the same
        way: with the t-test the interval excludes 0 exactly if `p_adjusted` is below 1 - level.
        `smallest_detectable` is the difference that this much data would detect with 80 % power at
        that level.
        """
        return super().to_arrow(table)

    def text(self) -> str:
        """Tables that fit 80 columns, and what they mean."""
        return text(self)

    def markdown(self) -> str:
        """GitHub tables, and what they mean."""
        return markdown(self)

    def latex(self) -> str:
        """A `tabular` for a paper, by booktabs."""
        return latex(self)

    def html(self) -> str:
        """Tables for a page, and what they mean."""
        return html(self)


def fails(row: Row, fail_on: FailOn) -> bool:
    """Whether a gate does not let a row through."""
    return row["verdict"] in FAIL_ON[fail_on]


def check_has_baseline(comparison: Comparison, feature: str) -> None:
    """Raise SpecError for what needs a baseline where every pair was compared."""
    if comparison.all_pairs:
        raise SpecError(
            f"{feature} needs a baseline, but all_pairs compares every system with every other; "
            "leave out all_pairs"
        )


def check_interval(level: float, margin: float) -> None:
    """Raise SpecError for a level or margin out of range."""
    check_level("the confidence level", level)
    if not (is_number(margin) and margin >= 0):
        raise SpecError(f"the margin must be 0 or more, in the unit of the metrics, given {margin}")
