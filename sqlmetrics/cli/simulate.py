"""`sqlmetrics simulate`: a click log with a known truth."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, progress_bar
from sqlmetrics.cli.options import COMMON, Command, decorate, option, seed_option

MODELS = ("position", "cascade")
SHARES = {
    "--bots": (0.01, "Share of users who are bots."),
    "--duplicates": (0.02, "Share of clean events that are duplicated."),
    "--late": (0.02, "Events after the attribution window, as a share of the clicks."),
    "--early": (0.01, "Events before their impression, as a share of the clicks."),
    "--orphans": (0.01, "Events on items without an impression, as a share of the clicks."),
    "--hurried": (0.02, "Share of clicks that are left within 5 seconds."),
    "--zero-results": (0.02, "Share of requests without results."),
    "--test-traffic": (0.005, "Share of requests by testers."),
    "--cascade": (0.0, "Share of requests that --model position simulates as a cascade."),
    "--trust": (
        0.0,
        "Probability of a click on the first result when it is examined and not attractive.",
    ),
    "--randomised": (0.0, "Share of requests in random order; adds the column is_randomised."),
}
"""Option -> its default, and what it is a share of."""


def _shares(command: Any) -> Any:
    decorators = [
        option(
            name,
            type=float,
            default=default,
            metavar="SHARE",
            show_default=True,
            heading="Bias and noise",
            help=help_text,
        )
        for name, (default, help_text) in SHARES.items()
    ]
    return decorate(command, *decorators)


@click.command(cls=Command)
@click.argument("folder")
@option(
    "--requests", type=int, default=10_000, show_default=True, help="Number of requests by people."
)
@option("--results", type=int, default=10, show_default=True, help="Number of results per request.")
@option(
    "--model",
    type=click.Choice(MODELS),
    default="position",
    show_default=True,
    help="Click model: position or cascade.",
)
@option("--days", type=int, default=7, show_default=True, help="Number of days.")
@option("--queries", type=int, default=500, show_default=True, help="Number of distinct queries.")
@option(
    "--users", type=int, help="Number of users.  [default: 2,000, or 1 per 100 requests if more]"
)
@option(
    "--system",
    "systems",
    multiple=True,
    default=("old", "new"),
    show_default=True,
    metavar="NAME",
    help="Ranker, worst first. May be repeated.",
)
@_shares
@seed_option(COMMON)
@overwrite_option
@error_options
def simulate(folder: str, **settings: Any) -> None:
    """Write a click log with bots, repeated and late clicks to FOLDER, as Parquet.

    The truth behind the log is known: relevance, propensities, and the events that cleaning has to
    remove.

    The same seed writes the same bytes. A log of a hundred million results takes less than 300 MB
    of memory.

    \b
    sqlmetrics simulate clicks --requests 1000000 --model cascade
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.clicks.simulation import simulate as simulated

    with progress_bar("writing a click log"):
        summary = simulated(folder, overwrite=overwrites(), **settings)
    click.echo(summary)
