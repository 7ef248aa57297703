"""Which points give a number, or a column of per-query values: the simplest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from sqlmetrics.catalog.measure import Setting
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.proof.reconcile import chance, words
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation
from sqlmetrics.proof.reconcile.space import Point, Space
from sqlmetrics.proof.reconcile.tally import Tally
from sqlmetrics.proof.reconcile.target import Target
from sqlmetrics.proof.reconcile.values import GivenValues
from sqlmetrics.tables.table import DECIMALS

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
        self, points: Sequence[Point], among: Iterable[str] | None = None, **shared_fields: Any
    ) -> Iterator[Candidate]:
        """The simplest of points that are alike, one candidate a way to depart.

        Args:
            points: The points.
            among: The presets that they may be told of; default: all.
            **shared_fields: What the candidates share.
        """
        fewest = min(self.points[point] for point in points)
        ways: dict[tuple[tuple[str, Setting], ...], list[str]] = {}
        for preset in among or self.space.presets:
            for point in (point for point in points if self.points[point] == fewest):
                point_departures = self.space.departures(point, preset)
                if len(point_departures) == fewest:
                    ways.setdefault(tuple(point_departures.items()), []).append(preset)
        for way, presets in sorted(ways.items(), key=lambda pair: -len(pair[1])):
            departures = dict(way)
            measure = self.space.measure
            if "rel" in departures:
                measure = measure.having("rel", departures["rel"])
            yield Candidate(
                presets=tuple(presets),
                departures=departures,
                words=words.sentence(
                    presets,
                    departures,
                    cut=shared_fields["cut"],
                    decimals=shared_fields.get("decimals", 0),
                ),
                metric=str(measure),
                same=len(points) - 1,
                **shared_fields,
            )


@dataclass(frozen=True)
class MeanMatch(Match):
    """The points whose mean is a number."""

    target: Target

    def reconciled(self) -> Reconciliation:
        """The points that give the number, or the nearest ones."""
        matches = [
            candidate
            for value, points in self._classes.items()
            for candidate in self._matched(value, points)
        ]
        candidates = drop_needless(sorted(matches, key=lambda candidate: candidate.distance))
        return Reconciliation(
            measure=self.space.measure,
            target=self.target,
            candidates=candidates,
            needless=len(matches) - len(candidates),
            nearest=() if matches else tuple(self._nearest()),
            tried=len(self.points),
            values=len(self._classes),
            given=0,
            most=self.most,
            expected_by_chance=self._expected(self._classes),
            executed_sql=self.tally.statement.text,
        )

    @cached_property
    def _classes(self) -> dict[float, list[Point]]:
        """Value -> the points that give it, whatever their last bits."""
        points_by_value: dict[float, tuple[float, list[Point]]] = {}
        for point in self.points:
            value = self.tally.mean(point)
            if value is not None:
                points_by_value.setdefault(round(value, chance.ALIKE), (value, []))[1].append(point)
        return dict(points_by_value.values())

    def _matched(self, value: float, points: Sequence[Point]) -> Iterator[Candidate]:
        """What gives the number by a value, if it does: rounded, rounded twice, or cut off."""
        if self.target.is_rounded(value):
            yield from self._of(value, points)
            return
        for decimals in self._decimals:
            if self.target.is_rounded(round(value, decimals)):
                preset_names = [
                    name for name in self._decimals[decimals] if self._own(name) in points
                ]
                if preset_names:
                    twice = [*dict.fromkeys(map(self._own, preset_names))]
                    yield from self._of(value, twice, preset_names, decimals=decimals)
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
        shared_fields = {"value": value, "cut": cut, "decimals": decimals, "by_chance": by_chance}
        return self.told(points, among, **shared_fields)

    @cached_property
    def _decimals(self) -> dict[int, list[str]]:
        """More decimals than the number has -> the presets of the tools that round to so many.

        BEIR makes .14815 of the mean .148148, which is .1482 for who copies four digits.
        """
        presets_by_decimals: dict[int, list[str]] = {}
        for name in self.space.presets:
            decimals = PRESETS[name].decimals  # DECIMALS is what our own tables have
            if decimals not in (DECIMALS, *range(self.target.decimals + 1)):
                presets_by_decimals.setdefault(decimals, []).append(name)
        return presets_by_decimals

    def _own(self, preset: str) -> Point:
        return self.space.presets[preset]

    def _by_chance(self, points: Sequence[Point], *, cut: bool) -> float:
        """What to expect of the values that come about with no more departures than these."""
        fewest = min(self.points[point] for point in points)
        values = (
            value
            for value, class_points in self._classes.items()
            if min(self.points[point] for point in class_points) <= fewest
        )
        return self._expected(values) * (CUT_TOO if cut else 1)

    def _expected(self, values: Iterable[float]) -> float:
        target = self.target
        return chance.expected(list(values), target.number, target.unit)

    def _nearest(self) -> Iterator[Candidate]:
        values_by_distance = sorted(
            self._classes, key=lambda value: abs(value - self.target.number)
        )
        for value in values_by_distance[:NEAREST]:
            points = self._classes[value]
            yield next(self.told(points, value=value, cut=False, by_chance=None))


@dataclass(frozen=True)
class ValuesMatch(Match):
    """The points that give a column of per-query values."""

    seen: GivenValues

    def reconciled(self) -> Reconciliation:
        """The points that give every value, or those that give most of them."""
        n_given = len(self.seen.targets)
        classes = self._classes()
        complete_classes = {key: points for key, points in classes.items() if key[0] == n_given}
        best = sorted(classes, key=lambda key: (-key[0], key[1]))[:NEAREST]
        matches = self._ordered(complete_classes)
        candidates = drop_needless(matches)
        return Reconciliation(
            measure=self.space.measure,
            target=None,
            candidates=candidates,
            needless=len(matches) - len(candidates),
            nearest=()
            if complete_classes
            else tuple(self._ordered({key: classes[key] for key in best})),
            tried=len(self.points),
            values=0,
            given=n_given,
            most=self.most,
            expected_by_chance=None,
            executed_sql=self.tally.statement.text,
        )

    def _classes(self) -> dict[tuple[int, int, bool], list[Point]]:
        """How many are explained, how many queries are beside them, cut -> the points."""
        points_by_fit: dict[tuple[int, int, bool], list[Point]] = {}
        for point in self.points:
            rounded = self.tally.fits(point)
            points_by_fit.setdefault((*rounded, False), []).append(point)
            cut = self.tally.fits(point, cut=True)
            if cut[0] > rounded[0]:
                points_by_fit.setdefault((*cut, True), []).append(point)
        return points_by_fit

    def _ordered(self, classes: Mapping[tuple[int, int, bool], Sequence[Point]]) -> list[Candidate]:
        candidates = [
            candidate
            for (explained, beyond, cut), points in classes.items()
            for candidate in self.told(
                points,
                value=None,
                cut=cut,
                by_chance=None,
                explained=explained,
                beyond=beyond,
            )
        ]
        return sorted(
            candidates,
            key=lambda candidate: (-candidate.explained, candidate.distance, candidate.beyond),
        )


def drop_needless(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates that need all their departures, with the presets for which they do.

    What gives a number mostly gives it too if one option more departs that changes nothing
    here, or too little to be seen in so many digits.
    """
    ways = {(preset, _way(candidate)) for candidate in candidates for preset in candidate.presets}
    needed_candidates = []
    for candidate in candidates:
        way = _way(candidate)
        parts = [frozenset(part) for n in range(len(way)) for part in combinations(way, n)]
        presets = [
            name for name in candidate.presets if not any((name, part) in ways for part in parts)
        ]
        if presets:
            sentence = words.sentence(
                presets, candidate.departures, cut=candidate.cut, decimals=candidate.decimals
            )
            needed_candidates.append(replace(candidate, presets=tuple(presets), words=sentence))
    return tuple(
        sorted(
            needed_candidates,
            key=lambda candidate: (-candidate.explained, candidate.distance, candidate.beyond),
        )
    )


def _way(candidate: Candidate) -> frozenset[tuple[str, Setting]]:
    """The departures; that the number was cut off is one of them."""
    cut: dict[str, Setting] = {"cut": 1} if candidate.cut else {}
    return frozenset({**candidate.departures, **cut}.items())
