"""`explain`: every metric and option, at 80 columns, with numbers that are what the SQL gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from command import sqlmetrics
from marked import by_turns, first, sliced
from memory import database, evaluate

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS, resolve
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.metric import Metric, catalog, is_column_role, label_column, listed
from sqlmetrics.catalog.online import ONLINE, online
from sqlmetrics.catalog.option import Option
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import connect
from sqlmetrics.proof.explain.example import (
    LIST,
    NOT_RETRIEVED,
    items,
    label_rows,
    needed_fields,
    rankings,
)
from sqlmetrics.proof.explain.explain import (
    Agreeing,
    OptionExample,
    agreeing,
    explain_name,
    sql_of,
    tried,
)
from sqlmetrics.proof.explain.online import COLUMNS, LOG, log_tables, online_spec
from sqlmetrics.proof.explain.worked_example import WorkedExample, number, worked
from sqlmetrics.proof.reference_online import online_parts

pytestmark = by_turns(0.25)

OF_TWO = ("rbo_ties", "rbo_bound")
"""Options whose metrics compare two systems: the log of an option has one."""

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
    return [
        m.name
        + (f"(column={m.operands[0]!r})" if m.operand else "")
        + ("@3" if m.cutoff == "required" else "")
        for m in catalog().values()
    ]


@pytest.fixture(autouse=True)
def _one_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples are worked out in the database of this process, and choices tried once."""
    monkeypatch.setattr(
        "sqlmetrics.proof.explain.worked_example.connect", lambda: connect(database())
    )
    monkeypatch.setattr("sqlmetrics.proof.explain.explain.evaluate", evaluate)
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
    for name, step in example.steps:
        arithmetic, equal, result = step.rpartition(" = ")
        is_sum = equal and re.fullmatch(r"[\d.e+*/() -]+", arithmetic) and result != "undefined"
        if is_sum and eval(arithmetic) != pytest.approx(float(result), abs=2e-3):
            wrong.append(f"{name}: {step}")
    return wrong


def described(table: pa.Table, column_by_role: Mapping[str, str]) -> pa.Table:
    """A table as its stage has it: columns that a metric reads are called by their roles."""
    for role, name in column_by_role.items():
        kind = "string" if role.startswith("text_") else "double"
        column = table[role.removeprefix("label_").partition("_")[2]]
        table = table.append_column(name, column if "age_" in role else column.cast(kind))
    return table


def assert_the_sql_is_the_compiler_s_and_runs(text: str, example: WorkedExample) -> None:
    measure = parse(text)
    sql = sql_of(measure)
    tables = {"rankings": {"relation": "my_rankings"}, "labels": {"relation": "my_labels"}}
    spec = sm.Spec(**tables | needed_fields(measure), name="rankings", metrics=[text])
    pooled = measure.metric.pooled
    compiled = sm.compile(spec, per_query=not pooled)
    assert compiled.endswith(sql.removeprefix("with") + "\n")
    if "{" in text:  # with a gain table the example has the table's grades
        return
    graded = {item: grade for item, grade in {**LIST, **NOT_RETRIEVED}.items() if grade is not None}
    roles: dict[str, list[str]] = {"items": [], "labels": []}
    for need in spec.needed:
        table, _, role = need.partition(".")
        if table in roles and is_column_role(role):
            roles[table].append(role)
    label_table = label_rows(graded, roles["labels"], groups="labels.group" in spec.needed)
    held = {
        "rankings": rankings(systems="baseline" in spec.needed),
        "items": described(items(roles["items"]), {role: role for role in roles["items"]}),
        "labels": described(label_table, {role: label_column(role) for role in roles["labels"]}),
    }
    connection = database().cursor()
    for name, rows in held.items():
        connection.register(name, rows)
    rows = connection.sql(sql).to_arrow_table().to_pylist()
    for name in held:
        connection.unregister(name)
    (row,) = (row for row in rows if row["system"] != "prod")
    value = row["value"] if pooled else [*row.values()][-1]
    proof = example.value
    assert value == (proof and pytest.approx(proof, rel=1e-12, nan_ok=True))


@pytest.mark.parametrize("preset", PRESETS)
def test_what_the_inputs_decide_is_shown(preset: str) -> None:
    """Stages of the input are left out only if they do nothing but give names and types."""
    sql = sql_of(parse("mrr"), preset)
    house = sql_of(parse("mrr"), "house")
    by_rank = {"rank": "rank"} if resolve(preset, {})["ties"] == "input_order" else {}
    rankings = {"relation": "my_rankings", "columns": by_rank}
    spec = {"rankings": rankings, "labels": {"relation": "my_labels"}}
    compiled = sm.compile(sm.Spec(**spec, metrics=["mrr"], preset=preset), per_query=True)
    inputs, plain = (text.partition("\nranked as")[0] for text in (compiled, house))
    as_plain = "cast(score as double) as score" in inputs
    assert as_plain == ("from my_rankings" not in sql)
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
    assert too_wide(explain_name(name)) == []


