"""Where a difference comes from: slices, queries, the lists of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from sqlmetrics.annotation import pool
from sqlmetrics.annotation.pool import texts
from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.findings import Sums
from sqlmetrics.comparison.options import GAINED, LOST, Movers, Options
from sqlmetrics.comparison.statements import (
    Statements,
    chosen_if,
    columns_stage,
    join_stage,
    segments_stage,
    sums_stage,
)
from sqlmetrics.comparison.sums.moments import Key, Moments, key_of
from sqlmetrics.comparison.sums.pairing import METRIC, Pairing
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.report.failure import MOST_LOST
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.strategy import PORTABLE
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import double, identifier, literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats import TIED
from sqlmetrics.stats.estimate import Estimate
from sqlmetrics.stats.true_effects import Shrinkage, estimated
from sqlmetrics.tables.tabular import Row

# The queries that moved most: by how much, on how much traffic, and whether it could be noise.
#
#     metric_pairs ─> query_moves ─> move_sums       what they come to tells noise from differences
#                                 └> shrunk_moves ─> impacts, of which the largest are read
#
# A query's difference is its true one plus noise. Where queries come again, on other days, the
# noise
# is what a query's days differ by. Elsewhere nothing repeats, and what moved the other way than
# most
# is taken for noise: chance moves as much up as down. A difference is pulled towards 0, and so
# keeps
# its sign: of a query nobody knows more than that it may not have moved. See `shrinkage`.

REPEATS = 10
"""So many rows beyond the first of a query tell what noise is; fewer do not."""

STEPS = 1e9
"""Impacts are ordered by steps of 1 / STEPS, so that the last digits of a sum decide no place."""

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Noise:
    """What is known of the differences of queries, for a system and metric.

    Attributes:
        shrinkage: The variance of true differences around 0.
        variance: That of the noise of one row of a query.
    """

    shrinkage: Shrinkage
    variance: float


def _condition(movers: Movers) -> str:
    """Of a row of `shrunk_moves`, whether it is one of those that are wanted."""
    if movers.side == LOST:
        return f"gain < -{double(TIED)}"
    return f"gain > {double(TIED)}" if movers.side == GAINED else f"abs(gain) > {double(TIED)}"


def sums_query(moves: Sequence[Stage], translation: Translation) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system and metric.

    Args:
        moves: As `moved_queries` has them, or what keeps the last of them.
        translation: Of the database that runs it.
    """
    return [*moves, _sums(translation)], "select *\nfrom move_sums"


def moved_queries(pairing: Pairing) -> Iterator[Stage]:
    """From `per_query` to one row per query, system and metric."""
    alone = replace(pairing, cluster=None, by=())
    weighted = alone.weight != "1e0"

    translation = pairing.plan.translation
    total = translation.total

    def mean(name: str) -> str:
        if not weighted:
            return translation.mean(name)
        return f"{total(f'{name} * weight')} / nullif({total('weight')}, 0e0)"

    mean_difference = translation.mean("difference")
    columns = [
        Column("count(*)", "n_rows"),
        Column(total(alone.weight), "traffic"),
        Column(mean("metric_value"), "mean_value"),
        Column(mean("baseline_value"), "mean_baseline"),
        Column(mean("difference"), "mean_difference"),
        Column(
            f"{total('difference * difference')}\n    - {total('difference')} * {mean_difference}",
            "day_squares",
        ),
    ]
    if "metric_date" in pairing.plan.shape.keys:
        columns.append(Column("max(metric_date)", "last_day"))
    yield from alone.stages()
    yield alone.metric_pairs()
    about = "one row per query, system and metric: the mean over its days"
    keys = ["system", *METRIC, "query_id"]
    yield sums_stage("query_moves", about, keys, columns, "metric_pairs")


