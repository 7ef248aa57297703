"""Options that mean the same on several commands: one name, one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from sqlmetrics.cli.options.command import COMMON, INPUT_DATA, OUTPUT, STATISTICS, Decorator, option
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.stats import CONFIDENCE


class Input(click.Path):
    """A file that is read, alone or as NAME=FILE; or a table. No output takes its place."""

    def convert(self, value: Any, *_: Any) -> Any:
        """The text as it is given."""
        note_read(value)
        note_read(value.partition("=")[2])
        return value


INPUT = Input()

labels_option = option(
    "--labels", type=INPUT, metavar="TABLE", help="Table of labels.  [default: the last table]"
)

queries_option = option(
    "--queries",
    type=INPUT,
    metavar="TABLE",
    heading=INPUT_DATA,
    help="Table of query attributes: text, segments, weights, days.",
)

items_option = option(
    "--items",
    type=INPUT,
    metavar="TABLE",
    heading=INPUT_DATA,
    help="Table of item attributes: category, popularity, users, vector, or columns such as price.",
)

by_option = option(
    "--by", multiple=True, metavar="COLUMN", help="Segment by a column. May be repeated."
)

per_query_option = option("--per-query", is_flag=True, help="Print one row per query.")

sql_option = option("--sql", is_flag=True, heading=OUTPUT, help="Print only the SQL.")


metrics_from_option = option(
    "--metrics-from",
    multiple=True,
    type=click.Path(),
    metavar="FOLDER",
    heading=INPUT_DATA,
    help="Folder of your own metrics (see metric new). May be repeated.",
)


def days_options(heading: str = COMMON) -> Decorator:
    """`--start` and `--end`: days from the first until before the second."""
    start = option("--start", metavar="DATE", heading=heading, help="First day.")
    end = option("--end", metavar="DATE", heading=heading, help="Day after the last day.")
    return lambda command: start(end(command))


def margin_option(default: float) -> Decorator:
    """`--margin`."""
    return option(
        "--margin",
        default=default,
        show_default=True,
        help="Treat differences up to this size as equal.",
    )


def confidence_option(
    name: str = "confidence", *, default: float | None = CONFIDENCE, heading: str = STATISTICS
) -> Decorator:
    """`--confidence`, which some commands called `--level`.

    Args:
        name: The argument of the command.
        default: The coverage of the intervals; None if there are no intervals without it.
        heading: The heading above it.
    """
    return option(
        "--confidence",
        name,
        type=float,
        default=default,
        show_default=default is not None,
        metavar="LEVEL",
        old_spellings=("--level",),
        heading=heading,
        help="Confidence level of the intervals, such as 0.95.",
    )


def seed_option(heading: str = STATISTICS) -> Decorator:
    """`--seed`."""
    return option(
        "--seed", type=int, default=1, show_default=True, heading=heading, help="Random seed."
    )


def format_option(formats: Sequence[str]) -> Decorator:
    """`-o` of a command that prints, the usual format first."""
    return option(
        "-o",
        "--output",
        type=click.Choice(tuple(formats)),
        default=formats[0],
        show_default=True,
        heading=OUTPUT,
        help="Output format.",
    )
