"""The uploads of a track: found in the folders of teams, read once, and checked line by line."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.output_files import note_read, output_file, writing_to
from sqlmetrics.engines.yaml_file import read_yaml
from sqlmetrics.errors import EngineError, InputError, SpecError
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem
from sqlmetrics.evaluation.inputs.formats import RUN
from sqlmetrics.evaluation.inputs.run_names import first_rows, have_tabs
from sqlmetrics.spec.source import Model, resolve_file
from sqlmetrics.spec.spec import Spec, sentences
from sqlmetrics.sql.relation import file_title
from sqlmetrics.sql.stage import print_template
from sqlmetrics.tables.table import many, printable

# `track.yml`: where uploads and labels are, what an upload must be, and what the page shows.

NAMING = "[A-Za-z0-9][A-Za-z0-9._+=-]{0,63}"
"""What a run may be called, if nobody says otherwise."""

Count = Annotated[int, Field(ge=1)]


class Limits(Model):
    """What an upload may be, and how many of a team are accepted."""

    depth: Count = 1_000
    """So many items may a list have."""
    megabytes: Count = 100
    """So large may a file be, unpacked too."""
    uploads_per_team: Count | None = None
    """So many uploads of a team are accepted."""
    uploads_per_day: Count | None = None
    """So many of a team on a day (UTC)."""
    closes: datetime | None = None
    """What is uploaded from then on is refused; UTC, if it says no zone."""

    @field_validator("closes")
    @classmethod
    def _utc(cls, closes: datetime | None) -> datetime | None:
        if closes is None:
            return None
        return closes.astimezone(UTC) if closes.tzinfo else closes.replace(tzinfo=UTC)


class Public(Model):
    """What the page shows."""

    decimals: Annotated[int, Field(ge=1, le=9)] = 3
    """Values are rounded to so many decimals wherever they are written."""
    show: Literal["runs", "teams"] = "runs"
    """All runs, or the best run of each team."""


class TrackFile(Model):
    """A track: one shared task."""

    version: Literal[1] = 1
    """The version of this format."""
    track: str
    """The title."""
    uploads: str = "uploads"
    """The folder of uploads: `uploads/<team>/<run>.txt`."""
    labels: str
    """The file of labels, which stay hidden."""
    topics: str | None = None
    """A file of the topics that each run must answer, one per line; by default those of the
    labels."""
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    """The metrics; the first one orders the page."""
    preset: str = "house"
    """The conventions of the metrics."""
    conventions: Mapping[str, Any] = {}
    """Single conventions that differ from the preset."""
    naming: str = NAMING
    """A regular expression: what a run may be called."""
    run_tag: Literal["same", "any"] = "same"
    """Whether the sixth field of a line must be the name of the file."""
    upload_time: Literal["first_seen", "modified"] = "first_seen"
    """When a file counts as uploaded."""
    limits: Limits = Limits()
    """What an upload may be."""
    public: Public = Public()
    """What the page shows."""
    reports: str = "reports"
    """The folder of the reports to teams, and of the ledger."""

    @field_validator("metrics", mode="before")
    @classmethod
    def _listed(cls, metrics: object) -> object:
        return (metrics,) if isinstance(metrics, str) else metrics

    @field_validator("naming")
    @classmethod
    def _pattern(cls, naming: str) -> str:
        try:
            re.compile(naming)
        except re.error as error:
            raise ValueError(f"is no regular expression ({error})") from None
        return naming

    @classmethod
    def read(cls, path: str | Path) -> TrackFile:
        """Read a track; the files and folders that it names start from its own folder.

        Raises:
            SpecError: If it cannot be read, a key or value is wrong, or a metric is unknown.
        """
        values = {str(k): v for k, v in read_yaml(path, f"the track {str(path)!r}").items()}
        for name in ("uploads", "labels", "topics", "reports"):
            if isinstance(values.get(name, cls.model_fields[name].default), str):
                file = values.get(name, cls.model_fields[name].default)
                values[name] = resolve_file(path, file)
        try:
            track_file = cls(**values)
        except ValidationError as error:
            raise SpecError(sentences(error, model=cls), "the track has") from None
        spec = track_file.spec
        if not spec.settings(spec.measures[0]).is_mean:
            raise SpecError(
                f"metrics: the first one orders the runs, but {spec.measures[0]} is no mean of "
                "topics; put another one before it"
            )
        note_read(track_file.uploads)
        return track_file

    @property
    def spec(self) -> Spec:
        """What is evaluated, for the words of its metrics."""
        return Spec(
            name="track",
            rankings={"file": "runs.txt"},
            labels={"file": self.labels},
            metrics=self.metrics,
            preset=self.preset,
            conventions=dict(self.conventions),
        )

    @property
    def ledger(self) -> Path:
        """The file that remembers all uploads."""
        return Path(self.reports) / "uploads.csv"


# The ledger of a track: each upload that was ever seen, and when; nothing is taken out of it.

ACCEPTED, REFUSED = "accepted", "refused"

TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How a time is written: UTC, in whole seconds."""

