"""A number seen elsewhere: what it says, and how far its digits reach."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal

from sqlmetrics.catalog.metric import Metric, limits
from sqlmetrics.errors import SpecError
from sqlmetrics.stats import TIED

_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*(%?)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """A number with its digits.

    Attributes:
        text: As it was written.
        number: What it says; a percentage as a share.
        unit: What 1 in its last digit is worth.

    >>> target = read("35.06%")
    >>> target.number, target.unit, target.decimals
    (0.3506, 0.0001, 4)
    """

    text: str
    number: float
    unit: float

    @property
    def decimals(self) -> int:
        """How many digits there are behind the point."""
        return max(0, round(-math.log10(self.unit)))

    def is_rounded(self, value: float) -> bool:
        """Whether a value, rounded to as many digits, is the number."""
        return abs(value - self.number) <= self.unit / 2 + TIED

    def is_cut(self, value: float) -> bool:
        """Whether a value, cut off after as many digits, is the number."""
        return -TIED <= value - self.number < self.unit - TIED


def read(value: object) -> Target:
    """A number as people write it: `0.3506`, `.3506`, `35.06%`.

    Raises:
        SpecError: If it is none, or not finite.
    """
    text = str(value).strip()
    match = _NUMBER.fullmatch(text)
    if isinstance(value, bool) or match is None:
        raise SpecError(f"value must be a number like 0.3506 or 35.06%, given {value!r}")
    number = Decimal(match[1])
    exponent = int(number.as_tuple().exponent)
    if match[2]:
        number, exponent = number / 100, exponent - 2
    if not -300 < exponent < 300 or not math.isfinite(float(number)):
        raise SpecError(f"value must be a number like 0.3506 or 35.06%, given {value!r}")
    return Target(text, float(number), float(Decimal(10) ** exponent))


def checked(target: Target, metric: Metric) -> Target:
    """The number, if the metric can be it.

    Raises:
        SpecError: If it is out of the metric's range.
    """
    least, most = limits(metric.range)
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if low - target.unit / 2 <= target.number <= high + target.unit / 2:
        return target
    percent = "; write a percentage like 35.06%" if low <= target.number / 100 <= high else ""
    raise SpecError(
        f"{metric.name} is {metric.range}, so it cannot be {target.text}"
        + (percent if high == 1 and target.number > 1 else "")
    )
