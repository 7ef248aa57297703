"""The stages from the two tables to one row per query and system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from sqlmetrics.plan import items
from sqlmetrics.plan.global_metrics import pair_stages
from sqlmetrics.plan.groups import GroupRows
from sqlmetrics.plan.items import QueryColumnsRead
from sqlmetrics.plan.needs import (
    IDEAL_AGREEMENT,
    RANK_CHANGES,
    SUMS,
    TIED_AGREEMENT,
    MetricColumn,
    Needs,
    SumStage,
)
from sqlmetrics.plan.population import Population
from sqlmetrics.plan.ranking import OCCURRENCE, WindowRanking
from sqlmetrics.plan.segments import BY_TRAFFIC, UNKNOWN, by_traffic
from sqlmetrics.plan.shape import Shape, segment
from sqlmetrics.plan.strategy import PORTABLE, Strategy
from sqlmetrics.spec.segments import TRAFFIC
from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import literal

# Two lists of a query beside each other, by depth, where items of equal scores share places.
#
# Of n items that share places each is there by a part: by 1/n at the first of these places, 2/n
# at the second. So what an item of both lists adds to the overlap at depth d is a product of two
# such parts, and changes its form at three depths at most: where the later of the two comes up,
# and where each is wholly there. The overlap is a running sum of these changes, each of which is
# written as `square` x d^2 + `slope` x d + `base`.

TIED_NORM = """sqrt(
        first_rank - 1e0
        + (rnk - first_rank + 1e0) * (rnk - first_rank + 1e0) / n_tied
    )"""
"""The root of the squares of all parts of a list down to a depth that it reaches."""

MEANINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "w": {
            "share": "1e0",
            "reach": "first_rank + n_tied - 1e0",
            "unseen": "rnk",
            "size": "(own_reach + other_reach) / 2e0",
        },
        "a": {"share": "n_tied", "reach": "rnk", "unseen": "rnk", "size": "rnk"},
        "b": {
            "share": "n_tied",
            "reach": TIED_NORM,
            "unseen": "sqrt(rnk)",
            "size": "own_reach * other_reach",
        },
    }
)
"""What equal scores mean -> how many places an item shares, how much of a list is there at a depth
that it reaches, and at one below its end, and what of both the overlap is divided by."""


def tied_agreement_stages(shape: Shape, sums: SumStage, condition: str) -> Iterator[Stage]:
    """From the ranked items to one row per list and depth.

    Args:
        shape: What the tables hold.
        sums: What is summed over these rows.
        condition: The condition of the rows that count, empty if all do.
    """
    meaning, suffix = MEANINGS[sums.suffix.removeprefix("_")], sums.suffix
    names = ("items", "baseline", "lengths", "pairs", "parts", "steps", "depths", "overlaps")
    stage_names = {name: f"tied_{name}{suffix}" for name in names}
    keys = shape.keys
    view = {
        **stage_names,
        "keys": keys,
        "query_keys": shape.query_keys,
        "meaning": meaning,
        "same_query": equal("baseline", "ranked_items", shape.query_keys),
        "same_list": equal("ranked_items", "lengths", keys),
        "same_lengths": equal("lengths", "baseline", shape.query_keys),
        "of_list": equal("lengths", "steps", keys),
        "list": Window(keys, []),
        "by_rank": Window(keys, ["rnk asc"]),
        "down": Window(keys, ["rnk asc"], "unbounded preceding"),
    }
    tie = Window([*keys, "tied_rnk"], [])
    columns = [
        *keys,
        "item_id",
        Column("rnk * 1e0", "rnk"),
        Column("tied_rnk * 1e0", "first_rank"),
        Column(f"count(*) over {tie} * 1e0", "n_tied"),
    ]
    about = "one row per ranked item: the first of the places that it shares, and how many share"
    items = {"about": about, "columns": columns, "from": "ranked", "where": condition}
    yield Stage(stage_names["items"], "columns", items)
    yield Stage(
        stage_names["baseline"],
        "columns",
        {
            "about": "the lists that the others are compared with",
            "columns": [*shape.query_keys, "item_id", "rnk", "first_rank", "n_tied"],
            "from": stage_names["items"],
            "where": f"system = {literal(shape.spec.baseline or '')}",
        },
    )
    for name in names[2:]:
        yield Stage(stage_names[name], f"tied_{name}", view)
    yield Stage(sums.rows, "tied_agreement", view)


UNIQUE_GROUPS = "unique_group_labels"
"""The labels with one row an item and group, where duplicates are merged."""

MOST_EXACT = 200
"""How many sums of a list are exact: DuckDB's planning of more takes longer than the evaluation."""
FOLDED = 3
"""How many places of an ideal order a stage chooses, where stages are few."""

