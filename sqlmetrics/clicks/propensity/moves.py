"""The compressed log -> what tells propensities: items that moved, and the links between positions.

item_positions ─┬─> moved_pairs ──┬─> moved_items (kept) ─> links
                └─> unit_buckets ─┘

Only pairs of a query and an item that stood at several positions and were clicked say how often
these are looked at: their attractiveness is the same at each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.curve import PROPENSITIES, PropensityCurve, propensities
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import double

MOVED = "sqlmetrics_moved_items"
"""The table of them."""

BUCKETS = 200
"""So many groups of queries are drawn for intervals: the error of their width is about 1 in
sqrt(2 x 200), and so many sums leave the database, however many queries there are."""


@dataclass(frozen=True)
class Standing:
    """What was shown and clicked at a position, in all.

    Attributes:
        group: The value of the device or layout column; None without one.
        position: From 1.
        n_impressions: What was shown there.
        n_clicks: What of it was clicked.
    """

    group: str | None
    position: int
    n_impressions: float
    n_clicks: float


@dataclass(frozen=True)
class Link:
    """Two positions, and the pairs of a query and an item that stood at both and were clicked.

    With n impressions and c clicks of a pair at the two, `above_sum` is the sum of
    c above * n below / (n above + n below), `below_sum` the same the other way round; their
    ratio is that of Mantel and Haenszel (1959): how much less the lower position is clicked.

    Attributes:
        above: The position nearer to the top.
        below: The other one.
        n_pairs: How many pairs.
        above_clicks: Their clicks above.
        below_clicks: Their clicks below.
        above_sum: See there.
        below_sum: See there.
        spread: The numerator of the variance of the ratio's logarithm (Greenland, Robins 1985).
    """

    above: int
    below: int
    n_pairs: float
    above_clicks: float
    below_clicks: float
    above_sum: float
    below_sum: float
    spread: float

    @property
    def clicks(self) -> float:
        """What the link holds: the clicks at that of the two which has fewer."""
        return min(self.above_clicks, self.below_clicks)

    @property
    def ratio(self) -> float:
        """How often the lower position is looked at, against the other."""
        return self.below_sum / self.above_sum

    @property
    def precision(self) -> float:
        """One over the variance of the ratio's logarithm; where all was clicked, 1."""
        return self.above_sum * self.below_sum / self.spread if self.spread > 0 else 1.0


Ends = tuple[int, int]
Sums = tuple[float, ...]


@dataclass(frozen=True)
class Moves:
    """The pairs of a query and an item that stood at several positions and were clicked.

    Attributes:
        n_pairs: How many.
        n_impressions: Their impressions.
    """

    n_pairs: float
    n_impressions: float

    @property
    def impressions_per_pair(self) -> float:
        """Impressions a pair."""
        return self.n_impressions / self.n_pairs if self.n_pairs else 0.0

    def __str__(self) -> str:
        return (
            f"{self.n_pairs:,.0f} pairs of a query and an item were shown at several positions "
            f"and clicked, with {self.impressions_per_pair:,.1f} impressions each"
        )


@dataclass(frozen=True)
class Links:
    """The links of a group of positions.

    Attributes:
        all: By their positions, of all queries together.
        sums: By group of queries and positions: above_sum and below_sum.
    """

    all: Mapping[Ends, Link]
    sums: Mapping[float, Mapping[Ends, Sums]]


def keys(tables: ClickTables) -> tuple[str, ...]:
    """What makes a pair: with a device or layout column that too, for a page of its own."""
    by = ("layout",) if tables.clicks.propensity.by is not None else ()
    return (*by, "query_text", "item_id")


def view(tables: ClickTables) -> dict[str, object]:
    """What the templates of these stages share."""
    propensity_settings = tables.clicks.propensity
    return {
        "counted": tables.of["item_positions"],
        "keys": keys(tables),
        "last": propensity_settings.positions,
        "has_layouts": propensity_settings.by is not None,
        "buckets": BUCKETS if propensity_settings.replicates else 0,
        "moved": MOVED,
        "sum": tables.names.at.sum,
    }


def buckets(tables: ClickTables, column: str, unit: str) -> Stage:
    """The stage of the groups of queries (or items) that are drawn together."""
    translation = tables.names.at
    hashed = translation.expression(translation.dialect.hashed, "unit")
    bucket_view = {"column": column, "unit": unit, "hashed": hashed, "buckets": BUCKETS}
    return stage("unit_buckets", view(tables) | bucket_view)


