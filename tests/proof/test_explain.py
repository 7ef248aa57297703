"""`explain`: every metric and option, at 80 columns, with numbers that are what the SQL gives."""

from __future__ import annotations

import re
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest
from command import sqlmetrics
from marked import by_turns, first, sliced
from memory import database, evaluate

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS, resolve
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.metric import Metric, catalog, listed
from sqlmetrics.catalog.option import Option
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import connect
from sqlmetrics.proof.explain.choices import OptionExample, tried
from sqlmetrics.proof.explain.example import (
    LIST,
    NOT_RETRIEVED,
    items,
    label_rows,
    needed,
    rankings,
)
from sqlmetrics.proof.explain.explain import explain, sql_of
from sqlmetrics.proof.explain.presets import Agreeing, agreeing
from sqlmetrics.proof.explain.worked_example import WorkedExample, worked

pytestmark = by_turns(0.25)

SETTINGS = [
    "ndcg(gain=linear, ideal=shown_at_k)@3",
    "ndcg(gain={1: 1, 2: 3, 3: 7})@5",
    "ndcg(gain={5: 1})@5",
    "ndcg(gain=binary, rel=2)@4",
    "ndcg(discount=log2_max2, ideal=labels)@2",
    "idcg(ideal=shown_at_k, gain=linear)@100",
    "dcg(discount=ln)@1",
    "recall(rel=2, average=micro)@50",
    "recall(rel=9)@3",
    "recall(rel=9, no_relevant=one)@3",
    "recall(rel=9, no_relevant=nan)@3",
    "mrr(rel=9, average_over=hits)",
    "nDCG(dcg='exp-log2')@10",
    "ndcg_cut_10",
    "P.5",
    "map",
]


def all_texts() -> list[str]:
    """A text of every metric of the catalogue, and some with settings."""
    return [f"{m.name}@3" if m.cutoff == "required" else m.name for m in catalog().values()]


@pytest.fixture(autouse=True)
def _one_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples are worked out in the database of this process, and choices tried once."""
    monkeypatch.setattr(
        "sqlmetrics.proof.explain.worked_example.connect", lambda: connect(database())
    )
    monkeypatch.setattr("sqlmetrics.proof.explain.choices.evaluate", evaluate)
    monkeypatch.setattr("sqlmetrics.proof.explain.explain.tried", tried_once)


@cache
def tried_once(option: Option, preset: str) -> OptionExample:
    """The choices of an option on the log."""
    return tried(option, preset)


@pytest.mark.parametrize(
    "preset", first(1, ["house", "trec_eval_9", "torchmetrics", "lenskit", "rre"])
)
@pytest.mark.parametrize("text", sliced("worked", 0.5, all_texts() + SETTINGS))
def test_the_reference_the_sql_and_the_arithmetic_agree(text: str, preset: str) -> None:
    """The numbers shown, put together as shown, are the value shown, and the SQL's."""
    try:
        example = worked(parse(text), preset)
    except sm.SpecError:
        assert preset != "house"
        return
    assert example.difference <= 1e-12
    if preset == "house":
        assert the_arithmetic_is_right(example) == []
        assert_the_sql_is_the_compiler_s_and_runs(text, example)


def the_arithmetic_is_right(example: WorkedExample) -> list[str]:
    """The steps that do not come to what they say."""
    wrong = []
    for name, how in example.steps:
        arithmetic, equal, shown = how.rpartition(" = ")
        is_sum = equal and re.fullmatch(r"[\d.e+*/() -]+", arithmetic) and shown != "undefined"
        if is_sum and eval(arithmetic) != pytest.approx(float(shown), abs=2e-3):
            wrong.append(f"{name}: {how}")
    return wrong


def assert_the_sql_is_the_compiler_s_and_runs(text: str, example: WorkedExample) -> None:
    measure = parse(text)
    shown = sql_of(measure)
    tables = {"rankings": {"relation": "my_rankings"}, "labels": {"relation": "my_labels"}}
    spec = sm.Spec(**tables | needed(measure), name="rankings", metrics=[text])
    pooled = measure.metric.pooled
    compiled = sm.compile(spec, per_query=not pooled)
    assert compiled.endswith(shown.removeprefix("with") + "\n")
    if "{" in text:  # with a gain table the example has the table's grades
        return
    graded = {item: grade for item, grade in {**LIST, **NOT_RETRIEVED}.items() if grade is not None}
    held = {
        "rankings": rankings(systems="baseline" in spec.needed),
        "items": items(),
        "labels": label_rows(graded, groups="labels.group" in spec.needed),
    }
    connection = database().cursor()
    for name, rows in held.items():
        connection.register(name, rows)
    rows = connection.sql(shown).to_arrow_table().to_pylist()
    for name in held:
        connection.unregister(name)
    (row,) = (row for row in rows if row["system"] != "prod")
    value = row["value"] if pooled else [*row.values()][-1]
    proof = example.value
    assert value == (proof and pytest.approx(proof, rel=1e-12, nan_ok=True))


