"""The strata of a sample of pairs: what each pair adds to a metric, by people and by a model.

A metric that is a sum over the items of a list, such as DCG, is known from a sample of pairs of a
query and an item: each stands for N / n pairs of its stratum. The model's labels correct it pair by
pair, as PRECISE does for precision at k (Divekar and Majumder, arXiv 2601.18777 and 2606.05308).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlmetrics.annotation import reach
from sqlmetrics.annotation.estimator import Stratum
from sqlmetrics.annotation.prediction_powered import PairedStratum
from sqlmetrics.annotation.sample import (
    DESIGN,
    ITEM,
    RANKS,
    TRAFFIC,
    WEIGHT,
    Key,
    Sample,
    draw,
    strata_sums,
)
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, equal, print_template, with_stages

# The labels of a language model: the queries that it labelled, and their values by them.

Sums = Mapping[tuple[str, Key], tuple[float, float]]
"""(System, stratum) -> sum of weight x value, and of the weights where there is a value."""

EVERY = 2**62
"""More queries than there are."""


@dataclass(frozen=True)
class LlmLabels:
    """What a language model labelled.

    Attributes:
        spec: The same evaluation with the model's labels.
        sample: The queries that it labelled, drawn as the sample that people graded, which is
            a part of it (the same seed and strata draw it so); None if it labelled all queries
            of the rankings.
        weight: What its labels weigh (lambda): None for the weight that makes the interval
            shortest, 1 for plain prediction-powered inference.
    """

    spec: Spec
    sample: Sample | None = None
    weight: float | None = None

    def population(self, people: Sample, engine: Database) -> Sample:
        """The queries that the model labelled, checked against those that people graded.

        Raises:
            InputError: If people's are not among them, or the strata are others.
        """
        if self.sample is None:
            strata = [name for name in people.strata_names if name != TRAFFIC]
            sample = draw(
                self.spec,
                engine,
                EVERY,
                by=[name.removeprefix("by_") for name in strata],
                traffic=TRAFFIC in people.strata_names,
            )
            source = "the rankings"
        else:
            sample, source = self.sample, "the model's sample"
        _refuse_apart(people, sample, source)
        return sample


@dataclass(frozen=True)
class LlmValues:
    """The values of all queries that the model labelled, by its labels.

    Attributes:
        population: These queries, with their strata.
        labelled: Whether each has a label at all.
        result: Their evaluation.
    """

    population: Sample
    labelled: Sequence[bool]
    result: Result
    _sums: dict[tuple[str, bool], Sums] = field(default_factory=dict, repr=False)

    @cached_property
    def keys(self) -> set[Key]:
        """The queries that have a label."""
        rows = self.population.texts(self.population.keys)
        return {key for key, is_labelled in zip(rows, self.labelled, strict=True) if is_labelled}

    @cached_property
    def counts(self) -> Mapping[Key, int]:
        """Stratum -> queries that have a label."""
        count_by_stratum: dict[Key, int] = {}
        rows = self.population.texts(self.population.strata_names)
        for key, is_labelled in zip(rows, self.labelled, strict=True):
            count_by_stratum[key] = count_by_stratum.get(key, 0) + is_labelled
        return count_by_stratum

    def sums(self, column: str, traffic: bool) -> Sums:
        """What the model's values of a metric add up to; with traffic each counts its weight."""
        if (column, traffic) not in self._sums:
            self._sums[column, traffic] = self._added(column, traffic)
        return self._sums[column, traffic]

    def _added(self, column: str, traffic: bool) -> Sums:
        table = self._weighted
        weight = table[WEIGHT] if traffic else pa.repeat(1.0, table.num_rows)
        parts = {
            "system": table["system"],
            "stratum": table["stratum"],
            "top": pc.multiply(table[column], weight),
            "bottom": pc.if_else(pc.is_valid(table[column]), weight, 0.0),
        }
        grouped = pa.table(parts).group_by(["system", "stratum"])
        strata = list(self.counts)
        return {
            (row["system"], strata[row["stratum"]]): (row["top_sum"] or 0.0, row["bottom_sum"])
            for row in grouped.aggregate([("top", "sum"), ("bottom", "sum")]).to_pylist()
        }

    @cached_property
    def _weighted(self) -> pa.Table:
        """The values of the labelled queries, with the number of the stratum and the weight."""
        sample, numbers = self.population, {key: i for i, key in enumerate(self.counts)}
        keys = sample.texts(sample.keys)
        key_columns = {name: [key[i] for key in keys] for i, name in enumerate(sample.keys)}
        strata = [numbers[key] for key in sample.texts(sample.strata_names)]
        weights = sample.column(WEIGHT) if WEIGHT in sample.names else [1.0] * len(keys)
        frame = pa.table(key_columns | {"stratum": strata, WEIGHT: weights}).filter(
            pa.array(self.labelled)
        )
        values = self.result.per_query()
        for i, name in enumerate(values.column_names):
            if name in sample.keys:
                values = values.set_column(i, name, pc.cast(values[name], pa.string()))
        return values.join(frame, list(sample.keys), join_type="inner")


