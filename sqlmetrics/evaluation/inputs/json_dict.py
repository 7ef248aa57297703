"""A file of JSON that is one object, query -> item -> number, as ranx and others save runs."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Any

SUFFIXES = (".json", ".json.gz")
"""Endings of the files that may be one."""

_START = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{\s*("(?:[^"\\]|\\.)*"\s*:\s*-?[\d.]|\})')
_LOOK = 4096
"""So many characters are looked at before a file is read whole."""


def dict_in(file: str) -> dict[str, dict[str, float]] | None:
    """The object in a file, None if it is anything else.

    Args:
        file: A path that is there, or a pattern.
    """
    if not file.casefold().endswith(SUFFIXES):
        return None
    open_file = gzip.open if file.casefold().endswith(".gz") else open
    try:
        with open_file(Path(file), "rt", encoding="utf-8-sig") as text:
            start = text.read(_LOOK)
            if not _START.match(start):
                return None
            held = json.loads(start + text.read())
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return None  # lines of JSON, or what DuckDB will tell
    return held if _is_run(held) else None


def _is_run(held: Any) -> bool:
    """Whether it is query -> item -> number."""
    return isinstance(held, dict) and all(
        isinstance(items, dict)
        and all(
            isinstance(value, int | float) and not isinstance(value, bool)
            for value in items.values()
        )
        for items in held.values()
    )
