"""What was not shown as rows of a job: day by day what `clicks counterfactual` says of the day."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from job_days import FIRST, SLOW, WRITERS, clear, days
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.catalog.counterfactual import estimated_metric, is_estimated
from sqlmetrics.clicks.counterfactual.terms import CounterfactualEstimate
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError, NoDataError, SpecError
from sqlmetrics.jobs.checks.verdict import verdicts
from sqlmetrics.jobs.job import job_text
from sqlmetrics.jobs.missing_days import open_days
from sqlmetrics.jobs.run import evaluated, write
from sqlmetrics.jobs.views import NAMES
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.translation import Translation

Row = dict[str, Any]

COLUMNS = {"request": "request", "query": "query", "item": "item", "position": "position"}
COLUMNS |= {"clicked": "clicked", "user": "user", "time": "at", "propensity_score": "chance"}
COLUMNS |= {"list_propensity_score": "list_chance"}
LOGGED: Row = COLUMNS | {"segments": ["device"]}
CURVE = {1: 1.0, 2: 0.62, 3: 0.41, 4: 0.3, 5: 0.2}
LISTS = {
    "rankings": {
        "relation": "lists",
        "columns": {"query": "list", "item": "item", "score": "score", "system": "system"},
    },
    "match": "query",
    "metrics": ["dcg@3", "sum_reciprocal_rank", "precision@2", "recall@2", "clicks@4"],
    "clip": 3,
    "prior": 2.5,
}
POLICY = {"relation": "policy", "columns": {"item": "item", "probability": "p"}}
KEY = ("metric_date", "system", "metric", "k", "segment_value")
NUMBERS = ("value", "numerator", "denominator", "n_queries", "n_clusters", "ci_low", "ci_high")
NUMBERS += ("sum_x", "sum_x2", "sum_w2", "sum_xw")
TABLES = ("metrics", "metrics_runs", "metrics_metrics", "metrics_definitions")


def log(seed: int = 1) -> pa.Table:
    """Six days without the third; on the last one queries are asked that have no new list."""
    chance = random.Random(seed)
    rows = [
        {
            "request": f"r{day}-{number}",
            "query": f"{'other' if day == 5 else 'q'}{chance.randrange(5)}",
            "item": item,
            "position": position,
            "clicked": int(chance.random() < 0.5 / position + 0.1),
            "user": user,
            "at": datetime.combine(FIRST + timedelta(day), datetime.min.time())
            + timedelta(hours=23 * chance.random()),
            "chance": 0.2 + 0.1 * position,
            "device": "phone" if number % 3 else None,
            "list_chance": 0.1 + 0.02 * number,
        }
        for day in (0, 1, 3, 4, 5)
        for number in range(25)
        for user in [f"u{chance.randrange(9)}" if chance.random() < 0.8 else None]
        for position, item in enumerate(chance.sample("abcdefgh", chance.randint(3, 5)), 1)
    ]
    # a request is of one query, and began at one moment
    first = {row["request"]: row for row in reversed(rows)}
    same = [
        row | {column: first[row["request"]][column] for column in ("query", "at")} for row in rows
    ]
    return pa.Table.from_pylist(same)


def new_lists() -> pa.Table:
    """Lists of two systems, with ties, for most of the queries; an item was never shown."""
    chance = random.Random(7)
    return pa.Table.from_pylist(
        [
            {"list": f"q{query}", "item": item, "score": score, "system": system}
            for system in ("one", "two's")
            for query in range(4)
            for item in chance.sample("abcdefghz", 6)
            for score in [float(chance.randrange(4))]
        ]
    )


def spec(counterfactual: Row | None = None, **fields: Any) -> sm.Spec:
    clicks = {
        "log": {"relation": "log", "columns": LOGGED},
        "propensity": {"method": "given", "given": CURVE},
        "counterfactual": counterfactual or LISTS,
        "daily": True,
    }
    defaults: Row = {"name": "log", "metrics": ["ctr", "mrr"], "output": {"relation": "metrics"}}
    return sm.Spec(**{**defaults, "clicks": clicks | fields.pop("clicks", {}), **fields})


@contextmanager
def opened(servers: Any, writer: str = "duckdb") -> Iterator[Any]:
    """A database that has the log, the lists and a policy."""
    policy = {"item": [*"abcdefgh"], "p": [0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0]}
    with connect(servers.open(writer)) as engine:
        tables = {"log": log(), "lists": new_lists(), "policy": policy}
        clear(engine, *tables)  # a server is shared with tests that leave such names
        try:
            for name, table in tables.items():
                engine.load(name, table if isinstance(table, pa.Table) else pa.table(table))
            yield engine
        finally:
            clear(engine, *tables)


def rows(engine: Any) -> dict[tuple[Any, ...], Row]:
    """The rows of what was not shown."""
    estimated = engine.table("select * from metrics").to_pylist()
    estimated = [row for row in estimated if is_estimated(row["metric"])]
    by_key = {tuple(str(row[name]) for name in KEY): row for row in estimated}
    assert len(by_key) == len(estimated)
    return by_key


def estimates_of_day(
    engine: Any, job: sm.Spec, day: int
) -> dict[tuple[Any, ...], CounterfactualEstimate]:
    """What `clicks counterfactual` says of a log of that day alone."""
    clicks = job.clicks
    assert clicks is not None
    of_day = clicks.model_copy(update={"evaluation": days(day, day + 1)})
    with sm.clicks.clean(of_day, engine) as cleaned:
        result = sm.clicks.counterfactual_metrics(cleaned, confidence=job.confidence, by=job.by)
    when = str(FIRST + timedelta(day))
    return {
        (
            when,
            estimate.system,
            f"{estimate.metric}(estimator={estimate.estimator})",
            str(estimate.k),
            of,
        ): estimate
        for estimate in result.estimates
        for of in [estimate.segment_value]
    }


def of_metrics(
    wanted: Mapping[tuple[Any, ...], object], actual: Mapping[tuple[Any, ...], Row]
) -> dict[tuple[Any, ...], Row]:
    """The rows of the metrics that are wanted."""
    metrics = {key[2] for key in wanted}
    return {key: row for key, row in actual.items() if key[2] in metrics}


def check(engine: Any, job: sm.Spec, numbers: tuple[int, ...] = (0, 1, 3, 4)) -> None:
    """The rows of these days, and of no other, are what is shown of each.

    Metrics that an earlier spec asked for keep theirs, whatever replaces the others.
    """
    wanted = {
        key: estimate
        for day in numbers
        for key, estimate in estimates_of_day(engine, job, day).items()
    }
    actual = of_metrics(wanted, rows(engine))
    assert actual.keys() == wanted.keys()
    for key, estimate in wanted.items():
        row = actual[key]
        assert row["segment_name"] == estimate.segment_name
        assert (row["n_queries"], row["n_clusters"]) == (estimate.n, estimate.n_clusters), key
        for name in ("value", "ci_low", "ci_high"):
            expected = getattr(estimate, name)
            near = expected if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert row[name] == near, (key, name)
        if estimate.value is not None:
            assert row["numerator"] / row["denominator"] == pytest.approx(estimate.value, rel=1e-12)
            assert row["ci_method"] == "Student's t, 95 %, by user"


WHERE = engines(WRITERS, now=["duckdb"], night=SLOW)


@by_turns(2)
@pytest.mark.parametrize("writer", WHERE)
def test_a_day_has_the_numbers_that_are_shown_of_it(writer: str, servers: Any) -> None:
    """Ranges that overlap, in any order; two days have no row, and one run replaces its days."""
    with opened(servers, writer) as engine:
        for ends in ((3, 6), (1, 5), (0, 2)):
            report = write(spec(), engine, days(*ends))
        assert any("estimate rests on" in note for note in report.notes)
        check(engine, spec())
        other = {"policy": POLICY, "prior": 3, "clip": 1.5}
        write(spec(other), engine, full_refresh=True, allow_loss=4, adopt=True)
        check(engine, spec(other), (0, 1, 3, 4, 5))


@by_turns(0.8)
def test_a_run_replaces_its_own_days_and_views_have_the_rows(servers: Any) -> None:
    """And text that is compiled makes the same rows, of the same definitions."""
    job = spec(LISTS | {"metrics": ["dcg@3", "clicks@4"], "estimators": ["ips", "snips"]})
    with opened(servers) as engine:
        write(job, engine, days(0, 6))
        before = rows(engine)
        assert open_days(job, engine, backfill=True) == []
        engine.execute("update log set clicked = 1 - clicked where item in ('a', 'b')")
        write(job, engine, days(1, 2))
        after = rows(engine)
        changed = {key[0] for key in before if before[key]["value"] != after[key]["value"]}
        assert changed == {"2026-01-02"}
        text = job_text(job, engine.translation, days(1, 2), "'a run'", "current_timestamp")
        for statement in (*text.tables, *text.evaluation, *text.replacement):
            engine.execute(statement)
        same(rows(engine), after)
        wide = engine.table("select * from metrics_log_all where metric_date = '2026-01-02'")
        (wide_row,) = (row for row in wide.to_pylist() if row["system"] == "one")
        assert wide_row["dcg_estimator_ips_at_3"] == after["2026-01-02", "one", *DCG]["value"]
        for name in {*NAMES} - {"comparison"}:  # there is no baseline
            engine.rows(f"select count(*) from metrics_{name}")
        described = engine.table("select * from metrics_metrics order by name")
        (ips, snips) = (
            metric for metric in described.to_pylist() if metric["name"].startswith("clicks(")
        )
        assert (ips["direction"], ips["unit"], ips["roll_up"]) == ("higher", "count", "ratio")
        assert "over all weighed clicks" in snips["meaning"]
        assert "over all" not in ips["meaning"]
        evaluation = evaluated(job, engine, days(1, 2), confidence=0.95).facts().to_pylist()
        table = {tuple(str(row[name]) for name in KEY): row for row in evaluation}
        for key, row in after.items():
            if key[0] == "2026-01-02":
                for name in ("value", "numerator", "denominator", "ci_low", "ci_high"):
                    assert table[key][name] == pytest.approx(row[name], rel=1e-9)


DCG = ("dcg(estimator=ips)", "3", "all")


@by_turns(1.2)
@pytest.mark.parametrize("writer", WHERE)
def test_segments_have_rows_and_checks(writer: str, servers: Any) -> None:
    """A text that is compiled makes the same; a check looks at a segment."""
    limits = [{"metric": f"{DCG[0]}@3", "min": 0.001, "segment": {"device": "*"}}]
    job = spec(LISTS | {"metrics": ["dcg@3", "recall@2"]}, by=["device"], checks=limits)
    with opened(servers, writer) as engine:
        write(job, engine, days(0, 5))
        check(engine, job)
        stored = rows(engine)
        assert {key[-1] for key in stored} == {"all", "phone", "(unknown)"}
        results = verdicts(job, engine, days=[days(4, 5)])
        assert {result.segment for result in results} == {"device=phone", "device=(unknown)"}
        if writer == "duckdb":
            when = days(1, 2), "'a run'", "current_timestamp"
            text = job_text(job, engine.translation, *when)
            for statement in (*text.tables, *text.evaluation, *text.replacement):
                engine.execute(statement)
            same(rows(engine), stored)
        first = LISTS | {"metrics": ["mrr@1", "hit@1"], "list_depth": 1}
        for other, numbers in ((POLICY, (0, 1, 3, 4, 5)), (None, (0, 1, 3, 4))):
            job = spec({"policy": other} if other else first, by=["device"])
            write(job, engine, full_refresh=True, allow_loss=5, adopt=True)
            check(engine, job, numbers)
        if writer == "duckdb":
            before = rows(engine)
            text = job_text(job, engine.translation, *when)
            for statement in (*text.tables, *text.evaluation, *text.replacement):
                engine.execute(statement)
            # of whole days: metrics that are asked for no more lose theirs of that day
            estimates = estimates_of_day(engine, job, 1)
            same(of_metrics(estimates, rows(engine)), of_metrics(estimates, before))


def same(actual: dict[tuple[Any, ...], Row], wanted: dict[tuple[Any, ...], Row]) -> None:
    """The same numbers, but for the order in which they were added up."""
    assert actual.keys() == wanted.keys()
    for key, row in wanted.items():
        for name in NUMBERS:
            value = row[name]
            near = value if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)
            assert actual[key][name] == near, (key, name)


@by_turns(1.1)
def test_checks_take_limits_and_drops_of_them(servers: Any) -> None:
    limits = [
        {"metric": "DCG(estimator=ips)@3", "min": 0.001},
        {"metric": "clicks(estimator=snips)@4", "max": 0.001, "system": "one"},
        {"metric": "clicks(estimator=snips)@4", "max_drop": 1.0, "against": "one"},
    ]
    with opened(servers) as engine:
        write(spec(), engine, days(0, 5))
        results = verdicts(spec(checks=limits), engine, days=[days(4, 5)])
        assert [result.holds for result in results] == [True, True, False, True]
        wrong = spec(checks=[{"metric": "dcg(estimator=ips)@9", "min": 0}])
        with pytest.raises(SpecError, match="unknown metric of the spec"):
            verdicts(wrong, engine)


@by_turns(1)
def test_days_of_which_the_log_has_nothing_are_no_data(servers: Any) -> None:
    with opened(servers) as engine:
        for metrics in (["ctr"], ["mrr"]):
            with pytest.raises(NoDataError):
                write(spec(metrics=metrics), engine, days(2, 3))
        write(spec(metrics=["ctr"]), engine, days(2, 3), check=False)
        with pytest.raises(InputError, match="no list matches a query of the log"):
            write(spec(), engine, days(5, 6))
        report = write(spec(), engine, days(5, 6), check=False)
        assert "25 requests without a new list are left out" in report.notes
        assert not rows(engine)


@by_turns(1.2)
def test_what_another_run_would_tell_differently_is_refused(servers: Any) -> None:
    learned: Row = {"propensity": {"method": "harvest", "min_clicks": 1, "replicates": 0}}
    window = Days(start=FIRST, end=FIRST + timedelta(2))
    uniform = {"policy": "uniform", "metrics": ["ctr"]}
    with opened(servers) as engine:
        with pytest.raises(SpecError, match="need the days that they are learned from"):
            write(spec(clicks=learned), engine, days(3, 5))
        with pytest.raises(SpecError, match="the uniform policy needs actions"):
            write(spec(uniform), engine, days(3, 5))
        labels = {"pool": "query_item", "window": window}
        job = spec(clicks=learned | {"labels": labels, "evaluation": days(3, 5)})
        with pytest.raises(SpecError, match="a text of SQL cannot contain them"):
            job_text(job, engine.translation, days(3, 5), "'a run'", "current_timestamp")
        write(job, engine, days(3, 4))
        write(job, engine, days(4, 5))
        check(engine, job, (3, 4))
        ten = spec(uniform | {"actions": 10})
        write(ten, engine, full_refresh=True, allow_loss=2)
        check(engine, ten, (0, 1, 3, 4, 5))


def test_what_decides_a_number_is_in_its_definition() -> None:
    """A clip decides what is clipped, a prior what has a model, and propensities all of lists."""

    def hashes(job: sm.Spec) -> dict[str, str]:
        return {str(metric): job.definition_hash(metric) for metric in job.estimated}

    def changed(other: sm.Spec) -> set[str]:
        was = hashes(spec())
        return {
            estimated_metric(metric).estimator
            for metric, of in hashes(other).items()
            if was[metric] != of
        }

    assert changed(spec(LISTS | {"clip": 5})) == {"clipped_ips", "dr"}
    assert changed(spec(LISTS | {"prior": 5})) == {"dr"}
    curve = {"propensity": {"method": "given", "given": {1: 1, 2: 0.5}}}
    assert changed(spec(clicks=curve)) == {"ips", "clipped_ips", "snips", "dr"}
    definition = spec().definition(spec().estimated[0])
    assert (definition["metric"], definition["estimator"]) == ("dcg@3", "ips")
    assert definition["propensity"]["method"] == "given"


def test_a_text_for_a_database_that_reads_no_files_has_no_lists_of_a_file() -> None:
    columns = {"query": "list", "item": "item", "score": "score"}
    job = spec(LISTS | {"rankings": {"file": "new.parquet", "columns": columns}})
    with pytest.raises(SpecError, match="PostgreSQL cannot read files"):
        job_text(job, Translation(dialect_named("postgres")), days(3, 5), "'a run'", "now()")


def test_its_texts() -> None:
    metric = estimated_metric(" Clicks( estimator = IPS )@ 10 ")
    assert (str(metric), metric.column) == (
        "clicks(estimator=ips)@10",
        "clicks_estimator_ips_at_10",
    )
    for wrong, message in {
        "dcg(estimator=dm)": "unknown estimator 'dm'",
        "recall(estimator=dr)@5": "unknown estimator 'dr'",
        "ndcg(estimator=ips)@3": "divides by the best list",
        "dcg": "cannot be read; write it like",
    }.items():
        with pytest.raises(SpecError, match=message):
            estimated_metric(wrong)
