"""What a refresh writes: the page and its CSV for all, and a report to each team."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import sqlmetrics
from sqlmetrics.comparison.leaderboard.board import Leaderboard, letter_ranges
from sqlmetrics.comparison.page.page import environment
from sqlmetrics.comparison.page.picture import COLORS
from sqlmetrics.comparison.track.uploads import ACCEPTED, Entry, TrackFile, Upload
from sqlmetrics.engines.output_files import (
    begins_alike,
    check_output,
    has_mark,
    output_folder,
    refuse_existing,
)
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.sql.relation import file_title
from sqlmetrics.tables.table import Table, many, printable, wrapped
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular

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
    shown = " The best run of each team is shown." if track_file.public.show == "teams" else ""
    decimals = many(track_file.public.decimals, "decimal")
    about = f"Ordered by {metric}; click a heading to sort by it.{shown}"
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
