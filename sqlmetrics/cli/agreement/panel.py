"""What commands are told of judges: whose labels, and the rankings that they are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from sqlmetrics.cli.common import several_names
from sqlmetrics.cli.evaluation_options import metrics_option
from sqlmetrics.cli.options.command import decorate, option
from sqlmetrics.cli.options.parameters import INPUT
from sqlmetrics.evaluation.inputs.formats import SPECS
from sqlmetrics.evaluation.inputs.run_names import table_or_runs


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
