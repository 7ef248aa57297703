"""The command line: SQL and data on stdout, all else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics import __version__
from sqlmetrics.errors import SpecError, SqlmetricsError

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.result import Result

FORMATS = ("table", "json", "csv", "markdown", "parquet")
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


def _debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().meta["debug"] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_debug,
    help="Show the traceback, and the SQL that failed.",
)


def column_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--query`, `--item` and so on, one option a role."""
    for role, text in reversed(COLUMNS.items()):
        command = click.option(f"--{role}", metavar="COLUMN", help=text)(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sqlmetrics")
@debug_option
def cli() -> None:
    """Ranking, search and recommendation metrics computed inside the warehouse."""


@cli.command()
@click.argument("rankings")
@click.argument("labels")
@click.option("-m", "--metric", "metrics", multiple=True, required=True, help="Like ndcg@10.")
@click.option("--preset", metavar="NAME", help="A named set of conventions: list presets.")
@click.option(
    "-c",
    "--convention",
    "conventions",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Overrides the preset: list options. VALUE,VALUE gives each metric once for each.",
)
@click.option("--by", multiple=True, metavar="COLUMN", help="Segment by a column of the rankings.")
@column_options
@click.option(
    "--label-column",
    "label_columns",
    multiple=True,
    metavar="ROLE=COLUMN",
    help="A column that the labels name differently, like query=qid.",
)
@click.option("--db", metavar="FILE", help="A DuckDB file whose tables can be named.")
@click.option("--per-query", is_flag=True, help="One row a query instead of the summary.")
@click.option("--skip-input-checks", is_flag=True, help="Do not look for bad input first.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--out", metavar="FILE", help="Write to a file instead of stdout.")
@debug_option
def evaluate(
    *,
    rankings: str,
    labels: str,
    metrics: tuple[str, ...],
    conventions: tuple[str, ...],
    label_columns: tuple[str, ...],
    db: str | None,
    per_query: bool,
    skip_input_checks: bool,
    output: str,
    out: str | None,
    **named: Any,
) -> None:
    r"""Evaluate RANKINGS against LABELS: files, or tables of --db.

    Files are Parquet, CSV, or TREC runs and qrels (.gz too).

    \b
    sqlmetrics evaluate runs.parquet labels.parquet -m ndcg@10 -m recall@100 -m mrr
    sqlmetrics evaluate run.txt qrels.txt -m map -m ndcg_cut_10 --preset trec_eval
    """
    import duckdb

    from sqlmetrics.api import evaluate as run
    from sqlmetrics.engines.duckdb import open_database

    if output == "parquet" and out is None:
        raise SpecError("parquet is binary: say where to write it with --out FILE")
    connection: duckdb.DuckDBPyConnection = open_database(db)
    given: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    given |= {name: _value(text) for name, text in _pairs(conventions, "-c").items()}
    with connection:
        result = run(
            rankings,
            labels,
            metrics,
            connection=connection,
            check=not skip_input_checks,
            label_columns=_pairs(label_columns, "--label-column"),
            **given,
        )
    _emit(result, per_query, output, out)


@cli.command("compile")
@click.argument("spec")
@click.option("--dialect", default="duckdb", show_default=True, help="list dialects")
@click.option("--per-query", is_flag=True, help="The per-query table instead of the summary.")
@debug_option
def compile_spec(spec: str, dialect: str, per_query: bool) -> None:
    """Print the SQL of SPEC, a YAML file; nothing is opened but the spec."""
    from sqlmetrics.api import compile
    from sqlmetrics.spec import Spec

    click.echo(compile(Spec.read(spec), dialect, per_query=per_query), nl=False)


@cli.command("list")
@click.argument("what", type=click.Choice(("metrics", "presets", "options", "dialects")))
@debug_option
def list_names(what: str) -> None:
    """List the metrics, presets, options or dialects there are."""
    from sqlmetrics import listing
    from sqlmetrics.grid import aligned

    click.echo(aligned(*getattr(listing, what)()))


@cli.command()
@click.option("--out", default="sqlmetrics_demo", show_default=True, metavar="FOLDER")
@debug_option
def demo(out: str) -> None:
    """Make a search log, evaluate two rankers on it, and show what to try next."""
    from sqlmetrics.demo import show

    show(Path(out), click.echo)


def main() -> None:
    """Run the command line; one clear message and an exit code by kind of error."""
    context: dict[str, Any] = {}
    try:
        with cli.make_context("sqlmetrics", sys.argv[1:]) as root:
            context = root.meta
            cli.invoke(root)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (SqlmetricsError, BrokenPipeError, KeyboardInterrupt) as error:
        sys.exit(_failed(error, debug=bool(context.get("debug"))))


def _failed(error: BaseException, *, debug: bool) -> int:
    """Tell an error, and its exit code."""
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()
        return 0
    if isinstance(error, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    if debug:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True)
        click.echo(getattr(error, "sql", ""), err=True)
    click.echo(f"error: {error}", err=True)
    return getattr(error, "exit_code", 3)


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for (name, equal, _), text in zip(pairs, texts, strict=True):
        if not equal or not name:
            raise SpecError(f"{option} takes NAME=VALUE, given {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _value(text: str) -> object:
    """A convention's value: a name, several behind commas, or a table {1: 3}."""
    import ast

    if not text.startswith("{"):
        return text.split(",") if "," in text else text
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise SpecError(f"{text!r} is no table; write it like {{1: 1, 2: 3}}") from None


def _emit(result: Result, per_query: bool, output: str, out: str | None) -> None:
    """Write a result in one of FORMATS."""
    table = result.per_query() if per_query else result.summary()
    if output == "parquet":
        import pyarrow.parquet as pq

        _writing(str(out), lambda: pq.write_table(table, out))
        return
    text = _text(result, table, per_query, output)
    if out is None:
        click.echo(text)
    else:
        _writing(out, lambda: Path(out).write_text(text + "\n", encoding="utf-8"))


def _text(result: Result, table: pa.Table, per_query: bool, output: str) -> str:
    from sqlmetrics import report

    if output in ("json", "csv"):
        return report.json_lines(table) if output == "json" else report.csv(table).rstrip("\n")
    style: Mapping[str, Callable[..., str]] = {"table": report.text, "markdown": report.markdown}
    return style[output](result, per_query=per_query)


def _writing(path: str, write: Callable[[], object]) -> None:
    try:
        write()
    except OSError as error:
        raise SpecError(f"cannot write {path!r}: {error.strerror}") from None
