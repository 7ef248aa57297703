"""The catalogue of metrics and options: complete, proven, and readable in every spelling."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hand_cases import ANSWERED, CASES, Case
from hypothesis import example, given
from hypothesis import strategies as st
from memory import evaluate
from metric_ranges import RANGES
from worlds import metric_texts

import sqlmetrics as sm
from sqlmetrics.catalog import keywords
from sqlmetrics.catalog import metric as metric_module
from sqlmetrics.catalog.conventions import OPTIONS, problems_of, resolve
from sqlmetrics.catalog.keywords import Conventions
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.metric import Metric, catalog, spellings
from sqlmetrics.catalog.option import Option
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.evaluation.question import NAMED, OTHER_ARGUMENTS, question
from sqlmetrics.plan.expressions import WHOLE_LIST
from sqlmetrics.plan.needs import SUMS
from sqlmetrics.proof import reference

METRICS = list(catalog().values())
OPTION_CHOICES = [
    (option.name, choice.name) for option in OPTIONS.values() for choice in option.choices
]

# -- every metric is described and proven -----------------------------------------------


def test_the_header_says_what_a_metric_is() -> None:
    keys = ("title", "formula", "range", "empty", "source")
    assert [(m.name, key) for m in METRICS for key in keys if not getattr(m, key).strip()] == []


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_header_has_values_that_mean_something(metric: Metric) -> None:
    assert metric.range in RANGES
    assert metric.cutoff in ("required", "optional", "none")
    pooled = ("pooled_scores", "pooled_items")
    assert metric.over in (*SUMS, *pooled, "query")
    assert metric.pooled == (metric.over in pooled) == ("rows" in metric.parts)
    assert metric.limits.keys() <= metric.parameters.keys()
    assert metric.undefined in ("never", "zero", "no_relevant", "skip")
    assert {*metric.options} <= {*OPTIONS}
    assert not metric.micro or metric.ratio


def test_a_template_is_read_when_its_metric_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    read_metric = metric_module._read
    monkeypatch.setattr(
        metric_module,
        "_read",
        lambda *arguments: names.append(arguments[0]) or read_metric(*arguments),
    )
    fresh = catalog.__wrapped__()
    assert fresh["mrr"] == fresh["mrr"] == catalog()["mrr"]
    assert list(fresh) == list(catalog())
    assert names == ["mrr"]


@pytest.mark.parametrize("name", ["ndcg", "recall", "precision", "f1", "ap", "rprec", "judged"])
def test_a_share_says_that_it_is_never_above_1(name: str) -> None:
    assert catalog()[name].range == "0 to 1"


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_reference_has_the_metric(metric: Metric) -> None:
    function: Callable[..., object] = getattr(reference, metric.name)
    inputs = {"grades", "labels", "items", "other", "catalogue", "rows", "lists", "groups"}
    inputs |= {"in_pool", "graded", "own_ties", "other_ties", "return"}
    takes = {*metric.parameters, *metric.options} | ({"k"} if metric.cutoff != "none" else set())
    if metric.listed:  # a part may hand on what it is given
        assert {*function.__annotations__} - inputs == takes
    assert function.__doc__


def test_every_metric_has_a_case() -> None:
    computed = {parse(text).metric for case in ANSWERED for text in case.expect}
    assert [metric.name for metric in METRICS if metric not in computed] == []


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_parts_are_sums_of_their_own(metric: Metric) -> None:
    overs = {catalog()[part.removesuffix(WHOLE_LIST)].over for part in metric.parts.values()}
    assert "query" not in overs or metric.name in ("ndcg", "idcg")
    constant = metric.name in ("num_q", "every_rank_dcg")
    assert bool(metric.parts) or metric.over != "query" or constant


def test_the_spellings_belong_to_one_metric_each() -> None:
    spelled = [alias.casefold() for metric in METRICS for alias in (metric.name, *metric.aliases)]
    assert sorted(set(spelled)) == sorted(spelled)
    assert len(spellings()) == len(spelled)


# -- every option is proven ---------------------------------------------------------------


def test_every_choice_is_spelled_in_a_case() -> None:
    spelled_choices = {spelled for case in CASES for spelled in _spelled(case)}
    assert [choice for choice in OPTION_CHOICES if choice not in spelled_choices] == []


def _spelled(case: Case) -> Iterator[tuple[str, str]]:
    """The choices that a case spells out, in a metric's text or for all."""
    settings = [pair for text in case.metric_texts for pair in parse(text).settings]
    for name, value in [*settings, *case.conventions.items()]:
        for choice in value if isinstance(value, list) else [value]:
            yield name, OPTIONS[name].choice(choice).name if name in OPTIONS else ""


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_names_known_options_and_values(preset: str) -> None:
    problems = [
        p for name, value in PRESETS[preset].options.items() for p in problems_of(name, value)
    ]
    assert problems == []
    assert resolve(preset, {}).keys() == OPTIONS.keys()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_case_uses_the_preset(preset: str) -> None:
    assert PRESETS[preset].note
    assert preset in {case.preset for case in ANSWERED}


