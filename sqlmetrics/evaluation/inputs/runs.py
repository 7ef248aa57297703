"""Several runs given together: one table, in which each of them is a system, or a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import IOBase
from numbers import Number
from pathlib import PurePath
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks.ids import of_fractions
from sqlmetrics.evaluation.checks.scores import problems_of_scores
from sqlmetrics.evaluation.inputs.guess import guessed, guessed_file, with_whole_ids
from sqlmetrics.evaluation.inputs.names import NAMES, USUAL, plain
from sqlmetrics.evaluation.inputs.open import TOLD_APART, readable
from sqlmetrics.evaluation.inputs.run_names import check_tags, expanded, file_names, is_run_glob
from sqlmetrics.spec.source import RankedLists
from sqlmetrics.sql.relation import Relation, protect_query, source_text
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier, literal

SYSTEM = "system"
STAGE = "stage"
OUTSIDE = {"run line": "6", "lists": "0"}
"""What formats tell beside the columns, and what it is for a run of another format."""


@dataclass(frozen=True)
class StageRuns:
    """Tables that are the stages of a funnel, in order: each may have several systems.

    Attributes:
        runs: Stage -> its table.
    """

    runs: Mapping[str, Any]


def runs_in(rankings: Any, ids: set[str]) -> dict[str, Any]:
    """Name -> run, if several are given, in a dict or a list; empty for one table.

    A dict whose values are columns, or the items of a query, is one table. A file is called by
    its name without the ending of its format, see `file_names`; a glob of TREC runs is their files;
    what else stands in a list by its own name, as a run of ranx has one, or its number: `run_1`.

    Args:
        rankings: The rankings as a person gave them.
        ids: The columns that a table has at least.

    >>> runs_in(["runs/bm25.trec", "runs/dense.v2.trec"], {"query_id"}).keys()
    dict_keys(['bm25', 'dense.v2'])
    """
    if _is_path(rankings) and is_run_glob(str(rankings)):
        rankings = [rankings]
    if isinstance(rankings, StageRuns):
        return {str(name): run for name, run in rankings.runs.items()}
    if isinstance(rankings, list | tuple) and rankings:
        if all(map(_is_path, rankings)):
            paths = [path for run in rankings for path in expanded(str(run))]
            return dict(zip(file_names(paths), paths, strict=True))
        if all(_is_table(run) or _is_matrix(run) for run in rankings) and not _is_matrix(rankings):
            return _named(rankings)
    if isinstance(rankings, Mapping) and rankings and not ids <= rankings.keys():
        are_runs = all(_is_path(run) or _is_run(run, ids) for run in rankings.values())
        return {str(name): run for name, run in rankings.items()} if are_runs else {}
    return {}


def in_memory(input_table: Any) -> Any:
    """What can be read but once, a generator or a stream of Arrow, read up; all else as it is.

    >>> in_memory(iter([("q", "a", 1.0)])), in_memory("run.csv")
    ([('q', 'a', 1.0)], 'run.csv')

    Raises:
        InputError: If it is an open file.
    """
    if isinstance(input_table, StageRuns):
        return StageRuns(in_memory(input_table.runs))
    if isinstance(input_table, IOBase):
        name = getattr(input_table, "name", None)
        of_file = f" of {name!r}" if isinstance(name, str) else ""
        raise InputError(f"given an open file{of_file}; give its path, or what was read from it")
    if _is_read_once(input_table):
        return input_table.read_all() if hasattr(input_table, "read_all") else list(input_table)
    if isinstance(input_table, Mapping) and any(map(_is_read_once, input_table.values())):
        return {name: in_memory(table) for name, table in input_table.items()}
    if isinstance(input_table, list | tuple) and any(map(_is_read_once, input_table)):
        return [in_memory(table) for table in input_table]
    return input_table


def _is_read_once(value: Any) -> bool:
    return isinstance(value, Iterator) or hasattr(value, "read_all")


def _is_path(value: object) -> bool:
    return isinstance(value, str | PurePath)


def _is_matrix(value: object) -> bool:
    """Whether a value is a matrix; of paths that is known without a look at what reads them."""
    if value is None or isinstance(value, str | PurePath | Mapping):
        return False
    from sqlmetrics.evaluation.inputs.matrices import is_matrix

    return is_matrix(value)


def _is_table(value: Any) -> bool:
    """Whether a value is a table wherever it stands: a frame, Arrow, {query: {item: 1.0}}."""
    if isinstance(value, Mapping):
        return bool(value) and all(map(_are_scored, value.values()))
    if any(hasattr(type(value), name) for name in ("columns", "schema")):
        return True
    if getattr(getattr(value, "dtype", None), "names", None):  # a structured array
        return True
    return hasattr(value, "__arrow_c_stream__") or (
        hasattr(value, "to_dict") and not hasattr(value, "__array__")
    )


def _are_scored(items: object) -> bool:
    """Whether they are a dict of items and numbers."""
    return isinstance(items, Mapping) and all(isinstance(score, Number) for score in items.values())


def _is_run(value: Any, ids: set[str]) -> bool:
    """Whether a value of a dict is a table by itself, and not the items of a query."""
    if _is_table(value) or _is_matrix(value):
        return True
    if isinstance(value, Mapping):
        items = value.values()
        return bool(value) and all(
            isinstance(entry, Mapping | list | tuple) or getattr(entry, "ndim", 0)
            for entry in items
        )
    return (
        isinstance(value, list | tuple) and bool(value) and all(_is_row(row, ids) for row in value)
    )


def _is_row(value: Any, ids: set[str]) -> bool:
    """Whether it is a row of a table: a dict with ids, a NamedTuple, a tuple of three."""
    if isinstance(value, Mapping):
        return ids <= value.keys()
    return isinstance(value, tuple) and (hasattr(value, "_asdict") or len(value) == 3)


def _named(runs: Sequence[Any]) -> dict[str, Any]:
    """Runs by their own names if all have one, else by their numbers.

    Raises:
        InputError: If two have the same name.
    """
    names = [None if hasattr(type(run), "columns") else getattr(run, "name", None) for run in runs]
    if not all(isinstance(name, str) and name for name in names):
        return {f"run_{number}": run for number, run in enumerate(runs, 1)}
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"rankings: two runs are called {twice!r}; give a dict, {{name: run, name: run}}"
        )
    return dict(zip(map(str, names), runs, strict=True))


@dataclass(frozen=True)
class _Run:
    """A run that can be read.

    Attributes:
        name: What its system is called.
        source: Where it is, and its columns by their roles.
        relation: How it is read.
        type_by_column: Its columns and their types.
    """

    name: str
    source: RankedLists
    relation: Relation
    type_by_column: Mapping[str, str]

    @property
    def roles(self) -> dict[str, str]:
        """Role -> its column; that of the system only where it is there."""
        fixed = {role: name for role, name in self.relation.columns if role != "run file"}
        column_by_role = {
            role: column for role, column in self.source.columns.model_dump().items() if column
        }
        if self.relation.folder is not None:  # its file is its name
            column_by_role.pop(SYSTEM, None)
        if "rank" in fixed or "rank" in column_by_role:
            column_by_role.pop("score", None)
        else:
            column_by_role["score"] = self.source.columns.order
        return column_by_role | {
            role: name for role, name in fixed.items() if role != SYSTEM or SYSTEM in column_by_role
        }


@dataclass(frozen=True)
class Together:
    """Several runs as one table.

    Attributes:
        sql: What reads it.
        columns: Role -> its column.
        fixed: What the formats tell beside these.
        ordered: Whether its rows have an order of their own.
        notes: What should be known of how the runs are read.
        system_column: A column of systems that each run has, and that nobody named; else empty.
    """

    sql: str
    columns: Mapping[str, str]
    fixed: tuple[tuple[str, str], ...]
    ordered: bool
    notes: tuple[str, ...]
    system_column: str = ""

    def read(self, relation: Relation, engine: Database) -> Relation:
        """How it is read, once a spec has its text as a query."""
        template = relation.template if engine.translation.changes else "runs"
        return replace(relation, template=template, columns=self.fixed, ordered=self.ordered)


def together(
    sources: Mapping[str, RankedLists],
    engine: Database,
    *,
    precision: str,
    run_column: str = SYSTEM,
) -> Together:
    """One table of several runs, with the name of each as its system, unless they have some.

    Args:
        sources: Name -> where the run is; all with the same columns by their roles.
        engine: Where the tables are.
        precision: What becomes of scores: the value of `score_precision`.
        run_column: What the names of the runs are; stages beside systems, if not these.

    Raises:
        InputError: If a run lacks a column or has no row, or they are not ordered alike.
    """
    notes: list[str] = []
    runs = [_opened(name, source, engine, precision, notes) for name, source in sources.items()]
    first = runs[0].roles
    for run in runs:
        _check(run, first, runs[0].name)
    _check_tags(runs, engine)
    if precision in TOLD_APART and not engine.translation.changes:
        _check_scores(runs, engine)
    fixed = {role: name for run in runs for role, name in run.roles.items() if role in OUTSIDE}
    names = {role: USUAL.get(role, name) for role, name in first.items() if role not in OUTSIDE}
    columns = names if SYSTEM in names or run_column != SYSTEM else {**names, SYSTEM: SYSTEM}
    if {"rank"} & names.keys():
        columns["rank"] = "rank"
    extra_columns = _shared_columns(runs, {*columns.values(), *fixed.values(), run_column})
    name_columns = [] if run_column == SYSTEM else [run_column]
    view = [
        {
            "columns": [
                *(f"{literal(run.name)} as {name}" for name in name_columns),
                *_cells(run, columns, fixed, extra_columns),
            ],
            "source": source_text(protect_query(run.relation, engine.translation)),
        }
        for run in runs
    ]
    return Together(
        engine.translation.text(print_template("inputs/runs_union", {"runs": view})),
        columns,
        tuple(fixed.items()),
        all(run.relation.ordered for run in runs),
        tuple(dict.fromkeys(notes)),
        "" if SYSTEM in names else next(_system_columns(runs), ""),
    )


def _system_columns(runs: Sequence[_Run]) -> Iterator[str]:
    """The columns that have a name of systems in all runs."""
    for name in runs[0].type_by_column:
        if plain(name) in NAMES[SYSTEM].split() and all(name in run.type_by_column for run in runs):
            yield name


def _opened(
    name: str, rankings: RankedLists, engine: Database, precision: str, notes: list[str]
) -> _Run:
    """A run that can be read; what should be known of it is added to the notes.

    Raises:
        InputError: If it cannot be read; its file is named.
    """
    try:
        file_source, file_note = guessed_file("rankings", rankings, engine)
        relation = readable(file_source, "rankings", engine, precision)
        source, relation, note = guessed("rankings", file_source, relation, engine)
        relation, id_note = with_whole_ids("rankings", source, relation, engine)
        notes += filter(None, [file_note, relation.note, note, id_note])
        text = source_text(protect_query(relation, engine.translation))
        columns = engine.columns(text)
        if not engine.rows(f"select 1 as row_exists\nfrom {text}\nlimit 1"):
            raise InputError(f"rankings: {name}: the table has no rows")
    except InputError as error:
        if not rankings.file or not str(error).startswith("cannot be read"):
            raise
        raise InputError(f"rankings: {rankings.file!r} {error}; {LEAVE_OUT}") from None
    return _Run(name, source, relation, columns)


LEAVE_OUT = "add --skip-bad to leave such files out (in a spec, skip_bad: true)"


def opened_run(source: RankedLists, engine: Database) -> tuple[RankedLists, Relation]:
    """A run with its columns, by whatever names it has them."""
    relation = readable(source, "rankings", engine)
    source, relation, _ = guessed("rankings", source, relation, engine)
    return source, relation


def _check(run: _Run, first: Mapping[str, str], name: str) -> None:
    existing = {column.casefold() for column in run.type_by_column}
    for role, column in run.roles.items():
        if column.casefold() not in existing:
            message = unknown("column", column, list(run.type_by_column))
            raise InputError(f"rankings: {run.name}: {message} (used as {role})")
    orders = [{"rank", "score"} & roles.keys() for roles in (run.roles, first)]
    if orders[0] != orders[1]:
        run_order, first_order = (next(iter(order)) for order in orders)
        message = (
            f"{run.name} is ordered by a {run_order}, but {name} by a {first_order}; give all of "
            "them the same"
        )
        raise InputError(f"rankings: {message}")
    ids = [run.roles["query"], run.roles["item"]]
    if fraction_problems := list(of_fractions(f"rankings: {run.name}", ids, run.type_by_column)):
        raise InputError(fraction_problems)


def _check_tags(runs: Sequence[_Run], engine: Database) -> None:
    """Runs of TREC that are called by the names within them are systems of their own."""
    files_of_tag: dict[str, list[str]] = {}
    for run in runs if len(runs) > 1 else ():
        if not run.relation.columns or SYSTEM not in run.roles or not run.source.file:
            continue
        column = identifier(run.roles[SYSTEM])
        source = source_text(protect_query(run.relation, engine.translation))
        for (tag,) in engine.rows(f"select distinct {column} from {source}"):
            files_of_tag.setdefault(tag, []).append(run.source.file)
    check_tags(files_of_tag)


ONE_TYPE = "give the scores of all runs the same type, and set score_precision=exact"
"""What helps where runs with scores of several types become one table."""


def _check_scores(runs: Sequence[_Run], engine: Database) -> None:
    """Scores of several types become one; before that they are looked at, as they are."""
    kinds = {run.type_by_column.get(run.roles.get("score", ""), "") for run in runs}
    for run in runs if len(kinds) > 1 else ():
        source = source_text(protect_query(run.relation, engine.translation))
        if score_problems := list(problems_of_scores(run.roles, engine, source, remedy=ONE_TYPE)):
            raise InputError(score_problems)


def _shared_columns(runs: Sequence[_Run], reserved: set[str]) -> list[str]:
    """Further columns that all runs have, for segments and conditions."""
    used = {name.casefold() for run in runs for name in run.roles.values()}
    used |= {name.casefold() for run in runs for _, name in run.relation.columns}
    used |= {name.casefold() for name in reserved}
    shared = (
        set.intersection(*({name.casefold() for name in run.type_by_column} for run in runs)) - used
    )
    return [name for name in runs[0].type_by_column if name.casefold() in shared]


def _cells(
    run: _Run, columns: Mapping[str, str], fixed: Mapping[str, str], extra_columns: Sequence[str]
) -> Iterator[str]:
    """What is selected of a run."""
    for role, name in columns.items():
        if role == SYSTEM and SYSTEM not in run.roles:
            yield f"{literal(run.name)} as {identifier(name)}"
        else:
            yield _as(identifier(run.roles[role]), identifier(name))
    for role, name in fixed.items():
        column = run.roles.get(role)
        yield _as(identifier(column) if column else OUTSIDE[role], identifier(name))
    yield from map(identifier, extra_columns)


def _as(expression: str, name: str) -> str:
    return expression if expression == name else f"{expression} as {name}"
