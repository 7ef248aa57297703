"""What a spec names is there, by every command that reads it; and its baseline is used."""

from __future__ import annotations

import math
import sqlite3
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest
import yaml
from click.testing import CliRunner
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.errors import SqlmetricsError, nearest
from sqlmetrics.stats import student

pytestmark = by_turns(0.6)

COMMANDS = {
    "validate": {},
    "clicks": {},
    "run": {"--db": "jobs.duckdb"},
    "compare": {},
    "diagnose": {},
    "report": {"--out": "page.html"},
    "verify": {},
}
"""Those that read a spec -> the files that they write."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    size = ["--requests", "300", "--users", "60", "--queries", "20", "--days", "2"]
    result = CliRunner().invoke(cli, ["simulate", str(folder / "log"), *size, "-q"])
    assert not result.exit_code, result.output
    return folder


def spec(folder: Path, **changed: Any) -> Path:
    """A click log's job with two systems, with other values for some keys."""
    impression_columns = {
        "request": "request_id",
        "query": "query",
        "item": "item_id",
        "position": "position",
    }
    impression_columns |= {
        "system": "system",
        "user": "user_id",
        "time": "shown_at",
        "segments": ["country"],
    }
    events = {"request": "request_id", "item": "item_id", "action": "action"}
    events |= {"user": "user_id", "time": "happened_at"}
    shown_source: dict[str, Any] = {"file": str(folder / "log/impressions.parquet")}
    shown_source["columns"] = impression_columns
    events_source: dict[str, Any] = {"file": str(folder / "log/events.parquet"), "columns": events}
    clicks = {
        "daily": True,
        "impressions": shown_source,
        "events": events_source,
        "labels": {"grades": {"click": 1, "add_to_cart": 2, "purchase": 3}},
    }
    fields = {"version": 1, "name": "ev", "metrics": ["ndcg@10", "ctr"], "baseline": "new"}
    fields |= {"by": ["country"], "output": {"relation": "m"}, "clicks": clicks} | changed
    if grades := fields.pop("grades", None):
        clicks["labels"] = {"grades": grades}
    if where := fields.pop("where", None):
        events_source["where"] = where
    if fields.pop("some_systems", None):
        name = str(folder / "log/some_systems.parquet")
        system = "case when hash(user_id) % 7 > 0 then system end as system"
        rows = f"select * replace ({system}) from '{shown_source['file']}'"
        duckdb.sql(rows).write_parquet(name)
        shown_source["file"] = name
    if unit := fields.pop("unit", None):  # of times that are milliseconds
        for source, column in ((shown_source, "shown_at"), (events_source, "happened_at")):
            name = source["file"].replace(".parquet", "_ms.parquet")
            rows = f"select * replace (epoch_ms({column}) as {column}) from '{source['file']}'"
            duckdb.sql(rows).write_parquet(name)
            source |= {"file": name, "time_unit": unit}
    path = folder / "spec.yml"
    path.write_text(yaml.safe_dump(fields))
    return path


