"""Rows as programs read them: CSV and JSON."""

from __future__ import annotations

import csv as csv_module
import io
import json
import math
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def csv(table: pa.Table) -> str:
    """Comma-separated values with a header; NULL is empty."""
    buffer = io.StringIO()
    writer = csv_module.writer(buffer, lineterminator="\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches():
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return buffer.getvalue()


def json_lines(table: pa.Table) -> str:
    """A JSON list of rows, one a line; NaN, which JSON has not, becomes null."""
    return "[\n" + ",\n".join(_objects(table)) + "\n]"


def jsonl(table: pa.Table) -> str:
    """JSON lines: a row per line, without a list around them."""
    return "\n".join(_objects(table))


def _objects(table: pa.Table) -> list[str]:
    return [
        json.dumps({key: _plain_value(value) for key, value in row.items()}, ensure_ascii=False)
        for row in table.to_pylist()
    ]


def _plain_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, date) else value
