"""Physical plans: the same numbers, whichever is taken, and the right one is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from marked import by_turns
from worlds import EXAMPLES, FEWER, World, by_reference, by_sql, differences, proof_of, worlds

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation import execution as api
from sqlmetrics.evaluation import statistics
from sqlmetrics.evaluation.checks import checks, prescan
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.plan import ranking, strategy
from sqlmetrics.plan.per_query import PerQuery
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.plan.strategy import COUNTS, LISTS, RANKS, WINDOW, TableStatistics
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import variant

pytestmark = by_turns(0.2)

NOWHERE: Any = {"rankings": {"file": "r.parquet"}, "labels": {"file": "l.parquet"}}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all examples."""
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@by_turns(3.1)
@FEWER
@given(
    world=st.sampled_from(["id_asc", "id_desc", "best", "worst", "input_order"]).flatmap(
        lambda ties: worlds(ties=ties, depth="none")
    ),
    number=st.integers(2, 5),
    longest=st.sampled_from([2, 128]),
)
def test_buckets_of_queries_give_the_same(
    database: duckdb.DuckDBPyConnection, world: World, number: int, longest: int
) -> None:
    """Also where a bucket is empty, or has not all systems."""
    assume(world.rankings)
    assume(world.options.get("duplicate_rankings") not in ("first", "count"))
    world = _listable(world)
    unbucketed = world.having(plan=LISTS).evaluated(database)
    with (
        patch.object(api, "statistics_of", lambda *_: TableStatistics(longest)),
        patch.object(statistics, "ceil", lambda _: number),
    ):
        result = world.having(plan=LISTS).evaluated(database)
    assert result.executed_sql.count("insert into ") == number - 1
    assert differences(by_sql(result), by_sql(unbucketed)) == []


OF_WINDOWS = ("unjudged", "identical_ids", "min_score")
"""Options that leave out items or lists, for which the window ranks."""


def _listable(world: World) -> World:
    """The world without the options and metrics for which sorted lists are not enough."""
    listable_options = {
        name: value for name, value in world.options.items() if name not in OF_WINDOWS
    }
    options = {name: value for name, value in listable_options.items() if name in OPTIONS}
    metrics = [*world.metrics, "ndcg@3", "ap", "mrr@2"]
    listable = [text for text in metrics if _is_listable(text, options)]
    return replace(world, options=listable_options, metrics=listable)


def _is_listable(text: str, options: Mapping[str, Any]) -> bool:
    try:
        spec = sm.Spec(**NOWHERE, metrics=[text], conventions=options)
        return make_plan(spec, tables_of(spec)).choose(None, LISTS).name == LISTS
    except sm.SpecError:
        return False


