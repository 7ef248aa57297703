"""The known mistakes that give a number: said of a candidate with the same value, or alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import Database
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile import matching, result
from sqlmetrics.proof.reconcile.matching import MeanMatch
from sqlmetrics.proof.reconcile.mistakes import MISTAKES, REPEATED, Mistake, MistakenValue
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation, Target
from sqlmetrics.proof.reconcile.statement import Statement, Tally
from sqlmetrics.proof.reconcile.worlds import Point, Space, space, worlds_of
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
        if tally.covers(point) and (value := tally.mean(point, mistake.order)) is not None
    ]
    means = (tally.mean(point) for point in right(space) if tally.covers(point))
    return mistaken, [mean for mean in means if mean is not None]


@dataclass(frozen=True)
class KnownMistakes:
    """What mistakes give on the data, and what queries without a mistake give.

    Attributes:
        metric: The metric's text.
        wrong: The mistakes with their values.
        right: The values of queries without a mistake.
    """

    metric: str
    wrong: Sequence[MistakenValue]
    right: Sequence[float]

    def with_mistakes_of(self, reconciliation: Reconciliation, target: Target) -> Reconciliation:
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
                key = round(mistaken.value, result.ALIKE)
                mistakes_by_value.setdefault(key, {}).setdefault(mistaken.mistake.name, mistaken)
        return {
            value: list(mistakes_by_name.values())
            for value, mistakes_by_name in mistakes_by_value.items()
        }

    def _alone(self, value: float, mistakes: list[MistakenValue], target: Target) -> Candidate:
        values = result.distinct_by_chance(
            [*self.right, *(mistaken.value for mistaken in self.wrong)]
        )
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
            by_chance=result.expected_by_chance(values, target.number, target.unit),
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
    shape = make_plan(spec, tables).shape
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
            lines.setdefault(key, _of_convention(candidate, way))
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


def _of_convention(candidate: Candidate, way: str) -> Candidate:
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


# The numbers next door: other cutoffs, and metrics that people take for the one they name.

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

NAMED_METRICS = 4
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
    confused = [
        other
        for name in CONFUSED.get(measure.metric.name, ())
        for other in _similar_metrics(measure, name)
    ]
    return [
        neighbour
        for neighbour in dict.fromkeys([*same, *confused])
        if neighbour != measure
        and neighbour.k != 0
        and (neighbour.k or 1) <= (neighbour.metric.deepest or 10**9)
    ]


def _similar_metrics(measure: Measure, name: str) -> Iterator[Measure]:
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
                by_value.setdefault(round(candidate.value or 0.0, result.ALIKE), []).append(
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
            (tally, {point: far for point, far in points.items() if tally.covers(point)})
            for tally, points in tallies
        ]


def _distance(around: Space, point: Point) -> int:
    return min(len(around.departures(point, preset)) for preset in around.presets)


def _as_one(candidates: Sequence[Candidate]) -> Candidate:
    """The likeliest of the metrics with one value, with the others' names."""
    first = min(candidates, key=lambda candidate: (candidate.distance, -len(candidate.presets)))
    names = list(dict.fromkeys(candidate.metric for candidate in candidates))
    names.remove(first.metric)
    listing = ", ".join(names[:NAMED_METRICS]) + (
        f", {len(names) - NAMED_METRICS} more" if names[NAMED_METRICS:] else ""
    )
    also = f" (so is {listing})" if names else ""
    words = f"this is {first.metric}{also}: {first.words}"
    return replace(first, words=words, same=first.same + len(names))
