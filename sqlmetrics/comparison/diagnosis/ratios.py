"""Systems that served different requests: means and rates by sums, and how far they are apart.

A metric of lists is a mean over requests, an online one a sum over a sum: both are ratios. What is
summed first is a user, whose requests are alike; where users are not known, a request. The error
of a ratio is that of the linearised ratio of sums (delta method), and two systems are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.online import Online
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.online_sums import PER_REQUEST, per_request
from sqlmetrics.comparison.statements import chosen_if, sums_stage
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums


@dataclass(frozen=True)
class Ratio:
    """A mean or rate of one system, by sums over its users.

    Attributes:
        n: Users that have a part in it; requests of nobody known.
        top: The sum of the numerators.
        bottom: The sum of the denominators.
        top2: The sum of the squares of the users' numerators; `bottom2` likewise.
        bottom2: See `top2`.
        both: The sum of the users' numerators times their denominators.
    """

    n: int
    top: float
    bottom: float
    top2: float
    bottom2: float
    both: float

    @property
    def value(self) -> float | None:
        """The ratio; None where there is nothing below the line."""
        return self.top / self.bottom if self.bottom else None

    @property
    def estimate(self) -> Estimate | None:
        """The ratio with its error; None where there is nothing below the line."""
        if not self.bottom:
            return None
        squares = {"x2": self.top2, "xw": self.both, "w2": self.bottom2}
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
        "both": f"{top} * {bottom}",
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


_PARTS = ("top", "bottom", "top2", "bottom2", "both")
