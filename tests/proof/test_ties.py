"""ties=average against its definition: the mean over all orders of the equal scores."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, permutations, product
from typing import Any

import pyarrow as pa
import pytest
from marked import by_turns, first
from memory import evaluate
from worlds import same

import sqlmetrics as sm

pytestmark = by_turns(0.4)

METRICS = [
    "cg@2", "dcg@2", "dcg(gain=binary, rel=2)@2", "dcg(gain={1: 2, 2: 1, 3: 5})@3",
    "ndcg@3", "ndcg", "ndcg(ideal=returned)@3", "ndcg(ideal=shown_at_k)@3", "ndcg(discount=ln)@3",
    "ndcg(gain=binary, ideal=all_k)@4", "recall@2", "recall(recall_denominator=shown)@2",
    "recall(recall_denominator=min_k_r)@2", "recall(rel=2)@2", "precision@2",
    "precision(precision_denominator=returned)@4", "precision(precision_denominator=min_k_r)@4",
    "f1@3", "rprec", "judged@2", "num_rel_ret@3", "num_judged@1", "num_ret@2", "num_rel",
    "ap", "ap@3", "ap(rel=2)@3", "ap(ap_denominator=min_k_r)@2", "ap(ap_denominator=k)@2",
    "ap(ap_denominator=min_r_returned)@2", "ap(ap_denominator=shown)@2",
    "mrr", "mrr@2", "mrr(rel=2)@4", "mrr(rr_of=all)", "hit@2", "hit@1", "first_rank", "mean_rank",
]  # fmt: skip

Row = dict[str, Any]


def lists(seed: int) -> dict[str, dict[str, float]]:
    """Short lists of few different scores: query -> item -> score."""
    chance = random.Random(seed)
    lengths = [1, 2, 3, 4, 5, 6] * 3
    return {
        f"q{number}": {f"i{item}": float(chance.randint(0, 2)) for item in range(length)}
        for number, length in enumerate(lengths)
    }


def labels(seed: int) -> list[Row]:
    """Labels of some items, ranked or not; some queries have nothing relevant."""
    chance = random.Random(seed)
    return [
        {"query_id": query, "item_id": f"i{item}", "grade": float(chance.choice([0, 0, 1, 2, 3]))}
        for query in lists(seed)
        for item in chance.sample(range(8), chance.randint(1, 6))
    ]


def orders(items: dict[str, float]) -> Iterator[list[str]]:
    """Every order of a list that its scores allow."""
    best_first = sorted(items, key=lambda item: -items[item])
    groups = [list(group) for _, group in groupby(best_first, key=lambda item: items[item])]
    for order in product(*map(permutations, groups)):
        yield [item for group in order for item in group]


def values(result: sm.Result) -> dict[tuple[str, str], list[float | None]]:
    """Query and metric -> the values under all systems."""
    numbers = defaultdict(list)
    for row in result.per_query().to_pylist():
        for text in METRICS:
            numbers[row["query_id"], text].append(row[result.spec.measure(text).column])
    return numbers


@by_turns(1)
@pytest.mark.parametrize("seed", first(1, range(3)))
def test_the_average_is_the_mean_over_all_orders(seed: int) -> None:
    scored = [
        {"query_id": query, "item_id": item, "score": score}
        for query, items in lists(seed).items()
        for item, score in items.items()
    ]
    ordered = [
        {"system": str(number), "query_id": query, "item_id": item, "rank": rank}
        for query, items in lists(seed).items()
        for number, order in enumerate(orders(items))
        for rank, item in enumerate(order, start=1)
    ]
    truth = pa.Table.from_pylist(labels(seed))
    average = values(
        evaluate(pa.Table.from_pylist(scored), truth, METRICS, ties="average", cell="all orders")
    )
    one_by_one = values(
        evaluate(
            pa.Table.from_pylist(ordered),
            truth,
            METRICS,
            rank="rank",
            system="system",
            average_over="common",
            cell=f"one by one {seed}",
        )
    )
    wrong = []
    for text in METRICS:
        for query, items in lists(seed).items():
            expected = _mean(one_by_one[query, text], sum(1 for _ in orders(items)))
            (got,) = average[query, text]
            close = math.isclose(got or 9, expected or 7, abs_tol=1e-12)
            if not same(got, expected) and not close:
                wrong.append((text, query, got, expected))
    assert wrong == []


def _mean(numbers: list[float | None], orders_there_are: int) -> float | None:
    """The mean of the values; a system without this order has NULL, and so has an undefined one."""
    defined = [number for number in numbers if number is not None]
    assert len(defined) in (0, orders_there_are)
    return math.fsum(defined) / len(defined) if defined else None


def test_a_long_tie_is_exact() -> None:
    """1,000 items with one score, 10 of them relevant: the closed forms, by hand."""
    run = pa.table({"query_id": ["q"] * 1000, "item_id": [str(i) for i in range(1000)],
                    "score": [1.0] * 1000})  # fmt: skip
    truth = pa.table({"query_id": ["q"] * 10, "item_id": [str(i) for i in range(10)],
                      "grade": [1.0] * 10})  # fmt: skip
    result = evaluate(run, truth, ["hit@100", "mrr", "recall@100", "first_rank"], ties="average")
    none_of_100 = math.comb(990, 100) / math.comb(1000, 100)
    first = [math.comb(1000 - rank, 9) / math.comb(1000, 10) for rank in range(1, 992)]
    assert result["hit@100"] == pytest.approx(1 - none_of_100, rel=1e-12)
    assert result["mrr"] == pytest.approx(
        math.fsum(chance / rank for rank, chance in enumerate(first, start=1)), rel=1e-12
    )
    assert result["recall@100"] == pytest.approx(0.1, rel=1e-12)
    assert result["first_rank"] == pytest.approx(1001 / 11, rel=1e-12)


BOUNDED = ["ndcg@3", "recall@2", "mrr", "ap", "hit@2", "precision@3"]


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_best_and_worst_bound_every_order(seed: int) -> None:
    run = pa.Table.from_pylist(
        [
            {"query_id": query, "item_id": item, "score": score}
            for query, items in lists(seed).items()
            for item, score in items.items()
        ]
    )
    truth = pa.Table.from_pylist(labels(seed))
    rules = ["worst", "id_asc", "id_desc", "input_order", "average", "best"]
    results = {
        rule: evaluate(run, truth, BOUNDED, ties=rule, cell=f"{rule} {seed}") for rule in rules
    }
    columns = [measure.column for measure in results["best"].measures]
    wrong = []
    for rows in zip(*(results[rule].per_query().to_pylist() for rule in rules), strict=True):
        for column in columns:
            worst, *middle, best = (row[column] for row in rows)
            if best is not None:
                between = all(worst - 1e-12 <= other <= best + 1e-12 for other in middle)
                wrong += [] if between else [(column, rows[0]["query_id"], worst, middle, best)]
    assert wrong == []


# -- the audit ---------------------------------------------------------------------------

RUN = pa.table(
    {
        "query_id": ["p", "p", "p", "q", "q"],
        "item_id": ["a", "b", "c", "d", "e"],
        "score": [2.0, 2.0, 1.0, 2.0, 1.0],
    }
)
TRUTH = pa.table({"query_id": ["p", "q"], "item_id": ["b", "d"], "grade": [1, 1]})


def test_the_audit_counts_ties_and_bounds_each_metric() -> None:
    spec = sm.evaluate(RUN, TRUTH, ["mrr", "hit@1", "first_rank@2"]).spec
    audit = sm.tie_audit(spec)
    assert audit.counts.to_pylist() == [
        {"system": "rankings", "n_lists": 2, "n_tied_lists": 1, "n_rows": 5, "n_tied_rows": 2}
    ]
    rows = {row.pop("metric"): row for row in audit.metrics.to_pylist()}
    numbers = ("worst", "average", "value", "best", "spread")
    assert [rows["mrr"][name] for name in numbers] == [0.75, 0.875, 0.75, 1.0, 0.25]
    assert [rows["hit@1"][name] for name in numbers] == [0.5, 0.75, 0.5, 1.0, 0.5]
    assert [rows["first_rank@2"][name] for name in numbers] == [1.5, None, 1.5, 1.0, 0.5]


def test_the_audit_reads_as_tables() -> None:
    text = repr(sm.tie_audit(sm.evaluate(RUN, TRUTH, "mrr").spec))
    assert "1 of 2" in text
    assert "2 of 5" in text
    assert ["rankings", "mrr", "0.7500", "0.8750", "0.7500", "1.0000", "0.2500"] in [
        line.split() for line in text.splitlines()
    ]


def test_the_audit_takes_what_refuses_ties() -> None:
    unique = RUN.set_column(2, "score", pa.array([3.0, 2.0, 1.0, 2.0, 1.0]))
    spec = sm.evaluate(unique, TRUTH, "mrr", ties="error").spec
    assert sm.tie_audit(spec).metrics["spread"].to_pylist() == [0.0]


def test_the_audit_tells_systems_and_days_apart() -> None:
    run = pa.concat_tables(
        [
            RUN.append_column("system", pa.array([system] * 5))
            .append_column("day", pa.array([day] * 5))
            .set_column(2, "score", pa.array(scores))
            for system, day, scores in (
                ("new", "2024-01-01", [2.0, 2.0, 1.0, 2.0, 1.0]),
                ("old", "2024-01-01", [1.0, 2.0, 3.0, 2.0, 1.0]),
                ("old", "2024-01-02", [1.0, 1.0, 1.0, 1.0, 1.0]),
            )
        ]
    )
    spec = sm.evaluate(run, TRUTH, "mrr", system="system", date="day", average_over="common").spec
    audit = sm.tie_audit(spec)
    assert audit.counts["n_tied_lists"].to_pylist() == [1, 2]
    spreads = {
        (str(row["metric_date"]), row["system"]): row["spread"] for row in audit.metrics.to_pylist()
    }
    assert spreads["2024-01-01", "new"] == 0.25
    assert spreads["2024-01-01", "old"] == 0
    assert spreads["2024-01-02", "old"] == pytest.approx((2 / 3 + 1 / 2) / 2)
