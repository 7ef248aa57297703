"""What a sweep gives: the numbers of its variants, and what is known of the winners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison.page.charts import can_draw
from sqlmetrics.comparison.page.picture import Picture
from sqlmetrics.comparison.page.words import Words
from sqlmetrics.fusion.grid import Variant
from sqlmetrics.fusion.label_gaps import Bounds
from sqlmetrics.fusion.pictures import variants_picture, weights_picture
from sqlmetrics.fusion.winner import Gain, Winner
from sqlmetrics.plan.summary import ALL, NO_DATE
from sqlmetrics.spec.mixture import OF_K
from sqlmetrics.tables.table import Table, html_notes, many, printable, wrapped
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular

SHOWN = 12
"""As many variants does the text show."""

_KEYS = {"metric": "string", "segment_name": "string", "segment_value": "string"}
_DOUBLE = "double"


@dataclass(frozen=True, repr=False)
class Sweep(Tabular):
    """Many mixtures of several rankings, evaluated; it prints as tables and sentences.

    Attributes:
        rows: A row a metric, variant, segment and day: its value and interval, and whether another
            variant is better (`as_good` is false then, and None of a day). With bounds the rows of
            the first metric over all queries have its value without unjudged items (`condensed`),
            and the bounds of `bound_metric` with these as bad and as good.
        winners: A row a metric and segment: the best variant and what it is worth.
        runs: The runs in their order.
        metrics: The metrics; the first one decides.
        level: The coverage of intervals.
        notes: What a reader should know.
        executed_sql: The statements that ran, input checks aside.
    """

    rows: tuple[Row, ...]
    winners: tuple[Row, ...]
    runs: tuple[str, ...]
    metrics: tuple[str, ...]
    level: float
    notes: tuple[str, ...]
    executed_sql: str

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "variants": {
            **_KEYS,
            "metric_date": "date32",
            **dict.fromkeys(("variant", "method", "norm"), "string"),
            "k": _DOUBLE,
            "weights": "string",
            **dict.fromkeys(("value", "ci_low", "ci_high"), _DOUBLE),
            "n_queries": "int64",
            "as_good": "bool",
            "condensed": _DOUBLE,
            "bound_metric": "string",
            **dict.fromkeys(("bound_low", "bound_high"), _DOUBLE),
        },
        "winners": {
            **_KEYS,
            "variant": "string",
            **dict.fromkeys(("naive_value", "value", "ci_low", "ci_high", "loss"), _DOUBLE),
            "equal_variant": "string",
            **dict.fromkeys(("over_equal", "over_equal_low", "over_equal_high"), _DOUBLE),
            "best_run": "string",
            **dict.fromkeys(("over_run", "over_run_low", "over_run_high"), _DOUBLE),
            **dict.fromkeys(("n_as_good", "n_variants", "n_folds_won", "n_folds"), "int64"),
            "n_units": "int64",
        },
    }

    def to_dicts(self) -> dict[str, list[Row]]:
        """The rows of `variants` and of `winners`."""
        tables = zip(self._schemas.items(), (self.rows, self.winners), strict=True)
        return {
            name: [{column: row[column] for column in kinds} for row in rows]
            for (name, kinds), rows in tables
        }

    def _blocks(self) -> Iterator[Block]:
        yield self._best()
        for winner in self.winners:
            if winner["segment_name"] == ALL or winner["metric"] == self.metrics[0]:
                yield wrapped(self._sentences(winner), break_on_hyphens=False)
        yield wrapped(f"note: {note}" for note in self.notes)

    def html(self) -> str:
        """All of it for a page, below the picture of the weights of two or three runs."""
        rows, sign = self._of_first()
        picture = weights_picture(rows, self.runs, self.metrics[0], self.level, sign)
        if picture is None or not can_draw():
            return super().html()
        words = Words()
        sentences = [picture.sentence(words), picture.look(words), *self._notes_of_days()]
        return f"{picture.html()}<p>{html_notes(sentences)}</p>{super().html()}"

    def pictures(self, words: Words) -> list[Picture]:
        """What a report shows of it.

        Args:
            words: The language.
        """
        rows, sign = self._of_first()
        weight_pictures = [weights_picture(rows, self.runs, self.metrics[0], self.level, sign)]
        of_all = (w for w in self.winners if w["segment_name"] == ALL)
        winner = next((w for w in of_all if w["metric"] == self.metrics[0]), None)
        if winner:
            note = "".join(f" {note}." for note in self._notes_of_days())
            weight_pictures.insert(0, variants_picture(rows, winner, self.level, words, note))
        return [picture for picture in weight_pictures if picture]

    def _of_first(self) -> tuple[list[Row], int]:
        """The rows of the metric that decides over all queries of the last day, best first."""
        rows = [row for row in self._last_day() if row["metric"] == self.metrics[0]]
        sign = -1 if rows and rows[0]["sign"] < 0 else 1
        # equal ones stay in the order of the grid
        return sorted(rows, key=lambda row: -sign * round(row["value"] or 0, 9)), sign

    def _last_day(self) -> list[Row]:
        """The rows over all queries of the last day."""
        last = max((str(row["metric_date"]) for row in self.rows), default="")
        return [
            row
            for row in self.rows
            if row["segment_name"] == ALL and str(row["metric_date"]) == last
        ]

    def _notes_of_days(self) -> Iterator[str]:
        """Of which of several days the values are, where the winner is of all."""
        days = sorted({str(row["metric_date"]) for row in self.rows})
        if len(days) > 1:
            yield (
                f"values of {days[-1]}, the last of {many(len(days), 'day')}; the winner is chosen "
                "over all days"
            )

    def _best(self) -> Table:
        """The variants over all queries of the last day, best first."""
        rows = self._last_day()
        metrics = [*dict.fromkeys(row["metric"] for row in rows)]
        cells: dict[str, dict[str, Row]] = {row["variant"]: {} for row in self._of_first()[0]}
        for row in rows:
            cells[row["variant"]][row["metric"]] = row
        ordered = [*cells.items()]
        lines = [
            [
                printable(name),
                "yes" if row_by_metric[metrics[0]]["as_good"] else "",
                *(_number(row_by_metric[metric]["value"]) for metric in metrics),
            ]
            for name, row_by_metric in ordered[:SHOWN]
        ]
        more = len(ordered) - len(lines)
        notes = [f"and {many(more, 'more variant')}"] if more > 0 else []
        notes += self._notes_of_days()
        heads, bound_cells, bound_notes = self._bounds([row[metrics[0]] for _, row in ordered])
        lines = [line + cells for line, cells in zip(lines, bound_cells, strict=False)]
        notes += bound_notes
        return Table(["variant", "as good", *metrics, *heads], lines, 2, notes=notes)

    def _bounds(self, rows: list[Row]) -> tuple[list[str], list[list[str]], list[str]]:
        """The heads, cells and notes of bounds; empty without."""
        metric = next((row["bound_metric"] for row in rows if row["bound_metric"]), None)
        if metric is None:
            return [], [[] for _ in rows], []
        numbers = ("condensed", "bound_low", "bound_high")
        cells = [[_number(row[name]) for name in numbers] for row in rows]
        notes = [
            f"condensed: {self.metrics[0]} of judged items alone; low and high: {metric} if all "
            "others shown were bad, and good"
        ]
        if not any(row["bound_high"] is not None for row in rows):
            notes.append("high is unknown where labels are texts, or are of days")
        sign = rows[0]["sign"] or 1
        best = max(rows, key=lambda row: sign * (row["condensed"] or 0))
        if sign * (best["condensed"] or 0) > sign * (rows[0]["condensed"] or 0) + 1e-9:
            notes.append(f"of judged items alone {printable(best['variant'])} is the best")
        return ["condensed", "low", "high"], cells, notes

    def _sentences(self, winner: Row) -> Iterator[str]:
        metric, segment = winner["metric"], winner["segment_name"]
        of = "" if segment == ALL else f", {segment} {printable(winner['segment_value'])}"
        best, n_variants = printable(winner["variant"]), winner["n_variants"]
        yield f"{metric}{of}: {best} is the best of {n_variants:,} variants"
        queries = many(winner["n_units"], "query", "queries")
        looks = f"looks {winner['loss']:.4f} better" if winner["loss"] > 0 else "looks no better"
        yield (
            f"expected on other queries: {_ends(winner, 'value', 'ci')}; chosen on {queries} it "
            f"{looks}"
        )
        if winner["equal_variant"] != winner["variant"]:
            yield f"over equal weights: {_ends(winner, 'over_equal')}"
        if winner["best_run"] != winner["variant"]:
            yield f"over {printable(winner['best_run'])}: {_ends(winner, 'over_run')}"
        good = many(winner["n_as_good"], "variant")
        folds = f"{winner['n_folds_won']} of {winner['n_folds']} folds"
        yield f"as good: {good}, the best included; chosen in {folds}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _ends(row: Row, name: str, prefix: str = "") -> str:
    low, high = (row[f"{prefix or name}_{end}"] for end in ("low", "high"))
    sign = "" if prefix else "+"
    # the folds' number is kept within the interval
    beyond = {} if low == high else {low: "; folds alone say less", high: "; folds alone say more"}
    return f"{row[name]:{sign}.4f} ({low:{sign}.4f} to {high:{sign}.4f}{beyond.get(row[name], '')})"


def variant_row(
    row: Row,
    variant: Variant,
    runs: Sequence[str],
    good: set[tuple[str, tuple[str, str], int]],
    *,
    number: int,
    sign: int,
) -> Row:
    """A row of the summary of an evaluation, whose systems are numbers of variants."""
    metric, family = at_cutoff(row["metric"], row["k"]), variant.family
    segment = (row["segment_name"], row["segment_value"])
    is_dated = str(row["metric_date"]) != NO_DATE
    return {
        "metric": metric,
        "segment_name": segment[0],
        "segment_value": segment[1],
        "metric_date": row["metric_date"] if is_dated else None,
        "variant": variant.name,
        "method": family.method if family else "alone",
        "norm": family.norm if family and family.feature == family.norm else None,
        "k": family.k if family and family.method in OF_K else None,
        "weights": ",".join(
            f"{run}={weight:g}" for run, weight in zip(runs, variant.weights, strict=True)
        ),
        **{name: row[name] for name in ("value", "ci_low", "ci_high", "n_queries")},
        "as_good": (metric, segment, number - 1) in good,
        "sign": sign,
        "family": str(family or "alone"),
        "shares": [weight / sum(variant.weights) for weight in variant.weights],
    }


def bound_columns(row: Row, number: int, bounds: Bounds | None, measure: Measure) -> Row:
    """What a row of the metric that decides has of its variant's bounds; NULLs elsewhere."""
    is_of_first = at_cutoff(row["metric"], row["k"]) == str(measure)
    if bounds is None or not is_of_first or row["segment_name"] != ALL:
        return dict.fromkeys(("condensed", "bound_metric", "bound_low", "bound_high"))
    key = number, str(row["metric_date"])
    return {
        "condensed": bounds.condensed.get(key),
        "bound_metric": bounds.metric,
        "bound_low": bounds.low.get(key),
        "bound_high": bounds.high.get(key),
    }


def winner_row(
    measure: Measure, segment: tuple[str, str], winner: Winner, variants: Sequence[Variant]
) -> Row:
    """What is known of a winner."""
    return {
        "metric": str(measure),
        "segment_name": segment[0],
        "segment_value": segment[1],
        "variant": variants[winner.best].name,
        "naive_value": winner.mean.naive,
        "value": winner.mean.value,
        "ci_low": winner.mean.ci_low,
        "ci_high": winner.mean.ci_high,
        "loss": winner.loss,
        "equal_variant": variants[winner.equal].name,
        **_gain("over_equal", winner.over_equal),
        "best_run": variants[winner.run].name,
        **_gain("over_run", winner.over_run),
        "n_as_good": len(winner.as_good),
        "n_variants": len(variants),
        "n_folds_won": winner.fold_winners.count(winner.best),
        "n_folds": len(winner.fold_winners),
        "n_units": winner.n_units,
    }


def _gain(name: str, gain: Gain) -> Row:
    return {name: gain.value, f"{name}_low": gain.ci_low, f"{name}_high": gain.ci_high}
