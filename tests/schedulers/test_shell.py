"""The line of the crontab and the steps of GitHub's workflow, in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from night_shop import EXAMPLES, days, make, rows_by_day

TODAY = datetime.now(UTC).date()


def shell(script: str, folder: Path, expect: int = 0, **variables: str) -> str:
    """What a script prints, run as the scheduler runs it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    completed = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        check=False,
        cwd=folder,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
    )
    assert completed.returncode == expect, completed.stderr
    return completed.stdout + completed.stderr


@pytest.mark.long
def test_the_line_of_cron_fills_what_is_missing(tmp_path: Path) -> None:
    make(tmp_path)
    (line,) = [
        line for line in (EXAMPLES / "crontab").read_text().splitlines() if line[:1].isdigit()
    ]
    command = line.split(maxsplit=5)[5]
    assert "%" not in command.replace("\\%", "")
    command = command.replace("\\%", "%").replace("/srv/search", str(tmp_path))
    assert shell(command, tmp_path) == ""  # or cron would send a mail
    assert rows_by_day(tmp_path) == days(0, 6)
    assert shell(command, tmp_path) == ""


@pytest.mark.long
def test_the_steps_of_github_take_three_days(tmp_path: Path) -> None:
    make(tmp_path, TODAY - timedelta(5), 6)
    workflow = yaml.safe_load((EXAMPLES / "github_actions.yml").read_text())
    job = workflow["jobs"]["metrics"]
    variables = {
        name: value.partition("'")[2].partition("'")[0] for name, value in job["env"].items()
    }
    assert (variables["START"], variables["END"]) == ("-3 days", "today")
    usual = workflow[True]["workflow_dispatch"]["inputs"]  # YAML takes `on` for true
    assert [usual[name]["default"] for name in ("start", "end")] == ["-3 days", "today"]
    steps = {step["name"]: step["run"] for step in job["steps"] if "name" in step}
    for script in steps.values():
        shell(script, tmp_path, **variables)
    assert rows_by_day(tmp_path) == {TODAY - timedelta(back): 4 for back in (3, 2, 1)}
    assert (tmp_path / "summary.json").exists()
    assert (tmp_path / "checks.xml").exists()
    late = {"START": "2020-01-01", "END": "2020-01-02"}
    assert "the table has no rows" in shell(steps["run"], tmp_path, expect=4, **late)
