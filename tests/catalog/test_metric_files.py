"""Metrics of one's own: files that are read, what they give, and what a stranger's is told."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import duckdb
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.spec import Spec

HEADER = """{#
formula = "grades over ranks"
over = "ranked"
[[examples]]
list = ["a", "b"]
labels = {a = 3}
k = 2
value = 3.0
#}
"""
RATIO = HEADER.replace('over = "ranked"', 'over = "query"\n[parts]\nhits = "num_rel_ret"')
GOOD = HEADER + 'sum({{ m.in_top("grade / rnk") }})\n'
CALLS = GOOD.replace("[[exam", '[functions]\nround = ["duckdb"]\n[[exam').replace(
    "grade / rnk", "round(grade / rnk)"
)
RANKINGS = [
    {"query_id": "q", "item_id": item, "score": score} for item, score in (("a", 3), ("b", 2))
]
LABELS = [{"query_id": "q", "item_id": "b", "grade": 1.0}]

OF_TABLES = {"rankings": {"relation": "r"}, "labels": {"relation": "l"}, "metrics": ["mine@2"]}


def metric_file(folder: Path, text: str, name: str = "mine") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.sql.jinja"
    file.write_text(text, encoding="utf-8")
    return file


def sql(text: str) -> str:
    return f"{HEADER}{text}\n"


HOSTILE = {
    # what is no file
    "": "it must begin with its header",
    "select 1": "it must begin with its header",
    "{# over = #} sum(1)": "its header is not TOML",
    "{#" + "[" * 5_000 + "#} x": "its header is not TOML",
    GOOD + " " * 20_001: "a metric file has at most 20,000",
    # headers
    "{#\nover = 'ranked'\nformula = 'x'\n#} sum(grade)": "has no examples; write [[examples]]",
    GOOD.replace("value = 3.0", 'value = "three"'): "value must be the number worked out",
    GOOD.replace("value = 3.0", "valeu = 3.0"): "unknown key 'valeu'; did you mean 'value'?",
    GOOD.replace('["a", "b"]', '["a", "a"]'): "list must name each item once",
    GOOD.replace("{a = 3}", '{a = "3"}'): "labels must be items with their grades",
    GOOD.replace('"ranked"', '"pooled_items"'): "over: unknown value 'pooled_items'",
    GOOD.replace("formula", "formulae"): "unknown key 'formulae'; did you mean 'formula'?",
    GOOD.replace("over =", 'range = "much"\nover ='): "range must be like '0 to 1'",
    GOOD.replace("over =", "expected = 'always'\nover ="): "unknown key 'expected'",
    GOOD.replace("over =", "every_item = false\nover ="): "unknown key 'every_item'",
    GOOD.replace("over =", "needs = ['baseline']\nover ="): "needs: unknown name 'baseline'",
    GOOD.replace("over =", "options = ['ties']\nover ="): "options: unknown name 'ties'",
    GOOD.replace("[[exam", "[parts]\nx = 'ndcg'\n[[exam"): 'parts are for over = "query"',
    GOOD.replace("[[exam", "[parameters]\nties = 1\n[[exam"): "must be a name of your own",
    RATIO.replace("num_rel_ret", "nothing") + "{{ m.hits }}": "unknown metric 'nothing'",
    RATIO.replace("num_rel_ret", "coverage") + "{{ m.hits }}": "coverage can be no part",
    GOOD.replace(
        "[[exam", '[labels]\nrank = "numer"\n[[exam'
    ): "labels: rank: unknown kind 'numer'",
    GOOD.replace(
        "[[exam", '[labels]\ngrade = "number"\n[[exam'
    ): "is the name of another column of the SQL",
    GOOD.replace("[[exam", '[labels]\nGrade = "number"\n[[exam'): "must begin with a small letter",
    RATIO.replace("[[exam", '[labels]\nx = "number"\n[[exam') + "{{ m.hits }}": "labels are for",
    GOOD.replace("{a = 3}", "{a = {revenue = 3}}"): "labels must be items with their grades",
    GOOD.replace(
        "[[exam", '[queries]\nmarket = "age"\n[[exam'
    ): "unknown kind 'age'; known: flag, number",
    GOOD.replace("value =", "query = {markt = 'de'}\nvalue ="): "name 'markt' under [queries]",
    GOOD.replace("value =", "query = 'de'\nvalue ="): "query must be what is known of it",
    GOOD.replace("k = 2", "k = 0"): "k must be a whole number from 1, given 0",
    # templates
    sql("{% for i in range(10) %}1{% endfor %}"): "'for' is not for metric files",
    sql("{% set x = 1 %}sum(grade)"): "'assign' is not for metric files",
    sql("{% include '/etc/passwd' %}"): "'include' is not for metric files",
    sql("{{ m.__class__.__mro__ }}"): "is no name of m",
    sql("{{ ''.__class__ }}"): "is no name of m",
    sql("{{ cycler.__init__ }}"): "'__init__' is no name of m",
    sql("{{ cycler }}"): "write names as m.name; given 'cycler'",
    sql("{{ cycler.next }}"): "unknown name 'cycler'",
    sql("{{ m.grade | upper }}"): "'filter' is not for metric files",
    sql("{{ 'x' * 1000000000 }}"): "'mul' is not for metric files",
    sql("{{ m.measure }}"): "unknown name 'm.measure'",
    sql("{{ m.by('gain') }}"): "unknown name 'm.by'",
    sql("{{ m.gain }}"): 'm.gain needs options = ["gain"] in the header',
    sql("{{ m.in_top() }}"): "m.in_top needs a value",
    sql("{{ m." + "in_top(m." * 7 + "grade" + ")" * 7 + " }}"): "more than 6 deep",
    sql("{{ m }}"): "write names as m.name",
    sql("{% macro numerator(m) %}1{% endmacro %}"): "the macros numerator and denominator",
    sql("{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}"): "nested too deeply",
    # SQL
    sql("sum(grade); drop table rankings"): "its SQL is several statements",
    sql("(select max(score) from rankings)"): "reads a table of its own",
    sql("sum(case when grade in (select 1) then 1e0 end)"): "reads a table of its own",
    sql("sum(score)"): "unknown column 'score'; known here: grade, rnk",
    sql('sum("pass" || "word")'): "is more than one expression",
    sql("sum(read_text(grade))"): "the function 'read_text' is not known",
    sql("sum(grade) -- and\n + 1"): "its SQL has a comment",
    sql("sum(grade) over ()"): "is a window function",
    sql("sum(sum(grade))"): "stands in another sum",
    sql("grade"): "stands outside of a sum",
    sql("sum(1 / rnk)"): "divides whole numbers",
    sql("sum(rnk / grade)"): "write nullif(grade, 0e0)",
    sql("sum(grade > 1)"): "write case when grade > 1 then 1e0 else 0e0 end",
    GOOD.replace("[[exam", '[labels]\nkind = "text"\n[[exam').replace(
        "grade / rnk", "kind"
    ): "the column 'kind' is a text; compare it, like kind = 'x'",
    sql("sum(grade"): "its SQL cannot be read as one expression",
    sql("sum(" + "(" * 500 + "grade" + ")" * 500 + ")"): "cannot be read as one expression",
    sql("sum(round(grade))"): "the function 'round' is not known to mean the same",
    sql("sum(cast(grade as integer))"): "cast to double alone",
    sql("sum(grade - 'a')"): "the text 'a' is no number",
    # functions that some databases have
    CALLS.replace('["duckdb"]', '"duckdb"'): 'give the databases that have it, like ["duckdb"]',
    CALLS.replace('["duckdb"]', "[]"): "give the databases that have it",
    CALLS.replace('"duckdb"', '"duckbd"'): "did you mean 'duckdb'?",
    CALLS.replace('"duckdb"', "1"): "functions: round: unknown dialect '1'",
    CALLS.replace("round =", "sum ="): "sum is the same on every database; leave it out",
    CALLS.replace("round =", '"a.b" ='): "'a.b' must be the plain name of a function",
    CALLS.replace("[functions]\nround", "functions"): "functions must be a table",
    CALLS.replace('"duckdb"', '"postgres"'): "round() is for PostgreSQL, not for DuckDB",
    CALLS.replace("round(", "sin("): "the function 'sin' is not known",
    CALLS.replace("round(", "main.sin("): "is not the same everywhere",
    CALLS.replace("round(", "main.round("): "is not the same everywhere",
    CALLS.replace("grade / rnk)", "(select 1))"): "reads a table of its own",
    CALLS.replace("round(grade / rnk)", "round(score)"): "unknown column 'score'",
    CALLS.replace("round(grade / rnk)", "1 / round(grade)"): "divides whole numbers",
    CALLS + "+ round(grade)": "stands outside of a sum",
    CALLS.replace("/ rnk)", r", 'a\n')"): "a backslash or a control character",
    RATIO + "sum({{ m.hits }})": "there is one row per query here",
    RATIO + "{{ m.hits }} / {{ m.hits }}": "may divide by 0",
    RATIO + "rankings.score": "unknown column 'rankings.score'",
}
"""Files that are wrong or hostile -> what each is told."""


@by_turns(3.1)
def test_wrong_and_hostile_files_are_told_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLMETRICS_TRUSTED", str(tmp_path))
    for number, (text, message) in enumerate(HOSTILE.items()):
        file = metric_file(tmp_path / str(number), text)
        with pytest.raises(SpecError) as error:
            sm.evaluate(RANKINGS, LABELS, "mine@2", metrics_from=file.parent)
        assert message in str(error.value), text
        assert str(file) in str(error.value)
        assert len(str(error.value)) <= 1_000
    calls = metric_file(tmp_path / "calls", CALLS).parent
    metric_file(calls, RATIO.replace("num_rel_ret", "mine") + "{{ m.hits }} / 2e0\n", "half")
    options = {"metrics": "half@2", "metrics_from": calls}
    assert sm.evaluate(RANKINGS, LABELS, **options)["half@2"] == 0.5
    spec = Spec(**OF_TABLES | options)
    with pytest.raises(SpecError, match=r"round\(\) is for DuckDB, not for ClickHouse; name"):
        sm.compile(spec, dialect="clickhouse")
    named = CALLS.replace('round = ["duckdb"]', 'roundToExp2 = ["clickhouse"]')
    metric_file(calls, named.replace("round(", "roundtoexp2("))
    spec = Spec(**OF_TABLES | options)
    assert "sum(case when rnk <= 2 then roundToExp2(" in sm.compile(spec, dialect="clickhouse")
    monkeypatch.setenv("SQLMETRICS_TRUSTED", str(tmp_path / "names"))
    with pytest.raises(
        SpecError, match=r"it calls roundToExp2, and a function .* SQLMETRICS_TRUSTED=/"
    ):
        MetricFiles.read(calls)
    for name in ("ndcg", "ctr", "system", "order", "Größe"):
        with pytest.raises(SpecError, match=r"choose another name|a to z"):
            MetricFiles.read(metric_file(tmp_path / "names", GOOD, name))
    for paths, message in ((3, "must be a folder"), ("nothing", "there is no folder 'nothing'")):
        with pytest.raises(SpecError, match=message):
            MetricFiles.read(paths)


def test_two_specs_of_one_process_have_files_of_their_own(tmp_path: Path) -> None:
    metric_file(tmp_path / "a", GOOD)
    metric_file(tmp_path / "b", GOOD.replace("grade / rnk", "10.5 * grade"))
    specs = [Spec(**OF_TABLES, metrics_from=tmp_path / folder) for folder in "aba"]
    values = [
        sm.evaluate(RANKINGS, LABELS, "mine_2", metrics_from=tmp_path / folder)["mine@2"]
        for folder in "aba"
    ]
    assert values == [0.5, 10.5, 0.5]
    hashes = [spec.definition_hash(spec.measures[0]) for spec in specs]
    assert hashes[0] == hashes[2] != hashes[1]
    titled = metric_file(tmp_path / "c", GOOD.replace("over =", 'title = "Mine"\nover ='))
    renamed = Spec(**OF_TABLES, metrics_from=str(titled))
    assert renamed.definition_hash(renamed.measures[0]) == hashes[0]
    with pytest.raises(SpecError, match="are different metrics of one name"):
        Spec(**OF_TABLES, metrics_from=[str(tmp_path / "a"), str(tmp_path / "b")])
    with pytest.raises(SpecError, match="unknown metric 'mine'"):
        Spec(**OF_TABLES)
    with pytest.raises(SpecError, match="'mine' is the metric of "):
        Spec(**OF_TABLES | {"metrics": ["mine = mrr"]}, metrics_from=tmp_path / "a")


SOLD = """{#
formula = "what is sold, and what it costs"
over = "item_features"
[items]
price = "number"
[labels]
revenue = "number"
[[examples]]
list = ["a", "b"]
labels = {a = {grade = 1, revenue = 2.0}, b = 3}
items = {a = {price = 40.0}, b = {price = 10.0}}
k = 2
value = 52.0
#}
sum({{ m.in_top("price + coalesce(revenue, 0e0)") }})
"""


PER_LABEL = """{#
formula = "1 / the number of relevant labels"
over = "query"
undefined = "never"
[parts]
labels = "num_rel"
[[examples]]
list = ["a"]
labels = {a = 1, b = 1}
k = 1
value = 0.5
#}
1e0 / nullif({{ m.labels }}, 0e0)
"""


def test_null_is_what_the_file_says_of_it(tmp_path: Path) -> None:
    labels = [{"query_id": "q", "item_id": "b", "grade": 0}]
    for undefined, value in (("never", 0.0), ("zero", 0.0), ("skip", None), ("no_relevant", None)):
        folder = tmp_path / undefined
        metric_file(folder, PER_LABEL.replace("never", undefined))
        result = sm.evaluate(RANKINGS[:1], labels, "mine@2", metrics_from=folder)
        assert result.to_dicts()[0]["value"] == value, undefined


def test_rounding_is_of_the_whole_value(tmp_path: Path) -> None:
    metric_file(
        tmp_path,
        sql("sum(grade / rnk)-1e-3").replace('"ranked"', '"ranked"\noptions = ["rounding"]'),
    )
    ratio = (
        "{% macro numerator(m) %}\n{{ m.hits }} + 2\n{% endmacro %}\n"
        "{% macro denominator(m) %}\n{{ m.hits }} + 5\n{% endmacro %}\n"
    )
    metric_file(tmp_path, RATIO + ratio, "share")
    metrics = ["mine", "share", "tied_rbo(rbo_bound=residual)"]
    rankings = [{**row, "system": "new"} for row in RANKINGS]
    labels = [{"query_id": "q", "item_id": "b", "grade": 1.0}]
    values = {
        rounding: sm.evaluate(
            rankings,
            labels,
            metrics,
            system="system",
            baseline="new",
            rounding=rounding,
            metrics_from=tmp_path,
        )
        .per_query()
        .to_pylist()[0]
        for rounding in ("none", 4)
    }
    assert values["none"]["mine"] == 0.499
    assert values["none"]["share"] == 0.5
    for column, value in values["none"].items():
        if isinstance(value, float):
            assert values[4][column] == round(value, 4), column


@by_turns(1)
def test_files_read_columns_of_the_labels_and_of_their_parts(tmp_path: Path) -> None:
    metric_file(tmp_path, SOLD, "sold")
    half = RATIO.replace("num_rel_ret", "sold") + "{{ m.hits }} / 2e0\n"
    metric_file(tmp_path, half.replace("value = 3.0", "value = 0.0"), "half_sold")
    labels = [{**row, "revenue": 4.0} for row in LABELS]
    items = [{"item_id": item, "price": price} for item, price in (("a", 1.0), ("b", 2.0))]
    result = sm.evaluate(
        RANKINGS, labels, ["sold@2", "half_sold@2"], items=items, metrics_from=tmp_path
    )
    assert (result["sold@2"], result["half_sold@2"]) == (7.0, 3.5)
    with pytest.raises(sm.SqlmetricsError, match="revenue"):
        sm.evaluate(RANKINGS, LABELS, "sold@2", items=items, metrics_from=tmp_path)
    assert (
        "0 values differ" in sqlmetrics("metric", "test", "sold.sql.jinja", folder=tmp_path).stderr
    )
    lacking = SOLD.replace("items = {a = {price = 40.0}, b = {price = 10.0}}\n", "")
    metric_file(tmp_path / "lacking", lacking, "sold")
    output = sqlmetrics("metric", "test", "--folder", "lacking", folder=tmp_path, expect=1).stdout
    assert "items of an example name all of its list, like items = {a = {price" in output


OF_QUERIES = GOOD.replace(
    "[[exam", '[queries]\nmarket = "text"\nmetric_date = "number"\n[[exam'
).replace("grade / rnk", "case when market = 'de' then grade * metric_date else 0e0 end")
OF_QUERIES = OF_QUERIES.replace(
    "k = 2", 'k = 2\nquery = {market = "de", metric_date = "1970-01-02"}'
)


@by_turns(3)
def test_files_read_columns_of_the_queries_and_the_day(tmp_path: Path) -> None:
    metric_file(tmp_path, OF_QUERIES)
    assert (
        "0 values differ" in sqlmetrics("metric", "test", "mine.sql.jinja", folder=tmp_path).stderr
    )
    explained = str(sm.explain("mine@2", metrics_from=tmp_path))
    assert "market:de metric_date:1970-01-02" in explained
    dated = [{**row, "day": "1970-01-04"} for row in RANKINGS]
    options = {"metrics": "mine@2", "metrics_from": tmp_path}
    for market, value in (("de", 3.0), ("fr", 0.0), (None, 0.0)):
        queries = [{"query_id": "q", "market": market}, {"query_id": "r", "market": "de"}]
        result = sm.evaluate(dated, LABELS, **options, queries=queries, date="day")
        assert result["mine@2"] == value
        assert (
            sm.evaluate(dated, LABELS, **options, queries=queries[1:], date="day")["mine@2"] == 0.0
        )
    two = [{**row, "system": system} for row in dated for system in ("old", "new")]
    columns = {"date": "day", "queries": queries, "system": "system"}
    compared = sm.compare(two, LABELS, **options, **columns, systems=["old", "new"])
    assert compared.to_dicts()[0]["baseline_value"] == 0.0
    trace = {"query_id": "q", "retrieved_context_ids": ["a", "b"], "reference_context_ids": ["b"]}
    traces = [{**trace, "market": "de", "day": "1970-01-04"}]
    assert sm.evaluate(traces, **options, date="day")["mine@2"] == 3.0
    (tmp_path / "traces.json").write_text(json.dumps(traces))
    text = "rankings: {file: traces.json, columns: {date: day}}\nlabels: {file: traces.json}\n"
    (tmp_path / "spec.yml").write_text(f"{text}metrics: [mine@2]\nmetrics_from: .\n")
    assert "3.0000" in sqlmetrics("show", "spec.yml", folder=tmp_path).stdout
    market = [{"query_id": "q", "markt": "de"}]
    for arguments, message in (
        ({"date": "day"}, "mine@2 needs the queries table, one row per query with its market"),
        ({"date": "day", "queries": market}, "queries: unknown column 'market'; did you mean"),
        ({"queries": queries}, "mine@2 needs the day of each query; name the rankings' column"),
    ):
        with pytest.raises(sm.SqlmetricsError, match=message):
            sm.evaluate(dated, LABELS, **options, **arguments)
    with pytest.raises(SpecError, match="needs a column of the queries and the day"):
        sm.reconcile(dated, LABELS, "mine@2", 0.5, queries=queries, metrics_from=tmp_path)
    metric_file(
        tmp_path / "labels",
        OF_QUERIES.replace("ranked", "labels").split("sum(")[0] + "sum(metric_date)\n",
    )
    with pytest.raises(
        SpecError, match="mine reads metric_date beside labels, which hold for every"
    ):
        sm.evaluate(
            dated, LABELS, "mine", metrics_from=tmp_path / "labels", date="day", queries=queries
        )
    metric_file(
        tmp_path / "number", OF_QUERIES.replace('"number"', '"text"').replace(" * metric_date", "")
    )
    specs = [Spec(**OF_TABLES, metrics_from=folder) for folder in (tmp_path / "number", tmp_path)]
    hashes = [spec.definition_hash(spec.measures[0]) for spec in specs]
    assert hashes[0] != hashes[1]


@by_turns(1)
def test_streams_take_files(tmp_path: Path) -> None:
    metric_file(tmp_path / "a", GOOD)
    metric_file(tmp_path / "b", GOOD.replace("grade / rnk", "grade"))
    streams = [
        sm.StreamingMetric("mine@2", metrics_from=tmp_path / folder, ties="best") for folder in "ab"
    ]
    for stream in streams:
        stream.update([[0.9, 0.4, 0.1]], [[0, 3, 1]])
    assert [stream.compute() for stream in streams] == [{"mine@2": 1.5}, {"mine@2": 3.0}]
    assert pickle.loads(pickle.dumps(streams[0])).merge(streams[0]).compute() == {"mine@2": 1.5}
    with pytest.raises(SpecError, match="mine@2 is of another file"):
        streams[0].merge(streams[1])
    with pytest.raises(SpecError, match="set ties to something other than average"):
        sm.StreamingMetric("mine@2", metrics_from=tmp_path / "a")
    formulas = [sm.StreamingMetric(f"sum = mrr + {n} * hit@1") for n in (1, 2)]
    with pytest.raises(SpecError, match=r"for sum = mrr \+ 1"):
        formulas[0].merge(formulas[1])


@by_turns(2)
def test_logs_and_reconcile_take_files(tmp_path: Path) -> None:
    metric_file(tmp_path, GOOD)
    reconciled = sm.reconcile(RANKINGS, LABELS, "mine@2", 0.5, metrics_from=tmp_path)
    assert "house" in str(reconciled)
    impressions = [
        "request_id,item_id,position,clicked,time",
        "1,a,1,0,2026-01-01",
        "1,b,2,1,2026-01-01",
    ]
    (tmp_path / "log.csv").write_text("\n".join(impressions))
    line = ("log.csv", "-m", "mine@2", "--metrics-from", ".")
    output = sqlmetrics("clicks", *line, folder=tmp_path).stdout
    assert "mine@2" in output
    assert "0.5000" in output
    assert "mine@2" in sqlmetrics("report", *line, "--out", "-", folder=tmp_path).stdout
    result = sm.evaluate_clicks(str(tmp_path / "log.csv"), metrics="mine@2", metrics_from=tmp_path)
    assert result.offline["mine@2"] == 0.5


def test_a_package_brings_metrics_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an entry point, and without its code being run."""
    package, info = tmp_path / "shop_metrics", tmp_path / "shop_metrics-1.dist-info"
    metric_file(package, GOOD)
    (package / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")
    info.mkdir()
    (info / "METADATA").write_text("Name: shop-metrics\nVersion: 1\n", encoding="utf-8")
    points = "[sqlmetrics.metrics]\nshop = shop_metrics\ngone = no_such_module\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    spec = tmp_path / "spec.yml"
    spec.write_text(
        "rankings: {relation: r}\nlabels: {relation: l}\nmetrics: mine@2\n"
        "metrics_from: ['package:shop']\n",
        encoding="utf-8",
    )
    assert Spec.read(spec).measures[0].metric.file == str(package / "mine.sql.jinja")
    for name, message in (("shob", "did you mean 'shop'"), ("gone", "is not a package with files")):
        with pytest.raises(SpecError, match=message):
            MetricFiles.read(f"package:{name}")


@by_turns(6)
def test_files_go_through_every_command(tmp_path: Path) -> None:
    def output_of(line: str, expect: int = 0) -> str:
        completed = sqlmetrics(*line.split(), folder=tmp_path, expect=expect)
        return completed.stdout + completed.stderr

    output_of("metric new seen")
    assert "already exists; --overwrite replaces it" in output_of("metric new seen", 2)
    assert "'ndcg' already has a meaning here" in output_of("metric new ndcg", 2)
    assert "name one metric" in output_of("metric new", 2)
    assert "0 values differ from what was worked out" in output_of("metric test")
    assert "unknown metric file 'sen'; did you mean" in output_of(
        "metric test metrics/sen.sql.jinja", 2
    )
    metric_file(tmp_path / "wrong", GOOD.replace("value = 3.0", "value = 2.5"))
    assert "1 value differs from" in output_of("metric test --folder wrong", 1)
    python = tmp_path / "metrics" / "seen.py"
    python.write_text("1 / 0", encoding="utf-8")
    output_of("metric test")  # code is run by consent alone
    assert "ZeroDivisionError" in output_of("metric test --python", 2)
    function = (
        "def seen(items, labels, *, k):\n    return sum((r['grade'] or 0) / r['rank'] for r in {})"
    )
    for rows, expect in (("items[:k]", 0), ("items", 1)):
        python.write_text(function.format(rows), encoding="utf-8")
        tested = output_of("metric test metrics/seen.sql.jinja --python", expect)
        assert "of 100" in tested
        assert ("e+00 differs" in tested or "e-01 differs" in tested) == bool(expect)
    days = ("2026-01-01", "2026-01-02")
    for table, rows in (("rankings", RANKINGS), ("labels", LABELS)):
        dated = [{**row, "day": day} for day in days for row in rows]
        lines = [",".join(dated[0]), *(",".join(map(str, row.values())) for row in dated)]
        (tmp_path / f"{table}.csv").write_text("\n".join(lines), encoding="utf-8")
    spec = """
name: shop
rankings: {file: rankings.csv, columns: {date: day}}
labels: {file: labels.csv, columns: {date: day}}
metrics_from: metrics
metrics: [seen@2, mrr, north_star = seen@2 / 2 + mrr]
output: {relation: facts, per_query: queries}
checks: [{metric: seen@2, min: 0.4}]
"""
    (tmp_path / "spec.yml").write_text(spec, encoding="utf-8")
    assert "3 metrics" in output_of("validate spec.yml")
    assert "no number differs" in output_of("verify spec.yml")
    assert "0.7500" in output_of("show spec.yml")
    assert "seen_at_2" in output_of("compile spec.yml")
    assert "1 of 1 checks hold" in output_of("build spec.yml --db facts.duckdb --end 2026-01-02")
    assert "Examples in its file" in output_of("explain seen@2 --metrics-from metrics")
    file = tmp_path / "metrics" / "seen.sql.jinja"
    file.write_text(file.read_text(encoding="utf-8").replace("grade / rnk", "2 * grade / rnk"))
    (tmp_path / "other.yml").write_text(spec.replace("name: shop", "name: other"))
    output = output_of("run other.yml --db facts.duckdb --end 2026-01-02")
    assert "same name and another file: north_star of shop, seen@2 of shop; read it spec" in output
    assert "2 of 3 metrics differ" in output_of("verify spec.yml", 1)
    changed = output_of("run spec.yml --db facts.duckdb --start 2026-01-02", 2)
    assert "seen@2" in changed
    assert "file" in changed
    file.unlink()
    kept = spec.replace("metrics_from: metrics\n", "").replace("seen@2, ", "")
    kept = kept.replace(", north_star = seen@2 / 2 + mrr", "").partition("checks")[0]
    (tmp_path / "spec.yml").write_text(kept, encoding="utf-8")
    output_of("run spec.yml --db facts.duckdb --start 2026-01-02")
    assert "0.5000" in output_of("show spec.yml --db facts.duckdb")
    with duckdb.connect(str(tmp_path / "facts.duckdb")) as connection:
        old = (
            "select seen_at_2, north_star from facts_wide where spec = 'shop' order by metric_date"
        )
        values = connection.sql(old).fetchall()
    assert values == [(0.5, 0.75), (None, None)]  # rows of a file that is gone stay
