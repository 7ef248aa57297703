"""Online metrics of two systems: which is better, by how much, and whether that is real."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.online import Online, is_online, online
from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import SESSION
from sqlmetrics.clicks.online_sums import PER_REQUEST, check_has, per_request
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.design import system_sides
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import Period
from sqlmetrics.comparison.report import Comparison, number
from sqlmetrics.comparison.statements import chosen_if, columns_stage, sums_stage
from sqlmetrics.comparison.sums.moments import PART, Key, SampleMoments
from sqlmetrics.comparison.sums.samples import Earlier, Sides, of_segments, one_sided, period_sides
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.sql.template import double, identifier, literal
from sqlmetrics.tables.table import many

# What a request of a click log adds to each online metric, with its user, system and segments.

REQUESTS = ("query_id", "request_id")
"""What requests are called as clusters, beside their own column."""


@dataclass(frozen=True)
class OnlineTerm:
    """An online metric as a ratio of two columns; a request counts if its denominator is not 0.

    Attributes:
        measure: The metric.
    """

    measure: Online

    @property
    def column(self) -> str:
        """What its own columns begin with."""
        return self.measure.column

    @property
    def x(self) -> str:
        """The column of the numerator."""
        return f"{self.column}_numerator"

    @property
    def w(self) -> str:
        """The column of the denominator."""
        return f"{self.column}_denominator"

    @property
    def counted(self) -> str:
        """The column that is 1 where a request counts."""
        return f"{self.column}_n"

    @property
    def key(self) -> tuple[str, int]:
        """Its name and cutoff; 0 if it has none."""
        return self.measure.name, self.measure.k or 0

    @property
    def columns(self) -> Iterator[Column]:
        """These columns of a request."""
        numerator, denominator = self.measure.added
        yield Column(f"cast({numerator} as double)", self.x)
        yield Column(f"cast({denominator} as double)", self.w)
        yield Column(chosen_if(f"{denominator} > 0", "1", "0"), self.counted)


@dataclass(frozen=True)
class Unit:
    """What is independent: what was assigned to systems by lot.

    Attributes:
        sql: Its id in a row of requests; empty if it is the request.
        names: What it is called, one and several.
    """

    sql: str
    names: tuple[str, str]

    @property
    def is_request(self) -> bool:
        """Whether each request is independent."""
        return not self.sql

    @classmethod
    def of(cls, tables: ClickTables, cluster: str | None) -> Unit:
        """The users of a log, else its sessions, else its requests; or what a column names.

        Args:
            tables: The stages of the log.
            cluster: The column; None if nobody named one.

        Raises:
            SpecError: If the log has no such column.
        """
        columns = tables.clicks.columns
        user, session, request = (
            getattr(columns, role, None) for role in ("user", "session", "request")
        )
        if "user" in tables.names.impressions and cluster in (None, user, "user_id"):
            return cls("request_users.user_id", ("user", "users"))
        if tables.names.has_sessions and cluster in (None, session):
            return cls(f"{PER_REQUEST}.{SESSION}", ("session", "sessions"))
        if cluster in (None, request, *REQUESTS):
            return cls("", ("request", "requests"))
        if identifier(cluster) in tables.names.segments:
            return cls(f"{PER_REQUEST}.{identifier(cluster)}", (cluster, f"values of {cluster}"))
        segments = columns.segments if columns else ()
        names = [name for name in (user, session, request, *segments) if name]
        raise SpecError(
            f"{unknown('cluster of the log', cluster, names)}; name its column in "
            "columns.segments of the log"
        )


def units(
    tables: ClickTables, title: str, terms: Sequence[OnlineTerm], by: Sequence[str], unit: Unit
) -> str:
    """The select of one row per request.

    Args:
        tables: The stages of the log.
        title: The system of requests without one.
        terms: The metrics.
        by: The segments, each a column of the log.
        unit: What is independent.

    Raises:
        SpecError: If the log lacks what a metric needs.
    """
    measures = [term.measure for term in terms]
    check_has(tables, measures)
    stages = list(per_request(tables, measures))
    stage_names = {stage.name for stage in stages}
    requests = ("requests",) if tables.requests is not None else ()
    stages += [
        stage
        for stage in tables.stages(*requests, "clean_impressions")
        if stage.name not in stage_names
    ]
    of_users = {"of": tables.of, "requests": bool(requests)}
    stages.append(Stage("request_users", "comparison/request_users", of_users))
    request = f"cast({PER_REQUEST}.request_id as varchar)"
    columns = [
        Column(request, "request_id"),
        Column(f"cast({unit.sql or 'null'} as varchar)", "user_id"),
        Column(f"coalesce({PER_REQUEST}.system, {literal(title)})", "system"),
        *[Column(f"{PER_REQUEST}.day", "metric_date")] * tables.clicks.daily,
        *(_segment_column(name) for name in by),
        *(column for term in terms for column in term.columns),
    ]
    view = {
        "about": "one row per request: its user, and its part of each sum",
        "columns": columns,
        "from": PER_REQUEST,
        "joins": {"request_users": [f"request_users.request_id = {request}"]},
        "kind": "left",
    }
    stages.append(Stage("online_units", "comparison/joins", view))
    return with_stages(stages, "select *\nfrom online_units")


def _segment_column(name: str) -> Column:
    value = f"cast({PER_REQUEST}.{identifier(name)} as varchar)"
    return Column(f"coalesce({value}, {literal(UNKNOWN)})", segment(name))


# Quantiles of what requests have, as means of what each request moves them by.
#
# The quantile p of n values is the one in place p * n. Its error is that of the share of values up
# to
# it, over the density there (Bahadur 1966). The density is told by the order statistics at the ends
# of an interval of the share as of n independent requests; users are counted in the error of the
# share, since a mean over requests is compared by users (Deng, Knoblich and Lu, Applying the Delta
# Method in Metric Analytics, KDD 2018).

LINEAR = "sqlmetrics_quantile_units"
"""The table of requests with what each moves the quantiles by."""

REACH = 1.96
"""The order statistics that tell the density are so many standard errors of the share away."""


@dataclass(frozen=True)
class Quantile:
    """A quantile of the values of a system's requests.

    Attributes:
        value: The quantile.
        share: Of the values that are no larger.
        slope: How much larger it would be if the share were larger by 1: 1 over the density.
    """

    value: float
    share: float
    slope: float


def linearised(
    terms: Sequence[OnlineTerm], table: str, systems: Sequence[str], where: str, engine: Database
) -> Step:
    """The table of requests in which the mean of a term is its quantile.

    Args:
        terms: Those of quantiles.
        table: The requests.
        systems: Those that are compared.
        where: What its rows meet that are compared; empty of all.
        engine: Where they are.
    """
    chosen = f"system in ({', '.join(map(literal, systems))})"
    chosen += f"\n    and {where}" if where else ""
    columns = dict[str, object]()
    for term in terms:
        quantiles = dict(_quantiles(term, table, chosen, engine))
        columns[term.x] = Column("\n".join(_moved(term, quantiles)), term.x)
    kept = [columns.get(name, name) for name in engine.columns(table)]
    about = "requests with what each moves a quantile by"
    stages = [columns_stage("moved_units", about, kept, table, chosen)]
    return Step(LINEAR, with_stages(stages, "select *\nfrom moved_units"))


def _moved(term: OnlineTerm, quantiles: Mapping[str, Quantile]) -> Iterator[str]:
    """What a request moves the quantile of its system by, about the quantile; lines of SQL."""
    yield "case"
    yield f"    when {term.w} = 0 then 0e0"
    for system, quantile in quantiles.items():
        above = quantile.value + quantile.slope * quantile.share
        yield f"    when system = {literal(system)} and {term.x} <= {double(quantile.value)}"
        yield f"        then {double(above - quantile.slope)}"
        yield f"    when system = {literal(system)} then {double(above)}"
    yield "end"


def _quantiles(
    term: OnlineTerm, table: str, where: str, engine: Database
) -> Iterator[tuple[str, Quantile]]:
    """System -> the quantile of its requests."""
    p = term.measure.quantile or 0.0
    in_order = Window(["system"], [f"{term.x} asc"])
    numbered = [
        "system",
        Column(term.x, "spread"),
        Column(f"row_number() over {in_order}", "value_rank"),
        Column(f"count(*) over {in_order}", "n_up_to"),
        Column(f"1e0 * count(*) over {Window(['system'])}", "n"),
    ]
    middle = f"{double(p)} * n - 1e-9"
    reach = f"{double(REACH * math.sqrt(p * (1 - p)))} * sqrt(n)"
    places = {"at": middle, "low": f"{middle} - {reach}", "high": f"{middle} + {reach}"}
    placed = [
        *("system", "spread", "value_rank", "n_up_to", "n"),
        *(Column(_bounded(position), f"{name}_rank") for name, position in places.items()),
    ]
    ends = [
        *(Column(_at(name, "spread"), f"{name}_value") for name in places),
        Column(f"{_at('at', 'n_up_to')} / max(n)", "share"),
        Column(f"({_at('high', 'value_rank')} - {_at('low', 'value_rank')}) / max(n)", "span"),
    ]
    where = f"{where}\n    and {term.w} > 0"
    stages = [
        columns_stage("numbered", "values in order", numbered, table, where),
        columns_stage("placed", "where the quantile is, and the ends", placed, "numbered"),
        sums_stage("ends", "one row per system", ["system"], ends, "placed"),
    ]
    for row in engine.records(with_stages(stages, "select *\nfrom ends\norder by system")):
        height = row["high_value"] - row["low_value"]
        slope = height / row["span"] if row["span"] else 0.0
        yield str(row["system"]), Quantile(row["at_value"], row["share"], slope)


def _bounded(position: str) -> str:
    """A place among n, from the first to the last; the row in it is the first from there on."""
    return f"case when {position} < 1e0 then 1e0 when {position} > n then n else {position} end"


def _at(name: str, column: str) -> str:
    """A column of the row in that place."""
    is_in_place = f"value_rank >= {name}_rank and value_rank < {name}_rank + 1e0"
    return f"max(case when {is_in_place} then {column} end)"


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
        lacks: Notes of segments of which a side has nothing.
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
    lacks: list[str] = field(default_factory=list)
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
            with step.created_in(engine):
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
        lacks = one_sided(moments_by_key, sides.baseline, findings.counted(self.spec)[0])
        self.lacks.extend(lacks if self.options.lists_slices else ())
        return {key: means for key, means in moments_by_key.items() if means.is_defined}

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
            (baseline, *rivals), notes = system_sides(existing, options, self.spec.baseline)
            systems, system = tuple(rivals), ""
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
        yield from dict.fromkeys(self.lacks)

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
        cell: tuple[str, str, str],
        baseline: str,
        moments: SampleMoments | None,
    ) -> dict[str, Any]:
        system, name, value = cell
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


# Amounts of a few users are cut at a quantile, so that these few do not decide.

CUT = "sqlmetrics_winsorised_units"
"""The table of requests whose amounts are cut."""

NO_AMOUNT = (
    "winsorise cuts amounts of a click log, and no metric is of one; leave it out, or name "
    "revenue_per_request or average_order_value"
)

USER = "coalesce(user_id, request_id)"


@contextmanager
def winsorised(
    ratios: OnlineRatios, systems: Sequence[str], quantile: float | None
) -> Iterator[tuple[OnlineRatios, list[str]]]:
    """The same ratios where no user has a larger amount than a quantile of those above 0.

    The amounts of all requests of such a user shrink alike. The users of all systems together
    tell the quantile, an amount that one of them has: of n the one in place `quantile` * n.

    Args:
        ratios: The ratios.
        systems: Those that are compared; none for all.
        quantile: Between 0 and 1; None to cut nothing.

    Yields:
        The ratios, and what should be known.

    Raises:
        SpecError: If no metric is of an amount.
    """
    if quantile is None:
        yield ratios, []
        return
    amounts = [term for term in ratios.terms if term.measure.metric.needs == "amount"]
    terms = [term for term in amounts if term.measure.quantile is None]
    if not terms:
        raise SpecError(NO_AMOUNT)
    if not 0 < quantile < 1:
        raise SpecError(
            f"winsorise is a quantile above 0 and below 1, like 0.99; given {quantile:g}"
        )
    in_systems = f"system in ({', '.join(map(literal, systems))})" if systems else ""
    where = "\n    and ".join(filter(None, (in_systems, ratios.compared)))
    engine, notes, cuts = ratios.log.engine, list[str](), dict[str, Column]()
    for term in terms:
        for cap, n_below, n in engine.rows(_cap(term, where, quantile)):
            total = f"{term.column}_total"
            kept = f"case when {total} > {double(cap)} then {double(cap)} / {total} else 1e0 end"
            cuts[term.x] = Column(f"{term.x} * {kept}", term.x)
            notes.append(
                f"winsorised: {term.measure} of {n - n_below:,} of {many(n, *ratios.unit.names)} "
                f"with an amount counts as {number(cap)}, the quantile {quantile:g}"
            )
    step = Step(CUT, _cut(ratios, terms, cuts))
    ratios.statements.append(step.statement(engine.translation))
    with step.created_in(engine):
        yield replace(ratios, units=CUT, table=CUT), notes


def _cap(term: OnlineTerm, where: str, quantile: float) -> str:
    """The select of the quantile, of how many users have no more, and of how many there are."""
    unit = Column(USER, "unit_id")
    in_order = Window([], ["total asc"])
    columns = [
        "total",
        Column(f"row_number() over {in_order}", "value_rank"),
        Column(f"count(*) over {in_order}", "n_below"),
        Column("count(*) over ()", "n"),
    ]
    stages = [
        columns_stage("amounts", "amounts of requests", [unit, term.x], UNITS, where),
        sums_stage(
            "totals",
            "one row per user: the amount",
            ["unit_id"],
            [Column(f"sum({term.x})", "total")],
            "amounts",
        ),
        columns_stage("places", "amounts in order", columns, "totals", "total > 0"),
    ]
    at = f"{double(quantile)} * n"
    last = f"where value_rank >= {at}\n    and value_rank < {at} + 1e0"
    return with_stages(stages, f"select\n    total,\n    n_below,\n    n\nfrom places\n{last}")


def _cut(ratios: OnlineRatios, terms: Sequence[OnlineTerm], cuts: dict[str, Column]) -> str:
    """The select of the requests; days before are of another user, so to say."""
    before = [f"case when {ratios.compared} then 0 else 1 end"] if ratios.compared else []
    user = Window([USER, "system", *before])
    totals = [Column(f"sum({term.x}) over {user}", f"{term.column}_total") for term in terms]
    columns = [cuts.get(name, name) for name in ratios.log.engine.columns(UNITS)]
    stages = [
        columns_stage("user_totals", "each request with its user's amount", ["*", *totals], UNITS),
        columns_stage("cut_units", "each with its part of what counts", columns, "user_totals"),
    ]
    return with_stages(stages, "select *\nfrom cut_units")
