"""What a URL or a profile says of a DuckDB beside its file: settings, extensions, schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from sqlmetrics.engines.database_file import check_database
from sqlmetrics.engines.url import DEFAULT, NEW_SCHEMA, SCHEMA, ConnectionURL, check_file_exists
from sqlmetrics.errors import EngineError, InputError, SpecError
from sqlmetrics.sql.template import literal

if TYPE_CHECKING:
    from sqlmetrics.engines.driver import Driver


@dataclass(frozen=True)
class Setup:
    """What a connection is told once it is open, by the words of dbt's adapter.

    Attributes:
        read_only: Whether nothing can be written.
        schema: The default schema; `main` if it is not given.
        extensions: Names, or mappings with a `name` and a `repo`.
        settings: Setting -> value.
        attach: Mappings with a `path`, and perhaps an `alias`, a `type`, `read_only`.
        config: What DuckDB is told as it opens the file: everything else.
    """

    read_only: bool = False
    schema: str = "main"
    extensions: tuple[Any, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    attach: tuple[Any, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, url: ConnectionURL) -> Setup:
        """What a place says.

        Raises:
            SpecError: If a list or a mapping is something else.
        """
        options = dict(url.options)
        config = _of_kind(dict, options.pop("config_options", {}), "config_options")
        read_only = str(options.pop("read_only", "")).casefold() in ("1", "true", "yes")
        access = str(options.pop("access_mode", "")).casefold()
        return cls(
            read_only or access == "read_only",
            str(options.pop(SCHEMA, "main")),
            tuple(_of_kind(list, options.pop("extensions", []), "extensions")),
            _of_kind(dict, options.pop("settings", {}), "settings"),
            tuple(_of_kind(list, options.pop("attach", []), "attach")),
            {**config, **{name: str(value) for name, value in options.items()}},
        )

    def carry_out(self, driver: Driver, url: ConnectionURL) -> None:
        """Tell it all to a connection that was just opened.

        Raises:
            SpecError: If a file or the schema is not there, and shall not be made.
            EngineError: If DuckDB refuses it.
        """
        for extension in self.extensions:
            _load(extension, driver)
        for name, value in self.settings.items():
            driver.execute(f"set {_word(name)} = {literal(str(value))}")
        for attachment in self.attach:
            driver.execute(self._attachment(attachment))
        if self.schema != "main":
            self._use(driver, url)

    def _attachment(self, attachment: Any) -> str:
        """The statement that attaches a database."""
        settings = dict(_of_kind(dict, attachment, "attach"))
        path, alias = str(settings.pop("path", "")), settings.pop("alias", None)
        if not path:
            raise SpecError("attach: each database has a path")
        check_file_exists(path)
        check_database(path, str(settings.get("type") or DEFAULT).casefold(), writing=False)
        read_only = settings.pop("read_only", False) or self.read_only
        options = [f"type {_word(settings.pop('type'))}"] if settings.get("type") else []
        options += ["read_only"] if read_only else []
        nested = settings.pop("options", {}) or {}
        extra_options = {**settings, **_of_kind(dict, nested, "attach.options")}
        options += [f"{_word(name)} {literal(str(value))}" for name, value in extra_options.items()]
        alias_clause = f" as {_quoted(str(alias))}" if alias else ""
        return f"attach {literal(path)}{alias_clause}" + (
            f" ({', '.join(options)})" if options else ""
        )

    def _use(self, driver: Driver, url: ConnectionURL) -> None:
        ((database,),) = driver.rows("select current_database()")
        schemas = f"from duckdb_schemas() where database_name = {literal(database)}"
        existing_schemas = [name for (name,) in driver.rows(f"select schema_name {schemas}")]
        qualified_schema = f"{_quoted(database)}.{_quoted(self.schema)}"
        if self.schema.casefold() not in map(str.casefold, existing_schemas):
            if NEW_SCHEMA not in url.makes or self.read_only:
                listed_schemas = ", ".join(
                    name for name in existing_schemas if name not in _INTERNAL
                )
                problem = f"the schema {self.schema!r} does not exist in {url}"
                raise SpecError(f"{problem}; known: {listed_schemas}")
            driver.execute(f"create schema {qualified_schema}")
        driver.execute(f"use {qualified_schema}")


_INTERNAL = ("information_schema", "pg_catalog")


def _load(extension: Any, driver: Driver) -> None:
    """Load an extension; one that is not here is read from its wheel, or else installed first."""
    settings = extension if isinstance(extension, Mapping) else {"name": extension}
    name, repo = _word(settings.get("name", "")), settings.get("repo")
    try:
        driver.execute(f"load {name}")
    except (EngineError, InputError):
        if file := _in_wheel(name):
            driver.execute(f"load {literal(file)}")
            return
        driver.execute(f"install {name}" + (f" from {_word(repo)}" if repo else ""))
        driver.execute(f"load {name}")


def _in_wheel(name: str) -> str:
    """The file of an extension in its package of PyPI, which is of one version of DuckDB."""
    package = find_spec(f"duckdb_extension_{name}")
    for folder in (package and package.submodule_search_locations) or ():
        file = Path(folder) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
        if file.is_file():
            return str(file)
    return ""


def _of_kind(kind: type, value: Any, name: str) -> Any:
    if not isinstance(value, kind):
        expected_kind = "a list" if kind is list else "a mapping"
        raise SpecError(f"{name} of a DuckDB profile must be {expected_kind}, given {value!r}")
    return value


def _word(name: Any) -> str:
    """A name that stands in a statement as it is.

    Raises:
        SpecError: If it is anything else than a name.
    """
    if not str(name).replace(".", "_").isidentifier():
        raise SpecError(f"a DuckDB profile has {name!r}, which is not the name of a setting")
    return str(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
