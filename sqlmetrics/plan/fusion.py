"""From the rows of several runs to one ranking, as stages of SQL.

    runs ─> run_ranks ─> run_scores ─> joined_items ─> fused_items

Each run has a column in `joined_items`, so that a sum is taken in the order of the runs and is
the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlmetrics.errors import SpecError
from sqlmetrics.plan.shape import Shape, segment
from sqlmetrics.spec.mixture import RANK, Mixture, extreme, is_run
from sqlmetrics.spec.source import Rankings
from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.relation import Relation, unmentioned
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.sql.template import double, identifier, literal

if TYPE_CHECKING:
    from sqlmetrics.plan.plan import Plan

LEAST = "1e-9"
"""The least that scores are divided by, as ranx has it."""


def _at_least(spread: str) -> str:
    return f"case when {spread} > {LEAST} then {spread} else {LEAST} end"


_SPREAD = "(highest - lowest)"
_VALUES = {
    RANK: "1e0 * rnk",
    "none": "value",
    "rank": "1e0 - 1e0 * (rnk - 1) / n_items",
    "max": f"value / {_at_least('highest')}",
    "min_max": f"(value - lowest) / {_at_least(_SPREAD)}",
    "sum": f"(value - lowest) / {_at_least('(total - lowest * n_items)')}",
    "z_score": f"(value - average) / {_at_least('sqrt(variance)')}",
    "opensearch": f"case when highest = lowest then 1e0 when value = lowest then 1e-3 "
    f"else (value - lowest) / {_SPREAD} end",
    "elasticsearch": f"case when highest = lowest then lowest "
    f"else (value - lowest) / {_SPREAD} end",
    "weaviate": f"case when highest = lowest then 1e0 else (value - lowest) / {_SPREAD} end",
}
"""Norm -> what becomes of a score."""

_ENDS = {"lowest": "min(value)", "highest": "max(value)"}
_OF_LIST: dict[str, dict[str, str]] = {
    "rank": {"n_items": "count(*)"},
    "max": {"highest": "max(value)"},
    "sum": {"lowest": "min(value)", "total": "sum(value)", "n_items": "count(*)"},
    "z_score": {"average": "avg(value)"},
    "min_max": _ENDS,
    "opensearch": _ENDS,
    "elasticsearch": _ENDS,
    "weaviate": _ENDS,
}
"""Norm -> what it reads of the whole list."""


@dataclass(frozen=True)
class FusionStages:
    """The stages of a fusion.

    Attributes:
        plan: The plan of an evaluation of the runs, which are its systems.
        runs: The runs in their order.
        depth: As many items of each run are looked at; None for all.
        suffix: What the names of its stages end in, where there are several fusions.
    """

    plan: Plan
    runs: tuple[str, ...]
    depth: int | None = None
    suffix: str = ""

    @property
    def query_keys(self) -> tuple[str, ...]:
        """What a query is identified by."""
        return self.plan.shape.query_keys

    def inputs(self) -> Iterator[Stage]:
        """The rows of the runs, without duplicates."""
        shape, names = self.plan.shape, self._names
        for stage in self.plan.lists:
            if stage.name in names:
                source = stage.view.get("from")
                view = {**stage.view, "from": names[source]} if source in names else stage.view
                about = {"about": "one row per ranked item of a run"} if view is stage.view else {}
                yield replace(stage, name=names[stage.name], view={**view, **about})
        if shape.counts_repeats:
            raise SpecError(
                "a ranking is fused from lists that have each item once; set "
                "duplicate_rankings=best_score"
            )

    @property
    def _names(self) -> dict[str, str]:
        """The stages of the rankings -> what they are called beside what is made of them."""
        shape = self.plan.shape
        runs = unmentioned("runs", shape.tables.values())
        return {self.plan.tables[0]: f"unique_{runs}", shape.names["rankings"]: runs}

    def joined(self, features: Sequence[str]) -> Iterator[Stage]:
        """From the tables to one row per query and item, with features of each run."""
        yield from self.inputs()
        yield from self._joined(features)

    def _joined(self, features: Sequence[str]) -> Iterator[Stage]:
        shape = self.plan.shape
        yield self._ranks()
        source = self.name("run_ranks")
        of_list = {
            name: sql for feature in features for name, sql in _OF_LIST.get(feature, {}).items()
        }
        if of_list:
            yield self._with_windows("run_lists", source, of_list)
            source = self.name("run_lists")
        if "z_score" in features:
            squares = {"variance": "avg((value - average) * (value - average))"}
            yield self._with_windows("run_spreads", source, squares)
            source = self.name("run_spreads")
        keys = [*shape.keys, "item_id", *shape.listed_facts]
        columns = [
            *keys,
            *(Column(folded(_VALUES[name]), feature_column(name)) for name in features),
        ]
        about = "one row per item of a run: the value that the mixture reads"
        view = {"about": about, "columns": columns, "from": source}
        where = f"rnk <= {self.depth}" if self.depth and not of_list else ""
        yield Stage(self.name("run_scores"), "columns", {**view, "where": where})
        yield self._items(features)

    def name(self, stage: str) -> str:
        """What a stage is called."""
        return f"{stage}{self.suffix}"

    def _ranks(self) -> Stage:
        shape = self.plan.shape
        value = "-1e0 * given_rank" if shape.order[0].startswith("given_rank") else "score"
        order = [key for key in shape.order if key.split()[0] != "grade"]
        window = Window(shape.keys, order)
        columns = [
            *(*shape.keys, "item_id", *shape.listed_facts),
            Column(f"cast({value} as double)", "value"),
            Column(f"row_number() over {window}", "rnk"),
        ]
        view = {
            "about": "rank 1 is the best item of a run",
            "columns": columns,
            "from": self._names[self.plan.tables[0]],
            "where": " or ".join(map(is_run, self.runs)),
        }
        return Stage(self.name("run_ranks"), "columns", view)

    def _with_windows(self, name: str, source: str, sums: dict[str, str]) -> Stage:
        columns = [
            f"{source}.*",
            *(Column(f"{sql} over {Window(self.plan.shape.keys)}", n) for n, sql in sums.items()),
        ]
        view = {
            "about": "one row per item of a run, with the statistics of its list",
            "columns": columns,
            "from": source,
            "where": f"rnk <= {self.depth}" if self.depth and name == "run_lists" else "",
        }
        return Stage(self.name(name), "columns", view)

    @property
    def _facts(self) -> list[Column]:
        """What is known of a query, which each of its rows has."""
        return [Column(f"max({fact})", fact) for fact in self.plan.shape.listed_facts]

    def _items(self, features: Sequence[str]) -> Stage:
        columns = [
            Column(
                f"max(case when {is_run(run)} then {feature_column(feature)} end)",
                run_column(feature, number),
            )
            for feature in features
            for number, run in enumerate(self.runs, 1)
        ]
        view = {
            "about": "one row per query and item; NULL if a run does not have it",
            "keys": [*self.query_keys, "item_id"],
            "columns": [*self._facts, *columns],
            "from": self.name("run_scores"),
            "joins": {},
            "where": "",
        }
        return Stage(self.name("joined_items"), "sums", view)

    def points(self) -> tuple[list[Stage], list[str]]:
        """Borda's points: the stages of them, and the points of each run."""
        window = Window(self.query_keys)
        ranks = [run_column(RANK, number) for number, _ in enumerate(self.runs, 1)]
        sizes = [
            Column(f"coalesce(max({rank}) over {window}, 0e0)", f"n_items_{number}")
            for number, rank in enumerate(ranks, 1)
        ]
        candidates = Column(f"count(*) over {window}", "n_candidates")
        about = "the number of items of a query, and of each run for it"
        view = {
            "about": about,
            "columns": [f"{self.name('joined_items')}.*", candidates, *sizes],
            "from": self.name("joined_items"),
            "where": "",
        }
        points = [
            f"coalesce(n_candidates + 1e0 - {rank}, (n_candidates - n_items_{number} + 1e0) / 2e0)"
            for number, rank in enumerate(ranks, 1)
        ]
        return [Stage(self.name("candidate_items"), "columns", view)], points

    def medians(self, feature: str, mixture: Mixture) -> list[Stage]:
        """The stages of the median of the runs that have an item."""
        weights = mixture.weights or (1.0,) * len(self.runs)
        cases = " ".join(
            f"when {is_run(run)} then {double(weight)}"
            for run, weight in zip(self.runs, weights, strict=True)
        )
        value = f"case {cases} end * {feature_column(feature)}"
        keys = [*self.query_keys, "item_id"]
        numbered = {
            "about": "the values of an item, sorted",
            "columns": [
                f"{self.name('run_scores')}.*",
                Column(value, "weighted"),
                Column(f"row_number() over {Window(keys, [f'{value} asc'])}", "n_lower"),
                Column(f"count(*) over {Window(keys)}", "n_runs"),
            ],
            "from": self.name("run_scores"),
            "where": "",
        }
        median = {
            "about": "one row per query and item: its median",
            "keys": keys,
            "columns": [*self._facts, Column("avg(weighted)", "score")],
            "from": self.name("ordered_scores"),
            "joins": {},
            "where": "2 * n_lower in (n_runs, n_runs + 1, n_runs + 2)",
        }
        return [
            Stage(self.name("ordered_scores"), "columns", numbered),
            Stage(self.name("median_items"), "sums", median),
        ]

    def fused(self, mixture: Mixture) -> list[Stage]:
        """From the tables to `fused_items`: a row per query and item, with its score."""
        return [*self.inputs(), *self.mixed(mixture)]

    def mixed(self, mixture: Mixture) -> list[Stage]:
        """From the rows of the runs to the same."""
        feature = mixture.feature
        stages = [*self._joined([feature])]
        if mixture.method == "med":
            stages = [*stages[:-1], *self.medians(feature, mixture)]
            score = "score"
        else:
            mixture_stages, _, score = self.scored(mixture)
            stages += mixture_stages
        facts = self.plan.shape.listed_facts
        view = {
            "about": f"one row per query and item: {mixture}",
            "columns": [*self.query_keys, "item_id", *facts, Column(folded(score), "score")],
            "from": stages[-1].name,
            "where": "",
        }
        return [*stages, Stage(self.name("fused_items"), "columns", view)]

    def ranked(self, about: str = "rank 1 is the best item of a query") -> Stage:
        """What comes of these, with their ranks."""
        rank = f"row_number() over {Window(self.query_keys, ['score desc', 'item_id asc'])}"
        facts = self.plan.shape.listed_facts
        view = {
            "about": about,
            "columns": [*self.query_keys, "item_id", *facts, "score", Column(rank, "rnk")],
            "from": self.name("fused_items"),
            "where": "",
        }
        return Stage(self.name("fused_ranks"), "columns", view)

    def scored(
        self, mixture: Mixture, weights: Sequence[str] = (), k: str = ""
    ) -> tuple[list[Stage], str, str]:
        """Stages behind `joined_items`, the last one's name, and the score of its items.

        Args:
            mixture: How the runs become one; not by `med`.
            weights: As `Mixture.score` takes them.
            k: Likewise.
        """
        values = [run_column(mixture.feature, number) for number, _ in enumerate(self.runs, 1)]
        if mixture.method == "turns":
            return [], self.name("joined_items"), self._turns(values)
        if mixture.method == "borda":
            stages, values = self.points()
            return stages, stages[-1].name, mixture.score(values, weights, k)
        return [], self.name("joined_items"), mixture.score(values, weights, k)

    def _turns(self, ranks: Sequence[str]) -> str:
        n_runs = len(self.runs)
        places = [f"(({rank} - 1) * {n_runs} + {number})" for number, rank in enumerate(ranks, 1)]
        return f"-1e0 * {extreme(places, is_highest=False)}"


