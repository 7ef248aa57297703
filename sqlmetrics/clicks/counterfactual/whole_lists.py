"""Lists that were not shown, weighed by the logged probability of the list that was.

What the first clicked item of another order would have been, no item tells by itself. But where
the logging policy drew the list by lot, some requests were shown just the list that the new ranker
gives, and count for the others. Over the N requests that have a new list, with p the probability
of what was shown, and w = 1 / p where the new list begins as it (else 0):

- ips = 1/N sum w y, y the reciprocal rank of the first click, or whether there was one. Horvitz
  and Thompson 1952; for lists Li, Chen, Kleban and Gupta 2015.
- clipped_ips: min(w, clip) in place of w.
- snips = sum w y / sum w, a mean per request. Swaminathan and Joachims 2015b.
- naive = 1/N sum y, what was shown got.

With `list_depth` d the probability is that of the first d items, which then have to agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlmetrics.catalog.counterfactual import (
    CounterfactualMeasure,
    EstimatedMetric,
    counterfactual_metric,
)
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual.lists import KEYS, matching
from sqlmetrics.clicks.counterfactual.terms import (
    SHOWN_SYSTEM,
    Question,
    Term,
    case_column,
    clipped,
    of_logged,
    segments_of,
)
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.counterfactual import Counterfactual
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import literal


def question(
    tables: ClickTables,
    counterfactual: Counterfactual,
    items: Stage,
    day: Column | None = None,
    *,
    by: Sequence[str] = (),
    has_shown: bool = False,
) -> Question:
    """The sums of the estimates of new lists.

    Args:
        tables: The stages of the log.
        counterfactual: What is asked, of `rankings`.
        items: The stage of the lists.
        day: The day of a row of the log, if each is estimated by itself.
        by: The segments of the log that are estimated too.
        has_shown: Whether the lists that were shown stand beside them, as the
            system `SHOWN_SYSTEM`: their weights are 1.
    """
    measures = [counterfactual_metric(name) for name in counterfactual.measured]
    segments = segments_of(tables, by)
    key_columns = [*(["metric_date"] if day else []), *map(segment, segments), "user_id"]
    view = {
        "of": tables.of,
        "impressions": tables.evaluates,
        "key": KEYS[counterfactual.match],
        "depth": counterfactual.list_depth,
        "key_columns": key_columns,
        "values": [clipped("weight", counterfactual.clip), *map(_value, measures)],
        "columns": [*_of_lists(), *(column for measure in measures for column in _added(measure))],
        "system": literal(SHOWN_SYSTEM) if has_shown else "",
    }
    names = ["logged_lists", "agreeing_lists", "weighed_lists", "clipped_lists", "whole_list_sums"]
    stages = [
        *matching(tables, counterfactual, items, day=day, segments=segments),
        *(Stage(name, f"clicks/counterfactual/{name}", view) for name in names),
    ]
    counts = ["n_requests", *(f"{measure.column}_n_clicks" for measure in measures)]
    return Question(
        stages,
        [term(metric) for metric in counterfactual.estimated],
        counts,
        day,
        [*segments],
        tables.names.at,
    )


def term(estimated_metric: EstimatedMetric) -> Term:
    """What an estimate of whole lists is made of."""
    return of_logged(estimated_metric, "n_requests", sample="n_agreeing")


def _value(measure: CounterfactualMeasure) -> Column:
    """What a list gets by its first click; 0 without one."""
    reward = "1e0" if measure.metric.name == "hit" else "1e0 / first_click"
    near = f"first_click <= {measure.k}" if measure.k else "first_click is not null"
    return Column(case_column(near, reward, "0e0"), f"{measure.column}_naive")


def _of_lists() -> Iterator[Column]:
    """What the list of a request adds, whatever is clicked."""
    yield Column("weight", "weight")
    yield Column("clipped_weight", "clipped_weight")
    yield Column("weight * weight", "squares")
    yield Column("clipped_weight * clipped_weight", "clipped_squares")
    yield Column("case when weight > 0 then 1 else 0 end", "n_agreeing")
    yield Column("0e0", "unknown")


def _added(measure: CounterfactualMeasure) -> Iterator[Column]:
    """What it adds to the sums of a metric."""
    column = measure.column
    yield Column(f"{column}_naive", f"{column}_naive")
    yield Column(f"weight * {column}_naive", f"{column}_ips")
    yield Column(f"clipped_weight * {column}_naive", f"{column}_clipped_ips")
    is_click = f"weight > 0 and {column}_naive > 0"
    yield Column(f"case when {is_click} then 1 else 0 end", f"{column}_n_clicks")