_FORMS = {
    "uploaded": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "sha256": re.compile(r"[0-9a-f]{64}"),
    "status": re.compile(f"{ACCEPTED}|{REFUSED}"),
    "value": re.compile(r"(-?\d+\.\d+)?"),
}


@dataclass(frozen=True)
class Entry:
    """One upload: a file with these bytes.

    Attributes:
        uploaded: When, in UTC.
        team: The team.
        file: The name of the file.
        sha256: The hash of its bytes.
        status: `accepted` or `refused`, when it was last there.
        metric: The metric of the value.
        value: The value, rounded as on the page; empty for an upload that was refused.
    """

    uploaded: str
    team: str
    file: str
    sha256: str
    status: str
    metric: str = ""
    value: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes an upload: other bytes under the same name are another one."""
        return self.team, self.file, self.sha256


COLUMNS = [field.name for field in fields(Entry)]


@dataclass(frozen=True)
class Ledger:
    """The uploads that were seen, as a file has them.

    Attributes:
        path: The file.
        text: What it holds; empty if there is none.
    """

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Read a ledger; one that is not there is empty.

        Raises:
            SpecError: If it cannot be read.
        """
        try:
            text = path.read_bytes().decode() if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"cannot read the ledger {str(path)!r}: {error}") from None
        return cls(path, text)

    def entries(self) -> Iterator[Entry]:
        """The uploads.

        Raises:
            SpecError: If a row is not as it was written.
        """
        rows = csv.reader(io.StringIO(self.text, newline=""), strict=True)
        try:
            for row in rows:
                if rows.line_num == 1 and row == COLUMNS:
                    continue
                entry = dict(zip(COLUMNS, row, strict=True))
                for name, form in _FORMS.items():
                    if not form.fullmatch(entry[name]):
                        raise ValueError(f"{name} is {entry[name]!r}")
                yield Entry(**entry)
        except (csv.Error, ValueError) as error:
            raise SpecError(
                f"the ledger {str(self.path)!r} cannot be read, line {rows.line_num}: {error}; put "
                "a copy of it back, or move it away: then all uploads count as new"
            ) from None

    def write(self, entries: Iterable[Entry]) -> Ledger:
        """Write it anew, in the order of time; what it then holds.

        Raises:
            SpecError: If another refresh has written it since it was read.
        """
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([COLUMNS, *sorted(map(astuple, entries))])
        if Ledger.read(self.path).text != self.text:
            raise SpecError(f"another refresh has just written {str(self.path)!r}; run this again")
        with (
            writing_to(self.path.parent),
            output_file(self.path, is_ours=lambda *_: True) as staging,
        ):
            staging.write_bytes(buffer.getvalue().encode())
        return Ledger(self.path, buffer.getvalue())


UNFINISHED = re.compile(r"\..*|.*~|.*\.(part|partial|filepart|crdownload|tmp)", re.IGNORECASE)
"""Names of files that are hidden, or still being uploaded."""

MEGABYTE = 1_000_000
LONGEST_TEAM = 200
"""So many bytes may the name of a team have, of which that of its report is made."""


