"""The tables of an evaluation, each as what stands behind FROM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.source import Queries
from sqlmetrics.spec.zones import Zones
from sqlmetrics.sql.relation import Relation, protect_query
from sqlmetrics.sql.translation import Translation


@dataclass(frozen=True)
class FunnelStages:
    """The stages that a query's lists go through, each of which has a list of its own.

    Attributes:
        column: The column of the rankings that names a row's stage.
        names: The stages, the first one first; empty for all, in no order.
    """

    column: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownLists:
    """What a click log tells of lists of which every item stands where it was shown.

    Attributes:
        ranks: A relation of their labelled items: query_id, what else the rankings have of a
            list, grade and rnk; a list without a label has one row without these two.
        others: A relation of the requests of all other lists, request_id.
        facts: The columns of the first that may be segments.
    """

    ranks: str
    others: str
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tables:
    """The tables of an evaluation; those of the queries and the items need not be there.

    Attributes:
        rankings: The ranked items.
        labels: The graded items.
        queries: What is known of queries.
        items: What is known of items.
        translation: The dialect of the database that they are in.
        ends: Of the days that are looked at, where a table has days; None for all.
        notes: What should be known of how they are read.
        zones: Table -> the zone whose days its times have, for those that have times with one.
        day_kinds: Table -> the type of its column of days, where that is known and it is compared
            as it is.
        funnel: The stages that lists go through; None where a query has one list a system.
        shown_lists: What a click log tells of the ranks; None where the rankings are to be read.
        systems: The names of tables that are a system each, as they were given; else empty.
        trace_queries: What `queries` has, where it is what traces say of their queries, and the
            spec names no such table; else None.
    """

    rankings: Relation
    labels: Relation
    queries: Relation | None = None
    items: Relation | None = None
    translation: Translation = field(default_factory=Translation)
    ends: Ends | None = None
    zones: Zones = field(default_factory=dict)
    day_kinds: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    funnel: FunnelStages | None = None
    shown_lists: ShownLists | None = None
    systems: tuple[str, ...] = ()
    trace_queries: Queries | None = None

    def on(self, ends: Ends | None) -> Tables:
        """The same, of some days alone; None for all."""
        return replace(self, ends=ends)

    @property
    def on_all_days(self) -> Tables:
        """The same, of all days, in whatever files they are."""
        return replace(
            self,
            rankings=self.rankings.of_all_files,
            labels=self.labels.of_all_files,
            queries=self.queries and self.queries.of_all_files,
            ends=None,
        )

    def shown(self, relation: Relation) -> Relation:
        """A table as the compiler prints it: a query of the user's is hidden from translation."""
        return protect_query(relation, self.translation)
