"""How an engine is found: by URL, by profile, by object; and that no secret is ever told."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from marked import by_turns

from sqlmetrics.engines import duckdb as duckdb_engine
from sqlmetrics.engines.profiles import Profiles
from sqlmetrics.engines.registry import ENGINES, open_driver
from sqlmetrics.engines.url import parse_url
from sqlmetrics.errors import EngineError, SpecError

DRIVERS = ["psycopg", "pymysql", "chdb", "pyspark", "clickhouse_connect", "google.cloud", "trino"]
SECRET = "s3cr3t/p@ss"
ENCODED = "s3cr3t%2Fp%40ss"

PROFILES = """
target: dev
outputs:
  dev:  {type: duckdb, path: dev.duckdb}
  lite: {type: sqlite, path: "{{ env_var('LITE', 'lite.db') }}"}
  prod: {type: postgres, url: "{{ env_var('WAREHOUSE_URL') }}", schema: analytics}
  odd:  {path: x}
  far:  {type: postgres, host: nowhere.invalid, user: ann, password: "{{ env_var('PW') }}"}
"""

DBT = """
config: {send_anonymous_usage_stats: false}
shop:
  target: "{{ env_var('DBT_TARGET', 'dev') }}"
  outputs:
    dev: {type: duckdb, path: shop.duckdb, threads: 4}
    prod:
      type: postgres
      host: nowhere.invalid
      port: 5432
      user: "{{ env_var('DBT_USER') }}"
      pass: "{{ env_var('DBT_ENV_SECRET_PASSWORD') }}"
      dbname: shop
      schema: marts
      threads: 4
