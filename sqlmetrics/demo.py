"""The demo: a seeded search log, two rankers evaluated on it, and what to try next."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.errors import EngineError
from sqlmetrics.grid import aligned
from sqlmetrics.result import Result
from sqlmetrics.spec import Spec
from sqlmetrics.verify import verify

SEED = 20260101
DAYS, QUERIES, A_DAY, ITEMS, SHOWN = 5, 3_000, 1_500, 40, 20
COUNTRIES = {"DE": 0.3, "JP": 0.2, "US": 0.5}
WORDS = (
    (
        "warm",
        "light",
        "red",
        "black",
        "cheap",
        "vintage",
        "waterproof",
        "wireless",
        "small",
        "kids",
    ),
    (
        "running",
        "office",
        "winter",
        "travel",
        "kitchen",
        "garden",
        "gaming",
        "hiking",
        "gym",
        "baby",
    ),
    ("shoes", "jacket", "lamp", "bag", "chair", "knife", "headphones", "watch", "bottle", "mat"),
    ("", "sale", "set"),
)
SPEC = """\
version: 1
name: demo
rankings:
  file: rankings.parquet
  columns: {score: score, system: system, date: ds}
labels:
  file: labels.parquet
metrics: [ndcg@10, recall@20, precision@5, hit@1, mrr]
by: [country]
"""
ROLL_UP = """\
select
    segment_value as country,
    system,
    sum(numerator) / sum(denominator) as ndcg_at_10,
    cast(sum(n_queries) as bigint) as queries
from '{summary}'
where segment_name = 'country' and metric = 'ndcg' and k = 10
group by all
order by all
"""


@dataclass(frozen=True)
class Ranker:
    """How well a ranker guesses an item's true worth, country by country.

    Attributes:
        noise: The standard deviation of its guess.
        silent: How often it answers nothing at all.
    """

    noise: dict[str, float]
    silent: float


RANKERS = {
    "baseline": Ranker({"DE": 1.5, "JP": 1.5, "US": 1.5}, 0.0),
    "candidate": Ranker({"DE": 1.1, "JP": 1.9, "US": 1.2}, 0.01),
}


def show(folder: Path, say: Callable[[str], object]) -> None:
    """Make the log in a folder, evaluate it, and tell what came out and what to try.

    Args:
        folder: Where the files go; it is made if it is not there.
        say: Takes one text at a time, like `print`.

    Raises:
        EngineError: If the folder cannot be written to.
    """
    paths = _write_log(folder)
    spec = Spec.read(paths["spec"])
    with DuckDB() as engine:
        result, agreements = verify(spec, engine)
        pq.write_table(result.summary(), paths["summary"])
        pq.write_table(result.per_query(), paths["per_query"])
        paths["sql"].write_text(result.sql, encoding="utf-8")
        roll_up = engine.table(ROLL_UP.format(summary=paths["summary"].as_posix()))
    say(_about(paths))
    say(repr(_overall(result)) + "\n")
    say(_by_country(roll_up, paths))
    worst = max(one.largest for one in agreements)
    compared = sum(one.compared for one in agreements)
    say(
        f"Checked: {compared:,} numbers computed again in plain Python from the formulas;\n"
        f"the largest difference is {worst:.1e}.\n"
    )
    say(_next(paths))


def _write_log(folder: Path) -> dict[str, Path]:
    names = {
        "rankings": "rankings.parquet",
        "labels": "labels.parquet",
        "spec": "spec.yml",
        "sql": "evaluate.sql",
        "summary": "metrics.parquet",
        "per_query": "per_query.parquet",
    }
    paths = {key: folder / name for key, name in names.items()}
    rankings, labels = make_log()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths["spec"].write_text(SPEC, encoding="utf-8")
        pq.write_table(rankings, paths["rankings"])
        pq.write_table(labels, paths["labels"])
    except OSError as error:
        raise EngineError(f"cannot write to {str(folder)!r}: {error.strerror}") from None
    return paths


def make_log(seed: int = SEED) -> tuple[pa.Table, pa.Table]:
    """The rankings and the labels of a shop's search: the same for the same seed.

    Popular queries come every day, rare ones once; the labels hold for every day; about
    2 % of the queries have no good item at all.
    """
    chance = random.Random(seed)
    queries = _queries(chance)
    worth = {query: _grades(chance) for query in queries}
    rows = list(_rankings(chance, queries, worth))
    rankings = pa.Table.from_pylist(rows, pa.schema(list(_RANKING_TYPES.items())))
    return rankings, _labels(worth)


_RANKING_TYPES = {
    "ds": pa.date32(),
    "system": pa.string(),
    "country": pa.string(),
    "query_id": pa.string(),
    "item_id": pa.string(),
    "score": pa.float64(),
}


def _queries(chance: random.Random) -> list[str]:
    """Distinct query texts, the most popular first."""
    texts = [
        " ".join(filter(None, (a, b, c, d)))
        for a in WORDS[0]
        for b in WORDS[1]
        for c in WORDS[2]
        for d in WORDS[3]
    ]
    chance.shuffle(texts)
    return texts[:QUERIES]


def _grades(chance: random.Random) -> dict[str, int]:
    """Grades of a query's items: few are perfect, most are bad."""
    good = chance.random() > 0.02
    weights = (84, 8, 5, 3) if good else (100, 0, 0, 0)
    items = chance.sample(range(100_000), ITEMS)
    return {f"sku-{item:05}": chance.choices(range(4), weights)[0] for item in items}


