"""The fact table against its thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from operator import ge, le
from types import MappingProxyType
from typing import Any

from sqlmetrics.catalog.dimension import direction
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import CheckError, NoDataError, SpecError, did_you_mean, unknown
from sqlmetrics.evaluation.report.failure import HAS_ROW, Change, Failure
from sqlmetrics.jobs.checks.completeness import (
    Calendar,
    calendar,
    lost_queries,
    newly_paused,
    paused_systems,
    repeated_keys,
    since,
)
from sqlmetrics.jobs.checks.uncertainty import (
    KEYS,
    DaysSoFar,
    ExperimentLook,
    change_between,
    of_change,
    of_row,
)
from sqlmetrics.jobs.days import zone_of_days
from sqlmetrics.jobs.definitions import (
    RetiredMetric,
    hashes,
    other_definitions,
    read_metric_key,
    retired_metrics,
)
from sqlmetrics.jobs.schema import columns_of, targets
from sqlmetrics.plan.summary import ALL, NO_DATE
from sqlmetrics.spec.days import Days, as_sql, day_of, today_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.threshold import ALWAYS, EVERY_VALUE, PREVIOUS, Threshold
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.tables.table import Table, printable, value_text
from sqlmetrics.tables.tabular import ArrowTables, Row, Tabular, arrow_tables, kinds_of

FAIL_ON: Mapping[str, tuple[str, ...]] = {"failed": ("FAILED",), "warn": ("FAILED", "warn")}
"""What may raise an error -> the statuses that do."""

AGE = "age in days"
"""What a check of `max_age` looks at."""


@dataclass(frozen=True)
class Verdict:
    """Whether one thing holds that was asked.

    Attributes:
        what: The metric, or what is asked of the table.
        rule: What was asked, like `min 0.42`.
        system: The system; empty for the table as a whole.
        segment: The segment, like `country=DE`; empty for all queries.
        day: The day that was looked at; None if there is none.
        value: What there is; None if there is nothing.
        compared: What it was compared with, for a drop or a rise.
        holds: Whether it holds.
        note: Why it does not, or what else should be known.
        severity: `fail`, or `warn` if it does not fail where it does not hold.
        failure: What is told of it if it does not hold, with the numbers behind; its text is the
            same for all recipients.
    """

    what: str
    rule: str
    system: str
    segment: str
    day: date | None
    value: float | None
    compared: float | None
    holds: bool
    note: str = ""
    severity: str = "fail"
    failure: Failure | None = None

    @property
    def status(self) -> str:
        """`ok`, `warn` or `FAILED`."""
        if self.holds:
            return "ok"
        return "warn" if self.severity == "warn" else "FAILED"

    @property
    def is_of_gap(self) -> bool:
        """Whether it tells of a day that has no row."""
        return self.what == "rows" and not self.value

    @property
    def is_of_age(self) -> bool:
        """Whether it tells how old the last day is, which may be another than is checked."""
        return self.what == AGE

    @property
    def is_pause(self) -> bool:
        """Whether it warns that a system has no rows on the day, which no check asks."""
        return self.what == "rows" and self.rule == HAS_ROW

    def to_dict(self) -> dict[str, Any]:
        """It as values that JSON has."""
        values = {name: value for name, value in vars(self).items() if name != "failure"}
        failure = self.failure.to_dict() if self.failure else None
        return values | {"day": self.day and str(self.day), "failure": failure}

    @property
    def name(self) -> str:
        """What it is about, on one line."""
        parts = (self.what, self.rule, self.system, self.segment)
        return " ".join(part for part in parts if part)


class Verdicts(Tabular, tuple[Verdict, ...]):
    """The verdicts of a check, in the order in which they are read; it prints as a table."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict a verdict."""
        return [verdict.to_dict() for verdict in self]

    def _arrow_tables(self) -> ArrowTables:
        rows = [vars(verdict) | {"status": verdict.status} for verdict in self]
        return arrow_tables({"verdicts": rows}, {"verdicts": kinds_of(Verdict, status="string")})

    def text(self) -> str:
        """One line a verdict, those that fail first."""
        from sqlmetrics.jobs.checks.report import table

        return table(self)

    def _blocks(self) -> Iterator[Table]:
        from sqlmetrics.jobs.checks.report import verdict_table

        yield verdict_table(self)

    def raise_if(self, fail_on: str = "failed") -> None:
        """Raise an error if one does not hold.

        Args:
            fail_on: `failed`, or `warn`, which is failed or only warned of.

        Raises:
            CheckError: If there is one; its text has the numbers of each.
            SpecError: If `fail_on` is none of these.
        """
        if fail_on not in FAIL_ON:
            raise SpecError(unknown("status to fail on", fail_on, FAIL_ON))
        statuses = FAIL_ON[fail_on]
        if failures := [verdict.failure for verdict in self if verdict.status in statuses]:
            raise CheckError(failures, self)


