"""`sqlmetrics export`: a spec as files of other tools."""

from __future__ import annotations

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options


@click.command()
@click.argument("tool", metavar="TOOL", shell_complete=completion.exports)
@click.argument("spec", type=click.Path())
@click.option(
    "--out",
    metavar="FOLDER",
    help="Where the files go; a name that ends in .zip packs them.  [default: TOOL]",
)
@click.option(
    "--dialect",
    shell_complete=completion.dialects,
    help="The database that the tool reads.  [default: that of --target, else duckdb]",
)
@click.option("--force", is_flag=True, help="Replace files that no export wrote, too.")
@click.option(
    "--dbt-version",
    type=click.Choice(["1.11", "1.12"]),
    help="For dbt: the form of the semantic model, until 1.11 or since 1.12.  [default: 1.11]",
)
@click.option(
    "--refs",
    metavar="TABLES",
    help="For dbt: tables that are models of the project, behind commas; others are sources.",
)
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

    named = format_named(tool)
    folder = out or tool
    files = written(
        Spec.read(spec),
        tool,
        folder,
        dialect=dialect or location.dialect() or "duckdb",
        force=force,
        **{key: value for key, value in options.items() if value is not None},
    )
    for file in files:
        say(f"wrote {file}")
    if named.next:
        say(f"next: {named.next.format(folder=folder)}")
