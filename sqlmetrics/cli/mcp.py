"""`sqlmetrics mcp`: numbers for assistants."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import EXECUTION, INPUT, Command, option
from sqlmetrics.errors import EngineError, SpecError, keep_secret

if TYPE_CHECKING:
    from sqlmetrics.spec.spec import Spec


# `sqlmetrics mcp`: a server by which assistants ask for the numbers of specs.

INSTALL = "mcp needs the official SDK: pip install 'sqlmetrics[mcp]'"


@click.command(cls=Command)
@click.argument("specs", type=INPUT, nargs=-1, required=True, metavar="SPEC...")
@place_options
@option("--http", is_flag=True, help="Serve HTTP at /mcp, not stdio.")
@option("--host", default="127.0.0.1", show_default=True, help="Address of --http.")
@option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=8765,
    show_default=True,
    help="Port of --http.",
)
@option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a question.",
)
@option(
    "--memory",
    metavar="SIZE",
    help="Memory limit of DuckDB, ClickHouse, PostgreSQL or MySQL, such as 4GB.",
    heading=EXECUTION,
)
@error_options
def mcp_command(
    specs: tuple[str, ...],
    location: Location,
    *,
    http: bool,
    host: str,
    port: int,
    timeout: float,
    memory: str | None,
) -> None:
    """Answer questions of assistants about the tables of SPEC (Model Context Protocol).

    There are six tools: list_metrics, query_metrics, compare, explain_query, reconcile and
    definition. They only read, take no SQL, and return at most 200 rows and 20,000 characters.
    Each question is logged on stderr with who asked it. Over HTTP, if SQLMETRICS_MCP_TOKEN is set,
    clients must send that token; it must be set to listen on an address that other hosts reach.

    \b
    sqlmetrics mcp search.yml --db shop.duckdb
    sqlmetrics mcp search.yml clicks.yml --target prod
    sqlmetrics mcp search.yml --db shop.duckdb --http --port 9000
    """  # noqa: D301  # click wants the \b itself
    try:
        from sqlmetrics.assistants import server
    except ModuleNotFoundError as error:
        if str(error.name).startswith("sqlmetrics"):
            raise
        raise SpecError(INSTALL) from None
    from sqlmetrics.assistants.questions import Questions

    token = os.environ.get(server.TOKEN_VARIABLE, "")
    keep_secret(token)
    if http:
        server.check_token(host, token)
    file_by_title, spec_by_title = _read_specs(specs)
    locations = {title: location.beside(file) for title, file in file_by_title.items()}
    questions = Questions(
        spec_by_title,
        lambda spec: locations[spec.title].reading(spec, is_needed=True),
        timeout,
        memory or "",
    )
    for spec in spec_by_title.values():
        try:
            with questions.opened(spec):
                pass
        except EngineError as error:  # it may be written just now, or not be up yet
            say(f"{error}; serving nevertheless: it is opened anew for each question")
    context = click.get_current_context()

    def log(line: str) -> None:
        with context.scope(cleanup=False):  # of this thread: a tool runs in one of its own
            say(line, event="question")

    the_server = server.make_server(questions, log)
    if not http:
        server.serve_stdio(the_server)
        return
    say(f"serving http://{host}:{port}/mcp")
    server.serve_http(the_server, host, port, token)


def _read_specs(paths: tuple[str, ...]) -> tuple[dict[str, str], dict[str, Spec]]:
    """Name of a spec -> its file; name -> the spec.

    Raises:
        SpecError: If one has no tables of its own, or two have one name.
    """
    from sqlmetrics.spec.spec import Spec

    files: dict[str, str] = {}
    specs: dict[str, Spec] = {}
    for path in paths:
        spec = Spec.read(path)
        if spec.output is None:
            raise SpecError(f"{path} has no output; add: output: {{relation: ranking_metrics}}")
        if spec.title in files:
            raise SpecError(f"{files[spec.title]} and {path} both have the name {spec.title!r}")
        files[spec.title], specs[spec.title] = path, spec
    return files, specs
