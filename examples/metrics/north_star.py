"""The north star from its formula."""


def north_star(items, labels, *, k, rel):
    """0.7 for any relevant item, and 0.3 x precision."""
    hits = sum((row["grade"] or 0) >= rel for row in items[:k])
    return 0.7 * (hits > 0) + 0.3 * hits / k