_UP = "mean_difference > 0e0"
_SUMS = {
    "n_queries": "count(*)",
    "n_rows": "sum(n_rows)",
    "days2": "sum(day_squares)",
    "d2": "sum(mean_difference * mean_difference)",
    "row_d2": "sum(n_rows * mean_difference * mean_difference)",
    "up2": f"sum({chosen_if(_UP, 'mean_difference * mean_difference', '0e0')})",
    "n_moved": f"sum(case when abs(mean_difference) > {double(TIED)} then 1 else 0 end)",
}
"""What the noise is made of -> its sum over queries."""


def _sums(translation: Translation) -> Stage:
    columns = [Column(translation.exact(text), f"sum_{name}") for name, text in _SUMS.items()]
    about = "one row per system and metric: the variances of noise and of differences"
    return sums_stage("move_sums", about, ["system", *METRIC], columns, "query_moves")


def noise_of(row: Mapping[str, Any]) -> Noise:
    """What the sums of a system and metric say.

    The variance of true differences about 0 is the moment that is left: what the squares of the
    queries' differences sum to, less what noise sums to.

    Args:
        row: A row of `sums_query`.
    """
    sums = {name: float(row[f"sum_{name}"] or 0) for name in _SUMS}
    n, rows = sums["n_queries"], sums["n_rows"]
    if rows - n >= REPEATS:
        variance = max(0.0, sums["days2"]) / (rows - n)
    else:
        moved = sums["d2"] / sums["n_moved"] if sums["n_moved"] else 0.0
        variance = 2 * (min(sums["up2"], sums["d2"] - sums["up2"]) + moved) / n
    between = max(0.0, (sums["row_d2"] - n * variance) / rows)
    return Noise(Shrinkage(0.0, between), variance)


Noises = Mapping[Key, Noise]
"""System, metric and cutoff -> what is known."""


def noises(pairing: Pairing, moments: Mapping[Key, Moments], rows: Rows) -> dict[Key, Noise]:
    """What is known of each system and metric that both have a query of."""
    row_by_key = {(row["system"], row["metric"], int(row["k"])): row for row in rows}
    noise_by_key = {}
    for system in pairing.systems:
        for measure in pairing.measures:
            key = (system, measure.name, measure.k or 0)
            if key in row_by_key and (system, ALL, ALL, *key[1:]) in moments:
                noise_by_key[key] = noise_of(row_by_key[key])
    return noise_by_key