def verdicts(
    spec: Spec,
    engine: Database,
    days: Sequence[Days] = (),
    today: date | None = None,
    *,
    gaps: bool = True,
) -> list[Verdict]:
    """Look at the fact table of a spec.

    Args:
        spec: What is asked, with its `output` and `checks`.
        engine: Where the fact table is.
        days: Ranges of which each day is looked at; by default the last one that the table has
            of the spec.
        today: From which day the age of the last one is counted; by default the current one, in
            the zone of the spec's days.
        gaps: Whether days of these without a row do not hold; else they are passed over.

    Returns:
        Day by day what holds and what does not; first the days that are not there.

    Raises:
        SpecError: If the spec has no checks, or one of a metric that it has not.
        NoDataError: If the fact table is not there, or has no rows of the spec.
    """
    facts = targets(spec)["facts"]
    now = today or today_in(zone_of_days(spec))
    with engine, engine.reading():
        check_thresholds(spec, retired_metrics(spec, engine))
        if not columns_of(facts, engine):
            raise NoDataError(f"there is no table {facts}; write it with sqlmetrics run")
        source = f"from {relation(facts)}\nwhere spec = {literal(spec.title)}"
        checked_days = calendar(engine, source, days)
        if checked_days is None:
            raise NoDataError(
                f"{facts} has no rows of {spec.title}; write them with sqlmetrics run"
            )
        outcomes = list(_of_gaps(spec, checked_days)) if gaps else []
        outcomes += _of_keys(spec, engine, checked_days)
        for day in checked_days.days:
            look = _Look(spec, engine, source, day, _changes(spec, engine, day))
            experiment = ExperimentLook.of(spec, engine, day)
            last = checked_days.last if day == checked_days.days[-1] else None
            of_day = [
                replace(verdict, severity=threshold.severity)
                for threshold in spec.checks
                for verdict in (
                    *_of_age(threshold, last, now),
                    *look.at(threshold),
                    *_of_experiment(threshold, experiment),
                )
            ]
            outcomes += [*look.pauses(of_day), *of_day]
        return [_explained(verdict, spec) for verdict in outcomes]


def _explained(verdict: Verdict, spec: Spec) -> Verdict:
    """With what is told of it if it does not hold, and without a day that the data have not."""
    if str(verdict.day) == NO_DATE:
        verdict = replace(verdict, day=None)
    if verdict.holds:
        return verdict
    failure = replace(
        verdict.failure or Failure(verdict.rule, "" if verdict.is_pause else verdict.what),
        rule=verdict.rule,
        spec=spec.title,
        when=f"on {verdict.day}" if verdict.day else "",
        system=verdict.system,
        segment=verdict.segment,
        value=verdict.value,
        note=verdict.note,
    )
    return replace(verdict, failure=failure)


def check_thresholds(
    spec: Spec, retired: Mapping[str, RetiredMetric] = MappingProxyType({})
) -> None:
    """Look whether a spec has checks, and of metrics that it has.

    Args:
        spec: What is asked, with its `checks`.
        retired: Name -> a metric that it asks for no more.

    Raises:
        SpecError: If not.
    """
    if not spec.checks:
        raise SpecError("the spec has no checks; add: checks: [{metric: ndcg@10, min: 0.4}]")
    for threshold in spec.checks:
        _check_metric(threshold, spec, retired)


def _of_age(threshold: Threshold, last: date | None, today: date) -> Iterator[Verdict]:
    """How old the table is: told once, whatever days are looked at."""
    if threshold.max_age is not None and last is not None:
        age = (today - last).days
        yield _of_table(AGE, f"max {threshold.max_age}", last, age, age <= threshold.max_age)


def _of_experiment(threshold: Threshold, look: ExperimentLook | None) -> Iterator[Verdict]:
    """What there is to say of a check of the experiment."""
    blank = {"system": "", "segment": "", "value": None, "compared": None}
    for outcome in look.at(threshold) if look else ():
        yield Verdict(day=look.day if look else None, **{**blank, **outcome})


