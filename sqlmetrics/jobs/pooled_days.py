"""Views that put days together: all of them, or those up to each day, with their intervals.

A request of a click log is of one day alone. Queries, and clusters like users, may come again on
each day, and sums do not tell which did: then n days are no more evidence than one of them. Their
errors are added as if all did, which is right where all do, and too wide where some are new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from textwrap import indent
from types import MappingProxyType

from sqlmetrics.catalog.dimension import TOTAL
from sqlmetrics.evaluation.intervals import (
    BY_REQUEST,
    OWN,
    Ratio,
    Reach,
    always_reach,
    interval_stages,
    method_of,
    student_reach,
)
from sqlmetrics.jobs.schema import FACTS, TABLES
from sqlmetrics.sql.stage import Column, Stage, Window, print_template, with_columns, with_stages
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.stats.estimate import TUNED_AT

_KEYS = tuple(key for key in TABLES["facts"].key if key != "metric_date")

NO_JOINS: Mapping[str, Sequence[str]] = MappingProxyType({})

_LEVELS = (80, 90, 95, 98, 99, 99.9)
"""Intervals of requests with another coverage are taken for those of queries, which are wider."""

_OF_ONE_DAY = ",\n".join(literal(method_of(level / 100, BY_REQUEST)) for level in _LEVELS)
"""The methods of rows whose units are requests, which do not come again on another day."""

MAY_REPEAT = (
    f"case\n    when ci_method in (\n{indent(_OF_ONE_DAY, ' ' * 8)}\n    )\n    then 0\n"
    "    when ci_method is not null\n    then 1\nend"
)
"""1 for a row whose units may be those of other days too, as SQL; NULL where that is not known."""

_UNITS = {
    "n_units": "floor(1e0 * {n} / n_copies)",
    "unit_weight": "{w} / sqrt(1e0 * n_copies)",
}
"""What is independent in days together: as many units as a day has, where they may come again."""

ALWAYS = f"{100 * CONFIDENCE:g} % at all looks together, tuned at {TUNED_AT:,} queries"

_SUMS = ("sum_x2", "sum_xw", "sum_w2")


@cache
def rollup(facts: str, metrics: str, where: str = "") -> str:
    """All days together: sums over sums, totals of counts; NULL for what cannot be added up.

    Args:
        facts: The fact table.
        metrics: The table of the metrics, which says what is a count.
        where: What rows meet that are put together; empty for all.
    """
    view = {
        "about": "metrics whose days are added up",
        "columns": [Column("metric", "counted_metric"), Column("k", "counted_k")],
        "from": relation(metrics),
        "where": f"roll_up = {literal(TOTAL)}",
    }
    joins = {"counts": ["counts.counted_metric = metric", "counts.counted_k = k"]}
    total = {"total_value": "sum(case\n    when counted_metric is not null\n    then value\nend)"}
    stages = [
        Stage("counts", "columns", view),
        *_together_stages(relation(facts), _KEYS, total, where, joins),
    ]
    about = f"{100 * CONFIDENCE:g} % by Student's t, with each query counted once"
    return _select("rollup", stages, _together(OWN), about, student_reach(CONFIDENCE))


STORED_PARTS = {
    "stored_value": "value",
    "stored_low": "ci_low",
    "stored_high": "ci_high",
}
"""What a single row says itself -> its column: also of what cannot be added up."""


def rollup_by_period(facts: str, period: str, where: str) -> str:
    """The days of each period together, by each definition: sums over sums, with an interval.

    A period of one day has that day's own value and interval, also of what cannot be added up.

    Args:
        facts: The fact table.
        period: The first day of a row's period, as SQL.
        where: What rows meet that are put together.
    """
    view = {
        "about": "each row with its period",
        "columns": ["*", Column(period, "period_start")],
        "from": relation(facts),
        "where": where,
    }
    alone = {
        name: f"case\n    when count(*) = 1\n    then max({column})\nend"
        for name, column in STORED_PARTS.items()
    }
    alone |= {"total_value": "sum(value)", "computed_at": "max(computed_at)"}
    keys = (*_KEYS, "definition_hash", "period_start")
    rows = Stage("period_rows", "columns", view)
    stages = [rows, *_together_stages("period_rows", keys, alone, "")]
    about = f"{100 * CONFIDENCE:g} % by Student's t, with each query counted once"
    return _select("rollup_by_period", stages, _together(OWN), about, student_reach(CONFIDENCE))


def _together_stages(
    source: str,
    keys: Sequence[str],
    more_sums: Mapping[str, str],
    where: str,
    joins: Mapping[str, Sequence[str]] = NO_JOINS,
) -> list[Stage]:
    """The stages of days together: their sums, and the ratios of these."""
    sums = {name: f"sum({name})" for name in ("numerator", "denominator")}
    # sums of bigint are wider types, which tools read as floats or texts
    sums |= {name: f"cast(sum({name}) as bigint)" for name in _COUNTED}
    sums |= {"first_date": "min(metric_date)", "last_date": "max(metric_date)"}
    has_all_sums = "count(sum_x2) = count(numerator)"  # without them no interval
    sums |= {
        "n_days": "count(*)",
        "n_clusters": f"case when {has_all_sums} then sum(n_clusters) end",
    }
    sums |= {name: f"sum({name})" for name in _SUMS}
    sums["n_copies"] = _copies()
    view = {
        "about": "all days together: sum / sum; NULL for metrics that cannot be added up",
        "keys": keys,
        "columns": [Column(sql, name) for name, sql in {**sums, **more_sums}.items()],
        "from": source,
        "joins": joins,
        "where": where,
    }
    ratio = {"value": "numerator / nullif(denominator, 0e0)", **_units(OWN)}
    return [Stage("all_days", "sums", view), _with("ratios", "all_days", ratio, "the mean")]


def _copies(over: str = "") -> str:
    """How often a unit may stand in days together; the days may be those of a window."""
    repeats = f"max(\n{indent(MAY_REPEAT, '    ')}\n){over}"
    lines = [
        f"when coalesce(\n{indent(repeats, '    ')},\n    1\n) = 1",
        f"then count(*){over}",
        "else 1",
    ]
    return "case\n" + indent("\n".join(lines), "    ") + "\nend"


def _units(ratio: Ratio) -> dict[str, str]:
    """The columns of a ratio's independent units."""
    return {name: sql.format(n=ratio.n, w=ratio.w) for name, sql in _UNITS.items()}


