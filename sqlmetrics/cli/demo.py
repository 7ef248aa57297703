"""The demo."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.clicks.simulation import simulate
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.output_files import output_folder, refuse_existing
from sqlmetrics.proof.verify import verify_spec
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.table import Table, metric_value

# The demo's answer: which ranker is better, by how much, and where it is not.

COMPARED = """\
with daily as (
    select
        metric, k, segment_name, segment_value, metric_date,
        sum(numerator) filter (system = 'baseline') as base_sum,
        sum(denominator) filter (system = 'baseline') as base_count,
        sum(numerator) filter (system = 'candidate') as new_sum,
        sum(denominator) filter (system = 'candidate') as new_count
    from '{summary}'
    group by all
)

select
    metric, k, segment_name, segment_value,
    sum(base_sum) / sum(base_count) as baseline,
    sum(new_sum) / sum(new_count) as candidate,
    candidate - baseline as difference,
    cast(sum(new_count) as bigint) as queries,
    count(*) as days,
    count(*) filter (new_sum / new_count > base_sum / base_count) as better
from daily
group by all
order by segment_name, segment_value, metric, k
"""
"""Sums over sums, as a BI tool would: days with many queries weigh more."""


def answer(engine: Database, summary: Path, metrics: Sequence[str]) -> str:
    """The answer, and two tables beneath it: all queries and each country, in 80 columns.

    Args:
        engine: Where the summary is read.
        summary: The demo's fact table, a Parquet file.
        metrics: In which order they stand; the first one is that of the answer.
    """
    rows = engine.table(COMPARED.format(summary=summary.as_posix())).to_pylist()
    for row in rows:
        row["name"] = at_cutoff(row["metric"], row["k"])
    everywhere = [row for row in rows if row["segment_name"] == "all"]
    everywhere.sort(key=lambda row: metrics.index(row["name"]))
    main = everywhere[0]
    countries = [
        row for row in rows if row["segment_name"] == "country" and row["name"] == main["name"]
    ]
    countries.sort(key=lambda row: -row["difference"])
    overall = [
        [row["name"], *_numbers(row), f"{row['better']} of {row['days']}"] for row in everywhere
    ]
    by_country = [
        [row["segment_value"], *_numbers(row), f"{row['queries']:,}"] for row in countries
    ]
    head = ["baseline", "candidate", "difference"]
    return (
        f"{_sentence(main, countries)}\n\n"
        f"{Table(['metric', *head, 'higher on days'], overall, 1).text()}\n\n"
        f"{Table([main['name'], *head, 'queries'], by_country, 1).text()}\n"
    )


def _numbers(row: dict[str, Any]) -> list[str]:
    pair = [metric_value(row[system]) for system in ("baseline", "candidate")]
    return [*pair, f"{row['difference']:+.4f}"]


def _sentence(main: dict[str, Any], countries: list[dict[str, Any]]) -> str:
    """What a person would say after a look at the tables."""
    verdict = "Yes" if main["difference"] > 0 else "No"
    opposite_countries = [
        row for row in countries if (row["difference"] > 0) != (main["difference"] > 0)
    ]
    where = ", ".join(f"{row['segment_value']}: {_share(row)}" for row in opposite_countries)
    sentence = f"{verdict}: {main['name']} {_share(main)} over all queries."
    return sentence + (f" It is the other way round in {where}." if where else "")


def _share(row: dict[str, Any]) -> str:
    return f"{row['difference'] / row['baseline']:+.0%}"


# The demo's second part: no judgments, but a click log of two rankers, with dirt in it.

CLICK_REQUESTS, CLICK_DAYS = 2_000, 3
CLICK_FILE = "clicks.yml"
CLICK_SPEC = """\
version: 1
name: clicks
clicks:
  impressions:
    file: log/impressions.parquet
    columns: {request: request_id, query: query, item: item_id, position: position,
              system: system, user: user_id, time: shown_at, segments: [country]}
    first_position: 1
  events:
    file: log/events.parquet
    columns: {request: request_id, item: item_id, action: action, dwell: dwell,
              user: user_id, time: happened_at}
  cleaning:
    test: is_test = 1
    max_events_per_user_hour: 200
    attribution_window: 30m
    min_dwell: 5s
    deduplicate: true
  labels:
    grades: {click: 1, add_to_cart: 2, purchase: 3}
