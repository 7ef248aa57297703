"""`sqlmetrics runs`, `restore`, `retire` and `uninstall`: what runs did, and how it is undone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import Command, format_option, option
from sqlmetrics.errors import SpecError
from sqlmetrics.tables.table import Table, many

# `sqlmetrics retire` and `sqlmetrics uninstall`: what was made, removed after it was listed.


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
def retire_command(
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
    from sqlmetrics.jobs.history.removal import retire, retirement
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
        run_id = retire(the_spec, engine, removal.n_rows, for_good=for_good, provenance=provenance)
    again = f"; restore {run_id[:8]} puts them back" if removal.are_kept else ""
    say(f"{many(removal.n_rows, 'row')} of {the_spec.title} removed{again}")


@click.command(cls=Command)
@click.argument("spec", type=click.Path(), required=False)
@place_options
@_confirming
@error_options
def uninstall_command(
    *, spec: str | None, location: Location, yes: bool, expected: int | None
) -> None:
    """Remove what runs created beside the fact table of SPEC: tables, views, a function.

    The tables hold the numbers of every spec that writes to them. Without SPEC, uninstall removes
    the macros that install created in a DuckDB file. Without --yes or --rows N it only lists and
    exits with 2. If a view of yours reads one of the tables, the view is named and nothing is
    removed.

    \b
    sqlmetrics uninstall search.yml --db shop.duckdb
    sqlmetrics uninstall --db shop.duckdb --yes
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.history.removal import made_by_install, made_by_runs, uninstall
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
        uninstall(engine, made_objects, the_spec)
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


# `sqlmetrics restore`: a run taken back.


@click.command(cls=Command)
@click.argument("spec", type=click.Path())
@click.argument("run")
@option("--note", metavar="TEXT", default="", help="Reason for the run, kept in the run log.")
@place_options
@error_options
def restore_command(*, spec: str, run: str, note: str, location: Location) -> None:
    """Undo RUN of SPEC: put back the rows that it replaced, all or nothing.

    RUN is the start of a run id that runs prints, or last for the latest run in effect. A restore
    can be undone like a run. Undo later runs of the same days first.

    \b
    sqlmetrics runs search.yml --db shop.duckdb
    sqlmetrics restore search.yml 3f2a91bc --db shop.duckdb --note "wrong labels"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.history.restore import restore
    from sqlmetrics.jobs.provenance import Provenance
    from sqlmetrics.jobs.schema import targets
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    engine = location.changing()
    restoration = restore(the_spec, engine, run, provenance=Provenance(note, Path(spec).parent))
    name_by_table = targets(the_spec)
    days = f", {restoration.run.days}" if restoration.run.days else ""
    for sentence in restoration.notes:
        say(f"note: {sentence}")
    for table, rows in restoration.rows.items():
        say(f"{name_by_table[table]}: {many(rows, 'row')} of {the_spec.title}{days}")
    again = (
        f"; restore {restoration.run_id[:8]} makes it stand again"
        if restoration.can_be_undone
        else ""
    )
    say(f"run {restoration.run} is taken back{again}")


# `sqlmetrics runs`: what runs of a spec changed.


@click.command(cls=Command)
@click.argument("spec", type=click.Path())
@option(
    "--limit",
    "last",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    show_default=True,
    help="Number of runs to list, newest first.",
    old_spellings=("--last",),
)
@place_options
@format_option(("table", "json"))
@error_options
def runs_command(*, spec: str, last: int, location: Location, output: str) -> None:
    """List the runs of SPEC: who ran them, which days, what changed in the fact table.

    Times are UTC. Changes are counted against the rows that a run replaced, as long as these rows
    are archived.

    \b
    sqlmetrics runs search.yml --db shop.duckdb
    sqlmetrics runs search.yml --target prod --limit 100 -o json
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.history.log import effects
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    run_effects = effects(the_spec, location.reading(is_needed=True))
    latest_effects = run_effects[:last]
    if output == "json":
        lines = ",\n ".join(
            json.dumps(effect.to_dict(), ensure_ascii=False) for effect in latest_effects
        )
        click.echo(f"[{lines}]")
        return
    rows = [
        [
            effect.run.short,
            f"{effect.run.started:%Y-%m-%d %H:%M}",
            effect.run.user or "-",
            _days(effect.run.start, effect.run.end),
            f"{effect}{f' ({effect.run.note})' if effect.run.note else ''}",
        ]
        for effect in latest_effects
    ]
    click.echo(Table(["run", "began", "user", "days", "what changed"], rows).text())
    if len(run_effects) > len(latest_effects):
        say(f"{len(run_effects) - len(latest_effects):,} older runs: --limit {len(run_effects)}")


def _days(start: object, end: object) -> str:
    """The days of a run in few letters: the first and the last one."""
    from datetime import date, timedelta

    first = str(start or "")
    last = str(end - timedelta(1)) if isinstance(end, date) else ""
    if not first and not last:
        return "all"
    return first if first == last else f"{first} to {last}".strip()
