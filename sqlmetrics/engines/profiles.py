"""`profiles.yml`: connections by name, with secrets from the environment; dbt's layout too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from sqlmetrics.engines.place import Place, place
from sqlmetrics.errors import SpecError, unknown

FILE = "profiles.yml"

_ENV_VAR = re.compile(
    r"""\{\{\s*env_var\(\s*(['"])(\w+)\1\s*(?:,\s*(['"])(.*?)\3\s*)?\)\s*(?:\|\s*\w+\s*)*\}\}"""
)

_ROLES: Mapping[str, tuple[str, ...]] = {
    "host": ("host", "server", "account", "project"),
    "port": ("port",),
    "user": ("user", "username"),
    "password": ("password", "pass", "token"),
    "database": ("path", "dbname", "database", "catalog"),
    "schema": ("schema", "dataset"),
}
"""Role in a `Place` -> what dbt's adapters call it; the first that is there counts."""

_DBT_ONLY = ("threads", "type", "url", "target", "retries", "priority", "method", "extensions")


def named(name: str, file: Path) -> Place:
    """The place of an output; without a name, of the file's target.

    Args:
        name: An output, or in dbt's layout a profile or `profile.output`; may be empty.
        file: The `profiles.yml`.

    Raises:
        SpecError: If there is no such file or output, or a variable is not set.
    """
    outputs = dict(_outputs(_read(file)))
    if name not in outputs:
        raise SpecError(f"{file.name}: {unknown('output', name, filter(None, outputs))}")
    output = outputs[name]
    if not isinstance(output, Mapping):
        raise SpecError(f"{file.name}: the output {name!r} must be a mapping with a type")
    return _place({key: _filled(value, file) for key, value in output.items()}, name, file)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        read = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{file} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the message would quote the line
        line = f", line {mark.line + 1}" if mark else ""
        raise SpecError(f"{file}{line}: this is no YAML") from None
    if not isinstance(read, Mapping):
        raise SpecError(f"{file}: a mapping is wanted, with `target` and `outputs`")
    return read


def _outputs(read: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every name that an output goes by."""
    if isinstance(read.get("outputs"), Mapping):
        yield from _of_profile("", read)
        return
    profiles = {str(k): v for k, v in read.items() if isinstance(v, Mapping) and "outputs" in v}
    for name, profile in profiles.items():
        yield from _of_profile(name, profile)
        if len(profiles) == 1:
            yield from _of_profile("", profile)


def _of_profile(name: str, profile: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    outputs = profile.get("outputs")
    if not isinstance(outputs, Mapping):
        return
    for output, value in outputs.items():
        yield (f"{name}.{output}" if name else str(output)), value
    target = _ENV_VAR.sub(lambda found: os.environ.get(found[2], found[4] or ""), _target(profile))
    if target in outputs:
        yield name, outputs[target]


def _target(profile: Mapping[str, Any]) -> str:
    return str(profile.get("target", "default"))


def _filled(value: Any, file: Path) -> Any:
    """A value with the environment's variables put in."""
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        given = os.environ.get(found[2], found[4])
        if given is None:
            raise SpecError(f"{file.name}: the environment variable {found[2]} is not set")
        return given

    return _ENV_VAR.sub(variable, value)


def _place(output: Mapping[str, Any], name: str, file: Path) -> Place:
    kind = output.get("type")
    if not kind and "url" not in output:
        raise SpecError(f"{file.name}: the output {name!r} has neither a type nor a url")
    roles = {role: _first(output, names) for role, names in _ROLES.items()}
    known = {one for names in _ROLES.values() for one in names} | set(_DBT_ONLY)
    options = {key: value for key, value in output.items() if key not in known}
    if "url" in output:
        return _of_url(str(output["url"]), roles, options)
    path = "/".join(str(roles[role]) for role in ("database", "schema") if roles[role])
    return Place(
        str(kind),
        str(roles["host"] or ""),
        int(roles["port"]) if roles["port"] else None,
        str(roles["user"] or ""),
        str(roles["password"] or ""),
        path,
        options,
    )


def _of_url(url: str, roles: Mapping[str, Any], options: Mapping[str, Any]) -> Place:
    read = place(url)
    path = f"{read.path}/{roles['schema']}" if roles["schema"] else read.path
    return Place(
        read.scheme,
        read.host,
        read.port,
        read.user,
        read.password or str(roles["password"] or ""),
        path,
        {**options, **read.options},
    )


def _first(output: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((output[name] for name in names if output.get(name)), None)
