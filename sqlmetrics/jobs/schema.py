"""The tables that runs write: each column once, with its type, what it holds and how it adds up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from sqlmetrics.catalog.dimension import metric_rows
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, SqlmetricsError
from sqlmetrics.spec.source import beside_table
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts, relation


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Attributes:
        kind: Its type in DuckDB's words, with `not null` behind it where it never is.
        meaning: What it holds, as the database's comments and the docs say it.
        roll_up: How rows of several days are put together, as SQL: `sum` or a ratio of sums; empty
            for keys and for what no sum gives.
        name: Its name.
    """

    kind: str
    meaning: str = ""
    roll_up: str = ""
    name: str = ""

    @property
    def type(self) -> str:
        """The type alone."""
        return self.kind.removesuffix(" not null")

    @property
    def is_required(self) -> bool:
        """Whether it is never NULL."""
        return self.kind.endswith(" not null")


Columns = Mapping[str, TableColumn]
"""Name -> column, in the order of a table."""


def named(**columns: TableColumn) -> dict[str, TableColumn]:
    """Columns with their names."""
    return {name: replace(column, name=name) for name, column in columns.items()}


key = partial(TableColumn, "varchar not null")
moment = partial(TableColumn, "timestamp not null")
text = partial(TableColumn, "varchar")
number = partial(TableColumn, "double")
total = partial(TableColumn, "double", roll_up="sum")
count = partial(TableColumn, "bigint", roll_up="sum")
required_count = partial(TableColumn, "bigint not null", roll_up="sum")

ROLL_UP = (
    "Roll up by sum(numerator) / sum(denominator) within one segment_name, never by avg(value)."
)

SPEC = key("The name of the spec.")
DAY = TableColumn(
    "date not null", "The day; 1970-01-01 if the data has no days, since a key has no NULL."
)
SYSTEM = key("The system: a ranker, model or run.")
METRIC = key("The metric without its cutoff, like ndcg or recall(rel=2).")
CUTOFF = TableColumn(
    "integer not null", "The cutoff; 0 if the metric has none, since a key has no NULL."
)

FOR_NONE: Mapping[str, str] = {
    "metric_date": "1970-01-01 if the data has no days",
    "segment_name": "all for all queries together",
    "segment_value": "all if segment_name is all",
    "k": "0 if the metric has no cutoff",
}
"""Columns of keys, which cannot be NULL -> the value that stands for none."""

FACTS: Columns = named(
    spec=SPEC,
    metric_date=DAY,
    system=SYSTEM,
    segment_name=key(
        "The segment column, or all for all queries together. Filter by one of them: each covers "
        "all queries."
    ),
    segment_value=key("The value of the segment column; all if segment_name is all."),
    metric=METRIC,
    k=CUTOFF,
    value=TableColumn(
        "double",
        f"The metric on this day: numerator / denominator. {ROLL_UP}",
        roll_up="sum(numerator) / sum(denominator)",
    ),
    numerator=total(
        "The sum of the query values; it adds up over days. NULL for metrics that cannot be added "
        "up."
    ),
    denominator=total(
        "The divisor of numerator, such as the number of queries that count; it adds up over days."
    ),
    n_queries=required_count("Queries that count."),
    n_skipped=required_count("Queries left out because the metric is not defined for them."),
    n_missing=required_count("Queries with labels but without a list of this system."),
    sum_sq=total("The sum of squared values over queries."),
    ci_low=number("Lower end of the interval of value."),
    ci_high=number("Upper end of the interval of value."),
    definition_hash=key("The hash of the metric's definition: see the table of definitions."),
    run_id=key("The run that wrote it: see the run log."),
    computed_at=moment("When it was computed, in UTC."),
    ci_method=text("The method of the interval."),
    n_clusters=count("The number of independent units: queries that count, or clusters of them."),
    sum_x=total("The sum over these units of their part of the numerator."),
    sum_x2=total("The sum of squares of these parts."),
    sum_w2=total("The sum of squares of their parts of the denominator."),
    sum_xw=total("The sum of products of their parts of numerator and denominator."),
)
"""The fact table: one row per spec, day, system, segment, metric and cutoff."""

