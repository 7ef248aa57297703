"""A click log's rows beside a baseline's: each request has one system, so there are no pairs.

Both means are of their own requests, and their variances add up. They are written as sums that
days add up as they do those of pairs: each day weighs as the system's own denominator does, and
the squares are those that give the variance of the difference. So whatever reads the columns of
pairs reads these: the views of comparison, and checks of all days so far.
"""

from __future__ import annotations

from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, equal, with_columns
from sqlmetrics.sql.template import literal
from sqlmetrics.stats import NOISE

_SQUARES = "(sum_x2 - 2e0 * value * sum_xw + value * value * sum_w2)"

_VARIANCE = f"""case
    when n_clusters < 2 then null
    when {_SQUARES} <= {NOISE:g} * sum_x2 then 0e0
    else {_SQUARES} * n_clusters
        / (n_clusters - 1) / (denominator * denominator)
end"""

_SUMS = {
    "n_pairs": "cast(null as bigint)",
    "pair_clusters": "case when baseline_value is not null then n_least end",
    "pair_w": "case when baseline_value is not null then denominator end",
    "pair_w2": "case when baseline_value is not null then 0e0 end",
    "sum_y": "denominator * baseline_value",
    "sum_y2": "cast(null as double)",
    "sum_xy": "cast(null as double)",
    "sum_d": "denominator * (value - baseline_value)",
    "sum_d2": "denominator * denominator * variance_of_both\n* (n_least - 1) / nullif(n_least, 0)",
    "sum_dw": "case when baseline_value is not null then 0e0 end",
}


def add_baseline_columns(spec: Spec, source: str, *, by_day: bool) -> tuple[Stage, ...]:
    """The stages that add the columns beside a baseline; the last one is `sums_apart`.

    Args:
        spec: A spec of a click log with systems and a baseline.
        source: The stage of the rows of all systems, with the sums of intervals.
        by_day: Whether each row has a day.
    """
    day = ("metric_date",) if by_day else ()
    same = equal("baseline", "variances", (*day, "segment_name", "segment_value", "metric", "k"))
    name = literal(str(spec.baseline))
    systems = [f"baseline.system = {name}", f"variances.system <> {name}"]
    about = "the variance of each mean (delta method)"
    sums = (Column(sql, column) for column, sql in _SUMS.items())
    return (
        with_columns("variances", source, about, [Column(_VARIANCE, "variance")]),
        Stage("beside_baseline", "jobs/beside_baseline", {"on": [*same, *systems]}),
        with_columns(
            "sums_apart", "beside_baseline", "the difference, as sums that days add up", sums
        ),
    )
