"""What pictures of queries are made of: counts in bins and sums by day, made in the database."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.comparison.statements import Statements, columns_stage, sums_stage
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import double
from sqlmetrics.stats.estimate import Estimate, mean_of_repeats, ratio_of_sums
from sqlmetrics.tables.tabular import Row

BINS = 20
"""As many bins has the range of values; differences have five times as many to each side."""

FINER = 5

DAY = "metric_date"


@dataclass(frozen=True)
class Pairs:
    """The queries of two systems side by side, of one metric.

    Attributes:
        pairing: What is compared: one system, one metric.
    """

    pairing: Pairing

    @classmethod
    def of(cls, pairing: Pairing, system: str, metric: str) -> Pairs:
        """Those of one system and metric; each day of a query by itself.

        Args:
            pairing: What is compared.
            system: The system.
            metric: The metric's text.
        """
        measures = tuple(measure for measure in pairing.measures if str(measure) == metric)
        return cls(replace(pairing, systems=(system,), measures=measures, cluster=None, by=()))

    @property
    def _column(self) -> str:
        return self.pairing.measures[0].column

    def bins(self, statements: Statements) -> tuple[float, list[Row], list[Row]]:
        """How wide bins are, queries by both values, and queries by their difference.

        Args:
            statements: The statements of the comparison.
        """
        name = self._column
        ends = [
            f"{way}({column})" for way in ("min", "max") for column in (name, f"{name}_baseline")
        ]
        columns = ",\n    ".join(
            f"{expression} as end_{position}" for position, expression in enumerate(ends)
        )
        select = f"select\n    {columns}\nfrom pairs\nwhere {name}_difference is not null"
        extremes = statements.rows([*self.pairing.stages()], select)[0]
        if None in extremes.values():
            return 0.0, [], []
        low, high = min(map(float, extremes.values())), max(map(float, extremes.values()))
        width = bin_width(low, high)
        rows = statements.rows(*self._bins_query(width))
        cells = Counter[tuple[int, int]]()
        deltas = Counter[int]()
        last = math.ceil(high / width - 1e-6) - 1
        for row in rows:
            n = int(row["n"])
            cells[min(last, int(row["baseline_bin"])), min(last, int(row["value_bin"]))] += n
            deltas[int(row["difference_bin"])] += n
        return width, list(_cells(cells, width)), list(_deltas(deltas, width / FINER))

    def _bins_query(self, width: float) -> tuple[list[Stage], str]:
        name, fine = self._column, width / FINER
        columns = [
            Column(f"floor({name}_baseline / {double(width)} + 1e-9)", "baseline_bin"),
            Column(f"floor({name} / {double(width)} + 1e-9)", "value_bin"),
            Column(f"floor({name}_difference / {double(fine)} + 0.5e0)", "difference_bin"),
        ]
        about = "one row per query: the bins of both values and of their difference"
        where = f"{name}_difference is not null"
        binned = columns_stage("binned", about, columns, "pairs", where)
        keys = ["baseline_bin", "value_bin", "difference_bin"]
        counted = sums_stage(
            "bins", "the number of queries in each bin", keys, [Column("count(*)", "n")], "binned"
        )
        order = f"order by {', '.join(keys)}"
        return [*self.pairing.stages(), binned, counted], f"select *\nfrom bins\n{order}"

    def by_day(self, statements: Statements, confidence: float, *, repeats: bool) -> list[Row]:
        """The difference of each day, and of all days so far, with their intervals.

        Args:
            statements: The statements of the comparison.
            confidence: The coverage.
            repeats: Whether queries come again on other days.
        """
        if DAY not in self.pairing.plan.shape.query_keys:
            return []
        rows = statements.rows(*self._days_query())
        return with_running(rows, confidence, repeats=repeats)

    def _days_query(self) -> tuple[list[Stage], str]:
        name, weight = f"{self._column}_difference", self.pairing.weight
        weighted = "" if weight == "1e0" else f" * {weight}"
        columns = [DAY, Column(f"{name}{weighted}", "d"), Column(weight, "w")]
        about, where = "one row per query: its difference and weight", f"{name} is not null"
        day_pairs = columns_stage("day_pairs", about, columns, "pairs", where)
        sums = {
            "n": "count(*)",
            "sum_d": "sum(d)",
            "sum_w": "sum(w)",
            "sum_d2": "sum(d * d)",
            "sum_dw": "sum(d * w)",
            "sum_w2": "sum(w * w)",
        }
        summed = [Column(text, column) for column, text in sums.items()]
        about = "one row per day: the sums behind the difference"
        days = sums_stage("days", about, [DAY], summed, "day_pairs")
        return [*self.pairing.stages(), day_pairs, days], f"select *\nfrom days\norder by {DAY}"


_SUMS = ("n", "sum_d", "sum_w", "sum_d2", "sum_dw", "sum_w2")


def with_running(rows: Sequence[Row], confidence: float, *, repeats: bool = False) -> list[Row]:
    """Differences by day, and of all days so far with an always-valid interval.

    Args:
        rows: A row a day, in order, with the sums of differences and of weights.
        confidence: The coverage.
        repeats: Whether queries may come again on other days.

    >>> sums = {"n": 4, "sum_d": 2.0, "sum_w": 4.0, "sum_d2": 2.0, "sum_dw": 2.0, "sum_w2": 4.0}
    >>> (day,) = with_running([{"metric_date": "2026-11-01", **sums}], 0.95)
    >>> day["difference"], round(day["ci_low"], 3), day["running"]
    (0.5, -0.419, 0.5)
    """
    lines: list[Row] = []
    days: list[Mapping[str, float]] = []
    for row in rows:
        if not row["n"]:
            continue
        days.append({name: float(row[name]) for name in _SUMS})
        today, so_far = together(days[-1:]), together(days, repeats=repeats)
        running_low, running_high = so_far.interval(confidence, always=True)
        lines.append(
            {
                DAY: row[DAY],
                "n": int(row["n"]),
                "difference": today.value,
                **today.ends(confidence),
                "running": so_far.value,
                "running_low": running_low,
                "running_high": running_high,
            }
        )
    return lines


def together(days: Sequence[Mapping[str, float]], *, repeats: bool = False) -> Estimate:
    """The mean difference of several days.

    Args:
        days: The sums of each, of differences and weights; one at least.
        repeats: Whether queries may come again on other days.

    >>> night = {"n": 4, "sum_d": 2.0, "sum_w": 4.0, "sum_d2": 2.0, "sum_dw": 2.0, "sum_w2": 4.0}
    >>> once, twenty = together([night]), together([night] * 20, repeats=True)
    >>> round(once.p_value(), 6) == round(twenty.p_value(), 6)
    True
    """
    total = _difference({name: math.fsum(day[name] for day in days) for name in _SUMS})
    if not repeats or len(days) == 1:
        return total
    return mean_of_repeats(total.value, [(_difference(day), day["sum_w"]) for day in days])


def _difference(sums: Mapping[str, float]) -> Estimate:
    """The mean difference with its error."""
    n, d, w, d2, dw, w2 = (sums[name] for name in _SUMS)
    return ratio_of_sums(d / w if w else 0.0, n, w=w, x2=d2, xw=dw, w2=w2)


def bin_width(low: float, high: float) -> float:
    """A round number, so that about BINS of them make the range of values.

    >>> bin_width(0, 1), bin_width(0, 0.8), bin_width(1, 300), bin_width(2, 2)
    (0.05, 0.05, 20.0, 0.05)
    """
    span = high - low
    if span <= 0 or (low >= 0 and high <= 1 and span > 0.5):
        return 1 / BINS
    size = 10.0 ** math.floor(math.log10(span / BINS))
    return next(step * size for step in (1, 2, 5, 10) if step * size * BINS >= span * 0.999)


def _cells(counts: Mapping[tuple[int, int], int], width: float) -> Iterator[Row]:
    for (before, after), n in sorted(counts.items()):
        yield {"baseline_value": before * width, "value": after * width, "n": n}


def _deltas(counts: Mapping[int, int], width: float) -> Iterator[Row]:
    """The differences with how many queries have them, the largest first."""
    for bin_number, n in sorted(counts.items(), reverse=True):
        yield {"difference": bin_number * width, "n": n}
