"""A reconciliation as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from sqlmetrics.evaluation.report.layout import Cells
from sqlmetrics.evaluation.report.table import aligned, many, terminal_width
from sqlmetrics.evaluation.report.text import page, page_notes
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation

WIDTH = 88
WORDS = 56
NARROW = 24
NUMBERS = 34
"""What the columns before the words take, about."""
SHOWN = 10
LIKELY = 0.3
"""From so many accidental matches on a match says little."""


def text(found: Reconciliation) -> str:
    """What gives the number, how many were tried, and what chance would have given."""
    head = _head(found)
    table = _table(found, found.candidates or found.nearest)
    return "\n\n".join(filter(None, [head, table, "\n".join(map(_wrapped, _notes(found)))]))


def html(found: Reconciliation) -> str:
    """The same for a notebook: a candidate is one row there."""
    names, digits = _names(found)
    shown = (found.candidates or found.nearest)[:SHOWN]
    rows = [[*_numbers(one, digits), one.words] for one in shown]
    ordered = [[*row[:1], row[3], *row[1:3]] for row in rows]  # texts stand before numbers
    heads = [names[0], names[3], *names[1:3]]
    return page_notes([_head(found)]) + page(Cells(heads, ordered, 2), list(_notes(found)))


def _names(found: Reconciliation) -> tuple[list[str], int]:
    """The headings, and how many decimals a value is shown with."""
    if found.target is None:
        return ["departures", "explained", "beside", "conventions"], 0
    return ["departures", "value", "by chance", "conventions"], found.target.decimals + 2


def _numbers(one: Candidate, digits: int) -> list[str]:
    """How far a candidate departs, and its numbers."""
    numbers = [f"{one.explained:,}", f"{one.beyond:,}"]
    if one.value is not None:
        numbers = [f"{one.value:.{digits}f}", _odds(one.by_chance)]
    return [str(one.distance), *numbers]


def _head(found: Reconciliation) -> str:
    what = f"{found.measure} = {found.target.text}" if found.target else f"{found.measure}"
    if found.target is None:
        what += f", {many(found.given, 'per-query value')}"
    if found.candidates:
        return what
    return _wrapped(f"{what}: no combination that was tried gives it. The nearest:")


def _table(found: Reconciliation, candidates: Sequence[Candidate]) -> str:
    shown = candidates[:SHOWN]
    names, digits = _names(found)
    table = aligned(names, [row for one in shown for row in _rows(one, digits)])
    more = len(candidates) - len(shown)
    return f"{table}\n... and {more:,} more" if more > 0 else table


def _rows(one: Candidate, digits: int) -> Iterator[list[str]]:
    """A candidate: its numbers, and its words on as many lines as they need."""
    room = min(WORDS, max(NARROW, (terminal_width() or WIDTH) - NUMBERS))
    first, *rest = wrap(
        one.words, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    yield [*_numbers(one, digits), first]
    yield from (["", "", "", line] for line in rest)


def _notes(found: Reconciliation) -> Iterator[str]:
    yield from (f"note: {note}" for note in found.notes)
    yield from _verdict(found)
    mistakes = [one for one in found.candidates[:SHOWN] if one.mistakes and one.distance]
    for advice in dict.fromkeys(one.advice for one in mistakes):
        yield f"what to do: {advice}"
    if found.needless:
        yield f"left out: {found.needless:,} that fit too, but depart in more options than it needs"
    about = f"tried: {found.tried:,} combinations, up to {_departures(found.most)} from a preset"
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
    values = len({one.value for one in fewest})
    if len(fewest) > 1:
        with_many = _departures(first.distance)
        apart = f", of {values} different values" if values > 1 else ", with the same value"
        yield f"several fit: {len(fewest)} ways with {with_many}{apart if found.target else ''}"
    elif len(first.presets) > 1:
        yield f"several fit: {len(first.presets)} presets give the same on this data"
    if first.same:
        others = many(first.same, "other combination")
        yield f"the first has the same value as {others}: options that change nothing here"
    if found.target and (first.by_chance or 0) > LIKELY:
        yield "this may well be a coincidence: more digits or per-query values would tell"


def _departures(number: int) -> str:
    return f"{number} departure{'' if number == 1 else 's'}"


def _odds(expected: float | None) -> str:
    if expected is None:
        return "-"
    return "<0.001" if 0 < expected < 0.001 else f"{expected:.2g}"


def _wrapped(line: str) -> str:
    return "\n".join(wrap(line, min(WIDTH, terminal_width() or WIDTH), subsequent_indent="    "))
