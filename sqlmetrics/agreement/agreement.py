"""The result of `agree`: coefficients, the confusion of grades, segments, and the judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from sqlmetrics.agreement.counts import SYSTEM
from sqlmetrics.catalog.option import plain
from sqlmetrics.comparison.page.content import Words, number, signed
from sqlmetrics.comparison.page.picture import Chart, Picture, rows_left_out, systems_left_out
from sqlmetrics.plan.summary import ALL
from sqlmetrics.tables.table import Table, many, metric_value, printable, value_text
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular

if TYPE_CHECKING:
    import numpy as np

    from sqlmetrics.stats.bootstrap import Array

    Indexes = np.ndarray[Any, np.dtype[np.int64]]


# Coefficients of agreement as functions of sums, so that each replicate of a bootstrap is one row.
#
# Sources: Cohen 1960 and 1968; Fleiss 1971; Krippendorff, Computing Krippendorff's
# alpha-reliability (2011); Gwet, Handbook of Inter-Rater Reliability, 4th ed. (2014), whose forms
# of
# Fleiss' kappa and of AC1 and AC2 allow missing labels.

OF_TWO = ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic")
"""The coefficients of two judges alone."""

COEFFICIENTS = (
    *("agreement", *OF_TWO, "fleiss_kappa"),
    *("alpha_nominal", "alpha_ordinal", "alpha_interval"),
    *("ac1", "ac2_linear", "ac2_quadratic"),
)
"""All of them, in the order in which they are told."""

_WEIGHTINGS = ("", "_linear", "_quadratic")


@dataclass(frozen=True)
class Tallies:
    """How often pairs were graded in the same way, unit by unit.

    Attributes:
        grades: The scale, in ascending order.
        units: The number of the unit (query) of each row, from 0.
        patterns: Row and judge -> the index of the grade, -1 without a label.
        counts: How many pairs of the unit are graded so.
        n_units: How many units there are.
    """

    grades: tuple[float, ...]
    units: Indexes
    patterns: Indexes
    counts: Array
    n_units: int

    def of(self, judges: Sequence[int]) -> Tallies:
        """The same of some of the judges."""
        chosen = self.patterns[:, list(judges)]
        return Tallies(self.grades, self.units, chosen, self.counts, self.n_units)

    @cached_property
    def grade_counts(self) -> Array:
        """Row and grade -> how many judges gave it."""
        import numpy as np

        scale = np.arange(len(self.grades))
        grade_counts: Array = (self.patterns[:, :, None] == scale).sum(axis=1).astype(float)
        return grade_counts

    @cached_property
    def n_pairs(self) -> int:
        """How many pairs two judges or more graded."""
        return int(self.counts[self.grade_counts.sum(axis=1) >= 2].sum())

    def sums(self) -> Array:
        """Unit (row) -> the sums that `coefficients` takes (columns)."""
        import numpy as np

        columns = [
            np.bincount(self.units, weights=self.counts * values, minlength=self.n_units)
            for values in self._columns()
        ]
        return np.stack(columns, axis=1)

    def _columns(self) -> Iterator[Array]:
        import numpy as np

        grade_counts, n_judges = self.grade_counts, self.grade_counts.sum(axis=1)
        shared = n_judges >= 2
        yield shared
        for weights in weightings(self.grades):
            same = (grade_counts * (grade_counts @ weights - 1)).sum(axis=1)
            yield np.where(shared, same / np.maximum(n_judges * (n_judges - 1), 1), 0.0)
        yield (n_judges >= 1).astype(float)
        yield from (grade_counts / np.maximum(n_judges, 1)[:, None]).T
        for i in range(len(self.grades)):
            for j in range(len(self.grades)):
                together = grade_counts[:, i] * (grade_counts[:, j] - (i == j))
                yield np.where(shared, together / np.maximum(n_judges - 1, 1), 0.0)
        if self.patterns.shape[1] == 2:
            first, second = self.patterns.T
            for i in range(len(self.grades)):
                for j in range(len(self.grades)):
                    yield ((first == i) & (second == j)).astype(float)


def weightings(grades: Sequence[float]) -> list[Array]:
    """What two grades of a pair count as agreement: unweighted, linear and quadratic.

    Equal grades count 1; of others the distance counts, 0 at the ends of the scale.
    """
    import numpy as np

    values = np.array(grades)
    apart = np.abs(values[:, None] - values) / max(float(values[-1] - values[0]), 1e-300)
    return [np.eye(len(grades)), 1 - apart, 1 - apart**2]


def coefficients(sums: Array, grades: Sequence[float], *, of_two: bool) -> dict[str, Array]:
    """Name -> the coefficient of each row of sums; NaN where it is not defined.

    Args:
        sums: Columns as `Tallies.sums` has them, added up over units.
        grades: The scale.
        of_two: Whether they are of two judges, who have Cohen's kappa.
    """
    import numpy as np

    q = len(grades)
    n_shared, same, n_graded = sums[:, 0], sums[:, 1:4].T, sums[:, 4]
    shares = _ratio(sums[:, 5 : 5 + q], n_graded[:, None])
    tables = sums[:, 5 + q :].reshape(len(sums), -1, q, q)
    values: dict[str, Array] = {"agreement": _ratio(same[0], n_shared)}
    spread = (shares * (1 - shares)).sum(axis=1)
    for name, weights, agreeing in zip(_WEIGHTINGS, weightings(grades), same, strict=True):
        observed = _ratio(agreeing, n_shared)
        by_chance = np.einsum("ri,ij,rj->r", shares, weights, shares)
        if not name:
            values["fleiss_kappa"] = _beyond(observed, by_chance)
        scale = weights.sum() / (q * (q - 1)) if q > 1 else np.nan
        values[f"ac2{name}" if name else "ac1"] = _beyond(observed, scale * spread)
        if of_two:
            values[f"cohen_kappa{name}"] = _cohen(tables[:, 1], weights)
    coincidences = tables[:, 0]
    for name, distances in _distances(coincidences, grades):
        values[f"alpha_{name}"] = _alpha(coincidences, distances)
    return {name: values[name] for name in COEFFICIENTS if name in values}


def _cohen(table: Array, weights: Array) -> Array:
    """Cohen's kappa of the confusion of two judges."""
    import numpy as np

    shares = _ratio(table, table.sum(axis=(1, 2))[:, None, None])
    by_chance = np.einsum("ri,ij,rj->r", shares.sum(axis=2), weights, shares.sum(axis=1))
    return _beyond((shares * weights).sum(axis=(1, 2)), by_chance)


