"""`export superset`, imported and asked by Superset itself, which is in an environment of its own.

pip install apache-superset==6.1.0 rich cachetools Flask-Caching==2.3.1 duckdb duckdb_engine \
        psycopg2-binary
SUPERSET_BIN=THE_ENVIRONMENT/bin pytest -m "long or not long" tests/stack/test_superset.py
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command import sqlmetrics
from engines.server import MissingError
from engines.starting import postgres
from marked import by_night
from reports import SPEC, by_hand, make_facts, output_of, same, spec, tool
from yaml import safe_dump

import sqlmetrics as sm

CONFIG = """
SECRET_KEY = "a key of a test that is long enough to be one: 0123456789"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db?check_same_thread=false"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
PREVENT_UNSAFE_DB_CONNECTIONS = False
"""
METRICS = {"ndcg@10": ("ndcg", 10), "recall@3": ("recall", 3), "auc": ("auc", 0)} | {
    "num_q": ("num_q", 0)
}


class Superset:
    """A server, and a session of its administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, Path(tool("SUPERSET_BIN"))
        config = folder / "superset_config.py"
        config.write_text(CONFIG.format(folder=folder))
        self.env = {"SUPERSET_CONFIG_PATH": str(config), "FLASK_APP": "superset"}
        self.call("db", "upgrade")
        names = ("--username", "admin", "--firstname", "a", "--lastname", "b", "--email", "a@b.c")
        self.call("fab", "create-admin", *names, "--password", "admin")
        self.call("init")
        cookies = urllib.request.HTTPCookieProcessor(CookieJar())
        self.session = urllib.request.build_opener(cookies)

    def call(self, *arguments: str) -> str:
        """What its command says."""
        return output_of(str(self.bin / "superset"), *arguments, folder=self.folder, **self.env)

    def start(self) -> subprocess.Popen[bytes]:
        """Serve until the process is stopped."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        with (self.folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [str(self.bin / "superset"), "run", "-p", str(port)],
                env=os.environ | self.env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        for _ in range(120):
            try:
                self.session.open(f"{self.url}/health").read()
                break
            except OSError:
                time.sleep(1)
        who = urllib.parse.urlencode({"username": "admin", "password": "admin"}).encode()
        self.session.open(f"{self.url}/login/", who).read()
        return server

    def ask(self, path: str, body: Any = None) -> Any:
        """What the API answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}{path}", data, {"Content-Type": "application/json"}
        )
        return json.loads(self.session.open(request, timeout=120).read())

    def rows(self, table: int, metrics: list[Any], columns: list[str]) -> list[dict[str, Any]]:
        """What /chart/data gives of a data set."""
        query = {"metrics": metrics, "columns": columns, "row_limit": 1000}
        body = {"datasource": {"id": table, "type": "table"}, "queries": [query]}
        return list(self.ask("/api/v1/chart/data", body)["result"][0]["data"])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tool("SUPERSET_BIN")
    return make_facts(tmp_path_factory.mktemp("shop") / "metrics.duckdb")


@pytest.fixture(scope="module")
def places(file: Path) -> Iterator[dict[str, str]]:
    """Dialect -> the address of the same facts."""
    addresses = {"duckdb": f"duckdb:///{file}?access_mode=READ_ONLY"}
    try:
        with postgres() as url:
            (file.parent / "search.yml").write_text(safe_dump(SPEC))
            command = ("run", "search.yml", "--db", str(file), "--publish", url)
            sqlmetrics(*command, folder=file.parent)
            yield addresses | {"postgres": url}
    except (ImportError, MissingError):
        yield addresses


@by_night
def test_superset_imports_draws_and_sums(
    file: Path, places: dict[str, str], tmp_path: Path
) -> None:
    superset = Superset(tmp_path)
    options_by_dialect = {}
    for dialect, uri in places.items():
        options = {"database_uri": uri, "database_name": dialect}
        (bundle,) = sm.export(
            spec(), "superset", tmp_path / f"{dialect}.zip", dialect=dialect, **options
        )
        superset.call("import-dashboards", "-p", str(bundle), "-u", "admin")
        options_by_dialect[dialect] = options
    server = superset.start()
    try:
        with duckdb.connect(str(file), read_only=True) as shop:
            for dialect in places:
                look(superset, shop, dialect)
        # a metric more: import-dashboards leaves data sets as they are, import-directory does not
        extended = spec().having(metrics=[*spec().metrics, "mrr"])
        for dialect, options in options_by_dialect.items():
            folder = tmp_path / f"more_{dialect}"
            sm.export(extended, "superset", folder, dialect=dialect, **options)
            superset.call("import-directory", str(folder / "ranking_metrics"), "--overwrite")
            assert "mrr" in tables(superset, dialect, names=True)["all queries"]
            mine = tables(superset, dialect)["all queries"]
            assert superset.rows(mine, ["ndcg@10"], ["system"])
        assert len(superset.ask("/api/v1/dashboard/")["result"]) == len(places)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def tables(superset: Superset, database: str, *, names: bool = False) -> dict[str, Any]:
    """End of a data set's name -> its id, or the names of its saved metrics."""
    every = superset.ask("/api/v1/dataset/?q=(page_size:100)")["result"]
    mine = {
        dataset["table_name"].removeprefix(f"{spec().title} ({database}): "): dataset["id"]
        for dataset in every
        if dataset["database"]["database_name"] == database
    }
    if not names:
        return mine
    return {
        name: {
            metric["metric_name"]
            for metric in superset.ask(f"/api/v1/dataset/{dataset_id}")["result"]["metrics"]
        }
        for name, dataset_id in mine.items()
    }


def look(superset: Superset, shop: duckdb.DuckDBPyConnection, database: str) -> None:
    """Every data set's sums, and every chart's own question."""
    mine = tables(superset, database)
    for name, segment in (("all queries", "all"), ("by country", "country")):
        segment_keys = [] if segment == "all" else [segment]
        stored = [] if segment == "all" else ["segment_value"]
        for keys, facts in ((["system"], ["system"]), (["metric_date", "system"],) * 2):
            rows = superset.rows(mine[name], [*METRICS], [*keys, *segment_keys])
            for metric, of in METRICS.items():
                got = {
                    tuple(_day(row[key]) for key in (*keys, *segment_keys)): row[metric]
                    for row in rows
                }
                same(got, by_hand(shop, *of, [*facts, *stored], segment))
    assert len(superset.rows(mine["runs"], ["runs"], ["outcome"])) == 1
    charts = superset.ask("/api/v1/chart/?q=(page_size:100)")["result"]
    imported_charts = [chart for chart in charts if chart["datasource_id"] in mine.values()]
    assert len(imported_charts) >= 9
    for chart in imported_charts:
        params = json.loads(superset.ask(f"/api/v1/chart/{chart['id']}")["result"]["params"])
        metrics = params.get("metrics", [])
        axis = [params["x_axis"]] if "x_axis" in params else []
        columns = [*axis, *params.get("groupby", []), *params.get("all_columns", [])]
        assert superset.rows(chart["datasource_id"], metrics, columns), chart["slice_name"]


def _day(value: Any) -> str:
    """A day, which Superset gives in milliseconds."""
    if isinstance(value, int | float):
        return time.strftime("%Y-%m-%d", time.gmtime(value / 1000))
    return str(value)
