"""A wide click log without a spec: its columns are known by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlmetrics.catalog.online import online
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.names import ITEMS, plain
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text

NAMES: Mapping[str, str] = {
    "request": "requestid searchid searchrequestid impressionid serpid pageviewid request search "
    "queryid qid sessionid session",
    "query": "query querytext searchquery searchterm term keywords keyword text",
    "item": f"itemid {ITEMS} item iid productid product sku asin articleid movieid songid objectid",
    "position": "position pos rank slot place",
    "clicked": "clicked click isclick isclicked hasclick clicks nclicks",
    "system": "system ranker model variant variation arm experimentgroup bucket",
    "user": "userid user uid visitorid clientid customerid memberid",
    "time": "time timestamp ts at eventtime datetime searchedat requestedat shownat",
}
"""Role -> the names that it goes by, the usual one first, without case, blanks and marks."""

ACTIONS: Mapping[str, str] = {
    "add_to_cart": "addtocart addedtocart isaddtocart atc carted cart",
    PURCHASE: "purchased purchase ispurchase ispurchased bought isbought ordered conversion",
}
"""Action -> the columns that are 1 where it was done."""

GRADES = {CLICK: 1, "add_to_cart": 2, PURCHASE: 3}
"""What an action is worth where nobody says it."""

USUAL = (
    "ndcg@10",
    "mrr",
    "ctr@5",
    "ctr",
    "abandonment",
    "zero_result_rate",
    "first_click_rank",
    "time_to_first_click",
    "purchases",
)
"""The metrics of a log, if none is named."""

NEEDED = ("request", "item", "position", "clicked")


def wide_log(
    source: object,
    engine: Database,
    metrics: str | Sequence[str] = (),
    by: Sequence[str] = (),
    *,
    time_zone: str | None = None,
    metrics_from: Any = None,
) -> tuple[Spec, str]:
    """The spec of a wide click log, and a sentence of what was taken for what.

    Args:
        source: One row per impression: a file, the name of a table, a `select`, or a DataFrame.
        engine: Where it is.
        metrics: Those that are asked for; default: the usual ones that it can give.
        by: Columns whose values are segments.
        time_zone: Whose days count; by default UTC.
        metrics_from: Folders of metrics of the user's own.

    Raises:
        InputError: If it cannot be read, or no column is a request, an item, its position or
            whether it was clicked; what was done with an item must stand in its row.
    """
    location = source_of(source, "log", engine.find)
    existing_columns = engine.columns(
        source_text(source_relation(Source(**location), "clicks_log", engine))
    )
    column_by_name = {plain(name): name for name in existing_columns}
    roles = dict(_roles(NAMES, column_by_name))
    actions = dict(_roles(ACTIONS, column_by_name))
    if lacks := [role for role in NEEDED if role not in roles]:
        usual_names = "; ".join(f"{role}: {', '.join(NAMES[role].split()[:3])}" for role in lacks)
        raise InputError(
            f"log: no column is known as {' or '.join(lacks)}; the columns are "
            f"{', '.join(existing_columns)}. Known are names like these, in any case and with or "
            f"without marks: {usual_names}; name other columns in a spec (clicks.log.columns)"
        )
    segments = tuple(name for name in by if name != "query_text")
    log = {**location, "columns": {**roles, "actions": actions, "segments": segments}}
    grades = {CLICK: GRADES[CLICK], **{name: GRADES[name] for name in actions}}
    spec = Spec(
        clicks={"log": log, "labels": {"grades": grades}, "time_zone": time_zone},
        metrics=metrics or tuple(_possible(actions)),
        metrics_from=metrics_from,
        by=tuple(by),
    )
    summary = ", ".join(f"{name} as {role}" for role, name in (roles | actions).items())
    return spec, f"log: using {summary}; name other columns in a spec"


def _roles(
    names: Mapping[str, str], column_by_name: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Role -> the column that has the first of its names; no column has two roles."""
    used_names: set[str] = set()
    for role, usual_names in names.items():
        fits = (
            name
            for name in usual_names.split()
            if name in column_by_name and name not in used_names
        )
        if name := next(fits, ""):
            used_names.add(name)
            yield role, column_by_name[name]


def _possible(actions: Mapping[str, str]) -> Iterator[str]:
    """The usual metrics that need nothing that is not there; its one time is no click's."""
    for metric in USUAL:
        if metric.partition("@")[0] in ("ndcg", "mrr"):
            yield metric
        elif metric == "purchases":
            if PURCHASE in actions:
                yield metric
        elif not online(metric).metric.needs:
            yield metric
