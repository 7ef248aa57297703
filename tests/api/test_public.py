"""What the package exports, and how a result shows itself."""

from __future__ import annotations

import pickle
import re
from datetime import date
from importlib.resources import files
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.comparison.page import notebook

RANKINGS = pa.table(
    {
        "query_id": ["q1", "q1", "q2", "q1"],
        "item_id": ["a", "b", "a", "b"],
        "score": [2.0, 1.0, 1.0, 1.0],
        "model": ["old", "old", "old", "<i>new</i>"],
    }
)
LABELS = pa.table({"query_id": ["q1", "q2"], "item_id": ["b", "a"], "grade": [1, 3]})


def test_the_public_names_are_sorted_and_there() -> None:
    for room in (sm, sm.clicks):
        assert room.__all__ == sorted(room.__all__)
        assert {name for name in dir(room) if name[0] != "_"} == {*room.__all__}
        for name in room.__all__:
            public = getattr(room, name)
            assert getattr(public, "__module__", "sqlmetrics.").startswith("sqlmetrics.")
            assert public.__doc__
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = sm.evalute


def test_the_version_is_the_distribution_s() -> None:
    from importlib.metadata import version

    assert sm.__version__ == version("sqlmetrics")


def test_types_are_shipped() -> None:
    assert Path(str(files("sqlmetrics") / "py.typed")).is_file()


def test_one_value_is_a_float_and_several_a_result() -> None:
    of_one_system = sm.evaluate(RANKINGS.slice(0, 3), LABELS, ["mrr", "ndcg@3"])
    assert of_one_system["mrr"] == 0.75
    assert of_one_system["RR"] == 0.75
    of_two_systems = sm.evaluate(RANKINGS, LABELS, ["mrr", "ndcg@3"], system="model")["mrr"]
    assert isinstance(of_two_systems, sm.Result)
    assert of_two_systems.summary()["value"].to_pylist() == [0.5, 0.75]
    assert of_two_systems.per_query().column_names == ["system", "query_id", "mrr"]
    assert "ndcg" not in repr(of_two_systems)
    with pytest.raises(KeyError, match="ap was not computed; the result has mrr, ndcg@3"):
        _ = of_one_system["ap"]


def test_other_forms_of_the_summary() -> None:
    result = sm.evaluate(RANKINGS.slice(0, 3), LABELS, "mrr")
    assert result.to_dicts()[0]["value"] == 0.75
    assert result.to_pandas()["value"].tolist() == result.df()["value"].tolist() == [0.75]
    assert result.to_polars()["value"].to_list() == [0.75]
    assert pl.DataFrame(result).equals(result.to_polars())
    assert pa.table(result).equals(result.summary())
    assert list(result) == ["mrr"]
    assert dict(result) == {"mrr": 0.75}
    assert len({result, result}) == 1


def test_a_wide_table_has_a_column_a_metric() -> None:
    metrics = ["ndcg@3", "recall(rel=2)@1", "auc"]
    of_one_system = sm.evaluate(RANKINGS.slice(0, 3), LABELS, metrics).to_pandas(wide=True)
    assert list(of_one_system.columns) == ["system", *metrics]
    dated = RANKINGS.append_column("day", pa.array([date(2026, 1, 1 + (i > 2)) for i in range(4)]))
    dated = dated.append_column("country", dated["query_id"])
    of_two_systems = sm.evaluate(dated, LABELS, metrics, system="model", date="day", by="country")
    wide = of_two_systems.to_polars(wide=True)
    keys = ["metric_date", "segment_name", "segment_value", "system"]
    assert wide.columns == [*keys, *metrics]
    long = {tuple(row[key] for key in keys): {} for row in of_two_systems.to_dicts()}
    for row in of_two_systems.to_dicts():
        name = row["metric"] + f"@{row['k']}" * (row["k"] > 0)
        long[tuple(row[key] for key in keys)][name] = row["value"]
    assert {tuple(row[key] for key in keys): row for row in wide.to_dicts()} == {
        key_values: dict(zip(keys, key_values, strict=True)) | values
        for key_values, values in long.items()
    }
    assert wide["recall(rel=2)@1"].null_count()


def test_a_notebook_shows_a_table_and_escapes_names() -> None:
    html = sm.evaluate(RANKINGS, LABELS, ["mrr"], system="model")._repr_html_()
    assert "&lt;i&gt;new&lt;/i&gt;" in html
    assert "<i>" not in html
    assert re.search(r'text-align: right; background: [^"]* 75.0%, [^"]*"><b>0.7500</b>', html)


