"""The known mistakes that give a number: said of a candidate with the same value, or alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sqlmetrics.catalog.measure import Setting
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import Database
from sqlmetrics.plan.plan import plan
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile import chance, matching
from sqlmetrics.proof.reconcile.mistakes import MISTAKES, REPEATED, Mistake, MistakenValue
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation, Target
from sqlmetrics.proof.reconcile.statement import Tally
from sqlmetrics.proof.reconcile.worlds import Point, Space
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.stats import TIED

ALONE = "a known mistake of hand-written SQL: "
BESIDE = "also " + ALONE

_BASES = {
    "gain": ("exp", "linear", "binary"),
    "no_relevant": ("skip", "zero"),
    "ties": ("id_asc", "input_order"),
}
"""What a query is written like that makes no mistake: any of these."""


def gains(space: Space) -> tuple[str, ...]:
    """The gains that come into question, empty for a metric without."""
    return tuple(gain for gain in _BASES["gain"] if gain in space.tried.get("gain", ()))


def right(space: Space) -> list[Point]:
    """The points of queries without a mistake."""
    names = [name for name in _BASES if name in space.tried]
    ways = product(*(_tried(space, name) for name in names))
    points = (space.like("house", dict(zip(names, way, strict=True))) for way in ways)
    return list(dict.fromkeys(point for point in points if point is not None))


def _tried(space: Space, name: str) -> list[Setting]:
    """The values of an option that are right; what is given, whatever it is."""
    tried = space.tried[name]
    return [setting for setting in tried if setting in _BASES[name]] or [tried[0]]


def wrong(space: Space) -> Iterator[tuple[Mistake, Point]]:
    """The mistakes that options make too, each in every query that is right but for it."""
    for mistake in MISTAKES:
        if mistake.has_options and mistake.is_of(space.measure):
            for point in right(space):
                settings = {**dict(zip(space.tried, point, strict=True)), **mistake.options}
                mistaken_point = space.like("house", settings)
                if mistaken_point is not None:
                    yield mistake, mistaken_point


def by_options(tally: Tally) -> tuple[list[MistakenValue], list[float]]:
    """The mistakes that options make too with their values, and the right values."""
    space = tally.space
    mistaken = [
        MistakenValue(mistake, value, str(space.measure))
        for mistake, point in wrong(space)
        if tally.holds(point) and (value := tally.mean(point, mistake.order)) is not None
    ]
    means = (tally.mean(point) for point in right(space) if tally.holds(point))
    return mistaken, [mean for mean in means if mean is not None]


@dataclass(frozen=True)
class Known:
    """What mistakes give on the data, and what queries without a mistake give.

    Attributes:
        metric: The metric's text.
        wrong: The mistakes with their values.
        right: The values of queries without a mistake.
    """

    metric: str
    wrong: Sequence[MistakenValue]
    right: Sequence[float]

    def told(self, reconciliation: Reconciliation, target: Target) -> Reconciliation:
        """The same with the mistakes that give the number.

        A number that is right is no mistake, and where a preset gives it no other value is.
        """
        if any(target.is_rounded(value) for value in self.right):
            return reconciliation
        remaining = list(reconciliation.candidates)
        exact = [candidate for candidate in remaining if not candidate.distance]
        lines = []
        for value, mistakes in self._classes(target).items():
            same = [candidate for candidate in remaining if _alike(candidate.value, value)]
            if same:
                nearest_candidate = _nearest(same, mistakes)
                remaining[remaining.index(nearest_candidate)] = with_mistakes = _beside(
                    nearest_candidate, mistakes
                )
                lines.append(with_mistakes)
            elif not exact:
                lines.append(self._alone(value, mistakes, target))
        first = [candidate for candidate in remaining if not candidate.distance]
        lines = [candidate for candidate in lines if candidate not in first]
        return with_lines(reconciliation, remaining, lines)

    def _classes(self, target: Target) -> dict[float, list[MistakenValue]]:
        """Value -> the mistakes that give it, one on its own before those beside another."""
        mistakes_by_value: dict[float, dict[str, MistakenValue]] = {}
        for mistaken in sorted(self.wrong, key=lambda mistaken: bool(mistaken.beside)):
            if target.is_rounded(mistaken.value):
                key = round(mistaken.value, chance.ALIKE)
                mistakes_by_value.setdefault(key, {}).setdefault(mistaken.mistake.name, mistaken)
        return {
            value: list(mistakes_by_name.values())
            for value, mistakes_by_name in mistakes_by_value.items()
        }

    def _alone(self, value: float, mistakes: list[MistakenValue], target: Target) -> Candidate:
        values = chance.distinct([*self.right, *(mistaken.value for mistaken in self.wrong)])
        metric = mistakes[0].metric
        metric_note = f", in {metric}" if metric != self.metric else ""
        plain = Candidate(
            presets=(),
            departures={},
            words=ALONE + _words(mistakes) + metric_note,
            metric=metric,
            value=value,
            cut=False,
            same=0,
            by_chance=chance.expected(values, target.number, target.unit),
        )
        return _marked(plain, mistakes)


def with_lines(
    reconciliation: Reconciliation, candidates: Sequence[Candidate], lines: Sequence[Candidate]
) -> Reconciliation:
    """The same with lines that come before what departs, and behind what does not."""
    exact = [candidate for candidate in candidates if not candidate.distance]
    other_candidates = [
        candidate for candidate in candidates if candidate not in exact and candidate not in lines
    ]
    ordered = sorted(lines, key=lambda line: (line.distance, line.by_chance or 0.0))
    together = (*exact, *ordered, *other_candidates)
    return replace(
        reconciliation,
        candidates=together,
        nearest=() if together else reconciliation.nearest,
    )


def _alike(value: float | None, other_value: float) -> bool:
    return value is not None and abs(value - other_value) <= TIED


def _nearest(same: Sequence[Candidate], mistakes: Sequence[MistakenValue]) -> Candidate:
    """The candidate that a mistake is said of: the simplest; one that departs in its options."""
    mistaken_options = {pair for mistaken in mistakes for pair in mistaken.mistake.options.items()}
    least = min(candidate.distance for candidate in same)
    fewest = [candidate for candidate in same if candidate.distance == least]
    return max(
        fewest, key=lambda candidate: len(mistaken_options & {*candidate.departures.items()})
    )


def _beside(candidate: Candidate, mistakes: list[MistakenValue]) -> Candidate:
    return _marked(
        replace(candidate, words=f"{candidate.words}; {BESIDE}{_words(mistakes)}"), mistakes
    )


def _marked(candidate: Candidate, mistakes: list[MistakenValue]) -> Candidate:
    names = tuple(mistaken.mistake.name for mistaken in mistakes)
    return replace(candidate, mistakes=names, advice=mistakes[0].mistake.advice)


def _words(mistakes: Sequence[MistakenValue]) -> str:
    first, *other_mistakes = mistakes
    if not other_mistakes:
        return first.words
    addition = (
        "another mistake gives"
        if len(other_mistakes) == 1
        else f"{len(other_mistakes)} other mistakes give"
    )
    return f"{first.words} ({addition} the same here)"


# Lists that hold an item twice: what is found if it counts once, and if it counts each time.

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
            matching.listed(candidate.presets), matching.listed(preset_names), 1
        )
        candidate = replace(candidate, presets=preset_names, words=text)
    else:
        joint = "; " if candidate.departures or candidate.cut or candidate.mistakes else ", but "
        text = f"{candidate.words}{joint}{matching.departure(OPTION, way)}"
        candidate = replace(candidate, departures={**candidate.departures, OPTION: way}, words=text)
    if way != "count":
        return candidate
    advice = candidate.advice or REPEATED.advice
    text = f"{candidate.words}; {BESIDE}{REPEATED.sentence}"
    return replace(
        candidate, words=text, mistakes=(*candidate.mistakes, REPEATED.name), advice=advice
    )
