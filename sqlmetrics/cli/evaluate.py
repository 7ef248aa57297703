"""`sqlmetrics evaluate`: ad hoc, on files or on the tables of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sqlmetrics.cli.common import error_options, overwrites, progress_bar
from sqlmetrics.cli.evaluation_options import (
    CONVENTION,
    check_option,
    convention_option,
    metrics_option,
    preset_option,
    segment_option,
    table_options,
    with_arguments,
)
from sqlmetrics.cli.location import PLACES, Location, place_options
from sqlmetrics.cli.options import (
    EXECUTION,
    INPUT,
    STATISTICS,
    Command,
    by_option,
    confidence_option,
    items_option,
    labels_option,
    option,
    per_query_option,
    queries_option,
)
from sqlmetrics.cli.output import (
    FORMATS,
    PER_QUERY,
    SUMMARY,
    emit_result,
    emit_table,
    format_of,
    output_options,
)
from sqlmetrics.cli.systems import sources
from sqlmetrics.evaluation.inputs.formats import SPECS

if TYPE_CHECKING:
    from sqlmetrics.evaluation.abstention import Abstention
    from sqlmetrics.proof.ties import TieAudit
    from sqlmetrics.spec.spec import Spec


def _no_level(_: click.Context, __: click.Parameter, level: str | None) -> None:
    """Refuse trec_eval's option with what to write here."""
    if level is not None:
        raise click.UsageError(
            f"-l {level} is an option of trec_eval; here each metric has its level, like "
            f"-m 'P(rel={level})@5,map(rel={level})'"
        )


@click.command(cls=Command)
@click.argument("tables", type=INPUT, nargs=-1, required=True, metavar="RANKINGS... LABELS")
@metrics_option()
@labels_option
@preset_option()
@option("-l", "level", hidden=True, expose_value=False, callback=_no_level)
@convention_option(f"{CONVENTION} VALUE,VALUE evaluates each metric once per value.")
@by_option
@segment_option
@option(
    "--baseline",
    metavar="SYSTEM",
    help="System that the others are compared with.",
    heading=STATISTICS,
)
@queries_option
@items_option
@table_options
@place_options
@per_query_option
@confidence_option(default=None)
@option(
    "--tie-audit",
    is_flag=True,
    help="Report how much tied scores change each metric.",
    heading=STATISTICS,
)
@option(
    "--abstention",
    is_flag=True,
    help="Report whether scores separate the queries that should not be answered.",
    heading=STATISTICS,
)
@check_option
@option(
    "--plan",
    metavar="NAME",
    help="Ranking plan: window, lists, counts or ranks.",
    heading=EXECUTION,
)
@option(
    "--memory",
    metavar="SIZE",
    help="Memory limit of DuckDB, ClickHouse, PostgreSQL or MySQL, such as 4GB.",
    heading=EXECUTION,
)
@option(
    "--checkpoint",
    metavar="FOLDER",
    help="Save progress in this folder and resume from it.",
    heading=EXECUTION,
)
@option(
    "--profile",
    metavar="FILE",
    help="Write DuckDB's query profile to this file, as JSON.",
    heading=EXECUTION,
)
@output_options(FORMATS)
@error_options
@with_arguments
def evaluate_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    metrics: tuple[str, ...],
    location: Location,
    per_query: bool,
    tie_audit: bool,
    abstention: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Evaluate RANKINGS against LABELS: files, or tables of a database.

    The last table is the labels; every other table is a system, named by its file or by NAME=FILE.
    With a spec alone, evaluate prints the numbers of the spec, as show does.

    Files are Parquet, CSV, JSON, or TREC runs and qrels (also .gz). Traces of Ragas, LlamaIndex,
    LangSmith, Phoenix or MLflow, and rankings with a grade column, need no LABELS; each file is a
    system.

    \b
    sqlmetrics evaluate runs.parquet labels.parquet -m ndcg@10,recall@100,mrr
    sqlmetrics evaluate run*.trec qrels.txt -m map,ndcg_cut_10 --preset trec_eval
    sqlmetrics evaluate traces.jsonl -m recall@5,mrr
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.evaluation.evaluate import evaluate

    if labels is None and len(tables) == 1 and tables[0].endswith(SPECS):
        from sqlmetrics.cli.spec import show_spec

        _refuse_what_a_spec_says()
        show_spec(
            tables[0],
            location,
            per_query=per_query,
            check=arguments["check"],
            confidence=arguments.get("confidence"),
            output=output,
            out=out,
        )
        return
    rankings, labels = sources(tables, labels)
    if not metrics:
        raise click.UsageError("no metric to compute; name some, like -m ndcg@10,recall@100,mrr")
    if tie_audit and abstention:
        raise click.UsageError("give --tie-audit or --abstention, not both")
    is_summary = not (tie_audit or abstention)
    columns = (PER_QUERY if per_query else SUMMARY) if is_summary else ()
    form = format_of(output, out, FORMATS, columns)
    with (
        location.reading() as engine,
        progress_bar("evaluating") as on_progress,
    ):
        result = evaluate(
            rankings,
            labels,
            metrics,
            connection=engine,
            per_query=per_query,
            progress=on_progress,
            overwrite=overwrites(),
            **arguments,
        )
        audit = _audited(result.spec, engine) if tie_audit else None
        abstention_report = _abstention(result.spec, engine) if abstention else None
    if table_report := audit or abstention_report:
        emit_table(table_report, form, out)
    else:
        emit_result(result, per_query, form, out)


OF_A_SPEC = (
    *("tables", *PLACES, "per_query", "confidence"),
    *("skip_input_checks", "check_share", "output", "out"),
)
"""What can be said beside a spec."""


def _refuse_what_a_spec_says() -> None:
    """What a spec decides is not taken, and not passed over, beside it."""
    context = click.get_current_context()
    conflicting_options = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.expose_value
        and parameter.name not in OF_A_SPEC
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if conflicting_options:
        raise click.UsageError(
            f"{', '.join(conflicting_options)}: a spec says this itself; write it in the spec, or "
            "leave these options out"
        )


def _audited(spec: Spec, engine: Any) -> TieAudit:
    from sqlmetrics.proof.ties import tie_audit

    return tie_audit(spec, connection=engine)


def _abstention(spec: Spec, engine: Any) -> Abstention:
    """The evaluation has checked the input."""
    from sqlmetrics.evaluation.abstention import abstention

    return abstention(spec, engine, check=False)
