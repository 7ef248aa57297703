"""`track`: uploads of teams are checked and evaluated; a page, and a report to each team."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlmetrics.comparison.leaderboard.board import Leaderboard
from sqlmetrics.comparison.leaderboard.leaderboard import leaderboard
from sqlmetrics.comparison.track.site import Decision, Track, check_site, write_reports, write_site
from sqlmetrics.comparison.track.uploads import (
    ACCEPTED,
    REFUSED,
    TIME,
    Entry,
    Ledger,
    Limits,
    TrackFile,
    Upload,
    problems_of,
    uploads_of,
)
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.inputs.guess import guessed
from sqlmetrics.evaluation.inputs.open import readable
from sqlmetrics.evaluation.inputs.paths import absent
from sqlmetrics.spec.source import Labels
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many, metric_value, printable

OF_TRACK = "the conventions of the track do not allow this"
"""What a team is told in place of the option that an organizer has."""


def track(path: str | Path, *, out: str | Path = "site", overwrite: bool = False) -> Track:
    """Check the uploads of a shared task, evaluate the good ones and refresh its page.

    Args:
        path: The YAML file of the track; see the page on tracks for its keys.
        out: The folder to publish: `index.html` and `leaderboard.csv`, and nothing else is
            written there. Reports to teams and the ledger of uploads stand in the folder `reports`
            of the track.
        overwrite: Whether to replace files of these names that no refresh wrote, too.

    Returns:
        Each upload, with why it is refused if it is; it prints as a table. A second refresh of the
        same uploads writes the same bytes.

    Raises:
        SpecError: If the track or its ledger cannot be read, or what must stay hidden would be
            published.
        InputError: If the labels would give wrong numbers.
    """
    track_file = TrackFile.read(path)
    _check_hidden(track_file, Path(path), Path(out))
    check_site(Path(out), overwrite=overwrite)
    ledger = Ledger.read(track_file.ledger)
    entries = {entry.key: entry for entry in ledger.entries()}
    notes: list[str] = []
    with TemporaryDirectory() as folder, connect() as engine:
        staging = Path(folder, "uploads")
        staging.mkdir()
        topics = Path(folder, "topics.txt")
        topics.write_text("\n".join(_topics(track_file, engine)), encoding="utf-8", newline="")
        uploads = [*uploads_of(track_file, staging, notes)]
        decisions = _decisions(uploads, entries, track_file, topics, engine)
        entries = _entries(decisions) | entries
        ledger = ledger.write(entries.values())  # times are kept, whatever comes of the evaluation
        decisions, board = _evaluated(decisions, track_file)
        values = _values(board, track_file.public.decimals)
        if board and track_file.public.show == "teams":
            board = _board(_best(decisions, board), track_file)
    metric = str(track_file.spec.measures[0])
    entries |= _entries(decisions, metric, values)
    ledger.write(entries.values())
    result = Track(
        decisions=tuple(sorted(decisions, key=lambda decision: decision.upload.key)),
        leaderboard=board,
        values=values,
        notes=(*notes, *(board.notes if board else ())),
    )
    teams = {upload.team for upload in uploads}
    history = [
        entry for entry in entries.values() if entry.metric == metric and entry.team in teams
    ]
    write_reports(result, track_file, overwrite=overwrite)
    write_site(result, track_file, history, Path(out), overwrite=overwrite)
    return result


def _check_hidden(track_file: TrackFile, path: Path, out: Path) -> None:
    """Raise SpecError if what is published would hold what is not."""
    hidden = {
        "the track": str(path),
        "labels": track_file.labels,
        "uploads": track_file.uploads,
        "reports": track_file.reports,
    }
    for name, place in hidden.items():
        if Path(place).resolve().is_relative_to(out.resolve()):
            raise SpecError(
                f"out: {str(out)!r} is the folder to publish, but has {str(place)!r} in it "
                f"({name}); give a folder of its own, like --out site"
            )


def _topics(track_file: TrackFile, engine: Database) -> list[str]:
    """The topics that each run must answer.

    Raises:
        SpecError: If there is none, or labels are of others.
    """
    source = Labels(file=track_file.labels)
    if problem := absent(source, engine):
        raise InputError(f"labels: {problem}")
    source, relation, _ = guessed("labels", source, readable(source, "labels", engine), engine)
    query = identifier(dict(relation.columns).get("query", source.columns.query))
    rows = engine.rows(f"select distinct cast({query} as varchar) from {source_text(relation)}")
    labelled = sorted(str(topic) for (topic,) in rows if topic is not None)
    if track_file.topics is None:
        return labelled
    note_read(track_file.topics)
    try:
        lines = Path(track_file.topics).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise SpecError(f"topics: cannot read {track_file.topics!r}: {reason}") from None
    topics = [*dict.fromkeys(line.partition("\t")[0].strip() for line in lines if line.strip())]
    others = sorted({*labelled} - {*topics})
    if others or not topics:
        labels = f", and {many(len(others), 'other')} in the labels, like {others[0]!r}"
        raise SpecError(
            f"topics: {track_file.topics!r} has {many(len(topics), 'topic')} (the text before the "
            f"first tab of each line){labels if others else ''}"
        )
    return topics


def _decisions(
    uploads: Sequence[Upload],
    entries: Mapping[tuple[str, str, str], Entry],
    track_file: TrackFile,
    topics: Path,
    engine: Database,
) -> list[Decision]:
    """The uploads in the order of time, with what is wrong with each."""
    now = datetime.now(UTC).strftime(TIME)
    is_first_seen = track_file.upload_time == "first_seen"
    times = {
        upload.key: entries[upload.key].uploaded
        if upload.key in entries
        else (now if is_first_seen else min(upload.modified, now))
        for upload in uploads
        if upload.sha256
    }
    rules = _Rules(track_file.limits)
    for key, entry in entries.items():
        if entry.status == ACCEPTED and key not in times:
            rules.count(entry.team, entry.uploaded)
    decisions = []
    for upload in sorted(uploads, key=lambda upload: (times.get(upload.key, ""), upload.key)):
        uploaded = times.get(upload.key, "")
        problems = problems_of(upload, track_file, topics, engine) or rules.check(upload, uploaded)
        status = REFUSED if problems else ACCEPTED
        decisions.append(Decision(upload, uploaded, status, tuple(problems)))
    return decisions


class _Rules:
    """What holds for the uploads of a team together, in the order of time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()
        self._names: dict[tuple[str, str], str] = {}

    def count(self, team: str, uploaded: str) -> None:
        """Count an upload that is accepted."""
        self._counts.update([(team, ""), (team, uploaded[:10])])

    def check(self, upload: Upload, uploaded: str) -> list[Problem]:
        """Why an upload without other problems is refused; if it is not, it counts."""
        found_problems = [
            Problem(printable(upload.file), what, 1, remedy=remedy)
            for what, remedy in self._problems(upload, uploaded)
        ]
        if not found_problems:
            self.count(upload.team, uploaded)
            self._names |= {
                (upload.team, upload.sha256): upload.file,
                (upload.team, upload.run): upload.file,
            }
        return found_problems

    def _problems(self, upload: Upload, uploaded: str) -> Iterator[tuple[str, str]]:
        limits, team = self._limits, upload.team
        if limits.closes and uploaded >= limits.closes.strftime(TIME):
            yield f"the track closed on {limits.closes:%Y-%m-%d at %H:%M} UTC", ""
        elif same := self._names.get((team, upload.sha256)):
            yield f"has the same content as {printable(same)}", "upload another run"
        elif same := self._names.get((team, upload.run)):
            yield f"is the run of {printable(same)}, too", "give it another name, or remove one"
        for limit, day, of_time in (
            (limits.uploads_per_team, "", "in all"),
            (limits.uploads_per_day, uploaded[:10], f"on {uploaded[:10]} (UTC)"),
        ):
            if limit is not None and self._counts[team, day] >= limit:
                yield f"no more than {many(limit, 'upload')} {of_time} may be accepted", ""


