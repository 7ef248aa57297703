"""The range in which each metric lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

ALMOST = 1e-12
RANGES: Mapping[str, Callable[[float, int], bool]] = {
    "0 to 1": lambda value, _: 0 <= value <= 1 + ALMOST,
    "0 or 1": lambda value, _: 0 <= value <= 1,
    "0 to R": lambda value, relevant: 0 <= value <= relevant,
    "0 or more": lambda value, _: 0 <= value < math.inf,
    "-1 to 1": lambda value, _: -1 - ALMOST <= value <= 1 + ALMOST,
    "any number": lambda value, _: math.isfinite(value),
    "1 or more": lambda value, _: 1 <= value < math.inf,
}
"""What the metrics' headers say of their values, as conditions on a value and R."""
