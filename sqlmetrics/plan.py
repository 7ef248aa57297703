"""Spec + catalogue -> Plan: every decision about an evaluation's SQL is made here.

The plan is a list of stages, one CTE each, from the two tables to the summary:

    rankings ─> judged ─> ranked ─> retrieved ─┐
    labels ──┴> ideal ──────────────> wanted ──┴> evaluated ─> per_query ─> summary

Templates only print what they are given: no stage decides anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.inputs import Tables, relation_of
from sqlmetrics.measure import Measure
from sqlmetrics.needs import Final, Needs, Sums
from sqlmetrics.rollup import UNKNOWN, Rollup
from sqlmetrics.shape import Shape
from sqlmetrics.spec import Spec
from sqlmetrics.stage import Column, Stage, equal
from sqlmetrics.template import case, literal


@dataclass(frozen=True)
class Plan:
    """All that there is to print, in order.

    Attributes:
        spec: What was asked.
        measures: The metrics, in the order of the spec.
        shape: What the two tables hold.
        inputs: The two tables, as the other stages and the input checks read them.
        per_query: From the tables to one row a query.
        summary: From `per_query` to one row a metric, system and segment.
        output: The columns of the per-query table.
        where: Which rows of `per_query` that table holds.
    """

    spec: Spec
    measures: tuple[Measure, ...]
    shape: Shape
    inputs: tuple[Stage, ...]
    per_query: tuple[Stage, ...]
    summary: tuple[Stage, ...]
    output: tuple[Column, ...]
    where: str


def plan(spec: Spec, tables: Tables | None = None) -> Plan:
    """The plan of a spec.

    Args:
        spec: What is asked.
        tables: Where they are, if the spec cannot say it (data in memory).

    Raises:
        SpecError: If the spec asks for what its sources cannot give.
    """
    if tables is None:
        rankings = relation_of(spec.rankings, "rankings")
        tables = Tables(rankings, relation_of(spec.labels, "labels"))
    shape = Shape(spec, tables.rankings, tables.labels).checked()
    needs = Needs(spec)
    rollup = Rollup(shape, needs)
    return Plan(
        spec=spec,
        measures=spec.measures,
        shape=shape,
        inputs=shape.stages(),
        per_query=tuple(_PerQuery(shape, needs).stages()),
        summary=rollup.stages(),
        output=tuple(rollup.per_query_output()),
        where="is_ranked = 1" if spec.options["missing"] == "drop" else "",
    )


@dataclass(frozen=True)
class _PerQuery:
    """The stages from the two tables to one row a query and system."""

    shape: Shape
    needs: Needs

    def stages(self) -> Iterator[Stage]:
        rankings, labels = self.shape.names["rankings"], self.shape.names["labels"]
        if self.shape.spec.options["duplicate_rankings"] == "best_score":
            best = self._best()
            yield self._unique_stage("unique_rankings", rankings, self.shape.keys, best)
            rankings = "unique_rankings"
        if self.shape.spec.options["duplicate_labels"] == "max_grade":
            best = [Column("max(grade)", "grade")]
            yield self._unique_stage("unique_labels", labels, self.shape.label_keys, best)
            labels = "unique_labels"
        yield self._judged_stage(rankings, labels)
        yield self._ranked_stage()
        for sums in self._sums_in_order():
            if sums.order:
                yield self._ideal_stage(sums, labels)
            yield self._sums_stage(sums, labels)
        if "system" in self.shape.keys:
            yield Stage("systems", "systems", {})
        if "metric_date" in self.shape.keys:
            yield Stage("searched", "searched", {"keys": self.shape.query_keys})
        if self.shape.facts:
            yield self._facts_stage()
        yield self._evaluated_stage()
        yield self._per_query_stage()

    def _unique_stage(
        self, name: str, over: str, keys: tuple[str, ...], best: list[Column]
    ) -> Stage:
        return Stage(name, "unique", {"keys": (*keys, "item_id"), "best": best, "from": over})

    def _best(self) -> list[Column]:
        best = Column("min(given_rank)", "given_rank")
        if "rank" not in self.shape.columns["rankings"]:
            best = Column("max(score)", "score")
        first = [n for n in (*self.shape.sorters[1:], *self.shape.facts) if n != "item_id"]
        return [best] + [Column(f"min({name})", name) for name in first]

    def _judged_stage(self, rankings: str, labels: str) -> Stage:
        carried = dict.fromkeys((*self.shape.keys, *self.shape.sorters, *self.shape.facts))
        columns = [Column(f"{rankings}.{name}", name) for name in carried]
        columns.append(Column(f"coalesce({labels}.grade, 0e0)", "grade"))
        if "judged" in self.needs.row_columns:
            flag = f"case when {labels}.query_id is null then 0e0 else 1e0 end"
            columns.append(Column(flag, "judged"))
        on = equal(labels, rankings, (*self.shape.label_keys, "item_id"))
        return Stage(
            "judged",
            "judged",
            {"columns": columns, "rankings": rankings, "labels": labels, "conditions": on},
        )

    def _ranked_stage(self) -> Stage:
        carried = [*self.shape.keys, *self.shape.facts, "grade"]
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
                "keys": self.shape.keys,
                "order": self.shape.order,
                "runs": {name: case(relevant, "1e0") for name, relevant in runs.items()},
            },
        )

    def _sums_in_order(self) -> list[Sums]:
        """The labels' sums first: the rankings' may be joined with them."""
        sums = self.needs.sums.values()
        return sorted(sums, key=lambda one: (one.over in ("ranked", "ideal_shown"), one.name))

    def _sum_keys(self, sums: Sums) -> tuple[str, ...]:
        return self.shape.keys if sums.over in ("ranked", "ideal_shown") else self.shape.label_keys

    def _ideal_stage(self, sums: Sums, labels: str) -> Stage:
        over = labels if sums.over == "ideal" else "ranked"
        keys = self._sum_keys(sums)
        view = {"keys": keys, "order": sums.order, "over": over, "about": _ABOUT_IDEAL[sums.over]}
        return Stage(sums.rows, "ideal", view)

    def _sums_stage(self, sums: Sums, labels: str) -> Stage:
        over = labels if sums.over == "labels" else sums.rows
        keys = self._sum_keys(sums)
        columns = list(sums.columns.values())
        if sums.name == "retrieved":
            columns = [Column("1", "is_ranked"), *columns]
            columns += [Column(f"min({name})", name) for name in self.shape.facts]
        joins = {name: equal(name, over, self.shape.label_keys) for name in sums.joined}
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
        columns = [Column(f"min({name})", name) for name in self.shape.facts]
        return Stage("facts", "facts", {"keys": self.shape.query_keys, "columns": columns})

    def _evaluated_stage(self) -> Stage:
        origin = {"metric_date": "searched", "system": "systems", "query_id": "wanted"}
        keys = [f"{origin[key]}.{key}" for key in self.shape.keys]
        view = {
            "keys": keys,
            "searched": equal("searched", "wanted", self.shape.label_keys)
            if "metric_date" in self.shape.keys
            else "",
            "systems": "system" in self.shape.keys,
            "flag": ["1 as is_labelled"] if self.needs.counts_unlabelled else [],
            "ranked_keys": [f"retrieved.{key}" for key in self.shape.keys],
            "unlabelled": equal("wanted", "retrieved", self.shape.label_keys),
        }
        return Stage("evaluated", "evaluated", view)

    def _per_query_stage(self) -> Stage:
        columns = [Column(f"evaluated.{key}", key) for key in self.shape.keys]
        columns += [Column(self._fact(name), name) for name in self.shape.facts]
        if self.needs.counts_unlabelled:
            columns.append(Column("evaluated.is_labelled", "is_labelled"))
        columns.append(Column("coalesce(retrieved.is_ranked, 0)", "is_ranked"))
        for final in self.needs.finals:
            columns += _final_columns(final)
        joins = {
            s.name: equal(s.name, "evaluated", self._sum_keys(s)) for s in self._sums_in_order()
        }
        if self.shape.facts:
            joins["facts"] = equal("facts", "evaluated", self.shape.query_keys)
        return Stage("per_query", "per_query", {"columns": columns, "joins": joins})

    def _fact(self, name: str) -> str:
        if name == "weight":
            return "facts.weight"
        return f"coalesce(facts.{name}, {literal(UNKNOWN)})"


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


def _final_columns(final: Final) -> Iterator[Column]:
    name = final.measure.column
    yield Column(final.value, name)
    if final.denominator:
        yield Column(final.numerator, f"{name}_numerator")
        yield Column(final.denominator, f"{name}_denominator")
