"""One value of a segment, such as a device, by itself: its requests, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.sql.stage import Stage, with_stages
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.tables.table import printable
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T", bound=Tabular)


@dataclass(frozen=True, repr=False)
class ByGroup(Tabular, Generic[T]):
    """The same of each value of a segment; it prints one below the other.

    Attributes:
        column: The segment.
        groups: Its value, or an empty text where a request has none -> what was found.
        notes: Which values have no answer, and why.
    """

    column: str
    groups: Mapping[str, T]
    notes: tuple[str, ...] = ()

    def __getitem__(self, value: str) -> T:
        return self.groups[value]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The dicts of all, each with its group, for JSON."""
        return [
            {"group": value, **row}
            for value, result in self.groups.items()
            for row in result.to_dicts()
        ]

    def _arrow_tables(self) -> ArrowTables:
        names = next(iter(self.groups.values())).table_names
        return {name: partial(self._of_groups, name) for name in names}

    def _of_groups(self, name: str) -> pa.Table:
        """The tables of this name one below the other, each row with its group."""
        import pyarrow as pa

        tables = []
        for value, result in self.groups.items():
            table = result.to_arrow(name)
            tables.append(
                table.add_column(0, "group", pa.array([value] * table.num_rows, pa.string()))
            )
        return pa.concat_tables(tables)

    def _blocks(self) -> Iterator[Block]:
        for value, result in self.groups.items():
            yield f"{self.column}: {printable(value) or '(none)'}"
            yield from result.blocks()
        yield from self.notes


@dataclass(frozen=True)
class Rows:
    """The impressions of all requests, or of those of one value of a segment.

    Attributes:
        source: The stage of the impressions of all.
        column: The segment; empty for all requests.
        value: Its value; empty for those that have none.
    """

    source: str
    column: str = ""
    value: str = ""

    @property
    def name(self) -> str:
        """The stage of these impressions."""
        return "segment_impressions" if self.column else self.source

    def of(self, tables: ClickTables) -> dict[str, str]:
        """Where stages find one another, with this one."""
        return {**tables.of, **({self.name: self.name} if self.column else {})}

    def stages(self, tables: ClickTables, *names: str) -> Iterator[Stage]:
        """The stages to these impressions, and to others of the log."""
        yield from tables.stages(self.source, *names)
        if self.column:
            view = {
                "of": tables.of,
                "source": self.source,
                "column": identifier(self.column),
                "value": literal(self.value),
            }
            yield Stage(self.name, "clicks/segment_impressions", view)


def by_group(log: CleanLog, source: str, column: str, answer: Callable[[Rows], T]) -> ByGroup[T]:
    """What is said of the requests of each value of a segment.

    Args:
        log: The log, cleaned.
        source: The stage of its impressions.
        column: The segment.
        answer: What is asked of the requests of a value.

    Raises:
        SpecError: If the column is no segment of the log.
        InputError: If there is no answer for any value: the first reason.
    """
    segments = log.tables.clicks.columns.segments if log.tables.clicks.columns else ()
    if column not in segments:
        raise SpecError(unknown("segment", column, segments))
    value = f"coalesce({identifier(column)}, '')"
    select = f"select distinct {value} as segment_value\nfrom {log.tables.of[source]}"
    values = log.engine.rows(with_stages(log.tables.stages(source), select))
    result_by_value: dict[str, T] = {}
    failed: dict[str, InputError] = {}
    for value in sorted(str(value) for (value,) in values):
        try:
            result_by_value[value] = answer(Rows(source, column, value))
        except InputError as error:
            failed[value] = error
    if not result_by_value:
        raise next(iter(failed.values()), log.absence())
    notes = (
        f"{printable(failed_value) or '(none)'}: {error}" for failed_value, error in failed.items()
    )
    return ByGroup(column, result_by_value, tuple(notes))