def _distances(coincidences: Array, grades: Sequence[float]) -> Iterator[tuple[str, Array]]:
    """Level of measurement -> the squared distance of two grades."""
    import numpy as np

    q, values = len(grades), np.array(grades)
    yield "nominal", 1 - np.eye(q)
    totals = coincidences.sum(axis=2)
    middles = totals.cumsum(axis=1) - totals / 2
    yield "ordinal", (middles[:, :, None] - middles[:, None, :]) ** 2
    yield "interval", (values[:, None] - values) ** 2


def _alpha(coincidences: Array, distances: Array) -> Array:
    """Krippendorff's alpha: 1 less the disagreement that is there over that of chance."""
    totals = coincidences.sum(axis=2)
    n_labels = totals.sum(axis=1)
    observed = (coincidences * distances).sum(axis=(1, 2))
    products = totals[:, :, None] * totals[:, None, :]
    by_chance = (products * distances).sum(axis=(1, 2))
    return 1 - _ratio(observed * (n_labels - 1), by_chance)


def _beyond(observed: Array, by_chance: Array) -> Array:
    """Agreement beyond chance, of what is possible."""
    return _ratio(observed - by_chance, 1 - by_chance)


def _ratio(top: Array, bottom: Array) -> Array:
    """A ratio, NaN where nothing but rounding is below the line."""
    import numpy as np

    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(bottom > 1e-12, top / bottom, np.nan)


# The pictures of judges on a report: how far they agree, whom they favour, and what it changes.

MOST_PAIRS = 8
"""So many pairs of judges are drawn."""

MOST_SYSTEMS = 24
"""So many systems are drawn."""

DRAWN_COEFFICIENTS = ("agreement", "fleiss_kappa", "alpha_ordinal", "ac2_quadratic")
"""The coefficients that are drawn, each of any number of judges; the table has all of them."""

REFERENCE = "alpha_ordinal"
"""That of the sentence."""


