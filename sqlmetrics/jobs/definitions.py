"""A table holds one definition of a metric: days of another one are not put beside it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from sqlmetrics.catalog.counterfactual import EstimatedMetric, estimated_metric, is_estimated
from sqlmetrics.catalog.dimension import MetricRow, metric_row
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.catalog.online import Online, is_online, online
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.jobs.days import NO_DAY
from sqlmetrics.jobs.schema import columns_of, targets
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.days import Days, Ends, day_of
from sqlmetrics.spec.definition import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation

REFRESH = (
    "--full-refresh computes all days again that the source still has; days that it lacks are "
    "only deleted if --allow-loss says how many"
)
"""What a message says that leads there."""


def hashes(spec: Spec) -> Iterator[tuple[str, int, str]]:
    """Metric, cutoff (0 for none) and definition_hash of all that a spec asks for."""
    for metric in list_metrics(spec):
        yield metric.name, metric.k or 0, spec.definition_hash(metric)


def read_metric_key(text: str, spec: Spec) -> tuple[str, int]:
    """A metric that a spec asks for, as the fact table has it: its name and cutoff, 0 for none.

    Raises:
        SpecError: If the text is no metric.
    """
    measure: Measure | Online | EstimatedMetric
    if is_estimated(text):
        measure = estimated_metric(text)
    else:
        measure = online(text) if is_online(text) else spec.measure(text)
    return measure.name, measure.k or 0


def list_metrics(spec: Spec) -> list[Measure | Online | EstimatedMetric]:
    """All that a spec asks for: metrics of lists, those of the log itself, and estimates."""
    return [*spec.measures, *map(online, spec.online), *spec.estimated]


def described(spec: Spec) -> list[MetricRow]:
    """What is to be known of each, in that order."""
    return [*map(metric_row, list_metrics(spec))]


def these(metrics: Iterable[tuple[str, int]]) -> str:
    """What the rows of metrics meet, of their texts and cutoffs."""
    conditions = [f"(metric = {literal(metric)} and k = {k})" for metric, k in metrics]
    return "\n    or ".join(conditions)


def segment_hashes(spec: Spec) -> Iterator[tuple[str, str, int, str]]:
    """The same of segments that are conditions: segment, metric, cutoff and definition_hash."""
    for segment in conditional(spec):
        for metric in list_metrics(spec):
            yield segment, metric.name, metric.k or 0, spec.definition_hash(metric, segment)


def conditional(spec: Spec) -> list[str]:
    """The segments of a spec that `segments` defines; others are columns."""
    return [segment for segment in spec.by if segment in spec.segments]


@dataclass(frozen=True)
class OtherDefinition:
    """Rows of a metric that another definition than the spec's made.

    Attributes:
        metric: Its name.
        k: The cutoff, 0 for none.
        segment: The name of the segment.
        hash: Their definition_hash.
        first: Their first day.
        last: Their last day.
        changes: What has changed since, like `ties was id_desc, is id_asc`; empty if the table
            of definitions does not say.
    """

    metric: str
    k: int
    segment: str
    hash: str
    first: date
    last: date
    changes: str = ""

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What such rows have in common."""
        return self.metric, self.k, self.segment, self.hash


def other_definitions(
    spec: Spec, engine: Database, conditions: Sequence[str] = ()
) -> list[OtherDefinition]:
    """The rows of a spec that the definitions it has now did not make.

    Metrics and segments that the spec asks for no more are left out.

    Args:
        spec: What is asked now.
        engine: Where the fact table is.
        conditions: What rows meet that are looked at, as SQL; none for all of the spec.
    """
    where = " and ".join([f"spec = {literal(spec.title)}", *conditions])
    rows = engine.rows(
        "select metric, k, segment_name, definition_hash, min(metric_date), max(metric_date)\n"
        f"from {relation(targets(spec)['facts'])}\nwhere {where}\n"
        "group by metric, k, segment_name, definition_hash"
    )
    metrics = {(metric.name, metric.k or 0): metric for metric in list_metrics(spec)}
    segments = (ALL, *spec.by)
    definitions = [
        OtherDefinition(metric, int(k), segment, text, day_of(first), day_of(last))
        for metric, k, segment, text, first, last in sorted(rows)
        if (metric, int(k)) in metrics
        and segment in segments
        and text != spec.definition_hash(metrics[metric, int(k)], segment)
    ]
    return list(_with_changes(spec, engine, definitions))


