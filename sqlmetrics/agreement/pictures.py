"""The pictures of judges on a report: how far they agree, whom they favour, and what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlmetrics.comparison.page.charts import Chart
from sqlmetrics.comparison.page.picture import Picture, rows_left_out, systems_left_out
from sqlmetrics.comparison.page.words import Words, number, signed
from sqlmetrics.plan.summary import ALL
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    from sqlmetrics.agreement.agreement import Agreement

MOST_PAIRS = 8
"""So many pairs of judges are drawn."""

MOST_SYSTEMS = 24
"""So many systems are drawn."""

DRAWN = ("agreement", "fleiss_kappa", "alpha_ordinal", "ac2_quadratic")
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
        if row["coefficient"] in DRAWN and row["value"] is not None
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


def _interval(row: Row, prefix: str, written: Callable[[float], str], words: Words) -> str:
    low, high = row[f"{prefix}_low"], row[f"{prefix}_high"]
    return "-" if low is None else words("page.to", low=written(low), high=written(high))


def _judges(row: Row, words: Words) -> str:
    """The two judges of a row, or all of them."""
    if row["judge"] == ALL:
        return words("judges.all")
    return f"{row['judge']}, {row['other_judge']}"
