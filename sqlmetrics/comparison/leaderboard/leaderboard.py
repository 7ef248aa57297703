"""`leaderboard`: systems in order, which of them differ, and how sure their ranks are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import combinations
from typing import Any, Unpack

from sqlmetrics.catalog.arithmetic import NAMED
from sqlmetrics.catalog.measure import Measure, metric_texts
from sqlmetrics.comparison.all_pairs import group_letters
from sqlmetrics.comparison.compare import compared_plan
from sqlmetrics.comparison.findings import comparable, left_out
from sqlmetrics.comparison.leaderboard.board import KINDS, REFERENCES, Leaderboard, Methods
from sqlmetrics.comparison.leaderboard.orders import (
    TUKEY,
    Order,
    Orders,
    PairTests,
    Test,
    pair_tests,
)
from sqlmetrics.comparison.leaderboard.scores import (
    Contributions,
    Scores,
    contributions,
    rank_intervals,
    ranks,
    scores_of,
    team_by_system,
    topic_rows,
    variance_rows,
)
from sqlmetrics.comparison.options import Options
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.evaluation.arguments import check_count, check_level
from sqlmetrics.evaluation.checks.absence import sample_notes
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats import CONFIDENCE, NOISE
from sqlmetrics.stats.bootstrap import check_numpy, resampled_counts
from sqlmetrics.tables.table import many, printable
from sqlmetrics.tables.tabular import Row

REPLICATES = 1_000
"""As many samples of the topics the ranks are taken of."""


def leaderboard(
    rankings: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    systems: Sequence[str] = (),
    sort_by: str | None = None,
    baseline: str | None = None,
    marks: str | None = None,
    test: str = TUKEY,
    correction: str | None = None,
    level: float = CONFIDENCE,
    unjudged_share: bool = True,
    other_labels: Any = None,
    pool_depth: int | None = None,
    team: str | None = None,
    replicates: int = REPLICATES,
    seed: int = 1,
    start: str | date | None = None,
    end: str | date | None = None,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Leaderboard:
    """Order systems by a metric, with rank intervals and groups of systems that do not differ.

    The metrics are computed in the database; the value of each system, topic (query) and metric
    then leaves it, since tests of all pairs and samples of topics need them together.

    Args:
        rankings: Runs, as `compare` takes them: a dict, system -> its table; a list of files; a
            table with a column of systems; or a `Spec`.
        labels: The labels, as `evaluate` takes them; None with a spec.
        metrics: The metrics, as `evaluate` takes them; they head the columns as they are written
            here. Default: those of the spec.
        systems: The systems to include. Default: all.
        sort_by: The metric that orders the rows. Default: the first one.
        baseline: The system that the others are compared with. Default: the best of each metric.
        marks: What `+` and `-` behind a value compare with: `baseline`, `best` (of the metric) or
            `team` (the best system of its own team, see `team`). Default: the baseline, if there is
            one, else there are no marks.
        test: What tells two systems apart: `tukey` (Tukey's HSD over all pairs; topics are blocks,
            and only those count that have a value of each system), `t` (paired), `wilcoxon`, or
            `randomization` (swaps the two systems at random within a topic).
        correction: How p-values of all pairs of a metric are adjusted: `holm`, `bonferroni`, `bh`
            (Benjamini and Hochberg) or `none`. Default: `holm`; `tukey` needs none and takes none.
        level: The confidence level of groups, verdicts and rank intervals.
        unjudged_share: Whether to compute the share of items without a label, at the cutoff of
            each metric.
        other_labels: Other labels of the same queries, such as those of another judge or of
            another year: the table `labels` says how alike both order the systems.
        pool_depth: The depth of the pool that was judged. The table `contributions` then says how
            each system does if the items are unjudged that it alone has above that depth.
        team: A regular expression that finds the team in the name of a system, by its first group
            if it has one: systems of a team are left out of the pool together, and marked against
            the best of them. Default: each is a team.
        replicates: The number of bootstrap samples of topics, and of swaps of a randomization test.
        seed: The random seed of both.
        start: The first day. Default: the first day of the data.
        end: The day after the last one. Default: all days of the data.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to check the input before the evaluation.
        **arguments: The other arguments of `evaluate`. `system` is `"system"` by default.

    Returns:
        The leaderboard; it prints as a table. Systems that are tied share a rank and a group. With
        one system, or fewer than two topics, nothing is tested, and a note says so.

    Raises:
        SpecError: If an argument is wrong, queries have weights, or no metric has a value of a
            query.
        InputError: If a system has no list, there are several days, or the data would give wrong
            numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> tables = {
    ...     name: pa.table({"query_id": [1, 1], "item_id": [*items], "score": [2.0, 1.0]})
    ...     for name, items in {"old": "ab", "new": "ba"}.items()
    ... }
    >>> truth = pa.table({"query_id": [1], "item_id": ["b"], "grade": [1]})
    >>> [(row["system"], row["rank"], row["value"]) for row in leaderboard(tables, truth, "mrr")]
    [('new', 1, 1.0), ('old', 2, 0.5)]
    """
    rankings = read_if_spec(rankings)
    check_arguments(leaderboard, arguments)
    check_numpy("a leaderboard")
    check_level("level", level)
    check_count("replicates", replicates, 100)
    wanted_test = Test.of(test, correction, level=level, replicates=replicates, seed=seed)
    inputs = Inputs(rankings, labels, arguments)
    zone = zone_of_days(rankings, arguments.get("time_zone"))
    options = Options(
        metrics=metric_texts(metrics),
        days=days_between(start, end, zone),
        systems=tuple(systems),
        baseline=baseline,
        level=level,
    )
    _check_labels(rankings, other_labels, pool_depth)
    marks = _marks(marks, baseline, team, pool_depth)
    with inputs.opened(connection) as engine:
        with compared_plan(inputs, options, engine) as (plan, _):
            measures, notes = comparable(plan)
            spec = plan.spec
            if unjudged_share:
                texts = [text for measure in plan.measures for text in _judged_counts(measure)]
                spec = spec.having(metrics=(*spec.metrics, *texts))
            result = run(spec, plan.shape.at, engine, check=check)
            names, summary = _systems(result, options)
            _check_weights([row for row in summary.values() if row["system"] in names], measures)
            found_scores = scores_of(result.per_query(), measures, names)
            pooled = Contributions()
            if pool_depth is not None:
                pooled = contributions(plan, engine, found_scores, pool_depth, team)
        other_scores, other_sql = [], ""
        if other_labels is not None:
            other_inputs = replace(inputs, labels=other_labels)
            with compared_plan(other_inputs, options, engine) as (other_plan, _):
                other_result = run(other_plan.spec, other_plan.shape.at, engine, check=check)
            other_scores = scores_of(other_result.per_query(), measures, names)
            other_sql = other_result.executed_sql
    order_measure = _order_measure(plan.spec, sort_by, measures)
    counts = resampled_counts(len(found_scores[0].topics), replicates, seed)
    rows: list[Row] = []
    pairs: list[Row] = []
    tests: dict[Measure, PairTests] = {}
    teams = team_by_system(found_scores[0].systems, team) if marks == "team" else {}
    for scores in found_scores:
        pair_test = pair_tests(scores, wanted_test)
        tests[scores.measure] = pair_test
        rows += _standings(scores, pair_test, counts, level, baseline=baseline, teams=teams)
        pairs += _pair_rows(scores, pair_test)
    orders = Orders(
        orders=[Order(scores, tests[scores.measure]) for scores in found_scores],
        other_orders=[Order(scores, pair_tests(scores, wanted_test)) for scores in other_scores],
        replicates=replicates,
        seed=seed,
        level=level,
    )
    for measure in plan.measures:
        if measure not in measures:
            rows += [
                {**dict.fromkeys(KINDS), "metric": str(measure), "system": name} for name in names
            ]
    for row in rows:
        row.update(_of_summary(row, summary, plan.measures))
    return Leaderboard(
        rows=tuple(rows),
        pairs=tuple(pairs),
        topics=tuple(row for scores in found_scores for row in topic_rows(scores)),
        variances=tuple(row for scores in found_scores for row in variance_rows(scores, level)),
        orders=orders,
        contributions=pooled,
        headings=_headings(plan.spec, options.metrics, plan.measures),
        sort_by=str(order_measure),
        marks=marks,
        baseline=baseline,
        methods=Methods(
            spec=plan.spec,
            test=wanted_test,
            n_topics=len(found_scores[0].topics),
            n_systems=len(names),
            tests={str(measure): pair_test for measure, pair_test in tests.items()},
        ),
        notes=(
            *notes,
            *left_out(plan.spec),
            *_missing_notes(summary, measures[0], names, plan.spec.options["missing"]),
            *_test_notes(found_scores, tests, test),
            *orders.label_notes(str(order_measure)),
            *pooled.notes(str(order_measure)),
            *sample_notes(check),
        ),
        executed_sql=result.executed_sql + pooled.executed_sql + other_sql,
    )


def _check_labels(rankings: Any, other_labels: Any, pool_depth: int | None) -> None:
    """Raise SpecError for what is wrong with other labels, or with a pool."""
    if pool_depth is not None:
        check_count("pool_depth", pool_depth, 1)
    if other_labels is not None and isinstance(rankings, Spec):
        raise SpecError(
            "other_labels: a spec names its own labels; give the rankings and both tables of labels"
        )


def _marks(
    marks: str | None, baseline: str | None, team: str | None, pool_depth: int | None
) -> str | None:
    """What marks compare with, one of REFERENCES; None if there are none.

    Raises:
        SpecError: If it is none of these, or what it needs is not there.
    """
    marks = marks or ("baseline" if baseline else None)
    if marks is not None and marks not in REFERENCES:
        raise SpecError(f"marks: {unknown('reference', marks, [*REFERENCES])}")
    if baseline and marks != "baseline":
        raise SpecError(f"marks={marks} compares with no baseline; leave one of the two out")
    if marks == "baseline" and not baseline:
        raise SpecError("marks=baseline compares with a system; name it (baseline)")
    if marks == "team" and team is None:
        raise SpecError("marks=team needs to know the teams; give team, such as '^[a-z]+'")
    if team is not None and marks != "team" and pool_depth is None:
        raise SpecError(
            "team says whose items are left out of a pool, and whose best system marks compare "
            "with; give the depth of the pool (pool_depth), or marks=team"
        )
    return marks


def _systems(result: Result, options: Options) -> tuple[list[str], Mapping[tuple[Any, ...], Row]]:
    """The systems that are ordered, and the summary by metric, cutoff and system.

    Raises:
        SpecError: If one that was named is nowhere in the data.
    """
    summary = {(row["metric"], row["k"], row["system"]): row for row in result.to_dicts()}
    names = [*dict.fromkeys(system for _, _, system in summary)]
    options.check_systems(names)
    wanted = {*(options.systems or names), options.baseline}
    return [name for name in names if name in wanted], summary


def _judged_counts(measure: Measure) -> tuple[str, str]:
    """What says how many items of the lists of a metric have a label."""
    end = "" if measure.k is None else f"@{measure.k}"
    return f"num_judged{end}", f"num_ret{end}"


def _check_weights(summary: Sequence[Row], measures: Sequence[Measure]) -> None:
    """Raise SpecError if queries have weights other than 1."""
    names = {(measure.name, measure.k or 0) for measure in measures}
    for row in summary:
        total = row["denominator"] if (row["metric"], row["k"]) in names else None
        if total is not None and abs(total - row["n_queries"]) > NOISE * total:
            raise SpecError(
                "queries have weights, but a leaderboard counts each topic once, as its tests do; "
                "leave the weight out, or use compare"
            )


def _order_measure(spec: Spec, sort_by: str | None, measures: Sequence[Measure]) -> Measure:
    """The metric that orders the rows.

    Raises:
        SpecError: If the one that is named has no ranks here.
    """
    if sort_by is None:
        return measures[0]
    if (measure := spec.measure(sort_by)) not in measures:
        known_names = [str(candidate) for candidate in measures]
        raise SpecError(f"sort_by: {unknown('metric of this leaderboard', sort_by, known_names)}")
    return measure


def _standings(
    scores: Scores,
    pair_test: PairTests,
    counts: Any,
    level: float,
    *,
    baseline: str | None,
    teams: Mapping[str, str],
) -> Iterator[Row]:
    """A row per system: its rank, how sure that is, its group, and it beside the reference.

    That is the baseline; the best system of its team, if there are teams; or the best of all.
    """
    import numpy as np

    means, error = scores.means, 1 - level
    sign = scores.sign or 1
    first, _ = ranks(means[None, :], sign)
    has_interval = len(scores.systems) > 1 and len(scores.topics) > 1
    intervals = rank_intervals(*ranks(scores.replicates(counts), sign), level)
    order = sorted(range(len(means)), key=lambda i: (first[0][i], scores.systems[i]))
    names = [scores.systems[i] for i in order]
    is_different = pair_test.adjusted < error
    different = {
        frozenset((scores.systems[i], scores.systems[j]))
        for i, j in zip(*np.nonzero(np.triu(is_different)), strict=True)
    }
    is_tested = pair_test.has_any
    letters = group_letters(names, different) if is_tested else {}
    is_higher = pair_test.differences * sign > 0
    best = {teams.get(scores.systems[i]): i for i in reversed(order)}
    for i in order:
        reference = best[teams.get(scores.systems[i])]
        if baseline:
            reference = scores.systems.index(baseline)
        is_reference, p_adjusted = i == reference, pair_test.adjusted[i][reference]
        verdict = None
        if not is_reference and not math.isnan(p_adjusted):
            verdict = "unclear"
            if is_different[i][reference]:
                verdict = "better" if is_higher[i][reference] else "worse"
        yield {
            "metric": str(scores.measure),
            "system": scores.systems[i],
            "rank": None if math.isnan(means[i]) else int(first[0][i]),
            **{name: ends[i] if has_interval else None for name, ends in intervals.items()},
            "group": letters.get(scores.systems[i]),
            "n_better": int((is_different[i] & is_higher[i]).sum()) if is_tested else None,
            "n_worse": int((is_different[i] & ~is_higher[i]).sum()) if is_tested else None,
            "reference": scores.systems[reference],
            "difference": _number(pair_test.differences[i][reference]),
            "p_value": None if is_reference else _number(pair_test.p_values[i][reference]),
            "p_adjusted": None if is_reference else _number(p_adjusted),
            "verdict": verdict,
            "n_topics": int((~np.isnan(scores.values[i])).sum()),
        }


def _pair_rows(scores: Scores, pair_test: PairTests) -> Iterator[Row]:
    """A row per pair, each once."""
    metric = str(scores.measure)
    for i, j in combinations(range(len(scores.systems)), 2):
        yield {
            "metric": metric,
            "system": scores.systems[i],
            "other_system": scores.systems[j],
            "difference": _number(pair_test.differences[i][j]),
            "p_value": _number(pair_test.p_values[i][j]),
            "p_adjusted": _number(pair_test.adjusted[i][j]),
        }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value) + 0.0  # no -0.0


def _of_summary(
    row: Row, summary: Mapping[tuple[Any, ...], Row], measures: Sequence[Measure]
) -> Row:
    """The value of a row, as the evaluation gives it, and the share of items without a label."""
    measure = next(candidate for candidate in measures if str(candidate) == row["metric"])
    judged, returned = (
        summary.get((text.partition("@")[0], measure.k or 0, row["system"]), {}).get("value")
        for text in _judged_counts(measure)
    )
    counted = summary.get((measure.name, measure.k or 0, row["system"]), {})
    return {
        "value": counted.get("value"),
        "unjudged": 1 - judged / returned if returned and judged is not None else None,
    }


def _headings(spec: Spec, texts: Sequence[str], measures: Sequence[Measure]) -> Mapping[str, str]:
    """Metric -> what it was called by who asked for it."""
    headings = {str(measure): str(measure) for measure in measures}
    for text in texts:
        with suppress(SpecError):
            name = str(spec.measure(text))
            if name in headings:
                headings[name] = name if NAMED.match(text) else text  # not a whole formula
    return headings


def _missing_notes(
    summary: Mapping[tuple[Any, ...], Row], measure: Measure, names: Sequence[str], option: Any
) -> Iterator[str]:
    """Which systems have no list of some topics."""
    missing = {name: summary.get((measure.name, measure.k or 0, name), {}) for name in names}
    texts = [
        f"{printable(name)} {row['n_missing']:,}"
        for name, row in missing.items()
        if row.get("n_missing")
    ]
    if texts:
        meaning = "counted as empty lists" if option == "zero" else "left out"
        yield f"topics without a list, {meaning}: {', '.join(texts)}"


def _test_notes(
    found_scores: Sequence[Scores], tests: Mapping[Measure, PairTests], test: str
) -> Iterator[str]:
    """What was not tested, and of which topics."""
    if len(found_scores[0].systems) < 2:
        yield "there is one system: nothing to compare it with"
        return
    if len(found_scores[0].topics) < 2:
        yield "there is one topic: differences cannot be tested, and ranks have no interval"
        return
    for scores in found_scores:
        if scores.sign == 0:
            yield (f"{scores.measure} says nothing of quality by itself: higher values come first")
        n_tested = tests[scores.measure].n_topics
        n_without = len(scores.topics) - n_tested
        if not tests[scores.measure].has_any:
            yield (
                f"{scores.measure}: no topics have values of the same systems, so nothing is "
                "tested; compare --unpaired takes systems with topics of their own"
            )
        elif test == TUKEY and n_without:
            yield (
                f"{scores.measure}: Tukey's test is of {many(n_tested, 'topic')} with a value of "
                f"each system; {n_without:,} without are left out"
            )
