"""The rows that metrics of groups are summed over: labels of a group, and where lists show them.

    labels ─> label_groups ─┬─> group_hits ─> shown_groups ─> evidence
                    ranked ─┘
              label_groups ──> ideal_groups_0 ─> ideal_groups_1 ─> ... ─> ideal_groups

A group is a subtopic, nugget, intent or evidence set: whatever an item may be relevant to
besides others. Only relevant labels are looked at, so the stages are there once for each `rel`.
The ideal order is chosen one by one, each time the item that adds the most: what no window can
tell at once. So every place of it is a stage, which reads the one before alone; as many as the
deepest cutoff has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from sqlmetrics.plan.expressions import novelty
from sqlmetrics.plan.needs import IDEAL_GROUPS, OF_GROUPS, SumStage
from sqlmetrics.sql.stage import Column, Stage, Window, commented, equal, print_template

_RELATIONS = ("label_groups", "group_hits", "shown_groups", "evidence")
"""The relations of groups of a list, each after those that it is made of."""


@dataclass(frozen=True)
class GroupRows:
    """The stages of the rows.

    Attributes:
        labels: The stage of labels, one row an item and group.
        label_keys: What a query's labels are identified by.
        keys: What a list is identified by.
        depth: The condition of a ranked row that is looked at, empty without one.
        places: How many places of the ideal order a stage chooses.
    """

    labels: str
    label_keys: tuple[str, ...]
    keys: tuple[str, ...]
    depth: str
    places: int = 1

    def stages(self, sums: Sequence[SumStage]) -> Iterator[Stage]:
        """Those that sums over groups need, each once and after those that it reads."""
        grouped = [sum_stage for sum_stage in sums if sum_stage.over in OF_GROUPS]
        for of_rel in dict.fromkeys(sum_stage.of_rel for sum_stage in grouped):
            same_rel = [sum_stage for sum_stage in grouped if sum_stage.of_rel == of_rel]
            maker_indexes = (
                _RELATIONS.index(sum_stage.over)
                for sum_stage in same_rel
                if sum_stage.over in _RELATIONS
            )
            makers = (self._labels, self._hits, self._shown_groups, self._evidence)
            for make in makers[: max(maker_indexes, default=0) + 1]:
                yield make(same_rel[0])
            for sum_stage in same_rel:
                if sum_stage.over == IDEAL_GROUPS:
                    yield from self._ideal(sum_stage)

    def _labels(self, sums: SumStage) -> Stage:
        size = f"cast(count(*) over {Window([*self.label_keys, 'group_id'])} as double)"
        view = {
            "about": "one row per relevant item of a group",
            "columns": [*self.label_keys, "item_id", "group_id", Column(size, "group_size")],
            "from": self.labels,
            "where": sums.relevant,
        }
        return Stage(f"label_groups{sums.of_rel}", "columns", view)

    def _hits(self, sums: SumStage) -> Stage:
        groups = f"label_groups{sums.of_rel}"
        keys = [f"ranked.{key}" for key in self.keys]
        above = Window([*keys, f"{groups}.group_id"], ["ranked.rnk asc"])
        view = {
            "columns": [
                *keys,
                "ranked.rnk",
                f"{groups}.group_id",
                f"{groups}.group_size",
                Column(f"row_number() over {above} - 1e0", "seen_above"),
            ],
            "groups": groups,
            "on": equal(groups, "ranked", (*self.label_keys, "item_id")),
            "where": f"ranked.{self.depth}" if self.depth else "",
        }
        return Stage(f"group_hits{sums.of_rel}", "group_hits", view)

    def _shown_groups(self, sums: SumStage) -> Stage:
        view = {"keys": self.keys, "hits": f"group_hits{sums.of_rel}"}
        return Stage(f"shown_groups{sums.of_rel}", "shown_groups", view)

    def _evidence(self, sums: SumStage) -> Stage:
        view = {
            "keys": self.keys,
            "hits": f"group_hits{sums.of_rel}",
            "shown_groups": f"shown_groups{sums.of_rel}",
            "on": equal("hits", "ranked", (*self.keys, "rnk")),
            "depth": f"ranked.{self.depth}" if self.depth else "",
            "closed_up": Window(self.keys, ["list_rank asc", "group_id asc"]),
        }
        return Stage(f"evidence{sums.of_rel}", "evidence", view)

    def _ideal(self, sums: SumStage) -> Iterator[Stage]:
        """The greedy order: every place of it, then its rows as those of a list."""
        keys = self.label_keys
        rows, last = f"label_groups{sums.of_rel}", sums.deepest or 0
        columns = [*keys, "item_id", "group_id"]
        start = {
            "about": "the items of the ideal order, none chosen yet",
            "columns": [*columns, Column("0", "ideal_rank"), Column("0e0", "n_above")],
            "from": rows,
            "where": "",
        }
        rows = f"{sums.rows}_0"
        yield Stage(rows, "columns", start)
        choice = {
            "columns": columns,
            "gain": novelty(sums.alpha, "n_above", last),
            "of_item": Window([*keys, "item_id"]),
            "best_first": Window(keys, ["open_gain desc", "item_id desc"]),
            "of_group": Window([*keys, "group_id"]),
        }
        for first in range(1, last + 1, self.places):
            places = range(first, min(first + self.places, last + 1))
            rank_text = f"rank {first}" if len(places) == 1 else f"ranks {first} to {places[-1]}"
            for rank in places:
                view = {**choice, "rank": rank, "about": rank_text, "from": rows}
                stage = Stage(f"{sums.rows}_{rank}", "ideal_rank", view)
                rows = _nested(stage)
            yield stage
            rows = stage.name
        above = Window([*keys, "group_id"], ["ideal_rank asc"])
        view = {
            "about": "the ideal order so far: its items by their groups",
            "columns": [
                *keys,
                Column("ideal_rank", "rnk"),
                "group_id",
                Column(f"row_number() over {above} - 1e0", "seen_above"),
            ],
            "from": rows,
            "where": "ideal_rank > 0",
        }
        yield Stage(sums.rows, "columns", view)


def _nested(stage: Stage) -> str:
    """A stage as a subquery of the next one."""
    _, select = commented(print_template(f"plan/{stage.template}", stage.view))
    return f"(\n{indent(select, ' ' * 12)}\n        ) as rank_{stage.view['rank']}"
