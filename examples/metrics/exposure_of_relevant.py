"""Exposure of the relevant items from its formula."""


def exposure_of_relevant(items, labels, *, k, p, rel):
    """Sum of p^(rank - 1) over relevant items in the top k."""
    return sum(p ** (row["rank"] - 1) for row in items[:k] if (row["grade"] or 0) >= rel)
