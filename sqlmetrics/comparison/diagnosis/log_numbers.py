"""The numbers of a click log for a diagnosis: metrics of its lists beside online ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.comparison.diagnosis.ratios import Ratio, RequestSums, difference, read
from sqlmetrics.comparison.diagnosis.rules import ONLINE
from sqlmetrics.comparison.findings import comparable
from sqlmetrics.comparison.options import Options
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.execution import USUALLY
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.evaluation.run import executing, result_of
from sqlmetrics.jobs.days import on_days
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.script import Script
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, with_stages

Row = Mapping[str, Any]
Ratios = Mapping[str, Mapping[str, Ratio]]
"""System -> metric -> its sums."""

LISTS = "ndcg@10"
"""The metric of lists that a line of online ones begins with."""

NOTE = (
    "requests have one system each: what moved is the difference of two means, with Welch's "
    "interval over users (over requests where users are not known)"
)


@dataclass(frozen=True)
class LogNumbers:
    """What a click log says of its systems.

    Attributes:
        result: The metrics of the lists that were shown, with labels from clicks.
        online: System -> online metric -> its value.
        moved: (System, baseline) -> metric -> how far it moved, with its interval.
        notes: What should be known of that.
    """

    result: Result
    online: Mapping[str, Mapping[str, float]]
    moved: Mapping[tuple[str, str], Mapping[str, Row]]
    notes: tuple[str, ...]


def log_numbers(spec: Spec, asks: Options, engine: Database, *, check: bool) -> LogNumbers:
    """The numbers of a spec's click log.

    Args:
        spec: A spec with clicks.
        asks: Which metrics, systems, days and baseline.
        engine: Where the log is.
        check: Whether to look for bad input first.

    Raises:
        SqlmetricsError: As `evaluate_clicks` does.
    """
    own = on_days(spec.having(metrics=asks.metrics), asks.days).spec
    if own.clicks is None:
        raise SpecError("the spec has no clicks")
    with cleaned_log(own.clicks, engine, names=named_in(own)) as log:
        return numbers_of(log, own, asks, check=check)


def numbers_of(
    log: CleanLog, spec: Spec, asks: Options, *, check: bool, confidence: float | None = None
) -> LogNumbers:
    """The numbers of a log that is cleaned.

    Args:
        log: The log.
        spec: A spec with metrics of lists.
        asks: Which systems and baseline.
        check: Whether to look for bad input first.
        confidence: The coverage of the intervals of the lists' metrics; None for none.

    Raises:
        SqlmetricsError: As `evaluate_clicks` does.
    """
    engine = log.engine
    with log.views() as shown:
        tables = replace(opened(spec, engine), shown_lists=shown)
        plan = planned(spec, tables, moments=confidence is not None)
        with (
            executing(plan, engine, check=check, per_query=False, how=USUALLY) as script,
            engine.reading(),
        ):
            result = result_of(plan, script, engine, check=check, confidence=confidence)
            found, signs = _Rates(log, plan, script).read()
    moved, told = _moved(found, signs, asks, spec.baseline)
    return LogNumbers(result, _values(found), moved, (*log.label_notes, *told, *_lines(found)))


@dataclass(frozen=True)
class _Rates:
    """The ratios of a log, while its tables are there."""

    log: CleanLog
    plan: Plan
    script: Script

    def read(self) -> tuple[Ratios, dict[str, int]]:
        """System -> metric -> its sums; and metric -> its direction."""
        sums = RequestSums(self.log.tables, self.plan)
        asked = [online(name) for name in ONLINE]
        measures, _ = comparable(self.plan)
        found: dict[str, dict[str, Ratio]] = {}
        for query, names in (
            (sums.online(asked), {one.column: str(one) for one in asked}),
            (sums.offline(measures), {one.column: str(one) for one in measures}),
        ):
            for row in self._rows(*query):
                there = found.setdefault(str(row["served_by"]), {})
                there |= {name: read(row, column) for column, name in names.items()}
        metrics = {str(one): one.metric for one in asked} | {str(m): m.metric for m in measures}
        return found, {name: SIGNS[metric.better] for name, metric in metrics.items()}

    def _rows(self, stages: Sequence[Stage], last: str) -> list[dict[str, Any]]:
        every = {one.name: one for one in [*self.script.stages, *stages]}
        return self.log.engine.records(with_stages(every.values(), last))


def _values(found: Ratios) -> dict[str, dict[str, float]]:
    """System -> online metric -> its value, where it has one."""
    return {
        system: {
            name: value
            for name in ONLINE
            if name in ratios and (value := ratios[name].value) is not None
        }
        for system, ratios in found.items()
    }


def _lines(found: Ratios) -> Iterator[str]:
    """The metrics of lists beside the online ones, a line a system."""
    for system, ratios in sorted(found.items()):
        values = [
            f"{name} {value:.4f}"
            for name in (LISTS, *ONLINE)
            if name in ratios and (value := ratios[name].value) is not None
        ]
        yield f"{system}: {', '.join(values)}"


def _moved(
    found: Ratios, signs: Mapping[str, int], asks: Options, usual: str | None
) -> tuple[dict[tuple[str, str], dict[str, Row]], tuple[str, ...]]:
    """How far systems are apart from a baseline, and what should be said of that."""
    for name in (*asks.systems, *([asks.baseline] if asks.baseline else [])):
        if name not in found:
            raise InputError(f"no list of this system: {unknown('system', name, found)}")
    there = sorted(found)
    given = asks.baseline or next(iter(asks.systems), None)
    by_name, rule = usual_baseline(there)
    baseline = given or (usual if usual and usual in found else by_name)
    others = [one for one in asks.systems or there if one != baseline]
    moved = {
        (one, baseline): {
            name: _row(found[one][name], found[baseline][name], sign, asks.level)
            for name, sign in signs.items()
            if name in found[one] and name in found[baseline]
        }
        for one in others
    }
    notes = [NOTE] if moved else []
    if moved and not given and baseline != usual:
        notes.append(rule)
    return moved, tuple(notes)


def _row(new: Ratio, old: Ratio, sign: int, level: float) -> Row:
    statistic = difference(new, old)
    interval = statistic.interval(level) if statistic else None
    low, high = interval or (None, None)
    return {
        "difference": statistic.difference if statistic else None,
        "statistic": statistic,
        "ci_low": low,
        "ci_high": high,
        "direction": sign,
        "n": new.n,
    }
