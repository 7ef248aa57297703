"""What tools call their metrics: each name is read under their presets, or refused by name.

The names are those of the tools themselves where they are installed, and each that is read gives
the tool's number on every query. Without the preset such a name is answered with ours.
"""

from __future__ import annotations

import csv
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import peer
from live_tools import BY_PRESET, ranx_number, world
from marked import by_turns
from memory import evaluate
from peer_data import MEAN, Data

import sqlmetrics as sm
from sqlmetrics.catalog.measure import WITH_SETTINGS
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.catalog.tool_names import TOOLS, whose
from sqlmetrics.cli import cli
from sqlmetrics.comparison.compare import compare

pytestmark = pytest.mark.filterwarnings("ignore")  # the tools' own

SPELLINGS = [
    ("ranx", "rbp.95", "rbp(p=0.95)"),
    ("ranx", "rbp.5-l2", "rbp(p=0.5, rel=2)"),
    ("ranx", "hits", "dcg(gain=binary, discount=none)"),
    ("ranx", "hits@5-l2", "dcg(rel=2, gain=binary, discount=none)@5"),
    ("ranx", "hit_rate", "set_hit"),
    ("ranx", "hit_rate@5", "hit@5"),
    ("ranx", "precision", "set_precision"),
    ("ranx", "recall-l2", "set_recall(rel=2)"),
    ("ranx", "f1", "set_f"),
    ("ranx", "r-precision", "rprec"),
    ("ranx", "NDCG_Burges@3", "ndcg(gain=exp)@3"),
    ("ranx", "map@10-l1", "ap@10"),
    ("trec_eval", "P.5", "precision@5"),
    ("trec_eval", "P(rel=2)_5", "precision(rel=2)@5"),
    ("trec_eval_9", "set_P", "set_precision"),
    ("trec_eval_9", "set_recall", "set_recall"),
    ("trec_eval_9", "set_F", "set_f"),
    ("trec_eval_9", "relative_P_5", "precision(precision_denominator=min_k_r)@5"),
    ("trec_eval_9", "iprec_at_recall_.10", "iprec"),
    ("trec_eval", "11pt_avg", "eleven_point_ap"),
    ("trec_eval", "gm_map", "gm_map"),
    ("trec_eval", "set_map", "set_ap"),
    ("trec_eval", "set_relative_P", "set_relative_precision"),
    ("trec_eval", "relative_P.10", "precision(precision_denominator=min_k_r)@10"),
    ("ir_measures", "SetP(rel=2, relative=True)", "set_relative_precision(rel=2)"),
    ("ir_measures", "SetRelP", "set_relative_precision"),
    ("ir_measures", "SetAP(rel=2)", "set_ap(rel=2)"),
    ("ir_measures", "Accuracy(rel=2)@10", "list_auc(rel=2)@10"),
    ("ir_measures", "SetP(rel=2)", "set_precision(rel=2)"),
    ("ir_measures", "SetF(rel=2)", "set_f(rel=2)"),
    ("ir_measures", "P(judged_only=False)@5", "precision@5"),
    ("ir_measures", "ERR@10", "err(max_grade=4)@10"),
    ("ir_measures", "SDCG(max_rel=4)@10", "sdcg(max_grade=4)@10"),
    ("ir_measures", "BPM(T=2.0, max_rel=3)@10", "bpm(t=2)@10"),
    ("ir_measures", "INST(T=2.0, max_rel=4)", "inst(max_grade=4, t=2)@1000"),
    ("ir_measures", "Compat(p=0.9)", "compat(p=0.9)"),
    ("ir_measures", "ERR(max_grade=2)@10", "err(max_grade=2)@10"),
    ("mteb", "p-MRR", "p_mrr"),
    ("recbole", "GAUC", "gauc(gauc_weight=positives)"),
    ("recbole", "Hit@10", "hit@10"),
    ("recommenders", "map@10", "ap(ap_denominator=r)@10"),
    ("recommenders", "map_at_k@10", "ap@10"),
    ("mteb", "hit_rate_at_10", "hit@10"),
    ("xgboost", "pre@5", "precision@5"),
    ("xgboost_minus", "ndcg@5-", "ndcg@5"),
    ("catboost", "NDCG:type=Exp;top=5", "ndcg(gain=exp)@5"),
    ("sentence_transformers", "accuracy@1", "hit@1"),
]