def _entries(
    decisions: Iterable[Decision],
    metric: str = "",
    values: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[tuple[str, str, str], Entry]:
    """What the ledger remembers of uploads that were read."""
    entries = {}
    for decision in decisions:
        upload = decision.upload
        value = (values or {}).get(upload.system, {}).get(metric, "")
        of_metric = (metric, value) if decision.is_accepted and value != "-" else ("", "")
        if upload.sha256:
            entries[upload.key] = Entry(decision.uploaded, *upload.key, decision.status, *of_metric)
    return entries


def _evaluated(
    decisions: list[Decision], track_file: TrackFile
) -> tuple[list[Decision], Leaderboard | None]:
    """The accepted runs in order, without those that the conventions refuse, such as ties."""
    try:
        return decisions, _board(decisions, track_file)
    except InputError:
        judged = [_alone(decision, track_file) for decision in decisions]
        if judged == decisions:
            raise
        return judged, _board(judged, track_file)


def _alone(decision: Decision, track_file: TrackFile) -> Decision:
    """An upload that is refused if it cannot be evaluated by itself, and the labels can."""
    try:
        _board([decision], track_file)
    except InputError as error:
        problems = [problem for problem in error.details if isinstance(problem, Problem)]
        if {problem.table for problem in problems} == {"rankings"}:
            name = printable(decision.upload.file)
            problems = [replace(problem, table=name, remedy=OF_TRACK) for problem in problems]
            return replace(decision, status=REFUSED, problems=tuple(problems))
    return decision


def _board(decisions: Iterable[Decision], track_file: TrackFile) -> Leaderboard | None:
    """The accepted runs in order; None if there is none."""
    runs = {
        decision.upload.system: str(decision.upload.rows)
        for decision in decisions
        if decision.is_accepted
    }
    if not runs:
        return None
    return leaderboard(
        runs,
        track_file.labels,
        track_file.metrics,
        preset=track_file.preset,
        unjudged_share=False,
        **track_file.conventions,
    )


def _best(decisions: Sequence[Decision], board: Leaderboard) -> list[Decision]:
    """The first run of each team."""
    by_system = {decision.upload.system: decision for decision in decisions if decision.is_accepted}
    best: dict[str, Decision] = {}
    for row in board.rows:
        if row["metric"] == board.sort_by:
            decision = by_system[row["system"]]
            best.setdefault(decision.upload.team, decision)
    return [*best.values()]


def _values(board: Leaderboard | None, decimals: int) -> dict[str, dict[str, str]]:
    """System -> metric -> its value as it is written."""
    values: dict[str, dict[str, str]] = {}
    for row in board.rows if board else ():
        values.setdefault(row["system"], {})[row["metric"]] = metric_value(row["value"], decimals)
    return values
