"""Where a command reads and writes: nothing is lost, and nothing is opened unasked."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import chdir
from datetime import date
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from command import sqlmetrics
from conftest import peer
from marked import by_turns, first

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.engines.database import connect
from sqlmetrics.engines.registry import ENGINES, EngineInfo, dialect_of, open_driver
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.days import days_of
from sqlmetrics.jobs.job import job_text
from sqlmetrics.proof.verify import sampled, verify_spec
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.translation import Translation

pytestmark = by_turns(0.3)

FILES = """\
rankings: {file: runs.csv}
labels: {file: truth.csv}
metrics: [mrr, ndcg@10]
output: {relation: metrics, views: false}
checks: [{metric: mrr, min: 0.1}]
"""
TABLES = FILES.replace("{file: runs.csv}", "{relation: runs}").replace(
    "{file: truth.csv}", "{relation: truth}"
)
PROFILES = """\
target: dev
outputs:
  dev: {type: duckdb, path: out.duckdb}
  lite: {type: sqlite, path: out.db}
  pg: {type: postgres, host: nowhere.invalid, password: "{{ env_var('NOT_SET') }}"}
  memory: {type: duckdb}
"""
DBT = """\
config: {send_anonymous_usage_stats: false}
shop:
  target: dev
  outputs:
    dev: {type: duckdb, path: shop.duckdb, database: shop, schema: main, threads: 4}
    lite: {type: sqlite, path: shop.db}
web:
  target: dev
  outputs:
    dev: {type: duckdb, path: web.duckdb, schema: marts}
    pg: {type: postgres, host: nowhere.invalid, user: ann, dbname: web, schema: marts}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that nobody's profiles count."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DBT_PROFILES_DIR", raising=False)
    (tmp_path / "home" / ".dbt").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spec on files, and one on the tables of a database."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "runs.csv").write_text("query_id,item_id,score\nq1,a,2\nq1,b,1\nq2,c,1\n")
    (work / "truth.csv").write_text("query_id,item_id,grade\nq1,b,1\nq2,c,2\n")
    (work / "files.yml").write_text(FILES)
    (work / "tables.yml").write_text(TABLES)
    return work