def movers_query(
    pairing: Pairing, moves: Sequence[Stage], noise_by_key: Noises, selection: Movers
) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of the queries that moved most.

    Args:
        pairing: What is compared.
        moves: As `moved_queries` has them, or what keeps the last of them.
        noise_by_key: What `noises` gives.
        selection: Which are wanted of each system and metric.
    """
    directions = {
        (measure.name, measure.k or 0): _direction(measure) for measure in pairing.measures
    }
    stages = [*moves, _constants(noise_by_key, directions), _shrunk_moves(pairing)]
    stages.append(_impacts(pairing, selection))
    if len(noise_by_key) == 1:  # to sort all of them for their places takes long
        return (
            stages,
            f"select *\nfrom impacts\norder by {', '.join(_ORDER)}\nlimit {selection.count}",
        )
    over = Window(["system", *METRIC], list(_ORDER))
    columns = ["*", Column(f"row_number() over {over}", "impact_rank")]
    stages.append(columns_stage("placed_moves", "the largest impact first", columns, "impacts"))
    order = f"order by {', '.join(('system', *METRIC, 'impact_rank'))}"
    return stages, f"select *\nfrom placed_moves\nwhere impact_rank <= {selection.count}\n{order}"


def _direction(measure: Measure) -> int:
    """1 where higher is better, or neither is; -1 where lower is."""
    return SIGNS[measure.metric.better] or 1


def _constants(noise_by_key: Noises, directions: Mapping[tuple[str, int], int]) -> Stage:
    rows = [
        [
            Column(literal(system), "system"),
            Column(literal(metric), "metric"),
            Column(str(k), "k"),
            Column(double(noise.shrinkage.between), "between_queries"),
            Column(double(noise.variance), "noise"),
            Column(double(directions[metric, k]), "direction"),
        ]
        for (system, metric, k), noise in noise_by_key.items()
    ]
    about = "one row per system and metric: the share of a difference that is not noise"
    return Stage("shrinkage", "comparison/constants", {"about": about, "rows": rows})


def _read(pairing: Pairing) -> list[str]:
    """The columns of a query that are read."""
    days = ["last_day"] if "metric_date" in pairing.plan.shape.keys else []
    means = ("mean_value", "mean_baseline", "mean_difference")
    return ["system", *METRIC, "query_id", "n_rows", "traffic", *means, *days]


def _shrunk_moves(pairing: Pairing) -> Stage:
    factor = (
        "case\n    when shrinkage.noise > 0e0\n"
        "        then shrinkage.between_queries\n"
        "            / (shrinkage.between_queries + shrinkage.noise / query_moves.n_rows)\n"
        "    else 1e0\nend"
    )
    columns: list[object] = [f"query_moves.{name}" for name in _read(pairing)]
    columns.append(Column(f"query_moves.mean_difference * {factor}", "shrunk_difference"))
    columns.append(Column("query_moves.mean_difference * shrinkage.direction", "gain"))
    about = "the difference of a query, shrunk towards 0 by its noise"
    on = ("system", *METRIC)
    return join_stage("shrunk_moves", about, columns, "query_moves", to="shrinkage", on=on)


_ORDER = ("impact desc", "size desc", "traffic desc", "is_gain asc", "query_id asc")
"""Queries that moved as far: those with more traffic first, then those that lost."""


def _impacts(pairing: Pairing, selection: Movers) -> Stage:
    steps = double(STEPS)
    columns = [
        *_read(pairing),
        "shrunk_difference",
        Column(f"floor(abs(shrunk_difference * traffic) * {steps} + 0.5e0)", "impact"),
        Column(f"floor(abs(mean_difference * traffic) * {steps} + 0.5e0)", "size"),
        Column("case when gain > 0e0 then 1 else 0 end", "is_gain"),
    ]
    about = f"the queries that moved; their impact is rounded to {1 / STEPS:g}"
    return columns_stage("impacts", about, columns, "shrunk_moves", _condition(selection))


def movers(
    pairing: Pairing,
    moments: Mapping[Key, Moments],
    noise_by_key: Noises,
    rows: Rows,
    confidence: float,
) -> list[Row]:
    """A row per system, metric and query that moved most, those that lost first.

    Args:
        pairing: What is compared.
        moments: The moments of each key.
        noise_by_key: What `noises` gives.
        rows: The rows of `movers_query`.
        confidence: With this probability chance alone moves a query less far than one that is no
            noise.
    """
    mover_rows = []
    for system in pairing.systems:
        for measure in pairing.measures:
            key = (system, measure.name, measure.k or 0)
            keys = {"metric": str(measure), "system": system, "baseline": pairing.baseline}
            moved = [r for r in rows if (r["system"], r["metric"], int(r["k"])) == key]
            for row in sorted(moved, key=lambda row: int(row["is_gain"])):
                overall = moments[system, ALL, ALL, *key[1:]]
                mover_rows.append(keys | _move_of(row, noise_by_key[key], overall, confidence))
    return mover_rows


def _move_of(row: Mapping[str, Any], noise: Noise, overall: Moments, confidence: float) -> Row:
    """What a query's row says; it could be noise if chance alone moves a query as far."""
    difference, n = float(row["mean_difference"]), int(row["n_rows"])
    shrunk = noise.shrinkage.shrunk(difference, noise.variance / n)
    error = sqrt(noise.variance / n) if overall.df else None
    half_width = Estimate(difference, error, overall.df).half_width(confidence)
    return {
        "moved": GAINED if int(row["is_gain"]) else LOST,
        "query_id": row["query_id"],
        "metric_date": row.get("last_day"),
        "n": n,
        "traffic": float(row["traffic"]),
        "value": float(row["mean_value"]),
        "baseline_value": float(row["mean_baseline"]),
        "difference": difference,
        "shrunk_difference": shrunk,
        "could_be_noise": half_width is None or abs(difference) <= half_width,
    }


