"""What every result can become: text, HTML, and tables of Arrow, pandas and polars."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date
from decimal import Decimal
from functools import partial
from importlib import import_module
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Union, get_args, get_origin, get_type_hints

from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.tables.table import (
    Table,
    html_notes,
    html_text,
    in_notebook,
    markdown_notes,
    visible,
)

if TYPE_CHECKING:
    import pyarrow as pa

PAINTER = "sqlmetrics.comparison.page.notebook"
"""Who draws: a module of a room above, which is loaded when a notebook asks and not before."""

Row = dict[str, Any]
Kinds = Mapping[str, str]
"""Column -> its type, as Arrow spells it."""

Block = str | Table | tuple["str | Table", ...]
"""A part of what people read: a text, a table, or several with no blank line between them."""

ArrowTables = dict[str, Callable[[], "pa.Table"]]
"""Name -> how the table is made, the main one first."""

NOTE = re.compile(r"\n(?=note: )")
"""Where a note begins below other lines."""

_KINDS = {str: "string", int: "int64", float: "double", bool: "bool", date: "date32"}


class Text(str):
    """A text of several lines that shows itself as it is, in a notebook and at a prompt."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html_text(self)}</pre>"


class Tabular:
    """A result of one table or several, the main one first; it prints as text.

    A subclass has its rows as `to_dicts` and their columns as `_schemas`, or `_arrow_tables`; and
    what people read as `_blocks`.
    """

    _schemas: ClassVar[Mapping[str, Kinds]] = {}
    """Table -> its columns, the main one first, where they are the same of each result."""

    _is_drawn: ClassVar[bool] = False
    """Whether a notebook shows charts of it, where the extra `report` is installed."""

    def to_dicts(self) -> Any:
        """The rows as dicts; of several tables a dict of lists. By default those of Arrow."""
        rows = {name: table().to_pylist() for name, table in self._arrow_tables().items()}
        return rows if len(rows) > 1 else next(iter(rows.values()))

    def _arrow_tables(self) -> ArrowTables:
        """Name -> the table, the main one first; by default the rows of `to_dicts`."""
        dicts = self.to_dicts()
        return arrow_tables(dicts if isinstance(dicts, dict) else [dicts], self._schemas)

    def _blocks(self) -> Iterable[Block]:
        """What people read, in order."""
        return ()

    def blocks(self) -> Sequence[Block]:
        """What people read, in order."""
        return [*self._blocks()]

    @property
    def table_names(self) -> list[str]:
        """What `to_arrow`, `to_pandas` and `to_polars` take, the main table first."""
        return list(self._arrow_tables())

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """A table of Arrow.

        Args:
            table: Its name. Default: the main one.

        Raises:
            SpecError: If the result has no table of this name.
        """
        tables = self._arrow_tables()
        name = next(iter(tables)) if table is None else table
        if name not in tables:
            raise SpecError(unknown("table", name, tables))
        return tables[name]()

    def to_pandas(self, table: str | None = None) -> Any:
        """A DataFrame of pandas; `table` as `to_arrow` takes it."""
        return self.to_arrow(table).to_pandas()

    def to_polars(self, table: str | None = None) -> Any:
        """A DataFrame of polars; `table` as `to_arrow` takes it."""
        import polars as pl

        return pl.from_arrow(self.to_arrow(table))

    def to_json(self) -> str:
        """The main table as JSON: a list of objects, null for what is not known."""
        return json_lines(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The main table for whatever reads Arrow: `pl.DataFrame(result)`, `pa.table(result)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def text(self) -> str:
        """All of it for a terminal."""
        return "\n\n".join(filter(None, map(_block_text, self.blocks())))

    def markdown(self) -> str:
        """All of it as Markdown."""
        parts = (part for block in self.blocks() for part in _parts(block))
        texts = (
            markdown_notes(NOTE.split(part)) if isinstance(part, str) else part.markdown()
            for part in parts
        )
        return "\n\n".join(filter(None, texts))

    def html(self) -> str:
        """All of it for a page."""
        parts = (part for block in self.blocks() for part in _parts(block))
        return "".join(
            f"<p>{html_notes(part.splitlines())}</p>" if isinstance(part, str) else part.html()
            for part in parts
            if part
        )

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_()["text/html"])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        with in_notebook():
            if not self._is_drawn:
                return {"text/plain": repr(self), "text/html": self.html()}
            bundle: dict[str, Any] = import_module(PAINTER).bundle(self)
            return bundle


def _parts(block: Block) -> Sequence[str | Table]:
    return block if isinstance(block, tuple) else (block,)


def _block_text(block: Block) -> str:
    return "\n".join(
        visible(part) if isinstance(part, str) else part.text() for part in _parts(block) if part
    )


def kinds_of(row_class: type, **computed: str) -> dict[str, str]:
    """The types of the columns that rows of a dataclass become.

    Args:
        row_class: The dataclass; what is no number, text, truth value or day is left out.
        computed: Column -> the type of what is computed from them.
    """
    hints = get_type_hints(row_class)
    kinds = {}
    for name in (row_field.name for row_field in fields(row_class)):
        hint = hints[name]
        choices = [*get_args(hint)] if get_origin(hint) in (Union, UnionType) else [hint]
        types = [choice for choice in choices if choice is not NoneType]
        if len(types) == 1 and types[0] in _KINDS:
            kinds[name] = _KINDS[types[0]]
    return kinds | computed


def arrow_tables(
    rows: Mapping[str, Iterable[Row]] | Sequence[Iterable[Row]], schemas: Mapping[str, Kinds]
) -> ArrowTables:
    """Tables of rows, in the order of their schemas.

    Args:
        rows: Name -> the rows, which may have more keys than columns; or those of each schema.
        schemas: Name -> the types of the columns.
    """
    if not isinstance(rows, Mapping):
        rows = dict(zip(schemas, rows, strict=True))
    return {name: partial(arrow_table, rows[name], kinds) for name, kinds in schemas.items()}


def arrow_table(rows: Iterable[Row], kinds: Kinds) -> pa.Table:
    """Rows as a table of Arrow; what a row does not have is NULL."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in kinds.items()])
    return pa.Table.from_pylist([{name: row.get(name) for name in kinds} for row in rows], schema)


def csv_text(table: pa.Table) -> str:
    """Comma-separated values with a header; NULL is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
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
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, list):
        return [_plain_value(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain_value(element) for key, element in value.items()}
    return value.isoformat() if isinstance(value, date) else value
