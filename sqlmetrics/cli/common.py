"""What the commands share: options for errors and silence, the progress."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import masked

WAIT = 2.0
"""What takes no longer than this many seconds needs no bar."""


class Input(click.Path):
    """A file that is read, alone or as NAME=FILE; or a table. No output takes its place."""

    def convert(self, value: Any, *_: Any) -> Any:
        """The text as it is given."""
        note_read(value)
        note_read(value.partition("=")[2])
        return value


INPUT = Input()


def _remembered(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep how errors are told where the one place that tells them finds it."""
    if value:
        _options(context)[str(parameter.name)] = value


def _options(context: click.Context | None) -> dict[str, Any]:
    """How errors are told, as a dict that all contexts of a command share."""
    return context.find_root().ensure_object(dict) if context else {}


def error_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--debug` and `--errors`, before the command's name or behind it."""
    command = click.option(
        "--errors",
        type=click.Choice(("text", "json")),
        expose_value=False,
        callback=_remembered,
        help="Print errors as text or, for programs, as JSON.",
    )(command)
    command = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_remembered,
        help="Print nothing but results and errors.",
    )(command)
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_remembered,
        help="Show the traceback, and the SQL that failed.",
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

    >>> several_names(None, None, ("bm25, dense", '"a,b",c'))
    ('bm25', 'dense', 'a,b', 'c')
    """
    import csv

    rows = csv.reader(texts, skipinitialspace=True)
    return tuple(name.strip() for row in rows for name in row if name.strip())


def overwrite_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--overwrite`, which `overwrites` tells wherever something is written."""
    return click.option(
        "--overwrite",
        is_flag=True,
        expose_value=False,
        callback=_remembered,
        help="Replace a file that sqlmetrics did not write, too.",
    )(command)


def overwrites() -> bool:
    """Whether `--overwrite` is given."""
    return bool(_options(click.get_current_context(silent=True)).get("overwrite"))


def is_quiet() -> bool:
    """Whether `--quiet` is given, before or behind the command's name."""
    return bool(_options(click.get_current_context(silent=True)).get("quiet"))


def say(what: str) -> None:
    """A line on stderr for people: none with `--quiet`, nor where errors are told as JSON."""
    if not _is_silent(_options(click.get_current_context(silent=True))):
        click.echo(masked(what), err=True)


def _is_silent(options: Mapping[str, Any]) -> bool:
    return bool(options.get("quiet")) or options.get("errors") == "json"


class _Waits(logging.Handler):
    """Prints what is waited for, which another thread tells."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.options: dict[str, Any] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if not _is_silent(self.options):
            click.echo(record.getMessage(), err=True)


@contextmanager
def telling_waits() -> Iterator[dict[str, Any]]:
    """With what is waited for told on stderr; the options of the command, once it has some."""
    handler = _Waits()
    log = logging.getLogger("sqlmetrics")
    log.addHandler(handler)
    try:
        yield handler.options
    finally:
        log.removeHandler(handler)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int, int], None] | None]:
    """What is being done and for how long, from WAIT seconds on; on a terminal alone.

    Below it stands the last line that the package logged (at INFO), such as a round of expectation
    maximisation. Nothing may be written to stdout meanwhile.

    Args:
        what: What is done, or what of it is counted.

    Yields:
        What may be told how many of how many are done, and of how many rows; None elsewhere.
    """
    if is_quiet() or not sys.stderr.isatty():
        yield None
        return
    from sqlmetrics.cli.progress import drawn

    with drawn(what, WAIT) as told:
        yield told
