"""How often positions of a log are looked at: whether it can tell, what it tells, how surely."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.log_rows import ITEM_POSITIONS
from sqlmetrics.clicks.propensity import em, harvest, random_traffic, report
from sqlmetrics.clicks.propensity.correction import Correction, correction
from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve
from sqlmetrics.clicks.propensity.identifiability import (
    Identifiability,
    Reach,
    identifiability,
    refusal,
)
from sqlmetrics.clicks.propensity.moves import (
    Links,
    Moves,
    Standing,
    links,
    moved_items,
    moves,
    standings,
)
from sqlmetrics.clicks.propensity.sampling import interval
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.report.table import printable
from sqlmetrics.sql.stage import select_of

SPARSE = 100
"""With fewer impressions a pair, expectation maximisation is off by 5 % and more: benchmarks."""

MUCH = 0.1
"""A larger share of impressions below the last position, or of weight cut off, is doubtful."""

Samples = Sequence[Mapping[int, float]]

Told = Callable[[em.Round], None]
"""Is told each round of expectation maximisation."""


@dataclass(frozen=True, repr=False)
class PropensityEstimate:
    """How often positions are looked at, and how surely that is known; it prints as a table.

    Attributes:
        curve: The propensities, with intervals.
        identifiability: Group -> what the log can tell of it; none of given propensities.
        correction: What they do to click rates; None if nothing was clicked.
        moves: The items that tell them, where they are told by items that moved.
        rounds: Of expectation maximisation.
        below: The share of impressions that stood below the last position, 0 to 1.
        tolerance: The change at which expectation maximisation was to end.
    """

    curve: PropensityCurve
    identifiability: Mapping[str | None, Identifiability]
    correction: Correction | None
    moves: Moves | None = None
    rounds: tuple[em.Round, ...] = ()
    below: float = 0.0
    tolerance: float = 1.0

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict a position, for JSON."""
        return self.curve.to_dicts()

    def notes(self) -> tuple[str, ...]:
        """What a reader of corrected numbers must know."""
        known = f"propensities ({self.curve.method}): {report.given(self.curve)}"
        return (known, *self.warnings())

    def warnings(self) -> Iterator[str]:
        """What is doubtful about them, and about rates that are corrected by them."""
        if self.rounds and self.moves and self.moves.each < SPARSE:
            yield (
                f"em learns {self.moves.n_pairs:,.0f} attractions from {self.moves.each:,.1f} "
                "impressions each: where that is few, it finds the lower positions too often "
                "looked at; method: harvest does not"
            )
        for one in self._last_rounds:
            if one.change > self.tolerance:
                of = "" if one.group is None else f" of {printable(one.group)}"
                yield f"em{of} did not come to rest in {one.number} rounds (max_rounds)"
        if self.below > MUCH:
            more = "give" if self.curve.method == "given" else "raise propensity.positions for"
            yield f"{self._told_below}; {more} the propensities of more positions"
        if self.correction is None:
            yield (
                "none of the impressions whose propensity is known was clicked: corrected rates "
                "are 0"
            )
            return
        if self.correction.clipped > MUCH:
            yield (
                f"max_weight cuts off {self.correction.clipped:.0%} of the weight of clicks: lower "
                "positions are corrected by that much too little"
            )
        if warning := self.correction.warning():
            yield warning

    @property
    def _told_below(self) -> str:
        last = max(one.position for one in self.curve.rows)
        return (
            f"{self.below:.1%} of the impressions stood below position {last}, and have no part in "
            "corrected rates"
        )

    @property
    def _last_rounds(self) -> Iterable[em.Round]:
        """The last round of each group."""
        return {one.group: one for one in self.rounds}.values()

    def __repr__(self) -> str:
        return report.text(self.curve, self.identifiability, self._said())

    def _said(self) -> Iterator[str]:
        if self.moves:
            yield str(self.moves)
        yield from map(str, self._last_rounds)
        if 0 < self.below <= MUCH:
            yield self._told_below
        if self.correction:
            yield str(self.correction)
        yield from (f"note: {warning}" for warning in self.warnings())


@dataclass(frozen=True)
class _Found:
    """What an estimator says of a group."""

    propensities: Mapping[int, float]
    samples: Samples


def estimate(
    tables: ClickTables, engine: Database, progress: Told | None = None
) -> PropensityEstimate:
    """The propensities of a log that is cleaned; of given ones, what they do to it.

    They are learned from the requests of `labels.window`; without one of those that are not
    evaluated, or of all.

    Args:
        tables: The stages of the log, of which those that clean it are there.
        engine: Where they are.
        progress: Is told each round of expectation maximisation.

    Raises:
        SpecError: If no method is said.
        InputError: If the log cannot tell them, with the numbers that say so.
    """
    asked = tables.clicks.propensity
    if not asked.is_known:
        raise SpecError("clicks.propensity has method none; give harvest, em, randomised or given")
    kept = replace(tables, keeps_positions=True)
    step = Step(ITEM_POSITIONS, select_of(kept.stages_of("item_positions")))
    with nullcontext() if tables.keeps_positions else step.there(engine):
        found = _estimated(kept, engine, progress)
        there = replace(kept, propensities=found.curve)
        return replace(found, correction=correction(there, engine))


