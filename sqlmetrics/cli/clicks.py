"""`sqlmetrics clicks`: from a click log to online metrics, labels, and metrics of these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sqlmetrics.cli.common import connection_options, emit_result, engine_of, error_options, writing
from sqlmetrics.errors import SpecError

USUAL = (
    "ndcg@10",
    "mrr",
    "ctr@5",
    "ctr",
    "abandonment",
    "zero_result_rate",
    "first_click_rank",
    "time_to_first_click",
    "purchases",
)
"""The metrics of a log in a known format, if none is named."""

GRADES = {"click": 1, "add_to_cart": 2, "purchase": 3}
FORMATS = ("table", "json")


@click.command()
@click.argument("spec", required=False)
@click.option(
    "--ubi",
    nargs=2,
    metavar="QUERIES EVENTS",
    help="User Behavior Insights, instead of a spec: two files of JSON lines.",
)
@click.option("-m", "--metric", "metrics", multiple=True, help="Like ndcg@10 or ctr@5.")
@click.option("--by", multiple=True, metavar="COLUMN", help="Segment by it; query_text is one.")
@click.option("--per-query", is_flag=True, help="One row a request instead of the summary.")
@click.option("--db", metavar="FILE", help="A DuckDB file that holds the spec's relations.")
@connection_options
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--out", metavar="FILE", help="Write to a file instead of stdout.")
@error_options
def clicks(
    *,
    spec: str | None,
    ubi: tuple[str, str] | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    per_query: bool,
    db: str | None,
    connection: str | None,
    profiles: str | None,
    output: str,
    out: str | None,
) -> None:
    """Clean the click log of SPEC, tell what was left out, and evaluate it.

    Online metrics are those of the log itself; the others take what users did as labels of
    the lists that they saw.

    \b
    sqlmetrics clicks --ubi ubi_queries.ndjson ubi_events.ndjson -m ndcg@10 -m ctr@5
    sqlmetrics clicks search.yml --db logs.duckdb
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.clicks.run import evaluate_clicks
    from sqlmetrics.spec import Spec

    if (spec is None) == (ubi is None):
        raise SpecError("give a spec, or the two files of --ubi")
    changed: dict[str, Any] = {"metrics": metrics} if metrics else {}
    changed |= {"by": by} if by else {}
    if ubi:
        log = {
            "format": "ubi",
            "requests": {"file": ubi[0]},
            "events": {"file": ubi[1]},
            "labels": {"grades": GRADES},
        }
        asked = Spec(**{"name": Path(ubi[1]).stem, "clicks": log, "metrics": USUAL, **changed})
    else:
        asked = Spec.read(spec or "")
        asked = asked.having(online=(), **changed) if metrics else asked.having(**changed)
    with engine_of(db, connection, profiles) as engine:
        result = evaluate_clicks(asked, engine, per_query=per_query)
    if per_query:
        if result.offline is None:
            raise SpecError("--per-query is of metrics of lists, like ndcg@10; none is asked for")
        emit_result(result.offline, per_query, output, out)
        return
    text = json.dumps(result.to_dicts(), default=str) if output == "json" else repr(result)
    if out is None:
        click.echo(text)
    else:
        writing(out, lambda: Path(out).write_text(text + "\n", encoding="utf-8"))
