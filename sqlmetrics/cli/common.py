"""What the commands share: options for errors, silence and logs, the progress."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click

from sqlmetrics.cli.options import GENERAL, OUTPUT, option
from sqlmetrics.errors import masked, masked_values

WAIT = 2.0
"""What takes no longer than this many seconds needs no bar."""


def _remembered(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep how errors are told where the one place that tells them finds it."""
    if value:
        _options(context)[str(parameter.name)] = value
    if parameter.name == "log_format" and value == "json":
        logging.getLogger("sqlmetrics").setLevel(logging.INFO)


def _options(context: click.Context | None) -> dict[str, Any]:
    """How errors are told, as a dict that all contexts of a command share."""
    return context.find_root().ensure_object(dict) if context else {}


def error_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--debug`, `--quiet`, `--errors` and `--log-format`, before a command's name or behind it."""
    command = option(
        "--log-format",
        type=click.Choice(("text", "json")),
        expose_value=False,
        is_eager=True,
        callback=_remembered,
        help="Format of stderr: text, or one JSON object per line.",
        heading=GENERAL,
    )(command)
    command = option(
        "--errors",
        type=click.Choice(("text", "json")),
        expose_value=False,
        callback=_remembered,
        help="Format of error messages: text, or JSON for programs.",
        heading=GENERAL,
    )(command)
    command = option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_remembered,
        help="Print only results and errors.",
        heading=GENERAL,
    )(command)
    return option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_remembered,
        help="Print the traceback of an error and the SQL that failed.",
        heading=GENERAL,
    )(command)


def several(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Texts behind commas as texts of their own; not those within parentheses.

    >>> several(None, None, ("ndcg@10,mrr", "f(beta=2, rel=1)@5"))
    ('ndcg@10', 'mrr', 'f(beta=2, rel=1)@5')
    """
    parts = (part.strip() for text in texts for part in re.split(r",(?![^()]*\))", text))
    return tuple(filter(None, parts))


def several_names(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Names behind commas; one with a comma in it stands in double quotes, as in CSV.

    Blanks at the end of a name are part of it, as they are in data.

    >>> several_names(None, None, ("bm25, dense", '"a,b",control '))
    ('bm25', 'dense', 'a,b', 'control ')
    """
    import csv

    rows = csv.reader(texts, skipinitialspace=True)
    return tuple(name for row in rows for name in row if name.strip())


def overwrite_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--overwrite`, which `overwrites` tells wherever something is written."""
    return option(
        "--overwrite",
        is_flag=True,
        expose_value=False,
        callback=_remembered,
        help="Replace an existing file that sqlmetrics did not write.",
        heading=OUTPUT,
    )(command)


def overwrites() -> bool:
    """Whether `--overwrite` is given."""
    return bool(_options(click.get_current_context(silent=True)).get("overwrite"))


def is_quiet() -> bool:
    """Whether `--quiet` is given, before or behind the command's name."""
    return bool(_options(click.get_current_context(silent=True)).get("quiet"))


def say(message: str, event: str = "message", level: str = "info") -> None:
    """A line on stderr: none where errors are told as JSON; with `--quiet` warnings alone.

    Args:
        message: The line.
        event: What kind of line it is, for programs that read logs.
        level: `info` or `warning`.
    """
    options = _options(click.get_current_context(silent=True))
    if logs_json(options):
        if level != "info" or not options.get("quiet"):
            click.echo(log_line(options, message, event, level), err=True)
    elif options.get("errors") != "json" and (level != "info" or not options.get("quiet")):
        click.echo(masked(message), err=True)


def say_of(spec: str) -> None:
    """From now on lines of logs are of a spec."""
    _options(click.get_current_context(silent=True))["spec"] = spec


def logs_json(options: Mapping[str, Any]) -> bool:
    """Whether each line on stderr is a JSON object."""
    return options.get("log_format") == "json"


def log_line(
    options: Mapping[str, Any], message: str, event: str, level: str, **fields: Any
) -> str:
    """A line of a log as JSON: when, how bad, what kind, of which spec and run, and the words.

    Args:
        options: Those of the command, with the spec and the run as far as they are known.
        message: The words.
        event: What kind of line it is.
        level: `info`, `warning` or `error`.
        fields: Other keys.
    """
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "level": level,
        "event": event,
        "spec": options.get("spec"),
        "run_id": options.get("run_id"),
        "message": message.strip("\n"),
        **fields,
    }
    return json.dumps(masked_values(line), ensure_ascii=False, default=str)


class _Records(logging.Handler):
    """Prints what the package logs: what is waited for, which another thread tells, and more.

    What is no warning is for logs alone.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.options: dict[str, Any] = {}

    def emit(self, record: logging.LogRecord) -> None:
        is_warning, message = record.levelno >= logging.WARNING, record.getMessage()
        if logs_json(self.options):
            run = {name: vars(record).get(name) for name in ("spec", "run_id")}
            self.options.update({name: text for name, text in run.items() if text})
            event = "waiting" if is_warning else "run_begins" if run["run_id"] else "progress"
            if is_warning or not self.options.get("quiet"):
                level = "warning" if is_warning else "info"
                click.echo(log_line(self.options, message, event, level), err=True)
        elif is_warning and not (self.options.get("quiet") or self.options.get("errors") == "json"):
            click.echo(message, err=True)


@contextmanager
def telling_waits() -> Iterator[dict[str, Any]]:
    """With what is waited for told on stderr; the options of the command, once it has some."""
    handler = _Records()
    log = logging.getLogger("sqlmetrics")
    level = log.level
    log.addHandler(handler)
    try:
        yield handler.options
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int, int], None] | None]:
    """What is being done and for how long, from WAIT seconds on; on a terminal alone.

    Below it stands the last line that the package logged (at INFO), such as a round of expectation
    maximisation. Nothing may be written to stdout meanwhile.

    Args:
        label: What is done, or what of it is counted.

    Yields:
        What may be told how many of how many are done, and of how many rows; None elsewhere.
    """
    is_log = logs_json(_options(click.get_current_context(silent=True)))
    if is_quiet() or is_log or not sys.stderr.isatty():
        yield None
        return
    from sqlmetrics.cli.progress import draw_progress

    with draw_progress(label, WAIT) as on_progress:
        yield on_progress
