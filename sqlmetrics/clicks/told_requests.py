"""What a table of one row per request tells of each beside its metrics: its query, its segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlmetrics.spec.click_log import RANKINGS
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import identifier, lines

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.engines.database import Database

QUERY_TEXT = "query_text"
"""What was asked."""


def request_columns(spec: Spec, keys: Iterable[str]) -> list[str]:
    """The query's text and the segments that a click log has; none of another spec.

    Args:
        spec: What is asked; a segment that is called as one of its metrics is left out.
        keys: The keys of the table, likewise.
    """
    columns = spec.clicks.columns if spec.clicks else None
    if columns is None:
        return []
    taken = {name.casefold() for name in (*keys, *(one.column for one in spec.measures))}
    told = (*[QUERY_TEXT] * (columns.query is not None), *columns.segments)
    return [name for name in dict.fromkeys(told) if name.casefold() not in taken]


def of_requests(names: Iterable[str], key: str = "query_id") -> str:
    """A `select` of these columns, one row a request, while the log's lists are there.

    Args:
        names: The columns.
        key: What the request is called.
    """
    told = [Column(f"min({identifier(name)})", name) for name in names]
    columns = lines([Column("query_id", key), *told])
    return f"select\n    {columns}\nfrom {RANKINGS}\ngroup by query_id"


def with_requests(per_query: pa.Table, spec: Spec, engine: Database) -> pa.Table:
    """A table of one row per request with these columns.

    Args:
        per_query: The table.
        spec: What was asked.
        engine: Where the log's lists are.
    """
    names = request_columns(spec, per_query.column_names)
    if not names:
        return per_query
    return per_query.join(engine.table(of_requests(names)), keys="query_id")
