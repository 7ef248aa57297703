"""No output tells a secret: errors, --debug, SQL that failed, summaries, events, the run log."""

from __future__ import annotations

import io
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest
from marked import by_turns

from sqlmetrics.cli import main

SPEC = """\
rankings: {relation: runs, where: "score > 0"}
labels: {relation: truth}
metrics: [mrr]
output: {relation: metrics, views: false}
"""
PROFILES = """\
outputs:
  attached:
    {type: duckdb, path: shop.duckdb, attach: [{path: o.duckdb, encryption_key: "it's s3cr3t"}]}
  settings: {type: duckdb, path: shop.duckdb, settings: {s3_secret_access_key: "it's s3cr3t"}}
  config: {type: duckdb, path: shop.duckdb, config_options: {api_token: "it's s3cr3t"}}
  wrong: {type: duckdb, path: shop.duckdb, attach: "postgresql://a:it%27s%20s3cr3t@h/d"}
  server: {type: postgres, host: 127.0.0.1, port: 1, user: a, pass: "{{ env_var('DB_PASSWORD') }}"}
  unset: {type: postgres, host: "{{ env_var('DB_PASSWORD') }}", user: "{{ env_var('NOT_SET') }}"}
"""
LEAKS = (
    (3, "--target", "attached"),
    (3, "--target", "settings"),
    (3, "--target", "config"),
    (2, "--target", "wrong"),
    (3, "--target", "server"),
    (2, "--target", "unset"),
    (2, "--target", "postgres:ann:s3cr3t@h"),
    (2, "--connection", "host=127.0.0.1 port=1 user=ann password='it\\'s s3cr3t' dbname=x"),
    (2, "--connection", 'dbname=x password="my s3cr3t"'),
    (3, "--connection", "postgresql://ann:it%27s%20s3cr3t@127.0.0.1:1/db"),
    (3, "--connection", "postgresql://ann@127.0.0.1:1/db?sslpassword=s3cr3t&bad=1"),
    (2, "--db", "no/folder/password=s3cr3t.duckdb"),
    (2, "password=s3cr3t"),
)
"""The exit code, and what has a secret in it."""


def failed(line: list[str], code: int) -> str:
    """All that a command prints that fails with a code."""
    out, err = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["sqlmetrics", *line]),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert stop.value.code == code, (line, err.getvalue())
    return out.getvalue() + err.getvalue()


@by_turns(4.4)
def test_no_output_tells_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("DB_PASSWORD", "it's s3cr3t")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("spec.yml").write_text(SPEC)
    Path("profiles.yml").write_text(PROFILES)
    for name in ("shop", "o"):
        with duckdb.connect(f"{name}.duckdb") as connection:
            connection.execute("create table runs as select 'q' query_id, 'a' item_id, 'x' score")
            connection.execute("create table truth as select 'q' query_id, 'a' item_id, 1 grade")
    outputs = ["--out", "told.json", "--openlineage", "events.jsonl"]
    for code, *where in LEAKS:
        for options in (["--debug"], outputs, ["--errors", "json"]):
            line = ["run", "spec.yml", *where, *options]
            assert "s3cr3t" not in failed(line, code), line
    # what fails within a run stands in the run log
    Path("profiles.yml").write_text(
        'outputs: {a: {type: duckdb, path: shop.duckdb, secrets: [{secret: "it\'s s3cr3t"}]}}'
    )
    Path("spec.yml").write_text(SPEC.replace("score > 0", "score > 'it''s s3cr3t' and no_column"))
    assert "***" in failed(["run", "spec.yml", *outputs], 2)
    with duckdb.connect("shop.duckdb", read_only=True) as connection:
        logged = str(connection.execute("from metrics_runs").fetchall())
    assert "failed" in logged
    assert "s3cr3t" not in logged
    files = [path for path in tmp_path.rglob("*.*") if path.suffix in (".json", ".jsonl", ".sql")]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".sql"}
    assert not [path for path in files if "s3cr3t" in path.read_text()]
