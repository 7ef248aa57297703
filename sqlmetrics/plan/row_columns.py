"""What ranked rows tell beyond grade and rank, as far as the metrics ask for it.

With ties=average a metric is the mean over all orders of equal scores. The metrics'
templates stay as they are: what they read of a row is replaced by what stands at its rank
on average. Of a tie group of n items with m relevant ones each rank holds a relevant item
with the chance m / n (McSherry and Najork 2008).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import indent

from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.stage import Column, Stage, Window
from sqlmetrics.sql.template import case

_IN_ONE_ORDER = ("ranked", "ranked_with_sums", "ranked_with_sums_of_sums")
"""The stages of rows in one order: each has sums over the rows above a row of the one before it."""


@dataclass(frozen=True)
class ItemWindow:
    """A column over the items of a list.

    Attributes:
        reads: The texts in which it reads columns of an item.
        sql: What it is, of the keys of a list.
    """

    reads: tuple[str, ...]
    sql: Callable[[Sequence[str]], str]


def in_middle(condition: str, value: str) -> ItemWindow:
    """1 for the one or two items whose value is in the middle of those that count, else 0.

    Of n values the one at place p is there if n <= 2 p <= n + 2.
    """

    def sql(keys: Sequence[str]) -> str:
        counted = " ".join(case(condition, "1", "0").split())
        ordered = Window([*keys, counted], [f"{value} asc", "rnk asc"])
        size = Window([*keys, counted])
        twice = f"2e0 * row_number() over {ordered}\n- count(*) over {size}\n- 1e0"
        middle = indent(f"{condition}\nand abs(\n{indent(twice, ' ' * 4)}\n) <= 1e0", " " * 8)
        return f"case\n    when {middle.lstrip()}\n        then 1\n    else 0\nend"

    return ItemWindow((condition, value), sql)


def share_of_group(weight: str, group: str) -> ItemWindow:
    """The share of a list's weights that its items of a group have; NULL if there are none."""

    def sql(keys: Sequence[str]) -> str:
        of_group, of_list = Window([*keys, group]), Window(keys)
        total, part = f"sum({weight}) over {of_list}", f"sum({weight}) over {of_group}"
        # no nullif: DuckDB 1.4 cannot plan one over a window
        return f"case\n    when {total} > 0e0\n        then {part}\n            / {total}\nend"

    return ItemWindow((weight, group), sql)


def place_in_group(group: str) -> ItemWindow:
    """Which item of its group one is in its list."""
    return ItemWindow(
        (group,), lambda keys: f"row_number() over {Window([*keys, group], ['rnk asc'])}"
    )


