"""Propensities and corrected rates in plain Python, row by row, from their formulas."""

from __future__ import annotations

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

Row = tuple[str | None, str, int, int]
"""An impression: query, item, position, whether it was clicked."""

Cells = Mapping[tuple[str, str], Mapping[int, tuple[int, int]]]
"""(query, item) -> position -> impressions and clicks."""


def cells(rows: Iterable[Row], last: int) -> dict[tuple[str, str], dict[int, tuple[int, int]]]:
    """Pairs of a query and an item, with what happened at each position."""
    pairs: dict[tuple[str, str], dict[int, tuple[int, int]]] = defaultdict(dict)
    for query, item, position, clicked in rows:
        if query is not None and position <= last:
            n, c = pairs[query, item].get(position, (0, 0))
            pairs[query, item][position] = n + 1, c + clicked
    return pairs


def moved(pairs: Cells) -> Cells:
    """Those that stood at several positions and were clicked."""
    return {
        pair: counts
        for pair, counts in pairs.items()
        if len(counts) > 1 and sum(c for _, c in counts.values()) > 0
    }


Ratios = dict[tuple[int, int], tuple[float, float, float]]
"""Two positions -> the two sums of Mantel and Haenszel, and their precision's denominator."""


def ratios(pairs: Cells, times: Mapping[str, int] | None = None) -> Ratios:
    """The sums, each query standing there so many times."""
    sums: Ratios = {}
    for (query, _), counts in pairs.items():
        weight = 1 if times is None else times[query]
        for a in counts:
            for b in counts:
                if a < b:
                    (na, ca), (nb, cb) = counts[a], counts[b]
                    total = na + nb
                    numerator, denominator, variance = sums.get((a, b), (0.0, 0.0, 0.0))
                    spread = ((ca + cb) * na * nb - ca * cb * total) / total**2
                    sums[a, b] = (
                        numerator + weight * cb * na / total,
                        denominator + weight * ca * nb / total,
                        variance + weight * spread,
                    )
    return sums


def harvest(
    pairs: Cells,
    *,
    adjacent: bool = False,
    min_clicks: int = 1,
    times: Mapping[str, int] | None = None,
) -> dict[int, float]:
    """Position -> propensity: least squares of the logarithms of the ratios."""
    plain, resampled = ratios(moved(pairs)), ratios(moved(pairs), times)
    clicks: dict[tuple[int, int], list[int]] = {}
    for counts in moved(pairs).values():
        for a in counts:
            for b in counts:
                if a < b:
                    before = clicks.get((a, b), [0, 0])
                    clicks[a, b] = [before[0] + counts[a][1], before[1] + counts[b][1]]
    strong = [
        (a, b)
        for (a, b), click_pair in clicks.items()
        if min(click_pair) >= max(min_clicks, 1) and (not adjacent or b == a + 1)
    ]
    weights = {
        ends: plain[ends][0] * plain[ends][1] / plain[ends][2] if plain[ends][2] > 0 else 1.0
        for ends in strong
    }
    positions = sorted({position for ends in strong for position in ends})
    logs = {ends: math.log(resampled[ends][0] / resampled[ends][1]) for ends in strong}
    # by Gauss and Seidel: each position next to what its neighbours say, until nothing moves
    log_theta = dict.fromkeys(positions, 0.0)
    for _ in range(20_000):
        change = 0.0
        for k in positions[1:]:
            pulls = [(w, log_theta[a] + logs[a, b]) for (a, b), w in weights.items() if b == k]
            pulls += [(w, log_theta[b] - logs[a, b]) for (a, b), w in weights.items() if a == k]
            new = sum(w * x for w, x in pulls) / sum(w for w, _ in pulls)
            change, log_theta[k] = max(change, abs(new - log_theta[k])), new
        if change < 1e-15:
            break
    return {k: math.exp(x) for k, x in log_theta.items()}


MOST = 0.999999
"""The largest propensity and attraction."""

State = tuple[dict[int, float], dict[tuple[str, str], float]]
"""The chance that a position is looked at, and that a pair attracts."""


def start(pairs: Cells, curve: Mapping[int, float]) -> State:
    """Where it begins: clicks over how often a pair was looked at."""
    highest = max(curve.values())
    theta = {k: MOST * p / highest for k, p in curve.items()}
    gamma = {
        pair: min(
            sum(c for _, c in at.values()) / sum(n * theta[k] for k, (n, _) in at.items()), MOST
        )
        for pair, at in moved(pairs).items()
    }
    return theta, gamma


