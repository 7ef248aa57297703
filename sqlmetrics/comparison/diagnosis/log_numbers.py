"""The numbers of a click log for a diagnosis: metrics of its lists beside online ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.online import Online, online
from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.online_sums import PER_REQUEST, per_request
from sqlmetrics.comparison.diagnosis.rules import ONLINE
from sqlmetrics.comparison.findings import comparable
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.statements import chosen_if, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.execution import USUALLY, executing, result_of
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.jobs.days import on_days
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import Script
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, with_stages
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums
from sqlmetrics.tables.table import printable
from sqlmetrics.tables.tabular import Row

# Systems that served different requests: means and rates by sums, and how far they are apart.
#
# A metric of lists is a mean over requests, an online one a sum over a sum: both are ratios. What
# is
# summed first is a user, whose requests are alike; where users are not known, a request. The error
# of a ratio is that of the linearised ratio of sums (delta method), and two systems are
# independent.


@dataclass(frozen=True)
class Ratio:
    """A mean or rate of one system, by sums over its users.

    Attributes:
        n: Users that have a part in it; requests of nobody known.
        top: The sum of the numerators.
        bottom: The sum of the denominators.
        top2: The sum of the squares of the users' numerators; `bottom2` likewise.
        bottom2: See `top2`.
        products: The sum of the users' numerators times their denominators.
    """

    n: int
    top: float
    bottom: float
    top2: float
    bottom2: float
    products: float

    @property
    def value(self) -> float | None:
        """The ratio; None where there is nothing below the line."""
        return self.top / self.bottom if self.bottom else None

    @property
    def estimate(self) -> Estimate | None:
        """The ratio with its error; None where there is nothing below the line."""
        if not self.bottom:
            return None
        squares = {"x2": self.top2, "xw": self.products, "w2": self.bottom2}
        return ratio_of_sums(self.value, self.n, w=self.bottom, **squares)


@dataclass(frozen=True)
class RequestSums:
    """The queries of the ratios of each system, one row a system and value of a segment.

    Attributes:
        tables: The stages of the log.
        spec: What is asked of it.
        plan: The plan of the evaluation of its lists; None without a metric of them.
        segment: The segment; empty for all requests.
    """

    tables: ClickTables
    spec: Spec
    plan: Plan | None = None
    segment: str = ""

    @property
    def tells_online(self) -> bool:
        """Whether the log itself has the segment."""
        return not self.segment or identifier(self.segment) in self.tables.names.segments

    def online(self, metrics: Sequence[Online]) -> tuple[list[Stage], str]:
        """The sums of online metrics.

        Args:
            metrics: The metrics.
        """
        sums = [column for metric in metrics for column in metric.columns()]
        names = [metric.column for metric in metrics]
        return self._summed(list(per_request(self.tables, metrics)), "per_request", sums, names)

    def offline(self, measures: Sequence[Measure]) -> tuple[list[Stage], str]:
        """The sums of metrics of lists, of which `per_query` has the values.

        Args:
            measures: The metrics; each has a value for a request.
        """
        if self.plan is None:
            raise ValueError("a metric of lists has a plan")
        sums = []
        for measure in measures:
            flags = self.plan.needs.population(self.plan.spec.settings(measure).measure)
            only = " and ".join(f"{flag} = 1" for flag in flags)
            value = chosen_if(only, measure.column) if only else measure.column
            sums.append(Column(f"coalesce(sum({value}), 0e0)", f"{measure.column}_numerator"))
            sums.append(Column(f"1e0 * count({value})", f"{measure.column}_denominator"))
        return self._summed([], "per_query", sums, [measure.column for measure in measures])

    def _summed(
        self, stages: list[Stage], rows: str, sums: Sequence[Column], names: Sequence[str]
    ) -> tuple[list[Stage], str]:
        stage_names = [stage.name for stage in stages]
        request_stages = ("requests",) if self.tables.requests is not None else ()
        users = [
            stage
            for stage in self.tables.stages(*request_stages, "clean_impressions")
            if stage.name not in stage_names
        ]
        all_stages = [*stages, *users, self._users(), self._units(rows)]
        translation = self.tables.names.at
        sums = [replace(column, sql=translation.exact(column.sql)) for column in sums]
        about = "one row per system and user: the sums over its requests"
        places = [*["segment_value"] * bool(self.segment), "served_by"]
        keys = [*places, "unit_user", "unit_request"]
        all_stages.append(sums_stage("user_sums", about, keys, sums, "request_units"))
        about = "one row per system: sums, and sums of squares, over its users"
        columns = [column for name in names for column in _moments(name, translation)]
        all_stages.append(sums_stage("ratios", about, places, columns, "user_sums"))
        return all_stages, "select *\nfrom ratios"

    def _segment_value(self, rows: str) -> Iterator[Column]:
        """The value of the segment, of a row of requests."""
        if self.segment:
            column = identifier(self.segment) if rows == PER_REQUEST else segment(self.segment)
            value = f"coalesce(cast({rows}.{column} as varchar), {literal(UNKNOWN)})"
            yield Column(value, "segment_value")

    def _users(self) -> Stage:
        """The user of each request, if it is known."""
        view = {"of": self.tables.of, "requests": self.tables.requests is not None}
        return Stage("request_users", "comparison/request_users", view)

    def _units(self, rows: str) -> Stage:
        """The rows of requests, each with its user."""
        key = "query_id" if rows == "per_query" else "request_id"
        request = f"cast({rows}.{key} as varchar)"
        of_lists = self.plan is not None and "system" in self.plan.shape.keys
        has_system = rows == "per_request" or of_lists
        title = literal(self.spec.title)
        alone = f"case when request_users.user_id is null then {request} end"
        view = {
            "about": "one row per request: its columns and its user",
            "columns": [
                f"{rows}.*",
                *self._segment_value(rows),
                Column(f"coalesce({rows}.system, {title})" if has_system else title, "served_by"),
                Column("request_users.user_id", "unit_user"),
                Column(alone, "unit_request"),
            ],
            "from": rows,
            "joins": {"request_users": [f"request_users.request_id = {request}"]},
            "kind": "left",
        }
        return Stage("request_units", "comparison/joins", view)


def _moments(name: str, translation: Translation) -> Iterator[Column]:
    """What a ratio's value and error are made of."""
    top, bottom = f"{name}_numerator", f"{name}_denominator"
    parts = {
        "n": f"case when {bottom} <> 0 then 1 else 0 end",
        "top": top,
        "bottom": bottom,
        "top2": f"{top} * {top}",
        "bottom2": f"{bottom} * {bottom}",
        "products": f"{top} * {bottom}",
    }
    for part, text in parts.items():
        yield Column(translation.total(text), f"{name}_{part}")


