"""Where a database is: what a URL or a profile says of it, without its secrets in sight."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from sqlmetrics.engines.failure import first_line
from sqlmetrics.errors import EngineError, SpecError, keep_secret, masked, nearest

SECRETS = (
    "password",
    "pass",
    "passwd",
    "pwd",
    "token",
    "secret",
    "credential",
    "key",
    "auth",
    "webhook",
)
"""What stands in the name of an option, or of a variable of the environment, that is a secret."""

VARIABLES = ("PGPASSWORD", "MYSQL_PWD", "OPENLINEAGE_API_KEY")
"""Variables of the environment that drivers read themselves."""

_WORD = re.compile(r"(?i)\b(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s;&]+)")
_LOGIN = re.compile(r"://[^/:@\s]*:([^\s'\"]*)@")

DEFAULT = "duckdb"
"""The scheme of the database that is taken if none is given."""

FILES = (DEFAULT, "sqlite", "chdb")
"""Schemes of databases that are a file or folder here, or in memory."""

ONE_DATABASE = ("sqlite", "chdb")
"""Schemes of files whose tables have no name of a database before their own."""

PLAIN_SCHEMES = {"postgresql": "postgres", "mariadb": "mysql"}
"""Scheme of a URL -> the one that OpenLineage's names have."""

PORTS = {"postgres": 5432, "mysql": 3306, "clickhouse": 8123}
"""Plain scheme -> the port of a server that says none."""

ONE_LEVEL = ("mysql", "clickhouse")
"""Plain schemes of servers whose databases are their schemas."""

USUAL_SCHEMAS = {"postgres": "public", "duckdb": "main"}
"""Plain scheme -> the schema of a table that says none."""

SCHEMA = "schema"
"""The option of a database in a file that names its default schema."""

WEBHOOK = "webhook"
"""The option that says where failures are told, which is no option of a driver."""

NEW_FILE, NEW_SCHEMA = "file", "schema"
"""What may be made where it is not there."""


