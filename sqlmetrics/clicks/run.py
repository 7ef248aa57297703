"""A click log is cleaned, counted, and evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.api import run
from sqlmetrics.clicks.keeping import table, view
from sqlmetrics.clicks.labels import POOLED, labels, pooled
from sqlmetrics.clicks.log import LABELS, RANKINGS, Clicks
from sqlmetrics.clicks.names import names_of
from sqlmetrics.clicks.online import Online, cutoffs, online
from sqlmetrics.clicks.report import IMPRESSIONS, steps, totals
from sqlmetrics.clicks.result import ClickResult, long
from sqlmetrics.clicks.tables import BOTS, JUDGED, LEFT_OUT, MENDED, NUMBERED, ClickTables
from sqlmetrics.engines.translated import Database, database
from sqlmetrics.errors import SpecError
from sqlmetrics.inputs.opened import opened, source_relation
from sqlmetrics.inputs.relation import Relation
from sqlmetrics.result import with_dates
from sqlmetrics.rollup import UNKNOWN
from sqlmetrics.spec import Spec
from sqlmetrics.sql import print_template, with_stages
from sqlmetrics.stage import Column, Stage
from sqlmetrics.template import literal


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
        log.tables.check(asked)
        counts, findings = log.counts(), log.findings()
        sums = long(log.online(asked, spec).to_pylist(), asked, spec) if asked else []
        offline = None
        if spec.metrics:
            with log.views():
                tables = opened(spec, engine)
                offline = run(spec, tables, engine, check=check, per_query=per_query)
    done = tuple(steps(counts))
    return ClickResult(spec, done, totals(counts), findings, offline, tuple(sums))


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
        told = {
            "left_out": LEFT_OUT if tables.leaves_out else "",
            "mended": MENDED,
            "judged": JUDGED,
            "why": _WHY_OUT if tables.leaves_out else _WHY,
            "unseen": tables.clicks.cleaning.unseen is not None,
        }
        rows = self.engine.rows(with_stages(tables.left(), print_template("clicks/totals", told)))
        counts = {(what, why): n for what, why, n in rows if n}
        later = ("repeated", "same position", "below the last click")
        removed = sum(counts.get((IMPRESSIONS, why), 0) for why in later)
        counts[IMPRESSIONS, None] = counts.get((IMPRESSIONS, None), 0) - removed
        return counts

    def findings(self) -> dict[str, int]:
        """What is odd about the log, and how often; nothing is left out for it."""
        tables = self.tables
        each = tables.names.first_position == "each"
        told = {
            "logged": "as_logged" if each else "logged",
            "position": "position"
            if each
            else f"position + {int(tables.names.first_position) - 1}",
            "requests": tables.requests is not None,
            "request": tables.names.requests.get("request", ""),
            "relation": tables.requests,
        }
        select = print_template("clicks/findings", told)
        rows = self.engine.rows(with_stages(tables.kept_impressions(), select))
        named = {
            f"{what} {place}" if place is not None else what: n for what, place, n in rows if n
        }
        return dict(sorted(named.items()))

    @contextmanager
    def views(self) -> Iterator[None]:
        """With rankings and labels as an evaluation reads them."""
        with ExitStack() as made:
            kept = ""
            if self.tables.clicks.labels.pools:
                kept = POOLED
                made.enter_context(table(self.engine, POOLED, pooled(self.tables)))
            made.enter_context(view(self.engine, RANKINGS, self.rankings()))
            made.enter_context(view(self.engine, LABELS, labels(self.tables, kept)))
            yield

    def online(self, asked: Sequence[Online], spec: Spec) -> pa.Table:
        """The sums of online metrics by day, system and segment."""
        daily = self.tables.clicks.daily
        keys = ["day", "system"] if daily else ["system"]
        segments = [{"name": "all", "value": "'all'", "grouped": keys}]
        segments += [
            {
                "name": name,
                "value": f"coalesce({name}, {literal(UNKNOWN)})",
                "grouped": [*keys, name],
            }
            for name in spec.by
            if name in self.tables.names.segments
        ]
        told = {
            "keys": [
                Column("day" if daily else "cast('1970-01-01' as date)", "metric_date"),
                Column(f"coalesce(system, {literal(spec.title)})", "system"),
            ],
            "segments": segments,
            "columns": [column for one in asked for column in one.columns()],
            "order": ["metric_date", "system", "segment_name", "segment_value"],
        }
        select = print_template("clicks/online", told)
        return with_dates(self.engine.table(with_stages(self.per_request(asked), select)))

    def per_request(self, asked: Sequence[Online]) -> Iterator[Stage]:
        """The stages to one row a request."""
        yield from self.answered()
        yield from self.tables.all_requests()
        yield Stage("per_request", "clicks/per_request", self._request_view(asked))

    def answered(self) -> Iterator[Stage]:
        """The stages to the impressions that are evaluated, and to `answers` on them."""
        yield from self.tables.evaluated()
        yield from self.tables.answers()

    @property
    def left(self) -> str:
        """The stage of the impressions that are evaluated."""
        return self.tables.evaluates

    def _request_view(self, asked: Sequence[Online]) -> dict[str, object]:
        source = self.tables.evaluates
        facts = ["system", *self.tables.names.segments]
        keys = [f"{source}.request_id"]
        columns = [Column(f"{source}.request_id", "request_id")]
        columns.append(Column(f"min({source}.metric_date)", "day"))
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
        own = {"request_id", "day", *facts}
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
            "bots": BOTS if self.tables.bots else "",
            "empty": empty,
        }

    def rankings(self) -> str:
        """What was shown, as rankings: a list a request, in the order of the positions.

        Of several texts of a request the least counts.
        """
        source = self.tables.evaluates
        columns = [
            Column("request_id", "query_id"),
            Column("item_id", "item_id"),
            Column("-position", "score"),
            Column("min(query_text) over (partition by request_id)", "query_text"),
            Column("system", "system"),
            Column("metric_date", "metric_date"),
            *(Column(name, name) for name in self.tables.names.segments),
        ]
        listed = ",\n    ".join(map(str, columns))
        return with_stages(self.tables.evaluated(), f"select\n    {listed}\nfrom {source}")

    def labels(self) -> str:
        """What became a label: rows (query_id, item_id, grade)."""
        return labels(self.tables)

    def judgments(self) -> pa.Table:
        """The pooled labels by themselves, to look at or to export.

        Returns:
            One row a query's text and item: query_text, item_id, n_impressions, n_clicks,
            n_purchases, expected_clicks, rate, grade.

        Raises:
            SpecError: If the labels are not pooled.
        """
        return self.engine.table(f"{pooled(self.tables)}\norder by query_text, item_id")


_INCOMPLETE = (
    "case when logged.request_id is null or logged.item_id is null or logged.position is null "
    "then 'incomplete' end"
)
_WHY = _INCOMPLETE
_WHY_OUT = f"coalesce(left_out.reason, {_INCOMPLETE})"
"""Why an impression is left out by itself."""


@contextmanager
def cleaned(clicks: Clicks, engine: Database) -> Iterator[Cleaned]:
    """A log, cleaned, while the block lasts."""
    tables = _tables(clicks, engine)
    with ExitStack() as made:
        for kept in tables.kept():
            select = with_stages(kept.stages, f"select *\nfrom {kept.stages[-1].name}")
            made.enter_context(table(engine, kept.name, select))
        yield Cleaned(tables, engine)


def _tables(clicks: Clicks, engine: Database) -> ClickTables:
    relation = {
        name: source_relation(source, f"clicks_{name}", engine)
        for name in ("log", "impressions", "events", "requests")
        if (source := getattr(clicks, name)) is not None
    }
    names = names_of(clicks, engine.translation)
    if clicks.log is not None and clicks.log.columns.request is None:
        numbered = Relation("table", NUMBERED)
        return ClickTables(clicks, names, numbered, numbered, unnumbered=relation["log"])
    first = relation.get("log") or relation.get("impressions") or relation["events"]
    events = relation.get("events", first)
    return ClickTables(clicks, names, first, events, relation.get("requests"))
