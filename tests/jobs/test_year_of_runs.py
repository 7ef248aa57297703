"""A year of three teams' nights: each number that was ever published is there, or was given up.

Data come late, are missing for a night and go after 30 days; labels change, metrics and definitions
come and go, runs are killed, two schedulers start at once, bad nights are taken back, and a team
retires for good. Usual nights run in this process, those with kills in others, and what a person
does goes through the commands. `SQLMETRICS_NIGHTS=40` is a shorter year; `pytest -s` prints what
`runs` says of it.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import sqlmetrics
from job_days import FIRST
from killed_runs import killed, spawning
from marked import by_night

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.history.log import effects
from sqlmetrics.jobs.missing_days import parts
from sqlmetrics.jobs.run import write

NIGHTS = int(os.environ.get("SQLMETRICS_NIGHTS", "365"))
TEAMS = ("search", "ads", "feed")
KEEP = {"search": "400 days", "ads": 30, "feed": "400 days"}
METRICS = (["mrr", "ndcg@3"], ["ndcg@3", "hit@1"], ["mrr", "ndcg@3", "recall@5"])
KEY = "spec, metric_date, system, segment_name, segment_value, metric, k"
LOOKBACK = 3
Numbers = set[tuple[str, ...]]
"""Rows of the fact table as texts: the key, the value, and the run."""


def spec_of(team: str, night: int, nights: int) -> dict[str, Any]:
    """A team's spec: its metrics come and go, and that of ads has another gain now and then."""
    season = min(45, nights // 3)
    metrics = METRICS[(night // season + TEAMS.index(team)) % len(METRICS)]
    gain = "linear" if team == "ads" and night * 3 // nights % 2 else "exp"
    return {
        "version": 1,
        "name": team,
        "rankings": {
            "relation": "runs",
            "columns": {"score": "score", "system": "system", "date": "ds"},
        },
        "labels": {"relation": "truth"},
        "metrics": metrics,
        "conventions": {"gain": gain},
        "by": ["country"],
        "output": {
            "relation": "metrics",
            "per_query": f"queries_of_{team}",
            "keep": KEEP[team],
        },
    }


def new_day(engine: Database, night: int, retention: int, chance: random.Random) -> None:
    """The rankings of a day, some of them late; the oldest ones go, and labels change."""
    day, late = FIRST + timedelta(night), FIRST + timedelta(night - 2)
    days = [] if night % 13 == 12 else [day]  # the whole day is late
    days += [day - timedelta(1)] if night % 13 == 0 and night else []
    rows = [
        f"('{ds}', '{system}', '{country}', 'q{query}', 'i{item}', {chance.randrange(9)}e0)"
        for ds in ([*days, late] if night % 5 == 4 else days)
        for system in ("new", "old")
        for query in ([9] if ds == late else range(4))
        for country in ("DE" if query % 2 else "FR",)
        for item in range(3)
    ]
    if rows:
        engine.execute(f"insert into runs values {', '.join(rows)}")
    engine.execute(f"delete from runs where ds < '{FIRST + timedelta(night - retention)}'")
    if night % 3 == 0:
        grade, item = chance.randrange(4), chance.randrange(3)
        engine.execute(f"update truth set grade = {grade} where item_id = 'i{item}'")


def run_night(url: str, spec: Mapping[str, Any], stop: Callable[[Database], None] | None) -> None:
    """What a scheduler starts: the last three days."""
    the_spec = sm.Spec(**spec)
    with connect(url) as engine:
        if stop:
            stop(engine)
        for part in parts(the_spec, engine, backfill=False, lookback=LOOKBACK):
            write(the_spec, engine, part)


class Year:
    """Three teams' tables in one database, and all that was ever published in them."""

    def __init__(self, folder: Path, url: str, nights: int) -> None:
        self.folder, self.url, self.nights = folder, url, nights
        self.retention = min(30, nights // 4)
        self.chance = random.Random(3)
        self.night = 0
        self.published: Numbers = set()
        self.given_up: Numbers = set()
        self.given_up_keys: Numbers = set()
        self.counts: Counter[str] = Counter()
        countries = "ds date, system varchar, country varchar, query_id varchar, "
        grades = [
            f"('q{query}', 'i{item}', {self.chance.randrange(4)})"
            for query in (*range(4), 9)
            for item in range(3)
        ]
        with connect(url, create=True) as engine:
            engine.execute(f"create table runs ({countries}item_id varchar, score double)")
            engine.execute("create table truth (query_id varchar, item_id varchar, grade integer)")
            engine.execute(f"insert into truth values {', '.join(grades)}")

    def spec(self, team: str) -> dict[str, Any]:
        """The spec of tonight; it is in the team's file."""
        fields = spec_of(team, self.night, self.nights)
        (self.folder / f"{team}.yml").write_text(yaml.safe_dump(fields), "utf-8")
        return fields

    def call(self, command: str, team: str, *options: str, expect: int = 0) -> str:
        """What a person types; what it says."""
        line = (command, f"{team}.yml", *options, "--connection", self.url)
        completed = sqlmetrics(*line, folder=self.folder, expect=expect)
        return completed.stdout + completed.stderr

    def numbers(self, team: str, table: str = "metrics", days: int = 0) -> Numbers:
        """The rows of a team, of the last days or of all."""
        first = FIRST + timedelta(self.night - days)
        where = f" and metric_date >= '{first}'" if days else ""
        query = f"select {KEY}, value, run_id from {table} where spec = '{team}'{where}"
        with connect(self.url) as engine:
            rows = engine.rows(query) if engine.find(table) else []
        return {tuple(map(str, row)) for row in rows}

    def record_published(self, team: str, days: int = LOOKBACK + 1) -> None:
        """What dashboards show now."""
        self.published |= self.numbers(team, days=days)

    def live(self) -> None:
        """All nights."""
        for night in range(self.nights):
            self.night = night
            with connect(self.url) as engine:
                new_day(engine, self.night, self.retention, self.chance)
                if self.night % 17 == 16:
                    self.outage(engine)
            for team in TEAMS:
                self.one_night(team)
            if self.night % 17 == 16:
                with connect(self.url) as engine:
                    engine.execute("insert into runs select * from hidden")
                    engine.execute("drop table hidden")

    def outage(self, engine: Database) -> None:
        """A day and a system of another one are not in the source tonight."""
        last, before = (FIRST + timedelta(self.night - back) for back in (1, 2))
        gone = f"ds = '{last}' or (ds = '{before}' and system = 'old')"
        engine.execute(f"create table hidden as select * from runs where {gone}")
        engine.execute(f"delete from runs where {gone}")

    def one_night(self, team: str) -> None:
        """What happens to a team tonight."""
        before, spec = spec_of(team, max(0, self.night - 1), self.nights), self.spec(team)
        if spec["conventions"] != before["conventions"]:
            self.redefined(team)
        elif spec["metrics"] != before["metrics"]:
            self.other_metrics(team)
        earlier_keys = keys_of(self.numbers(team))
        self.schedulers(spec)
        run_night(self.url, spec, None)
        self.counts["runs in this process"] += 1
        self.record_published(team)
        gone = earlier_keys - keys_of(self.numbers(team))
        assert not gone or self.night % 17 == 16, "rows go in an outage alone"
        self.given_up_keys |= gone
        self.counts["replaced by nothing, and told"] += len(gone)
        if self.night % 9 == 8:
            self.bad_night(team, spec)
        if self.night % 10 == 9 and self.night > self.retention and team != "ads":
            # the source has not all any more; of ads nothing may be left to lose
            assert "--allow-loss" in self.call("run", team, "--full-refresh", expect=2)
            self.counts["refusals"] += 1
        if team == "feed" and self.night == self.nights * 3 // 4:
            self.retired(team)

    def redefined(self, team: str) -> None:
        """Another definition: refused, and then computed anew after what goes was agreed to."""
        assert "another definition" in self.call("run", team, "--lookback", "3", expect=2)
        message = self.call("run", team, "--full-refresh", expect=2)
        self.counts["refusals"] += 2
        days = re.search(r"--allow-loss (\d+) lets", message)
        assert days, message
        before = self.numbers(team)
        self.call("run", team, "--full-refresh", "--allow-loss", days[1], "--note", "other gain")
        keys = keys_of(before) - keys_of(self.numbers(team))
        assert len({key[1] for key in keys}) == int(days[1])
        self.give_up({row for row in before if row[:7] in keys})
        self.record_published(team, days=0)

    def other_metrics(self, team: str) -> None:
        """Metrics came and went: the new ones are filled in, in small batches."""
        before = self.numbers(team)
        self.call("run", team, "--backfill", "--batch-days", "10")
        assert before <= self.numbers(team), "a backfill changes no number that is there"
        self.counts["backfills"] += 1
        self.record_published(team, days=0)

    def schedulers(self, spec: Mapping[str, Any]) -> None:
        """What goes wrong on some nights: a run is killed, or two start at once."""
        if self.night % 7 == 6:
            stop = partial(killed, number=self.chance.randrange(5, 60))
            process = self.started(spec, stop)
            process.join(300)
            self.counts["kills"] += int(process.exitcode != 0)
            self.record_published(spec["name"])
        if self.night % 11 == 10:
            processes = [self.started(spec) for _ in range(2)]
            for process in processes:
                process.join(300)
            ends = sorted(process.exitcode for process in processes)
            # a DuckDB file has one process: the other is refused, or comes after it
            assert ends == [0, 0] or (ends == [0, 1] and self.url.startswith("duckdb")), ends
            self.counts["nights of two schedulers"] += 1
            self.counts["of these, one refused by the file's lock"] += sum(ends)
            self.record_published(spec["name"])

    def started(self, spec: Mapping[str, Any], stop: Any = None) -> Any:
        """A run in a process of its own."""
        process = spawning.Process(target=run_night, args=(self.url, spec, stop))
        process.start()
        return process

    def bad_night(self, team: str, spec: Mapping[str, Any]) -> None:
        """A run by wrong labels, taken back."""
        before = self.numbers(team)
        self.wrong_labels()
        run_night(self.url, spec, None)
        self.record_published(team)
        self.call("restore", team, "last", "--note", "wrong labels")
        assert self.numbers(team) == before
        self.wrong_labels()
        self.counts["runs taken back"] += 1

    def wrong_labels(self) -> None:
        """Turn the grades round, or back."""
        with connect(self.url) as engine:
            engine.execute("update truth set grade = 3 - grade")

    def retired(self, team: str) -> None:
        """The team is gone for good, and begins anew."""
        self.give_up(self.numbers(team) | self.numbers(team, "metrics_archive"))
        message = self.call("retire", team, "--for-good", expect=2)
        rows = re.search(r"--rows (\d+)", message)
        assert rows, message
        self.call("retire", team, "--for-good", "--rows", rows[1])
        assert not self.numbers(team) | self.numbers(team, "metrics_archive")
        self.counts["teams retired for good"] += 1
        self.call("run", team)
        self.record_published(team, days=0)

    def give_up(self, rows: Numbers) -> None:
        """Somebody has agreed to lose these."""
        self.given_up |= rows
        self.counts["removed with confirmation"] += len(rows)

    def is_whole(self) -> None:
        """Each number is there, or was given up; of ads the archive has the last 30 runs."""
        for team in TEAMS:
            stored, archive = self.numbers(team), self.numbers(team, "metrics_archive")
            published = {row for row in self.published if row[0] == team}
            gone = published - stored - archive - self.given_up
            self.counts[f"published by {team}"] = len(published)
            self.counts[f"kept by {team}"] = len(stored)
            self.counts[f"archived of {team}"] = len(archive)
            assert not gone or team == "ads", f"{team} lost {len(gone)}: {sorted(gone)[:5]}"
            self.counts["older than the last 30 runs of ads"] += len(gone)
            given_up = keys_of(self.given_up) | self.given_up_keys
            assert keys_of(published) <= keys_of(stored) | given_up
            with connect(self.url) as engine:
                changes = effects(sm.Spec(**self.spec(team)), engine)
            finished = [effect for effect in changes if effect.run.is_done]
            kept = takewhile(lambda effect: effect.run.outcome != "retired", finished)
            for effect in islice(kept, 30 if team == "ads" else None):
                assert effect.is_known, f"{team}: {effect.run}: {effect}"
                if effect.removed and effect.run.outcome == "replaced":
                    assert f"{effect.removed:,} rows" in (effect.run.message or "")

    def tell(self) -> None:
        """The counts, and what `runs` says."""
        print(f"\n{self.nights} nights of {self.url.partition(':')[0]}")
        for name, count in self.counts.items():
            print(f"  {count:7,}  {name}")
        for team in TEAMS:
            print(team, self.call("runs", team, "--last", "12"), sep="\n")


def keys_of(numbers: Numbers) -> Numbers:
    return {row[:7] for row in numbers}


@by_night
@pytest.mark.parametrize(("kind", "nights"), [("duckdb", NIGHTS), ("sqlite", NIGHTS // 5)])
def test_no_number_of_a_year_is_lost(kind: str, nights: int, tmp_path: Path) -> None:
    year = Year(tmp_path, f"{kind}:///{tmp_path}/shop.db", nights)
    year.live()
    year.is_whole()
    year.tell()