def test_the_script_can_be_run_again() -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("runs", RANKINGS)
        connection.register("truth", LABELS)
        result = sm.evaluate("runs", "truth", ["mrr"], system="model", connection=connection)
        statements = [text for text in result.executed_sql.split(";\n") if text.strip()]
        statement_rows = [connection.execute(text).fetchall() for text in statements]
        assert result.sql == sm.compile(result.spec) == pickle.loads(pickle.dumps(result)).sql
        portable = connection.execute(result.sql).fetchall()
    for rows in (statement_rows[2], portable):
        assert {row[2]: row[7] for row in rows} == {"<i>new</i>": 0.5, "old": 0.75}


@by_turns(1.2)
def test_the_same_question_has_the_same_definition() -> None:
    def hashes(*metrics: str, **options: str) -> list[str]:
        result = sm.evaluate(RANKINGS, LABELS, metrics, system="model", **options)
        return sorted(set(result.summary()["definition_hash"].to_pylist()))

    assert hashes("ndcg@3") == hashes("nDCG@3") == hashes("ndcg(gain=exp)@3")
    assert hashes("ndcg@3") != hashes("ndcg@3", gain="linear")
    assert hashes("ndcg@3", gain="linear") == hashes("ndcg(gain=linear)@3")
    assert hashes("ndcg@3") != hashes("ndcg@3", ties="id_desc")
    assert len(hashes("ndcg@3", "ndcg@4", "mrr")) == 3


def test_the_per_query_table_may_stay_where_it_is() -> None:
    with_queries = sm.evaluate(RANKINGS, LABELS, ["mrr", "hit@1"], system="model")
    summary = sm.evaluate(RANKINGS, LABELS, ["mrr", "hit@1"], system="model", per_query=False)
    assert summary.to_dicts() == with_queries.to_dicts()
    assert repr(summary) == repr(with_queries)
    assert "from sqlmetrics_per_query;" not in summary.executed_sql.partition("from summary")[2]
    for result in (summary, summary["mrr"]):
        with pytest.raises(sm.SpecError, match="was not kept; evaluate with per_query=True"):
            result.per_query()


@by_turns(0.65)
def test_a_spec_is_validated_verified_run_and_checked(tmp_path: Path) -> None:
    spec = sm.Spec(
        rankings={"relation": "runs", "columns": {"score": "score", "date": "day"}},
        labels={"relation": "truth"},
        metrics=["mrr", "ndcg@3"],
        output={"relation": "metrics"},
        checks=[{"metric": "mrr", "min": 0.6}],
    )
    days = ("2026-01-01", "2026-01-02")
    runs = [{"day": d, "query_id": "q", "item_id": i, "score": s} for d in days for i, s in SCORES]
    with pytest.raises(sm.SpecError, match="there is no database file"):
        sm.connect(tmp_path / "shop.duckdb")
    with sm.connect(str(tmp_path / "shop.duckdb"), create=True) as shop:
        shop.load("runs", pa.Table.from_pylist(runs))
        shop.load("truth", pa.table({"query_id": ["q"], "item_id": ["b"], "grade": [1]}))
        with pytest.raises(sm.InputError, match="unknown column 'nobody'"):
            sm.validate(spec.having(by=("nobody",)), shop)
        sm.validate(spec, shop)
        assert {agreement.largest <= 1e-12 for agreement in sm.verify(spec, shop)} == {True}
        (first,) = sm.run(spec, shop, start=days[0], end=days[1])
        assert first.rows == {"facts": 2}
        (second,) = sm.run(spec, shop, backfill=True)
        assert str(second.days) == "from 2026-01-02 and before 2026-01-03"
        assert sm.run(spec, shop, backfill=True) == []
        assert second.headline == (("runs", 0.5),)
        (third,) = sm.run(spec, shop, start=days[0], end="2026-02-01")
        assert third.last_day == date(2026, 1, 2)  # where the data end, not the range
        (verdict,) = sm.check(spec, shop, day=date(2026, 1, 1))
        assert (verdict.holds, verdict.value) == (False, 0.5)
        with pytest.raises(sm.SpecError, match="start is a date like"):
            sm.run(spec, shop, start="last week")
    with pytest.raises(sm.SpecError, match=r"the database is closed: .* write `with sm.connect"):
        sm.validate(spec, shop)


SCORES = [("a", 2.0), ("b", 1.0)]


