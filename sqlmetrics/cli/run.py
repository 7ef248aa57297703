"""`sqlmetrics run`: a spec's numbers of some days into its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import error_options, progress_bar, say, say_of
from sqlmetrics.cli.evaluation_options import check_option, input_check
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import EXECUTION, INPUT, OUTPUT, Command, days_options, option
from sqlmetrics.cli.recipients import Alert, Recipients, alerting, recipient_options
from sqlmetrics.errors import SpecError, SqlmetricsError
from sqlmetrics.tables.table import many, metric_value, printable

if TYPE_CHECKING:
    from sqlmetrics.engines.database import Database
    from sqlmetrics.jobs.destination import Destination
    from sqlmetrics.jobs.missing_days import Part
    from sqlmetrics.jobs.provenance import Provenance
    from sqlmetrics.jobs.run import RunReport
    from sqlmetrics.jobs.summary import Summary
    from sqlmetrics.spec.days import Days
    from sqlmetrics.spec.spec import Spec


SYSTEMS = 4
"""As many systems are named where a run says how it went."""


@click.command(cls=Command)
@click.argument("spec", type=INPUT)
@days_options()
@option("--full-refresh", is_flag=True, help="Recompute and replace all days.")
@option(
    "--allow-loss",
    type=click.IntRange(1),
    metavar="N",
    help="Number of days whose numbers --full-refresh or --recompute may delete.",
    heading="History",
)
@option(
    "--adopt",
    is_flag=True,
    help="Treat all rows of this spec's name as its own, whichever spec wrote them.",
    heading="History",
)
@option(
    "--backfill",
    is_flag=True,
    help="Compute only the days and metrics that the fact table lacks.",
)
@option(
    "--recompute",
    is_flag=True,
    help="Recompute all metrics of the days of --backfill.",
    heading="History",
)
@option(
    "--lookback",
    type=click.IntRange(1),
    metavar="N",
    help="Recompute the last N days, for data that arrives late.",
)
@option(
    "--batch-days",
    type=click.IntRange(1),
    metavar="N",
    help="Largest number of days in one run.  [default: 31 with --backfill, else all]",
    heading=EXECUTION,
)
@option(
    "--note",
    metavar="TEXT",
    default="",
    help="Reason for the run, kept in the run log.",
    heading="History",
)
@place_options
@option(
    "--publish",
    metavar="PLACE",
    help="Copy the tables to FILE.duckdb (replaced whole), a folder of Parquet files, "
    "delta:FOLDER, or a database URL.",
    heading=OUTPUT,
)
@option(
    "--storage-version",
    metavar="VERSION",
    help="Oldest DuckDB version that must read the published file, such as v1.5.0.",
    heading=OUTPUT,
)
@option("--dry-run", is_flag=True, help="Print the SQL and the tables it reads; write nothing.")
@check_option
@recipient_options
@alerting
@error_options
def run_command(
    *,
    alert: Alert,
    spec: str,
    location: Location,
    publish: str | None,
    storage_version: str | None,
    dry_run: bool,
    output: str,
    out: str | None,
    openlineage: str | None,
    **chosen: Any,
) -> None:
    """Evaluate SPEC and replace its days in its output tables, all or nothing.

    --start is the first day and --end the day after the last; the default is all days of the data.
    A day is a date, today, yesterday or an offset such as "-3 days". Other days and other specs
    are not touched, so a run can be repeated at any time. The exit code is 4 if the data has none
    of the days yet.

    \b
    sqlmetrics run search.yml --db shop.duckdb --start 2026-01-01 --end 2026-02-01
    sqlmetrics run search.yml --target prod --start yesterday --end today
    sqlmetrics run search.yml --target prod --backfill --lookback 3
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.summary import Summary
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    choice = Choice.of(the_spec, spec, chosen)
    recipients = Recipients(output, out, openlineage)
    summary = alert.summary = Summary(the_spec, choice.days)
    say_of(the_spec.title)
    to = choice.destination(the_spec, publish, storage_version)
    if dry_run:
        if recipients.is_asked:
            raise SpecError("--dry-run prints SQL: leave out -o, --out and --openlineage")
        _print(the_spec, choice, location)
        return
    with recipients.hear_of(summary, location):
        carry_out(choice, to, location, summary)


