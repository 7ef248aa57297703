"""The stage `ranked`: how the items of a list get their ranks.

Two physical plans give the same ranks:

- `Windowed`: a window function over every row. Right for every metric, on every database.
- `Listed`: an item without a label adds nothing to most metrics but its place. So a list
  keeps the sorted scores alone, and the rank of a labelled item is the place of its score
  among them. Where equal scores or longer lists leave the place open, a list is ranked by
  the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.needs import Needs
from sqlmetrics.shape import Shape
from sqlmetrics.stage import Column, Stage, Window, equal
from sqlmetrics.template import case

WINDOW, LISTS = "window", "lists"
PLANS = {
    WINDOW: "a window over every row; portable",
    LISTS: "the place of a labelled item's score among the sorted scores of its list; DuckDB",
}
"""The physical plans, and what they do."""

OPEN = "is_open"
"""The column of `placed` that says if a rank is not known yet."""


@dataclass(frozen=True)
class Windowed:
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

    def stages(self) -> Iterator[Stage]:
        """From the two tables to one row a ranked item."""
        yield self.stage("ranked")

    def in_order(self, name: str, view: Mapping[str, Any], order: str) -> Stage:
        """A stage of all grades of a list or a query with their ranks in an order.

        Args:
            name: Its name.
            view: The `keys` of a list, what its rows come `from`, and the like.
            order: What sorts them.
        """
        rank = Column(f"row_number() over {Window(view['keys'], [order])}", "rnk")
        return Stage(name, "chosen", {**view, "columns": [*view["keys"], "grade", rank]})

    def stage(self, name: str) -> Stage:
        """The stage of a name."""
        condensed = self.shape.spec.options["unjudged"] == "condensed"
        view = {
            "columns": [*dict.fromkeys(self._known()), *self._graded(), *self._ranks()],
            "rankings": self.rankings,
            "labels": self.labels,
            "on": self._on,
            "where": f"{self.labels}.grade is not null" if condensed else "",
        }
        return Stage(name, "ranked", view)

    @property
    def _on(self) -> list[str]:
        """What joins an item with its label."""
        return equal(self.labels, self.rankings, (*self.shape.label_keys, "item_id"))

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
        if self.needs.reads_judged:
            flag = f"case when {self.labels}.grade is null then 0e0 else 1e0 end"
            yield Column(flag, "judged")

    def _ranks(self) -> Iterator[Column]:
        over = Window([f"{self.rankings}.{key}" for key in self.shape.keys], list(self._order()))
        yield Column(f"row_number() over {over}", "rnk")
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


@dataclass(frozen=True)
class Listed(Windowed):
    """Ranks by the place of a score among those of its list.

    Attributes:
        longest: The last rank that is told: the deepest cutoff, or that of the longest list;
            lists that are longer still are then ranked by the window. One more score is
            kept, to see if it equals the last.
    """

    longest: int

    def stages(self) -> Iterator[Stage]:
        """From the two tables to one row a labelled item, and one a list without any."""
        keys, carried = self.shape.keys, self.shape.listed_facts
        yield self._listed_stage()
        yield _chosen("unfolded", "one row a labelled item of a list", self._unfolded(), "listed")
        yield _chosen("placed", _PLACED, self._placed(), "unfolded", hint="materialized")
        yield Stage("unsettled", "unsettled", {"keys": keys, "open": OPEN})
        rest = Windowed(self.shape, self.needs, "open_rankings", "open_labels")
        yield _in_unsettled(rest.rankings, self.rankings, keys)
        yield _in_unsettled(rest.labels, self.labels, self.shape.label_keys)
        yield rest.stage("settled")
        names = [*keys, *carried, *(one.name for one in (*self._graded(), *self._ranks()))]
        columns = [Column(name, name) for name in names]
        yield Stage("ranked", "united", {"columns": columns, "keys": keys})

    def in_order(self, name: str, view: Mapping[str, Any], order: str) -> Stage:
        """The same by lists of grades, which hold nothing else."""
        return Stage(name, "in_order", {**view, "order": order})

    @property
    def _sorter(self) -> str:
        return f"{self.rankings}.{self.shape.sorters[0]}"

    def _sorted(self, only: str = "") -> str:
        """A list's scores, best first."""
        best = "min" if self.shape.order[0].endswith(" asc") else "max"
        among = f" filter (where {only})" if only else ""
        return f"{best}({self._sorter}, {self.longest + 1}){among}"

    def _listed_stage(self) -> Stage:
        labels, hits = self.labels, self.needs.rows.running_hits
        counts = f"{labels}.grade {'is not null' if self.needs.reads_judged else '<> 0'}"
        columns = [Column(f"min({self.rankings}.{one})", one) for one in self.shape.listed_facts]
        columns.append(Column(self._sorted(), "scores"))
        for name, hit in hits.items():
            columns.append(Column(self._sorted(f"{labels}.{hit}"), f"scores_of_{name}"))
        columns += [
            Column(f"list({self._sorter})\n    filter (where {counts})", "labelled_scores"),
            Column(f"list({labels}.grade)\n    filter (where {counts})", "grades"),
        ]
        view = {
            "about": "one row a list: its sorted scores, and those of its labelled items",
            "keys": [f"{self.rankings}.{key}" for key in self.shape.keys],
            "columns": columns,
            "from": self.rankings,
            "joins": {labels: self._on},
            "where": "",
        }
        return Stage("listed", "sums", view)

    def _unfolded(self) -> Iterator[object]:
        yield from (*self.shape.keys, *self.shape.listed_facts, "scores")
        yield from (f"scores_of_{name}" for name in self.needs.rows.running_hits)
        yield Column("unnest(coalesce(labelled_scores, [null]))", "score")
        yield Column("unnest(coalesce(grades, [null]))", "label")
        yield Column("list_position(scores, score)", "rnk")

    def _placed(self) -> Iterator[object]:
        yield from (*self.shape.keys, *self.shape.listed_facts)
        yield Column("coalesce(label, 0e0)", "grade")
        if self.needs.reads_judged:
            yield Column("case when label is null then 0e0 else 1e0 end", "judged")
        yield "rnk"
        for name in self.needs.rows.running_hits:
            yield Column(f"list_position(scores_of_{name}, score)", name)
        yield Column(self._is_open(), OPEN)

    def _is_open(self) -> str:
        """Whether an item's place is not its rank: another has its score, or it has no place."""
        deepest = self.needs.sums["retrieved"].deepest
        is_cut = deepest and deepest <= self.longest
        no_place = "score is null" if is_cut else f"coalesce(rnk > {self.longest}, true)"
        no_place = f"label is not null and {no_place}"
        return f"coalesce(scores[rnk + 1] = score, false)\n    or {no_place}"


_PLACED = "a rank is the place of a score; a list without a label has a row without a rank"


def _in_unsettled(name: str, table: str, keys: Sequence[str]) -> Stage:
    """The rows of a table that belong to unsettled lists: mostly none, and then none is read."""
    return Stage(name, "open", {"from": table, "keys": keys})


def _chosen(
    name: str, about: str, columns: Iterator[object] | Sequence[object], table: str, hint: str = ""
) -> Stage:
    view = {"columns": list(columns), "from": table, "about": about, "where": ""}
    return Stage(name, "chosen", view, hint)