@pytest.mark.parametrize("preset", PRESETS)
def test_what_the_inputs_decide_is_shown(preset: str) -> None:
    """Stages of the input are left out only if they do nothing but give names and types."""
    shown = sql_of(parse("mrr"), preset)
    house = sql_of(parse("mrr"), "house")
    by_rank = {"rank": "rank"} if resolve(preset, {})["ties"] == "input_order" else {}
    rankings = {"relation": "my_rankings", "columns": by_rank}
    spec = {"rankings": rankings, "labels": {"relation": "my_labels"}}
    compiled = sm.compile(sm.Spec(**spec, metrics=["mrr"], preset=preset), per_query=True)
    inputs, plain = (text.partition("\nranked as")[0] for text in (compiled, house))
    as_plain = "cast(score as double) as score" in inputs
    assert as_plain == ("from my_rankings" not in shown)
    assert "from my_rankings" not in plain


def prose(text: str) -> list[str]:
    """The lines that are not SQL: SQL is as wide as the compiler prints it."""
    before, _, after = text.partition("SQL, one row per ")
    return (before + after.partition("\nExample: ")[2]).splitlines()


@by_turns(3)
@pytest.mark.parametrize(
    "name", [*sliced("option", 0.15, OPTIONS), *sliced("columns", 0.15, SETTINGS)]
)
def test_all_fits_80_columns(name: str) -> None:
    assert too_wide(explain(name)) == []


def too_wide(told: str) -> list[str]:
    """The lines that are longer than 80, or have spaces at their end."""
    wide = [line for line in prose(told) if len(line) > 80]
    return wide + [line for line in told.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize(
    "metric", sliced("told", 0.4, listed(), attrgetter("name")), ids=lambda metric: metric.name
)
def test_a_metric_is_told_whole(metric: Metric) -> None:
    shown = explain(metric.name)
    assert too_wide(shown) == []
    told = " ".join(shown.split())
    for text in (metric.title, metric.formula, metric.range, metric.empty, metric.source):
        assert text in told
    assert all(alias in told for alias in metric.aliases)
    for name in (name for name in metric.settings if name in OPTIONS):
        for choice in OPTIONS[name].choices:
            has = metric.micro or (name, choice.name) != ("average", "micro")
            assert (f"{choice.name} {choice.meaning}" in told) == has


@pytest.mark.long
def test_the_star_is_at_what_holds() -> None:
    assert "* exp" in explain("ndcg@3")
    assert "* linear" in explain("ndcg@3", "trec_eval")
    assert "* binary" in explain("ndcg(gain=binary)@3", "trec_eval")
    assert "* table" in explain("ndcg(gain={1: 2})@3")
    assert "* id_desc" in explain("ties", "trec_eval")


@by_turns(3)
@pytest.mark.parametrize("preset", first(1, ["house", "trec_eval_9", "lenskit", "sklearn"]))
@pytest.mark.parametrize(
    "name", sliced("option", 0.15, [n for n, o in OPTIONS.items() if not o.of_days])
)
def test_the_choices_of_an_option_differ(name: str, preset: str) -> None:
    """By the house all of them do; what another preset leaves out cannot tell two apart."""
    rows = dict(tried_once(OPTIONS[name], preset).rows)
    assert len(rows) == len(OPTIONS[name].choices)
    if name == "ideal":  # in other words, as its meaning says
        assert rows.pop("min_k_r") == rows["labels_at_k"] or preset != "house"
    assert len(set(rows.values())) == len(rows) or preset != "house"
    refused = {value for value, row in rows.items() if isinstance(row, str)}
    assert refused == {"error"} & set(rows) or preset != "house"


def test_worked_by_hand() -> None:
    """Two relevant items in the top 5, at ranks 2 and 4, of four."""
    example = worked(parse("recall@5"), "house")
    assert example.columns == ("rank", "item", "grade", "relevant", "num_rel_ret")
    assert example.rows[1] == ("2", "b", "2", "yes", "1")
    assert example.rows[5] == ("6", "f", "1", "", "")
    assert example.rows[6] == ("-", "g", "2", "", "")
    assert example.steps == (
        ("num_rel_ret@5", "0 + 1 + 0 + 1 + 0 = 2"),
        ("num_rel", "4"),
        ("recall@5", "2 / 4 = 0.5000"),
    )
    assert (example.value, example.sql_value) == (0.5, 0.5)


def test_an_undefined_value_says_what_becomes_of_it() -> None:
    skipped = worked(parse("recall(rel=9)@5"), "house")
    assert skipped.value is None
    assert "no_relevant=skip" in skipped.remark
    assert "left out of the mean" in explain("recall(rel=9)@5")
    counted = worked(parse("recall(rel=9)@5"), "trec_eval")
    assert counted.value == 0
    assert "no_relevant=zero" in counted.remark
    assert "average_over=hits" in worked(parse("mrr(rel=9, average_over=hits)"), "house").remark


def test_a_name_alone_takes_a_cutoff_where_it_needs_one() -> None:
    assert explain("P").startswith("precision@5: Precision")
    assert explain("recall(rel=2)").startswith("recall(rel=2)@5: ")
    assert explain("ndcg").startswith("ndcg: ")
    assert explain(" MISSING ").startswith("missing: ")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "ndgc",
            "unknown metric, option or preset 'ndgc'; did you mean 'ndcg'? known: abandonment, ",
        ),
        ("ndgc@10", "did you mean 'ndcg'?"),
        ("tie", "did you mean 'ties'?"),
        ("discont", "did you mean 'discount'?"),
        ("ndcg(gian=linear)", "unknown setting 'gian'; did you mean 'gain'?"),
        ("P@0", "the cutoff must be a whole number"),
        ("num_q@3", "num_q takes no cutoff"),
        ("ndcg(rel=2)", "rel does not touch the gains"),
        ("", "cannot be read"),
    ],
)
def test_wrong_names(name: str, said: str) -> None:
    with pytest.raises(sm.SpecError, match=re.escape(said)):
        explain(name)


