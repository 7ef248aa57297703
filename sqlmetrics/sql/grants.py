"""The statements that grant a role what it needs, as each database has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlmetrics.errors import SpecError
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.template import parts
from sqlmetrics.sql.translation import Translation

_USUAL = {"postgres": "public"}


@dataclass(frozen=True)
class Needs:
    """What a role does, and where.

    Attributes:
        at: The dialect.
        role: Its name.
        database: The database of the connection; empty where that is not known.
        schema: The schema of names that say none.
        sources: The tables that it reads.
        tables: Those of the output, by what they are.
        growing: Those of them that gain columns.
        changing: Those of which rows are changed where they stand.
        views: Those beside it.
        writes: Whether it makes and writes the output.
        settings: What else the connection says.
    """

    at: Translation
    role: str
    database: str
    schema: str
    sources: tuple[str, ...]
    tables: Mapping[str, str]
    growing: tuple[str, ...]
    changing: tuple[str, ...]
    views: tuple[str, ...]
    writes: bool
    settings: Mapping[str, Any]

    @property
    def usual_schema(self) -> str:
        """That of names that say none: the connection's, else the database's own."""
        return self.schema or _USUAL.get(self.at.dialect.name, "")

    def full(self, name: str) -> str:
        """A table's name with its schema, as the dialect quotes it."""
        name_parts = parts(name)
        before = [self.usual_schema] if len(name_parts) == 1 and self.usual_schema else []
        return ".".join(map(self.at.column, (*before, *name_parts)))

    def schema_of(self, name: str) -> str:
        """The schema of a table, as the dialect quotes it; empty where it is not known."""
        before = parts(name)[:-1] or [self.usual_schema] * bool(self.usual_schema)
        return ".".join(map(self.at.column, before))

    def schemas(self, *names: str) -> list[str]:
        """Those of some tables, each once."""
        return [
            schema_name for schema_name in dict.fromkeys(map(self.schema_of, names)) if schema_name
        ]

    @property
    def read(self) -> list[str]:
        """All that it reads and does not make: by a role that writes, the sources alone."""
        made_tables = () if self.writes else (*self.tables.values(), *self.views)
        return list(dict.fromkeys(map(self.full, (*self.sources, *made_tables))))

    @property
    def keeps(self) -> bool:
        """Whether it makes temporary tables: whoever evaluates does."""
        return bool(self.sources)


def _postgres(needs: Needs) -> Iterator[str]:
    to = f"to {needs.at.column(needs.role)};"
    database = needs.at.column(needs.database) if needs.database else "DATABASE"
    yield f"grant connect{', temporary' * needs.keeps} on database {database} {to}"
    own_schemas = needs.schemas(*needs.tables.values())
    for schema in needs.schemas(*needs.sources, *needs.tables.values()):
        yield (
            f"grant usage{', create' * (needs.writes and schema in own_schemas)} on "
            f"schema {schema} {to}"
        )
    yield from (f"grant select on {table} {to}" for table in needs.read)
    if needs.writes:
        yield "-- what it writes has to be its own. A first run makes it so; what is there already:"
        for table in (*needs.tables.values(), *needs.views):
            yield f"-- alter table if exists {needs.full(table)} owner {to}"
        yield "-- and alter function if exists ..._between owner to the same"


def _mysql(needs: Needs) -> Iterator[str]:
    user, at_sign, host = needs.role.rpartition("@")
    names = (user, host) if at_sign else (needs.role,)
    to = "to " + "@".join("'" + name.replace("'", "''") + "'" for name in names) + ";"
    if needs.keeps:
        scope = f"{needs.at.column(needs.database)}.*" if needs.database else "DATABASE.*"
        yield f"grant create temporary tables on {scope} {to}"
    yield from (f"grant select on {table} {to}" for table in needs.read)
    if needs.writes:
        for table, name in needs.tables.items():
            extra_rights = ", update" * (table in needs.changing) + ", alter" * (
                table in needs.growing
            )
            yield f"grant select, insert, delete, create{extra_rights} on {needs.full(name)} {to}"
        for view in needs.views:  # create: else nothing is granted on what is not there yet
            yield f"grant select, create, create view, drop on {needs.full(view)} {to}"