BASELINE: Columns = named(
    baseline=text("The system that the row is compared with."),
    n_pairs=count("Queries with a value in both systems."),
    pair_clusters=count("The number of independent units: these queries, or clusters of them."),
    pair_w=total("The sum of their weights."),
    pair_w2=total("The sum of their squared weights."),
    sum_y=total("The sum of the baseline's values."),
    sum_y2=total("The sum of the baseline's squared values."),
    sum_xy=total("The sum of products of both systems' values."),
    sum_d=total("The sum of differences from the baseline."),
    sum_d2=total("The sum of squared differences."),
    sum_dw=total("The sum of products of differences and weights."),
    difference=number("The mean difference from the baseline, query by query."),
    difference_low=number("Lower end of its interval."),
    difference_high=number("Upper end of its interval."),
)
"""What it has besides where a spec names a baseline."""

PER_QUERY: Columns = named(
    spec=SPEC,
    metric_date=DAY,
    system=SYSTEM,
    query_id=key("The query, or the request of a click log."),
)
"""The per-query table, before its metrics: one row per spec, day, system and query."""

SPANS = ("day", "running")
"""Of which days a row of the experiment's table is: its day alone, or all days up to it."""

EXPERIMENT: Columns = named(
    spec=SPEC,
    metric_date=DAY,
    span=key("day for this day alone, running for all days of the experiment up to it."),
    system=key("The variant."),
    metric=METRIC,
    k=CUTOFF,
    role=key("primary or guardrail."),
    control=key("The variant that it is compared with."),
    n_days=TableColumn("bigint", "The days of the log behind the row; NULL without times."),
    n_units=TableColumn(
        "bigint not null",
        "Users in the variant alone; sessions or requests, where the log names no users.",
    ),
    control_units=TableColumn("bigint not null", "The same in control."),
    n_mixed=TableColumn("bigint not null", "Users in several variants, who are left out."),
    p_sample_ratio=number(
        "The probability of such shares or worse ones if chance assigned the users as planned."
    ),
    value=number("The metric in the variant; NULL, like all below, where nobody may look."),
    control_value=number("The metric in control."),
    difference=number("The variant less control."),
    difference_low=number("Lower end of its interval by Student's t: for one look."),
    difference_high=number("Upper end of it."),
    always_low=number("Lower end of its always-valid interval: look on any day."),
    always_high=number("Upper end of it."),
    p_value=number("The p-value of Welch's t: for one look."),
    relative=number("The difference as a share of the control's value."),
    relative_low=number("Lower end of the interval that decides: always valid with looks: any."),
    relative_high=number("Upper end of it."),
    max_drop_pct=number("What a guardrail may lose, in percent; NULL of the primary metric."),
    state=text("better, worse, held or unclear; NULL of a day alone, which decides nothing."),
    verdict=text(
        "ship, do not ship, not yet or no verdict, of the variant by all its metrics; NULL of a "
        "day alone."
    ),
    reason=text("Why, in a sentence."),
    definition_hash=key("The hash of the metric's definition and of what decides the verdict."),
    run_id=key("The run that wrote it: see the run log."),
    computed_at=moment("When it was computed, in UTC."),
)
"""The experiment's table: one row per spec, day, span, variant and metric."""

RUNS: Columns = named(
    run_id=key("The id of the run."),
    spec=SPEC,
    started_at=moment("The start of the run, in UTC."),
    seconds=number("The duration of the run in seconds."),
    range_start=TableColumn("date", "The first replaced day; NULL if all days were replaced."),
    range_end=TableColumn(
        "date", "The day after the last replaced day; NULL if all days were replaced."
    ),
    facts=TableColumn("bigint", "Rows of the fact table for these days."),
    per_query=TableColumn("bigint", "Rows of the per-query table for these days."),
    engine=text("The database and its version."),
    version=text("The version of sqlmetrics."),
    outcome=key("replaced, restored, retired, failed or running."),
    message=text("The error of a failed run, or notes on the input."),
    sources=TableColumn("text", "The input tables and their columns, as JSON."),
    metrics=TableColumn("text", "The metrics that the spec asked for."),
    user_name=text("The user who ran it; NULL for compiled SQL."),
    host=text("The machine that ran it; NULL for compiled SQL."),
    revision=text("The git revision of the spec's folder, with -dirty if files had changed."),
    note=TableColumn("text", "The text of --note."),
    archived=TableColumn(
        "bigint", "Old rows of these days that were archived; NULL without archives."
    ),
    restores=text("The run that this run restored from; NULL for other runs."),
    checked_input=text(
        "A hash of the files whose checks passed, how they were read, and the days; NULL for other "
        "input."
    ),
    experiment=TableColumn("bigint", "Rows of the experiment's table for these days."),
)
"""The run log: one row per run, including failed runs."""

