"""Means of all queries from the graded sample: a result's queries, weighted as they were drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import Any

import pyarrow as pa

from sqlmetrics.annotation import estimator, pair_frames, pool, prediction_powered, reach
from sqlmetrics.annotation.estimator import Precision, SampleMean
from sqlmetrics.annotation.pair_frames import Frame, LlmLabels, LlmValues, Only, values_of
from sqlmetrics.annotation.prediction_powered import PairedStratum, PoweredEstimate
from sqlmetrics.annotation.sample import RANKS, WEIGHT, Key, Sample
from sqlmetrics.catalog.option import is_number
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.arguments import check_level
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Stage, equal, print_template, with_stages
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.table import Table, metric_value, printable, segment_cell
from sqlmetrics.tables.tabular import ArrowTables, Tabular, arrow_table

ALL = "all"
ESTIMATE_COLUMNS = (
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

OF_LLM = ("llm_value", "llm_weight", "gain", "n_llm", "n_saved")
"""Columns beside COLUMNS with labels by a model; see `prediction_powered.PoweredEstimate`."""

OF_WIDTH, OF_WIDTH_ALONE = "n_more", "n_more_alone"
"""Columns where a width is wanted: how many more people have to grade, with the labels of the model
if there are some, and without them."""

SAME = (
    "the model's labels give every sampled query the values that people's labels give; if "
    "people's grades were copied into them, the intervals are too short"
)

UNGRADED = ("error", "drop")
"""Sampled queries without a label: refused, or left out as if they were missing at random."""


@dataclass(frozen=True, repr=False)
class Checkup(Tabular):
    """What a graded sample says of all queries; it prints as a table.

    Attributes:
        table: One row per system, segment, metric and kind of mean, with COLUMNS, with OF_LLM
            where a model labelled queries too, and with OF_WIDTH where a width is wanted.
        level: The coverage of the intervals.
        notes: Sentences that a reader should know.
        result: The evaluation whose per-query values were used.
        units: What was drawn and graded: `queries` or `pairs` of a query and an item.
    """

    table: pa.Table
    level: float
    notes: tuple[str, ...]
    result: Result
    units: str = "queries"

    def _arrow_tables(self) -> ArrowTables:
        return {"estimates": lambda: self.table}

    def _blocks(self) -> Iterator[Table]:
        names = [
            "system",
            "segment",
            "metric",
            "mean over",
            "value",
            "interval",
            "graded",
            self.units,
        ]
        has_llm = "llm_weight" in self.table.column_names
        names += ["llm", "lambda", "gain", "saved"] if has_llm else []
        wanted = [name for name in (OF_WIDTH, OF_WIDTH_ALONE) if name in self.table.column_names]
        names += [name.removeprefix("n_").replace("_", " ") for name in wanted]
        rows = []
        for row in self.to_dicts():
            segment = segment_cell(row["segment_name"], row["segment_value"])
            value, low, high = (metric_value(row[key]) for key in ("value", "ci_low", "ci_high"))
            cells = [printable(row["system"]), segment, row["metric"], row["mean_over"], value]
            cells += [f"{low} to {high}", f"{row['n_graded']:,}", f"{row['n_population']:,}"]
            if has_llm:
                gain = "" if row["gain"] is None else f"x{row['gain']:.2f}"
                cells += [metric_value(row["llm_value"]), f"{row['llm_weight']:.2f}", gain]
                cells.append(_count(row["n_saved"]))
            cells += [_count(row[name]) for name in wanted]
            rows.append(cells)
        yield Table(
            names,
            rows,
            4,
            notes=[
                f"interval: the range that covers the true value with probability {self.level:.4g}",
                *([SAVED] if has_llm else []),
                *([MORE_NOTE] if wanted else []),
            ],
        )


SAVED = "saved: how many more to grade for such an interval without the model"
MORE_NOTE = "more: how many to add for the wanted width; -: the model has to label more"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def estimate(
    spec: Spec,
    engine: Database,
    sample: Sample,
    *,
    by: Sequence[str] = (),
    level: float = CONFIDENCE,
    ungraded: str = "error",
    complete: bool = False,
    llm: LlmLabels | None = None,
    width: float | None = None,
) -> Checkup:
    """The mean of each metric over all queries, for each system, from a graded sample.

    Every query's value is that of the evaluation itself; see `estimator.mean` for the
    estimator, and `prediction_powered.mean` for that with labels by a model. With weights
    there is a mean over traffic beside that over queries.

    Args:
        spec: The evaluation; its labels are the sample's grades.
        engine: Where the tables are.
        sample: The sample that was graded.
        by: Columns of the strata for whose values there are means too, like `country`.
        level: The coverage of the intervals, above 0 and below 1.
        ungraded: One of UNGRADED; it holds for the model's labels too.
        complete: Whether the sampled queries have all their labels, not only those of the
            items that are shown; NDCG, recall and the like need them.
        llm: Labels by a language model of many queries, if there are some.
        width: From the lower to the upper end of the interval that is wanted: how many more
            queries have to be graded is told.

    Raises:
        SpecError: If a metric has no per-query mean, or needs labels that no sheet asks for,
            or the sample is of another spec.
        InputError: If sampled queries have no label, or the data would give wrong numbers.
    """
    segments = [_segment(name, sample) for name in by]
    _refuse(spec, level, width)
    if not complete:
        reach.refuse(spec)
    spec = spec.having(by=())
    rows, notes, result = (_pair_rows if sample.has_items else _query_rows)(
        spec, engine, sample, llm, _EstimateOptions(segments, level, ungraded, width)
    )
    names = (*ESTIMATE_COLUMNS, *OF_LLM) if llm else ESTIMATE_COLUMNS
    if width is not None:
        names = (*names, OF_WIDTH, *([OF_WIDTH_ALONE] if llm else []))
    return Checkup(_table(rows, names), level, tuple(notes), result, sample.units)


@dataclass(frozen=True)
class _EstimateOptions:
    """What is asked of the estimates: see `estimate`."""

    segments: Sequence[str]
    level: float
    ungraded: str
    width: float | None

    def parts(self, sample: Sample) -> Iterator[tuple[Only | None, str]]:
        """All queries and the values of the segments, each with the kinds of mean."""
        parts: list[Only | None] = [None]
        for name in self.segments:
            parts += [(name, value) for value in sorted(set(sample.column(name)))]
        for part in parts:
            yield part, "queries"
            if WEIGHT in sample.names:
                yield part, "traffic"

    def cells(self, strata: Sequence[PairedStratum], llm: LlmLabels | None) -> tuple[Any, ...]:
        """The cells of a row, with a model's labels or by people alone."""
        if llm is None:
            return _alone(estimator.mean([s.people for s in strata], self.level), self.width)
        return _powered(prediction_powered.mean(strata, self.level, llm.weight), self.width)