def moved_items(tables: ClickTables) -> Step:
    """The table of the items that moved, from `item_positions`."""
    shared = view(tables)
    stages = [stage("moved_pairs", shared)]
    if shared["buckets"]:
        stages.append(buckets(tables, "query_text", "query"))
    stages.append(stage("moved_items", shared))
    return Step(MOVED, with_stages(stages, "select *\nfrom moved_items"))


def standings(tables: ClickTables, engine: Database) -> list[Standing]:
    """What stands at each position of each group, sorted."""
    rows = engine.rows(with_stages([stage("standings", view(tables))], "select *\nfrom standings"))
    by = tables.clicks.propensity.by
    position_counts = (
        Standing(None if by is None else str(group), int(position), float(n), float(c))
        for group, position, n, c in rows
    )
    return sorted(position_counts, key=lambda standing: (standing.group or "", standing.position))


def moves(engine: Database) -> Moves:
    """How many there are in the table of moved items."""
    sums = "count(distinct pair_number) as n_pairs,\n    sum(n_impressions) as n_impressions"
    select = f"select\n    {sums}\nfrom {MOVED}"
    ((n_pairs, n_impressions),) = engine.rows(select)
    return Moves(float(n_pairs), float(n_impressions or 0))


def links(tables: ClickTables, engine: Database) -> dict[str | None, Links]:
    """Group -> its links, from the table of moved items."""
    adjacent = tables.clicks.propensity.pairs == "adjacent"
    shared = view(tables) | {"adjacent": adjacent}
    rows = engine.rows(with_stages([stage("links", shared)], "select *\nfrom links"))
    groups: dict[str | None, list[Sequence[float]]] = defaultdict(list)
    for bucket, layout, *numbers in sorted(rows):
        group = None if tables.clicks.propensity.by is None else str(layout)
        groups[group].append([float(bucket), *map(float, numbers)])
    return {group: _added(group_rows) for group, group_rows in groups.items()}


def _added(rows: Iterable[Sequence[float]]) -> Links:
    sums: dict[float, dict[Ends, Sums]] = defaultdict(dict)
    totals: dict[Ends, Sums] = {}
    for bucket, above, below, *numbers in rows:
        ends = int(above), int(below)
        below_sum, above_sum = numbers[3:5]
        sums[bucket][ends] = above_sum, below_sum
        added = zip(totals.get(ends, (0.0,) * len(numbers)), numbers, strict=True)
        totals[ends] = tuple(total + number for total, number in added)
    return Links({ends: _link(ends, total) for ends, total in sorted(totals.items())}, sums)


def _link(ends: Ends, numbers: Sums) -> Link:
    n_pairs, above_clicks, below_clicks, below_sum, above_sum, spread = numbers
    return Link(*ends, n_pairs, above_clicks, below_clicks, above_sum, below_sum, spread)


def stage(name: str, context: Mapping[str, object]) -> Stage:
    """One of the stages of propensities, by the name of its template."""
    return Stage(name, f"clicks/propensity/{name}", context)


# Clicks that count by the propensity of their position: what that brings, and what it costs.

PAGE = "docs/position-bias-harm.md"

ALIKE = 0.01
"""With less bias all items are looked at alike."""

WEIGHTED = "weighted_positions"
"""The stage of the compressed log with the weights of its positions."""


@dataclass(frozen=True)
class Correction:
    """What dividing clicks by propensities does to the rates of a log.

    Bias and noise are standard deviations between pairs of a query and an item, in units of the
    mean rate. Where the noise that is added is not smaller than the bias that is taken out, the
    raw rate is as near to the truth as the corrected one, or nearer.

    Attributes:
        n_clicks: The clicks at positions whose propensities are known.
        effective_clicks: So many clicks of equal weight are as precise: the square of the sum of
            weights over the sum of their squares.
        clipped: The share of the clicks' weight that max_weight cuts off, 0 to 1.
        bias: How much raw rates differ by where items stood alone.
        noise: How much more noise corrected rates have than raw ones.
    """

    n_clicks: float
    effective_clicks: float
    clipped: float
    bias: float
    noise: float

    @property
    def helps(self) -> bool:
        """Whether it takes out more bias than it adds noise."""
        return self.bias > self.noise

    def __str__(self) -> str:
        share = self.effective_clicks / self.n_clicks
        return (
            f"{self.n_clicks:,.0f} clicks weigh as much as {self.effective_clicks:,.0f} equal "
            f"ones ({share:.0%}); {self.clipped:.1%} of the weight is clipped; the correction "
            f"removes a bias of {self.bias:.0%} of the mean rate and adds noise of "
            f"{self.noise:.0%}"
        )

    def warning(self) -> str:
        """What a reader must know before corrected rates are used; empty if nothing."""
        if self.helps:
            return ""
        if self.bias < ALIKE:
            return (
                "there is nothing to correct: positions change the mean rate by only "
                f"{self.bias:.1%}, so rate: ctr is as good; see {PAGE}"
            )
        return (
            f"the correction adds more noise ({self.noise:.0%} of the mean rate) than it removes "
            f"bias ({self.bias:.0%}): if the ranker is good, rate: ctr ranks items better; see "
            f"{PAGE}"
        )


