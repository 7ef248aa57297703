"""The files of a dbt project: models, tests, macros and properties of one spec."""

from __future__ import annotations

from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.exports.dbt.models import macro, models, properties, sources, tests
from sqlmetrics.jobs.exports.dbt.semantics import VERSIONS, Project, semantics
from sqlmetrics.jobs.exports.job_query import JobQuery
from sqlmetrics.jobs.exports.target import Target


def files(target: Target) -> dict[str, str]:
    """The files, as paths in a dbt project.

    Raises:
        SpecError: If the spec has no output, or has what dbt cannot do.
    """
    version = target.options.get("dbt-version", VERSIONS[0])
    if version not in VERSIONS:
        raise SpecError(f"--dbt-version is {' or '.join(VERSIONS)}, given {version}")
    refs = target.options.get("refs", "").replace(",", " ").split()
    project = Project(JobQuery(target), tuple(refs))
    return {
        **dict(models(project)),
        **dict([macro(project)]),
        **dict(tests(project)),
        **dict(sources(project)),
        **dict(properties(project, version)),
        **dict(semantics(project, version)),
    }
