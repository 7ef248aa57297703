"""Which points give a number, or a column of per-query values: the simplest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, Setting, plain_text
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.sources import relation_in, source_of
from sqlmetrics.proof.reconcile import result
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation, Target, checked, read
from sqlmetrics.proof.reconcile.statement import Tally
from sqlmetrics.proof.reconcile.worlds import Point, Space
from sqlmetrics.spec.source import Queries
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import DECIMALS

# Per-query values that were seen elsewhere, as a table (query_id, value).

NOTHING = ("", "nan", "none", "null", "na", "-")
"""How tools write that a query has no value."""


@dataclass(frozen=True)
class GivenValues:
    """The values of single queries.

    Attributes:
        targets: Query -> its value, None where the tool has none.
    """

    targets: Mapping[str, Target | None]

    @property
    def unit(self) -> float:
        """What 1 is worth in the last digit of the value that has most of them."""
        return min(target.unit for target in self.targets.values() if target)

    @property
    def table(self) -> pa.Table:
        """The columns query_id and value."""
        values = [target.number if target else None for target in self.targets.values()]
        ids = pa.array(list(self.targets), pa.string())
        return pa.table({"query_id": ids, "value": pa.array(values, pa.float64())})


def read_values(
    values: Any, column: str | None, query: str, measure: Measure, engine: Database
) -> GivenValues:
    """The values of queries, from a mapping or a table.

    Args:
        values: {query: value}; or a file, table or frame with a column of queries.
        column: The column of values; default: the metric's own name for it, `value`, or
            the only one beside the queries.
        query: The column of queries.
        measure: The metric.
        engine: Where tables are.

    Raises:
        InputError: If a value is no number, a query is there twice, or nothing is there.
        SpecError: If there is no such column, or the metric cannot have a value.
    """
    is_plain = isinstance(values, Mapping) and query not in values
    pairs = list(values.items()) if is_plain else _rows(values, column, query, measure, engine)
    targets: dict[str, Target | None] = {}
    for query_id, value in pairs:
        if str(query_id) in targets:
            raise InputError(f"values: query {str(query_id)!r} appears twice")
        targets[str(query_id)] = _target(str(query_id), value, measure)
    if not any(targets.values()):
        raise InputError("values: the table has no values")
    return GivenValues(targets)


def _target(query: str, value: object, measure: Measure) -> Target | None:
    if value is None or str(value).strip().casefold() in NOTHING:
        return None
    try:
        return checked(read(value), measure.metric)
    except SpecError as error:
        raise InputError(f"values: query {query!r}: {error}") from None


def _rows(
    values: Any, column: str | None, query: str, measure: Measure, engine: Database
) -> list[tuple[Any, Any]]:
    source = Queries(**source_of(values, "values", engine.find), columns={"query": query})
    text = source_text(relation_in(source, "values", engine))
    columns = engine.columns(text)
    if query.casefold() not in map(str.casefold, columns):
        raise SpecError(f"values: {unknown('column', query, columns)}")
    chosen = identifier(_column(column, query, list(columns), measure))
    return engine.rows(f"select cast({identifier(query)} as varchar), {chosen} from {text}")


def _column(column: str | None, query: str, columns: list[str], measure: Measure) -> str:
    other_columns = [name for name in columns if name.casefold() != query.casefold()]
    candidates = (column,) if column else (measure.column, str(measure), "value")
    for name in candidates:
        if name.casefold() in map(str.casefold, other_columns):
            return name
    if column is None and len(other_columns) == 1:
        return other_columns[0]
    raise SpecError(f"values: {unknown('column', candidates[0], other_columns)}")


# Departures from a preset in words.

CUT = "the value is cut off, not rounded"

_SENTENCES = {
    "gain": "a grade is worth {}",
    "discount": "a rank is worth {}",
    "stop": "a reader stops with probability {}",
    "ideal": "the ideal list: {}",
    "recall_denominator": "recall divides by {}",
    "recall_level": "a level of recall is {}",
    "precision_denominator": "precision divides by {}",
    "ap_denominator": "average precision divides by {}",
    "rr_of": "reciprocal rank looks at {}",
    "rbp_of": "in RBP a relevant item is worth {}",
    "ties": "equal scores: {}",
    "score_precision": "scores are compared as {}",
    "min_score": "the lowest score of a returned item: {}",
    "depth": "the last rank that counts is {}",
    "duplicate_rankings": "an item that appears twice in a ranking {}",
    "identical_ids": "an item that has the id of its query {}",
    "unjudged": "a ranked item without a label {}",
    "missing": "a labelled query without a ranking {}",
    "no_relevant": "a query for which the metric is undefined {}",
    "average": "the summary is the {}",
    "average_over": "the mean runs over {}",
    "rounding": "the value of a query is rounded {}",
    "similarity": "the similarity of two items is {}",
    "gauc_weight": "the weight of a query's AUC is {}",
    "tied_scores": "a pair with equal scores {}",
    "equal_labels": "a pair with equal grades {}",
    "pnr_form": "concordant pairs are divided by {}",
    "rbo_ties": "equal scores in rank-biased overlap: {}",
    "rbo_bound": "below the ends of the lists: {}",
    "rel": "relevant from grade {}",
}


def departure(name: str, value: Setting) -> str:
    """One option that departs, as a clause.

    >>> departure("average_over", "hits")
    'the mean runs over queries with a relevant item in the top k'
    """
    if name == "rel":
        return _SENTENCES[name].format(plain_text(value))
    choice = OPTIONS[name].choice(value)
    clause = _SENTENCES[name].format(choice.meaning)
    return clause if choice.name == str(value) else f"{clause} ({name}={value})"


def sentence_of(
    presets: Sequence[str], departures: Mapping[str, Setting], *, cut: bool, decimals: int = 0
) -> str:
    """Presets, and how one departs from them.

    >>> sentence_of(["beir"], {}, cut=False, decimals=5)
    'beir, whose means have 5 decimals: the number was rounded twice'
    """
    clauses = [departure(name, value) for name, value in departures.items()]
    clauses += [CUT] * cut
    subject = listed(presets)
    if decimals:
        subject += f", whose means have {decimals} decimals: the number was rounded twice"
    return f"{subject}, but {'; '.join(clauses)}" if clauses else subject


def listed(presets: Sequence[str], most: int = 4) -> str:
    """The names of presets that are alike here."""
    if len(presets) <= most:
        *first, last = presets
        return f"{', '.join(first)} or {last}" if first else last
    return f"{', '.join(presets[: most - 1])} or {len(presets) - most + 1} other presets"


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

    def simplest(
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
                words=sentence_of(
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
            n_given=0,
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
                points_by_value.setdefault(round(value, result.ALIKE), (value, []))[1].append(point)
        return dict(points_by_value.values())

    def _matched(self, value: float, points: Sequence[Point]) -> Iterator[Candidate]:
        """What gives the number by a value, if it does: rounded, rounded twice, or cut off."""
        if self.target.is_rounded(value):
            yield from self._of(value, points)
            return
        for decimals in self._decimals:
            if self.target.is_rounded(round(value, decimals)):
                preset_names = [
                    name for name in self._decimals[decimals] if self._preset_point(name) in points
                ]
                if preset_names:
                    twice = [*dict.fromkeys(map(self._preset_point, preset_names))]
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
        return self.simplest(points, among, **shared_fields)

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

    def _preset_point(self, preset: str) -> Point:
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
        return result.expected_by_chance(list(values), target.number, target.unit)

    def _nearest(self) -> Iterator[Candidate]:
        values_by_distance = sorted(
            self._classes, key=lambda value: abs(value - self.target.number)
        )
        for value in values_by_distance[:NEAREST]:
            points = self._classes[value]
            yield next(self.simplest(points, value=value, cut=False, by_chance=None))


@dataclass(frozen=True)
class ValuesMatch(Match):
    """The points that give a column of per-query values."""

    given_values: GivenValues

    def reconciled(self) -> Reconciliation:
        """The points that give every value, or those that give most of them."""
        n_given = len(self.given_values.targets)
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
            n_given=n_given,
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
            for candidate in self.simplest(
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
            sentence = sentence_of(
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
