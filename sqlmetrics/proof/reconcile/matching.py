"""Which points give a number, or a column of per-query values: the simplest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from sqlmetrics.catalog.measure import Setting
from sqlmetrics.catalog.option import DECIMALS
from sqlmetrics.catalog.presets import PRESETS
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

    def told(
        self, points: Sequence[Point], among: Iterable[str] | None = None, **known: Any
    ) -> Iterator[Candidate]:
        """The simplest of points that are alike, one candidate a way to depart.

        Args:
            points: The points.
            among: The presets that they may be told of; default: all.
            **known: What the candidates share.
        """
        fewest = min(self.points[point] for point in points)
        ways: dict[tuple[tuple[str, Setting], ...], list[str]] = {}
        for preset in among or self.space.presets:
            for point in (one for one in points if self.points[one] == fewest):
                apart = self.space.departures(point, preset)
                if len(apart) == fewest:
                    ways.setdefault(tuple(apart.items()), []).append(preset)
        for way, presets in sorted(ways.items(), key=lambda pair: -len(pair[1])):
            departures = dict(way)
            measure = self.space.measure
            if "rel" in departures:
                measure = measure.having("rel", departures["rel"])
            yield Candidate(
                presets=tuple(presets),
                departures=departures,
                words=words.sentence(
                    presets, departures, cut=known["cut"], decimals=known.get("decimals", 0)
                ),
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
            one for value, points in self._classes.items() for one in self._matched(value, points)
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

    def _matched(self, value: float, points: Sequence[Point]) -> Iterator[Candidate]:
        """What gives the number by a value, if it does: rounded, rounded twice, or cut off."""
        if self.target.is_rounded(value):
            yield from self._of(value, points)
            return
        for decimals in self._decimals:
            if self.target.is_rounded(round(value, decimals)):
                own = [name for name in self._decimals[decimals] if self._own(name) in points]
                if own:
                    twice = [*dict.fromkeys(map(self._own, own))]
                    yield from self._of(value, twice, own, decimals=decimals)
        if self.target.is_cut(value):
            yield from self._of(value, points, cut=True)

    def _of(
        self,
        value: float,
        points: Sequence[Point],
        among: Iterable[str] | None = None,
        *,
        cut: bool = False,
        decimals: int = 0,
    ) -> Iterator[Candidate]:
        by_chance = self._by_chance(points, cut=cut)
        known = {"value": value, "cut": cut, "decimals": decimals, "by_chance": by_chance}
        return self.told(points, among, **known)

    @cached_property
    def _decimals(self) -> dict[int, list[str]]:
        """More decimals than the number has -> the presets of the tools that round to so many.

        BEIR makes .14815 of the mean .148148, which is .1482 for who copies four digits.
        """
        found: dict[int, list[str]] = {}
        for name in self.space.presets:
            decimals = PRESETS[name].decimals  # DECIMALS is what our own tables have
            if decimals not in (DECIMALS, *range(self.target.decimals + 1)):
                found.setdefault(decimals, []).append(name)
        return found

    def _own(self, preset: str) -> Point:
        return self.space.presets[preset]

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
            told = words.sentence(presets, one.departures, cut=one.cut, decimals=one.decimals)
            found.append(replace(one, presets=tuple(presets), words=told))
    return tuple(sorted(found, key=lambda one: (-one.explained, one.distance, one.beyond)))


def _way(candidate: Candidate) -> frozenset[tuple[str, Setting]]:
    """The departures; that the number was cut off is one of them."""
    cut: dict[str, Setting] = {"cut": 1} if candidate.cut else {}
    return frozenset({**candidate.departures, **cut}.items())
