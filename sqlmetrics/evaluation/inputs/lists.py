"""Tables whose rows hold lists -> one row per item."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.names import in_hit
from sqlmetrics.spec.source import LabelColumns, Model, RankingColumns
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import free_name, identifier, literal, parts
from sqlmetrics.sql.translation import Translation

# The forms in which retrieval tools export what they traced: one row a query, with lists.

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


def listed(
    relation: Relation,
    columns: Model,
    types: Mapping[str, str] | None = None,
    translation: Translation | None = None,
) -> Relation:
    """The relation with one row per item, if its rows hold lists of items.

    The order of a list is the rank, unless its scores or ranks are a list too. Labels
    without grades have grade 1.

    Args:
        relation: A table whose item column may hold lists.
        columns: The columns of the rankings or the labels.
        types: The types of its columns by name; None if a spec says that they are lists.
        translation: Into the words of the database that has it; None for DuckDB.

    Raises:
        InputError: If the lists hold no ids, or other columns do not go with them, or the
            database makes no rows of them.
    """
    if not isinstance(columns, RankingColumns | LabelColumns) or relation.columns:
        return relation
    unfolded = _Lists(relation, columns, types).unfolded()
    if not unfolded.lists or translation is None or not translation.changes:
        return unfolded
    return _exploded(unfolded, columns, types or {}, translation)


def _exploded(
    unfolded: Relation,
    columns: RankingColumns | LabelColumns,
    types: Mapping[str, str],
    translation: Translation,
) -> Relation:
    """The same as a query of Spark, whose arrays become rows by `lateral view posexplode`.

    Raises:
        InputError: If the database is another one.
    """
    if not translation.dialect.explodes or unfolded.template not in ("table", "query"):
        table = "rankings" if isinstance(columns, RankingColumns) else "labels"
        raise InputError(
            f"{table}: the column {columns.item} holds lists, which sqlmetrics reads on DuckDB "
            f"and Spark; on {translation.dialect.title} give a query with one row per item"
        )
    kind = {name.casefold(): kind for name, kind in types.items()}[columns.item.casefold()]
    fields = _fields(kind) if holds_hits(kind) else []
    lists = [] if fields else [parts(name)[0] for _, name in unfolded.lists]
    sizes = ", ".join(f"size({translation.column(name)})" for name in lists)
    sql = {
        "rank": "places.position + 1",
        "grade": "1",
        "lists": f"greatest({sizes}) - least({sizes})",
    }
    for role in ("item", "score", "rank", "grade"):
        if fields and (field := in_hit(role, fields)):
            sql[role] = f"places.hit.{translation.column(field)}"
    view = {
        "item": translation.column(columns.item),
        "replaced": [translation.column(name) for name in lists],
        "list_columns": [translation.column(name) for name in lists if name != columns.item],
        "added": [f"{sql[role]} as {translation.column(name)}" for role, name in unfolded.columns],
        "source": f"select * from {translation.name(unfolded.location)}"
        if unfolded.template == "table"
        else unfolded.location,
    }
    text = print_template("inputs/exploded", view)
    return Relation("query", text, ordered=unfolded.ordered, columns=unfolded.columns)


def holds_hits(kind: str) -> bool:
    """Whether a column holds lists of hits: of structs with the id of an item in them."""
    return bool(in_hit("item", _fields(kind)))


def _fields(kind: str) -> list[str]:
    """The names in the structs of a list; none of another type."""
    if not re.match(r"STRUCT.*\[\]$", kind, re.DOTALL):
        return []
    from sqlmetrics.engines.types import fields_of_list

    return fields_of_list(kind)


@dataclass(frozen=True)
class _Lists:
    """A table whose rows may hold lists."""

    table: Relation
    columns: RankingColumns | LabelColumns
    types: Mapping[str, str] | None

    def unfolded(self) -> Relation:
        """One row per item."""
        if not self._is_list(self.columns.item):
            return self.table
        if holds_hits(self._type(self.columns.item) or ""):
            return self._hits()
        problems = list(self._problems())
        if problems:
            raise InputError(problems)
        names = [self.columns.item, *filter(self._is_list, self._values().values())]
        added = self._added(*map(identifier, names))
        return replace(
            self.table,
            columns=tuple((role, name) for role, (_, name) in added.items()),
            lists=tuple((self._sql(name), identifier(name)) for name in names),
            added=tuple((sql, identifier(name)) for sql, name in added.values()),
        )

    def _hits(self) -> Relation:
        """One row per item, of lists of structs: as search APIs log them."""
        fields, column = _fields(self._type(self.columns.item) or ""), identifier(self.columns.item)
        read = "unnest({}) ->> {}" if self.table.texts else "struct_extract(unnest({}), {})"

        def added(role: str) -> tuple[str, str]:
            sql = read.format(column, literal(in_hit(role, fields)))
            return sql, self._free(f"hit_{'id' if role == 'item' else role}")

        is_ranking = isinstance(self.columns, RankingColumns)
        roles = ("score", "rank") if is_ranking else ("grade",)
        value = next((role for role in roles if in_hit(role, fields)), "")
        hit_columns = {role: added(role) for role in ("item", value) if role}
        if not value and is_ranking:
            hit_columns["rank"] = (f"generate_subscripts({column}, 1)", self._free("list_rank"))
        elif not value:
            hit_columns["grade"] = ("1", self._free("list_grade"))
        held = f"cast(cast({column} as json) as json[])" if self.table.texts else column
        return replace(
            self.table,
            columns=tuple((role, name) for role, (_, name) in hit_columns.items()),
            lists=((f"coalesce({held}, [null])", column),),
            added=tuple((sql, identifier(name)) for sql, name in hit_columns.values()),
        )

    def _values(self) -> dict[str, str]:
        """Role -> the column of what the items have: a score or rank, a grade."""
        columns = self.columns
        values = {"grade": columns.grade} if columns.grade else {}
        if isinstance(columns, RankingColumns):
            values |= {"rank" if columns.rank else "score": columns.order}
        return {role: name for role, name in values.items() if not self._is_left_out(role, name)}

    def _is_left_out(self, role: str, name: str) -> bool:
        """Whether nobody asks for a column, so that it need not be there."""
        if isinstance(self.columns, RankingColumns) and role != "score":
            return False
        if self.types is None:
            return getattr(self.columns, role) is None or role not in self.columns.model_fields_set
        return name == role and self._type(name) is None

    def _added(self, items: str, *values: str) -> dict[str, tuple[str, str]]:
        """Role -> what lists say beside their values, as SQL, and the name it gets."""
        has, added = self._values(), {}
        if isinstance(self.columns, LabelColumns):
            if "grade" not in has:
                added["grade"] = ("1", self._free("list_grade"))
        elif not {"rank", "score"} & has.keys():
            added["rank"] = (f"generate_subscripts({items}, 1)", self._free("list_rank"))
        if values:
            lengths = ", ".join(f"len({column})" for column in (items, *values))
            unequal = f"greatest({lengths}) - least({lengths})"
            added["lists"] = (unequal, self._free("missing_values"))
        return added

    def _problems(self) -> Iterator[str]:
        """What the types of the columns say against it."""
        columns = self.columns
        table = "rankings" if isinstance(columns, RankingColumns) else "labels"
        held = re.sub(r"\[\d*\]$", "", self._type(columns.item) or "")
        if re.match(r"STRUCT|MAP|UNION|DOUBLE|FLOAT|.*\]$", held):
            forms = (
                f"; for traces, name the key of the ids (item={columns.item}.KEY, --item) or give "
                f"a known form: {known_forms()}"
            )
            yield (
                f"{table}: {columns.item} holds lists of {held}, not of texts or whole numbers"
                + forms * held.startswith(("STRUCT", "MAP"))
            )
        if self.types is not None and self._is_list(columns.query):
            yield f"{table}: {columns.query} holds lists, but each row needs one query"
        order = {role: name for role, name in self._values().items() if role != "grade"}
        for name in order.values():
            if self._type(name) is not None and not self._is_list(name):
                yield (
                    f"{table}: {columns.item} holds lists but {name} holds one value per row; "
                    "make it a list too, or leave it out if the order of the list is the rank"
                )

    def _is_list(self, name: str) -> bool:
        return self.types is None or re.search(r"\[\d*\]$", self._type(name) or "") is not None

    def _type(self, name: str) -> str | None:
        types = {column.casefold(): kind for column, kind in (self.types or {}).items()}
        return types.get(name.casefold())

    def _sql(self, name: str) -> str:
        """A list; in place of a missing list of items one NULL, which the checks tell."""
        sql = identifier(name)
        if self.table.texts:
            sql = f"cast(cast({sql} as json) as varchar[])"
        return f"coalesce({sql}, [null])" if name == self.columns.item else sql

    def _free(self, name: str) -> str:
        """The name, or one with a number behind it that no column has."""
        return free_name(name, lambda free: self._type(free) is not None)
