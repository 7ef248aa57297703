"""Bad input is refused, with a message that says what, where and what to do.

Each case is a file in `bad_input/` beside the good `rankings.csv` and `labels.csv`; its
message is `bad_input/<case>.txt`. `UPDATE_GOLDEN=1 pytest tests/evaluation/test_bad_input.py`
writes the messages anew: read the difference before it is committed.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from marked import by_turns
from memory import database, evaluate
from pairwise import pairs
from slices import kept

import sqlmetrics as sm
from sqlmetrics.catalog.metric import listed

FOLDER = Path(__file__).parents[1] / "bad_input"
WIDTH = 80

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Bad:
    """An evaluation that must be refused; what it does not say is good."""

    rankings: str = "rankings.csv"
    labels: str = "labels.csv"
    metrics: str | tuple[str, ...] = "ndcg@3"
    options: Options = field(default_factory=dict)
    error: type[sm.SqlmetricsError] = sm.InputError


def option(**options: Any) -> Bad:
    """A wrong option or argument over good data."""
    return Bad(options=options, error=sm.SpecError)


def metric(*texts: str) -> Bad:
    """A wrong metric over good data."""
    return Bad(metrics=texts, error=sm.SpecError)


ROWS = {
    "duplicated_rankings": Bad("duplicated_rankings.csv"),
    "duplicated_labels": Bad(labels="duplicated_labels.csv"),
    "score_nan": Bad("score_nan.csv"),
    "score_null": Bad("score_null.csv"),
    "score_text": Bad("score_text.csv"),
    "score_decimal_comma_in_a_grade": Bad(labels="score_text.csv", options={"grade": "score"}),
    "null_ids": Bad("null_ids.csv", "null_label_ids.csv"),
    "null_system_and_date": Bad(
        "null_system_and_date.csv", options={"system": "model", "date": "day"}
    ),
    "date_text": Bad("date_text.csv", options={"date": "day"}),
    "null_label_date": Bad("date_text.csv", "null_label_date.csv", options={"date": "day"}),
    "grade_negative": Bad(labels="grade_negative.csv"),
    "grade_null": Bad(labels="grade_null.csv"),
    "grade_not_finite": Bad(labels="grade_not_finite.csv"),
    "grade_text": Bad(labels="grade_text.csv"),
    "grade_too_large": Bad(labels="grade_too_large.csv"),
    "grade_outside_table": Bad(options={"gain": {1: 1, 2: 3}}),
    "grade_outside_tables": Bad(metrics=("ndcg(gain={1: 1, 2: 3})@3", "dcg(gain={1: 1, 2: 5})@3")),
    "no_common_query": Bad("numbers.csv", "leading_zeros.csv"),
    "ranks": Bad("ranks.csv", options={"rank": "place"}),
    "ranks_below_1": Bad("ranks_below_1.csv", options={"rank": "place"}),
    "rank_fraction": Bad("rank_fraction.csv", options={"rank": "place"}),
    "rank_not_finite": Bad("rank_not_finite.csv", options={"rank": "place"}),
    "rank_text": Bad("rank_text.csv", options={"rank": "place"}),
    "unjudged": Bad("ties.csv", options={"unjudged": "error"}),
    "ties": Bad("ties.csv", options={"ties": "error"}),
    "varying_segment_and_weight": Bad("facts.csv", options={"by": "country", "weight": "traffic"}),
    "varying_segment_with_braces": Bad("braces.csv", options={"by": "{x}"}),
    "weights": Bad("weights.csv", options={"weight": "traffic"}),
    "missing_error": Bad("one_query.csv", "more_labels.csv", options={"missing": "error"}),
    "unknown_weight": Bad("one_query.csv", "more_labels.csv", options={"weight": "traffic"}),
    "several_problems": Bad("null_ids.csv", "grade_negative.csv"),
}
"""Rows that would give a wrong number."""

TABLES = {
    "missing_column": Bad(options={"score": "scores"}),
    "missing_columns": Bad("near_names.csv", "other_names.csv"),
    "missing_named_columns": Bad(
        options={"query": "qid", "by": "country", "system": "model", "weight": "traffic"}
    ),
    "missing_label_columns": Bad(options={"label_columns": {"query": "qid", "grade": "rel"}}),
    "header_only": Bad("header_only.csv", error=sm.NoDataError),
    "header_only_both": Bad("header_only.csv", "header_only_labels.csv", error=sm.NoDataError),
    "zero_bytes": Bad("zero_bytes.csv"),
    "no_such_file": Bad("rankigns.csv"),
    "no_such_labels": Bad(labels="nope/*.parquet"),
    "spec": Bad("search.yml", error=sm.SpecError),
    "not_parquet": Bad("not_parquet.parquet"),
    "few_fields_run": Bad("few_fields.run"),
    "five_fields_run": Bad("five_fields.run"),
    "few_fields_qrels": Bad(labels="few_fields.qrels"),
    "csv_few_fields": Bad("csv_few_fields.csv"),
    "csv_many_fields": Bad("csv_many_fields.csv"),
    "csv_unclosed_quote": Bad("csv_unclosed_quote.csv"),
    "csv_latin_1": Bad("latin_1.csv"),
    "json_lines": Bad("rows.jsonl"),
    "two_statements": Bad("select 1; drop table t", error=sm.SpecError),
    "no_select": Bad("with x as (select 1) insert into t select * from x", error=sm.SpecError),
    "broken_select": Bad("select * frm t", error=sm.SpecError),
    "select_from_nowhere": Bad("select * from nowhere"),
}
"""Tables that are not what they should be."""

QUESTIONS = {
    "metric_k_0": metric("ndcg@0"),
    "metric_k_negative": metric("ndcg@-1"),
    "metric_k_missing": metric("precision"),
    "metric_k_not_taken": metric("num_q@10"),
    "metric_unknown": metric("ndgc@10"),
    "metric_unknown_alias": metric("hitrte@10"),
    "metric_unreadable": metric("ndcg@10 desc"),
    "metric_setting_unknown": metric("recall(rell=2)@10"),
    "metric_setting_value": metric("ndcg(gain=square)@10"),
    "metric_setting_not_its_own": metric("mrr(gain=exp)"),
    "metric_setting_of_all": metric("mrr(ties=id_asc)"),
    "metric_rel": metric("recall(rel=high)@10"),
    "metric_rel_too_large": metric("recall(rel=1e400)@10"),
    "metric_none": metric(),
    "metrics": metric("mrr", "ndgc@10", "recall@0", "precision"),
    "option_unknown": option(gian="exp"),
    "option_value": option(gain="expo"),
    "option_value_type": option(gain=3),
    "option_value_none": option(missing=None),
    "option_empty_list": option(gain=[]),
    "option_list_of_all": option(missing=["zero", "drop"]),
    "option_table_missing": option(gain="table"),
    "option_table_negative": option(gain={1: -1}),
    "option_table_text": option(gain={"high": 3}),
    "option_input_order": option(ties="inputorder"),
    "preset_unknown": option(preset="trec_evl"),
    "argument_unknown": option(qeury="qid"),
    "label_date_alone": option(label_columns={"date": "ds"}),
    "label_columns_unknown": option(label_columns={"qeury": "qid"}),
    "several_questions": option(preset="hous", gian="exp", ties="id", gain="square"),
}
"""Questions that make no sense."""

CASES = ROWS | TABLES | QUESTIONS


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.chdir(FOLDER)
    with pytest.raises(sm.SqlmetricsError) as caught:
        evaluate(case.rankings, case.labels, case.metrics, **case.options)
    code = 4 if case.error is sm.NoDataError else 2
    assert (type(caught.value), caught.value.exit_code) == (case.error, code)
    assert str(caught.value) == golden(name, str(caught.value))


def golden(name: str, message: str) -> str:
    """The message that a case must have."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(message + "\n", encoding="utf-8")
    assert path.is_file(), f"no {path.name}; UPDATE_GOLDEN=1 writes it from the message:\n{message}"
    return path.read_text(encoding="utf-8").removesuffix("\n")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_messages_are_readable(path: Path) -> None:
    """Short lines, but for lists and the words of others; no SQL of ours, no foreign words."""
    message = path.read_text(encoding="utf-8")
    long = [line for line in message.splitlines() if len(line) > WIDTH]
    assert [line for line in long if not re.search("known: |cannot be read: ", line)] == []
    ours = ("read_csv(", "read_parquet(", "string_split", "try_cast", "Tuple", "dictionary")
    assert [word for word in ours if word in message] == []


