"""The actions that the events of a log have, and those that are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.report.table import printable

SHOWN = 8
"""As many actions are told."""

REMEDY = (
    "actions are compared as they are written; make them one by sql: select ..., "
    "lower(action) as action from ..."
)


def check(tables: ClickTables, engine: Database) -> None:
    """Raise InputError if actions are written in another case, or none of them is looked at.

    Args:
        tables: The stages of the log.
        engine: Its database.
    """
    if tables.clicks.log is not None:
        return
    there = found(tables, engine)
    known = {action.strip().casefold(): action for action in tables.actions}
    turned = {
        action: known[action.strip().casefold()]
        for action in there
        if action not in tables.actions and action.strip().casefold() in known
    }
    if turned:
        action, meant = next(iter(turned.items()))
        rows = sum(there[one] for one in turned)
        what = f"{rows:,} events have the action {action!r}, which is not {meant!r}; {told(there)}"
        raise InputError(Problem("events", what, rows, remedy=REMEDY))
    if any(action in there for action in tables.actions):
        return
    there = found(tables, engine, of_all_days=True)  # a day may have none of them
    others = {action: n for action, n in there.items() if action != "impression"}
    if others and not any(action in others for action in tables.actions):
        rows = sum(others.values())
        what = (
            f"no event has an action that is looked at ({', '.join(tables.actions)}); {told(there)}"
        )
        near = get_close_matches(tables.actions[0], list(others), n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        remedy = f"name them in labels: {{grades: {{{next(iter(others))}: 1}}}}"
        raise InputError(Problem("events", what + guess, rows, remedy=remedy))


def found(tables: ClickTables, engine: Database, *, of_all_days: bool = False) -> dict[str, int]:
    """The actions of the events that are read -> how many there are, the most first."""
    source = tables.sources(of_all_days=of_all_days)["events"]
    action = tables.names.events["action"]
    select = f"select cast({action} as varchar) as action, count(*) as n from {source}"
    rows: Sequence[tuple[str | None, int]] = engine.rows(f"{select} group by {action}")
    return {str(name): n for name, n in sorted(rows, key=lambda row: (-row[1], str(row[0])))}


def told(there: Mapping[str, int]) -> str:
    """The actions with their counts, as a sentence."""
    if not there:
        return "there is no event"
    some = [f"{printable(action)} ({n:,})" for action, n in list(there.items())[:SHOWN]]
    more = len(there) - SHOWN
    return f"there are {', '.join(some)}" + (f" and {more} more" if more > 0 else "")
