"""GoogleSQL: Google's own evaluator of BigQuery's language, in the wheel `zetasql`.

We go under the wheel's layer in Python, which moves bytes one by one: its protobufs are
built here and copied in one go. Data is registered with the catalog, queries take its id.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from sqlmetrics.engines.driver import Driver
from sqlmetrics.engines.failure import ABSENT, TYPE, first_line
from sqlmetrics.engines.types import column, kind_of
from sqlmetrics.sql.template import parts

EPOCH = date(1970, 1, 1)
KINDS = {
    "BIGINT": ("TYPE_INT64", "int64_value"),
    "BOOLEAN": ("TYPE_BOOL", "bool_value"),
    "DATE": ("TYPE_DATE", "date_value"),
    "DOUBLE": ("TYPE_DOUBLE", "double_value"),
    "VARCHAR": ("TYPE_STRING", "string_value"),
}
_REASONS = (
    ("not found", ABSENT),
    ("Unrecognized name", ABSENT),
    ("No matching signature", TYPE),
    ("Bad ", TYPE),
    ("Could not cast", TYPE),
    ("Invalid cast", TYPE),
    ("Cannot coerce", TYPE),
)
SCRATCH = "sqlmetrics_scratch"
_CREATED = re.compile(
    r"(?:\s*--[^\n]*\n)*\s*create\s+(?:temp\w*\s+)?table\s+(\S+)\s+as\b(.*)", re.I | re.S
)
_DROPPED = re.compile(r"\s*drop\s+table\s+(\S+)\s*$", re.I)


class GoogleSQL(Driver):
    """Tables live in a catalog that is registered anew when it changed; up to 100,000 rows."""

    dialect = "bigquery"
    name = "GoogleSQL"
    transactional = False
    TYPES: ClassVar = {kind: kind for kind in KINDS}

    def __init__(self, connection: Any = None, *, is_owned: bool = False) -> None:
        super().__init__(connection or _service(), is_owned=is_owned)
        self.errors = (Exception,)
        self._tables: dict[str, Any] = {}
        self._contents: dict[str, Any] = {}
        self._catalog: int | None = None

    @property
    def version(self) -> str:
        """Of the wheel."""
        return version("zetasql")

    def _call(self, name: str, request: Any, response: Any) -> Any:
        return self._connection.call_grpc_func(f"ZetaSqlLocalService_{name}", request, response)

    def _run(self, sql: str) -> None:
        if created := _CREATED.match(sql):
            self._put(parts(created[1].replace("`", '"'))[-1], self._arrow(created[2]))
        elif dropped := _DROPPED.match(sql):
            name = parts(dropped[1].replace("`", '"'))[-1]
            del self._tables[name], self._contents[name]
            self._catalog = None
        else:
            self._arrow(sql)

    def _make(self, name: str, table: pa.Table, *, temporary: bool) -> None:
        self._put(parts(name)[-1], table)

    def _fill(self, target: str, table: pa.Table) -> None:
        raise NotImplementedError

    def _put(self, name: str, table: pa.Table) -> None:
        p = _protobufs()
        described, content = p.SimpleTableProto(name=name), p.TableContent()
        kinds = [KINDS[kind_of(array.type)] for array in table.columns]
        content.table_data.SetInParent()  # also where there are no rows
        for field, (kind, _) in zip(table.column_names, kinds, strict=True):
            described.column.add(name=field).type.type_kind = p.TypeKind.Value(kind)
        for row in zip(*(array.to_pylist() for array in table.columns), strict=True):
            cells = content.table_data.row.add()
            for value, (_, slot) in zip(row, kinds, strict=True):
                cell = cells.cell.add()
                if value is not None:
                    setattr(cell, slot, (value - EPOCH).days if slot == "date_value" else value)
        self._tables[name], self._contents[name], self._catalog = described, content, None

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """There are no schemas: the name is left out of what is asked."""
        yield SCRATCH

    def _registered(self) -> int:
        if self._catalog is None:
            p = _protobufs()
            request = p.RegisterCatalogRequest()
            request.simple_catalog.name = "sqlmetrics"
            options = request.simple_catalog.builtin_function_options.language_options
            options.CopyFrom(_language(self._connection))
            for name, table in self._tables.items():
                request.simple_catalog.table.add().CopyFrom(table)
                request.table_content[name].CopyFrom(self._contents[name])
            self._catalog = self._call("RegisterCatalog", request, p.RegisterResponse).registered_id
        return self._catalog

    def _prepared(self, sql: str) -> Any:
        p = _protobufs()
        sql = sql.replace(f"`{SCRATCH}`.", "")
        request = p.PrepareQueryRequest(sql=sql, registered_catalog_id=self._registered())
        request.options.language_options.CopyFrom(_language(self._connection))
        request.options.prune_unused_columns = True
        return self._call("PrepareQuery", request, p.PrepareQueryResponse).prepared

    def _release(self, prepared: Any) -> None:
        p = _protobufs()
        request = p.UnprepareQueryRequest(prepared_query_id=prepared.prepared_query_id)
        self._call("UnprepareQuery", request, p.Empty)

    def _kinds(self, source: str) -> dict[str, str]:
        prepared = self._prepared(f"select * from {source}")
        self._release(prepared)
        return {field.name: _kind(field.type.type_kind) for field in prepared.columns}

    def _arrow(self, sql: str) -> pa.Table:
        p = _protobufs()
        prepared = self._prepared(sql)
        try:
            request = p.EvaluateQueryRequest(prepared_query_id=prepared.prepared_query_id)
            rows = self._call("EvaluateQuery", request, p.EvaluateQueryResponse)
        finally:
            self._release(prepared)
        values = [list(map(_value, row.cell)) for row in rows.content.table_data.row]
        arrays = [
            column([row[index] for row in values], _kind(field.type.type_kind))
            for index, field in enumerate(prepared.columns)
        ]
        return pa.table(arrays, names=[field.name for field in prepared.columns])

    def _reason(self, error: BaseException) -> str:
        return next((reason for sign, reason in _REASONS if sign in str(error)), "")

    def _brief(self, error: BaseException) -> str:
        return first_line(error)


def _kind(number: int) -> str:
    names = {_protobufs().TypeKind.Value(name): kind for kind, (name, _) in KINDS.items()}
    return names.get(number, _protobufs().TypeKind.Name(number))


def _value(cell: Any) -> Any:
    slot = cell.WhichOneof("value")
    value = getattr(cell, slot) if slot else None
    return EPOCH + timedelta(value) if slot == "date_value" else value


@cache
def _protobufs() -> Any:
    from types import SimpleNamespace

    from google.protobuf.empty_pb2 import Empty
    from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as service
    from zetasql.wasi._pb2.zetasql.proto.options_pb2 import LanguageOptionsProto
    from zetasql.wasi._pb2.zetasql.public.options_pb2 import ProductMode
    from zetasql.wasi._pb2.zetasql.public.simple_table_pb2 import SimpleTableProto
    from zetasql.wasi._pb2.zetasql.public.type_pb2 import TypeKind

    names = [name for name in dir(service) if name.endswith(("Request", "Response", "Content"))]
    return SimpleNamespace(
        **{name: getattr(service, name) for name in names},
        Empty=Empty,
        LanguageOptionsProto=LanguageOptionsProto,
        ProductMode=ProductMode,
        SimpleTableProto=SimpleTableProto,
        TypeKind=TypeKind,
    )


@cache
def _service() -> Any:
    """The evaluator, with its compiled code kept: 22 s the first time, 0.5 s later."""
    import wasmtime

    plain = wasmtime.Module.from_file
    wasmtime.Module.from_file = staticmethod(lambda engine, path: _compiled(engine, path, plain))
    try:
        from zetasql.core.local_service import ZetaSqlLocalService

        client = ZetaSqlLocalService.get_instance().wasm_client
    finally:
        wasmtime.Module.from_file = plain
    start = lambda: ctypes.cast(client.memory.data_ptr(), ctypes.c_void_p).value  # noqa: E731
    client.write_bytes = lambda at, data: ctypes.memmove(start() + at, data, len(data))
    client.read_bytes = lambda at, size: ctypes.string_at(start() + at, size)
    return client


def _compiled(engine: Any, path: Any, compile_: Any) -> Any:
    import wasmtime

    name = f"googlesql_{version('zetasql')}_{version('wasmtime')}.cwasm"
    kept = Path(tempfile.gettempdir()) / name
    if not kept.exists():
        module = compile_(engine, path)
        file = Path(f"{tempfile.mkdtemp()}/{name}")
        file.write_bytes(module.serialize())
        file.replace(kept)
    return wasmtime.Module.deserialize_file(engine, str(kept))


@cache
def _language(client: Any) -> Any:
    """All released features, as BigQuery has them."""
    p = _protobufs()
    request = p.LanguageOptionsRequest(maximum_features=True)
    name = "ZetaSqlLocalService_GetLanguageOptions"
    options = client.call_grpc_func(name, request, p.LanguageOptionsProto)
    options.product_mode = p.ProductMode.Value("PRODUCT_EXTERNAL")
    if "QUALIFY" not in options.reserved_keywords:
        options.reserved_keywords.append("QUALIFY")
    return options
