"""A click log is cleaned, counted, and evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.api import run
from sqlmetrics.clicks.log import CLICK, LABELS, PURCHASE, RANKINGS, Clicks
from sqlmetrics.clicks.names import DAY, names_of
from sqlmetrics.clicks.online import Online, cutoffs, online
from sqlmetrics.clicks.report import steps, totals
from sqlmetrics.clicks.result import ClickResult, long
from sqlmetrics.clicks.tables import JUDGED, LEFT_OUT, MENDED, NUMBERED, ClickTables
from sqlmetrics.engines.translated import Database, database
from sqlmetrics.errors import SpecError
from sqlmetrics.inputs.opened import opened, source_relation
from sqlmetrics.inputs.relation import Relation
from sqlmetrics.rollup import UNKNOWN
from sqlmetrics.spec import Spec
from sqlmetrics.sql import print_template, with_stages
from sqlmetrics.stage import Column, Stage
from sqlmetrics.template import literal, number


def evaluate_clicks(
    spec: Spec, connection: Any = None, *, check: bool = True, per_query: bool = True
) -> ClickResult:
    """Clean a click log, and compute its online metrics and those of its labels.

    Args:
        spec: What is asked; it has `clicks`.
        connection: Where its relations are; see `evaluate`.
        check: Whether to look for mistakes in what is left of the log.
        per_query: Whether to fetch the table of one row a request.

    Raises:
        SpecError: If the spec has no clicks.
        InputError: If the log cannot be read.
    """
    if spec.clicks is None:
        raise SpecError("the spec has no clicks; evaluate takes rankings and labels")
    asked = [online(text) for text in spec.online]
    with database(connection) as engine, cleaned(spec.clicks, engine) as log:
        counts = log.counts()
        sums = long(log.online(asked, spec.title).to_pylist(), asked, spec) if asked else []
        with log.views():
            offline = run(spec, opened(spec, engine), engine, check=check, per_query=per_query)
    return ClickResult(spec, tuple(steps(counts)), totals(counts), offline, tuple(sums))


@dataclass(frozen=True)
class Cleaned:
    """A click log while its tables are there.

    Attributes:
        tables: Its stages.
        engine: Where they are.
    """

    tables: ClickTables
    engine: Database

    def counts(self) -> dict[tuple[str, str | None], int]:
        """(`impressions` or an action, why it was left out or None) -> rows."""
        tables = self.tables
        view = {
            "left_out": LEFT_OUT if tables.leaves_out else "",
            "mended": MENDED if tables.mends else "",
            "judged": JUDGED,
            "unseen": tables.clicks.cleaning.unseen is not None,
        }
        rows = self.engine.rows(
            with_stages([*tables.shown(), *self._seen()], print_template("clicks/totals", view))
        )
        counts = {(what, why): n for what, why, n in rows if n}
        removed = sum(n for (what, why), n in counts.items() if what == "impressions" and why)
        apart = sum(counts.get(("impressions", why), 0) for why in ("test traffic", "bot"))
        kept = counts.get(("impressions", None), 0)
        counts["impressions", None] = kept - (removed - apart)
        return counts

    @contextmanager
    def views(self) -> Iterator[None]:
        """With rankings and labels as an evaluation reads them."""
        with ExitStack() as made:
            for name, select in ((RANKINGS, self.rankings()), (LABELS, self.labels())):
                create = f"create temporary view {name} as\n{select}"
                made.enter_context(self.engine.made(create, f"drop view {name}"))
            yield

    def online(self, asked: Sequence[Online], title: str) -> pa.Table:
        """The sums of online metrics by day, system and segment."""
        daily = self.tables.clicks.daily
        keys = ["metric_date", "system"] if daily else ["system"]
        segments = [{"name": "all", "value": "'all'", "grouped": keys}]
        segments += [
            {
                "name": name,
                "value": f"coalesce({name}, {literal(UNKNOWN)})",
                "grouped": [*keys, name],
            }
            for name in self.tables.names.segments
        ]
        view = {
            "keys": [
                Column(
                    "metric_date" if self.tables.clicks.daily else "cast('1970-01-01' as date)",
                    "metric_date",
                ),
                Column(f"coalesce(system, {literal(title)})", "system"),
            ],
            "segments": segments,
            "columns": [column for one in asked for column in one.columns()],
            "order": ["metric_date", "system", "segment_name", "segment_value"],
        }
        select = print_template("clicks/online", view)
        return self.engine.table(with_stages(self.per_request(asked), select))

    def per_request(self, asked: Sequence[Online]) -> Iterator[Stage]:
        """The stages to one row a request."""
        yield from self.answered()
        yield from self.tables.all_requests()
        yield self._stage("per_request", "per_request", **self._request_view(asked))

    def answered(self) -> Iterator[Stage]:
        """The stages to the impressions that are left, and to `answers` on them."""
        yield from self.tables.shown()
        yield from self._seen()
        yield self._stage("answers", "answers", judged=JUDGED, click=CLICK, purchase=PURCHASE)

    @property
    def left(self) -> str:
        """The stage of the impressions that are left."""
        return "seen" if self._unseen is not None else "shown"

    def _request_view(self, asked: Sequence[Online]) -> dict[str, object]:
        source = self.left
        facts = ["system", *self.tables.names.segments]
        keys = [f"{source}.request_id"]
        columns = [Column(f"{source}.request_id", "request_id")]
        columns.append(Column(DAY.format(seconds=f"min({source}.shown_at)"), "metric_date"))
        columns += [Column(f"min({source}.{name})", name) for name in facts]
        clicked = "coalesce(answers.is_clicked, 0)"
        sums = {
            "n_shown": "1",
            "n_clicked": clicked,
            "n_purchases": "coalesce(answers.n_purchases, 0)",
        }
        columns += [Column(f"sum({value})", name) for name, value in sums.items()]
        position = f"case when answers.is_clicked = 1 then {source}.position end"
        columns.append(Column(f"min({position})", "first_click"))
        columns.append(Column(f"max({position})", "last_click"))
        columns.append(Column("min(answers.seconds_to_click)", "seconds_to_click"))
        for k in cutoffs(asked):
            within = f"{source}.position <= {k}"
            columns.append(Column(f"sum(case when {within} then 1 else 0 end)", f"n_shown_at_{k}"))
            counted = f"sum(case when {within} then {clicked} else 0 end)"
            columns.append(Column(counted, f"n_clicked_at_{k}"))
        counts = {"n_shown", "n_clicked", "n_purchases"}
        own = {"request_id", "metric_date", *facts}
        empty = [
            Column(f"requests.{one.name}", one.name)
            if one.name in own
            else Column("0" if one.name in counts or "_at_" in one.name else "null", one.name)
            for one in columns
        ]
        return {
            "columns": columns,
            "from": source,
            "keys": keys,
            "requests": self.tables.requests is not None,
            "empty": empty,
        }

    def rankings(self) -> str:
        """What was shown, as rankings: a list a request, in the order of the positions."""
        columns = [
            Column("request_id", "query_id"),
            Column("item_id", "item_id"),
            Column("-position", "score"),
            Column("query_text", "query_text"),
            Column("system", "system"),
            Column(DAY.format(seconds="shown_at"), "metric_date"),
            *(Column(name, name) for name in self.tables.names.segments),
        ]
        listed = ",\n    ".join(map(str, columns))
        return with_stages(
            [*self.tables.shown(), *self._seen()], f"select\n    {listed}\nfrom {self.left}"
        )

    def labels(self) -> str:
        """What was answered, as labels."""
        grades = self.tables.clicks.labels.grades
        whens = " ".join(f"when {literal(one)} then {number(n)}" for one, n in grades.items())
        grade = f"case action {whens} else 0 end"
        return print_template("clicks/grades", {"judged": JUDGED, "grade": grade})

    @property
    def _unseen(self) -> int | None:
        return self.tables.clicks.cleaning.unseen

    def _seen(self) -> Iterator[Stage]:
        if self._unseen is not None:
            yield self._stage("seen", "seen", judged=JUDGED, unseen=self._unseen)

    @staticmethod
    def _stage(name: str, template: str, **view: object) -> Stage:
        return Stage(name, f"clicks/{template}", view)


@contextmanager
def cleaned(clicks: Clicks, engine: Database) -> Iterator[Cleaned]:
    """A log, cleaned, while the block lasts."""
    tables = _tables(clicks, engine)
    with ExitStack() as made:
        for kept in tables.kept():
            last = kept.stages[-1].name
            select = with_stages(kept.stages, f"select *\nfrom {last}")
            made.enter_context(
                engine.made(
                    f"create temporary table {kept.name} as\n{select}", f"drop table {kept.name}"
                )
            )
        yield Cleaned(tables, engine)


def _tables(clicks: Clicks, engine: Database) -> ClickTables:
    relation = {
        name: source_relation(source, f"clicks_{name}", engine)
        for name in ("log", "impressions", "events", "requests")
        if (source := getattr(clicks, name)) is not None
    }
    names = names_of(clicks)
    if clicks.log is not None and clicks.log.columns.request is None:
        numbered = Relation("table", NUMBERED)
        return ClickTables(clicks, names, numbered, numbered, unnumbered=relation["log"])
    first = relation.get("log") or relation.get("impressions") or relation["events"]
    events = relation.get("events", first)
    return ClickTables(clicks, names, first, events, relation.get("requests"))
