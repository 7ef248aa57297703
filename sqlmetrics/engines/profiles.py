"""`profiles.yml`: connections by name, with secrets from the environment; dbt's layout too."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlmetrics.engines.url import (
    FILES,
    SCHEMA,
    ConnectionURL,
    is_file,
    is_secret,
    parse_url,
    port_of,
)
from sqlmetrics.engines.yaml_file import read_yaml
from sqlmetrics.errors import MASK, SpecError, keep_secret, unknown

FILE = "profiles.yml"
FOLDER = "DBT_PROFILES_DIR"
HOME = ".dbt"

TRUSTED = "SQLMETRICS_TRUSTED"
"""The variable of the environment with folders whose profiles may be read, and all below them."""

LOOKED = f"beside the spec, here, in {FOLDER} or in ~/{HOME}"
"""Where profiles are looked for, in this order."""

_ROLES: Mapping[str, tuple[str, ...]] = {
    "host": ("host", "server", "account", "project"),
    "port": ("port",),
    "user": ("user", "username"),
    "password": ("password", "pass", "token"),
    "database": ("path", "dbname", "database", "catalog"),
    "schema": ("schema", "dataset"),
}
"""Role in a `ConnectionURL` -> what dbt's adapters call it; the first that is there counts."""

_DBT_ONLY = ("threads", "type", "url", "target", "retries", "priority", "method")

_ADAPTER_ONLY = (
    *("secrets", "plugins", "filesystems", "module_paths", "use_credential_provider"),
    *("keep_open", "disable_transactions", "remote", "is_ducklake", "external_root"),
)
"""What dbt's adapter of DuckDB is told of models and credentials, not of the database."""


