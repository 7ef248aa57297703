"""`sqlmetrics metric`: a metric of your own, as a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, say, several
from sqlmetrics.cli.options import INPUT, Command, option
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.dialects import DEFAULT
from sqlmetrics.tables.table import Table, many

if TYPE_CHECKING:
    from sqlmetrics.proof.metric_examples import Outcome


# `sqlmetrics metric`: write a metric of your own, and run its examples.


@click.command(cls=Command)
@click.argument("action", type=click.Choice(("new", "test")))
@click.argument("names", nargs=-1, type=INPUT, metavar="[NAME|FILE]...")
@option(
    "--folder",
    default="metrics",
    show_default=True,
    metavar="FOLDER",
    help="Folder of the metric files.",
)
@option(
    "--engines",
    multiple=True,
    callback=several,
    metavar="NAME|URL",
    help="Engines to test: duckdb, sqlite, chdb, spark, or a database URL.  [default: duckdb]",
)
@option(
    "--python",
    is_flag=True,
    help="Compare with the function NAME in NAME.py beside each file; this runs its code.",
)
@overwrite_option
@error_options
def metric_command(
    action: str, names: tuple[str, ...], folder: str, engines: tuple[str, ...], *, python: bool
) -> None:
    """Write a metric of your own as a file, or test metric files.

    metric new writes a file. metric test runs the examples in the headers of the files, and prints
    the value of each metric for an empty list, tied scores and other edge cases. The exit code is
    1 if a value differs from the one worked out.

    \b
    sqlmetrics metric new revenue
    sqlmetrics metric test --engines duckdb,sqlite
    sqlmetrics evaluate runs.csv labels.csv -m revenue@10 --metrics-from metrics
    """  # noqa: D301 (click wants the backspace itself)
    if action == "new":
        if len(names) != 1:
            raise click.UsageError("name one metric: metric new NAME")
        click.echo(_new_metric(names[0], Path(folder)))
        return
    failed = _test([*names] or [folder], engines or (DEFAULT,), python=python)
    say(f"{many(failed, 'value differs', 'values differ')} from what was worked out")
    if failed:
        sys.exit(1)


def _test(paths: list[str], engines: Sequence[str], *, python: bool) -> int:
    """Print what each engine gives; how many values are not as they were worked out."""
    from sqlmetrics.catalog.metric_files import ENDING, MetricFiles
    from sqlmetrics.engines.database import connect
    from sqlmetrics.engines.registry import in_memory
    from sqlmetrics.proof.metric_proof import prove

    folders = [str(Path(path).parent) if path.endswith(ENDING) else path for path in paths]
    chosen = {Path(path).name.removesuffix(ENDING) for path in paths if path.endswith(ENDING)}
    files = MetricFiles.read([*dict.fromkeys(folders)])
    if missing := sorted(chosen - files.metrics.keys()):
        raise SpecError(f"metric test: {unknown('metric file', missing[0], files.metrics)}")
    outcomes_by_engine = {}
    for engine in engines:
        with connect(in_memory(engine)) as database:
            names = chosen or files.metrics
            outcomes_by_engine[engine] = prove(files, names, database, python=python)
    by_case = list(zip(*outcomes_by_engine.values(), strict=True))
    columns = ["metric", "case", "worked out", *outcomes_by_engine]
    click.echo(Table(columns, [_row(*outcomes) for outcomes in by_case], 2).text())
    refusals = {first.example.name: first.refusal for first, *_ in by_case if first.refusal}
    for case, refusal in refusals.items():
        click.echo(f"{case}: {refusal}")
    if any("items table" in refusal for refusal in refusals.values()):
        click.echo("items of an example name all of its list, like items = {a = {price = 9.5}}")
    return sum(outcome.fails for outcomes in by_case for outcome in outcomes)


def _row(*outcomes: Outcome) -> list[str]:
    """A case, the value worked out, and what each engine gave."""
    example = outcomes[0].example
    cells = [
        "refused" if outcome.refusal else _number(outcome.value) + " differs" * outcome.fails
        for outcome in outcomes
    ]
    worked_out = _number(example.value) if example.is_expected else "-"
    if example.is_random:
        cells = [f"{outcome.difference:.1e}" + " differs" * outcome.fails for outcome in outcomes]
        worked_out = "0"
    return [str(example.measure), example.name, worked_out, *cells]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"


def _new_metric(name: str, folder: Path) -> str:
    """Write a metric that works, and say what to do next."""
    from sqlmetrics.catalog.measure import name_problem
    from sqlmetrics.catalog.metric_files import ENDING
    from sqlmetrics.cli.learn import write_new
    from sqlmetrics.sql.template import templates_folder

    if problem := name_problem(name):
        raise SpecError(f"metric new: {problem}")
    file = folder / f"{name}{ENDING}"
    text = (templates_folder() / "cli" / f"metric{ENDING}").read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    title = name.replace("_", " ").capitalize()
    write_new(file, text.replace("NAME", title), overwrite=overwrites())
    return f"""\
Wrote {file}: a metric that works. Change its header, its examples and its SQL; then
  sqlmetrics metric test {file}
  sqlmetrics evaluate RANKINGS LABELS -m {name}@10 --metrics-from {folder}"""
