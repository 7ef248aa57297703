"""`sqlmetrics gate`: is a branch worse than its base, as a check on a pull request."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from filecmp import cmp
from pathlib import Path
from typing import Any

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.compare import FAIL_ON
from sqlmetrics.cli.evaluation_options import (
    check_option,
    convention_option,
    given_options,
    metrics_option,
    preset_option,
    segment_option,
    table_options,
)
from sqlmetrics.cli.gate.page import (
    Page,
    Rankings,
    Revision,
    SpecChange,
    check_tracked,
    in_repository,
    with_base,
)
from sqlmetrics.cli.options import (
    INPUT,
    Command,
    by_option,
    items_option,
    margin_option,
    option,
    queries_option,
)
from sqlmetrics.cli.output import out_option, write
from sqlmetrics.engines.output_files import check_output, has_mark
from sqlmetrics.errors import CheckError, InputError, SqlmetricsError, masked

TITLE = "retrieval"
SUMMARY = "GITHUB_STEP_SUMMARY"


@click.command(cls=Command)
@click.argument("tables", nargs=-1, type=INPUT, metavar="[RANKINGS [LABELS]]")
@metrics_option()
@option(
    "--base",
    metavar="REVISION",
    help="Branch, tag or commit to compare with.  [default: the target of the pull "
    "request, else main]",
)
@option(
    "--build",
    metavar="COMMAND",
    help="Shell command that writes RANKINGS, run in the base and in this branch.",
)
@option(
    "--spec",
    "specs",
    multiple=True,
    type=INPUT,
    metavar="FILE",
    help="Spec to compare; the page shows how its SQL changes. May be repeated.",
)
@option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="worse",
    show_default=True,
    help="Exit with 1 if a verdict is worse; if it is worse or unclear; or if it is not better.",
)
@margin_option(0.0)
@option(
    "--movers",
    default="3",
    metavar="N",
    show_default=True,
    help="Number of queries to show that moved most.",
    heading="Page",
)
@by_option
@segment_option
@queries_option
@items_option
@preset_option()
@convention_option()
@check_option
@option(
    "--title",
    default=TITLE,
    show_default=True,
    help="Name of the gate; each gate has a comment of its own.",
    heading="Page",
)
@option(
    "--comment",
    is_flag=True,
    help="Write the page as a comment on the pull request, updated in place.",
    heading="Page",
)
@table_options
@out_option
@error_options
@given_options
def gate(
    *,
    tables: tuple[str, ...],
    base: str | None,
    build: str | None,
    specs: tuple[str, ...],
    fail_on: str,
    margin: float,
    movers: str,
    title: str,
    comment: bool,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Compare this branch with its base, and fail if search got worse.

    RANKINGS is a file in the repository, or one that --build writes. The base is the last commit
    that the branch shares with --base. Both sides are evaluated with the LABELS of this branch.
    The result is a page in Markdown: the verdict, the numbers, the queries that moved. If the base
    has no rankings, the gate passes.

    \b
    sqlmetrics gate run.txt qrels.txt -m ndcg@10
    sqlmetrics gate run.txt qrels.txt -m ndcg@10 --build "make run.txt" --comment
    sqlmetrics gate --spec metrics/search.yml --base origin/main
    """  # noqa: D301  # click wants the \b itself
    _check_usage(tables, specs, arguments)
    tables = (*map(in_repository, tables[:1]), *tables[1:])
    if tables and not build:
        check_tracked(tables[0])
    if out is not None:
        check_output(out, b"<!-- sqlmetrics")
    error: SqlmetricsError | None = None
    with with_base(base, os.environ) as (base_revision, branch):
        rankings = None
        if tables:
            options = {"margin": margin, "movers": movers, "fail_on": fail_on, **arguments}
            rankings, error = _rankings(tables, base_revision, branch, build, options)
        changes = [_spec_change(in_repository(file), base_revision, branch) for file in specs]
        page = Page(title, base_revision, branch, rankings, changes)
    text = page.markdown()
    write(text, out, has_mark(b"sqlmetrics gate"))
    if comment:
        _publish(text, page.marker, os.environ)
    if error:
        raise error
    if broken := [change for change in changes if change.error]:
        raise InputError([f"{change.file}: {change.error}" for change in broken])


def _check_usage(
    tables: tuple[str, ...], specs: tuple[str, ...], arguments: Mapping[str, Any]
) -> None:
    """Raise UsageError where there is nothing to compare, or too much."""
    if not tables and not specs:
        raise click.UsageError("give RANKINGS and LABELS, or --spec FILE")
    if len(tables) > 2:
        raise click.UsageError(f"give RANKINGS and LABELS, not {len(tables)} tables")
    if tables and not arguments.get("metrics"):
        raise click.UsageError("no metric to compare; name some, like -m ndcg@10,recall@100,mrr")


