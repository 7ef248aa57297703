"""Spec + catalogue -> Plan: every decision about an evaluation's SQL is made here.

The plan is a list of stages, one CTE each, from the two tables to the summary:

    rankings ─> judged ─> ranked ─> retrieved ─┐
    labels ──┴> ideal ──────────────> wanted ──┴> evaluated ─> per_query ─> summary

Templates only print what they are given: no stage decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlmetrics.conventions import OPTIONS
from sqlmetrics.errors import SpecError
from sqlmetrics.inputs import Relation, relation_of
from sqlmetrics.measure import Measure
from sqlmetrics.needs import Column, Final, Needs, Sums
from sqlmetrics.spec import Spec
from sqlmetrics.template import case, identifier, literal

NO_DATE = "1970-01-01"
ALL = "all"
UNKNOWN = "(unknown)"


@dataclass(frozen=True)
class Stage:
    """One CTE: its name, the template that prints it, and what the template prints."""

    name: str
    template: str
    view: Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """All that there is to print, in order.

    Attributes:
        spec: What was asked.
        measures: The metrics, in the order of the spec.
        inputs: The two tables, as the other stages and the input checks read them.
        per_query: From the tables to one row a query.
        summary: From `per_query` to one row a metric, system and segment.
        output: The columns of the per-query table.
        where: Which rows of `per_query` that table holds.
        keys: What a ranked list is identified by.
        query_keys: What a query is identified by, whichever system answers it.
        label_keys: What a query's labels are identified by.
        columns: The column of the source behind each role, by table.
    """

    spec: Spec
    measures: tuple[Measure, ...]
    inputs: tuple[Stage, ...]
    per_query: tuple[Stage, ...]
    summary: tuple[Stage, ...]
    output: tuple[Column, ...]
    where: str
    keys: tuple[str, ...]
    query_keys: tuple[str, ...]
    label_keys: tuple[str, ...]
    columns: Mapping[str, Mapping[str, str]]


def plan(spec: Spec, rankings: Relation | None = None, labels: Relation | None = None) -> Plan:
    """The plan of a spec.

    Args:
        spec: What is asked.
        rankings: Where the rankings are, if the spec cannot say it (data in memory).
        labels: Likewise for the labels.

    Raises:
        SpecError: If the spec asks for what its sources cannot give.
    """
    planner = _Planner(
        spec,
        rankings or relation_of(spec.rankings, "rankings"),
        labels or relation_of(spec.labels, "labels"),
    )
    return planner.plan()


def segment(name: str) -> str:
    """The column of a segment in the stages; no user's name can clash with ours."""
    return identifier(f"by_{name}")


