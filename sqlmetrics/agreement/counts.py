"""How often pairs were graded in the same way, as stages of SQL: all that leaves the database.

    labels_1 ─┐
    labels_2 ─┼> all_labels ─> grade_counts ─> judge_labels ─> pair_grades ─┬─────> patterns
    ...      ─┘                                                ranked_items ┴> shown_pairs ┘

A row of `patterns` says of a query how many of its items have the same grades by all judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmetrics.agreement.judges import Panel
from sqlmetrics.annotation.pool import without_labels
from sqlmetrics.comparison.statements import columns_stage, join_stage, segments_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.ranking import WindowRanking
from sqlmetrics.plan.segments import UNKNOWN, Segment
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal, with_stages
from sqlmetrics.sql.template import identifier, literal

MOST_QUERIES = 20_000
"""Above it queries are counted together in groups by lot, each of which is resampled as one."""

DIGITS = 3
"""So many digits of a hash tell the group: 4,096 of them."""

SYSTEM, RANK = "system", "rank"
"""The segments of what lists show."""

GRADE = "grade"
"""The segment of the first judge's grade."""

LABELS, COMBINED = "judge_labels", "combined_labels"
"""The stages of the labels of each judge, and of the one label that is made of them."""

SHOWN_LABELS, SHOWN_BY = "shown_labels", "shown_by"
"""The stage of the labels with the systems that show the pair, and the column of these."""

BUILT_IN = (ALL, GRADE, SYSTEM, RANK)


