"""Rank-biased overlap with ties is what its authors' file says.

`tied_rbo.csv` has rows of rbo/test.csv of github.com/julian-urbano/sigir2024-rbo: two lists, of
which items in parentheses are tied, p, and what the authors' implementation gives.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pyarrow as pa
import pytest
from marked import by_turns
from memory import evaluate

from sqlmetrics.proof.reference import tied_rbo

EXACT = 1e-12
BOUNDS = {"ext": "extrapolated", "min": "min", "max": "max", "res": "residual"}
VALUES = [(ties, bound) for ties in "wab" for bound in BOUNDS]
Groups = list[list[str]]

with Path(__file__).with_name("tied_rbo.csv").open(encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


def groups(ranking: str) -> Groups:
    """The items of a ranking, best first, those in parentheses together."""
    return [tie.strip("()").split() for tie in re.findall(r"\([^)]*\)|\S+", ranking)]


def test_the_reference_is_the_authors() -> None:
    for row in ROWS:
        x, y, p = groups(row["x"]), groups(row["y"]), float(row["p"])
        for ties, bound in VALUES:
            value = tied_rbo(y, x, p=p, rbo_ties=ties, rbo_bound=BOUNDS[bound])
            assert value == pytest.approx(float(row[f"{ties}.{bound}"]), abs=EXACT), row


@by_turns(3)
def test_the_sql_is_the_authors() -> None:
    for row in ROWS[::4]:
        lists = {"prod": groups(row["x"]), "new": groups(row["y"])}
        rankings = [
            {"system": system, "query_id": "q", "item_id": item, "score": -rank}
            for system, ranking in lists.items()
            for rank, tie in enumerate(ranking)
            for item in tie
        ]
        text_by_value = {
            (ties, bound): f"rbo_{ties}(p={row['p']}, rbo_bound={BOUNDS[bound]})"
            for ties, bound in VALUES
        }
        result = evaluate(
            pa.Table.from_pylist(rankings),
            pa.table({"query_id": ["q"], "item_id": ["i1"], "grade": [1]}),
            [*text_by_value.values()],
            cell=f"{row['x']} {row['y']}",
            system="system",
            baseline="prod",
        )
        values = next(r for r in result.per_query().to_pylist() if r["system"] == "new")
        for (ties, bound), text in text_by_value.items():
            value = values[result.spec.measure(text).column]
            assert value == pytest.approx(float(row[f"{ties}.{bound}"]), abs=EXACT), text