"""


@pytest.fixture
def profiles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "profiles.yml"
    file.write_text(PROFILES)
    return file


def error_message(target, **named) -> str:
    """The message of the one error; it holds no secret."""
    with pytest.raises((SpecError, EngineError)) as caught:
        open_driver(target, **named)
    message = str(caught.value)
    assert "s3cr3t" not in message
    assert caught.value.__cause__ is None
    return message


def test_a_url_of_a_file_opens_it(tmp_path):
    for scheme in ("duckdb", "sqlite"):
        path = tmp_path / f"a b.{scheme}"
        url = f"{scheme}:///{str(path).replace(' ', '%20')}"
        with open_driver(url, create=True) as engine:
            engine.load("t", __import__("pyarrow").table({"n": [1]}))
        with open_driver(url) as engine:
            assert engine.rows("select n from t") == [(1,)]


def test_an_object_is_recognised_and_left_open():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table mine (n integer)")
    connection.execute("insert into mine values (1)")  # a transaction that is the user's
    with open_driver(connection) as engine:
        assert engine.dialect == "sqlite"
        with engine.transaction():
            engine.execute("insert into mine values (2)")
    assert connection.in_transaction, "what the user began is the user's to end"
    connection.rollback()
    assert connection.execute("select count(*) from mine").fetchone() == (0,)


@pytest.mark.parametrize("kind", ENGINES, ids=lambda kind: kind.engine)
def test_every_kind_has_a_url_and_a_missing_driver_names_the_extra(kind, monkeypatch):
    assert parse_url(kind.sample).scheme in kind.schemes
    if not kind.extra:
        return
    module = f"sqlmetrics.engines.{kind.module}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    for name in list(sys.modules):
        if name.split(".")[0] in {object_name.split(".")[0] for object_name in kind.objects}:
            monkeypatch.delitem(sys.modules, name)
    for name in kind.objects:
        monkeypatch.setitem(sys.modules, name.split(".")[0], None)
    message = error_message(kind.sample)
    assert message.endswith(f"pip install 'sqlmetrics[{kind.extra}]'")


def test_an_unknown_scheme_names_the_nearest():
    message = error_message(f"postgrse://ann:{ENCODED}@host/db")
    assert message.startswith("unknown kind of connection 'postgrse'; did you mean 'postgres")
    assert "snowflake" in message


def test_what_is_nothing_says_what_could_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        "'prod' is not a URL, and there is no profiles.yml beside the spec, here"
        in error_message("prod")
    )
    assert error_message("postgres:ann:s3cr3t@host").startswith("what is given is not a URL")
    assert "unknown connection: builtins.int" in error_message(3)


def test_a_password_is_in_no_message():
    pytest.importorskip("psycopg")
    url = f"postgresql://ann:{ENCODED}@127.0.0.1:1/db"
    assert error_message(url).startswith("cannot open postgresql://ann@127.0.0.1:1/db: ")
    assert SECRET not in repr(parse_url(url))
    assert "%2F" in error_message("postgresql://ann:s3cr3t/p@host/db")
    assert "%2F" in error_message("postgresql://ann:12/s3cr3t@host/db")


def test_profiles_by_name_and_by_target(profiles):
    with open_driver("dev", create=True) as engine:
        assert engine.dialect == "duckdb"
    with open_driver("lite", profiles=profiles, create=True) as engine:
        assert engine.dialect == "sqlite"
    assert (profiles.parent / "dev.duckdb").exists()
    assert (profiles.parent / "lite.db").exists()


def test_profiles_are_rendered_as_dbt_renders_them(profiles, monkeypatch, tmp_path):
    monkeypatch.setenv("FOLDER", str(tmp_path))
    path = "{{ env_var('FOLDER') ~ '/' ~ env_var('NAME', 'w') | lower }}.duckdb"
    port = "{{ env_var('PORT', '54') | as_number }}"
    profiles.write_text(
        f'outputs: {{a: {{type: duckdb, path: "{path}"}}, b: {{type: postgres, port: "{port}", '
        "host: h, pass: '{{#s3cr3t'}, c: {type: duckdb, path: \"{{ env_var('A') | s3 }}\"}}"
    )
    assert Profiles(profiles).output("a").url.path == f"{tmp_path}/w.duckdb"
    url = Profiles(profiles).output("b").url
    assert (url.port, url.password) == (54, "{{#s3cr3t")
    assert "a value with env_var: No filter named 's3'" in error_message("c", profiles=profiles)


def test_profiles_tell_what_is_wrong(profiles, monkeypatch):
    assert "the environment variable WAREHOUSE_URL is not set" in error_message("prod")
    assert "unknown output 'prd'; did you mean 'prod'?" in error_message("prd")
    assert "'odd' has no type and no url" in error_message("odd")
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PW", SECRET)
    assert error_message("far").startswith("cannot open postgres://ann@nowhere.invalid: ")
    monkeypatch.setenv("WAREHOUSE_URL", f"postgresql://ann:{ENCODED}@nowhere.invalid/db")
    assert "postgresql://ann@nowhere.invalid/db/analytics" in error_message("prod")
    profiles.write_text("password: s3cr3t\n  : [")
    assert error_message("dev") == "profiles.yml, line 2, column 3 is not YAML"


def test_dbts_layout_is_understood(profiles, monkeypatch):
    profiles.write_text(DBT)
    for name in ("shop", "shop.dev", "dev"):
        with open_driver(name, create=True) as engine:
            assert engine.dialect == "duckdb"
    pytest.importorskip("psycopg")
    monkeypatch.setenv("DBT_USER", "ann")
    monkeypatch.setenv("DBT_ENV_SECRET_PASSWORD", SECRET)
    assert "postgres://ann@nowhere.invalid:5432/shop/marts" in error_message("shop.prod")


def test_no_driver_is_imported_before_it_is_used():
    code = (
        "import sqlmetrics, sqlmetrics.cli, sqlmetrics.engines.registry, sys; print(*sys.modules)"
    )
    run = [sys.executable, "-c", code]
    loaded = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    assert not [driver for driver in DRIVERS if driver in loaded]


@by_turns(0.4)
def test_no_progress_is_drawn_on_stdout() -> None:
    """DuckDB takes `python -c` for a person at a prompt."""
    code = (
        "from sqlmetrics import connect\n"
        "setting = \"select current_setting('enable_progress_bar_print')\"\n"
        "print(connect().rows(setting)[0][0])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_a_notebook_without_widgets_opens_a_database() -> None:
    """There DuckDB fails at any word of its progress bar."""

    class Connection:
        def execute(self, sql: str) -> Connection:
            raise ModuleNotFoundError("ipywidgets is missing", sql)

    connection = Connection()
    assert duckdb_engine._silent(connection) is connection
