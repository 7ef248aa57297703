"""`sqlmetrics export`: a spec as files of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, say
from sqlmetrics.cli.evaluation_options import dialect_option
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, decorate, option
from sqlmetrics.cli.options.parameters import INPUT


def tool_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that single tools take, each with the tools that take it."""
    from sqlmetrics.jobs.exports.formats import FORMATS

    takers: dict[str, list[str]] = {}
    about: dict[str, str] = {}
    for tool in FORMATS.values():
        for name, text in tool.options.items():
            takers.setdefault(name, []).append(tool.name)
            about.setdefault(name, text)
    decorators = [
        option(
            f"--{name}",
            metavar="TEXT",
            heading=", ".join(FORMATS[taker].title for taker in takers[name]),
            help=about[name],
        )
        for name in takers
    ]
    return decorate(command, *decorators)


@click.command(cls=Command)
@click.argument("tool", metavar="TOOL", shell_complete=completion.exports)
@click.argument("spec", type=INPUT)
@option(
    "--out",
    metavar="FOLDER",
    help="Folder to write, or a .zip file.  [default: TOOL, or TOOL.zip]",
)
@dialect_option("that of profiles.yml, else duckdb or what TOOL has")
@overwrite_option
@option("--force", is_flag=True, hidden=True, help="The same as --overwrite.")
@tool_options
@place_options
@error_options
def export(
    *,
    tool: str,
    spec: str,
    out: str | None,
    dialect: str | None,
    force: bool,
    location: Location,
    **options: str | None,
) -> None:
    """Write SPEC as files of another tool, without opening a table.

    The same spec gives the same bytes: if the files change, the spec has changed.

    \b
    sqlmetrics export malloy search.yml --out analytics
    sqlmetrics list exports
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.exports.formats import format_named
    from sqlmetrics.jobs.exports.write import export as written
    from sqlmetrics.spec.spec import Spec

    tool_format = format_named(tool)
    folder = out or tool_format.place or tool
    files = written(
        Spec.read(spec),
        tool,
        folder,
        dialect=dialect or location.named_dialect,
        force=force or overwrites(),
        **{key: value for key, value in options.items() if value is not None},
    )
    for file in files:
        say(f"wrote {file}")
    if tool_format.project and not (
        folder.endswith(".zip") or Path(folder, tool_format.project).exists()
    ):
        say(
            f"note: {folder} has no {tool_format.project}; give the folder of your project with "
            "--out, or create one there"
        )
    if tool_format.next:
        say(f"next: {tool_format.next.format(folder=folder)}")
