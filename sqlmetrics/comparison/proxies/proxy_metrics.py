"""The result of `foretell`, and how people read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import ClassVar

from sqlmetrics.errors import unknown
from sqlmetrics.stats.bootstrap import expanded_level
from sqlmetrics.stats.estimate import Interval, percentile_interval
from sqlmetrics.tables.table import Table, latex_text, many, printable, wrapped
from sqlmetrics.tables.tabular import ArrowTables, Block, Kinds, Row, Tabular, arrow_tables

MIXTURE = "(mixture)"
"""What the row of the best mixture is called."""

MIXTURE_COLUMNS = (
    *("metric", "verdict", "n_experiments", "quality", "quality_low", "quality_high"),
    "expected_agreement",
)
"""What it has."""

CLOSE = "close"
"""The verdict on a metric that foretells something, and is not told apart from the best."""

KINDS = {
    **dict.fromkeys(("metric", "verdict"), "string"),
    "n_experiments": "int64",
    **dict.fromkeys(("quality", "quality_low", "quality_high"), "double"),
    **dict.fromkeys(
        ("true_correlation", "true_correlation_low", "true_correlation_high", "correlation"),
        "double",
    ),
    **dict.fromkeys(("sensitivity", "sensitivity_low", "sensitivity_high"), "double"),
    **dict.fromkeys(("n_both_called", "n_agreeing"), "int64"),
    **dict.fromkeys(("agreement", "agreement_low", "agreement_high"), "double"),
    **dict.fromkeys(("expected_agreement", "first_share"), "double"),
    "is_pareto": "bool",
}
"""Column -> its type."""


@dataclass(frozen=True)
class Settings:
    """What was asked.

    Attributes:
        online: The online metric.
        level: The confidence level.
        replicates: How many bootstrap samples are drawn.
        seed: Their random seed.
        least: As many experiments it takes to choose a metric.
    """

    online: str
    level: float
    replicates: int
    seed: int
    least: int

    @property
    def z(self) -> float:
        """As many standard errors a difference has that is called."""
        return NormalDist().inv_cdf((1 + self.level) / 2)

    def calls(self, difference: float, standard_error: float) -> bool:
        """Whether an experiment would have called a difference."""
        return abs(difference) > self.z * standard_error

    def interval(self, values: Iterable[float], n: int) -> Interval:
        """The percentiles of resamples of n experiments; none of fewer than two values."""
        ordered = [*values]
        if n < 2 or len(ordered) < 2:
            return None, None
        return percentile_interval(ordered, expanded_level(self.level, n))


@dataclass(frozen=True, repr=False)
class ProxyMetrics(Tabular):
    """Offline metrics and how well they foretell an online one; it prints as a verdict and a table.

    Iterate over it for its rows; `result["ndcg@10"]` is that of a metric.

    Attributes:
        rows: One row per offline metric, best first, then the mixture; see `to_arrow`.
        mixture: One row per metric of the mixture, with its weight: the sum of weight times
            difference is the predicted difference of the online metric.
        settings: What was asked.
        n_experiments: How many experiments have the online metric and an offline one.
        n_online_called: In how many of them the online metric alone was called.
        notes: Sentences that a reader should know.
        executed_sql: The statements that read the tables.
    """

    rows: tuple[Row, ...]
    mixture: tuple[Row, ...]
    settings: Settings
    n_experiments: int
    n_online_called: int
    notes: tuple[str, ...]
    executed_sql: str

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "rows": KINDS,
        "mixture": {
            "metric": "string",
            **dict.fromkeys(("weight", "weight_low", "weight_high"), "double"),
        },
        "verdict": {**dict.fromkeys(("verdict", "metric", "reason"), "string")},
    }

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, metric: str) -> Row:
        """The row of a metric.

        Raises:
            KeyError: If there is none of this name.
        """
        rows = {row["metric"]: row for row in self.to_dicts()}
        if metric not in rows:
            raise KeyError(unknown("metric", metric, rows))
        return rows[metric]

    @property
    def best(self) -> Row | None:
        """The row of the metric to trust; None if there is none."""
        return next((row for row in self.rows if row["verdict"] == "best"), None)

    @property
    def verdict(self) -> str:
        """`trust`, `too few`, `no effect` or `none`."""
        if self.best:
            return "trust"
        verdicts = [row["verdict"] for row in self.rows]
        if all(verdict == "too few" for verdict in verdicts):
            return "too few"
        return "no effect" if {*verdicts} <= {"no effect", "too few"} else "none"

    @property
    def reason(self) -> str:
        """The verdict in a sentence."""
        online, n = printable(self.settings.online), self.n_experiments
        if self.verdict == "too few":
            return (
                f"Too few experiments to say: {n}, and it takes {self.settings.least} to choose a "
                "metric."
            )
        if self.verdict == "no effect":
            return (
                f"Nothing to say: over {many(n, 'experiment')} no offline metric and {online} both "
                "have an effect beyond noise."
            )
        if self.best is None:
            return (
                f"Trust none of them for {online}: over {many(n, 'experiment')} no metric has a "
                "quality above 0 beyond doubt."
            )
        texts = [
            f"Trust {printable(self.best['metric'])} for {online}: quality "
            f"{_with_ends(self.best, 'quality')}, true r "
            f"{_with_ends(self.best, 'true_correlation')} over "
            f"{many(self.best['n_experiments'], 'experiment')}."
        ]
        if close := [printable(row["metric"]) for row in self.rows if row["verdict"] == CLOSE]:
            texts.append(f"Not told apart from it: {', '.join(close)}.")
        for row in self.rows:
            if row["metric"] == MIXTURE and row["quality"] is not None:
                ends = _with_ends(row, "quality")
                texts.append(f"The best mixture does {row['verdict']}: {ends}.")
        return " ".join(texts)

    def to_dicts(self) -> list[Row]:
        """The rows as a list of dicts."""
        return [{name: row.get(name) for name in KINDS} for row in self.rows]

    def _arrow_tables(self) -> ArrowTables:
        metric = self.best["metric"] if self.best else None
        verdict = {"verdict": self.verdict, "metric": metric, "reason": self.reason}
        return arrow_tables([self.rows, self.mixture, [verdict]], self._schemas)

    def table(self) -> Table:
        """The table, with notes below it."""
        head = ["metric", "verdict", "n", "quality", "interval", "true r", "interval"]
        head += ["measured r", "called", "agree", "right sign", "first"]
        rows = [
            [
                printable(row["metric"]),
                row["verdict"],
                str(row["n_experiments"]),
                _number(row["quality"]),
                _ends(row, "quality"),
                _number(row["true_correlation"]),
                _ends(row, "true_correlation"),
                _number(row["correlation"]),
                _percent(row["sensitivity"]),
                "-"
                if not row["n_both_called"]
                else f"{row['n_agreeing']} of {row['n_both_called']}",
                _percent(row["expected_agreement"]),
                _percent(row["first_share"]),
            ]
            for row in self.rows
        ]
        return Table(head, rows, n_labels=2, notes=self._notes())

    def _notes(self) -> list[str]:
        online = printable(self.settings.online)
        pareto = [printable(row["metric"]) for row in self.rows if row["is_pareto"]]
        notes = [
            f"quality: correlation of the metric's measured difference and the true effect on "
            f"{online}; true r: of the true effects of both; measured r: of what was measured, "
            "with all its noise",
            f"called: share of experiments with a difference beyond {self.settings.z:.3g} standard "
            f"errors ({online}: {self.n_online_called} of {self.n_experiments}); agree: the same "
            "sign where both are called; right sign: expected share with the sign of the true "
            "effect; first: share of resamples in which no metric has more quality",
        ]
        if pareto:
            notes.append(f"not beaten in both called and true r: {', '.join(pareto)}")
        return [*notes, *(f"note: {note}" for note in self.notes)]

    def _blocks(self) -> Iterator[Block]:
        yield wrapped([self.reason])
        yield replace(self.table(), notes=())
        if self.mixture:
            rows = [
                [
                    printable(row["metric"]),
                    f"{row['weight']:.4g}",
                    f"{row['weight_low']:.4g} to {row['weight_high']:.4g}",
                ]
                for row in self.mixture
            ]
            yield Table(["mixture", "weight", "interval"], rows, n_labels=1)
        yield wrapped(self._notes())

    def latex(self) -> str:
        """The table for a paper; the verdict stands above it as a comment."""
        return f"% {latex_text(self.reason)}\n{self.table().latex()}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _ends(row: Row, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "-" if low is None else f"{low:.2f} to {high:.2f}"


def _with_ends(row: Row, name: str) -> str:
    return f"{row[name]:.2f} ({_ends(row, name)})"
