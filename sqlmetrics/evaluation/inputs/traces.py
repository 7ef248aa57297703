"""Traces of retrieval tools: one table with a list of documents and of references a query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.formats import FORMATS
from sqlmetrics.evaluation.inputs.lists import OWN_FORM, TRACE_FORMS, TraceForm, known_forms
from sqlmetrics.evaluation.inputs.names import CLICKED, NAMES, QUERY_TEXTS, USUAL, plain
from sqlmetrics.evaluation.inputs.paths import start_of
from sqlmetrics.evaluation.inputs.sources import relation_in, source_of
from sqlmetrics.spec.source import Labels, Queries, QueryColumns, RankedLists
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.sql.user_sql import condition

if TYPE_CHECKING:
    import pyarrow as pa


# Traces with two lists of documents in JSON -> rankings, labels and queries.

RETRIEVED, REFERENCE, QUERY = "trace_retrieved", "trace_reference", "trace_query"
"""The columns of a table of traces, as its template names them."""


@dataclass(frozen=True)
class TraceLists:
    """Traces with two lists of JSON: a row per query, system and day.

    Attributes:
        name: The table.
        reader: What reads it.
        arguments: The arguments of `evaluate`.
        form: The form that the traces have.
        retrieved: The column of the retrieved documents, as a person calls it.
        reference: The column of the references, likewise.
        key: The key of the documents' ids, if a person named it; keys in keys with points.
    """

    name: str
    reader: Database
    arguments: Mapping[str, Any]
    form: TraceForm
    retrieved: str
    reference: str = ""
    key: str = ""

    def rankings(self, *, all_columns: bool) -> pa.Table:
        """The retrieved documents, and the other columns if they are to be whole."""
        read = {self._name("query"): QUERY, self._name("item"): self._items(RETRIEVED)}
        if self._is_asked("score"):
            score = self._name("score")
            read[score] = f"[cast({value_of(score)} as double) for d in {RETRIEVED}]"
        system = str(self.arguments.get("system") or "system")
        systems = [name for name in self._extra_columns() if name == system]
        return self._table(
            read, self._extra_columns() if all_columns else [*self._days(), *systems]
        )

    def labels(self) -> pa.Table:
        """The references, which are the same for all systems."""
        names = {role: self._name(role) for role in ("query", "item")}
        names |= dict(self.arguments.get("label_columns") or {})
        read = {names["query"]: QUERY, names["item"]: self._items(REFERENCE)}
        return self._table(read, self._days())

    def queries(self) -> pa.Table:
        """What else is known of the queries."""
        return self._table({self._name("query"): QUERY}, self._extra_columns())

    def _table(self, read: Mapping[str, str], other_columns: list[str]) -> pa.Table:
        """The rows that meet the condition, each once."""
        columns = [f"{sql} as {identifier(name)}" for name, sql in read.items()]
        columns += map(identifier, other_columns)
        condition = f"\nwhere {self.arguments['where']}" if self.arguments.get("where") else ""
        listed = ",\n    ".join(columns)
        return self.reader.table(f"select distinct\n    {listed}\nfrom {self.name}{condition}")

    def _days(self) -> list[str]:
        return [str(self.arguments["date"])] if self.arguments.get("date") else []

    def _extra_columns(self) -> list[str]:
        """The columns that no role has."""
        role_columns = {self._name(role) for role in ("query", "item", "score", "grade")} | {"rank"}
        role_columns |= {QUERY, RETRIEVED, REFERENCE, self.retrieved, self.reference}
        return [name for name in self.reader.columns(self.name) if name not in role_columns]

    def _name(self, role: str) -> str:
        return str(self.arguments.get(role) or USUAL[role])

    def _is_asked(self, role: str) -> bool:
        return self._name(role) != USUAL[role]

    def check(self, query: str) -> None:
        """See that the lists of a query can be told apart.

        Raises:
            InputError: If a query has several rows of a system on a day.
        """
        keys = [QUERY, *filter(None, map(self.arguments.get, ("system", "date")))]
        held = ", ".join(identifier(str(key)) for key in keys)
        repeated = f"from {self.name} group by {held} having count(*) > 1"
        rows = self.reader.rows(
            f"select any_value({QUERY}), count(*) {repeated} order by all limit 1"
        )
        for again, n_rows in rows:
            raise InputError(
                f"rankings: the query {again!r} ({query}) has {n_rows} rows; name a column that "
                "distinguishes them, such as a trace id, with query= (--query), or name system= "
                "or date="
            )

    def _items(self, lists: str) -> str:
        """The ids in a list as SQL: documents, or what is behind the first key that all have.

        Raises:
            InputError: If documents are objects, and not all have an id.
        """
        _, keys = self._keys_of_ids(lists)
        item = f"case when json_type(d) = 'OBJECT' then {value_of(keys[0])} else d ->> '$' end"
        return f"[{item} for d in {lists}]"

    def _keys_of_ids(self, lists: str) -> tuple[int, list[str]]:
        """How many documents of a list are objects, and the keys of an id that all of them have.

        Raises:
            InputError: If documents are objects, and not all have an id.
        """
        column = self.retrieved if lists == RETRIEVED else self.reference
        self._check_json(lists, column)
        keys = self.form.ids
        if named_key := self._named_key:
            keys = (named_key,) if lists == RETRIEVED else (named_key, *keys)
        objects = (
            f"from (select unnest({lists}) as d from {self.name}) as documents\n"
            "where json_type(d) = 'OBJECT'"
        )
        counts = ", ".join(f"count({value_of(key)})" for key in keys)
        n_objects, *n_ids = self.reader.rows(f"select count(*), {counts} {objects}")[0]
        shared = [key for key, n in zip(keys, n_ids, strict=True) if n == n_objects]
        if not shared:
            rows = self.reader.rows(f"select distinct unnest(json_keys(d)) as key {objects}")
            document_keys = sorted(key for (key,) in rows)
            raise InputError(
                f"rankings: some documents in {column} have no id ({', '.join(keys)}); their keys "
                f"are {', '.join(document_keys)}; name the key of the id with item= (--item), "
                f"like {column}.{document_keys[0]}; write keys inside keys with a dot"
            )
        return n_objects, shared

    @property
    def _named_key(self) -> str:
        """The key of the documents' ids, if a person named it; else empty."""
        if self.key or not self._is_asked("item") or self.form.is_named:
            return self.key
        return self._name("item")

    def ids_note(self) -> str:
        """A sentence if documents have several keys that may be their id; else empty."""
        n_objects, keys = (0, [""]) if self._named_key else self._keys_of_ids(RETRIEVED)
        if not n_objects or len(keys) == 1:
            return ""
        return (
            f"using {keys[0]} as the id of a document; for {' or '.join(keys[1:])} use item= "
            f"(--item), like {self.retrieved}.{keys[1]}"
        )

    def _check_json(self, lists: str, column: str) -> None:
        """See that no document is an object in another writing, taken for an id."""
        printed = self.reader.rows(
            f"select d ->> '$' from (select unnest({lists}) as d from {self.name}) as documents\n"
            "where json_type(d) = 'VARCHAR' and starts_with(d ->> '$', '{')\nlimit 1"
        )
        for (text,) in printed:
            raise InputError(
                f"rankings: {column} holds objects that are not JSON: {str(text)[:60]}; save the "
                "traces as JSON lines or Parquet"
            )

    def rising(self) -> str:
        """A sentence if scores rise within lists, whose order is the rank; else empty."""
        for key in () if self._is_asked("score") else self.form.scores:
            scores = f"[try_cast({value_of(key)} as double) for d in {RETRIEVED}]"
            n_lists = self.reader.rows(
                f"select count(*) from (select {scores} as scores from {self.name}) as lists\n"
                "where scores <> list_reverse_sort(scores)"
            )[0][0]
            if n_lists:
                return (
                    f"{key} rises in {n_lists} of the lists, so the order of the list is the "
                    f"rank; use score={key!r} (--score {key}) to rank by it"
                )
        return ""


