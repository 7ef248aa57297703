"""Ratios of two sides: sums over the users of both, as stages of SQL.

A ratio is a sum over requests by another one: an online metric, or an estimate for lists that were
not shown. A request stands on both sides where both have a list for it, and a user has the sums of
their requests on each; products of the two tell how much they go together. What is summed of a
request is what it is off the ratio of all (about its `centre`), so that no digits are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import Period, in_any, name_of_day
from sqlmetrics.comparison.statements import chosen_if, columns_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.moments import KEYS, Key
from sqlmetrics.comparison.sums.pairing import SEGMENT
from sqlmetrics.comparison.sums.samples import found_in, moments_stage, read_moments
from sqlmetrics.comparison.sums.welch import SIDES, SampleMoments
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.tables.tabular import Row


class RatioTerm(Protocol):
    """A ratio: the sum of one column over that of another.

    Attributes:
        x: The column of the numerator.
        w: That of the denominator.
        counted: That of how many a row counts for.
        column: What its own columns begin with.
        key: The name and the cutoff of its metric; 0 if it has none.
    """

    @property
    def x(self) -> str: ...  # noqa: D102
    @property
    def w(self) -> str: ...  # noqa: D102
    @property
    def counted(self) -> str: ...  # noqa: D102
    @property
    def column(self) -> str: ...  # noqa: D102
    @property
    def key(self) -> tuple[str, int]: ...  # noqa: D102


@dataclass(frozen=True)
class Earlier:
    """The same ratios of each user before, as a covariate.

    Attributes:
        units: The table of what a request adds.
        condition: What its rows meet that are of before.
    """

    units: str
    condition: str


@dataclass(frozen=True)
class Sides:
    """What is compared.

    Attributes:
        terms: The ratios.
        baseline: The system, or the period, that the others are compared with.
        systems: These.
        units: The table that keeps what a request, of a policy an impression, adds to each sum.
        by: The segments that are compared too.
        periods: The days that are compared of one system; none if systems are.
        of_system: That system.
        paired: Whether only requests count that both sides have.
        translation: Where they are, which decides how floats are added.
        days: What rows of `units` meet that are compared; empty of all.
        earlier: The covariate; None without one.
    """

    terms: Sequence[RatioTerm]
    baseline: str
    systems: tuple[str, ...]
    units: str
    by: tuple[str, ...] = ()
    periods: tuple[Period, ...] = ()
    of_system: str = ""
    paired: bool = True
    translation: Translation = field(default_factory=Translation)
    days: str = ""
    earlier: Earlier | None = None

    @property
    def variables(self) -> list[str]:
        """What a user has of a ratio: the sums of both sides."""
        names = ("weight", "y", *(("c", "c_weight") if self.earlier else ()))
        return [f"{side}_{name}" for side in SIDES for name in names]

    @property
    def counted(self) -> str:
        """The column of what is counted: requests, of a policy impressions."""
        return self.terms[0].counted

    @property
    def _counts(self) -> list[str]:
        return list(dict.fromkeys(term.counted for term in self.terms))

    @property
    def _weights(self) -> list[str]:
        return [*dict.fromkeys(term.w for term in self.terms if term.w not in self._counts)]

    def query(self) -> tuple[list[Stage], str]:
        """The stages over `units`, and the select of their sums.

        It has up to three rows per system, segment and metric: of the users that are on both
        sides, and of those that are on one.
        """
        sides = [self._sides(), *([self._paired()] if self._leaves_out else [])]
        stages = [self._units(), self._centres(), self._off_centre(), *sides]
        stages.append(self._clusters(sides[-1].name))
        counts = ["n_units"]
        if self.earlier:
            stages += self._covered(self.earlier)
            counts.append("n_covered")
        source = self._metric_clusters(stages[-1].name)
        keys, total = [*KEYS, "found_in"], self.translation.total
        moments = moments_stage(keys, counts, self.variables, source.name, total)
        return [*stages, source, moments], "select *\nfrom moments"

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
        keys = ["request_id", "user_id", *map(segment, self.by), *self._counts]
        alone = Column("case when user_id is null then request_id end", "lone_request")
        columns = dict.fromkeys(name for term in self.terms for name in (term.x, term.w))
        system: object = Column(name_of_day(self.periods), "system") if self.periods else "system"
        systems = (self.baseline, *self.systems)
        where = [f"system in ({', '.join(map(literal, systems))})"]
        if self.periods:
            where = [in_any(self.periods), f"system = {literal(self.of_system)}"]
        where += [self.days] * bool(self.days)
        about = "one row per side and request: its part of each sum"
        unit_columns = [system, *keys, alone, *(name for name in columns if name not in keys)]
        condition = "\n    and ".join(where)
        return columns_stage("compared_units", about, unit_columns, self.units, condition)

    def _centres(self) -> Stage:
        about = "sums are about the ratio of all requests of a side, so that no digits are lost"
        ratios = [
            Column(
                self.translation.exact(f"1e0 * sum({term.x}) / nullif(sum({term.w}), 0)"),
                f"{term.column}_centre",
            )
            for term in self.terms
        ]
        return sums_stage("centres", about, ["system"], ratios, "compared_units")

    def _off_centre(self) -> Stage:
        rows = "compared_units"
        keys = ["system", "request_id", "user_id", "lone_request", *map(segment, self.by)]
        columns: list[object] = [
            f"{rows}.{name}" for name in (*keys, *self._counts, *self._weights)
        ]
        for term in self.terms:
            centre = f"coalesce(centres.{term.column}_centre, 0e0)"
            off = f"{rows}.{term.x}\n    - {centre}\n    * {rows}.{term.w}"
            columns.append(Column(off, f"{term.column}_y"))
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
        ys = [f"{term.column}_y" for term in self.terms]
        return [*self._counts, *self._weights, *ys]

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
        return f"sum({value})" if name in self._counts else self.translation.total(value)

    def _covered(self, earlier: Earlier) -> Iterator[Stage]:
        """Each user with what they had before, 0 if nothing: they count as the mean."""
        parts = [(f"{term.column}_earlier_{part}", term) for term in self.terms for part in "xw"]
        columns = {name: term.x if name.endswith("x") else term.w for name, term in parts}
        view = {
            "about": "one row per user: the sums of the days before",
            "keys": ["user_id"],
            "columns": [Column(self.translation.total(sql), name) for name, sql in columns.items()],
            "from": earlier.units,
            "joins": {},
            "where": f"user_id is not null\n    and {earlier.condition}",
        }
        yield Stage("earlier_sums", "sums", view)
        ratios = []
        covered: list[object] = ["cluster_sums.*"]
        for term in self.terms:
            x, w, centre = (f"{term.column}_earlier_{part}" for part in ("x", "w", "centre"))
            ratios.append(Column(f"1e0 * sum({x}) / nullif(sum({w}), 0)", centre))
            off = f"earlier_sums.{x}\n    - earlier_centres.{centre}\n    * earlier_sums.{w}"
            covered.append(Column(f"coalesce({off}, 0e0)", f"{term.column}_c"))
            covered.append(Column(f"coalesce(earlier_sums.{w}, 0e0)", f"{term.column}_c_weight"))
        about = "sums are about the ratio of all days before"
        yield columns_stage("earlier_centres", about, ratios, "earlier_sums")
        join = {
            "about": "each user with the sums of the days before, 0 if there are none",
            "columns": covered,
            "from": "cluster_sums",
            "to": "earlier_sums",
            "on": equal("earlier_sums", "cluster_sums", ("user_id",)),
            "kind": "left",
            "beside": "earlier_centres",
        }
        yield Stage("covered_clusters", "comparison/join", join)

    def _metric_clusters(self, source: str) -> Stage:
        metrics = []
        for term in self.terms:
            system, baseline = (f"{term.counted}_{side}" for side in SIDES)
            name, k = term.key
            columns = [
                Column(literal(name), "metric"),
                Column(str(k), "k"),
                Column(found_in(system, baseline), "found_in"),
            ]
            for side in SIDES:
                columns.append(Column(f"{term.counted}_{side}", f"{side}_n_units"))
                columns.append(Column(f"1e0 * {term.w}_{side}", f"{side}_weight"))
                columns.append(Column(f"{term.column}_y_{side}", f"{side}_y"))
                if self.earlier:
                    is_there = f"{term.counted}_{side} > 0"
                    is_covered = f"{is_there} and {term.column}_c_weight > 0"
                    columns.append(Column(chosen_if(is_covered, "1", "0"), f"{side}_n_covered"))
                    for name in ("c", "c_weight"):
                        value = chosen_if(is_there, f"{term.column}_{name}", "0e0")
                        columns.append(Column(value, f"{side}_{name}"))
            metrics.append({"columns": columns, "where": f"{system} + {baseline} > 0"})
        about = "one row per user, segment and ratio"
        view = {"about": about, "shared": ["system", *SEGMENT], "metrics": metrics}
        return Stage("metric_clusters", "comparison/metric_rows", view | {"from": source})

    def read(self, rows: Sequence[Row], centres: Sequence[Row]) -> dict[Key, SampleMoments]:
        """What the rows come to; what has nothing to divide by on a side is not there.

        Args:
            rows: Of `query`.
            centres: Of `centres`.
        """
        columns = {term.key: f"{term.column}_centre" for term in self.terms}
        moments_by_key = read_moments(
            rows, self.variables, centres, columns, self.baseline, counted="n_units"
        )
        return {key: means for key, means in moments_by_key.items() if means.is_defined}


def period_sides(options: Options, systems: Sequence[str]) -> tuple[str, tuple[str, ...], str]:
    """The period that others are compared with, these, and the system that they are of.

    Args:
        options: What is asked.
        systems: Those that are there.

    Raises:
        SpecError: If there are several systems, or the baseline is none of the periods.
    """
    chosen = options.systems or tuple(systems)
    if len(chosen) != 1:
        raise SpecError(
            f"dates compare one system with itself, but there are {', '.join(systems)}; name "
            "one (systems, --systems)"
        )
    names = [period.name for period in options.dates]
    baseline = options.baseline or names[0]
    if baseline not in names:
        raise SpecError(f"dates: {unknown('baseline', baseline, names)}")
    return baseline, tuple(name for name in names if name != baseline), chosen[0]


def of_segments(rows: Mapping[Key, object]) -> Iterator[tuple[str, str]]:
    """All together, then each segment's value, in order."""
    yield ALL, ALL
    yield from sorted({key[1:3] for key in rows} - {(ALL, ALL)})
