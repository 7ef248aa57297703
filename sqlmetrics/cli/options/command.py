"""A command whose help shows its common options first, the others under headings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

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
