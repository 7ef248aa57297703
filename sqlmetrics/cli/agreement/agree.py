"""`sqlmetrics agree`: how far judges agree on the labels of the same pairs."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import error_options, several, several_names
from sqlmetrics.cli.evaluation_options import (
    check_option,
    given_options,
    judged_options,
    metrics_option,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import STATISTICS, Command, option
from sqlmetrics.cli.options.parameters import (
    INPUT,
    by_option,
    confidence_option,
    seed_option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import FORMATS, answer
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.evaluation.inputs.formats import SPECS
from sqlmetrics.evaluation.inputs.run_names import table_or_runs


@click.command(cls=Command)
@click.argument("tables", type=INPUT, nargs=-1, required=True, metavar="LABELS... | SPEC")
@option(
    "--judges",
    multiple=True,
    callback=several_names,
    metavar="A,B",
    help="Grade columns, one per judge; or judges of --judge. The first is the reference.",
)
@option(
    "--judge",
    metavar="COLUMN",
    help="Column that names the judge of a row.  [default: judge, rater, annotator or assessor]",
)
@option(
    "--rankings",
    "runs",
    multiple=True,
    type=INPUT,
    metavar="TABLE",
    help="Rankings: show agreement by rank, and bias by system. May be repeated.",
)
@metrics_option("Metric of the systems by the labels of each judge; needs --rankings.")
@option(
    "-k",
    "k",
    type=int,
    default=10,
    show_default=True,
    help="Number of top ranks of the rankings to look at.",
)
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
@given_options
def agree(
    *,
    tables: tuple[str, ...],
    runs: tuple[str, ...],
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
    from sqlmetrics.agreement.agree import agree as measure_agreement

    form = format_of(output, out, FORMATS, ("judge", "other_judge", "coefficient"))
    if scale:
        arguments["scale"] = _scale(scale)
    if runs:
        arguments["rankings"] = table_or_runs(runs)
    labels = _labels(tables)
    with location.reading(None if isinstance(labels, str | list | dict) else labels) as engine:
        agreement = measure_agreement(labels, connection=engine, **arguments)
    answer(agreement, form, out, sql=sql)


def _labels(tables: tuple[str, ...]) -> Any:
    """The labels: a spec, one table, or one per judge."""
    if len(tables) == 1 and tables[0].endswith(SPECS):
        from sqlmetrics.spec.spec import Spec

        return Spec.read(tables[0])
    return table_or_runs(tables)


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
