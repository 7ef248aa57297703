"""What a visit does from search to search: reformulation, exit, and how long success takes."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.proof.reference_online import Click, Part, Request, visit_parts

Row = dict[str, Any]
MIDNIGHT = datetime(2026, 1, 2)
METRICS = (
    *("time_to_success", "reformulation_rate", "reformulation_rate(minutes=1)"),
    *("search_exit_rate", "searches_per_session"),
)
SUCCESS = ("click", "purchase")


def visit_rows(seed: int = 5) -> tuple[list[Row], list[Row]]:
    """Requests of 20 visits around midnight, and events.

    Some are at the same second, of no visit, without a time, a query or a result, and some succeed
    when the next search has begun.
    """
    chance = random.Random(seed)
    requests, events = [], []
    for number in range(150):
        visit = chance.choice([None, *range(20)])
        at = None if number % 29 == 0 else MIDNIGHT + timedelta(seconds=chance.randrange(-600, 600))
        requests.append(
            {
                "request_id": f"{chance.choice('rR')}{number}",
                "system": chance.choice(["new", "old", "old"]),
                "visit": None if visit is None else f"s{visit}",
                "user": f"u{number % 7}",
                "query": chance.choice(["lamp", "lamps", "Lamp", None]),
                "at": at,
                "n": chance.choice([0, 2, 2]),
            }
        )
        for action in ("click", "purchase", "save") if requests[-1]["n"] else ():
            if chance.random() < 0.25:
                after = chance.choice([0, 20, 200])
                events.append(
                    {
                        "request_id": requests[-1]["request_id"],
                        "item_id": f"i{chance.randrange(2)}",
                        "action": action,
                        "at": at and chance.choice([at + timedelta(seconds=after)] * 5 + [None]),
                    }
                )
    return requests, events


def tables(requests: Sequence[Row], events: Sequence[Row]) -> dict[str, pa.Table]:
    impressions = [
        {**request, "item_id": f"i{index}", "position": index + 1}
        for request in requests
        for index in range(request["n"])
    ]
    rows = {"impressions": impressions, "events": events, "requests": requests}
    return {name: pa.Table.from_pylist(list(part)) for name, part in rows.items()}


def spec_of(metrics: Any = METRICS, *, visit: str = "session", **clicks: Any) -> sm.Spec:
    columns = {"system": "system", "time": "at", "query": "query"}
    columns[visit] = {"session": "visit", "user": "user"}[visit]
    log = {
        "impressions": {"relation": "impressions", "columns": columns},
        "events": {"relation": "events", "columns": {"time": "at"}},
        "requests": {"relation": "requests", "columns": {**columns, "results": "n"}},
        "success_actions": SUCCESS,
    }
    return sm.Spec(name="log", clicks=log | clicks, metrics=metrics, output={"relation": "numbers"})


def wanted(
    requests: Sequence[Row], events: Sequence[Row], visit: str, *, daily: bool
) -> Mapping[tuple[str, ...], Part]:
    """(System or day and system, metric) -> its sums, by the reference."""
    groups: dict[tuple[str, ...], list[Request]] = defaultdict(list)
    for row in requests:
        successes = [
            e for e in events if e["request_id"] == row["request_id"] and e["action"] != "save"
        ]
        after = [(e["at"] - row["at"]).total_seconds() if e["at"] else 0.0 for e in successes]
        of_visit = row["visit"] if visit == "session" else row["user"]
        is_in_visit = of_visit is not None and row["at"] is not None
        key = (*[str(row["at"])[:10]] * daily, row["system"])
        groups[key].append(
            Request(
                row["request_id"],
                of_visit if is_in_visit else "",
                ("i0", "i1")[: row["n"]],
                tuple(Click(e["item_id"], s, 0) for e, s in zip(successes, after, strict=True)),
                query=row["query"] or "",
                at=(row["at"] - MIDNIGHT).total_seconds() if row["at"] else 0,
            )
        )
    sums = {}
    for key, group in groups.items():
        in_visits = [request for request in group if request.session]
        for metric, minutes in (("reformulation_rate", 5), ("reformulation_rate", 1)):
            text = metric if minutes == 5 else f"{metric}(minutes=1)"
            parts = visit_parts(metric, in_visits, ["click"], minutes)
            sums[*key, text] = summed(parts)
        sums[*key, "search_exit_rate"] = summed(
            visit_parts("search_exit_rate", in_visits, ["click"])
        )
    return sums


def summed(parts: Any) -> Part:
    top, bottom = zip(*parts, strict=True)
    return sum(top), sum(bottom)


def online_sums(spec: sm.Spec, connection: Any) -> Mapping[tuple[str, ...], Part]:
    assert spec.clicks is not None
    return {
        (*[str(row["metric_date"])] * spec.clicks.daily, row["system"], row["metric"]): (
            row["numerator"],
            row["denominator"],
        )
        for row in sm.evaluate_clicks(spec, connection).online().to_pylist()
    }


@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres"], now=["duckdb", "sqlite"])
)
def test_what_a_visit_does_is_what_the_reference_counts(name: str, servers: Servers) -> None:
    """Of sessions and of users, of days and of all; ids settle what is at the same moment."""
    requests, events = visit_rows()
    with servers.open(name) as engine:
        try:
            for visit, daily in (("session", False), ("session", True), ("user", True)):
                read = [request for request in requests if request["at"] or not daily]
                for table, rows in tables(read, events).items():
                    engine.load(table, rows)
                metrics = METRICS if visit == "session" else METRICS[1:3]
                spec = spec_of(metrics, visit=visit, daily=daily)
                sums = online_sums(spec, Database(engine))
                by_hand = wanted(read, events, visit, daily=daily)
                compared = {key: sums[key] for key in by_hand if key[-1] in metrics}
                assert compared == {key: by_hand[key] for key in compared}
                assert {key[-1] for key, (top, _) in compared.items() if top} >= {*METRICS[1:3]}
                for table in ("impressions", "events", "requests"):
                    engine.execute(f"drop table {table}")
        finally:
            for table in ("impressions", "events", "requests"):
                engine.execute(f"drop table if exists {table}")


def test_seconds_to_success_are_those_of_the_first_success() -> None:
    at = MIDNIGHT - timedelta(hours=1)
    requests = [
        {"request_id": f"r{r}", "system": "A", "visit": "s", "query": "q", "at": at, "n": 2}
        for r in range(3)
    ]
    events = [
        {"request_id": request, "item_id": item, "action": action, "at": at + timedelta(seconds=s)}
        for request, item, action, s in (
            *(("r0", "i0", "purchase", 90), ("r0", "i1", "click", 4.5), ("r0", "i1", "save", 1)),
            *(("r1", "i0", "save", 2), ("r2", "i0", "purchase", 30)),
        )
    ]
    with connect() as engine:
        for table, rows in tables(requests, events).items():
            engine.load(table, rows)
        for actions, sums in ((SUCCESS, (34.5, 2)), (["purchase"], (120, 2)), (["save"], (3, 2))):
            spec = spec_of("time_to_success", success_actions=actions)
            assert online_sums(spec, engine) == {("A", "time_to_success"): sums}


@by_turns(2)
def test_a_day_has_the_numbers_that_it_has_alone() -> None:
    """A visit over midnight is one on each day, whichever days are run together."""
    requests, events = visit_rows(6)
    timed = [request for request in requests if request["at"]]
    runs: list[list[tuple[str, str | None]]] = [
        [("2026-01-01", None)],
        [("2026-01-01", "2026-01-02"), ("2026-01-02", "2026-01-03")],
        [("2026-01-02", "2026-01-03"), ("2026-01-01", "2026-01-02")],
    ]
    results = []
    for days in runs:
        with connect() as engine:
            for table, rows in tables(timed, events).items():
                engine.load(table, rows)
            for start, end in days:
                sm.run(spec_of(daily=True), engine, start=start, end=end or "2026-01-03")
            results.append(
                engine.rows(
                    "select metric_date, system, metric, numerator, denominator, sum_x2, sum_xw\n"
                    "from numbers order by all"
                )
            )
    assert len(results[0]) == 2 * 2 * len(METRICS)
    assert results[0] == results[1] == results[2]


@by_turns(1)
def test_experiments_and_comparisons_take_them() -> None:
    requests, events = visit_rows()
    with connect() as engine:
        for table, rows in tables(requests, events).items():
            engine.load(table, rows)
        compared = sm.compare(spec_of(), metrics="reformulation_rate", connection=engine)
        assert 0 < compared["reformulation_rate"]["value"] < 1
        experiment = {"variants": ["old", "new"], "control": "old", "primary": "time_to_success"}
        experiment["guardrails"] = [{"metric": "search_exit_rate", "max_drop_pct": 5}]
        metrics = sm.experiment(spec_of(experiment=experiment), engine).metrics
        assert [row.metric for row in metrics] == ["time_to_success", "search_exit_rate"]


def test_what_they_need_is_told() -> None:
    requests, events = visit_rows()
    spec = spec_of(["reformulation_rate", "search_exit_rate"])
    assert spec.clicks is not None
    assert spec.clicks.requests is not None
    columns = spec.clicks.requests.columns.model_copy(update={"time": None})
    lacking = spec.clicks.requests.model_copy(update={"columns": columns})
    with connect() as engine:
        for table, rows in tables(requests, events).items():
            engine.load(table, rows)
        clicks = spec.clicks.model_copy(update={"requests": lacking})
        with pytest.raises(
            sm.SpecError, match=r"reformulation_rate needs times, queries and a col"
        ):
            sm.evaluate_clicks(spec.model_copy(update={"clicks": clicks}), engine)
    with pytest.raises(sm.SpecError, match=r"minutes must be a whole number from 1 to 1440"):
        spec_of("reformulation_rate(minutes=0)")
    with pytest.raises(sm.SpecError, match=r"search_exit_rate takes no settings"):
        spec_of("search_exit_rate(5)")