# The lists of some queries, of two systems side by side, with titles and grades.
#
# Only the rows of these queries are read: their ids are a condition of the tables.

SHOWN_ITEMS = 10
"""So many items of a list are shown, and those below that have a grade above 0."""

LISTS = ("list", "baseline_list")


def movers_of(
    statements: Statements, pairing: Pairing, options: Options, sums: Sums
) -> tuple[Row, ...]:
    """The queries that moved most, with both lists; none unless asked for.

    Args:
        statements: The statements of the comparison.
        pairing: What is compared.
        options: What is asked.
        sums: What came out of the warehouse.
    """
    if not options.movers.count:
        return ()
    rows = _moved(statements, pairing, options.movers, sums, options.level)
    if not rows:
        return ()
    return tuple(with_lists(rows, statements.apart(*lists_query(pairing, rows, statements.engine))))


def lost_queries(
    statements: Statements, pairing: Pairing, options: Options, sums: Sums, rows: Sequence[Row]
) -> tuple[Row, ...]:
    """The queries that lost most, of the metrics and systems that a gate does not let through.

    None where systems have queries of their own.

    Args:
        statements: The statements of the comparison.
        pairing: What is compared.
        options: What is asked.
        sums: What came out of the warehouse.
        rows: The rows that it does not let through.
    """
    if type(pairing) is not Pairing or pairing.periods or pairing.stored:
        return ()
    failed = {(row["metric"], row["system"]) for row in rows if row["segment_name"] == ALL}
    measures = tuple(m for m in pairing.measures if str(m) in {metric for metric, _ in failed})
    systems = tuple(s for s in pairing.systems if s in {system for _, system in failed})
    if not measures:
        return ()
    of_failed = replace(pairing, measures=measures, systems=systems)
    lost_rows = _moved(statements, of_failed, Movers(MOST_LOST, LOST), sums, options.level)
    texts_by_query = _texts_of({row["query_id"] for row in lost_rows}, pairing.plan, statements)
    return tuple(
        {**row, "query_text": texts_by_query.get(row["query_id"])}
        for row in lost_rows
        if (row["metric"], row["system"]) in failed
    )


def _moved(
    statements: Statements, pairing: Pairing, selection: Movers, sums: Sums, level: float
) -> list[Row]:
    """The queries that moved most, without their lists."""
    moves = [*moved_queries(pairing)]
    with statements.kept(moves) as table:
        if table:
            moves = [Stage(moves[-1].name, "kept", {"table": table})]
        translation = pairing.plan.translation
        rows = statements.rows(*sums_query(moves, translation))
        noise_by_key = noises(pairing, sums.moments, rows)
        query = movers_query(pairing, moves, noise_by_key, selection)
        read = statements.rows(*query) if noise_by_key else []
    return movers(pairing, sums.moments, noise_by_key, read, level)


def _texts_of(queries: set[str], plan: Plan, statements: Statements) -> dict[str, str]:
    """Query -> its text, of those that have one."""
    lookup = texts(plan, statements.engine).get("query_text")
    if lookup is None or not queries:
        return {}
    ids = ", ".join(map(literal, sorted(queries)))
    rows = statements.apart([lookup], f"select *\nfrom {lookup.name}\nwhere query_id in ({ids})")
    return {row["query_id"]: row["query_text"] for row in rows}


def lists_query(pairing: Pairing, rows: Sequence[Row], engine: Database) -> tuple[list[Stage], str]:
    """The stages from the tables, and the select of one row per item of the lists.

    Args:
        pairing: What is compared.
        rows: The queries, as `movers` gives them; one at least.
        engine: Where the tables are.
    """
    plan = of_queries(pairing.plan, {row["query_id"] for row in rows})
    days = {str(row["metric_date"]) for row in rows if row["metric_date"]}
    return items_query(plan, (pairing.baseline, *pairing.systems), days, engine)


