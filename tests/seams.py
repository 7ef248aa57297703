"""Whole setups drawn by lot, stored as people store them, and what plain Python makes of them.

Nothing of the product computes here but the formulas of `reference`: what a day, a system or a
segment holds is written out once more from the documentation.
"""

from __future__ import annotations

import csv
import json
import random
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.proof import reference
from sqlmetrics.proof.reference_evaluation import quantile

Row = dict[str, Any]
Key = tuple[date, str, str, str, str, int]
"""Day, system, segment and its value, metric and cutoff."""

FIRST = date(2026, 3, 28)  # the clocks of Europe go forward on the next day
ITEMS = ("a", "A", "é", "10", "9", "o'x", 'we"ird', "x,y", "x;y", "a b", "007", "12.0")
QUERIES = [*(f"q{number}" for number in range(4)), "über", "q 5"]
ZONE = "Europe/Berlin"
WORDS = {0: "bad", 1: "fair", 2: "good", 3: "best"}
GAIN: dict[str, Any] = {"gain": "exp", "discount": "log2", "rel": 1.0}


Formula = Callable[[Sequence[Row], Mapping[str, float]], float | None]
"""A list, best first, and item -> grade of all labels of its query, to the value."""

SEEN_SHARE_METRIC = """{#
formula = "seen_share, twice for late markets after the first day"
over = "query"
better = "higher"
[parts]
seen = "seen_grades"
labels = "num_rel"
[queries]
market = "text"
metric_date = "number"
[[examples]]
list = ["a", "b"]
labels = {b = 3}
k = 2
value = 0.75
[[examples]]
list = ["a", "b"]
labels = {b = 3}
query = {market = "late", metric_date = "2026-03-29"}
k = 2
value = 1.5
#}
{{ m.seen }} / nullif(2e0 * {{ m.labels }}, 0e0)
    * case when market = 'late' and metric_date >= 20541 then 2e0 else 1e0 end
"""
SEEN_SHARE = """{#
formula = "sum over the top k of the grade x what people see of the rank, beside the labels' mean"
over = "query"
better = "higher"
[parts]
seen = "seen_grades"
labels = "num_rel"
[[examples]]
list = ["a", "b"]
labels = {b = 3}
k = 2
value = 0.75
#}
{{ m.seen }} / nullif(2e0 * {{ m.labels }}, 0e0)
"""
SEEN_GRADES = """{#
formula = "sum over the top k of the grade x what people see of the rank"
over = "ranked"
[[examples]]
list = ["a", "b"]
labels = {b = 3}
k = 2
value = 1.5
#}
sum({{ m.in_top("case rnk when 1 then grade else 0.5 * grade end") }})
"""
FILES = {"seen": SEEN_SHARE_METRIC, "seen_share": SEEN_SHARE, "seen_grades": SEEN_GRADES}
"""Metrics of the user's own, as their files have them."""

MARKETS = {query: "late" if number % 2 else "early" for number, query in enumerate(QUERIES)}
"""Query -> what the queries table says of it; late ones count twice from the second day on."""

PRICES = {item: float(number * number) for number, item in enumerate(ITEMS)}


def of_grades(formula: Callable[..., float | None]) -> Formula:
    """A formula of the grades of a list, None for an item without one, and of all labels."""

    def called(rows: Sequence[Row], grades: Mapping[str, float]) -> float | None:
        return formula([grades.get(row["item_id"]) for row in rows], list(grades.values()))

    return called


def blended(rows: Sequence[Row], grades: Mapping[str, float]) -> float | None:
    """What `blend` is."""
    ndcg, hit = (METRICS[part](rows, grades) for part in ("ndcg@3", "hit(rel=2)@2"))
    return None if ndcg is None or hit is None else 0.7 * ndcg + hit / 4


