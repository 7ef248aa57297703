"""`sqlmetrics compare`: is one system better than another, by how much, and is it real."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import SPECS, error_options, say, several
from sqlmetrics.cli.evaluation_options import (
    convention_option,
    metrics_option,
    options_given,
    preset_option,
    segment_option,
    table_options,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import emit, format_of, output_options
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.comparison.report.comparison import Comparison

FORMATS = ("table", "json", "csv", "markdown", "html", "latex", "parquet")
TESTS = ("t", "randomization", "bootstrap", "wilcoxon")


_SYSTEMS = (
    click.argument("tables", nargs=-1, required=True, metavar="RANKINGS... LABELS | SPEC"),
    click.option(
        "--labels", metavar="TABLE", help="The labels; all that stands before are systems."
    ),
    click.option(
        "--systems", multiple=True, callback=several, metavar="A,B", help="Only these systems."
    ),
    click.option(
        "--baseline",
        metavar="SYSTEM",
        help="What the others are compared with.  [default: the first]",
    ),
    click.option("--level", default=0.95, show_default=True, help="Of the intervals."),
    click.option("--start", metavar="DATE", help="The first day."),
    click.option("--end", metavar="DATE", help="The day after the last one."),
    preset_option(),
    convention_option(),
    click.option("--queries", metavar="TABLE", help="What is known of queries: segments, weights."),
    click.option("--skip-input-checks", is_flag=True, help="Do not look for bad input first."),
)


def system_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a command is told that looks at systems beside one another."""
    for option in reversed(_SYSTEMS):
        command = option(command)
    return command


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
    metavar="TABLE",
    help="The baseline is an earlier run: what evaluate --per-query or a job has kept.",
)
@click.option("--contributions", is_flag=True, help="What each slice adds to the difference.")
@click.option(
    "--movers", default=0, metavar="N", help="Show N queries that moved most, with lists."
)
@click.option("--replicates", default=1000, show_default=True, help="Of a resampling test.")
@click.option("--seed", default=1, show_default=True, help="Another one draws other replicates.")
@click.option("--sql", is_flag=True, help="Print the SQL that ran, instead.")
@click.option("--items", metavar="TABLE", help="What is known of items: category, popularity.")
@table_options
@place_options
@output_options(FORMATS)
@error_options
def compare(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    metrics: tuple[str, ...],
    conventions: tuple[str, ...],
    grades: tuple[str, ...],
    label_columns: tuple[str, ...],
    location: Location,
    sql: bool,
    skip_input_checks: bool,
    output: str | None,
    out: str | None,
    **named: Any,
) -> None:
    """Say whether systems are better than a baseline, by how much, and if that is real.

    The systems are those of a table's column system, or a file or table each, or of a spec.
    Each query is compared with the same query of the baseline. In an A/B test, where each system
    has queries of its own, compare them --unpaired.

    \b
    sqlmetrics compare runs.parquet labels.parquet -m ndcg@10,mrr --baseline prod
    sqlmetrics compare old.run new.run qrels.txt -m ndcg@10
    sqlmetrics compare search.yml --systems prod,cand --margin 0.005
    sqlmetrics compare search.yml --dates 2026-11-01,2026-11-08
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.compare import compare as compared
    from sqlmetrics.comparison.report import sections

    form = format_of(output, out, FORMATS)
    given = options_given(named, label_columns, grades, conventions)
    rankings, labels = sources(tables, labels)
    if labels is not None and not metrics:
        raise click.UsageError("say what to compare: -m ndcg@10,recall@100,mrr")
    with location.reading(rankings if labels is None else None) as engine:
        found = compared(
            rankings,
            labels,
            metrics,
            connection=engine,
            check=not skip_input_checks,
            **given,
        )
    if sql:
        click.echo(found.sql, nl=False)
        return
    texts = _texts(found)
    for note in found.notes if form not in texts else ():
        say(f"note: {note}")
    if named["contributions"] or named["movers"]:
        texts["json"] = lambda: sections.json_object(found)
    emit(found.to_arrow, texts, form, out)


def _texts(found: Comparison) -> dict[str, Any]:
    from sqlmetrics.comparison.report import text

    made = {"table": text.text, "markdown": text.markdown, "html": text.html, "latex": text.latex}
    return {name: lambda write=write: write(found) for name, write in made.items()}


def sources(tables: tuple[str, ...], labels: str | None) -> tuple[Any, str | None]:
    """The rankings, of several tables by their names, and the labels; a spec, and None."""
    if labels is None and len(tables) == 1:
        if not tables[0].endswith(SPECS):
            raise click.UsageError("give LABELS behind the rankings, or a spec (.yml) alone")
        from sqlmetrics.spec.spec import Spec

        return Spec.read(tables[0]), None
    *runs, labels = tables if labels is None else (*tables, labels)
    return (runs[0] if len(runs) == 1 else _named(runs)), labels


def _named(runs: list[str]) -> Any:
    """The paths, or system -> its table where names stand before =.

    Raises:
        SpecError: If only some have a name, or two have the same.
    """
    parts = [run.partition("=") for run in runs]
    names = [name for name, equal, _ in parts if equal and name.isidentifier()]
    if not names:
        return runs
    if len({*names}) < len(runs):
        raise SpecError(f"give each system a name of its own, like a={runs[0]} b={runs[-1]}")
    return {name: place for name, _, place in parts}