def judge_pictures(agreement: Agreement, words: Words) -> Iterator[Picture]:
    """What a report shows of judges; of systems only where rankings were given.

    Args:
        agreement: How far they agree.
        words: The language.
    """
    yield _coefficients(agreement, words)
    if systems := [row for row in agreement.segments if row["segment_name"] == "system"]:
        yield _bias(systems, agreement, words)
    if agreement.systems:
        yield _systems(agreement, words)


def _coefficients(agreement: Agreement, words: Words) -> Picture:
    """Each coefficient of each two judges, with its interval."""
    rows = [
        row
        for row in agreement.coefficients
        if row["coefficient"] in DRAWN_COEFFICIENTS and row["value"] is not None
    ]
    pairs = [*dict.fromkeys(_judges(row, words) for row in agreement.coefficients)]
    marks = [_mark(row, "value", row["coefficient"], _judges(row, words)) for row in rows]
    reference_row = next(
        row for row in agreement.coefficients[::-1] if row["coefficient"] == REFERENCE
    )
    about = {
        "judges": _judges(reference_row, words),
        "pairs": words.n(reference_row["n_pairs"]),
        "queries": words.counted("queries", agreement.n_queries),
        "value": number(reference_row["value"]),
        "interval": _interval(reference_row, "ci", number, words),
        "level": f"{100 * agreement.level:g}",
    }
    cells = [
        [
            *(_judges(row, words), row["coefficient"]),
            *(number(row[name]) for name in ("value", "ci_low", "ci_high")),
            words.n(row["n_pairs"]),
        ]
        for row in agreement.coefficients
    ]
    names = ["judges", "coefficient", "value", "low", "high", "graded pairs"]
    chart = _chart(marks, pairs[:MOST_PAIRS])
    left_out = systems_left_out(pairs, pairs[:MOST_PAIRS], words)
    return Picture("judges", chart, names, cells, 2, about, left_out=left_out)


def _bias(systems: Sequence[Row], agreement: Agreement, words: Words) -> Picture:
    """By how much a judge grades the items of each system higher than the first judge does."""
    pairs = [*dict.fromkeys(_judges(row, words) for row in systems)][:MOST_PAIRS]
    labels = [*dict.fromkeys(row["segment_value"] for row in systems)][:MOST_SYSTEMS]
    marks = [
        _mark(row, "bias", row["segment_value"], _judges(row, words))
        for row in systems
        if row["segment_value"] in labels
    ]
    of_first = [row for row in systems if row["judge"] == systems[0]["judge"]]
    changes = [row for row in of_first if row["bias_change"] is not None]
    widest = max(changes, key=lambda row: abs(row["bias_change"]), default=None)
    about: dict[str, object] = {"level": f"{100 * agreement.level:g}", "favour": ""}
    if widest:
        about["favour"] = words(
            "judge_bias.favour",
            judge=widest["other_judge"],
            system=widest["segment_value"],
            other=systems[0]["segment_value"],
            change=signed(widest["bias_change"]),
            interval=_interval(widest, "change", signed, words),
        )
    bias = ("bias", "bias_low", "bias_high", "bias_change", "change_low", "change_high")
    cells = [
        [
            *(_judges(row, words), row["segment_value"]),
            *(signed(row[name]) for name in bias),
            words.n(row["n_pairs"]),
        ]
        for row in systems
    ]
    names = ["judges", "system", "bias", "low", "high", "change", "change low", "change high"]
    chart = _chart(marks, pairs)
    left_out = rows_left_out(len(chart.rows), len(systems), words)
    return Picture(
        "judge_bias", chart, [*names, "graded pairs"], cells, 2, about, left_out=left_out
    )


