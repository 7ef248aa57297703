"""What the input checks look for: one row a problem, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.conventions import Table
from sqlmetrics.plan import Plan
from sqlmetrics.shape import segment
from sqlmetrics.stage import equal
from sqlmetrics.template import number

LARGEST = 1.7976931348623157e308
LARGEST_FLOAT32 = 3.4028234e38


@dataclass(frozen=True)
class RowCheck:
    """A condition that no row of a table may meet.

    Attributes:
        role: The column it is about.
        condition: SQL over {column}, and {number} for the column read as a number.
        problem: What is wrong with the rows that meet it.
        remedy: What to do.
    """

    role: str
    condition: str
    problem: str
    remedy: str


@dataclass(frozen=True)
class GroupCheck:
    """A query that must return nothing; its first column is how many rows it has in all.

    Attributes:
        table: The table it is about.
        template: The file under `templates/checks`.
        names: The columns that it returns after the count.
        problem: What is wrong; the count stands behind it.
        remedy: What to do.
        view: What the template prints.
    """

    table: str
    template: str
    names: tuple[str, ...]
    problem: str
    remedy: str
    view: Mapping[str, Any]


def _null(role: str) -> RowCheck:
    return RowCheck(role, "{column} is null", "is NULL", "leave these rows out or fill them in")


def _unreadable(role: str, kind: str = "number") -> RowCheck:
    condition = f"{{column}} is not null and {{{kind}}} is null"
    return RowCheck(role, condition, f"is no {kind}", f"make it a {kind}")


def _outside(role: str, condition: str, problem: str, remedy: str) -> RowCheck:
    return RowCheck(role, "{number} is not null and " + condition, problem, remedy)


_FINITE = f"not ({{number}} between {-LARGEST!r} and {LARGEST!r})"

_TREC = "no .parquet, .csv, .tsv: read as TREC"
_NOT_WHOLE = "not ({number} between -9e15 and 9e15 and {number} = floor({number}))"

ROW_CHECKS: Mapping[str, tuple[RowCheck, ...]] = {
    "rankings": (
        RowCheck(
            "run line", "{column} < 6", "is below 6", f"{_TREC}: query Q0 item rank score run"
        ),
        _null("query"),
        _null("item"),
        _null("system"),
        _null("date"),
        _unreadable("date", "date"),
        _null("score"),
        _unreadable("score"),
        _outside("score", "isnan({number})", "is NaN", "score these rows or leave them out"),
        _null("rank"),
        _unreadable("rank"),
        _outside("rank", _NOT_WHOLE, "is no whole number", "rank the items 1, 2, 3, ..."),
        _null("weight"),
        _unreadable("weight"),
        _outside(
            "weight",
            f"({_FINITE} or {{number}} < 0)",
            "is negative or not finite",
            "weights are 0 or more",
        ),
    ),
    "labels": (
        RowCheck(
            "qrels line", "{column} < 4", "is below 4", f"{_TREC}: query iteration item grade"
        ),
        _null("query"),
        _null("item"),
        _null("date"),
        _unreadable("date", "date"),
        _null("grade"),
        _unreadable("grade"),
        _outside("grade", _FINITE, "is NaN or infinite", "give it a finite grade"),
        _outside(
            "grade",
            "{number} < 0 and {number} >= " + repr(-LARGEST),
            "is negative",
            "make bad items 0, and leave out rows that mean 'judged, but unknown'",
        ),
    ),
}


def row_checks(plan: Plan, table: str) -> list[RowCheck]:
    """The conditions for the columns that a table has."""
    rows = list(ROW_CHECKS[table])
    measures = [measure for measure in plan.measures if "gain" in measure.metric.options]
    gains = dict.fromkeys(plan.spec.value(measure, "gain") for measure in measures)
    if table == "labels" and "exp" in gains:
        too_large = "is too large for gain=exp"
        rows.append(
            _outside(
                "grade",
                f"{{number}} > 1000 and {{number}} <= {LARGEST!r}",
                too_large,
                "use gain=linear",
            )
        )
    if table == "rankings" and plan.spec.options["score_precision"] == "float32":
        too_wide = f"abs({{number}}) between {LARGEST_FLOAT32!r} and {LARGEST!r}"
        rows.append(
            _outside("score", too_wide, "does not fit 32 bits", "use score_precision=double")
        )
    for gain in gains:
        if table == "labels" and isinstance(gain, Table):
            known = ", ".join(number(grade) for grade in (0, *gain))
            outside = f"has no gain in the table {gain}"
            rows.append(_outside("grade", f"{{number}} not in ({known})", outside, "add it"))
    return [row for row in rows if row.role in plan.shape.columns[table]]


def group_checks(plan: Plan) -> Iterator[GroupCheck]:
    """The groups of rows that the spec does not allow."""
    options, names = plan.spec.options, plan.shape.names
    keys, label_keys = plan.shape.keys, plan.shape.label_keys
    if options["duplicate_rankings"] == "error":
        yield _repeated("rankings", names, keys, "duplicate_rankings=best_score")
    if options["duplicate_labels"] == "error":
        yield _repeated("labels", names, label_keys, "duplicate_labels=max_grade")
    if "rank" in plan.shape.columns["rankings"] and options["duplicate_rankings"] == "error":
        yield GroupCheck(
            "rankings",
            "ranks",
            (*keys, "lowest", "highest", "rows"),
            "lists that are not ranked 1, 2, ... n without a gap",
            "give a score instead, or renumber the ranks",
            {"keys": keys, **names},
        )
    if options["ties"] == "error" and "score" in plan.shape.columns["rankings"]:
        yield GroupCheck(
            "rankings",
            "ties",
            (*keys, "score", "rows"),
            "equal scores in one list",
            "choose their order: ties=id_asc, id_desc or input_order",
            {"keys": keys, **names},
        )
    for name, column in _facts(plan):
        yield GroupCheck(
            "rankings",
            "varying",
            (*plan.shape.query_keys, "one value", "another"),
            f"queries within which {name} varies",
            "it must belong to the query as a whole",
            {"keys": plan.shape.query_keys, "column": column, **names},
        )
    yield GroupCheck(
        "both tables",
        "common",
        ("query_id in rankings", "query_id in labels"),
        "queries with a ranking and a label",
        "compare the ids: type, case, spaces, leading zeros",
        {"on": equal(names["labels"], names["rankings"], label_keys), **names},
    )


def _repeated(table: str, names: Mapping[str, str], keys: Sequence[str], policy: str) -> GroupCheck:
    return GroupCheck(
        table,
        "repeated",
        (*keys, "item_id", "rows"),
        "items that stand more than once under the same query",
        f"remove the repeated rows, or choose {policy}",
        {"table": names[table], "keys": (*keys, "item_id")},
    )


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    for name in plan.spec.by:
        yield name, segment(name)
    if "weight" in plan.shape.columns["rankings"]:
        yield plan.shape.columns["rankings"]["weight"], "weight"
