"""The server: six tools that only read, by the official SDK; over stdio, or HTTP with a token."""

from __future__ import annotations

import hmac
import inspect
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib.resources import files
from io import RawIOBase
from pathlib import Path
from threading import Lock, Thread
from typing import Any, get_type_hints

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from sqlmetrics import __version__
from sqlmetrics.assistants.answer import DATA_NOTE, LONGEST_NAME, unmarked, visible_text
from sqlmetrics.assistants.questions import LONGEST_NOTE, Questions
from sqlmetrics.engines.waiting import STOP_AGAIN, WATCH
from sqlmetrics.errors import EngineError, SpecError, SqlmetricsError, masked, shortened, unknown
from sqlmetrics.jobs.schema import TABLES
from sqlmetrics.spec.spec import sentences

INSTRUCTIONS = (
    "Exact ranking and search metrics from the warehouse. Call list_metrics first. Take numbers as "
    "they are: never average or add them, ask for the days, week or segment instead. Say n, the "
    f"interval and the days beside a number, and repeat verdicts as they stand. {DATA_NOTE}."
)

TOOLS = ("list_metrics", "query_metrics", "compare", "explain_query", "reconcile", "definition")

TOKEN_VARIABLE = "SQLMETRICS_MCP_TOKEN"  # noqa: S105 (its name)
"""The environment variable that has the token of HTTP: a command line is seen by others."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""This machine alone: there the SDK refuses pages of other hosts that a browser has open."""

SHORTEST_TOKEN = 16

Log = Callable[[str], None]


def make_server(questions: Questions, log: Log) -> MCPServer[Any]:
    """The server, with its tools, the dictionary of the tables, and the skill.

    Args:
        questions: What may be asked.
        log: Is told who asked what, and how long the answer took.
    """
    server = QuestionServer(
        "sqlmetrics", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    server.log = log
    turn = Turn(questions.seconds)
    for name in TOOLS:
        server.add_tool(
            _answering(getattr(questions, name), turn, log),
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True
            ),
            structured_output=False,
        )

    @server.resource("sqlmetrics://dictionary", mime_type="application/json")
    def dictionary() -> str:
        """Each table that runs write, with its columns and what they mean."""
        return dictionary_text()

    @server.resource("sqlmetrics://tutorial", mime_type="text/markdown")
    def tutorial() -> str:
        """The tutorial: from two files to a daily job, with every number that it prints."""
        return tutorial_text()

    @server.prompt(title="Why did it move?")
    def why_did_it_move(metric: str, period: str = "") -> str:
        """What to ask in which order when a metric moved, and when the data do not suffice."""
        return f"{skill_text()}\nThe metric is {metric}. {period}"

    return server


class QuestionServer(MCPServer[Any]):
    """A server whose refusals are in the package's words, bounded and logged.

    Attributes:
        log: Is told what was refused before a tool was called.
    """

    log: Log

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> Any:
        """Call a tool; what the SDK refuses, and what nobody foresaw, is an error of one line."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            detail = ""
            if isinstance(cause, ValidationError):  # the first: a list may have thousands
                problem = str(SpecError(sentences(cause)[0]))
            elif cause is None:
                problem = unknown("tool", shortened(name, LONGEST_NAME), TOOLS)
            else:  # nobody foresaw it: its text may have anything, and is logged alone
                problem = f"{name} failed unexpectedly, by a {type(cause).__name__}"
                detail = shortened(f": {cause}", LONGEST_NOTE)
        client = _client(context) if context else "a client"
        self.log(masked(visible_text(f"{client}: error: {problem}{detail}")))
        return _result(f"error: {problem}", is_error=True)


class Turn:
    """One question at a time; who waits too long is told to ask again."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._seconds):
            raise EngineError(f"other questions took {self._seconds:g} s: ask this one again")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _result(text: str, *, is_error: bool) -> CallToolResult:
    """What a client is told; an error on one line, for the names in it may have several."""
    texts = [masked(visible_text(text)), DATA_NOTE] if is_error else [text]
    return CallToolResult(content=[TextContent(text=part) for part in texts], is_error=is_error)


def skill_text() -> str:
    """The skill as SKILL.md has it, without the lines for those who install skills."""
    text = files("sqlmetrics.assistants").joinpath("SKILL.md").read_text(encoding="utf-8")
    return text.split("---\n", 2)[2].lstrip()


