"""Freshness, row by row."""


def freshness(items, labels, *, k, h):
    """Mean of 2^(-age / h) in the top k."""
    ages = [row["age_days"] for row in items[:k] if row.get("age_days") is not None]
    return sum(2 ** (-age / h) for age in ages) / len(ages) if ages else None
