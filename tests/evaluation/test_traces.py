"""Exports of retrieval tools, read as they are: the numbers are those of plain Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from conftest import peer
from evaluation.trace_exports import ENDS, OF_IDS, READ, TOOLS, exported, mlflow_trace, ragas
from marked import by_turns, sliced
from memory import database, evaluate

import sqlmetrics as sm
from sqlmetrics.evaluation.inputs.lists import TRACE_FORMS
from sqlmetrics.evaluation.inputs.traces import path_of
from sqlmetrics.jobs.run import evaluated

pytestmark = by_turns(0.1)

RETRIEVED = {"q1": ["a", "b", "c"], "q2": [], "q3": ["c", "7"], "q4": ["b"]}
REFERENCE = {"q1": ["c", "z"], "q2": ["a"], "q3": ["7"], "q4": None}
METRICS = ["recall@2", "mrr"]


def plain(k: int = 2) -> dict[str, tuple[float, float]]:
    """Query -> recall@k and the reciprocal rank, of those that have a reference."""
    values = {}
    for query, relevant in REFERENCE.items():
        if relevant:
            retrieved = RETRIEVED[query]
            ranks = [rank for rank, item in enumerate(retrieved, start=1) if item in relevant]
            recall = sum(rank <= k for rank in ranks) / len(relevant)
            values[query] = (recall, 1 / ranks[0] if ranks else 0.0)
    return values


def numbers(result: sm.Result) -> dict[str, tuple[float, float]]:
    rows = result.per_query().to_pylist()
    return {row["query_id"]: (row["recall_at_2"], row["mrr"]) for row in rows}


def traces(tool: str) -> list[dict[str, Any]]:
    """A small export of a tool, with what else stands in one."""
    return [TOOLS[tool](query, RETRIEVED[query], REFERENCE[query]) for query in RETRIEVED]


CELLS = [f"{tool}|{end}" for tool in TOOLS for end in ENDS if end != ".csv" or tool in OF_IDS]


@pytest.mark.parametrize("cell", sliced("traces", 0.2, CELLS))
def test_an_export_gives_the_numbers_of_plain_python(cell: str, tmp_path: Path) -> None:
    tool, _, end = cell.partition("|")
    export = exported(traces(tool), end, tmp_path)
    result = evaluate(export, metrics=METRICS, cell=cell)
    assert numbers(result) == plain()
    assert result.notes[0] == f"read as {tool.partition(',')[0]}: {READ[tool]}"


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("MLflow", "retrieved_context holds objects that are not JSON"),
        ("LangSmith", "lists of a known form"),
    ],
)
def test_objects_as_python_prints_them_are_refused(tool: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(sm.InputError, match=message):
        evaluate(exported(traces(tool), ".csv", tmp_path), metrics=METRICS)
    path = str(tmp_path / "unknown.jsonl")
    Path(path).write_text('{"foo": "q1", "bar": [{"baz": "a"}]}\n')
    with pytest.raises(sm.InputError, match=r"item=bar\.KEY, --item\) or give a known form: Ragas"):
        sm.compare({"old": path, "new": path}, path, ["mrr"])


def test_labels_of_mlflow_s_traces_may_be_another_table_by_the_question(tmp_path: Path) -> None:
    rows = [mlflow_trace(query, ["a", "b"], None) for query in ("one", "two")]
    export = exported(rows, ".jsonl", tmp_path)
    truth = pa.table({"request": ["what is two?"], "item_id": ["b"], "grade": [1]})
    result = evaluate(export, truth, "mrr", query="request")
    assert result["mrr"] == 0.5
    with pytest.raises(sm.InputError, match="no labels are given"):
        evaluate(export, metrics="mrr")


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # its own, of what it calls
def test_mlflow_s_own_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces that mlflow wrote, as JSON lines and as the frame that it searches."""
    tool, entities = peer("mlflow"), peer("mlflow.entities")
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    tool.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    tool.set_experiment("seams")
    lists = {"one": ["a", "b", "c"], "two": ["x"], "three": []}

    @tool.trace(span_type="RETRIEVER")
    def retrieve(question: str) -> list[Any]:
        return [entities.Document(f"text of {i}", {"doc_uri": i}) for i in lists[question]]

    for question, relevant in {"one": ["b", "z"], "two": ["x"], "three": ["a"]}.items():
        retrieve(question)
        last = tool.get_last_active_trace_id()
        tool.log_expectation(trace_id=last, name="expected_ids", value=relevant)
    logged = tool.search_traces(return_type="list")
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(f"{trace.to_json()}\n" for trace in logged), encoding="utf-8")
    frame = tool.search_traces(return_type="pandas")
    for export in (path, frame):
        result = evaluate(export, metrics=["recall@5", "mrr"])
        rows = result.per_query().to_pylist()
        assert sorted((row["recall_at_5"], row["mrr"]) for row in rows) == [
            (0, 0),
            (0.5, 0.5),
            (1, 1),
        ]