def items_query(
    plan: Plan, systems: Sequence[str], days: set[str], engine: Database
) -> tuple[list[Stage], str]:
    """The stages from the tables, and the select of one row per item that is shown.

    Args:
        plan: The plan of some queries, as `of_queries` gives it.
        systems: Whose lists; of a plan without systems all.
        days: The days of the lists; none for all.
        engine: Where the tables are.
    """
    lookups = texts(plan, engine)
    of_systems = f"\n    and system in ({', '.join(map(literal, systems))})" if systems else ""
    of_days = f" and cast(metric_date as varchar) in ({', '.join(map(literal, sorted(days)))})"
    where = f"(rnk <= {SHOWN_ITEMS} or grade > 0e0){of_systems}"
    keys = [*plan.shape.keys, "item_id", "rnk", "grade"]
    shown_items = columns_stage(
        "shown_items",
        f"one row per printed item: the first {SHOWN_ITEMS}, and those with a grade above 0",
        [*keys],
        "ranked",
        where + of_days * bool(days),
    )
    columns = [Column(f"shown_items.{key}", key) for key in keys]
    columns += [Column(f"{stage.name}.{name}", name) for name, stage in lookups.items()]
    id_by_text = {"query_text": "query_id", "item_title": "item_id"}
    joins = {
        stage.name: equal(stage.name, "shown_items", (id_by_text[n],))
        for n, stage in lookups.items()
    }
    view = {"columns": columns, "from": "shown_items", "joins": joins}
    view["about"] = "one row per printed item, with its title"
    last = Stage("titled_items", "comparison/titled", view)
    order = ", ".join([*plan.shape.keys, "rnk"])
    stages = [*lookups.values(), *pool.stages(plan, with_grades=True), shown_items, last]
    return stages, f"select *\nfrom titled_items\norder by {order}"


def of_queries(plan: Plan, queries: set[str]) -> Plan:
    """The plan of some queries alone."""
    ids = ", ".join(map(literal, sorted(queries)))
    conditions = {
        table: f"cast({identifier(roles['query'])} as varchar) in ({ids})"
        for table, roles in plan.shape.columns.items()
        if "query" in roles and table in ("rankings", "labels")
    }
    return plan.by(PORTABLE, replace(plan.shape.bucket, conditions=conditions))


