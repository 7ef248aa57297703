"""The catalogues of databases: queries that list what they hold."""

from __future__ import annotations

from sqlmetrics.sql.dialect import Catalogue

DUCKDB = Catalogue(
    relations="select schema_name, view_name, 'view' from duckdb_views() union all "
    "select schema_name, table_name, 'table' from duckdb_tables()",
    views="select schema_name, view_name, sql from duckdb_views() where not internal",
    schema="select current_schema()",
    path="select unnest(list_append(current_schemas(false), current_schema()))",
    function="select 1 from duckdb_functions() where not internal and function_name = {name}",
    drop_function="drop macro table if exists {name}",
    macros="select distinct function_name, cast(parameters as varchar) from duckdb_functions() "
    "where not internal and list_contains(parameters, {parameter})",
    drop_macro="drop macro table if exists {name}",
)

SQLITE = Catalogue(
    relations="select '', name, type from sqlite_master where type in ('table', 'view')",
    views="select '', name, sql from sqlite_master where type = 'view'",
)

POSTGRES = Catalogue(
    relations="select n.nspname, c.relname, case c.relkind when 'v' then 'view' else 'table' end "
    "from pg_class as c join pg_namespace as n on n.oid = c.relnamespace "
    "where c.relkind in ('r', 'p', 'v')",
    views="select schemaname, viewname, definition from pg_views "
    "where schemaname not in ('pg_catalog', 'information_schema') "
    "union all select schemaname, matviewname, definition from pg_matviews",
    schema="select current_schema()",
    path="select unnest(current_schemas(false))",
    function="select 1 from pg_proc where proname = {name}",
    drop_function="drop function if exists {name}(date, date)",
)

MYSQL = Catalogue(
    relations="select table_schema, table_name, lower(replace(table_type, 'BASE ', '')) "
    "from information_schema.tables",
    views="select table_schema, table_name, view_definition from information_schema.views",
    schema="select database()",
)
