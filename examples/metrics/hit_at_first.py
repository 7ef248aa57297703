"""Whether the first item is relevant, from its formula."""


def hit_at_first(items, labels, *, k, rel):
    return float(any((row["grade"] or 0) >= rel for row in items[:1]))
