"""The public line: what people call, from one place."""

from __future__ import annotations

from typing import Any

from sqlmetrics.engines.database import database
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.evaluation.statistics import offered
from sqlmetrics.plan import script as sql
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialect import dialect as named
from sqlmetrics.sql.translation import Translation

FASTEST = "fastest"
"""For `compile`: the plan that `evaluate` would take."""


def compile(
    spec: Spec,
    dialect: str = "duckdb",
    *,
    per_query: bool = False,
    plan: str | None = None,
    connection: Any = None,
) -> str:
    """The SQL of a spec as text; no table is opened, unless the fastest plan is asked for.

    Of files that are there it looks at the header line of CSV, and whether a path is a folder.

    Args:
        spec: What is asked. Its sources must be relations, queries or files.
        dialect: A name of `sqlmetrics list dialects`.
        per_query: Whether to give the per-query table instead of the summary.
        plan: A physical plan: `window`, the portable one; `lists` or `counts`, for DuckDB;
            `fastest` looks at the first rows, and says in a comment what was measured.
        connection: For `fastest`: where the tables are; default: a new DuckDB in memory.

    Raises:
        SpecError: If the dialect or the plan is unknown or the spec cannot be compiled.
    """
    translation = Translation(named(dialect))
    if spec.clicks is not None:
        from sqlmetrics.clicks.compile import script

        texts = (translation.text(one).rstrip() for one in script(spec, translation))
        return "\n\n".join(f"{one};" for one in texts) + "\n"
    tables = tables_of(spec, translation)
    offer = None
    if plan == FASTEST:
        plan = None
        with database(connection) as engine:
            offer = offered(planned(spec, tables), engine)
    text = sql.query(planned(spec, tables, offer=offer, physical=plan), per_query=per_query)
    if not translation.changes:
        return text
    about = f"{translation.dialect.title}: {trust(translation.dialect)}"
    return f"-- {about}\n{translation.text(text)}"
