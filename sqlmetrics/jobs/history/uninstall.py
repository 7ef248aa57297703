"""All that runs made beside a fact table, removed; or the macros that `install` made."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import NoDataError, SpecError
from sqlmetrics.jobs.history.objects import (
    MACRO,
    TABLE,
    DatabaseObject,
    check_listed,
    dependents,
    functions_of,
    views_of_all,
)
from sqlmetrics.jobs.macros import LABELS, RANKINGS, macros
from sqlmetrics.jobs.tables import archives_of, check_own, columns_of, held_targets, targets
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation


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
