"""Success by intent, from its formula."""


def success_by_intent(items, labels, *, k, query):
    """Whether the item is found where this intent looks for it."""
    wanted = items[:1] if query["intent"] == "navigational" else items[:k]
    return float(any((row["grade"] or 0) >= 1 for row in wanted))
