"""A click log -> the stages that clean it: impressions of users, and what was done with them.

    impressions ─> impressions_read ─┬──────────────────────────> clean_impressions ─┐
                                     └> logged_requests ─> deduplicated ─┘           │
    events ──────> events_read ──────────────────────────────────────────────────────┴> answers

Only what is small is kept in tables: one row per request, the impressions of requests in which
something is amiss, and the events. The impressions themselves are read where they are, by way of
temporary views where the database has them; only a wide table without requests is copied once,
with its rows numbered, so that an impression and what was done with it have one number. A job of
some days reads the requests of those days alone; but bots are looked for in the events of all,
since who is one is one on every day.

Most requests are in order: every row of one is whole, and its items stand at one position after
the other. What is counted of such a request follows from its one row. Only the impressions of the
others, `irregular_requests`, are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sqlmetrics.catalog.online import LONG_CLICK
from sqlmetrics.clicks.columns import NUMBER, Names
from sqlmetrics.clicks.log_rows import ATTRIBUTED, BOTS, DEDUPLICATED, EXCLUDED, LogRows
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.click_log import Cleaning, Clicks
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import case, grouped, identifier, literal, number

if TYPE_CHECKING:
    from sqlmetrics.clicks.propensity.curve import PropensityCurve


@dataclass(frozen=True)
class ClickTables(LogRows):
    """The stages of a click log.

    Attributes:
        views: The stages that stand as temporary views, since several statements read them;
            the others are printed in each.
        keeps_positions: Whether `item_positions` is a table, since propensities are estimated
            from it.
        propensities: How often positions are looked at, if that is known.
        begins_requests: Whether it is asked when requests without an impression began.
        leaves_own_out: Whether pooled labels of a request are learned from the others alone.
    """

    views: frozenset[str] = frozenset()
    keeps_positions: bool = False
    propensities: PropensityCurve | None = None
    begins_requests: bool = False
    leaves_own_out: bool = False

    def stages(self, *names: str) -> list[Stage]:
        """The stages that lead to some of them, in order, without those that stand as views."""
        stage_by_name: dict[str, Stage] = {}

        def add(name: str) -> None:
            if name not in stage_by_name and name not in self.standing:
                reads, stage = self._stages[name]
                for source_name in reads:
                    add(source_name)
                stage_by_name[name] = stage()

        for name in names:
            add(name)
        return list(stage_by_name.values())

    def stages_of(self, name: str) -> list[Stage]:
        """The same for what makes one of them, also if it stands as a view."""
        reads, stage = self._stages[name]
        return [*self.stages(*reads), stage()]

    @cached_property
    def of(self) -> Mapping[str, str]:
        """Stage -> what stands behind FROM for it."""
        return {
            name: f"{view_name(name)} as {name}" if name in self.standing else name
            for name in self._stages
        }

    @property
    def standing(self) -> frozenset[str]:
        """The stages that stand by themselves, whoever reads them."""
        optional_tables = {"item_positions"} if self.keeps_positions else set()
        return self.views | optional_tables | {"answers", "logged_requests", "irregular_requests"}

    @cached_property
    def _stages(self) -> Mapping[str, tuple[tuple[str, ...], Callable[[], Stage]]]:
        """Stage -> the stages that it reads, and what prints it."""
        moves = self.names.first_position == "each"
        events = "all_events" if self.days else "events_read"
        return {
            "numbered": ((), self._numbered),
            "chosen_requests": ((), self._chosen),
            "all_events": ((), lambda: self._events_read(of_all=True)),
            "bot_users": ((events,), lambda: self._bot_users(events)),
            "events_read": ((), self._events_read),
            "impressions_as_logged": ((), self._as_logged),
            "impressions_read": (("impressions_as_logged",) * moves, self._impressions_read),
            "logged_requests": (("impressions_read",), self._logged),
            "excluded_requests": (("impressions_read",), self._excluded),
            "user_impressions": (("impressions_read",), self._user_impressions),
            "duplicated_requests": (("impressions_read",), self._plain("duplicated_requests")),
            "numbered_copies": (
                ("duplicated_requests", "user_impressions"),
                self._plain("numbered_copies"),
            ),
            "deduplicated": (("numbered_copies",), self._plain("deduplicated")),
            "irregular_requests": ((), self._irregular_requests),
            "orderly_requests": ((), self._orderly),
            "clean_impressions": (("impressions_read",), self._clean),
            "irregular_impressions": ((self.evaluates,), self._irregular),
            "attributed_events": (("events_read", "clean_impressions"), self._attributed),
            "seen_impressions": (("clean_impressions",), self._plain("seen_impressions")),
            "request_queries": ((self.kept_stage,), self._plain("request_queries")),
            "evaluated_impressions": ((self.kept_stage, "request_queries"), self._evaluated),
            "answers": ((), self._answers),
            "requests": ((), self._requests),
            "item_positions": (
                (self.kept_stage, "answers", *(["request_queries"] if self.learned else [])),
                self._item_positions,
            ),
        }

    @cached_property
    def kept(self) -> frozenset[str]:
        """The stages whose rows are kept in tables."""
        is_stored_by_stage = {
            "numbered": self.unnumbered is not None,
            "chosen_requests": bool(self.days),
            "bot_users": self.bots,
            "excluded_requests": self.leaves_out,
            "item_positions": self.keeps_positions,
        }
        optional_stages = (name for name, is_kept in is_stored_by_stage.items() if is_kept)
        always = ("logged_requests", "deduplicated", "irregular_requests")
        return frozenset((*optional_stages, *always, "attributed_events", "answers"))

    @property
    def kept_stage(self) -> str:
        """The stage of the impressions that are left, but those that nobody looked at."""
        drops_unseen = self.clicks.cleaning.unseen is not None
        return "seen_impressions" if drops_unseen else "clean_impressions"

    @property
    def evaluates(self) -> str:
        """The stage of the impressions that are evaluated."""
        return self.kept_stage if self.clicks.evaluation is None else "evaluated_impressions"

    def _logged(self) -> Stage:
        return self._stage("logged_requests", **self.rows.view)

    def _irregular_requests(self) -> Stage:
        return self._stage("irregular_requests", is_divided=self.rows.may_divide)

    def _orderly(self) -> Stage:
        days = self.clicks.evaluation
        when = self.names.day_conditions(days, "logged_requests.started_at") if days else ()
        return self._stage("orderly_requests", days=days or "", when=when)

    def _irregular(self) -> Stage:
        return self._stage("irregular_impressions", evaluates=self.evaluates)

    def _clean(self) -> Stage:
        names = [*self.names.logged, "position"]
        columns = [Column(f"impressions_read.{name}", name) for name in names]
        return self._stage(
            "clean_impressions",
            columns=columns,
            names=names,
            excluded_requests=EXCLUDED if self.leaves_out else "",
            timed=self.reads("impressions"),
        )

    def _evaluated(self) -> Stage:
        days = self.clicks.evaluation
        when = self.names.day_conditions(days, "request_queries.started_at") if days else ()
        return self._stage("evaluated_impressions", days=days, when=when)

    def _answers(self) -> Stage:
        counts = self.event_counts
        columns = [*answer_columns(self.clicks, counts, sessions=self.names.has_sessions)]
        is_long = f"action = {literal(CLICK)} and dwell >= {LONG_CLICK}"
        long_click = f"case when {is_long} then 1 else 0 end" if self.names.has_stays else ""
        for name, value in {"is_long_click": long_click, "amount": self._amount}.items():
            columns += [Column(name, name)] * bool(value)
        view = {"long_click": long_click, "amount": self._amount, "columns": columns}
        return self._stage("answers", "answers", click=CLICK, counts=counts, **view)

    @property
    def _amount(self) -> str:
        """What was paid for an item; of repeated purchases, which count as one, the most."""
        if not self.names.has_amounts:
            return ""
        paid = f"case when action = {literal(PURCHASE)} then amount end"
        is_once = self.clicks.cleaning.deduplicate
        return f"max({paid})" if is_once else self.names.at.total(paid)

    def _requests(self) -> Stage:
        """The requests that are evaluated and have no impression."""
        days = self.clicks.evaluation
        return self._stage(
            "requests",
            columns=list(
                self.names.request_columns(begun=self.bots_by_day or self.begins_requests)
            ),
            relation=self.relation("requests"),
            request=self.names.request("requests"),
            conditions=[
                "logged.shown_request_id is null",
                *self.read.where("requests", all_requests=True),
                *self._readable,
            ],
            key=self.names.requests["request"],
            having=self.names.day_conditions(days, self.names.first_time) if days else (),
        )

    @property
    def _moves_out(self) -> bool:
        """Whether an item may be left out because another stands where it does."""
        return self.clicks.cleaning.same_position != "keep"

    def _numbered(self) -> Stage:
        order = [self.names.impressions[role] for role in ("item", "position")]
        return self._stage("numbered", order=order, request=NUMBER, relation=self.unnumbered)

    def _chosen(self) -> Stage:
        """The requests of those days: one that began on them has a row of them."""
        tables = {table: self.relation(table) for table in ("impressions", "requests")}
        branches = [
            {
                "request": self.names.request(table),
                "relation": relation,
                "conditions": self.read.where(table, all_requests=True),
                "days": [
                    self.names.day_conditions(days, self.names.moment(table)) for days in self.days
                ],
            }
            for table, relation in tables.items()
            if relation
        ]
        return self._stage("chosen_requests", branches=branches)

    def _as_logged(self) -> Stage:
        """The impressions as logged; from position 1, where a log has one first position."""
        first = self.names.first_position
        position = self.names.position
        if first not in ("each", 1):
            position = f"{position} - {int(first) - 1}"
        test = self.names.at.condition(self.clicks.cleaning.test or "")
        is_test = Column(f"case when {test} then 1 else 0 end" if test else "0", "is_test")
        columns = [*self.names.impression_columns(), Column(position, "position"), is_test]
        view = {
            "about": "one row per shown item, as logged",
            "columns": [*columns, *self.names.unread("impressions")],
            "relation": self.relation("impressions"),
            "conditions": self.read.where("impressions"),
        }
        name = "impressions_as_logged" if first == "each" else "impressions_read"
        return self._stage(name, "table", **view)

    def _impressions_read(self) -> Stage:
        logged = self._as_logged()
        if logged.name == "impressions_read":
            return logged
        names = [column.name for column in logged.view["columns"] if column.name != "position"]
        return self._stage("impressions_read", "moved_positions", names=names)

    def _bot_users(self, events: str) -> Stage:
        hour = self.names.hour("happened_at")
        keys = grouped(["user_id", *hour])
        return self._stage("bot_users", "bots", events=events, hour=hour[0], keys=keys)

    def _excluded(self) -> Stage:
        day_number = self.names.day_number("impressions_read.shown_at")
        return self._stage("excluded_requests", day_number=day_number)

    def _user_impressions(self) -> Stage:
        """The impressions of users, as logged but for the position."""
        excluded = EXCLUDED if self.leaves_out else ""
        timed = self.reads("impressions")
        return self._stage("user_impressions", excluded_requests=excluded, timed=timed)

    @property
    def _readable(self) -> list[str]:
        """What the rows of the requests meet whose time can be read."""
        return [f"{column.sql} = 0" for column in self.names.unread("requests")]

    def _events_read(self, *, of_all: bool = False) -> Stage:
        """What was done, one row per event."""
        all_days = of_all and not self.bots_by_day
        view = {
            "branches": self.names.event_columns(self.actions),
            "relation": self.relation("events", all_days=all_days),
            "conditions": self.read.where("events", all_requests=of_all, all_days=all_days),
        }
        name = "all_events" if of_all else "events_read"
        return self._stage(name, "events_read", **view)

    def _attributed(self) -> Stage:
        return self._stage(
            "attributed_events",
            excluded_requests=EXCLUDED if self.leaves_out else "",
            deduplicated=DEDUPLICATED if self._moves_out else "",
            has_stays=self.names.has_stays,
            has_amounts=self.names.has_amounts,
            has_times=self.names.has_times,
            reasons=event_reasons(self.clicks.cleaning, self.names),
            day_number=self.names.day_number("events_read.happened_at"),
        )

    @property
    def learned(self) -> tuple[str, list[str]] | None:
        """The days of the requests from which labels and propensities are learned; None for all.

        Returns:
            In words, and what such requests meet.
        """
        window, evaluated = self.clicks.labels.window, self.clicks.evaluation
        began = "request_queries.started_at"
        if window is not None:
            return str(window), self.names.day_conditions(window, began)
        if evaluated is not None:
            is_evaluated = " and ".join(self.names.day_conditions(evaluated, began))
            return f"not {evaluated}", [f"not ({is_evaluated})"]
        return None

    def _item_positions(self) -> Stage:
        days, when = self.learned or ("", [])
        stage_name, propensity_settings = self.kept_stage, self.clicks.propensity
        keys = [f"{stage_name}.{name}" for name in ("query_text", "item_id", "position")]
        columns = [*keys]
        if propensity_settings.by is not None:
            by = f"{stage_name}.{identifier(propensity_settings.by)}"
            keys.append(by)
            columns.append(str(Column(f"coalesce({by}, '')", "layout")))
        if propensity_settings.randomised is not None:
            keys.append(f"{stage_name}.is_randomised")
            columns.append(keys[-1])
        return self._stage("item_positions", keys=keys, named=columns, days=days, when=when)

    def _plain(self, name: str) -> Callable[[], Stage]:
        return lambda: self._stage(name)

    def _stage(self, name: str, template: str = "", **view: object) -> Stage:
        shared = {
            "of": self.of,
            "impressions": self.kept_stage,
            "attributed_events": ATTRIBUTED,
            "only_measured": ", ".join(map(literal, self.only_measured)),
            "deduplicated": DEDUPLICATED,
            "excluded": EXCLUDED if self.leaves_out else "",
            "bots": BOTS if self.bots else "",
            "bots_by_day": self.bots_by_day,
            "unseen": self.clicks.cleaning.unseen,
            "most": self.clicks.cleaning.max_events_per_user_hour,
            "deduplicate": self.clicks.cleaning.deduplicate,
            "same_position": self.clicks.cleaning.same_position,
            "has_bits": self.is_hashed,
        }
        return Stage(name, f"clicks/{template or name}", shared | view)


def view_name(stage: str) -> str:
    """What the view of a stage is called."""
    return f"sqlmetrics_{stage}"


def answer_columns(
    clicks: Clicks, counts: Mapping[str, str], *, sessions: bool
) -> Iterator[Column]:
    """The columns of the stage `answers` beside where the item stood and when it was clicked.

    Args:
        clicks: What was said of the log.
        counts: Action -> the column that counts its events.
        sessions: Whether it is asked if an action makes the session a success.
    """
    if not clicks.labels.pools:
        yield Column(_grade(clicks.labels.grades, counts), "grade")
    yield Column(_is_any([CLICK], counts), "is_clicked")
    yield from (Column(name, name) for name in counts.values())
    once = clicks.cleaning.deduplicate
    bought = _is_any([PURCHASE], counts) if once else counts.get(PURCHASE, "0")
    yield Column(bought, "n_purchases")
    if sessions:
        yield Column(_is_any(clicks.success_actions, counts), "is_success")


def _grade(grades: Mapping[str, float], counts: Mapping[str, str]) -> str:
    """The highest grade of what was done; 0 for what has none."""
    best_first = sorted(counts, key=lambda action: -grades.get(action, 0))
    whens = (
        f"when {counts[action]} > 0 then {number(grades.get(action, 0))}" for action in best_first
    )
    return "\n    ".join(["case", *whens, "else 0"]) + "\nend"


def _is_any(actions: Iterable[str], counts: Mapping[str, str]) -> str:
    """1 where one of some actions was done."""
    conditions = [f"{counts[action]} > 0" for action in actions if action in counts]
    return case(" or ".join(conditions), "1", "0") if conditions else "0"


def event_reasons(cleaning: Cleaning, names: Names) -> Mapping[str, str]:
    """Reason -> what an event meets that is left out for it: the first that holds counts.

    Args:
        cleaning: What is left out.
        names: The columns of the log.
    """
    reasons: dict[str, str] = {}
    if cleaning.test is not None:
        reasons["test traffic"] = "excluded_requests.reason = 'test traffic'"
    if cleaning.max_events_per_user_hour is not None:
        reasons["bot"] = "excluded_requests.reason = 'bot' or bots.user_id is not null"
    if "events" in names.read:
        reasons["unreadable time"] = "events_read.is_unread = 1"
    if cleaning.same_position != "keep":
        reasons["same position"] = "removed.request_id is not null"
    reasons["no impression"] = "clean_impressions.request_id is null"
    if names.has_times:
        reasons["before the impression"] = "events_read.happened_at < clean_impressions.shown_at"
        if cleaning.attribution_window is not None:
            last = f"clean_impressions.shown_at + {round(cleaning.attribution_window * 1e6)}"
            reasons["after the window"] = f"events_read.happened_at > {last}"
    if cleaning.min_dwell is not None:
        short = f"events_read.dwell < {number(cleaning.min_dwell)}"
        reasons["short stay"] = f"events_read.action = {literal(CLICK)} and {short}"
    return reasons
