"""The cleaning report: how many rows each step leaves out, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import NUMBER
from sqlmetrics.clicks.labels import standing
from sqlmetrics.clicks.log_rows import ATTRIBUTED, DEDUPLICATED, LOGGED
from sqlmetrics.clicks.named_values import actions
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.checks.named_values import describe_counts
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.spec.click_columns import CLICK
from sqlmetrics.spec.click_log import Cleaning
from sqlmetrics.sql.stage import print_template, with_stages
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.tables.table import Table, many, printable

IMPRESSIONS = "impressions"
UNUSED = "not used"
REASONS = {
    UNUSED: "the action has no label, and no metric or success uses it",
    "test traffic": "the request meets the condition for test traffic",
    "bot": "the user has more events in an hour than a person can have",
    "incomplete": "the request, item or position is missing",
    "unreadable time": "the time cannot be read",
    "same position": "another item has the same position",
    "below the last click": "the item is too far below the last click to have been seen",
    "no impression": "the item was not shown in that request",
    "before the impression": "the event happened before the item was shown",
    "after the window": "the event happened too long after the item was shown",
    "short stay": "the user left the item at once",
    "repeated": "the row repeats an item of a request, or an action on it",
}
"""Why a row is left out."""

_OF_IMPRESSIONS = (
    *("test traffic", "bot", "incomplete", "unreadable time"),
    *("repeated", "same position", "below the last click"),
)
_OF_EVENTS = (
    *(UNUSED, "test traffic", "bot", "unreadable time", "same position", "no impression"),
    *("before the impression", "after the window", "short stay", "repeated"),
)
"""The reasons in the order in which they are looked at: a row is left out for the first."""

EARLY = "before the impression"
TIMED = _OF_EVENTS[_OF_EVENTS.index(EARLY) :]
"""The reasons of events on items that were shown."""


@dataclass(frozen=True)
class Step:
    """One step of the cleaning.

    Attributes:
        what: `impressions`, or the action of events.
        why: One of `REASONS`.
        rows_in: How many rows came to it.
        rows_out: How many it left.
    """

    what: str
    why: str
    rows_in: int
    rows_out: int

    @property
    def removed(self) -> int:
        """How many it took away."""
        return self.rows_in - self.rows_out


def steps(
    counts: Mapping[tuple[str, str | None], int], cleaning: Cleaning | None = None
) -> Iterator[Step]:
    """The steps that took something away, from how many rows of each kind have which reason.

    Args:
        counts: `impressions` or an action, and why it was left out or None -> how many rows.
        cleaning: What the spec says: a step that it names, and that took nothing of anything,
            is there too, once.
    """
    used = {reason for (_, reason), number in counts.items() if number}
    named_steps = _named(cleaning) if cleaning else ()
    idle = {reason: kind for reason, kind in named_steps if reason not in used}
    for kind, (logged, _) in totals(counts).items():
        remaining = logged
        for reason in _OF_IMPRESSIONS if kind == IMPRESSIONS else _OF_EVENTS:
            removed = counts.get((kind, reason), 0)
            if removed or idle.get(reason) == kind:
                yield Step(kind, reason, remaining, remaining - removed)
            remaining -= removed


def _named(cleaning: Cleaning) -> Iterator[tuple[str, str]]:
    """The steps that a spec names -> of what rows it is said that they took none."""
    if cleaning.test is not None:
        yield "test traffic", IMPRESSIONS
    if cleaning.max_events_per_user_hour is not None:
        yield "bot", IMPRESSIONS
    if cleaning.same_position != "keep":
        yield "same position", IMPRESSIONS
    if cleaning.unseen is not None:
        yield "below the last click", IMPRESSIONS
    if cleaning.attribution_window is not None:
        yield "after the window", CLICK
    if cleaning.min_dwell is not None:
        yield "short stay", CLICK
    if cleaning.deduplicate and "deduplicate" in cleaning.model_fields_set:
        yield "repeated", CLICK


def totals(counts: Mapping[tuple[str, str | None], int]) -> dict[str, tuple[int, int]]:
    """`impressions` or an action -> how many rows were logged, and how many are left."""
    actions = sorted(
        {kind for kind, _ in counts} - {IMPRESSIONS},
        key=lambda kind: ((kind, UNUSED) in counts, kind),
    )
    return {
        row_kind: (
            sum(number for (kind, _), number in counts.items() if kind == row_kind),
            counts.get((row_kind, None), 0),
        )
        for row_kind in (IMPRESSIONS, *actions)
    }


def cleaning_table(cleaning_steps: Sequence[Step], totals: Mapping[str, tuple[int, int]]) -> Table:
    """The report as a table: what came in, what each step took, what is left."""
    lines, unused = [], {step.what for step in cleaning_steps if step.why == UNUSED}
    for kind, (before, after) in totals.items():
        if kind in unused:
            lines.append((kind, UNUSED, f"-{before:,}", "0"))
            continue
        lines.append((kind, "logged", "", f"{before:,}"))
        lines += [
            ("", step.why, f"{-step.removed:,}", f"{step.rows_out:,}")
            for step in cleaning_steps
            if step.what == kind
        ]
        lines.append(("", "kept", "", f"{after:,}"))
    return Table(("rows", "step", "left out", "kept"), lines, 2)


# What is doubted of a log: whether its requests are some, and whether its times are of one zone.
#
# A session has many queries, and many items a position.

MANY = 0.2
"""The share of requests with several queries from which the column is doubted."""

SHARED = 0.5
"""The same, of requests with two items at one position, where a log has no queries."""

LOOKED_AT = 30
"""As many other columns are asked at most."""

MANY_EARLY = 0.5
"""The share of events before their impression from which the times are doubted."""

LEAST_EARLY = 20
"""Of fewer such events nothing is said."""

MANY_STRAY = 0.9
"""The share of events of no logged request from which their column is doubted."""


def doubts_of_log(tables: ClickTables, engine: Database) -> Iterator[str]:
    """Notes on what cannot be right of many rows.

    Args:
        tables: The stages of the log, whose tables are kept.
        engine: Where they are.
    """
    yield from _sessions(tables, engine)
    timed = f"reason is null or reason in ({', '.join(map(literal, TIMED))})"
    (row,) = engine.rows(
        f"select count(*), sum(case when {timed} then 1 else 0 end),\n"
        f"    sum(case when reason = {literal(EARLY)} then 1 else 0 end)\nfrom {ATTRIBUTED}"
    )
    n_events, n_on_shown, n_early = (int(count or 0) for count in row)
    # an event on an item that was shown is of a request that was logged
    may_be_stray = n_on_shown <= n_events - MANY_STRAY * n_events
    if may_be_stray and (stray := stray_events(tables, engine)):
        yield f"events: {stray}"
    if n_early >= max(LEAST_EARLY, MANY_EARLY * n_on_shown):
        yield (
            f"times: {n_early:,} of {n_on_shown:,} events on shown items are before their "
            "impression; if one table has local times and the other UTC, convert it in its sql: "
            "a time without a zone is read as UTC"
        )


def stray_events(tables: ClickTables, engine: Database) -> str:
    """Why nearly no event is of a request that was logged; empty if that is not so."""
    if tables.clicks.events is None or tables.clicks.format == "ubi":
        return ""
    (row,) = engine.rows(
        print_template("clicks/stray_events", {"attributed": ATTRIBUTED, "logged": LOGGED})
    )
    n_events, n_stray = (int(count or 0) for count in row)
    if not n_events or n_stray < MANY_STRAY * n_events:
        return ""
    impressions = tables.clicks.impressions
    request_column = printable(str(impressions.columns.request)) if impressions else "request"
    column = printable(str(tables.clicks.events.columns.request))
    few = "none" if n_stray == n_events else "few"
    return (
        f"{n_stray:,} of {n_events:,} events have a request that was not shown: {column} (request "
        f"in clicks.events.columns) has {few} of the values of {request_column} (request in "
        "clicks.impressions.columns); name the column of the request, not of a visit"
    )


def null_systems(tables: ClickTables, engine: Database) -> Problem | None:
    """The impressions that say no system, where others do; None if there is none.

    Args:
        tables: The stages of the log, of which none needs to be there.
        engine: Where its source is.
    """
    columns = tables.clicks.columns
    if columns is None or columns.system is None:
        return None
    system = tables.names.impressions["system"]
    column_by_role = {"request": columns.request, "item": columns.item, "system": columns.system}
    sql_by_column = {
        str(name): tables.names.impressions[role] for role, name in column_by_role.items() if name
    }
    source = tables.sources()["impressions"]
    ((n_rows,),) = engine.rows(f"select count(*) from {source} where {system} is null")
    if not n_rows:
        return None
    select = ", ".join(f"cast({column} as varchar)" for column in sql_by_column.values())
    examples = engine.rows(f"select {select} from {source} where {system} is null limit 3")
    table = "log" if tables.clicks.log is not None else "impressions"
    name = printable(str(columns.system))
    return Problem(
        table,
        f"{name} (system) is NULL in {many(int(n_rows), 'row')}",
        int(n_rows),
        tuple(sql_by_column),
        examples,
        f'leave these rows out with clicks.{table}.where: "{name} is not null", or fill them in',
    )


def _sessions(tables: ClickTables, engine: Database) -> Iterator[str]:
    """A note where many requests have several queries, as sessions have."""
    impressions = tables.names.impressions
    if impressions.get("request") in (None, NUMBER) or tables.clicks.format == "ubi":
        return
    has_queries = "query" in impressions
    select = print_template(
        "clicks/doubted_requests", {"deduplicated": DEDUPLICATED, "logged": LOGGED}
    )
    ((n_requests, n_shared, n_queries),) = engine.rows(select)
    n_odd, least = (n_queries, MANY) if has_queries else (n_shared, SHARED)
    if not n_requests or n_odd < least * n_requests:
        return
    reason = "have several queries" if has_queries else "have two items at one position"
    column = tables.clicks.columns.request if tables.clicks.columns else ""
    likely = _likely(tables, engine)
    table = "log" if tables.clicks.log is not None else "impressions"
    remedy = (
        f"{printable(likely)} has one item at each position: set clicks.{table}.columns.request: "
        f"{printable(likely)}"
        if likely
        else "name the column that identifies a shown list, not a visit"
    )
    yield (
        f"request: {n_odd:,} of {n_requests:,} requests {reason}, so "
        f"{printable(str(column))} looks "
        f"like a session; {remedy}"
    )


def _likely(tables: ClickTables, engine: Database) -> str:
    """The column that no role has and that tells lists apart: with the fewest values of those."""
    source = tables.sources(of_all_days=True)["impressions"]
    columns = tables.clicks.columns
    column_by_role = columns.model_dump(exclude={"segments", "actions"}) if columns else {}
    used_columns = {str(name).casefold() for name in column_by_role.values()} | {NUMBER}
    free = [name for name in engine.columns(source) if name.casefold() not in used_columns][
        :LOOKED_AT
    ]
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
    for number, name in enumerate(free):
        n_values, n_places, n_items = counts[3 * number : 3 * number + 3]
        if n_requests < n_values < n_places and n_items <= 1.01 * n_places:
            fits.append((n_values, name))
    return min(fits, default=(0, ""))[1]


# Why nothing is there to evaluate: no list, no label, no judgment.

Counts = Mapping[tuple[str, str | None], int]
"""`impressions` or an action, why it was left out or None -> rows."""


def of_lists(tables: ClickTables, engine: Database, counts: Counts) -> Problem:
    """Why there is no list."""
    sentence = f"no impression is left{_when(tables)}, so there is no list to evaluate"
    message = _with(sentence, counts, (IMPRESSIONS,))
    return Problem("impressions", message, 0, may_come=not _is_logged(tables, engine, counts))


def _is_logged(tables: ClickTables, engine: Database, counts: Counts) -> bool:
    """Whether the log has an impression of the days that are evaluated, be it left out or not."""
    any_day = any(n for (kind, _), n in counts.items() if kind == IMPRESSIONS)
    days = tables.clicks.evaluation
    if days is None or not any_day:
        return any_day
    stages = tables.stages("impressions_read")
    of_days = " and ".join(tables.names.day_conditions(days, "shown_at"))
    select = (
        f"select 1 as row_exists\nfrom {tables.of['impressions_read']}\nwhere {of_days}\nlimit 1"
    )
    return bool(engine.rows(with_stages(stages, select)))


def of_labels(tables: ClickTables, engine: Database, counts: Counts) -> Problem:
    """Why there is no label."""
    label_settings = tables.clicks.labels
    if label_settings.pools:
        return of_judgments(tables, engine)
    if stray := stray_events(tables, engine):
        return Problem("events", f"{stray}, so no item has a label", 0)
    graded = [action for action, grade in label_settings.grades.items() if grade > 0]
    sentence = (
        f"no event with a grade is left{_when(tables)} ({', '.join(graded) or 'none has one'})"
    )
    logged = any(action in graded for action, _ in counts)
    if not logged and tables.clicks.log is None:
        action_counts = actions(tables, engine)
        sentence += (
            f"; {describe_counts(action_counts)}" if action_counts else "; there is no event"
        )
    is_late = not any(n for (action, _), n in counts.items() if action != IMPRESSIONS)
    return Problem("labels", _with(sentence, counts, graded), 0, may_come=is_late)


def of_judgments(tables: ClickTables, engine: Database) -> Problem:
    """Why there is no judgment of a query and an item."""
    label_settings = tables.clicks.labels
    when = (
        f" on the days that the labels are learned from ({label_settings.window})"
        if label_settings.window
        else ""
    )
    n_shown, worded, clicked = engine.rows(standing(tables))[0]
    if not n_shown:
        reason = f"no impression is left{when}"
    elif not worded:
        reason = f"none of {n_shown:,} impressions{when} has the text of its query"
    elif label_settings.min_impressions > 1:
        reason = (
            f"no item was shown {label_settings.min_impressions} times or more for a query{when} "
            f"(min_impressions); there are {worded:,} impressions"
        )
    else:
        reason = (
            f"{clicked or 0:,} of {worded:,} impressions{when} were clicked, so no rate is known"
        )
    return Problem("labels", f"there are no judgments: {reason}", 0)


def _when(tables: ClickTables) -> str:
    days = tables.clicks.evaluation
    return f" on the evaluated days ({days})" if days else ""


def _with(sentence: str, counts: Counts, kinds: tuple[str, ...] | list[str]) -> str:
    """The sentence with what was left out of these."""
    out = [
        f"{step.removed:,} of {step.what} left out: {step.why}"
        for step in steps(counts)
        if step.what in kinds
    ]
    return "; ".join([sentence, *out])