@dataclass(frozen=True)
class RetiredMetric:
    """A metric that a spec asks for no more, and whose rows stay.

    Attributes:
        name: With its cutoff.
        last: The last day that has it.
        since: The first day of the spec after that; None if there is none yet.
    """

    name: str
    last: date
    since: date | None

    def __str__(self) -> str:
        return f"retired since {self.since}" if self.since else f"retired after {self.last}"


@dataclass(frozen=True)
class DefinedDays:
    """Days of a metric that were computed by one definition.

    Attributes:
        metric: With its cutoff.
        segment: Of which segment; `all` also stands for those that are columns.
        hash: The definition_hash.
        first: The first of them in the fact table; None if there is none yet.
        last: The last one.
        definition: All that decides the numbers; empty if the table of definitions has no row.
        changes: How it differs from the one before.
        retired: The metric, if the spec asks for it no more.
    """

    metric: str
    segment: str
    hash: str
    first: date | None
    last: date | None
    definition: Mapping[str, Any]
    changes: Sequence[str] = ()
    retired: RetiredMetric | None = None


def definition_history(spec: Spec, engine: Database) -> list[DefinedDays]:
    """By which definitions a spec's metrics were computed, and are to be from now on.

    Metrics that the spec asks for no more come last.

    Args:
        spec: What is asked.
        engine: Where its tables are, if it has any.
    """
    now = {
        (at_cutoff(metric.name, metric.k or 0), segment): (
            spec.definition_hash(metric, segment),
            _as_stored(spec.definition(metric, segment)),
        )
        for metric in list_metrics(spec)
        for segment in (ALL, *conditional(spec))
    }
    days: dict[tuple[str, str], list[DefinedDays]] = {key: [] for key in now}
    for defined in _defined_days(spec, engine):
        days.setdefault((defined.metric, defined.segment), []).append(defined)
    retired = retired_metrics(spec, engine)
    history: list[DefinedDays] = []
    for key, parts in days.items():
        hashes = [part.hash for part in parts]
        if key in now and now[key][0] not in hashes:
            parts.append(DefinedDays(*key, now[key][0], None, None, now[key][1]))
        for before, part in zip([None, *parts], parts, strict=False):
            definition = part.definition or (now[key][1] if key in now else {})
            changes = differences(before.definition, part.definition) if before else ()
            defined = replace(part, definition=definition, changes=tuple(changes))
            history.append(replace(defined, retired=retired.get(part.metric)))
    return history


def _defined_days(spec: Spec, engine: Database) -> Iterator[DefinedDays]:
    """Those of the fact table in their order; none if there is no table."""
    if spec.output is None or not columns_of(targets(spec)["facts"], engine):
        return
    segments = ", ".join(map(literal, (ALL, *conditional(spec))))
    rows = engine.rows(
        "select metric, k, segment_name, definition_hash, min(metric_date), max(metric_date)\n"
        f"from {relation(targets(spec)['facts'])}\n"
        f"where spec = {literal(spec.title)} and segment_name in ({segments})\n"
        "group by metric, k, segment_name, definition_hash"
    )
    definition_by_hash = _stored_definitions(spec, engine, {text for *_, text, _, _ in rows})
    for metric, k, segment, text, first, last in sorted(rows, key=lambda row: str(row[4])):
        name, definition = at_cutoff(metric, int(k)), definition_by_hash.get(text, {})
        yield DefinedDays(name, segment, text, day_of(first), day_of(last), definition)