def too_wide(text: str) -> list[str]:
    """The lines that are longer than 80, or have spaces at their end."""
    wide = [line for line in prose(text) if len(line) > 80]
    return wide + [line for line in text.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize(
    "metric", sliced("told", 0.4, listed(), attrgetter("name")), ids=lambda metric: metric.name
)
def test_a_metric_is_told_whole(metric: Metric) -> None:
    page = explain_name(metric.name)
    assert too_wide(page) == []
    unwrapped = " ".join(page.split())
    for text in (metric.title, metric.formula, metric.range, metric.empty, metric.source):
        assert text in unwrapped
    assert all(alias in unwrapped for alias in metric.aliases)
    for name in (name for name in metric.settings if name in OPTIONS):
        for choice in OPTIONS[name].choices:
            has = metric.micro or (name, choice.name) != ("average", "micro")
            assert (f"{choice.name} {choice.meaning}" in unwrapped) == has


@pytest.mark.long
def test_the_star_is_at_what_holds() -> None:
    assert "* exp" in explain_name("ndcg@3")
    assert "* linear" in explain_name("ndcg@3", "trec_eval")
    assert "* binary" in explain_name("ndcg(gain=binary)@3", "trec_eval")
    assert "* table" in explain_name("ndcg(gain={1: 2})@3")
    assert "* id_desc" in explain_name("ties", "trec_eval")


@by_turns(3)
@pytest.mark.parametrize("preset", first(1, ["house", "trec_eval_9", "lenskit", "sklearn"]))
@pytest.mark.parametrize(
    "name",
    sliced("option", 0.15, [n for n, o in OPTIONS.items() if not o.of_days and n not in OF_TWO]),
)
def test_the_choices_of_an_option_differ(name: str, preset: str) -> None:
    """By the house all of them do; what another preset leaves out cannot tell two apart."""
    rows = dict(tried_once(OPTIONS[name], preset).rows)
    assert len(rows) == len(OPTIONS[name].choices)
    if name == "ideal":  # in other words, as its meaning says
        assert rows.pop("min_k_r") == rows["labels_at_k"] or preset != "house"
    if name == "score_precision":  # the log's scores are doubles as they are
        assert rows.pop("exact") == rows["double"]
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
    assert "left out of the mean" in explain_name("recall(rel=9)@5")
    counted = worked(parse("recall(rel=9)@5"), "trec_eval")
    assert counted.value == 0
    assert "no_relevant=zero" in counted.remark
    assert "average_over=hits" in worked(parse("mrr(rel=9, average_over=hits)"), "house").remark


def test_a_name_alone_takes_a_cutoff_where_it_needs_one() -> None:
    assert explain_name("P").startswith("precision@5: Precision")
    assert explain_name("recall(rel=2)").startswith("recall(rel=2)@5: ")
    assert explain_name("ndcg").startswith("ndcg: ")
    assert explain_name(" MISSING ").startswith("missing: ")


@pytest.mark.parametrize(
    ("name", "message"),
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
        ("ndcg(rel=2)", "rel does not change the gains"),
        ("", "cannot be read"),
    ],
)
def test_wrong_names(name: str, message: str) -> None:
    with pytest.raises(sm.SpecError, match=re.escape(message)):
        explain_name(name)


@pytest.mark.long
def test_on_the_command_line(tmp_path: Path) -> None:
    out = sqlmetrics("explain", "ndcg@3", "--preset", "trec_eval", folder=tmp_path).stdout
    assert out == explain_name("ndcg@3", "trec_eval") + "\n"
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
    groups = [group for group in agreeing(parse("ndcg@3")) if isinstance(group, Agreeing)]
    means = {preset: group.mean for group in groups for preset in group.presets}
    assert means.keys() == PRESETS.keys()
    assert {preset: round(means[preset] or 0, 4) for preset in MEANS} == MEANS
    assert ("trec_eval", "ir_measures") in [group.presets for group in groups]
    text = explain_name("ndcg@3", "ranx")
    assert too_wide(text) == []
    assert "0.3506        5" in text
    assert "1   0.7985  1.0000  0.3869       -  0.0000       -" in text
    assert "trec_eval, ir_measures" in text


@by_turns(0.8)
def test_a_metric_that_does_not_fit_a_preset_says_why() -> None:
    text = explain_name("ndcg(ideal=hits)@3", "comirec").split("under each preset")[1]
    assert "house          refused: ndcg(ideal=hits)@3: ideal=hits needs gain=binary" in text


def test_a_preset_is_explained() -> None:
    """Its note, every setting with its meaning, and how to go on; at 80 columns."""
    for name, preset in PRESETS.items():
        text = explain_name(name)
        assert text.startswith(f"{name}: {preset.note}\n")
        assert all(f"{option}={value}" in text for option, value in preset.options.items())
        assert max(map(len, text.splitlines()[1:])) <= 80
        assert re.search(rf"sqlmetrics explain \S+ --preset {name}$", text)
    assert "no_relevant=zero, for ap alone\n" in explain_name("CatBoost")


# -- online metrics -------------------------------------------------------------------

