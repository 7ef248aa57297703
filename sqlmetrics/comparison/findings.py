"""From sums to rows: differences, intervals, p-values, verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import Metric
from sqlmetrics.comparison.options import Options, sentence, verdict
from sqlmetrics.comparison.sums import moments, ranks, resampling, samples
from sqlmetrics.comparison.sums.moments import Key, Moments, Rows, SampleMoments
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.comparison.sums.resampling import Percentiles, Replicates
from sqlmetrics.comparison.sums.samples import Samples
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.report.failure import QUERIES
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats.estimate import Estimate
from sqlmetrics.stats.nonparametric import benjamini_hochberg, holm
from sqlmetrics.tables.table import many, printable

TESTS = {
    "t": "paired t",
    "randomization": "randomization",
    "bootstrap": "bootstrap",
    "wilcoxon": "Wilcoxon signed-rank",
}
"""Name -> what stands in the rows."""

_OF_RANX = {
    "student": "write t",
    "fisher": "write randomization",
    "tukey": "for every pair by Holm use test=t, all_pairs",
}
"""ranx's name of a test -> what to do here."""

WELCH = "Welch t"
"""The name of the test where systems have queries of their own."""

MeanDifference: TypeAlias = Moments | SampleMoments
"""The sums of two systems over the same queries, or over queries of their own."""


@dataclass(frozen=True)
class Sums:
    """What came out of the warehouse.

    Attributes:
        moments: Of each key.
        counts: System -> how many queries have a value, by the metric's column.
        ranks: Of each key, for Wilcoxon's test.
        replicates: Of each key, for randomisation and bootstrap.
        lacks: Notes of segments of which a side has nothing.
    """

    moments: Mapping[Key, Any]
    counts: Mapping[str, Mapping[str, Any]]
    ranks: Mapping[Key, Mapping[str, Any]]
    replicates: Mapping[Key, Replicates]
    lacks: tuple[str, ...] = ()

    def is_complete(self, pairing: Pairing) -> bool:
        """Whether each query of each system has a value of each metric."""
        columns = [measure.column for measure in pairing.measures]
        return all(row[name] == row["n_rows"] for row in self.counts.values() for name in columns)


def sums(pairing: Pairing, rows: Rows) -> Sums:
    """The counts and sums of a comparison.

    Raises:
        InputError: If there is nothing to compare.
    """
    moments_by_key: Mapping[Key, MeanDifference]
    lacks: tuple[str, ...] = ()
    if isinstance(pairing, Samples):
        centres = rows(*samples.centres_query(pairing))
        of_all = samples.read(pairing, rows(*samples.samples_query(pairing)), centres)
        moments_by_key = {k: means for k, means in of_all.items() if means.n and means.n_baseline}
        lacks = (*samples.one_sided(of_all, pairing.baseline, counted(pairing.plan.spec)[0]),)
    else:
        moments_by_key = moments.moments_of(pairing, rows)
    counts = rows([*pairing.query_values(), pairing.counts()], "select *\nfrom counts")
    if not moments_by_key:
        raise InputError(_no_pair(pairing, counts))
    return Sums(moments_by_key, {str(row["system"]): row for row in counts}, {}, {}, lacks)


def _no_pair(pairing: Pairing, counts: Sequence[Mapping[str, Any]]) -> str:
    first = pairing.measures[0]
    n = {str(row["system"]): int(row[first.column]) for row in counts}
    counts_text = ", ".join(
        f"{printable(name)} {n.get(name, 0):,}" for name in (pairing.baseline, *pairing.systems)
    )
    if isinstance(pairing, Samples):
        return f"no two systems have queries with a value of {first}: {counts_text}"
    keys = " and ".join(pairing.keys)
    return (
        f"no query has a value of both {printable(pairing.baseline)} and another system by {keys}; "
        f"values of {first}: {counts_text}. Check that the ids are written alike. If each system "
        "has its own queries, like requests of a click log or an A/B test, compare them unpaired "
        "(paired=False, --unpaired)"
    )


