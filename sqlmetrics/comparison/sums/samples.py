"""Systems that need not have run on the same queries: sums of each, as stages of SQL.

A cluster has its sums under each system. Where it is on both sides, like a query of two days or a
user who was shown both, products of the two sums tell how much they go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import ClassVar, Protocol

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import Period, in_any, name_of_day
from sqlmetrics.comparison.statements import chosen_if, columns_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.moments import KEYS, SIDES, Group, Key, SampleMoments, key_of
from sqlmetrics.comparison.sums.pairing import SEGMENT, Pairing
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.tables.table import printable, segment_cell
from sqlmetrics.tables.tabular import Row


@dataclass(frozen=True)
class Samples(Pairing):
    """What is compared where each system has queries of its own.

    Attributes:
        covariate: What is known of a query, or of its cluster, from before; None if nothing is.
    """

    rows: ClassVar[str] = "query_values"

    covariate: Covariate | None = None

    def value_of(self, measure: Measure) -> str:
        """What is compared of a query."""
        return measure.column

    @property
    def conditions(self) -> list[str]:
        """Which rows of `per_query` are compared."""
        before = [self.covariate.before.outside] if self.covariate and self.covariate.before else []
        lists = [] if self.periods or self.stored else self.of_lists
        return [*super().conditions, *before, *lists]

    @property
    def of_lists(self) -> list[str]:
        """The condition of queries that a system was asked: none is missing of the others."""
        return [] if self.plan.shape.of_one_system else ["is_ranked = 1"]

    @property
    def carried(self) -> tuple[str, ...]:
        """What a query has beside its values."""
        column = self.covariate.column if self.covariate else ""
        return (*dict.fromkeys([*super().carried, *([column] if column else [])]),)

    @property
    def is_averaged(self) -> bool:
        """Each day of a query counts for itself, and all are one cluster."""
        return False

    def stages(self) -> Iterator[Stage]:
        """From `per_query` to `query_values`."""
        yield from self.query_values()

    @property
    def source(self) -> str:
        """The stage of its values, with a covariate if there is one."""
        return "covered_values" if self.covariate else self.rows

    @property
    def row_columns(self) -> list[str]:
        """What a row of `source` has beside values: no covariate, which stands by its metric."""
        column = self.covariate.column if self.covariate else ""
        return [name for name in self.carried if name != column]

    @property
    def is_weighted(self) -> bool:
        """Whether queries have weights."""
        return self.weight != "1e0"

    @property
    def counted(self) -> tuple[str, ...]:
        """What a query adds to a cluster, of each metric."""
        weights = ("weight",) if self.is_weighted else ()
        return ("n_queries", *weights, "y", *(("n_covered", "c") if self.covariate else ()))

    def of(self, measure: Measure, side: str = "") -> dict[str, str]:
        """What is counted -> its column of a metric, or its sum on a side."""
        end = f"_{side}" if side else ""
        return {name: f"{measure.column}_{name}{end}" for name in self.counted}

    @property
    def variables(self) -> list[str]:
        """What a cluster has in `moments`: the sums of both sides."""
        names = ("weight", "y", *(("c",) if self.covariate else ()))
        return [f"{side}_{name}" for side in SIDES for name in names]


def samples_query(samples: Samples) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of their sums.

    It has up to three rows per system, segment and metric: of the clusters that both sides have,
    and of those that one has.
    """
    return [*_up_to_centres(samples), *_up_to_moments(samples)], "select *\nfrom moments"


