"""Which points give a number, or a column of per-query values: the simplest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from sqlmetrics.catalog.measure import Setting
from sqlmetrics.proof.reconcile import chance, words
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation
from sqlmetrics.proof.reconcile.space import Point, Space
from sqlmetrics.proof.reconcile.tally import Tally
from sqlmetrics.proof.reconcile.target import Target
from sqlmetrics.proof.reconcile.values import GivenValues

CUT_TOO = 1.5
"""How much wider a match is where the number may also have been cut off."""

NEAREST = 5


@dataclass(frozen=True)
class Match:
    """What both kinds of question share: how a point is told."""

    tally: Tally
    points: Mapping[Point, int]
    most: int

    @property
    def space(self) -> Space:
        """The options."""
        return self.tally.space

    def told(self, points: Sequence[Point], **known: Any) -> Iterator[Candidate]:
        """The simplest of points that are alike, one candidate a way to depart."""
        fewest = min(self.points[point] for point in points)
        ways: dict[tuple[tuple[str, Setting], ...], list[str]] = {}
        for preset in self.space.presets:
            for point in (one for one in points if self.points[one] == fewest):
                apart = self.space.departures(point, preset)
                if len(apart) == fewest:
                    ways.setdefault(tuple(apart.items()), []).append(preset)
        for way, presets in sorted(ways.items(), key=lambda pair: -len(pair[1])):
            departures = dict(way)
            measure = self.space.measure
            if "rel" in departures:
                measure = measure.having("rel", departures["rel"])  # type: ignore[arg-type]
            yield Candidate(
                presets=tuple(presets),
                departures=departures,
                words=words.sentence(presets, departures, cut=known["cut"]),
                metric=str(measure),
                same=len(points) - 1,
                **known,
            )


@dataclass(frozen=True)
class MeanMatch(Match):
    """The points whose mean is a number."""

    target: Target

    def reconciled(self) -> Reconciliation:
        """The points that give the number, or the nearest ones."""
        found = [
            one
            for value, points in self._classes.items()
            if (cut := self._is_cut(value)) is not None
            for one in self.told(
                points, value=value, cut=cut, by_chance=self._by_chance(points, cut=cut)
            )
        ]
        candidates = needed(sorted(found, key=lambda one: one.distance))
        return Reconciliation(
            measure=self.space.measure,
            target=self.target,
            candidates=candidates,
            needless=len(found) - len(candidates),
            nearest=() if found else tuple(self._nearest()),
            tried=len(self.points),
            values=len(self._classes),
            given=0,
            most=self.most,
            expected_by_chance=self._expected(self._classes),
            sql=self.tally.statement.text,
        )

    @cached_property
    def _classes(self) -> dict[float, list[Point]]:
        """Value -> the points that give it, whatever their last bits."""
        found: dict[float, tuple[float, list[Point]]] = {}
        for point in self.points:
            value = self.tally.mean(point)
            if value is not None:
                found.setdefault(round(value, chance.ALIKE), (value, []))[1].append(point)
        return dict(found.values())

    def _is_cut(self, value: float) -> bool | None:
        """Whether the number is a value's only if it was cut; None if it is none of its."""
        if self.target.is_rounded(value):
            return False
        return True if self.target.is_cut(value) else None

    def _by_chance(self, points: Sequence[Point], *, cut: bool) -> float:
        """What to expect of the values that come about with no more departures than these."""
        fewest = min(self.points[point] for point in points)
        within = (
            value
            for value, others in self._classes.items()
            if min(self.points[point] for point in others) <= fewest
        )
        return self._expected(within) * (CUT_TOO if cut else 1)

    def _expected(self, values: Iterable[float]) -> float:
        target = self.target
        return chance.expected(list(values), target.number, target.unit)

    def _nearest(self) -> Iterator[Candidate]:
        apart = sorted(self._classes, key=lambda value: abs(value - self.target.number))
        for value in apart[:NEAREST]:
            points = self._classes[value]
            yield next(self.told(points, value=value, cut=False, by_chance=None))


@dataclass(frozen=True)
class ValuesMatch(Match):
    """The points that give a column of per-query values."""

    seen: GivenValues

    def reconciled(self) -> Reconciliation:
        """The points that give every value, or those that give most of them."""
        given = len(self.seen.targets)
        classes = self._classes()
        whole = {key: points for key, points in classes.items() if key[0] == given}
        best = sorted(classes, key=lambda key: (-key[0], key[1]))[:NEAREST]
        found = self._ordered(whole)
        candidates = needed(found)
        return Reconciliation(
            measure=self.space.measure,
            target=None,
            candidates=candidates,
            needless=len(found) - len(candidates),
            nearest=() if whole else tuple(self._ordered({key: classes[key] for key in best})),
            tried=len(self.points),
            values=0,
            given=given,
            most=self.most,
            expected_by_chance=None,
            sql=self.tally.statement.text,
        )

    def _classes(self) -> dict[tuple[int, int, bool], list[Point]]:
        """How many are explained, how many queries are beside them, cut -> the points."""
        found: dict[tuple[int, int, bool], list[Point]] = {}
        for point in self.points:
            rounded = self.tally.fits(point)
            found.setdefault((*rounded, False), []).append(point)
            cut = self.tally.fits(point, cut=True)
            if cut[0] > rounded[0]:
                found.setdefault((*cut, True), []).append(point)
        return found

    def _ordered(self, classes: Mapping[tuple[int, int, bool], Sequence[Point]]) -> list[Candidate]:
        found = [
            one
            for (explained, beyond, cut), points in classes.items()
            for one in self.told(
                points,
                value=None,
                cut=cut,
                by_chance=None,
                explained=explained,
                beyond=beyond,
            )
        ]
        return sorted(found, key=lambda one: (-one.explained, one.distance, one.beyond))


def needed(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that need all their departures, with the presets for which they do.

    What gives a number mostly gives it too if one option more departs that changes nothing
    here, or too little to be seen in so many digits.
    """
    ways = {(preset, _way(one)) for one in candidates for preset in one.presets}
    found = []
    for one in candidates:
        way = _way(one)
        parts = [frozenset(part) for n in range(len(way)) for part in combinations(way, n)]
        presets = [name for name in one.presets if not any((name, part) in ways for part in parts)]
        if presets:
            told = words.sentence(presets, one.departures, cut=one.cut)
            found.append(replace(one, presets=tuple(presets), words=told))
    return tuple(sorted(found, key=lambda one: (-one.explained, one.distance, one.beyond)))


def _way(candidate: Candidate) -> frozenset[tuple[str, Setting]]:
    """The departures; that the number was cut off is one of them."""
    cut: dict[str, Setting] = {"cut": 1} if candidate.cut else {}
    return frozenset({**candidate.departures, **cut}.items())
