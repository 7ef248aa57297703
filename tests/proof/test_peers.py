"""sqlmetrics and its peers, live, on the same data: the same numbers, or the reason why not.

The data: six runs of TREC 2003 (beside the checkout, skipped without it), and seeded random
worlds: lists of 1 to 1,500 items, scores that are all equal, mostly equal, equal only as 32-bit
numbers, or all different; queries without a list, without labels, without a relevant label;
grades 0 to 3; ids of several scripts and lengths.

Every per-query value and every mean is compared. The peers too compute in 64 bits (pytrec_eval
only sorts by 32), so they differ in the order of their sums alone: 1e-12, relative for values
above 1, leaves room for the rounding of sums of some thousand terms. Where a peer prints fewer
digits, a comment says so; where it means something else by a name, a test says what.
"""

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import count, product
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from conftest import peer
from marked import by_turns, long
from peer_data import MEAN, TOY, Data, Labels, Lists, Values, _table

import sqlmetrics as sm

EXACT = 1e-12

CUTOFFS = (1, 3, 10, 100, 1000, 5000)


def at(*texts: str) -> list[str]:
    """Every text with every cutoff behind it."""
    return [f"{text}{k}" for text in texts for k in CUTOFFS]


def pairs(ours: str, theirs: str) -> dict[str, str]:
    """Our text -> the peer's, with every cutoff behind both."""
    return dict(zip(at(ours), at(theirs), strict=True))


# --- The data -------------------------------------------------------------------------------


RUNS = ("InexpC2", "MU03rob01", "NLPR03vb10", "pircRBa1", "rutcor03100", "uic0301")
SEEDS = (1, 2, 3)

LENGTHS = (1, 2, 7, 60, 1500)
GRADES = {0: 3, 1: 3, 2: 2, 3: 1}  # grade -> how often
SCORES: Mapping[str, Callable[[random.Random], float]] = {
    "constant": lambda _: 1.0,
    "few": lambda rng: float(rng.randint(-2, 2)),
    "equal as 32 bits": lambda rng: 2.0**24 + rng.randrange(40) / 4,
    "close": lambda rng: 1 + rng.random() * 1e-6,
    "different": lambda rng: rng.gauss(0, 1),
}


@cache
def world(seed: int) -> Data:
    """A random world with all that can happen to a query; its ids are numbers, as in TREC."""
    rng = random.Random(seed)
    ids = map(str, count(seed * 100))
    lists: Lists = {}
    labels: Labels = {}
    for length, score in product(LENGTHS, SCORES.values()):
        query, pool = next(ids), _items(rng, length + 9)
        lists[query] = {item: score(rng) for item in rng.sample(pool, length)}
        labelled = rng.sample(pool, rng.choice((3, length, len(pool))))
        grades = rng.choices([*GRADES], [*GRADES.values()], k=len(labelled))
        labels[query] = dict(zip(labelled, grades, strict=True))
    for irrelevant in rng.sample(list(lists), 3):
        labels[irrelevant] = dict.fromkeys(labels[irrelevant], 0)
    for missing in rng.sample(list(lists), 3):
        del lists[missing]
    for unlabelled in rng.sample(list(lists), 3):
        del labels[unlabelled]
    return Data(lists, labels)


def _items(rng: random.Random, size: int) -> list[str]:
    return [f"{rng.choice('aZ-é漢😀')}{number}" for number in range(size)]


@cache
def robust03(folder: Path, run: str) -> Data:
    lists: Lists = {}
    for query, _, item, _, score, _ in _fields(folder / f"{run}.txt.gz"):
        lists.setdefault(query, {})[item] = float(score)
    return Data(lists, robust03_labels(folder))


@cache
def robust03_labels(folder: Path) -> Labels:
    labels: Labels = {}
    for query, _, item, grade in _fields(folder / "qrels.txt.gz"):
        labels.setdefault(query, {})[item] = int(grade)
    return labels


