"""trec_eval's printed numbers on real runs: every query and mean, every measure that both have.

The preset `trec_eval` is trec_eval 10 with `-c`. Two sets of its outputs lie beside the checkout
(the commands are in the README of that folder):

- robust03: six runs of TREC 2003, from one without a tie to one of nothing but ties; `-c -q`.
- trec_eval: its own test files. `out.test.a` and `out.test.aq` were made without `-c`, which
  changes nothing, since their run answers all three queries; `out.test.aqc` was made with it,
  from a run that misses one of them.

trec_eval prints 4 decimals, so a printed number is right to half of the last one. How many
numbers are compared is asserted: none can get lost in silence.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import sqlmetrics as sm

ROUNDING = 5e-5
BINARY = 1e-12  # the printed decimal has no exact float

MEAN = "all"
COUNTS = ("num_ret", "num_rel", "num_rel_ret")
SUCCESS = ("success_1", "success_5", "success_10")
CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)

ROBUST_RUNS = ("InexpC2", "MU03rob01", "NLPR03vb10", "pircRBa1", "rutcor03100", "uic0301")
ROBUST_MEASURES = (
    *("map", "map_cut_10", "map_cut_100", "recip_rank", "Rprec", *SUCCESS, *COUNTS),
    *("ndcg", "ndcg_cut_5", "ndcg_cut_10", "ndcg_cut_20", "ndcg_cut_100"),
    *("P_5", "P_10", "P_100", "recall_10", "recall_100", "recall_1000"),
)
TEST_MEASURES = (
    *("map", "recip_rank", "Rprec", "ndcg", "num_q", *SUCCESS, *COUNTS),
    *(f"{name}_{k}" for name in ("map_cut", "ndcg_cut", "P", "recall") for k in CUTOFFS),
)

Cells = Mapping[tuple[str, str], float]  # (measure, query or MEAN) -> value


@pytest.mark.parametrize("run", ROBUST_RUNS)
def test_robust03(run: str, shared: Path) -> None:
    folder = shared / "robust03"
    printed = {
        (measure, query): float(value)
        for name, measure, query, value in robust03_output(folder)
        if name == run and measure in ROBUST_MEASURES
    }
    computed = evaluated(folder / f"{run}.txt.gz", folder / "qrels.txt.gz", ROBUST_MEASURES)
    assert compared(computed, printed) == 22 * (100 + 1)  # measures x (queries + their mean)


@pytest.mark.parametrize(
    ("run", "output", "count"),
    [
        ("results.test", "out.test.a", 47),  # the means of 46 measures, and num_q
        ("results.test", "out.test.aq", 46 * (3 + 1) + 1),
        ("results.trunc", "out.test.aqc", 46 * (3 + 1) + 1),
    ],
)
def test_own_test_files(run: str, output: str, count: int, shared: Path) -> None:
    folder = shared / "trec_eval"
    printed = {
        (measure, query): float(value)
        for measure, query, value in own_output(folder / output)
        if measure in TEST_MEASURES
    }
    computed = evaluated(folder / run, folder / "qrels.test", TEST_MEASURES)
    assert compared(computed, printed) == count


def test_the_tables_hold_all_that_both_have(shared: Path) -> None:
    robust = {measure for _, measure, _, _ in robust03_output(shared / "robust03")}
    own = {measure for measure, _, _ in own_output(shared / "trec_eval" / "out.test.aq")}
    assert set(filter(is_ours, robust)) == set(ROBUST_MEASURES)
    assert set(filter(is_ours, own)) == set(TEST_MEASURES)


def robust03_output(folder: Path) -> Iterator[list[str]]:
    """Rows (run, measure, query, value)."""
    with gzip.open(folder / "expected_trec_eval.csv.gz", "rt") as lines:
        next(lines)
        yield from csv.reader(lines)


def own_output(path: Path) -> Iterator[list[str]]:
    """Rows (measure, query, value), as trec_eval prints them."""
    return map(str.split, path.read_text().splitlines())


def is_ours(measure: str) -> bool:
    try:
        sm.parse(measure)
    except sm.SpecError:
        return False
    return True


def evaluated(run: Path, qrels: Path, measures: tuple[str, ...]) -> Cells:
    """Our numbers, asked for in trec_eval's own spelling."""
    result = sm.evaluate(run, qrels, measures, preset="trec_eval")
    columns = {measure: result.spec.measure(measure).column for measure in measures}
    cells = {
        (measure, row["query_id"]): row[column]
        for row in result.per_query().to_pylist()
        for measure, column in columns.items()
    }
    return cells | {(measure, MEAN): result[measure] for measure in measures}


def compared(computed: Cells, printed: Cells) -> int:
    """How many numbers were compared; fails, and shows them, if some do not agree."""
    wrong = {
        cell: (computed[cell], value)
        for cell, value in printed.items()
        if computed[cell] != pytest.approx(value, rel=0, abs=ROUNDING + BINARY)
    }
    assert not wrong
    return len(printed)