def _rankings(
    chance: random.Random, queries: list[str], worth: dict[str, dict[str, int]]
) -> Iterator[dict[str, Any]]:
    popularity = [1 / (place + 100) for place in range(len(queries))]
    for day in range(DAYS):
        searched = dict.fromkeys(chance.choices(queries, popularity, k=A_DAY))
        for query in searched:
            country = chance.choices(list(COUNTRIES), list(COUNTRIES.values()))[0]
            for system, ranker in RANKERS.items():
                if chance.random() < ranker.silent:
                    continue
                key = {"ds": date(2026, 1, 1) + timedelta(day), "system": system}
                key |= {"country": country, "query_id": query}
                for item, score in _ranked(chance, worth[query], ranker.noise[country]):
                    yield key | {"item_id": item, "score": score}


def _ranked(chance: random.Random, grades: dict[str, int], noise: float) -> list[tuple[str, float]]:
    """The best items by a noisy guess; scores are rounded, so some are tied."""
    guesses = [(item, round(grade + chance.gauss(0, noise), 2)) for item, grade in grades.items()]
    return sorted(guesses, key=lambda guess: -guess[1])[:SHOWN]


def _labels(worth: dict[str, dict[str, int]]) -> pa.Table:
    triples = [(q, item, grade) for q, items in worth.items() for item, grade in items.items()]
    query, item, grade = zip(*triples, strict=True)
    return pa.table({"query_id": query, "item_id": item, "grade": grade})


def _about(paths: dict[str, Path]) -> str:
    rankings = pq.read_metadata(paths["rankings"]).num_rows
    labels = pq.read_metadata(paths["labels"]).num_rows
    return (
        f"Made a search log in {paths['spec'].parent}/: {DAYS} days, {len(COUNTRIES)} countries, "
        f"{len(RANKERS)} rankers,\n{rankings:,} ranked items, {labels:,} labels.\n"
    )


def _overall(result: Result) -> Result:
    """The result without its segments."""
    summary = result.summary()
    everything = summary.filter(pc.equal(summary["segment_name"], "all"))
    return replace(result, spec=result.spec.having(by=()), _summary=everything)


def _by_country(roll_up: pa.Table, paths: dict[str, Path]) -> str:
    rows = [
        [row["country"], row["system"], f"{row['ndcg_at_10']:.4f}", f"{row['queries']:,}"]
        for row in roll_up.to_pylist()
    ]
    table = aligned(["country", "system", "ndcg@10", "queries"], rows, numbers_from=2)
    return (
        f"The same by country, over all days, from {paths['summary']} as a BI tool would:\n"
        f"sum(numerator) / sum(denominator)\n\n{table}\n"
    )


def _next(paths: dict[str, Path]) -> str:
    return f"""\
The SQL that ran: {paths["sql"]}
Try next:
  sqlmetrics compile {paths["spec"]}
  sqlmetrics evaluate {paths["rankings"]} {paths["labels"]} \\
      --system system --date ds -m "ndcg(gain=linear)@10" -m "recall(rel=2)@20" -m ap
  sqlmetrics evaluate {paths["rankings"]} {paths["labels"]} \\
      --system system --date ds --by country -m mrr -c average_over=labels,hits
  sqlmetrics list metrics"""
