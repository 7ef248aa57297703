"""Why an event is left out of a log: a condition a reason, the first that holds counts."""

from __future__ import annotations

from collections.abc import Mapping

from sqlmetrics.clicks.columns import Names
from sqlmetrics.spec.click_cleaning import Cleaning
from sqlmetrics.spec.click_columns import CLICK
from sqlmetrics.sql.template import literal, number


def event_reasons(cleaning: Cleaning, names: Names) -> Mapping[str, str]:
    """Reason -> what an event meets that is left out for it, in the order of the report.

    Args:
        cleaning: What is left out.
        names: The columns of the log.
    """
    reasons: dict[str, str] = {}
    if cleaning.test is not None:
        reasons["test traffic"] = "excluded_requests.reason = 'test traffic'"
    if cleaning.max_events_per_user_hour is not None:
        reasons["bot"] = "excluded_requests.reason = 'bot' or bots.user_id is not null"
    if "events" in names.read:
        reasons["unreadable time"] = "events_read.is_unread = 1"
    if cleaning.same_position != "keep":
        reasons["same position"] = "removed.request_id is not null"
    reasons["no impression"] = "clean_impressions.request_id is null"
    if names.has_times:
        reasons["before the impression"] = "events_read.happened_at < clean_impressions.shown_at"
        if cleaning.attribution_window is not None:
            last = f"clean_impressions.shown_at + {round(cleaning.attribution_window * 1e6)}"
            reasons["after the window"] = f"events_read.happened_at > {last}"
    if cleaning.min_dwell is not None:
        short = f"events_read.dwell < {number(cleaning.min_dwell)}"
        reasons["short stay"] = f"events_read.action = {literal(CLICK)} and {short}"
    return reasons
