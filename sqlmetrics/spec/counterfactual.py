"""What a user says of a ranking that was not shown: where it is, and what is estimated of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from sqlmetrics.catalog.counterfactual import (
    ESTIMATORS,
    FIRST,
    EstimatedMetric,
    counterfactual_metric,
    estimated_metrics,
)
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.spec.click_columns import ClickRankings, ImpressionColumns
from sqlmetrics.spec.source import Model, Source

UNIFORM = "uniform"
"""The policy that chooses each item equally often."""


class PolicyColumns(Model):
    """The columns of a policy: one row per item, and position where it differs by that."""

    item: str = "item_id"
    """What is chosen."""
    position: str | None = None
    """Where; None if the policy is the same at every position."""
    probability: str = "probability"
    """How likely it is chosen there; the probabilities of a position add up to 1."""


class Policy(Source):
    """Rows (item [, position], probability): how a policy would choose."""

    columns: PolicyColumns = Field(default_factory=PolicyColumns)


class Counterfactual(Model):
    """A ranking, or a policy, that was not shown, and the metrics that are estimated of it."""

    rankings: ClickRankings | None = None
    """Lists that were not shown: rows (request or query, item, rank or score [, system]). They are
    weighed by the propensities of the positions, `clicks.propensity`."""
    match: Literal["request", "query"] = "request"
    """What the column `query` of the lists holds: the log's `request`, or the text of its
    `query`."""
    policy: Literal["uniform"] | Policy | None = None
    """In place of lists: how another policy would choose single items. `uniform`, or a table of
    probabilities. The log has the probabilities of its own, `columns.propensity_score`."""
    system: str | None = None
    """What the new ranker or the policy is called; of lists where they have no column of systems.
    Default: the name of their table, `uniform`."""
    actions: int | None = Field(default=None, ge=1)
    """How many items `uniform` chooses from; default: those in the log."""
    metrics: tuple[str, ...] = ()
    """Of lists: dcg, precision, recall, sum_reciprocal_rank, clicks, with a cutoff; default:
    dcg@10. Or mrr and hit, of logs that have `columns.list_propensity_score`. Of a policy: ctr."""
    list_depth: int | None = Field(default=None, ge=1)
    """For mrr and hit: how many items from the top `list_propensity_score` is the probability of;
    default: all that the request showed."""
    estimators: tuple[str, ...] = ESTIMATORS
    """Any of ips, clipped_ips, snips and dr."""
    clip: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = 10.0
    """The largest weight of clipped_ips and dr; none are clipped if it is null."""
    prior: float = Field(default=10.0, ge=0, allow_inf_nan=False)
    """For dr: as many more impressions, that are looked at and have the mean rate of all, are added
    to each item."""

    @field_validator("estimators")
    @classmethod
    def _estimators_exist(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in names if name not in ESTIMATORS]
        if wrong or not names:
            raise ValueError(unknown("estimator", wrong[0] if wrong else "", ESTIMATORS))
        return tuple(dict.fromkeys(names))

    @field_validator("metrics")
    @classmethod
    def _metrics(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(str(counterfactual_metric(text)) for text in texts))
        except SpecError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _one_question(self) -> Counterfactual:
        if (self.rankings is None) == (self.policy is None):
            raise ValueError("give either rankings (lists that were not shown) or policy")
        of_policy = {"actions"} if self.policy == UNIFORM else set()
        of_lists = {"match"} if self.rankings else set()
        misplaced = self.model_fields_set & ({"actions", "match"} - of_policy - of_lists)
        if self.system is not None and self.rankings and self.rankings.columns.system:
            raise ValueError(
                f"the lists have a column of systems, {self.rankings.columns.system}; leave out "
                "system, or leave out the column"
            )
        if misplaced:
            raise ValueError(f"{min(misplaced)} only applies to {_ONLY[min(misplaced)]}")
        kind = "lists" if self.rankings else "policy"
        wrong = [
            metric for metric in self.metrics if counterfactual_metric(metric).metric.of != kind
        ]
        if wrong:
            subject = "a policy" if kind == "policy" else "rankings"
            raise ValueError(f"metrics: {wrong[0]} cannot be estimated for {subject}")
        self._check_lists()
        if self.rankings:
            columns = self.rankings.columns
            extra_roles = [name for name in ("date", "weight", "grade") if getattr(columns, name)]
            if extra_roles:
                raise ValueError(
                    "rankings.columns: lists have query, item, rank or score, and system; leave "
                    f"out {', '.join(extra_roles)}"
                )
        return self

    def _check_lists(self) -> None:
        """Raise ValueError if whole lists and items are asked for, or lists deeper than known."""
        measures = [counterfactual_metric(metric) for metric in self.measured]
        list_metrics = [measure for measure in measures if measure.metric.weighs_lists]
        if list_metrics and len(list_metrics) < len(measures):
            item_metric = next(measure for measure in measures if not measure.metric.weighs_lists)
            raise ValueError(
                f"metrics: {list_metrics[0]} weighs whole lists but {item_metric} weighs items; "
                "estimate them in two specs"
            )
        if list_metrics and not any(
            estimator in list_metrics[0].metric.estimators for estimator in self.estimators
        ):
            known_estimators = ", ".join(list_metrics[0].metric.estimators)
            raise ValueError(f"estimators: {list_metrics[0]} has {known_estimators}")
        if self.list_depth is None:
            return
        if not list_metrics:
            raise ValueError("list_depth only applies to mrr and hit; leave it out")
        deep = [
            measure for measure in list_metrics if measure.k is None or measure.k > self.list_depth
        ]
        if deep:
            raise ValueError(
                f"metrics: {deep[0]} needs more than the first {self.list_depth} items of a list; "
                "raise list_depth or lower the cutoff"
            )

    @property
    def weighs_lists(self) -> bool:
        """Whether whole lists are weighed, and not the positions of their items."""
        return any(counterfactual_metric(metric).metric.weighs_lists for metric in self.measured)

    @property
    def weighs_positions(self) -> bool:
        """Whether the propensities of positions are needed."""
        return self.rankings is not None and not self.weighs_lists

    @property
    def measured(self) -> tuple[str, ...]:
        """The metrics, also where none was named."""
        return self.metrics or (("dcg@10",) if self.rankings else ("ctr",))

    @property
    def title(self) -> str:
        """What the new ranker or the policy is called, where its table does not say it."""
        return self.system or (self.source.name if self.source else UNIFORM)

    @property
    def source(self) -> ClickRankings | Policy | None:
        """The table that is read beside the log; None for the uniform policy."""
        return self.rankings or (self.policy if isinstance(self.policy, Policy) else None)

    def read_from(self, source: Source) -> Counterfactual:
        """The same of another table, under the name that it had."""
        role = "rankings" if self.rankings else "policy"
        system_column = self.rankings.columns.system if self.rankings else None
        return self.model_copy(
            update={role: source, "system": None if system_column else self.title}
        )

    @property
    def estimated(self) -> tuple[EstimatedMetric, ...]:
        """The metrics by their estimators, as a fact table has them."""
        return tuple(estimated_metrics(self.measured, self.estimators))

    def decides(self, metric: EstimatedMetric) -> dict[str, Any]:
        """What of it decides the numbers of one of them, by name; the data apart."""
        settings: dict[str, Any] = {"metric": str(metric.measure), "estimator": metric.estimator}
        settings |= {"clip": self.clip} if metric.estimator in ("clipped_ips", "dr") else {}
        settings |= {"prior": self.prior} if metric.estimator == "dr" else {}
        settings |= {"actions": self.actions} if self.actions else {}
        settings |= {"list_depth": self.list_depth} if self.list_depth else {}
        return settings | ({"match": self.match} if self.rankings else {})


_ONLY: Mapping[str, str] = {"actions": "policy: uniform", "match": "rankings"}


def lacks(counterfactual: Counterfactual, columns: ImpressionColumns | None, section: str) -> str:
    """What a log lacks for a question; empty if nothing.

    Args:
        counterfactual: The question.
        columns: The columns of the log's impressions; None where a format fixes them.
        section: Where they are named.
    """
    if counterfactual.policy is not None and not (columns and columns.propensity_score):
        return (
            f"counterfactual.policy needs {section}.propensity_score, the probability that the "
            "logging policy showed each item"
        )
    if counterfactual.weighs_lists and not (columns and columns.list_propensity_score):
        (first, *_) = map(counterfactual_metric, counterfactual.measured)
        return (
            f"counterfactual.metrics: {first} {FIRST}; or name {section}.list_propensity_score, "
            "the probability that the logging policy showed the list"
        )
    if counterfactual.rankings is None or columns is None or columns.query is not None:
        return ""
    if counterfactual.match == "query":
        return f"counterfactual.match: query needs {section}.query"
    if "dr" in counterfactual.estimators and not counterfactual.weighs_lists:
        return (
            f"counterfactual.estimators: dr needs {section}.query, since its model is the rate of "
            "a query and item; without it name ips, clipped_ips, snips"
        )
    return ""
