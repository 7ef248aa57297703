"""A branch beside its base: rankings, specs, and the comment that says what came of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from filecmp import cmp
from html import escape
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.parse import quote

import click

from sqlmetrics import __version__
from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.compare import FAIL_ON
from sqlmetrics.cli.evaluation_options import (
    check_option,
    convention_option,
    metrics_option,
    preset_option,
    segment_option,
    table_options,
    with_arguments,
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
from sqlmetrics.errors import (
    CheckError,
    InputError,
    SpecError,
    SqlmetricsError,
    keep_secret,
    masked,
    shortened,
)
from sqlmetrics.jobs.notices.webhook import reason, send
from sqlmetrics.jobs.provenance import git, revision
from sqlmetrics.plan.summary import ALL
from sqlmetrics.tables.table import many

if TYPE_CHECKING:
    from sqlmetrics.comparison.report import Comparison
    from sqlmetrics.evaluation.report.failure import Failure
    from sqlmetrics.evaluation.report.result import Result


# What a gate says, as Markdown: a headline, the numbers, the queries that moved, the SQL.

# A branch and its base: two folders of one repository, each built for itself.

BRANCH = "this branch"
"""What tables call the state of the current folder."""

TARGETS = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
"""Where GitHub and GitLab say into which branch a request shall be merged."""

TAIL = 20
"""As many of the last lines of a command that failed are shown."""

CHANGED = " with files that are not committed"

WHERE = "a gate compares two revisions: run it in a folder of a git repository"

HISTORY = (
    "fetch the whole history: fetch-depth: 0 of actions/checkout, GIT_DEPTH: 0 on GitLab, "
    "git fetch --unshallow"
)


@dataclass(frozen=True)
class Revision:
    """A state of the repository.

    Attributes:
        name: What tables call it, such as `main`.
        folder: Its copy of the current folder.
        commit: Its commit, in short, and whether files differ from it.
    """

    name: str
    folder: Path
    commit: str

    def file(self, path: str) -> Path:
        """A file of this state."""
        return self.folder / path

    def has(self, path: str) -> bool:
        """Whether there is a file, or a folder of files; a query is none."""
        return os.path.exists(self.file(path))  # Path raises for a long text

    def build(self, command: str) -> None:
        """Run a shell command in the folder.

        Raises:
            InputError: If it fails, with the last lines that it printed, or has no such folder.
        """
        if not self.folder.is_dir():
            raise InputError(f"{self.name} has no such folder to build in")
        run = subprocess.run(  # noqa: S602 # the command is the user's own
            command,
            shell=True,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if run.returncode:
            lines = [shortened(line, 300) for line in run.stdout.splitlines()[-TAIL:]]
            printed = "\n".join(f"  {line}" for line in lines)
            raise InputError(
                f"the build of {self.name} ended with exit code {run.returncode}: {command}"
                + (f"\n{printed}" if printed else "")
            )

    def restore(self, path: str) -> None:
        """Leave of a file, or a folder, what git has of it: a build that failed may have begun."""
        if self.folder.is_dir():
            _run(("clean", "--force", "-dx", "--quiet", "--", path), self.folder)
            _run(("checkout", "--quiet", "--", path), self.folder)


@contextmanager
def with_base(
    base: str | None, environment: Mapping[str, str]
) -> Iterator[tuple[Revision, Revision]]:
    """The base in a folder that is removed afterwards, and the branch in the current one.

    The base is the last commit that the branch shares with it, so that what was merged since
    is not counted against the branch.

    Args:
        base: A branch, tag or commit; default: the target that GitHub or GitLab names, else `main`.
        environment: The variables of the process.

    Raises:
        SpecError: If there is no repository, no such branch, or no commit that both have.
    """
    current, root = Path.cwd(), repository()
    target = base or next(filter(None, map(environment.get, TARGETS)), "main")
    reference = _reference(target, current)
    commit = _git("merge-base", "HEAD", reference, folder=current, hint=HISTORY)
    head, _, changed = revision(current).partition("-")
    with TemporaryDirectory(prefix="sqlmetrics_gate_") as parent:
        copy = Path(parent) / "base"
        _git("worktree", "add", "--quiet", "--detach", str(copy), commit, folder=root)
        try:
            folder = copy / current.relative_to(root)
            yield (
                Revision(target, folder, commit[:7]),
                Revision(BRANCH, current, head[:7] + CHANGED * bool(changed)),
            )
        finally:
            _run(("worktree", "remove", "--force", str(copy)), root)


def repository() -> Path:
    """The folder of the repository that the current one is in.

    Raises:
        SpecError: If it is in none.
    """
    return Path(_git("rev-parse", "--show-toplevel", folder=Path.cwd(), hint=WHERE)).resolve()


def in_repository(path: str) -> str:
    """A path as the current folder has it, so that both revisions have it.

    Raises:
        SpecError: If it leads out of the repository, where there is one file for both.
    """
    current = Path.cwd()
    file = Path(os.path.normpath(current / path))
    if not file.is_relative_to(repository()):
        raise SpecError(f"{path!r} is not in the repository, so its base has no file of its own")
    return os.path.relpath(file, current)


def check_tracked(path: str) -> None:
    """See that a base can have a file that no command writes.

    Raises:
        SpecError: If git does not know it.
    """
    if not _git("ls-files", "--", path, folder=Path.cwd()):
        raise SpecError(
            f"git does not know {path!r}, so no base can have it: add it to the repository, or "
            "give the command that writes it (--build)"
        )


def _reference(target: str, folder: Path) -> str:
    """The commit that a name means: as the server has it, or as it is here.

    Raises:
        SpecError: If there is none.
    """
    for name in (f"refs/remotes/origin/{target}", target):
        commit = ["rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
        if _run(commit, folder).returncode == 0:
            return name
    raise SpecError(
        f"git knows no branch, tag or commit {target!r} to compare with: name another one by "
        f"--base, or {HISTORY}"
    )


def _git(*arguments: str, folder: Path, hint: str = "") -> str:
    """What git prints.

    Raises:
        SpecError: If it fails.
    """
    run = _run(arguments, folder)
    if run.returncode:
        reason = run.stderr.strip().removeprefix("fatal: ") or "there is none"
        problem = f"git {' '.join(arguments[:2])}: {shortened(reason, 300)}"
        raise SpecError(f"{problem}; {hint}" if hint else problem)
    return run.stdout.strip()


def _run(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return git(folder, *arguments)
    except FileNotFoundError:
        raise SpecError("a gate compares two revisions, and git is not installed here") from None


NO_SPACE = "\u200b"
"""Behind an @ it keeps a word from being a mention of a person."""

LONGEST_DIFF = 150
"""As many lines of a difference of SQL are shown."""


@dataclass(frozen=True)
class Rankings:
    """What came of the rankings.

    Attributes:
        comparison: The branch beside its base.
        failure: What the gate does not let through.
        result: The branch by itself, where its base has nothing to compare with.
        error: Why there are no numbers.
        notes: Sentences about the files.
    """

    comparison: Comparison | None = None
    failure: CheckError | None = None
    result: Result | None = None
    error: str = ""
    notes: Sequence[str] = ()

    def outcome(self, base: str) -> str:
        """What came of it, in words; `base` is what the base is called."""
        if self.error:
            return "no numbers"
        if self.comparison is None:
            return f"{base} has nothing to compare with"
        rows = self.comparison.rows
        verdicts = {row["verdict"] for row in rows}
        of_all = {row["verdict"] for row in rows if row["segment_name"] == ALL}
        if "worse" in verdicts:
            return f"{'worse' if 'worse' in of_all else 'worse in part'} than {base}"
        if self.failure:
            return f"not better than {base}"
        if "better" in verdicts:
            return f"{'better' if 'better' in of_all else 'better in part'} than {base}"
        same = "as good as" if verdicts == {"equivalent"} else "no real difference from"
        return f"{same} {base}"


@dataclass(frozen=True)
class SpecChange:
    """What a branch does to a spec.

    Attributes:
        file: The spec.
        before: Its SQL in the base; None if it is not there, empty if it cannot be read.
        after: Its SQL in the branch; None if it was removed.
        error: What is wrong with it in the branch.
    """

    file: str
    before: str | None = None
    after: str | None = None
    error: str = ""


@dataclass(frozen=True)
class Page:
    """The comment.

    Attributes:
        title: What the gate is called; several on one request have several titles.
        base: The revision that is compared with.
        branch: The revision of the request.
        rankings: What came of the rankings, if there are any.
        specs: What the branch does to specs.
    """

    title: str
    base: Revision
    branch: Revision
    rankings: Rankings | None = None
    specs: Sequence[SpecChange] = field(default=())

    @property
    def marker(self) -> str:
        """The line by which the comment is found again; a reader does not see it."""
        return f"<!-- sqlmetrics gate: {quote(self.title, safe=' ')} -->"

    @property
    def outcome(self) -> str:
        """What came of it, in words that follow the title."""
        words = [self.rankings.outcome(self.base.name)] if self.rankings else []
        total = many(len(self.specs), "spec")
        n_broken = sum(bool(spec.error) for spec in self.specs)
        n_changed = sum(not spec.error and spec.before != spec.after for spec in self.specs)
        if n_broken:
            words.append(f"{n_broken} of {total} cannot be read")
        if n_changed or not words:
            words.append(f"the SQL of {n_changed} of {total} changes")
        return "; ".join(words)

    @property
    def has_failed(self) -> bool:
        """Whether the request is not let through."""
        rankings = self.rankings
        is_red = rankings is not None and bool(rankings.error or rankings.failure)
        return is_red or any(spec.error for spec in self.specs)

    def markdown(self) -> str:
        """The whole comment; nothing in it mentions a person or runs."""
        has_no_base = self.rankings is not None and self.rankings.result is not None
        mark = "❌" if self.has_failed else "⚠️" if has_no_base else "✅"
        blocks = [f"### {mark} {_plain(self.title)}: {_plain(self.outcome)}"]
        blocks += self._ranking_blocks()
        blocks += [block for spec in self.specs for block in _spec_blocks(spec)]
        blocks.append(
            f"<sub>{_plain(self.base.name)} at {self.base.commit}, this branch at "
            f"{self.branch.commit}, sqlmetrics {__version__}</sub>"
        )
        text = re.sub(r"(?<!\w)@(?=\w)", f"@{NO_SPACE}", "\n\n".join(filter(None, blocks)))
        return f"{self.marker}\n{text}\n"

    def _ranking_blocks(self) -> Iterator[str]:
        from sqlmetrics.comparison.report import sections

        rankings = self.rankings
        if rankings is None:
            return
        if rankings.error:
            yield _fenced(rankings.error)
        if rankings.result is not None:
            yield rankings.result.markdown()
        if rankings.comparison is not None:
            comparison = rankings.comparison
            failures = cast(
                "Sequence[Failure]", rankings.failure.failures if rankings.failure else ()
            )
            texts = [str(failure) for failure in failures]
            failed = {failure.metric for failure in failures if not failure.segment}
            texts += [
                row["sentence"]
                for row in comparison.rows
                if row["segment_name"] == ALL and row["metric"] not in failed
            ]
            yield "\n".join(f"- {_plain(text)}" for text in texts)
            yield replace(comparison, movers=()).markdown()
            if moved := [table.markdown() for table in sections(comparison)]:
                yield _folded("The queries that moved most", "\n\n".join(moved))
        yield "\n".join(f"- {_plain(note)}" for note in rankings.notes)


def _spec_blocks(spec: SpecChange) -> Iterator[str]:
    """What a branch does to a spec: a line, and what differs."""
    file = f"`{spec.file.replace('`', '')}`"
    if spec.error:
        yield f"{file} cannot be read:"
        yield _fenced(spec.error)
    elif spec.after is None:
        yield f"{file} is removed; the rows of its tables stay until `sqlmetrics retire`."
    elif spec.before is None:
        yield _folded(f"{file} is new: its SQL", _fenced(spec.after, "sql"))
    elif spec.before == spec.after:
        yield f"{file}: the same SQL."
    else:
        texts = spec.before.splitlines(), spec.after.splitlines()
        _, _, *lines = unified_diff(*texts, lineterm="")
        n_more = len(lines) - LONGEST_DIFF
        lines = lines[:LONGEST_DIFF] + [f"... and {n_more:,} more lines"] * (n_more > 0)
        yield _folded(f"{file} changes its SQL", _fenced("\n".join(lines), "diff"))


def _folded(title: str, body: str) -> str:
    summary = re.sub("`(.*?)`", r"<code>\1</code>", escape(title, quote=False))
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str, language: str = "text") -> str:
    """A text as it is; its fence is longer than any in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _plain(text: str) -> str:
    """A text that Markdown shows as it is, on lines of a list."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escape(text, quote=False)).replace("\n", "<br>")


# A comment on a pull request of GitHub or a merge request of GitLab, updated in place.

LONGEST = 60_000
"""As many characters has a comment at the most; GitHub takes 65,536."""

PER_PAGE = 100


@dataclass(frozen=True)
class Thread:
    """Where the comments of a request are.

    Attributes:
        title: What people call it.
        url: Of its comments.
        comment_url: Of one of them, without its id.
        headers: What says who asks.
        method: How a comment is changed.
    """

    title: str
    url: str
    comment_url: str
    headers: Mapping[str, str]
    method: str

    def write(self, text: str, marker: str) -> str:
        """Write a comment, or change the one that begins with the marker.

        Returns:
            Why that was not possible; empty if it was.
        """
        body = {"body": _bounded(text)}
        try:
            comments = (c for c in self._comments() if str(c.get("body", "")).startswith(marker))
            if comment := next(comments, None):
                self._send(self.method, f"{self.comment_url}/{comment['id']}", body)
            else:
                self._send("POST", self.url, body)
        except Exception as error:  # whatever a server or a proxy does, the gate has its own end
            is_denied = isinstance(error, HTTPError) and error.code in (401, 403)
            hint = "; the token may only read, as in a request from a fork" * is_denied
            return masked(f"{self.title}: {reason(error)}{hint}")
        return ""

    def _comments(self) -> Iterator[dict[str, Any]]:
        for page in count(1):
            comments = self._send("GET", f"{self.url}?per_page={PER_PAGE}&page={page}")
            yield from comments
            if len(comments) < PER_PAGE:
                return

    def _send(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return json.loads(send(method, url, data, self.headers) or b"null")


def thread(environment: Mapping[str, str]) -> Thread | str:
    """The comments of the request that a job runs for; why there are none."""
    for platform in (_github, _gitlab):
        if answer := platform(environment):
            return answer
    return "this is not a job of GitHub or GitLab"


def _github(environment: Mapping[str, str]) -> Thread | str | None:
    get = environment.get
    if not get("GITHUB_REPOSITORY"):
        return None
    number = _request_number(get("GITHUB_EVENT_PATH") or "")
    token = get("GITHUB_TOKEN") or get("GH_TOKEN")
    if not number:
        return "the job was not started by a pull request"
    if not token:
        return "the variable GITHUB_TOKEN is not set"
    keep_secret(token)
    api = get("GITHUB_API_URL") or "https://api.github.com"
    issues = f"{api}/repos/{get('GITHUB_REPOSITORY')}/issues"
    return Thread(
        title="GitHub",
        url=f"{issues}/{number}/comments",
        comment_url=f"{issues}/comments",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"},
        method="PATCH",
    )


def _request_number(event: str) -> int | None:
    """The number of the pull request in the file of the event that started a job."""
    try:
        content = json.loads(Path(event).read_text(encoding="utf-8"))
        return int(content["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _gitlab(environment: Mapping[str, str]) -> Thread | str | None:
    get = environment.get
    if not get("CI_PROJECT_ID"):
        return None
    token = get("GITLAB_TOKEN")
    if not get("CI_MERGE_REQUEST_IID"):
        return "the job was not started by a merge request"
    if not token:
        return "the variable GITLAB_TOKEN is not set: a token of the project with the scope api"
    keep_secret(token)
    request = f"merge_requests/{get('CI_MERGE_REQUEST_IID')}/notes"
    notes = f"{get('CI_API_V4_URL')}/projects/{get('CI_PROJECT_ID')}/{request}"
    headers = {"PRIVATE-TOKEN": token}
    return Thread("GitLab", url=notes, comment_url=notes, headers=headers, method="PUT")


def _bounded(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n\n(cut: the job's summary or --out has it whole)\n"


# `sqlmetrics gate`: is a branch worse than its base, as a check on a pull request.

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
@with_arguments
def gate_command(
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
    if summary := environment.get(SUMMARY):
        with suppress(OSError), Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    comments = thread(environment)
    reason = comments.write(text, marker) if isinstance(comments, Thread) else comments
    say(f"note: no comment was written: {reason}" if reason else "wrote the comment of the request")
