"""The tools that a spec can be exported for: a row each, and where their files are made."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from sqlmetrics.engines.output_files import has_mark, output_folder
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.evaluation.inputs.sources import refuse_pipes
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.spec.reading import AnySpec, spec_of
from sqlmetrics.sql.dialects import DEFAULT, DIALECTS, dialect_named


@dataclass(frozen=True)
class Format:
    """A tool, and what it is given.

    Attributes:
        name: What is typed: `dbt`.
        title: What people call it: `dbt`.
        about: One line for the list and the help: what the files are.
        whom: Who wants it, for the docs.
        module: Where `files(target)` is, below `sqlmetrics.jobs.exports`.
        dialects: The databases that it is made for.
        options: Option of the command line without its dashes -> what it says, for those that
            this format takes besides.
        default_output: Where the files go unless somebody says; the tool's name if it is empty.
        next: What to type then; `{folder}` is where the files are.
        project: The file by which the tool knows its project, if it needs one.
        executed: Whether the tests run the tool itself over the files; if not, the files say so.
    """

    name: str
    title: str
    about: str
    module: str
    whom: str = ""
    dialects: tuple[str, ...] = ("duckdb", "postgres")
    options: Mapping[str, str] = field(default_factory=dict)
    default_output: str = ""
    next: str = ""
    project: str = ""
    executed: bool = True

    @property
    def dialect(self) -> str:
        """The database that it is made for unless somebody names one: DuckDB if it can be."""
        return DEFAULT if DEFAULT in self.dialects else self.dialects[0]

    def files(self, target: Target) -> dict[str, bytes]:
        """The files: path below the folder -> bytes; the same target gives the same bytes.

        Raises:
            SpecError: If the spec, the dialect or an option does not fit the tool.
        """
        if target.dialect.name not in self.dialects:
            message = unknown(f"dialect of {self.name}", target.dialect.name, self.dialects)
            raise SpecError(f"{message}; name it by --dialect")
        for option in target.options:
            if option not in self.options:
                takes = (
                    ", ".join(f"--{known_option}" for known_option in self.options)
                    or "no option of its own"
                )
                raise SpecError(
                    f"--{option} is not an option of export {self.name}, which has {takes}"
                )
        content_by_path = import_module(f"sqlmetrics.jobs.exports.{self.module}").files(target)
        return {
            path: content.encode() if isinstance(content, str) else content
            for path, content in content_by_path.items()
        }


DATABASE_URI = {"database-uri": "SQLAlchemy URI of the database that holds the tables."}
"""An option of all tools that connect by themselves."""

FORMATS: Mapping[str, Format] = {
    tool.name: tool
    for tool in (
        Format(
            name="dbt",
            title="dbt",
            about="Incremental models, tests of inputs and checks, a semantic model.",
            whom="Your numbers are made in a dbt project, and should be built and tested with it.",
            module="dbt.project",
            dialects=("duckdb", "postgres", "snowflake", "bigquery"),
            options={
                "dbt-version": "Version of the semantic model: 1.11 (also for 1.10) or 1.12.",
                "refs": "Tables that are dbt models, separated by commas; others are sources.",
            },
            next="dbt build --no-partial-parse (in the project {folder})",
            project="dbt_project.yml",
        ),
        Format(
            name="sqlmesh",
            title="SQLMesh",
            about="An incremental model with audits, a test of its CTEs, external models.",
            whom="Your numbers are made in a SQLMesh project.",
            module="sqlmesh",
            next="sqlmesh plan (in the project {folder})",
        ),
        Format(
            name="superset",
            title="Superset",
            about="A dashboard with its connection, data sets, saved metrics, charts and filters.",
            whom="You have Superset, or want dashboards with filters on a server of your own.",
            module="superset",
            options=DATABASE_URI
            | {
                "database-name": "Name of the connection in Superset.",
                "database-uuid": "UUID of an existing connection in Superset.",
            },
            default_output="superset.zip",
            next="superset import-dashboards -p {folder} -u admin",
        ),
        Format(
            name="observable",
            title="Observable Framework",
            about="A project that builds a static page: tiles, lines with intervals, segments.",
            whom="You want a page without a server: static files that anybody can open.",
            module="observable",
            options={"database": "DuckDB file or PostgreSQL URL to read."},
            next="npm install && npm run build (in {folder}, with METRICS_DATABASE)",
        ),
        Format(
            name="cube",
            title="Cube",
            about="A cube of all queries and one for each segment, with a measure per metric.",
            whom="You have Cube, and applications ask it for numbers.",
            module="cube",
            next="copy {folder}/model into the project of Cube",
        ),
        Format(
            name="metricflow",
            title="MetricFlow",
            about="A view of the fact table in a dbt project, and a semantic model over it.",
            whom="sqlmetrics run writes the table, and dbt's semantic layer shall ask it.",
            module="dbt.semantics",
            dialects=("duckdb", "postgres", "snowflake", "bigquery"),
            next="dbt build (in the project {folder}), then mf query",
            project="dbt_project.yml",
        ),
        Format(
            name="malloy",
            title="Malloy",
            about="A source of all queries and one for each segment, with a measure per metric.",
            whom="You explore in Malloy.",
            module="malloy",
            next="open {folder}/ranking_metrics.malloy in Malloy",
        ),
        Format(
            name="bsl",
            title="Boring Semantic Layer",
            about="A Python module with a semantic table of all queries and each segment.",
            whom="You ask from Python, or let an assistant ask, over ibis.",
            module="bsl",
            next="import ranking_metrics, in {folder}",
        ),
        Format(
            name="views",
            title="Plain views",
            about="A view per metric and segment, with its value, interval and sums.",
            whom="Your tool knows tables and nothing else.",
            module="plain_views",
            dialects=tuple(row.name for row in DIALECTS.values() if row.writing.client),
            next="execute {folder}/ranking_metrics_views.sql",
        ),
        Format(
            name="osi",
            title="Open Semantic Interchange",
            about="A document of data sets and metrics, as other semantic layers import it.",
            whom="Your semantic layer imports Open Semantic Interchange.",
            module="osi",
            next="give {folder}/ranking_metrics.osi.yaml to a tool that reads OSI",
            executed=False,
        ),
        Format(
            name="databricks",
            title="Databricks metric views",
            about="A metric view of all queries and one for each segment, with their measures.",
            whom="You have Databricks with dashboards or Genie, or Apache Spark 4.2.",
            module="metric_views",
            dialects=("databricks", "spark"),
            next="execute {folder}/ranking_metrics_metric_views.sql",
            executed=False,
        ),
        Format(
            name="snowflake",
            title="Snowflake semantic views",
            about="A semantic view of all queries and one for each segment, with their metrics.",
            whom="You have Snowflake, and ask it by metrics or by Cortex Analyst.",
            module="semantic_views",
            dialects=("snowflake",),
            next="execute {folder}/ranking_metrics_semantic_views.sql",
            executed=False,
        ),
        Format(
            name="evidence",
            title="Evidence",
            about="A source with a query per segment, and a page with a chart per metric.",
            whom="You write reports in SQL and Markdown.",
            module="evidence",
            next="copy {folder} into the project of Evidence, and npm run sources",
            executed=False,
        ),
        Format(
            name="grafana",
            title="Grafana",
            about="A dashboard to import, with a panel per metric.",
            whom="You have Grafana, with alerts, on PostgreSQL.",
            module="grafana",
            dialects=("postgres",),
            next="import {folder}/ranking_metrics.json in Grafana",
            executed=False,
        ),
        Format(
            name="lightdash",
            title="Lightdash",
            about="dbt models of one segment each, with their metrics.",
            whom="You have Lightdash over dbt.",
            module="lightdash",
            next="copy {folder}/models into the project of dbt",
            executed=False,
        ),
        Format(
            name="metabase",
            title="Metabase",
            about="The query of a model per segment, and the expressions of its metrics.",
            whom="You have Metabase.",
            module="metabase",
            next="read {folder}/metrics.md",
            executed=False,
        ),
    )
}
"""Name -> format."""


def format_named(name: str) -> Format:
    """The format of a name.

    Raises:
        SpecError: If there is none of that name.
    """
    if name not in FORMATS:
        raise SpecError(unknown("export", name, FORMATS))
    return FORMATS[name]


# The files of an export, written into a folder or into one zip.

MARK = b"sqlmetrics export"
"""Every file says it in a comment; one that does not is somebody's own, and is left alone."""


