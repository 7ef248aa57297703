"""Systems that need not have run on the same queries: sums of each, as stages of SQL.

A cluster has its sums under each system. Where it is on both sides, like a query of two days or a
user who was shown both, products of the two sums tell how much they go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.periods import Period
from sqlmetrics.comparison.statements import chosen_if, columns_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.moments import KEYS, Key, key_of
from sqlmetrics.comparison.sums.pairing import SEGMENT, Pairing
from sqlmetrics.comparison.sums.welch import SIDES, Group, SampleMoments
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal
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
    def known(self) -> list[str]:
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
    columns: list[object] = [f"{rows}.{name}" for name in samples.known if name != "weight"]
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
    columns = [name for name in samples.known if name not in ("weight", "system")]
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
    """What the rows of `samples_query` come to; what one side has not is not there.

    Args:
        samples: What is compared.
        rows: Of `samples_query`.
        centres: Of `centres_query`.
    """
    columns = {(m.name, m.k or 0): f"{m.column}_centre" for m in samples.measures}
    moments_by_key = read_moments(rows, samples.variables, centres, columns, samples.baseline)
    return {key: means for key, means in moments_by_key.items() if means.n and means.n_baseline}


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
            carried_columns = [*samples.known, *(measure.column for measure in samples.measures)]
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