def _systems(agreement: Agreement, words: Words) -> Picture:
    """The systems by the labels of the first judge and of another, and which verdicts turn."""
    metric = agreement.systems[0]["metric"]
    rows = [row for row in agreement.systems if row["metric"] == metric]
    orders = [row for row in agreement.orders if row["metric"] == metric]
    first = rows[0]["judge"]
    judges = [first, *dict.fromkeys(row["other_judge"] for row in rows)]
    labels = [*dict.fromkeys(row["system"] for row in rows)][:MOST_SYSTEMS]
    values = {(row["system"], first): row["value"] for row in rows}
    values |= {(row["system"], row["other_judge"]): row["other_value"] for row in rows}
    marks = [
        {**dict.fromkeys(("value", "ci_low", "ci_high"), value), "panel": "", **_names(*key)}
        for key, value in values.items()
        if value is not None and key[0] in labels
    ]
    turned = [row for row in rows if row["verdict"] != row["other_verdict"]]
    about = {
        "metric": metric,
        "judge": first,
        "turned": words.n(sum(row["n_turned"] for row in orders)),
        "verdicts": words.n(sum(row["n_verdicts"] for row in orders)),
        "tau": ", ".join(signed(row["kendall_tau"]) for row in orders),
        "systems": "".join(
            words(
                "judge_systems.system",
                system=row["system"],
                **{name: row[name] for name in ("judge", "other_judge")},
                **{name: _verdict(row[name], words) for name in ("verdict", "other_verdict")},
            )
            for row in turned[:MOST_PAIRS]
        ),
    }
    numbers = ("value", "other_value", "difference", "ci_low", "ci_high")
    cells = [
        [
            *(row["system"], row["other_judge"]),
            *(number(row[name]) for name in numbers[:2]),
            *(signed(row[name]) for name in numbers[2:]),
            words.n(row["n_queries"]),
            *(_verdict(row[name], words) for name in ("verdict", "other_verdict")),
        ]
        for row in rows
    ]
    names = ["system", "judge", f"by {first}", "by the judge", "change", "low", "high", "queries"]
    columns = [*names, "verdict", "verdict by the judge"]
    chart = _chart(marks, judges)
    left_out = rows_left_out(len(chart.rows), len(values), words)
    return Picture("judge_systems", chart, columns, cells, 2, about, left_out=left_out)


def _chart(marks: Sequence[Row], colored: Sequence[str]) -> Chart:
    return Chart("means", [row for row in marks if row["system"] in colored], {}, [*colored])


def _verdict(verdict: str | None, words: Words) -> str:
    return words(f"verdict.{verdict}") if verdict else "-"


def _names(label: str, colored: str) -> Row:
    return {"label": label, "system": colored}


def _mark(row: Row, column: str, label: str, colored: str) -> Row:
    """A value with its interval; where it has none it ends at its value."""
    prefix = "ci" if column == "value" else column
    ends = {
        f"ci_{end}": row[column] if row[f"{prefix}_{end}"] is None else row[f"{prefix}_{end}"]
        for end in ("low", "high")
    }
    return {"value": row[column], **ends, "panel": "", **_names(label, colored)}


def _interval(row: Row, prefix: str, format_number: Callable[[float], str], words: Words) -> str:
    low, high = row[f"{prefix}_low"], row[f"{prefix}_high"]
    return (
        "-" if low is None else words("page.to", low=format_number(low), high=format_number(high))
    )


def _judges(row: Row, words: Words) -> str:
    """The two judges of a row, or all of them."""
    if row["judge"] == ALL:
        return words("judges.all")
    return f"{row['judge']}, {row['other_judge']}"


_JUDGES = dict.fromkeys(("judge", "other_judge"), "string")
_INTERVAL = dict.fromkeys(("ci_low", "ci_high"), "double")
_SEGMENT = dict.fromkeys(("segment_name", "segment_value"), "string")
_BIAS = ("bias", "bias_low", "bias_high", "bias_change", "change_low", "change_high")

