"""The command line: SQL and data on stdout, all else on stderr."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from sqlmetrics import __version__
from sqlmetrics.cli import (
    build,
    check,
    clicks,
    compare,
    debug,
    doctor,
    evaluate,
    install,
    learn,
    reconcile,
    run,
    sample,
    sheet,
    show,
    simulate,
    spec,
)
from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.completion import answered
from sqlmetrics.errors import SqlmetricsError

COMMANDS = {
    "Look at numbers": (
        evaluate.evaluate,
        compare.compare,
        show.show,
        clicks.clicks,
        reconcile.reconcile,
        learn.explain,
        learn.list_names,
    ),
    "Every night": (
        learn.init,
        spec.validate,
        run.run,
        check.check,
        build.build,
        spec.compile_spec,
        install.install,
    ),
    "Trust": (debug.debug, doctor.doctor, spec.verify),
    "Labels from people": (sheet.sheet, sheet.sheet_import, sample.sample, sample.estimate),
    "Try it": (learn.demo, simulate.simulate),
}
"""What stands above some commands in the help, and these in their order."""

PREFIX = "sqlmetrics_failed_"
KEPT = 10
"""As many files of SQL that failed are kept in the folder of temporary files."""


class Sections(click.Group):
    """A group whose help has its commands by what they are for, each on a line of its own."""

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them."""
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(str(one.name), one.get_short_help_str(limit=66)) for one in commands]
                )


@click.group(cls=Sections, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="sqlmetrics")
@error_options
def cli() -> None:
    """Ranking, search and recommendation metrics computed inside the warehouse."""


for section in COMMANDS.values():
    for command in section:
        cli.add_command(command)


def main() -> None:
    """Run the command line; one clear message and an exit code by kind of error."""
    if (code := answered(cli)) is not None:
        sys.exit(code)
    told: dict[str, Any] = {}
    try:
        with cli.make_context("sqlmetrics", sys.argv[1:]) as root:
            told = root.meta
            cli.invoke(root)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read us has gone: that is no failure of ours
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        sys.exit(130)
    except SqlmetricsError as error:
        if told.get("debug"):
            _explain(error)
        as_json = told.get("errors") == "json"
        click.echo(_json(error) if as_json else _text(error), err=True)
        sys.exit(error.exit_code)


def _explain(error: SqlmetricsError) -> None:
    import traceback

    click.echo("".join(traceback.format_exception(error)), err=True)
    click.echo(getattr(error, "sql", ""), err=True)


def _text(error: SqlmetricsError) -> str:
    file = _sql_file(error)
    return f"error: {error}" + (f"\nthe SQL: {file}" if file else "")


def _sql_file(error: SqlmetricsError) -> str:
    """The file that now holds the SQL that failed, empty if there is none."""
    import tempfile

    sql = getattr(error, "sql", "")
    if not sql:
        return ""
    _forget(Path(tempfile.gettempdir()))
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=PREFIX, suffix=".sql", delete=False
    ) as file:
        file.write(f"{sql}\n")
    return file.name


def _forget(folder: Path) -> None:
    """Remove such files but for the last ones, of this user alone."""

    def written(file: Path) -> float:
        try:
            return file.stat().st_mtime
        except OSError:
            return 0

    for old in sorted(folder.glob(f"{PREFIX}*.sql"), key=written)[: 1 - KEPT]:
        with suppress(OSError):  # another user's, or gone
            old.unlink()


def _json(error: SqlmetricsError) -> str:
    import json

    details = getattr(error, "details", getattr(error, "problems", (str(error),)))
    problems = [
        detail.to_dict() if hasattr(detail, "to_dict") else {"problem": str(detail)}
        for detail in details
    ]
    told = {"error": type(error).__name__, "exit_code": error.exit_code, "problems": problems}
    if file := _sql_file(error):
        told["sql"] = file
    return json.dumps(told, ensure_ascii=False, indent=2)
