"""From the rows of several runs to one ranking, as stages of SQL.

    rankings ─> run_ranks ─> run_scores ─> joined_items ─> fused_items

Each run has a column in `joined_items`, so that a sum is taken in the order of the runs and is
the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.mixture import RANK, Mixture, extreme, is_run
from sqlmetrics.sql.stage import Column, Stage, Window
from sqlmetrics.sql.template import double

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
}
"""Norm -> what it reads of the whole list."""


@dataclass(frozen=True)
class FusionStages:
    """The stages of a fusion.

    Attributes:
        plan: The plan of an evaluation of the runs, which are its systems.
        runs: The runs in their order.
        depth: As many items of each run are looked at; None for all.
    """

    plan: Plan
    runs: tuple[str, ...]
    depth: int | None = None

    @property
    def query_keys(self) -> tuple[str, ...]:
        """What a query is identified by."""
        return self.plan.shape.query_keys

    def joined(self, features: Sequence[str]) -> Iterator[Stage]:
        """From the tables to one row per query and item, with features of each run."""
        shape = self.plan.shape
        labels = shape.names["labels"]
        yield from (
            stage
            for stage in self.plan.lists
            if stage.name != labels and labels not in str(stage.view.get("from", ""))
        )
        yield self._ranks()
        source = "run_ranks"
        of_list = {
            name: sql for feature in features for name, sql in _OF_LIST.get(feature, {}).items()
        }
        if of_list:
            yield self._with_windows("run_lists", source, of_list)
            source = "run_lists"
        if "z_score" in features:
            squares = {"variance": "avg((value - average) * (value - average))"}
            yield self._with_windows("run_spreads", source, squares)
            source = "run_spreads"
        keys = [*shape.keys, "item_id", *shape.listed_facts]
        columns = [
            *keys,
            *(Column(_VALUES[feature], feature_column(feature)) for feature in features),
        ]
        about = "one row per item of a run: the value that the mixture reads"
        view = {"about": about, "columns": columns, "from": source}
        where = f"rnk <= {self.depth}" if self.depth and not of_list else ""
        yield Stage("run_scores", "columns", {**view, "where": where})
        yield self._items(features)

    def _ranks(self) -> Stage:
        shape = self.plan.shape
        rankings, _ = self.plan.tables
        value = "-1e0 * given_rank" if shape.order[0].startswith("given_rank") else "score"
        order = [key for key in shape.order if key.split()[0] != "grade"]
        window = Window(shape.keys, order)
        columns = [
            *(*shape.keys, "item_id", *shape.listed_facts),
            Column(f"cast({value} as double)", "value"),
            Column(f"row_number() over {window}", "rnk"),
        ]
        names = " or ".join(map(is_run, self.runs))
        view = {"about": "rank 1 is the best item of a run", "columns": columns, "from": rankings}
        return Stage("run_ranks", "columns", {**view, "where": names})

    def _with_windows(self, name: str, source: str, sums: dict[str, str]) -> Stage:
        window = Window(self.plan.shape.keys)
        columns = [
            f"{source}.*",
            *(Column(f"{sql} over {window}", alias) for alias, sql in sums.items()),
        ]
        where = f"rnk <= {self.depth}" if self.depth and source == "run_ranks" else ""
        about = "one row per item of a run, with the statistics of its list"
        return Stage(
            name, "columns", {"about": about, "columns": columns, "from": source, "where": where}
        )

    def _items(self, features: Sequence[str]) -> Stage:
        columns = [
            Column(
                f"max(case when {is_run(run)} then {feature_column(feature)} end)",
                run_column(feature, number),
            )
            for feature in features
            for number, run in enumerate(self.runs, 1)
        ]
        facts = [Column(f"max({fact})", fact) for fact in self.plan.shape.listed_facts]
        view = {
            "about": "one row per query and item; NULL if a run does not have it",
            "keys": [*self.query_keys, "item_id"],
            "columns": [*facts, *columns],
            "from": "run_scores",
            "joins": {},
            "where": "",
        }
        return Stage("joined_items", "sums", view)

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
            "columns": ["joined_items.*", candidates, *sizes],
            "from": "joined_items",
            "where": "",
        }
        points = [
            f"coalesce(n_candidates + 1e0 - {rank}, (n_candidates - n_items_{number} + 1e0) / 2e0)"
            for number, rank in enumerate(ranks, 1)
        ]
        return [Stage("candidate_items", "columns", view)], points

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
                "run_scores.*",
                Column(value, "weighted"),
                Column(f"row_number() over {Window(keys, [f'{value} asc'])}", "n_lower"),
                Column(f"count(*) over {Window(keys)}", "n_runs"),
            ],
            "from": "run_scores",
            "where": "",
        }
        median = {
            "about": "one row per query and item: its median",
            "keys": keys,
            "columns": [Column("avg(weighted)", "score")],
            "from": "ordered_scores",
            "joins": {},
            "where": "2 * n_lower in (n_runs, n_runs + 1, n_runs + 2)",
        }
        return [Stage("ordered_scores", "columns", numbered), Stage("median_items", "sums", median)]

    def fused(self, mixture: Mixture) -> list[Stage]:
        """From the tables to `fused_items`: a row per query and item, with its score."""
        feature = mixture.feature
        stages = [*self.joined([feature])]
        if mixture.method == "med":
            stages = [*stages[:-1], *self.medians(feature, mixture)]
            score, source = "score", "median_items"
        else:
            more, source, score = self.scored(mixture)
            stages += more
        columns = [*self.query_keys, "item_id", Column(score, "score")]
        view = {
            "about": f"one row per query and item: {mixture}",
            "columns": columns,
            "from": source,
            "where": "",
        }
        return [*stages, Stage("fused_items", "columns", view)]

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
            return [], "joined_items", self._turns(values)
        if mixture.method == "borda":
            stages, values = self.points()
            return stages, stages[-1].name, mixture.score(values, weights, k)
        return [], "joined_items", mixture.score(values, weights, k)

    def _turns(self, ranks: Sequence[str]) -> str:
        n_runs = len(self.runs)
        places = [f"(({rank} - 1) * {n_runs} + {number})" for number, rank in enumerate(ranks, 1)]
        return f"-1e0 * {extreme(places, is_highest=False)}"


def feature_column(feature: str) -> str:
    """The column of a feature of a run."""
    return f"of_{feature}"


def run_column(feature: str, number: int) -> str:
    """The column of a feature of the run of a number."""
    return f"{feature}_{number}"