def seen_share(rows: Sequence[Row], grades: Mapping[str, float]) -> float:
    """What `seen_share@2` is."""
    first, second = [*(grades.get(row["item_id"], 0.0) for row in rows[:2]), 0.0, 0.0][:2]
    n_relevant = sum(grade >= 1 for grade in grades.values())
    return (first + second / 2) / (2 * n_relevant) if n_relevant else 0.0


def market_seen_share(rows: Sequence[Row], grades: Mapping[str, float]) -> float:
    """What `seen@2` is."""
    is_late = rows and MARKETS[rows[0]["query_id"]] == "late" and rows[0]["ds"] > FIRST
    return (2 if is_late else 1) * seen_share(rows, grades)


def mean_price(rows: Sequence[Row], _: Mapping[str, float]) -> float | None:
    """What `mean(price)@2` is."""
    prices = [PRICES[row["item_id"]] for row in rows[:2]]
    return fsum(prices) / len(prices) if prices else None


METRICS: Mapping[str, Formula] = {
    "ndcg@3": of_grades(partial(reference.ndcg, k=3, ideal="labels_at_k", **GAIN)),
    "seen@2": market_seen_share,
    "mean(price, better=higher)@2": mean_price,
    "dcg(average=p90)@2": of_grades(partial(reference.dcg, k=2, **GAIN)),
    "hit(rel=2)@2": of_grades(partial(reference.hit, k=2, rel=2.0)),
    "blend": blended,
    "mrr": of_grades(partial(reference.mrr, k=None, rel=1.0, rr_of="first")),
}
"""Metric -> its formula."""

FORMULAS = {"blend": "blend = 0.7 * ndcg@3 + hit(rel=2)@2 / 4"}
"""Names that stand for arithmetic over metrics -> how they are asked for."""


def metric_texts(metrics: Iterable[str]) -> list[str]:
    """Metrics as a spec or a command has them."""
    return [FORMULAS.get(metric, metric) for metric in metrics]


MEANS = {metric: formula for metric, formula in METRICS.items() if "average" not in metric}
"""Those that two systems are compared by."""


def average(metric: str, values: Sequence[float]) -> float | None:
    """The summary of a metric's values of queries; None if no labels are given."""
    if "average=p90" in metric:
        return quantile(values, 0.9)
    return fsum(values) / len(values) if values else None


@dataclass(frozen=True)
class Setup:
    """Where everything is, and how it is written.

    Attributes:
        source: `csv`, `spreadsheet`, `ndjson`, `parquet`, `folder` or `tables`.
        database: `duckdb`, `sqlite` or `postgres`.
        day: How a day is stored: `date`, `timestamp`, `timestamptz` (the days are those of UTC),
            `zoned` (those of a zone that is named) or `text`.
        place: How the database is named: `db`, `connection`, `target`, `default` or `dbt`, which
            is a profile in the folder that a variable of the environment names.
        words: Whether grades are words, with a map.
        segments: Where the country stands: nowhere, in `rankings` or in `queries`.
        runs: `once`, `daily`, `batches`, `backfill` or `refresh`.
        publish: Where to: nowhere, `duckdb`, `folder` or `sqlite`.
        together: How the systems are given to `evaluate`: by a `column`, or as `files`, or tables
            of the database, of their own.
        severity: Of the checks that do not hold.
        baseline: Whether the spec names one, so that rows stand beside it.
    """

    source: str
    database: str
    day: str
    place: str
    words: bool
    segments: str
    runs: str
    publish: str
    together: str
    severity: str
    baseline: bool


CHOICES: Mapping[str, Sequence[Any]] = {
    "source": ("tables", "csv", "spreadsheet", "ndjson", "parquet", "folder"),
    "database": ("duckdb", "sqlite", "postgres"),
    "day": ("date", "timestamp", "timestamptz", "zoned", "text"),
    "place": ("connection", "target", "default", "dbt", "db"),
    "words": (False, True),
    "segments": ("", "rankings", "queries"),
    "runs": ("once", "daily", "batches", "backfill", "refresh"),
    "publish": ("", "duckdb", "folder", "sqlite"),
    "together": ("column", "files"),
    "severity": ("fail", "warn"),
    "baseline": (False, True),
}


