"""Every preset against the tool it names: live where pip can bring it, else its worked values.

Each is compared on the toy of `test_peers` and on seeded random lists: of 1 to 30 items, with and
without equal scores, without labels, without a list, with nothing relevant. Every query's value
and every mean. What a preset cannot reproduce is pinned at the end, with the reason.
`test_presets_page` has the numbers.

The tools are in `tests/tools`; the worked values, with their sources, in `tests/tools/worked.toml`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from conftest import REQUIRED, peer
from live_tools import (
    BY_PRESET,
    CASES,
    DECIMALS5,
    DOUBLE,
    ELSEWHERE,
    LIVE,
    NONE,
    SEEDS,
    Compared,
    Key,
    Pair,
    apart,
    marks,
    pairs,
    ranx_number,
    stated,
    tool,
    world,
    world_pairs,
)
from marked import by_turns
from peer_data import MEAN, TOY, Data, _table
from slices import kept

import sqlmetrics as sm
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.catalog.presets import PRESETS

pytestmark = pytest.mark.filterwarnings("ignore")  # the tools' own


def parameters(*worlds: Any, only: Callable[[Compared], bool] = bool) -> list[Any]:
    """Every live preset with every one of the others."""
    return [
        pytest.param(
            compared,
            *other,
            marks=marks(compared.preset),
            id="-".join(map(str, (compared, *other))),
        )
        for compared in filter(only, LIVE)
        for other in ([(other,) for other in _some(str(compared), worlds)] or [()])
    ]


def _some(preset: str, worlds: Sequence[Any]) -> list[Any]:
    """The toy, and a slice of the random worlds; all of them in a run that must have the tools."""
    toy, seeds = worlds[:1], worlds[1:]
    return [*toy, *(seeds if REQUIRED else kept(f"live {preset}", seeds, 0.3))]


# --- Live -----------------------------------------------------------------------------------------


def wrong(values: Mapping[Key, Pair], tolerance: float) -> dict[Key, Pair]:
    """The pairs that are further apart."""
    return {key: pair for key, pair in values.items() if not apart(*pair) <= tolerance}


@pytest.mark.parametrize(("compared", "seed"), parameters(0, *SEEDS))
def test_live(compared: Compared, seed: int) -> None:
    values = world_pairs(compared, seed, ties=False)
    assert values
    assert not wrong(values, compared.tolerance)


@pytest.mark.parametrize(
    ("compared", "seed"), parameters(0, *SEEDS, only=lambda compared: compared.tied != NONE)
)
def test_live_with_ties(compared: Compared, seed: int) -> None:
    values = world_pairs(compared, seed, ties=True)
    assert values
    assert not wrong(values, compared.tolerance)


@pytest.mark.parametrize("preset", ["trec_eval_9", "ir_measures", "torchmetrics"])
def test_32_bit_scores(preset: str) -> None:
    """Two scores that are the same number in 32 bits are equal scores."""
    data = Data({"q": {"good": 2.0**24 + 1, "other": 2.0**24}}, {"q": {"good": 1}})
    assert tool(preset).mean(data.lists, data.labels, "ndcg@1") < 1
    compared = BY_PRESET[preset]
    assert not wrong(pairs(compared, data, ["ndcg@1"]), compared.tolerance)


# What "NDCG@3" is on the toy: q1, q2, q3, and the mean that the tool reports.
TOY_NDCG = {
    "trec_eval_9": (0.7350, 0.5000, 0.3869, 0.4055),
    "ir_measures": (0.7350, 0.5000, 0.3869, 0.3244),
    "ranx": (0.7350, 0.6309, 0.3869, 0.3506),
    "recommenders": (0.7039, 0.6309, 0.3869, 0.4304),
    "mind": (0.7039, 0.6309, 0.6309, 0.6553),
    "replay": (0.7039, 0.5000, 0.3869, 0.3977),
    "rectools": (0.7039, 0.2961, 0.2961, 0.3240),
    "rectools_achievable": (0.7039, 0.6309, 0.3869, 0.4304),
    "lenskit": (0.6199, 1.0000, 0.5000, 0.4240),
    "torchmetrics": (0.7350, 0.7103, 0.6309, 0.4152),
    "sklearn": (0.7350, 0.7103, 0.6309, 0.5191),
    "spark_mllib": (0.7039, 0.6309, 0.3869, 0.2870),
}


COMPARED = [BY_PRESET[preset] for preset in TOY_NDCG]


@pytest.mark.parametrize("compared", parameters(only=lambda compared: compared in COMPARED))
def test_one_name_many_numbers(compared: Compared) -> None:
    """The tools' own numbers: should one change, its preset and its page must too."""
    tool = compared.adapter
    per_query = tool.per_query(TOY.lists, TOY.labels, "ndcg@3")
    mean = tool.mean(TOY.lists, TOY.labels, "ndcg@3")
    numbers = [*(per_query[query] for query in ("q1", "q2", "q3")), mean]
    assert numbers == pytest.approx(TOY_NDCG[compared.preset], abs=5.1e-5)


