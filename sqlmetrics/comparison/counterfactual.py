"""What was not shown, against what was or one against another: differences of estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from sqlmetrics.catalog.counterfactual import EstimatedMetric, estimated_metric, is_estimated
from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual.evaluate import estimate_question
from sqlmetrics.clicks.counterfactual.terms import (
    SHOWN_SYSTEM,
    CounterfactualResult,
    Question,
    Term,
    day_of,
    estimates,
    segments_of,
)
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.findings import decided
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.report import Comparison
from sqlmetrics.comparison.statements import columns_stage
from sqlmetrics.comparison.sums.moments import PART, Key, SampleMoments
from sqlmetrics.comparison.sums.samples import Sides, of_segments, period_sides
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.jobs.days import on_days
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.counterfactual import Counterfactual
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import many

# What a comparison asks of what was not shown.


def compared_estimates(rankings: Any, options: Options) -> tuple[EstimatedMetric, ...]:
    """The estimates that a comparison is of; none if it is of metrics of lists.

    Of a spec with `clicks.counterfactual` they are all of its own, unless metrics are named.

    Args:
        rankings: A spec, or rankings.
        options: What is asked.

    Raises:
        SpecError: If both kinds are named, or nothing is said of what was not shown.
    """
    estimate_texts = [text for text in options.metrics if is_estimated(text)]
    if options.metrics and not estimate_texts:
        return ()
    clicks = rankings.clicks if isinstance(rankings, Spec) else None
    if clicks is None or clicks.counterfactual is None:
        if estimate_texts:
            raise SpecError(
                f"{estimate_texts[0]} is estimated for rankings that were not shown; give a spec "
                "with clicks: {counterfactual: {rankings: {file: new.parquet}}}"
            )
        return ()
    if len(estimate_texts) < len(options.metrics):
        list_metric = next(text for text in options.metrics if text not in estimate_texts)
        raise SpecError(
            f"{list_metric} needs lists that were shown, {estimate_texts[0]} lists that were not; "
            "compare them in two runs"
        )
    return tuple(dict.fromkeys(map(estimated_metric, estimate_texts))) or clicks.estimated


def check_fits(options: Options, *, stored: bool) -> None:
    """Raise SpecError for what estimates are not compared by.

    Args:
        options: What is asked.
        stored: Whether the baseline is an earlier run.
    """
    is_asked_by_name = {
        f"test {options.test}": options.test != "t",
        "a cluster": bool(options.cluster),
        "a covariate": options.has_covariate,
        "baseline_values": stored,
        "contributions": options.contributions,
        "movers": options.movers.count > 0,
    }
    wrong = [name for name, is_asked in is_asked_by_name.items() if is_asked]
    if wrong:
        raise SpecError(
            "estimates for lists that were not shown are ratios of sums over users (or requests, "
            "if users are unknown), so only the test t compares them; leave out "
            f"{' and '.join(wrong)}"
        )
    if options.dates and options.paired:
        raise SpecError("a request belongs to one day; leave out paired, or dates")


def compared_segments(tables: ClickTables, options: Options) -> list[str]:
    """The segments that are compared too.

    Raises:
        SpecError: If the log has one of them not.
    """
    existing = segments_of(tables, options.by)
    lacks = [name for name in options.by if name not in existing]
    if lacks:
        segments = tables.clicks.columns.segments if tables.clicks.columns else ()
        raise SpecError(
            f"{unknown('segment', lacks[0], segments)}; name its column in columns.segments of "
            "the log"
        )
    return [*existing]


def question_of(clicks: Clicks, metrics: Sequence[EstimatedMetric]) -> Counterfactual:
    """The question of the spec, of these metrics and estimators."""
    counterfactual = clicks.counterfactual
    if counterfactual is None:
        raise SpecError("the spec has no rankings that were not shown")
    overrides = {
        "metrics": tuple(dict.fromkeys(str(metric.measure) for metric in metrics)),
        "estimators": tuple(dict.fromkeys(metric.estimator for metric in metrics)),
    }
    settings = {name: getattr(counterfactual, name) for name in counterfactual.model_fields_set}
    try:
        question = Counterfactual(**settings | overrides)
    except ValidationError as error:
        message = "; ".join(
            problem["msg"].removeprefix("Value error, ") for problem in error.errors()
        )
        raise SpecError(message) from None
    if lacks := clicks.lacks(question):
        raise SpecError(lacks)
    if question.title == SHOWN_SYSTEM and not (
        question.rankings and question.rankings.columns.system
    ):
        raise SpecError(
            f"{SHOWN_SYSTEM} is the name of what the log showed; rename the other system in "
            "clicks.counterfactual.system"
        )
    return question


def compares_with_shown(options: Options) -> bool:
    """Whether what was shown may be a side."""
    baseline = options.baseline or next(iter(options.systems), None)
    return not (options.dates or baseline) or SHOWN_SYSTEM in (*options.systems, options.baseline)


# Rankings or policies that were not shown, against what was shown or one another.

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
        by = compared_segments(log.tables, options)
        day = day_of(log.tables) if options.dates else None
        question, about = estimate_question(
            log,
            counterfactual,
            options.level,
            day=day,
            required=bool(check),
            by=by,
            has_shown=compares_with_shown(options),
        )
        estimation = _Estimated(engine, question, about, tuple(map(str, metrics)))
        with keeping(engine, [estimation.units]):
            return estimation.comparison(spec, options)


@dataclass(frozen=True)
class _Estimated:
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
            of_part = part.read(self._rows(part.query(), statements), centres)
            moments_by_key |= {key: means for key, means in of_part.items() if means.is_defined}
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
        usual = spec.baseline if spec.baseline in existing else SHOWN_SYSTEM
        baseline = options.baseline or next(iter(options.systems), usual)
        candidates = options.systems or tuple(
            system for system in existing if system != SHOWN_SYSTEM
        )
        systems = tuple(dict.fromkeys(system for system in candidates if system != baseline))
        if not systems:
            raise SpecError(
                f"there is only one system, {baseline}, and compare needs two; name {SHOWN_SYSTEM} "
                "(what the log showed) or another system (systems, --systems)"
            )
        if not (options.baseline or options.systems) and baseline == SHOWN_SYSTEM:
            notes.append(
                f"the baseline is {SHOWN_SYSTEM}, what the log showed; name another with --baseline"
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
