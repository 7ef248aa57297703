"""Two days or periods of one system, side by side as if they were two systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.statements import columns_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.open import opened_table
from sqlmetrics.spec.days import Days, Ends, day_of_text, is_day, today_in
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import identifier, literal

DAY = "metric_date"


@dataclass(frozen=True)
class Period:
    """Days by a name.

    Attributes:
        name: As a person wrote them: a day, or the first and the last one.
        days: The days.
    """

    name: str
    days: Days

    @property
    def condition(self) -> str:
        """What a row meets that is of these days."""
        return "\n    and ".join(self.days.ends.of(DAY))

    @property
    def outside(self) -> str:
        """What a row meets that is of other days."""
        condition = "\n        and ".join(self.days.ends.of(DAY))
        return f"not (\n        {condition}\n    )"

    @property
    def is_a_day(self) -> bool:
        """Whether no query can come again in it."""
        start, end = self.days.start, self.days.end
        return start is not None and end == start + timedelta(1)


@dataclass(frozen=True)
class OneOf(Ends):
    """The ends of several periods, of which a day is in one."""

    periods: tuple[Days, ...] = ()

    def of(self, day: str) -> list[str]:
        """What an expression meets that is one of the days."""
        conditions = ("\n            and ".join(period.ends.of(day)) for period in self.periods)
        return ["(\n        " + "\n        or ".join(conditions) + "\n    )"]


def period(dates: str | date, zone: str | None = None) -> Period:
    """A day like 2026-11-01, or days like 2026-11-01..2026-11-07, both ends among them.

    Args:
        dates: The days, also as `yesterday` or `-7 days..-1 day`.
        zone: In which it is today; by default UTC.

    Raises:
        SpecError: If it is neither.

    >>> period("2026-11-01..2026-11-07").days.end
    datetime.date(2026, 11, 8)
    """
    text = str(dates).strip()
    first, _, last = text.partition("..")
    try:
        start, end = (day_of_text(day, lambda: today_in(zone)) for day in (first, last or first))
        if end < start:
            raise ValueError
        days = Days(start=start, end=end + timedelta(1))
    except (ValueError, OverflowError):
        raise SpecError(
            f"{text!r} is not a day like 2026-11-01 or a range like 2026-11-01..2026-11-07"
        ) from None
    words = not is_day(first)
    return Period(f"{start}..{end}" if words and last else str(start) if words else text, days)


def periods(dates: Sequence[str | date], zone: str | None = None) -> tuple[Period, ...]:
    """The periods that are compared; the arguments are as of `period`.

    Raises:
        SpecError: If there are less than two, or two have a day in common.
    """
    parsed = tuple(period(day, zone) for day in dates)
    if len(parsed) == 1:
        raise SpecError(
            f"dates {parsed[0].name}: compare needs two or more, like 2026-11-01,2026-11-08"
        )
    for position, later in enumerate(parsed):
        for earlier in parsed[:position]:
            if later.days.overlaps(earlier.days):
                raise SpecError(
                    f"dates {earlier.name} and {later.name} share a day; give periods that do "
                    "not overlap"
                )
    return parsed


def compared_periods(
    dates: str | Sequence[str | date], zone: str | None, *, days: object
) -> tuple[Period, ...]:
    """The periods that an argument names; none if it is empty.

    Args:
        dates: Days and periods, of a text behind commas.
        zone: In which it is today.
        days: What is asked of days besides.

    Raises:
        SpecError: As `periods` does, or if days are asked for besides.
    """
    named_dates = dates.split(",") if isinstance(dates, str) else tuple(dates)
    if named_dates and days:
        raise SpecError("dates already choose the days; leave out start and end")
    return periods(named_dates, zone) if named_dates else ()


def name_of(day: date, periods: Sequence[Period]) -> str:
    """The name of the period that a day is in."""
    day_span = Days(start=day, end=day + timedelta(1))
    return next(period.name for period in periods if period.days.overlaps(day_span))


def days_of_all(spans: Sequence[Days]) -> Days:
    """From the first day of any to the last one; open where one is.

    >>> str(days_of_all([Days(start=date(2026, 1, 1), end=date(2026, 1, 2)), \
Days(start=date(2026, 1, 8), end=date(2026, 1, 9))]))
    'from 2026-01-01 and before 2026-01-09'
    """
    starts, ends = [span.start for span in spans], [span.end for span in spans]
    start = None if None in starts else min(start for start in starts if start)
    end = None if None in ends else max(end for end in ends if end)
    return Days(start=start, end=end)


def ends_of_all(spans: Sequence[Days]) -> Ends:
    """The same as SQL, without the days between."""
    hull = days_of_all(spans)
    ends = hull.ends
    return OneOf(ends.start, ends.end, words=str(hull), periods=tuple(spans))


def name_of_day(periods: Sequence[Period]) -> str:
    """The period that a row is of, as SQL."""
    whens = (
        "    when {}\n        then {}".format("\n        and ".join(period.days.ends.of(DAY)), name)
        for period, name in ((period, literal(period.name)) for period in periods)
    )
    return "\n".join(["case", *whens, "end"])


def in_any(periods: Sequence[Period]) -> str:
    """What a row meets that is of one of them."""
    conditions = ("\n            and ".join(period.days.ends.of(DAY)) for period in periods)
    return "(\n        " + "\n        or ".join(conditions) + "\n    )"


# Values of queries that an earlier run has kept: a baseline that need not be evaluated again.

ROLE = "baseline_values"


@dataclass(frozen=True)
class Stored:
    """A table of values of queries, as `evaluate` and jobs write them.

    Attributes:
        text: What stands behind FROM.
        columns: Its columns by their names in lower case.
        name: What it is called in a comparison.
        where: The condition of its rows.
        by_day: Whether a query stands beside itself on the same day; if not, on any.
    """

    text: str
    columns: Mapping[str, str]
    name: str = "stored"
    where: str = ""
    by_day: bool = False

    def _has(self, column: str) -> bool:
        return column.casefold() in self.columns

    def column(self, name: str) -> str:
        """A column as it is spelled there."""
        return identifier(self.columns[name.casefold()])

    @property
    def has_days(self) -> bool:
        """Whether its rows have days."""
        return self._has(DAY)

    @property
    def keys_of_runs(self) -> list[str]:
        """The columns that tell several runs in it apart."""
        return [name for name in ("spec", "system") if self._has(name)]

    @property
    def days(self) -> str:
        """The select of its days."""
        where = f"\nwhere {self.where}" if self.where else ""
        return f"select distinct cast({self.column(DAY)} as date) as {DAY}\nfrom {self.text}{where}"

    def check(self, measures: Sequence[Measure]) -> None:
        """Raise InputError if it lacks the values of a metric."""
        lacking = [measure for measure in measures if not self._has(measure.column)]
        if lacking:
            measure = lacking[0]
            problem = unknown("column", measure.column, list(self.columns.values()))
            raise InputError(
                f"{ROLE}: {problem} (the values of {measure}); evaluate the baseline with the "
                "same metrics and conventions"
            )

    def stage(
        self, keys: Sequence[str], measures: Sequence[Measure], facts: Sequence[str]
    ) -> Stage:
        """Its rows, as `query_values` has them.

        Args:
            keys: What a query is known by.
            measures: The metrics.
            facts: What the others have besides, and these have not.
        """
        columns: list[object] = []
        for key in keys:
            if key == "system":
                columns.append(Column(literal(self.name), key))
            else:
                kind = "date" if key == DAY else "varchar"
                columns.append(Column(f"cast({self.column(key)} as {kind})", key))
        for fact in facts:
            if fact == "cluster":
                columns.append(Column(f"cast({self.column('query_id')} as varchar)", fact))
            else:
                kind = "double" if fact == "weight" else "varchar"
                columns.append(Column(f"cast(null as {kind})", fact))
        for measure in measures:
            columns.append(Column(f"cast({self.column(measure.column)} as double)", measure.column))
        about = "one row per query of the earlier run"
        return columns_stage("stored_values", about, columns, self.text, self.where)


def opened_values(values: Any, baseline: str | None, engine: Database) -> Stored:
    """The table of an earlier run, of one system.

    Args:
        values: A file, a table or data in memory, as `evaluate` takes tables.
        baseline: Which of its systems; None for the only one.
        engine: Where it is read.

    Raises:
        InputError: If it cannot be read, or is no table of values of queries.
        SpecError: If it has several systems, and none is named.
    """
    text, column_by_name = opened_table(values, ROLE, engine)
    if "query_id" not in column_by_name:
        problem = unknown("column", "query_id", list(column_by_name.values()))
        raise InputError(
            f"{ROLE}: {problem}; give a table written by evaluate --per-query or output.per_query"
        )
    return _of_one_run(Stored(text, column_by_name), baseline, engine)


def _of_one_run(stored: Stored, baseline: str | None, engine: Database) -> Stored:
    """The rows of one system of one spec, by its name."""
    conditions = []
    for key in stored.keys_of_runs:
        column = stored.column(key)
        names = sorted(
            str(row[0]) for row in engine.rows(f"select distinct {column}\nfrom {stored.text}")
        )
        system = baseline if key == "system" else None
        if system is not None and system not in names:
            raise InputError(f"{ROLE}: {unknown('system', system, names)}")
        if system is None and len(names) > 1:
            say = (
                "name one of them (baseline, --baseline)"
                if key == "system"
                else "give the rows of one"
            )
            raise SpecError(f"{ROLE} have several values of {key}: {', '.join(names)}; {say}")
        name = system or next(iter(names), "")
        conditions.append(f"{column} = {literal(name)}")
        if key == "system" and name:
            stored = replace(stored, name=f"stored {name}")
    return replace(stored, where="\n    and ".join(conditions))
