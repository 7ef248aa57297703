"""The rules by which labels of judges become one, as stages of SQL, and what each changes.

judge_labels ─> ... ─> combined_labels, one row per pair: its grade, and of how many judges
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlmetrics.agreement import CALIBRATED, DAWID_SKENE
from sqlmetrics.agreement.calibration import Calibration, calibrated
from sqlmetrics.agreement.counts import COMBINED, LABELS, SHOWN_BY, PairCounts
from sqlmetrics.agreement.dawid_skene import Fit, fitted
from sqlmetrics.comparison.statements import columns_stage, join_stage, sums_stage
from sqlmetrics.errors import InputError
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.tables.table import many
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.plan.plan import Plan

Keys = Sequence[str]


def _mean(keys: Keys) -> Iterator[Stage]:
    columns = [Column("avg(grade)", "grade"), Column("count(*)", "n_judges")]
    about = "one row per pair: the mean of its grades"
    yield sums_stage(COMBINED, about, keys, columns, LABELS)


def _median(keys: Keys) -> Iterator[Stage]:
    columns = [
        *(*keys, "grade"),
        Column(f"count(*) over {Window(keys)}", "n"),
        Column(f"row_number() over {Window(keys, ['grade asc', 'judge asc'])}", "place"),
    ]
    yield columns_stage("ordered_labels", "the labels of a pair by their grade", columns, LABELS)
    is_middle = "2 * place between n and n + 2"
    columns = [Column("avg(grade)", "grade"), Column("max(n)", "n_judges")]
    about = "one row per pair: its middle grade, of an even number the mean of the middle two"
    view = {"about": about, "keys": keys, "columns": columns, "from": "ordered_labels"}
    yield Stage(COMBINED, "sums", {**view, "joins": {}, "where": is_middle})


def _first(keys: Keys) -> Iterator[Stage]:
    columns = [
        *(*keys, "grade"),
        Column(f"count(*) over {Window(keys)}", "n_judges"),
        Column(f"row_number() over {Window(keys, ['judge asc'])}", "place"),
    ]
    yield columns_stage("ordered_labels", "the labels of a pair by their judge", columns, LABELS)
    about = "one row per pair: the grade of its first judge"
    columns = [*keys, "grade", "n_judges"]
    yield columns_stage(COMBINED, about, columns, "ordered_labels", "place = 1")


def _majority(keys: Keys) -> Iterator[Stage]:
    votes = [Column("count(*)", "n_votes")]
    about = "one row per pair and grade: how many judges gave it"
    yield sums_stage("grade_votes", about, [*keys, "grade"], votes, LABELS)
    columns = [
        *(*keys, "grade", "n_votes"),
        Column(f"sum(n_votes) over {Window(keys)}", "n_judges"),
        Column(f"row_number() over {Window(keys, ['n_votes desc', 'grade asc'])}", "place"),
    ]
    yield columns_stage("ordered_grades", "the grades of a pair by votes", columns, "grade_votes")
    about = "one row per pair: the grade of most judges; of as many votes the lower grade"
    columns = [*keys, "grade", "n_judges", Column("1e0 * n_votes / n_judges", "share")]
    yield columns_stage(COMBINED, about, columns, "ordered_grades", "place = 1")


SIMPLE: Mapping[str, Callable[[Keys], Iterator[Stage]]] = {
    "majority": _majority,
    "mean": _mean,
    "median": _median,
    "first": _first,
}
"""Method -> its stages, from the columns that a pair is known by."""

MOST_GRADES = 30
"""As many grades does Dawid and Skene's model know."""

TWO = "dawid_skene cannot tell which of two judges is right; add a third"


