"""`sqlmetrics sheet`, `sheet-import`, `sample` and `estimate`: labels that people give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import error_options, overwrites, progress_bar, say, several_names
from sqlmetrics.cli.evaluation_options import (
    check_option,
    column_option,
    metrics_option,
    table_options,
    with_arguments,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    COLUMNS,
    COMMON,
    INPUT,
    OUTPUT,
    Command,
    confidence_option,
    items_option,
    labels_option,
    option,
    queries_option,
    seed_option,
    sql_option,
)
from sqlmetrics.cli.output import emit_table, format_of, out_option, output_options, write
from sqlmetrics.cli.systems import sources, spec_of
from sqlmetrics.errors import SpecError
from sqlmetrics.tables.table import many

if TYPE_CHECKING:
    from sqlmetrics.annotation.pool import Queue
    from sqlmetrics.annotation.sample import Sample
    from sqlmetrics.annotation.sheet import Sheet
    from sqlmetrics.engines.database import Database
    from sqlmetrics.spec.spec import Spec


# `sqlmetrics sheet` and `sheet-import`: items to people, their grades into the labels.

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
@with_arguments
def sheet_command(
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
    from sqlmetrics.annotation.pool import Queue
    from sqlmetrics.annotation.question import spec_of_sample
    from sqlmetrics.annotation.sample import Sample
    from sqlmetrics.annotation.sheet import Assessors, sheet_of_sample, unjudged_sheet

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
        sheet_spec, missing = spec_of_sample(rankings, labels, engine, arguments)
        if sample is not None:
            drawn_sample = Sample.read(sample)
            _check_of_sample(drawn_sample, k, queue, labelled_queries=labelled_queries)
            labelling_sheet = sheet_of_sample(sheet_spec, engine, depth, drawn_sample)
        else:
            labelling_sheet = unjudged_sheet(
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
    from sqlmetrics.annotation.sheet import sheet_by_assessor
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
def sheet_import_command(
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
    from sqlmetrics.annotation.graded_sheet import add

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


# `sqlmetrics sample` and `estimate`: a check-up of all queries on a few of them.

PAIRS = "Pairs"
UNITS = {"query": "queries", "pair": "pairs"}
SHARES = ("queries", "traffic")
UNGRADED = ("error", "drop")
FORMATS = ("table", "json", "csv")


@click.command(cls=Command)
@click.argument("tables", type=INPUT, nargs=-1, required=True, metavar="RANKINGS... LABELS | SPEC")
@labels_option
@queries_option
@option("--size", type=int, metavar="N", help="Number of queries or pairs to draw.")
@option(
    "--unit",
    type=click.Choice([*UNITS]),
    default="query",
    show_default=True,
    help="What to draw: queries, whose items are all graded, or pairs of a query and an item.",
)
@option(
    "-k",
    "k",
    type=int,
    help="With --unit pair: number of top ranks to draw items from.  [default: 10]",
    heading=PAIRS,
)
@option(
    "--rate",
    "rates",
    multiple=True,
    metavar="RANK=SHARE",
    help="With --unit pair, instead of --size: share of the pairs to draw down to a rank. May be "
    "repeated.",
    heading=PAIRS,
)
@option(
    "--by", multiple=True, metavar="COLUMN", help="Segment column to stratify by. May be repeated."
)
@option("--traffic", is_flag=True, help="Stratify by head, torso and tail of the traffic.")
@option(
    "--share",
    type=click.Choice(SHARES),
    default="queries",
    show_default=True,
    help="Size of a stratum in the sample: proportional to its queries or its traffic.",
)
@seed_option(COMMON)
@place_options
@out_option
@sql_option
@table_options
@error_options
@with_arguments
def sample_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    size: int | None,
    unit: str,
    k: int | None,
    rates: tuple[str, ...],
    by: tuple[str, ...],
    traffic: bool,
    share: str,
    seed: int,
    location: Location,
    out: str | None,
    sql: bool,
    arguments: dict[str, Any],
) -> None:
    """Draw a stratified random sample of the queries of SPEC or of RANKINGS.

    With --unit pair, draw pairs of a query and an item in the top k of a list: many queries with
    few labels each. The same seed draws the same on every engine. --share decides how the sample
    is divided among the strata; each stratum gets at least two queries or pairs.

    \b
    sqlmetrics sample search.yml --size 300 --by country --out sample.csv
    sqlmetrics sample run.parquet labels.parquet --size 300 --out sample.csv
    sqlmetrics sample search.yml --unit pair -k 10 --size 200 --out pairs.csv
    sqlmetrics sample *.trec --unit pair --rate 10=1 --rate 100=0.1 --out p.csv
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.annotation.question import spec_of_sample
    from sqlmetrics.annotation.sample import draw

    format_of(None, out, ("csv",), () if sql else ("query_id",))
    if k is not None and unit != "pair":
        raise SpecError("-k is of pairs; add --unit pair, or leave it out")
    depth = None if unit != "pair" else 10 if k is None else k
    share_by_rank = dict(_rate(text) for text in rates)
    _check_size(size, share_by_rank, unit, k, share)
    del arguments["check"]
    rankings, labels = sources(tables, labels, needs_labels=False)
    segments = {"by": by} if by and spec_of(rankings) is None else {}
    with location.reading(spec_of(rankings)) as engine, progress_bar("drawing a sample"):
        spec_sampled, _ = spec_of_sample(rankings, labels, engine, {**arguments, **segments})
        query_sample = draw(
            spec_sampled,
            engine,
            size,
            by=by,
            traffic=traffic,
            seed=seed,
            share=share,
            k=depth,
            rates=share_by_rank,
        )
    designs = set(query_sample.of((*query_sample.strata_names, "stratum_size")))
    population = sum(design[-1] for design in designs)
    say(
        f"{len(query_sample.rows):,} of {many(population, unit, UNITS[unit])}, "
        f"{many(len(designs), 'stratum', 'strata')}, seed {seed}"
    )
    write(query_sample.executed_sql if sql else str(query_sample), out)


