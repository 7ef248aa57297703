"""The result of a comparison: its rows, and how they are read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.option import is_number
from sqlmetrics.catalog.tool_names import in_our_words
from sqlmetrics.comparison.options import FAIL_ON, LOST, FailOn, check_fail_on
from sqlmetrics.comparison.report import text
from sqlmetrics.comparison.report.text import Rows, segment_text
from sqlmetrics.errors import CheckError, SpecError, unknown
from sqlmetrics.evaluation.arguments import check_level
from sqlmetrics.evaluation.report.failure import QUERIES, Change, Failure, Lost
from sqlmetrics.spec.days import day_of
from sqlmetrics.tables.tabular import ArrowTables, Row, arrow_tables

if TYPE_CHECKING:
    import pyarrow as pa

SIDES = ("system", "baseline")
"""The columns of what is compared with what."""

KINDS = {
    **dict.fromkeys(("metric", "system", "baseline", "segment_name", "segment_value"), "string"),
    **dict.fromkeys(
        ("value", "baseline_value", "difference", "relative", "relative_low", "relative_high"),
        "double",
    ),
    **dict.fromkeys(("standard_error", "ci_low", "ci_high"), "double"),
    **dict.fromkeys(("ci_level", "p_value", "p_adjusted"), "double"),
    "test": "string",
    **dict.fromkeys(("n", "n_baseline", "wins", "ties", "losses"), "int64"),
    **dict.fromkeys(("effect_size", "smallest_detectable", "variance_reduction"), "double"),
    **dict.fromkeys(("n_system_only", "n_baseline_only"), "int64"),
    "verdict": "string",
    "sentence": "string",
}
"""Column -> its type."""

CONTRIBUTION_KINDS = {
    **dict.fromkeys(("metric", "system", "baseline", "segment_name", "segment_value"), "string"),
    **dict.fromkeys(("n", "n_baseline"), "int64"),
    **dict.fromkeys(("share", "baseline_share", "value", "baseline_value"), "double"),
    **dict.fromkeys(("difference", "shrunk_difference"), "double"),
    **dict.fromkeys(("contribution", "rate", "mix"), "double"),
}

MOVER_KINDS = {
    **dict.fromkeys(("metric", "system", "baseline", "moved", "query_id", "query_text"), "string"),
    "metric_date": "date32",
    "n": "int64",
    **dict.fromkeys(("traffic", "value", "baseline_value"), "double"),
    **dict.fromkeys(("difference", "shrunk_difference"), "double"),
    "could_be_noise": "bool",
}


@dataclass(frozen=True, repr=False)
class Comparison(Rows):
    """Systems against a baseline; it prints as tables and sentences, also in a notebook.

    Iterate over it for its rows. `comparison["ndcg@10"]` is the row of a metric if one system was
    compared, `comparison["ndcg@10", "cand"]` that of one of several systems.

    Attributes:
        rows: One row per system, segment and metric, in this order; see `to_arrow` for their keys.
        baseline: The system that the others are compared with.
        level: The confidence level of a single interval; adjusted p-values are compared with 1 -
            level.
        margin: The largest difference that does not matter.
        test: The name of the test.
        interval: The method of the intervals.
        cluster: The column whose values are drawn together; None if each row is a query.
        notes: Sentences that a reader should know.
        executed_sql: The statements that ran.
        contributions: One row per metric, system, segment and slice: how much the slice adds to the
            difference; empty unless asked for.
        movers: The queries that moved most, one row per metric, system and query, with both lists;
            empty unless asked for.
        worse_slices: For each system that is worse in a segment, the row of the slice with the
            largest loss (difference times queries) in the first metric that moved.
        counted: What `n` counts, in the singular and the plural.
        lost: The queries that lost most, one row per metric, system and query, if the comparison is
            a gate.
        spec: The name of the compared spec; empty if there is none.
        days: The chosen days, such as `from 2026-01-01`; empty for all days.
        all_pairs: Whether every pair of systems is compared, instead of each with a baseline.
        preset: The preset of the metrics; `comparison[...]` also takes its tool's names.
    """

    rows: tuple[Row, ...]
    baseline: str
    level: float
    margin: float
    test: str
    interval: str
    cluster: str | None
    notes: tuple[str, ...]
    executed_sql: str
    contributions: tuple[Row, ...] = ()
    movers: tuple[Row, ...] = ()
    worse_slices: tuple[Row, ...] = ()
    counted: tuple[str, str] = QUERIES
    lost: tuple[Row, ...] = ()
    spec: str = ""
    days: str = ""
    preset: str = "house"
    all_pairs: bool = False

    def _kinds(self) -> dict[str, str]:
        return KINDS

    def __getitem__(self, key: str | tuple[str, ...]) -> Row:
        """The row of a metric over all queries.

        Args:
            key: The metric, in any spelling; of several systems with one, like
                `comparison["ndcg@10", "cand"]`; of all pairs with both.

        Raises:
            KeyError: If there is none, or more than one: the message says which.
        """
        text, *sides = (key,) if isinstance(key, str) else key
        metric = self._metric(text)
        overall = [row for row in self.rows if row["segment_name"] == "all"]
        metric_rows = [row for row in overall if row["metric"] == metric]
        rows = [
            row
            for row in metric_rows
            if all(name == row[side] for side, name in zip(SIDES, sides, strict=False))
        ]
        if len(rows) == 1:
            return rows[0]
        several = len({row["baseline"] for row in metric_rows}) > 1
        columns = SIDES if several else SIDES[:1]
        known_keys = list(
            dict.fromkeys(", ".join(repr(row[c]) for c in columns) for row in metric_rows)
        )
        pair = ", ".join(map(repr, sides))
        problem = "several rows" if rows else f"no row of {pair}"
        raise KeyError(
            f"{metric} has {problem}: name one of its {len(known_keys)}, like "
            f"comparison[{metric!r}, {known_keys[0]}]; known: {'; '.join(known_keys)}"
        )

    def _metric(self, text: str) -> str:
        """A metric as the rows have it.

        Raises:
            KeyError: If no row is of it.
        """
        metrics = {row["metric"] for row in self.rows}
        for name in (text, text.casefold()):
            if name in metrics:
                return name
        with suppress(SpecError):
            for spelling in in_our_words(text, self.preset):
                if (canonical := str(parse(spelling))) in metrics:
                    return canonical
        raise KeyError(unknown("metric", text, metrics))

    def raise_if(self, fail_on: FailOn = "worse") -> None:
        """Raise an error if any row, of any system and segment, has an unwanted verdict.

        Args:
            fail_on: `worse`; `unclear`, which means worse or unclear; or `not-better`.

        Raises:
            CheckError: If there is such a row. The text has the numbers of each, and the queries
                that lost most if `compare` was given `fail_on` or `movers`.
            SpecError: If `fail_on` is another word, or every pair was compared: a gate needs a
                baseline.
        """
        check_fail_on(fail_on)
        check_has_baseline(self, "a gate")
        if failures := [self._failure(row) for row in self.rows if fails(row, fail_on)]:
            raise CheckError(failures, self)

    def _failure(self, row: Row) -> Failure:
        lost_queries = (
            mover
            for mover in self.lost or (m for m in self.movers if m["moved"] == LOST)
            if (mover["metric"], mover["system"], mover["baseline"])
            == (row["metric"], row["system"], row["baseline"])
        )
        is_of_all = row["segment_name"] == "all"
        return Failure(
            rule=row["verdict"],
            metric=row["metric"],
            spec=self.spec,
            when=self.days,
            system=row["system"],
            segment=segment_text(row),
            value=row["value"],
            against=row["baseline"],
            compared=row["baseline_value"],
            change=None if row["difference"] is None else self._change(row),
            n=row["n"],
            counted=self.counted,
            lost=[Lost.of(mover) for mover in lost_queries] if is_of_all else (),
        )

    def _change(self, row: Row) -> Change:
        return Change(
            row["difference"],
            row["ci_low"],
            row["ci_high"],
            row["ci_level"] or self.level,
            row["p_adjusted"],
            self.level,
        )

    def _arrow_tables(self) -> ArrowTables:
        movers = (
            row | {"metric_date": row["metric_date"] and day_of(row["metric_date"])}
            for row in self.movers
        )
        schemas = {"rows": KINDS, "contributions": CONTRIBUTION_KINDS, "movers": MOVER_KINDS}
        return arrow_tables([self.rows, self.contributions, movers], schemas)

    def to_arrow(self, table: str | None = None) -> pa.Table:
        """The rows as an Arrow table; others are `contributions` and, without lists, `movers`.

        `difference` is `value` minus `baseline_value`: means over the `n` queries of both systems,
        or, unpaired, over the `n` and `n_baseline` queries of each; wins, ties and losses are NULL
        then. `relative` is the difference divided by the baseline's value, NULL if that is 0;
        `relative_low` and `relative_high` bound it where each side has its own queries, by the
        delta method on the logarithm of the ratio of both means, and are NULL where one is not
        above 0.
        `p_value` is that of the test; `p_adjusted` is adjusted by Holm over metrics and systems, or
        by Benjamini and Hochberg over segments; both are NULL with fewer than two queries. `ci_low`
        and `ci_high` bound the difference at the level `ci_level`, which is adjusted in the same
        way: with the t-test the interval excludes 0 exactly if `p_adjusted` is below 1 - level.
        `smallest_detectable` is the difference that this much data would detect with 80 % power at
        that level.
        """
        return super().to_arrow(table)

    def text(self) -> str:
        """Tables that fit 80 columns, and what they mean."""
        return text.text(self)

    def markdown(self) -> str:
        """GitHub tables, and what they mean."""
        return text.markdown(self)

    def latex(self) -> str:
        """A `tabular` for a paper, by booktabs."""
        return text.latex(self)

    def html(self) -> str:
        """Tables for a page, and what they mean."""
        return text.html(self)


def fails(row: Row, fail_on: FailOn) -> bool:
    """Whether a gate does not let a row through."""
    return row["verdict"] in FAIL_ON[fail_on]


def check_has_baseline(comparison: Comparison, feature: str) -> None:
    """Raise SpecError for what needs a baseline where every pair was compared."""
    if comparison.all_pairs:
        raise SpecError(
            f"{feature} needs a baseline, but all_pairs compares every system with every other; "
            "leave out all_pairs"
        )


def check_interval(level: float, margin: float) -> None:
    """Raise SpecError for a level or margin out of range."""
    check_level("the confidence level", level)
    if not (is_number(margin) and margin >= 0):
        raise SpecError(f"the margin must be 0 or more, in the unit of the metrics, given {margin}")
