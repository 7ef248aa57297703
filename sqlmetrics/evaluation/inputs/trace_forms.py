"""The forms in which retrieval tools export what they traced: one row a query, with lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

_REFERENCES = (
    *("document_ids", "doc_ids", "reference_ids", "expected_ids", "relevant_ids", "chunk_ids"),
    *("reference_context_ids", "documents", "sources", "context"),
)
_RETRIEVED = (
    *("documents", "retrieved_documents", "retrieved_docs", "docs", "retrieved_ids"),
    *("document_ids", "doc_ids", "retrieved_context_ids", "context", "contexts", "output"),
)


@dataclass(frozen=True)
class TraceForm:
    """How a tool exports what was retrieved for a query, and what should have been.

    A name with a point in it is a column of that name, or a key of the JSON objects in the column
    before the point. Of several names the first that is there holds.

    Attributes:
        tool: The tool.
        query: Columns that tell the queries apart.
        retrieved: Columns of the lists of retrieved documents, best first.
        reference: Columns of the lists of relevant documents.
        ids: Keys of a document's id, where documents are objects; the first that all have.
        scores: Keys of a document's score, likewise.
    """

    tool: str
    query: tuple[str, ...]
    retrieved: tuple[str, ...]
    reference: tuple[str, ...]
    ids: tuple[str, ...] = ("id", "doc_id", "document_id")
    scores: tuple[str, ...] = ("score",)

    @property
    def example(self) -> str:
        """The tool with the first of each of its names."""
        names = (self.query[0], self.retrieved[0], *self.reference[:1])
        return f"{self.tool} ({', '.join(names)})"

    @property
    def is_named(self) -> bool:
        """Whether its columns are those that a person named."""
        return self.tool == OWN_FORM.tool

    def of(self, query: Sequence[str], retrieved: str, reference: str) -> Self:
        """The same with these columns; without a reference the labels are another table."""
        references = (reference,) if reference else ()
        return replace(self, query=tuple(query), retrieved=(retrieved,), reference=references)


QUERY_NAMES = ("query_id", "qid", "query", "topic_id", "request_id", "id")
"""Keys that people put beside a response of a search engine, to tell the query."""

LANGCHAIN_IDS = (
    *("id", "metadata.id", "metadata.doc_id", "metadata.document_id", "metadata.chunk_id"),
    *("metadata.source", "doc_id", "document_id"),
)
"""Keys of a LangChain document's id: its own is optional, and not there in older versions."""

TRACE_FORMS = (
    # ragas 0.4.3: SingleTurnSample, to_jsonl, to_pandas
    TraceForm("Ragas", ("user_input",), ("retrieved_context_ids",), ("reference_context_ids",)),
    # llama-index-core 0.14.25: RetrievalEvalResult
    TraceForm("LlamaIndex", ("query",), ("retrieved_ids",), ("expected_ids",)),
    # langsmith 0.15.0: ExperimentResults.to_pandas has inputs.*, outputs.*, reference.*; the keys
    # behind the points are those of the user's own functions
    TraceForm(
        "LangSmith",
        ("example_id", "reference_example_id", "inputs.question", "inputs.query", "inputs.input"),
        tuple(f"outputs.{key}" for key in _RETRIEVED),
        tuple(
            f"{prefix}.{key}"
            for prefix in ("reference", "reference_outputs", "expected")
            for key in _REFERENCES
        ),
        ids=LANGCHAIN_IDS,
        scores=("score", "metadata.score", "metadata.relevance_score"),
    ),
    # Spans as Phoenix's get_spans_dataframe has them, documents as OpenInference; the reference
    # is the user's own column
    TraceForm(
        "Phoenix",
        ("attributes.input.value", "context.span_id"),
        ("attributes.retrieval.documents",),
        tuple(
            f"{prefix}{key}" for prefix in ("", "attributes.metadata.") for key in _REFERENCES[:-3]
        ),
        ids=("document.id", "document.metadata.id", "document.metadata.doc_id"),
        scores=("document.score",),
    ),
    # The evaluation sets of MLflow's agent evaluation: request, retrieved_context, doc_uri; and
    # its retriever tutorial: questions, retrieved_context, ground_truth_context; whole traces of
    # mlflow 3.17.2 are unpacked into the former (mlflow_traces)
    TraceForm(
        "MLflow",
        ("request_id", "request", "questions", "question", "inputs.question", "inputs.query"),
        ("retrieved_context", "retrieved_doc_ids", "outputs.retrieved_context"),
        (
            *("expected_retrieved_context", "expectations.expected_retrieved_context"),
            *("ground_truth_context", "ground_truth_doc_ids", "source"),
        ),
        ids=(
            *("doc_uri", "metadata.doc_uri", "id", "metadata.doc_id", "metadata.id"),
            *("metadata.chunk_id", "metadata.source"),
        ),
    ),
    # The responses of search engines, a line each, as they are or under the key `response`, with
    # the query's id beside: they have no references
    TraceForm(
        "a response of Elasticsearch or OpenSearch",
        QUERY_NAMES,
        ("hits.hits", "response.hits.hits"),
        (),
        ids=("_id",),
        scores=("_score",),
    ),
    TraceForm(
        "a response of Solr",
        (*QUERY_NAMES, "responseHeader.params.q", "response.responseHeader.params.q"),
        ("response.docs", "response.response.docs"),
        (),
    ),
    TraceForm(
        "a response of Vespa",
        QUERY_NAMES,
        ("root.children", "response.root.children"),
        (),
        scores=("relevance",),
    ),
)
"""Each tool's form; the first that fits holds."""

OWN_FORM = TraceForm(
    "traces",
    (),
    (),
    (),
    ids=tuple(dict.fromkeys([*(key for form in TRACE_FORMS for key in form.ids), "chunk_id"])),
    scores=tuple(dict.fromkeys(key for form in TRACE_FORMS for key in form.scores)),
)
"""The form of traces whose columns a person names."""


def known_forms() -> str:
    """The forms with labels, and the columns that tell them, for messages."""
    return "; ".join(form.example for form in TRACE_FORMS if form.reference)
