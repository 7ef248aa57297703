"""Files of rankings that cannot be read, or have broken lines: left out where that is asked for."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError, SpecError, SqlmetricsError
from sqlmetrics.evaluation.inputs.run_names import expanded
from sqlmetrics.spec.source import RankedLists
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many

EXAMPLES = 10
"""So many files are named that are left out."""

Reader = Callable[[RankedLists, Database], tuple[RankedLists, Relation]]
"""A table of rankings, opened: with its columns as they are there."""


def problem_of(source: RankedLists, read: Reader) -> str:
    """Why a file of rankings cannot be used; empty if it can.

    Args:
        source: The file.
        read: What opens it.
    """
    try:
        with connect() as reader:
            source, relation = read(source, reader)
            return _broken_rows(source, relation, reader)
    except (InputError, SpecError) as error:
        text = str(error).splitlines()[0].removeprefix("rankings: ")
        return text.removeprefix(f"{source.file!r} ").removeprefix(f"the file {source.file!r} ")


def _broken_rows(source: RankedLists, relation: Relation, reader: Database) -> str:
    """How many rows lack an id or a score, or fields of a line of TREC; empty if none does."""
    text = source_text(relation)
    existing = {name.casefold() for name in reader.columns(text)}
    columns = source.columns
    order = "rank" if columns.rank else "score"
    column_by_role = {"query": columns.query, "item": columns.item, order: columns.order}
    column_by_role |= dict(relation.columns)
    missing = [
        name
        for role, name in column_by_role.items()
        if role != "system" and name.casefold() not in existing
    ]
    if missing:
        return f"has no column {missing[0]}"
    rules = dict(_rules(column_by_role, is_of_lists=bool(relation.lists)))
    counts = ",\n    ".join(
        f"sum(case when {rule} then 1 else 0 end) as n_{number}"
        for number, rule in enumerate(rules.values())
    )
    totals = reader.rows(f"select count(*) as n, {counts}\nfrom {text}")[0]
    if not totals[0]:
        return "has no rows"
    bad = ((problem, count) for problem, count in zip(rules, totals[1:], strict=True) if count)
    problem, count = next(bad, ("", 0))
    return f"has {many(count, 'row')} {problem}" if count else ""


def _rules(column_by_role: Mapping[str, str], *, is_of_lists: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with a row -> when it is."""
    column = {role: identifier(name) for role, name in column_by_role.items()}
    if "run line" in column:
        yield (
            "with less than six fields (query Q0 item rank score run)",
            f"{column['run line']} < 6",
        )
    yield "without a query", f"{column['query']} is null"
    yield "without an item", f"{column['item']} is null"
    order = "rank" if "rank" in column else "score"
    if not is_of_lists:
        number = f"try_cast({column[order]} as double)"
        yield f"without a number as the {order}", f"{number} is null or isnan({number})"


def without_bad_files(runs: Mapping[str, Any], problems: Mapping[str, str]) -> tuple[Any, str]:
    """The runs whose files can be used, and the note of those that are left out.

    Args:
        runs: Name, or path -> the run.
        problems: Of those that cannot be used: the same -> file and reason in words.

    Raises:
        InputError: If none can.
    """
    usable = {name: run for name, run in runs.items() if name not in problems}
    texts = list(problems.values())[:EXAMPLES]
    remainder = f"; and {len(problems) - EXAMPLES:,} more" if len(problems) > EXAMPLES else ""
    if not usable:
        raise InputError(f"rankings: no file can be used: {'; '.join(texts)}{remainder}")
    of_all = f"{len(problems):,} of {many(len(runs), 'file')}"
    return (
        usable,
        f"rankings: {of_all} are left out: {'; '.join(texts)}{remainder}" if texts else "",
    )


def sound_files(source: RankedLists, relation: Relation, read: Reader) -> Relation:
    """A glob with the files alone that can be used, and a note of the others.

    Raises:
        InputError: If none can.
    """
    files = expanded(relation.location)
    if not glob.has_magic(relation.location) or files == [relation.location]:
        return relation
    problems = dict(_problems(files, source, read))
    usable, note = without_bad_files({file: file for file in files}, problems)
    if not problems:
        return relation
    return replace(relation, files=tuple(map(glob.escape, usable)), note=note)


def _problems(files: Sequence[str], source: RankedLists, read: Reader) -> Iterator[tuple[str, str]]:
    for file in files:
        one_file = source.model_copy(update={"file": glob.escape(file), "skip_bad": False})
        if problem := problem_of(one_file, read):
            yield file, f"{file!r} {problem}"


def file_at_fault(source: RankedLists, relation: Relation, read: Reader) -> str:
    """Which file of a glob cannot be used, and why; empty if that is not known.

    Args:
        source: Where the rankings are.
        relation: How they are read.
        read: What opens a file of them.
    """
    try:
        files = expanded(relation.location)
        return next((text for _, text in _problems(files, source, read)), "")
    except SqlmetricsError:
        return ""