def read(row: Mapping[str, Any], name: str) -> Ratio:
    """The sums of a metric, of a row of a query.

    Args:
        row: The row of a system.
        name: The metric's column.
    """
    parts = {part: float(row[f"{name}_{part}"]) for part in _PARTS}
    return Ratio(int(row[f"{name}_n"]), **parts)


_PARTS = ("top", "bottom", "top2", "bottom2", "products")


Ratios = Mapping[str, Mapping[str, Ratio]]
"""System -> metric -> its sums."""
SegmentValue = tuple[str, str]
"""A segment and its value."""

LISTS = "ndcg@10"
"""The metric of lists that a line of online ones begins with."""

NOTE = (
    "each request has one system, so a change is the difference of two means, with Welch's "
    "interval over {units}"
)
USERS = "users (a request of no known user counts as one)"
"""What is independent where the log names users."""


@dataclass(frozen=True)
class LogNumbers:
    """What a click log says of its systems.

    Attributes:
        result: The metrics of the lists that were shown, with labels from clicks; None where
            none is asked for.
        online: System -> online metric -> its value.
        rows: How far systems are from the baseline, over all requests and in each segment: rows
            of a comparison, of which `decide` makes the intervals.
        counted: What `n` of a row counts: `users`, or `requests` where no column names users.
        notes: What should be known of that.
    """

    result: Result | None
    online: Mapping[str, Mapping[str, float]]
    rows: Sequence[dict[str, Any]]
    counted: str
    notes: tuple[str, ...]

    @property
    def moved(self) -> dict[tuple[str, str], dict[str, Row]]:
        """(System, baseline) -> metric -> its row, over all requests."""
        moved: dict[tuple[str, str], dict[str, Row]] = {}
        for row in self.rows:
            if row["segment_name"] == ALL:
                moved.setdefault((row["system"], row["baseline"]), {})[row["metric"]] = row
        return moved