def centres_query(samples: Samples) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of what values were summed less of."""
    return [*_up_to_centres(samples)], "select *\nfrom centres"


def _up_to_centres(samples: Samples) -> Iterator[Stage]:
    yield from samples.stages()
    if samples.covariate:
        yield from samples.covariate.stages(samples)
    about = "squares are summed about numbers near the means, so that no digits are lost"
    mean = samples.plan.translation.mean
    columns = [
        Column(mean(measure.column), f"{measure.column}_centre") for measure in samples.measures
    ]
    yield sums_stage("centres", about, ["system"], columns, samples.source)


def _up_to_moments(samples: Samples) -> Iterator[Stage]:
    if samples.covariate:
        yield _covariate_centres(samples, samples.covariate)
    yield _summed_values(samples)
    yield _sides(samples)
    keys, parts = (["system", *samples.unit], list[str]()), samples.segments
    total = samples.plan.translation.total
    sums = [
        Column(f"sum({cell})" if name.startswith("n_") else total(cell), f"{column}_{side}")
        for measure in samples.measures
        for side in SIDES
        for name, column in samples.of(measure).items()
        for cell in (f"{column} * of_{side}",)
    ]
    about = "one row per cluster, system and segment: the sums of both sides"
    yield segments_stage("both_sides", about, keys, sums, "sides", segments=parts)
    yield _metric_clusters(samples)
    yield _moments(samples)


def _covariate_centres(samples: Samples, covariate: Covariate) -> Stage:
    about = "the mean covariate of all systems; a query without a covariate gets this one"
    columns = []
    for measure in samples.measures:
        value = chosen_if(f"{measure.column} is not null", covariate.of(measure))
        mean = samples.plan.translation.mean
        columns.append(Column(mean(value), f"{measure.column}_before"))
    return columns_stage("covariate_centres", about, columns, samples.source)


def _summed_values(samples: Samples) -> Stage:
    rows = samples.source
    columns: list[object] = [f"{rows}.{name}" for name in samples.row_columns if name != "weight"]
    for measure in samples.measures:
        cells = _summed(samples, measure)
        columns += [Column(cells[name], column) for name, column in samples.of(measure).items()]
    view = {
        "about": "one row per query and system: the terms of the sums, by metric",
        "columns": columns,
        "from": rows,
        "to": "centres",
        "on": equal("centres", rows, ("system",)),
        "beside": "covariate_centres" if samples.covariate else "",
    }
    return Stage("summed_values", "comparison/join", view)


def _summed(samples: Samples, measure: Measure) -> dict[str, str]:
    """What is counted -> its value of a query, 0 where the metric has none."""
    rows, column = samples.source, measure.column
    weighted = f" * {rows}.weight" if samples.is_weighted else ""
    is_there = f"{rows}.{column} is not null"
    cells = {
        "n_queries": chosen_if(is_there, "1", "0"),
        "weight": chosen_if(is_there, f"{rows}.weight", "0e0"),
        "y": f"coalesce(({rows}.{column} - centres.{column}_centre){weighted}, 0e0)",
    }
    if samples.covariate:
        before = f"{rows}.{samples.covariate.of(measure)}"
        is_covered = f"{is_there} and {before} is not null"
        off = f"({before} - covariate_centres.{column}_before){weighted}"
        cells |= {
            "n_covered": chosen_if(is_covered, "1", "0"),
            "c": chosen_if(is_covered, off, "0e0"),
        }
    return cells


def _sides(samples: Samples) -> Stage:
    columns = [name for name in samples.row_columns if name not in ("weight", "system")]
    columns += [column for measure in samples.measures for column in samples.of(measure).values()]
    side_names = {"baseline": literal(samples.baseline), "systems": samples.systems}
    view = {"columns": columns, "from": "summed_values"}
    return Stage("sides", "comparison/sides", side_names | view)


def _metric_clusters(samples: Samples) -> Stage:
    metrics = []
    for measure in samples.measures:
        column_by_name = {
            f"{s}_{name}": column for s in SIDES for name, column in samples.of(measure, s).items()
        }
        system, baseline = (column_by_name[f"{side}_n_queries"] for side in SIDES)
        weights = {} if samples.is_weighted else _as_weights(system, baseline)
        columns = [
            Column(literal(measure.name), "metric"),
            Column(str(measure.k or 0), "k"),
            Column(found_in(system, baseline), "found_in"),
            *(Column(column, name) for name, column in (column_by_name | weights).items()),
        ]
        metrics.append({"columns": columns, "where": f"{system} + {baseline} > 0"})
    about = "one row per cluster, system, segment and metric with a value"
    view = {"about": about, "shared": ["system", *SEGMENT], "metrics": metrics}
    return Stage("metric_clusters", "comparison/metric_rows", view | {"from": "both_sides"})


def _as_weights(system: str, baseline: str) -> dict[str, str]:
    """Without weights, a cluster's are how many queries it has."""
    return {"system_weight": f"1e0 * {system}", "baseline_weight": f"1e0 * {baseline}"}