def _together(ratio: Ratio) -> Ratio:
    """The ratio with the units of days together."""
    return replace(ratio, n="n_units", w="unit_weight")


ROLLUP: Mapping[str, str] = {
    **{name: FACTS[name].type for name in (*_KEYS, "value", "numerator", "denominator")},
    **{name: FACTS[name].type for name in ("n_queries", "n_skipped", "n_missing")},
    **dict.fromkeys(("first_date", "last_date"), FACTS["metric_date"].type),
    "n_days": "bigint",
    **{name: FACTS[name].type for name in ("ci_low", "ci_high")},
}
"""What it gives, with the types."""

_COUNTED = ("n_queries", "n_skipped", "n_missing")


@cache
def running(facts: str) -> str:
    """Each day with all days before it, and an always-valid interval."""
    names = ["n_clusters", "n_queries", "numerator", "denominator", *_SUMS]
    stages = [
        _days_so_far(
            facts,
            (*_KEYS, "definition_hash"),
            {name: name for name in names},
            [],
            where="sum_x2 is not null",
        ),
        _with(
            "ratios",
            "days_so_far",
            {"value": "numerator / nullif(denominator, 0e0)", **_units(OWN)},
            "the mean of all days so far, and the number of independent units",
        ),
    ]
    return _select("running", stages, _together(OWN), ALWAYS, always_reach(CONFIDENCE))


RUNNING = Ratio("running_difference", "all_w", "all_clusters", "all_d2", "all_dw", "all_w2")


@cache
def comparison(facts: str) -> str:
    """Each day beside the baseline, and with all days before it."""
    sums = {"all_clusters": "pair_clusters", "all_w": "pair_w", "all_w2": "pair_w2"}
    sums |= {"all_d": "sum_d", "all_d2": "sum_d2", "all_dw": "sum_dw"}
    keys = (*_KEYS, "baseline", "definition_hash")
    day_columns = ["sum_y", "pair_w", "n_pairs", "difference", "difference_low", "difference_high"]
    means = {
        "value": "difference + sum_y / nullif(pair_w, 0e0)",
        "baseline_value": "sum_y / nullif(pair_w, 0e0)",
        "running_difference": "all_d / nullif(all_w, 0e0)",
        **_units(RUNNING),
    }
    stages = [
        _days_so_far(facts, keys, sums, day_columns, where="baseline is not null"),
        _with("ratios", "days_so_far", means, "means over the queries that both have"),
    ]
    return _select("comparison", stages, _together(RUNNING), ALWAYS, always_reach(CONFIDENCE))


_COUNTS = ("n_clusters", "all_clusters", "n_queries")
"""Sums that are whole numbers."""


def _days_so_far(
    facts: str,
    keys: Sequence[str],
    sums: Mapping[str, str],
    day_columns: Sequence[str],
    *,
    where: str,
) -> Stage:
    """Each day with the sums of all days up to it, of the same definition."""
    window = Window(keys, ["metric_date asc"], "unbounded preceding")
    columns: list[object] = [*keys, "metric_date", *day_columns]
    columns.append(Column(f"min(metric_date) over {window}", "first_date"))
    columns.append(Column(f"count(*) over {window}", "n_days"))
    columns.append(Column(_copies(f" over {window}"), "n_copies"))
    for name, column in sums.items():
        total = f"sum({column}) over {window}"
        columns.append(Column(f"cast({total} as bigint)" if name in _COUNTS else total, name))
    view = {
        "about": "each day with the sums of all days so far, with the same definition",
        "columns": columns,
        "from": relation(facts),
        "where": where,
    }
    return Stage("days_so_far", "columns", view)


def _with(name: str, source: str, added: Mapping[str, str], about: str) -> Stage:
    return with_columns(name, source, about, (Column(sql, column) for column, sql in added.items()))


def _select(view: str, stages: Sequence[Stage], ratio: Ratio, about: str, reach: Reach) -> str:
    intervals = interval_stages("ratios", {"": ratio}, about, reach)
    return with_stages([*stages, *intervals], print_template(f"jobs/{view}", {}))