@pytest.mark.long
def test_on_the_command_line(tmp_path: Path) -> None:
    out = sqlmetrics("explain", "ndcg@3", "--preset", "trec_eval", folder=tmp_path).stdout
    assert out == explain("ndcg@3", "trec_eval") + "\n"
    wrong = sqlmetrics("explain", "ndcg@3", "--preset", "trek_eval", folder=tmp_path, expect=2)
    assert "did you mean 'trec_eval'?" in wrong.stderr
    assert wrong.stdout == ""


# The means of NDCG@3 that the tools print for the toy data; those of other tools in
# tests/cases/presets.toml need the data without grades of 0.
MEANS = {
    "trec_eval": 0.3244,
    "trec_eval_9": 0.4055,
    "ranx": 0.3506,
    "recommenders": 0.4304,
    "replay": 0.3977,
    "torchmetrics": 0.4152,
    "evidently": 0.6656,
}


@pytest.mark.long
def test_the_toy_data_under_every_preset() -> None:
    groups = [one for one in agreeing(parse("ndcg@3")) if isinstance(one, Agreeing)]
    means = {preset: group.mean for group in groups for preset in group.presets}
    assert means.keys() == PRESETS.keys()
    assert {preset: round(means[preset] or 0, 4) for preset in MEANS} == MEANS
    assert ("trec_eval", "ir_measures") in [group.presets for group in groups]
    told = explain("ndcg@3", "ranx")
    assert too_wide(told) == []
    assert "0.3506        5" in told
    assert "1   0.7985  1.0000  0.3869       -  0.0000       -" in told
    assert "trec_eval, ir_measures" in told


@by_turns(0.8)
def test_a_metric_that_does_not_fit_a_preset_says_why() -> None:
    told = explain("ndcg(ideal=hits)@3", "comirec").split("under every preset")[1]
    assert "house          refused: ndcg(ideal=hits)@3: ideal=hits needs gain=binary" in told


def test_a_preset_is_explained() -> None:
    """Its note, every setting with its meaning, and how to go on; at 80 columns."""
    for name, preset in PRESETS.items():
        text = explain(name)
        assert text.startswith(f"{name}: {preset.note}\n")
        assert all(f"{option}={value}" in text for option, value in preset.options.items())
        assert max(map(len, text.splitlines()[1:])) <= 80
        assert re.search(rf"sqlmetrics explain \S+ --preset {name}$", text)
    assert "no_relevant=zero, for ap alone\n" in explain("CatBoost")
