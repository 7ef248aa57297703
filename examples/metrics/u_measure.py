"""U-measure from its formula."""


def u_measure(items, labels, *, k, l, c):
    """Sum of gain x (1 - rank x c / l), 0 where that is below 0."""
    shown = [row for row in items if k is None or row["rank"] <= k]
    return sum((2 ** (row["grade"] or 0) - 1) * max(0, 1 - row["rank"] * c / l) for row in shown)