def test_the_house_takes_the_first_choice_of_every_option() -> None:
    assert resolve("house", {}) == {
        "gain": "exp",
        "discount": "log2",
        "stop": "exp",
        "ideal": "labels_at_k",
        "recall_denominator": "r",
        "recall_level": "at_least",
        "precision_denominator": "k",
        "ap_denominator": "r",
        "rr_of": "first",
        "rbp_of": "relevant",
        "rbo_ties": "a",
        "rbo_bound": "extrapolated",
        "similarity": "category",
        "ties": "id_asc",
        "score_precision": "double",
        "min_score": "none",
        "depth": "none",
        "duplicate_rankings": "error",
        "identical_ids": "keep",
        "duplicate_labels": "error",
        "unjudged": "nonrelevant",
        "negative_grades": "error",
        "missing": "zero",
        "absent_systems": "skip",
        "no_relevant": "skip",
        "average": "macro",
        "average_over": "labels",
        "rounding": "none",
        "gauc_weight": "none",
        "tied_scores": "exclude",
        "equal_labels": "exclude",
        "pnr_form": "share",
    }


# -- every spelling is read -------------------------------------------------------------

SPELLINGS = [
    # ours: text, canonical text, column
    ("ndcg@10", "ndcg@10", "ndcg_at_10"),
    ("NDCG @ 10", "ndcg@10", "ndcg_at_10"),
    ("ndcg()", "ndcg", "ndcg"),
    ("ndcg(gain=linear)@20", "ndcg(gain=linear)@20", "ndcg_gain_linear_at_20"),
    ("ndcg( GAIN = 'Linear', )@20", "ndcg(gain=linear)@20", "ndcg_gain_linear_at_20"),
    ("recall(rel=2)@50", "recall(rel=2)@50", "recall_rel2_at_50"),
    ("recall(rel=2.0)@50", "recall(rel=2)@50", "recall_rel2_at_50"),
    ("recall(rel=1)@50", "recall@50", "recall_at_50"),
    ("recall(rel=0.1)@50", "recall(rel=0.1)@50", "recall_rel0p1_at_50"),
    ("recall(rel=1e-7)@50", "recall(rel=1e-07)@50", "recall_rel1em07_at_50"),
    ("cg@3", "cg@3", "cg_at_3"),
    ("dcg@3", "dcg@3", "dcg_at_3"),
    ("idcg@3", "idcg@3", "idcg_at_3"),
    ("f1@5", "f1@5", "f1_at_5"),
    ("judged@5", "judged@5", "judged_at_5"),
    ("F_10", "f@10", "f_at_10"),
    ("f_beta(beta=0.5)@10", "f(beta=0.5)@10", "f_beta0p5_at_10"),
    ("rbp(p=.8)", "rbp", "rbp"),
    ("RBP(p=0.95, rel=2)@9", "rbp(p=0.95, rel=2)@9", "rbp_p0p95_rel2_at_9"),
    ("ERR(max_grade=4.0)@20", "err(max_grade=4)@20", "err_max_grade4_at_20"),
    ("Bpref", "bpref", "bpref"),
    ("first_rank", "first_rank", "first_rank"),
    ("mean_rank@9", "mean_rank@9", "mean_rank_at_9"),
    (
        "dcg(discount=ln, gain=binary, rel=2)@3",
        "dcg(rel=2, gain=binary, discount=ln)@3",
        "dcg_rel2_gain_binary_discount_ln_at_3",
    ),
    (
        "ndcg(gain={2: 9, 1: 3, 4: 4.5})@3",
        "ndcg(gain={1: 3, 2: 9, 4: 4.5})@3",
        "ndcg_gain_1_3_2_9_4_4p5_at_3",
    ),
    (
        "mrr(average_over=hits)",
        "mrr(average_over=hits)",
        "mrr_average_over_hits",
    ),
    (
        "recall(average=micro, no_relevant=zero)@5",
        "recall(no_relevant=zero, average=micro)@5",
        "recall_no_relevant_zero_average_micro_at_5",
    ),
    # ir_measures
    ("nDCG@10", "ndcg@10", "ndcg_at_10"),
    ("nDCG(dcg='exp-log2')@10", "ndcg(gain=exp)@10", "ndcg_gain_exp_at_10"),
    ("nDCG(dcg='log2')@10", "ndcg(gain=linear)@10", "ndcg_gain_linear_at_10"),
    ("nDCG(gains={1: 2, 2: 1})@10", "ndcg(gain={1: 2, 2: 1})@10", "ndcg_gain_1_2_2_1_at_10"),
    ("R@100", "recall@100", "recall_at_100"),
    ("R(rel=2)@100", "recall(rel=2)@100", "recall_rel2_at_100"),
    ("P(rel=2)@5", "precision(rel=2)@5", "precision_rel2_at_5"),
    ("RR", "mrr", "mrr"),
    ("RR(rel=2)@10", "mrr(rel=2)@10", "mrr_rel2_at_10"),
    ("AP", "ap", "ap"),
    ("AP(rel=2)@100", "ap(rel=2)@100", "ap_rel2_at_100"),
    ("MAP", "ap", "ap"),
    ("Rprec", "rprec", "rprec"),
    ("Rprec(rel=2)", "rprec(rel=2)", "rprec_rel2"),
    ("Success@5", "hit@5", "hit_at_5"),
    ("Judged@10", "judged@10", "judged_at_10"),
    ("NumQ", "num_q", "num_q"),
    ("NumRet", "num_ret", "num_ret"),
    ("NumRel", "num_rel", "num_rel"),
    ("NumRelRet", "num_rel_ret", "num_rel_ret"),
    # trec_eval
    ("map", "ap", "ap"),
    ("map_cut_10", "ap@10", "ap_at_10"),
    ("ndcg", "ndcg", "ndcg"),
    ("ndcg_cut_10", "ndcg@10", "ndcg_at_10"),
    ("ndcg_cut.10", "ndcg@10", "ndcg_at_10"),
    ("recall_100", "recall@100", "recall_at_100"),
    ("recall.100", "recall@100", "recall_at_100"),
    ("recip_rank", "mrr", "mrr"),
    ("P_10", "precision@10", "precision_at_10"),
    ("P.10", "precision@10", "precision_at_10"),
    ("success_1", "hit@1", "hit_at_1"),
    ("num_q", "num_q", "num_q"),
    ("num_ret", "num_ret", "num_ret"),
    ("num_rel", "num_rel", "num_rel"),
    ("num_rel_ret", "num_rel_ret", "num_rel_ret"),
    # recommenders
    ("hr@10", "hit@10", "hit_at_10"),
    ("hit_rate@10", "hit@10", "hit_at_10"),
    ("hit_rate_10", "hit@10", "hit_at_10"),
    # names of metrics with settings: the shortest one is the canonical one
    ("err_ia@3", "err_ia@3", "err_ia_at_3"),
    ("alpha_dcg(discount=reciprocal)@3", "err_ia@3", "err_ia_at_3"),
    (
        "alpha_ndcg(alpha=0.9, discount=reciprocal)@3",
        "nerr_ia(alpha=0.9)@3",
        "nerr_ia_alpha0p9_at_3",
    ),
    ("alpha_dcg(discount=ln)@3", "alpha_dcg(discount=ln)@3", "alpha_dcg_discount_ln_at_3"),
    ("err_ia(discount=ln)@3", "alpha_dcg(discount=ln)@3", "alpha_dcg_discount_ln_at_3"),
    ("ncrr@5", "ncrr@5", "ncrr_at_5"),
    ("ndcg(gain=binary, discount=reciprocal)", "ncrr", "ncrr"),
    ("ndcg(discount=reciprocal)", "ndcg(discount=reciprocal)", "ndcg_discount_reciprocal"),
    ("recall_cap@10", "r_cap@10", "r_cap_at_10"),
    ("recall(rel=2, recall_denominator=min_k_r)@10", "r_cap(rel=2)@10", "r_cap_rel2_at_10"),
]


