"""What each source of candidates finds, and what it alone finds, as stages of SQL.

A row of the rankings has a list of the sources that found its item. Each source has a list of its
own then, as a stage of a funnel has, and all of them together have one more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.comparison.funnel.losses import Losses
from sqlmetrics.comparison.statements import columns_stage, segments_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.shape import STAGE
from sqlmetrics.plan.tables import FunnelStages
from sqlmetrics.sql.relation import Relation, protect_query, source_text
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.sql.template import free_name, identifier, literal

# Which stages a funnel has, and in which order: as given, or by the size of their lists.


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


NO_LISTS = ("VARCHAR", "BIGINT", "INTEGER", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP")
"""Types of columns that hold no list."""

EVERY = "all sources"
"""What the list of all sources together is called."""


def of_sources(plan: Plan, column: str, engine: Database) -> Plan:
    """The plan of each source's lists.

    Args:
        plan: The plan of the same tables.
        column: The column of the rankings that lists the sources of an item.
        engine: Where the tables are.

    Raises:
        SpecError: If there is no such column, it holds no lists, or the database has none.
        InputError: If there is no source.
    """
    plan_tables = plan.shape.at
    existing_columns = check_column(
        plan, column, engine, "the sources of an item (sources, --sources)"
    )
    unfolded = plan_tables.translation.dialect.unfolded
    if not unfolded:
        raise SpecError(
            f"{plan_tables.translation.dialect.title} cannot read lists of sources; give one "
            "table per source, as stages of a funnel"
        )
    kinds = {name.casefold(): kind for name, kind in existing_columns.items()}
    if (kind := kinds[column.casefold()]) in NO_LISTS:
        raise SpecError(
            f"rankings: {column} is {kind}, but sources must be a list in each row, like ['bm25', "
            "'popular']; split a text in the sql of the rankings, or give one table per source"
        )
    name = free_name("source", {existing.casefold() for existing in existing_columns}.__contains__)
    expression = unfolded.format(column=identifier(column), one=literal(EVERY))
    select = f"select *, {expression} as {name} from {source_text(plan_tables.rankings)}"
    unnested = Relation("query", select, plan_tables.rankings.ordered, plan_tables.rankings.columns)
    tables = replace(plan_tables, rankings=unnested, funnel=FunnelStages(name))
    sizes = list_sizes(planned(plan.spec, tables), engine)
    names = sorted(sizes.keys() - {EVERY}, key=lambda source: (-sizes[source], source))
    if not names:
        raise InputError(f"rankings: {column} has no source in any row")
    return planned(plan.spec, replace(tables, funnel=FunnelStages(name, (*names, EVERY))))


@dataclass(frozen=True)
class SourceSums(Losses):
    """What each source finds of the relevant items, and what no other one does."""

    counted = ("n_found", "n_unique")

    def _stages(self) -> Iterator[Stage]:
        yield from self._found_stages()
        yield self._item_sources()
        yield self._found_counts()
        yield self._values()
        yield self._counted_values()
        yield self._shares()
        yield self._funnel()

    def _item_sources(self) -> Stage:
        over = Window([*self.path, "item_id"])
        columns: list[object] = [
            *self.plan.shape.keys,
            Column(f"count(*) over {over}", "n_lists"),
        ]
        about = "in how many lists an item stands: of its sources, and of all together"
        return columns_stage("item_sources", about, columns, "found_items")

    def _found_counts(self) -> Stage:
        columns = [
            Column("count(*)", "n_found"),
            Column("sum(case when n_lists = 2 then 1 else 0 end)", "n_unique"),
        ]
        about = "one row per list with a relevant item: counts of them, also of one source only"
        keys = self.plan.shape.keys
        return sums_stage("found_counts", about, keys, columns, "item_sources")

    def _counted_values(self) -> Stage:
        columns: list[object] = ["stage_values.*", Column(self.is_counted, "is_counted")]
        about = "and whether the query counts"
        return columns_stage("counted_values", about, columns, "stage_values")

    def _shares(self) -> Stage:
        columns: list[object] = [
            *self.systems,
            *self.plan.shape.facts,
            *(STAGE, "stage_number", "is_ranked", "is_counted", "n_items", "n_relevant"),
            *self.counted,
            *(
                Column(self.of_relevant(name), share)
                for name, share in (("n_found", "recall"), ("n_unique", "unique_recall"))
            ),
            *(measure.column for measure in self.measures),
        ]
        about = "the relevant items that a source finds, and those that no other source finds"
        return columns_stage("shares", about, columns, "counted_values")

    def _funnel(self) -> Stage:
        keys: tuple[list[str], list[str]] = self.systems, [STAGE, "stage_number"]
        sums = [
            *self.sizes(),
            *(Column(f"sum(is_counted * {name})", name) for name in ("n_relevant", *self.counted)),
            *(Column(self.mean(name), name) for name in ("recall", "unique_recall")),
            *(Column(self.mean(measure.column), measure.column) for measure in self.measures),
        ]
        about = "one row per system, segment and source"
        return segments_stage("funnel", about, keys, sums, "shares", segments=self.segments)
