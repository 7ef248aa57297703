"""Only what was executed on the engines leaves the compiler, and it reads well there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import sqlglot
from marked import by_turns
from slices import is_all, lot

import sqlmetrics as sm
from sqlmetrics.proof.doctor import cases
from sqlmetrics.sql import transpile
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.transpile import is_condition, translated
from sqlmetrics.sql.user_sql import is_comparison

OTHER_DIALECTS = [dialect for dialect in DIALECTS.values() if dialect.name != "duckdb"]
GOLDEN = Path(__file__).parents[1] / "golden"
TABLES: dict[str, Any] = {
    "rankings": {"relation": "shop.rankings", "columns": {"system": "system", "date": "ds"}},
    "labels": {"relation": "labels", "where": "source <> 'bot'"},
    "items": {
        "relation": "items",
        "columns": {"category": "category", "popularity": "sold", "users": "buyers"},
    },
    "baseline": "prod",
}


def spec(**fields: Any) -> sm.Spec:
    return sm.Spec(**{**TABLES, "metrics": ["ndcg@10"], **fields})


def compile_cases(dialect: Dialect, only: Callable[[str], bool]) -> None:
    for case in cases(dialect, "shop", only):
        for per_query in (True, False):
            reads_well(case.spec, dialect, per_query=per_query)


def reads_well(job: sm.Spec, dialect: Dialect, *, per_query: bool) -> None:
    text = sm.compile(job, dialect.name, per_query=per_query)
    assert len(sqlglot.parse(text, read=dialect.grammar)) == 1, dialect.name
    assert "sqlmetrics_yours" not in text


@by_turns(3.3)
def test_days_and_segments_are_written_in_every_dialect() -> None:
    """A quarter of all metrics in each dialect: others have the other ones."""
    dated = "days, segments of queries"
    (case,) = cases(DIALECTS["sqlite"], "shop", lambda name: name == dated)
    for turn, dialect in enumerate(OTHER_DIALECTS):
        job = case.spec.having(metrics=case.spec.metrics[turn % 4 :: 4])
        reads_well(job, dialect, per_query=turn % 8 < 4)


@pytest.mark.long
@pytest.mark.parametrize("dialect", OTHER_DIALECTS, ids=lambda dialect: dialect.name)
def test_all_that_an_engine_is_asked_is_written(dialect: Dialect) -> None:
    """A part of it in each dialect: other commits have the other ones."""
    compile_cases(
        dialect, lambda case: lot(f"{dialect.name} {case}") % (6 if is_all() else 24) == 0
    )


@pytest.mark.parametrize("dialect", OTHER_DIALECTS, ids=lambda dialect: dialect.name)
def test_the_same_spec_gives_the_same_bytes(dialect: Dialect) -> None:
    """Twice from the DuckDB text on: `sm.compile` here would remember it."""
    job = spec(metrics=["ndcg@10", "ap"])
    texts = {sm.compile(job, dialect.name)}
    with patch.object(transpile, "translated", translated):
        texts.add(sm.compile(job, dialect.name))
    assert len(texts) == 1
    assert texts.pop().count("source <> 'bot'") == 1


@pytest.mark.parametrize(
    "select",
    [
        "select log(x) from t",
        "select log2(x) from t",
        "select list(x order by y) from t",
        "select max_by(x, y) from t",
        "select sum(x) filter (where y > 0) from t",
        "select bool_or(x > 0) from t",
        "select x from t qualify row_number() over (order by x) = 1",
        "select distinct on (x) x, y from t",
        "select t.x from t semi join u on t.x = u.x",
        "select t.x from t anti join u on t.x = u.x",
        "select x, sum(y) from t group by rollup (x)",
        "select x, sum(y) from t group by grouping sets ((x), ())",
        "select sum(x) over (order by x range between 1 preceding and current row) from t",
        "select sum(x) over (order by x rows 1 preceding exclude ties) from t",
        "select first_value(x ignore nulls) over (order by y) from t",
        "select x from (values (1), (2)) as t (x)",
        "select unnest([1, 2])",
        "select x from generate_series(1, 3) as t (x)",
        "select try_strptime(x, '%Y') from t",
        "select foo_bar(x) from t",
        "select round(x, 2) from t",
        "select greatest(x, y) from t",
        "select stddev(x) from t",
        "select quantile_cont(x, 0.5) from t",
        "select median(x) from t",
        "select any_value(x) from t",
        "select x // y from t",
        "select x % y from t",
        "select cast(x as hugeint) from t",
        "select cast(x as integer) from t",
        "select cast(x as decimal(18, 3)) from t",
        "select * exclude (x) from t",
        "select x from t where s like 'a%'",
        "select hash(x) from t",
        "select date_trunc('week', x) from t",
        "select x from t using sample 10 rows",
        "select x::json from t",
    ],
)
def test_anything_else_is_refused(select: str) -> None:
    for dialect in OTHER_DIALECTS:
        with pytest.raises(sm.SpecError, match="has no exact equivalent of: "):
            translated(select, dialect, {})


def test_32_bit_scores_are_refused_by_name_where_there_are_none() -> None:
    job = spec(conventions={"score_precision": "float32"})
    for dialect in OTHER_DIALECTS:
        if dialect.has_float32:
            sm.compile(job, dialect.name)
            continue
        with pytest.raises(sm.SpecError, match=r"32-bit numbers \(score_precision=float32\)"):
            sm.compile(job, dialect.name)


def test_what_duckdb_alone_reads_is_refused_by_name() -> None:
    for source in ({"file": "r.parquet"}, {"relation": "r", "lists": True}):
        with pytest.raises(sm.SpecError, match="rankings: "):
            sm.compile(spec(rankings=source, baseline=None), "postgres")
    vector = spec(
        metrics=["ils(similarity=vector)@3"],
        items={"relation": "items", "columns": {"vector": "embedding"}},
    )
    with pytest.raises(sm.SpecError, match=r"PostgreSQL has no exact equivalent of: .*UNNEST"):
        sm.compile(vector, "postgres")


@pytest.mark.parametrize(
    "condition",
    [
        "1 = 1) or (1 = 1",
        "1 = 1; drop table labels",
        "1 = 1) union all select 1 where (1 = 1",
        "1 = 1) --",
        "1 = 1 /*",
    ],
)
def test_a_condition_stays_in_its_parentheses(condition: str) -> None:
    for dialect in OTHER_DIALECTS:
        assert not is_condition(condition, dialect)


@pytest.mark.parametrize(
    "text", ["a = 1", " is_test<>0 ", "b >= -2.5", "day != '2026-01-31'", "c <= 'it -- is; (x'"]
)
def test_a_comparison_that_no_grammar_reads_is_a_condition_in_all(text: str) -> None:
    assert is_comparison(text)
    for dialect in DIALECTS.values():
        assert is_condition(text, dialect)


@pytest.mark.parametrize(
    "text",
    [
        *("a = b", "a = 1 or true", "a = 1 --", "a = 1; drop table x", "a = (select 1)", "a = 'b"),
        *("not = 1", "select = 1", "current_user = 'x'", "a = 'b' 'c'", "a = '\\'", "a == 1"),
    ],
)
def test_all_else_is_read_by_a_grammar(text: str) -> None:
    assert not is_comparison(text)


def test_a_text_that_another_grammar_ends_earlier_is_no_condition_there() -> None:
    """A backslash is a letter to DuckDB, and escapes the quote elsewhere."""
    hostile = r"a = '\' and b = ') or (1 = 1'"
    assert is_condition(hostile, DIALECTS["postgres"])
    for name in ("mysql", "bigquery", "clickhouse", "spark"):
        assert not is_condition(hostile, DIALECTS[name])


@pytest.mark.parametrize(
    ("dialect", "condition", "query"),
    [
        ("mysql", "`is bot` = 0", "select * from runs use index (by_query)"),
        ("bigquery", "`is-bot` is false", "select * from `my-project.shop.runs`"),
        ("spark", "`is bot` <=> 0", "select * from runs lateral view explode(items) t as item_id"),
        ("tsql", "[is bot] = 0", "select top 100 * from runs"),
        ("clickhouse", "is_bot = 0", "select * from runs final prewhere is_bot = 0"),
    ],
)
def test_the_user_s_own_sql_is_of_the_database_alone(
    dialect: str, condition: str, query: str
) -> None:
    """DuckDB need not read it; where DuckDB shall run it, it has to."""
    job = spec(rankings={"sql": query, "where": condition}, baseline=None)
    text = sm.compile(job, dialect)
    assert query in text
    assert condition in text
    with pytest.raises(sm.SpecError, match=r"sql (cannot be read|must be one)|DuckDB cannot read"):
        sm.compile(job)
    with pytest.raises(sm.SpecError, match=r"cannot be read"):
        sm.compile(spec(rankings={"sql": "select 1) as x ("}), dialect)


@by_turns(1)
def test_names_are_quoted_as_the_dialect_does() -> None:
    hostile = {"query": 'a"b', "item": "x]y`z", "score": "drop table t; --"}
    job = spec(rankings={"relation": '"my ""odd"" table"', "columns": hostile}, baseline=None)
    assert '"a""b"' in sm.compile(job, "postgres")
    assert "`x]y``z`" in sm.compile(job, "mysql")
    assert "[x]]y`z]" in sm.compile(job, "tsql")
    assert "`x]y\\`z`" in sm.compile(job, "bigquery")
    for dialect in OTHER_DIALECTS:
        text = sm.compile(job, dialect.name)
        assert len(sqlglot.parse(text, read=dialect.grammar)) == 1


@pytest.mark.parametrize("dialect", OTHER_DIALECTS, ids=lambda dialect: dialect.name)
def test_line_breaks_in_names_and_texts_are_not_indented(dialect: Dialect) -> None:
    rankings = {"relation": "runs", "columns": {"query": "two\n  lines"}}
    job = spec(name="an\n  odd one", rankings=rankings, baseline=None)
    tree = sqlglot.parse_one(sm.compile(job, dialect.name), read=dialect.grammar)
    texts = {node.name for node in tree.find_all(sqlglot.exp.Literal, sqlglot.exp.Identifier)}
    assert {text for text in texts if "\n" in text} == {"two\n  lines", "an\n  odd one"}


def test_words_that_duckdb_quotes_are_folded_as_snowflake_folds_others() -> None:
    """There a column `order` or `user` is called ORDER or USER, like all that were not quoted."""
    columns = {"query": "order", "item": "user", "score": "Score"}
    job = spec(rankings={"relation": "runs", "columns": columns}, baseline=None)
    text = sm.compile(job, "snowflake")
    for name in ('"ORDER"', '"USER"', '"Score"'):
        assert f"cast({name} as " in text


def test_an_unknown_dialect_is_told_with_the_nearest() -> None:
    with pytest.raises(sm.SpecError, match="unknown dialect 'postgre'; did you mean 'postgres'"):
        sm.compile(spec(), "postgre")


@pytest.mark.parametrize("name", ["bigquery", "clickhouse", "postgres", "snowflake", "tsql"])
def test_the_text_is_as_it_was_read(name: str) -> None:
    job = spec(metrics=["ndcg@10", "recall@100", "mrr"], baseline=None)
    text = sm.compile(job, name)
    file = GOLDEN / f"ndcg.{name}.sql"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    label, rest = text.split("\n", 1)
    assert rest == file.read_text().split("\n", 1)[1]
    # the label changes with what was executed
    assert label == f"-- {DIALECTS[name].title}: {trust(DIALECTS[name])}"


@pytest.mark.parametrize("dialect", OTHER_DIALECTS, ids=lambda dialect: dialect.name)
def test_what_makes_a_database_slow_is_not_written(dialect: Dialect) -> None:
    """A decimal in an operation, and a stage that is computed once a metric, or once a row."""
    text = sm.compile(spec(metrics=["ndcg@10", "recall@100", "mrr"], baseline=None), dialect.name)
    decimals = re.findall(r"(?:[-+*/] \d+e0(?!:)|then 1e0 else)", text)
    assert bool(decimals) != dialect.exact_literals
    readers = len(re.findall(r"^ *from per_query$", text, re.MULTILINE))
    assert readers == (1 if dialect.inlines_stages else 3)
    joined = (
        "with labels as (select query_id, grade from l), unread as (select grade from labels) "
        "select rankings.query_id, labels.grade as grade from rankings "
        "left join labels on labels.query_id = rankings.query_id"
    )
    text = translated(joined, dialect, {})
    assert text.count("limit -1") == dialect.inlines_joined
