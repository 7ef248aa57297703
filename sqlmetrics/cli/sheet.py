"""`sqlmetrics sheet` and `sheet-import`: items to people, their grades into the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import format_of, out_option, write

if TYPE_CHECKING:
    from sqlmetrics.annotation.sheet import Sheet

CONFLICTS = ("error", "keep")


@click.command()
@click.argument("spec", type=click.Path())
@click.option(
    "-k", "k", type=int, default=10, show_default=True, help="How deep each list is looked at."
)
@click.option("--limit", type=int, metavar="N", help="The N most valuable rows.")
@click.option("--labelled-queries", is_flag=True, help="Only queries that have a label.")
@click.option("--sample", metavar="FILE", help="All items of a sample's queries instead.")
@place_options
@out_option
@click.option("--excel", is_flag=True, help="Write a byte order mark, so that Excel reads UTF-8.")
@click.option("--sql", is_flag=True, help="Print the query instead of the rows.")
@click.option(
    "--skip-input-checks",
    "check",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Do not look for bad input first.",
)
@error_options
def sheet(
    *,
    spec: str,
    k: int,
    limit: int | None,
    sample: str | None,
    location: Location,
    out: str | None,
    excel: bool,
    sql: bool,
    **named: bool,
) -> None:
    """Print a labelling sheet of SPEC: items without a label in the top k of any list.

    The most valuable come first: value is what DCG summed over all lists would gain per
    unit of gain. People fill in the column grade; sheet-import adds it to the labels.

    \b
    sqlmetrics sheet search.yml -k 10 --limit 500 --out sheet.csv
    sqlmetrics sheet search.yml -k 10 --sample sample.csv --out sheet.csv
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.annotation import sheet as sheets
    from sqlmetrics.annotation.csv_file import MARK
    from sqlmetrics.annotation.sample import Sample
    from sqlmetrics.spec.spec import Spec

    format_of(None, out, ("csv",))
    asked = Spec.read(spec)
    with location.reading(asked) as engine:
        if sample is not None:
            made = sheets.of_sample(asked, engine, k, Sample.read(sample))
        else:
            made = sheets.unjudged(asked, engine, k, limit=limit, **named)
    _say(made)
    text = f"{made.sql}\n" if sql else (MARK if excel else "") + str(made)
    write(text, out)


@click.command("sheet-import")
@click.argument("sheet", type=click.Path())
@click.option("--labels", required=True, metavar="FILE", help="The labels, .csv or .parquet.")
@click.option("--new", is_flag=True, help="Make the file of labels; it must not be there.")
@click.option("--conflicts", type=click.Choice(CONFLICTS), default="error", show_default=True)
@click.option("--query", default="query_id", show_default=True, metavar="COLUMN")
@click.option("--item", default="item_id", show_default=True, metavar="COLUMN")
@click.option("--grade", default="grade", show_default=True, metavar="COLUMN")
@click.option("--date", metavar="COLUMN", help="The labels' column of days, if they have one.")
@error_options
def sheet_import(
    *, sheet: str, labels: str, new: bool, conflicts: str, date: str | None, **columns: str
) -> None:
    """Add the grades of SHEET to a file of labels: all of them or none.

    Rows without a grade are not graded yet and are left out. Nothing is ever removed
    from the labels.

    \b
    sqlmetrics sheet-import sheet.csv --labels labels.parquet
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.annotation.import_grades import add

    named = columns | ({"date": date} if date else {})
    done = add(sheet, labels, named, conflicts=conflicts, new=new)
    kept = f", {done.n_kept:,} kept as they were" if done.n_kept else ""
    click.echo(
        f"{labels}: {done.n_before:,} labels before, {done.n_added:,} added, "
        f"{done.n_known:,} known already{kept}, {done.n_ungraded:,} not graded yet; "
        f"{done.n_before + done.n_added:,} labels now"
    )


def _say(made: Sheet) -> None:
    """Counts and warnings, on stderr."""
    say(f"{len(made.rows):,} rows to grade")
    if made.n_formulas:
        say(
            f"warning: {made.n_formulas:,} rows have an id that begins with =, +, -, @, a tab "
            "or a line break; a spreadsheet would run it: open the id columns as text"
        )
