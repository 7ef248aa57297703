"""SQLMesh: a model per table that is written, its audits, a test of its CTEs, external models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.exports.example_rows import ExampleRows, example_rows
from sqlmetrics.jobs.exports.job_query import END, NOW, RUN_ID, START, Input, JobQuery, put
from sqlmetrics.jobs.exports.questions import (
    FACTS,
    OLDEST,
    PER_QUERY,
    Question,
    left_to_check,
    of_checks,
    of_inputs,
    of_tables,
)
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import Flow, yaml_text
from sqlmetrics.jobs.schema import TABLES, targets
from sqlmetrics.sql.template import literal, parts

HEADER = "made by: sqlmetrics export sqlmesh"
"""What every file says in its first line."""

LOOKBACK, BATCH = 3, 31
"""Days that are computed again each day, and days that are computed at once in a backfill."""

_TYPES = {
    **dict.fromkeys(("query", "item", "system", "request", "user", "action"), "varchar"),
    **dict.fromkeys(
        ("score", "grade", "weight", "popularity", "users", "dwell", "amount"), "double"
    ),
    **dict.fromkeys(("rank", "position"), "bigint"),
    "date": "date",
    "time": "timestamp",
    "vector": "double[]",
}
"""A column's role -> its type, as far as a spec tells it; all others are texts."""


def files(target: Target) -> dict[str, str]:
    """The files, as paths in a SQLMesh project.

    Raises:
        SpecError: If the spec has no output, or has what a model cannot do.
    """
    facts = targets(target.spec)["facts"]
    mesh = _Mesh(JobQuery(target, lambda job_input: _name(job_input, facts)))
    return {
        **dict(mesh.models()),
        **dict(mesh.audit_files()),
        **dict(mesh.external()),
        **dict(mesh.tests()),
    }


