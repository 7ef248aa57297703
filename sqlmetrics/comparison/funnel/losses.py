"""Which relevant items each stage of a funnel keeps and loses, as stages of SQL.

    rankings ─┬> list_sizes ───────────────────────────────┐
    labels ───┴> found_items ─> item_paths ─> found_counts ─┼─> stage_values ─> losses ─> funnel
    per_query ──────────────────────────────────────────────┘

An item is lost at the stage behind the last one that has it, so that what is lost at all stages and
what is left at the last one are all relevant items, whatever leaves and comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlmetrics.catalog.measure import Measure, parse
from sqlmetrics.comparison.statements import chosen_if, columns_stage, segments_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.population import FUNNEL, funnel_stages
from sqlmetrics.plan.ranking import WindowRanking
from sqlmetrics.plan.segments import Segment
from sqlmetrics.plan.shape import STAGE, segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.plan.tables import FunnelStages
from sqlmetrics.sql.relation import Relation, protect_query, source_text
from sqlmetrics.sql.stage import Column, Stage, Window, equal, with_stages
from sqlmetrics.sql.template import free_name, identifier, literal, number
from sqlmetrics.tables.table import printable

COUNTS = ("n_relevant", "n_found", "n_kept", "n_lost")
"""What is counted of relevant items at a stage."""


@dataclass(frozen=True)
class Losses:
    """What becomes of the relevant items, stage by stage.

    Attributes:
        plan: The plan of the evaluation, of lists that come through stages.
        measures: The metrics; each has a value for a query.
        rel: The lowest grade of a relevant item.
    """

    plan: Plan
    measures: tuple[Measure, ...]
    rel: float

    counted: ClassVar[tuple[str, ...]] = ("n_found", "n_kept", "n_last")
    """What is counted of the relevant items of a list."""

    @property
    def path(self) -> tuple[str, ...]:
        """What a query's lists of all stages have in common."""
        return tuple(key for key in self.plan.shape.keys if key != STAGE)

    @property
    def systems(self) -> list[str]:
        """The column of systems, if there is one."""
        return [key for key in self.path if key == "system"]

    @property
    def segments(self) -> list[Segment]:
        """Name, value and column of every segment; `all` has no column."""
        segments = [(name, segment(name), [segment(name)]) for name in self.plan.spec.by]
        return [(ALL, literal(ALL), []), *segments]

    def query(self) -> tuple[list[Stage], str]:
        """The stages beside `per_query`, and the select of one row per system, segment, stage."""
        return [*self.plan.lists, *self._stages()], "select *\nfrom funnel"

    def _found_stages(self) -> Iterator[Stage]:
        """From the tables to the relevant items that lists have."""
        yield funnel_stages(self.plan.shape)
        yield from self._ranked_stages()
        yield self._relevant()
        yield self._relevant_counts()
        yield self._found_stage()

    def _stages(self) -> Iterator[Stage]:
        yield from self._found_stages()
        yield self._paths()
        yield self._found_counts()
        yield self._values()
        yield self._before()
        yield self._losses()
        yield self._funnel()

    # -- the lists -----------------------------------------------------------------------

    @property
    def _depth(self) -> str:
        """The condition that a ranked row is looked at, empty without a depth."""
        return self.plan.needs.depth

    @property
    def _rows(self) -> str:
        """The stage of the rows of the lists."""
        return "shown_items" if self._cuts else self.plan.tables[0]

    @property
    def _cuts(self) -> bool:
        """Whether rows of the rankings are not looked at."""
        return bool(self._depth or self.plan.needs.border)

    def _ranked_stages(self) -> Iterator[Stage]:
        """The rows that are looked at, where not all are; how many each list has."""
        keys = self.plan.shape.keys
        if self._cuts:
            rankings, labels = self.plan.tables
            ranking = WindowRanking(self.plan.shape, self.plan.needs, rankings, labels)
            ranked = ranking.stage("ranked_items")
            item = [] if self.plan.needs.reads_item else [f"{rankings}.item_id"]
            view = {**ranked.view, "columns": [*ranked.view["columns"], *item]}
            yield Stage("ranked_items", ranked.template, view)
            about = "the rows of the funnel"
            columns = [*keys, "item_id"]
            yield columns_stage("shown_items", about, columns, "ranked_items", self._depth)
        about, counted = "one row per list: its items", [Column("count(*)", "n_items")]
        yield sums_stage("list_sizes", about, keys, counted, self._rows)

    def _relevant(self) -> Stage:
        columns: list[object] = [*self.plan.shape.label_keys, "item_id"]
        about, where = "one row per relevant item of a query", f"grade >= {number(self.rel)}"
        return columns_stage("relevant_items", about, columns, self.plan.tables[1], where)

    def _relevant_counts(self) -> Stage:
        about, columns = (
            "one row per query with a relevant item",
            [Column("count(*)", "n_relevant")],
        )
        keys = self.plan.shape.label_keys
        return sums_stage("relevant_counts", about, keys, columns, "relevant_items")

    def _found_stage(self) -> Stage:
        keys, rows = self.plan.shape.keys, self._rows
        on = (*self.plan.shape.label_keys, "item_id")
        columns = [Column(f"{rows}.{key}", key) for key in (*keys, "item_id")]
        view = {
            "about": "one row per list and relevant item in it",
            "columns": [*columns, f"{FUNNEL}.stage_number"],
            "from": rows,
            "joins": {
                "relevant_items": equal("relevant_items", rows, on),
                FUNNEL: equal(FUNNEL, rows, (STAGE,)),
            },
        }
        return Stage("found_items", "comparison/joins", {**view, "kind": "inner"})

    # -- what becomes of an item -----------------------------------------------------------

    def _paths(self) -> Stage:
        item, order = [*self.path, "item_id"], ["stage_number asc"]
        above = Window(item, order, "1 preceding", "1 preceding")
        columns: list[object] = [
            *self.plan.shape.keys,
            "stage_number",
            Column(f"max(stage_number) over {above}", "stage_before"),
            Column(f"max(stage_number) over {Window(item)}", "last_stage"),
        ]
        about = "which stage had the item before, and which has it last"
        return columns_stage("item_paths", about, columns, "found_items")

    def _found_counts(self) -> Stage:
        is_kept = "case when stage_before = stage_number - 1 then 1 else 0 end"
        columns = [
            Column("count(*)", "n_found"),
            Column(f"sum({is_kept})", "n_kept"),
            Column("sum(case when stage_number = last_stage then 1 else 0 end)", "n_last"),
        ]
        about = "one row per list with a relevant item: counts of them, also by the stage before"
        keys = self.plan.shape.keys
        return sums_stage("found_counts", f"{about} theirs", keys, columns, "item_paths")

    # -- what becomes of a query -----------------------------------------------------------

    def _values(self) -> Stage:
        shape, needs = self.plan.shape, self.plan.needs
        labelled = "per_query.is_labelled" if needs.counts_unlabelled else "1"
        columns: list[object] = [
            *(f"per_query.{name}" for name in (*shape.keys, *shape.facts)),
            f"{FUNNEL}.stage_number",
            Column(labelled, "is_labelled"),
            "per_query.is_ranked",
            Column("coalesce(list_sizes.n_items, 0)", "n_items"),
            Column("coalesce(relevant_counts.n_relevant, 0)", "n_relevant"),
            *(Column(f"coalesce(found_counts.{name}, 0)", name) for name in self.counted),
        ]
        for measure in self.measures:
            flags = needs.population(self.plan.spec.settings(measure).measure)
            only = " and ".join(f"per_query.{flag} = 1" for flag in flags)
            value = f"per_query.{measure.column}"
            columns.append(Column(chosen_if(only, value) if only else value, measure.column))
        view = {
            "about": "one row per query, system and stage: its relevant items",
            "columns": columns,
            "from": "per_query",
            "joins": {
                FUNNEL: equal(FUNNEL, "per_query", (STAGE,)),
                "list_sizes": equal("list_sizes", "per_query", shape.keys),
                "relevant_counts": equal("relevant_counts", "per_query", shape.label_keys),
                "found_counts": equal("found_counts", "per_query", shape.keys),
            },
        }
        return Stage("stage_values", "comparison/joins", {**view, "kind": "left"})

    def _before(self) -> Stage:
        above = Window(self.path, ["stage_number asc"], "1 preceding", "1 preceding")
        path_window = Window(self.path)
        columns: list[object] = [
            *self.systems,
            *self.plan.shape.facts,
            *("stage", "stage_number", "is_ranked", "n_items", "n_relevant", "n_found", "n_kept"),
            Column(self.is_counted, "is_counted"),
            Column(f"max(n_found) over {above}", "n_found_before"),
            Column(f"max(n_last) over {above}", "n_last_before"),
            Column(f"n_relevant - sum(n_last) over {path_window}", "n_nowhere"),
            *(measure.column for measure in self.measures),
        ]
        about = "the relevant items of the stage before, and those of no stage"
        return columns_stage("stages_before", about, columns, "stage_values")

    def _losses(self) -> Stage:
        columns: list[object] = [
            *self.systems,
            *self.plan.shape.facts,
            *("stage", "stage_number", "is_ranked", "is_counted", "n_items", *COUNTS[:-1]),
            # A count has no sign on ClickHouse, and a difference has one.
            Column("coalesce(cast(n_last_before as bigint), n_nowhere)", "n_lost"),
            Column(self.of_relevant("n_found"), "recall"),
            Column(
                chosen_if("is_counted = 1", "1e0 * n_kept / nullif(n_found_before, 0)"), "retention"
            ),
            *(measure.column for measure in self.measures),
        ]
        about = "an item is lost after its last stage; the first stage loses the items of no stage"
        return columns_stage("losses", about, columns, "stages_before")

    @property
    def is_counted(self) -> str:
        """1 for a query that counts: it has a label and, unless empty lists count, some list."""
        path_window = Window(self.path)
        labelled = f"min(is_labelled) over {path_window}"
        drops = self.plan.spec.options["missing"] == "drop"
        return f"{labelled} * max(is_ranked) over {path_window}" if drops else labelled

    def of_relevant(self, count: str) -> str:
        """The share of a query's relevant items, where the query has some or as `no_relevant` says.

        Args:
            count: The column of how many they are.
        """
        policy = self.plan.spec.settings(parse("recall@1")).choice("no_relevant").sql
        value = f"1e0 * {count} / nullif(n_relevant, 0)"
        parameters = {"value": value, "count": "n_relevant", "is_ranked": "is_ranked"}
        return chosen_if("is_counted = 1", policy.format(**parameters))

    # -- what becomes of all -----------------------------------------------------------------

    @property
    def _weight(self) -> str:
        return "weight" if "weight" in self.plan.shape.facts else "1e0"

    def mean(self, value: str) -> str:
        """A weighted mean over the rows that have a value."""
        weight = self._weight
        top = value if weight == "1e0" else f"{weight} * {value}"
        bottom = f"sum(case when {value} is not null then {weight} end)"
        return f"sum({top}) / {bottom}" if len(top) < 30 else f"sum({top})\n    / {bottom}"

    def sizes(self) -> Iterator[Column]:
        """How many queries there are, and how long their lists."""
        items, lists = "sum(is_counted * n_items)", "sum(is_counted * is_ranked)"
        yield Column("sum(is_counted)", "n_queries")
        yield Column("sum(is_counted * (1 - is_ranked))", "n_missing")
        yield Column(f"1e0 * {items}\n    / nullif({lists}, 0)", "list_size")

    def _funnel(self) -> Stage:
        keys: tuple[list[str], list[str]] = self.systems, ["stage", "stage_number"]
        n_lost, relevant = "sum(is_counted * n_lost)", "sum(is_counted * n_relevant)"
        sums = [
            *self.sizes(),
            *(Column(f"sum(is_counted * {name})", name) for name in COUNTS),
            Column(f"1e0 * {n_lost}\n    / nullif({relevant}, 0)", "lost_share"),
            *(Column(self.mean(name), name) for name in ("recall", "retention")),
            *(Column(self.mean(measure.column), measure.column) for measure in self.measures),
        ]
        about = "one row per system, segment and stage"
        return segments_stage("funnel", about, keys, sums, "losses", segments=self.segments)


