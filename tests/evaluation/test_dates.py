"""Days, systems, segments and the queries table: who is missing when, and what adds up."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from marked import by_turns
from memory import database, evaluate
from pairwise import pairs
from worlds import proof_of

import sqlmetrics as sm
from sqlmetrics.proof.verify import compare

DAYS = [date(2026, 1, day) for day in (1, 2, 3)]
COLUMNS = {"query": "q", "item": "i", "score": "s", "grade": "g", "system": "m", "date": "d"}


def table(rows: list[dict[str, Any]], *columns: str) -> pa.Table:
    """Rows as an Arrow table of some columns."""
    return pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows])


def ranked(
    query: str, day: date, *systems: str, country: str | None = "de"
) -> list[dict[str, Any]]:
    """One list a system: item a, then b."""
    return [
        {"q": query, "i": item, "s": score, "m": system, "d": day, "country": country}
        for system in systems
        for item, score in (("a", 2.0), ("b", 1.0))
    ]


RANKINGS = [
    *ranked("shoes", DAYS[0], "old", "new"),
    *ranked("lamps", DAYS[0], "old"),  # searched on day 1 only, and new is silent
    *ranked("shoes", DAYS[1], "old", "new", country="fr"),
    *ranked("shoes", DAYS[2], "new", country=None),
]
LABELS = [{"q": query, "i": "b", "g": 1} for query in ("shoes", "lamps", "never searched")]


def evaluated(**options: Any) -> sm.Result:
    return evaluate(
        table(RANKINGS, "q", "i", "s", "m", "d", "country"),
        table(LABELS, "q", "i", "g"),
        ["mrr"],
        **(COLUMNS | options),
    )


def counts(result: sm.Result, segment: str = "all") -> dict[tuple[int, str, str], tuple[int, int]]:
    """(day, system, segment's value) -> queries counted, and of them missing."""
    return {
        (row["metric_date"].day, row["system"], row["segment_value"]): (
            row["n_queries"],
            row["n_missing"],
        )
        for row in result.to_dicts()
        if row["segment_name"] == segment
    }


def test_a_query_is_missing_only_on_days_on_which_another_system_has_it() -> None:
    assert counts(evaluated()) == {
        (1, "old", "all"): (2, 0),
        (1, "new", "all"): (2, 1),  # lamps
        (2, "old", "all"): (1, 0),
        (2, "new", "all"): (1, 0),  # lamps was not searched
        (3, "new", "all"): (1, 0),  # old has no row
    }


def test_the_queries_table_says_what_was_searched_too() -> None:
    searched = table([{"q": "lamps", "d": day} for day in DAYS[:2]], "q", "d")
    assert counts(evaluated(queries=searched))[2, "old", "all"] == (2, 1)
    assert (3, "old", "all") not in counts(evaluated(queries=searched))


def test_segments_and_the_unknown_add_up_to_all() -> None:
    result = evaluated(by="country")
    everything, parts = counts(result), defaultdict(lambda: (0, 0))
    for (day, system, _), (queries, missing) in counts(result, "country").items():
        before = parts[day, system, "all"]
        parts[day, system, "all"] = (before[0] + queries, before[1] + missing)
    assert dict(parts) == everything
    # new is silent for lamps on day 1: the country is known from old; day 3 has none
    assert counts(result, "country")[1, "new", "de"] == (2, 1)
    assert counts(result, "country")[3, "new", "(unknown)"] == (1, 0)


def test_a_query_without_a_list_is_a_segment_of_its_own_where_queries_are_segments() -> None:
    lists = {"q": ["shoes", "lamps"], "i": [["a", "b"], []]}
    labels = table(LABELS, "q", "i", "g")
    columns = {"query": "q", "item": "i", "grade": "g", "by": "q"}
    by_segment = counts(evaluate(lists, labels, ["mrr"], **columns), "q")
    assert {value: of for (_, _, value), of in by_segment.items()} == {
        "shoes": (1, 0),
        "lamps": (1, 1),
        "never searched": (1, 1),
    }


def test_segments_and_weights_can_come_from_the_queries_table() -> None:
    queries = table(
        [{"q": "shoes", "tier": "head", "w": 3.0}, {"q": "lamps", "tier": "tail", "w": 1.0}],
        "q",
        "tier",
        "w",
    )
    result = evaluated(queries=queries, by=["tier", "country"], weight="w")
    first = {
        (row["system"], row["segment_value"]): row["value"]
        for row in result.to_dicts()
        if row["metric_date"] == DAYS[0] and row["segment_name"] in ("all", "tier")
    }
    assert first == {
        ("old", "all"): 0.5,
        ("new", "all"): (3 * 0.5 + 1 * 0) / 4,
        ("old", "head"): 0.5,
        ("new", "head"): 0.5,
        ("old", "tail"): 0.5,
        ("new", "tail"): 0.0,
    }


def test_a_query_that_the_queries_table_lacks_has_no_weight() -> None:
    queries = table([{"q": "shoes", "w": 3.0}], "q", "w")
    with pytest.raises(sm.InputError, match="labelled queries without a weight: 2"):
        evaluated(queries=queries, weight="w")


def test_labels_of_a_day_hold_for_that_day() -> None:
    labels = [{"q": "shoes", "i": "a", "g": 1, "d": DAYS[0]}, *LABELS[:0]]
    labels += [{"q": "shoes", "i": "b", "g": 1, "d": DAYS[1]}]
    result = evaluate(
        table(RANKINGS, "q", "i", "s", "m", "d"),
        table(labels, "q", "i", "g", "d"),
        "mrr",
        **COLUMNS,
    )
    values = {(row["metric_date"].day, row["system"]): row["value"] for row in result.to_dicts()}
    assert values == {(1, "old"): 1.0, (1, "new"): 1.0, (2, "old"): 0.5, (2, "new"): 0.5}


def test_a_table_joined_with_its_labels() -> None:
    joined = [
        {"q": "q1", "i": "a", "s": 2.0, "m": "old", "g": None},
        {"q": "q1", "i": "b", "s": 1.0, "m": "old", "g": 1},
        {"q": "q1", "i": "b", "s": 5.0, "m": "new", "g": 1},
        {"q": "q2", "i": "c", "s": 1.0, "m": "new", "g": 0},
    ]
    graded = table(joined, "q", "i", "s", "m", "g")
    columns = {key: name for key, name in COLUMNS.items() if key != "date"}
    result = evaluate(graded, None, ["mrr", "num_rel"], **columns)
    values = {(row["system"], row["metric"]): row["value"] for row in result.to_dicts()}
    assert values == {
        ("old", "mrr"): 0.25,
        ("new", "mrr"): 0.5,
        ("old", "num_rel"): 1.0,
        ("new", "num_rel"): 1.0,
    }


@by_turns(1.4)
def test_where_chooses_rows() -> None:
    assert set(counts(evaluated(where="m = 'old'"))) == {(1, "old", "all"), (2, "old", "all")}
    with pytest.raises(sm.SpecError, match="without a subquery"):
        evaluated(where="m in (select 'old')")
    with pytest.raises(sm.SpecError, match="one condition"):
        evaluated(where="true; drop table x")
    with pytest.raises(sm.SpecError, match="or a comment"):  # which would hide our parenthesis
        evaluated(where="m = 'old' -- only")


@by_turns(1.2)
def test_texts_become_grades() -> None:
    labels = pa.table({"q": ["shoes", "lamps"], "i": ["b", "b"], "g": ["high", "none"]})
    rankings = table(RANKINGS[:6], "q", "i", "s", "m", "d")
    result = evaluate(rankings, labels, "cg", grades={"high": 3, "none": 0}, **COLUMNS)
    assert [row["value"] for row in result.to_dicts()] == [1.5, 1.5]
    with pytest.raises(sm.InputError, match="g has no number in grades in 1 row"):
        evaluate(rankings, labels, "cg", grades={"high": 3}, **COLUMNS)


METRICS = [
    "ndcg@3",
    "ndcg(ideal=shown_at_k)@3",
    "recall@3",
    "ap",
    "judged@3",
    "num_ret",
    "num_rel",
    "num_judged",
    "rprec",
    "f1@2",
    "mean_rank",
    "mrr(average_over=rankings)",
    "recall(average=micro)@2",
    "mrr(average_over=hits)",
    "idcg",
    "dcg(gain={1:9,2:3,3:4})@2",
    "ndcg(gain={1:9,2:3,3:4})@2",
]


def world(chance: random.Random, days: list[date | None]) -> dict[str, list[dict[str, Any]]]:
    """Six queries, some unranked, unlabelled, labelled below 0, or of unknown country."""
    rankings = [
        {"q": query, "i": item, "s": float(chance.randint(1, 4)), "m": system, "d": day}
        for query in "abcdef"
        for day in days
        if chance.random() < 0.7
        for system in ("x", "y")
        if chance.random() < 0.7
        for item in chance.sample("pqrstuvw", chance.randint(1, 7))
    ]
    labels = [{"q": "a", "i": "zz", "g": -1}]
    labels += [
        {"q": query, "i": item, "g": chance.choice([-2, -1, 0, 1, 2, 3])}
        for query in "abcdef"
        if chance.random() < 0.8
        for item in chance.sample("pqrstuvw", chance.randint(1, 6))
    ]
    queries = [
        {
            "q": query,
            "d": day,
            "c": chance.choice(["de", "fr", None]),
            "w": chance.choice([1, 2, 0.5]),
        }
        for query in "abcdef"
        for day in days
    ]
    return {"rankings": rankings, "labels": labels, "queries": queries}


ROWS = pairs(
    dated=[False, True],
    depth=["none", 1, 2, 3],
    unjudged=["nonrelevant", "condensed"],
    negative_grades=["unjudged", "zero"],
    missing=["zero", "drop"],
    absent_systems=["skip", "missing"],
)
"""Days and policies, every two of which meet."""
WORLDS = 60


def together(seeds: Iterable[int], days: list[date | None]) -> dict[str, list[dict[str, Any]]]:
    """Worlds side by side: queries and countries of each have its number before their names."""
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for seed in seeds:
        rows = world(random.Random(seed), days)
        shared_queries = {row["q"] for row in rows["rankings"]} & {
            row["q"] for row in rows["labels"]
        }
        assert shared_queries, (
            "a seed whose world has nothing to evaluate tests nothing: choose another"
        )
        for name, records in rows.items():
            tables[name] += [
                row
                | {"q": f"{seed} {row['q']}"}
                | ({"c": f"{seed} {row['c']}"} if row.get("c") else {})
                for row in records
            ]
    return tables


@by_turns(2.4)
@pytest.mark.parametrize(
    "number", range(len(ROWS)), ids=lambda n: "-".join(map(str, ROWS[n].values()))
)
def test_every_policy_against_the_reference(number: int) -> None:
    """Some worlds by each row of policies; a country of a world is a segment of its own."""
    policies = dict(ROWS[number])
    dated = policies.pop("dated")
    rows = together(range(number, WORLDS, len(ROWS)), list(DAYS) if dated else [None])
    day = ["d"] if dated else []
    columns = {key: name for key, name in COLUMNS.items() if dated or key != "date"}
    result = evaluate(
        table(rows["rankings"], "q", "i", "s", "m", *day),
        table(rows["labels"], "q", "i", "g"),
        METRICS,
        queries=table(rows["queries"], "q", "c", "w", *day),
        weight="w",
        by="c",
        **policies,
        **columns,
    )
    wrong = [
        agreement
        for agreement in compare(result, proof_of(result, database()))
        if agreement.largest > 1e-12
    ]
    assert wrong == []
    assert result.to_dicts()
