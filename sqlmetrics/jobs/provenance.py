"""Who ran a job, where, and by which revision of its spec, for the run log."""

from __future__ import annotations

import getpass
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sqlmetrics.sql.template import literal

SECONDS = 5
"""So long git may take."""


@dataclass(frozen=True)
class Provenance:
    """What a run log says of whoever ran it.

    Attributes:
        note: Why, in their words; empty for nothing.
        folder: That of the spec's file; None for a spec that is none.
    """

    note: str = ""
    folder: Path | None = None

    def log_entries(self) -> dict[str, str]:
        """Columns of the run log -> SQL texts; what cannot be known is left out."""
        texts = {
            "user_name": _user(),
            "host": socket.gethostname(),
            "revision": revision(self.folder, SECONDS) if self.folder else "",
            "note": self.note,
        }
        return {name: literal(text) for name, text in texts.items() if text}


UNNAMED = Provenance()
"""Of a run that says nothing of itself: the user and the machine alone."""


def git(
    folder: Path, *words: str, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git in a folder; a repository's own configuration starts no program.

    Raises:
        OSError: If there is no git, or no such folder.
        subprocess.TimeoutExpired: If it takes longer than so many seconds.
    """
    quiet = ("--no-optional-locks", "-c", "core.fsmonitor=false")
    return subprocess.run(  # noqa: S603 (no shell)
        ["git", *quiet, *words],  # noqa: S607 (whichever git the user has)
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        check=False,
    )


def revision(folder: Path, timeout: float | None = None) -> str:
    """The git revision of a folder, with `-dirty` if a file in it is not as it was committed.

    Empty without git, and outside of a repository. Files that git does not know count as well.
    """
    head = _printed(folder, "rev-parse", "HEAD", timeout=timeout)
    if not head:
        return ""
    changed = _printed(folder, "status", "--porcelain", "--", ".", timeout=timeout)
    return f"{head}-dirty" if changed else head


def _printed(folder: Path, *words: str, timeout: float | None) -> str:
    try:
        finished = git(folder, *words, timeout=timeout)
    except (OSError, subprocess.SubprocessError):
        return ""
    return finished.stdout.strip() if finished.returncode == 0 else ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's number without a name
        return ""