def _rate(text: str) -> tuple[int, float]:
    """The last rank and the share of a text like 100=0.2."""
    rank, _, share = text.partition("=")
    try:
        return int(rank), float(share)
    except ValueError:
        raise SpecError(f"--rate takes RANK=SHARE like 100=0.2, given {text!r}") from None


def _check_size(
    size: int | None, rates: Mapping[int, float], unit: str, k: int | None, share: str
) -> None:
    """Raise SpecError unless it is clear how much is drawn."""
    if not rates:
        if size is None:
            raise SpecError("how many? give --size N; of pairs, --rate RANK=SHARE does, too")
        return
    if unit != "pair":
        raise SpecError("--rate is of pairs; add --unit pair, or leave it out")
    options = {
        "--size": size is not None,
        "-k": k is not None,
        "--share": share != SHARES[0],
    }
    if needless := [name for name, is_given in options.items() if is_given]:
        raise SpecError(
            f"{' and '.join(needless)}: --rate says how much is drawn, and down to which rank; "
            "leave one of them out"
        )


@click.command(cls=Command)
@click.argument("spec", type=INPUT)
@click.argument("sample", type=INPUT)
@option(
    "--labels",
    type=INPUT,
    metavar="FILE",
    help="File with the grades of the sample.  [default: the labels of SPEC]",
)
@metrics_option("Metric such as dcg@10.  [default: the metrics of SPEC]")
@option(
    "--llm-labels",
    type=INPUT,
    metavar="FILE",
    help="File of a language model's labels.",
    heading="Labels of a language model",
)
@option(
    "--llm-grade",
    metavar="COLUMN",
    help="Column of the model's grades, in --llm-labels or --labels.",
    heading="Labels of a language model",
)
@option(
    "--llm-sample",
    type=INPUT,
    metavar="FILE",
    help="File of the queries that the model labelled.  [default: all]",
    heading="Labels of a language model",
)
@option(
    "--llm-weight",
    type=float,
    metavar="X",
    help="Weight of the model's labels (lambda).  [default: the best]",
    heading="Labels of a language model",
)
@option(
    "--by", multiple=True, metavar="COLUMN", help="Stratum column to segment by. May be repeated."
)
@confidence_option("level", heading=COMMON)
@option(
    "--width",
    type=float,
    metavar="W",
    help="Wanted width of the intervals, from low to high: print how many more to grade.",
)
@option(
    "--ungraded",
    type=click.Choice(UNGRADED),
    default="error",
    show_default=True,
    help="Treatment of a sampled query without a grade: error, or drop the query.",
)
@option(
    "--complete-labels",
    is_flag=True,
    help="Assume that the sampled queries have all their labels; allows ndcg, recall and the like.",
)
@place_options
@output_options(FORMATS)
@error_options
def estimate_command(
    *,
    spec: str,
    sample: str,
    labels: str | None,
    metrics: tuple[str, ...],
    llm_labels: str | None,
    llm_grade: str | None,
    llm_sample: str | None,
    llm_weight: float | None,
    by: tuple[str, ...],
    level: float,
    width: float | None,
    ungraded: str,
    complete_labels: bool,
    location: Location,
    output: str | None,
    out: str | None,
) -> None:
    """Estimate the metrics of SPEC over all queries from a graded SAMPLE.

    Labels of a language model (--llm-labels) make the intervals narrower; the intervals stay valid
    however bad the model is (prediction-powered inference).

    \b
    sqlmetrics estimate search.yml sample.csv --labels checkup.csv -m dcg@10
    sqlmetrics estimate search.yml sample.csv --llm-labels llm.csv -m dcg@10
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.annotation.estimate import ESTIMATE_COLUMNS, estimate
    from sqlmetrics.annotation.pair_frames import LlmLabels
    from sqlmetrics.annotation.sample import Sample
    from sqlmetrics.spec.spec import Spec

    form = format_of(output, out, FORMATS, ESTIMATE_COLUMNS[:3])
    spec_estimated, query_sample = Spec.read(spec), Sample.read(sample)
    spec_estimated = (
        spec_estimated.having(metrics=spec_estimated.in_our_words(metrics))
        if metrics
        else spec_estimated
    )
    judged = Sample.read(llm_sample) if llm_sample else None
    if not (llm_labels or llm_grade) and (llm_sample or llm_weight is not None):
        raise SpecError(
            "the labels of a model are needed; name them with --llm-labels FILE, or "
            "--llm-grade COLUMN"
        )
    with location.reading(spec_estimated) as engine, progress_bar("estimating"):
        spec_estimated = _with_labels(spec_estimated, labels, engine)
        llm = None
        if llm_labels or llm_grade:
            llm_spec = _with_labels(spec_estimated, llm_labels, engine, llm_grade)
            llm = LlmLabels(llm_spec, judged, llm_weight)
        if llm_grade and not llm_labels:
            spec_estimated = _graded_alone(spec_estimated)
        estimates = estimate(
            spec_estimated,
            engine,
            query_sample,
            by=by,
            level=level,
            ungraded=ungraded,
            complete=complete_labels,
            llm=llm,
            width=width,
        )
    for note in estimates.notes:
        say(f"note: {note}")
    emit_table(estimates, form, out)


def _with_labels(
    spec: Spec, labels: str | None, engine: Database, grade: str | None = None
) -> Spec:
    """The spec with other labels: its names for their columns, else those of sheet-import.

    Args:
        spec: The evaluation.
        labels: The other labels; None for its own.
        engine: Where they are.
        grade: The column of their grades; rows without one are left out.
    """
    if labels is None:
        return spec if grade is None else _graded_alone(_with_grade(spec, grade))
    from sqlmetrics.evaluation.inputs.sources import relation_in, source_of
    from sqlmetrics.spec.source import LabelColumns, Labels
    from sqlmetrics.sql.relation import source_text

    label_table = Labels(**source_of(labels, "labels", engine.find))
    existing_columns = {
        name.casefold()
        for name in engine.columns(source_text(relation_in(label_table, "labels", engine)))
    }
    own_columns, usual = spec.truth.columns.model_dump(), LabelColumns().model_dump()
    column_by_role = {
        role: name if name and name.casefold() in existing_columns else usual[role]
        for role, name in own_columns.items()
    }
    changed = {"columns": LabelColumns(**column_by_role), "grades": spec.truth.grades}
    relabelled = spec.having(labels=label_table.model_copy(update=changed))
    return relabelled if grade is None else _with_grade(relabelled, grade)


def _with_grade(spec: Spec, column: str) -> Spec:
    """The spec with another column of its labels as the grade."""
    columns = spec.truth.columns.model_copy(update={"grade": column})
    return spec.having(labels=spec.truth.model_copy(update={"columns": columns}))


def _graded_alone(spec: Spec) -> Spec:
    """The spec with those rows of its labels that have a grade: two columns need not have both."""
    from sqlmetrics.sql.template import identifier

    labels = spec.truth
    has = f"{identifier(labels.columns.grade)} is not null"
    where = f"({labels.where}) and {has}" if labels.where else has
    return spec.having(labels=labels.model_copy(update={"where": where}))
