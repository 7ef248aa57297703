"""Rankings or policies that were not shown, against what was shown or one another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.counterfactual.estimates import CounterfactualResult, estimates
from sqlmetrics.clicks.counterfactual.evaluate import asked_of
from sqlmetrics.clicks.counterfactual.terms import SHOWN, Question, Term, day_of
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.counterfactual.question import (
    question_of,
    reads_shown,
    segments_asked,
)
from sqlmetrics.comparison.counterfactual.sums import UNITS, Key, Sides, of_segments
from sqlmetrics.comparison.findings import decided
from sqlmetrics.comparison.inference.welch import SampleMoments
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.report.comparison import Comparison
from sqlmetrics.comparison.stages import columns_stage
from sqlmetrics.comparison.sums.moments import PART
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.report.table import many
from sqlmetrics.jobs.days import on_days
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, with_stages
from sqlmetrics.sql.template import literal

PAIRED, WELCH = "paired t of ratios", "Welch t of ratios"
"""The test where requests have both sides, and where each side has its own."""


def compare_estimates(
    spec: Spec,
    metrics: Sequence[EstimatedMetric],
    asks: Options,
    engine: Database,
    *,
    check: bool | float,
) -> Comparison:
    """The comparison of what was not shown.

    Args:
        spec: A spec with a click log, and what is estimated of it.
        metrics: The estimates that are compared.
        asks: What is asked.
        engine: Where the log is.
        check: Whether it is an error if no request has a list of those that were not shown.

    Raises:
        SpecError: If a system is not there, or as `counterfactual_metrics` does.
        InputError: As `counterfactual_metrics` does, or if no request has both sides.
    """
    own = on_days(spec, asks.all_days).spec.clicks
    if own is None:
        raise SpecError("the spec has no clicks")
    asked = question_of(own, metrics)
    with cleaned_log(own.model_copy(update={"counterfactual": asked}), engine) as log:
        by = segments_asked(log.tables, asks)
        day = day_of(log.tables) if asks.dates else None
        question, about = asked_of(
            log, asked, asks.level, day=day, some=bool(check), by=by, shown=reads_shown(asks)
        )
        made = _Made(engine, question, about, tuple(map(str, metrics)))
        with keeping(engine, [made.units]):
            return made.comparison(spec, asks)


@dataclass(frozen=True)
class _Made:
    """What was estimated, while the sums of requests are kept in `UNITS`.

    Attributes:
        engine: Where they are.
        question: How they were made.
        about: What is known of the log.
        metrics: The texts of the estimates that are compared.
    """

    engine: Database
    question: Question
    about: CounterfactualResult
    metrics: tuple[str, ...]

    @property
    def units(self) -> Step:
        """The table of what each request adds."""
        last = self.question.stages[-1].name
        return Step(UNITS, with_stages(self.question.stages, f"select *\nfrom {last}"))

    @property
    def _terms(self) -> list[Term]:
        """The estimates, in the order in which they were asked for."""
        there = {
            str(EstimatedMetric(term.measure, term.estimator)): term for term in self.question.terms
        }
        return [there[one] for one in self.metrics]

    def comparison(self, spec: Spec, asks: Options) -> Comparison:
        """The comparison."""
        sides, told = self._sides(spec, asks)
        made: dict[Key, SampleMoments] = {}
        statements = [self.units.statement(self.engine.translation)]
        terms = self._terms
        for first in range(0, len(terms), PART):
            some = sides.of(terms[first : first + PART])
            centres = self._rows(some.centres(), statements)
            made |= some.read(self._rows(some.query(), statements), centres)
        counts = {
            str(row["system"]): int(row["n"]) for row in self._rows(sides.counts(), statements)
        }
        if lacks := [one for one in (sides.baseline, *sides.systems) if one not in counts]:
            raise InputError(f"no {self.about.per} has a list of {', '.join(lacks)}")
        if not made:
            raise InputError(
                f"no {self.about.per} has a list of {sides.baseline} and of another side"
            )
        statements.append(self.units.drop(self.engine.translation))
        own = self.engine.translation.text
        return Comparison(
            rows=tuple(self._compared(sides, made, counts, asks)),
            baseline=sides.baseline,
            level=asks.level,
            margin=asks.margin,
            test=PAIRED if sides.paired else WELCH,
            interval=findings.interval_name(asks.test),
            cluster=None,
            notes=(*told, *self._left_out(sides, made, counts), *self._notes(sides)),
            sql="\n\n".join(f"{own(one).rstrip()};" for one in statements) + "\n",
            counted=_counted(self.about.per),
        )

    def _rows(self, query: tuple[list[Stage], str], statements: list[str]) -> list[dict[str, Any]]:
        text = with_stages(*query)
        statements.append(text)
        found: list[dict[str, Any]] = self.engine.table(text).to_pylist()
        return found

    def _sides(self, spec: Spec, asks: Options) -> tuple[Sides, list[str]]:
        """What is compared with what, and what should be said of that."""
        rows = self.engine.rows(f"select distinct system from {UNITS}")
        there = sorted(str(system) for (system,) in rows)
        (replace(asks, baseline=None) if asks.dates else asks).check_systems(there)
        by, told = asks.by, list[str]()
        if asks.dates:
            return self._periods(asks, there), told
        usual = spec.baseline if spec.baseline in there else SHOWN
        baseline = asks.baseline or next(iter(asks.systems), usual)
        others = asks.systems or tuple(one for one in there if one != SHOWN)
        systems = tuple(dict.fromkeys(one for one in others if one != baseline))
        if not systems:
            raise SpecError(
                f"there is one system, {baseline}, and compare needs two: name {SHOWN}, what the "
                "log showed, or another one (systems, --systems)"
            )
        if not (asks.baseline or asks.systems) and baseline == SHOWN:
            told.append(f"the baseline is {SHOWN}, what the log showed; --baseline names another")
        paired = asks.paired is not False
        return Sides(self._terms, baseline, systems, by, paired=paired), told

    def _periods(self, asks: Options, there: Sequence[str]) -> Sides:
        """The days of one system."""
        systems = asks.systems or tuple(there)
        if len(systems) != 1:
            raise SpecError(
                f"dates compare one system with itself, and there are {', '.join(there)}: name one "
                "(systems, --systems)"
            )
        names = [one.name for one in asks.dates]
        baseline = asks.baseline or names[0]
        if baseline not in names:
            raise SpecError(f"dates: {unknown('baseline', baseline, names)}")
        others = tuple(one for one in names if one != baseline)
        return Sides(self._terms, baseline, others, asks.by, asks.dates, systems[0], paired=False)

    def _compared(
        self,
        sides: Sides,
        made: Mapping[Key, SampleMoments],
        counts: Mapping[str, int],
        asks: Options,
    ) -> list[dict[str, Any]]:
        rows = [
            _row(EstimatedMetric(term.measure, term.estimator), (system, *of), sides, made)
            for of in of_segments(made)
            for system in sides.systems
            for term in self._terms
        ]
        decided(rows, asks, _counted(self.about.per))
        for row in rows:
            if sides.paired and row["segment_name"] == ALL:
                row["n_system_only"] = counts[row["system"]] - row["n"]
                row["n_baseline_only"] = counts[sides.baseline] - row["n_baseline"]
        return rows

    def _left_out(
        self, sides: Sides, made: Mapping[Key, SampleMoments], counts: Mapping[str, int]
    ) -> Iterator[str]:
        """Which requests only one side has."""
        for system in sides.systems if sides.paired else ():
            pairs = max((one.n for key, one in made.items() if key[:2] == (system, ALL)), default=0)
            for one, other in ((system, sides.baseline), (sides.baseline, system)):
                if left := counts[one] - pairs:
                    n = many(left, self.about.per)
                    yield f"left out: {n} of {one} that {other} has no list for"

    def _notes(self, sides: Sides) -> Iterator[str]:
        """What must be said of the log, and why not to believe an estimate."""
        of = "users, or requests where they are not known"
        yield f"{of}, are taken for independent of each other; propensities for known"
        yield from self.about.notes
        wanted = (sides.of_system,) if sides.periods else (sides.baseline, *sides.systems)
        where = f"system in ({', '.join(map(literal, wanted))})"
        about = "what was kept of each request"
        kept = columns_stage("kept_units", about, ["*"], UNITS, where)
        whole = Question([kept], self._terms, self.question.counts)
        found = estimates(
            self.engine.records(whole.select), self._terms, self.about.clip, self.about.confidence
        )
        told = CounterfactualResult(**vars(self.about) | {"estimates": tuple(found)})
        yield from told.warnings()


def _counted(per: str) -> tuple[str, str]:
    return per, f"{per}s"


def _row(
    one: EstimatedMetric,
    place: tuple[str, str, str],
    sides: Sides,
    made: Mapping[Key, SampleMoments],
) -> dict[str, Any]:
    """A row of a comparison, but for what is decided of all together."""
    system, name, value = place
    row = {
        "metric": str(one),
        "name": one.name,
        "direction": SIGNS[one.metric.better],
        "system": system,
        "baseline": sides.baseline,
        "segment_name": name,
        "segment_value": value,
        "test": PAIRED if sides.paired else WELCH,
        **findings.NOTHING,
    }
    found = made.get((*place, one.name, one.k or 0))
    return row if found is None else row | findings.numbers(found) | findings.by_t(found)
