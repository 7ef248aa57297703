"""Online metrics as SQL: one row per request, then sums over requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlmetrics.catalog.online import NEEDS, Online, cutoffs
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import SESSION
from sqlmetrics.clicks.log_rows import ATTRIBUTED, BOTS
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, Window, print_template, with_stages
from sqlmetrics.sql.template import case, identifier, literal

COUNTS = ("n_shown", "n_clicked", "n_purchases", "has_success", "revenue", "n_long_clicks")
"""What is counted or summed of a request; 0 where it has no result."""

PER_REQUEST = "per_request"
"""The stage of one row per request, that sums are taken over."""


def sums(
    tables: ClickTables, online_measures: Sequence[Online], spec: Spec, *, moments: bool = False
) -> str:
    """The sums of online metrics by day, system and segment.

    Args:
        tables: The stages of the log.
        online_measures: The metrics.
        spec: What is asked.
        moments: Whether there is also what intervals are made of.

    Raises:
        SpecError: If the log has not what a metric needs.
    """
    if spread := [str(measure) for measure in online_measures if measure.quantile is not None]:
        raise SpecError(
            f"{', '.join(spread)}: quantiles of days and segments do not add up, so only "
            "comparisons and experiments have them: sqlmetrics compare SPEC -m METRIC, or "
            "clicks.experiment"
        )
    check_has(tables, online_measures)
    daily = tables.clicks.daily
    keys = ["day", "system"] if daily else ["system"]
    segments = [{"name": "all", "value": "'all'", "grouped": keys}]
    for name in (name for name in spec.by if identifier(name) in tables.names.segments):
        value = f"coalesce({identifier(name)}, {literal(UNKNOWN)})"
        segments.append({"name": name, "value": value, "grouped": [*keys, identifier(name)]})
    view = {
        "keys": [
            Column("day" if daily else f"cast('{NO_DATE}' as date)", "metric_date"),
            Column(f"coalesce(system, {literal(spec.title)})", "system"),
        ],
        "segments": segments,
        "columns": [
            replace(column, sql=tables.names.at.exact(column.sql))
            for measure in online_measures
            for column in (*measure.columns(), *(measure.moments() if moments else ()))
        ],
        "order": ["metric_date", "system", "segment_name", "segment_value"],
    }
    return with_stages(per_request(tables, online_measures), print_template("clicks/online", view))


def check_has(tables: ClickTables, online_measures: Sequence[Online]) -> None:
    """Raise SpecError if the log lacks what a metric needs."""
    names = tables.names
    has = {"requests": tables.requests is not None, "time": names.has_times, "": True}
    has |= {"session": names.has_sessions, "amount": names.has_amounts, "dwell": names.has_stays}
    has |= {
        "visit": names.has_visits("query", names.visitor),
        "timed session": names.has_visits("session"),
    }
    lacks = [measure for measure in online_measures if not has[measure.metric.needs]]
    if lacks:
        needs = "; ".join(f"{measure} needs {NEEDS[measure.metric.needs]}" for measure in lacks)
        raise SpecError(f"the log lacks what its metrics need: {needs}")


def per_request(tables: ClickTables, online_measures: Sequence[Online]) -> Iterator[Stage]:
    """The stages to one row per request, `per_request`.

    Args:
        tables: The stages of the log.
        online_measures: The online metrics that read it.
    """
    visited = any(measure.of_visits for measure in online_measures)
    tables = replace(tables, begins_requests=visited)
    requests = ("requests",) if tables.requests is not None else ()
    request_stages = ("orderly_requests", "irregular_impressions")
    read = request_stages if tables.counts_requests else (tables.evaluates,)
    yield from tables.stages(*requests, *read, "answers", *["clean_impressions"] * visited)
    facts = tables.rows.facts
    shown_columns = list(_impression_columns(facts, cutoffs(online_measures)))
    answer_columns = [
        *_action_columns(cutoffs(online_measures)),
        *_bought(tables, online_measures),
        *_succeeded(tables),
    ]
    orderly_columns = (
        list(_ordered_columns(facts, cutoffs(online_measures))) if tables.counts_requests else []
    )
    listed = {
        "of": tables.of,
        "columns": shown_columns,
        "orderly_columns": orderly_columns,
        "from": read[-1],
    }
    yield Stage("shown_requests", "clicks/shown_requests", listed)
    yield Stage(
        "answered_requests",
        "clicks/answered_requests",
        {"of": tables.of, "columns": answer_columns},
    )
    measured = _measured(tables, online_measures)
    if measured is not None:
        yield measured
    columns = [
        *(Column(f"shown_requests.{column.name}", column.name) for column in shown_columns),
        *(_where_answered(column.name) for column in answer_columns),
        *(
            _where_answered(column.name, "measured_requests")
            for column in (measured.view["columns"] if measured else ())
        ),
    ]
    view = {
        "of": tables.of,
        "columns": [Column("shown_requests.request_id", "request_id"), *columns],
        "measured": measured is not None,
        "requests": tables.requests is not None,
        "bots": BOTS if tables.bots else "",
        "bots_by_day": tables.bots_by_day,
        "day_number": tables.names.day_number("requests.started_at"),
        "empty": [
            Column("requests.request_id", "request_id"),
            *(_of_nothing(column.name, facts) for column in columns),
        ],
    }
    names = [PER_REQUEST]
    if visited:
        names = ["per_visited_request", *names]
    if tables.names.has_sessions:
        names = ["per_answered_request", *names]
    yield Stage(names[0], "clicks/per_request", view)
    keys = [*["day"] * tables.clicks.daily, "system"]
    if tables.names.has_sessions:
        session = [*keys, SESSION]
        windows = {"in_order": Window(session, ["request_id asc"]), "session": Window(session, [])}
        yield Stage(names[1], "clicks/sessions", windows | {"from": names[0]})
    if visited:
        yield from _visits(tables, keys, online_measures)


def _visits(
    tables: ClickTables, keys: Sequence[str], online_measures: Sequence[Online]
) -> Iterator[Stage]:
    """The stages to what a visit does before and after each of its searches."""
    of_session = tables.names.has_sessions
    visit = [*keys, "visit_id"]
    yield Stage("searches", "clicks/searches", {"of": tables.of, "requests": bool(tables.requests)})
    view = {
        "from": "per_visited_request",
        "keys": keys,
        "visit": f"per_visited_request.{SESSION}" if of_session else "searches.user_id",
        "next": Window(
            visit, ["started_at asc", "request_id asc"], frame="1 following", until="1 following"
        ),
        "whole": Window(visit),
        "backwards": Window(visit, ["started_at desc", "request_id desc"]),
    }
    yield Stage("visits", "clicks/visits", view)
    reformulated = {
        f"reformulated_{measure.word}": measure.minutes * 60_000_000
        for measure in online_measures
        if measure.minutes is not None
    }
    yield Stage(PER_REQUEST, "clicks/visited", {"from": view["from"], "reformulated": reformulated})


def _bought(tables: ClickTables, online_measures: Sequence[Online]) -> Iterator[Column]:
    """What was paid, the topmost position that was bought, and long clicks, where it is read."""
    read = " ".join(part for measure in online_measures for part in measure.added)
    if "first_purchase" in read:
        yield Column("min(case when n_purchases > 0 then position end)", "first_purchase")
    if "n_long_clicks" in read:
        yield Column("sum(is_long_click)", "n_long_clicks")
    if "revenue" in read:
        yield Column(tables.names.at.total("amount"), "revenue")


_SUCCESS = {
    "seconds_to_success": ("min", "seconds_after"),
    "first_success_at": ("min", "happened_at"),
    "last_success_at": ("max", "happened_at"),
}
"""What is known of the success of a request -> the aggregate, and of what."""


def _read(measure: Online) -> Sequence[str]:
    """The columns of success that a metric reads."""
    if measure.of_visits:
        return ["first_success_at", "last_success_at"]
    return [name for name in _SUCCESS if name in measure.added[0]]


def _measured(tables: ClickTables, online_measures: Sequence[Online]) -> Stage | None:
    """What metrics of actions, and of success, read of a request; None if there is none.

    Repeated actions count as the cleaning has it: once, and then with the largest amount.
    """
    total = tables.names.at.total
    of_items, columns = dict[str, Column](), dict[str, Column]()
    for measure in online_measures:
        if not measure.action:
            continue
        is_done = f"action = {literal(measure.action)}"
        did, amount = f"did_{measure.word}", f"amount_{measure.word}"
        of_items[did] = Column(f"max({case(is_done, '1', '0')})", did)
        columns[did] = Column(f"max({did})", did)
        if amount in measure.added[0]:
            paid = f"case when {is_done} then amount end"
            is_once = tables.clicks.cleaning.deduplicate
            of_items[amount] = Column(f"max({paid})" if is_once else total(paid), amount)
            columns[amount] = Column(total(amount), amount)
    success = tables.clicks.success_actions
    is_success = f"action in ({', '.join(map(literal, success))})"
    for name, read in _SUCCESS.items():
        aggregate, value = read
        if any(name in _read(measure) for measure in online_measures):
            of_items[name] = Column(f"{aggregate}(case when {is_success} then {value} end)", name)
            columns[name] = Column(f"{aggregate}({name})", name)
    if not columns:
        return None
    actions = dict.fromkeys(
        action
        for measure in online_measures
        for action in ([measure.action] if measure.action else success)
        if measure.action or any(name in _read(measure) for name in _SUCCESS)
    )
    view = {
        "columns": [*columns.values()],
        "of_items": [*of_items.values()],
        "actions": ", ".join(map(literal, actions)),
        "attributed_events": ATTRIBUTED,
    }
    return Stage("measured_requests", "clicks/measured_requests", view)


def _succeeded(tables: ClickTables) -> Iterator[Column]:
    """Whether an action is among what was done that makes a session a success."""
    if tables.names.has_sessions:
        yield Column("max(is_success)", "has_success")


def _impression_columns(facts: Sequence[str], cutoffs: Sequence[int]) -> Iterator[Column]:
    """What the impressions of a request tell, beside what was done with them."""
    for name in facts:
        yield Column(f"min({name})", _named(name))
    # A count has no sign on ClickHouse, and the columns of both kinds of requests are of one type.
    yield Column("cast(count(*) as bigint)", "n_shown")
    for k in cutoffs:
        count_sql = f"sum({case(f'position <= {k}', '1', '0')})"
        yield Column(f"cast({count_sql} as bigint)", f"n_shown_at_{k}")


def _ordered_columns(facts: Sequence[str], cutoffs: Sequence[int]) -> Iterator[Column]:
    """The same of a request in order, whose items stand at one position after the other."""
    for name in facts:
        yield Column(name, _named(name))
    yield Column("cast(n_shown as bigint)", "n_shown")
    for k in cutoffs:
        all_shown = f"when last_position <= {k} then cast(n_shown as bigint)"
        down_to_k = f"when first_position <= {k} then {k} - first_position + 1"
        yield Column(f"case\n    {all_shown}\n    {down_to_k}\n    else 0\nend", f"n_shown_at_{k}")


def _named(fact: str) -> str:
    return "day" if fact == "metric_date" else fact


def _action_columns(cutoffs: Sequence[int]) -> Iterator[Column]:
    """What was done in a request."""
    yield Column("count(case when is_clicked = 1 then 1 end)", "n_clicked")
    yield Column("sum(n_purchases)", "n_purchases")
    yield Column("min(case when is_clicked = 1 then position end)", "first_click")
    yield Column("max(case when is_clicked = 1 then position end)", "last_click")
    yield Column("min(seconds_to_click)", "seconds_to_click")
    for k in cutoffs:
        clicked = case(f"is_clicked = 1 and position <= {k}", "1", "")
        yield Column(f"count({clicked})", f"n_clicked_at_{k}")


def _is_count(name: str) -> bool:
    return name in COUNTS or "_at_" in name or name.startswith("did_")


def _where_answered(name: str, stage: str = "answered_requests") -> Column:
    """A column of what was done in a request, where anything was."""
    answered = f"{stage}.{name}"
    return Column(f"coalesce({answered}, 0)" if _is_count(name) else answered, name)


def _of_nothing(name: str, facts: Sequence[str]) -> Column:
    """A column of a request without a result."""
    if name in map(_named, facts):
        return Column(f"requests.{name}", name)
    return Column("0" if _is_count(name) else "null", name)
