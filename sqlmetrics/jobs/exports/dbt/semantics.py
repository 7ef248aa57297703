"""A semantic model: each metric as a sum over a sum, in the words of a version of dbt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlmetrics.catalog.dimension import NEVER, TOTAL, MetricRow
from sqlmetrics.jobs.definitions import described
from sqlmetrics.jobs.exports.dbt.naming import MADE, Project, commented, escaped, word
from sqlmetrics.jobs.exports.yaml_text import yaml_text
from sqlmetrics.jobs.schema import TABLES
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.template import literal

VERSIONS = ("1.11", "1.12")
"""1.11 stands for 1.10, too; 1.12 has another form, which those before it do not read."""

SPINE = "sqlmetrics_days"
"""The model of the time spine, and the var that turns it off."""

_DAYS = {
    "duckdb": """\
select cast(range as date) as date_day
from range(date '2020-01-01', date '2040-01-01', interval 1 day)
""",
    "postgres": """\
select cast(day as date) as date_day
from generate_series(date '2020-01-01', date '2039-12-31', interval '1 day') as days(day)
""",
    "snowflake": """\
select dateadd('day', row_number() over (order by seq4()) - 1, to_date('2020-01-01')) as date_day
from table(generator(rowcount => 7305))
""",
    "bigquery": """\
