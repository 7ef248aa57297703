"""`sqlmetrics agree` and `combine`: labels of several people and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.agreement import METHODS
from sqlmetrics.cli.common import error_options, several, several_names
from sqlmetrics.cli.evaluation_options import (
    check_option,
    judged_options,
    metrics_option,
    with_arguments,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    INPUT,
    STATISTICS,
    Command,
    by_option,
    confidence_option,
    decorate,
    option,
    seed_option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import FORMATS, answer, into_options, is_written, spec_of, write_into
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.evaluation.inputs.formats import SPECS
from sqlmetrics.evaluation.inputs.run_names import table_or_runs

if TYPE_CHECKING:
    from sqlmetrics.agreement.combine import Combination


# What commands are told of judges: whose labels, and the rankings that they are of.


def _rankings(_: click.Context, __: click.Parameter, tables: tuple[str, ...]) -> Any:
    return table_or_runs(tables) if tables else None


_PANEL = (
    click.argument("tables", type=INPUT, nargs=-1, required=True, metavar="LABELS... | SPEC"),
    option(
        "--judges",
        multiple=True,
        callback=several_names,
        metavar="A,B",
        help="Grade columns, one per judge; or judges of --judge. The first is the reference.",
    ),
    option(
        "--judge",
        metavar="COLUMN",
        help="Column that names the judge of a row.  [default: judge, rater, annotator or "
        "assessor]",
    ),
    option(
        "--rankings",
        multiple=True,
        type=INPUT,
        callback=_rankings,
        metavar="TABLE",
        help="Rankings: show what the labels do to systems. May be repeated.",
    ),
    metrics_option("Metric of the systems by the labels of each judge; needs --rankings."),
)


def depth_option(use: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The last rank of the rankings that counts, and what it is used for."""
    return option(
        "-k",
        "k",
        type=int,
        help=f"Number of top ranks of the rankings {use}.  [default: 10]",
    )


def panel_options(command: Callable[..., None]) -> Callable[..., None]:
    """Labels, judges, and rankings with their metrics."""
    return decorate(command, *_PANEL)


def labels_of(tables: tuple[str, ...]) -> Any:
    """The labels: a spec, one table, or one per judge."""
    if len(tables) == 1 and tables[0].endswith(SPECS):
        from sqlmetrics.spec.spec import Spec

        return Spec.read(tables[0])
    return table_or_runs(tables)


# `sqlmetrics agree`: how far judges agree on the labels of the same pairs.


@click.command(cls=Command)
@panel_options
@depth_option("to look at")
@option(
    "--scale",
    multiple=True,
    callback=several,
    metavar="0,1,2,3",
    help="Grades of the scale.  [default: those that were given]",
)
@by_option
@confidence_option("level")
@option(
    "--replicates",
    type=int,
    default=1000,
    show_default=True,
    help="Number of bootstrap replicates.",
    heading=STATISTICS,
)
@seed_option()
@check_option
@sql_option
@judged_options
@place_options
@output_options(FORMATS)
@error_options
@with_arguments
def agree_command(
    *,
    tables: tuple[str, ...],
    scale: tuple[str, ...],
    location: Location,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Measure how far judges agree: people, or language models beside people.

    LABELS is one table with a grade column per judge, or with a row per judge; or one table per
    judge, named by its file or by NAME=FILE. Prints raw agreement, Cohen's and Fleiss' kappa,
    Krippendorff's alpha and Gwet's AC1 and AC2 with intervals over queries, the confusion of the
    grades, and where the judges disagree. With --rankings, also whether a judge favours a system;
    with -m, which verdicts of compare would turn.

    \b
    sqlmetrics agree labels.csv --judges human,gpt
    sqlmetrics agree labels.parquet --judge rater --by country
    sqlmetrics agree human.qrels gpt.qrels --rankings runs.parquet --system model
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.agreement.agree import agree

    form = format_of(output, out, FORMATS, ("judge", "other_judge", "coefficient"))
    if scale:
        arguments["scale"] = _scale(scale)
    labels = labels_of(tables)
    with location.reading(spec_of(labels)) as engine:
        agreement = agree(labels, connection=engine, **arguments)
    answer(agreement, form, out, sql=sql)


def _scale(texts: tuple[str, ...]) -> list[float]:
    """The grades of the scale.

    Raises:
        SpecError: If one is no number.
    """
    try:
        return [float(text) for text in texts]
    except ValueError:
        given_scale = shortened(",".join(texts))
        raise SpecError(f"--scale takes numbers like 0,1,2,3, given {given_scale}") from None


# `sqlmetrics combine`: one label of several judges'.

LABEL_FORMATS = (*FORMATS, "qrels")


@click.command(cls=Command)
@panel_options
@option(
    "--method",
    type=click.Choice(METHODS),
    multiple=True,
    metavar="NAME",
    help=f"How labels become one: {', '.join(METHODS)}. May be repeated, to see what each would "
    "change.  [default: majority]",
)
@option(
    "--per",
    type=click.Choice(["system"]),
    help="With --method calibrated: learn what a grade is worth apart for each group of systems "
    "that show the pair. Needs --rankings.",
)
@depth_option("that --per looks at")
@confidence_option("level")
@option(
    "--max-rounds",
    type=int,
    help="Number of rounds of dawid_skene after which it stops.  [default: 500]",
)
@into_options("labels")
@check_option
@sql_option
@judged_options
@place_options
@output_options(LABEL_FORMATS)
@error_options
@with_arguments
def combine_command(
    *,
    tables: tuple[str, ...],
    location: Location,
    into: str | None,
    dry_run: bool,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Make one label of several judges': a majority, a mean, or what the likeliest truth is.

    LABELS are those of agree: one table with a grade column per judge, or with a row per judge; or
    one table per judge. Prints what changes: for each judge how many of its labels, and with
    --rankings and -m the values and the order of systems. With --out or --into, writes the labels:
    query_id, item_id, grade; --out FILE.qrels writes them as TREC does.

    \b
    sqlmetrics combine labels.csv --judges ann,bob,gpt --out majority.csv
    sqlmetrics combine labels.csv --judge rater --method dawid_skene --out one.csv
    sqlmetrics combine labels.csv --judges human,gpt --method calibrated \\
        --per system --rankings runs.csv --system model --out calibrated.csv
    sqlmetrics combine grades --judge rater --db shop.duckdb --into one_label
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.agreement.combine import combine

    form = format_of(output, out, LABEL_FORMATS, ("metric_date", "query_id", "item_id"))
    elsewhere = {"--sql": sql, "-o": output, "--out": out}
    labels = labels_of(tables)
    if is_written(into, dry_run=dry_run, elsewhere=elsewhere):
        write_into(combine, labels, location, {**arguments, "into": into}, dry_run=dry_run)
        return
    with location.reading(spec_of(labels)) as engine:
        combination = combine(labels, connection=engine, **arguments)
    answer(combination, form, out, sql=sql, texts={"qrels": lambda: _qrels(combination, out)})


def _qrels(combination: Combination, out: str | None) -> str:
    from sqlmetrics.annotation.graded_sheet import qrels

    rows = combination.table.to_pylist()
    keys = [
        name
        for name in ("query_id", "item_id", "metric_date")
        if name in combination.table.column_names
    ]
    grades = {tuple(str(row[key]) for key in keys): row["grade"] for row in rows}
    return qrels(grades, out or "stdout").removesuffix("\n")