def _fields(path: Path) -> list[list[str]]:
    return [line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


@pytest.fixture(params=[*map(long, RUNS), *SEEDS], ids=str)
def data(request: pytest.FixtureRequest) -> Data:
    if request.param in SEEDS:
        return world(request.param)
    return robust03(request.getfixturevalue("shared") / "robust03", request.param)


def assert_same(ours: Values, theirs: Values, tolerance: float = EXACT) -> None:
    """Fail unless both have the same values, within the tolerance; show some that differ."""
    assert ours.keys() == theirs.keys()
    wrong = {
        key: (ours[key], value)
        for key, value in theirs.items()
        if ours[key] != pytest.approx(value, rel=tolerance, abs=tolerance)
    }
    assert not wrong


# --- pytrec_eval: trec_eval 9.0.8 itself ----------------------------------------------------

# relevance level of the tool -> our text -> its text
PYTREC_EVAL: Mapping[int, Mapping[str, str]] = {
    1: {
        text: text
        for text in (
            *("map", "ndcg", "recip_rank", "Rprec", "bpref"),
            *("11pt_avg", "set_map", "set_relative_P"),
            *("num_q", "num_ret", "num_rel", "num_rel_ret"),
            *at("map_cut_", "ndcg_cut_", "P_", "recall_", "success_", "relative_P_"),
        )
    },
    2: {
        "ap(rel=2)": "map",
        "mrr(rel=2)": "recip_rank",
        "rprec(rel=2)": "Rprec",
        "bpref(rel=2)": "bpref",
        "eleven_point_ap(rel=2)": "11pt_avg",
        "set_ap(rel=2)": "set_map",
        "set_relative_precision(rel=2)": "set_relative_P",
        "num_rel(rel=2)": "num_rel",
        "num_rel_ret(rel=2)": "num_rel_ret",
        **pairs("ap(rel=2)@", "map_cut_"),
        **pairs("precision(rel=2)@", "P_"),
        **pairs("recall(rel=2)@", "recall_"),
        **pairs("hit(rel=2)@", "success_"),
    },
}


def by_pytrec_eval(data: Data, tool: ModuleType) -> Values:
    values: Values = {}
    for level, names in PYTREC_EVAL.items():
        evaluator = tool.RelevanceEvaluator(data.labels, {*names.values()}, level)
        per_query = evaluator.evaluate(data.lists)
        for text, name in names.items():
            by_query = {query: row[name] for query, row in per_query.items()}
            values |= {(text, query): value for query, value in by_query.items()}
            values[text, MEAN] = tool.compute_aggregated_measure(name, [*by_query.values()])
    return values


def test_pytrec_eval(data: Data) -> None:
    theirs = by_pytrec_eval(data, peer("pytrec_eval"))
    ours = data.ours({text for names in PYTREC_EVAL.values() for text in names}, "trec_eval_9")
    assert_same(ours, theirs)


def test_pytrec_eval_sorts_32_bit_scores() -> None:
    """trec_eval 9 keeps scores as 32-bit numbers, so it sees ties that trec_eval 10 does not."""
    data = Data({"q": {"good": 2.0**24 + 1, "other": 2.0**24}}, {"q": {"good": 1}})
    theirs = by_pytrec_eval(data, peer("pytrec_eval"))
    assert theirs["recip_rank", "q"] == 1 / 2
    assert data.ours(["recip_rank"], "trec_eval_9")["recip_rank", "q"] == 1 / 2
    assert data.ours(["recip_rank"], "trec_eval")["recip_rank", "q"] == 1


# --- ir_measures, in its own notation -------------------------------------------------------

IR_MEASURES = (
    *("nDCG", "nDCG(dcg='log2')", "RR", "RR(rel=2)", "AP", "AP(rel=2)", "Rprec", "Rprec(rel=2)"),
    *("NumRet", "NumRelRet", "MAP", "MRR", "Bpref", "Bpref(rel=2)", "infAP", "infAP(rel=2)"),
    *at("nDCG@", "nDCG(dcg='log2')@", "R@", "R(rel=2)@", "P@", "P(rel=2)@", "AP@", "AP(rel=2)@"),
    *at("Success@", "Success(rel=2)@"),
    *(f"IPrec@{level}" for level in ("0.0", "0.1", "0.3", "0.5", "0.7", "1.0")),
)
IR_MEASURES_ID_ASC = at("RR@", "RR(rel=2)@", "Judged@")
# One evaluation each: ir_measures applies the gains of one nDCG to others of the same evaluation.
GAINS = ("{0: 0, 1: 1, 2: 3, 3: 7}", "{1: 4, 2: 0, 3: 9}")


def by_ir_measures(data: Data, texts: Iterable[str], tool: ModuleType) -> Values:
    measures = {text: tool.parse_measure(text) for text in texts}
    result = tool.calc({*measures.values()}, data.labels, data.lists)
    by_measure: dict[Any, dict[str, float]] = {measure: {} for measure in measures.values()}
    for row in result.per_query:
        by_measure[row.measure][row.query_id] = row.value
    values = {
        (t, query): value for t, m in measures.items() for query, value in by_measure[m].items()
    }
    return values | {(text, MEAN): result.aggregated[m] for text, m in measures.items()}


def test_ir_measures(data: Data) -> None:
    theirs = by_ir_measures(data, IR_MEASURES, peer("ir_measures"))
    assert_same(data.ours(IR_MEASURES, "ir_measures"), theirs)


@pytest.mark.parametrize("data", [long("uic0301"), *SEEDS], indirect=True)
@pytest.mark.parametrize("gains", GAINS)
def test_ir_measures_gains(gains: str, data: Data) -> None:
    texts = at(f"nDCG(gains={gains})@")
    theirs = by_ir_measures(data, texts, peer("ir_measures"))
    assert_same(data.ours(texts, "ir_measures"), theirs)


def test_ir_measures_gains_of_some_grades() -> None:
    """A grade that the table lacks is its own gain there; here the table must be complete."""
    text = "nDCG(gains={2: 3})@3"
    theirs = by_ir_measures(TOY, [text], peer("ir_measures"))
    full = "nDCG(gains={1: 1, 2: 3, 3: 3})@3"
    assert theirs[text, "q3"] == pytest.approx(TOY.ours([full], "ir_measures")[full, "q3"])
    with pytest.raises(sm.InputError, match="no gain in the table"):
        TOY.ours([text], "ir_measures", cell=None)


def test_ir_measures_sorts_ids_upwards_for_some(data: Data) -> None:
    """RR@k and Judged@k come from providers of their own: 64-bit scores, lower id first."""
    theirs = by_ir_measures(data, IR_MEASURES_ID_ASC, peer("ir_measures"))
    conventions = {"ties": "id_asc", "score_precision": "double"}
    assert_same(data.ours(IR_MEASURES_ID_ASC, "ir_measures", **conventions), theirs)


CWL = (  # the tool looks at 1,000 ranks
    *(f"{name}(max_rel=3)@{k}" for name in ("SDCG", "BPM") for k in (1, 3, 10, 1000)),
    *("SDCG(min_rel=0, max_rel=4)@7", "BPM(T=2.5, max_rel=3)@10", "BPM(T=0.5, max_rel=4)@5"),
    *(f"{name}(T={t}, max_rel=3)" for name in ("INST", "INSQ") for t in (0.5, 1.0, 3.7)),
)


@by_turns(1.2)
@pytest.mark.parametrize("data", [long("uic0301"), *SEEDS], indirect=True)
def test_ir_measures_takes_some_from_cwl_eval(data: Data) -> None:
    """Of equal scores what comes first stays first there, and scores have 64 bits."""
    peer("cwl.cwl_eval")
    theirs = by_ir_measures(data, CWL, peer("ir_measures"))
    conventions = {"ties": "input_order", "score_precision": "double"}
    assert_same(data.ours(CWL, "ir_measures", **conventions), theirs)


CWL_ALONE = {"ap(ap_denominator=shown)": "AP", "rbp(p=0.6)": "RBP(rel=1, p=0.6)", "mrr": "RR"}


@by_turns(1)
@pytest.mark.parametrize("data", SEEDS, indirect=True)
def test_cwl_eval_divides_average_precision_by_the_relevant_items_of_the_list(data: Data) -> None:
    peer("cwl.cwl_eval")
    tool = peer("ir_measures")
    conventions = {"ties": "input_order", "score_precision": "double", "depth": 1000}
    ours = data.ours(CWL_ALONE, "ir_measures", **conventions)
    for text, name in CWL_ALONE.items():
        measure = tool.parse_measure(name)
        result = tool.providers.registry["cwl_eval"].calc([measure], data.labels, data.lists)
        theirs = {(text, row.query_id): row.value for row in result.per_query}
        assert_same({key: ours[key] for key in ours.keys() & theirs.keys()}, theirs)


COMPAT = ("Compat", "Compat(p=0.8)", "Compat(p=0.5)")


@by_turns(1)
@pytest.mark.parametrize("data", [long("uic0301"), *SEEDS], indirect=True)
def test_ir_measures_compatibility(data: Data) -> None:
    """Without ties, which it breaks in two ways, and with scores above that of no item, 0."""
    lists = {
        query: {item: score - min(scores.values()) + 1 for item, score in scores.items()}
        for query, scores in data.untied().lists.items()
    }
    data = Data(lists, data.labels)
    theirs = by_ir_measures(data, COMPAT, peer("ir_measures"))
    assert_same(data.ours(COMPAT, "ir_measures", score_precision="double"), theirs)


@pytest.mark.parametrize("data", SEEDS, indirect=True)
def test_mteb_ranks_before_and_after_a_change(data: Data) -> None:
    """The items whose relevance changed are the relevant labels; scores are of 64 bits here."""
    mteb, rng = peer("mteb._evaluators.retrieval_metrics"), random.Random(len(data.lists))
    moved = {
        query: {item: rng.choice((score, rng.gauss(0, 1))) for item, score in scores.items()}
        for query, scores in data.lists.items()
        if rng.random() < 0.9
    }
    changed = {
        query: [item for item, grade in grades.items() if grade > 0]
        for query, grades in data.labels.items()
        if query in moved and max(grades.values()) > 0
    }
    theirs = {
        query: mteb.calculate_pmrr(
            {f"{query}-og": data.lists[query]}, {f"{query}-changed": moved[query]}, {query: items}
        )
        for query, items in changed.items()
    }
    systems = {"og": data.lists, "changed": moved}
    rankings = pa.concat_tables(
        _table(lists, "score").append_column("system", pa.array([system] * _size(lists)))
        for system, lists in systems.items()
    )
    result = sm.evaluate(
        rankings,
        _table(data.labels, "grade"),
        "p-MRR",
        preset="mteb",
        score_precision="double",
        baseline="og",
        system="system",
    )
    rows = [row for row in result.per_query().to_pylist() if row["system"] == "changed"]
    ours = {row["query_id"]: row["p_mrr"] for row in rows if row["p_mrr"] is not None}
    assert ours == pytest.approx(theirs, rel=EXACT, abs=EXACT)
    mean = next(row["value"] for row in result.to_dicts() if row["system"] == "changed")
    assert mean == pytest.approx(sum(theirs.values()) / len(theirs), rel=EXACT, abs=EXACT)


def _size(lists: Lists) -> int:
    return sum(map(len, lists.values()))


@pytest.mark.parametrize("data", SEEDS, indirect=True)
def test_inferred_precision_of_a_sample_of_labels(data: Data) -> None:
    """A grade of -1 says that an item was pooled and is not in the sample."""
    rng = random.Random(len(data.labels))
    sample = {
        query: {item: grade if rng.random() < 0.4 else -1 for item, grade in grades.items()}
        for query, grades in data.labels.items()
    }
    data = Data(data.lists, sample)
    texts = ["infAP", "infAP(rel=2)"]
    theirs = by_ir_measures(data, texts, peer("ir_measures"))
    assert_same(data.ours(texts, "ir_measures", negative_grades="unjudged"), theirs)


def test_ir_measures_cutoff_raises_the_metric() -> None:
    """There a cutoff changes the order of ties (f is last of q2, then first); here it does not."""
    theirs = by_ir_measures(TOY, ["RR", "RR@3"], peer("ir_measures"))
    ours = TOY.ours(["RR", "RR@3"], "ir_measures")
    assert theirs["RR", "q2"] == ours["RR", "q2"] == ours["RR@3", "q2"] == 1 / 3
    assert theirs["RR@3", "q2"] == 1
    assert theirs["RR", MEAN] < theirs["RR@3", MEAN]


@pytest.mark.parametrize("data", SEEDS, indirect=True)
def test_ir_measures_does_not_count_missing_queries(data: Data) -> None:
    """NumQ and NumRel are 0 there for a query without a list, unlike in trec_eval -c and here."""
    texts = ["NumQ", "NumRel"]
    theirs = by_ir_measures(data, texts, peer("ir_measures"))
    missing = {(text, query) for text in texts for query in data.labels.keys() - data.lists.keys()}
    assert not any(theirs.pop(key) for key in missing)
    assert_same(data.ours(texts, "ir_measures", missing="drop"), theirs)

    counted = data.ours(texts, "ir_measures")
    assert counted["NumQ", MEAN] == theirs["NumQ", MEAN] + len(missing) / 2


@pytest.mark.parametrize("data", [long("NLPR03vb10"), *SEEDS], indirect=True)
def test_ir_measures_exponential_gains(data: Data) -> None:
    """nDCG(dcg='exp-log2') is gdeval's there: 64-bit scores, and rounded to 5 decimals."""
    tool = peer("ir_measures")
    if not tool.gdeval.is_available():
        pytest.skip("gdeval needs perl")
    texts = [f"nDCG(dcg='exp-log2')@{k}" for k in (3, 10, 1000)]
    theirs = by_ir_measures(data, texts, tool)
    assert_same(data.ours(texts, "ir_measures", score_precision="double"), theirs, 5e-6 + EXACT)


# our text -> its text
GDEVAL = {f"err(max_grade=4)@{k}": f"ERR@{k}" for k in (1, 3, 10, 1000)}


@pytest.mark.parametrize("data", [long("NLPR03vb10"), long("pircRBa1"), *SEEDS], indirect=True)
def test_ir_measures_expected_reciprocal_rank(data: Data) -> None:
    """ERR is gdeval's there, with grades up to 4, and rounded to 5 decimals."""
    tool = peer("ir_measures")
    if not tool.gdeval.is_available():
        pytest.skip("gdeval needs perl")
    numbers = by_ir_measures(data, GDEVAL.values(), tool)
    theirs = {(ours, q): numbers[their, q] for ours, their in GDEVAL.items() for _, q in numbers}
    ours = data.ours(GDEVAL, "ir_measures", score_precision="double")
    assert_same(ours, theirs, 5e-6 + EXACT)


@pytest.mark.parametrize("data", [long("uic0301"), *SEEDS], indirect=True)
def test_ir_measures_set_f(data: Data) -> None:
    """SetF is F over the whole list: at a cutoff that is as long as the list itself.

    Its beta is the importance of trec_eval's set_F, which multiplies recall in the sum of
    the reciprocals: our beta is its square root.
    """
    same_length = [len(scores) for scores in data.lists.values() if len(scores) > 1]
    k = max(set(same_length), key=same_length.count)
    alike = Data(
        {q: s for q, s in data.lists.items() if len(s) == k and q in data.labels},
        {q: grades for q, grades in data.labels.items() if len(data.lists.get(q, ())) == k},
    )
    names = {
        f"f@{k}": "SetF",
        f"f(beta=2)@{k}": "SetF(beta=4.0)",
        f"f(beta=0.5)@{k}": "SetF(beta=.25)",
    }
    numbers = by_ir_measures(alike, names.values(), peer("ir_measures"))
    theirs = {(ours, q): numbers[their, q] for ours, their in names.items() for _, q in numbers}
    assert_same(alike.ours(names, "ir_measures"), theirs)


def test_ir_measures_toy() -> None:
    theirs = by_ir_measures(TOY, ["nDCG@3"], peer("ir_measures"))
    assert round(theirs["nDCG@3", MEAN], 4) == 0.3244
    assert_same(TOY.ours(["nDCG@3"], "ir_measures"), theirs)


# --- ranx -----------------------------------------------------------------------------------

# our text -> its text
RANX = {
    "ndcg": "ndcg",
    "ndcg(gain=exp)": "ndcg_burges",
    "mrr": "mrr",
    "ap": "map",
    "rprec": "r-precision",
    "ap(rel=2)": "map-l2",
    "mrr(rel=2)": "mrr-l2",
    "rprec(rel=2)": "r-precision-l2",
    **pairs("ndcg@", "ndcg@"),
    **pairs("ndcg(gain=exp)@", "ndcg_burges@"),
    **pairs("recall@", "recall@"),
    **pairs("precision@", "precision@"),
    **pairs("hit@", "hit_rate@"),
    **pairs("mrr@", "mrr@"),
    **pairs("ap@", "map@"),
    **pairs("f1@", "f1@"),
    "recall(rel=2)@10": "recall@10-l2",
    "f1(rel=2)@10": "f1@10-l2",
}

# numba, while it compiles ranx: of how ranx itself is written.
quiet_numba = pytest.mark.filterwarnings("ignore:unsafe cast from uint64 to int64")


def by_ranx(data: Data, tool: ModuleType) -> Values:
    run = tool.Run(data.lists)
    # A query without a list is an error in ranx unless made comparable: then it counts 0.
    tool.evaluate(tool.Qrels(data.labels), run, [*RANX.values()], make_comparable=True)
    values: Values = {}
    for text, name in RANX.items():
        values |= {(text, query): value for query, value in run.scores[name].items()}
        values[text, MEAN] = run.mean_scores[name]
    return values


@pytest.mark.long  # numba compiles ranx for a minute the first time
@quiet_numba
def test_ranx(data: Data) -> None:
    """Without ties: its sort is not stable, so equal scores come in an order of its own."""
    untied = data.untied()
    theirs = by_ranx(untied, peer("ranx"))
    assert_same(untied.ours(RANX, "trec_eval"), theirs)


@pytest.mark.long
@quiet_numba
def test_ranx_toy() -> None:
    """In lists so short its sort is stable: q2 has f second, as it comes in."""
    theirs = by_ranx(TOY, peer("ranx"))
    assert round(theirs["ndcg@3", "q2"], 4) == 0.6309
    assert round(theirs["ndcg@3", MEAN], 4) == 0.3506
    assert_same(TOY.ours(RANX, "trec_eval", ties="input_order"), theirs)


# --- scikit-learn ---------------------------------------------------------------------------

# our text (the preset says gain=linear) -> its function and arguments, and the gain of a grade
SCIKIT_LEARN: Mapping[str, tuple[str, Mapping[str, float], Callable[[int], int]]] = {
    text.format(k=k): (function, {"k": k} | arguments, gain)
    for k in (1, 3, 10, 5000)
    for text, function, arguments, gain in (
        ("ndcg(ideal=shown_at_k)@{k}", "ndcg_score", {}, int),
        ("ndcg(ideal=shown_at_k, gain=exp)@{k}", "ndcg_score", {}, lambda grade: 2**grade - 1),
        ("dcg@{k}", "dcg_score", {}, int),
        ("dcg(gain=exp)@{k}", "dcg_score", {}, lambda grade: 2**grade - 1),
        ("dcg(discount=ln)@{k}", "dcg_score", {"log_base": math.e}, int),
    )
} | {"ndcg(ideal=shown_at_k)": ("ndcg_score", {}, int), "dcg": ("dcg_score", {}, int)}


def by_scikit_learn(data: Data, tool: ModuleType) -> Values:
    """Every list is a row of its own: scikit-learn knows only the items shown."""
    values: Values = {}
    for text, (function, arguments, gain) in SCIKIT_LEARN.items():
        by_query = {
            query: getattr(tool, function)(
                [[gain(data.labels[query].get(item, 0)) for item in scores]],
                [[*scores.values()]],
                ignore_ties=True,
                **arguments,
            )
            for query, scores in data.lists.items()
        }
        values |= {(text, query): value for query, value in by_query.items()}
        values[text, MEAN] = math.fsum(by_query.values()) / len(by_query)
    return values


@pytest.mark.parametrize("data", [long("NLPR03vb10"), long("uic0301"), *SEEDS], indirect=True)
def test_scikit_learn(data: Data) -> None:
    """Without ties, and without lists of one item, which scikit-learn refuses."""
    lists = data.untied().lists.items()
    ranked = {q: scores for q, scores in lists if q in data.labels and len(scores) > 1}
    data = Data(ranked, data.labels)
    theirs = by_scikit_learn(data, peer("sklearn.metrics"))
    assert_same(data.ours(SCIKIT_LEARN, "trec_eval", missing="drop"), theirs)


MAX_FPR = (1, 0.5, 0.1, 0.013)
AUC = [f"auc(max_fpr={most})" for most in MAX_FPR]


def by_scikit_learn_auc(data: Data, tool: ModuleType) -> Values:
    """AUC of what is scored and labelled: of each list, and of all together."""
    values: Values = {}
    pooled: list[tuple[bool, float]] = []
    for query, scores in data.lists.items():
        labels = data.labels.get(query, {})
        rows = [(labels[item] >= 1, score) for item, score in scores.items() if item in labels]
        pooled += rows
        if len({relevant for relevant, _ in rows}) == 2:
            values["gauc", query] = tool.roc_auc_score(*zip(*rows, strict=True))
    values["gauc", MEAN] = math.fsum(values.values()) / len(values)
    truth, scored = zip(*pooled, strict=True)
    return values | {
        (text, MEAN): tool.roc_auc_score(truth, scored, max_fpr=most)
        for text, most in zip(AUC, MAX_FPR, strict=True)
    }


def test_scikit_learn_auc(data: Data) -> None:
    """With all the ties that there are: it too counts them half. It refuses a single class."""
    theirs = by_scikit_learn_auc(data, peer("sklearn.metrics"))
    ours = data.ours(["gauc", *AUC], "house")
    assert_same({key: value for key, value in ours.items() if value is not None}, theirs)


def test_scikit_learn_averages_ties() -> None:
    """By default it gives the mean over all orders of equal scores; here one order is chosen.

    In q2 of the toy f is first (lower id), second (as it comes in) or last (higher id).
    """
    tool = peer("sklearn.metrics")
    text = "ndcg(ideal=shown_at_k)@3"
    orders = ("id_asc", "input_order", "id_desc")
    ours = [TOY.ours([text], "trec_eval", ties=ties)[text, "q2"] for ties in orders]
    theirs = tool.ndcg_score([[0, 2, 0]], [[5, 5, 5]], k=3)
    assert [round(value, 4) for value in ours] == [1, 0.6309, 0.5]
    assert theirs == pytest.approx(sum(ours) / 3)


# --- rbo: the paper's equation 32 ------------------------------------------------------------


def beside(data: Data, seed: int) -> Lists:
    """Another ranking of each query: cut short, shuffled near its ranks, with other items."""
    rng = random.Random(seed)
    other: Lists = {}
    for query, scores in data.lists.items():
        order = sorted(scores, key=lambda item: (-scores[item], item))[
            : rng.randint(1, len(scores))
        ]
        order = [f"new {item}" if rng.random() < 0.3 else item for item in order]
        near = {item: position + rng.gauss(0, 4) for position, item in enumerate(order)}
        other[query] = {item: -position for item, position in near.items()}
    return other


@pytest.mark.parametrize("data", [long("InexpC2"), long("rutcor03100"), *SEEDS], indirect=True)
@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
def test_rbo(data: Data, p: float) -> None:
    """Lists of different lengths too; of ties the lower id is first, here as there."""
    tool = peer("rbo")
    systems = {"prod": data.lists, "new": beside(data, 1)}
    rows = [
        {"system": system, "query_id": query, "item_id": item, "score": score}
        for system, lists in systems.items()
        for query, scores in lists.items()
        for item, score in scores.items()
    ]
    result = sm.evaluate(
        pa.Table.from_pylist(rows),
        _table(data.labels, "grade"),
        f"rbo(p={p}, average_over=rankings)",
        system="system",
        baseline="prod",
    )
    column = result.measures[0].column
    ours = {
        (row["system"], row["query_id"]): row[column]
        for row in result.per_query().to_pylist()
        if row[column] is not None
    }
    ranked = {
        system: {
            q: sorted(s, key=lambda item, s=s: (-s[item], item.encode())) for q, s in lists.items()
        }
        for system, lists in systems.items()
    }
    theirs = {
        (system, query): tool.RankingSimilarity(items, ranked["prod"][query]).rbo_ext(p=p)
        for system, lists in ranked.items()
        for query, items in lists.items()
    }
    assert_same(ours, theirs)
