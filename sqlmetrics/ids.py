"""Ids: which columns can hold them, and texts that look as if they were meant to be one id."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

QUOTES = "'\" \t\r\n"


def normal(text: str) -> str:
    """An id without what exports and joins add to it.

    >>> normal(" SKU-1"), normal("12.0"), normal("007"), normal("1e3")
    ('sku-1', '12', '7', '1000')
    """
    plain = unicodedata.normalize("NFKC", text).strip(QUOTES).casefold()
    try:
        number = float(plain.replace("_", "x"))  # Python reads 1_000
    except ValueError:
        return plain
    is_whole = math.isfinite(number) and number.is_integer()
    return str(int(number)) if is_whole else plain


def alike(ours: Iterable[str], theirs: Iterable[str]) -> tuple[str, str] | None:
    """The first two ids that look alike, one of each side; None if none do."""
    by_form = {normal(one): one for one in theirs}
    pairs = ((one, by_form[normal(one)]) for one in ours if normal(one) in by_form)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


_BROKEN = re.compile(r"DOUBLE|FLOAT|REAL|DECIMAL\(\d+,[1-9]")


def broken(names: Iterable[str], kinds: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """Columns of ids whose numbers may have fractions, so that 12.0 would not be '12'.

    Args:
        names: The columns.
        kinds: Column -> its type.

    Yields:
        What is wrong, how often, no examples, and what to do.
    """
    there = {name.casefold(): kind for name, kind in kinds.items()}
    for name in names:
        kind = there.get(name.casefold(), "")
        if _BROKEN.match(kind):
            what = f"{name} has the type {kind}, and ids are texts or whole numbers"
            remedy = "12.0 is not '12': cast it to bigint in sql, or in pandas by astype('Int64')"
            yield what, 1, (), (), remedy