def spec(metrics: str | list[str], preset: str) -> sm.Spec:
    tables = {"rankings": {"relation": "r"}, "labels": {"relation": "l"}}
    return sm.Spec(**tables, metrics=metrics, preset=preset)


def refusal(text: str, preset: str) -> str:
    """Why a text is refused; empty if it is read."""
    try:
        spec(text, preset)
    except sm.SpecError as error:
        return str(error)
    return ""


def is_read_or_refused(text: str, preset: str, refused: str) -> bool:
    """Whether it is read, needs more than two tables, or is refused as the tool's."""
    message = refusal(text, preset)
    return not message or refused in message or " needs the " in message


@pytest.mark.parametrize("preset", sorted({preset for preset, _, _ in SPELLINGS}))
def test_a_tools_own_spelling_is_read_under_its_preset_and_told_without_it(preset: str) -> None:
    for text, ours in ((text, ours) for name, text, ours in SPELLINGS if name == preset):
        parsed = spec(text, preset)
        assert [str(measure) for measure in parsed.measures] == [ours]
        assert parsed.measure(text) == parsed.measure(ours) == parsed.measures[0]
        again = parsed.having(by=["country"])  # what is read once is not read again
        assert again.measures == parsed.measures
        message = refusal(text, "house")
        assert not message or "give preset=" in message or "has none" in message or text[0] == "P"


def test_a_name_that_stands_for_several_cutoffs_is_all_of_them() -> None:
    assert len(spec("P", "trec_eval").measures) == len(spec("recall", "trec_eval").measures) == 9
    assert [str(measure) for measure in spec("success", "trec_eval_9").measures] == [
        *("hit@1", "hit@5", "hit@10")
    ]
    levels = spec("iprec_at_recall", "trec_eval").measures
    assert len(levels) == 11
    assert spec("iprec_at_recall", "house").measures == levels
    with pytest.raises(sm.SpecError, match=r"'P' needs a cutoff.*; set_precision has none"):
        spec("P", "house")


REFUSED = [
    ("ranx", "rbp@95", r"takes the number for the persistence, .* write rbp\.95 for p = 0\.95"),
    ("ranx", "ndcg@10-l2", "takes lower grades out of the gains too"),
    ("ranx", "r-precision@5", "passes over the cutoff"),
    ("trec_eval_9", "set_F_2", r"takes beta squared .* set_f\(beta=2\) for set_F_4"),
    ("trec_eval_9", "official", "has several by this name"),
    ("ir_measures", "AP(rel=2, judged_only=True)", "give unjudged=condensed"),
    ("ir_measures", "SetF(beta=2.0)", r"takes beta squared .* set_f\(beta=2\) for SetF\(beta=4\)"),
    ("trec_eval", "prefs_simp", "nearest: pnr"),
    ("ir_measures", "Compat(normalize=False)", "divides by the weights of all depths"),
    ("recbole", "RMSE", "a loss of scores"),
    ("house", "rbp.95", r"ranx has rbp\(rbp_of=grade, p=0.95\) by this name"),
    ("house", "utility", "unknown metric 'utility'; trec_eval has a sum of relevant and other"),
    ("house", "set_P", "trec_eval has set_precision by this name: write that"),
    ("house", "Accuracy@10", "ir_measures has list_auc@10 .* pyvespa and BEIR have hit@10"),
]


@pytest.mark.parametrize("preset", sorted({preset for preset, _, _ in REFUSED}))
def test_what_cannot_be_read_is_refused_with_what_is_nearest(preset: str) -> None:
    refused = [(text, why) for name, text, why in REFUSED if name == preset]
    for text, why in refused:
        with pytest.raises(sm.SpecError, match=why):
            spec(text, preset)
    with pytest.raises(sm.SpecError) as error:
        spec([*(text for text, _ in refused), "ndgc@10"], preset)
    assert len(error.value.problems) == len(refused) + 1, "all are told in one message"


