"""Views that put days together: all of them, or those up to each day, with their intervals.

Queries of different days are taken for independent draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from sqlmetrics.evaluation.distributions.always_valid import TUNED_AT
from sqlmetrics.evaluation.intervals import (
    OWN,
    Ratio,
    Reach,
    always_reach,
    interval_stages,
    student_reach,
)
from sqlmetrics.sql.stage import Column, Stage, Window, print_template, with_columns, with_stages
from sqlmetrics.sql.template import relation

LEVEL = 0.95
"""The coverage of the intervals in views, whatever those in the fact table have."""

_KEYS = ("spec", "system", "segment_name", "segment_value", "metric", "k")

ALWAYS = f"{100 * LEVEL:g} % at all looks together, tuned at {TUNED_AT:,} queries"

_SUMS = ("sum_x2", "sum_xw", "sum_w2")


@cache
def rollup(facts: str, where: str = "") -> str:
    """All days together: sums over sums; NULL for what cannot be added up.

    Args:
        facts: The fact table.
        where: What rows meet that are put together; empty for all.
    """
    sums = {name: f"sum({name})" for name in ("numerator", "denominator", *_COUNTED)}
    sums |= {"first_date": "min(metric_date)", "last_date": "max(metric_date)"}
    whole = "count(sum_x2) = count(numerator)"  # days of an older version have no such sums
    sums |= {"n_days": "count(*)", "n_clusters": f"case when {whole} then sum(n_clusters) end"}
    sums |= {name: f"sum({name})" for name in _SUMS}
    view = {
        "about": "days together: sums over sums; NULL for what cannot be added up",
        "keys": _KEYS,
        "columns": [Column(sql, name) for name, sql in sums.items()],
        "from": relation(facts),
        "joins": {},
        "where": where,
    }
    ratio = {"value": "numerator / nullif(denominator, 0e0)"}
    stages = [Stage("all_days", "sums", view), _with("ratios", "all_days", ratio, "the mean")]
    about = f"{100 * LEVEL:g} % by Student's t; days are taken for independent"
    return _select("rollup", stages, OWN, about, student_reach(LEVEL))


ROLLUP: Mapping[str, str] = {
    **dict.fromkeys(_KEYS[:-1], "varchar"),
    "k": "integer",
    **dict.fromkeys(("value", "numerator", "denominator"), "double"),
    **dict.fromkeys(("n_queries", "n_skipped", "n_missing"), "bigint"),
    **dict.fromkeys(("first_date", "last_date"), "date"),
    "n_days": "bigint",
    **dict.fromkeys(("ci_low", "ci_high"), "double"),
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
            {"value": "numerator / nullif(denominator, 0e0)"},
            "the mean of all days so far",
        ),
    ]
    return _select("running", stages, OWN, ALWAYS, always_reach(LEVEL))


RUNNING = Ratio("running_difference", "all_w", "all_clusters", "all_d2", "all_dw", "all_w2")


@cache
def comparison(facts: str) -> str:
    """Each day beside the baseline, and with all days before it."""
    sums = {"all_clusters": "pair_clusters", "all_w": "pair_w", "all_w2": "pair_w2"}
    sums |= {"all_d": "sum_d", "all_d2": "sum_d2", "all_dw": "sum_dw"}
    keys = (*_KEYS, "baseline", "definition_hash")
    own = ["sum_y", "pair_w", "n_pairs", "difference", "difference_low", "difference_high"]
    means = {
        "value": "difference + sum_y / nullif(pair_w, 0e0)",
        "baseline_value": "sum_y / nullif(pair_w, 0e0)",
        "running_difference": "all_d / nullif(all_w, 0e0)",
    }
    stages = [
        _days_so_far(facts, keys, sums, own, where="baseline is not null"),
        _with("ratios", "days_so_far", means, "means over the queries that both have"),
    ]
    return _select("comparison", stages, RUNNING, ALWAYS, always_reach(LEVEL))


_WHOLE = ("n_clusters", "all_clusters", "n_queries")
"""Sums that are whole numbers."""


def _days_so_far(
    facts: str, keys: Sequence[str], sums: Mapping[str, str], own: Sequence[str], *, where: str
) -> Stage:
    """Each day with the sums of all days up to it, of the same definition."""
    window = Window(keys, ["metric_date asc"], "unbounded preceding")
    columns: list[object] = [*keys, "metric_date", *own]
    columns.append(Column(f"min(metric_date) over {window}", "first_date"))
    columns.append(Column(f"count(*) over {window}", "n_days"))
    for name, column in sums.items():
        total = f"sum({column}) over {window}"
        columns.append(Column(f"cast({total} as bigint)" if name in _WHOLE else total, name))
    view = {
        "about": "each day with the sums of all days up to it, of the same definition",
        "columns": columns,
        "from": relation(facts),
        "where": where,
    }
    return Stage("days_so_far", "columns", view)


def _with(name: str, source: str, added: Mapping[str, str], about: str) -> Stage:
    return with_columns(name, source, about, (Column(sql, own) for own, sql in added.items()))


def _select(view: str, stages: Sequence[Stage], of: Ratio, about: str, reach: Reach) -> str:
    intervals = interval_stages("ratios", {"": of}, about, reach)
    return with_stages([*stages, *intervals], print_template(f"jobs/{view}", {}))
