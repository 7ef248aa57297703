"""`sqlmetrics fuse`: rankings that become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import error_options, several, several_names
from sqlmetrics.cli.evaluation_options import (
    METRIC,
    check_option,
    metrics_option,
    pairs,
    segment_option,
    table_options,
    with_arguments,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    INPUT,
    INPUT_DATA,
    OUTPUT,
    Command,
    by_option,
    confidence_option,
    decorate,
    labels_option,
    option,
    sql_option,
)
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import (
    FORMATS,
    answer,
    into_options,
    is_written,
    question_options,
    run_on_tables,
    sources,
    write_into,
)
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.inputs.formats import SPECS
from sqlmetrics.evaluation.inputs.run_names import table_or_runs
from sqlmetrics.spec.mixture import METHODS, NORMS, PRESETS

if TYPE_CHECKING:
    from sqlmetrics.fusion.fuse import Fusion

FUSED_FORMATS = (*FORMATS, "run")

# `sqlmetrics fuse --sweep`: many mixtures, of which one is best.

HEADING = "Sweep"

_OPTIONS = (
    option(
        "--sweep",
        is_flag=True,
        help="Evaluate many mixtures of RANKINGS... LABELS, and say which is best.",
        heading=HEADING,
    ),
    metrics_option(f"{METRIC}  [default: ndcg@10, or the metrics of SPEC]"),
    labels_option,
    by_option,
    segment_option,
    option(
        "--step", type=float, help="Step from one weight to the next.  [default: 0.1]",
        heading=HEADING,
    ),
    option(
        "--draws", type=int, metavar="N", help="Number of random variants instead of a grid.",
        heading=HEADING,
    ),
    option("--seed", type=int, help="Random seed.  [default: 1]", heading=HEADING),
    option(
        "--folds", type=int, metavar="N", help="Parts of the queries, each of which is measured by "
        "what is best on the others.  [default: 5]", heading=HEADING,
    ),
    option(
        "--bounds", is_flag=True, default=None, help="Also evaluate without unjudged items, and "
        "with all of them as bad and as good.", heading=HEADING,
    ),
    confidence_option("level", default=None, heading=HEADING),
)  # fmt: skip

ONLY_HERE = {
    "metrics": "-m", "labels": "--labels", "by": "--by", "segments": "--segment", "step": "--step",
    "draws": "--draws", "seed": "--seed", "folds": "--folds", "bounds": "--bounds",
    "level": "--confidence", "preset": "--preset", "queries": "--queries",
}  # fmt: skip
"""Argument -> the option that says nothing without --sweep."""

_NOT_HERE = {"weights": "--weights", "limit": "--limit"}
_SEVERAL = {"method": "--method", "norm": "--norm", "k": "-k"}


def sweep_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a sweep is told beside a fusion."""
    return decorate(question_options(command), *_OPTIONS)


