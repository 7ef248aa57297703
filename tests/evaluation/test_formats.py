"""Every format of rankings and labels gives the numbers of plain rows in memory.

The matrix puts the same lists into JSON, folders and globs of files, lists per query, Python's
own dicts and rows, and Arrow streams, with ids that are easy to get wrong on the way. Below it,
each odd case has its defined outcome.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from marked import by_turns
from memory import evaluate
from slices import keep, kept

import sqlmetrics as sm
from sqlmetrics.evaluation.inputs.names import in_order
from sqlmetrics.spec.spec import Spec

pytestmark = by_turns(0.14)

METRICS = ["ndcg@3", "recall@2", "mrr", "num_ret", "num_rel"]

Row = dict[str, Any]
Rows = list[Row]

Ids = tuple[Any, Any, Any, Any]

IDS: Mapping[str, Sequence[Ids]] = {
    "texts": (
        ("7", "07", "007", "7.0"),
        ("2026-01-01", "2026-01-01T00:00:00", "2026", "12:00:00"),
        ("é", "e\u0301", "😀", "👩‍💻"),
        ("null", "NaN", "true", '["a"]'),
        ("550e8400-e29b-41d4-a716-446655440000", "'", '"', "a\n\\b"),
    ),
    "integers": ((1, 10, 2**53 + 1, 2**53),),
    "mixed": ((7, "007", "a", 12),),
}
"""Sets of four ids, each for its own queries and items; 'mixed' has two types in one column."""

LISTS = {0: {0: 1.0, 1: 2.0, 2: 1.5, 3: 0.5}, 1: {0: 1.0, 2: 2.0}, 2: {1: 3.0, 2: 1.0, 3: 0.25}}
GRADES = {0: {1: 1, 2: 3}, 1: {2: 2}, 2: {0: 1, 3: 0}, 3: {1: 1}}


def rankings_of(kind: str) -> Rows:
    """The rows of all lists, the best item of a list first."""
    return [
        {"query_id": ids[query], "item_id": ids[item], "score": scores[item], "rank": rank}
        for ids in IDS[kind]
        for query, scores in LISTS.items()
        for rank, item in enumerate(sorted(scores, key=lambda item_id: -scores[item_id]), start=1)
    ]


def labels_of(kind: str) -> Rows:
    return [
        {"query_id": ids[query], "item_id": ids[item], "grade": grade}
        for ids in IDS[kind]
        for query, grades in GRADES.items()
        for item, grade in grades.items()
    ]


def as_text(rows: Rows) -> Rows:
    names = ("query_id", "item_id")
    return [row | {name: str(row[name]) for name in names} for row in rows]


def numbers(result: sm.Result) -> list[Row]:
    """All numbers of the summary and of the queries."""
    names = ("metric", "k", "value", "numerator", "denominator", "n_queries", "n_missing")
    rows = [{name: row[name] for name in names} for row in result.to_dicts()]
    queries = result.per_query().drop_columns(["system"]).to_pylist()
    rows += sorted(queries, key=lambda row: str(row["query_id"]))
    return [{name: _rounded(value) for name, value in row.items()} for row in rows]


def _rounded(value: Any) -> Any:
    return round(value, 12) if isinstance(value, float) else value


@cache
def expected(kind: str, *, binary: bool = False) -> list[Row]:
    """What plain rows of Arrow give, with ids that are texts; grades are 1 if binary."""
    labels = labels_of(kind)
    if binary:
        labels = [row | {"grade": 1} for row in labels if row["grade"]]
    tables = [pa.Table.from_pylist(as_text(rows)) for rows in (rankings_of(kind), labels)]
    return numbers(sm.evaluate(*tables, METRICS))


# Rows -> what is given


def listed(rows: Rows) -> Rows:
    """One row per query, with lists of all else."""
    queries = dict.fromkeys(row["query_id"] for row in rows)
    by_query = {query: [row for row in rows if row["query_id"] == query] for query in queries}
    names = [name for name in rows[0] if name != "query_id"]
    return [{"query_id": q} | {n: [row[n] for row in by_query[q]] for n in names} for q in queries]


def without(rows: Rows, *names: str) -> Rows:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def text_file(path: Path, text: str) -> Path:
    packed = text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(packed) if path.suffix == ".gz" else packed)
    return path


def lines_of(rows: Rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def parquet_file(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def csv_file(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_json(name: str) -> Callable[..., Path]:
    def put(rows: Rows, role: str, folder: Path) -> Path:
        array = json.dumps(rows, indent=1, ensure_ascii="gz" in name)
        return text_file(folder / f"{role}.{name}", array if "l" not in name else lines_of(rows))

    return put


def as_json_parts(rows: Rows, role: str, folder: Path) -> str:
    """A key is written where it is wanted: the second file has others, in another order."""
    text_file(folder / f"{role}-1.json", json.dumps(rows[:3]))
    reordered = [{"note": None} | dict(reversed(row.items())) for row in rows[3:]]
    text_file(folder / f"{role}-2.json", json.dumps(reordered))
    return str(folder / f"{role}-*.json")


def in_parts(write: Callable[[Path, Rows], Path], suffix: str) -> Callable[..., str]:
    def put(rows: Rows, role: str, folder: Path) -> str:
        write(folder / f"{role}-1{suffix}", rows[:4])
        write(folder / f"{role}-2{suffix}", [dict(reversed(row.items())) for row in rows[4:]])
        return str(folder / f"{role}-?{suffix}")

    return put


def as_folder(rows: Rows, role: str, folder: Path) -> str:
    parquet_file(folder / role / "a" / "b" / "1.parquet", rows[:4])
    parquet_file(folder / role / "2.parquet", rows[4:])
    return f"{folder / role}/"


def as_hive(rows: Rows, role: str, folder: Path) -> str:
    """The query is the name of a folder."""
    for query in dict.fromkeys(row["query_id"] for row in rows):
        records = without([row for row in rows if row["query_id"] == query], "query_id")
        parquet_file(folder / role / f"query_id={query}" / "x.parquet", records)
    return str(folder / role)


def as_lists(put: Callable[[Rows, str, Path], Any]) -> Callable[..., Any]:
    return lambda rows, role, folder: put(listed(rows), role, folder)


def arrow(rows: Rows, role: str, folder: Path) -> pa.Table:
    return pa.Table.from_pylist(rows)


def value_of(row: Row) -> Any:
    return row["score"] if "score" in row else row["grade"]


def dict_of_dicts(rows: Rows, role: str, folder: Path) -> Any:
    pairs: dict[Any, Any] = {}
    for row in rows:
        pairs.setdefault(row["query_id"], {})[row["item_id"]] = value_of(row)
    return pairs


class ScoredDoc(NamedTuple):
    """As in ir_measures."""

    query_id: Any
    doc_id: Any
    score: float


class Qrel(NamedTuple):
    """As in ir_measures."""

    query_id: Any
    doc_id: Any
    relevance: int
    iteration: str = "0"


def named_tuples(rows: Rows, role: str, folder: Path) -> list[Any]:
    kind: Callable[..., Any] = ScoredDoc if role == "rankings" else Qrel
    return [kind(row["query_id"], row["item_id"], value_of(row)) for row in rows]


def tuples(rows: Rows, role: str, folder: Path) -> list[Any]:
    return [(row["query_id"], row["item_id"], value_of(row)) for row in rows]


class Capsule:
    """Speaks Arrow and nothing else."""

    def __init__(self, rows: Rows, role: str, folder: Path) -> None:
        self.table = pa.Table.from_pylist(rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def pandas_of(kind: str) -> Callable[..., Any]:
    def put(rows: Rows, role: str, folder: Path) -> pd.DataFrame:
        return pd.DataFrame(rows).astype({"query_id": kind, "item_id": kind})

    return put


def database_lists(rows: Rows, role: str, folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("given", pa.Table.from_pylist(listed(rows)))
    return connection.sql("select * from given")


ALL = ("texts", "integers", "mixed")
TYPED = ("texts", "integers")
TEXTS = ("texts",)
INTEGERS = ("integers",)

FORMATS: Mapping[str, tuple[Callable[[Rows, str, Path], Any], Sequence[str]]] = {
    "json": (as_json("json"), ALL),
    "json.gz": (as_json("json.gz"), ALL),
    "jsonl": (as_json("jsonl"), ALL),
    "ndjson.gz": (as_json("ndjson.gz"), ALL),
    "JSON in capitals": (as_json("JSON"), TEXTS),
    "json glob": (as_json_parts, ALL),
    "parquet glob": (in_parts(parquet_file, ".parquet"), TYPED),
    "csv glob": (in_parts(csv_file, ".csv"), TYPED),
    "folder": (as_folder, TYPED),
    "hive": (as_hive, INTEGERS),
    "json lists": (as_lists(as_json("json")), ALL),
    "jsonl lists": (as_lists(as_json("jsonl")), ALL),
    "parquet lists": (as_lists(lambda r, role, f: parquet_file(f / f"{role}.pq", r)), TYPED),
    "arrow lists": (as_lists(arrow), TYPED),
    "pandas lists": (as_lists(lambda rows, *_: pd.DataFrame(rows)), TYPED),
    "polars lists": (as_lists(lambda rows, *_: pl.DataFrame(rows)), TYPED),
    "relation lists": (database_lists, TYPED),
    "rows with lists": (as_lists(lambda rows, *_: rows), ALL),
    "dict of dicts": (dict_of_dicts, ALL),
    "dict of columns": (lambda rows, *_: {n: [row[n] for row in rows] for n in rows[0]}, ALL),
    "dicts": (lambda rows, *_: rows, ALL),
    "named tuples": (named_tuples, ALL),
    "tuples": (tuples, ALL),
    "generator": (lambda rows, *_: iter(tuples(rows, "", Path())), ALL),
    "capsule": (Capsule, TYPED),
    "reader": (lambda rows, *_: pa.Table.from_pylist(rows).to_reader(max_chunksize=2), TYPED),
    "batch": (lambda rows, *_: pa.RecordBatch.from_pylist(rows), TYPED),
    "dataset": (lambda rows, *_: ds.dataset(pa.Table.from_pylist(rows)), TYPED),
    "scanner": (lambda rows, *_: ds.dataset(pa.Table.from_pylist(rows)).scanner(), TYPED),
    "pandas": (lambda rows, *_: pd.DataFrame(rows), TYPED),
    "pandas category": (pandas_of("category"), TYPED),
    "pandas nullable": (pandas_of("Int64"), INTEGERS),
    "pandas arrow integers": (pandas_of("int64[pyarrow]"), INTEGERS),
    "pandas arrow texts": (pandas_of("string[pyarrow]"), TEXTS),
    "polars": (lambda rows, *_: pl.DataFrame(rows), TYPED),
    "polars categorical": (
        lambda rows, *_: pl.DataFrame(rows, schema_overrides={"item_id": pl.Categorical}),
        TEXTS,
    ),
    "polars lazy": (lambda rows, *_: pl.LazyFrame(rows), TYPED),
}
"""Format -> how rows are put there, and the kinds of ids that it can hold."""

BY_PLACE = {"dict of dicts", "named tuples", "tuples", "generator"}
"""These hold one value per item, whatever it is called."""


def _cells(name: str, kinds: Sequence[str]) -> Iterator[Any]:
    """A format with its first kind of ids, and by slices all, by scores and by ranks in turn."""
    orders = ("score",) if name in BY_PLACE else ("score", "rank")
    cells = [(kind, orders[index % len(orders)]) for index, kind in enumerate(kinds)]
    if len(cells) < len(orders):
        cells.append((kinds[0], "rank"))
    sampled = [(kind, order) for kind, order in cells[1:] if keep(f"{name} {kind} {order}", 0.3)]
    for kind, order in cells[:1] + sampled:
        yield pytest.param(name, kind, order, id=f"{name}-{kind}-{order}")


MATRIX = [cell for name, (_, kinds) in FORMATS.items() for cell in _cells(name, kinds)]


@pytest.mark.parametrize(("name", "kind", "order"), MATRIX)
def test_a_format_changes_no_number(name: str, kind: str, order: str, tmp_path: Path) -> None:
    put, _ = FORMATS[name]
    other = "score" if order == "rank" else "rank"
    rankings = put(without(rankings_of(kind), other), "rankings", tmp_path)
    labels = put(labels_of(kind), "labels", tmp_path)
    result = evaluate(rankings, labels, METRICS, cell=f"{name} {kind}", **{order: order})
    assert numbers(result) == expected(kind)


def test_what_can_be_read_but_once_is_read_once_by_all_that_takes_it() -> None:
    runs, truth = rankings_of("texts"), labels_of("texts")

    def read_once(rows: Rows) -> Any:
        return pa.Table.from_pylist(rows).to_reader(max_chunksize=2)

    systems = {"a": read_once(runs), "b": iter(runs)}
    assert not {row["difference"] for row in sm.compare(systems, iter(truth), METRICS).rows} - {0.0}
    assert numbers(sm.evaluate(read_once(runs), read_once(truth), METRICS)) == expected("texts")
    assert "mrr" in sm.report(iter(runs), read_once(truth), metrics=["mrr"]).markdown
    trace = {"user_input": "q", "retrieved_context_ids": ["a", "b"], "reference_context_ids": ["b"]}
    assert sm.evaluate(read_once([trace]), None, ["mrr"])["mrr"] == 0.5
    assert sm.evaluate(iter([trace]), None, ["mrr"])["mrr"] == 0.5


IN_ORDER: Mapping[str, Callable[[Rows, str, Path], Any]] = {
    "json": as_lists(as_json("json")),
    "jsonl.gz": as_lists(as_json("jsonl.gz")),
    "parquet": as_lists(lambda r, role, f: parquet_file(f / f"{role}.parquet", r)),
    "arrow": as_lists(arrow),
    "pandas": as_lists(lambda rows, *_: pd.DataFrame(rows)),
    "polars": as_lists(lambda rows, *_: pl.DataFrame(rows)),
    "relation": database_lists,
    "dict": lambda rows, *_: {row["query_id"]: row["item_id"] for row in listed(rows)},
    "dict of tuples": lambda rows, *_: {r["query_id"]: tuple(r["item_id"]) for r in listed(rows)},
    "dict of arrays": lambda rows, *_: {
        r["query_id"]: np.array(r["item_id"]) for r in listed(rows)
    },
    "rows": as_lists(lambda rows, *_: rows),
}


@pytest.mark.parametrize(
    ("form", "kind"),
    [(form, kind) for form in IN_ORDER for kind in kept(f"in order {form}", TYPED, 0.4)],
)
def test_the_order_of_a_list_is_its_rank(form: str, kind: str, tmp_path: Path) -> None:
    """Lists of relevant items have no grades: each is 1, as in rows with grade 1."""
    put = IN_ORDER[form]
    ranked = put(without(rankings_of(kind), "score", "rank"), "rankings", tmp_path)
    relevant = [row for row in labels_of(kind) if row["grade"]]
    labels = put(without(relevant, "grade"), "labels", tmp_path)
    result = evaluate(ranked, labels, METRICS, cell=f"in order {form} {kind}")
    assert numbers(result) == expected(kind, binary=True)


def test_labels_may_be_sets() -> None:
    truth = {query: {"a", "b"} for query in "qr"}
    run = {"q": ["x", "b"], "r": ["a"]}
    assert evaluate(run, truth, "mrr")["mrr"] == pytest.approx(3 / 4)
    frozen = {query: frozenset(items) for query, items in truth.items()}
    assert evaluate(run, frozen, "recall@5")["recall@5"] == pytest.approx(1 / 2)


# JSON

LABELS = pa.table({"query_id": ["q", "q"], "item_id": ["a", "b"], "grade": [0, 1]})
RUN = [("q", "a", 2.0), ("q", "b", 1.0)]


def test_integers_of_json_are_unharmed(tmp_path: Path) -> None:
    large = 12345678901234567890123456789
    text = f'{{"query_id": 1, "item_id": {large}, "score": 1}}\n'
    run = text_file(tmp_path / "run.jsonl", text)
    labels = {"1": {str(large): 1, str(large + 1): 1}}
    assert evaluate(run, labels, "recall@5")["recall@5"] == 0.5


def test_a_key_that_is_missing_is_null(tmp_path: Path) -> None:
    rows = [{"query_id": "q", "item_id": "a", "score": 1}, {"query_id": "q", "item_id": "b"}]
    run = text_file(tmp_path / "run.json", json.dumps(rows))
    with pytest.raises(sm.InputError, match="score is NULL in 1 row"):
        evaluate(run, LABELS, "mrr")


def test_a_file_of_a_dict_may_begin_with_a_score_that_is_no_digit(tmp_path: Path) -> None:
    scores = {"q": {"a": -math.inf, "b": 1.0}}
    assert evaluate(text_file(tmp_path / "run.json", json.dumps(scores)), LABELS, "mrr")["mrr"] == 1
    for value, message in ((math.nan, "score is NaN in 1 row"), (None, "score is NULL in 1 row")):
        run = text_file(tmp_path / "run.json", json.dumps({"q": {"a": value, "b": 1.0}}))
        with pytest.raises(sm.InputError, match=message):
            evaluate(run, LABELS, "mrr")


def test_a_key_may_come_late(tmp_path: Path) -> None:
    rows = [{"query_id": "q", "item_id": f"i{n}", "score": n} for n in range(30_000)]
    rows.append({"query_id": "q", "item_id": "b", "score": -1, "country": "de"})
    run = text_file(tmp_path / "run.jsonl", lines_of(rows))
    with pytest.raises(sm.InputError, match="differ in country"):
        evaluate(run, LABELS, "mrr", by="country")


JSON = {
    "broken": ('{"query_id": "q"}\n{"query_id"\n', r"broken\.jsonl"),
    "keys_twice": ('{"query_id": "q", "item_id": "a", "score": 1, "score": 2}\n', "duplicate key"),
    "case": (
        '{"query_id": "q", "item_id": "a", "Score": 1, "score": 2}\n',
        "or differ only in case",
    ),
    "other_keys": ('{"q": "q", "item_id": "a", "score": 2}\n', "unknown column 'query_id'"),
    "scalars": ("1\n2\n", "unknown column"),
    "nulls": ('{"query_id": null, "item_id": "a", "score": 2}\n', "query_id is NULL in 1 row"),
    "text": ('{"query_id": "q", "item_id": "a", "score": "2,5"}\n', "score is not a number"),
    "nan": ('{"query_id": "q", "item_id": "a", "score": NaN}\n', "score is NaN"),
}


@pytest.mark.parametrize("name", JSON)
def test_json_that_is_refused(name: str, tmp_path: Path) -> None:
    text, message = JSON[name]
    with pytest.raises(sm.InputError, match=message):
        evaluate(text_file(tmp_path / f"{name}.jsonl", text), LABELS, "mrr")


# Folders and globs


def test_a_folder_of_days(tmp_path: Path) -> None:
    for day, first in (("2026-03-01", "a"), ("2026-03-02", "b")):
        second = "ab".replace(first, "")
        rows = [
            {"query_id": "q", "item_id": i, "rank": n} for n, i in enumerate([first, second], 1)
        ]
        parquet_file(tmp_path / "logs" / f"ds={day}" / "model=007" / "x.parquet", rows)
    for pattern in ("logs", "logs/", "logs/ds=*", "logs/ds=*/*/*.parquet", "logs/**/*.parquet"):
        path = f"{tmp_path}/{pattern}"
        result = evaluate(path, LABELS, "mrr", rank="rank", date="ds", system="model")
        values = {(str(r["metric_date"]), r["system"], r["value"]) for r in result.to_dicts()}
        assert values == {("2026-03-01", "007", 0.5), ("2026-03-02", "007", 1)}


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_names_of_folders_are_texts_as_they_are_written(form: str, tmp_path: Path) -> None:
    write = {"csv": csv_file, "parquet": parquet_file}.get(
        form, lambda path, rows: text_file(path, json.dumps(rows))
    )
    rows = [{"query_id": "q", "item_id": "a", "score": 1.0}]
    for names in (["007", "07", "1e3", "2026-01-01"], ["2026-01-01", "2026-1-1"]):
        for system in names:
            path = tmp_path / str(len(names)) / f"system={system}" / f"x.{form}"
            path.parent.mkdir(parents=True)
            write(path, rows)
        places = str(tmp_path / str(len(names)) / "*" / f"*.{form}")
        result = evaluate(places, LABELS, "mrr", system="system")
        assert [row["system"] for row in result.to_dicts()] == names


def test_a_key_that_only_the_last_of_many_files_has(tmp_path: Path) -> None:
    """DuckDB by itself looks for keys in the first 32."""
    labels = {"q": ["a"]}
    for number in range(40):
        is_last = number == 39
        row: Row = {"query_id": "q", "item_id": f"i{number}", "score": number}
        row |= {"price": 3} if is_last else {}
        text_file(
            tmp_path / f"{number:02}.json", json.dumps([row | ({"price": 3} if is_last else {})])
        )
        lists: Rows = [{"query_id": "q", "item_id": ["b", "a"]}] * is_last
        text_file(tmp_path / "lists" / f"{number:02}.json", json.dumps(lists))
    assert evaluate(str(tmp_path / "lists" / "*.json"), labels, "mrr")["mrr"] == 0.5
    with pytest.raises(sm.InputError, match="price is NULL in 39 rows"):
        evaluate(str(tmp_path / "*.json"), labels, "mrr", weight="price")


def test_a_spec_may_name_a_folder(tmp_path: Path) -> None:
    as_folder(rankings_of("texts"), "rankings", tmp_path)
    labels = parquet_file(tmp_path / "labels.parquet", labels_of("texts"))
    spec = Spec(
        rankings={"file": f"{tmp_path / 'rankings'}/"},
        labels={"file": str(labels)},
        metrics=("mrr",),
    )
    rows = duckdb.sql(sm.compile(spec, per_query=True)).to_arrow_table().to_pylist()
    mrr = {row["query_id"]: row["mrr"] for row in rows}
    assert mrr == {r["query_id"]: r["mrr"] for r in expected("texts") if "query_id" in r}


def broken_folder(name: str, folder: Path) -> None:
    parquet_file(folder / "a.parquet", [{"x": 1}])
    if name == "hidden":
        parquet_file(folder / "_temporary" / "0" / "b.parquet", [{"x": 1}])
    elif name == "lake":
        text_file(folder / "_delta_log" / "0.json", "{}")
    elif name == "two endings":
        parquet_file(folder / "b.pq", [{"x": 1}])
    elif name == "backslash":
        parquet_file(folder / "a\\b" / "b.parquet", [{"x": 1}])
    else:
        (folder / "a.parquet").rename(folder / "a.csv")


FOLDERS = {
    "hidden": r"hidden or unfinished files, like .*_temporary.0.b\.parquet",
    "lake": "a Delta table",
    "backslash": r"the name of a file has a backslash, like .*a.b/b\.parquet",
    "two endings": r"\.parquet and \.pq",
    "csv": r"a.csv' is Parquet: rename it to end in \.parquet",
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_refused(name: str, tmp_path: Path) -> None:
    broken_folder(name, tmp_path)
    with pytest.raises(sm.InputError, match=FOLDERS[name]):
        evaluate(tmp_path, LABELS, "mrr")


def test_a_backslash_in_a_file_of_a_glob(tmp_path: Path) -> None:
    """DuckDB takes it for a folder, and would leave the file out."""
    for name in ("a", "b\\c"):
        csv_file(tmp_path / f"{name}.csv", [{"query_id": "q", "item_id": name, "score": 1}])
    with pytest.raises(sm.InputError, match="the name of a file has a backslash"):
        evaluate(f"{tmp_path}/*.csv", LABELS, "mrr")


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("short", [1, 12])
def test_a_column_that_a_file_of_a_glob_has_not(form: str, short: int, tmp_path: Path) -> None:
    write = csv_file if form == "csv" else parquet_file
    for number in range(15):
        rows = [{"query_id": "q", "item_id": f"i{number}", "score": 1.0}]
        is_short = number in (short, 13 if form == "parquet" else short)  # of CSV, any is told
        write(tmp_path / f"{number:02}.{form}", without(rows, "score" if is_short else ""))
    with pytest.raises(sm.InputError, match=rf"{short:02}\.{form}[\s\S]*score"):
        evaluate(str(tmp_path / f"*.{form}"), LABELS, "mrr")


def test_types_of_files_may_differ(tmp_path: Path) -> None:
    """Read with the types of the first file, 007 would be 7, and 2.5 would be 2."""
    parquet_file(tmp_path / "1.parquet", [{"query_id": 1, "item_id": 7, "score": 2}])
    parquet_file(tmp_path / "2.parquet", [{"query_id": "01", "Item_ID": "007", "score": 2.5}])
    parquet_file(tmp_path / "3.parquet", [{"query_id": "1", "item_id": "007", "score": 2.25}])
    result = evaluate(str(tmp_path / "*.parquet"), {1: {"7": 1}, "01": {"007": 1}}, "mrr")
    assert result.per_query()["mrr"].to_pylist() == [1, 0.5]


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_files_of_a_glob_are_in_the_order_of_their_names(form: str, tmp_path: Path) -> None:
    writers = {"csv": csv_file, "parquet": parquet_file}
    write = writers.get(form, lambda path, rows: text_file(path, lines_of(rows)))
    for number in reversed(range(12)):
        rows = [{"query_id": q, "item_id": f"i{number}", "score": 1.0} for q in "pqr"]
        write(tmp_path / f"{number}.{form}", rows)
    labels = {"p": ["i0"], "q": ["i11"], "r": ["i9"]}
    result = evaluate(str(tmp_path / f"*.{form}"), labels, "first_rank", ties="input_order")
    assert result.per_query()["first_rank"].to_pylist() == [1, 4, 12]


# Lists


def one_list(**columns: Any) -> pa.Table:
    return pa.table({"query_id": ["q"]} | {name: [value] for name, value in columns.items()})


def test_scores_in_a_list_order_it() -> None:
    run = one_list(item_id=["a", "b"], score=[1.0, 2.0])
    assert evaluate(run, LABELS, "mrr")["mrr"] == 1
    ranks = one_list(item_id=["a", "b"], place=[2, 1])
    assert evaluate(ranks, LABELS, "mrr", rank="place")["mrr"] == 1
    equal = one_list(item_id=["b", "a"], score=[1.0, 1.0])
    assert evaluate(equal, LABELS, "mrr")["mrr"] == 0.5
    assert evaluate(equal, LABELS, "mrr", ties="input_order")["mrr"] == 1


def test_lists_have_names_of_their_own() -> None:
    run = one_list(**{"ranked items": ["a", "b"], "list_rank": "x", "Score": [1, 2]})
    truth = one_list(relevant=["b", "c"], gains=[2, 1], missing_values=7)
    names = {"item": "relevant", "grade": "gains"}
    options = {"item": "Ranked Items", "label_columns": names, "by": "list_rank"}
    result = evaluate(run, truth, ["cg@5", "mrr"], **options)
    assert {row["value"] for row in result.to_dicts() if row["metric"] == "mrr"} == {1}


def test_a_grade_may_hold_for_a_whole_list() -> None:
    truth = pa.table({"query_id": ["q", "q"], "item_id": [["a"], ["b", "c"]], "grade": [0, 2]})
    assert evaluate({"q": ["b", "a", "c"]}, truth, "cg@5")["cg@5"] == 4


def test_lists_of_any_kind() -> None:
    kinds = (pa.large_list(pa.string()), pa.list_(pa.string(), 2), pa.list_view(pa.string()))
    for kind in (*kinds, pa.list_(pa.dictionary(pa.int8(), pa.string()))):
        run = pa.table({"query_id": ["q"], "item_id": pa.array([["a", "b"]], kind)})
        assert evaluate(run, LABELS, "mrr")["mrr"] == 0.5


def test_lists_in_a_table_of_a_database() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "create table runs as select 'q' as query_id, ['a', 'b'] as items, 'x' as system"
        )
        options = {"item": "items", "label_columns": {"item": "item_id"}, "system": "system"}
        for source in ("runs", "select * from runs"):
            result = evaluate(source, LABELS, "mrr", connection=connection, **options)
            assert result["mrr"] == 0.5


def test_an_empty_list_is_a_query_without_rows() -> None:
    """It is missing, and counts as an empty list; labels without an item are none."""
    run = {"q": ["b"], "r": []}
    truth: dict[str, list[str]] = {"q": ["b"], "r": ["b"], "s": []}
    (row,) = evaluate(run, truth, "mrr").to_dicts()
    assert (row["value"], row["n_queries"], row["n_missing"]) == (0.5, 2, 1)
    typed = pa.table({"query_id": ["q", "r"], "item_id": [["b"], []], "score": [[1.0], []]})
    assert evaluate(typed, truth, "mrr")["mrr"] == 0.5


BAD_LISTS: Mapping[str, tuple[Any, Any, str]] = {
    "unequal scores": (one_list(item_id=["a", "b"], score=[1.0]), LABELS, "equally long"),
    "unequal grades": ({"q": ["a"]}, one_list(item_id=["a"], grade=[1, 2]), "equally long"),
    "no list": (
        pa.table({"query_id": ["q", "r"], "item_id": [["a"], None]}),
        LABELS,
        "item_id is NULL in 1 row",
    ),
    "no list of labels": (
        {"q": ["a"]},
        pa.table({"query_id": ["q", "r"], "item_id": [["a"], None]}),
        "labels: item_id is NULL in 1 row",
    ),
    "no scores": (
        pa.table({"query_id": ["q", "r"], "item_id": [["a"], ["b"]], "score": [[1.0], None]}),
        LABELS,
        "score is NULL in 1 row",
    ),
    "no item": (one_list(item_id=["a", None]), LABELS, "item_id is NULL in 1 row"),
    "an item twice": ({"q": ["a", "b", "a"]}, LABELS, "more than once for the same query"),
    "a label twice": ({"q": ["a"]}, {"q": ["a", "a"]}, "more than once for the same query"),
    "a query twice": (
        pa.table({"query_id": ["q", "q"], "item_id": [["a"], ["b"]]}),
        LABELS,
        "not ranked 1, 2",
    ),
    "one score": (one_list(item_id=["a"], score=1.0), LABELS, "score holds one value per row"),
    "structs": (one_list(item_id=[{"title": "a"}]), LABELS, "lists of STRUCT"),
    "lists of lists": (one_list(item_id=[["a"]]), LABELS, r"lists of VARCHAR\[\]"),
    "fractions": (one_list(item_id=[1.0, 2.5]), LABELS, "lists of DOUBLE"),
    "queries": (pa.table({"query_id": [["q"]], "item_id": [["a"]]}), LABELS, "query_id holds"),
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_lists_that_are_refused(name: str) -> None:
    run, truth, message = BAD_LISTS[name]
    with pytest.raises(sm.InputError, match=message):
        evaluate(run, truth, "mrr")


def test_a_score_that_is_named_must_be_there() -> None:
    with pytest.raises(sm.InputError, match="unknown column 'relevance_score'"):
        evaluate(one_list(item_id=["a"]), LABELS, "mrr", score="relevance_score")
    with pytest.raises(sm.InputError, match="unknown column 'gain'"):
        evaluate({"q": ["a"]}, one_list(item_id=["a"]), "mrr", label_columns={"grade": "gain"})


def test_an_item_twice_in_a_list_counts_at_its_best_rank() -> None:
    run = {"q": ["a", "b", "a"]}
    assert evaluate(run, LABELS, "mrr", duplicate_rankings="best_score")["mrr"] == 0.5


def lists_in_csv(path: Path, rows: Rows) -> Path:
    """A list in a text file is written as in JSON."""
    texts = [{name: json.dumps(value) for name, value in row.items()} for row in rows]
    pairs = zip(texts, rows, strict=True)
    return csv_file(path, [text | {"query_id": row["query_id"]} for text, row in pairs])


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        (".parquet", parquet_file),
        (".json", lambda path, rows: text_file(path, json.dumps(rows))),
        (".csv", lists_in_csv),
    ],
)
@pytest.mark.parametrize("valued", [False, True])
def test_a_spec_says_that_rows_hold_lists(
    valued: bool, suffix: str, write: Callable[..., Path], tmp_path: Path
) -> None:
    """SQL that is compiled without a look at the table."""
    relevant = [row for row in labels_of("texts") if row["grade"]]
    rows = {"rankings": rankings_of("texts"), "labels": relevant}
    values = {"rankings": "score", "labels": "grade"}
    spec: dict[str, Any] = {}
    for table, value in values.items():
        lists = listed(rows[table]) if valued else without(listed(rows[table]), value)
        path = write(tmp_path / f"{table}{suffix}", lists)
        columns = {value: value} if valued else {}
        spec[table] = {"file": str(path), "lists": True, "columns": columns}
    text = sm.compile(Spec(**spec, metrics=("mrr", "num_ret")), per_query=True)
    per_query = {row[1]: row[2:] for row in duckdb.sql(text).fetchall()}
    of_queries = [row for row in expected("texts") if "query_id" in row]
    assert per_query == {row["query_id"]: (row["mrr"], row["num_ret"]) for row in of_queries}


# Python's own


BAD_DATA: Mapping[str, tuple[Any, str]] = {
    "number": ({"q": 3}, "rankings: query 'q' has 3: neither a list nor a dict of items"),
    "text": ({"q": "ab"}, "no file or table .ab"),
    "set": ({"q": {"a"}}, "a set has no order"),
    "both": ({"q": ["a"], "r": {"a": 1}}, "give lists for all queries, or dicts for all"),
    "fraction": ({"q": [1.5]}, "item_id must hold texts or whole numbers, given 1.5"),
    "flag": ({True: ["a"]}, "query_id must hold texts or whole numbers, given True"),
    "no id": ({"q": [None]}, "item_id is NULL"),
    "scores": ({"q": {"a": "x", "b": 1.0}}, "cannot be read"),
    "no number": ({"q": {"a": "x"}}, "score is not a number"),
    "no score": ({"q": {"a": None}}, "score is NULL"),
    "nothing": ({}, "the table has no rows"),
    "no rows": ([], "the table has no rows"),
    "rows of numbers": (
        [1, 2],
        r"a row must be a dict, a NamedTuple or \(query_id, item_id, score\)",
    ),
    "short rows": ([("q", "a")], "a row must be"),
    "missing keys": ([{"query_id": "q", "item_id": "a"}], "unknown column 'score'"),
    "a key missing": (
        [*({"query_id": "q", "item_id": i, "score": 1} for i in "ab"), {}],
        "is NULL",
    ),
    "huge": ({"q": {"a": 10**400}}, "cannot be read"),
    "surrogate": ({"q": ["\ud800"]}, "cannot be read"),
    "object": (object(), "must be a DataFrame, speak Arrow, or be rows or a dict of lists"),
    "series": (pd.Series([1.0]), "cannot be read as a table"),
    "paths": (["a.csv", "b.csv"], "no file or table .a.csv"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_data_that_is_refused(name: str) -> None:
    data, message = BAD_DATA[name]
    with pytest.raises(sm.InputError, match=message):
        evaluate(data, LABELS, "mrr")


def test_ids_of_a_dict_may_be_of_both_types() -> None:
    run = {7: {"a": 2, 1: 1}, "8": {2**70: 1}}
    truth = {"7": {"1": 1}, 8: [str(2**70)]}
    assert evaluate(run, {q: dict.fromkeys(v, 1) for q, v in truth.items()}, "mrr")["mrr"] == 0.75


def test_a_dict_has_the_names_of_the_columns() -> None:
    """Names hold for both tables, of which only one has names of its own."""
    labels = LABELS.rename_columns(["qid", "sku", "gain"])
    names = {"query": "qid", "item": "sku", "grade": "gain"}
    for run in ({"q": ["a", "b"]}, {"q": {"a": 2, "b": 1}}, RUN, [ScoredDoc(*row) for row in RUN]):
        assert evaluate(run, labels, "mrr", **names)["mrr"] == 0.5
    run = {"q": {"a": 2, "b": 1}}
    assert evaluate(run, labels, "mrr", score="s", **names)["mrr"] == 0.5


def test_rows_of_python_keep_their_order_and_their_columns() -> None:
    run = [{"query_id": "q", "item_id": i, "score": 1, "country": "de"} for i in "ba"]
    result = evaluate(run, LABELS, "mrr", ties="input_order", by="country")
    assert {row["value"] for row in result.to_dicts()} == {1}
    as_they_come = {"q": {"b": 1, "a": 1}}
    assert evaluate(as_they_come, LABELS, "mrr", ties="input_order")["mrr"] == 1


@by_turns(1.3)
def test_arrays_of_numpy() -> None:
    """Scores and grades as scikit-learn has them, ids best first, and columns."""
    lot = np.random.default_rng(1)
    scores, grades = lot.random((5, 20)), lot.integers(0, 3, (5, 20))
    best = np.argsort(-scores, axis=1)
    queries, items = np.divmod(np.arange(100), 20)
    columns = {"query_id": queries, "item_id": items}
    fields = [("query_id", "i4"), ("item_id", "U3"), ("score", "f4")]
    structured = np.array([*zip(queries, items, scores.ravel(), strict=True)], fields)
    runs = (
        scores,
        best.astype(str),
        structured,
        {**columns, "score": scores.ravel()},
        {"query_id": np.arange(5), "item_id": best},
        {q: best[q] for q in range(5)},
    )
    # what scikit-learn says of grades and scores
    wanted = pytest.approx(0.4965180590850461, abs=1e-12)
    for run in runs:
        for labels in (grades, {**columns, "grade": grades.ravel()}):
            assert evaluate(run, labels, "ndcg(gain=linear)@10")["ndcg(gain=linear)@10"] == wanted
    assert evaluate(np.array([["a", "b"]]), [("0", "b", 1)], "mrr")["mrr"] == 0.5
    assert evaluate(best.astype(str), grades > 1, "mrr")["mrr"] == 0.385
    with pytest.raises(sm.InputError, match="may be scores or item ids"):
        evaluate(best, grades, "mrr")
    for shape in ((3,), (2, 2, 2), (2, 0), ()):
        with pytest.raises(
            sm.InputError, match=r"an array must be structured, or have a row a que"
        ):
            evaluate(np.zeros(shape), grades, "mrr")


def test_what_becomes_a_dict_is_one() -> None:
    run = SimpleNamespace(to_dict=lambda: {"q": {"a": 2.0, "b": 1.0}})  # like ranx.Run
    assert evaluate(run, SimpleNamespace(to_dict=lambda: {"q": {"b": 1}}), "mrr")["mrr"] == 0.5


def test_what_is_given_stays_as_it_is() -> None:
    run: dict[Any, Any] = {7: [1, "b"]}
    rows = [{"query_id": 7, "doc_id": 1, "score": 1.0}]
    evaluate(run, {7: ["b"]}, "mrr")
    evaluate(rows, {7: [1]}, "mrr")
    assert run == {7: [1, "b"]}
    assert rows == [{"query_id": 7, "doc_id": 1, "score": 1.0}]


def test_a_dataset_of_files(tmp_path: Path) -> None:
    as_folder(rankings_of("texts"), "rankings", tmp_path)
    run = ds.dataset(tmp_path / "rankings", format="parquet")
    assert numbers(evaluate(run, labels_of("texts"), METRICS)) == expected("texts")


def test_labels_that_stand_in_lists_of_rankings() -> None:
    run = one_list(item_id=["a", "b", "c"], grade=[0, 1, None])
    result = evaluate(run, None, ["mrr", "num_rel", "num_ret"])
    assert [result[name] for name in ("mrr", "num_rel", "num_ret")] == [0.5, 1, 3]


def test_an_empty_list_is_refused_where_it_cannot_be_told_from_a_missing_one() -> None:
    """It leaves no row: the same as an empty list by missing=zero, and wrong by anything else."""
    runs = {"q1": ["a"], "q2": []}
    labels = {"q1": ["a"], "q2": ["b"]}
    assert evaluate(runs, labels, "mrr")["mrr"] == 0.5
    for options in ({"missing": "drop"}, {"average_over": "common"}):
        with pytest.raises(sm.InputError, match="cannot be told from missing lists: 1"):
            evaluate(runs, labels, "mrr", **options)
    assert evaluate({"q1": ["a"]}, labels, "mrr", missing="drop")["mrr"] == 1.0


@by_turns(0.9)
def test_usual_names_are_taken_for_their_roles_and_named(tmp_path: Path) -> None:
    runs = pa.table({"qid": [1, 1], "Doc-ID": ["a", "b"], "similarity": [0.3, 0.2]})
    truth = pa.table({"user_id": [1], "docno": ["b"], "relevance": [1], "score": [0.0]})
    result = sm.evaluate(runs, truth, "mrr")
    assert result["mrr"] == 0.5
    message = "using qid as the query and Doc-ID as the item and similarity as the score"
    options = "--query, --item, --score (query=, item=, score= in Python)"
    assert result.notes[0] == f"rankings: {message}; override with {options}"
    assert "user_id as the query" in result.notes[1]
    assert "relevance as the grade" in result.notes[1]
    notes = sm.reconcile(runs, truth, "mrr", ".5").notes  # whatever reads the tables says it
    assert notes == result.notes[:2]
    ranked = runs.rename_columns(["topic", "sku", "position"])
    with pytest.raises(sm.InputError, match="position is not a whole number"):
        sm.evaluate(ranked, truth, "mrr")
    ranked = ranked.set_column(2, "position", pa.array([1, 2]))
    (tmp_path / "truth.csv").write_text("topic,sku,rating\n1,b,2\n")
    pq.write_table(ranked, tmp_path / "runs.parquet")
    assert sm.evaluate(tmp_path / "runs.parquet", tmp_path / "truth.csv", "mrr")["mrr"] == 0.5
    lists = pa.table({"user": ["1"], "items": [["a", "b"]]})
    assert sm.evaluate(lists, truth, "mrr", item="items", label_columns={"item": "docno"})["mrr"]
    joined = runs.rename_columns(["qid", "sku", "rating"])
    with pytest.raises(sm.InputError, match="unknown column 'score'"):  # a rating is no score too
        sm.evaluate(joined, None, "mrr")
    for odd in (runs.append_column("docno", runs["Doc-ID"]), runs.drop_columns("qid")):
        with pytest.raises(sm.InputError, match="unknown column"):  # two fit, or none
            sm.evaluate(odd, truth, "mrr")
    with pytest.raises(sm.InputError, match="unknown column 'doc'"):  # as it was asked for
        sm.evaluate(runs, truth, "mrr", item="doc")


def test_rankings_and_labels_in_the_other_order_are_refused_or_told(tmp_path: Path) -> None:
    qrels = {"q1": {"a": 1, "b": 2, "c": 0}, "q2": {"x": 1}}
    run = {"q1": {"a": 0.9, "c": 0.8, "b": 0.1}, "q2": {"y": 0.5, "x": 0.2}}
    with pytest.raises(sm.InputError, match=r"like 1, and labels .* like 0\.9: .* swapped"):
        evaluate(qrels, run, "ndcg@10")
    shares = {"q1": {"a": 0.5, "b": 1.0}}
    assert evaluate({"q1": {"a": 2.0, "b": 1.0}}, shares, "cg@1")["cg@1"] == 0.5
    kinds = [type(name, (dict,), {}) for name in ("Qrels", "Run")]
    judged, ranked = kinds[0](qrels), kinds[1](run)
    assert in_order(judged, ranked)[:2] == (ranked, judged)
    for field in ("Q0", "0"):
        for name in "ab":
            (tmp_path / f"{name}.run").write_text(f"q1 {field} a 1 3.0 {name}\n", "utf-8")
        with pytest.raises(sm.InputError, match=r"'.*b\.run' is a run .*, not judgments"):
            evaluate(str(tmp_path / "a.run"), str(tmp_path / "b.run"), "mrr")


def test_validate_says_which_labels_have_no_number(tmp_path: Path) -> None:
    labels = {"query_id": ["q1", "q1"], "item_id": ["a", "b"], "grade": ["high", "medium"]}
    spec = {
        "rankings": {"data": {"query_id": ["q1"], "item_id": ["a"], "score": [1.0]}},
        "labels": {"data": labels, "grades": {"high": 2, "low": 1}},
        "metrics": "mrr",
    }
    for name in ("rankings", "labels"):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(spec[name].pop("data")), path)
        spec[name]["file"] = str(path)
    with pytest.raises(sm.InputError, match="grade has no number in grades in 1 row"):
        sm.validate(sm.Spec(**spec))
    spec["labels"]["grades"]["medium"] = 1
    assert sm.validate(sm.Spec(**spec)) == ()
