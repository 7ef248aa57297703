"""The statements of a comparison, and what they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.plan.script import Script
from sqlmetrics.sql.stage import Stage, with_stages


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
        with step.there(self.engine):
            self.selects.append(step.statement(self.engine.translation))
            yield table
        self.selects.append(step.drop(self.engine.translation))

    def text(self) -> str:
        """All of them, in the order in which they ran."""
        statements = replace(self.script, summary="", per_query="", drop="").statements
        every = (*statements, *self.selects, self.script.drop)
        translate = self.engine.translation.text
        return (
            "\n\n".join(f"{translate(statement).rstrip()};" for statement in every if statement)
            + "\n"
        )
