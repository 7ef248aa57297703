"""reconcile names the usual mistakes of hand-written SQL, and calls no right number one."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute
import pytest
from marked import by_turns, long, sliced
from memory import database, evaluate

import sqlmetrics as sm
from benchmarks.hand_written import QUERIES
from benchmarks.hand_written_more import MORE_QUERIES
from benchmarks.reconcile import names, reconciled_of
from benchmarks.reconcile import world as new_world
from sqlmetrics.proof.reconcile.mistakes import AVERAGED, CAPS, MISTAKES, REPEATED

pytestmark = by_turns(0.3)

K = 5
LINES = 3

DCG = """
with ranked as (
    select query_id, coalesce(grade, 0) as grade,
        row_number() over (partition by query_id order by score desc, item_id) as rank
    from runs left join truth using (query_id, item_id)
),
ideal as (
    select query_id, grade,
        row_number() over (partition by query_id order by grade desc) as rank
    from truth
),
dcg as (select query_id, sum({top}) as dcg from ranked where rank <= {k} group by all),
best as (select query_id, sum({bottom}) as idcg from ideal where rank <= {deepest} group by all)
{last} from best {join} join dcg using (query_id)
"""
MEAN = "select avg(coalesce(dcg, 0) / nullif(idcg, 0))"
SUM = "select avg(coalesce(dcg, 0))"
OF_K = "select avg(coalesce(dcg, 0) / (select sum(1 / log2(i + 1)) from range(1, 6) as t(i)))"
OF_COUNTRIES = """
select avg(mean) from (
    select country, avg(ndcg) as mean
    from (select distinct query_id, country from runs)
    join (select query_id, dcg / nullif(idcg, 0) as ndcg from best join dcg using (query_id))
        using (query_id)
    group by country
) --"""


def ndcg(
    top: str, bottom: str = "", *, deepest: int = K, join: str = "left", last: str = MEAN
) -> str:
    """A naive NDCG@5."""
    bottom = bottom or top
    return DCG.format(top=top, bottom=bottom, k=K, deepest=deepest, join=join, last=last)


EXP = "(2 ** grade - 1) / log2(rank + 1)"

OF_HITS = """
with hits as (
    select query_id, count(*) as n, sum(1 / log2(rank + 1)) as dcg
    from (
        select query_id, item_id,
            row_number() over (partition by query_id order by score desc, item_id) as rank
        from runs
    ) join truth using (query_id, item_id)
    where grade >= 1 and rank <= 5
    group by all
)
select avg(dcg / (select sum(1 / log2(i + 1)) from range(1, least(n, {most}) + 1) as t(i)))
from hits
"""

IDEAL_QUERY = """
with ranked as (
    select query_id, coalesce(grade, 0) as grade,
        row_number() over (partition by query_id order by score desc, item_id) as rank,
        row_number() over (partition by query_id order by coalesce(grade, 0) desc) as best
    from runs left join truth using (query_id, item_id)
    where query_id in (select query_id from truth)
)
select avg(ndcg) from (
    select sum((2 ** grade - 1) / log2(rank + 1)) filter (rank <= 5)
        / nullif(sum((2 ** grade - 1) / log2(best + 1)) filter (best <= 5), 0) as ndcg
    from ranked group by query_id
)
"""

AFTER_JOIN = """
with late as (
    select query_id, grade,
        row_number() over (partition by query_id order by score desc, item_id) as rank
    from runs join truth using (query_id, item_id)
),
dcg as (
    select query_id, sum((2 ** grade - 1) / log2(rank + 1)) as dcg
    from late where rank <= 5 group by all
),
ideal as (
    select query_id, grade, row_number() over (partition by query_id order by grade desc) as rank
    from truth
),
best as (
    select query_id, sum((2 ** grade - 1) / log2(rank + 1)) as idcg
    from ideal where rank <= 5 group by all
)
select avg(coalesce(dcg, 0) / nullif(idcg, 0)) from best left join dcg using (query_id)
"""

RANKED_HITS = """
with ranked as (
    select query_id, item_id,
        row_number() over (partition by query_id order by score desc, item_id) as rank
    from runs
),
hits as (
    select query_id, coalesce(grade, 0) >= 1 as hit, rank
    from ranked left join truth using (query_id, item_id)
    where query_id in (select query_id from truth)
)
"""

NAIVE: dict[str, tuple[str, str]] = {
    "ideal_of_shown": ("ndcg@5", IDEAL_QUERY),
    "ideal_of_hits": ("ndcg@5", OF_HITS.format(most=5)),
    "missing_dropped": ("ndcg@5", ndcg(EXP, join="inner")),
    "hitless_dropped": (
        "mrr",
        f"{RANKED_HITS} select avg(rr) from (select 1 / min(rank) as rr from hits where hit "
        "group by query_id)",
    ),
    "ranked_after_join": ("ndcg@5", AFTER_JOIN),
    "log2_of_rank": ("ndcg@5", ndcg("(2 ** grade - 1) / greatest(1, log2(rank))")),
    "divided_by_returned": (
        "precision@5",
        f"{RANKED_HITS} select sum(p) / (select count(distinct query_id) from truth) "
        "from (select avg(hit::int) as p from hits where rank <= 5 group by query_id)",
    ),
    "rank_below_k": (
        "precision@5",
        f"{RANKED_HITS} select sum(p) / (select count(distinct query_id) from truth) "
        "from (select sum(hit::int) / 5 as p from hits where rank < 5 group by query_id)",
    ),
    "rank_from_0_in_mrr": (
        "mrr",
        f"{RANKED_HITS} select sum(rr) / "
        "(select count(distinct query_id) from truth where grade >= 1) "
        "from (select 1 / (min(rank) + 1) as rr from hits where hit group by query_id)",
    ),
    "recall_of_shown": (
        "recall@5",
        f"{RANKED_HITS} select avg(r) from (select sum(hit::int) filter (rank <= 5) "
        "/ nullif(sum(hit::int), 0) as r from hits group by query_id)",
    ),
    "ideal_of_k": ("ndcg@5", ndcg("(grade >= 1)::int / log2(rank + 1)", last=OF_K)),
    "ap_over_hits": (
        "ap@5",
        f"{RANKED_HITS}, counted as (select query_id, rank, count(*) over "
        "(partition by query_id order by rank) as n from hits where hit) "
        "select sum(ap) / (select count(distinct query_id) from truth where grade >= 1) from "
        "(select avg(n / rank) as ap from counted where rank <= 5 group by query_id)",
    ),
    "log10": ("dcg@5", ndcg("(2 ** grade - 1) / log10(rank + 1)", last=SUM)),
    "rank_from_0": ("ndcg@5", ndcg("(2 ** grade - 1) / log2(rank + 2)")),
    "first_rank_lost": ("ndcg@5", ndcg("(2 ** grade - 1) / nullif(log2(rank), 0)")),
    "linear_over_exp": ("ndcg@5", ndcg("grade / log2(rank + 1)", EXP)),
    "exp_over_linear": ("ndcg@5", ndcg(EXP, "grade / log2(rank + 1)")),
    **{f"ideal_capped_at_{n}": ("ndcg@5", ndcg(EXP, deepest=n)) for n in CAPS if n < K},
    **{f"ideal_of_hits_capped_at_{n}": ("ndcg@5", OF_HITS.format(most=n)) for n in CAPS if n < K},
    **{
        f"grades_capped_at_{n}": (
            "ndcg@5",
            ndcg(f"(2 ** least(grade, {n}) - 1) / log2(rank + 1)"),
        )
        for n in CAPS
    },
}
"""Mistake -> the metric, and the query that somebody wrote."""


@cache
def world(seed: int) -> tuple[pa.Table, pa.Table]:
    """Lists of 2 to 9 items without equal scores, grades to 6, queries without list or hit."""
    rng = random.Random(seed)
    runs: list[dict[str, Any]] = []
    truth: list[dict[str, Any]] = []
    for number in range(24):
        query = {"query_id": f"q{number}", "country": rng.choice(["at", "de", "de", "de"])}
        if rng.random() < 0.85:
            items = rng.sample(range(20), rng.randint(2, 9))
            runs += [query | {"item_id": f"i{item}", "score": rng.random()} for item in items]
        for item in rng.sample(range(20), rng.randint(5, 9)):
            grade = rng.choice([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            truth.append({"query_id": f"q{number}", "item_id": f"i{item}", "grade": grade})
    return pa.Table.from_pylist(runs), pa.Table.from_pylist(truth)


def query_value(sql: str, seed: int) -> float:
    """What the query gives."""
    runs, truth = world(seed)
    with duckdb.connect() as connection:
        connection.register("runs", runs)
        connection.register("truth", truth)
        return float(connection.sql(sql).fetchall()[0][0])


def reconcile(seed: int, metric: str, value: float, **options: Any) -> sm.Reconciliation:
    """What reconcile says to six digits."""
    options = {"departures": 1, "connection": database()} | options
    return sm.reconcile(*world(seed), metric, f"{value:.6f}", **options)


@by_turns(2)
@pytest.mark.parametrize("seed", [1, *map(long, [2, 3])])
@pytest.mark.parametrize("name", sliced("mistakes", 0.08, NAIVE))
def test_a_mistake_is_named_in_the_first_lines(name: str, seed: int) -> None:
    metric, sql = NAIVE[name]
    reconciled = reconcile(seed, metric, query_value(sql, seed))
    assert name in {mistake for line in reconciled.candidates[:LINES] for mistake in line.mistakes}
    text = " ".join(str(reconciled).split())
    assert "a known mistake of hand-written SQL: " in text
    assert ("what to do: " in text) == any(
        candidate.distance for candidate in reconciled.candidates if candidate.mistakes
    )


@by_turns(2)
@pytest.mark.parametrize("given", [{"by": "country"}, {"date": "ds"}])
def test_averaged_averages_of_segments_and_days(given: dict[str, str]) -> None:
    runs, truth = world(1)
    days = [
        "2026-03-01" if country == "at" else "2026-03-02" for country in runs["country"].to_pylist()
    ]
    dated = runs.append_column("ds", pa.array(days))
    value = query_value(ndcg(EXP, join="inner", last=OF_COUNTRIES), 1)
    reconciled = sm.reconcile(dated, truth, "ndcg@5", f"{value:.6f}", departures=1, **given)
    assert "averaged_averages" in {
        name for candidate in reconciled.candidates[:LINES] for name in candidate.mistakes
    }
    right = query_value(ndcg(EXP, join="inner" if "date" in given else "left"), 1)
    reconciled = sm.reconcile(dated, truth, "ndcg@5", f"{right:.6f}", departures=1, **given)
    assert not any(candidate.mistakes for candidate in reconciled.candidates)


@by_turns(3)
@pytest.mark.parametrize("seed", [1, *map(long, range(2, 8))])
def test_right_numbers_are_no_mistakes(seed: int) -> None:
    metrics = ["ndcg@5", "ndcg(gain=linear)@5", "mrr", "recall@5", "precision@5"]
    result = evaluate(*world(seed), metrics)
    for text in metrics if seed > 1 else metrics[:2]:
        name, _, k = text.partition("@")
        metric = name.partition("(")[0] + (f"@{k}" if k else "")
        reconciled = reconcile(seed, metric, result[text])
        assert reconciled.candidates
        assert not any(candidate.mistakes for candidate in reconciled.candidates)


@by_turns(1)
def test_a_number_above_1_may_be_a_mistake_and_else_is_refused() -> None:
    """Five good items on top, of five: IDCG from a table of four constants gives more than 1."""
    lists = {"q": {item: 9.0 - position for position, item in enumerate("abcdef")}}
    grades = {"q": dict.fromkeys("abcde", 1)}
    reconciled = sm.reconcile(
        lists, grades, "ndcg@10", "1.1510", departures=0, connection=database()
    )
    assert reconciled.candidates[0].mistakes == ("ideal_capped_at_4", "ideal_of_hits_capped_at_4")
    with pytest.raises(sm.SpecError, match="ndcg is 0 to 1, so it cannot be"):
        sm.reconcile(lists, grades, "ndcg@10", "1.3", departures=0, connection=database())


REPEATS = """
with ranked as (
    select query_id, item_id,
        row_number() over (partition by query_id order by score desc, item_id) as rank
    from runs
),
hits as (
    select query_id, count(*) as n from ranked join truth using (query_id, item_id)
    where grade >= 1 and rank <= 5 group by query_id
)
select avg(coalesce(hits.n, 0) / r.n) from
    (select query_id, count(*) as n from truth where grade >= 1 group by query_id) as r
    left join hits using (query_id)
