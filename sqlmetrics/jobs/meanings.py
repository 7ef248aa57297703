"""What the tables and views of a job say of themselves, in the database's own COMMENTs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlmetrics.catalog.dimension import metric_rows
from sqlmetrics.clicks.request_rows import QUERY_TEXT, request_columns
from sqlmetrics.jobs.tables import PER_QUERY
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal
from sqlmetrics.sql.translation import Translation

ROLL_UP = (
    "Roll up by sum(numerator) / sum(denominator) within one segment_name, never by avg(value)."
)

TABLES: Mapping[str, str] = {
    "facts": "Ranking metrics: one row per spec, day, system, segment, metric and cutoff. "
    + ROLL_UP,
    "per_query": "The values behind the metrics: one row per spec, day, system and query.",
    "runs": "The run log: one row per run, also of those that failed.",
    "metrics": "What each metric is: one row per metric and cutoff, to be joined by both.",
    "definitions": "What each definition_hash stands for: one row per definition of a metric.",
}
"""Table -> what it is."""

_KEYS: Mapping[str, str] = {
    "spec": "The spec that the row is of.",
    "metric_date": "The day; 1970-01-01 where the rankings have no dates.",
    "system": "The ranker, model or run.",
    "segment_name": "all, or the column that the queries are cut by. Choose one of them: each "
    "holds all queries.",
    "segment_value": "The value of that column; all for all.",
    "metric": "The metric without its cutoff, like ndcg or recall(rel=2).",
    "k": "The cutoff; 0 for none.",
    "query_id": "The query; of a click log the request.",
    "definition_hash": "The definition by which it was computed: see the table of definitions.",
    "run_id": "The run that wrote it: see the run log.",
}

_FACTS: Mapping[str, str] = {
    **_KEYS,
    "value": "The metric on this day: numerator / denominator. " + ROLL_UP,
    "numerator": "The sum over queries that value is made of; it adds up over days. NULL for what "
    "cannot be added up.",
    "denominator": "What it is divided by, like the number of queries that count; it adds up too.",
    "n_queries": "Queries that count.",
    "n_skipped": "Queries left out because the metric is not defined for them.",
    "n_missing": "Queries that have labels and no list of this system.",
    "sum_sq": "The sum of squared values over queries.",
    "ci_low": "Lower end of the interval of value.",
    "ci_high": "Upper end of the interval of value.",
    "ci_method": "What the interval is.",
    "computed_at": "When it was computed, in UTC.",
    "n_clusters": "Queries that count, or clusters of them: what is independent.",
    "sum_x": "The sum of what each adds to the numerator.",
    "sum_x2": "The sum of squares of what each adds to the numerator.",
    "sum_w2": "The sum of squares of what each adds to the denominator.",
    "sum_xw": "The sum of products of what each adds to both.",
    "baseline": "The system that the row stands beside.",
    "n_pairs": "Queries that both systems have a value of.",
    "pair_clusters": "These, or clusters of them.",
    "pair_w": "The sum of their weights.",
    "pair_w2": "The sum of their squared weights.",
    "sum_y": "The sum of the baseline's values.",
    "sum_y2": "The sum of the baseline's squared values.",
    "sum_xy": "The sum of products of both systems' values.",
    "sum_d": "The sum of differences from the baseline.",
    "sum_d2": "The sum of squared differences.",
    "sum_dw": "The sum of products of differences and weights.",
    "difference": "The mean difference from the baseline, query by query.",
    "difference_low": "Lower end of its interval.",
    "difference_high": "Upper end of its interval.",
}

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "facts": _FACTS,
    "per_query": _KEYS,
    "runs": {
        **_KEYS,
        "run_id": "The run.",
        "started_at": "When it began, in UTC.",
        "seconds": "How long it took.",
        "range_start": "The first day that it replaced; NULL for all.",
        "range_end": "The day after the last one; NULL for all.",
        "facts": "Rows of the fact table that stand for these days.",
        "per_query": "Rows of the per-query table that do.",
        "engine": "The database and its version.",
        "version": "Of sqlmetrics.",
        "outcome": "replaced, restored, retired, failed, or running.",
        "message": "Why it failed, or what should be known of the input.",
        "sources": "Where its tables were, and the names of their columns, as JSON.",
        "metrics": "What it asked for.",
        "user_name": "Who ran it, as the machine has them; NULL for compiled text.",
        "host": "On which machine; likewise.",
        "revision": "The git revision of the spec's folder; -dirty if files had changed since.",
        "note": "Why, in the words of --note.",
        "archived": "Rows of these days before it, which the archives got; NULL if none are kept.",
        "restores": "The run that it took back; NULL for any other run.",
    },
    "metrics": {
        **_KEYS,
        "name": "The metric with its cutoff, like ndcg@10.",
        "column_name": "Its column in wide tables and views, like ndcg_at_10.",
        "label": "Its title for people.",
        "meaning": "Its formula in one line.",
        "range_low": "The least value that it can have.",
        "range_high": "The largest one; NULL if there is none.",
        "direction": "higher or lower values are better; none if neither.",
        "additive": "1 if days can be put together by sums, else 0.",
        "roll_up": "How: ratio for sum(numerator) / sum(denominator), total for sum(value), none "
        "for what is to be computed anew.",
        "unit": "share, rank, count, bits or seconds; NULL for none.",
    },
    "definitions": {
        **_KEYS,
        "definition_hash": "The hash that the fact table names.",
        "conventions": "All that decides its numbers, the data apart, as JSON.",
        "first_seen": "When a run first computed by it, in UTC.",
    },
}
"""Table -> column -> what it holds."""

ARCHIVES: Mapping[str, str] = {
    "facts": "Rows of the fact table that runs replaced or removed, as they were.",
    "per_query": "Rows of the per-query table that runs replaced or removed, as they were.",
}
"""Table -> what its archive is."""

REPLACED: Mapping[str, str] = {
    "replaced_by": "The run that replaced or removed the row: see the run log.",
    "replaced_at": "When that run began, in UTC.",
    "new_value": "The value of the row in its place.",
    "is_removed": "1 if no row took its place, 0 if one did; NULL if the row stayed as it was.",
}
"""Column of an archive -> what it holds."""

VIEWS: Mapping[str, str] = {
    "wide": "One row per spec, day, system and segment, with a column per metric and what it is "
    "made of. Roll up by sum(x_numerator) / sum(x_denominator).",
    "latest": "The rows of the last day of each spec.",
    "daily_change": "Each row beside the last day before it that has the same system and segment.",
    "rollup": "All days together: sums over sums, with an interval of 95 %.",
    "running": "Each day with all days before it, and an interval that may be looked at every day.",
    "comparison": "Each day's difference from the baseline, and that of all days so far.",
    "days": "One row per spec and calendar day from its first to its last; is_missing tells days "
    "without a row.",
    "status": "One row per spec: how old it is, how its last run went, and what is missing.",
    "retired": "One row per spec and metric that it asks for no more, and whose rows stay: its "
    "days, and since which day of the spec there are none.",
    "of_spec": "All queries of one spec: one row per day and system, with a column per metric and "
    "what it is made of. Roll up by sum(x_numerator) / sum(x_denominator).",
    "by_segment": "One spec by one segment: one row per day, system and value of the segment, with "
    "a column per metric and what it is made of. Roll up by sum(x_numerator) / "
    "sum(x_denominator).",
}
"""View -> what it is."""


def comments(
    translation: Translation, table: str, name: str, columns: Mapping[str, str], about: str = ""
) -> Iterator[str]:
    """The statements that say in the database what a table and its columns are.

    Args:
        translation: The dialect; one that says it as a table is made, or not at all, has none.
        table: Which table.
        name: What it is called.
        columns: Column -> what it holds.
        about: What the table itself holds, if it is one beside that.
    """
    syntax = translation.dialect.comments
    if syntax.statement:
        table_comment = quote_text(translation, about or TABLES[table])
        yield syntax.statement.format(kind="table", name=translation.name(name), text=table_comment)
    for column, meaning in columns.items():
        if syntax.column and meaning:
            fields = {"name": translation.name(name), "column": translation.column(column)}
            yield syntax.column.format(**fields, text=quote_text(translation, meaning))


def meanings(spec: Spec, table: str) -> dict[str, str]:
    """What the columns of a spec's table hold, also those of its metrics."""
    of_metrics = {}
    if table == "per_query":
        rows = metric_rows(spec.measures)
        of_metrics = {row.column: f"{row.name}: {row.meaning}" for row in rows}
        of_metrics |= {name: f"The request's {name}." for name in request_columns(spec, PER_QUERY)}
        if QUERY_TEXT in of_metrics:
            of_metrics[QUERY_TEXT] = "What was asked."
    return {**COLUMNS[table], **of_metrics, **REPLACED}


def quote_text(translation: Translation, text: str) -> str:
    """A text as the dialect writes it."""
    return translation.value(literal(text))