metrics: [ndcg@10, mrr, ctr@5, abandonment]
"""


def simulate_and_report(folder: Path, *, overwrite: bool = False) -> str:
    """Simulate a log in a folder with the spec, clean and evaluate it, and say what came out."""
    log = simulate(folder / "log", requests=CLICK_REQUESTS, days=CLICK_DAYS, overwrite=overwrite)
    spec = folder / CLICK_FILE
    result = evaluate_clicks(Spec.read(spec))
    return (
        f"A click log without judgments is in {folder / 'log'}/:\n"
        f"{log.rows['impressions']:,} impressions, {log.rows['events']:,} events.\n"
        f"Cleaned as {spec} says, with clicks as labels:\n\n{_left_out(result)}\n\n"
        f"{_by_system(result)}"
    )


def _left_out(result: ClickResult) -> str:
    """What the cleaning took, most of it first."""
    cleaning_steps = sorted(
        (step for step in result.steps if step.removed), key=lambda step: -step.removed
    )
    rows = [[step.what, step.why, f"{step.removed:,}"] for step in cleaning_steps]
    return Table(["rows", "step", "left out"], rows, 2).text()


def _by_system(result: ClickResult) -> str:
    """Each metric over all days, by system."""
    rows = [row for row in result.facts().to_pylist() if row["segment_name"] == "all"]
    systems = sorted({row["system"] for row in rows})
    names = list(dict.fromkeys((row["metric"], row["k"]) for row in rows))
    values = [
        [system, *(_mean([row for row in rows if _is(row, system, name)]) for name in names)]
        for system in systems
    ]
    titles = [at_cutoff(metric, k) for metric, k in names]
    return Table(["system", *titles], values, 1).text()


def _is(row: dict[str, object], system: str, name: tuple[str, int]) -> bool:
    return row["system"] == system and (row["metric"], row["k"]) == name


def _mean(rows: list[dict[str, float]]) -> str:
    return metric_value(
        sum(row["numerator"] for row in rows) / sum(row["denominator"] for row in rows)
    )


# The demo's search log: popular and rare queries, two rankers that guess what an item is worth.

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


def make_log(seed: int = SEED) -> tuple[pa.Table, pa.Table]:
    """The rankings and the labels of a shop's search: the same for the same seed.

    Popular queries come every day, rare ones once; the labels hold for every day; about
    2 % of the queries have no good item at all.
    """
    chance = random.Random(seed)
    queries = _queries(chance)
    grades_by_query = {query: _grades(chance) for query in queries}
    rows = list(_rankings(chance, queries, grades_by_query))
    rankings = pa.Table.from_pylist(rows, pa.schema(list(_RANKING_TYPES.items())))
    return rankings, _labels(grades_by_query)


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
    chance: random.Random, queries: list[str], grades_by_query: dict[str, dict[str, int]]
) -> Iterator[dict[str, Any]]:
    popularity = [1 / (rank + 100) for rank in range(len(queries))]
    for day in range(DAYS):
        searched = dict.fromkeys(chance.choices(queries, popularity, k=A_DAY))
        for query in searched:
            country = chance.choices(list(COUNTRIES), list(COUNTRIES.values()))[0]
            for system, ranker in RANKERS.items():
                if chance.random() < ranker.silent:
                    continue
                key = {"ds": date(2026, 1, 1) + timedelta(day), "system": system}
                key |= {"country": country, "query_id": query}
                for item, score in _ranked(chance, grades_by_query[query], ranker.noise[country]):
                    yield key | {"item_id": item, "score": score}


def _ranked(chance: random.Random, grades: dict[str, int], noise: float) -> list[tuple[str, float]]:
    """The best items by a noisy guess; scores are rounded, so some are tied."""
    guesses = [(item, round(grade + chance.gauss(0, noise), 2)) for item, grade in grades.items()]
    return sorted(guesses, key=lambda guess: -guess[1])[:SHOWN]


def _labels(grades_by_query: dict[str, dict[str, int]]) -> pa.Table:
    triples = [
        (q, item, grade) for q, items in grades_by_query.items() for item, grade in items.items()
    ]
    query, item, grade = zip(*triples, strict=True)
    return pa.table({"query_id": query, "item_id": item, "grade": grade})


# The demo: a seeded search log, which of two rankers is better on it, and what to try next.

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
output: {relation: ranking_metrics, per_query: ranking_metrics_per_query}
checks:
  - {metric: ndcg@10, min: 0.5, min_queries: 500}
  - {metric: mrr, max_drop_pct: 10}
  # No country may lose more than this by the new ranker.
  - {metric: ndcg@10, max_drop: 0.02, against: baseline, system: candidate, segment: {country: "*"}}
"""
PROFILES = """\
target: demo
outputs:
  demo: {type: duckdb, path: metrics.duckdb}
"""


