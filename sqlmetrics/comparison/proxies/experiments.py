"""Past experiments: the difference of each metric in each, with its error, from tables or files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, NoDataError, unknown
from sqlmetrics.evaluation.inputs.open import opened_table
from sqlmetrics.evaluation.inputs.run_names import expanded, file_names, named_file
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.stats.true_effects import Effect
from sqlmetrics.tables.table import many, printable
from sqlmetrics.tables.tabular import Row

ROLE = "experiments"
_NEEDED = ("metric", "difference", "standard_error")
_NUMBERS = ("difference", "standard_error", "covariance")
_SHOWN = 3
"""As many examples a message has."""


@dataclass(frozen=True)
class Measurement:
    """What an experiment says of a metric.

    Attributes:
        difference: How far the metric moved.
        standard_error: The error of that.
        covariance: The covariance of its error and that of the online metric.
    """

    difference: float
    standard_error: float
    covariance: float


@dataclass
class Experiments:
    """Past experiments.

    Attributes:
        by_metric: Metric -> experiment -> what it says.
        notes: What a reader should know.
        sql: The statements that read them.
        has_covariances: Whether the tables have a column of covariances.
    """

    by_metric: dict[str, dict[str, Measurement]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sql: list[str] = field(default_factory=list)
    has_covariances: bool = False

    def effects(self, metric: str, online: str, signs: Mapping[str, int]) -> dict[str, Effect]:
        """Experiment -> what it measured of both metrics; of those that have both.

        Args:
            metric: The offline metric.
            online: The online metric.
            signs: Metric -> -1 if less of it is better.
        """
        targets, sign = self.by_metric[online], signs[metric] * signs[online]
        return {
            name: Effect(
                signs[metric] * proxy.difference,
                signs[online] * targets[name].difference,
                proxy.standard_error**2,
                targets[name].standard_error ** 2,
                sign * proxy.covariance,
            )
            for name, proxy in self.by_metric[metric].items()
            if name in targets
        }


def read_experiments(tables: Any, engine: Database) -> Experiments:
    """Read all tables.

    Args:
        tables: A table, several, or experiment -> its table; see `foretell`.
        engine: Where they are read.

    Raises:
        InputError: If columns are missing, a number is none, or a metric occurs twice.
        NoDataError: If there is no row.
    """
    experiments, rows = Experiments(), list[Row]()
    for name, table in _named(tables):
        rows += _rows(name, table, engine, experiments)
    if not rows:
        raise NoDataError(f"{ROLE}: no row of a difference")
    _check(rows)
    rows.sort(key=lambda row: (row["experiment"], row["metric"]))  # the same in any order
    incomplete = [row for row in rows if row["difference"] is None or row["standard_error"] is None]
    if incomplete:
        experiments.notes.append(
            f"{many(len(incomplete), 'row')} without a difference or a standard error left out: "
            f"{_examples(incomplete)}"
        )
    for row in rows:
        if row["difference"] is not None and row["standard_error"] is not None:
            covariance = row["covariance"] or 0.0
            measurement = Measurement(row["difference"], row["standard_error"], covariance)
            experiments.by_metric.setdefault(row["metric"], {})[row["experiment"]] = measurement
    return experiments


def _named(tables: Any) -> Iterator[tuple[str, Any]]:
    """Each table with the name of its experiment, which is empty for a table that stands alone."""
    if isinstance(tables, Mapping):
        yield from tables.items()
        return
    files: list[tuple[str, Any]] = []
    for table in tables if isinstance(tables, list | tuple) else [tables]:
        name, file = named_file(table) if isinstance(table, str) else ("", table)
        files += [(name, path) for path in (expanded(file) if isinstance(file, str) else [file])]
    if len(files) == 1:
        yield from files
        return
    paths = [str(file) if isinstance(file, str | PurePath) else "select" for _, file in files]
    titles = file_names(paths, ROLE)
    for (name, file), title in zip(files, titles, strict=True):
        yield name or title, file


def _rows(
    name: str, table: Any, engine: Database, experiments: Experiments
) -> Iterable[dict[str, Any]]:
    """The rows of a table, of all segments together."""
    text, columns = opened_table(table, ROLE, engine)
    needed = (*_NEEDED, *([] if name else ["experiment"]))
    if lacking := [column for column in needed if column not in columns]:
        hint = (
            "; or give one file per experiment, as compare --out writes them"
            if lacking == ["experiment"]
            else ""
        )
        problem = unknown("column", lacking[0], list(columns.values()))
        raise InputError(f"{ROLE}: {printable(name) + ': ' if name else ''}{problem}{hint}")

    def column(name: str, kind: str) -> str:
        value = identifier(columns[name]) if name in columns else "null"
        return f"cast({value} as {kind}) as {name}"

    has_names = "experiment" in columns
    selected = [
        column("experiment", "varchar") if has_names else f"{literal(name)} as experiment",
        *(column(text, "varchar") for text in ("system", "metric")),
        *(column(number, "double") for number in _NUMBERS),
    ]
    where = ""
    if "segment_name" in columns:
        where = f"\nwhere {identifier(columns['segment_name'])} = {literal(ALL)}"
    select = "select\n    " + ",\n    ".join(selected) + f"\nfrom {text}{where}"
    experiments.has_covariances |= "covariance" in columns
    experiments.sql.append(f"{engine.translation.text(select).rstrip()};\n")
    return engine.records(select)


def _check(rows: Sequence[Row]) -> None:
    """See that each row says which metric of which experiment, once, in numbers.

    Raises:
        InputError: If not, with examples.
    """
    if any(row["experiment"] is None or row["metric"] is None for row in rows):
        count = sum(row["experiment"] is None or row["metric"] is None for row in rows)
        raise InputError(
            f"{ROLE}: {many(count, 'row')} with NULL as the experiment or the metric; name them, "
            "or leave them out"
        )
    unsound = [row for row in rows if not _is_sound(row)]
    if unsound:
        raise InputError(
            f"{ROLE}: {many(len(unsound), 'row')} with a number that is not finite, or a standard "
            f"error below 0: {_examples(unsound)}; correct them, or leave them out"
        )
    _tell_systems_apart(rows)
    counts = Counter((row["experiment"], row["metric"]) for row in rows)
    repeated = [row for row in rows if counts[row["experiment"], row["metric"]] > 1]
    if repeated:
        raise InputError(
            f"{ROLE}: {many(len(repeated), 'row')} are of a metric that its experiment has "
            f"several times: {_examples(repeated)}; keep one of each"
        )


def _is_sound(row: Row) -> bool:
    numbers = [row[name] for name in _NUMBERS if row[name] is not None]
    error = row["standard_error"]
    return all(map(math.isfinite, numbers)) and not (error is not None and error < 0)


def _tell_systems_apart(rows: Sequence[Row]) -> None:
    """Make each treatment of an experiment with several of them one of its own."""
    systems: dict[str, set[str]] = {}
    for row in rows:
        if row["system"] is not None:
            systems.setdefault(row["experiment"], set()).add(row["system"])
    for row in rows:
        if len(systems.get(row["experiment"], ())) > 1 and row["system"] is not None:
            row["experiment"] = f"{row['experiment']} {row['system']}"


def _examples(rows: Sequence[Row]) -> str:
    texts = [
        f"{printable(row['experiment'])} {printable(row['metric'])} "
        f"({row['difference']}, error {row['standard_error']})"
        for row in rows[:_SHOWN]
    ]
    return ", ".join(texts) + (" ..." if len(rows) > _SHOWN else "")