# --- Worked values --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['preset']}: {case['test'][:40]}")
def test_worked(case: dict[str, Any]) -> None:
    assert not wrong(stated(case), case["tolerance"])


def test_every_preset_is_compared() -> None:
    worked = {case["preset"] for case in CASES}
    assert PRESETS.keys() == {*BY_PRESET, *worked, *ELSEWHERE}


# --- Where a tool is not reproduced, and why ------------------------------------------------------


@by_turns(1.3)
def test_a_difference_is_told_beneath_the_metric_and_on_no_other() -> None:
    """And `reconcile` names the preset for no such number."""
    tables = (_table(TOY.lists, "score"), _table(TOY.labels, "grade"))
    for name, preset in PRESETS.items():
        for difference in preset.differences:
            metrics = [metric for metric in difference.metrics if not catalog()[metric].needs]
            texts = [
                metric if catalog()[metric].cutoff != "required" else f"{metric}@3"
                for metric in metrics
            ]
            if not texts:
                continue
            result = sm.evaluate(*tables, [*texts, "mrr"], preset=name)
            reasons = [note for note in result.notes if difference.reason in note]
            assert reasons == [
                f"preset {name} does not reproduce {' and '.join(texts)}: {difference.reason}"
            ]
            assert not any(preset.has(metric, None) for metric in metrics)
    notes = sm.evaluate(*tables, ["ndcg@32", "mrr"], preset="xgboost").notes
    assert not any("does not reproduce" in note for note in notes)


@pytest.mark.parametrize("preset", ["xgboost", "xgboost_minus"])
def test_xgboost_looks_at_32_rows_where_no_cutoff_is_given(preset: str) -> None:
    data = Data({"q": {f"i{row}": -float(row) for row in range(40)}}, {"q": {"i0": 1, "i35": 1}})
    adapter = tool(preset)
    for name, expected in (("ndcg", 0.7308461430643313), ("ap", 0.5277777777777778)):
        first = adapter.mean(data.lists, data.labels, name)
        ours = data.ours([name, f"{name}@32"], preset)
        assert first == pytest.approx(ours[f"{name}@32", MEAN], abs=DOUBLE)
        assert ours[name, MEAN] == pytest.approx(expected, abs=DOUBLE)


@pytest.mark.long
def test_ranx_fills_up_the_labels_that_bpref_counts() -> None:
    """A query with fewer labels than another has other numbers beside it than alone."""
    lists = {
        "p": {"i2": 0.0, "i3": -1.0, "i4": -2.0, "i0": -3.0, "i1": -4.0},
        "q": {"i5": 0.0, "i4": -1.0, "i0": -2.0, "i3": -3.0, "i2": -4.0, "i1": -5.0},
    }
    labels = {
        "p": {"i0": 0, "i1": 0},
        "q": {"i0": 1, "i1": 2, "i2": 0, "i3": 0, "i4": 1, "i5": 0},
    }
    alone = ranx_number({"q": lists["q"]}, {"q": labels["q"]}, "bpref")["q"]
    ours = Data(lists, labels).ours(["bpref"], "ranx")["bpref", "q"]
    assert alone == pytest.approx(ours)
    assert ranx_number(lists, labels, "bpref")["q"] != pytest.approx(alone)


@pytest.mark.long
def test_ranx_is_not_stable() -> None:
    """Equal scores of a long list come in an order of its sort, not in the order of the input."""
    lists = {"q": {f"d{number}": 1.0 for number in range(40)}}
    ranks = [tool("ranx").mean(lists, {"q": {f"d{n}": 1}}, "mrr") for n in range(40)]
    assert sorted(ranks) == pytest.approx(sorted(1 / (n + 1) for n in range(40)))
    assert ranks != pytest.approx([1 / (n + 1) for n in range(40)])


def test_sklearn_leaks_to_items_that_are_not_shown() -> None:
    """At a very low score they tie, and what is relevant among them gets a part of rank 3.

    q3 of the toy is p, g, and h that is not in the list: .3869 over all labels, .6309 over the
    list alone, .6934 in this way. The preset has the second.
    """
    score = peer("sklearn.metrics").ndcg_score
    assert score([[0, 1]], [[2, 1]], k=3) == pytest.approx(0.6309, abs=5e-5)
    assert score([[0, 1, 1]], [[2, 1, -1e9]], k=3) == pytest.approx(0.6934, abs=5e-5)
    with pytest.raises(ValueError, match="more than 1 document"):
        score([[1]], [[2]], k=3)


