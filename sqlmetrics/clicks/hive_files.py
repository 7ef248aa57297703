"""Of a log in hive folders of days, the files of those days that a run reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.engines.database import Database
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import literal

Kinds = Mapping[str, Mapping[str, str]]

FILES = "parquets"
"""The template of many files of Parquet, of which every statement reads what columns they have."""


def near(
    tables: ClickTables, relations: Mapping[str, Relation], kinds: Kinds, engine: Database
) -> dict[str, Relation]:
    """The sources of which fewer files do: those that may have rows of the days that are read.

    A database prunes such files as well, but opens each of them for every statement to learn its
    columns. So they are named, unless they have other columns than all files together.

    Args:
        tables: The stages of the log.
        relations: Where its sources are.
        kinds: The types of their columns.
        engine: The database.
    """
    found = {}
    for source, relation in relations.items():
        column = tables.clicks.day_column(source)
        if not (column and tables.days and relation.template == FILES):
            continue
        table = "impressions" if source == "log" else source
        files = _files(relation.place, column, tables.read.stored_on(table, "day_of_file"), engine)
        view = {"files": files}
        chosen = Relation("made", print_template("inputs/parquet_list", view))
        there = engine.columns(source_text(chosen)) if files else {}
        if {name.casefold(): kind for name, kind in there.items()} == kinds[source]:
            found[source] = chosen
    return found


def _files(place: str, column: str, near: str, engine: Database) -> list[str]:
    """The files of the folders whose day meets a condition; one at least, for its columns."""
    folder = rf"[/\\]{re.escape(column)}=([^/\\]*)[/\\]"
    rows = engine.rows(
        "select\n    file,\n    coalesce(day_of_file = '' or "
        f"{near}, true) as is_near\nfrom (\n    select\n        file,\n"
        f"        regexp_extract(file, {literal(folder)}, 1) as day_of_file\n"
        f"    from glob({literal(place)})\n) as files\norder by file"
    )
    return [file for file, is_near in rows if is_near] or [file for file, _ in rows[:1]]