def test_each_file_belongs_to_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
    used = {name for case in CASES.values() for name in (case.rankings, case.labels)}
    data = {path.name for path in FOLDER.iterdir() if path.suffix != ".txt"}
    assert data <= used


# The same in tables that have types

GOOD = {"query_id": "q", "item_id": "a", "score": 1.0, "rank": 1, "weight": 1.0, "grade": 1}

TYPED = {
    "score nan": ({"score": math.nan}, "score is (NaN|NULL) in 1 row"),
    "score null": ({"score": None}, "score is NULL in 1 row"),
    "rank nan": ({"rank": math.nan}, "rank"),
    "rank infinite": ({"rank": math.inf}, "rank"),
    "rank beyond integers": ({"rank": 1e30}, "rank"),
    "rank fraction": ({"rank": 1.5}, "rank"),
    "rank null": ({"rank": None}, "rank is NULL in 1 row"),
    "weight nan": ({"weight": math.nan}, "weight is (negative or not finite|NULL) in 1 row"),
    "weight infinite": ({"weight": math.inf}, "weight is negative or not finite in 1 row"),
    "weight negative": ({"weight": -0.5}, "weight is negative or not finite in 1 row"),
    "grade nan": ({"grade": math.nan}, "grade is (NaN or infinite|NULL) in 1 row"),
    "grade infinite": ({"grade": -math.inf}, "grade is NaN or infinite in 1 row"),
    "grade negative": ({"grade": -1}, "grade is negative in 1 row"),
    "grade null": ({"grade": None}, "grade is NULL in 1 row"),
    "score of dates": ({"score": pd.Timestamp("2026-03-01")}, "score is not a number in 1 row"),
    "score of lists": ({"score": [1.0]}, "score is not a number in 1 row"),
    "query null": ({"query_id": None}, "query_id is NULL in 1 row"),
}


