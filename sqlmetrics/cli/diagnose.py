"""`sqlmetrics diagnose`: why a metric is what it is, or why it moved."""

from __future__ import annotations

import json
from typing import Any

import click

from sqlmetrics.cli.common import error_options, several
from sqlmetrics.cli.evaluation_options import given_options, table_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option
from sqlmetrics.cli.options.parameters import by_option, margin_option
from sqlmetrics.cli.output import format_of, output_options, write
from sqlmetrics.cli.systems import found_by, sources, system_options
from sqlmetrics.engines.output_files import has_columns

FIRST = ("system", "baseline")
"""The first columns of findings; there may be no finding."""


@click.command(cls=Command)
@system_options
@margin_option(0.01)
@by_option
@option(
    "--dates",
    multiple=True,
    callback=several,
    metavar="DAY,DAY",
    help="Days or periods of one system, such as 2026-11-01..2026-11-07; the first is the "
    "baseline.",
)
@table_options
@place_options
@output_options(("table", "json"))
@error_options
@given_options
def diagnose(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    location: Location,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Look for known patterns among metrics, such as recall up and NDCG flat.

    Each pattern is printed with the numbers that show it and what to check next. One system is
    diagnosed by itself, several against a baseline.

    \b
    sqlmetrics diagnose runs.parquet labels.parquet --baseline prod
    sqlmetrics diagnose old.run new.run qrels.txt
    sqlmetrics diagnose search.yml --dates 2026-11-01,2026-11-08 --systems prod
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.diagnosis.diagnosis import diagnose as diagnosed

    form = format_of(output, out, ("table", "json"), FIRST)
    rankings, labels = sources(tables, labels)
    diagnosis = found_by(diagnosed, rankings, labels, location, arguments)
    rows = json.dumps(diagnosis.to_dicts(), indent=2) if form == "json" else repr(diagnosis)
    write(rows + "\n", out, has_columns(form, *FIRST) if form == "json" else None)