def with_lists(rows: Sequence[Row], items: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The queries with their text, and with both lists, each a list of rank, item, title, grade.

    Args:
        rows: The queries.
        items: The rows of `lists_query`.
    """
    lists: dict[tuple[str, str, str], list[Row]] = {}
    text_by_query: dict[str, Any] = {}
    for row in items:
        item = {
            "rank": int(row["rnk"]),
            "item_id": row["item_id"],
            "title": row.get("item_title"),
            "grade": None if row["grade"] is None else float(row["grade"]),
        }
        key = (_day(row.get("metric_date")), row["system"], row["query_id"])
        lists.setdefault(key, []).append(item)
        text_by_query[row["query_id"]] = row.get("query_text")
    return [
        {
            **row,
            "query_text": text_by_query.get(row["query_id"]),
            **{
                name: lists.get((_day(row["metric_date"]), row[side], row["query_id"]), [])
                for name, side in zip(LISTS, ("system", "baseline"), strict=True)
            },
        }
        for row in rows
    ]


def _day(value: Any) -> str:
    return str(value)[:10] if value else ""


# What each slice adds to a difference: its part by a changed value, and by a changed share.
#
# With p the share of the queries (or of their weight) that a slice has for a system and m its mean
# there, q and b the same for the baseline, and c half the sum of the two totals:
#
# - rate: (p + q) / 2 (m - b)
# - mix: (p - q) ((m + b) / 2 - c)
#
# The sum over the slices is the total difference, since the shares add up to 1. Where both systems
# have the same queries, p = q, and there is no mix. Source: Kitagawa 1955.


@dataclass(frozen=True)
class Part:
    """What one system has in a slice.

    Attributes:
        n: How many queries.
        weight: The sum of their weights; as many without weights.
        total: The sum of their values, weighted.
    """

    n: int = 0
    weight: float = 0.0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean value, None without a query."""
        return self.total / self.weight if self.weight else None


def check_slices(by: Sequence[str]) -> None:
    """Raise SpecError if there are no slices that could contribute."""
    if not by:
        raise SpecError("contributions need segments; name them with by (--by country; --segment)")


def slices_query(pairing: Pairing) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system, segment and metric."""
    weighted = "" if pairing.weight == "1e0" else " * weight"
    metrics = [
        {
            "columns": [
                Column(literal(measure.name), "metric"),
                Column(str(measure.k or 0), "k"),
                Column(measure.column, "metric_value"),
            ],
            "value": measure.column,
        }
        for measure in pairing.measures
    ]
    facts = ["system", *map(segment, pairing.by), *(["weight"] if weighted else [])]
    total = pairing.plan.translation.total
    sums = [
        Column("count(*)", "n"),
        Column(total(pairing.weight), "weight"),
        Column(total(f"metric_value{weighted}"), "total"),
    ]
    stages = [
        *pairing.query_values(),
        Stage("system_values", "comparison/system_values", {"shared": facts, "metrics": metrics}),
        segments_stage(
            "slices",
            "one row per system, segment and metric: the sums behind its mean",
            (["system"], [*METRIC]),
            sums,
            "system_values",
            segments=pairing.segments,
        ),
    ]
    return stages, "select *\nfrom slices"


def contributions_of(
    statements: Statements, pairing: Pairing, options: Options, sums: Sums
) -> tuple[list[Row], list[str]]:
    """What each slice adds, and what should be said of that; nothing unless asked for.

    Args:
        statements: The statements of the comparison.
        pairing: What is compared.
        options: What is asked.
        sums: What came out of the warehouse.
    """
    if not options.contributions:
        return [], []
    has_unpaired = any(
        int(sums.counts.get(side, {}).get(measure.column) or 0) != pairs.n
        for measure in pairing.measures
        for system in pairing.systems
        if (pairs := sums.moments.get((system, ALL, ALL, measure.name, measure.k or 0)))
        for side in (system, pairing.baseline)
    )
    return contributions(
        pairing, sums, statements.rows(*slices_query(pairing)) if has_unpaired else []
    )


def contributions(
    pairing: Pairing, sums: Sums, slices: Sequence[Mapping[str, Any]]
) -> tuple[list[Row], list[str]]:
    """A row per metric, system and slice, and what should be said of them.

    Args:
        pairing: What is compared.
        sums: What came out of the warehouse.
        slices: The rows of `slices_query`; none if all queries have both systems.
    """
    alone = {
        key_of(row): Part(int(row["n"]), float(row["weight"]), float(row["total"]))
        for row in slices
    }
    slice_rows: list[Row] = []
    notes: list[str] = []
    for name in pairing.by:
        for system in pairing.systems:
            for measure in pairing.measures:
                rows = _slices(pairing, sums, alone, (name, system, measure))
                slice_rows += rows
                notes += _paradox(rows, SIGNS[measure.metric.better])
    return slice_rows, notes


def _slices(
    pairing: Pairing, sums: Sums, alone: Mapping[Key, Part], combination: tuple[str, str, Measure]
) -> list[Row]:
    """The slices of one segment, system and metric, the largest contributions first."""
    name, system, measure = combination
    last = (measure.name, measure.k or 0)
    pairs = {
        key[2]: moments
        for key, moments in sums.moments.items()
        if key[:2] == (system, name) and key[3:] == last
    }
    overall = sums.moments.get((system, ALL, ALL, *last))
    if overall is None:
        return []
    parts = _paired(pairs)
    if alone:
        system_parts, baseline_parts = (
            {k[2]: part for k, part in alone.items() if k[:2] == (side, name) and k[3:] == last}
            for side in (system, pairing.baseline)
        )
        parts = {
            value: (system_parts.get(value, Part()), baseline_parts.get(value, Part()))
            for value in system_parts | baseline_parts
        }
    keys = {
        "metric": str(measure),
        "system": system,
        "baseline": pairing.baseline,
        "segment_name": name,
    }
    shrunk = _shrunk_differences(overall, pairs)
    rows = [
        {**keys, **row, "shrunk_difference": shrunk.get(row["segment_value"])}
        for row in _rows(parts, pairs)
    ]
    return sorted(rows, key=lambda row: (-abs(row["contribution"]), row["segment_value"]))


def _paired(pairs: Mapping[str, Moments]) -> dict[str, tuple[Part, Part]]:
    """What both systems have in each slice, over the queries that both have."""
    return {
        value: (
            Part(moments.n, moments.weight, moments.x),
            Part(moments.n, moments.weight, moments.y),
        )
        for value, moments in pairs.items()
    }


def _rows(parts: Mapping[str, tuple[Part, Part]], pairs: Mapping[str, Moments]) -> list[Row]:
    weights = [sum(pair[i].weight for pair in parts.values()) for i in (0, 1)]
    totals = [sum(pair[i].total for pair in parts.values()) for i in (0, 1)]
    if not all(weights):
        return []
    centre = (totals[0] / weights[0] + totals[1] / weights[1]) / 2
    return [_row(value, pair, weights, centre, pairs.get(value)) for value, pair in parts.items()]


def _row(
    value: str,
    pair: tuple[Part, Part],
    weights: Sequence[float],
    centre: float,
    paired: Moments | None,
) -> Row:
    system_part, baseline_part = pair
    p, q = system_part.weight / weights[0], baseline_part.weight / weights[1]
    means = [part.mean for part in pair]
    known_means = [mean for mean in means if mean is not None]
    m, b = (
        (mean if mean is not None else known_means[0] for mean in means)
        if known_means
        else (0.0, 0.0)
    )
    same = paired is not None and system_part.n == baseline_part.n == paired.n
    difference = paired.difference if same and paired else m - b
    rate, mix = (p + q) / 2 * difference, (p - q) * ((m + b) / 2 - centre)
    return {
        "segment_value": value,
        "n": system_part.n,
        "n_baseline": baseline_part.n,
        "share": p,
        "baseline_share": q,
        "value": means[0],
        "baseline_value": means[1],
        "difference": difference if None not in means else None,
        "contribution": rate + mix,
        "rate": rate,
        "mix": mix,
    }


def _shrunk_differences(overall: Moments, pairs: Mapping[str, Moments]) -> dict[str, float]:
    """The slices' differences, pulled towards that of all; none if all noise is unknown.

    The noise of a query or cluster is the same in all slices: what a small one by itself tells of
    it is little.
    """
    degrees = sum(moments.weight2 * (1 - 1 / moments.n_clusters) for moments in pairs.values())
    if not degrees:
        return {}
    noise = sum(moments.squares for moments in pairs.values()) / degrees
    noises = {name: noise * moments.weight2 / moments.weight**2 for name, moments in pairs.items()}
    differences = {name: moments.difference for name, moments in pairs.items()}
    shrinkage = estimated(overall.difference, list(differences.values()), list(noises.values()))
    return {name: shrinkage.shrunk(differences[name], noises[name]) for name in pairs}


def _paradox(rows: Sequence[Row], sign: int) -> Iterator[str]:
    """A sentence where each slice moved one way and the total the other way (Simpson)."""
    differences = [row["difference"] for row in rows if row["difference"] is not None]
    total = sum(row["contribution"] for row in rows)
    if len(differences) < 2 or abs(total) <= TIED:
        return
    up, down = min(differences) > TIED, max(differences) < -TIED
    if not ((up and total < 0) or (down and total > 0)):
        return
    ways = {1: ("better", "worse"), -1: ("worse", "better"), 0: ("higher", "lower")}[sign]
    slices, overall = ways if up else ways[::-1]
    mix = sum(row["mix"] for row in rows)
    first = rows[0]
    yield (
        f"{first['metric']} of {first['system']} is {slices} in every slice of "
        f"{first['segment_name']} but {overall} in total (Simpson's paradox): {mix:+.4f} of "
        f"{total:+.4f} come from which queries there were, not from their values"
    )
