"""`sqlmetrics diagnose`: why a metric is what it is, or why it moved."""

from __future__ import annotations

import json
from typing import Any

import click

from sqlmetrics.cli.common import error_options, several
from sqlmetrics.cli.compare import options_given, sources, spec_of
from sqlmetrics.cli.evaluate import table_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import format_of, output_options, write


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="RANKINGS... LABELS | SPEC")
@click.option("--labels", metavar="TABLE", help="The labels; all that stands before are systems.")
@click.option(
    "--systems", multiple=True, callback=several, metavar="A,B", help="Only these systems."
)
@click.option(
    "--baseline",
    metavar="SYSTEM",
    help="What the others are compared with.  [default: the first]",
)
@click.option(
    "--margin", default=0.01, show_default=True, help="What lies within it has not moved."
)
@click.option("--level", default=0.95, show_default=True, help="Of the intervals.")
@click.option("--start", metavar="DATE", help="The first day.")
@click.option("--end", metavar="DATE", help="The day after the last one.")
@click.option("--preset", metavar="NAME", help="A named set of conventions: list presets.")
@click.option(
    "-c",
    "--convention",
    "conventions",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Overrides the preset: list options.",
)
@click.option("--queries", metavar="TABLE", help="What is known of queries: segments, weights.")
@table_options
@place_options
@click.option("--skip-input-checks", is_flag=True, help="Do not look for bad input first.")
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
    from sqlmetrics.comparison.diagnosis import diagnose as diagnosed

    form = format_of(output, out, ("table", "json"))
    rankings, labels = sources(tables, labels)
    spec = spec_of(rankings) if labels is None else None
    with location.reading(spec) as engine:
        found = diagnosed(
            spec or rankings,
            labels,
            connection=engine,
            check=not skip_input_checks,
            **options_given(named, label_columns, grades, conventions),
        )
    rows = json.dumps(found.to_dicts(), indent=2) if form == "json" else repr(found)
    write(rows + "\n", out)
