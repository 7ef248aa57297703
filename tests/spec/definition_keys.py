"""Each key of a spec in turn, with other values: specs that differ in one key, and their data.

The keys are those of the JSON schema, so a new one has no values here until somebody gives it some.
"""

from __future__ import annotations

import csv
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.catalog.conventions import OPTIONS

Path_ = tuple[str, ...]
FIRST = date(2026, 1, 1)
DAYS = 3


def leaves(schema: Mapping[str, Any]) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
    """Each key of a spec that holds a value, with what the schema says of it."""
    yield from _leaves(schema, schema["$defs"], ())


def _leaves(
    node: Mapping[str, Any], definitions: Mapping[str, Any], path: Path_
) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
    while named := [
        part["$ref"].split("/")[-1]
        for part in (
            node,
            *(branch for key in ("anyOf", "oneOf", "allOf") for branch in node.get(key, ())),
        )
        if "$ref" in part
    ]:
        node = definitions[named[0]]
    if "properties" in node:
        for key, value in node["properties"].items():
            yield from _leaves(value, definitions, (*path, key))
    elif "$ref" in node.get("items", {}):
        yield from _leaves(node["items"], definitions, path)
    else:
        yield path, node


def _branches(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for key in ("anyOf", "oneOf", "allOf"):
        yield from node.get(key, ())


# data


def rankings(seed: int = 1) -> list[dict[str, Any]]:
    """Lists of three systems and days, with ties; each column has a second one beside it."""
    chance = random.Random(seed)
    rows = []
    for day, system, query in itertools.product(range(DAYS), ("base", "new", "old"), range(6)):
        if system == "old" and day == 1:
            continue
        country = chance.choice(("DE", "US"))
        weight = chance.choice((0.5, 1.0, 3.0))
        for rank, item in enumerate(chance.sample(range(9), 6), 1):
            score = chance.choice((0.2, 0.5, 0.5000000001, 1.0, 3.0))
            rows.append(
                {
                    "query_id": f"q{query}",
                    "query_2": f"q{5 - query}",
                    "item_id": f"i{item}" if item else f"q{query}",
                    "item_2": f"i{8 - item}",
                    "score": score,
                    "score_2": chance.random(),
                    "rank": rank,
                    "rank_2": 7 - rank,
                    "system": system,
                    "system_2": {"base": "new", "new": "old", "old": "base"}[system],
                    "day": FIRST + timedelta(day),
                    "day_2": FIRST + timedelta(2 - day),
                    "moment": datetime(2026, 1, 1, 3 * query, tzinfo=UTC) + timedelta(day),
                    "country": country,
                    "weight": weight,
                    "weight_2": 4 - weight,
                    "level": chance.choice(("high", "low", "none")),
                    "level_2": chance.choice(("high", "low", "none")),
                    "shopper": f"u{query // 2}",
                }
            )
    country_of = {(row["day"], row["query_id"]): row for row in rows}
    same = ("country", "weight", "weight_2")
    level_of = {(row["query_id"], row["item_id"]): row for row in rows}
    return [
        row
        | {name: country_of[row["day"], row["query_id"]][name] for name in same}
        | {name: level_of[row["query_id"], row["item_id"]][name] for name in ("level", "level_2")}
        for row in rows
    ]


def labels(seed: int = 2) -> list[dict[str, Any]]:
    """Grades as numbers and as texts; of an item that is a query too, and of one query more."""
    chance = random.Random(seed)
    return [
        {
            "query_id": f"q{query}",
            "query_2": f"q{6 - query}",
            "item_id": f"i{item}" if item else f"q{query}",
            "item_2": f"i{8 - item}",
            "grade": chance.choice((0, 0, 1, 2, 3)) if query != 4 else 0,
            "grade_2": chance.choice((0, 1, 2)),
            "level": chance.choice(("high", "low", "none")),
            "group_id": f"g{chance.randrange(3)}",
            "group_2": f"g{chance.randrange(3)}",
            "day": FIRST + timedelta(day),
            "moment": datetime(2026, 1, 1, 3 * query, tzinfo=UTC) + timedelta(day),
        }
        for day, query in itertools.product(range(DAYS), range(7))
        for item in chance.sample(range(9), 5)
    ]


def queries() -> list[dict[str, Any]]:
    """What is known of queries, one a row; and of each on each day in another table."""
    return [
        {
            "query_id": f"q{query}",
            "query_2": f"q{5 - query}",
            "text": " ".join(["word"] * (1 + query)),
            "text_2": " ".join(["word"] * (6 - query)),
            "weight": 1.0 + query,
            "weight_2": 7.0 - query,
            "device": "phone" if query % 2 else "desktop",
            "shopper": f"u{query // 2}",
        }
        for query in range(6)
    ]


def items() -> list[dict[str, Any]]:
    """What is known of items."""
    return [
        {
            "item_id": f"i{item}" if item < 9 else f"q{item - 9}",
            "item_2": f"i{8 - item}" if item < 9 else f"q{14 - item}",
            "title": f"Item {item}",
            "title_2": f"Other {item}",
            "category": f"c{item % 3}",
            "category_2": f"c{item % 2}",
            "popularity": 1 + 3 * item,
            "popularity_2": 70 - 4 * item,
            "users": 100,
            "users_2": 1000,
            "vector": [float(item), 1.0],
            "vector_2": [1.0, float(item % 4)],
        }
        for item in range(15)
    ]


def impressions(seed: int = 3) -> list[dict[str, Any]]:
    """A log as one wide table, of which that of events is made."""
    chance = random.Random(seed)
    rows = []
    for day, number in itertools.product(range(DAYS), range(14)):
        begun = datetime(2026, 1, 1, chance.randrange(24), tzinfo=UTC) + timedelta(day)
        query, user = chance.randrange(3), chance.randrange(4)
        ranked = chance.sample("abcdef", 4)
        for position, item in enumerate(ranked, 1):
            clicked = int(chance.random() < 0.7 / position + 0.1)
            rows.append(
                {
                    "request_id": f"r{day}-{number}",
                    "request_2": f"r{day}-{number // 2}",
                    "query": f"w{query}",
                    "query_2": f"w{(query + number) % 3}",
                    "item_id": item,
                    "item_2": chr(ord("a") + ord("f") - ord(item)),
                    "position": position,
                    "position_2": 5 - position,
                    "position_0": position - 1 if number % 2 else position,
                    "system": "new" if number % 2 else "old",
                    "system_2": "new" if number % 3 else "old",
                    "user_id": f"u{user}",
                    "user_2": f"u{number % 5}",
                    "session": f"s{day}-{number // 3}",
                    "session_2": f"s{day}-{number // 4}",
                    "team": "new" if position % 2 else "old",
                    "team_2": "old" if position % 2 else "new",
                    "time": begun,
                    "time_2": begun + timedelta(hours=9),
                    "millis": int(begun.timestamp() * 1000),
                    "day": begun.date(),
                    "day_2": (begun + timedelta(1)).date(),
                    "chance": 0.1 + 0.2 * position,
                    "chance_2": 0.9 - 0.2 * position,
                    "list_chance": 0.1 + 0.05 * number,
                    "list_chance_2": 0.9 - 0.05 * number,
                    "device": "phone" if number % 3 else "desktop",
                    "country": "DE" if number % 4 else "US",
                    "clicked": clicked,
                    "clicked_2": int(chance.random() < 0.4),
                    "bought": int(clicked and chance.random() < 0.5),
                    "bought_2": int(chance.random() < 0.2),
                    "dwell": float(chance.randrange(90)),
                    "dwell_2": float(chance.randrange(90)),
                    "is_test": int(number == 5),
                    "shuffled": int(number % 2),
                }
            )
    return rows


def events(seed: int = 4) -> list[dict[str, Any]]:
    """What was done in that log, sometimes twice, sometimes late, and once by a bot."""
    chance = random.Random(seed)
    rows = []
    for row in impressions():
        for action in [*["click"] * row["clicked"], *["purchase"] * row["bought"]]:
            for _ in range(1 + (chance.random() < 0.3)):
                at = row["time"] + timedelta(seconds=chance.choice((20, 400, 4000)))
                rows.append(
                    {
                        **{name: row[name] for name in ("request_id", "request_2")},
                        **{name: row[name] for name in ("item_id", "item_2", "user_2", "day")},
                        "user_id": row["user_id"],
                        "action": action,
                        "action_2": "purchase" if action == "click" else "click",
                        "dwell": row["dwell"],
                        "dwell_2": row["dwell_2"],
                        "time": at,
                        "time_2": at + timedelta(hours=2),
                        "millis": int(at.timestamp() * 1000),
                        "day_2": row["day_2"],
                        "is_odd": int(chance.random() < 0.2),
                    }
                )
    return rows


def requests() -> list[dict[str, Any]]:
    """Every search of that log, and some that found nothing."""
    first = {row["request_id"]: row for row in reversed(impressions())}
    names = ("request_id", "request_2", "query", "query_2", "system", "system_2", "user_id")
    names += (
        "user_2",
        "time",
        "time_2",
        "millis",
        "day",
        "day_2",
        "session",
        "session_2",
        "device",
    )
    names += ("country",)
    searches = [{name: row[name] for name in names} for row in first.values()]
    searches = [row | {"results": 4, "results_2": n % 2} for n, row in enumerate(searches)]
    empty = [
        row | {"request_id": f"empty-{n}", "request_2": f"none-{n}", "results": 0, "results_2": 3}
        for n, row in enumerate(searches[::5])
    ]
    return searches + empty


def unshown() -> list[dict[str, Any]]:
    """Lists of two systems that were not shown, by query and by request."""
    chance = random.Random(5)
    first = {row["request_id"]: row for row in impressions()}
    of_requests = [(request, row["query"]) for request, row in first.items()]
    keys = [(f"w{query}", f"w{2 - query}") for query in range(3)] + of_requests
    return [
        {
            "list": key,
            "list_2": other,
            "item_id": item,
            "item_2": chr(ord("a") + ord("f") - ord(item)),
            "score": chance.random(),
            "score_2": chance.random(),
            "rank": rank,
            "rank_2": 7 - rank,
            "system": system,
            "system_2": "two" if system == "one" else "one",
        }
        for system in ("one", "two")
        for key, other in keys
        for rank, item in enumerate(chance.sample("abcdef", 6), 1)
    ]


def policies() -> list[dict[str, Any]]:
    """How likely a policy chooses each item at each position."""
    return [
        {
            "item_id": item,
            "item_2": chr(ord("a") + ord("f") - ord(item)),
            "position": position,
            "position_2": 5 - position,
            "p": weight / 21,
            "p_2": (7 - weight) / 21,
        }
        for position in range(1, 5)
        for weight, item in enumerate("abcdef", 1)
    ]


def ubi() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The same log as User Behavior Insights: queries, and events with impressions among them."""
    by_request: dict[str, list[dict[str, Any]]] = {}
    for row in impressions():
        by_request.setdefault(row["request_id"], []).append(row)
    ubi_queries = [
        {
            "query_id": request,
            "user_query": rows[0]["query"],
            "client_id": rows[0]["user_id"],
            "timestamp": rows[0]["time"].isoformat(),
            "query_response_hit_ids": [row["item_id"] for row in rows[1:]],
        }
        for request, rows in by_request.items()
    ]
    ubi_events = [
        {
            "action_name": action,
            "query_id": row["request_id"],
            "user_query": row["query"],
            "client_id": row["user_id"],
            "timestamp": row["time"].isoformat(),
            "event_attributes": {
                "object": {"object_id": row["item_id"]},
                "position": {"ordinal": row["position_0"]},
            },
        }
        for row in impressions()
        for action in ["impression", *["click"] * row["clicked"], *["purchase"] * row["bought"]]
    ]
    return ubi_queries, ubi_events


def tables() -> dict[str, pa.Table]:
    """All tables by their names; `other_` ones have other rows."""
    ubi_queries, ubi_events = ubi()
    dated = [row | {"day": FIRST + timedelta(day)} for day in range(DAYS) for row in queries()]
    zoned = [
        row | {"moment": datetime(2026, 1, 1, 3 * n, tzinfo=UTC) + timedelta(day)}
        for day in range(DAYS)
        for n, row in enumerate(queries())
    ]
    one_day = [row for row in labels() if row["day"] == FIRST]
    records = {
        "rankings": rankings(),
        "labels": one_day,
        "dated_labels": labels(),
        "queries": queries(),
        "dated_queries": dated,
        "zoned_queries": zoned,
        "items": items(),
        "lists": [
            {"query_id": row["query_id"], "items": [row["item_id"], "i1", "i2"]}
            for row in one_day[::5]
        ],
        "impressions": impressions(),
        "events": events(),
        "requests": requests(),
        "unshown": unshown(),
        "lists_of_one": [row for row in unshown() if row["system"] == "one"],
        "policies": policies(),
        "ubi_queries": ubi_queries,
        "ubi_events": ubi_events,
    }
    records |= {f"other_{name}": rows[: 2 * len(rows) // 3] for name, rows in records.items()}
    return {name: pa.Table.from_pylist(rows) for name, rows in records.items()}


def write_files(folder: Path) -> None:
    """The tables as Parquet, and CSV files whose numbers depend on how they are read."""
    for name, rows in tables().items():
        pq.write_table(rows, folder / f"{name}.parquet")
    plain = ("query_id", "item_id", "score", "system", "day")
    for name in ("runs.csv", "other_runs.csv"):
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerow([*plain[:2], "score|score_2", *plain[3:]])
            for row in rankings(1 if name == "runs.csv" else 9):
                score = f"{row['score']:.3f}".replace(".", ",")
                writer.writerow([row["query_id"], row["item_id"], score, row["system"], row["day"]])
    _write(folder / "truth.csv", [row for row in labels() if row["day"] == FIRST])
    _write(folder / "asked.csv", queries())
    _write(
        folder / "known.csv",
        [{k: v for k, v in row.items() if "vector" not in k} for row in items()],
    )

    for name, term in (("plain", "grade"), ("other", "grade * grade")):
        (folder / f"{name}_metrics").mkdir(exist_ok=True)
        text = OWN_METRIC.replace("TERM", term)
        (folder / f"{name}_metrics" / "mine.sql.jinja").write_text(text)


OWN_METRIC = """{#
formula = "made up"
over = "ranked"
[[examples]]
list = ["a"]
labels = {a = 1}
value = 1.0
#}
sum({{ m.in_top("TERM / rnk") }})
"""


def _write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


# specs

OUTPUT = {"relation": "metrics"}
RANKED = {"score": "score", "system": "system", "date": "day"}
LISTS: dict[str, Any] = {
    "name": "shop",
    "rankings": {"relation": "rankings", "columns": RANKED},
    "labels": {"relation": "labels"},
    "queries": {
        "relation": "queries",
        "columns": {"text": "text", "weight": "weight", "segments": ["device", "shopper"]},
    },
    "items": {
        "relation": "items",
        "columns": {
            "title": "title",
            "category": "category",
            "popularity": "popularity",
            "users": "users",
            "vector": "vector",
        },
    },
    "metrics": [
        "ndcg@3",
        "recall(rel=2)@3",
        "precision@8",
        "mrr",
        "ap@4",
        "err@3",
        "gauc",
        "pnr",
        "bpref",
        "f1@3",
        "iprec@5",
        "ils@3",
        "novelty@3",
        "miuf@3",
        "rbo@3",
        "num_ret",
        "judged@3",
        "hit@2",
        "first_rank",
        "list_auc",
    ],
    "conventions": {"duplicate_labels": "max_grade"},
    "by": ["device", "new"],
    "segments": {"new": "query_id < 'q3'"},
    "cluster": "shopper",
    "baseline": "base",
    "output": OUTPUT,
}
FEW = ["ndcg@3", "mrr", "recall@2"]
IMPRESSION_COLUMNS = {
    "query": "query",
    "system": "system",
    "user": "user_id",
    "session": "session",
    "team": "team",
    "time": "time",
    "day": "day",
    "propensity_score": "chance",
    "list_propensity_score": "list_chance",
    "segments": ["device"],
}
OF_LOG = ["ndcg@3", "mrr", "ctr@2", "abandonment", "zero_result_rate", "first_click_rank"]
OF_LOG += ["max_rr", "p_skip", "time_to_first_click", "purchases", "session_success"]
CLEANED = {"min_dwell": 5, "attribution_window": "1h", "max_events_per_user_hour": 9}
EVENTS: dict[str, Any] = {
    "name": "shop",
    "clicks": {
        "impressions": {"relation": "impressions", "columns": IMPRESSION_COLUMNS},
        "events": {
            "relation": "events",
            "columns": {"dwell": "dwell", "user": "user_id", "time": "time", "day": "day"},
        },
        "requests": {
            "relation": "requests",
            "columns": {
                "query": "query",
                "system": "system",
                "user": "user_id",
                "time": "time",
                "day": "day",
                "session": "session",
                "results": "results",
                "segments": ["device"],
            },
        },
        "cleaning": CLEANED,
        "labels": {"grades": {"click": 1, "purchase": 3}},
    },
    "metrics": OF_LOG,
    "by": ["device"],
    "output": OUTPUT,
}
WIDE: dict[str, Any] = {
    "name": "shop",
    "clicks": {
        "log": {
            "relation": "impressions",
            "columns": IMPRESSION_COLUMNS
            | {"clicked": "clicked", "actions": {"purchase": "bought"}, "dwell": "dwell"},
        },
        "cleaning": {"min_dwell": 5},
        "labels": {"grades": {"click": 1, "purchase": 3}},
    },
    "metrics": [
        metric for metric in OF_LOG if metric not in ("time_to_first_click", "zero_result_rate")
    ],
    "by": ["device"],
    "output": OUTPUT,
}


def _log(metrics: Sequence[str], **clicks: Any) -> dict[str, Any]:
    """The wide log with other keys of `clicks`."""
    return {**WIDE, "metrics": metrics, "clicks": {"log": WIDE["clicks"]["log"], **clicks}}


def _estimated(**counterfactual: Any) -> dict[str, Any]:
    curve = {"method": "given", "given": {1: 1, 2: 0.6, 3: 0.4, 4: 0.3}}
    return _log(["ctr"], propensity=curve, counterfactual=counterfactual)


POOLED = {"pool": "query_item", "window": {"start": "2026-01-01", "end": "2026-01-03"}}
LAST = {"start": "2026-01-03", "end": "2026-01-04"}
LEARNED = {"positions": 3, "min_clicks": 1, "max_weight": 2}
BASES: Mapping[str, tuple[Sequence[str], dict[str, Any]]] = {
    # name -> the keys that are changed in it, by their beginnings; the spec
    "lists": (
        ("", "-clicks", "-conventions", "-rankings.grades", "-rankings.columns.grade"),
        LISTS,
    ),
    "conventions": (
        ("conventions", "preset", "confidence"),
        {
            **LISTS,
            "metrics": [*LISTS["metrics"], "auc", "coverage@3", "gini@3"],
            "queries": None,
            "cluster": None,
            "by": [],
            "segments": {},
        },
    ),
    "doubled": (
        ("conventions.duplicate", "conventions.identical"),
        {
            **LISTS,
            "metrics": FEW,
            "rankings": {"sql": "from rankings union all from rankings", "columns": RANKED},
            "conventions": {"duplicate_rankings": "best_score", "duplicate_labels": "max_grade"},
        },
    ),
    "groups": (
        ("labels",),
        {
            **LISTS,
            "labels": {"relation": "dated_labels", "columns": {"group": "group_id", "date": "day"}},
            "metrics": ["alpha_ndcg@3", "subtopic_recall@3", "ndcg@3"],
        },
    ),
    "texts": (
        ("labels.grades", "labels.columns.grade"),
        {
            **LISTS,
            "metrics": FEW,
            "labels": {
                "relation": "labels",
                "columns": {"grade": "level"},
                "grades": {"high": 3, "low": 1, "none": 0},
            },
        },
    ),
    "joined": (
        ("rankings", "-rankings.lists"),
        {
            "name": "shop",
            "rankings": {
                "relation": "rankings",
                "columns": {"rank": "rank", "system": "system", "date": "day", "grade": "level"}
                | {"weight": "weight"},
                "grades": {"high": 3, "low": 1, "none": 0},
            },
            "metrics": FEW,
            "by": ["country"],
            "segments": {"early": "rank < 3"},
            "output": OUTPUT,
        },
    ),
    "zones": (
        ("rankings.time_zone", "labels.time_zone", "queries.time_zone", "queries.columns.date"),
        {
            **LISTS,
            "metrics": FEW,
            "rankings": {"relation": "rankings", "columns": RANKED | {"date": "moment"}},
            "labels": {"relation": "dated_labels", "columns": {"date": "moment"}},
            "queries": {
                "relation": "zoned_queries",
                "columns": {"date": "moment", "weight": "weight", "segments": ["device"]},
            },
            "cluster": None,
        },
    ),
    "lists in rows": (
        ("labels.lists", "rankings.lists"),
        {
            **LISTS,
            "metrics": FEW,
            "labels": {"relation": "lists", "columns": {"item": "items"}},
        },
    ),
    "queries of days": (
        ("queries", "cluster"),
        {
            **LISTS,
            "metrics": FEW,
            "queries": {
                "relation": "dated_queries",
                "columns": {"date": "day", "weight": "weight", "segments": ["device", "shopper"]},
            },
        },
    ),
    "own metrics": (
        ("metrics_from",),
        {**LISTS, "metrics": ["mine@2", "mrr"], "metrics_from": "plain_metrics"},
    ),
    "sql": (
        ("rankings.sql", "labels.sql", "queries.sql", "items.sql"),
        {
            **LISTS,
            "rankings": {"sql": "select * from rankings", "columns": RANKED},
            "labels": {"sql": "select * from labels"},
            "queries": {**LISTS["queries"], "relation": None, "sql": "from queries"},
            "items": {**LISTS["items"], "relation": None, "sql": "from items"},
        },
    ),
    "files": (
        (
            "rankings.file",
            "rankings.separator",
            "rankings.decimal",
            "labels.file",
            "labels.separator",
            "labels.decimal",
            "queries.file",
            "queries.separator",
            "queries.decimal",
            "items.file",
            "items.separator",
            "items.decimal",
        ),
        {
            **LISTS,
            "metrics": [*FEW, "novelty@3"],
            "rankings": {
                "file": "runs.csv",
                "separator": ";",
                "decimal": ",",
                "columns": RANKED | {"score": "score|score_2"},
            },
            "labels": {"file": "truth.csv"},
            "queries": {**LISTS["queries"], "relation": None, "file": "asked.csv"},
            "items": {
                "file": "known.csv",
                "columns": {"category": "category", "popularity": "popularity"},
            },
        },
    ),
    "fused": (
        ("rankings.fuse", "rankings.fused_only", "baseline"),
        {
            **LISTS,
            "rankings": {
                **LISTS["rankings"],
                "fuse": [{"name": "mixed", "runs": ["base", "new"], "method": "sum"}],
            },
            "baseline": "mixed",
        },
    ),
    "events": (
        (
            "clicks",
            "online",
            "metrics",
            "by",
            "confidence",
            "-clicks.log",
            "-clicks.format",
            "-clicks.lists_from",
            "-clicks.propensity",
            "-clicks.counterfactual",
            "-clicks.experiment",
        ),
        EVENTS,
    ),
    "shown": (
        ("clicks.ranked", "clicks.interleaving", "clicks.experiment"),
        {
            **EVENTS,
            "clicks": {
                **EVENTS["clicks"],
                "ranked": {"relation": "unshown", "columns": {"query": "list", "score": "score"}},
                "experiment": {
                    "variants": ["old", "new"],
                    "control": "old",
                    "start": "2026-01-01",
                    "end": "2026-02-01",
                    "cuped_days": 2,
                    "primary": "ctr@2",
                    "guardrails": [{"metric": "purchases", "max_drop_pct": 5}],
                    "triggered": "lists_differ",
                    "lists": {
                        "relation": "unshown",
                        "columns": {"query": "list", "rank": "rank"},
                    },
                },
                "interleaving": {
                    "method": "balanced",
                    "rankings": {
                        "relation": "unshown",
                        "columns": {"query": "list", "rank": "rank"},
                    },
                },
            },
        },
    ),
    "log": (("clicks.log", "clicks.cleaning", "clicks.success_actions", "cluster"), WIDE),
    "ubi": (
        (
            "clicks.format",
            "clicks.lists_from",
            "clicks.requests",
            "clicks.events.where",
            "clicks.events.relation",
        ),
        {
            "name": "shop",
            "clicks": {
                "format": "ubi",
                "requests": {"relation": "ubi_queries"},
                "events": {"relation": "ubi_events"},
            },
            "metrics": ["ndcg@3", "mrr", "ctr@2", "abandonment"],
            "output": OUTPUT,
        },
    ),
    "opensearch": (
        ("clicks.labels",),
        {
            "name": "shop",
            "clicks": {
                "format": "ubi",
                "requests": {"relation": "ubi_queries"},
                "events": {"relation": "ubi_events"},
                "labels": {"pool": "query_item", "rate": "opensearch_coec", "max_rank": 3},
            },
            "metrics": FEW,
            "output": OUTPUT,
        },
    ),
    "pooled": (
        ("clicks.labels", "clicks.evaluation", "clicks.log.columns.query", "clicks.propensity"),
        _log(FEW, labels={**POOLED, "rate": "ctr"}, evaluation=LAST),
    ),
    "given": (
        ("clicks.labels.rate", "clicks.propensity"),
        _log(
            FEW,
            labels={**POOLED, "rate": "ips"},
            evaluation=LAST,
            propensity={"method": "given", "given": {1: 1, 2: 0.6, 3: 0.4, 4: 0.3}, **LEARNED},
        ),
    ),
    **{
        method: (
            ("clicks.labels.rate", "clicks.labels.prior", "clicks.propensity"),
            _log(
                FEW,
                labels={**POOLED, "rate": "coee"},
                evaluation=LAST,
                propensity={"method": method, **LEARNED, **options},
            ),
        )
        for method, options in (
            ("em", {"tolerance": 0.01, "max_rounds": 4}),
            ("harvest", {}),
            ("randomised", {"randomised": "shuffled = 1"}),
        )
    },
    "unshown": (
        ("clicks.counterfactual", "-clicks.counterfactual.policy", "clicks.propensity"),
        _estimated(
            rankings={
                "relation": "unshown",
                "columns": {"query": "list", "score": "score", "system": "system"},
            },
            match="query",
            metrics=["dcg@3", "precision@2"],
            clip=1.5,
        ),
    ),
    "whole lists": (
        (
            "clicks.counterfactual",
            "-clicks.counterfactual.policy",
            "clicks.log.columns.list_propensity_score",
        ),
        _estimated(
            rankings={
                "relation": "lists_of_one",
                "columns": {"query": "list", "rank": "rank"},
            },
            match="query",
            metrics=["mrr@1"],
            list_depth=2,
        ),
    ),
    "policy": (
        (
            "clicks.counterfactual",
            "-clicks.counterfactual.rankings",
            "clicks.log.columns.propensity_score",
        ),
        _estimated(
            policy={
                "relation": "policies",
                "columns": {"position": "position", "probability": "p"},
            }
        ),
    ),
    "uniform": (
        ("clicks.counterfactual.actions", "clicks.counterfactual.policy"),
        _estimated(policy="uniform", actions=8),
    ),
}

ALTERNATIVES: Mapping[str, Sequence[Any]] = {
    "metrics_from": ["other_metrics", ["plain_metrics"]],
    # the end of a key, the longest that fits -> its other values
    "version": [1],
    "name": ["other"],
    "where": ["true"],
    "rankings.where": ["query_id <> 'q1'", "score > 0.3"],
    "fuse.runs": [["base", "old"], ["new", "base"], ["base", "new", "old"]],
    "fuse.weights": [{"base": 1, "new": 3}, [2, 1]],
    "labels.where": ["grade < 3", "query_id <> 'q1'"],
    "queries.where": ["query_id <> 'q1'"],
    "items.where": ["popularity > 9"],
    "impressions.where": ["position < 4", "is_test = 0"],
    "log.where": ["position < 4", "is_test = 0"],
    "events.where": ["is_odd = 0", "query_id <> 'r0-1'"],
    "requests.where": ["query <> 'w1'", "user_query <> 'w1'"],
    "counterfactual.rankings.where": ["item_id <> 'a'"],
    "counterfactual.policy.where": ["item_id <> 'a'"],
    "separator": [",", "|", ";"],
    "lists": [True],
    "grades": [{"high": 1, "low": 3, "none": 0}, {"high": 3, "low": 2, "none": 0, "odd": 9}],
    "clicks.labels.grades": [{"click": 2, "purchase": 3}, {"click": 1}],
    "time_zone": ["UTC", "Asia/Tokyo", "America/Los_Angeles"],
    "segments": [[], ["device", "country"], ["country"]],
    "conventions.min_score": ["none", 0.4, 2],
    "conventions.depth": ["none", 2, 4],
    "conventions.gain": [{1: 1, 2: 4}],
    "cleaning.test": ["is_test = 1", "position = 2"],
    "max_events_per_user_hour": [None, 1, 3],
    "min_dwell": [None, 0, "30s"],
    "attribution_window": [None, "5m", "2h"],
    "unseen": [0, 1],
    "prior": [0, 5],
    "min_impressions": [2, 5],
    "cuts": [[0.2, 0.5], [0.3]],
    "quantiles": [[0.5], [0.2, 0.8]],
    "max_rank": [None, 1, 2],
    "window.start": ["2026-01-02", None],
    "window.end": ["2026-01-02"],
    "evaluation.start": [None, "2026-01-02"],
    "evaluation.end": [None, "2026-01-02"],
    "propensity.given": [
        {1: 1, 2: 0.3, 3: 0.2, 4: 0.1},
        {"phone": {1: 1, 2: 0.3}, "desktop": {1: 1, 2: 0.9}},
    ],
    "randomised": ["shuffled = 0", "is_test = 0"],
    "propensity.by": ["device"],
    "positions": [2, 4],
    "min_clicks": [3, 500],
    "max_weight": [1, 3],
    "tolerance": [1e-6, 0.5],
    "max_rounds": [1, 50],
    "replicates": [0, 20],
    "propensity.confidence": [0.5],
    "counterfactual.policy": ["uniform"],
    "counterfactual.system": ["three"],
    "actions": [None, 20],
    "log.columns.actions": [
        {},
        {"purchase": "bought_2"},
        {"purchase": "bought", "save": "clicked_2"},
    ],
    "counterfactual.metrics": [["dcg@3"], ["recall@2", "dcg@3"], ["hit@1"], ["mrr@2"]],
    "list_depth": [None, 1, 3],
    "estimators": [["ips"], ["snips", "dr"]],
    "clip": [None, 1, 30],
    "interleaving.baseline": ["old"],
    "experiment.variants": [["old", "new", "third"]],
    "experiment.control": ["new"],
    "experiment.shares": [{"old": 9, "new": 1}],
    "experiment.start": ["2026-01-02"],
    "experiment.end": ["2026-03-01"],
    "experiment.primary": ["abandonment"],
    "experiment.wanted_pct": [2],
    "experiment.level": [0.8],
    "experiment.cuped_days": [None, 9],
    "experiment.winsorise": [0.9],
    "experiment.triggered": [None, "device"],
    "guardrails.metric": ["abandonment"],
    "guardrails.max_drop_pct": [2],
    "success_actions": [["purchase"], ["click", "purchase"]],
    "day_margin": [0, 3],
    "online": [["ctr@1"], ["max_rr"]],
    "metrics": [
        ["mrr", "ndcg@3"],
        ["x = mrr + ndcg@3"],
        ["ndcg(gain=linear)@3", "recall(rel=1)@3"],
    ],
    "by": [[], ["device"], ["new", "device", "shopper"], ["country"]],
    "segments.": [{"new": "query_id < 'q2'"}, {"new": "traffic"}, {"early": "rank < 2"}],
    "cluster": [None, "device", "shopper", "user_id"],
    "confidence": [0.8],
    "baseline": [None, "new"],
    "output.relation": ["other"],
    "output.per_query": ["other_queries"],
    "output.runs": ["other_runs"],
    "output.keep": [3, "10 days"],
    "checks.metric": ["mrr"],
    "checks.system": ["new"],
    "checks.against": ["base"],
    "checks.segment": [{"device": "phone"}],
    "checks.since": ["2026-01-02"],
}

BESIDE: Mapping[str, Any] = {
    "checks": [{"metric": "ndcg@3", "min": 0.1}],
    "fuse": [{"name": "mixed", "runs": ["base", "new"]}],
}
"""What a change needs beside it: checks, and systems to fuse, are a list."""


def alternatives(path: Path_, node: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Any]:
    """Other values of a key, in a spec; none if nobody has given it any."""
    now, (*parent, last) = value_at(spec, path), path
    source = value_at(spec, parent)
    if last in ("relation", "sql", "file") and isinstance(source, Mapping):
        return _places(last, source)
    if "columns" in parent and last not in ("segments", "actions"):
        return _columns(path, source, now)
    if path[0] == "conventions":
        chosen = [
            choice.name
            for choice in OPTIONS[last].choices
            if choice.name not in ("number", "table")
        ]
        return [*chosen, *ALTERNATIVES.get(".".join(path), ())]
    ends = [".".join(path[n:]) + "." * (path == ("segments",)) for n in range(len(path))]
    values = next((ALTERNATIVES[end] for end in ends if end in ALTERNATIVES), None)
    return [*_of_type(node, now)] if values is None else [*values]


def _of_type(node: Mapping[str, Any], now: Any) -> Iterator[Any]:
    """The other values that the schema lists; 2 for a number of a check."""
    if "enum" in node:
        yield from (value for value in node["enum"] if value != now)
    elif node.get("type") == "boolean":
        yield not (node.get("default") if now is None else now)
    elif {"number", "integer"} & {*node.get("type", ())} and "description" in node:
        yield 2


def _places(key: str, source: Mapping[str, Any]) -> list[Any]:
    """Another table, query or file in the place of one; a query that leaves rows out too."""
    name = source.get("relation") or "rankings"
    if key == "relation":
        return [f"other_{name}"]
    if key == "file":
        return [f"other_{source['file']}" if source.get("file") else f"{name}.parquet"]
    if text := source.get("sql"):
        is_of = text.rsplit(" ", 1)[-1]
        return [f"{text} limit 0", f"SELECT *  from {is_of} -- all", f"from other_{is_of}"] + [
            f"select * from {is_of} where {column} not like '%1'"
            for column in ("query_id", "item_id")
        ]
    return [f"select * from {name}", f"select * from {name} where item_id not in ('i1', 'a')"]


ROLES = {"query": "list", "propensity_score": "chance", "list_propensity_score": "list_chance"}
ROLES |= {"date": "day", "group": "group_id", "user": "user_id", "request": "request_id"}
ROLES |= {"item": "item_id", "probability": "p", "grade": "level"}
"""Role -> its column, where it is not called so."""


def _columns(path: Path_, source: Any, now: Any) -> list[Any]:
    """Another column of the same kind, the first one where there is none, and no column."""
    role = path[-1]
    name = now or {"query": "query_id"}.get(role) or ROLES.get(role, role)
    if role == "query" and "unshown" in str(source):
        name = "list"
    if role == "query" and "clicks.log" in ".".join(path):
        name = "query"
    if role in ("query", "grade", "weight", "time") and now is None:
        name = {"query": "query", "grade": "grade", "weight": "weight", "time": "time"}[role]
    other = f"{name.removesuffix('_id')}_2" if name != "moment" else "day"
    extra = {"time": ["millis"], "position": ["position_0"], "date": ["moment"]}.get(role, [])
    return [other, *(column for column in (None, name) if column != now), *extra]


def value_at(spec: Any, path: Sequence[str]) -> Any:
    """What a spec has under a key; None if nothing."""
    for key in path:
        spec = spec[0] if isinstance(spec, list) else spec
        spec = spec.get(key) if isinstance(spec, Mapping) else None
    return spec


def changed(spec: Mapping[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """A spec with another value of a key; another place takes the place of a source's own."""
    new = deepcopy(dict(spec))
    node: Any = new
    for key in path[:-1]:
        node = node[0] if isinstance(node, list) else node
        below = node.get(key)
        if not isinstance(below, dict | list):
            node[key] = deepcopy(BESIDE.get(key, {}))
        node = node[key]
    node = node[0] if isinstance(node, list) else node
    if path[-1] in ("relation", "sql", "file"):
        node |= dict.fromkeys(("relation", "sql", "file"))
    if path[-1] in ("score", "rank") and value is not None and path[-2] == "columns":
        node |= dict.fromkeys(("score", "rank"))
    node[path[-1]] = value
    return new


def changes(schema: Mapping[str, Any]) -> Iterator[tuple[str, Path_, Any]]:
    """Base, key and another value of it: all of them."""
    for path, node in leaves(schema):
        key = ".".join(path)
        for base, (beginnings, spec) in BASES.items():
            without = [prefix[1:] for prefix in beginnings if prefix.startswith("-")]
            prefixes = [prefix for prefix in beginnings if not prefix.startswith("-")]
            if not any(map(key.startswith, prefixes)) or any(map(key.startswith, without)):
                continue
            if path[0] == "clicks" and not _has_place(spec, path):
                continue
            for value in alternatives(path, node, spec):
                yield base, path, value


def _has_place(spec: Mapping[str, Any], path: Path_) -> bool:
    """Whether a spec of a log has the table that a key belongs to, which nobody adds for it."""
    tables_of = ("impressions", "events", "log", "requests", "ranked")
    if path[1] in tables_of:
        return value_at(spec, path[:2]) is not None
    if path[1] in ("counterfactual", "interleaving") and path[2] in ("rankings", "policy"):
        return len(path) == 3 or isinstance(value_at(spec, path[:3]), Mapping)
    return path[1] != "counterfactual" or value_at(spec, path[:2]) is not None


def printed(change: tuple[str, Path_, Any]) -> str:
    """A change as a line."""
    base, path, value = change
    return f"{base}: {'.'.join(path)} = {json.dumps(value, default=str)}"
