"""The lists of a click log, as an evaluation reads them."""

from __future__ import annotations

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.template import lines


def rankings(tables: ClickTables) -> str:
    """What was shown, as rankings: a list a request, in the order of the positions.

    Of several texts of a request the least counts, and of several days the first.
    """
    of_request = "over (partition by request_id)"
    columns = [
        "request_id as query_id",
        "item_id",
        "-position as score",
        f"min(query_text) {of_request} as query_text",
        "system",
        f"min(metric_date) {of_request} as metric_date",
        *tables.names.segments,
    ]
    select = f"select\n    {lines(columns)}\nfrom {tables.of[tables.evaluates]}"
    return with_stages(tables.stages(tables.evaluates), select)
