"""Share of sponsored items, row by row."""


def sponsored_share(items, labels, *, k):
    """Sponsored items in the top k, over items there."""
    shown = items[:k]
    return sum(bool(row.get("sponsored")) for row in shown) / len(shown) if shown else None
