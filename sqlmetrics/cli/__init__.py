"""The command line: SQL and data on stdout, all else on stderr."""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import signal
import sys
import traceback
from collections import UserDict
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from sqlmetrics import __version__
from sqlmetrics.cli.common import error_options, log_line, logs_json, telling_waits
from sqlmetrics.cli.completion import answered
from sqlmetrics.cli.signals import Stop, heeding_signals
from sqlmetrics.engines.output_files import noting_reads
from sqlmetrics.errors import (
    MOST,
    CheckError,
    EngineError,
    SpecError,
    SqlmetricsError,
    masked,
    masked_values,
    shortened,
)

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Look at numbers": {
        "evaluate": ("evaluate", "Evaluate rankings against labels: files or tables."),
        "compare": (
            "compare",
            "Compare systems with a baseline: differences, verdicts.",
        ),
        "leaderboard": (
            "compare",
            "Order systems by a metric: ranks, groups, a table to publish.",
        ),
        "track": (
            "compare",
            "Check the uploads of a shared task; refresh its leaderboard.",
        ),
        "foretell": (
            "compare",
            "Find the offline metric that foretells an online one.",
        ),
        "gate": ("gate", "Compare a branch with its base, for a pull request."),
        "diagnose": ("compare", "Look for known reasons why a metric moved."),
        "funnel": ("compare", "Report at which stage relevant items are lost."),
        "fuse": ("fusion", "Make one ranking of several: hybrid search, rank fusion."),
        "show": ("spec", "Print the numbers of SPEC; write no table."),
        "report": ("report", "Write a page: verdicts, charts, how it was computed."),
        "plot": ("report", "Draw one chart of a report."),
        "clicks": ("clicks", "Evaluate a click log: CTR, labels, NDCG, click models."),
        "reconcile": (
            "reconcile",
            "Find the conventions behind a number seen elsewhere.",
        ),
        "explain": ("learn", "Explain a metric, option or preset, with an example."),
        "list": ("learn", "List metrics, presets, options, dialects or exports."),
    },
    "Ask": {
        "mcp": ("mcp", "Serve the numbers of SPEC to assistants (MCP)."),
    },
    "Every night": {
        "init": ("learn", "Write an example spec with every key explained."),
        "validate": ("spec", "Check that SPEC fits its tables; compute nothing."),
        "run": ("run", "Evaluate SPEC and replace its days in its tables."),
        "check": ("build", "Check the fact table of SPEC against its checks."),
        "build": ("build", "Run SPEC, then check what it wrote."),
        "runs": ("history", "List the runs of SPEC and what they changed."),
        "restore": ("history", "Undo a run of SPEC."),
        "retire": ("history", "Remove the rows of a spec that no longer runs."),
        "compile": ("spec", "Print the SQL of SPEC in any dialect, or write a job."),
        "export": ("export", "Write SPEC as files of dbt, Superset and other tools."),
        "install": ("export", "Create macros of the metrics in a DuckDB file."),
        "uninstall": ("history", "Remove what run or install created."),
    },
    "Trust": {
        "debug": ("debug", "Test a connection: server, version, rights."),
        "grants": ("debug", "Print the minimal rights that a role needs for SPEC."),
        "metric": ("metric", "Write a metric of your own, and test it."),
        "doctor": ("debug", "Test a database: every metric, on difficult data."),
        "verify": ("spec", "Compare the SQL of SPEC with plain Python."),
    },
    "Labels from people": {
        "sheet": ("labels", "Print the items to label next, as a sheet."),
        "sheet-import": ("labels", "Add the grades of a sheet to a file of labels."),
        "sample": ("labels", "Draw a stratified sample of queries for labelling."),
        "estimate": ("labels", "Estimate metrics over all queries from a graded sample."),
        "agree": ("agreement", "Measure how far people and models agree on labels."),
        "combine": ("agreement", "Make one label of several judges'."),
    },
    "Try it": {
        "demo": ("learn", "Create a search log and compare two rankers on it."),
        "simulate": ("clicks", "Write a click log whose truth is known."),
    },
}
"""What stands above some commands in the help -> these in their order: name -> the module below
`sqlmetrics.cli` that has its function, like `sheet_import_command`, and its line in the help, which
needs none of these modules."""

PREFIX = "sqlmetrics_failed_"
COMMANDS_NAMED = 3
"""As many commands are named that have an option which another one has not."""

KEPT = 10
"""As many files of SQL that failed are kept in the folder of temporary files."""