def log_numbers(
    spec: Spec, options: Options, engine: Database, *, check: bool | float
) -> LogNumbers:
    """The numbers of a spec's click log.

    Args:
        spec: A spec with clicks.
        options: Which metrics, systems, days and baseline.
        engine: Where the log is.
        check: Whether to look for bad input first.

    Raises:
        SqlmetricsError: As `evaluate_clicks` does.
    """
    dated_spec = on_days(spec.having(metrics=spec.in_our_words(options.metrics)), options.days).spec
    if dated_spec.clicks is None:
        raise SpecError("the spec has no clicks")
    with cleaned_log(dated_spec.clicks, engine, names=named_in(dated_spec)) as log:
        if check and not dated_spec.metrics:
            log.check_segments(dated_spec.by)
        return numbers_of(log, dated_spec, options, check=check)


def numbers_of(
    log: CleanLog,
    spec: Spec,
    options: Options,
    *,
    check: bool | float,
    confidence: float | None = None,
) -> LogNumbers:
    """The numbers of a log that is cleaned.

    Args:
        log: The log.
        spec: What is asked of it; its segments are compared, too.
        options: Which systems and baseline.
        check: Whether to look for bad input first.
        confidence: The coverage of the intervals of the lists' metrics; None for none.

    Raises:
        SqlmetricsError: As `evaluate_clicks` does.
    """
    engine = log.engine
    online_metrics = [online(name) for name in dict.fromkeys([*spec.online, *ONLINE])]
    online_metrics = [
        metric
        for metric in online_metrics
        if metric.quantile is None
        and metric.metric.needs in ("", "requests", "time", "amount", "dwell")
    ]
    result, rates = None, _Rates(log, spec, online_metrics)
    if not spec.metrics:
        ratios, signs = rates.read()
    else:
        with log.views() as shown_lists:
            tables = replace(opened(spec, engine), shown_lists=shown_lists)
            plan = make_plan(spec, tables, moments=confidence is not None)
            with (
                executing(plan, engine, check=check, per_query=False, execution=USUALLY) as script,
                engine.reading(),
            ):
                result = result_of(plan, script, engine, check=check, confidence=confidence)
                ratios, signs = replace(rates, plan=plan, script=script).read()
    of_all = ratios[ALL, ALL]
    baseline, systems, notes = _sides(of_all, options, spec.baseline)
    counted = "users" if "user" in log.tables.names.impressions else "requests"
    if systems:
        notes = (NOTE.format(units=USERS if counted == "users" else counted), *notes)
    rows = [
        _row(segment_key, (system, baseline), name, ratios_by_system, sign)
        for segment_key, ratios_by_system in ratios.items()
        for system in systems
        for name, sign in signs.items()
        if all(name in ratios_by_system.get(side, {}) for side in (system, baseline))
    ]
    notes = (*log.label_notes, *notes, *_lines(of_all))
    return LogNumbers(result, _values(of_all), rows, counted, notes)


