"""Pictures of an experiment: what each metric came to, and the running interval night by night."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby
from typing import Any

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.analysis.experiment import THRESHOLD
from sqlmetrics.comparison.online.experiment import looks
from sqlmetrics.comparison.page.averages import day_domain, is_cut
from sqlmetrics.comparison.page.content import Words, number, signed
from sqlmetrics.comparison.page.picture import Chart, Picture, ends
from sqlmetrics.comparison.report import p_value
from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.experiment import LookedAt
from sqlmetrics.jobs.schema import columns_of, has_experiment, targets
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.click_log import ClickExperiment
from sqlmetrics.spec.days import Days, Ends, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.threshold import PRIMARY
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.tables.table import printable
from sqlmetrics.tables.tabular import Row

MARKS = {"better": "better", "worse": "worse", "held": "equivalent", "unclear": "unclear"}
"""What a metric came to -> how it is marked."""


@dataclass(frozen=True)
class ExperimentNights:
    """The rows of an experiment's table, for a report.

    Attributes:
        settings: The experiment.
        rows: Of days alone and of running totals.
        notes: What a reader should know.
    """

    settings: ClickExperiment
    rows: Sequence[Row]
    notes: tuple[str, ...]

    @property
    def last(self) -> list[Row]:
        """The last running totals."""
        running = self._of_span("running")
        day = max((str(row["metric_date"]) for row in running), default="")
        return [row for row in running if str(row["metric_date"]) == day]

    def sentences(self, words: Words) -> Iterator[str]:
        """The verdict on each variant, which the difference of a fixed test does not give."""
        for row in self.last:
            if row["role"] == PRIMARY:
                verdict = _verdict_word(row, words)
                yield words(
                    "experiment.headline", system=row["system"], verdict=verdict, day=_day(row)
                )

    def pictures(self, words: Words) -> Iterator[Picture]:
        """What a report shows of it."""
        if not self.last:
            return
        yield self._metrics(words)
        variants = [name for name in self.settings.variants if name != self.settings.control]
        for variant in variants:
            if picture := self._days(variant, words, is_only=len(variants) == 1):
                yield picture

    def _of_span(self, span: str) -> list[Row]:
        return [row for row in self.rows if row["span"] == span]

    def _metrics(self, words: Words) -> Picture:
        """Each metric of the last night, beside what it may lose."""
        order = [str(online(text)) for text in self.settings.metrics]
        rows = sorted(self.last, key=lambda row: (order.index(_metric(row)), row["system"]))
        is_only = len({row["system"] for row in rows}) == 1
        marks = [
            {
                "label": _metric(row) if is_only else f"{row['system']} · {_metric(row)}",
                "difference": row["relative"],
                "ci_low": row["relative_low"],
                "ci_high": row["relative_high"],
                "limit": _limit(row),
                "verdict": MARKS[row["state"]],
            }
            for row in rows
            if row["relative_low"] is not None and row["state"]
        ]
        first = rows[0]
        verdicts = [self._verdict(row, words) for row in rows if row["role"] == PRIMARY]
        is_always = self.settings.looks == "any"
        about = {
            "verdicts": " ".join(verdicts),
            "day": _day(first),
            "days": words.n(first["n_days"] or 0),
            "level": f"{100 * self.settings.level:g}",
            "looks": words("experiment.always") if is_always else words("experiment.once"),
        }
        names = ("system", "metric", "role", "control", "variant_value", "relative", "interval")
        columns = [words(f"column.{name}") for name in (*names, "may_lose", "state")]
        cells = [
            [
                *(row["system"], _metric(row), row["role"]),
                *(number(row[name]) for name in ("control_value", "value")),
                *(_percent(row["relative"]), _interval(row, words)),
                "–" if row["max_drop_pct"] is None else f"{row['max_drop_pct']:g} %",
                words(f"experiment_state.{row['state']}") if row["state"] else "–",
            ]
            for row in rows
        ]
        chart = Chart("experiment", marks, {"words": {"baseline": self.settings.control}})
        return Picture("experiment", chart, columns, cells, 3, about)

    def _verdict(self, row: Row, words: Words) -> str:
        """The verdict on a variant, with what it hangs on."""
        rails = [
            other
            for other in self.last
            if other["system"] == row["system"] and other["role"] != PRIMARY and other["state"]
        ]
        change = words("experiment.nothing")
        if row["relative"] is not None:
            change = f"{_percent(row['relative'])} ({_interval(row, words)})"
        mixed = words("experiment.mixed", n=words.n(row["n_mixed"])) if row["n_mixed"] else ""
        return words(
            "experiment.variant",
            system=row["system"],
            control=row["control"],
            verdict=_verdict_word(row, words),
            metric=_metric(row),
            change=change,
            guardrails=_guardrails(rails, words),
            n=words.n(row["n_units"]),
            control_n=words.n(row["control_units"]),
            mixed=mixed,
            p=_p(row),
        )

    def _days(self, variant: str, words: Words, *, is_only: bool) -> Picture | None:
        """The running interval of the primary metric, with each day by itself."""
        totals = [
            row
            for row in self._of_span("running")
            if (row["system"], row["role"]) == (variant, PRIMARY) and row["always_low"] is not None
        ]
        totals.sort(key=lambda row: str(row["metric_date"]))
        if len(totals) < 2:
            return None
        alone = {
            _day(row): row
            for row in self._of_span("day")
            if (row["system"], row["role"]) == (variant, PRIMARY)
        }
        metric, last = _metric(totals[0]), totals[-1]
        direction = SIGNS[online(metric).metric.better]
        points = [_point(row, alone.get(_day(row), {}), direction) for row in totals]
        within = [row for row in points if row["ci_low"] is not None] or [
            row | {"ci_low": row["running_low"], "ci_high": row["running_high"]} for row in points
        ]
        domain = day_domain(within)
        about = {
            "metric": metric,
            "system": variant,
            "control": last["control"],
            "day": _day(last),
            "difference": signed(last["difference"]),
            "interval": ends(words, last["always_low"], last["always_high"]),
            "verdicts": "; ".join(_verdict_spans(totals, words)),
        }
        cells = [
            [
                *(_day(row), words.n(row["n_units"]), words.n(row["control_units"])),
                signed(alone.get(_day(row), {}).get("difference")),
                *(signed(row["difference"]), ends(words, row["always_low"], row["always_high"])),
                _p(row),
                _verdict_word(row, words),
            ]
            for row in totals
        ]
        columns = [
            *(words("column.day"), variant, str(last["control"])),
            *(words(f"column.{name}") for name in ("difference", "so_far", "always")),
            *(words(f"column.{name}") for name in ("sample_ratio", "verdict")),
        ]
        parameters = {
            "changes": [],
            "deploys": [],
            "domain": domain,
            "words": {"baseline": self.settings.control},
        }
        chart = Chart("days", points, parameters)
        cut = words("days.cut") if is_cut(points, domain) else ""
        suffix = "" if is_only else variant
        return Picture(
            "experiment_days", chart, columns, cells, 1, about, suffix=suffix, left_out=cut
        )


def nights_of(
    spec: Spec, days: Days | None, engine: Database, *, fresh: bool
) -> ExperimentNights | None:
    """The nights of a spec's experiment: as runs have written them, else from the log.

    Args:
        spec: What is asked.
        days: The days of the report; None for all.
        engine: Where the log and the tables are.
        fresh: Whether the log is looked at even if runs have written rows.
    """
    settings = spec.clicks.experiment if spec.clicks else None
    if settings is None or spec.clicks is None:
        return None
    ends_of_days = days.ends if days else Ends(None, None)
    if not fresh and (rows := _stored(spec, ends_of_days, engine)):
        name = targets(spec)["experiment"]
        last = max(_day(row) for row in rows)
        note = f"experiment: the numbers come from {name}, up to {last}; nothing was recomputed"
        nights = ExperimentNights(settings, rows, (note,))
        verdicts = {
            f"experiment: {row['verdict']} ({printable(row['system'])}): {row['reason']}": None
            for row in nights.last
        }
        return replace(nights, notes=(note, *verdicts))
    columns = spec.clicks.columns
    is_timed = columns is not None and columns.time is not None
    any_day = None if is_timed else date.fromisoformat(NO_DATE)
    new_rows, notes = looks(spec, engine, LookedAt(ends_of_days, day=any_day))
    return ExperimentNights(settings, new_rows, tuple(notes))


def _stored(spec: Spec, ends_of_days: Ends, engine: Database) -> list[Row]:
    """The rows that runs have written, of these days."""
    if spec.output is None or not has_experiment(spec):
        return []
    name = targets(spec)["experiment"]
    if not columns_of(name, engine):
        return []
    conditions = [f"spec = {literal(spec.title)}", *ends_of_days.of("metric_date")]
    where = "\n    and ".join(conditions)
    return [*engine.records(f"select *\nfrom {relation(name)}\nwhere {where}")]


def _point(total: Row, alone: Row, direction: int) -> dict[str, Any]:
    """A night of the chart."""
    low, high = alone.get("difference_low"), alone.get("difference_high")
    is_clear = low is not None and high is not None and not low <= 0 <= high
    moved = "better" if (alone.get("difference") or 0) * direction > 0 else "worse"
    return {
        "day": _day(total),
        "running": total["difference"],
        "running_low": total["always_low"],
        "running_high": total["always_high"],
        "difference": alone.get("difference") if low is not None else None,
        "ci_low": low,
        "ci_high": high,
        "verdict": moved if is_clear else "unclear",
    }


def _verdict_spans(totals: Sequence[Row], words: Words) -> Iterator[str]:
    """Each verdict with the day since which it has been that."""
    for _, rows in groupby(totals, key=lambda row: row["verdict"]):
        first = next(rows)
        yield words("experiment_days.first", verdict=_verdict_word(first, words), day=_day(first))


def _guardrails(rails: Sequence[Row], words: Words) -> str:
    """Which guardrails are broken, else which are in doubt, else that all hold."""
    for state, key in (("worse", "experiment.broken"), ("unclear", "experiment.doubtful")):
        if names := [_metric(row) for row in rails if row["state"] == state]:
            return words(key, names=", ".join(names))
    return words("experiment.held") if rails else ""


def _limit(row: Row) -> float | None:
    """What a guardrail may lose, as a relative difference."""
    if row["max_drop_pct"] is None:
        return None
    direction = SIGNS[online(_metric(row)).metric.better]
    return float(-direction * row["max_drop_pct"] / 100)


def _verdict_word(row: Row, words: Words) -> str:
    return words(f"experiment_verdict.{str(row['verdict']).replace(' ', '_')}")


def _interval(row: Row, words: Words) -> str:
    low, high = row["relative_low"], row["relative_high"]
    return "–" if low is None else words("page.to", low=_percent(low), high=_percent(high))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:+.1f} %".replace("-", "−")


def _p(row: Row) -> str:
    p = row["p_sample_ratio"]
    return "–" if p is None else p_value(p, 1 - THRESHOLD)


def _metric(row: Row) -> str:
    return at_cutoff(row["metric"], int(row["k"]))


def _day(row: Row) -> str:
    return str(day_of(row["metric_date"]))
