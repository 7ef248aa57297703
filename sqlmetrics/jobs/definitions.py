"""A table holds one definition of a metric: days of another one are not put beside it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.catalog.counterfactual import EstimatedMetric, estimated_metric, is_estimated
from sqlmetrics.catalog.dimension import MetricRow, metric_row
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.catalog.online import Online, is_online, online
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.tables import targets
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation


def hashes(spec: Spec) -> Iterator[tuple[str, int, str]]:
    """Metric, cutoff (0 for none) and definition_hash of all that a spec asks for."""
    for one in asked(spec):
        yield one.name, one.k or 0, spec.definition_hash(one)


def named(text: str, spec: Spec) -> tuple[str, int]:
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


def asked(spec: Spec) -> list[Measure | Online | EstimatedMetric]:
    """All that a spec asks for: metrics of lists, those of the log itself, and estimates."""
    return [*spec.measures, *map(online, spec.online), *spec.estimated]


def described(spec: Spec) -> list[MetricRow]:
    """What is to be known of each, in that order."""
    return [*map(metric_row, asked(spec))]


def check_definitions(spec: Spec, ends: Ends, engine: Database) -> None:
    """Look whether days that stay were computed by another definition.

    Args:
        spec: What is asked now.
        ends: Of the days that are replaced.
        engine: Where the fact table is.

    Raises:
        SpecError: If they were; each metric is named, with the days that it has.
    """
    within = ends.of("metric_date")
    if not within:
        return
    rows = engine.rows(
        "select metric, k, definition_hash, min(metric_date), max(metric_date)\n"
        f"from {relation(targets(spec)['facts'])}\n"
        f"where spec = {literal(spec.title)} and not ({' and '.join(within)})\n"
        "group by metric, k, definition_hash"
    )
    now = {(metric, k): text for metric, k, text in hashes(spec)}
    other = [
        f"{at_cutoff(metric, k)} (from {first} to {last})"
        for metric, k, text, first, last in sorted(rows)
        if now.get((metric, int(k)), text) != text
    ]
    if other:
        raise SpecError(
            f"the table {targets(spec)['facts']} holds other days by another definition of "
            f"{', '.join(other)}: conventions or parameters have changed since; "
            "--full-refresh computes all days anew"
        )
