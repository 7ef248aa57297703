"""Intervals of means and of ratios of sums, from the sums that a summary has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlmetrics.evaluation.arguments import check_level
from sqlmetrics.plan import moments
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.stage import Column, Stage, with_columns
from sqlmetrics.stats import NOISE, estimate, student
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums
from sqlmetrics.tables.tabular import Row

BY_REQUEST = ", by request"
"""How the method of an interval ends whose units are requests, each of one day alone."""


def method_of(confidence: float, units: str = "") -> str:
    """What the column `ci_method` says of an interval.

    >>> method_of(0.95, BY_REQUEST)
    "Student's t, 95 %, by request"
    """
    return f"Student's t, {100 * confidence:g} %{units}"


def check_confidence(confidence: float | None) -> None:
    """Raise SpecError for one that is not a share."""
    if confidence is not None:
        check_level("confidence", confidence)


@dataclass(frozen=True)
class Ratio:
    """The columns of a ratio of sums: what it is, and what its error is made of.

    Attributes:
        value: The ratio.
        w: Its denominator.
        n: How many are independent of each other.
        x2: The sum of squares of what each adds to the numerator.
        xw: The sum of products of that and of what each adds to the denominator.
        w2: The sum of squares of the latter.
    """

    value: str
    w: str
    n: str
    x2: str
    xw: str
    w2: str


OWN = Ratio("value", "denominator", "n_clusters", "sum_x2", "sum_xw", "sum_w2")
PAIRED = Ratio("difference", "pair_w", "pair_clusters", "sum_d2", "sum_dw", "pair_w2")


def with_intervals(rows: Iterable[Row], confidence: float) -> tuple[Row, ...]:
    """The summary's rows with `ci_low` and `ci_high`: Student's interval of each ratio of sums.

    Queries, or clusters of them, are taken for independent draws of those that might be. Where
    queries count alike the error is that of a mean; with weights, ratios of sums and clusters it is
    that of the linearised ratio (delta method). None with less than two of them, and for counts and
    numbers of all lists together.

    Args:
        rows: One a metric, system and segment, of a plan with moments.
        confidence: The coverage, above 0 and below 1.
    """
    moment_columns = {*moments.MOMENTS, *moments.PAIRED}
    return tuple(
        {name: cell for name, cell in row.items() if name not in moment_columns}
        | estimate_of(row).ends(confidence)
        for row in rows
    )


def estimate_of(row: Mapping[str, Any], ratio_columns: Ratio = OWN) -> Estimate:
    """The ratio of sums of a row; without an error where the row lacks the sums of it."""
    sums: dict[str, Any] = {name: row.get(column) for name, column in vars(ratio_columns).items()}
    return ratio_of_sums(**sums)


Reach = Callable[[str, Ratio], str]
"""How many standard errors an interval goes to each side, as SQL, of a prefix and a ratio."""


def student_reach(confidence: float) -> Reach:
    """That of Student's t."""
    return lambda name, ratio_columns: student.critical_sql(
        confidence, ratio_columns.n, f"{name}inverse_df"
    )


def always_reach(confidence: float) -> Reach:
    """That of an always-valid interval."""
    return lambda _, ratio_columns: estimate.always_valid_multiple_sql(confidence, ratio_columns.n)


def interval_stages(
    source: str, ratios: Mapping[str, Ratio], about: str, reach: Reach
) -> tuple[Stage, ...]:
    """The same in SQL: the rows of a table, with how far intervals go to each side.

    Args:
        source: A table or stage with the columns of the ratios.
        ratios: Prefix of the new columns -> what they are of: `reach` for an empty one.
        about: What the intervals are.
        reach: How many standard errors they go.
    """
    added: dict[str, tuple[str, list[Column]]] = {
        "deviations": (
            "the sum of squares of what each query is off",
            [
                Column(_squares(ratio_columns), f"{name}squares")
                for name, ratio_columns in ratios.items()
            ],
        ),
        "errors": (
            "the standard error of a ratio of sums (delta method)",
            [
                column
                for name, ratio_columns in ratios.items()
                for column in _errors(name, ratio_columns)
            ],
        ),
        "reaches": (
            f"an interval's reach to each side: {about}",
            [
                Column(f"{name}standard_error\n* {reach(name, ratio_columns)}", f"{name}reach")
                for name, ratio_columns in ratios.items()
            ],
        ),
    }
    stages = []
    for name, (description, columns) in added.items():
        stages.append(with_columns(name, source, description, columns))
        source = name
    return (*stages,)


def _squares(ratio_columns: Ratio) -> str:
    return (
        f"{ratio_columns.x2} - 2e0 * {ratio_columns.value} * {ratio_columns.xw}\n+ "
        f"{ratio_columns.value} * {ratio_columns.value} * {ratio_columns.w2}"
    )


def _errors(name: str, ratio_columns: Ratio) -> Iterator[Column]:
    error = (
        "case\n"
        f"    when {ratio_columns.n} < 2 then null\n"
        f"    when {name}squares <= {NOISE:g} * {ratio_columns.x2} then 0e0\n"
        f"    else sqrt({name}squares * {ratio_columns.n} / ({ratio_columns.n} - 1)) / "
        f"abs({ratio_columns.w})\n"
        "end"
    )
    yield Column(error, f"{name}standard_error")
    yield Column(f"1e0 / nullif({ratio_columns.n} - 1, 0)", f"{name}inverse_df")


def note(plan: Plan, confidence: float) -> str:
    """What a reader must know of them."""
    population = f"queries, drawn by {plan.spec.cluster}" if plan.spec.cluster else "queries"
    description = f"the {100 * confidence:g} % interval of a mean over {population} (Student's t)"
    return f"± (ci_low to ci_high): {description}"