@dataclass(frozen=True)
class Choice:
    """Which days a run replaces, and how.

    Attributes:
        days: Which days; None for all.
        full_refresh: Whether all days are computed anew.
        backfill: Whether those that the table lacks are wanted.
        lookback: How many of the last days are computed again.
        unchecked: Whether bad input is not looked for.
        adopt: Whether rows of the spec's name are its own, whatever wrote them.
        allow_loss: Of so many days numbers may go that nothing replaces.
        batch_days: How many days a run replaces at most; 0 for the usual number.
        provenance: What the run log says of whoever runs it.
        recompute: Whether days that lack a metric get all of them anew.
    """

    days: Days | None
    full_refresh: bool
    backfill: bool
    lookback: int
    unchecked: bool
    adopt: bool = False
    allow_loss: int = 0
    batch_days: int = 0
    provenance: Provenance | None = None
    recompute: bool = False

    @classmethod
    def of(cls, spec: Spec, file: str, options: Mapping[str, Any]) -> Choice:
        """What somebody typed.

        Args:
            spec: What is asked.
            file: Where the spec is, for the run log.
            options: Option of `run`, without its dashes -> what was given.

        Raises:
            SpecError: If a day is none, or the end does not come after the start.
        """
        from sqlmetrics.jobs.days import days_between, zone_of_days
        from sqlmetrics.jobs.provenance import Provenance

        return cls(
            days_between(options["start"], options["end"], zone_of_days(spec), option="--"),
            options["full_refresh"],
            options["backfill"],
            options["lookback"] or 0,
            unchecked=options["skip_input_checks"],
            adopt=options["adopt"],
            allow_loss=options["allow_loss"] or 0,
            batch_days=options["batch_days"] or 0,
            provenance=Provenance(options["note"], Path(file).parent),
            recompute=options["recompute"],
        )

    @property
    def is_of_some(self) -> bool:
        """Whether not simply all days are meant."""
        return bool(self.days or self.backfill or self.lookback)

    def parts(self, spec: Spec, engine: Database) -> list[Part]:
        """What is computed, one part after the other."""
        from sqlmetrics.jobs.missing_days import parts

        return parts(
            spec,
            engine,
            self.days,
            backfill=self.backfill,
            lookback=self.lookback,
            batch_days=self.batch_days,
            recompute=self.recompute,
        )

    def destination(
        self, spec: Spec, target: str | None, version: str | None = None
    ) -> Destination | None:
        """Where the tables are copied to, after a look whether the options go together.

        Raises:
            SpecError: If they do not, or the spec has no output.
        """
        from sqlmetrics.jobs.destination import NO_REFRESH, destination
        from sqlmetrics.jobs.schema import targets

        targets(spec)
        if self.full_refresh and self.is_of_some:
            raise SpecError("--full-refresh replaces all days; leave out the other choices of days")
        if self.full_refresh and self.batch_days:
            raise SpecError("--full-refresh replaces all days at once; leave out --batch-days")
        if self.recompute and not self.backfill:
            raise SpecError(
                "--recompute needs --backfill; other choices of days compute all metrics anyway"
            )
        if self.allow_loss and not (self.full_refresh or self.recompute):
            raise SpecError("--allow-loss needs --full-refresh, or --backfill --recompute")
        if target is not None:
            to = destination(target, version)
            if to.kind == "delta" and self.full_refresh:
                raise SpecError(NO_REFRESH)
            return to
        if version is not None:
            raise SpecError(
                "--storage-version applies to a published file; add --publish FILE.duckdb"
            )
        return None


