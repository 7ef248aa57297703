"""What a sweep gives: the numbers of its variants, and what is known of the winners."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import at_cutoff, without_cutoff
from sqlmetrics.comparison.page.content import Words, signed
from sqlmetrics.comparison.page.picture import Chart, Picture, Sized, can_draw
from sqlmetrics.comparison.page.profile import RISING, all_labelled
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.fusion.grid import Gain, Variant, Winner
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.summary import ALL, NO_DATE
from sqlmetrics.spec.mixture import OF_K
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.stats.estimate import INTERVAL
from sqlmetrics.tables.table import Table, html_notes, many, printable, value_text, wrapped
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular

# The pictures of a sweep: a metric over the weights of runs, and the best variants.

PANELS = 6
"""So many families have a triangle, those with the best variants."""

BEST = 12
"""So many variants have an interval."""

CENTRE = math.sqrt(3) / 6
"""How high the middle of a triangle is, whose side is 1."""

_NUMBERS = ("value", *INTERVAL)
_HEADS = ("value", "low", "high")


def weights_picture(
    rows: Sequence[Row], runs: Sequence[str], metric: str, level: float, sign: int = 1
) -> Picture | None:
    """The curve of two runs, or the triangles of three; None of more.

    Args:
        rows: The variants' rows of the metric, over all queries of a day.
        runs: The runs in their order.
        metric: Its text.
        level: The coverage of the band of a curve.
        sign: 1 where more of the metric is better, -1 where less is.
    """
    ends, points = list[Row](), dict[str, list[Row]]()
    for row in rows:
        if row["value"] is not None:
            family = ends if row["method"] == "alone" else points.setdefault(row["family"], [])
            family.append(row)
    if not points:
        return None
    families = sorted(
        points, key=lambda name: max(sign * row["value"] for row in points[name]), reverse=True
    )
    if len(runs) == 2:
        return _curve({name: [*ends, *points[name]] for name in points}, runs, metric, level)
    if len(runs) == 3:
        points_by_family = {name: [*ends, *points[name]] for name in families[:PANELS]}
        return _triangles(points_by_family, runs, metric, sign)
    return None


def _curve(
    points: Mapping[str, Sequence[Row]], runs: Sequence[str], metric: str, level: float
) -> Picture:
    """A line of each family from the first run alone to the second."""
    marks = [
        {
            **_interval_ends(row),
            "weight": row["shares"][1],
            "as_good": row["as_good"],
            "system": family,
        }
        for family, family_rows in points.items()
        for row in sorted(family_rows, key=lambda row: float(row["shares"][1]))
    ]
    chart = Chart("weights", marks, {"weight_of": runs[1], "metric": metric}, [*points])
    cells = [
        [str(point["system"]), f"{point['weight']:g}", *(f"{point[name]:.4f}" for name in _NUMBERS)]
        for point in marks
    ]
    about = {"metric": metric, "level": f"{100 * level:g}", "run": runs[1], "other": runs[0]}
    return Picture("weights", chart, ["variant", "weight", *_HEADS], cells, 1, about)


def _triangles(
    points: Mapping[str, Sequence[Row]], runs: Sequence[str], metric: str, sign: int
) -> Picture:
    """A triangle of each family: each run alone at a corner, the mixtures between them."""
    best = max(sign * row["value"] for rows in points.values() for row in rows)
    marks = [
        {
            "system": family,
            "x": row["shares"][1] + row["shares"][2] / 2,
            "y": row["shares"][2] * math.sqrt(3) / 2,
            "value": row["value"],
            "as_good": row["as_good"],
            "is_best": abs(sign * row["value"] - best) < 1e-12,
            "corner": runs[row["shares"].index(1.0)] if row["method"] == "alone" else "",
        }
        for family, rows in points.items()
        for row in rows
    ]
    least = min(
        share for rows in points.values() for row in rows for share in row["shares"] if share
    )
    centre = [point for point in marks if abs(point["x"] - 0.5) + abs(point["y"] - CENTRE) < 1e-4]
    if len(marks) > 4 * len(points) and (1 / 3 / least) % 1 > 0.01:  # equal weights on no grid
        marks = [point for point in marks if point["is_best"] or point not in centre]
    sizes = (max(12.0, 0.6 * (side * least) ** 2) for side in (240, 200))
    chart = Chart("surface", marks, {"metric": metric, "mark_size": Sized(sizes)}, [*points])
    cells = [
        [str(row["variant"]), *(f"{share:.3g}" for share in row["shares"]), f"{row['value']:.4f}"]
        for row in {row["variant"]: row for rows in points.values() for row in rows}.values()
    ]
    about = {"metric": metric, "run": runs[0], "second": runs[1], "third": runs[2]}
    return Picture("surface", chart, ["variant", *runs, "value"], cells, 1, about)


def variants_picture(
    rows: Sequence[Row], winner: Row, level: float, words: Words, note: str = ""
) -> Picture:
    """The best variants with their intervals, and what is known of the winner.

    Args:
        rows: The variants' rows of the winner's metric, over all queries of a day, best first.
        winner: What is known of it.
        level: The coverage of intervals.
        words: The language.
        note: What else is to be known.
    """
    good_title, other_title = words("variants.good"), words("variants.others")
    marks = [
        {
            **_interval_ends(row),
            "panel": row["metric"],
            "label": row["variant"],
            "system": good_title if row["as_good"] else other_title,
        }
        for row in rows[:BEST]
        if row["value"] is not None
    ]
    cells = [
        [str(row["label"]), str(row["system"]), *(f"{row[name]:.4f}" for name in _NUMBERS)]
        for row in marks
    ]
    about = {
        "metric": winner["metric"],
        "best": winner["variant"],
        "variants": words.n(winner["n_variants"]),
        "queries": words.counted("queries", winner["n_units"]),
        "level": f"{100 * level:g}",
        **{name: f"{winner[name]:.4f}" for name in (*_NUMBERS, "loss")},
        "run": winner["best_run"],
        "good": words.n(winner["n_as_good"]),
        **dict(_advantages(winner)),
    }
    chart = Chart("means", marks, {}, [good_title, other_title])
    return Picture(
        "variants", chart, ["variant", "as good", *_HEADS], cells, 2, about, left_out=note
    )


def _advantages(winner: Row) -> Iterator[tuple[str, str]]:
    for name in ("over_equal", "over_run"):
        yield name, signed(winner[name])
        for end in ("low", "high"):
            yield f"{name}_{end}", signed(winner[f"{name}_{end}"])


def _interval_ends(row: Row) -> Row:
    """The numbers of a row; where it has no interval it ends at its value."""
    return {name: row["value"] if row[name] is None else row[name] for name in _NUMBERS}


# What items without a label do to variants: their bounds, and whether a lead hangs on them.


def hanging_lead(plan: Plan, engine: Database, best: int, rival: int) -> str:
    """What a rival would have if the items that it alone shows were good; empty if no more.

    Items that both show are the same to both. Those that the rival alone shows have the highest
    grade, and all others without a label are bad: that is the least lead of the winner.

    Args:
        plan: The plan of the evaluation, whose systems are the numbers of variants in a table.
        engine: Where its tables are.
        best: The number of the winner, from 1.
        rival: Of the variant that it is compared with.
    """
    spec, k, metric = plan.spec, plan.measures[0].k or 10, _bounded_metric(plan)
    table = source_text(plan.shape.tables["rankings"])
    same = " and ".join(f"best.{key} = rival.{key}" for key in (*plan.shape.query_keys, "item_id"))
    alone = (
        f"select rival.*\nfrom {table} as rival\nleft join (\n    select *\n    from {table}\n"
        f"    where system = {best} and rnk <= {k}\n) as best\n    on {same}\n"
        f"where rival.system = {rival} and rival.rnk <= {k} and best.item_id is null"
    )
    rows = spec.rankings.model_copy(update={"relation": None, "sql": alone})
    best_and_rival = spec.rankings.model_copy(update={"where": f"system in ({best}, {rival})"})
    metric_spec = _spec_of(plan, metric, "nonrelevant")
    with all_labelled(metric_spec.having(rankings=rows), engine) as good:
        if good is None:
            return ""
        plain, judged = (
            _means(labelled.having(rankings=best_and_rival), engine)
            for labelled in (metric_spec, good)
        )
    is_held = judged[rival] <= plain[rival] or judged[rival] < judged[best]
    return "" if is_held else f"{metric} would be {judged[rival]:.4f}, not {judged[best]:.4f}"


@dataclass(frozen=True)
class Bounds:
    """A variant without its items that have no label, and with them as bad and as good.

    Attributes:
        metric: What `low` and `high` are of: of a metric whose ideal rises with labels, precision.
        condensed: Variant and day -> its mean of labelled items alone, of the metric that decides.
        low: Variant and day -> its mean if no item without a label were relevant.
        high: If each of them had the highest grade; none where labels are texts, or are of days.
    """

    metric: str
    condensed: Mapping[tuple[int, str], float]
    low: Mapping[tuple[int, str], float]
    high: Mapping[tuple[int, str], float]


def bounds_of(plan: Plan, engine: Database) -> Bounds:
    """The bounds of all variants, of each day.

    Args:
        plan: The plan of the evaluation, whose systems are the numbers of variants in a table of
            whole lists.
        engine: Where its tables are.

    Raises:
        SpecError: If the conventions of the metric do not go with it.
    """
    metric = _bounded_metric(plan)
    metric_spec = _spec_of(plan, metric, "nonrelevant")
    condensed = _values(_spec_of(plan, plan.measures[0].text, "condensed"), engine)
    with all_labelled(metric_spec, engine) as good:
        high = _values(good, engine) if good else {}
    return Bounds(metric, condensed, _values(metric_spec, engine), high)


def _bounded_metric(plan: Plan) -> str:
    """The metric that decides if it only rises with a grade, else precision."""
    text = str(plan.measures[0])
    name, _ = without_cutoff(text)
    return text if name in RISING else f"precision@{plan.measures[0].k or 10}"


def _spec_of(plan: Plan, metric: str, unjudged: str) -> Spec:
    conventions = dict(plan.spec.conventions) | {"unjudged": unjudged}
    return plan.spec.having(metrics=(metric,), by=(), segments={}, conventions=conventions)


def _rows(spec: Spec, engine: Database) -> list[Row]:
    return run(spec, opened(spec, engine), engine, check=False, per_query=False).to_dicts()


def _values(spec: Spec, engine: Database) -> dict[tuple[int, str], float]:
    """The number of a variant and a day -> its mean of that day, where it has one."""
    return {
        (int(row["system"]), str(row["metric_date"])): row["value"]
        for row in _rows(spec, engine)
        if row["value"] is not None
    }


def _means(spec: Spec, engine: Database) -> dict[int, float]:
    """The number of a variant -> its mean of all days."""
    sums: dict[int, tuple[float, float]] = {}
    for row in _rows(spec, engine):
        top, bottom = sums.get(int(row["system"]), (0.0, 0.0))
        sums[int(row["system"])] = top + (row["numerator"] or 0), bottom + (row["denominator"] or 0)
    return {number: top / bottom if bottom else 0.0 for number, (top, bottom) in sums.items()}


PRINTED_VARIANTS = 12
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
            for name, row_by_metric in ordered[:PRINTED_VARIANTS]
        ]
        n_more = len(ordered) - len(lines)
        notes = [f"and {many(n_more, 'more variant')}"] if n_more > 0 else []
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
        of = "" if segment == ALL else f", {segment} {value_text(winner['segment_value'])}"
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