class Commands(UserDict[str, Any]):
    """Name -> command; a module is imported when its command is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        """The command.

        Raises:
            KeyError: If there is none of that name.
        """
        module, about = self.data[name]
        function = f"{name.replace('-', '_')}_command"
        command: click.Command = getattr(import_module(f"sqlmetrics.cli.{module}"), function)
        command.name, command.short_help = name, about
        return command


class Sections(click.Group):
    """A group whose help has its commands by what they are for, each on a line of its own."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands(
            {n: summary for names in COMMANDS.values() for n, summary in names.items()}
        )

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them."""
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, about) for name, (_, about) in commands.items()])


@click.group(cls=Sections, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="sqlmetrics")
@error_options
def cli() -> None:
    """Ranking, search and recommendation metrics computed inside the warehouse."""


def main() -> None:
    """Run the command line; one clear message and an exit code by kind of error."""
    _open_streams()
    if (code := answered(cli)) is not None:
        sys.exit(code)
    gc.set_threshold(200_000)  # imports make many objects and hardly any garbage
    with heeding_signals() as stop, telling_waits() as options:
        _run(options, stop)
    if stop.number:
        atexit.register(_mute)
        sys.exit(stop.exit_code)


def _mute() -> None:
    """Print nothing more on stderr: DuckDB lists what it lost in a query that was interrupted."""
    with suppress(OSError):
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _run(options: dict[str, Any], stop: Stop) -> None:
    """Run the command that was given, and exit by what it raises."""
    try:
        _invoke(options, stop)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            error = _with_commands(error)
        stream = io.StringIO()
        error.show(stream)
        usage, _, message = stream.getvalue().partition("Error: ")
        text = f"{usage}error: {message}"  # as all other errors begin
        _print(options, text, "usage", error.exit_code)
        sys.exit(error.exit_code)
    except (OSError, UnicodeEncodeError) as error:  # of stdout: what writes files says which
        sys.exit(_unwritten(error, options))
    except KeyboardInterrupt:
        stop.number = stop.number or signal.SIGINT
        _tell_stop(options, stop)
    except SqlmetricsError as error:
        if options.get("debug") and not logs_json(options):
            _explain(error)
        as_json = options.get("errors") == "json" and not logs_json(options)
        kind, text = type(error).__name__, _json(error) if as_json else _text(error)
        _print(options, text, "failed", error.exit_code, error=kind)
        sys.exit(error.exit_code)


def _with_commands(error: click.NoSuchOption) -> click.NoSuchOption:
    """An unknown option, with the commands that have it."""
    lines = [
        " ".join(["sqlmetrics", name, *_arguments(command), error.option_name])
        for name, command in cli.commands.items()
        if any(error.option_name in parameter.opts for parameter in command.params)
    ]
    if not lines:
        return error
    n_more = len(lines) - COMMANDS_NAMED
    rest = f" and {n_more:,} more" if n_more > 0 else ""
    message = f"{error.message} There is: {', '.join(lines[:COMMANDS_NAMED])}{rest}."
    return click.NoSuchOption(error.option_name, message, error.possibilities, error.ctx)


def _arguments(command: click.Command) -> list[str]:
    return [
        parameter.human_readable_name
        for parameter in command.params
        if isinstance(parameter, click.Argument)
    ]


def _print(options: dict[str, Any], text: str, event: str, exit_code: int, **fields: Any) -> None:
    """Print why a command ends, as people or as logs have it."""
    if logs_json(options):
        if options.get("debug"):
            fields["traceback"] = traceback.format_exc()
        text = log_line(options, text, event, "error", exit_code=exit_code, **fields)
    click.echo(masked(text).rstrip("\n"), err=True)


def _invoke(options: dict[str, Any], stop: Stop) -> None:
    """Run the command; once a signal came, what it fails with is what the signal did."""
    try:
        with (
            noting_reads(),
            cli.make_context("sqlmetrics", sys.argv[1:], obj=options) as root,
        ):
            cli.invoke(root)
    except BaseException as error:
        if not stop.number:
            raise
        raise KeyboardInterrupt from error


def _tell_stop(options: dict[str, Any], stop: Stop) -> None:
    if options.get("debug") and not logs_json(options):
        click.echo(masked(traceback.format_exc()), err=True)
    if options.get("errors") == "json" and not logs_json(options):
        click.echo(json.dumps({"error": "Stopped", "exit_code": stop.exit_code}), err=True)
    else:
        by = "SIGTERM" if stop.number == signal.SIGTERM else "Ctrl-C"
        _print(options, f"stopped by {by}", "stopped", stop.exit_code)


def _open_streams() -> None:
    """Open those of the three standard streams that the caller has closed, for nothing.

    Else the next file that is opened would have their number, and what a library prints would
    be written into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def _unwritten(error: OSError | UnicodeEncodeError, options: dict[str, Any]) -> int:
    """Tell why stdout cannot be written, unless its reader has gone; the exit code."""
    if isinstance(error, UnicodeEncodeError):
        odd = error.object[error.start : error.end][:20]
        text = (
            f"error: the output has {odd!r}, which {sys.stdout.encoding} cannot write: set "
            "PYTHONIOENCODING=utf-8, or write to a file by --out"
        )
        _print(options, text, "failed", SpecError.exit_code)
        return SpecError.exit_code
    with suppress(OSError):  # what is kept for it would fail once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    where = repr(error.filename) if error.filename else "the output"
    text = f"error: cannot write {where}: {error.strerror}"
    _print(options, text, "failed", EngineError.exit_code)
    return EngineError.exit_code


def _explain(error: SqlmetricsError) -> None:
    click.echo(masked("".join(traceback.format_exception(error))), err=True)
    click.echo(getattr(error, "sql", ""), err=True)


def _text(error: SqlmetricsError) -> str:
    if isinstance(error, CheckError):
        lines = [f"failed: {problem}" for problem in error.problems[:MOST]]
        n_more = len(error.problems) - MOST
        return "\n".join([*lines, *([f"... and {n_more:,} more"] if n_more > 0 else [])])
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

    def written_at(file: Path) -> float:
        try:
            return file.stat().st_mtime
        except OSError:
            return 0

    for old in sorted(folder.glob(f"{PREFIX}*.sql"), key=written_at)[: 1 - KEPT]:
        with suppress(OSError):  # another user's, or gone
            old.unlink()


def _json(error: SqlmetricsError) -> str:
    details = getattr(error, "details", getattr(error, "problems", (str(error),)))
    problems = [
        detail.to_dict() if hasattr(detail, "to_dict") else {"problem": shortened(str(detail))}
        for detail in details[:MOST]
    ]
    report = {"error": type(error).__name__, "exit_code": error.exit_code, "problems": problems}
    if file := _sql_file(error):
        report["sql"] = file
    return json.dumps(masked_values(report), ensure_ascii=False, indent=2)
