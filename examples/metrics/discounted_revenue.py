"""Discounted revenue, row by row."""


def discounted_revenue(items, labels, *, k, rel):
    """Sum of what the labels of relevant items in the top k earned, over the rank."""
    relevant = [row for row in items[:k] if (row["grade"] or 0) >= rel]
    return sum((row.get("revenue") or 0) / row["rank"] for row in relevant)
