"""Expected exposure from its formula: two vectors and their product."""


def expected_exposure(items, labels, *, k, p, rel):
    """Product of the exposure that the list gives and the one that a fair ranker would give."""
    relevant = {row["item"] for row in labels if row["grade"] >= rel}
    if not relevant:
        return None
    shown = {row["item"]: p ** (row["rank"] - 1) for row in items[:k]}
    fair = sum(p**place for place in range(len(relevant))) / len(relevant)
    return sum(shown.get(item, 0) * fair for item in relevant)
