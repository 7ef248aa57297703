"""Revenue, row by row."""


def revenue(items, labels, *, k, rel):
    """Sum of the prices of relevant items in the top k."""
    return sum(row.get("price") or 0 for row in items[:k] if (row["grade"] or 0) >= rel)
