"""Data and a number seen elsewhere -> the conventions that give it, the simplest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from sqlmetrics import checks, sql
from sqlmetrics.api import asked
from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.inputs.relation import Tables
from sqlmetrics.measure import Measure, Setting
from sqlmetrics.plan import plan
from sqlmetrics.reconciling import chance, words
from sqlmetrics.reconciling.seen import Seen, read_seen
from sqlmetrics.reconciling.space import Point, Space, space
from sqlmetrics.reconciling.statement import Given, Statement, worlds_of
from sqlmetrics.reconciling.tally import Tally
from sqlmetrics.reconciling.target import Target, checked, read
from sqlmetrics.spec import Spec

DEPARTURES = 2
MOST = 3
"""More departures make more combinations than digits can tell apart."""

CUT_TOO = 1.5
"""How much wider a match is where the number may also have been cut off."""

MANY_GRADES = 6
NEAREST = 5


@dataclass(frozen=True)
class Candidate:
    """Conventions that give the number.

    Attributes:
        presets: The presets that they depart from least; all of them give the same.
        departures: The options in which they depart from these, with their values.
        words: The same as a sentence.
        metric: The metric's text to evaluate with: with `rel`, if that departs.
        value: What they give: the mean; None for per-query values.
        cut: Whether the number is theirs only if it was cut off, not rounded.
        same: How many other combinations give the very same value.
        by_chance: How many values that come about with as few departures would match by
            accident; None for per-query values.
        explained: How many of the per-query values they give; 0 for a mean.
        beyond: How many queries count by them that have no per-query value.
    """

    presets: tuple[str, ...]
    departures: Mapping[str, Setting]
    words: str
    metric: str
    value: float | None
    cut: bool
    same: int
    by_chance: float | None
    explained: int = 0
    beyond: int = 0

    @property
    def distance(self) -> int:
        """How many departures it takes; a number that is cut off is one too."""
        return len(self.departures) + self.cut

    @property
    def conventions(self) -> dict[str, Setting]:
        """The departures as `evaluate` takes them, beside the preset and the metric."""
        return {name: value for name, value in self.departures.items() if name != "rel"}

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "presets": list(self.presets),
            "departures": {name: str(value) for name, value in self.departures.items()},
            "cut": self.cut,
            "words": self.words,
            "metric": self.metric,
            "value": self.value,
            "same": self.same,
            "by_chance": self.by_chance,
            "explained": self.explained,
            "beyond": self.beyond,
        }


@dataclass(frozen=True, repr=False)
class Reconciliation:
    """What gives a number; it prints as a table.

    Attributes:
        measure: The metric.
        target: The number, None for per-query values.
        candidates: What gives it, the fewest departures first.
        needless: How many more would give it too, but depart further from a preset than a
            candidate that departs in a part of their options.
        nearest: If nothing does: what comes nearest.
        tried: How many combinations of options there were.
        values: How many different values they gave; 0 for per-query values.
        given: How many per-query values there were.
        most: With how many departures at most.
        expected_by_chance: How many of all values would match by accident; None for
            per-query values.
        sql: The statement that ran.
    """

    measure: Measure
    target: Target | None
    candidates: tuple[Candidate, ...]
    needless: int
    nearest: tuple[Candidate, ...]
    tried: int
    values: int
    given: int
    most: int
    expected_by_chance: float | None
    sql: str

    def __repr__(self) -> str:
        from sqlmetrics.reconciling.told import text

        return text(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "metric": str(self.measure),
            "value": self.target.text if self.target else None,
            "given": self.given,
            "tried": self.tried,
            "values": self.values,
            "most_departures": self.most,
            "expected_by_chance": self.expected_by_chance,
            "needless": self.needless,
            "candidates": [one.to_dict() for one in self.candidates],
            "nearest": [one.to_dict() for one in self.nearest],
        }


def reconcile(
    rankings: Any,
    labels: Any,
    metric: str,
    value: float | str | None = None,
    *,
    values: Any = None,
    column: str | None = None,
    departures: int = DEPARTURES,
    connection: Any = None,
    check: bool = True,
    **given: Any,
) -> Reconciliation:
    """Say which conventions give a number that was seen elsewhere.

    Args:
        rankings: The ranked items of one system, as `evaluate` takes them.
        labels: The labels, likewise.
        metric: A text like `ndcg@10`. What it sets, `ndcg(gain=linear)@10`, is not varied.
        value: The number with its digits: "0.3506", ".0919", "35.06%". A text keeps the
            zeros at its end, which a float has lost.
        values: Instead of it, per-query values: {query: value}, or a file, table or frame.
        column: The column of the values in that table; default: the metric's, or `value`.
        departures: In how many options at most a combination departs from a preset.
        connection: A DuckDB connection that holds tables.
        check: Whether to look for bad input first.
        **given: Columns and tables as `evaluate` names them (`query="qid"`, `weight=`,
            `where=` ...), and conventions that are known and not varied.

    Returns:
        The candidates, the fewest departures first, with the number of accidental
        matches to expect.

    Raises:
        SpecError: If a name or the number is wrong.
        InputError: If the data would give wrong numbers, or is of several systems.
        EngineError: If DuckDB fails.
    """
    _refuse(value, values, departures, given)
    with DuckDB(connection) as engine:
        spec, tables = asked(engine, rankings, labels, metric, **given)
        measure = _one_measure(spec)
        question: Target | Seen
        if values is None:
            question = checked(read(value), measure.metric)
        else:
            query = given.get("query", "query_id")
            question = read_seen(values, column, query, measure, engine)
        if check:
            checks.check(plan(spec, tables), engine)
        tally, points = _counted(spec, tables, question, departures, engine)
    if isinstance(question, Seen):
        return _Explained(tally, points, departures, question).reconciled()
    return _Matched(tally, points, departures, question).reconciled()


def _refuse(value: object, values: object, departures: object, given: Mapping[str, Any]) -> None:
    problems = []
    if (value is None) == (values is None):
        problems.append("give a value, or per-query values; one of both")
    if not isinstance(departures, int) or not 0 <= departures <= MOST:
        problems.append(f"departures must be a whole number from 0 to {MOST}, given {departures!r}")
    if given.get("preset"):
        problems.append("reconcile tries all presets: name none; give what is known as conventions")
    if given.get("by"):
        problems.append("reconcile looks at one mean: choose a segment with where, not with by")
    if given.get("missing") == "error":
        problems.append("missing must be zero or drop here")
    if values is not None and given.get("date"):
        problems.append("per-query values have no date; choose a day with where")
    if problems:
        raise SpecError(problems)


def _one_measure(spec: Spec) -> Measure:
    if len(spec.measures) != 1:
        told = ", ".join(map(str, spec.measures))
        raise SpecError(f"reconcile takes one metric and one value an option, given {told}")
    return spec.measures[0]


def _counted(
    spec: Spec, tables: Tables, question: Target | Seen, departures: int, engine: DuckDB
) -> tuple[Tally, dict[Point, int]]:
    """Run the statement, and keep the points that it could compute."""
    shape = plan(spec, tables).shape
    ranked = "rank" in shape.columns["rankings"]
    _one_list_a_query(spec, tables, engine)
    grades = _grades(spec, tables, engine)
    around = space(spec, ranked=ranked, ordered=tables.rankings.ordered, grades=grades)
    points = around.points(departures)
    given = None
    if isinstance(question, Seen):
        given = Given(engine.register("sqlmetrics_values", question.table), question.unit)
    statement = Statement(spec, tables, worlds_of(around, list(points), spec), given)
    tally = Tally(around, statement, engine.table(statement.text).to_pylist())
    return tally, {point: far for point, far in points.items() if tally.holds(point)}


def _one_list_a_query(spec: Spec, tables: Tables, engine: DuckDB) -> None:
    """Refuse several systems or days: a number is of one."""
    shape = plan(spec, tables).shape
    name = shape.names["rankings"]
    stages = [stage for stage in shape.stages() if stage.name == name]
    for key, what in (("system", "system"), ("metric_date", "day")):
        if key not in shape.keys:
            continue
        last = f"select distinct {key}\nfrom {name}\norder by {key}\nlimit 4"
        rows = engine.rows(sql.with_stages(stages, last))
        if len(rows) > 1:
            there = ", ".join(repr(str(one)) for (one,) in rows)
            raise InputError(
                f"rankings: a number is of one {what}, but there are {there}; "
                "choose one with a condition: where"
            )


def _grades(spec: Spec, tables: Tables, engine: DuckDB) -> list[float]:
    """The grades from which an item may be relevant, where there are few."""
    if "rel" not in spec.measures[0].metric.parameters:
        return []
    shape = plan(spec, tables).shape
    name = shape.names["labels"]
    stages = [stage for stage in shape.stages() if stage.name == name]
    last = f"select distinct grade\nfrom {name}\nwhere grade > 0\nlimit {MANY_GRADES + 1}"
    grades = sorted(grade for (grade,) in engine.rows(sql.with_stages(stages, last)))
    lowest_is_1 = grades[:1] == [1.0]
    few = len(grades) <= MANY_GRADES
    return [_whole(grade) for grade in grades[lowest_is_1:]] if few else []


def _whole(grade: float) -> float:
    return int(grade) if grade.is_integer() else grade


@dataclass(frozen=True)
class _Named:
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
class _Matched(_Named):
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
class _Explained(_Named):
    """The points that give a column of per-query values."""

    seen: Seen

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
