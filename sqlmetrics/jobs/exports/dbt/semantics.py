"""A semantic model: each metric as a sum over a sum, in the words of a version of dbt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlmetrics.catalog.dimension import NEVER, TOTAL, MetricRow
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.definitions import described
from sqlmetrics.jobs.exports.job_query import END, NOW, RUN_ID, START, STEP, Input, JobQuery, put
from sqlmetrics.jobs.exports.questions import FACTS, OLDEST, PER_QUERY
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import yaml_text
from sqlmetrics.jobs.schema import TABLES
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.template import literal, parts

# What the parts of an export are called in a dbt project, and how SQL stands among Jinja.

HEADER = "made by: sqlmetrics export dbt"
"""What every file says in its first line."""

_DAY = "%Y-%m-%d"


@dataclass(frozen=True)
class Project:
    """The names in a project.

    Attributes:
        job: What is exported.
        refs: Tables that are models of the project, by their names.
        end: What the model of the fact table has behind the table's name, where the table itself
            is made by somebody else.
    """

    job: JobQuery
    refs: tuple[str, ...] = ()
    end: str = ""

    def __post_init__(self) -> None:
        table_names = {job_input.name[-1] for job_input in self.job.inputs if job_input.name}
        if unknown := [ref for ref in self.refs if ref not in table_names]:
            choices = ", ".join(sorted(table_names)) or "none"
            raise SpecError(f"--refs: the spec reads no table {unknown[0]}; there are {choices}")

    @cached_property
    def model(self) -> str:
        """The model of the fact table."""
        return self.model_of("facts") + self.end

    def model_of(self, table: str) -> str:
        """The model of a table that is written.

        Raises:
            SpecError: If its name is none for a model.
        """
        name = parts(self.job.tables[table])[-1]
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise SpecError(
                f"output: a dbt model is called by a word like ranking_metrics, given {name!r}"
            )
        return name

    @cached_property
    def source(self) -> str:
        """The source of the tables that are read."""
        return word(self.job.spec.title)

    def made_model(self, job_input: Input) -> str:
        """The model of an input that is no table: of a query or a file."""
        return f"{self.model}_{job_input.role}"

    def is_ref(self, job_input: Input) -> bool:
        """Whether an input is a model of the project."""
        return not job_input.name or job_input.name[-1] in self.refs

    def source_of(self, job_input: Input) -> str:
        """The source that an input is a table of: one per schema."""
        schemas = list(dict.fromkeys(i.name[:-1] for i in self.job.inputs if not self.is_ref(i)))
        if job_input.name[:-1] == schemas[0]:
            return self.source
        return f"{self.source}_{word('_'.join(job_input.name[:-1]))}"

    def relation(self, job_input: Input) -> str:
        """What stands behind FROM, as Jinja."""
        if not job_input.name:
            return f"{{{{ ref('{self.made_model(job_input)}') }}}}"
        if self.is_ref(job_input):
            return f"{{{{ ref('{word(job_input.name[-1])}') }}}}"
        return f"{{{{ source('{self.source_of(job_input)}', '{word(job_input.name[-1])}') }}}}"

    def step_model(self, name: str) -> str:
        """The model of a step of a click log, where steps are models."""
        return f"{self.model}__{name.removeprefix(STEP)}"

    @cached_property
    def _pieces(self) -> Mapping[str, str]:
        """Mark -> what stands there in a project."""
        run_started = f"run_started_at.strftime('{_DAY} %H:%M:%S')"
        tables = {FACTS: "facts", PER_QUERY: "per_query"}
        return {
            START: "'{{ start }}'",
            END: "'{{ end }}'",
            RUN_ID: "'{{ invocation_id }}'",
            NOW: f"'{{{{ {run_started} }}}}'",
            **{job_input.mark: self.relation(job_input) for job_input in self.job.inputs},
            **{
                mark: f"{{{{ ref('{self.model_of(table)}') }}}}"
                for mark, table in tables.items()
                if table in self.job.tables
            },
        }

    def sql(self, text: str, **extra_pieces: str) -> str:
        """SQL over marks as a template: Jinja in their place, all else as it is.

        Args:
            text: The SQL.
            extra_pieces: Mark -> what stands there besides.
        """
        ages = {
            f"{OLDEST}_{days}": "'{{ (run_started_at - modules.datetime.timedelta(days="
            f"{days})).strftime('{_DAY}') }}}}'"
            for days in re.findall(rf"{OLDEST}_(\d+)", text)
        }
        return put(text, {**self._pieces, **ages, **extra_pieces}, escaped)


def escaped(text: str) -> str:
    """A text in which Jinja finds nothing.

    >>> escaped("'{{ x }}'")
    "'{{ '{{' }} x }}'"
    """
    return re.sub(r"\{[{%#]", lambda match: f"{{{{ '{match[0]}' }}}}", text)


def word(text: str) -> str:
    """A text as a name in a project: small letters, digits and underscores.

    >>> word("Search (EU)"), word("7 days")
    ('search_eu', '_7_days')
    """
    plain = re.sub(r"\W+", "_", text.casefold(), flags=re.ASCII).strip("_") or "spec"
    return f"_{plain}" if plain[0].isdigit() else plain


def commented(*sentences: str) -> str:
    """Sentences as comment lines of SQL, in which Jinja finds nothing either."""
    lines = [line for sentence in sentences for line in sentence.rstrip().splitlines()]
    comment_lines = (line if line.startswith("--") else f"-- {line}" for line in lines)
    return "".join(f"{escaped(line)}\n" for line in comment_lines)


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


def semantics(project: Project, version: str, origin: str = HEADER) -> Iterator[tuple[str, str]]:
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


# MetricFlow over the fact table that `run` writes: a view of it in dbt, and its metrics.

MADE_FOR_METRICFLOW = "made by: sqlmetrics export metricflow"


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
        f"{folder}/{project.model}.sql": commented(MADE_FOR_METRICFLOW, about) + config + view,
        f"{folder}/_{project.model}_sources.yml": yaml_text(
            {"version": 2, "sources": [source]}, MADE_FOR_METRICFLOW
        ),
        **dict(semantics(project, VERSIONS[0], MADE_FOR_METRICFLOW)),
    }