@dataclass(frozen=True)
class Profiles:
    """A `profiles.yml`.

    Attributes:
        file: Where it is.
        base: The folder in which the relative paths in it start.
        is_trusted: Whether it may be read: it can name hosts that are sent passwords, and
            extensions, which are native code. One that merely stands beside a spec may not,
            unless its folder is trusted.
    """

    file: Path
    base: Path = Path()
    is_trusted: bool = True

    @classmethod
    def find(
        cls, path: str | Path | None = None, spec: str | Path | None = None
    ) -> Profiles | None:
        """The file that counts: the one that is given, else the first that is there.

        Args:
            path: A file, or the folder that it is in.
            spec: The spec file that is read: its folder comes first, and paths of a
                `profiles.yml` there start in it, as those of the spec do. A folder that is
                not trusted is not passed over, so that no other database is taken instead.
        """
        if path is not None:
            return cls(Path(path) / FILE if os.path.isdir(path) else Path(path))
        folder = None if spec is None else Path(spec).parent
        if folder is not None and os.path.isfile(folder / FILE):
            return cls(folder / FILE, folder, is_trusted(folder))
        files = (Path(folder) / FILE for folder in _own_folders())
        return next((cls(file) for file in files if os.path.isfile(file)), None)

    def output(self, name: str = "") -> Output:
        """An output by its name.

        Args:
            name: An output, `profile.output`, or a profile, which is its target; empty: the
                target of the only profile.

        Raises:
            SpecError: If there is no such file or output, or it is not clear which is meant.
        """
        if not name:
            return self._target()
        full = dict.fromkeys(full_name for alias, full_name in self._names if alias == name)
        if not full and name in self._profiles:
            return self._default_output(name)
        if not full:
            aliases = dict.fromkeys(alias for alias, _ in self._names)
            printable_name = MASK if {*":@"} & {*name} else name  # it may hold a password
            raise SpecError(f"{self.file.name}: {unknown('output', printable_name, aliases)}")
        if len(full) > 1:
            choices = ", ".join(full)
            raise SpecError(
                f"{self.file.name}: several profiles have the output {name!r}; give {choices}"
            )
        return self._outputs[next(iter(full))]

    @cached_property
    def _read(self) -> Mapping[str, Any]:
        if not self.is_trusted:
            raise SpecError(
                f"{self.file} is not used: its folder is neither the current one nor trusted, and "
                "a profile can run code and send passwords to its host. To trust it give "
                f"--profiles {shlex.quote(str(self.file))} (paths in it then start here), or set "
                f"{TRUSTED}={shlex.quote(os.path.realpath(self.base))}; without it give --db, "
                "--connection URL, or --profiles with your own file"
            )
        return read_yaml(self.file, str(self.file), has_secrets=True)

    @cached_property
    def _profiles(self) -> Mapping[str, Mapping[str, Any]]:
        """Profile -> what it says; one without a name in a layout without profiles."""
        if isinstance(self._read.get("outputs"), Mapping):
            return {"": self._read}
        return {
            str(name): profile
            for name, profile in self._read.items()
            if isinstance(profile, Mapping) and isinstance(profile.get("outputs"), Mapping)
        }

    @cached_property
    def _outputs(self) -> Mapping[str, Output]:
        """Full name -> output."""
        return {
            full: Output(full, value, self)
            for name, profile in self._profiles.items()
            for output, value in profile["outputs"].items()
            for full in [_full(name, str(output))]
        }

    @cached_property
    def _names(self) -> list[tuple[str, str]]:
        """Every name that an output goes by, and its full one."""
        names = []
        for profile, profile_values in self._profiles.items():
            for output in map(str, profile_values["outputs"]):
                full = _full(profile, output)
                names += [(full, full), (output, full)]
            target = self._default(profile_values)
            if profile and target is not None:
                names.append((profile, _full(profile, target)))
        return names

    def _default(self, profile: Mapping[str, Any]) -> str | None:
        """The output that a profile's target names; None if there is none of that name."""
        outputs = [str(name) for name in profile["outputs"]]
        if "target" not in profile and len(outputs) == 1:
            return outputs[0]
        target = self._named_target(profile)
        return target if target in outputs else None

    def _target(self) -> Output:
        profiles = self._profiles
        if not profiles:
            raise SpecError(f"{self.file}: it has no outputs")
        if len(profiles) > 1:
            choices = ", ".join(self._outputs)
            raise SpecError(f"{self.file} has several profiles; choose by --target: {choices}")
        return self._default_output(next(iter(profiles)))

    def _named_target(self, profile: Mapping[str, Any]) -> str:
        return _rendered(str(profile.get("target", "default")), self.file, unset="")

    def _default_output(self, name: str) -> Output:
        """The output that a profile's target names."""
        profile = self._profiles[name]
        target = self._default(profile)
        if target is not None:
            return self._outputs[_full(name, target)]
        if "target" not in profile:
            choices = ", ".join(_full(name, str(output)) for output in profile["outputs"])
            raise SpecError(f"{self.file} names no target; choose by --target: {choices}")
        raise SpecError(
            f"{self.file}: {unknown('target', self._named_target(profile), profile['outputs'])}"
        )


