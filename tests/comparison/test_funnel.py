"""`funnel`: what each stage loses, beside plain Python, over random worlds and on databases."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import fsum, log2
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, engines, first

import sqlmetrics as sm
from sqlmetrics.engines.database import Database

Row = dict[str, Any]
STAGES = ("recall", "pre-rank", "it's rank")
COUNTS = ("n_queries", "n_missing", "n_relevant", "n_found", "n_kept", "n_lost")
MEANS = ("list_size", "recall", "retention", "lost_share", "ndcg_at_2")


def world(chance: random.Random, *, days: bool) -> tuple[list[Row], list[Row], dict[str, str]]:
    """Rankings, labels and the country of each query: ties, gaps, items that come back."""
    items = [f"i{number}" for number in range(9)]
    queries = [f"q{number}" for number in range(5)] + ["ü 5"]
    countries = {query: chance.choice(["DE", "FR"]) for query in queries}
    rankings: list[Row] = []
    for system in ("a", "b"):
        for day in ("2026-01-01", "2026-01-02") if days else ("",):
            for query in queries[:-1]:
                candidates = chance.sample(items, 8)
                for stage in STAGES:
                    if chance.random() < 0.15:
                        continue  # no list here, and perhaps one behind it
                    for item in {*candidates[: chance.randint(1, 8)], *chance.sample(items, 1)}:
                        row = {"system": system, "stage": stage, "query_id": query}
                        row |= {"item_id": item, "score": chance.choice([0.5, 1.0, 2.0])}
                        row |= {"country": countries[query]} | ({"ds": day} if days else {})
                        rankings.append(row)
                    candidates = candidates[: len(candidates) // 2 + 1]
    labels = [
        {"query_id": query, "item_id": item, "grade": chance.choice([0, 0, 1, 2, 3])}
        for query in queries[1:]
        for item in chance.sample([*items, "never"], chance.randint(1, 6))
    ]
    return rankings, labels, countries


def ndcg(listed: Sequence[Row], grades: Mapping[str, int], k: int) -> float | None:
    """NDCG@k of the house: exponential gains, ties by id."""
    in_order = sorted(listed, key=lambda row: (-row["score"], row["item_id"]))
    top = [grades.get(row["item_id"], 0) for row in in_order[:k]]
    best = sorted(grades.values(), reverse=True)[:k]
    dcg, ideal = (
        fsum((2**grade - 1) / log2(rank + 2) for rank, grade in enumerate(ranked))
        for ranked in (top, best)
    )
    return dcg / ideal if ideal else None


def graded(labels: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Query -> item -> its grade."""
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for row in labels:
        grades[row["query_id"]][row["item_id"]] = row["grade"]
    return grades


def by_hand(
    rankings: Sequence[Row],
    labels: Sequence[Row],
    countries: Mapping[str, str],
    *,
    stages: Sequence[str] = STAGES,
    drop: bool = False,
    rel: int = 1,
    weights: Mapping[str, float] = {},
) -> dict[tuple[Any, ...], Row]:
    """(System, segment, its value, stage) -> what the funnel should say."""
    grades = graded(labels)
    lists: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rankings:
        if row["stage"] in stages:
            lists[row["system"], row.get("ds"), row["query_id"], row["stage"]].append(row)
    searched = {(day, query) for _, day, query, _ in lists}
    dated = "ds" in rankings[0]
    pairs = [(d, q) for d, q in searched if q in grades] if dated else [(None, q) for q in grades]
    rows_by_key: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for system in {row["system"] for row in rankings}:
        for day, query in pairs:
            stage_lists = [lists.get((system, day, query, stage), []) for stage in stages]
            if drop and not any(stage_lists):
                continue
            country = countries[query] if (day, query) in searched else "(unknown)"
            for stage, outcome in zip(
                stages, outcomes_of(stage_lists, grades[query], rel, drop), strict=True
            ):
                for segment in (("all", "all"), ("country", country)):
                    rows_by_key[system, *segment, stage].append(
                        outcome | {"w": weights.get(query, 1.0)}
                    )
    return {key: added(rows) for key, rows in rows_by_key.items()}


