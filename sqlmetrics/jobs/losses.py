"""What of the past a run would lose: days and metrics that it has nothing to put in place of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import finished, literal, relation

Number = tuple[date, str, int]
"""A day's numbers of a metric: the day, the metric and its cutoff, 0 for none."""

NAMED = 3
"""As many metrics are named in a message."""


@dataclass(frozen=True)
class Loss:
    """Numbers that a run would take away.

    Attributes:
        days: Those that would have no row any more.
        metrics: Metric -> of how many other days its rows would go.
        n_days: The days that lose a number, each once.
        n_rows: The rows that would go.
    """

    days: Sequence[date]
    metrics: dict[str, int]
    n_days: int
    n_rows: int

    def __str__(self) -> str:
        words = []
        if self.days:
            ends = f"from {self.days[0]} to {self.days[-1]}"
            words.append(f"all rows of {_days(len(self.days))} ({ends}) that the source has not")
        names = [f"{metric} on {_days(n)}" for metric, n in self.metrics.items()]
        if len(names) > NAMED:
            names[NAMED:] = [f"{len(names) - NAMED:,} other{'s' * (len(names) > NAMED + 1)}"]
        if names:
            words.append(f"those of {', '.join(names)}, which the new rows have not")
        return f"{self.n_rows:,} rows: {'; and '.join(words)}"


def check_refresh(spec: Spec, engine: Database, new_rows: str, allowed: int) -> None:
    """Look what the table holds that a full refresh has nothing to put in place of.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the fact table is.
        new_rows: The query of the rows that replace all of the spec's.
        allowed: Of so many days numbers may go.

    Raises:
        SpecError: If numbers of more days would go; with what they are, and the option to give.
    """
    new = engine.rows(
        "select distinct metric_date, metric, k\n"
        f"from (\n{finished(new_rows).rstrip()}\n) as new_rows"
    )
    _refuse(spec, _loss(spec, engine, {_number(row) for row in new}), allowed, "--full-refresh")


def check_backfill(
    spec: Spec, engine: Database, ranges: Iterable[Days | None], allowed: int
) -> None:
    """Look what the table holds of the days to be filled that the spec asks for no more.

    The other arguments are those of `check_refresh`.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the fact table is.
        ranges: The days that are replaced.
        allowed: Of so many days numbers may go.

    Raises:
        SpecError: If numbers of more days would go.
    """
    if not columns_of(targets(spec)["facts"], engine):
        return
    metrics = {(metric, k) for metric, k, _ in hashes(spec)}
    todo = [days for days in ranges if days is not None]
    stays = {
        (day, metric, k)
        for day, metric, k in _numbers(spec, engine)
        if (metric, k) in metrics or not any(_is_in(day, days) for days in todo)
    }
    _refuse(spec, _loss(spec, engine, stays), allowed, "--backfill")


def _refuse(spec: Spec, loss: Loss, allowed: int, option: str) -> None:
    if loss.n_days > allowed:
        raise SpecError(
            f"{targets(spec)['facts']} would lose {loss}. {option} removes nothing of the past "
            f"unless it is named: --allow-loss {loss.n_days} lets numbers of "
            f"{_days(loss.n_days)} go; or compute only days that the source has, by --start and "
            "--end"
        )


def _loss(spec: Spec, engine: Database, stays: set[Number]) -> Loss:
    """What a table holds beside the numbers that stay or are replaced."""
    rows = _numbers(spec, engine)
    gone = {number: n for number, n in rows.items() if number not in stays}
    kept_days = {day for day, _, _ in stays}
    metrics: dict[str, int] = {}
    for day, metric, k in gone:
        if day in kept_days:
            name = at_cutoff(metric, k)
            metrics[name] = metrics.get(name, 0) + 1
    days = {day for day, _, _ in gone}
    return Loss(sorted(days - kept_days), metrics, len(days), sum(gone.values()))


def _numbers(spec: Spec, engine: Database) -> dict[Number, int]:
    rows = engine.rows(
        "select metric_date, metric, k, count(*)\n"
        f"from {relation(targets(spec)['facts'])}\nwhere spec = {literal(spec.title)}\n"
        "group by metric_date, metric, k\norder by metric_date, metric, k"
    )
    return {_number(row): int(row[3]) for row in rows}


def _number(row: Sequence[object]) -> Number:
    day, metric, k, *_ = row
    return day_of(day), str(metric), int(str(k))


def _is_in(day: date, days: Days) -> bool:
    return (days.start or date.min) <= day < (days.end or date.max)


def _days(n: int) -> str:
    return f"{n:,} day{'s' * (n != 1)}"