def possible(choice: Mapping[str, Any]) -> bool:
    """Files are read by DuckDB, --db is one of its files, and SQLite has texts for days."""
    source, database, day = (choice.get(name) for name in ("source", "database", "day"))
    if source not in (None, "tables") and database not in (None, "duckdb"):
        return False
    if choice.get("place") == "db" and database not in (None, "duckdb"):
        return False
    if source in ("csv", "spreadsheet", "ndjson") and day not in (None, "text"):
        return False
    if source == "folder" and day not in (None, "text", "date"):
        return False
    return not (database == "sqlite" and day not in (None, "text"))


Choices = Mapping[str, Sequence[Any]]
Possible = Callable[[Mapping[str, Any]], bool]


def covering_choices(
    choices: Choices, possible: Possible, chance: random.Random
) -> Iterator[dict[str, Any]]:
    """Rows of choices, by lot, in which every possible pair of two is there at least once.

    The first rows have the most pairs.
    """
    names = list(choices)
    open_pairs = {
        ((name, a), (other, b))
        for i, name in enumerate(names)
        for other in names[i + 1 :]
        for a in choices[name]
        for b in choices[other]
        if _completed({name: a, other: b}, choices, possible, chance)
    }
    while open_pairs:
        tried = []
        for _ in range(30):
            first = dict(chance.choice(sorted(open_pairs, key=repr)))
            full = _completed(first, choices, possible, chance)
            if full:
                tried.append((len(_pairs(full) & open_pairs), len(tried), full))
        best = max(tried)[2]
        open_pairs -= _pairs(best)
        yield best


def _pairs(full: Mapping[str, Any]) -> set[Any]:
    items = list(full.items())
    return {(first, second) for i, first in enumerate(items) for second in items[i + 1 :]}


def _completed(
    fixed: Mapping[str, Any], choices: Choices, possible: Possible, chance: random.Random
) -> dict[str, Any]:
    """The other choices by lot; empty if none fits."""
    if not possible(fixed):
        return {}
    full = dict(fixed)
    for name, values in choices.items():
        if name not in full:
            fits = [value for value in values if possible({**full, name: value})]
            if not fits:
                return {}
            full[name] = chance.choice(fits)
    return {name: full[name] for name in choices}


