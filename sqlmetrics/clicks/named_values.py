"""Whether a log has the values that a spec names: its actions, systems and segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import Names
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, did_you_mean
from sqlmetrics.evaluation.checks.named_values import FEW, Counts, absent, counted, told
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
    named = [*of_clicks(tables.clicks), *names]
    problems: list[Problem] = []
    notes: list[str] = []
    unused: dict[str, int] = {}
    for table, columns in _columns(tables, named).items():
        counts = _counts(tables, table, columns, engine, of_all_days=dry)
        if table == "events":
            unused = {name: n for name, n in counts[ACTION].items() if name not in tables.actions}
            _check_case(tables, counts[ACTION])
        own = [name for name in named if name.role in columns]
        if not dry and _lacks(tables, own, counts):
            counts = _counts(tables, table, columns, engine, of_all_days=True)
        if table == "events":
            problems += _unknown_actions(tables, counts[ACTION])
            notes += _no_event(tables, counts[ACTION], named, engine)
        if not problems:
            found = absent(table, own, counts)
            problems += found.problems
            notes += found.notes
    if problems:
        raise InputError(problems)
    return Looked(tuple(notes), unused)


def actions(tables: ClickTables, engine: Database) -> Mapping[str, int]:
    """The actions of the events that are read -> how many there are, the most first."""
    columns = {ACTION: _action(tables.names)}
    return _counts(tables, "events", columns, engine, of_all_days=False)[ACTION]


def _columns(tables: ClickTables, named: Sequence[NamedValue]) -> dict[str, dict[str, str]]:
    """Table -> role -> the column that is looked at; of a wide table its actions are columns."""
    shown = _roles(tables.names, tables.clicks.segments)
    wanted = {name.role for name in named}
    impressions = {role: column for role, column in shown.items() if role in wanted}
    events = {ACTION: _action(tables.names)} if tables.clicks.log is None else {}
    found = {"events": events, "impressions": impressions}
    return {table: columns for table, columns in found.items() if columns}


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
    found = {role: {**counts} for role, counts in counted(columns, source, engine).items()}
    if tables.clicks.format == "ubi":
        found.get(ACTION, {}).pop(IMPRESSION, None)
    return found


def _lacks(tables: ClickTables, names: Sequence[NamedValue], counts: Counts) -> bool:
    """Whether a value is not on these days, or no action that is looked at."""
    actions = counts.get(ACTION)
    is_idle = actions is not None and not actions.keys() & {*tables.actions}
    return is_idle or any(name.value not in counts[name.role] for name in names)


def _check_case(tables: ClickTables, counts: Mapping[str, int]) -> None:
    """Raise InputError if actions are written in another case than those that are looked at."""
    known = {action.strip().casefold(): action for action in tables.actions}
    turned = {
        action: known[action.strip().casefold()]
        for action in counts
        if action not in tables.actions and action.strip().casefold() in known
    }
    if turned:
        action, meant = next(iter(turned.items()))
        rows = sum(counts[action] for action in turned)
        what = f"{rows:,} events have the action {action!r}, which is not {meant!r}; {told(counts)}"
        raise InputError(Problem("events", what, rows, remedy=REMEDY))


def _unknown_actions(tables: ClickTables, counts: Mapping[str, int]) -> Iterable[Problem]:
    """That no event of any day has an action that is looked at."""
    if not counts or counts.keys() & {*tables.actions}:
        return
    what = (
        f"no event has an action that is looked at ({', '.join(tables.actions)})"
        f"{did_you_mean(tables.actions[0], counts) or ';'} {told(counts)}"
    )
    remedy = f"name them in labels: {{grades: {{{next(iter(counts))}: 1}}}}"
    yield Problem("events", what, sum(counts.values()), remedy=remedy)


def _no_event(
    tables: ClickTables, counts: Mapping[str, int], named: Sequence[NamedValue], engine: Database
) -> Iterable[str]:
    """A note that there is no event on any day; an error beside many impressions.

    Raises:
        NoDataError: If what a user did decides a metric, and many impressions have no event.
        InputError: Likewise, if a condition chooses the events.
    """
    if counts or not any(name.role == ACTION and name.decides for name in named):
        return
    source = tables.sources(of_all_days=True)["impressions"]
    ((n_impressions,),) = engine.rows(f"select count(*) as n_rows from {source}")
    if not n_impressions:
        return
    what = f"there is no event beside {n_impressions:,} impressions, and so every click is missing"
    if n_impressions >= FEW:
        chosen = tables.clicks.events.where if tables.clicks.events else None
        remedy = "look at clicks.events: its place, and its condition (where)"
        raise refusal([Problem("events", what, 0, remedy=remedy, may_come=not chosen)])
    yield f"events: {what}"
