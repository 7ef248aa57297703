"""The YAML of a dbt project: contract, keys and meanings; sources; unit test; exposure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlmetrics.jobs.definitions import described
from sqlmetrics.jobs.exports.dbt.naming import MADE, Project, escaped, word
from sqlmetrics.jobs.exports.dbt.semantics import dimensions, entity, new_metrics, rolled_up
from sqlmetrics.jobs.exports.example_rows import example_rows
from sqlmetrics.jobs.exports.inputs import COUNTERFACTUAL, Input
from sqlmetrics.jobs.exports.questions import left_to_check
from sqlmetrics.jobs.exports.yaml_text import Flow, yaml_text
from sqlmetrics.jobs.schema import TABLES

_TYPES = {"double precision": "double precision", "integer": "int"}
"""How a contract has types that a dialect writes otherwise."""


def sources(project: Project) -> Iterator[tuple[str, str]]:
    """Path -> text of the file of sources, if there are any."""
    groups: dict[str, list[Input]] = {}
    for job_input in project.job.inputs:
        if not project.is_ref(job_input):
            groups.setdefault(project.source_of(job_input), []).append(job_input)
    if not groups:
        return
    source_entries = [_source(project, name, inputs) for name, inputs in groups.items()]
    text = yaml_text({"version": 2, "sources": source_entries}, MADE)
    yield f"models/{project.model}/_{project.model}_sources.yml", text


def _source(project: Project, name: str, inputs: list[Input]) -> dict[str, Any]:
    *database, schema = inputs[0].name[:-1] or ("{{ target.schema }}",)
    return {
        "name": name,
        "description": escaped(f"What the spec {project.job.spec.title} reads."),
        **({"database": database[-1]} if database else {}),
        "schema": schema,
        "tables": [
            _table(project, job_input)
            for job_input in {job_input.name[-1]: job_input for job_input in inputs}.values()
        ],
    }


_INPUTS = {
    "rankings": "One row per ranked item.",
    "labels": "One row per labelled item.",
    "queries": "What is known of queries.",
    "items": "What is known of items.",
    "impressions": "One row per item that was shown.",
    "events": "One row per thing done with an item.",
    "log": "What was shown, and what was done with it.",
    "requests": "One row per search.",
    COUNTERFACTUAL: "Rankings, or a policy, that were not shown.",
}


def _table(project: Project, job_input: Input) -> dict[str, Any]:
    table_name = job_input.name[-1]
    entry: dict[str, Any] = {"name": word(table_name), "description": _INPUTS[job_input.role]}
    if word(table_name) != table_name:
        entry["identifier"] = table_name
    columns = job_input.source.columns.model_dump()
    column = columns.get("date") or columns.get("time")
    if job_input.role in ("rankings", "impressions", "log") and isinstance(column, str):
        entry["config"] = {
            "loaded_at_field": f"cast({project.job.at.column(column)} as timestamp)",
            "freshness": {"warn_after": {"count": 2, "period": "day"}},
        }
    return entry


def properties(project: Project, version: str) -> Iterator[tuple[str, str]]:
    """Path -> text of the file of models, unit tests and the exposure."""
    job = project.job
    models = [_model(project, table, version) for table in job.tables]
    for job_input in job.inputs:
        if not job_input.name:
            about = f"What the spec reads as {job_input.role}."
            models.append({"name": project.made_model(job_input), "description": about})
    document: dict[str, Any] = {"version": 2, "models": models}
    if unit_test := _unit_test(project):
        document["unit_tests"] = [unit_test]
    document["exposures"] = [_exposure(project)]
    comments = [f"left to `sqlmetrics check`: {check}" for check in left_to_check(job)]
    yield f"models/{project.model}/_{project.model}.yml", yaml_text(document, MADE, *comments)


def _model(project: Project, table: str, version: str) -> dict[str, Any]:
    job = project.job
    config: dict[str, Any] = {
        "contract": {"enforced": True},
        "persist_docs": {"relation": True, "columns": True},
        "tags": ["sqlmetrics"],
        "meta": {"spec": escaped(job.spec.title)},
    }
    if table == "facts":
        config["event_time"] = "metric_date"
    entry: dict[str, Any] = {
        "name": project.model_of(table),
        "description": TABLES[table].meaning,
        "config": config,
        "constraints": [{"type": "primary_key", "columns": list(TABLES[table].key)}],
        "columns": _columns(project, table, version),
    }
    if table == "facts" and version != "1.11" and (metrics := list(rolled_up(project))):
        entry["semantic_model"] = {"enabled": True, "name": project.model}
        entry["agg_time_dimension"] = "metric_date"
        entry["primary_entity"] = entity(project)
        entry["metrics"] = list(new_metrics(metrics))
    return entry


def _columns(project: Project, table: str, version: str) -> list[dict[str, Any]]:
    job = project.job
    entries = []
    for table_column in job.columns(table):
        name = table_column.name
        column: dict[str, Any] = {
            "name": name,
            "description": escaped(table_column.meaning),
            "data_type": _TYPES.get(table_column.type, table_column.type),
        }
        if table_column.is_required:
            column["constraints"] = [Flow(type="not_null")]
        if table == "facts" and version != "1.11":
            if name == "metric_date":
                column |= {"granularity": "day", "dimension": {"type": "time"}}
            elif name in dimensions():
                column["dimension"] = dimensions()[name]
        entries.append(column)
    return entries


def _exposure(project: Project) -> dict[str, Any]:
    spec = project.job.spec
    metric_names = ", ".join(row.name for row in described(spec))
    return {
        "name": f"{project.model}_dashboard",
        "label": escaped(f"Ranking quality: {spec.title}"),
        "type": "dashboard",
        "description": escaped(f"{metric_names} by day and system. {TABLES['facts'].meaning}"),
        "depends_on": [f"ref('{project.model}')"],
        "owner": {"name": "Search and recommendations"},
    }


def _unit_test(project: Project) -> dict[str, Any] | None:
    """Two small lists whose values are exact in every database; None where none are known."""
    example = example_rows(project.job.spec)
    if example is None:
        return None
    inputs = {job_input.role: job_input for job_input in project.job.inputs}
    given_rows = [
        {
            "input": project.relation(inputs[role])[3:-3],
            "rows": [Flow(row) for row in rows],
        }
        for role, rows in example.given.items()
    ]
    return {
        "name": f"{project.model}_of_two_lists",
        "description": example.about,
        "model": project.model,
        "overrides": {
            "vars": {
                f"{project.model}_start": example.day,
                f"{project.model}_end": example.next_day,
            },
            "macros": {"is_incremental": False},
        },
        "given": given_rows,
        "expect": {"rows": [Flow(row) for row in example.expected]},
    }
