"""Exposure of a seller, row by row."""

from math import log2


def seller_exposure(items, labels, *, k):
    """Share of the discounted places in the top k that the seller `own` has."""
    shown = [(row.get("seller"), 1 / log2(row["rank"] + 1)) for row in items[:k]]
    total = sum(weight for _, weight in shown)
    return sum(weight for seller, weight in shown if seller == "own") / total if shown else None
