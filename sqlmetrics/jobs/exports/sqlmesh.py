"""SQLMesh: a model per table that is written, its audits, a test of its CTEs, external models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.exports.example_rows import ExampleRows, example_rows
from sqlmetrics.jobs.exports.inputs import Input, put
from sqlmetrics.jobs.exports.job_query import END, NOW, RUN_ID, START, JobQuery
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
from sqlmetrics.jobs.meanings import TABLES, meanings
from sqlmetrics.jobs.tables import UNIQUE, targets
from sqlmetrics.sql.template import literal, parts

MADE = "made by: sqlmetrics export sqlmesh"
"""What every file says in its first line."""

LOOKBACK, BATCH = 3, 31
"""Days that are computed again each day, and days that are computed at once in a backfill."""

_TYPES = {
    **dict.fromkeys(("query", "item", "system", "request", "user", "action"), "varchar"),
    **dict.fromkeys(("score", "grade", "weight", "popularity", "users", "dwell"), "double"),
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
    mesh = _Mesh(JobQuery(target, lambda one: _name(one, facts)))
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
        own = self.job.tables["facts"]
        others = [*self.job.tables.values(), *map(self.job.name, self.job.inputs)]
        for other in others:
            if len(parts(other)) != len(parts(own)):
                raise SpecError(
                    "SQLMesh wants all names to have equally many parts; given "
                    f"{own} and {other}: give each its schema"
                )

    @cached_property
    def name(self) -> str:
        """What the files are called by."""
        return re.sub(r"\W+", "_", parts(self.job.tables["facts"])[-1])

    def models(self) -> Iterator[tuple[str, str]]:
        """Path -> text of each model."""
        for one in self.job.inputs:
            if not one.name:
                head = (
                    f"MODEL (\n  name {self._relation(one)},\n  kind VIEW,\n"
                    f"  dialect {self._dialect},\n  optimize_query false\n);\n"
                )
                text = _escaped(one.select(self.job.target))
                yield f"models/{self.name}_{one.role}.sql", f"-- {MADE}\n{head}\n{text}\n"
        for table in self.job.tables:
            yield f"models/{self._file(table)}.sql", self._model(table)

    def audit_files(self) -> Iterator[tuple[str, str]]:
        """Path -> text of the file of audits."""
        head = "".join(f"-- left to `sqlmetrics check`: {one}\n" for one in self._left)
        texts = [self._audit(one) for one in self._audits]
        yield f"audits/{self.name}.sql", f"-- {MADE}\n{head}" + "\n".join(texts)

    def external(self) -> Iterator[tuple[str, str]]:
        """Path -> text of each table that is read: what a spec knows of its columns.

        A file per table, since a table that two specs read may stand in a project once.
        """
        for one in self.job.inputs:
            if one.name:
                columns = [f"    {name}: {kind}\n" for name, kind in self._columns(one).items()]
                text = f"- name: {self._relation(one)}\n  columns:\n{''.join(columns)}"
                file = re.sub(r"\W+", "_", "_".join(one.name))
                yield f"external_models/{file}.yaml", f"# {MADE}\n{text}"

    def tests(self) -> Iterator[tuple[str, str]]:
        """Path -> text of a test over two lists, also of the CTE with a row per query."""
        found = example_rows(self.job.spec)
        inputs = {one.role: one for one in self.job.inputs}
        if found is None or not all(inputs[role].name for role in found.given):
            return
        test = {f"test_{self.name}_of_two_lists": self._test(found, inputs)}
        yield f"tests/test_{self.name}.yaml", yaml_text(test, MADE)

    def _test(self, found: ExampleRows, inputs: Mapping[str, Input]) -> dict[str, Any]:
        given = {
            self._relation(inputs[role]): {"rows": [Flow(row) for row in rows]}
            for role, rows in found.given.items()
        }
        rows = [Flow(row) for row in found.expected]
        per_query = {"partial": True, "rows": [Flow(row) for row in found.per_query]}
        return {
            "model": self._table("facts"),
            "description": found.about,
            "vars": {"start": found.day, "end": found.day, "execution_time": found.next_day},
            "inputs": given,
            "outputs": {
                "partial": True,
                "ctes": {"per_query": per_query},
                "query": {"partial": True, "rows": rows},
            },
        }

    def _model(self, table: str) -> str:
        job = self.job
        types = {name: kind.removesuffix(" not null") for name, kind in job.types(table).items()}
        known = meanings(job.spec, table)
        columns = ",\n".join(f"    {name} {kind}" for name, kind in types.items())
        about = ",\n".join(
            f"    {name} = {literal(known[name])}" for name in types if known.get(name)
        )
        keys = ", ".join(UNIQUE[table])
        needed = [name for name, kind in job.types(table).items() if kind.endswith(" not null")]
        audits = [
            f"unique_combination_of_columns(columns := ({keys}))",
            f"not_null(columns := ({', '.join(needed)}))",
            *([one.name for one in self._audits] if table == "facts" else []),
        ]
        head = (
            f"-- {MADE}\n"
            "MODEL (\n"
            f"  name {self._table(table)},\n"
            "  kind INCREMENTAL_BY_TIME_RANGE (\n"
            f"    time_column metric_date,\n"
            f"    batch_size {BATCH},\n    lookback {LOOKBACK}\n  ),\n"
            f"  dialect {self._dialect},\n"
            "  cron '@daily',\n  optimize_query false,\n"
            f"  grain ({keys}),\n"
            f"  description {literal(TABLES[table])},\n"
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
        asked = [
            *of_inputs(self.job, may_be_empty=True),
            *(one for one in of_tables(self.job) if one.name == "values_in_range"),
            *(one for one in of_checks(self.job, may_be_empty=True) if not _looks_beyond(one)),
        ]
        return [
            Question(f"{self.name}_{one.name}", one.about, one.query, one.severity) for one in asked
        ]

    @property
    def _left(self) -> list[str]:
        compared = [one.about[0] for one in of_checks(self.job) if _looks_beyond(one)]
        return [*compared, *left_to_check(self.job)]

    def _audit(self, one: Question) -> str:
        blocking = ",\n  blocking false" if one.severity == "warn" else ""
        about = "".join(f"-- {line}\n" for line in one.about)
        text = re.sub(r"\nlimit 3\s*$", "", self._sql(one.query.rstrip()))
        text = re.sub(r"\norder by [^\n]*$", "", text)
        head = f"AUDIT (\n  name {one.name},\n  dialect {self._dialect}{blocking}\n);\n"
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

    def _relation(self, one: Input) -> str:
        return self.job.at.name(self.job.name(one))

    def _columns(self, one: Input) -> dict[str, str]:
        told: dict[str, str] = {}
        for role, column in one.source.columns.model_dump().items():
            named = [column] if isinstance(column, str) else list(column or ())
            kind = _TYPES.get(role, "varchar")
            if role == "date" and getattr(one.source, "time_zone", None):
                kind = "timestamptz"
            if role == "grade" and getattr(one.source, "grades", None):
                kind = "varchar"
            told |= {name: self.job.at.type(kind) for name in named}
        if one.role == "rankings":
            order = one.source.columns.order  # type: ignore[attr-defined]
            told.setdefault(order, self.job.at.type("double"))
            known = self.job.spec.queries.columns.segments if self.job.spec.queries else ()
            own = [name for name in self.job.spec.query_columns if name not in known]
            own = [name for name in own if name not in self.job.spec.segments]
            told |= {name: self.job.at.type("varchar") for name in own}
        return told


def _name(one: Input, facts: str) -> str:
    """What a table that is read is called: by itself, or of a query or file beside the facts."""
    return one.source.relation or f"{facts}_{one.role}"


def _looks_beyond(one: Question) -> bool:
    """Whether a check looks beyond the days that are computed, which are all that an audit has."""
    return any(word in one.query for word in ("days_before", OLDEST, "n_rows"))


def _escaped(text: str) -> str:
    """SQL in whose texts SQLMesh finds neither Jinja, which it looks for anywhere, nor a macro."""
    return _JINJA.sub(r"{' || '\1", text).replace("@", "@@")


def _commented(text: str) -> str:
    """The same of comment lines."""
    return _JINJA.sub(r"{ \1", text)


_JINJA = re.compile(r"\{([{%#])")
