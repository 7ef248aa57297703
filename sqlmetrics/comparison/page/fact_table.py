"""A report's content from a fact table: nothing is computed again, days are put together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison.diagnosis.log_numbers import Ratio
from sqlmetrics.comparison.findings import decide
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.content import ALL, Content
from sqlmetrics.comparison.page.evaluation import conventions_of, leading, together, with_running
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.report.result import with_dates
from sqlmetrics.jobs.schema import targets
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.stats.estimate import Estimate, mean_of_repeats
from sqlmetrics.tables.tabular import Row

Group = tuple[str, str, str, str]
"""System, segment, its value and metric."""

Numbers = tuple[float, float, Estimate, int, str]
"""The values of a system and its baseline, their difference, of how many queries, and the test."""

SUMS = ("n_clusters", "numerator", "denominator", "sum_x2", "sum_w2", "sum_xw")
"""What a mean is made of: the fields of a `Ratio`."""

REPEATED = (
    "queries appear again on other days, which adds no evidence: each interval is the widest of "
    "any day, and each count is that of the largest day"
)
UNKNOWN = (
    "the fact table does not say whether queries appear again on other days (output.per_query "
    "would): each interval is the widest possible, and each count is that of the largest day"
)


def has_facts(spec: Spec, engine: Database) -> bool:
    """Whether the fact table has rows of the spec."""
    if spec.output is None or engine.find(spec.output.relation) is None:
        return False
    if "spec" not in {
        column.casefold() for column in engine.columns(relation(spec.output.relation))
    }:
        return False
    select = (
        f"select 1 as n from {relation(spec.output.relation)} where spec = {literal(spec.title)}"
    )
    return bool(engine.rows(f"{select} limit 1"))


def stored(spec: Spec, options: Options, engine: Database) -> Content:
    """The content of a report of a spec's fact table.

    Args:
        spec: A spec with `output`, whose runs have written rows there.
        options: Which systems, baseline, days, margin and level.
        engine: Where the table is.

    Raises:
        EngineError: If the table cannot be read.
    """
    name = targets(spec)["facts"]
    where = f"spec = {literal(spec.title)}"
    if options.days:
        first, end = options.days.start, options.days.end
        where += f" and metric_date >= date {literal(str(first))}" if first else ""
        where += f" and metric_date < date {literal(str(end))}" if end else ""
    select = f"select *\nfrom {relation(name)}\nwhere {where}"
    rows = with_dates(engine.table(select)).to_pylist()
    signs = {str(measure): SIGNS[measure.metric.better] for measure in spec.measures}
    metrics = [str(measure) for measure in spec.measures]
    existing_metrics = {at_cutoff(row["metric"], row["k"]) for row in rows}
    options.check_systems({str(row["system"]) for row in rows})
    if options.systems:
        chosen = {*options.systems, options.baseline or spec.baseline}
        rows = [row for row in rows if row["system"] in chosen]
    systems = tuple(dict.fromkeys(sorted(str(row["system"]) for row in rows)))
    content = Content(
        title=spec.title,
        metrics=tuple(metric for metric in metrics if metric in existing_metrics),
        level=options.level,
        margin=options.margin,
        systems=systems,
        main=systems[0] if systems else "",
        values=rows,
        executed_sql=f"{select};\n",
        notes=(f"the numbers come from the fact table {name}; nothing was recomputed",),
        hashes={at_cutoff(r["metric"], r["k"]): r["definition_hash"] for r in rows},
        conventions=conventions_of(spec),
        preset=spec.preset,
        sources=(
            f"fact table: {name}",
            f"last run: {max((r['run_id'] for r in rows), default='')}",
        ),
        directions=signs,
    )
    if len(systems) < 2:
        return content
    repeated = have_repeats(spec, where, engine) if len(content.dates()) > 1 else False
    notes = {True: (REPEATED,), None: (UNKNOWN,), False: ()}[repeated]
    content = replace(content, notes=(*content.notes, *notes))
    return _compared(content, spec, options, repeats=repeated is not False)


def have_repeats(spec: Spec, where: str, engine: Database) -> bool | None:
    """Whether a query comes again on another day; None where no table of queries tells it."""
    per_query = targets(spec).get("per_query")
    if per_query is None or engine.find(per_query) is None:
        return None
    again = (
        f"select query_id\nfrom {relation(per_query)}\nwhere {where}\n"
        "group by system, query_id\nhaving count(*) > 1"
    )
    return bool(engine.rows(f"select 1 as n\nfrom (\n{again}\n) as queries_again\nlimit 1"))


def _compared(content: Content, spec: Spec, options: Options, *, repeats: bool) -> Content:
    """With the differences from a baseline: of pairs where the table has them, else of means."""
    chosen = options.baseline or spec.baseline
    by_name, rule = usual_baseline(content.systems)
    baseline = chosen if chosen in content.systems else by_name
    groups: dict[Group, list[Row]] = {}
    for row in content.values:
        metric = at_cutoff(row["metric"], row["k"])
        key = str(row["system"]), row["segment_name"], row["segment_value"], metric
        groups.setdefault(key, []).append(dict(row))
    pairs = (
        _difference(key, groups, baseline, content, repeats=repeats)
        for key in groups
        if key[0] != baseline
    )
    # a metric that the spec asks for no more is no part of the family that Holm adjusts
    order = {metric: position for position, metric in enumerate(content.metrics)}
    rows = [row for row in pairs if row and row["metric"] in order]
    if not rows:
        return content
    decide(rows, options)
    rows.sort(key=lambda row: (row["segment_name"] != ALL, order[row["metric"]], row["system"]))
    main = leading(rows, content.first)
    note = (
        "each difference is computed on the queries that both systems have"
        if any(row["test"] == "paired t" for row in rows)
        else "the spec has no baseline, so the table has no paired queries: each difference is "
        "one of two means, with Welch's interval"
    )
    return replace(
        content,
        baseline=baseline,
        main=main,
        systems=(baseline, *(system for system in content.systems if system != baseline)),
        rows=rows,
        days=list(
            _days(groups.get((main, ALL, ALL, content.first), []), options.level, repeats=repeats)
        ),
        notes=(*content.notes, note, *([] if baseline == chosen else [rule])),
    )


def _difference(
    key: Group,
    groups: Mapping[Group, Sequence[Row]],
    baseline: str,
    content: Content,
    *,
    repeats: bool,
) -> Row | None:
    """A difference as a comparison has it; None where there is none."""
    system_rows, baseline_rows = groups[key], groups.get((baseline, *key[1:]), ())
    numbers = paired_numbers(system_rows, baseline, repeats=repeats) or unpaired_numbers(
        system_rows, baseline_rows, repeats=repeats
    )
    if numbers is None:
        return None
    value, before, estimate, n, test = numbers
    is_same = estimate.standard_error == 0 and not estimate.value
    return {
        "system": key[0],
        "baseline": baseline,
        "segment_name": key[1],
        "segment_value": key[2],
        "metric": key[3],
        "direction": content.directions.get(key[3], 0),
        "value": value,
        "baseline_value": before,
        "difference": estimate.value,
        "statistic": estimate,
        "p_value": 1.0 if is_same else estimate.p_value(),  # it counts among those adjusted
        "p_adjusted": None,
        "n": n,
        "test": test,
        **dict.fromkeys(("wins", "ties", "losses")),
    }


def paired_numbers(rows: Sequence[Row], baseline: str, *, repeats: bool) -> Numbers | None:
    """Of queries that both have, if the table was written beside this baseline."""
    if any(row.get("baseline") != baseline or row.get("n_pairs") is None for row in rows):
        return None
    days = [_sums_of_pairs(row) for row in rows if row["pair_w"]]
    if not days:
        return None
    estimate = together(days, repeats=repeats)
    weight = math.fsum(day["sum_w"] for day in days)
    before = math.fsum(row["sum_y"] for row in rows) / weight
    n = _count([int(row["n_pairs"]) for row in rows], repeats=repeats)
    return before + estimate.value, before, estimate, n, "paired t"


def unpaired_numbers(
    rows: Sequence[Row], baseline_rows: Sequence[Row], *, repeats: bool
) -> Numbers | None:
    """Of the means of both, each with its own queries."""
    if not (rows and baseline_rows) or any(
        row.get(name) is None for row in (*rows, *baseline_rows) for name in SUMS
    ):
        return None
    new, old = (_ratio(days, repeats=repeats) for days in (rows, baseline_rows))
    if new is None or old is None:
        return None
    n = _count([int(row["n_queries"]) for row in rows], repeats=repeats)
    return new.value, old.value, new.minus(old), n, "Welch t"


def _ratio(rows: Sequence[Row], *, repeats: bool) -> Estimate | None:
    """The mean of several days; None where there is nothing below the line."""
    days = [
        Ratio(
            int(row["n_clusters"]),
            *(float(row[name]) for name in SUMS if name != "n_clusters"),
        )
        for row in rows
    ]
    if not repeats or len(days) == 1:
        return Ratio(*(sum(parts) for parts in zip(*map(astuple, days), strict=True))).estimate
    parts = [(day.estimate, day.bottom) for day in days if day.estimate]
    bottom = math.fsum(day.bottom for day in days)
    if not (parts and bottom):
        return None
    return mean_of_repeats(math.fsum(day.top for day in days) / bottom, parts)


def _count(counts: Sequence[int], *, repeats: bool) -> int:
    """Of how many queries a difference is: those of a day, where days may have the same."""
    return max(counts) if repeats else sum(counts)


_OF_DAYS = {
    "n": "pair_clusters",
    "sum_d": "sum_d",
    "sum_w": "pair_w",
    "sum_d2": "sum_d2",
    "sum_dw": "sum_dw",
    "sum_w2": "pair_w2",
}


def _sums_of_pairs(row: Row) -> dict[str, float]:
    return {name: float(row[column]) for name, column in _OF_DAYS.items()}


def _days(rows: Sequence[Row], level: float, *, repeats: bool) -> Iterator[Row]:
    """The differences by day, where the table has pairs."""
    paired = [row for row in rows if row.get("sum_d") is not None]
    sums = [
        {"metric_date": row["metric_date"], **_sums_of_pairs(row)}
        for row in sorted(paired, key=lambda row: str(row["metric_date"]))
    ]
    yield from with_running(sums, level, repeats=repeats)