def log_likelihood(pairs: Cells, state: State) -> float:
    """Of the clicks of moved items."""
    theta, gamma = state
    return sum(
        c * math.log(theta[k] * gamma[pair]) + (n - c) * math.log(1 - theta[k] * gamma[pair])
        for pair, at in moved(pairs).items()
        for k, (n, c) in at.items()
    )


def em_round(pairs: Cells, state: State) -> State:
    """One round of plain expectation maximisation: no step is longer than it says."""
    theta, gamma = state
    looked, impressions = defaultdict(float), defaultdict(float)
    attracted = {}
    for pair, at in moved(pairs).items():
        total = 0.0
        for k, (n, c) in at.items():
            chance = theta[k] * gamma[pair]
            looked[k] += c + (n - c) * theta[k] * (1 - gamma[pair]) / (1 - chance)
            impressions[k] += n
            total += c + (n - c) * (1 - theta[k]) * gamma[pair] / (1 - chance)
        attracted[pair] = min(total / sum(n for n, _ in at.values()), MOST)
    return {k: min(looked[k] / impressions[k], MOST) for k in theta}, attracted


def em(pairs: Cells, curve: Mapping[int, float]) -> State:
    """Where plain expectation maximisation comes to rest, however many rounds that takes."""
    state = start(pairs, curve)
    for _ in range(100_000):
        before = relative(state[0])
        state = em_round(pairs, state)
        if max(abs(p / before[k] - 1) for k, p in relative(state[0]).items()) < 1e-13:
            break
    return state


def first_round(
    pairs: Cells, curve: Mapping[int, float]
) -> tuple[dict[int, float], dict[int, float], dict[tuple[str, str], float]]:
    """Propensities before and after a round that is not accelerated, and attractions within it.

    Attractions take one of Newton's steps first; the largest propensity stays.
    """
    theta, gamma = start(pairs, curve)
    for pair, at in moved(pairs).items():
        expected, slope = 0.0, 0.0
        for k, (n, c) in at.items():
            skip = 1 - theta[k] * gamma[pair]
            expected += (n - c) / skip
            slope += (n - c) * theta[k] / skip**2
        impressions = sum(n for n, _ in at.values())
        # where 1 / expected is 1 / impressions
        attraction = (
            gamma[pair] + (1 / expected - 1 / impressions) * expected**2 / slope if slope else 1.0
        )
        gamma[pair] = min(attraction, MOST)
    after = em_round(pairs, (theta, gamma))[0]
    return theta, {k: p if p == max(theta.values()) else after[k] for k, p in theta.items()}, gamma


def relative(theta: Mapping[int, float]) -> dict[int, float]:
    """Against the first position."""
    return {k: p / theta[min(theta)] for k, p in theta.items()}


def likeliest(pairs: Cells, theta: Mapping[int, float]) -> dict[tuple[str, str], float]:
    """How likely each pair attracts, given the propensities: by bisection."""
    attractions = {}
    for pair, at in moved(pairs).items():
        low, high = 0.0, MOST
        for _ in range(200):
            middle = (low + high) / 2
            pull = sum(
                c / middle - (n - c) * theta[k] / (1 - theta[k] * middle)
                for k, (n, c) in at.items()
            )
            low, high = (middle, high) if pull > 0 else (low, middle)
        attractions[pair] = high if high == MOST else (low + high) / 2
    return attractions


def em_sample(
    pairs: Cells,
    theta: Mapping[int, float],
    gamma: Mapping[tuple[str, str], float],
    times: Mapping[str, int],
) -> dict[int, float]:
    """One step of Newton's on the log-likelihood in which each query stands so many times.

    Of the logarithms of propensities, with those of attractions following: the second derivatives
    of the profile are those of the propensities less what the attractions take up.
    """
    positions = sorted(theta)[1:]
    pull = dict.fromkeys(theta, 0.0)
    information = {(k, m): 0.0 for k in theta for m in theta}
    for (query, item), at in moved(pairs).items():
        chances = {k: theta[k] * gamma[query, item] for k in at}
        odds = {k: n * chances[k] / (1 - chances[k]) for k, (n, _) in at.items()}
        for k, (n, c) in at.items():
            pull[k] += (times[query] - 1) * (c - n * chances[k]) / (1 - chances[k])
            information[k, k] += odds[k]
            for m in at:
                information[k, m] -= odds[k] * odds[m] / sum(odds.values())
    # by Gauss and Seidel again: the matrix is positive definite
    step = dict.fromkeys(positions, 0.0)
    for _ in range(20_000):
        before = dict(step)
        for k in positions:
            rest = sum(information[k, m] * step[m] for m in positions if m != k)
            step[k] = (pull[k] - rest) / information[k, k]
        if max(abs(step[k] - before[k]) for k in positions) < 1e-15:
            break
    first = theta[min(theta)]
    return {min(theta): 1.0} | {k: theta[k] / first * math.exp(step[k]) for k in positions}


