"""`evaluate`: rankings against labels, ad hoc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Unpack

from sqlmetrics.catalog.keywords import Conventions
from sqlmetrics.engines.database import connect, session_of
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.execution import Execution, Progress, run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.question import Inputs, named_arguments, question
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.spec import Spec


def evaluate(
    rankings: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    preset: str | None = None,
    by: str | Sequence[str] = (),
    segments: str | Sequence[str] | Mapping[str, str] = (),
    connection: Any = None,
    query: str = "query_id",
    item: str = "item_id",
    score: str = "score",
    rank: str | None = None,
    grade: str = "grade",
    group: str | None = None,
    system: str | None = None,
    date: str | None = None,
    time_zone: str | None = None,
    weight: str | None = None,
    baseline: str | None = None,
    queries: Any = None,
    items: Any = None,
    where: str | None = None,
    grades: Mapping[str, float] | None = None,
    label_columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    mask: Any = None,
    skip_bad: bool = False,
    metrics_from: Any = None,
    check: bool | float = True,
    per_query: bool = True,
    confidence: float | None = None,
    plan: str | None = None,
    memory: str | None = None,
    checkpoint: str | Path | None = None,
    profile: str | Path | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
    **conventions: Unpack[Conventions],
) -> Result:
    """Evaluate rankings against labels, inside DuckDB or the database that has them.

    Args:
        rankings: Rows (query, item, score or rank [, system, date, weight, segments]): a path
            (Parquet, CSV, TREC run, .gz, globs), a table's name or a `select` text (with
            `connection`), a pandas or polars DataFrame, any Arrow data, dicts or rows. Or a matrix
            with one row per query (an array, also masked or sparse, or lists of lists): scores of
            the items 0, 1, 2, ..., or item ids, best first; a score of -inf, and an id of -1 among
            ids from 0 on, are no item, and a note counts them. A dict of these, or a list of paths,
            frames, runs or arrays, is several runs: each is a system, named by its key, file or
            number, unless `system` names a column. Or a `Spec`, or the path of one, which says
            all but how it is computed.
        labels: Rows (query, item, grade [, date]) in the same forms (TREC qrels too); rows with
            only query and item have grade 1. A matrix has the shape of the scores and holds the
            grades, NaN for no label; or it holds ids of relevant items. None if the rankings have
            the column `grade`, NULL without a label; or if they are traces of Ragas, LlamaIndex,
            LangSmith, Phoenix or MLflow: one row per query with a list of retrieved documents and a
            list of references.
        metrics: One or more texts like `ndcg@10`, `recall(rel=2)@50`, `mrr`; see `sqlmetrics list
            metrics`.
        preset: A named set of conventions. Default: `house`.
        by: Segment columns of the rankings or of `queries`; each is also rolled up to `all`.
        segments: Segments that are not columns, by name: a condition on the columns of `queries`
            (without it, of the rankings), like `{"new_users": "signup_days <= 7"}`, with the values
            true and false; `traffic` (head, torso and tail: thirds of the total weight, heaviest
            queries first), `relevant_labels` (0, 1, 2-5, 6+) or `query_length` (words in the column
            `text` of `queries`: 1, 2, 3-4, 5+).
        connection: The database that holds the tables: a URL such as `postgresql://ann@host/sales`,
            an output of `profiles.yml`, a SQLAlchemy engine, or a connection of SQLAlchemy or of
            the Python driver (which stays open). Default: a new DuckDB in memory. A database file
            must exist. SELECT rights are enough. Files and data in memory become temporary tables.
        query: The query column of both tables, unless `label_columns` says otherwise. If `query_id`
            does not exist and one column has another usual name (`qid`, `user_id`), that column is
            used, and a note says so; the same holds for `doc_id` or `sku` as the item, `position`
            as the rank and `relevance` as the grade.
        item: The item column; see `query`.
        score: The score column, highest first.
        rank: A column of ranks 1..n to use instead of scores.
        grade: The grade column of the labels, 0 or more.
        group: The group column of the labels: subtopics, nuggets, intents or evidence sets. An item
            may have one label per group; metrics that ignore groups take its best grade. If a
            metric needs groups and one column is called `group`, `subtopic`, `nugget`, `intent` or
            the like, that column is used; in TREC qrels the second field.
        system: The system column: the ranker, model or run.
        date: The day column. The day then is a part of a query's identity; if the labels have the
            column too, they apply to that day, else to every day.
        time_zone: The time zone that decides the day of a timestamp in `date`, like
            `Europe/Berlin`. Default: UTC.
        weight: A weight column of the rankings or of `queries`; means are weighted by it.
        baseline: The system that `overlap` and `rbo` compare the others with.
        queries: Rows (query [, date, weight, segments]), one per query, in the same forms. With
            dates, a query that is listed on a day is missing for each system without a list of it.
        items: Rows (item [, category, popularity, users, vector]), one per item of the catalogue,
            in the same forms; popularity, users and vector must have these names.
        where: A condition; rows of the rankings that do not meet it are left out.
        grades: Numbers for grades written as text, like {"high": 3, "none": 0}.
        label_columns: Other names in the labels for `query`, `item`, `grade`, `group` or `date`.
        separator: The delimiter of CSV files, like `;`. Default: detected from the header line.
        decimal: The decimal mark of CSV files, `.` or `,`.
        mask: For a matrix of rankings, an array of its shape: False where a row has no item, if
            lists differ in length. Labels are ignored there too. A masked array needs none.
        skip_bad: Whether to skip ranking files that cannot be read or have broken lines, if there
            are several; a note names them. By default such a file is an error.
        metrics_from: A folder, or several, of your own metrics, one file each; `metrics` may name
            them.
        check: Whether to check the input first: duplicates, NULL, NaN and the like. A share like
            0.01 checks that share of the queries, chosen by hash, and a note says so.
        per_query: Whether to fetch the per-query table too. If not, only the summary leaves the
            database.
        confidence: The level of `ci_low` and `ci_high`, such as 0.95: Student's interval of each
            mean or ratio over queries; NULL for other metrics. Default: no intervals.
        plan: The ranking plan: `window`, or, on DuckDB, `lists`, `counts` or `ranks`. Default: the
            fastest. The numbers are the same.
        memory: The memory limit of DuckDB or ClickHouse, like `4GB`. Larger work is split into
            buckets of queries. On PostgreSQL, MySQL and MariaDB the steps of a statement share the
            limit.
        checkpoint: A folder that stores finished buckets, so that a stopped evaluation can resume;
            it is emptied at the end. The tables must be files.
        profile: A file for DuckDB's query profile of the main statement, as JSON.
        progress: Called after each bucket with the numbers of finished and of all buckets, and the
            approximate number of rows; without buckets, on DuckDB, each second with the percentage.
        overwrite: Whether `profile` may replace a file that is not a profile.
        **conventions: Options that override the preset, like `gain="linear"`. With a list of values
            for an option of a metric, each metric is computed once per value.

    Returns:
        The result; it prints as a table.

    Raises:
        SpecError: If a metric, option or column name is wrong.
        InputError: If the data would give wrong numbers; the message has counts and examples.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> run = pa.table({"query_id": ["q", "q"], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    >>> truth = pa.table({"query_id": ["q"], "item_id": ["b"], "grade": [1]})
    >>> evaluate(run, truth, ["mrr"])["mrr"]
    0.5
    """
    arguments = named_arguments(locals())
    execution = Execution(plan, memory, checkpoint, profile, progress, overwrite)
    spec = read_if_spec(rankings) if labels is None else rankings
    if isinstance(spec, Spec):
        _check_spec_alone(spec, {"labels": labels, "metrics": metrics, **arguments})
        with connect(connection) as engine, engine.reading():
            return run(
                spec,
                opened(spec, engine),
                engine,
                check=check,
                per_query=per_query,
                execution=execution,
                confidence=confidence,
            )
    database = connect(session_of(connection, rankings, labels, queries, items))
    with database as engine, engine.reading():
        spec, tables = question(engine, rankings, labels, metrics, **arguments)
        return run(
            spec,
            tables,
            engine,
            check=check,
            per_query=per_query,
            execution=execution,
            confidence=confidence,
        )


def _check_spec_alone(spec: Spec, arguments: Mapping[str, Any]) -> None:
    """Raise SpecError for what the spec says itself, and if it is of a click log."""
    parameters = signature(evaluate).parameters
    extras = {
        name: value
        for name, value in arguments.items()
        if name not in parameters or not _is_default(value, parameters[name].default)
    }
    Inputs(spec, None, extras).check_spec_alone()
    if spec.clicks is not None:
        raise SpecError("the spec is of a click log; use evaluate_clicks")


def _is_default(value: Any, default: Any) -> bool:
    # tables are not compared: == of a DataFrame is another DataFrame
    return value is default or (isinstance(value, str) and value == default)
