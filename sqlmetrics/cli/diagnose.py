"""`sqlmetrics diagnose`: why a metric is what it is, or why it moved."""

from __future__ import annotations

import json
from typing import Any

import click

from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.compare import sources, system_options
from sqlmetrics.cli.evaluation_options import options_given, table_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import format_of, output_options, write


@click.command()
@system_options
@click.option(
    "--margin", default=0.01, show_default=True, help="What lies within it has not moved."
)
@table_options
@place_options
@output_options(("table", "json"))
@error_options
def diagnose(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    conventions: tuple[str, ...],
    grades: tuple[str, ...],
    label_columns: tuple[str, ...],
    location: Location,
    skip_input_checks: bool,
    output: str | None,
    out: str | None,
    **named: Any,
) -> None:
    """Look for known patterns: recall up and NDCG flat, good recall and poor order, few labels.

    Each is printed with the numbers that fired it and what to look at next. One system is
    looked at by itself, several beside a baseline.

    \b
    sqlmetrics diagnose runs.parquet labels.parquet --baseline prod
    sqlmetrics diagnose old.run new.run qrels.txt
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.diagnosis.diagnosis import diagnose as diagnosed

    form = format_of(output, out, ("table", "json"))
    rankings, labels = sources(tables, labels)
    with location.reading(rankings if labels is None else None) as engine:
        found = diagnosed(
            rankings,
            labels,
            connection=engine,
            check=not skip_input_checks,
            **options_given(named, label_columns, grades, conventions),
        )
    rows = json.dumps(found.to_dicts(), indent=2) if form == "json" else repr(found)
    write(rows + "\n", out)