@pytest.mark.parametrize(
    ("case", "frame"),
    [(case, frame) for case in TYPED for frame in kept(f"typed {case}", ("pandas", "table"), 0.3)],
)
def test_typed_values_are_checked_too(case: str, frame: str) -> None:
    bad, message = TYPED[case]
    rows = pa.Table.from_pylist([GOOD | bad])
    rankings = rows.select(["query_id", "item_id", "score", "rank", "weight"])
    labels = rows.select(["query_id", "item_id", "grade"])
    options = {"weight": "weight"} | ({"rank": "rank"} if "rank" in bad else {})
    sources: list[Any] = [rankings, labels]
    if frame == "pandas":  # a NaN of pandas is a NULL
        sources = [table.to_pandas() for table in sources]
    else:
        sources = [table_of(name, rows) for name, rows in zip("rl", sources, strict=True)]
    with pytest.raises(sm.InputError, match=message):
        evaluate(*sources, "mrr", **options)
    database().execute("drop table if exists r; drop table if exists l")


def table_of(name: str, rows: pa.Table) -> str:
    database().register("given", rows)
    database().execute(f"create or replace table {name} as from given")
    database().unregister("given")
    return name


@pytest.mark.parametrize("given", [5, None, b"rankings.csv", {"q": 3}, [1, 2], object()])
def test_what_is_no_table(given: object) -> None:
    labels = pa.table({"query_id": ["q"], "item_id": ["a"], "grade": [1]})
    with pytest.raises((sm.InputError, sm.SpecError), match=r"rankings|data in memory"):
        evaluate(given, labels, "mrr")


