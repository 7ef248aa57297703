"""A shared task: what is accepted, what is refused and why, and what nobody gets to see."""

from __future__ import annotations

import csv
import gzip
import os
import random
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm

TRACK = """\
version: 1
track: Passages <2026>
labels: qrels.txt
metrics: [ndcg@5, map]
preset: trec_eval
limits: {depth: 6, uploads_per_team: 2}
public: {decimals: 2}
"""
TOPICS = [f"topic-{number}" for number in range(8)]
TEAMS = {"blue": "deep", "O'Hara & <b>sons": "deep", "red team": "bm25"}


def lines(run: str, seed: int, topics: list[str] = TOPICS) -> list[str]:
    """A run: six items per topic, some of which are relevant."""
    chance = random.Random(seed)
    return [
        f"{topic} Q0 {topic}/item-{item} {rank} {10 - rank} {run}"
        for topic in topics
        for rank, item in enumerate(chance.sample(range(12), 6), 1)
    ]


def put(folder: Path, team: str, file: str, rows: list[str]) -> Path:
    """Upload a run."""
    path = folder / "uploads" / team / file
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(rows).encode()
    path.write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A track of three teams, each with a good run."""
    chance = random.Random(1)
    labels = [f"{t} 0 {t}/item-{item} {chance.randrange(3)}" for t in TOPICS for item in range(10)]
    (tmp_path / "qrels.txt").write_text("\n".join(labels))
    (tmp_path / "track.yml").write_text(TRACK)
    for seed, (team, run) in enumerate(TEAMS.items()):
        put(tmp_path, team, f"{run}.txt", lines(run, seed))
    return tmp_path


def refresh(folder: Path) -> sm.Track:
    """The uploads after a refresh."""
    return sm.track(folder / "track.yml", out=folder / "site")


def output_files(folder: Path) -> dict[str, bytes]:
    """All that a refresh writes."""
    files = [path for name in ("site", "reports") for path in (folder / name).rglob("*.*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def ledger(folder: Path) -> list[dict[str, str]]:
    """The uploads that were ever seen."""
    with (folder / "reports" / "uploads.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def test_a_page_has_rounded_values_of_the_leaderboard_and_nothing_hidden(folder: Path) -> None:
    result = refresh(folder)
    files = output_files(folder)
    assert {*files} == {
        *("site/index.html", "site/leaderboard.csv", "reports/uploads.csv"),
        *(f"reports/{team}.txt" for team in TEAMS),
    }
    runs = {
        f"{team}/{run}": str(folder / "uploads" / team / f"{run}.txt")
        for team, run in TEAMS.items()
    }
    board = sm.leaderboard(runs, str(folder / "qrels.txt"), ["ndcg@5", "map"], preset="trec_eval")
    wanted = {
        (row["system"], {"ap": "map"}.get(row["metric"], row["metric"])): row for row in board.rows
    }
    with (folder / "site" / "leaderboard.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [f"{row['team']}/{row['run']}" for row in rows] == [
        row["system"] for row in board.rows if row["metric"] == "ndcg@5"
    ]
    for row in result.leaderboard or ():
        name = {"ap": "map"}.get(row["metric"], row["metric"])
        assert row["value"] == pytest.approx(wanted[row["system"], name]["value"], abs=1e-12)
    for row in rows:
        for metric in ("ndcg@5", "map"):
            of_board = wanted[f"{row['team']}/{row['run']}", metric]
            assert row[metric] == f"{of_board['value']:.2f}"
            assert row[f"group {metric}"] == of_board["group"]
        assert int(row["rank"]) == wanted[f"{row['team']}/{row['run']}", "ndcg@5"]["rank"]
    page = files["site/index.html"].decode()
    assert "O&#39;Hara &amp; &lt;b&gt;sons" in page
    assert "Passages &lt;2026&gt;" in page
    assert "<b>" not in page
    for name, content in files.items():
        text = content.decode()
        assert not re.findall(r"topic-\d|item-\d|unjudged", text), name
        assert not re.findall(
            r"\d\.\d{3}", re.sub(r"--\S+|<style>.*?</style>", "", text, flags=re.S)
        ), name
    refresh(folder)
    assert output_files(folder) == files


BAD = {
    "fields.txt": (
        ["topic-0 Q0 a 1 9 fields", "", "# of it", "topic-1 Q0 b 1 9"],
        "1 row without six fields",
        "4     topic-1 Q0 b 1 9",
    ),
    "rank.txt": (["topic-0 Q0 a first 9 rank"], "1 row without a whole number as the rank", "1 "),
    "score.txt": (["topic-0 Q0 a 1 nan score"], "1 row without a finite number as the score", "1 "),
    "empty.txt": ([], "8 topics without an item", "topic-2"),
    "some.txt": (lines("some", 9, TOPICS[1:]), "1 topic without an item", "topic-0"),
    "alien.txt": (
        [*lines("alien", 9), "topic-9 Q0 a 1 9 alien"],
        "1 topic that the track does not have",
        "49    topic-9",
    ),
    "twice.txt": (
        [*lines("twice", 9)[:-1], lines("twice", 9)[0]],
        "1 item more than once in a list",
        "48    topic-0",
    ),
    "deep.txt": (
        [*lines("deep", 9), "topic-3 Q0 a 7 1 deep"],
        "1 topic with more than 6 items",
        "topic-3: 7 items",
    ),
    "order.txt": (
        [*lines("order", 9)[:-1], "topic-7 Q0 a 6 99 order"],
        "1 item below others with a lower score",
        "48    topic-7 Q0 a 6 99 order",
    ),
    "tag.txt": (lines("other", 9), "48 rows of another run than tag", "1     other"),
    "<script>.txt": (lines("<script>", 9), "the name '<script>' does not match", "rename"),
    "double.txt.gz": (["topic-0 Q0 a 1 9 x\0"], "has a NUL character in line 1", "upload text"),
}


def test_bad_uploads_are_left_aside_with_their_reasons(folder: Path) -> None:
    for file, (rows, *_) in BAD.items():
        put(folder, "blue", f"{file}" if file != "deep.txt" else "deep.res", rows)
    (folder / "uploads" / "blue" / "packed.txt.gz").write_text("no gzip")
    (folder / "uploads" / "blue" / "latin.txt").write_bytes(b"topic-0 Q0 a 1 9 latin\n\xe9")
    (folder / "uploads" / "blue" / "link.txt").symlink_to(folder / "qrels.txt")
    put(folder, "blue", "new.txt.part", [])
    put(folder, "red team", ".hidden", [])
    put(folder, "red team", "same.txt", lines("bm25", 2))
    tabs = [line.replace(" ", "\t").replace("item", "an item") for line in lines("tabs", 3)]
    put(folder, "green", "tabs.tsv", tabs)
    (folder / "uploads" / "stray.txt").write_text("")
    (folder / "uploads" / "linked").symlink_to(folder)
    (folder / "track.yml").write_text(TRACK + "run_tag: any\n")
    row_by_file = {(row["team"], row["file"]): row for row in refresh(folder)}
    assert row_by_file["red team", "same.txt"]["problems"] == "has the same content as bm25.txt"
    assert row_by_file["blue", "tag.txt"]["status"] == "accepted"
    (folder / "track.yml").write_text(TRACK)
    result = refresh(folder)
    assert {row["team"]: row["run"] for row in result if row["status"] == "accepted"} == {
        **TEAMS,
        "green": "tabs",
    }
    report = (folder / "reports" / "blue.txt").read_text()
    for file, (_, problem, example) in BAD.items():
        part = report.partition(f"refused: {file.replace('deep.txt', 'deep.res')}")[2]
        assert problem in (text := part.partition("refused: ")[0]), file
        assert example in text, file
    for problem in (
        "packed.txt.gz: cannot be unpacked by gzip",
        "latin.txt: is not UTF-8 in line 2",
        "link.txt: cannot be read: a link is not followed",
    ):
        assert problem in report
    notes = " ".join(result.notes)
    for name in ("blue/new.txt.part", "red team/.hidden", "stray.txt", "linked"):
        assert f"{name} is ignored" in notes


@by_turns(2)
def test_a_replaced_upload_counts_and_its_value_stays(folder: Path) -> None:
    first = put(folder, "blue", "deep.txt", lines("deep", 7)).read_bytes()
    refresh(folder)
    put(folder, "blue", "deep.txt", lines("deep", 8))
    refresh(folder)
    put(folder, "blue", "third.txt", lines("third", 9))
    statuses = {row["file"]: row["status"] for row in refresh(folder) if row["team"] == "blue"}
    assert statuses == {"deep.txt": "accepted", "third.txt": "refused"}
    assert (
        "no more than 2 uploads in all may be accepted" in (folder / "reports/blue.txt").read_text()
    )
    entries = [row for row in ledger(folder) if row["team"] == "blue"]
    assert [row["status"] for row in entries if row["file"] == "deep.txt"] == ["accepted"] * 2
    assert len({row["value"] for row in entries}) == 3  # two values, and none
    (folder / "uploads/blue/deep.txt").write_bytes(first)
    statuses = {row["file"]: row["status"] for row in refresh(folder) if row["team"] == "blue"}
    assert statuses == {"deep.txt": "accepted", "third.txt": "refused"}
    assert [row for row in ledger(folder) if row["team"] == "blue"] == entries


@by_turns(1)
def test_days_and_the_close_of_a_track_are_those_of_utc(folder: Path) -> None:
    limits = "upload_time: modified\nlimits: {uploads_per_day: 1, closes: 2026-05-03T02:00+02:00}"
    (folder / "track.yml").write_text(re.sub("limits:.*", limits, TRACK))
    times = {
        "a": "2026-05-01T23:59:59+00:00",
        "b": "2026-05-01T00:00:00+00:00",
        "c": "2026-05-02T00:00:00+00:00",
        "d": "2026-05-03T00:00:00+00:00",
        "e": "2999-01-01T00:00:00+00:00",  # of a clock that is wrong: it is uploaded now
    }
    for seed, (run, time) in enumerate(times.items()):
        path = put(folder, "blue", f"{run}.txt", lines(run, seed))
        os.utime(path, (datetime.fromisoformat(time).timestamp(),) * 2)
    (folder / "uploads/blue/deep.txt").unlink()
    problems = {row["run"]: row["problems"] for row in refresh(folder) if row["team"] == "blue"}
    assert problems == {
        "a": "no more than 1 upload on 2026-05-01 (UTC) may be accepted",
        **dict.fromkeys("bc"),
        **dict.fromkeys("de", "the track closed on 2026-05-03 at 00:00 UTC"),
    }
    page = (folder / "site" / "index.html").read_text()
    assert "2026-05-02 00:00" in page


@by_turns(1.5)
def test_the_best_run_of_each_team_alone_is_ranked(folder: Path) -> None:
    put(folder, "blue", "other.txt", lines("other", 5))
    assert len(refresh(folder).leaderboard or ()) == 8
    (folder / "track.yml").write_text(TRACK.replace("decimals: 2", "decimals: 2, show: teams"))
    board = refresh(folder).leaderboard
    assert board is not None
    systems = [row["system"] for row in board if row["metric"] == "ndcg@5"]
    assert len(systems) == 3
    assert sum(name.startswith("blue/") for name in systems) == 1
    assert "The best run of each team is shown" in (folder / "site/index.html").read_text()


@by_turns(1)
def test_a_team_cannot_stop_the_others_by_what_conventions_refuse(folder: Path) -> None:
    (folder / "track.yml").write_text(TRACK + "conventions: {ties: error}\n")
    tied = [re.sub(r"\d deep$", "1 deep", line) for line in lines("deep", 4)]
    put(folder, "blue", "deep.txt", tied)
    rows = {row["team"]: row["problems"] for row in refresh(folder)}
    assert rows == {"blue": "equal scores in one list: 8"} | dict.fromkeys([*TEAMS][1:])


def test_what_is_wrong_is_told_before_anything_is_written(folder: Path) -> None:
    refresh(folder)
    files = output_files(folder)
    text = (
        TRACK.replace("depth", "dept")
        .replace("map", "mapp")
        .replace("track:", "naming: '('\ntrack:")
    )
    cases: list[tuple[str, Any, str]] = [
        ("track.yml", text, "unknown key 'dept'; did you mean 'depth'?"),
        ("track.yml", TRACK.replace("map", "mapp"), "unknown metric 'mapp'; did you mean"),
        ("track.yml", TRACK.replace("qrels", "labels"), "labels: there is no file 'labels.txt'"),
        ("track.yml", TRACK + "topics: topics.txt\n", "7 others in the labels, like 'topic-1'"),
        ("track.yml", TRACK + "uploads: drop\n", "there is no folder"),
        ("track.yml", TRACK + "reports: site/reports\n", "is the folder to publish"),
        ("reports/uploads.csv", "uploaded,team\n", "cannot be read, line 1"),
        ("site/index.html", "<p>mine</p>", "not written by this command"),
    ]
    (folder / "topics.txt").write_text("topic-0\tthe first\n")
    for name, content, message in cases:
        path = folder / name
        before = path.read_text()
        path.write_text(content)
        result = sqlmetrics("track", "track.yml", folder=folder, expect=2)
        assert message in result.stderr, result.stderr
        assert path.read_text() == content
        path.write_text(before)
    completed = sqlmetrics("show", "track.yml", folder=folder, expect=2)
    assert "is a shared task, not a spec; use sqlmetrics track" in completed.stderr
    assert output_files(folder) == files
