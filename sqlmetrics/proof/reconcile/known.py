"""The known mistakes that give a number: said of a candidate with the same value, or alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sqlmetrics.catalog.measure import Setting
from sqlmetrics.proof.reconcile import chance
from sqlmetrics.proof.reconcile.mistakes import MISTAKES, Mistake, MistakenValue
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation
from sqlmetrics.proof.reconcile.space import Point, Space
from sqlmetrics.proof.reconcile.tally import Tally
from sqlmetrics.proof.reconcile.target import NOISE, Target

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
    return tuple(one for one in _BASES["gain"] if one in space.tried.get("gain", ()))


def right(space: Space) -> list[Point]:
    """The points of queries without a mistake."""
    names = [name for name in _BASES if name in space.tried]
    ways = product(*(_tried(space, name) for name in names))
    found = (space.like("house", dict(zip(names, way, strict=True))) for way in ways)
    return list(dict.fromkeys(point for point in found if point is not None))


def _tried(space: Space, name: str) -> list[Setting]:
    """The values of an option that are right; what is given, whatever it is."""
    tried = space.tried[name]
    return [one for one in tried if one in _BASES[name]] or [tried[0]]


def wrong(space: Space) -> Iterator[tuple[Mistake, Point]]:
    """The mistakes that options make too, each in every query that is right but for it."""
    for mistake in MISTAKES:
        if mistake.dcg is None and mistake.is_of(space.measure):
            for point in right(space):
                given = {**dict(zip(space.tried, point, strict=True)), **mistake.options}
                made = space.like("house", given)
                if made is not None:
                    yield mistake, made


def by_options(tally: Tally) -> tuple[list[MistakenValue], list[float]]:
    """The mistakes that options make too with their values, and the right values."""
    space = tally.space
    found = [
        MistakenValue(mistake, value, str(space.measure))
        for mistake, point in wrong(space)
        if tally.holds(point) and (value := tally.mean(point)) is not None
    ]
    means = (tally.mean(point) for point in right(space) if tally.holds(point))
    return found, [mean for mean in means if mean is not None]


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

    def told(self, found: Reconciliation, target: Target) -> Reconciliation:
        """The same with the mistakes that give the number.

        A number that is right is no mistake, and where a preset gives it no other value is.
        """
        if any(target.is_rounded(value) for value in self.right):
            return found
        rest = list(found.candidates)
        exact = [one for one in rest if not one.distance]
        lines = []
        for value, mistakes in self._classes(target).items():
            same = [one for one in rest if _alike(one.value, value)]
            if same:
                one = _nearest(same, mistakes)
                rest[rest.index(one)] = with_mistakes = _beside(one, mistakes)
                lines.append(with_mistakes)
            elif not exact:
                lines.append(self._alone(value, mistakes, target))
        first = [one for one in rest if not one.distance]
        lines = [one for one in lines if one not in first]
        others = [one for one in rest if one not in first and one not in lines]
        candidates = (*first, *sorted(lines, key=lambda one: one.distance), *others)
        return replace(found, candidates=candidates, nearest=() if candidates else found.nearest)

    def _classes(self, target: Target) -> dict[float, list[MistakenValue]]:
        """Value -> the mistakes that give it, one on its own before those beside another."""
        found: dict[float, dict[str, MistakenValue]] = {}
        for one in sorted(self.wrong, key=lambda one: bool(one.beside)):
            if target.is_rounded(one.value):
                key = round(one.value, chance.ALIKE)
                found.setdefault(key, {}).setdefault(one.mistake.name, one)
        return {value: list(some.values()) for value, some in found.items()}

    def _alone(self, value: float, mistakes: list[MistakenValue], target: Target) -> Candidate:
        values = chance.distinct([*self.right, *(one.value for one in self.wrong)])
        metric = mistakes[0].metric
        own = f", in {metric}" if metric != self.metric else ""
        plain = Candidate(
            presets=(),
            departures={},
            words=ALONE + _words(mistakes) + own,
            metric=metric,
            value=value,
            cut=False,
            same=0,
            by_chance=chance.expected(values, target.number, target.unit),
        )
        return _marked(plain, mistakes)


def _alike(one: float | None, other: float) -> bool:
    return one is not None and abs(one - other) <= NOISE


def _nearest(same: Sequence[Candidate], mistakes: Sequence[MistakenValue]) -> Candidate:
    """The candidate that a mistake is said of: the simplest; one that departs in its options."""
    own = {pair for one in mistakes for pair in one.mistake.options.items()}
    least = min(one.distance for one in same)
    fewest = [one for one in same if one.distance == least]
    return max(fewest, key=lambda one: len(own & {*one.departures.items()}))


def _beside(one: Candidate, mistakes: list[MistakenValue]) -> Candidate:
    return _marked(replace(one, words=f"{one.words}; {BESIDE}{_words(mistakes)}"), mistakes)


def _marked(one: Candidate, mistakes: list[MistakenValue]) -> Candidate:
    names = tuple(known.mistake.name for known in mistakes)
    return replace(one, mistakes=names, advice=mistakes[0].mistake.advice)


def _words(mistakes: Sequence[MistakenValue]) -> str:
    first, *others = mistakes
    if not others:
        return first.words
    more = "another mistake gives" if len(others) == 1 else f"{len(others)} other mistakes give"
    return f"{first.words} ({more} the same here)"
