"""What Databricks and Snowflake publish of their metric and semantic views, as a check of a text.

Neither runs on a machine of one's own. The fields and the clauses are those of "Metric view YAML
syntax reference" and "Agent metadata in metric views" (docs.databricks.com), and of "CREATE
SEMANTIC VIEW" and "How Snowflake validates semantic views" (docs.snowflake.com), November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from sqlglot import exp, parse_one, transpile

COLUMN = {"name": str, "expr": str, "comment": str, "display_name": str, "synonyms": list}
VIEW = {"version": str, "comment": str, "source": str, "filter": str} | {
    "dimensions": list,
    "measures": list,
}
DATE_FORMATS = ("locale_short_month", "locale_long_month", "year_month_day", "locale_number_month")
MEASURE_VIEW = re.compile(
    r"create or replace view (\S+)\nwith metrics\nlanguage yaml\n(?:comment '.*'\n)?"
    r"as \$\$\n(.*?)\$\$;\n",
    re.DOTALL,
)


def metric_views(text: str) -> list[dict[str, Any]]:
    """The definitions of the metric views that Databricks' statements make."""
    comment, *rest = MEASURE_VIEW.split(text)
    assert re.fullmatch(r"(-- .*\n)+\n", comment)
    assert not "".join(rest[2::3]).strip(), "something stands between the statements"
    return [yaml.safe_load(definition) for definition in rest[1::3]]


def check_metric_view(view: Mapping[str, Any]) -> None:
    """Fields, their types and their limits; each expression is read by Databricks' grammar."""
    fields(view, VIEW)
    assert view["version"] == "1.1"
    names = [column["name"] for column in (*view["dimensions"], *view["measures"])]
    assert len({name.casefold() for name in names}) == len(names)
    for column in (*view["dimensions"], *view["measures"]):
        fields({key: value for key, value in column.items() if key != "format"}, COLUMN)
        assert len(column["display_name"]) <= 255
        synonyms = column.get("synonyms", ["none"])
        assert 0 < len(synonyms) <= 10
        assert all(isinstance(text, str) and 0 < len(text) <= 255 for text in synonyms)
        has_aggregate = bool(parse_one(column["expr"], read="databricks").find(exp.AggFunc))
        assert has_aggregate == (column in view["measures"])
        check_format(column.get("format"))
    assert not parse_one(view["filter"], read="databricks").find(exp.AggFunc)


def check_format(form: Mapping[str, Any] | None) -> None:
    """How a column is printed."""
    match form:
        case None:
            pass
        case {"type": "number", "decimal_places": {"type": "max" | "exact", "places": places}}:
            assert 0 <= places <= 10
        case {"type": "date", "date_format": date_format, "leading_zeros": True}:
            assert date_format in DATE_FORMATS
        case _:
            raise AssertionError(form)


def fields(value: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """A mapping has known fields alone, each of its type; all but the optional ones."""
    assert value.keys() <= types.keys()
    for name, item in value.items():
        assert isinstance(item, types[name]), name
    assert not {"source", "version", "name", "expr"} & types.keys() - value.keys()


TEXT = r"'(?:[^'\\]|\\.|'')*'"
NAME = r'(?:[A-Za-z_]\w*|"(?:[^"]|"")+")'
META = rf"(?:\s+with synonyms = \((?P<synonyms>{TEXT}(?:, {TEXT})*)\))?\s+comment = {TEXT}"
TABLE = re.compile(rf"(?P<alias>{NAME}) as (?P<name>{NAME}(?:\.{NAME}){{0,2}}){META}")
EXPRESSION = re.compile(
    rf"(?P<modifier>private )?(?P<table>{NAME})\.(?P<name>{NAME})\s+as (?P<sql>.+?){META}",
    re.DOTALL,
)
SEMANTIC_VIEW = re.compile(
    rf"create or replace semantic view {NAME}(?:\.{NAME}){{0,2}}\s+tables \((?P<tables>.+?)"
    rf"\n    \)\s+facts \((?P<facts>.+?)\n    \)\s+dimensions \((?P<dimensions>.+?)\n    \)\s+"
    rf"metrics \((?P<metrics>.+?)\n    \)\s+comment = {TEXT}\s+copy grants",
    re.DOTALL,
)
Expressions = dict[str, str]


def semantic_views(text: str) -> Iterator[tuple[str, Expressions]]:
    """Each semantic view: its rows as DuckDB's query, and its metrics over them as DuckDB's SQL."""
    comment, *statements = text.split(";\n\n")
    comment, first = comment.split("\n\n", 1)
    assert comment.startswith("-- ")
    texts = [first, *statements]
    for rows, view in zip(texts[::2], texts[1::2], strict=True):
        yield check_semantic_view(rows, view.removesuffix(";\n"))


def check_semantic_view(rows: str, text: str) -> tuple[str, Expressions]:
    """Clauses in their order, names, what may be aggregated, and that all names are there."""
    view = SEMANTIC_VIEW.fullmatch(text)
    assert view, text
    table = TABLE.fullmatch(view["tables"].strip())
    assert table
    statement = re.fullmatch(
        rf"create or replace view (\S+) copy grants\ncomment = {TEXT}\nas\n(.+)", rows, re.DOTALL
    )
    assert statement
    assert statement[1] == table["name"]
    facts, dimensions, metrics = (
        expressions(view[kind], table["alias"]) for kind in ("facts", "dimensions", "metrics")
    )
    assert all(fact["modifier"] for fact in facts)
    names = [item["name"].casefold() for item in (*facts, *dimensions, *metrics)]
    assert len({*names}) == len(names)
    synonyms = [item["synonyms"] or "" for item in (*dimensions, *metrics)]
    assert len({*synonyms} - {""}) == len([text for text in synonyms if text])
    columns = {column.alias_or_name for column in parse_one(statement[2], read="snowflake").selects}
    for item in (*facts, *dimensions):
        tree = parse_one(item["sql"], read="snowflake")
        assert not tree.find(exp.AggFunc)
        assert {column.name for column in tree.find_all(exp.Column)} <= columns
    for item in metrics:
        for column in parse_one(item["sql"], read="snowflake").find_all(exp.Column):
            assert column.find_ancestor(exp.AggFunc)
            assert column.name in {fact["name"] for fact in facts}
    inner = ", ".join(f"{item['sql']} as {item['name']}" for item in (*dimensions, *facts))
    query = f"select {inner} from ({statement[2]}) as {table['alias']}"
    return _duckdb(query), {item["name"]: _duckdb(item["sql"]) for item in metrics}


def expressions(body: str, table: str) -> Sequence[re.Match[str]]:
    """The facts, dimensions or metrics of a clause."""
    items = [EXPRESSION.fullmatch(item) for item in re.split(r",\n {8}(?! )", body.strip())]
    assert all(item and item["table"] == table for item in items), body
    return [item for item in items if item]


def _duckdb(sql: str) -> str:
    return transpile(sql, read="snowflake", write="duckdb")[0].replace("ranking_metrics.", "t.")