def path_of(key: str) -> str:
    """A key, or keys with points between them, as a path of JSON.

    >>> path_of("metadata.source")
    '$."metadata"."source"'
    """
    return "$." + ".".join(f'"{part}"' for part in key.split("."))


def value_of(key: str) -> str:
    """What is behind a key of the document `d` as SQL: a name with points, or keys in keys."""
    paths = dict.fromkeys([f'$."{key}"', path_of(key)])
    read = ", ".join(f"d ->> {literal(path)}" for path in paths)
    return f"coalesce({read})"


# MLflow's traces, whole: what their retriever spans found, and what was expected.

MLFLOW_COLUMNS = {"info", "data"}
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
    return {*columns} >= MLFLOW_COLUMNS or {*columns} >= SEARCHED


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
        for name in {*MLFLOW_COLUMNS, "trace"} & {*kind_by_column}
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


# Several responses of a search engine in one: `_msearch` of Elasticsearch and OpenSearch.

RESPONSES = "responses"
"""The column of `_msearch`: the responses, in the order of the searches."""

IDS = ("query_ids", "queries", "query_id")
"""Columns that people put beside it: the ids of the searches, in their order."""


def are_responses(columns: Collection[str]) -> bool:
    """Whether columns are those of `_msearch`."""
    return RESPONSES in columns


