"""What SDBN counts of a query's text and an item, for labels: no iteration, and no held-out part.

Its attractiveness is clicks over impressions down to the last click, its satisfaction last clicks
over clicks; their product, the relevance, is last clicks over impressions down to the last click.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.sql.stage import Stage


def examined_positions(tables: ClickTables) -> Iterator[Stage]:
    """The stages to `item_positions` with n_examined and n_last_clicks."""
    days, when = tables.learned or ("", [])
    view = {"of": tables.of, "impressions": tables.left, "days": days, "when": when}
    yield from tables.stages(tables.left, "answers", *(["request_queries"] if days else []))
    yield Stage("last_clicks", "clicks/last_clicks", view)
    yield Stage("examined_positions", "clicks/examined_positions", view)
