"""`sqlmetrics foretell`: which offline metric to trust."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.evaluation_options import metrics_option
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    INPUT,
    STATISTICS,
    Command,
    confidence_option,
    option,
    seed_option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import FORMATS, answer

# `sqlmetrics foretell`: which offline metric to trust, by past experiments.


@click.command(cls=Command)
@click.argument("experiments", type=INPUT, nargs=-1, required=True, metavar="EXPERIMENTS...")
@option("--online", required=True, metavar="METRIC", help="Online metric to foretell.")
@metrics_option("Offline metric; several behind commas.  [default: all others]")
@option(
    "--lower-is-better",
    multiple=True,
    metavar="METRIC",
    help="Metric of which less is better.  [default: as list metrics says]",
)
@confidence_option("level")
@option(
    "--replicates",
    type=int,
    default=1_000,
    show_default=True,
    help="Bootstrap samples of experiments.",
    heading=STATISTICS,
)
@seed_option()
@sql_option
@place_options
@output_options(FORMATS)
@error_options
def foretell(
    *,
    experiments: tuple[str, ...],
    location: Location,
    sql: bool,
    output: str | None,
    out: str | None,
    **arguments: Any,
) -> None:
    """Find the offline metric that foretells an online one.

    EXPERIMENTS is a table of past experiments with the columns experiment, metric, difference and
    standard_error; or a file per experiment, as compare --out writes it, named by the file or by
    NAME=FILE. Correlations are corrected for the noise of the experiments.

    \b
    sqlmetrics foretell experiments.csv --online ctr@5
    sqlmetrics foretell experiments/*.parquet --online revenue_per_request
    sqlmetrics foretell bi.experiments --online ctr@5 -m ndcg@10 --db bi.duckdb
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.proxies.foretell import foretell as find_proxies

    form = format_of(output, out, FORMATS, ("metric", "n_experiments", "quality"))
    with location.reading() as engine:
        tables = experiments[0] if len(experiments) == 1 else [*experiments]
        proxies = find_proxies(tables, connection=engine, **arguments)
    answer(proxies, form, out, sql=sql)