def test_torchmetrics_drops_scores_of_0_and_below() -> None:
    """Logits must be made positive: what is 0 or less is not retrieved, for some of the metrics."""
    lists, labels = {"q": {"a": -1.0, "b": -2.0, "c": -3.0}}, {"q": {"a": 1, "c": 1}}
    means = {name: tool("torchmetrics").mean(lists, labels, f"{name}@3") for name in TORCH}
    assert means == pytest.approx(TORCH, abs=5e-5)


TORCH = {"ap": 0, "recall": 0, "precision": 0, "mrr": 0, "hit": 1, "ndcg": 0.9197}


def test_recommenders_r_precision_skips_users() -> None:
    """A user whose hits are all below rank R is left out of the mean: 1.0 here, not .5."""
    pandas, tools = peer("pandas"), peer("recommenders.evaluation.python_evaluation")
    true = [("u", "a", 1), ("u", "b", 1), ("v", "c", 1), ("v", "d", 1)]
    predicted = [("u", "a", 3), ("u", "b", 2), ("v", "x", 3), ("v", "y", 2), ("v", "c", 1)]
    tables = (
        pandas.DataFrame(rows, columns=["userID", "itemID", name])
        for rows, name in ((true, "rating"), (predicted, "prediction"))
    )
    assert tools.r_precision_at_k(*tables, k=3) == 1


def test_mind_reads_ties_backwards() -> None:
    """Of equal scores the one that comes last is first; the preset takes them as they come."""
    lists, labels = {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}, {"q": {"c": 1}}
    assert tool("mind").per_query(lists, labels, "mrr") == {"q": 1}


def test_rectools_counts_an_item_twice() -> None:
    """A label that is there twice makes NDCG larger than 1; sqlmetrics refuses such labels."""
    pandas, metrics = peer("pandas"), peer("rectools.metrics")
    ranked = [("u", "a", 1), ("u", "b", 2), ("u", "z", 3)]
    true = [("u", "a"), ("u", "a"), ("u", "b"), ("u", "c")]
    value = metrics.NDCG(k=3).calc(
        pandas.DataFrame(ranked, columns=["user_id", "item_id", "rank"]),
        pandas.DataFrame(true, columns=["user_id", "item_id"]),
    )
    assert value == pytest.approx(1.2346, abs=5e-5)


def test_recbole_does_not_know_the_order_of_ties() -> None:
    """torch.topk promises none: f of q2 was second at k = 3 and third at k = 10."""
    values = [tool("recbole").per_query(TOY.lists, TOY.labels, f"mrr@{k}") for k in (3, 10)]
    for per_query in values:
        assert any(per_query["q2"] == pytest.approx(1 / rank) for rank in (1, 2, 3))


def test_lenskit_counts_lists_alone() -> None:
    """A query without a list does not lower its mean; one without anything relevant does."""
    lists, labels = {"q": {"a": 1.0}}, {"q": {"a": 1}, "p": {"a": 1}}
    assert tool("lenskit").mean(lists, labels, "ndcg@3") == 1
    assert tool("lenskit").mean(lists | {"r": {"a": 1.0}}, labels, "ndcg@3") == 0.5
    with pytest.raises(ZeroDivisionError):
        tool("lenskit").mean(lists, {"p": {"a": 1}}, "ap@3")


def test_evidently_gives_equal_scores_the_same_rank() -> None:
    """It floors the average rank, so that two items can be first: precision and NDCG are then 2."""
    lists, labels = {"q": {"a": 3.0, "b": 3.0, "c": 1.0}}, {"q": {"a": 1, "b": 1}}
    means = {name: tool("evidently").mean(lists, labels, f"{name}@1") for name in EVIDENTLY}
    assert means == EVIDENTLY


EVIDENTLY = {"precision": 2, "recall": 1, "ndcg": 2, "mrr": 1, "ap": 1}


def test_evidently_counts_the_last_item_again() -> None:
    """MAP of a list that is shorter than k, if its last item is relevant: 1 for y at rank 2."""
    lists = {"q": {"x": 3.0, "y": 2.0}, "other": {item: 9.0 - position for position, item in OTHER}}
    mean = tool("evidently").mean(lists, {"q": {"y": 1}, "other": {"a": 1}}, "ap@3")
    assert mean == (1 + 1) / 2  # and not (1 / 2 + 1) / 2
    with pytest.raises(KeyError):
        tool("evidently").mean({"q": lists["q"]}, {"q": {"y": 1}}, "ndcg@3")


OTHER = tuple(enumerate("abcdef"))


def test_evidently_on_the_toy() -> None:
    """Three users are counted: those with a list that has something relevant in it."""
    means = [tool("evidently").mean(TOY.lists, TOY.labels, f"ndcg@{k}") for k in (1, 3)]
    assert means == pytest.approx([0.3333, 0.6656], abs=5e-5)


