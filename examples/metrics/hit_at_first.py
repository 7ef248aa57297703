"""Whether the first item is relevant, from its formula."""


def hit_at_first(items, labels, *, k, rel):
    """1 if the first item is relevant."""
    return float(any((row["grade"] or 0) >= rel for row in items[:1]))
