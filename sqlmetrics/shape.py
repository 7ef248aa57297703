"""What the two tables of a spec hold: their columns, what identifies a list, what sorts it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count

from sqlmetrics.conventions import OPTIONS
from sqlmetrics.errors import SpecError
from sqlmetrics.inputs import Relation
from sqlmetrics.spec import Spec
from sqlmetrics.stage import Column, Stage
from sqlmetrics.template import identifier


def segment(name: str) -> str:
    """The column of a segment in the stages; no user's name can clash with ours."""
    return identifier(f"by_{name}")


@dataclass(frozen=True)
class Shape:
    """The shape of the input.

    Attributes:
        spec: What was asked.
        rankings: Where the rankings are.
        labels: Where the labels are.
    """

    spec: Spec
    rankings: Relation
    labels: Relation

    @cached_property
    def tables(self) -> dict[str, Relation]:
        """The two tables by name."""
        return {"rankings": self.rankings, "labels": self.labels}

    @cached_property
    def columns(self) -> dict[str, dict[str, str]]:
        """Table -> role -> the source's column, for the roles that the table has."""
        return {"rankings": self._ranking_columns(), "labels": self._label_columns()}

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """What a ranked list is identified by."""
        has = self.columns["rankings"]
        date = ("metric_date",) if "date" in has else ()
        return date + (("system",) if "system" in has else ()) + ("query_id",)

    @cached_property
    def query_keys(self) -> tuple[str, ...]:
        """What a query is identified by, whichever system answers it."""
        return tuple(key for key in self.keys if key != "system")

    @cached_property
    def label_keys(self) -> tuple[str, ...]:
        """What a query's labels are identified by."""
        return (("metric_date",) if "date" in self.columns["labels"] else ()) + ("query_id",)

    @cached_property
    def facts(self) -> tuple[str, ...]:
        """Columns that belong to a query as a whole: its segments and its weight."""
        weight = ("weight",) if "weight" in self.columns["rankings"] else ()
        return tuple(segment(name) for name in self.spec.by) + weight

    @cached_property
    def order(self) -> tuple[str, ...]:
        """What sorts a list: its score or rank, then the rule for ties."""
        tie = OPTIONS["ties"].choice(self.spec.options["ties"]).sql
        return ("given_rank asc" if "rank" in self.columns["rankings"] else "score desc", tie)

    @cached_property
    def sorters(self) -> tuple[str, ...]:
        """The columns of `order`."""
        return tuple(column.split()[0] for column in self.order)

    @cached_property
    def names(self) -> dict[str, str]:
        """What the stages of the two tables are called: names that no source mentions.

        A CTE hides a table of its own name, so that `labels: {relation: rankings}` would
        read our stage instead of the user's table.
        """
        return {
            "rankings": self._unmentioned("rankings"),
            "labels": self._unmentioned("labels"),
        }

    def stages(self) -> tuple[Stage, Stage]:
        """The two tables, as the other stages and the input checks read them."""
        return (
            self._stage("rankings", self._select_rankings(), self.rankings),
            self._stage("labels", self._select_labels(), self.labels),
        )

    def _unmentioned(self, name: str) -> str:
        texts = [one.place for one in (self.rankings, self.labels) if one.is_sql]
        names = chain([name], (f"{name}_{number}" for number in count(2)))
        mentions = re.compile(r"\w+").findall(" ".join(texts).casefold())
        return next(free for free in names if free not in mentions)

    def problems(self) -> Iterator[str]:
        """What the spec asks for that its tables cannot give."""
        has = self.columns
        ordered = self.rankings.ordered or "rank" in has["rankings"]
        if self.spec.options["ties"] == "input_order" and not ordered:
            yield (
                "ties=input_order needs rows in an order: a rank column, a file or a "
                "DataFrame; a table or query of a database has none"
            )
        if "date" in has["labels"] and "date" not in has["rankings"]:
            yield "the labels have a date column, the rankings have none"

    def checked(self) -> Shape:
        """The shape itself, if nothing is wrong with it.

        Raises:
            SpecError: Else.
        """
        problems = list(self.problems())
        if problems:
            raise SpecError(problems)
        return self

    def _ranking_columns(self) -> dict[str, str]:
        columns = self.spec.rankings.columns
        order = "rank" if columns.rank else "score"
        named = {"query": columns.query, "item": columns.item, order: columns.order}
        for role in ("system", "date", "weight"):
            if getattr(columns, role):
                named[role] = getattr(columns, role)
        fixed = {r: name for r, name in self.rankings.columns if r != "score" or r in named}
        return named | fixed

    def _label_columns(self) -> dict[str, str]:
        columns = self.spec.labels.columns
        named = {"query": columns.query, "item": columns.item, "grade": columns.grade}
        date = {"date": columns.date} if columns.date else {}
        return named | date | dict(self.labels.columns)

    def _stage(self, name: str, columns: Iterator[Column], relation: Relation) -> Stage:
        return Stage(self.names[name], name, {"columns": list(columns), "relation": relation})

    def _select_rankings(self) -> Iterator[Column]:
        has = {role: identifier(name) for role, name in self.columns["rankings"].items()}
        if "date" in has:
            yield Column(f"cast({has['date']} as date)", "metric_date")
        if "system" in has:
            yield Column(f"cast({has['system']} as varchar)", "system")
        yield Column(f"cast({has['query']} as varchar)", "query_id")
        yield Column(f"cast({has['item']} as varchar)", "item_id")
        yield self._sorting(has)
        if "input_order" in self.sorters:
            yield Column("row_number() over ()" if self.rankings.ordered else "1", "input_order")
        for name in self.spec.by:
            yield Column(f"cast({identifier(name)} as varchar)", segment(name))
        if "weight" in has:
            yield Column(f"cast({has['weight']} as double)", "weight")

    def _sorting(self, has: dict[str, str]) -> Column:
        if "rank" in has:
            return Column(f"cast({has['rank']} as bigint)", "given_rank")
        precision = OPTIONS["score_precision"].choice(self.spec.options["score_precision"])
        return Column(precision.sql.format(score=has["score"]), "score")

    def _select_labels(self) -> Iterator[Column]:
        has = {role: identifier(name) for role, name in self.columns["labels"].items()}
        if "date" in has:
            yield Column(f"cast({has['date']} as date)", "metric_date")
        yield Column(f"cast({has['query']} as varchar)", "query_id")
        yield Column(f"cast({has['item']} as varchar)", "item_id")
        yield Column(f"cast({has['grade']} as double)", "grade")
