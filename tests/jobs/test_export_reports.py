"""Dashboards and semantic layers: their SQL, executed, gives sums over sums of the fact table."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pytest
import yaml
from marked import by_turns
from reports import by_hand, make_facts, same, spec
from sqlglot import transpile
from vendor_views import check_metric_view, metric_views, semantic_views

import sqlmetrics as sm

METRICS = {"ndcg@10": ("ndcg", 10), "recall@3": ("recall", 3), "auc": ("auc", 0)} | {
    "num_q": ("num_q", 0)
}
COLUMNS = {"ndcg_at_10": "ndcg@10", "recall_at_3": "recall@3", "auc": "auc", "num_q": "num_q"}
SLICES = {"all": "all", "by_country": "country"}
URI = "postgresql://ann:s3cret@db.example:5432/shop"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_facts(tmp_path_factory.mktemp("shop") / "metrics.duckdb")


@pytest.fixture(scope="module")
def shop(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(file), read_only=True) as reader:
        yield reader


Shop = duckdb.DuckDBPyConnection


def values(
    shop: Shop, sql: str, expressions: Mapping[str, str], keys: tuple[str, ...]
) -> dict[str, dict[Any, Any]]:
    """Name -> key -> what its expression gives over a query."""
    text = f"select {', '.join([*keys, *expressions.values()])} from (\n{sql}\n) as t group by all"
    rows = shop.execute(text).fetchall()
    return {
        name: {tuple(map(str, row[: len(keys)])): row[len(keys) + index] for row in rows}
        for index, name in enumerate(expressions)
    }


def check(shop: Shop, sql: str, expressions: Mapping[str, str], segment: str) -> None:
    """Compare each metric with a hand calculation: by system, by day, and by segment."""
    assert expressions.keys() == METRICS.keys()
    segment_keys = () if segment == "all" else (segment,)
    for keys in (("system", *segment_keys), ("metric_date", "system", *segment_keys)):
        stored = tuple("segment_value" if key == segment else key for key in keys)
        for name, got in values(shop, sql, expressions, keys).items():
            same(got, by_hand(shop, *METRICS[name], stored, segment))


def bundle(folder: Path, **options: str) -> dict[str, Any]:
    """Path below the root -> what stands there."""
    (file,) = sm.export(spec(), "superset", folder / "superset.zip", **options)
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {"ranking_metrics"}
        return {
            name.removeprefix("ranking_metrics/"): yaml.safe_load(archive.read(name))
            for name in archive.namelist()
        }


@by_turns(1.1)
def test_superset_sums_as_the_facts_say(shop: Shop, tmp_path: Path) -> None:
    files = bundle(tmp_path)
    tables = {
        asset["table_name"]: asset for path, asset in files.items() if path.startswith("datasets")
    }
    title = spec().title
    for segment, dimension in (
        (f"{title}: all queries", "all"),
        (f"{title}: by country", "country"),
    ):
        table = tables[segment]
        saved = {metric["metric_name"]: metric["expression"] for metric in table["metrics"]}
        del saved["n_queries"]
        check(shop, table["sql"], saved, dimension)
    intervals = tables[f"{title}: intervals"]
    saved = {metric["metric_name"]: metric["expression"] for metric in intervals["metrics"]}
    where = f"select * from ({intervals['sql']}) as t where metric = 'ndcg' and k = 10"
    totals = values(shop, where, saved, ("system",))
    same(totals["value"], by_hand(shop, "ndcg", 10, ["system"]))
    assert {*totals["ci_low"].values()} == {None}, "no interval of several days"
    totals = values(shop, where, saved, ("metric_date", "system"))
    same(totals["value"], by_hand(shop, "ndcg", 10, ["metric_date", "system"]))
    assert {key[1] for key, low in totals["difference_low"].items() if low is not None} == {"new"}
    runs = tables[f"{title}: runs"]
    assert values(shop, runs["sql"], {"runs": "count(*)"}, ())["runs"] == {(): 1}


def test_superset_joins_its_files_by_uuids(tmp_path: Path) -> None:
    files = bundle(tmp_path)
    kinds = {kind: _uuids(files, kind) for kind in ("databases", "datasets", "charts")}
    assert len({*kinds["databases"], *kinds["datasets"], *kinds["charts"]}) == sum(
        map(len, kinds.values())
    )
    assert {dataset["database_uuid"] for dataset in kinds["datasets"].values()} == {
        *kinds["databases"]
    }
    assert {chart["dataset_uuid"] for chart in kinds["charts"].values()} <= {*kinds["datasets"]}
    (board,) = (asset for path, asset in files.items() if path.startswith("dashboards"))
    placed = [
        component["meta"]
        for component in board["position"].values()
        if component and "CHART-" in str(component)
    ]
    placed = [meta for meta in placed if "uuid" in meta]
    assert {meta["uuid"] for meta in placed} == {*kinds["charts"]}
    assert len({meta["chartId"] for meta in placed}) == len(placed)
    filters = board["metadata"]["native_filter_configuration"]
    assert [native_filter["name"] for native_filter in filters] == ["Days", "System", "country"]
    for native_filter in filters:
        assert {target["datasetUuid"] for target in native_filter["targets"] if target} <= {
            *kinds["datasets"]
        }
    for chart in kinds["charts"].values():  # a chart asks for metrics that its data set has
        table = kinds["datasets"][chart["dataset_uuid"]]
        names = {metric["metric_name"] for metric in table["metrics"]}
        columns = {column["column_name"] for column in table["columns"]}
        assert {*chart["params"].get("metrics", [])} <= names
        assert {
            *chart["params"].get("groupby", []),
            *chart["params"].get("all_columns", []),
        } <= columns


def _uuids(files: Mapping[str, Any], kind: str) -> dict[str, Any]:
    assets = {asset["uuid"]: asset for path, asset in files.items() if path.startswith(kind)}
    assert all(str(UUID(uuid)) == uuid for uuid in assets)
    return assets


def test_a_database_is_told_without_its_password(tmp_path: Path) -> None:
    uuid = "0d1fb2f2-6a0a-4a44-9a3e-7f6a5a6a1a11"
    options = {"database_uri": URI, "database_name": "shop", "database_uuid": uuid}
    files = bundle(tmp_path, dialect="postgres", **options)
    database = files["databases/shop.yaml"]
    assert database["sqlalchemy_uri"] == URI.replace("s3cret", "XXXXXXXXXX")
    assert database["uuid"] == uuid
    assert "s3cret" not in json.dumps(files)
    assert {asset["schema"] for path, asset in files.items() if "datasets" in path} == {"public"}
    other = bundle(tmp_path)
    assert {asset["schema"] for path, asset in other.items() if "datasets" in path} == {"main"}
    assert _names(files).isdisjoint(_names(other)), "Superset takes no name twice"
    with pytest.raises(sm.SpecError, match="--database-uuid: 'x' is not a UUID"):
        bundle(tmp_path, database_uuid="x")
    with pytest.raises(sm.SpecError, match=r"'shop\.duckdb' is not a SQLAlchemy URL"):
        bundle(tmp_path, database_uri="shop.duckdb")


def _names(files: Mapping[str, Any]) -> set[str]:
    """What there can be but once, and the UUIDs that are not the connection's."""
    return {
        asset[key]
        for path, asset in files.items()
        for key in ("table_name", "slug", "uuid")
        if key in asset and not path.startswith("databases")
    }