def test_every_form_has_an_export_here() -> None:
    exported = {form.tool for form in TRACE_FORMS if form.reference}  # a search engine has none
    assert exported == {tool.partition(",")[0] for tool in TOOLS}


@by_turns(0.6)
def test_columns_of_json_in_texts_of_a_table(tmp_path: Path) -> None:
    """As warehouses keep them, and as a bulk export of LangSmith writes them."""
    rows = [
        {
            name: json.dumps(value) if isinstance(value, dict) else value
            for name, value in row.items()
        }
        for row in traces("LangSmith")
    ]
    path = str(tmp_path / "traces.duckdb")
    with duckdb.connect(path) as connection:
        held = pa.Table.from_pylist(rows)  # noqa: F841  # DuckDB finds it by its name
        connection.execute("create table runs as select * from held")
    assert numbers(sm.evaluate("runs", metrics=METRICS, connection=path)) == plain()
    assert numbers(sm.evaluate("from runs", metrics=METRICS, connection=path)) == plain()


@by_turns(0.6)
def test_another_database_gets_the_lists_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sqlite.db"
    path.touch()
    export = exported(traces("MLflow"), ".jsonl", tmp_path)
    assert numbers(sm.evaluate(export, metrics=METRICS, connection=f"sqlite:///{path}")) == plain()


def test_labels_may_be_another_table() -> None:
    labels = {query: dict.fromkeys(ids, 1) for query, ids in REFERENCE.items() if ids}
    rows = [{**row, "reference_ids": None} for row in traces("Phoenix")]
    table = pa.Table.from_pylist(rows).drop_columns("reference_ids")
    result = evaluate(table, labels, METRICS)
    assert numbers(result) == plain()
    read = "attributes.input.value, attributes.retrieval.documents"
    assert result.notes[0] == f"read as Phoenix: {read}"


@by_turns(0.5)
def test_columns_and_keys_by_their_names() -> None:
    rows = [
        {"question": query, "hits": [{"chunk": {"key": item}} for item in items], "truth": truth}
        for (query, items), truth in zip(RETRIEVED.items(), REFERENCE.values(), strict=True)
    ]
    named: dict[str, Any] = {"query": "question", "item": "hits"}
    with pytest.raises(
        sm.InputError, match=r"have no id .* their keys are chunk; name the key of the id"
    ):
        evaluate(
            pa.Table.from_pylist(rows), metrics=METRICS, **named, label_columns={"item": "truth"}
        )
    for row in rows:
        row["hits"] = [{"id": hit["chunk"]["key"]} for hit in row["hits"]]
    result = evaluate(
        pa.Table.from_pylist(rows), metrics=METRICS, **named, label_columns={"item": "truth"}
    )
    assert [row["mrr"] for row in result.per_query().to_pylist()] == [
        value for _, value in plain().values()
    ]
    rows = traces("LangSmith")
    for row in rows:
        for document in row["outputs"]["documents"]:
            document["metadata"] = {"source": "one.pdf", "key": document["metadata"]["source"]}
    with pytest.raises(sm.InputError, match="more than once"):  # chunks of one source
        evaluate(rows, metrics=METRICS)
    result = evaluate(rows, metrics=METRICS, item="metadata.key")
    assert numbers(result) == plain()


def test_the_order_of_a_list_is_the_rank_unless_scores_are_named() -> None:
    rows = traces("Phoenix")
    scored = rows[0]["attributes.retrieval.documents"]
    scored[0]["document.score"] = 0.1  # a distance, say: a is nearest
    result = evaluate(rows, metrics=METRICS)
    assert numbers(result) == plain()
    assert result.notes[1].startswith("document.score rises in 1 of the lists")
    by_score = evaluate(rows, metrics=METRICS, score="document.score")
    assert numbers(by_score)["q1"] == (0.5, 0.5)  # b, c, a
    assert not any("rises" in note for note in by_score.notes)


def test_repeats_follow_the_option() -> None:
    rows = [ragas("q", ["a", "a", "b"], ["b"])]
    with pytest.raises(sm.InputError, match="duplicate_rankings=best_score"):
        evaluate(rows, metrics="mrr")
    assert evaluate(rows, metrics="mrr", duplicate_rankings="best_score")["mrr"] == 0.5


