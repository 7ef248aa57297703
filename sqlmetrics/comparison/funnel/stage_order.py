"""Which stages a funnel has, and in which order: as given, or by the size of their lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlmetrics.comparison.statements import sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.shape import STAGE
from sqlmetrics.plan.tables import FunnelStages
from sqlmetrics.sql.relation import protect_query, source_text
from sqlmetrics.sql.stage import Column, with_stages


def check_order(names: Sequence[str], runs: Collection[str]) -> None:
    """Raise SpecError for an order that is none.

    Args:
        names: The stages in order; none where the tables say it.
        runs: The stages that have a table of their own, if any has.
    """
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SpecError(f"order names the stage {twice!r} twice; name it once")
    for name in names if runs else ():
        if name not in runs:
            raise SpecError(unknown("stage", name, runs))
    if len(names) == 1:
        raise SpecError(_alone(names))


def _alone(names: Sequence[str]) -> str:
    return f"there is only one stage, {', '.join(names)}; a funnel needs two or more"


def in_stages(
    plan: Plan, column: str, names: Sequence[str], engine: Database
) -> tuple[Plan, list[str]]:
    """The plan of lists that come through stages, and what should be said of these.

    Args:
        plan: The plan of the same tables without stages.
        column: The column of the rankings that names a row's stage.
        names: The stages in order; none for the order of their sizes.
        engine: Where the tables are.

    Raises:
        SpecError: If there is no such column, or the sizes give no order.
        InputError: If a stage has no row, or a row no stage.
    """
    check_column(plan, column, engine, "the stage of a row (stage, --stage-column)")
    tables = plan.shape.at
    sizes = list_sizes(planned(plan.spec, replace(tables, funnel=FunnelStages(column))), engine)
    for name in names:
        if name not in sizes:
            raise InputError(f"this stage has no rows: {unknown('stage', name, sizes)}")
    order = tuple(names) or _by_size(sizes)
    notes = _note(sizes, names)
    return planned(plan.spec, replace(tables, funnel=FunnelStages(column, order))), notes


def check_column(plan: Plan, column: str, engine: Database, purpose: str) -> Mapping[str, str]:
    """The columns of the rankings and their types; one of them is wanted.

    Args:
        plan: The plan of an evaluation of them.
        column: The one.
        engine: Where they are.
        purpose: What it is wanted as.

    Raises:
        SpecError: If it is not there, or is something else.
    """
    rankings = plan.shape.at.rankings
    existing_columns = engine.columns(source_text(protect_query(rankings, engine.translation)))
    if column.casefold() not in map(str.casefold, existing_columns):
        raise SpecError(
            f"rankings: {unknown('column', column, existing_columns)} (used as {purpose})"
        )
    role_by_column = {value: role for role, value in plan.shape.columns["rankings"].items()}
    if column in role_by_column:
        raise SpecError(f"rankings: {column!r} is the {role_by_column[column]} (used as {purpose})")
    return existing_columns


def list_sizes(plan: Plan, engine: Database) -> dict[str, float]:
    """Stage -> the mean number of rows of its lists.

    Args:
        plan: The plan of lists by stages.
        engine: Where the tables are.

    Raises:
        InputError: If a row has no stage.
    """
    rankings, about = plan.shape.names["rankings"], "one row per list: its rows"
    counted = [Column("count(*)", "n_items")]
    lists = sums_stage("list_sizes", about, plan.shape.keys, counted, rankings)
    size = "1e0 * sum(n_items) / count(*) as list_size"
    select = f"select stage, {size}\nfrom list_sizes\ngroup by stage"
    rows = engine.records(with_stages([*plan.inputs, lists], select))
    if any(row["stage"] is None for row in rows):
        column = plan.shape.columns["rankings"][STAGE]
        raise InputError(f"rankings: {column} is NULL in some rows; leave these rows out (where)")
    return {
        row["stage"]: float(row["list_size"])
        for row in sorted(rows, key=lambda row: str(row["stage"]))
    }


def _by_size(sizes: Mapping[str, float]) -> tuple[str, ...]:
    """The stages, that of the largest lists first.

    Raises:
        SpecError: If there are not two, or two have lists of the same size.
    """
    if len(sizes) < 2:
        raise SpecError(_alone(list(sizes)))
    alike = [name for name, size in sizes.items() if [*sizes.values()].count(size) > 1]
    if alike:
        raise SpecError(
            f"{' and '.join(alike[:2])} have lists of the same size, so it is unclear which comes "
            f"first ({_listed(sizes)}); give the order (order, --order)"
        )
    return tuple(sorted(sizes, key=lambda name: -sizes[name]))


def _listed(sizes: Mapping[str, float]) -> str:
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {size:,.1f}" for name, size in largest)


def _note(sizes: Mapping[str, float], names: Sequence[str]) -> list[str]:
    if not names:
        return [
            f"stages are ordered by the size of their lists: {_listed(sizes)}; set another "
            "order with --order"
        ]
    ignored = [name for name in sizes if name not in names]
    return (
        [f"these stages are not in the order and are left out: {', '.join(ignored)}"]
        if ignored
        else []
    )
