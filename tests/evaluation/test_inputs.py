"""Wherever the tables are, and whatever their names and ids: the same numbers.

The same few lists are put into every kind of table, file and frame, with ids and names
that are easy to get wrong on the way. What they must give is computed from plain text
ids in memory, with ranks that Python gave.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import by_turns
from memory import database, evaluate
from slices import keep, kept

import sqlmetrics as sm
from sqlmetrics.evaluation.inputs.sources import relation_of
from sqlmetrics.spec.source import Source
from sqlmetrics.sql.relation import source_text

pytestmark = by_turns(0.14)

METRICS = ["ndcg@3", "recall@2", "mrr"]

Connection = duckdb.DuckDBPyConnection
Ids = Sequence[Any]
Tables = tuple[pa.Table, pa.Table]

TEXTS: Mapping[str, tuple[str, str, str, str]] = {
    "zeros": ("7", "07", "007", "7.0"),
    "case": ("a", "A", "aB", "AB"),
    "spaces": ("b", " b", "b ", "b b"),
    "quotes": ("'", "''", '"', "'\"c\"'"),
    "separators": ("d,d", "d;d", "d|d", "d\td"),
    "backslashes": ("\\", "\\\\", "\\n", "\\x01"),
    "lines": ("f\nf", "f\n\nf", "f\r\nf", "\n"),
    "emoji": ("😀", "😁", "👩", "👩‍💻"),
    "accents": ("é", "e\u0301", "e", "É"),
    "hashes": ("#", "#g", "# g", "##"),
    "comments": ("--", "--g", "/*g", "/*g*/"),
    "words": ("null", "NULL", "nan", "true"),
    "hostile": ("'); drop table t; --", 'x"; drop table t; --', "{{ h }}", "%s"),
    "empty": ("", "0", "-", "_"),
}
"""Four ids of each kind: all are different queries, and different items of each other."""

INTEGERS = {"integers": (1, 10, 2, 9)}

LISTS = {0: {0: 1.0, 1: 2.0, 2: 2.0, 3: 0.5}, 1: {0: 1.0, 2: 1.0}, 2: {1: 3.0, 2: 1.0, 3: 1.0}}
"""Query -> its items with their scores, all as the numbers of ids; some scores are equal."""

GRADES = {0: {1: 1, 2: 3}, 1: {2: 2}, 2: {0: 1, 3: 0}, 3: {1: 1}}
"""Query -> its labelled items; the last query has no list."""


def tables_of(kinds: Mapping[str, Ids]) -> Tables:
    """Rankings and labels with the ids of all kinds; equal scores are ranked by their bytes."""
    rankings = [
        {"query_id": ids[query], "item_id": ids[item], "score": items[item], "rank": rank}
        for ids in kinds.values()
        for query, items in LISTS.items()
        for rank, item in enumerate(sorted(items, key=_best_first(ids, items)), start=1)
    ]
    labels = [
        {"query_id": ids[query], "item_id": ids[item], "grade": grade}
        for ids in kinds.values()
        for query, grades in GRADES.items()
        for item, grade in grades.items()
    ]
    return pa.Table.from_pylist(rankings[::-1]), pa.Table.from_pylist(labels)


def _best_first(ids: Ids, scores: Mapping[int, float]) -> Callable[[int], tuple[float, bytes]]:
    return lambda item: (-scores[item], str(ids[item]).encode())


def numbers(result: sm.Result) -> dict[Any, Any]:
    """All numbers of a result, under the names of its metrics and its queries."""
    counts = ("value", "numerator", "denominator", "n_queries", "n_skipped", "n_missing")
    means = {
        f"{row['metric']}@{row['k']}": [_rounded(row[name]) for name in counts]
        for row in result.to_dicts()
    }
    columns = [measure.column for measure in result.measures]
    return means | {
        ("query", row["query_id"]): [_rounded(row[name]) for name in columns]
        for row in result.per_query().to_pylist()
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 12)


def expected(kinds: Mapping[str, Ids]) -> dict[Any, Any]:
    """The numbers of plain text ids, ranked by Python."""
    return _expected(tuple(tuple(map(str, ids)) for ids in kinds.values()))


@cache
def _expected(kinds: tuple[tuple[str, ...], ...]) -> dict[Any, Any]:
    tables = tables_of({str(number): ids for number, ids in enumerate(kinds)})
    return numbers(sm.evaluate(*tables, METRICS, rank="rank"))


SIMPLE = tables_of({"letters": ("a", "b", "c", "d")})
SIMPLE_NUMBERS = expected({"letters": ("a", "b", "c", "d")})
SIMPLE_RANKED = numbers(sm.evaluate(SIMPLE[0], SIMPLE[1][:-1], METRICS))
"""The numbers without the label of the query that has no list."""


@pytest.fixture(scope="module")
def own() -> Iterator[Connection]:
    """A user's database: settings are put back, and what was made is dropped, after each test."""
    with duckdb.connect(config={"threads": 1}) as database:
        yield database


@pytest.fixture(scope="module")
def before(own: Connection) -> list[tuple[Any, ...]]:
    """Its settings."""
    return settings_of(own)


@pytest.fixture
def connection(own: Connection, before: list[tuple[Any, ...]]) -> Iterator[Connection]:
    """A user's database with nothing in it."""
    yield own
    with suppress(duckdb.Error):
        own.execute("rollback")
    clear(own)
    assert settings_of(own) == before


