"""Of tables in hive folders of days, the files of those days that are read.

A database prunes the others as well, but opens each of them for every statement to learn its
columns; so the files are named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.inputs.formats import PARQUETS
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.template import literal

DAY = "day_of_file"
"""The column that has the day of a file's folder."""


def read_on_days(tables: Tables, spec: Spec, engine: Database) -> Tables:
    """The tables of an evaluation, with the files alone that may have rows of its days."""
    source_by_table = {"rankings": spec.rankings, "labels": spec.truth, "queries": spec.queries}
    relation_by_table: dict[str, Any] = {}
    for name, source in source_by_table.items():
        relation: Relation | None = getattr(tables, name)
        column = getattr(source.columns, "date", None) if source else None
        if relation and column and tables.ends:
            days = tables.ends.of(f"try_cast({DAY} as date)")
            relation_by_table[name] = near(relation, column, " and ".join(days), engine)
    return replace(tables, **relation_by_table)


def near(relation: Relation, column: str, days: str, engine: Database) -> Relation:
    """A table with the files alone whose folder has a day that meets a condition.

    It is left as it is where all do, or they have not the columns, of the same types, that all
    files have together. Where none does, it has one file, for its columns.

    Args:
        relation: Where it is.
        column: The column of days.
        days: What `DAY` meets.
        engine: The database.
    """
    if relation.template != PARQUETS.template or engine.translation.changes:
        return relation
    narrowed = replace(relation, files=_files(relation.place, column, days, engine))
    is_same = narrowed == relation or _types(narrowed, engine) == _types(relation, engine)
    return narrowed if is_same else relation


def _types(relation: Relation, engine: Database) -> Mapping[str, str]:
    return {name.casefold(): kind for name, kind in engine.columns(source_text(relation)).items()}


def _files(path: str, column: str, days: str, engine: Database) -> tuple[str, ...]:
    """The files of the folders whose day meets a condition, or is no day; none for all."""
    folder = rf"[/\\]{re.escape(column)}=([^/\\]*)[/\\]"
    rows = engine.rows(
        f"select\n    file,\n    coalesce({DAY} = '' or "
        f"{days}, true) as is_near\nfrom (\n    select\n        file,\n"
        f"        regexp_extract(file, {literal(folder)}, 1) as {DAY}\n"
        f"    from glob({literal(path)})\n) as files\norder by file"
    )
    near = [file for file, is_near in rows if is_near] or [file for file, _ in rows[:1]]
    return tuple(near) if len(near) < len(rows) else ()
