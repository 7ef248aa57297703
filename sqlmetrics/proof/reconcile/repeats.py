"""Lists that hold an item twice: what is found if it counts once, and if it counts each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import Database
from sqlmetrics.plan.plan import plan
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile import words
from sqlmetrics.proof.reconcile.known import BESIDE
from sqlmetrics.proof.reconcile.mistakes import REPEATED
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages

OPTION = "duplicate_rankings"
WAYS = ("best_score", "count")


def having(spec: Spec, way: str) -> Spec:
    """The spec with what becomes of repeats."""
    return spec.having(conventions={**spec.conventions, OPTION: way})


def there_are(spec: Spec, tables: Tables, engine: Database) -> bool:
    """Whether a list holds an item twice."""
    shape = plan(spec, tables).shape
    name = shape.names["rankings"]
    stages = [stage for stage in shape.stages() if stage.name == name]
    keys = ", ".join((*shape.keys, "item_id"))
    last = f"select 1\nfrom {name}\ngroup by {keys}\nhaving count(*) > 1\nlimit 1"
    return bool(engine.rows(with_stages(stages, last)))


def together(reconciliation_by_way: Mapping[str, Reconciliation]) -> Reconciliation:
    """What was found for each way, as one; a value is told once, of the first way."""
    first, *other_reconciliations = reconciliation_by_way.values()
    merged = replace(
        first,
        candidates=_all(reconciliation_by_way, "candidates"),
        nearest=_all(reconciliation_by_way, "nearest"),
    )
    if merged.candidates:
        merged = replace(merged, nearest=())
    for reconciliation in other_reconciliations:
        chance = (merged.expected_by_chance or 0) + (reconciliation.expected_by_chance or 0)
        merged = replace(
            merged,
            needless=merged.needless + reconciliation.needless,
            tried=merged.tried + reconciliation.tried,
            values=merged.values + reconciliation.values,
            expected_by_chance=None if reconciliation.expected_by_chance is None else chance,
            executed_sql=f"{merged.executed_sql.rstrip()};\n\n{reconciliation.executed_sql}",
        )
    return merged


def _all(reconciliation_by_way: Mapping[str, Reconciliation], part: str) -> tuple[Candidate, ...]:
    lines: dict[tuple[object, ...], Candidate] = {}
    for way, reconciliation in reconciliation_by_way.items():
        for candidate in getattr(reconciliation, part):
            value = None if candidate.value is None else round(candidate.value, 9)
            key = (value, candidate.words, candidate.explained, candidate.beyond)
            lines.setdefault(key, _told(candidate, way))
    number = next(iter(reconciliation_by_way.values())).target
    if part == "nearest" and number:
        return tuple(
            sorted(
                lines.values(), key=lambda candidate: abs((candidate.value or 0) - number.number)
            )
        )
    return tuple(
        sorted(lines.values(), key=lambda candidate: (-candidate.explained, candidate.distance))
    )


def _told(candidate: Candidate, way: str) -> Candidate:
    """A candidate of a way; it departs from presets that do not say so themselves."""
    preset_names = tuple(
        name for name in candidate.presets if PRESETS[name].options.get(OPTION) == way
    )
    if preset_names:
        text = candidate.words.replace(
            words.listed(candidate.presets), words.listed(preset_names), 1
        )
        candidate = replace(candidate, presets=preset_names, words=text)
    else:
        joint = "; " if candidate.departures or candidate.cut or candidate.mistakes else ", but "
        text = f"{candidate.words}{joint}{words.departure(OPTION, way)}"
        candidate = replace(candidate, departures={**candidate.departures, OPTION: way}, words=text)
    if way != "count":
        return candidate
    advice = candidate.advice or REPEATED.advice
    text = f"{candidate.words}; {BESIDE}{REPEATED.sentence}"
    return replace(
        candidate, words=text, mistakes=(*candidate.mistakes, REPEATED.name), advice=advice
    )
