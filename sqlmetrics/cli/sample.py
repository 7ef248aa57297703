"""`sqlmetrics sample` and `estimate`: a check-up of all queries on a few of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import error_options, writing

if TYPE_CHECKING:
    from sqlmetrics.sampling.checkup import Checkup
    from sqlmetrics.spec import Spec

SHARES = ("queries", "traffic")
UNGRADED = ("error", "drop")
FORMATS = ("table", "json", "csv")


@click.command()
@click.argument("spec")
@click.option("--size", type=int, required=True, metavar="N", help="Queries to draw.")
@click.option("--by", multiple=True, metavar="COLUMN", help="Segments that make strata.")
@click.option("--traffic", is_flag=True, help="Head, torso and tail make strata.")
@click.option("--share", type=click.Choice(SHARES), default="queries", show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--db", metavar="FILE", help="A DuckDB file that holds the spec's relations.")
@click.option("--out", metavar="FILE", help="Write to a file instead of stdout.")
@click.option("--sql", is_flag=True, help="Print the queries instead of the rows.")
@error_options
def sample(
    *,
    spec: str,
    size: int,
    by: tuple[str, ...],
    traffic: bool,
    share: str,
    seed: int,
    db: str | None,
    out: str | None,
    sql: bool,
) -> None:
    """Draw a stratified random sample of the queries in the rankings of SPEC.

    The same seed draws the same queries, on every engine. --share says what the strata's
    parts are in proportion to; each gets two queries at least.

    \b
    sqlmetrics sample search.yml --size 300 --by country --traffic --out sample.csv
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.engines.duckdb import DuckDB, open_database
    from sqlmetrics.sampling.draw import draw
    from sqlmetrics.spec import Spec

    asked = Spec.read(spec)
    with open_database(db) as connection, DuckDB(connection) as engine:
        drawn = draw(asked, engine, size, by=by, traffic=traffic, seed=seed, share=share)
    designs = set(drawn.of((*drawn.strata_names, "stratum_size")))
    population = sum(design[-1] for design in designs)
    click.echo(
        f"{len(drawn.rows):,} of {population:,} queries, {len(designs):,} strata, seed {seed}",
        err=True,
    )
    _write(drawn.sql if sql else str(drawn), out)


@click.command()
@click.argument("spec")
@click.argument("sample")
@click.option("--labels", metavar="FILE", help="The sample's grades, instead of SPEC's labels.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, help="Like dcg@10, instead of SPEC's metrics."
)
@click.option("--by", multiple=True, metavar="COLUMN", help="Means for the values of a stratum.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--ungraded", type=click.Choice(UNGRADED), default="error", show_default=True)
@click.option(
    "--complete-labels",
    is_flag=True,
    help="The sampled queries have all their labels: estimate ndcg, recall and the like too.",
)
@click.option("--db", metavar="FILE", help="A DuckDB file that holds the spec's relations.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--out", metavar="FILE", help="Write to a file instead of stdout.")
@error_options
def estimate(
    *,
    spec: str,
    sample: str,
    labels: str | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    level: float,
    ungraded: str,
    complete_labels: bool,
    db: str | None,
    output: str,
    out: str | None,
) -> None:
    """Estimate the means of SPEC's metrics over all queries from a graded SAMPLE.

    \b
    sqlmetrics estimate search.yml sample.csv --labels checkup.csv -m dcg@10
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.engines.duckdb import DuckDB, open_database
    from sqlmetrics.sampling import checkup
    from sqlmetrics.sampling.sample import Sample
    from sqlmetrics.spec import Spec

    asked, drawn = _with_labels(Spec.read(spec), labels), Sample.read(sample)
    asked = asked.having(metrics=metrics) if metrics else asked
    with open_database(db) as connection, DuckDB(connection) as engine:
        found = checkup.estimate(
            asked,
            engine,
            drawn,
            by=by,
            level=level,
            ungraded=ungraded,
            complete=complete_labels,
        )
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    _write(_text(found, output) + "\n", out)


def _with_labels(spec: Spec, labels: str | None) -> Spec:
    """The spec with other labels, with the columns that sheet-import --new gives them."""
    if labels is None:
        return spec
    from sqlmetrics.inputs.sources import source_of
    from sqlmetrics.source import Labels

    place = source_of(labels, "labels", lambda _: None)
    return spec.having(labels=Labels(**place))


def _text(found: Checkup, output: str) -> str:
    from sqlmetrics import report

    if output == "json":
        return report.json_lines(found.table)
    return report.csv(found.table).rstrip("\n") if output == "csv" else _table(found)


def _table(found: Checkup) -> str:
    from sqlmetrics.grid import aligned, printable

    names = ["system", "segment", "metric", "mean over", "value", "interval", "graded", "of"]
    rows = []
    for row in found.table.to_pylist():
        segment = row["segment_name"]
        segment = segment if segment == "all" else f"{segment}={printable(row['segment_value'])}"
        value, low, high = (
            "-" if row[key] is None else f"{row[key]:.4f}" for key in ("value", "ci_low", "ci_high")
        )
        cells = [printable(row["system"]), segment, row["metric"], row["mean_over"], value]
        cells += [f"{low} to {high}", f"{row['n_graded']:,}", f"{row['n_population']:,}"]
        rows.append(cells)
    return aligned(names, rows, numbers_from=4) + f"\n\nintervals cover {found.level:.4g}"


def _write(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    writing(out, lambda: Path(out).write_text(text, encoding="utf-8", newline=""))