BUCKET, SCREENED, SUSPECTS, LISTS = "bucket", "n_screened", "n_suspects", "n_lists"
"""Columns of `per_query` where the plan looks for mistakes on the way: the number of a bucket of
queries, how many rows and lists it has, and how many mistakes there may be."""


def per_query_stages(shape: Shape, needs: Needs) -> tuple[Stage, ...]:
    """The stages from the two tables to one row per query and system, by the portable plan."""
    return tuple(PerQuery(shape, needs, PORTABLE).stages())


@dataclass(frozen=True)
class PerQuery:
    """The stages from the two tables to one row per query and system."""

    shape: Shape
    needs: Needs
    strategy: Strategy

    def stages(self) -> Iterator[Stage]:
        """All of them, each after those that it reads."""
        rankings, labels = self.names()
        *unique, ranked = self.ranked_stages()
        yield from (*unique, ranked)
        yield from self.needs.rows.stages(
            [column.name for column in ranked.view["columns"]],
            self.shape.keys,
            self.shape.order[0],
            (*self.shape.listed_facts, *self.needs.label_columns),
        )
        if self.needs.lists == "ranked_lists":
            yield self._ranked_lists_stage(rankings)
        yield from self._group_rows.stages(self._sums_in_order())
        for sums in self._sums_in_order():
            yield from self._row_stages(sums)
            if sums.order and sums.over != "ideal_returned":
                yield self._ideal_stage(sums, labels)
            yield self._sums_stage(sums, labels)
        if self.shape.listed_facts:
            yield self._query_facts_stage()
        if self.shape.made_of.having(TRAFFIC):
            yield by_traffic(self._facts_stage, self._traffic_keys)
        yield from self._population.stages()
        yield self._per_query_stage()

    def ranked_stages(self) -> Iterator[Stage]:
        """The stages from the two tables to one row per ranked item."""
        yield from self.unique_stages()
        yield from self._ranking.stages()

    @property
    def _ranking(self) -> WindowRanking:
        return self.strategy.ranking(self.shape, self.needs, *self.names())

    @property
    def _of_query(self) -> QueryColumnsRead:
        return QueryColumnsRead(self.shape)

    @property
    def _population(self) -> Population:
        return Population(self.shape, self.needs)

    @property
    def _group_rows(self) -> GroupRows:
        shape = self.shape
        labels = UNIQUE_GROUPS if self._merges_groups else shape.names["labels"]
        places = FOLDED if shape.translation.dialect.few_stages else 1
        return GroupRows(labels, shape.label_keys, shape.keys, self.needs.depth, places)

    @property
    def _merges_groups(self) -> bool:
        """Whether duplicates of an item in a group are merged, for metrics that look at groups."""
        return self.needs.has_groups and self.shape.spec.options["duplicate_labels"] == "max_grade"

    @property
    def _merges(self) -> dict[str, bool]:
        """Whether duplicates of a table are merged."""
        options = self.shape.spec.options
        return {
            "rankings": options["duplicate_rankings"] == "best_score",
            "labels": options["duplicate_labels"] == "max_grade" or self.shape.has_groups,
        }

    def names(self) -> tuple[str, str]:
        """The stages of the two tables, without duplicates."""
        merges, names = self._merges, self.shape.names
        rankings, labels = (
            f"unique_{table}" if merges[table] else names[table] for table in ("rankings", "labels")
        )
        return ("numbered_rankings" if self.shape.numbers_repeats else rankings), labels

    def unique_stages(self) -> Iterator[Stage]:
        """The two tables with one row per item, where duplicates are merged."""
        named = [Column(f"max({name})", name) for name in self.needs.label_columns]
        best = {"rankings": self._best(), "labels": [Column("max(grade)", "grade"), *named]}
        keys = {"rankings": self.shape.keys, "labels": self.shape.label_keys}
        for table in (table for table, merges in self._merges.items() if merges):
            view = {"keys": (*keys[table], "item_id"), "best": best[table], "row": "query and item"}
            yield Stage(f"unique_{table}", "unique", view | {"from": self.shape.names[table]})
        if self._merges_groups:
            view = {"keys": self.shape.labelled_keys, "best": best["labels"]}
            view |= {"from": self.shape.names["labels"], "row": "query, item and group"}
            yield Stage(UNIQUE_GROUPS, "unique", view)
        if self.shape.numbers_repeats:
            yield self._numbered_stage()

    def _numbered_stage(self) -> Stage:
        """The rows of the lists, and which time their item comes up there."""
        shape = self.shape
        columns = (*shape.keys, "item_id", *shape.sorters, *shape.listed_facts)
        column_names = [name for name in dict.fromkeys(columns) if name != "grade"]
        order = [
            sort_key for sort_key in shape.order if sort_key.split()[0] not in ("item_id", "grade")
        ]
        times = Column(f"row_number() over {Window([*shape.keys, 'item_id'], order)}", OCCURRENCE)
        view = {
            "about": "one row per ranked item; a repeated item appears again at a later place",
            "columns": [*column_names, times],
            "from": shape.names["rankings"],
            "where": "",
        }
        return Stage("numbered_rankings", "columns", view)

    def _best(self) -> list[Column]:
        best = Column("min(given_rank)", "given_rank")
        if "rank" not in self.shape.columns["rankings"]:
            best = Column("max(score)", "score")
        carried = (*self.shape.sorters[1:], *self.shape.listed_facts)
        first = [name for name in carried if name not in ("item_id", "grade")]
        return [best] + [Column(f"min({name})", name) for name in first]

    def _ranked_lists_stage(self, rankings: str) -> Stage:
        """The lists there are, also those of which no item is left."""
        columns = [Column("1", "is_ranked")]
        columns += [Column(f"min({name})", name) for name in self.shape.listed_facts]
        view = {"keys": self.shape.keys, "columns": columns, "from": rankings}
        return Stage("ranked_lists", "ranked_lists", view)

    def _sums_in_order(self) -> list[SumStage]:
        """The labels' sums first: the rankings' may be joined with them."""
        sums = self.needs.sums.values()
        order = list(SUMS)
        return sorted(
            sums, key=lambda sum_stage: (max(1, order.index(sum_stage.over)), sum_stage.name)
        )

    def _sum_keys(self, sums: SumStage) -> tuple[str, ...]:
        return self.shape.keys if sums.a_list else self.shape.label_keys

    def _row_stages(self, sums: SumStage) -> Iterator[Stage]:
        """The stages of the rows that are summed, where they are made of the ranked ones."""
        makers: dict[str, Callable[[Shape, SumStage, str], Iterator[Stage]]] = {
            "item_features": partial(items.stages, label_columns=self.needs.label_columns),
            "rank_agreement": _compared_stages,
            TIED_AGREEMENT: tied_agreement_stages,
            IDEAL_AGREEMENT: self._ideal_agreement_stages,
            RANK_CHANGES: self._rank_change_stages,
        }
        if sums.over == "pairs":
            yield from pair_stages(sums, self.shape.keys, self.needs.depth)
        elif sums.over in makers:
            ends = (sums.deepest, self.shape.spec.options["depth"])
            last = min((end for end in ends if isinstance(end, int)), default=None)
            condition = f"rnk <= {last}" if last else ""
            yield from makers[sums.over](self.shape, sums, condition)

    def _ideal_agreement_stages(
        self, shape: Shape, sums: SumStage, condition: str
    ) -> Iterator[Stage]:
        """Every list beside its ideal order: how much they share, by depth."""
        labels = self.names()[1]
        names = [f"{name}{sums.suffix}" for name in ("ideal_items", "ideal_places")]
        view = {
            "keys": shape.keys,
            "ranked": "ranked",
            "labels": labels,
            "ideal_items": names[0],
            "ideal_places": names[1],
            "depth": condition,
            "relevant": sums.relevant,
            "same_query": equal(labels, "lists", shape.label_keys),
            "same_list": equal("ranked", "lists", shape.keys),
            "down": Window(shape.keys, ["rnk asc"], "unbounded preceding"),
        }
        for name, template in zip(names, ("ideal_items", "ideal_places"), strict=True):
            yield Stage(name, template, view)
        yield Stage(sums.rows, "ideal_agreement", view)

    def _rank_change_stages(self, shape: Shape, sums: SumStage, condition: str) -> Iterator[Stage]:
        """Every list beside the baseline's list: where each relevant label stands in both."""
        labels = self.names()[1]
        view = {
            "keys": shape.keys,
            "query_keys": shape.query_keys,
            "ranked": "ranked",
            "labels": labels,
            "name": literal(shape.spec.baseline or ""),
            "depth": condition,
            "relevant": sums.relevant,
            "same_query": equal("old_lists", "lists", shape.query_keys),
            "same_label": equal(labels, "lists", shape.label_keys),
            "same_list": equal("ranked", "lists", shape.keys),
            "same_old_list": equal("old_items", "lists", shape.query_keys),
        }
        yield Stage(sums.rows, "rank_changes", view)

    def _ideal_stage(self, sums: SumStage, labels: str) -> Stage:
        over = labels if sums.over == "ideal" else "ranked"
        keys = self._sum_keys(sums)
        unjudged = self.shape.spec.options["negative_grades"] == "unjudged" and over == labels
        order = "coalesce(grade, 0e0)" if unjudged and sums.order == "grade" else sums.order
        where = self.needs.depth if over == "ranked" else ""
        view = {"about": _ABOUT_IDEAL[sums.over], "keys": keys, "from": over, "where": where}
        view["read"] = [name for name in self.needs.label_columns if sums.reads(name)]
        return self._ranking.in_order(sums.rows, view, f"{order} desc")

    def _sums_stage(self, sums: SumStage, labels: str) -> Stage:
        rows = {"labels": labels, "ranked": self.needs.rows.stage}.get(sums.over, sums.rows)
        over, *joined = [rows, *sums.joined]
        if sums.over == "ideal_returned":
            over, *joined = [*joined, over]
        keys = self._sum_keys(sums)
        columns = [
            replace(column, sql=self._of_query.with_day(column.sql, over))
            for column in sums.columns.values()
        ]
        if len(columns) <= MOST_EXACT:
            exact = self.shape.translation.exact
            columns = [replace(column, sql=exact(column.sql)) for column in columns]
        if sums.name == self.needs.lists:
            columns = [Column("1", "is_ranked"), *columns]
            columns += [Column(f"min({name})", name) for name in self.shape.listed_facts]
        joins = {name: equal(name, over, self.shape.label_keys) for name in joined}
        joins |= self._of_query.joins(over, (column.sql for column in columns))
        return Stage(
            sums.name,
            "sums",
            {
                "keys": [f"{over}.{key}" for key in keys] if joins else keys,
                "columns": columns,
                "from": over,
                "joins": joins,
                "where": self.needs.depth if sums.over == "ranked" else "",
                "about": _ABOUT[sums.over],
            },
        )

    def _query_facts_stage(self) -> Stage:
        columns = [Column(f"min({name})", name) for name in self.shape.listed_facts]
        source = self._population.answered
        view = {"keys": self.shape.query_keys, "columns": columns, "from": source}
        return Stage("query_facts", "query_facts", view)

    def _per_query_stage(self) -> Stage:
        evaluated = self._population.stage
        columns = [Column(f"{evaluated}.{key}", key) for key in self.shape.keys]
        columns += [Column(self._fact(name), name) for name in self.shape.facts]
        if self.needs.counts_unlabelled:
            columns.append(Column("query_systems.is_labelled", "is_labelled"))
        columns.append(Column(f"coalesce({self.needs.lists}.is_ranked, 0)", "is_ranked"))
        for column in (column for final in self.needs.finals for column in _final_columns(final)):
            columns.append(replace(column, sql=self._of_query.with_day(column.sql, evaluated)))
        if self.strategy.suspects:
            columns += [
                Column(str(self.shape.bucket.number), BUCKET),
                Column("(select n_rows from list_checks)", SCREENED),
                Column("(select n_bad + n_gaps + n_alike from list_checks)", SUSPECTS),
                Column(f"(select count(*) from {self._ranking.counted})", LISTS),
            ]
        joins = {
            sums.name: equal(sums.name, evaluated, self._sum_keys(sums))
            for sums in self._sums_in_order()
            if sums.name != evaluated
        }
        if self.needs.lists == "ranked_lists":
            joins["ranked_lists"] = equal("ranked_lists", evaluated, self.shape.keys)
        if self.shape.listed_facts:
            joins["query_facts"] = equal("query_facts", evaluated, self.shape.query_keys)
        joins |= self._of_query.joins(evaluated, (column.sql for column in columns))
        if self.shape.facts_of_queries:
            queries = self.shape.names["queries"]
            joins[queries] = equal(queries, evaluated, self.shape.keys_of_queries)
        if self.shape.made_of.having(TRAFFIC):
            joins[BY_TRAFFIC] = equal(BY_TRAFFIC, evaluated, self._traffic_keys)
        view = {
            "columns": columns,
            "from": evaluated,
            "joins": joins,
            "inner": self._population.labelled,
        }
        return Stage("per_query", "per_query", view)

    @property
    def _facts_stage(self) -> str:
        """The stage that has the weight of every query."""
        return self.shape.names["queries"] if self.shape.weighted == "queries" else "query_facts"

    @property
    def _traffic_keys(self) -> tuple[str, ...]:
        """What identifies a row of it."""
        of_queries = self.shape.weighted == "queries"
        return self.shape.keys_of_queries if of_queries else self.shape.query_keys

    def _fact(self, name: str) -> str:
        if name in self.shape.derived_facts:
            segment_name = self.shape.derived_facts[name]
            return self.shape.made_of.fact(segment_name, self.needs.relevant_labels)
        is_known_fact = name in self.shape.facts_of_queries
        fact = f"{self.shape.names['queries'] if is_known_fact else 'query_facts'}.{name}"
        if name == "weight":
            return fact
        source = self.shape.queries if is_known_fact else self.shape.spec.rankings
        if source and name == segment(source.columns.query):
            # by the query itself: known also where the table has no row of it
            return f"coalesce({fact}, {self._population.stage}.query_id)"
        return f"coalesce({fact}, {literal(UNKNOWN)})"


