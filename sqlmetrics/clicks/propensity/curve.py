"""How often each position is looked at, against position 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_propensity import ClickPropensity, wrong_curve
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import double, literal
from sqlmetrics.tables.table import Table, printable
from sqlmetrics.tables.tabular import ArrowTables, Tabular, arrow_tables, kinds_of

_NUMBERS = ("position", "propensity", "ci_low", "ci_high")

PROPENSITIES = "propensities"
"""The stage of them."""


@dataclass(frozen=True)
class Propensity:
    """How often a position is looked at.

    Attributes:
        position: From 1.
        propensity: Above 0; 1 at position 1. It may be above 1: what stands in the middle of a
            page may be looked at more than its top.
        ci_low: The lower end of its interval; None without one, as at position 1.
        ci_high: The upper end.
        group: The value of the device or layout column; None if there is no such column.
    """

    position: int
    propensity: float
    ci_low: float | None = None
    ci_high: float | None = None
    group: str | None = None


@dataclass(frozen=True, repr=False)
class PropensityCurve(Tabular):
    """The propensities of positions, against position 1 of the same group; it prints as a table.

    Attributes:
        method: `given`, `randomised`, `harvest` or `em`.
        rows: By group and position.
    """

    method: str
    rows: tuple[Propensity, ...]

    @classmethod
    def given(cls, propensities: Mapping[int, float]) -> PropensityCurve:
        """The curve of propensities that are known; each is divided by that of position 1.

        Args:
            propensities: Position, from 1 -> propensity, above 0.

        Raises:
            SpecError: If position 1 is not there, or a position or a propensity cannot be one.

        >>> PropensityCurve.given({1: 0.8, 2: 0.4}).at(2)
        0.5
        """
        if problem := wrong_curve(propensities):
            raise SpecError(problem)
        rows = (Propensity(k, propensities[k] / propensities[1]) for k in sorted(propensities))
        return cls("given", tuple(rows))

    @classmethod
    def of(cls, propensity_settings: ClickPropensity) -> PropensityCurve | None:
        """The curve that a spec gives; None if it gives none."""
        curves = {name: cls.given(curve) for name, curve in propensity_settings.curves.items()}
        rows = (replace(row, group=name) for name, curve in curves.items() for row in curve.rows)
        return cls("given", tuple(rows)) if curves else None

    @classmethod
    def flat(cls, propensity_settings: ClickPropensity) -> PropensityCurve:
        """One for a log without rows: position 1 alone."""
        group = "" if propensity_settings.by is not None else None
        return cls(propensity_settings.method, (Propensity(1, 1.0, group=group),))

    @property
    def groups(self) -> tuple[str | None, ...]:
        """The groups, each once; None alone where there are none."""
        return tuple(dict.fromkeys(row.group for row in self.rows))

    def at(self, position: int, group: str | None = None) -> float | None:
        """The propensity of a position; None where it is not known."""
        rows = (row for row in self.rows if (row.position, row.group) == (position, group))
        return next((row.propensity for row in rows), None)

    def of_group(self, group: str) -> PropensityCurve | None:
        """That of one group by itself; of a curve without groups the whole, None if it has none."""
        if self.groups == (None,):
            return self
        rows = tuple(replace(row, group=None) for row in self.rows if row.group == group)
        return replace(self, rows=rows) if rows else None

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict a row, for JSON: position, propensity, ci_low, ci_high, method; and group."""
        has_groups = self.groups != (None,)
        return [
            {
                **({"group": row.group} if has_groups else {}),
                **{name: getattr(row, name) for name in _NUMBERS},
                "method": self.method,
            }
            for row in self.rows
        ]

    def _arrow_tables(self) -> ArrowTables:
        kinds = kinds_of(Propensity, method="string")
        group = {"group": kinds.pop("group")} if self.groups != (None,) else {}
        return arrow_tables({"positions": self.to_dicts()}, {"positions": group | kinds})

    def _blocks(self) -> Iterator[Table]:
        yield curve_table(self)


def curve_table(curve: PropensityCurve) -> Table:
    """The propensities for people."""
    has_groups = curve.groups != (None,)
    rows = [
        [
            *([printable(row.group or "")] if has_groups else []),
            *(str(row.position), f"{row.propensity:.4f}"),
            *(f"{end:.4f}" if end is not None else "-" for end in (row.ci_low, row.ci_high)),
        ]
        for row in curve.rows
    ]
    names = ["layout"] * has_groups + ["position", "propensity", "from", "to"]
    return Table(names, rows, int(has_groups))


def propensities(curve: PropensityCurve) -> Stage:
    """The stage `propensities`: position and propensity; before them layout, if there are groups.

    The propensities stand in its text, so it needs no table.
    """
    has_groups = curve.groups != (None,)
    rows = [
        [
            *([Column(literal(row.group or ""), "layout")] if has_groups else []),
            Column(str(row.position), "position"),
            Column(double(row.propensity), "propensity"),
        ]
        for row in curve.rows
    ]
    return Stage(PROPENSITIES, "clicks/propensity/propensities", {"rows": rows})
