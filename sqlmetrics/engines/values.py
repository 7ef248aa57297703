"""What a driver gives, as Python's own values."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from sqlmetrics.errors import SpecError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b", re.IGNORECASE)


def plain(value: Any) -> Any:
    """A value without Decimal: a whole number if it was declared as one.

    >>> plain(Decimal("3")), plain(Decimal("3.00"))
    (3, 3.0)
    """
    if not isinstance(value, Decimal):
        return value
    exponent = value.as_tuple().exponent
    return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)


def size_in_bytes(size: str) -> int:
    """A size in bytes.

    Raises:
        SpecError: If it is none.

    >>> size_in_bytes("4GB"), size_in_bytes("1.5 GiB")
    (4000000000, 1610612736)
    """
    matched = _SIZE.fullmatch(size.strip())
    if matched is None or not float(matched[1]):
        raise SpecError(f"memory must be a size like 4GB, given {size!r}")
    number, unit, is_binary = matched.groups()
    base = 1024 if is_binary else 1000
    return int(float(number) * base ** " kmgt".index(unit.lower() or " "))