def responses(source: str, reader: Database) -> str:
    """A `select` of one row a response, with its query's id.

    The id is the key `query_id` in the response, else its place in a list of ids beside the
    responses, else its number, from 1.

    Args:
        source: What stands behind FROM.
        reader: What reads it.
    """
    kind_by_column = reader.columns(source)
    ids = next((name for name in IDS if name in kind_by_column), "")
    view = {
        "source": source,
        "responses": _json(RESPONSES, kind_by_column),
        "ids": _json(ids, kind_by_column) if ids else "cast(null as json)",
    }
    return print_template("inputs/search_responses", view)


def _json(name: str, kind_by_column: Mapping[str, str]) -> str:
    """A column as JSON, in which texts are written."""
    column = identifier(name)
    if kind_by_column[name] not in TEXTS:
        return f"to_json({column})"
    return f"cast(case when json_valid({column}) then {column} end as json)"


Answer = TypeVar("Answer")
_TEXTS = ("VARCHAR", "JSON")
READS_QUERIES = "reads_queries"
"""Among the arguments: that a metric reads a column of the queries."""
_QUERY_ARGUMENTS = ("by", "segments", "weight", READS_QUERIES)
"""The arguments that read what is known of queries."""


@dataclass(frozen=True)
class Traces:
    """The tables that are in traces: a row per query, with a list of items.

    Attributes:
        rankings: The retrieved documents.
        labels: The references, each of grade 1; None if the labels are another table.
        queries: The other columns; None if they stand in the rankings.
        notes: As what they were read, and of scores that are not the order.
    """

    rankings: pa.Table
    labels: pa.Table | None
    queries: pa.Table | None
    notes: tuple[str, ...]


def trace_part(source: RankedLists | Labels, role: str, engine: Database) -> tuple[Any, str] | None:
    """What a table of traces has of one role, and how it was read; None of another table.

    Args:
        source: Where it is, and its columns by their roles.
        role: `rankings`, which are the retrieved documents, or `labels`, the references.
        engine: The database, which may have the table.
    """
    input_table, arguments = _arguments(source)
    arguments["queries"] = True
    is_ranking = role == "rankings"
    if not is_ranking and not has_references(input_table, engine, arguments):
        return None
    traces = traces_in(input_table, engine, arguments, has_labels=is_ranking)
    if traces is None:
        return None
    return traces.rankings if is_ranking else traces.labels, f"{role}: {traces.notes[0]}"


def queries_in_traces(
    source: RankedLists, segments: Collection[str], engine: Database
) -> Queries | None:
    """What traces say of their queries, those with an empty list too.

    None of another table, and where a query has several rows, of a system each.

    Args:
        source: Where they are, and their columns by their roles.
        segments: The columns that queries are segmented by, of which others may be no columns.
        engine: The database, which may have the table.
    """
    input_table, arguments = _arguments(source)
    traces = traces_in(input_table, engine, arguments, has_labels=True)
    if traces is None or traces.queries is None:
        return None
    names = {name.casefold() for name in traces.queries.column_names}
    candidates = {"weight": source.columns.weight, "date": source.columns.date}
    columns = QueryColumns(
        query=source.columns.query,
        text=next((name for name in QUERY_TEXTS if name in names), None),
        segments=tuple(name for name in segments if name.casefold() in names),
        **{role: name for role, name in candidates.items() if name and name.casefold() in names},
    )
    return Queries(data=traces.queries, time_zone=source.time_zone, columns=columns)


def _arguments(source: RankedLists | Labels) -> tuple[Any, dict[str, Any]]:
    """The table of a source, and the arguments of `evaluate` that say what its columns are."""
    columns = source.columns
    input_table = (
        source.data if source.data is not None else source.relation or source.sql or source.file
    )
    return input_table, {
        "query": columns.query,
        "item": columns.item,
        "date": columns.date,
        "score": getattr(columns, "score", None),
        "system": getattr(columns, "system", None),
        "by": (),
        "weight": True,
    }