AGREEMENT_SCHEMAS: dict[str, Kinds] = {
    "coefficients": {
        **_JUDGES,
        "coefficient": "string",
        "value": "double",
        **_INTERVAL,
        "n_pairs": "int64",
        "reason": "string",
    },
    "confusion": {
        **_JUDGES,
        "grade": "double",
        "other_grade": "double",
        "n_pairs": "int64",
        "share": "double",
    },
    "segments": {
        **_JUDGES,
        **_SEGMENT,
        "n_pairs": "int64",
        "agreement": "double",
        **_INTERVAL,
        **dict.fromkeys(_BIAS, "double"),
    },
    "probabilities": {
        **_JUDGES,
        **_SEGMENT,
        **dict.fromkeys(("other_grade", "grade"), "double"),
        "n_pairs": "int64",
        "probability": "double",
        **_INTERVAL,
    },
    "calibration": {
        **_JUDGES,
        **_SEGMENT,
        "other_grade": "double",
        "n_pairs": "int64",
        **dict.fromkeys(("mean_grade", "calibrated"), "double"),
        **_INTERVAL,
        **dict.fromkeys(("change", "change_low", "change_high"), "double"),
    },
    "systems": {
        **_JUDGES,
        "metric": "string",
        "system": "string",
        **dict.fromkeys(("value", "other_value", "difference"), "double"),
        **_INTERVAL,
        "n_queries": "int64",
        **dict.fromkeys(("verdict", "other_verdict"), "string"),
    },
    "orders": {
        **_JUDGES,
        "metric": "string",
        "n_systems": "int64",
        **dict.fromkeys(("kendall_tau", "spearman", "rbo"), "double"),
        **dict.fromkeys(("n_verdicts", "n_turned"), "int64"),
    },
    "judges": {
        "judge": "string",
        "n_pairs": "int64",
        "n_labels": "int64",
        "n_repeated": "int64",
        "self_agreement": "double",
        "mean_grade": "double",
    },
}
"""Table -> its columns."""

TOGETHER = (ALL, ALL)
"""What stands for the two judges where all are meant: no judge is held against itself."""

MOST_SHOWN = 12
"""As many segments of a pair of judges does the text show: those that disagree most."""

BIAS = "bias: mean grade of the second judge less that of the first"
CHANGE = "change: bias of the system less that of the first system"

MOST_GRADES = 6
"""A scale of more grades has no columns of probabilities in the text."""

OF_PROBABILITIES = "P: how often the first judge gives a grade where the second gives this one"
OF_CHANGE = "change: mean grade of the system's pairs less that of all pairs of this grade"

_HEADS = ("agreement", "bias", "bias low", "bias high")
_NUMBERS = ("agreement", *_BIAS[:3])
_CHANGES = _BIAS[3:]