@dataclass
class RowColumns:
    """The columns of ranked rows; each is there once a metric asked for it.

    Attributes:
        in_order: Whether a metric reads the rows in the one order of the rule for ties.
        judged: Whether a row says if its item has a label.
        in_pool: Whether a row says if its item has a label, also one that counts as none.
        best_above: Whether a row knows the highest grade above it.
        tied_rnk: Whether a row knows the first rank of those with its score.
        running_hits: Name of a running count -> the condition of a hit.
        above: Name of a sum over the rows above a row -> what is summed, which may read others
            of these sums.
        means: Name of a mean over a tie group -> the value of a row.
        hits: Suffix of the columns about hits of a tie group -> the condition of a hit.
        expected: What follows from the tie groups: name -> the suffix of what it reads.
        windows: Name of a window over the items of a list -> what it is.
    """

    in_order: bool = False
    judged: bool = False
    in_pool: bool = False
    best_above: bool = False
    tied_rnk: bool = False
    running_hits: dict[str, str] = field(default_factory=dict)
    above: dict[str, str] = field(default_factory=dict)
    means: dict[str, str] = field(default_factory=dict)
    hits: dict[str, str] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)
    windows: dict[str, ItemWindow] = field(default_factory=dict)

    @property
    def has_ties(self) -> bool:
        """Whether tie groups are looked at."""
        return bool(self.means or self.hits)

    @property
    def stage(self) -> str:
        """The stage whose rows are summed."""
        if self.expected:
            return "expectations"
        return "tie_groups" if self.has_ties else self._in_one_order

    @property
    def _in_one_order(self) -> str:
        return _IN_ONE_ORDER[len(self._above_levels)]

    @property
    def _above_levels(self) -> list[dict[str, str]]:
        """The sums over rows above, and those that read such sums."""
        pattern = re.compile(rf"\b({'|'.join(self.above)})\b")
        levels: list[dict[str, str]] = [{}, {}]
        for name, value in self.above.items():
            levels[bool(pattern.search(value))][name] = value
        return [level for level in levels if level]

    def running(self, suffix: str, relevant: str) -> str:
        """The column that counts the relevant items down to a row."""
        name = f"hits_so_far{suffix}"
        self.running_hits[name] = relevant
        return name

    def sum_above(self, name: str, value: str) -> str:
        """The column that sums a value over the rows above a row, NULL for the first."""
        for known_name, known_value in self.above.items():
            if known_value == value:
                return known_name
        self.above[name] = value
        return name

    def mean(self, name: str, value: str) -> str:
        """The column of the mean of a value over the row's tie group."""
        self.means[f"mean_{name}"] = value
        return f"mean_{name}"

    def expected_hits(self, suffix: str, relevant: str) -> str:
        """The column that counts the relevant items down to a row that holds one, on average."""
        return self._expect("expected_hits", suffix, relevant)

    def chance_first(self, suffix: str, relevant: str) -> str:
        """The column of the chance that a row holds the first relevant item of its list."""
        return self._expect("chance_first", suffix, relevant)

    def _expect(self, name: str, suffix: str, relevant: str) -> str:
        self.hits[suffix] = relevant
        self.expected[f"{name}{suffix}"] = suffix
        return f"{name}{suffix}"

    def stages(
        self, ranked: Sequence[str], keys: Sequence[str], order: str, carried: Sequence[str]
    ) -> Iterator[Stage]:
        """The stages after `ranked` that tell what stands above a row, or there on average.

        Args:
            ranked: The columns of `ranked`.
            keys: What a list is identified by.
            order: What sorts it, before the rule for ties.
            carried: Columns of a list that later stages read.
        """
        down = Window(keys, ["rnk asc"], "unbounded preceding", "1 preceding")
        columns = [*ranked]
        about = "the ranked items, with sums over the items above each"
        for number, level in enumerate(self._above_levels):
            sums = [
                Column(_over(folded(f"sum({expression})"), str(down)), name)
                for name, expression in level.items()
            ]
            yield _chosen(
                _IN_ONE_ORDER[number + 1], about, [*columns, *sums], _IN_ONE_ORDER[number]
            )
            columns += level
            about = "the same, with sums over what these say of the items above each"
        if self.has_ties:
            yield from self._tie_stages(keys, order, carried)

    def _tie_stages(
        self, keys: Sequence[str], order: str, carried: Sequence[str]
    ) -> Iterator[Stage]:
        """The stages that tell what stands at a rank on average."""
        plain = ["grade", *["judged"] * self.judged, *["best_above"] * self.best_above]
        plain += ["tied_rnk"] * self.tied_rnk
        in_order = [*plain, *self.running_hits, *self.above] if self.in_order else []
        same = [*keys, *carried, "rnk", *in_order]
        columns = [*same, *self._tie_columns(keys, order)]
        yield _chosen(
            "tie_groups",
            "a row stands for all items with its score",
            columns,
            self._in_one_order,
        )
        if self.expected:
            columns = [*same, *self.means, *self._expected_columns(keys)]
            about = "the mean over all orders of equal scores, by rank"
            yield _chosen("expectations", about, columns, "tie_groups")

    def _tie_columns(self, keys: Sequence[str], order: str) -> Iterator[Column]:
        tie = f"(partition by {', '.join([*keys, order.split(maxsplit=1)[0]])})"
        down_to_tie = str(Window(keys, [order]))
        for name, value in self.means.items():
            yield Column(_over(f"avg({value})", tie), name)
        if self.hits:
            yield Column(f"min(rnk) over {tie}", "tie_start")
            yield Column(f"cast(count(*) over {tie} as double)", "tie_size")
            yield Column(f"max(rnk) over {tie} - rnk + 1e0", "ranks_left")
        for suffix, relevant in self.hits.items():
            hits = f"sum({case(relevant, '1e0')})"
            yield Column(_over(hits, tie), f"tie_hits{suffix}")
            above = f"{_over(hits, down_to_tie)}\n    - {_over(hits, tie)}"
            yield Column(above, f"hits_above{suffix}")

    def _expected_columns(self, keys: Sequence[str]) -> Iterator[Column]:
        for name, suffix in self.expected.items():
            if name.startswith("chance_first"):
                yield Column(_chance_first(suffix, keys), name)
            else:
                yield Column(_expected_hits(suffix), name)


def _chosen(name: str, about: str, columns: Sequence[object], table: str) -> Stage:
    view = {"columns": columns, "from": table, "about": about, "where": ""}
    return Stage(name, "columns", view)


def _over(value: str, window: str) -> str:
    """A window function, on two lines where one is too long."""
    line = value.rsplit("\n", 1)[-1] + " over " + window.split("\n", 1)[0]
    if len(line) <= 62:
        return f"{value} over {window}"
    inner = window.replace("\n", "\n    ")
    return f"{value}\n    over {inner}"


def _expected_hits(suffix: str) -> str:
    """Those above the tie group, the row itself, and its share of the group's others."""
    return (
        f"hits_above{suffix} + 1e0\n"
        f"    + (tie_size - ranks_left) * (tie_hits{suffix} - 1e0)\n"
        "    / case when tie_size > 1e0 then tie_size - 1e0 else 1e0 end"
    )


def _chance_first(suffix: str, keys: Sequence[str]) -> str:
    """None above the tie group, none at its ranks so far, and one of what is left here."""
    hits, above = f"tie_hits{suffix}", f"hits_above{suffix}"
    before = Window([*keys, "tie_start"], ["rnk asc"], "unbounded preceding", "1 preceding")
    none_before = str(before).replace("\n", "\n    ")
    return (
        f"case when {above} = 0e0 and {hits} > 0e0 and {hits} <= ranks_left\n"
        f"    then {hits} / ranks_left * exp(coalesce(sum(\n"
        f"        case when {hits} < ranks_left\n"
        f"            then ln(1e0 - {hits} / ranks_left)\n"
        "            else 0e0\n"
        "        end\n"
        f"    ) over {none_before}, 0e0))\n"
        "    else 0e0\n"
        "end"
    )
