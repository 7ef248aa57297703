"""torchmetrics' retrieval metrics: 32-bit, on the rows shown; all but NDCG want targets 0 and 1."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, cutoff, version_of

NAMES = {
    "ndcg": "RetrievalNormalizedDCG",
    "recall": "RetrievalRecall",
    "precision": "RetrievalPrecision",
    "precision(precision_denominator=returned)": "RetrievalPrecision adaptive",
    "ap": "RetrievalMAP",
    "mrr": "RetrievalMRR",
    "hit": "RetrievalHitRate",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of("torchmetrics", "torchmetrics")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    return {query: mean({query: scores}, labels, text) for query, scores in lists.items()}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    torch, tool = peer("torch"), peer("torchmetrics.retrieval")
    name, _, adaptive = metrics[text].partition(" ")
    options = {"adaptive_k": True} if adaptive else {}
    metric = getattr(tool, name)(top_k=cutoff(text), **options)
    graded = name == "RetrievalNormalizedDCG"
    rows = [
        (index, score, labels.get(query, {}).get(str(item), 0))
        for index, (query, scores) in enumerate(lists.items())
        for item, score in scores.items()
    ]
    indexes, scores, grades = zip(*rows, strict=True)
    target = torch.tensor([grade if graded else int(grade >= 1) for grade in grades])
    preds = torch.tensor([float(score) for score in scores])
    return float(metric(preds, target, indexes=torch.tensor(indexes)))