@by_turns(2.3)
@settings(max_examples=max(10, EXAMPLES // 3))
@given(
    world=st.sampled_from(["id_asc", "id_desc", "best", "worst", "input_order"]).flatmap(
        lambda ties: worlds(ties=ties, depth="none")
    ),
    plan=st.sampled_from([LISTS, LISTS, COUNTS, RANKS]),
    measured=st.builds(
        TableStatistics,
        longest=st.sampled_from([1, 2, 4, 128]),
        most=st.sampled_from([1, 128]),
        scattered=st.booleans(),
    ),
)
def test_all_plans_give_the_reference(
    database: duckdb.DuckDBPyConnection, world: World, plan: str, measured: TableStatistics
) -> None:
    """Also where lists are longer than they looked, so that the window ranks some of them."""
    assume(world.options.get("duplicate_rankings") not in ("first", "count"))
    world = _listable(world)
    merges = world.options.get("duplicate_rankings") == "best_score"
    casts = merges or "date" in world.options or "score_precision" in world.options
    if plan == RANKS and (casts or "rank" not in world.options):
        plan = COUNTS
    with (
        patch.object(api, "statistics_of", lambda *_: measured),
        patch.object(strategy, "SHORTEST", 1),
    ):
        result = world.having(plan=plan).evaluated(database)
    assert f"-- plan: {plan} (" in result.executed_sql
    assert "list_arrays as " in result.executed_sql
    assert casts or "list_checks as (" in result.executed_sql
    assert casts or ("list_rows as (" in result.executed_sql) == measured.scattered
    window = world.having(plan=WINDOW).evaluated(database)
    assert "list_arrays as " not in window.executed_sql
    assert differences(by_sql(result), by_sql(window)) == []
    assert differences(by_sql(result), by_reference(result, proof_of(result, database))) == []


def test_rows_of_metrics_that_are_read_once_are_the_same(
    database: duckdb.DuckDBPyConnection,
) -> None:
    """Its template is printed for DuckDB here; also for metrics that count different queries."""
    lists = {"query_id": ["p", "q", "r"], "item_id": ["a", "b", "c"], "score": [3, 2, 1]}
    labels = {"query_id": ["p", "q", "s"], "item_id": ["a", "c", "d"], "grade": [2, 1, 1]}
    over = ("labels", "rankings", "common", "either")
    metrics = [f"num_ret(average_over={rule})" for rule in over]
    usual, inlined = (
        _with_variant(name, lists, labels, metrics, connection=database) for name in ("", "inlined")
    )
    assert "cross join (" not in usual.executed_sql
    assert "cross join (" in inlined.executed_sql
    assert inlined.to_dicts() == usual.to_dicts()
    assert [row["n_queries"] for row in inlined.to_dicts()] == [3, 3, 2, 4]


def _with_variant(name: str, *arguments: Any, **options: Any) -> sm.Result:
    with patch("sqlmetrics.plan.plan.variant", lambda stage, *_: variant(stage, name)):
        return sm.evaluate(*arguments, **options)


@pytest.mark.parametrize("kind", ["varchar", "bigint"])
def test_files_are_cut_into_ranges_of_queries(tmp_path: Path, kind: str) -> None:
    """In no order, so that every bucket has rows of the whole file."""
    rows = "from range(600) as numbers(i)"
    query = f"cast(i * 7 % 60 as {kind}) as query_id, i // 60 as item_id"
    rankings, labels = tmp_path / "rankings.parquet", tmp_path / "labels.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"copy (select {query}, hash(i) % 500 as score {rows}) to '{rankings}'")
        connection.execute(
            f"copy (select {query}, i % 3 as grade {rows} where i % 2 = 0) to '{labels}'"
        )
    metrics = ("ndcg@3", "ap", "recall@5")
    uncut = sm.evaluate(rankings, labels, metrics)
    with patch.object(statistics, "ceil", lambda _: 4):
        cut = sm.evaluate(rankings, labels, metrics)
    assert cut.executed_sql.count("insert into ") == 4  # one for queries without an id
    assert "query_id >= " in cut.executed_sql
    assert differences(by_sql(cut), by_sql(uncut)) == []


@pytest.mark.parametrize("labels", [1, 5])
def test_scattered_files_take_the_plan_of_sorted_ones(tmp_path: Path, labels: int) -> None:
    """Their first rows tell nothing: those of one query lie all over the file.

    Where all items are looked at, those of a list are brought together first.
    """
    plans = []
    for order in ("query_id", "hash(query_id, item_id)"):
        files = [tmp_path / f"{name}.parquet" for name in ("rankings", "labels")]
        rows = "select 'q' || i // 40 as query_id, i % 40 as item_id, {} from range(40000) as n(i)"
        score, grade = rows.format("1 / (i % 40 + 1) as score"), rows.format("1 as grade")
        with duckdb.connect() as connection:
            connection.execute(f"copy ({score} order by {order}) to '{files[0]}'")
            some = f"{grade} where i % 40 < {labels}"
            connection.execute(f"copy ({some} order by {order}) to '{files[1]}'")
        with patch.object(statistics, "ROWS", 1500):
            result = sm.evaluate(*files, ["ndcg@10", "mrr"])
        assert result["mrr"] == 1
        words = result.executed_sql.partition("-- conventions")[0].replace("-- ", "").split()
        plans.append(" ".join(words))
        is_scattered = order != "query_id"
        assert ("list_rows as (" in result.executed_sql) == is_scattered
        unchecked = sm.evaluate(*files, ["ndcg@10", "mrr"], check=False)
        assert "list_rows as (" not in unchecked.executed_sql
        assert unchecked.to_dicts() == result.to_dicts()
    assert plans[0] + ", in rows that are scattered" == plans[1]
    assert f"plan: {'counts' if labels == 1 else 'lists'} " in plans[0]
    assert f"{labels} labels above or below 0 a query" in plans[0]


def some_files(folder: Path) -> tuple[Path, Path]:
    """60 queries with 10 results and 5 labels each."""
    rankings, labels = folder / "rankings.parquet", folder / "labels.parquet"
    rows = "select 'q' || i // 10 as query_id, i % 10 as item_id"
    numbers = "from range(600) as numbers(i)"
    with duckdb.connect() as connection:
        connection.execute(f"copy ({rows}, 1 / (i % 10 + 1) as score {numbers}) to '{rankings}'")
        odd = f"{numbers} where i % 2 = 1"
        connection.execute(f"copy ({rows}, i % 3 as grade {odd}) to '{labels}'")
    return rankings, labels


EITHER = ("score", "rank")
MISTAKES = {
    "no item": ("null as item_id, 1 as score, 1 as place", EITHER),
    "twice": (
        "'x' as item_id, unnest([1, 2]) as score, unnest([1, 2]) as place",
        ("score", "rank"),
    ),
    "no score": ("'x' as item_id, null as score, 1 as place", ("score",)),
    "not a number": ("'x' as item_id, 'nan' as score, 1 as place", ("score",)),
    "a text": ("'x' as item_id, 'much' as score, 1 as place", ("score",)),
    "a gap": ("'x' as item_id, 1 as score, 2 as place", ("rank",)),
    "no whole rank": ("'x' as item_id, 1 as score, 1.5 as place", ("rank",)),
}
"""Rows of a query without a label, and by what lists must be ranked to see that they are wrong."""


BUCKETS = [
    pytest.param(mistake, number, marks=[pytest.mark.long] * (number != (3, 1)[index % 2]))
    for index, mistake in enumerate(MISTAKES)
    for number in (3, 1)
]
"""In every run one of the two numbers of buckets, in long ones both."""


@by_turns(1)
@pytest.mark.parametrize(("mistake", "number"), BUCKETS)
def test_mistakes_that_are_found_on_the_way_are_told_alike(
    tmp_path: Path, database: duckdb.DuckDBPyConnection, mistake: str, number: int
) -> None:
    _, labels = some_files(tmp_path)
    rankings = tmp_path / "odd.parquet"
    wrong, seen_by = MISTAKES[mistake]
    right = "'q' || i // 10 as query_id, i % 10 as item_id, 1 / (i + 1) as score, i % 10 + 1"
    with duckdb.connect() as connection:
        rows = f"select {right} as place from range(600) as numbers(i)"
        rows = f"select 'odd' as query_id, {wrong} union all by name {rows}"
        order = "order by hash(item_id, query_id)" if number == 3 else ""  # scattered
        connection.execute(f"copy (select * from ({rows}) {order}) to '{rankings}'")
    for by, plans in (("score", (LISTS, COUNTS)), ("rank", (None,))):
        options: dict[str, Any] = {"connection": database}
        if by == "rank":
            options["rank"] = "place"
        window = _input_message(rankings, labels, number, plan=WINDOW, **options)
        assert bool(window) == (by in seen_by)
        for plan in plans:
            assert _input_message(rankings, labels, number, plan=plan, **options) == window


def test_where_the_window_is_taken_after_all_nothing_is_missed(tmp_path: Path) -> None:
    """Equal scores show only after the labels were looked at: the rankings are then too."""
    rankings, labels = some_files(tmp_path)
    rows = "select 'q' || i // 10 as query_id, i % 9 as item_id, 1 as score from range(600) as n(i)"
    with duckdb.connect() as connection:
        connection.execute(f"copy ({rows}) to '{rankings}'")
    message = _input_message(rankings, labels, 1)
    assert "items that appear more than once for the same query: 60" in message
    assert message == _input_message(rankings, labels, 1, plan=WINDOW)


def _input_message(rankings: Path, labels: Path, number: int, **options: Any) -> str:
    """What is told of the input, in so many buckets."""
    try:
        with patch.object(statistics, "ceil", lambda _: number):
            sm.evaluate(rankings, labels, ("ndcg@3", "ap"), **options)
    except sm.InputError as error:
        return str(error)
    return ""


def test_what_is_suspected_may_be_right(tmp_path: Path) -> None:
    """Where all hashes are equal, an exact look says that no item is twice in a list."""

    def alike(item: str, bad: str, rank: str = "") -> Iterator[Column]:
        assert item
        assert bad
        assert not rank
        yield Column("list(0)", "hashes")
        yield Column("0", "n_bad")

    files = some_files(tmp_path)
    with (
        patch.object(ranking, "clues", alike),
        patch.object(prescan, "clues", alike),
        patch.object(checks, "check_inputs", wraps=checks.check_inputs) as looks,
    ):
        result = sm.evaluate(*files, "ap")
    assert [call.kwargs for call in looks.call_args_list] == [{"presumed": ("rankings",)}, {}]
    assert result["ap"] == pytest.approx(sm.evaluate(*files, "ap", plan=WINDOW)["ap"], abs=1e-12)


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    rankings, labels = some_files(tmp_path)
    checkpoint, reported = tmp_path / "done", []

    def stop(*progress: int) -> None:
        reported.append(progress)
        raise KeyboardInterrupt

    with patch.object(statistics, "ceil", lambda _: 3):
        with pytest.raises(KeyboardInterrupt):
            sm.evaluate(rankings, labels, "ap", checkpoint=checkpoint, progress=stop)
        assert [progress[:2] for progress in reported] == [(1, 4)]
        (kept,) = checkpoint.iterdir()
        first = kept.stat().st_mtime_ns
        last: list[int] = []
        result = sm.evaluate(
            rankings,
            labels,
            "ap",
            checkpoint=checkpoint,
            progress=lambda *_: last.append(kept.exists() and kept.stat().st_mtime_ns),
        )
    assert set(last) == {first}, "the bucket that was done is not done again"
    assert not checkpoint.exists()
    assert result["ap"] == pytest.approx(sm.evaluate(rankings, labels, "ap")["ap"], abs=1e-15)


@by_turns(0.5)
def test_a_checkpoint_is_of_the_same_files(tmp_path: Path) -> None:
    rankings, labels = some_files(tmp_path)
    checkpoint = tmp_path / "done"

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with patch.object(statistics, "ceil", lambda _: 3):
        with pytest.raises(KeyboardInterrupt):
            sm.evaluate(rankings, labels, "mrr", checkpoint=checkpoint, progress=stop)
        with duckdb.connect() as connection:
            rows = f"select * replace (-score as score) from '{rankings}'"
            connection.execute(f"copy ({rows}) to '{rankings}.new' (format parquet)")
        Path(f"{rankings}.new").replace(rankings)
        again = sm.evaluate(rankings, labels, "mrr", checkpoint=checkpoint)
    expected = sm.evaluate(rankings, labels, "mrr")["mrr"]
    assert again["mrr"] == pytest.approx(expected, abs=1e-15)


def test_a_checkpoint_needs_files(tmp_path: Path) -> None:
    rankings, labels = some_files(tmp_path)
    with duckdb.connect() as connection:
        connection.execute(f"create table labels as from '{labels}'")
        options = {"checkpoint": tmp_path, "connection": connection}
        with pytest.raises(sm.SpecError, match="the labels are not a single file"):
            sm.evaluate(rankings, "labels", "ap", **options)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"plan": "list"}, "unknown plan 'list'; did you mean 'lists'"),
        ({"plan": "ranks"}, "the plan ranks cannot be used: the rankings have no ranks"),
        ({"memory": "much"}, "memory must be a size like 4GB, given 'much'"),
        ({"plan": "lists", "ties": "average"}, "the plan lists cannot be used: ties=average"),
    ],
)
def test_what_cannot_be_carried_out_is_told(
    tmp_path: Path, given: dict[str, str], problem: str
) -> None:
    with pytest.raises(sm.SpecError, match=problem):
        sm.evaluate(*some_files(tmp_path), "ap", **given)


