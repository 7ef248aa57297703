"""Options that several commands share, and how the help of a command shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from sqlmetrics.engines.output_files import note_read
from sqlmetrics.stats import CONFIDENCE

# A command whose help shows its common options first, the others under headings.

Decorator = Callable[[Callable[..., None]], Callable[..., None]]

COMMON = "Options"
CONVENTIONS = "Conventions"
STATISTICS = "Statistics"
INPUT_DATA = "Input"
COLUMNS = "Columns"
CONNECTION = "Connection"
EXECUTION = "Execution"
OUTPUT = "Output"
GENERAL = "General"

HEADINGS = (
    *(COMMON, CONVENTIONS, STATISTICS, INPUT_DATA, COLUMNS),
    *(CONNECTION, EXECUTION, OUTPUT, GENERAL),
)
"""The headings of options in their order; headings of a single command follow the first one."""


class Option(click.Option):
    """An option under a heading, which may have old spellings that the help does not show."""

    def __init__(
        self,
        *arguments: Any,
        heading: str = COMMON,
        old_spellings: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.heading = heading
        self.old_spellings = [*old_spellings]

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser know the old spellings, too."""
        spellings = self.opts
        self.opts = [*spellings, *self.old_spellings]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = spellings


class Command(click.Command):
    """A command whose help has the options by their headings.

    Args:
        sections: Other sections of the help: title -> name -> what it is.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Mapping[str, str]] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.sections = dict(sections or {})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, then the options."""
        for title, lines in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([*lines.items()])
        for heading, options in options_by_heading(self, ctx).items():
            with formatter.section(heading):
                records = (option.get_help_record(ctx) for option in options)
                formatter.write_dl([record for record in records if record])


def options_by_heading(
    command: click.Command, context: click.Context
) -> dict[str, list[click.Option]]:
    """The options that are not hidden, by their headings in the order of the help."""
    options = [
        option
        for option in command.get_params(context)
        if isinstance(option, click.Option) and not option.hidden
    ]
    headings = [COMMON, *map(heading_of, options), *HEADINGS[1:]]
    single = [heading for heading in headings if heading not in HEADINGS]
    by_heading: dict[str, list[click.Option]] = {
        heading: [] for heading in (COMMON, *single, *HEADINGS[1:])
    }
    for option in options:
        by_heading[heading_of(option)].append(option)
    return {heading: members for heading, members in by_heading.items() if members}


def heading_of(option: click.Option) -> str:
    """The heading above an option; `--help` is one of those that every command has."""
    return GENERAL if "--help" in option.opts else getattr(option, "heading", COMMON)


def option(*spellings: str, **attributes: Any) -> Decorator:
    """`click.option` with a heading and old spellings."""
    return click.option(*spellings, cls=Option, **attributes)


def decorate(command: Callable[..., None], *decorators: Decorator) -> Callable[..., None]:
    """A command with several options, in the order of the help."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


# Options that mean the same on several commands: one name, one text.


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
