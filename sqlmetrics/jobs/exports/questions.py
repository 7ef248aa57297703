"""What a tool asks before it writes, and of what it wrote: queries that must return no row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.dimension import direction
from sqlmetrics.clicks.cleaning import view_name
from sqlmetrics.evaluation.checks.rules import group_checks, row_checks
from sqlmetrics.jobs.definitions import described, read_metric_key, these
from sqlmetrics.jobs.exports.job_query import END, START, JobQuery
from sqlmetrics.jobs.schema import TABLES
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.threshold import LIMITS, PREVIOUS, Threshold
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import finished, free_name, identifier, literal, number

FACTS, PER_QUERY = "sqlmetrics_table_facts", "sqlmetrics_table_per_query"
"""What stands for the tables that are written."""

OLDEST = "sqlmetrics_oldest_day"
"""What stands for the first day that is not too old; the number of days is behind it."""


@dataclass(frozen=True)
class Question:
    """A query that must return no row.

    Attributes:
        name: A name for it, unique among them.
        about: What is wrong with the rows that it returns, and what to do.
        query: In the dialect, over marks.
        severity: `error`, or `warn`.
    """

    name: str
    about: tuple[str, ...]
    query: str
    severity: str = "error"


def of_inputs(job: JobQuery, *, may_be_empty: bool = False) -> Iterator[Question]:
    """What a run looks for in its tables before it computes anything.

    Of a click log that is only whether there are requests: it is cleaned of what is wrong.

    What hangs on the types of columns is not among it: a text tells none.

    Args:
        job: What is exported.
        may_be_empty: Whether days without a row are in order, as in the batches of a backfill.
    """
    if job.spec.clicks is not None:
        if not may_be_empty:
            yield from _of_requests(job)
        return
    rankings = job.plan.shape.names["rankings"]
    exists = f"\n    and exists (\n        select 1\n        from {rankings}\n    )"
    unless_empty = exists if may_be_empty else ""
    for question in _of_rows(job):
        if not (may_be_empty and question.name == "rankings_are_there"):
            yield question
    yield from _of_baseline(job, unless_empty)
    yield from _of_groups(job, unless_empty)
    yield from _of_queries(job)


def _of_rows(job: JobQuery) -> Iterator[Question]:
    shape = job.plan.unfused.shape
    for table, relation in shape.tables.items():
        columns = shape.columns[table]
        source = _chosen(relation, shape.where[table])
        on_days = " on these days" if "date" in columns else ""
        problem = f"there is no row in {table}{on_days}"
        view: dict[str, object] = {"problem": problem, "source": source}
        yield _question(job, f"{table}_are_there", (problem,), "no_row", view)
        rules = [
            (
                f"{columns[check.role]} {check.problem}: {check.remedy}",
                check.text(columns[check.role]),
            )
            for check in row_checks(job.plan, table)
        ]
        if rules:
            shown_columns = list(dict.fromkeys(map(identifier, columns.values())))
            view = {"columns": shown_columns, "rules": rules, "source": source}
            about = (f"rows of {table} that would give a wrong number",)
            yield _question(job, f"{table}_are_sound", about, "bad_rows", view)


def _of_requests(job: JobQuery) -> Iterator[Question]:
    """Over the steps of a log."""
    evaluated = view_name("evaluated_impressions")
    if any(step.name == evaluated for step in job.steps):
        problem = "there is no request on these days"
        view = {"problem": problem, "source": evaluated}
        yield _question(job, "requests_are_there", (problem,), "no_row", view)


def _chosen(relation: Relation, where: str) -> str:
    """What stands behind FROM: the rows that are looked at."""
    table = source_text(relation)
    view = {"table": table, "where": where}
    return print_template("exports/chosen", view) if where else table


def _of_baseline(job: JobQuery, unless_empty: str) -> Iterator[Question]:
    baseline, shape = job.spec.baseline, job.plan.shape
    if baseline is None or "system" not in shape.keys:
        return
    problem = f"no row of these days has the baseline {baseline}"
    view = {"problem": problem, "rankings": shape.names["rankings"], "baseline": baseline}
    select = print_template("exports/no_baseline", view) + unless_empty
    text = with_stages(_read(job, select), select)
    severity = "error" if "baseline" in job.spec.needed else "warn"
    yield Question("baseline_is_there", (problem,), job.at.text(finished(text)), severity)


def _of_groups(job: JobQuery, unless_empty: str) -> Iterator[Question]:
    used_names: set[str] = set()
    for rule in group_checks(job.plan):
        table = "tables" if rule.table == "both tables" else rule.table
        name = free_name(f"{table}_{_WORDS[rule.template]}", used_names.__contains__)
        used_names.add(name)
        select = print_template(f"checks/{rule.template}", {**rule.view, "among": []})
        select += unless_empty if rule.template == "common" else ""
        stages = [*job.plan.inputs, *job.plan.per_query] if rule.ranked else _read(job, select)
        text = job.at.text(finished(with_stages(stages, select)))
        yield Question(name, (rule.problem, f"-> {rule.remedy}"), text)


def _read(job: JobQuery, select: str) -> list[Stage]:
    """The tables that a query names, with what they are made of."""
    named = {stage.name for stage in job.plan.inputs if re.search(rf"\b{stage.name}\b", select)}
    if job.plan.shape.names["rankings"] in named:
        named |= {stage.name for stage in job.plan.rankings}
    return [stage for stage in job.plan.inputs if stage.name in named]


_WORDS = {
    "repeated": "stand_once",
    "ranks": "are_ranked_without_gaps",
    "ties": "have_no_ties",
    "unjudged": "are_judged",
    "varying": "agree_within_a_query",
    "undescribed": "are_described",
    "dimensions": "have_vectors_of_one_length",
    "common": "have_queries_in_common",
    "unknown": "are_in_the_catalogue",
}
"""A check's template -> what holds where it finds nothing."""


