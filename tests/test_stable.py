"""What is public is a list: whoever changes it does so on purpose."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.jobs.schema import TABLES

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ROOT / "tests" / "golden" / "public.txt"
SCHEMA = ROOT / "sqlmetrics" / "spec" / "spec.schema.json"


def python_names() -> Iterator[str]:
    """Functions with their arguments, classes with their members."""
    for name in sm.__all__:
        public = getattr(sm, name)
        if inspect.isclass(public):
            fields = getattr(public, "model_fields", getattr(public, "__dataclass_fields__", {}))
            members = {member for member in [*dir(public), *fields] if member[0] != "_"}
            inherited = {*dir(BaseException)} if issubclass(public, Exception) else set()
            if hasattr(public, "model_fields"):
                inherited |= {member for base in public.__mro__[1:] for member in vars(base)}
            for member in sorted(members - inherited):
                yield f"sm.{name}.{member}{arguments(getattr(public, member, None))}"
        else:
            yield f"sm.{name}{arguments(public)}"


def arguments(public: Any) -> str:
    """The arguments of a function, without their types; empty for anything else."""
    if not (inspect.isroutine(public) and callable(public)):
        return ""
    parameters = inspect.signature(public).parameters.values()
    plain = [parameter.replace(annotation=parameter.empty) for parameter in parameters]
    return str(inspect.Signature([p for p in plain if p.name not in ("self", "cls")]))


def options() -> Iterator[str]:
    """The verbs of the command line with their arguments and options."""
    for verb, command in sorted(cli.commands.items()):
        for parameter in command.params:
            is_option = isinstance(parameter, click.Option)
            old_spellings = getattr(parameter, "old_spellings", [])
            spellings = [*parameter.opts, *parameter.secondary_opts, *old_spellings]
            names = spellings if is_option else [parameter.name]
            yield f"sqlmetrics {verb} {', '.join(map(str, names))}"


def spec_keys() -> Iterator[str]:
    """The keys of a spec, with the part of it in which they stand."""
    schema = json.loads(SCHEMA.read_text())
    parts: Mapping[str, Any] = {"spec": schema, **schema["$defs"]}
    for part, definition in sorted(parts.items()):
        for key, value in definition.get("properties", {}).items():
            default = f" = {json.dumps(value['default'])}" if "default" in value else ""
            yield f"{part}.{key}{default}"


def columns() -> Iterator[str]:
    """The columns of the tables that a run writes."""
    for name, table in TABLES.items():
        for column in table.columns.values():
            yield f"{name}.{column.name} {column.kind}"


def test_what_is_public_is_what_is_listed() -> None:
    codes = {f"exit {error.exit_code} {error.__name__}" for error in errors()}
    lines = [*python_names(), *options(), *sorted(codes), *spec_keys(), *columns()]
    text = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PUBLIC.write_text(text, encoding="utf-8")
    assert text.splitlines() == PUBLIC.read_text(encoding="utf-8").splitlines(), (
        "a public name has changed: see docs/stable.md, then UPDATE_GOLDEN=1"
    )


def errors() -> list[type[sm.SqlmetricsError]]:
    """The errors that are public."""
    public = (getattr(sm, name) for name in sm.__all__)
    classes = (value for value in public if inspect.isclass(value))
    return [error for error in classes if issubclass(error, sm.SqlmetricsError)]


def test_the_version_is_one() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == sm.__version__
    assert f"version: {sm.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_workflows_run_the_steps_of_ci() -> None:
    steps = {*re.findall(r"^(\w+)\(\) \{", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)}
    text = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    quoted, plain = r'SQLMETRICS_TURN="([^"]+)"', r"SQLMETRICS_TURN=(\w+)|turn: \[\"\", ([\w ]+)\]"
    named = [*re.findall(quoted, text), *("".join(groups) for groups in re.findall(plain, text))]
    assert named
    assert {step for names in named for step in names.split()} <= steps
