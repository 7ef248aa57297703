"""What runs and `install` made in a database, so that it can be removed, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.spec_views import bounded, own_name
from sqlmetrics.jobs.views import NAMES, wide
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.template import identifier, literal, parts
from sqlmetrics.sql.translation import Translation

_CREATE = re.compile(r"\s*create\s.*?\sas\s+(?=\(|select\b|with\b|from\b)", re.DOTALL)
"""How the text of a view begins where a database lists the statement that made it."""

TABLE, VIEW, FUNCTION, MACRO = "table", "view", "function", "macro"


@dataclass(frozen=True)
class DatabaseObject:
    """A thing in a database.

    Attributes:
        kind: `table`, `view`, `function` or `macro`.
        name: What it is called.
        rows: How many rows a table has; None of what has none.
    """

    kind: str
    name: str
    rows: int | None = None

    def dropped(self, translation: Translation) -> str:
        """The statement that removes it, in the dialect."""
        drop_by_kind = {
            FUNCTION: translation.dialect.catalogue.drop_function,
            MACRO: translation.dialect.catalogue.drop_macro,
        }
        statement = drop_by_kind.get(self.kind) or f"drop {self.kind} if exists {{name}}"
        return statement.format(name=translation.name(self.name))


def check_listed(engine: Database) -> None:
    """Whether the database lists its views, so that others' are seen.

    Raises:
        SpecError: If it does not, or nobody tried.
    """
    if not engine.translation.dialect.catalogue.views:
        dialect_titles = ", ".join(
            dialect.title for dialect in DIALECTS.values() if dialect.catalogue.views
        )
        raise SpecError(
            f"objects of runs are removed on {dialect_titles}; on {engine.name} drop the views "
            "and tables whose names begin with that of the fact table"
        )


def views_of(spec: Spec, engine: Database, titles: Iterable[str]) -> list[DatabaseObject]:
    """The views of single specs that are there: of all queries, and by each segment.

    Args:
        spec: One of the specs of the fact table, with its `output`.
        engine: Where its tables are.
        titles: The specs whose views are wanted.
    """
    if spec.output is None:
        return []
    kind_by_object = _there(engine)
    facts = spec.output.relation
    titles = sorted(titles)
    names = {
        bounded(spec.output.named(cut.suffix)) for cut in wide(spec, engine).cuts(spec, titles)
    }
    for title in titles:  # of segments that no row has any more, or of compiled text
        begin = parts(spec.output.named(own_name(title)))[-1].casefold()
        pattern = re.compile(rf"{re.escape(begin)}_(all|by_.+)")
        matching_names = (name for schema, name in kind_by_object if pattern.fullmatch(name))
        names |= {_beside(facts, name) for name in matching_names}
        names.add(spec.output.named(f"wide_{own_name(title)}"))
    places = {_place(engine, name): name for name in sorted(names)}
    return [
        DatabaseObject(VIEW, name)
        for key, name in places.items()
        if kind_by_object.get(key) == VIEW
    ]


def views_of_all(spec: Spec, engine: Database, titles: Iterable[str]) -> list[DatabaseObject]:
    """The views beside a fact table that are there, and those of each spec."""
    if spec.output is None:
        return []
    kind_by_object = _there(engine)
    names = [spec.output.named(name) for name in NAMES]
    shared = [
        DatabaseObject(VIEW, name)
        for name in names
        if kind_by_object.get(_place(engine, name)) == VIEW
    ]
    return [*shared, *views_of(spec, engine, titles)]


def is_view(engine: Database, name: str) -> bool:
    """Whether a name is that of a view; False where the database does not list its views."""
    if not engine.translation.dialect.catalogue.views:
        return False
    kinds, place = _there(engine), _place(engine, name)
    if place not in kinds:  # what stands before its name may be the catalog
        place = _place(engine, identifier(parts(name)[-1]))
    return kinds.get(place) == VIEW


def may_be_same(engine: Database, name: str, other_name: str) -> bool:
    """Whether two names may be of one table: False only where their schemas are known to differ.

    Args:
        engine: Where it is.
        name: The dotted name of a table that is there.
        other_name: Likewise.
    """
    names = [
        [part.casefold() for part in parts(text.replace("`", '"'))] for text in (name, other_name)
    ]
    first, second = (list(reversed(dotted)) for dotted in names)
    if first[:1] != second[:1]:
        return False
    if not engine.translation.dialect.catalogue.schema or first == second:
        return all(part == other for part, other in zip(first, second, strict=False))
    schemas, other_schemas = (_schemas(engine, dotted) for dotted in names)
    are_known = bool(schemas and other_schemas)
    has_catalogs = min(map(len, names)) > 2
    return not has_catalogs and not (are_known and schemas.isdisjoint(other_schemas))


def _schemas(engine: Database, dotted: Sequence[str]) -> set[str]:
    """The schemas that a name in lower case may stand for; that of a name alone is looked for."""
    *qualifiers, table_name = dotted
    schemas = {schema for schema, name in _there(engine) if name == table_name}
    if qualifiers:  # the last one may be a catalog
        return schemas & {qualifiers[-1]} or schemas
    catalogue = engine.translation.dialect.catalogue
    rows = engine.driver.rows(catalogue.path or catalogue.schema)
    path = [str(schema).casefold() for (schema,) in rows]
    return next(({schema} for schema in path if schema in schemas), schemas)


def functions_of(spec: Spec, engine: Database) -> list[DatabaseObject]:
    """The roll-up of some days, if it is there."""
    if spec.output is None:
        return []
    name = bounded(spec.output.named("between"))
    sql = engine.translation.dialect.catalogue.function
    is_there = sql and engine.driver.rows(sql.format(name=literal(parts(name)[-1])))
    return [DatabaseObject(FUNCTION, name)] if is_there else []


def dependents(engine: Database, names: Sequence[str]) -> list[str]:
    """A sentence for each view of somebody else that reads what is to be removed.

    Args:
        engine: Where they are.
        names: The tables and views that are to be removed.
    """
    name_by_key = {_place(engine, name): name for name in names}
    return [
        f"the view {'.'.join(filter(None, (schema, view)))} reads {name_by_key[key]}, and was not "
        "made by a run; drop it first, or change what it reads"
        for schema, view, text in _views(engine)
        if (schema, view) not in name_by_key
        for key in name_by_key
        if _reads(text, schema, key, engine.translation.dialect)
    ]


def _reads(text: str, of_view: str, key: tuple[str, str], dialect: Dialect) -> bool:
    """Whether a view reads a table or view, by its name in its schema or without one.

    A column may be called like the table: where the name stands, the grammar tells.

    Args:
        text: The text of the view.
        of_view: The schema of the view.
        key: The schema and the name of the table.
        dialect: Whose words the text has.
    """
    return _names(text, of_view, key) and _is_read(text, of_view, key, dialect)


def _is_read(text: str, of_view: str, key: tuple[str, str], dialect: Dialect) -> bool:
    """Whether a table is among those that a text reads; yes where the text cannot be parsed."""
    from sqlmetrics.sql.transpile import tables_of

    tables = tables_of(_CREATE.sub("", text), dialect)
    places = [parts(table.replace("`", '"')) for table in tables or ()]
    return tables is None or any(
        ((place[-2] if place[1:] else of_view).casefold(), place[-1].casefold()) == key
        for place in places
    )


def _names(text: str, of_view: str, key: tuple[str, str]) -> bool:
    """Whether the name stands anywhere in a text."""
    schema, name = key
    matches = re.finditer(
        rf'(?:["`]?(\w+)["`]?\.)?(?<![\w])["`]?{re.escape(name)}["`]?(?!\w)', text
    )
    return any((match[1] or of_view) == schema for match in matches)


def _views(engine: Database) -> Iterator[tuple[str, str, str]]:
    check_listed(engine)
    for row in engine.driver.rows(engine.translation.dialect.catalogue.views):
        schema, name, text = (str(cell or "").casefold() for cell in row)
        yield schema, name, text


def _there(engine: Database) -> dict[tuple[str, str], str]:
    """Schema and name -> `table` or `view`, of all that is there."""
    check_listed(engine)
    rows = engine.driver.rows(engine.translation.dialect.catalogue.relations)
    return {
        (str(schema).casefold(), str(name).casefold()): str(kind) for schema, name, kind in rows
    }


def _place(engine: Database, name: str) -> tuple[str, str]:
    """The schema and the name of a table or view; the current schema where none is said."""
    sql = engine.translation.dialect.catalogue.schema
    *schemas, table_name = parts(name)
    if schemas or not sql:
        return (schemas[-1] if schemas else "").casefold(), table_name.casefold()
    return str(engine.driver.rows(sql)[0][0]).casefold(), table_name.casefold()


def _beside(facts: str, name: str) -> str:
    """A view's name in the schema of the fact table."""
    *schema, _ = parts(facts)
    return ".".join('"' + part.replace('"', '""') + '"' for part in (*schema, name))
