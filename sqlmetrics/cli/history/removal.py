"""`sqlmetrics retire` and `sqlmetrics uninstall`: what was made, removed after it was listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option
from sqlmetrics.errors import SpecError
from sqlmetrics.tables.table import Table, many


def _confirming(command: Callable[..., None]) -> Callable[..., None]:
    """`--yes` and `--rows`."""
    command = option("--yes", is_flag=True, help="Remove the listed rows or tables.")(command)
    return option(
        "--rows",
        "expected",
        type=click.IntRange(0),
        metavar="N",
        help="Remove if exactly N rows are listed.",
    )(command)


@click.command(cls=Command)
@click.argument("spec", type=click.Path())
@option(
    "--for-good",
    is_flag=True,
    help="Delete the rows from the archives as well; restore cannot bring them back.",
)
@option("--note", metavar="TEXT", default="", help="Reason for the run, kept in the run log.")
@place_options
@_confirming
@error_options
def retire(
    *,
    spec: str,
    for_good: bool,
    note: str,
    location: Location,
    yes: bool,
    expected: int | None,
) -> None:
    """Remove the rows and views of a SPEC that no longer runs.

    Rows of other specs stay. Without --yes or --rows N, retire only lists the rows and exits with
    2. restore can undo it as long as the archives keep the rows.

    \b
    sqlmetrics retire search.yml --db shop.duckdb
    sqlmetrics retire search.yml --db shop.duckdb --rows 2448
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.history.retire import retire as removed
    from sqlmetrics.jobs.history.retire import retirement
    from sqlmetrics.jobs.provenance import Provenance
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    with location.changing() as engine:
        removal = retirement(the_spec, engine, for_good=for_good)
        tables = [["table", name, f"{rows:,}"] for name, rows in removal.rows.items()]
        _list([*([["view", view.name, ""] for view in removal.views]), *tables])
        if removal.first:
            say(f"days from {removal.first} to {removal.last}")
        way_back = "the archives keep these rows" if removal.are_kept else "there is no way back"
        _confirm(removal.n_rows, yes, expected, way_back)
        provenance = Provenance(note, Path(spec).parent)
        run_id = removed(the_spec, engine, removal.n_rows, for_good=for_good, provenance=provenance)
    again = f"; restore {run_id[:8]} puts them back" if removal.are_kept else ""
    say(f"{many(removal.n_rows, 'row')} of {the_spec.title} removed{again}")


@click.command(cls=Command)
@click.argument("spec", type=click.Path(), required=False)
@place_options
@_confirming
@error_options
def uninstall(*, spec: str | None, location: Location, yes: bool, expected: int | None) -> None:
    """Remove what runs created beside the fact table of SPEC: tables, views, a function.

    The tables hold the numbers of every spec that writes to them. Without SPEC, uninstall removes
    the macros that install created in a DuckDB file. Without --yes or --rows N it only lists and
    exits with 2. If a view of yours reads one of the tables, the view is named and nothing is
    removed.

    \b
    sqlmetrics uninstall search.yml --db shop.duckdb
    sqlmetrics uninstall --db shop.duckdb --yes
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.history.uninstall import made_by_install, made_by_runs
    from sqlmetrics.jobs.history.uninstall import uninstall as removed
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec) if spec is not None else None
    with location.changing() as engine:
        made_objects = made_by_runs(the_spec, engine) if the_spec else made_by_install(engine)
        counts = [
            "" if made_object.rows is None else f"{made_object.rows:,}"
            for made_object in made_objects
        ]
        _list(
            [
                [made_object.kind, made_object.name, n]
                for made_object, n in zip(made_objects, counts, strict=True)
            ]
        )
        n_rows = sum(made_object.rows or 0 for made_object in made_objects)
        _confirm(n_rows, yes, expected, "there is no way back")
        removed(engine, made_objects, the_spec)
    say(f"{many(len(made_objects), 'thing')} removed, with {many(n_rows, 'row')}")


def _list(rows: Sequence[Sequence[str]]) -> None:
    click.echo(Table(["to be removed", "name", "rows"], rows, 2).text())


def _confirm(n_rows: int, yes: bool, expected: int | None, way_back: str) -> None:
    """Go on if what is listed is what somebody agreed to.

    Raises:
        SpecError: If nobody did, or it was another number of rows.
    """
    if expected is not None and expected != n_rows:
        raise SpecError(
            f"--rows {expected:,} does not match the {n_rows:,} rows that exist; nothing is removed"
        )
    if not yes and expected is None:
        raise SpecError(
            f"nothing is removed; give --rows {n_rows} or --yes to remove it; {way_back}"
        )
