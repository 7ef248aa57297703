"""Stages of one kind: rows that are chosen, joined or summed; and the statements made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from textwrap import dedent
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.plan.script import Script
from sqlmetrics.plan.segments import Segment
from sqlmetrics.sql.stage import Column, Stage, equal, with_stages
from sqlmetrics.sql.template import case


def chosen_if(condition: str, then: str, otherwise: str = "") -> str:
    """A `case` as a column, on several lines where it is long; NULL if nothing stands else."""
    return dedent(case(condition, then, otherwise)).strip()


def columns_stage(
    name: str, about: str, columns: Sequence[object], source: str, where: str = ""
) -> Stage:
    """Columns of the rows of another stage."""
    view = {"about": about, "columns": columns, "from": source, "where": where}
    return Stage(name, "columns", view)


def sums_stage(
    name: str, about: str, keys: Sequence[str], columns: Sequence[Column], source: str
) -> Stage:
    """Sums over the rows of another stage, one row for its keys."""
    view = {"about": about, "keys": keys, "columns": columns, "from": source}
    return Stage(name, "sums", {**view, "joins": {}, "where": ""})


def segments_stage(
    name: str,
    about: str,
    keys: tuple[list[str], list[str]],
    sums: Sequence[Column],
    source: str,
    *,
    segments: list[Segment],
) -> Stage:
    """The same for every segment; the segments stand between the two parts of the keys."""
    groups, last_keys = keys
    view = {"about": about, "groups": groups, "keys": last_keys, "sums": sums}
    return Stage(name, "segments", {**view, "from": source, "segments": segments})


def join_stage(
    name: str, about: str, columns: Sequence[object], source: str, *, to: str, on: tuple[str, ...]
) -> Stage:
    """Columns of the rows of two stages that agree in some."""
    view = {"about": about, "columns": columns, "from": source, "to": to}
    return Stage(name, "comparison/join", {**view, "on": equal(to, source, on)})


@dataclass
class Statements:
    """The statements of a comparison, on what an evaluation keeps."""

    script: Script
    engine: Database
    selects: list[str] = field(default_factory=list)

    def rows(self, stages: Sequence[Stage], last: str) -> list[dict[str, Any]]:
        """The rows of a query over `per_query`."""
        return self.apart([*self.script.stages, *stages], last)

    def apart(self, stages: Sequence[Stage], last: str) -> list[dict[str, Any]]:
        """The rows of a query over the tables themselves."""
        text = with_stages(stages, last)
        self.selects.append(text)
        rows: list[dict[str, Any]] = self.engine.table(text).to_pylist()
        return rows

    @contextmanager
    def kept(self, stages: Sequence[Stage]) -> Iterator[str]:
        """The last of some stages over `per_query`, its rows kept in a table, for several queries.

        Yields:
            The table; empty where the database lets nobody make one.
        """
        name = stages[-1].name
        if not self.script.table:
            yield ""
            return
        table = self.engine.free_name(f"sqlmetrics_{name}")
        select = with_stages([*self.script.stages, *stages], f"select *\nfrom {name}")
        step = Step(table, select)
        with step.created_in(self.engine):
            self.selects.append(step.statement(self.engine.translation))
            yield table
        self.selects.append(step.drop(self.engine.translation))

    def text(self) -> str:
        """All of them, in the order in which they ran."""
        statements = replace(self.script, summary="", per_query="", drop="").statements
        every = (*statements, *self.selects, self.script.drop)
        translate = self.engine.translation.text
        texts = (f"{translate(statement).rstrip()};" for statement in every if statement)
        return self.engine.translation.self_contained("\n\n".join(texts) + "\n")
