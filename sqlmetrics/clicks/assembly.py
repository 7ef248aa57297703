"""What was said of a log, and where its tables are -> the stages that clean it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlmetrics.clicks import ubi
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import NUMBER, TEXT_TYPES, Names, reading
from sqlmetrics.clicks.log_rows import NUMBERED
from sqlmetrics.clicks.ubi import Kinds
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_columns import CLICK, Events, Impressions, Log
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.source import Model
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.template import identifier, literal, parts
from sqlmetrics.sql.translation import Translation


def click_tables_of(
    clicks: Clicks,
    relations: Mapping[str, Relation],
    translation: Translation,
    kinds: Kinds | None = None,
    *,
    only_days: bool = False,
) -> ClickTables:
    """The tables of a log.

    Args:
        clicks: What was said of it.
        relations: Where each of its sources is.
        translation: The dialect of the database.
        kinds: The types of their columns, as far as they are known: of a table that is not
            there, times are taken for timestamps, unless it is a file of texts.
        only_days: Whether only requests of the days that count are read.

    Raises:
        SpecError: If a table is called as a stage that would hide it, or its database's texts
            cannot be read as times.
        InputError: If a column can have no times.
    """
    for role, relation in relations.items():
        _check_name(role, relation)
    column_kinds = kinds or {}
    texts = frozenset(role for role, relation in relations.items() if relation.texts)
    timed = _timed(clicks, relations, translation, column_kinds)
    names = _names(clicks, translation, column_kinds, texts)
    read = frozenset(
        table
        for table, role in _roles(clicks).items()
        if role in relations and timed[role] is not relations[role]
    )
    names = replace(names, read=read)
    if clicks.log is not None and clicks.log.columns.request is None:
        numbered = Relation("table", NUMBERED)
        tables = ClickTables(clicks, names, numbered, numbered, None, timed["log"], only_days)
        return _with_views(tables)
    first = timed.get("log") or timed.get("impressions") or timed["events"]
    events = timed.get("events", first)
    if clicks.format == "ubi":
        first = ubi.impressions(clicks, timed, relations.get("requests"), column_kinds)
    requests = timed.get("requests")
    return _with_views(ClickTables(clicks, names, first, events, requests, only_days=only_days))


def _with_views(tables: ClickTables) -> ClickTables:
    """The same, the stages that several statements read as views, if the database has them."""
    dialect = tables.names.at.dialect
    if not dialect.temporary_view:
        return tables
    clicks = tables.clicks
    has_days = clicks.evaluation is not None
    in_views = dialect.parameters_in_views or not has_days
    shared = {
        "events_read": tables.bots and "chosen_requests" not in tables.kept,
        "impressions_read": True,
        "clean_impressions": True,
        "seen_impressions": clicks.cleaning.unseen is not None,
        "request_queries": has_days or clicks.labels.window is not None,
        "evaluated_impressions": has_days and dialect.parameters_in_views,
        "orderly_requests": tables.counts_requests and in_views,
        "irregular_impressions": tables.counts_requests and in_views,
    }
    return replace(tables, views=frozenset(name for name, is_view in shared.items() if is_view))


def _roles(clicks: Clicks) -> dict[str, str]:
    """`impressions`, `events` and `requests` -> the source that has them."""
    if clicks.log is not None:
        return {"impressions": "log", "events": "log"}
    of_hits = clicks.lists_from == "hit_ids"
    impression_source = (
        "impressions" if clicks.format is None else "requests" if of_hits else "events"
    )
    return {"impressions": impression_source, "events": "events", "requests": "requests"}


def _timed(
    clicks: Clicks, relations: Mapping[str, Relation], translation: Translation, kinds: Kinds
) -> dict[str, Relation]:
    """The relations, with times where theirs are texts or numbers."""
    is_ubi = clicks.format == "ubi"
    timed = dict(relations)
    for role, source in clicks.sources.items():
        column = "timestamp" if is_ubi else source.columns.time
        usual = "VARCHAR" if is_ubi or relations[role].texts else None
        kind = kinds.get(role, {}).get((column or "").casefold(), usual)
        unit = source.time_unit or ("ms" if is_ubi else None)
        read = reading(column, kind, unit, translation)
        if read:
            timed[role] = read.of(relations[role], translation)
    return timed


def _names(clicks: Clicks, translation: Translation, kinds: Kinds, texts: frozenset[str]) -> Names:
    """The names of a log's columns, in the dialect of its database."""
    names = _named(clicks, kinds, texts)
    logged_sources = {
        "impressions": clicks.impressions or clicks.log,
        "events": clicks.events or clicks.log,
    }
    sources = {**logged_sources, "requests": clicks.requests}
    where = {
        table: translation.condition(source.where)
        for table, source in sources.items()
        if source and source.where
    }
    randomised = translation.condition(clicks.propensity.randomised or "")
    names = replace(
        names,
        where=where,
        at=translation,
        randomised=randomised,
        zone=clicks.zone,
        dated=_dated(clicks, translation, kinds),
    )
    return ubi.where_of(names, clicks) if clicks.format == "ubi" else names


