"""The presets: one row per tool, the choices by which its numbers come about.

`docs/presets/` has a page for each: what it means in words, which version was compared,
and what is left of a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlmetrics.catalog.option import Difference, Preset, Value

_TREC: Mapping[str, Value] = {"gain": "linear", "ties": "id_desc", "no_relevant": "zero"}
_BINARY: Mapping[str, Value] = {"gain": "binary"}
_IDEAL_OF_SHOWN: Mapping[str, Value] = {"ideal": "shown_at_k", "average_over": "rankings"}
_POSITIVES: Mapping[str, Value] = {"gain": "binary", "average_over": "relevant"}
_ONE_RELEVANT: Mapping[str, Value] = {**_POSITIVES, "ties": "best", "missing": "drop"}
_SAMPLED = (
    "with sampled candidates a metric cannot be compared with one over the whole catalogue, nor "
    "with another sample"
)
_JUDGMENTS: Mapping[str, Value] = {
    "ties": "input_order",
    "precision_denominator": "returned",
    "no_relevant": "zero",
}
_BOOSTER: Mapping[str, Value] = {
    **_IDEAL_OF_SHOWN,
    "recall_denominator": "shown",
    "precision_denominator": "returned",
    "ap_denominator": "min_k_shown",
    "ties": "input_order",
    "no_relevant": "one",
}
_LLAMAINDEX: Mapping[str, Value] = {
    **_BINARY,
    "precision_denominator": "returned",
    "ties": "input_order",
    "average_over": "common_relevant",
}
_RUN: Mapping[str, Value] = {**_TREC, "score_precision": "float32", "average_over": "common"}
_VERDICTS: Mapping[str, Value] = {
    "ap_denominator": "hits",
    "ties": "input_order",
    "average_over": "rankings",
}
_QUEPID_AP: Mapping[str, Mapping[str, Value]] = {"ap": {"no_relevant": "nan"}}
_FIRST_32 = Difference(
    ("ndcg", "ap"),
    "without a cutoff, XGBoost uses the first 32 rows of a query; for longer lists use ndcg@32 "
    "and ap@32",
    uncut=True,
)
_HOLE = Difference(
    ("hole",),
    "BEIR counts an item as labelled if any query has a label of it; here its own query must have "
    "one",
)

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "house": Preset("sqlmetrics' own defaults"),
        "trec_eval": Preset("trec_eval 10 with -c", {**_TREC, "recall_level": "nearest"}),
        "trec_eval_9": Preset(
            "trec_eval 9 and pytrec_eval: 32-bit scores, no missing queries",
            {**_TREC, "score_precision": "float32", "missing": "drop"},
        ),
        "ir_measures": Preset(
            "ir_measures' pytrec_eval provider: 32-bit scores",
            {**_TREC, "score_precision": "float32"},
        ),
        "msmarco": Preset(
            "ir_measures' msmarco provider (RR@k): lower id first",
            {**_TREC, "ties": "id_asc"},
        ),
        "ranx": Preset(
            "ranx",
            {**_TREC, "rbp_of": "grade", "ties": "input_order"},
            differences=(
                Difference(
                    ("bpref",),
                    "ranx pads the labels of each query to the longest list of labels, so a "
                    "query's value depends on the other queries; for a single query the values "
                    "are equal",
                ),
            ),
        ),
        "sklearn": Preset(
            "scikit-learn's ndcg_score and dcg_score over the shown items",
            {**_IDEAL_OF_SHOWN, "gain": "linear", "ties": "average", "no_relevant": "zero"},
        ),
        "torchmetrics": Preset(
            "torchmetrics.retrieval: only the shown rows",
            {
                **_IDEAL_OF_SHOWN,
                "gain": "linear",
                "recall_denominator": "shown",
                "ap_denominator": "hits",
                "ties": "input_order",
                "score_precision": "float32",
                "no_relevant": "zero",
            },
            {"ndcg": {"ties": "average"}},
            differences=(
                Difference(
                    ("rprec",),
                    "torchmetrics computes R from the given rows; here R counts all labels of "
                    "the query, so label only the rows of the list",
                ),
            ),
        ),
        "ignite": Preset(
            "PyTorch Ignite's NDCG and HitRate of rows of items",
            {
                "ideal": "shown_at_k",
                "ties": "input_order",
                "score_precision": "float32",
                "average_over": "relevant_shown",
            },
            only=("ndcg", "hit"),
        ),
        "spark_mllib": Preset(
            "Spark MLlib's RankingMetrics",
            {
                **_BINARY,
                "ap_denominator": "min_k_r",
                "ties": "input_order",
                "no_relevant": "zero",
                "average_over": "either",
            },
        ),
        "recommenders": Preset(
            "recommenders: precision, recall and MAP over the queries of both tables",
            {
                **_BINARY,
                "ap_denominator": "min_k_r",
                "ties": "input_order",
                "average_over": "common_relevant",
            },
            {"ndcg": {"average_over": "relevant"}},
        ),
        "replay": Preset("RePlay", {**_POSITIVES, "ap_denominator": "min_k_r", "ties": "id_desc"}),
        "rectools": Preset(
            "RecTools: the ideal list has k relevant items",
            {**_POSITIVES, "ideal": "all_k", "ties": "input_order"},
        ),
        "rectools_achievable": Preset(
            "RecTools with divide_by_achievable", {**_POSITIVES, "ties": "input_order"}
        ),
        "recbole": Preset(
            "RecBole",
            {
                **_POSITIVES,
                "ap_denominator": "min_k_r",
                "ties": "input_order",
                "missing": "drop",
            },
            differences=(
                Difference(
                    ("coverage", "gini"),
                    "RecBole counts its padding item as part of the catalogue: with N items its "
                    "coverage is N / (N + 1) times this one, and its Gini has one more item "
                    "that was never shown",
                ),
            ),
        ),
        "lenskit": Preset(
            "LensKit: ranks 1 and 2 weigh the same",
            {
                **_BINARY,
                "discount": "log2_max2",
                "recall_denominator": "min_k_r",
                "precision_denominator": "returned",
                "ap_denominator": "min_r_returned",
                "ties": "input_order",
                "no_relevant": "zero",
                "average_over": "rankings",
            },
        ),
        "comirec": Preset(
            "ComiRec: the ideal list is made of the hits",
            {**_POSITIVES, "ideal": "hits", "ties": "input_order", "no_relevant": "zero"},
        ),
        "sasrec": Preset(
            "SASRec: one relevant item among 100 uniformly sampled candidates",
            _ONE_RELEVANT,
            caveat=_SAMPLED,
        ),
        "bert4rec": Preset(
            "BERT4Rec: one relevant item among 100 candidates sampled by popularity",
            _ONE_RELEVANT,
            caveat=_SAMPLED,
        ),
        "paddlerec": Preset(
            "PaddleRec: leave-one-out NDCG and HR",
            {**_ONE_RELEVANT, "ties": "input_order"},
            caveat=_SAMPLED,
        ),
        "mind": Preset(
            "the MIND news task: the shown list, RR over all clicks",
            {**_IDEAL_OF_SHOWN, "rr_of": "all", "ties": "input_order"},
        ),
        "evidently": Preset(
            "evidently: the shown rows of users with a relevant item",
            {
                "gain": "linear",
                "ideal": "shown_at_k",
                "recall_denominator": "shown",
                "precision_denominator": "returned",
                "ap_denominator": "shown",
                "ties": "input_order",
                "missing": "drop",
                "average_over": "relevant_shown",
            },
        ),
        "elasticsearch": Preset(
            "Elasticsearch's ranking evaluation API", {**_JUDGMENTS, "ideal": "returned"}
        ),
        "opensearch": Preset(
            "OpenSearch's search relevance workbench: values with 2 decimals",
            {**_JUDGMENTS, "rounding": 2},
        ),
        "quepid": Preset(
            "Quepid's ndcg@10: the ideal list is not cut",
            {**_JUDGMENTS, "ideal": "labels"},
            _QUEPID_AP,
        ),
        "quepid_cut": Preset("Quepid's ndcg_cut@10", _JUDGMENTS, _QUEPID_AP),
        "rre": Preset(
            "Rated Ranking Evaluator: values with 2 decimals; NDCG and its terms are rounded down",
            {**_JUDGMENTS, "rr_of": "highest_grade", "rounding": 2},
            {"ndcg": {"rounding": "floor2"}},
        ),
        "lightgbm": Preset(
            "LightGBM's ndcg and map: a query without relevant items counts 1", _BOOSTER
        ),
        "xgboost": Preset(
            "XGBoost's ndcg, map and pre: a query without relevant items counts 1",
            {**_BOOSTER, "score_precision": "float32"},
            differences=(_FIRST_32,),
        ),
        "xgboost_minus": Preset(
            "XGBoost's ndcg@k- and map@k-: a query without relevant items counts 0",
            {**_BOOSTER, "score_precision": "float32", "no_relevant": "zero"},
            differences=(_FIRST_32,),
        ),
        "catboost": Preset(
            "CatBoost: NDCG with the grade as gain; of equal scores the lowest grade comes first",
            {**_BOOSTER, "gain": "linear", "ties": "worst"},
            {"ap": {"no_relevant": "zero"}},
        ),
        "ranklib": Preset(
            "RankLib: the shown rows; a query without relevant items counts 0",
            {
                **_IDEAL_OF_SHOWN,
                "precision_denominator": "returned",
                "ap_denominator": "shown",
                "ties": "input_order",
                "no_relevant": "zero",
            },
        ),
        "llamaindex": Preset(
            "LlamaIndex's retriever evaluator: the ideal list is not cut",
            {**_LLAMAINDEX, "ideal": "labels"},
        ),
        "llamaindex_old": Preset(
            "LlamaIndex's NDCG before November 2024: all returned items could be relevant",
            {**_LLAMAINDEX, "ideal": "all_returned"},
            only=("ndcg",),
        ),
        "haystack": Preset(
            "Haystack's document evaluators: the ideal list is not cut",
            {"gain": "linear", "ideal": "labels", "ties": "input_order", "no_relevant": "zero"},
        ),
        "ragas": Preset(
            "Ragas: context precision / hits, precision and recall of ids",
            {**_VERDICTS, "precision_denominator": "returned"},
            {"ap": {"no_relevant": "zero"}},
            only=("ap", "precision", "recall"),
        ),
        "deepeval": Preset(
            "DeepEval: contextual precision / hits",
            {**_VERDICTS, "duplicate_rankings": "count", "no_relevant": "zero"},
            only=("ap",),
        ),
        "trulens": Preset(
            "TruLens' GroundTruthAgreement: recall and precision count ties of the k-th",
            {
                "gain": "linear",
                "precision_denominator": "returned",
                "ties": "input_order",
                "duplicate_rankings": "first",
                "average_over": "relevant",
            },
            {name: {"ties": "include"} for name in ("precision", "recall")},
            only=("ndcg", "precision", "recall", "mrr", "hit"),
        ),
        "phoenix": Preset(
            "Phoenix: only the evaluated documents of a trace",
            {
                **_IDEAL_OF_SHOWN,
                "gain": "linear",
                "ties": "input_order",
                "duplicate_rankings": "count",
                "unjudged": "skip",
                "no_relevant": "zero",
            },
            only=("ndcg", "precision", "mrr", "hit"),
        ),
        "mlflow": Preset(
            "MLflow's ndcg_at_k, recall_at_k and precision_at_k of retrieved documents",
            {
                **_BINARY,
                "ideal": "returned",
                "precision_denominator": "returned",
                "ties": "input_order",
                "no_relevant": "one_if_empty",
                "average_over": "either",
            },
            {"precision": {"no_relevant": "zero"}},
            only=("ndcg", "recall", "precision"),
        ),
        "sentence_transformers": Preset(
            "Sentence Transformers' InformationRetrievalEvaluator",
            {**_POSITIVES, "ap_denominator": "min_k_r"},
        ),
        "pyvespa": Preset(
            "pyvespa's VespaEvaluator: hits as Vespa orders them",
            {**_POSITIVES, "ap_denominator": "min_k_r", "ties": "input_order"},
            only=("ndcg", "ap", "mrr", "recall", "precision", "hit"),
        ),
        "beir": Preset(
            "BEIR: NDCG, MAP, recall and precision over the queries of the run",
            {**_RUN, "identical_ids": "drop"},
            only=("ndcg", "ap", "recall", "precision"),
            differences=(_HOLE,),
            decimals=5,
        ),
        "beir_custom": Preset(
            "BEIR's evaluate_custom: MRR, accuracy and capped recall over all labelled queries",
            {**_TREC, "recall_denominator": "min_k_r", "ties": "input_order"},
            only=("mrr", "hit", "recall"),
            differences=(_HOLE,),
            decimals=5,
        ),
        "mteb": Preset("MTEB: the queries of the run", _RUN, decimals=5),
        "mteb_old": Preset(
            "MTEB's MRR before August 2026: equal scores in input order",
            {**_TREC, "ties": "input_order", "average_over": "common"},
            only=("mrr",),
        ),
        "daisyrec": Preset(
            "DaisyRec: the ideal list and AP's denominator are the hits",
            {
                **_BINARY,
                "ideal": "hits",
                "precision_denominator": "returned",
                "ap_denominator": "hits",
                "ties": "input_order",
                "no_relevant": "zero",
                "average_over": "common_relevant",
            },
            differences=(
                Difference(
                    ("f1",),
                    "daisyRec's F1 of a user without a hit is NaN, and so is its mean; here it "
                    "is 0",
                ),
            ),
        ),
    }
)
