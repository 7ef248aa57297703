"""DeepEval: contextual precision of given verdicts; it has no k."""

from __future__ import annotations

from types import SimpleNamespace

from conftest import peer

from tools import Labels, Lists, Values, average, ordered, top, version_of

MODULE = "deepeval.metrics.contextual_precision.contextual_precision"
metrics = dict.fromkeys(("ap", "ap@1", "ap@3", "ap@10"), "ContextualPrecisionMetric")


def version() -> str:
    return version_of(MODULE, "deepeval")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """Of every test case: a list of contexts."""
    tool = peer(MODULE)
    metric = getattr(tool, metrics[text])
    words = {True: tool.Verdict.YES, False: tool.Verdict.NO}
    values = {}
    for query, scores in lists.items():
        graded = labels.get(query, {})
        case = metric.__new__(metric)  # its constructor asks for a language model
        case.strict_mode = False
        case.verdicts = [
            SimpleNamespace(verdict=words[graded.get(item, 0) > 0])
            for item in top(ordered(scores), text)
        ]
        values[query] = float(case._calculate_score())
    return values


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return average(per_query(lists, labels, text))
