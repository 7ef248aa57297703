"""How far numbers of a fact table may be off: their intervals, of a day or of all days so far."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.intervals import OWN, PAIRED, Ratio, estimate_of
from sqlmetrics.evaluation.report.failure import HAS_ROW, Change, Failure
from sqlmetrics.jobs.pooled_days import MAY_REPEAT
from sqlmetrics.jobs.schema import columns_of, targets
from sqlmetrics.spec.days import Days, as_sql
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.threshold import ALWAYS, PREVIOUS, PRIMARY, SAMPLE_RATIO, Threshold
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.stats import CONFIDENCE, estimate
from sqlmetrics.stats.estimate import Estimate
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    from sqlmetrics.spec.click_log import ClickExperiment

KEYS = ("system", "segment_name", "segment_value", "metric", "k", "definition_hash")

_SUMS = ("numerator", "denominator", "n_clusters", "sum_x2", "sum_xw", "sum_w2")
_PAIRED_SUMS = ("pair_clusters", "pair_w", "pair_w2", "sum_y", "sum_d", "sum_d2", "sum_dw")


@dataclass(frozen=True)
class CheckedValue:
    """A value, or a difference, and how far it may be off.

    Attributes:
        value: It; None if there is none.
        half_width: How far the interval goes to each side; 0 without one.
        note: What to say of it.
        compared: What a difference is from; None of a value.
        change: The difference from that.
    """

    value: float | None
    half_width: float = 0.0
    note: str = ""
    compared: float | None = None
    change: float = 0.0


@dataclass(frozen=True)
class DaysSoFar:
    """The days up to the one that is looked at, put together.

    Attributes:
        engine: Where the fact table is.
        source: `from` and `where` that choose the spec's rows.
        day: The day that is looked at.
        columns: Those of the table, which has sums of pairs once a spec has a baseline.
        baseline: Beside which the sums of pairs are; None without.
    """

    engine: Database
    source: str
    day: date
    columns: Collection[str]
    baseline: str | None

    def rows(self, since: date | None) -> dict[tuple[Any, ...], Row]:
        """Keys -> sums of the days that have them, with `n_days` and `first_day`."""
        totals = {name: f"sum({name})" for name in _SUMS} | {"may_repeat": f"max({MAY_REPEAT})"}
        if self.baseline is not None and "sum_d" in self.columns:
            is_same_baseline = (
                f"baseline = {literal(self.baseline)}"  # it may have been another one before
            )
            totals |= {n: f"sum(case when {is_same_baseline} then {n} end)" for n in _PAIRED_SUMS}
            totals["pair_days"] = f"count(case when {is_same_baseline} then sum_d2 end)"
        sums = ", ".join(f"{total} as {name}" for name, total in totals.items())
        first = f" and metric_date >= {as_sql(since)}" if since else ""
        rows = self.engine.table(
            f"select {', '.join(KEYS)}, count(*) as n_days, min(metric_date) as first_day, {sums} "
            f"{self.source} and metric_date <= {as_sql(self.day)}{first} and sum_x2 is not null "
            f"group by {', '.join(KEYS)}"
        ).to_pylist()
        return {tuple(row[name] for name in KEYS): _with_ratios(row) for row in rows}


def _with_ratios(row: dict[str, Any]) -> Row:
    """With the means that the sums give."""
    for mean, top in (("value", "numerator"), ("difference", "sum_d")):
        bottom = row.get({"value": OWN.w, "difference": PAIRED.w}[mean])
        row[mean] = row[top] / bottom if bottom and row.get(top) is not None else None
    return row


def of_row(row: Row, threshold: Threshold, so_far: Row | None) -> CheckedValue:
    """A value with the interval that a check asks for.

    Args:
        row: Of the day.
        threshold: The check.
        so_far: The same of all days so far, for `always`.
    """
    plain = CheckedValue(row["value"])
    if threshold.confidence is None:
        return plain
    if threshold.confidence != ALWAYS:
        return _with_interval(plain, _estimate(row).half_width(threshold.level))
    if so_far is None or so_far["value"] is None:
        return _with_interval(plain, None)
    days = CheckedValue(so_far["value"], note=_days(so_far))
    return _with_interval(days, _always_half_width(so_far, OWN))


def of_change(row: Row, base: Row, threshold: Threshold, so_far: Row | None) -> CheckedValue:
    """The difference of a value from what it is compared with.

    Args:
        row: Of the day.
        base: The row of the day before, or of a baseline system; both have a value.
        threshold: The check.
        so_far: The row's sums of all days so far, for `always`.
    """
    plain = CheckedValue(row["value"], 0.0, "", base["value"], row["value"] - base["value"])
    if threshold.confidence is None:
        return plain
    if threshold.against == PREVIOUS:
        return _of_days(plain, row, base, threshold, so_far)
    if threshold.confidence == ALWAYS:
        return _of_pairs_so_far(plain, so_far)
    if row.get("baseline") == threshold.against:
        half_width = estimate_of(row, PAIRED).half_width(threshold.level)
        if half_width is not None:
            return _with_interval(replace(plain, change=row["difference"]), half_width)
    return _apart(plain, row, base, threshold.level)


def change_between(row: Row, base: Row, confidence: float) -> Change:
    """How far one row is from another, with its interval, whatever a check asks for.

    Of the same queries where the row has the sums of pairs with the other one's system, else as
    if both were of different queries (Welch).

    Args:
        row: A row of the fact table with a value.
        base: What it is compared with, of the same day or of another one.
        confidence: The coverage of the interval.
    """
    is_paired = row.get("baseline") == base["system"] and row["metric_date"] == base["metric_date"]
    if is_paired and row.get(PAIRED.x2) is not None:
        estimate = estimate_of(row, PAIRED)
    else:
        estimate = _estimate(row).minus(_estimate(base))
    if not estimate.standard_error:
        return Change(estimate.value)
    low, high = estimate.interval(confidence)
    return Change(estimate.value, low, high, confidence, estimate.p_value())


def _of_days(
    plain: CheckedValue, row: Row, base: Row, threshold: Threshold, so_far: Row | None
) -> CheckedValue:
    """Of two days, whose queries are taken for different ones."""
    if threshold.confidence != ALWAYS:
        return _apart(plain, row, base, threshold.level)
    look = int(so_far["n_days"]) if so_far else 1
    checked = _apart(plain, row, base, estimate.alpha_spent(threshold.level, look))
    return replace(checked, note=f"{checked.note}, look {look}")


def _of_pairs_so_far(plain: CheckedValue, so_far: Row | None) -> CheckedValue:
    if so_far is None or so_far.get("difference") is None:
        return _with_interval(plain, None)
    change, before = so_far["difference"], so_far["sum_y"] / so_far["pair_w"]
    days = CheckedValue(before + change, 0.0, _days(so_far), before, change)
    return _with_interval(days, _always_half_width(so_far, PAIRED))


def _apart(plain: CheckedValue, row: Row, base: Row, confidence: float) -> CheckedValue:
    """As if both were of different queries."""
    half_widths = [_estimate(side).half_width(confidence) for side in (row, base)]
    known_widths = [half_width for half_width in half_widths if half_width is not None]
    half_width = math.hypot(*known_widths)
    checked = _with_interval(plain, half_width if len(known_widths) == len(half_widths) else None)
    return replace(checked, half_width=half_width)


def _with_interval(checked: CheckedValue, half_width: float | None) -> CheckedValue:
    """With an interval and a note of it, or that there is none."""
    text = f"± {half_width:.4f}" if half_width else ""
    interval = "no interval" if half_width is None else text
    note = ", ".join(filter(None, (interval, checked.note)))
    return replace(checked, half_width=half_width or 0.0, note=note)


def _days(so_far: Row) -> str:
    n = so_far["n_days"]
    return f"{n:,} days since {so_far['first_day']}" if n > 1 else "1 day"


def _always_half_width(row: Row, ratio: Ratio) -> float | None:
    """The always-valid interval of days together to each side; None where there is none.

    Queries that may come again on each day are no new evidence: see `jobs.pooled_days`.
    """
    if row[ratio.n] is None or row[ratio.w] is None:
        return None
    days = row["pair_days"] if ratio is PAIRED else row["n_days"]
    copies = 1 if row.get("may_repeat") == 0 else days
    units = {ratio.n: row[ratio.n] // copies, ratio.w: float(row[ratio.w]) / math.sqrt(copies)}
    return estimate_of({**row, **units}, ratio).half_width(CONFIDENCE, always=True)


def _estimate(row: Row) -> Estimate:
    """The value of a row; of a table that has no moments yet, where each query counted alike."""
    n, squares = row["n_queries"], row["sum_sq"]
    if row.get("sum_x2") is not None or squares is None or row["denominator"] != n:
        return estimate_of(row)
    same = {"n_clusters": n, "sum_x2": squares, "sum_xw": row["numerator"], "sum_w2": float(n)}
    return estimate_of({**row, **same})


# Checks on the experiment's table: guardrails, the primary metric, and the sample ratio.


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
        is_met = p is not None and p >= THRESHOLD
        return {
            "what": "sample ratio",
            "rule": f"min p {THRESHOLD:g}",
            "value": p,
            "holds": is_met,
            "note": "" if is_met else str(row["reason"]),
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
