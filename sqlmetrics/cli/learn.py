"""Commands to learn from: what there is, and a whole evaluation to look at."""

from __future__ import annotations

from pathlib import Path

import click

from sqlmetrics.cli.common import debug_option


@click.command("list")
@click.argument("what", type=click.Choice(("metrics", "presets", "options", "dialects")))
@debug_option
def list_names(what: str) -> None:
    """List the metrics, presets, options or dialects there are."""
    from sqlmetrics import listing
    from sqlmetrics.grid import aligned

    click.echo(aligned(*getattr(listing, what)()))


@click.command()
@click.option("--out", default="sqlmetrics_demo", show_default=True, metavar="FOLDER")
@debug_option
def demo(out: str) -> None:
    """Make a search log, evaluate two rankers on it, and show what to try next."""
    from sqlmetrics.demo import show

    show(Path(out), click.echo)
