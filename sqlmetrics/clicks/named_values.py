"""Whether a log has the values that a spec names: its actions, systems and segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import Names
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, did_you_mean
from sqlmetrics.evaluation.checks.named_values import FEW, Counts, absent, counted, describe_counts
from sqlmetrics.evaluation.checks.problem import Problem, refusal
from sqlmetrics.spec.named_values import ACTION, SYSTEM, NamedValue, of_clicks

IMPRESSION = "impression"
"""The action of what was shown, in User Behavior Insights."""

REMEDY = (
    "actions are compared as they are written; make them one by sql: select ..., "
    "lower(action) as action from ..."
)


@dataclass(frozen=True)
class Looked:
    """What a log was found to have.

    Attributes:
        notes: What is named and the log lacks.
        unused: Action of the days that are read that nothing names -> how many events have it.
    """

    notes: tuple[str, ...] = ()
    unused: Mapping[str, int] = field(default_factory=dict)


def check(
    tables: ClickTables, names: Iterable[NamedValue], engine: Database, *, dry: bool = False
) -> Looked:
    """What the log has of what is named.

    A day may lack what other days have: of what is not there, all days are asked.

    Args:
        tables: The stages of the log.
        names: What the spec names beside `clicks`.
        engine: The log's database.
        dry: Whether no days are chosen, since nothing is computed.

    Raises:
        InputError: If a number would silently be another one: a graded action, a baseline or
            the clicks of a metric are spelled differently, or nowhere in the log; or actions
            differ in upper and lower case alone.
    """
    named_values = [*of_clicks(tables.clicks), *names]
    problems: list[Problem] = []
    notes: list[str] = []
    unused: dict[str, int] = {}
    for table, columns in _columns(tables, named_values).items():
        counts = _counts(tables, table, columns, engine, of_all_days=dry)
        if table == "events":
            unused = {name: n for name, n in counts[ACTION].items() if name not in tables.actions}
            _check_case(tables, counts[ACTION])
        table_values = [name for name in named_values if name.role in columns]
        if not dry and _lacks(tables, table_values, counts):
            counts = _counts(tables, table, columns, engine, of_all_days=True)
        if table == "events":
            problems += _unknown_actions(tables, counts[ACTION])
            notes += _no_event(tables, counts[ACTION], named_values, engine)
        if not problems:
            absence = absent(table, table_values, counts)
            problems += absence.problems
            notes += absence.notes
    if problems:
        raise InputError(problems)
    return Looked(tuple(notes), unused)


def actions(tables: ClickTables, engine: Database) -> Mapping[str, int]:
    """The actions of the events that are read -> how many there are, the most first."""
    columns = {ACTION: _action(tables.names)}
    return _counts(tables, "events", columns, engine, of_all_days=False)[ACTION]


def _columns(tables: ClickTables, named_values: Sequence[NamedValue]) -> dict[str, dict[str, str]]:
    """Table -> role -> the column that is looked at; of a wide table its actions are columns."""
    column_by_role = _roles(tables.names, tables.clicks.segments)
    roles = {name.role for name in named_values}
    impressions = {role: column for role, column in column_by_role.items() if role in roles}
    events = {ACTION: _action(tables.names)} if tables.clicks.log is None else {}
    columns_by_table = {"events": events, "impressions": impressions}
    return {table: columns for table, columns in columns_by_table.items() if columns}


def _action(names: Names) -> str:
    """The action of an event, as SQL; one without is counted as NULL."""
    return f"coalesce(cast({names.events['action']} as varchar), 'NULL')"


def _roles(names: Names, segments: Sequence[str]) -> dict[str, str]:
    """The roles of impressions that can be named -> their columns."""
    system = {SYSTEM: names.impressions["system"]} if "system" in names.impressions else {}
    return system | dict(zip(segments, names.segments, strict=False))


def _counts(
    tables: ClickTables,
    table: str,
    columns: Mapping[str, str],
    engine: Database,
    *,
    of_all_days: bool,
) -> Counts:
    source = tables.sources(of_all_days=of_all_days)[table]
    counts_by_role = {role: {**counts} for role, counts in counted(columns, source, engine).items()}
    if tables.clicks.format == "ubi":
        counts_by_role.get(ACTION, {}).pop(IMPRESSION, None)
    return counts_by_role


def _lacks(tables: ClickTables, names: Sequence[NamedValue], counts: Counts) -> bool:
    """Whether a value is not on these days, or no action that is looked at."""
    actions = counts.get(ACTION)
    is_idle = actions is not None and not actions.keys() & {*tables.actions}
    return is_idle or any(name.value not in counts[name.role] for name in names)


def _check_case(tables: ClickTables, counts: Mapping[str, int]) -> None:
    """Raise InputError if actions are written in another case than those that are looked at."""
    action_by_folded = {action.strip().casefold(): action for action in tables.actions}
    turned = {
        action: action_by_folded[action.strip().casefold()]
        for action in counts
        if action not in tables.actions and action.strip().casefold() in action_by_folded
    }
    if turned:
        expected = next(iter(turned.values()))
        same = [action for action, name in turned.items() if name == expected]
        rows = sum(counts[action] for action in same)
        message = (
            f"{rows:,} events have the action {' or '.join(map(repr, same))}, which is not "
            f"{expected!r}; {describe_counts(counts)}"
        )
        raise InputError(Problem("events", message, rows, remedy=REMEDY))


def _unknown_actions(tables: ClickTables, counts: Mapping[str, int]) -> Iterable[Problem]:
    """That no event of any day has an action that is looked at."""
    if not counts or counts.keys() & {*tables.actions}:
        return
    message = (
        "no event has one of the actions that count "
        f"({', '.join(tables.actions)}){did_you_mean(tables.actions[0], counts) or ';'} "
        f"{describe_counts(counts)}"
    )
    remedy = f"name the action in labels: {{grades: {{{next(iter(counts))}: 1}}}}"
    yield Problem("events", message, sum(counts.values()), remedy=remedy)


def _no_event(
    tables: ClickTables,
    counts: Mapping[str, int],
    named_values: Sequence[NamedValue],
    engine: Database,
) -> Iterable[str]:
    """A note that there is no event on any day; an error beside many impressions.

    Raises:
        NoDataError: If what a user did decides a metric, and many impressions have no event.
        InputError: Likewise, if a condition chooses the events.
    """
    if counts or not any(name.role == ACTION and name.decides for name in named_values):
        return
    source = tables.sources(of_all_days=True)["impressions"]
    ((n_impressions,),) = engine.rows(f"select count(*) as n_rows from {source}")
    if not n_impressions:
        return
    message = f"{n_impressions:,} impressions have no event at all, so every click is missing"
    if n_impressions >= FEW:
        chosen = tables.clicks.events.where if tables.clicks.events else None
        remedy = "check clicks.events: the table, and its condition (where)"
        raise refusal([Problem("events", message, 0, remedy=remedy, may_come=not chosen)])
    yield f"events: {message}"
