"""What the systems show: the stage `ranked` of a plan, with items and whether they are labelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, shortened, unknown
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.relation import Relation, source_text, unmentioned
from sqlmetrics.sql.stage import Column, Stage, Window, equal, with_columns, with_stages
from sqlmetrics.sql.template import literal, number
from sqlmetrics.tables.table import many

# What a spec says of queries and items beside their ids: texts, titles, weights, segments.
#
# This is the one place that knows where they stand: in the rankings, in the table `queries`
# or in the table `items`.

ROLES = {"query_text": "queries", "item_title": "items"}
"""What a column of texts comes from."""


@dataclass(frozen=True)
class QueryContext:
    """Where the segments and the weight of a query stand.

    Attributes:
        columns: Fact -> the column that has it, with its table.
        joins: The tables that must be joined for them, with their conditions.
    """

    columns: Mapping[str, str]
    joins: Mapping[str, list[str]]

    @property
    def weight(self) -> str:
        """The column of the weights, empty without weights."""
        return self.columns.get("weight", "")


def facts(shape: Shape, rankings: str) -> QueryContext:
    """The facts of the queries, for a select from a stage that has the rankings' own.

    Args:
        shape: What the tables hold.
        rankings: The stage that is selected from.
    """
    query_facts = shape.facts_of_queries
    listed = {name: f"{rankings}.{name}" for name in shape.facts if name not in query_facts}
    if not query_facts:
        return QueryContext(listed, {})
    queries = shape.names["queries"]
    columns = listed | {name: f"{queries}.{name}" for name in query_facts}
    ordered = {name: columns[name] for name in shape.facts}
    return QueryContext(ordered, {queries: equal(queries, rankings, shape.keys_of_queries)})


def texts(plan: Plan, engine: Database) -> dict[str, Stage]:
    """The stages with the texts that people read, for those that the spec has.

    Returns:
        `query_text` and `item_title`, each with the stage of the columns (`query_id`,
        `query_text`) or (`item_id`, `item_title`), one row per id. If an id has several
        texts it is the first in the order of the alphabet.

    Raises:
        InputError: If a table cannot be read or has not the columns.
    """
    text_sources = {
        "query_text": (plan.spec.queries, "query", "text", "query"),
        "item_title": (plan.spec.items, "item", "title", "item"),
    }
    stages: dict[str, Stage] = {}
    for column, (source, role, text, about) in text_sources.items():
        if source is not None and getattr(source.columns, text):
            relation = source_relation(source, f"{column}s", engine)
            column_by_role = {key: getattr(source.columns, key) for key in (role, text)}
            check_columns(ROLES[column], relation, column_by_role, engine)
            view = {
                "about": f"{about}: its {text}",
                "key": getattr(source.columns, role),
                "id": f"{role}_id",
                "text": getattr(source.columns, text),
                "id_text": column,
                "source": source_text(relation),
                "where": engine.translation.condition(source.where or ""),
            }
            stages[column] = Stage(
                unmentioned(f"{column}s", [*plan.shape.tables.values(), relation]),
                "annotation/lookup",
                view,
            )
    return stages


def check_columns(
    table: str, relation: Relation, column_by_role: Mapping[str, str], engine: Database
) -> None:
    """Refuse a table that lacks columns.

    Args:
        table: Its name, for messages.
        relation: Where it is.
        column_by_role: Role -> column.
        engine: What reads it.

    Raises:
        InputError: If it cannot be read or a column is not there; the nearest is told.
    """
    existing_columns = engine.columns(source_text(relation))
    folded = {name.casefold() for name in existing_columns}
    missing = [
        (role, name) for role, name in column_by_role.items() if name.casefold() not in folded
    ]
    if missing:
        problems = [
            f"{table}: {unknown('column', n, existing_columns)} (used as {r})" for r, n in missing
        ]
        raise InputError(problems)


def check_rankings(plan: Plan, engine: Database) -> None:
    """Refuse tables, the labels apart, that lack columns.

    Raises:
        InputError: As `check_columns` does.
    """
    checks.check_columns(plan, engine, ignored_tables=("labels",))


def stages(plan: Plan, *, with_labels: bool = True, with_grades: bool = False) -> list[Stage]:
    """The plan's stages up to `ranked`, whose rows get `item_id` and `is_labelled`.

    An item with a label of any kind is labelled, and an item without one keeps its place
    also where the spec would leave it out of the lists (unjudged=condensed).

    Args:
        plan: The plan of the evaluation.
        with_labels: Whether labels are looked at; without them nothing is labelled, and
            the labels need not be there yet.
        with_grades: Whether rows get their `grade` too, NULL without a label.
    """
    names = [stage.name for stage in plan.per_query]
    before, ranked = plan.per_query[: names.index("ranked")], plan.per_query[names.index("ranked")]
    rankings, labels = ranked.view["rankings"], ranked.view["labels"]
    rank = next(
        column for column in ranked.view["columns"] if getattr(column, "name", column) == "rnk"
    )
    weight = facts(plan.shape, rankings).weight
    columns = [
        *(Column(f"{rankings}.{key}", key) for key in (*plan.shape.keys, "item_id")),
        *([Column(weight, "weight")] if weight == f"{rankings}.weight" else []),
        Column(f"case when {labels}.query_id is null then 0 else 1 end", "is_labelled"),
        *([Column(f"{labels}.grade", "grade")] if with_grades else []),
        rank,
    ]
    inputs = plan.inputs if with_labels else without_labels(plan, plan.inputs)
    view = {**ranked.view, "columns": columns, "where": ""}
    return [*inputs, *before, Stage("ranked", "ranked", view)]


def lot(plan: Plan, seed: int, keys: Sequence[str], prefix: str = "") -> str:
    """The random number of a query or a pair; the same on every engine.

    Args:
        plan: The plan of the evaluation.
        seed: Another seed gives other numbers.
        keys: The columns that it is identified by.
        prefix: What stands before the names of the columns.
    """
    texts = {"metric_date": f"cast({prefix}metric_date as varchar)"}
    key_sql = " || '|' || ".join(texts.get(key, f"{prefix}{key}") for key in keys)
    translation = plan.translation
    return translation.expression(translation.dialect.hashed, f"{literal(f'{seed}|')} || {key_sql}")


def rankings_alone(plan: Plan) -> list[Stage]:
    """The tables without the labels."""
    return [stage for stage in plan.inputs if stage.name != plan.shape.names["labels"]]


def without_labels(plan: Plan, stages: Sequence[Stage]) -> list[Stage]:
    """The stages with a table of labels that has no row, which need not be there."""
    name = plan.shape.names["labels"]
    types = {"metric_date": "date", "grade": "double"}
    keys = (*plan.shape.labelled_keys, "grade")
    columns = [Column(f"cast(null as {types.get(key, 'varchar')})", key) for key in keys]
    empty = Stage(name, "annotation/no_labels", {"columns": columns})
    return [empty if stage.name == name else stage for stage in stages]


# The order in which items are graded: the most valuable first, or in turns that are fair to runs.
#
# In turns each list gives one item after the other, and an item's turn is the earliest in which a
# list gives it. By depth that is its rank: whoever grades the first turns pools all lists to a
# depth.
# By `move-to-front` (Cormack, Palmer and Clarke, 1998) it is how many items of the list, from the
# first to itself, are not known to be relevant: a list stays in front while its items are good, and
# each that is not, or is not graded yet, sends it a turn back. A list with a share of 2 gives two
# items a turn. In a turn the queries with the fewest rows come first, and then a lot decides.

VALUE, DEPTH, MOVE_TO_FRONT = ORDERS = ("value", "depth", "move-to-front")
"""What comes first: what is most valuable, or the earliest turn."""

TURN = "turn"
REL = 1.0
"""The lowest relevant grade, where nobody says."""

_SEED = 1
_POOL_RANK = "pool_rank"


@dataclass(frozen=True)
class Queue:
    """Which rows of a pool a sheet has, and in what order.

    Attributes:
        order: One of ORDERS.
        limit: How many rows at most; None for all.
        per_query: How many rows of a query (and day, where labels have one) at most.
        shares: System -> how many items it gives a turn; others give one.
        rel: The lowest relevant grade of move-to-front.
    """

    order: str = VALUE
    limit: int | None = None
    per_query: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    rel: float | None = None

    def check(self) -> None:
        """Raise SpecError for a number that is none, or options that contradict."""
        if self.order not in ORDERS:
            raise SpecError(unknown("order", self.order, ORDERS))
        for name, value in (("limit", self.limit), ("per_query", self.per_query)):
            check_count(name, 1 if value is None else value)
        for system, share in self.shares.items():
            if not (isfinite(share) and share > 0):
                raise SpecError(
                    f"the share of {shortened(system)!r} must be a number above 0, given {share}"
                )
        if self.shares and not self.has_turns:
            raise SpecError(
                "--share says how many items a system gives a turn; add --order depth or "
                "move-to-front, or leave it out"
            )
        if self.rel is not None and self.order != MOVE_TO_FRONT:
            raise SpecError("--rel is of --order move-to-front; leave it out")

    @property
    def has_turns(self) -> bool:
        """Whether rows come in turns."""
        return self.order != VALUE

    @property
    def reads_grades(self) -> bool:
        """Whether the order hangs on grades."""
        return self.order == MOVE_TO_FRONT

    def check_systems(self, plan: Plan, engine: Database) -> None:
        """Raise SpecError for a share of a system that the rankings do not have."""
        if not self.shares:
            return
        if "system" not in plan.shape.keys:
            raise SpecError(
                "--share is of systems, and the rankings have none; name their column (--system)"
            )
        rankings = plan.shape.names["rankings"]
        select = f"select distinct system from {rankings} order by system"
        rows = engine.rows(with_stages(rankings_alone(plan), select))
        systems = [str(system) for (system,) in rows]
        for name in self.shares:
            if name not in systems:
                raise SpecError(f"--share: {unknown('system', shortened(name), systems)}")

    def lists(self, plan: Plan, stages: Sequence[Stage]) -> list[Stage]:
        """The stages up to `ranked`, whose rows get the turn in which their list gives them."""
        *before, ranked = stages
        if self.order != MOVE_TO_FRONT:
            return [*stages]
        rel = number(REL if self.rel is None else self.rel)
        over = Window(plan.shape.keys, ["rnk asc"], "unbounded preceding")
        column = Column(f"sum(case when grade >= {rel} then 0 else 1 end) over {over}", "misses")
        about = "misses: the items from the first to this that are not known to be relevant"
        return [
            *before,
            replace(ranked, name="lists"),
            with_columns("ranked", "lists", about, [column]),
        ]

    @property
    def columns(self) -> list[Column]:
        """The turn of an item, over all lists that show it."""
        if not self.has_turns:
            return []
        turn = "misses" if self.order == MOVE_TO_FRONT else "rnk"
        if self.shares:
            cases = [
                f"    when ranked.system = {literal(system)} then {_double(share)}"
                for system, share in self.shares.items()
            ]
            turn = "\n".join([f"\n{turn} / case", *cases, "    else 1e0", "end\n"]).replace(
                "\n", "\n    "
            )
            turn = turn.rstrip(" ")
        return [Column(f"min({turn})", TURN)]

    def placed(self, plan: Plan, pool: Stage, value: str) -> list[Stage]:
        """The stage `pool`, whose rows get their place among those of their query.

        Args:
            plan: The plan of the evaluation.
            pool: The stage that has the items.
            value: Their value, rounded.
        """
        if not self.has_turns and self.per_query is None:
            return [pool]
        keys = (*plan.shape.label_keys, "item_id")
        order = [f"{value} desc"]
        if self.has_turns:
            hashed = Column(lot(plan, _SEED, keys, "ranked."), "lot")
            pool = replace(pool, view={**pool.view, "columns": [*pool.view["columns"], hashed]})
            order = [f"{TURN} asc", "lot asc"]
        over = Window(plan.shape.label_keys, [*order, "item_id asc"])
        about = "the items of a query in their order"
        column = Column(f"row_number() over {over}", _POOL_RANK)
        return [
            replace(pool, name="pool_items"),
            with_columns("pool", "pool_items", about, [column]),
        ]

    @property
    def sorters(self) -> list[str]:
        """What the rows of the stage `pool` are ordered by, before their ids."""
        return (
            [f"pool.{TURN} asc", f"pool.{_POOL_RANK} asc", "pool.lot asc"] if self.has_turns else []
        )

    @property
    def where(self) -> str:
        """The condition on the rows of the stage `pool`."""
        return "" if self.per_query is None else f"pool.{_POOL_RANK} <= {self.per_query}"

    def notes(self, turns: Sequence[tuple[Any, float]], k: int) -> Iterator[str]:
        """What a sheet in turns holds.

        Args:
            turns: The query and the turn of each row of the sheet.
            k: The depth of the pool.
        """
        share = " of a share of 1" if self.shares else ""
        depth = self.depth(turns, k)
        yield (
            f"each list{share} is labelled or in the sheet down to rank {depth:,}"
            if depth
            else f"the sheet has not even the first item of each list{share}"
        )
        if self.limit is not None and len(turns) < self.limit:
            bounds = f"-k {k}" if self.per_query is None else f"-k {k} and --per-query"
            rows = f"{len(turns):,} of {many(self.limit, 'row')}"
            yield f"the sheet has {rows}: there are no more within {bounds}"

    def depth(self, turns: Sequence[tuple[Any, float]], k: int) -> int:
        """The rank down to which each list of share 1 is graded or in the sheet.

        Args:
            turns: The query and the turn of each row of the sheet.
            k: The depth of the pool.
        """
        last: dict[Any, float] = {}
        n_rows: dict[Any, int] = {}
        for query, turn in turns:
            last[query] = max(turn, last.get(query, turn))
            n_rows[query] = n_rows.get(query, 0) + 1
        cut = [last[query] for query, n in n_rows.items() if n == self.per_query]
        if len(turns) == self.limit:
            cut.append(max(last.values(), default=inf))
        return min(k, ceil(min(cut, default=inf)) - 1) if cut else k


def _double(value: float) -> str:
    """A number as an SQL DOUBLE that divides as one."""
    text = number(value)
    return text if "e" in text else f"{text}e0"