def output_of(command: str, path: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and all that a command says, as one line."""
    with TemporaryDirectory() as directory:
        files = [(option, f"{directory}/{name}") for option, name in COMMANDS[command].items()]
        result = CliRunner().invoke(cli, [command, str(path), *chain(*files, map(str, arguments))])
    if isinstance(error := result.exception, SqlmetricsError):
        return error.exit_code, " ".join(str(error).split())
    assert error is None or isinstance(error, SystemExit), error
    return result.exit_code, " ".join((result.output + result.stderr).split())


EXISTING_ACTIONS = "there are click ("
WRONG: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (
        {"grades": {"clik": 1, "purchase": 3}},
        ("action 'clik'", "did you mean 'click'?", EXISTING_ACTIONS),
    ),
    ({"grades": {"CLICK": 1}}, ("action 'CLICK'", "did you mean 'click'?", EXISTING_ACTIONS)),
    ({"baseline": "nwe"}, ("system 'nwe'", "did you mean 'new'? there are ")),
    ({"where": "action = 'none'", "metrics": ["ctr"]}, ("impressions have no event at all",)),
    *(({"unit": unit}, (f"not in {unit}, but in ms", "time_unit: ms")) for unit in ("s", "us")),
]


@pytest.mark.parametrize(("changed", "sentences"), WRONG)
def test_a_value_that_decides_a_number_is_refused(
    folder: Path, changed: dict[str, Any], sentences: tuple[str, ...]
) -> None:
    path = spec(folder, **changed)
    for command in COMMANDS:
        if "metrics" in changed and command in ("compare", "diagnose", "verify", "report"):
            continue  # which want metrics of lists
        if command == "report" and find_spec("altair") is None:
            continue
        code, text = output_of(command, path)
        assert code in (2, 4), (command, text)
        assert all(sentence in text for sentence in sentences), (command, text)


OPTIONS = (
    (("--baseline", "nwe"), "unknown system 'nwe'; did you mean 'new'? known: new, old"),
    (("--systems", "new,odl"), "unknown system 'odl'; did you mean 'old'? known: new, old"),
    (("--by", "city"), "'city'"),
)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_value_that_an_option_names_is_there(
    folder: Path, tmp_path: Path, is_stored: bool
) -> None:
    """In a click log, in two tables, and in the rows that runs have written."""
    runs, labels = tmp_path / "runs.csv", tmp_path / "labels.csv"
    rows = [f"q{q},{s},i{i},{9 - i}" for q in range(5) for s in ("new", "old") for i in range(3)]
    runs.write_text("\n".join(["query_id,system,item_id,score", *rows]))
    labels.write_text("\n".join(["query_id,item_id,grade", *(f"q{q},i1,1" for q in range(5))]))
    sources: dict[str, Any] = {
        "rankings": {"file": str(runs), "columns": {"system": "system"}},
        "labels": {"file": str(labels)},
    }
    tables = tmp_path / "tables.yml"
    tables.write_text(yaml.safe_dump(sources | {"metrics": ["mrr"], "output": {"relation": "m"}}))
    database: list[str] = []
    if is_stored:
        database = ["--db", str(tmp_path / "jobs.duckdb")]
        assert not CliRunner().invoke(cli, ["run", str(tables), *database, "-q"]).exit_code
    for command in ("report", "diagnose", "compare"):
        if command == "report" and find_spec("altair") is None:
            continue
        for path in (tables, *([] if is_stored else [spec(folder)])):
            unpaired = ["--unpaired"] if command == "compare" and path != tables else []
            for option, sentence in OPTIONS:
                code, text = output_of(command, path, *option, *unpaired, *database)
                assert code == 2, (command, option, text)
                assert sentence in text, (command, option, text)


def test_a_value_that_decides_none_is_a_note(folder: Path) -> None:
    limit = {"metric": "ndcg@10", "max_drop": 0.1}
    checks = [limit | {"segment": {"country": "ED"}}, limit | {"against": "odl"}]
    path = spec(folder, checks=checks)
    for command in ("validate", "clicks", "run"):
        code, text = output_of(command, path)
        assert code == 0, text
        assert "names the country 'ED', which no row has; did you mean 'DE'? there are" in text
        assert "names the system 'odl', which no row has; did you mean 'old'? there are" in text


def test_a_quiet_night_is_no_mistake(folder: Path) -> None:
    """What other days have may be missing on one; in a small log it may be missing at all."""
    late = "action <> 'purchase' or happened_at >= timestamp '2026-01-06'"
    path = spec(folder, where=late)
    code, text = output_of("run", path, "--start", "2026-01-05", "--end", "2026-01-06")
    assert code == 0, text
    assert "purchase" not in text
    few = spec(folder, grades={"click": 1, "wish": 2})
    code, text = output_of("clicks", few)
    assert code == 0, text
    assert "names the action 'wish', which no row has" in text


def test_a_log_stands_beside_its_baseline(folder: Path) -> None:
    """Each mean of its own requests, with Welch's error; and always-valid over the days."""
    always = {"max_drop": 0, "against": "new", "confidence": "always"}
    path = spec(folder, checks=[always | {"metric": name} for name in ("ndcg@10", "ctr")])
    spec_read = sm.Spec.read(path)
    with duckdb.connect() as connection:
        sm.run(spec_read, connection)
        rows = (
            connection.sql("select * from m where segment_name = 'all'")
            .to_arrow_table()
            .to_pylist()
        )
        running = connection.sql(
            "select metric, system, sum(running_difference), bool_and(running_low is not null) "
            "from m_comparison where segment_name = 'all' group by all order by all"
        ).fetchall()
        verdicts = sm.check(spec_read, connection)
    by_key = {(row["metric_date"], row["system"], row["metric"]): row for row in rows}
    assert len(by_key) == 8
    for (day, system, metric), row in by_key.items():
        if system == "new":
            assert row["baseline"] is row["difference"] is None
            continue
        other = by_key[day, "new", metric]
        errors = [
            (estimate["ci_high"] - estimate["ci_low"])
            / 2
            / student.critical(0.95, estimate["n_clusters"] - 1)
            for estimate in (row, other)
        ]
        n_least = min(row["n_clusters"], other["n_clusters"])
        reach = student.critical(0.95, n_least - 1) * math.hypot(*errors)
        difference = row["value"] - other["value"]
        assert row["baseline"] == "new"
        assert row["difference"] == pytest.approx(difference, abs=1e-12)
        assert row["difference_low"] == pytest.approx(difference - reach, abs=1e-9)
        assert row["difference_high"] == pytest.approx(difference + reach, abs=1e-9)
    assert [row[:2] for row in running] == [("ctr", "old"), ("ndcg", "old")]
    assert all(has_interval for *_, has_interval in running)
    assert [verdict.rule for verdict in verdicts] == [
        "max_drop 0 against new, confidence always"
    ] * 2
    for metrics in ([], ["-m", "ctr"]):
        compared = output_of("compare", path, "--unpaired", *metrics)
        assert compared[0] == 0
        assert "ctr from" in compared[1]
    assert all("no interval" not in verdict.note and "±" in verdict.note for verdict in verdicts)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {
                "checks": [
                    {"metric": "mrr", "max_drop": 0, "against": "old", "confidence": "always"}
                ]
            },
            "add to the spec: baseline: old",
        ),
    ],
)
def test_what_cannot_have_an_interval_is_refused_when_it_is_read(
    folder: Path, changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(sm.SpecError, match=sentence):
        sm.Spec.read(spec(folder, **changed))


def test_a_query_that_cannot_be_read_is_told_as_it_was_given(tmp_path: Path) -> None:
    """Not by an inner name, and with the database in which it runs; nothing stays behind."""
    sources = {name: {"sql": f"select * from {name}_table"} for name in ("impressions", "events")}
    logged = sm.Spec(clicks=sources, metrics=["mrr"])
    ranked = sm.Spec(
        rankings={"sql": "select * from ranked_table"},
        labels={"relation": "labels"},
        metrics=["mrr"],
    )
    database = tmp_path / "shop.sqlite"
    sqlite3.connect(database).close()
    for job, query in ((logged, "impressions_table"), (ranked, "ranked_table")):
        with pytest.raises(sm.InputError) as caught:
            sm.validate(job, f"sqlite:///{database}")
        assert f"'select * from {query}', which runs in SQLite, cannot be" in str(caught.value)


def test_a_null_system_beside_a_baseline_that_is_nowhere(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(
        "query_id,item_id,score,system\nq1,a,2,old\nq1,b,1,new\nq1,c,2,\n"
    )
    labels = tmp_path / "labels.csv"
    labels.write_text("query_id,item_id,grade\nq1,a,1\n")
    for check, sentence in ((True, "system is NULL in 1 row"), (False, "system is NULL in some")):
        with pytest.raises(sm.InputError, match=sentence):
            sm.compare(tmp_path / "runs.csv", labels, "mrr", baseline="odl", check=check)


def test_requests_without_a_system_are_not_called_as_the_spec(folder: Path) -> None:
    for show in ("soundness", "depth"):
        code, text = output_of("clicks", show, spec(folder, some_systems=True))
        assert code == 0, text
        assert "ev " not in text, text
        assert show == "depth" or "NULL " in text, text


@pytest.mark.parametrize(
    ("text", "names", "near"),
    [
        ("ngcd", ["dcg", "map", "ndcg"], "ndcg"),
        ("ctrr", ["ctr", "err", "ncrr"], "ctr"),
        ("CLICK", ["click", "clicked"], "click"),
        ("recla", ["recall", "precision"], "recall"),
        ("rec", ["precision", "recall"], "recall"),
        ("zzz", ["ndcg"], None),
    ],
)
def test_the_nearest_name(text: str, names: list[str], near: str | None) -> None:
    assert nearest(text, names) == near
