"""What becomes a label of a click log."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sqlmetrics.spec.click_columns import CLICK
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.source import Finite, Model

OF_POOL: Mapping[str, tuple[str, ...]] = {
    "impression": ("grades",),
    "query_item": ("rate", "prior", "min_impressions", "cuts", "quantiles", "window", "max_rank"),
}
"""Pool -> the options that only it has."""


OPENSEARCH = "opensearch_coec"

CORRECTED = ("ips", "coee")
"""Rates that need propensities."""


class ClickLabels(Model):
    """What becomes a label."""

    grades: Mapping[str, Annotated[Finite, Field(ge=0)]] = {CLICK: 1.0}
    """For `impression`: action -> the grade of an item on which it was done; the highest wins."""
    pool: Literal["impression", "query_item"] = "impression"
    """`impression`: the labels of a request are its own clicks. `query_item`: all requests with the
    same text share a rate of each item."""
    rate: Literal["ctr", "coec", "purchase_rate", "ips", "coee", "sdbn", "opensearch_coec"] = "ctr"
    """For `query_item`: `ctr`, `coec` (clicks over expected clicks, of its positions),
    `purchase_rate` (purchases over impressions), `ips` (clicks, each over the propensity of its
    position, over impressions) or `coee` (clicks over expected examinations: the sum of the
    propensities); these two need `propensity`. `sdbn`: last clicks over impressions down to the
    last click. `opensearch_coec` is the number of OpenSearch's search-relevance, for
    `format: ubi`."""
    prior: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """As many more impressions with the mean rate of all are added to each item; for `coec` as many
    more clicks, done and expected."""
    min_impressions: int = Field(default=1, ge=1)
    """Items shown less often for a query get no label."""
    cuts: tuple[float, ...] = ()
    """Rates from which on an item has the grade 1, 2, ...; without cuts and quantiles the rate
    itself is the grade."""
    quantiles: tuple[float, ...] = ()
    """Shares of all labelled pairs of a query and an item: the grade is 1, 2, ... where the rate is
    above that of so many of them, like [0.5, 0.8, 0.95].
    """
    max_rank: int | None = Field(default=None, ge=1)
    """For `opensearch_coec`: its maxRank; events at lower positions do not count."""
    window: Days | None = None
    """The days of the requests from which pooled labels are learned; needs `evaluation` beside
    it."""

    @model_validator(mode="after")
    def _of_its_pool(self) -> ClickLabels:
        fields = type(self).model_fields
        for pool, names in OF_POOL.items():
            set_names = [name for name in names if getattr(self, name) != fields[name].default]
            if set_names and pool != self.pool:
                raise ValueError(
                    f"{', '.join(set_names)}: only for pool {pool}, and the pool is {self.pool}"
                )
        return self

    @model_validator(mode="after")
    def _as_opensearch_has_it(self) -> ClickLabels:
        if self.rate == OPENSEARCH and self.prior:
            raise ValueError(f"rate {OPENSEARCH} has no prior; leave prior out, or set rate: coec")
        if self.rate != OPENSEARCH and self.max_rank is not None:
            raise ValueError(f"max_rank: only for rate {OPENSEARCH}, and the rate is {self.rate}")
        return self

    @model_validator(mode="after")
    def _cut_once(self) -> ClickLabels:
        if self.cuts and self.quantiles:
            raise ValueError("give cuts or quantiles, not both")
        if list(self.cuts or self.quantiles) != sorted(set(self.cuts or self.quantiles)):
            raise ValueError("cuts and quantiles must rise; write them in ascending order")
        if any(not 0 < quantile < 1 for quantile in self.quantiles):
            raise ValueError("quantiles must be between 0 and 1")
        highest = 1 if self.rate in ("ctr", "purchase_rate", "sdbn") else inf
        if any(not 0 < cut <= highest or cut == inf for cut in self.cuts):
            raise ValueError(f"cuts of {self.rate} are above 0" + " and at most 1" * (highest == 1))
        return self

    @property
    def pools(self) -> bool:
        """Whether requests share their labels."""
        return self.pool == "query_item"

    @property
    def corrects(self) -> bool:
        """Whether the rate is one of how often positions are looked at."""
        return self.rate in CORRECTED