BY_HAND = {
    "ctr": (4, 12),
    "ctr@1": (1, 4),
    "abandonment": (1, 4),
    "zero_result_rate": (1, 5),
    "first_click_rank": (5, 3),
    "last_click_rank": (7, 3),
    "max_rr": (2, 3),
    "min_rr": (1.75, 3),
    "p_skip": (3, 7),
    "time_to_first_click": (2408, 3),
    "long_click_rate": (2, 4),
    "purchases": (1, 5),
    "conversion_rate": (1, 5),
    "first_purchase_rank": (4, 1),
    "revenue_per_request": (19, 5),
    "average_order_value": (19, 1),
    "searches_per_session": (5, 3),
    "session_success": (2, 3),
    "time_to_success": (2408, 3),
    "reformulation_rate": (1, 5),
    "reformulation_rate(minutes=2)": (0, 5),
    "search_exit_rate": (1, 3),
    "action_rate(click)": (3, 5),
    "action_rate(purchase)": (1, 5),
    "mean_amount(purchase)": (19, 1),
}
"""Online metric -> its sums over the log of the example."""

CHANGED_BY_HAND = {
    ("ctr", "cleaning: {min_dwell: 5s}"): "3 12 0.2500",
    ("ctr", "cleaning: {attribution_window: 30m}"): "3 12 0.2500",
    ("ctr", "cleaning: {unseen: 0}"): "4 10 0.4000",
    ("abandonment", "cleaning: {attribution_window: 30m}"): "2 4 0.5000",
    ("first_click_rank", "cleaning: {min_dwell: 5s}"): "7 3 2.3333",
    ("p_skip", "cleaning: {min_dwell: 5s}"): "4 7 0.5714",
    ("long_click_rate", "cleaning: {min_dwell: 5s}"): "2 3 0.6667",
    ("purchases", "requests: none"): "1 4 0.2500",
    ("session_success", "success_actions: [purchase]"): "1 3 0.3333",
    ("action_rate(purchase)", "requests: none"): "1 4 0.2500",
    ("time_to_success", "success_actions: [purchase]"): "60 1 60.0000",
    ("reformulation_rate", "requests: none"): "0 4 0.0000",
    ("search_exit_rate", "success_actions: [purchase]"): "2 3 0.6667",
    ("search_exit_rate", "cleaning: {attribution_window: 30m}"): "2 3 0.6667",
    ("time_to_first_click", "cleaning: {attribution_window: 30m}"): "8 2 4.0000",
}
"""Online metric, other keys of clicks -> the sums and the value then."""


def test_every_online_metric_has_sums_by_hand() -> None:
    assert {online(text).metric.name for text in BY_HAND} == {*ONLINE}
    for text, sums in BY_HAND.items():
        measure = online(text)
        name = measure.metric.name
        parts = online_parts(name, LOG, measure.k, measure.action, measure.minutes)
        assert tuple(map(sum, zip(*parts, strict=True))) == sums


@by_turns(1)
@pytest.mark.parametrize("text", sliced("online", 0.15, BY_HAND))
def test_an_online_metric_is_worked_out(text: str) -> None:
    """By hand, by the reference, by `evaluate_clicks`, and by the statements of `compile`."""
    explanation = sm.explain(text)
    assert too_wide(explanation) == []
    top, bottom = BY_HAND[text]
    assert re.search(rf"^{re.escape(text)} +.* = {number(top / bottom)}$", explanation, re.M)
    assert (
        f"reference         {top / bottom:.12g}\nSQL on DuckDB     {top / bottom:.12g}, "
        in explanation
    )
    measure = online(text)
    assert all(
        f in " ".join(explanation.split()) for f in (measure.metric.title, measure.metric.range)
    )
    spec = online_spec(measure, tables={name: {"relation": f"my_{name}"} for name in COLUMNS})
    *first, last = sm.compile(spec).split(";\n\n")
    last = last.strip().removesuffix(";")
    assert last in explanation
    connection = duckdb.connect()
    for name, source in log_tables().items():
        connection.register(f"my_{name}", source["data"])
    for statement in first:
        connection.execute(statement)
    (row,) = connection.sql(last).to_arrow_table().to_pylist()
    assert [row[f"{measure.column}_{name}"] for name in ("numerator", "denominator")] == [
        pytest.approx(top, rel=1e-12),
        bottom,
    ]


@by_turns(1)
@pytest.mark.parametrize("changed", sliced("keys", 0.15, CHANGED_BY_HAND), ids=" ".join)
def test_what_else_an_online_metric_depends_on_is_shown(changed: tuple[str, str]) -> None:
    text, key = changed
    explanation = " ".join(sm.explain(text).split())
    assert f"{key} {CHANGED_BY_HAND[changed]} " in f"{explanation} "


def test_a_preset_changes_no_online_metric() -> None:
    assert "presets     xgboost changes nothing here: " in sm.explain("p_skip", "xgboost")
    with pytest.raises(sm.SpecError, match="unknown preset 'xgbost'; did you mean 'xgboost'"):
        sm.explain("ctr", "xgbost")
    with pytest.raises(sm.SpecError, match="does not take this cutoff"):
        sm.explain("p_skip@3")
