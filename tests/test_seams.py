"""Features put together by lot, through the public commands alone, beside plain Python.

A setup crosses where rows are, which database holds them, how days and grades are written, how the
database is named, which days a job does in which order, and where its tables are published. A run
takes the setups with the most pairs of choices; `SQLMETRICS_SEED` draws other ones, and
`SQLMETRICS_ALL=1` takes every pair, several times.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import click_seams
import duckdb
import pyarrow.parquet as pq
import pytest
import seams
import trace_seams
import yaml
from click_seams import LogSetup
from command import sqlmetrics
from marked import by_turns
from seams import (
    METRICS,
    ZONE,
    Key,
    Row,
    Setup,
    Stored,
    World,
    connected,
    differences,
    facts,
    keyed,
    metric_texts,
    random_world,
)
from slices import is_all, seed
from trace_seams import TraceSetup

import sqlmetrics as sm
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import connect
from sqlmetrics.evaluation.report.failure import HAS_ROW
from sqlmetrics.jobs.schema import BASELINE

SEED = seed()
ALL = is_all()


def draw(module: Any, kind: Any, most: int) -> Iterator[tuple[str, Any]]:
    """Name and setup; the name tells how to draw it again."""
    for turn in range(3 if ALL else 1):
        chance = random.Random(crc32(f"{SEED}/{turn}".encode()))
        rows = seams.covering_choices(module.CHOICES, module.possible, chance)
        for number, row in enumerate(rows if ALL else islice(rows, most)):
            yield f"{turn}-{number}-{row['source']}-{row.get('database', 'file')}", kind(**row)


def grouped(setups: dict[str, Any]) -> list[Any]:
    """The names, those of a server in its group."""
    group = {"postgres": [pytest.mark.xdist_group("postgres")]}
    return [
        pytest.param(name, marks=group.get(setup.database, ())) for name, setup in setups.items()
    ]


IS_LONG = ALL or os.environ.get("REQUIRE_ENGINES") == "1"
"""Two setups of each kind are in a run that requires engines; the default run has one of one."""

MOST = [2, 2, 2] if IS_LONG else [int(crc32(SEED.encode()) % 3 == kind) for kind in range(3)]
SETUPS = dict(draw(seams, Setup, MOST[0]))
LOGS = dict(draw(click_seams, LogSetup, MOST[1]))
TRACES = dict(draw(trace_seams, TraceSetup, MOST[2]))


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


@pytest.fixture(autouse=True)
def far_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine in California, where profiles stand in a folder of their own; no day depends."""
    for name in ("TZ", "PGTZ"):
        monkeypatch.setenv(name, "America/Los_Angeles")
    monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / "dbt"))
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", grouped(SETUPS))
def test_any_setup_gives_what_plain_python_gives(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    setup = SETUPS[name]
    url = request.getfixturevalue("postgres") if setup.database == "postgres" else ""
    chance = random.Random(crc32(f"{SEED}/{name}".encode()))
    world = random_world(chance)
    stored = seams.store(setup, world, tmp_path, url)
    Walk(setup, world, stored, tmp_path, chance).all()


def _run_of_log(setup: LogSetup, days: Sequence[date], folder: Path, url: str) -> None:
    """Run the days of a log as a setup says, and look at what its lineage names."""
    first, every = _range(days[0], days[0] + timedelta(1)), _range(days[0], days[-1] + timedelta(1))
    cuts = {
        "once": [every],
        "daily": [_range(day, day + timedelta(1)) for day in reversed(days)],
        "batches": [first, every],
    }
    for cut in cuts[setup.runs]:
        line = ["run", "spec.yml", *cut, "--openlineage", "events.jsonl", "--connection", url]
        sqlmetrics(*line, folder=folder)
    assert seams.columns_nowhere(folder / "events.jsonl", url) == []


@pytest.mark.parametrize("name", grouped(LOGS))
def test_any_click_log_gives_what_plain_python_gives(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    setup = LOGS[name]
    server = request.getfixturevalue("postgres") if setup.database == "postgres" else ""
    url = seams.url_of(setup.database, tmp_path, server)
    log = click_seams.random_log(random.Random(crc32(f"{SEED}/{name}".encode())))
    spec = click_seams.store(setup, log, tmp_path, url)
    if setup.source != "tables":
        duckdb.connect(str(tmp_path / "shop.duckdb")).close()
    (tmp_path / "spec.yml").write_text(yaml.safe_dump(spec, allow_unicode=True), "utf-8")
    days = sorted({request["moment"].date() for request in log.requests})
    every = _range(days[0], days[-1] + timedelta(1))
    _run_of_log(setup, days, tmp_path, url)
    actual = {key: row for key, row in facts(url).items() if row["value"] is not None}
    assert differences(actual, log.expected(setup.form)) == []
    if click_seams.has_no_time(setup) and setup.runs == "once":
        output = sqlmetrics("clicks", "spec.yml", "--connection", url, folder=tmp_path).stdout
        assert "unreadable time" in output
    counterfactual, value, shown_value = click_seams.unshown(spec, log, setup.form, tmp_path)
    (tmp_path / "unshown.yml").write_text(
        yaml.safe_dump(counterfactual, allow_unicode=True), "utf-8"
    )
    line = ["clicks", "counterfactual", "unshown.yml", "-o", "json"]
    output = sqlmetrics(*line, "--connection", url, folder=tmp_path).stdout
    assert json.loads(output)["value"] == pytest.approx(value, rel=1e-9)
    if setup.runs == "batches":
        line = ["compare", "unshown.yml", "-o", "json", "--connection", url]
        (row,) = json.loads(sqlmetrics(*line, folder=tmp_path).stdout)
        assert (row["baseline"], row["n"]) == ("shown", len(log.requests))
        assert (row["value"], row["baseline_value"]) == pytest.approx(
            (value, shown_value), rel=1e-9
        )
    sqlmetrics("run", "unshown.yml", *every, "--connection", url, folder=tmp_path)
    sums = [row for key, row in facts(url).items() if "sum_reciprocal_rank(estimator=ips)" in key]
    mean = sum(row["value"] * row["n_queries"] for row in sums) / sum(
        row["n_queries"] for row in sums
    )
    assert mean == pytest.approx(value, rel=1e-9)
    fit = click_seams.position_ctr(log, setup.form)
    if fit is None or setup.runs == "once":
        command = ("clicks", "models", "spec.yml", "-o", "json", "--connection", url)
        output = sqlmetrics(*command, folder=tmp_path, expect=2 if fit is None else 0).stdout
        models = {row["model"]: row for row in map(json.loads, output.splitlines())}
        if fit is not None:
            assert models["position_ctr"]["log_likelihood"] == pytest.approx(fit, rel=1e-9)
    labels = ("clicks", "labels", "spec.yml", "-o", "json", "--connection", url)
    rows = json.loads(sqlmetrics(*labels, folder=tmp_path).stdout)
    assert {(row["query_id"], row["item_id"]): row["grade"] for row in rows if row["grade"]} == {
        (request["request_id"], item): grade
        for request in log.requests
        for item, grade in click_seams.grades_of(request, setup.form).items()
        if grade
    }
    spec_with_propensities = click_seams.with_propensities(spec)
    (tmp_path / "known.yml").write_text(
        yaml.safe_dump(spec_with_propensities, allow_unicode=True), "utf-8"
    )
    call = ("clicks", "propensities", "known.yml", "-o", "json", "--connection", url)
    output = sqlmetrics(*call, folder=tmp_path).stdout
    propensities = {
        row["position"]: row["propensity"] for row in map(json.loads, output.splitlines())
    }
    assert propensities == spec_with_propensities["clicks"]["propensity"]["given"]
    for wrong in click_seams.misread(spec):
        (tmp_path / "wrong.yml").write_text(yaml.safe_dump(wrong, allow_unicode=True), "utf-8")
        sqlmetrics("run", "wrong.yml", "--connection", url, folder=tmp_path, expect=2)


KEYS = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
NUMBERS = ("value", "n_queries", "n_skipped", "n_missing")
PARTS = [(name.partition("@")[0], int(name.partition("@")[2] or 0)) for name in METRICS]
"""Metrics without their cutoffs, and these."""

TITLES = {"duckdb": "DuckDB", "sqlite": "SQLite", "postgres": "PostgreSQL"}
MOMENTS = ("n_clusters", "sum_x", "sum_x2", "sum_w2", "sum_xw")
NULLABLE = {"value", "numerator", "denominator", "sum_sq", "ci_low", "ci_high", "ci_method"}
NULLABLE |= {*MOMENTS}
DOUBLES = NULLABLE - {"ci_method"}
PUBLISHED = {
    name: (
        {"metric_date": "date32[day]", "k": "int32", "computed_at": "timestamp[us]"}.get(
            name, "int64" if name.startswith("n_") else "double" if name in DOUBLES else "string"
        ),
        name in NULLABLE,
    )
    for name in (
        *("spec", *KEYS, "value", "numerator", "denominator", *NUMBERS[1:]),
        *("sum_sq", "ci_low", "ci_high", "definition_hash", "run_id", "computed_at"),
        *("ci_method", *MOMENTS),
    )
}
"""Column of a published table -> its type, and whether it may be NULL."""
BESIDE = {
    name: ({"varchar": "string", "bigint": "int64"}.get(column.type, column.type), True)
    for name, column in BASELINE.items()
}
"""The columns that it has besides where a spec names a baseline."""


def _arrow(kind: str) -> str:
    """A type of DuckDB as Arrow has it."""
    types = {"DATE": "date32[day]", "INTEGER": "int32", "BIGINT": "int64", "DOUBLE": "double"}
    return types.get(kind, {"TIMESTAMP": "timestamp[us]"}.get(kind, "string"))


def _group(row: Sequence[Any]) -> tuple[Any, ...]:
    """Day, system and segment of a row."""
    return (date.fromisoformat(str(row[0])[:10]), *row[1:4])


def _column(metric: str, k: int) -> str:
    """The name of a metric's column."""
    names = {"hit(rel=2)": "hit_rel2", "dcg(average=p90)": "dcg_average_p90"}
    names["mean(price, better=higher)"] = "mean_price"
    return names.get(metric, metric) + (f"_at_{k}" if k else "")


class Walk:
    """All that a person does with a job, from the spec to the published tables."""

    def __init__(
        self, setup: Setup, world: World, stored: Stored, folder: Path, chance: random.Random
    ) -> None:
        self.setup, self.world, self.stored, self.folder = setup, world, stored, folder
        self.chance = chance
        self.expected = world.expected(bool(setup.segments))

    def all(self) -> None:
        """Each step, in the order of a first day with the product."""
        if self.stored.profiles:
            path = "dbt/profiles.yml" if self.setup.place == "dbt" else "profiles.yml"
            (self.folder / path).parent.mkdir(exist_ok=True)
            self._write(path, self.stored.profiles)
        self._spec()
        files = self._files()
        self._call("validate")
        text = self._call("run", "--dry-run").stdout
        assert "metrics_of_seams" in text
        assert TITLES[self.setup.database] in text
        assert self._files() == files, "a dry run has made something"
        self._runs()
        self._is_whole()
        self._verified()
        self._checked()
        self._changed()
        self._evaluated()
        self._compared()
        self._fused()
        self._judged()
        if self.setup.runs in ("once", "refresh"):
            self._swept()
        self._never_met()
        self._refused()
        self._removed()

    def _is_whole(self, url: str = "") -> None:
        assert differences(facts(url or self.stored.url), self.expected) == []

    def _runs(self) -> None:
        """The days, in one of many orders; some of them twice."""
        days = self.world.days
        if self.setup.runs == "once":
            self._call("run", *self.chance.choice([[], ["--check-share", "0.5"]]))
        elif self.setup.runs == "refresh":
            self._call("run", *_range(days[0], days[0] + timedelta(1)))
            self._call("run", "--full-refresh")
            for _ in range(2):  # it is taken back, and that is taken back too
                last = json.loads(self._call("runs", "-o", "json").stdout)[0]
                self._call("restore", last["run_id"])
        elif self.setup.runs == "daily":
            for day in self.chance.sample(days, len(days)):
                self._call("run", *_range(day, day + timedelta(1)))
        elif self.setup.runs == "batches":
            middle = self.chance.choice(days)
            for start, end in ((days[0], middle + timedelta(1)), (middle, days[-1] + timedelta(1))):
                self._call("run", *_range(start, end))
        else:
            last = list(METRICS)[-1]
            self._spec(metrics=metric_texts(name for name in METRICS if name != last))
            self._call("run", *_range(days[0], days[0] + timedelta(1)))
            self._spec()
            flags = self.chance.choice([[], ["--recompute"]])
            self._call("run", "--backfill", "--batch-days", str(self.chance.randint(1, 3)), *flags)

    def _verified(self) -> None:
        assert "differ" not in self._call("verify").stdout.lower().replace("difference", "")

    def _checked(self) -> None:
        """Limits that hold, limits that do not, and a day without a row."""
        last = self.world.days[-1]
        lowest, drop = 1.0, 0.0
        compared = {}
        for key, row in self.expected.items():
            if key[0] == last and key[2:] == ("all", "all", "mrr", 0):
                before = self._before(key)
                compared[key[1]] = before and pytest.approx(before["value"])
                lowest = min(lowest, row["value"])
                drop = max(drop, before["value"] - row["value"] if before else 0)
        self._limits(lowest - 1e-6, drop + 1e-6)
        results = json.loads(self._call("check", "-o", "json").stdout)
        present = {key[1] for key in self.expected if key[0] == last}
        absent = {key[1] for key in self.expected} - present
        pausing = {result["system"] for result in results if result["rule"] == HAS_ROW}
        assert pausing <= absent, "a system that had rows is warned of, and no other"
        assert all(result["holds"] for result in results if result["rule"] != HAS_ROW)
        drops = [
            result
            for result in results
            if result["rule"].startswith("max_drop") and not result["segment"]
        ]
        assert {result["system"]: result["compared"] for result in drops} == compared
        self._limits(lowest + 1e-6, max(0, drop - 1e-6))
        fails = int(self.setup.severity == "fail")
        nobody = ["--webhook", "http://127.0.0.1:9/"]
        completed = self._call("check", "-o", "json", *nobody, expect=fails)
        output = completed.stdout
        assert ("did not get the message" in completed.stderr) == bool(fails)
        failed = {
            result["rule"].split()[0]
            for result in json.loads(output)
            if not result["holds"] and result["rule"] != HAS_ROW
        }
        assert failed == ({"min", "max_drop"} if drop > 0 else {"min"})
        first = min(key[0] for key in self.expected)
        range_output = self._call("check", "--start", str(first), "-o", "json", expect=fails).stdout
        by_day = [result for result in json.loads(range_output) if result["day"] == str(last)]
        assert by_day == json.loads(output), "a range says of its last day what that day says"
        later = last + timedelta(1)
        self._call("run", *_range(later, later + timedelta(1)), expect=4)
        completed = self._call("check", "--date", str(later), expect=4)
        assert ("FAILED" if fails else "warn  ") in completed.stdout
        assert ("warning" in completed.stderr) == (not fails)
        assert f"the last day is {last}" in completed.stdout
        self._spec()

    def _limits(self, least: float, drop: float) -> None:
        limits = {"min": least}, {"max_drop": drop}
        common = {"metric": "mrr", "severity": self.setup.severity}
        self._spec(checks=[{**limit, **common} for limit in limits])

    def _before(self, key: Key) -> Row | None:
        """A metric on the last day before that its system and segment has."""
        days = [other[0] for other in self.expected if other[1:4] == key[1:4] and other[0] < key[0]]
        return self.expected.get((max(days), *key[1:])) if days else None

    def _changed(self) -> None:
        """A metric is taken out for a day, and comes back; what others read stays."""
        with connected(self.stored.url) as connection:
            connection.execute("create view analyst as select * from metrics_of_seams_wide")
            connection.commit()
        target = {
            "duckdb": "published.duckdb",
            "folder": "published",
            "sqlite": f"sqlite:///{self.folder / 'published.sqlite'}",
        }.get(self.setup.publish)
        publish = ["--publish", target] if target else []
        if publish:
            runs = self._n_runs()
            nowhere = self.chance.choice(["table.csv", "spec.yml/"])
            self._call("run", "--publish", nowhere, expect=2)
            assert self._n_runs() == runs, "a run before a place that cannot be"
        first = self.world.days[0]
        days = _range(first, first + timedelta(1))
        self._spec(metrics=metric_texts([*METRICS][:-1]))
        # a database that is published to lacks a column then, which other days have
        self._call("run", *days, *(publish if self.setup.publish == "sqlite" else ()))
        self._spec()
        self._call("run", *publish)
        self._views()
        self._described(self.stored.url)
        if self.setup.database == "postgres":
            rights = self._call("grants", "--role", "bi", "--kind", "reader").stdout
            for name in ("metrics_of_seams", "metrics_of_seams_wide", "queries_of_seams"):
                assert name in rights
        if target:
            self._published(target)

    def _views(self) -> None:
        """What stands beside the table, read by its names."""
        columns = [_column(*part) for part in PARTS]
        with connected(self.stored.url) as connection:
            cursor = connection.cursor()
            cursor.execute(f"select {', '.join(KEYS[:4])}, {', '.join(columns)} from analyst")
            wide = {
                (*_group(row), *part): {"value": value}
                for row in cursor.fetchall()
                for part, value in zip(PARTS, row[4:], strict=True)
            }
            view = "metrics_of_seams_daily_change"
            cursor.execute(f"select {', '.join(KEYS)}, value_before from {view}")
            before = {(*_group(row), *row[4:6]): {"value": row[6]} for row in cursor.fetchall()}
            if self.setup.baseline:
                self._beside_baseline(connection)
        values = {key: {"value": row["value"]} for key, row in self.expected.items()}
        assert differences(wide, values) == []
        values = {key: {"value": (self._before(key) or {}).get("value")} for key in self.expected}
        assert differences(before, values) == []

    def _described(self, url: str) -> None:
        """What each metric and each definition_hash is, the calendar, and the spec's own views."""
        with connected(url) as connection:
            cursor = connection.cursor()

            def rows(query: str) -> list[Any]:
                cursor.execute(query)
                return list(cursor.fetchall())

            metrics = rows("select metric, k, name, direction from metrics_of_seams_metrics")
            assert sorted(map(tuple, metrics)) == sorted(
                (metric, k, f"{metric}@{k}" if k else metric, "higher") for metric, k in PARTS
            )
            definitions = rows(
                "select definition_hash, metric, k, conventions from metrics_of_seams_definitions"
            )
            stored_hashes = rows("select distinct definition_hash, metric, k from metrics_of_seams")
            assert {tuple(row[:3]) for row in definitions} == {*map(tuple, stored_hashes)}
            assert all(json.loads(row[3])["ties"] == "id_asc" for row in definitions)
            days = rows("select metric_date, is_missing from metrics_of_seams_days order by 1")
            missing = {date.fromisoformat(str(day)[:10]) for day, lacks in days if lacks}
            present_days = {key[0] for key in self.expected}
            every = {
                min(present_days) + timedelta(n)
                for n in range((max(present_days) - min(present_days)).days + 1)
            }
            assert (len(days), missing) == (len(every), every - present_days)
            status = "select last_outcome, n_missing_days from metrics_of_seams_status"
            assert rows(status)[0][1] == len(missing)
            for segment in ("all", "country") if self.setup.segments else ("all",):
                view = "seams_all" if segment == "all" else "seams_by_country"
                keys = ["metric_date", "system", *["country"] * (segment != "all")]
                columns = [_column(*part) for part in PARTS]
                view_rows = rows(f"select {', '.join(keys + columns)} from metrics_of_seams_{view}")
                actual = {
                    (
                        date.fromisoformat(str(row[0])[:10]),
                        row[1],
                        segment,
                        row[2] if segment != "all" else "all",
                        *part,
                    ): {"value": value}
                    for row in view_rows
                    for part, value in zip(PARTS, row[len(keys) :], strict=True)
                }
                wanted = {
                    key: {"value": row["value"]}
                    for key, row in self.expected.items()
                    if key[2] == segment
                }
                assert differences(actual, wanted) == []

    def _beside_baseline(self, connection: Any) -> None:
        """The difference of each row from the baseline's, over all queries of a day."""
        values = {key: row["value"] for key, row in self.expected.items() if key[2] == "all"}
        pairs = {key: (values[key], values.get((key[0], "old's", *key[2:]))) for key in values}
        wanted = {
            key: {"value": mine - base}
            for key, (mine, base) in pairs.items()
            if None not in (mine, base) and key[1] != "old's" and "average" not in key[4]
        }
        cursor = connection.cursor()
        cursor.execute(
            f"select {', '.join(KEYS)}, difference from metrics_of_seams "
            "where baseline = 'old''s' and segment_name = 'all'"
        )
        actual = {(*_group(row), *row[4:6]): {"value": row[6]} for row in cursor.fetchall()}
        # queries without a value are in neither mean of a pair, but one of them may be in its own
        unpaired = {key for key, row in self.expected.items() if row["n_skipped"]}
        unpaired |= {key for key in values if (key[0], "old's", *key[2:]) in unpaired}
        paired = [
            {k: row for k, row in rows.items() if k not in unpaired} for rows in (actual, wanted)
        ]
        assert differences(*paired) == []

    def _published(self, target: str) -> None:
        """The same numbers, of the same types, and nowhere NULL where the job's table is not."""
        if self.setup.publish == "folder":
            file = self.folder / "published" / "metrics_of_seams.parquet"
            schema = pq.read_schema(file)
            assert {
                column.name: (str(column.type), column.nullable) for column in schema
            } == self._columns_published
            names = ", ".join((*KEYS, *NUMBERS))
            actual = keyed(duckdb.execute(f"select {names} from '{file}'").fetchall())
            assert differences(actual, self.expected) == []
            return
        url = target if "://" in target else f"duckdb:///{self.folder / target}"
        self._is_whole(url)
        self._described(url)
        with connected(url) as connection:
            described = connection.execute("pragma table_info('metrics_of_seams')").fetchall()
        kinds = {name: (_arrow(kind), not strict) for _, name, kind, strict, *_ in described}
        if self.setup.publish == "sqlite":  # its types are few
            columns = self._columns_published
            kinds = {name: (columns[name][0], may) for name, (_, may) in kinds.items()}
        assert kinds == self._columns_published

    @property
    def _columns_published(self) -> dict[str, tuple[str, bool]]:
        return PUBLISHED | (BESIDE if self.setup.baseline else {})

    def _n_runs(self) -> int:
        with connected(self.stored.url) as connection:
            cursor = connection.cursor()
            cursor.execute("select count(*) from metrics_of_seams_runs")
            return int(cursor.fetchone()[0])

    def _evaluated(self) -> None:
        """The same numbers without a spec, and how many lists count in none of them."""
        words = [word for metric in metric_texts(METRICS) for word in ("-m", metric)]
        words += self.chance.choice([[], ["--skip-bad"]])
        if self.setup.segments:
            words += ["--by", "country"]
        evaluated = self._evaluate(*words)
        for completed in (evaluated, self._call("show", "-o", "json")):
            rows = json.loads(completed.stdout)
            rows = [row | {"system": self._system(row["system"])} for row in rows]
            actual = keyed([[row[name] for name in (*KEYS, *NUMBERS)] for row in rows])
            assert differences(actual, self.expected) == []
        self._read_back()
        without, every = self.world.unlabelled
        note = (
            f"{without:,} of {every:,} lists belong to queries without a label" if without else ""
        )
        assert note in evaluated.stderr

    def _fused(self) -> None:
        """Both systems fused by the spec, and into a file that is evaluated again."""
        if "system" not in self.stored.spec["rankings"]["columns"]:
            return
        runs = sorted({key[1] for key in self.expected})
        if len(runs) < 2:
            return
        method = self.chance.choice(["rrf", "borda", "turns"])
        mixture = {"name": "mix", "runs": runs, "method": method}
        self._spec(rankings={**self.stored.spec["rankings"], "fuse": [mixture]}, by=[])
        rows = json.loads(self._call("show", "-o", "json").stdout)
        by_spec = {(row["metric_date"], row["metric"], row["k"]): row["value"]
                   for row in rows if row["system"] == "mix"}  # fmt: skip
        self._spec()
        options = ["--method", method, "--runs", ",".join(runs), "--out", "mix.csv"]
        self._call("fuse", *options)
        if self.chance.random() < 0.5:
            self._fused_into_a_table(options[:-2])
        with (self.folder / "graded.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["query_id", "item_id", "grade"])
            writer.writeheader()
            writer.writerows(self.world.labels)
        metric_options = ["-m", "mrr", "-m", "ndcg@3", "--date", "metric_date", "--score", "score"]
        completed = sqlmetrics(
            "evaluate", "mix.csv", "graded.csv", *metric_options, "-o", "json", folder=self.folder
        )
        again = json.loads(completed.stdout)
        assert again
        for row in again:
            value = by_spec[row["metric_date"], row["metric"], row["k"]]
            assert row["value"] == pytest.approx(value, abs=1e-12), row

    def _fused_into_a_table(self, options: list[str]) -> None:
        """The rows of the file, in a table that only --overwrite replaces."""
        arguments = (*options, "--into", "mix_of_seams")
        refused = self._call(
            "fuse", *options, "--into", "metrics_of_seams", "--overwrite", expect=2
        )
        assert "a table of other columns has this name" in refused.stderr
        assert "create table" in self._call("fuse", *arguments, "--dry-run").stdout
        self._call("fuse", *arguments)
        assert "this table exists" in self._call("fuse", *arguments, expect=2).stderr
        self._call("fuse", *arguments, "--overwrite")
        with connect(self.stored.url) as database:
            rows = database.rows("select query_id, item_id, rank from mix_of_seams")
            database.execute("drop table mix_of_seams")
        with (self.folder / "mix.csv").open(encoding="utf-8") as file:
            listed = [
                (row["query_id"], row["item_id"], row["rank"]) for row in csv.DictReader(file)
            ]
        assert sorted(tuple(map(str, row)) for row in rows) == sorted(listed)

    def _judged(self) -> None:
        """Three judges of the labels: how far two agree, and the grade of most in a table."""
        names = ("people", "model", "third judge")
        grades = [*range(4)]
        judged = {
            (row["query_id"], row["item_id"]): [
                self.chance.choice(grades),
                self.chance.choice([*grades, ""]),
                self.chance.choice([*grades, ""]),
            ]
            for row in self.world.labels
        }
        with (self.folder / "judges.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["query_id", "item_id", *names])
            writer.writerows([*pair, *labels] for pair, labels in judged.items())
        arguments = ["judges.csv", "--judges", ",".join(names)]
        output = sqlmetrics("agree", *arguments, "-o", "json", folder=self.folder).stdout
        label_pairs = [labels[:2] for labels in judged.values() if labels[1] != ""]
        first = json.loads(output)[0]
        assert (first["coefficient"], first["n_pairs"]) == ("agreement", len(label_pairs))
        assert first["value"] == pytest.approx(
            sum(a == b for a, b in label_pairs) / len(label_pairs)
        )
        line = ["combine", *arguments, "--into", "label_of_seams", *self.stored.where]
        sqlmetrics(*line, folder=self.folder)
        assert "exists" in sqlmetrics(*line, folder=self.folder, expect=2).stderr
        expected = {}
        for pair, labels in judged.items():
            votes = [label for label in labels if label != ""]
            expected[pair] = min(votes, key=lambda grade: (-votes.count(grade), grade))
        with connect(self.stored.url) as database:
            rows = database.rows("select query_id, item_id, grade from label_of_seams")
            database.execute("drop table label_of_seams")
        assert {(query, item): grade for query, item, grade in rows} == expected

    def _read_back(self) -> None:
        """What runs wrote, day by day, as an assistant asks for it."""
        spec = sm.Spec.read(self.folder / "spec.yml")
        stored = {}
        for segment in ("all", "country") if self.setup.segments else ("all",):
            answer = sm.query_metrics(spec, self.stored.url, every="day", segment=segment)
            for row in answer.rows:
                group = [str(row[name]) for name in ("system", "segment_name", "segment_value")]
                key = (str(row["first_date"]), *group, row["metric"])
                assert key not in stored
                stored[key] = (row["value"], row["n_queries"])
        expected = {
            (str(day), *group, at_cutoff(metric, k)): (row["value"], row["n_queries"])
            for (day, *group, metric, k), row in self.expected.items()
        }
        assert stored.keys() == expected.keys()
        for key, numbers in stored.items():
            assert numbers == pytest.approx(expected[key], rel=1e-9, abs=1e-9), key

    def _compared(self) -> None:
        """The two systems, query by query; systems that share no day cannot be compared."""
        wanted = self.world.paired()
        sliced = ("--by", "country", "--contributions") if self.setup.segments else ()
        arguments = ("--baseline", "old's", "--movers", "2", *sliced, "-o", "json")
        completed = self._call("compare", *arguments, expect=0 if wanted else 2)
        if not wanted:
            assert "no query has a value of both old's and another system" in completed.stderr
            return
        comparison = json.loads(completed.stdout)
        rows_by_metric = {
            row["metric"]: row for row in comparison["rows"] if row["segment_name"] == "all"
        }
        for mover in comparison["movers"]:
            assert abs(mover["difference"]) > 1e-9
            assert abs(mover["shrunk_difference"]) <= abs(mover["difference"])
        for metric, (n, new, old) in wanted.items():
            parts = [
                contribution
                for contribution in comparison["contributions"]
                if contribution["metric"] == metric
            ]
            assert sum(mover["metric"] == metric for mover in comparison["movers"]) <= 2
            if parts and not any(
                rows_by_metric[metric][f"n_{side}_only"] for side in ("system", "baseline")
            ):
                total = sum(part["contribution"] for part in parts)
                assert total == pytest.approx(new - old, abs=1e-12)
            row = rows_by_metric[metric]
            assert row["n"] == n == row["wins"] + row["ties"] + row["losses"]
            assert (row["value"], row["baseline_value"]) == pytest.approx((new, old))
        pairs = json.loads(self._call("compare", "--all-pairs", "-o", "json").stdout)
        ends = {row["metric"]: {row["value"], row["baseline_value"]} for row in pairs}
        for metric, (_, new, old) in wanted.items():
            assert sorted(ends[metric]) == pytest.approx(sorted({new, old}))
        chance = self.chance.random()  # both in each walk would cost a fifth more
        if chance < 0.15:
            self._reported(wanted)
        elif chance < 0.3:
            self._exported()

    def _swept(self) -> None:
        """A run alone among mixtures has the numbers that it has by itself, by day and segment."""
        line = ("--sweep", "--method", "rrf", "-k", "60", "--step", "0.5", "-o", "json")
        values = {}
        for row in json.loads(self._call("fuse", *line).stdout):
            system, is_alone, _ = row["variant"].partition(" alone")
            if is_alone and not row["metric"].startswith("judged"):
                group = (row["metric_date"], system, row["segment_name"], row["segment_value"])
                metric, _, k = row["metric"].partition("@")
                values[*_group(group), metric, int(k or 0)] = {"value": row["value"]}
        wanted = {key: {"value": row["value"]} for key, row in self.expected.items()}
        assert differences(values, wanted) == []

    def _reported(self, wanted: dict[str, tuple[int, float, float]]) -> None:
        """The first table of a page, which has as many decimals as people read."""
        self._call("report", "--fresh", "--baseline", "old's", "--out", "page.md")
        lines = (self.folder / "page.md").read_text("utf-8").splitlines()
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
        rows_by_metric = {row[0]: row for row in cells[2 : 2 + len(METRICS)]}
        for metric, (n, new, old) in wanted.items():
            means = [
                float(text.replace("\N{MINUS SIGN}", "-")) for text in rows_by_metric[metric][1:3]
            ]
            assert means == pytest.approx([old, new], abs=0.51e-4, rel=0.51e-3)
            assert rows_by_metric[metric][6] == f"{n:,}"

    def _exported(self) -> None:
        """What a dashboard asks for: its saved metrics over its own query, by day and system."""
        other = self.setup.database != "duckdb"  # whose name no text has
        assert not other or TITLES[self.setup.database] in self._call("compile").stdout
        is_supported = self.setup.database != "sqlite"
        line = ("export", "superset", "spec.yml", "--out", "board", *self.stored.where)
        completed = sqlmetrics(*line, folder=self.folder, expect=0 if is_supported else 2)
        if not is_supported:
            assert "takes no dialect" in completed.stderr or "sqlite" in completed.stderr
            return
        (file,) = (self.folder / "board").rglob("seams_all.yaml")
        data = yaml.safe_load(file.read_text("utf-8"))
        saved = {measure["metric_name"]: measure["expression"] for measure in data["metrics"]}
        expressions = ", ".join(saved[name] for name in METRICS)
        with connected(self.stored.url) as connection:
            cursor = connection.cursor()
            cursor.execute(
                f"select metric_date, system, {expressions} from ({data['sql']}) as data "
                "group by metric_date, system"
            )
            actual = {
                (date.fromisoformat(str(day)[:10]), system, "all", "all", *part): {"value": value}
                for day, system, *values in cursor.fetchall()
                for part, value in zip(PARTS, values, strict=True)
            }
        wanted = {
            key: {"value": row["value"]} for key, row in self.expected.items() if key[2] == "all"
        }
        assert differences(actual, wanted) == []

    def _never_met(self) -> None:
        """Lists of one item, which has no label where it is; by the conventions of Spark."""
        item = self.world.never_met
        if not item:
            return
        text = item.replace("'", "''")
        options = [
            "-c",
            "ties=id_asc",
            "--where",
            f"item_id = '{text}'",
            "--preset",
            "spark_mllib",
            "-m",
            "precision@1",
        ]
        completed = self._evaluate(*options)
        assert "no labelled item appears in any list" in completed.stderr
        actual = {
            (date.fromisoformat(row["metric_date"][:10]), self._system(row["system"])): row[
                "n_queries"
            ]
            for row in json.loads(completed.stdout)
        }
        assert actual == self.world.of_either(item)

    def _evaluate(self, *arguments: str) -> Any:
        spec = self.stored.spec
        ranked, labels, items, queries = (
            spec[name].get("relation") or spec[name]["file"]
            for name in ("rankings", "labels", "items", "queries")
        )
        inputs, options = [ranked, labels], ["--system", "system"]
        if self.setup.together == "files":
            inputs, options = [*(table for _, table in self.runs), labels], []
        options += ["--date", "ds", "--items", items, "--queries", queries]
        options += ["--metrics-from", "metrics", "-o", "json"]
        options += arguments
        if self.setup.day == "zoned":
            options += ["--time-zone", ZONE]
        if self.setup.source == "spreadsheet":
            options += ["--decimal", ","]
        if self.setup.words:
            grades = spec["labels"]["grades"].items()
            options += [word for text, n in grades for word in ("--grades", f"{text}={n}")]
        if self.setup.source == "tables":
            database_options = {"duckdb": ["--db", str(self.folder / "shop.duckdb")]}
            options += database_options.get(self.setup.database, ["--connection", self.stored.url])
        return sqlmetrics("evaluate", *inputs, *options, folder=self.folder)

    @cached_property
    def runs(self) -> list[tuple[str, str]]:
        """Each system, and a table of its own."""
        return seams.tables_by_system(self.setup, self.world, self.folder, self.stored.url)

    def _system(self, name: str) -> str:
        """The system whose table has a name."""
        if self.setup.together == "column":
            return name
        names = {Path(table).name.partition(".")[0]: system for system, table in self.runs}
        return names.get(name, name)

    def _refused(self) -> None:
        """What would give wrong numbers, and a place that is not there; nothing is changed."""
        self._spec(rankings=self._columns(score="large"))
        self._call("run", expect=2)
        if self.setup.source not in ("csv", "spreadsheet", "ndjson"):
            self._spec(rankings=self._columns(item="broken"))
            self._call("run", expect=2)
        if self.setup.words:
            worst = max(row["grade"] for row in self.world.labels)
            words = {**self.stored.spec["labels"]["grades"]}
            (text,) = [word for word, number in words.items() if number == worst]
            words[text] = self.chance.choice([-1, 2000])
            self._spec(labels={**self.stored.spec["labels"], "grades": words})
            self._call("run", expect=2)
        self._spec()
        self._is_whole()
        if self.setup.database != "postgres":
            files = self._files()
            typo = f"{self.stored.url}x"
            sqlmetrics("check", "spec.yml", "--connection", typo, folder=self.folder, expect=2)
            assert self._files() == files, "a place that is not there was made"

    def _removed(self) -> None:
        """A spec is retired and comes back, and then all that runs made goes; nothing else."""
        with connected(self.stored.url) as connection:
            connection.execute("drop view analyst")
            connection.commit()
        rows = re.search(r"--rows (\d+)", self._call("retire", expect=2).stderr)
        assert rows
        self._call("retire", "--rows", str(int(rows[1]) + 1), expect=2)
        self._is_whole()
        self._call("retire", "--rows", rows[1])
        assert facts(self.stored.url) == {}
        self._call("restore", json.loads(self._call("runs", "-o", "json").stdout)[0]["run_id"])
        self._is_whole()
        self._call("uninstall", expect=2)
        self._is_whole()
        self._call("uninstall", "--yes")
        self._call("uninstall", expect=4)
        self._call("run")
        self._is_whole()

    def _columns(self, **changed: str) -> Row:
        rankings = self.stored.spec["rankings"]
        return {**rankings, "columns": {**rankings["columns"], **changed}}

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


@by_turns(0.5)
@pytest.mark.parametrize("name", TRACES)
def test_any_traces_give_what_plain_python_gives(name: str, tmp_path: Path) -> None:
    """An export of any tool in any form of file, with its references or a table of labels."""
    setup, chance = TRACES[name], random.Random(crc32(f"{SEED}/{name}".encode()))
    questions = trace_seams.random_questions(chance)
    path = trace_seams.stored(setup, questions, tmp_path)
    labels = ["labels.csv"] if setup.labels == "csv" else []
    means = trace_seams.expected(questions, segments=setup.segments)
    if setup.command in ("evaluate", "show"):
        words = [path.name, *labels, *_metrics()]
        words += ["--by", "country"] if setup.segments else []
        if setup.command == "show":
            segments = ["country"] if setup.segments else []
            words = [_trace_spec(path, (labels or [path.name])[0], segments)]
        completed = sqlmetrics(setup.command, *words, "-o", "json", folder=tmp_path)
        rows = json.loads(completed.stdout)
        actual = {
            (row["segment_name"], row["segment_value"], at_cutoff(row["metric"], row["k"])): row[
                "value"
            ]
            for row in rows
            if row["value"] is not None
        }
        assert actual == pytest.approx(means, abs=1e-12)
        assert f"read as {setup.tool.partition(',')[0]}: " in completed.stderr
        return
    (tmp_path / "turned").mkdir()
    turned = [replace(question, retrieved=question.retrieved[::-1]) for question in questions]
    other = trace_seams.stored(setup, turned, tmp_path / "turned")
    tables = [f"old={path.name}", f"new=turned/{other.name}", *labels]
    metrics = [] if setup.command in ("diagnose", "sheet") else _metrics()
    form = {"report": ["--out", "-"], "sheet": []}.get(setup.command, ["-o", "json"])
    completed = sqlmetrics(setup.command, *tables, *metrics, *form, folder=tmp_path)
    assert completed.stdout
    if setup.command == "compare":
        means_turned = trace_seams.expected(turned, segments=False)
        assert {
            row["metric"]: (row["baseline_value"], row["value"])
            for row in json.loads(completed.stdout)
        } == {
            metric: pytest.approx((means[key], means_turned[key]), abs=1e-12)
            for key in means
            for metric in key[2:]
        }


def _metrics() -> list[str]:
    return [word for metric in trace_seams.METRICS for word in ("-m", metric)]


def _trace_spec(path: Path, labels: str, segments: list[str]) -> str:
    """A spec of traces, whose references are the labels unless a table has these."""
    spec = {
        "version": 1,
        "rankings": {"file": path.name},
        "labels": {"file": labels},
        "metrics": [*trace_seams.METRICS],
        "by": segments,
    }
    (path.parent / "spec.yml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    return "spec.yml"


def _range(start: date, end: date) -> list[str]:
    return ["--start", str(start), "--end", str(end)]


def test_worlds_are_hard() -> None:
    """Systems start late and pause, and every choice of a setup is in some draw."""
    chance = random.Random(1)
    for module in (seams, click_seams, trace_seams):
        rows = list(seams.covering_choices(module.CHOICES, module.possible, chance))
        for name, values in module.CHOICES.items():
            assert {row[name] for row in rows} == set(values)
    worlds = [random_world(random.Random(seed)) for seed in range(20)]
    firsts = [
        {row["system"] for row in world.rankings if row["ds"] == world.days[0]} for world in worlds
    ]
    assert any(len(systems) == 1 for systems in firsts)
