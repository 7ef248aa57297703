"""Estimates of two sides: sums over the users of both, as stages of SQL.

An estimate is a ratio of sums over requests. A request stands on both sides where both have a list
for it, and a user has the sums of their requests on each; products of the two tell how much they
go together. What is summed of a request is what it is off the ratio of all (about its `centre`), so
that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.clicks.counterfactual.terms import Term
from sqlmetrics.comparison.periods import Period, in_any, name_of_day
from sqlmetrics.comparison.statements import columns_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.moments import KEYS, Key
from sqlmetrics.comparison.sums.pairing import SEGMENT
from sqlmetrics.comparison.sums.samples import found_in, moments_stage, read_moments
from sqlmetrics.comparison.sums.welch import SIDES, SampleMoments
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal
from sqlmetrics.sql.translation import Translation

UNITS = "sqlmetrics_estimated_requests"
"""The table that keeps what a request, of a policy an impression, adds to each sum."""

VARIABLES = [f"{side}_{name}" for side in SIDES for name in ("weight", "y")]
"""What a user has of an estimate: the sums of both sides."""


@dataclass(frozen=True)
class Sides:
    """What is compared.

    Attributes:
        terms: The estimates.
        baseline: The system, or the period, that the others are compared with.
        systems: These.
        by: The segments that are compared too.
        periods: The days that are compared of one system; none if systems are.
        of_system: That system.
        paired: Whether only requests count that both sides have.
        translation: Where they are, which decides how floats are added.
    """

    terms: Sequence[Term]
    baseline: str
    systems: tuple[str, ...]
    by: tuple[str, ...] = ()
    periods: tuple[Period, ...] = ()
    of_system: str = ""
    paired: bool = True
    translation: Translation = field(default_factory=Translation)

    @property
    def counted(self) -> str:
        """The column of what is counted: requests, of a policy impressions."""
        return self.terms[0].counted

    @property
    def _weights(self) -> list[str]:
        return list(dict.fromkeys(term.w for term in self.terms))

    def query(self) -> tuple[list[Stage], str]:
        """The stages over `UNITS`, and the select of their sums.

        It has up to three rows per system, segment and metric: of the users that are on both
        sides, and of those that are on one.
        """
        sides = [self._sides(), *([self._paired()] if self._leaves_out else [])]
        stages = [self._units(), self._centres(), self._off_centre(), *sides]
        clusters = self._clusters(sides[-1].name)
        moments = moments_stage(
            [*KEYS, "found_in"], ["n_units"], VARIABLES, "metric_clusters", self.translation.total
        )
        return [*stages, clusters, self._metric_clusters(), moments], "select *\nfrom moments"

    def centres(self) -> tuple[list[Stage], str]:
        """The same of the ratios that sums are about, one row per side."""
        return [self._units(), self._centres()], "select *\nfrom centres"

    def counts(self) -> tuple[list[Stage], str]:
        """The same of how many requests a side has, with those that the other has not."""
        counted = Column(f"sum({self.counted})", "n")
        about = "one row per side: the number of its requests"
        counts = sums_stage("counts", about, ["system"], [counted], "compared_units")
        return [self._units(), counts], "select *\nfrom counts"

    @property
    def _leaves_out(self) -> bool:
        """Whether requests of one side alone may be there: each impression is of any policy."""
        return self.paired and self.counted == "n_requests"

    def _units(self) -> Stage:
        keys = ["request_id", "user_id", *map(segment, self.by), self.counted]
        alone = Column("case when user_id is null then request_id end", "lone_request")
        columns = dict.fromkeys(name for term in self.terms for name in (term.x, term.w))
        system: object = Column(name_of_day(self.periods), "system") if self.periods else "system"
        systems = (self.baseline, *self.systems)
        where = [f"system in ({', '.join(map(literal, systems))})"]
        if self.periods:
            where = [in_any(self.periods), f"system = {literal(self.of_system)}"]
        about = "one row per side and request: its part of each sum"
        unit_columns = [system, *keys, alone, *(name for name in columns if name not in keys)]
        return columns_stage("compared_units", about, unit_columns, UNITS, "\n    and ".join(where))

    def _centres(self) -> Stage:
        about = "sums are about the ratio of all requests of a side, so that no digits are lost"
        ratios = [
            Column(
                self.translation.exact(f"1e0 * sum({term.x}) / nullif(sum({term.w}), 0)"),
                f"{_name(term)}_centre",
            )
            for term in self.terms
        ]
        return sums_stage("centres", about, ["system"], ratios, "compared_units")

    def _off_centre(self) -> Stage:
        rows = "compared_units"
        keys = ["system", "request_id", "user_id", "lone_request", *map(segment, self.by)]
        weights = [weight for weight in self._weights if weight != self.counted]
        columns: list[object] = [f"{rows}.{name}" for name in (*keys, self.counted, *weights)]
        for term in self.terms:
            centre = f"coalesce(centres.{_name(term)}_centre, 0e0)"
            off = f"{rows}.{term.x}\n    - {centre}\n    * {rows}.{term.w}"
            columns.append(Column(off, f"{_name(term)}_y"))
        view = {
            "about": "one row per side and request: its deviation from the overall ratio",
            "columns": columns,
            "from": rows,
            "to": "centres",
            "on": equal("centres", rows, ("system",)),
        }
        return Stage("summed_units", "comparison/join", view)

    @property
    def _summed(self) -> list[str]:
        ys = [f"{_name(term)}_y" for term in self.terms]
        return [*dict.fromkeys([self.counted, *self._weights, *ys])]

    def _sides(self) -> Stage:
        keys = ["request_id", "user_id", "lone_request", *map(segment, self.by)]
        side_names = {"baseline": literal(self.baseline), "systems": self.systems}
        view = {"columns": [*keys, *self._summed], "from": "summed_units"}
        return Stage("sides", "comparison/sides", side_names | view)

    def _paired(self) -> Stage:
        return Stage("paired_sides", "comparison/paired_sides", {})

    def _clusters(self, source: str) -> Stage:
        sums = [
            Column(self._total(name, f"{name} * of_{side}"), f"{name}_{side}")
            for name in self._summed
            for side in SIDES
        ]
        about = "one row per segment and user (or request without a user): the sums of both sides"
        keys = (["system", "user_id", "lone_request"], list[str]())
        segments = [(ALL, literal(ALL), list[str]())]
        segments += [(name, segment(name), [segment(name)]) for name in self.by]
        return segments_stage("cluster_sums", about, keys, sums, source, segments=segments)

    def _total(self, name: str, value: str) -> str:
        return f"sum({value})" if name == self.counted else self.translation.total(value)

    def _metric_clusters(self) -> Stage:
        metrics = []
        system, baseline = (f"{self.counted}_{side}" for side in SIDES)
        for term in self.terms:
            metric = EstimatedMetric(term.measure, term.estimator)
            columns = [
                Column(literal(metric.name), "metric"),
                Column(str(metric.k or 0), "k"),
                Column(found_in(system, baseline), "found_in"),
            ]
            for side in SIDES:
                columns.append(Column(f"{self.counted}_{side}", f"{side}_n_units"))
                columns.append(Column(f"1e0 * {term.w}_{side}", f"{side}_weight"))
                columns.append(Column(f"{_name(term)}_y_{side}", f"{side}_y"))
            metrics.append({"columns": columns, "where": f"{system} + {baseline} > 0"})
        about = "one row per user, segment and estimate"
        view = {"about": about, "shared": ["system", *SEGMENT], "metrics": metrics}
        return Stage("metric_clusters", "comparison/metric_rows", view | {"from": "cluster_sums"})

    def read(
        self, rows: Sequence[Mapping[str, Any]], centres: Sequence[Mapping[str, Any]]
    ) -> dict[Key, SampleMoments]:
        """What the rows come to; what has nothing to divide by on a side is not there.

        Args:
            rows: Of `query`.
            centres: Of `centres`.
        """
        columns = {}
        for term in self.terms:
            metric = EstimatedMetric(term.measure, term.estimator)
            columns[metric.name, metric.k or 0] = f"{_name(term)}_centre"
        moments_by_key = read_moments(
            rows, VARIABLES, centres, columns, self.baseline, counted="n_units"
        )
        return {key: means for key, means in moments_by_key.items() if means.is_defined}


def _name(term: Term) -> str:
    """An estimate's columns; a metric by snips has the numerator of ips."""
    return f"{term.measure.column}_{term.estimator}"


def of_segments(rows: Mapping[Key, object]) -> Iterator[tuple[str, str]]:
    """All together, then each segment's value, in order."""
    yield ALL, ALL
    yield from sorted({key[1:3] for key in rows} - {(ALL, ALL)})
