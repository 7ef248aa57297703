"""`sqlmetrics evaluate`: ad hoc, on files or on the tables of a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, progress_bar, several
from sqlmetrics.cli.location import PLACES, Location, place_options
from sqlmetrics.cli.output import FORMATS, emit, emit_result, format_of, output_options
from sqlmetrics.cli.show import show_spec
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.proof.ties import TieAudit
    from sqlmetrics.spec.spec import Spec

COLUMNS = {
    "query": "the query's column  [default: query_id]",
    "item": "the item's column  [default: item_id]",
    "score": "the column of scores  [default: score]",
    "rank": "the column of ranks 1..n, instead of scores",
    "grade": "the labels' column of grades  [default: grade]",
    "system": "the column of the ranker, model or run",
    "date": "the column of the day",
    "weight": "the column of query weights",
}


_TABLES = (
    click.option("--where", metavar="CONDITION", help="Only these rows of the rankings."),
    click.option(
        "--grades",
        multiple=True,
        metavar="TEXT=NUMBER",
        help="The number of a grade that is a text, like high=3.",
    ),
    *(click.option(f"--{role}", metavar="COLUMN", help=text) for role, text in COLUMNS.items()),
    click.option(
        "--time-zone", metavar="ZONE", help="Whose days times with a zone have.  [default: UTC]"
    ),
    click.option(
        "--label-column",
        "label_columns",
        multiple=True,
        metavar="ROLE=COLUMN",
        help="A column that the labels name differently, like query=qid.",
    ),
    click.option(
        "--separator",
        metavar="MARK",
        help="What is between the values of CSV files, like ; or tab; else their header shows it.",
    ),
    click.option("--decimal", metavar="MARK", help="The decimal mark of CSV files: . or a comma."),
)


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a command is told of its tables: conditions, grades, columns."""
    for option in reversed(_TABLES):
        command = option(command)
    return command


