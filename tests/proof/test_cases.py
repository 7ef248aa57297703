"""Rankings small enough to compute by hand: SQL = reference = the arithmetic written out.

The tables are in `cases/*.toml`. A case has

lists, labels
    Lines of a table with bars. `items` holds `id` or `id:number`, best first: a score
    (a rank if the case has `rank = true`, a grade for labels) that counts down from the
    number of items, up from 1, or is 1. `group` is what the items of a line of labels are
    graded for. Odd characters of ids are percent-encoded,
    `q1..9` are nine queries alike, columns of other names are segments, an empty cell is
    NULL. A text without a bar is the items of one query, q. Or `data`, which names both.
items
    Lines of the items table: `item`, and `category`, `popularity` or `vector`, whose numbers
    have spaces between them. A text without a bar is the ids of the catalogue.
why
    The case in words.
expect
    Metric -> what it must be. Arithmetic, `1/3 = .3333` where digits were published:
    the left side is compared, once it rounds to the right one; `undefined` is NULL,
    `absent` a row that must not be there. One text stands for the mean, and for q;
    `[value, n_queries, n_skipped, n_missing]` for the mean; a table says each place:
    `[date/][system/]` and a query, `mean`, or `segment=value`.
refused
    Instead of `expect`: what the error must say, for `metrics`.
prints
    Lines that the printed result must have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pytest
from hand_cases import ABSENT, ANSWERED, CASES, Case, Row
from marked import sliced
from memory import database
from worlds import (
    Figure,
    GroupKey,
    Numbers,
    added,
    by_reference,
    by_sql,
    differences,
    proof_of,
    same,
)

import sqlmetrics as sm
from sqlmetrics.proof.reference_evaluation import Evaluation
from sqlmetrics.proof.verify import compare

MOST = 60
"""Metrics of one evaluation; more would cost more than another."""


@dataclass(frozen=True, eq=False)
class Together:
    """Cases by the same policies, in one evaluation: each is a segment of its own."""

    cases: Sequence[Case]

    def __str__(self) -> str:
        suffix = f" and {len(self.cases) - 1} more" if len(self.cases) > 1 else ""
        return f"{self.cases[0]}{suffix}"

    @cached_property
    def result(self) -> sm.Result:
        """All of them by SQL."""
        first, *rest = self.cases
        if not rest:
            return first.evaluated()
        tables: tuple[list[Row], list[Row]] = [], []
        for case in self.cases:
            for rows, case_rows in zip(tables, case.tables(), strict=True):
                rows += [row | {"query": f"{case} {row['query']}"} for row in case_rows]
        query_names = {row["query"]: row["query"] for rows in tables for row in rows}
        queries = pa.table(
            {"query": list(query_names), "case": [self._case_of(query) for query in query_names]}
        )
        texts = dict.fromkeys(text for case in self.cases for text in case.metric_texts)
        options = {"metrics": list(texts), "queries": queries, "by": "case"}
        return first.evaluated(tables, check=True, **options)

    @cached_property
    def proof(self) -> Evaluation:
        """All of them by the reference."""
        return proof_of(self.result, database())

    def _case_of(self, query: str) -> str:
        return max((case.name for case in self.cases if query.startswith(f"{case} ")), key=len)

    def apart(self, numbers: Numbers) -> Mapping[str, Numbers]:
        """The numbers of each case, as if it were alone."""
        if len(self.cases) == 1:
            return {str(self.cases[0]): numbers}
        by_case: dict[str, dict[Any, Figure]] = {str(case): {} for case in self.cases}
        for ((*run, name, value), measure), number in numbers.items():
            if name == "query":
                case = self._case_of(value)
                by_case[case][(*run, name, value.removeprefix(f"{case} ")), measure] = number
            elif name == "case" and value in by_case:
                by_case[value][(*run, "all", "all"), measure] = number
        return by_case


def _of_this_run() -> list[Any]:
    """All evaluations, of those of presets a slice: `test_presets` has each of them too."""
    evaluations = list(_together())
    presets = [evaluation for evaluation in evaluations if evaluation.cases[0].preset != "house"]
    return [
        *(evaluation for evaluation in evaluations if evaluation not in presets),
        *sliced("preset", 0.4, presets),
    ]


def _together() -> Iterator[Together]:
    """All cases that are answered, a few in each evaluation."""
    alike: dict[str, list[Case]] = {}
    for case in ANSWERED:
        alike.setdefault(case.policies or case.name, []).append(case)
    for cases in alike.values():
        chosen: list[Case] = []
        for case in cases:
            chosen.append(case)
            if len({text for member in chosen for text in member.metric_texts}) > MOST:
                yield Together(chosen)
                chosen = []
        if chosen:
            yield Together(chosen)


# -- the notation -----------------------------------------------------------------------


def hand(text: str) -> float | None:
    """What a piece of arithmetic comes to, sure that it rounds to the digits behind `=`.

    >>> hand("1/log2(4) + 1/3 = .83")
    0.8333333333333333
    """
    formula, equals, printed = text.partition("=")
    if formula.strip() == "undefined":
        return None
    namespace = {
        "__builtins__": {},
        "log2": math.log2,
        "log": math.log,
        "nan": math.nan,
        "pi": math.pi,
    }
    value = float(eval(formula, namespace))  # our own files, no builtins
    if equals:
        digits = len(printed.strip().partition(".")[2])
        assert f"{value:.{digits}f}" == f"{float(printed):.{digits}f}", text
    return value


# -- the two sides ----------------------------------------------------------------------


def _misses(case: Case, spec: sm.Spec, numbers: Numbers) -> Iterator[str]:
    """What differs from the hand, one line each."""
    figures = {(_label(key), measure): figure for (key, measure), figure in numbers.items()}
    for text, expected in case.expect.items():
        for label, wanted in _wanted(case, expected).items():
            value, *counts = wanted if isinstance(wanted, list) else [wanted]
            figure = figures.get((label, spec.measure(text)))
            if not _agrees(figure, value, tuple(counts)):
                yield f"{case}: {text} at {label}: {figure}, by hand {wanted}"


def _label(key: GroupKey) -> str:
    """A group as the cases write it: `2024-05-01/new/q1`, `old/mean`, `country=de`."""
    date, system, name, value = key
    last = {"query": value, "all": "mean"}.get(name, f"{name}={value}")
    return "/".join(part for part in (date, system, last) if part)


def _wanted(case: Case, expected: Any) -> Mapping[str, Any]:
    if isinstance(expected, Mapping):
        return expected
    is_one = isinstance(expected, str) and "|" not in case.labels
    return {"mean": expected} | ({"q": expected} if is_one else {})


def _agrees(figure: Figure | None, value: str, counts: tuple[int, ...]) -> bool:
    if figure is None or value == ABSENT:
        return figure is None and value == ABSENT
    return same(figure[0], hand(value)) and (not counts or figure[1] == counts)


# -- the tests --------------------------------------------------------------------------


@pytest.mark.parametrize("together", _of_this_run(), ids=str)
def test_the_sql_the_reference_and_the_hand_agree(together: Together) -> None:
    result, proof = together.result, together.proof
    wrong = [*differences(by_sql(result), by_reference(result, proof))]
    for who, numbers in (("SQL", by_sql(result)), ("reference", by_reference(result, proof))):
        apart = together.apart(numbers)
        for case in together.cases:
            misses = _misses(case, result.spec, apart[str(case)])
            wrong += [f"the {who}, {miss}" for miss in misses]
    assert wrong == []
    assert [
        agreement for agreement in compare(result, proof) if not agreement.largest <= 1e-12
    ] == []


@pytest.mark.parametrize("case", [case for case in CASES if case.refused], ids=str)
def test_the_input_is_refused(case: Case) -> None:
    with pytest.raises(sm.InputError, match=case.refused):
        case.evaluated(check=True)


@pytest.mark.parametrize("case", [case for case in CASES if case.prints], ids=str)
def test_the_printed_result_has_the_lines(case: Case) -> None:
    lines = repr(case.evaluated()).split("\n")
    missing = [
        pattern for pattern in case.prints if not any(re.search(pattern, line) for line in lines)
    ]
    assert missing == []


@pytest.mark.parametrize("case", [case for case in ANSWERED if case.by], ids=str)
def test_segments_add_up_to_all(case: Case) -> None:
    rows = case.evaluated().to_dicts()
    for name in case.by:
        assert added(rows, name) == pytest.approx(added(rows, "all"), rel=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_says_what_it_is_for(case: Case) -> None:
    assert case.why
    assert bool(case.expect) != bool(case.refused)


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    ("got", "wanted", "equal"),
    [
        (None, None, True),
        (None, 0.0, False),
        (0.0, None, False),
        (math.nan, math.nan, True),
        (math.nan, None, False),
        (None, math.nan, False),
        (math.nan, 0.0, False),
        (1 / 3, 1 - 2 / 3, True),
        (0.5, 0.5 + 1e-11, False),
        (1e-300, 0.0, False),
    ],
)
def test_null_never_passes_as_a_number(
    got: float | None, wanted: float | None, equal: bool
) -> None:
    assert same(got, wanted) is equal


@pytest.mark.parametrize("text", ["1/3 = .3334", "1/2 = .4", "2/3 = .66"])
def test_published_digits_are_compared(text: str) -> None:
    with pytest.raises(AssertionError):
        hand(text)