class _Planner:
    """The decisions of one plan."""

    def __init__(self, spec: Spec, rankings: Relation, labels: Relation) -> None:
        self.spec = spec
        self.rankings = rankings
        self.labels = labels
        self.needs = Needs(spec)
        self.retrieved = self.needs.sums["retrieved"]

    def plan(self) -> Plan:
        return Plan(
            spec=self.spec,
            measures=self.spec.measures,
            inputs=(self._rankings_stage(), self._labels_stage()),
            per_query=tuple(self._per_query_stages()),
            summary=(self._values_stage(), self._totals_stage(), self._summary_stage()),
            output=tuple(self._output()),
            where="is_ranked = 1" if self.spec.options["missing"] == "drop" else "",
            keys=self.keys,
            query_keys=self.query_keys,
            label_keys=self.label_keys,
            columns={"rankings": self._ranking_columns, "labels": self._label_columns},
        )

    # What the tables hold

    @cached_property
    def _ranking_columns(self) -> dict[str, str]:
        """Role -> the source's column, for the roles that the rankings have."""
        columns = self.spec.rankings.columns
        order = "rank" if columns.rank else "score"
        named = {"query": columns.query, "item": columns.item, order: columns.order}
        for role in ("system", "date", "weight"):
            if getattr(columns, role):
                named[role] = getattr(columns, role)
        return named | {r: n for r, n in self.rankings.columns if r in named or r == "system"}

    @cached_property
    def _label_columns(self) -> dict[str, str]:
        columns = self.spec.labels.columns
        named = {"query": columns.query, "item": columns.item, "grade": columns.grade}
        return named | ({"date": columns.date} if columns.date else {}) | dict(self.labels.columns)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """What a ranked list is identified by."""
        has = self._ranking_columns
        date = ("metric_date",) if "date" in has else ()
        return date + (("system",) if "system" in has else ()) + ("query_id",)

    @cached_property
    def query_keys(self) -> tuple[str, ...]:
        """What a query is identified by, whichever system answers it."""
        return tuple(key for key in self.keys if key != "system")

    @cached_property
    def label_keys(self) -> tuple[str, ...]:
        """What a query's labels are identified by."""
        return (("metric_date",) if "date" in self._label_columns else ()) + ("query_id",)

    @cached_property
    def facts(self) -> tuple[str, ...]:
        """Columns that belong to a query as a whole: its segments and its weight."""
        weight = ("weight",) if "weight" in self._ranking_columns else ()
        return tuple(segment(name) for name in self.spec.by) + weight

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The columns that sort a list."""
        tie = OPTIONS["ties"].choice(self.spec.options["ties"]).sql
        first = "given_rank" if "rank" in self._ranking_columns else "score desc"
        return (first, tie)

    @cached_property
    def _sorters(self) -> tuple[str, ...]:
        return tuple(column.removesuffix(" desc") for column in self.order)

    # The two tables

    def _rankings_stage(self) -> Stage:
        if self.spec.options["ties"] == "input_order":
            self._require_order()
        return Stage(
            "rankings",
            "rankings",
            {"columns": list(self._rankings_select()), "relation": self.rankings},
        )

    def _require_order(self) -> None:
        if not self.rankings.ordered and "rank" not in self._ranking_columns:
            raise SpecError(
                "ties=input_order needs rows in an order: a rank column, a file or a "
                "DataFrame; a table or query of a database has none"
            )

    def _rankings_select(self) -> Iterator[Column]:
        has = {role: identifier(name) for role, name in self._ranking_columns.items()}
        if "date" in has:
            yield Column(f"cast({has['date']} as date)", "metric_date")
        if "system" in has:
            yield Column(f"cast({has['system']} as varchar)", "system")
        yield Column(f"cast({has['query']} as varchar)", "query_id")
        yield Column(f"cast({has['item']} as varchar)", "item_id")
        if "rank" in has:
            yield Column(f"cast({has['rank']} as bigint)", "given_rank")
        else:
            precision = OPTIONS["score_precision"].choice(self.spec.options["score_precision"])
            yield Column(precision.sql.format(score=has["score"]), "score")
        if "input_order" in self._sorters:
            yield Column("row_number() over ()" if self.rankings.ordered else "1", "input_order")
        for name in self.spec.by:
            yield Column(f"cast({identifier(name)} as varchar)", segment(name))
        if "weight" in has:
            yield Column(f"cast({has['weight']} as double)", "weight")

    def _labels_stage(self) -> Stage:
        has = {role: identifier(name) for role, name in self._label_columns.items()}
        columns = [Column(f"cast({has['date']} as date)", "metric_date")] if "date" in has else []
        columns += [
            Column(f"cast({has['query']} as varchar)", "query_id"),
            Column(f"cast({has['item']} as varchar)", "item_id"),
            Column(f"cast({has['grade']} as double)", "grade"),
        ]
        return Stage("labels", "labels", {"columns": columns, "relation": self.labels})

    # From the tables to one row a query

    def _per_query_stages(self) -> Iterator[Stage]:
        rankings = labels = ""
        if self.spec.options["duplicate_rankings"] == "best_score":
            rankings = "unique_rankings"
            yield self._unique_stage(rankings, "rankings", self.keys, self._best())
        if self.spec.options["duplicate_labels"] == "max_grade":
            labels = "unique_labels"
            yield self._unique_stage(
                labels, "labels", self.label_keys, [Column("max(grade)", "grade")]
            )
        yield self._judged_stage(rankings or "rankings", labels or "labels")
        yield self._ranked_stage()
        for sums in self._sums_in_order():
            if sums.order:
                yield self._ideal_stage(sums, labels or "labels")
            yield self._sums_stage(sums, labels or "labels")
        if "system" in self.keys:
            yield Stage("systems", "systems", {})
        if "metric_date" in self.keys:
            yield Stage("searched", "searched", {"keys": self.query_keys})
        if self.facts:
            yield self._facts_stage()
        yield self._evaluated_stage()
        yield self._per_query_stage()

    def _unique_stage(
        self, name: str, over: str, keys: tuple[str, ...], best: list[Column]
    ) -> Stage:
        return Stage(name, "unique", {"keys": (*keys, "item_id"), "best": best, "from": over})

    def _best(self) -> list[Column]:
        best = Column("min(given_rank)", "given_rank")
        if "rank" not in self._ranking_columns:
            best = Column("max(score)", "score")
        first = [n for n in (*self._sorters[1:], *self.facts) if n != "item_id"]
        return [best] + [Column(f"min({name})", name) for name in first]

    def _judged_stage(self, rankings: str, labels: str) -> Stage:
        carried = dict.fromkeys((*self.keys, *self._sorters, *self.facts))
        columns = [Column(f"{rankings}.{name}", name) for name in carried]
        columns.append(Column(f"coalesce({labels}.grade, 0e0)", "grade"))
        if "judged" in self.needs.row_columns:
            flag = f"case when {labels}.query_id is null then 0e0 else 1e0 end"
            columns.append(Column(flag, "judged"))
        on = _equal(labels, rankings, (*self.label_keys, "item_id"))
        return Stage(
            "judged",
            "judged",
            {"columns": columns, "rankings": rankings, "labels": labels, "conditions": on},
        )

    def _ranked_stage(self) -> Stage:
        carried = [*self.keys, *self.facts, "grade"]
        runs = {}
        for name, relevant in self.needs.row_columns.items():
            if relevant:
                runs[name] = relevant
            else:
                carried.append(name)
        return Stage(
            "ranked",
            "ranked",
            {
                "columns": [Column(name, name) for name in carried],
                "keys": self.keys,
                "order": self.order,
                "runs": {name: case(relevant, "1e0") for name, relevant in runs.items()},
            },
        )

    def _sums_in_order(self) -> list[Sums]:
        """The labels' sums first: the rankings' may be joined with them."""
        sums = self.needs.sums.values()
        return sorted(sums, key=lambda one: (one.over in ("ranked", "ideal_shown"), one.name))

    def _sum_keys(self, sums: Sums) -> tuple[str, ...]:
        return self.keys if sums.over in ("ranked", "ideal_shown") else self.label_keys

    def _ideal_stage(self, sums: Sums, labels: str) -> Stage:
        over = labels if sums.over == "ideal" else "ranked"
        keys = self._sum_keys(sums)
        view = {"keys": keys, "order": sums.order, "over": over, "about": _ABOUT_IDEAL[sums.over]}
        return Stage(sums.rows, "ideal", view)

    def _sums_stage(self, sums: Sums, labels: str) -> Stage:
        over = labels if sums.over == "labels" else sums.rows
        keys = self._sum_keys(sums)
        columns = list(sums.columns.values())
        if sums is self.retrieved:
            columns = [Column("1", "is_ranked"), *columns]
            columns += [Column(f"min({name})", name) for name in self.facts]
        joins = {name: _equal(name, over, self.label_keys) for name in sums.joined}
        return Stage(
            sums.name,
            "sums",
            {
                "keys": [f"{over}.{key}" for key in keys] if sums.joined else keys,
                "columns": columns,
                "from": over,
                "joins": joins,
                "about": _ABOUT[sums.over],
            },
        )

    def _facts_stage(self) -> Stage:
        columns = [Column(f"min({name})", name) for name in self.facts]
        return Stage("facts", "facts", {"keys": self.query_keys, "columns": columns})

    @cached_property
    def _counts_unlabelled(self) -> bool:
        """Whether queries without a label can be counted too."""
        over = (self.spec.value(measure, "average_over") for measure in self.spec.measures)
        return "rankings" in over

    def _evaluated_stage(self) -> Stage:
        origin = {"metric_date": "searched", "system": "systems", "query_id": "wanted"}
        keys = [f"{origin[key]}.{key}" for key in self.keys]
        view = {
            "keys": keys,
            "searched": _equal("searched", "wanted", self.label_keys)
            if "metric_date" in self.keys
            else "",
            "systems": "system" in self.keys,
            "flag": ["1 as is_labelled"] if self._counts_unlabelled else [],
            "ranked_keys": [f"retrieved.{key}" for key in self.keys],
            "unlabelled": _equal("wanted", "retrieved", self.label_keys),
        }
        return Stage("evaluated", "evaluated", view)

    def _per_query_stage(self) -> Stage:
        columns = [Column(f"evaluated.{key}", key) for key in self.keys]
        columns += [Column(self._fact(name), name) for name in self.facts]
        if self._counts_unlabelled:
            columns.append(Column("evaluated.is_labelled", "is_labelled"))
        columns.append(Column("coalesce(retrieved.is_ranked, 0)", "is_ranked"))
        for final in self.needs.finals:
            columns += _final_columns(final)
        joins = {s.name: _equal(s.name, "evaluated", self._sum_keys(s)) for s in self._sums_in_order()}
        if self.facts:
            joins["facts"] = _equal("facts", "evaluated", self.query_keys)
        return Stage("per_query", "per_query", {"columns": columns, "joins": joins})

    def _fact(self, name: str) -> str:
        if name == "weight":
            return "facts.weight"
        return f"coalesce(facts.{name}, {literal(UNKNOWN)})"

    # From one row a query to the summary

    @cached_property
    def _micro(self) -> bool:
        return any(final.denominator for final in self.needs.finals)

    @cached_property
    def _counts(self) -> bool:
        return any(measure.metric.count for measure in self.spec.measures)

    @cached_property
    def _groups(self) -> tuple[str, ...]:
        return tuple(key for key in self.keys if key != "query_id")

    def _values_stage(self) -> Stage:
        shared = [*self._groups, *self.facts, Column("1 - is_ranked", "is_missing")]
        metrics = [
            ([*shared, *self._value_columns(final)], self._population(final))
            for final in self.needs.finals
        ]
        return Stage("metric_values", "metric_values", {"metrics": metrics})

    def _value_columns(self, final: Final) -> Iterator[Column]:
        measure = final.measure
        yield Column(literal(measure.name), "metric")
        yield Column(str(measure.k or 0), "k")
        yield Column(measure.column, "metric_value")
        if self._micro:
            ratio = bool(final.denominator)
            yield Column(f"{measure.column}_numerator" if ratio else measure.column, "numerator")
            yield Column(f"{measure.column}_denominator" if ratio else "1e0", "denominator")
        if self._counts:
            yield Column("1" if measure.metric.count else "0", "is_count")

    def _population(self, final: Final) -> str:
        over = OPTIONS["average_over"].choice(self.spec.value(final.measure, "average_over"))
        flags = [f for f in over.only if f != "is_labelled" or self._counts_unlabelled]
        return " and ".join(f"{flag} = 1" for flag in flags)

    def _totals_stage(self) -> Stage:
        weight = " * weight" if "weight" in self.facts else ""
        one = "weight" if weight else "1e0"
        top, bottom = f"metric_value{weight}", one
        if self._micro:
            top, bottom = f"numerator{weight}", f"denominator{weight}"
        counted = "metric_value is null"
        if self.spec.options["missing"] == "drop":
            counted += " and is_missing = 0"
        sums = {
            "numerator": f"sum(case when metric_value is null then 0e0 else {top} end)",
            "denominator": f"sum(case when metric_value is null then 0e0 else {bottom} end)",
            "n_queries": "count(metric_value)",
            "n_skipped": f"sum(case when {counted} then 1 else 0 end)",
            "n_missing": "sum(is_missing)",
            "sum_sq": f"coalesce(sum(metric_value * metric_value{weight}), 0e0)",
        }
        if self._counts:
            sums["total"] = "case when max(is_count) = 1 then coalesce(sum(metric_value), 0e0) end"
        segments = [(ALL, literal(ALL), [])]
        segments += [(name, segment(name), [segment(name)]) for name in self.spec.by]
        view = {
            "groups": [*self._groups],
            "sums": [Column(sql, name) for name, sql in sums.items()],
            "segments": segments,
        }
        return Stage("totals", "totals", view)

    def _summary_stage(self) -> Stage:
        top, bottom = "numerator", "denominator"
        value = "numerator / nullif(denominator, 0e0)"
        if self._counts:
            value = f"coalesce(total, {value})"
            top, bottom = (f"case when total is null then {name} end" for name in (top, bottom))
        columns = [
            Column(literal(self.spec.title), "spec"),
            *self._named_keys(),
            *(Column(name, name) for name in ("segment_name", "segment_value", "metric", "k")),
            Column(value, "value"),
            Column(top, "numerator"),
            Column(bottom, "denominator"),
            *(Column(f"cast({n} as bigint)", n) for n in ("n_queries", "n_skipped", "n_missing")),
            Column("sum_sq", "sum_sq"),
        ]
        return Stage("summary", "summary", {"columns": columns})

    def _named_keys(self) -> Iterator[Column]:
        has_date = "metric_date" in self.keys
        date = "metric_date" if has_date else f"cast({literal(NO_DATE)} as date)"
        yield Column(date, "metric_date")
        yield Column("system" if "system" in self.keys else literal(self.spec.title), "system")

    def _output(self) -> Iterator[Column]:
        date, system = self._named_keys()
        if "metric_date" in self.keys:
            yield date
        yield system
        yield Column("query_id", "query_id")
        for measure in self.spec.measures:
            yield Column(measure.column, measure.column)


_ABOUT = {
    "ranked": "one row a query with a ranking: sums over its list",
    "labels": "one row a query with a label: sums over its labels",
    "ideal": "one row a query with a label: sums over its ideal order",
    "ideal_shown": "one row a query with a ranking: sums over its list in the best order",
}

_ABOUT_IDEAL = {
    "ideal": "a query's labels, best first",
    "ideal_shown": "the items of a list, best first",
}


def _equal(left: str, right: str, keys: tuple[str, ...]) -> list[str]:
    return [f"{left}.{key} = {right}.{key}" for key in keys]


def _final_columns(final: Final) -> Iterator[Column]:
    name = final.measure.column
    yield Column(final.value, name)
    if final.denominator:
        yield Column(final.numerator, f"{name}_numerator")
        yield Column(final.denominator, f"{name}_denominator")