def _rankings(
    tables: tuple[str, ...],
    base: Revision,
    branch: Revision,
    build: str | None,
    options: dict[str, Any],
) -> tuple[Rankings, SqlmetricsError | None]:
    """What came of the rankings, and what the command ends with."""
    from sqlmetrics.comparison.compare import compare

    run, labels = tables[0], tables[1] if len(tables) > 1 else None
    try:
        notes = _built(run, base, branch, build)
        if not base.has(run):
            return _alone(run, labels, notes, options), None
        notes += _same(run, [*_shared_files(labels, options)], base, branch)
        files = {base.name: str(base.file(run)), branch.name: str(branch.file(run))}
        try:
            comparison, failure = compare(files, labels, baseline=base.name, **options), None
        except CheckError as error:
            comparison, failure = error.result, error
        notes += [str(note) for note in comparison.notes]
        return Rankings(comparison, failure, notes=notes), failure
    except SqlmetricsError as error:
        return Rankings(error=masked(str(error))), error


def _built(run: str, base: Revision, branch: Revision, build: str | None) -> list[str]:
    """Build the rankings of both; a note where that of the base fails.

    Raises:
        InputError: If this branch cannot be built, or has no rankings then.
    """
    notes = []
    if build:
        branch.build(build)
        try:
            base.build(build)
        except InputError as error:
            base.restore(run)
            kept = f"; {run} is taken as git has it there" if base.has(run) else ""
            notes.append(f"{str(error).partition(chr(10))[0]}{kept}")
    if not branch.has(run):
        hint = "" if build else "; --build COMMAND writes it"
        raise InputError(f"rankings: there is no file {run!r} in {branch.name}{hint}")
    return notes


def _alone(run: str, labels: str | None, notes: list[str], options: Mapping[str, Any]) -> Rankings:
    """The numbers of the branch, where its base has none."""
    from sqlmetrics.evaluation.evaluate import evaluate

    names = {"margin", "movers", "fail_on"}
    arguments = {name: value for name, value in options.items() if name not in names}
    result = evaluate(run, labels, **arguments)
    notes = notes or [f"the base has no file {run!r}: the next request is compared with this one"]
    return Rankings(result=result, notes=[*notes, *map(str, result.notes)])


def _shared_files(labels: str | None, options: Mapping[str, Any]) -> Iterator[str]:
    """What both runs are measured with: tables beside them, and metrics of the user's own."""
    from sqlmetrics.catalog.metric_files import MetricFiles

    yield from filter(None, (labels, options.get("queries"), options.get("items")))
    files = MetricFiles.read(options.get("metrics_from", ()))
    yield from (metric.file for metric in files.metrics.values())


def _same(run: str, shared_files: Sequence[str], base: Revision, branch: Revision) -> list[str]:
    """Notes on files that are the same, or ought to be."""
    differing = [
        f"{file} differs from that of {base.name}; both runs are measured with this one"
        for file in shared_files
        if base.has(file) and not _are_equal(file, base, branch)
    ]
    is_same = _are_equal(run, base, branch)
    return [f"{run} is the same file as in {base.name}"] * is_same + differing


def _are_equal(path: str, base: Revision, branch: Revision) -> bool:
    first, second = base.file(path), branch.file(path)
    return first.is_file() and second.is_file() and cmp(first, second, shallow=False)


def _spec_change(file: str, base: Revision, branch: Revision) -> SpecChange:
    """The SQL of a spec in both revisions; of one that the base cannot read it is empty there."""
    before = after = None
    if base.has(file):
        before = ""
        with suppress(SqlmetricsError):
            before = _sql(file, base)
    if not branch.has(file):
        return SpecChange(file, before, error="there is no such file" if before is None else "")
    try:
        after = _sql(file, branch)
    except SqlmetricsError as error:
        return SpecChange(file, before, error=masked(str(error)))
    return SpecChange(file, before, after)


def _sql(file: str, revision: Revision) -> str:
    """The SQL of a spec as it is read in the folder of its revision, where its files are."""
    from sqlmetrics.api import compile
    from sqlmetrics.spec.spec import Spec

    with chdir(revision.folder):
        return compile(Spec.read(file))


def _publish(text: str, marker: str, environment: Mapping[str, str]) -> None:
    """Write the comment, and GitHub's summary of the job; a note where there is no comment."""
    from sqlmetrics.cli.gate.page import Thread, thread

    if summary := environment.get(SUMMARY):
        with suppress(OSError), Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    comments = thread(environment)
    reason = comments.write(text, marker) if isinstance(comments, Thread) else comments
    say(f"note: no comment was written: {reason}" if reason else "wrote the comment of the request")
