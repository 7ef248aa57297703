"""The stage `ranked`: the items of a list get their ranks by a window over every row.

That is right for every metric, on every database; `ranking_by_lists` has what is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import case

OCCURRENCE = "occurrence"
"""The column that says which time an item comes up in its list, where that matters."""


@dataclass(frozen=True)
class WindowRanking:
    """Ranks by a window over every row.

    Attributes:
        shape: What the tables hold.
        needs: What the metrics need.
        rankings: The stage of the rankings, without duplicates.
        labels: That of the labels.
    """

    shape: Shape
    needs: Needs
    rankings: str
    labels: str

    counted: ClassVar[str] = "list_sums"
    """The stage with one row per list."""

    def stages(self) -> Iterator[Stage]:
        """From the two tables to one row per ranked item."""
        yield self.stage("ranked")

    def in_order(self, name: str, view: Mapping[str, Any], order: str) -> Stage:
        """A stage of all grades of a list or a query with their ranks in an order.

        Args:
            name: Its name.
            view: The `keys` of a list, what its rows come `from`, and the like.
            order: What sorts them.
        """
        rank = Column(f"row_number() over {Window(view['keys'], [order])}", "rnk")
        columns = [*view["keys"], "grade", *view["read"], rank]
        return Stage(name, "columns", {**view, "columns": columns})

    def stage(self, name: str) -> Stage:
        """The stage of a name."""
        view = {
            "columns": [*dict.fromkeys(self._known()), *self._graded(), *self._ranks()],
            "rankings": self.rankings,
            "labels": self.labels,
            "on": self._on,
            "where": " and ".join(self._not_left_out()),
        }
        return Stage(name, "ranked", view)

    def _not_left_out(self) -> Iterator[str]:
        """The conditions of the items that are not left out."""
        options = self.shape.spec.options
        if options["unjudged"] == "condensed":
            yield f"{self.labels}.grade is not null"
        text = OPTIONS["identical_ids"].choice(options["identical_ids"]).sql
        if self.needs.border:
            yield self.needs.border.format(score=f"{self.rankings}.{self.shape.sorters[0]}")
        if text:
            query, item = (f"{self.rankings}.{name}" for name in ("query_id", "item_id"))
            yield text.format(item=item, query=query)

    @property
    def _on(self) -> list[str]:
        """What joins an item with its label: equalities alone, or DuckDB 1.4 tries each pair."""
        keys = (*self.shape.label_keys, "item_id")
        if not self.shape.numbers_repeats:
            return equal(self.labels, self.rankings, keys)
        item = f"{self.rankings}.item_id"
        first = f"case when {self.rankings}.{OCCURRENCE} = 1 then {item} end"
        return [
            *equal(self.labels, self.rankings, keys[:-1]),
            folded(f"{self.labels}.item_id = {first}", 60).replace("\n", "\n" + 8 * " "),
        ]

    def _known(self) -> Iterator[Column]:
        """The columns of the rankings that later stages read."""
        tied_by = [self.shape.sorters[0]] if self.needs.rows.has_ties else []
        item = ["item_id"] if self.needs.reads_item else []
        for name in (*self.shape.keys, *self.shape.listed_facts, *tied_by, *item):
            yield Column(f"{self.rankings}.{name}", name)
        if self.needs.reads_score:
            yield self._score()

    def _score(self) -> Column:
        """What pairs of items are compared by: the higher, the better."""
        if "rank" in self.shape.columns["rankings"]:
            return Column(f"-{self.rankings}.given_rank", "score")
        return Column(f"{self.rankings}.score", "score")

    def _graded(self) -> Iterator[Column]:
        yield Column(f"coalesce({self.labels}.grade, 0e0)", "grade")
        for name in self.needs.label_columns:
            yield Column(f"{self.labels}.{name}", name)
        if self.needs.reads_judged:
            flag = f"case when {self.labels}.grade is null then 0e0 else 1e0 end"
            yield Column(flag, "judged")
        if self.needs.rows.in_pool:
            flag = f"case when {self.labels}.item_id is null then 0e0 else 1e0 end"
            yield Column(flag, "in_pool")

    def _ranks(self) -> Iterator[Column]:
        over = Window([f"{self.rankings}.{key}" for key in self.shape.keys], list(self._order()))
        yield Column(f"row_number() over {over}", "rnk")
        if self.needs.rows.tied_rnk:
            yield Column(f"rank() over {Window(over.partition, over.order[:1])}", "tied_rnk")
        running = Window(over.partition, over.order, "unbounded preceding")
        for name, hit in self.needs.rows.running_hits.items():
            flag = case(f"{self.labels}.{hit}", "1e0")
            yield Column(f"sum({flag}) over {running}", name)
        if self.needs.rows.best_above:
            above = Window(over.partition, over.order, "unbounded preceding", "1 preceding")
            yield Column(f"max({self.labels}.grade) over {above}", "best_above")

    def _order(self) -> Iterator[str]:
        for column in self.shape.order:
            if column.startswith("grade "):
                yield f"coalesce({self.labels}.{column.replace(' ', ', 0e0) ')}"
            else:
                yield f"{self.rankings}.{column}"
        if self.shape.numbers_repeats:
            yield f"{self.rankings}.{OCCURRENCE} asc"
