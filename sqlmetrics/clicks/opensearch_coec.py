"""OpenSearch's own COEC: clicks over those expected at the topmost rank where an item was seen.

As in CoecClickModel.java of opensearch-project/search-relevance, read in November 2026. It is
another number than `coec`, which goes by the position of each impression:

- all events with the action `click` count, also several of one request and those on items that
  the request did not show; they count at their own position;
- what is expected of a pair of a query and an item is its impressions times the click rate of the
  topmost position that any of its events has;
- positions count as they are logged; the rate of one without an impression is 0;
- nothing is cleaned, deduplicated or attributed; 0 where nothing is expected; 3 decimals.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import double


def rates(tables: ClickTables) -> Iterator[Stage]:
    """The stages from the events of User Behavior Insights to `item_rates`."""
    names, label_settings = tables.names, tables.clicks.labels
    condition = names.where.get("events")
    window = (
        names.holds(label_settings.window, names.moment("events")) if label_settings.window else []
    )
    last = (
        [f"{names.position} <= {label_settings.max_rank}"]
        if label_settings.max_rank is not None
        else []
    )
    conditions = [
        "action_name in ('click', 'impression')",
        *([f"({condition})"] if condition else []),
    ]
    view = {
        "about": "impressions and clicks as logged, each at its own position",
        "columns": [
            Column(f"cast({names.impressions['query']} as varchar)", "query_text"),
            Column(f"cast({names.impressions['item']} as varchar)", "item_id"),
            Column(names.position, "position"),
            Column("case when action_name = 'click' then 1 else 0 end", "is_click"),
        ],
        "relation": tables.relation("impressions"),
        "conditions": [*conditions, *window, *last],
    }
    yield Stage("opensearch_events", "clicks/table", view)
    # its loop over the ranks ends before maxRank: of that one it knows no rate
    last_rank = double(label_settings.max_rank) if label_settings.max_rank is not None else ""
    yield Stage("opensearch_ranks", "clicks/opensearch_ranks", {"last": last_rank})
    yield Stage(
        "opensearch_pairs", "clicks/opensearch_pairs", {"fewest": label_settings.min_impressions}
    )
    yield Stage("item_rates", "clicks/opensearch_rates", {})
