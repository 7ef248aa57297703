"""Means of all queries from the graded sample: a result's queries, weighted as they were drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlmetrics.annotation import estimator, pool, reach
from sqlmetrics.annotation.estimator import Estimate, Stratum
from sqlmetrics.annotation.sample import WEIGHT, Sample
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.evaluation.run import run
from sqlmetrics.plan.plan import Plan, plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, equal, print_template, with_stages

ALL = "all"
COLUMNS = (
    "system",
    "segment_name",
    "segment_value",
    "metric",
    "mean_over",
    "value",
    "standard_error",
    "ci_low",
    "ci_high",
    "df",
    "n_counted",
    "n_graded",
    "n_population",
)
"""The columns of the estimates. `mean_over` is `queries` (each counts 1) or `traffic`."""

UNGRADED = ("error", "drop")
"""Sampled queries without a label: refused, or left out as if they were missing at random."""


@dataclass(frozen=True)
class Checkup:
    """What a graded sample says of all queries.

    Attributes:
        table: One row per system, segment, metric and kind of mean, with COLUMNS.
        level: The coverage of the intervals.
        notes: Sentences that a reader should know.
        result: The evaluation whose per-query values were used.
    """

    table: pa.Table
    level: float
    notes: tuple[str, ...]
    result: Result


def estimate(
    spec: Spec,
    engine: Database,
    sample: Sample,
    *,
    by: Sequence[str] = (),
    level: float = 0.95,
    ungraded: str = "error",
    complete: bool = False,
) -> Checkup:
    """The mean of each metric over all queries, for each system, from a graded sample.

    Every query's value is that of the evaluation itself; see `estimator.mean` for the
    estimator. With weights there is a mean over traffic beside that over queries.

    Args:
        spec: The evaluation; its labels are the sample's grades.
        engine: Where the tables are.
        sample: The sample that was graded.
        by: Columns of the strata for whose values there are means too, like `country`.
        level: The coverage of the intervals, above 0 and below 1.
        ungraded: One of UNGRADED.
        complete: Whether the sampled queries have all their labels, not only those of the
            items that are shown; NDCG, recall and the like need them.

    Raises:
        SpecError: If a metric has no per-query mean, or needs labels that no sheet asks for,
            or the sample is of another spec.
        InputError: If sampled queries have no label, or the data would give wrong numbers.
    """
    segments = [_segment(name, sample) for name in by]
    _refuse(spec, level)
    if not complete:
        reach.refuse(spec)
    spec = spec.having(by=())
    tables = opened(spec, engine)
    the_plan = plan(spec, tables)
    result = run(spec, tables, engine)
    stage = sample.stage(the_plan, engine)
    graded, notes = _graded(the_plan, engine, sample, stage, ungraded)
    notes += _shown_notes(the_plan, engine, stage)
    rows: list[tuple[Any, ...]] = []
    found = _values(result, sample)
    for system in sorted(found):
        for measure in result.measures:
            frame = _Frame(sample, graded, found[system], measure.column)
            for row in _estimates(frame, segments, level):
                rows.append((system, *row[:2], str(measure), *row[2:]))
    return Checkup(_table(rows), level, tuple(notes), result)


@dataclass(frozen=True)
class _Frame:
    """The values of one system and metric, ready to be put into strata."""

    sample: Sample
    graded: Sequence[bool]
    values: dict[tuple[str, ...], dict[str, Any]]
    column: str

    def strata(self, traffic: bool, only: tuple[str, str] | None) -> list[Stratum]:
        """The strata, all of them or those of one segment's value."""
        names = self.sample.strata_names
        grouped: dict[tuple[Any, ...], list[int]] = {}
        for i, stratum in enumerate(self.sample.of((*names, "stratum_size"))):
            if only is None or stratum[names.index(only[0])] == only[1]:
                grouped.setdefault(stratum, []).append(i)
        keys = [tuple(map(str, key)) for key in self.sample.of(self.sample.keys)]
        weights = self.sample.column(WEIGHT) if traffic else [1.0] * len(keys)
        strata = []
        for stratum, rows in grouped.items():
            mine = [i for i in rows if self.graded[i]]
            values = [self.values.get(keys[i], {}).get(self.column) for i in mine]
            name = ", ".join(stratum[:-1]) or "the sample"
            strata.append(Stratum(stratum[-1], values, [weights[i] for i in mine], name))
        return strata


