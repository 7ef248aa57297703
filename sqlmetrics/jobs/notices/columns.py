"""Which columns of its sources each column of a job's tables reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.evaluation.inputs.sources import is_file_name
from sqlmetrics.jobs.notices.datasets import Dataset, file_dataset, table_dataset
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.user_sql import columns_in

NUMBERS = ("value", "numerator", "denominator")
"""Columns of the fact table that metrics decide."""

Read = tuple[Dataset, str]
"""A table or file, and a column of it."""


def columns_read(spec: Spec, url: ConnectionURL) -> Mapping[str, Mapping[str, list[Read]]]:
    """Table of the output -> its column -> what it reads.

    A metric reads what decides it: queries, items, what sorts a list, and grades; what is known of
    items and weights where it asks for them. Nothing is said of a click log, nor of a column of a
    query that cannot be followed, as through `select *`.

    Args:
        spec: What is asked.
        url: Where its tables are.
    """
    if spec.clicks is not None:
        return {}
    keys = {"metric_date": ["date"], "system": ["system"], "query_id": ["query"]}
    read = {column: list(_rankings(spec, url, roles)) for column, roles in keys.items()}
    by_metric = {measure.column: list(_metric(spec, url, measure)) for measure in spec.measures}
    every = [source_column for columns in by_metric.values() for source_column in columns]
    facts = {name: read[name] for name in ("metric_date", "system")} | dict.fromkeys(NUMBERS, every)
    pooled = {measure.column for measure in spec.measures if measure.metric.pooled}
    metric_columns = {name: columns for name, columns in by_metric.items() if name not in pooled}
    columns_by_table = {"facts": facts, "per_query": {**read, **metric_columns}}
    return {
        table: {name: _distinct(columns) for name, columns in columns_by_name.items() if columns}
        for table, columns_by_name in columns_by_table.items()
    }


def _distinct(columns: list[Read]) -> list[Read]:
    """Each once, in its order."""
    return list(
        {
            (dataset.namespace, dataset.name, name): (dataset, name) for dataset, name in columns
        }.values()
    )


def _rankings(spec: Spec, url: ConnectionURL, roles: list[str]) -> Iterator[Read]:
    columns = spec.rankings.columns
    for role in roles:
        if name := getattr(columns, role, None):
            yield from _followed(spec.rankings, str(name), url)


def _metric(spec: Spec, url: ConnectionURL, measure: Measure) -> Iterator[Read]:
    """What decides a metric."""
    yield from _rankings(spec, url, ["query", "item", "order", "weight"])
    needs = [*measure.metric.needs]
    needs += [need for choice in spec.settings(measure).choices for need in choice.data]
    roles = ["query", "item", "grade", *["group"] * ("labels.group" in needs)]
    columns = spec.truth.columns
    for role in roles:
        if name := getattr(columns, role, None):
            yield from _followed(spec.labels or spec.rankings, str(name), url)
    if spec.items is not None:
        for need in needs:
            table, _, role = need.partition(".")
            if table == "items":
                item_columns = spec.items.columns
                column_names = {
                    item_columns.item,
                    getattr(item_columns, role, None) if role else None,
                }
                for name in sorted(filter(None, column_names)):
                    yield from _followed(spec.items, str(name), url)


def _followed(source: Source, column: str, url: ConnectionURL) -> Iterator[Read]:
    """A column of a source, through its query."""
    if source.file is not None:
        yield file_dataset(source.file), column
    elif source.relation is not None:
        yield table_dataset(source.relation, url), column
    elif source.sql is not None:
        for table, name in columns_in(source.sql, column):
            is_file = is_file_name(table)
            yield file_dataset(table) if is_file else table_dataset(table, url), name
