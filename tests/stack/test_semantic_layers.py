"""Exports for semantic layers and a static page, carried out by the tools themselves.

Each tool is somewhere of its own; a test without its variable is skipped.

    npm install --prefix $NODE @malloydata/malloy@0.0.431 @malloydata/db-duckdb@0.0.431 \
        antlr4ts@0.5.0-alpha.4 @cubejs-backend/schema-compiler@1.7.43 --ignore-scripts
    npm install --prefix $PAGE @observablehq/framework@1.13.4 @observablehq/plot@0.6.17
    pip install boring-semantic-layer==0.3.18 'ibis-framework[duckdb]' # in an environment: $BSL
    NODE_TOOLS=$NODE PAGE_TOOLS=$PAGE BSL_PYTHON=$BSL/bin/python pytest tests/stack
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from marked import by_night
from reports import by_hand, copy_for_older_duckdb, make_facts, output_of, same, spec, tool

import sqlmetrics as sm

FOLDER = Path(__file__).parent
COLUMNS = {"ndcg_at_10": ("ndcg", 10), "recall_at_3": ("recall", 3), "auc": ("auc", 0)} | {
    "num_q": ("num_q", 0)
}
MEASURES = ",".join(COLUMNS)
QUESTIONS = (("", "all"), ("_by_country", "country"))
"""End of a name, and the segment that it is of."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_facts(tmp_path_factory.mktemp("shop") / "metrics.duckdb")


@pytest.fixture(scope="module")
def shop(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(file), read_only=True) as reader:
        yield reader


def compare(
    shop: duckdb.DuckDBPyConnection, rows: list[dict[str, object]], keys: list[str], segment: str
) -> None:
    """Each metric of what a tool gave, with a hand calculation."""
    stored = ["segment_value" if key == "country" else key for key in keys]
    for column, metric in COLUMNS.items():
        got = {tuple(str(row[key])[:10] for key in keys): row[column] for row in rows}
        same(got, by_hand(shop, *metric, stored, segment))


def questions() -> Iterator[tuple[str, str, list[str]]]:
    """End of the name, segment, and by what it is asked."""
    for end, segment in QUESTIONS:
        segment_keys = [segment] if end else []
        yield end, segment, ["system", *segment_keys]
        yield end, segment, ["metric_date", "system", *segment_keys]


@by_night
def test_malloy(shop: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    node = tool("NODE_TOOLS")
    (model,) = sm.export(spec(), "malloy", tmp_path)
    copy = copy_for_older_duckdb(shop, tmp_path / "older.duckdb")
    for end, segment, keys in questions():
        clauses = f"group_by: {', '.join(keys)}; aggregate: {MEASURES}; limit: 1000"
        query = f"run: ranking_metrics{end} -> {{ {clauses} }}"
        script = (str(FOLDER / "malloy.cjs"), str(copy), str(model), query)
        output = output_of(
            "node", *script, folder=tmp_path, NODE_PATH=f"{node}/node_modules"
        ).splitlines()[-1]
        compare(shop, json.loads(output), keys, segment)


@by_night
def test_cube(shop: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    node = tool("NODE_TOOLS")
    (model,) = sm.export(spec(), "cube", tmp_path)
    for end, segment, keys in questions():
        dimensions = [key for key in keys if key != "metric_date"]
        if dimensions != keys:
            continue  # days are asked for by a granularity, which is the server's
        name = f"ranking_metrics{end}"
        script = (str(FOLDER / "cube.cjs"), str(model), name, MEASURES, ",".join(dimensions))
        output = output_of(
            "node", *script, folder=tmp_path, NODE_PATH=f"{node}/node_modules"
        ).splitlines()[-1]
        sql, parameters = json.loads(output)
        result = shop.execute(sql, parameters)
        assert result.description
        names = [re.sub(rf"^{name}__", "", column[0]) for column in result.description]
        rows = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
        compare(shop, rows, keys, segment)


ASK = """
import json, sys, ibis
from ranking_metrics import *
model = {function}(ibis.duckdb.connect(sys.argv[1], read_only=True))
rows = model.group_by(*{keys!r}).aggregate(*{measures!r}).execute()
print(rows.to_json(orient="records", date_format="iso", double_precision=15))
"""


@by_night
def test_boring_semantic_layer(file: Path, shop: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    python = tool("BSL_PYTHON")
    sm.export(spec(), "bsl", tmp_path)
    for end, segment, keys in questions():
        text = ASK.format(function=f"ranking_metrics{end}", keys=keys, measures=[*COLUMNS])
        output = output_of(python, "-c", text, str(file), folder=tmp_path)
        compare(shop, json.loads(output), keys, segment)


@by_night
def test_a_static_page_is_built(file: Path, tmp_path: Path) -> None:
    page = Path(tool("PAGE_TOOLS"))
    sm.export(spec(), "observable", tmp_path)
    (tmp_path / "node_modules").symlink_to(page / "node_modules")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    output_of("npx", "observable", "build", folder=tmp_path, METRICS_DATABASE=str(file), PATH=path)
    (data,) = (tmp_path / "dist/_file/data").glob("days.*.json")
    assert {row["segment_name"] for row in json.loads(data.read_text())} == {"all", "country"}
    assert "Ranking quality" in (tmp_path / "dist/index.html").read_text()