def found_in(system: str, baseline: str) -> str:
    """Which sides a cluster is on, by the columns of how much it has there."""
    whens = [f"    when {baseline} = 0 then 'system'", f"    when {system} = 0 then 'baseline'"]
    return "\n".join(["case", *whens, "    else 'both'", "end"])


def _moments(samples: Samples) -> Stage:
    counts = [name for name in samples.counted if name.startswith("n_")]
    keys, total = [*KEYS, "found_in"], samples.plan.translation.total
    return moments_stage(keys, counts, samples.variables, "metric_clusters", total)


def moments_stage(
    keys: Sequence[str],
    counted: Sequence[str],
    variables: Sequence[str],
    source: str,
    total: Callable[[str], str] = "sum({})".format,
) -> Stage:
    """Sums and products of variables over the clusters of each key.

    Args:
        keys: System, segment, metric and where clusters are.
        counted: What is counted of each side.
        variables: What a cluster has of both.
        source: One row per cluster and metric.
        total: The sum of an expression of floats; see `Translation.total`.
    """
    columns = [Column("count(*)", "n_clusters")]
    columns += [Column(f"sum({s}_{name})", f"{s}_{name}") for s in SIDES for name in counted]
    columns += [Column(total(name), f"sum_{name}") for name in variables]
    columns += [
        Column(total(f"{first} * {second}"), f"sum_{first}_{second}")
        for first, second in combinations_with_replacement(variables, 2)
    ]
    about = "one row per system, segment, metric and side of the clusters: sums and products"
    return sums_stage("moments", about, keys, columns, source)


def read(samples: Samples, rows: Sequence[Row], centres: Sequence[Row]) -> dict[Key, SampleMoments]:
    """What the rows of `samples_query` come to, also of what one side has not.

    Args:
        samples: What is compared.
        rows: Of `samples_query`.
        centres: Of `centres_query`.
    """
    columns = {(m.name, m.k or 0): f"{m.column}_centre" for m in samples.measures}
    return read_moments(rows, samples.variables, centres, columns, samples.baseline)


LISTED = 5
"""As many segments are named."""


def one_sided(
    moments_by_key: Mapping[Key, SampleMoments], baseline: str, counted: str
) -> Iterator[str]:
    """Notes of the segments of which a side has nothing of any metric, so that none is compared.

    Args:
        moments_by_key: Those of all keys.
        baseline: The system that the others are compared with.
        counted: What is counted, like `request`.
    """
    compared = {key[:3] for key, means in moments_by_key.items() if means.n and means.n_baseline}
    segments_by_side: dict[str, dict[str, None]] = {}
    for (system, name, value, *_), means in sorted(moments_by_key.items()):
        if (system, name, value) not in compared:
            side = baseline if means.n else system
            segments_by_side.setdefault(side, {})[segment_cell(name, value)] = None
    for side, segments in segments_by_side.items():
        n_hidden = len(segments) - LISTED
        names = ", ".join([*segments][:LISTED]) + (f" and {n_hidden:,} more" * (n_hidden > 0))
        yield f"not compared: {names}, where {printable(side)} has no {counted} with a value"


def read_moments(
    rows: Sequence[Row],
    names: Sequence[str],
    centres: Sequence[Row],
    centre_by_metric: Mapping[tuple[str, int], str],
    baseline: str,
    *,
    counted: str = "n_queries",
) -> dict[Key, SampleMoments]:
    """What the rows of `moments_stage` come to.

    Args:
        rows: Up to three of each key: of clusters of both sides, and of either.
        names: The variables.
        centres: What the values of each system were summed less of.
        centre_by_metric: A metric's name and cutoff -> its column there.
        baseline: The system that the others are compared with.
        counted: What a mean is said to be over.
    """
    rows_by_key: dict[Key, list[Row]] = {}
    for row in rows:
        rows_by_key.setdefault(key_of(row), []).append(row)
    centres_of = {row["system"]: row for row in centres}
    moments_by_key = {}
    for key, key_rows in rows_by_key.items():
        raw_centres = {
            side: centres_of.get(system, {}).get(centre_by_metric[key[-2:]])
            for side, system in zip(SIDES, (key[0], baseline), strict=True)
        }
        centre_by_side = {side: float(value or 0.0) for side, value in raw_centres.items()}
        moments_by_key[key] = _moments_of_groups(names, key_rows, centre_by_side, counted)
    return moments_by_key


