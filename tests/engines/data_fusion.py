"""DataFusion: a second reader of the text for PostgreSQL; for tests alone, it must not write."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from sqlmetrics.engines.driver import Driver
from sqlmetrics.engines.failure import ABSENT, TYPE, first_line
from sqlmetrics.engines.types import ARROW, kind_of

_REASONS = (
    ("not found", ABSENT),
    ("No field named", ABSENT),
    ("Cannot cast", TYPE),
    ("Cannot coerce", TYPE),
    ("Cast error", TYPE),
    ("cannot be", TYPE),
)


class DataFusion(Driver):
    """A SessionContext."""

    dialect = "datafusion"
    name = "DataFusion"
    transactional = False
    errors = (Exception,)
    TYPES: ClassVar = {kind: kind for kind in ARROW}

    def __init__(self, connection: Any = None, *, is_owned: bool = True) -> None:
        import datafusion

        self._module = datafusion
        settings = {"datafusion.sql_parser.dialect": "PostgreSQL"}  # to which `cluster` is a name
        context = connection or datafusion.SessionContext(datafusion.SessionConfig(settings))
        super().__init__(context, is_owned=is_owned)

    @property
    def version(self) -> str:
        """Of the library."""
        return str(self._module.__version__)

    def _close(self) -> None:
        pass

    def _run(self, sql: str) -> None:
        self._connection.sql(sql).collect()

    def _arrow(self, sql: str) -> pa.Table:
        return self._connection.sql(sql).to_arrow_table()

    def _kinds(self, source: str) -> dict[str, str]:
        schema = self._connection.sql(f"select * from {source} limit 0").schema()
        return {field.name: kind_of(field.type) for field in schema}

    def _reason(self, error: BaseException) -> str:
        return next((reason for sign, reason in _REASONS if sign in str(error)), "")

    def _brief(self, error: BaseException) -> str:
        return first_line(str(error).removeprefix("DataFusion error: "))

    def _make(self, name: str, table: pa.Table, *, temporary: bool) -> None:
        held = "sqlmetrics_held"
        self._connection.from_arrow(table, held)
        try:
            self.execute(f"create table {self.quoted(name)} as select * from {held}")
        finally:
            self._connection.deregister_table(held)

    def _fill(self, target: str, table: pa.Table) -> None:
        raise NotImplementedError
