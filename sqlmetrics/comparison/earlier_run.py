"""Values of queries that an earlier run has kept: a baseline that need not be evaluated again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.periods import DAY
from sqlmetrics.comparison.statements import columns_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.open import opened_table
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import identifier, literal

ROLE = "baseline_values"


@dataclass(frozen=True)
class Stored:
    """A table of values of queries, as `evaluate` and jobs write them.

    Attributes:
        text: What stands behind FROM.
        columns: Its columns by their names in lower case.
        name: What it is called in a comparison.
        where: The condition of its rows.
        by_day: Whether a query stands beside itself on the same day; if not, on any.
    """

    text: str
    columns: Mapping[str, str]
    name: str = "stored"
    where: str = ""
    by_day: bool = False

    def _has(self, column: str) -> bool:
        return column.casefold() in self.columns

    def column(self, name: str) -> str:
        """A column as it is spelled there."""
        return identifier(self.columns[name.casefold()])

    @property
    def has_days(self) -> bool:
        """Whether its rows have days."""
        return self._has(DAY)

    @property
    def keys_of_runs(self) -> list[str]:
        """The columns that tell several runs in it apart."""
        return [name for name in ("spec", "system") if self._has(name)]

    @property
    def days(self) -> str:
        """The select of its days."""
        where = f"\nwhere {self.where}" if self.where else ""
        return f"select distinct cast({self.column(DAY)} as date) as {DAY}\nfrom {self.text}{where}"

    def check(self, measures: Sequence[Measure]) -> None:
        """Raise InputError if it lacks the values of a metric."""
        lacking = [measure for measure in measures if not self._has(measure.column)]
        if lacking:
            measure = lacking[0]
            problem = unknown("column", measure.column, list(self.columns.values()))
            raise InputError(
                f"{ROLE}: {problem} (the values of {measure}); evaluate the baseline with the "
                "same metrics and conventions"
            )

    def stage(
        self, keys: Sequence[str], measures: Sequence[Measure], facts: Sequence[str]
    ) -> Stage:
        """Its rows, as `query_values` has them.

        Args:
            keys: What a query is known by.
            measures: The metrics.
            facts: What the others have besides, and these have not.
        """
        columns: list[object] = []
        for key in keys:
            if key == "system":
                columns.append(Column(literal(self.name), key))
            else:
                kind = "date" if key == DAY else "varchar"
                columns.append(Column(f"cast({self.column(key)} as {kind})", key))
        for fact in facts:
            if fact == "cluster":
                columns.append(Column(f"cast({self.column('query_id')} as varchar)", fact))
            else:
                kind = "double" if fact == "weight" else "varchar"
                columns.append(Column(f"cast(null as {kind})", fact))
        for measure in measures:
            columns.append(Column(f"cast({self.column(measure.column)} as double)", measure.column))
        about = "one row per query of the earlier run"
        return columns_stage("stored_values", about, columns, self.text, self.where)


def opened_values(values: Any, baseline: str | None, engine: Database) -> Stored:
    """The table of an earlier run, of one system.

    Args:
        values: A file, a table or data in memory, as `evaluate` takes tables.
        baseline: Which of its systems; None for the only one.
        engine: Where it is read.

    Raises:
        InputError: If it cannot be read, or is no table of values of queries.
        SpecError: If it has several systems, and none is named.
    """
    text, column_by_name = opened_table(values, ROLE, engine)
    if "query_id" not in column_by_name:
        problem = unknown("column", "query_id", list(column_by_name.values()))
        raise InputError(
            f"{ROLE}: {problem}; give a table written by evaluate --per-query or output.per_query"
        )
    return _of_one_run(Stored(text, column_by_name), baseline, engine)


def _of_one_run(stored: Stored, baseline: str | None, engine: Database) -> Stored:
    """The rows of one system of one spec, by its name."""
    conditions = []
    for key in stored.keys_of_runs:
        column = stored.column(key)
        names = sorted(
            str(row[0]) for row in engine.rows(f"select distinct {column}\nfrom {stored.text}")
        )
        system = baseline if key == "system" else None
        if system is not None and system not in names:
            raise InputError(f"{ROLE}: {unknown('system', system, names)}")
        if system is None and len(names) > 1:
            say = (
                "name one of them (baseline, --baseline)"
                if key == "system"
                else "give the rows of one"
            )
            raise SpecError(f"{ROLE} have several values of {key}: {', '.join(names)}; {say}")
        name = system or next(iter(names), "")
        conditions.append(f"{column} = {literal(name)}")
        if key == "system" and name:
            stored = replace(stored, name=f"stored {name}")
    return replace(stored, where="\n    and ".join(conditions))