METRICS: Columns = named(
    metric=METRIC,
    k=CUTOFF,
    name=key("The metric with its cutoff, like ndcg@10."),
    column_name=key("Its column in wide tables and views, like ndcg_at_10."),
    label=key("Its title for people."),
    meaning=key("Its formula in one line."),
    range_low=number("The smallest possible value."),
    range_high=number("The largest possible value; NULL if there is none."),
    direction=key("Whether higher or lower values are better; none if neither."),
    additive=TableColumn("integer not null", "1 if days can be added up, else 0."),
    roll_up=key(
        "How days are added up: ratio for sum(numerator) / sum(denominator), total for sum(value), "
        "none if they cannot be."
    ),
    unit=text("share, rank, count, bits or seconds; NULL for none."),
)
"""The table of metrics: one row per metric and cutoff."""

DEFINITIONS: Columns = named(
    definition_hash=key("The definition_hash of the fact table."),
    metric=METRIC,
    k=CUTOFF,
    conventions=TableColumn(
        "text not null",
        "The whole definition as JSON: all that decides the numbers except the data.",
    ),
    first_seen=moment("The first run with this definition, in UTC."),
)
"""The table of definitions: one row per definition of a metric."""

REPLACED: Columns = named(
    replaced_by=key("The run that replaced or removed the row: see the run log."),
    replaced_at=moment("The start of that run, in UTC."),
)
"""What an archive has behind the columns of the table whose rows it keeps."""

SUCCESSOR: Columns = named(
    new_value=number("The value of the row that replaced it."),
    is_removed=TableColumn(
        "integer", "1 if no row replaced it, 0 if one did; NULL if the row is unchanged."
    ),
)
"""What the fact table's archive has besides: what came in the place of the row."""


@dataclass(frozen=True)
class Table:
    """A table that runs write.

    Attributes:
        meaning: What it is, as the database's comments and the docs say it.
        setting: Its key in the `output` of a spec; a table without one of its own has that of the
            fact table, after which it is named.
        columns: Those that it has in any case.
        key: The columns of which no two rows have the same.
        later: Columns that it gets once a spec asks for them.
        archive: What the table of its replaced rows is; empty if no run keeps them.
        archived: The columns that this table has behind those of the table itself.
    """

    meaning: str
    setting: str
    columns: Columns
    key: Sequence[str]
    later: Columns = field(default_factory=dict)
    archive: str = ""
    archived: Columns = field(default_factory=dict)

    def column(self, name: str, kind: str) -> TableColumn:
        """A column that is there by its type there, also one of another spec or of an archive."""
        every = {**self.archived, **self.later, **self.columns}
        return replace(every.get(name) or TableColumn(kind, name=name), kind=kind)


TABLES: Mapping[str, Table] = {
    "facts": Table(
        f"Ranking metrics: one row per spec, day, system, segment, metric and cutoff. {ROLL_UP}",
        "relation",
        FACTS,
        [*FACTS][: [*FACTS].index("value")],
        BASELINE,
        "Rows of the fact table that runs replaced or removed, as they were.",
        {**REPLACED, **SUCCESSOR},
    ),
    "per_query": Table(
        "The values behind the metrics: one row per spec, day, system and query.",
        "per_query",
        PER_QUERY,
        [*PER_QUERY],
        archive="Rows of the per-query table that runs replaced or removed, as they were.",
        archived=REPLACED,
    ),
    "experiment": Table(
        "The experiment by day and in running total: one row per spec, day, span, variant and "
        "metric. Filter by one span.",
        "relation",
        EXPERIMENT,
        ["spec", "metric_date", "span", "system", "metric", "k"],
        archive="Rows of the experiment's table that runs replaced or removed, as they were.",
        archived=REPLACED,
    ),
    "runs": Table(
        "The run log: one row per run, including failed runs.",
        "runs",
        RUNS,
        ["spec", "run_id", "started_at", "outcome"],
    ),
    "metrics": Table(
        "The description of each metric: one row per metric and cutoff, to be joined by both.",
        "relation",
        METRICS,
        ["metric", "k"],
    ),
    "definitions": Table(
        "The meaning of each definition_hash: one row per definition of a metric.",
        "relation",
        DEFINITIONS,
        ["definition_hash", "metric", "k"],
    ),
}
"""The tables. A run whose views fail after its rows are written is in the log twice, with two
outcomes."""

