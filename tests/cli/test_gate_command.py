"""`sqlmetrics gate` and the action: a branch beside its base, as a runner of GitHub starts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from command import sqlmetrics
from documentation import ROOT
from marked import by_turns

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SPEC = """
name: search
rankings: {relation: runs}
labels: {relation: qrels}
metrics: ndcg@10
"""
BUILD = "python build.py"
"""Writes run.txt: `better` of 1 puts the relevant item first, of -1 last, of 0 by lot."""

SCRIPT = """
import random
better, seed = {better}, {seed}
chance = random.Random(seed)
with open("run.txt", "w") as file:
    for query in range(60):
        place = {{1: 1, -1: 4}}.get(better) or chance.randint(1, 4)
        for rank in range(1, 5):
            item = "right" if rank == place else f"wrong{{rank}}"
            print(f"q{{query:02}} Q0 {{item}} {{rank}} {{9 - rank}} tag", file=file)
"""


def git(folder: Path, *arguments: str) -> str:
    line = ["git", "-c", "user.name=A", "-c", "user.email=a@b.example", *arguments]
    return subprocess.run(line, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a branch `main`, from which others are made."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "qrels.txt").write_text("".join(f"q{q:02} 0 right 1\n" for q in range(60)))
    (folder / "build.py").write_text(SCRIPT.format(better=0, seed=1))
    (folder / "search.yml").write_text(SPEC)
    (folder / ".gitignore").write_text("run.txt\n")
    commit(folder, "base")
    return folder


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)


def branch(folder: Path, name: str, script: str) -> None:
    """A branch that differs by its script."""
    git(folder, "checkout", "--quiet", "-b", name, "main~0")
    (folder / "build.py").write_text(script)
    commit(folder, name)


class Comments(ThreadingHTTPServer):
    """What GitHub or GitLab has: comments by their ids; requests are noted."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments = {
            number: {"id": number, "body": f"number {number}"} for number in range(1, 102)
        }
        self.requests: list[tuple[str, str, str | None]] = []
        self.code = 200


class Handler(BaseHTTPRequestHandler):
    """Lists, adds and changes comments, as both platforms do."""

    server: Comments

    def answer(self) -> None:
        """Note the request, and do what it asks."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN")
        self.server.requests.append((self.command, self.path, token))
        response: Any = {}
        if self.command == "GET":
            page = int(re.search(r"&page=(\d+)", self.path)[1])
            response = [*self.server.comments.values()][100 * (page - 1) : 100 * page]
        elif self.server.code == 200:
            number = int(self.path.rsplit("/", 1)[1]) if self.command != "POST" else 500
            self.server.comments[number] = {"id": number, **body}
        self.send_response(self.server.code if self.command != "GET" else 200)
        self.end_headers()
        self.wfile.write(json.dumps(response).encode())

    do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815 # http.server's names

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def platform() -> Iterator[Comments]:
    with Comments() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def action(folder: Path, server: Comments, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the last step of the action in a shell, as a runner does."""
    event = folder.parent / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    values = {name: str(value["default"]) for name, value in ACTION["inputs"].items()} | inputs
    values["token"] = "t0ken-of-the-job"
    step = ACTION["runs"]["steps"][-1]
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], str(value))
        for name, value in step["env"].items()
    }
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}",
        "GITHUB_REPOSITORY": "shop/search",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(folder.parent / "summary.md"),
        "RUNNER_TEMP": str(folder.parent / "temp"),
        **variables,
    }
    installed = folder.parent / "temp" / "sqlmetrics"  # what the step before makes
    installed.mkdir(parents=True, exist_ok=True)
    if not (installed / "bin").exists():
        (installed / "bin").symlink_to(Path(sys.executable).parent)
    line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@by_turns(12)