def _moments_of_groups(
    names: Sequence[str], rows: Sequence[Row], centres: Mapping[str, float], counted: str
) -> SampleMoments:
    groups = {
        str(row["found_in"]): Group(
            int(row["n_clusters"]),
            {name: float(row[f"sum_{name}"]) for name in names},
            {
                (first, second): float(row[f"sum_{first}_{second}"])
                for first, second in combinations_with_replacement(names, 2)
            },
        )
        for row in rows
    }

    def total(name: str) -> int:
        return sum(int(row.get(name) or 0) for row in rows)

    return SampleMoments(
        n=total(f"system_{counted}"),
        n_other=total(f"baseline_{counted}"),
        n_covered=total("system_n_covered") + total("baseline_n_covered"),
        centres=centres,
        groups=groups,
        is_adjusted="system_c" in names,
        is_ratio="system_c_weight" in names,
    )


@dataclass(frozen=True)
class Covariate:
    """Where it comes from: one of the two.

    Attributes:
        name: As a person named it.
        column: The column of a fact of queries; empty if it is another.
        before: The days before the comparison, on which each metric is its own covariate; None if
            it is a column.
    """

    name: str
    column: str = ""
    before: Period | None = None

    def of(self, measure: Measure) -> str:
        """The column of a metric's covariate."""
        return "covariate" if self.column else f"{measure.column}_earlier"

    def stages(self, samples: Samples) -> Iterator[Stage]:
        """From `query_values` to `covered_values`: each query with what it had before."""
        if self.column:
            carried_columns = [
                *samples.row_columns,
                *(measure.column for measure in samples.measures),
            ]
            known_value = f"nullif({self.column}, {literal(UNKNOWN)})"
            number = Column(f"cast({known_value} as double)", "covariate")
            about = "each query with its covariate, NULL if it has none"
            yield columns_stage("covered_values", about, [*carried_columns, number], samples.rows)
            return
        key = samples.unit[-1]
        names = {key, *(measure.column for measure in samples.measures)}
        columns = [
            column for column in samples.columns() if getattr(column, "name", column) in names
        ]
        about = "one row per query and day before: its values"
        days = [self.before.condition] if self.before else []
        where = "\n    and ".join([*days, *samples.of_lists])
        yield columns_stage("earlier_rows", about, columns, "per_query", where)
        mean = samples.plan.translation.mean
        means = [
            Column(mean(measure.column), f"{measure.column}_earlier")
            for measure in samples.measures
        ]
        about = f"one row per {key.removesuffix('_id')}: its means before"
        yield sums_stage("earlier_values", about, [key], means, "earlier_rows")
        rows = samples.rows
        carried_columns = [
            *dict.fromkeys([*samples.carried, key]),
            *(m.column for m in samples.measures),
        ]
        view = {
            "about": "each query with its means before, NULL if it has none",
            "columns": [
                *(f"{rows}.{name}" for name in carried_columns),
                *(column.name for column in means),
            ],
            "kind": "left",
            "from": rows,
            "to": "earlier_values",
            "on": equal("earlier_values", rows, (key,)),
        }
        yield Stage("covered_values", "comparison/join", view)


# Ratios of two sides: sums over the users of both, as stages of SQL.
#
# A ratio is a sum over requests by another one: an online metric, or an estimate for lists that
# were
# not shown. A request stands on both sides where both have a list for it, and a user has the sums
# of
# their requests on each; products of the two tell how much they go together. What is summed of a
# request is what it is off the ratio of all (about its `centre`), so that no digits are lost.


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
        """What the rows come to, also of what has nothing to divide by on a side.

        Args:
            rows: Of `query`.
            centres: Of `centres`.
        """
        columns = {term.key: f"{term.column}_centre" for term in self.terms}
        return read_moments(
            rows, self.variables, centres, columns, self.baseline, counted="n_units"
        )


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
