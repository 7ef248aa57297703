"""Systems or periods compared by the numbers that runs have written; nothing is evaluated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.fact_table import (
    REPEATED,
    UNKNOWN,
    have_repeats,
    paired_numbers,
    unpaired_numbers,
)
from sqlmetrics.comparison.periods import Period, compared_periods
from sqlmetrics.comparison.report import Comparison, check_interval, worst_slices
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.jobs.definitions import described, these
from sqlmetrics.jobs.reading import StoredTable
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.reading import AnySpec, spec_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import relation
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.tabular import Row

MOST_ROWS = 100_000
"""As many rows of the fact table are read at most."""

PERIODS_NOTE = (
    "periods are compared by their means, with Welch's interval; queries that appear in both "
    "periods would make it narrower"
)

RowKey = tuple[str, str, str]
"""Segment, its value and metric."""


@dataclass(frozen=True)
class Side:
    """The rows of a system or period.

    Attributes:
        name: What it is called in the comparison.
        rows: Of each place, a row a day.
    """

    name: str
    rows: Mapping[RowKey, Sequence[Row]]


def compare_stored(
    spec: AnySpec,
    connection: Any,
    metrics: str | Sequence[str] = (),
    *,
    systems: str | Sequence[str] = (),
    baseline: str | None = None,
    start: str | date | None = None,
    end: str | date | None = None,
    dates: str | Sequence[str | date] = (),
    by: str | Sequence[str] = (),
    level: float = CONFIDENCE,
    margin: float = 0.0,
) -> Comparison:
    """Compare systems, or periods of one system, by the numbers that `run` has stored.

    Nothing is evaluated. Differences are computed over pairs of queries if the table has them,
    which takes a `baseline` in the spec; else they are differences of means, with Welch's interval.
    Metrics without sums (auc, coverage, gini), and metrics whose days have several definitions, are
    left out, with a note.

    Args:
        spec: The spec of the run, with its `output`: its path, a `Spec` or a dict of its keys.
        connection: The database that holds its tables; see `connect`.
        metrics: Metrics such as `ndcg@10`. Default: all metrics of the spec in the table.
        systems: The systems to compare; with `dates`, the one system. Default: all.
        baseline: The system that the others are compared with. Default: as for `compare`.
        start: The first day. Default: the first day of the table.
        end: The day after the last one. Default: all days of the table.
        dates: Two or more days of one system, or periods like `2026-11-01..2026-11-07`; the first
            is the baseline.
        by: Segments to compare as well, value by value.
        level: The confidence level of the intervals.
        margin: The largest difference that does not matter, in the unit of the metrics.

    Returns:
        The comparison, as `compare` returns it, but without counts of wins, ties and losses.

    Raises:
        SpecError: If there are fewer than two systems or periods, or no row has a given name.
        NoDataError: If the table has no row of the spec, or none of these days.
        EngineError: If the database fails.
    """
    spec = spec_of(spec)
    check_interval(level, margin)
    zone = zone_of_days(spec)
    periods = compared_periods(dates, zone, days=start or end)
    options = Options(
        metrics=metric_texts(metrics),
        days=days_between(start, end, zone),
        systems=(systems,) if isinstance(systems, str) else tuple(systems),
        baseline=baseline,
        level=level,
        margin=margin,
        by=(by,) if isinstance(by, str) else tuple(by),
        dates=periods,
    )
    with connect(connection) as engine:
        table = StoredTable(spec, engine)
        table.check()
        table.check_systems((*options.systems, *([baseline] if baseline else [])))
        for segment in options.by:
            table.check_segment(segment)
        stored, sql = _read(table, options)
        old, new_sides, rule = (
            _periods(table, options, stored) if periods else _systems(table, options, stored)
        )
        repeats = have_repeats(spec, "\n    and ".join(table.conditions(options.all_days)), engine)
    comparison = _compared(spec, options, old, new_sides, repeats=repeats is not False)
    n_days = len({str(row["metric_date"])[:10] for row in stored})
    about_repeats = {True: [REPEATED], None: [UNKNOWN], False: []}[n_days > 1 and repeats]
    notes = [f"the numbers come from the fact table {table.name}; nothing was recomputed", *rule]
    return replace(comparison, executed_sql=sql, notes=(*notes, *about_repeats, *comparison.notes))


def _read(table: StoredTable, options: Options) -> tuple[list[Row], str]:
    """The rows of the fact table that are looked at, and the statement."""
    days = options.all_days
    table.days_in(days)
    keys = these(table.metric_keys(options.metrics))
    conditions = table.conditions(days, segment_name=(ALL, *options.by))
    where = "\n    and ".join([*conditions, f"(\n    {keys}\n)"])
    text = f"select *\nfrom {relation(table.name)}\nwhere {where}\nlimit {MOST_ROWS + 1}"
    rows = table.engine.records(text)
    if len(rows) > MOST_ROWS:
        raise SpecError(
            f"the question covers more than {MOST_ROWS:,} rows of {table.name}; name fewer days, "
            "metrics or segments"
        )
    return rows, f"{table.engine.translation.text(text).rstrip()};\n"


def _systems(
    table: StoredTable, options: Options, rows: Sequence[Row]
) -> tuple[Side, list[Side], list[str]]:
    """The baseline, what is compared with it, and how it was chosen."""
    existing = sorted({str(row["system"]) for row in rows})
    chosen = options.baseline or table.spec.baseline
    by_name, rule = usual_baseline([*options.systems] or existing)
    baseline = chosen if chosen in existing else by_name
    names = [name for name in (options.systems or existing) if name != baseline]
    if not names:
        raise SpecError(
            f"there is only one system to compare, {baseline}; name two periods (dates), or "
            f"systems with rows on these days; known: {', '.join(table.systems)}"
        )

    def of_system(name: str) -> Side:
        return _side(name, rows, lambda row: bool(row["system"] == name))

    sides = [of_system(name) for name in (baseline, *names)]
    return sides[0], sides[1:], [] if baseline == chosen else [rule]


def _periods(
    table: StoredTable, options: Options, rows: Sequence[Row]
) -> tuple[Side, list[Side], list[str]]:
    """The first period, the other ones, and what is to be known of them."""
    systems = options.systems or tuple(table.systems)
    if len(systems) != 1:
        raise SpecError(
            f"periods compare one system with itself; name one; known: {', '.join(systems)}"
        )
    for period in options.dates:
        table.days_in(period.days)

    def of_period(period: Period) -> Side:
        return _side(
            period.name,
            rows,
            lambda row: row["system"] == systems[0] and _is_in(row, period.days),
        )

    sides = [of_period(period) for period in options.dates]
    return sides[0], sides[1:], [f"the system is {systems[0]}", PERIODS_NOTE]


def _is_in(row: Row, days: Days) -> bool:
    day = day_of(row["metric_date"])
    return (days.start is None or day >= days.start) and (days.end is None or day < days.end)


def _side(name: str, rows: Sequence[Row], is_of_side: Callable[[Row], bool]) -> Side:
    places: dict[RowKey, list[Row]] = {}
    for row in rows:
        if is_of_side(row):
            metric = at_cutoff(row["metric"], int(row["k"]))
            key = (str(row["segment_name"]), str(row["segment_value"]), metric)
            places.setdefault(key, []).append(row)
    return Side(name, places)


def _compared(
    spec: Spec, options: Options, old: Side, new_sides: Sequence[Side], *, repeats: bool
) -> Comparison:
    metrics = {metric.name: metric for metric in described(spec)}
    order = {name: number for number, name in enumerate(metrics)}
    rows, notes = list[Row](), dict[str, None]()
    for side in new_sides:
        for key, new_rows in side.rows.items():
            metric = metrics.get(key[2])
            old_rows = old.rows.get(key, ())
            if metric is None:
                notes[f"{key[2]} is not compared: the spec no longer has it"] = None
            elif problem := _problem(key[2], [*old_rows, *new_rows]):
                notes[problem] = None
            elif row := _row(side, old, key, paired=not options.dates, repeats=repeats):
                name = metric.metric.partition("(")[0]
                rows.append(row | {"name": name, "direction": SIGNS[metric.direction]})
    if not rows:
        raise SpecError(f"no metric can be compared: {'; '.join(notes) or 'no rows are left'}")
    rows.sort(
        key=lambda row: (
            row["segment_name"] != ALL,
            row["segment_name"],
            row["segment_value"],
            row["system"],
            order[row["metric"]],
        )
    )
    findings.decided(rows, options, findings.counted(spec))
    return Comparison(
        rows=tuple(rows),
        baseline=old.name,
        level=options.level,
        margin=options.margin,
        test=rows[0]["test"],
        interval=findings.interval_name("t"),
        cluster=None,
        notes=(*notes,),
        executed_sql="",
        worse_slices=tuple(worst_slices(rows)),
        counted=findings.counted(spec),
        spec=spec.title,
        days=str(options.days or ""),
        preset=spec.preset,
    )


def _problem(metric: str, rows: Sequence[Row]) -> str:
    """Why the numbers of a metric are not compared; empty if they are."""
    hashes = sorted({row["definition_hash"] for row in rows})
    if len(hashes) > 1:
        return (
            f"{metric} is not compared: {len(hashes)} definitions computed its days, "
            f"{', '.join(hashes)}"
        )
    if any(row["numerator"] is None for row in rows):
        return (
            f"{metric} is not compared: it is not a mean of queries, so the table has no sums of it"
        )
    return ""


def _row(new: Side, old: Side, key: RowKey, *, paired: bool, repeats: bool) -> Row | None:
    """A difference as a comparison has it; None where there is none."""
    new_rows, old_rows = new.rows[key], old.rows.get(key, ())
    numbers = paired_numbers(new_rows, old.name, repeats=repeats) if paired else None
    is_paired = numbers is not None
    numbers = numbers or unpaired_numbers(new_rows, old_rows, repeats=repeats)
    if numbers is None:
        return None
    value, before, estimate, n, test = numbers
    counts = [int(row["n_queries"]) for row in old_rows]
    is_same = estimate.standard_error == 0 and not estimate.value
    days = sorted(day_of(row["metric_date"]) for row in new_rows)
    return {
        **findings.NOTHING,
        "system": new.name,
        "baseline": old.name,
        "segment_name": key[0],
        "segment_value": key[1],
        "metric": key[2],
        "value": value,
        "baseline_value": before,
        "difference": estimate.value,
        "relative": estimate.value / abs(before) if before else None,
        "statistic": estimate,
        "p_value": 1.0 if is_same else estimate.p_value(),
        "n": n,
        "n_baseline": n if is_paired else max(counts) if repeats else sum(counts),
        "test": test,
        "definition_hash": new_rows[0]["definition_hash"],
        "first_date": days[0],
        "last_date": days[-1],
        "n_days": len(days),
    }