"""


@by_turns(1)
def test_repeats_are_counted_once_and_each_time() -> None:
    runs, truth = world(1)
    twice = pa.concat_tables([runs, runs.filter(pa.compute.less(runs["score"], 0.9))])
    with duckdb.connect() as connection:
        connection.register("runs", twice)
        connection.register("truth", truth)
        counted = float(connection.sql(REPEATS).fetchall()[0][0])
    reconciled = sm.reconcile(twice, truth, "recall@5", f"{counted:.6f}", departures=0)
    assert reconciled.candidates[0].departures == {"duplicate_rankings": "count"}
    assert reconciled.candidates[0].mistakes == ("repeats_counted",)
    once = evaluate(twice, truth, "recall@5", duplicate_rankings="best_score")["recall@5"]
    reconciled = sm.reconcile(twice, truth, "recall@5", f"{once:.6f}", departures=0)
    assert reconciled.candidates[0].departures == {"duplicate_rankings": "best_score"}
    assert not reconciled.candidates[0].mistakes


def test_the_page_has_every_mistake() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reconcile.md").read_text(encoding="utf-8")
    for mistake in (*MISTAKES, AVERAGED, REPEATED):
        sentence = re.sub(r"capped at \d", "capped at 2, 3, 4 or 5", mistake.sentence)
        scope = "the metric" if mistake.of_values else "day or segment"
        assert f"| {sentence.format(scope)} | " in page
        assert re.sub(r"at_\d", "at_", mistake.name) in page


def test_every_mistake_is_tested() -> None:
    at_k = {"ideal_of_hits_capped_at_5"}
    tested = {*NAIVE, *(name for query in HAND_WRITTEN.values() for name in query.is_mistake)}
    assert {mistake.name for mistake in MISTAKES} - tested == at_k | {"ideal_as_long_as_the_list"}


MISTAKE_NAMES = {mistake.name for mistake in MISTAKES}
HAND_WRITTEN = QUERIES | {
    name: query for name, query in MORE_QUERIES.items() if MISTAKE_NAMES & {*query.is_mistake}
}
"""Numbers that are named; of those of the second draw, the ones whose mistake is known."""


@by_turns(2)
@pytest.mark.parametrize("name", sliced("hand-written numbers", 0.03, HAND_WRITTEN))
def test_what_was_written_by_hand_is_named_in_the_first_lines(name: str) -> None:
    """Other cutoffs, other metrics, percentages and mistakes, to six digits."""
    query, tables = HAND_WRITTEN[name], new_world(21)
    reconciled = reconciled_of(query, tables, digits=6)
    assert names(reconciled, query), str(reconciled)


@by_turns(1)
def test_a_neighbour_is_told_in_words_and_only_where_nothing_fits() -> None:
    tables = new_world(24)
    result = evaluate(*tables, ["precision@15", "precision@10"])
    reconciled = sm.reconcile(*tables, "P@10", f"{result['precision@15']:.6f}", departures=0)
    assert str(reconciled).startswith(
        f"precision@10 = {result['precision@15']:.6f}: this is precision@15\n"
    )
    first = reconciled.candidates[0]
    assert (first.metric, first.other_metric, first.distance) == ("precision@15", True, 1)
    assert "house" in first.presets
    assert evaluate(*tables, first.metric)[first.metric] == pytest.approx(first.value)
    right = sm.reconcile(*tables, "P@10", f"{result['precision@10']:.6f}", departures=0)
    assert not any(line.other_metric for line in right.candidates)


@by_turns(1)
def test_a_number_of_groups_of_labels() -> None:
    """The items of a group count once each, whatever groups a label has beside it."""
    lists = {
        f"q{n}": {item: -float(position) for position, item in enumerate("abcdef")} for n in "12"
    }
    rows = [
        ("q1", "b", "x"),
        ("q1", "b", "y"),
        ("q1", "d", "x"),
        ("q2", "c", "x"),
        ("q2", "z", "y"),
    ]
    labels = pa.table(
        {
            "query_id": [row[0] for row in rows],
            "item_id": [row[1] for row in rows],
            "group": [row[2] for row in rows],
            "grade": [1.0] * len(rows),
        }
    )
    for text in ("alpha_ndcg@5", "subtopic_recall@5", "nerr_ia@5"):
        value = evaluate(lists, labels, text)[text]
        reconciled = sm.reconcile(lists, labels, text, f"{value:.5f}", departures=1)
        assert "house" in reconciled.candidates[0].presets
        assert not reconciled.candidates[0].distance
    third = evaluate(lists, labels, "alpha_ndcg@3")["alpha_ndcg@3"]
    reconciled = sm.reconcile(lists, labels, "alpha_ndcg@5", f"{third:.6f}", departures=0)
    assert reconciled.candidates[0].metric == "alpha_ndcg@3"