def test_settings_are_put_back(tmp_path: Path) -> None:
    settings = ("memory_limit", "disabled_optimizers", "profiling_output")
    select = f"select {', '.join(f'current_setting({name!r})' for name in settings)}"
    with duckdb.connect() as connection:
        connection.execute("set disabled_optimizers = 'top_n'")
        before = connection.execute(select).fetchall()
        profile = tmp_path / "profile.json"
        options = {"memory": "900MB", "profile": profile, "connection": connection}
        sm.evaluate(*some_files(tmp_path), "ap", **options)
        assert connection.execute(select).fetchall() == before
    assert "operator" in profile.read_text()


@pytest.mark.parametrize(
    ("score", "metric", "plan_and_why"),
    [
        ("1 / (i % 10 + 1)", "ap", ("lists", "lists of up to 10 items, 0% of them with equal")),
        ("i % 2", "ap", ("window", "lists of up to 10 items, 100% of them with equal")),
        ("1 / (i % 10 + 1)", "num_ret", ("window", "num_ret also counts items without a label")),
        ("1 / (i % 10 + 1)", "rbp", ("lists", "lists of up to 10 items")),
        ("1 / (i % 10 + 1)", "ap", ("lists", "3.33 labels above or below 0 a query")),
    ],
)
def test_the_fastest_plan_is_told(
    tmp_path: Path, score: str, metric: str, plan_and_why: tuple[str, str]
) -> None:
    rankings, labels = some_files(tmp_path)
    with duckdb.connect() as connection:
        rows = f"select 'q' || i // 10 as query_id, i % 10 as item_id, {score} as score"
        connection.execute(f"copy ({rows} from range(600) as n(i)) to '{rankings}'")
    files = {"rankings": {"file": str(rankings)}, "labels": {"file": str(labels)}}
    spec = sm.Spec(**files, metrics=[metric])
    head = sm.compile(spec, plan="fastest").split("-- conventions")[0].replace("\n--    ", "")
    assert plan_and_why[0] in head
    assert plan_and_why[1] in head
    assert "plan: " not in sm.compile(spec)


def test_tables_are_described_twice_at_most_and_each_bucket_planned_once(tmp_path: Path) -> None:
    """Counted through the engine: what is asked of it, and how often stages are made."""
    rankings, labels = some_files(tmp_path)
    described, planned = Counter[str](), Counter[str]()
    describe, stages = Database.describe, PerQuery.stages

    def counted(self: Database, source: str) -> dict[str, str]:
        described[source] += 1
        return describe(self, source)

    def planned_stages(self: PerQuery) -> Iterator[Stage]:
        planned[f"{self.shape.bucket} {self.strategy}"] += 1
        return stages(self)

    with (
        patch.object(Database, "describe", counted),
        patch.object(PerQuery, "stages", planned_stages),
        patch.object(statistics, "ceil", lambda _: 3),
    ):
        sm.evaluate(rankings, labels, ["ndcg@3", "ap"], by="query_id")
    assert max(described.values()) <= 2  # once more to see that it holds no traces
    assert len(described) <= 4  # each table, and each with the types of its values
    assert len(planned) >= 3
    assert set(planned.values()) == {1}