@dataclass(frozen=True)
class _Rates:
    """The ratios of a log, while its tables are there.

    Attributes:
        log: The log.
        spec: What is asked of it.
        online_measures: Its online metrics.
        plan: The plan of the evaluation of its lists; None without a metric of them.
        script: How `per_query` is read; likewise.
    """

    log: CleanLog
    spec: Spec
    online_measures: Sequence[Online]
    plan: Plan | None = None
    script: Script | None = None

    def read(self) -> tuple[dict[SegmentValue, Ratios], dict[str, int]]:
        """Segment and its value -> the ratios there; and metric -> its direction."""
        measures = comparable(self.plan)[0] if self.plan else []
        ratios: dict[SegmentValue, dict[str, dict[str, Ratio]]] = {(ALL, ALL): {}}
        for column in ("", *self.spec.by):
            sums = RequestSums(self.log.tables, self.spec, self.plan, column)
            queries = []
            if sums.tells_online:
                names = {metric.column: str(metric) for metric in self.online_measures}
                queries.append((sums.online(self.online_measures), names))
            if self.plan:
                names = {measure.column: str(measure) for measure in measures}
                queries.append((sums.offline(measures), names))
            for query, names in queries:
                for row in self._rows(*query):
                    segment_key = (column, str(row["segment_value"])) if column else (ALL, ALL)
                    of_system = ratios.setdefault(segment_key, {}).setdefault(
                        str(row["served_by"]), {}
                    )
                    of_system |= {name: read(row, column) for column, name in names.items()}
        signs = {str(metric): SIGNS[metric.metric.better] for metric in self.online_measures}
        signs |= {str(measure): SIGNS[measure.metric.better] for measure in measures}
        return dict(ratios), signs

    def _rows(self, stages: Sequence[Stage], last: str) -> list[dict[str, Any]]:
        read = self.script.stages if self.script else ()
        by_name = {stage.name: stage for stage in [*read, *stages]}
        return self.log.engine.records(with_stages(by_name.values(), last))


def _values(ratios: Ratios) -> dict[str, dict[str, float]]:
    """System -> online metric -> its value, where it has one."""
    return {
        system: {
            name: value
            for name in ONLINE
            if name in of_system and (value := of_system[name].value) is not None
        }
        for system, of_system in ratios.items()
    }


def _lines(ratios: Ratios) -> Iterator[str]:
    """The metrics of lists beside the online ones, a line a system."""
    for system, of_system in sorted(ratios.items()):
        values = [
            f"{name} {value:.4f}"
            for name in (LISTS, *ONLINE)
            if name in of_system and (value := of_system[name].value) is not None
        ]
        yield f"{printable(system)}: {', '.join(values)}"


def _sides(
    ratios: Ratios, options: Options, usual: str | None
) -> tuple[str, list[str], tuple[str, ...]]:
    """The baseline, the systems beside it, and what should be said of that."""
    options.check_systems(ratios)
    existing = sorted(ratios)
    named_baseline = options.baseline or next(iter(options.systems), None)
    if not (named_baseline or existing):
        return "", [], ()
    by_name, rule = usual_baseline(existing)
    baseline = named_baseline or (usual if usual and usual in ratios else by_name)
    systems = [system for system in options.systems or existing if system != baseline]
    return (
        baseline,
        systems,
        (rule,) if systems and not named_baseline and baseline != usual else (),
    )


def _row(
    segment_key: SegmentValue, sides: tuple[str, str], metric: str, ratios: Ratios, sign: int
) -> dict[str, Any]:
    """A difference as a comparison has it."""
    system, baseline = sides
    new, old = (ratios[side][metric] for side in sides)
    statistic = new.estimate.minus(old.estimate) if new.estimate and old.estimate else None
    return {
        "metric": metric,
        "system": system,
        "baseline": baseline,
        "segment_name": segment_key[0],
        "segment_value": segment_key[1],
        "value": new.value,
        "baseline_value": old.value,
        "difference": statistic.value if statistic else None,
        "statistic": statistic,
        "p_value": statistic.p_value() if statistic else None,
        "p_adjusted": None,
        "n": new.n,
        "direction": sign,
        "test": "Welch",
        **dict.fromkeys(("wins", "ties", "losses")),
    }
