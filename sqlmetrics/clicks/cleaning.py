"""A click log -> the stages that clean it: impressions of users, and what was done with them.

    impressions ─> impressions_read ─> user_impressions ─> clean_impressions ─┐
                     └─> excluded_requests └─> deduplicated ─┘                ├─> attributed_events
    events ──────> events_read ───────────────────────────────────────────────┘

Only what is small is kept in tables: requests that are left out, the impressions of requests in
which something is amiss, and the events. The impressions themselves are read where they are;
only a wide table without requests is copied once, with its rows numbered, so that an impression
and what was done with it have one number. A job of some days reads the requests of those days
alone; but bots are looked for in the events of all, since who is one is one on every day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.catalog.online import Online
from sqlmetrics.clicks.columns import EVENT, NUMBER, Names
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Column, Stage, with_stages
from sqlmetrics.sql.template import literal, number, verbatim

NUMBERED, CHOSEN, BOTS, EXCLUDED, DEDUPLICATED, ATTRIBUTED = (
    f"sqlmetrics_{name}"
    for name in (
        *("numbered_log", "chosen_requests", "bots"),
        *("excluded_requests", "deduplicated", "attributed_events"),
    )
)
"""Tables that are kept while a log is worked on."""

CHOOSING = (NUMBERED, CHOSEN)
"""Those that say which rows are looked at."""


@dataclass(frozen=True)
class KeptTable:
    """A table that is kept: its name, and the stages that make it.

    Attributes:
        name: Its name.
        stages: The stages; the last one's rows are kept.
    """

    name: str
    stages: tuple[Stage, ...]

    @property
    def text(self) -> str:
        """Its rows as a query."""
        return with_stages(self.stages, f"select *\nfrom {self.stages[-1].name}")


@dataclass(frozen=True)
class ClickTables:
    """The stages of a click log.

    Attributes:
        clicks: What was said of it.
        impressions: Where the impressions are.
        events: Where the events are; the same in a wide table.
        names: What the columns are called there.
        requests: Where the requests are, if they are known.
        unnumbered: A wide table without requests; impressions and events are then read from
            its numbered copy.
        only_days: Whether only requests of the days that count are read. The report of a log
            counts what was cleaned on all days.
    """

    clicks: Clicks
    names: Names
    impressions: Relation
    events: Relation
    requests: Relation | None = None
    unnumbered: Relation | None = None
    only_days: bool = False

    def kept(self) -> Iterator[KeptTable]:
        """The tables to keep, each after those that it reads."""
        if self.unnumbered:
            order = [self.names.impressions[role] for role in ("item", "position")]
            view = {"order": order, "request": NUMBER, "relation": self.unnumbered}
            yield KeptTable(NUMBERED, (self._stage("numbered", "numbered", **view),))
        if self._days:
            yield KeptTable(CHOSEN, (self._chosen(),))
        if self.bots:
            found = self._stage("bot_users", "bots", most=self._most)
            yield KeptTable(BOTS, (self._events_read(of_all_days=True), found))
        if self.leaves_out:
            view = {"bots": BOTS if self.bots else ""}
            found = self._stage("excluded_requests", "excluded_requests", **view)
            yield KeptTable(EXCLUDED, (*self._impressions_read(), found))
        yield KeptTable(DEDUPLICATED, tuple(self._deduplicated()))
        yield KeptTable(ATTRIBUTED, tuple(self._attributed()))

    def check(self, asked: Sequence[Online]) -> None:
        """Raise SpecError if the log has not what online metrics need."""
        has = {"requests": self.requests is not None, "time": self.names.has_times, "": True}
        lacks = [one for one in asked if not has[one.metric.needs]]
        if lacks:
            needs = {"requests": "the requests, also those without a result", "time": "times"}
            what = "; ".join(f"{one} needs {needs[one.metric.needs]}" for one in lacks)
            raise SpecError(f"the log lacks what metrics need: {what}")

    def shown(self) -> Iterator[Stage]:
        """The impressions that are left."""
        yield from self.kept_impressions()
        known = [*self.names.logged, "position"]
        view = {
            "columns": [Column(f"user_impressions.{name}", name) for name in known],
            "names": known,
            "deduplicated": DEDUPLICATED,
        }
        yield self._stage("clean_impressions", "clean_impressions", **view)

    def left(self) -> Iterator[Stage]:
        """The impressions that are left, without those that nobody looked at."""
        yield from self.shown()
        if self.clicks.cleaning.unseen is not None:
            view = {"attributed_events": ATTRIBUTED, "unseen": self.clicks.cleaning.unseen}
            yield self._stage("seen_impressions", "seen_impressions", **view)

    @property
    def last(self) -> str:
        """The last stage of the impressions that are left."""
        seen = self.clicks.cleaning.unseen is not None
        return "seen_impressions" if seen else "clean_impressions"

    def asked(self) -> Iterator[Stage]:
        """The requests of the impressions that are left: what was asked, and when."""
        yield self._stage("request_queries", "request_queries", impressions=self.last)

    def evaluated(self) -> Iterator[Stage]:
        """The impressions that are left, of the requests that are evaluated."""
        yield from self.left()
        days = self.clicks.evaluation
        if days is not None:
            yield from self.asked()
            when = days.holds("request_queries.started_at")
            view = {"impressions": self.last, "days": days, "when": when}
            yield self._stage("evaluated_impressions", "evaluated_impressions", **view)

    @property
    def evaluates(self) -> str:
        """The last stage of the impressions that are evaluated."""
        return self.last if self.clicks.evaluation is None else "evaluated_impressions"

    def answered(self) -> Iterator[Stage]:
        """The impressions that are evaluated, and `answers` on them."""
        yield from self.evaluated()
        yield from self.answers()

    def answers(self) -> Iterator[Stage]:
        """What was done with an impression."""
        view = {"attributed_events": ATTRIBUTED, "click": CLICK, "purchase": PURCHASE}
        yield self._stage("answers", "answers", **view)

    def all_requests(self) -> Iterator[Stage]:
        """The requests that are evaluated, also those without a result."""
        if self.requests is None:
            return
        days = self.clicks.evaluation
        view = {
            "columns": list(self.names.request_columns()),
            "relation": self.requests,
            "conditions": [*self._conditions("requests", of_all_days=True), *self._readable],
            "key": self.names.requests["request"],
            "having": days.holds(self.names.first_time) if days else (),
        }
        yield self._stage("requests", "requests", **view)

    def sources(self, *, of_all_days: bool = False) -> dict[str, str]:
        """`impressions`, `events` and `requests` -> their rows that are read, for FROM."""
        given = {"impressions": self.impressions, "events": self.events, "requests": self.requests}
        if self.clicks.log is not None:
            del given["events"]  # the same rows
        return {
            table: source_text(
                relation,
                " and ".join(
                    self._conditions(table, of_all_days=of_all_days or table == "requests")
                ),
            )
            for table, relation in given.items()
            if relation is not None
        }

    def reads(self, table: str) -> bool:
        """Whether the times of a table may be unreadable: they are texts or numbers."""
        return table in self.names.read

    @property
    def bots(self) -> bool:
        """Whether users may be bots."""
        return self._most is not None

    @property
    def leaves_out(self) -> bool:
        """Whether whole requests may be left out."""
        return self.bots or self.clicks.cleaning.test is not None

    @property
    def _moves_out(self) -> bool:
        """Whether an item may be left out because another stands where it does."""
        return self.clicks.cleaning.same_position != "keep"

    @property
    def _most(self) -> int | None:
        return self.clicks.cleaning.max_events_per_user_hour

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """The actions that are looked at."""
        return tuple(dict.fromkeys([CLICK, *self.clicks.labels.grades, PURCHASE]))

    @property
    def _days(self) -> Sequence[Days]:
        """The days of the requests that are read; none if all are."""
        labels = self.clicks.labels
        days = [self.clicks.evaluation, *([labels.window] if labels.pools else [])]
        known = [one for one in days if one is not None]
        return known if self.only_days and len(known) == len(days) else ()

    def _chosen(self) -> Stage:
        """The requests of those days: one that began on them has a row of them."""
        tables = {"impressions": self.impressions, "requests": self.requests}
        branches = [
            {
                "request": self.names.request(table),
                "relation": relation,
                "conditions": self._conditions(table, of_all_days=True),
                "days": [one.holds(self.names.moment(table)) for one in self._days],
            }
            for table, relation in tables.items()
            if relation
        ]
        return self._stage("chosen_requests", "chosen_requests", branches=branches)

    def _conditions(self, table: str, *, of_all_days: bool = False) -> list[str]:
        """What the rows of a table meet that are read."""
        where = self.names.where.get(table)
        said = [f"({verbatim(where)})"] if where else []
        if of_all_days or not self._days:
            return said
        return [*said, f"{self.names.request(table)} in (select request_id from {CHOSEN})"]

    def _impressions_read(self) -> Iterator[Stage]:
        """The impressions as logged, from position 1."""
        first = self.names.first_position
        position = self.names.position
        if first != "each":
            position = f"{position} - {int(first) - 1}" if first != 1 else position
        test = self.names.at.condition(self.clicks.cleaning.test or "")
        is_test = Column(f"case when {test} then 1 else 0 end" if test else "0", "is_test")
        columns = [*self.names.impression_columns(), Column(position, "position"), is_test]
        columns += self.names.unread("impressions")
        view = {
            "about": "one row per item that was shown, as logged",
            "columns": columns,
            "relation": self.impressions,
            "conditions": self._conditions("impressions"),
        }
        if first != "each":
            yield self._stage("impressions_read", "table", **view)
            return
        yield self._stage("impressions_as_logged", "table", **view)
        names = [one.name for one in columns if one.name != "position"]
        yield self._stage("impressions_read", "moved_positions", names=names)

    def kept_impressions(self) -> Iterator[Stage]:
        """The impressions of users, as logged but for the position."""
        yield from self._impressions_read()
        excluded = EXCLUDED if self.leaves_out else ""
        view = {"excluded_requests": excluded, "timed": self.reads("impressions")}
        yield self._stage("user_impressions", "user_impressions", **view)

    def _deduplicated(self) -> Iterator[Stage]:
        yield from self.kept_impressions()
        yield self._stage("duplicated_requests", "duplicated_requests")
        yield self._stage("numbered_copies", "numbered_copies")
        view = {"same_position": self.clicks.cleaning.same_position}
        yield self._stage("deduplicated", "deduplicated", **view)

    @property
    def _readable(self) -> list[str]:
        """What the rows of the requests meet whose time can be read."""
        return [f"{column.sql} = 0" for column in self.names.unread("requests")]

    def _events_read(self, *, of_all_days: bool = False) -> Stage:
        """What was done, one row per event."""
        known = ", ".join(map(literal, self.actions))
        view = {
            "branches": self.names.event_columns(self.actions),
            "known": known,
            "relation": self.events,
            "conditions": self._conditions("events", of_all_days=of_all_days),
        }
        return self._stage("events_read", "events_read", **view)

    def _attributed(self) -> Iterator[Stage]:
        yield self._events_read()
        yield from self.shown()
        view = {
            "excluded_requests": EXCLUDED if self.leaves_out else "",
            "deduplicated": DEDUPLICATED if self._moves_out else "",
            "bots": BOTS if self.bots else "",
            "columns": [Column(f"events_read.{name}", name) for name in EVENT],
            "reasons": self._reasons(),
            "deduplicate": self.clicks.cleaning.deduplicate,
        }
        yield self._stage("attributed_events", "attributed_events", **view)

    def _reasons(self) -> Mapping[str, str]:
        """Reason -> what an event meets that is left out for it; the first that holds counts."""
        cleaning = self.clicks.cleaning
        reasons: dict[str, str] = {}
        if cleaning.test is not None:
            reasons["test traffic"] = "excluded_requests.reason = 'test traffic'"
        if self.bots:
            reasons["bot"] = "excluded_requests.reason = 'bot' or bots.user_id is not null"
        if self.reads("events"):
            reasons["unreadable time"] = "events_read.is_unread = 1"
        if self._moves_out:
            reasons["same position"] = "removed.request_id is not null"
        reasons["no impression"] = "clean_impressions.request_id is null"
        if self.names.has_times:
            reasons["before the impression"] = (
                "events_read.happened_at < clean_impressions.shown_at"
            )
            if cleaning.attribution_window is not None:
                last = f"clean_impressions.shown_at + {round(cleaning.attribution_window * 1e6)}"
                reasons["after the window"] = f"events_read.happened_at > {last}"
        if cleaning.min_dwell is not None:
            short = f"events_read.dwell < {number(cleaning.min_dwell)}"
            reasons["short stay"] = f"events_read.action = {literal(CLICK)} and {short}"
        return reasons

    @staticmethod
    def _stage(name: str, template: str, **view: object) -> Stage:
        return Stage(name, f"clicks/{template}", view)