def test_name(pairing: Pairing, options: Options) -> str:
    """The name of the test, as it stands in the rows."""
    if options.test != "t" or not isinstance(pairing, Samples):
        return TESTS[options.test]
    return f"{WELCH}, covariate" if pairing.covariate else WELCH


def check_test(test: str) -> None:
    """Raise SpecError for a test that is not known."""
    if test in TESTS:
        return
    if remedy := _OF_RANX.get(str(test).casefold()):
        raise SpecError(f"unknown test {test!r}, a name in ranx; {remedy}")
    raise SpecError(unknown("test", test, TESTS))


def interval_name(test: str) -> str:
    """How intervals are made, beside a test."""
    return "percentiles of the bootstrap" if test == resampling.BOOTSTRAP else "Student's t"


def comparable(plan: Plan) -> tuple[list[Measure], list[str]]:
    """The metrics that have a value for a query, and a note of the others.

    Raises:
        SpecError: If none has.
    """
    finals = {final.measure: final for final in plan.needs.finals}
    reason_by_measure = {}
    for measure in plan.measures:
        if measure.metric.pooled:
            reason_by_measure[measure] = "a number for all lists together"
        elif measure.no_mean:
            reason_by_measure[measure] = f"{measure.no_mean} of the values of queries"
        elif measure.metric.count:
            reason_by_measure[measure] = "a count"
        elif finals[measure].denominator:
            reason_by_measure[measure] = "a ratio of sums"
    measures = [measure for measure in plan.measures if measure not in reason_by_measure]
    notes = [
        f"{measure} is not compared: it is {reason}, not a mean over queries"
        for measure, reason in reason_by_measure.items()
    ]
    if not measures:
        raise SpecError(
            [*notes, *left_out(plan.spec)] or "no metric to compare; name metrics like ndcg@10"
        )
    return measures, notes


def left_out(spec: Spec) -> list[str]:
    """A note of the metrics of a log itself, which have no value of a list."""
    if not spec.online:
        return []
    are = "is" if len(spec.online) == 1 else "are"
    return [
        f"{', '.join(spec.online)} {are} computed from the log itself and not compared here; use "
        f"sqlmetrics compare SPEC -m {','.join(spec.online)}"
    ]


