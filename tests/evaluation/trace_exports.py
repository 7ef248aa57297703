"""Rows of traces as the exports of retrieval tools have them, and how they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


def ragas(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    return {
        "user_input": query,
        "retrieved_contexts": [f"text of {item}" for item in retrieved],
        "retrieved_context_ids": retrieved,
        "reference_context_ids": relevant,
        "response": "It is so.",
        "faithfulness": 0.5,
    }


def llamaindex(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    return {
        "query": query,
        "expected_ids": relevant,
        "expected_texts": None,
        "retrieved_ids": retrieved,
        "retrieved_texts": [f"text of {item}" for item in retrieved],
        "mode": "text",
        "metric_dict": {"mrr": {"score": 0.5, "metadata": {"k": 2}}},
    }


def langchain(item: str) -> dict[str, Any]:
    return {
        "id": None,
        "page_content": f"text of {item}",
        "metadata": {"source": item, "page": 3},
        "type": "Document",
    }


def langsmith(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    return {
        "inputs": {"question": f"what is {query}?"},
        "outputs": {"answer": "It is so.", "documents": list(map(langchain, retrieved))},
        "reference_outputs": None if relevant is None else {"document_ids": relevant},
        "execution_time": 0.3,
        "example_id": query,
        "id": f"run of {query}",
    }


def langsmith_frame(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    return {
        "inputs.question": f"what is {query}?",
        "outputs.documents": list(map(langchain, retrieved)) or None,
        "error": None,
        "reference.document_ids": relevant,
        "feedback.correct": 1,
        "example_id": query,
        "id": f"run of {query}",
    }


def phoenix(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    documents = [
        {"document.id": item, "document.content": f"text of {item}", "document.score": 1 / rank}
        for rank, item in enumerate(retrieved, start=1)
    ]
    return {
        "context.span_id": f"span of {query}",
        "span_kind": "RETRIEVER",
        "attributes.input.value": query,
        "attributes.retrieval.documents": documents,
        "reference_ids": relevant,
    }


def mlflow(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    def context(ids: list[str]) -> list[dict[str, str]]:
        return [{"doc_uri": item, "content": f"text of {item}"} for item in ids]

    return {
        "request_id": query,
        "request": {"messages": [{"role": "user", "content": f"what is {query}?"}]},
        "response": "It is so.",
        "retrieved_context": context(retrieved),
        "expected_retrieved_context": None if relevant is None else context(relevant),
    }


def mlflow_tutorial(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    return {"questions": query, "retrieved_context": retrieved, "ground_truth_context": relevant}


def mlflow_trace(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    """`Trace.to_json()` of mlflow 3.17.2: two retrievers, and one that calls another."""

    def span(number: int, kind: str, inputs: object, outputs: object, parent: int = 0) -> Any:
        attributes = {"spanType": kind, "spanInputs": inputs, "spanOutputs": outputs}
        return {
            "span_id": f"span {number}",
            "parent_span_id": f"span {parent}" if parent else None,
            "name": kind.lower(),
            "start_time_unix_nano": 1_795_418_915_706_507_407 + number,
            "attributes": {
                f"mlflow.{name}": json.dumps(value) for name, value in attributes.items()
            },
        }

    documents = [
        {"page_content": f"text of {item}", "metadata": {"doc_uri": item}, "id": f"chunk of {item}"}
        for item in retrieved
    ]
    spans = [
        span(1, "CHAIN", {"question": f"what is {query}?"}, "It is so."),
        span(4, "RETRIEVER", {"query": query}, documents[1:], 1),
        span(2, "RETRIEVER", {"query": query}, documents[:1], 1),
        span(3, "RETRIEVER", {"query": query}, documents[:1], 2),
        span(5, "LLM", {"messages": [query, "why?"]}, [{"doc_uri": "none"}], 1),
    ]
    value = json.dumps([{"doc_uri": item} for item in relevant or ()])
    expected = {"serialized_value": {"serialization_format": "JSON_FORMAT", "value": value}}
    assessments = [
        {"assessment_name": "is_good", "feedback": {"value": True}},
        {"assessment_name": "expected_retrieved_context", "expectation": expected},
    ]
    info = {
        "trace_id": query,
        "state": "OK",
        "assessments": assessments[: 1 + (relevant is not None)],
    }
    return {"info": info, "data": {"spans": spans}}


def mlflow_searched(query: str, retrieved: list[str], relevant: list[str] | None) -> dict[str, Any]:
    """A row of `mlflow.search_traces()`."""
    trace = json.dumps(mlflow_trace(query, retrieved, relevant))
    return {"trace_id": query, "trace": trace, "state": "OK", "request": {"question": "what?"}}


TOOLS = {
    "Ragas": ragas,
    "LlamaIndex": llamaindex,
    "LangSmith": langsmith,
    "LangSmith, flat": langsmith_frame,
    "Phoenix": phoenix,
    "MLflow": mlflow,
    "MLflow, tutorial": mlflow_tutorial,
    "MLflow, whole": mlflow_trace,
    "MLflow, searched": mlflow_searched,
}
READ = {
    "Ragas": "user_input, retrieved_context_ids, reference_context_ids",
    "LlamaIndex": "query, retrieved_ids, expected_ids",
    "LangSmith": "example_id, outputs.documents, reference_outputs.document_ids",
    "LangSmith, flat": "example_id, outputs.documents, reference.document_ids",
    "Phoenix": "attributes.input.value, attributes.retrieval.documents, reference_ids",
    "MLflow": "request_id, retrieved_context, expected_retrieved_context",
    "MLflow, tutorial": "questions, retrieved_context, ground_truth_context",
    "MLflow, whole": "request_id, retrieved_context, expected_retrieved_context",
    "MLflow, searched": "request_id, retrieved_context, expected_retrieved_context",
}


def exported(rows: list[dict[str, Any]], end: str, folder: Path) -> Any:
    """The rows as a file with an ending, or as a frame."""
    path = folder / f"traces{end}"
    if end == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    elif end == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif end == ".csv":  # as pandas writes lists
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        table = pa.Table.from_pylist(rows)
        if end == "pandas":
            return table.to_pandas()
        pq.write_table(table, path)
    return path


ENDS = (".jsonl", ".json", ".csv", ".parquet", "pandas")
OF_IDS = ("Ragas", "LlamaIndex", "MLflow, tutorial", "MLflow, searched")
