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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from marked import by_turns, long

import sqlmetrics as sm

ROUNDING = 5e-5
BINARY = 1e-12  # the printed decimal has no exact float

MEAN = "all"
COUNTS = ("num_ret", "num_rel", "num_rel_ret")
SUCCESS = ("success_1", "success_5", "success_10")

ROBUST_RUNS = ("InexpC2", "MU03rob01", "NLPR03vb10", "pircRBa1", "rutcor03100", "uic0301")
ROBUST_MEASURES = (
    *("map", "map_cut_10", "map_cut_100", "bpref", "recip_rank", "Rprec", *SUCCESS, *COUNTS),
    *("ndcg", "ndcg_cut_5", "ndcg_cut_10", "ndcg_cut_20", "ndcg_cut_100"),
    *("P_5", "P_10", "P_100", "recall_10", "recall_100", "recall_1000"),
)

Cells = Mapping[tuple[str, str], float]  # (measure, query or MEAN) -> value


@pytest.mark.parametrize("run", [*map(long, ROBUST_RUNS)])
def test_robust03(run: str, shared: Path) -> None:
    folder = shared / "robust03"
    printed = {
        (measure, query): float(value)
        for name, measure, query, value in robust03_output(folder)
        if name == run and measure in ROBUST_MEASURES
    }
    computed = evaluated(folder / f"{run}.txt.gz", folder / "qrels.txt.gz", ROBUST_MEASURES)
    assert compared(computed, printed) == 23 * (100 + 1)  # measures x (queries + their mean)


@dataclass(frozen=True)
class Output:
    """An output of trec_eval on its own test files.

    Attributes:
        run: The rankings.
        count: How many printed numbers both have.
        qrels: The labels.
        level: The grade from which an item is relevant (-l).
        conventions: What the command says beside.
    """

    run: str
    count: int
    qrels: str = "qrels.test"
    level: int = 1
    conventions: Mapping[str, Any] = field(default_factory=dict)

    def ours(self, printed: str) -> str | None:
        """Our text of a printed measure, None if it is not ours."""
        name = SPELLED.get(printed, printed)
        if not is_ours(name) or (self.level > 1 and name == SPELLED["rbp"]):
            return None
        measure = sm.parse(name)
        metric = measure.metric
        has_level = self.level > 1 and "rel" in metric.parameters and "gain" not in metric.options
        return str(measure.having("rel", self.level) if has_level else measure)


SPELLED = {
    "rbp": "rbp(p=0.9)",  # its p; on several levels it reads numbers that it never set (m_rbp.c)
    "ndcg_1=3,2=9,4=4.5": "ndcg(gain={1: 3, 2: 9, 4: 4.5})",
}

OUTPUTS = {
    "out.test": Output("results.test", 29),
    "out.test.a": Output("results.test", 77),  # the means of 76 measures, and num_q
    "out.test.aq": Output(
        "results.test", 74 * (3 + 1) + 3
    ),  # geometric means are of all queries alone,
    "out.test.aqc": Output("results.trunc", 74 * (3 + 1) + 3),
    "out.test.aqcM": Output("results.trunc", 74 * (3 + 1) + 3, conventions={"depth": 100}),
    "out.test.aql": Output(
        "results.test",
        73 * (3 + 1) + 3,
        qrels="qrels.rel_level",
        level=2,
        conventions={"negative_grades": "unjudged"},
    ),
    "out.test.meas_params": Output("results.test", 17 * (3 + 1)),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_own_test_files(name: str, shared: Path) -> None:
    """Every printed line of a measure that both have."""
    output, folder = OUTPUTS[name], shared / "trec_eval"
    printed = {
        (text, query): float(value)
        for measure, query, value in own_output(folder / name)
        if (text := output.ours(measure))
    }
    texts = tuple(dict.fromkeys(text for text, _ in printed))
    runs = folder / output.run, folder / output.qrels
    assert compared(evaluated(*runs, texts, **output.conventions), printed) == output.count


@by_turns(1.9)
@pytest.mark.parametrize("with_comments", ["run", "qrels", "both"])
def test_comment_lines_change_nothing(with_comments: str, shared: Path, tmp_path: Path) -> None:
    """trec_eval 10 reads over lines with # in runs and qrels; its own test decorates a run so."""
    folder = shared / "trec_eval"
    paths = {"run": folder / "results.trunc", "qrels": folder / "qrels.test"}
    output = OUTPUTS["out.test.aqc"]
    for name, path in paths.items():
        if with_comments in (name, "both"):
            lines = path.read_text().splitlines()
            comments = ("#", "# of a few words", "  # 1 Q0 d 1 2.5 run", "#301 0 d 1", "")
            lines = [
                line
                for number, row in enumerate(["# the first line", *lines])
                for line in ([row] if number % 90 else [comments[number % 5], row])
            ]
            paths[name] = tmp_path / name
            paths[name].write_text("\n".join(lines))
    printed = {
        (text, query): float(value)
        for measure, query, value in own_output(folder / "out.test.aqc")
        if (text := output.ours(measure))
    }
    texts = tuple(dict.fromkeys(text for text, _ in printed))
    assert compared(evaluated(*paths.values(), texts), printed) == output.count


def test_the_table_holds_all_that_both_have(shared: Path) -> None:
    robust = {measure for _, measure, _, _ in robust03_output(shared / "robust03")}
    assert set(filter(is_ours, robust)) == set(ROBUST_MEASURES)


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


def evaluated(run: Path, qrels: Path, measures: tuple[str, ...], **conventions: Any) -> Cells:
    """Our numbers, asked for in trec_eval's own spelling where it has one."""
    result = sm.evaluate(run, qrels, measures, preset="trec_eval", **conventions)
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
