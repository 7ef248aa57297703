"""A click log as a list of steps, which are either carried out or printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.cleaning import ClickTables, view_name
from sqlmetrics.clicks.columns import SESSION
from sqlmetrics.clicks.labels import POOLED, labels, pooled
from sqlmetrics.clicks.log_rows import (
    ANSWERS,
    ATTRIBUTED,
    BOTS,
    CHOSEN,
    DEDUPLICATED,
    EXCLUDED,
    IRREGULAR,
    ITEM_POSITIONS,
    LOGGED,
    NUMBERED,
)
from sqlmetrics.clicks.online_sums import sums
from sqlmetrics.engines.temporary import TABLE, VIEW, Step
from sqlmetrics.spec.click_log import LABELS, RANKINGS
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, print_template, select_of, with_stages
from sqlmetrics.sql.template import lines

TABLES: Mapping[str, str] = {
    "numbered": NUMBERED,
    "chosen_requests": CHOSEN,
    "bot_users": BOTS,
    "logged_requests": LOGGED,
    "excluded_requests": EXCLUDED,
    "deduplicated": DEDUPLICATED,
    "irregular_requests": IRREGULAR,
    "attributed_events": ATTRIBUTED,
    "answers": ANSWERS,
    "item_positions": ITEM_POSITIONS,
}
"""Stages whose rows are kept -> the table that keeps them."""

ORDER = (
    *("numbered", "chosen_requests", "events_read", "bot_users"),
    *("impressions_read", "logged_requests", "excluded_requests", "deduplicated"),
    *("irregular_requests", "clean_impressions", "attributed_events", "answers"),
    *("seen_impressions", "request_queries", "evaluated_impressions"),
    *("orderly_requests", "irregular_impressions", "item_positions"),
)
"""Stages that are kept or stand as views, each after those that it reads."""

CHOOSING = (NUMBERED, CHOSEN)
"""Tables that say which rows are looked at."""


def cleaning(tables: ClickTables) -> Iterator[Step]:
    """What is cleaned once: the tables that are kept, and the views between them."""
    for stage in ORDER:
        if stage in tables.views:
            yield Step(view_name(stage), select_of(tables.stages_of(stage)), VIEW)
        elif stage in tables.kept:
            yield Step(
                TABLES[stage], with_stages(tables.stages_of(stage), f"select *\nfrom {stage}")
            )


def online_step(
    tables: ClickTables, spec: Spec, name: str = "", *, moments: bool = False
) -> Sequence[Step]:
    """The sums of the online metrics that a spec asks for; none if it asks for none.

    Args:
        tables: The stages of the log.
        spec: What is asked.
        name: The table that keeps them; none if they are only read.
        moments: Whether there is also what intervals are made of.

    Raises:
        SpecError: If the log has not what a metric needs.
    """
    online_measures = [online(text) for text in spec.online]
    return (
        [Step(name, sums(tables, online_measures, spec, moments=moments))]
        if online_measures
        else []
    )


def lists(tables: ClickTables) -> Iterator[Step]:
    """Rankings and labels as an evaluation reads them; views, where these are as fast."""
    is_kept = tables.clicks.labels.pools and not tables.leaves_own_out
    if is_kept:
        yield Step(POOLED, pooled(tables))
    kind = TABLE if tables.names.at.changes else VIEW
    yield Step(RANKINGS, rankings(tables), kind)
    yield Step(LABELS, labels(tables, POOLED if is_kept else ""), kind)


def steps(spec: Spec, tables: ClickTables, kept_online: str = "") -> Iterator[Step]:
    """All of a log before its lists are evaluated: cleaning, online metrics, lists.

    Args:
        spec: What is asked.
        tables: The stages of its log.
        kept_online: The table that keeps the sums of online metrics; none if they are only
            read.

    Raises:
        SpecError: If the log has not what a metric needs.
    """
    yield from cleaning(tables)
    yield from online_step(tables, spec, kept_online, moments=bool(kept_online))
    if spec.metrics:
        yield from lists(tables)


def rankings(tables: ClickTables) -> str:
    """What was shown, as rankings: a list a request, in the order of the positions.

    Of several texts of a request the least counts, and of several days the first.
    """
    of_request = "over (partition by request_id)"
    columns = [
        "request_id as query_id",
        "item_id",
        "-position as score",
        f"min(query_text) {of_request} as query_text",
        "system",
        f"min(metric_date) {of_request} as metric_date",
        *tables.names.segments,
    ]
    select = f"select\n    {lines(columns)}\nfrom {tables.of[tables.evaluates]}"
    return with_stages(tables.stages(tables.evaluates), select)


def shown_ranks(tables: ClickTables) -> str:
    """The ranks of answered items in requests in order, as a `select`.

    It has a row without a rank for each such request in which nothing was done.
    """
    request = Column("orderly_requests.request_id", "query_id")
    fact_names = [name for name in tables.rows.facts if name != SESSION]
    facts = [Column(f"orderly_requests.{name}", name) for name in fact_names]
    view = {"of": tables.of, "columns": [request, *facts]}
    select = print_template("clicks/shown_ranks", view)
    return with_stages(tables.stages("orderly_requests"), select)