def single_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a fusion, which takes one method.

    Raises:
        SpecError: If there are several, or some of a sweep.
    """
    for name, word in ONLY_HERE.items():
        if name in arguments:
            raise SpecError(f"{word} needs --sweep; give it, or leave {word} out")
    for name, word in _SEVERAL.items():
        if len(arguments.get(name, ())) > 1:
            raise SpecError(f"one mixture has one {word}; give --sweep to try several")
    return {name: value[0] if name in _SEVERAL else value for name, value in arguments.items()}


def run_sweep(
    tables: tuple[str, ...], location: Location, arguments: dict[str, Any], *, form: str,
    out: str | None, sql: bool,
) -> None:  # fmt: skip
    """Evaluate the mixtures and print what is found.

    Args:
        tables: The runs and the labels, or a spec.
        location: Where they are.
        arguments: Of `fuse_sweep`.
        form: The format.
        out: A file, None for stdout.
        sql: Whether the SQL is wanted instead.
    """
    from sqlmetrics.fusion.sweep import fuse_sweep

    for name, word in _NOT_HERE.items():
        if name in arguments:
            raise SpecError(f"--sweep tries all weights and cuts no list; leave {word} out")
    rankings, labels = sources(tables, arguments.pop("labels", None))
    answer(run_on_tables(fuse_sweep, rankings, labels, location, arguments), form, out, sql=sql)


# `sqlmetrics fuse`: one ranking of several.

FORMULA = "Formula"


@click.command(cls=Command)
@click.argument(
    "tables", type=INPUT, nargs=-1, required=True, metavar="RANKINGS... [LABELS] | SPEC"
)
@option(
    "--like",
    type=click.Choice([*PRESETS]),
    metavar="NAME",
    help=f"Search engine whose formula is used: {', '.join(PRESETS)}.",
)
@option(
    "--method",
    type=click.Choice([*METHODS]),
    multiple=True,
    metavar="NAME",
    help=f"Fusion method: {', '.join(METHODS)}. May be repeated with --sweep.  [default: rrf]",
)
@option(
    "--norm",
    type=click.Choice([*NORMS]),
    multiple=True,
    help="Normalisation of the scores of each run. May be repeated with --sweep.  "
    "[default: min_max]",
    heading=FORMULA,
)
@option(
    "-k",
    "k",
    type=float,
    multiple=True,
    help="Constant of rrf. May be repeated with --sweep.  [default: 60]",
    heading=FORMULA,
)
@option(
    "--weights",
    multiple=True,
    callback=several,
    metavar="RUN=WEIGHT",
    help="Weight of each run, by name or in their order.  [default: 1 each]",
    heading=FORMULA,
)
@option(
    "--floor",
    type=float,
    help="Normalised score of an item in a run that lacks it.",
    heading=FORMULA,
)
@option(
    "--runs",
    multiple=True,
    callback=several_names,
    metavar="A,B",
    help="Runs to fuse, in order.  [default: all]",
    heading=INPUT_DATA,
)
@option(
    "--window",
    type=int,
    metavar="N",
    help="Number of items of each run to fuse.  [default: all]",
    heading=INPUT_DATA,
)
@option(
    "--limit",
    type=int,
    metavar="N",
    help="Number of items to print per query.  [default: all]",
    heading=OUTPUT,
)
@into_options("rankings")
@sweep_options
@check_option
@sql_option
@table_options
@place_options
@output_options(FUSED_FORMATS)
@error_options
@with_arguments
def fuse_command(
    *,
    tables: tuple[str, ...],
    location: Location,
    weights: tuple[str, ...],
    into: str | None,
    dry_run: bool,
    sweep: bool,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Make one ranking of several RANKINGS: reciprocal ranks, weighted sums and others.

    The runs are tables, each named by its file or by NAME=FILE; or the systems of one table, or of
    SPEC. Items with equal scores are ordered by id. With --sweep, give LABELS after the runs; many
    methods and weights are then evaluated in one pass.

    \b
    sqlmetrics fuse bm25.parquet dense.parquet --out fused.parquet
    sqlmetrics fuse bm25.run dense.run --out fused.run
    sqlmetrics fuse bm25.csv dense.csv --method sum --weights bm25=0.3,dense=0.7
    sqlmetrics fuse search.yml --like opensearch --limit 100 --sql
    sqlmetrics fuse bm25 dense --db shop.duckdb --into hybrid --overwrite
    sqlmetrics fuse bm25.csv dense.csv labels.csv --sweep -m ndcg@10
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.fusion.fuse import fuse

    columns = ("metric", "segment_name") if sweep else ("metric_date", "query_id", "item_id")
    form = format_of(output, out, FORMATS if sweep else FUSED_FORMATS, columns)
    if sweep and form == "run":
        raise SpecError("a sweep is no ranking; leave out -o run, or --sweep")
    if weights:
        arguments["weights"] = _weights(weights)
    elsewhere = {"--sweep": sweep, "--sql": sql, "-o": output, "--out": out}
    if is_written(into, dry_run=dry_run, elsewhere=elsewhere):
        single = {**single_arguments(arguments), "into": into}
        write_into(fuse, _runs(tables), location, single, dry_run=dry_run)
        return
    if sweep:
        run_sweep(tables, location, arguments, form=form, out=out, sql=sql)
        return
    fusion = run_on_tables(fuse, _runs(tables), None, location, single_arguments(arguments))
    answer(fusion, form, out, sql=sql, texts={"run": lambda: _lines(fusion)})


def _lines(fusion: Fusion) -> str:
    """The ranking as a run of TREC; its tag is the mixture.

    Raises:
        SpecError: If the ranking has days.
        InputError: If an id has a blank in it.
    """
    rows = fusion.to_dicts()
    if rows and "metric_date" in rows[0]:
        raise SpecError("the ranking has days, and a run cannot hold them; write CSV or Parquet")
    tag = str(fusion.mixture).replace(" ", "_")
    lines = []
    for row in rows:
        query, item = str(row["query_id"]), str(row["item_id"])
        if odd := next((text for text in (query, item) if text.split() != [text]), None):
            raise InputError(f"an id in a run cannot contain blanks, like {odd!r}; write CSV")
        lines.append(f"{query} Q0 {item} {row['rank']} {row['score']!r} {tag}")
    return "\n".join(lines)


def _runs(tables: tuple[str, ...]) -> Any:
    """The runs; a spec, or a table."""
    if len(tables) == 1 and tables[0].endswith(SPECS):
        return sources(tables, None, needs_labels=False)[0]
    return table_or_runs(tables)


def _weights(texts: tuple[str, ...]) -> Any:
    """Run -> its weight; or weights in the order of the runs.

    Raises:
        SpecError: If one is no number.
    """
    try:
        if all("=" in text for text in texts):
            return {run: float(text) for run, text in pairs(texts, "--weights").items()}
        return [float(text) for text in texts]
    except ValueError:
        raise SpecError(
            f"--weights {','.join(texts)[:80]}: give RUN=WEIGHT of each run, like "
            "bm25=0.3,dense=0.7, or numbers in the order of the runs"
        ) from None