@dataclass(frozen=True)
class LabelRule:
    """A method on the labels of some judges.

    Attributes:
        method: One of METHODS.
        counts: The labels.
        fit: What Dawid and Skene's model learned of the judges; None of other methods.
        calibration: What the grades of judges are worth; None of other methods.
    """

    method: str
    counts: PairCounts
    fit: Fit | None = None
    calibration: Calibration | None = None

    @classmethod
    def learned(
        cls, method: str, counts: PairCounts, max_rounds: int, plan: Plan | None = None
    ) -> LabelRule:
        """The method, with all that it has to know of the judges.

        Args:
            method: One of METHODS.
            counts: The labels.
            max_rounds: After so many rounds dawid_skene ends at the latest.
            plan: The plan of lists, where calibrated labels depend on who shows the pair.

        Raises:
            InputError: If there are too many grades for a model of them.
        """
        if method == CALIBRATED:
            counts = replace(counts, plan=plan)
            calibration = calibrated(counts, by_system=plan is not None)
            return cls(method, counts, calibration=calibration)
        if method != DAWID_SKENE:
            return cls(method, counts)
        select = f"select distinct grade\nfrom {LABELS}\norder by grade asc"
        rows = counts.engine.rows(with_stages(counts.label_stages, select))
        grades = [float(grade) for (grade,) in rows]
        if len(grades) > MOST_GRADES:
            raise InputError(
                f"labels: {len(grades):,} different grades; dawid_skene takes {MOST_GRADES} at "
                "most: round them in a query, or take the mean or the median"
            )
        return cls(method, counts, fitted(counts, grades, max_rounds))

    @property
    def keys(self) -> tuple[str, ...]:
        """What a pair is identified by."""
        return self.counts.panel.pair_keys

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the labels."""
        more = {"majority": ["share"], DAWID_SKENE: ["probability"]}
        return (*self.keys, "grade", "n_judges", *more.get(self.method, ()))

    def _stages(self) -> list[Stage]:
        model = self.fit or self.calibration
        own = model.stages(self.keys) if model else SIMPLE[self.method](self.keys)
        return [*self.counts.label_stages, *own]

    def select(self) -> str:
        """The query of the labels, ordered by the pair."""
        columns = ",\n    ".join(self.columns)
        order = ", ".join(f"{key} asc" for key in self.keys)
        last = f"select\n    {columns}\nfrom {COMBINED}\norder by {order}"
        return with_stages(self._stages(), last)

    def table(self) -> pa.Table:
        """The labels."""
        return self.counts.engine.table(self.select())

    def no_rows(self) -> pa.Table:
        """A table without them."""
        import pyarrow as pa

        return pa.table({name: pa.array([], pa.null()) for name in self.columns})

    def first_grades(self) -> pa.Table:
        """One row per pair that the first judge graded: `grade_1`."""
        columns = ", ".join([*self.keys, "grade as grade_1"])
        select = f"select {columns}\nfrom {LABELS}\nwhere judge = 1"
        return self.counts.engine.table(with_stages(self.counts.label_stages, select))

    def changes(self) -> Iterator[Row]:
        """One row per judge: which of its labels the one label is not, and both means."""
        columns = [
            *(f"{LABELS}.{name}" for name in ("judge", "grade", "n_labels")),
            Column(f"{COMBINED}.grade", "combined_grade"),
        ]
        about = "the labels of each judge beside the one label"
        sums = [
            Column("count(*)", "n_labels"),
            Column("sum(case when grade <> combined_grade then 1 else 0 end)", "n_changed"),
            Column("avg(grade)", "mean_grade"),
            Column("avg(combined_grade)", "combined_mean"),
            Column("sum(case when n_labels > 1 then 1 else 0 end)", "n_repeated"),
        ]
        stages = [
            *self._stages(),
            join_stage("beside", about, columns, LABELS, to=COMBINED, on=self.keys),
            sums_stage("judge_changes", "one row per judge", ["judge"], sums, "beside"),
            columns_stage("n_all", "all pairs", [Column("count(*)", "n_pairs")], COMBINED),
        ]
        select = "select *\nfrom judge_changes\ncross join n_all\norder by judge asc"
        for row in self.counts.engine.records(with_stages(stages, select)):
            judge, n_labels, n_changed = (
                int(row[name]) for name in ("judge", "n_labels", "n_changed")
            )
            yield {
                "method": self.method,
                "judge": self.counts.panel.names[judge - 1],
                "n_labels": n_labels,
                "n_changed": n_changed,
                "share_changed": n_changed / n_labels,
                "n_added": int(row["n_pairs"]) - n_labels,
                "mean_grade": float(row["mean_grade"]),
                "combined_mean": float(row["combined_mean"]),
                "accuracy": self.fit.accuracy(judge) if self.fit else None,
            }

    def chances(self) -> Iterator[Row]:
        """Of Dawid and Skene's model, one row per judge, true grade and grade."""
        for (judge, grade), chances in sorted(self.fit.chances.items()) if self.fit else ():
            for true_grade, chance in zip(self.fit.grades, chances, strict=True):  # type: ignore[union-attr]
                name = self.counts.panel.names[judge - 1]
                yield {"judge": name, "true_grade": true_grade, "grade": grade, "chance": chance}

    def worths(self) -> Iterator[Row]:
        """Of calibrated, one row per judge and grade: what the grade is worth."""
        for row in self.calibration.rows if self.calibration else ():
            systems = self.calibration.group(row[SHOWN_BY])  # type: ignore[union-attr]
            yield {**row, "judge": self.counts.panel.names[row["judge"] - 1], "systems": systems}

    def notes(self) -> Iterator[str]:
        """What a reader should know."""
        if self.calibration and self.calibration.n_sparse:
            groups = many(self.calibration.n_sparse, "group")
            yield (
                f"calibrated: {groups} of systems without a pair that people graded; their grades "
                "are worth what they are in all pairs"
            )
        if self.fit and len(self.counts.panel.names) == 2:
            yield TWO
        if self.fit and not self.fit.is_settled:
            n_rounds = len(self.fit.log_likelihoods) - 1
            yield (
                f"dawid_skene did not settle in {many(n_rounds, 'round')}; raise max_rounds "
                "(--max-rounds)"
            )
