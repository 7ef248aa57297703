"""The command line: SQL and data on stdout, all else on stderr."""

from __future__ import annotations

import sys
from typing import Any

import click

from sqlmetrics import __version__
from sqlmetrics.cli import evaluate, learn, spec
from sqlmetrics.cli.common import debug_option
from sqlmetrics.errors import SqlmetricsError

COMMANDS = (evaluate.evaluate, spec.compile_spec, learn.list_names, learn.demo)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sqlmetrics")
@debug_option
def cli() -> None:
    """Ranking, search and recommendation metrics computed inside the warehouse."""


for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line; one clear message and an exit code by kind of error."""
    context: dict[str, Any] = {}
    try:
        with cli.make_context("sqlmetrics", sys.argv[1:]) as root:
            context = root.meta
            cli.invoke(root)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (SqlmetricsError, BrokenPipeError, KeyboardInterrupt) as error:
        sys.exit(_failed(error, debug=bool(context.get("debug"))))


def _failed(error: BaseException, *, debug: bool) -> int:
    """Tell an error, and its exit code."""
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return 0
    if isinstance(error, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    if debug:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True)
        click.echo(getattr(error, "sql", ""), err=True)
    click.echo(f"error: {error}", err=True)
    return getattr(error, "exit_code", 3)
