"""Commands that take a spec file."""

from __future__ import annotations

import click

from sqlmetrics.cli.common import debug_option


@click.command("compile")
@click.argument("spec")
@click.option("--dialect", default="duckdb", show_default=True, help="list dialects")
@click.option("--per-query", is_flag=True, help="The per-query table instead of the summary.")
@debug_option
def compile_spec(spec: str, dialect: str, per_query: bool) -> None:
    """Print the SQL of SPEC, a YAML file; nothing is opened but the spec."""
    from sqlmetrics.api import compile
    from sqlmetrics.spec import Spec

    click.echo(compile(Spec.read(spec), dialect, per_query=per_query), nl=False)