def test_a_frame_of_mixed_ids_names_its_column() -> None:
    mixed = pd.DataFrame({"query_id": ["q", 1], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    labels = pa.table({"query_id": ["q"], "item_id": ["a"], "grade": [1]})
    with pytest.raises(sm.InputError, match="query_id"):
        evaluate(mixed, labels, "mrr")


TWICE = (["query_id", "item_id", "score", "score"], ["query_id", "item_id", "Score", "score"])


@pytest.mark.parametrize("columns", TWICE, ids=["equal", "but for case"])
@pytest.mark.parametrize("form", ["arrow", "pandas", "parquet", "csv"])
def test_a_column_that_is_there_twice(form: str, columns: list[str], tmp_path: Path) -> None:
    """DuckDB would rename the second, as an item is called here, and read the first."""
    rows = pa.table([["q", "q"], ["score_1", "b"], [2.0, 1.0], [1.0, 2.0]], names=columns)
    source: Any = rows
    if form == "pandas":
        source = pd.DataFrame(list(zip(*rows.columns, strict=True)), columns=columns)
    elif form == "parquet":
        source = tmp_path / "rankings.parquet"
        pq.write_table(rows, source)
    elif form == "csv":
        source = tmp_path / "rankings.csv"
        arrow_csv.write_csv(rows, source)
    labels = pa.table({"query_id": ["q"], "item_id": ["a"], "grade": [1]})
    with pytest.raises(sm.InputError, match="score"):
        evaluate(source, labels, "mrr")


# Files that are bad far from their start

LATE = {
    "few fields": "q,b\n",
    "many fields": "q,b,1,7\n",
    "unclosed quote": 'q,"b,1\n',
    "latin-1": "q,café,1\n",
}


@pytest.mark.parametrize("case", LATE)
def test_a_bad_line_late_in_a_file(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader guesses from the first lines does not hold; file and line are told."""
    monkeypatch.chdir(tmp_path)
    lines = [f"q,i{number},{number}\n" for number in range(30_000)]
    text = "".join(["query_id,item_id,score\n", *lines, LATE[case]])
    Path("late.csv").write_bytes(text.encode("latin-1"))
    labels = pa.table({"query_id": ["q"], "item_id": ["i1"], "grade": [1]})
    with pytest.raises(sm.InputError, match=r"late\.csv[\s\S]*30,?002"):
        evaluate("late.csv", labels, "mrr")


def test_a_folder_is_the_table_of_its_files_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/below").mkdir(parents=True)
    labels = pa.table({"query_id": ["q"], "item_id": ["a"], "grade": [1]})
    with pytest.raises(sm.InputError, match=r"a folder without Parquet, CSV or JSON files"):
        evaluate("runs", labels, "mrr")
    Path("runs/below/a.csv").write_text("query_id,item_id,score\nq,a,1\n")
    assert evaluate("runs", labels, "mrr")["mrr"] == 1.0
    Path("runs/b.json").write_text('{"query_id": "q", "item_id": "b", "score": 2}\n')
    with pytest.raises(sm.InputError, match=r"a folder with files \.csv and \.json; name the"):
        evaluate("runs/", labels, "mrr")


def test_files_of_a_glob_must_have_the_same_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"query_id": ["q"], "item_id": ["a"], "score": [1.0]})
    for number, part in enumerate((rows, rows.drop_columns("item_id"))):
        pq.write_table(part, f"{number}.parquet")
    labels = pa.table({"query_id": ["q"], "item_id": ["a"], "grade": [1]})
    with pytest.raises(sm.InputError, match=r"1\.parquet"):
        evaluate("*.parquet", labels, "mrr")


@pytest.mark.parametrize("name", ["nope.csv", "nope.parquet", "nope.run", "nope.tsv.gz"])
def test_a_path_that_is_not_there(name: str) -> None:
    labels = pa.table({"query_id": ["q"], "item_id": ["a"], "grade": [1]})
    for rankings in (name, Path(name)):
        with pytest.raises(sm.InputError, match=name) as caught:
            evaluate(rankings, labels, "mrr")
        assert "\n" not in str(caught.value)
        assert "read_" not in str(caught.value)


# The policies that let such input pass

POLICIES = [
    # q1: a, b (1), c (3); q2: a, c (2); every c and b is found within the top 3
    ("duplicated_rankings.csv", "labels.csv", {"duplicate_rankings": "best_score"}, "recall@3", 1),
    # b at its best score is second, and c third; q2: c second
    ("duplicated_rankings.csv", "labels.csv", {"duplicate_rankings": "best_score"}, "mrr", 1 / 2),
    # c counts once, with 3: two labels above 0 in q1 and one in q2
    ("rankings.csv", "duplicated_labels.csv", {"duplicate_labels": "max_grade"}, "num_rel", 3),
    ("rankings.csv", "duplicated_labels.csv", {"duplicate_labels": "max_grade"}, "cg@3", 3),
    # q1: a b c d, q2: a c d; the first relevant items are b and c
    ("ties.csv", "labels.csv", {"ties": "id_asc"}, "mrr", 1 / 2),
    # q1: b a d c, q2: d c a
    ("ties.csv", "labels.csv", {"ties": "id_desc"}, "mrr", 3 / 4),
    ("ties.csv", "labels.csv", {"ties": "input_order"}, "mrr", 1 / 2),
    # q1 finds b at rank 2; four other queries have a label and no list
    ("one_query.csv", "more_labels.csv", {"missing": "zero"}, "mrr", 1 / 10),
    ("one_query.csv", "more_labels.csv", {"missing": "drop"}, "mrr", 1 / 2),
    ("one_query.csv", "more_labels.csv", {"missing": "drop", "weight": "traffic"}, "mrr", 1 / 2),
    # Grades that are too large for 2^grade are not for others: q1 is 1 and 1001, q2 is 2
    ("rankings.csv", "grade_too_large.csv", {"gain": "linear"}, "cg@3", (1 + 1001 + 2) / 2),
    ("rankings.csv", "grade_too_large.csv", {}, "mrr", 1 / 2),
    # Lists without a gap are not asked for where rows are put together anyway
    (
        "ranks.csv",
        "labels.csv",
        {"rank": "place", "duplicate_rankings": "best_score", "missing": "drop"},
        "mrr",
        1,
    ),
]


@pytest.mark.parametrize(("rankings", "labels", "options", "text", "value"), POLICIES)
def test_a_policy_lets_it_pass(
    rankings: str, labels: str, options: Options, text: str, value: float
) -> None:
    result = evaluate(str(FOLDER / rankings), str(FOLDER / labels), text, **options)
    assert result[text] == pytest.approx(value, abs=1e-12)


BOUNDED = [
    f"{m.name}@3" if m.cutoff != "none" else m.name
    for m in listed()
    if "to 1" in m.range and not m.needs and m.over != "item_features"
]


@pytest.mark.parametrize("rankings", ["rankings.csv", "duplicated_rankings.csv", "ties.csv"])
@pytest.mark.parametrize("labels", ["labels.csv", "duplicated_labels.csv"])
def test_no_metric_above_1(rankings: str, labels: str) -> None:
    """A plain join over repeated rows would give a recall and an NDCG above 1."""
    assert {"ndcg@3", "recall@3", "precision@3", "ap@3", "auc"} <= set(BOUNDED)
    items = {*arrow_csv.read_csv(FOLDER / rankings)["item_id"].to_pylist()}
    result = evaluate(
        str(FOLDER / rankings),
        str(FOLDER / labels),
        BOUNDED,
        cell=f"bounded {rankings} {labels}",
        duplicate_rankings="best_score",
        duplicate_labels="max_grade",
        items=pa.table({"item_id": sorted(items)}),
    )
    rows = result.per_query().drop_columns(["system", "query_id"]).to_pylist()
    rows += [{row["metric"]: row["value"]} for row in result.to_dicts()]
    for row in rows:
        defined = {name: value for name, value in row.items() if value is not None}
        assert [name for name, value in defined.items() if not 0 <= value <= 1 + 1e-12] == []


STATISTICS = pairs(
    lambda row: (row["column"], row["bad"]) != ("score", math.inf),  # is a score: it sorts
    writer=["pyarrow", "polars"],
    bad=[math.nan, math.inf],
    column=["score", "grade", "weight"],
)


@pytest.mark.parametrize("row", STATISTICS, ids=lambda row: "-".join(map(str, row.values())))
def test_parquet_statistics_do_not_hide_bad_numbers(tmp_path: Path, row: Mapping[str, Any]) -> None:
    """Statistics leave NaN out, so that a filter may be answered without reading a row."""
    writer, bad, column = row["writer"], row["bad"], row["column"]

    values = {"score": [3.0, 2.0, 1.0], "grade": [1.0, 0.0, 2.0], "weight": [1.0, 1.0, 1.0]}
    values[column] = [*values[column][:2], bad]
    ids = {"query_id": ["q", "q", "q"], "item_id": ["a", "b", "c"]}
    for name, columns in (("runs", ("score", "weight")), ("truth", ("grade",))):
        table = pa.table(ids | {key: values[key] for key in columns})
        path = tmp_path / f"{name}.parquet"
        if writer == "polars":
            pl.from_arrow(table).write_parquet(path)
        else:
            pq.write_table(table, path)
    with pytest.raises(sm.InputError, match=rf"{column} is .*in 1 row\n.*\n  q .*(nan|inf)"):
        evaluate(tmp_path / "runs.parquet", tmp_path / "truth.parquet", "ndcg", weight="weight")


REPEATED = {
    "query_id": ["q1", "q1", "q1", "q2", None, None],
    "item_id": ["a", "a", "b", "c", "d", "d"],
    "score": [1.0, 2.0, None, float("nan"), 1.0, 1.0],
}


def test_repeated_rows_are_told_beside_bad_values() -> None:
    labels = pa.table({"query_id": ["q1", "q1"], "item_id": ["a", "a"], "grade": [1.0, None]})
    with pytest.raises(sm.InputError) as caught:
        sm.evaluate(pa.table(REPEATED), labels, ["mrr"])
    kinds = [(problem.table, problem.message, problem.count) for problem in caught.value.details]
    assert kinds == [
        ("rankings", "query_id is NULL in 2 rows", 2),
        ("rankings", "score is NULL in 1 row", 1),
        ("rankings", "score is NaN in 1 row", 1),
        ("labels", "grade is NULL in 1 row", 1),
        ("rankings", "items that appear more than once for the same query: 1", 1),
        ("labels", "items that appear more than once for the same query: 1", 1),
    ]


@pytest.mark.parametrize(
    "lengths", [[2], [16], [17], [32, 33], [128], [129], [2, 16, 32, 128, 400]]
)
def test_an_item_twice_in_lists_of_any_length(lengths: list[int]) -> None:
    """Of shorter and longer lists, other bits of the hashes are looked at, or hashes are sorted."""
    items = {length: [*map(str, range(length - 1)), str(length // 3)] for length in lengths}
    rows = [(length, item) for length in lengths for item in items[length]]
    single = [(length, str(i)) for length in lengths for i in range(length)]

    def table(rows: list[tuple[int, str]], value: str) -> pa.Table:
        queries, items = zip(*rows, strict=True)
        return pa.table({"query_id": queries, "item_id": items, value: range(len(rows))})

    assert sm.evaluate(table(single, "score"), table(single, "grade"), "dcg(gain=linear)")
    for ranked, labelled in ((rows, single), (single, rows)):
        with pytest.raises(sm.InputError) as caught:
            sm.evaluate(table(ranked, "score"), table(labelled, "grade"), "dcg(gain=linear)")
        (problem,) = caught.value.details
        assert problem.message == (
            f"items that appear more than once for the same query: {len(lengths)}"
        )
        assert problem.table == ("rankings" if ranked is rows else "labels")


@by_turns(3)
@pytest.mark.parametrize("connection", ["duckdb://", "sqlite://"])
def test_checks_of_a_share_of_the_queries(connection: str) -> None:
    """A tenth of 4,000 queries has some of 2,000 repeated rows, and not all of them."""
    rows = [(f"q{i}", item) for i in range(4_000) for item in "ab"]
    good = {
        "query_id": [query for query, _ in rows],
        "item_id": [item for _, item in rows],
        "score": [float(item == "a") for _, item in rows],
    }
    lists = pa.table(good)
    labels = pa.table({"query_id": ["q1"], "item_id": ["b"], "grade": [1]})
    result = sm.evaluate(lists, labels, ["mrr"], connection=connection, check=0.1)
    assert result["mrr"] == 0.5
    assert [note for note in result.notes if "looked at 10 % of the queries" in note]
    bad = pa.concat_tables([lists, lists.slice(0, 4_000)])
    with pytest.raises(sm.InputError) as caught:
        sm.evaluate(bad, labels, ["mrr"], connection=connection, check=0.1)
    (problem,) = caught.value.details
    assert 250 < problem.count < 550
    with pytest.raises(sm.SpecError, match="a share of the queries"):
        sm.evaluate(lists, labels, ["mrr"], check=1.5)
    with pytest.raises(sm.InputError, match="the table has no rows"):
        sm.evaluate(lists.slice(0, 0), labels, ["mrr"], connection=connection, check=0.1)
    with pytest.raises(sm.InputError, match="none of 8,000 rows meets the condition score > 1e9"):
        sm.evaluate(lists, labels, ["mrr"], connection=connection, where="score > 1e9")
