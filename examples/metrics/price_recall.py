"""Price-weighted recall, row by row."""


def price_recall(items, labels, *, k):
    """Worth of what is shown, over the worth of all labels."""
    worth = sum(row["grade"] for row in labels)
    return sum(row["grade"] or 0 for row in items[:k]) / worth if worth else None