# What each source of candidates finds, and what it alone finds, as stages of SQL.
#
# A row of the rankings has a list of the sources that found its item. Each source has a list of its
# own then, as a stage of a funnel has, and all of them together have one more.

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
    sizes = list_sizes(make_plan(plan.spec, replace(tables, funnel=FunnelStages(column))), engine)
    for name in names:
        if name not in sizes:
            raise InputError(f"this stage has no rows: {unknown('stage', name, sizes)}")
    order = tuple(names) or _by_size(sizes)
    notes = _note(sizes, names)
    return make_plan(plan.spec, replace(tables, funnel=FunnelStages(column, order))), notes


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
            f"{' and '.join(map(printable, alike[:2]))} have lists of the same size, so it is "
            "unclear which comes "
            f"first ({_listed(sizes)}); give the order (order, --order)"
        )
    return tuple(sorted(sizes, key=lambda name: -sizes[name]))


def _listed(sizes: Mapping[str, float]) -> str:
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{printable(name)} {size:,.1f}" for name, size in largest)


def _note(sizes: Mapping[str, float], names: Sequence[str]) -> list[str]:
    if not names:
        return [
            "stages are ordered by the mean size of all their lists, also of queries without a "
            f"label: {_listed(sizes)}; set another order with --order"
        ]
    ignored = ", ".join(printable(name) for name in sizes if name not in names)
    return [f"these stages are not in the order and are left out: {ignored}"] if ignored else []


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
    expression = unfolded.format(column=identifier(column), element=literal(EVERY))
    select = f"select *, {expression} as {name} from {source_text(plan_tables.rankings)}"
    unnested = Relation("query", select, plan_tables.rankings.ordered, plan_tables.rankings.columns)
    tables = replace(plan_tables, rankings=unnested, funnel=FunnelStages(name))
    sizes = list_sizes(make_plan(plan.spec, tables), engine)
    names = sorted(sizes.keys() - {EVERY}, key=lambda source: (-sizes[source], source))
    if not names:
        raise InputError(f"rankings: {column} has no source in any row")
    return make_plan(plan.spec, replace(tables, funnel=FunnelStages(name, (*names, EVERY))))


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
