"""`sqlmetrics simulate`: a click log with a known truth."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, progress_bar

MODELS = ("position", "cascade")
SHARES = {
    "--bots": (0.01, "Users who are bots."),
    "--duplicates": (0.02, "Clean events that are there twice."),
    "--late": (0.02, "Events after the attribution window, of the clicks."),
    "--early": (0.01, "Events before the result was shown, of the clicks."),
    "--orphans": (0.01, "Events on items that were not shown, of the clicks."),
    "--hurried": (0.02, "Clicks left within 5 seconds, of the clicks."),
    "--zero-results": (0.02, "Requests that find nothing."),
    "--test-traffic": (0.005, "Requests made by testers."),
    "--cascade": (0.0, "Requests read as a cascade, by the model position."),
    "--trust": (0.0, "Clicks on a first result that is looked at and does not attract."),
    "--randomised": (0.0, "Requests in random order; with a column is_randomised."),
}
"""Option -> its default, and what it is a share of."""


def _shares(command: Any) -> Any:
    for name, (default, help_text) in reversed(SHARES.items()):
        add = click.option(
            name, type=float, default=default, metavar="SHARE", show_default=True, help=help_text
        )
        command = add(command)
    return command


@click.command()
@click.argument("folder")
@click.option(
    "--requests", type=int, default=10_000, show_default=True, help="Searches made by people."
)
@click.option(
    "--results", type=int, default=10, show_default=True, help="Results shown for each request."
)
@click.option("--model", type=click.Choice(MODELS), default="position", show_default=True)
@click.option("--days", type=int, default=7, show_default=True)
@click.option("--queries", type=int, default=500, show_default=True, help="Distinct queries.")
@click.option("--users", type=int, help="Default: 2,000, or one for 100 requests if more.")
@click.option(
    "--system",
    "systems",
    multiple=True,
    default=("old", "new"),
    show_default=True,
    metavar="NAME",
    help="A ranker, the worst one first.",
)
@_shares
@click.option("--seed", type=int, default=1, show_default=True)
@overwrite_option
@error_options
def simulate(folder: str, **settings: Any) -> None:
    """Write a click log, with bots, repeated and late clicks, to FOLDER as Parquet.

    What is true of it is known: relevance, propensities, and which events are to be cleaned.

    The same seed writes the same bytes. Rows are streamed: a hundred million results take
    less than 300 MB of memory.

    \b
    sqlmetrics simulate clicks --requests 1000000 --model cascade
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.clicks.simulation.simulate import simulate as simulated

    with progress_bar("writing a click log"):
        summary = simulated(folder, overwrite=overwrites(), **settings)
    click.echo(summary)
