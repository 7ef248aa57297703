"""`sqlmetrics compare`: is one system better than another, by how much, and is it real."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.common import INPUT, error_options, several
from sqlmetrics.cli.evaluation_options import (
    given_options,
    metrics_option,
    segment_option,
    table_options,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import (
    FORMATS,
    answer,
    found_by,
    items_option,
    sources,
    spec_of,
    sql_option,
    system_options,
)
from sqlmetrics.errors import CheckError

FAIL_ON = ("worse", "unclear", "not-better")
TESTS = ("t", "randomization", "bootstrap", "wilcoxon")


@click.command()
@system_options
@metrics_option("Like ndcg@10; several behind commas. Of a spec, by default its own.")
@click.option("--test", type=click.Choice(TESTS), default="t", show_default=True)
@click.option("--margin", default=0.0, help="The largest difference that does not matter.")
@click.option("--by", multiple=True, metavar="COLUMN", help="Compare each segment too.")
@segment_option
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="What is drawn together, like a user.  [default: the spec's, or query_id by day]",
)
@click.option(
    "--dates",
    multiple=True,
    callback=several,
    metavar="DAY,DAY",
    help="Days, or periods like 2026-11-01..2026-11-07, of one system: the first is the baseline.",
)
@click.option(
    "--paired/--unpaired",
    default=None,
    help="Whether each query is compared with itself.  [default: yes, but for --dates]",
)
@click.option(
    "--covariate",
    metavar="DAYS|COLUMN",
    help="What is known of queries from before takes variance away (CUPED), not paired.",
)
@click.option(
    "--baseline-values",
    type=INPUT,
    metavar="TABLE",
    help="The baseline is an earlier run: what evaluate --per-query or a job has kept.",
)
@click.option("--contributions", is_flag=True, help="What each slice adds to the difference.")
@click.option(
    "--movers",
    metavar="N|lost|gained",
    help="Show N queries that moved most, those that lost first, with lists; or lost:20.",
)
@click.option(
    "--all-pairs",
    is_flag=True,
    default=None,
    help="Compare every pair of systems: leaderboards with groups that do not differ.",
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 1 if a row is worse; worse or unclear; or anything but better.",
)
@click.option(
    "--replicates",
    type=int,
    help="Number of resampling replicates. Default: 1,000, more for many tests.",
)
@click.option("--seed", default=1, show_default=True, help="Random seed of the replicates.")
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
    """Say whether systems are better than a baseline, by how much, and if that is real.

    The systems are those of a table's column system, or a file or table each, or of a spec.
    Each query is compared with the same query of the baseline. In an A/B test, where each system
    has queries of its own, compare them --unpaired. With --fail-on it is a gate: what fails is
    printed on stderr, with --quiet too.

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
        raise click.UsageError("say what to compare: -m ndcg@10,recall@100,mrr")
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
