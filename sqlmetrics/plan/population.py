"""Who must answer what: the queries that are evaluated for a system on a day.

    label_sums ─┐
    query_days ─┼─> query_systems
    systems ────┘

A query counts for a system on a day on which any system, or the queries table, has it. Which
systems count on a day is told by that day alone, so that the numbers of a day do not depend on
the other days that a run looks at; `absent_systems=missing` looks at the system's first and last
day besides. A request of a click log belongs to the system that served it, and to no other.
Where lists come through stages, a query counts at each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.shape import APPEARANCES, STAGE, Shape
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal

FUNNEL = "funnel_stages"
"""The stage that names the stages of a funnel."""


def funnel_stages(shape: Shape) -> Stage:
    """The stages that every list comes through, also where one has no row at all."""
    names = shape.at.funnel.names if shape.at.funnel else ()
    return Stage(FUNNEL, "funnel_stages", {"names": [literal(name) for name in names]})


@dataclass(frozen=True)
class Population:
    """The stages to one row per query and system that counts.

    Attributes:
        shape: What the tables hold.
        needs: What the metrics need.
    """

    shape: Shape
    needs: Needs

    @property
    def stage(self) -> str:
        """The stage whose rows are evaluated: every labelled query, where that is all."""
        if self.needs.counts_unlabelled:
            return "query_systems"
        if self._as_served:
            return self.needs.lists
        return "label_sums" if self.shape.keys == ("query_id",) else "query_systems"

    @property
    def labelled(self) -> tuple[str, ...]:
        """The stages without a row of which none of these counts: a list without a label."""
        return ("label_sums",) if self.stage == self.needs.lists else ()

    def stages(self) -> Iterator[Stage]:
        """All of them; none where every labelled query counts, or every list of one."""
        if self.stage != "query_systems":
            return
        if not self._as_served:
            yield from self._query_days_stages()
            yield from self._system_stages()
            if self.shape.at.funnel:
                yield funnel_stages(self.shape)
        yield self._query_systems_stage()

    @property
    def _as_served(self) -> bool:
        """Whether only the system that has the list of a query can answer it."""
        return self.shape.of_one_system and self.shape.keys != ("query_id",)

    @property
    def answered(self) -> str:
        """The stage that has the days, queries and systems of all lists, and facts of queries.

        The lists themselves; where a stage is computed anew for each reader, and they are what
        comes of a sort and a join of all rows, these rows as they are.
        """
        lists, tables = self.needs.lists, self.shape.at
        if lists == "list_sums" and tables.translation.dialect.inlines_stages:
            return lists if tables.shown_lists else self.shape.names["rankings"]
        return lists

    @property
    def _is_dated(self) -> bool:
        return "metric_date" in self.shape.keys

    @property
    def _is_searched_alone(self) -> bool:
        """Whether a query may be searched on a day that the rankings have not."""
        return self._is_dated and "metric_date" in self.shape.keys_of_queries

    @property
    def _has_systems(self) -> bool:
        return "system" in self.shape.keys or self._is_searched_alone

    def _query_days_stages(self) -> Iterator[Stage]:
        if self._is_dated:
            queries = [self.shape.names["queries"]] if self._is_searched_alone else []
            tables = [self.answered, *queries]
            view = {"keys": self.shape.query_keys, "tables": tables}
            yield Stage("query_days", "query_days", view)

    def _system_stages(self) -> Iterator[Stage]:
        groups = self.shape.lives
        if not self._has_systems:
            return
        if self.shape.spans_pauses:
            life_keys = [key for key in groups if key != "metric_date"]
            yield Stage("lifetimes", "lifetimes", {"keys": life_keys, "from": APPEARANCES})
            yield Stage("systems", "systems_of_lifetimes", {"keys": life_keys})
            return
        view = {
            "about": " and ".join({"metric_date": "day"}.get(key, key) for key in groups),
            "keys": groups,
            "from": APPEARANCES if self.shape.looks_for_systems else self.answered,
            "system_columns": [
                Column(f"unnest([{', '.join(values)}])", key)
                for key, values in self.shape.bucket.systems.items()
            ],
        }
        yield Stage("systems", "systems", view)

    def _query_systems_stage(self) -> Stage:
        shape, lists = self.shape, self.needs.lists
        view = {
            "keys": [f"{self._origin(key)}.{key}" for key in shape.keys],
            "joins": dict(self._joins()),
            "flag": ["1 as is_labelled"] if self.needs.counts_unlabelled else [],
            "lists": lists,
            "ranked_keys": [f"{lists}.{key}" for key in shape.keys],
            "unlabelled": equal("label_sums", lists, shape.label_keys),
        }
        return Stage("query_systems", "query_systems", view)

    def _origin(self, key: str) -> str:
        """The stage that a key of an evaluated query is taken from."""
        if self._as_served:
            return self.needs.lists
        origins = {"metric_date": "query_days", "system": "systems", "query_id": "label_sums"}
        return {**origins, STAGE: FUNNEL}[key]

    def _joins(self) -> Iterator[tuple[str, list[str]]]:
        """What is joined with the labelled queries, and by what; by nothing means with all."""
        labels = self.shape.label_keys
        if self._as_served:
            yield self.needs.lists, equal(self.needs.lists, "label_sums", labels)
            return
        if self._is_dated:
            yield "query_days", equal("query_days", "label_sums", labels)
        if self._has_systems:
            days = ("metric_date",) if self._is_dated else ()
            yield "systems", equal("systems", "query_days", days)
        if self.shape.at.funnel:
            yield FUNNEL, []
