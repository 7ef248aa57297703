"""Upcoming events, from its formula."""


def upcoming_share(items, labels, *, k, query):
    """Share of the dated items of the top k that are not over."""
    days = [row["begins"] for row in items[:k] if row.get("begins") is not None]
    upcoming = sum(day >= query["metric_date"] for day in days)
    return upcoming / len(days) if days else None