def outcomes_of(
    stage_lists: Sequence[Sequence[Row]], grades: Mapping[str, int], rel: int, drop: bool
) -> Iterator[Row]:
    """What becomes of one query at each stage."""
    relevant = {item for item, grade in grades.items() if grade >= rel}
    sets = [{row["item_id"] for row in stage_list} & relevant for stage_list in stage_lists]
    last = {
        item: max(i for i, retrieved in enumerate(sets) if item in retrieved)
        for item in set().union(*sets)
    }
    for i, (listed, retrieved) in enumerate(zip(stage_lists, sets, strict=True)):
        before = sets[i - 1] if i else None
        lost = relevant - last.keys() if i == 0 else {x for x, at in last.items() if at == i - 1}
        yield {
            "n_missing": not listed,
            "n_items": len(listed),
            "n_relevant": len(relevant),
            "n_found": len(retrieved),
            "n_kept": len(retrieved & before) if before is not None else None,
            "n_lost": len(lost),
            "recall": len(retrieved) / len(relevant) if relevant else None,
            "retention": len(retrieved & before) / len(before) if before else None,
            "ndcg_at_2": None if drop and not listed else ndcg(listed, grades, 2),
        }


def added(rows: Sequence[Row]) -> Row:
    """Counts and means over queries."""
    total = {name: sum(row[name] or 0 for row in rows) for name in (*COUNTS[1:], "n_items")}
    means = {}
    for name in ("recall", "retention", "ndcg_at_2"):
        weighted = [(row[name], row["w"]) for row in rows if row[name] is not None]
        total_weight = fsum(weight for _, weight in weighted)
        means[name] = (
            fsum(value * weight for value, weight in weighted) / total_weight if weighted else None
        )
    n_lists = len(rows) - total["n_missing"]
    if rows[0]["n_kept"] is None:
        total["n_kept"] = None
    return {
        **total,
        **means,
        "n_queries": len(rows),
        "list_size": total["n_items"] / n_lists if n_lists else None,
        "lost_share": total["n_lost"] / total["n_relevant"] if total["n_relevant"] else None,
    }


def check(funnel: sm.Funnel, wanted: Mapping[tuple[Any, ...], Row]) -> None:
    rows = {
        (row["system"], row["segment_name"], row["segment_value"], row["stage"]): row
        for row in funnel
    }
    assert rows.keys() == wanted.keys()
    for key, row in rows.items():
        for name in COUNTS:
            assert row[name] == wanted[key][name], (key, name)
        for name in MEANS:
            value = wanted[key][name]
            near = value if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)
            assert row[name] == near, (key, name)
    for group in {key[:3] for key in rows}:
        group_rows = [row for key, row in rows.items() if key[:3] == group]
        last = max(group_rows, key=lambda row: row["stage_number"])
        assert sum(row["n_lost"] for row in group_rows) + last["n_found"] == last["n_relevant"]


@pytest.mark.parametrize("seed", first(2, range(12)))
def test_each_stage_loses_what_plain_python_says(seed: int) -> None:
    chance = random.Random(seed)
    rankings, labels, countries = world(chance, days=seed % 2 == 1)
    options: dict[str, Any] = {"order": STAGES, "by": "country"}
    options |= {"date": "ds"} if seed % 2 else {}
    drop, rel = seed % 3 == 2, 1 + seed % 4 // 2
    weights: dict[str, float] = {}
    if seed % 4 == 1:
        weights = {query: float(chance.randint(1, 5)) for query in countries}
        rankings = [row | {"traffic": weights[row["query_id"]]} for row in rankings]
        labels = [row for row in labels if row["query_id"] in {r["query_id"] for r in rankings}]
        options["weight"] = "traffic"
    funnel = sm.funnel(
        pa.Table.from_pylist(rankings),
        pa.Table.from_pylist(labels),
        "ndcg@2",
        rel=rel,
        **options,
        **({"missing": "drop"} if drop else {}),
    )
    wanted = by_hand(rankings, labels, countries, drop=drop, rel=rel, weights=weights)
    check(funnel, wanted)
    if seed == 2:
        two = sm.funnel(rankings, labels, "ndcg@2", **{**options, "order": STAGES[::2]})
        check(two, by_hand(rankings, labels, countries, stages=STAGES[::2]))
        assert "these stages are not in the order and are left out: pre-rank" in two.notes


