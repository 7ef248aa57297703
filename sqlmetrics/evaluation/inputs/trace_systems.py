"""Which tables are rankings and which are labels, where traces have both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.names import USUAL
from sqlmetrics.evaluation.inputs.paths import start_of
from sqlmetrics.evaluation.inputs.runs import StageRuns, in_memory, runs_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.evaluation.inputs.traces import Traces

EXAMPLES = 3
"""So many queries are shown whose references differ."""


_FLAT, _SEPARATED = (".trec", ".txt", ".qrels"), (".csv", ".tsv")
"""Endings of files that hold no lists; and of those that may, as texts of JSON."""


def is_flat(table: Any, item: str) -> bool:
    """Whether a table is a file with an item a line, as its name or heading says: no traces."""
    if not isinstance(table, str | PurePath):
        return False
    name = str(table).casefold().removesuffix(".gz")
    if name.endswith(_SEPARATED):
        return item in (start_of(str(table)) or "").partition("\n")[0]
    return name.endswith(_FLAT)


@dataclass(frozen=True)
class References:
    """In the place of labels: the references in the traces that are the rankings."""


def resolved(
    rankings: Any, labels: Any, engine: Database, arguments: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Which of the tables that a person gave are rankings, and which are labels.

    The labels are the table that was given for them. Where it and all the others are traces with
    references, as of Ragas, it is one more system, and the references are the labels.
    To know that the tables are looked into, so what can be read but once is read up.

    Args:
        rankings: What was given for the rankings: a table, several, or a spec.
        labels: What was given for the labels; None if nothing was.
        engine: Where tables are.
        arguments: The arguments of `evaluate`.
    """
    if isinstance(rankings, Spec) or isinstance(labels, References):
        return rankings, labels
    rankings, labels = in_memory(rankings), in_memory(labels)
    ids = {str(arguments.get(role) or f"{role}_id") for role in ("query", "item")}
    runs = runs_in(rankings, ids)
    tables = list(runs.values()) if runs else [rankings]
    if labels is not None:
        is_named = isinstance(rankings, StageRuns | Mapping)
        if is_named or not all(isinstance(table, str | PurePath) for table in (*tables, labels)):
            return rankings, labels
        tables = [labels, *tables]
        if any(is_flat(table, str(arguments.get("item") or USUAL["item"])) for table in tables):
            return rankings, labels
    from sqlmetrics.evaluation.inputs.traces import has_references

    if not all(has_references(table, engine, arguments) for table in tables):
        return rankings, labels
    return (rankings if labels is None else [*tables[1:], labels]), References()


def several_traces(traces: Mapping[str, Traces], arguments: Mapping[str, Any]) -> Traces:
    """The traces of several systems: a table of rankings each, and the labels of all of them.

    Columns whose value for a query differs between systems, like an answer, are not the query's.

    Raises:
        InputError: If they have other references for a query, or another value of a column by
            which queries are segmented or weighted.
    """
    first = next(iter(traces.values()))
    _check_references(traces)
    labels = [
        system_traces.labels
        for system_traces in traces.values()
        if system_traces.labels is not None
    ]
    queries = [
        system_traces.queries
        for system_traces in traces.values()
        if system_traces.queries is not None
    ]
    notes = dict.fromkeys(note for system_traces in traces.values() for note in system_traces.notes)
    return replace(
        first,
        rankings={name: system_traces.rankings for name, system_traces in traces.items()},
        labels=_distinct(labels) if labels else None,
        queries=_shared_columns(queries, arguments) if queries else None,
        notes=tuple(notes),
    )


def _distinct(tables: list[pa.Table]) -> pa.Table:
    """The rows of some tables, each once."""
    with connect() as reader:
        return reader.table(_union(tables, reader))


def _union(tables: list[pa.Table], reader: Database) -> str:
    names = [reader.register("sqlmetrics_part", table) for table in tables]
    return "\nunion by name\n".join(f"select * from {name}" for name in names)


def _shared_columns(tables: list[pa.Table], arguments: Mapping[str, Any]) -> pa.Table:
    """What the traces of all systems say of queries: a row each, with the columns they agree on."""
    query = str(arguments.get("query") or USUAL["query"])
    keys = [query, *filter(None, [arguments.get("date")])]
    with connect() as reader:
        source = f"(\n{_union(tables, reader)}\n) as queries"
        column_names = [name for name in reader.columns(source) if name not in keys]
        key_list = ", ".join(identifier(key) for key in keys)
        shared = []
        for name in column_names:
            column = identifier(name)
            rows = reader.rows(
                f"select any_value({identifier(query)}), count(*) over () from {source}\n"
                f"group by {key_list}\nhaving count(distinct {column}) > 1\n"
                f"    or count({column}) between 1 and count(*) - 1\norder by all limit 1"
            )
            if not rows:
                shared.append(column)
            elif name in _columns_of_queries(arguments):
                raise InputError(
                    f"queries: {name} of {many(rows[0][1], 'query', 'queries')} differs between "
                    f"the traces, like that of {rows[0][0]!r}; give the table of queries "
                    "separately (queries=, --queries)"
                )
        return reader.table(f"select distinct {', '.join([key_list, *shared])}\nfrom {source}")


def _columns_of_queries(arguments: Mapping[str, Any]) -> set[str]:
    """The columns that queries are segmented or weighted by."""
    names = {str(arguments["weight"])} if arguments.get("weight") else set()
    for argument in ("by", "segments"):
        value = arguments.get(argument) or ()
        names |= {value} if isinstance(value, str) else {*value}
    return names


def _check_references(traces: Mapping[str, Traces]) -> None:
    """Raise InputError for queries whose references differ between systems."""
    system_of: dict[tuple[Any, ...], tuple[str, frozenset[Any]]] = {}
    differing = []
    for name, system_traces in traces.items():
        for row in system_traces.labels.to_pylist() if system_traces.labels is not None else ():
            *key, items = _key_and_items(row)
            if not items:
                continue
            first_system, first_items = system_of.setdefault(tuple(key), (name, items))
            if first_items != items:
                differing.append(
                    (" of ".join(map(str, key)), first_system, first_items, name, items)
                )
    if differing:
        examples = "; ".join(
            f"{query}: {_some(first_items)} in {first_system}, {_some(items)} in {name}"
            for query, first_system, first_items, name, items in differing[:EXAMPLES]
        )
        raise InputError(
            f"labels: the references of {many(len(differing), 'query', 'queries')} differ between "
            f"the traces, like {examples}; give the labels as a separate table (labels=, "
            "--labels)"
        )


def _key_and_items(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The query and day of a row of references, then the items as a set."""
    lists = [value for value in row.values() if isinstance(value, list)]
    key = [value for value in row.values() if value is not None and not isinstance(value, list)]
    return (*key, frozenset(lists[0] if lists else ()))


def _some(items: frozenset[Any]) -> str:
    texts = sorted(map(str, items))
    return " ".join(texts[:EXAMPLES]) + (" ..." if len(texts) > EXAMPLES else "")
