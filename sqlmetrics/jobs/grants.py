"""The least rights that a role needs for a spec's tables, as the statements that grant them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.evaluation.inputs.sources import is_file_name
from sqlmetrics.jobs.archive import keeps
from sqlmetrics.jobs.schema import archives, has_baseline, targets
from sqlmetrics.jobs.spec_views import bounded
from sqlmetrics.jobs.views import NAMES, Wide
from sqlmetrics.spec.definition import sources_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.grants import Needs, grant_statements
from sqlmetrics.sql.translation import Translation
from sqlmetrics.sql.user_sql import names_in

KINDS: Mapping[str, str] = {
    "nightly": "runs the spec: reads its sources, makes and writes its tables and views",
    "analyst": "evaluates, compares and checks: reads sources and tables, writes nothing",
    "reader": "reads tables and views, for dashboards",
}
"""What a role is for -> what it does."""


def grants(
    spec: Spec,
    dialect: str,
    role: str,
    kind: str = "nightly",
    *,
    database: str = "",
    schema: str = "",
    settings: Mapping[str, Any] | None = None,
) -> str:
    """The statements that grant a role what it needs.

    Args:
        spec: What is asked, with its `output`.
        dialect: Of the database.
        role: The role, or a user, also as `name@host` on MySQL and MariaDB.
        kind: One of KINDS.
        database: The database of the connection.
        schema: The schema of names that say none.
        settings: What else the connection says, like Snowflake's `warehouse`.

    Raises:
        SpecError: If the kind is not known, the spec has no output, or the database has no
            rights that a statement grants.
    """
    if kind not in KINDS:
        raise SpecError(unknown("kind of role", kind, KINDS))
    if not role.strip():
        raise SpecError("--role needs the name of a role")
    translation, writes = Translation(dialect_named(dialect)), kind == "nightly"
    keeps_rows = writes and keeps(spec, translation)
    kept = {f"{table}_archive": name for table, name in archives(spec).items() if keeps_rows}
    needs = Needs(
        translation,
        role,
        database,
        schema,
        () if kind == "reader" else tuple(sources_read(spec)),
        targets(spec) | kept,
        ("per_query", "facts", "experiment", "runs", *kept),
        ("runs",),
        tuple(views_of(spec)),
        writes,
        settings or {},
    )
    lines = grant_statements(needs)
    title = needs.at.dialect.title
    return "\n".join([f"-- {title}: a role that {KINDS[kind]}", *lines]) + "\n"


def sources_read(spec: Spec) -> Iterator[str]:
    """The tables that a spec reads, also those that its queries name."""
    for source in sources_of(spec).values():
        if source.relation is not None:
            yield source.relation
        for name in (names_in(source.sql) or ()) if source.sql else ():
            if not is_file_name(name):
                yield name


def views_of(spec: Spec) -> Iterator[str]:
    """The views that a run makes."""
    if spec.output is None or not spec.output.views:
        return
    yield from (spec.output.named(n) for n in NAMES if n != "comparison" or has_baseline(spec))
    yield from (
        bounded(spec.output.named(spec_view.suffix))
        for spec_view in Wide().cuts(spec, [spec.title])
    )
