"""`track`: uploads of teams are checked and evaluated; a page, and a report to each team."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import sqlmetrics
from sqlmetrics.comparison.leaderboard.board import Leaderboard, letter_ranges
from sqlmetrics.comparison.leaderboard.leaderboard import leaderboard
from sqlmetrics.comparison.page.page import environment
from sqlmetrics.comparison.page.picture import COLORS
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
from sqlmetrics.engines.output_files import (
    begins_alike,
    check_output,
    has_mark,
    note_read,
    output_folder,
    refuse_existing,
)
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.inputs.guess import guessed
from sqlmetrics.evaluation.inputs.open import readable
from sqlmetrics.evaluation.inputs.paths import absent
from sqlmetrics.spec.source import Labels
from sqlmetrics.sql.relation import file_title, source_text
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import Table, many, metric_value, printable, wrapped
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular

# What a refresh writes: the page and its CSV for all, and a report to each team.

# What a refresh of a track found: each upload, accepted or refused.

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
            "problems": "; ".join(problem.message for problem in self.problems) or None,
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


MARK = b'<meta name="generator" content="sqlmetrics track">'
"""What stands in each page."""

HEADING = "sqlmetrics track report"
"""How a report begins."""


def write_reports(result: Track, track_file: TrackFile, *, overwrite: bool) -> None:
    """Write a report to each team: `<team>.txt`, in the folder of reports."""
    decisions_by_team: dict[str, list[Decision]] = {}
    for decision in result.decisions:
        decisions_by_team.setdefault(decision.upload.team, []).append(decision)
    with output_folder(track_file.reports, overwrite=overwrite) as staging:
        for team, decisions in decisions_by_team.items():
            blocks = _report(team, decisions, result, track_file)
            text = "\n\n".join(filter(None, blocks)) + "\n"
            (staging / f"{team}.txt").write_text(text, encoding="utf-8", newline="")


def _report(
    team: str, decisions: Sequence[Decision], result: Track, track_file: TrackFile
) -> Iterator[str]:
    """What a team is told of its uploads."""
    accepted = [decision for decision in decisions if decision.is_accepted]
    refused = [decision for decision in decisions if not decision.is_accepted]
    yield f"{HEADING}: {printable(track_file.track)}, team {team}"
    yield f"{many(len(accepted), 'run')} accepted, {len(refused):,} refused"
    if accepted:
        values = [result.values[decision.upload.system] for decision in accepted]
        rows = [
            [decision.upload.run, _time(decision.uploaded), *of_run.values()]
            for decision, of_run in zip(accepted, values, strict=True)
        ]
        headings = result.leaderboard.headings if result.leaderboard else {}
        columns = ["run", "uploaded (UTC)", *(headings[metric] for metric in values[0])]
        yield Table(columns, rows, n_labels=2).text(full_width=True)
    for decision in refused:
        when = f", uploaded {_time(decision.uploaded)} UTC" if decision.uploaded else ""
        yield f"refused: {printable(decision.upload.file)}{when}"
        yield from map(str, decision.problems)


def check_site(out: Path, *, overwrite: bool) -> None:
    """Raise SpecError for a page or table that no refresh wrote, before anything is computed."""
    page = out / "index.html"
    check_output(out / "leaderboard.csv", b"rank,team,run", overwrite=overwrite)
    if page.exists() and not overwrite and not has_mark(MARK)(page, page):
        refuse_existing([page])


def write_site(
    result: Track, track_file: TrackFile, history: Iterable[Entry], out: Path, *, overwrite: bool
) -> None:
    """Write the page and its table, which are all that is published."""
    board = result.leaderboard
    rows = [*_rows(result, board)] if board else []
    measure = track_file.spec.measures[0]
    metric = board.headings[board.sort_by] if board else str(measure)
    view = {
        "title": track_file.track,
        **_words(result, track_file, metric, rows),
        "metric": metric,
        "columns": [*_columns(rows, board)],
        "is_first": [row["rank"] == "1" for row in rows],
        "history": _history(history, metric, is_lower=measure.metric.better == "lower"),
        "light": {name: color for color, (name, _) in COLORS.items()},
        "dark": dict(COLORS.values()),
        "version": sqlmetrics.__version__,
    }
    with output_folder(out, overwrite=overwrite, is_ours=_is_ours) as staging:
        page = environment().get_template("track.html.jinja").render(view)
        (staging / "index.html").write_text(page, encoding="utf-8", newline="")
        with (staging / "leaderboard.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*rows[0]] if rows else ["rank", "team", "run"])
            writer.writerows(row.values() for row in rows)


def _is_ours(file: Path, new: Path) -> bool:
    return has_mark(MARK)(file, new) if file.suffix == ".html" else begins_alike(file, new)


def _rows(result: Track, board: Leaderboard) -> Iterator[dict[str, str]]:
    """The rows of the page and of the CSV: texts alone, with values rounded."""
    decisions = {
        decision.upload.system: decision for decision in result.decisions if decision.is_accepted
    }
    by_metric: dict[str, dict[str, Row]] = {}
    for row in board.rows:
        by_metric.setdefault(row["metric"], {})[row["system"]] = row
    for system, row in by_metric[board.sort_by].items():
        decision = decisions[system]
        cells = {
            "rank": "-" if row["rank"] is None else str(row["rank"]),
            "team": decision.upload.team,
            "run": decision.upload.run,
        }
        for metric in (board.sort_by, *(name for name in board.headings if name != board.sort_by)):
            heading = board.headings[metric]
            cells[heading] = result.values[system][metric]
            if any(of_system["group"] for of_system in by_metric[metric].values()):
                letters = letter_ranges(by_metric[metric][system]["group"] or "")
                cells[f"group {heading}"] = letters
            if metric == board.sort_by and row["rank_low"] is not None:
                cells |= {end: str(row[end]) for end in ("rank_low", "rank_high")}
        yield {**cells, "uploaded": decision.uploaded}


def _time(uploaded: str) -> str:
    """A time of the ledger as people read it."""
    return uploaded[:16].replace("T", " ")


def _columns(rows: Sequence[Mapping[str, str]], board: Leaderboard | None) -> Iterator[Row]:
    """The columns of the page: the heading, how it looks, and what stands in it."""
    for name in rows[0] if board and rows else ():
        column: Row = {"title": name, "kind": "number", "cells": [row[name] for row in rows]}
        if name in ("team", "run"):
            column |= {"kind": "name"}
        elif name.startswith("group "):
            column |= {"title": "group", "kind": "group"}
        elif name == "uploaded":
            times = [_time(row[name]) for row in rows]
            column |= {"title": "uploaded (UTC)", "kind": "time", "cells": times}
        elif name == "rank_low":
            ends = [dict.fromkeys((row["rank_low"], row["rank_high"])) for row in rows]
            level = board.methods.test.level if board else 0
            column |= {
                "title": f"rank {100 * level:g} %",
                "cells": ["-".join(pair) for pair in ends],
            }
        if name != "rank_high":
            yield column


def _words(
    result: Track, track_file: TrackFile, metric: str, rows: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    """The sentences of the page."""
    board = result.leaderboard
    if board is None:
        paragraphs = ["Judgments are hidden."]
        return {"headline": "No upload is accepted yet", "counts": "", "paragraphs": paragraphs}
    leaders = [row for row in rows if row["rank"] == "1"]
    headline = f"No run has a value of {metric}"
    if leaders:
        names = " and ".join(f"{row['team']}: {row['run']}" for row in leaders[:3])
        headline = f"The best {metric} is {leaders[0][metric]}, of {names}"
    accepted = [decision for decision in result.decisions if decision.is_accepted]
    n_teams = len({decision.upload.team for decision in accepted})
    last = max(decision.uploaded for decision in accepted)
    note = " The best run of each team is shown." if track_file.public.show == "teams" else ""
    decimals = many(track_file.public.decimals, "decimal")
    about = f"Ordered by {metric}; click a heading to sort by it.{note}"
    if any(row["group"] for row in board.rows):
        about += " Runs that share a letter of a group do not differ."
    return {
        "headline": headline,
        "counts": f"{many(len(accepted), 'run')} of {many(n_teams, 'team')}; the last upload was "
        f"on {_time(last)} UTC.",
        "about": about,
        "paragraphs": [
            board.methods_text(),
            f"Values are rounded to {decimals}; ranks, intervals and groups are made of all "
            "digits. Judgments are hidden: nothing on this page is of a single topic.",
        ],
    }


def _history(entries: Iterable[Entry], metric: str, *, is_lower: bool) -> dict[str, Any]:
    """The uploads that were better than all before them, and where they stand in the chart."""
    sign = -1 if is_lower else 1
    # of those of one time the best comes first
    ordered = sorted(entries, key=lambda entry: (entry.uploaded, -sign * float(entry.value)))
    best: list[Entry] = []
    for entry in ordered:
        if not best or sign * (float(entry.value) - float(best[-1].value)) > 0:
            best.append(entry)
    if not best:
        return {"rows": []}
    rows = [
        {
            "uploaded": _time(entry.uploaded),
            "team": entry.team,
            "run": file_title(entry.file),
            "value": entry.value,
        }
        for entry in reversed(best)
    ]
    about = (
        f"{len(best):,} uploads were better than all before them: {metric} went from "
        f"{best[0].value} to {best[-1].value}."
    )
    if len(best) < 2:
        return {"rows": rows, "about": "No later upload was better.", "dots": []}
    return {"rows": rows, "about": about, **_chart(best, ordered[-1].uploaded)}


def _chart(best: Sequence[Entry], last: str) -> dict[str, Any]:
    """Steps in a square of 100: time to the right, the value upwards."""
    times = [*(entry.uploaded for entry in best), last]
    seconds = [datetime.fromisoformat(uploaded).timestamp() for uploaded in times]
    numbers = [float(entry.value) for entry in best]
    low, high = min(numbers), max(numbers)
    span = seconds[-1] - seconds[0]
    across = [f"{100 * (second - seconds[0]) / span:.2f}" for second in seconds]
    down = [f"{100 * (high - number) / (high - low):.2f}" for number in numbers]
    steps = "".join(f"V{y}H{x}" for x, y in zip(across[1:], down, strict=True))
    return {
        "line": f"M{across[0]} {down[0]}{steps}",
        "dots": [f"{x} {y}" for x, y in zip(across, down, strict=False)],
        "scale": [best[numbers.index(high)].value, best[numbers.index(low)].value],
        "days": [best[0].uploaded[:10], last[:10]],
    }


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
    for name, hidden_path in hidden.items():
        if Path(hidden_path).resolve().is_relative_to(out.resolve()):
            raise SpecError(
                f"out: {str(out)!r} is the folder to publish, but has {str(hidden_path)!r} in it "
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
    unknown_topics = sorted({*labelled} - {*topics})
    if unknown_topics or not topics:
        labels = (
            f", and {many(len(unknown_topics), 'other')} in the labels, like {unknown_topics[0]!r}"
        )
        raise SpecError(
            f"topics: {track_file.topics!r} has {many(len(topics), 'topic')} (the text before the "
            f"first tab of each line){labels if unknown_topics else ''}"
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
            Problem(printable(upload.file), problem, 1, remedy=remedy)
            for problem, remedy in self._problems(upload, uploaded)
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
