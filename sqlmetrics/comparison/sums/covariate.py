"""What is known of a query, or of its user, from before: the covariate of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.periods import Period
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal

if TYPE_CHECKING:
    from sqlmetrics.comparison.sums.samples import Samples


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
            about = "each query with its covariate, NULL where it has none"
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
        means = [
            Column(f"avg({measure.column})", f"{measure.column}_earlier")
            for measure in samples.measures
        ]
        about = f"one row per {key.removesuffix('_id')}: the means of what it had before"
        yield sums_stage("earlier_values", about, [key], means, "earlier_rows")
        rows = samples.rows
        carried_columns = [
            *dict.fromkeys([*samples.carried, key]),
            *(m.column for m in samples.measures),
        ]
        view = {
            "about": "each query with the means of before, NULL where it had none",
            "columns": [
                *(f"{rows}.{name}" for name in carried_columns),
                *(mean.name for mean in means),
            ],
            "kind": "left",
            "from": rows,
            "to": "earlier_values",
            "on": equal("earlier_values", rows, (key,)),
        }
        yield Stage("covered_values", "comparison/join", view)