@dataclass(frozen=True)
class Output:
    """An output of a `profiles.yml`, as it is written there.

    Attributes:
        name: Its name, with that of the profile if there is one.
        settings: What is said of it.
        profiles: Where.
    """

    name: str
    settings: Any
    profiles: Profiles

    @property
    def scheme(self) -> str:
        """Its type. Variables of the environment are not asked for, unless they are the type.

        Raises:
            SpecError: If it has none.
        """
        settings = self._mapping
        if settings.get("type"):
            return str(self._filled(settings["type"]))
        if "url" not in settings:
            problem = f"the output {self.name!r} has no type and no url"
            raise SpecError(f"{self.profiles.file.name}: {problem}")
        return parse_url(str(self._filled(settings["url"]))).scheme

    @property
    def url(self) -> ConnectionURL:
        """Where it is.

        Raises:
            SpecError: If a variable of the environment is not set, or nothing says where.
        """
        scheme = self.scheme
        output = {key: self._filled(value) for key, value in self._mapping.items()}
        roles = {role: _first(output, names) for role, names in _ROLES.items()}
        known_keys = {option_name for names in _ROLES.values() for option_name in names} | {
            *_DBT_ONLY
        }
        options = {key: value for key, value in output.items() if key not in known_keys}
        if "url" in output:
            return self._of_url(str(output["url"]), roles, options)
        if scheme in FILES:
            return self._of_file(scheme, roles, options)
        path = "/".join(str(roles[role]) for role in ("database", "schema") if roles[role])
        return ConnectionURL(
            scheme,
            str(roles["host"] or ""),
            port_of(str(roles["port"])) if roles["port"] else None,
            str(roles["user"] or ""),
            str(roles["password"] or ""),
            path,
            {key: value for key, value in options.items() if key != "extensions"},
        )

    def _of_file(
        self, scheme: str, roles: Mapping[str, Any], options: dict[str, Any]
    ) -> ConnectionURL:
        options = {key: value for key, value in options.items() if key not in _ADAPTER_ONLY}
        if roles["schema"]:
            options[SCHEMA] = str(roles["schema"])
        if isinstance(options.get("attach"), list):
            options["attach"] = [self._attached(attachment) for attachment in options["attach"]]
        return ConnectionURL(scheme, path=self._path(str(roles["database"] or "")), options=options)

    def _attached(self, attachment: Any) -> Any:
        if not isinstance(attachment, Mapping) or not attachment.get("path"):
            return attachment
        return {**attachment, "path": self._path(str(attachment["path"]))}

    def _of_url(self, url: str, roles: Mapping[str, Any], options: dict[str, Any]) -> ConnectionURL:
        read = parse_url(url)
        path, schema = read.path, roles["schema"]
        if read.scheme in FILES:
            path, options = self._path(path), options | ({SCHEMA: str(schema)} if schema else {})
        elif schema:
            path = f"{path}/{schema}"
        return ConnectionURL(
            read.scheme,
            read.host,
            read.port,
            read.user,
            read.password or str(roles["password"] or ""),
            path,
            {**options, **read.options},
        )

    def _path(self, path: str) -> str:
        """A file's path, as seen from where we are."""
        return str(self.profiles.base / os.path.expanduser(path)) if is_file(path) else path

    @property
    def _mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.settings, Mapping):
            problem = f"the output {self.name!r} must be a mapping with a type"
            raise SpecError(f"{self.profiles.file.name}: {problem}")
        return self.settings

    def _filled(self, value: Any) -> Any:
        """A value with the environment's variables put in."""
        if isinstance(value, Mapping):
            return {key: self._filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        return _rendered(value, self.profiles.file) if isinstance(value, str) else value


def _own_folders() -> Iterator[str]:
    """Where the user's own profiles are: here, where dbt is told that they are, at home."""
    chosen_folders = [os.environ[FOLDER]] if os.environ.get(FOLDER) else []
    return map(os.path.expanduser, ("", *chosen_folders, f"~/{HOME}"))


def is_trusted(folder: Path) -> bool:
    """Whether the user stands in a folder, or has named it or one above it; links are followed."""
    real = Path(os.path.realpath(folder))
    folder_names = filter(None, os.environ.get(TRUSTED, "").split(os.pathsep))
    trusted = {
        Path(os.path.realpath(os.path.expanduser(folder_name))) for folder_name in folder_names
    }
    own_folders = {Path(os.path.realpath(own_folder)) for own_folder in _own_folders()}
    return real in own_folders or not trusted.isdisjoint((real, *real.parents))


def _full(profile: str, output: str) -> str:
    return f"{profile}.{output}" if profile else output


def _rendered(text: str, file: Path, unset: str | None = None) -> str:
    """A text as dbt renders it: by Jinja, with the environment's variables.

    Raises:
        SpecError: If a variable is not set, or the text is no template.
    """

    def env_var(name: str, default: str | None = unset) -> str:
        value = os.environ.get(name, default)
        if value is None:
            raise SpecError(f"{file.name}: the environment variable {name} is not set")
        if is_secret(name):
            keep_secret(value)
        return value

    if "env_var" not in text:  # a password may hold anything
        return text
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    jinja = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    jinja.filters |= dict.fromkeys(("as_bool", "as_native", "as_number", "as_text"), str)
    try:
        return jinja.from_string(text).render(env_var=env_var)
    except TemplateError as error:
        raise SpecError(f"{file.name}: a value with env_var: {error.message}") from None


def _first(output: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((output[name] for name in names if output.get(name)), None)
