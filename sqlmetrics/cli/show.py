"""`sqlmetrics show`: what a run would compute, to look at."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import error_options, progress_bar, say
from sqlmetrics.cli.evaluation_options import check_option
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import (
    FORMATS,
    emit_clicks,
    emit_result,
    format_of,
    output_options,
)
from sqlmetrics.errors import SpecError


@click.command()
@click.argument("spec", type=click.Path())
@place_options
@click.option("--start", metavar="DATE", help="The first day.")
@click.option("--end", metavar="DATE", help="The day after the last one.")
@click.option("--per-query", is_flag=True, help="One row per query instead of the summary.")
@click.option("--confidence", type=float, metavar="LEVEL", help="Intervals of means, like 0.95.")
@check_option
@output_options(FORMATS)
@error_options
def show(
    *,
    spec: str,
    location: Location,
    start: str | None,
    end: str | None,
    per_query: bool,
    confidence: float | None,
    skip_input_checks: bool,
    output: str | None,
    out: str | None,
) -> None:
    """Print the numbers that run would write for SPEC; no table is written.

    \b
    sqlmetrics show search.yml --db shop.duckdb
    sqlmetrics show search.yml --start 2026-01-31 -o json
    """  # noqa: D301 (click wants the backspace itself)
    show_spec(
        spec,
        location,
        start=start,
        end=end,
        per_query=per_query,
        check=not skip_input_checks,
        confidence=confidence,
        output=output,
        out=out,
    )


def show_spec(
    spec: str,
    location: Location,
    *,
    start: str | None = None,
    end: str | None = None,
    per_query: bool = False,
    check: bool = True,
    confidence: float | None = None,
    output: str | None = None,
    out: str | None = None,
) -> None:
    """Print the numbers of a spec."""
    from sqlmetrics.jobs.days import days_between, zone_of_days
    from sqlmetrics.jobs.definitions import note_of_others
    from sqlmetrics.jobs.run import evaluated
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    days = days_between(start, end, zone_of_days(the_spec), option="--")
    form = format_of(output, out, FORMATS)
    with location.reading(the_spec) as engine:
        with progress_bar("steps of the log" if the_spec.clicks else "evaluating") as told:
            result: Any = evaluated(
                the_spec,
                engine,
                days,
                check=check,
                per_query=per_query,
                confidence=confidence,
                progress=told,
            )
        if note := note_of_others(the_spec, engine):
            say(f"note: {note}")
    if the_spec.clicks is None:
        emit_result(result, per_query, form, out)
    elif per_query:
        if result.offline is None:
            raise SpecError(f"{spec} asks for no metrics of lists, like ndcg@10; leave that out")
        emit_result(result.offline, per_query, form, out)
    else:
        emit_clicks(result, form, out)
