"""Per-query values that were seen elsewhere, as a table (query_id, value)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.sources import relation_in, source_of
from sqlmetrics.proof.reconcile.target import Target, checked, read
from sqlmetrics.spec.source import Queries
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import identifier

NOTHING = ("", "nan", "none", "null", "na", "-")
"""How tools write that a query has no value."""


@dataclass(frozen=True)
class GivenValues:
    """The values of single queries.

    Attributes:
        targets: Query -> its value, None where the tool has none.
    """

    targets: Mapping[str, Target | None]

    @property
    def unit(self) -> float:
        """What 1 is worth in the last digit of the value that has most of them."""
        return min(target.unit for target in self.targets.values() if target)

    @property
    def table(self) -> pa.Table:
        """The columns query_id and value."""
        values = [target.number if target else None for target in self.targets.values()]
        ids = pa.array(list(self.targets), pa.string())
        return pa.table({"query_id": ids, "value": pa.array(values, pa.float64())})


def read_seen(
    values: Any, column: str | None, query: str, measure: Measure, engine: Database
) -> GivenValues:
    """The values of queries, from a mapping or a table.

    Args:
        values: {query: value}; or a file, table or frame with a column of queries.
        column: The column of values; default: the metric's own name for it, `value`, or
            the only one beside the queries.
        query: The column of queries.
        measure: The metric.
        engine: Where tables are.

    Raises:
        InputError: If a value is no number, a query is there twice, or nothing is there.
        SpecError: If there is no such column, or the metric cannot have a value.
    """
    is_plain = isinstance(values, Mapping) and query not in values
    pairs = list(values.items()) if is_plain else _rows(values, column, query, measure, engine)
    targets: dict[str, Target | None] = {}
    for query_id, value in pairs:
        if str(query_id) in targets:
            raise InputError(f"values: query {str(query_id)!r} appears twice")
        targets[str(query_id)] = _target(str(query_id), value, measure)
    if not any(targets.values()):
        raise InputError("values: the table has no values")
    return GivenValues(targets)


def _target(query: str, value: object, measure: Measure) -> Target | None:
    if value is None or str(value).strip().casefold() in NOTHING:
        return None
    try:
        return checked(read(value), measure.metric)
    except SpecError as error:
        raise InputError(f"values: query {query!r}: {error}") from None


def _rows(
    values: Any, column: str | None, query: str, measure: Measure, engine: Database
) -> list[tuple[Any, Any]]:
    source = Queries(**source_of(values, "values", engine.find), columns={"query": query})
    text = source_text(relation_in(source, "values", engine))
    columns = engine.columns(text)
    if query.casefold() not in map(str.casefold, columns):
        raise SpecError(f"values: {unknown('column', query, columns)}")
    chosen = identifier(_column(column, query, list(columns), measure))
    return engine.rows(f"select cast({identifier(query)} as varchar), {chosen} from {text}")


def _column(column: str | None, query: str, columns: list[str], measure: Measure) -> str:
    other_columns = [name for name in columns if name.casefold() != query.casefold()]
    candidates = (column,) if column else (measure.column, str(measure), "value")
    for name in candidates:
        if name.casefold() in map(str.casefold, other_columns):
            return name
    if column is None and len(other_columns) == 1:
        return other_columns[0]
    raise SpecError(f"values: {unknown('column', candidates[0], other_columns)}")