def _of_gaps(spec: Spec, checked_days: Calendar) -> Iterator[Verdict]:
    """Days that were asked for and have no row: a warning only if no check can fail."""
    severity = "fail" if any(threshold.severity == "fail" for threshold in spec.checks) else "warn"
    for gap in checked_days.gaps:
        day = gap.start or checked_days.last
        when = "on this day" if gap.end == day + timedelta(1) else str(gap)
        note = f"no row of {spec.title} {when}; the last day is {checked_days.last}"
        verdict = _of_table("rows", "min 1", day, 0, is_met=False)
        yield replace(verdict, note=note, severity=severity)


def _of_keys(spec: Spec, engine: Database, checked_days: Calendar) -> Iterator[Verdict]:
    """Keys that have two rows, which every sum counts twice; nothing where there are none."""
    for table, day, n_keys in repeated_keys(spec, engine, checked_days):
        verdict = _of_table(f"repeated keys of {table}", "max 0", day, n_keys, is_met=False)
        note = "two runs or another program wrote them; run computes the day again"
        yield replace(verdict, note=note)


def _of_table(subject: str, rule: str, day: date, value: float, is_met: bool) -> Verdict:
    return Verdict(subject, rule, "", "", day, value, None, is_met)


def _check_metric(threshold: Threshold, spec: Spec, retired: Mapping[str, RetiredMetric]) -> None:
    if threshold.metric is None:
        return
    known_metrics = {at_cutoff(metric, k) for metric, k, _ in hashes(spec)}
    metric, k = read_metric_key(threshold.metric, spec)
    name = at_cutoff(metric, k)
    if name in retired:
        raise SpecError(
            f"checks: the spec no longer has {name}, which is {retired[name]}; remove the check, "
            "or add the metric again"
        )
    if name not in known_metrics:
        raise SpecError(f"checks: {unknown('metric of the spec', threshold.metric, known_metrics)}")


_DEFINED = ("metric", "k", "segment_name", "definition_hash")


def _changes(spec: Spec, engine: Database, day: date) -> dict[tuple[Any, ...], str]:
    """Rows of a day by another definition than the spec has now -> what has changed since."""
    return {
        definition.key: "computed by another definition "
        f"({definition.changes or 'it has changed since'}); run computes it again"
        for definition in other_definitions(spec, engine, [f"metric_date = {as_sql(day)}"])
    }


SystemSegment = tuple[str, str, str]
"""A system, and the name and value of a segment."""


