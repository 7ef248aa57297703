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
from sqlmetrics.comparison.counterfactual.question import question_of, reads_shown, segments_asked
from sqlmetrics.comparison.findings import decided
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.report.comparison import Comparison
from sqlmetrics.comparison.statements import columns_stage
from sqlmetrics.comparison.sums.moments import PART, Key
from sqlmetrics.comparison.sums.ratios import Sides, of_segments, period_sides
from sqlmetrics.comparison.sums.welch import SampleMoments
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.jobs.days import on_days
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import many

UNITS = "sqlmetrics_estimated_requests"
"""The table that keeps what a request, of a policy an impression, adds to each sum."""

PAIRED, WELCH = "paired t of ratios", "Welch t of ratios"
"""The test where requests have both sides, and where each side has its own."""


def compare_estimates(
    spec: Spec,
    metrics: Sequence[EstimatedMetric],
    options: Options,
    engine: Database,
    *,
    check: bool | float,
) -> Comparison:
    """The comparison of what was not shown.

    Args:
        spec: A spec with a click log, and what is estimated of it.
        metrics: The estimates that are compared.
        options: What is asked.
        engine: Where the log is.
        check: Whether it is an error if no request has a list of those that were not shown.

    Raises:
        SpecError: If a system is not there, or as `counterfactual_metrics` does.
        InputError: As `counterfactual_metrics` does, or if no request has both sides.
    """
    clicks = on_days(spec, options.all_days).spec.clicks
    if clicks is None:
        raise SpecError("the spec has no clicks")
    counterfactual = question_of(clicks, metrics)
    with cleaned_log(clicks.model_copy(update={"counterfactual": counterfactual}), engine) as log:
        by = segments_asked(log.tables, options)
        day = day_of(log.tables) if options.dates else None
        question, about = asked_of(
            log,
            counterfactual,
            options.level,
            day=day,
            required=bool(check),
            by=by,
            has_shown=reads_shown(options),
        )
        estimation = _Made(engine, question, about, tuple(map(str, metrics)))
        with keeping(engine, [estimation.units]):
            return estimation.comparison(spec, options)


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
        term_by_metric = {
            str(EstimatedMetric(term.measure, term.estimator)): term for term in self.question.terms
        }
        return [term_by_metric[metric] for metric in self.metrics]

    def comparison(self, spec: Spec, options: Options) -> Comparison:
        """The comparison."""
        sides, notes = self._sides(spec, options)
        moments_by_key: dict[Key, SampleMoments] = {}
        statements = [self.units.statement(self.engine.translation)]
        terms = self._terms
        for first in range(0, len(terms), PART):
            part = replace(
                sides, terms=terms[first : first + PART], translation=self.engine.translation
            )
            centres = self._rows(part.centres(), statements)
            moments_by_key |= part.read(self._rows(part.query(), statements), centres)
        counts = {
            str(row["system"]): int(row["n"]) for row in self._rows(sides.counts(), statements)
        }
        if lacks := [side for side in (sides.baseline, *sides.systems) if side not in counts]:
            raise InputError(f"no {self.about.per} has a list of {', '.join(lacks)}")
        if not moments_by_key:
            raise InputError(
                f"no {self.about.per} has a list of {sides.baseline} and of another system"
            )
        statements.append(self.units.drop(self.engine.translation))
        translate = self.engine.translation.text
        return Comparison(
            rows=tuple(self._compared(sides, moments_by_key, counts, options)),
            baseline=sides.baseline,
            level=options.level,
            margin=options.margin,
            test=PAIRED if sides.paired else WELCH,
            interval=findings.interval_name(options.test),
            cluster=None,
            notes=(*notes, *self._left_out(sides, moments_by_key, counts), *self._notes(sides)),
            executed_sql="\n\n".join(
                f"{translate(statement).rstrip()};" for statement in statements
            )
            + "\n",
            counted=_counted(self.about.per),
        )

    def _rows(self, query: tuple[list[Stage], str], statements: list[str]) -> list[dict[str, Any]]:
        text = with_stages(*query)
        statements.append(text)
        rows: list[dict[str, Any]] = self.engine.table(text).to_pylist()
        return rows

    def _sides(self, spec: Spec, options: Options) -> tuple[Sides, list[str]]:
        """What is compared with what, and what should be said of that."""
        rows = self.engine.rows(f"select distinct system from {UNITS}")
        existing = sorted(str(system) for (system,) in rows)
        (replace(options, baseline=None) if options.dates else options).check_systems(existing)
        by, notes = options.by, list[str]()
        if options.dates:
            return self._periods(options, existing), notes
        usual = spec.baseline if spec.baseline in existing else SHOWN
        baseline = options.baseline or next(iter(options.systems), usual)
        candidates = options.systems or tuple(system for system in existing if system != SHOWN)
        systems = tuple(dict.fromkeys(system for system in candidates if system != baseline))
        if not systems:
            raise SpecError(
                f"there is only one system, {baseline}, and compare needs two; name {SHOWN} (what "
                "the log showed) or another system (systems, --systems)"
            )
        if not (options.baseline or options.systems) and baseline == SHOWN:
            notes.append(
                f"the baseline is {SHOWN}, what the log showed; name another with --baseline"
            )
        paired = options.paired is not False
        return Sides(self._terms, baseline, systems, UNITS, by, paired=paired), notes

    def _periods(self, options: Options, existing: Sequence[str]) -> Sides:
        """The days of one system."""
        baseline, periods, system = period_sides(options, existing)
        return Sides(
            self._terms,
            baseline,
            periods,
            UNITS,
            options.by,
            options.dates,
            system,
            paired=False,
        )

    def _compared(
        self,
        sides: Sides,
        moments_by_key: Mapping[Key, SampleMoments],
        counts: Mapping[str, int],
        options: Options,
    ) -> list[dict[str, Any]]:
        rows = [
            _row(
                EstimatedMetric(term.measure, term.estimator),
                (system, *segment),
                sides,
                moments_by_key,
            )
            for segment in of_segments(moments_by_key)
            for system in sides.systems
            for term in self._terms
        ]
        decided(rows, options, _counted(self.about.per))
        for row in rows:
            if sides.paired and row["segment_name"] == ALL:
                row["n_system_only"] = counts[row["system"]] - row["n"]
                row["n_baseline_only"] = counts[sides.baseline] - row["n_baseline"]
        return rows

    def _left_out(
        self, sides: Sides, moments_by_key: Mapping[Key, SampleMoments], counts: Mapping[str, int]
    ) -> Iterator[str]:
        """Which requests only one side has."""
        for system in sides.systems if sides.paired else ():
            pairs = max(
                (moments.n for key, moments in moments_by_key.items() if key[:2] == (system, ALL)),
                default=0,
            )
            for side, other_side in ((system, sides.baseline), (sides.baseline, system)):
                if n_unpaired := counts[side] - pairs:
                    n = many(n_unpaired, self.about.per)
                    yield f"{n} of {side} are left out, since {other_side} has no list for them"

    def _notes(self, sides: Sides) -> Iterator[str]:
        """What must be said of the log, and why not to believe an estimate."""
        units = "users, or requests where they are not known"
        yield f"{units}, are treated as independent, and propensities as known"
        yield from self.about.notes
        systems = (sides.of_system,) if sides.periods else (sides.baseline, *sides.systems)
        where = f"system in ({', '.join(map(literal, systems))})"
        about = "the rows kept of each request"
        kept_units = columns_stage("kept_units", about, ["*"], UNITS, where)
        question = replace(self.question, stages=[kept_units], terms=self._terms, day=None, by=())
        estimated = estimates(
            self.engine.records(question.select),
            self._terms,
            self.about.clip,
            self.about.confidence,
        )
        result = CounterfactualResult(**vars(self.about) | {"estimates": tuple(estimated)})
        yield from result.warnings()


def _counted(per: str) -> tuple[str, str]:
    return per, f"{per}s"


def _row(
    metric: EstimatedMetric,
    row_key: tuple[str, str, str],
    sides: Sides,
    moments_by_key: Mapping[Key, SampleMoments],
) -> dict[str, Any]:
    """A row of a comparison, but for what is decided of all together."""
    system, name, value = row_key
    row = {
        "metric": str(metric),
        "name": metric.name,
        "direction": SIGNS[metric.metric.better],
        "system": system,
        "baseline": sides.baseline,
        "segment_name": name,
        "segment_value": value,
        "test": PAIRED if sides.paired else WELCH,
        **findings.NOTHING,
    }
    moments = moments_by_key.get((*row_key, metric.name, metric.k or 0))
    return row if moments is None else row | findings.numbers(moments) | findings.by_t(moments)
