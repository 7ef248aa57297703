"""Which columns of its sources each column of a job's tables reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import is_column_role
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.evaluation.inputs.sources import is_file_name
from sqlmetrics.jobs.notices.datasets import Dataset, file_dataset, sources_of, table_dataset
from sqlmetrics.jobs.notices.log_columns import (
    ColumnsByName,
    SourceColumn,
    log_columns,
    log_segment,
    source_columns,
)
from sqlmetrics.spec.segments import KINDS, QUERY_LENGTH, RELEVANT_LABELS
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.user_sql import columns_in, condition_columns

NUMBERS = ("value", "numerator", "denominator")
"""Columns of the fact table that metrics decide."""

Read = tuple[Dataset, str]
"""A table or file, and a column of it."""


def columns_read(spec: Spec, url: ConnectionURL) -> Mapping[str, Mapping[str, list[Read]]]:
    """Table of the output -> its column -> what it reads.

    A metric reads what decides it. Of rankings and labels: queries, items, what sorts a list,
    grades and weights, and what is known of items where it asks for that. Of a click log: the
    request, the query, the item, where it stood, and what was done. Nothing is said of a column
    of a query that cannot be followed, as through `select *`.

    Args:
        spec: What is asked.
        url: Where its tables are.
    """
    keys, by_metric = _list_columns(spec) if spec.clicks is None else log_columns(spec)
    weights = source_columns(spec.queries, ["query", "weight"]) if _is_weighted(spec) else []
    by_metric = {name: [*columns, *weights] for name, columns in by_metric.items()}
    every = [column for columns in by_metric.values() for column in columns]
    facts = {name: keys[name] for name in ("metric_date", "system")}
    facts |= {"segment_value": list(_segments(spec)), **dict.fromkeys(NUMBERS, every)}
    pooled = {measure.column for measure in spec.measures if measure.metric.pooled}
    of_queries = {
        measure.column: by_metric[measure.column]
        for measure in spec.measures
        if measure.column not in pooled
    }
    columns_by_table = {"facts": facts, "per_query": {**keys, **of_queries}}
    read_by_table = {
        table: {name: _followed(columns, url) for name, columns in columns_by_name.items()}
        for table, columns_by_name in columns_by_table.items()
    }
    return {
        table: {name: columns for name, columns in read.items() if columns}
        for table, read in read_by_table.items()
    }


def filters_read(spec: Spec, url: ConnectionURL) -> list[Read]:
    """What decides which rows count: the columns of each `where`, and of a log's test traffic.

    Args:
        spec: What is asked.
        url: Where its tables are.
    """
    columns = [
        (source, name) for source in sources_of(spec) for name in condition_columns(source.where)
    ]
    if spec.clicks is not None:
        log = spec.clicks.log or spec.clicks.impressions
        test_columns = condition_columns(spec.clicks.cleaning.test)
        columns += [(log, name) for name in test_columns if log is not None]
    return _followed(columns, url)


def _is_weighted(spec: Spec) -> bool:
    return spec.queries is not None and spec.queries.columns.weight is not None


def _list_columns(spec: Spec) -> tuple[ColumnsByName, ColumnsByName]:
    """What keys and metrics of rankings and labels read."""
    roles = {"metric_date": "date", "system": "system", "query_id": "query"}
    keys = {column: source_columns(spec.rankings, [role]) for column, role in roles.items()}
    return keys, {measure.column: list(_metric(spec, measure)) for measure in spec.measures}


def _metric(spec: Spec, measure: Measure) -> Iterator[SourceColumn]:
    """What decides a metric."""
    yield from source_columns(spec.rankings, ["query", "item", "order", "weight"])
    needs = list(spec.needs(measure))
    group = ["group"] * ("labels.group" in needs)
    truth = spec.labels or spec.rankings
    columns = spec.truth.columns
    names = [getattr(columns, role) for role in ("query", "item", "grade", *group)]
    label_roles = (need.removeprefix("labels.") for need in needs if need.startswith("labels."))
    names += [columns.named(role) for role in filter(is_column_role, label_roles)]
    yield from ((truth, str(name)) for name in names if name)
    query_roles = [need.partition(".")[2] for need in needs if need.startswith("queries.")]
    if spec.queries is not None and query_roles:
        yield from source_columns(spec.queries, ["query"])
        yield from ((spec.queries, str(spec.queries.columns.named(role))) for role in query_roles)
    if any(need.startswith("day.") for need in needs):
        yield from source_columns(spec.rankings, ["date"])
    item_roles = [
        role for table, _, role in (need.partition(".") for need in needs) if table == "items"
    ]
    if item_roles:
        yield from source_columns(spec.items, dict.fromkeys(["item", *item_roles]))
    if spec.items is not None:
        roles = filter(is_column_role, item_roles)
        yield from ((spec.items, str(spec.items.columns.named(role))) for role in roles)


def _segments(spec: Spec) -> Iterator[SourceColumn]:
    """What decides the segment of a query."""
    lists = spec.rankings if spec.clicks is None else None
    for name in spec.by:
        kind = spec.segments.get(name, "")
        if kind == RELEVANT_LABELS:
            yield from source_columns(spec.labels or lists, ["query", "grade"])
        elif kind in KINDS:
            role = "text" if kind == QUERY_LENGTH else "weight"
            yield from source_columns(spec.queries or lists, ["query", role])
        elif kind or name in getattr(spec.queries and spec.queries.columns, "segments", ()):
            yield from source_columns(spec.queries, ["query"])
            attributes = spec.queries or lists
            if attributes is not None:
                yield from ((attributes, column) for column in condition_columns(kind) or [name])
        elif lists is not None:
            yield lists, name
        else:
            yield from log_segment(spec, name)


def _followed(columns: Iterable[SourceColumn], url: ConnectionURL) -> list[Read]:
    """Columns of tables and files, through queries, each once and in its order."""
    read = [pair for source, name in columns for pair in _tables_of(source, name, url)]
    return list(
        {
            (dataset.namespace, dataset.name, name): (dataset, name) for dataset, name in read
        }.values()
    )


def _tables_of(source: Source, column: str, url: ConnectionURL) -> Iterator[Read]:
    """A column of a source, through its query."""
    if source.file is not None:
        yield file_dataset(source.file), column
    elif source.relation is not None:
        yield table_dataset(source.relation, url), column
    elif source.sql is not None:
        for table, name in columns_in(source.sql, column):
            is_file = is_file_name(table)
            yield file_dataset(table) if is_file else table_dataset(table, url), name
