"""Runs and judgments as pytrec_eval and its like take them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from memory import evaluate

Lists = dict[str, dict[str, float]]  # query -> item -> score
Labels = dict[str, dict[str, int]]  # query -> item -> grade
Values = dict[tuple[str, str], float]  # (our text of the metric, query or MEAN) -> value
MEAN = "the mean"  # or the total, of a count


@dataclass(frozen=True)
class Data:
    """Rankings and labels as the peers take them."""

    lists: Lists
    labels: Labels

    def ours(self, texts: Iterable[str], preset: str, **conventions: Any) -> Values:
        """Our values of the metrics, for every query that counts, and their means."""
        texts = list(texts)
        conventions.setdefault("cell", f"{preset} {texts} {len(self.lists)}")
        result = evaluate(
            _table(self.lists, "score"),
            _table(self.labels, "grade"),
            texts,
            preset=preset,
            **conventions,
        )
        columns = {text: result.spec.measure(text).column for text in texts}
        values = {
            (text, row["query_id"]): row[column]
            for row in result.per_query().to_pylist()
            for text, column in columns.items()
            if column in row
        }
        return values | {(text, MEAN): result[text] for text in texts}

    def untied(self) -> Data:
        """The same, but in a list with ties the scores n, n-1, ... 1, in trec_eval's order."""
        lists = {}
        for query, scores in self.lists.items():
            if len(set(scores.values())) < len(scores):
                order = sorted(scores, key=lambda item: (scores[item], item))
                lists[query] = {item: float(score) for score, item in enumerate(order, 1)}
            else:
                lists[query] = scores
        return Data(lists, self.labels)


def _table(rows: Mapping[str, Mapping[str, float]], value: str) -> pa.Table:
    flat = [(query, str(item), x) for query, items in rows.items() for item, x in items.items()]
    columns = zip(*flat, strict=True)
    return pa.table(dict(zip(("query_id", "item_id", value), columns, strict=True)))


# One data set, one name, nDCG@3: the mean is .3244 in ir_measures and .3506 in ranx.
TOY = Data(
    {
        "q1": {"a": 9, "z": 8, "c": 7, "x": 6, "b": 5},
        "q2": {"m": 5, "f": 5, "n": 5},  # a tie of three
        "q3": {"p": 2, "g": 1},  # shorter than 3
        "q4": {"i": 2, "j": 1},
        "q6": {"a": 1},  # not in the labels
    },
    {
        "q1": {"a": 3, "b": 2, "c": 1, "d": 1, "e": 1, "x": 0},
        "q2": {"f": 2},
        "q3": {"g": 1, "h": 1},
        "q4": {"i": 0},  # no relevant label
        "q5": {"k1": 1},  # no list
    },
)