@pytest.mark.parametrize(("text", "canonical", "column"), SPELLINGS)
def test_a_spelling_is_read(text: str, canonical: str, column: str) -> None:
    measure = parse(text)
    assert (str(measure), measure.column) == (canonical, column)
    assert parse(text.upper()) == parse(text.lower()) == measure


def test_results_have_the_short_name_however_it_was_asked_for() -> None:
    """And the definition that a fact table keeps is one."""
    ranked = {"query_id": ["q"] * 3, "item_id": ["a", "b", "c"], "score": [3, 2, 1]}
    labels = {"query_id": ["q"] * 2, "item_id": ["b", "c"], "grade": [1, 1]}
    short, long = "ncrr@2", "ndcg(gain=binary, discount=reciprocal)@2"
    hashes = []
    for text in (short, long):
        result = evaluate(ranked, labels, text)
        assert [row["metric"] for row in result.to_dicts()] == ["ncrr"]
        assert short in str(result)
        assert result.per_query().column_names[-1] == "ncrr_at_2"
        assert result[short] == result[long] == pytest.approx(0.5 / 1.5)
        hashes.append(result.spec.definition_hash(result.measures[0]))
    assert hashes[0] == hashes[1]
    held = evaluate(ranked, labels, short, gain="binary", discount="reciprocal")
    assert [row["metric"] for row in held.to_dicts()] == ["ndcg"], "the conventions say it all"


