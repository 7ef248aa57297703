"""What a click and an impression count at a position, by its propensity."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.curve import PROPENSITIES, PropensityCurve, propensities
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import Stage
from sqlmetrics.sql.template import double

WEIGHTED = "weighted_positions"
"""The stage of the compressed log with the weights of its positions."""


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
        f"propensities by {method} are estimated while the log is read, so a text of "
        "SQL cannot have them: let `sqlmetrics clicks SPEC --show propensities` print them, "
        "and give them as propensity: {method: given, given: {1: 1, 2: ...}}"
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