def _estimated(tables: ClickTables, engine: Database, progress: Told | None) -> PropensityEstimate:
    """All but what the correction does."""
    asked = tables.clicks.propensity
    given = PropensityCurve.of(asked)
    stood = standings(tables, engine)
    last = asked.positions if given is None else max(one.position for one in given.rows)
    below = sum(one.n_impressions for one in stood if one.position > last)
    share = below / max(sum(one.n_impressions for one in stood), 1.0)
    if given is not None:
        return PropensityEstimate(given, {}, None, below=share)
    if not any(one.n_clicks for one in stood if one.position <= last):
        raise InputError(_nothing(tables, stood))
    groups: dict[str | None, list[Standing]] = defaultdict(list)
    for one in stood:
        if 1 <= one.position <= last:
            groups[one.group].append(one)
    moved: Moves | None = None
    rounds: tuple[em.Round, ...] = ()
    if asked.method == "randomised":
        can, found = _of_random_traffic(tables, engine, groups)
    else:
        with keeping(engine, [moved_items(tables)]):
            moved = moves(engine)
            can, found, rounds = _of_moves(tables, engine, groups, progress)
    curve = PropensityCurve(asked.method, tuple(_rows(found, asked.confidence)))
    return PropensityEstimate(curve, can, None, moved, rounds, share, asked.tolerance)


Groups = Mapping[str | None, Sequence[Standing]]
Can = dict[str | None, Identifiability]
Answers = dict[str | None, _Found]


def _of_moves(
    tables: ClickTables, engine: Database, groups: Groups, progress: Told | None
) -> tuple[Can, Answers, tuple[em.Round, ...]]:
    """By harvesting, and expectation maximisation from there."""
    asked = tables.clicks.propensity
    linked, none = links(tables, engine), Links({}, {})
    own = {group: linked.get(group, none) for group in groups}
    can = {
        group: identifiability(stood, own[group].all.values(), asked.min_clicks)
        for group, stood in groups.items()
    }
    _check(can, asked.method)
    found, positions = {}, {}
    for group, one in can.items():
        positions[group] = [reach.position for reach in one.positions]
        found[group] = harvest.harvested(positions[group], one.strong)
    if asked.method == "harvest":
        drawn = {
            group: harvest.resampled(own[group], positions[group], one.strong, asked.replicates)
            for group, one in can.items()
        }
        return can, {group: _Found(found[group], drawn[group]) for group in can}, ()

    how = em.Asked(asked.tolerance, asked.max_rounds, asked.replicates, progress)
    fits = em.fitted(engine, found, how)
    answers = {group: _Found(fit.curve, fit.samples) for group, fit in fits.items()}
    return can, answers, tuple(one for fit in fits.values() for one in fit.rounds)


def _of_random_traffic(
    tables: ClickTables, engine: Database, groups: Groups
) -> tuple[Can, Answers]:
    asked = tables.clicks.propensity
    counted = random_traffic.counts(tables, engine)
    can: Can = {}
    found: Answers = {}
    for group in groups:
        parts = counted.get(group, {})
        sums = random_traffic.added((counts, 1) for counts in parts.values())
        top = sums.get(1, (0.0, 0.0))[1]
        reaches = tuple(
            Reach(group, k, n, c, inf if k == 1 else min(c, top)) for k, (n, c) in sums.items()
        )
        if not reaches:
            raise InputError(
                f"no impression{f' of {group}' if group else ''} meets propensity.randomised: "
                f"{asked.randomised}, so no propensity can be told"
            )
        can[group] = Identifiability(reaches, (tuple(sums),), (), asked.min_clicks)
    _check(can, asked.method)
    for group, one in can.items():
        positions = [reach.position for reach in one.positions]
        parts = counted[group]
        sums = random_traffic.added((counts, 1) for counts in parts.values())
        drawn = random_traffic.resampled(parts, positions, asked.replicates)
        found[group] = _Found(random_traffic.relative(sums, positions), drawn)
    return can, found


def _check(can: Mapping[str | None, Identifiability], method: str) -> None:
    if why := refusal(can, method):
        raise InputError(why)


def _rows(found: Mapping[str | None, _Found], level: float) -> Iterator[Propensity]:
    for group, one in found.items():
        first = min(one.propensities)
        for position, propensity in one.propensities.items():
            drawn = (sample.get(position) for sample in one.samples)
            ends = None if position == first else interval(drawn, level)
            low, high = ends or (None, None)
            yield Propensity(position, propensity, low, high, group)


def _nothing(tables: ClickTables, stood: Sequence[Standing]) -> str:
    """Why there is nothing to learn from."""
    days = f" of requests ({tables.learned[0]})" if tables.learned else ""
    shown = sum(one.n_impressions for one in stood)
    return (
        f"no propensity can be told: none of {shown:,.0f} impressions{days} at positions 1 to "
        f"{tables.clicks.propensity.positions} was clicked"
    )