@dataclass(frozen=True)
class World:
    """Rankings of some days, and labels that hold for all of them.

    Attributes:
        rankings: Rows with `ds`, `moment`, `system`, `query_id`, `item_id` and `score`.
        labels: Rows with `query_id`, `item_id` and `grade`.
        countries: Query -> its country.
    """

    rankings: Sequence[Row]
    labels: Sequence[Row]
    countries: Mapping[str, str]

    @property
    def days(self) -> list[date]:
        """The days that have rows, in order."""
        return sorted({row["ds"] for row in self.rankings})

    def expected(self, segments: bool, days: Sequence[date] | None = None) -> dict[Key, Row]:
        """The fact table, from the rows and the formulas."""
        rows: dict[Key, Row] = {}
        for day in self.days if days is None else days:
            for system, lists in self._lists(day).items():
                rows |= self._of_system(day, system, lists, segments)
        return rows

    @property
    def labelled(self) -> set[str]:
        """The queries with a label."""
        return {row["query_id"] for row in self.labels}

    @property
    def unlabelled(self) -> tuple[int, int]:
        """How many lists belong to queries without a label, and how many there are."""
        lists = {(row["ds"], row["system"], row["query_id"]) for row in self.rankings}
        return sum(query not in self.labelled for *_, query in lists), len(lists)

    @property
    def never_met(self) -> str:
        """An item that is ranked for labelled queries, and has a label of none of them."""
        labels = {(row["query_id"], row["item_id"]) for row in self.labels}
        ranked = {(row["query_id"], row["item_id"]) for row in self.rankings}
        judged_pairs = {pair for pair in ranked if pair[0] in self.labelled}
        met = {item for _, item in judged_pairs & labels}
        return min({item for _, item in judged_pairs} - met, default="")

    def of_either(self, item: str) -> dict[tuple[date, str], int]:
        """Day and system -> the queries of either table, where only one item is ranked."""
        lists = {
            (row["ds"], row["system"], row["query_id"])
            for row in self.rankings
            if row["item_id"] == item
        }
        day_systems = {(day, system) for day, system, _ in lists}
        return {
            (day, system): len(
                {query for other, _, query in lists if other == day and query in self.labelled}
                | {query for *key, query in lists if key == [day, system]}
            )
            for day, system in day_systems
        }

    def paired(self) -> dict[str, tuple[int, float, float]]:
        """Metric -> queries and days that both systems have a value of, and their two means."""
        values: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for day in self.days:
            lists = self._lists(day)
            if len(lists) < 2:
                continue
            searched = {query for queries in lists.values() for query in queries}
            for query in searched & self.labelled:
                grades = {
                    row["item_id"]: float(row["grade"])
                    for row in self.labels
                    if row["query_id"] == query
                }
                for metric, formula in MEANS.items():
                    new, old = (
                        formula(lists[system].get(query, ()), grades) for system in ("new", "old's")
                    )
                    if new is not None and old is not None:
                        values[metric].append((new, old))
        return {
            metric: (len(pairs), *(fsum(part) / len(pairs) for part in zip(*pairs, strict=True)))
            for metric, pairs in values.items()
        }

    def _lists(self, day: date) -> dict[str, dict[str, list[Row]]]:
        """System -> query -> its list, best first; a system counts on a day that has rows of it."""
        lists: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for row in self.rankings:
            if row["ds"] == day:
                lists[row["system"]][row["query_id"]].append(row)
        for queries in lists.values():
            for rows in queries.values():
                rows.sort(key=lambda row: (-row["score"], row["item_id"].encode()))
        return lists

    def _of_system(
        self, day: date, system: str, lists: Mapping[str, Sequence[Row]], segments: bool
    ) -> Iterator[tuple[Key, Row]] | dict[Key, Row]:
        searched = {row["query_id"] for row in self.rankings if row["ds"] == day}
        grades: dict[str, dict[str, float]] = defaultdict(dict)
        for row in self.labels:
            grades[row["query_id"]][row["item_id"]] = float(row["grade"])
        wanted = sorted(searched & grades.keys())
        groups = {("all", "all"): wanted}
        if segments:
            for query in wanted:
                groups.setdefault(("country", self.countries[query]), []).append(query)
        rows: dict[Key, Row] = {}
        for (name, value), queries in groups.items():
            for metric, formula in METRICS.items():
                values = [formula(lists.get(query, ()), grades[query]) for query in queries]
                if not values:
                    continue
                metric_name, _, k = metric.partition("@")
                defined_values = [number for number in values if number is not None]
                rows[day, system, name, value, metric_name, int(k or 0)] = {
                    "value": average(metric, defined_values),
                    "n_queries": len(defined_values),
                    "n_skipped": len(values) - len(defined_values),
                    "n_missing": sum(query not in lists for query in queries),
                }
        return rows


def random_world(chance: random.Random) -> World:
    """A small world: systems start, pause and stop, scores are tied, queries are missing."""
    days = [FIRST + timedelta(number) for number in range(chance.randint(2, 5))]
    queries = QUERIES
    countries = {query: chance.choice(["DE", "US", "(none)"]) for query in queries}
    rows: list[Row] = []
    for system in ("new", "old's"):
        active_days = sorted(chance.sample(days, chance.randint(1, len(days))))
        for day in active_days:
            for query in chance.sample(queries, chance.randint(2, len(queries))):
                items = chance.sample(ITEMS, chance.randint(1, 5))
                for item in items:
                    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
                    moment = at + timedelta(seconds=chance.choice([0, 1, 86399, 82800, 3600]))
                    rows.append(
                        {
                            "ds": day,
                            "moment": moment,
                            "system": system,
                            "query_id": query,
                            "item_id": item,
                            "score": chance.choice([0.5, 1.0, 1.5, 2.25]),
                            "large": 2**60 + len(rows),
                            "broken": float(len(rows)),
                        }
                    )
    labels = [
        {"query_id": query, "item_id": item, "grade": chance.randrange(4)}
        for query in [*queries[:-1], "never searched"]
        for item in chance.sample(ITEMS, 4)
    ]
    return World(rows, labels, countries)


