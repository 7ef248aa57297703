"""Which labels a metric looks at: those of the items shown, or all that a query has.

A sheet asks for the grades of what is shown. An ideal list, or R, is made of all labels of a
query: from a sheet alone NDCG and recall come out too high, and no interval says by how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from sqlmetrics.catalog.measure import Measure, parse
from sqlmetrics.catalog.metric import listed
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.needs import (
    IDEAL_AGREEMENT,
    OF_GROUPS,
    RANK_CHANGES,
    TIED_AGREEMENT,
    Needs,
    SumStage,
)
from sqlmetrics.spec.spec import Spec

OF_QUERY = ("labels", "ideal", "ideal_returned", IDEAL_AGREEMENT, RANK_CHANGES, *OF_GROUPS)
"""Relations of all labels of a query, wherever their items stand; of groups too, which a sheet
does not ask for."""

UNLABELLED = ("item_features", "rank_agreement", TIED_AGREEMENT)
"""Relations of items, whatever their labels are, unless a metric reads them too."""

IN_LIST = ("ranked", "item_features")
"""Relations whose rows stand at their ranks."""


def needs_all_labels(spec: Spec, measure: Measure) -> bool:
    """Whether a metric, or the choice of its queries, looks at labels of items not shown."""
    return any(sum_stage.over in OF_QUERY for sum_stage in _sums(spec, measure))


def last_rank(spec: Spec, measure: Measure) -> int | None:
    """The deepest rank whose label a metric looks at; None for the end of the list."""
    depth = spec.options["depth"]
    end = depth if isinstance(depth, int) else math.inf
    sums = [
        sum_stage
        for sum_stage in _sums(spec, measure)
        if sum_stage.over not in OF_QUERY and _reads_labels(sum_stage)
    ]
    # an ideal order of the shown items takes them from the whole list
    ranks = [(sum_stage.over in IN_LIST and sum_stage.deepest) or math.inf for sum_stage in sums]
    last = min(end, max(ranks, default=0))
    return None if last == math.inf else int(last)


def _reads_labels(sums: SumStage) -> bool:
    return sums.over not in UNLABELLED or sums.reads("grade")


def refuse(spec: Spec) -> None:
    """Raise SpecError if a metric cannot be estimated from labels of shown items.

    Raises:
        SpecError: With the metrics that cannot, and those that can.
    """
    beyond = [str(measure) for measure in spec.measures if needs_all_labels(spec, measure)]
    if beyond:
        raise SpecError(
            f"{', '.join(beyond)}: computed from all labels of a query, and a sheet only has the "
            f"items that were shown; estimate other metrics ({', '.join(_instead(spec))}), or "
            "declare the labels complete with --complete-labels"
        )


def _instead(spec: Spec) -> Iterator[str]:
    """Names of metrics that labels of shown items suffice for."""
    for metric in listed():
        if metric.needs or metric.count or metric.pooled or metric.over == "pairs":
            continue
        measure = parse(metric.name + "@10" * (metric.cutoff != "none"))
        is_mean = not spec.unfit(measure) and spec.settings(measure).is_mean
        if is_mean and last_rank(spec, measure) != 0 and not needs_all_labels(spec, measure):
            yield str(measure)


def _sums(spec: Spec, measure: Measure) -> list[SumStage]:
    """The sums that a metric is made of."""
    alone = Needs(spec.having(metrics=(measure.text,), online=()))
    return [sum_stage for sum_stage in alone.sums.values() if sum_stage.columns]
