"""Whether a list's scores tell which queries a system should not answer.

    rankings ──> scored_items ─> centred_items ─> list_scores ─> confidences ──┐
    per_query ─> segment_values ───────────────────────────────────────────────┴> by_confidence

    by_confidence ─> values_by_rank ─> curves ─> areas

A query is left out the sooner, the lower the confidence in its list is: the share of queries
that is left out grows by tenths, and each time the mean of the others is taken. `oracle` leaves
out the queries with the worst values first, which nothing can beat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.moments import is_mean
from sqlmetrics.plan.needs import MetricColumn
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.segments import SEGMENT
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, Window, equal, print_template, with_stages
from sqlmetrics.sql.template import double, literal

CONFIDENCES = {
    "max": "the highest score of the list",
    "std": "the standard deviation of its scores",
    "diff1": "the highest score less the second one",
}
"""What a query's confidence is made of."""

STEPS = tuple(range(10))
"""The tenths of the queries that are left out."""


@dataclass(frozen=True)
class AbstentionQuery:
    """One query: how each metric's mean grows where the least confident queries are left out.

    Attributes:
        plan: The evaluation.
    """

    plan: Plan

    def text(self) -> str:
        """The query; one row per day, system, segment, metric and confidence.

        Raises:
            SpecError: If there are no scores, queries have weights, or no metric is a mean of
                queries of which more, or less, is better.
        """
        problems = list(self._problems())
        if problems:
            raise SpecError(problems)
        stages = (*self.plan.lists, *self._own_lists(), *self._per_query(), *self._curves())
        return with_stages(stages, print_template("plan/abstention", self._last))

    def _problems(self) -> Iterator[str]:
        shape = self.plan.shape
        if "rank" in shape.columns["rankings"]:
            yield (
                "abstention needs scores to make a confidence of, and the rankings have only "
                "ranks; name their column of scores"
            )
        if shape.weighted:
            yield "abstention counts each query once; leave out the weight"
        if not self._finals:
            metric_names = ", ".join(map(str, self.plan.measures))
            yield (
                "abstention needs a metric that is a mean over queries, like ndcg@10; "
                f"{metric_names} is not"
            )

    @cached_property
    def _finals(self) -> list[MetricColumn]:
        """The metrics that are means of queries, of which more, or less, is better."""
        return [
            final
            for final in self.plan.needs.finals
            if is_mean(final) and SIGNS[final.measure.metric.better]
        ]

    def _per_query(self) -> tuple[Stage, ...]:
        """The evaluation's own stages that are not there yet."""
        existing = {stage.name for stage in self.plan.lists}
        return tuple(stage for stage in self.plan.per_query if stage.name not in existing)

    def _own_lists(self) -> Iterator[Stage]:
        """From the rankings to the confidences of one row per list."""
        keys, options = self.plan.shape.keys, self.plan.spec.options
        alone = OPTIONS["identical_ids"].choice(options["identical_ids"]).sql
        border, depth = self.plan.needs.border.format(score="score"), options["depth"]
        view: dict[str, Any] = {
            "keys": keys,
            "from": self.plan.tables[0],
            "where": [*filter(None, (alone.format(item="item_id", query="query_id"), border))],
            "systems": Window(self.plan.shape.groups),
            "depth": "" if depth == "none" else f"score_rank <= {depth}",
        }
        for name in ("scored_items", "centred_items", "list_scores", "confidences"):
            yield Stage(name, name, view)

    def _curves(self) -> Iterator[Stage]:
        shape = self.plan.shape
        keys = (*shape.groups, *SEGMENT, "metric", "k")
        segment_columns = [(name, segment(name)) for name in shape.spec.by]
        values = {
            "groups": shape.keys,
            "segments": [(ALL, literal(ALL)), *segment_columns],
            "metrics": list(map(self._metric, self._finals)),
        }
        yield Stage("segment_values", "segment_values", values)
        on = equal("confidences", "segment_values", shape.keys)
        view = {"keys": keys, "on": on, "confidences": tuple(CONFIDENCES)}
        yield Stage("by_confidence", "by_confidence", view)
        parts = (*keys, "confidence")
        yield Stage("values_by_rank", "values_by_rank", {"keys": parts})
        steps = [(f"at_{10 * tenth}", double(tenth * 0.1)) for tenth in STEPS]
        yield Stage("curves", "curves", {"keys": parts, "steps": steps})
        inner = [f"at_{10 * tenth}" for tenth in STEPS[1:-1]]
        yield Stage("areas", "areas", {"keys": keys, "inner": inner})

    def _metric(self, final: MetricColumn) -> dict[str, Any]:
        measure = final.measure
        sign = "-" if SIGNS[measure.metric.better] < 0 else ""
        columns = [
            Column(literal(measure.name), "metric"),
            Column(str(measure.k or 0), "k"),
            Column(measure.column, "metric_value"),
            Column(f"{sign}{measure.column}", "oracle"),
        ]
        population = [f"{flag} = 1" for flag in self.plan.needs.population(measure)]
        return {"columns": columns, "where": [*population, f"{measure.column} is not null"]}

    @property
    def _last(self) -> dict[str, Any]:
        names = (*SEGMENT, "metric", "k", "confidence")
        shape = self.plan.shape
        has_system = "system" in shape.keys
        title = literal(self.plan.spec.title)
        return {
            "columns": [
                *["metric_date"] * ("metric_date" in shape.keys),
                "system" if has_system else f"{title} as system",
                *names,
            ],
            "steps": [f"at_{10 * tenth}" for tenth in STEPS],
            "order": [*shape.groups, *names],
        }