@dataclass
class Stored:
    """A setup in a folder: the spec that reads it, and the words that say where.

    Attributes:
        spec: What stands in the spec's YAML.
        where: The options that name the database.
        url: Its URL.
        profiles: What stands in profiles.yml, if anything does.
    """

    spec: Row
    where: list[str]
    url: str
    profiles: Row = field(default_factory=dict)


def url_of(database: str, folder: Path, postgres: str) -> str:
    """The database of a folder."""
    return {
        "duckdb": f"duckdb:///{folder / 'shop.duckdb'}",
        "sqlite": f"sqlite:///{folder / 'shop.sqlite'}",
        "postgres": postgres,
    }[database]


def store(setup: Setup, world: World, folder: Path, postgres: str) -> Stored:
    """Write the tables and files of a setup.

    Args:
        setup: How.
        world: The rows to write.
        folder: An empty folder.
        postgres: The URL of a server, with a schema of its own for this setup.
    """
    rankings = [_stored(row, setup, world.countries) for row in world.rankings]
    labels = [
        {**row, "grade": WORDS[row["grade"]]} if setup.words else dict(row) for row in world.labels
    ]
    countries = world.countries if setup.segments == "queries" else {}
    queries = [
        {"query_id": query, "market": market}
        | ({"country": countries[query]} if query in countries else {})
        for query, market in MARKETS.items()
    ]
    items = [{"item_id": item, "price": price} for item, price in PRICES.items()]
    tables = {"rankings": rankings, "labels": labels, "items": items, "queries": queries}
    write_files(folder / "metrics")
    url = url_of(setup.database, folder, postgres)
    spec: Row = {
        "version": 1,
        "name": "seams",
        **{name: source(setup, name, rows, folder, url) for name, rows in tables.items()},
        "metrics_from": "metrics",
        "metrics": metric_texts(METRICS),
        "output": {"relation": "metrics_of_seams", "per_query": "queries_of_seams"},
    }
    spec["rankings"]["columns"] = {"score": "score", "system": "system", "date": "ds"}
    if setup.day == "zoned":
        spec["rankings"]["time_zone"] = ZONE
    if setup.words:
        spec["labels"]["grades"] = {word: number for number, word in WORDS.items()}
    if setup.baseline:
        spec["baseline"] = "old's"
    if setup.segments:
        spec["by"] = ["country"]
    if setup.segments == "queries":
        spec["queries"]["columns"] = {"query": "query_id", "segments": ["country"]}
    if setup.source not in ("tables",) and setup.database == "duckdb":
        duckdb.connect(str(folder / "shop.duckdb")).close()
    return Stored(spec, *_location(setup, url, folder))