def rows(
    pairing: Pairing, options: Options, sums: Sums, beside: Sequence[dict[str, Any]] = ()
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of a comparison, in the order in which they are read; and notes.

    Args:
        pairing: What is compared.
        options: What is asked.
        sums: What came out of the warehouse.
        beside: Rows of other metrics of the same systems, before p-values are adjusted.
    """
    result_rows, notes = undecided(pairing, options, sums)
    result_rows += beside
    result_rows.sort(
        key=lambda row: (
            row["segment_name"] != ALL,
            row["segment_name"],
            row["segment_value"],
            pairing.systems.index(row["system"]),
        )
    )
    decided(result_rows, options, counted(pairing.plan.spec))
    return result_rows, notes


def undecided(
    pairing: Pairing, options: Options, sums: Sums
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows before p-values are adjusted, and notes."""
    result_rows = [_row(pairing, options, sums, row_key) for row_key in _places(pairing, sums)]
    notes = _of_covariate(pairing, sums) if isinstance(pairing, Samples) else []
    notes = notes or _notes(pairing, [row for row in result_rows if row["segment_name"] == ALL])
    return result_rows, [*notes, *(sums.lacks if options.lists_slices else ())]


def decided(
    rows: Sequence[dict[str, Any]], options: Options, counted: tuple[str, str] = QUERIES
) -> None:
    """Give rows that are tested together their adjusted p-values, verdicts and sentences.

    Args:
        rows: The rows, as `decide` takes them.
        options: The level and the margin.
        counted: What is counted, one and several.
    """
    decide(rows, options)
    for row in rows:
        row["sentence"] = sentence(
            row, row["name"], margin=options.margin, level=options.level, counted=counted
        )
        if "units" in row:
            row["sentence"] += f" ({_of_units(row)})"


def _of_units(row: Mapping[str, Any]) -> str:
    """The relative difference with its interval, if there is one, and what is independent."""
    if row["relative_low"] is None:
        return f"over {row['units']}"
    ends = (f"{100 * row[name]:+.1f} %" for name in ("relative_low", "relative_high"))
    return f"{100 * row['relative']:+.1f} %, {' to '.join(ends)}; over {row['units']}"


def counted(spec: Spec) -> tuple[str, str]:
    """What a list is of, one and several: of a click log each request has one."""
    return ("request", "requests") if spec.clicks else QUERIES


def decide(rows: Sequence[dict[str, Any]], options: Options) -> None:
    """Adjust p-values and intervals alike, over metrics by Holm and over slices by their share.

    Args:
        rows: Of all queries and of slices, with their `statistic`, which gives intervals and is
            taken out; rows that no test has looked at stay without a p-value.
        options: The level and the margin.
    """
    overall = [row for row in rows if row["segment_name"] == ALL]
    slices = [row for row in rows if row["segment_name"] != ALL]
    for family, adjust in ((overall, holm), (slices, benjamini_hochberg)):
        tested = [row for row in family if row["p_value"] is not None]
        adjustment = adjust([row["p_value"] for row in tested], options.level)
        for row, p in zip(tested, adjustment.p_values, strict=True):
            row["p_adjusted"] = p
        for row in family:
            row.update(_bounds(row.pop("statistic", None), adjustment.coverage))
            row.update(_relative_bounds(row.pop("log_ratio", None), adjustment.coverage))
    for row in rows:
        ends = None if row["ci_low"] is None else (row["ci_low"], row["ci_high"])
        row["verdict"] = verdict(
            row["difference"],
            ends,
            row["p_adjusted"],
            level=options.level,
            margin=options.margin,
            direction=row["direction"],
        )


def _bounds(statistic: Estimate | Percentiles | None, coverage: float) -> dict[str, Any]:
    """The interval at a coverage, and what such data show."""
    low, high = statistic.interval(coverage) if statistic else (None, None)
    return {
        "standard_error": statistic.standard_error if statistic else None,
        "ci_low": low,
        "ci_high": high,
        "ci_level": None if low is None else coverage,
        "smallest_detectable": statistic.smallest_detectable(coverage) if statistic else None,
    }


def _relative_bounds(
    log_ratio: tuple[float, float, float] | None, coverage: float
) -> dict[str, float | None]:
    """The interval of the relative difference at a coverage."""
    low, high = Estimate(*log_ratio).interval(coverage) if log_ratio else (None, None)
    names = ("relative_low", "relative_high")
    if low is None or high is None:
        return dict.fromkeys(names)
    return dict(zip(names, map(math.expm1, (low, high)), strict=True))


RowKey = tuple[str, str, str, Measure]
"""System, segment, its value and metric."""


def _places(pairing: Pairing, sums: Sums) -> list[RowKey]:
    segments = {key[1:3] for key in sums.moments} - {(ALL, ALL)}
    order = [(ALL, ALL), *sorted(segments)]
    return [
        (system, *segment, measure)
        for segment in order
        for system in pairing.systems
        for measure in pairing.measures
    ]


def _row(pairing: Pairing, options: Options, sums: Sums, row_key: RowKey) -> dict[str, Any]:
    system, name, value, measure = row_key
    key: Key = (system, name, value, measure.name, measure.k or 0)
    metric: Metric = measure.metric
    estimate = sums.moments.get(key)
    row: dict[str, Any] = {
        "metric": str(measure),
        "name": metric.name,
        "direction": SIGNS[metric.better],
        "system": system,
        "baseline": pairing.baseline,
        "segment_name": name,
        "segment_value": value,
        "test": test_name(pairing, options),
        **NOTHING,
    }
    if not isinstance(pairing, Samples):
        row |= dict.fromkeys(_PAIRS, 0)
    if estimate is not None:
        row |= numbers(estimate) | _tested(key, estimate, options, sums)
        if row["direction"] < 0:
            row |= {"wins": row["losses"], "losses": row["wins"]}
    if name == ALL and not isinstance(pairing, Samples):
        for column, side in (("n_system_only", system), ("n_baseline_only", pairing.baseline)):
            counted = sums.counts.get(side, {}).get(measure.column) or 0
            row[column] = int(counted) - row["n"]
    return row


_NUMBERS = (
    *("value", "baseline_value", "difference", "relative", "relative_low", "relative_high"),
    *("standard_error", "ci_low", "ci_high", "ci_level"),
    *("p_value", "p_adjusted", "effect_size", "smallest_detectable", "variance_reduction"),
)
_PAIRS = ("wins", "ties", "losses")

NOTHING: Mapping[str, Any] = {
    **dict.fromkeys((*_NUMBERS, *_PAIRS, "n_system_only", "n_baseline_only")),
    **dict.fromkeys(("n", "n_baseline"), 0),
}
"""The numbers of a row where there is nothing to compare."""


def numbers(means: MeanDifference) -> dict[str, Any]:
    """The numbers of a row, but for what a test says; `statistic` gives its interval."""
    before = means.baseline_value
    return {
        "value": means.value,
        "baseline_value": before,
        "difference": means.difference,
        "relative": means.difference / abs(before) if before else None,
        "statistic": _estimate(means),
        "log_ratio": getattr(means, "log_ratio", None),
        "effect_size": means.effect_size,
        "variance_reduction": getattr(means, "variance_reduction", None),
        "n": means.n,
        "n_baseline": means.n_baseline,
        **{name: getattr(means, name, None) for name in _PAIRS},
    }


def _estimate(means: MeanDifference) -> Estimate:
    error = means.standard_error
    return Estimate(means.difference, error, means.df if error else 0.0)


def _tested(key: Key, means: MeanDifference, options: Options, sums: Sums) -> dict[str, Any]:
    """The p-value, and what else the test says."""
    if means.n_clusters < 2 or options.test == "t":
        return by_t(means)
    if options.test == "wilcoxon":
        return {"p_value": ranks.p_value(sums.ranks.get(key))}
    if options.test == resampling.RANDOMIZATION and isinstance(means, Moments):
        total = means.difference * means.weight
        return {"p_value": sums.replicates[key].randomization(total)}
    if not means.standard_error:
        return by_t(means)
    replicates = sums.replicates[key]
    statistic = Percentiles(replicates, _estimate(means))
    return {"p_value": replicates.bootstrap(means.difference), "statistic": statistic}


def by_t(means: MeanDifference) -> dict[str, Any]:
    """The p-value of the t-test; where nothing varies that of a permutation, and its name."""
    if means.n_clusters < 2:
        return {}
    if not means.standard_error:
        p, name = means.exact() or (None, "")
        return {"p_value": p} | ({"test": name} if name else {})
    return {"p_value": _estimate(means).p_value()}


def _notes(pairing: Pairing, overall: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which queries only one of two systems has."""
    notes = []
    for system in pairing.systems:
        system_rows = [row for row in overall if row["system"] == system]
        for column, side, other_side in (
            ("n_system_only", system, pairing.baseline),
            ("n_baseline_only", pairing.baseline, system),
        ):
            counts = {row["metric"]: row[column] for row in system_rows if row[column]}
            if counts:
                metric, most = max(counts.items(), key=lambda pair: pair[1])
                notes.append(
                    f"{many(most, 'query', 'queries')} of {printable(side)} are left out, since "
                    f"{printable(other_side)} has no value for them (of {metric})"
                )
    return notes


def _of_covariate(pairing: Samples, sums: Sums) -> list[str]:
    """Of how many queries something is known from before, and what was made of it."""
    if pairing.covariate is None:
        return []
    estimates = [estimate for key, estimate in sums.moments.items() if key[1] == ALL]
    least = min(
        (estimate for estimate in estimates if isinstance(estimate, SampleMoments)),
        key=lambda estimate: estimate.n_covered / (estimate.n + estimate.n_baseline),
    )
    all_of = many(least.n + least.n_baseline, "query", "queries")
    return [
        f"covariate {pairing.covariate.name}: {least.n_covered:,} of {all_of} have one; the "
        "others count as its mean. Values and differences are adjusted for it"
    ]