def export(
    spec: AnySpec,
    name: str,
    to: str | Path,
    *,
    dialect: str | None = None,
    force: bool = False,
    **options: str,
) -> list[Path]:
    """Write a spec as the files of another tool: the same spec gives the same bytes.

    Files of an earlier export are replaced; other files are not.

    Args:
        spec: The spec, with its `output`: its path, a `Spec` or a dict of its keys.
        name: The tool: one of `sqlmetrics list exports`.
        to: A folder, created if it does not exist; or a name that ends in `.zip`.
        dialect: The dialect of the database in which the tool finds the tables. Default: DuckDB,
            or the first dialect that the tool supports.
        force: Whether to replace files that no export wrote, too.
        options: Options of the tool, such as `dbt_version="1.12"`.

    Returns:
        The files that were written.

    Raises:
        SpecError: If the tool, the dialect or an option is unknown, the spec does not fit, or a
            file that no export wrote is in the way.
        EngineError: If a file cannot be written.
    """
    spec = spec_of(spec)
    refuse_pipes(spec)
    tool_options = {key.replace("_", "-"): value for key, value in options.items()}
    destination = Path(to)
    folder = destination.parent if destination.suffix == ".zip" else destination
    tool = format_named(name)
    content_by_path = tool.files(
        Target(spec, dialect_named(dialect or tool.dialect), tool_options, folder)
    )
    if destination.suffix == ".zip":
        content_by_path, destination = (
            {destination.name: zipped(content_by_path)},
            destination.parent,
        )
    with output_folder(destination, overwrite=force, is_ours=has_mark(MARK)) as staging:
        for path, content in content_by_path.items():
            file = staging / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return [destination / path for path in content_by_path]


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Files as a zip, whose bytes hang on nothing but theirs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = MARK
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()
