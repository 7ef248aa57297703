"""What a driver gives, as Python's own values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """A value without Decimal: a whole number if it was declared as one.

    >>> plain(Decimal("3")), plain(Decimal("3.00"))
    (3, 3.0)
    """
    if not isinstance(value, Decimal):
        return value
    exponent = value.as_tuple().exponent
    return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
