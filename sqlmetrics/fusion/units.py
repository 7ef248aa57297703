"""The sums of queries that say which variant is best: all that leaves the database of queries.

Queries, or clusters of them, stand in the order of a hash of their ids with a seed. Where they are
many they are summed in groups; the error of an interval's width is about 1 in sqrt(2 x groups).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.statements import Statements, join_stage, segments_stage
from sqlmetrics.comparison.sums.lots import numbers
from sqlmetrics.comparison.sums.pairing import SEGMENT, Pairing
from sqlmetrics.fusion.grid import Variant
from sqlmetrics.fusion.winner import Winner, find_winner
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, with_stages

CELLS = 2_000_000
"""About as many sums leave the database at most."""


@dataclass(frozen=True)
class Units:
    """The units of a sweep: queries, clusters or groups of them.

    Attributes:
        plan: The plan of the evaluation, whose systems are the numbers of variants.
        statements: Of this evaluation.
        variants: What was tried.
        seed: Another one gives another order.
        folds: In as many parts are they divided.
        level: The coverage of intervals.
    """

    plan: Plan
    statements: Statements
    variants: Sequence[Variant]
    seed: int
    folds: int
    level: float

    def winners(self) -> Iterator[tuple[Measure, tuple[str, str], Winner]]:
        """Metric, segment and winner, of the metrics of which more, or less, is better."""
        import numpy as np

        pairing = self._pairing()
        stages = [*self.statements.script.stages, *self._stages(pairing)]
        text = with_stages(stages, "select *\nfrom unit_sums")
        self.statements.selects.append(text)
        table = self.statements.engine.table(text)
        columns = {name: np.array(table[name].to_pylist()) if name in ("system", *SEGMENT)
                   else table[name].to_numpy() for name in table.column_names}  # fmt: skip
        places = columns["system"].astype(int) - 1
        segments = {*zip(*(map(str, columns[name]) for name in SEGMENT), strict=True)}
        for segment in sorted(segments, key=lambda pair: (pair[0] != ALL, pair)):
            inside = (columns[SEGMENT[0]] == segment[0]) & (columns[SEGMENT[1]] == segment[1])
            _, rows = np.unique(columns["unit"][inside], return_inverse=True)
            for measure in pairing.measures:
                sums, weights = np.zeros((2, rows.max() + 1, len(self.variants)))
                for array, end in ((sums, "sum"), (weights, "weight")):
                    array[rows, places[inside]] = columns[f"{measure.column}_{end}"][inside]
                sign = SIGNS[measure.metric.better]
                if winner := find_winner(
                    sums, weights, self.variants, sign=sign, folds=self.folds, level=self.level
                ):
                    yield measure, segment, winner

    def _pairing(self) -> Pairing:
        plan = self.plan
        measures = [
            measure
            for measure in findings.comparable(plan)[0]
            if SIGNS[measure.metric.better] and measure.name != "judged"
        ]
        first, *others = (str(number) for number in range(1, len(self.variants) + 1))
        is_dated = "metric_date" in plan.shape.keys
        cluster = plan.spec.cluster or ("query_id" if is_dated else None)
        return Pairing(plan, tuple(measures), tuple(others), first, plan.spec.by, cluster)

    def _stages(self, pairing: Pairing) -> Iterator[Stage]:
        """From `per_query` to one row per unit, variant and segment: its sums of each metric."""
        yield from pairing.query_values()
        yield from numbers(pairing, self.seed, "query_values")
        weight, columns, sums = pairing.weight, list[Column](), list[Column]()
        folds = self.folds
        most = max(folds, CELLS // len(self.variants) // folds * folds)
        for measure in pairing.measures:
            name = measure.column
            columns += [
                Column(f"coalesce({name} * {weight}, 0e0)", f"{name}_sum"),
                Column(f"case when {name} is null then 0e0 else {weight} end", f"{name}_weight"),
            ]
            sums += [Column(f"sum({name}_{end})", f"{name}_{end}") for end in ("sum", "weight")]
        unit = f"cluster_numbers.number - {most}e0 * floor(cluster_numbers.number / {most}e0)"
        carried = [f"query_values.{name}" for name in pairing.carried if name != "weight"]
        yield join_stage(
            "numbered_values",
            "what a query adds to the sums, and the number of its unit",
            [*carried, Column(unit, "unit"), *columns],
            "query_values",
            to="cluster_numbers",
            on=(pairing.unit[-1],),
        )
        about = "one row per unit of queries, variant and segment"
        keys = ["unit", "system"], list[str]()
        yield segments_stage(
            "unit_sums", about, keys, sums, "numbered_values", segments=pairing.segments
        )
