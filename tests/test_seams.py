"""Features put together by lot, through the public commands alone, beside plain Python.

A setup crosses where rows are, which database holds them, how days and grades are written, how the
database is named, which days a job does in which order, and where its tables are published. A run
takes the setups with the most pairs of choices; `SQLMETRICS_SEED` draws other ones, and
`SQLMETRICS_ALL=1` takes every pair, several times.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import click_seams
import duckdb
import pytest
import seams
import yaml
from click_seams import LogSetup
from seams import METRICS, Row, Setup, Stored, World, connected, differences, facts, keyed, world
from test_cli import sqlmetrics

SEED = os.environ.get("SQLMETRICS_SEED", "0")
ALL = os.environ.get("SQLMETRICS_ALL") == "1"


def draw(module: Any, kind: Any, most: int) -> Iterator[tuple[str, Any]]:
    """Name and setup; the name tells how to draw it again."""
    for turn in range(3 if ALL else 1):
        chance = random.Random(crc32(f"{SEED}/{turn}".encode()))
        rows = seams.drawn(module.CHOICES, module.possible, chance)
        for number, row in enumerate(rows if ALL else islice(rows, most)):
            yield f"{turn}-{number}-{row['source']}-{row['database']}", kind(**row)


def grouped(setups: dict[str, Any]) -> list[Any]:
    """The names, those of a server in its group."""
    group = {"postgres": [pytest.mark.xdist_group("postgres")]}
    return [
        pytest.param(name, marks=group.get(setup.database, ())) for name, setup in setups.items()
    ]


SETUPS = dict(draw(seams, Setup, 14))
LOGS = dict(draw(click_seams, LogSetup, 8))


@pytest.fixture
def postgres(servers: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """A schema of its own on the server; its URL."""
    url = servers.connection("postgres")
    schema = f"seams_{crc32(request.node.name.encode())}"
    with connected(url) as connection:
        connection.execute(f"create schema {schema}")
        connection.commit()
    join = "&" if "?" in url else "?"
    yield f"{url}{join}options=-csearch_path%3D{schema}"
    with connected(url) as connection:
        connection.execute(f"drop schema {schema} cascade")
        connection.commit()


@pytest.mark.parametrize("name", grouped(SETUPS))
def test_any_setup_gives_what_plain_python_gives(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    setup = SETUPS[name]
    url = request.getfixturevalue("postgres") if setup.database == "postgres" else ""
    chance = random.Random(crc32(f"{SEED}/{name}".encode()))
    made = world(chance)
    stored = seams.store(setup, made, tmp_path, url)
    Walk(setup, made, stored, tmp_path, chance).all()


@pytest.mark.parametrize("name", grouped(LOGS))
def test_any_click_log_gives_what_plain_python_gives(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    setup = LOGS[name]
    server = request.getfixturevalue("postgres") if setup.database == "postgres" else ""
    url = seams.url_of(setup.database, tmp_path, server)
    made = click_seams.log(random.Random(crc32(f"{SEED}/{name}".encode())))
    spec = click_seams.store(setup, made, tmp_path, url)
    if setup.source != "tables":
        duckdb.connect(str(tmp_path / "shop.duckdb")).close()
    (tmp_path / "spec.yml").write_text(yaml.safe_dump(spec, allow_unicode=True), "utf-8")
    days = sorted({request["moment"].date() for request in made.requests})
    first, every = _range(days[0], days[0] + timedelta(1)), _range(days[0], days[-1] + timedelta(1))
    cuts = {
        "once": [every],
        "daily": [_range(day, day + timedelta(1)) for day in reversed(days)],
        "batches": [first, every],
    }
    for cut in cuts[setup.runs]:
        sqlmetrics("run", "spec.yml", *cut, "--connection", url, folder=tmp_path)
    there = {key: row for key, row in facts(url).items() if row["value"] is not None}
    assert differences(there, made.expected(setup.form)) == []


class Walk:
    """All that a person does with a job, from the spec to the published tables."""

    def __init__(
        self, setup: Setup, made: World, stored: Stored, folder: Path, chance: random.Random
    ) -> None:
        self.setup, self.made, self.stored, self.folder = setup, made, stored, folder
        self.chance = chance

    def all(self) -> None:
        """Each step, in the order of a first day with the product."""
        if self.stored.profiles:
            self._write("profiles.yml", self.stored.profiles)
        self._spec()
        files = self._files()
        self._call("validate")
        text = self._call("run", "--dry-run").stdout
        assert "metrics_of_seams" in text
        assert self._files() == files, "a dry run has made something"
        self._runs()
        segments = bool(self.setup.segments)
        assert differences(facts(self.stored.url), self.made.expected(segments)) == []
        self._verified()
        self._checked()
        self._published()
        self._evaluated()
        self._refused()

    def _runs(self) -> None:
        """The days, in one of many orders; some of them twice."""
        days = self.made.days
        if self.setup.runs == "once":
            self._call("run")
        elif self.setup.runs == "refresh":
            self._call("run", *_range(days[0], days[0] + timedelta(1)))
            self._call("run", "--full-refresh")
        elif self.setup.runs == "daily":
            for day in self.chance.sample(days, len(days)):
                self._call("run", *_range(day, day + timedelta(1)))
        elif self.setup.runs == "batches":
            middle = self.chance.choice(days)
            for start, end in ((days[0], middle + timedelta(1)), (middle, days[-1] + timedelta(1))):
                self._call("run", *_range(start, end))
        else:
            last = list(METRICS)[-1]
            self._spec(metrics=[name for name in METRICS if name != last])
            self._call("run", *_range(days[0], days[0] + timedelta(1)))
            self._spec()
            self._call("run", "--backfill")

    def _verified(self) -> None:
        assert "differ" not in self._call("verify").stdout.lower().replace("difference", "")

    def _checked(self) -> None:
        """A limit that holds, and one that does not."""
        last = self.made.days[-1]
        means = [
            row["value"]
            for key, row in self.made.expected(False, [last]).items()
            if key[4:] == ("mrr", 0)
        ]
        self._spec(checks=[{"metric": "mrr", "min": min(means) - 1e-6}])
        self._call("check")
        self._spec(checks=[{"metric": "mrr", "min": min(means) + 1e-6}])
        failed = self._call("check", expect=1).stdout
        assert "FAILED" in failed
        self._spec()

    def _published(self) -> None:
        places = {
            "duckdb": "published.duckdb",
            "folder": "published",
            "sqlite": f"sqlite:///{self.folder / 'published.sqlite'}",
        }
        if not self.setup.publish:
            return
        self._call("run", "--publish", places[self.setup.publish])
        if self.setup.publish == "folder":
            file = self.folder / "published" / "metrics_of_seams.parquet"
            rows = duckdb.execute(
                "select metric_date, system, segment_name, segment_value, metric, k, value, "
                f"n_queries, n_skipped, n_missing from '{file}'"
            ).fetchall()
            there = keyed(rows)
        else:
            url = places["sqlite"]
            if self.setup.publish == "duckdb":
                url = f"duckdb:///{self.folder / 'published.duckdb'}"
            there = facts(url)
        assert differences(there, self.made.expected(bool(self.setup.segments))) == []

    def _evaluated(self) -> None:
        """The same numbers without a spec."""
        spec = self.stored.spec
        inputs = [
            spec[name].get("relation") or spec[name]["file"] for name in ("rankings", "labels")
        ]
        options = ["--system", "system", "--date", "ds", "-o", "json"]
        options += [word for metric in METRICS for word in ("-m", metric)]
        if self.setup.source == "spreadsheet":
            options += ["--decimal", ","]
        if self.setup.words:
            grades = spec["labels"]["grades"].items()
            options += [word for text, n in grades for word in ("--grades", f"{text}={n}")]
        if self.setup.segments:
            options += ["--by", "country"]
        if self.setup.segments == "queries":
            options += ["--queries", spec["queries"].get("relation") or spec["queries"]["file"]]
        if self.setup.source == "tables":
            place = {"duckdb": ["--db", str(self.folder / "shop.duckdb")]}
            options += place.get(self.setup.database, ["--connection", self.stored.url])
        text = sqlmetrics("evaluate", *inputs, *options, folder=self.folder).stdout
        rows = json.loads(text)
        names = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
        numbers = ("value", "n_queries", "n_skipped", "n_missing")
        there = keyed([[row[name] for name in (*names, *numbers)] for row in rows])
        assert differences(there, self.made.expected(bool(self.setup.segments))) == []

    def _refused(self) -> None:
        """A grade map that brings in what no grade may be, in every setup that has one."""
        if not self.setup.words:
            return
        worst = max(row["grade"] for row in self.made.labels)
        for wrong in (-1, 2000):
            words = {**self.stored.spec["labels"]["grades"]}
            (text,) = [word for word, number in words.items() if number == worst]
            self._spec(labels={**self.stored.spec["labels"], "grades": {**words, text: wrong}})
            self._call("run", expect=2)
        self._spec()
        assert (
            differences(facts(self.stored.url), self.made.expected(bool(self.setup.segments))) == []
        ), "a run that was refused has changed the table"

    def _spec(self, **changed: Any) -> None:
        self._write("spec.yml", {**self.stored.spec, **changed})

    def _write(self, name: str, content: Row) -> None:
        text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
        (self.folder / name).write_text(text, encoding="utf-8")

    def _files(self) -> set[Path]:
        return set(self.folder.rglob("*"))

    def _call(self, verb: str, *options: str, expect: int = 0) -> Any:
        where = self.stored.where
        return sqlmetrics(verb, "spec.yml", *options, *where, folder=self.folder, expect=expect)


def _range(start: date, end: date) -> list[str]:
    return ["--start", str(start), "--end", str(end)]


def test_worlds_are_hard() -> None:
    """Systems start late and pause, and every choice of a setup is in some draw."""
    chance = random.Random(1)
    for module in (seams, click_seams):
        rows = list(seams.drawn(module.CHOICES, module.possible, chance))
        for name, values in module.CHOICES.items():
            assert {row[name] for row in rows} == set(values)
    made = [world(random.Random(seed)) for seed in range(20)]
    firsts = [{row["system"] for row in one.rankings if row["ds"] == one.days[0]} for one in made]
    assert any(len(systems) == 1 for systems in firsts)
