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
from sqlmetrics.evaluation.inputs.mlflow_traces import SEARCHED, WHOLE, are_mlflow_traces, unpacked
from sqlmetrics.evaluation.inputs.names import NAMES, QUERY_TEXTS, USUAL, plain
from sqlmetrics.evaluation.inputs.paths import start_of
from sqlmetrics.evaluation.inputs.search_responses import RESPONSES, are_responses, responses
from sqlmetrics.evaluation.inputs.sources import relation_in, source_of
from sqlmetrics.evaluation.inputs.trace_forms import OWN_FORM, TRACE_FORMS, TraceForm, known_forms
from sqlmetrics.evaluation.inputs.trace_lists import TraceLists, path_of
from sqlmetrics.spec.source import Labels, Queries, QueryColumns, RankedLists
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.sql.user_sql import condition

if TYPE_CHECKING:
    import pyarrow as pa

Answer = TypeVar("Answer")
_TEXTS = ("VARCHAR", "JSON")
READS_QUERIES = "reads_queries"
"""Among the arguments: that a metric reads a column of the queries."""
_KNOWN = ("by", "segments", "weight", READS_QUERIES)
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
    return names | WHOLE | SEARCHED | {RESPONSES} | item_columns


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
class _Place:
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
        asked: The arguments of `evaluate`.
        has_labels: Whether the labels are another table.
        keys: Column -> the keys of its JSON objects, once they were looked for.
    """

    source: str
    columns: Mapping[str, str]
    reader: Database
    asked: Mapping[str, Any]
    has_labels: bool
    keys: dict[str, set[str]] = field(default_factory=dict)

    def check(self) -> None:
        """See that what is asked of the table's own columns can be answered.

        Raises:
            SpecError: If the condition is none.
            InputError: If a column is not there.
        """
        for role in ("system", "date"):
            name = self.asked.get(role)
            if name and name not in self.columns:
                message = unknown("column", name, self.columns)
                raise InputError(f"rankings: {message} (used as {role})")
        where = self.asked.get("where")
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
        references = self.asked.get("label_columns") or {}
        names = [self._named("query"), self.lists[0], str(references.get("item") or "")]
        if all(names) and all(self._place((name,)) for name in names):
            return True
        return any(map(self._fits, TRACE_FORMS))

    def form(self) -> TraceForm | None:
        """The form that it has; None if it is no table of traces, but of rows with grades.

        Raises:
            InputError: If there are neither labels nor references.
        """
        query, (item, key) = self._named("query"), self.lists
        reference = (self.asked.get("label_columns") or {}).get("item", "")
        reference = "" if self.has_labels else reference
        if query and item and reference:
            return OWN_FORM.of([query], item, reference)
        matching_form = next(filter(self._fits, TRACE_FORMS), None)
        if key and matching_form:
            return replace(matching_form, retrieved=(item,))
        if key and (reference or self.has_labels):
            usual = (name for form in TRACE_FORMS for name in form.query)
            return OWN_FORM.of([query] if query else [*dict.fromkeys(usual)], item, reference)
        grade = str(self.asked.get("grade") or USUAL["grade"])
        graded = {*NAMES["grade"].split()} - {"score"} | {plain(grade)}
        if matching_form or self.has_labels or graded & set(map(plain, self.columns)):
            return matching_form
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
            if self._place((name[:point],)):
                return name[:point], name[point + 1 :]
        return name, ""

    def _fits(self, form: TraceForm) -> bool:
        column_choices = [(self._named("query"), *form.query), form.retrieved]
        column_choices += [] if self.has_labels else [form.reference]
        return all(self._place(names) for names in column_choices)

    def read(self, form: TraceForm) -> Traces:
        """Its tables."""
        self.check()
        query = self._place((self._named("query"), *form.query))
        retrieved = self._place(form.retrieved)
        reference = None if self.has_labels else self._place(form.reference)
        candidates = [(query, form.query), (retrieved, form.retrieved)]
        candidates += [] if self.has_labels else [(reference, form.reference)]
        for column, names in candidates:
            if column is None:
                raise InputError(f"rankings: {unknown('column', names[0], self.columns)}")
        places = {"query": query, "retrieved": retrieved, "reference": reference}
        view = {"source": self.source, "others": self._others(), **places}
        text = print_template("inputs/traces", view)
        name = self.reader.register("sqlmetrics_traces", self.reader.table(text))
        name_by_role = {role: column.name if column else "" for role, column in places.items()}
        lists = TraceLists(
            name,
            self.reader,
            self.asked,
            form,
            name_by_role["retrieved"],
            name_by_role["reference"],
            self.lists[1],
        )
        lists.check(name_by_role["query"])
        is_known = any(self.asked.get(argument) for argument in _KNOWN)
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
        if self.asked.get("queries") is not None or self.asked.get("system"):
            return False
        by, segments = (self.asked.get(argument) or () for argument in ("by", "segments"))
        names = {by} if isinstance(by, str) else {*by}
        declared = {segments} if isinstance(segments, str) else {*segments}
        return names - declared <= self.columns.keys()

    def _others(self) -> list[str]:
        """The columns that are read beside the lists: all only where one may be asked for."""
        if any(self.asked.get(argument) for argument in (*_KNOWN, "where")):
            return list(self.columns)
        extra_names = {str(self.asked.get("system") or "system"), str(self.asked.get("date") or "")}
        return [name for name in self.columns if name in extra_names]

    def _named(self, role: str) -> str:
        """The column by the name that was asked for; empty for a usual one that is not there."""
        name = str(self.asked.get(role) or USUAL[role])
        return name if name != USUAL[role] or name in self.columns else ""

    def _place(self, names: Sequence[str]) -> _Place | None:
        """Where the first of some names is; None if none is there."""
        for name in filter(None, names):
            column, _, key = name.partition(".")
            if name in self.columns:
                return _Place(name, name, self.columns[name] in _TEXTS)
            if key and column not in self.keys:
                self.keys[column] = self._keys(column)
            if key in self.keys.get(column, ()) or self._is_deep(column, key):
                return _Place(name, column, self.columns[column] in _TEXTS, path_of(key))
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
