"""RecBole: its collector takes the top k of a score matrix, its evaluator the metrics.

Every user has a row with a score for every item. An item that is not in our list is at -inf, and
below the list there is room for k items that are nobody's: a list that is shorter than k is then
not filled up with relevant items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from conftest import peer

from tools import Labels, Lists, Values, cutoff, positives, version_of

NAMES = {
    "ndcg": "NDCG",
    "recall": "Recall",
    "precision": "Precision",
    "ap": "MAP",
    "mrr": "MRR",
    "hit": "Hit",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of("recbole.evaluator", "recbole")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    counted = positives(labels).keys() & lists.keys()
    return {query: mean(lists, {query: labels[query]}, text) for query in counted}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    k, name = cutoff(text), metrics[text]
    config = {
        "metrics": [name],
        "topk": [k],
        "metric_decimal_place": 15,  # 4 unless told otherwise
        "eval_args": {"mode": "full"},
        "device": "cpu",
    }
    with _old_numpy():
        tool = peer("recbole.evaluator")
        collector = tool.Collector(config)
        collector.eval_batch_collect(*_tensors(lists, positives(labels), k))
        (value,) = tool.Evaluator(config).evaluate(collector.get_data_struct()).values()
    return float(value)


def _tensors(
    lists: Lists, relevant: Mapping[str, list[str]], k: int
) -> tuple[object, None, object, object]:
    torch = peer("torch")
    users = [query for query in relevant if query in lists]
    names = {i for query in users for i in (*lists[query], *relevant[query])}
    column = {item: number for number, item in enumerate(sorted(names))}
    scores = torch.full((len(users), len(column) + k), -torch.inf, dtype=torch.float64)
    scores[:, len(column) :] = -1e300
    pairs = [(row, column[item]) for row, query in enumerate(users) for item in relevant[query]]
    for row, query in enumerate(users):
        for item, score in lists[query].items():
            scores[row, column[item]] = score
    rows, columns = zip(*pairs, strict=True)
    return scores, None, torch.tensor(rows), torch.tensor(columns)


@contextmanager
def _old_numpy() -> Iterator[None]:
    """RecBole 1.2.1 uses names that numpy 1.24 has taken away."""
    numpy = peer("numpy")
    with (
        patch.object(numpy, "float", float, create=True),
        patch.object(numpy, "bool", bool, create=True),
        patch.object(numpy, "int", int, create=True),
    ):
        yield