def test_the_action_on_four_branches(repository: Path) -> None:
    """The expected verdicts are those of the scripts: always first, always last, by lot, broken."""
    branches = {
        "better": (SCRIPT.format(better=1, seed=1), 0, "✅ retrieval: better than main"),
        "worse": (SCRIPT.format(better=-1, seed=1), 1, "❌ retrieval: worse than main"),
        "unclear": (
            SCRIPT.format(better=0, seed=2),
            0,
            "✅ retrieval: no real difference from main",
        ),
        "broken": ("raise SystemExit('no index <here> @team')", 2, "❌ retrieval: no numbers"),
    }
    with platform() as server:
        for number, (name, (script, code, headline)) in enumerate(branches.items()):
            branch(repository, name, script)
            completed = action(
                repository,
                server,
                rankings="run.txt",
                labels="qrels.txt",
                build=BUILD,
                metrics="mrr, ndcg@10",
                specs="search.yml",
                options="--movers 1 -c 'gain=linear'",
            )
            assert completed.returncode == code, completed.stderr
            git(repository, "checkout", "--quiet", "main")
            writes = [request for request in server.requests if request[0] != "GET"]
            assert writes[-1][0] == ("PATCH" if number else "POST"), "one comment, updated in place"
            assert writes[-1][2] == "Bearer t0ken-of-the-job"
            text = server.comments[500]["body"]
            assert headline in text
            assert "t0ken" not in completed.stdout + completed.stderr
            assert "`search.yml`: the same SQL." in text
        assert "no index <here> @\u200bteam" in text, "in a fence, where nobody is mentioned"
        assert len(server.comments) == 102
        summary = (repository.parent / "summary.md").read_text(encoding="utf-8")
        assert all(headline in summary for _, _, headline in branches.values())
        assert git(repository, "worktree", "list").count("\n") == 1, "nothing is left behind"
        broken = action(repository, server, rankings="run.txt", options="--where 'x")
        assert broken.returncode == 1, "a quote that is left open"
        assert "unmatched single quote" in broken.stderr
        server.code = 403
        git(repository, "checkout", "--quiet", "better")
        completed = action(repository, server, rankings="run.txt", labels="qrels.txt", build=BUILD)
        assert completed.returncode == 0
        assert "no comment was written: GitHub: it answers 403" in completed.stderr


@by_turns(0.9)
def test_specs_and_a_base_that_has_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_BASE_REF", "GITHUB_REPOSITORY", "CI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    git(repository, "checkout", "--quiet", "-b", "specs")
    (repository / "search.yml").write_text(SPEC.replace("ndcg@10", "ndcg@5"))
    (repository / "new.yml").write_text(SPEC)
    commit(repository, "specs")
    page = sqlmetrics("gate", "--spec", "search.yml", "--spec", "new.yml", folder=repository).stdout
    assert "✅ retrieval: the SQL of 2 of 2 specs changes" in page
    assert "\n-            case when rnk <= 10" in page
    assert "<summary><code>new.yml</code> is new: its SQL</summary>" in page
    (repository / "new.yml").write_text(SPEC + "metrics_: 1\n")
    line = ("gate", "--spec", "new.yml", "--spec", "search.yml", "--out", "gate.md")
    (repository / "search.yml").write_text(SPEC)
    completed = sqlmetrics(*line, folder=repository, expect=2)
    assert "unknown key 'metrics_'" in completed.stderr
    page = (repository / "gate.md").read_text(encoding="utf-8")
    assert "❌ retrieval: 1 of 2 specs cannot be read" in page
    subprocess.run([sys.executable, "build.py"], cwd=repository, check=True)
    git(repository, "add", "--force", "run.txt")
    line = ("gate", "run.txt", "qrels.txt", "-m", "mrr", "--title", "[a](b) <x>", "--comment")
    completed = sqlmetrics(*line, folder=repository)
    assert r"### ⚠️ \[a\](b) &lt;x&gt;: main has nothing to compare with" in completed.stdout
    assert "| mrr" in completed.stdout or "mrr |" in completed.stdout
    assert "no comment was written: this is not a job of GitHub or GitLab" in completed.stderr
    with platform() as server:
        monkeypatch.setenv("CI_PROJECT_ID", "3")
        monkeypatch.setenv("CI_MERGE_REQUEST_IID", "9")
        monkeypatch.setenv("CI_API_V4_URL", f"http://127.0.0.1:{server.server_port}/api/v4")
        monkeypatch.setenv("GITLAB_TOKEN", "glpat-12345678")
        for expected in ("POST", "PUT"):
            sqlmetrics(*line, folder=repository)
            assert server.requests[-1][0] == expected
            assert server.requests[-1][2] == "glpat-12345678"
        assert server.requests[-1][1] == "/api/v4/projects/3/merge_requests/9/notes/500"


