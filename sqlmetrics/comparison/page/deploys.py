"""The days of deploys, from a table, for marks on the pictures of days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmetrics.comparison.page.content import Content
from sqlmetrics.comparison.page.words import Words
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.spec.source import Source
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.tabular import Row

DAYS = ("day", "date", "ds", "metric_date", "deployed_at", "released_at", "time", "timestamp")
NAMES = ("name", "title", "version", "release", "deploy", "model", "description")
"""The usual names of columns, the first that is there is taken."""

SHOWN = 12
"""As many marks are drawn, the last ones."""


def deploys_of(deploys: Any, engine: Database) -> list[Row]:
    """Day and name of each deploy, in order.

    Args:
        deploys: A file, a table's name, a query or a DataFrame, with a column of days or times, and
            maybe one of names.
        engine: Where the tables are.

    Raises:
        SpecError: If it is no table, or no column is called like a day.
    """
    location = source_of(deploys, "deploys", engine.find)
    text = source_text(source_relation(Source(**location), "deploys", engine))
    column_by_name = {name.casefold(): name for name in engine.columns(text)}
    day, name = (
        next(
            (column_by_name[candidate] for candidate in names if candidate in column_by_name), None
        )
        for names in _ROLES
    )
    if day is None:
        raise SpecError(
            f"deploys: no column of days; the columns are {', '.join(column_by_name.values())}; "
            f"name it one of {', '.join(DAYS)}"
        )
    name_expression = f"cast({identifier(name)} as varchar)" if name else "cast(null as varchar)"
    select = (
        f"select cast({identifier(day)} as date) as deploy_day, {name_expression} as deploy_name\n"
        f"from {text}\nwhere {identifier(day)} is not null"
    )
    rows = [{"day": str(d)[:10], "name": n or ""} for d, n in engine.rows(select)]
    return sorted(rows, key=lambda row: (row["day"], row["name"]))


_ROLES = (DAYS, NAMES)


def marks(content: Content, days: Sequence[str]) -> list[Row]:
    """The deploys from the first day of a picture to its last one, each with its number.

    Args:
        content: The numbers.
        days: The days of the picture.
    """
    visible_deploys = [
        deploy for deploy in content.deploys if min(days) <= deploy["day"] <= max(days)
    ]
    return [
        {**deploy, "mark": str(number)} for number, deploy in enumerate(visible_deploys[-SHOWN:], 1)
    ]


def describe_markers(content: Content, days: Sequence[str], words: Words, *, changed: bool) -> str:
    """What the lines across a picture of days are; empty where there is none.

    Args:
        content: The numbers.
        days: The days of the picture.
        words: The language.
        changed: Whether the definition of its metric changed on a day.
    """
    rows = marks(content, days)
    names = [f"({deploy['mark']}) {deploy['day']} {deploy['name']}".rstrip() for deploy in rows]
    deploys = words("days.deploys", names=", ".join(names)) if names else ""
    return (words("days.changed") if changed else "") + deploys