@by_turns(0.4)
@pytest.mark.parametrize("name", engines(["sqlite", "postgres", "chdb", "spark"], now=["sqlite"]))
def test_databases_say_the_same(name: str, servers: Servers) -> None:
    rankings, labels, countries = world(random.Random(9), days=True)
    with servers.open(name) as engine:
        database = Database(engine)
        funnel = sm.funnel(
            pa.Table.from_pylist(rankings),
            pa.Table.from_pylist(labels),
            "ndcg@2",
            order=STAGES,
            by="country",
            date="ds",
            connection=database,
        )
    check(funnel, by_hand(rankings, labels, countries))


def lists(sizes: Mapping[str, int]) -> list[Row]:
    """Lists of ten queries: the first items of twenty at each stage."""
    return [
        {"stage": stage, "query_id": f"q{query}", "item_id": f"i{item}", "rank": item + 1}
        for query in range(10)
        for stage, size in sizes.items()
        for item in range(size)
    ]


SIZES = {"page": 2, "recall": 20, "rank": 8}
TRUTH = [
    {"query_id": f"q{query}", "item_id": f"i{item}", "grade": 1}
    for query in range(10)
    for item in (1, 9, 11, 30)
]
"""Of four relevant items recall misses one, rank loses two, and the page has one."""


@by_turns(0.9)
def test_tables_side_by_side_are_one_table_with_stages(tmp_path: Path) -> None:
    rankings = lists(SIZES)
    stacked = sm.funnel(rankings, TRUTH, rank="rank")
    assert [(row["stage"], row["n_lost"], row["recall"]) for row in stacked] == [
        ("recall", 10, 0.75),
        ("rank", 20, 0.25),
        ("page", 0, 0.25),
    ]
    assert stacked.sentences == (
        "most are lost at rank: 20 items (50.0 %); page has 10 of 40 relevant items (25.0 %)",
    )
    assert "without a label: recall 20.0, rank 8.0, page 2.0; set another" in stacked.notes[0]
    pq.write_table(pa.Table.from_pylist(TRUTH), tmp_path / "labels.parquet")
    parts = {}
    for stage in ("recall", "rank", "page"):
        rows = [{**row, "system": "prod"} for row in rankings if row["stage"] == stage]
        parts[stage] = pa.Table.from_pylist(rows).drop_columns(["stage"])
        pq.write_table(parts[stage], tmp_path / f"{stage}.parquet")
    apart = sm.funnel(parts, TRUTH, rank="rank")
    for row, other in zip(apart, stacked, strict=True):
        assert row == pytest.approx(other | {"system": "prod"}, rel=1e-12)
    options = [f"--stage={stage}={stage}.parquet" for stage in parts]
    line = ("funnel", *options, "labels.parquet", "--rank", "rank")
    assert sqlmetrics(*line, folder=tmp_path).stdout == f"{apart!r}\n"
    assert max(map(len, repr(apart).splitlines())) <= 80


@by_turns(0.3)
def test_the_tags_of_trec_runs_are_no_systems(tmp_path: Path) -> None:
    runs = {"recall": "q1 Q0 a 1 3 bm\nq1 Q0 b 2 2 bm\n", "page": "q1 Q0 b 1 1 reranked\n"}
    for name, text in runs.items():
        (tmp_path / f"{name}.run").write_text(text)
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 1\n")
    paths = {name: str(tmp_path / f"{name}.run") for name in runs}
    funnel = sm.funnel(paths, str(tmp_path / "qrels.txt"))
    assert [row["n_lost"] for row in funnel] == [0, 1]


