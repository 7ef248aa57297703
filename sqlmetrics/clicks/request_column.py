"""Whether the column of requests is one: a session has many queries, and many items a position."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import NUMBER
from sqlmetrics.clicks.log_rows import DEDUPLICATED, LOGGED
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.report.table import printable
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier

MANY = 0.2
"""The share of requests with several queries from which the column is doubted."""

SHARED = 0.5
"""The same, of requests with two items at one position, where a log has no queries."""

LOOKED_AT = 30
"""As many other columns are asked at most."""


def doubt(tables: ClickTables, engine: Database) -> Iterator[str]:
    """A note where many requests have several queries, as sessions have.

    Args:
        tables: The stages of the log, whose tables are kept.
        engine: Where they are.
    """
    shown = tables.names.impressions
    if shown.get("request") in (None, NUMBER) or tables.clicks.format == "ubi":
        return
    has_queries = "query" in shown
    select = print_template(
        "clicks/doubted_requests", {"deduplicated": DEDUPLICATED, "logged": LOGGED}
    )
    ((n_requests, n_shared, n_queries),) = engine.rows(select)
    n_odd, least = (n_queries, MANY) if has_queries else (n_shared, SHARED)
    if not n_requests or n_odd < least * n_requests:
        return
    why = "have several queries" if has_queries else "have two items at one position"
    column = tables.clicks.columns.request if tables.clicks.columns else ""
    likely = _likely(tables, engine)
    place = "log" if tables.clicks.log is not None else "impressions"
    remedy = (
        f"{printable(likely)} has one item at each position: give "
        f"clicks.{place}.columns.request: {printable(likely)}"
        if likely
        else "name the column of the list that was shown at once, not that of a visit"
    )
    yield (
        f"request: {n_odd:,} of {n_requests:,} requests {why}, so {printable(str(column))} looks "
        f"like a session; {remedy}"
    )


def _likely(tables: ClickTables, engine: Database) -> str:
    """The column that no role has and that tells lists apart: with the fewest values of those."""
    source = tables.sources(of_all_days=True)["impressions"]
    columns = tables.clicks.columns
    named = columns.model_dump(exclude={"segments", "actions"}) if columns else {}
    taken = {str(name).casefold() for name in named.values()} | {NUMBER}
    free = [name for name in engine.columns(source) if name.casefold() not in taken][:LOOKED_AT]
    if not free:
        return ""
    select = print_template(
        "clicks/likely_requests",
        {
            "columns": [identifier(name) for name in free],
            "request": tables.names.impressions["request"],
            "position": tables.names.impressions["position"],
            "item": tables.names.impressions["item"],
            "source": source,
        },
    )
    ((n_requests, *counts),) = engine.rows(select)
    fits = []
    for place, name in enumerate(free):
        n_values, n_places, n_items = counts[3 * place : 3 * place + 3]
        if n_requests < n_values < n_places and n_items <= 1.01 * n_places:
            fits.append((n_values, name))
    return min(fits, default=(0, ""))[1]
