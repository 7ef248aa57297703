"""`retire` and `uninstall`: what is removed for good, and what stays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import NoDataError, SpecError
from sqlmetrics.jobs.archive import keeps
from sqlmetrics.jobs.exchange import ALL_DAYS, TableRows
from sqlmetrics.jobs.history.restore import LoggedChange
from sqlmetrics.jobs.macros import LABELS, RANKINGS, macros
from sqlmetrics.jobs.provenance import UNNAMED, Provenance
from sqlmetrics.jobs.schema import (
    COUNTED,
    archives,
    archives_of,
    check_own,
    columns_of,
    held_targets,
    targets,
)
from sqlmetrics.jobs.spec_views import bounded, name_in_views
from sqlmetrics.jobs.views import NAMES, wide
from sqlmetrics.spec.days import day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.template import identifier, lines, literal, parts, relation
from sqlmetrics.sql.translation import Translation

# What runs and `install` made in a database, so that it can be removed, and nothing else.

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
    kind_by_object = _relation_kinds(engine)
    facts = spec.output.relation
    titles = sorted(titles)
    names = {
        bounded(spec.output.named(cut.suffix)) for cut in wide(spec, engine).cuts(spec, titles)
    }
    for title in titles:  # of segments that no row has any more, or of compiled text
        begin = parts(spec.output.named(name_in_views(title)))[-1].casefold()
        pattern = re.compile(rf"{re.escape(begin)}_(all|by_.+)")
        matching_names = (name for schema, name in kind_by_object if pattern.fullmatch(name))
        names |= {_beside(facts, name) for name in matching_names}
        names.add(spec.output.named(f"wide_{name_in_views(title)}"))
    places = {_schema_and_name(engine, name): name for name in sorted(names)}
    return [
        DatabaseObject(VIEW, name)
        for key, name in places.items()
        if kind_by_object.get(key) == VIEW
    ]


def views_of_all(spec: Spec, engine: Database, titles: Iterable[str]) -> list[DatabaseObject]:
    """The views beside a fact table that are there, and those of each spec."""
    if spec.output is None:
        return []
    kind_by_object = _relation_kinds(engine)
    names = [spec.output.named(name) for name in NAMES]
    shared = [
        DatabaseObject(VIEW, name)
        for name in names
        if kind_by_object.get(_schema_and_name(engine, name)) == VIEW
    ]
    return [*shared, *views_of(spec, engine, titles)]


def is_view(engine: Database, name: str) -> bool:
    """Whether a name is that of a view; False where the database does not list its views."""
    if not engine.translation.dialect.catalogue.views:
        return False
    kinds, key = _relation_kinds(engine), _schema_and_name(engine, name)
    if key not in kinds:  # what stands before its name may be the catalog
        key = _schema_and_name(engine, identifier(parts(name)[-1]))
    return kinds.get(key) == VIEW


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
    schemas = {schema for schema, name in _relation_kinds(engine) if name == table_name}
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
    name_by_key = {_schema_and_name(engine, name): name for name in names}
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
        ((name_parts[-2] if name_parts[1:] else of_view).casefold(), name_parts[-1].casefold())
        == key
        for name_parts in places
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


def _relation_kinds(engine: Database) -> dict[tuple[str, str], str]:
    """Schema and name -> `table` or `view`, of all that is there."""
    check_listed(engine)
    rows = engine.driver.rows(engine.translation.dialect.catalogue.relations)
    return {
        (str(schema).casefold(), str(name).casefold()): str(kind) for schema, name, kind in rows
    }


def _schema_and_name(engine: Database, name: str) -> tuple[str, str]:
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


# A spec that runs no more: its rows go into the archives, or for good, and its views go.


@dataclass(frozen=True)
class Retirement:
    """What a spec has in its tables.

    Attributes:
        rows: Table by its name -> the rows of the spec that go.
        first: The first day of the fact table.
        last: The last one.
        views: The views of this spec alone.
        are_kept: Whether the archives keep these rows.
    """

    rows: Mapping[str, int]
    first: date | None
    last: date | None
    views: Sequence[DatabaseObject]
    are_kept: bool

    @property
    def n_rows(self) -> int:
        """All rows together."""
        return sum(self.rows.values())


def retirement(spec: Spec, engine: Database, *, for_good: bool = False) -> Retirement:
    """What `retire` would remove; nothing is changed.

    Args:
        spec: Whose rows, with its `output`.
        engine: Where its tables are.
        for_good: Whether the archives lose its rows too.

    Raises:
        NoDataError: If the tables have no row of the spec, and there is no view of it.
    """
    with engine:
        check_own(spec, engine)
        name_by_table = {table: name for table, name in targets(spec).items() if table in COUNTED}
        tables = [*name_by_table.values(), *(archives(spec).values() if for_good else ())]
        rows = {name: _count(spec, engine, name) for name in tables if columns_of(name, engine)}
        views = views_of(spec, engine, [spec.title])
        if not any(rows.values()) and not views:
            raise NoDataError(f"{targets(spec)['facts']} has no row of {spec.title}")
        first, last = engine.rows(
            f"select min(metric_date), max(metric_date) from {relation(name_by_table['facts'])}\n"
            f"where spec = {literal(spec.title)}"
        )[0]
        are_kept = keeps(spec, engine.translation) and not for_good
        start, end = (day_of(day) if day is not None else None for day in (first, last))
        return Retirement(rows, start, end, views, are_kept)


def retire(
    spec: Spec,
    engine: Database,
    expected: int | None = None,
    *,
    for_good: bool = False,
    provenance: Provenance = UNNAMED,
) -> str:
    """Remove a spec's rows and the views of it alone, in one transaction where there are any.

    It is a run in the log, and can be taken back as long as the archives have its rows. Rows of
    other specs, the run log, and what the metrics and definitions mean stay.

    Args:
        spec: Whose rows, with its `output`.
        engine: Where its tables are.
        expected: How many rows go; None if nobody looks.
        for_good: Whether the archives lose its rows too.
        provenance: What the run log says of whoever does it.

    Returns:
        The id of the run.

    Raises:
        NoDataError: If the tables have no row of the spec.
        SpecError: If there are more or fewer rows, or another view reads one of those that go.
        EngineError: If a table cannot be written.
    """
    with engine:
        translation = engine.translation
        planned_retirement = retirement(spec, engine, for_good=for_good)
        views = [view.name for view in planned_retirement.views]
        if blockers := dependents(engine, views):
            raise SpecError(blockers)
        end = [view.dropped(translation) for view in planned_retirement.views]
        if for_good:
            own_rows = f"spec = {literal(spec.title)}"
            archive_names = [
                name for name in archives(spec).values() if name in planned_retirement.rows
            ]
            end += [
                f"delete from {translation.name(name)} where {own_rows}" for name in archive_names
            ]

        def check() -> None:
            n = retirement(spec, engine, for_good=for_good).n_rows
            if expected not in (None, n):
                raise SpecError(
                    f"{spec.title} now has {n:,} rows, not {expected:,}; nothing is removed"
                )

        change = LoggedChange(spec, engine, "retired", provenance)
        change.carry_out(_nothing(spec, engine), ALL_DAYS, check, end=end, is_kept=not for_good)
    return change.run_id


def _count(spec: Spec, engine: Database, name: str) -> int:
    where = f"spec = {literal(spec.title)}"
    return int(engine.rows(f"select count(*) from {relation(name)} where {where}")[0][0])


def _nothing(spec: Spec, engine: Database) -> dict[str, TableRows]:
    """No row for any table whose rows are of days."""
    rows_by_table = {}
    for table, name in targets(spec).items():
        if table in COUNTED:
            names = columns_of(name, engine)
            column_lines = lines(map(identifier, names))
            rows_by_table[table] = TableRows(
                names, f"select\n    {column_lines}\nfrom {relation(name)}\nwhere 1 = 0"
            )
    return rows_by_table


# All that runs made beside a fact table, removed; or the macros that `install` made.


def made_by_runs(spec: Spec, engine: Database) -> list[DatabaseObject]:
    """What runs made beside a fact table, of all specs: views, a function, tables with their rows.

    Args:
        spec: One of the specs, with its `output`.
        engine: Where its tables are.

    Raises:
        NoDataError: If nothing of it is there.
        SpecError: If a table was not made by a run, or is shared with another fact table, or the
            database does not list its views.
    """
    with engine:
        check_listed(engine)
        check_own(spec, engine)
        held = held_targets(spec, engine)
        names = {table: name for table, name in held.items() if columns_of(name, engine)}
        archive_by_table = {
            table: name for table, name in archives_of(held).items() if _is_archive(name, engine)
        }
        titles = _titles(engine, names.get("facts")) | _titles(engine, names.get("runs"))
        if spec.output and spec.output.runs:  # a log of several fact tables has specs of each
            titles = _titles(engine, names.get("facts"))
            _check_shared(names, titles, "runs", engine)
        _check_shared(names, titles, "per_query", engine)
        tables = [
            DatabaseObject(
                TABLE, name, int(engine.rows(f"select count(*) from {relation(name)}")[0][0])
            )
            for name in (*names.values(), *archive_by_table.values())
        ]
        views = views_of_all(spec, engine, titles | {spec.title}) if "facts" in names else []
        objects = [*views, *functions_of(spec, engine), *tables]
    if not objects:
        raise NoDataError(f"this database has no objects of {targets(spec)['facts']}")
    return objects


def made_by_install(engine: Database) -> list[DatabaseObject]:
    """The macros of metrics in a DuckDB database.

    A macro of the same name that takes other arguments is somebody else's.

    Raises:
        NoDataError: If it has none.
        SpecError: If it is another database.
    """
    with engine:
        sql = engine.translation.dialect.catalogue.macros
        if not sql:
            raise SpecError(f"install needs DuckDB, given {engine.name}; name a SPEC")
        rows = engine.driver.rows(sql.format(parameter=literal(RANKINGS)))
    label_macros = {name for name, parameters in rows if LABELS in parameters}
    names = {macro.name: macro.name.strip('"') for macro in macros()}
    objects = [
        DatabaseObject(MACRO, name)
        for name, bare_name in names.items()
        if bare_name in label_macros
    ]
    if not objects:
        raise NoDataError("this database has no macros of metrics")
    return objects


def uninstall(
    engine: Database, objects: Sequence[DatabaseObject], spec: Spec | None = None
) -> None:
    """Remove what was found, in one transaction where the database drops tables in one.

    Args:
        engine: Where it is.
        objects: What `made_by_runs` or `made_by_install` gave.
        spec: One of the specs, of what runs made.

    Raises:
        SpecError: If a view of somebody else reads any of it, or rows have come meanwhile.
        EngineError: If something cannot be removed.
    """
    translation = engine.translation
    with engine:
        if spec is None:
            with engine.transaction():
                for macro in objects:
                    engine.execute(macro.dropped(translation))
            return
        with engine.alone(targets(spec)["facts"]):
            if blockers := dependents(
                engine, [database_object.name for database_object in objects]
            ):
                raise SpecError(blockers)
            if made_by_runs(spec, engine) != objects:
                raise SpecError(
                    "a run has written in the meantime, so nothing is removed; look again"
                )
            with engine.transaction():
                for database_object in objects:
                    engine.execute(database_object.dropped(translation))


def _is_archive(name: str, engine: Database) -> bool:
    return "replaced_by" in {column.casefold() for column in columns_of(name, engine)}


def _titles(engine: Database, table: str | None) -> set[str]:
    """The specs that have rows in a table."""
    if table is None:
        return set()
    return {title for (title,) in engine.rows(f"select distinct spec from {relation(table)}")}


def _check_shared(names: dict[str, str], titles: set[str], table: str, engine: Database) -> None:
    """Whether a table has rows of another fact table's specs.

    Raises:
        SpecError: If it has.
    """
    if foreign_specs := sorted(_titles(engine, names.get(table)) - titles):
        raise SpecError(
            f"{names[table]} has rows of specs that {names.get('facts', 'no fact table')} lacks: "
            f"{', '.join(foreign_specs)}; retire them first, or give each fact table its own "
            "tables"
        )