@by_turns(0.4)
def test_a_query_twice_is_refused_unless_something_tells_its_lists_apart() -> None:
    rows = [ragas("q", ["a"], ["a"]) | {"system": "x", "id": 1}]
    rows += [ragas("q", ["b"], ["a"]) | {"system": "y", "id": 2}]
    with pytest.raises(sm.InputError, match=r"query 'q' \(user_input\) has 2 rows"):
        evaluate(rows, metrics="mrr")
    summary = evaluate(rows, metrics="mrr", system="system").summary().to_pylist()
    assert {row["system"]: row["value"] for row in summary} == {"x": 1.0, "y": 0.0}
    assert evaluate(rows, metrics="mrr", query="id")["mrr"] == 0.5
    assert sm.compare(rows, metrics="mrr", system="system", connection=database()).rows


@by_turns(0.4)
def test_segments_weights_and_conditions_hold_for_empty_lists_too() -> None:
    rows = [row | {"topic": "x", "n": 1} for row in traces("Ragas")]
    rows[2] |= {"topic": "y", "n": 6}
    result = evaluate(rows, metrics="mrr", by="topic", weight="n")
    means = {row["segment_value"]: row["value"] for row in result.summary().to_pylist()}
    assert means == pytest.approx({"all": (1 / 3 + 0 + 6 / 2) / 8, "x": 1 / 6, "y": 0.5})
    assert evaluate(rows, metrics="mrr", where="topic = 'y'")["mrr"] == 0.5
    with pytest.raises(sm.InputError, match=r"unknown column 'topics'; did you mean 'topic'\?"):
        evaluate(rows, metrics="mrr", by="topics")


def test_columns_of_several_traces_are_the_query_s_where_they_agree(tmp_path: Path) -> None:
    lists = {"a": [["x", "y"], [], ["z"]], "b": [["y", "x"], ["z"], ["y"]]}
    references = [["x"], ["z"], ["z"]]
    paths, bare_paths = [], []
    for system, retrieved in lists.items():
        traces = pd.DataFrame(
            {
                "user_input": ["q1", "q2", "q3"],
                "retrieved_context_ids": retrieved,
                "response": [f"{system} says {number}" for number in range(3)],
                "lang": ["de", "de", None],
            }
        )
        bare_paths.append(str(tmp_path / f"{system}.jsonl"))
        traces.to_json(bare_paths[-1], orient="records", lines=True)
        paths.append(str(tmp_path / f"{system}.parquet"))
        traces.assign(reference_context_ids=references).to_parquet(paths[-1])
    labels = pd.DataFrame(
        {"query_id": ["q1", "q2", "q3"], "item_id": ["x", "z", "z"], "grade": [1, 1, 1]}
    )
    # mrr by hand: a has 1 and 0 of German queries, b has 1/2 and 1; the third has no language
    expected = {("a", "de"): 0.5, ("b", "de"): 0.75, ("a", "(unknown)"): 1.0, ("b", "(unknown)"): 0}
    runs = dict(zip("ab", bare_paths, strict=True))
    for result in (
        sm.evaluate(paths[0], paths[1], "mrr", by="lang"),
        sm.evaluate(runs, labels, "mrr", by="lang"),
    ):
        rows = [row for row in result.to_dicts() if row["segment_name"] == "lang"]
        assert {(row["system"], row["segment_value"]): row["value"] for row in rows} == expected
    with pytest.raises(sm.SqlmetricsError, match=r"response of 3 queries differs .* 'q1'"):
        sm.evaluate(paths[0], paths[1], "mrr", by="response")
    with pytest.raises(sm.SqlmetricsError, match=r"b\.jsonl' holds traces without references"):
        sm.compare(bare_paths[0], bare_paths[1], "mrr")


@by_turns(0.8)
@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
def test_a_spec_of_traces_is_evaluate_of_the_traces(database: str, tmp_path: Path) -> None:
    """Per query and by segment: of a query with an empty list its columns are known too."""
    rows = [row | {"lang": "de", "n": 2, "text": "a b"} for row in traces("Ragas")]
    rows[2] |= {"lang": "fr", "n": 6, "text": "c"}
    file = str(exported(rows, ".jsonl", tmp_path))
    (tmp_path / "warehouse.db").touch()
    connection = f"sqlite:///{tmp_path / 'warehouse.db'}" if database == "sqlite" else None
    segments = {"german": "lang = 'de'", "length": "query_length"}
    by = ("lang", *segments)
    weight = {"weight": "n"} if database == "duckdb" else {}
    spec = sm.Spec(
        rankings={"file": file, "columns": weight},
        labels={"file": file},
        metrics=METRICS,
        by=by,
        segments=segments,
    )
    options: dict[str, Any] = {"by": by, "segments": segments, **weight}
    results = [
        evaluated(spec, sm.connect(connection), per_query=True),
        sm.evaluate(file, metrics=METRICS, connection=connection, per_query=True, **options),
    ]
    of_spec, of_file = (
        {
            (row["segment_name"], row["segment_value"], row["metric"]): (
                row["value"],
                row["n_queries"],
            )
            for row in result.summary().to_pylist()
        }
        for result in results
    )
    assert of_spec == of_file
    assert of_spec["lang", "de", "mrr"] == (pytest.approx(1 / 6), 2)
    mean = (2 / 3 + 0 + 3) / 10 if weight else (1 / 3 + 0 + 1 / 2) / 3
    assert of_spec["all", "all", "mrr"] == (pytest.approx(mean), 3)
    assert [name for name in of_spec if "(unknown)" in name] == []
    of_queries = [
        sorted(result.per_query().drop_columns("system").to_pylist(), key=str) for result in results
    ]
    assert of_queries[0] == of_queries[1]
    assert sm.validate(spec, connection) == ()


