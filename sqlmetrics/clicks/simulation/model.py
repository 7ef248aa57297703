"""Click models: which results a user looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log
from types import MappingProxyType

from sqlmetrics.sql.template import double

STOP = "0.2e0 + 0.2e0 * one.grade"
"""How likely the cascade's user is content after a click."""


APPEAL = "attraction"
"""How likely a result is clicked that is looked at."""


@dataclass(frozen=True)
class ClickModel:
    """Which results a user looks at and clicks, as SQL.

    Attributes:
        depth: The last position that is looked at, from what is known of a request.
        examined: Whether a result is looked at.
        propensity: How likely a position is looked at, NULL if that hangs on the list.
        looked_at: About how many of so many results are, at most.
        appeal: How likely one is clicked that is looked at.
    """

    depth: str
    examined: str
    propensity: str
    looked_at: Callable[[int], float]
    appeal: str = APPEAL


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


def click_model(name: str, cascade: float = 0.0, trust: float = 0.0) -> ClickModel:
    """A model of these, or `position` with people who do otherwise.

    Args:
        name: One of MODELS.
        cascade: Which share of the requests is read as a cascade.
        trust: How likely a result at position 1 is clicked that is looked at and does not
            attract; at position k a k-th of it. A cascade has none.
    """
    model = MODELS[name]
    reads_down = f"chance('reader', draw) < {double(cascade)}"
    if cascade:
        cascade_model = MODELS["cascade"]
        model = ClickModel(
            depth=f"case\n        when {reads_down} then {cascade_model.depth}\n"
            f"        else {model.depth}\n    end",
            examined=f"position <= depth and ({reads_down} or {model.examined})",
            propensity=model.propensity,
            looked_at=cascade_model.looked_at,
        )
    if trust:
        added = f"(1e0 - attraction) * {double(trust)} / position"
        extra_appeal = f"case when {reads_down} then 0e0 else {added} end" if cascade else added
        model = replace(model, appeal=f"{APPEAL} + {extra_appeal}")
    return model