def test_sasrec_ranks_are_those_of_an_unstable_sort() -> None:
    """Of few candidates with equal scores the positive, which comes first, is first (ties=best).

    Of 101 it is not: numpy's default sort is not stable.
    """
    numpy = peer("numpy")
    ranks = [int(numpy.zeros(size).argsort().argsort()[0]) for size in (2, 5, 16)]
    assert ranks == [0, 0, 0]


def test_beir_drops_an_item_that_is_its_query() -> None:
    """A list of which nothing is left counts 0; the label of such an item is still to be found."""
    lists = {"q": {"q": 3.0, "a": 2.0, "b": 1.0}, "a": {"a": 1.0}, "c": {"q": 2.0, "d": 1.0}}
    labels = {"q": {"q": 1, "b": 2}, "a": {"b": 1}, "c": {"d": 1}}
    values = pairs(BY_PRESET["beir"], Data(lists, labels), ["ndcg@3", "recall@1", "ap@3"])
    assert values["recall@1", "q"][1] == 0
    assert values["recall@1", MEAN][1] == 0
    assert not wrong(values, DECIMALS5)


def test_phoenix_has_no_ndcg_of_a_list_that_is_evaluated_in_part() -> None:
    """Of short lists, some are: those alone have a value, and make the mean."""
    data = world(3, ties=True, lengths=(1, 4), queries=30)
    theirs = tool("phoenix").per_query(data.lists, data.labels, "ndcg@3")
    ours = data.ours(["ndcg@3"], "phoenix")
    defined = {query: value for (_, query), value in ours.items() if value is not None}
    assert 0 < len(theirs) < len(data.lists)
    mean = tool("phoenix").mean(data.lists, data.labels, "ndcg@3")
    assert defined == pytest.approx({**theirs, MEAN: mean}, abs=DOUBLE)


def test_phoenix_looks_at_documents_below_the_cutoff() -> None:
    """Precision is NaN for what nobody evaluated there; RR is not, below the first hit."""
    lists, labels = {"q": {"a": 3.0, "b": 2.0}}, {"q": {"a": 1}}
    texts = ("precision@1", "mrr", "ndcg@1")
    assert [tool("phoenix").per_query(lists, labels, text) for text in texts] == [{}, {"q": 1}, {}]
    ours = Data(lists, labels).ours(texts, "phoenix")
    assert [ours.get((text, "q")) for text in texts] == [1, None, None]


@pytest.mark.parametrize("policy", ["count", "best_score"])
def test_llamaindex_counts_repeated_ids(policy: str) -> None:
    """In NDCG and AP each time, in precision and recall once; one id twice has AP 2."""
    tool = peer("llama_index.core.evaluation.retrieval.metrics")
    names = {"count": ("NDCG", "AveragePrecision"), "best_score": ("Precision", "Recall")}[policy]
    texts = {"count": ("ndcg", "ap"), "best_score": ("precision@99", "recall@99")}[policy]
    for ids in REPEATED:
        ours = repeated(ids, texts, preset="llamaindex", duplicate_rankings=policy)
        arguments = {"expected_ids": ["a", "b"], "retrieved_ids": ids}
        theirs = [getattr(tool, name)().compute(**arguments).score for name in names]
        assert ours == pytest.approx(theirs, abs=DOUBLE)
    assert tool.AveragePrecision().compute(expected_ids=["a"], retrieved_ids=["a", "a"]).score == 2


def test_haystack_leaves_repeats_at_their_places() -> None:
    """They are credited once, and what comes behind them does not move up."""
    tool, document = peer("haystack.components.evaluators"), peer("haystack").Document
    names = ("DocumentNDCGEvaluator", "DocumentMAPEvaluator", "DocumentMRREvaluator")
    for ids in REPEATED:
        ours = repeated(ids, ("ndcg", "ap", "mrr"), preset="haystack", duplicate_rankings="first")
        lists = [[document(content=item) for item in items] for items in (["a", "b"], ids)]
        runs = [getattr(tool, name)().run([lists[0]], [lists[1]]) for name in names]
        assert ours == pytest.approx([run["score"] for run in runs], abs=DOUBLE)


_RANDOM = random.Random(5)
REPEATED = [_RANDOM.choices("abcxyz", k=_RANDOM.randint(1, 8)) for _ in range(6)]
"""Lists that hold ids several times."""


def repeated(ids: list[str], texts: tuple[str, ...], **options: Any) -> list[float]:
    """Our values of a list of ids of which a and b are relevant."""
    rows = [
        {"query_id": "q", "item_id": item, "score": float(-position)}
        for position, item in enumerate(ids)
    ]
    labels = [{"query_id": "q", "item_id": item, "grade": 1} for item in "ab"]
    result = sm.evaluate(pa.Table.from_pylist(rows), pa.Table.from_pylist(labels), texts, **options)
    return [result[text] for text in texts]