@click.command()
@click.argument("tables", type=click.Path(), nargs=-1, required=True, metavar="RANKINGS... LABELS")
@click.option(
    "--labels",
    type=click.Path(),
    metavar="TABLE",
    help="The labels (qrels); all others are rankings then.",
)
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    callback=several,
    shell_complete=completion.metrics,
    help="Like ndcg@10; several behind commas.",
)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=completion.presets,
    help="A tool to agree with: see list presets.",
)
@click.option(
    "-c",
    "--convention",
    "conventions",
    multiple=True,
    metavar="OPTION=VALUE",
    shell_complete=completion.conventions,
    help="Overrides the preset: see list options. VALUE,VALUE gives each metric once for each.",
)
@click.option("--by", multiple=True, metavar="COLUMN", help="Segment by a column.")
@click.option("--baseline", metavar="SYSTEM", help="The system that the others are compared with.")
@click.option(
    "--queries", metavar="TABLE", help="What is known of queries: segments, weights, days."
)
@click.option(
    "--items", metavar="TABLE", help="What is known of items: category, popularity, vector."
)
@table_options
@place_options
@click.option("--per-query", is_flag=True, help="One row per query instead of the summary.")
@click.option("--confidence", type=float, metavar="LEVEL", help="Intervals of means, like 0.95.")
@click.option("--tie-audit", is_flag=True, help="Print how much equal scores matter instead.")
@click.option("--skip-input-checks", is_flag=True, help="Do not look for bad input first.")
@click.option(
    "--plan", metavar="NAME", help="How lists are ranked: window, lists, counts or ranks."
)
@click.option("--memory", metavar="SIZE", help="What DuckDB may take, like 4GB.")
@click.option("--checkpoint", metavar="FOLDER", help="Save progress there, and go on after a stop.")
@click.option("--profile", metavar="FILE", help="Write DuckDB's profile of the work, in JSON.")
@output_options(FORMATS)
@error_options
def evaluate(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    metrics: tuple[str, ...],
    conventions: tuple[str, ...],
    grades: tuple[str, ...],
    label_columns: tuple[str, ...],
    location: Location,
    per_query: bool,
    tie_audit: bool,
    skip_input_checks: bool,
    output: str | None,
    out: str | None,
    **named: Any,
) -> None:
    """Evaluate RANKINGS against LABELS: files, or tables of a database.

    Of several tables the last one is the labels; each of the others is a system, called by its
    file. With a spec alone it shows the spec's numbers, as show does.

    Files are Parquet, CSV, JSON, or TREC runs and qrels (.gz too).

    \b
    sqlmetrics evaluate runs.parquet labels.parquet -m ndcg@10,recall@100,mrr
    sqlmetrics evaluate run*.trec qrels.txt -m map,ndcg_cut_10 --preset trec_eval
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.evaluation.evaluate import evaluate as run

    if labels is None and len(tables) == 1 and tables[0].endswith((".yml", ".yaml")):
        _refuse_what_a_spec_says()
        show_spec(
            tables[0],
            location,
            per_query=per_query,
            check=not skip_input_checks,
            confidence=named["confidence"],
            output=output,
            out=out,
        )
        return
    if labels is None and len(tables) == 1:
        raise click.UsageError("give LABELS behind RANKINGS, or a spec (.yml) alone")
    *rankings, labels = tables if labels is None else (*tables, labels)
    if not metrics:
        raise click.UsageError("say what to compute: -m ndcg@10,recall@100,mrr")
    form = format_of(output, out, FORMATS)
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    given |= {name: convention_value(text) for name, text in pairs(conventions, "-c").items()}
    with (
        location.reading() as engine,
        progress_bar("evaluating") as told,
    ):
        result = run(
            rankings if len(rankings) > 1 else rankings[0],
            labels,
            metrics,
            connection=engine,
            check=not skip_input_checks,
            label_columns=pairs(label_columns, "--label-column"),
            grades={text: grade_number(n) for text, n in pairs(grades, "--grades").items()},
            per_query=per_query,
            progress=told,
            **given,
        )
        audit = _audited(result.spec, engine) if tie_audit else None
    if audit is None:
        emit_result(result, per_query, form, out)
    else:
        emit(lambda: audit.metrics, {"table": audit.text, "markdown": audit.markdown}, form, out)


OF_A_SPEC = ("tables", *PLACES, "per_query", "confidence", "skip_input_checks", "output", "out")
"""What can be said beside a spec."""


def _refuse_what_a_spec_says() -> None:
    """What a spec decides is not taken, and not passed over, beside it."""
    context = click.get_current_context()
    given = [
        one.opts[-1]
        for one in context.command.params
        if one.expose_value
        and one.name not in OF_A_SPEC
        and context.get_parameter_source(str(one.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            f"{', '.join(given)}: not beside a spec, whose numbers are shown as it says them"
        )


def _audited(spec: Spec, engine: Any) -> TieAudit:
    from sqlmetrics.proof.ties import tie_audit

    return tie_audit(spec, engine)


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Texts like NAME=VALUE as a dict.

    Raises:
        SpecError: If one has no equals sign or no name.
    """
    split = [text.partition("=") for text in texts]
    for (name, equal, _), text in zip(split, texts, strict=True):
        if not equal or not name:
            raise SpecError(f"{option} takes NAME=VALUE, given {text!r}")
    return {name.strip(): value.strip() for name, _, value in split}


def grade_number(text: str) -> float:
    """The number that a grade's text stands for."""
    try:
        if "_" in text:  # Python reads 1_000
            raise ValueError
        return float(text)
    except ValueError:
        raise SpecError(f"--grades takes TEXT=NUMBER, given {text!r} for the number") from None


def convention_value(text: str) -> object:
    """A convention's value: a name, several behind commas, or a table {1: 3}."""
    import ast

    if not text.startswith("{"):
        return text.split(",") if "," in text else text
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise SpecError(f"{text!r} is no table; write it like {{1: 1, 2: 3}}") from None
