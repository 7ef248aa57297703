"""A click log -> text: the statements that clean it, and those that read its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sqlmetrics.clicks.assembly import tables_of as click_tables
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.steps import steps
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.sources import relation_of, tables_of
from sqlmetrics.plan import script
from sqlmetrics.plan.plan import plan
from sqlmetrics.spec.click_log import OF_POOL, Clicks
from sqlmetrics.spec.named_values import measured_actions, named_in
from sqlmetrics.spec.source import Model
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import protect_query
from sqlmetrics.sql.translation import Translation


def statements(spec: Spec, translation: Translation) -> Iterator[str]:
    """The statements in the dialect, in the order in which they run.

    Raises:
        SpecError: If the dialect lacks what the log needs, or no text can name its source.
    """
    for step in steps(spec, log_tables(spec, translation)):
        yield step.create(translation)
    if spec.metrics:
        yield translation.text(script.query(plan(spec, tables_of(spec, translation))))


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
        script.wrapped(f"{title}: ", words)
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
            yield f"{name}={_told(value)}"


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}:{_told(setting)}" for name, setting in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " ".join(map(_told, value)) or "none"
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
    tables = click_tables(spec.clicks, relations, translation, only_days=only_days)
    return replace(tables, measured=measured_actions(named_in(spec)))
