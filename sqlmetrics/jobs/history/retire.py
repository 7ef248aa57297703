"""A spec that runs no more: its rows go into the archives, or for good, and its views go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import NoDataError, SpecError
from sqlmetrics.jobs.archives.archive import keeps
from sqlmetrics.jobs.exchange import ALL_DAYS, TableRows
from sqlmetrics.jobs.history.logged_change import LoggedChange
from sqlmetrics.jobs.history.objects import DatabaseObject, dependents, views_of
from sqlmetrics.jobs.provenance import UNNAMED, Provenance
from sqlmetrics.jobs.schema import COUNTED
from sqlmetrics.jobs.tables import archives, check_own, columns_of, targets
from sqlmetrics.spec.days import day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import identifier, lines, literal, relation


@dataclass(frozen=True)
class Retirement:
    """What a spec has in its tables.

    Attributes:
        rows: Table by its name -> the rows of the spec that go.
        first: The first day of the fact table.
        last: The last one.
        views: The views of this spec alone.
        are_kept: Whether the archives keep these rows.
    """

    rows: Mapping[str, int]
    first: date | None
    last: date | None
    views: Sequence[DatabaseObject]
    are_kept: bool

    @property
    def n_rows(self) -> int:
        """All rows together."""
        return sum(self.rows.values())


def retirement(spec: Spec, engine: Database, *, for_good: bool = False) -> Retirement:
    """What `retire` would remove; nothing is changed.

    Args:
        spec: Whose rows, with its `output`.
        engine: Where its tables are.
        for_good: Whether the archives lose its rows too.

    Raises:
        NoDataError: If the tables have no row of the spec, and there is no view of it.
    """
    with engine:
        check_own(spec, engine)
        name_by_table = {table: name for table, name in targets(spec).items() if table in COUNTED}
        tables = [*name_by_table.values(), *(archives(spec).values() if for_good else ())]
        rows = {name: _count(spec, engine, name) for name in tables if columns_of(name, engine)}
        views = views_of(spec, engine, [spec.title])
        if not any(rows.values()) and not views:
            raise NoDataError(f"{targets(spec)['facts']} has no row of {spec.title}")
        first, last = engine.rows(
            f"select min(metric_date), max(metric_date) from {relation(name_by_table['facts'])}\n"
            f"where spec = {literal(spec.title)}"
        )[0]
        are_kept = keeps(spec, engine.translation) and not for_good
        start, end = (day_of(day) if day is not None else None for day in (first, last))
        return Retirement(rows, start, end, views, are_kept)


def retire(
    spec: Spec,
    engine: Database,
    expected: int | None = None,
    *,
    for_good: bool = False,
    provenance: Provenance = UNNAMED,
) -> str:
    """Remove a spec's rows and the views of it alone, in one transaction where there are any.

    It is a run in the log, and can be taken back as long as the archives have its rows. Rows of
    other specs, the run log, and what the metrics and definitions mean stay.

    Args:
        spec: Whose rows, with its `output`.
        engine: Where its tables are.
        expected: How many rows go; None if nobody looks.
        for_good: Whether the archives lose its rows too.
        provenance: What the run log says of whoever does it.

    Returns:
        The id of the run.

    Raises:
        NoDataError: If the tables have no row of the spec.
        SpecError: If there are more or fewer rows, or another view reads one of those that go.
        EngineError: If a table cannot be written.
    """
    with engine:
        translation = engine.translation
        planned_retirement = retirement(spec, engine, for_good=for_good)
        views = [view.name for view in planned_retirement.views]
        if blockers := dependents(engine, views):
            raise SpecError(blockers)
        end = [view.dropped(translation) for view in planned_retirement.views]
        if for_good:
            own_rows = f"spec = {literal(spec.title)}"
            archive_names = [
                name for name in archives(spec).values() if name in planned_retirement.rows
            ]
            end += [
                f"delete from {translation.name(name)} where {own_rows}" for name in archive_names
            ]

        def check() -> None:
            n = retirement(spec, engine, for_good=for_good).n_rows
            if expected not in (None, n):
                raise SpecError(
                    f"{spec.title} now has {n:,} rows, not {expected:,}; nothing is removed"
                )

        change = LoggedChange(spec, engine, "retired", provenance)
        change.carry_out(_nothing(spec, engine), ALL_DAYS, check, end=end, is_kept=not for_good)
    return change.run_id


def _count(spec: Spec, engine: Database, name: str) -> int:
    where = f"spec = {literal(spec.title)}"
    return int(engine.rows(f"select count(*) from {relation(name)} where {where}")[0][0])


def _nothing(spec: Spec, engine: Database) -> dict[str, TableRows]:
    """No row for any table whose rows are of days."""
    rows_by_table = {}
    for table, name in targets(spec).items():
        if table in COUNTED:
            names = columns_of(name, engine)
            column_lines = lines(map(identifier, names))
            rows_by_table[table] = TableRows(
                names, f"select\n    {column_lines}\nfrom {relation(name)}\nwhere 1 = 0"
            )
    return rows_by_table
