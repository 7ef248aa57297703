"""Time-biased gain from its formula."""


def time_biased_gain(items, labels, *, k, t, h):
    """Sum of gain x 2^(-t x (rank - 1) / h) in the top k."""
    shown = [row for row in items if k is None or row["rank"] <= k]
    return sum((2 ** (row["grade"] or 0) - 1) * 2 ** (-t * (row["rank"] - 1) / h) for row in shown)
