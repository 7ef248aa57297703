"""Every pair of systems, adjusted for all together; groups of systems that do not differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.comparison import findings
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.summary import ALL
from sqlmetrics.tables.tabular import Row

Find = Callable[[Pairing], findings.Sums]
"""What finds the sums of a baseline and its systems."""

DIFFERENT = ("better", "worse")
"""The verdicts of a pair that differs."""


def check_all_pairs(options: Options, *, stored: bool) -> None:
    """Raise SpecError for what needs a baseline.

    Args:
        options: What is asked.
        stored: Whether the baseline is an earlier run.
    """
    value_by_option = {
        "baseline": options.baseline,
        "baseline_values": stored,
        "movers": options.movers.count,
        "contributions": options.contributions,
        "fail_on": options.fail_on,
    }
    if conflicts := [name for name, value in value_by_option.items() if value]:
        raise SpecError(
            f"all_pairs compares every system with every other; leave out {', '.join(conflicts)}"
        )


def pair_rows(
    pairing: Pairing, options: Options, find: Find
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of every pair of systems, each once, and notes.

    Args:
        pairing: One system as the baseline, and all the others.
        options: What is asked.
        find: What finds the sums.
    """
    names = [pairing.baseline, *pairing.systems]
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for number, baseline in enumerate(names[:-1], 1):
        baseline_pairing = replace(pairing, baseline=baseline, systems=tuple(names[number:]))
        some_rows, some_notes = findings.undecided(
            baseline_pairing, options, find(baseline_pairing)
        )
        rows += some_rows
        notes += some_notes
    findings.decided(rows, options, findings.counted(pairing.plan.spec))
    return rows, list(dict.fromkeys(notes))


@dataclass(frozen=True)
class Standing:
    """A system in the order of a metric.

    Attributes:
        system: Its name.
        value: Its mean; None without one.
        group: Letters: two systems have one in common if and only if they do not differ.
        n_better: How many systems it is better than.
    """

    system: str
    value: float | None
    group: str
    n_better: int


def leaderboards(rows: Sequence[Row]) -> Iterator[tuple[Row, list[Standing]]]:
    """The systems in the order of each metric and segment, best first.

    Args:
        rows: Of all pairs.

    Yields:
        A row of the metric and segment, and the standings.
    """
    boards: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row["segment_name"], row["segment_value"], row["metric"])
        boards.setdefault(key, []).append(row)
    boards = dict(sorted(boards.items(), key=lambda board: board[0][0] != ALL))
    for pairs in boards.values():
        yield pairs[0], _standings(pairs)


def _standings(pairs: Sequence[Row]) -> list[Standing]:
    values: dict[str, float | None] = {}
    n_better: dict[str, int] = {}
    for row in pairs:
        for side, column in (("baseline", "baseline_value"), ("system", "value")):
            if values.get(row[side]) is None:
                values[row[side]] = row[column]
        if row["verdict"] in DIFFERENT:
            better = row["system"] if row["verdict"] == "better" else row["baseline"]
            n_better[better] = n_better.get(better, 0) + 1
    sign = -1 if pairs[0]["direction"] < 0 else 1
    order = sorted(
        values, key=lambda name: (values[name] is None, -sign * (values[name] or 0.0), name)
    )
    different = {
        frozenset((row["system"], row["baseline"])) for row in pairs if row["verdict"] in DIFFERENT
    }
    letters = group_letters(order, different)
    return [Standing(name, values[name], letters[name], n_better.get(name, 0)) for name in order]


def group_letters(order: Sequence[str], different: set[frozenset[str]]) -> dict[str, str]:
    """Letters of systems: two of them share one if and only if they do not differ.

    Source: Piepho, An algorithm for a letter-based representation of all-pairwise comparisons,
    Journal of Computational and Graphical Statistics 13 (2004): insert and absorb.

    Args:
        order: The systems, best first.
        different: Pairs that differ.

    >>> group_letters(["a", "b", "c"], {frozenset("ac")})
    {'a': 'a', 'b': 'ab', 'c': 'b'}
    """
    groups = [frozenset(order)]
    for pair in sorted(different, key=lambda names: sorted(map(order.index, names))):
        split = [group - {name} for group in groups if pair <= group for name in sorted(pair)]
        remaining = [group for group in groups if not pair <= group]
        for group in split:
            if not any(group <= existing for existing in remaining):
                remaining = [existing for existing in remaining if not existing <= group] + [group]
        groups = remaining
    ranks = {name: rank for rank, name in enumerate(order)}
    groups.sort(key=lambda group: sorted(ranks[name] for name in group))
    return {
        name: "".join(_letter(number) for number, group in enumerate(groups) if name in group)
        for name in order
    }


def _letter(number: int) -> str:
    """Letters a to z, then (27), (28) and so on."""
    return chr(ord("a") + number) if number < 26 else f"({number + 1})"
