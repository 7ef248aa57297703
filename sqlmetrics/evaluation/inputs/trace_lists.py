"""Traces with two lists of documents in JSON -> rankings, labels and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.names import USUAL
from sqlmetrics.evaluation.inputs.trace_forms import TraceForm
from sqlmetrics.sql.template import identifier, literal

if TYPE_CHECKING:
    import pyarrow as pa

RETRIEVED, REFERENCE, QUERY = "trace_retrieved", "trace_reference", "trace_query"
"""The columns of a table of traces, as its template names them."""


@dataclass(frozen=True)
class TraceLists:
    """Traces with two lists of JSON: a row per query, system and day.

    Attributes:
        name: The table.
        reader: What reads it.
        asked: The arguments of `evaluate`.
        form: The form that the traces have.
        retrieved: The column of the retrieved documents, as a person calls it.
        reference: The column of the references, likewise.
        key: The key of the documents' ids, if a person named it; keys in keys with points.
    """

    name: str
    reader: Database
    asked: Mapping[str, Any]
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
        system = str(self.asked.get("system") or "system")
        systems = [name for name in self._others() if name == system]
        return self._table(read, self._others() if all_columns else [*self._days(), *systems])

    def labels(self) -> pa.Table:
        """The references, which are the same for all systems."""
        names = {role: self._name(role) for role in ("query", "item")}
        names |= dict(self.asked.get("label_columns") or {})
        read = {names["query"]: QUERY, names["item"]: self._items(REFERENCE)}
        return self._table(read, self._days())

    def queries(self) -> pa.Table:
        """What else is known of the queries."""
        return self._table({self._name("query"): QUERY}, self._others())

    def _table(self, read: Mapping[str, str], other_columns: list[str]) -> pa.Table:
        """The rows that meet the condition, each once."""
        columns = [f"{sql} as {identifier(name)}" for name, sql in read.items()]
        columns += map(identifier, other_columns)
        condition = f"\nwhere {self.asked['where']}" if self.asked.get("where") else ""
        listed = ",\n    ".join(columns)
        return self.reader.table(f"select distinct\n    {listed}\nfrom {self.name}{condition}")

    def _days(self) -> list[str]:
        return [str(self.asked["date"])] if self.asked.get("date") else []

    def _others(self) -> list[str]:
        """The columns that no role has."""
        role_columns = {self._name(role) for role in ("query", "item", "score", "grade")} | {"rank"}
        role_columns |= {QUERY, RETRIEVED, REFERENCE, self.retrieved, self.reference}
        return [name for name in self.reader.columns(self.name) if name not in role_columns]

    def _name(self, role: str) -> str:
        return str(self.asked.get(role) or USUAL[role])

    def _is_asked(self, role: str) -> bool:
        return self._name(role) != USUAL[role]

    def check(self, query: str) -> None:
        """See that the lists of a query can be told apart.

        Raises:
            InputError: If a query has several rows of a system on a day.
        """
        keys = [QUERY, *filter(None, map(self.asked.get, ("system", "date")))]
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