def check_segments(by: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of the labels that pairs are told apart by, each once.

    Raises:
        SpecError: If one has the name of a segment that is always shown.
    """
    names = (by,) if isinstance(by, str) else tuple(by)
    for name in names:
        if name.casefold() in BUILT_IN:
            raise SpecError(
                f"by: {name!r} is a segment of agree itself ({', '.join(BUILT_IN)}); rename the "
                f"column in a query (select *, {identifier(name)} as label_{name} from ...) and "
                f"give by=label_{name} (--by label_{name})"
            )
    return tuple({name.casefold(): name for name in names}.values())


@dataclass(frozen=True)
class PairCounts:
    """Counts of pairs by query and grades.

    Attributes:
        panel: The judges.
        by: Columns of the labels that pairs are told apart by.
        plan: An evaluation whose lists show pairs; None without rankings.
        k: The last rank that is looked at.
        engine: The database.
    """

    panel: Panel
    by: tuple[str, ...]
    plan: Plan | None
    k: int
    engine: Database

    @property
    def grades(self) -> list[str]:
        """The columns of the judges' grades."""
        return [f"grade_{number}" for number, _ in enumerate(self.panel.judges, start=1)]

    @property
    def stages(self) -> list[Stage]:
        """From the tables to one row per pair, `pair_grades`."""
        return [*self._inputs(), *self._pair_stages()]

    @property
    def label_stages(self) -> list[Stage]:
        """The same to one row per judge and pair, `judge_labels`."""
        return self.stages[:-1]

    def totals(self) -> str:
        """One row per judge: pairs, labels, those of pairs with several; and all shared queries."""
        repeats = "1e0 * n_same / nullif(n_labels * (n_labels - 1), 0)"
        columns = [
            Column("count(*)", "n_pairs"),
            Column("sum(n_labels)", "n_labels"),
            Column("sum(case when n_labels > 1 then 1 else 0 end)", "n_repeated"),
            Column(f"avg({repeats})", "self_agreement"),
            Column("avg(grade)", "mean_grade"),
        ]
        about = "one row per judge: the pairs, and how often the judge repeats a label of its own"
        of_judges = sums_stage("judge_totals", about, ["judge"], columns, "judge_labels")
        counted = [Column("count(distinct query_id)", "n_queries")]
        about = "queries with a pair that two judges graded"
        shared = columns_stage("shared_queries", about, counted, "pair_grades", "n_judges > 1")
        stages = [*self.stages, of_judges, shared]
        return with_stages(stages, "select *\nfrom judge_totals\ncross join shared_queries")

    def pairs(self) -> str:
        """One row per pair that two judges graded: its grades."""
        columns = ", ".join([*self.panel.pair_keys, *self.grades])
        select = f"select {columns}\nfrom pair_grades\nwhere n_judges > 1"
        return with_stages(self.stages, select)

    def patterns(self, n_queries: int) -> str:
        """One row per segment, unit and pattern of grades: how many pairs."""
        unit = self._unit(n_queries)
        every: list[Segment] = [(ALL, literal(ALL), [])]
        every += [(name, segment(name), [segment(name)]) for name in self.by]
        parts = [("pair_grades", "patterns", every)]
        stages = self.stages
        if self.plan is not None:
            stages += self._shown_stages(self.plan)
            has_systems = "system" in self.plan.shape.keys
            list_segments = [(RANK, "cast(rnk as varchar)", ["rnk"])]
            list_segments += [(SYSTEM, "system", ["system"])] if has_systems else []
            parts.append(("shown_pairs", "shown_patterns", list_segments))
        names = []
        for source, name, segments in parts:
            units = f"{source}_by_unit"
            carried = [column for _, _, columns in segments for column in columns]
            columns = [Column(unit, "unit"), *carried, *self.grades]
            stages.append(columns_stage(units, "the query, or its group", columns, source))
            about = "one row per segment, query and grades: how many pairs"
            sums = [Column("count(*)", "n_pairs")]
            keys: tuple[list[str], list[str]] = [], ["unit", *self.grades]
            stages.append(segments_stage(name, about, keys, sums, units, segments=segments))
            names.append(name)
        last = "\nunion all\n".join(f"select *\nfrom {name}" for name in names)
        return with_stages(stages, last)

    def _unit(self, n_queries: int) -> str:
        """The query of a pair; of very many the group that a hash puts it into."""
        if n_queries <= MOST_QUERIES:
            return "query_id"
        translation = self.engine.translation
        digest = translation.expression(translation.dialect.hashed, "query_id")
        return f"substring({digest}, 1, {DIGITS})"

    def _labels(self) -> list[Stage]:
        """The labels of each judge."""
        at = None if self.plan is None else self.plan.shape.at
        ranking_relations = [at.rankings, at.labels] if at else []
        return self.panel.stages(self.by, ranking_relations)

    def _inputs(self) -> list[Stage]:
        """All that reads tables of the user's, before any stage that could hide one of them."""
        if self.plan is None:
            return self._labels()
        needs_labels = self.plan.needs.leaves_out
        lists = self.plan.lists if needs_labels else without_labels(self.plan, self.plan.lists)
        return [*self._labels(), *lists]

    def _pair_stages(self) -> Iterator[Stage]:
        """From the labels to one row per pair, with the grade of each judge."""
        keys, by = [*self.panel.pair_keys, "judge"], [segment(name) for name in self.by]
        parts = [([*keys, "grade", *by], stage.name, "") for stage in self._labels()]
        about = "the labels of all judges"
        yield Stage("all_labels", "union", {"about": about, "parts": parts})
        counted = [*(Column(f"max({name})", name) for name in by), Column("count(*)", "n_equal")]
        about = "one row per judge, pair and grade: how often it was given"
        yield sums_stage("grade_counts", about, [*keys, "grade"], counted, "all_labels")
        columns = [
            Column("max(grade)", "grade"),
            Column("sum(n_equal)", "n_labels"),
            Column("sum(n_equal * (n_equal - 1))", "n_same"),
            *(Column(f"max({name})", name) for name in by),
        ]
        about = "one row per judge and pair: of several labels the highest counts"
        yield sums_stage("judge_labels", about, keys, columns, "grade_counts")
        grades = [
            Column(f"max(case when judge = {number} then grade end)", name)
            for number, name in enumerate(self.grades, start=1)
        ]
        segments = [
            Column(f"coalesce(max({segment(name)}), {literal(UNKNOWN)})", segment(name))
            for name in self.by
        ]
        columns = [*grades, Column("count(*)", "n_judges"), *segments]
        about = "one row per pair of query and item: its grades"
        yield sums_stage("pair_grades", about, self.panel.pair_keys, columns, "judge_labels")

    def systems(self) -> tuple[str, ...]:
        """The systems that show a pair which a judge graded; nothing without rankings of some."""
        if self.plan is None or SYSTEM not in self.plan.shape.keys:
            return ()
        stages = [*self.stages, *self._shown_stages(self.plan)]
        select = "select distinct system\nfrom shown_pairs\norder by system asc"
        return tuple(str(name) for (name,) in self.engine.rows(with_stages(stages, select)))

    def shown_by(self, systems: Sequence[str]) -> list[Stage]:
        """From `judge_labels` to `shown_labels`, which tell the systems that show the pair.

        Args:
            systems: The systems, of which number i adds 2^i to `shown_by`.
        """
        if self.plan is None:
            return []
        keys = self._shown_keys(self.plan)
        shares = [
            f"max(case when system = {literal(name)} then {2**number} else 0 end)"
            for number, name in enumerate(systems)
        ]
        about = "one row per pair: the systems that show it, as a sum of powers of 2"
        column = Column("\n    + ".join(shares), SHOWN_BY)
        columns = [
            *(f"{LABELS}.{name}" for name in (*self.panel.pair_keys, "judge", "grade")),
            Column(f"coalesce(shown_items.{SHOWN_BY}, 0)", SHOWN_BY),
        ]
        of_labels = {
            "about": "the labels of each judge, and the systems that show the pair",
            "columns": columns,
            "from": LABELS,
            "to": "shown_items",
            "on": equal("shown_items", LABELS, keys),
            "kind": "left",
        }
        return [
            *self._top_stages(self.plan),
            sums_stage("shown_items", about, keys, [column], "top_items"),
            Stage(SHOWN_LABELS, "comparison/join", of_labels),
        ]

    def _shown_keys(self, plan: Plan) -> tuple[str, ...]:
        """What a pair is identified by in lists too."""
        has_days = "metric_date" in plan.shape.keys
        return tuple(key for key in self.panel.pair_keys if key != "metric_date" or has_days)

    def _top_stages(self, plan: Plan) -> Iterator[Stage]:
        """The first items of each list."""
        rankings, labels = plan.tables
        ranking = WindowRanking(plan.shape, plan.needs, rankings, labels).stage("ranked_items")
        item = [] if plan.needs.reads_item else [f"{rankings}.item_id"]
        view = {**ranking.view, "columns": [*ranking.view["columns"], *item]}
        yield Stage("ranked_items", ranking.template, view)
        systems = [name for name in (SYSTEM,) if name in plan.shape.keys]
        days = [name for name in ("metric_date",) if name in plan.shape.keys]
        yield columns_stage(
            "top_items",
            f"the first {self.k} items of each list",
            [*days, "query_id", "item_id", *systems, "rnk"],
            "ranked_items",
            f"rnk <= {self.k}",
        )

    def _shown_stages(self, plan: Plan) -> Iterator[Stage]:
        """The pairs that lists show, once per list."""
        yield from self._top_stages(plan)
        systems = [name for name in (SYSTEM,) if name in plan.shape.keys]
        columns = [
            *(f"pair_grades.{name}" for name in ("query_id", *self.grades)),
            *(f"top_items.{name}" for name in (*systems, "rnk")),
        ]
        about = "the pairs that lists show, once per list"
        yield join_stage(
            "shown_pairs", about, columns, "top_items", to="pair_grades", on=self._shown_keys(plan)
        )
