"""The sources of a spec -> tables that a database can read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.engines.translated import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.inputs.held import arrow_of
from sqlmetrics.inputs.lists import listed
from sqlmetrics.inputs.relation import Relation, Tables, shown, typed
from sqlmetrics.inputs.sources import relation_of
from sqlmetrics.inputs.zones import Zones, zone_of
from sqlmetrics.source import Dated, RankingColumns, Source
from sqlmetrics.spec import Spec
from sqlmetrics.sql import source_text
from sqlmetrics.template import identifier, literal

READ_AS = {
    "score": "double",
    "rank": "double",
    "weight": "double",
    "grade": "double",
    "popularity": "double",
    "date": "date",
}
"""Role -> what DuckDB reads its values as, for a database that would take any text for 0."""


def opened(spec: Spec, engine: Database) -> Tables:
    """The tables of a spec, readable by the engine."""
    rankings = _relation(spec.rankings, "rankings", engine)
    tables = Tables(
        rankings,
        _relation(spec.labels, "labels", engine) if spec.labels else rankings,
        _relation(spec.queries, "queries", engine) if spec.queries else None,
        _relation(spec.items, "items", engine) if spec.items and spec.needs_items else None,
        engine.translation,
    )
    return replace(tables, zones=zones_of(spec, tables, engine))


def zones_of(spec: Spec, tables: Tables, engine: Database) -> Zones:
    """Table -> the zone whose days its times have; told by the types of the columns of days.

    Raises:
        SpecError: If a zone was asked for a column whose values have none.
    """
    zones: dict[str, str] = {}
    for table in ("rankings", "labels", "queries"):
        source: Dated | None = spec.truth if table == "labels" else getattr(spec, table)
        relation: Relation | None = getattr(tables, table)
        column = getattr(source.columns, "date", None) if source else None
        if source and relation and column and not _is_loaded(source, engine):
            known = {name.casefold(): kind for name, kind in _types(relation, engine).items()}
            zones[table] = _zone(table, column, known.get(column.casefold(), ""), source)
    return {table: zone for table, zone in zones.items() if zone}


def _relation(source: Source, role: str, engine: Database) -> Relation:
    if _is_loaded(source, engine):
        return _loaded(source, role, engine)
    if source.data is not None:
        data = arrow_of(source.data, role, source.columns)
        name = engine.register(f"sqlmetrics_{role}", data)
        relation = Relation("table", name, ordered=True)
    else:
        relation = relation_of(source, role)
    return listed(relation, source.columns, _types(relation, engine))


def _is_loaded(source: Source, engine: Database) -> bool:
    """Whether it is read by DuckDB for another database; its days are days there."""
    return bool(engine.translation.changes) and source.relation is None and source.sql is None


def source_relation(source: Source, role: str, engine: Database) -> Relation:
    """The relation of a source of a click log, readable by the engine."""
    if source.data is not None:
        return Relation("table", engine.register(f"sqlmetrics_{role}", source.data), ordered=True)
    relation = relation_of(source, role)
    if not engine.translation.changes or relation.is_sql:
        return shown(relation, engine.translation)
    with DuckDB() as reader:
        data = reader.table(f"select * from {source_text(relation)}")
    return Relation("table", engine.register(f"sqlmetrics_{role}", data), columns=relation.columns)


def _loaded(source: Source, role: str, engine: Database) -> Relation:
    """A file, or data in memory, as DuckDB reads it: a temporary table of another database."""
    with DuckDB() as reader:
        relation = _relation(source, role, reader)
        text = source_text(relation)
        types = {name.casefold(): kind for name, kind in reader.columns(text).items()}
        read = [
            f"{_cast(role, name, kind, types[name.casefold()], source)} as {identifier(name)}"
            for name, kind in _read_as(source, relation, types.keys())
        ]
        replaced = f" replace ({', '.join(read)})" if read else ""
        data = reader.table(f"select *{replaced} from {text}")
    return Relation("table", engine.register(f"sqlmetrics_{role}", data), columns=relation.columns)


def _cast(role: str, name: str, kind: str, own: str, source: Source) -> str:
    """A column as another type; of a time with a zone, its day there."""
    zone = _zone(role, name, own, source) if kind == "date" else ""
    if zone:
        return f"cast(timezone({literal(zone)}, {identifier(name)}) as date)"
    return f"cast({identifier(name)} as {kind})"


def _zone(role: str, column: str, kind: str, source: Source) -> str:
    try:
        return zone_of(role, column, kind, getattr(source, "time_zone", None))
    except ValueError as error:
        raise SpecError(str(error)) from None


def _read_as(
    source: Source, relation: Relation, there: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The columns that must not be texts, and what they are read as."""
    columns, fixed = source.columns, dict(relation.columns)
    named = {role: getattr(columns, role, None) for role in READ_AS}
    if isinstance(columns, RankingColumns):
        named["rank" if columns.rank else "score"] = columns.order
    if getattr(source, "grades", {}):
        del named["grade"]
    for role, name in named.items():
        column = fixed.get(role, name)
        if column and column.casefold() in there:
            yield column, READ_AS[role]


def _types(relation: Relation, engine: Database) -> Mapping[str, str]:
    """The types of a table's columns; none if it cannot be read, which the checks tell."""
    try:
        return engine.columns(source_text(shown(typed(relation), engine.translation)))
    except InputError:
        return {}
