"""One query: the lists of systems side by side with their labels, and what each metric says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, ClassVar

from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.comparison.breakdown import items_query, of_queries
from sqlmetrics.comparison.compare import compared_plan
from sqlmetrics.comparison.options import Options
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import NoDataError, SpecError, unknown
from sqlmetrics.evaluation.question import Inputs
from sqlmetrics.jobs.days import day_named, zone_of_days
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import query_text
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.reading import AnySpec, spec_of
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.stats import TIED
from sqlmetrics.tables.table import Table, printable
from sqlmetrics.tables.tabular import Block, Row, Tabular

LONGEST_TITLE = 40
"""As many characters of a title are printed beside the others."""

Item = dict[str, Any]


@dataclass(frozen=True, repr=False)
class QueryExplanation(Tabular):
    """The lists and metrics of one query; it prints as tables, also in a notebook.

    Attributes:
        spec: The name of the spec.
        query: The id of the query.
        query_text: The text of the query, if the spec names its column.
        day: The day of the lists; None without days.
        baseline: The system that the others are compared with; None if there is one list.
        lists: System -> its first items and those with a grade above 0: dicts of `rank`, `item_id`,
            `title` and `grade`, which is None without a label.
        rows: One row per system and metric.
        notes: Sentences that a reader should know.
        executed_sql: The statements that ran.
    """

    spec: str
    query: str
    query_text: str | None
    day: date | None
    baseline: str | None
    lists: Mapping[str, Sequence[Item]]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    executed_sql: str = ""

    _schemas: ClassVar = {
        "rows": {
            **dict.fromkeys(("metric", "system"), "string"),
            **dict.fromkeys(("value", "baseline_value", "difference"), "double"),
            "definition_hash": "string",
        }
    }

    def to_dicts(self) -> list[Row]:
        """One dict per row: the `value` of a `metric`, its `difference` from the baseline.

        A value is None if the metric is undefined for the query, for example without relevant
        items.
        """
        return [*self.rows]

    def _blocks(self) -> Iterator[Block]:
        day = f", {self.day}" if self.day else ""
        yield f"{printable(self.query_text or self.query)}{day}"
        names = ["rank", *map(printable, self.lists)]
        yield Table(names, [*self._side_by_side()], len(names))
        cells = [
            [
                row["metric"],
                printable(row["system"]),
                *(_text(row[name]) for name in ("value", "difference")),
            ]
            for row in self.rows
        ]
        yield Table(["metric", "system", "value", "difference"], cells, 2)
        if self.notes:
            yield "\n".join(self.notes)

    def _side_by_side(self) -> Iterator[list[str]]:
        item_by_rank = {
            system: {item["rank"]: item for item in items} for system, items in self.lists.items()
        }
        for rank in sorted({rank for items in item_by_rank.values() for rank in items}):
            yield [str(rank), *(_item_text(items.get(rank)) for items in item_by_rank.values())]


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _item_text(item: Item | None) -> str:
    if item is None:
        return ""
    grade = "no label" if item["grade"] is None else f"grade {item['grade']:g}"
    return f"{printable(item['title'] or item['item_id'], LONGEST_TITLE)} ({grade})"


def explain_query(
    spec: AnySpec,
    connection: Any,
    query: str,
    metrics: str | Sequence[str] = (),
    *,
    day: str | date | None = None,
    systems: str | Sequence[str] = (),
    baseline: str | None = None,
) -> QueryExplanation:
    """Show the lists of one query side by side, with labels and the value of each metric.

    Only this query is evaluated, from the tables that the spec reads.

    Args:
        spec: The spec. For a click log the labels are computed first, which takes as long as for
            all queries.
        connection: The database that holds its tables; see `connect`.
        query: The id of the query, or of the request of a click log.
        metrics: Metrics such as `ndcg@10`. Default: those of the spec.
        day: The day; `yesterday` and `-1 days` are days too. Default: the last day that has the
            query.
        systems: The systems whose lists to show. Default: all that have the query.
        baseline: The system that the others are compared with. Default: as for `compare`.

    Returns:
        The lists and the numbers.

    Raises:
        SpecError: If a name is unknown, or a day is given for a spec without days.
        NoDataError: If there is no list of the query, or none on that day.
        EngineError: If the database fails.
    """
    spec = spec_of(spec)
    chosen_day = None if day is None else day_named(day, zone_of_days(spec))
    if chosen_day and not (spec.clicks or spec.rankings.columns.date):
        raise SpecError(f"the rankings have no column of dates, so there is no day {chosen_day}")
    end = None if chosen_day in (None, date.max) else chosen_day + timedelta(1)
    days = None if chosen_day is None else Days(start=chosen_day, end=end)
    names = (systems,) if isinstance(systems, str) else tuple(systems)
    options = Options(metrics=metric_texts(metrics), days=days)
    inputs = Inputs(spec, None, {})
    with (
        inputs.opened(connect(connection)) as engine,
        compared_plan(inputs, options, engine) as (
            plan,
            _,
        ),
    ):
        one_query = of_queries(plan, {query})
        select = query_text(one_query, per_query=True)
        values = _of_last_day(engine.records(select), query, chosen_day)
        existing = sorted({str(row["system"]) for row in values if "system" in row})
        for name in (*names, *([baseline] if baseline else [])):
            if name not in existing:
                raise SpecError(unknown(f"system of query {query!r}", name, existing))
        last_day = values[0].get("metric_date")
        days_of_lists = {str(day_of(last_day))} if last_day is not None else set[str]()
        items = with_stages(*items_query(one_query, names, days_of_lists, engine))
        item_rows = engine.records(items)
        statements = [engine.translation.text(text).rstrip() for text in (select, items)]
    before = _baseline(plan, names or existing, baseline)
    order = [name for name in existing if name == before]
    order += [name for name in existing if name != before and name in (names or existing)]
    rows = tuple(_rows(plan, values, order, before))
    return QueryExplanation(
        spec=spec.title,
        query=query,
        query_text=next((row["query_text"] for row in item_rows if row.get("query_text")), None),
        day=None if last_day is None else day_of(last_day),
        baseline=before,
        lists=_lists(item_rows, order),
        rows=rows,
        notes=("recomputed from the tables that the spec reads", *_without_rows(plan, rows)),
        executed_sql="\n\n".join(f"{statement};" for statement in statements) + "\n",
    )


def _of_last_day(values: Sequence[Row], query: str, day: date | None) -> list[Row]:
    """The rows of the last day that a query has."""
    if not values:
        on_day = f" on {day}" if day else ""
        raise NoDataError(f"the query {query!r} has no list{on_day}")
    last = max(str(row.get("metric_date", "")) for row in values)
    return [row for row in values if str(row.get("metric_date", "")) == last]


def _baseline(plan: Plan, systems: Sequence[str], baseline: str | None) -> str | None:
    if len(systems) < 2 and baseline is None:
        return None
    chosen = baseline or plan.spec.baseline
    return chosen if chosen in systems or baseline else usual_baseline([*systems])[0]


def _lists(item_rows: Sequence[Row], systems: Sequence[str]) -> dict[str, list[Item]]:
    lists: dict[str, list[Item]] = {system: [] for system in systems or ("list",)}
    for row in item_rows:
        system = str(row.get("system", "list"))
        if system in lists:
            lists[system].append(
                {
                    "rank": int(row["rnk"]),
                    "item_id": row["item_id"],
                    "title": row.get("item_title"),
                    "grade": None if row["grade"] is None else float(row["grade"]),
                }
            )
    return lists


def _without_rows(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    """Which metrics have no value of a query: those of impressions, and of all lists together."""
    with_rows = {row["metric"] for row in rows}
    asked_metrics = map(str, (*plan.spec.measures, *plan.spec.online))
    if names := [metric for metric in asked_metrics if metric not in with_rows]:
        yield f"no number of one query: {', '.join(names)}"


def _rows(
    plan: Plan, values: Sequence[Row], systems: Sequence[str], baseline: str | None
) -> Iterator[Row]:
    """The values of each metric that has some for a query."""
    row_by_system = {str(row.get("system", "list")): row for row in values}
    for measure in plan.measures:
        if measure.column not in values[0]:
            continue
        numbers = {
            system: None if row[measure.column] is None else float(row[measure.column])
            for system, row in row_by_system.items()
        }
        before = numbers[baseline] if baseline else None
        for system in systems or ("list",):
            value = numbers[system]
            difference = None
            if value is not None and before is not None and system != baseline:
                difference = value - before if abs(value - before) > TIED else 0.0
            yield {
                "metric": str(measure),
                "system": system,
                "value": value,
                "baseline_value": before,
                "difference": difference,
                "definition_hash": plan.spec.definition_hash(measure),
            }