def _clickhouse(needs: Needs) -> Iterator[str]:
    to = f"to {needs.at.column(needs.role)};"
    if needs.keeps:
        yield f"grant create temporary table, table engine on *.* {to}"
    yield from (f"grant select on {table} {to}" for table in needs.read)
    if needs.writes:
        schema = needs.schemas(*needs.tables.values()) or ["DATABASE"]
        rights = "select, insert, alter delete, alter add column, create table, drop table"
        for name in schema:  # a run makes a table beside each of its own
            yield f"grant {rights}, create view, drop view on {name}.* {to}"


def _snowflake(needs: Needs) -> Iterator[str]:
    to = f"to role {needs.at.column(needs.role)};"
    database = needs.at.column(needs.database) if needs.database else "DATABASE"
    warehouse = needs.settings.get("warehouse")
    warehouse_name = needs.at.column(str(warehouse)) if warehouse else "WAREHOUSE"
    yield f"grant usage on warehouse {warehouse_name} {to}"
    yield f"grant usage on database {database} {to}"
    own_schemas = needs.schemas(*needs.tables.values())
    for schema in needs.schemas(*needs.sources, *needs.tables.values()):
        yield f"grant usage on schema {schema} {to}"
        if needs.writes and schema in own_schemas:
            yield f"grant create table, create view on schema {schema} {to}"
    yield from (f"grant select on table {table} {to}" for table in needs.read)
    if needs.writes:
        yield "-- the tables that are there already: grant ownership on table ... to the role"


def _bigquery(needs: Needs) -> Iterator[str]:
    to = 'to "' + needs.role.replace('"', "") + '";'
    project = needs.database or "PROJECT"
    if needs.keeps:
        yield (
            f"-- gcloud projects add-iam-policy-binding {project} --role roles/bigquery.jobUser "
            f"--member {needs.role}"
        )
    for table in needs.read:
        yield f"grant `roles/bigquery.dataViewer` on table {table} {to}"
    if needs.writes:
        for schema in needs.schemas(*needs.tables.values()) or ["DATASET"]:
            yield f"grant `roles/bigquery.dataEditor` on schema {schema} {to}"


def _databricks(needs: Needs) -> Iterator[str]:
    to = "to `" + needs.role.replace("`", "``") + "`;"
    if needs.database:
        yield f"grant use catalog on catalog {needs.at.column(needs.database)} {to}"
    own_schemas = needs.schemas(*needs.tables.values())
    for schema in needs.schemas(*needs.sources, *needs.tables.values()):
        rights = ", create table" * (needs.writes and schema in own_schemas)
        yield f"grant use schema{rights} on schema {schema} {to}"
    yield from (f"grant select on table {table} {to}" for table in needs.read)
    if needs.writes:
        yield "-- what is there already has to be its own: alter table ... set owner"


def _spark(needs: Needs) -> Iterator[str]:
    yield "-- Spark itself grants nothing: the file system or the catalog (Ranger, Hive) does"
    for table in needs.read:
        yield f"-- {needs.role} reads {table}"
    if needs.writes:
        for schema in needs.schemas(*needs.tables.values()) or ["default"]:
            yield f"-- {needs.role} makes, reads and writes tables and views in {schema}"


def _trino(needs: Needs) -> Iterator[str]:
    yield "-- Trino itself grants nothing: its access control does (rules in a file, Ranger, OPA)"
    yield from (f"-- {needs.role} reads {table}" for table in needs.read)
    if needs.writes:
        own_schemas = needs.schemas(*needs.tables.values())
        for schema in own_schemas or ["the connection's schema"]:
            yield f"-- {needs.role} makes, changes, comments and drops tables and views in {schema}"
        yield (
            "-- also sqlmetrics_*, what is kept for a while, in the schema of the connection, and "
            "reads system.metadata"
        )


_GRANTED: Mapping[str, Callable[[Needs], Iterator[str]]] = {
    "postgres": _postgres,
    "mysql": _mysql,
    "mariadb": _mysql,
    "clickhouse": _clickhouse,
    "spark": _spark,
    "trino": _trino,
    "databricks": _databricks,
    "snowflake": _snowflake,
    "bigquery": _bigquery,
}
"""Dialect -> the statements."""


def grant_statements(needs: Needs) -> list[str]:
    """The statements, one a line.

    Raises:
        SpecError: If the database has no rights that a statement grants.
    """
    dialect = needs.at.dialect
    if dialect.name not in _GRANTED:
        titles = ", ".join(dialect_named(name).title for name in _GRANTED)
        raise SpecError(f"{dialect.title} has no printable rights; known: {titles}")
    return [*_GRANTED[dialect.name](needs)]