def _estimates(frame: _Frame, segments: Sequence[str], level: float) -> Iterator[tuple[Any, ...]]:
    """One row per segment and kind of mean."""
    parts: list[tuple[str, str] | None] = [None]
    parts += [(s, v) for s in segments for v in sorted(set(frame.sample.column(s)))]
    for part in parts:
        for over in ("queries", "traffic"):
            if over == "queries" or WEIGHT in frame.sample.names:
                found = estimator.mean(frame.strata(over == "traffic", part), level)
                name, value = part or (ALL, ALL)
                yield (name.removeprefix("by_"), value, over, *_cells(found))


def _cells(found: Estimate) -> tuple[Any, ...]:
    return (
        found.value,
        found.standard_error,
        found.low,
        found.high,
        found.df,
        found.counted,
        found.drawn,
        found.population,
    )


def _segment(name: str, sample: Sample) -> str:
    known = {column.removeprefix("by_"): column for column in sample.strata_names}
    if name not in known:
        raise SpecError(unknown("stratum column", name, known))
    return known[name]


def _refuse(spec: Spec, level: float) -> None:
    if not 0 < level < 1:
        raise SpecError(f"level must be above 0 and below 1, like 0.95, given {level}")
    for measure in spec.measures:
        if not spec.settings(measure).is_mean:
            raise SpecError(f"{measure} is no mean of per-query values; leave it out")


def _graded(
    the_plan: Plan, engine: Database, sample: Sample, stage: Stage, ungraded: str
) -> tuple[list[bool], list[str]]:
    """Whether each row of the sample has a label, and what to say if some have none."""
    labels, keys = the_plan.shape.names["labels"], the_plan.shape.label_keys
    view = {"keys": sample.keys, "labels": labels, "on": equal(labels, "sample_queries", keys)}
    last = print_template("annotation/ungraded", view)
    without = {
        tuple(map(str, row)) for row in engine.rows(with_stages([*the_plan.inputs, stage], last))
    }
    flags = [tuple(map(str, key)) not in without for key in sample.of(sample.keys)]
    if without and ungraded == "error":
        examples = ", ".join(repr(" ".join(key)) for key in sorted(without)[:3])
        raise InputError(
            f"labels: {len(without):,} of {len(flags):,} sampled queries have no label, like "
            f"{examples}; grade them, or leave them out with --ungraded drop"
        )
    note = f"{len(without):,} of {len(flags):,} sampled queries have no label and are left out"
    return flags, [note] if without else []


def _shown_notes(the_plan: Plan, engine: Database, stage: Stage) -> list[str]:
    """How many items that the metrics look at were never graded."""
    last_ranks = {reach.last_rank(the_plan.spec, one) for one in the_plan.measures}
    k = None if None in last_ranks else max(one for one in last_ranks if one is not None)
    if k == 0:
        return []
    view = {"k": k, "on": equal("sample_queries", "ranked", the_plan.shape.query_keys)}
    last = print_template("annotation/unlabelled", view)
    n_shown, n_unlabelled = engine.rows(with_stages([*pool.stages(the_plan), stage], last))[0]
    if not n_unlabelled:
        return []
    where = f"in the top {k} of" if k else "in"
    return [f"{n_unlabelled:,} of {n_shown:,} items {where} the sampled lists have no label"]


def _values(result: Result, sample: Sample) -> dict[str, dict[tuple[str, ...], dict[str, Any]]]:
    """System -> query -> the values of its metrics, for the sampled queries."""
    table = result.per_query()
    systems = pc.unique(table["system"]).to_pylist()
    queries = pa.array(sample.column("query_id"), pa.string())
    rows = table.filter(pc.is_in(table["query_id"], value_set=queries)).to_pylist()
    found: dict[str, dict[tuple[str, ...], dict[str, Any]]] = {name: {} for name in systems}
    for row in rows:
        found[row["system"]][tuple(str(row[key]) for key in sample.keys)] = row
    return found


def _table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    types = [pa.string()] * 5 + [pa.float64()] * 5 + [pa.int64()] * 3
    columns = [[row[i] for row in rows] for i in range(len(COLUMNS))]
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(COLUMNS))