_ABOUT = {
    "ranked": "one row per query with a ranking: sums over its list",
    "labels": "one row per query with a label: sums over its labels",
    "ideal": "one row per query with a label: sums over its ideal order",
    "ideal_shown": "one row per query with a ranking: sums over its list in the best order",
    "ideal_returned": "one row per query with a ranking: sums over as much of the ideal order",
    "item_features": "one row per query with a ranking: sums over the items of its list",
    "rank_agreement": "one row per query with a ranking: sums over its list and the baseline's",
    TIED_AGREEMENT: "one row per list that has one to compare with: sums over the depths of both",
    IDEAL_AGREEMENT: "one row per query with a ranking: sums over its list and its ideal order",
    RANK_CHANGES: "one row per list that has one to compare with: sums over its relevant labels",
    "pairs": "one row per query with a scored and labelled item: the pairs of such items",
    "label_groups": "one row per query with a relevant label: sums over its groups",
    "group_hits": "one row per list with a hit: sums over its items by their groups",
    "shown_groups": "one row per list with a hit: sums over the groups that it shows",
    "evidence": "one row per list: sums over its groups and other items, without gaps",
    "ideal_groups": "one row per query with a relevant label: sums over its ideal order",
}

_ABOUT_IDEAL = {
    "ideal": "the labels of a query, best first; equal gains may come in any order",
    "ideal_shown": "the items of a list, best first; equal gains may come in any order",
}


def _final_columns(final: MetricColumn) -> Iterator[Column]:
    name = final.measure.column
    yield Column(folded(final.value), name)
    if final.denominator:
        yield Column(folded(final.numerator), f"{name}_numerator")
        yield Column(folded(final.denominator), f"{name}_denominator")


def _compared_stages(shape: Shape, sums: SumStage, condition: str) -> Iterator[Stage]:
    """Every list beside the baseline's list of the same query: how much they share, by depth.

    Args:
        shape: What the tables hold.
        sums: What is summed over these rows.
        condition: The condition of the rows that count, empty if all do.
    """
    keys, ranked = shape.keys, "ranked"
    view = {
        "keys": keys,
        "query_keys": shape.query_keys,
        "ranked": ranked,
        "name": literal(shape.spec.baseline or ""),
        "depth": condition,
        "same_query": equal("baseline", ranked, shape.query_keys),
        "same_list": equal("baseline", "lists", shape.query_keys),
        "list": Window(keys, []),
        "down": Window(keys, ["rnk asc"], "unbounded preceding"),
    }
    for name in ("baseline", "places", "depths", "in_common", sums.rows):
        yield Stage(name, name, view)
