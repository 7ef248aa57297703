"""Views that say what is missing: each spec's calendar, and how it stands.

Rows of all queries are enough for that: whatever has rows of a segment has them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, print_template, with_columns, with_stages
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.sql.translation import Translation


def days(translation: Translation, name_by_table: Mapping[str, str]) -> str:
    """One row per spec and calendar day from its first to its last, with those that are missing.

    Args:
        translation: The dialect.
        name_by_table: Table -> what it is called.
    """
    facts = name_by_table["facts"]
    later = translation.dialect.times.later.format(day="spans.first_date", days="numbers.number")
    counted = {"n_systems": "count(distinct system)", "n_values": "count(*)"}
    stages = [
        _of_each("done_days", facts, "the days with rows", ["metric_date"], counted),
        _spans(facts),
        Stage("digits", "jobs/digits", {}),
        Stage("numbers", "jobs/numbers", {}),
        Stage("calendar", "jobs/calendar", {"later": translation.own_text(later)}),
    ]
    return with_stages(stages, print_template("jobs/days", {}))


def status(translation: Translation, name_by_table: Mapping[str, str]) -> str:
    """One row per spec: how old it is, its last run, what has holes, and rows of unknown runs.

    The arguments are those of `days`.
    """
    facts = name_by_table["facts"]
    ages = {
        f"{end}_age": translation.expression(translation.dialect.times.age, f"spans.{end}_date")
        for end in ("first", "last")
    }
    aged = [Column(sql, name) for name, sql in ages.items()]
    stages = [
        *_metric_spans(translation, name_by_table),
        _of_each("system_days", facts, "the days of each system", ["system"], _LASTING),
        Stage("metrics_by_spec", "jobs/metrics_by_spec", {}),
        Stage("systems_by_spec", "jobs/systems_by_spec", {}),
        with_columns("aged_spans", "spans", "the days since the first and the last day", aged),
        Stage("last_runs", "jobs/last_runs", name_by_table),
        Stage("unlogged", "jobs/unlogged", name_by_table),
        Stage("specs", "jobs/specs", {}),
    ]
    return with_stages(stages, print_template("jobs/status", {}))


def retired(translation: Translation, name_by_table: Mapping[str, str]) -> str:
    """One row per spec and metric that it asks for no more, with its days.

    The arguments are those of `days`.
    """
    spec_days = _of_each(
        "spec_days", name_by_table["facts"], "the days of each spec", ["metric_date"], {}
    )
    return with_stages(
        [*_metric_spans(translation, name_by_table), spec_days], print_template("jobs/retired", {})
    )


_LASTING = {"last_date": "max(metric_date)", "n_days": "count(distinct metric_date)"}


def _metric_spans(translation: Translation, name_by_table: Mapping[str, str]) -> list[Stage]:
    """The days of each metric beside those of its spec, and what is retired."""
    span_columns = {"first_date": "min(metric_date)"} | _LASTING
    span_columns |= {"n_definitions": "count(distinct definition_hash)"}
    is_listed = translation.dialect.is_listed.format(names="asked.asked", name="metrics.name")
    return [
        _spans(name_by_table["facts"]),
        _of_each(
            "metric_days",
            name_by_table["facts"],
            "the days of each metric",
            ["metric", "k"],
            span_columns,
        ),
        Stage("asked", "jobs/asked", name_by_table),
        Stage(
            "metric_spans",
            "jobs/metric_spans",
            {**name_by_table, "is_listed": translation.own_text(is_listed)},
        ),
    ]


def _spans(facts: str) -> Stage:
    ends = {
        "first_date": "min(metric_date)",
        "last_date": "max(metric_date)",
        "n_days": "count(distinct metric_date)",
    }
    return _of_each("spans", facts, "from the first to the last day of each spec", [], ends)


def _of_each(
    name: str, facts: str, about: str, keys: Sequence[str], columns: Mapping[str, str]
) -> Stage:
    view = {
        "about": about,
        "keys": ["spec", *keys],
        "columns": [Column(sql, column) for column, sql in columns.items()],
        "from": relation(facts),
        "joins": {},
        "where": f"segment_name = {literal(ALL)}",
    }
    return Stage(name, "sums", view)