def clear(connection: Connection) -> None:
    """Drop all tables, views and schemas, and let go of other databases."""
    names = (
        "select 'view', database_name, schema_name, view_name from duckdb_views() "
        "where not internal union all "
        "select 'table', database_name, schema_name, table_name from duckdb_tables()"
    )
    for kind, *parts in connection.execute(names).fetchall():
        connection.execute(f"drop {kind} " + ".".join(map(quoted, parts)))
    for (name,) in connection.execute(
        "select database_name from duckdb_databases() where not internal"
    ).fetchall():
        if name != "memory":
            connection.execute(f"detach {quoted(name)}")
    names = "select schema_name from duckdb_schemas() where not internal and schema_name <> 'main'"
    for (name,) in connection.execute(names).fetchall():
        connection.execute(f"drop schema {quoted(name)} cascade")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="module")
def shared_connection() -> Connection:
    """A database that holds nothing, for all tests that put nothing there."""
    return database()


# Formats


def as_table(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    connection.register("given", rows)
    connection.execute(f"create table my_{role} as from given")
    connection.unregister("given")
    return f"my_{role}"


def as_view(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    table = as_table(rows, role, folder, connection)
    connection.execute(f"create view view_of_{role} as from {table}")
    return f"view_of_{role}"


def as_select(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    return f"select * from {as_table(rows, role, folder, connection)} where item_id is not null;"


def as_relation(rows: pa.Table, role: str, folder: Path, connection: Connection) -> Any:
    return connection.sql(f"from {as_table(rows, role, folder, connection)}")


def as_parquet(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    pq.write_table(rows, folder / f"{role}.parquet")
    return str(folder / f"{role}.parquet")


def as_path(rows: pa.Table, role: str, folder: Path, connection: Connection) -> Path:
    return Path(as_parquet(rows, role, folder, connection))


def as_parts(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    for number, part in enumerate((rows[:5], rows[5:].select(rows.column_names[::-1]))):
        pq.write_table(part, folder / f"{role}-{number}.parquet")
    return str(folder / f"{role}-*.parquet")


def as_csv(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    return _text_file(folder / f"{role}.csv", _separated(rows, ","))


def as_csv_gz(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    return _text_file(folder / f"{role}.csv.gz", _separated(rows, ","))


def as_tsv(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    return _text_file(folder / f"{role}.tsv", _separated(rows, "\t"))


def as_trec(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    return _text_file(folder / f"{role}.txt", _trec(rows, role))


def as_trec_gz(rows: pa.Table, role: str, folder: Path, connection: Connection) -> str:
    return _text_file(folder / f"{role}.gz", _trec(rows, role))


def as_pandas(rows: pa.Table, role: str, folder: Path, connection: Connection) -> Any:
    return rows.to_pandas()


def as_polars(rows: pa.Table, role: str, folder: Path, connection: Connection) -> Any:
    return pl.from_arrow(rows)


def as_lazy(rows: pa.Table, role: str, folder: Path, connection: Connection) -> Any:
    return as_polars(rows, role, folder, connection).lazy()


def as_arrow(rows: pa.Table, role: str, folder: Path, connection: Connection) -> pa.Table:
    return rows


def as_reader(rows: pa.Table, role: str, folder: Path, connection: Connection) -> Any:
    return rows.to_reader(max_chunksize=3)


def _separated(rows: pa.Table, delimiter: str) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows(row.values() for row in rows.to_pylist())
    return text.getvalue()


def _trec(rows: pa.Table, role: str) -> str:
    line = {
        "rankings": "{query_id} Q0 {item_id} {rank} {score} run\n",
        "labels": "{query_id}\t0\t{item_id}  {grade}\n",
    }[role]
    return "".join(line.format(**row) for row in rows.to_pylist())


def _text_file(path: Path, text: str) -> str:
    packed = gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    path.write_bytes(packed)
    return str(path)


@dataclass(frozen=True)
class Format:
    """A place for a table: how it gets there, and what it cannot hold."""

    put: Callable[[pa.Table, str, Path, Connection], Any]
    cannot: frozenset[str] = frozenset()
    ranks: bool = True


# An empty field of a CSV file is NULL. A field of a TREC file ends at white space.
IN_CSV = frozenset({"empty"})
IN_TREC = frozenset({"empty", "spaces", "lines", "separators", "hostile", "hashes"})

FORMATS = {
    "table": Format(as_table),
    "view": Format(as_view),
    "select": Format(as_select),
    "relation object": Format(as_relation),
    "parquet": Format(as_parquet),
    "pathlib": Format(as_path),
    "glob": Format(as_parts),
    "csv": Format(as_csv, cannot=IN_CSV),
    "csv.gz": Format(as_csv_gz, cannot=IN_CSV),
    "tsv": Format(as_tsv, cannot=IN_CSV),
    "trec": Format(as_trec, cannot=IN_TREC, ranks=False),
    "trec.gz": Format(as_trec_gz, cannot=IN_TREC, ranks=False),
    "pandas": Format(as_pandas),
    "polars": Format(as_polars),
    "polars lazy": Format(as_lazy),
    "arrow": Format(as_arrow),
    "arrow reader": Format(as_reader),
}


def _cells(name: str) -> Iterator[Any]:
    """A format with ids that are texts, by scores or ranks, and with integers by slices."""
    orders = ("score", "rank") if FORMATS[name].ranks else ("score",)
    texts = [(order, "texts") for order in kept(f"order {name}", orders, 0.3)]
    integers = [("score", "integers")] * keep(f"format {name}", 0.3)
    for order, ids in texts + integers:
        yield pytest.param(name, order, ids, id=f"{name}-{order}-{ids}")


@pytest.mark.parametrize(("name", "order", "ids"), [c for name in FORMATS for c in _cells(name)])
def test_a_format_changes_no_number(
    name: str, order: str, ids: str, tmp_path: Path, connection: Connection
) -> None:
    form, kinds = FORMATS[name], TEXTS if ids == "texts" else INTEGERS
    held = {kind: ids for kind, ids in kinds.items() if kind not in form.cannot}
    rankings, labels = (
        form.put(rows, role, tmp_path, connection)
        for rows, role in zip(tables_of(held), ("rankings", "labels"), strict=True)
    )
    options = {"connection": connection, "cell": f"input {name} {ids}", order: order}
    assert numbers(evaluate(rankings, labels, METRICS, **options)) == expected(held)


def test_the_ids_of_the_matrix_are_all_different() -> None:
    ids = [value for kind in TEXTS.values() for value in kind]
    assert len(set(ids)) == len(ids)
    assert len([key for key in expected(TEXTS) if key[0] == "query"]) == len(ids)


ALONE = [
    (name, kind) for name in ("csv", "tsv") for kind in TEXTS if kind not in FORMATS[name].cannot
]


@pytest.mark.parametrize(("name", "kind"), ALONE)
def test_a_text_file_of_one_kind_of_id(
    name: str, kind: str, tmp_path: Path, shared_connection: Connection
) -> None:
    """A reader that guesses a file's dialect guesses by what else is in it."""
    rows = tables_of({kind: TEXTS[kind]})[0].select(["query_id", "item_id"])
    path = FORMATS[name].put(rows, "rankings", tmp_path, shared_connection)
    assert read_back(path, shared_connection) == _tuples(rows)


CELL = st.text(st.sampled_from("ab0# ,;|\t\"'\\\n-é😀"), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(CELL, CELL, st.sampled_from(["1.0", "-2"])), min_size=1, max_size=5),
    suffix=st.sampled_from([",.csv", "\t.tsv"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_csv_and_tsv_are_read_as_they_were_written(
    rows: list[tuple[str, ...]],
    suffix: str,
    end: str,
    tmp_path_factory: pytest.TempPathFactory,
    shared_connection: Connection,
) -> None:
    path = tmp_path_factory.getbasetemp() / f"random{suffix[1:]}"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=suffix[0], lineterminator=end)
        writer.writerows([("query_id", "item_id", "score"), *rows])
    assert read_back(path, shared_connection) == rows


def read_back(path: str | Path, connection: Connection) -> list[tuple[Any, ...]]:
    """The rows of a file, as our text behind FROM reads them."""
    source = source_text(relation_of(Source(file=str(path)), "rankings"))
    return connection.execute(f"from {source}").fetchall()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n \t\n", "  \n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_line_ends_of_trec_files(start: str, end: str, tmp_path: Path) -> None:
    run, qrels = tmp_path / "line=1" / "run", tmp_path / "line=1" / "qrels"  # no folder of Hive
    run.parent.mkdir()
    run.write_bytes(f"{start}q Q0 a 1 2.5 r{end} q\tQ0\t b 2 1e-3 r{end}".encode())
    qrels.write_bytes(f"{start}q 0 b 1{end}\t q 0 a 0{end}".encode())
    result = evaluate(run, qrels, "mrr", cell=f"lines {start!r} {end!r}")
    assert result["mrr"] == 0.5


def test_lines_of_a_trec_file_may_end_differently(tmp_path: Path) -> None:
    """And hold characters that nobody sees."""
    (tmp_path / "run").write_bytes(b"q Q0 a 1 2 r\r\nq Q0 b\x02 2 1 r\n")
    (tmp_path / "qrels").write_bytes(b"q 0 b\x02 1\nq 0 c 0\r\n")
    assert sm.evaluate(tmp_path / "run", tmp_path / "qrels", "mrr")["mrr"] == 0.5


def test_folders_of_a_hive_layout_are_a_column(tmp_path: Path) -> None:
    rankings, labels = SIMPLE
    for day in ("2026-03-01", "2026-03-02"):
        (tmp_path / f"ds={day}").mkdir()
        pq.write_table(rankings, tmp_path / f"ds={day}" / "part.parquet")
    result = sm.evaluate(tmp_path / "*" / "*.parquet", labels[:-1], METRICS, date="ds")
    days = {str(row["metric_date"]): row["n_queries"] for row in result.to_dicts()}
    assert days == {"2026-03-01": 3, "2026-03-02": 3}


def test_spaces_around_the_names_of_a_csv_file_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("query_id , item_id, score\nq,a,2\nq,b,1\n")
    labels = pa.table({"query_id": ["q"], "item_id": ["b"], "grade": [1]})
    assert sm.evaluate(tmp_path / "run.csv", labels, "mrr")["mrr"] == 0.5


# Types

TYPES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint64(), pa.decimal128(9, 0)),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())),
)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_of_ids(kind: pa.DataType) -> None:
    """A type may differ between the tables, as long as the text is the same."""
    rankings, labels = tables_of(INTEGERS)
    for column in ("query_id", "item_id"):
        index = rankings.column_names.index(column)
        texts = rankings[column].cast(pa.string())
        typed = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
        rankings = rankings.set_column(index, column, typed)
    result = evaluate(rankings, labels, METRICS, cell=f"type of ids {kind}")
    assert numbers(result) == expected(INTEGERS)


@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_pandas_types_of_ids(kind: str) -> None:
    frames = [table.to_pandas() for table in SIMPLE]
    for frame in frames:
        frame[["query_id", "item_id"]] = frame[["query_id", "item_id"]].astype(kind)
    assert numbers(evaluate(*frames, METRICS)) == SIMPLE_NUMBERS


def test_a_pandas_index_may_hold_the_query() -> None:
    frames = [table.to_pandas().set_index("query_id") for table in SIMPLE]
    assert numbers(evaluate(*frames, METRICS)) == SIMPLE_NUMBERS


@pytest.mark.parametrize("kind", [pa.float32(), pa.decimal128(22, 3), pa.string()], ids=str)
def test_types_of_scores_and_grades(kind: pa.DataType) -> None:
    rankings, labels = SIMPLE
    rankings = rankings.set_column(2, "score", rankings["score"].cast(kind))
    labels = labels.set_column(2, "grade", labels["grade"].cast(kind))
    assert numbers(evaluate(rankings, labels, METRICS, cell=f"type {kind}")) == SIMPLE_NUMBERS


# Names

NAMES = (
    *("Mixed Case", "two words", 'say "hi"', "semi;colon", "dotted.name", '"quoted"', "o'clock"),
    *("😀", "é", "back\\slash", " leading", "trailing ", "new\nline", "--", "/*", "%s", "{x}"),
    *("x" * 63, "1", "order", "group", "select", "from", "end", "values", "all_"),
    *("rankings", "labels", "ranked", "judged", "list_sums", "label_sums", "per_query"),
    *("query_systems", "ranking_rows", "label_rows"),
    *("metric_values", "totals", "summary", "source", "lines", "field", "sqlmetrics_rankings"),
    *("query_id", "item_id", "score", "grade", "rnk", "given_rank", "system", "weight", "by_x"),
    *("metric", "k", "value", "metric_date", "segment_name", "segment_value", "is_ranked"),
    *("n", "row", "sqlmetrics_per_query", 'x"; drop table t; --', "'); drop table t; --"),
)
"""Names that are hard to write in SQL, or that our own text uses."""

ROLES = ("query", "item", "score", "system", "weight", "by")


TURNS = [turn for turn in range(0, len(NAMES), 2) if turn % 6 in kept("roles", (0, 2, 4), 0.3)]


@pytest.mark.parametrize("first", TURNS, ids=lambda first: repr(NAMES[first]))
def test_columns_may_have_any_name(first: int) -> None:
    """Each name stands for a role at least; in all slices, for three."""
    turned = NAMES[first:] + NAMES[:first]
    names = dict(zip(ROLES, turned, strict=False))
    rankings, labels = SIMPLE
    rows = rankings.num_rows
    columns = [*(rankings[name] for name in ("query_id", "item_id", "score"))]
    columns += [pa.array(["s"] * rows), pa.array([1.0] * rows), pa.array(["x"] * rows)]
    ranked = pa.table(columns, names=list(names.values()))
    # The query without a list has no weight, so its label is left out
    labelled = pa.table(labels.columns, names=turned[:3])[:-1]
    options = {"cell": f"columns {first}", "grade": names["score"], **names}
    result = evaluate(ranked, labelled, METRICS, **options)
    assert numbers(result) == SIMPLE_RANKED
    segments = {(row["segment_name"], row["segment_value"]) for row in result.to_dicts()}
    assert segments == {("all", "all"), (names["by"], "x")}


def test_names_may_be_swapped() -> None:
    swapped = {"query_id": "item_id", "item_id": "score", "score": "query_id", "grade": "query_id"}
    tables = [
        table.select([name for name in swapped if name in table.column_names]) for table in SIMPLE
    ]
    renamed = [
        table.rename_columns([swapped[name] for name in table.column_names]) for table in tables
    ]
    columns = {"query": "item_id", "item": "score", "score": "query_id", "grade": "query_id"}
    assert numbers(sm.evaluate(*renamed, METRICS, **columns)) == SIMPLE_NUMBERS


def test_a_column_may_be_written_in_another_case() -> None:
    result = sm.evaluate(*SIMPLE, METRICS, query="QUERY_ID", item="Item_Id", score="SCORE")
    assert numbers(result) == SIMPLE_NUMBERS


def test_labels_may_have_names_of_their_own() -> None:
    rankings, labels = SIMPLE
    theirs = {"query": "qid", "item": "Doc No", "grade": "rel"}
    labelled = labels.rename_columns(list(theirs.values()))
    result = sm.evaluate(rankings, labelled, METRICS, label_columns=theirs)
    assert numbers(result) == SIMPLE_NUMBERS
    result = sm.evaluate(
        rankings,
        labels.rename_columns(["qid", "item_id", "rel"]),
        METRICS,
        grade="rel",
        label_columns={"query": "qid"},
    )
    assert numbers(result) == SIMPLE_NUMBERS


def test_dates_may_have_different_names() -> None:
    rankings, labels = SIMPLE
    rankings = rankings.append_column("ds", pa.array(["2026-03-01"] * rankings.num_rows))
    labels = labels.append_column("day", pa.array(["2026-03-01"] * labels.num_rows))
    by_day = sm.evaluate(rankings, labels, METRICS, date="ds", label_columns={"date": "day"})
    assert {str(row["metric_date"]) for row in by_day.to_dicts()} == {"2026-03-01"}
    # The query without a list is not missing: on that day no system has it
    assert numbers(by_day) == numbers(sm.evaluate(rankings, labels[:-1], METRICS))


def test_readers_are_read_once_also_with_dates() -> None:
    rankings, labels = SIMPLE
    rankings = rankings.append_column("ds", pa.array(["2026-03-01"] * rankings.num_rows))
    readers = [table.to_reader() for table in (rankings, labels)]
    result = sm.evaluate(*readers, METRICS, date="ds")
    assert result.per_query().num_rows == 3


def test_segments_named_like_our_own_columns() -> None:
    rankings, labels = SIMPLE
    names = ["grade", "weight", "query", "segment_name", "k", "ndcg_at_3", "is_missing", "mrr"]
    for name in names:
        rankings = rankings.append_column(name, pa.array(["x"] * rankings.num_rows))
    result = sm.evaluate(rankings, labels, METRICS, by=names)
    segments = {(row["segment_name"], row["segment_value"]) for row in result.to_dicts()}
    in_segments = {(name, value) for name in names for value in ("x", "(unknown)")}
    assert segments == {("all", "all")} | in_segments


def test_a_segment_cannot_be_called_all() -> None:
    """Its rows could not be told from the roll-up, and a sum over `all` would count twice."""
    rankings, labels = SIMPLE
    rankings = rankings.append_column("all", pa.array(["x"] * rankings.num_rows))
    with pytest.raises(sm.SpecError, match="all"):
        sm.evaluate(rankings, labels, METRICS, by="all")


# Tables


def put(connection: Connection, kind: str, name: str, rows: pa.Table) -> str:
    """A table, temporary table or view of any name; the name as SQL."""
    quoted = '"' + name.replace('"', '""') + '"'
    connection.register("given", rows)
    if kind == "view":
        behind = f'"behind {quoted[1:]}'
        connection.execute(
            f"create table {behind} as from given; create view {quoted} as from {behind}"
        )
    else:
        connection.execute(f"create {kind} {quoted} as from given")
    connection.unregister("given")
    return quoted


@pytest.mark.parametrize("names", [NAMES[at : at + 3] for at in range(0, len(NAMES), 3)], ids=repr)
def test_tables_may_have_any_name(names: Sequence[str], connection: Connection) -> None:
    """As it is, or as SQL would write it: which, the slice says."""
    names = [*names, "some labels", "queries"][:3]
    queries = pa.table({"query_id": ["a", "b", "c", "d"], "length": ["x"] * 4})
    put_there = [
        put(connection, "table", name, rows)
        for name, rows in zip(names, (*SIMPLE, queries), strict=True)
    ]
    before = objects(connection)
    rankings, labels, query_table = (
        name if keep(f"unquoted {name}", 0.5) else text
        for name, text in zip(names, put_there, strict=True)
    )
    options = {
        "connection": connection,
        "cell": f"tables {names}",
        "queries": query_table,
        "by": "length",
    }
    result = evaluate(rankings, labels, METRICS, **options)
    assert numbers(result) == SIMPLE_NUMBERS
    assert {row["segment_value"] for row in result.to_dicts()} == {"all", "x"}
    assert objects(connection) == before
    for name, rows in zip(put_there, SIMPLE, strict=False):
        assert connection.execute(f"from {name}").fetchall() == _tuples(rows)


RESERVED_NAMES = (
    "rankings",
    "labels",
    "ranked",
    "per_query",
    "sqlmetrics_per_query",
    "sqlmetrics_rankings",
)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (first, kind)
        for first, name in enumerate(RESERVED_NAMES)
        for kind in kept(f"own {name}", ("table", "temp table", "view"), 0.4)
    ],
)
def test_tables_named_like_our_own(first: int, kind: str, connection: Connection) -> None:
    names = RESERVED_NAMES[first], RESERVED_NAMES[first - 1]
    for name, rows in zip(names, SIMPLE, strict=True):
        put(connection, kind, name, rows)
    before = objects(connection)
    result = evaluate(*names, METRICS, connection=connection, cell=f"own {names} {kind}")
    assert numbers(result) == SIMPLE_NUMBERS
    assert objects(connection) == before
    for name, rows in zip(names, SIMPLE, strict=True):
        assert connection.execute(f"from {name}").fetchall() == _tuples(rows)


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]


@pytest.mark.parametrize("name", ["rankings", "labels", "judged"])
def test_one_table_may_be_both(name: str, connection: Connection) -> None:
    rows = {"query_id": ["q", "q"], "item_id": ["a", "b"], "score": [2.0, 1.0], "grade": [0, 1]}
    put(connection, "table", name, pa.table(rows))
    assert sm.evaluate(name, name, "mrr", connection=connection)["mrr"] == 0.5
    graded = f"select * from {name} where grade > 0"
    assert sm.evaluate(name, graded, "mrr", connection=connection)["mrr"] == 0.5


def test_a_query_means_the_table_and_not_our_stage_of_that_name(connection: Connection) -> None:
    """The labels are all rows of `rankings`, not only those that are ranked."""
    rows = {"query_id": ["q", "q", "q"], "item_id": ["a", "b", "c"], "score": [2.0, 1.0, 0.0]}
    put(connection, "table", "rankings", pa.table(rows))
    result = sm.evaluate(
        "select * from rankings where score = 2",
        "select query_id, item_id, score from rankings",
        "num_rel",
        connection=connection,
        grade="score",
    )
    assert result["num_rel"] == 2


def test_schemas_and_attached_databases(connection: Connection, tmp_path: Path) -> None:
    connection.execute(f"attach '{tmp_path / 'other.duckdb'}' as other")
    connection.execute('create schema "My schema"; create schema other.deep')
    names = '"My schema"."a.b"', "other.deep.Labels"
    for name, rows in zip(names, SIMPLE, strict=True):
        connection.register("given", rows)
        connection.execute(f"create table {name} as from given")
    result = sm.evaluate(*names, METRICS, connection=connection)
    assert numbers(result) == SIMPLE_NUMBERS


SELECTS = (
    "select * from my_rankings",
    "  SELECT * FROM my_rankings ; ",
    "select\n*\nfrom my_rankings -- the end",
    "select\t* from my_rankings",
    "with mine as (from my_rankings) select * from mine",
    "from my_rankings",
    "-- all of them\nselect * from my_rankings",
    "/* all of them */ select * from my_rankings",
    "(select * from my_rankings)",
    "select * from my_rankings where item_id <> 'a\n-- b\n  c' -- ; ' \"",
    "with recursive mine as (from my_rankings) select * from mine order by score limit 99",
)


@pytest.mark.parametrize("text", SELECTS)
def test_ways_to_write_a_query(text: str, connection: Connection) -> None:
    put(connection, "table", "my_rankings", SIMPLE[0])
    options = {"connection": connection, "cell": f"query {text}"}
    result = evaluate(text, SIMPLE[1], METRICS, **options)
    assert numbers(result) == SIMPLE_NUMBERS


def test_literals_of_a_query_keep_their_lines(connection: Connection) -> None:
    rankings = "select 'q' as query_id, 'a\n-- b\n  c' as item_id, 1 as score"
    labels = pa.table({"query_id": ["q"], "item_id": ["a\n-- b\n  c"], "grade": [1]})
    assert sm.evaluate(rankings, labels, "mrr", connection=connection)["mrr"] == 1


# Hostile names and values

HOSTILE = (
    'x"; drop table t; --',
    "'); drop table t; --",
    "t; drop table t",
    "\\'; drop table t; --",
    "{{ drop }}{% raw %}",
    "select 1; drop table t",
    "select 1) as x; drop table t; select * from (select 1",
    "drop table t",
    "x\0y",
)

PLACES: Mapping[str, Callable[[str, Connection], object]] = {
    "rankings": lambda text, c: sm.evaluate(text, "labels", "mrr", connection=c),
    "labels": lambda text, c: sm.evaluate("rankings", text, "mrr", connection=c),
    "path": lambda text, c: sm.evaluate(Path(text), "labels", "mrr", connection=c),
    "metric": lambda text, c: sm.evaluate("rankings", "labels", text, connection=c),
    "setting": lambda text, c: _evaluated(c, metrics=f"ndcg(gain={text})@3"),
    "preset": lambda text, c: _evaluated(c, preset=text),
    "option": lambda text, c: _evaluated(c, **{text: "x"}),
    "value": lambda text, c: _evaluated(c, ties=text),
    "gain table": lambda text, c: _evaluated(c, gain={text: 1}),
    "by": lambda text, c: _evaluated(c, by=text),
    **{
        role: lambda text, c, role=role: _evaluated(c, **{role: text})
        for role in ("query", "item", "score", "rank", "grade", "system", "date", "weight")
    },
    "label_columns": lambda text, c: _evaluated(c, label_columns={"query": text}),
    "label_columns key": lambda text, c: _evaluated(c, label_columns={text: "query_id"}),
}


def _evaluated(connection: Connection, metrics: Any = "mrr", **options: Any) -> sm.Result:
    return sm.evaluate("rankings", "labels", metrics, connection=connection, **options)


@pytest.mark.parametrize("argument", PLACES)
def test_hostile_texts_only_fail(argument: str, connection: Connection) -> None:
    for name, rows in zip(("rankings", "labels"), SIMPLE, strict=True):
        put(connection, "table", name, rows)
    connection.execute("create table t as select 42 as x")
    before = objects(connection)
    for text in kept(f"hostile {argument}", HOSTILE, 0.5):
        with pytest.raises((sm.SpecError, sm.InputError)):
            PLACES[argument](text, connection)
    assert objects(connection) == before
    assert connection.execute("from t").fetchall() == [(42,)]


@pytest.mark.parametrize(
    "name", [*HOSTILE[:5], "it's", 'a "b" c', "[1]", "a?b*", "a\nb", "select 1"]
)
def test_files_may_have_any_name(name: str, tmp_path: Path) -> None:
    """A file that is there is meant itself, not as a pattern."""
    decoy = [(tmp_path / decoy) for decoy in ("1.parquet", "aXbY.parquet")]
    for path, rows in zip(decoy, SIMPLE, strict=True):
        pq.write_table(rows[:1], path)
    run = tmp_path / f"{name}.parquet"
    pq.write_table(SIMPLE[0], run)
    path = run if keep(f"path {name}", 0.5) else str(run)
    result = evaluate(path, SIMPLE[1], METRICS, cell=f"file {name}")
    assert numbers(result) == SIMPLE_NUMBERS


def test_values_come_back_as_they_are() -> None:
    """Each is a system, and the country of its rows."""
    values = [*HOSTILE, "all", "(unknown)", "a\nb", ""]
    rankings = pa.concat_tables(
        SIMPLE[0]
        .append_column("sys", pa.array([value] * SIMPLE[0].num_rows))
        .append_column("country", pa.array([value] * SIMPLE[0].num_rows))
        .append_column("day", pa.array([f"2026-01-{day:02}"] * SIMPLE[0].num_rows))
        for day, value in enumerate(values, start=1)
    )
    result = evaluate(rankings, SIMPLE[1], "mrr", system="sys", by="country", date="day")
    segments = {
        (row["metric_date"].day, row["system"], row["segment_name"], row["segment_value"])
        for row in result.to_dicts()
        if row["n_queries"] > row["n_missing"]
    }
    for day, value in enumerate(values, start=1):
        assert {(day, value, "country", value), (day, value, "all", "all")} <= segments


# The user's own connection


def objects(connection: Connection) -> set[tuple[Any, ...]]:
    """All tables and views that are not DuckDB's own."""
    return set(
        connection.execute(
            "select database_name, schema_name, table_name from duckdb_tables() "
            "union all "
            "select database_name, schema_name, view_name from duckdb_views() where not internal"
        ).fetchall()
    )


def settings_of(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("select name, value from duckdb_settings() order by 1").fetchall()


BOOM = """
    select query_id, item_id, case when score = 1 then error('boom') else score end as score
    from my_rankings
"""

RUNS: Mapping[str, tuple[Callable[[Connection], object], str]] = {
    "tables": (lambda c: sm.evaluate("my_rankings", "my_labels", "mrr", connection=c), ""),
    "frames": (lambda c: sm.evaluate(*SIMPLE, "mrr", connection=c), ""),
    "frame and table": (lambda c: sm.evaluate(SIMPLE[0], "my_labels", "mrr", connection=c), ""),
    "table and frame": (lambda c: sm.evaluate("my_rankings", SIMPLE[1], "mrr", connection=c), ""),
    "no such table": (
        lambda c: sm.evaluate(SIMPLE[0], "nope", "mrr", connection=c),
        "no file or table",
    ),
    "no such column": (
        lambda c: sm.evaluate(*SIMPLE, "mrr", connection=c, query="nope"),
        "unknown column",
    ),
    "no such metric": (lambda c: sm.evaluate(*SIMPLE, "mmr", connection=c), "unknown metric"),
    "no table at all": (lambda c: sm.evaluate(SIMPLE[0], 5, "mrr", connection=c), "DataFrame"),
    "a missing query": (
        lambda c: sm.evaluate(*SIMPLE, "mrr", connection=c, missing="error"),
        "without a ranking",
    ),
    "a failing query": (lambda c: sm.evaluate(BOOM, "my_labels", "mrr", connection=c), "boom"),
    "a failing query, unchecked": (
        lambda c: sm.evaluate(BOOM, "my_labels", "mrr", connection=c, check=False),
        "boom",
    ),
}
"""Evaluations, and a word of the error with which they end."""


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (run, kind)
        for run in RUNS
        for kind in kept(f"left behind {run}", ("table", "temp table", "temp view"), 0.4)
    ],
)
def test_nothing_is_left_behind_or_lost(run: str, kind: str, connection: Connection) -> None:
    evaluation, error = RUNS[run]
    for name, rows in zip(("my_rankings", "my_labels"), SIMPLE, strict=True):
        put(connection, "table", name, rows)
    for name in ("sqlmetrics_per_query", "sqlmetrics_rankings", "sqlmetrics_labels", "ranked"):
        connection.execute(f"create {kind} {name} as select 42 as x")
    before = objects(connection), settings_of(connection)
    if error:
        with pytest.raises(sm.SqlmetricsError, match=error):
            evaluation(connection)
    else:
        evaluation(connection)
    assert (objects(connection), settings_of(connection)) == before
    for name in ("sqlmetrics_per_query", "sqlmetrics_rankings", "sqlmetrics_labels", "ranked"):
        assert connection.execute(f"from {name}").fetchall() == [(42,)]


@pytest.mark.parametrize("run", RUNS)
def test_a_transaction_stays_the_users(run: str, connection: Connection) -> None:
    """Work that was not yet committed survives, unless the database itself failed."""
    evaluation, error = RUNS[run]
    for name, rows in zip(("my_rankings", "my_labels"), SIMPLE, strict=True):
        put(connection, "table", name, rows)
    connection.execute("create table mine (x integer); begin; insert into mine values (42)")
    if error:
        with pytest.raises(sm.SqlmetricsError, match=error):
            evaluation(connection)
    else:
        evaluation(connection)
    connection.execute("rollback" if error == "boom" else "commit")
    if error == "boom":  # in a transaction that failed no setting can be put back
        connection.execute("reset disabled_optimizers")
    assert connection.execute("from mine").fetchall() == ([] if error == "boom" else [(42,)])


@pytest.mark.parametrize("name", ["csv", "trec", "parquet"])
def test_files_beside_an_open_transaction(
    name: str, connection: Connection, tmp_path: Path
) -> None:
    run = FORMATS[name].put(SIMPLE[0], "rankings", tmp_path, connection)
    connection.execute("create table mine (x integer); begin; insert into mine values (42)")
    result = sm.evaluate(run, SIMPLE[1], METRICS, connection=connection)
    connection.execute("commit")
    assert numbers(result) == SIMPLE_NUMBERS
    assert connection.execute("from mine").fetchall() == [(42,)]


def test_a_database_that_is_read_only(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.duckdb")
    with duckdb.connect(path) as writing:
        for name, rows in zip(("rankings", "labels"), SIMPLE, strict=True):
            put(writing, "table", name, rows)
    with duckdb.connect(path, read_only=True) as reading:
        from_tables = sm.evaluate("rankings", "labels", METRICS, connection=reading)
        from_both = sm.evaluate(SIMPLE[0], "labels", METRICS, connection=reading)
        assert len(objects(reading)) == 2
    assert numbers(from_tables) == numbers(from_both) == SIMPLE_NUMBERS


SETTINGS = (
    "default_order = 'desc'",
    "default_null_order = 'nulls_first'",
    "default_collation = 'nocase'",
    "preserve_insertion_order = false",
    "integer_division = true",
    "ieee_floating_point_ops = false",
    "error_on_division_by_zero = false",
    "python_scan_all_frames = true",
    "python_enable_replacements = false",
    "enable_external_access = false",
    "threads = 2",
)


@pytest.mark.parametrize(
    ("setting", "order"), [(SETTINGS[0], "rank"), *((setting, "score") for setting in SETTINGS)]
)
def test_settings_of_the_connection_change_no_number(setting: str, order: str) -> None:
    connection = duckdb.connect(config={"threads": 1})  # some settings cannot be put back
    held = {kind: TEXTS[kind] for kind in ("case", "accents", "zeros")}
    for name, rows in zip(("rankings", "labels"), tables_of(held), strict=True):
        put(connection, "table", name, rows)
    connection.execute(f"set {setting}")
    before = settings_of(connection)
    options = {"connection": connection, "cell": f"setting {setting} {order}", order: order}
    result = evaluate("rankings", "labels", METRICS, **options)
    assert numbers(result) == expected(held)
    assert settings_of(connection) == before
    connection.close()


def test_a_collation_that_merges_ids_is_refused(connection: Connection) -> None:
    connection.execute(
        "create table r as select 'q' as query_id, 'a' collate nocase as item_id, 1 as score;"
        "create table l as select 'q' as query_id, 'A' collate nocase as item_id, 1 as grade;"
    )
    with pytest.raises(sm.InputError, match="collation of item_id"):
        sm.evaluate("r", "l", "mrr", connection=connection)
    with pytest.raises(sm.InputError, match="collation of item_id"):
        sm.evaluate("select * from r", "select * from l", "mrr", connection=connection)


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_python_variable_is_no_table(everywhere: bool) -> None:
    mine, labels = SIMPLE
    rankings = data = name = mine  # names that our own functions use
    with duckdb.connect(config={"python_scan_all_frames": str(everywhere)}) as connection:
        for text in ("mine", "rankings", "data", "name", "labels"):
            with pytest.raises(sm.InputError, match="there is no file or table"):
                sm.evaluate(text, labels, "mrr", connection=connection)
    with pytest.raises(sm.InputError, match="mine does not exist"):
        sm.evaluate("select * from mine", labels, "mrr")
    assert rankings is data is name is mine


def test_a_table_is_found_though_a_variable_has_its_name(connection: Connection) -> None:
    put(connection, "table", "mine", SIMPLE[0])
    mine = SIMPLE[0][:0]
    result = sm.evaluate("mine", SIMPLE[1], METRICS, connection=connection)
    assert numbers(result) == SIMPLE_NUMBERS
    assert mine.num_rows == 0


def test_a_closed_connection_is_told() -> None:
    connection = duckdb.connect()
    connection.close()
    with pytest.raises(sm.EngineError, match="closed"):
        sm.evaluate(*SIMPLE, "mrr", connection=connection)


# The order of rows

QUERIES, DEPTH, FOLDER = 500, 500, 7


@pytest.fixture(scope="module")
def long_lists() -> tuple[pd.DataFrame, pd.DataFrame]:
    """500 lists of 500 items with equal scores, mixed; the 7th row of each is relevant."""
    n = QUERIES * DEPTH
    rows = pd.Series(range(n))
    rankings = pd.DataFrame({"query_id": rows % QUERIES, "item_id": rows * 7919 % n, "score": 0.5})
    labels = rankings[QUERIES * (FOLDER - 1) : QUERIES * FOLDER].drop(columns="score")
    return rankings, labels.assign(grade=1)


@pytest.mark.parametrize("name", ["parquet", "pandas", "csv", "unordered connection"])
def test_input_order_is_the_order_of_the_rows(
    name: str, long_lists: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    rankings, labels = long_lists
    rows = pa.Table.from_pandas(rankings, preserve_index=False)
    path = tmp_path / ("run.csv" if name == "csv" else "run.parquet")
    if name == "csv":
        arrow_csv.write_csv(rows, path)
    else:
        pq.write_table(rows, path, row_group_size=20_000)
    unordered = duckdb.connect(config={"preserve_insertion_order": False})
    with unordered as connection:
        result = sm.evaluate(
            rankings if name == "pandas" else path,
            labels,
            "first_rank",
            connection=connection if name == "unordered connection" else None,
            ties="input_order",
        )
    assert set(result.per_query()["first_rank"].to_pylist()) == {FOLDER}


@pytest.mark.parametrize("put_it", [as_table, as_view, as_select])
def test_a_table_of_a_database_has_no_order(
    put_it: Callable[..., Any], connection: Connection, tmp_path: Path
) -> None:
    run = put_it(SIMPLE[0], "rankings", tmp_path, connection)
    with pytest.raises(sm.SpecError, match="ties=input_order needs rows in an order"):
        sm.evaluate(run, SIMPLE[1], METRICS, connection=connection, ties="input_order")
    ranked = sm.evaluate(
        run, SIMPLE[1], METRICS, connection=connection, ties="input_order", rank="rank"
    )
    assert numbers(ranked) == SIMPLE_NUMBERS
