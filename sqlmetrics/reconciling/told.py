"""A reconciliation as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from sqlmetrics.grid import aligned
from sqlmetrics.reconciling.reconcile import Candidate, Reconciliation

WIDTH = 88
SHOWN = 10


def text(found: Reconciliation) -> str:
    """What gives the number, how many were tried, and what chance would have given."""
    head = _head(found)
    table = _table(found, found.candidates or found.nearest)
    return "\n\n".join(filter(None, [head, table, "\n".join(map(_wrapped, _notes(found)))]))


def _head(found: Reconciliation) -> str:
    what = f"{found.measure} = {found.target.text}" if found.target else f"{found.measure}"
    if found.target is None:
        what += f", {found.given:,} per-query {'value' if found.given == 1 else 'values'}"
    if found.candidates:
        return what
    return _wrapped(f"{what}: no combination that was tried gives it. The nearest:")


def _table(found: Reconciliation, candidates: Sequence[Candidate]) -> str:
    shown = candidates[:SHOWN]
    if found.target is None:
        names = ["departures", "explained", "beside", "conventions"]
        rows = [[str(c.distance), f"{c.explained:,}", f"{c.beyond:,}", c.words] for c in shown]
        table = aligned(names, rows)
    else:
        digits = found.target.decimals + 2
        names = ["departures", "value", "by chance", "conventions"]
        rows = [
            [str(c.distance), f"{c.value:.{digits}f}", _odds(c.by_chance), c.words] for c in shown
        ]
        table = aligned(names, rows)
    more = len(candidates) - len(shown)
    return f"{table}\n... and {more:,} more" if more > 0 else table


def _notes(found: Reconciliation) -> Iterator[str]:
    yield from _verdict(found)
    about = f"tried: {found.tried:,} combinations, up to {found.most} departures from a preset"
    if found.target is None:
        yield about
        yield "beside: queries that count by these conventions and have no value given"
        return
    yield (
        f"{about}; they give {found.values:,} different values, of which "
        f"{_odds(found.expected_by_chance)} would match {found.target.decimals} decimals by chance"
    )
    if found.candidates:
        yield "by chance: the same for the values with no more departures than that line"


def _verdict(found: Reconciliation) -> Iterator[str]:
    if not found.candidates:
        return
    first = found.candidates[0]
    fewest = [one for one in found.candidates if one.distance == first.distance]
    different = {one.value for one in fewest}
    if len(fewest) > 1 or len(first.presets) > 1:
        yield (
            f"several fit: {len(first.presets)} presets give the same here"
            if len(fewest) == 1
            else f"several fit: {len(fewest)} ways with {first.distance} departures"
            + (f", of {len(different)} different values" if len(different) > 1 else "")
        )
    if found.target and (first.by_chance or 0) > 0.5:
        yield "this may well be a coincidence: more digits or per-query values would tell"


def _odds(expected: float | None) -> str:
    if expected is None:
        return "-"
    return "<0.001" if 0 < expected < 0.001 else f"{expected:.2g}"


def _wrapped(line: str) -> str:
    return "\n".join(wrap(line, WIDTH, subsequent_indent="    "))