def test_every_row_of_the_tables_is_a_metric_here_or_names_one() -> None:
    names = {*catalog(), *WITH_SETTINGS}
    for tool in TOOLS:
        assert {*tool.presets} <= PRESETS.keys()
        for name, ours in tool.names.items():
            sm.parse(ours.replace("{}", "0.5") + _cutoff(ours))
            assert name == name.casefold()
        for why in tool.missing.values():
            if "nearest: " in why:
                nearest = why.partition("nearest: ")[2].split(", ")
                assert {re.split(r"[(@]", text)[0] for text in nearest} <= names


def _cutoff(ours: str) -> str:
    needs = catalog()[re.split(r"[(@]", ours)[0]].cutoff == "required"
    return "@5" if needs else ""


def test_the_names_that_the_tools_are_compared_by_are_read_as_these_metrics() -> None:
    """Those of the modules that run the tools, where a name alone says which metric it is."""
    presets = {preset for tool in TOOLS for preset in tool.presets} & BY_PRESET.keys()
    alike = 0
    for preset in sorted(presets - {"beir", "beir_custom", "mlflow", "mteb", "xgboost_minus"}):
        metrics = import_module(BY_PRESET[preset].adapter.__name__).metrics
        for ours, theirs in metrics.items():
            name = theirs[0] if isinstance(theirs, tuple) else theirs
            plain = isinstance(theirs, str) or theirs[1:] in ((), ({},))
            if not (plain and isinstance(name, str) and re.fullmatch(r"[\w@-]+", name)):
                continue
            if "(" in ours and not name.startswith("ndcg_burges"):  # settings beside the name
                continue
            is_cut = re.search(r"@|_\d", name.removesuffix("@k"))
            at = "" if is_cut or "@" not in ours else "@" + ours.partition("@")[2]
            parsed = spec(f"{name.removesuffix('@k')}{at}", preset)
            assert parsed.measures == spec(ours, preset).measures, (preset, name)
            alike += 1
    assert alike > 150


# -- live ------------------------------------------------------------------------------------------


OF_RANX = [
    *("hits", "hits@5", "hit_rate", "hit_rate@3", "precision", "precision@5", "recall"),
    *("recall@5", "f1", "f1@5", "r-precision", "mrr", "mrr@3", "map", "map@5", "dcg@5"),
    *("dcg_burges@5", "ndcg", "ndcg@5", "ndcg_burges", "ndcg_burges@5", "rbp.95", "rbp.5"),
    *("hits@5-l2", "recall-l2", "map@10-l2", "mrr-l2", "rbp.8-l2", "r-precision-l2", "f1@3-l2"),
]


def data(seed: int) -> Data:
    """Lists without equal scores; every labelled query has one, so that tools do not differ."""
    generated = world(seed, ties=False, lengths=(1, 12), queries=20)
    labels = {query: grades for query, grades in generated.labels.items() if any(grades.values())}
    lists = {
        query: scores for query, scores in generated.lists.items() if query in labels and scores
    }
    return Data(lists, {query: labels[query] for query in lists})


def agree(ours: dict[tuple[str, str], float], text: str, theirs: dict[str, float]) -> None:
    assert theirs
    for query, value in theirs.items():
        assert ours[text, query] == pytest.approx(value, abs=1e-9), (text, query)


@pytest.mark.long  # ranx compiles its functions
def test_ranx_gives_these_numbers_by_its_own_names() -> None:
    sample = data(4)
    ours = sample.ours(OF_RANX, "ranx")
    for name in OF_RANX:
        theirs = ranx_number(sample.lists, sample.labels, name)
        agree(ours, name, theirs)
        assert ours[name, MEAN] == pytest.approx(sum(theirs.values()) / len(theirs), abs=1e-9)
    graded = Data({"q": {"x": 3.0, "a": 2.0}}, {"q": {"a": 3}})
    assert graded.ours(["rbp.95"], "ranx")["rbp.95", "q"] == pytest.approx(0.05 * 3 * 0.95)


@pytest.mark.long
def test_every_name_of_ranx_is_known() -> None:
    source = peer("inspect").getsource(peer("ranx.metrics").metric_switch)
    names = {*re.findall(r'== "([\w-]+)"', source)}
    assert names
    assert names == {*next(tool for tool in TOOLS if tool.tool == "ranx").names} - {
        *("hit_rate@k", "precision@k", "recall@k", "f1@k")
    }


