"""The stage `ranked` of a click log that tells the ranks of answered items, on DuckDB.

A log that was cleaned tells at which rank of its list an answered item stood, wherever the items
of a request stand at one position after the other. No item without a label is read then, and no
list is joined with its labels; the window ranks the other lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlmetrics.plan.ranking import WindowRanking
from sqlmetrics.plan.ranking_by_lists import SortedLists
from sqlmetrics.sql.stage import Column, Stage, Window
from sqlmetrics.sql.template import case


@dataclass(frozen=True)
class ShownRanks(SortedLists):
    """Ranks as a click log tells them, and those of a window for lists of which it does not."""

    counted: ClassVar[str] = "list_sums"

    def stages(self) -> Iterator[Stage]:
        """From the log to one row per labelled item, and one a list without any."""
        keys = self.shape.label_keys
        yield self.shape.shown_ranks(list(self._told()))
        yield self._other_lists()
        yield Stage("open_rankings", "open", {"from": self.rankings, "keys": keys})
        yield Stage("open_labels", "open", {"from": self.labels, "keys": keys})
        if self.screened:
            yield Stage("list_checks", "open_checks", {})
        window_ranking = WindowRanking(self.shape, self.needs, "open_rankings", "open_labels")
        yield window_ranking.stage("window_ranks")
        names = [
            *self.shape.keys,
            *self.shape.listed_facts,
            *(column.name for column in self._told()),
        ]
        columns = [Column(name, name) for name in names]
        yield Stage("ranked", "both_ranks", {"columns": columns, "from": "shown_ranks"})

    def in_order(self, name: str, view: Mapping[str, Any], order: str) -> Stage:
        """The same by a window: the labels of a request are too few for a list to pay."""
        return WindowRanking.in_order(self, name, view, order)

    def _other_lists(self) -> Stage:
        """The requests of the lists that the log does not vouch for."""
        lists = self.shape.at.shown_lists
        view = {
            "about": "irregular requests: a window ranks their lists",
            "columns": [Column("request_id", "query_id")],
            "from": lists.others if lists else "",
            "where": "",
        }
        return Stage("open_lists", "columns", view)

    def _told(self) -> Iterator[Column]:
        """What the log tells of a rank beside its list."""
        yield Column("coalesce(grade, 0e0)", "grade")
        if self.needs.reads_judged:
            yield Column("case when grade is null then 0e0 else 1e0 end", "judged")
        yield Column("rnk", "rnk")
        down = Window(["query_id"], ["rnk"], "unbounded preceding")
        for name, hit in self.needs.rows.running_hits.items():
            yield Column(f"sum({case(hit, '1e0')}) over {down}", name)
