"""`sqlmetrics metric`: write a metric of your own, and run its examples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import (
    error_options,
    overwrite_option,
    overwrites,
    say,
    several,
)
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.dialects import DEFAULT

if TYPE_CHECKING:
    from sqlmetrics.catalog.metric_files import MetricFiles
    from sqlmetrics.proof.metric_examples import Outcome


@click.command()
@click.argument("action", type=click.Choice(("new", "test")))
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...")
@click.option(
    "--folder", default="metrics", show_default=True, metavar="FOLDER", help="Where the files are."
)
@click.option(
    "--engines",
    multiple=True,
    callback=several,
    metavar="NAME|URL",
    help="Where to run: duckdb, sqlite, chdb, spark, or a database.  [default: duckdb]",
)
@overwrite_option
@error_options
def metric(action: str, names: tuple[str, ...], folder: str, engines: tuple[str, ...]) -> None:
    """Write a metric of your own as a file, or test the files that are there.

    test runs the examples in the headers, and prints what each metric gives for an empty list,
    equal scores and the like. The exit code is 1 if a value is not the one worked out.

    \b
    sqlmetrics metric new revenue
    sqlmetrics metric test --engines duckdb,sqlite
    sqlmetrics evaluate runs.csv labels.csv -m revenue@10 --metrics-from metrics
    """  # noqa: D301 (click wants the backspace itself)
    if action == "new":
        if len(names) != 1:
            raise click.UsageError("name one metric: metric new NAME")
        click.echo(_written(names[0], Path(folder)))
        return
    from sqlmetrics.catalog.metric_files import MetricFiles
    from sqlmetrics.tables.table import Table

    files = MetricFiles.read([*names] or folder)
    outcomes_by_engine = {name: _tested(files, name) for name in engines or (DEFAULT,)}
    by_case = list(zip(*outcomes_by_engine.values(), strict=True))
    columns = ["metric", "case", "worked out", *outcomes_by_engine]
    click.echo(Table(columns, [_row(*outcomes) for outcomes in by_case], 2).text())
    for outcome in next(iter(outcomes_by_engine.values())):
        if outcome.refusal:
            example = outcome.example
            click.echo(f"{example.measure}, {example.name}: {outcome.refusal}")
    outcomes = [outcome for tested in outcomes_by_engine.values() for outcome in tested]
    failed = sum(outcome.fails for outcome in outcomes)
    examples = sum(outcome.example.is_expected for outcome in outcomes)
    say(f"{examples} examples: {f'{failed} differ' if failed else 'all give what was worked out'}")
    if failed:
        sys.exit(1)


def _tested(files: MetricFiles, engine: str) -> list[Outcome]:
    """What an engine gives for the examples and the edges of all metrics."""
    from sqlmetrics.engines.database import connect
    from sqlmetrics.engines.registry import in_memory
    from sqlmetrics.proof.metric_examples import edges_of, examples_of, outcomes

    by_metric = {name: examples_of(metric, files) for name, metric in files.metrics.items()}
    edges = [edge for examples in by_metric.values() for edge in edges_of(examples[0])]
    examples = [example for examples in by_metric.values() for example in examples]
    with connect(in_memory(engine)) as database:
        tested = [*outcomes(examples, files, database), *outcomes(edges, files, database)]
    return sorted(tested, key=lambda outcome: outcome.example.measure.metric.name)


def _row(*outcomes: Outcome) -> list[str]:
    """A case, the value worked out, and what each engine gave."""
    example = outcomes[0].example
    cells = [
        "refused" if outcome.refusal else _number(outcome.value) + " differs" * outcome.fails
        for outcome in outcomes
    ]
    worked_out = _number(example.value) if example.is_expected else "-"
    return [str(example.measure), example.name, worked_out, *cells]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"


def _written(name: str, folder: Path) -> str:
    """Write a metric that works, and say what to do next."""
    from sqlmetrics.catalog.measure import name_problem
    from sqlmetrics.catalog.metric_files import ENDING
    from sqlmetrics.cli.starter import write_new
    from sqlmetrics.sql.template import folder as templates

    if problem := name_problem(name):
        raise SpecError(f"metric new: {problem}")
    file = folder / f"{name}{ENDING}"
    text = (templates() / "cli" / f"metric{ENDING}").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    title = name.replace("_", " ").capitalize()
    write_new(file, text.replace("NAME", title), overwrite=overwrites())
    return f"""\
Wrote {file}: a metric that works. Change its header, its examples and its SQL; then
  sqlmetrics metric test {file}
  sqlmetrics evaluate RANKINGS LABELS -m {name}@10 --metrics-from {folder}"""
