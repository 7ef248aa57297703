"""What a user says of position bias: how it is learned how often positions are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Literal

from pydantic import Field, field_validator, model_validator

from sqlmetrics.spec.source import Model
from sqlmetrics.sql.user_sql import condition
from sqlmetrics.stats import CONFIDENCE

Method = Literal["none", "given", "randomised", "harvest", "em"]

OF_METHOD: Mapping[str, tuple[str, ...]] = {
    "given": ("given",),
    "randomised": ("randomised",),
    "harvest": ("pairs",),
    "em": ("tolerance", "max_rounds"),
}
"""Method -> the options that only it has."""


def wrong_curve(curve: Mapping[int, float]) -> str:
    """What is wrong with propensities by position; empty if nothing is.

    >>> wrong_curve({1: 1, 2: 0.6}), wrong_curve({2: 0.6})
    ('', 'propensities are relative to position 1; give it too, given 2')
    """
    wrong = [f"{k}: {p:g}" for k, p in curve.items() if k < 1 or not 0 < p < inf]
    if wrong:
        return (
            "propensities must be numbers above 0 by position, and positions count from 1; given "
            f"{', '.join(wrong)}"
        )
    positions = ", ".join(map(str, sorted(curve))) or "none"
    relative = f"propensities are relative to position 1; give it too, given {positions}"
    return "" if 1 in curve else relative


class ClickPropensity(Model):
    """How often each position is looked at, against position 1."""

    method: Method = "none"
    """`none`; `given`: they are known; `randomised`: from impressions in random order; `harvest`:
    from items that stood at several positions; `em`: of the position-based click model, by
    expectation maximisation."""
    given: Mapping[int, float] | Mapping[str, Mapping[int, float]] = {}
    """For `given`: position -> propensity, like {1: 1, 2: 0.6}; with `by` one for each of its
    values."""
    randomised: str | None = None
    """For `randomised`: a condition of the impressions: they stood in random order."""
    pairs: Literal["adjacent", "all"] = "all"
    """For `harvest`: which positions are compared with one another."""
    by: str | None = None
    """A column of `segments`, such as the device or the layout: each value has propensities of its
    own."""
    positions: int = Field(default=10, ge=2, le=100)
    """Down to which position they are estimated; what stands below has no part in what is
    corrected."""
    min_clicks: int = Field(default=50, ge=1)
    """Positions that fewer clicks connect are not compared."""
    max_weight: float = Field(default=10.0, ge=1, allow_inf_nan=False)
    """A click counts at most so often, 10 unless given, however seldom its position is looked
    at."""
    tolerance: float = Field(default=1e-4, gt=0, lt=1)
    """For `em`: it ends with a round that changes no propensity by a larger share, 0.0001 unless
    given."""
    max_rounds: int = Field(default=200, ge=1)
    """For `em`: it ends after so many rounds at the latest."""
    replicates: int = Field(default=200, ge=0, le=10_000)
    """How many samples of queries the intervals are of; 0 for none."""
    confidence: float = Field(default=CONFIDENCE, gt=0, lt=1)
    """The coverage of the intervals, 0.95 unless given."""

    @field_validator("randomised")
    @classmethod
    def _condition(cls, text: str | None) -> str | None:
        return text if text is None else condition(text)

    @model_validator(mode="after")
    def _of_its_method(self) -> ClickPropensity:
        fields = type(self).model_fields
        for method, names in OF_METHOD.items():
            set_names = [name for name in names if getattr(self, name) != fields[name].default]
            if set_names and method != self.method:
                raise ValueError(
                    f"{', '.join(set_names)}: only for method {method}, and the method is "
                    f"{self.method}"
                )
        if self.method == "given" and not self.given:
            raise ValueError(
                "method given needs the propensities by position; write given: {1: 1, 2: 0.6}"
            )
        if self.method == "randomised" and self.randomised is None:
            raise ValueError(
                "method randomised needs randomised, a condition that holds for impressions "
                "in random order"
            )
        return self

    @model_validator(mode="after")
    def _are_propensities(self) -> ClickPropensity:
        if self.given and (self.by is None) != (None in self.curves):
            example = "{phone: {1: 1, 2: 0.4}}" if self.by else "{1: 1, 2: 0.6}; by is not said"
            raise ValueError(f"given must be like {example}")
        for name, curve in self.curves.items():
            if problem := wrong_curve(curve):
                raise ValueError(f"given{f' of {name}' if name is not None else ''}: {problem}")
        return self

    @property
    def curves(self) -> Mapping[str | None, Mapping[int, float]]:
        """Value of `by`, or None -> what is given of it."""
        curves: dict[str | None, Mapping[int, float]] = {}
        for key, value in self.given.items():
            if isinstance(key, str) and isinstance(value, Mapping):
                curves[key] = value
            elif isinstance(key, int) and isinstance(value, float):
                curves[None] = {**curves.get(None, {}), key: value}
        return curves

    @property
    def is_known(self) -> bool:
        """Whether there are propensities."""
        return self.method != "none"

    @property
    def is_estimated(self) -> bool:
        """Whether the log is asked for them."""
        return self.method not in ("none", "given")

    @property
    def decides(self) -> set[str]:
        """The options that decide the propensities, but not their intervals."""
        shared = set() if self.method == "given" else {"positions", "min_clicks"}
        return {"method", *OF_METHOD.get(self.method, ()), "by", "max_weight", *shared}
