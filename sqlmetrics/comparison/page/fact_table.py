"""A report's content from a fact table: nothing is computed again, days are put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison.diagnosis.ratios import Ratio, difference
from sqlmetrics.comparison.findings import decide
from sqlmetrics.comparison.inference.estimate import TStatistic
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.content import ALL, Content, Row
from sqlmetrics.comparison.page.evaluation import conventions_of, leading
from sqlmetrics.comparison.page.sums import with_running
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.intervals import PAIRED, standard_error
from sqlmetrics.evaluation.report.result import with_dates
from sqlmetrics.jobs.tables import targets
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation

Group = tuple[str, str, str, str]
"""System, segment, its value and metric."""

SUMS = (
    *("n_pairs", "pair_clusters", "pair_w", "pair_w2", "sum_y", "sum_d", "sum_d2", "sum_dw"),
    *("n_queries", "n_clusters", "numerator", "denominator", "sum_x2", "sum_xw", "sum_w2"),
)


def is_there(spec: Spec, engine: Database) -> bool:
    """Whether the fact table has rows of the spec."""
    if spec.output is None or engine.find(spec.output.relation) is None:
        return False
    if "spec" not in {one.casefold() for one in engine.columns(relation(spec.output.relation))}:
        return False
    one = f"select 1 as n from {relation(spec.output.relation)} where spec = {literal(spec.title)}"
    return bool(engine.rows(f"{one} limit 1"))


def stored(spec: Spec, asks: Options, engine: Database) -> Content:
    """The content of a report of a spec's fact table.

    Args:
        spec: A spec with `output`, whose runs have written rows there.
        asks: Which systems, baseline, days, margin and level.
        engine: Where the table is.

    Raises:
        EngineError: If the table cannot be read.
    """
    name = targets(spec)["facts"]
    where = f"spec = {literal(spec.title)}"
    if asks.days:
        first, end = asks.days.start, asks.days.end
        where += f" and metric_date >= date {literal(str(first))}" if first else ""
        where += f" and metric_date < date {literal(str(end))}" if end else ""
    select = f"select *\nfrom {relation(name)}\nwhere {where}"
    rows = with_dates(engine.table(select)).to_pylist()
    signs = {str(one): SIGNS[one.metric.better] for one in spec.measures}
    asked = [str(one) for one in spec.measures]
    there = {at_cutoff(row["metric"], row["k"]) for row in rows}
    systems = tuple(dict.fromkeys(sorted(str(row["system"]) for row in rows)))
    content = Content(
        title=spec.title,
        metrics=tuple(one for one in asked if one in there),
        level=asks.level,
        margin=asks.margin,
        systems=systems,
        main=systems[0] if systems else "",
        values=rows,
        sql=f"{select};\n",
        notes=(f"numbers of the fact table {name}; nothing was computed again",),
        hashes={at_cutoff(r["metric"], r["k"]): r["definition_hash"] for r in rows},
        conventions=conventions_of(spec),
        preset=spec.preset,
        sources=(
            f"fact table: {name}",
            f"last run: {max((r['run_id'] for r in rows), default='')}",
        ),
        directions=signs,
    )
    return _compared(content, spec, asks) if len(systems) > 1 else content


def _compared(content: Content, spec: Spec, asks: Options) -> Content:
    """With the differences from a baseline: of pairs where the table has them, else of means."""
    chosen = asks.baseline or spec.baseline
    baseline = chosen if chosen in content.systems else content.systems[0]
    groups: dict[Group, list[Row]] = {}
    for row in content.values:
        metric = at_cutoff(row["metric"], row["k"])
        key = str(row["system"]), row["segment_name"], row["segment_value"], metric
        groups.setdefault(key, []).append(dict(row))
    pairs = (_difference(key, groups, baseline, content) for key in groups if key[0] != baseline)
    rows = [row for row in pairs if row]
    if not rows:
        return content
    decide(rows, asks)
    order = {one: place for place, one in enumerate(content.metrics)}
    rows = [row for row in rows if row["metric"] in order]
    rows.sort(key=lambda row: (row["segment_name"] != ALL, order[row["metric"]], row["system"]))
    main = leading(rows, content.first)
    note = (
        "differences are those of queries that both systems have"
        if any(row["test"] == "paired t" for row in rows)
        else "the table has no pairs of queries, for the spec names no baseline: differences are "
        "those of means, with Welch's interval"
    )
    return replace(
        content,
        baseline=baseline,
        main=main,
        systems=(baseline, *(one for one in content.systems if one != baseline)),
        rows=rows,
        days=list(_days(groups.get((main, ALL, ALL, content.first), []), asks.level)),
        notes=(*content.notes, note),
    )


def _total(rows: Sequence[Row], names: Sequence[str]) -> dict[str, float] | None:
    """The sums of all days; None if a day has them not."""
    if any(row.get(name) is None for row in rows for name in names):
        return None
    return {name: float(sum(row[name] for row in rows)) for name in names}


def _difference(
    key: Group, groups: Mapping[Group, Sequence[Row]], baseline: str, content: Content
) -> Row | None:
    """A difference as a comparison has it; None where there is none."""
    own, other = groups[key], groups.get((baseline, *key[1:]), ())
    row: Row = {
        "system": key[0],
        "baseline": baseline,
        "segment_name": key[1],
        "segment_value": key[2],
        "metric": key[3],
        "direction": content.directions.get(key[3], 0),
        "p_adjusted": None,
        **dict.fromkeys(("wins", "ties", "losses")),
    }
    found = _paired(own, baseline) or _unpaired(own, other)
    return row | found if found else None


def _paired(rows: Sequence[Row], baseline: str) -> Row | None:
    """Of queries that both have, if the table was written beside this baseline."""
    sums = _total(rows, SUMS[:8]) if all(r.get("baseline") == baseline for r in rows) else None
    if not sums or not sums["pair_w"]:
        return None
    apart = sums["sum_d"] / sums["pair_w"]
    before = sums["sum_y"] / sums["pair_w"]
    error = standard_error({**sums, "difference": apart}, PAIRED)
    statistic = TStatistic(apart, error, sums["pair_clusters"] - 1)
    same = 1.0 if error == 0 and not apart else None
    return {
        "value": before + apart,
        "baseline_value": before,
        "difference": apart,
        "statistic": statistic,
        "p_value": statistic.p_value() or same,
        "n": int(sums["n_pairs"]),
        "test": "paired t",
    }


def _unpaired(own: Sequence[Row], other: Sequence[Row]) -> Row | None:
    """Of the means of both, each with its own queries."""
    sums = [_total(rows, SUMS[8:]) if rows else None for rows in (own, other)]
    if sums[0] is None or sums[1] is None:
        return None
    new, old = (
        Ratio(
            int(one["n_clusters"]),
            one["numerator"],
            one["denominator"],
            one["sum_x2"],
            one["sum_w2"],
            one["sum_xw"],
        )
        for one in sums
        if one
    )
    statistic = difference(new, old)
    if statistic is None:
        return None
    return {
        "value": new.value,
        "baseline_value": old.value,
        "difference": statistic.difference,
        "statistic": statistic,
        "p_value": statistic.p_value(),
        "n": int(sums[0]["n_queries"]),
        "test": "Welch t",
    }


_OF_DAYS = {
    "n": "pair_clusters",
    "sum_d": "sum_d",
    "sum_w": "pair_w",
    "sum_d2": "sum_d2",
    "sum_dw": "sum_dw",
    "sum_w2": "pair_w2",
}


def _days(rows: Sequence[Row], level: float) -> Iterator[Row]:
    """The differences by day, where the table has pairs."""
    there = [row for row in rows if row.get("sum_d") is not None]
    ordered = sorted(there, key=lambda row: str(row["metric_date"]))
    sums = [
        {"metric_date": row["metric_date"], **{name: row[own] for name, own in _OF_DAYS.items()}}
        for row in ordered
    ]
    yield from with_running(sums, level)
