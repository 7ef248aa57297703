"""`diagnose`: which patterns there are among metrics, with numbers, and where to look next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar, Unpack

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.comparison.compare import compared_plan, comparison_of
from sqlmetrics.comparison.diagnosis.log_numbers import log_numbers
from sqlmetrics.comparison.diagnosis.rules import IN_A_SLICE, METRICS, RULES, TIED, Rule, fired
from sqlmetrics.comparison.findings import decide
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import compared_periods, name_of
from sqlmetrics.comparison.report import Comparison, check_interval, describe_slice, worst_slices
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.execution import USUALLY, executing, result_of
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments, segmented
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.proof.ties import tied_rows
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.table import folded, printable
from sqlmetrics.tables.tabular import Kinds, Row, Tabular

MARGIN = 0.01
"""A difference that does not matter, where nobody says another."""
LEADING = "ndcg@10"
"""The metric by which segments are told, where no spec has one of its own."""


@dataclass(frozen=True)
class Finding:
    """A rule that fired.

    Attributes:
        rule: The rule.
        system: The system that it is about.
        baseline: The system that it is compared with; empty if the rule is about one system alone.
        numbers: The numbers that made it fire, as text.
    """

    rule: Rule
    system: str
    baseline: str
    numbers: str


@dataclass(frozen=True, repr=False)
class Diagnosis(Tabular):
    """The findings of a diagnosis; it prints as text.

    Attributes:
        findings: The rules that fired, by system.
        comparison: The differences behind the findings; None for a single system.
        result: The metrics of each system.
        notes: What could not be checked, and why.
    """

    findings: tuple[Finding, ...]
    comparison: Comparison | None
    result: Result
    notes: tuple[str, ...] = ()

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "findings": dict.fromkeys(
            ("system", "baseline", "finding", "numbers", "meaning", "look"), "string"
        )
    }
    _is_drawn: ClassVar[bool] = True

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def to_dicts(self) -> list[dict[str, str]]:
        """One dict per finding: system, baseline, finding, numbers, meaning, look."""
        return [
            {
                "system": finding.system,
                "baseline": finding.baseline,
                "finding": finding.rule.title,
                "numbers": finding.numbers,
                "meaning": finding.rule.meaning,
                "look": finding.rule.look,
            }
            for finding in self.findings
        ]

    def _blocks(self) -> Iterator[str]:
        parts = [
            "\n".join(_block(heading, rows)) for heading, rows in _by_heading(self.findings).items()
        ]
        if not self.findings:
            parts = [f"none of the {len(RULES)} patterns was found"]
        yield from parts
        yield "\n".join(folded(f"note: {note}") for note in self.notes)


def diagnose(
    rankings: Any,
    labels: Any = None,
    *,
    baseline: str | None = None,
    systems: Sequence[str] = (),
    margin: float = MARGIN,
    level: float = CONFIDENCE,
    by: str | Sequence[str] = (),
    dates: str | Sequence[str | date] = (),
    start: str | date | None = None,
    end: str | date | None = None,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Diagnosis:
    """Look for known patterns in the metrics of a system, or in its changes against a baseline.

    If recall goes up and NDCG is flat, the new relevant items do not reach the top 10; if MRR
    goes up and hit@20 is flat, the reranker works. A spec with a click log adds online metrics,
    so that NDCG up and CTR flat is a pattern too. The rules and their thresholds are in
    `comparison.diagnosis.rules`; each finding says what to look at next.

    Args:
        rankings: A table with a column of systems, a dict of tables or a `Spec`, as `compare` takes
            them. A single system is diagnosed by itself.
        labels: The labels, as `evaluate` takes them; None with a spec.
        baseline: The system that the others are compared with. Default: as for `compare`.
        systems: The systems to diagnose. Default: all.
        margin: Differences up to this size count as flat, in the unit of the metrics.
        level: The confidence level of the intervals that decide whether a metric moved.
        by: Segments; a finding names one in which a system is worse. Default: those of the spec.
        dates: Two or more days or periods of one system, as for `compare`: the first is the
            baseline, and each of them is treated as a system.
        start: The first day. Default: the first day of the data.
        end: The day after the last one. Default: all days of the data.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to check the input before the evaluation.
        **arguments: The other arguments of `evaluate`.

    Raises:
        SqlmetricsError: The errors that `compare` raises.

    >>> import pyarrow as pa
    >>> lists = pa.table({"query_id": [1, 1], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    >>> truth = pa.table({"query_id": [1], "item_id": ["b"], "grade": [1]})
    >>> [one.rule.title for one in diagnose(lists, truth)][:2]
    ['one relevant item per query', 'few relevant labels per query']
    """
    rankings = read_if_spec(rankings)
    check_arguments(diagnose, arguments)
    check_interval(level, margin)
    inputs = Inputs(rankings, labels, arguments)
    fitting, unfit = _fitting(inputs)
    zone = zone_of_days(rankings, arguments.get("time_zone"))
    options = Options(
        metrics=_first_the_leading(rankings, fitting),
        by=_segments(inputs, by),
        lists_slices=False,
        days=days_between(start, end, zone),
        systems=tuple(systems),
        baseline=baseline,
        level=level,
        margin=margin,
        dates=compared_periods(dates, zone, days=start or end),
    )
    with inputs.opened(connection) as engine:
        if isinstance(rankings, Spec) and rankings.clicks is not None:
            if options.dates:
                raise SpecError(
                    "dates: a diagnosis does not compare days of a click log; choose days with "
                    "start and end, or compare them in report"
                )
            looked = _at_log(rankings, options, engine, check=check)
        else:
            looked = _at_tables(inputs, options, engine, check=check)
    numbers, moved = looked.numbers, looked.moved
    rules = [rule for rule in RULES if not (looked.own_labels and rule.rests_on_labels_of_others)]
    chosen = set(systems) | {baseline} if systems and not dates else set(numbers)
    findings = [
        Finding(rule, system, pair, ", ".join(evidence))
        for (system, pair), rows in moved.items()
        for rule in rules
        if rule.of_a_pair
        and (evidence := fired(rule, numbers[system], rows, numbers.get(pair, {}), margin))
    ]
    findings += [
        Finding(rule, system, "", ", ".join(evidence))
        for system, values in numbers.items()
        if system in chosen
        for rule in rules
        if not rule.of_a_pair and (evidence := fired(rule, values, {}, {}, margin))
    ]
    findings += [
        Finding(
            IN_A_SLICE, row["system"], row["baseline"], describe_slice(row, level, looked.counted)
        )
        for row in looked.worse_slices
    ]
    notes = (*looked.notes, *unfit)
    return Diagnosis(tuple(findings), looked.comparison, looked.result, notes)


def _first_the_leading(rankings: Any, fitting: Sequence[str]) -> tuple[str, ...]:
    """The metrics with that first by which segments are told: the spec's own first, or NDCG."""
    is_of_lists = isinstance(rankings, Spec) and rankings.clicks is None
    leading = str(rankings.measures[0]) if is_of_lists else LEADING
    is_leading = is_of_lists or leading in fitting
    return tuple(dict.fromkeys([*([leading] if is_leading else []), *fitting]))


def _segments(inputs: Inputs, by: str | Sequence[str]) -> tuple[str, ...]:
    """The segments that the spec, or who asks, names."""
    spec = inputs.rankings
    if isinstance(spec, Spec):
        return segmented(by, ()) or (spec.by if spec.clicks is None else ())
    return inputs.segments(by)


def _fitting(inputs: Inputs) -> tuple[tuple[str, ...], list[str]]:
    """The metrics of the rules that the conventions allow, and why not the others."""
    tables = {"rankings": {"relation": "rankings"}, "labels": {"relation": "labels"}}
    conventions = {name: value for name, value in inputs.arguments.items() if name in OPTIONS}
    preset = inputs.arguments.get("preset") or "house"
    spec = (
        inputs.rankings
        if isinstance(inputs.rankings, Spec)
        else Spec(**tables, metrics=["mrr"], preset=preset, conventions=conventions)
    )
    fitting, unfit = [], []
    for text in METRICS:
        try:
            spec.having(metrics=[text])
            fitting.append(text)
        except SpecError as error:
            unfit.append(f"not checked: {error}")
    return tuple(fitting), unfit


@dataclass(frozen=True)
class _Look:
    """What there is to look for patterns in.

    Attributes:
        numbers: System -> metric -> its value.
        moved: (System, baseline) -> metric -> how far it moved.
        comparison: The differences behind it, of systems with queries in common.
        result: The metrics of lists.
        notes: What could not be looked at, and why.
        own_labels: Whether the labels were made from the lists themselves.
        worse_slices: For each system that is worse in a segment, the row of it.
        counted: What `n` of such a row counts.
    """

    numbers: dict[str, dict[str, float]]
    moved: Mapping[tuple[str, str], Mapping[str, Row]]
    comparison: Comparison | None
    result: Result
    notes: tuple[str, ...]
    own_labels: bool = False
    worse_slices: Sequence[Row] = ()
    counted: str = "queries"


def _at_tables(inputs: Inputs, options: Options, engine: Database, *, check: bool | float) -> _Look:
    comparison, notes = None, []
    with (
        compared_plan(inputs, options, engine) as (plan, asks_of_runs),
        executing(plan, engine, check=check, per_query=False, execution=USUALLY) as script,
    ):
        result = result_of(plan, script, engine, check=check)
        numbers = _numbers(result, options)
        for row in tied_rows(plan, engine).to_pylist():
            if row["n_rows"] and not options.dates:  # they are of all days together
                numbers.setdefault(row["system"], {})[TIED] = row["n_tied_rows"] / row["n_rows"]
        if not options.dates:
            asks_of_runs.check_systems(numbers)
        if len(numbers) > 1:
            try:
                comparison = comparison_of(plan, asks_of_runs, script, engine)
            except InputError as error:
                notes.append(f"changes between the systems were not checked: {error}")
        else:
            notes.append(_ALONE)
    notes += [row["sentence"] for row in comparison or () if row["ci_low"] is None]
    look = _Look(numbers, _moved(comparison), comparison, result, tuple(notes))
    if comparison is None:
        return look
    return replace(look, worse_slices=comparison.worse_slices, counted=comparison.counted[1])


_ALONE = "there is only one system, so changes against another were not checked"


_OWN_LABELS = (
    "labels are clicks on the lists themselves, so every relevant item was shown; recall, hits "
    "and judged items were not checked"
)
_OWN_POOL = "every relevant item was shown, so recall, hits and judged items were not checked"


def _at_log(spec: Spec, options: Options, engine: Database, *, check: bool | float) -> _Look:
    """The lists of a click log beside what people did with them."""
    logged = log_numbers(
        spec.having(by=options.by) if options.by else spec, options, engine, check=check
    )
    if logged.result is None:
        raise ValueError("a diagnosis needs metrics of lists, like ndcg@10")
    numbers = _numbers(logged.result, options)
    for system, values in logged.online.items():
        numbers.setdefault(system, {}).update(values)
    decide(logged.rows, options)
    moved = logged.moved
    notes = logged.notes if moved else (_ALONE, *logged.notes)
    own_labels = spec.clicks is not None and spec.clicks.judges_itself
    if spec.clicks is not None and own_labels:
        notes = (*notes, _OWN_POOL if spec.clicks.labels.pools else _OWN_LABELS)
    slices = tuple(worst_slices(logged.rows))
    look = _Look(numbers, moved, None, logged.result, notes, own_labels)
    return replace(look, worse_slices=slices, counted=logged.counted)


def _numbers(result: Result, options: Options) -> dict[str, dict[str, float]]:
    """System, or period of one, -> metric -> its mean over all days; of a count, over queries."""
    sums: dict[str, dict[str, list[float]]] = {}
    for row in result.to_dicts():
        if row["segment_name"] != "all" or row["value"] is None:
            continue
        if options.dates and options.systems and row["system"] not in options.systems:
            continue
        name = at_cutoff(row["metric"], row["k"])
        bottom = row["denominator"] if row["denominator"] is not None else row["n_queries"]
        top = row["numerator"] if row["denominator"] is not None else row["value"]
        side = name_of(row["metric_date"], options.dates) if options.dates else str(row["system"])
        total = sums.setdefault(side, {}).setdefault(name, [0.0, 0.0])
        total[0] += top
        total[1] += bottom
    means = {
        system: {name: top / bottom for name, (top, bottom) in metrics.items() if bottom}
        for system, metrics in sums.items()
    }
    # A rule's text may say what holds anyway, and the result's does not.
    names = {text: str(result.spec.measure(text)) for text in METRICS}
    return {
        system: values | {text: values[name] for text, name in names.items() if name in values}
        for system, values in means.items()
    }


def _moved(comparison: Comparison | None) -> dict[tuple[str, str], dict[str, Row]]:
    """(System, baseline) -> metric -> its row, over all segments."""
    moved: dict[tuple[str, str], dict[str, Row]] = {}
    for row in comparison or ():
        if row["segment_name"] == "all":
            moved.setdefault((row["system"], row["baseline"]), {})[row["metric"]] = row
    return moved


def _by_heading(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    findings_by_heading: dict[str, list[Finding]] = {}
    for finding in findings:
        sides = filter(None, (finding.system, finding.baseline))
        heading = " against ".join(map(printable, sides))
        findings_by_heading.setdefault(heading, []).append(finding)
    return findings_by_heading


def _block(heading: str, rows: Sequence[Finding]) -> Iterator[str]:
    yield heading
    for finding in rows:
        yield f"  {finding.rule.title}"
        for text in (finding.numbers, finding.rule.meaning, f"look at: {finding.rule.look}"):
            yield folded(text, "      ", first="    ")