def test_a_spec_has_its_own_metrics_days_are_a_segment_and_depth_cuts_lists(tmp_path: Path) -> None:
    days = [{**row, "ds": day} for row in lists(SIZES) for day in ("2026-01-01", "2026-01-02")]
    pq.write_table(pa.Table.from_pylist(days), tmp_path / "lists.parquet")
    pq.write_table(pa.Table.from_pylist(TRUTH), tmp_path / "labels.parquet")
    (tmp_path / "spec.yml").write_text(
        "rankings: {file: lists.parquet, columns: {rank: rank, date: ds}}\n"
        "labels: {file: labels.parquet}\n"
        "metrics: [mrr, auc, num_rel]\nby: [ds]\nconventions: {depth: 10}\n"
    )
    funnel = sm.funnel(sm.Spec.read(tmp_path / "spec.yml"), end="2026-01-02")
    (overall, day) = funnel.rows[:3], funnel.rows[3:]
    assert [row["segment_value"] for row in day] == ["2026-01-01"] * 3
    assert [row["n_lost"] for row in overall] == [row["n_lost"] for row in day] == [20, 10, 0]
    assert [row["list_size"] for row in overall] == [10, 8, 2]
    assert [row["mrr"] for row in overall] == [0.5, 0.5, 0.5]
    assert sum("is left out: it is" in note for note in funnel.notes) == 2
    assert r"\begin{tabular}{llrrrrrr}" in funnel.latex()
    assert "| spec, ds=2026-01-01 | recall | 10.0 |" in funnel.markdown()


@by_turns(1)
def test_a_border_of_scores_cuts_the_lists_of_all_stages() -> None:
    rows = [{**row, "score": -row.pop("rank")} for row in map(dict, lists(SIZES))]
    options = {"metrics": ["mrr"], "missing": "zero"}
    cut, by_rank = (sm.funnel(rows, TRUTH, **options, **limit) for limit in CUTS)
    assert cut.rows == by_rank.rows
    assert [row["list_size"] for row in cut] == [10, 8, 2]


CUTS: list[Row] = [{"min_score": -10}, {"depth": 10}]
"""The same for lists whose scores are their ranks, negated."""


def test_what_enters_late_is_told() -> None:
    late = [row for row in lists(SIZES) if row["stage"] != "rank" or row["item_id"] != "i1"]
    funnel = sm.funnel([row | {"score": -row["rank"]} for row in late], TRUTH)
    assert [row["n_lost"] for row in funnel] == [10, 20, 0]
    assert funnel.rows[-1]["retention"] is None
    assert any("10 relevant items of page were not in the stage before" in n for n in funnel.notes)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"stage": "stge"}, "unknown column 'stge'"),
        ({"stage": "query_id"}, "'query_id' is the query (used as the stage of a row"),
        ({"order": ("recall", "rnk")}, "this stage has no rows: unknown stage 'rnk'"),
        ({"order": ("recall", "recall")}, "order names the stage 'recall' twice; name it once"),
        ({"order": ("recall",)}, "there is only one stage, recall"),
        ({"where": "stage = 'page'"}, "there is only one stage, page"),
        ({"rel": 0}, "rel must be above 0, the lowest grade"),
        ({"sources": "scores"}, "unknown column 'scores'"),
        ({"sources": "stage"}, "stage is VARCHAR, but sources must be a list in each row"),
        (
            {"sources": "stage", "order": ("a", "b")},
            "sources belong to the items of one table",
        ),
    ],
)
def test_what_is_no_funnel_is_refused(asked: Row, message: str) -> None:
    with pytest.raises(sm.SqlmetricsError) as failure:
        sm.funnel(lists(SIZES), TRUTH, rank="rank", **asked)
    assert message in str(failure.value)


