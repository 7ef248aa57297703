"""The kinds of columns: DuckDB's words for them, and what they are in Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sqlmetrics.errors import InputError

ARROW: Mapping[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us"),
    "VARCHAR": pa.string(),
}
"""What a result's column is in Arrow, by its kind; a DECIMAL becomes one of these."""

_TESTS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_string, "VARCHAR"),
    (pa.types.is_large_string, "VARCHAR"),
    (pa.types.is_string_view, "VARCHAR"),
    (pa.types.is_null, "VARCHAR"),
    (pa.types.is_binary, "BLOB"),
    (pa.types.is_large_binary, "BLOB"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_time, "TIME"),
    (pa.types.is_duration, "INTERVAL"),
    (pa.types.is_interval, "INTERVAL"),
    (pa.types.is_map, "MAP"),
    (pa.types.is_struct, "STRUCT"),
)


def kind_of(arrow: pa.DataType) -> str:
    """DuckDB's word for an Arrow type.

    >>> kind_of(pa.int32()), kind_of(pa.list_(pa.string())), kind_of(pa.decimal128(9, 2))
    ('BIGINT', 'VARCHAR[]', 'DECIMAL(9,2)')
    """
    if pa.types.is_dictionary(arrow):
        return kind_of(arrow.value_type)
    if pa.types.is_decimal(arrow):
        return decimal(arrow.precision, arrow.scale)
    if hasattr(arrow, "value_type") and not pa.types.is_map(arrow):
        return f"{kind_of(arrow.value_type)}[]"
    return next((kind for test, kind in _TESTS if test(arrow)), str(arrow).upper())


def decimal(precision: int | None, scale: int | None) -> str:
    """The kind of a decimal; without a scale where the database does not tell it."""
    return "DECIMAL" if precision is None or scale is None else f"DECIMAL({precision},{scale})"


def fields_of_list(kind: str) -> list[str]:
    """The names in the structs that a column of this type has lists of.

    >>> fields_of_list("STRUCT(id VARCHAR, score DOUBLE)[]")
    ['id', 'score']
    """
    import duckdb

    held: Any = dict(duckdb.sqltype(kind).children)["child"]
    return [name for name, _ in held.children]


def arrow_type(kind: str) -> pa.DataType:
    """What a result's column of a kind is in Arrow: texts, where no other type is known.

    >>> arrow_type("DECIMAL(38,0)"), arrow_type("DECIMAL(9,2)"), arrow_type("UUID")
    (DataType(int64), DataType(double), DataType(string))
    """
    if kind.startswith("DECIMAL"):
        return pa.int64() if kind.endswith(",0)") else pa.float64()
    return ARROW.get(kind, pa.string())


