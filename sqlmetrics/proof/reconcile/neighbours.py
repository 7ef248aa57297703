"""The numbers next door: other cutoffs, and metrics that people take for the one they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.engines.database import Database
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile import chance
from sqlmetrics.proof.reconcile.known import right
from sqlmetrics.proof.reconcile.matching import MeanMatch
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation, Target
from sqlmetrics.proof.reconcile.statement import Statement, Tally
from sqlmetrics.proof.reconcile.worlds import Point, Space, space, worlds_of
from sqlmetrics.spec.spec import Spec

CUTOFFS = (1, 3, 5, 10, 15, 20, 25, 30, 50, 100, 1000)
"""The cutoffs that people print."""

CONFUSED: Mapping[str, tuple[str, ...]] = {
    "precision": ("recall", "hit", "f1", "rprec", "ap", "mrr"),
    "recall": ("precision", "hit", "f1", "rprec", "ap"),
    "hit": ("recall", "precision", "mrr"),
    "f1": ("precision", "recall"),
    "rprec": ("precision", "recall", "ap"),
    "ap": ("mrr", "ndcg", "rprec", "precision", "recall"),
    "mrr": ("ap", "hit", "ndcg", "first_rank"),
    "ndcg": ("dcg", "ap", "mrr", "recall", "precision"),
    "dcg": ("ndcg", "cg"),
    "idcg": ("dcg",),
    "cg": ("dcg",),
    "err": ("mrr", "ndcg", "rbp"),
    "rbp": ("err", "ndcg"),
    "alpha_ndcg": ("alpha_dcg", "ndcg", "subtopic_recall"),
    "alpha_dcg": ("alpha_ndcg", "dcg"),
    "subtopic_recall": ("recall", "alpha_ndcg"),
}
"""Metric -> those that it is taken for, the likeliest first."""

SHOWN = 4
"""How many metrics of one value are named beside the first."""

UNCUT_AT = (10, 5, 1)
"""Where metrics are cut that need a cutoff, if the one that is named has none."""


def neighbours(measure: Measure) -> list[Measure]:
    """The metrics next door to one, the likeliest first.

    >>> from sqlmetrics.catalog.measure import parse
    >>> [str(neighbour) for neighbour in neighbours(parse("f1@10"))][:4]
    ['f1@9', 'f1@11', 'f1@1', 'f1@3']
    """
    cutoffs: list[int | None] = []
    if measure.metric.cutoff != "none":
        cutoffs += [measure.k - 1, measure.k + 1] if measure.k else []
        cutoffs += [None] if measure.metric.cutoff == "optional" else []
        cutoffs += CUTOFFS
    same = [replace(measure, k=k) for k in cutoffs]
    others = [
        other for name in CONFUSED.get(measure.metric.name, ()) for other in _others(measure, name)
    ]
    return [
        neighbour
        for neighbour in dict.fromkeys([*same, *others])
        if neighbour != measure
        and neighbour.k != 0
        and (neighbour.k or 1) <= (neighbour.metric.deepest or 10**9)
    ]


def _others(measure: Measure, name: str) -> Iterator[Measure]:
    """Another metric with the same cutoff and settings, as far as it has them; and uncut."""
    metric = catalog()[name]
    settings = tuple(pair for pair in measure.settings if pair[0] in metric.settings)
    cutoffs: Sequence[int | None] = [None]
    if metric.cutoff != "none":
        uncut = [None] if metric.cutoff == "optional" else []
        cutoffs = [measure.k, *uncut] if measure.k else [*uncut, *UNCUT_AT]
    for k in cutoffs:
        yield Measure(metric, settings, k)


@dataclass(frozen=True)
class NextDoor:
    """What the metrics next door give, as tools and right queries have them.

    Attributes:
        spec: What is given; its one metric is the one that is named.
        tables: Where they are.
        needless: The options that change nothing.
        engine: Where they are.
    """

    spec: Spec
    tables: Tables
    needless: Sequence[str]
    engine: Database

    def candidates(self, target: Target) -> list[Candidate]:
        """The metrics that give a number, one line a value."""
        if not self._points:
            return []
        matches = [
            MeanMatch(tally, points, 0, target).reconciled() for tally, points in self._tallies
        ]
        expected = sum(match.expected_by_chance or 0.0 for match in matches)
        by_value: dict[float, list[Candidate]] = {}
        for match in matches:
            for candidate in self._nearest(match):
                by_value.setdefault(round(candidate.value or 0.0, chance.ALIKE), []).append(
                    replace(candidate, by_chance=expected, other_metric=True)
                )
        return [_as_one(candidates) for candidates in by_value.values()]

    @staticmethod
    def _nearest(match: Reconciliation) -> list[Candidate]:
        """The simplest that give the number; of those that are cut off, none."""
        fitting = [candidate for candidate in match.candidates if not candidate.cut]
        least = min((candidate.distance for candidate in fitting), default=0)
        return [candidate for candidate in fitting if candidate.distance == least][:1]

    @cached_property
    def _points(self) -> list[tuple[Space, dict[Point, int]]]:
        """The points of each metric, with how far they depart from a preset."""
        spaces_with_points = []
        named = self.spec.measures[0]
        reads_score = Needs(self.spec).reads_score
        for measure in neighbours(named):
            spec = self.spec.having(metrics=(str(measure),))
            if Needs(spec).reads_score != reads_score or measure.metric.count:
                continue
            around = space(
                spec, needless=self.needless, ordered=self.tables.rankings.ordered, grades=()
            )
            points = around.points(0)
            for point in right(around):
                points.setdefault(point, _distance(around, point))
            spaces_with_points.append((around, points))
        return spaces_with_points

    @cached_property
    def _tallies(self) -> list[tuple[Tally, dict[Point, int]]]:
        pairs = ((around, point) for around, points in self._points for point in points)
        statement = Statement(self.spec, self.tables, worlds_of(pairs, self.spec))
        rows = self.engine.table(statement.text).to_pylist()
        tallies = [(Tally(around, statement, rows), points) for around, points in self._points]
        return [
            (tally, {point: far for point, far in points.items() if tally.holds(point)})
            for tally, points in tallies
        ]


def _distance(around: Space, point: Point) -> int:
    return min(len(around.departures(point, preset)) for preset in around.presets)


def _as_one(candidates: Sequence[Candidate]) -> Candidate:
    """The likeliest of the metrics with one value, with the others' names."""
    first = min(candidates, key=lambda candidate: (candidate.distance, -len(candidate.presets)))
    names = list(dict.fromkeys(candidate.metric for candidate in candidates))
    names.remove(first.metric)
    listing = ", ".join(names[:SHOWN]) + (f", {len(names) - SHOWN} more" if names[SHOWN:] else "")
    also = f" (so is {listing})" if names else ""
    words = f"this is {first.metric}{also}: {first.words}"
    return replace(first, words=words, same=first.same + len(names))
