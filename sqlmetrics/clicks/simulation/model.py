"""Click models: which results a user looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from types import MappingProxyType

STOP = "0.2e0 + 0.2e0 * one.grade"
"""How likely the cascade's user is content after a click."""


@dataclass(frozen=True)
class ClickModel:
    """Which results a user looks at, as SQL.

    Attributes:
        depth: The last position that is looked at, from what is known of a request.
        examined: Whether a result is looked at.
        propensity: How likely a position is looked at, NULL if that hangs on the list.
        looked_at: About how many of so many results are, at most.
    """

    depth: str
    examined: str
    propensity: str
    looked_at: Callable[[int], float]


MODELS: Mapping[str, ClickModel] = MappingProxyType(
    {
        "position": ClickModel(
            depth="len(lists.results)",
            examined="chance('look', draw, position) < 1e0 / position",
            propensity="1e0 / position",
            looked_at=lambda results: 1 + log(results),
        ),
        # The first click that would content the user is the last result looked at: what
        # would be clicked further down changes nothing, so no row waits for another.
        "cascade": ClickModel(
            depth=f"""coalesce(
        list_min(
            [
                one.position
                for one in lists.results
                if chance('click', draw, one.position) < one.attraction
                and chance('stop', draw, one.position) < {STOP}
            ]
        ),
        len(lists.results)
    )""",
            examined="position <= depth",
            propensity="cast(null as double)",
            looked_at=lambda results: min(results, 10),
        ),
    }
)