@pytest.mark.parametrize("canonical", sorted({canonical for _, canonical, _ in SPELLINGS}))
def test_the_canonical_text_is_read_as_itself(canonical: str) -> None:
    assert str(parse(canonical)) == canonical


@given(text=metric_texts())
def test_reading_the_canonical_text_changes_nothing(text: str) -> None:
    measure = parse(text)
    assert parse(str(measure)) == measure
    assert str(parse(str(measure))) == str(measure)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", measure.column)


@given(text=metric_texts(), other=metric_texts())
def test_metrics_share_a_column_only_if_they_are_one(text: str, other: str) -> None:
    first, second = parse(text), parse(other)
    assert (first.column == second.column) == (first == second)


@pytest.mark.parametrize("spelling", sorted(spellings()))
def test_every_alias_of_the_catalogue_can_be_written(spelling: str) -> None:
    metric, _ = spellings()[spelling]
    name, _, setting = spelling.partition("(")
    inside = f"({setting.removesuffix(')')}=2)" if setting else ""
    cutoff = "" if metric.cutoff == "none" else "@7"
    if not metric.operand:
        assert parse(name + inside + cutoff).metric is metric
        return
    likely_form = metric.example.partition("@")[0] + cutoff
    assert parse(likely_form).metric.name == name
    for text in (name, f"{name}(average_over=rankings)", f"{name}()"):
        with pytest.raises(
            sm.SpecError, match=f"name a column of the .*, like {re.escape(likely_form)}"
        ):
            parse(text + cutoff)


def test_settings_that_hold_anyway_are_not_spelled() -> None:
    spec = sm.Spec(
        **TABLES,
        metrics=("ndcg(gain=exp)@5", "ndcg(gain=linear)@5", "ndcg@5", "recall(average=macro)@5"),
        conventions={"gain": "linear"},
    )
    assert list(map(str, spec.measures)) == ["ndcg(gain=exp)@5", "ndcg@5", "recall@5"]


def test_a_list_of_values_gives_every_metric_that_has_the_option_once_for_each() -> None:
    spec = sm.Spec(
        **TABLES,
        metrics=("ndcg@5", "mrr"),
        conventions={"gain": ["exp", "linear", "binary"]},
    )
    texts = ["ndcg@5", "ndcg(gain=linear)@5", "ndcg(gain=binary)@5", "mrr"]
    assert list(map(str, spec.measures)) == texts


# -- what is wrong is told --------------------------------------------------------------

LARGEST = 2**31 - 1