def test_each_revision_has_its_own_files(repository: Path, tmp_path: Path) -> None:
    """Specs are read where their files are; nothing outside of the repository is both sides."""
    (repository / "metrics").mkdir()
    files = SPEC.replace("{relation: runs}", "{file: run.csv}").replace("relation: q", "file: ../q")
    (repository / "metrics" / "files.yml").write_text(files)
    (repository / "metrics" / "broken.yml").write_text("name: broken")
    commit(repository, "specs")
    git(repository, "checkout", "--quiet", "-b", "later")
    (repository / "metrics" / "broken.yml").write_text(SPEC)
    commit(repository, "mended")
    line = ("gate", "--spec", "metrics/files.yml", "--spec", "metrics/broken.yml")
    page = sqlmetrics(*line, folder=repository).stdout
    assert "`metrics/files.yml`: the same SQL." in page
    assert "<code>metrics/broken.yml</code> changes its SQL" in page
    page = sqlmetrics("gate", "--spec", "files.yml", folder=repository / "metrics").stdout
    assert "`files.yml`: the same SQL." in page
    page = sqlmetrics("gate", "--spec", str(repository / "search.yml"), folder=repository).stdout
    assert "`search.yml`: the same SQL." in page
    outside = tmp_path / "run.txt"
    outside.write_text("q0 Q0 right 1 9 tag\n")
    for path in (str(outside), "../run.txt"):
        line = ("gate", path, "qrels.txt", "-m", "mrr", "--build", "false")
        message = sqlmetrics(*line, folder=repository, expect=2).stderr
        assert "is not in the repository" in message
        assert outside.exists()
    (repository / "new").mkdir()  # which the base lacks
    line = (
        "gate",
        "run.txt",
        "select * from " + "x" * 300,
        "-m",
        "mrr",
        "--build",
        "touch run.txt",
    )
    message = sqlmetrics(*line, folder=repository / "new", expect=2).stderr
    assert "Traceback" not in message
    build = f"{sys.executable} ../build.py"
    line = ("gate", "run.txt", "../qrels.txt", "-m", "mrr", "--build", build)
    page = sqlmetrics(*line, folder=repository / "new").stdout
    assert "- main has no such folder to build in" in page


def build(folder: Path, **choice: int) -> None:
    """Write and add the run of a script."""
    script = folder.parent / "made.py"
    script.write_text(SCRIPT.format(**choice))
    subprocess.run([sys.executable, script], cwd=folder, check=True)
    git(folder, "add", "--force", "run.txt")


@by_turns(1.1)
def test_what_is_compared_and_what_is_not_held_against_a_branch(repository: Path) -> None:
    build(repository, better=0, seed=1)
    commit(repository, "runs")
    git(repository, "branch", "topic")
    build(repository, better=1, seed=1)
    commit(repository, "main goes on, and gets better")
    git(repository, "checkout", "--quiet", "topic")
    with (repository / "qrels.txt").open("a") as labels:
        labels.write("q00 0 wrong1 0\n")
    line = ("gate", "run.txt", "qrels.txt", "-m", "mrr", "--base", "main")
    page = sqlmetrics(*line, folder=repository).stdout
    assert "✅ retrieval: as good as main" in page, "beside the commit that they share"
    assert "- run.txt is the same file as in main" in page
    assert "- qrels.txt differs from that of main; both runs are measured with this one" in page
    build(repository, better=0, seed=2)
    page = sqlmetrics(*line, "--fail-on", "unclear", folder=repository, expect=1).stdout
    assert "❌ retrieval: not better than main" in page
    page = sqlmetrics(*line, "--margin", "0.5", folder=repository).stdout
    assert "✅ retrieval: as good as main" in page
    assert "could show" not in page, "no column is explained that is not there"
    # the base has no such script, and a run of its own
    (repository / "other.py").write_text(SCRIPT.format(better=-1, seed=1))
    line = (*line, "--build", f"{sys.executable} other.py")
    page = sqlmetrics(*line, folder=repository, expect=1).stdout
    assert "❌ retrieval: worse than main" in page
    assert "the build of main ended with exit code 2" in page
    assert "; run.txt is taken as git has it there" in page