def write_files(folder: Path) -> None:
    """The metrics of the user's own."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.sql.jinja").write_text(text, encoding="utf-8")


def tables_by_system(setup: Setup, world: World, folder: Path, url: str) -> list[tuple[str, str]]:
    """The rankings as a table of its own for each system; the systems, and where they are."""
    tables = []
    for system in sorted({row["system"] for row in world.rankings}):
        rows = [_stored(row, setup, world.countries) for row in world.rankings]
        rows = [row for row in rows if row.pop("system") == system]
        name = f"run_{re.sub(r'[^a-z]', '', system)}"
        table = source(setup, name, rows, folder, url)
        tables.append((system, table.get("relation") or table["file"]))
    return tables


def _stored(row: Row, setup: Setup, countries: Mapping[str, str]) -> Row:
    days = {
        "date": row["ds"],
        "timestamp": row["moment"].replace(tzinfo=None),
        "timestamptz": row["moment"].astimezone(timezone(timedelta(hours=9))),
        "zoned": row["moment"].replace(tzinfo=ZoneInfo(ZONE)),
        "text": row["ds"].isoformat(),
    }
    names = ("system", "query_id", "item_id", "score", "large", "broken")
    values = {name: row[name] for name in names}
    segment = {"country": countries[row["query_id"]]} if setup.segments == "rankings" else {}
    return {"ds": days[setup.day], **values, **segment}


def _location(setup: Setup, url: str, folder: Path) -> tuple[list[str], str, Row]:
    output: Row = {"type": setup.database, "url": url}
    if setup.place == "dbt":
        if setup.database == "duckdb":
            output = {"type": "duckdb", "path": str(folder / "shop.duckdb"), "schema": "main"}
            output |= {"threads": 2}
        return [], url, {"shop": {"target": "dev", "outputs": {"dev": output}}}
    return {
        "db": (["--db", str(folder / "shop.duckdb")], url, {}),
        "connection": (["--connection", url], url, {}),
        "target": (
            ["--target", "prod"],
            url,
            {"target": "dev", "outputs": {"dev": {"type": "duckdb"}, "prod": output}},
        ),
        "default": ([], url, {"target": "prod", "outputs": {"prod": output}}),
    }[setup.place]


def source(setup: Any, name: str, rows: Sequence[Row], folder: Path, url: str) -> Row:
    """Write a table, and tell where it is as a spec does."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    if setup.source == "tables":
        _load(setup.database, name, names, rows, url)
        return {"relation": name}
    if setup.source == "ndjson":
        text = "\n".join(json.dumps(row, ensure_ascii=False, default=str) for row in rows)
        (folder / f"{name}.ndjson").write_text(text, encoding="utf-8")
        return {"file": f"{name}.ndjson"}
    if setup.source in ("csv", "spreadsheet"):
        spreadsheet = setup.source == "spreadsheet"
        with (folder / f"{name}.csv").open(
            "w", encoding="utf-8-sig" if spreadsheet else "utf-8", newline=""
        ) as file:
            to = csv.writer(file, delimiter=";" if spreadsheet else ",")
            to.writerow(names)
            for row in rows:
                cells = [str(row[key]) for key in names]
                for number in {"score", "price"} & {*row} if spreadsheet else ():
                    cells[names.index(number)] = str(row[number]).replace(".", ",")
                to.writerow(cells)
        decimal = {"decimal": ","} if spreadsheet and {"score", "price"} & {*names} else {}
        return {"file": f"{name}.csv", **decimal}
    if setup.source == "folder" and name == "rankings":
        for day in {str(row["ds"]) for row in rows}:
            part = folder / "lake" / f"ds={day}"
            part.mkdir(parents=True)
            day_rows = [{k: v for k, v in row.items() if k != "ds"} for row in rows]
            day_rows = [
                day_row
                for day_row, row in zip(day_rows, rows, strict=True)
                if str(row["ds"]) == day
            ]
            pq.write_table(pa.Table.from_pylist(day_rows), part / "part-0.parquet")
        return {"file": "lake"}
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / f"{name}.parquet")
    return {"file": f"{name}.parquet"}


def _type(value: Any) -> str:
    if isinstance(value, datetime):
        return "timestamptz" if value.tzinfo else "timestamp"
    if isinstance(value, date):
        return "date"
    if isinstance(value, int):
        return "bigint"
    return "double precision" if isinstance(value, float) else "text"


def _load(database: str, name: str, names: Sequence[str], rows: Sequence[Row], url: str) -> None:
    """A table by the database's own driver."""
    kinds = ", ".join(f"{key} {_type(rows[0][key])}" for key in names)
    values = [[row[key] for key in names] for row in rows]
    mark = "%s" if database == "postgres" else "?"
    insert = f"insert into {name} values ({', '.join([mark] * len(names))})"
    with connected(url) as connection:
        cursor = connection.cursor()
        cursor.execute(f"create table {name} ({kinds})")
        cursor.executemany(insert, values)
        connection.commit()