class _Look:
    """The rows of a day, and of the last day before it that a system and segment has."""

    def __init__(
        self,
        spec: Spec,
        engine: Database,
        source: str,
        day: date,
        changes: Mapping[tuple[str, int, str, str], str],
    ) -> None:
        self.spec, self.engine, self.source, self.day = spec, engine, source, day
        self.changes = changes
        self.rows = self._rows(self.day)
        columns = self.rows[0].keys() if self.rows else ()
        self._days = DaysSoFar(engine, self.source, self.day, columns, spec.baseline)
        self._so_far: dict[date | None, dict[tuple[Any, ...], Row]] = {}

    @cached_property
    def days_before(self) -> dict[SystemSegment, date]:
        """The last day before, of each system and segment: as the view of daily changes has it."""
        keys = "system, segment_name, segment_value"
        rows = self.engine.rows(
            f"select {keys}, max(metric_date) as day {self.source} "
            f"and metric_date < {as_sql(self.day)} group by {keys}"
        )
        return {tuple(key): day_of(last_day) for *key, last_day in rows}

    @cached_property
    def rows_before(self) -> list[Row]:
        """The rows of those days."""
        days = {self.days_before.get(_place_of(row)) for row in self.rows}
        return [row for day in days if day for row in self._rows(day)]

    def _rows(self, day: date) -> list[Row]:
        condition = f" and metric_date = {as_sql(day)}"
        return [*self.engine.records(f"select * {self.source}{condition}")]

    def at(self, threshold: Threshold) -> Iterator[Verdict]:
        """What there is to say of one threshold."""
        if threshold.min_rows is not None:
            rows = len(self.rows)
            rule = f"min {threshold.min_rows}"
            yield _of_table("rows", rule, self.day, rows, rows >= threshold.min_rows)
        if threshold.metric is not None:
            yield from self._of_metric(threshold)

    def pauses(self, verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
        """A warning of each system that pauses and that no verdict of the day names.

        A check of one system, or none of any metric, does not mean the others.
        """
        if not any(check.metric is not None and check.system is None for check in self.spec.checks):
            return
        last_days: dict[str, date] = {}
        for (system, *_), last in self.days_before.items():
            last_days[system] = max(last, last_days.get(system, last))
        failed_systems: set[str] = set()
        for verdict in verdicts:  # of one system, or of several that pause
            is_name = verdict.system in last_days
            failed_systems |= {verdict.system} if is_name else {*verdict.system.split(", ")}
        present = {str(row["system"]) for row in self.rows} | failed_systems
        for system, last in newly_paused(last_days, present, self.day).items():
            note = f"{since({system: last})}; a check with system: {printable(system)} would fail"
            verdict = Verdict("rows", HAS_ROW, system, "", self.day, None, None, False, note)
            yield replace(verdict, severity="warn")

    def _of_metric(self, threshold: Threshold) -> Iterator[Verdict]:
        rows = [row for row in self.rows if self._is_meant(row, threshold)]
        rows.sort(key=lambda row: (row["system"], row["segment_value"]))
        if threshold.against != PREVIOUS:
            rows = [row for row in rows if row["system"] != threshold.against]
        if not rows:
            paused = paused_systems(threshold, self.rows, self.source, self.day, self.engine)
            where = threshold.system or ", ".join(paused)
            yield Verdict(
                str(threshold.metric),
                HAS_ROW,
                where,
                "".join(f"{name}={value_text(value)}" for name, value in threshold.segment.items()),
                self.day,
                None,
                None,
                False,
                since(paused) or self._unknown(threshold) or "the day has rows, but not this one",
            )
        for row in rows:
            yield from self._of_row(row, threshold)

    def _unknown(self, threshold: Threshold) -> str:
        """What a check names that no row of the day has, with the names there are."""
        names: list[tuple[str, str, set[str]]] = []
        if threshold.system is not None:
            names.append(("system", threshold.system, {row["system"] for row in self.rows}))
        for segment, value in threshold.segment.items():
            segments = {row["segment_name"] for row in self.rows} - {ALL}
            names.append(("segment", segment, segments))
            rows = [row for row in self.rows if row["segment_name"] == segment]
            names.append((segment, value, {EVERY_VALUE, *(row["segment_value"] for row in rows)}))
        for kind, name, existing_names in names:
            if name not in existing_names:
                return unknown(kind, name, existing_names - {EVERY_VALUE})
        return ""

    def _is_meant(self, row: Row, threshold: Threshold) -> bool:
        metric, k = read_metric_key(str(threshold.metric), self.spec)
        if (row["metric"], row["k"]) != (metric, k):
            return False
        ((name, value),) = threshold.segment.items() or ((ALL, ALL),)
        in_segment = row["segment_name"] == name and value in (EVERY_VALUE, row["segment_value"])
        return in_segment and threshold.system in (None, row["system"])

    def _of_row(self, row: Row, threshold: Threshold) -> Iterator[Verdict]:
        for verdict in self._limits(row, threshold):
            yield verdict if verdict.holds else self._explained(verdict, row, threshold)

    def _explained(self, verdict: Verdict, row: Row, threshold: Threshold) -> Verdict:
        """With the numbers behind it: of a limit, beside the day before."""
        failure = Failure(verdict.rule, verdict.what, n=int(row["n_queries"]))
        against = (
            threshold if verdict.compared is not None else threshold.model_copy(update=_TO_PREVIOUS)
        )
        base = self._other(row, against)
        if row["value"] is None or base is None or base["value"] is None:
            return replace(verdict, failure=failure)
        if base["definition_hash"] != row["definition_hash"]:
            return replace(verdict, failure=failure)
        is_of_day = against.against == PREVIOUS
        failure = replace(
            failure,
            against=str(day_of(base["metric_date"])) if is_of_day else base["system"],
            compared=base["value"] if verdict.compared is None else verdict.compared,
            change=self._change(verdict, row, base, threshold),
            lost=lost_queries(self.spec, self.engine, row, base),
        )
        return replace(verdict, failure=failure)

    def _change(self, verdict: Verdict, row: Row, base: Row, threshold: Threshold) -> Change:
        """The change with its interval: that which the check looked at, if it has one."""
        if verdict.compared is None or threshold.confidence != ALWAYS:
            return change_between(row, base, threshold.level)
        estimate = of_change(row, base, threshold, self._until(row, threshold))
        if not estimate.half_width:
            return Change(estimate.change)
        low, high = estimate.change - estimate.half_width, estimate.change + estimate.half_width
        return Change(estimate.change, low, high, threshold.level)

    def _limits(self, row: Row, threshold: Threshold) -> Iterator[Verdict]:
        """Whether each limit holds."""
        verdict = self._open_verdict(row, threshold)
        if (changed := self.changes.get(tuple(row[name] for name in _DEFINED))) is not None:
            yield replace(verdict, rule="definition", note=changed)
            return
        estimate = of_row(row, threshold, self._until(row, threshold))
        value, half_width = estimate.value, estimate.half_width
        interval_note = "the row has no value" if value is None else estimate.note
        if value is not None:
            verdict = replace(verdict, value=value)
        for name, limit, meets, margin in (
            ("min", threshold.min, ge, half_width),
            ("max", threshold.max, le, -half_width),
        ):
            if limit is not None:
                yield replace(
                    verdict,
                    rule=f"{name} {limit:g}{threshold.certainty}",
                    holds=value is not None and meets(value + margin, limit),
                    note=interval_note,
                )
        if threshold.min_queries is not None:
            n = row["n_queries"]
            note = f"{n:,} queries"
            rule = f"min_queries {threshold.min_queries}"
            yield replace(verdict, rule=rule, holds=n >= threshold.min_queries, note=note)
        for name in _CHANGES:
            if (limit := getattr(threshold, name)) is not None:
                rule = f"{name} {limit:g} against {threshold.against}{threshold.certainty}"
                yield self._changed(
                    replace(self._open_verdict(row, threshold), rule=rule), row, threshold, name
                )

    def _open_verdict(self, row: Row, threshold: Threshold) -> Verdict:
        """A verdict on a row, with what is still to be said left open."""
        segment = row["segment_name"]
        where = "" if segment == ALL else f"{segment}={value_text(row['segment_value'])}"
        base = self._other(row, threshold) if _compares(threshold) else None
        compared = base["value"] if base else None
        metric = str(threshold.metric)
        return Verdict(metric, "", row["system"], where, self.day, row["value"], compared, False)

    def _until(self, row: Row, threshold: Threshold) -> Row | None:
        """The row's sums of all days so far, if the check asks for them."""
        if threshold.confidence != ALWAYS:
            return None
        if threshold.since not in self._so_far:
            self._so_far[threshold.since] = self._days.rows(threshold.since)
        return self._so_far[threshold.since].get(tuple(row[name] for name in KEYS))

    def _other(self, row: Row, threshold: Threshold) -> Row | None:
        """The row that it is compared with."""
        same = ["segment_name", "segment_value", "metric", "k"]
        if threshold.against == PREVIOUS:
            before = self.days_before.get(_place_of(row))
            rows = [r for r in self.rows_before if day_of(r["metric_date"]) == before]
            same = [*same, "system"]
        else:
            rows = [
                candidate for candidate in self.rows if candidate["system"] == threshold.against
            ]
        return next((r for r in rows if all(r[name] == row[name] for name in same)), None)

    def _changed(self, verdict: Verdict, row: Row, threshold: Threshold, rule: str) -> Verdict:
        """Whether a value became worse, or rose, no further than it may."""
        base = self._other(row, threshold)
        if base is None or base["value"] is None:
            is_first = threshold.against == PREVIOUS
            systems = {row["system"] for row in self.rows}
            near = (
                did_you_mean(threshold.against, systems) if threshold.against not in systems else ""
            )
            lacks = f"{threshold.against} has no row on this day{near}"
            note = "the first day has no day before it" if is_first else lacks
            return replace(verdict, holds=is_first, note=note)
        if row["value"] is None:
            return replace(verdict, note="the row has no value")
        if base["definition_hash"] != row["definition_hash"]:
            return replace(
                verdict,
                note="the other row has another definition of the metric, so the two cannot be "
                "compared",
            )
        estimate = of_change(row, base, threshold, self._until(row, threshold))
        rises = rule == "max_rise"
        turned = not rises and direction(str(row["metric"]), self.spec.measures) < 0
        change = estimate.change * (1 if rises or turned else -1)
        allowed = getattr(threshold, rule)
        if rule == "max_drop_pct":
            allowed *= abs(estimate.compared or 0.0) / 100
        notes = ["lower is better, so a rise counts"] * turned
        note = "; ".join(filter(None, [*notes, _gap(row, base), estimate.note]))
        verdict = replace(verdict, value=estimate.value, compared=estimate.compared)
        return replace(verdict, holds=change - estimate.half_width <= allowed, note=note)


def _place_of(row: Row) -> SystemSegment:
    return row["system"], row["segment_name"], row["segment_value"]


def _gap(row: Row, base: Row) -> str:
    """Which day it was compared with, if not with the one before; else nothing."""
    day, before = day_of(row["metric_date"]), day_of(base["metric_date"])
    return f"the day before is {before}" if day - before > timedelta(1) else ""


_TO_PREVIOUS = {"against": PREVIOUS}
_CHANGES = ("max_drop", "max_drop_pct", "max_rise")


def _compares(threshold: Threshold) -> bool:
    return any(getattr(threshold, name) is not None for name in _CHANGES)