select date_day
from unnest(generate_date_array('2020-01-01', '2039-12-31')) as date_day
""",
}
"""Dialect -> one row per day."""


@dataclass(frozen=True)
class RolledUp:
    """A metric of a segment, as sums of the fact table's rows.

    Attributes:
        name: Its name in the project.
        label: For people.
        sums: What is summed: name -> expression; a ratio has two, the numerator first.
        about: What it is.
    """

    name: str
    label: str
    sums: Mapping[str, str]
    about: str


def rolled_up(project: Project) -> Iterator[RolledUp]:
    """Every metric that can be rolled up, of all queries and by each segment."""
    spec = project.job.spec
    for row in described(spec):
        if row.roll_up == NEVER:
            continue
        for segment in (ALL, *spec.by):
            yield _of_segment(project, row, segment)


def _of_segment(project: Project, row: MetricRow, segment: str) -> RolledUp:
    suffix = "" if segment == ALL else f"_by_{word(segment)}"
    name = re.sub("__+", "_", f"{project.source}_{word(row.column)}{suffix}").strip("_")
    where = (
        f"spec = {literal(project.job.spec.title)} and segment_name = {literal(segment)} "
        f"and metric = {literal(row.metric)} and k = {row.k}"
    )
    parts = ("value",) if row.roll_up == TOTAL else ("numerator", "denominator")
    sums = {f"{name}_{part}": escaped(f"case when {where} then {part} end") for part in parts}
    roll_up = "sum(value)" if row.roll_up == TOTAL else "sum(numerator) / sum(denominator)"
    by_segment = "" if segment == ALL else f" by {segment}: group by segment_value"
    about = f"{row.label}{by_segment}. {row.meaning}. Rolled up as {roll_up}."
    label = f"{row.name}{by_segment and f' by {segment}'} ({project.job.spec.title})"
    return RolledUp(name, escaped(label), sums, escaped(about))


def semantics(project: Project, version: str, origin: str = MADE) -> Iterator[tuple[str, str]]:
    """Path -> text: the days that a semantic layer needs, and until 1.11 the metrics.

    A project has one time spine: the files of all specs in it are the same.

    Args:
        project: The names in the project.
        version: One of VERSIONS.
        origin: What each file says of where it comes from.
    """
    about = "One row per day, for MetricFlow; a project with a time spine of its own says"
    head = commented(origin, about, f"vars: {{{SPINE}: false}}")
    config = f"{{{{ config(materialized='table', enabled=var('{SPINE}', true)) }}}}\n\n"
    days = _DAYS[project.job.at.dialect.name]
    yield f"models/{SPINE}/{SPINE}.sql", head + config + days
    spine = {
        "name": SPINE,
        "description": "One row per day.",
        "time_spine": {"standard_granularity_column": "date_day"},
        "columns": [{"name": "date_day", "description": "The day.", "granularity": "day"}],
    }
    yield f"models/{SPINE}/_{SPINE}.yml", yaml_text({"version": 2, "models": [spine]}, origin)
    metrics = list(rolled_up(project))
    if version == "1.11" and metrics:
        document = {
            "version": 2,
            "semantic_models": [_semantic_model(project, metrics)],
            "metrics": [entry for metric in metrics for entry in _old_metrics(metric)],
        }
        yield f"models/{project.model}/_{project.model}_semantics.yml", yaml_text(document, origin)


def entity(project: Project) -> str:
    """The primary key of the fact table as an entity, whose name no other model has."""
    return f"{project.model}_row"


def dimensions() -> dict[str, dict[str, Any]]:
    """Column -> what it is to a semantic layer; a name has two letters at least."""
    keys = (key for key in TABLES["facts"].key if key != "metric_date")
    plain: dict[str, Any] = {"type": "categorical"}
    return dict.fromkeys(keys, plain) | {"k": {"type": "categorical", "name": "cutoff"}}


def _semantic_model(project: Project, metrics: list[RolledUp]) -> dict[str, Any]:
    text = project.job.at.dialect.types.get("varchar") or project.job.at.type("varchar")
    key_texts = [
        f"cast({key} as {text})" if key in ("metric_date", "k") else key
        for key in TABLES["facts"].key
    ]
    time = {"name": "metric_date", "type": "time", "type_params": {"time_granularity": "day"}}
    return {
        "name": project.model,
        "description": "Ranking metrics; each measure is of one metric and segment.",
        "model": f"ref('{project.model}')",
        "defaults": {"agg_time_dimension": "metric_date"},
        "entities": [
            {"name": entity(project), "type": "primary", "expr": " || '|' || ".join(key_texts)}
        ],
        "dimensions": [time, *(_old_dimension(*dimension) for dimension in dimensions().items())],
        "measures": [
            {"name": name, "agg": "sum", "expr": expression}
            for metric in metrics
            for name, expression in metric.sums.items()
        ],
    }


def _old_dimension(column: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    name = fields.get("name", column)
    expression = {"expr": column} if name != column else {}
    return {"name": name, "type": fields["type"], **expression}


def _old_metrics(metric: RolledUp) -> Iterator[dict[str, Any]]:
    """A metric until 1.11: the sums are measures of the semantic model."""
    fields = {"name": metric.name, "label": metric.label, "description": metric.about}
    if len(metric.sums) == 1:
        (measure,) = metric.sums
        yield {**fields, "type": "simple", "type_params": {"measure": measure}}
        return
    for name in metric.sums:
        label = f"{metric.label} {name.rsplit('_', 1)[1]}"
        part = {"name": name, "label": label, "description": f"A part of {metric.name}."}
        yield {**part, "type": "simple", "type_params": {"measure": name}}
    numerator, denominator = metric.sums
    yield {
        **fields,
        "type": "ratio",
        "type_params": {"numerator": numerator, "denominator": denominator},
    }


def new_metrics(metrics: list[RolledUp]) -> Iterator[dict[str, Any]]:
    """Metrics since 1.12, which stand in the model itself."""
    for metric in metrics:
        fields = {"name": metric.name, "label": metric.label, "description": metric.about}
        if len(metric.sums) == 1:
            ((_, expression),) = metric.sums.items()
            yield {**fields, "type": "simple", "agg": "sum", "expr": expression}
            continue
        for name, expression in metric.sums.items():
            label = f"{metric.label} {name.rsplit('_', 1)[1]}"
            part = {"name": name, "label": label, "description": f"A part of {metric.name}."}
            yield {**part, "type": "simple", "agg": "sum", "expr": expression}
        numerator, denominator = metric.sums
        yield {**fields, "type": "ratio", "numerator": numerator, "denominator": denominator}