@dataclass(frozen=True)
class ConnectionURL:
    """A place; its text has no secrets.

    Attributes:
        scheme: `postgresql`, `duckdb`, ...
        host: The server; for Snowflake the account.
        port: Its port, if it is told.
        user: The user.
        password: The password, or the token.
        path: What stands behind the server: a file, or database and schema.
        options: Everything else, as the driver calls it.
        makes: What may be made to open it: NEW_FILE, NEW_SCHEMA. By default nothing.
        is_read_only: Whether nothing there may change, but for temporary tables of ours.
    """

    scheme: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    path: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    makes: tuple[str, ...] = ()
    is_read_only: bool = False

    def __post_init__(self) -> None:
        """Let no text tell its secrets from now on."""
        public = {self.scheme, self.user, self.host, self.path, *self.path.split("/")}
        secrets = {self.password, *secrets_of(self.options)}
        secrets |= {os.environ.get(name, "") for name in VARIABLES}
        keep_secret(*(secrets - public - {*SECRETS}))  # which are words of examples

    @classmethod
    def of_file(cls, path: str) -> ConnectionURL:
        """That of a file of DuckDB."""
        return cls(DEFAULT, path=path)

    @property
    def is_default(self) -> bool:
        """Whether it is of DuckDB."""
        return self.scheme == DEFAULT

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme}://{user}{self.host}{port}{f'/{self.path}' if self.path else ''}"

    @property
    def in_memory(self) -> bool:
        """Whether it is gone when it is closed."""
        return self.scheme in FILES and self.path in ("", ":memory:")

    @property
    def is_missing(self) -> bool:
        """Whether it is a file that is not there."""
        return self.scheme in FILES and is_file(self.path) and not os.path.exists(self.path)

    @property
    def parts(self) -> tuple[str, str]:
        """The path as database and schema, empty where it has none."""
        database, _, schema = self.path.partition("/")
        return database, schema

    @property
    def home(self) -> tuple[str, str]:
        """The database, and the schema of tables that say none, as names have them."""
        database, schema = self.parts
        scheme = PLAIN_SCHEMES.get(self.scheme, self.scheme)
        if scheme in ONE_LEVEL:
            return database, database
        if scheme == "bigquery":
            return self.host, database
        return database, schema or USUAL_SCHEMAS.get(scheme, "")

    @property
    def login(self) -> dict[str, Any]:
        """Where the server is, who asks and for which database, as most drivers name it."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.parts[0],
        }

    def driver_options(self, **names: Any) -> dict[str, Any]:
        """What is told, by the driver's names; options come last and win."""
        return {name: value for name, value in names.items() if value} | dict(self.options)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Tell a driver's failure to connect, without secrets.

        Raises:
            EngineError: Of whatever the driver raised.
        """
        try:
            yield
        except (EngineError, SpecError, ImportError):
            raise
        except Exception as error:  # drivers raise what they like while they connect
            brief = first_line(masked(str(error)))  # before it is cut
            # the cause would tell the secrets in a traceback
            raise EngineError(f"cannot open {self}: {brief}") from None


def is_secret(name: str) -> bool:
    """Whether an option or a variable of this name holds a secret."""
    return any(part in name.casefold() for part in SECRETS)


def secrets_of(value: Any, name: str = "") -> Iterator[str]:
    """The secrets in what is said of a connection, such as `{attach: [{path: 'password=...'}]}`.

    Args:
        value: A text, or a list or mapping of any depth.
        name: The option that it is of.

    >>> sorted({*secrets_of({"attach": [{"path": "host=h password='a b'"}], "s3_secret": "xyz"})})
    ['a b', 'xyz']
    """
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from secrets_of(part, str(key))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from secrets_of(part, name)
    elif is_secret(name):
        yield str(value)
    elif isinstance(value, str):
        yield from (unquote(match[1]) for match in _LOGIN.finditer(value))
        words = (match for match in _WORD.finditer(value) if is_secret(match[1]))
        for text in (match[2].strip("'\"") for match in words):
            yield from (text, re.sub(r"\\(.)", r"\1", text))


def is_file(path: str) -> bool:
    """Whether a database's path leads to a file: not to memory, nor to a service.

    >>> is_file("a/b.duckdb"), is_file(":memory:"), is_file("md:shop"), is_file("")
    (True, False, False, False)
    """
    return bool(path) and path != ":memory:" and not re.match(r"[a-z]\w+:", path)


def check_file_exists(path: str) -> None:
    """Refuse a file that is not there: to open it would make a new database, without a row.

    Raises:
        SpecError: With the file of the nearest name.
    """
    file = Path(path)
    if not is_file(path) or os.path.exists(file):
        return
    if not os.path.isdir(file.parent):
        raise SpecError(f"there is no folder {str(file.parent)!r}, and no database {path!r}")
    raise SpecError(f"there is no database file {path!r}{nearest_file(path)}")


def nearest_file(path: str) -> str:
    """The question whether a file of a near name is meant; empty if none is near."""
    file = Path(path)
    names = sorted(os.listdir(file.parent)) if os.access(file.parent, os.R_OK) else []
    stems = [Path(name).stem for name in names]
    near = nearest(file.name, (n for n in names if Path(n).stem == nearest(file.stem, stems)))
    return "" if near is None else f"; did you mean {str(file.with_name(near))!r}?"


def parse_url(url: str) -> ConnectionURL:
    """The place that a URL names.

    >>> str(parse_url("postgresql://ann:secret@db:5433/sales?sslmode=require"))
    'postgresql://ann@db:5433/sales'
    >>> parse_url("spark://local[2]").host, parse_url("duckdb:///a/b.duckdb").path
    ('local[2]', 'a/b.duckdb')
    """
    scheme, _, remainder = url.partition("://")
    remainder, _, query = remainder.partition("?")
    server, _, path = remainder.partition("/")
    if "@" in path:
        raise SpecError("in a connection's URL, write / ? @ : of a password as %2F %3F %40 %3A")
    login, _, host = server.rpartition("@")
    user, _, password = login.partition(":")
    host, port = _port(host)
    return ConnectionURL(
        scheme.lower(),
        unquote(host),
        port,
        unquote(user),
        unquote(password),
        unquote(path),
        dict(parse_qsl(query)),
    )


def _port(host: str) -> tuple[str, int | None]:
    name, _, port = host.rpartition(":")
    if not name or host.endswith("]"):  # no port, or an address of IPv6
        return host, None
    return name, port_of(port, " (in a password of a URL, write / ? @ : as %2F %3F %40 %3A)")


def port_of(text: str, hint: str = "") -> int:
    """The port that a text says; the text is not shown, since it may be of a password.

    Raises:
        SpecError: If it is no number from 1 to 65535.
    """
    number = int(text) if re.fullmatch(r"\d{1,5}", text, re.ASCII) else 0
    if not 0 < number < 2**16:
        raise SpecError(f"the port of a connection must be a number from 1 to 65535{hint}")
    return number
