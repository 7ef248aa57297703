"""Grades of a sheet into a file of labels: what is new, what was known, what disagrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.annotation import graded_sheet, label_file
from sqlmetrics.annotation.graded_sheet import GradedSheet, Key
from sqlmetrics.annotation.sheet import ASSESSOR
from sqlmetrics.catalog.option import plain
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.arguments import listed
from sqlmetrics.evaluation.checks.problem import Problem

CONFLICTS = ("error", "keep")
"""What to do if a sheet and the labels disagree: refuse it, or keep the old grades."""

NAMES = {"metric_date": "date", "query_id": "query", "item_id": "item", ASSESSOR: "judge"}
"""The columns of a sheet, by the roles that the labels' columns have."""


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    Attributes:
        n_before: Rows that the labels had.
        n_added: Labels that are new.
        n_known: Rows of the sheet that the labels had already, with the same grade.
        n_kept: Rows whose grade the labels have otherwise, and keep.
        n_ungraded: Rows without a grade.
        n_pooled: Those of them that have a label now that says so.
    """

    n_before: int
    n_added: int
    n_known: int
    n_kept: int
    n_ungraded: int
    n_pooled: int = 0


POOLED = -1.0
"""The grade of an item that is in the pool and was not graded, as TREC writes it."""


def add(
    sheets: str | Sequence[str],
    labels: str,
    columns: Mapping[str, str],
    *,
    conflicts: str = "error",
    new: bool = False,
    pooled: bool = False,
) -> ImportReport:
    """Add the grades of sheets to a file of labels, all of them or none.

    If a sheet says who graded, so do the labels, if they are new or have a column for it.

    Args:
        sheets: The graded sheet, or several.
        labels: The file of labels, CSV or Parquet.
        columns: The labels' columns for `query`, `item`, `grade`, if the sheet has days `date`,
            and if it says who graded `judge`.
        conflicts: One of CONFLICTS.
        new: Whether the file of labels is to be made.
        pooled: Whether rows without a grade become labels of the grade POOLED.

    Raises:
        InputError: If the sheet is wrong, or disagrees with the labels.
        SpecError: If the file of labels cannot be read or written.
    """
    graded = graded_sheet.read_all(listed(sheets))
    if "metric_date" in graded.ids and "date" not in columns:
        raise SpecError("the sheet has days; name the day column of the labels with --date")
    names = [columns[NAMES[name]] for name in graded.ids if name != ASSESSOR]
    file = label_file.opened(labels, names, columns["grade"], new=new)
    if graded.has_assessors and file.has_column(columns["judge"]):
        file = file.with_ids((*names, columns["judge"]))
        if pooled:
            raise SpecError(
                f"--pooled is for labels with one grade a pair, and {labels!r} says who graded; "
                "combine the grades first"
            )
    elif graded.has_assessors:
        graded = graded.anonymous(labels)
    rows = [] if new else file.rows()
    existing_grades: dict[Key, set[float | str]] = {}
    for key, grade in rows:
        existing_grades.setdefault(key, set()).add(_number(grade))
    differing = [key for key, g in graded.grades.items() if existing_grades.get(key, {g}) != {g}]
    if differing and conflicts == "error":
        raise InputError(_disagreeing(labels, graded, existing_grades, differing))
    fresh = {key: grade for key, grade in graded.grades.items() if key not in existing_grades}
    unmarked = {*existing_grades, *graded.grades} if pooled else {*graded.ungraded}
    marks = {key: POOLED for key in graded.ungraded if key not in unmarked}
    if fresh or marks or new:
        file.grow({**fresh, **marks})
    n_known = len(graded.grades) - len(fresh) - len(differing)
    n_ungraded = sum(key not in marks for key in graded.ungraded)
    return ImportReport(len(rows), len(fresh), n_known, len(differing), n_ungraded, len(marks))


def _disagreeing(
    labels: str,
    graded: GradedSheet,
    existing_grades: Mapping[Key, set[float | str]],
    keys: list[Key],
) -> Problem:
    rows = [
        (
            *key,
            " and ".join(
                sorted(old if isinstance(old, str) else plain(old) for old in existing_grades[key])
            ),
            plain(graded.grades[key]),
        )
        for key in keys[:3]
    ]
    names = (*graded.ids, "in the labels", "in the sheet")
    message = f"labels that have another grade in the sheet: {len(keys):,}"
    remedy = "decide which grade is right; --conflicts keep keeps the grade of the labels"
    return Problem(repr(labels), message, len(keys), names, rows, remedy)


def _number(grade: str) -> float | str:
    try:
        return float(grade)
    except ValueError:
        return grade
