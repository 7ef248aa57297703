"""Strata of pairs by depth: the best ranks that lists show an item at, each with a sampling rate.

As for the pools of TREC: the top of all lists is graded whole, and a share of what is deeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor

from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.sql.template import literal

RANKS = "ranks"
"""The column of a sample that says from which ranks a pair was drawn, like `11-100`."""

_BAND = re.compile(r"([1-9]\d*)-([1-9]\d*)")


@dataclass(frozen=True)
class RankBands:
    """Ranges of ranks, the best first.

    Attributes:
        bands: The first and the last rank of each.
    """

    bands: tuple[tuple[int, int], ...] = ()

    @classmethod
    def until(cls, ranks: Iterable[int]) -> RankBands:
        """The ranges that end at some ranks.

        >>> RankBands.until([100, 10]).names
        ('1-10', '11-100')
        """
        ends = sorted(ranks)
        return cls(tuple(zip([1, *(end + 1 for end in ends)], ends, strict=False)))

    @classmethod
    def named(cls, names: Iterable[str]) -> RankBands:
        """The ranges of some names, for each of which `is_band` holds."""
        ends = (name.partition("-") for name in {*names})
        return cls(tuple(sorted((int(first), int(last)) for first, _, last in ends)))

    @property
    def names(self) -> tuple[str, ...]:
        """What the ranges are called."""
        return tuple(f"{first}-{last}" for first, last in self.bands)

    def of(self, column: str) -> str:
        """The name of the range that a rank is in, as SQL."""
        whens = [
            f"    when {column} between {first} and {last} then {literal(name)}"
            for (first, last), name in zip(self.bands, self.names, strict=True)
        ]
        return "\n".join(["case", *whens, "end"])


def is_band(name: str) -> bool:
    """Whether a text is the name of a range of ranks.

    >>> is_band("11-100"), is_band("11"), is_band("7-3")
    (True, False, False)
    """
    match = _BAND.fullmatch(name)
    return match is not None and int(match[1]) <= int(match[2])


def check_rates(rates: Mapping[int, float]) -> None:
    """Raise SpecError for a last rank or a share that is none."""
    for rank, share in rates.items():
        check_count("the rank of a rate", rank)
        if not 0 < share <= 1:
            raise SpecError(
                f"the rate down to rank {rank} must be a share above 0 and up to 1, like 0.2, "
                f"given {share:g}"
            )


def drawn(rates: Mapping[int, float], name: str, population: int, least: int) -> int:
    """How many pairs of a range are drawn: its share, rounded, but so many at least."""
    share = rates[int(name.rpartition("-")[2])]
    return max(min(least, population), floor(share * population + 0.5))
