"""What a refresh of a track found: each upload, accepted or refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from sqlmetrics.comparison.leaderboard.board import Leaderboard
from sqlmetrics.comparison.track.ledger import ACCEPTED
from sqlmetrics.comparison.track.uploads import Upload
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.tables.table import Table, many, printable, wrapped
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular

KINDS = dict.fromkeys(("team", "run", "file", "uploaded", "status", "problems"), "string")
"""Column -> its type."""


@dataclass(frozen=True)
class Decision:
    """An upload, and whether it is accepted.

    Attributes:
        upload: The upload.
        uploaded: When it was, in UTC; empty if it could not be read.
        status: `accepted` or `refused`.
        problems: Why it is refused.
    """

    upload: Upload
    uploaded: str
    status: str
    problems: tuple[Problem, ...] = ()

    @property
    def is_accepted(self) -> bool:
        """Whether it is evaluated."""
        return self.status == ACCEPTED

    def to_dict(self) -> Row:
        """A row for programs."""
        return {
            "team": self.upload.team,
            "run": self.upload.run,
            "file": self.upload.file,
            "uploaded": self.uploaded or None,
            "status": self.status,
            "problems": "; ".join(problem.what for problem in self.problems) or None,
        }


@dataclass(frozen=True, repr=False)
class Track(Tabular):
    """The uploads of a shared task after a refresh; it prints as a table.

    Attributes:
        decisions: The uploads in the order of teams and time.
        leaderboard: The accepted runs, with all digits; None if there is none.
        values: System (`team/run`) -> metric as it is written -> value, rounded.
        notes: What is no upload, and what the evaluation noted. Not for teams.
    """

    decisions: tuple[Decision, ...]
    leaderboard: Leaderboard | None
    values: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...]

    _schemas: ClassVar[Mapping[str, Kinds]] = {"rows": KINDS}

    def __iter__(self) -> Iterator[Row]:
        return iter(self.to_dicts())

    def __len__(self) -> int:
        return len(self.decisions)

    def to_dicts(self) -> list[Row]:
        """A dict per upload: team, run, file, uploaded, status, problems."""
        return [decision.to_dict() for decision in self.decisions]

    @property
    def summary(self) -> str:
        """How many uploads there are, in a sentence."""
        n_accepted = sum(decision.is_accepted for decision in self.decisions)
        n_teams = len({decision.upload.team for decision in self.decisions})
        return (
            f"{many(len(self.decisions), 'upload')} of {many(n_teams, 'team')}: "
            f"{n_accepted:,} accepted, {len(self.decisions) - n_accepted:,} refused"
        )

    def _blocks(self) -> Iterator[Block]:
        names = ["team", "file", "status", "problems"]
        rows = [[printable(row[name] or "") for name in names] for row in self.to_dicts()]
        if rows:
            yield Table(["team", "upload", *names[2:]], rows)
        yield wrapped([self.summary, *(f"note: {note}" for note in self.notes)])