def correction(tables: ClickTables, engine: Database) -> Correction | None:
    """What correction does to the rates of the spec, or to `ips` if these need none.

    Args:
        tables: The stages of the log, with its propensities.
        engine: Where they are.

    Returns:
        None if there is no click at a position whose propensity is known.
    """
    of_examinations = tables.clicks.labels.rate == "coee"
    stages = [*tables.stages("item_positions"), *weighted_positions(tables)]
    select = print_template("clicks/propensity/click_weights", {})
    clicks, weighted, squared, unclipped = _numbers(engine, with_stages(stages, select))
    if not clicks:
        return None
    stages.append(stage("pair_rates", {"over_examinations": of_examinations}))
    select = print_template("clicks/propensity/correction", {})
    n, examined, examined_squared, raw, raw_noise, corrected, noise = _numbers(
        engine, with_stages(stages, select)
    )
    bias = sqrt(max(examined_squared * n / examined**2 - 1, 0.0)) if n else 0.0
    added = noise * n / corrected**2 - raw_noise * n / raw**2 if n and raw and corrected else 0.0
    return Correction(
        clicks,
        weighted**2 / squared,
        max(1 - weighted / unclipped, 0.0),
        bias,
        sqrt(max(added, 0.0)),
    )


def _numbers(engine: Database, select: str) -> list[float]:
    (row,) = engine.rows(select)
    return [float(number or 0) for number in row]


def weighted_positions(tables: ClickTables) -> Iterator[Stage]:
    """The stages behind `item_positions` to the same rows with weights.

    A click counts 1 / propensity, `max_weight` at most; an impression counts as an examination
    1 over that. Rows of positions without a propensity are left out.

    Raises:
        SpecError: If the propensities are estimated from the log and are not there: SQL alone
            cannot tell them.
    """
    propensity_settings = tables.clicks.propensity
    yield from _propensities(tables)
    keys = ("layout", "position") if propensity_settings.by is not None else ("position",)
    yield _stage("position_weights", most=double(propensity_settings.max_weight), keys=keys)
    yield _stage(WEIGHTED, counted=tables.of["item_positions"], keys=keys)


def _propensities(tables: ClickTables) -> Iterator[Stage]:
    propensity_settings = tables.clicks.propensity
    curve = tables.propensities or PropensityCurve.of(propensity_settings)
    if curve is not None:
        yield propensities(curve)
    elif propensity_settings.method == "randomised":
        yield from random_propensities(tables)
    else:
        raise not_in_text(propensity_settings.method)


def not_in_text(method: str) -> SpecError:
    """The error of propensities that only a log tells, where its text alone is printed."""
    return SpecError(
        f"propensities by {method} are estimated while the log is read, so a text of SQL cannot "
        "contain them; print them with `sqlmetrics clicks propensities SPEC` and give "
        "them as propensity: {method: given, given: {1: 1, 2: ...}}"
    )


def random_propensities(tables: ClickTables) -> Iterator[Stage]:
    """The stages of the clicks by position of impressions in random order, and propensities."""
    propensity_settings = tables.clicks.propensity
    keys = ("layout", "position") if propensity_settings.by is not None else ("position",)
    view = {
        "counted": tables.of["item_positions"],
        "keys": keys,
        "last": propensity_settings.positions,
    }
    yield _stage("random_positions", **view)
    by = "layout" if propensity_settings.by is not None else ""
    yield Stage(PROPENSITIES, "clicks/propensity/random_propensities", {"by": by})


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/propensity/{name}", view)
