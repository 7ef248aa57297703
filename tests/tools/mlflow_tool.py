"""MLflow: `ndcg_at_k`, `recall_at_k` and `precision_at_k` of retrieved documents, a row a query.

`pip install mlflow-skinny pandas scikit-learn` is enough.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, average, cutoff, ordered, positives, version_of

MODULE = "mlflow.metrics.metric_definitions"
metrics = {
    f"{ours}@{k}": f"_{ours}_at_k_eval_fn"
    for ours in ("ndcg", "recall", "precision")
    for k in (1, 3, 10)
}


def version() -> str:
    return version_of(MODULE, "mlflow-skinny")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """A row for every query with a label or a list."""
    queries = list(dict.fromkeys([*labels, *lists]))
    relevant, tool = positives(labels), peer(MODULE)
    series = peer("pandas").Series
    evaluated = getattr(tool, metrics[text])(cutoff(text))(
        series([ordered(lists.get(query, {})) for query in queries]),
        series([relevant.get(query, []) for query in queries]),
    )
    return dict(zip(queries, map(float, evaluated.scores), strict=True))


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return average(per_query(lists, labels, text))
