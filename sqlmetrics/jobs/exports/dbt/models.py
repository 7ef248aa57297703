"""The SQL of a dbt project: models, the macro of their days, tests."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.engines.temporary import TABLE
from sqlmetrics.jobs.exports.dbt.naming import MADE, Project, commented, escaped
from sqlmetrics.jobs.exports.questions import Question, of_checks, of_inputs, of_tables
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
    for one in job.inputs:
        if not one.name:
            what = f"What the spec reads as {one.role}"
            head = commented(MADE, what) + "{{ config(materialized='view') }}\n\n"
            text = escaped(one.select(job.target)) + "\n"
            yield f"{folder}/{project.made_model(one)}.sql", head + text
    steps = job.steps if _has_step_models(project) else []
    for step in steps:
        kind = "table" if step.kind == TABLE else "view"
        head = commented(MADE, f"A click log on its way to {project.model}")
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
    own = "" if table == "facts" else f"'{project.model_of(table)}'"
    about = [MADE, job.about, "the days from start until before end are replaced: see the macro"]
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
        f'    pre_hook="{{{{ {project.model}_delete({own}) }}}}"\n'
        ") }}\n"
    )
    has_steps = _has_step_models(project)
    query = job.query(table) if has_steps else job.nested(table)
    if job.at.changes:  # the contract is looked at before an insert would cast
        query = job.typed(table, query)
    text = project.sql(query, **(step_refs(project) if has_steps else {}))
    return f"{commented(*about)}{config}{_days(project, own)}\n{text}\n"


def _days(project: Project, own: str = "") -> str:
    """The lines that set the days."""
    name = project.model
    return f"{{%- set start = {name}_start({own}) %}}\n{{%- set end = {name}_end() %}}\n"


def macro(project: Project) -> tuple[str, str]:
    """The file of the macros: which days are computed, and what makes room for them."""
    name = project.model
    text = f"""\
{{#- {MADE} -#}}

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

{{#- Whether a model's table is there, and stays. -#}}
{{% macro {name}_is_there(model) -%}}
    {{%- set found = namespace(table=none) -%}}
    {{%- if execute and not var('{name}_full_refresh', false) -%}}
        {{%- for node in graph.get('nodes', {{}}).values()
            if node.resource_type == 'model' and node.name == model -%}}
            {{%- set found.table = adapter.get_relation(node.database, node.schema, node.alias) -%}}
        {{%- endfor -%}}
    {{%- endif -%}}
    {{{{- return(found.table is not none) -}}}}
{{%- endmacro %}}

{{#- What makes room for the new rows, in the transaction of their insert. -#}}
{{% macro {name}_delete(model='{name}') -%}}
    {{%- if is_incremental() -%}}
        delete from {{{{ this }}}}
        where
            spec = {escaped(project.job.at.value(literal(project.job.spec.title)))}
            and metric_date >= cast('{{{{ {name}_start(model) }}}}' as date)
            and metric_date < cast('{{{{ {name}_end() }}}}' as date)
    {{%- endif -%}}
{{%- endmacro %}}
"""
    return f"macros/{name}_days.sql", text


def tests(project: Project) -> Iterator[tuple[str, str]]:
    """Path -> text of each test: those of the inputs stop the models, if they find something."""
    job = project.job
    for kind, questions in (
        ("inputs", of_inputs(job)),
        ("tables", of_tables(job)),
        ("checks", of_checks(job)),
    ):
        for one in questions:
            path = f"tests/{project.model}/{kind}/{project.model}__{one.name}.sql"
            yield path, _test(project, one)


def _test(project: Project, one: Question) -> str:
    config = "{{ config(tags=['sqlmetrics']" + f", severity='{one.severity}'" + ") }}\n"
    has_steps = _has_step_models(project)
    query = one.query if has_steps else project.job.nest(one.query)
    text = project.sql(query.rstrip(), **(step_refs(project) if has_steps else {}))
    days = _days(project) if "{{ start }}" in text else ""
    return f"{commented(MADE, *one.about)}{config}{days}\n{text}\n"