def carry_out(
    choice: Choice,
    to: Destination | None,
    location: Location,
    summary: Summary,
    check: Callable[[Database], None] | None = None,
) -> None:
    """Run a spec, publish its tables, and put down what was done.

    Args:
        choice: Which days, and how.
        to: Where the tables are copied to, if at all.
        location: Where they are.
        summary: What is put down, with the spec.
        check: What is done in the end with the database.

    Raises:
        SqlmetricsError: As `write`, `publish` and `check` do.
    """
    from sqlmetrics.api import looks_of
    from sqlmetrics.jobs.definitions import note_of_retired
    from sqlmetrics.jobs.destination import check_destination
    from sqlmetrics.jobs.exchange import ALL_DAYS
    from sqlmetrics.jobs.provenance import UNNAMED
    from sqlmetrics.jobs.run import write_parts

    spec, days, full = summary.spec, choice.days, choice.full_refresh
    with location.writing(spec, passing=to is not None) as engine:
        summary.database = f"{engine.name} {engine.version}"
        if to is not None:
            check_destination(spec, engine, to, days, adopt=choice.adopt)
        todo = choice.parts(spec, engine)
        if not todo:
            say(f"no day of {spec.title} is missing")
            if retired := note_of_retired(spec, days.ends if days else ALL_DAYS, engine):
                say(f"note: {retired}", "note")
        reports = write_parts(
            spec,
            engine,
            todo,
            full_refresh=full,
            recompute=choice.recompute,
            allow_loss=choice.allow_loss,
            adopt=choice.adopt,
            check=input_check(choice.unchecked),
            provenance=choice.provenance or UNNAMED,
            looks=looks_of(spec),
        )
        for _ in todo:
            with progress_bar(f"run {spec.title}"):
                report = next(reports)
            summary.reports.append(report)
            _report(spec, report)
        if to is not None:
            from sqlmetrics.jobs.publish import publish  # it reads and writes by Arrow

            version = to.version or None
            with progress_bar("publishing"):
                summary.published += publish(
                    spec,
                    engine,
                    to.location,
                    storage_version=version,
                    full_refresh=full,
                    allow_loss=choice.allow_loss,
                )
            for database_name in summary.published:
                say(f"published {database_name}", "published")
        if check:
            check(engine)


def _report(spec: Spec, run_report: RunReport) -> None:
    """What a run wrote, and what should be known of its input."""
    from sqlmetrics.jobs.schema import targets

    for note in run_report.notes:
        say(f"note: {note}", "note")
    name_by_table = targets(spec)
    days = f", {run_report.days}" if run_report.days else ""
    for table, rows in run_report.rows.items():
        say(f"{name_by_table[table]}: {many(rows, 'row')} of {spec.title}{days}", "replaced")
    if run_report.headline:
        day = f" on {run_report.last_day}" if run_report.last_day else ""
        values = [
            f"{metric_value(value)} {printable(system)}"
            for system, value in run_report.headline[:SYSTEMS]
        ]
        n_more = len(run_report.headline) - SYSTEMS
        systems = ", ".join(values) + (f" and {n_more:,} more" if n_more > 0 else "")
        say(f"{spec.measures[0]}{day}: {systems}; {run_report.seconds:.1f} s", "values")


def _print(spec: Spec, choice: Choice, location: Location) -> None:
    """The statements of the run that is not made: as the database is, where it can be asked."""
    from sqlmetrics.jobs.days import days_of
    from sqlmetrics.jobs.dry_run import dry_run
    from sqlmetrics.jobs.job import job_text
    from sqlmetrics.sql.dialects import dialect_named
    from sqlmetrics.sql.translation import Translation

    dialect = location.dialect
    try:
        database = location.reading(spec, is_needed=True)
    except SqlmetricsError as error:
        say(f"note: without zones, types and costs, since the database cannot be asked: {error}")
        translation = Translation(dialect_named(dialect))
        now = translation.expression(translation.dialect.times.now, "0")
        script = job_text(spec, translation, days_of(spec, choice.days), "'dry run'", now)
        click.echo(str(script), nl=False)
        return
    with database as engine:
        texts = [dry_run(spec, engine, part) for part in choice.parts(spec, engine)]
    if not texts:
        say(f"no day of {spec.title} is missing")
    click.echo("\n".join(texts), nl=False)
