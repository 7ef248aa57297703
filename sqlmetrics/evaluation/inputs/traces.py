"""Traces of retrieval tools: one table with a list of documents and of references a query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.mlflow_traces import are_mlflow_traces, unpacked
from sqlmetrics.evaluation.inputs.names import NAMES, USUAL, plain
from sqlmetrics.evaluation.inputs.sources import relation_of, source_of
from sqlmetrics.evaluation.inputs.trace_forms import OWN_FORM, TRACE_FORMS, TraceForm
from sqlmetrics.evaluation.inputs.trace_lists import TraceLists, path_of
from sqlmetrics.spec.source import Rankings
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier
from sqlmetrics.sql.user_sql import condition

if TYPE_CHECKING:
    import pyarrow as pa

_TEXTS = ("VARCHAR", "JSON")
_KNOWN = ("by", "segments", "weight")
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


def may_be_traces(columns: Collection[str]) -> bool:
    """Whether columns might be those of traces that have no labels in them."""
    return are_mlflow_traces(columns) or any(
        name in columns or name.partition(".")[0] in columns
        for form in TRACE_FORMS
        for name in form.retrieved
    )


def traces_in(
    given: object, engine: Database, asked: Mapping[str, Any], *, has_labels: bool
) -> Traces | None:
    """The rankings and the labels in a table of traces; None of any other table.

    The order of a list is the rank, unless `score` names a key of its documents. A list that is
    empty or missing is an empty ranking; without references a query has no label.

    Args:
        given: What was given for the rankings.
        engine: The database, which may have the table.
        asked: The arguments of `evaluate`: `query` names another column of queries; `item` a key
            of the documents' ids, or with `label_columns={"item": ...}` the column of the lists.
        has_labels: Whether the labels are another table.

    Raises:
        InputError: If there are neither labels nor references, documents have no id, or a query
            has several rows.
    """
    place = source_of(given, "rankings", engine.find)
    is_there = "relation" in place or "sql" in place
    if is_there and engine.translation.changes:
        return None
    with nullcontext(engine) if is_there else connect() as reader:
        source = source_text(_relation(Rankings.model_validate(place), reader))
        if are_mlflow_traces(reader.columns(source)):
            source = f"({unpacked(source, reader)}) as mlflow_traces"
        table = _Table(source, reader, asked, has_labels)
        form = table.form()
        return table.read(form) if form else None


def _relation(source: Rankings, reader: Database) -> Relation:
    if source.data is None:
        return relation_of(source, "rankings")
    from sqlmetrics.evaluation.inputs.arrow import arrow_of

    data = arrow_of(source.data, "rankings", source.columns)
    return Relation("table", reader.register("sqlmetrics_given", data), ordered=True)


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
        reader: What reads it.
        asked: The arguments of `evaluate`.
        has_labels: Whether the labels are another table.
        keys: Column -> the keys of its JSON objects, once they were looked for.
    """

    source: str
    reader: Database
    asked: Mapping[str, Any]
    has_labels: bool
    keys: dict[str, set[str]] = field(default_factory=dict)

    @property
    def there(self) -> Mapping[str, str]:
        """Its columns and their types."""
        return self.reader.columns(self.source)

    def check(self) -> None:
        """See that what is asked of the table's own columns can be answered.

        Raises:
            SpecError: If the condition is none.
            InputError: If a column is not there.
        """
        for role in ("system", "date"):
            name = self.asked.get(role)
            if name and name not in self.there:
                what = unknown("column", name, self.there)
                raise InputError(f"rankings: {what} (wanted as {role})")
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

    def form(self) -> TraceForm | None:
        """The form that it has; None if it is no table of traces, but of rows with grades.

        Raises:
            InputError: If there are neither labels nor references.
        """
        query, item = self._named("query"), self._named("item")
        reference = (self.asked.get("label_columns") or {}).get("item", "")
        if query and item and reference and not self.has_labels:
            return OWN_FORM.of(query, item, reference)
        found = next(filter(self._fits, TRACE_FORMS), None)
        grade = str(self.asked.get("grade") or USUAL["grade"])
        graded = {*NAMES["grade"].split()} - {"score"} | {plain(grade)}
        if found or self.has_labels or graded & set(map(plain, self.there)):
            return found
        known = "; ".join(form.example for form in TRACE_FORMS)
        raise InputError(
            f"rankings: no labels are given; columns are {', '.join(self.there)}, with neither "
            f"{grade} nor the lists of a known form of traces; known forms are {known}. Give "
            "labels as a second table, or name the columns of your lists: query=, item=, "
            "label_columns={'item': ...} (--query, --item, --label-column item=...)"
        )

    def _fits(self, form: TraceForm) -> bool:
        wanted = [(self._named("query"), *form.query), form.retrieved]
        wanted += [] if self.has_labels else [form.reference]
        return all(self._place(names) for names in wanted)

    def read(self, form: TraceForm) -> Traces:
        """Its tables."""
        self.check()
        query = self._place((self._named("query"), *form.query))
        retrieved = self._place(form.retrieved)
        reference = None if self.has_labels else self._place(form.reference)
        wanted = [(query, form.query), (retrieved, form.retrieved)]
        wanted += [] if self.has_labels else [(reference, form.reference)]
        for place, names in wanted:
            if place is None:
                raise InputError(f"rankings: {unknown('column', names[0], self.there)}")
        places = {"query": query, "retrieved": retrieved, "reference": reference}
        view = {"source": self.source, "others": self._others(), **places}
        text = print_template("inputs/traces", view)
        name = self.reader.register("sqlmetrics_traces", self.reader.table(text))
        named = {role: place.name if place else "" for role, place in places.items()}
        lists = TraceLists(
            name, self.reader, self.asked, form, named["retrieved"], named["reference"]
        )
        lists.check(named["query"])
        is_known = any(self.asked.get(one) for one in _KNOWN)
        beside = is_known and self._are_of_queries()
        said = f"read as {form.tool}: {', '.join(filter(None, named.values()))}"
        return Traces(
            lists.rankings(whole=is_known and not beside),
            lists.labels() if reference else None,
            lists.queries() if beside else None,
            tuple(filter(None, [said, lists.rising()])),
        )

    def _are_of_queries(self) -> bool:
        """Whether the other columns are the same for all lists of a query, and its own."""
        if self.asked.get("queries") is not None or self.asked.get("system"):
            return False
        by = self.asked.get("by") or ()
        names = (by,) if isinstance(by, str) else by
        return {*names} <= self.there.keys()

    def _others(self) -> list[str]:
        """The columns that are read beside the lists: all only where one may be asked for."""
        if any(self.asked.get(one) for one in (*_KNOWN, "where")):
            return list(self.there)
        wanted = {str(self.asked.get("system") or "system"), str(self.asked.get("date") or "")}
        return [name for name in self.there if name in wanted]

    def _named(self, role: str) -> str:
        """The column by the name that was asked for; empty for a usual one that is not there."""
        name = str(self.asked.get(role) or USUAL[role])
        return name if name != USUAL[role] or name in self.there else ""

    def _place(self, names: Sequence[str]) -> _Place | None:
        """Where the first of some names is; None if none is there."""
        for name in filter(None, names):
            column, _, key = name.partition(".")
            if name in self.there:
                return _Place(name, name, self.there[name] in _TEXTS)
            if key and column not in self.keys:
                self.keys[column] = self._keys(column)
            if key in self.keys.get(column, ()):
                return _Place(name, column, self.there[column] in _TEXTS, path_of(key))
        return None

    def _keys(self, column: str) -> set[str]:
        """The keys of the JSON objects in a column; none if it has no such."""
        kind, name = self.there.get(column, ""), identifier(column)
        if kind in _TEXTS:
            held = f"cast(case when json_valid({name}) then {name} end as json)"
        elif kind.startswith(("STRUCT", "MAP")):
            held = f"to_json({name})"
        else:
            return set()
        rows = self.reader.rows(
            "select distinct unnest(json_keys(held))\n"
            f"from (select {held} as held from {self.source}) as objects\n"
            "where json_type(held) = 'OBJECT'"
        )
        return {key for (key,) in rows}
