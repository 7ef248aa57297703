"""The six questions, each answered by what the package gives Python too; nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlmetrics import api
from sqlmetrics.assistants.answer import (
    MOST_ROWS,
    answer_text,
    chosen,
    data_text,
    name_text,
    plain,
    visible_text,
)
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison.compare import compare
from sqlmetrics.comparison.query_explanation import explain_query
from sqlmetrics.comparison.report import Comparison
from sqlmetrics.comparison.stored_comparison import compare_stored
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import (
    InputError,
    NoDataError,
    SpecError,
    SqlmetricsError,
    shortened,
    unknown,
)
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.jobs.definitions import definition_history, described, list_metrics
from sqlmetrics.jobs.reading import StoredTable, query_metrics
from sqlmetrics.plan.summary import ALL, NO_DATE
from sqlmetrics.proof.reconcile.reconcile import reconcile_spec
from sqlmetrics.spec.spec import Spec

MOST_NAMES = 20
"""As many systems, segments, values of a segment or notes are named at most."""

MOST_VALUES = 60
"""As many values of all segments together are named, so that an answer has room for them."""

MOST_MOVERS = 20
"""As many queries that moved are shown at most, of a metric and system."""

LONGEST_NOTE = 500
LONGEST_SQL = 12_000

_COMPARED = (
    *("metric", "system", "baseline", "segment_name", "segment_value", "verdict"),
    *("value", "baseline_value", "difference", "relative", "ci_low", "ci_high", "ci_level"),
    *("p_adjusted", "n", "n_baseline", "smallest_detectable", "test"),
    *("first_date", "last_date", "definition_hash"),
)
_STORED = (
    *("metric", "system", "segment_name", "segment_value", "first_date", "last_date", "n_days"),
    *("value", "ci_low", "ci_high", "n_queries", "n_skipped", "n_missing", "definition_hash"),
)
_MOVED = ("metric", "system", "metric_date", "query_id", "value", "baseline_value", "difference")


def notes_of(notes: Sequence[str], systems: Iterable[str] = ()) -> list[str]:
    """The first notes, each of a bounded length, with systems marked as in rows."""
    names = {visible_text(name): name_text(name) for name in systems if name_text(name) != name}
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or r"(?!)"
    return [
        shortened(re.sub(pattern, lambda match: names[match[0]], visible_text(note)), LONGEST_NOTE)
        for note in notes[:MOST_NAMES]
    ]


@dataclass(frozen=True)
class Questions:
    """What an assistant may ask; the docstrings of its public methods are what it reads of them.

    Attributes:
        specs: Name -> spec.
        open_database: The database of a spec, opened for reading alone.
        seconds: As long as a question may take.
        memory: As much as the database may take, where it can be told; empty for its own limit.
    """

    specs: Mapping[str, Spec]
    open_database: Callable[[Spec], Database]
    seconds: float
    memory: str = ""

    def list_metrics(self, spec: str = "") -> str:
        """List what can be asked: metrics, systems, segments and the days there are. Ask it first.

        Args:
            spec: The name of a spec; needed where there are several, which are listed without it.

        Returns:
            JSON. Of each metric its meaning, direction, range, days and definition_hash; of the
            spec its systems, segments with their values, days, and when it was last computed.
        """
        if not spec and len(self.specs) > 1:
            rows = [self._summary(each_spec) for each_spec in self.specs.values()]
            return answer_text({"specs": [plain(name) for name in self.specs]}, rows)
        the_spec = self._spec(spec)
        head: dict[str, Any] = {"spec": the_spec.title, "baseline": name_text(the_spec.baseline)}
        days_by_metric: dict[str, Any] = {}
        with self.opened(the_spec) as engine:
            table = StoredTable(the_spec, engine)
            try:
                table.check()
            except NoDataError as error:
                head["no_data"] = str(error)
            else:
                head |= _contents(table)
                days_by_metric = {at_cutoff(*key): days for key, days in table.metrics.items()}
        hashes = {
            str(metric): the_spec.definition_hash(metric) for metric in list_metrics(the_spec)
        }
        rows = [
            {
                "metric": row.name,
                "meaning": row.meaning,
                "direction": row.direction,
                "range": [plain(row.low), plain(row.high)],
                "days_together": row.roll_up,
                "definition_hash": hashes.get(row.name),
                **_days_of(days_by_metric.get(row.name)),
            }
            for row in described(the_spec)
        ]
        return answer_text(head, rows)

    def query_metrics(
        self,
        metrics: list[str] | str,
        *,
        spec: str = "",
        start: str = "",
        end: str = "",
        every: str = "",
        systems: list[str] | None = None,
        segment: str = ALL,
        segment_value: str = "",
    ) -> str:
        """Give numbers that runs stored: days together are sums over sums, with a 95 % interval.

        Never average these numbers yourself: ask for the days, week or segment that you mean.

        Args:
            metrics: Like ["ndcg@10"]; an empty list for all of the spec.
            spec: The name of a spec; needed where there are several.
            start: The first day, like 2026-11-01, yesterday or -7 days; empty for the first stored.
            end: The day AFTER the last one; empty for the last stored.
            every: day, week (from Monday) or month: a row a period; empty for all days together.
            systems: Names of systems; empty for all.
            segment: A segment, of which each value has a row; all for all queries.
            segment_value: One value of the segment alone.

        Returns:
            JSON. n_queries counts a query once a day. A value is null where days cannot be added.
        """
        the_spec = self._spec(spec)
        with self.opened(the_spec) as engine:
            stored = query_metrics(
                the_spec,
                engine,
                metrics or (),
                start=start or None,
                end=end or None,
                every=every,
                systems=systems or (),
                segment=segment,
                segment_value=segment_value or None,
                limit=MOST_ROWS,
            )
        head = {"spec": stored.spec, **_span(stored.days), "segment": plain(segment)}
        head["computed_at"] = plain(max((row["computed_at"] for row in stored.rows), default=None))
        head["notes"] = notes_of(stored.notes, {row["system"] for row in stored.rows})
        rows = [chosen(row, _STORED) for row in stored.rows]
        return answer_text(head, rows, is_cut=stored.is_cut)

    def compare(
        self,
        metrics: list[str] | str,
        *,
        spec: str = "",
        systems: list[str] | None = None,
        baseline: str = "",
        start: str = "",
        end: str = "",
        periods: list[str] | None = None,
        by: list[str] | None = None,
        movers: int = 0,
    ) -> str:
        """Compare systems, or periods of one system: what is real, and by how much.

        Repeat the sentences as they are: they say whether the data suffice.

        Args:
            metrics: Like ["ndcg@10"]; an empty list for all of the spec.
            spec: The name of a spec; needed where there are several.
            systems: What is compared; empty for all. With periods the one system.
            baseline: What they are compared with; empty for the usual one, which a note names.
            start: The first day, like 2026-11-01; empty for the first stored.
            end: The day AFTER the last one; empty for the last stored.
            periods: Instead of start and end two days or periods, the earlier one first, like
                ["2026-11-01..2026-11-07", "2026-11-08..2026-11-14"].
            by: Segments, each of whose values is compared too.
            movers: As many queries that moved most, at most 20; evaluated anew, which takes longer.

        Returns:
            JSON: sentences, a row a metric and system with interval, n and verdict, and movers.
        """
        if not 0 <= movers <= MOST_MOVERS:
            raise SpecError(f"movers must be a number from 0 to {MOST_MOVERS}, given {movers}")
        the_spec = self._spec(spec)
        options: dict[str, Any] = {
            "systems": tuple(systems or ()),
            "baseline": baseline or None,
            "start": start or None,
            "end": end or None,
            "dates": tuple(periods or ()),
        }
        with self.opened(the_spec) as engine:
            comparison = compare_stored(the_spec, engine, metrics or (), by=by or (), **options)
            moved, problem = None, []
            try:
                if movers:
                    options |= {"movers": movers, "connection": engine}
                    moved = compare(the_spec, None, metrics or (), **options)
            except (InputError, SpecError) as error:  # of lists that have no pairs
                problem = [f"no movers: {error}"]
        compared = {
            comparison.baseline,
            *(row["system"] for row in comparison.rows),
            *(systems or ()),
        }
        head = {
            "spec": the_spec.title,
            "days": " and ".join(_compared_days(comparison, periods or ())),
            "segment": plain([ALL, *(by or ())]),
            "sentences": [
                _row_title(row) + shortened(row["sentence"], LONGEST_NOTE)
                for row in comparison.rows[:MOST_NAMES]
            ],
            "notes": notes_of([*problem, *comparison.notes], compared),
        }
        if moved:
            head["n_movers"] = len(moved.movers)
            head["movers"] = [
                {**chosen(row, _MOVED), "query_text": data_text(row["query_text"])}
                for row in moved.movers[: 2 * MOST_MOVERS]
            ]
        return answer_text(head, [chosen(row, _COMPARED) for row in comparison.rows])

    def explain_query(
        self,
        query: str,
        *,
        metrics: list[str] | str | None = None,
        spec: str = "",
        day: str = "",
        systems: list[str] | None = None,
        baseline: str = "",
    ) -> str:
        """Show one query: the lists of systems side by side with labels, and what each metric says.

        Args:
            query: The id of the query, as movers of compare name it.
            metrics: Like ["ndcg@10"]; empty for all of the spec.
            spec: The name of a spec; needed where there are several.
            day: The day, like 2026-11-01; empty for the last one that has the query.
            systems: Whose lists; empty for all.
            baseline: What others are held against; empty for the usual one.

        Returns:
            JSON. A grade is null where an item has no label. It is evaluated anew.
        """
        the_spec = self._spec(spec)
        with self.opened(the_spec) as engine:
            explanation = explain_query(
                the_spec,
                engine,
                query,
                metrics or (),
                day=day or None,
                systems=tuple(systems or ()),
                baseline=baseline or None,
            )
        head = {
            "spec": explanation.spec,
            "query": name_text(explanation.query),
            "query_text": data_text(explanation.query_text),
            "days": plain(explanation.day),
            "segment": ALL,
            "n": 1,
            "interval": "none: a single query has no interval",
            "baseline": name_text(explanation.baseline),
            "lists": {
                name_text(system): [
                    {**chosen(item, [*item]), "title": data_text(item["title"])}
                    for item in items[:MOST_NAMES]
                ]
                for system, items in explanation.lists.items()
            },
            "notes": notes_of([*_cut_lists(explanation.lists), *explanation.notes]),
        }
        return answer_text(head, [chosen(row, [*row]) for row in explanation.rows])

    def reconcile(
        self,
        metric: str,
        value: str,
        *,
        spec: str = "",
        system: str = "",
        start: str = "",
        end: str = "",
    ) -> str:
        """Find which conventions give a number that was seen elsewhere, as in a notebook or a tool.

        Args:
            metric: One metric, like ndcg@10.
            value: The number with its digits, as text: .0919 or 35.06%.
            spec: The name of a spec; needed where there are several.
            system: Whose lists; needed where there are several.
            start: The first day, like 2026-11-01; empty for all.
            end: The day AFTER the last one.

        Returns:
            JSON: the candidates, the fewest departures first, with how many match by chance; where
            none fits, those that come nearest.
        """
        the_spec = self._spec(spec)
        days = days_between(start or None, end or None, zone_of_days(the_spec))
        with self.opened(the_spec) as engine:
            reconciliation = reconcile_spec(
                the_spec, engine, metric, value, system=system or None, days=days
            )
        candidates = reconciliation.candidates or reconciliation.nearest
        head = {
            "spec": the_spec.title,
            "days": str(days or "all days of the rankings"),
            "segment": ALL,
            "system": name_text(system or None),
            "fits": bool(reconciliation.candidates),
            "combinations_tried": reconciliation.tried,
            "notes": notes_of(reconciliation.notes),
        }
        rows = [plain(candidate.to_dict()) for candidate in candidates[:MOST_NAMES]]
        return answer_text({**head, "n_candidates": len(candidates)}, rows)

    def definition(self, metric: str, spec: str = "", segment: str = ALL) -> str:
        """Say how a number is made: formula, conventions, SQL, and since which day.

        Args:
            metric: One metric, like ndcg@10.
            spec: The name of a spec; needed where there are several.
            segment: A segment with a condition of its own; all else.

        Returns:
            JSON: a row a definition with its days and what changed; the SQL of today's.
        """
        the_spec = self._spec(spec)
        with self.opened(the_spec) as engine:
            all_history = definition_history(the_spec, engine)
        if segment not in (segments := {ALL, *(days.segment for days in all_history)}):
            raise SpecError(unknown("segment with a condition of its own", segment, segments))
        history = [days for days in all_history if days.segment == segment]
        parts = [days for days in history if days.metric == metric]
        if not parts:
            raise SpecError(unknown("metric", metric, {days.metric for days in history}))
        meanings = {row.name: row.meaning for row in described(the_spec)}
        head = {"spec": the_spec.title, "metric": metric, "segment": plain(segment)}
        head["meaning"] = meanings.get(metric, "the spec no longer has this metric")
        if metric in map(str, the_spec.measures):
            alone = the_spec.having(metrics=(metric,), online=(), checks=())
            head["sql"] = shortened(api.compile(alone), LONGEST_SQL)
        rows = [
            {
                "definition_hash": days.hash,
                "first_date": plain(days.first),
                "last_date": plain(days.last),
                "is_retired": days.retired is not None,
                "changes": plain([*days.changes]),
                "definition": plain(days.definition),
            }
            for days in parts
        ]
        return answer_text(head, rows)

    @contextmanager
    def opened(self, spec: Spec) -> Iterator[Database]:
        """The database for one question, bounded in time and memory."""
        with ExitStack() as stack:
            engine = stack.enter_context(self.open_database(spec))
            if self.memory:
                stack.enter_context(engine.limited(self.memory))
            stack.enter_context(engine.bounded(self.seconds))
            yield engine

    def _spec(self, name: str) -> Spec:
        if not name and len(self.specs) == 1:
            (spec,) = self.specs.values()
            return spec
        if not name:
            names = ", ".join(self.specs)
            raise SpecError(f"there are several specs: name one as spec; known: {names}")
        if name not in self.specs:
            raise SpecError(unknown("spec", name, self.specs))
        return self.specs[name]

    def _summary(self, spec: Spec) -> dict[str, Any]:
        """A spec in one row."""
        row = {"spec": spec.title, "metrics": [row.name for row in described(spec)][:MOST_NAMES]}
        try:
            with self.opened(spec) as engine:
                table = StoredTable(spec, engine)
                table.check()
                return row | _span(table.days) | {"computed_at": plain(table.computed_at)}
        except NoDataError as error:
            return row | {"no_data": str(error)}
        except SqlmetricsError as error:  # others may have another database, which answers
            return row | {"error": visible_text(str(error))}


def _contents(table: StoredTable) -> dict[str, Any]:
    """What a table holds beside its metrics."""
    systems = [*table.systems.items()][:MOST_NAMES]
    segments = [*table.segments.items()][:MOST_NAMES]
    most_values = min(MOST_NAMES, MOST_VALUES // max(len(segments), 1))
    return {
        "table": table.name,
        **_span(table.days),
        "computed_at": plain(table.computed_at),
        "n_systems": len(table.systems),
        "systems": [{"system": name_text(name), **_days_of(days)} for name, days in systems],
        "segments": {
            plain(name): {
                "n_values": len(values),
                "values": [*map(name_text, values[:most_values])],
            }
            for name, values in segments
        },
    }


def _span(days: Sequence[Any]) -> dict[str, Any]:
    """The first and the last of some days, and how many there are."""
    return {"days": _days_text(days[0], days[-1]), "n_days": len(days)}


def _days_text(first: date, last: date) -> str:
    """The first and the last day; of rankings without days the one that stands for none."""
    no_days = (
        f" (rankings without days are stored under {NO_DATE})" if str(first) == NO_DATE else ""
    )
    return f"{first} to {last}{no_days}"


def _days_of(days: Any) -> dict[str, Any]:
    if days is None:
        return {"n_days": 0}
    return {"first_date": plain(days.first), "last_date": plain(days.last), "n_days": days.n}


def _cut_lists(lists: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Which lists are longer than what is shown of them."""
    for system, items in lists.items():
        if len(items) > MOST_NAMES:
            name = name_text(system)
            yield f"only the first {MOST_NAMES} of {len(items):,} items of {name} are shown"


def _compared_days(comparison: Comparison, periods: Sequence[str]) -> Iterator[str]:
    """The periods that are compared, or the days of the systems."""
    if periods:
        yield from dict.fromkeys([comparison.baseline, *(r["system"] for r in comparison.rows)])
        return
    first = min(row["first_date"] for row in comparison.rows)
    yield _days_text(first, max(row["last_date"] for row in comparison.rows))


def _row_title(row: Mapping[str, Any]) -> str:
    """What a sentence is of."""
    segment = f", {row['segment_name']}={name_text(row['segment_value'])}"
    return f"{name_text(row['system'])}{segment if row['segment_name'] != ALL else ''}: "
