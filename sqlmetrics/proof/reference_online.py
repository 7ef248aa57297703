"""Online metrics in plain Python, written from their formulas and not from the SQL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True)
class Click:
    """A click on an item: so many seconds after the request, and how long one stayed there."""

    item: str
    after: float
    stay: float


@dataclass(frozen=True)
class Request:
    """A request of a click log.

    Attributes:
        name: Its id.
        session: The visit that it is of.
        shown: The items, the first position first; none for a search without a result.
        clicks: The clicks, one an item.
        bought: The items that were bought.
        paid: What was paid for each of them.
        query: What was asked; empty if that is not known.
        at: When, in seconds.
        bought_after: Seconds from the request to what was bought.
    """

    name: str
    session: str
    shown: tuple[str, ...] = ()
    clicks: tuple[Click, ...] = ()
    bought: tuple[str, ...] = ()
    paid: tuple[float, ...] = ()
    query: str = ""
    at: float = 0
    bought_after: float = 60

    @property
    def ranks(self) -> list[int]:
        """The clicked positions from the top, counted from 1."""
        return sorted(self.shown.index(click.item) + 1 for click in self.clicks)

    def did(self, action: str) -> bool:
        """Whether there was a `click` or a `purchase`."""
        return bool({"click": self.clicks, "purchase": self.bought}[action])

    def successes(self, actions: Sequence[str]) -> list[float]:
        """After how many seconds there was a success, by `click`, `purchase` or both."""
        clicks = [click.after for click in self.clicks] if "click" in actions else []
        return clicks + [self.bought_after for _ in self.bought if "purchase" in actions]

    def down_to(self, k: int | None) -> Request:
        """The request with its first k positions alone; None for all."""
        shown_items = self.shown[:k]
        clicks = tuple(click for click in self.clicks if click.item in shown_items)
        return replace(self, shown=shown_items, clicks=clicks)


Part = tuple[float, float]
"""What a request adds to the numerator and to the denominator."""


def _of_clicked(value: Callable[[list[int]], float]) -> Callable[[Request], Part]:
    """A value of the clicked positions, over the requests that have some."""
    return lambda request: (value(request.ranks), 1) if request.clicks else (0, 0)


PARTS: Mapping[str, Callable[[Request], Part]] = {
    "ctr": lambda request: (len(request.clicks), len(request.shown)),
    "abandonment": lambda request: (
        bool(request.shown) and not request.clicks,
        bool(request.shown),
    ),
    "zero_result_rate": lambda request: (not request.shown, 1),
    "first_click_rank": _of_clicked(lambda ranks: ranks[0]),
    "last_click_rank": _of_clicked(lambda ranks: ranks[-1]),
    "max_rr": _of_clicked(lambda ranks: 1 / ranks[0]),
    "min_rr": _of_clicked(lambda ranks: 1 / ranks[-1]),
    "p_skip": lambda request: (
        (request.ranks[-1] - len(request.ranks), request.ranks[-1]) if request.clicks else (0, 0)
    ),
    "time_to_first_click": lambda request: (
        (min(click.after for click in request.clicks), 1) if request.clicks else (0, 0)
    ),
    "long_click_rate": lambda request: (
        sum(click.stay >= 30 for click in request.clicks),
        len(request.clicks),
    ),
    "purchases": lambda request: (len(request.bought), 1),
    "conversion_rate": lambda request: (bool(request.bought), 1),
    "first_purchase_rank": lambda request: (
        (min(map(request.shown.index, request.bought)) + 1, 1) if request.bought else (0, 0)
    ),
    "revenue_per_request": lambda request: (sum(request.paid), 1),
    "average_order_value": lambda request: (sum(request.paid), bool(request.bought)),
}
"""Online metric of single requests -> what a request adds."""


OF_ACTIONS: Mapping[str, Callable[[Request, str], Part]] = {
    "action_rate": lambda request, action: (request.did(action), 1),
    "mean_amount": lambda request, action: (
        sum(request.paid) if action == "purchase" else 0,
        request.did(action),
    ),
}
"""Online metric of an action -> what a request adds; only purchases have amounts."""


def _time_to_success(request: Request, actions: Sequence[str]) -> Part:
    seconds = request.successes(actions)
    return (min(seconds), 1) if seconds else (0, 0)


def _reformulation(
    request: Request, visit: Sequence[Request], actions: Sequence[str], minutes: int
) -> Part:
    """1 where the visit's next search asks something else so soon, and nothing succeeded before."""
    later = visit[visit.index(request) + 1 :]
    if not later or not (request.query and later[0].query) or later[0].query == request.query:
        return 0, 1
    gap = later[0].at - request.at
    before = [seconds for seconds in request.successes(actions) if seconds <= gap]
    return gap <= 60 * minutes and not before, 1