@dataclass(frozen=True)
class Upload:
    """A file of a team.

    Attributes:
        team: The team.
        file: The name of the file.
        modified: When it was last modified, as `TIME`.
        sha256: The hash of its bytes; empty if it was not read.
        staged: Its text, unpacked, as a file of ours; None if it cannot be read.
        problem: Why it cannot be read, if it cannot.
    """

    team: str
    file: str
    modified: str = ""
    sha256: str = ""
    staged: Path | None = None
    problem: Problem | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes an upload: other bytes under the same name are another one."""
        return self.team, self.file, self.sha256

    @property
    def run(self) -> str:
        """The name of the run."""
        return file_title(self.file)

    @property
    def rows(self) -> Path | None:
        """Its rows as a Parquet file of ours, once it is checked."""
        return self.staged and self.staged.with_suffix(".parquet")

    @property
    def system(self) -> str:
        """What its system is called: two teams may have runs of one name."""
        return f"{self.team}/{self.run}"


def uploads_of(track_file: TrackFile, staging: Path, notes: list[str]) -> Iterator[Upload]:
    """The uploads of all teams; what is none is noted.

    Args:
        track_file: The track.
        staging: The folder into which their texts are written.
        notes: What is noted.

    Raises:
        SpecError: If there is no folder of uploads.
    """
    folder = Path(track_file.uploads)
    if not folder.is_dir():
        raise SpecError(f"uploads: there is no folder {track_file.uploads!r}")
    for entry in _entries(folder, notes):
        entry_name = printable(entry.name)
        if UNFINISHED.fullmatch(entry.name):
            notes.append(f"{entry_name} is ignored: it is hidden or still being uploaded")
        elif not entry.is_dir(follow_symlinks=False):
            notes.append(f"{entry_name} is ignored: it is not the folder of a team")
        elif entry_name != entry.name or len(os.fsencode(entry.name)) > LONGEST_TEAM:
            notes.append(
                f"{entry_name} is ignored: the name of a team is at most {LONGEST_TEAM} bytes "
                "long, and printable"
            )
        else:
            yield from _of_team(Path(entry.path), track_file.limits.megabytes, staging, notes)


def _entries(folder: Path, notes: list[str]) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing, and a note, if it cannot be read."""
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        notes.append(f"{str(folder)!r} cannot be read: {error.strerror}")
        return []


def _of_team(folder: Path, megabytes: int, staging: Path, notes: list[str]) -> Iterator[Upload]:
    for entry in _entries(folder, notes):
        file_name = f"{folder.name}/{printable(entry.name)}"
        if UNFINISHED.fullmatch(entry.name):
            notes.append(f"{file_name} is ignored: it is hidden or still being uploaded")
        elif entry.is_dir(follow_symlinks=False):
            notes.append(
                f"{file_name} is ignored: it is a folder; uploads stand in that of the team"
            )
        else:
            yield _read(folder, entry.name, megabytes, staging)


def _read(folder: Path, name: str, megabytes: int, staging: Path) -> Upload:
    """A file as it is now, with its text beside the others."""
    upload = Upload(folder.name, name)
    try:
        if printable(name) != name:
            raise _unreadable(name, "has a name that is not printable", "give it another name")
        content, modified = _content(folder / name, megabytes)
        sha256 = hashlib.sha256(content).hexdigest()
        upload = replace(upload, modified=modified.strftime(TIME), sha256=sha256)
        text = _text(_unpacked(content, name, megabytes), name)
    except InputError as error:
        return replace(upload, problem=error.details[0])
    staged = staging / f"{len(os.listdir(staging))}.txt"
    staged.write_text(text, encoding="utf-8", newline="")
    return replace(upload, staged=staged)


def _unreadable(name: str, problem: str, remedy: str) -> InputError:
    return InputError([Problem(printable(name), problem, 1, remedy=remedy)])


def _within(content: bytes, name: str, megabytes: int) -> bytes:
    if len(content) > megabytes * MEGABYTE:
        remedy = "upload fewer items per topic"
        raise _unreadable(name, f"is larger than {megabytes:,} MB", remedy)
    return content


def _content(path: Path, megabytes: int) -> tuple[bytes, datetime]:
    """The bytes of a file and when it was modified; no link is followed, no pipe waited for.

    Raises:
        InputError: If it cannot be read, or is too large.
    """
    try:
        number = os.open(path, _FLAGS)
    except OSError as error:
        reason = "a link is not followed" if path.is_symlink() else error.strerror
        raise _unreadable(path.name, f"cannot be read: {reason}", "upload the file anew") from None
    with open(number, "rb") as file:
        state = os.fstat(number)
        if not stat.S_ISREG(state.st_mode):
            raise _unreadable(path.name, "cannot be read: it is no file", "upload a text file")
        content = _within(file.read(megabytes * MEGABYTE + 1), path.name, megabytes)
        return content, datetime.fromtimestamp(state.st_mtime, UTC)


