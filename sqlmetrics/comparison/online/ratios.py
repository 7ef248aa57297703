"""Online metrics of two systems: which is better, by how much, and whether that is real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.online import is_online, online
from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.design import system_sides
from sqlmetrics.comparison.online.quantiles import LINEAR, linearised
from sqlmetrics.comparison.online.units import OnlineTerm, Unit, units
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import Period
from sqlmetrics.comparison.report.comparison import Comparison
from sqlmetrics.comparison.sums.moments import PART, Key
from sqlmetrics.comparison.sums.ratios import Earlier, Sides, of_segments, period_sides
from sqlmetrics.comparison.sums.welch import SampleMoments
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, with_stages
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many

UNITS = "sqlmetrics_online_units"
"""The table that keeps what a request adds to each sum."""

WELCH = "Welch t of ratios"
"""The test: each system has requests of its own."""


def compares_online(rankings: Any, options: Options, *, stored: bool) -> bool:
    """Whether a comparison is of online metrics, too.

    Args:
        rankings: A spec, or rankings.
        options: What is asked.
        stored: Whether the baseline is an earlier run.

    Raises:
        SpecError: If online metrics are named, and something that they are not compared by.
    """
    if not isinstance(rankings, Spec) or rankings.clicks is None:
        return False
    named_metrics = [text for text in options.metrics if is_online(text)]
    if not (named_metrics or (rankings.online and not options.metrics)):
        return False
    is_asked_by_name = {
        f"the test {options.test}": options.test != "t",
        f"the covariate {options.covariate}, which is no days": bool(options.covariate),
        "baseline_values": stored,
        "contributions": options.contributions,
        "movers": options.movers.count > 0,
        "all_pairs": options.all_pairs,
        "paired": bool(options.paired),
    }
    wrong = [name for name, is_asked in is_asked_by_name.items() if is_asked]
    if wrong and (named_metrics or not rankings.metrics):
        raise SpecError(
            f"{', '.join(named_metrics or rankings.online)}: online metrics are ratios over the "
            "requests of each system, which only the test t compares with a baseline; leave out "
            f"{' and '.join(wrong)}"
        )
    return not wrong


@dataclass(frozen=True)
class OnlineRatios:
    """The online metrics of a log, while what requests add to them is kept in `UNITS`.

    Attributes:
        log: The log.
        spec: What is asked of it.
        options: What is asked of the comparison.
        terms: The metrics.
        by: The segments that are compared too.
        unit: What is independent.
        carried: Other columns of segments that requests keep.
        statements: What ran.
        covered: Metric -> of how many units something is known from before, and of how many not.
        units: The table of all requests.
        table: The table whose rows are compared.
    """

    log: CleanLog
    spec: Spec
    options: Options
    terms: tuple[OnlineTerm, ...]
    by: tuple[str, ...]
    unit: Unit
    carried: tuple[str, ...] = ()
    statements: list[str] = field(default_factory=list)
    covered: dict[str, tuple[int, int]] = field(default_factory=dict)
    units: str = UNITS
    table: str = UNITS

    @property
    def test(self) -> str:
        """The name of the test."""
        return f"{WELCH}, covariate" if self.options.before else WELCH

    @property
    def step(self) -> Step:
        """The table of what each request adds."""
        by = dict.fromkeys((*self.by, *self.carried))
        return Step(UNITS, units(self.log.tables, self.spec.title, self.terms, [*by], self.unit))

    def rows(self, baseline: str, systems: Sequence[str], system: str = "") -> list[dict[str, Any]]:
        """The rows of a comparison before p-values are adjusted.

        Args:
            baseline: The system, or the period, that the others are compared with.
            systems: These.
            system: The system that the periods are of.
        """
        before = self.options.before
        sides = Sides(
            [term for term in self.terms if term.measure.quantile is None],
            baseline,
            tuple(systems),
            self.table,
            self.by,
            self.options.dates,
            system,
            paired=False,
            translation=self.log.engine.translation,
            days=self.compared if self.table == self.units else "",
            earlier=Earlier(self.units, before.condition) if before else None,
        )
        moments_by_key = self._moments(sides)
        if spread := [term for term in self.terms if term.measure.quantile is not None]:
            engine, compared = self.log.engine, (baseline, *systems)
            step = linearised(spread, self.table, compared, sides.days, engine)
            self.statements.append(step.statement(engine.translation))
            with step.there(engine):
                linear = replace(sides, terms=spread, units=LINEAR, by=(), days="", earlier=None)
                moments_by_key |= self._moments(linear)
        return [
            self._row(
                term, (name, *segment), baseline, moments_by_key.get((name, *segment, *term.key))
            )
            for segment in of_segments(moments_by_key)
            for name in systems
            for term in self.terms
            if segment == (ALL, ALL) or term.measure.quantile is None
        ]

    def _moments(self, sides: Sides) -> dict[Key, SampleMoments]:
        """The sums of ratios, a few at a time."""
        moments_by_key: dict[Key, SampleMoments] = {}
        for first in range(0, len(sides.terms), PART):
            part = replace(sides, terms=sides.terms[first : first + PART])
            centres = self._read(part.centres())
            moments_by_key |= part.read(self._read(part.query()), centres)
        return moments_by_key

    @property
    def compared(self) -> str:
        """What rows of `UNITS` meet that are not of before; empty of all."""
        before, days = self.options.before, self.options.days
        if before is None:
            return ""
        return Period("", days).condition if days else before.outside

    def comparison(self) -> Comparison:
        """The comparison of online metrics alone.

        Raises:
            SpecError: If there are fewer than two systems.
            InputError: If nothing is left of the log, or a system that is named has no request.
        """
        where = f" where {self.compared}" if self.compared else ""
        named_systems = self.log.engine.rows(f"select distinct system from {UNITS}{where}")
        existing = sorted(str(system) for (system,) in named_systems)
        if not existing:
            raise self.log.absence()
        options, notes = self.options, list[str]()
        if options.dates:
            replace(options, baseline=None).check_systems(existing)
            baseline, systems, system = period_sides(options, existing)
        else:
            (baseline, *others), notes = system_sides(existing, options, self.spec.baseline)
            systems, system = tuple(others), ""
        rows = self.rows(baseline, systems, system)
        findings.decided(rows, options, findings.counted(self.spec))
        return Comparison(
            rows=tuple(row for row in rows if options.lists_slices or row["segment_name"] == ALL),
            baseline=baseline,
            level=options.level,
            margin=options.margin,
            test=self.test,
            interval=findings.interval_name(options.test),
            cluster=None if self.unit.is_request else self.unit.names[0],
            notes=(*self.log.value_notes, *notes, *self.notes()),
            executed_sql=self.text(),
            worse_slices=(),
            counted=findings.counted(self.spec),
            preset=self.spec.preset,
        )

    def notes(self) -> Iterator[str]:
        """What is independent, and how the error of a ratio is computed."""
        unit, plural = self.unit.names
        names = {
            is_spread: ", ".join(
                str(term.measure)
                for term in self.terms
                if (term.measure.quantile is not None) == is_spread
            )
            for is_spread in (False, True)
        }
        alone = "" if self.unit.is_request else f" (a request of no known {unit} counts as one)"
        relative = "those of relative differences by that of the logarithm"
        if names[False]:
            yield (
                f"{names[False]}: ratios of sums over {plural}{alone}, with intervals by the delta "
                f"method; {relative}"
            )
        if names[True]:
            alike = [
                *["adjusted for no covariate"] * self.options.has_covariate,
                *["of all requests alone, not of segments"] * bool(self.by),
            ]
            yield (
                f"{names[True]}: quantiles over requests, with intervals by the delta method over "
                f"{plural}{alone}, where order statistics tell the density; {relative}"
                f"{'; ' * bool(alike)}{', '.join(alike)}"
            )
        yield from self.of_covariate()

    def of_covariate(self) -> Iterator[str]:
        """Of how many units something is known from before, if that is a covariate."""
        if self.options.before and self.covered:
            covered, n_units = min(self.covered.values(), key=lambda pair: pair[0] / pair[1])
            every = many(n_units, *self.unit.names)
            yield (
                f"covariate {self.options.before.name}: {covered:,} of {every} have one; the "
                "others count as its mean. Values and differences are adjusted for it"
            )

    def text(self) -> str:
        """The statements that ran, in order."""
        translation = self.log.engine.translation
        step = self.step
        statements = [step.statement(translation), *self.statements, step.drop(translation)]
        return "\n\n".join(f"{translation.text(text).rstrip()};" for text in statements) + "\n"

    def _read(self, query: tuple[list[Stage], str]) -> list[dict[str, Any]]:
        text = with_stages(*query)
        self.statements.append(text)
        return self.log.engine.records(text)

    def _row(
        self,
        term: OnlineTerm,
        place: tuple[str, str, str],
        baseline: str,
        moments: SampleMoments | None,
    ) -> dict[str, Any]:
        system, name, value = place
        row = {
            "metric": str(term.measure),
            "name": term.measure.name,
            "direction": SIGNS[term.measure.metric.better],
            "system": system,
            "baseline": baseline,
            "segment_name": name,
            "segment_value": value,
            "test": self.test,
            **findings.NOTHING,
        }
        if moments is None:
            return row
        if self.options.before and name == ALL:
            self.covered[str(term.measure)] = moments.n_covered, moments.n_drawn
        n_units = many(moments.n_drawn, *self.unit.names)
        return row | findings.numbers(moments) | findings.by_t(moments) | {"units": n_units}


@contextmanager
def online_ratios(
    log: CleanLog, spec: Spec, options: Options, carried: tuple[str, ...] = ()
) -> Iterator[OnlineRatios]:
    """The online metrics of a spec, while the block lasts; the arguments are as of `ratios_of`."""
    ratios = ratios_of(log, spec, options, carried)
    with keeping(log.engine, [ratios.step]):
        yield ratios


def ratios_of(
    log: CleanLog, spec: Spec, options: Options, carried: tuple[str, ...] = ()
) -> OnlineRatios:
    """The online metrics of a spec, before what requests add to them is kept.

    Args:
        log: The log.
        spec: What is asked of it.
        options: What is asked of the comparison.
        carried: Other columns of segments that requests keep.

    Raises:
        SpecError: If the log lacks what a metric, a segment or a cluster needs.
    """
    tables = log.tables
    names = tables.names.segments
    by = tuple(name for name in options.by if identifier(name) in names)
    asked_names = options.by if options.lists_slices and not spec.metrics else ()
    lacks = [name for name in (*asked_names, *carried) if identifier(name) not in names]
    if lacks:
        segments = tables.clicks.columns.segments if tables.clicks.columns else ()
        raise SpecError(
            f"{unknown('segment of the log', lacks[0], segments)}; name its column in "
            "columns.segments of the log"
        )
    terms = tuple(OnlineTerm(online(text)) for text in dict.fromkeys(spec.online))
    spread = [str(term.measure) for term in terms if term.measure.quantile is not None]
    if spread and options.dates:
        raise SpecError(
            f"{', '.join(spread)}: quantiles are compared between systems, not between days; leave "
            "out the dates, or the quantile"
        )
    unit = Unit.of(tables, options.cluster or spec.cluster)
    if options.before and unit.names[0] in ("session", "request"):
        raise SpecError(
            f"covariate {options.before.name}: a {unit.names[0]} is not there before; name the "
            "column of users as columns.user of the log"
        )
    return OnlineRatios(log, spec, options, terms, by, unit, carried)
