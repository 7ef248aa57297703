"""A click log as a list of steps, which are either carried out or printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.assembly import click_tables_of
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
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.sources import relation_of, tables_of
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.plan.script import query_text, wrapped
from sqlmetrics.spec.click_log import LABELS, OF_POOL, RANKINGS, Clicks
from sqlmetrics.spec.named_values import measured_actions, named_in
from sqlmetrics.spec.source import Model
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import protect_query
from sqlmetrics.sql.stage import Column, print_template, select_of, with_stages
from sqlmetrics.sql.template import lines
from sqlmetrics.sql.translation import Translation

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


# A click log -> text: the statements that clean it, and those that read its numbers.


def statements(spec: Spec, translation: Translation) -> Iterator[str]:
    """The statements in the dialect, in the order in which they run.

    Raises:
        SpecError: If the dialect lacks what the log needs, or no text can name its source.
    """
    for step in steps(spec, log_tables(spec, translation)):
        yield step.create(translation)
    if spec.metrics:
        yield translation.text(query_text(make_plan(spec, tables_of(spec, translation))))


def header(spec: Spec, *, unshown: bool = False) -> str:
    """Comment lines that say what is computed of a log, and by which conventions.

    Args:
        spec: What is asked.
        unshown: Whether rankings that were not shown are estimated too, as in a job.

    Raises:
        SpecError: If the spec has no clicks.
    """
    if spec.clicks is None:
        raise SpecError("the spec has no clicks")
    clicks = spec.clicks
    counterfactual = clicks.counterfactual if unshown else None
    estimated = spec.estimated if counterfactual else ()
    corrects = clicks.labels.corrects or (
        counterfactual is not None and counterfactual.rankings is not None
    )
    return "".join(
        wrapped(f"{title}: ", words)
        for title, words in (
            ("metrics", [*spec.online, *(m.text for m in spec.measures), *map(str, estimated)]),
            ("labels", list(_conventions(clicks.labels, OF_POOL[clicks.labels.pool]))),
            *([("propensity", _propensity(clicks))] if corrects else []),
            *(
                [("counterfactual", list(_conventions(counterfactual, _WEIGHING)))]
                if counterfactual
                else []
            ),
            ("cleaning", list(_conventions(clicks.cleaning))),
            ("evaluation", [f"requests {clicks.evaluation}"] * bool(clicks.evaluation)),
        )
        if words
    )


_WEIGHING = ("match", "actions", "clip", "prior")
"""What of a question about rankings that were not shown decides its numbers."""


def _propensity(clicks: Clicks) -> list[str]:
    return list(_conventions(clicks.propensity, clicks.propensity.decides))


def _conventions(settings: Model, names: Iterable[str] = ()) -> Iterator[str]:
    """Every option and its value, also those that nobody gave."""
    for name, value in settings.model_dump(mode="json").items():
        if name == "pool" or not names or name in names:
            yield f"{name}={_setting_text(value)}"


def _setting_text(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            " ".join(f"{name}:{_setting_text(setting)}" for name, setting in value.items())
            or "none"
        )
    if isinstance(value, list | tuple):
        return " ".join(map(_setting_text, value)) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return " ".join(text.split())  # a condition stays on its comment line


def log_tables(spec: Spec, translation: Translation, *, only_days: bool = False) -> ClickTables:
    """The tables of a spec's log, as far as its text tells where they are; see `tables_of`."""
    if spec.clicks is None:
        raise SpecError("the spec has no clicks")
    relations = {
        name: protect_query(relation_of(source, f"clicks_{name}"), translation)
        for name, source in spec.clicks.sources.items()
    }
    files = [
        name for name, relation in relations.items() if translation.changes and not relation.is_sql
    ]
    if files:
        remedy = (
            f"{translation.dialect.title} cannot read files; load the file into a table and "
            "name it as the relation"
        )
        raise SpecError([f"{name}: {remedy}" for name in files])
    tables = click_tables_of(spec.clicks, relations, translation, only_days=only_days)
    return replace(tables, measured=measured_actions(named_in(spec)))
