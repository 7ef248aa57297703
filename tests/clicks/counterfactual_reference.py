"""What a ranking or a policy that was not shown would have got, in plain Python from the formulas.

Rows of a log are dicts: request, query, item, position, clicked (0, 1), user (or None); those of a
bandit have score, the logged probability, too. Nothing here reads the product.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class ExpectedEstimate(NamedTuple):
    """An estimate; the rest as `Estimate` has it."""

    value: float | None
    standard_error: float | None
    naive: float | None
    ess: float
    clipped_share: float
    unknown_share: float
    n_clicks: int


class Options(NamedTuple):
    """What is estimated, and how; a cutoff of 0 is none."""

    estimator: str
    clip: float
    prior: float
    metric: str = "ctr"
    k: int = 0


class Part(NamedTuple):
    """What one item, or one impression, adds to an estimate and to what is counted."""

    x: float
    naive: float = 0.0
    weight: float = 0.0
    clipped: float = 0.0
    discount: float = 1.0
    unknown: float = 0.0
    clicks: int = 0


DISCOUNTS: Mapping[str, Callable[[int, int, Mapping[int, float]], float]] = {
    "dcg": lambda rank, k, theta: 1 / math.log2(rank + 1),
    "precision": lambda rank, k, theta: 1 / k,
    "recall": lambda rank, k, theta: 1.0,
    "sum_reciprocal_rank": lambda rank, k, theta: 1 / rank,
    "clicks": lambda rank, k, theta: theta[rank],
}


class Unit(NamedTuple):
    """A request, of a policy an impression: what it adds to the two sums of an estimate."""

    cluster: Any
    x: float
    w: float
    parts: Sequence[Part]
    naive_w: float = 1.0


def of_lists(
    log: Sequence[Row],
    lists: Mapping[str, Sequence[str]],
    key: str,
    theta: Mapping[int, float],
    options: Options,
) -> ExpectedEstimate:
    """The estimate of a metric of the new lists, by the request or the query that they are of."""
    return estimate_of(requests_of(log, lists, key, theta, options).values(), options)


def requests_of(
    log: Sequence[Row],
    lists: Mapping[str, Sequence[str]],
    key: str,
    theta: Mapping[int, float],
    options: Options,
) -> dict[str, Unit]:
    """What each request adds that has a new list."""
    metric = options.metric
    log = [row for row in log if row["position"] in theta]
    rate, looked = _pair_rates(log, theta, options.prior)
    requests: dict[str, list[Row]] = defaultdict(list)
    for row in log:
        requests[row["request"]].append(row)
    units = {}
    for request, rows in requests.items():
        query, user, of = rows[0]["query"], rows[0]["user"], lists.get(rows[0][key])
        if of is None:
            continue
        cluster = ("user", user) if user is not None else ("request", request)
        rows_by_item = {row["item"]: row for row in rows}
        parts = []
        for rank, item in enumerate(of[: options.k or None], 1):
            d = DISCOUNTS[metric](rank, options.k, theta)
            q, is_logged = rate(query, item), (query, item) in looked
            part = _item(rows_by_item.get(item), d, q, theta, options, is_logged=is_logged)
            if metric == "clicks":
                part = part._replace(naive=part.clicks)
            parts.append(part)
        w = naive_w = 1.0
        if options.estimator == "snips" or metric == "recall":
            most = options.clip if options.estimator == "clipped_ips" else math.inf
            w = sum(r["clicked"] * min(1 / theta[r["position"]], most) for r in rows)
            naive_w = sum(row["clicked"] for row in rows)
        units[request] = Unit(cluster, sum(part.x for part in parts), w, parts, naive_w)
    return units


def _item(
    row: Row | None,
    d: float,
    q: float,
    theta: Mapping[int, float],
    options: Options,
    *,
    is_logged: bool,
) -> Part:
    """An item of a new list, in a request that did or did not show it."""
    if row is None:
        if options.estimator == "dr":
            return Part(d * q, discount=d, unknown=0.0 if is_logged else d)
        return Part(0.0, discount=d, unknown=d)
    at, c = theta[row["position"]], row["clicked"]
    most = min(1 / at, options.clip)
    x = {
        "ips": c / at,
        "snips": c / at,
        "clipped_ips": c * most,
        "dr": q + most * (c - at * q),
    }[options.estimator]
    return Part(d * x, d * c, d * c / at, d * c * most, d, 0.0, c)


def _pair_rates(
    log: Sequence[Row], theta: Mapping[int, float], prior: float
) -> tuple[Callable[[str | None, str], float], Mapping[Any, float]]:
    """The reward model, and how much each query and item was looked at."""
    clicks: Counter[Any] = Counter()
    looked: dict[Any, float] = defaultdict(float)
    for row in log:
        clicks[row["query"], row["item"]] += row["clicked"]
        looked[row["query"], row["item"]] += theta[row["position"]]
    mean = clicks.total() / sum(looked.values())

    def rate(query: str | None, item: str) -> float:
        pair = query, item
        is_logged = pair in looked and query is not None
        return (clicks[pair] + prior * mean) / (looked[pair] + prior) if is_logged else mean

    return rate, looked


def of_policy(
    log: Sequence[Row],
    chance: Callable[[str, int], float],
    choices: Sequence[str],
    options: Options,
) -> ExpectedEstimate:
    """The estimate of the clicks an impression of a policy, which has the chance of its choices."""
    return estimate_of(impressions_of(log, chance, choices, options), options)


def impressions_of(
    log: Sequence[Row],
    chance: Callable[[str, int], float],
    choices: Sequence[str],
    options: Options,
) -> list[Unit]:
    """What each impression adds."""
    clicks: Counter[Any] = Counter()
    impressions: Counter[Any] = Counter()
    for row in log:
        clicks[row["item"], row["position"]] += row["clicked"]
        impressions[row["item"], row["position"]] += 1
    mean = clicks.total() / len(log)

    def rate(item: str, position: int) -> float:
        pair = item, position
        is_logged = pair in impressions
        return (
            (clicks[pair] + options.prior * mean) / (impressions[pair] + options.prior)
            if is_logged
            else mean
        )

    units = []
    for row in log:
        item, position, c = row["item"], row["position"], row["clicked"]
        w = chance(item, position) / row["score"]
        kept = min(w, options.clip)
        model = sum(chance(choice, position) * rate(choice, position) for choice in choices)
        x = {
            "ips": w * c,
            "snips": w * c,
            "clipped_ips": kept * c,
            "dr": model + kept * (c - rate(item, position)),
        }[options.estimator]
        unknown = sum(
            chance(choice, position) for choice in choices if (choice, position) not in impressions
        )
        cluster = row["user"] or ("request", row["request"])
        part = Part(x, c, w, kept, 1.0, unknown, c)
        units.append(Unit(cluster, x, w if options.estimator == "snips" else 1.0, [part]))
    return units


def whole_lists_of(
    log: Sequence[Row],
    lists: Mapping[str, Sequence[str]],
    key: str,
    options: Options,
    depth: int | None = None,
) -> dict[str, Unit]:
    """What each request adds that has a new list, weighed by the chance of the list it was shown.

    Rows have `list_score`, the chance of the list, of its first `depth` items.
    """
    requests: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(log, key=lambda row: row["position"]):
        requests[row["request"]].append(row)
    units = {}
    for request, rows in requests.items():
        of = lists.get(rows[0][key])
        if of is None:
            continue
        first = [row["item"] for row in rows][:depth]
        w = 1 / rows[0]["list_score"] if list(of)[: len(first)] == first else 0.0
        ranks = [row["position"] for row in rows if row["clicked"]]
        near = [rank for rank in ranks if not options.k or rank <= options.k]
        y = float(bool(near)) if options.metric == "hit" else 1 / near[0] if near else 0.0
        kept = min(w, options.clip)
        x = (kept if options.estimator == "clipped_ips" else w) * y
        part = Part(x, y, w, kept, 1.0, 0.0, int(w > 0 and bool(near)))
        user = rows[0]["user"]
        cluster = ("user", user) if user is not None else ("request", request)
        units[request] = Unit(cluster, x, w if options.estimator == "snips" else 1.0, [part])
    return units


def estimate_of(units: Iterable[Unit], options: Options) -> ExpectedEstimate:
    """The estimate over some requests, or impressions."""
    units = [*units]
    parts = [part for unit in units for part in unit.parts]
    naive_w = sum(unit.naive_w for unit in units)
    weight, clipped, discount = (
        sum(getattr(part, name) for part in parts) for name in ("weight", "clipped", "discount")
    )
    is_unclipped = options.estimator in ("ips", "snips")
    return ExpectedEstimate(
        *_ratio(*_clusters(units)),
        sum(part.naive for part in parts) / naive_w if naive_w else None,
        _ess(part.weight if is_unclipped else part.clipped for part in parts),
        1 - clipped / weight if weight else 0.0,
        sum(part.unknown for part in parts) / discount,
        sum(part.clicks for part in parts),
    )


def _ess(part_weights: Iterable[float]) -> float:
    weights = list(part_weights)
    squares = sum(w * w for w in weights)
    return sum(weights) ** 2 / squares if squares else 0.0


def _clusters(units: Iterable[Unit]) -> tuple[dict[Any, float], dict[Any, float]]:
    """The sums of each user, or request without one."""
    xs: dict[Any, float] = defaultdict(float)
    ws: dict[Any, float] = defaultdict(float)
    for unit in units:
        xs[unit.cluster] += unit.x
        ws[unit.cluster] += unit.w
    return xs, ws


class Difference(NamedTuple):
    """Two estimates, and how far they are apart."""

    value: float
    baseline: float
    standard_error: float
    df: float


def difference(units: Iterable[Unit], of_baseline: Iterable[Unit]) -> Difference:
    """Two ratios of sums over users, some of whom have a part in both.

    The variance is that of what each user moves the two ratios by, linearised; the degrees of
    freedom are those of Welch and Satterthwaite over users of both, of one and of the other.
    """
    sides = [_clusters(units), _clusters(of_baseline)]
    ratios = [sum(xs.values()) / sum(ws.values()) for xs, ws in sides]
    moved: dict[Any, float] = defaultdict(float)
    for sign, ratio, (xs, ws) in zip((1, -1), ratios, sides, strict=True):
        n, total = len(ws), sum(ws.values())
        for cluster in ws:
            moved[cluster] += (
                sign * (xs[cluster] - ratio * ws[cluster]) / total * math.sqrt(n / (n - 1))
            )
    groups: dict[Any, list[float]] = defaultdict(list)
    for cluster, change in moved.items():
        groups[cluster in sides[0][1], cluster in sides[1][1]].append(change * change)
    variance = sum(map(sum, groups.values()))
    least = sum(sum(squares) ** 2 / max(1, len(squares) - 1) for squares in groups.values())
    return Difference(*ratios, math.sqrt(variance), variance**2 / least)


def _ratio(xs: Mapping[Any, float], ws: Mapping[Any, float]) -> tuple[float | None, float | None]:
    """A ratio of sums over clusters, and its standard error by the delta method."""
    total, n = sum(ws.values()), len(ws)
    if not total:
        return None, None
    ratio = sum(xs.values()) / total
    if n < 2:
        return ratio, None
    squares = sum((xs[cluster] - ratio * ws[cluster]) ** 2 for cluster in ws)
    return ratio, math.sqrt(squares * n / (n - 1)) / total
