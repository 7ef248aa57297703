"""Whether more of a metric is better."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import OF, metric_of
from sqlmetrics.catalog.online import ONLINE, online

SIGNS = {"higher": 1, "lower": -1, "none": 0}


def direction(metric: str, measures: Iterable[Measure] = ()) -> int:
    """1 where higher is better, -1 where lower is, 0 where neither; 1 for names of others.

    Args:
        metric: Its text.
        measures: The metrics of the spec, of which some are formulas with names of their own.

    >>> direction("ndcg@10"), direction("abandonment"), direction("num_ret"), direction("sales")
    (1, -1, 0, 1)
    """
    name = re.split(r"[(@]", metric)[0].strip().casefold()
    if name in ONLINE:
        return SIGNS[online(metric).metric.better if "(" in metric else ONLINE[name].better]
    betters = {measure.name: measure.metric.better for measure in measures}
    if name in betters:
        return SIGNS[betters[name]]
    if said := re.search(r"\bbetter=(\w+)", metric):  # of a function of a column
        return SIGNS[said[1]]
    match = metric_of(name) or metric_of(f"{name}{OF}")
    return SIGNS[match[0].better] if match else 1
