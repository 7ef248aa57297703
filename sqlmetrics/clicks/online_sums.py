"""Online metrics as SQL: one row per request, then sums over requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlmetrics.catalog.online import Online, cutoffs
from sqlmetrics.clicks.cleaning import BOTS, ClickTables
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import case, identifier, literal

CLICKED = "coalesce(answers.is_clicked, 0)"
COUNTS = {
    "n_shown": "1",
    "n_clicked": CLICKED,
    "n_purchases": "coalesce(answers.n_purchases, 0)",
}
"""What is summed over the impressions of a request."""


def sums(tables: ClickTables, asked: Sequence[Online], spec: Spec, *, moments: bool = False) -> str:
    """The sums of online metrics by day, system and segment.

    Args:
        tables: The stages of the log.
        asked: The metrics.
        spec: What is asked.
        moments: Whether there is also what intervals are made of.

    Raises:
        SpecError: If the log has not what a metric needs.
    """
    _check(tables, asked)
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
            column
            for one in asked
            for column in (*one.columns(), *(one.moments() if moments else ()))
        ],
        "order": ["metric_date", "system", "segment_name", "segment_value"],
    }
    return with_stages(per_request(tables, asked), print_template("clicks/online", view))


def _check(tables: ClickTables, asked: Sequence[Online]) -> None:
    has = {"requests": tables.requests is not None, "time": tables.names.has_times, "": True}
    lacks = [one for one in asked if not has[one.metric.needs]]
    if lacks:
        needs = {"requests": "the requests, also those without a result", "time": "times"}
        what = "; ".join(f"{one} needs {needs[one.metric.needs]}" for one in lacks)
        raise SpecError(f"the log lacks what metrics need: {what}")


def per_request(tables: ClickTables, asked: Sequence[Online]) -> Iterator[Stage]:
    """The stages to one row per request, `per_request`.

    Args:
        tables: The stages of the log.
        asked: The online metrics that read it.
    """
    requests = ("requests",) if tables.requests is not None else ()
    yield from tables.stages(*requests, tables.evaluates, "answers")
    facts = ["system", *tables.names.segments]
    columns = [*_facts(tables.evaluates, facts), *_counts(tables.evaluates, cutoffs(asked))]
    view = {
        "of": tables.of,
        "columns": columns,
        "from": tables.evaluates,
        "keys": [f"{tables.evaluates}.request_id"],
        "requests": tables.requests is not None,
        "bots": BOTS if tables.bots else "",
        "empty": [_of_nothing(one.name, facts) for one in columns],
    }
    yield Stage("per_request", "clicks/per_request", view)


def _facts(shown: str, facts: Sequence[str]) -> Iterator[Column]:
    yield Column(f"{shown}.request_id", "request_id")
    yield Column(f"min({shown}.metric_date)", "day")
    for name in facts:
        yield Column(f"min({shown}.{name})", name)


def _counts(shown: str, cutoffs: Sequence[int]) -> Iterator[Column]:
    for name, value in COUNTS.items():
        yield Column(f"sum({value})", name)
    position = f"case when answers.is_clicked = 1 then {shown}.position end"
    yield Column(f"min({position})", "first_click")
    yield Column(f"max({position})", "last_click")
    yield Column("min(answers.seconds_to_click)", "seconds_to_click")
    for k in cutoffs:
        within = f"{shown}.position <= {k}"
        yield Column(f"sum({case(within, '1', '0')})", f"n_shown_at_{k}")
        yield Column(f"sum({case(within, CLICKED, '0')})", f"n_clicked_at_{k}")


def _of_nothing(name: str, facts: Sequence[str]) -> Column:
    """A column of a request without a result."""
    if name in ("request_id", "day", *facts):
        return Column(f"requests.{name}", name)
    return Column("0" if name in COUNTS or "_at_" in name else "null", name)