@pytest.mark.long
def test_every_measure_of_trec_eval_is_read_or_refused_by_name() -> None:
    """Those that are read give its numbers by its own names; families at all their cutoffs."""
    tool, sample = peer("pytrec_eval"), data(5)
    read: list[str] = []
    for name in sorted(tool.supported_measures):
        message = refusal(name, "trec_eval_9")
        assert not message or "trec_eval has" in message
        read += [] if message else [name]
    assert len(read) >= 22
    labels = {
        query: {item: int(g) for item, g in grades.items()}
        for query, grades in sample.labels.items()
    }
    results = tool.RelevanceEvaluator(labels, {*read}).evaluate(sample.lists)
    values = [name for name in next(iter(results.values())) if name in read or name[:2] != "nu"]
    ours = sample.ours([name for name in values if name != "num_q"], "trec_eval_9")
    for name in values:
        theirs = {query: row[name] for query, row in results.items()}
        if name.startswith("gm_"):  # its values are logarithms, their mean is no mean of ours
            mean = tool.compute_aggregated_measure(name, [*theirs.values()])
            assert ours[name, MEAN] == pytest.approx(mean, rel=1e-12)
        elif name != "num_q":
            agree(ours, name, theirs)
    level2 = tool.RelevanceEvaluator(labels, {"P", "set_P"}, relevance_level=2)
    theirs = level2.evaluate(sample.lists)
    ours = sample.ours(["P(rel=2)_5", "set_P(rel=2)"], "trec_eval_9")
    agree(ours, "P(rel=2)_5", {query: row["P_5"] for query, row in theirs.items()})
    agree(ours, "set_P(rel=2)", {query: row["set_P"] for query, row in theirs.items()})


@pytest.mark.long
def test_every_measure_of_ir_measures_is_read_or_refused_by_name() -> None:
    """As text and as the object itself."""
    tool, sample = peer("ir_measures"), data(6)
    for name, measure in tool.measures.registry.items():
        texts = [name, f"{name}@10", str(measure), f"{name}(rel=2)", f"{name}(p=0.8)"]
        assert any(is_read_or_refused(text, "ir_measures", "ir_measures has") for text in texts), (
            name
        )
    measures = [
        *(tool.SetP, tool.SetR, tool.SetF, tool.SetP(rel=2), tool.P @ 5),
        *(tool.P(rel=2, judged_only=False) @ 5, tool.R @ 5, tool.AP(rel=2), tool.nDCG @ 10),
        *(
            tool.nDCG(gains={0: 0, 1: 5, 2: 1, 3: 2}) @ 10,
            tool.IPrec @ 0.1,
            tool.Bpref,
            tool.Success @ 3,
        ),
        *(tool.SetAP, tool.SetAP(rel=2), tool.SetP(relative=True), tool.SetP(rel=2, relative=True)),
    ]
    texts = [str(measure) for measure in measures]
    ours = sample.ours(texts, "ir_measures")
    provider = tool.providers.registry["pytrec_eval"]
    for measure, text in zip(measures, texts, strict=True):
        rows = provider.calc([measure], sample.labels, sample.lists).per_query
        agree(ours, text, {row.query_id: row.value for row in rows})
    ranked = {q: dict(scores) for q, scores in sample.lists.items()}
    result = sm.evaluate(ranked, sample.labels, measures, preset="ir_measures")
    assert result[str(tool.SetP)] == result["set_precision"]
    for measure in (tool.Accuracy, tool.Accuracy(rel=2), tool.Accuracy @ 5):
        theirs = {query: accuracy(tool, measure, sample, query) for query in sample.lists}
        agree(sample.ours([str(measure)], "ir_measures"), str(measure), theirs)
    squared = provider.calc([tool.SetF(beta=4.0)], sample.labels, sample.lists).per_query
    ours = sample.ours(["set_f(beta=2)"], "ir_measures")
    agree(ours, "set_f(beta=2)", {row.query_id: row.value for row in squared})


def accuracy(tool: ModuleType, measure: Any, sample: Data, query: str) -> float:
    """Accuracy of a query in ir_measures, beside a measure of another provider.

    Alone it would have no row for a list without a relevant item, and leave it out of its mean.
    Where all that counts is relevant, so that there is no pair, it divides by 0: 1 here.
    """
    measures, labels = [measure, tool.P @ 5], {query: sample.labels[query]}
    try:
        rows = tool.iter_calc(measures, labels, {query: sample.lists[query]})
        return next(float(row.value) for row in rows if row.measure == measure)
    except ZeroDivisionError:
        return 1.0


