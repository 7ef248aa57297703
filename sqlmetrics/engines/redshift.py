"""Redshift, through redshift_connector. Tested for the shape of its calls, not executed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, ClassVar

import redshift_connector

from sqlmetrics.engines.dbapi import DbApi
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import LOST, first_line
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.engines.waiting import STOP_TIMEOUT

_KINDS = {  # by PostgreSQL's object ids
    16: "BOOLEAN",
    20: "BIGINT",
    21: "BIGINT",
    23: "BIGINT",
    700: "DOUBLE",
    701: "DOUBLE",
    1082: "DATE",
    1083: "TIME",
    1114: "TIMESTAMP",
    1184: "TIMESTAMP WITH TIME ZONE",
    1700: "DECIMAL",
}


class Redshift(DbApi):
    """A connection. Data goes in by INSERT alone: COPY reads from S3, which is not ours."""

    dialect = "redshift"
    name = "Redshift"
    errors = (redshift_connector.Error, OSError)
    TYPES: ClassVar = STANDARD | {
        "DOUBLE": "double precision",
        "VARCHAR": "varchar(65535) collate case_sensitive",
    }

    _connect_arguments: Mapping[str, Any] = {}
    _process = 0

    @classmethod
    def open(cls, url: ConnectionURL) -> Redshift:
        """`redshift://user:password@host:5439/database`."""
        arguments = url.driver_options(**url.login)
        with url.opening():
            engine = cls(_connected(arguments), is_owned=True)
        engine._connect_arguments = arguments
        return engine

    def _tag(self, text: str) -> None:
        """At the end of each statement, which the log of queries shows."""
        self._comment = f"\n-- {text}"

    @property
    def version(self) -> str:
        """As the cluster says it."""
        version_text = str(self.rows("select version()")[0][0])
        match = re.search(r"Redshift ([\d.]+)", version_text)
        return match[1] if match else version_text

    def _settle(self) -> None:
        if self._connect_arguments:
            ((self._process,),) = self.rows("select pg_backend_pid()")

    def _stop(self) -> None:
        """Cancel the statement over another connection: the driver only stops to listen."""
        if self._process:
            arguments = {**self._connect_arguments, "timeout": STOP_TIMEOUT}
            with suppress(Exception), closing(_connected(arguments)) as second_connection:
                second_connection.cursor().execute(f"select pg_cancel_backend({self._process})")

    def _recover(self) -> None:
        if not self._connection.autocommit:
            self._connection.rollback()

    def _message_fields(self, error: BaseException) -> dict[str, str]:
        """The fields of the server's message, which the driver gives as a dict."""
        fields = error.args[0] if error.args else None
        return fields if isinstance(fields, dict) else {}

    def _code(self, error: BaseException) -> str:
        return self._message_fields(error).get("C", "")

    def _reason(self, error: BaseException) -> str:
        is_lost = isinstance(error, OSError | redshift_connector.InterfaceError)
        return LOST if is_lost else super()._reason(error)

    def _brief(self, error: BaseException) -> str:
        return first_line(self._message_fields(error).get("M") or error)

    def _kind(self, described: Sequence[Any]) -> str:
        return _KINDS.get(described[1], "VARCHAR")


def _connected(arguments: Mapping[str, Any]) -> Any:
    connection = redshift_connector.connect(**arguments)
    connection.autocommit = True
    return connection