def _refuse_apart(people: Sample, llm: Sample, source: str) -> None:
    """Refuse queries of the model that people's sample was not drawn from."""
    remedy = "draw both with the same --by, --traffic and --seed from the same rankings"
    if (people.keys, people.strata_names) != (llm.keys, llm.strata_names):
        sample_columns, llm_columns = (
            ", ".join((*sample.keys, *sample.strata_names)) for sample in (people, llm)
        )
        raise InputError(
            f"the sample's queries and strata are by {sample_columns}, those of "
            f"{source} by {llm_columns}; {remedy}"
        )
    sizes, llm_sizes = (
        {tuple(stratum): size for *stratum, size in sample.of((*sample.strata_names, DESIGN[0]))}
        for sample in (people, llm)
    )
    for stratum, size in sizes.items():
        if llm_sizes.get(stratum) != size:
            raise InputError(
                f"{', '.join(stratum) or 'all queries'}: {size:,} queries when the sample was "
                f"drawn, {llm_sizes.get(stratum, 0):,} in {source}; {remedy}"
            )
    missing_queries = sorted(set(people.texts(people.keys)) - set(llm.texts(llm.keys)))
    if missing_queries:
        raise InputError(
            f"{len(missing_queries):,} of {len(people.rows):,} sampled queries are not "
            f"in {source}, like "
            f"{' '.join(missing_queries[0])!r}; {remedy}"
        )


# The values of sampled queries in strata: by people's labels, and by a model's beside them.

Only = tuple[str, str]
"""A column of the strata, and one of its values."""

Values = Mapping[Key, Mapping[str, Any]]
"""Query -> the values of its metrics; None where a metric leaves it out."""


@dataclass(frozen=True)
class Frame:
    """The values of one system and metric.

    Attributes:
        sample: The sampled queries.
        graded: Whether each of them counts.
        values: Their values by people's labels.
        system: The system.
        column: The metric.
    """

    sample: Sample
    graded: Sequence[bool]
    values: Values
    system: str
    column: str

    def strata(self, traffic: bool, only: Only | None = None) -> list[Stratum]:
        """The strata, all of them or those of one segment's value."""
        return [stratum for _, stratum, _ in self._strata(traffic, only)]

    def paired(
        self, model: LlmValues, sampled: Values, traffic: bool, only: Only | None = None
    ) -> list[PairedStratum]:
        """The strata with the model's values beside them.

        Args:
            model: What the model labelled.
            sampled: The values of the sampled queries by its labels.
            traffic: Whether a query counts its weight, not 1.
            only: The strata of one segment's value; None for all.
        """
        sums = model.sums(self.column, traffic)
        nothing: Mapping[str, Any] = {}
        return [
            PairedStratum(
                stratum,
                [sampled.get(query, nothing).get(self.column) for query in queries],
                model.counts[key],
                *sums.get((self.system, key), (0.0, 0.0)),
            )
            for key, stratum, queries in self._strata(traffic, only)
        ]

    def _strata(self, traffic: bool, only: Only | None) -> list[tuple[Key, Stratum, list[Key]]]:
        """Each stratum: its columns, its values and its queries."""
        names, sizes = self.sample.strata_names, {}
        grouped: dict[Key, list[int]] = {}
        for i, (*columns, size) in enumerate(self.sample.of((*names, "stratum_size"))):
            if only is None or columns[names.index(only[0])] == only[1]:
                grouped.setdefault(tuple(columns), []).append(i)
                sizes[tuple(columns)] = size
        queries = self.sample.texts(self.sample.keys)
        weights = self.sample.column(WEIGHT) if traffic else [1.0] * len(queries)
        nothing: Mapping[str, Any] = {}
        strata = []
        for key, rows in grouped.items():
            graded_rows = [i for i in rows if self.graded[i]]
            values = [self.values.get(queries[i], nothing).get(self.column) for i in graded_rows]
            name = ", ".join(key) or "the sample"
            stratum = Stratum(sizes[key], values, [weights[i] for i in graded_rows], name)
            strata.append((key, stratum, [queries[i] for i in graded_rows]))
        return strata