COUNTED = tuple(name for name, table in TABLES.items() if table.archive)
"""The tables whose rows are of days."""

COMPILED = tuple(name for name in COUNTED if name != "experiment")
"""Those of them whose rows SQL alone can make; a verdict needs more."""

LONG = ("query_id",)
"""Columns of them that hold texts of any length."""

VIEWS: Mapping[str, str] = {
    "wide": "One row per spec, day, system and segment, with a column per metric and per sum "
    "behind it. Roll up by sum(x_numerator) / sum(x_denominator).",
    "latest": "The rows of the last day of each spec.",
    "daily_change": "Each row with the last earlier day of the same system and segment.",
    "rollup": "All days together: sum(numerator) / sum(denominator), with a 95 % interval.",
    "running": "Each day with all days before it, and an interval that stays valid if you look "
    "every day.",
    "comparison": "The difference from the baseline, for each day and for all days so far.",
    "days": "One row per spec and calendar day from its first to its last; is_missing is 1 for "
    "days without a row.",
    "status": "One row per spec: the age of its data, its last run, and what is missing.",
    "retired": "One row per spec and metric that it no longer names and whose rows stay: its days, "
    "and the first later day of the spec.",
    "of_spec": "All queries of one spec: one row per day and system, with a column per metric and "
    "per sum behind it. Roll up by sum(x_numerator) / sum(x_denominator).",
    "by_segment": "One spec by one segment: one row per day, system and value of the segment, with "
    "a column per metric and per sum behind it. Roll up by sum(x_numerator) / "
    "sum(x_denominator).",
}
"""View -> what it is."""


# The tables that a job writes: their columns, and how each dialect makes them.


def targets(spec: Spec) -> dict[str, str]:
    """What a spec writes to: `facts`, `runs`, `metrics`, `definitions`; others if asked for.

    These are `per_query`, and `experiment` of a click log that has an experiment.

    Raises:
        SpecError: If the spec has no output, its name cannot be a key, two tables have one name,
            or the fact table has no place for what is asked.
    """
    if not spec.title.isprintable():
        raise SpecError(
            f"the name of a job must be one line of printable characters, given {spec.title!r}"
        )
    output = spec.output
    if output is None:
        raise SpecError("the spec has no output; add: output: {relation: ranking_metrics}")
    per_query = {"per_query": output.per_query} if output.per_query and spec.metrics else {}
    name_by_table = {
        "facts": output.relation,
        **per_query,
        "runs": output.runs or output.named("runs"),
    }
    tables = ("metrics", "definitions", *["experiment"] * has_experiment(spec))
    name_by_table |= {table: output.named(table) for table in tables}
    names = [*name_by_table.values(), *archives_of(name_by_table).values()]
    if len({name.casefold() for name in names}) < len(names):
        listing = ", ".join(
            f"{TABLES[table].setting}: {name}" for table, name in name_by_table.items()
        )
        raise SpecError(f"each output table needs its own name; given {listing}")
    return name_by_table


def archives(spec: Spec) -> dict[str, str]:
    """The same of a spec's tables."""
    return archives_of(targets(spec))


def archives_of(name_by_table: Mapping[str, str]) -> dict[str, str]:
    """Table -> the table of the rows of it that runs replaced, of those that are archived."""
    return {
        table: beside_table(name_by_table[table], "archive")
        for table in COUNTED
        if table in name_by_table
    }