NEAREST = [
    ("ndgc@10", "ndcg"),
    ("recal@10", "recall"),
    ("presicion@5", "precision"),
    ("mmr", "mrr"),
    ("frist_rank", "first_rank"),
    ("hitrte@5", "hit"),
    ("sucess@5", "hit"),
    ("recip_rnk", "mrr"),
    ("num_rel_rte", "num_rel_ret"),
    # other marks, a cutoff without its own, a name of another tool
    ("r_precision", "rprec"),
    ("ndcg10", "ndcg@10"),
    ("P5", "precision@5"),
    ("map10", "ap@10"),
    ("hitrate3", "hit@3"),
    ("ndcg_burgess@5", "ndcg(gain=exp)@5"),
]


@pytest.mark.parametrize(("text", "nearest"), NEAREST)
def test_an_unknown_metric_suggests_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(
        sm.SpecError, match=rf"unknown metric .*did you mean '{re.escape(nearest)}'\?"
    ):
        parse(text)


PROBLEMS = [
    # the text as a whole
    ("", "cannot be read; write it like ndcg@10"),
    ("@10", "cannot be read; write it like ndcg@10"),
    ("ndcg@10@20", "cannot be read; write it like ndcg@10"),
    ("2ndcg", "did you mean 'ndcg'?"),
    ("ndcg; drop table x", "cannot be read; write it like ndcg@10"),
    ("zzz@10", r"unknown metric 'zzz'; known: alpha_dcg, .*for a metric of your own"),
    # the cutoff
    ("ndcg@ten", "the cutoff must be a whole number"),
    ("ndcg@-1", "the cutoff must be a whole number"),
    ("ndcg@1.5", "the cutoff must be a whole number"),
    ("ndcg@", "the cutoff must be a whole number"),
    ("ndcg@0", "the cutoff must be a whole number"),
    ("P_0", "the cutoff must be a whole number"),
    (f"ndcg@{LARGEST + 1}", f"the cutoff must be a whole number from 1 to {LARGEST}"),
    ("recall", "metric 'recall' needs a cutoff, like recall@10"),
    ("map_cut", "metric 'map_cut' needs a cutoff, like map_cut_10 or ap@10"),
    ("rprec@5", "rprec takes no cutoff"),
    ("num_q_5", "num_q takes no cutoff"),
    # its settings
    ("ndcg(linear)@5", r"'linear' cannot be read; write options like (rel=2, gain=linear)"),
    ("ndcg(gain=)@5", "'gain=' cannot be read"),
    ("ndcg(gain=f(1))@5", "cannot be read"),
    ("ndcg(gain=linear@5", "cannot be read"),
    ("recall(rel=1)+(rel=2)@5", "cannot be read"),
    ("recall(rell=2)@5", "unknown setting 'rell'; did you mean 'rel'?"),
    ("recall(gain=exp)@5", "recall has no option gain"),
    ("num_q(average=median)", "num_q has no option average"),
    ("auc(average=median)", "auc has no option average"),
    ("hit(no_relevant=zero)@5", "hit has no option no_relevant"),
    ("recall(ties=best)@5", "ties applies to all metrics; set it outside them"),
    ("recall(ties=id_desc)@5", "ties applies to all metrics; set it outside them"),
    ("recall(rel=high)@5", "rel must be a number above 0, given 'high'"),
    ("recall(rel=True)@5", "rel must be a number above 0, given True"),
    ("recall(rel=0)@5", "rel must be a number above 0, given 0"),
    ("recall(rel=-1)@5", "rel must be a number above 0, given -1"),
    ("ndcg(gain=linaer)@5", "unknown value for gain 'linaer'; did you mean 'linear'?"),
    ("ndcg(discount=log10)@5", "unknown value for discount 'log10'; did you mean 'log2'?"),
    ("ndcg(average_over=hit)@5", "unknown value for average_over 'hit'; did you mean 'hits'?"),
    ("rbp(p=1)", "p must be a number above 0 and below 1, given 1"),
    ("rbp(p=0)", "p must be a number above 0 and below 1, given 0"),
    ("rbp(p=1e999)", "p must be a number above 0 and below 1, given inf"),
    ("f(beta=0)@5", "beta must be a number above 0 and at most 1000000, given 0"),
    ("err(max_grade=none)@5", "max_grade must be a number above 0 and at most 50, given 'none'"),
    # gain tables
    ("ndcg(gain=table)@5", "gain=table needs the table itself, like gain={1: 1, 2: 3}"),
    ("ndcg(gain={})@5", "gain=table needs the table itself"),
    ("ndcg(gain={1: -1})@5", "gains must be 0 or more and finite, at most 1e100, given"),
    ("ndcg(gain={1: 1e999})@5", "finite, at most 1e100, given {1: inf}"),
    ("ndcg(gain={'high': 1})@5", r"a table maps grades to gains, and both are numbers"),
]


