"""The SQL of a dbt project: models, the macro of their days, tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlmetrics.engines.temporary import TABLE
from sqlmetrics.jobs.definitions import conditional, described, hashes, segment_hashes
from sqlmetrics.jobs.exports.dbt.semantics import (
    HEADER,
    Project,
    commented,
    dimensions,
    entity,
    escaped,
    new_metrics,
    rolled_up,
    word,
)
from sqlmetrics.jobs.exports.example_rows import example_rows
from sqlmetrics.jobs.exports.job_query import COUNTERFACTUAL, Input
from sqlmetrics.jobs.exports.questions import (
    Question,
    left_to_check,
    of_checks,
    of_inputs,
    of_tables,
)
from sqlmetrics.jobs.exports.yaml_text import Flow, yaml_text
from sqlmetrics.jobs.schema import TABLES
from sqlmetrics.spec.definition import ALL
from sqlmetrics.sql.template import literal

LOOKBACK = 3
"""As many days before today are computed each time, where nobody says which."""

_STRATEGY = {"bigquery": "merge"}
"""Dialect -> the strategy that adds rows and replaces none; `append` on the others."""

_APART = {
    "bigquery": "BigQuery",
    "snowflake": "Snowflake",
}
"""Dialects on which dbt's delete and insert are no one transaction."""


def models(project: Project) -> Iterator[tuple[str, str]]:
    """Path -> text of each model."""
    job, folder = project.job, f"models/{project.model}"
    for job_input in job.inputs:
        if not job_input.name:
            comment = f"What the spec reads as {job_input.role}"
            head = commented(HEADER, comment) + "{{ config(materialized='view') }}\n\n"
            text = escaped(job_input.select(job.target)) + "\n"
            yield f"{folder}/{project.made_model(job_input)}.sql", head + text
    steps = job.steps if _has_step_models(project) else []
    for step in steps:
        kind = "table" if step.kind == TABLE else "view"
        head = commented(HEADER, f"A click log on its way to {project.model}")
        config = f"{{{{ config(materialized='{kind}') }}}}\n{_days(project)}"
        text = project.sql(job.step_text(step), **step_refs(project))
        yield f"{folder}/{project.step_model(step.name)}.sql", f"{head}{config}\n{text}\n"
    for table in job.tables:
        yield f"{folder}/{project.model_of(table)}.sql", _model(project, table)


def _has_step_models(project: Project) -> bool:
    """Whether a log is cleaned in tables: PostgreSQL plans one query of all steps badly."""
    return project.job.at.dialect.name in ("postgres", "redshift")


def step_refs(project: Project) -> dict[str, str]:
    """Step -> the reference to its model."""
    return {
        step.name: f"{{{{ ref('{project.step_model(step.name)}') }}}}"
        for step in project.job.steps
        if step.name
    }


def _model(project: Project, table: str) -> str:
    job = project.job
    dialect = job.at.dialect.name
    strategy = _STRATEGY.get(dialect, "append")
    model_argument = "" if table == "facts" else f"'{project.model_of(table)}'"
    about = [HEADER, job.about, "the days from start until before end are replaced: see the macro"]
    if dialect in _APART:
        about.append(
            f"{_APART[dialect]} deletes and inserts one after the other: after a run that failed "
            "in between, run it again"
        )
    config = (
        "{{ config(\n"
        "    materialized='incremental',\n"
        f"    incremental_strategy='{strategy}',\n"
        "    on_schema_change='append_new_columns',\n"
        f"    full_refresh=var('{project.model}_full_refresh', false),\n"
        f'    pre_hook="{{{{ {project.model}_delete({model_argument}) }}}}"\n'
        ") }}\n"
    )
    has_steps = _has_step_models(project)
    query = job.query(table) if has_steps else job.nested(table)
    if job.at.changes:  # the contract is looked at before an insert would cast
        query = job.typed(table, query)
    text = project.sql(query, **(step_refs(project) if has_steps else {}))
    return f"{commented(*about)}{config}{_days(project, model_argument)}\n{text}\n"


def _days(project: Project, model_argument: str = "") -> str:
    """The lines that set the days."""
    name = project.model
    return f"{{%- set start = {name}_start({model_argument}) %}}\n{{%- set end = {name}_end() %}}\n"


