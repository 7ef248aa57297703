"""Why nothing is there to evaluate: no list, no label, no judgment."""

from __future__ import annotations

from collections.abc import Mapping

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.cleaning_report import IMPRESSIONS, steps
from sqlmetrics.clicks.doubts import stray_events
from sqlmetrics.clicks.labels import standing
from sqlmetrics.clicks.named_values import actions
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.checks.named_values import describe_counts
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.sql.stage import with_stages

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
    of_days = " and ".join(tables.names.holds(days, "shown_at"))
    select = f"select 1 as is_there\nfrom {tables.of['impressions_read']}\nwhere {of_days}\nlimit 1"
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
