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
from sqlmetrics.proof.reconcile.target import Target
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
