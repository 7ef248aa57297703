"""The effect by day since a user's first request that counts: does it last, or is it novelty?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlmetrics.comparison.online.ratios import OnlineRatios
from sqlmetrics.comparison.statements import columns_stage
from sqlmetrics.engines.temporary import Step
from sqlmetrics.plan.shape import segment
from sqlmetrics.sql.stage import Column, Window, with_stages

EXPOSED = "sqlmetrics_exposed_units"
"""The table of requests with the days since their user's first one."""

SINCE = "since_first"
"""The segment of these days: 0, 1, 2-3, 4-7 and so on, twice as many each time."""


def spans(n_days: int) -> Iterator[tuple[str, int]]:
    """The names of spans of days up to so many, each with the first day after it.

    >>> list(spans(5))
    [('0', 1), ('1', 2), ('2-3', 4), ('4-7', 8)]
    """
    yield "0", 1
    first = 1
    while first < n_days:
        yield (str(first) if first == 1 else f"{first}-{2 * first - 1}"), 2 * first
        first *= 2


def by_exposure(ratios: OnlineRatios, n_days: int) -> tuple[Step, OnlineRatios]:
    """The table of requests by days since exposure, and the first of the metrics over it.

    A day is one on which the log has requests.

    Args:
        ratios: The requests that count.
        n_days: On how many days they are.
    """
    days = Column(f"dense_rank() over {Window([], ['metric_date asc'])}", "day_number")
    user = Window(["coalesce(user_id, request_id)"])
    since = Column(f"day_number\n    - min(day_number) over {user}", "n_since")
    whens = [f"    when n_since < {end} then '{name}'" for name, end in spans(n_days)]
    span = Column("\n".join(["case", *whens, "end"]), segment(SINCE))
    rows = ratios.table
    stages = [
        columns_stage("numbered", "days in order", ["*", days], rows, "metric_date is not null"),
        columns_stage("exposures", "days since the user's first", ["*", since], "numbered"),
        columns_stage("spans", "these in spans", ["*", span], "exposures"),
    ]
    step = Step(EXPOSED, with_stages(stages, "select *\nfrom spans"))
    return step, replace(ratios, table=EXPOSED, by=(SINCE,), terms=ratios.terms[:1])