@by_turns(2)
def test_metric_files_and_columns_of_items_are_taken(repository: Path) -> None:
    build(repository, better=1, seed=1)
    sqlmetrics("metric", "new", "seen", folder=repository)
    prices = [("right", 5), *((f"wrong{rank}", rank) for rank in range(1, 5))]
    rows = ["item_id,price", *(f"{item},{price}" for item, price in prices)]
    (repository / "items.csv").write_text("\n".join(rows))
    git(repository, "add", "metrics", "items.csv")
    commit(repository, "metrics")
    git(repository, "branch", "topic")
    git(repository, "checkout", "--quiet", "topic")
    file = repository / "metrics" / "seen.sql.jinja"
    file.write_text(file.read_text().replace("grade / rnk", "2 * grade / rnk"))
    build(repository, better=-1, seed=1)
    line = ("gate", "run.txt", "qrels.txt", "-m", "seen@2,mean(price)@1", "--base", "main")
    message = sqlmetrics(*line, "--metrics-from", "metrics", folder=repository, expect=2).stderr
    assert "give items" in message
    line = (*line, "--metrics-from", "metrics", "--items", "items.csv")
    page = sqlmetrics(*line, folder=repository, expect=1).stdout
    assert "| seen@2 | 2.0000 | 0.0000 |" in page
    assert "| 5.0000 | 1.0000 |" in page
    assert "- metrics/seen.sql.jinja differs from that of main; both runs are measured" in page


def test_a_segment_that_loses_is_a_part(repository: Path) -> None:
    """Of 60 queries the 20 of JP fall from 1 to 1/2, those of DE rise from 1/2 to 1."""

    def runs(lost: str) -> str:
        lines = ["query_id,item_id,score,country"]
        for query in range(60):
            country = "JP" if query < 20 else "DE"
            right = 1 if country == lost else 3
            lines += [f"q{query:02},{i},{s},{country}" for i, s in (("right", right), ("wrong", 2))]
        return "\n".join(lines)

    (repository / "run.csv").write_text(runs("DE"))
    commit(repository, "runs")
    git(repository, "checkout", "--quiet", "-b", "other")
    (repository / "run.csv").write_text(runs("JP"))
    line = ("gate", "run.csv", "qrels.txt", "-m", "mrr", "--by", "country", "--base", "main")
    page = sqlmetrics(*line, folder=repository, expect=1).stdout
    assert "❌ retrieval: worse in part than main" in page
    assert "mrr of this branch (country=JP) is 0.5000, compared with 1.0000" in page
    assert "with files that are not committed" in page
    assert "- mrr from 0.6667 to 0.8333: better" in page  # (20 + 40 / 2) / 60; (20 / 2 + 40) / 60


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run.txt qrels.txt -m mrr", "git does not know 'run.txt', so no base can have it"),
        ("run.txt qrels.txt -m mrr --build true", "there is no file 'run.txt' in this branch"),
        ("run.txt qrels.txt", "no metric to compare; name some, like -m"),
        ("", "give RANKINGS and LABELS, or --spec FILE"),
        ("a b c -m mrr", "not 3 tables"),
        ("--spec nowhere.yml", "nowhere.yml: there is no such file"),
        ("--spec search.yml --base nope", "git knows no branch, tag or commit 'nope'"),
        ("--spec search.yml --out qrels.txt", "qrels.txt"),
    ],
)
def test_what_cannot_be_compared(repository: Path, line: str, message: str) -> None:
    before = (repository / "qrels.txt").read_bytes()
    completed = sqlmetrics("gate", *line.split(), folder=repository, expect=2)
    assert message in completed.stderr
    assert (repository / "qrels.txt").read_bytes() == before


def test_specs_are_checked_offline_as_pre_commit_does(repository: Path) -> None:
    hook = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]
    (repository / "wrong.yml").write_text(SPEC.replace("ndcg", "ndgc"))
    _, *line = hook["entry"].split()
    assert "search.yml is well" in sqlmetrics(*line, "search.yml", folder=repository).stderr
    completed = sqlmetrics(*line, "wrong.yml", "search.yml", folder=repository, expect=2)
    assert "wrong.yml: " in completed.stderr
    assert "did you mean 'ndcg'" in completed.stderr
    assert "search.yml is well" in completed.stderr


def test_the_action_takes_what_the_command_takes() -> None:
    """Each input is used, none stands in a script, and the templates name inputs that are there."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    example = yaml.safe_load((ROOT / "examples/gate/github.yml").read_text(encoding="utf-8"))
    steps = example["jobs"]["gate"]["steps"]
    assert steps[-1]["with"].keys() <= ACTION["inputs"].keys()
    template = yaml.safe_load((ROOT / "examples/gate/gitlab.yml").read_text(encoding="utf-8"))
    assert "sqlmetrics gate run.txt" in template["retrieval"]["script"][1]
