"""`evaluate`: rankings against labels, ad hoc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from sqlmetrics.catalog.keywords import Conventions
from sqlmetrics.engines.database import connect, session_of
from sqlmetrics.evaluation.execution import Execution, Progress
from sqlmetrics.evaluation.question import named_arguments, question
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.evaluation.run import run


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
        rankings: Rows (query, item, score or rank [, system, date, weight, segments]): a
            path (Parquet, CSV, TREC run, .gz, globs), a table's name or a `select` text
            (with `connection`), a pandas or polars DataFrame, anything Arrow, dicts or rows; or a
            matrix, a row a query: an array, a masked or sparse one, or lists of lists, of scores
            of the items 0, 1, 2, ..., or of ids, best first. A score of -inf and an id of -1
            beside others from 0 on are no item; a note counts them. A dict of
            these, or a list of paths, frames, runs or arrays, is several runs: each is a system,
            called by its key, its file or its number, unless `system` names a column.
        labels: Rows (query, item, grade [, date]), given likewise (TREC qrels too); rows of no
            more than query and item have grade 1. A matrix has the shape of the scores and holds
            the items' grades, NaN for no label; or ids of relevant items. None if
            the rankings have the column `grade` themselves, NULL where there is no label; or if
            they are traces of Ragas, LlamaIndex, LangSmith, Phoenix or MLflow, a row per query
            with a list of retrieved documents and one of references.
        metrics: Texts like `ndcg@10`, `recall(rel=2)@50`, `mrr`, at least one; see
            `list metrics`.
        preset: A named set of conventions; default `house`.
        by: Columns of the rankings, or of `queries`, to segment by; each is also rolled up
            to `all`.
        segments: More of them that are no column, by their names: a condition on the columns of
            `queries`, or without them of the rankings, like `{"new_users": "signup_days <= 7"}`,
            whose values are true and false; `traffic` (head, torso and tail: thirds of the sum of
            the weights, heaviest queries first), `relevant_labels` (0, 1, 2-5, 6+) or
            `query_length` (words of the column `text` of `queries`: 1, 2, 3-4, 5+).
        connection: The database that holds the tables: a URL such as
            `postgresql://ann@host/sales`, an output of `profiles.yml`, an engine of SQLAlchemy,
            or a connection of it or of the Python driver, which is left open; default: a new
            DuckDB in memory. A file must be there. SELECT rights are enough. Files and data in
            memory become temporary tables of it.
        query: The query's column, in both tables unless `label_columns` says otherwise. Where
            `query_id` is not there, and one column has another usual name (`qid`, `user_id`),
            that is taken, and a note says so; likewise `doc_id` or `sku` as the item,
            `position` as the rank, `relevance` as the grade.
        item: The item's column, likewise.
        score: The column of scores, highest first.
        rank: A column of ranks 1..n to use instead of scores.
        grade: The labels' column of grades, 0 or more.
        group: The labels' column of groups: subtopics, nuggets, intents or evidence sets. An item
            may then have a label for each of several groups; metrics that do not look at groups
            take its best grade. Where a metric needs it, and one column is called `group`,
            `subtopic`, `nugget`, `intent` or the like, that is taken, and the second field of
            TREC qrels.
        system: The column of the ranker, model or run.
        date: The column of the day. The day is then a part of a query's identity; if the
            labels have the column too, they hold for that day, else for every day.
        time_zone: Whose days a column `date` of times with a zone has, like `Europe/Berlin`;
            default: UTC.
        weight: A column of query weights, of the rankings or of `queries`; means are
            weighted by them.
        baseline: The system that the others are compared with: `overlap`, `rbo`.
        queries: Rows (query [, date, weight, segments]), one a query, given likewise. With
            dates, a query that it lists for a day is missing where a system has it not.
        items: Rows (item [, category, popularity, users, vector]), one an item of the catalogue,
            given likewise; the last three by these names.
        where: A condition; only the rows of the rankings that meet it are there.
        grades: The numbers of grades that are texts, like {"high": 3, "none": 0}.
        label_columns: Names that the labels have for `query`, `item`, `grade`, `group`, `date`.
        separator: What is between the values of CSV files, like `;`; by default each file's
            header line shows it.
        decimal: The decimal mark of the numbers in CSV files, `.` or `,`.
        mask: For a matrix of rankings, an array of its shape: False where a row has no item, as
            lists differ in length. Labels have none there either. A masked array needs none.
        skip_bad: Whether, of several files of rankings, those are left out that cannot be read or
            have broken lines; a note names them. By default one of them is an error.
        metrics_from: A folder of metrics of your own, a file each, or several; `metrics` may name
            them.
        check: Whether to look for bad input first: duplicates, NULL, NaN and the like. A share
            like 0.01 looks at so many of the queries, chosen by their hash, and a note says so.
        per_query: Whether to fetch the per-query table too. Without it nothing leaves the
            database but the summary.
        confidence: The coverage of `ci_low` and `ci_high`, which the summary has then: Student's
            interval of each mean or ratio over queries, like 0.95. NULL for what is neither.
        plan: The physical plan: `window`, or on DuckDB `lists`, `counts` or `ranks`; the
            fastest if none is named. The numbers are the same.
        memory: How much memory DuckDB or ClickHouse may take, like `4GB`. What does not fit is
            done in buckets of queries. On PostgreSQL, MySQL and MariaDB the steps of a statement
            share it.
        checkpoint: A folder where buckets are kept that are done, so that a run that was
            stopped goes on; its files go when the run ends. The tables must be files.
        profile: A file for DuckDB's own profile of the statement that does the work, in JSON.
        progress: Is told after each bucket how many of how many are done, and about how
            many rows; without buckets, on DuckDB, each second how many of 100 percent.
        overwrite: Whether `profile` may be a file that is there and is no profile.
        **conventions: Options that override the preset's, like `gain="linear"`. A list
            of values of a metric's option gives every metric once for each value.

    Returns:
        The result; it prints as a table.

    Raises:
        SpecError: If a metric, option or column name is wrong.
        InputError: If the data would give wrong numbers; counts and examples are told.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> run = pa.table({"query_id": ["q", "q"], "item_id": ["a", "b"], "score": [2.0, 1.0]})
    >>> truth = pa.table({"query_id": ["q"], "item_id": ["b"], "grade": [1]})
    >>> evaluate(run, truth, ["mrr"])["mrr"]
    0.5
    """
    arguments = named_arguments(locals())
    opened = connect(session_of(connection, rankings, labels, queries, items))
    with opened as engine, engine.reading():
        spec, tables = question(engine, rankings, labels, metrics, **arguments)
        execution = Execution(plan, memory, checkpoint, profile, progress, overwrite)
        return run(
            spec,
            tables,
            engine,
            check=check,
            per_query=per_query,
            execution=execution,
            confidence=confidence,
        )
