"""The lists of a click log, as an evaluation reads them."""

from __future__ import annotations

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.columns import SESSION
from sqlmetrics.sql.stage import Column, print_template, with_stages
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


def shown_ranks(tables: ClickTables) -> str:
    """The ranks of answered items in requests in order, as a `select`.

    It has a row without a rank for each such request in which nothing was done.
    """
    request = Column("orderly_requests.request_id", "query_id")
    fact_names = [name for name in tables.rows.facts if name != SESSION]
    facts = [Column(f"orderly_requests.{name}", name) for name in fact_names]
    view = {"of": tables.of, "columns": [request, *facts]}
    select = print_template("clicks/shown_ranks", view)
    return with_stages(tables.stages("orderly_requests"), select)
