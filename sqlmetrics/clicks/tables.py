"""A click log -> the stages that clean it: impressions of users, and what was done with them.

    requests ──┐
    impressions ─> logged ─> kept ──> shown ──┐
                     └─> left out, mended     ├─> judged
    events ──────> acted ─────────────────────┘

Only what is small is kept in tables: requests that are left out, the impressions of requests in
which something is amiss, and the events. The impressions themselves are read where they are;
only a wide table without requests is copied once, with its rows numbered, so that an impression
and what was done with it have one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.clicks.log import CLICK, PURCHASE, Clicks
from sqlmetrics.clicks.names import NUMBER, Names
from sqlmetrics.inputs.relation import Relation
from sqlmetrics.stage import Column, Stage
from sqlmetrics.template import literal, number

NUMBERED, BOTS, LEFT_OUT, MENDED, JUDGED = (
    f"sqlmetrics_{name}" for name in ("numbered_log", "bots", "left_out", "mended", "judged_events")
)
"""Tables that are kept while a log is worked on."""


@dataclass(frozen=True)
class Kept:
    """A table that is kept: its name, and the stages that make it.

    Attributes:
        name: Its name.
        stages: The stages; the last one's rows are kept.
    """

    name: str
    stages: tuple[Stage, ...]


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
    """

    clicks: Clicks
    names: Names
    impressions: Relation
    events: Relation
    requests: Relation | None = None
    unnumbered: Relation | None = None

    def kept(self) -> Iterator[Kept]:
        """The tables to keep, each after those that it reads."""
        if self.unnumbered:
            order = [self.names.impressions[role] for role in ("item", "position")]
            view = {"order": order, "request": NUMBER, "relation": self.unnumbered}
            yield Kept(NUMBERED, (self._stage("numbered", "numbered", **view),))
        if self.bots:
            yield Kept(BOTS, (*self._acted(), self._stage("found_bots", "bots", most=self._most)))
        if self.leaves_out:
            view = {"bots": BOTS if self.bots else ""}
            yield Kept(LEFT_OUT, (*self._logged(), self._stage("found", "left_out", **view)))
        if self.mends:
            yield Kept(MENDED, tuple(self._mended()))
        yield Kept(JUDGED, tuple(self._judged()))

    def shown(self) -> Iterator[Stage]:
        """The impressions that are left."""
        yield from self._kept_impressions()
        known = [*self.names.logged, "position"]
        view = {
            "columns": [Column(f"kept.{name}", name) for name in known],
            "names": known,
            "mended": MENDED if self.mends else "",
        }
        yield self._stage("shown", "shown", **view)

    def all_requests(self) -> Iterator[Stage]:
        """The requests, also those without a result."""
        if self.requests is None:
            return
        view = {
            "columns": list(self.names.request_columns()),
            "relation": self.requests,
            "where": "",
            "key": self.names.requests["request"],
        }
        yield self._stage("requests", "requests", **view)

    @property
    def bots(self) -> bool:
        """Whether users may be bots."""
        return self._most is not None

    @property
    def leaves_out(self) -> bool:
        """Whether whole requests may be left out."""
        return self.bots or self.clicks.cleaning.test is not None

    @property
    def mends(self) -> bool:
        """Whether single impressions may be left out."""
        cleaning = self.clicks.cleaning
        return cleaning.deduplicate or self._moves_out

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

    def _logged(self) -> Iterator[Stage]:
        """The impressions as logged, from position 1."""
        first = self.names.first_position
        position = self.names.position
        if first != "each":
            position = f"{position} - {int(first) - 1}" if first != 1 else position
        test = self.clicks.cleaning.test
        is_test = Column(f"case when {test} then 1 else 0 end" if test else "0", "is_test")
        columns = [*self.names.impression_columns(), Column(position, "position"), is_test]
        view = {
            "about": "one row an item that was shown, as logged",
            "columns": columns,
            "relation": self.impressions,
            "where": self.names.impressions_where,
        }
        if first != "each":
            yield self._stage("logged", "table", **view)
            return
        yield self._stage("as_logged", "table", **view)
        yield self._stage("logged", "moved", names=[one.name for one in columns])

    def _kept_impressions(self) -> Iterator[Stage]:
        yield from self._logged()
        yield self._stage("kept", "kept", left_out=LEFT_OUT if self.leaves_out else "")

    def _mended(self) -> Iterator[Stage]:
        cleaning = self.clicks.cleaning
        yield from self._kept_impressions()
        yield self._stage("troubled", "troubled")
        yield self._stage("copies", "copies")
        yield self._stage(
            "mended",
            "mended",
            deduplicate=cleaning.deduplicate,
            same_position=cleaning.same_position,
        )

    def _acted(self) -> Iterator[Stage]:
        """What was done, one row an event."""
        known = ", ".join(map(literal, self.actions))
        view = {
            "branches": self.names.event_columns(self.actions),
            "known": known,
            "relation": self.events,
            "where": self.names.events_where,
        }
        yield self._stage("acted", "acted", **view)

    def _judged(self) -> Iterator[Stage]:
        yield from self.shown()
        yield from self._acted()
        view = {
            "left_out": LEFT_OUT if self.leaves_out else "",
            "mended": MENDED if self._moves_out else "",
            "bots": BOTS if self.bots else "",
            "reasons": self._reasons(),
            "deduplicate": self.clicks.cleaning.deduplicate,
        }
        yield self._stage("judged", "judged", **view)

    def _reasons(self) -> Mapping[str, str]:
        """Reason -> what an event meets that is left out for it; the first that holds counts."""
        cleaning = self.clicks.cleaning
        reasons: dict[str, str] = {}
        if cleaning.test is not None:
            reasons["test traffic"] = "left_out.reason = 'test traffic'"
        if self.bots:
            reasons["bot"] = "left_out.reason = 'bot' or bots.user_id is not null"
        if self._moves_out:
            reasons["same position"] = "removed.request_id is not null"
        reasons["no impression"] = "shown.request_id is null"
        if self.names.has_times:
            reasons["before the impression"] = "acted.happened_at < shown.shown_at"
            if cleaning.attribution_window is not None:
                last = f"shown.shown_at + {number(cleaning.attribution_window)}"
                reasons["after the window"] = f"acted.happened_at > {last}"
        if cleaning.min_dwell is not None:
            short = f"acted.dwell < {number(cleaning.min_dwell)}"
            reasons["short stay"] = f"acted.action = {literal(CLICK)} and {short}"
        return reasons

    @staticmethod
    def _stage(name: str, template: str, **view: object) -> Stage:
        return Stage(name, f"clicks/{template}", view)
