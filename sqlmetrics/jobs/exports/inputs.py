"""The tables that a spec reads, under marks: another tool has names of its own for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.sources import relation_of
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import finished, parts

MARK = "sqlmetrics_table_"
"""The name of a table in the text begins so until the tool's own stands there."""

COUNTERFACTUAL = "counterfactual"
"""The role of lists that were not shown, or of a policy."""


@dataclass(frozen=True)
class Input:
    """A table that a spec reads.

    Attributes:
        role: What it is to the spec: `rankings`, `labels`, `impressions`.
        source: Where it is, as the spec says it.
    """

    role: str
    source: Source

    @property
    def mark(self) -> str:
        """What stands for it in the text."""
        return f"{MARK}{self.role}"

    @property
    def name(self) -> tuple[str, ...]:
        """The parts of its name, its schema first; empty for a query or a file."""
        return tuple(parts(self.source.relation)) if self.source.relation else ()

    def select(self, target: Target) -> str:
        """The query of a table that is none in the database: the user's own, or of a file.

        The path of a file starts from where the other tool runs.

        Raises:
            SpecError: If a database would have to read a file.
        """
        if self.source.sql is not None:
            return self.source.sql.strip().rstrip(";").rstrip()
        if target.dialect.name != "duckdb":
            raise SpecError(
                f"{self.role}: DuckDB alone reads files; load {self.source.file!r} into a table, "
                f"and give it as {self.role}: {{relation: ...}}"
            )
        relation = relation_of(self.source, self.role)
        relation = replace(relation, place=target.path_of(relation.place))
        return finished(f"select *\nfrom {source_text(relation)}")


def renamed(
    spec: Spec, name: Callable[[Input], str] = attrgetter("mark")
) -> tuple[Spec, list[Input]]:
    """The spec over tables of other names, by default over marks; and the tables it reads.

    Raises:
        SpecError: If a table is data in memory.
    """
    inputs = list(_inputs(spec))
    for job_input in inputs:
        if job_input.source.data is not None:
            raise SpecError(f"{job_input.role}: data in memory cannot be exported; give a relation")
    moved = {job_input.role: _moved(job_input, name(job_input)) for job_input in inputs}
    if spec.clicks is None:
        return spec.having(name=spec.title, **moved), inputs
    settings = {name: getattr(spec.clicks, name) for name in Clicks.model_fields}
    of_log = {role: moved.pop(role) for role in spec.clicks.sources}
    if COUNTERFACTUAL in moved and spec.clicks.counterfactual is not None:
        settings[COUNTERFACTUAL] = spec.clicks.counterfactual.read_from(moved.pop(COUNTERFACTUAL))
    clicks = Clicks(**settings | of_log)
    return spec.having(name=spec.title, clicks=clicks, rankings=None, labels=None, **moved), inputs


def _inputs(spec: Spec) -> Iterator[Input]:
    roles = ("rankings", "labels") if spec.clicks is None else ()
    for role in roles:
        if (source := getattr(spec, role)) is not None:
            yield Input(role, source)
    for role, source in (spec.clicks.sources if spec.clicks else {}).items():
        yield Input(role, source)
    if (
        counterfactual := spec.clicks and spec.clicks.counterfactual
    ) and counterfactual.source is not None:
        yield Input(COUNTERFACTUAL, counterfactual.source)
    if spec.queries is not None:
        yield Input("queries", spec.queries)
    if spec.items is not None and spec.needs_items:
        yield Input("items", spec.items)


def _moved(job_input: Input, name: str) -> Source:
    relation_fields = {
        "relation": name,
        "sql": None,
        "file": None,
        "separator": None,
        "decimal": None,
    }
    source_fields = {
        name: getattr(job_input.source, name) for name in type(job_input.source).model_fields
    }
    return type(job_input.source)(**source_fields | relation_fields)


def put(text: str, pieces: Mapping[str, str], escaped: Callable[[str], str]) -> str:
    """The text with pieces of another language in the place of marks, all else escaped.

    Args:
        text: SQL with marks; a mark may stand in quotes, which go with it.
        pieces: Mark -> what stands there.
        escaped: How other text is written that the language would take for its own.
    """
    marks = "|".join(sorted(map(re.escape, pieces), key=len, reverse=True))
    fragments = re.split(rf"""(["'`]?\b(?:{marks})\b["'`]?)""", text, flags=re.IGNORECASE)
    return "".join(
        pieces[fragment.strip("\"'`").casefold()] if number % 2 else escaped(fragment)
        for number, fragment in enumerate(fragments)
    )
