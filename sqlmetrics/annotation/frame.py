"""The values of sampled queries in strata: by people's labels, and by a model's beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlmetrics.annotation.estimator import Stratum
from sqlmetrics.annotation.llm_labels import LlmValues
from sqlmetrics.annotation.prediction_powered import PairedStratum
from sqlmetrics.annotation.sample import WEIGHT, Key, Sample
from sqlmetrics.evaluation.report.result import Result

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
