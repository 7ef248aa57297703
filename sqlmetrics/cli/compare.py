"""`sqlmetrics compare`: is one system better than another, by how much, and is it real."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import error_options, several
from sqlmetrics.cli.evaluation_options import (
    METRIC,
    given_options,
    metrics_option,
    segment_option,
    table_options,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import INPUT_DATA, STATISTICS, Command, option
from sqlmetrics.cli.options.parameters import (
    INPUT,
    by_option,
    items_option,
    margin_option,
    seed_option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import FORMATS, answer, found_by, sources, spec_of, system_options
from sqlmetrics.errors import CheckError

FAIL_ON = ("worse", "unclear", "not-better")
TESTS = ("t", "randomization", "bootstrap", "wilcoxon")


@click.command(cls=Command)
@metrics_option(f"{METRIC}  [default: the metrics of SPEC]")
@system_options
@option(
    "--test",
    type=click.Choice(TESTS),
    default="t",
    show_default=True,
    help="Significance test.",
    heading=STATISTICS,
)
@margin_option(0.0)
@by_option
@segment_option
@option(
    "--cluster",
    metavar="COLUMN",
    help="Column whose queries are drawn together, such as user.  [default: the spec's, "
    "else query_id by day]",
    heading=STATISTICS,
)
@option(
    "--dates",
    multiple=True,
    callback=several,
    metavar="DAY,DAY",
    help="Days or periods of one system, such as 2026-11-01..2026-11-07; the first is the "
    "baseline.",
)
@option(
    "--paired/--unpaired",
    default=None,
    help="Compare each query with itself, or systems with queries of their "
    "own.  [default: paired; with --dates unpaired]",
    heading=STATISTICS,
)
@option(
    "--covariate",
    metavar="DAYS|COLUMN",
    help="Covariate that reduces the variance (CUPED) of --unpaired: days before the "
    "test, or a column.",
    heading=STATISTICS,
)
@option(
    "--baseline-values",
    type=INPUT,
    metavar="TABLE",
    help="Per-query values of an earlier run that serve as the baseline.",
    heading=INPUT_DATA,
)
@option(
    "--contributions",
    is_flag=True,
    help="Report how much each segment adds to the difference.",
    heading="Reports",
)
@option(
    "--movers",
    metavar="N|lost|gained",
    help="Show the N queries that moved most, or those of one side, as in lost:20.",
    heading="Reports",
)
@option(
    "--all-pairs",
    is_flag=True,
    default=None,
    help="Compare every pair of systems; group the systems that do not differ.",
    heading="Reports",
)
@option(
    "--winsorise",
    type=float,
    metavar="QUANTILE",
    help="Cut what users of a click log paid at this quantile, like 0.99.",
    heading=STATISTICS,
)
@option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 1 if a verdict is worse; if it is worse or unclear; or if it is not better.",
)
@option(
    "--replicates",
    type=int,
    help="Number of resampling replicates.  [default: 1,000; more for many tests]",
    heading=STATISTICS,
)
@seed_option()
@sql_option
@items_option
@table_options
@place_options
@output_options(FORMATS)
@error_options
@given_options
def compare(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    location: Location,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Compare systems with a baseline: differences, intervals, verdicts.

    The systems are the values of the system column, one file or table each, or the systems of
    SPEC. Each query is compared with itself; in an A/B test, where each system has queries of its
    own, use --unpaired. With --fail-on, the exit code is 1 if a verdict fails; failed verdicts are
    printed on stderr, even with --quiet.

    \b
    sqlmetrics compare runs.parquet labels.parquet -m ndcg@10,mrr --baseline prod
    sqlmetrics compare old.run new.run qrels.txt -m ndcg@10
    sqlmetrics compare search.yml --systems prod,cand --margin 0.005
    sqlmetrics compare search.yml --dates 2026-11-01,2026-11-08
    sqlmetrics compare base.run cand.run qrels.txt -m ndcg@10 --fail-on worse
    sqlmetrics compare runs/*.txt qrels.txt -m map --all-pairs
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.compare import compare as compared
    from sqlmetrics.comparison.report.text import json_object

    form = format_of(output, out, FORMATS, ("metric", "system"))
    rankings, labels = sources(tables, labels)
    if spec_of(rankings) is None and "metrics" not in arguments:
        raise click.UsageError("no metric to compare; name some, like -m ndcg@10,recall@100,mrr")
    failed = None
    try:
        comparison = found_by(compared, rankings, labels, location, arguments)
    except CheckError as error:
        failed, comparison = error, error.result
    texts = {}
    if arguments["contributions"] or comparison.movers or arguments.get("movers", "0") != "0":
        texts["json"] = lambda: json_object(comparison)
    answer(comparison, form, out, sql=sql, texts=texts)
    if failed:
        raise failed
