"""A simulated log: the same bytes for a seed, a truth that holds, no dirt but what is planted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.cli.clicks import MODELS as OFFERED
from sqlmetrics.cli.clicks import SHARES as OFFERED_SHARES
from sqlmetrics.clicks.simulation import MODELS, REASONS, SHARES, SimulatedLog, simulate

pytestmark = by_turns(0.13)

Query = Callable[[str], list[tuple[Any, ...]]]

COLUMNS = {
    "requests": "request_id query system user_id country device is_test requested_at n_results",
    "impressions": "request_id query item_id position "
    "system user_id country device is_test shown_at",
    "events": "event_id request_id item_id user_id action dwell happened_at",
    "planted": "event_id reason",
    "propensities": "position propensity",
    "relevance": "query item_id grade attraction",
}

DESCRIBED = """
create table described as
select
    e.*,
    i.shown_at,
    i.position,
    i.query,
    i.system,
    r.requested_at,
    r.is_test,
    e.user_id in (
        select user_id from events group by user_id, date_trunc('hour', happened_at)
        having count(*) > 200
    ) as of_bot
from events as e
inner join requests as r using (request_id)
left join impressions as i on e.request_id = i.request_id and e.item_id = i.item_id
"""
"""Events beside what they are events of, looked at from outside."""

DIRTY = {
    "bot": "of_bot",
    "duplicate": """event_id in (
        select event_id from events qualify
            row_number() over (
                partition by request_id, item_id, action order by happened_at asc
            ) > 1
    )""",
    "early": "happened_at < shown_at",
    "hurried": "dwell < 5",
    "late": "happened_at > shown_at + interval 30 minutes",
    "orphan": "shown_at is null",
    "test": "is_test = 1",
}
"""Reason -> which events are dirty for it, told without the list of planted ones."""


def opened(log: SimulatedLog) -> Query:
    """Asks questions about a log; `clean` are the events that nobody planted."""
    connection = duckdb.connect()
    for name, file in log.files.items():
        connection.execute(f"create view {name} as from '{file}'")
    connection.execute(DESCRIBED)
    connection.execute("create view clean as from described anti join planted using (event_id)")
    connection.execute(
        "create view truth as select i.*, grade, attraction, propensity, "
        "c.event_id is not null as clicked from impressions as i "
        "inner join relevance using (query, item_id) inner join propensities using (position) "
        "left join (from clean where action = 'click') as c using (request_id, item_id) "
        "where i.is_test = 0 and i.user_id not in (select user_id from described where of_bot)"
    )
    return lambda sql: connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SimulatedLog:
    """Twenty thousand requests, position model."""
    return simulate(tmp_path_factory.mktemp("log"), requests=20_000)


@pytest.fixture(scope="module")
def ask(log: SimulatedLog) -> Query:
    return opened(log)


@pytest.fixture(scope="module")
def cascade(tmp_path_factory: pytest.TempPathFactory) -> Query:
    folder = tmp_path_factory.mktemp("cascade")
    return opened(simulate(folder, requests=20_000, model="cascade", seed=3))


def test_the_files_have_these_columns(log: SimulatedLog, ask: Query) -> None:
    for name, columns in COLUMNS.items():
        assert [row[0] for row in ask(f"describe {name}")] == columns.split()
        assert log.rows[name] == ask(f"select count(*) from {name}")[0][0]
    assert ask("from requests where request_id = 'r0000001'")[0][8] == 10


def contents(log: SimulatedLog) -> dict[str, bytes]:
    return {name: file.read_bytes() for name, file in log.files.items()}


@by_turns(0.6)
def test_the_same_seed_has_the_same_bytes_and_another_has_not(tmp_path: Path) -> None:
    first = contents(simulate(tmp_path / "a", requests=500, users=100))
    again = contents(simulate(tmp_path / "b", requests=500, users=100))
    other = contents(simulate(tmp_path / "c", requests=500, users=100, seed=2))
    assert first == again
    for name in set(COLUMNS) - {"propensities"}:
        assert first[name] != other[name]


DIRTIEST: dict[str, Any] = {
    "requests": 200,
    "queries": 30,
    "users": 50,
    "systems": ["a", "b", "c"],
    "seed": 5,
    "duplicates": 0.3,
    "zero_results": 0.1,
    "test_traffic": 0.1,
    **dict.fromkeys(("late", "early", "orphans", "hurried"), 0.05),
}
DIGESTS = {
    "position": {
        "requests": "9883e10f",
        "impressions": "bb312541",
        "events": "2994f75a",
        "planted": "7e5b5b56",
        "propensities": "59c62081",
        "relevance": "a7132e7f",
    },
    "cascade": {
        "requests": "9883e10f",
        "impressions": "bb312541",
        "events": "95dc10ad",
        "planted": "c06a6c7c",
        "propensities": "3bebde33",
        "relevance": "a7132e7f",
    },
}
"""Model -> file -> what its rows come to, in any order."""


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_makes_the_log_that_it_always_made(tmp_path: Path, model: str) -> None:
    """Where DuckDB's hashes are those that the numbers below were made with.

    They are no proof, but the rows are looked at by the tests below: if a change of the rows was
    meant, and those pass, take the new ones from the message.
    """
    if duckdb.execute("select hash(1, 'a', 2)").fetchall() != [(13833681406263767917,)]:
        pytest.skip("this DuckDB has other hashes, so that its logs are others")
    log = simulate(tmp_path / model, model=model, **DIRTIEST)
    rounded = {"relevance": "attraction", "propensities": "propensity"}
    digests = {}
    for name, file in log.files.items():
        column = rounded.get(name)
        rows = f"select * replace (round({column}, 9) as {column})" if column else "select *"
        line = f"select cast(to_json(t) as varchar) as line from ({rows} from '{file}') as t"
        digest = f"select md5(string_agg(line, ' ' order by line)) from ({line})"
        digests[name] = duckdb.execute(digest).fetchall()[0][0][:8]
    assert digests == DIGESTS[model]


@by_turns(0.8)
def test_clean_events_are_the_same_whatever_the_dirt(tmp_path: Path) -> None:
    def clean(folder: Path, **dirt: float) -> set[tuple[Any, ...]]:
        ask = opened(simulate(folder, requests=500, **dirt))
        return set(ask("select query, item_id, user_id, action, dwell, happened_at from clean"))

    # without bots, as a share of the users is theirs
    little = clean(tmp_path / "a", bots=0)
    dirtier = {"duplicates": 0.5, "late": 0.05, "early": 0.05, "orphans": 0.05, "hurried": 0.1}
    assert clean(tmp_path / "b", bots=0, **dirtier) == little
    assert clean(tmp_path / "c", bots=0, **dict.fromkeys(SHARES[1:6], 0)) == little


@pytest.mark.parametrize("reason", REASONS)
def test_dirty_is_what_was_planted(log: SimulatedLog, ask: Query, reason: str) -> None:
    dirty = ask(f"select event_id from described where {DIRTY[reason]} order by event_id")
    planted = ask(f"select event_id from planted where reason = '{reason}' order by event_id")
    assert len(planted) == log.planted[reason] > 20
    assert dirty == planted


def test_planted_events_have_one_reason(log: SimulatedLog, ask: Query) -> None:
    assert ask("select count(distinct event_id) from planted") == [(log.rows["planted"],)]
    assert sum(log.planted.values()) == log.rows["planted"]
    assert ask("select count(*) from planted semi join events using (event_id)") == [
        (log.rows["planted"],)
    ]
    assert ask("select count(distinct event_id) from events") == [(log.rows["events"],)]


def test_planted_events_are_as_many_as_asked(log: SimulatedLog, ask: Query) -> None:
    ((events, clicks),) = ask(
        "select count(*), count(*) filter (action = 'click') from clean where is_test = 0"
    )
    shares = {"duplicate": 0.02 * events, "late": 0.02 * clicks, "early": 0.01 * clicks}
    shares |= {"orphan": 0.01 * clicks, "hurried": 0.02 * clicks}
    for reason, expected in shares.items():
        assert abs(log.planted[reason] - expected) < 5 * sqrt(expected)


def test_clean_events_keep_their_promises(ask: Query) -> None:
    assert ask(
        "select count(*) from clean where not (happened_at "
        "between shown_at + interval 1 second and shown_at + interval 25 minutes)"
    ) == [(0,)]
    assert ask("select count(*) from clean where (dwell is null) <> (action <> 'click')") == [(0,)]
    assert ask("select count(*) - count(distinct (request_id, item_id, action)) from clean") == [
        (0,)
    ]
    # a cart comes after a click, a purchase after a cart
    steps = ask(
        "select count(*) from clean as a left join clean as b on a.request_id = b.request_id "
        "and a.item_id = b.item_id and a.happened_at > b.happened_at and b.action = "
        "case a.action when 'purchase' then 'add_to_cart' else 'click' end "
        "where a.action <> 'click' and b.event_id is null"
    )
    assert steps == [(0,)]


def test_planted_times_are_what_they_say(ask: Query) -> None:
    ((low, high),) = ask(
        "select min(happened_at - shown_at) >= interval 1 hour, "
        "max(happened_at - shown_at) <= interval 24 hour "
        f"from described where {DIRTY['late']} and not of_bot"
    )
    assert (low, high) == (True, True)
    again = ask(f"select max(happened_at - shown_at) from described where {DIRTY['duplicate']}")
    assert again[0][0].total_seconds() < 30 * 60


def test_people_are_far_from_bots(ask: Query) -> None:
    hours = ask(
        "select of_bot, min(n), max(n) from (select user_id, of_bot, count(*) as n from described "
        "group by user_id, of_bot, date_trunc('hour', happened_at)) group by of_bot order by of_bot"
    )
    assert hours[0][2] < 100
    assert hours[1][1] > 200
    assert ask("select count(distinct user_id) from described where of_bot") == [(20,)]


def test_a_user_has_one_system_and_one_country(ask: Query) -> None:
    assert ask(
        "select count(*) from (select user_id from requests group by user_id "
        "having count(distinct system) > 1 or count(distinct country) > 1)"
    ) == [(0,)]
    assert [row[0] for row in ask("select distinct system from requests order by 1")] == [
        "new",
        "old",
    ]


def test_a_request_shows_as_many_results_as_it_has(ask: Query) -> None:
    counts = ask(
        "select n_results, count(*) from requests left join (select request_id, count(*) as n, "
        "count(distinct item_id) as items, max(position) as last from impressions group by all) "
        "using (request_id) where coalesce(n, 0) = n_results and coalesce(items, 0) = n_results "
        "and coalesce(last, 0) = n_results group by n_results order by n_results"
    )
    assert [n for n, _ in counts] == [0, 10]
    assert sum(count for _, count in counts) == ask("select count(*) from requests")[0][0]
    assert counts[0][1] == pytest.approx(400, abs=100)


def test_popular_queries_are_asked_more(ask: Query) -> None:
    counts = dict(ask("select query, count(*) from requests group by query"))
    assert counts["query 1"] > counts["query 4"] > counts["query 40"] > counts["query 400"]


def test_the_new_system_is_better(ask: Query) -> None:
    ndcg = dict(
        ask(
            "with lists as (select distinct on (request_id, item_id) system, request_id, query, "
            "grade / ln(position + 1) as gain from impressions "
            "inner join relevance using (query, item_id)), "
            "ideal as (select query, sum(grade / ln(place + 1)) as best from (select *, "
            "row_number() over (partition by query order by grade desc) as place from relevance) "
            "where place <= 10 group by query) "
            "select system, avg(dcg / best) from (select system, query, request_id, "
            "sum(gain) as dcg from lists group by all) inner join ideal using (query) "
            "where best > 0 group by system"
        )
    )
    assert ndcg["new"] > ndcg["old"] + 0.1


def test_clicks_are_propensity_times_attraction(ask: Query) -> None:
    rows = ask(
        "select avg(cast(clicked as integer)), avg(propensity * attraction), "
        "sum(propensity * attraction * (1 - propensity * attraction)), count(*), "
        "any_value(propensity) "
        "from truth group by position order by position"
    )
    assert [row[4] for row in rows] == [pytest.approx(1 / k) for k in range(1, 11)]
    for rate, expected, variance, n, _ in rows:
        assert abs(rate - expected) < 4.5 * sqrt(variance) / n
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)


def test_clicks_hang_on_nothing_else(ask: Query) -> None:
    """Next to a click as far from it: a click is as likely as anywhere."""
    rows = ask(
        "select a.clicked, sum(cast(b.clicked as integer)), sum(b.propensity * b.attraction), "
        "sum(b.propensity * b.attraction * (1 - b.propensity * b.attraction)) from truth as a "
        "inner join truth as b on a.request_id = b.request_id and a.position + 1 = b.position "
        "group by a.clicked"
    )
    for _, n_clicks, expected, variance in rows:
        assert abs(n_clicks - expected) < 4.5 * sqrt(variance)


def test_the_cascade_goes_on_without_a_click_and_may_stop_after_one(cascade: Query) -> None:
    rows = cascade(
        "with reached as (select *, coalesce(bool_or(clicked) over (partition by request_id "
        "order by position rows between unbounded preceding and 1 preceding), false) as before "
        "from truth), steps as (select a.clicked, a.grade, cast(b.clicked as integer) as next, "
        "b.attraction * case when a.clicked then 0.8 - 0.2 * a.grade else 1 end as p "
        "from reached as a inner join reached as b "
        "on a.request_id = b.request_id and a.position + 1 = b.position "
        "where a.clicked or not a.before) "
        "select clicked, grade, sum(next), sum(p), sum(p * (1 - p)), count(*) "
        "from steps group by all"
    )
    assert len(rows) == 8
    for _, _, n_clicks, expected, variance, n in rows:
        assert n > 100
        assert abs(n_clicks - expected) < 4.5 * sqrt(variance)


@pytest.mark.parametrize("reason", REASONS)
def test_the_cascade_s_dirt_is_what_was_planted(cascade: Query, reason: str) -> None:
    dirty = cascade(f"select event_id from described where {DIRTY[reason]} order by event_id")
    planted = cascade(f"select event_id from planted where reason = '{reason}' order by event_id")
    assert dirty == planted
    assert cascade("select distinct propensity from propensities") == [(None,)]


@by_turns(2)
def test_some_trust_the_first_results_some_read_down_and_some_lists_are_shuffled(
    tmp_path: Path,
) -> None:
    ask = opened(simulate(tmp_path, requests=8_000, trust=0.4, cascade=0.3, randomised=0.25))
    rows = ask(
        "with looks as (select b.position, b.clicked, "
        "b.propensity * (b.attraction + (1 - b.attraction) * 0.4 / b.position) as alone, "
        "b.attraction * case when b.position = 1 then 1 "
        "else 1 - a.attraction * (0.2 + 0.2 * a.grade) end as down "
        "from truth as b left join truth as a "
        "on a.request_id = b.request_id and a.position = b.position - 1 where b.position < 3), "
        "chances as (select *, 0.7 * alone + 0.3 * down as p from looks) "
        "select sum(cast(clicked as integer)), sum(p), sum(p * (1 - p)) from chances "
        "group by position order by position"
    )
    for n_clicks, expected, variance in rows:
        assert abs(n_clicks - expected) < 4.5 * sqrt(variance)
    shuffled = ask(
        "select avg(is_randomised), corr(position, grade) filter (where is_randomised = 1), "
        "corr(position, grade) filter (where is_randomised = 0) "
        "from impressions inner join relevance using (query, item_id) "
        "where request_id not in (select request_id from described where of_bot)"
    )
    ((share, random, ranked),) = shuffled
    assert abs(share - 0.25) < 0.03
    assert abs(random) < 0.02
    assert ranked < -0.2


@by_turns(0.4)
def test_odd_sizes_work(tmp_path: Path) -> None:
    smallest = simulate(
        tmp_path / "a", requests=1, results=1, queries=2, users=2, days=1, systems="one"
    )
    assert smallest.rows["requests"] == 301
    assert smallest.planted["bot"] == 285
    long = simulate(tmp_path / "b", requests=30, results=60, queries=3, systems=["a", "b", "it's"])
    ask = opened(long)
    assert len(ask("select distinct system from requests")) == 3
    for reason in REASONS:
        count = ask(f"select count(*) from described where {DIRTY[reason]}")
        assert count == [(long.planted[reason],)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "positoin"}, "unknown click model 'positoin'; did you mean 'position'?"),
        ({"requests": 0}, "requests must be a whole number, 1 or more, given 0"),
        ({"late": 1.5}, "late must be a share from 0 to 1, given 1.5"),
        ({"late": 0.2, "hurried": 0.2}, "come to 0.42 of the clicks"),
        ({"trust": 1}, "trust 1 leaves too few unclicked results .* at most 0.77"),
        ({"model": "cascade", "trust": 0.1}, "trust only applies to the model position"),
        (
            {"systems": ["a", "a"]},
            r"systems must be one or more names, each once, given \['a', 'a'\]",
        ),
        ({"bots": 1}, "bots are 2,000 of 2,000 users"),
        ({"requests": 10**9, "users": 10**4}, "too many for 10,000 users"),
        ({"queries": 0, "days": 0.5}, "the spec has 2 problems"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.SpecError, match=message):
        simulate(tmp_path / "log", **options)
    assert not (tmp_path / "log").exists()


def test_a_folder_that_cannot_be_made_or_holds_other_files_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(sm.EngineError, match="cannot write to"):
        simulate(tmp_path / "file" / "log")
    with pytest.raises(sm.SpecError, match="file' is a file; give the name of a folder"):
        simulate(tmp_path / "file")
    for _ in range(2):  # a simulated log is replaced
        log = simulate(tmp_path / "log", requests=2, users=4, queries=2, bots=0)
    table = pa.table({"request_id": ["r1"]})
    pq.write_table(table, log.files["impressions"])
    with pytest.raises(sm.SpecError, match=r"impressions.parquet': it exists and was not written"):
        simulate(tmp_path / "log", requests=2, users=4, queries=2, bots=0)
    assert pq.read_table(log.files["impressions"]).equals(table)


def test_the_command_offers_what_there_is() -> None:
    import inspect

    arguments = inspect.signature(simulate).parameters
    assert set(OFFERED) == set(MODELS)
    names = {
        option[2:].replace("-", "_"): default for option, (default, _) in OFFERED_SHARES.items()
    }
    assert names == {name: arguments[name].default for name in SHARES}


@by_turns(1.6)
def test_the_command_tells_what_it_wrote(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sqlmetrics", "simulate", "clicks", "--requests", "200"]
    completed = subprocess.run(
        [*command, "--model", "cascade"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = completed.stdout.splitlines()
    assert lines[0].split() == ["file", "rows"]
    assert lines[1].split() == [str(Path("clicks/requests.parquet")), "800"]
    assert lines[9].split() == ["bot", "5,700"]


@pytest.mark.long
def test_more_requests_take_no_more_memory(tmp_path: Path) -> None:
    """Peak memory of a process: 200,000 requests may take little more than 20,000."""
    code = (
        "import resource, sys; from sqlmetrics import simulate;"
        "simulate(sys.argv[1], requests=int(sys.argv[2]));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = [
        int(subprocess.check_output([sys.executable, "-c", code, str(tmp_path / n), n]))
        for n in ("20000", "200000")
    ]
    assert peaks[1] < peaks[0] + 100 * 1024
