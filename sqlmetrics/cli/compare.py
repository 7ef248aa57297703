"""`sqlmetrics compare`: is one system better than another, by how much, and is it real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, say, several
from sqlmetrics.cli.evaluate import convention_value, grade_number, pairs, table_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import emit, format_of, output_options
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlmetrics.comparison.comparison import Comparison
    from sqlmetrics.spec.spec import Spec

FORMATS = ("table", "json", "csv", "markdown", "html", "latex", "parquet")
TESTS = ("t", "randomization", "bootstrap", "wilcoxon")
YAML = (".yml", ".yaml")


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="RANKINGS... LABELS | SPEC")
@click.option("--labels", metavar="TABLE", help="The labels; all that stands before are systems.")
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    callback=several,
    shell_complete=completion.metrics,
    help="Like ndcg@10; several behind commas. Of a spec, by default its own.",
)
@click.option(
    "--systems", multiple=True, callback=several, metavar="A,B", help="Only these systems."
)
@click.option(
    "--baseline",
    metavar="SYSTEM",
    help="What the others are compared with.  [default: the first]",
)
@click.option("--test", type=click.Choice(TESTS), default="t", show_default=True)
@click.option("--level", default=0.95, show_default=True, help="Of the intervals.")
@click.option("--margin", default=0.0, help="The largest difference that does not matter.")
@click.option("--by", multiple=True, metavar="COLUMN", help="Compare each segment too.")
@click.option(
    "--cluster",
    metavar="COLUMN",
    help="What is drawn together, like a user.  [default: query_id, if there are days]",
)
@click.option("--replicates", default=1000, show_default=True, help="Of a resampling test.")
@click.option("--seed", default=1, show_default=True, help="Another one draws other replicates.")
@click.option("--start", metavar="DATE", help="The first day.")
@click.option("--end", metavar="DATE", help="The day after the last one.")
@click.option("--sql", is_flag=True, help="Print the SQL that ran, instead.")
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=completion.presets,
    help="A named set of conventions: list presets.",
)
@click.option(
    "-c",
    "--convention",
    "conventions",
    multiple=True,
    metavar="OPTION=VALUE",
    shell_complete=completion.conventions,
    help="Overrides the preset: list options.",
)
@click.option("--queries", metavar="TABLE", help="What is known of queries: segments, weights.")
@click.option("--items", metavar="TABLE", help="What is known of items: category, popularity.")
@table_options
@place_options
@click.option("--skip-input-checks", is_flag=True, help="Do not look for bad input first.")
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
    Each query is compared with the same query of the baseline.

    \b
    sqlmetrics compare runs.parquet labels.parquet -m ndcg@10,mrr --baseline prod
    sqlmetrics compare old.run new.run qrels.txt -m ndcg@10
    sqlmetrics compare search.yml --systems prod,cand --margin 0.005
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.compare import compare as compared

    form = format_of(output, out, FORMATS)
    given = options_given(named, label_columns, grades, conventions)
    rankings, labels = sources(tables, labels)
    spec = spec_of(rankings) if labels is None else None
    if spec is None and not metrics:
        raise click.UsageError("say what to compare: -m ndcg@10,recall@100,mrr")
    with location.reading(spec) as engine:
        found = compared(
            spec or rankings,
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
    emit(found.to_arrow, texts, form, out)


def _texts(found: Comparison) -> dict[str, Any]:
    from sqlmetrics.comparison import text

    made = {"table": text.text, "markdown": text.markdown, "html": text.html, "latex": text.latex}
    return {name: lambda write=write: write(found) for name, write in made.items()}


def options_given(
    named: Mapping[str, Any],
    label_columns: tuple[str, ...],
    grades: tuple[str, ...],
    conventions: tuple[str, ...],
) -> dict[str, Any]:
    """The options that were given, as arguments."""
    asked = {
        "label_columns": pairs(label_columns, "--label-column"),
        "grades": {text: grade_number(n) for text, n in pairs(grades, "--grades").items()},
        **{name: convention_value(text) for name, text in pairs(conventions, "-c").items()},
    }
    given = {key: value for key, value in named.items() if value not in (None, ())}
    return given | {name: value for name, value in asked.items() if value}


def sources(tables: tuple[str, ...], labels: str | None) -> tuple[Any, str | None]:
    """The rankings, of several tables by their names; and the labels, None with a spec."""
    if labels is None and len(tables) == 1:
        if not tables[0].endswith(YAML):
            raise click.UsageError("give LABELS behind the rankings, or a spec (.yml) alone")
        return tables[0], None
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


def spec_of(file: str) -> Spec:
    """A spec by its file."""
    from sqlmetrics.spec.spec import Spec

    return Spec.read(file)
