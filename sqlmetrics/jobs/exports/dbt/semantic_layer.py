"""MetricFlow over the fact table that `run` writes: a view of it in dbt, and its metrics."""

from __future__ import annotations

from sqlmetrics.jobs.exports.dbt.semantics import VERSIONS, Project, commented, semantics
from sqlmetrics.jobs.exports.job_query import JobQuery
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import yaml_text
from sqlmetrics.sql.template import parts

MADE = "made by: sqlmetrics export metricflow"


def files(target: Target) -> dict[str, str]:
    """The files, as paths in a dbt project.

    Raises:
        SpecError: If the spec has no output, or the name of its table is none for a model.
    """
    project = Project(JobQuery(target), end="_read")
    *database, schema, table = ("{{ target.schema }}", *parts(project.job.tables["facts"]))[-3:]
    source_name = f"{project.source}_written"
    source = {
        "name": source_name,
        "description": "The tables that sqlmetrics run writes.",
        **({"database": database[0]} if database and "{{" not in database[0] else {}),
        "schema": schema,
        "tables": [{"name": table, "description": "One row per day, system, segment and metric."}],
    }
    about = "The rows of the spec, as sqlmetrics run writes them."
    view = f"select * from {{{{ source('{source_name}', '{table}') }}}}\n"
    config = "{{ config(materialized='view') }}\n\n"
    folder = f"models/{project.model}"
    return {
        f"{folder}/{project.model}.sql": commented(MADE, about) + config + view,
        f"{folder}/_{project.model}_sources.yml": yaml_text(
            {"version": 2, "sources": [source]}, MADE
        ),
        **dict(semantics(project, VERSIONS[0], MADE)),
    }
