"""`sqlmetrics sheet` and `sheet-import`: items to people, their grades into the labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import error_options, overwrites, say, several_names
from sqlmetrics.cli.evaluation_options import (
    check_option,
    column_option,
    given_options,
    table_options,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import COLUMNS, OUTPUT, Command, option
from sqlmetrics.cli.options.parameters import (
    INPUT,
    items_option,
    labels_option,
    queries_option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, out_option, write
from sqlmetrics.cli.systems import sources, spec_of
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.annotation.queue import Queue
    from sqlmetrics.annotation.sample import Sample
    from sqlmetrics.annotation.sheet import Sheet

CONFLICTS = ("error", "keep")
POOL, PEOPLE = "Pool", "Assessors"
ORDERS = ("value", "depth", "move-to-front")


@click.command(cls=Command)
@click.argument("tables", type=INPUT, nargs=-1, required=True, metavar="RANKINGS... LABELS | SPEC")
@labels_option
@queries_option
@items_option
@option(
    "-k",
    "k",
    type=int,
    help="Depth: number of items of each list to consider.  [default: 10, or that of sampled "
    "pairs]",
)
@option("--limit", type=int, metavar="N", help="Number of rows to print, the first ones.")
@option(
    "--per-query",
    type=int,
    metavar="N",
    help="Number of rows to print per query, the first ones.",
    heading=POOL,
)
@option(
    "--order",
    type=click.Choice(ORDERS),
    default=ORDERS[0],
    show_default=True,
    help="What comes first: the most valuable items; the highest ranks; or the items of lists "
    "that have had few items without a relevant label so far.",
    heading=POOL,
)
@option(
    "--share",
    "shares",
    multiple=True,
    metavar="SYSTEM=X",
    help="Go X times as deep into the lists of a system. May be repeated.  [default: 1]",
    heading=POOL,
)
@option(
    "--rel",
    type=float,
    metavar="GRADE",
    help="With --order move-to-front: lowest relevant grade.  [default: 1]",
    heading=POOL,
)
@option("--labelled-queries", is_flag=True, help="Include only queries that have a label.")
@option(
    "--sample",
    type=INPUT,
    metavar="FILE",
    help="File of sampled queries; print all of their items.",
)
@option(
    "--assessors",
    multiple=True,
    callback=several_names,
    metavar="A,B",
    help="People who grade, separated by commas; each query goes to one of them. With --out "
    "FOLDER/, write a file for each.",
    heading=PEOPLE,
)
@option(
    "--overlap",
    type=float,
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Share of the pairs that go to a second assessor, such as 0.1.",
    heading=PEOPLE,
)
@place_options
@out_option
@option(
    "--excel",
    is_flag=True,
    help="Start the file with a byte order mark, so that Excel reads UTF-8.",
    heading=OUTPUT,
)
@sql_option
@check_option
@table_options
@error_options
@given_options
def sheet(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    k: int | None,
    limit: int | None,
    per_query: int | None,
    order: str,
    shares: tuple[str, ...],
    rel: float | None,
    sample: str | None,
    assessors: tuple[str, ...],
    overlap: float,
    location: Location,
    out: str | None,
    excel: bool,
    sql: bool,
    labelled_queries: bool,
    arguments: dict[str, Any],
) -> None:
    """Print a labelling sheet: items without a label in the top k of any list.

    The input is SPEC, or RANKINGS and LABELS as for evaluate; the labels need not exist yet.

    The most valuable items come first: the column value is how much DCG, summed over all lists,
    would grow if the gain of the item were 1. --order depth makes a pool that is fair to all
    systems instead. People fill in the column grade; sheet-import adds the grades to the labels.

    \b
    sqlmetrics sheet search.yml -k 10 --limit 500 --out sheet.csv
    sqlmetrics sheet runs/*.trec -k 100 --order depth --limit 5000 --out sheet.csv
    sqlmetrics sheet runs/*.trec --labels qrels.txt -k 10 --out sheet.csv
    sqlmetrics sheet search.yml -k 10 --sample sample.csv --out sheet.csv
    sqlmetrics sheet runs/*.trec --assessors ann,bob --overlap 0.1 --out sheets/
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.annotation import sheet as sheets
    from sqlmetrics.annotation.assessors import Assessors
    from sqlmetrics.annotation.question import asked_spec
    from sqlmetrics.annotation.queue import Queue
    from sqlmetrics.annotation.sample import Sample

    people = Assessors(assessors, overlap)
    people.check()
    is_folder = bool(out and assessors and (out.endswith(("/", "\\")) or Path(out).is_dir()))
    if not is_folder:
        format_of(None, out, ("csv",), ("query_id", "item_id"))
    check = arguments.pop("check")
    depth = 10 if k is None else k
    queue = Queue(order, limit, per_query, dict(map(_share, shares)), rel)
    rankings, labels = sources(tables, labels, needs_labels=False)
    with location.reading(spec_of(rankings)) as engine:
        sheet_spec, missing = asked_spec(rankings, labels, engine, arguments)
        if sample is not None:
            drawn_sample = Sample.read(sample)
            _check_of_sample(drawn_sample, k, queue, labelled_queries=labelled_queries)
            labelling_sheet = sheets.of_sample(sheet_spec, engine, depth, drawn_sample)
        else:
            labelling_sheet = sheets.unjudged(
                sheet_spec,
                engine,
                depth,
                queue=queue,
                labelled_queries=labelled_queries,
                check=check,
                has_labels=not missing,
            )
            if missing:
                say(f"note: labels: {missing}, so no item is labelled yet")
    if assessors:
        labelling_sheet = people.dealt(labelling_sheet)
    _say(labelling_sheet)
    if sql:
        write(f"{labelling_sheet.executed_sql}\n", None if is_folder else out)
    elif is_folder and out:
        _write_each(labelling_sheet, assessors, out, excel=excel)
    else:
        write(_text(labelling_sheet, excel=excel), out)


def _text(labelling_sheet: Sheet, *, excel: bool) -> str:
    from sqlmetrics.annotation.csv_file import MARK

    return (MARK if excel else "") + str(labelling_sheet)


def _write_each(labelling_sheet: Sheet, assessors: Sequence[str], out: str, *, excel: bool) -> None:
    """Write the sheet of each assessor into a folder."""
    from sqlmetrics.annotation.assessors import sheet_by_assessor
    from sqlmetrics.engines.output_files import output_folder

    with output_folder(out, overwrite=overwrites()) as folder:
        for name, part in sheet_by_assessor(labelling_sheet, assessors).items():
            path = folder / f"{name}.csv"
            path.write_text(_text(part, excel=excel), encoding="utf-8", newline="")


def _share(text: str) -> tuple[str, float]:
    """The system and the number of a text like bm25=2; the system may have an equals sign."""
    system, _, share = text.rpartition("=")
    try:
        return system.strip(), float(share if system.strip() else "")
    except ValueError:
        raise SpecError(f"--share takes SYSTEM=X like bm25=2, given {text!r}") from None


def _check_of_sample(
    sample: Sample, k: int | None, queue: Queue, *, labelled_queries: bool
) -> None:
    """Raise SpecError for an option that would leave out some of the sample's items."""
    options = {
        "--limit": queue.limit is not None,
        "--per-query": queue.per_query is not None,
        f"--order {queue.order}": queue.has_turns,
        "--share": bool(queue.shares),
        "--rel": queue.rel is not None,
        "--labelled-queries": labelled_queries,
    }
    if needless := [name for name, is_given in options.items() if is_given]:
        raise SpecError(
            f"{' and '.join(needless)}: the sheet of a sample has all of its items, which its "
            "estimate needs; leave it out"
        )
    if sample.has_items and k not in (None, sample.depth):
        raise SpecError(
            f"-k {k}: the sample has pairs of the top {sample.depth}; leave out -k, or draw from "
            "other ranks (sample -k)"
        )


@click.command("sheet-import", cls=Command)
@click.argument("sheets", type=INPUT, nargs=-1, required=True, metavar="SHEET...")
@option(
    "--labels",
    required=True,
    type=INPUT,
    metavar="FILE",
    help="File of labels to add to: .csv, .parquet or qrels.",
)
@option("--new", is_flag=True, help="Create the file of labels, which must not exist yet.")
@option(
    "--conflicts",
    type=click.Choice(CONFLICTS),
    default="error",
    show_default=True,
    help="Treatment of a grade that differs from the label: error, or keep the label.",
)
@option(
    "--pooled",
    is_flag=True,
    help="Add rows without a grade as -1: in the pool, not judged (see infap).",
)
@column_option("query", default="query_id")
@column_option("item", default="item_id")
@column_option("grade", default="grade")
@option(
    "--judge",
    metavar="COLUMN",
    default="assessor",
    show_default=True,
    help="Column of the labels for the assessor, of sheets that have one.",
    heading=COLUMNS,
)
@option("--date", metavar="COLUMN", help="Day column of the labels.", heading=COLUMNS)
@error_options
def sheet_import(
    *,
    sheets: tuple[str, ...],
    labels: str,
    new: bool,
    conflicts: str,
    pooled: bool,
    date: str | None,
    **columns: str,
) -> None:
    """Add the grades of one SHEET or several to a file of labels, all or nothing.

    Rows without a grade are skipped. Existing labels are never removed. The grades of assessors
    keep their names if the labels are new or have a column for them.

    \b
    sqlmetrics sheet-import sheet.csv --labels labels.parquet
    sqlmetrics sheet-import sheets/*.csv --labels judged.csv --new
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.annotation.import_grades import add

    column_by_role = columns | ({"date": date} if date else {})
    import_report = add(sheets, labels, column_by_role, conflicts=conflicts, new=new, pooled=pooled)
    marked = f"{import_report.n_pooled:,} pooled without a grade, " if pooled else ""
    unchanged = f", {import_report.n_kept:,} kept as they were" if import_report.n_kept else ""
    click.echo(
        f"{labels}: {import_report.n_before:,} labels before, {import_report.n_added:,} added, "
        f"{import_report.n_known:,} known already{unchanged}, "
        f"{marked}{import_report.n_ungraded:,} not graded yet; "
        f"{import_report.n_before + import_report.n_added + import_report.n_pooled:,} labels now"
    )


def _say(labelling_sheet: Sheet) -> None:
    """Counts and warnings, on stderr."""
    say(f"{len(labelling_sheet.rows):,} rows to grade")
    for note in labelling_sheet.notes:
        say(f"note: {note}")
    if labelling_sheet.n_formulas:
        say(
            f"warning: {labelling_sheet.n_formulas:,} rows have an id that begins with "
            "=, +, -, @, a tab "
            "or a line break; a spreadsheet would run it: open the id columns as text"
        )