def may_be_traces(columns: Collection[str]) -> bool:
    """Whether columns might be those of traces that have no labels in them."""
    return (
        are_mlflow_traces(columns)
        or are_responses(columns)
        or any(
            name in columns or name.partition(".")[0] in columns
            for form in TRACE_FORMS
            for name in form.retrieved
        )
    )


def may_be_traces_beside_labels(input_table: Any, engine: Database, item: str) -> bool:
    """Whether rankings lack the column of items, and might have a column of traces.

    Args:
        input_table: A path, a table's name, or data in memory.
        engine: The database, which may have the table.
        item: The column of items, or a key in a column of lists.
    """
    if not may_mention(input_table, _retrieved_columns(item), engine):
        return False
    try:
        columns = _with_table(input_table, engine, {}, lambda table: table.columns, has_labels=True)
    except InputError:  # which the checks tell
        return False
    if not columns or item in columns:
        return False
    return may_be_traces(columns) or item.partition(".")[0] in columns


def _retrieved_columns(item: str) -> set[str]:
    """The columns that traces might have, and that of the items, if a person named it."""
    names = {name.partition(".")[0] for form in TRACE_FORMS for name in form.retrieved}
    item_columns = {item.partition(".")[0]} if item and item != USUAL["item"] else set()
    return names | MLFLOW_COLUMNS | SEARCHED | {RESPONSES} | item_columns


def has_references(input_table: Any, engine: Database, arguments: Mapping[str, Any]) -> bool:
    """Whether a table is one of traces that have references, and so both rankings and labels.

    Args:
        input_table: A path, a table's name, or data in memory.
        engine: The database, which may have the table.
        arguments: The arguments of `evaluate`.
    """
    if not may_mention(input_table, _retrieved_columns(str(arguments.get("item") or "")), engine):
        return False
    try:
        is_there = _with_table(
            input_table, engine, arguments, lambda table: table.has_references, has_labels=False
        )
    except InputError:  # which the checks tell
        return False
    return bool(is_there)


def may_mention(input_table: Any, names: Collection[str], engine: Database) -> bool:
    """Whether a table might have one of some columns; of a text file only its start is read."""
    if isinstance(input_table, str | PurePath):
        start = start_of(str(input_table))
        if start is not None:
            return any(name in start for name in names)
        if not str(input_table).casefold().endswith(FORMATS["parquet"].suffixes):
            return isinstance(input_table, str) and engine.find(input_table) is not None
        return True
    return not isinstance(input_table, Mapping | list | tuple)


def traces_in(
    input_table: object, engine: Database, arguments: Mapping[str, Any], *, has_labels: bool
) -> Traces | None:
    """The rankings and the labels in a table of traces; None of any other table.

    The order of a list is the rank, unless `score` names a key of its documents. A list that is
    empty or missing is an empty ranking; without references a query has no label.

    Args:
        input_table: What was given for the rankings.
        engine: The database, which may have the table.
        arguments: Those of `evaluate`: `query` names another column of queries; `item` a key
            of the documents' ids, or with `label_columns={"item": ...}` the column of the lists.
        has_labels: Whether the labels are another table.

    Raises:
        InputError: If there are neither labels nor references, documents have no id, or a query
            has several rows.
    """
    return _with_table(input_table, engine, arguments, _Table.traces, has_labels=has_labels)


def _with_table(
    input_table: object,
    engine: Database,
    arguments: Mapping[str, Any],
    ask: Callable[[_Table], Answer],
    *,
    has_labels: bool,
) -> Answer | None:
    """What a question finds in a table; None if it is in a database that reads no traces."""
    source_fields = source_of(input_table, "rankings", engine.find)
    is_there = "relation" in source_fields or "sql" in source_fields
    if is_there and engine.translation.changes:
        return None
    with nullcontext(engine) if is_there else connect() as reader:
        lists = RankedLists.model_validate(source_fields)
        source = source_text(relation_in(lists, "rankings", reader, "traces"))
        columns = reader.columns(source)
        if are_mlflow_traces(columns):
            source = f"({unpacked(source, reader)}) as mlflow_traces"
        elif are_responses(columns):
            source = f"({responses(source, reader)}) as responses"
        else:
            return ask(_Table(source, columns, reader, arguments, has_labels))
        return ask(_Table(source, reader.columns(source), reader, arguments, has_labels))