_Rows = tuple[list[tuple[Any, ...]], list[str], Result]
"""The rows of the estimates, what to say of them, and the evaluation."""


def _query_rows(
    spec: Spec, engine: Database, sample: Sample, llm: LlmLabels | None, asked_for: _EstimateOptions
) -> _Rows:
    """The estimates from a sample of queries."""
    graded, notes, result = _measured(spec, engine, sample, asked_for.ungraded, "labels")
    model, sampled = None, {}
    if llm is not None:
        model, llm_notes = _labelled(spec, llm, engine, sample, asked_for.ungraded)
        keys = sample.texts(sample.keys)
        graded = [
            is_graded and key in model.keys for is_graded, key in zip(graded, keys, strict=True)
        ]
        notes, sampled = notes + llm_notes, values_of(model.result, sample)
    values_by_system = values_of(result, sample)
    if model and values_by_system == sampled and len(model.keys) > sum(graded):
        notes.append(SAME)
    rows: list[tuple[Any, ...]] = []
    for system, measure in product(sorted(values_by_system), result.measures):
        frame = Frame(sample, graded, values_by_system[system], system, measure.column)
        for part, over in asked_for.parts(sample):
            traffic = over == "traffic"
            if model:
                strata = frame.paired(model, sampled.get(system, {}), traffic, part)
            else:
                strata = [PairedStratum.alone(s) for s in frame.strata(traffic, part)]
            cells = asked_for.cells(strata, llm)
            rows.append((*_system_and_segment(system, part), str(measure), over, *cells))
    return rows, notes, result


def _pair_rows(
    spec: Spec, engine: Database, sample: Sample, llm: LlmLabels | None, asked_for: _EstimateOptions
) -> _Rows:
    """The estimates from a sample of pairs."""
    pair_frames.refuse(spec, sample, llm)
    graded, notes, result = _measured(spec, engine, sample, asked_for.ungraded, "labels")
    frames = pair_frames.PairFrames(spec, engine, sample, graded)
    if llm is not None:
        model, llm_notes = _labelled(spec, llm, engine, frames.queries, "drop")
        frames, notes = replace(frames, model=model), notes + llm_notes
    rows: list[tuple[Any, ...]] = []
    for system, measure in product(sorted(values_of(result, sample)), result.measures):
        for part, over in asked_for.parts(sample):
            strata = frames.strata(system, measure, over == "traffic", part)
            cells = asked_for.cells(strata, llm)
            rows.append((*_system_and_segment(system, part), str(measure), over, *cells))
    return rows, notes, result


def _system_and_segment(system: str, part: Only | None) -> tuple[str, str, str]:
    """The system and the segment of a row."""
    name, value = part or (ALL, ALL)
    return system, name.removeprefix("by_"), value


def _measured(
    spec: Spec, engine: Database, sample: Sample, ungraded: str, whose: str
) -> tuple[list[bool], list[str], Result]:
    """Which queries of a sample have a label, what to say of the others, and the evaluation."""
    tables = opened(spec, engine)
    plan = make_plan(spec, tables)
    result = run(spec, tables, engine)
    stage = sample.stage(plan, engine)
    without = _without(plan, engine, sample, stage)
    graded, notes = _graded(sample, without, ungraded, whose)
    if not sample.has_items:
        notes += _shown_notes(plan, engine, stage, whose)
    return graded, notes, result


