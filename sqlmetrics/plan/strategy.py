"""Which physical plan carries out an evaluation: by what metrics need and the data offers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.ranking import (
    CountedScores,
    GivenRanks,
    ShownRanks,
    SortedLists,
    WindowRanking,
)
from sqlmetrics.plan.shape import Shape

WINDOW, LISTS, COUNTS, RANKS, SHOWN = "window", "lists", "counts", "ranks", "shown"
PLANS = {
    WINDOW: "one window function over every row; works on all databases",
    LISTS: "finds the place of each labelled item among the sorted scores of its list; DuckDB only",
    COUNTS: "counts the better scores in the list of each labelled item; DuckDB only",
    RANKS: "takes the ranks of the input, verified by the input checks; DuckDB only",
    SHOWN: "takes the shown positions of a click log; DuckDB only",
}
"""The physical plans, and what they do."""

USUAL = 128
"""How many items a list is taken to have where it was not measured; and so many labels."""

FEW = 2
"""Up to so many labels a list, better scores are counted in less time than all are sorted."""

SHORTEST = 16
"""Lists are made for so many items at least."""

LONGEST = 1024
"""Sorted lists beyond this many items cost more than a window."""

MANY_TIES = 0.5
"""The share of lists with equal scores from which on a window is cheaper."""


@dataclass(frozen=True)
class TableStatistics:
    """What was measured of the rankings, on their first rows.

    Attributes:
        longest: The most items of a list.
        usual: The mean.
        tied: The share of lists with equal scores.
        labels: How many labels above or below 0 a query has, on average.
        most: And at most.
        scattered: Whether the items of a list lie all over the file.
    """

    longest: int = USUAL
    usual: float = USUAL
    tied: float = 0.0
    labels: float = USUAL
    most: int = USUAL
    scattered: bool = False

    def __str__(self) -> str:
        return (
            f"lists of up to {self.longest:,} items, {self.tied:.0%} of them with equal scores, "
            f"{self.labels:.3g} labels above or below 0 a query"
            f"{', in rows that are scattered' * self.scattered}"
        )


@dataclass(frozen=True)
class Strategy:
    """A physical plan.

    Attributes:
        name: One of `PLANS`.
        why: Why this one.
        longest: For `lists`: the last rank that is told.
        most: For `lists`: how many relevant items of a list are told apart at most.
        suspects: What rows of the rankings meet that break a rule, where the plan looks for
            them, for repeated items and for gaps in ranks on the way.
        gathers: Whether it brings the items of a list together first. That pays off where
            hashes of all items are kept too: each list that is kept takes a jump in memory
            for every row, if the rows are scattered.
    """

    name: str
    why: str
    longest: int = 0
    most: int = 0
    suspects: str = ""
    gathers: bool = False

    def ranking(self, shape: Shape, needs: Needs, rankings: str, labels: str) -> WindowRanking:
        """What makes the stage `ranked`."""
        if self.name == WINDOW:
            return WindowRanking(shape, needs, rankings, labels)
        kind = {
            LISTS: SortedLists,
            COUNTS: CountedScores,
            RANKS: GivenRanks,
            SHOWN: ShownRanks,
        }[self.name]
        screened = bool(self.suspects)
        limits = (self.longest, self.most, screened, self.gathers)
        return kind(shape, needs, rankings, labels, *limits)

    def bytes_a_row(self, measured: TableStatistics, needs: Needs) -> float:
        """About how much memory a row of the rankings takes."""
        sorted_lists = {
            LISTS: self.longest + 1 + len(needs.rows.running_hits) * (self.most + 1),
            COUNTS: measured.usual,
        }
        labelled, hashes = 16, 8 if self.suspects else 0
        return 8 * sorted_lists.get(self.name, 0) / max(1, measured.usual) + labelled + hashes

    def __str__(self) -> str:
        return f"{self.name} ({PLANS[self.name]}), since {self.why}"


PORTABLE = Strategy(WINDOW, "it is the same on every database")


def choose(
    shape: Shape,
    needs: Needs,
    measured: TableStatistics | None = None,
    name: str | None = None,
    suspects: str = "",
) -> Strategy:
    """The plan that fits.

    Args:
        shape: What the tables hold.
        needs: What the metrics need.
        measured: What was measured of the tables, to choose by; without it, the portable one.
        name: The plan that was asked for; None for the fastest, where something was measured.
        suspects: What rows of the rankings meet that break a rule, if a plan that can shall
            look for them on the way.

    Raises:
        SpecError: If there is no such plan, or it would give wrong numbers.
    """
    if name is not None and name not in PLANS:
        raise SpecError(unknown("plan", name, PLANS))
    if name == WINDOW or (name is None and measured is None):
        return PORTABLE
    table_statistics = measured or TableStatistics()
    obstacles: list[str] = []
    for plan_name in [name] if name else (SHOWN, RANKS, COUNTS, LISTS):
        doubts = {RANKS: _doubts(shape, suspects), SHOWN: _unknown(shape)}.get(plan_name, ())
        costs = () if name else _costs(plan_name, needs, table_statistics)
        obstacles = [*_obstacles(shape, needs), *doubts, *costs]
        if not obstacles:
            reason = _WHY.get(plan_name) or f"there are {table_statistics}"
            most = _power(table_statistics.most)
            gathers = table_statistics.scattered and bool(suspects) and plan_name != SHOWN
            return Strategy(
                plan_name, reason, _last_rank(needs, table_statistics), most, suspects, gathers
            )
    if name:
        raise SpecError(f"the plan {name} cannot be used: {obstacles[0]}")
    return Strategy(WINDOW, obstacles[0])


def _obstacles(shape: Shape, needs: Needs) -> Iterator[str]:
    """Why lists of scores or ranks would not be enough."""
    if shape.translation.changes:
        yield f"{shape.translation.dialect.title} has no such lists"
    if needs.every_item:
        yield f"{needs.every_item} also counts items without a label"
    if needs.pooled:
        yield f"{needs.pooled[0]} is a number for all lists together"
    if needs.reads_item or needs.reads_score or needs.label_columns:
        yield "a metric reads more of an item or a label than the grade"
    if needs.rows.has_ties:
        yield "ties=average needs every tie"
    if needs.rows.tied_rnk:
        yield "ties=include counts all items with the score of the k-th"
    if needs.rows.in_pool or needs.rows.best_above:
        yield "a metric needs each label above an item"
    yield from _uncounted(shape, needs)


def _uncounted(shape: Shape, needs: Needs) -> Iterator[str]:
    """Why some rows of a list do not count as the others do."""
    if shape.spec.options["depth"] != "none" or needs.leaves_out:
        yield "depth, min_score, unjudged=condensed and identical_ids=drop leave rows out"
    if shape.counts_repeats:
        yield "repeated items count, or keep their ranks"


def _doubts(shape: Shape, suspects: str) -> Iterator[str]:
    """Why ranks may not be what they were given as."""
    if "rank" not in shape.columns["rankings"]:
        yield "the rankings have no ranks"
    if not suspects:
        yield "the ranks must be in an integer column, and the input checks must run"


_WHY = {RANKS: "there are ranks", SHOWN: "most lists of the log are in order"}


def _unknown(shape: Shape) -> Iterator[str]:
    """Why positions of a click log would not be enough."""
    lists = shape.at.shown_lists
    if lists is None:
        yield "only a click log with labels of its own knows the shown ranks"
        return
    if missing_facts := [fact for fact in shape.segments["rankings"] if fact not in lists.facts]:
        yield f"the log tells no {missing_facts[0]} of a request without its impressions"


def _costs(name: str, needs: Needs, measured: TableStatistics) -> Iterator[str]:
    """Why a plan would cost more than another one."""
    if name == COUNTS and measured.labels > FEW:
        yield f"there are {measured}"
    if name == LISTS and _last_rank(needs, measured) > LONGEST:
        yield f"there are {measured}"
    if name not in _WHY and measured.tied > MANY_TIES:
        yield f"there are {measured}"


def _last_rank(needs: Needs, measured: TableStatistics) -> int:
    """The deepest cutoff, or that of the longest list, with some room."""
    longest_list = _power(measured.longest)
    return min(longest_list, needs.sums["list_sums"].deepest or longest_list)


def _power(number: int) -> int:
    """The next power of two, for numbers that may be somewhat larger elsewhere."""
    return max(SHORTEST, 1 << (number - 1).bit_length())