def tutorial_text() -> str:
    """The page: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "tutorial.md"
    page = packaged if packaged.is_file() else package.parent / "docs" / "tutorial.md"
    return page.read_text(encoding="utf-8")


def dictionary_text() -> str:
    """The columns of each table that runs write, with types and meanings, as JSON."""
    columns_by_table = {
        name: {
            column: {"type": about.type, "meaning": about.meaning}
            for column, about in table.columns.items()
        }
        for name, table in TABLES.items()
    }
    return json.dumps(columns_by_table, ensure_ascii=False, indent=1)


def _answering(question: Callable[..., str], turn: Turn, log: Log) -> Callable[..., CallToolResult]:
    """A tool: one question at a time, errors in the package's words, a line in the log."""
    parameters = [*inspect.signature(question).parameters.values()]
    names = [parameter.name for parameter in parameters]

    @wraps(question)
    def answer(context: Context[Any, Any], **arguments: Any) -> CallToolResult:
        began = time.monotonic()
        try:
            check_arguments(context, names)
            with turn:
                unmarked_arguments = {name: unmarked(value) for name, value in arguments.items()}
                text, is_error = question(**unmarked_arguments), False
        except SqlmetricsError as error:
            text, is_error = f"error: {error}", True
        seconds = time.monotonic() - began
        outcome = shortened(text, LONGEST_NAME) if is_error else f"{len(text):,} characters"
        chosen = {name: value for name, value in arguments.items() if value}
        request = shortened(json.dumps(chosen, ensure_ascii=False, default=str), LONGEST_NOTE)
        line = f"{_client(context)}: {question.__name__} {request}: {outcome}, {seconds:.2f} s"
        log(masked(visible_text(line)))
        return _result(text, is_error=is_error)

    of_context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY)
    hints = get_type_hints(question)
    answer.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(parameter.replace(annotation=hints[parameter.name]) for parameter in parameters),
            of_context.replace(annotation=Context),
        ],
        return_annotation=CallToolResult,
    )
    answer.__annotations__ = {**hints, "context": Context, "return": CallToolResult}
    del answer.__wrapped__
    return answer


def check_arguments(context: Context[Any, Any], names: Sequence[str]) -> None:
    """Raise SpecError for an argument that a tool has not: the SDK would leave it out."""
    for name in (context.request_context.params or {}).get("arguments") or {}:
        if name not in names:
            raise SpecError(unknown("argument", shortened(str(name), LONGEST_NAME), names))


def _client(context: Context[Any, Any]) -> str:
    """What a client says that it is; over HTTP also where it is."""
    parameters = context.session.client_params
    name = shortened(parameters.client_info.name, LONGEST_NAME) if parameters else "a client"
    request = context.request_context.request
    address = getattr(getattr(request, "client", None), "host", None)
    return f"{name} at {address}" if address else name


def check_token(host: str, token: str) -> None:
    """Raise SpecError for a host that others reach without a token, or for a short token."""
    if not token and host not in LOOPBACK:
        raise SpecError(
            f"--host {host} can be reached from other machines, so a token is needed: set "
            f"{TOKEN_VARIABLE}, or listen on 127.0.0.1"
        )
    if token and len(token) < SHORTEST_TOKEN:
        raise SpecError(
            f"{TOKEN_VARIABLE} has {len(token)} characters; give a token of {SHORTEST_TOKEN} "
            "or more"
        )


def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve stdin and stdout until stdin ends or the process is stopped.

    A thread of the SDK waits for stdin, and would keep a stopped process from ending: it reads
    a pipe instead, which is closed here.

    Args:
        server: The server.
    """
    source, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    reading, writing = os.pipe()
    sys.stdin = os.fdopen(reading, encoding="utf-8")
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        Thread(target=_pump, args=(source, pipe), name="sqlmetrics-stdin", daemon=True).start()
        try:
            server.run("stdio")
        finally:  # the process waits for the thread that answers
            Thread(target=_stop_questions, name="sqlmetrics-stop-questions", daemon=True).start()


def _pump(source: int, pipe: RawIOBase) -> None:
    """Hand on what comes, until it ends or nobody reads it."""
    with suppress(OSError, ValueError), pipe:
        while chunk := os.read(source, 65_536):
            pipe.write(chunk)
    _stop_questions()  # the client is gone


def _stop_questions() -> None:
    """Interrupt what is computed, again and again until the process ends."""
    while True:
        WATCH.interrupt(time.monotonic())
        time.sleep(STOP_AGAIN)


def serve_http(server: MCPServer[Any], host: str, port: int, token: str) -> None:
    """Serve HTTP at `/mcp` until the process is stopped.

    Args:
        server: The server.
        host: The address to listen on.
        port: The port.
        token: What a client has to send as its bearer token; empty for none, on loopback alone.

    Raises:
        SpecError: If others reach the host and there is no token.
    """
    check_token(host, token)
    application: Any = server.streamable_http_app(host=host)
    if token:
        application = RequireToken(application, token)
    uvicorn.run(application, host=host, port=port, log_level="warning")


Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class RequireToken:
    """An ASGI application that lets requests with a bearer token through, and no others."""

    def __init__(self, application: Any, token: str) -> None:
        self._application = application
        self._header = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        """Answer a request."""
        header = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "lifespan" or hmac.compare_digest(header, self._header):
            await self._application(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"a bearer token is needed"})