def _exit(request: Request, visit: Sequence[Request], actions: Sequence[str]) -> Part:
    """1 at the last search of a visit, where nothing succeeded since it began."""
    if request is not visit[-1]:
        return 0, 0
    moments = [other.at + after for other in visit for after in other.successes(actions)]
    return not any(moment >= request.at for moment in moments), 1


def visit_parts(
    metric: str, requests: Sequence[Request], actions: Sequence[str], minutes: int = 5
) -> Iterator[Part]:
    """What each request adds to a metric of success, and of what follows a search.

    Args:
        metric: `time_to_success`, `reformulation_rate` or `search_exit_rate`.
        requests: Those of the log; a session is a visit.
        actions: Those that are a success.
        minutes: Within how many minutes another query is a reformulation.
    """
    for request in requests:
        visit = sorted(
            (other for other in requests if other.session == request.session),
            key=lambda other: (other.at, other.name),
        )
        if metric == "time_to_success":
            yield _time_to_success(request, actions)
        elif metric == "reformulation_rate":
            yield _reformulation(request, visit, actions, minutes)
        else:
            yield _exit(request, visit, actions)


def quantile_of_users(users: Iterable[Sequence[float]], p: Fraction) -> tuple[float, float]:
    """A quantile of the values of all users of a system, and its variance over users.

    Args:
        users: The values of each user.
        p: Which quantile.
    """
    by_user = list(users)
    values = sorted(value for user_values in by_user for value in user_values)
    n, n_users = len(values), len(by_user)
    reach = 1.96 * math.sqrt(p * (1 - p) * n)
    at, low, high = (
        min(n, max(1, math.ceil(position))) for position in (p * n, p * n - reach, p * n + reach)
    )
    quantile = values[at - 1]
    slope = n * (values[high - 1] - values[low - 1]) / (high - low)
    share = sum(value <= quantile for value in values) / n
    moved = [sum(slope * (share - (value <= quantile)) for value in part) for part in by_user]
    return quantile, sum(x * x for x in moved) / n**2 * n_users / (n_users - 1)


def online_parts(
    metric: str,
    requests: Sequence[Request],
    k: int | None = None,
    action: str = "",
    minutes: int | None = None,
) -> Iterator[Part]:
    """What each request adds to an online metric; that of sessions counts at their first one.

    Args:
        metric: A name of `sqlmetrics list online`.
        requests: Those of the log, each session's in the order of their ids.
        k: The cutoff, None for all positions.
        action: `click` or `purchase`, where the metric is of one.
        minutes: Within how many minutes, where the metric is of some.
    """
    if metric in ("time_to_success", "reformulation_rate", "search_exit_rate"):
        yield from visit_parts(metric, requests, ["click"], minutes or 5)
        return
    if action:
        yield from (OF_ACTIONS[metric](request, action) for request in requests)
        return
    met: set[str] = set()
    for request in requests:
        if metric not in ("session_success", "searches_per_session"):
            yield PARTS[metric](request.down_to(k))
            continue
        session_requests = (
            other_request for other_request in requests if other_request.session == request.session
        )
        is_first = request.session not in met
        met.add(request.session)
        if metric == "searches_per_session":
            yield 1, is_first
            continue
        yield (
            is_first and any(session_request.clicks for session_request in session_requests),
            is_first,
        )
