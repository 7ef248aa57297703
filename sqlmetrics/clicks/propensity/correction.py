"""Clicks that count by the propensity of their position: what that brings, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.curve import PROPENSITIES, PropensityCurve, propensities
from sqlmetrics.clicks.propensity.moves import stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import double

PAGE = "docs/position-bias-harm.md"

ALIKE = 0.01
"""With less bias all items are looked at alike."""

WEIGHTED = "weighted_positions"
"""The stage of the compressed log with the weights of its positions."""


@dataclass(frozen=True)
class Correction:
    """What dividing clicks by propensities does to the rates of a log.

    Bias and noise are standard deviations between pairs of a query and an item, in units of the
    mean rate. Where the noise that is added is not smaller than the bias that is taken out, the
    raw rate is as near to the truth as the corrected one, or nearer.

    Attributes:
        n_clicks: The clicks at positions whose propensities are known.
        effective_clicks: So many clicks of equal weight are as precise: the square of the sum of
            weights over the sum of their squares.
        clipped: The share of the clicks' weight that max_weight cuts off, 0 to 1.
        bias: How much raw rates differ by where items stood alone.
        noise: How much more noise corrected rates have than raw ones.
    """

    n_clicks: float
    effective_clicks: float
    clipped: float
    bias: float
    noise: float

    @property
    def helps(self) -> bool:
        """Whether it takes out more bias than it adds noise."""
        return self.bias > self.noise

    def __str__(self) -> str:
        share = self.effective_clicks / self.n_clicks
        return (
            f"{self.n_clicks:,.0f} clicks weigh as much as {self.effective_clicks:,.0f} equal "
            f"ones ({share:.0%}); {self.clipped:.1%} of the weight is clipped; the correction "
            f"removes a bias of {self.bias:.0%} of the mean rate and adds noise of "
            f"{self.noise:.0%}"
        )

    def warning(self) -> str:
        """What a reader must know before corrected rates are used; empty if nothing."""
        if self.helps:
            return ""
        if self.bias < ALIKE:
            return (
                "there is nothing to correct: positions change the mean rate by only "
                f"{self.bias:.1%}, so rate: ctr is as good; see {PAGE}"
            )
        return (
            f"the correction adds more noise ({self.noise:.0%} of the mean rate) than it removes "
            f"bias ({self.bias:.0%}): if the ranker is good, rate: ctr ranks items better; see "
            f"{PAGE}"
        )


def correction(tables: ClickTables, engine: Database) -> Correction | None:
    """What correction does to the rates of the spec, or to `ips` if these need none.

    Args:
        tables: The stages of the log, with its propensities.
        engine: Where they are.

    Returns:
        None if there is no click at a position whose propensity is known.
    """
    of_examinations = tables.clicks.labels.rate == "coee"
    stages = [*tables.stages("item_positions"), *weighted_positions(tables)]
    select = print_template("clicks/propensity/click_weights", {})
    clicks, weighted, squared, unclipped = _numbers(engine, with_stages(stages, select))
    if not clicks:
        return None
    stages.append(stage("pair_rates", {"over_examinations": of_examinations}))
    select = print_template("clicks/propensity/correction", {})
    n, examined, examined_squared, raw, raw_noise, corrected, noise = _numbers(
        engine, with_stages(stages, select)
    )
    bias = sqrt(max(examined_squared * n / examined**2 - 1, 0.0)) if n else 0.0
    added = noise * n / corrected**2 - raw_noise * n / raw**2 if n and raw and corrected else 0.0
    return Correction(
        clicks,
        weighted**2 / squared,
        max(1 - weighted / unclipped, 0.0),
        bias,
        sqrt(max(added, 0.0)),
    )


def _numbers(engine: Database, select: str) -> list[float]:
    (row,) = engine.rows(select)
    return [float(number or 0) for number in row]


def weighted_positions(tables: ClickTables) -> Iterator[Stage]:
    """The stages behind `item_positions` to the same rows with weights.

    A click counts 1 / propensity, `max_weight` at most; an impression counts as an examination
    1 over that. Rows of positions without a propensity are left out.

    Raises:
        SpecError: If the propensities are estimated from the log and are not there: SQL alone
            cannot tell them.
    """
    propensity_settings = tables.clicks.propensity
    yield from _propensities(tables)
    keys = ("layout", "position") if propensity_settings.by is not None else ("position",)
    yield _stage("position_weights", most=double(propensity_settings.max_weight), keys=keys)
    yield _stage(WEIGHTED, counted=tables.of["item_positions"], keys=keys)


def _propensities(tables: ClickTables) -> Iterator[Stage]:
    propensity_settings = tables.clicks.propensity
    curve = tables.propensities or PropensityCurve.of(propensity_settings)
    if curve is not None:
        yield propensities(curve)
    elif propensity_settings.method == "randomised":
        yield from random_propensities(tables)
    else:
        raise not_in_text(propensity_settings.method)


def not_in_text(method: str) -> SpecError:
    """The error of propensities that only a log tells, where its text alone is printed."""
    return SpecError(
        f"propensities by {method} are estimated while the log is read, so a text of SQL cannot "
        "contain them; print them with `sqlmetrics clicks propensities SPEC` and give "
        "them as propensity: {method: given, given: {1: 1, 2: ...}}"
    )


def random_propensities(tables: ClickTables) -> Iterator[Stage]:
    """The stages of the clicks by position of impressions in random order, and propensities."""
    propensity_settings = tables.clicks.propensity
    keys = ("layout", "position") if propensity_settings.by is not None else ("position",)
    view = {
        "counted": tables.of["item_positions"],
        "keys": keys,
        "last": propensity_settings.positions,
    }
    yield _stage("random_positions", **view)
    by = "layout" if propensity_settings.by is not None else ""
    yield Stage(PROPENSITIES, "clicks/propensity/random_propensities", {"by": by})


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/propensity/{name}", view)
