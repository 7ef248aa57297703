"""A spec is checked as soon as it is made, read as YAML, and compiled to the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from marked import by_turns
from pydantic import ValidationError

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.comparison.track.uploads import TrackFile
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.source import Model
from sqlmetrics.spec.spec import sentences
from sqlmetrics.sql.dialects import DIALECTS

SMALL: dict[str, Any] = {
    "rankings": {"relation": "rankings"},
    "labels": {"relation": "labels"},
    "metrics": ["ndcg@10", "mrr"],
}


def spec(**changed: Any) -> sm.Spec:
    """A small good spec, but for what is changed."""
    return sm.Spec(**SMALL | changed)


def problems(*, wrong: bool = True, **changed: Any) -> tuple[str, ...]:
    """What is wrong with a spec, which may be nothing unless it is `wrong`."""
    try:
        spec(**changed)
    except sm.SpecError as error:
        return error.problems
    assert not wrong
    return ()


def names(spec: sm.Spec) -> list[str]:
    return [str(measure) for measure in spec.measures]


# What is refused

RANKINGS = {"relation": "rankings"}
LABELS = {"relation": "labels"}


def _below(model: type[Model]) -> Iterator[type[Model]]:
    for child in model.__subclasses__():
        yield child
        yield from _below(child)


REFUSED = {
    "key": ({"metrcs": ["mrr"]}, "unknown key 'metrcs'; did you mean 'metrics'?"),
    "key of rankings": ({"rankings": {"relaton": "r"}}, "'relaton'; did you mean 'relation'?"),
    "key of rankings, where": ({"rankings": {"relaton": "r"}}, "in rankings"),
    "role": ({"rankings": RANKINGS | {"columns": {"qurey": "q"}}}, "did you mean 'query'?"),
    "role, where": ({"rankings": RANKINGS | {"columns": {"qurey": "q"}}}, "rankings.columns"),
    "role of the other": ({"labels": LABELS | {"columns": {"score": "s"}}}, "labels.columns"),
    "no key for data": (
        {"rankings": {"relaton": "r"}},
        "lists, relation, separator, skip_bad, sql, time_zone, where",
    ),
    "preset": ({"preset": "trec_evl"}, "unknown preset 'trec_evl'; did you mean 'trec_eval'?"),
    "option": ({"conventions": {"gian": "exp"}}, "unknown option 'gian'; did you mean 'gain'?"),
    "value": ({"conventions": {"gain": "expo"}}, "value for gain 'expo'; did you mean 'exp'?"),
    "value of a list": ({"conventions": {"gain": ["exp", "lin"]}}, "unknown value for gain 'lin'"),
    "list of all": ({"conventions": {"missing": ["zero", "drop"]}}, "give one value, not a list"),
    "empty list": (
        {"conventions": {"gain": []}},
        "gain: the list of values is empty; give one or more",
    ),
    "metric": ({"metrics": ["ndgc@10"]}, "unknown metric 'ndgc'; did you mean 'ndcg'?"),
    "no metric": ({"metrics": []}, "metrics is empty"),
    "metrics as keys": ({"metrics": {"mrr": 10}}, "write the formula of mrr as a text"),
    "by a truth": ({"by": True}, "by must be a list, given True"),
    "by a number": ({"by": [5]}, "by.0 must be a text, given 5"),
    "by all": ({"by": ["all"]}, "all"),
    "metric a number": ({"metrics": [5]}, "metrics.0 must be a text, given 5"),
    "name a number": ({"name": 5}, "name must be a text, given 5"),
    "version": ({"version": 2}, "version must be 1, given 2"),
    "no source": ({"rankings": {}}, "give exactly one of relation, sql and file"),
    "two sources": (
        {"rankings": {"relation": "r", "file": "r.csv"}},
        "give exactly one of relation, sql and file",
    ),
    "source as text": ({"labels": "labels.csv"}, "labels must be keys and values"),
    "source missing": ({"labels": None}, "give either labels or rankings.columns.grade"),
    "score and rank": (
        {"rankings": RANKINGS | {"columns": {"score": "s", "rank": "r"}}},
        "give score or rank, not both",
    ),
    "micro": ({"metrics": ["mrr(average=micro)"]}, "mrr(average=micro) has no micro average"),
    "micro for all": (
        {"conventions": {"average": "micro"}},
        "mrr has no micro average; set average=micro on metrics that have one",
    ),
    "rel without effect": (
        {"metrics": ["ndcg(rel=2)@10"]},
        "rel does not change the gains; set gain=binary or average_over=hits, or leave rel out",
    ),
    "rel without effect in dcg": ({"metrics": ["dcg(rel=2)"]}, "rel does not change the gains"),
    "setting of all": ({"metrics": ["mrr(ties=id_asc)"]}, "ties applies to all metrics"),
}


ODD = ([], {"a": []}, [{"a": 1}], 7.5, -1, "soon", True, float("inf"), {1: {2: 3}}, [[1]], "")


def test_a_value_of_another_type_is_refused_in_our_words() -> None:
    """Of each field of each model, also within a spec: none of the words of a library."""
    texts: list[str] = []
    for model in dict.fromkeys((TrackFile, *_below(Model))):
        for field, value in product(model.model_fields, ODD):
            with suppress(sm.SpecError):
                try:
                    model.model_validate({field: value})
                except ValidationError as error:
                    texts += sentences(error, model=model)
    log = {"rankings": None, "labels": None, "clicks": {"log": {"relation": "log"}}}
    for field, value in product(Clicks.model_fields, ODD):
        texts += problems(
            **log | {"clicks": {"log": {"relation": "log"}, field: value}}, wrong=False
        )
    for field, value in product(sm.Spec.model_fields, ODD):
        texts += problems(**{field: value}, wrong=False)
        texts += problems(**log | {field: value}, wrong=False)
    for option, value in product(OPTIONS, ODD):
        texts += problems(conventions={option: value}, wrong=False)
    assert len(texts) > 4_000
    foreign = re.compile(
        r"[Ii]nput should|[Ff]ield required|should have|unable to|pydantic|\[key\]"
    )
    assert [text for text in texts if foreign.search(text)] == []


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    changed, message = REFUSED[case]
    messages = problems(**changed)
    assert len(messages) == 1
    assert message in messages[0]


def test_a_missing_key_is_named() -> None:
    with pytest.raises(sm.SpecError) as caught:
        sm.Spec(metrics=["mrr"])
    assert caught.value.problems == ("rankings is missing",)


def test_all_problems_are_told_at_once() -> None:
    wrong = {"preset": "hous", "conventions": {"gian": "exp", "ties": "id", "gain": ["1"]}}
    messages = problems(metrics=["ndgc@10", "mrr@0", "precision"], **wrong)
    words = ["'hous'", "'gian'", "'id'", "gain 1", "'ndgc'", "'mrr@0'", "'precision'"]
    assert len(messages) == len(words)
    assert all(word in problem for word, problem in zip(words, messages, strict=True))


def test_all_wrong_shapes_are_told_at_once() -> None:
    messages = problems(metrcs=[], rankings={"columns": {"qurey": "q"}, "relation": "r"}, by=5)
    assert len(messages) == 3


def test_problems_are_numbered() -> None:
    with pytest.raises(sm.SpecError) as caught:
        spec(preset="hous", metrics=["ndgc"])
    lines = str(caught.value).splitlines()
    assert lines[0] == "the spec has 2 problems"
    assert [line[:3] for line in lines[1:]] == ["1. ", "2. "]


def test_two_metrics_cannot_share_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """No two metrics of today do; the guard is for those to come."""
    monkeypatch.setattr(Measure, "column", property(lambda measure: measure.metric.name[:1]))
    messages = problems(metrics=["recall@10", "rprec", "mrr"])
    assert messages == (
        "recall@10 and rprec would share the column r; give one of them a name, like best = rprec",
    )


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        spec().preset = "trec_eval"


# What is asked for

MEASURES = {
    "one, without a list": ({"metrics": "mrr"}, ["mrr"]),
    "each once": ({"metrics": ["mrr", "rr", "recip_rank", "mrr"]}, ["mrr"]),
    "without what holds anyway": (
        {"metrics": ["ndcg(gain=exp)@10", "ndcg(gain=linear)@10"], "preset": "trec_eval"},
        ["ndcg(gain=exp)@10", "ndcg@10"],
    ),
    "a list of populations": (
        {"metrics": ["mrr"], "conventions": {"average_over": ["labels", "hits"]}},
        ["mrr", "mrr(average_over=hits)"],
    ),
    "a list for those that take it": (
        {"metrics": ["mrr", "ndcg@5"], "conventions": {"gain": ["linear", "binary"]}},
        ["mrr", "ndcg(gain=linear)@5", "ndcg(gain=binary)@5"],
    ),
    "lists times lists": (
        {
            "metrics": ["ndcg"],
            "conventions": {"gain": ["exp", "linear"], "average_over": ["labels", "hits"]},
        },
        [
            "ndcg",
            "ndcg(average_over=hits)",
            "ndcg(gain=linear)",
            "ndcg(gain=linear, average_over=hits)",
        ],
    ),
    "a metric's own text wins over a list": (
        {"metrics": ["ndcg(gain=binary)"], "conventions": {"gain": ["exp", "linear"]}},
        ["ndcg(gain=binary)"],
    ),
    "a metric's own text wins over an option": (
        {"metrics": ["ndcg(gain=exp)", "ndcg"], "conventions": {"gain": "linear"}},
        ["ndcg(gain=exp)", "ndcg"],
    ),
    "gain tables": (
        {"metrics": ["ndcg(gain={2: 3, 1: 1})@5"], "conventions": {"gain": {1: 1.0, 2: 3}}},
        ["ndcg@5"],
    ),
    "rel where it counts": (
        {"metrics": ["ndcg(rel=2)@5", "recall(rel=2)@5"], "conventions": {"gain": "binary"}},
        ["ndcg(rel=2)@5", "recall(rel=2)@5"],
    ),
    "one text with commas": (
        {"metrics": "ndcg@10, f(beta=2, rel=1)@5,mrr"},
        ["ndcg@10", "f(beta=2)@5", "mrr"],
    ),
    "micro where there is one": (
        {"metrics": ["recall@5", "f1@5", "ndcg"], "conventions": {"average": "micro"}},
        ["recall@5", "f1@5", "ndcg"],
    ),
}


@pytest.mark.parametrize("case", MEASURES)
def test_the_metrics_of_a_spec(case: str) -> None:
    changed, expected = MEASURES[case]
    assert names(spec(**changed)) == expected


@pytest.mark.parametrize("preset", PRESETS)
def test_options_are_the_presets_unless_given(preset: str) -> None:
    options = spec(preset=preset, conventions={"missing": "error"}).options
    assert options == {name: option.choices[0].name for name, option in OPTIONS.items()} | PRESETS[
        preset
    ].options | {"missing": "error"}


TITLES = [
    ({"name": "search"}, "search"),
    ({"rankings": {"relation": "analytics.runs"}}, "analytics.runs"),
    ({"rankings": {"file": "data/new_model.v2.parquet"}}, "new_model.v2"),
    ({"rankings": {"sql": "select * from t"}}, "rankings"),
]


@pytest.mark.parametrize(("changed", "title"), TITLES)
def test_the_title_is_the_name_or_that_of_the_rankings(changed: dict[str, Any], title: str) -> None:
    assert spec(**changed).title == title


def test_a_definition_hash_is_of_all_that_decides_a_number() -> None:
    def hashes(**changed: Any) -> list[str]:
        changed_spec = spec(**changed)
        return [changed_spec.definition_hash(measure) for measure in changed_spec.measures]

    ndcg, mrr = hashes()
    assert hashes(name="other", by=["country"], rankings={"file": "r.csv"}) == [ndcg, mrr]
    assert hashes(metrics=["mrr", "ndcg(gain=exp)@10"]) == [mrr, ndcg]
    assert hashes(conventions={"gain": "linear"})[1] == mrr
    integers, decimal = ({"gain": {1: 1, 2: 3}}, {"gain": {2: 3.0, 1.0: 1}})
    assert hashes(conventions=integers) == hashes(conventions=decimal)
    assert hashes(metrics=["mrr(rel=2)"]) == hashes(metrics=["mrr(rel=2.0)"])
    other = [
        hashes(conventions={"gain": "linear"})[0],
        hashes(conventions={"missing": "drop"})[0],
        hashes(preset="trec_eval")[0],
        hashes(metrics=["ndcg@5"])[0],
        hashes(metrics=["ndcg"])[0],
    ]
    assert len({ndcg, mrr, *other}) == 7


def test_all_typos_are_told_at_once() -> None:
    """Of keys, metrics, options and the preset together; and of conditions beside columns."""
    with pytest.raises(sm.SpecError) as error:
        spec(metrics=["ndgc@3", "mrr"], preset="hause", convetions={}, conventions={"tise": "x"})
    words = ["'convetions'", "'hause'", "'tise'", "'ndgc'"]
    assert len(error.value.problems) == len(words)
    assert all(any(word in problem for problem in error.value.problems) for word in words)
    rows = "select 'q' as query_id, 'i' as item_id, 1 as "
    columns = {"columns": {"score": "scroe"}}
    wrong = spec(
        rankings={"sql": f"{rows} score", **columns},
        labels={"sql": f"{rows} grade", "where": "grde > 1"},
        by=["contry"],
    )
    with pytest.raises(sm.InputError) as failure:
        sm.validate(wrong)
    words = ["'scroe'", "'contry'", "where 'grde > 1': unknown column 'grde'"]
    assert len(failure.value.problems) == len(words)
    assert all(any(word in str(problem) for problem in failure.value.problems) for word in words)


# YAML

YAML = """
# a comment
version: 1
rankings:
  relation: analytics.rankings
  columns: {query: qid, item: sku, rank: pos, system: model, date: ds, weight: traffic}