@pytest.mark.parametrize(("text", "problem"), PROBLEMS)
def test_what_is_wrong_with_a_metric_is_told(text: str, problem: str) -> None:
    with pytest.raises(sm.SpecError, match=_escaped(problem)):
        parse(text)


def _escaped(text: str) -> str:
    return re.sub(r"([{?()])", r"\\\1", text)


@pytest.mark.parametrize(
    "text",
    [
        "recall(rel=1, rel=2)@5",
        "recall(rel=1, REL=2)@5",
        "ndcg(gain=linear, dcg='exp-log2')@5",
        "recall(**{'rel': 2})@5",
    ],
)
def test_no_setting_is_dropped_in_silence(text: str) -> None:
    with pytest.raises(sm.SpecError):
        parse(text)


@given(text=st.text("ndcg recall_rel@(){}[]=:,.*-'\"12e9x\0\n", max_size=40) | metric_texts())
@example("ndcg(gain={[]: 1})@5")
@example(f"recall(rel={'9' * 400})@5")
@example(f"ndcg@{'9' * 5000}")
@example(f"recall(rel={'(' * 300})@5")
@example("recall(rel=1e999)@5")
@example("ndcg(gain={1e999: 1})@5")
def test_any_text_is_read_for_good_or_refused(text: str) -> None:
    try:
        measure = parse(text)
    except sm.SpecError:
        return
    assert parse(str(measure)) == measure


def test_all_problems_of_a_metric_are_told_at_once() -> None:
    with pytest.raises(sm.SpecError) as caught:
        parse("ndcg(rell=2, gain=linaer)@0")
    assert len(caught.value.problems) == 3


TABLES = {"rankings": {"relation": "rankings"}, "labels": {"relation": "labels"}}

MISFITS = [
    ({"average": "micro"}, "mrr has no micro average"),
    ({"metrics": ["ndcg(rel=2)@5"]}, "rel does not change the gains; set gain=binary"),
    ({"metrics": ["ndcg(ideal=hits)@3"]}, "ndcg(ideal=hits)@3: ideal=hits needs gain=binary"),
    ({"metrics": ["ndcg(gain=binary, ideal=all_k)"]}, "ideal=all_k needs a cutoff"),
    ({"metrics": ["ap(ap_denominator=k)"]}, "ap_denominator=k needs a cutoff"),
    (
        {"metrics": ["ndcg(gain=binary, ideal=all_k)@1000001"]},
        "ideal=all_k needs a cutoff of at most 1,000,000",
    ),
    (
        {"metrics": ["ap(ap_denominator=hits)@2"], "ties": "average"},
        "ap(ap_denominator=hits)@2: ap_denominator=hits needs one order of ties",
    ),
    (
        {"metrics": ["mrr(ties=average, average_over=hits)"]},
        "average_over=hits needs one order of ties",
    ),
    (
        {"metrics": ["first_rank@3"], "ties": "average"},
        "first_rank@3: its mean over all orders of ties is not known",
    ),
    (
        {"metrics": ["ndcg(ideal=shown_at_k)@3"], "ties": "average", "depth": 5},
        "ideal=shown_at_k needs no depth with ties=average",
    ),
    ({"min_score": "0,5"}, "unknown value for min_score '0,5'; known: none, number"),
    ({"min_score": math.inf}, "min_score must be a finite number, given inf"),
    ({"depth": 2.5}, "depth must be a whole number, 1 or more, given 2.5"),
    ({"gian": "exp"}, "unknown option 'gian'; did you mean 'gain'?"),
    ({"gain": "lineer"}, "unknown value for gain 'lineer'; did you mean 'linear'?"),
    ({"gain": ["exp", "lineer"]}, "unknown value for gain 'lineer'; did you mean 'linear'?"),
    ({"gain": "table"}, "gain=table needs the table itself, like gain={1: 1, 2: 3}"),
    ({"gain": {"a": 1}}, "a table maps grades to gains, and both are numbers"),
    ({"ties": ["id_asc", "id_desc"]}, "ties applies to all metrics; give one value, not a list"),
    ({"preset": "trec"}, "unknown preset 'trec'; did you mean 'trec_eval'?"),
]