def test_cube_sums_as_the_facts_say(shop: Shop, tmp_path: Path) -> None:
    (file,) = sm.export(spec(), "cube", tmp_path)
    cubes = yaml.safe_load(file.read_text())["cubes"]
    for cube, segment in zip(cubes, SLICES.values(), strict=True):
        measures = {
            measure["name"]: measure["sql"]
            for measure in cube["measures"]
            if measure["type"] == "number"
        }
        for measure in cube["measures"]:
            if measure["type"] == "sum":
                total = f"sum({_plain(measure['sql'])})"
                measures = {
                    name: sql.replace(f"{{{measure['name']}}}", total)
                    for name, sql in measures.items()
                }
        measures = {COLUMNS[name]: sql for name, sql in measures.items()}
        check(shop, cube["sql"], measures, segment)
        names = ("id", "metric_date", "system", "country")[: len(cube["dimensions"])]
        assert tuple(dimension["name"] for dimension in cube["dimensions"]) == names
        row = _plain(cube["dimensions"][0]["sql"])
        ids = values(shop, cube["sql"], {"rows": "count(*)"}, (row,))["rows"]
        assert {*ids.values()} == {1}


def _plain(text: str) -> str:
    return text.replace("{CUBE}", "t")


def test_osi_sums_as_the_facts_say(shop: Shop, tmp_path: Path) -> None:
    (file,) = sm.export(spec(), "osi", tmp_path)
    (model,) = yaml.safe_load(file.read_text())["semantic_model"]
    for table, segment in zip(model["datasets"], SLICES.values(), strict=True):
        of_table = f"{table['name']}."
        metrics = {
            metric["name"]: metric["expression"]["dialects"][0]["expression"]
            for metric in model["metrics"]
        }
        end = "" if segment == "all" else f"_by_{segment}"
        expressions = {
            name: metrics[f"{column}{end}"].replace(of_table, "t.")
            for column, name in COLUMNS.items()
        }
        check(shop, table["source"], expressions, segment)
        keys = ("metric_date", "system", "country")[: len(table["primary_key"])]
        assert tuple(table["primary_key"]) == keys