def test_stages_of_one_size_and_rows_of_none_are_refused() -> None:
    with pytest.raises(sm.SpecError, match="page and rank have lists of the same size"):
        sm.funnel(lists({"page": 2, "rank": 2}), TRUTH, rank="rank")
    nowhere = [*lists(SIZES)[:9], {**lists({"x": 1})[0], "stage": None}]
    with pytest.raises(sm.InputError, match="stage is NULL"):
        sm.funnel(nowhere, TRUTH, rank="rank")


# -- sources of candidates --------------------------------------------------------------


@by_turns(0.2)
@pytest.mark.parametrize("name", engines(["duckdb", "postgres"], now=["duckdb"]))
def test_each_source_finds_what_plain_python_says(name: str, servers: Servers) -> None:
    chance = random.Random(4)
    names = ["bm25", "it's", "new"]
    rows = [
        {"query_id": f"q{query}", "item_id": f"i{item}", "score": float(chance.randrange(4))}
        | {"found_by": chance.sample(names, chance.choice([0, 1, 1, 2, 3]))}
        for query in range(6)
        for item in chance.sample(range(12), 8)
    ]
    truth = [
        {"query_id": f"q{query}", "item_id": f"i{item}", "grade": chance.choice([0, 1, 2])}
        for query in range(1, 7)
        for item in chance.sample(range(12), 5)
    ]
    grades = graded(truth)
    wanted: dict[str, Row] = {}
    for source in (*names, "all sources"):
        query_rows = [
            one_source(source, rows, query, query_grades) for query, query_grades in grades.items()
        ]
        wanted[source] = {
            key: fsum(query_row[key] for query_row in query_rows) for key in query_rows[0]
        }
    with servers.open(name) as engine:
        texts = [row | {"found_by": "|".join(row["found_by"])} for row in rows]
        engine.load("lists", pa.Table.from_pylist(texts))
        read = "string_to_array(nullif(found_by, ''), '|') as sources"
        database = Database(engine)
        funnel = sm.funnel(
            f"select query_id, item_id, score, {read} from lists",
            truth,
            "ndcg@2",
            sources="sources",
            connection=database,
            no_relevant="zero",
        )
    assert [row["source"] for row in funnel][-1] == "all sources"
    for row in funnel:
        expected = wanted[row["source"]]
        assert (row["n_found"], row["n_unique"]) == (expected["found"], expected["unique"])
        assert row["n_missing"] == expected["missing"]
        means = [row["recall"], row["unique_recall"], row["ndcg_at_2"]]
        expected_means = [expected[key] / len(grades) for key in ("recall", "alone", "ndcg")]
        assert means == pytest.approx(expected_means, rel=1e-12)
        assert row["list_size"] == expected["items"] / (len(grades) - expected["missing"])
    *sources, all_sources = funnel.rows
    assert sum(row["n_unique"] for row in sources) == all_sources["n_unique"]
    assert funnel.to_arrow().column_names[-1] == "ndcg_at_2"
    assert "together they find" in repr(funnel)
    assert "no source alone has any" not in repr(funnel)


def one_source(source: str, rows: Sequence[Row], query: str, grades: Mapping[str, int]) -> Row:
    """What a source has of one query."""
    mine = [row for row in rows if row["query_id"] == query]
    listed = [row for row in mine if source in (*row["found_by"], "all sources")]
    relevant = {item for item, grade in grades.items() if grade >= 1}
    retrieved = [row for row in listed if row["item_id"] in relevant]
    unique = sum(len(row["found_by"]) == 1 for row in retrieved)
    share = max(1, len(relevant))
    return {
        "found": len(retrieved),
        "unique": unique,
        "recall": len(retrieved) / share,
        "alone": unique / share,
        "ndcg": ndcg(listed, grades, 2) or 0.0,
        "items": len(listed),
        "missing": not listed,
    }