FUSED = "fused_rankings"
"""The stage of the rankings of a spec beside what they are fused to."""


def fused_rankings(unfused: Plan, rankings: Rankings) -> list[Stage]:
    """From the table of a spec to its rows and those of what they are fused to.

    The last stage has the columns of the table by their names; the first one reads it.

    Args:
        unfused: The plan of an evaluation of the table.
        rankings: What is fused.
    """
    shape, stages, parts = unfused.shape, list[Stage](), []
    for number, system in enumerate(rankings.fuse, 1):
        suffix = f"_{number}" if number > 1 else ""
        fusion = FusionStages(unfused, system.run_names, system.window, suffix)
        stages += [*([] if stages else fusion.inputs()), *fusion.mixed(system.mixture)]
        stages.append(fusion.ranked())
        where = f"rnk <= {system.limit}" if system.limit else ""
        parts.append((_named_columns(shape, literal(system.name)), stages[-1].name, where))
    if not rankings.fused_only:
        parts.insert(0, (_named_columns(shape, "system"), stages[0].name, ""))
    about = "one row per ranked item, of the runs and of what they are fused to"
    stages.append(Stage(FUSED, "union", {"about": about, "parts": parts}, "materialized"))
    return stages


def fused_relation(unfused: Plan, rankings: Rankings) -> Relation:
    """The same as what stands behind FROM, of all days, in the words of the database."""
    at = unfused.shape.at
    everything = replace(unfused, shape=Shape(unfused.spec, at.on_all_days))
    *stages, last = fused_rankings(everything, rankings)
    text = with_stages([*stages, replace(last, hint="")], f"select *\nfrom {FUSED}")
    return Relation("query", at.translation.text(text))


def _named_columns(shape: Shape, system: str) -> list[Column]:
    """The columns of a stage by the names that they have in the table."""
    names = shape.columns["rankings"]
    is_ranked = "rank" in names
    order = "rank" if is_ranked else "score"
    of_runs = system == "system"
    sql_by_role = {
        "date": "metric_date",
        "system": system,
        "query": "query_id",
        "item": "item_id",
        order: ("given_rank" if of_runs else "rnk") if is_ranked else "cast(score as double)",
        "weight": "weight",
    }
    columns = [Column(sql, identifier(names[r])) for r, sql in sql_by_role.items() if r in names]
    segments = (name for name in shape.segments["rankings"] if name not in names.values())
    for name in segments:
        is_condition = name in shape.spec.segments
        alias = segment(name) if is_condition else identifier(name)
        columns.append(Column(segment(name), alias))
    return columns


def feature_column(feature: str) -> str:
    """The column of a feature of a run."""
    return f"of_{feature}"


def run_column(feature: str, number: int) -> str:
    """The column of a feature of the run of a number."""
    return f"{feature}_{number}"