def values_of(result: Result, sample: Sample) -> dict[str, Values]:
    """System -> query -> the values of its metrics, for the sampled queries."""
    table = result.per_query()
    systems = pc.unique(table["system"]).to_pylist()
    queries = pa.array(sample.column("query_id"), pa.string())
    rows = table.filter(pc.is_in(table["query_id"], value_set=queries)).to_pylist()
    values_by_system: dict[str, dict[Key, dict[str, Any]]] = {name: {} for name in systems}
    for row in rows:
        values_by_system[row["system"]][tuple(str(row[key]) for key in sample.keys)] = row
    return dict(values_by_system)


ADDITIVE = ("cg", "dcg", "precision", "rbp")
"""Metrics that are a sum over the items of a list, of what each is worth at its rank."""

SETTINGS = {
    "precision_denominator": "k",
    "rounding": "none",
    "unjudged": "nonrelevant",
    "missing": "zero",
    "average_over": "labels",
    "average": "macro",
}
"""Option -> the choice with which they are one, and their mean is over all queries."""

Addends = Mapping[tuple[str, Key], Mapping[str, float]]
"""(System, pair) -> what it adds to each metric; nothing of pairs that the system does not show."""


def refuse(spec: Spec, sample: Sample, llm: LlmLabels | None) -> None:
    """Raise SpecError for what a sample of pairs says nothing of."""
    not_additive = [
        str(measure) for measure in spec.measures if measure.metric.name not in ADDITIVE
    ]
    if not_additive:
        raise SpecError(
            f"{', '.join(not_additive)}: no sum over the items of a list, so a sample of "
            "pairs does not tell it (NDCG is divided by the best list, which all labels of the "
            f"query make); estimate {', '.join(ADDITIVE)}, or draw queries (sample --unit query)"
        )
    for measure in spec.measures:
        settings = spec.settings(measure)
        for option, choice in SETTINGS.items():
            if option != "precision_denominator" or measure.metric.name == "precision":
                given_choice = settings.choice(option).name
                if given_choice != choice:
                    raise SpecError(
                        f"{measure}: with {option}={given_choice} it is no sum over all queries "
                        f"and items, so a sample of pairs does not tell it; take {option}={choice},"
                        " or draw queries (sample --unit query)"
                    )
        last = reach.last_rank(spec, measure)
        if last is None or last > sample.depth:
            raise SpecError(
                f"{measure}: looks at ranks below {sample.depth}, from which no pair was drawn; "
                f"take @{sample.depth} or less, or draw from deeper ranks (sample -k)"
            )
    if llm is not None:
        _refuse_model(sample, llm)


def _refuse_model(sample: Sample, llm: LlmLabels) -> None:
    if RANKS in sample.names:
        raise SpecError(
            "labels of a model need pairs of all ranks drawn alike; draw them without --rate"
        )
    if llm.sample is not None:
        raise SpecError(
            "the model must have labelled the items of all queries where pairs were drawn; leave "
            "its sample out (--llm-sample)"
        )