def _of_queries(job: JobQuery) -> Iterator[Question]:
    """What only shows once queries and labels are put together."""
    options, shape = job.spec.options, job.plan.shape
    refusals = []
    if options["missing"] == "error":
        remedy = "-> choose missing=zero or missing=drop"
        refusals.append(("ranked", "is_ranked = 0", "without a ranking", remedy))
    if shape.weighted:
        ranked = " and is_ranked = 1" if options["missing"] == "drop" else ""
        remedy = "-> give each query a weight, or choose missing=drop"
        refusals.append(("weighted", f"weight is null{ranked}", "without a weight", remedy))
    for name, condition, problem, remedy in refusals:
        view = {"keys": shape.keys, "condition": condition}
        stages = job.plan.inputs + job.plan.per_query
        text = with_stages(stages, print_template("exports/refused", view))
        about = (f"labelled queries {problem}", remedy)
        yield Question(f"queries_are_{name}", about, job.at.text(finished(text)))


def of_tables(job: JobQuery) -> Iterator[Question]:
    """What must hold of the rows that were written, whatever the data."""
    spec = literal(job.spec.title)
    days = Ends(f"cast({literal(START)} as date)", f"cast({literal(END)} as date)")
    where = [f"spec = {spec}", *days.of("metric_date")]
    for table in job.tables:
        mark = FACTS if table == "facts" else PER_QUERY
        view: dict[str, object] = {"keys": TABLES[table].key, "table": mark, "where": where}
        about = ("rows that stand more than once",)
        yield _question(job, f"{table}_stand_once", about, "repeated_rows", view)
    outside = []
    for row in described(job.spec):
        ends = {"<": (row.low, "-"), ">": (row.high, "+")}
        beyond = [
            f"value {sign} {number(end)} {slack} 1e-9"
            for sign, (end, slack) in ends.items()
            if end is not None
        ]
        if beyond and row.roll_up != "total":
            metric_condition = f"metric = {literal(row.metric)} and k = {row.k}"
            outside.append(f"({metric_condition} and ({' or '.join(beyond)}))")
    if outside:
        view = {"facts": FACTS, "where": where, "conditions": outside}
        yield _question(job, "values_in_range", ("values that no data can give",), "outside", view)
    problem_lines = (
        "metrics whose days were computed by more than one definition",
        "-> recompute all days: the conventions or parameters have changed since",
    )
    groups = these((row.metric, row.k) for row in described(job.spec))
    view = {"facts": FACTS, "spec": job.spec.title, "metric_conditions": groups}
    yield _question(job, "one_definition", problem_lines, "definitions", view)


