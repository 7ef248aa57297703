"""Commands to learn from: what there is, what it means, and a whole evaluation to look at."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, progress_bar
from sqlmetrics.cli.options.command import OUTPUT, Command, option
from sqlmetrics.cli.options.parameters import format_option, metrics_from_option

if TYPE_CHECKING:
    from sqlmetrics.tables.table import Table

LISTS = ("metrics", "online", "presets", "options", "dialects", "exports")


@click.command("list", cls=Command)
@click.argument("what", type=click.Choice(LISTS))
@format_option(("table", "json"))
@error_options
def list_names(what: str, output: str) -> None:
    """List metrics, online metrics, presets, options, dialects or exports."""
    import json

    from sqlmetrics.cli import listing
    from sqlmetrics.tables.table import terminal_width

    if output == "json":
        records = [
            {name.replace(" ", "_"): value for name, value in record.items()}
            for record in listing.records(what)
        ]
        click.echo(json.dumps(records, ensure_ascii=False, indent=2))
        return
    click.echo(_fitted(listing.table(what), terminal_width()))


def _fitted(table: Table, width: int | None) -> str:
    """A table of words that is no wider than asked for.

    Where its columns do not fit side by side, the first one stays and the others become one
    text behind it, each cell with its heading.
    """
    if width is None or table.fits(width):
        return table.text(full_width=True)
    first = min(max(len(row[0]) for row in table.rows), width // 3)
    lines = []
    for name, title, *cells in table.rows:
        headed_cells = zip(table.columns[2:], cells, strict=True)
        details = "; ".join([title, *(f"{head}: {cell}" for head, cell in headed_cells if cell)])
        room = max(20, width - first - 2)
        detail_lines = wrap(details, room, break_on_hyphens=False) or [""]
        is_long = len(name) > first
        lines += [name] if is_long else []
        first_cells = ["" if is_long else name, *[""] * (len(detail_lines) - 1)]
        lines += [
            f"{cell:{first}}  {line}".rstrip()
            for cell, line in zip(first_cells, detail_lines, strict=True)
        ]
    return "\n".join(lines)


@click.command(cls=Command)
@click.argument("name", metavar="METRIC|OPTION|PRESET", shell_complete=completion.explained)
@option(
    "--preset",
    metavar="NAME",
    shell_complete=completion.presets,
    help="Conventions of a tool, such as trec_eval (see list presets).",
)
@metrics_from_option
@error_options
def explain(name: str, preset: str | None, metrics_from: tuple[str, ...]) -> None:
    """Explain a metric, option or preset: formula, choices, SQL, a worked example.

    \b
    sqlmetrics explain ndcg@10
    sqlmetrics explain "recall(rel=2)@50" --preset trec_eval
    sqlmetrics explain ties
    sqlmetrics explain xgboost
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.api import explain as explained

    click.echo(explained(name, preset, metrics_from))


@click.command(cls=Command)
@click.argument("file", default="sqlmetrics.yml")
@overwrite_option
@option("--force", is_flag=True, hidden=True, help="The same as --overwrite.")
@option("--clicks", is_flag=True, help="Write the spec of a click log.")
@option("--schema", is_flag=True, help="Print only the JSON schema of specs.", heading=OUTPUT)
@error_options
def init(file: str, force: bool, clicks: bool, schema: bool) -> None:
    """Write an example spec to FILE, with every key explained."""
    from sqlmetrics.cli import starter

    if schema:
        click.echo(starter.schema(), nl=False)
        return
    click.echo(starter.write(Path(file), overwrite=force or overwrites(), clicks=clicks))


@click.command(cls=Command)
@option(
    "--out", default="sqlmetrics_demo", show_default=True, metavar="FOLDER", help="Folder to write."
)
@overwrite_option
@error_options
def demo(out: str) -> None:
    """Create a search log, evaluate two rankers on it, and print what to try next."""
    from sqlmetrics.cli.demo import show

    messages: list[str] = []
    with progress_bar("making and evaluating a search log"):
        show(Path(out), messages.append, overwrite=overwrites())
    click.echo("\n".join(messages))