def test_what_no_tool_ran_sums_as_the_facts_say(shop: Shop, tmp_path: Path) -> None:
    files = sm.export(spec(), "lightdash", tmp_path / "lightdash")
    models = yaml.safe_load(files[-1].read_text())["models"]
    for model, file, segment in zip(models, files[:-1], SLICES.values(), strict=True):
        expressions = {
            COLUMNS[name]: metric["sql"].replace("${TABLE}", "t")
            for name, metric in model["meta"]["metrics"].items()
        }
        check(shop, file.read_text(), expressions, segment)

    (board,) = sm.export(spec(), "grafana", tmp_path / "grafana", dialect="postgres")
    panels = json.loads(board.read_text())["panels"]
    assert [panel["title"] for panel in panels] == [*METRICS, "ndcg@10 by country"]
    for panel, metric in zip(panels, METRICS.values(), strict=False):
        sql = panel["targets"][0]["rawSql"].replace("$__timeFilter(metric_date)", "true")
        rows = shop.execute(sql).fetchall()
        got = {(str(day), system): value for day, system, value in rows}
        same(got, by_hand(shop, *metric, ["metric_date", "system"]))

    files = sm.export(spec(), "evidence", tmp_path / "evidence")
    queries = {file.stem: file.read_text() for file in files if file.suffix == ".sql"}
    assert {*queries} == {"all_queries", "by_country"}
    blocks = re.findall(r"```sql \w+\n(.+?)```", files[-1].read_text(), re.S)
    for text, metric in zip(blocks, METRICS.values(), strict=False):
        of_file = f"({queries['all_queries']}\n) as t"
        rows = shop.execute(text.replace("ranking_metrics.all_queries", of_file)).fetchall()
        same(
            {(str(a), b): c for a, b, c in rows}, by_hand(shop, *metric, ["metric_date", "system"])
        )

    files = sm.export(spec(), "metabase", tmp_path / "metabase")
    page = files[-1].read_text()
    names = dict(re.findall(r"\(`(\w+)`\): `([^`]+)`", page))
    expressions = {
        COLUMNS[name]: re.sub(
            r"\[([^]]+)\]", lambda match: match[1].replace(" ", "_").lower(), text
        )
        for name, text in names.items()
    }
    totals = values(shop, files[0].read_text(), expressions, ("metric_date", "system"))
    for name, got in totals.items():
        same(got, by_hand(shop, *METRICS[name], ["metric_date", "system"]))


