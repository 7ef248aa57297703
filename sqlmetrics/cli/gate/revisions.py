"""A branch and its base: two folders of one repository, each built for itself."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlmetrics.errors import InputError, SpecError, shortened

BRANCH = "this branch"
"""What tables call the state of the current folder."""

TARGETS = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
"""Where GitHub and GitLab say into which branch a request shall be merged."""

TAIL = 20
"""As many of the last lines of a command that failed are shown."""

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
        commit: Its commit, in short.
    """

    name: str
    folder: Path
    commit: str

    def file(self, path: str) -> Path:
        """A file of this state; a path from the root of the disk is the same in each."""
        return self.folder / path

    def build(self, command: str) -> None:
        """Run a shell command in the folder.

        Raises:
            InputError: If it fails; with the last lines that it printed.
        """
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
    current = Path.cwd()
    root = Path(_git("rev-parse", "--show-toplevel", folder=current, hint=WHERE))
    target = base or next(filter(None, map(environment.get, TARGETS)), "main")
    reference = _reference(target, current)
    commit = _git("merge-base", "HEAD", reference, folder=current, hint=HISTORY)
    head = _git("rev-parse", "--short", "HEAD", folder=current)
    with TemporaryDirectory(prefix="sqlmetrics_gate_") as parent:
        copy = Path(parent) / "base"
        _git("worktree", "add", "--quiet", "--detach", str(copy), commit, folder=root)
        try:
            folder = copy / current.resolve().relative_to(root.resolve())
            yield Revision(target, folder, commit[:7]), Revision(BRANCH, current, head)
        finally:
            _git("worktree", "remove", "--force", str(copy), folder=root)


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
        told = f"git {' '.join(arguments[:2])}: {shortened(reason, 300)}"
        raise SpecError(f"{told}; {hint}" if hint else told)
    return run.stdout.strip()


def _run(
    arguments: Iterator[str] | list[str] | tuple[str, ...], folder: Path
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 # no shell
            ["git", *arguments],  # noqa: S607
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise SpecError("a gate compares two revisions, and there is no git here") from None
