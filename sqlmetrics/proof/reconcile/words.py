"""Departures from a preset in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Setting, plain_text

CUT = "the value is cut off, not rounded"

_SENTENCES = {
    "gain": "a grade is worth {}",
    "discount": "a rank is worth {}",
    "stop": "a reader stops with probability {}",
    "ideal": "the ideal list: {}",
    "recall_denominator": "recall divides by {}",
    "recall_level": "a level of recall is {}",
    "precision_denominator": "precision divides by {}",
    "ap_denominator": "average precision divides by {}",
    "rr_of": "reciprocal rank looks at {}",
    "rbp_of": "in RBP a relevant item is worth {}",
    "ties": "equal scores: {}",
    "score_precision": "scores are compared as {}",
    "min_score": "the lowest score of a returned item: {}",
    "depth": "the last rank that counts is {}",
    "duplicate_rankings": "an item that appears twice in a ranking {}",
    "identical_ids": "an item that has the id of its query {}",
    "unjudged": "a ranked item without a label {}",
    "missing": "a labelled query without a ranking {}",
    "no_relevant": "a query for which the metric is undefined {}",
    "average": "the summary is the {}",
    "average_over": "the mean runs over {}",
    "rounding": "the value of a query is rounded {}",
    "similarity": "the similarity of two items is {}",
    "gauc_weight": "the weight of a query's AUC is {}",
    "tied_scores": "a pair with equal scores {}",
    "equal_labels": "a pair with equal grades {}",
    "pnr_form": "concordant pairs are divided by {}",
    "rbo_ties": "equal scores in rank-biased overlap: {}",
    "rbo_bound": "below the ends of the lists: {}",
    "rel": "relevant from grade {}",
}


def departure(name: str, value: Setting) -> str:
    """One option that departs, as a clause.

    >>> departure("average_over", "hits")
    'the mean runs over queries with a relevant item in the top k'
    """
    if name == "rel":
        return _SENTENCES[name].format(plain_text(value))
    choice = OPTIONS[name].choice(value)
    clause = _SENTENCES[name].format(choice.meaning)
    return clause if choice.name == str(value) else f"{clause} ({name}={value})"


def sentence(
    presets: Sequence[str], departures: Mapping[str, Setting], *, cut: bool, decimals: int = 0
) -> str:
    """Presets, and how one departs from them.

    >>> sentence(["beir"], {}, cut=False, decimals=5)
    'beir, whose means have 5 decimals: the number was rounded twice'
    """
    clauses = [departure(name, value) for name, value in departures.items()]
    clauses += [CUT] * cut
    subject = listed(presets)
    if decimals:
        subject += f", whose means have {decimals} decimals: the number was rounded twice"
    return f"{subject}, but {'; '.join(clauses)}" if clauses else subject


def listed(presets: Sequence[str], most: int = 4) -> str:
    """The names of presets that are alike here."""
    if len(presets) <= most:
        *first, last = presets
        return f"{', '.join(first)} or {last}" if first else last
    return f"{', '.join(presets[: most - 1])} or {len(presets) - most + 1} other presets"