@dataclass(frozen=True, repr=False)
class Agreement(Tabular):
    """How far judges agree; it prints as tables.

    Attributes:
        coefficients: One row per coefficient of each two judges, and of `all` together where there
            are more: value (NULL where it is not defined, with the `reason`), its interval, and
            the pairs that two judges or more graded.
        confusion: One row per grade of each of two judges: pairs, and their share of all.
        segments: One row per segment of each two judges: raw agreement and bias (mean grade of
            `other_judge` less that of `judge`) with intervals; of systems also how the bias differs
            from that of the first system.
        probabilities: One row per segment, grade of a judge (`other_grade`) and grade of the first
            judge: how likely the first gives it where the other gives that one, with its interval.
        calibration: One row per segment and grade of a judge: the mean grade of the first judge
            beside it, the grade to expect (`calibrated`: the same, but for a curve that never
            falls) with its interval, and by how much the mean is above that of all pairs with this
            grade of the judge (`change`).
        systems: With metrics, one row per metric and system by the labels of the first judge and of
            another: both values and their difference with its interval, over the queries where
            both are defined (`n_queries`), and the verdicts of `compare`.
        orders: With metrics, one row per metric: Kendall's tau-b, Spearman's correlation and
            rank-biased overlap (p = .9, best system first) of the values of the systems, and how
            many verdicts differ (`n_turned`).
        judges: One row per judge: pairs, labels, pairs with several labels, how often two labels
            of its own for a pair agree, and the mean grade.
        grades: The scale: the grades that were given, and those that were named.
        n_queries: Queries with a pair that two judges graded.
        level: The coverage of the intervals.
        notes: What a reader should know.
        executed_sql: The statements that ran, in the words of the database.
    """

    coefficients: tuple[Row, ...]
    confusion: tuple[Row, ...]
    segments: tuple[Row, ...]
    judges: tuple[Row, ...]
    grades: tuple[float, ...]
    n_queries: int
    level: float
    notes: tuple[str, ...]
    executed_sql: str
    probabilities: tuple[Row, ...] = ()
    calibration: tuple[Row, ...] = ()
    systems: tuple[Row, ...] = ()
    orders: tuple[Row, ...] = ()

    _schemas: ClassVar[dict[str, Kinds]] = AGREEMENT_SCHEMAS

    def to_dicts(self) -> dict[str, list[Row]]:
        """The rows of each table."""
        return {name: [*getattr(self, name)] for name in AGREEMENT_SCHEMAS}

    def __getitem__(self, coefficient: str) -> float | None:
        """The value of a coefficient: of all judges where it has one, else of the first two.

        Raises:
            KeyError: If there is none of the name.
        """
        rows = [row for row in self.coefficients if row["coefficient"] == coefficient]
        if not rows:
            names = ", ".join(COEFFICIENTS)
            raise KeyError(f"no coefficient {coefficient!r}; known: {names}")
        chosen = next((row for row in rows if _is_of(row, *TOGETHER)), rows[0])
        value: float | None = chosen["value"]
        return value

    def pictures(self, words: Words) -> list[Picture]:
        """What a report shows of it.

        Args:
            words: The language.
        """
        return [*judge_pictures(self, words)]

    def _blocks(self) -> Iterator[Block]:
        yield _judge_table(self.judges)
        yield from self._coefficient_tables()
        for judge, other in self._judge_pairs():
            yield self._confusion_table(judge, other)
            if expected := [row for row in self.calibration if _is_of(row, judge, other)]:
                yield self._worth_table(judge, other, expected)
            if segments := [row for row in self.segments if _is_of(row, judge, other)]:
                yield from _segment_tables(judge, other, segments)
            if systems := [row for row in self.systems if _is_of(row, judge, other)]:
                yield from system_tables(
                    judge, other, systems, [row for row in self.orders if _is_of(row, judge, other)]
                )
        below = (
            f"{many(self.n_queries, 'query', 'queries')}; intervals at {self.level:.0%} by "
            "resampling queries"
        )
        yield "\n".join([below, *(f"note: {note}" for note in self.notes)])

    def _judge_pairs(self) -> list[tuple[str, str]]:
        pairs = dict.fromkeys((row["judge"], row["other_judge"]) for row in self.coefficients)
        return [pair for pair in pairs if pair != TOGETHER]

    def _coefficient_tables(self) -> Iterator[Table]:
        cells, reasons = [], {}
        for row in self.coefficients:
            is_together = _is_of(row, *TOGETHER)
            judges = ALL if is_together else _versus(row["judge"], row["other_judge"])
            numbers = [metric_value(row[name]) for name in ("value", "ci_low", "ci_high")]
            cells.append([judges, row["coefficient"], *numbers, f"{row['n_pairs']:,}"])
            if row["reason"]:
                reasons[row["coefficient"]] = row["reason"]
        by_reason: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            by_reason.setdefault(reason, []).append(name)
        notes = [f"-: {', '.join(names)}: {reason}" for reason, names in by_reason.items()]
        names = ["judges", "coefficient", "agreement", "low", "high", "graded pairs"]
        yield Table(names, cells, 2, notes=notes)

    def _confusion_table(self, judge: str, other: str) -> Table:
        counts = {
            (row["grade"], row["other_grade"]): row["n_pairs"]
            for row in self.confusion
            if _is_of(row, judge, other)
        }
        rows = [
            [plain(grade), *(f"{counts.get((grade, second), 0):,}" for second in self.grades)]
            for grade in self.grades
        ]
        most = max(counts.values(), default=1)
        shares = {
            (i, j + 1): counts.get((grade, second), 0) / most
            for i, grade in enumerate(self.grades)
            for j, second in enumerate(self.grades)
        }
        title = f"pairs by the grade of {printable(judge)} (rows) and {printable(other)} (columns)"
        names = ["grade", *map(plain, self.grades)]
        return Table(names, rows, 1, title=title, shares=shares)

    def _worth_table(self, judge: str, other: str, expected: list[Row]) -> Table:
        """How likely the first judge gives which grade, of all pairs and of each system's."""
        chances = {
            (row["segment_name"], row["segment_value"], row["other_grade"], row["grade"]): row
            for row in self.probabilities
            if _is_of(row, judge, other)
        }
        grades = self.grades if len(self.grades) <= MOST_GRADES else ()
        has_systems = any(row["segment_name"] == SYSTEM for row in expected)
        numbers = ["mean_grade", "calibrated", "ci_low", "ci_high"]
        numbers += ["change", "change_low", "change_high"] if has_systems else []
        rows = []
        for row in expected:
            key = (row["segment_name"], row["segment_value"], row["other_grade"])
            if key[0] in (ALL, SYSTEM):
                probabilities = [chances[(*key, grade)]["probability"] for grade in grades]
                cells = [*(f"{chance:.0%}" for chance in probabilities), f"{row['n_pairs']:,}"]
                values = [metric_value(row[name]) for name in numbers]
                rows.append([printable(key[1]), plain(key[2]), *cells, *values])
        heads = ["system", "grade", *(f"P({plain(grade)})" for grade in grades), "graded pairs"]
        heads += ["mean grade", "calibrated", "low", "high"]
        heads += ["change", "change low", "change high"] if has_systems else []
        title = f"what the grades of {printable(other)} are worth, by those of {printable(judge)}"
        notes = [OF_PROBABILITIES, *([OF_CHANGE] if has_systems else [])]
        return Table(heads, rows, 2, title=title, notes=notes)


