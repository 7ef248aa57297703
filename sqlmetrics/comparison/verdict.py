"""What a difference comes to: a verdict against a margin, and a sentence in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sqlmetrics.evaluation.report.failure import QUERIES
from sqlmetrics.tables.table import probability

Verdict = Literal["better", "worse", "equivalent", "unclear"]

_MEANS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("ndcg", "dcg", "cg", "rbp", "err", "ap", "bpref", "rprec"),
        ("relevant items rank higher", "relevant items rank lower"),
    ),
    **dict.fromkeys(
        ("recall",), ("more relevant items are found", "fewer relevant items are found")
    ),
    **dict.fromkeys(
        ("precision",),
        ("more of the shown items are relevant", "fewer of the shown items are relevant"),
    ),
    **dict.fromkeys(
        ("hit",), ("more queries get a relevant item", "fewer queries get a relevant item")
    ),
    **dict.fromkeys(
        ("mrr", "first_rank"),
        ("the first relevant item comes earlier", "the first relevant item comes later"),
    ),
    "mean_rank": (
        "the relevant items that are found rank higher",
        "the relevant items that are found rank lower",
    ),
    "pnr": ("more pairs are in the right order", "fewer pairs are in the right order"),
}
"""Metric -> what it means where it is better, and where it is worse."""


def verdict(
    difference: float | None,
    interval: tuple[float, float] | None,
    p_value: float | None,
    *,
    level: float,
    margin: float,
    direction: int,
) -> Verdict:
    """What a difference comes to.

    * `equivalent`: the whole interval lies within the margin, whatever the p-value says: the
      difference is too small to matter. Without a margin: no query differs.
    * `better`, `worse`: the p-value, adjusted, is below 1 - level, and the difference has that
      sign by the direction of the metric.
    * `unclear`: anything else. The data are too few for either, or the metric has no direction.

    Args:
        difference: System less baseline; None if there is none.
        interval: Of the difference; None if there is none.
        p_value: Adjusted for all that is compared; None if there is none.
        level: The interval's coverage, like 0.95.
        margin: The largest difference that does not matter, 0 or more.
        direction: 1 if higher is better, -1 if lower is, 0 if neither.
    """
    if difference is None or interval is None or p_value is None:
        return "unclear"
    if -margin <= interval[0] and interval[1] <= margin:
        return "equivalent"
    gain = difference * direction
    if p_value >= 1 - level or gain == 0:
        return "unclear"
    return "better" if gain > 0 else "worse"


def sentence(
    row: Mapping[str, object],
    name: str,
    *,
    margin: float,
    level: float,
    counted: tuple[str, str] = QUERIES,
) -> str:
    """A row of a comparison in words, none of which its numbers contradict.

    Args:
        row: The row.
        name: The metric's own name, like `ndcg`.
        margin: The largest difference that does not matter.
        level: The coverage of a single interval, like 0.95.
        counted: What `n` counts, one and several.
    """
    metric, before, after = row["metric"], row["baseline_value"], row["value"]
    if before is None or after is None:
        return f"{metric}: no {counted[0]} has a value in both systems"
    moved = f"{metric} from {before:.4g} to {after:.4g}"
    outcome = row["verdict"]
    if outcome == "equivalent":
        reason = f"the interval lies within {margin:g}" if margin else f"no {counted[0]} differs"
        return f"{moved}: equivalent, {reason}"
    if outcome == "unclear":
        return f"{moved}: {_why_unclear(row, level, counted)}"
    better, worse = _MEANS.get(name, ("", ""))
    means = better if outcome == "better" else worse
    return f"{moved}: {outcome}" + (f", {means}" if means else "")


def _why_unclear(row: Mapping[str, Any], level: float, counted: tuple[str, str]) -> str:
    queries = f"{row['n']:,} {counted[row['n'] != 1]}"
    p, smallest = row["p_adjusted"], row["smallest_detectable"]
    if p is None:
        return f"not enough data ({queries})"
    if row["direction"] == 0:
        return "for this metric neither more nor less is better"
    if p < 1 - level:
        return f"the {row['test']} test finds a difference, but the means do not differ"
    if row["ci_low"] <= 0 <= row["ci_high"]:
        could = f"; {queries} would detect {smallest:.2g}" if smallest else f" ({queries})"
        return f"not enough data{could}"
    p_value = probability(p, level)
    if smallest is None:
        return f"all {queries} differ by this much, and so would chance: p {p_value}"
    return f"the interval excludes 0, but the {row['test']} test does not reject: p {p_value}"
