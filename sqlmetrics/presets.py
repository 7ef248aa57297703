"""The presets: one row a tool, the choices by which its numbers come about.

`docs/presets/` has a page for each: what it means in words, which version was compared,
and what is left of a difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlmetrics.option import Preset, Value

_TREC: Mapping[str, Value] = {"gain": "linear", "ties": "id_desc", "no_relevant": "zero"}
_BINARY: Mapping[str, Value] = {"gain": "binary"}
_SHOWN: Mapping[str, Value] = {
    "ideal": "shown_at_k",
    "recall_denominator": "shown",
    "average_over": "rankings",
}
_COMMON: Mapping[str, Value] = {"average_over": "common"}
_ONE_RELEVANT: Mapping[str, Value] = {"gain": "binary", "ties": "best", "missing": "drop"}
_SAMPLED = (
    "with sampled candidates a metric cannot be compared with one over the whole catalogue, nor "
    "with another sample"
)
_JUDGMENTS: Mapping[str, Value] = {
    "ties": "input_order",
    "precision_denominator": "returned",
    "no_relevant": "zero",
}

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "house": Preset("sqlmetrics' own defaults"),
        "trec_eval": Preset("trec_eval 10 with -c", _TREC),
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
            {"ties": "id_asc", "no_relevant": "zero"},
        ),
        "ranx": Preset("ranx", {**_TREC, "ties": "input_order"}),
        "sklearn": Preset(
            "scikit-learn's ndcg_score and dcg_score over the shown items",
            {**_SHOWN, "gain": "linear", "ties": "average", "no_relevant": "zero"},
        ),
        "torchmetrics": Preset(
            "torchmetrics.retrieval: the shown rows alone",
            {
                **_SHOWN,
                "gain": "linear",
                "ap_denominator": "hits",
                "ties": "input_order",
                "no_relevant": "zero",
            },
            {"ndcg": {"ties": "average"}},
        ),
        "spark_mllib": Preset(
            "Spark MLlib's RankingMetrics",
            {
                **_BINARY,
                "ap_denominator": "min_k_r",
                "ties": "input_order",
                "no_relevant": "zero",
            },
        ),
        "recommenders": Preset(
            "recommenders: precision, recall and MAP over the queries of both tables",
            {**_BINARY, "ap_denominator": "min_k_r", "ties": "input_order"},
            dict.fromkeys(("precision", "recall", "ap"), _COMMON),
        ),
        "replay": Preset("RePlay", {**_BINARY, "ap_denominator": "min_k_r", "ties": "id_desc"}),
        "rectools": Preset(
            "RecTools: the ideal list has k relevant items",
            {**_BINARY, "ideal": "all_k", "ties": "input_order"},
        ),
        "rectools_achievable": Preset(
            "RecTools with divide_by_achievable", {**_BINARY, "ties": "input_order"}
        ),
        "recbole": Preset(
            "RecBole",
            {
                **_BINARY,
                "ap_denominator": "min_k_r",
                "ties": "input_order",
                "average_over": "common",
            },
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
            },
        ),
        "comirec": Preset(
            "ComiRec: the ideal list is that of the hits",
            {**_BINARY, "ideal": "hits", "ties": "input_order", "no_relevant": "zero"},
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
            "PaddleRec: leave-one-out NDCG and HR; PNR of scores with 6 decimals",
            {**_ONE_RELEVANT, "score_precision": "decimal6"},
            caveat=_SAMPLED,
        ),
        "mind": Preset(
            "the MIND news task: the shown list, RR over all clicks",
            {
                **_SHOWN,
                "gain": "exp",
                "rr_of": "all",
                "ties": "input_order",
                "no_relevant": "skip",
            },
        ),
        "evidently": Preset(
            "evidently: the shown rows of users with a relevant item",
            {
                **_SHOWN,
                "gain": "linear",
                "precision_denominator": "returned",
                "ap_denominator": "shown",
                "ties": "input_order",
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
            "Quepid's ndcg@10: the ideal list is not cut", {**_JUDGMENTS, "ideal": "labels"}
        ),
        "quepid_cut": Preset("Quepid's ndcg_cut@10", _JUDGMENTS),
        "rre": Preset(
            "Rated Ranking Evaluator: all rounded down to 2 decimals",
            {
                "rr_of": "highest_grade",
                "rounding": "floor2",
                "ties": "input_order",
                "no_relevant": "zero",
            },
        ),
    }
)
