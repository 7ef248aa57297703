"""Several responses of a search engine in one: `_msearch` of Elasticsearch and OpenSearch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.inputs.mlflow_traces import TEXTS
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier

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