@by_turns(0.65)
def test_a_spec_may_be_its_path_or_a_dict(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("query_id,item_id,score\nq,a,2\nq,b,1\n", encoding="utf-8")
    (tmp_path / "truth.csv").write_text("query_id,item_id,grade\nq,b,1\n", encoding="utf-8")
    text = (
        "name: shop\nrankings: {file: runs.csv, columns: {score: score}}\n"
        "labels: {file: truth.csv}\nmetrics: [mrr]\n"
        "output: {relation: metrics}\nchecks: [{metric: mrr, min: 0.1}]\n"
    )
    path = tmp_path / "shop.yml"
    path.write_text(text, encoding="utf-8")
    spec = sm.Spec.read(path)
    keys = {name: getattr(spec, name) for name in ("name", "rankings", "labels", "metrics")}
    assert sm.compile(path) == sm.compile(str(path)) == sm.compile(keys) == sm.compile(spec)
    assert sm.evaluate(str(path))["mrr"] == sm.evaluate(spec, per_query=False)["mrr"] == 0.5
    assert sm.validate(path) == ()
    assert {agreement.largest for agreement in sm.verify(path)} == {0.0}
    assert sm.abstention(path).to_dicts()
    assert sm.tie_audit(path).to_dicts()
    assert sm.leaderboard(path).to_dicts()
    assert "mrr" in sm.report(path).html
    with sm.connect(tmp_path / "shop.duckdb", create=True) as shop:
        assert [run.rows for run in sm.run(path, shop)] == [{"facts": 1}]
        assert [verdict.holds for verdict in sm.check(path, shop)] == [True]
        assert sm.query_metrics(path, shop, "mrr").to_dicts()[0]["value"] == 0.5
        assert sm.explain_query(path, shop, "q").text()
        assert sm.export(path, "grafana", tmp_path / "board")
    for verb in (sm.compare, sm.compare_stored, sm.fuse, sm.fuse_sweep):
        with pytest.raises(sm.SqlmetricsError, match=r"system|no table metrics"):
            verb(path, connection=None)
    for verb in (sm.evaluate_clicks, sm.experiment):
        with pytest.raises(sm.SpecError, match=r"clicks"):
            verb(path)
    for wrong, message in (
        (str(tmp_path / "shopp.yml"), r"No such file or directory; did you mean '.*shop.yml'\?"),
        (3, r"given int; give the path of a YAML file, like 'search.yml', a Spec, or a dict of"),
        ({"name": "x", "metrics": "mrr"}, "rankings is missing"),
    ):
        for verb in (sm.compile, sm.validate, sm.verify, sm.abstention, sm.experiment):
            with pytest.raises(sm.SpecError, match=message):
                verb(wrong)
    with pytest.raises(sm.SpecError, match="write labels, where in the spec, or leave it out here"):
        sm.evaluate(spec, LABELS, where="score > 1")
    with pytest.raises(sm.SpecError, match=r"shop.yml' is YAML, not a table; give a spec alone"):
        sm.evaluate(path, LABELS, "mrr")


def test_an_error_in_a_notebook_begins_with_its_sentence_and_has_the_readers_lines_alone() -> None:
    with pytest.raises(sm.SpecError) as raised:
        sm.evaluate(RANKINGS, LABELS, "ngcd@10", system="model")
    traceback = raised.value._render_traceback_()
    assert traceback[0].startswith("SpecError: unknown metric 'ngcd'; did you mean 'ndcg'?")
    lines = "\n".join(traceback[1:])
    assert 'sm.evaluate(RANKINGS, LABELS, "ngcd@10", system="model")' in lines
    assert not re.search(r'File ".*sqlmetrics/(?!tests/)\w+/\w+\.py"', lines.replace("tests", ""))
    assert len(traceback) < 8


def test_what_is_no_text_number_or_table_is_told(tmp_path: Path) -> None:
    for verb, message in (
        (lambda: sm.parse(None), "a metric must be a text like ndcg@10, given None"),
        (lambda: sm.explain(5), "name must be a text like ndcg@10 or ties, given 5"),
        (lambda: sm.evaluate(RANKINGS, LABELS, "mrr", check="yes"), "like 0.01, given 'yes'"),
    ):
        with pytest.raises(sm.SpecError, match=message):
            verb()
    (tmp_path / "run.txt").write_text("q Q0 a 1 2.0 r\n", encoding="utf-8")
    with (
        (tmp_path / "run.txt").open(encoding="utf-8") as file,
        pytest.raises(sm.InputError, match=r"given an open file of '.*run.txt'; give its path"),
    ):
        sm.evaluate(file, LABELS, "mrr")


def test_explain_shows_its_lines() -> None:
    text = sm.explain("ndcg@10")
    assert repr(text) == text
    assert "\n" in repr(text)
    assert text._repr_html_().startswith("<pre>")  # type: ignore[attr-defined]
    assert "<" not in text._repr_html_().removeprefix("<pre>").removesuffix("</pre>")  # type: ignore[attr-defined]


def test_a_result_says_once_how_to_get_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "can_draw", lambda: False)
    monkeypatch.setattr(notebook, "PRINTED_ONCE", set())
    result = sm.evaluate(RANKINGS, LABELS, "mrr", system="model")
    first, second = (result._repr_mimebundle_()["text/html"] for _ in range(2))
    assert "pip install 'sqlmetrics[report]'" in first
    assert first.endswith(second)
    assert "sqlmetrics[report]" not in second + result._repr_html_()
