"""Where a command reads and writes: --db, --connection, --target and --profiles, for all alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, cast

from sqlmetrics.cli.common import say
from sqlmetrics.cli.options import CONNECTION, INPUT, decorate, option
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.engines.database import Database
    from sqlmetrics.engines.profiles import Profiles
    from sqlmetrics.engines.url import ConnectionURL
    from sqlmetrics.spec.spec import Spec

SAY_WHERE = "say where: --db FILE, --connection URL, or --target of a profiles.yml"


@dataclass(frozen=True)
class Location:
    """What the options of a command say.

    Attributes:
        db: A DuckDB file.
        connection: A URL, or the name of an output.
        target: The name of an output.
        profiles: The file in which outputs are named.
        spec: The spec file, beside which a `profiles.yml` may be.
    """

    db: str | None = None
    connection: str | None = None
    target: str | None = None
    profiles: str | None = None
    spec: str | None = None

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, or is empty: a variable that is not set."""
        value_by_option = {
            "--db": self.db,
            "--connection": self.connection,
            "--target": self.target,
        }
        given_options = {
            name: value for name, value in value_by_option.items() if value is not None
        }
        for name, value in {**given_options, "--profiles": self.profiles}.items():
            if value is not None and not value.strip():
                raise SpecError(f"{name} has no value; give one")
        if len(given_options) > 1:
            raise SpecError("give one of --db, --connection and --target")
        if self.db and "://" in self.db:
            raise SpecError("--db takes a DuckDB file; give a URL with --connection")
        if self.target and "://" in self.target:
            raise SpecError(
                "--target takes an output of profiles.yml; give a URL with --connection"
            )
        if self.target and self.target.endswith((".duckdb", ".ddb")):
            raise SpecError(
                "--target takes an output of profiles.yml; give a DuckDB file with --db"
            )
        if self.db and self.profiles:
            raise SpecError("--profiles only applies to --target; leave --db out")

    @property
    def is_given(self) -> bool:
        """Whether any of the options is given."""
        return any((self.db, self.connection, self.target, self.profiles))

    def beside(self, spec: str) -> Location:
        """The same for another spec, beside which a `profiles.yml` may be."""
        return replace(self, spec=spec)

    def reading(self, spec: Spec | None = None, *, is_needed: bool = False) -> Database:
        """The database that is read.

        Args:
            spec: What is asked. If its sources are tables, a place is needed.
            is_needed: Whether a place is needed anyway; else a new DuckDB in memory reads files.

        Raises:
            SpecError: If it is needed and nothing says where, or its file is not there.
        """
        from sqlmetrics.engines.database import connect

        url = self._url(is_needed or _reads_tables(spec))
        if url:
            _check_tables(url, spec)
        return connect(url and _read_only(url))

    def reading_default(self, verb: str) -> Database:
        """The same for a command that has no spec, and works in DuckDB alone.

        Raises:
            SpecError: Also if it is another database.
        """
        url = self._url(is_needed=False)
        return _default(verb, url and _read_only(url))

    def making(self, verb: str) -> Database:
        """A DuckDB file in which something is made; the file too, if it is not there."""
        return _default(verb, self._url(is_needed=True), create=True)

    def changing(self) -> Database:
        """The database whose tables are changed; nothing is made to open it.

        Raises:
            SpecError: If nothing says where, or its file is not there.
        """
        from sqlmetrics.engines.database import connect

        return connect(self.url)

    def using(self) -> Database:
        """The database in which something is made for a while, or a new DuckDB in memory."""
        from sqlmetrics.engines.database import connect

        return connect(self._url(is_needed=False))

    def writing(self, spec: Spec | None, *, passing: bool = False) -> Database:
        """The database that is written to. Its file is made only if nothing is read from it.

        Args:
            spec: What is asked, with its output; None if it is not of a spec.
            passing: Whether it need not last: what is written is copied elsewhere.

        Raises:
            SpecError: If nothing says where, or what is written would be lost.
        """
        from sqlmetrics.engines.database import connect
        from sqlmetrics.engines.url import NEW_FILE, NEW_SCHEMA, ConnectionURL

        url = cast(ConnectionURL, self._url(is_needed=True))
        if url.in_memory and not passing:
            or_copy = ", or --publish" if spec and spec.output else ""
            raise SpecError(
                f"{url} is a database in memory: the tables would be lost when the run ends; "
                f"give a file{or_copy}"
            )
        _check_tables(url, spec)
        makes = (NEW_SCHEMA,) if _reads_tables(spec) else (NEW_FILE, NEW_SCHEMA)
        notice = _what_is_made(url)
        opened = connect(replace(url, makes=makes))
        if notice:
            say(notice)
        return opened

    @property
    def dialect(self) -> str:
        """The dialect of the place; nothing is opened. DuckDB's if nothing says where.

        Raises:
            SpecError: If an output is not known.
        """
        from sqlmetrics.sql.dialects import DEFAULT

        return self.named_dialect or DEFAULT

    @property
    def named_dialect(self) -> str | None:
        """The dialect of the place; None if nothing says where.

        Raises:
            SpecError: If an output is not known.
        """
        from sqlmetrics.engines.registry import dialect_of, scheme_of
        from sqlmetrics.sql.dialects import DEFAULT

        if self.db:
            return DEFAULT
        profiles, name = self._profiles_file, self.connection or self.target
        return dialect_of(scheme_of(name, profiles)) if name or profiles else None

    @property
    def _profiles_file(self) -> Profiles | None:
        from sqlmetrics.engines.profiles import Profiles

        return Profiles.find(self.profiles, self.spec)

    @cached_property
    def _default(self) -> ConnectionURL:
        """The target of the profiles' file that it names itself; said once."""
        profiles = cast("Profiles", self._profiles_file)
        output = profiles.output()
        say(f"target {output.name} of {profiles.file}")
        return output.url

    @property
    def url(self) -> ConnectionURL:
        """The place, where one is needed.

        Raises:
            SpecError: If nothing says where.
        """
        return cast("ConnectionURL", self._url(is_needed=True))

    def _url(self, is_needed: bool) -> ConnectionURL | None:
        """The place; None if nothing says where and none is needed."""
        from sqlmetrics.engines.profiles import FILE, LOOKED
        from sqlmetrics.engines.registry import place_of
        from sqlmetrics.engines.url import ConnectionURL

        if self.db:
            return ConnectionURL.of_file(self.db)
        profiles = self._profiles_file
        if self.connection:
            return place_of(self.connection, profiles)
        if self.target and profiles is None:
            raise SpecError(f"--target {self.target}: there is no {FILE} {LOOKED}")
        if self.target and profiles:
            return profiles.output(self.target).url
        if not (is_needed or self.profiles):
            return None
        if profiles is None:
            raise SpecError(SAY_WHERE)
        return self._default


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say where, handed over as `location`."""

    @wraps(command)
    def called(
        *arguments: Any,
        db: str | None,
        connection: str | None,
        target: str | None,
        profiles: str | None,
        **options: Any,
    ) -> None:
        file = options.get("spec")
        location = Location(db, connection, target, profiles, file)
        command(*arguments, location=location, **options)

    return decorate(called, *_OPTIONS)


PLACES = ("db", "connection", "target", "profiles")
"""The names of these options."""

_OPTIONS = (
    option("--db", metavar="FILE", help="DuckDB file.", heading=CONNECTION),
    option(
        "--connection",
        metavar="URL|NAME",
        help="Database URL such as postgresql://user@host/database, or an output of profiles.yml.",
        heading=CONNECTION,
    ),
    option("--target", metavar="NAME", help="Output of profiles.yml.", heading=CONNECTION),
    option(
        "--profiles",
        type=INPUT,
        metavar="FILE",
        help="Path of profiles.yml.  [default: beside the spec, here, or dbt's]",
        heading=CONNECTION,
    ),
)


def _reads_tables(spec: Spec | None) -> bool:
    from sqlmetrics.evaluation.inputs.sources import tables_read

    return spec is not None and any(tables_read(spec))


def _check_tables(url: ConnectionURL, spec: Spec | None) -> None:
    """Refuse a file that is not there, with the sources of a spec that are tables of it."""
    from sqlmetrics.engines.url import check_file_exists
    from sqlmetrics.evaluation.inputs.sources import tables_read

    names = list(tables_read(spec)) if spec is not None and url.is_missing else []
    if not names:
        return
    try:
        check_file_exists(url.path)
    except SpecError as error:
        raise SpecError(
            f"{error}; of it the spec reads {', '.join(names)} (a file is read by file: NAME)"
        ) from None


def _default(verb: str, url: ConnectionURL | None, *, create: bool = False) -> Database:
    """The database of a command that works in DuckDB alone."""
    from sqlmetrics.engines.database import connect

    if url and not url.is_default:
        raise SpecError(f"{verb} works in DuckDB alone, given {url}")
    notice = _what_is_made(url) if url and create else ""
    opened = connect(url, create=create)
    if notice:
        say(notice)
    return opened


def _what_is_made(url: ConnectionURL) -> str:
    """What to say of a database whose file is new, or empty."""
    from sqlmetrics.engines.database_file import DATABASES, is_empty

    if url.is_missing:
        return f"new database {url.path}"
    if url.scheme in DATABASES and is_empty(url.path):
        return f"new database in {url.path}, which was empty (0 bytes)"
    return ""


def _read_only(url: ConnectionURL) -> ConnectionURL:
    """The place, where nothing may change; of a DuckDB file others may read it then too."""
    is_shared = url.is_default and not url.in_memory
    options = {**url.options, "read_only": True} if is_shared else url.options
    return replace(url, options=options, is_read_only=True)
