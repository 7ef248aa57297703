"""`sqlmetrics agree`: how far judges agree on the labels of the same pairs."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.agreement.panel import depth_option, labels_of, panel_options
from sqlmetrics.cli.common import error_options, several
from sqlmetrics.cli.evaluation_options import check_option, given_options, judged_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import STATISTICS, Command, option
from sqlmetrics.cli.options.parameters import (
    by_option,
    confidence_option,
    seed_option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import FORMATS, answer, spec_of
from sqlmetrics.errors import SpecError, shortened


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
@given_options
def agree(
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
    from sqlmetrics.agreement.agree import agree as measure_agreement

    form = format_of(output, out, FORMATS, ("judge", "other_judge", "coefficient"))
    if scale:
        arguments["scale"] = _scale(scale)
    labels = labels_of(tables)
    with location.reading(spec_of(labels)) as engine:
        agreement = measure_agreement(labels, connection=engine, **arguments)
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