def test_a_number_is_the_same_however_it_is_written() -> None:
    ways = {"0.50": 0.5, ".5": 0.5, "1.0": 1, 1.0: 1, "-1E0": -1, "+2": 2, -0.0: 0, "None": "none"}
    ways |= {"-9007199254740993": -(2**53) - 1}  # no double
    for way, value in ways.items():
        spec = sm.Spec(**TABLES, metrics=["mrr"], conventions={"min_score": way})
        assert repr(spec.options["min_score"]) == repr(value)


def test_ranks_have_no_scores_to_compare() -> None:
    ranks = [{"query_id": "q", "item_id": "a", "rank": 1}]
    with pytest.raises(sm.SpecError, match="min_score is compared with scores"):
        sm.evaluate(ranks, {"q": {"a": 1}}, "mrr", min_score=0.5)


@pytest.mark.parametrize(("given", "problem"), MISFITS)
def test_what_does_not_fit_together_is_told(given: dict[str, object], problem: str) -> None:
    fields = {key: given[key] for key in ("metrics", "preset") if key in given}
    conventions = {key: value for key, value in given.items() if key not in fields}
    with pytest.raises(sm.SpecError, match=_escaped(problem)):
        sm.Spec(**TABLES | {"metrics": ["mrr"]} | fields, conventions=conventions)


def test_all_problems_of_a_spec_are_told_at_once() -> None:
    with pytest.raises(sm.SpecError) as caught:
        sm.Spec(
            **TABLES,
            metrics=("ndgc@10", "recall"),
            preset="trec",
            conventions={"gian": "exp", "ties": "id"},
        )
    assert len(caught.value.problems) == 5


def test_one_metric_in_several_spellings_is_one() -> None:
    texts = ("P@10", "P_10", "precision(rel=1)@10", "precision(rel=1.0)@10")
    assert len(sm.Spec(**TABLES, metrics=texts).measures) == 1


def test_the_typed_keywords_are_those_of_the_catalogue() -> None:
    """Editors complete them, and mypy checks them."""
    file = Path(keywords.__file__)
    text = file.read_text(encoding="utf-8")
    head, _, _ = text.partition("    gain: ")
    current = head + "".join(f"{_typed(option)}\n" for option in OPTIONS.values())
    if os.environ.get("UPDATE_GOLDEN") == "1":
        file.write_text(current, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == current
    for function in (sm.evaluate, question, sm.reconcile):
        assert Conventions.__annotations__.keys() <= _keywords(function)
    assert {*NAMED, *OTHER_ARGUMENTS} == signature(sm.evaluate).parameters.keys() - {"conventions"}


def _typed(option: Option) -> str:
    """An option as a line of `Conventions`, folded as ruff does it."""
    names = [choice.name for choice in option.choices]
    words = [
        word
        for name in names
        if name not in ("number", "table")
        for word in ([f'"{name}"', name] if name.isdecimal() else [f'"{name}"'])
    ]
    literal = f"Literal[{', '.join(words)}]"
    literal += (" | float" if option.takes_fractions else " | int") * ("number" in names)
    literal += " | Gains" * ("table" in names)
    line = f"    {option.name}: {literal}"
    if option.scope == "metric":
        line = f"    {option.name}: OneOrSeveral[{literal}]" + " | GainList" * ("table" in names)
    if len(line) <= 100:
        return line
    if option.scope != "metric":
        return f"    {option.name}: Literal[\n        {', '.join(words)}\n    ]"
    if len(literal) > 92:
        literal = (
            "\n            ".join(["Literal[", *(f"{word}," for word in words)]) + "\n        ]"
        )
    return f"    {option.name}: OneOrSeveral[\n        {literal}\n    ]"


def _keywords(function: Callable[..., Any]) -> set[str]:
    """What a function takes by name, those of its last parameter's type too."""
    *names, last = signature(function).parameters
    (typed,) = get_args(get_type_hints(function)[last])
    return {*names, *get_type_hints(typed)}