def macro(project: Project) -> tuple[str, str]:
    """The file of the macros: which days are computed, and what makes room for them."""
    name = project.model
    spec = escaped(project.job.at.value(literal(project.job.spec.title)))
    other_rows = _rows(project, "\n                    or ", is_other=True)
    owns = _rows(project, "\n                or ", is_other=False)
    text = f"""\
{{#- {HEADER} -#}}

{{#- The first day that is computed: the var {name}_start. Without it, as many days before
    this run as the var {name}_lookback says ({LOOKBACK}); all days while there is no table. -#}}
{{% macro {name}_start(model='{name}') -%}}
    {{%- set days = var('{name}_lookback', {LOOKBACK}) | int -%}}
    {{%- set recent = run_started_at - modules.datetime.timedelta(days=days) -%}}
    {{%- set first = recent.strftime('%Y-%m-%d') if {name}_is_there(model) else '1970-01-01' -%}}
    {{{{- return(var('{name}_start', first) | string) -}}}}
{{%- endmacro %}}

{{#- The day after the last one that is computed: the var {name}_end. -#}}
{{% macro {name}_end() -%}}
    {{{{- return(var('{name}_end', '9999-12-31') | string) -}}}}
{{%- endmacro %}}

{{#- A model's table, if it is there and stays; else none. -#}}
{{% macro {name}_table(model) -%}}
    {{%- set ns = namespace(table=none) -%}}
    {{%- if execute and not var('{name}_full_refresh', false) -%}}
        {{%- for node in graph.get('nodes', {{}}).values()
            if node.resource_type == 'model' and node.name == model -%}}
            {{%- set ns.table = adapter.get_relation(node.database, node.schema, node.alias) -%}}
        {{%- endfor -%}}
    {{%- endif -%}}
    {{{{- return(ns.table) -}}}}
{{%- endmacro %}}

{{#- Whether it is there. -#}}
{{% macro {name}_is_there(model) -%}}
    {{{{- return({name}_table(model) is not none) -}}}}
{{%- endmacro %}}

{{#- Nothing is written beside days that another definition made. -#}}
{{% macro {name}_check_definitions(model) -%}}
    {{%- set facts = {name}_table('{name}') -%}}
    {{%- if facts is not none -%}}
        {{%- set changed_metrics -%}}
            select distinct
                metric
            from {{{{ facts }}}}
            where
                spec = {spec}
                and (
                    metric_date < cast('{{{{ {name}_start(model) }}}}' as date)
                    or metric_date >= cast('{{{{ {name}_end() }}}}' as date)
                )
                and (
                    {other_rows}
                )
            order by metric
        {{%- endset -%}}
        {{%- set metrics = run_query(changed_metrics).columns[0].values() -%}}
        {{%- if metrics | length -%}}
            {{{{- exceptions.raise_compiler_error(
                '{name} holds other days by another definition of ' ~ metrics | join(', ')
                ~ "; to drop it and compute the days that the source still has: dbt build "
                ~ "--full-refresh --vars '{{{name}_full_refresh: true}}'"
            ) -}}}}
        {{%- endif -%}}
    {{%- endif -%}}
{{%- endmacro %}}

{{#- What makes room for the new rows, in the transaction of their insert. -#}}
{{% macro {name}_delete(model='{name}') -%}}
    {{%- if is_incremental() -%}}
        {{{{- {name}_check_definitions(model) -}}}}
        delete from {{{{ this }}}}
        where
            spec = {spec}
            and metric_date >= cast('{{{{ {name}_start(model) }}}}' as date)
            and metric_date < cast('{{{{ {name}_end() }}}}' as date)
        {{%- if model == '{name}' %}}
            and (
                {owns}
            )
        {{%- endif -%}}
    {{%- endif -%}}
{{%- endmacro %}}
"""
    return f"macros/{name}_days.sql", text


def _rows(project: Project, between: str, *, is_other: bool) -> str:
    """What rows meet that are of the spec's metrics and segments; or by another definition."""
    spec = project.job.spec
    conditions = set(conditional(spec))
    columns = [ALL, *(name for name in spec.by if name not in conditions)]
    segment_names = ", ".join(literal(name) for name in columns)
    of_columns, translation = f"segment_name in ({segment_names})", project.job.at
    rows = [(of_columns, metric, k, text) for metric, k, text in hashes(spec)]
    rows += [
        (f"segment_name = {literal(segment)}", metric, k, text)
        for segment, metric, k, text in segment_hashes(spec)
    ]
    texts = [
        f"{segment} and metric = {literal(metric)} and k = {k}"
        + f" and definition_hash <> {literal(text)}" * is_other
        for segment, metric, k, text in rows
    ]
    return escaped(between.join(f"({translation.value(text)})" for text in texts))


def tests(project: Project) -> Iterator[tuple[str, str]]:
    """Path -> text of each test: those of the inputs stop the models, if they find something."""
    job = project.job
    for kind, questions in (
        ("inputs", of_inputs(job)),
        ("tables", of_tables(job)),
        ("checks", of_checks(job)),
    ):
        for question in questions:
            path = f"tests/{project.model}/{kind}/{project.model}__{question.name}.sql"
            yield path, _test(project, question)


def _test(project: Project, question: Question) -> str:
    config = "{{ config(tags=['sqlmetrics']" + f", severity='{question.severity}'" + ") }}\n"
    has_steps = _has_step_models(project)
    query = question.query if has_steps else project.job.nest(question.query)
    text = project.sql(query.rstrip(), **(step_refs(project) if has_steps else {}))
    days = _days(project) if "{{ start }}" in text else ""
    return f"{commented(HEADER, *question.about)}{config}{days}\n{text}\n"


# The YAML of a dbt project: contract, keys and meanings; sources; unit test; exposure.

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
    text = yaml_text({"version": 2, "sources": source_entries}, HEADER)
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
    models = [_model_properties(project, table, version) for table in job.tables]
    for job_input in job.inputs:
        if not job_input.name:
            about = f"What the spec reads as {job_input.role}."
            models.append({"name": project.made_model(job_input), "description": about})
    document: dict[str, Any] = {"version": 2, "models": models}
    if unit_test := _unit_test(project):
        document["unit_tests"] = [unit_test]
    document["exposures"] = [_exposure(project)]
    comments = [f"left to `sqlmetrics check`: {check}" for check in left_to_check(job)]
    yield f"models/{project.model}/_{project.model}.yml", yaml_text(document, HEADER, *comments)


def _model_properties(project: Project, table: str, version: str) -> dict[str, Any]:
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
        for role, rows in example.rows_by_role.items()
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
