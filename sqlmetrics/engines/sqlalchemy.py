"""SQLAlchemy's engines and connections: what is below them is one of ours; it is not imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_BASE = "sqlalchemy.engine.base"


def is_alchemy(connection: object) -> bool:
    """Whether it is an engine or a connection of SQLAlchemy, or derives from one."""
    return any(base.__module__ == _BASE for base in type(connection).__mro__)


def driver_connection(connection: Any) -> tuple[Any, Callable[[], object] | None]:
    """The driver's own connection, and what gives it back to the pool of an engine.

    Of a `Connection` it stays the user's, with the transaction that may be open on it.
    """
    pooled = connection.raw_connection() if hasattr(connection, "raw_connection") else None
    below = pooled or connection.connection
    return below.driver_connection, pooled and pooled.close


def url_of(connection: Any) -> str:
    """Its URL, with the name of the database's dialect alone and its password."""
    url = connection.engine.url
    text: str = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)
    return text
