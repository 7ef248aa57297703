"""The compressed log -> what tells propensities: items that moved, and the links between positions.

item_positions ─┬─> moved_pairs ──┬─> moved_items (kept) ─> links
                └─> unit_buckets ─┘

Only pairs of a query and an item that stood at several positions and were clicked say how often
these are looked at: their attractiveness is the same at each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.sql.stage import Stage, with_stages

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
    def each(self) -> float:
        """Impressions a pair."""
        return self.n_impressions / self.n_pairs if self.n_pairs else 0.0

    def __str__(self) -> str:
        return (
            f"{self.n_pairs:,.0f} pairs of a query and an item were shown at several positions "
            f"and clicked, with {self.each:,.1f} impressions each"
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
