"""What a request of a click log adds to each online metric, with its user, system and segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.online import Online
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import SESSION
from sqlmetrics.clicks.online_sums import PER_REQUEST, check_has, per_request
from sqlmetrics.comparison.statements import chosen_if
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.sql.stage import Column, Stage, with_stages
from sqlmetrics.sql.template import identifier, literal

REQUESTS = ("query_id", "request_id")
"""What requests are called as clusters, beside their own column."""


@dataclass(frozen=True)
class OnlineTerm:
    """An online metric as a ratio of two columns; a request counts if its denominator is not 0.

    Attributes:
        measure: The metric.
    """

    measure: Online

    @property
    def column(self) -> str:
        """What its own columns begin with."""
        return self.measure.column

    @property
    def x(self) -> str:
        """The column of the numerator."""
        return f"{self.column}_numerator"

    @property
    def w(self) -> str:
        """The column of the denominator."""
        return f"{self.column}_denominator"

    @property
    def counted(self) -> str:
        """The column that is 1 where a request counts."""
        return f"{self.column}_n"

    @property
    def key(self) -> tuple[str, int]:
        """Its name and cutoff; 0 if it has none."""
        return self.measure.name, self.measure.k or 0

    @property
    def columns(self) -> Iterator[Column]:
        """These columns of a request."""
        numerator, denominator = self.measure.added
        yield Column(f"cast({numerator} as double)", self.x)
        yield Column(f"cast({denominator} as double)", self.w)
        yield Column(chosen_if(f"{denominator} > 0", "1", "0"), self.counted)


@dataclass(frozen=True)
class Unit:
    """What is independent: what was assigned to systems by lot.

    Attributes:
        sql: Its id in a row of requests; empty if it is the request.
        names: What it is called, one and several.
    """

    sql: str
    names: tuple[str, str]

    @property
    def is_request(self) -> bool:
        """Whether each request is independent."""
        return not self.sql

    @classmethod
    def of(cls, tables: ClickTables, cluster: str | None) -> Unit:
        """The users of a log, else its sessions, else its requests; or what a column names.

        Args:
            tables: The stages of the log.
            cluster: The column; None if nobody named one.

        Raises:
            SpecError: If the log has no such column.
        """
        columns = tables.clicks.columns
        user, session, request = (
            getattr(columns, role, None) for role in ("user", "session", "request")
        )
        if "user" in tables.names.impressions and cluster in (None, user, "user_id"):
            return cls("request_users.user_id", ("user", "users"))
        if tables.names.has_sessions and cluster in (None, session):
            return cls(f"{PER_REQUEST}.{SESSION}", ("session", "sessions"))
        if cluster in (None, request, *REQUESTS):
            return cls("", ("request", "requests"))
        if identifier(cluster) in tables.names.segments:
            return cls(f"{PER_REQUEST}.{identifier(cluster)}", (cluster, f"values of {cluster}"))
        segments = columns.segments if columns else ()
        names = [name for name in (user, session, request, *segments) if name]
        raise SpecError(
            f"{unknown('cluster of the log', cluster, names)}; name its column in "
            "columns.segments of the log"
        )


def units(
    tables: ClickTables, title: str, terms: Sequence[OnlineTerm], by: Sequence[str], unit: Unit
) -> str:
    """The select of one row per request.

    Args:
        tables: The stages of the log.
        title: The system of requests without one.
        terms: The metrics.
        by: The segments, each a column of the log.
        unit: What is independent.

    Raises:
        SpecError: If the log lacks what a metric needs.
    """
    measures = [term.measure for term in terms]
    check_has(tables, measures)
    stages = list(per_request(tables, measures))
    stage_names = {stage.name for stage in stages}
    requests = ("requests",) if tables.requests is not None else ()
    stages += [
        stage
        for stage in tables.stages(*requests, "clean_impressions")
        if stage.name not in stage_names
    ]
    of_users = {"of": tables.of, "requests": bool(requests)}
    stages.append(Stage("request_users", "comparison/request_users", of_users))
    request = f"cast({PER_REQUEST}.request_id as varchar)"
    columns = [
        Column(request, "request_id"),
        Column(f"cast({unit.sql or 'null'} as varchar)", "user_id"),
        Column(f"coalesce({PER_REQUEST}.system, {literal(title)})", "system"),
        *[Column(f"{PER_REQUEST}.day", "metric_date")] * tables.clicks.daily,
        *(_segment_column(name) for name in by),
        *(column for term in terms for column in term.columns),
    ]
    view = {
        "about": "one row per request: its user, and its part of each sum",
        "columns": columns,
        "from": PER_REQUEST,
        "joins": {"request_users": [f"request_users.request_id = {request}"]},
        "kind": "left",
    }
    stages.append(Stage("online_units", "comparison/joins", view))
    return with_stages(stages, "select *\nfrom online_units")


def _segment_column(name: str) -> Column:
    value = f"cast({PER_REQUEST}.{identifier(name)} as varchar)"
    return Column(f"coalesce({value}, {literal(UNKNOWN)})", segment(name))