def _unpacked(content: bytes, name: str, megabytes: int) -> bytes:
    """The same without gzip, if the name says so; no more is unpacked than the limit."""
    if not name.casefold().endswith(".gz"):
        return content
    try:
        with gzip.open(BytesIO(content)) as packed:
            return _within(packed.read(megabytes * MEGABYTE + 1), name, megabytes)
    except (OSError, EOFError, zlib.error):
        remedy = "upload it again, or as text"
        raise _unreadable(name, "cannot be unpacked by gzip", remedy) from None


def _text(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
        problem, end = "has a NUL character", content.find(b"\0")
    except UnicodeDecodeError as error:
        text, problem, end = "", "is not UTF-8", error.start
    if end >= 0:
        line = content.count(b"\n", 0, end) + 1
        raise _unreadable(
            name, f"{problem} in line {line:,}", "upload text, or text packed by gzip"
        )
    return text


_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a file of others is opened: no link is followed, no pipe is waited for."""

_LINE = "topic Q0 item rank score run"

_PROBLEMS = {
    "fields": ("row", "without six fields", f"write {_LINE} in each line, with blanks between"),
    "rank": ("row", "without a whole number as the rank", f"write {_LINE} in each line"),
    "score": ("row", "without a finite number as the score", f"write {_LINE} in each line"),
    "run": ("row", "of another run than {run}", "name the file like the run, its sixth field"),
    "repeated": ("item", "more than once in a list", "leave the second one out"),
    "order": ("item", "below others with a lower score", "sort by score, highest first, and rank"),
    "depth": ("topic", "with more than {depth} items", "leave the last ones out"),
    "unknown": ("topic", "that the track does not have", "leave them out"),
    "missing": ("topic", "without an item", "answer each; without any match, by one item"),
}
"""Problem -> what is counted, what is wrong with it, what to do."""


def problems_of(
    upload: Upload, track_file: TrackFile, topics: Path, engine: Database
) -> list[Problem]:
    """What is wrong with an upload, beside limits.

    Args:
        upload: The upload.
        track_file: What it must be.
        topics: A file of the topics.
        engine: Where it is read.
    """
    file_name = printable(upload.file)
    if upload.problem:
        return [upload.problem]
    if not re.fullmatch(track_file.naming, upload.run):
        problem = f"the name {upload.run!r} does not match {track_file.naming}"
        return [Problem(file_name, problem, 1, remedy="rename the file and the run in it")]
    separator = "\t" if have_tabs(first_rows([str(upload.staged)]), RUN) else ""
    view: dict[str, Any] = {
        "file": str(upload.staged),
        "rows": str(upload.rows),
        "relation": {"separator": separator},
    }
    try:
        engine.execute(print_template("comparison/upload_rows", view))
    except EngineError:  # the database has not the memory for such a text
        return [
            Problem(file_name, "cannot be read as lines", 1, remedy=f"write {_LINE} in each line")
        ]
    view = {
        "file": str(upload.rows),
        "topics": str(topics),
        "depth": track_file.limits.depth,
        "examples": EXAMPLES,
        "name": upload.run if track_file.run_tag == "same" else "",
    }
    found_rows: dict[str, list[tuple[int, int | None, str]]] = {}
    for problem, count, line, detail in engine.rows(
        print_template("comparison/upload_problems", view)
    ):
        found_rows.setdefault(problem, []).append((count, line, detail))
    return [
        _problem(name, found_rows[name], file_name, upload.run, track_file.limits.depth)
        for name in _PROBLEMS
        if name in found_rows
    ]


def _problem(
    name: str, rows: Sequence[tuple[int, int | None, str]], file_name: str, run: str, depth: int
) -> Problem:
    noun, message, remedy = _PROBLEMS[name]
    count = rows[0][0]
    text = f"{many(count, noun)} {message.format(run=run, depth=f'{depth:,}')}"
    if name == "missing":
        return Problem(file_name, text, count, [noun], [[detail] for _, _, detail in rows], remedy)
    examples = [[f"{line:,}", detail] for _, line, detail in rows]
    heading = {"run": "run", "unknown": "topic"}.get(name, "text")
    return Problem(file_name, text, count, ["line", heading], examples, remedy)