def test_metric_views_of_databricks_are_as_it_says_and_sum_as_the_facts_say(
    shop: Shop, tmp_path: Path
) -> None:
    (file,) = sm.export(spec(), "databricks", tmp_path)
    for view, segment in zip(metric_views(file.read_text()), SLICES.values(), strict=True):
        check_metric_view(view)
        dimensions = {column["name"]: column["expr"] for column in view["dimensions"]}
        assert [*dimensions] == ["metric_date", "system", "country"][: len(dimensions)]
        columns = ", ".join(f"{sql} as {name}" for name, sql in dimensions.items())
        rows = f"select *, {columns} from {view['source']} where {view['filter']}"
        metrics = {
            COLUMNS[measure["name"]]: transpile(measure["expr"], "databricks", "duckdb")[0]
            for measure in view["measures"]
        }
        check(shop, transpile(rows, "databricks", "duckdb")[0], metrics, segment)


def test_semantic_views_of_snowflake_are_as_it_says_and_sum_as_the_facts_say(
    shop: Shop, tmp_path: Path
) -> None:
    (file,) = sm.export(spec(), "snowflake", tmp_path)
    views = semantic_views(file.read_text())
    for (rows, metrics), segment in zip(views, SLICES.values(), strict=True):
        check(shop, rows, {COLUMNS[name]: sql for name, sql in metrics.items()}, segment)


def test_names_of_vendors_views_may_be_anything(tmp_path: Path) -> None:
    """A name that would end the definition, and a segment that is called as a metric or no word."""
    odd = spec().having(name="a$$$'b\\", by=["auc", "Land (x)", "order"])
    (file,) = sm.export(odd, "databricks", tmp_path)
    views = metric_views(file.read_text())
    names = [view["dimensions"][-1]["name"] for view in views]
    assert names == ["system", "auc_2", "land_x_581486", "order"]
    for view in views:
        check_metric_view(view)
        assert transpile(view["filter"], "databricks", "duckdb")[0].startswith("spec = 'a$$$''b\\'")
    (file,) = sm.export(odd, "snowflake", tmp_path)
    assert len([*semantic_views(file.read_text())]) == 4


def _measures(text: str) -> Iterator[tuple[str, str]]:
    for name, body in re.findall(r"measure: `(\w+)` is\n(.+?)\n(?=\n|\})", text, re.S):
        yield name, re.sub(r"\s+", " ", body)


def test_malloy_has_the_same_sums_in_its_own_words(shop: Shop, tmp_path: Path) -> None:
    (file,) = sm.export(spec(), "malloy", tmp_path)
    text = file.read_text()
    assert r"spec = 'Shop\'s search'" in text
    expressions = {}
    for name, body in _measures(text):
        case = re.sub(r"pick (.+) when (.+) else null", r"case when \2 then \1 end", body)
        case = re.sub(r"(\w+)\.sum\(\)", r"sum(\1)", case).replace("count()", "count(*)")
        expressions[COLUMNS[name]] = re.sub(r"\{ where: (.+?) \}", r"filter (where \1)", case)
    for segment, name in (("all", "ranking_metrics"), ("country", "ranking_metrics_by_country")):
        assert f"source: `{name}` is ranking_metrics_rows extend {{\n  where: " in text
        sql = (
            "select *, segment_value as country from ranking_metrics "
            f"where spec = 'Shop''s search' and segment_name = '{segment}'"
        )
        check(shop, sql, expressions, segment)


def test_a_static_page_reads_the_facts_of_its_spec(
    shop: Shop,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = sm.export(spec(), "observable", tmp_path)
    loader, page = tmp_path / "src/data/days.json.py", tmp_path / "src/index.md"
    assert {loader, page} <= {*files}
    monkeypatch.setenv("METRICS_DATABASE", str(file))
    exec(compile(loader.read_text(), str(loader), "exec"), {})
    rows = json.loads(capsys.readouterr().out)
    mine = [
        row
        for row in rows
        if (row["metric"], row["k"], row["segment_name"]) == ("ndcg", 10, "all")
        and row["system"] == "new"
    ]
    ratio = sum(row["numerator"] for row in mine) / sum(row["denominator"] for row in mine)
    assert ratio == pytest.approx(by_hand(shop, "ndcg", 10, ["system"])["new",])
    text = page.read_text()
    assert 'const segments = ["country"];' in text
    assert 'const baseline = "old";' in text
    with_slash = sm.export(spec().having(name="</script>"), "observable", tmp_path / "x")
    assert "</script>" not in with_slash[2].read_text()
