"""`sqlmetrics export`: a spec as files of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import INPUT, error_options, overwrite_option, overwrites, say
from sqlmetrics.cli.location import Location, place_options


def tool_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that single tools take, each with the tools that take it."""
    from sqlmetrics.jobs.exports.formats import FORMATS

    takers: dict[str, list[str]] = {}
    about: dict[str, str] = {}
    for tool in FORMATS.values():
        for option, text in tool.options.items():
            takers.setdefault(option, []).append(tool.name)
            about.setdefault(option, text)
    for option in reversed(takers):
        help_text = f"{about[option]}  [{', '.join(takers[option])}]"
        command = click.option(f"--{option}", metavar="TEXT", help=help_text)(command)
    return command


@click.command()
@click.argument("tool", metavar="TOOL", shell_complete=completion.exports)
@click.argument("spec", type=INPUT)
@click.option(
    "--out",
    metavar="FOLDER",
    help="Where the files go; a name that ends in .zip packs them.  [default: TOOL, or TOOL.zip]",
)
@click.option(
    "--dialect",
    shell_complete=completion.dialects,
    help="The database that the tool reads.  [default: that of profiles.yml, else duckdb]",
)
@overwrite_option
@click.option("--force", is_flag=True, hidden=True, help="The same as --overwrite.")
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
    """Write SPEC as files of another tool. No table is opened.

    The same spec gives the same bytes, so that a change of the files is a change of the spec.

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
        dialect=dialect or location.dialect,
        force=force or overwrites(),
        **{key: value for key, value in options.items() if value is not None},
    )
    for file in files:
        say(f"wrote {file}")
    if tool_format.project and not (
        folder.endswith(".zip") or Path(folder, tool_format.project).exists()
    ):
        say(
            f"note: there is no {tool_format.project} in {folder}: give the folder of "
            "your project as "
            "--out, or make one there"
        )
    if tool_format.next:
        say(f"next: {tool_format.next.format(folder=folder)}")