def show(folder: Path, say: Callable[[str], object], *, overwrite: bool = False) -> None:
    """Make the log in a folder, evaluate it, and tell what came out and what to try.

    Args:
        folder: Where the files go; it is made if it is not there.
        say: Takes one text at a time, like `print`.
        overwrite: Whether to write over files of these names that no demo made.

    Raises:
        SpecError: If such a file is there.
        EngineError: If the folder cannot be written to.
    """
    paths = _write_log(folder, overwrite=overwrite)
    spec = Spec.read(paths["spec"])
    with connect() as engine:
        result, agreements = verify_spec(spec, engine)
        with _output(folder, is_demo_folder=True) as staging:  # which it is by now
            pq.write_table(result.summary(), staging / paths["summary"].name)
            pq.write_table(result.per_query(), staging / paths["per_query"].name)
            (staging / paths["sql"].name).write_text(result.sql, encoding="utf-8")
        answer_text = answer(
            engine, paths["summary"], [str(measure) for measure in result.measures]
        )
    say(_about(paths) + answer_text)
    worst = max(agreement.largest for agreement in agreements)
    compared = sum(agreement.compared for agreement in agreements)
    say(
        f"Checked: {compared:,} numbers computed again in plain Python from the formulas;\n"
        f"the largest difference is {worst:.1e}.\n"
    )
    say(simulate_and_report(folder, overwrite=overwrite) + "\n")
    say(_next(paths))


def _write_log(folder: Path, *, overwrite: bool) -> dict[str, Path]:
    names = {
        "rankings": "rankings.parquet",
        "labels": "labels.parquet",
        "spec": "spec.yml",
        "profiles": "profiles.yml",
        "sql": "evaluate.sql",
        "summary": "metrics.parquet",
        "per_query": "per_query.parquet",
    }
    paths = {key: folder / name for key, name in names.items()}
    is_demo_folder = paths["spec"].is_file() and paths["spec"].read_bytes() == SPEC.encode()
    if not (is_demo_folder or overwrite):
        refuse_existing([*paths.values(), folder / CLICK_FILE])
    rankings, labels = make_log()
    with _output(folder, is_demo_folder=is_demo_folder, overwrite=overwrite) as staging:
        (staging / paths["spec"].name).write_text(SPEC, encoding="utf-8")
        (staging / paths["profiles"].name).write_text(PROFILES, encoding="utf-8")
        (staging / CLICK_FILE).write_text(CLICK_SPEC, encoding="utf-8")
        pq.write_table(rankings, staging / paths["rankings"].name)
        pq.write_table(labels, staging / paths["labels"].name)
    return paths


def _output(
    folder: Path, *, is_demo_folder: bool, overwrite: bool = False
) -> AbstractContextManager[Path]:
    """Where to write files of the demo; what people changed in its specs is theirs."""

    def is_ours(file: Path, new: Path) -> bool:
        return is_demo_folder and (file.suffix != ".yml" or file.read_bytes() == new.read_bytes())

    return output_folder(folder, overwrite=overwrite, is_ours=is_ours)


def _about(paths: dict[str, Path]) -> str:
    rankings = pq.read_metadata(paths["rankings"]).num_rows
    labels = pq.read_metadata(paths["labels"]).num_rows
    return (
        f"Made {paths['spec'].parent}/: {DAYS} days, {len(COUNTRIES)} countries, "
        f"{rankings:,} results, {labels:,} labels.\n"
        "Two rankers of a shop search: is candidate better than baseline?\n"
    )


def _next(paths: dict[str, Path]) -> str:
    folder = paths["spec"].parent
    return f"""\
{folder}/ has a spec, a profiles.yml and checks.
Try next:
  cd {folder}
  sqlmetrics show spec.yml                 # the numbers by day and country
  sqlmetrics compare spec.yml --margin .01 # is the difference real?
  sqlmetrics build spec.yml                # write them into metrics.duckdb, and
                                           # check: fails for the country above
  sqlmetrics run spec.yml --publish bi/    # a copy for a dashboard
  sqlmetrics compile spec.yml --per-query  # the SQL
  sqlmetrics clicks soundness clicks.yml   # can the click log be trusted?
  sqlmetrics evaluate rankings.parquet labels.parquet \\
      --system system --date ds -m "ndcg(gain=linear)@10, recall(rel=2)@20, ap"
"""
