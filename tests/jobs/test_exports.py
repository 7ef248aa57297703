"""Exports: each tool's files are the same bytes for the same spec, and follow the spec alone."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from command import sqlmetrics

import sqlmetrics as sm
from sqlmetrics.jobs.exports.formats import FORMATS

SPEC = {
    "name": "search",
    "rankings": {"relation": "rankings", "columns": {"system": "system", "date": "ds"}},
    "labels": {"relation": "labels"},
    "metrics": ["ndcg@10", "mrr"],
    "output": {"relation": "ranking_metrics"},
}
CELLS = [
    pytest.param(
        name,
        dialect,
        marks=[pytest.mark.long] * (dialect != "duckdb" and name in ("dbt", "sqlmesh")),
    )
    for name, export_format in FORMATS.items()
    for dialect in export_format.dialects
]
"""Tool and dialect; what is translated at length is one more export of the same."""


def exported(name: str, dialect: str, folder: Path, **changed: object) -> dict[str, bytes]:
    """The files of an export: path -> bytes."""
    files = sm.export(sm.Spec(**(SPEC | changed)), name, folder, dialect=dialect)
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize(("name", "dialect"), CELLS)
def test_a_metric_more_is_in_the_files_with_no_other_edit(
    name: str, dialect: str, tmp_path: Path
) -> None:
    first = exported(name, dialect, tmp_path / "a")
    assert first == exported(name, dialect, tmp_path / "b"), "the same spec, the same bytes"
    assert all(b"sqlmetrics export" in content for content in first.values())
    ends = {path for path, content in first.items() if content.rstrip() + b"\n" != content}
    assert not ends, "a text ends with one line feed"
    extended = exported(name, dialect, tmp_path / "a", metrics=[*SPEC["metrics"], "recall@7"])
    assert not any(b"recall_at_7" in content for content in first.values())
    assert any(b"recall_at_7" in content for content in extended.values())


@pytest.mark.parametrize(
    "name", [name for name, export_format in FORMATS.items() if not export_format.executed]
)
def test_files_say_that_no_test_ran_them(name: str, tmp_path: Path) -> None:
    files = exported(name, FORMATS[name].dialects[0], tmp_path)
    assert all(b"not run" in content for content in files.values())


def test_files_of_others_stay_unless_they_may_go(tmp_path: Path) -> None:
    file = tmp_path / "ranking_metrics.malloy"
    file.write_text("mine")
    with pytest.raises(sm.SpecError, match="not written by this command; give another name"):
        exported("malloy", "duckdb", tmp_path)
    assert file.read_text() == "mine"
    sm.export(sm.Spec(**SPEC), "malloy", tmp_path, force=True)
    assert file.read_text().startswith("// made by: sqlmetrics export")


def test_a_zip_is_the_same_bytes(tmp_path: Path) -> None:
    first, second = (sm.export(sm.Spec(**SPEC), "malloy", tmp_path / f"{n}.zip")[0] for n in (1, 2))
    assert first.read_bytes() == second.read_bytes()
    assert zipfile.ZipFile(first).namelist() == ["ranking_metrics.malloy"]


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    spec = sm.Spec(**SPEC)
    with pytest.raises(sm.SpecError, match=r"unknown export 'maloy'; did you mean 'malloy'\?"):
        sm.export(spec, "maloy", tmp_path)
    with pytest.raises(sm.SpecError, match="--colour is not an option of export malloy"):
        sm.export(spec, "malloy", tmp_path, colour="red")
    with pytest.raises(sm.SpecError, match="unknown dialect of malloy 'sqlite'"):
        sm.export(spec, "malloy", tmp_path, dialect="sqlite")
    completed = sqlmetrics("export", "dbtt", "none.yml", folder=tmp_path, expect=2)
    assert "unknown export 'dbtt'" in completed.stderr
