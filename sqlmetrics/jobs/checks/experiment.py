"""Checks on the experiment's table: guardrails, the primary metric, and the sample ratio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.report.failure import HAS_ROW, Change, Failure
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.spec.days import Days, as_sql
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.threshold import PRIMARY, SAMPLE_RATIO, Threshold
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    from sqlmetrics.spec.click_experiment import ClickExperiment


@dataclass(frozen=True)
class ExperimentLook:
    """The running totals of a day.

    Attributes:
        settings: The experiment.
        day: The day.
        rows: Of its variants and metrics; none if no run wrote any.
    """

    settings: ClickExperiment
    day: date
    rows: Sequence[Row]

    @classmethod
    def of(cls, spec: Spec, engine: Database, day: date) -> ExperimentLook | None:
        """Those of a spec; None where it asks for none."""
        settings = spec.clicks.experiment if spec.clicks else None
        if settings is None or not any(threshold.experiment for threshold in spec.checks):
            return None
        name, rows = targets(spec)["experiment"], list[dict[str, Any]]()
        if columns_of(name, engine):
            rows = engine.records(
                f"select *\nfrom {relation(name)}\nwhere spec = {literal(spec.title)}\n"
                f"    and metric_date = {as_sql(day)}\n    and span = 'running'\n"
                "order by system, role desc, metric, k"
            )
        return cls(settings, day, rows)

    def at(self, threshold: Threshold) -> Iterator[dict[str, Any]]:
        """What there is to say of a check, as fields of a verdict."""
        if threshold.experiment is None:
            return
        rows = [row for row in self.rows if threshold.system in (None, row["system"])]
        if not rows:
            yield self._absence(threshold)
        elif threshold.experiment == SAMPLE_RATIO:
            yield self._sample_ratio(rows[0])
        else:
            is_primary = threshold.experiment == PRIMARY
            for row in rows:
                if (row["role"] == PRIMARY) == is_primary:
                    yield self._loss(row)

    def _absence(self, threshold: Threshold) -> dict[str, Any]:
        """Of a day without a row: whether the experiment is on."""
        days = self.settings.days
        is_on = days is None or days.overlaps(Days(start=self.day, end=self.day + timedelta(1)))
        return {
            "what": f"experiment: {threshold.experiment}",
            "rule": HAS_ROW,
            "system": threshold.system or "",
            "holds": not is_on,
            "note": "run this day with sqlmetrics run" if is_on else f"the experiment is {days}",
        }

    def _sample_ratio(self, row: Row) -> dict[str, Any]:
        from sqlmetrics.clicks.analysis.experiment import THRESHOLD

        p = row["p_sample_ratio"]
        holds = p is not None and p >= THRESHOLD
        return {
            "what": "sample ratio",
            "rule": f"min p {THRESHOLD:g}",
            "value": p,
            "holds": holds,
            "note": "" if holds else str(row["reason"]),
        }

    def _loss(self, row: Row) -> dict[str, Any]:
        """Whether a metric lost no more than it may; where nobody may look, why."""
        settings = self.settings
        level = "always" if settings.looks == "any" else f"{settings.level:g}"
        control = row["control"]
        rule = f"max_drop_pct {row['max_drop_pct'] or 0:g} against {control}, confidence {level}"
        metric, state = at_cutoff(row["metric"], int(row["k"])), row["state"]
        barred = row["verdict"] == "not yet" and row["value"] is None
        failure = Failure(
            rule,
            metric,
            against=control,
            compared=row["control_value"],
            change=_change(row, settings.level),
            n=int(row["n_units"]),
            counted=("unit", "units"),
        )
        return {
            "what": metric,
            "rule": rule,
            "system": row["system"],
            "value": row["value"],
            "compared": row["control_value"],
            "holds": barred or state not in (None, "worse"),
            "note": state or str(row["reason"]),
            "failure": failure,
        }


def _change(row: Row, level: float) -> Change | None:
    """The relative difference with the interval that decides, as far from control's value."""
    ends = row["relative_low"], row["relative_high"]
    if row["relative"] is None or None in ends:
        return None
    scale = abs(row["control_value"])
    low, high = (scale * end for end in ends)
    return Change(row["difference"], low, high, level)
