"""A year of three teams' nights: each number that was ever published is there, or was given up.

Data come late and go after 30 days, labels change, metrics come and go, runs are killed, two
schedulers start at once, and bad nights are taken back. `SQLMETRICS_NIGHTS=40` is a shorter year;
`pytest -s` prints what `runs` says of it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from marked import by_night
from test_job_days import FIRST, job
from test_job_kills import killed, spawning

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.history.effects import effects
from sqlmetrics.jobs.history.restore import restore
from sqlmetrics.jobs.run import write
from sqlmetrics.spec.days import Days

NIGHTS = int(os.environ.get("SQLMETRICS_NIGHTS", "365"))
RETENTION = min(30, NIGHTS // 3)
TEAMS = ("search", "ads", "feed")
KEY = "spec, metric_date, system, segment_name, segment_value, metric, k, value, run_id"
METRICS = (["mrr", "ndcg@3"], ["mrr", "ndcg@3", "hit@1"], ["mrr", "recall@5"])
Numbers = set[tuple[str, ...]]


def spec_of(team: str, night: int) -> sm.Spec:
    """A team's spec: its metrics come and go."""
    metrics = METRICS[(night // min(45, NIGHTS // 2) + TEAMS.index(team)) % len(METRICS)]
    output = {"relation": "metrics", "per_query": "metrics_of_queries", "keep": "400 days"}
    return job(team, metrics=metrics, by=[], output=output)


def new_day(engine: Database, night: int, chance: random.Random) -> None:
    """The rankings of a day, some of them late; the oldest ones go, and labels change."""
    day, late = FIRST + timedelta(night), FIRST + timedelta(night - 2)
    rows = [
        f"('{one}', '{system}', 'DE', 'q{query}', 'i{item}', {chance.randrange(9)}e0)"
        for one in ([day, late] if night % 5 == 4 else [day])
        for system in ("new", "old")
        for query in ([9] if one == late else range(4))
        for item in range(3)
    ]
    engine.execute(f"insert into runs values {', '.join(rows)}")
    engine.execute(f"delete from runs where ds < '{FIRST + timedelta(night - RETENTION)}'")
    if night % 3 == 0:
        grade, item = chance.randrange(4), chance.randrange(3)
        engine.execute(f"update truth set grade = {grade} where item_id = 'i{item}'")


def run_night(url: str, team: str, night: int, stop: Callable[[Database], None] | None) -> None:
    """What a scheduler starts: the last three days."""
    with connect(url) as engine:
        if stop:
            stop(engine)
        write(spec_of(team, night), engine, lookback(night))


def lookback(night: int) -> Days:
    return Days(start=FIRST + timedelta(max(0, night - 2)), end=FIRST + timedelta(night + 1))


def started(url: str, team: str, night: int, stop: Any = None) -> Any:
    process = spawning.Process(target=run_night, args=(url, team, night, stop))
    process.start()
    return process


def numbers(engine: Database, table: str) -> Numbers:
    return {tuple(map(str, row)) for row in engine.rows(f"select {KEY} from {table}")}


def opened_year(url: str, chance: random.Random) -> None:
    """The sources of the first night."""
    grades = [
        f"('q{q}', 'i{item}', {chance.randrange(4)})" for q in (*range(4), 9) for item in range(3)
    ]
    with connect(url, create=True) as engine:
        engine.execute(
            "create table runs (ds date, system varchar, country varchar, query_id varchar, "
            "item_id varchar, score double)"
        )
        engine.execute("create table truth (query_id varchar, item_id varchar, grade integer)")
        engine.execute(f"insert into truth values {', '.join(grades)}")


def bad_night(spec: sm.Spec, engine: Database, night: int) -> Numbers:
    """A run by wrong labels, taken back; the numbers that it had published."""
    before = numbers(engine, "metrics")
    engine.execute("update truth set grade = 3 - grade")
    write(spec, engine, lookback(night))
    wrong = numbers(engine, "metrics")
    restore(spec, engine, "last")
    assert numbers(engine, "metrics") == before
    engine.execute("update truth set grade = 3 - grade")
    return wrong


def schedulers(url: str, team: str, night: int, chance: random.Random) -> int:
    """What goes wrong on some nights: a run is killed, or two start at once; the kills."""
    kills = 0
    if night % 7 == 6:
        process = started(url, team, night, partial(killed, number=chance.randrange(5, 40)))
        process.join(300)
        kills = int(process.exitcode != 0)
    if night % 11 == 10:
        both = [started(url, team, night) for _ in range(2)]
        for process in both:
            process.join(300)
        assert [process.exitcode for process in both] == [0, 0]
    return kills


def table_of_runs(engine: Database) -> None:
    """What `runs` says of the year, printed; it knows of each run what it changed."""
    for team in TEAMS:
        told = effects(spec_of(team, NIGHTS - 1), engine)
        done = [effect for effect in told if effect.run.is_done]
        assert all(effect.is_known for effect in done)
        sums = {
            name: sum(getattr(effect, name) for effect in done)
            for name in ("new", "changed", "removed")
        }
        print(f"{team}: {len(told)} runs, {len(done)} done, rows {sums}")
        for effect in told[:5]:
            print(f"  {effect.run.short}  {effect.run.outcome:8}  {effect}")


@by_night
def test_no_number_of_a_year_is_lost(tmp_path: Path) -> None:
    url, chance = f"sqlite:///{tmp_path}/shop.db", random.Random(3)
    opened_year(url, chance)
    published: Numbers = set()
    kills = refusals = 0
    for night in range(NIGHTS):
        with connect(url) as engine:
            new_day(engine, night, chance)
        for team in TEAMS:
            kills += schedulers(url, team, night, chance)
            with connect(url) as engine:
                spec = spec_of(team, night)
                write(spec, engine, lookback(night))
                published |= numbers(engine, "metrics")
                if night % 9 == 8:
                    published |= bad_night(spec, engine, night)
                if night % 10 == 9 and night > RETENTION:  # the source has not all any more
                    with pytest.raises(sm.SpecError, match="--allow-loss"):
                        write(spec, engine, full_refresh=True)
                    refusals += 1
    with connect(url) as engine:
        assert published <= numbers(engine, "metrics") | numbers(engine, "metrics_archive")
        ((n_days,),) = engine.rows("select count(distinct metric_date) from metrics")
        assert n_days == NIGHTS
        print(f"\n{NIGHTS} nights, {len(published):,} numbers, {kills} kills, {refusals} refused")
        table_of_runs(engine)
