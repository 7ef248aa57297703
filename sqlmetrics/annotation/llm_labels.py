"""The labels of a language model: the queries that it labelled, and their values by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from sqlmetrics.annotation.draw import draw
from sqlmetrics.annotation.sample import DESIGN, TRAFFIC, WEIGHT, Key, Sample
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.spec.spec import Spec

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