@dataclass(frozen=True)
class _Field:
    """Where something is: a column, or a key of the JSON objects in it.

    Attributes:
        name: What a person calls it.
        column: The column.
        is_text: Whether the column holds texts, in which JSON may be written.
        path: The key as a path of JSON; empty for what the column itself holds.
    """

    name: str
    column: str
    is_text: bool
    path: str = ""


@dataclass(frozen=True)
class _Table:
    """A table that may be one of traces.

    Attributes:
        source: What stands behind FROM.
        columns: Its columns and their types.
        reader: What reads it.
        arguments: The arguments of `evaluate`.
        has_labels: Whether the labels are another table.
        keys: Column -> the keys of its JSON objects, once they were looked for.
    """

    source: str
    columns: Mapping[str, str]
    reader: Database
    arguments: Mapping[str, Any]
    has_labels: bool
    keys: dict[str, set[str]] = field(default_factory=dict)

    def check(self) -> None:
        """See that what is asked of the table's own columns can be answered.

        Raises:
            SpecError: If the condition is none.
            InputError: If a column is not there.
        """
        for role in ("system", "date"):
            name = self.arguments.get(role)
            if name and name not in self.columns:
                message = unknown("column", name, self.columns)
                raise InputError(f"rankings: {message} (used as {role})")
        where = self.arguments.get("where")
        if not where:
            return
        try:
            condition(where)
        except ValueError as error:
            raise SpecError(f"rankings.where {error}, given {where!r}") from None
        try:
            self.reader.columns(f"(select * from {self.source} where {where}) as chosen")
        except InputError as error:
            raise InputError(f"rankings: where {where!r}: {error}") from None

    def traces(self) -> Traces | None:
        """Its tables; None if it is no table of traces."""
        form = self.form()
        return self.read(form) if form else None

    @property
    def has_references(self) -> bool:
        """Whether it is a table of traces with references in it."""
        references = self.arguments.get("label_columns") or {}
        names = [self._named("query"), self.lists[0], str(references.get("item") or "")]
        if all(names) and all(self._first_place((name,)) for name in names):
            return True
        return any(map(self._fits, TRACE_FORMS))

    def form(self) -> TraceForm | None:
        """The form that it has; None if it is no table of traces, but of rows with grades.

        Raises:
            InputError: If there are neither labels nor references.
        """
        query, (item, key) = self._named("query"), self.lists
        reference = (self.arguments.get("label_columns") or {}).get("item", "")
        reference = "" if self.has_labels else reference
        if query and item and reference:
            return OWN_FORM.of([query], item, reference)
        matching_form = next(filter(self._fits, TRACE_FORMS), None)
        if key and matching_form:
            return replace(matching_form, retrieved=(item,))
        if key and (reference or self.has_labels):
            usual = (name for form in TRACE_FORMS for name in form.query)
            return OWN_FORM.of([query] if query else [*dict.fromkeys(usual)], item, reference)
        grade = str(self.arguments.get("grade") or USUAL["grade"])
        graded = {*NAMES["grade"].split()} - {"score"} | {plain(grade)}
        if matching_form or self.has_labels or graded & set(map(plain, self.columns)):
            return matching_form
        clicked = next((name for name in self.columns if plain(name) in CLICKED.split()), "")
        if clicked:
            raise InputError(
                f"rankings: no labels are given, and {clicked} looks like a column of a click log: "
                "evaluate it by sqlmetrics clicks (evaluate_clicks), or name it as clicks in a "
                "spec, which compare takes too; else give labels as a second table"
            )
        raise InputError(
            f"rankings: no labels are given, and the columns {', '.join(self.columns)} have "
            f"neither {grade} nor the lists of a known form of traces: {known_forms()}. Give "
            "labels as a second table, or name the columns of your lists: query=, item=, "
            "label_columns={'item': ...} (--query, --item, --label-column item=...)"
        )

    @cached_property
    def lists(self) -> tuple[str, str]:
        """The column of lists that `item` names, and the key of the documents' ids in them.

        Both are empty where it names none; the key where it is a column by itself.
        """
        name = self._named("item")
        if not name or name in self.columns:
            return name, ""
        points = [position for position, letter in enumerate(name) if letter == "."]
        for point in reversed(points):
            if self._first_place((name[:point],)):
                return name[:point], name[point + 1 :]
        return name, ""

    def _fits(self, form: TraceForm) -> bool:
        column_choices = [(self._named("query"), *form.query), form.retrieved]
        column_choices += [] if self.has_labels else [form.reference]
        return all(self._first_place(names) for names in column_choices)

    def read(self, form: TraceForm) -> Traces:
        """Its tables."""
        self.check()
        query = self._first_place((self._named("query"), *form.query))
        retrieved = self._first_place(form.retrieved)
        reference = None if self.has_labels else self._first_place(form.reference)
        candidates = [(query, form.query), (retrieved, form.retrieved)]
        candidates += [] if self.has_labels else [(reference, form.reference)]
        for column, names in candidates:
            if column is None:
                raise InputError(f"rankings: {unknown('column', names[0], self.columns)}")
        places = {"query": query, "retrieved": retrieved, "reference": reference}
        view = {"source": self.source, "kept_columns": self._extra_columns(), **places}
        text = print_template("inputs/traces", view)
        name = self.reader.register("sqlmetrics_traces", self.reader.table(text))
        name_by_role = {role: column.name if column else "" for role, column in places.items()}
        lists = TraceLists(
            name,
            self.reader,
            self.arguments,
            form,
            name_by_role["retrieved"],
            name_by_role["reference"],
            self.lists[1],
        )
        lists.check(name_by_role["query"])
        is_known = any(self.arguments.get(argument) for argument in _QUERY_ARGUMENTS)
        has_query_table = is_known and self._are_of_queries()
        form_note = f"read as {form.tool}: {', '.join(filter(None, name_by_role.values()))}"
        return Traces(
            lists.rankings(all_columns=is_known and not has_query_table),
            lists.labels() if reference else None,
            lists.queries() if has_query_table else None,
            tuple(filter(None, [form_note, lists.ids_note(), lists.rising()])),
        )

    def _are_of_queries(self) -> bool:
        """Whether the other columns are the same for all lists of a query, and its own."""
        if self.arguments.get("queries") is not None or self.arguments.get("system"):
            return False
        by, segments = (self.arguments.get(argument) or () for argument in ("by", "segments"))
        names = {by} if isinstance(by, str) else {*by}
        declared = {segments} if isinstance(segments, str) else {*segments}
        return names - declared <= self.columns.keys()

    def _extra_columns(self) -> list[str]:
        """The columns that are read beside the lists: all only where one may be asked for."""
        if any(self.arguments.get(argument) for argument in (*_QUERY_ARGUMENTS, "where")):
            return list(self.columns)
        extra_names = {
            str(self.arguments.get("system") or "system"),
            str(self.arguments.get("date") or ""),
        }
        return [name for name in self.columns if name in extra_names]

    def _named(self, role: str) -> str:
        """The column by the name that was asked for; empty for a usual one that is not there."""
        name = str(self.arguments.get(role) or USUAL[role])
        return name if name != USUAL[role] or name in self.columns else ""

    def _first_place(self, names: Sequence[str]) -> _Field | None:
        """Where the first of some names is; None if none is there."""
        for name in filter(None, names):
            column, _, key = name.partition(".")
            if name in self.columns:
                return _Field(name, name, self.columns[name] in _TEXTS)
            if key and column not in self.keys:
                self.keys[column] = self._keys(column)
            if key in self.keys.get(column, ()) or self._is_deep(column, key):
                return _Field(name, column, self.columns[column] in _TEXTS, path_of(key))
        return None

    def _keys(self, column: str) -> set[str]:
        """The keys of the JSON objects in a column; none if it has no such."""
        held = self._json(column)
        if not held:
            return set()
        rows = self.reader.rows(
            "select distinct unnest(json_keys(held))\n"
            f"from (select {held} as held from {self.source}) as objects\n"
            "where json_type(held) = 'OBJECT'"
        )
        return {key for (key,) in rows}

    def _is_deep(self, column: str, key: str) -> bool:
        """Whether there is something behind keys in keys of the JSON objects in a column."""
        if key.partition(".")[0] not in self.keys.get(column, ()):
            return False
        path = literal(path_of(key))
        condition = f"json_extract({self._json(column)}, {path}) is not null"
        return bool(self.reader.rows(f"select 1 from {self.source} where {condition} limit 1"))

    def _json(self, column: str) -> str:
        """What a column holds as JSON, as SQL; empty if it has no objects."""
        kind, name = self.columns.get(column, ""), identifier(column)
        if kind in _TEXTS:
            return f"cast(case when json_valid({name}) then {name} end as json)"
        return f"to_json({name})" if kind.startswith(("STRUCT", "MAP")) else ""
