"""Failures are told to a webhook, and logs are JSON lines, without a secret in either."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from command import sqlmetrics
from marked import by_turns

from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.notices import webhook
from sqlmetrics.jobs.notices.webhook import Webhook

SECRET = "T0123456/B0123456/sEcReTtOkEn0123456789"

SPEC = """
version: 1
name: shop
rankings: {file: rank.csv}
labels: {file: labels.csv}
metrics: [ndcg@10]
output: {relation: facts}
checks: [{metric: ndcg@10, min: 0.9}]
"""


class Server(ThreadingHTTPServer):
    """Keeps what is posted, and answers as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.status, self.delay, self.announced = 200, 0.0, ""
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, json.loads(body)))
        time.sleep(self.server.delay)
        self.send_response(self.server.status, "told")
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        if self.server.announced:
            self.send_header("Content-Length", self.server.announced)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as webhook_server:
        threading.Thread(target=webhook_server.serve_forever, daemon=True).start()
        yield webhook_server
        webhook_server.shutdown()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "s.yml").write_text(SPEC)
    (tmp_path / "rank.csv").write_text("query_id,item_id,score\nq,a,2\nq,b,1\n")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nq,b,1\n")
    return tmp_path


@by_turns(1.6)
def test_failures_are_told_as_each_server_takes_them(
    server: Server, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://127.0.0.1:{server.server_port}/services/{SECRET}"
    db = ("--db", "m.duckdb")
    sqlmetrics("run", "s.yml", *db, "--webhook", address, folder=shop)
    assert server.posted == [], "a run that goes well is no news"
    checked = sqlmetrics("check", "s.yml", *db, "--webhook", address, folder=shop, expect=1)
    ((path, payload),) = server.posted
    assert path == f"/services/{SECRET}"
    assert (payload["event"], payload["spec"], payload["exit_code"]) == ("checks_failed", "shop", 1)
    assert "ndcg@10" in payload["checks"][0]["failure"]["text"]
    assert f"told http://127.0.0.1:{server.server_port}/***" in checked.stderr

    monkeypatch.setenv("SQLMETRICS_WEBHOOK", f"slack+{address}")
    built = sqlmetrics("build", "s.yml", *db, folder=shop, expect=1)
    (_, text) = server.posted[-1]
    assert text["text"].startswith("*shop: a check failed (exit code 1)*\n")
    assert "0.6309 &lt; " in text["text"] or "min 0.9" in text["text"]
    assert set(text) == {"text"}

    (shop / "labels.csv").write_text("query_id,item_id,grade\nq,b,-1\n")
    monkeypatch.delenv("SQLMETRICS_WEBHOOK")
    monkeypatch.setenv("CHAT", f"teams+{address}")
    (shop / "profiles.yml").write_text(
        "outputs: {dev: {type: duckdb, path: m.duckdb, webhook: \"{{ env_var('CHAT') }}\"}}\n"
    )
    failed = sqlmetrics("run", "s.yml", "--target", "dev", folder=shop, expect=2)
    (_, card) = server.posted[-1]
    (attached,) = card["attachments"]
    assert attached["contentType"] == "application/vnd.microsoft.card.adaptive"
    texts = [block["text"] for block in attached["content"]["body"]]
    assert texts[0] == "shop: the run failed (exit code 2)"
    assert "grade" in texts[1]

    (shop / "labels.csv").write_text("query_id,item_id,grade\nq,b,1\n")
    (shop / "rank.csv").write_text("query_id,item_id,score\n")
    sqlmetrics("run", "s.yml", "--target", "dev", folder=shop, expect=4)
    assert len(server.posted) == 3, "data that is not there yet is no failure"
    (shop / "s.yml").write_text("version: 1\nname: [")
    sqlmetrics("run", "s.yml", *db, "--webhook", address, folder=shop, expect=2)
    assert server.posted[-1][1]["spec"] == "s.yml"
    for output in (checked, built, failed):
        assert "sEcReT" not in output.stdout + output.stderr


def test_a_message_that_was_taken_is_sent_once_whatever_the_answer_is(server: Server) -> None:
    server.announced = "100"  # and nothing comes
    assert Webhook.of(f"http://127.0.0.1:{server.server_port}/x").post({}) == ""
    assert len(server.posted) == 1


@by_turns(1.4)
@pytest.mark.parametrize(
    "answer",
    [
        (500, 0, 2, "it answers 500 told"),
        (404, 0, 1, "it answers 404 told"),
        (302, 0, 1, "it answers 302 told"),
        (200, 2, 2, "no answer within 0 s"),
        (0, 0, 0, "refused"),
    ],
)
def test_a_webhook_that_fails_is_told_and_changes_no_exit_code(
    answer: tuple[int, float, int, str],
    server: Server,
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, delay, n_posts, reason = answer
    monkeypatch.setattr(webhook, "TIMEOUT", 0.3)
    server.status, server.delay = status, delay
    url = f"http://127.0.0.1:{server.server_port if status else 1}/services/{SECRET}"
    (shop / "labels.csv").write_text("nothing\n")
    failed = sqlmetrics(
        "run", "s.yml", "--db", "m.duckdb", "--webhook", url, "-q", folder=shop, expect=2
    )
    assert len(server.posted) == n_posts
    lines = failed.stderr.splitlines()
    assert lines[0].startswith("note: the webhook http://127.0.0.1:")
    assert "/*** did not get the message: " in lines[0]
    assert reason in lines[0]
    assert "sEcReT" not in failed.stderr


@pytest.mark.parametrize("text", ["hooks.slack.com/services/sEcReT", "ftp://h/sEcReT", ""])
def test_what_is_no_webhook_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(SpecError, match="--webhook must be a URL") as caught:
        Webhook.of(text)
    assert "sEcReT" not in str(caught.value)


def test_the_shape_is_that_of_the_host_or_of_the_name_before_it() -> None:
    urls = {
        "https://hooks.slack.com/services/T/B/x": "slack",
        "https://shop.webhook.office.com/webhookb2/x": "teams",
        "https://prod-1.westeurope.logic.azure.com:443/workflows/x?sig=y": "teams",
        "https://hooks.slack.com.example.com/x": "json",
        "json+https://hooks.slack.com/services/T/B/x": "json",
        "slack+https://chat.example.com/hooks/x": "slack",
    }
    assert {url: Webhook.of(url).shape for url in urls} == urls
    with pytest.raises(SpecError, match="did you mean 'slack'"):
        Webhook.of("slak+https://chat.example.com/hooks/x")


def test_logs_are_json_lines(server: Server, shop: Path) -> None:
    url = f"http://127.0.0.1:{server.server_port}/services/{SECRET}"
    line = ("--db", "m.duckdb", "--log-format", "json")
    completed = sqlmetrics("run", "s.yml", *line, folder=shop)
    lines = [json.loads(text) for text in completed.stderr.splitlines()]
    assert [entry["event"] for entry in lines[-3:]] == ["run_begins", "replaced", "values"]
    for entry in lines:
        assert {*entry} == {"time", "level", "event", "spec", "run_id", "message"}
    assert {entry["spec"] for entry in lines[1:]} == {"shop"}
    (run_id,) = {entry["run_id"] for entry in lines[-3:]}
    assert len(run_id) == 36

    checked = sqlmetrics("check", "s.yml", *line, "--webhook", url, folder=shop, expect=1)
    lines = [json.loads(text) for text in checked.stderr.splitlines()]
    assert [entry["event"] for entry in lines] == ["checks", "webhook"]

    (shop / "labels.csv").write_text(f"{SECRET}\n1\n")
    command = ("run", "s.yml", *line, "--webhook", url)
    *_, last = sqlmetrics(*command, folder=shop, expect=2).stderr.splitlines()
    error = json.loads(last)
    assert (error["level"], error["event"], error["exit_code"]) == ("error", "failed", 2)
    assert error["error"] == "InputError"
    assert "error: " in error["message"]
    assert "sEcReT" not in last
    usage = sqlmetrics("--log-format", "json", "run", "s.yml", "--wrong", folder=shop, expect=2)
    assert json.loads(usage.stderr)["event"] == "usage"
