"""How deep people look: clicks by position, the deepest one of a request, and cutoffs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import Table, printable
from sqlmetrics.tables.tabular import Block, Kinds, Tabular, kinds_of

ENDS: Mapping[str, str] = {"click": "last_click", "any": "last_answer"}
"""What a request ends with, a click or any answer -> the column of its position."""

LONGEST = 30
"""As many positions are printed of a system."""


@dataclass(frozen=True)
class Position:
    """A position of a system.

    Attributes:
        system: None for all systems together.
        position: From 1.
        n_shown: Impressions there.
        n_clicked: Those that were clicked.
    """

    system: str | None
    position: int
    n_shown: int
    n_clicked: int

    @property
    def ctr(self) -> float:
        """Clicked impressions over impressions."""
        return self.n_clicked / self.n_shown


@dataclass(frozen=True)
class End:
    """The requests whose deepest answer stands at one position.

    Attributes:
        system: None for all systems together.
        answer: `click`, or `any` for the deepest answer of any kind.
        position: Where it stands.
        n_requests: How many end there.
        share: How many end there or above, of all requests with such an answer.
    """

    system: str | None
    answer: str
    position: int
    n_requests: int
    share: float


@dataclass(frozen=True)
class Cutoff:
    """The smallest cutoff that covers a share of the requests with a click.

    Attributes:
        system: None for all systems together.
        share: What was asked for, like 0.95.
        k: The position at or above which so many requests have their last click.
        covered: The share that it covers.
    """

    system: str | None
    share: float
    k: int
    covered: float


@dataclass(frozen=True, repr=False)
class Depth(Tabular):
    """How deep people look; it prints as a table per system, `all` first if there are several.

    Attributes:
        positions: By system and position; the system None, where there are several, is all.
        ends: Likewise, where the requests end.
        cutoffs: The cutoffs that this suggests; none for a system without a click.
    """

    positions: tuple[Position, ...]
    ends: tuple[End, ...]
    cutoffs: tuple[Cutoff, ...]

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "positions": kinds_of(Position, ctr="double"),
        "ends": kinds_of(End),
        "cutoffs": kinds_of(Cutoff),
    }

    @property
    def systems(self) -> tuple[str | None, ...]:
        """The systems, each once; None is all."""
        return tuple(dict.fromkeys(position.system for position in self.positions))

    def to_dicts(self) -> dict[str, list[dict[str, Any]]]:
        """All of it, for JSON; the system of all systems together is null."""
        return {
            "positions": [vars(position) | {"ctr": position.ctr} for position in self.positions],
            "ends": [dict(vars(end)) for end in self.ends],
            "cutoffs": [dict(vars(cutoff)) for cutoff in self.cutoffs],
        }

    def _blocks(self) -> Iterator[Block]:
        if not self.systems:
            yield "no list was shown"
        names = ["position", "shown", "clicked", "ctr", "last click", "cumulative", "last answer"]
        for system in self.systems:
            rows = [position for position in self.positions if position.system == system]
            head = "" if len(self.systems) == 1 else f"system: {_named(system)}"
            lines = [self._line(position) for position in rows[:LONGEST]]
            yield (head, Table([*names, "cumulative"], lines, 0), *_note_of_rest(rows))
            yield "\n".join(self._suggested(system))

    def _line(self, position: Position) -> list[str]:
        cells = [
            str(position.position),
            f"{position.n_shown:,}",
            f"{position.n_clicked:,}",
            f"{position.ctr:.4f}",
        ]
        for answer in ENDS:
            ends = [e for e in self.ends if (e.system, e.answer) == (position.system, answer)]
            n_ending = sum(e.n_requests for e in ends if e.position == position.position)
            far = max((e.share for e in ends if e.position <= position.position), default=0.0)
            cells += [f"{n_ending:,}", f"{far:.1%}" if ends else "-"]
        return cells

    def _suggested(self, system: str | None) -> Iterator[str]:
        clicked = sum(
            end.n_requests for end in self.ends if (end.system, end.answer) == (system, "click")
        )
        yield f"requests with a click: {clicked:,}"
        for cutoff in self.cutoffs:
            if cutoff.system == system:
                share = f"{100 * cutoff.share:.4g}%"
                yield (
                    f"k = {cutoff.k} covers {share}: {cutoff.covered:.1%} of these requests "
                    "end at this position or above"
                )


def depth(log: CleanLog, *, title: str = "log", shares: Sequence[float] = (0.8, 0.95)) -> Depth:
    """How deep users look into the results, from the impressions that the cleaning keeps.

    Args:
        log: The cleaned log.
        title: The name of the system if the log has none.
        shares: The shares of requests with a click that a cutoff should cover.

    Raises:
        SpecError: If a share is not above 0 and at most 1.
    """
    if wrong := [share for share in shares if not 0 < share <= 1]:
        raise SpecError(f"shares must be above 0 and at most 1, like 0.95; given {wrong[0]}")
    shown_as = log.tables.evaluates
    system = f"coalesce({shown_as}.system, {literal(log.system_of_none(title))})"
    view = {"of": log.tables.of, "impressions": shown_as, "system": system, "ends": ENDS}
    stages = log.tables.stages(shown_as, "answers")
    position_rows = log.engine.rows(
        with_stages([*stages, Stage("by_position", "clicks/by_position", view)], _ALL)
    )
    ended = log.engine.rows(
        with_stages(
            [*stages, Stage("deepest", "clicks/deepest", view)], print_template("clicks/ends", view)
        )
    )
    systems = _systems(position_rows)
    ends = tuple(_ends(ended, systems))
    return Depth(tuple(_positions(position_rows, systems)), ends, tuple(_cutoffs(ends, shares)))


_ALL = "select\n    system,\n    position,\n    n_shown,\n    n_clicked\nfrom by_position"


def _positions(rows: Iterable[Sequence[Any]], systems: Sequence[str | None]) -> Iterator[Position]:
    shown_counts: Counter[tuple[str, int]] = Counter()
    clicked: Counter[tuple[str, int]] = Counter()
    for system, position, n_shown, n_clicked in rows:
        shown_counts[system, position] += int(n_shown)
        clicked[system, position] += int(n_clicked)
    for system_name in systems:
        every, clicks_by_position = _of(system_name, shown_counts), _of(system_name, clicked)
        yield from (
            Position(system_name, k, every[k], clicks_by_position[k]) for k in sorted(every)
        )


def _ends(rows: Iterable[Sequence[Any]], systems: Sequence[str | None]) -> Iterator[End]:
    counts_by_answer: dict[str, Counter[tuple[str, int]]] = {answer: Counter() for answer in ENDS}
    for system, answer, position, n in rows:
        counts_by_answer[answer][system, position] += int(n)
    for answer, counts in counts_by_answer.items():
        for system_name in systems:
            position_counts = _of(system_name, counts)
            deep = sorted(position_counts)
            far = accumulate(position_counts[k] for k in deep)
            total = position_counts.total()
            yield from (
                End(system_name, answer, k, position_counts[k], n / total)
                for k, n in zip(deep, far, strict=True)
            )


def _systems(rows: Iterable[Sequence[Any]]) -> tuple[str | None, ...]:
    """The systems; None, which is all, before several."""
    systems = sorted({row[0] for row in rows})
    return (None, *systems) if len(systems) > 1 else tuple(systems)


def _of(system: str | None, counts: Mapping[tuple[str, int], int]) -> Counter[int]:
    """Position -> count, of one system or of all."""
    position_counts: Counter[int] = Counter()
    for (counted_system, position), n in counts.items():
        if system in (None, counted_system):
            position_counts[position] += n
    return position_counts


def _cutoffs(ends: Iterable[End], shares: Sequence[float]) -> Iterator[Cutoff]:
    """For each system and share the first position that covers it."""
    covered: dict[tuple[str | None, float], Cutoff] = {}
    for end in ends:
        for share in shares:
            if end.answer == "click" and end.share >= share:
                cutoff = Cutoff(end.system, share, end.position, end.share)
                covered.setdefault((end.system, share), cutoff)
    yield from covered.values()


def _note_of_rest(rows: Sequence[Position]) -> Iterator[str]:
    if len(rows) > LONGEST:
        yield f"... {len(rows) - LONGEST:,} more, down to position {rows[-1].position:,}"


def _named(system: str | None) -> str:
    return "all" if system is None else printable(system)
