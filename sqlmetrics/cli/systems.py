"""What commands are told that look at systems or judges side by side, and where they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from sqlmetrics.cli.common import overwrites, say, several_names
from sqlmetrics.cli.evaluation_options import check_option, convention_option, preset_option
from sqlmetrics.cli.location import Location
from sqlmetrics.cli.options import (
    INPUT,
    INPUT_DATA,
    OUTPUT,
    confidence_option,
    days_options,
    decorate,
    labels_option,
    option,
    queries_option,
)
from sqlmetrics.cli.output import emit_table
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.formats import SPECS
from sqlmetrics.evaluation.inputs.names import holds_run
from sqlmetrics.evaluation.inputs.run_names import named_file, table_or_runs

FORMATS = ("table", "json", "csv", "markdown", "html", "latex", "parquet")

_QUESTION = (days_options(INPUT_DATA), preset_option(), convention_option(), queries_option)

_TABLES = (
    click.argument(
        "tables", type=INPUT, nargs=-1, required=True, metavar="RANKINGS... LABELS | SPEC"
    ),
    labels_option,
    option(
        "--systems",
        multiple=True,
        callback=several_names,
        metavar="A,B",
        help="Systems to include, separated by commas.  [default: all]",
    ),
)

_LEVEL = (confidence_option("level"), *_QUESTION, check_option)


def question_options(command: Callable[..., None]) -> Callable[..., None]:
    """Days, conventions, and what is known of queries."""
    return decorate(command, *_QUESTION)


def system_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a command is told that looks at systems beside one another."""
    return baseline_options("one called control, prod, old or the like, else the first")(command)


def baseline_options(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same, where another system is the baseline if nobody names one.

    Args:
        default: Which one.
    """
    about = f"System that the others are compared with.  [default: {default}]"
    baseline = option("--baseline", metavar="SYSTEM", help=about)
    return lambda command: decorate(command, *_TABLES, baseline, *_LEVEL)


def run_on_tables(
    ask: Callable[..., Any],
    rankings: Any,
    labels: str | None,
    location: Location,
    arguments: Mapping[str, Any],
) -> Any:
    """What a function finds in the tables that a command names.

    Args:
        ask: `compare`, `diagnose`, `funnel`.
        rankings: The rankings, or a spec.
        labels: The labels; None of a spec.
        location: Where they are.
        arguments: The function's other arguments.
    """
    with location.reading(spec_of(rankings)) as engine:
        return ask(rankings, labels, connection=engine, **arguments)


def answer(
    result: Any,
    form: str,
    out: str | None,
    *,
    sql: bool,
    texts: Mapping[str, Callable[[], str]] | None = None,
) -> None:
    """Print what was found, and notes on stderr where its text has none.

    Args:
        result: What was found, with `executed_sql`, or with `sql`.
        form: The format.
        out: A file, None for stdout.
        sql: Whether the SQL is wanted instead.
        texts: As `emit_table` takes them.
    """
    if sql:
        click.echo(getattr(result, "executed_sql", "") or result.sql, nl=False)
        return
    for note in result.notes if form not in ("table", "markdown", "html", "latex") else ():
        say(f"note: {note}")
    emit_table(result, form, out, texts)


def spec_of(rankings: Any) -> Any:
    """The spec, if that is what was given; else None."""
    return None if isinstance(rankings, str | list | dict) else rankings


def sources(
    tables: tuple[str, ...], labels: str | None, *, needs_labels: bool = True
) -> tuple[Any, str | None]:
    """The rankings, of several tables by their names, and the labels; a spec, and None.

    The last table is the labels, unless they are given by themselves, or it has a name before =
    as the others have, or is alone: then the tables have the labels in them, as traces do. Where
    there need be none, a run of TREC is none.

    Args:
        tables: What stands in the command line.
        labels: What the option says.
        needs_labels: Whether there have to be labels.
    """
    if not tables:
        raise click.UsageError("give RANKINGS and LABELS, traces alone, or a spec (.yml)")
    if labels is None and len(tables) == 1 and tables[0].endswith(SPECS):
        from sqlmetrics.spec.spec import Spec

        return Spec.read(tables[0], needs_labels=needs_labels), None
    runs = list(tables)
    if labels is None and len(runs) > 1 and not all(named_file(run)[0] for run in runs):
        is_run = not needs_labels and holds_run(runs[-1])
        labels = None if is_run else runs.pop()
    return table_or_runs(runs), labels


_DRY_RUN = option(
    "--dry-run",
    is_flag=True,
    help="Print the SQL that --into executes; write nothing.",
    heading=OUTPUT,
)


def into_options(rows: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--into` and `--dry-run`.

    Args:
        rows: What the rows are.
    """
    about = f"Table of the database to write instead; one of {rows} is replaced with --overwrite."
    into = option("--into", metavar="TABLE", help=about, heading=OUTPUT)
    return lambda command: decorate(command, into, _DRY_RUN)


def is_written(into: str | None, *, dry_run: bool, elsewhere: Mapping[str, Any]) -> bool:
    """Whether a table is written.

    Args:
        into: What --into says.
        dry_run: Whether only the SQL is wanted.
        elsewhere: Options that say where else the rows go -> their values.

    Raises:
        SpecError: If the options contradict.
    """
    if dry_run and into is None:
        raise SpecError("--dry-run says what --into does; give a table")
    if into is not None:
        for word in (word for word, value in elsewhere.items() if value):
            raise SpecError(f"--into writes a table of the database; leave {word} out")
    return into is not None


def write_into(
    write: Callable[..., Any],
    table: Any,
    location: Location,
    arguments: Mapping[str, Any],
    *,
    dry_run: bool,
) -> None:
    """Write the rows to a table of the database, or print the statements that do it.

    Args:
        write: `fuse` or `combine`.
        table: What it is given first.
        location: The database.
        arguments: The other arguments, with `into`.
        dry_run: Whether only the SQL is wanted.
    """
    from sqlmetrics.engines.database import connect

    if not dry_run:
        database = location.writing(spec_of(table))
    elif location.url.is_default and location.url.is_missing:
        database = connect()  # as empty as the file would be
    else:
        database = location.reading(spec_of(table), is_needed=True)
    with database as engine:
        result = write(
            table, connection=engine, overwrite=overwrites(), dry_run=dry_run, **arguments
        )
    click.echo(result.sql if dry_run else str(result), nl=not dry_run)
