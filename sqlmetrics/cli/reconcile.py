"""`sqlmetrics reconcile`: which conventions give a number that was seen elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, progress_bar
from sqlmetrics.cli.evaluation_options import (
    check_option,
    convention_option,
    table_options,
    with_arguments,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    INPUT,
    Command,
    format_option,
    labels_option,
    option,
    queries_option,
    sql_option,
)
from sqlmetrics.cli.systems import sources, spec_of

NOTHING_FITS = 1


@click.command(cls=Command)
@click.argument("tables", type=INPUT, nargs=-1, required=True, metavar="RANKINGS LABELS")
@labels_option
@option(
    "-m",
    "--metric",
    required=True,
    shell_complete=completion.metrics,
    help="Metric such as ndcg@20.",
)
@option(
    "--value",
    metavar="NUMBER",
    help="Value to explain, with all its digits, such as .0919 or 35.06%.",
)
@option(
    "--values",
    metavar="FILE[:COLUMN]",
    help="Per-query values to explain: a file with a query column and a value column.",
)
@option(
    "--departures",
    type=int,
    default=2,
    show_default=True,
    help="Largest number of options that differ from a preset.",
)
@convention_option("Fix one convention (see list options); the others vary.")
@option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help="Column whose segments are averaged first, as one more convention.",
)
@queries_option
@table_options
@place_options
@check_option
@sql_option
@format_option(("table", "json"))
@error_options
@with_arguments
def reconcile_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    metric: str,
    value: str | None,
    values: str | None,
    departures: int,
    location: Location,
    sql: bool,
    output: str,
    arguments: dict[str, Any],
) -> None:
    """Find the conventions that give a number seen elsewhere.

    reconcile tries all presets on RANKINGS and LABELS, changes of one or two of their options, and
    the usual mistakes of hand-written SQL. It prints the conventions that give the number, and how
    many would match by chance. The exit code is 1 if none does.

    \b
    sqlmetrics reconcile run.txt qrels.txt -m ndcg@20 --value .0919
    sqlmetrics reconcile run.txt qrels.txt -m ap --values theirs.csv:map
    """  # noqa: D301  # click wants the \b itself
    import json

    from sqlmetrics.proof.reconcile.reconcile import reconcile

    rankings, labels = sources(tables, labels)
    if spec_of(rankings) is not None:
        raise click.UsageError("give RANKINGS and LABELS: reconcile takes no spec")
    file, column = (None, None) if values is None else _file_and_column(values)
    with location.reading_default("reconcile") as engine, progress_bar("trying conventions"):
        reconciliation = reconcile(
            rankings,
            labels,
            metric,
            value,
            values=file,
            column=column,
            departures=departures,
            connection=engine,
            **arguments,
        )
    if sql:
        click.echo(reconciliation.executed_sql)
    elif output == "json":
        click.echo(json.dumps(reconciliation.to_dict(), ensure_ascii=False, indent=2))
    else:
        click.echo(str(reconciliation))
    if not reconciliation.candidates:
        raise click.exceptions.Exit(NOTHING_FITS)


def _file_and_column(text: str) -> tuple[str, str | None]:
    """`values.csv:ndcg` in its two parts; a file may have a colon in its own name."""
    file, colon, column = text.rpartition(":")
    if not colon or Path(text).exists() or not Path(file).exists():
        return text, None
    return file, column
