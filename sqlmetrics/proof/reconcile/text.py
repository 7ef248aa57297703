"""A reconciliation as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation
from sqlmetrics.tables.table import Table, html_notes, many, terminal_width

WIDTH = 88
WORDS = 56
NARROW = 24
NUMBERS = 34
"""What the columns before the words take, about."""
SHOWN = 10
LIKELY = 0.3
"""From so many accidental matches on a match says little."""


def text(reconciliation: Reconciliation) -> str:
    """What gives the number, how many were tried, and what chance would have given."""
    head = _head(reconciliation)
    table = _table(reconciliation, reconciliation.candidates or reconciliation.nearest)
    return "\n\n".join(
        filter(None, [head, table, "\n".join(map(_wrapped, _notes(reconciliation)))])
    )


def html(reconciliation: Reconciliation) -> str:
    """The same for a notebook: a candidate is one row there."""
    names, digits = _names(reconciliation)
    candidates = (reconciliation.candidates or reconciliation.nearest)[:SHOWN]
    rows = [[*_numbers(candidate, digits), candidate.words] for candidate in candidates]
    ordered = [[*row[:1], row[3], *row[1:3]] for row in rows]  # texts stand before numbers
    heads = [names[0], names[3], *names[1:3]]
    table = Table(heads, ordered, 2, notes=list(_notes(reconciliation)))
    return html_notes([_head(reconciliation)]) + table.html()


def _names(reconciliation: Reconciliation) -> tuple[list[str], int]:
    """The headings, and how many decimals a value is shown with."""
    if reconciliation.target is None:
        return ["departures", "explained", "not given", "conventions"], 0
    return ["departures", "value", "by chance", "conventions"], reconciliation.target.decimals + 2


def _numbers(candidate: Candidate, digits: int) -> list[str]:
    """How far a candidate departs, and its numbers."""
    numbers = [f"{candidate.explained:,}", f"{candidate.beyond:,}"]
    if candidate.value is not None:
        numbers = [f"{candidate.value:.{digits}f}", _odds(candidate.by_chance)]
    return [str(candidate.distance), *numbers]


def _head(reconciliation: Reconciliation) -> str:
    heading = (
        f"{reconciliation.measure} = {reconciliation.target.text}"
        if reconciliation.target
        else f"{reconciliation.measure}"
    )
    if reconciliation.target is None:
        heading += f", {many(reconciliation.given, 'per-query value')}"
    if reconciliation.candidates:
        first = reconciliation.candidates[0]
        return f"{heading}: this is {first.metric}" if first.other_metric else heading
    return _wrapped(f"{heading}: no combination matches. The nearest:")


def _table(reconciliation: Reconciliation, candidates: Sequence[Candidate]) -> str:
    shown_candidates = candidates[:SHOWN]
    names, digits = _names(reconciliation)
    table = Table(
        names, [row for candidate in shown_candidates for row in _rows(candidate, digits)]
    ).text()
    n_hidden = len(candidates) - len(shown_candidates)
    return f"{table}\n... and {n_hidden:,} more" if n_hidden > 0 else table


def _rows(candidate: Candidate, digits: int) -> Iterator[list[str]]:
    """A candidate: its numbers, and its words on as many lines as they need."""
    room = min(WORDS, max(NARROW, (terminal_width() or WIDTH) - NUMBERS))
    first, *other_lines = wrap(
        candidate.words,
        room,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield [*_numbers(candidate, digits), first]
    yield from (["", "", "", line] for line in other_lines)


def _notes(reconciliation: Reconciliation) -> Iterator[str]:
    yield from (f"note: {note}" for note in reconciliation.notes)
    yield from _verdict(reconciliation)
    mistakes = [
        candidate
        for candidate in reconciliation.candidates[:SHOWN]
        if candidate.mistakes and candidate.distance
    ]
    for advice in dict.fromkeys(candidate.advice for candidate in mistakes):
        yield f"what to do: {advice}"
    if reconciliation.needless:
        yield (
            f"not shown: {many(reconciliation.needless, 'combination')} that would match with more "
            "departures than needed"
        )
    about = (
        f"tried: {reconciliation.tried:,} combinations with up to "
        f"{_departures(reconciliation.most)} from a preset"
    )
    if reconciliation.target is None:
        yield about
        yield "not given: queries that count by these conventions but have no given value"
        return
    yield (
        f"{about}; they give {reconciliation.values:,} different values; "
        f"chance alone would match {_odds(reconciliation.expected_by_chance)} of them to "
        f"{reconciliation.target.decimals} decimals"
    )
    if reconciliation.candidates:
        yield "by chance: that number among the values with no more departures than the line"


def _verdict(reconciliation: Reconciliation) -> Iterator[str]:
    if not reconciliation.candidates:
        return
    first = reconciliation.candidates[0]
    fewest = [
        candidate for candidate in reconciliation.candidates if candidate.distance == first.distance
    ]
    values = len({candidate.value for candidate in fewest})
    if len(fewest) > 1:
        with_many = _departures(first.distance)
        values_note = f" give {values} different values" if values > 1 else " give the same value"
        yield (
            f"several match: {len(fewest)} lines with "
            f"{with_many}{values_note if reconciliation.target else ''}"
        )
    elif len(first.presets) > 1:
        yield f"several match: {len(first.presets)} presets give the same value on this data"
    if first.same:
        combinations = many(first.same, "other combination")
        yield f"the same as the first line: {combinations}, whose options change nothing here"
    if reconciliation.target and (first.by_chance or 0) > LIKELY:
        yield "this may well be a coincidence: more digits or per-query values would tell"


def _departures(number: int) -> str:
    return f"{number} departure{'' if number == 1 else 's'}"


def _odds(expected: float | None) -> str:
    if expected is None:
        return "-"
    return "<0.001" if 0 < expected < 0.001 else f"{expected:.2g}"


def _wrapped(line: str) -> str:
    return "\n".join(wrap(line, min(WIDTH, terminal_width() or WIDTH), subsequent_indent="    "))