def click_rates(rows: Iterable[Row], last: int) -> dict[int, float]:
    """Position -> click rate over that of position 1."""
    counts: dict[int, list[int]] = {}
    for _, _, position, clicked in rows:
        if position <= last:
            before = counts.get(position, [0, 0])
            counts[position] = [before[0] + 1, before[1] + clicked]
    return {k: (c / n) / (counts[1][1] / counts[1][0]) for k, (n, c) in sorted(counts.items())}


def samples(
    queries: Iterable[str], sampled: Iterable[str], count: int, groups: int = 200
) -> list[dict[str, int]]:
    """Query -> how often it stands in each sample, of those that are drawn among all."""
    by_hash = sorted(set(queries), key=lambda text: hashlib.md5(text.encode()).hexdigest())
    group = {query: number % groups for number, query in enumerate(by_hash, start=1)}
    chance, distinct = random.Random(2026), set(sampled)
    replicates = []
    for _ in range(count):
        numbers = sorted({group[query] for query in distinct})
        times = {number: _poisson(chance.random()) for number in numbers}
        replicates.append({query: times[group[query]] for query in distinct})
    return replicates


def _poisson(share: float) -> int:
    number, reached = 0, math.exp(-1)
    while share >= reached and number < 12:
        number += 1
        reached += math.exp(-1) / math.factorial(number)
    return number


def percentiles(values: Sequence[float], level: float) -> tuple[float, float]:
    """The interval of sorted values, linear between them."""
    ordered = sorted(values)

    def at(share: float) -> float:
        rank = share * (len(ordered) - 1)
        low = min(int(rank), len(ordered) - 2)
        return ordered[low] + (rank - low) * (ordered[low + 1] - ordered[low])

    return at((1 - level) / 2), at((1 + level) / 2)


def corrected(
    rows: Iterable[Row], curve: Mapping[int, float], rate: str, most: float, prior: float = 0
) -> dict[tuple[str, str], float]:
    """(query, item) -> `ips` or `coee`."""
    kept = [row for row in rows if row[2] in curve]
    weight = {k: min(1 / p, most) for k, p in curve.items()}
    top = sum(c * weight[k] if rate == "ips" else c for _, _, k, c in kept)
    bottom = sum(1 if rate == "ips" else 1 / weight[k] for _, _, k, _ in kept)
    parts: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for query, item, k, clicked in kept:
        if query is not None:
            parts[query, item][0] += clicked * weight[k] if rate == "ips" else clicked
            parts[query, item][1] += 1 if rate == "ips" else 1 / weight[k]
    mean = top / bottom
    return {pair: (over + prior * mean) / (under + prior) for pair, (over, under) in parts.items()}


def cost(
    rows: Iterable[Row], curve: Mapping[int, float], rate: str, most: float
) -> dict[str, float]:
    """Clicks, effective clicks, clipped share, bias and noise of the correction."""
    kept = [row for row in rows if row[2] in curve]
    weight = {k: min(1 / p, most) for k, p in curve.items()}
    weights = [weight[k] for _, _, k, clicked in kept if clicked]
    unclipped = [1 / curve[k] for _, _, k, clicked in kept if clicked]
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for query, item, k, clicked in kept:
        if query is not None:
            pairs[query, item].append((k, clicked))
    looks, raw, raw_noise, fair, fair_noise = [], [], [], [], []
    for impressions in pairs.values():
        n, clicks, examined = (
            len(impressions),
            sum(c for _, c in impressions),
            sum(1 / weight[k] for k, _ in impressions),
        )
        looks.append(examined / n)
        raw.append(clicks / n)
        raw_noise.append(clicks / n**2)
        if rate == "ips":
            fair.append(sum(c * weight[k] for k, c in impressions) / n)
            fair_noise.append(sum(c * weight[k] ** 2 for k, c in impressions) / n**2)
        else:
            fair.append(clicks / examined)
            fair_noise.append(clicks / examined**2)
    mean = sum(looks) / len(looks)
    spread = sum((look - mean) ** 2 for look in looks) / len(looks)
    relative = [
        sum(noise) / len(noise) / (sum(rates) / len(rates)) ** 2
        for noise, rates in ((fair_noise, fair), (raw_noise, raw))
    ]
    return {
        "n_clicks": len(weights),
        "effective_clicks": sum(weights) ** 2 / sum(w * w for w in weights),
        "clipped": 1 - sum(weights) / sum(unclipped),
        "bias": math.sqrt(spread) / mean,
        "noise": math.sqrt(max(relative[0] - relative[1], 0)),
    }
