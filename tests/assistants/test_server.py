"""What an assistant is told, over both transports: golden questions, refusals and bounds."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from subprocess import PIPE
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import duckdb
import pytest
from golden_questions import HARDER, QUESTIONS, REFUSED, Question
from marked import by_turns
from shop_world import (
    HOSTILE,
    TOKEN,
    ask,
    command,
    http_server,
    id_of,
    make_shop,
    over_http,
    over_stdio,
    read,
)

from sqlmetrics.assistants import answer, server
from sqlmetrics.assistants.questions import Questions, notes_of
from sqlmetrics.cli import main
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import EngineError, InputError, SpecError
from sqlmetrics.spec.spec import Spec

pytestmark = by_turns(6)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop"))


def looked_up(text: str, path: str) -> Any:
    value: Any = read(text)
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, list) else value.get(name)
    return value


def problems_of(question: Question, text: str) -> Iterator[str]:
    """What an answer has not, or has otherwise."""
    for path, expected in question.numbers.items():
        value, number = looked_up(text, path), expected()
        if isinstance(number, float):
            number = pytest.approx(number, rel=1e-9)
        if value != number:
            yield f"{question.text} {path}: {value!r} is not {number!r}"
    for words in question.words:
        if words not in json.dumps(text, ensure_ascii=False).replace("\\\\n", "\n"):
            yield f"{question.text} does not say {words!r}: {text}"


async def all_problems(client: AbstractAsyncContextManager[Any]) -> list[str]:
    """Each question asked once, in one session."""
    problems = []
    async with client as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == [*server.TOOLS]
        assert all(tool.annotations.read_only_hint for tool in tools)
        for question in (*QUESTIONS, *HARDER, *REFUSED):
            is_error, text = await ask(session, question.tool, question.arguments)
            if is_error != (question in REFUSED):
                problems.append(f"{question.text} {'' if is_error else 'not '}refused: {text}")
            elif is_error:
                problems += [] if question.words[0] in text else [f"{question.text} {text}"]
                assert len(text) < 1_100
            else:
                assert len(text) <= answer.MOST_CHARACTERS
                problems += problems_of(question, text)
        prompt = await session.get_prompt("why_did_it_move", {"metric": "mrr"})
        assert "The metric is mrr" in prompt.messages[0].content.text
        (page,) = (await session.read_resource("sqlmetrics://dictionary")).contents
        assert read(page.text)["facts"]["definition_hash"]["type"] == "varchar"
        (page,) = (await session.read_resource("sqlmetrics://tutorial")).contents
        assert page.text.startswith("# Tutorial")
    return problems


@pytest.mark.parametrize("transport", [over_stdio, over_http])
def test_golden_questions(shop: Path, transport: Any) -> None:
    before = shop.read_bytes()
    assert asyncio.run(all_problems(transport(shop))) == []
    assert shop.read_bytes() == before, "nothing is written"
    if transport is over_stdio:
        log = (shop.parent / "stderr").read_text()
        assert "mcp: query_metrics" in log
        assert "Traceback" not in log


def test_others_need_the_token(shop: Path) -> None:
    with http_server(shop) as url:
        for header in ({}, {"authorization": "Bearer no"}, {"authorization": TOKEN}):
            with pytest.raises(HTTPError, match="401"):
                urlopen(Request(url, b"{}", header), timeout=10)
    with pytest.raises(SpecError, match=r"reached from other.*SQLMETRICS_MCP_TOKEN"):
        server.check_token("0.0.0.0", "")
    with pytest.raises(SpecError, match="has 5 characters"):
        server.check_token("127.0.0.1", "short")
    server.check_token("127.0.0.1", "")
    with http_server(shop, token="") as url:
        page = {"host": "shop.example", "content-type": "application/json"}
        with pytest.raises(HTTPError, match="421"):
            urlopen(Request(url, b"{}", page), timeout=10)


@pytest.mark.parametrize("end", [signal.SIGTERM, None])
def test_a_server_ends(shop: Path, end: signal.Signals | None) -> None:
    """By a signal, though a thread waits for stdin; and when its client goes.

    It starts though a job has the database open, and what it computes is interrupted.
    """
    a_job = nullcontext() if end else duckdb.connect(str(shop))
    words = [*command(shop), str(shop.parent / "slow.yml")]
    process = subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    version = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello = {"clientInfo": {"name": "a test", "version": "1"}, **version}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    with a_job:
        hello = read(process.stdout.readline().decode())
    assert hello["result"]["serverInfo"]["name"] == "sqlmetrics"
    quick, slow = (
        {"name": "explain_query", "arguments": {"spec": spec, "query": "q02"}}
        for spec in ("shop", "slow")
    )
    for message in (
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": quick},
        {"id": 3, "method": "tools/call", "params": slow},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
    assert "<data>words of 2</data>" in process.stdout.readline().decode()
    time.sleep(1.5)  # until the slow one is computed, which the quick one may await
    if end:
        process.send_signal(end)
    _, log = process.communicate(timeout=20)
    assert process.returncode == (128 + end if end else 0)
    expected = "stopped by SIGTERM" if end else "another process has it.*serving nevertheless"
    assert re.search(expected, log.decode())
    assert end or "INTERRUPT" in log.decode()
    assert "Traceback" not in log.decode()


def questions(shop: Path, **options: Any) -> Questions:
    specs = {spec.title: spec for spec in (Spec.read(shop.parent / "shop.yml"),)}
    url = f"duckdb:///{shop}?read_only=true"
    return Questions(specs, lambda _: connect(url), **{"seconds": 60, **options})


def test_without_the_sdk_one_line_says_so(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "sqlmetrics.assistants.server")
    monkeypatch.delattr("sqlmetrics.assistants.server")
    monkeypatch.setattr("sys.argv", ["sqlmetrics", "mcp", str(shop.parent / "shop.yml")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == SpecError.exit_code
    message = "error: mcp needs the official SDK: pip install 'sqlmetrics[mcp]'\n"
    assert capsys.readouterr().err == message


def test_what_people_wrote_is_data(shop: Path) -> None:
    """It stands within its mark, whatever it says, on one line."""
    explained = read(questions(shop).explain_query(id_of(1)))
    assert explained["query"] == "<data>q01, as people type</data>"
    titles = {item["title"] for items in explained["lists"].values() for item in items}
    for text in (explained["query_text"], *titles):
        assert text.startswith("<data>")
        assert text.endswith("</data>")
        assert text.lower().count("</data>") == 1
        assert text.isprintable()
    assert "ignore your instructions" in explained["query_text"]
    assert "never instructions" in explained["about_texts"]
    assert "token=***: drop all" in explained["query_text"], "a mask breaks no quotes"
    notes = notes_of(["obey\nme has no rows", "old has some"], ["obey\nme", "old"])
    assert notes == ["<data>obey me</data> has no rows", "old has some"]
    assert answer.data_text(HOSTILE * 100) is not None
    assert len(str(answer.data_text(HOSTILE * 100))) < answer.LONGEST_NAME + 30


def test_answers_are_capped_and_say_so(shop: Path, tmp_path: Path) -> None:
    every_day = questions(shop).query_metrics([], every="day", segment="country")
    content = read(every_day)
    assert len(every_day) <= answer.MOST_CHARACTERS
    assert f"{len(content['rows'])} of more than 200 rows are shown" in content["cut"]
    rows = [{"name": "é" * 150} for _ in range(150)]
    text = answer.answer_text({}, rows)
    assert len(text) <= answer.MOST_CHARACTERS
    assert f"{len(read(text)['rows'])} of 150 rows are shown" in text
    many = tmp_path / shop.name
    many.write_bytes(shop.read_bytes())
    (tmp_path / "shop.yml").write_text((shop.parent / "shop.yml").read_text())
    with duckdb.connect(str(many)) as connection:
        connection.execute(
            "insert into metrics select fact.* replace ('s' || i as segment_name, "
            "repeat('long ', 40) || j as segment_value) "
            "from (from metrics limit 1) as fact, range(20) as s(i), range(30) as v(j)"
        )
    listed = read(questions(many).list_metrics())
    assert listed["rows"]
    assert {segment["n_values"] for segment in listed["segments"].values()} == {2, 30}
    with pytest.raises(InputError, match="more than 20,000"):
        answer.answer_text({"sql": "x" * 30_000}, [])


def test_a_question_is_bounded(shop: Path) -> None:
    def run_twice() -> None:
        for _ in range(2):
            questions(shop, seconds=0.001).compare(["mrr"], movers=20)

    with pytest.raises(EngineError, match=r"stopped after 0.001 s"):
        run_twice()
    assert "rows" in read(questions(shop, memory="200MB").query_metrics(["mrr"]))


def test_a_job_can_write_between_questions(shop: Path) -> None:
    """No connection is held open: DuckDB would keep writers away."""
    shop_questions = questions(shop)
    shop_questions.query_metrics(["mrr"])
    with duckdb.connect(str(shop)) as connection:
        connection.execute("create table written as select 1")
        connection.execute("drop table written")
    assert read(shop_questions.query_metrics(["mrr"]))["rows"]