LIVE = ["duckdb", "sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]


def fill(file: Path) -> None:
    """A DuckDB file with the tables that the spec reads."""
    with duckdb.connect(str(file)) as connection:
        for name in ("runs", "truth"):
            connection.execute(f"create table {name} as from '{file.parent / name}.csv'")


def rows(file: Path, table: str = "metrics") -> int:
    with duckdb.connect(str(file), read_only=True) as connection:
        ((count,),) = connection.execute(f"select count(*) from {table}").fetchall()
    return int(count)


def databases_in(folder: Path) -> set[str]:
    """The databases in a folder."""
    return {path.name for path in folder.iterdir() if path.suffix in (".duckdb", ".db")}


# -- the target that profiles.yml names ---------------------------------------------------


@by_turns(1.4)
@pytest.mark.parametrize(
    "layout", first(1, [PROFILES, "shop:\n  " + PROFILES.replace("\n", "\n  ")])
)
def test_run_and_check_use_the_target_of_profiles(folder: Path, layout: str) -> None:
    (folder / "profiles.yml").write_text(layout)
    completed = sqlmetrics("run", "files.yml", folder=folder)
    assert "dev of profiles.yml\nnew database out.duckdb\n" in completed.stderr
    assert rows(folder / "out.duckdb") == 2
    assert "1 of 1 checks hold" in sqlmetrics("check", "files.yml", folder=folder).stderr
    error = sqlmetrics("check", "tables.yml", "--errors", "json", folder=folder, expect=4).stderr
    assert json.loads(error)["exit_code"] == 4
    sqlmetrics("run", "files.yml", "--target", "lite", folder=folder)
    sqlmetrics("check", "files.yml", "--target", "lite", folder=folder)
    with sqlite3.connect(folder / "out.db") as connection:
        assert connection.execute("select count(*) from metrics").fetchone() == (2,)


def test_a_dry_run_is_of_the_target_and_makes_nothing(folder: Path) -> None:
    (folder / "profiles.yml").write_text(PROFILES.replace("target: dev", "target: pg"))
    by_default = sqlmetrics("run", "tables.yml", "--dry-run", folder=folder).stdout
    by_name = sqlmetrics("run", "tables.yml", "--dry-run", "--target", "pg", folder=folder).stdout
    assert by_default == by_name
    assert "select pg_advisory_xact_lock(hashtextextended(" in by_default
    of_duckdb = sqlmetrics(
        "run", "tables.yml", "--dry-run", "--target", "dev", folder=folder
    ).stdout
    assert "create table if not exists metrics (\n    spec varchar not null" in of_duckdb
    compiled = sqlmetrics("compile", "tables.yml", "--target", "pg", folder=folder).stdout
    assert compiled.startswith("-- PostgreSQL:")
    assert not databases_in(folder)


@by_turns(0.7)
def test_what_a_run_writes_is_never_lost(folder: Path) -> None:
    """No name is no database in memory, and a database in memory is no place for a job."""
    (folder / "profiles.yml").write_text(PROFILES)
    for where, message in (
        (["--target", "memory"], "duckdb:// is a database in memory: the tables would be lost"),
        (["--connection", "duckdb://"], "the tables would be lost when the run ends"),
        (["--connection", "sqlite://"], "or --publish"),
        (["--connection", ""], "--connection has no value; give one"),
        (["--target", ""], "--target has no value; give one"),
        (["--db", ""], "--db has no value; give one"),
        (["--profiles", ""], "--profiles has no value; give one"),
        (["--db", "a.duckdb", "--target", "dev"], "give one of --db, --connection and --target"),
        (["--db", "a.duckdb", "--profiles", "profiles.yml"], "leave --db out"),
        (["--db", "postgresql://ann:s3cr3t@host/db"], "give a URL with --connection"),
        (["--target", "postgresql://ann:s3cr3t@host/db"], "give a URL with --connection"),
    ):
        stderr = sqlmetrics("run", "files.yml", *where, folder=folder, expect=2).stderr
        assert message in stderr
        assert "s3cr3t" not in stderr
    passing = ["run", "files.yml", "--target", "memory", "--publish"]
    stderr = sqlmetrics(*passing, "sqlite://", folder=folder, expect=2).stderr
    assert "--publish sqlite:// is a database in memory" in stderr
    sqlmetrics(*passing, "p.duckdb", folder=folder)
    assert rows(folder / "p.duckdb") == 2
    (folder / "profiles.yml").unlink()
    for verb in ("run", "check"):
        assert "say where: --db" in sqlmetrics(verb, "files.yml", folder=folder, expect=2).stderr
    with pytest.raises(sm.SpecError, match="an empty text"):
        connect("")
    assert databases_in(folder) == {"p.duckdb"}


# -- where profiles.yml is looked for, and names in it ------------------------------------


@by_turns(1)
def test_profiles_are_looked_for_in_this_order(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--profiles, beside the spec, the current folder, DBT_PROFILES_DIR, ~/.dbt."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / "dbt"))
    (tmp_path / "dbt").mkdir()
    directories = [home / ".dbt", tmp_path / "dbt", elsewhere, folder]
    for number, directory in enumerate(directories):
        profile = f"outputs: {{only: {{type: duckdb, path: at{number}.duckdb}}}}\n"
        (directory / "profiles.yml").write_text(profile)
        if directory == folder:
            monkeypatch.setenv("SQLMETRICS_TRUSTED", str(folder))
        sqlmetrics("run", str(folder / "files.yml"), folder=elsewhere)
    # paths start in the current folder, beside the spec in that of the spec
    assert databases_in(elsewhere) == {"at0.duckdb", "at1.duckdb", "at2.duckdb"}
    assert databases_in(folder) == {"at3.duckdb"}
    for profiles in (str(home / ".dbt"), str(home / ".dbt" / "profiles.yml")):
        line = ["check", str(folder / "files.yml"), "--profiles", profiles]
        assert "target only of" in sqlmetrics(*line, folder=elsewhere).stderr


STRANGER = """\
outputs:
  evil:
    type: duckdb
    path: shop.duckdb
    extensions: [evil]
    config_options: {allow_unsigned_extensions: 'true', extension_directory: stranger}
    attach: [{path: "{{ env_var('AWS_SECRET_ACCESS_KEY') }}"}]
  lost: {type: duckdb, path: shop.duckdb, attach: [{path: nowhere.duckdb}]}
  far: {type: postgres, host: nowhere.invalid, user: "{{ env_var('AWS_SECRET_ACCESS_KEY') }}"}
"""


def test_a_profile_beside_a_strangers_spec_wants_consent(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No word of it is obeyed, nor is another profile taken instead; see docs/security.md."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    user = tmp_path / "user"
    (user / "links").mkdir(parents=True)
    (user / "links" / "fork").symlink_to(folder)
    (home / ".dbt" / "profiles.yml").write_text(DBT)
    (folder / "profiles.yml").write_text(STRANGER)
    fill(folder / "shop.duckdb")
    for verb, *options in (
        *(["validate"], ["show"], ["run"], ["check"], ["verify"], ["compile"], ["export", "dbt"]),
        *(["validate", "--target", "evil"], ["run", "--target", "far"]),
    ):
        for spec in (folder / "tables.yml", user / "links" / "fork" / "tables.yml"):
            line = (
                [verb, *options[:1], str(spec)] if verb == "export" else [verb, str(spec), *options]
            )
            message = sqlmetrics(*line, folder=user, expect=2).stderr
            assert f"{spec.parent / 'profiles.yml'} is not used: its folder is neither" in message
            assert f"--profiles {spec.parent / 'profiles.yml'}" in message
            assert f"SQLMETRICS_TRUSTED={folder}" in message
    # what does not ask for a profile needs no consent
    spec = str(folder / "tables.yml")
    sqlmetrics("validate", spec, "--db", str(folder / "shop.duckdb"), folder=user)
    sqlmetrics("compile", spec, "--dialect", "sqlite", folder=user)
    sqlmetrics("show", str(folder / "files.yml"), folder=user)
    # who consents is obeyed: it then fails for what the profile says
    for line, trusted in (
        ([spec], f"/nowhere{os.pathsep}{folder.parent}"),
        ([str(user / "links" / "fork" / "tables.yml")], str(folder)),
        ([spec, "--profiles", str(folder / "profiles.yml")], ""),
    ):
        monkeypatch.setenv("SQLMETRICS_TRUSTED", trusted)
        message = sqlmetrics("validate", *line, "--target", "lost", folder=user, expect=2).stderr
        assert "there is no database file" in message
    # a link to one's own profile does not make a stranger's folder one's own
    monkeypatch.setenv("SQLMETRICS_TRUSTED", str(user))
    (folder / "profiles.yml").unlink()
    (folder / "profiles.yml").symlink_to(home / ".dbt" / "profiles.yml")
    completed = sqlmetrics("validate", str(user / "links/fork/tables.yml"), folder=user, expect=2)
    assert "is not used" in completed.stderr
    # the folder that one stands in is one's own, by whichever name
    (folder / "profiles.yml").unlink()
    (folder / "profiles.yml").write_text("outputs: {a: {type: duckdb, path: shop.duckdb}}")
    sqlmetrics("validate", str(user / "links/fork/tables.yml"), folder=folder)


def test_names_of_outputs(folder: Path) -> None:
    """A name that one output has is enough; one that several have is refused."""
    (folder / "profiles.yml").write_text(DBT)
    for name, expected in (
        ("lite", "sqlite"),
        ("pg", "postgres"),
        ("web.pg", "postgres"),
        ("shop", "duckdb"),
        ("web.dev", "duckdb"),
    ):
        text = sqlmetrics("compile", "tables.yml", "--target", name, folder=folder).stdout
        assert text.startswith(f"-- {DIALECTS[expected].title}:") == (expected != "duckdb")
    for line, message in (
        (["--target", "dev"], "several profiles have the output 'dev'; give shop.dev, web.dev"),
        (["--target", "prod"], "unknown output 'prod'"),
        ([], "has several profiles; choose by --target: shop.dev, shop.lite, web.dev, web.pg"),
        (["--target", "x", "--profiles", "no.yml"], "cannot read no.yml"),
    ):
        assert message in sqlmetrics("run", "files.yml", *line, folder=folder, expect=2).stderr
    completed = sqlmetrics(
        "run", "files.yml", "--connection", "a:s3cr3t@b", folder=folder, expect=2
    )
    assert "s3cr3t" not in completed.stderr
    for text, message in (
        ("target: dve\noutputs: {dev: {type: duckdb, path: a}}", "did you mean 'dev'?"),
        ("outputs: {a: {type: duckdb}, b: {type: duckdb}}", "names no target; choose by --target"),
        ("shop: {target: dev}", "it has no outputs"),
        ("outputs: {a: 3}", "the output 'a' must be a mapping"),
    ):
        (folder / "profiles.yml").write_text(text)
        assert message in sqlmetrics("run", "files.yml", folder=folder, expect=2).stderr
    (folder / "profiles.yml").unlink()
    stderr = sqlmetrics("run", "files.yml", "--target", "dev", folder=folder, expect=2).stderr
    assert "--target dev: there is no profiles.yml beside the spec, here, in DBT_PROFILES" in stderr
    stderr = sqlmetrics("run", "files.yml", "--target", "a.duckdb", folder=folder, expect=2).stderr
    assert "give a DuckDB file with --db" in stderr
    assert not databases_in(folder)


@by_turns(0.6)
def test_dbt_s_profile_of_duckdb(folder: Path) -> None:
    """Its file, schema, settings, extensions and attached files; a run makes the schema."""
    (folder / "profiles.yml").write_text(DBT)
    fill(folder / "shop.duckdb")
    fill(folder / "web.duckdb")
    sqlmetrics("run", "tables.yml", "--target", "shop", folder=folder)
    assert rows(folder / "shop.duckdb", "main.metrics") == 2
    stderr = sqlmetrics("check", "tables.yml", "--target", "web", folder=folder, expect=2).stderr
    assert "the schema 'marts' does not exist in duckdb:///web.duckdb; known: main" in stderr
    sqlmetrics("run", "files.yml", "--target", "web", folder=folder)
    assert rows(folder / "web.duckdb", "marts.metrics") == 2
    sqlmetrics("check", "files.yml", "--target", "web", folder=folder)
    profile = """\
    outputs:
      dev:
        type: duckdb
        path: "{{ env_var('WAREHOUSE', 'web.duckdb') }}"
        extensions: [json, {name: parquet, repo: core}]
        settings: {memory_limit: 1GB}
        config_options: {threads: 1}
        attach: [{path: shop.duckdb, alias: other, read_only: true}]
        secrets: []
    """
    (folder / "profiles.yml").write_text(profile)
    joined = TABLES.replace("relation: runs", "relation: other.main.runs")
    (folder / "joined.yml").write_text(joined)
    sqlmetrics("validate", "joined.yml", folder=folder)
    with chdir(folder), open_driver(profiles="profiles.yml") as engine:
        ((limit, threads),) = engine.rows(
            "select current_setting('memory_limit'), current_setting('threads')"
        )
        assert (limit, threads) == ("953.6 MiB", 1)
    for wrong, message in (
        ("attach: [{path: shpo.duckdb}]", "there is no database file 'shpo.duckdb'; did you mean"),
        ("attach: {path: shop.duckdb}", "attach of a DuckDB profile must be a list"),
        ("settings: {'x; drop': 1}", "which is not the name of a setting"),
        ("treads: 4", "cannot open 'web.duckdb'"),
    ):
        (folder / "profiles.yml").write_text(
            f"outputs: {{dev: {{type: duckdb, path: web.duckdb, {wrong}}}}}"
        )
        code = 3 if message.startswith("cannot open") else 2
        stderr = sqlmetrics("validate", "tables.yml", folder=folder, expect=code).stderr
        assert message in stderr
    assert databases_in(folder) == {"shop.duckdb", "web.duckdb"}


# -- nothing new is opened ----------------------------------------------------------------

READING = (
    ["validate", "tables.yml"],
    ["verify", "tables.yml"],
    ["check", "tables.yml"],
    ["evaluate", "runs", "truth", "-m", "mrr"],
    ["evaluate", "runs.csv", "truth.csv", "-m", "mrr"],
    ["reconcile", "runs", "truth", "-m", "mrr", "--value", "0.75"],
    ["sheet", "tables.yml"],
    ["sample", "tables.yml", "--size", "2"],
    ["clicks", "clicks.yml"],
    ["doctor"],
    ["compile", "tables.yml", "--plan", "fastest"],
    ["run", "tables.yml"],
)
"""Commands that need a database that is there."""

TYPOS = (
    ["--db", "shpo.duckdb"],
    ["--connection", "duckdb:///shpo.duckdb"],
    ["--connection", "shpo.duckdb"],
    ["--connection", "sqlite:///shpo.db"],
    ["--target", "typo"],
)


@by_turns(0.2)
def test_a_file_that_is_not_there_is_refused(folder: Path) -> None:
    (folder / "profiles.yml").write_text("outputs: {typo: {type: duckdb, path: shpo.duckdb}}")
    (folder / "clicks.yml").write_text(
        "clicks: {log: {relation: shown}, labels: {grades: {click: 1}}}\nmetrics: [mrr]\n"
    )
    fill(folder / "shop.duckdb")
    for number, line in enumerate(READING):
        where = TYPOS[number % len(TYPOS)]
        if line[0] == "reconcile":
            where = TYPOS[0]
        stderr = sqlmetrics(*line, *where, folder=folder, expect=2).stderr
        assert "there is no database file 'shpo.d" in stderr, line
        assert "did you mean 'shop.duckdb'?" in stderr, line
        if line[0] == "run":
            assert "of it the spec reads rankings, labels (a file is read by file" in stderr
    with sqlite3.connect(folder / "lite.db") as connection:
        connection.execute("create table runs (query_id text)")
    for file, message in (
        ("no/x.db", "there is no folder 'no'"),
        ("lite.db", "'lite.db' is an SQLite database: --connection sqlite:///lite.db"),
    ):
        stderr = sqlmetrics("validate", "tables.yml", "--db", file, folder=folder, expect=2).stderr
        assert message in stderr
    (folder / "lite.db").unlink()
    for url in ("duckdb:///shpo.duckdb", "sqlite:///shpo.db", "chdb:///shpo"):
        with pytest.raises(sm.SpecError, match="there is no database file"):
            sm.evaluate({"q": ["a"]}, {"q": {"a": 1}}, ["mrr"], connection=url)
    assert databases_in(folder) == {"shop.duckdb"}


def test_a_data_file_is_no_database(folder: Path) -> None:
    with chdir(folder):
        duckdb.sql("copy (select 1 as a) to 'rank.parquet'")
        for name, content in (("l.csv", b"a,b\n1,2\n"), ("odd.duckdb", b"\0" * 9000)):
            Path(name).write_bytes(content)
        Path("x.json").write_text('{"a": 1}')
        Path("x.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    before = {file: (folder / file).read_bytes() for file in databases_in(folder)}
    for line, message in (
        (["run", "files.yml", "--db", "rank.parquet"], "Parquet, not a DuckDB database"),
        (["run", "tables.yml", "--db", "x.json"], "text, not a DuckDB database"),
        (["run", "files.yml", "--connection", "duckdb:///x.csv.gz"], "gzip, not a DuckDB database"),
        (["run", "files.yml", "--connection", "sqlite:///l.csv"], "text, not an SQLite database"),
        (["install", "l.csv"], "text, not a DuckDB database"),
        (["evaluate", "runs", "truth", "-m", "mrr", "--db", "l.csv"], "text, not a DuckDB"),
        (["run", "files.yml", "--db", "odd.duckdb"], "another kind, not a DuckDB database"),
        (["run", "files.yml", "--target", "data"], "text, not a DuckDB database"),
        (["validate", "files.yml", "--target", "more"], "Parquet, not a DuckDB database"),
    ):
        (folder / "profiles.yml").write_text(
            "outputs:\n  data: {type: duckdb, path: l.csv}\n"
            "  more: {type: duckdb, attach: [{path: rank.parquet}]}\n"
        )
        assert message in sqlmetrics(*line, folder=folder, expect=2).stderr, line
    assert {file: (folder / file).read_bytes() for file in before} == before
    with chdir(folder), pytest.raises(sm.SpecError, match="not a DuckDB database"):
        sm.run("files.yml", connection="duckdb:///l.csv")


@by_turns(1.3)
def test_an_empty_database_file_is_taken_over_and_half_a_one_is_told(folder: Path) -> None:
    (folder / "new.duckdb").touch()
    (folder / "new.db").touch()
    read = ["evaluate", "runs.csv", "truth.csv", "-m", "mrr", "--db", "new.duckdb"]
    assert "is empty (0 bytes)" in sqlmetrics(*read, folder=folder, expect=3).stderr
    for where in (["--db", "new.duckdb"], ["--connection", "sqlite:///new.db"]):
        message = sqlmetrics("run", "files.yml", *where, folder=folder).stderr
        assert "new database in new.d" in message
        sqlmetrics("check", "files.yml", *where, folder=folder)
    full = (folder / "new.duckdb").read_bytes()
    for size in (12, 4096, len(full) // 2):
        (folder / "cut.duckdb").write_bytes(full[:size])
        message = sqlmetrics(
            "run", "files.yml", "--db", "cut.duckdb", folder=folder, expect=3
        ).stderr
        assert "the file ends too early" in message
    (folder / "new.duckdb").write_bytes(b"")
    with duckdb.connect(str(folder / "held.duckdb")):
        os.truncate(folder / "held.duckdb", 0)
        held = "from sqlmetrics.engines.database_file import fill_empty; fill_empty('held.duckdb')"
        completed = subprocess.run(
            [sys.executable, "-c", held], cwd=folder, capture_output=True, text=True, check=False
        )
    assert "another process has it open" in completed.stderr


@by_turns(0.9)
def test_a_run_makes_a_file_only_where_nothing_is_read_from_it(folder: Path) -> None:
    for where in (["--db", "a.duckdb"], ["--connection", "duckdb:///b.duckdb"]):
        assert "new database" in sqlmetrics("run", "files.yml", *where, folder=folder).stderr
    (folder / "query.yml").write_text(TABLES.replace("relation: runs", "sql: from runs"))
    sqlmetrics("run", "query.yml", "--db", "c.duckdb", folder=folder, expect=2)
    read = FILES.replace("file: runs.csv", "sql: from 'runs.csv'")
    (folder / "query.yml").write_text(read.replace("file: truth.csv", "sql: from 'truth.csv'"))
    sqlmetrics("run", "query.yml", "--db", "d.duckdb", folder=folder)
    publish = ["--publish", "sqlite:///e.db"]
    message = sqlmetrics("run", "files.yml", "--db", "a.duckdb", *publish, folder=folder).stderr
    assert "new database" not in message
    sqlmetrics("install", "f.duckdb", folder=folder)
    assert databases_in(folder) == {"a.duckdb", "b.duckdb", "d.duckdb", "e.db", "f.duckdb"}


# -- the same options everywhere ----------------------------------------------------------


def test_every_verb_that_opens_a_database_has_the_same_options() -> None:
    where = {"--db", "--connection", "--target", "--profiles"}
    have = {
        name: where & {text for option in command.params for text in option.opts}
        for name, command in cli.commands.items()
    }
    without = {
        "sheet-import",
        "simulate",
        "explain",
        "list",
        "init",
        "demo",
        "gate",
        "metric",
        "track",
    }
    assert {name for name, options in have.items() if options != where} <= without
    assert not any(have[name] for name in without)


@by_turns(1.1)
def test_specs_on_files_need_no_place_and_do_not_open_the_target(folder: Path) -> None:
    (folder / "profiles.yml").write_text(PROFILES)
    for line in (["validate"], ["verify"], ["sheet"], ["compile"]):
        completed = sqlmetrics(*line, "files.yml", folder=folder)
        assert "target" not in completed.stderr
    assert not databases_in(folder)
    fill(folder / "out.duckdb")
    for line in (["validate"], ["verify"], ["sheet"], ["sample", "--size", "2"]):
        completed = sqlmetrics(line[0], "tables.yml", *line[1:], folder=folder)
        assert "target dev of profiles.yml\n" in completed.stderr
    for line in (["reconcile", "-m", "mrr", "--value", "0.75"], ["evaluate", "-m", "mrr"]):
        verb, *options = line
        where = ["--target", "dev"]
        sqlmetrics(verb, "runs", "truth", *options, *where, folder=folder)
    where = ["runs", "truth", "-m", "mrr", "--value", "0.75", "--target", "lite"]
    message = sqlmetrics("reconcile", *where, folder=folder, expect=2).stderr
    assert "reconcile works in DuckDB alone, given sqlite:///out.db" in message


@by_turns(1.9)
@pytest.mark.parametrize("name", ["sqlite", *LIVE[2:]])
def test_an_engine_of_sqlalchemy(name: str, tmp_path: Path, servers: Any) -> None:
    alchemy = peer("sqlalchemy")
    url = servers.connection(name) if name == "postgres" else f"sqlite:///{tmp_path / 'shop.db'}"
    engine = alchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    spec = sm.Spec(
        rankings={"relation": "listed"},
        labels={"relation": "graded"},
        metrics="mrr",
        output={"relation": "written", "views": False},
    )
    try:
        with engine.begin() as connection:
            for number, (table, column) in enumerate(
                {"listed": "score", "graded": "grade"}.items()
            ):
                columns = f"query_id varchar(9), item_id varchar(9), {column} double precision"
                connection.exec_driver_sql(f"create table {table} ({columns})")
                rows = "('q', 'a', 2), " * (not number) + "('q', 'b', 1)"
                connection.exec_driver_sql(f"insert into {table} values {rows}")
        assert sm.evaluate("listed", {"q": {"b": 1}}, "mrr", connection=engine)["mrr"] == 0.5
        with sm.connect(engine) as database:
            assert sm.evaluate("listed", "graded", "mrr", connection=database)["mrr"] == 0.5
        with engine.connect() as connection:  # whose transaction stays the user's
            connection.exec_driver_sql("insert into graded values ('q', 'a', 1)")
            assert sm.evaluate("listed", "graded", "mrr", connection=connection)["mrr"] == 1
            connection.rollback()
            assert sm.evaluate("listed", "graded", "mrr", connection=connection)["mrr"] == 0.5
        sm.run(spec, engine)
        with engine.connect() as connection:
            value = connection.exec_driver_sql("select value from written").scalar()
        assert (value, engine.pool.checkedout()) == (0.5, 0)
    finally:
        with engine.begin() as connection:
            for table in ("listed", "graded", "written", "written_runs"):
                connection.exec_driver_sql(f"drop table if exists {table}")
        engine.dispose()


def test_sqlalchemy_over_another_driver(folder: Path) -> None:
    def below(url: str, name: str) -> Any:
        parts = {"set": lambda **_: sqlalchemy.url, "get_backend_name": lambda: ""}
        parts["render_as_string"] = lambda **_: url
        sqlalchemy = type(name, (), {"__module__": "sqlalchemy.engine.base"})()
        sqlalchemy.url, sqlalchemy.engine = SimpleNamespace(**parts), sqlalchemy
        pooled = SimpleNamespace(driver_connection=object(), close=lambda: closed.append(url))
        sqlalchemy.connection = pooled
        if name == "Engine":
            sqlalchemy.raw_connection = lambda: pooled
        return sqlalchemy

    closed: list[str] = []
    url = f"duckdb:///{folder / 'w.duckdb'}"
    fill(folder / "w.duckdb")
    with sm.connect(below(url, "Engine")) as database:
        assert database.rows("select 1 from runs")
    assert closed == [url]
    with pytest.raises(SpecError, match="is in memory, so no other connection can reach it"):
        sm.connect(below("duckdb:///:memory:", "Engine"))
    with pytest.raises(SpecError, match="uses builtins, which is unknown here; give its engine"):
        sm.connect(below(url, "Connection"))


# -- on every engine ----------------------------------------------------------------------


@by_turns(1)
@pytest.mark.parametrize("name", LIVE)
def test_verify_takes_the_same_sample_everywhere(name: str, servers: Any) -> None:
    keys = [f"q{number}é" if number % 3 else str(number) for number in range(60)]
    ids = pa.array([key for key in keys for _ in range(3)])
    items = pa.array([f"i{item}" for _ in keys for item in range(3)])
    numbers = pa.array([float(item) for _ in keys for item in range(3)])
    columns = {"query": "Query ID"}
    spec = sm.Spec(
        rankings={"relation": "shown", "where": "score < 9", "columns": columns},
        labels={"relation": "graded"},
        metrics=["mrr", "ndcg@3"],
    )
    with connect(servers.open(name)) as engine:
        engine.load("shown", pa.table({"Query ID": ids, "item_id": items, "score": numbers}))
        engine.load("graded", pa.table({"query_id": ids, "item_id": items, "grade": numbers}))
        try:
            part, queries = sampled(spec, engine, most=6)
            result, agreements = verify_spec(part, engine)
            full_spec, every = sampled(spec, engine)
        finally:
            engine.execute("drop table shown")
            engine.execute("drop table graded")
    assert (queries, every) == (6, 60)
    assert full_spec is spec
    assert max(agreement.largest for agreement in agreements) < 1e-12
    sampled_queries = sorted(result.per_query().column("query_id").to_pylist())
    assert sampled_queries == sorted(
        sorted(keys, key=lambda key: md5(key.encode()).hexdigest())[:6]
    )


EVIL = {
    "postgres": (
        "create function evil(x double precision) returns int language sql as $$ "
        "insert into written values (1); select 1 $$",
        *("nextval('counted') > 0", "lo_import('/etc/hostname') > 0", "evil(score) > 0"),
        "set_config('default_transaction_read_only', 'off', false) = 'off' and evil(score) > 0",
    ),
    "mariadb": (
        "create function evil(x double) returns int deterministic modifies sql data "
        "begin insert into written values (1); return 1; end",
        *("evil(score) > 0", "evil(3) = 1", "score > 0 or evil(1) = evil(2)"),
    ),
}
"""The statement that makes a function that writes, and conditions that would."""


@by_turns(8)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in EVIL]
)
def test_commands_that_read_change_nothing(folder: Path, name: str, servers: Any) -> None:
    """Whatever a condition calls; a file beside the tables is loaded all the same."""
    url = servers.connection(name)
    make, *conditions = EVIL[name]
    with connect(url) as engine:
        engine.load("runs", duckdb.sql(f"from '{folder}/runs.csv'").to_arrow_table())
        engine.load("truth", duckdb.sql(f"from '{folder}/truth.csv'").to_arrow_table())
        for sql in ("create table written (n int)", "create sequence counted", make):
            if name == "mariadb" and sql == make:
                engine.driver.execute("set global log_bin_trust_function_creators = 1")
            engine.driver.execute(sql)
    try:
        for labels in ("{relation: truth}", "{file: truth.csv}"):
            for condition in ("score > 0 or score < -1", *conditions):
                where = f"{{relation: runs, where: {json.dumps(condition)}}}"
                text = TABLES.replace("{relation: runs}", where)
                (folder / "spec.yml").write_text(text.replace("{relation: truth}", labels))
                code = 0 if condition.endswith("-1") else 3
                for verb in ("show", "verify", "sheet"):
                    completed = sqlmetrics(
                        verb, "spec.yml", "--connection", url, folder=folder, expect=code
                    )
                    assert ("this command only reads" in completed.stderr) == (code == 3)
        with connect(url) as engine:
            assert engine.rows("select count(*) from written") == [(0,)]
            assert engine.driver.rows(
                "select nextval('counted')" if name == "postgres" else "select nextval(counted)"
            ) == [(1,)]
    finally:
        with connect(url) as engine:
            drops = ("function evil", "sequence counted", "table written", "table runs")
            for drop in (*drops, "table truth"):
                engine.driver.execute(f"drop {drop}")


@by_turns(0.8)
@pytest.mark.parametrize("name", LIVE[1:])
def test_verify_and_a_dry_run_on_other_databases(folder: Path, name: str, servers: Any) -> None:
    file = folder / "shop.db"
    url = servers.connection(name) if name == "postgres" else f"sqlite:///{file}"
    client = _psql(url) if name == "postgres" else sqlite3.connect(file).executescript
    with connect(url, create=True) as engine:
        engine.load("runs", duckdb.sql(f"from '{folder}/runs.csv'").to_arrow_table())
        engine.load("truth", duckdb.sql(f"from '{folder}/truth.csv'").to_arrow_table())
    try:
        completed = sqlmetrics("verify", "tables.yml", "--connection", url, folder=folder)
        assert "2 queries compared with the reference: no number differs" in completed.stderr
        sqlmetrics("validate", "tables.yml", "--connection", url, folder=folder)
        fill(folder / "own.duckdb")
        (folder / "tables.yml").write_text(TABLES.replace("ndcg@10", "dcg@10"))
        for line in (["sheet"], ["sample", "--size", "2"], ["estimate", "drawn.csv"]):
            of_duckdb, of_database = (
                sqlmetrics(line[0], "tables.yml", *line[1:], *where, folder=folder).stdout
                for where in (["--db", "own.duckdb"], ["--connection", url])
            )
            assert of_duckdb == of_database
            (folder / "drawn.csv").write_text(of_duckdb)
        script = sqlmetrics("run", "tables.yml", "--dry-run", "--connection", url, folder=folder)
        with connect(url) as engine:
            assert engine.find("metrics") is None
        client(script.stdout)
        with connect(url) as engine:
            assert engine.rows("select count(*) as n from metrics") == [(2,)]
    finally:
        with connect(url) as engine:
            job_tables = ("metrics", "metrics_runs", "metrics_metrics", "metrics_definitions")
            for table in ("runs", "truth", *job_tables):
                engine.execute(f"drop table if exists {table}")


@pytest.mark.parametrize("name", first(3, ["mysql", "clickhouse", "bigquery", *DIALECTS]))
def test_a_dry_run_in_every_dialect(folder: Path, name: str) -> None:
    spec, at = sm.Spec.read(folder / "tables.yml"), Translation(DIALECTS[name])
    day = days_of(spec, Days(start=date(2026, 1, 1)))
    now = at.expression(at.dialect.times.now, "0")
    text = str(job_text(spec, at, day, "'dry run'", now))
    assert text.count(f"{at.dialect.times.now} as computed_at") == 1
    assert "sqlmetrics_yours" not in text


@pytest.mark.parametrize(
    "engine_info", first(2, reversed(ENGINES)), ids=lambda engine_info: engine_info.engine
)
def test_a_dry_run_asks_for_no_driver(folder: Path, engine_info: EngineInfo) -> None:
    line = ["run", "tables.yml", "--dry-run", "--connection", engine_info.sample]
    text = sqlmetrics(*line, folder=folder).stdout
    assert DIALECTS[dialect_of(engine_info.schemes[0])].times.now in text
    assert not databases_in(folder)


@pytest.mark.parametrize("kind", ["lists", "a click log"])
def test_a_dry_run_of_files_elsewhere_says_what_to_do(folder: Path, kind: str) -> None:
    """A run loads them; its text cannot."""
    log = "clicks: {log: {file: runs.csv, columns: {actions: {}}}}\nmetrics: [mrr]\n"
    if kind == "a click log":
        (folder / "files.yml").write_text(f"{log}output: {{relation: metrics}}\n")
    line = ["run", "files.yml", "--dry-run", "--connection", "sqlite://"]
    message = sqlmetrics(*line, folder=folder, expect=2).stderr
    assert (
        "SQLite cannot read files; load the file into a table and name it as the relation"
        in message
    )


# -- what is said -------------------------------------------------------------------------


def test_verify_says_what_differs(folder: Path) -> None:
    line = ["verify", "files.yml", "--tolerance", "-1"]
    message = sqlmetrics(*line, folder=folder, expect=1).stderr
    assert "2 of 2 metrics differ by more than -1: mrr, ndcg@10" in message


def test_a_wrong_condition_is_blamed_and_not_the_file(folder: Path) -> None:
    line = ["evaluate", "runs.csv", "truth.csv", "-m", "mrr", "--where"]
    with connect(f"sqlite:///{folder}/shop.db", create=True) as engine:
        engine.load("runs", duckdb.sql(f"from '{folder}/runs.csv'").to_arrow_table())
        engine.load("truth", duckdb.sql(f"from '{folder}/truth.csv'").to_arrow_table())
    tables = ["evaluate", "runs", "truth", "--connection", "sqlite:///shop.db", *line[3:]]
    for arguments in (line, tables):
        message = sqlmetrics(*arguments, "scoer <= 10", folder=folder, expect=2).stderr
        assert (
            "rankings: where 'scoer <= 10': unknown column 'scoer'; did you mean 'score'?"
            in message
        )
        assert "runs.csv" not in message
    for verb in (["verify"], ["validate"], ["sheet"], ["sample", "--size", "2"]):
        (folder / "wrong.yml").write_text(FILES.replace("runs.csv", "runs.csv, where: scoer > 1"))
        message = sqlmetrics(verb[0], "wrong.yml", *verb[1:], folder=folder, expect=2).stderr
        assert "rankings: where 'scoer > 1': unknown column 'scoer'" in message
    log = "{log: {file: runs.csv, columns: {request: query_id, position: score, actions: {}}, %s}"
    for where, test in (("scoer > 1", "item_id = 'a'"), ("item_id = 'a'", "scoer > 1")):
        clicks = log % f'where: "{where}"' + f', cleaning: {{test: "{test}"}}}}'
        (folder / "clicks.yml").write_text(f"clicks: {clicks}\nmetrics: [mrr]\n")
        message = sqlmetrics("clicks", "clicks.yml", folder=folder, expect=2).stderr
        assert " 'scoer > 1': unknown column 'scoer'; did you mean 'score'?" in message
    message = sqlmetrics(*line, "nope(score) <= 10", folder=folder, expect=2).stderr
    assert "rankings: where 'nope(score) <= 10': " in message
    assert "nope does not exist" in message


def test_few_failed_statements_are_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(kept))
    for number in range(12):
        old = kept / f"sqlmetrics_failed_{number}.sql"
        old.touch()
        os.utime(old, (number, number))
    (kept / "sqlmetrics_mine.sql").touch()
    line = ["evaluate", "select error('boom') as query_id", "truth.csv", "-m", "mrr"]
    message = sqlmetrics(*line, "--skip-input-checks", folder=folder, expect=3).stderr
    assert Path(message.strip().rsplit("the SQL: ", 1)[1]).parent == kept
    names = {path.name for path in kept.iterdir()}
    assert len(names) == 11
    assert {"sqlmetrics_mine.sql", "sqlmetrics_failed_11.sql", "sqlmetrics_failed_3.sql"} <= names


def _psql(url: str) -> Any:
    import psycopg

    def run(text: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(text)

    return run