@by_turns(0.8)
def test_a_spec_of_traces_with_days_is_compared_and_built(tmp_path: Path) -> None:
    """What the spec's own table says of queries holds, and a query has other columns each day."""
    days = {"2026-01-01": "de", "2026-01-02": "fr"}
    rows = [
        ragas("q", ["a", "b"], [item]) | {"day": f"{day}T12:00:00Z", "lang": lang}
        for (day, lang), item in zip(days.items(), "ab", strict=True)
    ]
    file = str(exported(rows, ".jsonl", tmp_path))
    fields: dict[str, Any] = {
        "rankings": {"file": file, "columns": {"date": "day"}},
        "labels": {"file": file, "columns": {"date": "day"}},
        "metrics": ["mrr"],
        "by": ["lang"],
    }
    spec = sm.Spec(**fields, output={"relation": "daily"})
    path = str(tmp_path / "out.duckdb")
    duckdb.connect(path).close()
    sm.run(spec, path, start="2026-01-01", end="2026-01-03")
    with duckdb.connect(path) as connection:
        built = connection.execute(
            "select segment_value, value from daily where segment_name = 'lang' order by all"
        ).fetchall()
    assert built == [("de", 1.0), ("fr", 0.5)]
    compared = sm.compare(spec, dates=list(days))
    assert compared.rows
    languages = pa.table({"query_id": ["q"], "lang": ["it"]})
    named = sm.Spec(**fields, queries={"data": languages, "columns": {"segments": ["lang"]}})
    summary = evaluated(named, sm.connect()).summary().to_pylist()
    assert {row["segment_value"] for row in summary} == {"all", "it"}


def test_lists_in_a_csv_file_are_traces_beside_labels_and_beside_one_another(
    tmp_path: Path,
) -> None:
    rows = [("x", '["a", "b"]', "de"), ("y", "[]", "fr"), ("z", '["b"]', "fr")]
    names = ["user_input", "retrieved_context_ids", "country"]
    table = pd.DataFrame(rows, columns=names).assign(reference_context_ids='["b"]')
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    table.to_csv(old, index=False)
    table.to_csv(new, index=False)
    labels = {query: ["b"] for query in "xyz"}
    result = evaluate(old, labels, ["mrr"], by="country")
    assert {row["segment_value"]: row["value"] for row in result.summary().to_pylist()} == {
        "all": 0.5,
        "de": 0.5,
        "fr": 0.5,
    }
    assert {row["system"] for row in evaluate(old, new, ["mrr"]).summary().to_pylist()} == {
        "old",
        "new",
    }


def test_what_is_no_traces_is_told_with_the_forms_that_are_known() -> None:
    rows = [{"prompt": "q", "answer": "a"}]
    with pytest.raises(sm.InputError, match="columns prompt, answer have neither") as caught:
        evaluate(rows, metrics="mrr")
    for form in filter(lambda form: form.reference, TRACE_FORMS):
        assert form.example in str(caught.value)
    with pytest.raises(sm.SpecError, match="metrics is empty"):
        evaluate(traces("Ragas"))


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"where": "1 = 1; drop table x"}, sm.SpecError, "must be one condition"),
        ({"where": "nope = 1"}, sm.InputError, "where 'nope = 1'.*nope"),
        ({"date": "day"}, sm.InputError, r"unknown column 'day'.*\(used as date\)"),
    ],
)
def test_what_is_asked_of_columns_is_looked_at(
    asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        evaluate(traces("Ragas"), metrics="mrr", **asked)


def test_a_path_of_json_quotes_its_keys() -> None:
    paths: Mapping[str, str] = {"id": '$."id"', "metadata.source": '$."metadata"."source"'}
    assert {key: path_of(key) for key in paths} == paths
