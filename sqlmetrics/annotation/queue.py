"""The order in which items are graded: the most valuable first, or in turns that are fair to runs.

In turns each list gives one item after the other, and an item's turn is the earliest in which a
list gives it. By depth that is its rank: whoever grades the first turns pools all lists to a depth.
By `move-to-front` (Cormack, Palmer and Clarke, 1998) it is how many items of the list, from the
first to itself, are not known to be relevant: a list stays in front while its items are good, and
each that is not, or is not graded yet, sends it a turn back. A list with a share of 2 gives two
items a turn. In a turn the queries with the fewest rows come first, and then a lot decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite
from typing import Any

from sqlmetrics.annotation.pool import lot, rankings_alone
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError, shortened, unknown
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.stage import Column, Stage, Window, with_columns, with_stages
from sqlmetrics.sql.template import literal, number
from sqlmetrics.tables.table import many

VALUE, DEPTH, MOVE_TO_FRONT = ORDERS = ("value", "depth", "move-to-front")
"""What comes first: what is most valuable, or the earliest turn."""

TURN = "turn"
REL = 1.0
"""The lowest relevant grade, where nobody says."""

_SEED = 1
_PLACE = "place"


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
        column = Column(f"row_number() over {over}", _PLACE)
        return [replace(pool, name="shown"), with_columns("pool", "shown", about, [column])]

    @property
    def sorters(self) -> list[str]:
        """What the rows of the stage `pool` are ordered by, before their ids."""
        return [f"pool.{TURN} asc", f"pool.{_PLACE} asc", "pool.lot asc"] if self.has_turns else []

    @property
    def where(self) -> str:
        """The condition on the rows of the stage `pool`."""
        return "" if self.per_query is None else f"pool.{_PLACE} <= {self.per_query}"

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
