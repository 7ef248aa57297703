"""`sqlmetrics track`: check the uploads of a shared task, and refresh its page."""

from __future__ import annotations

import click

from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, say
from sqlmetrics.cli.options.command import OUTPUT, Command, option
from sqlmetrics.cli.options.parameters import INPUT
from sqlmetrics.cli.output import write


@click.command(cls=Command)
@click.argument("track_file", type=INPUT, metavar="TRACK.YML")
@option(
    "--out",
    metavar="FOLDER",
    default="site",
    show_default=True,
    help="Folder to publish: index.html and leaderboard.csv.",
    heading=OUTPUT,
)
@overwrite_option
@error_options
def track(*, track_file: str, out: str) -> None:
    """Check the uploads of a shared task and refresh its leaderboard.

    TRACK.YML says where uploads, labels and topics are, what an upload must be, and what the page
    shows. Bad uploads are left aside. A report to each team, and the ledger of all uploads, stand
    in the folder of reports.

    \b
    sqlmetrics track track.yml --out site
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.track.track import track as refresh

    result = refresh(track_file, out=out, overwrite=overwrites())
    write(f"{result.text()}\n", None)
    say(f"wrote {out}/index.html")