labels: {sql: "select * from judged", columns: {query: qid, item: sku, grade: rel}}
metrics: [ndcg@10, "recall(rel=2)@100", mrr]
preset: trec_eval
conventions:
  missing: drop
  gain: {0: 0, 1: 1, 2: 3.5}
by: [country, device]
"""


def test_a_spec_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "search_quality.yml"
    path.write_text(YAML, encoding="utf-8")
    read = sm.Spec.read(path)
    assert read == sm.Spec.read(str(path))
    assert read == sm.Spec(
        name="search_quality",
        rankings={
            "relation": "analytics.rankings",
            "columns": {
                "query": "qid",
                "item": "sku",
                "rank": "pos",
                "system": "model",
                "date": "ds",
                "weight": "traffic",
            },
        },
        labels={
            "sql": "select * from judged",
            "columns": {"query": "qid", "item": "sku", "grade": "rel"},
        },
        metrics=["ndcg@10", "recall(rel=2)@100", "mrr"],
        preset="trec_eval",
        conventions={"missing": "drop", "gain": {0: 0, 1: 1, 2: 3.5}},
        by=["country", "device"],
    )


def test_a_spec_file_may_have_a_name_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_text(YAML + "name: Ünïcode 😀\n", encoding="utf-8")
    assert sm.Spec.read(path).title == "Ünïcode 😀"


FILES = [
    ("runs.csv", "{folder}/runs.csv"),
    ("data/runs-*.parquet", "{folder}/data/runs-*.parquet"),
    ("../runs.csv", "{folder}/../runs.csv"),
    ("/data/runs.csv", "/data/runs.csv"),
    ("s3://bucket/runs.parquet", "s3://bucket/runs.parquet"),
    ("https://example.org/runs.parquet", "https://example.org/runs.parquet"),
]


@pytest.mark.parametrize(("file", "meant"), FILES)
def test_paths_in_a_spec_file_start_from_its_folder(file: str, meant: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(f"rankings: {{file: '{file}'}}\nlabels: {{file: l.csv}}\nmetrics: [mrr]\n")
    assert sm.Spec.read(path).rankings.file == meant.format(folder=tmp_path)


BAD_YAML = {
    "": "must be a mapping of keys to values",
    "- mrr": "must be a mapping of keys to values",
    "mrr": "must be a mapping of keys to values",
    "a: [": "is not YAML",
    "a: *b": "is not YAML",
    "a: 1\n---\nb: 2": "is not YAML",
    "a: !!python/object/apply:os.getcwd []": "is not YAML",
    "metrics: [mrr]\nmetrics: [ap]": "the key 'metrics' appears twice",
    "rankings: {file: a, file: b}": "the key 'file' appears twice",
    "[a, b]: 1": "is not YAML",
    "\xff": "is not YAML",
    "a: 2026-13-45": "a value cannot be read: month must be in 1..12",
    "a: !!int ''": "a value cannot be read",
    "a: " + "9" * 5_000: "a value cannot be read: Exceeds the limit",
    "a: &a [*a]": "line 1, column 4 is not YAML: an alias contains itself",
    "a: " + "[" * 20_000: "more than 50 lists and mappings are nested",
    "- " * 20_000: "more than 50 lists and mappings are nested",
    "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in pairwise("abcdefghi")): (
        "it has more than 100,000 values"
    ),
    "a: &a {x: 1}\nb: &b {<<: ["
    + ", ".join(["*a"] * 400)
    + "]}\nc: {<<: ["
    + (", ".join(["*b"] * 400) + "]}"): "it has more than 100,000 values",
    "# " + "x" * 1_000_000: "is larger than 1,000,000 bytes",
}


@pytest.mark.parametrize("text", BAD_YAML, ids=range(len(BAD_YAML)))
def test_a_file_that_is_no_spec(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yml").write_bytes(text.encode("latin-1"))
    with pytest.raises(sm.SpecError, match=BAD_YAML[text]) as caught:
        sm.Spec.read("bad.yml")
    assert "'bad.yml'" in str(caught.value)
    assert len(str(caught.value)) < 1_100


@by_turns(2.4)
def test_messages_are_bounded_and_tell_what_to_do_at_their_end(tmp_path: Path) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(f"rankings: {{file: r.csv}}\nlabels: [{'x, ' * 5_000}]\nmetrics: [mrr]\n")
    with pytest.raises(sm.SpecError, match="labels must be keys and values") as caught:
        sm.Spec.read(path)
    assert len(str(caught.value)) <= 1_000
    assert "characters left out" in str(caught.value)
    names = [f"nope{'e' * 900}{number}" for number in range(200)]
    path.write_text(f"rankings: {{file: r.csv}}\nlabels: {{file: l.csv}}\nmetrics: {names}\n")
    with pytest.raises(sm.SpecError, match="unknown metric") as caught:
        sm.Spec.read(path)
    assert str(caught.value).startswith("the spec has 200 problems")
    assert str(caught.value).endswith("\n... and 193 more")
    assert len(caught.value.problems) == 200
    assert len(str(caught.value)) <= 1_000


@pytest.mark.parametrize("name", ["nope.yml", "."])
def test_a_spec_that_cannot_be_opened(name: str) -> None:
    with pytest.raises(sm.SpecError, match="cannot read the spec"):
        sm.Spec.read(name)


def test_problems_of_a_spec_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text("rankings: {fil: a}\nmetrics: [mrr]\nby: country\nwhere: x = 1\n")
    with pytest.raises(sm.SpecError) as caught:
        sm.Spec.read(path)
    assert len(caught.value.problems) == 2
    assert all(word in str(caught.value) for word in ("'fil'", "'where'"))


# SQL


def test_equal_specs_compile_to_the_same_bytes() -> None:
    first = spec(preset="trec_eval", conventions={"gain": {1: 1, 2: 3}, "missing": "drop"})
    other = sm.Spec(
        conventions={"missing": "drop", "gain": {2: 3.0, 1: 1}},
        preset="trec_eval",
        labels=sm.Spec(**SMALL).labels,
        metrics=("ndcg@10", "rr"),
        rankings=sm.Spec(**SMALL).rankings,
    )
    for per_query in (False, True):
        text = sm.compile(first, per_query=per_query)
        assert text == sm.compile(first, per_query=per_query)
        assert text == sm.compile(other, per_query=per_query)
        assert text.endswith("\n")
        assert text == "\n".join(line.rstrip() for line in text.split("\n"))


def test_the_default_dialect_is_duckdb() -> None:
    assert (
        sm.compile(spec()) == sm.compile(spec(), "duckdb") == sm.compile(spec(), dialect="duckdb")
    )


@pytest.mark.parametrize(
    ("dialect", "nearest"),
    [("duckbd", "did you mean 'duckdb'? "), ("oracle", "")],
)
def test_an_unknown_dialect_is_refused(dialect: str, nearest: str) -> None:
    with pytest.raises(sm.SpecError) as caught:
        sm.compile(spec(), dialect)
    dialects = ", ".join(sorted(DIALECTS))
    assert str(caught.value) == f"unknown dialect {dialect!r}; {nearest}known: {dialects}"


def test_data_in_memory_has_no_text() -> None:
    with pytest.raises(sm.SpecError, match="rankings: data in memory"):
        sm.compile(spec(rankings={"data": pa.table({"query_id": ["q"]})}))


@pytest.mark.parametrize("text", ["drop table t", "select 1; drop table t", "", "select 1) as x ("])
def test_a_source_must_be_one_select_also_when_it_is_compiled(text: str) -> None:
    with pytest.raises(sm.SpecError):
        sm.compile(spec(labels={"sql": text}))


def test_an_order_of_rows_cannot_be_asked_of_a_table() -> None:
    with pytest.raises(sm.SpecError, match="ties=input_order needs rows in an order"):
        sm.compile(spec(conventions={"ties": "input_order"}))
    sm.compile(spec(conventions={"ties": "input_order"}, rankings={"file": "r.parquet"}))


def test_ties_are_included_in_sets_alone() -> None:
    """Beside them metrics keep their order by id; streams have no ids to fall back on."""
    with pytest.raises(
        sm.SpecError, match=r"ties=include is only for .*cg, f, f1.*leave it out of ndcg"
    ):
        spec(metrics=["ndcg(ties=include)@3"])
    mixed = spec(metrics=["precision@3", "precision(ties=include)@3", "ndcg@3"])
    assert [str(measure) for measure in mixed.measures] == [*mixed.metrics]
    alike = spec(metrics=["precision(ties=include)@3"], conventions={"ties": "include"})
    assert [str(measure) for measure in alike.measures] == ["precision@3"]
    with pytest.raises(sm.SpecError, match="unknown ties, for items without ids, 'include'"):
        sm.StreamingMetric("precision(ties=include)@3")


SETUP = """
create table rankings as select * from (values
    ('2026-03-01', 'new', 'q1', 'a', 3.0, 'de', 2.0, 1),
    ('2026-03-01', 'new', 'q1', 'b', 2.0, 'de', 2.0, 2),
    ('2026-03-01', 'new', 'q2', 'c', 1.0, 'fr', 1.0, 1),
    ('2026-03-01', 'old', 'q1', 'b', 1.0, 'de', 2.0, 1),
    ('2026-03-02', 'old', 'q2', 'a', 1.0, 'fr', 1.0, 1),
    ('2026-03-02', 'old', 'q2', 'c', 1.0, 'fr', 1.0, 2)
) as rows(ds, model, query_id, item_id, score, country, traffic, pos);
create table labels as select * from (values
    ('q1', 'a', 1), ('q1', 'b', 3), ('q2', 'c', 2), ('q2', 'a', 0)
) as rows(query_id, item_id, grade);
"""

KEYS = {"system": "model", "date": "ds"}
ALL = ["ndcg@2", "recall(rel=2)@1", "ap", "mrr", "judged@2", "num_rel", "f1(average=micro)@2"]

SPECS = {
    "plain": {"rankings": {"relation": "rankings", "columns": KEYS}},
    "one system, by rank": {
        "rankings": {
            "sql": "select * from rankings where model = 'new'",
            "columns": {"rank": "pos"},
        },
    },
    "segments and weights": {
        "rankings": {"relation": "rankings", "columns": KEYS | {"weight": "traffic"}},
        "by": ["country"],
        "metrics": ALL[:5],
    },
    "other conventions": {
        "rankings": {"relation": "rankings", "columns": KEYS},
        "preset": "trec_eval_9",
        "conventions": {"average_over": ["labels", "hits", "rankings"]},
        "metrics": ALL[:5],
    },
    "repeated rows": {
        "rankings": {"sql": "from rankings union all from rankings", "columns": KEYS},
        "labels": {"sql": "from labels union all from labels"},
        "conventions": {"duplicate_rankings": "best_score", "duplicate_labels": "max_grade"},
    },
    "a name to quote": {"rankings": {"relation": "rankings", "columns": KEYS}, "name": "it's;\n--"},
}


@pytest.mark.parametrize("case", SPECS)
def test_compiled_sql_gives_the_numbers_of_evaluate(case: str) -> None:
    """In a plain DuckDB, as one query, and with nothing of ours around it."""
    case_spec = spec(**{"metrics": ALL} | SPECS[case])
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        before = connection.execute("from duckdb_tables()").fetchall()
        summary = connection.sql(sm.compile(case_spec)).to_arrow_table().to_pylist()
        per_query = (
            connection.sql(sm.compile(case_spec, per_query=True)).to_arrow_table().to_pylist()
        )
        result = evaluated(case_spec, connection)
        assert connection.execute("from duckdb_tables()").fetchall() == before
    expected = [
        {name: value for name, value in row.items() if name != "definition_hash"}
        for row in result.to_dicts()
    ]
    assert in_order(summary) == in_order(expected)
    assert in_order(per_query) == in_order(result.per_query().to_pylist())
    assert case_spec.title in {row["spec"] for row in summary}


def evaluated(spec: sm.Spec, connection: duckdb.DuckDBPyConnection) -> Result:
    """What `evaluate` gives for the question of a spec."""
    from sqlmetrics.engines.database import connect
    from sqlmetrics.evaluation.execution import run
    from sqlmetrics.evaluation.inputs.open import opened

    with connect(connection) as engine:
        return run(spec, opened(spec, engine), engine)


def in_order(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """The rows sorted, their numbers rounded to what two orders of adding may differ by."""
    rounded = [
        [round(value, 12) if isinstance(value, float) else value for value in row.values()]
        for row in rows
    ]
    return sorted(rounded, key=str)


def test_the_script_of_a_result_runs_by_itself() -> None:
    """`result.sql` is what ran, statement by statement."""
    with duckdb.connect() as connection:
        connection.execute(SETUP)
        keys = {"system": "model", "date": "ds"}
        result = sm.evaluate("rankings", "labels", ALL, connection=connection, **keys)
        statements = connection.extract_statements(result.executed_sql)
        counts = []
        for statement in statements:
            rows = connection.execute(statement)
            counts.append(len(rows.fetchall()) if rows.description else 0)
        tables = connection.execute("select table_name from duckdb_tables()").fetchall()
    assert result.summary().num_rows in counts
    assert result.per_query().num_rows in counts
    assert sorted(tables) == [("labels",), ("rankings",)]


def test_the_text_of_a_click_log_has_no_per_query_table_and_no_plan() -> None:
    log = {"log": {"relation": "log", "columns": {"query": "query_text", "clicked": "clicked"}}}
    log_spec = sm.Spec(name="log", clicks=log, metrics=["mrr"])
    assert sm.compile(log_spec, "postgres").startswith("-- PostgreSQL: ")
    for options, option in (({"per_query": True}, "--per-query"), ({"plan": "lists"}, "--plan")):
        with pytest.raises(sm.SpecError, match=f"without {option}"):
            sm.compile(log_spec, **options)


def test_a_parameter_needs_the_choice_that_reads_it() -> None:
    """And decides a definition there alone."""
    assert spec(metrics=["dcg(discount=geometric, p=0.6)@3"])
    assert spec(metrics=["dcg(p=0.6)@3"], conventions={"discount": "geometric"})
    with pytest.raises(sm.SpecError, match="p needs discount=geometric"):
        spec(metrics=["dcg(p=0.6)@3"])
    dcg_spec = spec(metrics=["dcg@3", "dcg(discount=geometric)@3"])
    assert ["p" in dcg_spec.definition(measure) for measure in dcg_spec.measures] == [False, True]


@pytest.mark.parametrize("policy", ["first", "count"])
def test_repeats_that_count_are_for_metrics_of_grades(policy: str) -> None:
    """An item beside itself has no similarity, and a pair of it no order."""
    fields: dict[str, Any] = {
        "rankings": RANKINGS | {"columns": {"system": "system"}},
        "labels": LABELS,
        "baseline": "a",
        "conventions": {"duplicate_rankings": policy},
    }
    assert sm.Spec(metrics=["ndcg@3", "bpref", "err@3"], **fields)
    for metric in ("gauc", "ils@3", "rbo", "coverage@3", "auc"):
        with pytest.raises(sm.SpecError, match=f"needs each item once.*instead of {policy}"):
            sm.Spec(metrics=[metric], **fields)
    if policy == "first":
        with pytest.raises(sm.SpecError, match="needs one order of ties"):
            sm.Spec(metrics=["ndcg(ties=average)@3"], **fields)


def test_definitions_of_tables_that_are_there_stay() -> None:
    """An option that comes later leaves a hash as it was: else their next run would be refused."""
    hashes = {
        "ndcg@10": "c30d91b197b86937",
        "err@10": "9976c58ccea4189f",
        "ap": "e5864ac58ddbf36d",
        "recall@5": "160e52a6a860b2c6",
        "mrr": "5ae84ef39adfc467",
        "rbp": "4837f5934e2fd115",
        "judged@3": "6b23640be5988def",
    }
    spec = sm.Spec(rankings={"relation": "r"}, labels={"relation": "l"}, metrics=list(hashes))
    assert {str(measure): spec.definition_hash(measure) for measure in spec.measures} == hashes
