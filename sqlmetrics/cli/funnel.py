"""`sqlmetrics funnel`: at which stage of a ranking the relevant items are lost."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import error_options, several
from sqlmetrics.cli.evaluation_options import (
    METRIC,
    check_option,
    given_options,
    metrics_option,
    pairs,
    table_options,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option
from sqlmetrics.cli.options.parameters import (
    INPUT,
    by_option,
    items_option,
    labels_option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import FORMATS, answer, found_by, question_options, sources
from sqlmetrics.errors import SpecError


@click.command(cls=Command)
@click.argument("tables", type=INPUT, nargs=-1, metavar="RANKINGS... LABELS | SPEC")
@metrics_option(f"{METRIC}  [default: those of SPEC, else ndcg@10]")
@labels_option
@option(
    "--stage",
    "stages",
    multiple=True,
    type=INPUT,
    metavar="NAME=TABLE",
    help="Rankings of one stage. Repeat in the order of the stages.",
)
@option(
    "--stage-column",
    "stage",
    metavar="COLUMN",
    help="Column that names the stage of a row.  [default: stage]",
)
@option(
    "--order",
    multiple=True,
    callback=several,
    metavar="A,B",
    help="Stages from first to last.  [default: as given, or by the size of their lists]",
)
@option(
    "--sources",
    metavar="COLUMN",
    help="Column that lists the sources of a row; reports on sources in place of stages.",
)
@option("--rel", default=1.0, show_default=True, help="Lowest relevant grade.")
@by_option
@question_options
@items_option
@check_option
@sql_option
@table_options
@place_options
@output_options(FORMATS)
@error_options
@given_options
def funnel(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    stages: tuple[str, ...],
    location: Location,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Report at which stage a ranking pipeline loses relevant items.

    The stages (recall, pre-rank, rank, page) are the values of the stage column, one table each
    with --stage, or those of SPEC.

    \b
    sqlmetrics funnel lists.parquet labels.parquet --order recall,rank,page
    sqlmetrics funnel --stage recall=all.csv --stage page=page.csv labels.csv
    sqlmetrics funnel search.yml --stage-column step
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.funnel.funnel import funnel as lost

    form = format_of(output, out, FORMATS, ("system", "segment_name"))
    rankings, labels = _sources(tables, labels, stages)
    funnel_found = found_by(lost, rankings, labels, location, arguments)
    answer(funnel_found, form, out, sql=sql)


def _sources(
    tables: tuple[str, ...], labels: str | None, stages: tuple[str, ...]
) -> tuple[Any, str | None]:
    """The rankings, and the labels; a spec, and None."""
    if not stages:
        if not tables:
            raise click.UsageError("give RANKINGS and LABELS, or --stage NAME=TABLE of each stage")
        return sources(tables, labels)
    table_by_stage = pairs(stages, "--stage")
    if len(table_by_stage) < len(stages):
        raise SpecError("--stage: each stage needs its own name")
    if len(tables) + (labels is not None) != 1:
        raise click.UsageError("with --stage NAME=TABLE give only LABELS")
    return table_by_stage, labels or tables[0]