class connected:  # noqa: N801 (used as a block)
    """A database by its own driver, closed behind the block."""

    def __init__(self, url: str) -> None:
        if url.startswith("duckdb:///"):
            self._connection: Any = duckdb.connect(url.removeprefix("duckdb:///"))
        elif url.startswith("sqlite:///"):
            self._connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        else:
            import psycopg

            self._connection = psycopg.connect(url)

    def __enter__(self) -> Any:
        return self._connection

    def __exit__(self, *failure: object) -> None:
        self._connection.close()


def columns_nowhere(events: Path, url: str) -> list[str]:
    """The columns that lineage names and that its tables and files do not have.

    Args:
        events: OpenLineage's events, one a line.
        url: Where its tables are.
    """
    (*_, event) = map(json.loads, events.read_text("utf-8").splitlines())
    facets = [
        dataset["facets"]["columnLineage"]
        for dataset in event["outputs"]
        if "columnLineage" in dataset.get("facets", {})
    ]
    assert facets
    named = [entry for facet in facets for entry in facet.get("dataset", ())]
    named += [entry for f in facets for fs in f["fields"].values() for entry in fs["inputFields"]]
    columns_by_table: dict[str, set[str]] = {}
    for entry in named:
        if (name := entry["name"]) not in columns_by_table:
            if entry["namespace"] == "file":
                path = f"{name}/*/*.parquet" if Path(name).is_dir() else name
                with duckdb.connect() as files:
                    columns = files.execute(f"from '{path}'").description
            else:
                with connected(url) as connection:
                    cursor = connection.cursor()
                    cursor.execute(f"select * from {name.rpartition('.')[2]} limit 1")
                    columns = cursor.description
            columns_by_table[name] = {column[0] for column in columns}
    return [
        f"{entry['name']}.{entry['field']}"
        for entry in named
        if entry["field"] not in columns_by_table[entry["name"]]
    ]


def facts(url: str, table: str = "metrics_of_seams", spec: str = "seams") -> dict[Key, Row]:
    """The rows of a fact table by the database's own driver."""
    names = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
    numbers = ("value", "n_queries", "n_skipped", "n_missing")
    with connected(url) as connection:
        cursor = connection.cursor()
        cursor.execute(f"select {', '.join((*names, *numbers))} from {table} where spec = '{spec}'")
        return keyed(cursor.fetchall())


def keyed(rows: Sequence[Sequence[Any]]) -> dict[Key, Row]:
    """Rows of six keys and four numbers, by their keys."""
    rows_by_key: dict[Key, Row] = {}
    for day, system, segment, value, metric, k, *numbers in rows:
        metric_date = day if isinstance(day, date) else date.fromisoformat(str(day)[:10])
        key = (metric_date, system, segment, value, metric, int(k))
        assert key not in rows_by_key, f"twice: {key}"
        rows_by_key[key] = dict(
            zip(("value", "n_queries", "n_skipped", "n_missing"), numbers, strict=True)
        )
    return rows_by_key


def differences(actual: Mapping[Key, Row], wanted: Mapping[Key, Row]) -> list[str]:
    """What is not the same, in words."""
    lines = [f"too much: {key} {actual[key]}" for key in actual.keys() - wanted.keys()]
    lines += [f"not there: {key}" for key in wanted.keys() - actual.keys()]
    for key in actual.keys() & wanted.keys():
        for name, value in wanted[key].items():
            actual_value = actual[key][name]
            if value is None or actual_value is None:
                same = value is actual_value
            else:
                same = abs(actual_value - value) <= 1e-9 * max(1.0, abs(value))
            if not same:
                lines.append(f"{key} {name}: {actual_value}, should be {value}")
    return sorted(lines)
