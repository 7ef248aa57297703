"""`sqlmetrics export` and `install`: a spec as files of other tools, and as macros."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, say
from sqlmetrics.cli.evaluation_options import dialect_option
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import INPUT, Command, decorate, option
from sqlmetrics.errors import SpecError


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
def export_command(
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
    from sqlmetrics.jobs.exports.formats import export, format_named
    from sqlmetrics.spec.spec import Spec

    tool_format = format_named(tool)
    folder = out or tool_format.default_output or tool
    if dialect is None:
        dialect = location.named_dialect
        is_default = not (location.db or location.connection or location.target)
        if is_default and dialect is not None and dialect not in tool_format.dialects:
            say(
                f"note: the default target of profiles.yml is of {dialect}, for which export "
                f"{tool} is not made; the files are for {tool_format.dialect} (--dialect)"
            )
            dialect = None
    files = export(
        Spec.read(spec),
        tool,
        folder,
        dialect=dialect,
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


# `sqlmetrics install`: the metrics as functions of a DuckDB file.


@click.command(cls=Command)
@click.argument("file", required=False)
@place_options
@option("--sql", "printed", is_flag=True, old_spellings=("--print",), help="Print only the SQL.")
@error_options
def install_command(file: str | None, *, location: Location, printed: bool) -> None:
    """Create table macros of the metrics in FILE, a DuckDB database, or in --target.

    Any DuckDB client can use the macros without Python. Each takes the names of two tables:
    rankings (query_id, item_id, score) and labels (query_id, item_id, grade).

    \b
    sqlmetrics install metrics.duckdb
    duckdb metrics.duckdb "from ndcg('rankings', 'labels', 10)"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs import macros

    if printed:
        click.echo(macros.text(), nl=False)
        return
    macros_made = macros.install(_named(file, location).making("install"))
    for macro in macros_made:
        click.echo(macro.usage)
    say(f"{len(macros_made)} macros in {file or 'the database'}")


def _named(file: str | None, location: Location) -> Location:
    """The place that is meant: FILE is --db."""
    if file is not None and location.is_given:
        raise SpecError("give FILE, or --db, --connection or --target")
    return location if file is None else Location(file)
