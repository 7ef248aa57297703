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


def together(found: Mapping[str, Reconciliation]) -> Reconciliation:
    """What was found for each way, as one; a value is told once, of the first way."""
    first, *others = found.values()
    merged = replace(first, candidates=_all(found, "candidates"), nearest=_all(found, "nearest"))
    if merged.candidates:
        merged = replace(merged, nearest=())
    for one in others:
        chance = (merged.expected_by_chance or 0) + (one.expected_by_chance or 0)
        merged = replace(
            merged,
            needless=merged.needless + one.needless,
            tried=merged.tried + one.tried,
            values=merged.values + one.values,
            expected_by_chance=None if one.expected_by_chance is None else chance,
            sql=f"{merged.sql.rstrip()};\n\n{one.sql}",
        )
    return merged


def _all(found: Mapping[str, Reconciliation], part: str) -> tuple[Candidate, ...]:
    lines: dict[tuple[object, ...], Candidate] = {}
    for way, one in found.items():
        for candidate in getattr(one, part):
            value = None if candidate.value is None else round(candidate.value, 9)
            key = (value, candidate.words, candidate.explained, candidate.beyond)
            lines.setdefault(key, _told(candidate, way))
    number = next(iter(found.values())).target
    if part == "nearest" and number:
        return tuple(sorted(lines.values(), key=lambda one: abs((one.value or 0) - number.number)))
    return tuple(sorted(lines.values(), key=lambda one: (-one.explained, one.distance)))


def _told(one: Candidate, way: str) -> Candidate:
    """A candidate of a way; it departs from presets that do not say so themselves."""
    own = tuple(name for name in one.presets if PRESETS[name].options.get(OPTION) == way)
    if own:
        text = one.words.replace(words.listed(one.presets), words.listed(own), 1)
        one = replace(one, presets=own, words=text)
    else:
        joint = "; " if one.departures or one.cut or one.mistakes else ", but "
        text = f"{one.words}{joint}{words.departure(OPTION, way)}"
        one = replace(one, departures={**one.departures, OPTION: way}, words=text)
    if way != "count":
        return one
    advice = one.advice or REPEATED.advice
    text = f"{one.words}; {BESIDE}{REPEATED.sentence}"
    return replace(one, words=text, mistakes=(*one.mistakes, REPEATED.name), advice=advice)