def _dated(clicks: Clicks, translation: Translation, kinds: Kinds) -> frozenset[str]:
    """The tables whose rows are stored under dates, where dates are compared with no text."""
    if translation.dialect.times.compares_texts:
        return frozenset()
    columns = {role: (clicks.day_column(role) or "").casefold() for role in clicks.sources}
    return frozenset(
        table
        for table, role in _roles(clicks).items()
        if role in columns and kinds.get(role, {}).get(columns[role]) == "DATE"
    )


def _named(clicks: Clicks, kinds: Kinds, texts: frozenset[str]) -> Names:
    if clicks.format == "ubi":
        return ubi.names(clicks, kinds)
    if clicks.log is not None:
        return _wide(clicks.log, kinds.get("log", {}), has_texts="log" in texts)
    impressions, events = clicks.impressions or Impressions(), clicks.events or Events()
    kind = kinds.get("impressions", {}).get(impressions.columns.position.casefold(), "")
    return Names(
        impressions=_columns_by_role(impressions.columns),
        events=_columns_by_role(events.columns),
        requests=_columns_by_role(clicks.requests.columns) if clicks.requests else {},
        segments=tuple(map(identifier, impressions.columns.segments)),
        first_position=impressions.first_position,
        has_texts="impressions" in texts or kind.startswith(TEXT_TYPES),
    )


def _wide(log: Log, kinds: Mapping[str, str], *, has_texts: bool) -> Names:
    columns = {"request": NUMBER} | _columns_by_role(log.columns)
    usual = "VARCHAR" if has_texts else ""
    condition_by_action = {
        action: is_done(identifier(name), kinds.get(name.casefold(), usual))
        for action, name in (log.columns.column_by_action or {CLICK: "clicked"}).items()
    }
    return Names(
        impressions=columns,
        events=columns,
        condition_by_action=condition_by_action,
        segments=tuple(map(identifier, log.columns.segments)),
        first_position=log.first_position,
        has_texts=kinds.get(log.columns.position.casefold(), usual).startswith(TEXT_TYPES),
    )


def _columns_by_role(columns: Model) -> dict[str, str]:
    """The roles that have a column."""
    name_by_role = columns.model_dump(exclude={"segments", "clicked", "actions"})
    return {role: identifier(name) for role, name in name_by_role.items() if isinstance(name, str)}


HIDING = (
    *("events_read", "impressions_as_logged", "impressions_read", "requests"),
    "user_impressions",
)
"""Stages after which a source is read."""


def _check_name(role: str, relation: Relation) -> None:
    """Raise SpecError if a stage hides a table; the requests are read before that of their name."""
    if relation.template != "table":
        return
    *schema, name = map(str.casefold, parts(relation.location))
    if name in HIDING and name != role and not schema:
        raise SpecError(
            f"clicks.{role}: the query has a stage called {name!r}, which would hide the table; "
            f"name the table with its schema, like main.{name}"
        )


TRUE_WORDS = ("1", "1.0", "true", "True", "TRUE", "t", "yes", "Yes", "YES", "y")
FALSE_WORDS = ("0", "0.0", "false", "False", "FALSE", "f", "no", "No", "NO", "n", "")
"""Words for 1 and 0 in columns of a wide table that say whether something was done."""


def is_done(column: str, kind: str) -> str:
    """What a row meets on which it was done.

    Args:
        column: The column as SQL.
        kind: Its type in DuckDB's words; empty if it is not known, and then a number.
    """
    if kind.startswith("BOOLEAN"):
        return f"case when {column} then 1 else 0 end = 1"
    if kind.startswith(TEXT_TYPES):
        return f"cast({column} as varchar) in ({', '.join(map(literal, TRUE_WORDS))})"
    return f"{column} = 1"


def is_unclear(kind: str) -> str:
    """What a row meets that has neither, over {column}; empty where no row can."""
    if kind.startswith("BOOLEAN"):
        return ""
    if kind.startswith(TEXT_TYPES):
        literals = ", ".join(map(literal, (*TRUE_WORDS, *FALSE_WORDS)))
        return f"{{column}} is not null\n    and {{text}} not in ({literals})"
    return "{column} is not null\n    and {column} not in (0, 1)"