def _judge_table(judges: tuple[Row, ...]) -> Table:
    rows = [
        [
            printable(row["judge"]),
            *(f"{row[name]:,}" for name in ("n_pairs", "n_labels", "n_repeated")),
            *(metric_value(row[name]) for name in ("self_agreement", "mean_grade")),
        ]
        for row in judges
    ]
    names = ["judge", "graded pairs", "all labels", "graded again", "self-agreement", "mean grade"]
    return Table(names, rows, 1)


def _segment_tables(judge: str, other: str, segments: list[Row]) -> Iterator[Table]:
    """The systems, for what a judge favours; and the segments with the least agreement."""
    systems = [row for row in segments if row["segment_name"] == "system"]
    if systems:
        names = ["system", *_HEADS, "change", "change low", "change high", "graded pairs"]
        rows = [
            [printable(row["segment_value"]), *_cells(row, _NUMBERS + _CHANGES)] for row in systems
        ]
        title = f"bias by system: {printable(other)} less {printable(judge)}"
        yield Table(names, rows, 1, title=title, notes=[CHANGE])
    other_segments = [row for row in segments if row["segment_name"] not in (ALL, "system")]
    other_segments.sort(key=lambda row: row["agreement"])
    rows = [
        [row["segment_name"], value_text(row["segment_value"]), *_cells(row, _NUMBERS)]
        for row in other_segments[:MOST_SHOWN]
    ]
    n_more = len(other_segments) - MOST_SHOWN
    notes = [BIAS, *([f"{many(n_more, 'more segment')} in to_dicts()"] if n_more > 0 else [])]
    title = f"where {_versus(judge, other)} disagree most"
    names = ["segment", "segment value", *_HEADS, "graded pairs"]
    yield Table(names, rows, 2, title=title, notes=notes)


def system_tables(judge: str, other: str, systems: list[Row], orders: list[Row]) -> Iterator[Table]:
    """The systems by the labels of two judges, and what becomes of their order."""
    names = ("value", "other_value", "difference", "ci_low", "ci_high")
    rows = [
        [
            *(row["metric"], printable(row["system"])),
            *(metric_value(row[name]) for name in names),
            f"{row['n_queries']:,}",
            *(row[name] or "-" for name in ("verdict", "other_verdict")),
        ]
        for row in systems
    ]
    heads = ["metric", "system", "first judge", "second judge", "change", "low", "high", "queries"]
    title = f"systems by the labels of {_versus(judge, other)}; change: second less first"
    yield Table([*heads, "verdict", "second verdict"], rows, 2, title=title)
    rows = [
        [
            row["metric"],
            *(metric_value(row[name]) for name in ("kendall_tau", "spearman", "rbo")),
            f"{row['n_turned']:,} of {row['n_verdicts']:,}",
        ]
        for row in orders
    ]
    yield Table(["metric", "kendall tau", "spearman", "rbo", "verdicts turned"], rows, 1)


def _cells(row: Row, names: tuple[str, ...]) -> list[str]:
    """Numbers of a segment, and its pairs."""
    return [*(metric_value(row[name]) for name in names), f"{row['n_pairs']:,}"]


def _versus(judge: str, other: str) -> str:
    return f"{printable(judge)}, {printable(other)}"


def _is_of(row: Row, judge: str, other: str) -> bool:
    return (row["judge"], row["other_judge"]) == (judge, other)
