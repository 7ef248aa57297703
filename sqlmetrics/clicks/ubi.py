"""User Behavior Insights: its columns, and the lists that were shown, by events or by queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlmetrics.clicks.columns import Names
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import print_template

OBJECT = "(event_attributes ->> '$.object.object_id')"
POSITION = "(event_attributes ->> '$.position.ordinal')"
HITS = "query_response_hit_ids"
IMPRESSION = "action_name = 'impression'"

COLUMNS = {
    "requests": ("query_id", "client_id", "user_query", "timestamp"),
    "events": ("query_id", "client_id", "timestamp", "action_name", "event_attributes"),
}
"""The columns that are read, and must be there."""

_SHARED = {"request": "query_id", "user": "client_id", "time": "timestamp"}

Kinds = Mapping[str, Mapping[str, str]]
"""Table -> column in small letters -> type."""


def names(clicks: Clicks, kinds: Kinds) -> Names:
    """The names of its columns.

    Args:
        clicks: What was said of the log.
        kinds: What is known of its tables.
    """
    impressions = {**_SHARED, "query": _query(clicks, kinds), "item": OBJECT, "position": POSITION}
    if clicks.lists_from == "hit_ids":
        hit_columns = {
            "query": "user_query",
            "item": "sqlmetrics_item",
            "position": "sqlmetrics_position",
        }
        impressions = {**_SHARED, **hit_columns}
    return Names(
        impressions=impressions,
        events={**_SHARED, "item": OBJECT, "action": "action_name"},
        requests={**_SHARED, "query": "user_query"},
        first_position="each",
    )


def _query(clicks: Clicks, kinds: Kinds) -> str:
    """What was asked, by the event itself or else by its query."""
    has_query_text = "user_query" in kinds.get("events", {"user_query": ""})
    query_columns = [
        *(["user_query"] if has_query_text else []),
        *(["sqlmetrics_query"] if clicks.requests else []),
    ]
    return (
        f"coalesce({', '.join(query_columns)})"
        if len(query_columns) > 1
        else (query_columns or ["null"])[0]
    )


def impressions(
    clicks: Clicks, relations: Mapping[str, Relation], queries: Relation | None, kinds: Kinds
) -> Relation:
    """Where the impressions are: events beside their queries, or what the queries returned.

    Args:
        clicks: What was said of the log.
        relations: Its tables, with times.
        queries: That of the queries as it is.
        kinds: What is known of them.
    """
    requests = relations.get("requests")
    if requests is None:
        return relations["events"]
    condition = clicks.requests.where if clicks.requests else None
    if clicks.lists_from == "hit_ids":
        kind = kinds.get("requests", {}).get(HITS, "")
        view = {"hits": HITS, "is_list": kind.endswith("]"), "relation": requests}
        return Relation("made", print_template("clicks/hits", view))
    view = {"relation": relations["events"], "queries": queries, "condition": condition or ""}
    return Relation("made", print_template("clicks/worded", view))


def conditions(clicks: Clicks, where: Mapping[str, str]) -> dict[str, str]:
    """Table -> what its rows meet."""
    if clicks.lists_from == "hit_ids":
        request_condition = where.get("requests")
        return {**where, **({"impressions": request_condition} if request_condition else {})}
    events = where.get("events")
    return {**where, "impressions": f"({events}) and {IMPRESSION}" if events else IMPRESSION}


def settled(
    clicks: Clicks, relations: Mapping[str, Relation], kinds: Kinds, engine: Database
) -> Clicks:
    """A log that says where its lists come from: impressions by events, if there is one.

    Raises:
        InputError: If nothing says what was shown.
    """
    if clicks.format != "ubi" or clicks.lists_from == "impressions":
        return clicks
    has_hits = HITS in kinds.get("requests", {})
    if clicks.lists_from == "hit_ids" and not has_hits:
        raise InputError(f"requests: the column {HITS} is missing, and lists_from is hit_ids")
    if clicks.lists_from or _is_shown(clicks, relations["events"], engine):
        return clicks
    if not has_hits:
        raise InputError(
            "the log does not say what was shown: no event has the action_name 'impression', and "
            f"{'the queries have no column' if clicks.requests else 'no queries are given, with'} "
            f"{HITS}"
        )
    return clicks.model_copy(update={"lists_from": "hit_ids"})


def _is_shown(clicks: Clicks, events: Relation, engine: Database) -> bool:
    where = conditions(clicks, {"events": clicks.events.where or ""} if clicks.events else {})
    return bool(
        engine.rows(
            f"select 1 as is_shown from {source_text(events, where['impressions'])} limit 1"
        )
    )


def where_of(names: Names, clicks: Clicks) -> Names:
    """The names with what the rows of its tables meet."""
    return replace(names, where=conditions(clicks, names.where))
