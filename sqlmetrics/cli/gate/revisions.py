"""A branch and its base: two folders of one repository, each built for itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlmetrics.errors import InputError, SpecError, shortened
from sqlmetrics.jobs.provenance import git, revision

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