@dataclass(frozen=True)
class _Mesh:
    job: JobQuery

    def __post_init__(self) -> None:
        facts = self.job.tables["facts"]
        table_names = [*self.job.tables.values(), *map(self.job.name, self.job.inputs)]
        for table_name in table_names:
            if len(parts(table_name)) != len(parts(facts)):
                raise SpecError(
                    "SQLMesh wants all names to have equally many parts; given "
                    f"{facts} and {table_name}: give each its schema"
                )

    @cached_property
    def name(self) -> str:
        """What the files are called by."""
        return re.sub(r"\W+", "_", parts(self.job.tables["facts"])[-1])

    def models(self) -> Iterator[tuple[str, str]]:
        """Path -> text of each model."""
        for job_input in self.job.inputs:
            if not job_input.name:
                head = (
                    f"MODEL (\n  name {self._relation(job_input)},\n  kind VIEW,\n"
                    f"  dialect {self._dialect},\n  optimize_query false\n);\n"
                )
                text = _escaped(job_input.select(self.job.target))
                yield f"models/{self.name}_{job_input.role}.sql", f"-- {HEADER}\n{head}\n{text}\n"
        for table in self.job.tables:
            yield f"models/{self._file(table)}.sql", self._model(table)

    def audit_files(self) -> Iterator[tuple[str, str]]:
        """Path -> text of the file of audits."""
        head = "".join(
            f"-- left to `sqlmetrics check`: {check}\n" for check in self._unexported_checks
        )
        texts = [self._audit(question) for question in self._audits]
        yield f"audits/{self.name}.sql", f"-- {HEADER}\n{head}" + "\n".join(texts)

    def external(self) -> Iterator[tuple[str, str]]:
        """Path -> text of each table that is read: what a spec knows of its columns.

        A file per table, since a table that two specs read may stand in a project once.
        """
        for job_input in self.job.inputs:
            if job_input.name:
                columns = [
                    f"    {name}: {kind}\n" for name, kind in self._columns(job_input).items()
                ]
                text = f"- name: {self._relation(job_input)}\n  columns:\n{''.join(columns)}"
                file = re.sub(r"\W+", "_", "_".join(job_input.name))
                yield f"external_models/{file}.yaml", f"# {HEADER}\n{text}"

    def tests(self) -> Iterator[tuple[str, str]]:
        """Path -> text of a test over two lists, also of the CTE with a row per query."""
        example = example_rows(self.job.spec)
        inputs = {job_input.role: job_input for job_input in self.job.inputs}
        if example is None or not all(inputs[role].name for role in example.rows_by_role):
            return
        test = {f"test_{self.name}_of_two_lists": self._test(example, inputs)}
        yield f"tests/test_{self.name}.yaml", yaml_text(test, HEADER)

    def _test(self, example: ExampleRows, inputs: Mapping[str, Input]) -> dict[str, Any]:
        rows_by_input = {
            self._relation(inputs[role]): {"rows": [Flow(row) for row in rows]}
            for role, rows in example.rows_by_role.items()
        }
        rows = [Flow(row) for row in example.expected]
        per_query = {"partial": True, "rows": [Flow(row) for row in example.per_query]}
        return {
            "model": self._table("facts"),
            "description": example.about,
            "vars": {"start": example.day, "end": example.day, "execution_time": example.next_day},
            "inputs": rows_by_input,
            "outputs": {
                "partial": True,
                "ctes": {"per_query": per_query},
                "query": {"partial": True, "rows": rows},
            },
        }

    def _model(self, table: str) -> str:
        job = self.job
        table_columns = job.columns(table)
        columns = ",\n".join(f"    {column.name} {column.type}" for column in table_columns)
        about = ",\n".join(
            f"    {column.name} = {literal(column.meaning)}"
            for column in table_columns
            if column.meaning
        )
        keys = ", ".join(TABLES[table].key)
        required_columns = [column.name for column in table_columns if column.is_required]
        audits = [
            f"unique_combination_of_columns(columns := ({keys}))",
            f"not_null(columns := ({', '.join(required_columns)}))",
            *([question.name for question in self._audits] if table == "facts" else []),
        ]
        head = (
            f"-- {HEADER}\n"
            "MODEL (\n"
            f"  name {self._table(table)},\n"
            "  kind INCREMENTAL_BY_TIME_RANGE (\n"
            f"    time_column metric_date,\n"
            f"    batch_size {BATCH},\n    lookback {LOOKBACK}\n  ),\n"
            f"  dialect {self._dialect},\n"
            "  cron '@daily',\n  optimize_query false,\n"
            f"  grain ({keys}),\n"
            f"  description {literal(TABLES[table].meaning)},\n"
            f"  columns (\n{columns}\n  ),\n"
            f"  column_descriptions (\n{about}\n  ),\n"
            "  audits (\n    " + ",\n    ".join(audits) + "\n  )\n"
            ");\n"
        )
        query = self._sql(job.typed(table, job.nested(table)))
        return f"{head}\n{_commented(job.about)}{query}\n"

    @cached_property
    def _audits(self) -> list[Question]:
        """What must hold of the inputs and the rows of the days that were computed."""
        questions = [
            *of_inputs(self.job, may_be_empty=True),
            *(question for question in of_tables(self.job) if question.name == "values_in_range"),
            *(
                question
                for question in of_checks(self.job, may_be_empty=True)
                if not _looks_beyond(question)
            ),
        ]
        return [
            Question(
                f"{self.name}_{question.name}", question.about, question.query, question.severity
            )
            for question in questions
        ]

    @property
    def _unexported_checks(self) -> list[str]:
        compared = [
            question.about[0] for question in of_checks(self.job) if _looks_beyond(question)
        ]
        return [*compared, *left_to_check(self.job)]

    def _audit(self, question: Question) -> str:
        blocking = ",\n  blocking false" if question.severity == "warn" else ""
        about = "".join(f"-- {line}\n" for line in question.about)
        text = re.sub(r"\nlimit 3\s*$", "", self._sql(question.query.rstrip()))
        text = re.sub(r"\norder by [^\n]*$", "", text)
        head = f"AUDIT (\n  name {question.name},\n  dialect {self._dialect}{blocking}\n);\n"
        return f"{_commented(about)}{head}\n{text};\n"

    def _sql(self, text: str) -> str:
        """SQL over marks, with SQLMesh's own variables and names in their place."""
        # its last day is among the days
        text = re.sub(rf"< cast\('{END}' as date\)", f"<= cast('{END}' as date)", text)
        ends = rf"cast\('{END}' as (timestamp|datetime)\)"
        text = re.sub(ends, f"cast(cast('{END}' as date) + interval '1 day' as timestamp)", text)
        macros = {
            START: "@start_ds",
            END: "@end_ds",
            NOW: "@execution_ts",
            RUN_ID: "@execution_ts",
            **dict.fromkeys((FACTS, PER_QUERY), "@this_model"),
        }
        return put(text, macros, _escaped)

    @property
    def _dialect(self) -> str:
        return self.job.at.dialect.grammar

    def _file(self, table: str) -> str:
        return re.sub(r"\W+", "_", parts(self.job.tables[table])[-1])

    def _table(self, table: str) -> str:
        return self.job.at.name(self.job.tables[table])

    def _relation(self, job_input: Input) -> str:
        return self.job.at.name(self.job.name(job_input))

    def _columns(self, job_input: Input) -> dict[str, str]:
        kind_by_column: dict[str, str] = {}
        for role, column in job_input.source.columns.model_dump().items():
            column_names = [column] if isinstance(column, str) else list(column or ())
            kind = _TYPES.get(role, "varchar")
            if role == "date" and getattr(job_input.source, "time_zone", None):
                kind = "timestamptz"
            if role == "grade" and getattr(job_input.source, "grades", None):
                kind = "varchar"
            kind_by_column |= {name: self.job.at.type(kind) for name in column_names}
        if job_input.role == "rankings":
            order = job_input.source.columns.order  # type: ignore[attr-defined]
            kind_by_column.setdefault(order, self.job.at.type("double"))
            query_segments = self.job.spec.queries.columns.segments if self.job.spec.queries else ()
            ranking_columns = [
                name for name in self.job.spec.query_columns if name not in query_segments
            ]
            ranking_columns = [
                name for name in ranking_columns if name not in self.job.spec.segments
            ]
            kind_by_column |= {name: self.job.at.type("varchar") for name in ranking_columns}
        return kind_by_column


def _name(job_input: Input, facts: str) -> str:
    """What a table that is read is called: by itself, or of a query or file beside the facts."""
    return job_input.source.relation or f"{facts}_{job_input.role}"


def _looks_beyond(question: Question) -> bool:
    """Whether a check looks beyond the days that are computed, which are all that an audit has."""
    return any(word in question.query for word in ("days_before", OLDEST, "n_rows"))


def _escaped(text: str) -> str:
    """SQL in whose texts SQLMesh finds neither Jinja, which it looks for anywhere, nor a macro."""
    return _JINJA.sub(r"{' || '\1", text).replace("@", "@@")


def _commented(text: str) -> str:
    """The same of comment lines."""
    return _JINJA.sub(r"{ \1", text)


_JINJA = re.compile(r"\{([{%#])")