def of_checks(job: JobQuery, *, may_be_empty: bool = False) -> Iterator[Question]:
    """The `checks` of the spec, but those with a confidence, or of an experiment.

    At these `sqlmetrics check` looks.

    Args:
        job: What is exported.
        may_be_empty: Whether a table without a row is in order.
    """
    used_names: set[str] = set()
    for threshold in job.spec.checks:
        if threshold.confidence is not None:
            continue
        severity = "warn" if threshold.severity == "warn" else "error"
        for name, about, template, view in _threshold_queries(threshold, job):
            free = free_name(f"check_{name}", used_names.__contains__)
            used_names.add(free)
            question = _question(
                job, free, (about,), template, {**view, "may_be_empty": may_be_empty}
            )
            yield Question(free, question.about, question.query, severity)


def left_to_check(job: JobQuery) -> list[str]:
    """The checks that are none of these, in words."""
    return [
        f"{threshold.metric} with confidence {threshold.confidence}"
        if threshold.confidence is not None
        else f"experiment: {threshold.experiment}"
        for threshold in job.spec.checks
        if threshold.confidence is not None or threshold.experiment is not None
    ]


def _threshold_queries(
    threshold: Threshold, job: JobQuery
) -> Iterator[tuple[str, str, str, Mapping[str, object]]]:
    base_view: dict[str, object] = {"facts": FACTS, "spec": job.spec.title}
    if threshold.max_age is not None:
        about = f"the last day is more than {threshold.max_age} days ago"
        yield (
            "max_age",
            about,
            "newer_than",
            base_view | {"oldest": f"{OLDEST}_{threshold.max_age}"},
        )
    if threshold.min_rows is not None:
        about = f"the last day has less than {threshold.min_rows} rows"
        yield "min_rows", about, "rows_at_least", base_view | {"least": threshold.min_rows}
    if threshold.metric is None:
        return
    limits = [name for name in LIMITS if getattr(threshold, name) is not None]
    compares = [name for name in limits if "drop" in name or "rise" in name]
    column = _column(threshold.metric, job)
    for names, compared in (
        ([n for n in limits if n not in compares], ""),
        (compares, threshold.against),
    ):
        if names:
            rules = [_rule(name, threshold, job.spec) for name in names]
            view = {"conditions": list(_of_threshold(threshold, job)), "rules": rules}
            about = f"{threshold.metric}: {', '.join(problem for problem, _ in rules)}"
            name = f"{column}_{'_'.join(names)}"
            yield name, about, "check", base_view | view | {"compared": compared}


def _column(text: str, job: JobQuery) -> str:
    rows = described(job.spec)
    return next(
        row.column for row in rows if (row.metric, row.k) == read_metric_key(text, job.spec)
    )


def _of_threshold(threshold: Threshold, job: JobQuery) -> Iterator[str]:
    """What the rows meet that a check is about."""
    metric, k = read_metric_key(str(threshold.metric), job.spec)
    yield f"numbers.metric = {literal(metric)}"
    yield f"numbers.k = {k}"
    ((name, value),) = threshold.segment.items() or ((ALL, ALL),)
    yield f"numbers.segment_name = {literal(name)}"
    if value != "*":
        yield f"numbers.segment_value = {literal(value)}"
    if threshold.system is not None:
        yield f"numbers.system = {literal(threshold.system)}"
    if threshold.against != PREVIOUS:
        yield f"numbers.system <> {literal(threshold.against)}"


def _rule(name: str, threshold: Threshold, spec: Spec) -> tuple[str, str]:
    """What is wrong, and its condition."""
    limit = getattr(threshold, name)
    problem = f"{name} {limit:g}"
    if name == "min":
        return problem, f"coalesce(value, {number(limit - 1)}) < {number(limit)}"
    if name == "max":
        return problem, f"coalesce(value, {number(limit + 1)}) > {number(limit)}"
    if name == "min_queries":
        return problem, f"n_queries < {limit}"
    falls = name != "max_rise" and direction(str(threshold.metric), spec.measures) >= 0
    change = "other_value - value" if falls else "value - other_value"
    allowed = f"{number(limit)} * abs(other_value) / 100e0" if "pct" in name else number(limit)
    broken = ["other_hash <> definition_hash", f"{change} > {allowed}"]
    if threshold.against == PREVIOUS:
        broken.insert(0, "(value is null and other_value is not null)")
    else:
        broken.insert(0, "value is null or other_value is null")
    return f"{problem} against {threshold.against}", "(" + " or ".join(broken) + ")"


def _question(
    job: JobQuery, name: str, about: Sequence[str], template: str, view: Mapping[str, object]
) -> Question:
    text = job.at.text(finished(print_template(f"exports/{template}", view)))
    return Question(name, tuple(about), text.rstrip())