@dataclass(frozen=True)
class PairFrames:
    """The values of sampled pairs.

    Attributes:
        spec: The evaluation; its labels are the sample's grades.
        engine: Where the tables are.
        sample: The sampled pairs.
        graded: Whether each of them has a label.
        model: What a model labelled, if one did.
        llm: Its labels.
    """

    spec: Spec
    engine: Database
    sample: Sample
    graded: Sequence[bool]
    model: LlmValues | None = None

    @property
    def _strata(self) -> dict[str, Any]:
        names = self.sample.strata_names
        by = [name.removeprefix("by_") for name in names if name not in (TRAFFIC, RANKS)]
        return {"by": by, "traffic": TRAFFIC in names}

    @cached_property
    def queries(self) -> Sample:
        """All queries of the rankings, with their strata."""
        return draw(self.spec, self.engine, EVERY, **self._strata)

    @cached_property
    def sizes(self) -> Mapping[Key, tuple[int, float]]:
        """Stratum -> its queries, and their weights.

        Raises:
            InputError: If the rankings have other pairs than those that the sample was drawn from.
        """
        of_pairs = {**self._strata, "k": self.sample.depth, "bands": self.sample.bands}
        pairs = strata_sums(self.spec, self.engine, **of_pairs)
        names = (*self.sample.strata_names, "stratum_size")
        for *columns, size in {*self.sample.of(names)}:
            existing, _ = pairs.get(tuple(map(str, columns)), (0, 0.0))
            if existing != size:
                raise InputError(
                    f"{', '.join(columns) or 'all queries'}: {size:,} pairs when the sample was "
                    f"drawn, {existing:,} in the rankings; draw the sample again from these"
                )
        return strata_sums(self.spec, self.engine, **self._strata)

    @cached_property
    def people(self) -> Addends:
        """What each pair adds by the labels of people."""
        return addends(self.spec, self.engine, self.sample)

    @cached_property
    def llm(self) -> Addends:
        """What each pair adds by the labels of the model."""
        return addends(self.model.result.spec, self.engine, self.sample) if self.model else {}

    def strata(
        self, system: str, measure: Measure, traffic: bool, only: Only | None = None
    ) -> list[PairedStratum]:
        """The strata, all of them or those of one segment's value.

        A value is what a pair adds to the metric, as many times as there are pairs a query, so that
        the mean of all pairs is the mean of all queries.

        Args:
            system: The system.
            measure: The metric.
            traffic: Whether a query counts its weight, not 1.
            only: The strata of one segment's value; None for all.
        """
        names = self.sample.strata_names
        rows: dict[Key, list[int]] = {}
        sizes: dict[Key, int] = {}
        for i, (*columns, size) in enumerate(self.sample.of((*names, "stratum_size"))):
            if only is None or columns[names.index(only[0])] == only[1]:
                sizes[tuple(columns)] = size
                rows.setdefault(tuple(columns), [])
                if self.graded[i]:
                    rows[tuple(columns)].append(i)
        n_names = len(names) - (RANKS in names)  # a query is in each range of ranks
        population = sum(self.sizes[key][traffic] for key in {key[:n_names] for key in rows})
        scale = sum(sizes.values()) / population if population else 0.0
        sums = self.model.sums(measure.column, traffic) if self.model else {}
        pairs = self.sample.texts(self.sample.unit_keys)
        weights = self.sample.column(WEIGHT) if traffic else [1.0] * len(pairs)
        strata = []
        for key, row_numbers in rows.items():
            by_people, by_llm = (
                [
                    scale * weights[i] * added.get((system, pairs[i]), {}).get(measure.column, 0.0)
                    for i in row_numbers
                ]
                for added in (self.people, self.llm)
            )
            people = Stratum(sizes[key], by_people, None, ", ".join(key) or "the sample")
            top = sums.get((system, key), (0.0, 0.0))[0] * scale
            strata.append(PairedStratum(people, by_llm, sizes[key], top, float(sizes[key])))
        return strata


def addends(spec: Spec, engine: Database, sample: Sample) -> Addends:
    """What each sampled pair adds to the metrics of a list, from the sums of its item alone."""
    plan = make_plan(spec, opened(spec, engine))
    keys = (*plan.shape.keys, ITEM)
    stages: list[Stage] = [*plan.inputs, sample.stage(plan, engine)]
    for stage in plan.per_query:
        view = dict(stage.view)
        if stage.name == "ranked" and not plan.needs.reads_item:
            view["columns"] = [*view["columns"], f"{view['rankings']}.{ITEM}"]
        if stage.name == "list_sums":
            prefix = f"{view['from']}." if view["joins"] else ""
            view["about"] = "one row per list and item: what the item alone adds"
            view["keys"] = [*view["keys"], f"{prefix}{ITEM}"]
        stages.append(Stage(stage.name, stage.template, view, stage.hint))
        if stage.name == "list_sums":
            break
    values = [Column(plan.needs.plain_value(m), m.column) for m in plan.measures]
    view = {
        "about": "the sampled pairs",
        "columns": [*(f"list_sums.{key}" for key in keys), *values],
        "from": "list_sums",
        "to": "sample_queries",
        "on": equal("sample_queries", "list_sums", sample.unit_keys),
    }
    sql = with_stages(stages, print_template("comparison/join", view))
    values_by_pair: dict[tuple[str, Key], dict[str, float]] = {}
    for row in engine.records(sql):
        pair = tuple(str(row[key]) for key in sample.unit_keys)
        system = str(row.get("system", spec.title))
        values_by_pair[system, pair] = {m.column: float(row[m.column]) for m in plan.measures}
    return values_by_pair
