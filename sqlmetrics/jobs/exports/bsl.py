"""Boring Semantic Layer: a module with a semantic table for all queries and each segment."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import Slice, describe_metric, rows, slices
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.schema import targets
from sqlmetrics.sql.template import parts

HEAD = '''"""Ranking metrics for Boring Semantic Layer. Made by: sqlmetrics export bsl

    import ibis
    from ranking_metrics import ranking_metrics

    model = ranking_metrics(ibis.{connect})
    model.group_by("system").aggregate("{first}").execute()
"""

from boring_semantic_layer import to_semantic_table


def _of(metric, k):
    """The rows of a metric."""
    return lambda t: (t.metric == metric) & (t.k == k)


def _ratio(metric, k):
    """Sums over sums: right over any days, systems and values of the segment."""
    of = _of(metric, k)
    return lambda t: (
        t.numerator.sum(where=of(t)) / t.denominator.sum(where=of(t)).nullif(0)
    )


def _total(metric, k):
    """A total adds up over days."""
    of = _of(metric, k)
    return lambda t: t.value.sum(where=of(t))


def _single(metric, k):
    """What cannot be added up: of a single row, NULL over several."""
    of = _of(metric, k)
    return lambda t: (of(t).sum() == 1).ifelse(t.value.max(where=of(t)), None)


MEASURES = {{
{measures}
}}


def _table(connection, segment, name, dimensions):
    facts = connection.table({table})
    mine = facts.filter((facts.spec == {spec}) & (facts.segment_name == segment))
    day = {{"is_time_dimension": True, "smallest_time_grain": "TIME_GRAIN_DAY"}}
    return (
        to_semantic_table(mine, name=name)
        .with_dimensions(
            metric_date={{"expr": lambda t: t.metric_date, **day}},
            system=lambda t: t.system,
            **dimensions,
        )
        .with_measures(**MEASURES)
    )
'''

CONNECT = {"duckdb": 'duckdb.connect("metrics.duckdb")', "postgres": "postgres.connect(...)"}
"""Dialect -> how ibis opens it."""


def files(target: Target) -> dict[str, str]:
    """The module.

    Raises:
        SpecError: If the spec has no output.
    """
    measures = rows(target)
    *schema, table = parts(targets(target.spec)["facts"])
    schema_argument = "".join(f", database={_text('.'.join(schema))}" for _ in schema[:1])
    head = HEAD.format(
        connect=CONNECT[target.dialect.name],
        first=measures[0].column,
        measures="\n".join(line for metric_row in measures for line in _measure(metric_row)),
        table=f"{_text(table)}{schema_argument}",
        spec=_text(target.spec.title),
    )
    tables = "".join(line for metric_slice in slices(target) for line in _function(metric_slice))
    return {"ranking_metrics.py": head + tables}


def _measure(metric_row: MetricRow) -> Iterator[str]:
    function_name = {RATIO: "_ratio", NEVER: "_single"}.get(metric_row.roll_up, "_total")
    yield f"    # {metric_row.name}: {describe_metric(metric_row)}"
    yield (
        f"    {_text(metric_row.column)}: {function_name}({_text(metric_row.metric)}, "
        f"{metric_row.k}),"
    )


def _function(metric_slice: Slice) -> Iterator[str]:
    name = f"ranking_metrics_{metric_slice.key}" if metric_slice.column else "ranking_metrics"
    about = f"by {metric_slice.segment}" if metric_slice.column else "of all queries"
    dimensions = (
        f"{{{_text(metric_slice.column)}: lambda t: t.segment_value}}"
        if metric_slice.column
        else "{}"
    )
    yield f"\n\ndef {name}(connection):\n"
    yield f"    {_text(f'The metrics {about}; `connection` is one of ibis.')}\n"
    yield f"    dimensions = {dimensions}\n"
    yield (
        f"    return _table(connection, {_text(metric_slice.segment)}, {_text(name)}, dimensions)\n"
    )


def _text(value: str) -> str:
    """A text as Python writes it."""
    return json.dumps(value, ensure_ascii=False)