@pytest.mark.long
def test_every_metric_of_recbole_is_read_or_refused_by_name() -> None:
    """And GAUC weighs its users by their positives."""
    register = peer("recbole.evaluator.register")
    for name in register.metrics_dict:
        assert any(
            is_read_or_refused(text, "recbole", "RecBole has") for text in (name, f"{name}@10")
        ), name
    numpy = peer("numpy")
    scores = numpy.array([[0.9, 0.8, 0.7, 0.6, 0.5], [0.9, 0.8, 0.7, 0.6, 0.5]])
    labels = numpy.array([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0]])
    order = [[rank for rank, label in enumerate(row, 1) if label] for row in labels]
    ranks = numpy.array([[sum(positions), 5, len(positions)] for positions in order])
    metric = register.metrics_dict["gauc"]
    numpy.bool = bool  # a name that NumPy took away
    gauc = metric.__new__(metric)  # without a configuration
    theirs = gauc.metric_info(*(part.squeeze() for part in numpy.split(ranks, 3, axis=1)))
    assert sm.evaluate(scores, labels, "GAUC", preset="recbole")["GAUC"] == pytest.approx(theirs)


@by_turns(3.7)
def test_a_comparison_and_a_stream_take_them_too() -> None:
    rows = {"query_id": ["q", "q"] * 2, "item_id": ["a", "b"] * 2, "score": [2, 1, 1, 2]}
    rows["system"] = ["x", "x", "y", "y"]
    labels = {"query_id": ["q"], "item_id": ["a"], "grade": [1]}
    compared = compare(rows, labels, ["hits@1", "map"], preset="ranx", system="system")
    assert compared["hits@1"]["value"] in (0, 1)
    assert compared["map"] == compared["ap"]
    streamed = sm.StreamingMetric("hits@1, ndcg_burges@1", preset="ranx")
    streamed.update([[0.9, 0.1]], [[1, 0]])
    assert streamed.compute() == {"dcg(gain=binary, discount=none)@1": 1, "ndcg(gain=exp)@1": 1}
    assert "dcg(gain=exp)" in sm.explain("dcg_burges@5", preset="ranx")
    with pytest.raises(sm.SpecError, match="preset=ranx"):
        sm.explain("hits@5")
    assert whose("ndcg_burges@10")
    assert not whose("no_metric@10")


def test_the_command_line_reads_them_too(tmp_path: Path) -> None:
    """With several cutoffs behind commas; an option of trec_eval is told as what it is here."""
    run, qrels = tmp_path / "a.run", tmp_path / "qrels.txt"
    run.write_text("q1 Q0 a 1 2.0 tag\nq1 Q0 b 2 1.0 tag\n", encoding="utf-8")
    qrels.write_text("q1 0 b 2\n", encoding="utf-8")
    arguments = ["evaluate", str(run), str(qrels), "--preset", "trec_eval", "-o", "csv"]
    result = CliRunner().invoke(cli, [*arguments, "-m", "P.1,2,set_P,P(rel=2)_2"])
    assert result.exit_code == 0
    names = [row["metric"] for row in csv.DictReader(result.stdout.splitlines())]
    assert names == ["precision", "precision", "set_precision", "precision(rel=2)"]
    result = CliRunner().invoke(cli, [*arguments, "-m", "map", "-l", "2"])
    assert result.exit_code == 2
    assert "-m 'P(rel=2)@5,map(rel=2)'" in result.stderr


def test_lists_are_called_by_the_names_that_are_ours() -> None:
    result = evaluate(
        {"query_id": ["q"], "item_id": ["a"], "score": [1.0]},
        {"query_id": ["q"], "item_id": ["a"], "grade": [1]},
        "map, P@10, ndcg_at_10",
    )
    assert [*result] == ["ap", "precision@10", "ndcg@10"]
    for text in ("map", "MAP", "AP", "P_10", "P.10", "precision_at_10", "nDCG@10", "ndcg_cut_10"):
        assert result[text] >= 0
        assert text in result