def _stored_definitions(
    spec: Spec, engine: Database, hashes: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """What the table of definitions says of some hashes."""
    table = targets(spec)["definitions"]
    if not hashes or not columns_of(table, engine):
        return {}
    texts = ", ".join(map(literal, sorted(hashes)))
    rows = engine.rows(
        f"select definition_hash, conventions from {relation(table)}\n"
        f"where definition_hash in ({texts})"
    )
    return {text: json.loads(conventions) for text, conventions in rows}


def _as_stored(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A definition as the table has it: without tuples, and with texts for what JSON lacks."""
    stored: dict[str, Any] = json.loads(json.dumps(definition, default=str))
    return stored


def check_definitions(spec: Spec, ends: Ends, engine: Database) -> None:
    """Look whether days that stay were computed by another definition.

    Args:
        spec: What is asked now.
        ends: Of the days that are replaced.
        engine: Where the fact table is.

    Raises:
        SpecError: If they were; each metric is named, with the days that it has, and what has
            changed.
    """
    day_conditions = ends.of("metric_date")
    if not day_conditions:
        return
    definitions = other_definitions(spec, engine, [f"not ({' and '.join(day_conditions)})"])
    if definitions:
        raise SpecError(
            f"the table {targets(spec)['facts']} holds other days by another definition of "
            f"{summary_of(definitions)}; {REFRESH}"
        )


def check_daily(spec: Spec, ends: Ends, engine: Database) -> None:
    """Look whether a click log is stored both as a whole and by day: views would add up both.

    Args:
        spec: What is asked now.
        ends: Of the days that are replaced.
        engine: Where the fact table is.

    Raises:
        SpecError: If rows of the other kind would stay beside those of this run.
    """
    day_conditions = ends.of("metric_date")
    if spec.clicks is None or not day_conditions:
        return
    table, no_date = targets(spec)["facts"], date.fromisoformat(NO_DATE)
    is_whole = ends.days == Days(start=no_date, end=no_date + timedelta(1))
    ((first, last, run_id),) = engine.rows(
        f"select min(metric_date), max(metric_date), max(run_id)\nfrom {relation(table)}\n"
        f"where spec = {literal(spec.title)}\n"
        f"    and metric_date {'<>' if is_whole else '='} {NO_DAY}"
    )
    if first is None:
        return
    if is_whole:
        raise SpecError(
            f"{table} holds {spec.title} by day, from {day_of(first)} to {day_of(last)}. Without "
            f"days a click log is evaluated as a whole, in rows with the day {NO_DATE}, and views "
            "would count each request twice. Name the days by --start and --end, --backfill or "
            "--lookback, or set clicks: daily: true"
        )
    raise SpecError(
        f"{table} holds {spec.title} as a whole, in rows with the day {NO_DATE}, and views would "
        "count each request twice. Take back the run that wrote them (sqlmetrics restore SPEC "
        f"{run_id[:8]}), or replace them by --full-refresh --allow-loss 1, which needs clicks: "
        "daily: true"
    )


def note_of_others(spec: Spec, engine: Database) -> str:
    """What a table says by other definitions than the spec has now; empty if nothing."""
    if spec.output is None or not columns_of(targets(spec)["facts"], engine):
        return ""
    definitions = other_definitions(spec, engine)
    if not definitions:
        return ""
    return (
        f"{targets(spec)['facts']} holds another definition of "
        f"{summary_of(definitions)}; run {REFRESH}"
    )


def retired_metrics(spec: Spec, engine: Database) -> dict[str, RetiredMetric]:
    """Name -> a metric that a spec asks for no more, and whose rows stay.

    Args:
        spec: What is asked.
        engine: Where its tables are, if it has any.
    """
    if spec.output is None or not columns_of(targets(spec)["facts"], engine):
        return {}
    source = f"from {relation(targets(spec)['facts'])}\nwhere spec = {literal(spec.title)}"
    rows = engine.rows(f"select metric, k, max(metric_date) {source}\ngroup by metric, k")
    now = {(metric, k) for metric, k, _ in hashes(spec)}
    last_days = {
        at_cutoff(metric, int(k)): day_of(last)
        for metric, k, last in sorted(rows)
        if (metric, int(k)) not in now
    }
    all_days = f"select distinct metric_date {source}"
    days = sorted(day_of(day) for (day,) in engine.rows(all_days)) if last_days else []
    return {
        name: RetiredMetric(name, last, next((day for day in days if day > last), None))
        for name, last in last_days.items()
    }


def note_of_retired(spec: Spec, ends: Ends, engine: Database) -> str:
    """Which metrics keep rows though a spec asks for them no more; empty if none does."""
    retired = retired_metrics(spec, engine)
    if not retired:
        return ""
    where = " and ".join([f"spec = {literal(spec.title)}", *ends.of("metric_date")])
    rows = engine.rows(
        "select metric, k, count(distinct metric_date)\n"
        f"from {relation(targets(spec)['facts'])}\nwhere {where}\ngroup by metric, k"
    )
    n_days = {at_cutoff(metric, int(k)): int(days) for metric, k, days in sorted(rows)}
    note = [
        f"{name} ({n_days[name]} day{'s' * (n_days[name] != 1)}, {metric})"
        for name, metric in retired.items()
        if name in n_days
    ]
    keep = f"metrics that are no longer in the spec keep their rows: {', '.join(note)}"
    return keep if note else ""


def note_of_files(spec: Spec, engine: Database) -> str:
    """Which metrics of other specs in the table have a name of this spec's, and another file.

    Args:
        spec: What is asked.
        engine: Where its tables are, if it has any.

    Returns:
        A sentence; empty if there is none.
    """
    facts = targets(spec)["facts"]
    measures = {
        (measure.name, measure.k or 0): measure
        for measure in spec.measures
        if MetricFiles.of(measure).metrics
    }
    if not measures or not columns_of(facts, engine):
        return ""
    rows = engine.rows(
        f"select distinct spec, metric, k, definition_hash\nfrom {relation(facts)}\n"
        f"where spec <> {literal(spec.title)} and segment_name = '{ALL}'\n"
        f"    and ({these(measures)})"
    )
    definition_by_hash = _stored_definitions(spec, engine, {text for *_, text in rows})
    metrics = {}
    for other_spec, metric, k, text in sorted(rows):
        definition = _as_stored(spec.definition(measures[metric, int(k)]))
        changes = differences(definition_by_hash.get(text, {}), definition)
        if any(change.partition(" ")[0].split(".")[-1] == "file" for change in changes):
            metrics[at_cutoff(metric, int(k))] = shortened(other_spec, 60)
    names = ", ".join(f"{metric} of {other_spec}" for metric, other_spec in metrics.items())
    note = f"{facts} has metrics of the same name and another file: {names}; read it spec by spec"
    return note if metrics else ""


def note_of_days_that_stay(spec: Spec, ends: Ends, engine: Database) -> str:
    """Which days keep rows of which the source has nothing; empty if none does."""
    facts = targets(spec)["facts"]
    if not ends.only or not columns_of(facts, engine):
        return ""
    (only,) = ends.of("metric_date")[-1:]
    all_ends = replace(ends, only=())
    where = [f"spec = {literal(spec.title)}", *all_ends.of("metric_date"), f"not {only}"]
    rows = engine.rows(
        f"select distinct metric_date from {relation(facts)}\nwhere {' and '.join(where)}"
    )
    days = sorted(day_of(day) for (day,) in rows)
    if not days:
        return ""
    n_days = f"{len(days):,} day{'s' * (len(days) != 1)}"
    return (
        f"{n_days} of which the source has nothing keep their rows (from {days[0]} to {days[-1]})"
    )


def summary_of(definitions: Sequence[OtherDefinition]) -> str:
    """Each metric with the days that another definition made, and what has changed since."""
    days: dict[str, tuple[date, date]] = {}
    for definition in definitions:
        name = at_cutoff(definition.metric, definition.k)
        first, last = days.get(name, (definition.first, definition.last))
        days[name] = min(first, definition.first), max(last, definition.last)
    metrics = ", ".join(f"{name} (from {first} to {last})" for name, (first, last) in days.items())
    changes = "; ".join(
        dict.fromkeys(definition.changes for definition in definitions if definition.changes)
    )
    return f"{metrics}: {changes or 'conventions or parameters have changed since'}"


def _with_changes(
    spec: Spec, engine: Database, definitions: Sequence[OtherDefinition]
) -> Iterator[OtherDefinition]:
    before = _stored_definitions(spec, engine, {outdated.hash for outdated in definitions})
    now = {(metric.name, metric.k or 0): metric for metric in list_metrics(spec)}
    for outdated in definitions:
        definition = _as_stored(spec.definition(now[outdated.metric, outdated.k], outdated.segment))
        changes = differences(before[outdated.hash], definition) if outdated.hash in before else ()
        yield replace(outdated, changes=", ".join(changes))


def readable(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a person: what is stored as pairs by names, without those that are empty.

    >>> readable({"time_zone": [["labels", ""], ["rankings", "UTC"]], "rel": 1})
    {'time_zone': {'rankings': 'UTC'}, 'rel': 1}
    """
    zones = definition.get("time_zone")
    if not isinstance(zones, list | tuple):
        return dict(definition)
    return {**definition, "time_zone": {table: zone for table, zone in zones if zone}}


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """What two definitions say differently, key by key.

    >>> [*differences({"ties": "id_asc", "rel": 1}, {"rel": 1, "where": {"labels": "x > 0"}})]
    ["ties was 'id_asc', is not given", "where.labels was not given, is 'x > 0'"]
    """
    before, now = readable(before), readable(now)
    for name in (*before, *(name for name in now if name not in before)):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if isinstance(old or {}, dict) and isinstance(new or {}, dict):
            yield from differences(old or {}, new or {}, f"{prefix}{name}.")
        else:
            words = ["not given" if value is None else repr(value) for value in (old, new)]
            yield f"{prefix}{name} was {words[0]}, is {words[1]}"