def held_targets(spec: Spec, engine: Database) -> dict[str, str]:
    """The same, with an experiment's table that another spec of the fact table has filled."""
    name = spec.output.named("experiment") if spec.output else ""
    is_held = name and {*TABLES["experiment"].key} <= {*columns_of(name, engine)}
    return targets(spec) | ({"experiment": name} if is_held else {})


def check_own(spec: Spec, engine: Database) -> None:
    """Whether the tables that are there are those of runs, and others can be made.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.

    Raises:
        SpecError: If one is somebody else's: a run would add columns and rows to it; or if there
            is no schema for it.
    """
    problems: list[str] = []
    engine.look_up(targets(spec).values())
    new_tables: dict[str, str] = {}
    for table, name in targets(spec).items():
        existing = {column.casefold() for column in columns_of(name, engine)}
        if not existing:
            new_tables[name] = table
            continue
        keys = [column.name for column in TABLES[table].columns.values() if column.is_required]
        if lacks := [column for column in keys if column not in existing]:
            problems.append(
                f"output.{TABLES[table].setting}: {name!r} already exists and was not made by a "
                f"run: it lacks the column {lacks[0]}; give another name"
            )
    for schema, names in names_by_absent_schema(new_tables, engine).items():
        others = f" and {len(names) - 1} other tables" if names[1:] else ""
        problems.append(
            f"output.{TABLES[new_tables[names[0]]].setting}: the schema {schema!r} of "
            f"{names[0]!r}{others} does not exist; create it, or leave it out"
        )
    if problems:
        raise SpecError(problems)


def columns_of(name: str, engine: Database) -> list[str]:
    """The columns of a table or view as they are now; none if it is not there."""
    try:
        return [*engine.columns(relation(name))]
    except InputError:
        return []


_SCHEMAS = "select catalog_name, schema_name from information_schema.schemata"


def names_by_absent_schema(names: Iterable[str], engine: Database) -> dict[str, list[str]]:
    """Schema that is not there -> the tables named in it; none where the database lists none.

    Args:
        names: Names of tables.
        engine: Where they are wanted.
    """
    schema_by_name = {name: place[-1] for name in names if (place := parts(name)[:-1])}
    absent: dict[str, list[str]] = {}
    if not schema_by_name:
        return absent
    with suppress(SqlmetricsError):
        known_schemas = {str(cell).casefold() for row in engine.rows(_SCHEMAS) for cell in row}
        for name, schema in schema_by_name.items():
            if schema.casefold() not in known_schemas:
                absent.setdefault(schema, []).append(name)
    return absent


def _of_requests(spec: Spec) -> dict[str, TableColumn]:
    """The columns that a click log adds to the per-query table."""
    if spec.clicks is None:
        return {}
    from sqlmetrics.clicks.log_rows import QUERY_TEXT, request_columns

    columns_of_log = {
        name: TableColumn("varchar", f"The request's {name}.")
        for name in request_columns(spec, PER_QUERY)
    }
    if QUERY_TEXT in columns_of_log:
        columns_of_log[QUERY_TEXT] = TableColumn("varchar", "What was asked.")
    return columns_of_log


def columns_for(spec: Spec) -> dict[str, Columns]:
    """Table -> its columns, also those that the spec adds to it."""
    paired = BASELINE if has_baseline(spec) else {}
    of_metrics = {
        row.column: TableColumn("double", f"{row.name}: {row.meaning}")
        for measure, row in zip(spec.measures, metric_rows(spec.measures), strict=True)
        if not measure.metric.pooled
    }
    return {
        **{name: table.columns for name, table in TABLES.items()},
        "facts": {**FACTS, **paired},
        "per_query": {**PER_QUERY, **named(**{**of_metrics, **_of_requests(spec)})},
    }


def has_experiment(spec: Spec) -> bool:
    """Whether a run looks at an experiment."""
    return spec.clicks is not None and spec.clicks.experiment is not None


def has_baseline(spec: Spec) -> bool:
    """Whether rows stand beside a baseline's."""
    has_systems = spec.clicks is None or spec.rankings.columns.system is not None
    return spec.baseline is not None and has_systems
