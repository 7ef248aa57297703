"""MLflow's traces, whole: what their retriever spans found, and what was expected."""

from __future__ import annotations

from collections.abc import Collection

from sqlmetrics.engines.database import Database
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import literal

WHOLE = {"info", "data"}
"""The columns of `Trace.to_json()`, one a line."""

SEARCHED = {"trace_id", "trace"}
"""Columns of `mlflow.search_traces()`, whose `trace` is the same JSON."""

TEXTS = ("VARCHAR", "JSON")
"""Types of columns in which JSON may be written."""

EXPECTED = "expected_retrieved_context"
"""The column of what was expected, by whichever name it was logged."""

EXPECTATIONS = (
    *(EXPECTED, "expected_documents", "expected_document_ids", "expected_doc_ids", "expected_ids"),
    *("relevant_ids", "document_ids", "doc_ids", "reference_ids", "ground_truth_context"),
)
"""The names of expectations that list documents."""


def are_mlflow_traces(columns: Collection[str]) -> bool:
    """Whether columns are those of MLflow's traces, as it writes or searches them."""
    return {*columns} >= WHOLE or {*columns} >= SEARCHED


def unpacked(source: str, reader: Database) -> str:
    """A `select` of one row a trace: its id, what was asked, what was retrieved and expected.

    Documents are those of the outermost spans of type RETRIEVER, in the order in which these
    began. Without an expectation that lists documents there is no column of them.

    Args:
        source: What stands behind FROM.
        reader: What reads it.
    """
    kind_by_column = reader.columns(source)
    held = {
        name: f"cast({name} as json)" if kind_by_column[name] in TEXTS else f"to_json({name})"
        for name in {*WHOLE, "trace"} & {*kind_by_column}
    }
    trace = held.get("trace") or f"json_object('info', {held['info']}, 'data', {held['data']})"
    names = ", ".join(map(literal, EXPECTATIONS))
    view = {
        "source": source,
        "trace": trace,
        "names": names,
        "expected": EXPECTED,
        "expects": True,
    }
    text = print_template("inputs/mlflow_traces", view)
    n_expected = reader.rows(f"select count({EXPECTED}) from ({text}) as traces")[0][0]
    return (
        text if n_expected else print_template("inputs/mlflow_traces", {**view, "expects": False})
    )
