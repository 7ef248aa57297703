"""What each source of candidates finds, and what it alone finds, as stages of SQL.

A row of the rankings has a list of the sources that found its item. Each source has a list of its
own then, as a stage of a funnel has, and all of them together have one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlmetrics.comparison.funnel.losses import Losses
from sqlmetrics.comparison.funnel.stage_order import check_column, list_sizes
from sqlmetrics.comparison.statements import columns_stage, segments_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.shape import STAGE
from sqlmetrics.plan.tables import FunnelStages
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Column, Stage, Window
from sqlmetrics.sql.template import free_name, identifier, literal

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
