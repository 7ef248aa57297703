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
            "revision": revision(self.folder) if self.folder else "",
            "note": self.note,
        }
        return {name: literal(text) for name, text in texts.items() if text}


UNNAMED = Provenance()
"""Of a run that says nothing of itself: the user and the machine alone."""


def revision(folder: Path) -> str:
    """The git revision of a folder, with `-dirty` if a file in it is not as it was committed.

    Empty without git, and outside of a repository. Files that git does not know count as well.
    """
    head = _git(folder, "rev-parse", "HEAD")
    if not head:
        return ""
    changed = _git(folder, "status", "--porcelain", "--", ".")
    return f"{head}-dirty" if changed else head


def _git(folder: Path, *words: str) -> str:
    # a repository's own configuration must not start programs
    quiet = ("--no-optional-locks", "-c", "core.fsmonitor=false")
    try:
        finished = subprocess.run(  # noqa: S603 (no word of it is anybody's input)
            ["git", *quiet, *words],  # noqa: S607 (whichever git the user has)
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return finished.stdout.strip() if finished.returncode == 0 else ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's number without a name
        return ""
