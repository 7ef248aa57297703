"""`sqlmetrics funnel`: at which stage of a ranking the relevant items are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import error_options, say, several
from sqlmetrics.cli.compare import FORMATS, sources
from sqlmetrics.cli.evaluation_options import (
    convention_option,
    metrics_option,
    options_given,
    pairs,
    preset_option,
    table_options,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import emit, format_of, output_options
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.funnels.funnel_table import Funnel


@click.command()
@click.argument("tables", nargs=-1, metavar="RANKINGS... LABELS | SPEC")
@click.option("--labels", metavar="TABLE", help="The labels; all others are rankings then.")
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="NAME=TABLE",
    help="A stage and its rankings, in order; before LABELS alone.",
)
@click.option(
    "--stage-column",
    "stage",
    metavar="COLUMN",
    help="What names a row's stage, of one table.  [default: stage]",
)
@click.option(
    "--order",
    multiple=True,
    callback=several,
    metavar="A,B",
    help="The stages, first to last.  [default: as given, or the largest lists first]",
)
@click.option(
    "--sources",
    metavar="COLUMN",
    help="Of one table: what each source of this column of lists finds, instead of stages.",
)
@metrics_option("After each stage; several behind commas.  [default: ndcg@10; of a spec its own]")
@click.option("--rel", default=1.0, show_default=True, help="The lowest grade that is relevant.")
@click.option("--by", multiple=True, metavar="COLUMN", help="Look at each segment too.")
@click.option("--start", metavar="DATE", help="The first day.")
@click.option("--end", metavar="DATE", help="The day after the last one.")
@preset_option()
@convention_option()
@click.option("--queries", metavar="TABLE", help="What is known of queries: segments, weights.")
@click.option("--items", metavar="TABLE", help="What is known of items: category, popularity.")
@click.option("--skip-input-checks", is_flag=True, help="Do not look for bad input first.")
@click.option("--sql", is_flag=True, help="Print the SQL that ran, instead.")
@table_options
@place_options
@output_options(FORMATS)
@error_options
def funnel(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    stages: tuple[str, ...],
    metrics: tuple[str, ...],
    conventions: tuple[str, ...],
    grades: tuple[str, ...],
    label_columns: tuple[str, ...],
    location: Location,
    sql: bool,
    skip_input_checks: bool,
    output: str | None,
    out: str | None,
    **named: Any,
) -> None:
    """Say where a ranking of several stages loses relevant items: recall, pre-rank, rank, page.

    The stages are those of a table's column stage, a table each, or those of a spec's table.

    \b
    sqlmetrics funnel lists.parquet labels.parquet --order recall,rank,page
    sqlmetrics funnel --stage recall=all.csv --stage page=page.csv labels.csv
    sqlmetrics funnel search.yml --stage-column step
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.funnels.funnel import funnel as found_by

    form = format_of(output, out, FORMATS)
    given = options_given(named, label_columns, grades, conventions)
    rankings, labels = _sources(tables, labels, stages)
    with location.reading(rankings if labels is None else None) as engine:
        found = found_by(
            rankings,
            labels,
            metrics,
            connection=engine,
            check=not skip_input_checks,
            **given,
        )
    if sql:
        click.echo(found.sql, nl=False)
        return
    texts = _texts(found)
    for note in found.notes if form not in texts else ():
        say(f"note: {note}")
    emit(found.to_arrow, texts, form, out)


def _sources(
    tables: tuple[str, ...], labels: str | None, stages: tuple[str, ...]
) -> tuple[Any, str | None]:
    """The rankings, and the labels; a spec, and None."""
    if not stages:
        if not tables:
            raise click.UsageError("give RANKINGS and LABELS, or --stage NAME=TABLE of each stage")
        return sources(tables, labels)
    named = pairs(stages, "--stage")
    if len(named) < len(stages):
        raise SpecError("--stage: each stage has a name of its own")
    if len(tables) + (labels is not None) != 1:
        raise click.UsageError("give LABELS alone beside --stage NAME=TABLE")
    return named, labels or tables[0]


def _texts(found: Funnel) -> dict[str, Any]:
    return {
        "table": lambda: repr(found),
        "markdown": found.markdown,
        "html": found._repr_html_,
        "latex": found.latex,
    }
