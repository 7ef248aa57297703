"""Rankings and labels that Python holds -> Arrow: dicts of lists, sets or dicts, and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from numbers import Integral
from typing import Any

import pyarrow as pa

from sqlmetrics.engines.types import unreadable
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.matrices import matrix_of
from sqlmetrics.spec.source import LabelColumns, Model, RankingColumns

OTHER_NAMES = {"query": "query_id", "item": "doc_id", "score": "score", "grade": "relevance"}
"""What other tools, such as ir_measures, call the fields of their rows."""


def arrow_of(data: object, role: str, columns: Model) -> object:
    """Data in memory as Arrow, where it is Python's own; else the data itself.

    Ids are texts or whole numbers and become texts; the order of what is given is kept.
    A dict {query: items} becomes one row per query, with lists.

    Args:
        data: `{query: [item, ...]}`, for labels also `{query: {item, ...}}`; `{query: {item:
            score or grade}}`; a dict of columns; or rows: dicts, NamedTuples, or tuples
            (query, item, score or grade); what becomes a dict, like a run of ranx; or an
            array of NumPy, or what becomes one: see `_Table.of_array`.
        role: `rankings`, `labels` or `queries`, for messages.
        columns: The columns of that table, which give the names.

    Raises:
        InputError: If a dict or rows hold anything else.
    """
    if hasattr(data, "__arrow_c_stream__"):
        return data
    table = _Table(role, columns)
    try:
        if hasattr(data, "__array__"):
            return table.of_array(data.__array__())
        if hasattr(data, "to_dict"):
            data = data.to_dict()
        if isinstance(data, Mapping):
            return table.of_columns(data) if table.names(data) else table.of_queries(data)
        if isinstance(data, list | tuple | Iterator):
            return table.of_rows(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{role}: {unreadable(error)}") from None
    return data


class _Table:
    """A table to be made: its role, and the names of its columns."""

    def __init__(self, role: str, columns: Model) -> None:
        self.role = role
        self.query = str(getattr(columns, "query", ""))
        self.item = str(getattr(columns, "item", ""))
        self.value, self.value_role = "", ""
        if isinstance(columns, RankingColumns):
            self.value, self.value_role = columns.order, "score"
        elif isinstance(columns, LabelColumns):
            self.value, self.value_role = columns.grade, "grade"

    def names(self, data: Mapping[Any, Any]) -> bool:
        """Whether the keys of a dict are the names of columns, and not queries."""
        return {*filter(None, [self.query, self.item])} <= data.keys()

    def of_columns(self, data: Mapping[str, Any]) -> pa.Table:
        """A dict of columns."""
        return pa.table({name: self._column(name, values) for name, values in data.items()})

    def of_rows(self, rows: Iterable[Any]) -> pa.Table:
        """Rows that are dicts, NamedTuples or tuples."""
        records = [self._row(row) for row in rows]
        names = dict.fromkeys(chain.from_iterable(records)) or self._wanted.values()
        return self.of_columns({name: [row.get(name) for row in records] for name in names})

    def of_queries(self, data: Mapping[Any, Any]) -> pa.Table:
        """A dict from queries to their items: one row per query, with lists."""
        items_by_query = {query: self._items(query, items) for query, items in data.items()}
        items = [self._ids(self.item, list(entries)) for entries in items_by_query.values()]
        lists = {
            self.query: pa.array(self._ids(self.query, list(items_by_query)), pa.string()),
            self.item: pa.array(items, pa.list_(pa.string())),
        }
        valued = {isinstance(entries, Mapping) for entries in items_by_query.values()}
        if len(valued) > 1:
            raise InputError(f"{self.role}: give lists for all queries, or dicts for all")
        if True in valued:
            lists[self.value] = pa.array(
                [list(entries.values()) for entries in items_by_query.values()]
            )
        return pa.table(lists)

    def of_array(self, array: Any) -> pa.Table:
        """An array: structured, with a field a column; or two-dimensional, with a row a query.

        Queries are then the numbers of the rows, from 0. Rankings hold texts or whole numbers,
        which are items, best first; or numbers with fractions, which are scores of the items 0, 1,
        2, ... Labels hold the grades of the items 0, 1, 2, ..., as for scikit-learn.
        """
        if array.dtype.names:
            return self.of_columns({name: array[name] for name in array.dtype.names})
        if array.ndim != 2 or not array.shape[1] or not self.value:
            shape = "structured, or have a row a query" if self.value else "structured"
            raise InputError(
                f"{self.role}: an array must be {shape}, given the shape {array.shape}"
            )
        matrix = matrix_of(array, self.role)
        are_ids = matrix.kind == "text" or (self.value_role == "score" and matrix.kind == "whole")
        return matrix.table(self.query, self.item, "" if are_ids else self.value)

    @property
    def _wanted(self) -> dict[str, str]:
        """Role -> the name of its column."""
        column_by_role = {"query": self.query, "item": self.item, self.value_role: self.value}
        return {role: name for role, name in column_by_role.items() if name}

    def _row(self, row: Any) -> Mapping[str, Any]:
        if hasattr(row, "_asdict"):
            row = row._asdict()
        elif isinstance(row, tuple) and len(row) == 2 and self.value_role == "grade":
            row = dict(zip((self.query, self.item), row, strict=True))
        elif isinstance(row, tuple) and len(row) == len(self._wanted):
            row = dict(zip(self._wanted.values(), row, strict=True))
        if not isinstance(row, Mapping):
            shape = f"({', '.join(self._wanted.values())})"
            raise InputError(
                f"{self.role}: a row must be a dict, a NamedTuple or {shape}, given {row!r}"
            )
        name_by_alias = {
            OTHER_NAMES[role]: name for role, name in self._wanted.items() if name not in row
        }
        return {str(name_by_alias.get(name, name)): value for name, value in row.items()}

    def _items(self, query: object, items: Any) -> Any:
        """The items of one query: a dict, or anything else that has an order or needs none."""
        if hasattr(items, "tolist"):  # a NumPy array
            items = items.tolist()
        unordered = isinstance(items, set | frozenset)
        if unordered and self.role == "labels":
            return sorted(items, key=str)
        if self.value and isinstance(items, Mapping | list | tuple):
            return items
        reason = "a set has no order" if unordered else "neither a list nor a dict of items"
        raise InputError(f"{self.role}: query {query!r} has {items!r}: {reason}")

    def _column(self, name: str, values: Any) -> Any:
        if getattr(values, "ndim", 1) == 2:
            values = values.tolist()
        is_id = name in (self.query, self.item)
        lists = is_id and any(isinstance(value, list | tuple) for value in values)
        if lists:
            texts = [None if value is None else self._ids(name, value) for value in values]
            return pa.array(texts, pa.list_(pa.string()))
        if is_id:
            return pa.array(self._ids(name, values), pa.string())
        column = pa.array(values)
        return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column

    def _ids(self, name: str, values: Iterable[Any]) -> list[str | None]:
        return [self._id(name, value) for value in values]

    def _id(self, name: str, value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, Integral) and not isinstance(value, bool):
            return str(int(value))
        raise InputError(f"{self.role}: {name} must hold texts or whole numbers, given {value!r}")