def column(values: Sequence[Any], kind: str) -> pa.Array:
    """A column that a driver gave as Python's values.

    Args:
        values: The values.
        kind: Its kind; empty where the database does not tell it.
    """
    if not kind:
        return _guessed(values)
    target_type = arrow_type(kind)
    try:
        return pa.array(values, target_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        convert = _CONVERT.get(target_type, lambda value: value)
        return pa.array(
            [None if value is None else convert(value) for value in values], target_type
        )


def _guessed(values: Sequence[Any]) -> pa.Array:
    """By the values alone; a column of NULLs is one of numbers."""
    types = {type(value) for value in values} - {type(None)}
    if types <= {int, float, Decimal} and types != {int}:
        return column(values, "DOUBLE")
    if types == {int}:
        return column(values, "BIGINT")
    return pa.array(values) if len(types) == 1 else column(values, "VARCHAR")


def _integer(value: Any) -> int:
    if int(value) != value:
        raise ValueError(f"{value!r} is not a whole number")
    return int(value)


_CONVERT: Mapping[pa.DataType, Callable[[Any], Any]] = {
    pa.float64(): float,
    pa.int64(): _integer,
    pa.string(): str,
    pa.bool_(): bool,
}


def settled(table: pa.Table) -> pa.Table:
    """An engine's Arrow table with the types of `ARROW` and no others, but for lists."""
    arrays = [_settled(array) for array in table.columns]
    return pa.table(arrays, names=table.column_names)


def _settled(array: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = kind_of(array.type)
    if kind not in ARROW and not kind.startswith("DECIMAL"):
        return array
    target_type = arrow_type(kind)
    if array.type == target_type:
        return array
    exact = pa.types.is_integer(target_type)
    try:
        return array.cast(target_type, safe=exact)
    except pa.ArrowInvalid:  # a whole number above 2^63
        return array.cast(pa.float64(), safe=False)


def tabular(data: Any) -> pa.Table:
    """Data in memory as an Arrow table of the types of `ARROW`.

    Raises:
        InputError: If it is not tabular, or two of its columns differ in case alone.
    """
    try:
        table = settled(type_null_columns(pa.table(arrow_data(data))))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(unreadable(error)) from None
    differ_in_case(table.column_names)
    return table


def unreadable(error: Exception) -> str:
    """Why data in memory is no table, in a sentence."""
    message = " ".join(map(str, error.args))
    mixed = re.search(r"Conversion failed for column (.*) with type object", message)
    if isinstance(error, UnicodeEncodeError):
        half = error.object[error.start : error.end]
        reason = f"a text has half a character, {half!r}, which UTF-8 cannot store"
    elif mixed:
        reason = f"the column {mixed[1]!r} has values of several types; convert them to one"
    else:
        reason = str(error)
    return f"the data in memory cannot be read as a table: {reason}"


def type_null_columns(table: pa.Table) -> pa.Table:
    """The table without columns of NULLs that have no type: they are texts."""
    nulls = [name for name in table.column_names if pa.types.is_null(table.schema.field(name).type)]
    for name in nulls:
        index = table.column_names.index(name)
        table = table.set_column(index, name, table[name].cast(pa.string()))
    return table


def arrow_data(data: Any) -> Any:
    """Data in memory as an Arrow table, or as a dataset, of which only columns are read.

    Raises:
        InputError: If it is neither.
    """
    if hasattr(data, "scanner"):  # a pyarrow Dataset
        return data
    kind = type(data)
    if not hasattr(data, "__arrow_c_stream__"):
        data = _collected(data)
    if not hasattr(data, "__arrow_c_stream__"):
        raise InputError(
            "data in memory must be a DataFrame, speak Arrow, or be rows or a dict of lists, "
            f"given {kind.__name__}"
        )
    table = _without_halves(pa.table(data))
    for field in table.schema:
        if pa.types.is_decimal256(field.type):
            raise InputError(
                f"the column {field.name!r} has the type {field.type}, which no database reads; "
                "cast it to float64"
            )
    return table


def _collected(data: Any) -> Any:
    """What a lazy frame or a scanner gives once it is asked for its rows.

    Raises:
        InputError: If it is Spark's, and does not speak Arrow.
    """
    if type(data).__module__.startswith("pyspark."):
        raise InputError(
            "a DataFrame of this version of pyspark cannot be read as Arrow; give df.toArrow() "
            "or df.toPandas(), or the name of a temporary view with connection=spark"
        )
    if hasattr(data, "collect"):  # a polars LazyFrame
        return data.collect()
    return data.to_reader() if hasattr(data, "to_reader") else data  # a pyarrow Scanner


def _without_halves(table: pa.Table) -> pa.Table:
    """A table with floats of 32 bits in the place of those of 16, which no database reads."""
    fields = [
        field.with_type(pa.float32()) if pa.types.is_float16(field.type) else field
        for field in table.schema
    ]
    schema = pa.schema(fields, metadata=table.schema.metadata)
    return table if schema == table.schema else table.cast(schema)


def differ_in_case(names: Iterable[str]) -> None:
    """Refuse columns whose names differ in case alone.

    Raises:
        InputError: With their names.
    """
    names = list(names)
    folded = [name.casefold() for name in names]
    twice = [name for name in names if folded.count(name.casefold()) > 1]
    if twice:
        raise InputError(f"the data in memory has columns that differ only in case: {twice}")