def _labelled(
    spec: Spec, llm: LlmLabels, engine: Database, sample: Sample, ungraded: str
) -> tuple[LlmValues, list[str]]:
    """What the model labelled, and what to say of it."""
    population = llm.population(sample, engine)
    llm_spec = llm.spec.having(by=(), metrics=tuple(measure.text for measure in spec.measures))
    labelled, notes, result = _measured(
        llm_spec, engine, population, ungraded, "the model's labels"
    )
    return LlmValues(population, labelled, result), notes


def _powered(powered: PoweredEstimate, width: float | None) -> tuple[Any, ...]:
    of_llm = (powered.llm_value, powered.llm_weight, powered.gain, powered.n_llm, powered.saved)
    precisions = (powered.estimate.precision, powered.alone)
    more_needed = (
        ()
        if width is None
        else tuple(_missing_grades(precision, width) for precision in precisions)
    )
    return (*_cells(powered.estimate), *of_llm, *more_needed)


def _alone(mean_estimate: SampleMean, width: float | None) -> tuple[Any, ...]:
    more_needed = () if width is None else (_missing_grades(mean_estimate.precision, width),)
    return (*_cells(mean_estimate), *more_needed)


def _missing_grades(precision: Precision | None, width: float) -> int | None:
    """How many more people have to grade for an interval so narrow."""
    needed = precision.needed(width) if precision else None
    return None if precision is None or needed is None else max(0, needed - precision.n)


def _cells(mean_estimate: SampleMean) -> tuple[Any, ...]:
    return (
        mean_estimate.value,
        mean_estimate.standard_error,
        mean_estimate.low,
        mean_estimate.high,
        mean_estimate.df,
        mean_estimate.counted,
        mean_estimate.n_drawn,
        mean_estimate.population,
    )


def _segment(name: str, sample: Sample) -> str:
    columns = (column for column in sample.strata_names if column != RANKS)
    column_by_segment = {column.removeprefix("by_"): column for column in columns}
    if name not in column_by_segment:
        raise SpecError(unknown("stratum column", name, column_by_segment))
    return column_by_segment[name]


def _refuse(spec: Spec, level: float, width: float | None) -> None:
    check_level("the confidence level", level)
    if width is not None and not (is_number(width) and 0 < width < inf):
        raise SpecError(f"width must be a number above 0 such as 0.02, given {width!r}")
    for measure in spec.measures:
        if not spec.settings(measure).is_mean:
            raise SpecError(f"{measure} is not a mean of per-query values; leave it out")


def _without(plan: Plan, engine: Database, sample: Sample, stage: Stage) -> set[Key]:
    """The sampled queries that have no label."""
    labels, keys = plan.shape.names["labels"], plan.shape.label_keys
    keys = (*keys, *(["item_id"] if sample.has_items else []))
    on = equal(labels, "sample_queries", keys)
    view = {"keys": sample.unit_keys, "labels": labels, "on": on}
    last = print_template("annotation/ungraded", view)
    rows = engine.rows(with_stages([*plan.inputs, stage], last))
    return {tuple(map(str, row)) for row in rows}


def _graded(
    sample: Sample, without: set[Key], ungraded: str, whose: str
) -> tuple[list[bool], list[str]]:
    """Whether each row of the sample has a label, and what to say if some have none."""
    flags = [key not in without for key in sample.texts(sample.unit_keys)]
    units = sample.units
    if without and ungraded == "error":
        examples = ", ".join(repr(" ".join(key)) for key in sorted(without)[:3])
        raise InputError(
            f"{whose}: {len(without):,} of {len(flags):,} sampled {units} have no label, like "
            f"{examples}; grade them, or leave them out with --ungraded drop"
        )
    note = f"{len(without):,} of {len(flags):,} sampled {units} have no label and are left out"
    return flags, [_note_of(note, whose)] if without else []


def _shown_notes(plan: Plan, engine: Database, stage: Stage, whose: str) -> list[str]:
    """How many items that the metrics look at were never graded."""
    last_ranks = {reach.last_rank(plan.spec, measure) for measure in plan.measures}
    k = None if None in last_ranks else max(rank for rank in last_ranks if rank is not None)
    if k == 0:
        return []
    view = {"k": k, "on": equal("sample_queries", "ranked", plan.shape.query_keys)}
    last = print_template("annotation/unlabelled", view)
    n_shown, n_unlabelled = engine.rows(with_stages([*pool.stages(plan), stage], last))[0]
    if not n_unlabelled:
        return []
    where = f"in the top {k} of" if k else "in"
    note = f"{n_unlabelled:,} of {n_shown:,} items {where} the sampled lists have no label"
    return [_note_of(note, whose)]


def _note_of(note: str, whose: str) -> str:
    """A note that says whose labels it is about, where they are not the sample's grades."""
    return note if whose == "labels" else f"{whose}: {note}"


def _table(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> pa.Table:
    counts = (name for name in names if name.startswith("n_"))
    kinds = dict.fromkeys(names, "double") | dict.fromkeys(ESTIMATE_COLUMNS[:5], "string")
    kinds |= dict.fromkeys(counts, "int64")
    return arrow_table((dict(zip(names, row, strict=True)) for row in rows), kinds)
