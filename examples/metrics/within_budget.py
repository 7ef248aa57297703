"""Within the budget, from its formula."""


def within_budget(items, labels, *, k, query):
    """Share of the priced items of the top k that the budget allows."""
    prices = [row["price"] for row in items[:k] if row.get("price") is not None]
    budget = query.get("budget")
    within = sum(budget is None or price <= budget for price in prices)
    return within / len(prices) if prices else None
