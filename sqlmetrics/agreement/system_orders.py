"""Does it matter? The systems by the labels of one judge and by those of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.measure import metric_texts, parse
from sqlmetrics.comparison.compare import compare
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.evaluate import evaluate
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums
from sqlmetrics.stats.nonparametric import spearman
from sqlmetrics.stats.rank_correlation import kendall, sign
from sqlmetrics.tables.tabular import Row

_P = 0.9
"""How likely a reader of the order of systems goes on to the next one."""


def rank_biased_overlap(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """How alike two orders of the same systems are, the best ones counting most (p = .9).

    Systems whose values are tied share the first rank of the tie (variant w of Corsi and Urbano
    2024), and beyond the last one the orders agree, since both have all systems.

    Args:
        xs: One value per system, higher is better.
        ys: The others, in the same order of systems.

    Returns:
        From 0 to 1, which is the same order; None if there are fewer than 2 systems.

    Source: W. Webber, A. Moffat and J. Zobel: A similarity measure for indefinite rankings. ACM
    Transactions on Information Systems 28(4), 2010.

    >>> round(rank_biased_overlap([3, 2, 1], [3, 1, 2]), 4)
    0.955
    """
    n = len(xs)
    if n < 2:
        return None
    ranks, other_ranks = ([sum(sign(y, x) > 0 for y in side) for x in side] for side in (xs, ys))
    agreements = []
    for depth in range(1, n + 1):
        pairs = [(a < depth, b < depth) for a, b in zip(ranks, other_ranks, strict=True)]
        agreements.append(2 * sum(a and b for a, b in pairs) / sum(a + b for a, b in pairs))
    weighted = fsum(agreement * _P**d for d, agreement in enumerate(agreements))
    return (1 - _P) * weighted + agreements[-1] * _P**n


@dataclass(frozen=True)
class SystemOrders:
    """Evaluations of the same rankings by the labels of two judges at a time.

    Attributes:
        labels: One row per pair: query_id, item_id and the grade of each judge, grade_1 and on.
        judges: Their names.
        rankings: The rankings, as they were given.
        metrics: What is evaluated.
        arguments: The other arguments of `compare` that are of the rankings.
        system: The column of systems; None where each has a table.
        engine: Where the tables are.
        level: The coverage of the intervals.
    """

    labels: pa.Table
    judges: tuple[str, ...]
    rankings: Any
    metrics: tuple[str, ...]
    arguments: Mapping[str, Any]
    system: str | None
    engine: Database
    level: float

    def rows(self) -> tuple[list[Row], list[Row]]:
        """One row per metric and system, and one per metric, of the first judge beside another."""
        systems: list[Row] = []
        orders: list[Row] = []
        for number in range(2, len(self.judges) + 1):
            shared = pc.and_(*(pc.is_valid(self.labels[f"grade_{n}"]) for n in (1, number)))
            pairs = self.labels.filter(shared)
            if not pairs.num_rows:
                continue
            judged = [_Judged(self, pairs, n) for n in (1, number)]
            judges = {"judge": self.judges[0], "other_judge": self.judges[number - 1]}
            for metric in self.metrics:
                rows = [*_system_rows(metric, judged[0], judged[1], self.level)]
                systems += [judges | row for row in rows]
                orders.append(judges | _order_row(metric, rows))
        return systems, orders


class _Judged:
    """The rankings evaluated by the labels of one judge, of the pairs that both graded."""

    def __init__(self, orders: SystemOrders, pairs: pa.Table, number: int) -> None:
        keys = [name for name in pairs.column_names if not name.startswith("grade_")]
        labels = pairs.select([*keys, f"grade_{number}"]).rename_columns([*keys, "grade"])
        columns = {"query": "query_id", "item": "item_id"}
        if "metric_date" in keys:
            columns["date"] = "metric_date"
        arguments: dict[str, Any] = {**orders.arguments, "label_columns": columns}
        arguments["connection"] = orders.engine
        if orders.system:
            arguments["system"] = orders.system
        question = (orders.rankings, labels, orders.metrics)
        comparison = compare(*question, level=orders.level, **arguments)
        self.systems: set[tuple[str, str]] = set()
        self.verdicts: dict[tuple[str, str], str] = {}
        for row in comparison.to_dicts():
            self.systems |= {(row["metric"], row[name]) for name in ("system", "baseline")}
            self.verdicts[row["metric"], row["system"]] = row["verdict"]
        result = evaluate(*question, per_query=True, **arguments)
        self.per_query = result.per_query().to_pylist()

    def by_query(self, metric: str, system: str) -> dict[tuple[Any, str], float]:
        """Day and query -> the value of the metric, where it has one."""
        column = parse(metric).column
        return {
            (row.get("metric_date"), row["query_id"]): row[column]
            for row in self.per_query
            if row["system"] == system and row[column] is not None
        }


def _system_rows(metric: str, first: _Judged, second: _Judged, level: float) -> Iterator[Row]:
    """One row per system: values and difference over shared queries, and the verdicts."""
    systems = sorted(system for name, system in first.systems if name == metric)
    for system in systems:
        values, other_values = (judged.by_query(metric, system) for judged in (first, second))
        shared = sorted(values.keys() & other_values.keys(), key=str)
        mean, other_mean = (
            _mean([by_query[query] for query in shared]) for by_query in (values, other_values)
        )
        difference = _mean([other_values[query] - values[query] for query in shared])
        low, high = difference.interval(level)
        verdicts = [judged.verdicts.get((metric, system)) for judged in (first, second)]
        yield {
            "metric": metric,
            "system": system,
            "value": mean.value,
            "other_value": other_mean.value,
            "difference": difference.value,
            "ci_low": low,
            "ci_high": high,
            "n_queries": len(shared),
            "verdict": verdicts[0],
            "other_verdict": verdicts[1],
        }


def _mean(values: Sequence[float]) -> Estimate:
    """The mean of one value per query."""
    n, total = len(values), fsum(values)
    squares = fsum(value * value for value in values)
    return ratio_of_sums(total / n if n else None, n, w=n, x2=squares, xw=total, w2=n)


def _order_row(metric: str, rows: Sequence[Row]) -> Row:
    """How alike the systems are ordered, and how many verdicts differ."""
    pairs = [
        (row["value"], row["other_value"])
        for row in rows
        if row["value"] is not None and row["other_value"] is not None
    ]
    firsts, seconds = [x for x, _ in pairs], [y for _, y in pairs]
    way = SIGNS[parse(metric).metric.better] or 1
    return {
        "metric": metric,
        "n_systems": len(pairs),
        "kendall_tau": kendall(firsts, seconds),
        "spearman": spearman(firsts, seconds),
        "rbo": rank_biased_overlap(*([way * x for x in side] for side in (firsts, seconds))),
        "n_verdicts": sum(row["verdict"] is not None for row in rows),
        "n_turned": sum(row["verdict"] != row["other_verdict"] for row in rows),
    }


def check_metrics(metrics: str | Sequence[str], rankings: Any, is_spec: bool) -> tuple[str, ...]:
    """The metrics by which systems are ordered.

    Raises:
        SpecError: If there are metrics, but no table of rankings to evaluate.
    """
    texts = tuple(dict.fromkeys(str(parse(text)) for text in metric_texts(metrics)))
    if texts and (rankings is None or is_spec):
        raise SpecError("metrics: only with a table of rankings (rankings, --rankings)")
    return texts
